"""Draws of a column that are compatible with a number that depends on it, by Bayes' rule.

What tells most about a missing cell may be a number that depends on it along a curve, or whose errors are not normal. A
regression of the cell on that number would not do: given y = b + b^2 + error, b may lie on either of two branches. So
the cell gets candidates, as likely as they are given all columns but that number, and each of them is weighted by the
density of the number given the candidate (Bartlett, Seaman, White & Carpenter 2015).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from hybridbn.learning.imputation.column_matching import BEYOND, StackedFit, StackedRegression
from hybridbn.potentials.base import draw_codes
from hybridbn.variables import Codes, Values, slice_blocks

_QUANTILES = 41
"""So many quantiles stand for all residuals."""
_POINTS = 129
"""The number of points at which a density of residuals is tabulated."""
_OUTLIERS = 0.01
"""The share of residuals that may lie anywhere, as no number may make all candidates impossible."""
_VALUES = 2_000_000
"""About so many features of candidates are in memory at the same time."""


def spread_residuals(residuals: Values, weights: Values) -> Values:
    """Return evenly spread quantiles of residuals that count so many times.

    Examples
    --------
    >>> spread_residuals(np.array([1.0, 0.0]), np.array([1.0, 3.0]))[[0, 20]]
    array([0., 0.])
    """
    counted = np.repeat(residuals, weights.astype(np.intp))
    return np.asarray(np.quantile(counted, (np.arange(_QUANTILES) + 0.5) / _QUANTILES))


@dataclass(frozen=True, eq=False)
class ResidualDensity:
    """The density of a number around what is expected of it: its logarithm at some points, and lines between them.

    Attributes
    ----------
    points, logs : ndarray (points,)
    """

    points: Values
    logs: Values

    @classmethod
    def of(cls, residuals: Values, rows: float) -> Self:
        """Return the density of residuals, given evenly spread quantiles of them and the number of rows they stand for.

        Examples
        --------
        >>> density = ResidualDensity.of(np.linspace(-1, 1, 41), 200)
        >>> bool(density.log(np.array([0.0])) > density.log(np.array([1.5])))
        True
        """
        middle, deviation = residuals.mean(), float(residuals.std()) or 1.0
        width = min(deviation, float(np.subtract(*np.quantile(residuals, [0.75, 0.25]))) / 1.34 or deviation)
        bandwidth = 0.9 * width * rows**-0.2
        # what kernels add to the variance is taken from the residuals
        shrunk = middle + (residuals - middle) * np.sqrt(1 - min(bandwidth / deviation, 0.9) ** 2)
        points = np.linspace(residuals.min() - 4 * deviation, residuals.max() + 4 * deviation, _POINTS)
        kernels = np.exp(-0.5 * np.square((points[:, None] - shrunk) / bandwidth)).mean(axis=1) / bandwidth
        tails = _OUTLIERS * deviation / (deviation**2 + np.square(points - middle))
        return cls(points, np.log(kernels / np.sqrt(2 * np.pi) + tails / np.pi))

    def log(self, residuals: Values) -> Values:
        """Return the logarithm of the density, the same beyond the points as at their ends."""
        return np.interp(residuals, self.points, self.logs)


@dataclass(frozen=True, eq=False)
class NumberCandidates:
    """What a missing number may be: what a regression expects, and as far from it as observed rows are.

    Attributes
    ----------
    regression : StackedRegression
    residuals : ndarray
        Evenly spread quantiles.
    low, high : float
        No candidate lies outside.
    """

    regression: StackedRegression
    residuals: Values
    low: float
    high: float

    @classmethod
    def of(cls, fit: StackedFit) -> Self:
        """Return the candidates of a regression, not far beyond the observed numbers."""
        numbers, residuals = fit.targets[:, 0], spread_residuals(fit.training[1], fit.weights)
        room = BEYOND * float(np.ptp(numbers))
        return cls(fit.regression, residuals, float(numbers.min()) - room, float(numbers.max()) + room)

    def propose(self, features: Values) -> tuple[Values, Values]:
        """Return candidates and their probabilities, which are equal."""
        numbers = np.clip(self.regression.predict(features) + self.residuals, self.low, self.high)
        return numbers, np.full(numbers.shape, 1 / len(self.residuals))

    def pick(self, candidates: Values, place: Codes, within: Values) -> Values:
        """Return a number between those half way to the next candidates."""
        row, last = np.arange(len(candidates)), candidates.shape[1] - 1
        own, step = candidates[row, place], np.where(within < 0.5, -1, 1)
        return np.asarray(own + np.abs(within - 0.5) * (candidates[row, np.clip(place + step, 0, last)] - own))

    def to_dict(self) -> dict[str, Any]:
        """Return the content for a file: numbers and arrays."""
        return {**vars(self), "regression": self.regression.to_dict()}

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Self:
        """Return what `to_dict` was made of."""
        regression = StackedRegression.from_dict(content["regression"])
        return cls(**{**content, "regression": regression, "residuals": np.asarray(content["residuals"])})


@dataclass(frozen=True, eq=False)
class StateMatcher:
    """The drawing of one discrete column from probabilities given all other cells.

    Attributes
    ----------
    size : int
        The number of states.
    regressions : sequence of (codes, StackedRegression)
        Of the indicators of all states but the most frequent one, which gets the rest.
    rest : int
        The code of that one.
    """

    size: int
    regressions: Sequence[tuple[Codes, StackedRegression]]
    rest: int

    @property
    def is_curved(self) -> bool:
        """Whether anything but straight lines predicts."""
        return any(regression.is_curved for _, regression in self.regressions)

    def expect(self, features: Values) -> Values:
        """Return the probabilities of the states in each row of the features (rows, states)."""
        result = np.zeros((len(features), self.size))
        for codes, regression in self.regressions:
            result[:, codes] = np.clip(regression.predict(features), 0.0, 1.0)
        total = result.sum(axis=1)
        result[:, self.rest] = np.maximum(1 - total, 0.0)
        return np.asarray(result / np.maximum(total, 1.0)[:, None])

    def propose(self, features: Values) -> tuple[Values, Values]:
        """Return the codes of all states and their probabilities (rows, states)."""
        return np.tile(np.arange(self.size, dtype=np.float64), (len(features), 1)), self.expect(features)

    def draw(self, features: Values, uniforms: Values, low: Values | float, high: Values | float) -> Codes:
        """Draw a state for each row of the features, given uniform numbers; limits are for numbers."""
        return draw_codes(self.expect(features), np.arange(len(features)), uniforms)

    def choose(self, features: Values) -> Codes:
        """Return the most probable state in each row of the features."""
        return np.asarray(self.expect(features).argmax(axis=1))

    def to_dict(self) -> dict[str, Any]:
        """Return the content for a file: lists, numbers and arrays."""
        expectations = [[codes, one.to_dict()] for codes, one in self.regressions]
        return {"size": self.size, "rest": self.rest, "expectations": expectations}

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Self:
        """Return what `to_dict` was made of; version 4 has a regression for each state."""
        listed = [(np.atleast_1d(codes), StackedRegression.from_dict(one)) for codes, one in content["expectations"]]
        return cls(content["size"], listed, content["rest"])


@dataclass(frozen=True, eq=False)
class CompatibleMatcher:
    """The drawing of a column whose candidates are weighted by the density of a number that depends on it.

    Attributes
    ----------
    candidates : NumberCandidates or StateMatcher
        What proposes numbers or states.
    features : sequence of (int, int)
        The features that are made of the column: its number (with -1), or indicators of its codes.
    child : int
        The feature of the number that weighs.
    regression : StackedRegression
        Of that number on all other columns.
    density : ResidualDensity
        Around what the regression expects.
    """

    candidates: NumberCandidates | StateMatcher
    features: Sequence[tuple[int, int]]
    child: int
    regression: StackedRegression
    density: ResidualDensity
    is_curved: ClassVar[bool] = True

    @classmethod
    def of(
        cls, candidates: NumberCandidates | StateMatcher, features: Sequence[tuple[int, int]], child: StackedFit
    ) -> Self:
        """Return the drawing, given the regression of the number that weighs."""
        density = ResidualDensity.of(spread_residuals(child.training[1], child.weights), float(child.weights.sum()))
        return cls(candidates, features, int(child.outputs[0]), child.regression, density)

    def draw(self, features: Values, uniforms: Values, low: Values | float, high: Values | float) -> NDArray[Any]:
        """Draw a cell within limits for each row of the features, given uniform numbers."""
        (cells, weights), row = self._weigh(features), np.arange(len(features))
        place = draw_codes(weights, row, uniforms)
        if isinstance(self.candidates, StateMatcher):
            return place
        own, cumulated = weights[row, place], np.cumsum(weights, axis=1)
        within = (uniforms * cumulated[:, -1] - cumulated[row, place] + own) / np.where(own > 0, own, 1.0)
        return np.clip(self.candidates.pick(cells, place, within), low, high)

    def expect(self, features: Values) -> Values:
        """Return the expected number (rows,), or the probabilities of states (rows, states)."""
        cells, weights = self._weigh(features)
        return weights if isinstance(self.candidates, StateMatcher) else np.asarray((cells * weights).sum(axis=1))

    def choose(self, features: Values) -> NDArray[Any]:
        """Return the most probable state, or no number, as none is more probable than all others together."""
        expected = self.expect(features)
        return np.asarray(np.full(len(features), np.nan) if expected.ndim == 1 else expected.argmax(axis=1))

    def _weigh(self, features: Values) -> tuple[Values, Values]:
        """Return candidates and their probabilities given all other columns (rows, candidates)."""
        cells, probabilities = self.candidates.propose(features)
        count, logs = cells.shape[1], np.empty(cells.shape)
        size = max(_VALUES // (count * features.shape[1]), 1)
        for part in slice_blocks(len(features), size):
            tried = np.repeat(features[part], count, axis=0)
            for feature, code in self.features:
                tried[:, feature] = cells[part].ravel() if code < 0 else cells[part].ravel() == code
            residuals = tried[:, self.child] - self.regression.predict(tried)[:, 0]
            # where that number is unknown, too, it says nothing
            logs[part] = np.where(np.isnan(residuals), 0.0, self.density.log(residuals)).reshape(-1, count)
        weights = probabilities * np.exp(logs - logs.max(axis=1, keepdims=True))
        return cells, weights / weights.sum(axis=1, keepdims=True)

    def to_dict(self) -> dict[str, Any]:
        """Return the content for a file: lists, numbers and arrays."""
        return {
            "states" if isinstance(self.candidates, StateMatcher) else "number": self.candidates.to_dict(),
            "features": [[feature, code] for feature, code in self.features],
            "child": self.child,
            "expectation": self.regression.to_dict(),
            "density": [self.density.points, self.density.logs],
        }

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Self:
        """Return what `to_dict` was made of."""
        is_number, density = "number" in content, ResidualDensity(*map(np.asarray, content["density"]))
        return cls(
            NumberCandidates.from_dict(content["number"]) if is_number else StateMatcher.from_dict(content["states"]),
            [(feature, code) for feature, code in content["features"]],
            content["child"],
            StackedRegression.from_dict(content["expectation"]),
            density,
        )
