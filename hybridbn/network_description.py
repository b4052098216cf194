"""Networks in words: the faults that keep a graph with potentials from being a Bayesian network and their remedies, a
network as text and as an HTML table, and arcs written as text.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from html import escape
from typing import TYPE_CHECKING, Any

import networkx as nx

from hybridbn.errors import NetworkError
from hybridbn.potentials.base import Potential
from hybridbn.variables import Continuous, Discrete, Variable, find_similar_names, shorten

if TYPE_CHECKING:
    from hybridbn.network import Network

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
        left, *steps = map(str.strip, re.split("(->|<-)", chain))
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
    nodes = [
        f"  {name}: {values}; {family}{f'; from {parents}' if parents else ''}"
        for name, values, parents, family in _describe_nodes(network, _LINES)
    ]
    more = [f"  ... ({len(network)} nodes in all)"] if len(network) > _LINES else []
    return "\n".join([as_line(network), *nodes, *more])


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
    known = isinstance(potential, Potential)
    return [parent.name for parent in potential.parents] if known else list(network.predecessors(node))


def _clip_text(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."


def _count_noun(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


# -- faults -----------------------------------------------------------------------------------------------------------

_MOST_FAULTS = 1000
"""A message lists this many faults and counts the others, so that it stays readable."""
_MOST_NAMES = 8
"""A message lists at most this many names to be changed."""


def check_graph_data(data: Any) -> bool:
    """Return whether a network is made of a directed graph; raise `NetworkError` for other graphs and for a potential
    that is not in a list.
    """
    if isinstance(data, Potential):
        raise NetworkError(f"a network is made of a list of potentials; write Network([...]) around {data!r}")
    is_graph = isinstance(data, nx.Graph)
    if is_graph and (data.is_multigraph() or not data.is_directed()):
        kind = "parallel arcs (a multigraph)" if data.is_multigraph() else "arcs without direction"
        raise NetworkError(f"a network is a directed acyclic graph; this {type(data).__name__} has {kind}")
    return is_graph


def list_graph_data(data: Any) -> list[Any]:
    """Return the potentials or arcs that a network is made of; raise `NetworkError` where there are none."""
    if isinstance(data, Mapping | str | bytes) or not isinstance(data, Iterable):
        raise NetworkError(
            f"a network is made of potentials, arcs or a directed graph, not of type {type(data).__name__}"
        )
    return list(data)


def check_potential(potential: Any) -> Potential:
    """Return a potential; raise `NetworkError` for anything else and for a variable that is its own parent."""
    if not isinstance(potential, Potential):
        raise NetworkError(f"expected a potential, not {potential!r}")
    scope = potential.scope
    if scope[-1] in scope[:-1]:
        raise NetworkError(f"{potential!r}: {scope[-1]!r} can't be its own parent")
    return potential


def check_new_potential(network: nx.DiGraph[Any], potential: Any) -> Potential:
    """Return a potential that a network may get; raise `NetworkError` where it would close a cycle, or has other
    variables of the same names.
    """
    child = check_potential(potential).child
    if nx.is_frozen(network):
        raise NetworkError(f"can't add {potential!r} to a frozen network or a view; add to its copy() instead")
    for parent in potential.parents:
        present = network.nodes[parent.name].get("variable") if parent.name in network else None
        if present is not None and differ(present, parent):
            raise NetworkError(describe_disagreement(child.name, parent, present))
    for name in network.successors(child.name) if child.name in network else ():
        below = network.nodes[name].get("potential")
        if isinstance(below, Potential) and child.name in below.scope and differ(below.variable(child.name), child):
            raise NetworkError(describe_disagreement(name, below.variable(child.name), child))
    for above in potential.scope[:-1] if child.name in network else ():
        if above in network:
            # a search from both ends keeps this cheap
            with suppress(nx.NetworkXNoPath):
                path = nx.bidirectional_shortest_path(network, child.name, above)
                raise NetworkError(f"{potential!r} would close {format_cycle(path)}")
    return potential  # type: ignore[no-any-return]


def collect_potentials(potentials: Iterable[Any]) -> tuple[dict[str, Potential], dict[str, Variable]]:
    """Return the potentials of a network and all its variables by name; raise `NetworkError` where two potentials
    belong to one node, or variables of one name differ.
    """
    by_name: dict[str, Potential] = {}
    for potential in potentials:
        name = check_potential(potential).child.name
        if name in by_name:
            raise NetworkError(f"two potentials for {name!r}: {by_name[name]!r} and {potential!r}; give one a node")
        by_name[name] = potential
    variables: dict[str, Variable] = {name: potential.child for name, potential in by_name.items()}
    for name, potential in by_name.items():
        for parent in potential.parents:
            present = variables.setdefault(parent.name, parent)
            if differ(present, parent):
                raise NetworkError(describe_disagreement(name, parent, present))
    return by_name, variables


def describe_unknown_node(name: Any, nodes: Collection[Any]) -> str:
    """Return the message for a name that is no node, with names that resemble it.

    Examples
    --------
    >>> describe_unknown_node("seson", ["season", "rain"])
    "the network has no node 'seson'; did you mean 'season'?"
    """
    close = find_similar_names(name, nodes)
    hint = f"; did you mean {' or '.join(map(repr, close))}?" if close else f"; its nodes are {shorten(nodes)}"
    return f"the network has no node {name!r}{hint if len(nodes) else '; it is empty'}"


def check_new_names(names: Any, nodes: Iterable[str]) -> Mapping[str, str]:
    """Return a mapping of old names to new ones; raise `NetworkError` where these are no names, or make nodes equal.

    Examples
    --------
    >>> check_new_names({"a": "b"}, ["a", "b"])
    Traceback (most recent call last):
        ...
    hybridbn.errors.NetworkError: renaming would give several nodes the name 'b'; names must differ
    """
    if not isinstance(names, Mapping):
        raise NetworkError(f"the names to change are a mapping of old names to new ones, not {names!r:.80}")
    for old, new in names.items():
        if not isinstance(new, str) or not new:
            raise NetworkError(f"can't rename {old!r} to {new!r}; a name is a non-empty string")
    clashes = [name for name, count in Counter(names.get(node, node) for node in nodes).items() if count > 1]
    if clashes:
        raise NetworkError(f"renaming would give several nodes the name {shorten(clashes)}; names must differ")
    return names


def raise_faults(network: nx.DiGraph[Any]) -> None:
    """Raise `NetworkError` where a network has faults, naming them all.

    Examples
    --------
    >>> raise_faults(nx.DiGraph([("a", "a")]))
    Traceback (most recent call last):
        ...
    hybridbn.errors.NetworkError: the network has 2 faults:
    - node 'a' has an arc to itself; remove it
    - node 'a' has no variable and no potential; add one with net.add
    """
    names = describe_stale_names(network)
    faults = [*describe_cycles(network), *([names] if names else [])]
    faults += [fault for node in network for fault in _find_node_faults(network, node)]
    if len(faults) == 1:
        raise NetworkError(faults[0])
    if faults:
        more = f"\n... and {len(faults) - _MOST_FAULTS} more" if len(faults) > _MOST_FAULTS else ""
        raise NetworkError("\n- ".join([f"the network has {len(faults)} faults:", *faults[:_MOST_FAULTS]]) + more)


def describe_stale_names(network: nx.DiGraph[Any]) -> str:
    """Return the message for nodes that carry the variable or potential of another name; empty where there are none.

    Examples
    --------
    >>> graph = nx.DiGraph()
    >>> graph.add_node("z", variable=Continuous("x"))
    >>> describe_stale_names(graph)[:51]
    "node 'z' carries the variable or potential of 'x'; "
    """
    stale: dict[str, Any] = {}
    for node, attributes in network.nodes.items():
        for name in _names_within(attributes):
            if name != node:
                stale.setdefault(name, node)
    if not stale:
        return ""
    old, new = next(iter(stale.items()))
    more = f" ({len(stale)} nodes do so)" if len(stale) > 1 else ""
    names = {name: node if isinstance(node, str) else str(node) for name, node in list(stale.items())[:_MOST_NAMES]}
    return (
        f"node {new!r} carries the variable or potential of {old!r}{more}; networkx.relabel_nodes renames only the "
        f"graph: use net.rename({names!r:.600}{', with all names' if len(names) < len(stale) else ''}) on the network "
        "as it was before instead"
    )


def _names_within(attributes: Mapping[str, Any]) -> list[str]:
    """Return the names of a node's variable and of its potential's child."""
    variable, potential = attributes.get("variable"), attributes.get("potential")
    names = [variable.name] if isinstance(variable, Discrete | Continuous) else []
    return [*names, potential.child.name] if isinstance(potential, Potential) else names


def _find_node_faults(network: nx.DiGraph[Any], node: Any) -> Iterator[str]:
    attributes = network.nodes[node]
    variable, potential = attributes.get("variable"), attributes.get("potential")
    lacking = [what for what, it in (("variable", variable), ("potential", potential)) if it is None]
    if lacking:
        remedy = "add one with net.add" if potential is None else "set it to the potential's child"
        yield f"node {node!r} has no {' and no '.join(lacking)}; {remedy}"
    if variable is not None and not isinstance(variable, Discrete | Continuous):
        yield f"the variable of node {node!r} must be Discrete or Continuous, not {variable!r}"
        variable = None
    if potential is not None and not isinstance(potential, Potential):
        yield f"the potential of node {node!r} must be a Potential, not {potential!r}"
        potential = None
    if potential is None:
        return
    stale = any(name != node for name in _names_within(attributes))
    if variable is not None and not stale and differ(variable, potential.child):
        yield f"node {node!r} is {_describe_both(variable, potential.child)} in its own potential"
    yield from _find_parent_faults(network, node, potential)


def _find_parent_faults(network: nx.DiGraph[Any], node: Any, potential: Potential) -> Iterator[str]:
    arcs = set(network.predecessors(node)) - {node}
    names = [parent.name for parent in potential.parents]
    missing, surplus = [name for name in names if name not in arcs], sorted(arcs.difference(names), key=repr)
    if missing or surplus:
        parts = [f"lacks the parents {shorten(surplus)} that have arcs to it"] if surplus else []
        parts += [f"has parents without an arc to it: {shorten(missing)}"] if missing else []
        yield f"the potential of node {node!r} {' and '.join(parts)}; replace it with net.add or mend the arcs"
    for parent in potential.parents:
        present = network.nodes[parent.name].get("variable") if parent.name in arcs else None
        if isinstance(present, Discrete | Continuous) and present.name == parent.name and differ(present, parent):
            yield describe_disagreement(node, parent, present)


def differ(a: Variable, b: Variable) -> bool:
    """Return whether variables differ; states of different types do, although 1 == True == 1.0 in Python.

    Examples
    --------
    >>> differ(Discrete("c", states=(0, 1)), Discrete("c", states=(False, True)))
    True
    """
    if a is b:
        return False
    if isinstance(a, Discrete) and isinstance(b, Discrete):
        return a != b or any(type(s) is not type(t) for s, t in zip(a.states, b.states, strict=True))
    return a != b


def describe_disagreement(child: str, parent: Variable, present: Variable) -> str:
    """Return the message for a potential that was built with another variable than the network has under that name.

    Examples
    --------
    >>> describe_disagreement("y", Continuous("x"), Continuous("x", domain=(0, 1)))[:60]
    "the potential of 'y' was built with another 'x' than the net"
    """
    return (
        f"the potential of {child!r} was built with another {parent.name!r} than the network has: there it is "
        f"{_describe_both(parent, present)} in the network; build both with the same variable"
    )


def _describe_both(a: Variable, b: Variable) -> str:
    """Describe two variables that differ, with the first differing state where their descriptions are the same."""
    first, second = describe_variable(a), describe_variable(b)
    if first == second and isinstance(a, Discrete) and isinstance(b, Discrete):
        for i, (s, t) in enumerate(zip(a.states, b.states, strict=False)):
            if repr(s) != repr(t):
                return f"{first} where state {i} is {s!r}, but {t!r}"
        first, second = f"{first}, cuts {a.cuts!r}", f"{second}, cuts {b.cuts!r}"
    return f"{first}, but {second}"


def describe_cycles(graph: nx.DiGraph[Any]) -> list[str]:
    """Describe one cycle of every strongly connected component, and every self loop.

    Examples
    --------
    >>> describe_cycles(nx.DiGraph([("a", "b"), ("b", "c"), ("c", "b")]))
    ["the arcs form a cycle: 'b' -> 'c' -> 'b'"]
    """
    descriptions = [f"node {node!r} has an arc to itself; remove it" for node in nx.nodes_with_selfloops(graph)]
    if nx.is_directed_acyclic_graph(graph):
        return descriptions
    for component in nx.strongly_connected_components(graph):
        if len(component) > 1:
            arcs = [(a, b) for a, b in graph.edges if a != b and a in component and b in component]
            nodes = [node for node, _ in nx.find_cycle(nx.DiGraph(arcs))]
            descriptions.append(f"the arcs form {format_cycle(nodes)}")
    return descriptions


def format_cycle(nodes: list[Any]) -> str:
    """Return the nodes of a cycle in the order of the arcs as text; long ones lose their middle.

    Examples
    --------
    >>> format_cycle(["a", "b"])
    "a cycle: 'a' -> 'b' -> 'a'"
    """
    shown = nodes if len(nodes) <= 20 else [*nodes[:10], "...", *nodes[-9:]]
    links = [node if node == "..." else repr(node) for node in [*shown, nodes[0]]]
    return f"a cycle: {' -> '.join(links)}"


def find_factors(network: nx.DiGraph[Any]) -> dict[str, Any]:
    """Return the observed states of the nodes that stand for factors of a Markov network; raise where one is missing.

    Examples
    --------
    >>> find_factors(nx.DiGraph(factors=("f",), evidence={"f": 1}))
    Traceback (most recent call last):
        ...
    hybridbn.errors.NetworkError: the network lacks the factors 'f' of the Markov network that it is a part of, so its
    answers would be wrong; ask the whole network, or set net.graph['factors'] to those that shall count
    """
    factors = network.graph.get("factors", ())
    missing = [name for name in factors if name not in network]
    if missing:
        raise NetworkError(
            f"the network lacks the factors {shorten(missing)} of the Markov network that it is a part of, so its"
            " answers would be wrong; ask the whole network, or set net.graph['factors'] to those that shall count"
        )
    findings = network.graph.get("evidence", {})
    return {name: findings.get(name, 1) for name in factors}
