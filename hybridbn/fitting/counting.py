"""Who counts rows, asked in one way: joint counts, counts with a target, pairs, counts by group, and moments.

Whoever learns from counts asks a `Counter` and never the rows. One request carries many tables, so that a pass over the
rows answers it: all pairs of columns, all families that a search compares, a level of a tree, a round of boosting. What
comes back adds up: the counts of two sets of rows are those of both. `NumpyCounter` counts columns in memory, and
`RowCounter` rows that are read in passes, whose counts it remembers.

A missing cell either leaves its row out of a table (available cases), or is one more state of its column, the last.
"""

from __future__ import annotations

import itertools
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from operator import methodcaller
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from hybridbn.fitting.contingency_tables import (
    ColumnGroups,
    CrossedColumns,
    PaddedColumn,
    PairBlock,
    add_blocks,
    central_moments,
    count_codes,
    count_occurring,
    group_columns,
    list_occurring,
    plan_pairs,
    refuse_too_many_cells,
    select_complete_rows,
)
from hybridbn.jobs import get_jobs
from hybridbn.tables import Rows, Table
from hybridbn.variables import (
    Codes,
    Discrete,
    Values,
    Variable,
    encode_configurations,
    find_observed,
    slice_blocks,
)

_PICKED = 2**18
"""Codes of all families together that are picked at a time."""
_BLOCK = 32768
"""Rows of a block that is counted by group: its codes stay in the second-level cache."""
_PASS_CELLS = 2**22
"""Most cells of the tables of pairs that one pass counts (32 MiB)."""
_REMEMBERED_CELLS, _CELLS_OF_A_NAME = 2**22, 64
"""Tables are remembered while they have at most so many cells together (32 MiB), and the memory of so many cells that a
table takes beside its own.
"""
_LARGE_TABLE = 2**18
"""Tables of more cells are not remembered: there are few of them."""

Names: TypeAlias = tuple[str, ...]
"""Columns in the order of a table's dimensions."""


class Counts(dict[Any, Any]):
    """Tables of counts by the names of their dimensions, or other sums by any keys; ``a + b`` are those of the rows
    of both.

    Examples
    --------
    >>> one = Counts({("a",): np.array([1.0, 2.0])})
    >>> (one + one)["a",]
    array([2., 4.])
    """

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
    >>> counter = NumpyCounter({"a": np.array([0, 1, -1, 1])}, {"a": 2})
    >>> counter.by_group(Groups.of(np.array([0, 0, 1, 1]), 2), [("a",)])[0]
    array([[1., 1., 0.],
           [0., 1., 1.]])
    """

    size: int
    assign: Callable[[slice | NDArray[np.intp], Sequence[Codes], Sequence[Codes]], tuple[Codes, Values | None]]
    reads: Names = ()
    rows: NDArray[np.intp] | None = None

    @classmethod
    def of(
        cls, groups: Codes, size: int, weights: Values | None = None, rows: NDArray[np.intp] | None = None
    ) -> Groups:
        """Return the groups that arrays tell."""
        return cls(size, lambda part, *_: (groups[part], None if weights is None else weights[part]), (), rows)


class Occurring(NamedTuple):
    """Configurations that occur, as ascending numbers, and their weights."""

    keys: Codes
    weights: Values

    @classmethod
    def of(cls, keys: Codes, weights: Values) -> Occurring:
        """Return what occurs among configurations in any order."""
        distinct, place = np.unique(keys, return_inverse=True)
        return cls(distinct, np.bincount(place, weights, len(distinct)).astype(float))

    def __add__(self, other: Occurring) -> Occurring:  # type: ignore[override]
        return Occurring.of(np.concatenate([self.keys, other.keys]), np.concatenate([self.weights, other.weights]))


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
    def count(self, families: Iterable[Names]) -> Counts:
        """Return the weight of each joint configuration of each of some sets of discrete columns, from the rows that
        have them all.
        """

    @abstractmethod
    def moments(self, numbers: Names, given: Names = ()) -> Moments:
        """Return the moments of numbers in each configuration of discrete columns, from the rows that have them all."""

    # -- what follows from it -----------------------------------------------------------------------------------------

    def joint(self, names: Names) -> Values:
        """Return the weight of each joint configuration of some discrete columns."""
        table: Values = self.count([names])[names]
        return table

    def shape(self, names: Names, *, holes: bool = False) -> tuple[int, ...]:
        """Return the shape of a table, with one more state, the last, for the missing cells of a column if wanted."""
        return tuple(self.sizes[name] + (holes and name in self.incomplete) for name in names)

    def group(self, names: Names, most_cells: int) -> list[Names]:
        """Return discrete columns in groups whose joint tables, with missing cells, have at most so many cells."""
        groups = group_columns(self.shape(names, holes=True), most_cells, len(names))
        return [tuple(names[place] for place in group) for group in groups]


class NumpyCounter(Counter):
    """Counts columns in memory.

    Parameters
    ----------
    columns : mapping from column to ndarray (rows,)
        Codes of discrete columns, -1 where a cell is missing; numbers, NaN where one is.
    sizes : mapping from each discrete column to the number of its states
    weights : ndarray (rows,), optional
    jobs : int
        Threads that share a pass, with the same sums.
    persistent : bool
        Keep joint codes of columns for the next request.
    incomplete : set of str, optional
        The columns with missing cells, where these are some rows of a table with more.

    Examples
    --------
    >>> counter = NumpyCounter({"a": np.array([0, 1, 1]), "b": np.array([0, 0, -1])}, {"a": 2, "b": 2})
    >>> counter.joint(("a", "b"))
    array([[1., 0.],
           [1., 0.]])
    """

    sizes: dict[str, int]

    def __init__(
        self,
        columns: Mapping[str, NDArray[Any]],
        sizes: Mapping[str, int],
        weights: Values | None = None,
        jobs: int = 1,
        persistent: bool = False,
        incomplete: frozenset[str] | None = None,
    ) -> None:
        if incomplete is not None:
            vars(self)["incomplete"] = incomplete
        self.columns: dict[str, NDArray[Any]] = dict(columns)
        self.sizes: dict[str, int] = dict(sizes)
        self.weights: Values | None = weights
        self._jobs, self._persistent = jobs, persistent
        self._crossed: dict[Names, CrossedColumns] = {}
        self._joined: dict[Names, NDArray[Any]] = {}

    @classmethod
    def of(
        cls, table: Table, variables: Iterable[Variable], jobs: int = 1, incomplete: frozenset[str] | None = None
    ) -> NumpyCounter:
        """Return a counter of a table's columns, read as codes or values of these variables.

        Examples
        --------
        >>> import hybridbn as hb
        >>> table = hb.Table({"c": ["a", "b", "b", None]}, weights=[1, 2, 1, 1])
        >>> NumpyCounter.of(table, table.variables).joint(("c",))
        array([1., 3.])
        """
        counter = cls({}, {}, table.weights if table.weighted else None, jobs, incomplete=incomplete)
        counter.read(table, variables)
        return counter

    def read(self, table: Table, variables: Iterable[Variable]) -> None:
        """Read columns of a table."""
        for variable in variables:
            self.columns[variable.name] = table.coded(variable, compact=True)
            if isinstance(variable, Discrete):
                self.sizes[variable.name] = len(variable)

    def persist(self) -> NumpyCounter:
        """Return a counter that keeps joint codes of columns."""
        return NumpyCounter(self.columns, self.sizes, self.weights, self._jobs, True, vars(self).get("incomplete"))

    @cached_property
    def incomplete(self) -> frozenset[str]:
        """The columns with missing cells."""
        return frozenset(name for name, column in self.columns.items() if not find_observed(column).all())

    def count(self, families: Iterable[Names]) -> Counts:
        """Count the families that differ in their last column together, in groups of columns."""
        families = list(families)
        by_target: dict[Names, list[str]] = {}
        for *target, name in filter(None, families):
            by_target.setdefault(tuple(target), []).append(name)
        tables: dict[Names, Values] = {}
        for given, names in by_target.items():
            tables |= self._count_together(names, given) if given and len(names) > 1 else {}
        return Counts({names: tables[names] if names in tables else self._count_one(names) for names in families})

    def with_target(self, names: Iterable[str], target: Names) -> Counts:
        """Return the table of each column with the same others, which come first, by counting groups of columns, whose
        margins they are; joint codes of these may be kept.
        """
        return self._count_crossed(tuple(names), target) if self._persistent else self._count_together(names, target)

    def pairs(self, names: Sequence[str], given: Names = ()) -> Counts:
        """Return the table of every two columns with the same others, which come first, by counting groups of columns
        with each other, some at a time.
        """
        grouped = self._group(names, given)
        plan = plan_pairs(grouped.sizes, grouped.target_size, grouped.rows, _PASS_CELLS)
        return self._name_pairs(names, given, (pair for blocks in plan for pair in grouped.count_pairs(blocks)))

    def count_pairs(self, names: Sequence[str], given: Names, blocks: Sequence[PairBlock]) -> Counts:
        """Count the pairs of columns that some blocks of groups tell of."""
        return self._name_pairs(names, given, self._group(names, given).count_pairs(blocks))

    def _name_pairs(
        self, names: Sequence[str], given: Names, pairs: Iterable[tuple[tuple[int, int], Values]]
    ) -> Counts:
        shape = self.shape(given)
        tables = (((*given, names[i], names[j]), table.reshape(*shape, *table.shape[1:])) for (i, j), table in pairs)
        return Counts(tables)

    def occurring(self, names: Names) -> Occurring:
        """Return which joint configurations occur, as ascending numbers in mixed radix, and the weight of each.

        The rows are sorted by their configuration where the table would be far larger than they are many.
        """
        (columns, weights), sizes = self._select_complete(names), self.shape(names)
        return Occurring(
            *count_occurring(encode_configurations(columns, sizes, len(columns[0])), weights, math.prod(sizes))
        )

    def moments(self, numbers: Names, given: Names = ()) -> Moments:
        """Return means and products about them, in two passes."""
        columns, weights = self._select_complete((*numbers, *given))
        values, sizes = columns[: len(numbers)], self.shape(given)
        cells = encode_configurations(columns[len(numbers) :], sizes, len(values[0]))
        total = float(len(values[0])) if weights is None else float(weights.sum())
        return Moments(total, *central_moments(values, cells, math.prod(sizes), weights, self._jobs))

    def by_group(self, groups: Groups, families: Sequence[Names]) -> list[Values]:
        """Count in blocks of rows, which are added up in their order."""
        sizes = [math.prod(self.shape(names, holes=True)) for names in families]
        joined = [self._join(names) for names in families]
        read = [self._join((name,)) for name in groups.reads]
        rows = self._rows if groups.rows is None else len(groups.rows)

        def count(start: int) -> Iterator[Values]:
            part = slice(start, min(start + block, rows))
            picked = part if groups.rows is None else groups.rows[part]
            codes = [column[picked].astype(np.intp) for column in joined]
            keys, weights = groups.assign(part, codes, [column[picked].astype(np.intp) for column in read])
            if weights is None and self.weights is not None:
                weights = self.weights[picked]
            for code, size in zip(codes, sizes, strict=True):
                code += keys * size
                yield count_codes(code, weights, groups.size * size)

        # a bincount starts from zeros, so large tables of picked rows want large blocks
        block = (
            _BLOCK
            if groups.rows is None
            else max(_PICKED // max(len(families), 1), 4 * groups.size * max(sizes, default=1))
        )
        totals = [np.zeros(groups.size * size) for size in sizes]
        add_blocks(totals, count, range(0, rows, block), self._jobs)
        return [total.reshape(groups.size, -1) for total in totals]

    @property
    def _rows(self) -> int:
        return len(next(iter(self.columns.values()), ()))

    def _select_complete(self, names: Names) -> tuple[list[NDArray[Any]], Values | None]:
        columns = [self.columns[name] for name in names]
        if self.weights is None and self.incomplete.isdisjoint(names):
            return columns, None
        return select_complete_rows(columns, self.weights)

    def _count_one(self, names: Names) -> Values:
        shape, (columns, weights) = self.shape(names), self._select_complete(names)
        padded = [PaddedColumn(column, size, size) for column, size in zip(columns, shape, strict=True)]
        return ColumnGroups(padded, None, weights, self._jobs).count_together().reshape(shape)

    def _group(self, names: Iterable[str], target: Names) -> ColumnGroups:
        columns = [self._pad((name,)) for name in names]
        return ColumnGroups(columns, self._pad(target) if target else None, self.weights, self._jobs)

    def _pad(self, names: Names) -> PaddedColumn:
        """Return the joint configurations of some columns as one."""
        states = math.prod(self.shape(names))
        return PaddedColumn(self._encode(names), states, states + (not self.incomplete.isdisjoint(names)))

    def _encode(self, names: Names) -> Codes:
        """Return each row's joint configuration of some columns, -1 where a cell is missing."""
        if len(names) == 1:
            return self.columns[names[0]]
        codes = [self.columns[name].astype(np.intp, copy=False) for name in names]
        mixed = encode_configurations(codes, self.shape(names), self._rows)
        for name, column in zip(names, codes, strict=True):
            if name in self.incomplete:
                mixed[column < 0] = -1
        return mixed

    def _count_together(self, names: Iterable[str], target: Names) -> Counts:
        """Count in one pass."""
        chosen, shape = list(names), self.shape(target)
        tables = self._group(chosen, target).count_each()
        return Counts({(*target, name): table.reshape(*shape, -1) for name, table in zip(chosen, tables, strict=True)})

    def _count_crossed(self, names: Names, target: Names) -> Counts:
        """Count with joint codes of the columns that are kept."""
        if names not in self._crossed:
            columns = [self._pad((name,)) for name in names]
            self._crossed[names] = CrossedColumns(columns, self.weights, self._jobs)
        shape, configuration, rows = self.shape(target), self._encode(target).astype(np.intp, copy=False), None
        if not self.incomplete.isdisjoint(target):
            rows = np.flatnonzero(configuration >= 0)
            configuration = configuration[rows]
        tables = self._crossed[names].tables(configuration, math.prod(shape), rows)
        return Counts({(*target, name): table.reshape(*shape, -1) for name, table in zip(names, tables, strict=True)})

    def _join(self, names: Names) -> NDArray[Any]:
        """Return each row's joint configuration in as few bytes as it takes, missing cells being states."""
        if len(names) == 1 and names[0] not in self.incomplete and not self._persistent:
            return self.columns[names[0]]
        if names in self._joined:
            return self._joined[names]
        shape = self.shape(names, holes=True)
        joint = np.empty(self._rows, np.min_scalar_type(math.prod(shape)))
        for part in slice_blocks(self._rows, _BLOCK):
            columns = [self.columns[name][part].astype(np.intp, copy=False) for name in names]
            codes = [np.where(own < 0, size - 1, own) for own, size in zip(columns, shape, strict=True)]
            joint[part] = encode_configurations(codes, shape, len(joint[part]))
        if self._persistent:
            self._joined[names] = joint
        return joint


def count_columns(
    columns: Mapping[str, NDArray[Any]], sizes: Mapping[str, int], weights: Values | None, families: Sequence[Names]
) -> Counts:
    """Return the counts of some families of columns.

    Examples
    --------
    >>> count_columns({"a": np.array([0, 1, 1])}, {"a": 2}, None, [("a",)])["a",]
    array([1., 2.])
    """
    return NumpyCounter(columns, sizes, weights).count(families)


Request: TypeAlias = Callable[["NumpyCounter"], Any]
"""What a counter of some rows is asked for; it can be pickled."""


class _Owner:
    """Whom a counter of a batch is kept for; in another process it is another one."""


def _count_batch(
    table: Table,
    first: int,
    requests: Sequence[Request],
    incomplete: frozenset[str],
    jobs: int,
    owner: _Owner | None,
) -> Counts:
    """Return what a counter of a batch of rows, which counts all of its columns, is asked for.

    Parameters
    ----------
    incomplete : frozenset of str
        The columns of all rows that have missing cells.
    owner : _Owner, optional
        For whom joint codes of columns are kept, as long as the rows are in memory.
    """
    counter = NumpyCounter.of(table, () if owner else table.variables, jobs, incomplete)
    if owner is not None:
        counter = table.keep(owner, counter.persist)
        counter.read(table, [table.variable(name) for name in table.names if name not in counter.columns])
    return Counts(enumerate(request(counter) for request in requests))


class _KnownTable(NamedTuple):
    """A table that was counted, the names of its dimensions, and what columns were read as."""

    names: Names
    variables: Mapping[str, Variable]
    table: Values

    def arrange(self, names: Names) -> Values:
        """Return the table with its dimensions in another order."""
        return np.ascontiguousarray(self.table.transpose([self.names.index(name) for name in names]))


@dataclass(eq=False)
class _Memory:
    """Tables and moments of some rows that were counted before.

    Tables stand under the names of all but one of their columns, by the name of that one; so those that have the same
    columns but one are together, and so are those of which a table is a margin.
    """

    tables: dict[frozenset[str], dict[str, _KnownTable]] = field(default_factory=dict)
    moments: dict[Names, dict[Names, tuple[Mapping[str, Variable], frozenset[str], Moments]]] = field(
        default_factory=dict
    )
    cells: int = 0

    def has_room(self, size: int) -> bool:
        """Tell whether so many cells more are held."""
        if size > min(_REMEMBERED_CELLS - self.cells, _LARGE_TABLE):
            return False
        self.cells += size
        return True

    def add_table(self, variables: Mapping[str, Variable], names: Names, table: Values) -> None:
        """Remember a table, which is found by any of its columns."""
        if self.has_room(table.size + _CELLS_OF_A_NAME):
            table.setflags(write=False)
            for name in names:
                known = self.tables.setdefault(frozenset(names) - {name}, {})
                known[name] = _KnownTable(names, variables, table)

    def add_crossed(self, variables: Mapping[str, Variable], target: Names, counts: Counts) -> None:
        """Remember the tables of many columns with the same target, found by these columns only."""
        if self.has_room(sum(table.size for table in counts.values())):
            known = self.tables.setdefault(frozenset(target), {})
            known |= {names[-1]: _KnownTable(names, variables, table) for names, table in counts.items()}


class RowCounter(Counter):
    """Counts rows in passes, of which there is one in memory; what is asked again, and its margins, needs no other.

    Parameters
    ----------
    rows : Rows
    variables : iterable of Variable
        What the columns are read as.
    jobs : int, optional
        Threads that may share a pass, by default `get_jobs`.

    Examples
    --------
    >>> import hybridbn as hb
    >>> scan = hb.scan({"a": ["x", "y", "y"], "b": ["u", "u", None]})
    >>> counter = RowCounter(scan, scan.variables)
    >>> counter.pairs(("a", "b"))["a", "b"]
    array([[1.],
           [1.]])
    """

    def __init__(self, rows: Rows, variables: Iterable[Variable], jobs: int | None = None) -> None:
        self.rows = rows
        self._jobs = get_jobs() if jobs is None else jobs
        self.variables: dict[str, Variable] = {one.name: one for one in variables}
        self.sizes: dict[str, int] = {
            one.name: len(one) for one in self.variables.values() if isinstance(one, Discrete)
        }
        self._memory: _Memory = rows.remembered.setdefault(_Memory, _Memory())
        self._owner: _Owner | None = None

    def persist(self) -> RowCounter:
        """Return a counter that keeps joint codes of columns, too."""
        counter = RowCounter(self.rows, self.variables.values(), self._jobs)
        counter._owner = _Owner()
        return counter

    @cached_property
    def incomplete(self) -> frozenset[str]:
        """The columns with missing cells."""
        return frozenset(name for name in self.variables if self.rows.count_missing(name))

    def count(self, families: Iterable[Names]) -> Counts:
        """Count what is not known, in one pass."""
        families = list(families)
        known, unknown = self._look_up(families)
        if unknown:
            self._refuse_too_many_cells(unknown)
            counts = self._ask(methodcaller("count", unknown), unknown)
            self._remember(counts)
            known |= counts
        return Counts({names: known[names] for names in families})

    def with_target(self, names: Iterable[str], target: Names) -> Counts:
        """Count all columns where joint codes of them are kept, else those that are not known."""
        chosen = tuple(names)
        if self._owner is None:
            return self.count([(*target, name) for name in chosen])
        known = self._find_all([(*target, name) for name in chosen])
        if known is not None:
            return known
        tables: Counts = self._ask(methodcaller("with_target", chosen, target), [(*target, *chosen)])
        self._memory.add_crossed(self.variables, target, tables)
        return tables

    def pairs(self, names: Sequence[str], given: Names = ()) -> Counts:
        """Count all pairs in one pass."""
        wanted = [(*given, *pair) for pair in itertools.combinations(names, 2)]
        known = self._find_all(wanted)
        if known is not None:
            return known
        self._refuse_too_many_cells(wanted)
        counts = self._ask(methodcaller("pairs", tuple(names), tuple(given)), wanted)
        self._remember(counts)
        return Counts({family: counts[family] for family in wanted})

    def pair_batches(self, names: Sequence[str], given: Names = ()) -> Iterator[Counts]:
        """Count all pairs in one pass if their tables are small together, else in several."""
        sizes, shape = self.shape(tuple(names)), self.shape(given)
        # the sum of the products of all pairs
        cells = math.prod(shape) * (sum(sizes) ** 2 - sum(size**2 for size in sizes)) // 2
        if cells <= _PASS_CELLS:
            yield self.pairs(names, given)
            return
        target = math.prod(shape) + (not self.incomplete.isdisjoint(given))
        for blocks in plan_pairs(self.shape(tuple(names), holes=True), target, len(self.rows), _PASS_CELLS):
            yield self._ask(methodcaller("count_pairs", tuple(names), tuple(given), blocks), [(*given, *names)])

    def occurring(self, names: Names) -> Occurring:
        """Count the configurations that occur where a table of all would be large."""
        table = self._find(names)
        if table is None and math.prod(self.shape(names)) <= _CELLS_OF_A_NAME:
            table = self.joint(names)
        if table is not None:
            return Occurring(*list_occurring(table))
        return Occurring(*self._ask(methodcaller("occurring", names), [names]))

    def moments(self, numbers: Names, given: Names = ()) -> Moments:
        """Return moments that are known, or make a pass."""
        known = self._find_moments(numbers, given)
        if known is None:
            known = self._ask(methodcaller("moments", numbers, given), [(*numbers, *given)])
            self._remember_moments(numbers, given, known)
        return known

    def prepare(self, families: Iterable[Names], moments: Iterable[tuple[Names, Names]]) -> None:
        """Learn in one pass what will be asked."""
        _, unknown = self._look_up(families)
        complete: dict[Names, list[str]] = {}
        asked: list[tuple[Names, Names]] = []
        for numbers, given in moments:
            if self._find_moments(numbers, given) is not None:
                continue
            if self.incomplete.isdisjoint((*numbers, *given)):
                # from the products of all numbers those of any follow
                complete.setdefault(given, []).extend(numbers)
            else:
                asked.append((numbers, given))
        asked += [(tuple(dict.fromkeys(listed)), given) for given, listed in complete.items()]
        requests = [methodcaller("moments", *one) for one in asked]
        if unknown:
            requests.append(methodcaller("count", unknown))
        if not requests:
            return
        results = self._pass(requests, [*unknown, *((*numbers, *given) for numbers, given in asked)])
        for (numbers, given), result in zip(asked, results, strict=False):
            self._remember_moments(numbers, given, result)
        for counts in results[len(asked) :]:
            self._remember(counts)

    # -- passes, and what is remembered of them ---------------------------------------------------------------------

    def _ask(self, request: Request, used: Iterable[Names]) -> Any:
        return self._pass([request], used)[0]

    def _pass(self, requests: Sequence[Request], used: Iterable[Names]) -> tuple[Any, ...]:
        names = dict.fromkeys(name for family in used for name in family)
        task = partial(
            _count_batch, requests=tuple(requests), incomplete=self.incomplete, jobs=self._jobs, owner=self._owner
        )
        return tuple(self.rows.learn(task, [self.variables[name] for name in names]).values())

    def _refuse_too_many_cells(self, families: Iterable[Names]) -> None:
        widest = max(self.sizes, key=self.sizes.__getitem__)
        cells = sum(math.prod(self.shape(names)) for names in families)
        refuse_too_many_cells(cells, f"the column {widest!r} with {self.sizes[widest]} states")

    def _look_up(self, families: Iterable[Names]) -> tuple[dict[Names, Values], list[Names]]:
        """Return the tables that are known, or that the rows tell without a pass, and the families of the others."""
        found = {names: self._find(names) for names in families}
        known = {names: table for names, table in found.items() if table is not None}
        told = self.rows.count_families([n for n in found if n not in known and not _repeats(n)], self.variables)
        self._remember(told)
        known |= told
        return known, [names for names in found if names not in known]

    def _remember(self, counts: Mapping[Names, Values]) -> None:
        for names, table in counts.items():
            if not _repeats(names):
                self._memory.add_table(self.variables, names, table)

    def _find(self, names: Names) -> Values | None:
        """Return a table that is known, or is a margin of one."""
        if _repeats(names):
            return None
        key, tables = frozenset(names), self._memory.tables
        for name in names:
            known = tables.get(key - {name}, {}).get(name)
            if known is not None and self._has_same(known.variables, names):
                return known.arrange(names)
        for name, known in list(tables.get(key, {}).items()):
            wider = (*names, name)
            # a row that lacks this cell is not in the table, but is in that of the others
            if name not in self.incomplete.union(key) and self._has_same(known.variables, wider):
                return np.asarray(known.arrange(wider).sum(axis=-1))
        return None

    def _find_all(self, families: Iterable[Names]) -> Counts | None:
        """Return the tables of all families if none is unknown, looking no further than the first that is."""
        tables = Counts()
        for names in families:
            table = self._find(names)
            if table is None:
                return None
            tables[names] = table
        return tables

    def _has_same(self, variables: Mapping[str, Variable], names: Iterable[str]) -> bool:
        """Tell whether columns were read as they are here."""
        own = ((variables[name], self.variables.get(name)) for name in names)
        return all(one is other or one == other for one, other in own)

    def _remember_moments(self, numbers: Names, given: Names, moments: Moments) -> None:
        if self._memory.has_room(moments.products.size + _CELLS_OF_A_NAME):
            incomplete = self.incomplete.intersection((*numbers, *given))
            known = self._memory.moments.setdefault(given, {})
            known[numbers] = self.variables, incomplete, moments

    def _find_moments(self, numbers: Names, given: Names) -> Moments | None:
        for held, (variables, incomplete, moments) in list(self._memory.moments.get(given, {}).items()):
            # of the other columns, which these rows may lack, only missing cells matter
            if not set(numbers) <= set(held) or incomplete.intersection(held).difference(numbers):
                continue
            if self._has_same(variables, (*numbers, *given)):
                places = [held.index(name) for name in numbers]
                chosen = np.ix_(range(len(moments.weights)), places, places)
                return Moments(moments.total, moments.weights, moments.means[:, places], moments.products[chosen])
        return None


def _repeats(names: Names) -> bool:
    """Tell whether a column is named twice, whose counts are not remembered."""
    return len(set(names)) < len(names)
