"""Predictive mean matching (Little 1988): numbers that a normal regression describes badly get observed numbers.

A normal distribution around the right expectation keeps means, variances and regressions, whatever the true shape. But
it puts values where none can be, below zero or between spikes, and a straight line misses curves. So after the joint
draw of a row's missing cells such numbers are drawn again, one column after the other, given all other cells: each
becomes the number of an observed row with nearly the same prediction. One pass is enough, as it starts from joint
draws; in small tables a longer chain would strengthen dependences for which few cells give evidence. Where observed
rows are sparse, the difference of the predictions is added, not far beyond the observed range, as slopes would come out
too small otherwise. Each of several draws learns and takes its numbers from a bootstrap sample of the observed rows
(Rubin's approximate Bayesian bootstrap), as intervals would be too short otherwise.

Discrete columns whose observed states contradict the network are drawn again, too, by probabilities that are predicted
in the same way. The expectation of a cell is what is predicted given the expectations of the others, where straight
lines lead, and given draws of them, averaged over these, where curves do.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray

from hybridbn.estimation.completion import Completion
from hybridbn.learning.imputation.goodness_of_fit import (
    FEWEST_OBSERVED,
    SPIKE_SHARE,
    disagree,
    find_badly_described,
    share_of_most_frequent,
)
from hybridbn.learning.imputation.rule_search import is_heaped
from hybridbn.learning.imputation.rules import Rules
from hybridbn.learning.imputation.stacked_regression import StackedFit, StackedRegression, fit_stacked_regression
from hybridbn.tables import Table
from hybridbn.variables import Codes, Discrete, Values

__all__ = ["ColumnMatcher", "LearnedMatching", "PredictiveMeanMatching", "fit_matching"]

_NEAREST_ROWS, _NEAREST_SHARE = 5, 0.05
"""A number is taken from one of this many rows, or of this share of all rows if that is more."""
_SIDES: tuple[Literal["left"], Literal["right"]] = ("left", "right")
"""The two sides on which `numpy.searchsorted` inserts a number."""
_BEYOND = 2.0
"""Numbers lie beyond the observed ones by at most this multiple of their range: curves that end earlier bend slopes."""
_DISTANT = 0.1
"""Differences of predictions below this many standard deviations of the residuals are neglected."""
_ATTEMPTS = 20
"""Numbers that are outside of their limits are drawn again this often."""
_GOLDEN_RATIO = 0.6180339887498949
_TESTED_ROWS = 1000
"""From so many rows of a table it is told whether a network describes a discrete column."""
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
        Somewhat beyond the range of all observed numbers; no drawn number lies outside.
    """

    regression: StackedRegression
    predictions: Values
    values: Values
    residuals: Values
    tolerance: float
    low: float
    high: float

    @property
    def is_curved(self) -> bool:
        """Whether anything but a straight line predicts."""
        return self.regression.is_curved

    def draw(self, features: Values, uniforms: Values, low: Values | float, high: Values | float) -> Values:
        """Draw a number within limits for each row of the features, given uniform numbers; NaN where there is none."""
        predicted, drawn = self.regression.predict(features)[:, 0], np.full(len(features), np.nan)
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

    def probabilities(self, features: Values) -> Values:
        """Return the probabilities of the states in each row of the features (rows, states)."""
        result = np.zeros((len(features), self.size))
        for codes, regression in self.regressions:
            result[:, codes] = np.clip(regression.predict(features), 0.0, 1.0)
        total = result.sum(axis=1)
        result[:, self.rest] = np.maximum(1 - total, 0.0)
        return np.asarray(result / np.maximum(total, 1.0)[:, None])

    def draw(self, features: Values, uniforms: Values) -> Codes:
        """Draw a state for each row of the features, given uniform numbers."""
        cumulated = np.cumsum(self.probabilities(features), axis=1)
        codes: Codes = (uniforms[:, None] * cumulated[:, -1:] >= cumulated).sum(axis=1).astype(np.intp)
        return np.minimum(codes, self.size - 1)


@dataclass(frozen=True, eq=False)
class PredictiveMeanMatching:
    """The predictive mean matching of several columns, each given all other cells of its row.

    Attributes
    ----------
    columns : sequence of (str, int)
        The features: numbers as they are (with -1), and indicators of a discrete column's code.
    matchers : mapping from column to ColumnMatcher or StateMatcher
        In the order in which columns are drawn.
    expects : bool
        Whether the matchers tell expectations, too; those of files of version 3 leave these to the network.
    """

    columns: Sequence[tuple[str, int]]
    matchers: Mapping[str, ColumnMatcher | StateMatcher]
    expects: bool = True

    def match(
        self,
        cells: Cells,
        holes: Mapping[str, NDArray[np.bool_]],
        uniforms: Callable[[str], Values],
        limits: Callable[[str, Cells], tuple[Values, Values]],
    ) -> dict[str, NDArray[Any]]:
        """Return the matched columns, with new numbers and codes in what were holes.

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
        matched: dict[str, NDArray[Any]] = {}
        for name, matcher in self.matchers.items():
            rows = np.flatnonzero(holes[name])
            if not len(rows):
                continue
            own, levels = features[rows], uniforms(name)[rows]
            column = np.array(current[name])
            if isinstance(matcher, StateMatcher):
                column[rows] = matcher.draw(own, levels)
            else:
                low, high = (ends[rows] for ends in limits(name, current))
                numbers = matcher.draw(own, levels, low, high)
                column[rows] = np.where(np.isnan(numbers), np.clip(column[rows], low, high), numbers)
            # later columns are matched given what is new in this one
            current[name] = matched[name] = column
            _update_features(self.columns, features, name, column)
        return matched

    @property
    def curved(self) -> tuple[str, ...]:
        """The columns whose expectation given the others is not that given the expectations of the others."""
        return tuple(name for name, matcher in self.matchers.items() if self.expects and matcher.is_curved)

    def expect(
        self,
        cells: Cells,
        holes: Mapping[str, NDArray[np.bool_]],
        limits: Callable[[str, Cells], tuple[Values, Values]],
    ) -> dict[str, Values]:
        """Return expected numbers (rows,) and probabilities of states (rows, states), given the other cells.

        The parameters are those of `match`; instead of codes, `cells` may hold probabilities. What is returned says
        nothing of rows in which a cell is observed.
        """
        expected: dict[str, Values] = {}
        features = _build_features(self.columns, cells)
        for name, matcher in self.matchers.items() if self.expects else ():
            rows = np.flatnonzero(holes[name])
            if not len(rows):
                continue
            if isinstance(matcher, StateMatcher):
                expected[name] = np.zeros((len(features), matcher.size))
                expected[name][rows] = matcher.probabilities(features[rows])
            else:
                low, high = (ends[rows] for ends in limits(name, cells))
                expected[name] = np.zeros(len(features))
                predicted = np.clip(matcher.regression.predict(features[rows])[:, 0], matcher.low, matcher.high)
                expected[name][rows] = np.clip(predicted, low, high)
        return expected

    def to_dict(self) -> dict[str, Any]:
        """Return the content for a file: lists, numbers and arrays."""
        return {
            "columns": [[name, code] for name, code in self.columns],
            "order": list(self.matchers),
            "expects": self.expects,
            "states": {
                name: {
                    "size": matcher.size,
                    "rest": matcher.rest,
                    "expectations": [[codes, one.to_dict()] for codes, one in matcher.regressions],
                }
                for name, matcher in self.matchers.items()
                if isinstance(matcher, StateMatcher)
            },
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
                if isinstance(matcher, ColumnMatcher)
            },
        }

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Self:
        """Return what `to_dict` was made of."""
        # version 3 has numbers only, and for each row the number itself, less the prediction, as its residual
        is_new = "order" in content
        matchers: dict[str, ColumnMatcher | StateMatcher] = {
            name: ColumnMatcher(
                StackedRegression.from_dict(saved["expectation"]),
                np.asarray(saved["expected"]),
                np.asarray(saved["values"]),
                np.asarray(saved["residuals"] if is_new else saved["values"] - saved["expected"]),
                np.inf if saved["tolerance"] is None else saved["tolerance"],
                *saved["range"],
            )
            for name, saved in content["donors"].items()
        }
        for name, saved in content["states"].items() if is_new else ():
            # version 4 has a regression for each state
            regressions = [
                (np.atleast_1d(codes), StackedRegression.from_dict(one)) for codes, one in saved["expectations"]
            ]
            matchers[name] = StateMatcher(saved["size"], regressions, saved["rest"])
        columns = tuple((name, code) for name, code in content["columns"])
        order = content["order"] if is_new else content["donors"]
        return cls(columns, {name: matchers[name] for name in order}, is_new and content["expects"])


@dataclass(frozen=True, eq=False)
class LearnedMatching:
    """A matching, and the regressions that it was learned by.

    Attributes
    ----------
    matching : PredictiveMeanMatching
    fits : mapping from column to StackedFit
    """

    matching: PredictiveMeanMatching
    fits: Mapping[str, StackedFit]

    def redraw(
        self, table: Table, holes: Mapping[str, NDArray[np.bool_]], rng: np.random.Generator
    ) -> PredictiveMeanMatching | None:
        """Return the matching that a bootstrap sample of the rows of another completed table gives.

        Only columns with holes are matched, and what is chosen for the regressions stays.
        """

        def learn(name: str, features: Values, observed: NDArray[np.bool_]) -> tuple[StackedFit, Values]:
            rows = int(observed.sum())
            weights = np.bincount(rng.integers(rows, size=rows), minlength=rows).astype(np.float64)
            return self.fits[name].refit(features[observed], weights), weights

        names = [name for name in self.matching.matchers if name in holes]
        learned = _learn_in_turn(names, self.matching.columns, table, holes, rng, learn)
        return learned.matching if names else None


def fit_matching(
    completion: Completion,
    table: Table,
    holes: Mapping[str, NDArray[np.bool_]],
    rng: np.random.Generator,
    rules: Rules,
) -> LearnedMatching | None:
    """Learn the matching of the columns that the network describes badly; return None if there are none.

    Parameters
    ----------
    completion : Completion
        Of a network in closed form.
    table : Table
        The table that the network was learned from, with its holes filled.
    holes : mapping from column to ndarray of bool
        The holes of the columns that had any.
    rules : Rules
        What the columns can be. Numbers of a sum are not matched, as the others tell them exactly.
    """
    assert completion.closed is not None
    completed = {name: table.column(name) for name in table.names if name in completion.network}
    summed = {name for one in rules.sums for name in one.names}
    names = [name for name in find_badly_described(completion.closed, completed, holes, rules) if name not in summed]
    columns = _choose_features(completed)
    names = _find_contradicted(completion, table, holes, columns, _build_features(columns, completed)) + names

    def learn(name: str, features: Values, observed: NDArray[np.bool_]) -> tuple[StackedFit, Values]:
        own = [feature for feature, (other, _) in enumerate(columns) if other == name]
        weights = np.ones(int(observed.sum()))
        return fit_stacked_regression(features[observed], own, weights, rng), weights

    return _learn_in_turn(names, columns, table, holes, rng, learn) if names else None


def _learn_in_turn(
    names: Sequence[str],
    columns: Sequence[tuple[str, int]],
    table: Table,
    holes: Mapping[str, NDArray[np.bool_]],
    rng: np.random.Generator,
    learn: Callable[[str, Values, NDArray[np.bool_]], tuple[StackedFit, Values]],
) -> LearnedMatching:
    """Learn to match some columns of a completed table, each given what the matching makes of those before it.

    Parameters
    ----------
    columns : sequence of (str, int)
        The features.
    learn : callable
        From a column, the features and where the column is observed to its regression and the weights of these rows.
    """
    features = _build_features(columns, {name: table.column(name) for name, _ in columns})
    matchers: dict[str, ColumnMatcher | StateMatcher] = {}
    fits = {}
    for name in names:
        is_missing = holes.get(name, np.zeros(len(features), dtype=bool))
        fit, weights = learn(name, features, ~is_missing)
        fits[name] = fit
        uniforms = rng.random(int(is_missing.sum()))
        column = np.array(table.column(name))
        variable = table.variable(name)
        if isinstance(variable, Discrete):
            states = matchers[name] = _match_states(fit, columns, column[~is_missing], variable)
            column[is_missing] = states.draw(features[is_missing], uniforms)
        else:
            numbers = matchers[name] = _match_numbers(fit, column[~is_missing], weights)
            column[is_missing] = numbers.draw(features[is_missing], uniforms, -np.inf, np.inf)
        _update_features(columns, features, name, column)
    return LearnedMatching(PredictiveMeanMatching(columns, matchers), fits)


def _find_contradicted(
    completion: Completion,
    table: Table,
    holes: Mapping[str, NDArray[np.bool_]],
    columns: Sequence[tuple[str, int]],
    features: Values,
) -> list[str]:
    """Return the discrete columns whose observed states contradict the network's probabilities given all others."""
    names = []
    for name in table.names:
        if not table.is_discrete(name):
            continue
        own = [feature for feature, (other, _) in enumerate(columns) if other == name]
        observed = np.flatnonzero(~holes[name]) if name in holes else np.arange(len(table))
        if len(observed) < FEWEST_OBSERVED or not 0 < len(own) < _MOST_INDICATORS or name not in completion.network:
            continue
        # evenly spread rows say as much as all
        observed = observed[:: -(-len(observed) // _TESTED_ROWS)]
        part = table.take(observed)
        codes = part.column(name)
        blank = part.with_array(name, np.full(len(part), -1, dtype=np.intp))
        probabilities = completion.expectations(blank)[name]
        if disagree(probabilities, codes, np.delete(features[observed], own, axis=1)):
            names.append(name)
    return names


def _match_states(
    fit: StackedFit, columns: Sequence[tuple[str, int]], observed: Codes, variable: Discrete
) -> StateMatcher:
    """Return the drawing of a column from its regression and its observed codes."""
    own = np.array([columns[feature][1] for feature in fit.outputs], dtype=np.intp)
    counts = np.bincount(observed, minlength=len(variable))
    counts[own] = -1
    return StateMatcher(len(variable), [(own, fit.regression)], int(counts.argmax()))


def _update_features(columns: Sequence[tuple[str, int]], features: Values, name: str, column: NDArray[Any]) -> None:
    """Put a changed column into the features."""
    for feature, (other, code) in enumerate(columns):
        if other == name:
            features[:, feature] = column if code < 0 else column == code


def _match_numbers(fit: StackedFit, values: Values, weights: Values) -> ColumnMatcher:
    """Return the matching of a column from its regression and its observed numbers, whose weights are given."""
    training = fit.explain_training()
    order: Codes = np.argsort(training.predictions, kind="stable").astype(np.intp)
    order = np.repeat(order, weights[order].astype(np.intp))
    residuals = training.residuals[order]
    has_spikes = share_of_most_frequent(values[order]) > SPIKE_SHARE or is_heaped(values)
    tolerance = np.inf if has_spikes else _DISTANT * float(np.std(residuals))
    low, high = float(values.min()), float(values.max())
    room = _BEYOND * (high - low)
    return ColumnMatcher(
        fit.regression, training.predictions[order], values[order], residuals, tolerance, low - room, high + room
    )


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
    """Return the features of complete rows (rows, features), from numbers and codes, or probabilities of codes."""
    listed = [
        cells[name] if code < 0 else cells[name][:, code] if cells[name].ndim > 1 else cells[name] == code
        for name, code in columns
    ]
    return np.ascontiguousarray(np.array(listed, dtype=np.float64).T)
