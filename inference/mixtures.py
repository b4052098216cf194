"""Posteriors of linear Gaussian variables: mixtures of normal distributions, in closed form."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp, ndtr, ndtri

from hybridbn.inference.densities import ContinuousPosterior
from hybridbn.variables import Continuous, Values

__all__ = ["GaussianPosterior"]


class GaussianPosterior(ContinuousPosterior):
    """A mixture of normal distributions: weights, means and variances (components, rows)."""

    def __init__(
        self,
        variable: Continuous,
        weights: Values,
        means: Values,
        variances: Values,
        single: bool,
        error: Values,
        log_evidence: Any,
    ):
        super().__init__(variable, single, error, log_evidence)
        self._weights, self._means, self._variances = weights, means, variances

    def _take(self, rows: NDArray[np.intp]) -> Self:
        clone = super()._take(rows)
        for name in ("_weights", "_means", "_variances"):
            setattr(clone, name, getattr(self, name)[:, rows])
        return clone

    def _moments(self) -> tuple[Values, Values]:
        mean = np.sum(self._weights * self._means, axis=0)
        return mean, np.sum(self._weights * (self._variances + (self._means - mean) ** 2), axis=0)

    def _standardized(self, x: Values) -> tuple[Values, Values]:
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
        z, spread = self._standardized(x)
        return np.asarray(np.einsum("kr,mkr->mr", self._weights, np.exp(-0.5 * z * z) / (spread * np.sqrt(2 * np.pi))))

    def _log_pdf(self, x: Values) -> Values:
        z, spread = self._standardized(x)
        logs = -0.5 * z * z - np.log(spread * np.sqrt(2 * np.pi))
        return np.asarray(logsumexp(logs, axis=1, b=np.broadcast_to(self._weights, z.shape)))

    @property
    def _width(self) -> int:
        return 4 * len(self._weights)

    def _cdf(self, x: Values) -> Values:
        return np.asarray(np.einsum("kr,mkr->mr", self._weights, ndtr(self._standardized(x)[0])))

    def _entropy(self, _: Values) -> Values:
        found = super()._entropy(_)
        certain = np.sum(self._weights * (self._variances == 0), axis=0) > 0
        return np.where(certain, -np.inf, found)

    def _knots(self) -> tuple[Values, Values]:
        levels = np.broadcast_to(
            np.array([1e-300, 1e-12, 1e-4, 0.1, 0.5, 0.9, 1 - 1e-4, 1 - 1e-12])[:, None], (8, self._weights.shape[1])
        )
        low, high = self._brackets(levels)
        knots = low[0] + (high[-1] - low[0]) * np.linspace(0, 1, 129)[:, None]
        return knots, self._cdf(knots)

    def _brackets(self, levels: Values) -> tuple[Values, Values]:
        # a quantile of a mixture lies between the quantiles of its parts
        with np.errstate(invalid="ignore"):
            parts = self._means + ndtri(levels)[:, None] * np.sqrt(self._variances)
        used = self._weights > 0
        return np.where(used, parts, np.inf).min(axis=1), np.where(used, parts, -np.inf).max(axis=1)

    def _quantile(self, levels: Values) -> Values:
        inner = np.clip(levels, 1e-300, 1 - 1e-16)
        result = super()._quantile(inner)
        return np.where(levels <= 0, -np.inf, np.where(levels >= 1, np.inf, result))

    def _drawn(self, uniforms: Values) -> NDArray[Any]:
        """Choose a part, then a value in it: the uniform's place in the part's share is the level."""
        upper = np.cumsum(self._weights, axis=0)
        result = np.empty(uniforms.shape)
        columns = np.arange(uniforms.shape[1])
        for i, level in enumerate(uniforms * upper[-1]):
            part = np.minimum((level >= upper).sum(axis=0), len(upper) - 1)
            share = self._weights[part, columns]
            inside = (level - (upper[part, columns] - share)) / share
            spread = np.sqrt(self._variances[part, columns])
            result[i] = self._means[part, columns] + spread * ndtri(np.clip(inside, 1e-16, 1 - 1e-16))
        return result
