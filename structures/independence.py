"""Tests of conditional independence for every pair of kinds of columns: likelihood ratios of nested models.

Two discrete columns given discrete ones are compared by counts (the G test), and a number with any other column by
linear regressions with a mean for each configuration of the discrete columns (an F test). Two discrete columns given
numbers take logistic regressions. Numbers are first replaced by their normal scores, so that outliers and curved but
monotone dependences do no harm (Harris & Drton 2013).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hybridbn.fitting import Fitter, SoftmaxFitter
from hybridbn.fitting.counting import Counter, Moments
from hybridbn.fitting.cross_validation import evaluate_rows
from hybridbn.potentials.base import Potential
from hybridbn.structures.dependence import measure_occurring
from hybridbn.structures.training_data import TrainingData
from hybridbn.variables import Continuous, Discrete, Values

__all__ = ["IndependenceTests", "Outcome"]

LEAST_ROWS = 5.0
"""A test with fewer rows for each degree of freedom tells too little (Tsamardinos, Brown & Aliferis 2006)."""
_MOST_CELLS = 2**22
"""Larger arrays of moments are not made: with so many configurations there are few rows in each."""
_KEPT_CELLS = 2**20
"""Moments of all numbers at once are kept for the next tests if they have at most so many entries."""
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
        self.counter: Counter = self.data.counter(self.names).persist()
        self._outcomes: dict[tuple[frozenset[str], frozenset[str]], Outcome | None] = {}
        self._moments: dict[tuple[str, ...], Moments] = {}

    def _replace_numbers(self, data: TrainingData) -> TrainingData:
        """Return the data with normal scores in the place of numbers."""
        table, roles = data.table, dict(data.roles)
        for name in self.names:
            if not self._discrete[name]:
                variable = Continuous(name)
                table = table.with_column(name, _find_normal_scores(data.codes(name), data.weights), variable)
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
        seen = np.zeros((2, len(cells)), dtype=np.intp)
        for place, (size, codes) in enumerate(((rows, keys // columns % rows), (columns, keys % columns))):
            occurring = np.zeros((len(cells), size), dtype=bool)
            occurring[within, codes] = True
            seen[place] = occurring.sum(axis=1)
        degrees = int(((seen[0] - 1) * (seen[1] - 1)).sum())
        keys = within * (rows * columns) + keys % (rows * columns)
        statistic = 2 * measure_occurring(keys, counts, (len(cells), rows, columns))
        return _judge(statistic, degrees, float(counts.sum()))

    # -- a number and any other column --------------------------------------------------------------------------------

    def _test_by_regression(self, child: str, other: str, given: list[str]) -> Outcome | None:
        regressors = [name for name in given if not self._discrete[name]]
        cells = [name for name in given if self._discrete[name]]
        if self._discrete[other]:
            cells.append(other)
        else:
            regressors.append(other)
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
        if self.counter.incomplete.intersection((*numbers, *given)):
            return self.counter.moments(numbers, given)
        whole = self._whole_numbers
        if size * len(whole) ** 2 > _KEPT_CELLS:
            return self.counter.moments(numbers, given)
        if given not in self._moments:
            self._moments[given] = self.counter.moments(tuple(whole), given)
        kept, chosen = self._moments[given], [whole[name] for name in numbers]
        return Moments(
            kept.total, kept.weights, kept.means[:, chosen], kept.products[:, np.array(chosen)[:, None], chosen]
        )

    @cached_property
    def _whole_numbers(self) -> dict[str, int]:
        """Positions of the numbers without missing cells."""
        names = [name for name in self.names if not self._discrete[name] and name not in self.counter.incomplete]
        return {name: i for i, name in enumerate(names)}

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
        if degrees <= 0 or len(rows) < LEAST_ROWS * degrees:
            return None
        with_other, without = (self._fit_logistic(child, parents, rows) for parents in ((other, *given), tuple(given)))
        return _judge(2 * (with_other - without), degrees, float(self.data.table.weights[rows].sum()))

    def _fit_logistic(self, child: str, parents: tuple[str, ...], rows: NDArray[np.intp]) -> float:
        """Return the log-likelihood of a logistic regression in some rows."""
        data = self.data.take(rows)
        variables = tuple(map(data.variable, parents))
        fitter: Fitter = SoftmaxFitter(ridge=1e-2, m=1e-2)
        potential: Potential = fitter.fit(data.rows, data.variable(child), variables)
        values, weights = evaluate_rows(potential, data.table)
        return float(weights @ values)


def _judge(statistic: float, degrees: int, rows: float) -> Outcome | None:
    """Return the outcome of a test whose statistic has a chi-square distribution under independence."""
    from scipy.special import chdtrc

    if degrees <= 0:
        return Outcome(1.0, 0.0)
    if rows < LEAST_ROWS * degrees:
        return None
    statistic = max(statistic, 0.0)
    return Outcome(float(chdtrc(degrees, statistic)), statistic)


def _compare_residuals(without: float, with_other: float, degrees: int, left: float, largest: float) -> Outcome:
    """Return the outcome of an F test of two residual sums of squares."""
    from scipy.special import fdtrc

    if degrees <= 0 or without <= _CERTAIN * largest:
        # what nothing is left of can't depend on anything else
        return Outcome(1.0, 0.0)
    if with_other <= _CERTAIN * without:
        return Outcome(0.0, math.inf)
    ratio = max(without - with_other, 0.0) / degrees / (with_other / left)
    return Outcome(float(fdtrc(degrees, left, ratio)), left * math.log(without / min(with_other, without)))


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


def _find_normal_scores(column: Values, weights: Values | None) -> Values:
    """Return the normal quantiles of the ranks of a column; equal numbers have equal ranks.

    Examples
    --------
    >>> _find_normal_scores(np.array([1.0, 9.0, np.nan, 1.0, 0.0]), None).round(3)
    array([ 0.  ,  1.15,   nan,  0.  , -1.15])
    """
    from scipy.special import ndtri

    result = np.full(len(column), np.nan)
    observed = np.flatnonzero(~np.isnan(column))
    if len(observed):
        _, groups = np.unique(column[observed], return_inverse=True)
        sums = np.bincount(groups, None if weights is None else weights[observed])
        total = sums.sum()
        middle = np.cumsum(sums) - sums / 2
        result[observed] = ndtri(np.clip(middle / max(total, 1e-300), 1e-12, 1 - 1e-12))[groups]
    return result
