"""AdaBoost.M1 over naive Bayes of discrete columns, with a single pass over the data in each round.

A round's pass classifies the rows with the present network and counts them, with the present weights, by (value, class,
wrong). Eqs. 2 and 3 of Ting and Zheng multiply the weights of all wrong rows by one number and those of the others by
another. So the next round's counts are the two halves of the present ones times these numbers, and the error is a
margin of the counts. Where a weight falls below the floor, one more pass counts what the floor adds to such rows.

Columns are put together in groups whose joint codes are made once, in two bytes a row. A network becomes one table of
log-odds for each group, so that both classifying and counting take one look-up in a row and group.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from hybridbn.fitting import MultinomialFitter, MultinomialStatistics
from hybridbn.fitting.base import refuse_empty
from hybridbn.fitting.counters import NumpyCounter, RowCounter
from hybridbn.fitting.counting import Groups
from hybridbn.learning.boosting.rounds import FLOOR, HALF, Factors, vote_of
from hybridbn.learning.boosting.sample_weights import SampleWeights, Step
from hybridbn.learning.boosting.weak_learners import Outcome
from hybridbn.network import Network
from hybridbn.potentials import Multinomial
from hybridbn.tables import Rows, Table
from hybridbn.variables import Codes, Discrete, Values

__all__ = ["CountedLearner"]

_COUNTER = "counter of boosted rows"
_MOST_CELLS = 2**15
"""A group has at most this many counts, so that they stay in the second-level cache."""
_BLOCK_ROWS = 32768
"""Weights that fall below the floor are looked for in blocks of this many rows, to save memory."""


class CountedLearner:
    """Naive Bayes over discrete columns and a target without holes, learned from counts.

    Parameters
    ----------
    rows : Rows
    variables : mapping from column to its variable
    target : Discrete
    fitters : mapping from the target and each column to its fitter
    jobs : int
        Threads that share the pass over a batch.
    """

    def __init__(
        self,
        rows: Rows,
        variables: Mapping[str, Discrete],
        target: Discrete,
        fitters: Mapping[str, MultinomialFitter],
        jobs: int,
    ) -> None:
        self.rows, self.fitters = rows, fitters
        every = (*variables.values(), target)
        self.columns: ColumnGroups = ColumnGroups(variables, target, RowCounter(rows, every).incomplete, jobs)
        self.number, self.least = 0, 0.0
        self._total = rows.total_weight
        self._counts: list[Values] = []

    def learn(self, weights: SampleWeights) -> Outcome:
        """Learn from the counts of the rows, and classify and count these."""
        if not weights.steps:
            started = self.rows.learn(CountRound(self.columns, weights)).tables
            self._counts = [table.sum(axis=1) for table in started]
            self.least = 1.0 if weights.start is None else 0.0
        network, tables = self.columns.learn(self._counts, self.fitters)
        self.number += 1
        split = self.rows.learn(CountRound(self.columns, weights, self.number, tables)).tables
        error = float(split[0][:, 1].sum()) / self._total
        if error >= HALF:
            return Outcome(network, error, 0.0, None)
        if error == 0:
            return Outcome(network, error, vote_of(error), None)
        return Outcome(network, error, vote_of(error), self._advance(weights, split, tables, Factors.of(error)))

    def _advance(
        self, weights: SampleWeights, split: Sequence[Values], tables: Sequence[Values], change: Factors
    ) -> SampleWeights:
        """Return the next weights; the counts are those with them then."""
        counts = [table[:, 1] * change.up + table[:, 0] * change.down for table in split]
        self.least *= change.down
        step, self._counts = Step(self.number, CountedMargins(self.columns, tables), change, floored=False), counts
        if self.least >= FLOOR:
            return weights.add(step)
        self.number += 1
        added = self.rows.learn(CountAdded(self.columns, weights.add(step), self.number))
        counts = [table + more for table, more in zip(counts, added.tables, strict=True)]
        share = self._total / float(counts[0].sum())
        self._counts = [table * share for table in counts]
        self.least = max(added.least, FLOOR) * share
        return weights.add(replace(step, number=self.number, share=share, floored=True, noted=True))


class ColumnGroups:
    """Groups of columns, which are counted by their joint configurations.

    Parameters
    ----------
    variables : mapping from column to its variable
    target : Discrete
    incomplete : frozenset of str
        The columns that have missing cells in some row.
    jobs : int

    Attributes
    ----------
    groups : list of tuple of str
    """

    def __init__(
        self, variables: Mapping[str, Discrete], target: Discrete, incomplete: frozenset[str], jobs: int
    ) -> None:
        self.variables: Mapping[str, Discrete] = variables
        self.target: Discrete = target
        self._incomplete, self._jobs = incomplete, jobs
        self.groups: list[tuple[str, ...]] = []
        most = max(_MOST_CELLS // (2 * len(target)), 1)
        group: list[str] = []
        cells = 1
        for name, variable in variables.items():
            if group and cells * (len(variable) + 1) > most:
                self.groups.append(tuple(group))
                group, cells = [], 1
            group.append(name)
            cells *= self._size(name)
        self.groups.append(tuple(group))
        self._shapes = [tuple(map(self._size, names)) for names in self.groups]

    def _size(self, name: str) -> int:
        return len(self.variables[name]) + (name in self._incomplete)

    def count(self, batch: Table, groups: Groups) -> list[Values]:
        """Return for each group of columns the weight by group of rows and joint code."""
        counter = batch.remembered.get(_COUNTER)
        if counter is None:
            # joint codes are made once for all requests
            every = (*self.variables.values(), self.target)
            counter = NumpyCounter.of(batch.with_weights(None), every, self._jobs, self._incomplete).persist()
            batch.remembered[_COUNTER] = counter
        counted: list[Values] = counter.by_group(groups, self.groups)
        return counted

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


@dataclass(frozen=True)
class RoundCounts:
    """Counts of each group of columns, and the least weight of a row, relative to its initial one."""

    tables: Sequence[Values]
    least: float = np.inf

    def __add__(self, other: RoundCounts) -> RoundCounts:
        tables = [mine + yours for mine, yours in zip(self.tables, other.tables, strict=True)]
        return RoundCounts(tables, min(self.least, other.least))


@dataclass(frozen=True)
class CountRound:
    """Counts rows by (class, whether a network is wrong, joint code), and notes their weights and where it is wrong;
    at a start, where there is no network, weights are counted alone.
    """

    columns: ColumnGroups
    weights: SampleWeights
    number: int = 0
    tables: Sequence[Values] | None = None

    def __call__(self, batch: Table, first: int) -> RoundCounts:
        noted, step = self.weights.resume(batch, first)
        numbers, tables = noted[0], self.tables

        def assign(block: Any, codes: Sequence[Codes], observed: Sequence[Codes]) -> tuple[Codes, Values]:
            own, truth = numbers[block], observed[0]
            if step is not None:
                own = step.resume(np.abs(own), own, self.weights.take_initial(block))
            if tables is None:
                return 2 * truth, own
            wrong = _classify(tables, codes) != truth
            np.copysign(own, 0.5 - wrong, out=numbers[block])
            return 2 * truth + wrong, own if step is not None else np.abs(own)

        classes, target = len(self.columns.target), self.columns.target.name
        counts = self.columns.count(batch, Groups(2 * classes, assign, (target,)))
        if tables is not None:
            self.weights.note(batch, first, self.number, noted)
        return RoundCounts([table.reshape(classes, 2, -1) for table in counts])


@dataclass(frozen=True)
class CountAdded:
    """Counts rows by (class, joint code) with what the floor adds to their weights in the last step, and notes the
    weights after it.
    """

    columns: ColumnGroups
    weights: SampleWeights
    number: int

    def __call__(self, batch: Table, first: int) -> RoundCounts:
        *earlier, last = self.weights.steps
        noted = self.weights.recall(batch, first, last.number)
        if noted is None:
            before = replace(self.weights, steps=tuple(earlier))
            noted = np.copysign(before(batch, first), last.margins(batch))[None]
        numbers = noted[0]
        least, low, added = np.inf, [np.empty(0, np.intp)], [np.empty(0)]
        for start in range(0, len(numbers), _BLOCK_ROWS):
            block = slice(start, start + _BLOCK_ROWS)
            following = last.change(np.abs(numbers[block]), numbers[block])
            initial = self.weights.take_initial(block)
            lowest = np.broadcast_to(FLOOR * initial, following.shape)
            rows = np.flatnonzero(following < lowest)
            low.append(rows + start)
            added.append(lowest[rows] - following[rows])
            least = min(least, float((following if self.weights.initial is None else following / initial).min()))
            following[rows] = lowest[rows]
            numbers[block] = following
        # what was noted are the weights after the step now, but for the share
        self.weights.note(batch, first, self.number, noted)
        more = np.concatenate(added)

        def assign(block: Any, codes: Sequence[Codes], observed: Sequence[Codes]) -> tuple[Codes, Values]:
            return observed[0], more[block]

        target = self.columns.target
        groups = Groups(len(target), assign, (target.name,), np.concatenate(low))
        return RoundCounts(self.columns.count(batch, groups), least)


@dataclass(frozen=True)
class CountedMargins:
    """Computes the signs of the margins of a network, given its tables of log-odds."""

    columns: ColumnGroups
    tables: Sequence[Values]

    def __call__(self, batch: Table) -> Values:
        """Return numbers with a sign bit where the network is wrong."""
        signs = np.empty(len(batch))

        def assign(block: Any, codes: Sequence[Codes], observed: Sequence[Codes]) -> tuple[Codes, None]:
            signs[block] = 0.5 - (_classify(self.tables, codes) != observed[0])
            return observed[0], None

        target = self.columns.target
        self.columns.count(batch, Groups(len(target), assign, (target.name,)))
        return signs


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
