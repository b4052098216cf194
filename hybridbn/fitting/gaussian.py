"""Linear Gaussian conditionals by weighted least squares, from moments that add up."""

from __future__ import annotations

import functools
import math
import operator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from hybridbn.errors import NetworkError, TableError
from hybridbn.fitting.base import Fitter, Statistics, learns_as, refuse_empty, refuse_too_wide, split_by_kind
from hybridbn.fitting.counting import Moments, Names, RowCounter
from hybridbn.fitting.ridge import regress_directions
from hybridbn.potentials import LinearGaussian
from hybridbn.potentials.base import check_parents, freeze
from hybridbn.variables import Continuous, Values, Variable

if TYPE_CHECKING:
    from hybridbn.tables import Rows

__all__ = ["GaussianFitter", "GaussianStatistics"]

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

    def __post_init__(self) -> None:
        for name in ("weights", "means", "products"):
            object.__setattr__(self, name, freeze(getattr(self, name)))

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
        direction = np.concatenate([np.ones((len(slopes), 1)), -slopes], axis=1)
        spread = np.einsum("di,dij,dj->d", direction, self.products, direction)
        squares = spread + self.weights * ((direction * self.means).sum(axis=1) - intercept) ** 2
        return -0.5 * float((self.weights * np.log(2 * math.pi * variance) + squares / variance).sum())

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
    def is_normal(self) -> bool:
        """Whether it learns normal densities: yes, unless a subclass learns otherwise."""
        return learns_as(self, GaussianFitter)

    @classmethod
    def fits(cls, child: Variable, parents: tuple[Variable, ...] = ()) -> bool:
        """Numbers, whatever their parents are."""
        return isinstance(child, Continuous)

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
        with np.errstate(over="ignore", invalid="ignore"):
            moments = counter.moments(_list_names(child, *continuous), _list_names(*discrete))
        _refuse_overflow((child, *continuous), moments.products)
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
        least = self._least_variance(child.name, float(mean[0]), float(scales[0]))
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

    def least_variance(self, variance: float, unit: float) -> float:
        """Return the least variance that is fitted to a column of this variance, both measured in some unit."""
        return _FLOOR * variance if self.floor is None else (self.floor / unit) ** 2

    def _least_variance(self, name: str, mean: float, deviation: float) -> float:
        if self.floor is not None:
            return self.floor**2
        if deviation <= _ROUNDING * abs(mean) or not deviation**2 * _FLOOR > 0:
            raise TableError(
                f"column {name!r} is constant ({mean:g}) in the rows that count, and a normal density needs some"
                " variance; leave it out, or give a least standard deviation: GaussianFitter(floor=...)"
            )
        return _FLOOR * deviation**2


def _list_names(*variables: Variable) -> tuple[str, ...]:
    return tuple(variable.name for variable in variables)


def _refuse_overflow(variables: tuple[Variable, ...], products: Values) -> None:
    """Refuse columns whose squares, and so whose variance, floats can't hold."""
    for j, variable in enumerate(variables):
        if not np.isfinite(products[:, j, j]).all():
            raise TableError(
                f"column {variable.name!r}: the values lie so far apart that their variance leaves the range of floats;"
                " measure them in another unit"
            )
