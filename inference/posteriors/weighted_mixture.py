"""Densities of continuous variables that are summed up from many cases, each with a weight: mixtures of normal parts.

The cases are slices or draws of other variables. Each gives a normal mixture of a variable that is integrated out in
closed form, or the variable's own value.
"""

from __future__ import annotations

import math

import numpy as np

from hybridbn.inference.posteriors.gaussian_mixture import GaussianPosterior
from hybridbn.variables import Continuous, Values

__all__ = ["WeightedMixture"]

MOST_PARTS = 1 << 20
"""A sum of exact parts is kept as it is up to this number of them."""
MOST_SAMPLED_PARTS = 1 << 12
"""Parts that were sampled are merged with their neighbors until there are at most this many."""
NEGLIGIBLE = 1e-18
"""Parts with a smaller share of the weight are left out."""


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
        self._variable, self._sampled = variable, sampled
        self._parts: list[tuple[Values, Values, Values]] = []
        self._log_scale = -math.inf
        self._count = 0

    def add(self, weights: Values, means: Values, variances: Values, log_scale: float) -> None:
        """Add parts (parts,)."""
        used = weights > 0
        if not used.any():
            return
        top = max(self._log_scale, log_scale)
        if top > self._log_scale:
            factor = math.exp(self._log_scale - top)
            self._parts = [(old * factor, mean, variance) for old, mean, variance in self._parts]
            self._log_scale = top
        parts = (weights[used] * math.exp(log_scale - top), means[used], variances[used])
        self._parts.append(parts)
        self._count += len(parts[0])
        if self._count > (8 * MOST_SAMPLED_PARTS if self._sampled else 2 * MOST_PARTS):
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
        if not self._parts:
            nothing = np.full((1, 1), np.nan)
            return GaussianPosterior(self._variable, nothing, nothing, nothing, False, np.zeros(1), None)
        weights, means, variances = self._join()
        weights = weights / weights.sum()
        if points is not None:
            center = weights @ means
            spread = weights @ (variances + (means - center) ** 2)
            width = min(1.06 * max(points, 1.0) ** -0.2, 0.9)
            means = center + math.sqrt(1 - width**2) * (means - center)
            variances = (1 - width**2) * variances + width**2 * spread
        return GaussianPosterior.of(self._variable, weights[:, None], means[:, None], variances[:, None])

    def _join(self) -> tuple[Values, Values, Values]:
        """Return all parts that count, neighbors merged where there are too many."""
        weights, means, variances = (np.concatenate(arrays) for arrays in zip(*self._parts, strict=True))
        used = weights > NEGLIGIBLE * weights.sum()
        weights, means, variances = weights[used], means[used], variances[used]
        most = MOST_SAMPLED_PARTS if self._sampled else MOST_PARTS
        return (
            (weights, means, variances) if len(weights) <= most else _merge_neighbors(weights, means, variances, most)
        )


def _merge_neighbors(weights: Values, means: Values, variances: Values, most: int) -> tuple[Values, Values, Values]:
    """Return at most so many parts, those of about the same mean merged into one with their mean and variance."""
    order = np.argsort(means, kind="stable")
    weights, means, variances = weights[order], means[order], variances[order]
    level = np.cumsum(weights)
    group = np.minimum((level - 0.5 * weights) / level[-1] * most, most - 1).astype(np.intp)
    starts = np.flatnonzero(np.diff(group, prepend=-1))
    total = np.add.reduceat(weights, starts)
    mean = np.add.reduceat(weights * means, starts) / total
    square = np.add.reduceat(weights * (variances + means**2), starts) / total
    return total, mean, np.maximum(square - mean**2, 0.0)
