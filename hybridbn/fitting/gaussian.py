"""Linear Gaussian conditionals by weighted least squares, from moments that add up, and mixtures of them by EM."""

from __future__ import annotations

import functools
import math
import operator
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from hybridbn.errors import NetworkError, TableError
from hybridbn.fitting.base import (
    Fitter,
    Statistics,
    learns_as,
    refuse_empty,
    refuse_overflow,
    refuse_too_wide,
    split_by_kind,
)
from hybridbn.fitting.counting import Moments, Names, RowCounter
from hybridbn.fitting.ridge import regress_directions
from hybridbn.options import check_count
from hybridbn.potentials import LinearGaussian, LinearGaussianMixture
from hybridbn.potentials.base import Potential, check_parents
from hybridbn.tables import Rows
from hybridbn.variables import Continuous, Values, Variable

_FLOOR = 1e-9
"""Least residual variance relative to the child's variance, where no floor is given."""
_ROUNDING = 4 * float(np.finfo(float).eps)
"""Deviation, relative to the mean, of what rounding leaves of a constant after its mean is taken away."""


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class GaussianStatistics(Statistics):
    """Moments of the child and its continuous parents for each configuration of the discrete parents.

    Attributes
    ----------
    weights : ndarray (configurations,)
    means : ndarray (configurations, 1 + continuous parents)
        The child first.
    products : ndarray (configurations, 1 + continuous parents, 1 + continuous parents)
        Weighted sums of products of deviations from the means.
    """

    weights: Values
    means: Values
    products: Values

    def merged(self, other: Self) -> Self:
        """Merge the moments."""
        return replace(self, **vars(self._moments + other._moments))

    @property
    def _moments(self) -> Moments:
        return Moments(self.total, self.weights, self.means, self.products)

    def without(self, parent: Variable) -> GaussianStatistics:
        """Return the statistics of the same rows without one of the parents."""
        kept = tuple(one for one in self.parents if one is not parent)
        discrete, continuous = split_by_kind(self.parents)
        moments = self._moments
        if parent in continuous:
            places = [0, *(1 + i for i, one in enumerate(continuous) if one is not parent)]
            means, products = moments.means[:, places], moments.products[:, places][:, :, places]
            moments = Moments(moments.total, moments.weights, means, products)
        else:
            axis, sizes = discrete.index(parent), [len(one) for one in discrete]
            numbers = np.moveaxis(np.arange(math.prod(sizes)).reshape(sizes), axis, 0).reshape(sizes[axis], -1)
            parts = [Moments(0.0, moments.weights[own], moments.means[own], moments.products[own]) for own in numbers]
            moments = replace(functools.reduce(operator.add, parts), total=self.total)
        return GaussianStatistics(child=self.child, parents=kept, **vars(moments))

    def log_likelihood(self, potential: LinearGaussian) -> float:
        """Return the log-likelihood of regressions of the same family in these rows."""
        slopes = potential.coefficients.reshape(len(self.weights), -1)
        variance, intercept = potential.variance.reshape(-1), potential.intercept.reshape(-1)
        squares = self.sum_squares(intercept, slopes)
        return -0.5 * float((self.weights * np.log(2 * math.pi * variance) + squares / variance).sum())

    def sum_squares(self, intercept: Values, slopes: Values) -> Values:
        """Return the sum of the squared residuals of a regression in each configuration."""
        contrast = np.concatenate([np.ones((len(slopes), 1)), -slopes], axis=1)
        mean = np.einsum("dj,dj->d", contrast, self.means) - intercept
        within = np.einsum("di,dij,dj->d", contrast, self.products, contrast)
        return np.asarray(np.maximum(within, 0.0) + self.weights * mean**2)

    def pool(self) -> tuple[Values, Values]:
        """Return means and products of all configurations together."""
        mean = self.weights @ self.means / self.total
        apart = self.means - mean
        between = np.einsum("d,di,dj->ij", self.weights, apart, apart)
        return mean, self.products.sum(axis=0) + between


@dataclass(frozen=True, kw_only=True)
class GaussianFitter(Fitter):
    r"""Learns a linear Gaussian conditional: one regression for each configuration of the discrete parents.

    The coefficients minimize the weighted sum of squares; the variance is the mean square residual (maximum
    likelihood). A configuration of less weight than the numbers that it asks for (2 + continuous parents), an empty one
    included, gets the regression of all rows. Slopes that the rows don't determine, as where a parent is constant or a
    combination of others, are those of the regression of all rows, and zero there. The result does not depend on the
    units.

    Parameters
    ----------
    ridge : float
        Adds :math:`r \sum_j (B_j - B^0_j)^2 s_j^2` to the sum of squares, :math:`s_j` being the standard
        deviations of the parents and :math:`B^0` the slopes of the regression of all rows (in that one itself zero): as
        if r more rows spoke for these slopes.
    floor : float, optional
        Least standard deviation, in the child's units. Without it a constant column is refused, and the
        variance is at least 1e-9 of the child's variance in the whole table.
    max_bytes : int
        Larger arrays are refused with `TooWide`.

    Examples
    --------
    >>> import hybridbn as hb
    >>> table = hb.Table({"x": [0.0, 1.0, 2.0, 3.0], "y": [1.0, 2.0, 6.0, 7.0]})
    >>> GaussianFitter().fit(table, table.variable("y"), (table.variable("x"),))
    <LinearGaussian y | x: N(0.7 + 2.2 x, 0.45)>
    """

    name: ClassVar[str] = "gaussian"
    for_numbers: ClassVar[bool] = True
    fallbacks: ClassVar[tuple[str, ...]] = ("multinomial", "softmax")
    asks_counter: ClassVar[bool] = True

    ridge: float = 0.0
    floor: float | None = None
    max_bytes: int = 2**31

    def __post_init__(self) -> None:
        if not 0 <= self.ridge < math.inf:
            raise NetworkError(f"ridge must be a non-negative number, not {self.ridge!r}")
        if self.floor is not None and not 0 < self.floor < math.inf:
            raise NetworkError(f"floor must be a positive standard deviation or None, not {self.floor!r}")

    @property
    def is_normal(self) -> bool:  # type: ignore[override]
        """Whether it learns normal densities: yes, unless a subclass learns otherwise."""
        return learns_as(self, GaussianFitter)

    def statistics(self, table: Rows, child: Variable, parents: tuple[Variable, ...] = ()) -> GaussianStatistics:
        """Return the moments of the rows where child and parents are observed."""
        if not isinstance(child, Continuous):
            raise NetworkError(
                f"{child.name!r} is discrete, and the child of a linear Gaussian is continuous; use SoftmaxFitter, or "
                "MultinomialFitter where all parents are discrete"
            )
        discrete, continuous = split_by_kind(parents)
        sizes = [len(parent) for parent in discrete]
        numbers = 1 + len(continuous)
        refuse_too_wide(child, parents, math.prod(sizes) * numbers**2, self.max_bytes, "array of moments")
        counter = RowCounter(table, (child, *check_parents(child, parents)))
        moments = counter.moments(_list_names(child, *continuous), _list_names(*discrete))
        refuse_overflow(_list_names(child, *continuous), np.diagonal(moments.products, axis1=1, axis2=2).T)
        return GaussianStatistics(child=child, parents=parents, **vars(moments))

    def requests(
        self, child: Variable, parents: tuple[Variable, ...] = ()
    ) -> tuple[list[Names], list[tuple[Names, Names]]]:
        """The moments of the family, unless it is too wide."""
        discrete, continuous = split_by_kind(parents)
        cells = math.prod(map(len, discrete)) * (1 + len(continuous)) ** 2
        request = _list_names(child, *continuous), _list_names(*discrete)
        return [], [request] * (8 * cells <= self.max_bytes)

    def potential(self, statistics: Any) -> LinearGaussian:
        """Return the regressions."""
        refuse_empty(statistics)
        child, (discrete, continuous) = statistics.child, split_by_kind(statistics.parents)
        mean, products = statistics.pool()
        scales = np.sqrt(np.diag(products) / statistics.total)
        self._refuse_constant(child.name, float(mean[0]), float(scales[0]))
        least = self.least_variance(scales[0] ** 2, 1.0)
        # a constant parent tells nothing; a constant child only gets here with a floor
        scales[1:][scales[1:] <= _ROUNDING * np.abs(mean[1:])] = np.inf
        scales[0] = scales[0] or 1.0
        outer = scales[:, None] * scales
        slopes, variance = regress_directions(
            (products / outer)[None], statistics.total, np.zeros(len(continuous)), self.ridge
        )
        variance, means = variance / statistics.total, mean[None]
        # without discrete parents the only configuration is all rows
        if discrete:
            enough = statistics.weights >= 2 + len(continuous)
            own, residual = regress_directions(statistics.products / outer, statistics.weights, slopes[0], self.ridge)
            residual /= np.where(enough, statistics.weights, 1.0)
            slopes = np.where(enough[:, None], own, slopes)
            variance = np.where(enough, residual, variance)
            means = np.where(enough[:, None], statistics.means, means)
        coefficients = slopes * (scales[0] / scales[1:])
        intercept = means[:, 0] - (coefficients * means[:, 1:]).sum(axis=1)
        shape = tuple(len(parent) for parent in discrete)
        return LinearGaussian(
            child,
            parents=statistics.parents,
            intercept=intercept.reshape(shape),
            coefficients=coefficients.reshape(*shape, len(continuous)),
            variance=np.maximum(variance * scales[0] ** 2, least).reshape(shape),
        )

    def least_variance(self, variances: Values, unit: float) -> Values:
        """Return the least variances that are fitted to columns of these variances, all measured in some unit."""
        return _FLOOR * variances if self.floor is None else np.full(variances.shape, (self.floor / unit) ** 2)

    def _refuse_constant(self, name: str, mean: float, deviation: float) -> None:
        if self.floor is None and (deviation <= _ROUNDING * abs(mean) or not deviation**2 * _FLOOR > 0):
            raise TableError(
                f"column {name!r} is constant ({mean:g}) in the rows that count, and a normal density needs some"
                " variance; leave it out, or give a least standard deviation: GaussianFitter(floor=...)"
            )


def _list_names(*variables: Variable) -> tuple[str, ...]:
    return tuple(variable.name for variable in variables)


STEPS = 100
"""EM makes at most this many steps."""
STEADY = 1e-3
"""EM ends when the mean log-likelihood of a row changes by less."""
PRIOR_VARIANCE = 0.1
"""The prior of a component's variance is one row with this share of the regression's."""
ROWS_PER_COMPONENT = 5
"""A configuration of fewer rows has a single normal density."""


@dataclass(frozen=True, kw_only=True)
class LinearGaussianMixtureFitter(Fitter):
    r"""Learns linear regressions whose residuals have a mixture of normal densities: `LinearGaussianMixture`.

    .. math:: f(x \mid d, y) = \sum_k P_{dk}\, N(x;\; a_{dk} + \textstyle\sum_j B_{dj} y_j,\; s^2_{dk})

    The slopes are those of all components. EM starts from the regressions of a `GaussianFitter` and the quantiles of
    their residuals, and maximizes the likelihood with a prior that is worth one row, so that no component vanishes or
    gets infinitely narrow. A configuration of the discrete parents keeps its single normal density where it has less
    than five rows for each component, or where that has the better Bayesian information criterion.

    Parameters
    ----------
    components : int

    Examples
    --------
    >>> import hybridbn as hb
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=500)
    >>> table = hb.Table({"x": x, "y": 2 * x + rng.choice([-3, 3], size=500) + rng.normal(size=500)})
    >>> x, y = table.variables
    >>> potential = LinearGaussianMixtureFitter(components=2).fit(table, y, (x,))
    >>> potential
    <LinearGaussianMixture y | x: 2 components>
    >>> potential.density.intercept.round(1), potential.density.coefficients.round(1).tolist()
    (array([-3. ,  2.9]), [[2.0], [2.0]])
    """

    name: ClassVar[str] = "gaussian_mixture"
    for_numbers: ClassVar[bool] = True
    fallbacks: ClassVar[tuple[str, ...]] = GaussianFitter.fallbacks

    components: int = 2

    def __post_init__(self) -> None:
        check_count(self.components, "the number of components", 1)

    def potential(self, statistics: Any) -> Potential:
        """Return the mixtures."""
        child, parents, count = statistics.child, statistics.parents, self.components
        start = GaussianFitter()
        normal = start.potential(start.statistics(statistics.table, child, parents))
        discrete, continuous = split_by_kind(parents)
        shape = tuple(map(len, discrete))
        size = math.prod(shape)
        response, predictors, weights = statistics.columns[0], statistics.numbers, statistics.weights
        own = [
            _Regression(np.full(count, 1 / count), np.full(count, intercept), slopes, np.full(count, variance))
            for intercept, slopes, variance in zip(
                normal.intercept.reshape(size),
                normal.coefficients.reshape(size, len(continuous)),
                normal.variance.reshape(size),
                strict=True,
            )
        ]
        for number, rows in enumerate(statistics.split_rows()):
            if count > 1 and weights[rows].sum() >= count * max(ROWS_PER_COMPONENT, len(continuous) + 2):
                own[number] = _fit_mixture(response[rows], predictors[rows], weights[rows], own[number])
        probabilities, intercepts, variances = (
            np.stack([part[place] for part in own]).reshape(*shape, count) for place in (0, 1, 3)
        )
        slopes = np.repeat(np.stack([part.slopes for part in own])[:, None], count, axis=1)
        return LinearGaussianMixture(
            child,
            parents,
            probabilities=probabilities,
            intercept=intercepts,
            coefficients=slopes.reshape(*shape, count, len(continuous)),
            variance=variances,
        )


class _Regression(NamedTuple):
    """A regression with a mixture of residuals: arrays over the components, and slopes over the predictors."""

    probabilities: Values
    intercepts: Values
    slopes: Values
    variances: Values


def _fit_mixture(response: Values, predictors: Values, weights: Values, start: _Regression) -> _Regression:
    """Fit the components of one configuration by EM, in units of the regression's residuals."""
    count, total = len(start.intercepts), float(weights.sum())
    unit = math.sqrt(float(start.variances[0]))
    middle = weights @ predictors / total
    centered = predictors - middle
    scales = np.sqrt(weights @ centered**2 / total)
    scales = np.where(scales > 0, scales, 1.0)
    centered = centered / scales
    residuals = (response - start.intercepts[0] - predictors @ start.slopes) / unit
    order = np.argsort(residuals)
    levels = (np.arange(count) + 0.5) / count
    means = residuals[order][np.searchsorted(np.cumsum(weights[order]), levels * total)]
    variances = np.full(count, max(1 / count, 0.3) ** 2)
    probabilities = np.full(count, 1 / count)
    change, ridge = np.zeros(len(scales)), 1e-8 * total * np.eye(len(scales))
    before = -math.inf
    for _ in range(STEPS):
        rest = residuals - centered @ change
        logs = np.log(probabilities / np.sqrt(variances)) - 0.5 * (rest[:, None] - means) ** 2 / variances
        top = logs.max(axis=1)
        shares = np.exp(logs - top[:, None])
        sums = shares.sum(axis=1)
        likelihood = float(weights @ (top + np.log(sums))) / total
        if likelihood - before < STEADY:
            break
        before = likelihood
        shares *= (weights / sums)[:, None]
        counts = shares.sum(axis=0) + 1e-12
        probabilities = (counts + 1) / (total + count)
        average = shares.T @ residuals / counts
        if len(change):
            # weighted least squares in which every component has an intercept of its own
            precision = shares @ (1 / variances)
            averages = shares.T @ centered / counts[:, None]
            within = counts / variances
            products = (centered * precision[:, None]).T @ centered - (averages.T * within) @ averages
            target = centered.T @ (precision * residuals) - (averages.T * within) @ average
            change = np.linalg.solve(products + ridge, target)
            means = average - averages @ change
            rest = residuals - centered @ change
        else:
            means = average
        squares = (shares * (rest[:, None] - means) ** 2).sum(axis=0)
        variances = (squares + PRIOR_VARIANCE) / (counts + 1)
    # BIC of the parameters that more components have
    price = 1.5 * (count - 1) * math.log(total) / total
    if before + 0.5 * float(weights @ residuals**2) / total < price:
        return start
    slopes = start.slopes + unit * change / scales
    intercepts = start.intercepts + unit * means - (unit * change / scales) @ middle
    return _Regression(probabilities, intercepts, slopes, unit**2 * variances)
