"""Predictive mean matching (Little 1988): numbers that a normal regression describes badly get observed numbers.

A normal distribution around the right expectation keeps means, variances and regressions, whatever the true shape. But
it puts values where none can be, below zero or between spikes, and a straight line misses curves. So after the joint
draw of a row's missing cells such numbers are drawn again, one column after the other, given all other cells: each
becomes the number of an observed row with nearly the same prediction. One pass is enough, as it starts from joint
draws; in small tables a longer chain would strengthen dependences for which few cells give evidence. Where observed
rows are sparse, the difference of the predictions is added, within the observed range, as slopes would come out too
small otherwise. Each of several draws learns and takes its numbers from a bootstrap sample of the observed rows
(Rubin's approximate Bayesian bootstrap), as intervals would be too short otherwise.

Predictions are a mixture of a ridge regression, for straight lines, and of a forest, for all else. The shares come from
non-negative least squares on both models' predictions of each row without it (stacking, Breiman 1996). Training rows
are then matched by the forest's out-of-bag prediction, as in-bag trees overfit, and by the ridge regression's in-sample
prediction, as leave-one-out predictions of a line are highest where the row itself is low, which flattens slopes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray

from hybridbn.inference.conditional_gaussian import ConditionalGaussian
from hybridbn.learning.imputation.rule_search import is_heaped
from hybridbn.learning.imputation.rules import Rules
from hybridbn.learning.imputation.stacked_regression import StackedRegression, fit_stacked_regression
from hybridbn.variables import Codes, Values

__all__ = ["ColumnMatcher", "PredictiveMeanMatching", "fit_matching"]

_NEAREST_ROWS, _NEAREST_SHARE = 5, 0.05
"""A number is taken from one of this many rows, or of this share of all rows if that is more."""
_SIDES: tuple[Literal["left"], Literal["right"]] = ("left", "right")
"""The two sides on which `numpy.searchsorted` inserts a number."""
_DISTANT = 0.1
"""Differences of predictions below this many standard deviations of the residuals are neglected."""
_ATTEMPTS = 20
"""Numbers that are outside of their limits are drawn again this often."""
_GOLDEN_RATIO = 0.6180339887498949
_FEWEST_OBSERVED = 25
"""With fewer observed numbers the nearest predictions are too far away, so the column is not matched."""
_SKEWNESS, _KURTOSIS = 0.5, 1.0
"""Residuals with more skewness or excess kurtosis than this are far from normal, unless chance explains it."""
_STANDARD_ERRORS = 4.0
"""Deviations of fewer standard errors are put down to chance."""
_OUTSIDE_SHARE = 0.002
"""A column of whose draws more are outside of what the column can be is far from normal."""
_SPIKE_SHARE = 0.1
"""A column in which one number has a larger share has a spike, so it isn't continuous."""
_MOST_INDICATORS = 20
"""At most this many states of a discrete column, the most frequent ones, become indicators."""
Cells = Mapping[str, NDArray[Any]]


@dataclass(frozen=True, eq=False)
class ColumnMatcher:
    """The matching of one column: the rows in which it is observed, sorted by their predictions.

    Attributes
    ----------
    regression : StackedRegression
    predictions, values, residuals : ndarray (rows,)
    tolerance : float
        Differences of predictions up to this are neglected; infinite for columns with spikes.
    low, high : float
        The range of all observed numbers; no drawn number lies outside.
    """

    regression: StackedRegression
    predictions: Values
    values: Values
    residuals: Values
    tolerance: float
    low: float
    high: float

    def draw(self, features: Values, uniforms: Values, low: Values | float, high: Values | float) -> Values:
        """Draw a number within limits for each row of the features, given uniform numbers; NaN where there is none."""
        predicted, drawn = self.regression.predict(features), np.full(len(features), np.nan)
        low, high = (np.broadcast_to(ends, len(features)) for ends in (low, high))
        pending = np.arange(len(features))
        for attempt in range(_ATTEMPTS):
            # multiples of the golden ratio fill the interval evenly
            levels = np.modf(uniforms[pending] + attempt * _GOLDEN_RATIO)[0]
            numbers = self._match(predicted[pending], levels)
            within = (numbers >= low[pending]) & (numbers <= high[pending])
            drawn[pending[within]] = numbers[within]
            pending = pending[~within]
            if not len(pending):
                break
        return drawn

    def _match(self, predicted: Values, uniforms: Values) -> Values:
        count = max(_NEAREST_ROWS, int(_NEAREST_SHARE * len(self.values)))
        left, right = (np.searchsorted(self.predictions, predicted, side) for side in _SIDES)
        first = np.clip((left + right - count) // 2, 0, len(self.values) - count)
        # all rows with the same prediction are equally near
        first, last = np.minimum(first, left), np.maximum(first + count, right)
        chosen = first + np.floor(uniforms * (last - first)).astype(np.intp)
        observed = self.values[chosen]
        # where no row has nearly the same prediction, a row's residual is taken instead of its number
        shifted = predicted + self.residuals[chosen]
        shift, inside = np.abs(predicted - self.predictions[chosen]), np.clip(shifted, self.low, self.high)
        # at the ends of the range a number of a row that is farther away than residuals are is worse than the end
        is_taken = (shift > self.tolerance) & ((shifted == inside) | (shift > self.tolerance / _DISTANT))
        return np.asarray(np.where(is_taken, inside, observed))


@dataclass(frozen=True, eq=False)
class PredictiveMeanMatching:
    """The predictive mean matching of several columns, each given all other cells of its row.

    Attributes
    ----------
    columns : sequence of (str, int)
        The features: numbers as they are (with -1), and indicators of a discrete column's code.
    matchers : mapping from column to ColumnMatcher
        In the order in which columns are drawn.
    """

    columns: Sequence[tuple[str, int]]
    matchers: Mapping[str, ColumnMatcher]

    def match(
        self,
        cells: Cells,
        holes: Mapping[str, NDArray[np.bool_]],
        uniforms: Callable[[str], Values],
        limits: Callable[[str, Cells], tuple[Values, Values]],
    ) -> dict[str, Values]:
        """Return the matched columns, with new numbers in what were holes.

        Where no number within the limits is found, the hole keeps what it was filled with, or gets the nearest limit.

        Parameters
        ----------
        cells : mapping from column to ndarray
            Completed rows: codes and numbers.
        holes : mapping from column to ndarray of bool
        uniforms : callable
            Returns a uniform number for each row, given a column's name.
        limits : callable
            Returns the least and the greatest number of each row, given a column's name and the cells.
        """
        features, current = _build_features(self.columns, cells), dict(cells)
        completed = {}
        for name, matcher in self.matchers.items():
            rows = np.flatnonzero(holes[name])
            if len(rows):
                # later columns are matched given the new numbers of this one
                feature = self.columns.index((name, -1))
                low, high = (ends[rows] for ends in limits(name, current))
                numbers = matcher.draw(features[rows], uniforms(name)[rows], low, high)
                kept = np.clip(features[rows, feature], low, high)
                features[rows, feature] = np.where(np.isnan(numbers), kept, numbers)
                current[name] = completed[name] = np.array(features[:, feature])
        return completed

    def to_dict(self) -> dict[str, Any]:
        """Return the content for a file: lists, numbers and arrays."""
        return {
            "columns": [[name, code] for name, code in self.columns],
            "donors": {
                name: {
                    "expectation": matcher.regression.to_dict(),
                    "expected": matcher.predictions,
                    "values": matcher.values,
                    "residuals": matcher.residuals,
                    "tolerance": matcher.tolerance if np.isfinite(matcher.tolerance) else None,
                    "range": [matcher.low, matcher.high],
                }
                for name, matcher in self.matchers.items()
            },
        }

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Self:
        """Return what `to_dict` was made of."""
        matchers = {
            name: ColumnMatcher(
                StackedRegression.from_dict(saved["expectation"]),
                np.asarray(saved["expected"]),
                np.asarray(saved["values"]),
                np.asarray(saved["residuals"]),
                np.inf if saved["tolerance"] is None else saved["tolerance"],
                *saved["range"],
            )
            for name, saved in content["donors"].items()
        }
        return cls(tuple((name, code) for name, code in content["columns"]), matchers)


def fit_matching(
    closed: ConditionalGaussian,
    completed: Cells,
    holes: Mapping[str, NDArray[np.bool_]],
    rng: np.random.Generator,
    proper: bool,
    rules: Rules,
) -> PredictiveMeanMatching | None:
    """Learn the matching of the columns of numbers that the network describes badly; return None if there are none.

    Parameters
    ----------
    completed : mapping from column to ndarray
        The table that the network was learned from, with its holes filled.
    holes : mapping from column to ndarray of bool
        The holes of the columns that had any.
    proper : bool
        Whether to learn from a bootstrap sample of the observed rows, and only the columns with holes.
    rules : Rules
        What the columns can be. Numbers of a sum are not matched, as the others tell them exactly.
    """
    summed = {name for one in rules.sums for name in one.names}
    names = [name for name in _find_badly_described(closed, completed, holes, rules) if name not in summed]
    if proper:
        names = [name for name in names if name in holes]
    if not names:
        return None
    columns = _choose_features(completed)
    features = _build_features(columns, completed)
    matchers: dict[str, ColumnMatcher] = {}
    for name in names:
        feature = columns.index((name, -1))
        is_missing = holes.get(name, np.zeros(len(features), dtype=bool))
        rows = int((~is_missing).sum())
        weights = np.ones(rows)
        if proper:
            weights = np.bincount(rng.integers(rows, size=rows), minlength=rows).astype(np.float64)
        matchers[name] = _fit_column(features, feature, ~is_missing, weights, rng)
        uniforms = rng.random(int(is_missing.sum()))
        features[is_missing, feature] = matchers[name].draw(features[is_missing], uniforms, -np.inf, np.inf)
    return PredictiveMeanMatching(columns, matchers)


def _fit_column(
    features: Values, feature: int, observed: NDArray[np.bool_], weights: Values, rng: np.random.Generator
) -> ColumnMatcher:
    """Learn the matching of one column from the rows in which it is observed, whose weights are given."""
    values = features[observed, feature]
    regression, training = fit_stacked_regression(features[observed], feature, weights, rng, features)
    order: Codes = np.argsort(training.predictions, kind="stable").astype(np.intp)
    order = np.repeat(order, weights[order].astype(np.intp))
    residuals = training.residuals[order]
    has_spikes = _share_of_most_frequent(values[order]) > _SPIKE_SHARE or is_heaped(values)
    tolerance = np.inf if has_spikes else _DISTANT * float(np.std(residuals))
    low, high = float(values.min()), float(values.max())
    low, high = low - 1.0 * (high - low), high + 1.0 * (high - low)
    return ColumnMatcher(regression, training.predictions[order], values[order], residuals, tolerance, low, high)


def _choose_features(cells: Cells) -> tuple[tuple[str, int], ...]:
    """Return the features: all numbers, and indicators of each discrete column's most frequent states but the first."""
    columns: list[tuple[str, int]] = []
    for name, column in cells.items():
        if column.dtype.kind == "f":
            columns.append((name, -1))
        else:
            counts = np.bincount(column)
            codes = np.argsort(-counts, kind="stable")[: np.count_nonzero(counts)]
            columns += [(name, int(code)) for code in sorted(codes[1 : _MOST_INDICATORS + 1].tolist())]
    return tuple(columns)


def _build_features(columns: Sequence[tuple[str, int]], cells: Cells) -> Values:
    """Return the features of complete rows (rows, features)."""
    listed = [cells[name] if code < 0 else cells[name] == code for name, code in columns]
    return np.ascontiguousarray(np.array(listed, dtype=np.float64).T)


# -- which columns -----------------------------------------------------------------------------------------------------


def _find_badly_described(
    closed: ConditionalGaussian, completed: Cells, holes: Mapping[str, NDArray[np.bool_]], rules: Rules
) -> list[str]:
    """Return the columns with spikes or heaps, with residuals that are far from normal or depend on other numbers, and
    with draws that can't be.
    """
    values = np.array([completed[name] for name in closed.numbers], dtype=np.float64).T
    configuration: Codes = np.zeros(len(values), dtype=np.intp)
    for variable in closed.given:
        configuration = configuration * len(variable) + completed[variable.name].astype(np.intp)
    names = []
    for column, name in enumerate(closed.numbers):
        observed = np.flatnonzero(~holes[name]) if name in holes else np.arange(len(values))
        if len(observed) < _FEWEST_OBSERVED:
            continue
        residuals = values[observed, column] - closed.conditional_mean(
            column, values[observed], configuration[observed]
        )
        others = np.delete(values[observed], column, axis=1)
        if (
            name in rules.codes
            or _share_of_most_frequent(values[observed, column]) > _SPIKE_SHARE
            or is_heaped(values[observed, column])
            or _draws_outside(closed, column, values, configuration, rules.supports.get(name))
            or _far_from_normal(residuals)
            or _has_structure(residuals, others)
        ):
            names.append(name)
    return names


def _draws_outside(
    closed: ConditionalGaussian,
    column: int,
    values: Values,
    configuration: Codes,
    support: tuple[float, float] | None,
) -> bool:
    """Return whether a normal distribution has too large a share where no number of the column can be."""
    from scipy.special import ndtr

    if support is None:
        return False
    low, high = support
    center = closed.conditional_mean(column, values, configuration)
    spread = 1 / np.sqrt(closed.regressions.gram[closed.regressions.kind[configuration], column, column])
    # of the distribution given all other cells, and of what was drawn, given fewer of them
    expected = float((ndtr((low - center) / spread) + ndtr((center - high) / spread)).mean())
    drawn = float(((values[:, column] < low) | (values[:, column] > high)).mean())
    return max(expected, drawn) > _OUTSIDE_SHARE


def _far_from_normal(residuals: Values) -> bool:
    n = len(residuals)
    scaled = _standardize(residuals)
    skewness, kurtosis = float((scaled**3).mean()), float((scaled**4).mean()) - 3
    return bool(scaled.any()) and bool(
        abs(skewness) > max(_SKEWNESS, _STANDARD_ERRORS * np.sqrt(6 / n))
        or abs(kurtosis) > max(_KURTOSIS, _STANDARD_ERRORS * np.sqrt(24 / n))
    )


def _has_structure(residuals: Values, others: Values) -> bool:
    """Return whether residuals correlate with squares of other numbers, or squared residuals with other numbers."""
    if not others.shape[1]:
        return False
    scaled, regressors = _standardize(residuals), _standardize(others)
    curvature = _standardize(regressors**2).T @ scaled
    heteroscedasticity = regressors.T @ _standardize(scaled**2)
    return bool(
        max(np.abs(curvature).max(), np.abs(heteroscedasticity).max()) > _STANDARD_ERRORS * np.sqrt(len(residuals))
    )


def _standardize(values: Values) -> Values:
    centered = values - values.mean(axis=0)
    deviation = np.sqrt(np.square(centered).mean(axis=0))
    return np.asarray(centered / np.where(deviation > 0, deviation, np.inf))


def _share_of_most_frequent(values: Values) -> float:
    ordered = np.sort(values)
    starts = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]]))
    return float(np.diff([*starts, len(values)]).max()) / len(values)
