"""What is known about arcs before data are seen: one class for every builder that searches."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, NamedTuple

import networkx as nx
import numpy as np
from numpy.typing import NDArray

from hybridbn.errors import NetworkError
from hybridbn.options import list_items
from hybridbn.variables import shorten

__all__ = ["Knowledge", "Limits"]


class Limits(NamedTuple):
    """The arcs that a search must have, and may have, by (child, parent)."""

    required: NDArray[np.bool_]
    allowed: NDArray[np.bool_]
    most: int
    """Greatest number of parents of a node."""
    undirected: NDArray[np.bool_] | None = None
    """Pairs that must be joined in one of two directions; symmetric."""

    @property
    def kept(self) -> NDArray[np.bool_]:
        """Arcs that must not be removed, though some may be reversed."""
        return self.required if self.undirected is None else self.required | self.undirected

    def reorder(self, order: list[int]) -> Limits:
        """Return the limits for the columns in another order."""
        chosen = np.ix_(order, order)
        undirected = None if self.undirected is None else self.undirected[chosen]
        return Limits(self.required[chosen], self.allowed[chosen], self.most, undirected)

    def direct(self, arcs: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Return arcs without cycles, by (child, parent), to which undirected pairs that they lack are added."""
        open_pairs = np.triu(np.zeros_like(arcs) if self.undirected is None else self.undirected & ~(arcs | arcs.T))
        if not open_pairs.any():
            return arcs
        order = list(nx.topological_sort(_graph_of(arcs)))
        rank = np.argsort(order)
        result = arcs.copy()
        for pair in np.argwhere(open_pairs).tolist():
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
        for earlier, later in combinations(self.tiers, 2):
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
        try:
            cycle = nx.find_cycle(_graph_of(required))
        except nx.NetworkXNoCycle:
            pass
        else:
            listed = list(index)
            path = " -> ".join(repr(listed[a]) for a, _ in [*cycle, cycle[0]])
            raise NetworkError(f"the required arcs make a cycle: {path}")
        most = size if max_parents is None else int(max_parents)
        full = np.flatnonzero(required.sum(axis=1) > most)
        if len(full):
            name = list(index)[full[0]]
            raise NetworkError(
                f"{name!r} has {required[full[0]].sum()} required parents, more than max_parents={most} allows"
            )
        return Limits(required, allowed, most, undirected if undirected.any() else None)

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
    pairs = []
    for arc in arcs:
        if not isinstance(arc, tuple | list) or len(arc) != 2 or arc[0] == arc[1]:
            raise NetworkError(f"{what} must hold arcs (from, to) between two columns, not {arc!r}")
        pairs.append((arc[0], arc[1]))
    return tuple(pairs)


def refuse_strangers(names: Iterable[str], index: Mapping[str, int], what: str) -> None:
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


def _graph_of(arcs: NDArray[np.bool_]) -> nx.DiGraph[str]:
    """Return the graph of a matrix (children, parents)."""
    graph: nx.DiGraph[str] = nx.DiGraph()
    graph.add_nodes_from(range(len(arcs)))
    graph.add_edges_from((parent, child) for child, parent in np.argwhere(arcs).tolist())
    return graph
