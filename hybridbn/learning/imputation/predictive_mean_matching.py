"""Predictive mean matching (Little 1988): numbers that a normal regression describes badly get observed numbers.

A normal distribution around the right expectation keeps means, variances and regressions, whatever the true shape. But
it puts values where none can be, below zero or between spikes, and a straight line misses curves. So after the joint
draw of a row's missing cells such numbers are drawn again, one column after the other, given all other cells: each
becomes the number of an observed row with nearly the same prediction, or of one in the same leaves of a forest, where
this foretells held-out rows better (see `column_matching`). Where several such cells of a row are missing, they are
drawn in turn and again, the more often the more is missing, as what the network has drawn of the others may be wrong.
Where observed rows are sparse, the difference of the predictions is added, not far beyond the observed range, as slopes
would come out too small otherwise. Each of several draws learns and takes its numbers from a bootstrap sample of the
observed rows (Rubin's approximate Bayesian bootstrap), as intervals would be too short otherwise.

Discrete columns whose observed states contradict the network are drawn again, too, by probabilities that are predicted
in the same way. The expectation of a cell is what is predicted given the expectations of the others, where straight
lines lead, and given draws of them, averaged over these, where curves do.

A number is described badly where it has spikes or heaps, where its residuals given all other cells are far from normal
or depend on other numbers, and where draws would be what the number can't be. A discrete column is described badly
where the network's probabilities given all other cells disagree with what is observed: score tests ask whether they are
too sure of themselves, and whether the difference depends on other columns or on their squares.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from hybridbn.estimation.completion import Completion, Levels, find_holes
from hybridbn.fitting.ridge import fit_ridges
from hybridbn.inference.sampling import ConditionalGaussian
from hybridbn.learning.imputation.column_matching import (
    PART_PRICE,
    ColumnMatcher,
    DonorRule,
    StackedFit,
    StackedRegression,
    choose_curves,
    choose_donors,
    fit_stacked_regression,
    match_numbers,
)
from hybridbn.learning.imputation.rules import Holes, Rules, has_spikes
from hybridbn.tables import Table
from hybridbn.variables import Codes, Discrete, Values, encode_configurations

_MATCHED = -2
"""The number of the attempt at which the levels of the first sweep are asked for; those before it are of later ones."""
_REPEATS = 16
"""Expectations given drawn cells are averaged over so many draws."""
_MORE_SWEEPS = 4
"""and over so many sweeps of a matching in turn besides the last one."""
_ALL_ATTEMPTS = 1000
"""The attempts of one draw have numbers below this."""
_TESTED_ROWS = 1000
"""The number of rows from which it is told whether a network describes a discrete column."""
_MOST_INDICATORS = 20
"""At most this many states of a discrete column, the most frequent ones, become indicators."""
_FEWEST_OBSERVED = 25
"""With fewer observed cells the nearest predictions are too far away, so a column is not matched."""
_SKEWNESS, _KURTOSIS = 0.5, 1.0
"""Residuals with more skewness or excess kurtosis than this are far from normal, unless chance explains it."""
_STANDARD_ERRORS = 4.0
"""Deviations of fewer standard errors are put down to chance."""
_OUTSIDE_SHARE = 0.002
"""A column of whose draws more are outside of what the column can be is far from normal."""
_CURVED_ROWS = 2000
"""The number of rows from which it is told whether a number follows curves."""
_LEAST_EFFECT = 0.2
"""Differences of fewer standard deviations of a state's indicator are not worth a model of their own."""
_LEAST_VARIANCE = 1e-6
"""The least variance of a state's indicator: a surer probability counts as if it weren't."""

Cells: TypeAlias = Mapping[str, NDArray[Any]]
Limits: TypeAlias = Callable[[str, Cells], tuple[Values, Values]]
"""From a column and the cells of complete rows to the least and the greatest number of the column in each row."""


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

    def draw(self, features: Values, uniforms: Values, low: Values | float, high: Values | float) -> Codes:
        """Draw a state for each row of the features, given uniform numbers; limits are for numbers."""
        cumulated = np.cumsum(self.expect(features), axis=1)
        codes: Codes = (uniforms[:, None] * cumulated[:, -1:] >= cumulated).sum(axis=1).astype(np.intp)
        return np.minimum(codes, self.size - 1)

    def choose(self, features: Values) -> Codes:
        """Return the most probable state in each row of the features."""
        return np.asarray(self.expect(features).argmax(axis=1))


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
    sweeps : int
        How often all columns are drawn in turn: once in files of versions before 6.
    """

    columns: Sequence[tuple[str, int]]
    matchers: Mapping[str, ColumnMatcher | StateMatcher]
    expects: bool = True
    sweeps: int = 1

    def match(
        self,
        cells: Cells,
        holes: Holes,
        uniforms: Callable[[int], Mapping[str, Values]],
        limits: Limits,
    ) -> Iterator[dict[str, NDArray[Any]]]:
        """Yield the matched columns after each sweep, without end, with new numbers and codes in what were holes.

        Where no number within the limits is found, the hole keeps what it was filled with, or gets the nearest limit.
        A row with a single hole in these columns is done after the first sweep.

        Parameters
        ----------
        cells : mapping from column to ndarray
            Completed rows: codes and numbers.
        holes : mapping from column to ndarray of bool
            Of each column that has any.
        uniforms : callable
            Returns a uniform number for each column and row, given the number of a sweep.
        limits : callable
            Returns the least and the greatest number of each row, given a column's name and the cells.
        """
        features, current = _build_features(self.columns, cells), dict(cells)
        missing = {name: np.flatnonzero(holes[name]) for name in self.matchers if name in holes}
        several = np.add.reduce([holes[name] for name in missing], axis=0, dtype=np.intp) > 1
        for sweep in itertools.count():
            levels = uniforms(sweep) if missing else {}
            for name, rows in missing.items():
                column = np.array(current[name])
                low, high = (ends[rows] for ends in limits(name, current))
                drawn = self.matchers[name].draw(features[rows], levels[name][rows], low, high)
                column[rows] = np.where(np.isnan(drawn), np.clip(column[rows], low, high), drawn)
                # later columns are matched given what is new in this one
                current[name] = column
                _update_features(self.columns, features, name, column)
            yield {name: current[name] for name in self.matchers if name in holes}
            missing = {name: rows for name in missing if len(rows := np.flatnonzero(holes[name] & several))}

    def choose(
        self,
        cells: Cells,
        holes: Holes,
        limits: Limits,
    ) -> dict[str, NDArray[Any]]:
        """Return the matched columns with their most probable states and frequent numbers in what were holes.

        Where no frequent number is more probable than all others together, the hole keeps what it was filled with. The
        parameters are those of `match`.
        """
        features, current = _build_features(self.columns, cells), dict(cells)
        for name, matcher in self.matchers.items():
            if name not in holes:
                continue
            rows, column = np.flatnonzero(holes[name]), np.array(cells[name])
            low, high = (ends[rows] for ends in limits(name, current))
            chosen = matcher.choose(features[rows])
            column[rows] = np.where((chosen >= low) & (chosen <= high), chosen, column[rows])
            current[name] = column
            _update_features(self.columns, features, name, column)
        return {name: current[name] for name in self.matchers if name in holes}

    @property
    def curved(self) -> tuple[str, ...]:
        """The columns whose expectation given the others is not that given the expectations of the others."""
        return tuple(name for name, matcher in self.matchers.items() if self.expects and matcher.is_curved)

    def expect(
        self,
        cells: Cells,
        holes: Holes,
        limits: Limits,
    ) -> dict[str, Values]:
        """Return expected numbers (rows,) and probabilities of states (rows, states), given the other cells.

        The parameters are those of `match`; instead of codes, `cells` may hold probabilities. What is returned says
        nothing of rows in which a cell is observed.
        """
        expected: dict[str, Values] = {}
        features = _build_features(self.columns, cells)
        for name, matcher in self.matchers.items() if self.expects else ():
            if name not in holes:
                continue
            rows = np.flatnonzero(holes[name])
            low, high = (ends[rows] for ends in limits(name, cells))
            # the last axis of what is turned are the rows, of numbers as of probabilities
            own = np.clip(matcher.expect(features[rows]).T, low, high).T
            expected[name] = np.zeros((len(features), *own.shape[1:]))
            expected[name][rows] = own
        return expected

    def to_dict(self) -> dict[str, Any]:
        """Return the content for a file: lists, numbers and arrays."""
        return {
            "columns": [[name, code] for name, code in self.columns],
            "order": list(self.matchers),
            "expects": self.expects,
            "sweeps": self.sweeps,
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
                name: matcher.to_dict() for name, matcher in self.matchers.items() if isinstance(matcher, ColumnMatcher)
            },
        }

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Self:
        """Return what `to_dict` was made of."""
        # version 3 has numbers only
        is_new = "order" in content
        matchers: dict[str, ColumnMatcher | StateMatcher] = {
            name: ColumnMatcher.from_dict(saved) for name, saved in content["donors"].items()
        }
        for name, saved in content["states"].items() if is_new else ():
            # version 4 has a regression for each state
            regressions = [
                (np.atleast_1d(codes), StackedRegression.from_dict(one)) for codes, one in saved["expectations"]
            ]
            matchers[name] = StateMatcher(saved["size"], regressions, saved["rest"])
        columns = tuple((name, code) for name, code in content["columns"])
        order = content["order"] if is_new else content["donors"]
        ordered = {name: matchers[name] for name in order}
        return cls(columns, ordered, is_new and content["expects"], content.get("sweeps", 1))


@dataclass(frozen=True, eq=False, kw_only=True)
class MatchedCompletion(Completion):
    """A network, and the matching of what it describes badly.

    Attributes
    ----------
    matching : PredictiveMeanMatching
    limits : callable
        The limits of matched numbers, which may depend on the other cells of a row.
    """

    matching: PredictiveMeanMatching
    limits: Limits
    copies: ClassVar[int] = _REPEATS

    def _draw_block(self, table: Table, rows: NDArray[np.intp], levels: Levels) -> dict[str, NDArray[Any]]:
        cells = super()._draw_block(table, rows, levels)
        sweeps = self.matching.match(
            cells, find_holes(table), lambda sweep: levels(_MATCHED - sweep, rows), self.limits
        )
        *_, matched = itertools.islice(sweeps, self.matching.sweeps)
        return {**cells, **matched}

    def _expect_block(self, table: Table, rows: NDArray[np.intp], levels: Levels | None) -> dict[str, Values]:
        expected, holes = super()._expect_block(table, rows, levels), find_holes(table)
        if levels is None:
            return expected
        matched = self._expect_along_lines(table, expected)
        curved = [name for name in self.matching.curved if name in matched]
        several = np.add.reduce([*holes.values()], axis=0, dtype=np.intp) > 1
        is_hole = np.any([*(holes[name] for name in curved), np.zeros(len(table), dtype=bool)], axis=0)
        simulated = np.flatnonzero(several & is_hole)
        if len(simulated):
            means = self._expect_by_draws(table.take(simulated), rows[simulated], levels)
            for name in means.keys() & curved:
                matched[name][simulated] = means[name]
        return {**expected, **matched}

    def _expect_along_lines(self, table: Table, expected: Mapping[str, Values]) -> dict[str, Values]:
        """Expect matched columns given the expectations of the others, which is right along straight lines."""
        holes, cells = find_holes(table), self.choose_expected(table, expected)
        for name in holes:
            if table.is_discrete(name):
                is_state = cells[name][:, None] == np.arange(expected[name].shape[1])
                cells[name] = np.where(holes[name][:, None], expected[name], is_state)
        return self.matching.expect(cells, holes, self.limits)

    def _expect_by_draws(self, table: Table, rows: NDArray[np.intp], levels: Levels) -> dict[str, Values]:
        """Expect matched columns given draws of the others, and average over these draws."""

        def shift(attempt: int, part: NDArray[np.intp]) -> Mapping[str, Values]:
            repeat, row = np.divmod(part, len(table))
            # stacked rows stay in their order, so those of the first draw come first
            own = [levels(attempt + r // 2 * _ALL_ATTEMPTS, rows[row[repeat == r]]) for r in range(_REPEATS)]
            # the errors of opposite draws cancel along straight lines
            return {
                name: np.concatenate([1 - one[name] if r % 2 else one[name] for r, one in enumerate(own)])
                for name in own[0]
            }

        stacked = table.take(np.tile(np.arange(len(table)), _REPEATS))
        holes, places = find_holes(stacked), np.arange(len(stacked))
        cells = super()._draw_block(stacked, places, shift)
        sweeps = self.matching.match(cells, holes, lambda sweep: shift(_MATCHED - sweep, places), self.limits)
        # the errors of further sweeps cancel, too
        count = self.matching.sweeps if self.matching.sweeps == 1 else self.matching.sweeps + _MORE_SWEEPS
        states = itertools.islice(sweeps, self.matching.sweeps - 1, count)
        expected = [self.matching.expect({**cells, **matched}, holes, self.limits) for matched in states]
        return {
            name: np.mean([own[name] for own in expected], axis=0)
            .reshape(_REPEATS, len(table), *expected[0][name].shape[1:])
            .mean(axis=0)
            for name in expected[0]
        }

    def _most_probable_block(self, table: Table, rows: NDArray[np.intp]) -> dict[str, NDArray[Any]]:
        cells = super()._most_probable_block(table, rows)
        return {**cells, **self.matching.choose(cells, find_holes(table), self.limits)}


def add_matching(completion: Completion, matching: PredictiveMeanMatching | None, rules: Rules) -> Completion:
    """Return a completion with matched numbers, which keep the rules and the bounds.

    Limits of matched columns are left to the matching, as their normal draws, which it replaces, would shift.
    """
    if matching is None:
        return completion
    return MatchedCompletion(
        network=completion.network,
        options=completion.options,
        observed=completion.observed,
        bounds=completion.bounds,
        supports={name: ends for name, ends in completion.supports.items() if name not in matching.matchers},
        orders=completion.orders,
        matching=matching,
        limits=rules.within(completion.bounds).limits,
    )


@dataclass(frozen=True, eq=False)
class LearnedMatching:
    """A matching, and the regressions and the donors that were chosen for it.

    Attributes
    ----------
    matching : PredictiveMeanMatching
    fits : mapping from column to StackedFit
    donors : mapping from column of numbers to DonorRule
    """

    matching: PredictiveMeanMatching
    fits: Mapping[str, StackedFit]
    donors: Mapping[str, DonorRule]

    def redraw(self, table: Table, holes: Holes, rng: np.random.Generator) -> PredictiveMeanMatching | None:
        """Return the matching that a bootstrap sample of the rows of another completed table gives.

        Only columns with holes are matched, and what is chosen for the regressions stays.
        """
        sweeps, present = self.matching.sweeps, self.matching.matchers
        learning = _MatchingInTurn(table, holes, self.matching.columns, rng)
        matchers = {name: matcher for name, matcher in present.items() if name in holes}
        for sweep in range(sweeps):
            for name, matcher in matchers.items():
                if sweep == sweeps - 1:
                    observed = ~holes[name]
                    rows = int(observed.sum())
                    weights = np.bincount(rng.integers(rows, size=rows), minlength=rows).astype(np.float64)
                    fit = self.fits[name].refit(learning.features[observed], weights)
                    matchers[name] = matcher = learning.match(name, fit, weights, self.donors.get(name))
                learning.draw(name, matcher)
        return replace(self.matching, matchers=matchers) if matchers else None


def fit_matching(
    completion: Completion,
    table: Table,
    holes: Holes,
    rng: np.random.Generator,
    rules: Rules,
    most_sweeps: int,
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
    most_sweeps : int
        How often the columns are drawn in turn, where several have holes.
    """
    assert completion.closed is not None
    completed = {name: table.column(name) for name in table.names if name in completion.network}
    summed = {name for one in rules.sums for name in one.names}
    names = [name for name in _find_badly_described(completion.closed, completed, holes, rules) if name not in summed]
    columns = _choose_features(completed)
    learning = _MatchingInTurn(table, holes, columns, rng)
    names = _find_contradicted(completion, table, holes, columns, learning.features, names) + names
    sweeps = most_sweeps if len(holes.keys() & set(names)) > 1 else 1
    fits: dict[str, StackedFit] = {}
    donors: dict[str, DonorRule] = {}
    matchers: dict[str, ColumnMatcher | StateMatcher] = {}
    for sweep in range(sweeps):
        is_last = sweep == sweeps - 1
        for name in names:
            if name not in holes and not is_last:
                continue
            # again after two, four, ... sweeps, as the first draws that are learned from are the worst
            if name not in matchers or (sweep > 1 and sweep & (sweep - 1) == 0):
                observed = ~holes[name] if name in holes else np.ones(len(table), dtype=bool)
                own = [feature for feature, (other, _) in enumerate(columns) if other == name]
                weights = np.ones(int(observed.sum()))
                fits[name] = fit_stacked_regression(learning.features[observed], own, weights, rng)
                if not table.is_discrete(name):
                    donors[name] = choose_donors(fits[name], table.column(name)[observed], learning.features[~observed])
                matchers[name] = learning.match(name, fits[name], weights, donors.get(name))
            learning.draw(name, matchers[name])
    ordered = {name: matchers[name] for name in names}
    return LearnedMatching(PredictiveMeanMatching(columns, ordered, sweeps=sweeps), fits, donors) if names else None


@dataclass(frozen=True, eq=False)
class _MatchingInTurn:
    """The matching of columns of a completed table, each given what the matching has made of the others.

    Attributes
    ----------
    table : Table
    holes : mapping from column to ndarray of bool
    columns : sequence of (str, int)
        The features.
    rng : Generator
    """

    table: Table
    holes: Holes
    columns: Sequence[tuple[str, int]]
    rng: np.random.Generator

    @cached_property
    def features(self) -> Values:
        """The features of all rows, with what was drawn last."""
        return _build_features(self.columns, {name: self.table.column(name) for name, _ in self.columns})

    def match(
        self, name: str, fit: StackedFit, weights: Values, donors: DonorRule | None
    ) -> ColumnMatcher | StateMatcher:
        """Return the matching of a column from its regression and the weights of the rows where it is observed."""
        column, variable = self.table.column(name), self.table.variable(name)
        observed = column[~self.holes[name]] if name in self.holes else column
        if isinstance(variable, Discrete):
            return _match_states(fit, self.columns, observed, variable)
        assert donors is not None
        return match_numbers(fit, observed, weights, donors)

    def draw(self, name: str, matcher: ColumnMatcher | StateMatcher) -> None:
        """Draw the holes of a column again."""
        if name not in self.holes:
            return
        missing = self.holes[name]
        column = np.array(self.table.column(name))
        own, uniforms = self.features[missing], self.rng.random(int(missing.sum()))
        column[missing] = matcher.draw(own, uniforms, -np.inf, np.inf)
        _update_features(self.columns, self.features, name, column)


def _find_badly_described(
    closed: ConditionalGaussian, completed: Cells, holes: Mapping[str, NDArray[np.bool_]], rules: Rules
) -> list[str]:
    """Return the columns with spikes or heaps, with residuals that are far from normal or depend on other numbers, and
    with draws that can't be.
    """
    values = np.array([completed[name] for name in closed.numbers], dtype=np.float64).T
    codes = [np.asarray(completed[variable.name], dtype=np.intp) for variable in closed.given]
    configuration = encode_configurations(codes, [len(variable) for variable in closed.given], len(values))
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
            or has_spikes(values[observed, column])
            or _draws_outside(closed, column, values, configuration, rules.supports.get(name))
            or _far_from_normal(residuals)
            or _has_structure(residuals, others)
            or _has_curves(others, values[observed, column], residuals)
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


def _has_curves(columns: Values, target: Values, residuals: Values) -> bool:
    """Return whether splines and products of columns tell what lines leave of a target.

    Parameters
    ----------
    columns : ndarray (rows, columns)
    target, residuals : ndarray (rows,)

    Examples
    --------
    >>> x, noise = np.random.default_rng(0).normal(size=(2, 300))
    >>> [_has_curves(x[:, None], y, y - x) for y in (x + noise, x + np.sin(3 * x) + noise)]
    [False, True]
    """
    if not columns.shape[1]:
        return False
    # evenly spread rows say as much as all
    part = slice(None, None, -(-len(target) // _CURVED_ROWS))
    columns, target, residuals = columns[part], target[part], residuals[part]
    weights = np.ones(len(target))
    centered = (target - target.mean())[:, None]
    line = fit_ridges(columns, centered, weights)
    curves = choose_curves(columns, line, centered)
    # what lines say of these rows, and what the network's lines leave, which may depend on categories, too
    told = line.explain(columns, weights, 0)[0] + residuals
    told = (told - told.mean())[:, None]
    line, bent = fit_ridges(columns, told, weights), fit_ridges(columns, told, weights, curves)
    squares = [np.square(told - one.leave_out(columns, told, weights)).sum() + 1e-300 for one in (line, bent)]
    return bool(0.5 * len(told) * np.log(squares[0] / squares[1]) > PART_PRICE)


def _standardize(values: Values) -> Values:
    centered = values - values.mean(axis=0)
    deviation = np.sqrt(np.square(centered).mean(axis=0))
    return np.asarray(centered / np.where(deviation > 0, deviation, np.inf))


def _disagree(probabilities: Values, codes: Codes, features: Values) -> bool:
    """Return whether observed states contradict their probabilities given other columns.

    Parameters
    ----------
    probabilities : ndarray (rows, states)
    codes : ndarray (rows,)
        What is observed.
    features : ndarray (rows, features)
        The other columns.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=(1000, 1))
    >>> right, wrong = 1 / (1 + np.exp(-x**2)), np.full((1000, 1), 0.63)
    >>> codes = (rng.random(1000) < right[:, 0]).astype(np.intp)
    >>> [_disagree(np.concatenate([1 - p, p], axis=1), codes, x) for p in (right, wrong)]
    [False, True]
    """
    standard = _standardize(features)
    asked = np.concatenate([np.ones((len(codes), 1)), standard, _standardize(standard**2)], axis=1)
    for state in range(probabilities.shape[1] if probabilities.shape[1] > 2 else 1):
        expected = probabilities[:, state]
        variance = np.maximum(expected * (1 - expected), _LEAST_VARIANCE)
        difference = (codes == state) - expected
        # the second part of Brier's score tells a probability that is too near to zero or one
        regressors = np.concatenate([asked, 1 - 2 * expected[:, None]], axis=1)
        scores = difference @ regressors / np.sqrt(np.maximum(variance @ regressors**2, 1e-300))
        if np.abs(scores).max() > max(_STANDARD_ERRORS, _LEAST_EFFECT * np.sqrt(len(codes))):
            return True
    return False


def _find_contradicted(
    completion: Completion,
    table: Table,
    holes: Holes,
    columns: Sequence[tuple[str, int]],
    features: Values,
    matched: Sequence[str],
) -> list[str]:
    """Return the discrete columns whose observed states contradict the network's probabilities given all others, and
    those with holes that matched numbers depend on.

    As the network describes these numbers badly, holes of the latter become classes of a mixture that describes them
    better, and drift away from what the states are, without any observed state telling.
    """
    names = []
    for name in table.names:
        if not table.is_discrete(name):
            continue
        is_class = name in holes and any(child in matched for child in completion.network.successors(name))
        own = [feature for feature, (other, _) in enumerate(columns) if other == name]
        observed = np.flatnonzero(~holes[name]) if name in holes else np.arange(len(table))
        if len(observed) < _FEWEST_OBSERVED or not 0 < len(own) < _MOST_INDICATORS or name not in completion.network:
            continue
        if is_class:
            names.append(name)
            continue
        # evenly spread rows say as much as all
        observed = observed[:: -(-len(observed) // _TESTED_ROWS)]
        part = table.take(observed)
        codes = part.column(name)
        blank = part.with_array(name, np.full(len(part), -1, dtype=np.intp))
        probabilities = completion.expectations(blank)[name]
        if _disagree(probabilities, codes, np.delete(features[observed], own, axis=1)):
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
