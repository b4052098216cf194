"""Elimination orders, by greedy heuristics on bit sets and noisy repetitions of them; junction trees of cliques; and
which variables to cut, so that the tables of what is left fit.

A cut variable is observed, and leaves all tables: there is one elimination for each combination of the cut variables'
states. Eliminations that don't mention it are done again for each of its states, so the variables are chosen one after
the other by how little that costs for what they take from the largest table.
"""

from __future__ import annotations

import heapq
import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    import random

HOPELESS = 1e13
"""An order with more cells is too expensive, and so would be those of other heuristics."""
MOST_TRIALS = 300
"""The largest number of noisy repetitions of the greedy search."""
UNPROMISING = 2e10
"""There are none where the best order has more cells: that does not fit into memory, and would hardly fit then. Whoever
asks for what is too wide asks for a longer search."""
CELLS_PER_TRIAL = 2e4
"""One trial for each vertex takes about as long as eliminating this many cells."""
CELLS_PER_HEURISTIC = 300
"""The other heuristics are not tried where the order by weight has fewer cells for each vertex."""
PATIENCE = 40
"""The search stops after this many trials without an improvement."""
SEARCH_EFFORT = 2e8
"""The search for a better order stops at this number of vertices times the cubes of the widths, if not earlier."""
MOST_EFFORT = 5e9
"""No search for those who ask for what is too wide makes a larger effort, however much work they allow."""
MOST_PAIRS = 3e5
"""There is no search where the squares of the numbers of neighbors add up to more: a single trial would take long."""
NOISE = 0.3
"""Scores are multiplied by up to 1 plus this."""


class EliminationOrder(NamedTuple):
    """An elimination order and what it costs, in table cells."""

    names: tuple[str, ...]
    total: float
    largest: float
    clique: tuple[str, ...]


class _LogSizes:
    """Logarithms of the sizes of vertices, and their sums over vertices that are given as bits."""

    def __init__(self, logs: list[float]) -> None:
        self.logs = logs
        vertices: dict[float, int] = {}
        for vertex, log in enumerate(logs):
            vertices[log] = vertices.get(log, 0) | 1 << vertex
        self._vertices = [(log, mask) for log, mask in vertices.items() if log > 0]

    def add_up(self, mask: int) -> float:
        """Return the sum."""
        # there are often few distinct sizes, and counting bits is fast
        if mask.bit_count() > len(self._vertices):
            return sum([log * (mask & equal).bit_count() for log, equal in self._vertices])
        return sum([self.logs[vertex] for vertex in _iterate_bits(mask)])


class _Score(NamedTuple):
    """What a greedy search minimizes: the log size of the next table, or the edges that the next elimination adds.

    Attributes
    ----------
    fill : whether edges count
    weighted : whether an edge counts by the product of its end points' log sizes
    generator : of the noise that breaks ties and leads to orders that the greedy choice misses; None without noise
    """

    fill: bool
    weighted: bool = False
    generator: random.Random | None = None

    def add_noise(self, value: float) -> float:
        """Return a score with noise."""
        return value if self.generator is None else value * (1 + NOISE * self.generator.random())


def _iterate_bits(mask: int) -> Iterable[int]:
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low


def _measure_fill(vertex: int, known: int, around: list[int], sizes: _LogSizes) -> float:
    """Return what the edges count that eliminating a vertex would add, if those of `known` are neighbors of each
    other.
    """
    clique = around[vertex]
    inside, outside = clique & known, clique & ~known
    twice = 0.0
    for other in _iterate_bits(outside):
        missing = clique & ~around[other] & ~(1 << other)
        if missing:
            twice += sizes.logs[other] * (sizes.add_up(missing & outside) + 2 * sizes.add_up(missing & inside))
    return twice / 2


def find_order(
    scopes: Iterable[Sequence[str]],
    sizes: Mapping[str, int],
    keep: Iterable[str],
    enough: float = 1e5,
    hopeless: float = HOPELESS,
) -> EliminationOrder:
    """Return a good order in which to sum out all variables of the scopes but those to keep.

    Parameters
    ----------
    scopes : the variables of each factor
    sizes : number of nodes of each variable
    keep : variables that stay (the targets); their clique is counted as the last one
    enough : other heuristics are not tried when the total cost is below this, or small for so many variables
    hopeless : nor when it is above this, as no order will help

    Examples
    --------
    >>> find_order([("a", "b"), ("b", "c")], {"a": 2, "b": 3, "c": 4}, keep=["c"]).names
    ('a', 'b')
    """
    scopes = [tuple(scope) for scope in scopes]
    names, logs, neighbors = _connect([*scopes, tuple(keep)], sizes)
    kept = [names.index(name) for name in keep]
    hopeless = min(hopeless, HOPELESS)
    enough = max(enough, CELLS_PER_HEURISTIC * len(names))
    best = _eliminate_greedily(_Score(fill=False), list(neighbors), logs, names, kept)
    for score in (_Score(fill=True), _Score(fill=True, weighted=True)):
        # neither cheap enough already, nor so expensive that no order will help
        if enough < best.total < hopeless:
            best = min(best, _eliminate_greedily(score, list(neighbors), logs, names, kept), key=attrgetter("total"))
    trials = int(min(MOST_TRIALS, best.total / (CELLS_PER_TRIAL * max(len(names), 1))))
    if best.total >= min(hopeless, UNPROMISING) or not trials:
        return best
    scores = _Score(fill=True), _Score(fill=False), _Score(fill=False)
    return _improve_with_noise(best, trials, scores, neighbors, logs, names, kept)


def search_order(
    scopes: Iterable[Sequence[str]],
    sizes: Mapping[str, int],
    keep: Iterable[str],
    first: EliminationOrder,
    trials: int = MOST_TRIALS,
    effort: float = SEARCH_EFFORT,
) -> EliminationOrder:
    """Return a better order than the first one, if noisy repetitions of the search by weighted fill find one.

    The search takes seconds in large networks, so it is meant for problems that would be too wide without it.

    Examples
    --------
    >>> scopes, sizes = [("a", "b"), ("b", "c")], {"a": 2, "b": 3, "c": 4}
    >>> round(search_order(scopes, sizes, [], find_order(scopes, sizes, [])).largest)
    12
    """
    names, logs, neighbors = _connect([*scopes, tuple(keep)], sizes)
    kept = [names.index(name) for name in keep]
    if sum(around.bit_count() ** 2 for around in neighbors) > MOST_PAIRS:
        return first
    scores = [*[_Score(fill=True, weighted=True)] * 3, _Score(fill=True)]
    return _improve_with_noise(first, trials, scores, neighbors, logs, names, kept, effort)


def _improve_with_noise(
    best: EliminationOrder,
    trials: int,
    scores: Sequence[_Score],
    neighbors: list[int],
    logs: list[float],
    names: list[str],
    kept: list[int],
    effort: float = math.inf,
) -> EliminationOrder:
    """Return the best order of noisy repetitions with each of some scores by turns, which end after many without an
    improvement, or at an effort.
    """
    import random

    last_improvement, spent, generator = 0, 0.0, random.Random(0)
    for number in range(trials):
        score = scores[number % len(scores)]._replace(generator=generator)
        order = _eliminate_greedily(score, list(neighbors), logs, names, kept)
        spent += len(names) * len(order.clique) ** 3
        if order.total < best.total:
            best, last_improvement = order, number
        elif number - last_improvement >= PATIENCE:
            break
        if spent > effort:
            break
    return best


def limit_effort(cells: float) -> float:
    """Return the effort of a search where the answer may take so many table cells: as much again.

    Examples
    --------
    >>> limit_effort(1e8) < limit_effort(1e9) < limit_effort(1e12) == limit_effort(float("inf"))
    True
    """
    return min(cells, MOST_EFFORT)


def find_drawing_order(
    scopes: Iterable[Sequence[str]], sizes: Mapping[str, int], drawn: Sequence[str]
) -> tuple[EliminationOrder, list[tuple[str, ...]]]:
    """Return an elimination order that ends with some variables, the last one first, and for each of these the scope of
    the table from which it is drawn: those before it on which it depends, and itself.

    Examples
    --------
    >>> sizes = {"a": 2, "b": 3, "c": 2}
    >>> order, tables = find_drawing_order([("a", "b"), ("b", "c")], sizes, ["a", "b"])
    >>> order.names, tables
    (('c', 'b', 'a'), [('a',), ('a', 'b')])
    """
    scopes = [*scopes, *((name,) for name in drawn)]
    names, logs, neighbors = _connect(scopes, sizes)
    kept = [names.index(name) for name in drawn]
    first = _eliminate_greedily(_Score(fill=False), neighbors, logs, names, kept).names
    around = dict(_list_eliminations(scopes, [*first, *reversed(drawn)]))
    tables = [(*(other for other in drawn if other in around[name]), name) for name in drawn]
    order = _measure(scopes, sizes, [*first, *reversed(drawn)], ())
    return order if len(drawn) > 1 else order._replace(names=first), tables


def _list_eliminations(scopes: Iterable[Sequence[str]], order: Iterable[str]) -> Iterator[tuple[str, set[str]]]:
    """Yield each name of an order with the others in the table that it is summed out of."""
    around: dict[str, set[str]] = defaultdict(set)
    for scope in scopes:
        for name in scope:
            around[name].update(scope)
    for name in order:
        others = around.pop(name, set()) - {name}
        for other in others:
            around[other] |= others
            around[other].discard(name)
        yield name, others


def _connect(scopes: Sequence[Sequence[str]], sizes: Mapping[str, int]) -> tuple[list[str], list[float], list[int]]:
    """Return the names of all scopes, sorted, the logarithms of their sizes, and as bits the neighbors of each name."""
    names = sorted({name for scope in scopes for name in scope})
    position = {name: i for i, name in enumerate(names)}
    neighbors = [0] * len(names)
    for scope in scopes:
        mask = 0
        for name in scope:
            mask |= 1 << position[name]
        for name in scope:
            neighbors[position[name]] |= mask & ~(1 << position[name])
    return names, [math.log(max(sizes[name], 1)) for name in names], neighbors


def _eliminate_greedily(
    score: _Score, around: list[int], logs: list[float], names: list[str], kept: list[int]
) -> EliminationOrder:
    """Eliminate all vertices but those to keep, whose joint table counts as the last one; `around` is overwritten."""
    alive = ((1 << len(names)) - 1) & ~sum(1 << k for k in kept)
    sizes = _LogSizes(logs)
    costs = sizes if score.weighted else _LogSizes([1.0] * len(logs))
    # the log size of each vertex with its neighbors, and its fill, are kept up to date rather than computed again
    weights = [log + sizes.add_up(around[v]) for v, log in enumerate(logs)]
    fills = [_measure_fill(v, 0, around, costs) if score.fill and alive >> v & 1 else 0.0 for v in range(len(logs))]
    values = fills if score.fill else weights
    current = {vertex: score.add_noise(values[vertex]) for vertex in _iterate_bits(alive)}
    heap = [(value, vertex) for vertex, value in current.items()]
    heapq.heapify(heap)
    order: list[str] = []
    total = largest = 0.0
    widest: tuple[str, ...] = ()
    while heap:
        value, vertex = heapq.heappop(heap)
        if not alive >> vertex & 1 or value != current[vertex]:
            continue
        clique = around[vertex]
        cells = math.exp(min(weights[vertex], 700.0))
        total += cells
        if cells > largest:
            largest, widest = cells, (names[vertex], *(names[other] for other in _iterate_bits(clique)))
        order.append(names[vertex])
        alive &= ~(1 << vertex)
        touched = clique
        if score.fill:
            touched |= _count_new_edges(clique, alive & ~clique, around, costs, fills)
        for other in _iterate_bits(clique):
            before = around[other]
            around[other] = after = (before | clique) & ~(1 << other) & ~(1 << vertex)
            added = after & ~before
            weights[other] -= logs[vertex]
            if added:
                weights[other] += sizes.add_up(added)
        for other in _iterate_bits(touched & alive):
            if score.fill and clique >> other & 1:
                fills[other] = _measure_fill(other, clique, around, costs)
            if score.generator is None and values[other] == current[other]:
                continue
            current[other] = score.add_noise(values[other])
            heapq.heappush(heap, (current[other], other))
    last = math.exp(min(sum(logs[k] for k in kept), 700.0))
    if last > largest:
        largest, widest = last, tuple(names[k] for k in kept)
    return EliminationOrder(tuple(order), total + last, largest, widest)


def _count_new_edges(clique: int, others: int, around: list[int], costs: _LogSizes, fills: list[float]) -> int:
    """Take the edges that make a clique of some vertices from the fill of `others`; return those which they concern."""
    concerned = 0
    for first in _iterate_bits(clique):
        later = clique & ~around[first] & ~((2 << first) - 1)
        for second in _iterate_bits(later):
            common = around[first] & around[second] & others
            concerned |= common
            cost = costs.logs[first] * costs.logs[second]
            for other in _iterate_bits(common):
                fills[other] -= cost
    return concerned


@dataclass
class Clique:
    """A set of names in one table, its parent and the names shared with it (the separator), the tables multiplied here,
    and the one that is sent to the parent.
    """

    names: tuple[str, ...]
    parent: int | None
    separator: tuple[str, ...] = ()
    inputs: list[int] = field(default_factory=list)
    message: int = -1


def make_junction_tree(scopes: Iterable[tuple[str, ...]], order: Sequence[str], keep: tuple[str, ...]) -> list[Clique]:
    """Return cliques in elimination order, children before parents; the last one is the only root."""
    place, root = {name: i for i, name in enumerate([*order, *keep])}, len(order)
    names, separators, parents = list[tuple[str, ...]](), list[tuple[str, ...]](), list[int]()
    for name, others in _list_eliminations(scopes, order):
        separators.append(tuple(sorted(others, key=place.__getitem__)))
        names.append((name, *separators[-1]))
        # the first name of the separator is summed out in the parent
        parents.append(min([place[other] for other in others], default=root))
    # a clique joins its parent where that has no other names than their separator
    into = list(range(root + 1))
    for i, parent in enumerate(parents):
        if parent < root and set(names[parent]) == set(separators[i]):
            into[i], names[parent] = parent, names[i]
    for i in reversed(range(root)):
        into[i] = into[into[i]]
    number = {i: position for position, i in enumerate(sorted(set(into)))}
    cliques = [Clique(names[i], number[into[min(parents[i], root)]], separators[i]) for i in number if i != root]
    return [*cliques, Clique(keep, None)]


def find_cliques(cliques: Sequence[Clique], scopes: Iterable[Sequence[str]]) -> list[int]:
    """Return for each scope the number of the smallest clique that has all of its names: the root where it is empty."""
    within: dict[str, set[int]] = defaultdict(set)
    for number, clique in enumerate(cliques):
        for name in clique.names:
            within[name].add(number)
    root = len(cliques) - 1
    return [
        min(set.intersection(*map(within.__getitem__, scope)), key=lambda i: (len(cliques[i].names), i))
        if scope
        else root
        for scope in scopes
    ]


CUT_EFFORT = 2e9
"""Searches for better orders while variables are cut stop at this effort, as `search_order` counts it, if not
earlier."""
_TRIALS_PER_CUT = 2
"""Searches for a better order after a variable is cut."""
_FEW_CUTS = 8
"""After more cuts, the order is searched for again only after each so many."""
_TRIALS_AT_LAST = 20
"""Searches for a better order after all cuts."""
_TIE = 1e-12
"""Rates that differ by less are the same."""


class Cut(NamedTuple):
    """Some variables to cut, the number of combinations of their states, and the elimination order of the others."""

    names: tuple[str, ...]
    slices: float
    order: EliminationOrder

    @property
    def total(self) -> float:
        """The cells of all tables of all slices."""
        return self.slices * self.order.total


def choose_cut(
    scopes: Sequence[tuple[str, ...]],
    sizes: Mapping[str, int],
    allowed: Collection[str],
    most_cells: float,
    order: EliminationOrder,
    keep: Sequence[str] = (),
    *,
    most_total: float = math.inf,
    most_slices: float = math.inf,
    effort: float = CUT_EFFORT,
) -> Cut | None:
    """Return the variables to cut until no table has more than `most_cells`; None where those allowed don't suffice, or
    where that certainly takes more than `most_slices`.

    Parameters
    ----------
    keep : variables that are eliminated last, and are not part of the order
    most_total : more variables are cut, as long as there are some, until all tables together have at most so many cells
    effort : of the search for better orders; without any the order of the others stays as it is, which is fast and good
        enough for a prediction

    Examples
    --------
    >>> from hybridbn.inference.elimination.ordering import find_order
    >>> scopes, sizes = [("a", "b"), ("b", "c"), ("c", "d"), ("d", "a")], dict.fromkeys("abcd", 10)
    >>> cut = choose_cut(scopes, sizes, set("abcd"), 100, find_order(scopes, sizes, ()))
    >>> len(cut.names), cut.slices, cut.order.largest
    (1, 10.0, 100.0)
    """
    cut: list[str] = []
    slices, left = 1.0, effort / 2
    while order.largest > most_cells or order.total > most_total:
        # a variable divides the largest table by no more than the number of its states
        if slices * (order.largest / most_cells) > most_slices:
            return None
        # about the effort of one search for a better order
        trial = len(order.names) * float(len(order.clique)) ** 3
        many = len(cut) >= _FEW_CUTS or left < trial
        names = _Cliques(scopes, sizes, order).choose_names(allowed, most_cells, most_total, _FEW_CUTS if many else 1)
        if not names:
            if order.largest > most_cells:
                return None
            break
        cut += names
        slices *= math.prod(float(sizes[name]) for name in names)
        scopes = list({tuple(other for other in scope if other not in names): None for scope in scopes})
        keep = [other for other in keep if other not in names]
        order = _measure(scopes, sizes, [other for other in order.names if other not in names], keep)
        if left >= trial:
            order = search_order(scopes, sizes, keep, order, _TRIALS_PER_CUT)
            left -= _TRIALS_PER_CUT * trial
    if cut and effort:
        better = search_order(scopes, sizes, keep, order, _TRIALS_AT_LAST, effort / 2)
        order = better if better.largest <= most_cells else order
    return Cut(tuple(cut), slices, order)


class _Cliques:
    """The tables of an elimination, which get smaller when variables are cut, in the same order."""

    def __init__(self, scopes: Sequence[tuple[str, ...]], sizes: Mapping[str, int], order: EliminationOrder) -> None:
        from scipy.sparse import csr_matrix

        cliques = make_junction_tree(scopes, [*order.names, *sorted(set().union(*scopes).difference(order.names))], ())
        self._names = sorted({name for clique in cliques for name in clique.names})
        position = {name: i for i, name in enumerate(self._names)}
        members = [[position[name] for name in clique.names] for clique in cliques]
        columns = np.array([i for clique in members for i in clique], dtype=np.intp)
        starts = np.cumsum([0, *map(len, members)])
        self._holds = csr_matrix((np.ones(len(columns)), columns, starts), (len(members), len(self._names)))
        self._logs = np.log([max(sizes[name], 1) for name in self._names])

    def choose_names(self, allowed: Collection[str], most_cells: float, most_total: float, count: int) -> list[str]:
        """Return variables to cut, one after the other the one of the largest table that costs least for each bit that
        it takes from the tables.
        """
        usable = np.array([name in allowed for name in self._names], dtype=bool) & (self._logs > 0)
        left, chosen = self._logs.copy(), list[str]()
        while len(chosen) < count:
            logs = self._holds @ left
            cells = np.exp(np.minimum(logs, 700.0))
            largest = int(logs.argmax())
            if cells[largest] <= most_cells and cells.sum() <= most_total:
                break
            start, stop = self._holds.indptr[largest : largest + 2]
            members = self._holds.indices[start:stop]
            candidates = members[usable[members]]
            if not len(candidates):
                break
            shares = np.exp(logs - logs[largest])
            held = (self._holds[:, candidates].T @ shares) / shares.sum()
            growth = np.exp(left[candidates])
            rates = np.log(growth - (growth - 1) * held) / left[candidates]
            # the first of the best ones by name
            best = candidates[rates <= rates.min() + _TIE].min()
            chosen.append(self._names[best])
            usable[best], left[best] = False, 0.0
        return chosen


def _measure(
    scopes: Iterable[Sequence[str]], sizes: Mapping[str, int], names: Sequence[str], keep: Sequence[str]
) -> EliminationOrder:
    """Return an order with its cost."""
    cells_of = {name: float(size) for name, size in sizes.items()}
    cliques = [(name, *sorted(others)) for name, others in _list_eliminations(scopes, names)]
    cells = [math.prod(map(cells_of.__getitem__, clique)) for clique in (*cliques, keep)]
    largest = max(cells)
    return EliminationOrder(tuple(names), sum(cells), largest, (*cliques, tuple(keep))[cells.index(largest)])
