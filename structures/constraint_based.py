"""Arcs from tests of conditional independence: PC-stable, and max-min hill climbing.

The PC algorithm finds the same arcs whatever the order of the columns. Max-min hill climbing is hill climbing over the
arcs that tests leave.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hybridbn.errors import NetworkError
from hybridbn.fitting.fitter_choice import Potentials
from hybridbn.jobs import advance, share_passes, track, track_items
from hybridbn.network import Network
from hybridbn.options import check_count
from hybridbn.structures.building import builder
from hybridbn.structures.equivalence import direct_what_follows, find_extension
from hybridbn.structures.hill_climb import SearchOptions, graph_of, is_acyclic, read_limits, search_network
from hybridbn.structures.independence import IndependenceTests
from hybridbn.structures.knowledge import Knowledge, Limits
from hybridbn.structures.scores import Score
from hybridbn.structures.training_data import TrainingData, fit_network, read_data_without_target

__all__ = ["check_alpha", "max_min_hill_climb", "pc_stable"]

Pairs = NDArray[np.bool_]
"""Which columns are joined, symmetric."""


@builder(takes_target=False)
@share_passes
def pc_stable(
    data: Any,
    potentials: Potentials = "auto",
    weights: Any = None,
    *,
    alpha: float = 0.01,
    max_condition: int = 3,
    knowledge: Knowledge | None = None,
    n_jobs: int | None = None,
) -> Network:
    """Join the columns that are dependent whatever is given, and direct the arcs by the colliders among them.

    Parameters
    ----------
    data, potentials, weights : as in `hybridbn.fit`
        `potentials` are those of the network that is fitted in the end; the tests do not depend on them (see Notes).
    alpha : float
        Two columns are taken as independent given others if the test's p-value is greater.
    max_condition : int
        Most columns that are given in a test.
    knowledge : Knowledge, optional
        Tiers, required and forbidden arcs, pairs that are joined, roots and leaves.
    n_jobs : int, optional
        Threads that share the passes over the rows (-1: as many as there are processors), with the same result; by
        default one.

    Returns
    -------
    Network
        Its nodes are in the table's order. Of the equivalent networks, which the tests can't tell apart, it is one;
        ``hb.bootstrap(pc_stable, data).cpdag()`` tells which directions are known.

    Notes
    -----
    Discrete columns are tested by counts (the G test), a number and any other column by linear regression on normal
    scores with a mean for each configuration of the discrete columns, and two discrete columns given numbers by
    logistic regression. A test for which there are fewer than five rows for each degree of freedom is not made, and
    the columns stay joined. Rows that lack a cell take part in the tests that do not need it. A dependence that is
    neither monotone nor of means, such as that of a number and its square, is not seen by these tests;
    `hill_climb` with kernels or mixtures of truncated exponentials sees it.

    The neighbors are those of the beginning of a level, and a collider is one if its middle is in less than half of
    the sets that separate its ends, so that the order of the columns makes no difference.

    References
    ----------
    Spirtes, Glymour & Scheines (2000), "Causation, prediction, and search", 2nd edition. Colombo & Maathuis (2014),
    "Order-independent constraint-based causal structure learning", JMLR 15.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> x, y, noise, more = rng.normal(size=(4, 500))
    >>> sick = x + y + noise > 0
    >>> data = {"x": x, "y": y, "sick": np.where(sick, "yes", "no"), "pulse": 2.0 * sick + more}
    >>> sorted(pc_stable(data, "gaussian").edges)
    [('sick', 'pulse'), ('x', 'sick'), ('y', 'sick')]
    """
    check_alpha(alpha)
    check_count(max_condition, "max_condition", 0)
    training_data = read_data_without_target(data, potentials, weights, "networks by tests of independence")
    limits = Knowledge.of(knowledge).limit(training_data.attributes)
    search = _Skeleton(training_data, limits, alpha, int(max_condition))
    with track("pc_stable"):
        search.remove_independent()
        arcs = search.direct()
    names = training_data.attributes
    parents = {name: tuple(names[i] for i in np.flatnonzero(arcs[:, child])) for child, name in enumerate(names)}
    return fit_network(training_data, parents)


def check_alpha(alpha: Any) -> None:
    """Refuse a level of significance that is none.

    Examples
    --------
    >>> check_alpha(5)
    Traceback (most recent call last):
        ...
    hybridbn.errors.NetworkError: alpha is a probability between 0 and 1, such as 0.01, not 5
    """
    if isinstance(alpha, bool) or not isinstance(alpha, int | float | np.number) or not 0 < alpha < 1:
        raise NetworkError(f"alpha is a probability between 0 and 1, such as 0.01, not {alpha!r}")


class _Skeleton:
    """The pairs that are still joined, and the sets of columns that separate the others."""

    def __init__(self, data: TrainingData, limits: Limits, alpha: float, most: int) -> None:
        self.names, self.limits, self.alpha, self.most = data.attributes, limits, alpha, most
        self.tests = IndependenceTests(data)
        # limits have a row for each child
        self.allowed: Pairs = limits.allowed.T.copy()
        self.joined: Pairs = self.allowed | self.allowed.T
        self.kept: Pairs = limits.kept | limits.kept.T
        self.separating: dict[tuple[int, int], tuple[int, ...]] = {}

    def accept(self, a: int, b: int, given: Iterable[int]) -> bool:
        """Return whether two columns are taken as independent given others."""
        return self.tests.accept(self.names[a], self.names[b], [self.names[i] for i in given], self.alpha)

    def remove_independent(self) -> None:
        """Test the joined pairs given ever more of their neighbors at the beginning of the level."""
        for size in range(self.most + 1):
            before = self.joined.copy()
            pairs: list[list[int]] = np.argwhere(np.triu(before & ~self.kept)).tolist()
            neighbors = [np.flatnonzero(row) for row in before]
            if not any(len(neighbors[node]) > size for pair in pairs for node in pair):
                return
            for a, b in pairs:
                separating = next((s for s in _list_sets(neighbors, a, b, size) if self.accept(a, b, s)), None)
                if separating is not None:
                    self.joined[a, b] = self.joined[b, a] = False
                    self.separating[a, b] = separating
                advance()

    def direct(self) -> Pairs:
        """Return the arcs (parents, children) of a network with these pairs and with the colliders that were found."""
        joined = self.joined
        required = self.limits.required.T
        directed = (joined & self.allowed & ~self.allowed.T) | required
        for share, middle, a, b in sorted(self._find_colliders()):
            new = directed.copy()
            new[a, middle] = new[b, middle] = True
            # the surest colliders come first, and one that contradicts them is none
            if share < 0.5 and self.allowed[[a, b], middle].all() and is_acyclic(graph_of(new)):
                directed = new
        return find_extension(direct_what_follows(joined, directed), self.allowed & ~required.T)

    def _find_colliders(self) -> Iterator[tuple[float, int, int, int]]:
        """Yield in which share of the sets that separate two columns a common neighbor of both is, and the three."""
        joined = self.joined
        neighbors = [np.flatnonzero(row) for row in joined]
        for a, b in np.argwhere(np.triu(~joined, 1)).tolist():
            between = np.flatnonzero(joined[a] & joined[b]).tolist()
            if not between:
                continue
            sets = [self.separating[a, b]] if (a, b) in self.separating else []
            most = max(len(self.separating.get((a, b), ())), 1)
            for size in range(min(most, self.most) + 1):
                sets += [s for s in _list_sets(neighbors, a, b, size) if s not in sets and self.accept(a, b, s)]
            for middle in between:
                if sets:
                    yield sum(middle in s for s in sets) / len(sets), middle, a, b


def _list_sets(neighbors: list[NDArray[np.intp]], a: int, b: int, size: int) -> Iterator[tuple[int, ...]]:
    """Yield the sets of neighbors of one of two columns or of the other one, each once."""
    near = [[node for node in neighbors[one].tolist() if node != other] for one, other in ((a, b), (b, a))]
    yield from itertools.combinations(near[0], size)
    first = set(near[0])
    yield from (chosen for chosen in itertools.combinations(near[1], size) if not first.issuperset(chosen))


@builder(takes_target=False, resampling={"restarts": 0})
@share_passes
def max_min_hill_climb(
    data: Any,
    potentials: Potentials = "auto",
    weights: Any = None,
    *,
    alpha: float = 0.05,
    max_condition: int = 3,
    knowledge: Knowledge | None = None,
    max_parents: int | None = None,
    score: Score | None = None,
    tabu: int = 10,
    turns: int = 10,
    restarts: int = 10,
    random_state: Any = 0,
    n_jobs: int | None = None,
) -> Network:
    """Search for the network of greatest score among those whose arcs join columns that depend on each other whatever
    is given.

    First, the neighbors of each column are found: the column that depends most on it, given the subset of the neighbors
    found so far that explains most of the dependence, is added until there is none, and then those are removed that
    are independent of it given some of the others. Then `hill_climb` searches among the arcs between columns that are
    neighbors of each other.

    Parameters
    ----------
    data, potentials, weights : as in `hill_climb`
    alpha, max_condition : as in `pc_stable`
    knowledge, max_parents, score, tabu, turns, restarts, random_state : as in `hill_climb`
    n_jobs : int, optional
        Threads that share the passes over the rows (-1: as many as there are processors), with the same result; by
        default one.

    Returns
    -------
    Network
        Its nodes are in the table's order.

    Notes
    -----
    With many columns and few rows it is much faster than `hill_climb`, because few families are scored, and joins
    fewer columns by chance. See `pc_stable` for the tests, and for what they do not see.

    References
    ----------
    Tsamardinos, Brown & Aliferis (2006), "The max-min hill-climbing Bayesian network structure learning algorithm",
    Machine Learning 65.

    Examples
    --------
    >>> rng = np.random.default_rng(1)
    >>> a = rng.integers(2, size=500)
    >>> b = np.where(rng.random(500) < 0.9, a, 1 - a)
    >>> x = 2.0 * b + rng.normal(size=500)
    >>> data = {"a": a.astype(str), "b": b.astype(str), "x": x, "y": rng.normal(size=500)}
    >>> sorted(sorted(arc) for arc in max_min_hill_climb(data, "gaussian").edges)
    [['a', 'b'], ['b', 'x']]
    """
    check_alpha(alpha)
    check_count(max_condition, "max_condition", 0)
    training_data = read_data_without_target(data, potentials, weights, "neighborhoods of the max-min search")
    limits = read_limits(training_data, Knowledge.of(knowledge), max_parents)
    options = SearchOptions.of(tabu, turns, restarts, random_state, score)
    names = training_data.attributes
    search = _Neighbors(IndependenceTests(training_data), names, alpha, int(max_condition))
    possible = limits.allowed | limits.allowed.T
    near = np.zeros_like(possible)
    for target in track_items(range(len(names)), "max_min_hill_climb"):
        near[target, search.find(target, np.flatnonzero(possible[target]).tolist())] = True
    limits = limits._replace(allowed=limits.allowed & ((near & near.T) | limits.kept | limits.kept.T))
    return search_network(training_data, limits, [], options)


class _Neighbors:
    """Finds the columns that depend on one whatever others are given."""

    def __init__(self, tests: IndependenceTests, names: Sequence[str], alpha: float, most: int) -> None:
        self.tests, self.names, self.alpha, self.most = tests, names, alpha, most

    def find(self, target: int, candidates: list[int]) -> list[int]:
        """Return the neighbors of a column among some others."""
        chosen: list[int] = []
        # p-value and statistic given the subset of the chosen ones that explains most; those without a test come last
        weakest = {other: self._measure(target, other, ()) or (self.alpha, 0.0) for other in candidates}
        while True:
            # what is independent given some neighbors never becomes one
            weakest = {other: value for other, value in weakest.items() if value[0] <= self.alpha}
            if not weakest:
                break
            best = min(weakest, key=lambda other: (weakest[other][0], -weakest[other][1], other))
            del weakest[best]
            earlier = chosen.copy()
            chosen.append(best)
            for other, value in weakest.items():
                for size in range(min(len(earlier), self.most - 1) + 1) if self.most else ():
                    for subset in itertools.combinations(earlier, size):
                        if value[0] <= self.alpha:
                            value = max(value, self._measure(target, other, (*subset, best)) or value, key=_order)
                weakest[other] = value
        return [other for other in chosen if not self._is_explained(target, other, chosen)]

    def _measure(self, target: int, other: int, given: Sequence[int]) -> tuple[float, float] | None:
        """Return the p-value and the statistic, None where there are too few rows."""
        return self.tests(self.names[target], self.names[other], [self.names[i] for i in given])

    def _is_explained(self, target: int, other: int, chosen: list[int]) -> bool:
        rest = [node for node in chosen if node != other]
        sets = (s for size in range(min(len(rest), self.most) + 1) for s in itertools.combinations(rest, size))
        name, explained = self.names[target], self.names[other]
        return any(self.tests.accept(name, explained, [self.names[i] for i in s], self.alpha) for s in sets)


def _order(value: tuple[float, float]) -> tuple[float, float]:
    return value[0], -value[1]
