"""Contingency tables of columns of codes: a pass over the rows gives the tables of many columns.

Columns are counted in groups, whose joint configurations cost no more to count than a single column, and the tables of
the columns are margins of theirs.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import scipy
from numpy.typing import NDArray

from hybridbn.errors import TableError, TooWide
from hybridbn.jobs import run_in_threads
from hybridbn.variables import Codes, Values, combine_codes, find_observed, slice_blocks

ROWS = 2**17
"""Rows of a block: counting them takes several times as long as all else that is done for a block."""
MOST_CELLS = 2**28
"""The most cells of all tables together (2 GiB)."""
_FEW_ROWS = 2**15
"""Fewer rows are counted in less time than it takes to make a matrix."""
_PAIR_CELLS = 2**18
"""Most cells of a grouped table of pairs: a bincount of more cells than the cache holds costs more than it saves."""
_SINGLE_CELLS = 2**15
"""Most cells of a grouped table of single columns."""
_FEW_CELLS = 2**12
"""A grouped table of pairs may have so many cells, however few rows there are."""
_CROSSED_CELLS = 4096
"""Most cells of a table of a group of columns that is kept for many requests: it stays in the fastest cache."""
_SPARSE = 4
"""A table with so many times more cells than rows is counted by sorting the rows."""

Column: TypeAlias = NDArray[Any]
Group: TypeAlias = tuple[int, ...]
"""Columns that are counted as one."""


# -- codes ------------------------------------------------------------------------------------------------------------


@cache
def _constants(rows: int) -> tuple[Values, NDArray[np.int32]]:
    return np.ones(rows), np.arange(rows + 1, dtype=np.int32)


def count_codes(
    codes: Codes, weights: Values | None, size: int, matrices: dict[tuple[int, int], Any] | None = None
) -> Values:
    """Return the weight of each code; without weights, how often it occurs.

    Many codes are counted as np.bincount does, and in the same time, but without the interpreter's lock: a product with
    a sparse matrix, in which each row has a one in the column of its code, lets go of the lock.

    Parameters
    ----------
    codes : integer array (rows,)
        From 0 to `size` - 1: that is not checked.
    weights : ndarray (rows,), optional
    size : int
    matrices : dict, optional
        Matrices that are made for these codes, for others of a thread.

    Examples
    --------
    >>> count_codes(np.array([0, 2, 2]), np.array([0.5, 1.0, 1.0]), 4)
    array([0.5, 0. , 2. , 0. ])
    """
    rows = len(codes)
    if size == 1:
        return np.array([float(rows) if weights is None else weights.sum()])
    if rows < _FEW_ROWS or size > ROWS:
        # a table of floats is not converted to one
        factors = np.ones(rows) if weights is None and size > rows else weights
        return np.asarray(np.bincount(codes, factors, size), np.float64)
    totals, made = np.zeros(size), {} if matrices is None else matrices
    for part in slice_blocks(rows, ROWS):
        totals += _multiply(
            codes[part].astype(np.int32, copy=False), None if weights is None else weights[part], size, made
        )
    return totals


def _multiply(
    codes: NDArray[np.int32], weights: Values | None, size: int, matrices: dict[tuple[int, int], Any]
) -> Values:
    rows = len(codes)
    ones, starts = _constants(ROWS)
    if (size, rows) not in matrices:
        matrices[size, rows] = scipy.sparse.csc_array((ones[:rows], codes, starts[: rows + 1]), shape=(size, rows))
    matrix = matrices[size, rows]
    matrix.indices = codes
    counts: Values = matrix @ (ones[:rows] if weights is None else weights)
    matrix.indices = None  # so that the codes can be released
    return counts


def add_blocks(totals: Sequence[Values], count: Callable[[int], Iterator[Values]], starts: range, jobs: int) -> None:
    """Add the tables of blocks of rows to totals, in their order; threads share the blocks."""
    # one thread holds one table of a block at a time
    work = count if jobs == 1 else lambda start: list(count(start))
    for tables in run_in_threads(work, starts, jobs):
        for total, table in zip(totals, tables, strict=True):
            total += table


def list_occurring(table: Values) -> tuple[Codes, Values]:
    """Return which configurations of a table occur, as ascending numbers in mixed radix, and the weight of each.

    Examples
    --------
    >>> list_occurring(np.array([[0.0, 2.0], [1.0, 0.0]]))
    (array([1, 2]), array([2., 1.]))
    """
    counts = table.ravel()
    keys = np.flatnonzero(counts)
    return keys, counts[keys]


def count_occurring(configuration: Codes, weights: Values | None, size: int) -> tuple[Codes, Values]:
    """Return which of `size` configurations occur, in ascending order, and the weight of each.

    Examples
    --------
    >>> count_occurring(np.array([7, 2, 7]), None, 10)
    (array([2, 7]), array([1., 2.]))
    """
    if size > _SPARSE * max(len(configuration), 256):
        keys, inverse = np.unique(configuration, return_inverse=True)
        return keys, count_codes(inverse.reshape(-1), weights, len(keys))
    return list_occurring(count_codes(configuration, weights, size))


def select_complete_rows(columns: Sequence[Column], weights: Values | None) -> tuple[list[Column], Values | None]:
    """Return columns of codes or numbers, and weights, without the rows where a cell is missing or the weight zero.

    The arrays are those given, not copies, where all rows stay.

    Examples
    --------
    >>> select_complete_rows([np.array([0, -1, 1]), np.array([1.0, 2.0, np.nan])], None)
    ([array([0]), array([1.])], None)
    """
    kept = np.ones(len(columns[0]), dtype=bool) if weights is None else weights > 0
    for column in columns:
        np.logical_and(kept, find_observed(column), out=kept)
    if kept.all():
        return list(columns), weights
    return [column[kept] for column in columns], None if weights is None else weights[kept]


# -- columns ----------------------------------------------------------------------------------------------------------


class PaddedColumn(NamedTuple):
    """A column of codes, which has one more state for missing cells where there are any.

    Attributes
    ----------
    codes : integer array (rows,), -1 where missing
    states : int
    size : int
        The number of states, that of missing cells included.
    """

    codes: Column
    states: int
    size: int

    @classmethod
    def check(cls, codes: Column, states: int) -> PaddedColumn:
        """Return codes as a column, and refuse those that are none."""
        low, high = (int(codes.min()), int(codes.max())) if len(codes) else (0, -1)
        if low < -1 or high >= states:
            raise TableError(f"codes must lie between -1 and {states - 1}; found {low if low < -1 else high}")
        return cls(codes, states, states + (low < 0))

    def block(self, part: slice, kind: type[np.signedinteger[Any]] = np.intp) -> Codes:
        """Return a block of rows as integers of a type; not to be written to."""
        codes = self.codes[part].astype(kind, copy=False)
        return np.where(codes < 0, kind(self.states), codes) if self.size > self.states else codes


class PairBlock(NamedTuple):
    """Groups of columns that are counted together, and the places of those whose own pairs this block tells, too."""

    groups: tuple[Group, ...]
    within: tuple[int, ...]


def plan_pairs(sizes: Sequence[int], target_size: int, rows: int, most_cells: int) -> Iterator[list[PairBlock]]:
    """Yield the blocks that tell the tables of all pairs of columns with a target, so many that these have few cells.

    Columns are put into small groups, and each two groups are counted jointly with the target: with pairs as groups,
    one bincount gives four tables and those of the groups themselves come for nothing, so that twenty columns take 45
    bincounts, not 190.

    Parameters
    ----------
    sizes : sequence of int
        Of the columns, missing cells being a state.
    target_size, rows : int
    most_cells : int
        Of the grouped tables that are held at a time.

    Examples
    --------
    >>> [batch] = plan_pairs((2, 2, 2, 2), 1, 1000, 2**20)
    >>> batch
    [PairBlock(groups=((0, 1, 2), (3,)), within=(0, 1))]
    """
    # tables of more cells than rows are mostly empty
    most = math.isqrt(min(_PAIR_CELLS, max(rows, _FEW_CELLS)) // target_size)
    groups = list(group_columns(sizes, most, most_columns=3))
    batch: list[PairBlock] = []
    cells = 0
    for places in itertools.combinations(range(len(groups)), 2) if len(groups) > 1 else [(0,)] * len(groups):
        # the first block of a group tells its own pairs
        within = tuple(place for place, number in enumerate(places) if not places[0] and (place or places[-1] <= 1))
        block = PairBlock(tuple(groups[number] for number in places), within)
        size = target_size * math.prod(sizes[i] for group in block.groups for i in group)
        if batch and cells + size > most_cells:
            yield batch
            batch, cells = [], 0
        batch.append(block)
        cells += size
    if batch:
        yield batch


def group_columns(sizes: Sequence[int], most_cells: int, most_columns: int = 8) -> Iterator[Group]:
    """Put columns into groups of consecutive ones whose joint table has few cells; a wide column stays alone."""
    group: Group = ()
    cells = 1
    for column, size in enumerate(sizes):
        if group and (cells * size > most_cells or len(group) == most_columns):
            yield group
            group, cells = (), 1
        group, cells = (*group, column), cells * size
    if group:
        yield group


class ColumnGroups:
    """Columns, maybe with a target, that are counted in groups.

    Parameters
    ----------
    columns : sequence of PaddedColumn
    target : PaddedColumn, optional
    weights : ndarray (rows,), optional
    jobs : int
        Threads that share a pass, with the same sums.

    Attributes
    ----------
    sizes : list of int
        The number of states of each column, missing cells being one.
    target_size : int
        That of the target; one without a target.
    rows : int
    """

    def __init__(
        self,
        columns: Sequence[PaddedColumn],
        target: PaddedColumn | None = None,
        weights: Values | None = None,
        jobs: int = 1,
    ) -> None:
        self._columns, self._target, self._weights, self._jobs = columns, target, weights, jobs
        self.sizes: list[int] = [column.size for column in columns]
        self.target_size: int = 1 if target is None else target.size
        self.rows: int = len(columns[0].codes) if columns else 0

    def count_together(self) -> Values:
        """Return the joint table of all columns."""
        sizes = tuple(self.sizes)
        # a bincount starts from zeros, so a large table wants large blocks
        (table,) = self.tables([(tuple(range(len(sizes))),)], max(ROWS, 4 * math.prod(sizes)))
        return table.reshape(sizes)

    def count_each(self) -> list[Values]:
        """Return the table of the target and each column."""
        tables: list[Values] = [np.zeros(0)] * len(self._columns)
        groups = list(group_columns(self.sizes, _SINGLE_CELLS // self.target_size))
        for group, table in zip(groups, self.tables([(group,) for group in groups], ROWS), strict=True):
            for place, column in enumerate(group):
                others = tuple(1 + other for other in range(len(group)) if other != place)
                margin = table.sum(axis=others) if others else table
                tables[column] = self._drop_padding(margin, column)
        return tables

    def count_pairs(self, blocks: Sequence[PairBlock]) -> Iterator[tuple[tuple[int, int], Values]]:
        """Yield two columns and the table of the target and these, for all pairs that blocks tell of."""
        indicators = {
            group: _indicate_states([self._columns[i].size for i in group])
            for group in {group for block in blocks for group in block.groups}
            if len(group) > 1
        }
        for block, table in zip(blocks, self.tables([block.groups for block in blocks], ROWS), strict=True):
            for place in block.within:
                yield from self._sum_within(table, block.groups, place)
            if len(block.groups) == 2:
                yield from self._sum_across(table, block.groups, indicators)

    def tables(self, blocks: Sequence[tuple[Group, ...]], rows: int) -> list[Values]:
        """Return the joint table of the target and the columns of each block, a block being several groups.

        Parameters
        ----------
        blocks : sequence of tuple of group
        rows : int
            So many are counted at a time.
        """
        radix = {group: [self._columns[i].size for i in group] for block in blocks for group in block}
        shapes = [(self.target_size, *(size for group in block for size in radix[group])) for block in blocks]
        widest = max(*self.sizes, self.target_size) if self._columns else 1
        refuse_too_many_cells(sum(map(math.prod, shapes)), f"a column with {widest} states")
        counts = [np.zeros(math.prod(shape)) for shape in shapes]
        largest = max((total.size for total in counts), default=0)
        kind = np.int32 if largest <= np.iinfo(np.int32).max else np.int64

        def count(start: int) -> Iterator[Values]:
            part = slice(start, start + rows)
            weights = None if self._weights is None else self._weights[part]
            mixed = {
                group: combine_codes([self._columns[i].block(part, kind) for i in group], radix[group])
                for group in radix
            }
            target = None if self._target is None else self._target.block(part, kind)
            matrices: dict[tuple[int, int], Any] = {}
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
                    yield count_codes(combined, weights, total.size, matrices)

        add_blocks(counts, count, range(0, self.rows, rows), self._jobs)
        return [total.reshape(shape) for total, shape in zip(counts, shapes, strict=True)]

    def _sum_within(
        self, table: Values, groups: tuple[Group, ...], place: int
    ) -> Iterator[tuple[tuple[int, int], Values]]:
        """Yield the margins of a joint table that belong to two columns of the same group."""
        group, sizes = groups[place], table.shape[1:]
        first = sum(map(len, groups[:place]))
        inside = range(first, first + len(group))
        if len(group) < 2:
            return
        others = tuple(1 + axis for axis in range(len(sizes)) if axis not in inside)
        joint = table.sum(axis=others).reshape(-1, *(sizes[axis] for axis in inside))
        for i, j in itertools.combinations(range(len(group)), 2):
            margin = joint.sum(axis=tuple(1 + other for other in range(len(group)) if other not in (i, j)))
            yield (group[i], group[j]), self._drop_padding(margin, group[i], group[j])

    def _sum_across(
        self, table: Values, groups: tuple[Group, ...], indicators: Mapping[Group, Values]
    ) -> Iterator[tuple[tuple[int, int], Values]]:
        """Yield the margins of a joint table that belong to columns of two groups.

        They come from two products of matrices, which sum over all others; a group of one column has nothing to be
        summed over.
        """
        first, second = groups
        sizes = [[self._columns[i].size for i in group] for group in groups]
        crossed = table.reshape(table.shape[0], math.prod(sizes[0]), math.prod(sizes[1]))
        if len(second) > 1:
            crossed = crossed @ indicators[second]
        if len(first) > 1:
            crossed = indicators[first].T @ crossed
        starts = [np.cumsum([0, *own]).tolist() for own in sizes]
        for (i, column), (j, other) in itertools.product(enumerate(first), enumerate(second)):
            margin = crossed[:, slice(*starts[0][i : i + 2]), slice(*starts[1][j : j + 2])]
            yield (column, other), self._drop_padding(margin, column, other)

    def _drop_padding(self, table: Values, *columns: int) -> Values:
        """Leave out the states of a table of the target and some columns that stand for missing cells."""
        target = 1 if self._target is None else self._target.states
        return drop_padding(table, (target, *(self._columns[i].states for i in columns)))


def drop_padding(counts: Values, sizes: Sequence[int]) -> Values:
    """Leave out the states that stand for missing cells."""
    return np.ascontiguousarray(counts[tuple(slice(size) for size in sizes)])


def _indicate_states(sizes: Sequence[int]) -> Values:
    """Return which states of some columns each of their joint states has (joint states, states of all columns)."""
    places = np.indices(sizes).reshape(len(sizes), -1)
    return np.concatenate([own[:, None] == np.arange(n) for own, n in zip(places, sizes, strict=True)], 1).astype(float)


def refuse_too_many_cells(cells: int, column: str) -> None:
    """Raise `TooWide` where tables that are counted together would not fit into memory.

    Examples
    --------
    >>> refuse_too_many_cells(2**40, "the column 'id' with 1000000 states")
    Traceback (most recent call last):
        ...
    hybridbn.errors.TooWide: the tables of counts would have 1.1e+12 cells (8.19e+03 GiB); the column 'id' with 1000000
    states is among them: leave it out, or merge states
    """
    if cells > MOST_CELLS:
        raise TooWide(
            f"the tables of counts would have {float(cells):.3g} cells ({8 * cells / 2**30:.3g} GiB); {column} is among"
            " them: leave it out, or merge states"
        )


_JointCodes: TypeAlias = tuple[Codes, Values | None, slice]
"""Of columns counted together: their joint codes, which states each of these has, and their part of the result."""


class CrossedColumns:
    """Columns that are to be counted with one configuration after another, which keeps their joint codes.

    Parameters
    ----------
    columns : sequence of PaddedColumn
    weights : ndarray (rows,), optional
    jobs : int
        Threads that share the groups of columns.

    Examples
    --------
    >>> columns = [PaddedColumn.check(np.array(codes), size) for codes, size in (([0, 1, -1], 2), ([2, 0, 0], 3))]
    >>> CrossedColumns(columns, None).tables(np.array([0, 0, 1]), 2)
    [array([[1., 1.],
           [0., 0.]]), array([[1., 0., 1.],
           [1., 0., 0.]])]
    """

    def __init__(self, columns: Sequence[PaddedColumn], weights: Values | None, jobs: int = 1) -> None:
        self._columns, self._weights, self._jobs = columns, weights, jobs
        self._sizes = [column.size for column in columns]
        self._edges: list[int] = np.cumsum([0, *self._sizes]).tolist()
        self._levels: dict[int, list[_JointCodes]] = {}

    def tables(self, configuration: Codes, size: int, rows: NDArray[np.intp] | None = None) -> list[Values]:
        """Return the weight of each state with each configuration (size, states), for each column.

        Parameters
        ----------
        configuration : ndarray (rows,)
        size : int
            How many configurations there may be.
        rows : ndarray, optional
            Only these rows count; the configuration is given for these alone.
        """
        level = 1
        while 4 * level * size <= _CROSSED_CELLS:
            level *= 4
        weights = self._weights if rows is None or self._weights is None else self._weights[rows]
        result = np.empty((size, self._edges[-1]))

        def count(group: _JointCodes) -> None:
            joint, margins, part = group
            cells = part.stop - part.start if margins is None else len(margins)
            codes = configuration * cells
            codes += joint if rows is None else joint[rows]
            table = count_codes(codes, weights, size * cells).reshape(size, cells)
            result[:, part] = table if margins is None else table @ margins

        if level not in self._levels:
            groups = group_columns(self._sizes, level, most_columns=len(self._sizes))
            self._levels[level] = [self._join_columns(group) for group in groups]
        for _ in run_in_threads(count, self._levels[level], self._jobs):
            pass
        return [
            result[:, start : start + column.states]
            for start, column in zip(self._edges[:-1], self._columns, strict=True)
        ]

    def _join_columns(self, group: Group) -> _JointCodes:
        sizes = [self._sizes[column] for column in group]
        joint = combine_codes([self._columns[column].block(slice(None)) for column in group], sizes)
        part = slice(self._edges[group[0]], self._edges[group[-1] + 1])
        return joint, _indicate_states(sizes) if len(group) > 1 else None, part


# -- tables of arrays -------------------------------------------------------------------------------------------------


def joint_counts(codes: Sequence[Column], sizes: Sequence[int], weights: Values | None = None, jobs: int = 1) -> Values:
    """Return the weight of each joint configuration of some columns.

    Parameters
    ----------
    codes : sequence of integer arrays (rows,)
        State codes; rows in which one is ``-1`` (missing) are left out.
    sizes : sequence of int
        The number of states of each column.
    weights : ndarray (rows,), optional
        Without them every row counts once, and the counts are exact.
    jobs : int
        Threads that share the pass, with the same sums.

    Returns
    -------
    ndarray
        One dimension for each column.

    Examples
    --------
    >>> joint_counts([np.array([0, 1, 1, 1]), np.array([0, 0, 1, -1])], (2, 2))
    array([[1., 0.],
           [1., 1.]])
    """
    return drop_padding(ColumnGroups(_check_columns(codes, sizes), None, weights, jobs).count_together(), sizes)


def single_counts(
    codes: Sequence[Column],
    sizes: Sequence[int],
    target_codes: Column,
    target_size: int,
    weights: Values | None = None,
    jobs: int = 1,
) -> list[Values]:
    """Return the table of each column with a target, in one pass: what naive Bayes learns from.

    A row counts in each table whose two cells are both observed.

    Parameters
    ----------
    codes, sizes, weights, jobs : as in `joint_counts`
    target_codes : integer array (rows,)
    target_size : int

    Returns
    -------
    list of ndarray (target_size, size)

    Examples
    --------
    >>> columns, y = [np.array([0, 1, 1]), np.array([2, -1, 0])], np.array([0, 0, 1])
    >>> [table.tolist() for table in single_counts(columns, (2, 3), y, 2)]
    [[[1.0, 1.0], [0.0, 1.0]], [[0.0, 0.0, 1.0], [1.0, 0.0, 0.0]]]
    """
    target = PaddedColumn.check(target_codes, target_size)
    return ColumnGroups(_check_columns(codes, sizes), target, weights, jobs).count_each()


def pair_counts(
    codes: Sequence[Column],
    sizes: Sequence[int],
    target_codes: Column | None = None,
    target_size: int = 1,
    weights: Values | None = None,
) -> dict[tuple[int, int], Values]:
    """Return the table of every two columns with a target, in one pass: what TAN learns from.

    A row counts in each table whose three cells are all observed. Without a target the tables are those of pairs.

    Parameters
    ----------
    codes, sizes, weights : as in `joint_counts`
    target_codes : integer array (rows,), optional
    target_size : int

    Returns
    -------
    dict from (i, j), i < j, to ndarray (target_size, sizes[i], sizes[j])
        The first dimension is left out where there is no target.

    Examples
    --------
    >>> columns, y = [np.array([0, 1, 1]), np.array([0, 0, 1])], np.array([0, 0, 1])
    >>> pair_counts(columns, (2, 2), y, 2)[0, 1].tolist()
    [[[1.0, 0.0], [1.0, 0.0]], [[0.0, 0.0], [0.0, 1.0]]]
    >>> pair_counts(columns, (2, 2))[0, 1].tolist()
    [[1.0, 0.0], [1.0, 1.0]]
    """
    target = None if target_codes is None else PaddedColumn.check(target_codes, target_size)
    counted = ColumnGroups(_check_columns(codes, sizes), target, weights)
    pairs: dict[tuple[int, int], Values] = {}
    for blocks in plan_pairs(counted.sizes, counted.target_size, counted.rows, MOST_CELLS):
        pairs |= counted.count_pairs(blocks)
    return {pair: pairs[pair] if target is not None else pairs[pair][0] for pair in sorted(pairs)}


def _check_columns(codes: Sequence[Column], sizes: Sequence[int]) -> list[PaddedColumn]:
    return [PaddedColumn.check(column, size) for column, size in zip(codes, sizes, strict=True)]


# -- numbers ----------------------------------------------------------------------------------------------------------


_UNBOUNDED = np.errstate(over="ignore", invalid="ignore")
"""Sums beyond the largest float are infinite; threads don't inherit this from whoever starts them."""


@_UNBOUNDED
def central_moments(
    values: Sequence[Values], cells: Codes, size: int, weights: Values | None, jobs: int = 1
) -> tuple[Values, Values, Values]:
    """Return weight, means (cells, columns) and centered products (cells, columns, columns) of each cell.

    Sums beyond the largest float are infinite or not a number; who asks for them refuses such columns by name.
    """
    n = count_codes(cells, weights, size)
    safe = np.where(n > 0, n, 1.0)

    def sums(numbers: Values) -> Values:
        return count_codes(cells, numbers if weights is None else numbers * weights, size)

    # in place, because memory that is new for each column would take longer than the numbers
    centered = np.empty((len(values), len(cells)))

    def subtract(mean: Values, column: int) -> Values:
        rest: Values = centered[column]
        np.subtract(values[column], mean if size == 1 else np.take(mean, cells, out=rest, mode="clip"), out=rest)
        return rest

    @_UNBOUNDED
    def center(column: int) -> Values:
        # the second pass removes what rounding of the first left in the mean
        mean = sums(values[column]) / safe
        mean += sums(subtract(mean, column)) / safe
        subtract(mean, column)
        return np.where(n > 0, mean, 0.0)

    means = np.empty((size, len(values)))
    for column, mean in enumerate(run_in_threads(center, range(len(values)), jobs)):
        means[:, column] = mean
    products = np.empty((size, len(values), len(values)))
    if size <= len(values):
        # few cells of many columns: a product of matrices for each
        scaled = centered if weights is None else centered * weights
        for cell in range(size):
            rows = slice(None) if size == 1 else cells == cell
            within = scaled[:, rows] @ centered[:, rows].T
            products[cell] = (within + within.T) / 2
        return n, means, products
    pairs = list(itertools.combinations_with_replacement(range(len(values)), 2))

    @_UNBOUNDED
    def multiply(pair: tuple[int, int]) -> Values:
        return sums(centered[pair[0]] * centered[pair[1]])

    for (i, j), total in zip(pairs, run_in_threads(multiply, pairs, jobs), strict=True):
        products[:, i, j] = products[:, j, i] = total
    return n, means, products
