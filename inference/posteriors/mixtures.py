"""Posteriors that are mixtures of normal distributions: those of linear Gaussian variables, and sums of weighted cases.

Cases are slices or draws of other variables. Each gives a normal mixture of a variable that is integrated out in closed
form, or the variable's own value.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray

from hybridbn.inference.axes import arrange_by_row
from hybridbn.inference.posteriors.continuous import BLOCK, NOTHING, Density
from hybridbn.potentials import LinearGaussianMixture
from hybridbn.potentials.base import NO_POINTS, PointCells, take_logs
from hybridbn.variables import Continuous, Values

DEVIATIONS = np.linspace(-9.0, 9.0, 25)
"""Where knots are around the mean of each part, in its standard deviations."""
MANY = 16
MOST_PAIRED = 100
"""More parts of a mixture are not all paired with each other."""
NEAR_VARIANCE, NEAR_MEAN = 0.02, 0.1
"""Parts are merged whose variances differ by this factor, and whose means by so many standard deviations."""


class GaussianPosterior(Density):
    """A mixture of normal distributions: weights, means and variances (components, rows).

    A part of variance zero is a value that has mass: one of the points, or one that was observed. What mean and
    variance gain from tails that have no parts, because they lie beyond grids, is in `gains` (2, rows).
    """

    _by_row = ("_weights", "_means", "_variances", "_gains")

    def __init__(
        self,
        variable: Continuous,
        weights: Values,
        means: Values,
        variances: Values,
        single: bool,
        error: Values,
        log_evidence: Any,
        point_cells: PointCells = NO_POINTS,
        gains: Values | None = None,
    ):
        super().__init__(variable, single, error, log_evidence)
        self._weights, self._means, self._variances = weights, means, variances
        self._gains = np.zeros((2, weights.shape[1])) if gains is None else gains
        self._point_cells = point_cells

    @classmethod
    def of(
        cls,
        variable: Continuous,
        weights: Values,
        means: Values,
        variances: Values,
        *,
        point_cells: PointCells = NO_POINTS,
        gains: Values | None = None,
    ) -> GaussianPosterior:
        """Return the density for rows that are to be joined; parts without weight are left out, but not of tails."""
        if len(weights) > MANY and (gains is None or not gains.any()):
            used = ~(weights < NOTHING)
            most = max(int(used.sum(axis=0).max(initial=1)), 1)
            if most < 0.8 * len(weights):
                order = np.argsort(~used, axis=0, kind="stable")[:most]
                weights, means, variances = (np.take_along_axis(a, order, axis=0) for a in (weights, means, variances))
        return cls(variable, weights, means, variances, False, np.zeros(weights.shape[1]), None, point_cells, gains)

    @property
    def error(self) -> Any:
        """Estimated absolute error of the probabilities, with that of means that are rounded far from zero."""
        spread = np.where(self._variances == 0, np.inf, np.sqrt(self._variances))
        rounded = np.sum(self._weights * np.spacing(np.abs(self._means)) / spread, axis=0)
        return self._rows_first(np.maximum(self._error, rounded))

    def _measure_points(self) -> Values:
        masses = np.where(self._variances == 0, self._weights, 0.0)
        at_point = self._means == self._point_cells.points[:, None, None]
        return np.asarray(np.where(at_point, masses, 0.0).sum(axis=1))

    def _fill_up(self, name: str) -> float | Values:
        return 1.0 if name == "_variances" else 0.0

    def _measure_spread(self, _: Values) -> Values:
        """Return mean and variance; NaN where a tail is too heavy for them."""
        if len(self._weights) == 1:
            return np.concatenate([self._weights * self._means, self._weights * self._variances])
        mean = np.sum(self._weights * self._means, axis=0)
        variance = np.sum(self._weights * (self._variances + (self._means - mean) ** 2), axis=0)
        return self._add_tails(np.stack([mean, variance]), self._gains)

    def _standardize(self, x: Values) -> tuple[Values, Values]:
        """Return standardized points and standard deviations; a part of variance zero is a point of mass one."""
        spread = np.sqrt(self._variances)
        gap = x[:, None] - self._means
        known = spread == 0
        if not known.any():
            return gap / spread, spread
        # mass up to a point counts the point itself
        jump = np.where(np.isnan(gap), np.nan, np.where(gap >= 0, np.inf, -np.inf))
        return np.where(known, jump, gap / np.where(known, 1.0, spread)), np.where(known, 1.0, spread)

    def _pdf(self, x: Values) -> Values:
        z, spread = self._standardize(x)
        density = np.einsum("kr,mkr->mr", self._weights, np.exp(-0.5 * z * z) / (spread * np.sqrt(2 * np.pi)))
        return self._put_masses(x, np.asarray(density))

    def _log_pdf(self, x: Values) -> Values:
        z, spread = self._standardize(x)
        logs = -0.5 * z * z - np.log(spread * np.sqrt(2 * np.pi))
        masses = take_logs(self._mass_at(x))
        return np.where(
            masses > -np.inf, masses, scipy.special.logsumexp(logs, axis=1, b=np.broadcast_to(self._weights, z.shape))
        )

    def _cdf(self, x: Values) -> Values:
        return np.asarray(
            np.einsum("kr,mkr->mr", self._weights, scipy.special.ndtr(self._standardize(self._point_cells.snap(x))[0]))
        )

    def _crps(self, truth: Values) -> Values:
        """Return the score in closed form (Grimit, Gneiting, Berrocal & Johnson 2006).

        It takes the distances of all pairs of parts, so that parts that hardly differ are merged where there are many.
        """
        result = np.sum(self._weights * _expect_distance(truth - self._means, self._variances), axis=0)
        parts = self._weights, self._means, self._variances
        weights, means, variances = parts if len(self._weights) <= MOST_PAIRED else merge_near_parts(*parts)
        pairs = np.array(np.triu_indices(len(weights), 1))
        result = result - 0.5 * np.sum(weights**2 * _expect_distance(np.zeros(1), 2 * variances), axis=0)
        block = max(1, BLOCK // max(truth.shape[1], 1))
        for i, j in np.split(pairs, range(block, pairs.shape[1], block), axis=1):
            gaps = _expect_distance(means[i] - means[j], variances[i] + variances[j])
            result -= np.einsum("kr,kr,kr->r", weights[i], weights[j], gaps)
        return np.asarray(result)[None]

    def _entropy(self, _: Values) -> Values:
        entropy = super()._entropy(_)
        elsewhere = (self._variances == 0) & ~np.isin(self._means, self._point_cells.points)
        return np.where(np.sum(self._weights * elsewhere, axis=0) > 0, -np.inf, entropy)

    def knots(self) -> tuple[Values, Values]:
        """Return points (knots, rows) and the cdf there, from (nearly) zero to (nearly) one."""
        parts = self._weights, self._means, self._variances
        is_short = len(self._weights) <= MANY
        weights, means, variances = parts if is_short else merge_near_parts(*parts, near_variance=1.0, near_mean=1.0)
        # around each part, which may be far narrower than others
        steps = np.sqrt(variances) * DEVIATIONS[:, None, None]
        used = ~(weights <= 0)  # also the parts of rows that are NaN
        low, high = np.where(used, means + steps[0], np.inf), np.where(used, means + steps[-1], -np.inf)
        knots = np.clip(means + steps, low.min(axis=0), high.max(axis=0))
        knots = np.sort(knots.reshape(-1, knots.shape[-1]), axis=0)
        return knots, self._cdf(knots)

    def _quantile(self, levels: Values) -> Values:
        inner = np.clip(levels, 1e-300, 1 - 1e-16)
        # a part of variance zero has no width to speak of
        widths = np.sqrt(np.maximum(self._variances, np.finfo(float).tiny))
        result = np.array([LinearGaussianMixture.invert(level, self._means, widths, self._weights) for level in inner])
        for point, mass in zip(self._point_cells.points, self._measure_points(), strict=True):
            upto = self._cdf(np.full((1, len(mass)), point))
            result = np.where((levels > upto - mass) & (levels <= upto), point, result)
        return np.where(levels <= 0, -np.inf, np.where(levels >= 1, np.inf, result))

    def _draw(self, uniforms: Values) -> Values:
        """Choose a part, then a value in it: the uniform's place in the part's share is the level."""
        upper = np.cumsum(self._weights, axis=0)
        level = uniforms * upper[-1]
        part = np.minimum((level[:, None] >= upper).sum(axis=1), len(upper) - 1), np.arange(uniforms.shape[1])
        inside = (level - (upper[part] - self._weights[part])) / self._weights[part]
        noise = scipy.special.ndtri(np.clip(inside, 1e-16, 1 - 1e-16))
        return np.asarray(self._means[part] + np.sqrt(self._variances[part]) * noise)


def merge_near_parts(
    weights: Values,
    means: Values,
    variances: Values,
    near_variance: float = NEAR_VARIANCE,
    near_mean: float = NEAR_MEAN,
) -> tuple[Values, Values, Values]:
    """Merge parts of mixtures (parts, rows) whose variances are within 2 % and means within a tenth of a deviation.

    A part that stands for others has their mean and variance together, so that the fourth moment changes by less than
    one in ten thousand; by a percent where variances are within a quarter and means within a third of a deviation.
    Parts of no variance stay.

    Examples
    --------
    >>> weights, means, variances = np.full((400, 1), 1 / 400), np.linspace(-3, 3, 400)[:, None], np.ones((400, 1))
    >>> merged = merge_near_parts(weights, means, variances)
    >>> len(merged[0]), round(float((merged[0] * merged[2]).sum()), 3)
    (61, 1.001)
    """
    rows = weights.shape[1]
    used = ~(weights < NOTHING)  # also the parts of rows that are NaN
    number, row = np.nonzero(used.T)[::-1]
    weight, mean, variance = (array[number, row] for array in (weights, means, variances))
    with np.errstate(divide="ignore", invalid="ignore"):
        step = np.round(np.log(variance) / near_variance)
        place = np.floor(mean / (near_mean * np.exp(step * near_variance / 2)))
    apart = ~np.isfinite(place) | ~np.isfinite(step)
    step[apart], place[apart] = 0.0, number[apart]
    order = np.lexsort((place, step, apart, row))
    keys = np.stack([row, apart, step, place])[:, order]
    starts = np.flatnonzero(np.append(True, (np.diff(keys, axis=1) != 0).any(axis=0)))
    parts = _merge_groups(weight[order], mean[order], variance[order], starts)
    return arrange_parts(row[order][starts], rows, *parts)


def arrange_parts(
    row: NDArray[np.intp], rows: int, weights: Values, means: Values, variances: Values
) -> tuple[Values, Values, Values]:
    """Return the parts of mixtures (entries,) or (entries, each), each entry with its row, as arrays (parts, rows)."""
    blanks = zip((weights, means, variances), (0.0, 0.0, 1.0), strict=True)
    first, second, third = (arrange_by_row(row, numbers, rows, blank) for numbers, blank in blanks)
    return first, second, third


def _expect_distance(mean: Values, variance: Values) -> Values:
    """Return the expected absolute value of a normal variable."""
    spread = np.sqrt(variance)
    known = spread == 0
    z = mean / np.where(known, 1.0, spread)
    expected = mean * (2 * scipy.special.ndtr(z) - 1) + 2 * spread * np.exp(-0.5 * z * z) / np.sqrt(2 * np.pi)
    return np.where(known, np.abs(mean), expected)


MOST_PARTS = 1 << 20
"""A sum of exact parts is kept as it is up to this number of them."""
MOST_SAMPLED_PARTS = 1 << 12
"""Parts that were sampled are merged with their neighbors until there are at most this many."""


class WeightedMixture:
    """The sum of weighted normal parts, whose weights come with a log scale that is not known beforehand.

    Examples
    --------
    >>> from hybridbn import Continuous
    >>> total = WeightedMixture(Continuous("x"), sampled=False)
    >>> total.add(np.array([1.0, 1.0]), np.array([0.0, 2.0]), np.array([1.0, 1.0]), log_scale=-800.0)
    >>> total.add(np.array([2.0]), np.array([7.0]), np.array([1.0]), log_scale=-800.0)
    >>> [moment.tolist() for moment in total.posterior().moments()]
    [[4.0], [10.5]]
    """

    def __init__(self, variable: Continuous, *, sampled: bool) -> None:
        self._variable = variable
        self._most, self._most_held = (
            (MOST_SAMPLED_PARTS, 8 * MOST_SAMPLED_PARTS) if sampled else (MOST_PARTS, 2 * MOST_PARTS)
        )
        self._parts: list[tuple[Values, Values, Values, Values]] = []
        self._count = 0

    def add(self, weights: Values, means: Values, variances: Values, log_scale: float) -> None:
        """Add parts (parts,)."""
        used = weights > 0
        scales = np.full(np.count_nonzero(used), log_scale)
        self._parts.append((weights[used], means[used], variances[used], scales))
        self._count += len(scales)
        if self._count > self._most_held:
            self._parts = [self._join()]
            self._count = len(self._parts[0][0])

    def posterior(self, points: float | None = None) -> GaussianPosterior:
        """Return the density, of one row.

        Parameters
        ----------
        points : float, optional
            Where the parts are drawn points, the size of the effective sample. They become kernels of a width that
            suits it, with mean and variance of the whole as before (West 1993, "Approximating posterior distributions
            by mixture").
        """
        if not self._count:
            nothing = np.full((1, 1), np.nan)
            return GaussianPosterior(self._variable, nothing, nothing, nothing, False, np.zeros(1), None)
        weights, means, variances, _ = self._join()
        weights = weights / weights.sum()
        if points is not None:
            center = weights @ means
            spread = weights @ (variances + (means - center) ** 2)
            width = min(1.06 * max(points, 1.0) ** -0.2, 0.9)
            means = center + math.sqrt(1 - width**2) * (means - center)
            variances = (1 - width**2) * variances + width**2 * spread
        return GaussianPosterior.of(self._variable, weights[:, None], means[:, None], variances[:, None])

    def _join(self) -> tuple[Values, Values, Values, Values]:
        """Return all parts that count on one scale, neighbors merged where there are too many, and that scale."""
        weights, means, variances, scales = (np.concatenate(arrays) for arrays in zip(*self._parts, strict=True))
        weights = weights * np.exp(scales - scales.max())
        used = weights > NOTHING * weights.sum()
        parts = weights[used], means[used], variances[used]
        if len(parts[0]) > self._most:
            parts = _merge_neighbors(*parts, self._most)
        return *parts, np.full(len(parts[0]), scales.max())


def _merge_neighbors(weights: Values, means: Values, variances: Values, most: int) -> tuple[Values, Values, Values]:
    """Return at most so many parts, those of about the same mean merged into one with their mean and variance."""
    order = np.argsort(means, kind="stable")
    weights, means, variances = weights[order], means[order], variances[order]
    level = np.cumsum(weights)
    group = np.minimum((level - 0.5 * weights) / level[-1] * most, most - 1).astype(np.intp)
    starts = np.flatnonzero(np.diff(group, prepend=-1))
    return _merge_groups(weights, means, variances, starts)


def _merge_groups(
    weights: Values, means: Values, variances: Values, starts: NDArray[np.intp]
) -> tuple[Values, Values, Values]:
    """Return one part for each group of parts, which begins at a start, with the weight, mean and variance of all."""
    total = np.add.reduceat(weights, starts)
    middle = np.add.reduceat(weights * means, starts) / total
    away = means - np.repeat(middle, np.diff(starts, append=len(means)))
    return total, middle, np.add.reduceat(weights * (variances + away**2), starts) / total
