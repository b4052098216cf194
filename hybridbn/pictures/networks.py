"""Pictures of networks: beliefs in the nodes, a map of many nodes, the neighborhood of one, and strengths of arcs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import networkx as nx
import numpy as np

from hybridbn.errors import HybridBNError, NetworkError, TableError
from hybridbn.formatting import format_of, format_probability, shorten_text
from hybridbn.inference.evidence import EvidenceReader, find_point_masses
from hybridbn.inference.posteriors import ContinuousPosterior, DiscretePosterior, Posterior
from hybridbn.inference.queries import posteriors
from hybridbn.network import Network
from hybridbn.network_description import as_line, describe_cycles, describe_unknown_node
from hybridbn.options import Options, check_count
from hybridbn.pictures.chart import (
    LETTER,
    Arrow,
    Axis,
    Chart,
    Frame,
    Line,
    Mark,
    Points,
    Rectangles,
    Text,
    check_kind,
    fit_ticks,
    place_along,
)
from hybridbn.pictures.layout import Layout, lay_out
from hybridbn.pictures.posteriors import (
    choose_width,
    describe_posterior,
    draw_trace,
    find_height,
    group_states,
    make_axis,
    sum_groups,
)
from hybridbn.variables import Continuous

_MOST_FULL, _MOST_BELIEFS, _MOST_NODES = 20, 60, 1000
"""The most nodes with large boxes, with beliefs, and of a picture."""
_MOST_TOLD = 12
"""The alternative text tells the beliefs of this many nodes."""
_LEAST_SCALE = 0.85
"""Boxes are not drawn smaller than this; there is less in them instead."""
_HUBS = 12
"""The nodes with the most arcs, which have names in a map of dots."""


@dataclass(frozen=True)
class _Detail:
    """How much the box of a node holds; sizes in inches, of texts in points.

    The height of the title is that of the box where there is no belief below it.
    """

    box: tuple[float, float]
    gap: tuple[float, float]
    title: float
    fonts: tuple[float, float]
    bars: int = 0

    def letters(self, width: float, font: float) -> int:
        """Return how many letters have room; screens have larger letters than print."""
        return max(3, int(width * 72 / (1.25 * LETTER * font)))


_FULL = _Detail((2.1, 1.1), (0.35, 0.55), 0.26, (9.0, 7.0), 5)
_COMPACT = _Detail((1.36, 0.74), (0.16, 0.32), 0.19, (7.5, 6.5), 4)
_DOTS = _Detail((0.14, 0.14), (0.12, 0.24), 0.14, (6.5, 6.5))


def _fit_names(names: Sequence[Any]) -> _Detail:
    """Return boxes that hold names, the longest of which are cut."""
    longest = min(max((len(str(name)) for name in names), default=1), 18)
    return _Detail((0.16 + longest * 1.25 * LETTER * 7.0 / 72, 0.21), (0.12, 0.3), 0.21, (7.0, 7.0))


def plot_network(
    network: Network,
    evidence: Mapping[str, Any] | None = None,
    ax: Any = None,
    size: float = 1.0,
    *,
    around: str | None = None,
    steps: int = 1,
) -> Any:
    """Draw the graph with the belief of each variable in its node; observed values are marked.

    Where there is evidence, outlines show the beliefs without it. More than 60 nodes are drawn as a map of names or
    dots, and so are fewer where the axes are too small for beliefs; `around` shows a part of a large network.

    Parameters
    ----------
    network : Network
        Nodes without potentials are drawn without beliefs.
    evidence : mapping, optional
    ax : matplotlib axes, optional
        Those of a new figure, as large as the boxes need, by default.
    size : float
        Scale of a new figure.
    around : str, optional
        A node; only those that are at most `steps` arcs away from it are drawn. A number such as "+2" tells how many
        neighbors of a node are left out.
    steps : int

    Examples
    --------
    >>> import hybridbn as hb
    >>> from matplotlib.figure import Figure
    >>> rain, wet = hb.Discrete("rain", ("no", "yes")), hb.Discrete("wet", ("no", "yes"))
    >>> net = hb.Network([hb.Multinomial(rain, table=[0.75, 0.25]),
    ...                   hb.Multinomial(wet, (rain,), table=[[0.75, 0.25], [0.0, 1.0]])])
    >>> ax = plot_network(net, {"wet": "no"}, Figure().add_subplot())
    >>> print(ax.get_label())
    Network: 2 nodes (2 discrete), 1 arc. Observed: wet = no. Posterior of rain: no 1, yes 0.
    """
    return chart_network(network, evidence, _measure_room(ax), size, around, steps).draw(ax)


def _measure_room(ax: Any) -> tuple[float, float] | None:
    """Return the size of axes in inches."""
    return None if ax is None else (ax.bbox.width / ax.figure.dpi, ax.bbox.height / ax.figure.dpi)


def _fit_font(layout: Layout, room: tuple[float, float] | None) -> float:
    """Return the size that names in a map of dots need, to be readable where it is made smaller."""
    return _DOTS.fonts[0] / (1.0 if room is None else min(1.0, room[0] / layout.width, room[1] / layout.height))


def chart_network(
    network: Network,
    evidence: Mapping[str, Any] | None = None,
    room: tuple[float, float] | None = None,
    size: float = 1.0,
    around: str | None = None,
    steps: int = 1,
    options: Options | None = None,
    *,
    beliefs_shown: bool = True,
) -> Chart:
    """Return the picture of a network, see `plot_network`; `room` is the size that it may take, in inches."""
    check_kind(network, Network, "a network is drawn")
    if evidence is not None and not isinstance(evidence, Mapping):
        raise TableError(f"a picture shows one case: its evidence is a mapping, not {evidence!r:.80}")
    if not len(network):
        raise TableError("the network has no nodes to draw")
    names = _choose_nodes(network, around, steps)
    if len(names) > _MOST_NODES:
        raise TableError(
            f"a picture of {len(names)} nodes can't be read; draw a part: net.plot(around={names[0]!r}, steps=2), or"
            f" network.subgraph(names), at most {_MOST_NODES} nodes"
        )
    near = set(names)
    arcs = {name: [child for child in network[name] if child in near] for name in names}
    graph: nx.DiGraph[Any] = nx.from_dict_of_lists(arcs, nx.DiGraph)
    if not nx.is_directed_acyclic_graph(graph):
        raise NetworkError(f"parents are drawn above their children, and {describe_cycles(graph)[0]}")
    complete = beliefs_shown and all(network.nodes[name].get("potential") is not None for name in network)
    detail, layout = _choose_detail(graph, room, complete)
    known = _list_known(network, evidence)
    beliefs: dict[str, Any] = {}
    priors: dict[str, Any] = {}
    if detail.bars:
        findings = EvidenceReader(network, evidence).evidence(names).findings
        wanted = [name for name in names if name not in findings or not findings[name].hard]
        beliefs = posteriors(network, evidence, wanted, options) if wanted else {}
        if evidence and any(value is not None for value in evidence.values()):
            try:
                priors = posteriors(network, None, wanted, options) if wanted else {}
            except HybridBNError:
                priors = {}  # what is possible given evidence may be too much without
    # the many arcs of a map would hide its names
    width, strength = (1.1, 0.6) if len(layout.routes) <= 100 else (0.7, 0.4)
    marks: list[Mark] = [Arrow(route, width, strength) for route in layout.routes.values()]
    if detail is _DOTS:
        marks += _draw_dots(layout, network, known, _fit_font(layout, room))
    else:
        for name, center in layout.centers.items():
            value = _write_value(network, name, known[name]) if known.get(name) is not None else None
            marks += _draw_node(name, center, detail, beliefs.get(name), priors.get(name), value)
            hidden = len(set(nx.all_neighbors(network, name)) - set(graph))
            if hidden:
                right, low = center[0] + detail.box[0] / 2, center[1] + detail.box[1] / 2
                marks.append(Text(right, low, f"+{hidden}", "dim", 6.5, "right", "top", (-2, -1)))
    return _make_diagram(marks, _describe(network, names, beliefs, known, around), layout, size)


def _make_diagram(marks: Sequence[Mark], words: str, layout: Layout, size: float = 1.0) -> Chart:
    return Chart(
        marks,
        description=words,
        x=Axis(low=0.0, high=layout.width),
        y=Axis(low=0.0, high=layout.height),
        size=(layout.width * size, layout.height * size),
        diagram=True,
    )


def _choose_nodes(network: Network, around: str | None, steps: int) -> list[Any]:
    if around is None:
        return list(network)
    if around not in network:
        raise NetworkError(describe_unknown_node(around, network))
    near = nx.single_source_shortest_path_length(
        network.to_undirected(as_view=True), around, check_count(steps, "the number of steps")
    )
    return [name for name in network if name in near]


def _choose_detail(graph: nx.DiGraph[Any], room: tuple[float, float] | None, complete: bool) -> tuple[_Detail, Layout]:
    """Return the most detailed boxes that have room, and where they lie."""
    count = len(graph)
    details = [_fit_names(list(graph)), _DOTS]
    if complete and count <= _MOST_BELIEFS:
        details[:0] = [_FULL, _COMPACT] if room is not None or count <= _MOST_FULL else [_COMPACT]
    for detail in details:
        aspect = 1.6 if room is None else room[0] / room[1]
        layout = lay_out(graph, detail.box, detail.gap, aspect)
        if room is None or min(room[0] / layout.width, room[1] / layout.height) >= _LEAST_SCALE:
            break
    return detail, layout


def _list_known(network: Network, evidence: Mapping[str, Any] | None) -> dict[str, Any]:
    known = {name: value for name, value in (evidence or {}).items() if value is not None}
    return known | {name: potential.value for name, potential in find_point_masses(network).items()}


def _describe(
    network: Network, names: Sequence[Any], beliefs: Mapping[str, Any], known: Mapping[str, Any], around: str | None
) -> str:
    parts = [as_line(network)]
    if around is not None:
        parts.append(f"Shown: {len(names)} nodes around {around}")
    if known:
        told = [f"{name} = {_write_value(network, name, value)}" for name, value in known.items()]
        parts.append(f"Observed: {', '.join(told)}")
    parts += [describe_posterior(belief).removesuffix(".") for belief in list(beliefs.values())[:_MOST_TOLD]]
    return ". ".join(parts) + "."


def _write_value(network: Network, name: str, value: Any) -> str:
    variable = network.nodes[name].get("variable") if name in network else None
    if isinstance(variable, Continuous) and isinstance(value, int | float | np.number):
        return format_of(variable, float(value))
    return shorten_text(str(value), 40)


# -- nodes ------------------------------------------------------------------------------------------------------------


def _draw_dots(layout: Layout, network: nx.DiGraph[Any], known: Mapping[str, Any], size: float) -> list[Mark]:
    """Draw a dot for each node, and the names, in letters of a size, of those with the most arcs."""
    marks: list[Mark] = []
    for color, chosen in ((0, [n for n in layout.centers if n not in known]), (1, [n for n in known if n in network])):
        places = [layout.centers[name] for name in chosen if name in layout.centers]
        if places:
            marks.append(Points([x for x, _ in places], [y for _, y in places], color, 6.0))
    spots = np.array(list(layout.centers.values()))
    taken: list[tuple[float, float, float, float]] = []
    for name in sorted(layout.centers, key=lambda node: (-network.degree(node), str(node)))[:_HUBS]:
        x, y = layout.centers[name]
        text = shorten_text(str(name), 14)
        width, height = len(text) * LETTER * size / 72, 1.1 * size / 72
        # beside the dot or on the other side, where neither dots nor names are in the way
        for side in ("left", "right"):
            left = x + 0.08 if side == "left" else x - 0.08 - width
            box = (left, left + width, y - height / 2, y + height / 2)
            free = not (
                (spots[:, 0] > box[0] - 0.06) & (spots[:, 0] < box[1] + 0.06) & (abs(spots[:, 1] - y) < height)
            ).any()
            apart = all(box[0] > b or box[1] < a or box[2] > d or box[3] < c for a, b, c, d in taken)
            if free and apart and left >= 0 and left + width <= layout.width:
                taken.append(box)
                marks.append(
                    Text(x + (0.08 if side == "left" else -0.08), y, text, size=size, side=side, tip=str(name))
                )
                break
    return marks


def _draw_node(
    name: Any,
    center: tuple[float, float],
    detail: _Detail,
    belief: Posterior | None,
    prior: Posterior | None,
    value: str | None,
) -> list[Mark]:
    """Draw the box of a node: its name, and below it the belief or the observed value."""
    (x, y), (width, height), font = center, detail.box, detail.fonts[0]
    left, top = x - width / 2, y - height / 2
    observed = value is not None
    title = shorten_text(str(name), detail.letters(width, font))
    marks: list[Mark] = [
        Frame(left, top, width, height, 1 if observed else "line", str(name)),
        Text(x, top + detail.title / 2, title, 1 if observed else "ink", font, tip=str(name)),
    ]
    if not detail.bars:
        return marks
    inside = (left + 0.04 * width, top + detail.title, 0.92 * width, height - detail.title - 0.05)
    if isinstance(belief, DiscretePosterior):
        return marks + _draw_bars(belief, prior if isinstance(prior, DiscretePosterior) else None, detail, *inside)
    if isinstance(belief, ContinuousPosterior):
        return marks + _draw_density(belief, prior if isinstance(prior, ContinuousPosterior) else None, detail, *inside)
    shown = shorten_text(value or "", detail.letters(width, font + 1))
    return [*marks, Text(x, top + (detail.title + height) / 2, shown, 1, font + 1, tip=value or "")]


def _draw_bars(
    belief: DiscretePosterior, prior: DiscretePosterior | None, detail: _Detail, left: float, top: float, width: float,
    height: float,
) -> list[Mark]:  # fmt: skip
    groups = group_states(belief, detail.bars)
    font = detail.fonts[1]
    step = height / max(len(groups), 3)
    top += (height - step * len(groups)) / 2
    number = 5.4 * 1.25 * LETTER * font / 72
    start = left + 0.42 * width
    room = left + width - number - start
    probabilities = sum_groups(belief.probabilities, groups)
    low = top + step * np.arange(len(groups))
    shown = (low + 0.14 * step, low + 0.86 * step)
    marks: list[Mark] = [
        Rectangles(start, start + room, *shown, "pale"),
        Rectangles(start, start + room * probabilities, *shown),
    ]
    if prior is not None:
        ghost = sum_groups(prior.probabilities, groups)
        marks.append(Rectangles(start, start + room * ghost, *shown, "dim", hollow=True))
    letters = detail.letters(0.4 * width, font)
    for y, (text, _), p in zip((low + step / 2).tolist(), groups, probabilities.tolist(), strict=True):
        marks += [
            Text(start - 0.03, y, shorten_text(text, letters), size=font, side="right", tip=text),
            Text(left + width, y, format_probability(p), size=font, side="right"),
        ]
    return marks


def _draw_density(
    belief: ContinuousPosterior, prior: ContinuousPosterior | None, detail: _Detail, left: float, top: float,
    width: float, height: float,
) -> list[Mark]:  # fmt: skip
    """Draw a curve and stems above an axis with the ends of its range."""
    variable, traces = belief.variable, [each.trace(50) for each in (belief, prior) if each is not None]
    per = choose_width(variable, traces)
    axis = make_axis(variable, traces)
    ends = np.concatenate([part for trace in traces for part in (trace.values, trace.x)])
    low = float(ends.min()) if axis.low is None else axis.low
    high = float(ends.max()) if axis.high is None else axis.high
    floor = top + height - 1.3 * detail.fonts[1] * 1.25 / 72
    heights = [find_height(trace, per) for trace in traces]
    if any(len(trace.values) for trace in traces):
        heights = [max(heights)] * len(heights)
    marks: list[Mark] = []
    across = place_along(low, high, left, left + width)
    # without stems each to its own height: a narrow posterior would press its prior flat
    for trace, highest, is_prior in reversed(list(zip(traces, heights, [False, True], strict=False))):
        color = "dim" if is_prior else 0
        marks += draw_trace(trace, per, color, across=across, up=place_along(0.0, highest, floor, top + 0.02))
    marks.append(Line([left, left + width], [floor, floor], "line", 0.8))
    letters = detail.letters(width, detail.fonts[1])
    ticks = fit_ticks(
        lambda most: axis.choose_ticks(low, high, most),
        lambda ticks: sum(len(text) + 1 for _, text in ticks) <= letters,
        (12, 7, 5, 3, 2),
    )
    texts = [(float(across(at)), text) for at, text in ticks]
    return marks + [Text(at, floor, text, "dim", detail.fonts[1], "middle", "top", (0, -1)) for at, text in texts]


# -- strengths --------------------------------------------------------------------------------------------------------


def plot_strengths(
    graph: nx.DiGraph[str], essential: nx.DiGraph[str], strengths: Mapping[tuple[str, str], float], ax: Any = None
) -> Any:
    """Draw a graph whose arcs are wider and darker the stronger they are, with numbers where these have room.

    Parameters
    ----------
    graph : directed acyclic graph
    essential : directed graph
        Arcs that it has in both directions are drawn without a head.
    strengths : mapping from arc to a number between 0 and 1
    ax : matplotlib axes, optional

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> arcs = nx.DiGraph([("a", "b"), ("a", "c")])
    >>> print(plot_strengths(arcs, arcs, {("a", "b"): 0.9, ("a", "c"): 0.625}, Figure().add_subplot()).get_label())
    Strengths of 2 arcs between 3 nodes: a to b 0.900, a to c 0.625.
    """
    check_kind(graph, nx.DiGraph, "a directed graph is drawn")
    if not len(graph):
        raise TableError("the graph has no nodes to draw")
    if len(graph) > _MOST_NODES:
        raise TableError(f"a picture of {len(graph)} nodes can't be read; draw at most {_MOST_NODES}")
    room = _measure_room(ax)
    detail, layout = _choose_detail(graph, room, complete=False)
    order = sorted(layout.routes, key=lambda arc: -strengths[arc])
    marks: list[Mark] = []
    for a, b in reversed(order):
        strength = float(strengths[a, b])
        head = not essential.has_edge(b, a)
        marks.append(Arrow(layout.routes[a, b], 0.5 + 2.0 * strength, 0.2 + 0.8 * strength, head))
    if detail is _DOTS:
        marks += _draw_dots(layout, graph, {}, _fit_font(layout, room))
    else:
        for name, center in layout.centers.items():
            marks += _draw_node(name, center, detail, None, None, None)
        for arc in order if len(order) <= 30 else ():
            (x0, y0), (x1, y1) = layout.routes[arc][:2]
            text = format_probability(float(strengths[arc]))
            marks.append(Text((x0 + x1) / 2, (y0 + y1) / 2, text, size=6.5, side="left", shift=(3, 0)))
    told = [f"{a} to {b} {format_probability(float(strengths[a, b]))}" for a, b in order[:_MOST_TOLD]]
    more = f" and {len(order) - _MOST_TOLD} weaker ones" if len(order) > _MOST_TOLD else ""
    words = f"Strengths of {len(order)} arcs between {len(graph)} nodes: {', '.join(told)}{more}."
    return _make_diagram(marks, words, layout).draw(ax)
