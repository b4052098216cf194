"""Counting: weighted contingency tables of coded columns, many of them in one pass.

A row's configuration is one number in mixed radix, so that a table of counts is one `numpy.bincount`. Rows go through in
blocks that stay in the cache. For many tables at once, columns are grouped: one bincount over a group's joint configurations
costs as much as one over a single column, and the small tables are its margins.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from hybridbn.errors import TableError, TooWide
from hybridbn.variables import Codes, Values, Variable

__all__ = [
    "central_moments",
    "complete_rows",
    "configurations",
    "joint_counts",
    "occurring_counts",
    "pair_counts",
    "refuse_too_wide",
    "single_counts",
    "sum_by_group",
]

_ROWS = 32768
"""Rows of a block: 256 KiB a column of codes, so that a handful of them fit the second-level cache."""
_PAIR_CELLS = 2**18
"""Most cells of a grouped table of pairs: a bincount of more cells than the cache holds costs more than it saves."""
_SINGLE_CELLS = 2**15
"""Most cells of a grouped table of single columns."""

_SPARSE = 4
"""A table with so many times more cells than rows is counted by sorting the rows."""
_MOST_CELLS = 2**28
"""Most cells of all tables together (2 GiB)."""

_Column = NDArray[Any]


def joint_counts(codes: Sequence[_Column], sizes: Sequence[int], weights: Values | None = None) -> Values:
    """Return the weight of each joint configuration of some columns.

    Parameters
    ----------
    codes : sequence of integer arrays (rows,)
        State codes; rows in which one is ``-1`` (missing) are left out.
    sizes : sequence of int
        The number of states of each column.
    weights : ndarray (rows,), optional
        Without them every row counts once, and the counts are exact.

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
    columns = [_Padded(column, size) for column, size in zip(codes, sizes, strict=True)]
    padded = tuple(column.size for column in columns)
    counts = np.zeros(math.prod(padded))
    rows = len(columns[0].codes) if columns else 0
    # A bincount starts from zeros, so a large table wants large blocks.
    block = max(_ROWS, 4 * counts.size)
    for start in range(0, rows, block):
        part = slice(start, start + block)
        counts += np.bincount(
            _mixed([column.block(part) for column in columns], padded),
            None if weights is None else weights[part],
            counts.size,
        )
    return _without_padding(counts.reshape(padded), sizes)


def configurations(codes: Sequence[Codes], sizes: Sequence[int], rows: int) -> Codes:
    """Return each row's joint configuration as one number, the last column running fastest; zeros without columns.

    Examples
    --------
    >>> configurations([np.array([0, 1, 1]), np.array([2, 0, 1])], (2, 3), 3)
    array([2, 3, 4])
    """
    return _mixed(codes, sizes) if len(codes) else np.zeros(rows, np.intp)


def single_counts(
    codes: Sequence[_Column],
    sizes: Sequence[int],
    target_codes: _Column,
    target_size: int,
    weights: Values | None = None,
) -> list[Values]:
    """Return the table of each column with a target, in one pass: what naive Bayes learns from.

    A row counts in each table whose two cells are both observed.

    Parameters
    ----------
    codes, sizes, weights : as in `joint_counts`
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
    tables: list[Values] = [np.zeros(0)] * len(codes)
    counted = _Grouped(codes, sizes, target_codes, target_size, weights)
    groups = list(_groups([column.size for column in counted.columns], _SINGLE_CELLS // counted.target.size))
    for group, table in zip(groups, counted.tables([(group,) for group in groups]), strict=True):
        for place, column in enumerate(group):
            margin = table.sum(axis=tuple(1 + other for other in range(len(group)) if other != place))
            tables[column] = _without_padding(margin, (target_size, sizes[column]))
    return tables


def pair_counts(
    codes: Sequence[_Column],
    sizes: Sequence[int],
    target_codes: _Column | None = None,
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

    Notes
    -----
    Columns are put into small groups, and each two groups are counted jointly with the target: with pairs as groups,
    one bincount gives four tables and those of the groups themselves come for nothing, so that twenty columns take 45
    bincounts, not 190.

    Examples
    --------
    >>> columns, y = [np.array([0, 1, 1]), np.array([0, 0, 1])], np.array([0, 0, 1])
    >>> pair_counts(columns, (2, 2), y, 2)[0, 1].tolist()
    [[[1.0, 0.0], [1.0, 0.0]], [[0.0, 0.0], [0.0, 1.0]]]
    >>> pair_counts(columns, (2, 2))[0, 1].tolist()
    [[1.0, 0.0], [1.0, 1.0]]
    """
    counted = _Grouped(codes, sizes, target_codes, target_size, weights)
    most = math.isqrt(_PAIR_CELLS // counted.target.size)
    groups = list(_groups([column.size for column in counted.columns], most, most_columns=3))
    blocks: list[tuple[tuple[int, ...], ...]] = list(itertools.combinations(groups, 2)) or [(g,) for g in groups]
    pairs: dict[tuple[int, int], Values] = {}
    for block, table in zip(blocks, counted.tables(blocks), strict=True):
        members = [column for group in block for column in group]
        for first, second in itertools.combinations(range(len(members)), 2):
            key = members[first], members[second]
            if key not in pairs:
                margin = table.sum(axis=tuple(1 + o for o in range(len(members)) if o not in (first, second)))
                trimmed = _without_padding(margin, (target_size, sizes[key[0]], sizes[key[1]]))
                pairs[key] = trimmed if target_codes is not None else trimmed[0]
    return dict(sorted(pairs.items()))


def occurring_counts(configuration: Codes, weights: Values | None, size: int) -> tuple[Codes, Values]:
    """Return which of `size` configurations occur, in ascending order, and the weight of each.

    Examples
    --------
    >>> occurring_counts(np.array([7, 2, 7]), None, 10)
    (array([2, 7]), array([1., 2.]))
    """
    if size > _SPARSE * max(len(configuration), 256):
        keys, inverse = np.unique(configuration, return_inverse=True)
        return keys, np.bincount(inverse.reshape(-1), weights, len(keys)).astype(float)
    counts = np.bincount(configuration, weights, size).astype(float)
    keys = np.flatnonzero(counts)
    return keys, counts[keys]


def complete_rows(columns: Sequence[_Column], weights: Values | None) -> tuple[list[_Column], Values | None]:
    """Return columns of codes or numbers, and weights, without the rows where a cell is missing or the weight zero.

    The arrays are those given, not copies, where all rows stay.

    Examples
    --------
    >>> complete_rows([np.array([0, -1, 1]), np.array([1.0, 2.0, np.nan])], None)
    ([array([0]), array([1.])], None)
    """
    kept = np.ones(len(columns[0]), dtype=bool) if weights is None else weights > 0
    for column in columns:
        np.logical_and(kept, ~np.isnan(column) if column.dtype.kind == "f" else column >= 0, out=kept)
    if kept.all():
        return list(columns), weights
    return [column[kept] for column in columns], None if weights is None else weights[kept]


def central_moments(
    values: Sequence[Values], cells: Codes, size: int, weights: Values | None
) -> tuple[Values, Values, Values]:
    """Return weight, means (cells, columns) and centered products (cells, columns, columns) of each cell."""
    n = np.bincount(cells, weights, size).astype(np.float64)
    safe = np.where(n > 0, n, 1.0)

    def sums(numbers: Values) -> Values:
        return np.asarray(np.bincount(cells, numbers if weights is None else numbers * weights, size), np.float64)

    means = np.empty((size, len(values)))
    centered = []
    for j, column in enumerate(values):
        # the second pass removes what rounding of the first left in the mean
        mean = sums(column) / safe
        mean += sums(column - mean[cells]) / safe
        means[:, j] = np.where(n > 0, mean, 0.0)
        centered.append(column - mean[cells])
    products = np.empty((size, len(values), len(values)))
    if size <= len(values):
        # few cells of many columns: a product of matrices for each
        stacked = np.array(centered)
        scaled = stacked if weights is None else stacked * weights
        for cell in range(size):
            rows = slice(None) if size == 1 else cells == cell
            within = scaled[:, rows] @ stacked[:, rows].T
            products[cell] = (within + within.T) / 2
        return n, means, products
    for i, first in enumerate(centered):
        for j, second in enumerate(centered[: i + 1]):
            products[:, i, j] = products[:, j, i] = sums(first * second)
    return n, means, products


def sum_by_group(groups: Codes, size: int, values: Values, weights: Values) -> Values:
    """Return the weighted sums of arrays (arrays, rows) in each group (groups, arrays): expected counts, for example.

    Examples
    --------
    >>> sum_by_group(np.array([0, 1, 1]), 2, np.array([[0.5, 0.25, 1.0]]), np.array([1.0, 2.0, 1.0]))
    array([[0.5],
           [1.5]])
    """
    if size == 1:
        return np.asarray(values @ weights)[None]
    rows = len(weights)
    chosen = sparse.csr_array((weights, (groups, np.arange(rows))), shape=(size, rows))
    return np.asarray(chosen @ values.T)


def refuse_too_wide(child: Variable, parents: Sequence[Variable], cells: int, max_bytes: int, what: str) -> None:
    """Raise `TooWide` where a family's arrays would need more memory than allowed, before any is allocated.

    Examples
    --------
    >>> from hybridbn.variables import Discrete
    >>> many = [Discrete(f"d{i}", tuple(range(50))) for i in range(6)]
    >>> refuse_too_wide(many[0], many[1:], 50**6, 2**31, "table")
    Traceback (most recent call last):
        ...
    hybridbn.errors.TooWide: 'd0' given 'd1', 'd2', 'd3', 'd4', 'd5': the table would have 1.56e+10 numbers (116 GiB), more
    than max_bytes=2147483648 allows; give the node fewer parents, or merge states
    """
    if 8 * cells > max_bytes:
        given = f" given {', '.join(repr(parent.name) for parent in parents)}" if parents else ""
        raise TooWide(
            f"{child.name!r}{given}: the {what} would have {float(cells):.3g} numbers ({8 * cells / 2**30:.3g} GiB), more "
            f"than max_bytes={max_bytes} allows; give the node fewer parents, or merge states"
        )


class _Padded:
    """A column of codes, with one more state for missing cells where there are any."""

    def __init__(self, codes: _Column, size: int) -> None:
        low, high = (int(codes.min()), int(codes.max())) if len(codes) else (0, -1)
        if low < -1 or high >= size:
            raise TableError(f"codes must lie between -1 and {size - 1}; found {low if low < -1 else high}")
        self.codes = codes
        self.missing = size if low < 0 else None
        self.size = size + (self.missing is not None)

    def block(self, part: slice) -> Codes:
        """Return a block of rows; not to be written to."""
        codes = self.codes[part].astype(np.intp, copy=False)
        return codes if self.missing is None else np.where(codes < 0, self.missing, codes)


class _Grouped:
    """Columns with a target, ready to be counted in groups."""

    def __init__(
        self,
        codes: Sequence[_Column],
        sizes: Sequence[int],
        target_codes: _Column | None,
        target_size: int,
        weights: Values | None,
    ) -> None:
        self.columns = [_Padded(column, size) for column, size in zip(codes, sizes, strict=True)]
        self.rows = len(codes[0]) if len(codes) else 0
        target = np.zeros(self.rows, np.int8) if target_codes is None else target_codes
        self.target = _Padded(target, target_size)
        self.has_target = target_codes is not None
        self.weights = weights

    def tables(self, blocks: Sequence[tuple[tuple[int, ...], ...]]) -> list[Values]:
        """Return the joint table of the target and the columns of each block, a block being several groups."""
        radix = {group: [self.columns[i].size for i in group] for block in blocks for group in block}
        shapes = [(self.target.size, *(size for group in block for size in radix[group])) for block in blocks]
        cells = sum(map(math.prod, shapes))
        if cells > _MOST_CELLS:
            states = max(column.size for column in (*self.columns, self.target))
            raise TooWide(
                f"the tables of counts would have {float(cells):.3g} cells ({8 * cells / 2**30:.3g} GiB); a column with "
                f"{states} states is among them: leave it out, or merge states"
            )
        counts = [np.zeros(math.prod(shape)) for shape in shapes]
        for start in range(0, self.rows, _ROWS):
            part = slice(start, start + _ROWS)
            weights = None if self.weights is None else self.weights[part]
            target = self.target.block(part) if self.has_target else None
            mixed = {group: _mixed([self.columns[i].block(part) for i in group], radix[group]) for group in radix}
            for group, following in itertools.groupby(zip(blocks, counts, strict=True), lambda item: item[0][0]):
                # target and first group together, once for all blocks that begin with this group
                first = mixed[group] if target is None else target * math.prod(radix[group]) + mixed[group]
                for block, total in following:
                    configurations = first
                    for other in block[1:]:
                        configurations = configurations * math.prod(radix[other]) + mixed[other]
                    total += np.bincount(configurations, weights, total.size)
        return [total.reshape(shape) for total, shape in zip(counts, shapes, strict=True)]


def _mixed(codes: Sequence[Codes], sizes: Sequence[int]) -> Codes:
    """Return each row's configuration as one number, the last column running fastest."""
    mixed = codes[0]
    for column, size in zip(codes[1:], sizes[1:], strict=True):
        mixed = mixed * size
        mixed += column
    return mixed


def _groups(sizes: Sequence[int], most_cells: int, most_columns: int = 8) -> Iterator[tuple[int, ...]]:
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


def _without_padding(counts: Values, sizes: Sequence[int]) -> Values:
    """Leave out the states that stand for missing cells."""
    return np.ascontiguousarray(counts[tuple(slice(size) for size in sizes)])
