"""What to expect of a number given all other cells of its row: a ridge regression and a forest, in the best mixture.

Both say of each row that they learned from what they would have said without it, and non-negative least squares of
these says how much each of them counts (stacking, Breiman 1996): the regression where lines are straight, the forest where they
aren't. What is expected of a row that was learned from is the forest's word without it, as trees know their rows by heart, but the
line's own: without each row it would be another line for each, highest where the row itself is low, and matching by these
flattens slopes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Self

import numpy as np
from scipy.optimize import nnls

from hybridbn.fitting.ridge import GeneralizedCrossValidation, Spectrum
from hybridbn.fitting.trees.random_forest import Forest, grow_forest
from hybridbn.variables import Codes, Values

__all__ = ["Expectation", "expectation"]

_RIDGES = np.geomspace(0.1, 1e4, 16)
"""How many rows speak for slopes of zero: the one of the least generalized cross-validation error is taken."""
_PRICE = 5.0
"""Log-likelihood that a forest has to add to a line: where lines are straight, it flattens their ends."""
_LEVERAGE = 0.95
"""Of a row, at most: what would be expected without it would be anything."""


@dataclass(frozen=True, eq=False)
class Expectation:
    """A straight line and a forest.

    Attributes
    ----------
    constant : float
    center, slopes : ndarray (features,)
        Zero where the feature is the number itself.
    share : float
        How much the forest counts.
    others : ndarray
        The features that the forest asks for.
    forest : Forest
    """

    constant: float
    center: Values
    slopes: Values
    share: float
    others: Codes
    forest: Forest

    def expected(self, features: Values) -> Values:
        """Return what is expected in each row of the features."""
        straight = self.constant + np.einsum("rj,j->r", features - self.center, self.slopes)
        if not self.share:
            return np.asarray(straight)
        return np.asarray(straight + self.share * self.forest.predicted(features[:, self.others]))

    def to_dict(self) -> dict[str, Any]:
        """Return all of it as numbers and arrays."""
        found = {part.name: getattr(self, part.name) for part in fields(self)}
        return {**found, "forest": {part.name: getattr(self.forest, part.name) for part in fields(Forest)}}

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Self:
        """Return what `to_dict` was made of."""
        return cls(**{**content, "forest": Forest(**content["forest"])})


def expectation(features: Values, place: int, weights: Values, rng: np.random.Generator) -> tuple[Expectation, Values]:
    """Learn what to expect of a feature given the others; return that, and what is expected of these rows.

    Parameters
    ----------
    features : ndarray (rows, features)
    place : int
        Which feature is expected.
    weights : ndarray (rows,)

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=500)
    >>> features = np.column_stack([x, 2 * x + 0.1 * rng.normal(size=500)])
    >>> rule, own = expectation(features, 1, np.ones(500), rng)
    >>> rule.expected(np.array([[1.0, 0.0]])).round(1), bool(np.corrcoef(own, features[:, 1])[0, 1] > 0.99)
    (array([2.]), True)
    """
    others: Codes = np.delete(np.arange(features.shape[1], dtype=np.intp), place)
    target, rest = features[:, place], features[:, others]
    mean = float(np.average(target, weights=weights))
    centered = target - mean
    center, slopes, fitted, straight = _ridge(rest, centered, weights)
    forest, bent = grow_forest(rest, centered, rng)
    said = np.column_stack([straight, bent])
    said_mean = np.average(said, axis=0, weights=weights)
    shares = _shares(said - said_mean, centered, weights)
    constant = mean - float(shares @ said_mean)
    all_slopes, all_centers = np.zeros(features.shape[1]), np.zeros(features.shape[1])
    all_slopes[others], all_centers[others] = shares[0] * slopes, center
    rule = Expectation(constant, all_centers, all_slopes, float(shares[1]), others, forest)
    return rule, np.asarray(constant + np.column_stack([fitted, bent]) @ shares)


def _shares(said: Values, target: Values, weights: Values) -> Values:
    """Return how much the line and the forest count.

    The line, which is shrunk already, counts as it is where the forest adds next to nothing.
    """
    roots = np.sqrt(weights)
    both, rest = nnls(roots[:, None] * said, roots * target)
    straight = float(np.linalg.norm(roots * (target - said[:, 0])))
    told = weights.sum() * np.log(max(straight, 1e-300) / max(rest, 1e-300))
    return np.asarray(both if told > _PRICE else [1.0, 0.0])


def _ridge(features: Values, target: Values, weights: Values) -> tuple[Values, Values, Values, Values]:
    """Return centers and slopes of a ridge regression of a centered target, what it says of each row, and that without the row."""
    total = float(weights.sum())
    center = np.average(features, axis=0, weights=weights)
    away = features - center
    weighted = away * weights[:, None]
    gram = weighted.T @ away
    scales = np.sqrt(np.diag(gram) / total)
    scales = np.where(scales > 0, scales, 1.0)
    spectrum = Spectrum.of(gram / np.outer(scales, scales), weighted.T @ target / scales)
    ridge = spectrum.best_penalty(float(weights @ target**2), _RIDGES, GeneralizedCrossValidation(total))
    slopes = spectrum.slopes(ridge) / scales
    fitted = away @ slopes
    turned = (away / scales) @ (spectrum.vectors / np.sqrt(spectrum.values + ridge))
    leverage = np.minimum(weights * ((turned**2).sum(axis=1) + 1 / total), _LEVERAGE)
    return center, slopes, fitted, target - (target - fitted) / (1 - leverage)
