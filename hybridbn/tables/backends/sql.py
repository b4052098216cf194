"""Sources that speak SQL: counts by GROUP BY, computed where the table lives, and the tables of databases."""

from __future__ import annotations

import datetime
import decimal
import math
import os
import re
from abc import abstractmethod
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias
from urllib.parse import quote

import numpy as np

from hybridbn.errors import TableError
from hybridbn.registry import LazyModule
from hybridbn.tables.backends.base import BATCH_ROWS, Batch, Fragment, Source, Task
from hybridbn.tables.backends.batches import can_be_coded
from hybridbn.tables.backends.profiles import TRACKED, ColumnTally, Profile, ProfileTask
from hybridbn.tables.cells import REST
from hybridbn.tables.columns import read_cells
from hybridbn.tables.formats.base import name_file_in_errors
from hybridbn.tables.formats.database_base import QueryResult, database_of, quote_name
from hybridbn.tables.formats.text_blocks import shift_lines_in_errors
from hybridbn.tables.formats.typed_columns import WantedColumns
from hybridbn.tables.frames.arrow import kind_of_type
from hybridbn.variables import Discrete, Values, Variable

pyarrow = LazyModule("pyarrow")

Names: TypeAlias = tuple[str, ...]

_MOST_COLUMNS = 31
"""The most columns by which one query groups, because GROUPING returns a number with a bit for each."""
_FEW_FAMILIES = 3
"""Counts are asked for in SQL where there are at most so many families for each column; more are counted faster from
the rows.
"""


class SQLSource(Source):
    """A table that is asked in SQL. An implementation runs queries about it, whose name in them is ``scanned``."""

    groups_sets: bool = True
    """Whether GROUPING SETS is known."""

    @abstractmethod
    def rows(self, query: str) -> Iterable[Sequence[Any]]:
        """Return the rows of a query."""

    def learn(self, task: Task) -> Any:
        """Return profiles from SQL."""
        return self._profile(task) if isinstance(task, ProfileTask) else None

    def count(
        self, families: Sequence[Names], variables: Mapping[str, Variable], weights: str | None
    ) -> dict[Names, Values]:
        """Return the counts of few families."""
        named = {name for names in families for name in names}
        codes: dict[str, dict[Hashable, int]] = {
            name: {state: code for code, state in enumerate(one.states)}
            for name in named
            if isinstance(one := variables[name], Discrete)
        }
        plain = len(codes) == len(named) and all(getattr(variables[name], "cuts", None) is None for name in named)
        if not (plain and self._suits(families) and self._are_plain(named)):
            return {}
        tables = {names: np.zeros([len(codes[name]) for name in names]) for names in families}
        for names, values, count in self._group(families, weights):
            if None in values:
                continue
            place = []
            for name, value in zip(names, values, strict=True):
                own = codes[name]
                if value not in own and REST not in own:
                    raise TableError(f"column {name!r}: {value!r} is no state; the table was changed while it was read")
                place.append(own[value] if value in own else own[REST])
            tables[names][tuple(place)] += count
        return tables

    def _suits(self, families: Sequence[Names]) -> bool:
        return len(families) <= _FEW_FAMILIES * len({name for names in families for name in names})

    def _are_plain(self, names: Iterable[str]) -> bool:
        """Tell whether the values of columns come out of a query as their states."""
        types = pyarrow.types
        kinds = [self.schema.field(name).type for name in names]
        return all((can_be_coded(kind) and not types.is_dictionary(kind)) or types.is_boolean(kind) for kind in kinds)

    def _group(self, families: Sequence[Names], weights: str | None) -> Iterator[tuple[Names, Sequence[Any], float]]:
        """Yield families with the values of each configuration that occurs, None for a missing cell, and its weight."""
        total = "count(*)" if weights is None else f"sum({quote_name(weights)})"
        if not self.groups_sets:
            for names in families:
                listed = ", ".join(map(self.key, names))
                for *values, count in self.rows(f"SELECT {listed}, {total} FROM scanned GROUP BY {listed}"):
                    yield names, values, float(count)
            return
        for part in _divide(families):
            columns = list(dict.fromkeys(name for names in part for name in names))
            listed = ", ".join(map(quote_name, columns))
            sets = ", ".join(f"({', '.join(map(quote_name, names))})" for names in part)
            query = f"SELECT GROUPING({listed}), {total}, {listed} FROM scanned GROUP BY GROUPING SETS ({sets})"
            last = len(columns) - 1
            # a bit is set where the column is not grouped by
            by_bits = {
                sum(1 << last - place for place, name in enumerate(columns) if name not in names): names
                for names in part
            }
            places = {names: [2 + columns.index(name) for name in names] for names in part}
            for row in self.rows(query):
                names = by_bits[int(row[0])]
                yield names, [row[place] for place in places[names]], float(row[1])

    def _profile(self, task: ProfileTask) -> Profile | None:
        types = pyarrow.types
        states, numbers = [], []
        for one in task.schema:
            held = kind_of_type(one.type)
            declared = task.kinds.get(one.name)
            if declared != "continuous" and (held == "text" or (declared == "discrete" and held == "integer")):
                states.append(one.name)
            elif held in ("integer", "float"):
                numbers.append(one.name)
            else:
                return None
        if not self._are_plain(states):
            return None
        families = [names for names in task.families if {*names} <= {*states}]
        joint = {names[-1] for names in families if len(names) > 1}
        given = {name for names in families if len(names) > 1 for name in names[:-1]}
        alone: list[Names] = [(name,) for name in states if name not in joint | given or task.weights is not None]
        groups: dict[Names, dict[tuple[Any, ...], float]] = {names: {} for names in [*families, *alone]}
        if not self._suits(list(groups)) and len(groups) > len(states):
            return None
        for names, values, count in self._group(list(groups), None):
            groups[names][tuple(values)] = count
            if len(groups[names]) > TRACKED:
                return None
        weights = groups
        if task.weights is not None:
            weights = {names: {} for names in groups}
            for names, values, count in self._group(list(groups), task.weights):
                weights[names][tuple(values)] = count
        asked = self._ask_ranges(numbers, task.weights)
        if asked is None:
            # what the rows hold is told while they are read
            return None
        rows, weight, ranges = asked
        columns = {name: self._tally(name, groups) for name in states} | ranges
        wanted = {name: int if types.is_integer(task.schema.field(name).type) else str for name in states}
        if not rows or any(type(one) is not wanted[name] for name in states for one in columns[name].counts or ()):
            # what the rows hold is told while they are read
            return None
        tables = {names: _tabulate(names, weights[names], columns) for names in families}
        ordered = {name: columns[name] for name in task.schema.names}
        return Profile(rows, weight, ordered, tables, task.weights is not None)

    def _tally(self, name: str, groups: Mapping[Names, Mapping[tuple[Any, ...], float]]) -> ColumnTally:
        """Return the counts of a column's states, which are margins of any family that it is in."""
        names = next(names for names in sorted(groups, key=len) if name in names)
        place, counts, missing = names.index(name), dict[Hashable, int](), 0
        for values, count in groups[names].items():
            if values[place] is None:
                missing += int(count)
            else:
                counts[values[place]] = counts.get(values[place], 0) + int(count)
        return ColumnTally(missing, counts)

    def _ask_ranges(
        self, numbers: Sequence[str], weights: str | None
    ) -> tuple[int, float, dict[str, ColumnTally]] | None:
        """Return the number of rows, their weight, and the ranges of columns of numbers; None where some are none."""
        types = pyarrow.types
        parts = ["count(*)", "count(*)" if weights is None else f"sum({quote_name(weights)})"]
        for name in numbers:
            cell = own = quote_name(name)
            if types.is_floating(self.schema.field(name).type):
                own = f"CASE WHEN NOT {self.is_nan(cell)} THEN {cell} END"
            ranged = own if weights is None else f"CASE WHEN {quote_name(weights)} > 0 THEN {own} END"
            parts += [f"count({own})", f"min({ranged})", f"max({ranged})"]
        (row,) = list(self.rows(f"SELECT {', '.join(parts)} FROM scanned"))
        rows, tallies = int(row[0]), {}
        for name, (count, low, high) in zip(numbers, zip(row[2::3], row[3::3], row[4::3], strict=True), strict=True):
            if (
                isinstance(low, str)
                or isinstance(high, str)
                or not math.isfinite(low or 0)
                or not math.isfinite(high or 0)
            ):
                return None
            integer = types.is_integer(self.schema.field(name).type)
            ends = (math.inf, -math.inf) if low is None else (float(low), float(high))
            tallies[name] = ColumnTally(rows - int(count), None, 0, *ends, integer=integer)
        return rows, float(row[1] or 0), tallies

    def key(self, name: str) -> str:
        """Return a column as it is grouped by."""
        return quote_name(name)

    def is_nan(self, cell: str) -> str:
        """Return the condition that a float is no number."""
        return f"({cell} <> {cell})"


def _divide(families: Sequence[Names]) -> Iterator[list[Names]]:
    part: list[Names] = []
    columns: set[str] = set()
    for names in families:
        if part and len(columns | {*names}) > _MOST_COLUMNS:
            yield part
            part, columns = [], set()
        part.append(names)
        columns |= {*names}
    if part:
        yield part


def _tabulate(names: Names, counts: Mapping[tuple[Any, ...], float], columns: Mapping[str, ColumnTally]) -> Values:
    codes: list[Mapping[Hashable, int]] = [
        {state: code for code, state in enumerate(columns[name].counts or ())} for name in names
    ]
    table = np.zeros([len(own) for own in codes])
    for values, count in counts.items():
        if None not in values:
            table[tuple(own[value] for own, value in zip(codes, values, strict=True))] = count
    return table


# -- databases ---------------------------------------------------------------------------------------------------------


_ADDRESS = re.compile(r"[?&](table|query)=")
_TEXTS = ("CHAR", "TEXT", "CLOB", "STRING", "ENUM")


def open_database(given: Any, kinds: Mapping[str, str]) -> Source | None:
    """Return the table or query that an address names, such as ``"sqlite:///f.db?table=t"``; None for anything else.

    Examples
    --------
    >>> import sqlite3, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     connection = sqlite3.connect(f"{folder}/f.db")
    ...     _ = connection.executescript("CREATE TABLE t (c TEXT, x REAL); INSERT INTO t VALUES ('a', 1.5)")
    ...     connection.close()
    ...     open_database(f"sqlite:///{folder}/f.db?table=t", {}).schema.names
    ['c', 'x']
    """
    text = os.fspath(given) if isinstance(given, str | os.PathLike) else None
    if not isinstance(text, str) or not _ADDRESS.search(text) or not re.match(r"[a-zA-Z][\w+.-]*:", text):
        return None
    return DatabaseTable(text, kinds)


class DatabaseTable(SQLSource):
    """A table of a database, or the result of a query, which is asked again in every pass."""

    groups_sets = False

    def __init__(self, url: str, kinds: Mapping[str, str]) -> None:
        form = database_of(url)
        self.shown = form.locate(url).shown
        self._form, self._url = form, url
        self._select = form.select_statement(url)
        with form.open_result(url, WantedColumns()) as result:
            names, rows = WantedColumns().names(result.names), next(result.batches, [])
            columns: Sequence[Sequence[Any]] = list(zip(*rows, strict=True)) or [()] * len(names)
            types = [
                _choose_type(name, column, result, kinds.get(name)) for name, column in zip(names, columns, strict=True)
            ]
        self.schema = pyarrow.schema([pyarrow.field(name, kind) for name, kind in zip(names, types, strict=True)])

    def fragments(self) -> Sequence[Fragment]:
        """Return the table."""
        return [_DatabaseFragment(self._url, self.schema)]

    def learn(self, task: Task) -> Any:
        """Return profiles and counts of few families from SQL, where its groups are those of exact values."""
        return None if self._select is None else super().learn(task)

    def rows(self, query: str) -> Iterable[Sequence[Any]]:
        """Run a query."""
        assert self._select is not None
        base, select, _ = self._select
        asked = quote(f"WITH scanned AS ({select}) {query}", safe="")
        with self._form.open_result(f"{base}?query={asked}", WantedColumns()) as result:
            for batch in result.batches:
                yield from batch

    def key(self, name: str) -> str:
        """Group by exact values, whatever the column's collation is."""
        assert self._select is not None
        return f"{quote_name(name)} COLLATE BINARY" if self._select[2] == "sqlite" else quote_name(name)

    def is_nan(self, cell: str) -> str:
        """NaN is equal to itself in PostgreSQL, and NULL in SQLite."""
        in_postgresql = self._select is not None and self._select[2] == "postgresql"
        return f"(CAST({cell} AS double precision) = 'NaN')" if in_postgresql else "(1 = 0)"


def _choose_type(name: str, column: Sequence[Any], result: QueryResult, kind: str | None) -> Any:
    """Return the Arrow type of a column from its first values, and from its declared type where these are missing."""
    held = {type(value) for value in column if value is not None}
    declared = result.declared.get(name)
    told = "" if declared is None else str(declared.type).upper()
    if name in result.truths or held == {bool}:
        return pyarrow.bool_()
    if held <= {int, float, decimal.Decimal} and (held or not any(text in told for text in _TEXTS)):
        # what begins with whole numbers may go on with others, unless its type says that it does not
        whole = held == {int} and ("INT" in told or kind == "discrete")
        return pyarrow.int64() if whole else pyarrow.float64()
    if held <= {str} or any(issubclass(own, str) for own in held):
        return pyarrow.string()
    if datetime.datetime in held:
        zones = {value.tzinfo is not None for value in column if value is not None}
        return pyarrow.timestamp("us", "UTC" if zones == {True} else None)
    if held <= {datetime.date, datetime.time, datetime.timedelta}:
        return pyarrow.array([value for value in column if value is not None][:1]).type
    if any(issubclass(own, bytes | bytearray | memoryview) for own in held):
        return pyarrow.binary()
    return pyarrow.string()


@dataclass(frozen=True)
class _DatabaseFragment(Fragment):
    """All rows of a table or a query, in the order of its primary key if it has one."""

    url: str
    schema: Any

    def batches(self, columns: Sequence[str], rows: int = BATCH_ROWS) -> Iterator[Batch]:
        """Yield the rows as they are fetched."""
        first = 0
        form, wanted = database_of(self.url), WantedColumns(columns=tuple(columns))
        with name_file_in_errors(form.locate(self.url).shown), form.open_result(self.url, wanted) as result:
            places = [result.names.index(name) for name in columns]
            held: list[Sequence[Any]] = []
            for batch in result.batches:
                held += batch
                if len(held) >= rows:
                    yield Batch(first, self._convert(held, columns, places, first))
                    first, held = first + len(held), []
            if held:
                yield Batch(first, self._convert(held, columns, places, first))

    def _convert(self, rows: Sequence[Sequence[Any]], columns: Sequence[str], places: Sequence[int], first: int) -> Any:
        cells = ([row[place] for row in rows] for place in places)
        arrays = [self._convert_column(name, held, first) for name, held in zip(columns, cells, strict=True)]
        return pyarrow.record_batch(arrays, list(columns))

    def _convert_column(self, name: str, cells: Sequence[Any], first: int) -> Any:
        kind = self.schema.field(name).type
        convert: Any = {"double": float, "bool": bool, "string": _spell}.get(str(kind))
        try:
            if convert is not None:
                cells = [None if cell is None else convert(cell) for cell in cells]
            array = pyarrow.array(cells, kind)
        except (pyarrow.ArrowException, TypeError, ValueError) as error:
            raise TableError(
                f"column {name!r} begins with values of type {kind} and goes on with others ({error}), in rows"
                f" {first} to {first + len(cells) - 1}; convert them in a query: ?query=SELECT ..."
            ) from None
        if convert is float:
            with shift_lines_in_errors(-1, first, "row"):
                read_cells(name, array)  # which refuses infinite numbers
        return array


def _spell(value: Any) -> str:
    if isinstance(value, int | float | bytes):
        raise TypeError(f"{value!r} is no text")
    return str(value)
