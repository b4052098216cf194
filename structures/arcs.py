"""Arcs: what is known of them before data are seen, and which of them equivalent networks share.

`Knowledge` is taken by every builder that searches. The essential graph (CPDAG) has the arcs of all directed acyclic
graphs of an equivalence class. Matrices of knowledge and limits are by (child, parent), those of equivalence by
(parent, child).
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import networkx as nx
import numpy as np
from numpy.typing import NDArray

from hybridbn.errors import NetworkError
from hybridbn.options import list_items
from hybridbn.variables import shorten


class Limits(NamedTuple):
    """The arcs that a search must have, and may have, by (child, parent)."""

    required: NDArray[np.bool_]
    allowed: NDArray[np.bool_]
    most: int
    """Greatest number of parents of a node."""
    undirected: NDArray[np.bool_]
    """Pairs that must be joined in one of two directions; symmetric."""

    @property
    def kept(self) -> NDArray[np.bool_]:
        """Arcs that must not be removed, though some may be reversed."""
        return self.required | self.undirected

    def reorder(self, order: list[int]) -> Limits:
        """Return the limits for the columns in another order."""
        chosen = np.ix_(order, order)
        return Limits(self.required[chosen], self.allowed[chosen], self.most, self.undirected[chosen])

    def direct(self, arcs: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Return arcs without cycles, by (child, parent), to which undirected pairs that they lack are added."""
        rank = np.argsort(list(nx.topological_sort(_graph_of(arcs))))
        result = arcs.copy()
        for pair in np.argwhere(np.triu(self.undirected & ~(arcs | arcs.T))).tolist():
            parent, child = sorted(pair, key=rank.__getitem__)
            result[child, parent] = True
        return result


@dataclass(frozen=True)
class Knowledge:
    """What is known about the arcs of a network: builders that search take it as ``knowledge=``.

    Attributes
    ----------
    tiers : sequence of sequences of names
        No arc goes from a later tier to an earlier one, as from an outcome to a cause. Columns in no tier are free.
    required, forbidden : iterable of (from, to)
        Arcs that the network has, and arcs that it hasn't.
    undirected : iterable of (name, name)
        Columns that are joined, in the direction that fits better.
    roots, leaves : sequence of names
        Columns without parents, and columns without children.

    Examples
    --------
    >>> import hybridbn as hb
    >>> knowledge = hb.Knowledge(tiers=[["age", "sex"], ["disease"]], roots=["sex"])
    >>> rng = np.random.default_rng(0)
    >>> age = rng.normal(50, 10, size=200)
    >>> disease = np.where(rng.random(200) < 1 / (1 + np.exp((50 - age) / 4)), "yes", "no")
    >>> data = {"disease": disease, "age": age, "sex": rng.choice(["f", "m"], 200)}
    >>> list(hb.structures.hill_climb(data, "gaussian", knowledge=knowledge).edges)
    [('age', 'disease')]
    >>> hb.structures.hill_climb(data, knowledge=hb.Knowledge(required=[("age", "sex")], roots=["sex"]))
    Traceback (most recent call last):
        ...
    hybridbn.errors.NetworkError: the arc 'age' -> 'sex' is required, but 'sex' is a root
    """

    tiers: Sequence[Sequence[str]] = ()
    required: Iterable[tuple[str, str]] = ()
    forbidden: Iterable[tuple[str, str]] = ()
    undirected: Iterable[tuple[str, str]] = ()
    roots: Sequence[str] = ()
    leaves: Sequence[str] = ()

    def __post_init__(self) -> None:
        # iterators are read once, so that the same knowledge serves many builders
        if isinstance(self.tiers, str | Mapping) or not isinstance(self.tiers, Iterable):
            raise NetworkError(f"tiers must be a sequence of sequences of names, not {self.tiers!r:.80}")
        tiers = tuple(tuple(list_items(tier, "a tier")) for tier in self.tiers)
        object.__setattr__(self, "tiers", tiers)
        for what in ("required", "forbidden", "undirected"):
            object.__setattr__(self, what, read_arcs(getattr(self, what), what))
        for what in ("roots", "leaves"):
            object.__setattr__(self, what, tuple(list_items(getattr(self, what), what)))
        placed = [name for tier in tiers for name in tier]
        twice = sorted({str(name) for name in placed if placed.count(name) > 1})
        if twice:
            raise NetworkError(f"{shorten(twice)} stands in the tiers twice")

    @classmethod
    def of(cls, knowledge: Any, required: Any = (), forbidden: Any = ()) -> Knowledge:
        """Return knowledge with more required and forbidden arcs; None is no knowledge.

        Examples
        --------
        >>> Knowledge.of(None, required=[("a", "b")]).required
        (('a', 'b'),)
        """
        if knowledge is None:
            return cls(required=required, forbidden=forbidden)
        if not isinstance(knowledge, cls):
            raise NetworkError(f"knowledge must be a hybridbn.Knowledge, not {knowledge!r:.80}")
        return cls(
            knowledge.tiers,
            (*knowledge.required, *read_arcs(required, "required")),
            (*knowledge.forbidden, *read_arcs(forbidden, "forbidden")),
            knowledge.undirected,
            knowledge.roots,
            knowledge.leaves,
        )

    def __bool__(self) -> bool:
        return any((self.tiers, self.required, self.forbidden, self.undirected, self.roots, self.leaves))

    def limit(self, names: Sequence[str], max_parents: int | None = None) -> Limits:
        """Return which arcs between columns must and may be there; raise `NetworkError` for contradictions.

        Examples
        --------
        >>> Knowledge(tiers=["a", "b"], undirected=[("a", "b")]).limit(["a", "b"]).required.astype(int).tolist()
        [[0, 0], [1, 0]]
        """
        index = self._index(names)
        size = len(index)
        allowed = ~np.eye(size, dtype=bool)
        for parent, child in self.forbidden:
            allowed[index[child], index[parent]] = False
        tier_of = {name: number for number, tier in enumerate(self.tiers) for name in tier}
        for earlier, later in itertools.combinations(self.tiers, 2):
            allowed[np.ix_([index[name] for name in earlier], [index[name] for name in later])] = False
        allowed[[index[name] for name in self.roots]] = False
        allowed[:, [index[name] for name in self.leaves]] = False

        required = np.zeros((size, size), dtype=bool)
        undirected = np.zeros((size, size), dtype=bool)
        for parent, child in self.required:
            if not allowed[index[child], index[parent]]:
                raise NetworkError(
                    f"the arc {parent!r} -> {child!r} is {self._tell_clash(parent, child, tier_of, 'required')}"
                )
            required[index[child], index[parent]] = True
        for a, b in self.undirected:
            i, j = index[a], index[b]
            if not allowed[i, j] and not allowed[j, i]:
                reasons = [self._tell_clash(*arc, tier_of, "needed") for arc in ((a, b), (b, a))]
                raise NetworkError(
                    f"{a!r} and {b!r} are to be joined, but {a!r} -> {b!r} is {reasons[0]}, and {b!r} -> {a!r} is"
                    f" {reasons[1]}"
                )
            if allowed[i, j] and allowed[j, i]:
                undirected[i, j] = undirected[j, i] = True
            else:
                required[(i, j) if allowed[i, j] else (j, i)] = True
        undirected &= ~(required | required.T)
        if not is_acyclic(required):
            cycle = nx.find_cycle(_graph_of(required))
            path = " -> ".join(repr(names[a]) for a, _ in [*cycle, cycle[0]])
            raise NetworkError(f"the required arcs make a cycle: {path}")
        most = size if max_parents is None else int(max_parents)
        for name, count in zip(names, required.sum(axis=1).tolist(), strict=True):
            if count > most:
                raise NetworkError(f"{name!r} has {count} required parents, more than max_parents={most} allows")
        return Limits(required, allowed, most, undirected)

    def refuse_violations(self, parents: Mapping[str, Sequence[str]], what: str) -> None:
        """Raise `NetworkError` where the structure of a builder that is not free in all arcs contradicts.

        Examples
        --------
        >>> Knowledge(required=[("a", "b")]).refuse_violations({"a": (), "b": ()}, "a tree")
        Traceback (most recent call last):
            ...
        hybridbn.errors.NetworkError: a tree can't have all that is known: it lacks the arc 'a' -> 'b'; use hill_climb
        """
        names = list(parents)
        limits = self.limit(names)
        arcs = np.array([[parent in parents[child] for parent in names] for child in names], dtype=bool)
        lacking, extra = np.argwhere(limits.required & ~arcs), np.argwhere(arcs & ~limits.allowed)
        apart = np.argwhere(limits.kept & ~(arcs | arcs.T))
        problems = (
            (lacking, "lacks the arc {} -> {}"),
            (extra, "has the arc {} -> {}"),
            (apart, "doesn't join {} and {}"),
        )
        for pairs, problem in problems:
            if len(pairs):
                child, parent = (repr(names[i]) for i in pairs[0])
                raise NetworkError(
                    f"{what} can't have all that is known: it {problem.format(parent, child)}; use hill_climb"
                )

    def _index(self, names: Sequence[str]) -> dict[str, int]:
        index = {name: i for i, name in enumerate(names)}
        for what in ("tiers", "required", "forbidden", "undirected"):
            refuse_strangers([name for group in getattr(self, what) for name in group], index, what)
        for what in ("roots", "leaves"):
            refuse_strangers(getattr(self, what), index, what)
        return index

    def _tell_clash(self, parent: str, child: str, tier_of: Mapping[str, int], kind: str) -> str:
        """Return why an arc is not allowed, after how it is called."""
        if (parent, child) in self.forbidden:
            return f"both {kind} and forbidden"
        if child in self.roots:
            return f"{kind}, but {child!r} is a root"
        if parent in self.leaves:
            return f"{kind}, but {parent!r} is a leaf"
        return f"{kind}, but {parent!r} is in tier {tier_of[parent] + 1} and {child!r} in tier {tier_of[child] + 1}"


def read_arcs(arcs: Any, what: str) -> tuple[tuple[str, str], ...]:
    """Return arcs as pairs, or raise `NetworkError`.

    Examples
    --------
    >>> read_arcs([["a", "b"]], "required")
    (('a', 'b'),)
    """
    if isinstance(arcs, str | Mapping) or not isinstance(arcs, Iterable):
        raise NetworkError(f"{what} must hold arcs (from, to) between two columns, not {arcs!r:.80}")
    listed = list(arcs)
    for arc in listed:
        if not isinstance(arc, tuple | list) or len(arc) != 2 or arc[0] == arc[1]:
            raise NetworkError(f"{what} must hold arcs (from, to) between two columns, not {arc!r}")
    return tuple((parent, child) for parent, child in listed)


def refuse_strangers(names: Iterable[str], index: Collection[str], what: str) -> None:
    """Raise `NetworkError` for names that are no columns.

    Examples
    --------
    >>> refuse_strangers(["c"], {"a": 0}, "roots")
    Traceback (most recent call last):
        ...
    hybridbn.errors.NetworkError: roots names 'c', but the columns are 'a'
    """
    strange = [name for name in names if name not in index]
    if strange:
        raise NetworkError(f"{what} names {shorten(strange)}, but the columns are {shorten(index)}")


def is_acyclic(arcs: NDArray[np.bool_]) -> bool:
    """Return whether arcs make no cycle.

    Examples
    --------
    >>> [is_acyclic(np.array(arcs, dtype=bool)) for arcs in ([[0, 1], [0, 0]], [[0, 1], [1, 0]])]
    [True, False]
    """
    return bool(nx.is_directed_acyclic_graph(_graph_of(arcs)))


def _graph_of(arcs: NDArray[np.bool_]) -> nx.DiGraph[int]:
    """Return the graph of a matrix (children, parents)."""
    return nx.from_numpy_array(arcs.T, create_using=nx.DiGraph)


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
    apart = ~(joined | np.eye(len(joined), dtype=bool))
    known = np.zeros_like(arcs) if fixed is None else fixed
    return direct_what_follows(joined, arcs & (_exists(apart, arcs) | known))


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
    apart = ~(joined | np.eye(len(joined), dtype=bool))
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
    apart = ~(joined | np.eye(len(joined), dtype=bool))
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
