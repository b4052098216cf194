"""Arcs from tests of conditional independence: PC-stable, and max-min hill climbing.

The PC algorithm finds the same arcs whatever the order of the columns. Max-min hill climbing is hill climbing over the
arcs that tests leave.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple, Unpack

import numpy as np
import scipy
from numpy.typing import NDArray

from hybridbn.errors import NetworkError
from hybridbn.fitting import SoftmaxFitter
from hybridbn.fitting.base import Potentials
from hybridbn.fitting.counting import Moments, RowCounter
from hybridbn.fitting.cross_validation import collapse_rows, evaluate_rows
from hybridbn.jobs import advance, share_passes, track, track_items
from hybridbn.network import Network
from hybridbn.options import ColumnKeywords, check_count
from hybridbn.structures.arcs import Knowledge, Limits, direct_what_follows, find_extension, is_acyclic
from hybridbn.structures.building import builder
from hybridbn.structures.dependence import measure_occurring
from hybridbn.structures.hill_climb import SearchOptions, read_limits, search_network
from hybridbn.structures.scores import Score
from hybridbn.structures.training_data import TrainingData, fit_network, read_data_without_target
from hybridbn.variables import Continuous, Discrete, Values

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
    **columns: Unpack[ColumnKeywords],
) -> Network:
    """Join the columns that are dependent whatever is given, and direct the arcs by the colliders among them.

    Parameters
    ----------
    data, potentials, weights, **columns : as in `hybridbn.fit`
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
    training_data = read_data_without_target(data, potentials, weights, "networks by tests of independence", **columns)
    # of equivalent networks the same one, whatever the order of the table
    ordered = training_data.select(collapse_rows(training_data.table).columns)
    search = _Skeleton(ordered, Knowledge.of(knowledge).limit(ordered.attributes), alpha, int(max_condition))
    with track("pc_stable"):
        search.remove_independent()
        arcs = search.direct()
    names = ordered.attributes
    above = {name: {names[i] for i in np.flatnonzero(arcs[:, child])} for child, name in enumerate(names)}
    listed = training_data.attributes
    return fit_network(training_data, {child: tuple(n for n in listed if n in above[child]) for child in listed})


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
            if share < 0.5 and self.allowed[[a, b], middle].all() and is_acyclic(new):
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
            yield from ((sum(middle in s for s in sets) / len(sets), middle, a, b) for middle in between if sets)


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
    **columns: Unpack[ColumnKeywords],
) -> Network:
    """Search for the network of greatest score among those whose arcs join columns that depend on each other whatever
    is given.

    First, the neighbors of each column are found: the column that depends most on it, given the subset of the neighbors
    found so far that explains most of the dependence, is added until there is none, and then those are removed that
    are independent of it given some of the others. Then `hill_climb` searches among the arcs between columns that are
    neighbors of each other.

    Parameters
    ----------
    data, potentials, weights, **columns : as in `hill_climb`
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
    training_data = read_data_without_target(
        data, potentials, weights, "neighborhoods of the max-min search", **columns
    )
    limits = read_limits(training_data, Knowledge.of(knowledge), max_parents)
    options = SearchOptions.of(tabu, turns, restarts, random_state, score)
    names = training_data.attributes
    tests = IndependenceTests(training_data)
    possible = limits.allowed | limits.allowed.T
    near = np.zeros_like(possible)
    for target in track_items(range(len(names)), "max_min_hill_climb"):
        candidates = [names[other] for other in np.flatnonzero(possible[target])]
        found = _find_neighbors(tests, names[target], candidates, alpha, int(max_condition))
        near[target] = [name in found for name in names]
    limits = limits._replace(allowed=limits.allowed & ((near & near.T) | limits.kept | limits.kept.T))
    return search_network(training_data, limits, np.zeros_like(possible), options)


def _find_neighbors(tests: IndependenceTests, target: str, candidates: list[str], alpha: float, most: int) -> list[str]:
    """Return the columns among some others that depend on one whatever at most so many are given."""
    chosen: list[str] = []
    # p-value and statistic given the subset of the chosen ones that explains most; those without a test come last
    weakest = {other: tests(target, other) or (alpha, 0.0) for other in candidates}
    while True:
        # what is independent given some neighbors never becomes one
        weakest = {other: value for other, value in weakest.items() if value[0] <= alpha}
        if not weakest:
            break
        best = min(weakest, key=lambda other: _order(weakest[other]))
        del weakest[best]
        earlier = chosen.copy()
        chosen.append(best)
        for other, value in weakest.items():
            for subset in _list_subsets(earlier, most - 1):
                if value[0] <= alpha:
                    value = max(value, tests(target, other, (*subset, best)) or value, key=_order)
            weakest[other] = value
    sets = {other: _list_subsets([node for node in chosen if node != other], most) for other in chosen}
    return [other for other in chosen if not any(tests.accept(target, other, given, alpha) for given in sets[other])]


def _list_subsets(names: list[str], most: int) -> Iterator[tuple[str, ...]]:
    """Yield the sets of at most so many names, none if that is negative."""
    return itertools.chain.from_iterable(
        itertools.combinations(names, size) for size in range(min(len(names), most) + 1)
    )


def _order(value: tuple[float, float]) -> tuple[float, float]:
    return value[0], -value[1]


LEAST_ROWS = 5.0
"""A test with fewer rows for each degree of freedom tells too little (Tsamardinos, Brown & Aliferis 2006)."""
_MOST_CELLS = 2**22
"""Larger arrays of moments are not made: with so many configurations there are few rows in each."""
_KEPT_CELLS = 2**20
"""Moments of all numbers at once are kept for the next tests if they have at most so many entries: a counter remembers
smaller ones only.
"""
_CERTAIN = 1e-10
"""Less than this share of a number's sum of squares is a rounding error."""


class Outcome(NamedTuple):
    """The outcome of a test.

    Attributes
    ----------
    p : float
        The probability of so large a statistic under independence.
    statistic : float
        The logarithm of the ratio of the likelihoods, twice; 0 for no dependence at all.
    """

    p: float
    statistic: float


class IndependenceTests:
    """Tests whether columns are independent given others, each test made once.

    Parameters
    ----------
    data : TrainingData

    References
    ----------
    Harris & Drton (2013), "PC algorithm for nonparanormal graphical models", JMLR 14. Edwards (2000), "Introduction to
    graphical modelling", 2nd edition.

    Examples
    --------
    >>> from hybridbn.structures.training_data import read_data_without_target
    >>> rng = np.random.default_rng(0)
    >>> x, z, noise = rng.normal(size=(3, 200))
    >>> data = {"x": x, "y": np.exp(x + z), "z": z, "c": np.where(z + noise > 0, "p", "n")}
    >>> tests = IndependenceTests(read_data_without_target(data, "auto", None))
    >>> [round(tests("x", *others).p, 3) for others in [("z", ()), ("z", ("y",)), ("c", ("z",)), ("c", ("y",))]]
    [0.261, 0.0, 0.939, 0.0]
    """

    def __init__(self, data: TrainingData) -> None:
        self.names: list[str] = list(data.roles)
        self._discrete = {name: isinstance(data.variable(name), Discrete) for name in self.names}
        self.data: TrainingData = self._replace_numbers(data)
        self.counter: RowCounter = self.data.counter(self.names).persist()
        self._outcomes: dict[tuple[frozenset[str], frozenset[str]], Outcome | None] = {}
        numbers = [name for name in self.names if not self._discrete[name]]
        self._whole = [name for name in numbers if name not in self.counter.incomplete]
        self._moments: dict[tuple[str, ...], Moments] = {}

    def _replace_numbers(self, data: TrainingData) -> TrainingData:
        """Return the data with normal scores in the place of numbers."""
        table, roles = data.table, dict(data.roles)
        for name in self.names:
            if not self._discrete[name]:
                variable = Continuous(name)
                table = table.with_column(name, _find_normal_scores(data.codes(name), table.weights), variable)
                roles[name] = roles[name]._replace(variable=variable)
        return TrainingData(table, roles, data.target)

    def __call__(self, first: str, second: str, given: Iterable[str] = ()) -> Outcome | None:
        """Return the outcome of a test, None where there are too few rows for it."""
        key = frozenset((first, second)), frozenset(given)
        if key not in self._outcomes:
            # the same test whatever the order in which the columns are named
            pair = sorted(key[0], key=lambda name: (self._discrete[name], self.names.index(name)))
            others = sorted(key[1], key=self.names.index)
            if not self._discrete[pair[0]]:
                outcome = self._test_by_regression(pair[0], pair[1], others)
            elif all(self._discrete[name] for name in others):
                outcome = self._test_by_counts(pair[0], pair[1], others)
            else:
                outcome = self._test_by_logistic_regression(pair[0], pair[1], others)
            self._outcomes[key] = outcome
        return self._outcomes[key]

    def accept(self, first: str, second: str, given: Iterable[str], alpha: float) -> bool:
        """Return whether independence can be assumed; where nothing can be told, it is not."""
        outcome = self(first, second, given)
        return outcome is not None and outcome.p > alpha

    # -- two discrete columns -----------------------------------------------------------------------------------------

    def _test_by_counts(self, first: str, second: str, given: list[str]) -> Outcome | None:
        keys, counts = self.counter.occurring((*given, first, second))
        rows, columns = self.counter.shape((first, second))
        # configurations of the others that occur, numbered anew
        cells, within = np.unique(keys // (rows * columns), return_inverse=True)
        # how many states of each of the two occur in each
        seen = [
            np.bincount(np.unique(within * size + codes) // size)
            for size, codes in ((rows, keys // columns % rows), (columns, keys % columns))
        ]
        degrees = int(((seen[0] - 1) * (seen[1] - 1)).sum())
        keys = within * (rows * columns) + keys % (rows * columns)
        statistic = 2 * measure_occurring(keys, counts, (len(cells), rows, columns))
        return _judge(statistic, degrees, float(counts.sum()))

    # -- a number and any other column --------------------------------------------------------------------------------

    def _test_by_regression(self, child: str, other: str, given: list[str]) -> Outcome | None:
        regressors = [name for name in (*given, other) if not self._discrete[name]]
        cells = [name for name in (*given, other) if self._discrete[name]]
        moments = self._find_moments((child, *regressors), tuple(cells))
        if moments is None:
            return None
        largest = float(moments.products[:, 0, 0].sum())
        if self._discrete[other]:
            states = self.counter.sizes[other]
            within = moments.products.sum(axis=0)
            groups = moments.weights.reshape(-1, states)
            pooled = within + _sum_between(groups, moments.means.reshape(*groups.shape, -1))
            outer, inner = int((groups.sum(axis=1) > 0).sum()), int((groups > 0).sum())
            degrees, left = inner - outer, moments.total - inner - len(regressors)
            residuals = _find_residual(pooled), _find_residual(within)
            largest = float(pooled[0, 0])
        else:
            products = moments.products.sum(axis=0)
            degrees, left = 1, moments.total - int((moments.weights > 0).sum()) - len(regressors)
            residuals = _find_residual(products[:-1, :-1]), _find_residual(products)
        if left < LEAST_ROWS * max(degrees, 1):
            return None
        return _compare_residuals(*residuals, degrees, left, largest)

    def _find_moments(self, numbers: tuple[str, ...], given: tuple[str, ...]) -> Moments | None:
        """Return the moments of some numbers in each configuration of discrete columns, None if these are too many."""
        size = math.prod(self.counter.shape(given))
        if size * len(numbers) ** 2 > _MOST_CELLS:
            return None
        if self.counter.incomplete.intersection((*numbers, *given)) or size * len(self._whole) ** 2 > _KEPT_CELLS:
            return self.counter.moments(numbers, given)
        if given not in self._moments:
            self._moments[given] = self.counter.moments(tuple(self._whole), given)
        kept, places = self._moments[given], [self._whole.index(name) for name in numbers]
        chosen = np.ix_(range(size), places, places)
        return Moments(kept.total, kept.weights, kept.means[:, places], kept.products[chosen])

    # -- two discrete columns given numbers ---------------------------------------------------------------------------

    def _test_by_logistic_regression(self, first: str, second: str, given: list[str]) -> Outcome | None:
        names = sorted((first, second), key=lambda name: (self.counter.sizes[name], self.names.index(name)))
        child, other = names
        family = (child, other, *given)
        rows = np.flatnonzero(self.data.find_complete(family) & (self.data.table.weights > 0))
        # coefficients for each configuration of the discrete columns
        cells = math.prod(self.counter.sizes[name] for name in family[1:] if self._discrete[name])
        numbers = sum(not self._discrete[name] for name in given)
        states = self.counter.sizes[child] - 1
        degrees = states * (cells - cells // self.counter.sizes[other]) * (1 + numbers)
        total = float(self.data.table.weights[rows].sum())
        if degrees <= 0 or total < LEAST_ROWS * degrees:
            return None
        with_other, without = (self._fit_logistic(child, parents, rows) for parents in ((other, *given), tuple(given)))
        return _judge(2 * (with_other - without), degrees, total)

    def _fit_logistic(self, child: str, parents: tuple[str, ...], rows: NDArray[np.intp]) -> float:
        """Return the log-likelihood of a logistic regression in some rows."""
        data = self.data.take(rows)
        values, weights = evaluate_rows(data.fit(child, parents, SoftmaxFitter(ridge=1e-2, m=1e-2)), data.table)
        return float(weights @ values)


def _judge(statistic: float, degrees: int, rows: float) -> Outcome | None:
    """Return the outcome of a test whose statistic has a chi-square distribution under independence."""
    if degrees <= 0:
        return Outcome(1.0, 0.0)
    if rows < LEAST_ROWS * degrees:
        return None
    statistic = max(statistic, 0.0)
    return Outcome(float(scipy.special.chdtrc(degrees, statistic)), statistic)


def _compare_residuals(without: float, with_other: float, degrees: int, left: float, largest: float) -> Outcome:
    """Return the outcome of an F test of two residual sums of squares."""
    if degrees <= 0 or without <= _CERTAIN * largest:
        # what nothing is left of can't depend on anything else
        return Outcome(1.0, 0.0)
    if with_other <= _CERTAIN * without:
        return Outcome(0.0, math.inf)
    ratio = max(without - with_other, 0.0) / degrees / (with_other / left)
    return Outcome(
        float(scipy.special.fdtrc(degrees, left, ratio)), left * math.log(without / min(with_other, without))
    )


def _find_residual(products: Values) -> float:
    """Return the residual sum of squares of the first column's regression on the others."""
    across = products[0, 1:]
    if not len(across):
        return float(products[0, 0])
    slopes, *_ = np.linalg.lstsq(products[1:, 1:], across, rcond=1e-12)
    return max(float(products[0, 0] - across @ slopes), 0.0)


def _sum_between(weights: Values, means: Values) -> Values:
    """Return the products of the deviations of the groups' means (cells, groups, columns) from those of their cells."""
    totals = weights.sum(axis=1)
    shares = weights / np.where(totals > 0, totals, 1.0)[:, None]
    deviations = means - (shares[:, :, None] * means).sum(axis=1, keepdims=True)
    return np.asarray(np.einsum("kg,kgi,kgj->ij", weights, deviations, deviations))


def _find_normal_scores(column: Values, weights: Values) -> Values:
    """Return the normal quantiles of the ranks of a column; equal numbers have equal ranks.

    Examples
    --------
    >>> _find_normal_scores(np.array([1.0, 9.0, np.nan, 1.0, 0.0]), np.ones(5)).round(3)
    array([ 0.  ,  1.15,   nan,  0.  , -1.15])
    """
    result = np.full(len(column), np.nan)
    observed = np.flatnonzero(~np.isnan(column))
    if len(observed):
        _, groups = np.unique(column[observed], return_inverse=True)
        sums = np.bincount(groups, weights[observed])
        total = sums.sum()
        middle = np.cumsum(sums) - sums / 2
        result[observed] = scipy.special.ndtri(np.clip(middle / max(total, 1e-300), 1e-12, 1 - 1e-12))[groups]
    return result
