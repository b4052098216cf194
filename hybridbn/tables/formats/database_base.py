"""What databases of all kinds share: results on their way in, new tables on their way out."""

from __future__ import annotations

import contextlib
import datetime
import json
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import AbstractContextManager
from copy import copy
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, TypeAlias

from hybridbn.errors import FormatError, TableError
from hybridbn.registry import LazyModule, Registered, Registry
from hybridbn.tables import Table
from hybridbn.tables.formats.base import (
    DatabaseType,
    Field,
    Kinds,
    TableBlock,
    TableFormat,
    TableSource,
    Writer,
    cell_values,
    fields_of,
)
from hybridbn.tables.formats.files import encode_text, open_private
from hybridbn.tables.formats.row_encoding import decode_rows, encode_rows, kind_of_types
from hybridbn.tables.formats.text_blocks import (
    RecordChunk,
    TextSource,
    make_line_splitter,
    plain_text,
    shift_lines_in_errors,
)
from hybridbn.tables.formats.typed_columns import WantedColumns, type_objects
from hybridbn.variables import shorten

pyarrow: LazyModule = LazyModule("pyarrow")

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


_NODE = re.compile(r'"type":"(\w+_NODE)"')
_READING_NODES = {"SELECT_NODE", "SET_OPERATION_NODE", "RECURSIVE_CTE_NODE", "CTE_NODE"}
"""What a query that only reads consists of, in the words of DuckDB's parser."""
_TEXTS = ("CHAR", "TEXT", "CLOB", "STRING", "ENUM")

Insert: TypeAlias = Callable[[list[Sequence[Any]]], None]
"""Sends rows to a new table."""


class DatabaseLocation(NamedTuple):
    """Where an address leads: what messages call it, the file if it is one, the table or the query, and the address of
    a database that is no file, and the schema there.
    """

    shown: str
    file: Path | None
    table: str = ""
    query: str = ""
    url: str = ""
    schema: str | None = None


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

    def read(self, url: str, wanted: WantedColumns) -> Table:
        """Read a table or the result of one query; NULL is a missing cell."""
        with self.open_result(url, wanted) as relation:
            rows = [row for batch in relation.batches for row in batch]
            chosen = wanted.names(relation.names)
            return type_objects(gather_columns(rows, relation.names, relation.truths, chosen), wanted)

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


def gather_columns(
    rows: Sequence[Sequence[Any]], names: Sequence[str], truths: Set[str], chosen: Iterable[str]
) -> dict[str, list[Any]]:
    """Return some columns of rows, truth values that are held as 0 and 1 as such.

    Examples
    --------
    >>> gather_columns([(1, "a"), (0, None)], ["b", "c"], {"b"}, ["c", "b"])
    {'c': ['a', None], 'b': [True, False]}
    """
    places = {name: names.index(name) for name in chosen}
    columns = {name: [row[place] for row in rows] for name, place in places.items()}
    for name in columns.keys() & truths:
        columns[name] = [bool(value) if value in (0, 1) else value for value in columns[name]]
    return columns


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
    return value.isoformat(" ") if isinstance(value, datetime.datetime) else plain_text(value)


def parse_duckdb_query(query: str) -> Any:
    """Return a query as DuckDB's own parser reads it; refuse anything but one statement that only reads.

    Examples
    --------
    >>> parse_duckdb_query("SELECT 1; DROP TABLE t")  # doctest: +SKIP
    Traceback (most recent call last):
        ...
    hybridbn.errors.TableError: the query is not one SELECT statement: 'SELECT 1; DROP TABLE t'
    """
    duckdb: Any = import_module("duckdb")
    encode_text(query)
    with duckdb.connect() as connection:
        (text,) = connection.execute("SELECT json_serialize_sql(?::VARCHAR)", [query]).fetchone()
    parsed = json.loads(text)
    if parsed.get("error_type") == "parser":
        raise TableError(f"the query: DuckDB can't read it: {parsed['error_message']}")
    # a WITH may write, too
    if parsed["error"] or len(parsed["statements"]) != 1 or not {*_NODE.findall(text)} <= _READING_NODES:
        hint = " (a PIVOT lists its columns: ON c IN ('a', 'b'))" if "pivot" in query.lower() else ""
        raise TableError(f"the query is not one SELECT statement{hint}: {query[:60]!r}")
    return parsed


def quote_text(text: str) -> str:
    """Return a text as SQL has it.

    Examples
    --------
    >>> print(quote_text("it's"))
    'it''s'
    """
    return "'" + text.replace("'", "''") + "'"


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


# -- blocks -----------------------------------------------------------------------------------------------------------


class RowSource(TextSource):
    """A table of a database, or the result of a query, read once, in one statement, into a file.

    What one statement gives is consistent, whatever others write meanwhile, and no connection stays open while the
    model is learned.
    """

    def __init__(self, form: Database, url: str, path: Path, shown: str) -> None:
        zoned: set[str] = set()
        with form.open_result(url, WantedColumns()) as relation, open_private(path) as file:
            names = WantedColumns().names(relation.names)
            types: list[set[type]] = [set() for _ in names]
            file.write(json.dumps(names).encode() + b"\n")
            for batch in relation.batches:
                for number, column in enumerate(zip(*batch, strict=True)):
                    types[number].update(map(type, column))
                    if datetime.datetime in types[number] and any(getattr(value, "tzinfo", None) for value in column):
                        zoned.add(names[number])
                file.write(encode_rows(map(tuple, batch), names))
        kinds = {name: kind_of_types(held) for name, held in zip(names, types, strict=True)}
        kinds |= dict.fromkeys(zoned, "instant") | dict.fromkeys(relation.truths, "bool")
        super().__init__(path, shown, make_line_splitter(), _decode_block)
        self.names: list[str] = names
        self.header_lines: int = 1
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
        """Return which row it is: the lines of the file that it was copied to are ours."""
        return TableSource.line_of(self, row)


def _decode_block(start: int, rows: int, source: RowSource, piece: RecordChunk) -> RowBlock:
    return RowBlock(start, rows, source, decode_rows(piece.data))


@dataclass(eq=False)
class RowBlock(TableBlock):
    """Some rows of a table of a database, as they are there."""

    source: RowSource | QuerySource
    held: Sequence[Sequence[Any]]

    def read(self, names: Sequence[str], kinds: Kinds) -> Table:
        """Return columns as typed ones."""
        wanted = WantedColumns({name: kind for name, kind in kinds.items() if name in names})
        with shift_lines_in_errors(-1, self.start, "row"):
            return type_objects(self.values(names), wanted)

    def values(self, names: Sequence[str]) -> dict[str, list[Any]]:
        """Return columns as they are in the database."""
        return gather_columns(self.held, self.source.names, self.source.truths, names)


class QuerySource(TableSource):
    """A table of a database, or the result of a query, which is asked again whenever it is read."""

    first_rows = BATCH

    def __init__(self, url: str) -> None:
        self._url = url
        self.shown: str = database_of(url).locate(url).shown
        with database_of(url).open_result(url, WantedColumns()) as relation:
            self.names: list[str] = WantedColumns().names(relation.names)
            self.truths: frozenset[str] = relation.truths
            self._told = {name: str(declared.type).upper() for name, declared in relation.declared.items()}

    def blocks(self, rows: int, first: int = 0) -> Iterator[RowBlock]:
        """Give all rows, in blocks of so many or a few more."""
        with database_of(self._url).open_result(self._url, WantedColumns(columns=tuple(self.names))) as relation:
            self.names = relation.names
            start, held = 0, list[Sequence[Any]]()
            for batch in relation.batches:
                held += batch
                if len(held) >= rows:
                    yield RowBlock(start, len(held), self, held)
                    start, held = start + len(held), []
            if held:
                yield RowBlock(start, len(held), self, held)

    def batches(self, types: Mapping[str, Any], kinds: Kinds, rows: int, part: Any = None) -> Iterator[tuple[int, Any]]:
        """Give columns as Arrow record batches, and ask for no others."""
        asked = copy(self)
        asked.names = list(types)
        yield from TableSource.batches(asked, types, kinds, rows)

    def open_type(self, name: str, kind: Any, declared: Any) -> Any:
        """Return the type of a column that begins with cells of a type, which its type in the database may tell."""
        told = self._told.get(name, "")
        if pyarrow.types.is_null(kind) and any(text in told for text in _TEXTS):
            return pyarrow.string()
        return kind if pyarrow.types.is_integer(kind) and "INT" in told else super().open_type(name, kind, declared)


# -- writing ----------------------------------------------------------------------------------------------------------


class _Rollback(Exception):
    """Takes back what was made."""


class DatabaseWriter(Writer):
    """Writes a new table of a database from rows, in one transaction."""

    def __init__(self, form: Database, fields: Sequence[Field], url: str, counter: str | None) -> None:
        super().__init__(fields, counter)
        self._form, self._url = form, url

    def try_to_create(self) -> None:
        """Make the table and take it back, to find out what is refused before anything is learned."""
        with contextlib.suppress(_Rollback), self._form.create_table(self._url, self.fields):
            raise _Rollback

    def insert(self, parts: Iterable[bytes]) -> None:
        """Make the table with the rows of all parts."""
        with self._form.create_table(self._url, self.fields) as insert:
            for part in parts:
                insert(list(decode_rows(part)))
