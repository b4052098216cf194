"""Hill climbing by a score over all directed acyclic graphs, with a tabu list, restarts and reversals of covered arcs.

A set of nodes is an integer with a bit for each node, and a graph is a tuple of the parents of each node, so that the
ancestors of all nodes take a few operations per arc. Matrices have a row for each child and a column for each parent.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Sequence
from functools import lru_cache
from typing import Any, Literal, NamedTuple, Unpack

import numpy as np
from numpy.typing import NDArray

from hybridbn.errors import NetworkError
from hybridbn.fitting.base import Potentials
from hybridbn.jobs import advance, share_passes, track
from hybridbn.network import Network
from hybridbn.options import KindKeywords, Marks, check_count, make_generator, split_missing
from hybridbn.structures.arcs import Knowledge, Limits, is_acyclic, matrix_of, read_arcs, refuse_strangers
from hybridbn.structures.building import builder, structural_em
from hybridbn.structures.scores import BIC, FamilyScores, Score
from hybridbn.structures.training_data import TrainingData, fit_network, read_data_without_target
from hybridbn.tables import read_rows
from hybridbn.variables import Values


@builder(takes_target=False, resampling={"restarts": 0})
@share_passes
def hill_climb(
    data: Any,
    potentials: Potentials = "auto",
    weights: Any = None,
    *,
    start: Iterable[tuple[str, str]] = (),
    required: Iterable[tuple[str, str]] = (),
    forbidden: Iterable[tuple[str, str]] = (),
    knowledge: Knowledge | None = None,
    max_parents: int | None = None,
    score: Score | None = None,
    tabu: int = 10,
    turns: int = 10,
    restarts: int = 10,
    missing: Literal["em", "available"] | Marks = "em",
    random_state: Any = 0,
    n_jobs: int | None = None,
    **kinds: Unpack[KindKeywords],
) -> Network:
    r"""Search for the network of greatest score, by default BIC, adding, removing or reversing one arc at a time.

    .. math:: \mathrm{BIC} = \sum_i \log L(x_i \mid \mathrm{parents}_i) - \frac{k_i}{2} \log n

    Arcs may have any direction: a category may depend on numbers. The score is a sum over families, each computed once.

    Parameters
    ----------
    data, potentials, weights, **kinds : as in `hybridbn.fit`
        Any family: without a formula for its score, its density is fitted and evaluated ("auto": mixtures of truncated
        exponentials for numbers). "gaussian" is by far the fastest for numbers.
    start : iterable of (from, to), optional
        Arcs to start from.
    required, forbidden : iterable of (from, to), optional
        Arcs that are never removed, and arcs that are never added.
    knowledge : Knowledge, optional
        The same and more: tiers, roots, leaves, and pairs that are joined in the direction that fits better.
    max_parents : int, optional
        Greatest number of parents of a node.
    score : Score, optional
        By default `BIC`; `BDeu` for categories, `BGe` for numbers with normal densities, `CrossValidation` for any
        columns (all in `hybridbn.structures`).
    tabu : int
        At a local maximum the search goes on for this many steps with the best change that doesn't lead back to one of
        the last `tabu` networks. 0 stops at the local maximum.
    turns : int
        After each step this many arcs are reversed, drawn from those whose reversal doesn't change the score, because
        equivalent networks have different neighbors. With 0 the result depends on which of two equivalent networks
        comes first.
    restarts : int
        Number of times that the search starts again from the best network without three tenths of its arcs.
    missing : {"em", "available"}, or values that mark missing cells, such as {"sex": [9]}
        How an incomplete table is scored: by structural EM (see Notes), also where marks are given, or by the rows in
        which a family is observed.
    random_state : int, Generator or None
        The source of the reversals, the restarts, and the draws of structural EM.
    n_jobs : int, optional
        Threads that share the passes over the rows (-1: as many as there are processors), with the same result; by
        default one.

    Returns
    -------
    Network
        Its nodes are in the table's order.

    Notes
    -----
    Structural EM fills the holes by exact joint draws from the current network and searches again, until the BIC of the
    observed cells stops rising (Friedman 1997). The reversals are the "repeated covered arc reversal" of Castelo and
    Kočka (2003).

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
    strategy, marks = split_missing(missing, ("em", "available"), NetworkError)
    training_data = read_data_without_target(data, potentials, weights, **kinds, missing=marks)
    limits = read_limits(training_data, Knowledge.of(knowledge, required, forbidden), max_parents)
    options = SearchOptions.of(tabu, turns, restarts, random_state, score)
    arcs = read_arcs(start, "start")
    refuse_strangers([name for arc in arcs for name in arc], training_data.roles, "start")
    return search_network(training_data, limits, matrix_of(arcs, training_data.attributes).T, options, strategy)


def search_network(
    training_data: TrainingData,
    limits: Limits,
    start: NDArray[np.bool_],
    options: SearchOptions,
    missing: str = "em",
) -> Network:
    """Return the network of greatest score within limits, learned from a table that may have holes."""
    attributes, table = training_data.attributes, training_data.rows
    if missing == "available" or not any(table.missing[name] for name in attributes):
        return _search(training_data, limits, start, options)

    def build(data: Any, _: str) -> Network:
        completed = read_rows(data)[0].with_variables(table.variables)
        return _search(TrainingData(completed, training_data.roles, None), limits, start, options)

    return structural_em(table, attributes[0], build, random_state=options.seed).network


def read_limits(data: TrainingData, knowledge: Knowledge, most: int | None) -> Limits:
    """Return the arcs that a search must and may have."""
    most = None if most is None else check_count(most, "max_parents", 1, NetworkError)
    return knowledge.limit(data.attributes, most)


class SearchOptions(NamedTuple):
    """The options of a search."""

    tabu: int
    turns: int
    restarts: int
    seed: int
    score: Score

    @classmethod
    def of(cls, tabu: Any, turns: Any, restarts: Any, random_state: Any, score: Any) -> SearchOptions:
        """Return options, or raise an error if one of them makes no sense."""
        options = {"tabu": tabu, "turns": turns, "restarts": restarts}
        tabu, turns, restarts = (check_count(value, what, 0, NetworkError) for what, value in options.items())
        seed = int(make_generator(random_state).integers(2**63))
        if score is not None and not isinstance(score, Score):
            raise NetworkError(f"score must be an object such as hybridbn.structures.BDeu(), not {score!r:.80}")
        return cls(tabu, turns, restarts, seed, score or BIC())


def _search(data: TrainingData, limits: Limits, start: NDArray[np.bool_], options: SearchOptions) -> Network:
    scores = options.score.prepare(data)
    # of two equally good arcs the one from the column of lower score, which is the less certain one, comes first
    order = sorted(range(len(data.attributes)), key=lambda i: scores(data.attributes[i], ()))
    names = [data.attributes[column] for column in order]
    limits = limits.reorder(order)
    arcs = limits.required | (limits.allowed & start[np.ix_(order, order)])
    if not is_acyclic(arcs):
        raise NetworkError("the arcs to start from, with the required ones, make a cycle")
    arcs = limits.direct(arcs)
    rng = np.random.default_rng(options.seed)
    best = climb(
        names,
        scores,
        limits,
        graph_of(arcs),
        tabu=options.tabu,
        turns=options.turns,
        restarts=options.restarts,
        rng=rng,
    )
    best = _check_estimates(names, scores, limits, best, rng)
    column_of = {name: i for i, name in enumerate(names)}
    parents = {
        name: tuple(given for given in data.attributes if best[column_of[name]] >> column_of[given] & 1)
        for name in data.attributes
    }
    return fit_network(data, parents, potentials=scores.potentials)


def _check_estimates(
    names: list[str], scores: FamilyScores, limits: Limits, graph: Graph, rng: np.random.Generator
) -> Graph:
    """Return the best of the graphs that are left when densities with estimated scores are fitted, and the search goes
    on from there.
    """
    column_of = {name: i for i, name in enumerate(names)}
    checked: dict[Graph, float] = {}
    for _ in range(MOST_CHECKS):
        parents = {
            name: sorted(map(names.__getitem__, _list_nodes(nodes)), key=scores.column_index.__getitem__)
            for name, nodes in zip(names, graph, strict=True)
        }
        kept = scores.drop_useless_parents(
            parents, lambda child, parent: bool(limits.kept[column_of[child], column_of[parent]])
        )
        graph = tuple(sum(1 << column_of[parent] for parent in kept[name]) for name in names)
        if graph in checked:
            break
        checked[graph] = sum(max(scores(name, kept[name]), IMPOSSIBLE) for name in names)
        graph = climb(names, scores, limits, graph, tabu=0, turns=0, restarts=0, rng=rng)
    return max(checked, key=checked.__getitem__)


TOLERANCE = 1e-6
DIGITS = 6
"""Gains are rounded to this many digits, so that equal gains stay equal in whatever order their terms were added."""
DROPPED = 0.3
"""A restart drops this share of the arcs."""
MOST_CHECKS = 2
"""How often densities whose scores are estimates are fitted, at most."""
IMPOSSIBLE = -1e300
"""The score of a family that can't be fitted: lower than any other, but finite, so that differences are numbers."""
MOST_NEUTRAL_ROUNDS = 3
"""At a local maximum arcs are reversed at most this many times to find a neighbor with a better score."""

Graph = tuple[int, ...]
"""The parents of each node, as bits."""


_REVERSE = 1


def graph_of(arcs: NDArray[np.bool_]) -> Graph:
    """Return the graph of a matrix (children, parents).

    Examples
    --------
    >>> graph_of(np.array([[0, 1, 1], [0, 0, 1], [0, 0, 0]], dtype=bool))
    (6, 4, 0)
    """
    return tuple(int.from_bytes(row.tobytes(), "little") for row in np.packbits(arcs, axis=1, bitorder="little"))


def arcs_of(sets: Sequence[int]) -> NDArray[np.bool_]:
    """Return the matrix (nodes, members) of some sets of nodes.

    Examples
    --------
    >>> arcs_of((6, 4, 0)).astype(int).tolist()
    [[0, 1, 1], [0, 0, 1], [0, 0, 0]]
    """
    size = len(sets)
    width = (size + 7) // 8
    packed = np.frombuffer(b"".join(nodes.to_bytes(width, "little") for nodes in sets), np.uint8)
    return np.unpackbits(packed.reshape(size, -1), axis=1, count=size, bitorder="little").view(bool)


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
    """Return the best graph of a search from a start and of restarts from the best graph without some of its arcs.

    Examples
    --------
    >>> from hybridbn.structures.training_data import read_data_without_target
    >>> data = {"a": ["x", "x", "y", "y"] * 5, "b": ["u", "u", "v", "v"] * 5}
    >>> scores = FamilyScores(read_data_without_target(data, "auto", None))
    >>> limits = Knowledge().limit(["a", "b"])
    >>> climb(["a", "b"], scores, limits, (0, 0), tabu=0, turns=0, restarts=0, rng=np.random.default_rng(0))
    (2, 0)
    """
    with track("hill_climb"):
        search = _GraphSearch(names, scores, limits, start)
        score, best = _find_local_maximum(search, tabu, turns, rng)
        for _ in range(restarts):
            arcs = arcs_of(best)
            search.move_to(graph_of(arcs & (limits.kept | (rng.random(arcs.shape) >= DROPPED))))
            new_score, graph = _find_local_maximum(search, tabu, turns, rng)
            if new_score > score + TOLERANCE:
                score, best = new_score, graph
        return best


def _find_local_maximum(search: _GraphSearch, tabu: int, turns: int, rng: np.random.Generator) -> tuple[float, Graph]:
    """Search until neither reversals nor tabu steps improve the score; return the score and the graph."""
    while True:
        _climb_to_maximum(search, turns, rng)
        score, graph = search.score, search.parents
        if not _escape_maximum(search, tabu):
            return score, graph


def _climb_to_maximum(search: _GraphSearch, turns: int, rng: np.random.Generator) -> None:
    """Apply the change of the greatest gain, then reverse some neutral arcs, as long as the score improves."""
    rounds, top = 0, search.score
    while rounds <= (MOST_NEUTRAL_ROUNDS if turns else 0):
        change = search.find_best()
        if change is not None and change[0] > 0:
            search.move_to(change[1])
        # a gain may only make up for the rounding errors of reversals
        higher = search.score > top + TOLERANCE
        rounds, top = (0, search.score) if higher else (rounds + 1, top)
        if not search.reverse_neutral_arcs(turns, rng) and not higher:
            return


def _escape_maximum(search: _GraphSearch, tabu: int) -> bool:
    """Leave a local maximum by the best changes that avoid the last graphs; return whether the score improved."""
    maximum = search.score
    visited = deque([search.parents], maxlen=max(tabu, 1))
    steps = 0
    while tabu and search.score <= maximum + TOLERANCE:
        change = search.find_best(visited)
        if change is None or (change[0] <= 0 and steps >= tabu):
            return False
        search.move_to(change[1])
        visited.append(search.parents)
        steps += 1
    return bool(tabu)


class _GraphSearch:
    """The current graph and the gains of all single changes, of which only those of changed families are updated."""

    def __init__(self, names: list[str], scores: FamilyScores, limits: Limits, start: Graph) -> None:
        self.names, self.scores, self.limits = names, scores, limits
        self._free, self._removable = ~limits.required, ~limits.kept
        self._score_columns = np.array([scores.column_index[name] for name in names], dtype=np.intp)
        self._cache: dict[tuple[int, int], tuple[float, Values, NDArray[np.bool_]]] = {}
        self._arcs = np.zeros((len(names), len(names)), dtype=bool)
        self._counts = np.zeros(len(names), dtype=np.intp)
        self._order = list(range(len(names)))
        self._scores = [0.0] * len(names)
        self._toggle_gains = np.full((len(names), len(names)), -np.inf)
        """The gain of each family when a parent is added or removed."""
        self.parents: Graph = (-1,) * len(names)
        self.move_to(start)

    @property
    def score(self) -> float:
        """The score of the current graph."""
        return sum(self._scores)

    def move_to(self, graph: Graph) -> None:
        """Make another graph the current one, and score the families that it has not had."""
        changed = [child for child, (old, new) in enumerate(zip(self.parents, graph, strict=True)) if old != new]
        self.parents = graph
        for child in changed:
            self._score_family(child)
        advance(f"score {self.score:.1f}")

    def _score_family(self, child: int) -> None:
        key = child, self.parents[child]
        if key not in self._cache:
            parents = frozenset(self.names[i] for i in _list_nodes(key[1]))
            score = max(self.scores(self.names[child], parents), IMPOSSIBLE)
            changed = self.scores.score_changes(self.names[child], parents)[self._score_columns]
            # parents with which the family can't be fitted are excluded
            gains = np.where(changed > -np.inf, np.round(changed - score, DIGITS), -np.inf)
            self._cache[key] = score, gains, arcs_of([key[1], *[0] * (len(self.names) - 1)])[0]
        self._scores[child], self._toggle_gains[child], self._arcs[child] = self._cache[key]
        self._counts[child] = key[1].bit_count()

    def find_best(self, past: Collection[Graph] = ()) -> tuple[float, Graph] | None:
        """Return the greatest gain of a change that leads to none of the past graphs, and the graph after it."""
        gains = self._compute_gains()
        while True:
            kind, child, parent = map(int, np.unravel_index(int(gains.argmax()), gains.shape))
            gain = float(gains[kind, child, parent])
            if gain == -np.inf:
                return None
            graph = self._change(kind, child, parent)
            if graph not in past:
                return gain, graph
            gains[kind, child, parent] = -np.inf

    def _compute_gains(self) -> Values:
        """Return the gains of toggling and reversing each arc (2, children, parents), -inf where one is not allowed."""
        ancestors, indirect = _find_ancestors(self.parents, self._order)
        arcs, free = self._arcs, self._free
        has_room = self._counts < self.limits.most
        result = np.full((2, *arcs.shape), -np.inf)
        addable = self.limits.allowed & ~(arcs | arcs_of(ancestors).T) & has_room[:, None]
        np.copyto(result[0], self._toggle_gains, where=addable | (arcs & self._removable))
        # reversing an arc makes a cycle if there is another path between its ends
        reversible = arcs & free & ~arcs_of(indirect) & self.limits.allowed.T & has_room
        np.copyto(result[_REVERSE], self._toggle_gains + self._toggle_gains.T, where=reversible)
        return result

    def reverse_neutral_arcs(self, times: int, rng: np.random.Generator) -> bool:
        """Reverse arcs in random order, at most `times`, whose reversal doesn't change the score; return whether there
        was one.

        They are covered arcs (their ends have the same other parents), whose reversal leads to an equivalent graph.
        """
        if not times:
            return False
        arcs = [(child, parent) for child, nodes in enumerate(self.parents) for parent in _list_nodes(nodes)]
        count = 0
        for number in rng.permutation(len(arcs)).tolist():
            child, parent = arcs[number]
            parents = self.parents[child]
            # an earlier reversal may have changed the family
            if (
                parents >> parent & 1
                and self.parents[parent] == parents ^ (1 << parent)
                and self._is_neutral(child, parent)
            ):
                self.move_to(self._change(_REVERSE, child, parent))
                count += 1
                if count == times:
                    break
        return count > 0

    def _is_neutral(self, child: int, parent: int) -> bool:
        """Return whether the reversal of a covered arc is allowed and doesn't change the score."""
        limits = self.limits
        if limits.required[child, parent] or not limits.allowed[parent, child]:
            return False
        if self.parents[parent].bit_count() >= limits.most:
            return False
        return bool(abs(self._toggle_gains[child, parent] + self._toggle_gains[parent, child]) <= 2 * TOLERANCE)

    def _change(self, kind: int, child: int, parent: int) -> Graph:
        """Return the graph after the addition, removal (kind 0) or reversal (1) of an arc."""
        parents = list(self.parents)
        parents[child] ^= 1 << parent
        if kind == _REVERSE:
            parents[parent] ^= 1 << child
        return tuple(parents)


@lru_cache(maxsize=2**14)
def _list_nodes(nodes: int) -> tuple[int, ...]:
    """Return the nodes of a set."""
    return tuple(node for node in range(nodes.bit_length()) if nodes >> node & 1)


def _find_ancestors(parents: Sequence[int], order: list[int]) -> tuple[list[int], list[int]]:
    """Return the ancestors of each node, and those with a path of more than one arc to it.

    An order of the nodes, in which parents should come first, saves time; it is put right for the next call.
    """
    ancestors, indirect = [-1] * len(parents), [0] * len(parents)
    done: list[int] = []
    waiting = order.copy()
    while waiting:
        late = []
        for node in waiting:
            reached = 0
            for parent in _list_nodes(parents[node]):
                above = ancestors[parent]
                if above < 0:
                    late.append(node)
                    break
                reached |= above
            else:
                indirect[node], ancestors[node] = reached, reached | parents[node]
                done.append(node)
        waiting = late
    order[:] = done
    return ancestors, indirect
