"""Counters: of columns in memory, and of rows that are read in passes, whose counts it remembers.

The counter of columns in memory holds a loop for each kind of request. Columns are counted in groups, whose joint
configurations cost no more than a single column and whose margins are the tables; a counter for many requests keeps the
joint codes of its groups.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

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
    list_occurring,
    pair_count_batches,
    refuse_too_many_cells,
    select_complete_rows,
    single_counts,
)
from hybridbn.jobs import get_jobs, run_in_threads
from hybridbn.variables import Codes, Discrete, Values, Variable

if TYPE_CHECKING:
    from hybridbn.tables import Rows, Table

__all__ = ["CrossedColumns", "NumpyCounter", "Occurring", "RowCounter", "Tallies", "count_columns"]

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
_PASS_CELLS = 2**22
"""Most cells of the tables of pairs that one pass counts (32 MiB)."""
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
        named = {variable.name: variable for variable in variables}
        if incomplete is None:
            incomplete = frozenset(name for name in named if table.count_missing(name))
        sizes = {name: len(variable) for name, variable in named.items() if isinstance(variable, Discrete)}
        weights = table.weights if table.weighted else None
        return cls(_CodedColumns(table, named), sizes, weights, jobs, incomplete=incomplete)

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
            tables |= self._count_together(names, given) if given and len(names) > 1 else {}
        return Counts({names: tables[names] if names in tables else self._count_one(names) for names in families})

    def with_target(self, names: Iterable[str], target: Names) -> Counts:
        """Count groups of columns with the target, whose margins are the tables; joint codes of them may be kept."""
        return self._count_crossed(tuple(names), target) if self._persistent else self._count_together(names, target)

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

    def _count_together(self, names: Iterable[str], target: Names) -> Counts:
        """Count in one pass."""
        chosen, shape = list(names), self.shape(target)
        codes, states = [self._pad((name,)) for name in chosen], [self.sizes[name] for name in chosen]
        tables = single_counts(codes, states, self._pad(target), math.prod(shape), self.weights, self._jobs)
        found = zip(chosen, states, tables, strict=True)
        return Counts({(*target, name): table.reshape(*shape, size) for name, size, table in found})

    def _count_crossed(self, names: Names, target: Names) -> Counts:
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
        places = zip(names, crossed.starts.tolist(), ends, strict=True)
        return Counts({(*target, name): table[:, start:end].reshape(*sizes, -1) for name, start, end in places})

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


class _CodedColumns(Mapping[str, NDArray[Any]]):
    """The columns of a table as codes or values of variables, which are read when they are asked for."""

    def __init__(self, table: Table, variables: Mapping[str, Variable]) -> None:
        self.table, self.variables = table, variables
        self._coded: dict[str, NDArray[Any]] = {}

    def __getitem__(self, name: str) -> NDArray[Any]:
        if name not in self._coded:
            self._coded[name] = self.table.coded(self.variables[name], compact=True)
        return self._coded[name]

    def __iter__(self) -> Iterator[str]:
        return (name for name in self.variables if name in self.table)

    def __len__(self) -> int:
        return sum(1 for _ in self)


@dataclass(frozen=True)
class Tallies:
    """The results of several requests, which add up one by one."""

    results: tuple[Any, ...]

    def __add__(self, other: Tallies) -> Tallies:
        return Tallies(tuple(mine + yours for mine, yours in zip(self.results, other.results, strict=True)))


@dataclass(frozen=True)
class Occurring:
    """Configurations that occur, as ascending numbers, and their weights."""

    keys: Codes
    weights: Values

    @classmethod
    def of(cls, keys: Codes, weights: Values) -> Occurring:
        """Return what occurs among configurations in any order."""
        distinct, place = np.unique(keys, return_inverse=True)
        return cls(distinct, np.bincount(place, weights, len(distinct)).astype(float))

    def __add__(self, other: Occurring) -> Occurring:
        return Occurring.of(np.concatenate([self.keys, other.keys]), np.concatenate([self.weights, other.weights]))


Request: TypeAlias = tuple[str, tuple[Any, ...]]
"""A method of `NumpyCounter` and its arguments."""


class _Owner:
    """Whom a counter of a batch is kept for; in another process it is another one."""


@dataclass(frozen=True)
class CountTask:
    """Asks a counter of each batch of rows.

    Attributes
    ----------
    requests : tuple of Request
    variables : tuple of Variable
        The columns that are counted.
    incomplete : frozenset of str
        The columns of all rows that have missing cells.
    jobs : int
        Threads that may share a pass.
    owner : _Owner, optional
        For whom joint codes of columns are kept, as long as the rows are in memory.
    """

    requests: tuple[Request, ...]
    variables: tuple[Variable, ...]
    incomplete: frozenset[str]
    jobs: int = 1
    owner: _Owner | None = None

    def __call__(self, table: Table, first: int) -> Tallies:
        """Return the answers of a counter of some rows."""
        counter = self._make(table) if self.owner is None else self._keep(table, self.owner)
        return Tallies(tuple(_ask(counter, method, arguments) for method, arguments in self.requests))

    def _make(self, table: Table) -> NumpyCounter:
        return NumpyCounter.of(table, self.variables, self.jobs, self.incomplete)

    def _keep(self, table: Table, owner: _Owner) -> NumpyCounter:
        counter = table.keep(owner, lambda: self._make(table).persist())
        # which may have columns that the one before lacked
        vars(counter.columns)["table"] = table
        return counter


def _ask(counter: NumpyCounter, method: str, arguments: tuple[Any, ...]) -> Any:
    if method == "occurring":
        return Occurring(*counter.occurring(*arguments))
    if method == "holes":
        return counter.count(*arguments, holes=True)
    return getattr(counter, method)(*arguments)


class _Memory:
    """Tables and moments of some rows that were counted before, by their columns."""

    def __init__(self) -> None:
        self.tables: dict[frozenset[str], tuple[tuple[Variable, ...], Values]] = {}
        self.wider: dict[frozenset[str], frozenset[str]] = {}
        self.crossed: dict[frozenset[str], tuple[Mapping[str, Variable], Names, Counts]] = {}
        self.moments: dict[tuple[Names, Names], tuple[tuple[Variable, ...], frozenset[str], Moments]] = {}
        self.cells = 0

    def has_room(self, size: int) -> bool:
        """Tell whether so many cells more are held."""
        if size > min(_REMEMBERED_CELLS - self.cells, _LARGE_TABLE):
            return False
        self.cells += size
        return True

    def add_table(self, variables: tuple[Variable, ...], table: Values) -> None:
        """Remember a table, and of which tables it tells the margins."""
        key = frozenset(variable.name for variable in variables)
        if key not in self.tables and not self.has_room(table.size + _CELLS_OF_A_NAME):
            return
        table.setflags(write=False)
        self.tables[key] = variables, table
        for name in key:
            self.wider.setdefault(key - {name}, key)

    def add_crossed(self, variables: Mapping[str, Variable], target: Names, counts: Counts) -> None:
        """Remember the tables of many columns with the same target."""
        if self.has_room(sum(table.size for table in counts.values())):
            self.crossed[frozenset(target)] = variables, target, counts

    def add_moments(
        self, numbers: tuple[Variable, ...], given: tuple[Variable, ...], incomplete: frozenset[str], moments: Moments
    ) -> None:
        """Remember moments, and which columns have missing cells."""
        if self.has_room(moments.products.size + _CELLS_OF_A_NAME):
            names, by = (tuple(variable.name for variable in listed) for listed in (numbers, given))
            self.moments[names, by] = (*numbers, *given), incomplete, moments


class RowCounter(Counter):
    """Counts rows in passes, of which there is one in memory; what is asked again, and its margins, needs no other.

    Parameters
    ----------
    rows : Rows
    variables : iterable of Variable
        What the columns are read as.
    jobs : int, optional
        Threads that may share a pass in memory, by default `get_jobs`.

    Examples
    --------
    >>> import hybridbn as hb
    >>> scan = hb.scan({"a": ["x", "y", "y"], "b": ["u", "u", None]})
    >>> counter = RowCounter(scan, scan.variables)
    >>> counter.pairs(("a", "b"))["a", "b"]
    array([[1.],
           [1.]])
    """

    sizes: Mapping[str, int]

    variables: dict[str, Variable]

    def __init__(self, rows: Rows, variables: Iterable[Variable], jobs: int | None = None) -> None:
        self.rows, self.jobs = rows, get_jobs() if jobs is None else jobs
        self.variables = {variable.name: variable for variable in variables}
        self.sizes = {name: len(one) for name, one in self.variables.items() if isinstance(one, Discrete)}
        self._memory: _Memory = rows.remembered.setdefault(_Memory, _Memory())
        self._owner: _Owner | None = None

    def persist(self) -> RowCounter:
        """Return a counter that keeps joint codes of columns, too."""
        counter = RowCounter(self.rows, self.variables.values(), self.jobs)
        counter._owner = _Owner()
        return counter

    @cached_property
    def incomplete(self) -> frozenset[str]:
        """The columns with missing cells."""
        return frozenset(name for name in self.variables if self.rows.count_missing(name))

    def count(self, families: Iterable[Names], *, holes: bool = False) -> Counts:
        """Count what is not known, in one pass."""
        families = list(families)
        if holes:
            (counts,) = self._pass([("holes", (families,))], families)
            return Counts({names: counts[names] for names in families})
        known = {names: self._find(names) for names in families}
        counted, unknown = self._look_up(names for names, table in known.items() if table is None)
        if unknown:
            refuse_too_many_cells(sum(math.prod(self.shape(names)) for names in unknown), self.sizes)
            (counts,) = self._pass([("count", (unknown,))], unknown)
            self._remember(counts)
            counted |= counts
        return Counts({names: counted[names] if table is None else table for names, table in known.items()})

    def with_target(self, names: Iterable[str], target: Names) -> Counts:
        """Count all columns where joint codes of them are kept, else those that are not known."""
        chosen = tuple(names)
        if self._owner is None:
            return super().with_target(chosen, target)
        known = self._find_all([(*target, name) for name in chosen])
        if known is not None:
            return known
        tables: Counts = self._pass([("with_target", (chosen, target))], [(*target, *chosen)])[0]
        self._memory.add_crossed(self.variables, target, tables)
        return tables

    def pairs(self, names: Sequence[str], given: Names = ()) -> Counts:
        """Count all pairs in one pass."""
        wanted = [(*given, *pair) for pair in itertools.combinations(names, 2)]
        known = self._find_all(wanted)
        if known is not None:
            return known
        refuse_too_many_cells(sum(math.prod(self.shape(family)) for family in wanted), self.sizes)
        (counts,) = self._pass([("pairs", (tuple(names), tuple(given)))], wanted)
        self._remember(counts)
        return Counts({family: counts[family] for family in wanted})

    def pair_batches(self, names: Sequence[str], given: Names = ()) -> Iterator[Counts]:
        """Count all pairs in one pass if their tables are small together, else in several."""
        sizes = [self.sizes[name] for name in names]
        # the sum of the products of all pairs
        cells = math.prod(self.shape(given)) * (sum(sizes) ** 2 - sum(size**2 for size in sizes)) // 2
        yield from [self.pairs(names, given)] if cells <= _PASS_CELLS else super().pair_batches(names, given)

    def occurring(self, names: Names) -> tuple[Codes, Values]:
        """Count the configurations that occur where a table of all would be large."""
        table = self._find(names)
        if table is None and math.prod(self.shape(names)) <= _CELLS_OF_A_NAME:
            table = self.joint(names)
        if table is not None:
            return list_occurring(table)
        (occurring,) = self._pass([("occurring", (names,))], [names])
        return occurring.keys, occurring.weights

    def moments(self, numbers: Names, given: Names = ()) -> Moments:
        """Return moments that are known, or make a pass."""
        known = self._find_moments(numbers, given)
        if known is None:
            (known,) = self._pass([("moments", (numbers, given))], [(*numbers, *given)])
            self._remember_moments(numbers, given, known)
        return known

    def prepare(self, families: Iterable[Names], moments: Iterable[tuple[Names, Names]]) -> None:
        """Learn in one pass what will be asked."""
        _, unknown = self._look_up(names for names in families if self._find(names) is None)
        complete: dict[Names, list[str]] = {}
        requests: list[Request] = []
        for numbers, given in moments:
            if self._find_moments(numbers, given) is not None:
                continue
            if self.incomplete.isdisjoint((*numbers, *given)):
                # from the products of all numbers those of any follow
                complete.setdefault(given, []).extend(numbers)
            else:
                requests.append(("moments", (numbers, given)))
        requests += [("moments", (tuple(dict.fromkeys(listed)), given)) for given, listed in complete.items()]
        if unknown:
            requests.append(("count", (unknown,)))
        if not requests:
            return
        used = [*unknown, *((*request[1][0], *request[1][1]) for request in requests if request[0] == "moments")]
        for (method, arguments), result in zip(requests, self._pass(requests, used), strict=True):
            if method == "count":
                self._remember(result)
            else:
                numbers, given = arguments
                self._remember_moments(numbers, given, result)

    # -- passes, and what is remembered of them ---------------------------------------------------------------------

    def _pass(self, requests: Sequence[Request], used: Iterable[Names]) -> tuple[Any, ...]:
        names = dict.fromkeys(name for family in used for name in family)
        task = CountTask(tuple(requests), tuple(self.variables.values()), self.incomplete, self.jobs, self._owner)
        return self.rows.learn(task, [self.variables[name] for name in names]).results

    def _look_up(self, families: Iterable[Names]) -> tuple[dict[Names, Values], list[Names]]:
        """Return the tables that the rows tell without a pass, and which ones they don't."""
        listed = list(dict.fromkeys(families))
        told = self.rows.count_families([names for names in listed if not _repeats(names)], self.variables)
        self._remember(told)
        return dict(told), [names for names in listed if names not in told]

    def _remember(self, counts: Mapping[Names, Values]) -> None:
        for names, table in counts.items():
            if not _repeats(names):
                self._memory.add_table(tuple(self.variables[name] for name in names), table)

    def _find(self, names: Names) -> Values | None:
        """Return a table that is known, or is a margin of one."""
        key = frozenset(names)
        if _repeats(names):
            return None
        table = self._recall(key, names)
        if table is None and self._memory.crossed:
            table = self._recall_crossed(key, names)
        if table is None and key in self._memory.wider:
            wider = self._memory.wider[key]
            (rest,) = wider - key
            # a row that lacks this cell is not in the table, but is in that of the others
            if rest in self.variables and rest not in self.incomplete:
                joint = self._recall(wider, (*names, rest))
                table = None if joint is None else joint.sum(axis=-1)
        return table

    def _find_all(self, families: Iterable[Names]) -> Counts | None:
        """Return the tables of all families if none is unknown, looking no further than the first that is."""
        tables = {}
        for names in families:
            table = self._find(names)
            if table is None:
                return None
            tables[names] = table
        return Counts(tables)

    def _recall(self, key: frozenset[str], names: Names) -> Values | None:
        variables, table = self._memory.tables.get(key, ((), None))
        if table is None or not self._has_same(variables):
            return None
        order = [variable.name for variable in variables]
        return np.ascontiguousarray(table.transpose([order.index(name) for name in names]))

    def _recall_crossed(self, key: frozenset[str], names: Names) -> Values | None:
        """Return a table that was counted together with those of other columns."""
        for name in names:
            if key - {name} not in self._memory.crossed:
                continue
            variables, target, counts = self._memory.crossed[key - {name}]
            order = (*target, name)
            if order in counts and self._has_same(variables[one] for one in names):
                return np.ascontiguousarray(counts[order].transpose([order.index(one) for one in names]))
        return None

    def _has_same(self, variables: Iterable[Variable]) -> bool:
        for one in variables:
            mine = self.variables.get(one.name)
            if mine is not one and mine != one:
                return False
        return True

    def _remember_moments(self, numbers: Names, given: Names, moments: Moments) -> None:
        listed, by = (tuple(self.variables[name] for name in names) for names in (numbers, given))
        self._memory.add_moments(listed, by, self.incomplete.intersection((*numbers, *given)), moments)

    def _find_moments(self, numbers: Names, given: Names) -> Moments | None:
        for (held, by), (variables, incomplete, moments) in list(self._memory.moments.items()):
            # of the other columns, which these rows may lack, only missing cells matter
            others = set(held) - set(numbers)
            if by != given or not set(numbers) <= set(held) or others & incomplete:
                continue
            if not self._has_same(one for one in variables if one.name not in others):
                continue
            places = [held.index(name) for name in numbers]
            chosen = np.ix_(range(len(moments.weights)), places, places)
            return Moments(moments.total, moments.weights, moments.means[:, places], moments.products[chosen])
        return None


def _repeats(names: Names) -> bool:
    """Tell whether a column is named twice, whose counts are not remembered."""
    return len(set(names)) < len(names)


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
