"""Counters: of columns in memory, and one that remembers; and which one counts a table.

The counter of columns in memory holds a loop for each kind of request. Columns are counted in groups, whose joint
configurations cost no more than a single column and whose margins are the tables; a counter for many requests keeps the
joint codes of its groups.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property, singledispatch
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hybridbn.fitting.column_groups import PaddedColumn, count_codes
from hybridbn.fitting.counting import (
    Counter,
    Counts,
    Groups,
    Moments,
    Names,
    central_moments,
    count_occurring,
    encode_configurations,
    joint_counts,
    pair_count_batches,
    select_complete_rows,
    single_counts,
)
from hybridbn.jobs import get_jobs, run_in_threads
from hybridbn.variables import Codes, Discrete, Values, Variable

__all__ = ["CachedCounter", "CrossedColumns", "NumpyCounter", "counter_of"]

_PICKED = 2**18
"""Codes of all families together that are picked at a time."""
_BLOCK = 32768
"""Rows of a block that is counted by group: its codes stay in the second-level cache."""
_REMEMBERED_CELLS, _CELLS_OF_A_NAME = 2**22, 64
"""Tables are remembered while they have at most so many cells together (32 MiB), and the memory of so many cells that a
table takes beside its own.
"""
_LARGE_TABLE = 2**18
"""Tables of more cells are not remembered: there are few of them."""
_CROSSED_CELLS = 4096
"""Most cells of a table of a group of columns that is kept for many requests: it stays in the fastest cache."""


class NumpyCounter(Counter):
    """Counts columns in memory.

    Parameters
    ----------
    columns : mapping from column to ndarray (rows,)
        Codes of discrete columns, -1 where a cell is missing; numbers, NaN where one is.
    sizes : mapping from each discrete column to the number of its states
    weights : ndarray (rows,), optional
    jobs : int
        Threads that share a pass; the sums do not depend on it.
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
    >>> counter.joint(("a", "b"), holes=True)
    array([[1., 0., 0.],
           [1., 0., 1.]])
    """

    columns: Mapping[str, NDArray[Any]]
    sizes: Mapping[str, int]
    weights: Values | None

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
        self.columns, self.sizes, self.weights = columns, sizes, weights
        self._jobs, self._persistent = jobs, persistent
        self._crossed: dict[Names, CrossedColumns] = {}
        self._joined: dict[Names, NDArray[Any]] = {}

    def persist(self) -> NumpyCounter:
        """Return a counter that keeps joint codes of columns."""
        incomplete: frozenset[str] | None = vars(self).get("incomplete")
        return NumpyCounter(self.columns, self.sizes, self.weights, self._jobs, True, incomplete)

    @cached_property
    def incomplete(self) -> frozenset[str]:
        """The columns with missing cells."""
        return frozenset(
            name
            for name, column in self.columns.items()
            if (column.min(initial=0) < 0 if name in self.sizes else np.isnan(column).any())
        )

    def count(self, families: Iterable[Names], *, holes: bool = False) -> Counts:
        """Count the families that differ in their last column together, in groups of columns."""
        families = list(families)
        if holes:
            return Counts({names: self._count_holes(names) for names in families})
        by_target: dict[Names, list[str]] = {}
        for *target, name in filter(None, families):
            by_target.setdefault(tuple(target), []).append(name)
        tables: dict[Names, Values] = {}
        for given, names in by_target.items():
            tables |= self.with_target(names, given) if given and len(names) > 1 else {}
        return Counts({names: tables[names] if names in tables else self._count_one(names) for names in families})

    def with_target(self, names: Iterable[str], target: Names) -> Counts:
        """Count groups of columns with the target, whose margins are the tables."""
        chosen = tuple(names)
        shape, states = self.shape(target), [self.sizes[name] for name in chosen]
        if self._persistent:
            tables = self._count_crossed(chosen, target)
        else:
            codes = [self._pad((name,)) for name in chosen]
            tables = single_counts(codes, states, self._pad(target), math.prod(shape), self.weights, self._jobs)
        return Counts(
            {
                (*target, name): table.reshape(*shape, size)
                for name, size, table in zip(chosen, states, tables, strict=True)
            }
        )

    def pairs(self, names: Sequence[str], given: Names = ()) -> Counts:
        """Count groups of columns with each other, whose margins are the tables."""
        return Counts({names: table for counts in self.pair_batches(names, given) for names, table in counts.items()})

    def pair_batches(self, names: Sequence[str], given: Names = ()) -> Iterator[Counts]:
        """Count groups of columns with each other, some at a time."""
        codes, states = [self._pad((name,)) for name in names], [self.sizes[name] for name in names]
        shape = self.shape(given)
        condition = self._pad(given) if given else None
        for tables in pair_count_batches(codes, states, condition, math.prod(shape), self.weights, jobs=self._jobs):
            yield Counts(
                {
                    (*given, names[i], names[j]): table if len(given) < 2 else table.reshape(*shape, *table.shape[1:])
                    for (i, j), table in tables.items()
                }
            )

    def occurring(self, names: Names) -> tuple[Codes, Values]:
        """Sort the rows by their configuration where the table would be far larger than they are many."""
        (columns, weights), sizes = self._select_complete(names), self.shape(names)
        return count_occurring(encode_configurations(columns, sizes, len(columns[0])), weights, math.prod(sizes))

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
        # one thread holds one table of a block at a time
        work = count if self._jobs == 1 else lambda start: list(count(start))
        for tables in run_in_threads(work, range(0, rows, block), self._jobs):
            for total, table in zip(totals, tables, strict=True):
                total += table
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
        columns, weights = self._select_complete(names)
        shape = self.shape(names)
        complete = [PaddedColumn(column, size, holes=False) for column, size in zip(columns, shape, strict=True)]
        return joint_counts(complete, shape, weights, self._jobs)

    def _count_holes(self, names: Names) -> Values:
        shape = self.shape(names, holes=True)
        codes = [
            np.where(self.columns[name] < 0, np.intp(self.sizes[name]), self.columns[name])
            if name in self.incomplete
            else self.columns[name]
            for name in names
        ]
        padded = [PaddedColumn(column, size, holes=False) for column, size in zip(codes, shape, strict=True)]
        return joint_counts(padded, shape, self.weights, self._jobs)

    def _pad(self, names: Names) -> PaddedColumn:
        """Return the joint configurations of some columns as one."""
        return PaddedColumn(self._encode(names), math.prod(self.shape(names)), not self.incomplete.isdisjoint(names))

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

    def _count_crossed(self, names: Names, target: Names) -> list[Values]:
        """Count with joint codes of the columns that are kept."""
        if names not in self._crossed:
            codes = [self.columns[name].astype(np.intp, copy=False) for name in names]
            self._crossed[names] = CrossedColumns(codes, [self.sizes[name] for name in names], self.weights, self._jobs)
        crossed = self._crossed[names]
        holes = [self.columns[name] >= 0 for name in target if name in self.incomplete]
        rows = np.flatnonzero(np.all(holes, axis=0)) if holes else None
        codes = [self.columns[name] if rows is None else self.columns[name][rows] for name in target]
        sizes = self.shape(target)
        configuration = encode_configurations(
            [column.astype(np.intp, copy=False) for column in codes], sizes, self._rows if rows is None else len(rows)
        )
        table = crossed.tables(configuration, math.prod(sizes), rows)
        ends = [*crossed.starts[1:].tolist(), table.shape[1]]
        return [table[:, start:end] for start, end in zip(crossed.starts.tolist(), ends, strict=True)]

    def _join(self, names: Names) -> NDArray[Any]:
        """Return each row's joint configuration in as few bytes as it takes, missing cells being states."""
        if len(names) == 1 and names[0] not in self.incomplete and not self._persistent:
            return self.columns[names[0]]
        if names in self._joined:
            return self._joined[names]
        shape = self.shape(names, holes=True)
        joint = np.empty(self._rows, np.min_scalar_type(math.prod(shape)))
        for start in range(0, self._rows, _BLOCK):
            part = slice(start, start + _BLOCK)
            columns = [self.columns[name][part].astype(np.intp, copy=False) for name in names]
            codes = [np.where(own < 0, size - 1, own) for own, size in zip(columns, shape, strict=True)]
            joint[part] = encode_configurations(codes, shape, len(joint[part]))
        if self._persistent:
            self._joined[names] = joint
        return joint


class CachedCounter(Counter):
    """Remembers tables, and answers with them and with their margins; for searches that ask for the same ones again.

    Parameters
    ----------
    counter : Counter

    Examples
    --------
    >>> counter = CachedCounter(NumpyCounter({"a": np.array([0, 1, 1]), "b": np.array([0, 0, 1])}, {"a": 2, "b": 2}))
    >>> counter.pairs(("a", "b"))["a", "b"]
    array([[1., 0.],
           [1., 1.]])
    >>> counter.counter = None
    >>> counter.joint(("b", "a")), counter.joint(("b",))
    (array([[1., 1.],
           [0., 1.]]), array([2., 1.]))
    """

    counter: Counter
    sizes: Mapping[str, int]

    def __init__(self, counter: Counter) -> None:
        self.counter, self.sizes = counter, counter.sizes
        self._incomplete = counter.incomplete
        self._tables: dict[frozenset[str], tuple[Names, Values]] = {}
        self._cells = 0

    @property
    def incomplete(self) -> frozenset[str]:
        """The columns with missing cells."""
        return self._incomplete

    def count(self, families: Iterable[Names], *, holes: bool = False) -> Counts:
        """Count what is not known."""
        families = list(families)
        if holes:
            return self.counter.count(families, holes=True)
        unknown = [names for names in families if frozenset(names) not in self._tables]
        return self._look_up(families, self.counter.count(unknown) if unknown else {})

    def with_target(self, names: Iterable[str], target: Names) -> Counts:
        """Count what is not known."""
        families = [(*target, name) for name in names]
        unknown = [family[-1] for family in families if frozenset(family) not in self._tables]
        return self._look_up(families, self.counter.with_target(unknown, target) if unknown else {})

    def pairs(self, names: Sequence[str], given: Names = ()) -> Counts:
        """Count all pairs, and remember their margins too."""
        counts = self.counter.pairs(names, given)
        for family, table in counts.items():
            self._remember(family, table)
            for axis, name in enumerate(family):
                rest = family[:axis] + family[axis + 1 :]
                # a row that lacks this cell is not in the table, but is in that of the others
                if rest and name not in self._incomplete and frozenset(rest) not in self._tables:
                    self._remember(rest, table.sum(axis=axis))
        return counts

    def pair_batches(self, names: Sequence[str], given: Names = ()) -> Iterator[Counts]:
        """Count all pairs, and remember them if they are small together."""
        sizes = [self.sizes[name] for name in names]
        # the sum of the products of all pairs
        cells = math.prod(self.shape(given)) * (sum(sizes) ** 2 - sum(size**2 for size in sizes)) // 2
        if cells + math.comb(len(names), 2) * _CELLS_OF_A_NAME > _REMEMBERED_CELLS - self._cells:
            yield from self.counter.pair_batches(names, given)
        else:
            yield self.pairs(names, given)

    def occurring(self, names: Names) -> tuple[Codes, Values]:
        """Count what occurs, which is not remembered."""
        return self.counter.occurring(names)

    def moments(self, numbers: Names, given: Names = ()) -> Moments:
        """Return moments, which are not remembered."""
        return self.counter.moments(numbers, given)

    def by_group(self, groups: Groups, families: Sequence[Names]) -> list[Values]:
        """Count by group, which is not remembered."""
        return self.counter.by_group(groups, families)

    def _remember(self, names: Names, table: Values) -> None:
        key, cells = frozenset(names), table.size + _CELLS_OF_A_NAME
        if key not in self._tables and cells <= min(_REMEMBERED_CELLS - self._cells, _LARGE_TABLE):
            self._tables[key] = names, table
            self._cells += cells

    def _look_up(self, families: Sequence[Names], counted: Mapping[Names, Values]) -> Counts:
        """Return tables that were just counted, which are remembered, and those that were remembered before."""
        for names, table in counted.items():
            self._remember(names, table)
        return Counts({names: counted[names] if names in counted else self._arrange(names) for names in families})

    def _arrange(self, names: Names) -> Values:
        order, table = self._tables[frozenset(names)]
        return table if order == names else np.ascontiguousarray(table.transpose([order.index(name) for name in names]))


@singledispatch
def counter_of(table: Any, variables: Iterable[Variable], jobs: int | None = None) -> Counter:
    """Return a counter of a table's columns, read as codes or values of these variables.

    Another kind of table registers a function of its own: ``counter_of.register(Kind, function)``.

    Parameters
    ----------
    table : Table
    variables : iterable of Variable
    jobs : int, optional
        Threads that may share a pass, by default `get_jobs`.

    Examples
    --------
    >>> import hybridbn as hb
    >>> table = hb.Table({"c": ["a", "b", "b", None]}, weights=[1, 2, 1, 1])
    >>> counter_of(table, table.variables).joint(("c",))
    array([1., 3.])
    """
    variables = tuple(variables)
    return NumpyCounter(
        {variable.name: table.coded(variable, compact=True) for variable in variables},
        {variable.name: len(variable) for variable in variables if isinstance(variable, Discrete)},
        table.weights if table.weighted else None,
        get_jobs() if jobs is None else jobs,
        incomplete=frozenset(variable.name for variable in variables if table.count_missing(variable.name)),
    )


class _JointCodes(NamedTuple):
    """Columns counted together: their joint codes, how many these are, and the states' columns in the result."""

    codes: Codes
    size: int
    margins: Values | None
    part: slice


class CrossedColumns:
    """Columns that are to be counted with one configuration after another.

    Parameters
    ----------
    codes : sequence of integer arrays (rows,), -1 where missing
    sizes : sequence of int
    weights : ndarray (rows,), optional
    jobs : int
        Threads that share the groups of columns.

    Attributes
    ----------
    starts : ndarray (columns,), where the states of each column begin in the tables

    Examples
    --------
    >>> crossed = CrossedColumns([np.array([0, 1, -1]), np.array([2, 0, 0])], (2, 3), None)
    >>> crossed.tables(np.array([0, 0, 1]), 2)
    array([[1., 1., 1., 0., 1.],
           [0., 0., 1., 0., 0.]])
    """

    def __init__(self, codes: Sequence[Codes], sizes: Sequence[int], weights: Values | None, jobs: int = 1) -> None:
        self._jobs = jobs
        holes = [bool((column < 0).any()) for column in codes]
        self._padded = [size + hole for size, hole in zip(sizes, holes, strict=True)]
        self._codes = [
            np.where(column < 0, size, column) if hole else column
            for column, size, hole in zip(codes, sizes, holes, strict=True)
        ]
        self._weights = weights
        self._levels: dict[int, list[_JointCodes]] = {}
        edges = np.cumsum([0, *self._padded])
        self._edges: list[int] = edges.tolist()
        # a hole is counted as one more state and dropped
        kept = [np.arange(start, start + size) for start, size in zip(self._edges[:-1], sizes, strict=True)]
        self._kept: NDArray[np.intp] | None = np.concatenate(kept) if any(holes) else None
        self.starts: NDArray[np.intp] = np.cumsum([0, *sizes])[:-1]

    def tables(self, configuration: Codes, size: int, rows: NDArray[np.intp] | None = None) -> Values:
        """Return the weight of each state with each configuration (size, states of all columns).

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
            codes = configuration * group.size
            codes += group.codes if rows is None else group.codes[rows]
            table = count_codes(codes, weights, size * group.size).reshape(size, group.size)
            result[:, group.part] = table if group.margins is None else table @ group.margins

        for _ in run_in_threads(count, self._group_columns(level), self._jobs):
            pass
        return result if self._kept is None else result[:, self._kept]

    def _group_columns(self, level: int) -> list[_JointCodes]:
        """Return the columns in groups of at most so many joint states."""
        if level not in self._levels:
            groups, begin = [], 0
            while begin < len(self._padded):
                end, size = begin + 1, self._padded[begin]
                while end < len(self._padded) and size * self._padded[end] <= level:
                    size *= self._padded[end]
                    end += 1
                groups.append(self._join_columns(begin, end, size))
                begin = end
            self._levels[level] = groups
        return self._levels[level]

    def _join_columns(self, begin: int, end: int, size: int) -> _JointCodes:
        joint, margins, inner = np.zeros_like(self._codes[begin]), [], size
        every = np.arange(size)
        for column in range(begin, end):
            states = self._padded[column]
            joint = joint * states + self._codes[column]
            inner //= states
            margins.append((every // inner % states)[:, None] == np.arange(states))
        single = end == begin + 1
        part = slice(self._edges[begin], self._edges[end])
        return _JointCodes(joint, size, None if single else np.concatenate(margins, axis=1).astype(float), part)
