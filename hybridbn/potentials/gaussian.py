"""Linear Gaussian conditionals, a normal child whose mean is linear in its continuous parents, and mixtures of them."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self, TypeVar, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hybridbn.errors import NetworkError
from hybridbn.potentials.base import (
    Axes,
    Interval,
    Potential,
    all_states,
    exponentiate,
    freeze,
    has_rows,
    solve_increasing,
    spread,
    take_logs,
)
from hybridbn.potentials.multinomial import Multinomial, as_parameter_array, describe_cell, split
from hybridbn.registry import LazyModule
from hybridbn.variables import Continuous, Discrete, Values, Variable, find_unused_name, slice_blocks

scipy: LazyModule = LazyModule("scipy")  # networks are converted without it

LOG_ROOT_TWO_PI = 0.5 * math.log(2 * math.pi)
LARGEST = 1e300
"""Terms of a linear predictor are clipped here, so that sums of huge values never become inf - inf. That changes no
density: the standard deviation is at most 1e154, far below the spacing of doubles of this size."""


@dataclass(frozen=True, eq=False, repr=False, init=False)
class LinearGaussian(Potential):
    r"""A normal distribution whose mean is linear in the continuous parents, for each discrete configuration.

    .. math:: x \mid d, y \sim N(a_d + \textstyle\sum_j B_{dj} y_j,\; s^2_d)

    Parameters
    ----------
    child : Continuous
        With the domain (-inf, inf), which is what a normal distribution has.
    parents : sequence of Discrete and Continuous, optional
    intercept : array_like
        ``a[*d]``, over the discrete parents in their order; a number where there are none.
    coefficients : array_like, optional
        ``B[*d, y]``; the continuous parents in their order come last. Left out where there are none.
    variance : array_like
        ``s2[*d]``, positive.

    Examples
    --------
    >>> x, y = Continuous("x"), Continuous("y")
    >>> potential = LinearGaussian(y, parents=(x,), intercept=1, coefficients=[2], variance=0.25)
    >>> potential
    <LinearGaussian y | x: N(1 + 2 x, 0.25)>
    >>> round(potential(x=3, y=7), 12)
    0.797884560803
    >>> LinearGaussian(y, intercept=0, variance=-1)
    Traceback (most recent call last):
        ...
    hybridbn.errors.NetworkError: 'y': the variance is -1.0; a variance must be positive (it is the square of the
    standard deviation)
    """

    family = "gaussian"
    saved: ClassVar[tuple[str, ...]] = ("intercept", "coefficients", "variance")

    child: Continuous
    intercept: Values
    coefficients: Values
    variance: Values

    def __init__(
        self,
        child: Continuous,
        parents: Sequence[Variable] = (),
        *,
        intercept: ArrayLike,
        coefficients: ArrayLike | None = None,
        variance: ArrayLike,
    ) -> None:
        discrete, continuous = split(child, parents)
        if not isinstance(child, Continuous):
            raise NetworkError(
                f"{child.name!r} is discrete; the child of a LinearGaussian is continuous: use Softmax or Multinomial"
            )
        if child.domain != (-math.inf, math.inf):
            raise NetworkError(
                f"{child.name!r} has the domain {child.domain}, but a normal density is positive everywhere; "
                "leave the domain out, or use an MTE, Kernel or Density"
            )
        if coefficients is None:
            if continuous:
                raise NetworkError(
                    f"{child.name!r}: give coefficients, one for each of {', '.join(repr(p.name) for p in continuous)}"
                )
            coefficients = np.zeros((*map(len, discrete), 0))
        constants = as_parameter_array("the intercept", child.name, discrete, intercept)
        slopes = as_parameter_array("the array of coefficients", child.name, (*discrete, continuous), coefficients)
        variances = as_parameter_array("the variance", child.name, discrete, variance)
        if not (variances > 0).all():
            where = tuple(np.argwhere(~(variances > 0))[0])
            raise NetworkError(
                f"{child.name!r}: the variance{describe_cell(discrete, where)} is {float(variances[where])!r}; a"
                " variance must be positive (it is the square of the standard deviation)"
            )
        self._set(child=child, parents=tuple(parents), intercept=constants, coefficients=slopes, variance=variances)

    # -- values ---------------------------------------------------------------------------------------------------

    def log_on(self, axes: Axes) -> Values:
        """Evaluate the logarithm of the density."""
        with np.errstate(over="ignore", invalid="ignore"):
            logs = self._log_on(axes, clipped=False)
            # only terms that overflow give NaN, or may give -inf
            return logs if logs.min(initial=0.0) > -np.inf else self._log_on(axes, clipped=True)

    def _log_on(self, axes: Axes, *, clipped: bool) -> Values:
        z, sd = self._standardized(axes, math.sqrt(0.5), clipped=clipped)
        np.multiply(z, z, out=z)
        return np.subtract(-np.log(sd) - LOG_ROOT_TWO_PI, z, out=z)

    def add_log_on(self, axes: Axes, total: Values) -> float:
        """Add the logarithm of the density to a total, without the constant where that is the same in all rows."""
        if self._discrete:
            return super().add_log_on(axes, total)
        z, sd = self._standardized(axes, math.sqrt(0.5), clipped=False)
        np.multiply(z, z, out=z)
        total -= z.reshape(-1)
        return -math.log(sd) - LOG_ROOT_TWO_PI

    def mass(self, axes: Axes, edges: Values) -> tuple[Values, Values | float]:
        """Integrate over cells of the child, as differences of normal cdfs that keep their digits in both tails."""
        z, _ = self._standardized({**axes, self.child.name: edges})
        along = z.ndim - 1 - has_rows({**axes, self.child.name: edges}, self.scope)
        lower = np.take(z, range(z.shape[along] - 1), axis=along)
        upper = np.take(z, range(1, z.shape[along]), axis=along)
        log_masses = log_normal_interval(lower, upper)
        return exponentiate(log_masses, along + 1)

    def ppf(self, uniforms: Values, given: Axes) -> Values:
        """Return the quantiles; infinite at 0 and 1."""
        codes = tuple(given[parent.name] for parent in self._discrete)
        mean = linear_predictor(
            self.intercept, self.coefficients, codes, [given[parent.name] for parent in self._continuous]
        )
        return np.asarray(mean + np.sqrt(self.variance)[codes] * scipy.special.ndtri(uniforms))

    def _standardized(self, axes: Axes, factor: float = 1.0, *, clipped: bool = True) -> tuple[Values, Values]:
        """Return factor * (child - mean) / sd over the axes, as an array of its own, and the standard deviation."""
        arrays = dict(zip(self.scope, spread(axes, self.scope), strict=True))
        codes = tuple(arrays[parent.name] for parent in self._discrete)
        known = [arrays[parent.name] for parent in self._continuous]
        mean = linear_predictor(self.intercept, self.coefficients, codes, known, clipped=clipped)
        sd = np.sqrt(self.variance)[codes]
        with np.errstate(over="ignore"):
            z = _combine(np.subtract, arrays[self.child.name], mean, bool(known))
            z *= factor / sd
        return z, sd

    @property
    def _discrete(self) -> tuple[Discrete, ...]:
        return tuple(parent for parent in self.parents if isinstance(parent, Discrete))

    @property
    def _continuous(self) -> tuple[Continuous, ...]:
        return tuple(parent for parent in self.parents if isinstance(parent, Continuous))

    # -- what quadrature needs to know ----------------------------------------------------------------------------

    def scale(self, name: str) -> float:
        """Return the least standard deviation, divided by the greatest slope for a parent."""
        sd = np.sqrt(self.variance)
        if name == self.child.name:
            return float(sd.min())
        if isinstance(self.variable(name), Discrete):
            return math.inf
        slopes = np.abs(self.coefficients[..., [p.name for p in self._continuous].index(name)])
        with np.errstate(divide="ignore", over="ignore"):
            return float((sd / slopes).min())

    def support(self, name: str, tail: float = 1e-12, within: Mapping[str, Interval] | None = None) -> Interval:
        """Return where the child, or the likelihood along a parent, is not negligible.

        For a parent that is where the likelihood is above `tail` times its peak.
        """
        variable = self.variable(name)
        if isinstance(variable, Discrete):
            return super().support(name, tail, within)
        if tail <= 0:
            return variable.domain
        # a little wider than exact, so that less than the tail is outside after rounding too
        reach = 1e-9 + (
            -float(scipy.special.ndtri(tail / 2)) if name == self.child.name else math.sqrt(max(-2 * math.log(tail), 0))
        )
        low: Any = math.inf
        high: Any = -math.inf
        for first, last, width in self.locate_peaks(name, within):
            with np.errstate(over="ignore", invalid="ignore"):  # infinite minus infinite: nothing is known
                low = np.minimum(low, (first - reach * width).min(axis=0))
                high = np.maximum(high, (last + reach * width).max(axis=0))
        ends = variable.domain
        low, high = np.maximum(low, ends[0]), np.minimum(high, ends[1])
        # a likelihood that peaks outside the domain tells nothing about where inside it matters
        low, high = np.where(low < high, low, ends[0]), np.where(low < high, high, ends[1])
        rows = count_rows(within)
        if rows is None:
            return float(low.reshape(-1)[0]), float(high.reshape(-1)[0])
        return np.broadcast_to(low, rows), np.broadcast_to(high, rows)

    def breaks(self, name: str, within: Mapping[str, Interval] | None = None) -> Values:
        """Return the centers, and four standard deviations beside them, as far as the other variables fix them."""
        variable = cast(Continuous, self.variable(name))
        blocks = [
            np.concatenate((first - 4 * width, first, last, last + 4 * width))
            for first, last, width in self.locate_peaks(name, within)
        ]
        return tidy_breaks(np.concatenate(blocks), variable.domain, count_rows(within))

    def locate_peaks(self, name: str, within: Mapping[str, Interval] | None) -> Iterator[tuple[Values, Values, Values]]:
        """Yield the range of the peak along a variable and its width, (configurations, rows or 1), in blocks."""
        known = {v.name: v.domain for v in (self.child, *self._continuous)} | dict(within or {})
        ranges = {v: tuple(np.atleast_1d(np.asarray(end, np.float64)) for end in pair) for v, pair in known.items()}
        rows = max((end.shape[0] for pair in ranges.values() for end in pair), default=1)
        intercept, sd = self.intercept.reshape(-1, 1), np.sqrt(self.variance).reshape(-1, 1)
        slopes = self.coefficients.reshape(len(intercept), len(self._continuous))
        step = max(1, BLOCK // rows)
        for block in slice_blocks(len(intercept), step):
            low = high = intercept[block]
            slope = np.zeros_like(low)
            for j, parent in enumerate(self._continuous):
                b = slopes[block, j, None]
                if parent.name == name:
                    slope = b
                    continue
                with np.errstate(invalid="ignore", over="ignore"):
                    ends = [np.where(b == 0, 0.0, b * end) for end in ranges[parent.name]]
                    low, high = low + np.minimum(*ends), high + np.maximum(*ends)
            if name == self.child.name:
                yield low, high, np.broadcast_to(sd[block], np.broadcast_shapes(low.shape, sd[block].shape))
                continue
            with np.errstate(all="ignore"):
                ends = [(ranges[self.child.name][0] - high) / slope, (ranges[self.child.name][1] - low) / slope]
                known_slope = slope != 0
                first = np.where(known_slope, np.minimum(*ends), -np.inf)
                last = np.where(known_slope, np.maximum(*ends), np.inf)
                yield (
                    np.nan_to_num(first, nan=-np.inf, posinf=np.inf, neginf=-np.inf),
                    np.nan_to_num(last, nan=np.inf, posinf=np.inf, neginf=-np.inf),
                    np.where(known_slope, sd[block] / np.abs(slope), 0.0),
                )

    def as_regression(self) -> Self:
        """Return the potential itself."""
        return self

    # -- files ----------------------------------------------------------------------------------------------------

    def __repr__(self) -> str:
        start = super().__repr__()[:-1]
        if self._discrete:
            return f"{start}: {self.intercept.size} regressions>"
        if len(self._continuous) > 4:
            return f"{start}: variance {float(self.variance):.4g}>"
        terms = [
            f" {'-' if b < 0 else '+'} {abs(b):.4g} {parent.name}"
            for b, parent in zip(self.coefficients.tolist(), self._continuous, strict=True)
        ]
        return f"{start}: N({float(self.intercept):.4g}{''.join(terms)}, {float(self.variance):.4g})>"


Family = TypeVar("Family", bound=Potential)


def drop_idle_parents(potential: Family) -> Family:
    """Return a regression, of a number or of the states of a variable, without the continuous parents on which nothing
    depends.
    """
    moving = [math.isfinite(potential.scale(p.name)) or isinstance(p, Discrete) for p in potential.parents]
    numbers = [moves for moves, parent in zip(moving, potential.parents, strict=True) if isinstance(parent, Continuous)]
    state = {**potential.to_dict(), "coefficients": potential.to_dict()["coefficients"][..., numbers]}
    return potential.from_dict(potential.child, list(itertools.compress(potential.parents, moving)), state)


def name_component(child: Variable, parents: Sequence[Variable]) -> str:
    """Return a name of the component, which no parent has."""
    return find_unused_name(f"component of {child.name}", [parent.name for parent in parents], "'")


MOST_BREAKS = 96
BLOCK = 1 << 20


def count_rows(within: Mapping[str, Interval] | None) -> int | None:
    """Return the number of rows of ranges that are arrays, None where all are numbers.

    Examples
    --------
    >>> count_rows({"x": (0.0, 1.0)}), count_rows({"x": (0.0, 1.0), "y": (np.zeros(3), np.ones(3))})
    (None, 3)
    """
    return next((len(np.asarray(end)) for pair in (within or {}).values() for end in pair if np.ndim(end)), None)


def tidy_breaks(points: Values, domain: tuple[float, float], rows: int | None) -> Values:
    """Sort possible breaks (points, rows or 1), leave out what is not inside the domain, and thin them out evenly.

    Where a row has fewer useful ones than others its last one is repeated, so that all are finite.

    Examples
    --------
    >>> tidy_breaks(np.array([[3.0], [-np.inf], [1.0], [3.0]]), (0.0, np.inf), rows=None)
    array([1., 3.])
    """
    if points.ndim == 1:
        points = points[:, None]
    inside = np.isfinite(points) & (points > domain[0]) & (points < domain[1])
    points = np.sort(np.where(inside, points, np.nan), axis=0)  # NaN goes last
    points = points[: int(inside.sum(axis=0).max(initial=0))]
    if rows is None:
        points = np.unique(points)
    else:
        last = np.fmax.reduce(points, axis=0, initial=-np.inf)
        points = np.where(np.isnan(points), np.where(np.isfinite(last), last, np.clip(0.0, *domain)), points)
        points = np.broadcast_to(points, (len(points), rows))
    if len(points) <= MOST_BREAKS:
        return points
    return points[np.linspace(0, len(points) - 1, MOST_BREAKS).round().astype(np.intp)]


def linear_predictor(
    intercept: Values,
    coefficients: Values,
    codes: tuple[NDArray[Any], ...],
    values: Sequence[NDArray[Any]],
    *,
    clipped: bool = True,
) -> Values:
    """Compute ``intercept[codes] + coefficients[codes] @ values`` over arrays that broadcast; never NaN if clipped.

    Examples
    --------
    >>> linear_predictor(np.array([1.0, 2.0]), np.array([[3.0], [4.0]]), (np.array([0, 1]),), [np.array([10.0, 20.0])])
    array([31., 82.])
    """
    total = intercept[codes]
    with np.errstate(over="ignore"):
        for j, value in enumerate(values):
            term = np.asarray(coefficients[(*codes, j)] * value)
            if clipped:
                term = np.clip(term, -LARGEST, LARGEST)
            total = _combine(np.add, total, term, True)
    return np.asarray(total)


def _combine(operation: np.ufunc, first: Any, second: Values, overwrite: bool) -> Values:
    """Return the result for two arrays that broadcast, in the place of the second one where that may be overwritten and
    is large enough.
    """
    if overwrite and second.ndim and np.broadcast(first, second).shape == second.shape:
        return operation(first, second, out=second)  # type: ignore[no-any-return]
    return np.asarray(operation(first, second), dtype=np.float64)


def log_normal_interval(low: Values, high: Values) -> Values:
    r"""Compute :math:`\log(\Phi(high) - \Phi(low))` without cancellation: in the tails, and for narrow intervals.

    An empty interval gives -inf. With :math:`\Phi(-z) = e^{-z^2/2}\,\mathrm{erfcx}(z/\sqrt 2)/2` the tails keep all
    digits; an interval in which the density hardly changes is integrated by Gauss-Legendre quadrature.

    Examples
    --------
    >>> log_normal_interval(np.array([-np.inf, 40.0, 0.0]), np.array([np.inf, 41.0, 1e-20]))
    array([  -0.        , -804.60844201,  -46.97064039])
    """
    low, high = np.broadcast_arrays(low, high)
    result = np.full(low.shape, -np.inf)
    # mirrored so that the middle is not negative; written so that -inf and inf may meet
    flip = low < -high
    lower, upper = np.where(flip, -high, low), np.where(flip, -low, high)
    some = lower < upper
    with np.errstate(over="ignore", invalid="ignore"):
        width = np.where(some, upper - lower, 0.0)
        narrow = some & (width * np.maximum(upper, 1.0) < 0.5)
    crossing = some & ~narrow & (lower < 0)
    tail = some & ~narrow & (lower >= 0)
    if narrow.any():
        result[narrow] = _log_narrow(lower[narrow], width[narrow])
    if crossing.any():
        result[crossing] = np.log1p(-(scipy.special.ndtr(lower[crossing]) + scipy.special.ndtr(-upper[crossing])))
    if tail.any():
        result[tail] = _log_tail(lower[tail], upper[tail])
    return result


def invert_normals(
    uniforms: Values,
    means: Values,
    widths: Values,
    shares: Values,
    low: Values,
    high: Values,
    start: Values,
    domain: tuple[float, float] = (-math.inf, math.inf),
) -> Values:
    """Return the quantiles of mixtures of normal densities, found in the logarithm of the nearer tail.

    Parameters
    ----------
    uniforms, low, high, start : ndarray (rows,)
        Probabilities, ranges in which their quantiles lie, and where the search begins.
    means, widths, shares : ndarray (components, rows or 1)
        The shares are divided by the components' masses inside the domain.
    domain : tuple of float
        To which the densities are truncated.

    Examples
    --------
    >>> means, shares, end = np.array([[-1.0], [1.0]]), np.full((2, 1), 0.5), np.array([9.0])
    >>> abs(invert_normals(np.array([0.5]), means, np.ones((2, 1)), shares, -end, end, end)).round(9)
    array([0.])
    """
    lower = uniforms <= 0.5
    sign = np.where(lower, 1.0, -1.0)
    target = sign * take_logs(np.where(lower, uniforms, 1 - uniforms))
    chosen = np.flatnonzero((uniforms > 0) & (uniforms < 1))

    def find_tail(points: Values, active: NDArray[np.intp]) -> tuple[Values, Values]:
        rows = chosen[active]
        side = sign[rows]
        centers, scales, factors = (a if a.shape[1] == 1 else a[:, rows] for a in (means, widths, shares))
        with np.errstate(over="ignore"):
            z = side * (points - centers) / scales
            bells = np.exp(-0.5 * z * z) / scales
            if domain == (-math.inf, math.inf):
                masses = scipy.special.ndtr(z)
            else:
                masses = np.exp(log_normal_interval(side * (np.where(side > 0, *domain) - centers) / scales, z))
            mass = np.maximum((factors * masses).sum(axis=0), np.finfo(float).tiny)
        return side * np.log(mass), (factors * bells).sum(axis=0) / math.sqrt(2 * math.pi) / mass

    result = np.where(uniforms <= 0, *domain)
    result[chosen] = solve_increasing(find_tail, target[chosen], low[chosen], high[chosen], start[chosen])
    return result


NODES, WEIGHTS = (freeze(array) for array in np.polynomial.legendre.leggauss(8))


def _log_narrow(low: Values, width: Values) -> Values:
    middle, half = low + 0.5 * width, 0.5 * width
    step = half[:, None] * NODES
    relative = np.exp(-step * (middle[:, None] + 0.5 * step)) @ WEIGHTS
    return np.asarray(np.log(half) + np.log(relative) - 0.5 * middle * middle - LOG_ROOT_TWO_PI)


def _log_tail(low: Values, high: Values) -> Values:
    root = math.sqrt(0.5)
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        rest = np.exp(-0.5 * (high - low) * (high + low)) * scipy.special.erfcx(high * root)
        return np.asarray(np.log(0.5 * (scipy.special.erfcx(low * root) - rest)) - 0.5 * low * low)


# -- mixtures ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False, repr=False, init=False)
class LinearGaussianMixture(Potential):
    r"""A mixture of linear Gaussian densities, for each configuration of the discrete parents.

    .. math:: f(x \mid d, y) = \sum_k P_{dk}\, N(x;\; a_{dk} + \textstyle\sum_j B_{dkj} y_j,\; s^2_{dk})

    Which component a value comes from is a discrete variable that is summed out. Where the slopes of all components are
    the same, this is a linear regression with residuals that are skewed, have heavy tails or several modes.

    Parameters
    ----------
    child : Continuous
        With the domain (-inf, inf).
    parents : sequence of Discrete and Continuous, optional
    probabilities : array_like
        ``P[*d, k]`` of the components, over the discrete parents in their order.
    intercept : array_like
        ``a[*d, k]``
    coefficients : array_like, optional
        ``B[*d, k, y]``; the continuous parents in their order come last. Left out where there are none.
    variance : array_like
        ``s2[*d, k]``, positive.

    Examples
    --------
    >>> import hybridbn as hb
    >>> x, y = hb.Continuous("x"), hb.Continuous("y")
    >>> potential = LinearGaussianMixture(
    ...     y, (x,), probabilities=[0.8, 0.2], intercept=[0, 5], coefficients=[[2], [2]], variance=[1, 4]
    ... )
    >>> potential(x=1, y=[2.0, 7.0]).round(3)
    array([0.321, 0.04 ])
    >>> net = hb.Network([hb.LinearGaussian(x, intercept=1, variance=1), potential])
    >>> round(net.posterior("y").mean(), 6), round(net.posterior("x", {"y": 9.0}).mean(), 3)
    (3.0, 1.606)
    """

    family = "gaussian_mixture"
    saved: ClassVar[tuple[str, ...]] = ("probabilities", *LinearGaussian.saved)

    child: Continuous
    component: Multinomial
    """Of the component given the discrete parents."""
    density: LinearGaussian
    """Of the child given the parents and, last, the component."""

    def __init__(
        self,
        child: Continuous,
        parents: Sequence[Variable] = (),
        *,
        probabilities: ArrayLike,
        intercept: ArrayLike,
        coefficients: ArrayLike | None = None,
        variance: ArrayLike,
    ) -> None:
        shape = np.shape(probabilities)
        if not shape or not shape[-1]:
            raise NetworkError(f"{child.name!r}: give a probability for each component, not {probabilities!r:.80}")
        parents = tuple(parents)
        hidden = Discrete(name_component(child, parents), tuple(range(shape[-1])))
        density = LinearGaussian(
            child, (*parents, hidden), intercept=intercept, coefficients=coefficients, variance=variance
        )
        discrete = [parent for parent in parents if isinstance(parent, Discrete)]
        component = Multinomial(hidden, discrete, table=probabilities)
        self._set(child=child, parents=parents, component=component, density=density)

    @property
    def parts(self) -> tuple[Potential, ...]:
        """The regressions of all components, with the component among the parents."""
        return (self.density,)

    # -- values ---------------------------------------------------------------------------------------------------

    def log_on(self, axes: Axes) -> Values:
        """Evaluate the logarithm of the density."""
        inner = self._add_components(axes)
        logs = np.asarray(self.density.log_on(inner)) + self._align_log_probabilities(inner)
        return np.asarray(np.logaddexp.reduce(logs, axis=len(self.parents)))

    def mass(self, axes: Axes, edges: Values) -> tuple[Values, Values | float]:
        """Integrate over cells of the child, component by component."""
        inner = self._add_components({**axes, self.child.name: edges[1:]})
        values, scale = self.density.mass(inner, edges)
        probabilities = np.exp(self._align_log_probabilities(inner))
        return (values * probabilities).sum(axis=len(self.parents)), scale

    def _add_components(self, axes: Axes) -> Axes:
        hidden = self.component.child
        return {**axes, hidden.name: all_states(len(hidden))}

    def _align_log_probabilities(self, inner: Axes) -> Values:
        """Return the logarithm of the components' probabilities, with the dimensions of the density."""
        arrays = dict(zip(self.density.scope, spread(inner, self.density.scope), strict=True))
        return np.asarray(take_logs(self.component.table)[tuple(arrays[name] for name in self.component.scope)])

    # -- what quadrature needs to know ----------------------------------------------------------------------------

    def breaks(self, name: str, within: Mapping[str, Interval] | None = None) -> Values:
        """Return the centers, and four and eight standard deviations beside them: components may be far apart."""
        variable = cast(Continuous, self.variable(name))
        blocks = [
            np.concatenate((first, last, *(end for reach in (4, 8) for end in (first - reach * sd, last + reach * sd))))
            for first, last, sd in self.density.locate_peaks(name, within)
        ]
        return tidy_breaks(np.concatenate(blocks), variable.domain, count_rows(within))

    def support(self, name: str, tail: float = 1e-12, within: Mapping[str, Interval] | None = None) -> Interval:
        """Return what holds the support of each component."""
        return self.density.support(name, tail, within)

    # -- simulation -----------------------------------------------------------------------------------------------

    def ppf(self, uniforms: Values, given: Axes) -> NDArray[Any]:
        """Invert the cdf in the logarithm of the nearer tail; infinite at 0 and 1."""
        discrete, continuous = split(self.child, self.parents)
        components = np.arange(len(self.component.child))[:, None]
        codes = (*(np.asarray(given[parent.name]) for parent in discrete), components)
        numbers = [np.asarray(given[parent.name]) for parent in continuous]
        means = linear_predictor(self.density.intercept, self.density.coefficients, codes, numbers)
        arrays = means, np.sqrt(self.density.variance)[codes], self.component.table[codes]
        return self.invert(uniforms, *np.broadcast_arrays(uniforms, *arrays)[1:])

    @staticmethod
    def invert(uniforms: Values, means: Values, widths: Values, shares: Values) -> Values:
        """Return the quantiles of mixtures of normal densities (components, rows) on the whole line."""
        quantiles = means + widths * scipy.special.ndtri(uniforms)
        if len(means) == 1:
            return np.where(shares[0] > 0, quantiles[0], np.nan)
        # they lie between those of the components
        low = np.where(shares > 0, quantiles, np.inf).min(axis=0)
        high = np.where(shares > 0, quantiles, -np.inf).max(axis=0)
        with np.errstate(invalid="ignore"):  # nothing is known of rows without shares
            return invert_normals(uniforms, means, widths, shares, low, high, 0.5 * low + 0.5 * high)

    def sample(self, given: Axes, rng: np.random.Generator, size: int | None = None) -> NDArray[Any]:
        """Draw a component, and from the component."""
        rows = size if size is not None else len(next(iter(given.values()))) if given else 1
        states = self.component.ppf(rng.random(rows), {name: given[name] for name in self.component.scope[:-1]})
        return self.density.sample({**given, self.component.child.name: states}, rng)

    # -- learning -------------------------------------------------------------------------------------------------

    def free_parameters(self) -> int:
        """Return the number of parameters; slopes that all components share count once."""
        slopes = self.density.coefficients
        shared = slopes.size and bool((slopes == slopes[..., :1, :]).all())
        own = slopes.size // len(self.component.child) if shared else slopes.size
        return self.component.free_parameters() + 2 * self.density.intercept.size + own

    def renamed(self, names: Mapping[str, str]) -> Self:
        """Return the same potential with variables renamed, also in its parts."""
        clone = super().renamed(names)
        return type(self).from_dict(clone.child, clone.parents, self.to_dict())

    # -- files ----------------------------------------------------------------------------------------------------

    def to_dict(self) -> dict[str, Any]:
        """Return the parameters."""
        return {"probabilities": self.component.table, **self.density.to_dict()}

    def __repr__(self) -> str:
        return f"{super().__repr__()[:-1]}: {len(self.component.child)} components>"
