"""What is counted, asked in one way: joint counts, counts with a target, pairs, counts by group, and moments.

Whoever learns from counts asks a `Counter` and never the rows. One request carries many tables, so that a pass over the
rows answers it: all pairs of columns, all families that a search compares, a level of a tree, a round of boosting. What
comes back adds up: the counts of two sets of rows are those of both.

A missing cell either leaves its row out of a table (available cases), or is one more state of its column, the last.
"""

from __future__ import annotations

import itertools
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from hybridbn.errors import TooWide
from hybridbn.fitting.column_groups import (
    MOST_CELLS,
    ROWS,
    Block,
    Column,
    ColumnGroups,
    PaddedColumn,
    combine_codes,
    count_codes,
    drop_padding,
    group_columns,
    indicate_states,
    sum_to_pairs,
)
from hybridbn.jobs import run_in_threads
from hybridbn.variables import Codes, Values, Variable, find_observed

__all__ = [
    "Counter",
    "Counts",
    "Groups",
    "Moments",
    "Names",
    "Part",
    "central_moments",
    "count_occurring",
    "effective_size",
    "encode_configurations",
    "joint_counts",
    "list_occurring",
    "pair_count_batches",
    "pair_counts",
    "refuse_too_many_cells",
    "refuse_too_wide",
    "select_complete_rows",
    "single_counts",
    "sum_by_group",
]

Names: TypeAlias = tuple[str, ...]
"""Columns in the order of a table's dimensions."""
Part: TypeAlias = "slice | NDArray[np.intp]"
"""Which rows of a pass: a block of them, or some."""


class Counts(Mapping[Names, Values]):
    """Tables of counts by the names of their dimensions; ``a + b`` are those of the rows of both.

    Examples
    --------
    >>> one = Counts({("a",): np.array([1.0, 2.0])})
    >>> (one + one)["a",]
    array([2., 4.])
    """

    def __init__(self, tables: Mapping[Names, Values]) -> None:
        self._tables = dict(tables)

    def __getitem__(self, names: Names) -> Values:
        return self._tables[names]

    def __iter__(self) -> Iterator[Names]:
        return iter(self._tables)

    def __len__(self) -> int:
        return len(self._tables)

    def __add__(self, other: Counts) -> Counts:
        return Counts({names: table + other[names] for names, table in self.items()})


@dataclass(frozen=True, eq=False)
class Moments:
    """Weights, means and centered products of some numbers in each configuration of some discrete columns.

    Attributes
    ----------
    total : float
        The weight of all rows.
    weights : ndarray (configurations,)
    means : ndarray (configurations, numbers)
    products : ndarray (configurations, numbers, numbers)
        Weighted sums of products of deviations from the means.

    Examples
    --------
    >>> from hybridbn.fitting.counters import NumpyCounter
    >>> counter = NumpyCounter({"x": np.array([1.0, 3.0, 8.0])}, {})
    >>> counter.moments(("x",)).products
    array([[[26.]]])
    """

    total: float
    weights: Values
    means: Values
    products: Values

    def __add__(self, other: Moments) -> Moments:
        """Merge by the formula of Chan, Golub & LeVeque (1983), which subtracts no large sums of squares."""
        weights = self.weights + other.weights
        shift = other.means - self.means
        share = np.divide(other.weights, weights, out=np.zeros_like(weights), where=weights > 0)
        between = (self.weights * share)[:, None, None] * shift[:, :, None] * shift[:, None, :]
        return Moments(
            self.total + other.total,
            weights,
            self.means + share[:, None] * shift,
            self.products + other.products + between,
        )


@dataclass(frozen=True)
class Groups:
    """Which group each row belongs to in a pass, and with which weight it counts there.

    Attributes
    ----------
    size : int
        The number of groups.
    assign : callable
        Returns groups and weights (None: the rows' own) of some rows, from which rows these are, the configurations of
        the families that are counted, and the codes of the columns in `reads` (a missing cell being the last). Called
        once for each block of a pass: a slice of the table's rows, or of `rows`, of which a block may also be given as
        an array of positions.
    reads : tuple of str
        Columns that the groups depend on.
    rows : ndarray, optional
        The rows that take part, in this order; a row may take part several times.

    Examples
    --------
    >>> from hybridbn.fitting.counters import NumpyCounter
    >>> counter = NumpyCounter({"a": np.array([0, 1, -1, 1])}, {"a": 2})
    >>> counter.by_group(Groups.of(np.array([0, 0, 1, 1]), 2), [("a",)])[0]
    array([[1., 1., 0.],
           [0., 1., 1.]])
    """

    size: int
    assign: Callable[[Part, Sequence[Codes], Sequence[Codes]], tuple[Codes, Values | None]]
    reads: Names = ()
    rows: NDArray[np.intp] | None = None

    @classmethod
    def of(
        cls, groups: Codes, size: int, weights: Values | None = None, rows: NDArray[np.intp] | None = None
    ) -> Groups:
        """Return the groups that arrays tell."""
        return cls(size, lambda part, *_: (groups[part], None if weights is None else weights[part]), (), rows)


class Counter(ABC):
    """Counts the rows of a table, each with its weight.

    Attributes
    ----------
    sizes : mapping from each discrete column to the number of its states
    """

    sizes: Mapping[str, int]

    # -- what an implementation provides ------------------------------------------------------------------------------

    @property
    @abstractmethod
    def incomplete(self) -> frozenset[str]:
        """The columns with missing cells."""

    @abstractmethod
    def count(self, families: Iterable[Names], *, holes: bool = False) -> Counts:
        """Return the weight of each joint configuration of each of some sets of discrete columns.

        Parameters
        ----------
        families : iterable of tuple of str
        holes : bool
            Count a missing cell as one more state, the last, of a column that has any; else a row is left out of the
            tables of which it lacks a cell.
        """

    @abstractmethod
    def moments(self, numbers: Names, given: Names = ()) -> Moments:
        """Return the moments of numbers in each configuration of discrete columns, from the rows that have them all."""

    # -- what follows from it -----------------------------------------------------------------------------------------

    def joint(self, names: Names, *, holes: bool = False) -> Values:
        """Return the weight of each joint configuration of some discrete columns."""
        return self.count([names], holes=holes)[names]

    def with_target(self, names: Iterable[str], target: Names) -> Counts:
        """Return the table of each column with the same others, which come first."""
        return self.count([(*target, name) for name in names])

    def pairs(self, names: Sequence[str], given: Names = ()) -> Counts:
        """Return the table of every two columns with the same others, which come first."""
        return self.count([(*given, *pair) for pair in itertools.combinations(names, 2)])

    def pair_batches(self, names: Sequence[str], given: Names = ()) -> Iterator[Counts]:
        """Yield the tables of `pairs`, some at a time, so that there need not be room for all of them."""
        batch: list[Names] = []
        cells = 0
        for pair in itertools.combinations(names, 2):
            size = math.prod(self.shape((*given, *pair)))
            if batch and cells + size > _BATCH_CELLS:
                yield self.count(batch)
                batch, cells = [], 0
            batch.append((*given, *pair))
            cells += size
        if batch:
            yield self.count(batch)

    def occurring(self, names: Names) -> tuple[Codes, Values]:
        """Return which joint configurations occur, as ascending numbers in mixed radix, and the weight of each."""
        return list_occurring(self.joint(names))

    def prepare(self, families: Iterable[Names], moments: Iterable[tuple[Names, Names]]) -> None:
        """Learn beforehand what `count` and `moments` will be asked for, where each request would take a pass."""
        return

    def persist(self) -> Counter:
        """Return a counter for many requests, which may keep what they share."""
        return self

    def shape(self, names: Names, *, holes: bool = False) -> tuple[int, ...]:
        """Return the shape of a table."""
        return tuple(self.sizes[name] + (holes and name in self.incomplete) for name in names)


_PAIR_CELLS = 2**18
"""Most cells of a grouped table of pairs: a bincount of more cells than the cache holds costs more than it saves."""
_SINGLE_CELLS = 2**15
"""Most cells of a grouped table of single columns."""

_SPARSE = 4
"""A table with so many times more cells than rows is counted by sorting the rows."""
_BATCH_CELLS = 2**21
"""Most cells of the tables of a batch of pairs (16 MiB), of which there is a pass over the rows each."""
_FEW_CELLS = 2**12
"""A grouped table of pairs may have so many cells, however few rows there are."""


def joint_counts(
    codes: Sequence[Column | PaddedColumn], sizes: Sequence[int], weights: Values | None = None, jobs: int = 1
) -> Values:
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
    columns = [PaddedColumn.of(column, size) for column, size in zip(codes, sizes, strict=True)]
    padded = tuple(column.size for column in columns)
    size = math.prod(padded)
    rows = len(columns[0].codes) if columns else 0
    # A bincount starts from zeros, so a large table wants large blocks.
    block = max(ROWS, 4 * size)
    kind = np.int32 if size <= ROWS else np.intp

    def count(start: int) -> Values:
        part = slice(start, start + block)
        keys = combine_codes([column.block(part, kind) for column in columns], padded)
        own = None if weights is None else weights[part]
        if own is None and size > len(keys):
            own = np.ones(len(keys))  # a table of floats is not converted to one
        return count_codes(keys, own, size)

    counts: Values | None = None
    for table in run_in_threads(count, range(0, rows, block), jobs):
        if counts is None:
            counts = table
        else:
            counts += table
    return drop_padding((np.zeros(size) if counts is None else counts).reshape(padded), sizes)


def encode_configurations(codes: Sequence[Codes], sizes: Sequence[int], rows: int) -> Codes:
    """Return each row's joint configuration as one number, the last column running fastest; zeros without columns.

    Examples
    --------
    >>> encode_configurations([np.array([0, 1, 1]), np.array([2, 0, 1])], (2, 3), 3)
    array([2, 3, 4])
    """
    if not len(codes):
        return np.zeros(rows, np.intp)
    return combine_codes([codes[0].astype(np.intp, copy=False), *codes[1:]], sizes)


def single_counts(
    codes: Sequence[Column | PaddedColumn],
    sizes: Sequence[int],
    target_codes: Column | PaddedColumn,
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
    tables: list[Values] = [np.zeros(0)] * len(codes)
    counted = ColumnGroups(codes, sizes, target_codes, target_size, weights, jobs)
    groups = list(group_columns([column.size for column in counted.columns], _SINGLE_CELLS // counted.target.size))
    for group, table in zip(groups, counted.tables([(group,) for group in groups]), strict=True):
        for place, column in enumerate(group):
            others = tuple(1 + other for other in range(len(group)) if other != place)
            margin = table.sum(axis=others) if others else table
            tables[column] = drop_padding(margin, (target_size, sizes[column]))
    return tables


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
    batches = pair_count_batches(codes, sizes, target_codes, target_size, weights, MOST_CELLS)
    return dict(sorted(item for batch in batches for item in batch.items()))


def pair_count_batches(
    codes: Sequence[Column | PaddedColumn],
    sizes: Sequence[int],
    target_codes: Column | PaddedColumn | None,
    target_size: int,
    weights: Values | None,
    most_cells: int = _BATCH_CELLS,
    jobs: int = 1,
) -> Iterator[dict[tuple[int, int], Values]]:
    """Yield the tables of `pair_counts`, some at a time, each batch from a pass over the rows.

    Parameters
    ----------
    codes, sizes, target_codes, target_size, weights : as in `pair_counts`
    most_cells : int
        Of the grouped tables that are held at a time.
    jobs : int
        Threads that share a pass, with the same sums.

    Examples
    --------
    >>> columns = [np.array([0, 1, 1]), np.array([0, 0, 1]), np.array([1, 0, 1])]
    >>> [sorted(batch) for batch in pair_count_batches(columns, (2, 2, 2), None, 1, None)]
    [[(0, 1), (0, 2), (1, 2)]]
    """
    counted = ColumnGroups(codes, sizes, target_codes, target_size, weights, jobs)
    # tables of more cells than rows are mostly empty
    most = math.isqrt(min(_PAIR_CELLS, max(counted.rows, _FEW_CELLS)) // counted.target.size)
    groups = list(group_columns([column.size for column in counted.columns], most, most_columns=3))
    blocks: list[Block] = list(itertools.combinations(groups, 2)) or [(g,) for g in groups]
    indicators = {
        group: indicate_states([counted.columns[i].size for i in group]) for group in groups if len(group) > 1
    }
    known: set[tuple[int, int]] = set()
    for batch in counted.batches(blocks, most_cells):
        pairs: dict[tuple[int, int], Values] = {}
        for block, table in zip(batch, counted.tables(batch), strict=True):
            for key, margin in sum_to_pairs(table, block, indicators, known):
                trimmed = drop_padding(margin, (target_size, sizes[key[0]], sizes[key[1]]))
                pairs[key] = trimmed if target_codes is not None else trimmed[0]
        yield pairs


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


def central_moments(
    values: Sequence[Values], cells: Codes, size: int, weights: Values | None, jobs: int = 1
) -> tuple[Values, Values, Values]:
    """Return weight, means (cells, columns) and centered products (cells, columns, columns) of each cell."""
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
    own = run_in_threads(lambda pair: sums(centered[pair[0]] * centered[pair[1]]), pairs, jobs)
    for (i, j), total in zip(pairs, own, strict=True):
        products[:, i, j] = products[:, j, i] = total
    return n, means, products


def effective_size(weights: Values) -> float:
    """Return how many equally weighted rows are worth as much as these (Kish): the n of h = c / sqrt(n).

    Examples
    --------
    >>> effective_size(np.array([2.0, 2.0, 2.0])), effective_size(np.array([1.0, 0.0, 1.0]))
    (3.0, 2.0)
    """
    shares = weights / weights.max()
    return float(shares.sum() ** 2 / (shares @ shares))


def sum_by_group(groups: Codes, size: int, values: Values, weights: Values) -> Values:
    """Return the weighted sums of arrays (arrays, rows) in each group (groups, arrays): expected counts, for example.

    Examples
    --------
    >>> sum_by_group(np.array([0, 1, 1]), 2, np.array([[0.5, 0.25, 1.0]]), np.array([1.0, 2.0, 1.0]))
    array([[0.5],
           [1.5]])
    """
    from scipy import sparse

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
    hybridbn.errors.TooWide: 'd0' given 'd1', 'd2', 'd3', 'd4', 'd5': the table would have 1.56e+10 numbers (116 GiB),
    more than max_bytes=2147483648 allows; give the node fewer parents, or merge states
    """
    if 8 * cells > max_bytes:
        given = f" given {', '.join(repr(parent.name) for parent in parents)}" if parents else ""
        raise TooWide(
            f"{child.name!r}{given}: the {what} would have {float(cells):.3g} numbers ({8 * cells / 2**30:.3g} GiB),"
            f" more than max_bytes={max_bytes} allows; give the node fewer parents, or merge states"
        )


def refuse_too_many_cells(cells: int, sizes: Mapping[str, int]) -> None:
    """Raise `TooWide` where tables that are counted together would not fit into memory.

    Examples
    --------
    >>> refuse_too_many_cells(2**40, {"a": 2, "id": 1000000})
    Traceback (most recent call last):
        ...
    hybridbn.errors.TooWide: the tables of counts would have 1.1e+12 cells (8.19e+03 GiB); the column 'id' with 1000000
    states is among them: leave it out, or merge states
    """
    if cells > MOST_CELLS:
        widest = max(sizes, key=sizes.__getitem__)
        raise TooWide(
            f"the tables of counts would have {float(cells):.3g} cells ({8 * cells / 2**30:.3g} GiB); the column"
            f" {widest!r} with {sizes[widest]} states is among them: leave it out, or merge states"
        )
