"""A layered layout of directed acyclic graphs: parents above children, few crossings, straight long arcs.

The steps are those of Sugiyama, Tagawa and Toda (1981). Layers are assigned with a bound on their width (Coffman and
Graham 1972), so that a class with forty attributes fills several rows. Arcs that span several layers are routed through
a point in each layer between. The order within layers is improved by medians of neighbors and by exchanging neighbors;
horizontal positions are least-squares fits under the constraint that boxes keep their distance. The same graph always
gets the same layout.
"""

from __future__ import annotations

import math
from bisect import bisect_right, insort
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, TypeAlias

import networkx as nx
import numpy as np
from scipy.optimize import isotonic_regression

from hybridbn.variables import Values

Node: TypeAlias = Hashable
Point: TypeAlias = tuple[float, float]

_SWEEPS = 12
"""Sweeps over the layers, down and up, that reorder nodes; crossings hardly decrease after these."""
_WIDTHS = (1.0, 0.75, 0.55)
"""Shares of the width of layers that are tried: bends of long arcs need room, too."""
_ALIGNMENTS = 16
"""Sweeps that fit horizontal positions."""
_CENTERING = 0.2
"""The weight of a position in the middle of the picture, beside those of neighbors."""
_EXCHANGED = 600
"""Neighbors are exchanged one by one in graphs of up to this many nodes and bends, since that takes quadratic time."""
_STRAIGHTNESS = (1.0, 2.0, 8.0)
"""Weights of an arc's parts with none, one and two ends at bends: long arcs are kept straight (Gansner et al. 1993)."""


@dataclass(frozen=True)
class Layout:
    """Where the boxes and arcs of a picture of a graph lie; y grows downwards.

    Attributes
    ----------
    centers : mapping from node to (x, y)
    routes : mapping from arc to the points on its way, from the parent's lower edge to the child's upper edge
    width, height : the size of the picture
    box : (width, height) of the boxes
    """

    centers: Mapping[Any, Point]
    routes: Mapping[tuple[Any, Any], Sequence[Point]]
    width: float
    height: float
    box: tuple[float, float]


def lay_out(
    graph: nx.DiGraph[Any],
    box: tuple[float, float] = (1.0, 0.7),
    gap: tuple[float, float] = (0.25, 0.5),
    aspect: float = 1.6,
) -> Layout:
    """Lay out a directed acyclic graph.

    Parameters
    ----------
    graph : networkx.DiGraph
    box : width and height of the boxes
    gap : horizontal and vertical distance between boxes
    aspect : wanted width of the picture over its height; layers wider than that are split

    Examples
    --------
    >>> layout = lay_out(nx.DiGraph([("a", "b"), ("a", "c"), ("b", "d"), ("c", "d")]))
    >>> layout.centers["a"][1] < layout.centers["b"][1] == layout.centers["c"][1] < layout.centers["d"][1]
    True
    >>> layout.routes["a", "b"][0][1] < layout.routes["a", "b"][-1][1]
    True
    """
    if not len(graph):
        return Layout({}, {}, 0.0, 0.0, box)
    parts = [_lay_out_component(part, box, gap, aspect) for part in _split_components(graph)]
    return parts[0] if len(parts) == 1 else _pack(parts, aspect)


def _split_components(graph: nx.DiGraph[Any]) -> list[nx.DiGraph[Any]]:
    """Return the connected parts, nodes and arcs in the order of the graph, which subgraphs of networkx do not keep."""
    place = {node: i for i, node in enumerate(graph)}
    return [
        nx.from_dict_of_lists({node: list(graph[node]) for node in sorted(nodes, key=place.__getitem__)}, nx.DiGraph)
        for nodes in nx.weakly_connected_components(graph)
    ]


def _pack(parts: Sequence[Layout], aspect: float) -> Layout:
    """Return connected parts side by side in rows, the highest first, in a picture of about the wanted aspect."""
    area = sum(part.width * part.height for part in parts)
    most = max(math.sqrt(area * aspect) * 1.1, *(part.width for part in parts))
    centers: dict[Any, Point] = {}
    routes: dict[tuple[Any, Any], Sequence[Point]] = {}
    left = top = height = width = 0.0
    for part in sorted(parts, key=lambda part: -part.height):
        if left and left + part.width > most:
            left, top = 0.0, top + height
            height = 0.0
        centers |= {node: (x + left, y + top) for node, (x, y) in part.centers.items()}
        routes |= {arc: [(x + left, y + top) for x, y in route] for arc, route in part.routes.items()}
        left, height = left + part.width, max(height, part.height)
        width = max(width, left)
    return Layout(centers, routes, width, top + height, parts[0].box)


def _lay_out_component(
    graph: nx.DiGraph[Any], box: tuple[float, float], gap: tuple[float, float], aspect: float
) -> Layout:
    """Lay out a connected graph, with layers of that width with which it fits best into the wanted shape."""
    layouts: list[Layout] = []
    # with so many boxes in a layer, the picture has about the wanted aspect
    width = max(4, math.ceil(math.sqrt(len(graph) * aspect * (box[1] + gap[1]) / (box[0] + gap[0]))))
    for most in sorted({max(1, round(width * share)) for share in _WIDTHS}, reverse=True):
        layer_of = _assign_layers(graph, most)
        # the ends of each arc, with a bend in each layer between
        chains = {
            (start, end): [start, *(_Bend() for _ in range(layer_of[end] - layer_of[start] - 1)), end]
            for start, end in graph.edges
        }
        layers = _reduce_crossings(_order_first(graph, layer_of, chains), chains.values())
        sizes = [np.array([box[0] if not isinstance(v, _Bend) else 0.0 for v in layer]) for layer in layers]
        positions = _align(layers, sizes, gap[0], chains.values())
        layouts.append(_route(graph, layers, positions, chains, box, gap))
        if layouts[-1].width <= aspect * layouts[-1].height:
            break  # narrower layers would only make it higher
    return min(layouts, key=lambda layout: max(layout.width / aspect, layout.height))


class _Bend:
    """A point of a long arc within a layer."""

    __slots__ = ()


# -- layers -----------------------------------------------------------------------------------------------------------


def _assign_layers(graph: nx.DiGraph[Any], width: int) -> dict[Node, int]:
    """Assign every node to a layer below those of its parents, at most so many to a layer, arcs short."""
    number = {node: i for i, node in enumerate(graph)}
    layer_of: dict[Node, int] = {}
    held: list[int] = []
    for node in nx.lexicographical_topological_sort(graph, key=number.__getitem__):
        layer = max((layer_of[parent] + 1 for parent in graph.predecessors(node)), default=0)
        while layer < len(held) and held[layer] >= width:
            layer += 1
        held.extend([0] * (layer + 1 - len(held)))
        layer_of[node] = layer
        held[layer] += 1
    # nodes with more children than parents move down towards the nearest child
    for node in reversed(list(nx.lexicographical_topological_sort(graph, key=number.__getitem__))):
        if graph.out_degree(node) > graph.in_degree(node):
            lowest = min(layer_of[child] for child in graph.successors(node)) - 1
            for layer in range(lowest, layer_of[node], -1):
                if held[layer] < width:
                    held[layer_of[node]] -= 1
                    held[layer] += 1
                    layer_of[node] = layer
                    break
    used = sorted(set(layer_of.values()))
    renumbered = {layer: i for i, layer in enumerate(used)}
    return {node: renumbered[layer] for node, layer in layer_of.items()}


def _order_first(
    graph: nx.DiGraph[Any], layer_of: Mapping[Node, int], chains: Mapping[tuple[Node, Node], Sequence[Any]]
) -> list[list[Any]]:
    """Return the layers in the order of a depth-first search, which keeps connected parts together."""
    layers: list[list[Any]] = [[] for _ in range(max(layer_of.values()) + 1)]
    placed: set[Any] = set()
    for start, end in nx.edge_dfs(graph, sorted(graph, key=lambda node: layer_of[node])):
        for layer, node in enumerate(chains[start, end], layer_of[start]):
            if node not in placed:
                placed.add(node)
                layers[layer].append(node)
    return layers if placed else [list(graph)]


# -- crossings --------------------------------------------------------------------------------------------------------


def _reduce_crossings(layers: list[list[Any]], chains: Iterable[Sequence[Any]]) -> list[list[Any]]:
    """Return the layers reordered, so that fewer arcs cross."""
    paths: nx.DiGraph[Any] = nx.DiGraph()
    for chain in chains:
        nx.add_path(paths, chain)
    above, below = (nx.to_dict_of_lists(each) for each in (paths.reverse(), paths))
    best, fewest = layers, _count_crossings(layers, below)
    current = [list(layer) for layer in layers]
    exchanged = sum(map(len, layers)) <= _EXCHANGED
    for sweep in range(_SWEEPS):
        if not fewest:
            break
        down = sweep % 2 == 0
        order = range(1, len(current)) if down else range(len(current) - 2, -1, -1)
        for i in order:
            fixed = {node: place for place, node in enumerate(current[i - 1 if down else i + 1])}
            neighbors = above if down else below
            current[i] = _sort_by_median(current[i], neighbors, fixed)
            if exchanged:
                _exchange(current[i], neighbors, fixed)
        crossings = _count_crossings(current, below)
        if crossings < fewest:
            best, fewest = [list(layer) for layer in current], crossings
    return best


def _sort_by_median(
    layer: Sequence[Any], neighbors: Mapping[Any, Sequence[Any]], fixed: Mapping[Any, int]
) -> list[Any]:
    """Sort a layer by the mean of the middle neighbors' positions; nodes without neighbors stay where they are."""
    keys = {}
    for node in layer:
        positions = sorted(fixed[other] for other in neighbors.get(node, ()))
        if positions:
            middle = positions[(len(positions) - 1) // 2 : len(positions) // 2 + 1]
            keys[node] = (sum(middle) / len(middle), sum(positions) / len(positions))
    ordered = iter(sorted(keys, key=keys.__getitem__))
    return [next(ordered) if node in keys else node for node in layer]


def _exchange(layer: list[Any], neighbors: Mapping[Any, Sequence[Any]], fixed: Mapping[Any, int]) -> None:
    """Exchange neighbors within a layer as long as that removes crossings with the fixed layer beside it."""
    positions = {node: sorted(fixed[other] for other in neighbors.get(node, ())) for node in layer}
    improved = True
    while improved:
        improved = False
        for i in range(len(layer) - 1):
            left, right = positions[layer[i]], positions[layer[i + 1]]
            if _count_inversions(left, right) > _count_inversions(right, left):
                layer[i], layer[i + 1] = layer[i + 1], layer[i]
                improved = True


def _count_inversions(left: Sequence[int], right: Sequence[int]) -> int:
    """Return how many arcs of the left node end to the right of arcs of the right node; both are sorted."""
    return sum(len(left) - bisect_right(left, position) for position in right)


def _count_crossings(layers: Sequence[Sequence[Any]], below: Mapping[Any, Sequence[Any]]) -> int:
    crossings = 0
    for upper, lower in pairwise(layers):
        place = {node: i for i, node in enumerate(lower)}
        ends: list[int] = []
        for node in upper:
            targets = sorted(place[other] for other in below.get(node, ()))
            crossings += sum(len(ends) - bisect_right(ends, target) for target in targets)
            for target in targets:
                insort(ends, target)
    return crossings


# -- positions --------------------------------------------------------------------------------------------------------


def _align(
    layers: Sequence[Sequence[Any]], sizes: Sequence[Values], gap: float, chains: Iterable[Sequence[Any]]
) -> dict[Any, float]:
    """Return horizontal positions near those of the neighbors, in the order of the layers and with their distances."""
    links: dict[Any, list[tuple[Any, float]]] = {}
    for chain in chains:
        for upper, lower in pairwise(chain):
            weight = _STRAIGHTNESS[isinstance(upper, _Bend) + isinstance(lower, _Bend)]
            links.setdefault(upper, []).append((lower, weight))
            links.setdefault(lower, []).append((upper, weight))
    # a bend keeps half the distance, so that several arcs side by side take little room
    room = [np.where(size > 0, size / 2 + gap / 2, gap / 4) for size in sizes]
    offsets = [np.concatenate([[0.0], np.cumsum(half[:-1] + half[1:])]) for half in room]
    place: dict[Any, float] = {
        node: at
        for layer, offset in zip(layers, offsets, strict=True)
        for node, at in zip(layer, (offset - offset[-1] / 2).tolist(), strict=True)
    }
    home = dict(place)
    for sweep in range(_ALIGNMENTS):
        order = range(len(layers)) if sweep % 2 == 0 else range(len(layers) - 1, -1, -1)
        for i in order:
            wanted, weights = np.empty(len(layers[i])), np.empty(len(layers[i]))
            for j, node in enumerate(layers[i]):
                # the middle of the picture counts a little: layers would drift to a side one after the other
                total, mean = _CENTERING, _CENTERING * home[node]
                for other, weight in links.get(node, ()):
                    total += weight
                    mean += weight * place[other]
                wanted[j], weights[j] = mean / total, total
            fitted = isotonic_regression(wanted - offsets[i], weights=weights).x + offsets[i]
            place.update(zip(layers[i], fitted.tolist(), strict=True))
    return place


# -- arcs -------------------------------------------------------------------------------------------------------------


def _route(
    graph: nx.DiGraph[Any],
    layers: Sequence[Sequence[Any]],
    positions: Mapping[Any, float],
    chains: Mapping[tuple[Any, Any], Sequence[Any]],
    box: tuple[float, float],
    gap: tuple[float, float],
) -> Layout:
    left = min(positions.values()) - box[0] / 2 - gap[0] / 2
    row = {node: i for i, layer in enumerate(layers) for node in layer}
    x = {node: value - left for node, value in positions.items()}
    y = {node: gap[1] / 2 + box[1] / 2 + i * (box[1] + gap[1]) for node, i in row.items()}
    below = {node: sorted((chains[arc][1] for arc in graph.out_edges(node)), key=x.__getitem__) for node in graph}
    above = {node: sorted((chains[arc][-2] for arc in graph.in_edges(node)), key=x.__getitem__) for node in graph}
    starts = {node: _spread(neighbors, x[node], box[0]) for node, neighbors in below.items()}
    ends = {node: _spread(neighbors, x[node], box[0]) for node, neighbors in above.items()}
    routes: dict[tuple[Any, Any], list[Point]] = {}
    for (start, end), chain in chains.items():
        points = [(starts[start][chain[1]], y[start] + box[1] / 2)]
        for bend in chain[1:-1]:
            # vertical past the boxes of the layer
            points += [(x[bend], y[bend] - box[1] / 2), (x[bend], y[bend] + box[1] / 2)]
        routes[start, end] = [*points, (ends[end][chain[-2]], y[end] - box[1] / 2)]
    width = max(x.values()) + box[0] / 2 + gap[0] / 2
    return Layout({node: (x[node], y[node]) for node in graph}, routes, width, len(layers) * (box[1] + gap[1]), box)


def _spread(neighbors: Sequence[Any], center: float, width: float) -> dict[Any, float]:
    """Return where the arcs of a node touch its edge: in the order of their other ends, within half of the edge."""
    step = min(0.12 * width, 0.5 * width / max(1, len(neighbors) - 1))
    first = center - step * (len(neighbors) - 1) / 2
    return {neighbor: first + step * i for i, neighbor in enumerate(neighbors)}
