"""What notebooks show: networks with their beliefs, posteriors, tables, explanations and ensembles as HTML.

Pictures are SVG without scripts. Text and lines have the color of the page around them, so they can be read on light
and on dark backgrounds; all text that comes from the user is escaped.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import networkx as nx
import numpy as np

from hybridbn.errors import HybridBNError
from hybridbn.formatting import escape_markup, format_number, format_of, format_probability, shorten_text
from hybridbn.inference.explanations import Explanation
from hybridbn.inference.posteriors import ContinuousPosterior, DiscretePosterior, Posterior
from hybridbn.network import Network
from hybridbn.network_description import as_html, as_line
from hybridbn.options import Options
from hybridbn.pictures.chart import Axis, Chart, Rectangles
from hybridbn.pictures.networks import chart_network
from hybridbn.pictures.posteriors import chart_explanation, chart_posterior
from hybridbn.tables import Rows

if TYPE_CHECKING:
    from hybridbn.learning.ensemble import Ensemble

MOST_NODES = 400
"""Larger networks are shown as a table."""
MOST_ROWS = 10
"""The most rows of a batch of posteriors."""
QUICK = Options(tolerance=1e-3, max_bytes=2.0**27)
"""A picture needs three digits, and should not take long."""

_CELL = "text-align:left;padding:1px 10px 1px 0"
_NUMBER = "text-align:right;padding:1px 10px 1px 0;font-variant-numeric:tabular-nums"


def show_network(network: Network) -> str:
    """Return the graph with the belief of each node in its box, and a table of the nodes to unfold.

    More than 60 nodes are a map of their names. Larger networks, and graphs that are no networks yet, are a table or a
    graph without beliefs.

    Examples
    --------
    >>> import hybridbn as hb
    >>> html = show_network(hb.Network([hb.Multinomial(hb.Discrete("<c>", ("a", "b")), table=[0.25, 0.75])]))
    >>> "0.250" in html, "<c>" in html
    (True, False)
    """
    table = as_html(network)
    if not 0 < len(network) <= MOST_NODES or not nx.is_directed_acyclic_graph(network):
        return table
    with warnings.catch_warnings(action="ignore"):
        try:
            chart = chart_network(network, options=QUICK)
        except HybridBNError:
            chart = chart_network(network, beliefs_shown=False)
    return (
        f"<div><p>{escape_markup(as_line(network))}</p>{chart.to_svg()}"
        f"<details><summary>nodes</summary>{table}</details></div>"
    )


def draw_network(network: Network, evidence: Mapping[str, Any]) -> str:
    """Return the graph with its beliefs given the evidence as an ``<svg>`` element."""
    return chart_network(network, evidence, options=QUICK).to_svg()


def show_posterior(posterior: Posterior) -> str:
    """Return a picture of one posterior and its numbers, or the numbers of the first rows of a batch."""
    name = escape_markup(posterior.variable.name)
    if not posterior.single:
        return _show_batch(posterior)
    if isinstance(posterior, DiscretePosterior):
        return f"<div><p>posterior of {name}</p>{_draw_posterior(posterior)}</div>"
    assert isinstance(posterior, ContinuousPosterior)
    variable, unit = posterior.variable, posterior.variable.unit
    mean, median, low, high = (
        format_of(variable, float(number), posterior.numeric.std())
        for number in (posterior.numeric.mean(), posterior.numeric.median(), *posterior.numeric.interval(0.9))
    )
    spread = format_number(posterior.numeric.std()) + ("" if unit is None else f" {unit.name.split()[0]}")
    facts = [("mean", mean), ("sd", spread), ("median", median), ("90 % interval", f"{low} to {high}")]
    cells = "".join(f'<tr><td style="{_CELL}">{escape_markup(fact)}</td>{_number(text)}</tr>' for fact, text in facts)
    picture = _draw_posterior(posterior)
    kind = "posterior density" if len(posterior.trace().x) else "posterior"
    return f"<div><p>{kind} of {name}</p>{picture}<table><tbody>{cells}</tbody></table></div>"


def _draw_posterior(posterior: Posterior) -> str:
    """Draw a posterior; rows whose evidence is impossible have none."""
    try:
        return chart_posterior(posterior).to_svg()
    except HybridBNError as error:
        return f"<p>{escape_markup(str(error))}</p>"


def _show_batch(posterior: Posterior) -> str:
    rows = min(len(posterior), MOST_ROWS)
    part: Any = posterior[:rows]
    if isinstance(posterior, DiscretePosterior):
        head = [str(state) for state in posterior.states[:12]]
        body = [[format_probability(value) for value in line[:12].tolist()] for line in part.probabilities]
    else:
        head = ["mean", "sd", "5 %", "50 %", "95 %"]
        assert isinstance(posterior, ContinuousPosterior)
        levels = np.asarray(part.numeric.quantile([0.05, 0.5, 0.95])) if rows else np.empty((0, 3))
        columns = [np.atleast_1d(part.numeric.mean()), np.atleast_1d(part.numeric.std()), *levels.T] if rows else []
        body = [
            [format_number(float(x)) if at == 1 else format_of(posterior.variable, float(x), line[1])
             for at, x in enumerate(line)]
            for line in zip(*columns, strict=True)
        ]  # fmt: skip
    lines = "".join(
        f"<tr>{_number(str(i))}{''.join(_number(text) for text in line)}</tr>" for i, line in enumerate(body)
    )
    titles = "".join(f'<th style="{_NUMBER}">{escape_markup(shorten_text(title, 24))}</th>' for title in ["row", *head])
    more = f"<p>and {len(posterior) - rows:,} more rows</p>" if len(posterior) > rows else ""
    return (
        f"<div><p>posteriors of {escape_markup(str(posterior.variable.name))}</p>"
        f"<table><thead><tr>{titles}</tr></thead><tbody>{lines}</tbody></table>{more}</div>"
    )


def show_explanation(explanation: Explanation) -> str:
    """Return the weights of evidence as steps to the left and to the right."""
    title = f"log-odds of {explanation.target} = {explanation.state!r} against the rest"
    probability = format_probability(explanation.probability)
    return (
        f"<div><p>{escape_markup(title)}; probability {probability}</p>{chart_explanation(explanation).to_svg()}</div>"
    )


def show_table(table: Rows) -> str:
    """Return the columns with their kinds, states and missing cells, as the text form has them."""
    title, *lines = repr(table).splitlines()
    return f"<div><p>{escape_markup(title)}</p><pre>{escape_markup(chr(10).join(lines))}</pre></div>"


def show_ensemble(ensemble: Ensemble) -> str:
    """Return the votes of the networks as bars."""
    votes = np.asarray(ensemble.votes)
    at = np.arange(1, len(votes) + 1)
    tips = [f"network {i}: vote {format_number(vote)}" for i, vote in enumerate(votes.tolist())]
    words = f"{len(votes)} networks vote on {ensemble.target}, with votes from {format_number(votes.min())} to " + (
        f"{format_number(votes.max())}."
    )
    bars = Rectangles(at - 0.45, at + 0.45, 0.0, votes, tips=tips)
    chart = Chart([bars], "", words, Axis("round", 0.4, len(votes) + 0.6), Axis("vote", 0.0), (5.0, 1.6))
    return f"<div><p>{escape_markup(repr(ensemble))}</p>{chart.to_svg()}</div>"


def _number(text: str) -> str:
    return f'<td style="{_NUMBER}">{escape_markup(text)}</td>'
