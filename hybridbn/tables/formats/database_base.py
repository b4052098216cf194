"""What databases of all kinds share: results on their way in, new tables on their way out."""

from __future__ import annotations

import contextlib
import datetime
import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, TypeAlias

from hybridbn.errors import FormatError, TableError
from hybridbn.registry import Registered, Registry
from hybridbn.tables import Table
from hybridbn.tables.cells import Cells, UnsupportedType
from hybridbn.tables.formats.base import (
    DatabaseType,
    Field,
    Kinds,
    TableFormat,
    TableSource,
    Writer,
    cell_values,
    fields_of,
)
from hybridbn.tables.formats.row_encoding import decode_rows, encode_rows, kind_of_types
from hybridbn.tables.formats.text_blocks import (
    RecordChunk,
    TextBlock,
    TextSource,
    make_line_splitter,
    shift_lines_in_errors,
    spell_duration,
)
from hybridbn.tables.formats.typed_columns import ReadColumns, WantedColumns, type_objects
from hybridbn.variables import shorten

BATCH = 10_000
"""Rows that are fetched, or sent, at a time."""


class OutputExists(FormatError, FileExistsError):
    """The output is there already, and `overwrite` was not asked for."""


class NotWritten(FormatError):
    """A database did not take a table; nothing of it stays.

    Attributes
    ----------
    begun : bool
        Whether rows were on their way already; otherwise the table could not even be made.
    """

    def __init__(self, text: str, *, begun: bool) -> None:
        super().__init__(text)
        self.begun = begun


@dataclass(frozen=True)
class QueryResult:
    """The result of one statement.

    Attributes
    ----------
    names : list of str
    batches : iterator of lists of rows
        All rows, each a sequence of Python's values, None for NULL.
    declared : mapping from name to DatabaseType
        Of a table's columns; a query's have none.
    truths : frozenset of str
        Columns of truth values that the rows may hold as 0 and 1.
    ranges : mapping from name to (low, high)
        What the types of integers, and of numbers with so many digits, can hold.
    key : tuple of str
        The columns of a table's primary key.
    """

    names: list[str]
    batches: Iterator[list[Sequence[Any]]]
    declared: Mapping[str, DatabaseType] = field(default_factory=dict)
    truths: frozenset[str] = frozenset()
    ranges: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    key: tuple[str, ...] = ()


Insert: TypeAlias = Callable[[list[Sequence[Any]]], None]
"""Sends rows to a new table."""


class DatabaseLocation(NamedTuple):
    """Where an address leads: what messages call it, the file if it is one, and the table; a query has no table."""

    shown: str
    file: Path | None
    table: str


class Database(TableFormat, Registered, ABC):
    """A kind of databases, known by how its addresses begin.

    Attributes
    ----------
    schemes : tuple of str
        The longest one that an address begins with decides; an empty one fits every address.
    """

    title = "a database"
    mixed = False
    exact = True
    schemes: ClassVar[tuple[str, ...]] = ()
    registry: ClassVar[Registry[Database]] = Registry("scheme", "hybridbn.tables.formats", "schemes", instances=True)

    @abstractmethod
    def locate(self, url: str) -> DatabaseLocation:
        """Take an address apart, without a look at the database."""

    @abstractmethod
    def open_result(self, url: str, wanted: WantedColumns) -> AbstractContextManager[QueryResult]:
        """Open a table or the result of a query for reading."""

    def select_statement(self, url: str) -> tuple[str, str, str] | None:
        """Return the address of the database, the statement that gives the rows, and the dialect, where names stand in
        double quotes and groups are those of exact values; None elsewhere.
        """
        return None

    @abstractmethod
    def refuse_present(self, url: str) -> None:
        """Raise `OutputExists` where something has the table's name, `NotWritten` where no table can be made."""

    @abstractmethod
    def create_table(
        self, url: str, columns: Sequence[Field], *, overwrite: bool = False
    ) -> AbstractContextManager[Insert]:
        """Make a table whose rows are sent inside of the context: all of it is there in the end, or nothing."""

    def write(self, table: Table, url: str, *, overwrite: bool = False) -> None:
        """Write a new table in one transaction; one that is there already is refused unless `overwrite`."""
        with self.create_table(url, fields_of(table, self.title, mixed=self.mixed), overwrite=overwrite) as insert:
            for start in range(0, len(table), BATCH):
                part = table[start : start + BATCH]
                insert(list(zip(*(cell_values(part, name) for name in part.names), strict=True)))

    def read(self, url: str, wanted: WantedColumns) -> ReadColumns:
        """Read a table or the result of one query; NULL is a missing cell."""
        with self.open_result(url, wanted) as relation:
            return _gather(relation, wanted)

    def source(self, url: str, folder: Path, shown: str) -> TableSource:
        """Open a table or the result of a query that is read in blocks, from a copy in a folder."""
        return RowSource(self, url, folder / "input.rows", shown)

    def count(self, url: str) -> int:
        """Return how many rows a table has."""
        with self.open_result(url, WantedColumns()) as relation:
            return sum(map(len, relation.batches))


def database_of(url: str) -> Database:
    """Return the kind of database that an address belongs to.

    Examples
    --------
    >>> database_of("sqlite:///f.db?table=t").title, database_of("postgresql+psycopg://host/base?table=t").title
    ('SQLite', 'a database')
    """
    known = Database.registry.load()
    return known[max((scheme for scheme in known if url.startswith(scheme)), key=len)]


# -- reading ----------------------------------------------------------------------------------------------------------


def _gather(relation: QueryResult, wanted: WantedColumns) -> ReadColumns:
    """Return the wanted columns of a result as typed cells."""
    columns: list[list[Any]] = [[] for _ in relation.names]
    for batch in relation.batches:
        for column, part in zip(columns, zip(*batch, strict=True), strict=True):
            column.extend(part)
    values = {name: columns[relation.names.index(name)] for name in wanted.names(relation.names)}
    for name, column in values.items():
        _refuse_binary(name, column)
        if name in relation.truths:
            values[name] = _as_truths(column)
    return type_objects(values, wanted)


def _as_truths(column: Sequence[Any]) -> list[Any]:
    """Return 0 and 1 as truth values.

    Examples
    --------
    >>> _as_truths([1, 0, None])
    [True, False, None]
    """
    return [bool(value) if value in (0, 1) else value for value in column]


def convert_for_database(value: Any, own: tuple[type, ...]) -> Any:
    """Return a value as text where a database has no type for it; those of the types `own` stay.

    Examples
    --------
    >>> import datetime
    >>> values = datetime.datetime(2020, 1, 2), [1, None], 3
    >>> [convert_for_database(value, (int,)) for value in values]
    ['2020-01-02 00:00:00', '[1, null]', 3]
    """
    if value is None or isinstance(value, own):
        return value
    if isinstance(value, dict | list):
        return json.dumps(value, ensure_ascii=False, default=str)
    if isinstance(value, datetime.timedelta):
        return spell_duration(value)
    return value.isoformat(" ") if isinstance(value, datetime.datetime) else str(value)


def check_duckdb_query(query: str) -> None:
    """Refuse what DuckDB's own parser takes for anything but one statement that reads.

    Examples
    --------
    >>> check_duckdb_query("SELECT 1; DROP TABLE t")  # doctest: +SKIP
    Traceback (most recent call last):
        ...
    hybridbn.errors.TableError: the query is not one SELECT statement: 'SELECT 1; DROP TABLE t'
    """
    duckdb: Any = import_module("duckdb")
    try:
        kinds = [statement.type for statement in duckdb.extract_statements(query)]
    except duckdb.Error as error:
        raise TableError(f"the query: DuckDB can't read it: {error}") from None
    # a PIVOT looks for its columns first
    if kinds not in ([duckdb.StatementType.SELECT], [duckdb.StatementType.MULTI]):
        raise TableError(f"the query is not one SELECT statement: {query[:60]!r}")


def quote_name(name: str) -> str:
    """Return the name of a column or a table as SQL has it.

    Examples
    --------
    >>> print(quote_name('a"b'))
    "a""b"
    """
    if "\0" in name:
        raise TableError(f"{name!r}: a name can't hold a NUL character")
    return '"' + name.replace('"', '""') + '"'


def absent_table_error(name: str, present: Sequence[str]) -> TableError:
    """Return the error of a table that is not there.

    Examples
    --------
    >>> absent_table_error("t", [])
    TableError("there is no table 't'; the database holds none")
    """
    there = f"the tables are {shorten(sorted(present))}" if present else "the database holds none"
    return TableError(f"there is no table {name!r}; {there}")


def _refuse_binary(name: str, column: Sequence[Any], first: int = 0) -> None:
    """Refuse a column that holds binary data; `first` is the number of its first row."""
    blob = next((row for row, value in enumerate(column) if isinstance(value, bytes | memoryview)), None)
    if blob is not None:
        raise UnsupportedType(
            f"column {name!r}, row {first + blob}: binary data; cast it to text in a query first", "binary data"
        )


# -- blocks -----------------------------------------------------------------------------------------------------------


class RowSource(TextSource):
    """A table of a database, or the result of a query, read once, in one statement, into a file.

    What one statement gives is consistent, whatever others write meanwhile, and no connection stays open while the
    model is learned.
    """

    def __init__(self, form: Database, url: str, path: Path, shown: str) -> None:
        kinds: dict[str, str] = {}
        with form.open_result(url, WantedColumns()) as relation, open(path, "wb") as file:
            names = WantedColumns().names(relation.names)
            types: list[set[type]] = [set() for _ in names]
            file.write(json.dumps(names).encode() + b"\n")
            for batch in relation.batches:
                for number, column in enumerate(zip(*batch, strict=True)):
                    types[number].update(map(type, column))
                    if datetime.datetime in types[number] and names[number] not in kinds:
                        zones = {value.tzinfo is not None for value in column if value is not None}
                        kinds[names[number]] = "instant" if True in zones else "datetime"
                file.write(encode_rows(map(tuple, batch), names))
        kinds = {name: kind_of_types(held) for name, held in zip(names, types, strict=True)} | {
            name: kind for name, kind in kinds.items() if kind == "instant"
        }
        kinds |= dict.fromkeys(relation.truths, "bool")
        super().__init__(path, shown, make_line_splitter(), RowBlock)
        self.names, self.header_lines = names, 1
        with self.file.open() as stream:
            self.header: bytes = stream.readline()
        self.truths: frozenset[str] = relation.truths
        self.fields: Mapping[str, Field] = {
            name: Field(name, kinds[name], relation.declared.get(name), limits=relation.ranges.get(name))
            for name in names
        }
        # a primary key says nothing about the others
        self.index: frozenset[str] = frozenset(relation.key if len(relation.key) == 1 else ())

    def line_of(self, row: int) -> str:
        """Return the row."""
        return f"row {row}"


class RowBlock(TextBlock):
    """Some rows of a table of a database."""

    def __init__(self, source: RowSource, start: int, piece: RecordChunk) -> None:
        super().__init__(source, start, piece)
        columns = zip(*decode_rows(piece.data), strict=True)
        self._columns = {
            name: _as_truths(column) if name in source.truths else list(column)
            for name, column in zip(source.names, columns, strict=True)
        }

    def cells(self, names: Sequence[str], kinds: Kinds) -> dict[str, Cells]:
        """Return columns as typed cells."""
        chosen = {name: self._columns[name] for name in names}
        for name, column in chosen.items():
            _refuse_binary(name, column, self.start)
        with shift_lines_in_errors(-1, self.start, "row"):
            return type_objects(chosen, WantedColumns({n: kind for n, kind in kinds.items() if n in chosen})).cells

    def values(self, names: Sequence[str]) -> dict[str, list[Any]]:
        """Return columns as they are in the database."""
        return {name: list(self._columns[name]) for name in names}


# -- writing ----------------------------------------------------------------------------------------------------------


class _Rollback(Exception):
    """Takes back what was made."""


class DatabaseWriter(Writer):
    """Writes a new table of a database from rows, in one transaction."""

    def __init__(self, form: Database, fields: Sequence[Field], url: str, counter: str | None) -> None:
        super().__init__(fields, counter)
        self.form, self.url = form, url

    def try_to_create(self) -> None:
        """Make the table and take it back, to find out what is refused before anything is learned."""
        with contextlib.suppress(_Rollback), self.form.create_table(self.url, self.fields):
            raise _Rollback

    def insert(self, parts: Iterable[bytes]) -> None:
        """Make the table with the rows of all parts."""
        with self.form.create_table(self.url, self.fields) as insert:
            for part in parts:
                insert(list(decode_rows(part)))
