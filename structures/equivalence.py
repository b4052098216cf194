"""Equivalent directed acyclic graphs: which arcs all of them share (the essential graph, CPDAG), and distances.

Matrices have a row for each parent and a column for each child.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, TypeAlias

import networkx as nx
import numpy as np
from numpy.typing import NDArray

__all__ = [
    "EssentialGraph",
    "direct_what_follows",
    "find_essential_graph",
    "find_extension",
    "matrix_of",
    "structural_distance",
]

Arcs: TypeAlias = NDArray[np.bool_]
"""Which arcs there are, by (parent, child)."""


class EssentialGraph(NamedTuple):
    """What all graphs of an equivalence class have in common.

    Attributes
    ----------
    directed : ndarray of bool (parents, children)
        Arcs of all of them.
    undirected : ndarray of bool, symmetric
        Pairs that are joined in all of them, in one direction or the other.
    """

    directed: Arcs
    undirected: Arcs

    @property
    def arcs(self) -> Arcs:
        """All arcs, both directions of undirected ones."""
        return self.directed | self.undirected

    def to_graph(self, names: Sequence[str]) -> nx.DiGraph[str]:
        """Return a graph in which an undirected pair is joined by two arcs."""
        graph: nx.DiGraph[str] = nx.DiGraph()
        graph.add_nodes_from(names)
        graph.add_edges_from((names[a], names[b]) for a, b in np.argwhere(self.arcs).tolist())
        return graph


def matrix_of(arcs: Iterable[tuple[Any, Any]], names: Sequence[Any]) -> Arcs:
    """Return the matrix of some arcs between names.

    Examples
    --------
    >>> matrix_of([("a", "b")], ["a", "b"]).astype(int).tolist()
    [[0, 1], [0, 0]]
    """
    index = {name: i for i, name in enumerate(names)}
    matrix = np.zeros((len(index), len(index)), dtype=bool)
    for a, b in arcs:
        matrix[index[a], index[b]] = True
    return matrix


def find_essential_graph(arcs: Arcs, fixed: Arcs | None = None) -> EssentialGraph:
    """Return the arcs that every equivalent graph has, and the pairs that some join in the other direction.

    Equivalent graphs have the same pairs of joined nodes and the same colliders (arcs from nodes that are not joined
    into the same node). The rules are those of Meek (1995), which are complete.

    Parameters
    ----------
    arcs : ndarray of bool (parents, children)
        A directed acyclic graph.
    fixed : ndarray of bool, optional
        Only graphs are meant that keep these of its arcs, whose direction is known from elsewhere.

    References
    ----------
    Meek (1995), "Causal inference and causal explanation with background knowledge", UAI'95.

    Examples
    --------
    >>> chain = matrix_of([("a", "b"), ("b", "c")], "abc")
    >>> known = matrix_of([("a", "b")], "abc")
    >>> [int(find_essential_graph(chain, fixed).directed.sum()) for fixed in (None, known)]
    [0, 2]
    >>> sorted(find_essential_graph(matrix_of([("a", "c"), ("b", "c"), ("c", "d")], "abcd")).to_graph("abcd").edges)
    [('a', 'c'), ('b', 'c'), ('c', 'd')]
    """
    joined = arcs | arcs.T
    apart = ~joined
    np.fill_diagonal(apart, False)
    directed = arcs & _exists(apart, arcs)
    if fixed is not None:
        directed |= arcs & fixed
    return direct_what_follows(joined, directed)


def direct_what_follows(joined: Arcs, directed: Arcs) -> EssentialGraph:
    """Return the arcs that follow from some directed ones, if there are no more colliders and no cycles.

    Where known directions contradict each other, the pairs for which they do stay undirected.

    Parameters
    ----------
    joined : ndarray of bool, symmetric
        Which pairs of nodes are joined.
    directed : ndarray of bool (parents, children)
        The arcs whose direction is known.

    Examples
    --------
    >>> chain = matrix_of([("a", "b"), ("b", "c")], "abc")
    >>> direct_what_follows(chain | chain.T, matrix_of([("a", "b")], "abc")).directed.astype(int).tolist()
    [[0, 1, 0], [0, 0, 1], [0, 0, 0]]
    """
    apart = ~joined
    np.fill_diagonal(apart, False)
    while True:
        undirected = joined & ~(directed | directed.T)
        new = undirected & (_exists(directed.T, apart) | _exists(directed, directed))
        new &= ~new.T
        if not new.any():
            new = undirected & _apply_distant_rules(joined, apart, directed, undirected)
            new &= ~new.T
        if not new.any():
            return EssentialGraph(directed, undirected)
        directed = directed | new


def find_extension(graph: EssentialGraph, allowed: Arcs) -> Arcs:
    """Return a directed acyclic graph of the same joined pairs, where that is possible without further colliders.

    Nodes that can be the last ones are taken away one after the other (Dor & Tarsi 1992). Where a graph that data tell
    contradicts itself, so that there is no such node, the one with the fewest contradictions is taken.

    Parameters
    ----------
    graph : EssentialGraph
    allowed : ndarray of bool (parents, children)
        Arcs that may be there; of each joined pair at least one, and the others make no cycle.

    References
    ----------
    Dor & Tarsi (1992), "A simple algorithm to construct a consistent extension of a partially oriented graph", UCLA.

    Examples
    --------
    >>> chain = matrix_of([("a", "b"), ("b", "c")], "abc")
    >>> tree = find_extension(EssentialGraph(chain & False, chain | chain.T), chain | chain.T)
    >>> int((tree.sum(axis=0) > 1).sum()), int(tree.sum())
    (0, 2)
    """
    joined = graph.arcs | graph.arcs.T
    apart = ~joined
    np.fill_diagonal(apart, False)
    # pairs that can be joined in one direction only
    bound = joined & allowed & ~allowed.T
    left = np.ones(len(joined), dtype=bool)
    result = np.zeros_like(joined)
    size = len(joined) ** 2 + 1.0
    while left.any():
        near = joined & left & left[:, None]
        # an undirected neighbor that is not joined with another neighbor makes a collider if the node is the last one
        strangers = near.astype(np.float32) @ apart.astype(np.float32)
        colliders = (strangers * (graph.undirected & near)).sum(axis=1)
        outgoing = (graph.directed & near).sum(axis=1)
        blocked = (bound & near).any(axis=1)
        node = int(np.argmin(np.where(left, blocked * size**2 + outgoing * size + colliders, np.inf)))
        result[near[node], node] = True
        left[node] = False
    return result & allowed


def _exists(first: Arcs, second: Arcs) -> Arcs:
    """Return for which (a, b) there is a c with first[a, c] and second[c, b]."""
    product: Arcs = first.astype(np.float32) @ second.astype(np.float32) > 0
    return product


def _apply_distant_rules(joined: Arcs, apart: Arcs, directed: Arcs, undirected: Arcs) -> Arcs:
    """Return the arcs that follow from two other neighbors: Meek's rules 3 and 4."""
    result = np.zeros_like(joined)
    for a in np.flatnonzero(undirected.any(axis=1)).tolist():
        near = undirected[a]
        # a - c -> b and a - d -> b, where c and d are not joined
        into = directed & near[:, None]
        result[a] = (_exists(into.T, apart & near[:, None] & near) & into.T).any(axis=1)
        # a - d -> c -> b, where a and c are joined, b and d are not
        paths = _exists((directed & near[:, None] & joined[a]).T, apart)
        result[a] |= (paths & directed).any(axis=0)
    return result & undirected


def structural_distance(first: Arcs, second: Arcs) -> int:
    """Return how many pairs of nodes are joined in one graph only, or otherwise: the structural Hamming distance.

    The graphs may have undirected pairs, as arcs in both directions. An arc that is missing, too many, reversed or
    undirected counts one.

    Examples
    --------
    >>> structural_distance(matrix_of(["ab", "bc"], "abc"), matrix_of(["ba", "ac"], "abc"))
    3
    """
    different = first != second
    return int(np.triu(different | different.T).sum())
