"""What notebooks show: networks with their beliefs, posteriors, tables, explanations and ensembles as HTML.

Pictures are SVG without scripts. Text and lines have the color of the page around them, so they can be read on light
and on dark backgrounds; all text that comes from the user is escaped.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from html import escape
from typing import TYPE_CHECKING, Any

import networkx as nx
import numpy as np

from hybridbn.errors import HybridBNError
from hybridbn.inference.explain import Explanation
from hybridbn.inference.posteriors.base import DiscretePosterior, Posterior
from hybridbn.inference.posteriors.continuous import ContinuousPosterior
from hybridbn.inference.queries import posteriors
from hybridbn.network import Network
from hybridbn.network_summary import as_html, as_line
from hybridbn.options import Options
from hybridbn.pictures.layout import lay_out
from hybridbn.pictures.plots import choose_states, shorten_text, trace_density
from hybridbn.potentials.point_mass import PointMass
from hybridbn.tables import Table

if TYPE_CHECKING:
    from hybridbn.learning.ensemble import Ensemble

__all__ = ["show_ensemble", "show_explanation", "show_network", "show_posterior", "show_table"]

BOX, GAP, TITLE = (150.0, 78.0), (24.0, 40.0), 19.0
"""The size of a node's box, the distance between boxes, and the height of its title, in pixels."""
MOST_NODES = 60
"""Larger networks are shown as a table."""
MOST_BARS, MOST_ROWS = 5, 10
"""The most states in a node, and the most rows of a batch of posteriors."""
QUICK = Options(tolerance=1e-3, max_bytes=2.0**27)
"""A picture needs three digits, and should not take long."""
BAR, LIMIT = "#4f86c6", "#d9694f"
"""Blue and orange with enough contrast on white and on dark gray."""

_CELL = "text-align:left;padding:1px 10px 1px 0"
_NUMBER = "text-align:right;padding:1px 10px 1px 0;font-variant-numeric:tabular-nums"


def show_network(network: Network) -> str:
    """Return the graph with the belief of each node in its box, and a table of the nodes to unfold.

    Large networks, and graphs that are no networks yet, are a table or a graph without beliefs.

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
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            beliefs = posteriors(network, None, options=QUICK)
    except HybridBNError:
        beliefs = {}
    layout = lay_out(network, BOX, GAP)
    parts = [_draw_arc(route) for route in layout.routes.values()]
    for node, (x, y) in layout.centers.items():
        potential = network.nodes[node].get("potential")
        value = potential.value if isinstance(potential, PointMass) else None
        parts.append(_draw_node(str(node), x - BOX[0] / 2, y - BOX[1] / 2, beliefs.get(node), value))
    return (
        f"<div><p>{escape(as_line(network))}</p>{_wrap(layout.width, layout.height, parts, as_line(network))}"
        f"<details><summary>nodes</summary>{table}</details></div>"
    )


def show_posterior(posterior: Posterior) -> str:
    """Return a picture of one posterior and its numbers, or the numbers of the first rows of a batch."""
    name = str(posterior.variable.name)
    if not posterior.single:
        return _show_batch(posterior)
    if isinstance(posterior, DiscretePosterior):
        states, probabilities = choose_states(posterior, 12)
        rows = zip(states, probabilities.tolist(), strict=True)
        return f"<div><p>posterior of {escape(name)}</p>{_show_bars(rows)}</div>"
    assert isinstance(posterior, ContinuousPosterior)
    low, high = posterior.interval(0.9)
    facts = [("mean", posterior.mean()), ("sd", posterior.std()), ("median", posterior.median())]
    cells = "".join(f"<tr>{_cell(fact)}{_number(f'{value:.6g}')}</tr>" for fact, value in facts)
    cells += f"<tr>{_cell('90 % interval')}{_number(f'{low:.6g} to {high:.6g}')}</tr>"
    picture = _wrap(320, 130, _draw_density(posterior, 4, 4, 312, 122), f"density of {name}")
    return f"<div><p>posterior density of {escape(name)}</p>{picture}<table><tbody>{cells}</tbody></table></div>"


def _show_batch(posterior: Posterior) -> str:
    rows = min(len(posterior), MOST_ROWS)
    part: Any = posterior[:rows]
    if isinstance(posterior, DiscretePosterior):
        head = [str(state) for state in posterior.states[:12]]
        body = [[f"{value:.4f}" for value in line[:12]] for line in part.probabilities]
    else:
        head = ["mean", "sd", "5 %", "50 %", "95 %"]
        levels = np.asarray(part.quantile([0.05, 0.5, 0.95])) if rows else np.empty((0, 3))
        columns = [np.atleast_1d(part.mean()), np.atleast_1d(part.std()), *levels.T] if rows else []
        body = [[f"{value:.6g}" for value in line] for line in zip(*columns, strict=True)]
    lines = "".join(
        f"<tr>{_number(str(i))}{''.join(_number(text) for text in line)}</tr>" for i, line in enumerate(body)
    )
    titles = "".join(f'<th style="{_NUMBER}">{escape(shorten_text(title, 24))}</th>' for title in ["row", *head])
    more = f"<p>and {len(posterior) - rows:,} more rows</p>" if len(posterior) > rows else ""
    return (
        f"<div><p>posteriors of {escape(str(posterior.variable.name))}</p><table><thead><tr>{titles}</tr></thead>"
        f"<tbody>{lines}</tbody></table>{more}</div>"
    )


def show_explanation(explanation: Explanation) -> str:
    """Return the weights of evidence as bars to the left and to the right of zero."""
    steps = {"without evidence": explanation.prior, **explanation.weights, "in all": explanation.log_odds}
    finite = [abs(value) for value in steps.values() if np.isfinite(value)]
    scale = 70 / max([*finite, 1e-300])
    rows = []
    for name, value in steps.items():
        length = min(abs(value) * scale, 74) if np.isfinite(value) else 74
        left, color = (80 - length, LIMIT) if value < 0 else (80, BAR)
        bar = (
            f'<rect x="{left:.1f}" y="3" width="{length:.1f}" height="10" fill="{color}"/>'
            '<line x1="80" y1="0" x2="80" y2="16" stroke="currentColor" stroke-opacity=".5"/>'
        )
        picture = _wrap(160, 16, [bar], f"{name}: {value:+.4f}")
        rows.append(f"<tr>{_cell(str(name))}<td>{picture}</td>{_number(f'{value:+.4f}')}</tr>")
    title = f"log-odds of {explanation.target} = {explanation.state!r} against the rest"
    return (
        f"<div><p>{escape(title)}; probability {explanation.probability:.4g}</p>"
        f"<table><tbody>{''.join(rows)}</tbody></table></div>"
    )


def show_table(table: Table) -> str:
    """Return the columns with their kinds, states and missing cells, as the text form has them."""
    title, *lines = repr(table).splitlines()
    return f"<div><p>{escape(title)}</p><pre>{escape(chr(10).join(lines))}</pre></div>"


def show_ensemble(ensemble: Ensemble) -> str:
    """Return the votes of the networks as bars."""
    votes = np.asarray(ensemble.votes)
    width = max(160.0, min(640.0, 8.0 * len(votes)))
    step, scale = width / len(votes), 60 / max(float(np.abs(votes).max()), 1e-300)
    bars = [
        f'<rect x="{i * step:.2f}" y="{62 - vote * scale:.2f}" width="{max(step - 1, 0.5):.2f}" '
        f'height="{vote * scale:.2f}" fill="{BAR}"><title>network {i}: vote {vote:.4g}</title></rect>'
        for i, vote in enumerate(votes.tolist())
    ]
    title = f"{len(votes)} networks vote on {ensemble.target}"
    return f"<div><p>{escape(repr(ensemble))}</p>{_wrap(width, 64, bars, title)}<p>votes by round</p></div>"


# -- parts of pictures ------------------------------------------------------------------------------------------------


def _wrap(width: float, height: float, parts: Iterable[str], label: str) -> str:
    return (
        f'<svg viewBox="0 0 {width:.0f} {height:.0f}" width="{width:.0f}" height="{height:.0f}" role="img" '
        f'aria-label="{escape(label)}" style="max-width:100%;height:auto" font-family="system-ui,sans-serif" '
        f'font-size="11" fill="currentColor">{"".join(parts)}</svg>'
    )


def _draw_arc(route: Sequence[tuple[float, float]]) -> str:
    """Draw a smooth line downwards that ends in an arrow's head."""
    (x, y), *others = route
    path = [f"M{x:.1f} {y:.1f}"]
    for end_x, end_y in others:
        middle = (y + end_y) / 2
        path.append(f"C{x:.1f} {middle:.1f} {end_x:.1f} {middle:.1f} {end_x:.1f} {end_y:.1f}")
        x, y = end_x, end_y
    head = f"M{x - 3.5:.1f} {y - 7:.1f}L{x:.1f} {y:.1f}L{x + 3.5:.1f} {y - 7:.1f}Z"
    return (
        f'<path d="{"".join(path)}" fill="none" stroke="currentColor" stroke-opacity=".55"/>'
        f'<path d="{head}" fill-opacity=".7"/>'
    )


def _draw_node(name: str, left: float, top: float, posterior: Posterior | None, value: float | None) -> str:
    width, height = BOX
    parts = [
        f'<g><title>{escape(name)}</title><rect x="{left:.1f}" y="{top:.1f}" width="{width:g}" height="{height:g}" '
        'rx="5" fill="none" stroke="currentColor" stroke-opacity=".45"/>',
        _draw_text(left + width / 2, top + 14, shorten_text(name, 22), "middle"),
    ]
    if isinstance(posterior, DiscretePosterior):
        states, probabilities = choose_states(posterior, MOST_BARS)
        step = (height - TITLE - 4) / max(len(states), 3)
        first = top + TITLE + (height - TITLE - 4 - step * len(states)) / 2
        for i, (state, probability) in enumerate(zip(states, probabilities.tolist(), strict=True)):
            y = first + i * step
            parts += [
                _draw_text(left + 64, y + step / 2 + 3.5, shorten_text(state, 10), "end", 10),
                f'<rect x="{left + 68:.1f}" y="{y + 1:.1f}" width="42" height="{step - 2:.1f}" fill-opacity=".1"/>',
                f'<rect x="{left + 68:.1f}" y="{y + 1:.1f}" width="{42 * probability:.2f}" height="{step - 2:.1f}" '
                f'fill="{BAR}"/>',
                _draw_text(left + width - 4, y + step / 2 + 3.5, f"{probability:.3f}", "end", 10),
            ]
    elif isinstance(posterior, ContinuousPosterior):
        parts += _draw_density(posterior, left + 6, top + TITLE, width - 12, height - TITLE - 3)
    elif value is not None:
        parts.append(_draw_text(left + width / 2, top + (TITLE + height) / 2, f"{value:.6g}", "middle"))
    return "".join([*parts, "</g>"])


def _draw_density(posterior: Posterior, left: float, top: float, width: float, height: float) -> list[str]:
    """Draw the curve of a density above an axis with the ends of its range."""
    assert isinstance(posterior, ContinuousPosterior)
    x, density = trace_density(posterior, 120)
    low, high = float(x[0]), float(x[-1])
    floor = top + height - 12
    across = left + (x - low) / (high - low or 1) * width
    up = floor - density / (float(np.max(density)) or 1) * (floor - top - 2)
    points = " ".join(f"{a:.1f},{b:.1f}" for a, b in zip(across.tolist(), up.tolist(), strict=True))
    return [
        f'<polygon points="{left:.1f},{floor:.1f} {points} {left + width:.1f},{floor:.1f}" fill="{BAR}" '
        'fill-opacity=".3"/>',
        f'<polyline points="{points}" fill="none" stroke="{BAR}" stroke-width="1.4"/>',
        f'<line x1="{left:.1f}" y1="{floor:.1f}" x2="{left + width:.1f}" y2="{floor:.1f}" stroke="currentColor" '
        'stroke-opacity=".4"/>',
        _draw_text(left, floor + 10, f"{low:.3g}", "start", 9),
        _draw_text(left + width, floor + 10, f"{high:.3g}", "end", 9),
    ]


def _draw_text(x: float, y: float, text: str, anchor: str, size: int = 12) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}">{escape(text)}</text>'


def _show_bars(rows: Iterable[tuple[str, float]]) -> str:
    lines = []
    for state, probability in rows:
        bar = f'<rect width="160" height="12" fill-opacity=".1"/><rect width="{160 * probability:.2f}" height="12" '
        picture = _wrap(160, 12, [f'{bar}fill="{BAR}"/>'], f"{state}: {probability:.4f}")
        lines.append(f"<tr>{_cell(shorten_text(state, 40))}<td>{picture}</td>{_number(f'{probability:.4f}')}</tr>")
    return f"<table><tbody>{''.join(lines)}</tbody></table>"


def _cell(text: str) -> str:
    return f'<td style="{_CELL}">{escape(text)}</td>'


def _number(text: str) -> str:
    return f'<td style="{_NUMBER}">{escape(text)}</td>'
