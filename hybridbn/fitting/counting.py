"""What is counted, asked in one way: joint counts, counts with a target, pairs, counts by group, and moments.

Whoever learns from counts asks a `Counter` and never the rows. One request carries many tables, so that a pass over the rows
answers it: all pairs of columns, all families that a search compares, a level of a tree, a round of boosting. What comes back adds up:
the counts of two sets of rows are those of both. So a counter of another kind of table (in a database, in parts, on several machines) implements
`count`, `moments`, `by_group` and `incomplete`, and is registered with `counter_of`.

A missing cell either leaves its row out of a table (available cases), or is one more state of its column, the last.
"""

from __future__ import annotations

import itertools
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, singledispatch
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from hybridbn.fitting.counts import (
    CrossedColumns,
    central_moments,
    complete_rows,
    configurations,
    joint_counts,
    occurring_counts,
    pair_counts,
    single_counts,
)
from hybridbn.variables import Codes, Discrete, Values, Variable

__all__ = ["CachedCounter", "Counter", "Counts", "Groups", "Moments", "Names", "NumpyCounter", "counter_of"]

Names: TypeAlias = tuple[str, ...]
"""Columns in the order of a table's dimensions."""
Part: TypeAlias = "slice | NDArray[np.intp]"
"""Which rows of a pass: a block of them, or some."""

_BLOCK = 32768
"""Rows of a block that is counted by group: its codes stay in the second-level cache."""
_GATHERED = 2**18
"""Cells of all columns together that are counted at a time where rows are picked."""


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
        the families that are counted, and the codes of the columns in `reads`; called once for each block of a pass.
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

    @abstractmethod
    def by_group(self, groups: Groups, families: Sequence[Names]) -> list[Values]:
        """Return the weight by group and joint configuration, in one pass.

        Returns
        -------
        list of ndarray (groups, configurations)
            One for each family; the configurations are those of `shape` with holes, the last column running fastest.
        """

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

    def occurring(self, names: Names) -> tuple[Codes, Values]:
        """Return which joint configurations occur, as ascending numbers in mixed radix, and the weight of each."""
        table = self.joint(names).ravel()
        keys = np.flatnonzero(table)
        return keys, table[keys]

    def persist(self) -> Counter:
        """Return a counter for many requests, which may keep what they share."""
        return self

    def shape(self, names: Names, *, holes: bool = False) -> tuple[int, ...]:
        """Return the shape of a table."""
        return tuple(self.sizes[name] + (holes and name in self.incomplete) for name in names)


class NumpyCounter(Counter):
    """Counts columns in memory.

    Parameters
    ----------
    columns : mapping from column to ndarray (rows,)
        Codes of discrete columns, -1 where a cell is missing; numbers, NaN where one is.
    sizes : mapping from each discrete column to the number of its states
    weights : ndarray (rows,), optional
    run : callable
        Applies a function to blocks of rows in their order, as `map` does; the sums do not depend on it.
    persistent : bool
        Keep joint codes of columns for the next request.

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

    def __init__(
        self,
        columns: Mapping[str, NDArray[Any]],
        sizes: Mapping[str, int],
        weights: Values | None = None,
        run: Callable[..., Iterable[list[Values]]] = map,
        persistent: bool = False,
    ) -> None:
        self.columns, self.sizes, self.weights = columns, sizes, weights
        self._run, self._persistent = run, persistent
        self._crossed: dict[Names, CrossedColumns] = {}
        self._joined: dict[Names, NDArray[Any]] = {}

    def persist(self) -> NumpyCounter:
        """Return a counter that keeps joint codes of columns."""
        return NumpyCounter(self.columns, self.sizes, self.weights, self._run, persistent=True)

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
            codes = [self.columns[name] for name in chosen]
            tables = single_counts(codes, states, self._configurations(target), math.prod(shape), self.weights)
        return Counts(
            {
                (*target, name): table.reshape(*shape, size)
                for name, size, table in zip(chosen, states, tables, strict=True)
            }
        )

    def pairs(self, names: Sequence[str], given: Names = ()) -> Counts:
        """Count groups of columns with each other, whose margins are the tables."""
        codes, states = [self.columns[name] for name in names], [self.sizes[name] for name in names]
        shape = self.shape(given)
        condition = self._configurations(given) if given else None
        tables = pair_counts(codes, states, condition, math.prod(shape), self.weights)
        return Counts(
            {
                (*given, names[i], names[j]): table if len(given) < 2 else table.reshape(*shape, *table.shape[1:])
                for (i, j), table in tables.items()
            }
        )

    def occurring(self, names: Names) -> tuple[Codes, Values]:
        """Sort the rows by their configuration where the table would be far larger than they are many."""
        (columns, weights), sizes = self._complete(names), self.shape(names)
        return occurring_counts(configurations(columns, sizes, len(columns[0])), weights, math.prod(sizes))

    def moments(self, numbers: Names, given: Names = ()) -> Moments:
        """Return means and products about them, in two passes."""
        columns, weights = self._complete((*numbers, *given))
        values, sizes = columns[: len(numbers)], self.shape(given)
        cells = configurations(columns[len(numbers) :], sizes, len(values[0]))
        total = float(len(values[0])) if weights is None else float(weights.sum())
        return Moments(total, *central_moments(values, cells, math.prod(sizes), weights))

    def by_group(self, groups: Groups, families: Sequence[Names]) -> list[Values]:
        """Count in blocks of rows, which are added up in their order."""
        sizes = [math.prod(self.shape(names, holes=True)) for names in families]
        joined = [self._join(names) for names in families]
        read = [self.columns[name] for name in groups.reads]
        rows = self._rows if groups.rows is None else len(groups.rows)

        def count(start: int) -> list[Values]:
            part = slice(start, start + block)
            picked = part if groups.rows is None else groups.rows[part]
            codes = [column[picked].astype(np.intp) for column in joined]
            keys, weights = groups.assign(part, codes, [column[picked].astype(np.intp) for column in read])
            if weights is None and self.weights is not None:
                weights = self.weights[picked]
            tables = []
            for code, size in zip(codes, sizes, strict=True):
                code += keys * size
                tables.append(np.asarray(np.bincount(code, weights, groups.size * size), float))
            return tables

        # a bincount starts from zeros, so large tables of picked rows want large blocks
        block = (
            _BLOCK
            if groups.rows is None
            else max((_GATHERED, 4 * groups.size * sum(sizes))) // max(len(families), 1) or 1
        )
        totals = [np.zeros(groups.size * size) for size in sizes]
        for tables in self._run(count, range(0, rows, block)):
            for total, table in zip(totals, tables, strict=True):
                total += table
        return [total.reshape(groups.size, -1) for total in totals]

    @property
    def _rows(self) -> int:
        return len(next(iter(self.columns.values()), ()))

    def _complete(self, names: Names) -> tuple[list[NDArray[Any]], Values | None]:
        return complete_rows([self.columns[name] for name in names], self.weights)

    def _count_one(self, names: Names) -> Values:
        columns, weights = self._complete(names)
        return joint_counts(columns, self.shape(names), weights)

    def _count_holes(self, names: Names) -> Values:
        codes = [
            np.where(self.columns[name] < 0, self.sizes[name], self.columns[name])
            if name in self.incomplete
            else self.columns[name]
            for name in names
        ]
        return joint_counts(codes, self.shape(names, holes=True), self.weights)

    def _configurations(self, names: Names) -> Codes:
        """Return each row's joint configuration of some columns, -1 where a cell is missing."""
        if len(names) == 1:
            return self.columns[names[0]]
        codes = [self.columns[name].astype(np.intp, copy=False) for name in names]
        mixed = configurations(codes, self.shape(names), self._rows)
        for name, column in zip(names, codes, strict=True):
            if name in self.incomplete:
                mixed[column < 0] = -1
        return mixed

    def _count_crossed(self, names: Names, target: Names) -> list[Values]:
        """Count with joint codes of the columns that are kept."""
        if names not in self._crossed:
            codes = [self.columns[name].astype(np.intp, copy=False) for name in names]
            self._crossed[names] = CrossedColumns(codes, [self.sizes[name] for name in names], self.weights)
        crossed = self._crossed[names]
        holes = [self.columns[name] >= 0 for name in target if name in self.incomplete]
        rows = np.flatnonzero(np.all(holes, axis=0)) if holes else None
        codes = [self.columns[name] if rows is None else self.columns[name][rows] for name in target]
        sizes = self.shape(target)
        configuration = configurations(
            [column.astype(np.intp, copy=False) for column in codes], sizes, self._rows if rows is None else len(rows)
        )
        table = crossed.tables(configuration, math.prod(sizes), rows)
        return np.split(table, crossed.starts[1:], axis=1)

    def _join(self, names: Names) -> NDArray[Any]:
        """Return each row's joint configuration in as few bytes as it takes, missing cells being states."""
        if len(names) == 1 and names[0] not in self.incomplete:
            return self.columns[names[0]]
        if names in self._joined:
            return self._joined[names]
        shape = self.shape(names, holes=True)
        joint = np.empty(self._rows, np.min_scalar_type(math.prod(shape)))
        for start in range(0, self._rows, _BLOCK):
            part = slice(start, start + _BLOCK)
            columns = [self.columns[name][part].astype(np.intp, copy=False) for name in names]
            joint[part] = configurations(
                [np.where(own < 0, size - 1, own) for own, size in zip(columns, shape, strict=True)], shape, 0
            )
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

    def __init__(self, counter: Counter) -> None:
        self.counter, self.sizes = counter, counter.sizes
        self._incomplete = counter.incomplete
        self._tables: dict[frozenset[str], tuple[Names, Values]] = {}

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
        if unknown:
            self._remember(self.counter.count(unknown))
        return Counts({names: self._known(names) for names in families})

    def with_target(self, names: Iterable[str], target: Names) -> Counts:
        """Count what is not known."""
        families = [(*target, name) for name in names]
        unknown = [family[-1] for family in families if frozenset(family) not in self._tables]
        if unknown:
            self._remember(self.counter.with_target(unknown, target))
        return Counts({family: self._known(family) for family in families})

    def pairs(self, names: Sequence[str], given: Names = ()) -> Counts:
        """Count all pairs, and remember their margins too."""
        counts = self.counter.pairs(names, given)
        self._remember(counts)
        for family, table in counts.items():
            for axis, name in enumerate(family):
                rest = family[:axis] + family[axis + 1 :]
                # a row that lacks this cell is not in the table, but is in that of the others
                if rest and name not in self._incomplete and frozenset(rest) not in self._tables:
                    self._tables[frozenset(rest)] = rest, table.sum(axis=axis)
        return counts

    def moments(self, numbers: Names, given: Names = ()) -> Moments:
        """Return moments, which are not remembered."""
        return self.counter.moments(numbers, given)

    def by_group(self, groups: Groups, families: Sequence[Names]) -> list[Values]:
        """Count by group, which is not remembered."""
        return self.counter.by_group(groups, families)

    def _remember(self, counts: Counts) -> None:
        self._tables |= {frozenset(names): (names, table) for names, table in counts.items()}

    def _known(self, names: Names) -> Values:
        order, table = self._tables[frozenset(names)]
        return table if order == names else np.ascontiguousarray(table.transpose([order.index(name) for name in names]))


@singledispatch
def counter_of(table: Any, variables: Iterable[Variable], run: Callable[..., Any] = map) -> Counter:
    """Return a counter of a table's columns, read as codes or values of these variables.

    Another kind of table registers a function of its own: ``counter_of.register(Kind, function)``.

    Parameters
    ----------
    table : Table
    variables : iterable of Variable
    run : callable
        Applies a function to blocks of rows in their order, as `map` does.

    Examples
    --------
    >>> import hybridbn as hb
    >>> table = hb.Table({"c": ["a", "b", "b", None]}, weights=[1, 2, 1, 1])
    >>> counter_of(table, table.variables).joint(("c",))
    array([1., 3.])
    """
    variables = tuple(variables)
    return NumpyCounter(
        {variable.name: table.coded(variable) for variable in variables},
        {variable.name: len(variable) for variable in variables if isinstance(variable, Discrete)},
        table.weights if table.weighted else None,
        run,
    )
