"""Greedy search for a network without restrictions on its arcs: the one that a step at a time makes better by BIC."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hybridbn.errors import NetworkError
from hybridbn.fitting.choice import Potentials
from hybridbn.learning.em_structure import structural_em
from hybridbn.network import Network
from hybridbn.structures.family_scores import FamilyScores
from hybridbn.structures.parameters import fitted
from hybridbn.structures.preparing import Prepared, prepared_whole
from hybridbn.table import Table
from hybridbn.variables import shorten

__all__ = ["hill_climb"]

BETTER = 1e-9


def hill_climb(
    data: Any,
    potentials: Potentials = "auto",
    weights: Any = None,
    *,
    start: Iterable[tuple[str, str]] = (),
    required: Iterable[tuple[str, str]] = (),
    forbidden: Iterable[tuple[str, str]] = (),
    max_parents: int | None = None,
    tabu: int = 10,
    missing: Literal["em", "available"] = "em",
    random_state: Any = 0,
) -> Network:
    r"""Search for the network of greatest BIC, adding, removing or reversing one arc at a time.

    .. math:: \mathrm{BIC} = \sum_i \log L(x_i \mid \mathrm{parents}_i) - \frac{k_i}{2} \log n

    Arcs go in any direction: a category may depend on numbers. The score is a sum over families, each computed once.

    Parameters
    ----------
    data, potentials, weights : as in `hybridbn.fit`
        Any family: the score of one that has no formula is that of its fitted density ("auto": mixtures of truncated exponentials
        for numbers). "gaussian" is by far the fastest for numbers.
    start : iterable of (from, to), optional
        Arcs to start from.
    required, forbidden : iterable of (from, to), optional
        Arcs that stay, and arcs that never come.
    max_parents : int, optional
        Of any node.
    tabu : int
        When no step is an improvement, the search goes on with the best of the others for as many steps, never back to one of
        the last so many networks; what is returned is the best network seen. 0 stops at the first summit.
    missing : {"em", "available"}
        What an incomplete table is scored by: structural EM (see Notes), or the rows observed in each family.
    random_state : int, Generator or None
        Of structural EM's draws.

    Returns
    -------
    Network
        Its nodes are in the table's order.

    Notes
    -----
    Structural EM fills the holes by exact joint draws from the network found so far and searches again, until the BIC of the
    observed cells stops rising (Friedman 1997).

    References
    ----------
    Chickering (2002), "Optimal structure identification with greedy search", JMLR 3.

    Examples
    --------
    >>> rng = np.random.default_rng(1)
    >>> a = rng.integers(2, size=500)
    >>> b = np.where(rng.random(500) < 0.9, a, 1 - a)
    >>> x = 2.0 * b + rng.normal(size=500)
    >>> data = {"a": a.astype(str), "b": b.astype(str), "x": x, "y": rng.normal(size=500)}
    >>> net = hill_climb(data, "gaussian")
    >>> sorted(sorted(arc) for arc in net.edges)
    [['a', 'b'], ['b', 'x']]
    """
    read = prepared_whole(data, potentials, weights)
    if missing not in ("em", "available"):
        raise NetworkError(f"missing must be 'em' or 'available', not {missing!r}")
    limits = _Limits.of(read, required, forbidden, max_parents)
    begin = _checked(read, start, "start")
    if missing == "available" or not any(read.table.missing[name] for name in read.attributes):
        return _searched(read, limits, begin, tabu)

    def build(table: Any, _: str) -> Network:
        return _searched(Prepared(_as_read(table, read), read.roles, None), limits, begin, tabu)

    first = read.attributes[0]
    return structural_em(read.table, first, build, random_state=random_state).network


def _as_read(data: Any, read: Prepared) -> Table:
    return data if isinstance(data, Table) else Table(data, variables=list(read.table.variables))


class _Limits(NamedTuple):
    """What a search may do: arcs by places (from, to)."""

    required: NDArray[np.bool_]
    allowed: NDArray[np.bool_]
    most: int

    @classmethod
    def of(cls, data: Prepared, required: Any, forbidden: Any, most: int | None) -> _Limits:
        size = len(data.attributes)
        if most is not None and (isinstance(most, bool) or not isinstance(most, int | np.integer) or most < 1):
            raise NetworkError(f"max_parents must be a positive whole number, not {most!r}")
        stays, allowed = np.zeros((size, size), dtype=bool), ~np.eye(size, dtype=bool)
        for a, b in _checked(data, required, "required"):
            stays[a, b] = True
        for a, b in _checked(data, forbidden, "forbidden"):
            allowed[a, b] = False
        clash = np.argwhere(stays & ~allowed)
        if len(clash):
            a, b = (data.attributes[place] for place in clash[0])
            raise NetworkError(f"the arc {a!r} -> {b!r} is both required and forbidden")
        if not _acyclic(stays):
            raise NetworkError("the required arcs make a cycle")
        return cls(stays, allowed, size if most is None else int(most))

    def ordered(self, order: list[int]) -> _Limits:
        """Return the same for the columns in another order."""
        return _Limits(self.required[np.ix_(order, order)], self.allowed[np.ix_(order, order)], self.most)


def _checked(data: Prepared, arcs: Any, what: str) -> list[tuple[int, int]]:
    place = {name: i for i, name in enumerate(data.attributes)}
    found = []
    for arc in arcs:
        if not isinstance(arc, tuple | list) or len(arc) != 2 or arc[0] == arc[1]:
            raise NetworkError(f"{what} must hold arcs (from, to) between two columns, not {arc!r}")
        strange = [name for name in arc if name not in place]
        if strange:
            raise NetworkError(f"{what} names {shorten(strange)}, but the columns are {shorten(place)}")
        found.append((place[arc[0]], place[arc[1]]))
    return found


class _Step(NamedTuple):
    gain: float
    kind: int
    tail: int
    head: int


def _searched(data: Prepared, limits: _Limits, start: list[tuple[int, int]], tabu: int) -> Network:
    scores = FamilyScores(data)
    # of two arcs that are equally good the one from what is less certain comes first: it was seen to end on higher summits
    order = sorted(range(len(data.attributes)), key=lambda i: scores(data.attributes[i], ()))
    place = {column: i for i, column in enumerate(order)}
    names = [data.attributes[column] for column in order]
    limits = limits.ordered(order)
    arcs = limits.required.copy()
    for a, b in start:
        arcs[place[a], place[b]] |= limits.allowed[place[a], place[b]]
    if not _acyclic(arcs):
        raise NetworkError("the arcs to start from, with the required ones, make a cycle")
    search = _Search(names, scores, limits, arcs)
    best, top, value = arcs.copy(), 0.0, 0.0
    seen: deque[bytes] = deque([arcs.tobytes()], maxlen=max(tabu, 1))
    worse = 0
    while True:
        step = search.best(seen if tabu else None)
        if step is None or (step.gain <= BETTER and worse >= tabu):
            break
        search.take(step)
        value += step.gain
        seen.append(search.arcs.tobytes())
        if value > top + BETTER:
            best, top, worse = search.arcs.copy(), value, 0
        else:
            worse += 1
    place_of = {name: i for i, name in enumerate(names)}
    parents = {
        name: tuple(given for given in data.attributes if best[place_of[given], place_of[name]])
        for name in data.attributes
    }
    return fitted(data, parents)


class _Search:
    """The arcs of the moment and the gains of all single changes; only those of changed families are computed anew."""

    def __init__(self, names: list[str], scores: FamilyScores, limits: _Limits, arcs: NDArray[np.bool_]) -> None:
        self.names, self.scores, self.limits, self.arcs = names, scores, limits, arcs
        size = len(names)
        self.current = np.array([self._score(j, arcs[:, j]) for j in range(size)])
        self.toggled = np.full((size, size), -np.inf)
        """What a family gains when an arc into it comes or goes."""
        for j in range(size):
            self._look(j)

    def _score(self, child: int, parents: NDArray[np.bool_]) -> float:
        return self.scores(self.names[child], frozenset(self.names[i] for i in np.flatnonzero(parents)))

    def _gained(self, child: int, parents: NDArray[np.bool_]) -> float:
        """Return what other parents gain; nothing is gained by those with which the family can't be fitted."""
        score = self._score(child, parents)
        return score - float(self.current[child]) if score > -np.inf else -np.inf

    def _look(self, child: int) -> None:
        parents = self.arcs[:, child]
        full = parents.sum() >= self.limits.most
        for i in range(len(self.names)):
            gain = -np.inf
            if i != child and (parents[i] or (self.limits.allowed[i, child] and not full)):
                changed = parents.copy()
                changed[i] = not changed[i]
                gain = self._gained(child, changed)
            self.toggled[i, child] = gain

    def best(self, seen: Iterable[bytes] | None) -> _Step | None:
        """Return the step of the greatest gain that leads to none of the networks seen lately."""
        past = set(seen or ())
        for step in self._steps():
            if not past or self._after(step).tobytes() not in past:
                return step
        return None

    def _steps(self) -> Iterator[_Step]:
        """Yield the possible steps, the best first."""
        reach = _closure(self.arcs)
        add = ~self.arcs & ~reach.T & np.isfinite(self.toggled)
        free = self.arcs & ~self.limits.required
        room = self.arcs.sum(axis=0) < self.limits.most
        # an arc can't be turned around where there is another way between its ends
        longer = (self.arcs.astype(np.int64) @ reach.astype(np.int64)) > 0
        turn = free & ~longer & self.limits.allowed.T & room[:, None]
        gains = [np.where(add, self.toggled, -np.inf), np.where(free, self.toggled, -np.inf)]
        reversed_gain = np.full(self.arcs.shape, -np.inf)
        for i, j in np.argwhere(turn):
            parents = self.arcs[:, i].copy()
            parents[j] = True
            reversed_gain[i, j] = self.toggled[i, j] + self._gained(int(i), parents)
        gains.append(reversed_gain)
        stacked = np.stack(gains)
        order = np.argsort(-stacked, axis=None, kind="stable")
        for flat in order:
            kind, i, j = np.unravel_index(flat, stacked.shape)
            gain = float(stacked[kind, i, j])
            if gain == -np.inf:
                return
            yield _Step(gain, int(kind), int(i), int(j))

    def _after(self, step: _Step) -> NDArray[np.bool_]:
        arcs = self.arcs.copy()
        arcs[step.tail, step.head] = step.kind == 0
        if step.kind == 2:
            arcs[step.head, step.tail] = True
        return arcs

    def take(self, step: _Step) -> None:
        """Make the step."""
        self.arcs = self._after(step)
        for child in {step.head, step.tail} if step.kind == 2 else {step.head}:
            self.current[child] = self._score(child, self.arcs[:, child])
            self._look(child)


def _closure(arcs: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return which nodes can be reached from which."""
    reach = arcs.copy()
    for middle in range(len(arcs)):
        reach[reach[:, middle]] |= reach[middle]
    return reach


def _acyclic(arcs: NDArray[np.bool_]) -> bool:
    return not _closure(arcs).diagonal().any()
