"""Learning linear regressions whose residuals have a mixture of normal densities, by EM."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np

from hybridbn.fitting.base import Fitter, RowStatistics, split_by_kind
from hybridbn.fitting.gaussian import GaussianFitter
from hybridbn.options import check_count
from hybridbn.potentials import LinearGaussianMixture
from hybridbn.potentials.base import Potential
from hybridbn.variables import Values, Variable, encode_configurations

if TYPE_CHECKING:
    from hybridbn.tables import Rows

__all__ = ["LinearGaussianMixtureFitter"]

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
    fallbacks: ClassVar[tuple[str, ...]] = GaussianFitter.fallbacks

    components: int = 2

    def __post_init__(self) -> None:
        check_count(self.components, "the number of components", 1)

    @classmethod
    def fits(cls, child: Variable, parents: tuple[Variable, ...] = ()) -> bool:
        """Numbers that a linear regression fits."""
        return GaussianFitter.fits(child, parents)

    def statistics(self, table: Rows, child: Variable, parents: tuple[Variable, ...] = ()) -> RowStatistics:
        """Collect the rows where child and parents are observed."""
        return RowStatistics.of(table, child, parents)

    def potential(self, statistics: Any) -> Potential:
        """Return the mixtures."""
        child, parents, count = statistics.child, statistics.parents, self.components
        start = GaussianFitter()
        normal = start.potential(start.statistics(statistics.table, child, parents))
        discrete, continuous = split_by_kind(parents)
        shape = tuple(map(len, discrete))
        size = math.prod(shape)
        columns = dict(zip((child.name, *(parent.name for parent in parents)), statistics.columns, strict=True))
        response = np.asarray(columns[child.name], dtype=np.float64)
        predictors = np.empty((len(response), len(continuous)))
        for number, predictor in enumerate(continuous):
            predictors[:, number] = columns[predictor.name]
        weights = np.ones(len(response)) if statistics.weights is None else statistics.weights
        groups = encode_configurations([columns[parent.name] for parent in discrete], shape, len(response))
        order = np.argsort(groups, kind="stable")
        ends = np.searchsorted(groups[order], np.arange(size + 1))
        own = [
            _Regression(np.full(count, 1 / count), np.full(count, intercept), slopes, np.full(count, variance))
            for intercept, slopes, variance in zip(
                normal.intercept.reshape(size),
                normal.coefficients.reshape(size, len(continuous)),
                normal.variance.reshape(size),
                strict=True,
            )
        ]
        for number in range(size):
            rows = order[ends[number] : ends[number + 1]]
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
