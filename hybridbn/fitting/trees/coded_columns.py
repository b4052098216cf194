"""What the tests of a tree look at: coded columns of rows in memory, or of rows that are read in passes.

Whatever is computed of the rows at some nodes adds up over batches of rows. Rows in memory are one batch, and each node
knows its own; of rows that are read in passes a node knows the tests on the way to it, by which every batch is divided.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from hybridbn.fitting.counters import NumpyCounter
from hybridbn.fitting.counting import Groups
from hybridbn.fitting.cross_validation import deal_numbered_rows
from hybridbn.fitting.trees.growth import Route, Sample, follow_routes
from hybridbn.variables import Codes, Values, Variable

if TYPE_CHECKING:
    from hybridbn.tables import Rows, Table

__all__ = ["FOLDS", "CodedColumns", "ColumnView", "Located", "ScannedColumns", "choose_grain"]

Result = TypeVar("Result")
FOLDS = 5
"""Of the cross-validation that judges tests."""
_BATCH_CELLS = 2**21
"""Columns with so many counts (16 MiB) are counted together."""
_GRAINS = 26
"""Weights of shares of rows are multiples of the mean weight over two to this power, so that sums of up to 2**27 of
them are exact, in whatever order they are added.
"""


def choose_grain(weight: float, rows: int) -> float:
    """Return what shares of rows are multiples of, from the weight and the number of all rows.

    Examples
    --------
    >>> choose_grain(100.0, 100) == 2.0**-26
    True
    """
    return 2.0 ** (math.floor(math.log2(weight / rows)) - _GRAINS) if weight > 0 else 0.0


class ColumnView(ABC):
    """Coded columns, some of whose rows are at each node of a tree.

    Attributes
    ----------
    sizes : sequence of int
    ordered : sequence of bool
        Whether the codes are intervals of a number, which a binary test cuts in two.
    classes : int
        Of the target, 0 of a number.
    starts : ndarray (columns + 1,)
        Where the states of each column begin among those of all, and their number.
    grain : float
        Weights of the shares of rows whose tested cell is missing are multiples of it; 0 leaves them as they are.
    """

    knows_rows: ClassVar[bool]
    """Whether the rows of each node are in memory."""
    most_cells: ClassVar[int]
    """Most cells of the tables that are counted at a time."""

    sizes: Sequence[int]
    ordered: Sequence[bool]
    classes: int
    starts: NDArray[np.intp]
    grain: float

    def __init__(self, sizes: Sequence[int], ordered: Sequence[bool], classes: int, grain: float) -> None:
        self.sizes, self.ordered, self.classes, self.grain = sizes, ordered, classes, grain
        self.starts = np.concatenate([[0], np.cumsum(np.asarray(sizes, dtype=np.intp))])

    @abstractmethod
    def root(self) -> Any:
        """Return all rows that count, as the sample of the root of a tree."""

    @abstractmethod
    def sum_over(self, function: Callable[[CodedColumns, Sequence[Sample]], Result], samples: Sequence[Any]) -> Result:
        """Return the sum over all batches of a function of the batch and of the nodes' samples of it.

        Parameters
        ----------
        function : callable
            One that can be pickled, where the rows are read by other processes.
        samples : sequence of Sample or Route
        """

    def counts(self, samples: Sequence[Any]) -> Values:
        """Return the weight by sample, class (one of a number) and state, the weight of all rows coming after the
        states (samples, classes, states + 1).
        """
        return self.sum_over(_count_samples, samples)


class CodedColumns(ColumnView):
    """Columns in memory.

    Parameters
    ----------
    codes : sequence of ndarray (rows,), -1 where missing
    sizes, ordered, grain : as in `ColumnView`
    target : ndarray (rows,)
        Codes or numbers, missing ones in rows that do not count only.
    classes : int, 0 of a number
    weights : ndarray (rows,)
    counted : ndarray (rows,) of bool, optional
        Which rows count; by default all.
    first : int
        The place of the first row among those of all batches.
    """

    knows_rows = True
    most_cells = 1 << 20

    codes: Sequence[Codes]
    target: NDArray[Any]
    weights: Values
    first: int

    def __init__(
        self,
        codes: Sequence[Codes],
        sizes: Sequence[int],
        ordered: Sequence[bool],
        target: NDArray[Any],
        classes: int,
        weights: Values,
        counted: NDArray[np.bool_] | None = None,
        *,
        grain: float = 0.0,
        first: int = 0,
    ) -> None:
        super().__init__(sizes, ordered, classes, grain)
        self.codes, self.target, self.weights, self.first = codes, target, weights, first
        self._counted = counted
        # the last column counts all rows
        columns: list[Codes] = [*codes, np.zeros(len(target), np.int8)]
        self._names = [(str(number),) for number in range(len(columns))]
        self._counter = NumpyCounter(
            {name: column for (name,), column in zip(self._names, columns, strict=True)},
            {name: size for (name,), size in zip(self._names, [*sizes, 1], strict=True)},
        ).persist()

    def root(self) -> Sample:
        """Return the rows that count."""
        if self._counted is None:
            return Sample(np.arange(len(self.target)), self.weights.astype(float))
        rows = np.flatnonzero(self._counted)
        return Sample(rows, self.weights[rows].astype(float))

    def sum_over(
        self, function: Callable[[CodedColumns, Sequence[Sample]], Result], samples: Sequence[Sample]
    ) -> Result:
        """Return the function of these rows, which are one batch."""
        return function(self, samples)

    def fold_rows(self, rows: Codes) -> Codes:
        """Return the folds of a cross-validation that rows are in, the same in batches of any size."""
        return self._folds[rows]

    @cached_property
    def _folds(self) -> Codes:
        return deal_numbered_rows(self.first, len(self.target), FOLDS)

    def locate(self, routes: Sequence[Route]) -> list[Sample]:
        """Return the rows that are sent to each of some nodes."""
        return follow_routes(routes, [self.root()], self.codes)

    def count_groups(self, groups: Groups, columns: Sequence[int]) -> list[Values]:
        """Return the weight by group and state (groups, states) of each column; the number after the last counts all
        rows.
        """
        tables = self._counter.by_group(groups, [self._names[number] for number in columns])
        # a missing cell comes after the states
        sizes = [*self.sizes, 1]
        return [table[:, : sizes[number]] for number, table in zip(columns, tables, strict=True)]

    def count_samples(self, samples: Sequence[Sample]) -> Values:
        """Return what `counts` returns, of these rows."""
        rows, weights = (np.concatenate(arrays) for arrays in zip(*samples, strict=True))
        classes = max(self.classes, 1)
        keys = np.repeat(np.arange(len(samples)), [len(sample.rows) for sample in samples])
        if self.classes:
            keys = keys * classes + self.target[rows]
        groups = Groups.of(keys, len(samples) * classes, weights, rows)
        ends = np.cumsum([*self.sizes, 1])
        result = np.empty((groups.size, ends[-1]))
        # few columns at a time, so that there are not two copies of large counts
        batch = ends * groups.size // _BATCH_CELLS
        for columns in np.split(np.arange(len(ends)), np.flatnonzero(np.diff(batch)) + 1):
            for column, own in zip(columns, self.count_groups(groups, columns.tolist()), strict=True):
                result[:, ends[column] - own.shape[1] : ends[column]] = own
        return result.reshape(len(samples), classes, -1)


def _count_samples(block: CodedColumns, samples: Sequence[Sample]) -> Values:
    return block.count_samples(samples)


ReadColumns: TypeAlias = "Callable[[Table, int], CodedColumns]"
"""From a batch of rows, and the place of its first row among all, to its columns."""


class ScannedColumns(ColumnView):
    """Columns of a table that is read in passes.

    Parameters
    ----------
    table : Table
    variables : sequence of Variable
        What the columns are read as.
    read : callable
        From a batch of rows, and the place of its first row among all, to its columns.
    sizes, ordered, classes, grain : as in `ColumnView`
    """

    knows_rows = False
    most_cells = 1 << 24

    def __init__(
        self,
        table: Rows,
        variables: Sequence[Variable],
        read: ReadColumns,
        sizes: Sequence[int],
        ordered: Sequence[bool],
        classes: int,
        grain: float,
    ) -> None:
        super().__init__(sizes, ordered, classes, grain)
        self._table, self._variables, self._read = table, variables, read

    def root(self) -> Route:
        """Return the way to the root, on which there is no test."""
        return Route()

    def sum_over(
        self, function: Callable[[CodedColumns, Sequence[Sample]], Result], samples: Sequence[Route]
    ) -> Result:
        """Make a pass over the rows."""
        summed: Result = self._table.learn(Located(self._read, function, tuple(samples)), self._variables)
        return summed


class LocatesRows(Protocol):
    """A batch of rows that are sent down the branches of trees."""

    def locate(self, routes: Sequence[Route]) -> list[Sample]:
        """Return the rows that are sent to each of some nodes."""


@dataclass(frozen=True)
class Located:
    """Applies a function to a batch and to its rows at some nodes.

    Attributes
    ----------
    read : callable
        From a batch of rows, and the place of its first row among all, to what locates its rows.
    function : callable
        From that and the rows at each node to what adds up over batches.
    routes : tuple of Route
    """

    read: Callable[[Table, int], LocatesRows]
    function: Callable[[Any, Sequence[Sample]], Any]
    routes: tuple[Route, ...]

    def __call__(self, table: Table, first: int) -> Any:
        """Return the function of the rows of a batch, the first of which has this place among all."""
        block = self.read(table, first)
        return self.function(block, block.locate(self.routes))
