"""Networks as text: arcs that users write, and summaries as one line, a short text, and an HTML table."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from html import escape
from typing import TYPE_CHECKING, Any

from hybridbn.errors import NetworkError
from hybridbn.potentials.base import Potential
from hybridbn.variables import Continuous, Discrete, Variable, shorten

if TYPE_CHECKING:
    from hybridbn.network import Network

__all__ = ["as_html", "as_line", "as_text", "describe_variable", "is_arc_text", "parse_arcs"]

_ROWS = 50
"""The HTML table has at most this many rows: 10,000 of them stall a notebook."""

_LINES = 20
"""The text lists at most this many nodes, which fit on one screen."""

_LONGEST = 120
"""Longer cells are cut off, so that each node keeps to one line of text."""

_CELL = "text-align:left;vertical-align:top;white-space:pre-wrap"


def parse_arcs(text: str) -> tuple[list[str], list[tuple[str, str]]]:
    """Return the nodes and arcs of a text such as ``"age -> disease <- sex; ward"``.

    Chains of names with arrows between them are separated by semicolons or line ends; a name alone is a node without
    arcs.

    Examples
    --------
    >>> parse_arcs("age -> disease <- sex; ward")
    (['age', 'disease', 'sex', 'ward'], [('age', 'disease'), ('sex', 'disease')])
    >>> parse_arcs("age -> ")
    Traceback (most recent call last):
        ...
    hybridbn.errors.NetworkError: 'age ->': there is no name at an end of an arrow; write arcs as in 'a->b<-c; d'
    """
    nodes: dict[str, None] = {}
    arcs: dict[tuple[str, str], None] = {}
    for chain in filter(None, map(str.strip, re.split(r"[;\n]", text))):
        left, *steps = re.split(r"\s*(->|<-)\s*", chain)
        nodes[left] = None
        for arrow, right in zip(steps[::2], steps[1::2], strict=True):
            if not left or not right:
                raise NetworkError(
                    f"{chain!r:.80}: there is no name at an end of an arrow; write arcs as in 'a->b<-c; d'"
                )
            nodes[right] = None
            arcs[(left, right) if arrow == "->" else (right, left)] = None
            left = right
    return list(nodes), list(arcs)


def is_arc_text(text: str) -> bool:
    """Return whether a text has arrows, as names of builders have not."""
    return "->" in text or "<-" in text


def describe_variable(variable: Variable, most: int = 8) -> str:
    """Return the kind of a variable and its states or domain as text.

    Examples
    --------
    >>> describe_variable(Discrete("c", states=("a", "b"))), describe_variable(Continuous("x", domain=(0, 1)))
    ("discrete with states 'a', 'b'", 'continuous on [0.0, 1.0]')
    """
    if isinstance(variable, Continuous):
        low, high = variable.domain
        return "continuous" if math.isinf(low) and math.isinf(high) else f"continuous on [{low}, {high}]"
    cuts = "" if variable.cuts is None else f" and cuts {shorten(variable.cuts, most) or '()'}"
    return f"discrete with states {shorten(variable.states, most)}{cuts}"


def as_line(network: Network) -> str:
    """Return a line with the number of arcs and of nodes of each kind.

    Examples
    --------
    >>> from hybridbn.network import Network
    >>> as_line(Network())
    'Network: 0 nodes, 0 arcs'
    """
    variables = [variable for _, variable in network.nodes(data="variable")]
    counts = {
        "discrete": sum(isinstance(variable, Discrete) for variable in variables),
        "continuous": sum(isinstance(variable, Continuous) for variable in variables),
    }
    counts["without variable"] = len(variables) - sum(counts.values())
    kinds = ", ".join(f"{count} {kind}" for kind, count in counts.items() if count)
    title = f"Network {network.name!r}" if network.name else "Network"
    nodes, arcs = len(variables), network.number_of_edges()
    return f"{title}: {_count_noun(nodes, 'node')}{f' ({kinds})' if kinds else ''}, {_count_noun(arcs, 'arc')}"


def as_text(network: Network) -> str:
    """Return the line of `as_line` and one line for each of the first nodes.

    Examples
    --------
    >>> from hybridbn.network import Network
    >>> print(as_text(Network([("season", "rain")])))
    Network: 2 nodes (2 without variable), 1 arc
      season: no variable; no potential
      rain: no variable; no potential; from 'season'
    """
    lines = [as_line(network)]
    for name, values, parents, family in _describe_nodes(network, _LINES):
        arcs = f"; from {parents}" if parents else ""
        lines.append(f"  {name}: {values}; {family}{arcs}")
    if len(network) > _LINES:
        lines.append(f"  ... ({len(network)} nodes in all)")
    return "\n".join(lines)


def as_html(network: Network) -> str:
    """Return an HTML table of the nodes; all text that comes from the user is escaped.

    Examples
    --------
    >>> from hybridbn.network import Network
    >>> "<script>" in as_html(Network([("<script>", "b")]))
    False
    """
    head = "".join(f'<th style="{_CELL}">{title}</th>' for title in ("node", "variable", "parents", "potential"))
    body = "".join(
        "<tr>" + "".join(f'<td style="{_CELL}">{escape(cell)}</td>' for cell in cells) + "</tr>"
        for cells in _describe_nodes(network, _ROWS)
    )
    if len(network) > _ROWS:
        body += f'<tr><td colspan="4" style="{_CELL}">and {len(network) - _ROWS:,} more nodes</td></tr>'
    return (
        f"<div><p>{escape(as_line(network))}</p>"
        f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def _describe_nodes(network: Network, most: int) -> Iterator[tuple[str, str, str, str]]:
    for node, attributes in list(network.nodes(data=True))[:most]:
        variable, potential = attributes.get("variable"), attributes.get("potential")
        known = isinstance(variable, Discrete | Continuous)
        yield (
            _clip_text(node if isinstance(node, str) and node.isprintable() else repr(node)),
            _clip_text(describe_variable(variable) if known else "no variable"),
            _clip_text(shorten(_list_parents(network, node, potential))),
            type(potential).__name__ if potential is not None else "no potential",
        )


def _list_parents(network: Network, node: Any, potential: Any) -> list[Any]:
    """Return the parents in the potential's order, which networkx does not keep through `copy`."""
    if isinstance(potential, Potential):
        return [parent.name for parent in potential.parents]
    return list(network.predecessors(node))


def _clip_text(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."


def _count_noun(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
