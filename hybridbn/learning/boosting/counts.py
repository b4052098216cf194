"""AdaBoost.M1 over naive Bayes of discrete columns, with a single pass over the data in each round.

A round's pass classifies the rows with the present network and counts them, with the present weights, by (value, class,
wrong). Eqs. 2 and 3 of Ting and Zheng multiply the weights of all wrong rows by one number and those of the others by
another. So the next round's counts are the two halves of the present ones times these numbers, and the error is a
margin of the counts.

Columns are put together in groups whose joint codes are made once, in two bytes a row. A network becomes one table of
log-odds for each group, so that both classifying and counting take one look-up in a row and group.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from hybridbn.fitting.base import refuse_empty
from hybridbn.fitting.counters import NumpyCounter
from hybridbn.fitting.counting import Groups
from hybridbn.fitting.multinomial import MultinomialFitter, MultinomialStatistics
from hybridbn.learning.boosting.rounds import FLOOR, HALF, BoostingRun, draw_bootstrap_weights, vote_of
from hybridbn.network import Network
from hybridbn.potentials.multinomial import Multinomial
from hybridbn.variables import Codes, Discrete, Values

__all__ = ["CountedColumns", "FloorReport", "NumericWeights", "RowWeights", "boost_counts"]

_MOST_CELLS = 2**15
"""A group has at most this many counts, so that they stay in the second-level cache."""
_BLOCK_ROWS = 32768
"""Weights are updated in blocks of this many rows, to save memory."""

FloorReport: TypeAlias = Callable[[NDArray[np.intp], Values], None]
"""Receives some rows and what the floor adds to their weights."""


class CountedColumns:
    """Discrete columns and a target without holes, counted in every round.

    Parameters
    ----------
    counter : NumpyCounter
        The counter of the columns and the target.
    variables : mapping from column to its variable
    target : Discrete

    Attributes
    ----------
    groups : list of tuple of str
        The groups of columns, which are counted by their joint configurations.
    """

    picks_rows: ClassVar[bool] = True
    """Whether some rows are counted as cheaply as they are few; else each request passes over all rows."""
    variables: Mapping[str, Discrete]
    target: Discrete
    counter: NumpyCounter

    def __init__(self, counter: NumpyCounter, variables: Mapping[str, Discrete], target: Discrete) -> None:
        self.variables, self.target, self.counter = variables, target, counter.persist()
        self.groups: list[tuple[str, ...]] = []
        most = max(_MOST_CELLS // (2 * len(target)), 1)
        group: list[str] = []
        cells = 1
        for name, variable in variables.items():
            if group and cells * (len(variable) + 1) > most:
                self.groups.append(tuple(group))
                group, cells = [], 1
            group.append(name)
            cells *= self._shape((name,))[0]
        self.groups.append(tuple(group))
        self._shapes = [self._shape(names) for names in self.groups]

    def _shape(self, names: tuple[str, ...]) -> tuple[int, ...]:
        return self.counter.shape(names, holes=True)

    def make_weights(self, rows: int, base: Values | None) -> RowWeights:
        """Return the initial weights of the rows."""
        return NumericWeights(np.ones(rows) if base is None else base.copy(), base)

    def draw_weights(self, rows: int, base: Values | None, rng: np.random.Generator) -> RowWeights:
        """Return the weights of a bootstrap sample of the rows."""
        return NumericWeights(draw_bootstrap_weights(rng, rows, base), base)

    def count(self, row_weights: RowWeights, tables: Sequence[Values] | None) -> list[Values]:
        """Classify the rows, record the errors and count, in a single pass over the data.

        Returns
        -------
        list of ndarray (classes, 2, cells)
            For each group the weight by class, error of the network, and joint code; without tables there are no
            errors.
        """

        def assign(block: Any, codes: Sequence[Codes], observed: Sequence[Codes]) -> tuple[Codes, Values]:
            y, weights = observed[0], row_weights.weights(block)
            key = 2 * y
            if tables is not None:
                wrong = _classify(tables, codes) != y
                row_weights.record_errors(block, wrong)
                key += wrong
            return key, weights

        classes = len(self.target)
        counts = self.counter.by_group(Groups(2 * classes, assign, (self.target.name,)), self.groups)
        return [table.reshape(classes, 2, -1) for table in counts]

    def add(self, counts: Sequence[Values], rows: NDArray[np.intp], weights: Values) -> None:
        """Add some rows with weights of their own to counts (classes, cells), in place."""

        def assign(block: Any, codes: Sequence[Codes], observed: Sequence[Codes]) -> tuple[Codes, Values]:
            return observed[0], weights[block]

        groups = Groups(len(self.target), assign, (self.target.name,), rows)
        for total, added in zip(counts, self.counter.by_group(groups, self.groups), strict=True):
            total += added

    def learn(
        self, counts: Sequence[Values], fitters: Mapping[str, MultinomialFitter]
    ) -> tuple[NaiveBayesProbabilities, list[Values]]:
        """Return the probabilities and each group's table of log probabilities, given counts (classes, cells) by group.

        The tables have the shape (classes, cells), or for two classes (1, cells) with the log-odds of the second.
        """
        classes, target = len(self.target), self.target.name
        prior = fitters[target].tables(counts[0].sum(axis=1)[None])[0]
        probabilities, tables = {target: prior}, []
        with np.errstate(divide="ignore"):
            prior_logs = np.log(prior)[:, None]
            for group, shape, table in zip(self.groups, self._shapes, counts, strict=True):
                logs = prior_logs
                for name, margin in zip(group, _margins_of(table, shape), strict=True):
                    states, size = len(self.variables[name]), margin.shape[1]
                    counts_of_states = margin[:, :states]
                    if not counts_of_states.any():
                        refuse_empty(_statistics_of(self.variables[name], self.target, counts_of_states))
                    probabilities[name] = fitters[name].tables(counts_of_states[None])[0]
                    terms = np.log(probabilities[name])
                    if states < size:
                        # the last state stands for missing cells and adds nothing
                        terms = np.hstack([terms, np.zeros((classes, 1))])
                    logs = (logs[:, :, None] + terms[:, None, :]).reshape(classes, -1)
                tables.append(logs)
                prior_logs = np.zeros((classes, 1))
        return NaiveBayesProbabilities(self.target, self.variables, probabilities), _log_odds(
            tables
        ) if classes == 2 else tables


def _statistics_of(child: Discrete, parent: Discrete, counts: Values) -> MultinomialStatistics:
    return MultinomialStatistics(child=child, parents=(parent,), total=float(counts.sum()), counts=counts)


@dataclass(frozen=True)
class NaiveBayesProbabilities:
    """The probabilities of naive Bayes, which become a network when they are called."""

    target: Discrete
    variables: Mapping[str, Discrete]
    tables: Mapping[str, Values]

    def __call__(self) -> Network:
        """Return the network."""
        prior = Multinomial(self.target, table=self.tables[self.target.name])
        attributes = self.variables.items()
        return Network(
            [prior, *(Multinomial(variable, (self.target,), table=self.tables[name]) for name, variable in attributes)]
        )


def _margins_of(counts: Values, sizes: Sequence[int]) -> list[Values]:
    """Return the counts (classes, size) of each column of a group from those of its joint codes (classes, cells).

    Examples
    --------
    >>> [margin.tolist() for margin in _margins_of(np.array([[1.0, 2.0, 3.0, 4.0]]), (2, 2))]
    [[[3.0, 7.0]], [[4.0, 6.0]]]
    """
    margins = []
    if len(sizes) == 1:
        return [counts]
    for size in reversed(sizes):
        # products with ones are the fastest sums over short axes
        cube = counts.reshape(len(counts), -1, size)
        margins.append(np.ones(cube.shape[1]) @ cube)
        counts = cube @ np.ones(size)
    return margins[::-1]


def _log_odds(tables: list[Values]) -> list[Values]:
    """Return the log-odds of two classes, or the same tables if a probability of zero makes log-odds meaningless."""
    if not all(np.isfinite(table).all() for table in tables):
        return tables
    return [table[1:] - table[:1] for table in tables]


def _classify(tables: Sequence[Values], codes: Sequence[Codes]) -> Codes:
    """Return the class with the highest score for each row, the first of several; -1 where all are impossible."""
    totals = []
    for class_ in range(len(tables[0])):
        total = tables[0][class_].take(codes[0])
        for table, code in zip(tables[1:], codes[1:], strict=True):
            total += table[class_].take(code)
        totals.append(total)
    if len(totals) == 1:
        return np.asarray(totals[0] > 0, dtype=np.intp)
    stacked = np.array(totals)
    return np.asarray(np.where(np.isneginf(stacked).all(axis=0), -1, stacked.argmax(axis=0)), dtype=np.intp)


def boost_counts(
    columns: CountedColumns,
    fitters: Mapping[str, MultinomialFitter],
    rows: int,
    base: Values | None,
    run: BoostingRun,
    rng: np.random.Generator,
) -> None:
    """Run AdaBoost.M1; `run` gets the networks.

    Parameters
    ----------
    columns : CountedColumns
    fitters : mapping from the target and each column to its fitter
    rows : int
    base : ndarray (rows,), optional
        The initial weights of the rows; by default one each.
    run : BoostingRun
    rng : Generator
    """
    total = float(rows) if base is None else float(base.sum())
    row_weights = columns.make_weights(rows, base)
    counts = [table.sum(axis=1) for table in columns.count(row_weights, None)]
    while run.has_more:
        network, tables = columns.learn(counts, fitters)
        split = columns.count(row_weights, tables)
        error = float(split[0][:, 1].sum()) / total
        if HALF > error > 0:
            up, down = 1 / (2 * error), 1 / (2 * (1 - error))
            counts = [table[:, 1] * up + table[:, 0] * down for table in split]
            if row_weights.least * down < row_weights.floor:
                # the floor raises some weights
                if columns.picks_rows:
                    row_weights.advance(up, down, partial(columns.add, counts))
                else:
                    row_weights.advance(up, down)
                    counts = [table.sum(axis=1) for table in columns.count(row_weights, None)]
                share = total / float(counts[0].sum())
                counts = [table * share for table in counts]
                row_weights.scale(share)
            else:
                row_weights.advance(up, down)
            run.add(network, error, vote_of(error), row_weights.all)
            continue
        if error:
            run.reject(network, error)
        else:
            run.restart()
        del row_weights  # before there is another one, so that memory holds one at a time
        row_weights = columns.draw_weights(rows, base, rng)
        if not error:
            run.add(network, error, vote_of(error), row_weights.all)
        if run.has_more:
            counts = [table.sum(axis=1) for table in columns.count(row_weights, None)]


class RowWeights(Protocol):
    """The weights of the rows while they are boosted."""

    least: float
    """A lower bound of all weights, relative to the initial ones."""
    floor: float
    """The relative weight to which smaller ones are raised."""

    def weights(self, block: slice) -> Values:
        """Return the weights of a block of rows; they must not be changed."""

    def record_errors(self, block: slice, wrong: NDArray[np.bool_]) -> None:
        """Record which rows of a block are wrong."""

    def advance(self, up: float, down: float, report: FloorReport | None = None) -> None:
        """Multiply the weights of wrong rows by `up`, others by `down`; report what the floor adds to which rows."""

    def scale(self, share: float) -> None:
        """Multiply all weights."""

    def all(self) -> Values:
        """Return all weights."""


class NumericWeights:
    """Weights as numbers; a negative sign marks a wrong row.

    Examples
    --------
    >>> weights = NumericWeights(np.ones(3), None)
    >>> weights.record_errors(slice(0, 3), np.array([True, False, False]))
    >>> weights.advance(1.5, 0.75)
    >>> weights.all()
    array([1.5 , 0.75, 0.75])
    """

    floor = FLOOR

    def __init__(self, numbers: Values, base: Values | None) -> None:
        self._numbers, self._base = numbers, base
        relative = numbers if base is None else numbers / base
        self.least: float = float(relative.min())

    def weights(self, block: slice) -> Values:
        """Return the weights of a block of rows."""
        return np.abs(self._numbers[block])

    def record_errors(self, block: slice, wrong: NDArray[np.bool_]) -> None:
        """Record which rows of a block are wrong."""
        np.copysign(self._numbers[block], np.where(wrong, -1.0, 1.0), out=self._numbers[block])

    def advance(self, up: float, down: float, report: FloorReport | None = None) -> None:
        """Multiply the weights; report what the floor adds to which rows, block by block."""
        least = np.inf
        floored = self.least * down < self.floor
        for start in range(0, len(self._numbers), _BLOCK_ROWS):
            block = self._numbers[start : start + _BLOCK_ROWS]
            block *= np.where(np.signbit(block), -up, down)
            base = 1.0 if self._base is None else self._base[start : start + _BLOCK_ROWS]
            if floored:
                lowest = np.broadcast_to(self.floor * base, block.shape)
                low = np.flatnonzero(block < lowest)
                if report is not None and low.size:
                    report(low + start, lowest[low] - block[low])
                block[low] = lowest[low]
            least = min(least, float((block / base).min()))
        self.least = least

    def scale(self, share: float) -> None:
        """Multiply all weights."""
        self._numbers *= share
        self.least *= share

    def all(self) -> Values:
        """Return all weights."""
        return np.abs(self._numbers)

    @property
    def outcomes(self) -> Values:
        """Numbers with a sign bit where a row is wrong."""
        return self._numbers
