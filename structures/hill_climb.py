"""Greedy search for a network without restrictions on its arcs: the one that a step at a time makes better by BIC.

A set of nodes is an integer with a bit for each: a graph is the sets of its nodes' parents, and the sets of all ancestors take a few
operations an arc. Matrices have a row for each child and a column for each parent.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Iterator
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hybridbn.errors import NetworkError
from hybridbn.fitting.fitter_choice import Potentials
from hybridbn.network import Network
from hybridbn.structures.building import builder
from hybridbn.structures.family_scores import FamilyScores
from hybridbn.structures.structural_em import structural_em
from hybridbn.structures.training_data import TrainingData, fit_network, read_data_without_target
from hybridbn.tables import Table
from hybridbn.variables import Values, shorten

__all__ = ["Graph", "Limits", "arcs_of", "climb", "graph_of", "has_no_cycle", "hill_climb"]


@builder(takes_target=False)
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
    turns: int = 10,
    restarts: int = 10,
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
        the last so many networks. 0 stops at the summit.
    turns : int
        After each step so many arcs are turned around, drawn from those that make no difference to the score: networks of equal
        score have different neighbors. With 0 the search depends on which of two equivalent networks comes first.
    restarts : int
        So many times the search starts again from the best network without three tenths of its arcs.
    missing : {"em", "available"}
        What an incomplete table is scored by: structural EM (see Notes), or the rows observed in each family.
    random_state : int, Generator or None
        Of the turns, restarts, and structural EM's draws.

    Returns
    -------
    Network
        Its nodes are in the table's order.

    Notes
    -----
    Structural EM fills the holes by exact joint draws from the network found so far and searches again, until the BIC of the
    observed cells stops rising (Friedman 1997). Turned arcs are those of Castelo and Kočka (2003), "repeated covered arc reversal".

    References
    ----------
    Chickering (2002), "Optimal structure identification with greedy search", JMLR 3. Castelo & Kočka (2003), "On
    inclusion-driven learning of Bayesian networks", JMLR 4.

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
    read = read_data_without_target(data, potentials, weights)
    if missing not in ("em", "available"):
        raise NetworkError(f"missing must be 'em' or 'available', not {missing!r}")
    limits, options = (
        _read_limits(read, required, forbidden, max_parents),
        _Options.of(tabu, turns, restarts, random_state),
    )
    begin = _check_arcs(read, start, "start")
    if missing == "available" or not any(read.table.missing[name] for name in read.attributes):
        return _search(read, limits, begin, options)

    def build(table: Any, _: str) -> Network:
        return _search(TrainingData(_as_read(table, read), read.roles, None), limits, begin, options)

    first = read.attributes[0]
    return structural_em(read.table, first, build, random_state=options.seed).network


def _as_read(data: Any, read: TrainingData) -> Table:
    return data if isinstance(data, Table) else Table(data, variables=list(read.table.variables))


def _read_limits(data: TrainingData, required: Any, forbidden: Any, most: int | None) -> Limits:
    size = len(data.attributes)
    if most is not None and (isinstance(most, bool) or not isinstance(most, int | np.integer) or most < 1):
        raise NetworkError(f"max_parents must be a positive whole number, not {most!r}")
    stays, allowed = np.zeros((size, size), dtype=bool), ~np.eye(size, dtype=bool)
    for a, b in _check_arcs(data, required, "required"):
        stays[b, a] = True
    for a, b in _check_arcs(data, forbidden, "forbidden"):
        allowed[b, a] = False
    clash = np.argwhere(stays & ~allowed)
    if len(clash):
        b, a = (data.attributes[column_index] for column_index in clash[0])
        raise NetworkError(f"the arc {a!r} -> {b!r} is both required and forbidden")
    if not has_no_cycle(graph_of(stays)):
        raise NetworkError("the required arcs make a cycle")
    return Limits(stays, allowed, size if most is None else int(most))


def _check_arcs(data: TrainingData, arcs: Any, what: str) -> list[tuple[int, int]]:
    column_index = {name: i for i, name in enumerate(data.attributes)}
    found = []
    for arc in arcs:
        if not isinstance(arc, tuple | list) or len(arc) != 2 or arc[0] == arc[1]:
            raise NetworkError(f"{what} must hold arcs (from, to) between two columns, not {arc!r}")
        strange = [name for name in arc if name not in column_index]
        if strange:
            raise NetworkError(f"{what} names {shorten(strange)}, but the columns are {shorten(column_index)}")
        found.append((column_index[arc[0]], column_index[arc[1]]))
    return found


class _Options(NamedTuple):
    """How a search climbs."""

    tabu: int
    turns: int
    restarts: int
    seed: int

    @classmethod
    def of(cls, tabu: Any, turns: Any, restarts: Any, random_state: Any) -> _Options:
        for what, value in (("tabu", tabu), ("turns", turns), ("restarts", restarts)):
            whole = isinstance(value, int | np.integer) and not isinstance(value, bool) and value >= 0
            if not whole:
                raise NetworkError(f"{what} must be a whole number that is not negative, not {value!r}")
        seed = int(np.random.default_rng(random_state).integers(2**63))
        return cls(int(tabu), int(turns), int(restarts), seed)


def _search(data: TrainingData, limits: Limits, start: list[tuple[int, int]], options: _Options) -> Network:
    scores = FamilyScores(data)
    # of two arcs that are equally good the one from what is less certain comes first
    order = sorted(range(len(data.attributes)), key=lambda i: scores(data.attributes[i], ()))
    column_index = {column: i for i, column in enumerate(order)}
    names = [data.attributes[column] for column in order]
    limits = limits.reorder(order)
    arcs = limits.required.copy()
    for a, b in start:
        arcs[column_index[b], column_index[a]] |= limits.allowed[column_index[b], column_index[a]]
    if not has_no_cycle(graph_of(arcs)):
        raise NetworkError("the arcs to start from, with the required ones, make a cycle")
    find_best = climb(
        names,
        scores,
        limits,
        graph_of(arcs),
        tabu=options.tabu,
        turns=options.turns,
        restarts=options.restarts,
        rng=np.random.default_rng(options.seed),
    )
    found = arcs_of(find_best)
    parents = {
        name: tuple(given for j, given in enumerate(data.attributes) if found[column_index[i], column_index[j]])
        for i, name in enumerate(data.attributes)
    }
    return fit_network(data, parents)


BETTER = 1e-6
"""Gains are rounded to it, so that equal ones are equal whatever order they were added up in."""
DIGITS = 6
DROPPED = 0.3
"""The share of the arcs that a restart goes without."""
IMPOSSIBLE = -1e300
QUIET = 3
"""On a summit, so many times arcs are turned around in the hope of a way up."""

Graph = tuple[int, ...]
"""The parents of each node, as bits."""


class Limits(NamedTuple):
    """What a search may do, by (child, parent)."""

    required: NDArray[np.bool_]
    allowed: NDArray[np.bool_]
    most: int
    """Parents of a node."""

    def reorder(self, order: list[int]) -> Limits:
        """Return the same for the columns in another order."""
        return Limits(self.required[np.ix_(order, order)], self.allowed[np.ix_(order, order)], self.most)


class _ArcChange(NamedTuple):
    gain: float
    kind: int
    child: int
    parent: int


_TURN = 2


def graph_of(arcs: NDArray[np.bool_]) -> Graph:
    """Return the graph of a matrix (children, parents).

    Examples
    --------
    >>> graph_of(np.array([[0, 1, 1], [0, 0, 1], [0, 0, 0]], dtype=bool))
    (6, 4, 0)
    """
    return tuple(int.from_bytes(row.tobytes(), "little") for row in np.packbits(arcs, axis=1, bitorder="little"))


def arcs_of(sets: Graph | list[int]) -> NDArray[np.bool_]:
    """Return sets of nodes as a matrix.

    Examples
    --------
    >>> arcs_of((6, 4, 0)).astype(int).tolist()
    [[0, 1, 1], [0, 0, 1], [0, 0, 0]]
    """
    size = len(sets)
    width = (size + 7) // 8
    packed = np.frombuffer(b"".join(members.to_bytes(width, "little") for members in sets), np.uint8)
    return np.unpackbits(packed.reshape(size, width), axis=1, count=size, bitorder="little").view(bool)


def climb(
    names: list[str],
    scores: FamilyScores,
    limits: Limits,
    start: Graph,
    *,
    tabu: int,
    turns: int,
    restarts: int,
    rng: np.random.Generator,
) -> Graph:
    """Return the best graph found, from some graph on and again from the best one without a part of its arcs.

    Examples
    --------
    >>> from hybridbn.structures.training_data import read_data_without_target
    >>> data = {"a": ["x", "x", "y", "y"] * 5, "b": ["u", "u", "v", "v"] * 5}
    >>> scores = FamilyScores(read_data_without_target(data, "auto", None))
    >>> limits = Limits(np.zeros((2, 2), dtype=bool), ~np.eye(2, dtype=bool), 2)
    >>> climb(["a", "b"], scores, limits, (0, 0), tabu=0, turns=0, restarts=0, rng=np.random.default_rng(0))
    (2, 0)
    """
    search = _GraphSearch(names, scores, limits, start)
    value, find_best = _find_local_maximum(search, tabu, turns, rng)
    for _ in range(restarts):
        arcs = arcs_of(find_best)
        search.move_to(graph_of(arcs & (limits.required | (rng.random(arcs.shape) >= DROPPED))))
        other, found = _find_local_maximum(search, tabu, turns, rng)
        if other > value + BETTER:
            value, find_best = other, found
    return find_best


def _find_local_maximum(search: _GraphSearch, tabu: int, turns: int, rng: np.random.Generator) -> tuple[float, Graph]:
    """Climb until neither turned arcs nor a walk past the summit lead higher."""
    while True:
        _climb_to_maximum(search, turns, rng)
        value, graph = search.value, tuple(search.parents)
        if not _escape_maximum(search, tabu):
            return value, graph


def _climb_to_maximum(search: _GraphSearch, turns: int, rng: np.random.Generator) -> None:
    """Make the step of the greatest gain, and turn some arcs around that make no difference, while that leads up."""
    quiet, top = 0, search.value
    while quiet <= (QUIET if turns else 0):
        step = search.find_best()
        if step is not None and step.gain > 0:
            search.apply(step)
        # what was won may be no more than what rounding lost in turns
        higher = search.value > top + BETTER
        quiet, top = (0, search.value) if higher else (quiet + 1, top)
        if not search.reverse_neutral_arcs(turns, rng) and not higher:
            return


def _escape_maximum(search: _GraphSearch, tabu: int) -> bool:
    """Go on from a summit by the best steps, to none of the last so many graphs; tell whether that leads higher."""
    summit = search.value
    seen = deque([tuple(search.parents)], maxlen=max(tabu, 1))
    steps = 0
    while tabu and search.value <= summit + BETTER:
        step = search.find_best(seen)
        if step is None or (step.gain <= 0 and steps >= tabu):
            return False
        search.apply(step)
        seen.append(tuple(search.parents))
        steps += 1
    return bool(tabu)


class _GraphSearch:
    """The graph of the moment and the gains of all single changes; only those of changed families are looked up anew."""

    def __init__(self, names: list[str], scores: FamilyScores, limits: Limits, start: Graph) -> None:
        self.names, self.scores, self.limits = names, scores, limits
        self._free = ~limits.required
        self._places = np.array([scores.column_index[name] for name in names], dtype=np.intp)
        self._known_scores: dict[tuple[int, int], tuple[float, Values]] = {}
        self._scores = [0.0] * len(names)
        self._gains_by_toggling = np.full((len(names), len(names)), -np.inf)
        """What a family gains when a parent comes or goes."""
        self.move_to(start)

    @property
    def value(self) -> float:
        """The score."""
        return sum(self._scores)

    def move_to(self, graph: Graph) -> None:
        """Go to another graph."""
        self.parents = list(graph)
        for child in range(len(graph)):
            self._score_family(child)

    def _score_family(self, child: int) -> None:
        key = child, self.parents[child]
        if key not in self._known_scores:
            parents = frozenset(self.names[i] for i in _list_nodes(key[1]))
            # a family that can't be fitted is worse than any, but a difference to it is a number
            now = max(self.scores(self.names[child], parents), IMPOSSIBLE)
            score_changes = self.scores.score_changes(self.names[child], parents)[self._places]
            # nothing is gained by parents with which the family can't be fitted
            gains = np.where(score_changes > -np.inf, np.round(score_changes - now, DIGITS), -np.inf)
            self._known_scores[key] = now, gains
        self._scores[child], self._gains_by_toggling[child] = self._known_scores[key]

    def find_best(self, past: Collection[Graph] = ()) -> _ArcChange | None:
        """Return the step of the greatest gain that leads to none of some graphs."""
        gains = self._compute_gains()
        while True:
            kind, child, parent = np.unravel_index(int(gains.argmax()), gains.shape)
            gain = float(gains[kind, child, parent])
            if gain == -np.inf:
                return None
            step = _ArcChange(gain, int(kind), int(child), int(parent))
            if not past or tuple(self._apply_to_graph(step)) not in past:
                return step
            gains[kind, child, parent] = -np.inf

    def _compute_gains(self) -> Values:
        """Return what adding, removing and turning each arc gains (3, children, parents), -inf where that can't be."""
        ancestors, farther = _find_ancestors(self.parents)
        arcs, free = arcs_of(self.parents), self._free
        room = np.array([members.bit_count() < self.limits.most for members in self.parents])
        result = np.full((3, *arcs.shape), -np.inf)
        add = ~arcs & ~arcs_of(ancestors).T & self.limits.allowed & room[:, None]
        np.copyto(result[0], self._gains_by_toggling, where=add)
        removed = arcs & free
        np.copyto(result[1], self._gains_by_toggling, where=removed)
        # an arc can't be turned around where there is another way between its ends
        turned = removed & ~arcs_of(farther) & self.limits.allowed.T & room
        np.copyto(result[_TURN], self._gains_by_toggling + self._gains_by_toggling.T, where=turned)
        return result

    def reverse_neutral_arcs(self, times: int, rng: np.random.Generator) -> bool:
        """Turn arcs around that make no difference to the score, at most so many, in random order; tell whether there was one.

        These are covered (their ends have the same other parents), and the score is the same for equivalent graphs.
        """
        if not times:
            return False
        arcs = [(child, parent) for child, members in enumerate(self.parents) for parent in _list_nodes(members)]
        turned = 0
        for number in rng.permutation(len(arcs)).tolist():
            child, parent = arcs[number]
            members = self.parents[child]
            # an earlier turn may have made another family of it
            if (
                members >> parent & 1
                and self.parents[parent] == members ^ (1 << parent)
                and self._is_neutral(child, parent)
            ):
                self.apply(_ArcChange(0.0, _TURN, child, parent))
                turned += 1
                if turned == times:
                    break
        return turned > 0

    def _is_neutral(self, child: int, parent: int) -> bool:
        """Tell whether turning a covered arc around is allowed and makes no difference."""
        limits = self.limits
        if limits.required[child, parent] or not limits.allowed[parent, child]:
            return False
        if self.parents[parent].bit_count() >= limits.most:
            return False
        return bool(abs(self._gains_by_toggling[child, parent] + self._gains_by_toggling[parent, child]) <= 2 * BETTER)

    def _apply_to_graph(self, step: _ArcChange) -> list[int]:
        parents = self.parents.copy()
        parents[step.child] ^= 1 << step.parent
        if step.kind == _TURN:
            parents[step.parent] ^= 1 << step.child
        return parents

    def apply(self, step: _ArcChange) -> None:
        """Make the step."""
        self.parents = self._apply_to_graph(step)
        self._score_family(step.child)
        if step.kind == _TURN:
            self._score_family(step.parent)


def _list_nodes(nodes: int) -> Iterator[int]:
    """Yield the nodes of a set."""
    while nodes:
        lowest = nodes & -nodes
        yield lowest.bit_length() - 1
        nodes ^= lowest


def _find_ancestors(parents: Graph | list[int]) -> tuple[list[int], list[int]]:
    """Return the ancestors of each node, and those from which a way of more than one arc leads there; itself on a cycle."""
    size = len(parents)
    above, farther = [-1] * size, [0] * size
    waiting = deque(range(size))
    patience = size
    while waiting and patience:
        node = waiting.popleft()
        far, ready = 0, True
        for parent in _list_nodes(parents[node]):
            if above[parent] < 0:
                ready = False
                break
            far |= above[parent]
        if ready:
            farther[node], above[node] = far, far | parents[node]
            patience = len(waiting)
        else:
            waiting.append(node)
            patience -= 1
    for node in waiting:
        above[node] = farther[node] = 1 << node
    return above, farther


def has_no_cycle(graph: Graph) -> bool:
    """Tell whether there is no way from any node back to it.

    Examples
    --------
    >>> has_no_cycle((2, 4, 0)), has_no_cycle((2, 4, 1))
    (True, False)
    """
    return not any(above >> node & 1 for node, above in enumerate(_find_ancestors(graph)[0]))
