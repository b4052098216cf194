"""AdaBoost.M1 over naive Bayes of discrete columns of a scan: a round is a pass that the backend makes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from hybridbn.fitting.counters import NumpyCounter, RowCounter
from hybridbn.learning.boosting import passes
from hybridbn.learning.boosting.counts import CountedColumns, FloorReport, NumericWeights
from hybridbn.learning.boosting.counts import RowWeights as WeightsOfRound
from hybridbn.learning.boosting.passes import Split, Step, split_weights
from hybridbn.learning.boosting.rounds import FLOOR, Factors
from hybridbn.tables import Table
from hybridbn.variables import Discrete, Values

__all__ = ["RoundCounts", "ScannedColumns"]


@dataclass(frozen=True)
class RoundCounts:
    """The tables of `CountedColumns.count`, and the weights of the rows that the network gets right and wrong."""

    tables: tuple[Values, ...]
    split: Split

    def __add__(self, other: RoundCounts) -> RoundCounts:
        tables = tuple(mine + yours for mine, yours in zip(self.tables, other.tables, strict=True))
        return RoundCounts(tables, self.split + other.split)


@dataclass(frozen=True)
class _Layout:
    """What the rows of a batch are counted by.

    Attributes
    ----------
    variables : mapping from column to its variable
    target : Discrete
    incomplete : frozenset of str
        The columns of the whole table that have missing cells.
    """

    variables: Mapping[str, Discrete]
    target: Discrete
    incomplete: frozenset[str]

    def open(self, table: Table) -> CountedColumns:
        """Return the columns of a batch."""
        every = (*self.variables.values(), self.target)
        columns = {one.name: table.coded(one, compact=True) for one in every}
        counter = NumpyCounter(columns, {one.name: len(one) for one in every}, incomplete=self.incomplete)
        return CountedColumns(counter, self.variables, self.target)


@dataclass(frozen=True)
class _CountJudge:
    """Tells by tables of log-odds which rows a network gets wrong."""

    layout: _Layout
    tables: Sequence[Values]

    def __call__(self, table: Table) -> Values:
        """Return numbers with a sign bit where the network is wrong."""
        rows = NumericWeights(np.ones(len(table)), None)
        self.layout.open(table).count(rows, self.tables)
        return rows.outcomes


@dataclass(frozen=True)
class _CountRound:
    """Counts the rows of a batch in a round."""

    layout: _Layout
    weights: passes.RowWeights
    number: int
    tables: Sequence[Values] | None

    def __call__(self, table: Table, first: int) -> RoundCounts:
        """Return the counts, and note the weights and which rows are wrong."""
        own = self.weights(table, first)
        rows = NumericWeights(own.copy(), None)
        counts = self.layout.open(table).count(rows, self.tables)
        if self.tables is not None:
            self.weights.notes.save(first, self.number, np.stack([own, rows.outcomes]))
        return RoundCounts(tuple(counts), split_weights(own, np.ones(len(own)), rows.outcomes))


class ScannedWeights:
    """The weights of a scan's rows, which follow from the steps of the rounds."""

    floor = FLOOR
    table: Table
    current: passes.RowWeights
    number: int
    judge: _CountJudge | None
    split: Split | None

    def __init__(self, table: Table, weights: passes.RowWeights) -> None:
        self.table, self.current = table, weights
        self.number, self.judge, self.split = 0, None, None
        self.least: float = 1.0 if weights.start is None else 0.0

    def weights(self, block: slice) -> Values:
        """Refused: they are where the rows are read."""
        raise NotImplementedError

    def record_errors(self, block: slice, wrong: Any) -> None:
        """Refused: they are noted where the rows are read."""
        raise NotImplementedError

    def advance(self, up: float, down: float, report: FloorReport | None = None) -> None:
        """Add a step."""
        assert self.judge is not None
        assert self.split is not None
        change = Factors(up, down)
        self.current = self.current.add(Step(self.number, self.judge, change))
        self.least = max(self.split.bound_next(change), self.floor)

    def scale(self, share: float) -> None:
        """Multiply all weights."""
        self.current = self.current.scale(share)
        self.least *= share

    def all(self) -> Values:
        """Return all weights, in a pass."""
        return self.current.all(self.table)


class ScannedColumns(CountedColumns):
    """Discrete columns of a scan and a target without holes, counted by a pass in every round."""

    picks_rows: ClassVar[bool] = False
    table: Table

    def __init__(
        self, table: Table, variables: Mapping[str, Discrete], target: Discrete, row_weights: passes.RowWeights
    ) -> None:
        every = (*variables.values(), target)
        sizes = {one.name: len(one) for one in every}
        counter = NumpyCounter({}, sizes, incomplete=RowCounter(table, every).incomplete)
        super().__init__(counter, variables, target)
        self.table, self._initial, self._read = table, row_weights, every
        self._layout = _Layout(variables, target, counter.incomplete)
        self._number = 0

    def make_weights(self, rows: int, base: Values | None) -> ScannedWeights:
        """Return the initial weights of the rows."""
        return ScannedWeights(self.table, self._initial)

    def draw_weights(self, rows: int, base: Values | None, rng: np.random.Generator) -> ScannedWeights:
        """Return the weights of a bootstrap sample of the rows."""
        return ScannedWeights(self.table, self._initial.restart(self.table, rng))

    def count(self, row_weights: WeightsOfRound, tables: Sequence[Values] | None) -> list[Values]:
        """Classify the rows, note the errors and count, in a pass that the backend makes."""
        assert isinstance(row_weights, ScannedWeights)
        self._number += tables is not None
        task = _CountRound(self._layout, row_weights.current, self._number, tables)
        counts = self.table.learn(task, self._read)
        if tables is not None:
            row_weights.number, row_weights.judge = self._number, _CountJudge(self._layout, tables)
            row_weights.split = counts.split
        row_weights.least = float(counts.split.least.min())
        return list(counts.tables)
