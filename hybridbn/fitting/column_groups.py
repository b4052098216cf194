"""Groups of columns that are counted jointly: a pass over the rows gives the tables of many groups.

The joint configurations of a few columns cost no more to count than a single column, and the tables of the columns are
margins of theirs.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from hybridbn.errors import TableError, TooWide
from hybridbn.jobs import run_in_threads
from hybridbn.variables import Codes, Values

__all__ = [
    "MOST_CELLS",
    "ROWS",
    "Block",
    "CodeCounter",
    "Column",
    "ColumnGroups",
    "PaddedColumn",
    "combine_codes",
    "count_codes",
    "drop_padding",
    "group_columns",
    "indicate_states",
    "sum_to_pairs",
]

ROWS = 2**17
"""Rows of a block: counting them takes several times as long as all else that is done for a block."""
_FEW_ROWS = 2**15
"""So many rows are counted in less time than it takes to make a matrix."""
MOST_CELLS = 2**28
"""Most cells of all tables together (2 GiB)."""

Column: TypeAlias = NDArray[Any]
Block: TypeAlias = tuple[tuple[int, ...], ...]
"""Groups of columns that are counted together."""


@cache
def _constants(rows: int) -> tuple[Values, NDArray[np.int32]]:
    return np.ones(rows), np.arange(rows + 1, dtype=np.int32)


class CodeCounter:
    """Counts codes as np.bincount does, and in the same time, but without the interpreter's lock.

    A product with a sparse matrix, in which each row has a one in the column of its code, lets go of the lock. Threads
    need counters of their own.

    Examples
    --------
    >>> CodeCounter().count(np.array([0, 2, 2]), None, 4)
    array([1., 0., 2., 0.])
    """

    def __init__(self) -> None:
        self._matrices: dict[tuple[int, int], Any] = {}

    def count(self, codes: Codes, weights: Values | None, size: int) -> Values:
        """Return the weight of each code; without weights, how often it occurs.

        Parameters
        ----------
        codes : integer array (rows,)
            From 0 to `size` - 1: that is not checked.
        weights : ndarray (rows,), optional
        size : int
        """
        rows = len(codes)
        if size == 1:
            return np.array([float(rows) if weights is None else weights.sum()])
        if rows < _FEW_ROWS or size > ROWS:
            return np.asarray(np.bincount(codes, weights, size), np.float64)
        totals: Values | None = None
        for start in range(0, rows, ROWS):
            part = codes[start : start + ROWS].astype(np.int32, copy=False)
            counts = self._multiply(part, None if weights is None else weights[start : start + ROWS], size)
            totals = counts if totals is None else totals + counts
        return np.asarray(totals)

    def _multiply(self, codes: NDArray[np.int32], weights: Values | None, size: int) -> Values:
        rows = len(codes)
        ones, starts = _constants(ROWS)
        matrix = self._matrices.get((size, rows))
        if matrix is None:
            from scipy import sparse

            matrix = sparse.csc_array((ones[:rows], codes, starts[: rows + 1]), shape=(size, rows))
            self._matrices[size, rows] = matrix
        matrix.indices = codes
        counts: Values = matrix @ (ones[:rows] if weights is None else weights)
        matrix.indices = None  # so that the codes can be released
        return counts


def count_codes(codes: Codes, weights: Values | None, size: int) -> Values:
    """Return the weight of each code, as `CodeCounter` does.

    Examples
    --------
    >>> count_codes(np.array([0, 2, 2]), np.array([0.5, 1.0, 1.0]), 4)
    array([0.5, 0. , 2. , 0. ])
    """
    return CodeCounter().count(codes, weights, size)


class PaddedColumn:
    """A column of codes, with one more state for missing cells where there are any.

    Parameters
    ----------
    codes : integer array (rows,)
    size : int
        The number of states.
    holes : bool, optional
        Whether cells are missing, where that is known and the codes are known to be right.
    """

    def __init__(self, codes: Column, size: int, holes: bool | None = None) -> None:
        if holes is None:
            low, high = (int(codes.min()), int(codes.max())) if len(codes) else (0, -1)
            if low < -1 or high >= size:
                raise TableError(f"codes must lie between -1 and {size - 1}; found {low if low < -1 else high}")
            holes = low < 0
        self.codes = codes
        self.missing: int | None = size if holes else None
        self.size: int = size + holes

    @classmethod
    def of(cls, codes: Column | PaddedColumn, size: int) -> PaddedColumn:
        """Return a column as it is, or codes as one."""
        return codes if isinstance(codes, PaddedColumn) else cls(codes, size)

    def block(self, part: slice, kind: type[np.signedinteger[Any]] = np.intp) -> Codes:
        """Return a block of rows as integers of a type; not to be written to."""
        codes = self.codes[part].astype(kind, copy=False)
        return codes if self.missing is None else np.where(codes < 0, kind(self.missing), codes)


class ColumnGroups:
    """Columns with a target, ready to be counted in groups."""

    def __init__(
        self,
        codes: Sequence[Column | PaddedColumn],
        sizes: Sequence[int],
        target_codes: Column | PaddedColumn | None,
        target_size: int,
        weights: Values | None,
        jobs: int = 1,
    ) -> None:
        self.columns: list[PaddedColumn] = [
            PaddedColumn.of(column, size) for column, size in zip(codes, sizes, strict=True)
        ]
        self.rows: int = len(self.columns[0].codes) if len(codes) else 0
        target = np.zeros(self.rows, np.int8) if target_codes is None else target_codes
        self.target: PaddedColumn = PaddedColumn.of(target, target_size)
        self.has_target: bool = target_codes is not None
        self.weights = weights
        self._jobs = jobs

    def batches(self, blocks: Sequence[Block], most_cells: int) -> Iterator[list[Block]]:
        """Yield blocks of groups, so many at a time that their tables together have few cells."""
        batch: list[Block] = []
        cells = 0
        for block in blocks:
            size = self.target.size * math.prod(self.columns[i].size for group in block for i in group)
            if batch and cells + size > most_cells:
                yield batch
                batch, cells = [], 0
            batch.append(block)
            cells += size
        if batch:
            yield batch

    def tables(self, blocks: Sequence[Block]) -> list[Values]:
        """Return the joint table of the target and the columns of each block, a block being several groups."""
        radix = {group: [self.columns[i].size for i in group] for block in blocks for group in block}
        shapes = [(self.target.size, *(size for group in block for size in radix[group])) for block in blocks]
        cells = sum(map(math.prod, shapes))
        if cells > MOST_CELLS:
            states = max(column.size for column in (*self.columns, self.target))
            raise TooWide(
                f"the tables of counts would have {float(cells):.3g} cells ({8 * cells / 2**30:.3g} GiB); a column with"
                f" {states} states is among them: leave it out, or merge states"
            )
        counts = [np.zeros(math.prod(shape)) for shape in shapes]
        largest = max((total.size for total in counts), default=0)
        kind = np.int32 if largest <= np.iinfo(np.int32).max else np.int64

        def count(start: int) -> Iterator[NDArray[Any]]:
            part = slice(start, start + ROWS)
            weights = None if self.weights is None else self.weights[part]
            mixed = {
                group: combine_codes([self.columns[i].block(part, kind) for i in group], radix[group])
                for group in radix
            }
            target = self.target.block(part, kind) if self.has_target else None
            counter = CodeCounter()
            # memory that is allocated in a thread goes back to the system too soon
            configurations = np.empty_like(next(iter(mixed.values())))
            for group, following in itertools.groupby(zip(blocks, counts, strict=True), lambda item: item[0][0]):
                # target and first group together, once for all blocks that begin with this group
                first = mixed[group] if target is None else target * math.prod(radix[group]) + mixed[group]
                for block, total in following:
                    combined = first
                    for other in block[1:]:
                        combined = np.multiply(combined, kind(math.prod(radix[other])), out=configurations)
                        combined += mixed[other]
                    yield counter.count(combined, weights, total.size)

        # one thread holds one table of a block at a time
        work = count if self._jobs == 1 else lambda start: list(count(start))
        for tables in run_in_threads(work, range(0, self.rows, ROWS), self._jobs):
            for total, table in zip(counts, tables, strict=True):
                total += table
        return [total.reshape(shape) for total, shape in zip(counts, shapes, strict=True)]


def combine_codes(codes: Sequence[Codes], sizes: Sequence[int]) -> Codes:
    """Return each row's configuration as one number, the last column running fastest."""
    mixed = codes[0]
    for column, size in zip(codes[1:], sizes[1:], strict=True):
        mixed = mixed * size
        mixed += column
    return mixed


def group_columns(sizes: Sequence[int], most_cells: int, most_columns: int = 8) -> Iterator[tuple[int, ...]]:
    """Put columns into groups of consecutive ones whose joint table has few cells; a wide column stays alone."""
    group: tuple[int, ...] = ()
    cells = 1
    for column, size in enumerate(sizes):
        if group and (cells * size > most_cells or len(group) == most_columns):
            yield group
            group, cells = (), 1
        group, cells = (*group, column), cells * size
    if group:
        yield group


def drop_padding(counts: Values, sizes: Sequence[int]) -> Values:
    """Leave out the states that stand for missing cells."""
    return np.ascontiguousarray(counts[tuple(slice(size) for size in sizes)])


def indicate_states(sizes: Sequence[int]) -> Values:
    """Return which states of some columns each of their joint states has (joint states, states of all columns)."""
    places = np.indices(sizes).reshape(len(sizes), -1)
    return np.concatenate([own[:, None] == np.arange(n) for own, n in zip(places, sizes, strict=True)], 1).astype(float)


def sum_to_pairs(
    table: Values, block: Block, indicators: Mapping[tuple[int, ...], Values], known: set[tuple[int, int]]
) -> Iterator[tuple[tuple[int, int], Values]]:
    """Yield the margins of a joint table of the target and groups of columns that are not known, by pairs of columns.

    Those of columns of different groups come from two products of matrices, which sum over all others; a group of one
    column has nothing to be summed over.
    """
    sizes = table.shape[1:]
    within = len(block[0])
    for group, own, axes in (
        (block[0], sizes[:within], tuple(range(1 + within, table.ndim))),
        *([(block[1], sizes[within:], tuple(range(1, 1 + within)))] if len(block) > 1 else []),
    ):
        pairs = [(i, j) for i, j in itertools.combinations(range(len(group)), 2) if (group[i], group[j]) not in known]
        if pairs:
            joint = table.sum(axis=axes).reshape(-1, *own)
            for i, j in pairs:
                known.add((group[i], group[j]))
                yield (
                    (group[i], group[j]),
                    joint.sum(axis=tuple(1 + other for other in range(len(group)) if other not in (i, j))),
                )
    if len(block) == 1:
        return
    first, second = block
    crossed = table.reshape(table.shape[0], math.prod(sizes[:within]), math.prod(sizes[within:]))
    if len(second) > 1:
        crossed = crossed @ indicators[second]
    if len(first) > 1:
        crossed = indicators[first].T @ crossed
    starts = [np.cumsum([0, *own]).tolist() for own in (sizes[:within], sizes[within:])]
    for i, column in enumerate(first):
        for j, other in enumerate(second):
            known.add((column, other))
            rows, columns = slice(*starts[0][i : i + 2]), slice(*starts[1][j : j + 2])
            yield (column, other), crossed[:, rows, columns]
