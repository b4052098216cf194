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

Columns that a badly described number depends on, categories or what it is a curve of, are drawn to agree with it (see
`compatible_draws`). Discrete columns whose observed states contradict the network are drawn again, too, by
probabilities that are predicted in the same way. The expectation of a cell is what is predicted given the expectations
of the others, where straight lines lead, and given draws of them, averaged over these, where curves do.

A number is described badly where it has spikes or heaps, where its residuals given all other cells are far from normal
or depend on other numbers, and where draws would be what the number can't be. A discrete column is described badly
where the network's probabilities given all other cells disagree with what is observed: score tests ask whether they are
too sure of themselves, and whether the difference depends on other columns or on their squares.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
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
    choose_curves,
    choose_donors,
    fit_stacked_regression,
    match_numbers,
)
from hybridbn.learning.imputation.compatible_draws import (
    CompatibleMatcher,
    NumberCandidates,
    StateMatcher,
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
_MOST_INDICATORS = 20
"""At most this many states of a discrete column, the most frequent ones, become indicators."""
_TESTED_ROWS = 1000
"""The number of rows from which it is told whether a network describes a discrete column."""
_FEWEST_OBSERVED = 25
"""With fewer observed cells the nearest predictions are too far away, so a column is not matched."""
_FEWEST_WHOLE = 50
"""So many rows without holes say by themselves what depends on what along curves."""
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
_LEAST_INFLUENCE = 0.2
"""A number whose expectation a column changes by fewer residual standard deviations doesn't weigh its candidates."""

Cells: TypeAlias = Mapping[str, NDArray[Any]]
Limits: TypeAlias = Callable[[str, Cells], tuple[Values, Values]]
"""From a column and the cells of complete rows to the least and the greatest number of the column in each row."""


Matcher: TypeAlias = ColumnMatcher | StateMatcher | CompatibleMatcher
_KINDS: Mapping[str, type[Matcher]] = {"states": StateMatcher, "donors": ColumnMatcher, "compatible": CompatibleMatcher}
"""The matchers of a file, by the names under which it holds them."""


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
    matchers: Mapping[str, Matcher]
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
                own = _select_features(self.columns, self.matchers[name], features, holes, rows)
                drawn = self.matchers[name].draw(own, levels[name][rows], low, high)
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
            chosen = matcher.choose(_select_features(self.columns, matcher, features, holes, rows))
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
            own = matcher.expect(_select_features(self.columns, matcher, features, holes, rows))
            own = np.clip(own.T, low, high).T
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
            **{
                kind: {name: one.to_dict() for name, one in self.matchers.items() if isinstance(one, matcher)}
                for kind, matcher in _KINDS.items()
            },
        }

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Self:
        """Return what `to_dict` was made of."""
        # version 3 has numbers only
        is_new = "order" in content
        matchers: dict[str, Matcher] = {
            name: matcher.from_dict(saved)
            for kind, matcher in _KINDS.items()
            if is_new or kind == "donors"
            for name, saved in content.get(kind, {}).items()
        }
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
    """A matching, and what was chosen for it.

    Attributes
    ----------
    matching : PredictiveMeanMatching
    fits : mapping from column to StackedFit
    donors : mapping from column of numbers to DonorRule
    children : mapping from column to column of numbers
    """

    matching: PredictiveMeanMatching
    fits: Mapping[str, StackedFit]
    donors: Mapping[str, DonorRule]
    children: Mapping[str, str]

    def redraw(self, table: Table, holes: Holes, rng: np.random.Generator) -> PredictiveMeanMatching | None:
        """Return the matching that a bootstrap sample of the rows of another completed table gives.

        Only columns with holes are matched, and what is chosen for the regressions stays.
        """
        sweeps, columns, present = self.matching.sweeps, self.matching.columns, self.matching.matchers
        learning = _MatchingInTurn(table, holes, columns, rng, self.children, {**self.fits}, {**self.donors})
        matchers = {name: matcher for name, matcher in present.items() if name in holes}
        for sweep in range(sweeps):
            for name in present:
                if learning.is_coupled(name) or (name in holes and sweep == sweeps - 1):
                    learning.refit(name, bootstrap=True)
                    if name in holes:
                        matchers[name] = learning.match(name)
                if name in holes:
                    learning.draw(name, matchers[name])
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
    numbers = [name for name in _find_badly_described(completion.closed, completed, holes, rules) if name not in summed]
    columns = _choose_features(completed)
    learning = _MatchingInTurn(table, holes, columns, rng)
    states = _find_contradicted(completion, table, holes, columns, learning.features, numbers)
    untold = {*summed, *rules.codes, *(name for name in completed if table.is_discrete(name) and name not in states)}
    children = _find_children(learning, numbers, [name for name in completed if name in holes and name not in untold])
    learning = replace(learning, children=children)
    # first by what rows without holes say of the numbers that weigh
    names = [*children, *(name for name in [*states, *numbers] if name not in children)]
    sweeps = most_sweeps if len(holes.keys() & {*names}) > 1 or children else 1
    matchers: dict[str, Matcher] = {}
    for sweep in range(sweeps):
        # again after two, four, ... sweeps, as the first draws that are learned from are the worst
        is_last, is_due = sweep == sweeps - 1, sweep > 1 and sweep & (sweep - 1) == 0
        for name in names:
            is_coupled = learning.is_coupled(name)
            if name not in holes and not is_last and not is_coupled:
                continue
            if name not in matchers or (is_due and not is_coupled):
                learning.learn(name)
            elif is_coupled:
                learning.refit(name)
            if name not in matchers or is_due or is_coupled:
                matchers[name] = learning.match(name)
            learning.draw(name, matchers[name])
    if not names:
        return None
    ordered = {name: matchers[name] for name in names}
    matching = PredictiveMeanMatching(columns, ordered, sweeps=sweeps)
    return LearnedMatching(matching, learning.fits, learning.donors, children)


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
    children : mapping from column to column of numbers
        The number that weighs a column's candidates.
    fits : dict from column to StackedFit
        What was learned last.
    donors : dict from column of numbers to DonorRule
    """

    table: Table
    holes: Holes
    columns: Sequence[tuple[str, int]]
    rng: np.random.Generator
    children: Mapping[str, str] = field(default_factory=dict)
    fits: dict[str, StackedFit] = field(default_factory=dict)
    donors: dict[str, DonorRule] = field(default_factory=dict)

    @cached_property
    def features(self) -> Values:
        """The features of all rows, with what was drawn last."""
        return _build_features(self.columns, {name: self.table.column(name) for name, _ in self.columns})

    def features_of(self, name: str) -> list[int]:
        """Return the features that are made of a column."""
        return [feature for feature, (other, _) in enumerate(self.columns) if other == name]

    def is_coupled(self, name: str) -> bool:
        """Return whether a column weighs candidates, or has such."""
        return name in self.children or name in self.children.values()

    def learn(self, name: str, observed: NDArray[np.bool_] | None = None) -> None:
        """Choose the regression and the donors of a column, by all rows that tell or by some."""
        observed = self._learned_from(name) if observed is None else observed
        hidden = self.features_of(self.children[name]) if name in self.children else ()
        weights = np.ones(int(observed.sum()))
        fit = fit_stacked_regression(self.features[observed], self.features_of(name), weights, self.rng, hidden)
        self.fits[name] = fit
        if not self.table.is_discrete(name) and name not in self.children:
            numbers = self.table.column(name)[observed]
            self.donors[name] = choose_donors(fit, numbers, self.features[~observed])

    def refit(self, name: str, bootstrap: bool = False) -> None:
        """Learn a column's regression again from what was drawn last, or from a bootstrap sample of it."""
        observed = self._learned_from(name)
        rows = int(observed.sum())
        drawn = self.rng.integers(rows, size=rows) if bootstrap else np.arange(rows)
        weights = np.bincount(drawn, minlength=rows).astype(np.float64)
        self.fits[name] = self.fits[name].refit(self.features[observed], weights)

    def match(self, name: str) -> Matcher:
        """Return the matching of a column from its regression."""
        fit, variable = self.fits[name], self.table.variable(name)
        observed = self.table.column(name)[self._learned_from(name)]
        states = _match_states(fit, self.columns, observed, variable) if isinstance(variable, Discrete) else None
        if name in self.children:
            own = [(feature, self.columns[feature][1]) for feature in self.features_of(name)]
            return CompatibleMatcher.of(states or NumberCandidates.of(fit), own, self.fits[self.children[name]])
        return states or match_numbers(fit, observed, fit.weights, self.donors[name])

    def draw(self, name: str, matcher: Matcher) -> None:
        """Draw the holes of a column again."""
        if name not in self.holes:
            return
        rows = np.flatnonzero(self.holes[name])
        column = np.array(self.table.column(name))
        own = _select_features(self.columns, matcher, self.features, self.holes, rows)
        column[rows] = matcher.draw(own, self.rng.random(len(rows)), -np.inf, np.inf)
        _update_features(self.columns, self.features, name, column)

    def find_influence(self, name: str, child: str) -> float:
        """Return by how many residual standard deviations a number's expectation changes where another column does."""
        fit = self.fits[child]
        features = np.array(self.features)
        features[:, self.features_of(name)] = self.rng.permutation(features[:, self.features_of(name)])
        change = fit.regression.predict(features)[:, 0] - fit.regression.predict(self.features)[:, 0]
        return float(np.sqrt(0.5 * np.square(change).mean()) / (fit.training[1].std() + 1e-300))

    def _learned_from(self, name: str) -> NDArray[np.bool_]:
        """Return the rows that tell how a column depends on others: where it is observed, but all rows where the number
        that weighs it is left out, as whether it is observed may depend on that.
        """
        is_partial = name in self.holes and name not in self.children
        return ~self.holes[name] if is_partial else np.ones(len(self.table), dtype=bool)


def _find_children(learning: _MatchingInTurn, numbers: Sequence[str], parents: Sequence[str]) -> dict[str, str]:
    """Return the number, among those described badly, that tells most of each column by a density of its own.

    A number that is described badly itself has none, unless curves describe the other one well: then the latter depends
    on it, and not it on the latter.
    """
    children: dict[str, str] = {}
    whole = ~np.any([*learning.holes.values()], axis=0)
    for child in numbers if parents else ():
        # draws by lines hide curves
        learning.learn(child, whole if whole.sum() >= _FEWEST_WHOLE else None)
    for name in parents:
        strongest = _LEAST_INFLUENCE
        is_number = not learning.table.is_discrete(name)
        if name in children.values() or (is_number and has_spikes(learning.table.column(name)[~learning.holes[name]])):
            continue
        for child in numbers:
            fit = learning.fits[child]
            if child == name or child in children or (is_number and not fit.regression.is_curved):
                continue
            residuals = fit.training[1]
            if name in numbers and (_far_from_normal(residuals) or _has_structure(residuals, fit.columns)):
                continue
            influence = learning.find_influence(name, child)
            if influence > strongest:
                strongest, children[name] = influence, child
    return children


def _find_badly_described(
    closed: ConditionalGaussian, completed: Cells, holes: Mapping[str, NDArray[np.bool_]], rules: Rules
) -> list[str]:
    """Return the columns with spikes or heaps, with residuals that are far from normal or depend on other numbers, and
    with draws that can't be.
    """
    values = np.array([completed[name] for name in closed.numbers], dtype=np.float64).T
    codes = [np.asarray(completed[variable.name], dtype=np.intp) for variable in closed.given]
    configuration = encode_configurations(codes, [len(variable) for variable in closed.given], len(values))
    whole = ~np.any([holes[name] for name in completed if name in holes] or [np.zeros(len(values), dtype=bool)], axis=0)
    names = []
    for column, name in enumerate(closed.numbers):
        observed = ~holes[name] if name in holes else np.ones(len(values), dtype=bool)
        if observed.sum() < _FEWEST_OBSERVED:
            continue
        residuals = values[:, column] - closed.conditional_mean(column, values, configuration)
        others = np.delete(values, column, axis=1)
        # draws of others, by lines, hide curves, which rows without holes still show
        shown = [observed, whole] if _FEWEST_WHOLE <= whole.sum() < observed.sum() else [observed]
        if (
            name in rules.codes
            or has_spikes(values[observed, column])
            or _draws_outside(closed, column, values, configuration, rules.supports.get(name))
            or _far_from_normal(residuals[observed])
            or any(_has_structure(residuals[rows], others[rows]) for rows in shown)
            or any(_has_curves(others[rows], values[rows, column], residuals[rows]) for rows in shown)
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
    """Return whether the skewness or the kurtosis of residuals is large, and more than chance explains."""
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
    line, bent = fit_ridges(columns, told, weights), fit_ridges(columns, told, weights, curves.expand)
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


def _select_features(
    columns: Sequence[tuple[str, int]], matcher: Matcher, features: Values, holes: Holes, rows: Codes
) -> Values:
    """Return the features of some rows, without the number that weighs candidates where it is missing itself.

    Both are drawn together then: the candidate first, and that number given it.
    """
    own = features[rows]
    child = columns[matcher.child][0] if isinstance(matcher, CompatibleMatcher) else ""
    if child in holes:
        own[holes[child][rows], columns.index((child, -1))] = np.nan
    return own


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
