"""Max-min hill climbing: hill climbing over the arcs that tests of conditional independence leave."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from hybridbn.arguments import check_count
from hybridbn.fitting.fitter_choice import Potentials
from hybridbn.jobs import share_passes
from hybridbn.network import Network
from hybridbn.progress_reports import track_items
from hybridbn.structures.building import builder
from hybridbn.structures.hill_climb import SearchOptions, read_limits, search_network
from hybridbn.structures.independence import IndependenceTests
from hybridbn.structures.knowledge import Knowledge
from hybridbn.structures.pc_stable import check_alpha
from hybridbn.structures.scores import Score
from hybridbn.structures.training_data import read_data_without_target

__all__ = ["max_min_hill_climb"]


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
