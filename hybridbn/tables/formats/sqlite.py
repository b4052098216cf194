"""Tables in SQLite databases: ``sqlite:///file.db?table=t`` and ``sqlite:///file.db?query=SELECT ...``."""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import quote, unquote

from hybridbn.errors import FormatError, TableError
from hybridbn.tables.formats.base import DatabaseType, Field
from hybridbn.tables.formats.database_base import (
    BATCH,
    Database,
    DatabaseLocation,
    Insert,
    NotWritten,
    OutputExists,
    QueryResult,
    absent_table_error,
    convert_for_database,
    quote_name,
)
from hybridbn.tables.formats.files import refuse_special_file, resolve_links
from hybridbn.tables.formats.typed_columns import WantedColumns

_ALLOWED = {
    sqlite3.SQLITE_SELECT,
    sqlite3.SQLITE_READ,
    sqlite3.SQLITE_FUNCTION,
    sqlite3.SQLITE_TRANSACTION,
    33,  # recursive common tables
}
_LIMITS = {
    sqlite3.SQLITE_LIMIT_LENGTH: 1 << 28,
    sqlite3.SQLITE_LIMIT_SQL_LENGTH: 1 << 20,
    sqlite3.SQLITE_LIMIT_LIKE_PATTERN_LENGTH: 1000,
    sqlite3.SQLITE_LIMIT_ATTACHED: 0,
    sqlite3.SQLITE_LIMIT_TRIGGER_DEPTH: 1,
}
"""What one step of SQLite, which can't be interrupted, may hold and compute."""
_STEPS = 100_000
"""SQLite asks whether to go on after so many steps."""
_LOCK_TIMEOUT = 60.0  # seconds, for other writers
_TYPES = {
    "integer": "INTEGER",
    "float": "REAL",
    "bool": "BOOLEAN",
    "text": "TEXT",
    "decimal": "NUMERIC",
    "bytes": "BLOB",
    "date": "DATE",
    "datetime": "TIMESTAMP",
    "instant": "TIMESTAMP",
    "time": "TIME",
    "interval": "TEXT",
}
_OWN = (int, float, str, bytes)


class Sqlite(Database):
    """SQLite's files, by Python's own module."""

    schemes: ClassVar[tuple[str, ...]] = ("sqlite:",)
    title = "SQLite"

    def locate(self, url: str) -> DatabaseLocation:
        """Take an address apart.

        Examples
        --------
        >>> Sqlite().locate("sqlite:///f.db?table=my%20t").table
        'my t'
        """
        location, _, rest = url.removeprefix("sqlite:").partition("?")
        what, _, text = rest.partition("=")
        path = unquote(location.removeprefix("///"))
        if not location.startswith("///") or not path or what not in ("table", "query") or not text:
            raise FormatError(
                f"{url!r} is no address of an SQLite table; write sqlite:///file.db?table=name or"
                " sqlite:///file.db?query=SELECT ... (sqlite:////folder/file.db for an absolute path)"
            )
        # Everything after "table=" or "query=" belongs to it, so that a query may hold & and +.
        return DatabaseLocation(url, Path(path), **{what: unquote(text)})

    def select_statement(self, url: str) -> tuple[str, str, str]:
        """Return the address of the file, and the statement that gives the rows."""
        address = self.locate(url)
        select = address.query or f"SELECT * FROM {quote_name(address.table)}"
        return url.partition("?")[0], select, "sqlite"

    @contextlib.contextmanager
    def open_result(self, url: str, wanted: WantedColumns) -> Iterator[QueryResult]:
        """Open a table or the result of one query, of a database opened read-only.

        A column of a table that is declared BOOLEAN holds truth values. In one statement SQLite shows one state of the
        database, whatever others write meanwhile.
        """
        address = self.locate(url)
        with open(address.file or "", "rb"):  # a missing file is reported as one
            pass
        with _connect(address.file, "ro") as connection, guard_reading(connection):
            statement, declared, key = address.query, dict[str, DatabaseType](), tuple[str, ...]()
            if address.table:
                described = connection.execute(f"PRAGMA table_info({quote_name(address.table)})").fetchall()
                if not described:
                    listed = connection.execute("SELECT name FROM sqlite_master WHERE type IN ('table', 'view')")
                    raise absent_table_error(address.table, [name for (name,) in listed])
                declared = {name: DatabaseType("sqlite", text) for _, name, text, *_ in described}
                key = tuple(name for _, name, *_, position in sorted(described, key=lambda row: row[-1]) if position)
                chosen = wanted.names(list(declared))
                statement = f"SELECT {', '.join(map(quote_name, chosen))} FROM {quote_name(address.table)}"
            allow_only_reading(connection)
            cursor = _execute(connection, statement)
            truths = frozenset(n for n, held in declared.items() if held.type.upper() in ("BOOLEAN", "BOOL"))
            names = [column[0] for column in cursor.description]
            yield QueryResult(names, iter(lambda: cursor.fetchmany(BATCH), []), declared, truths, key=key)

    def refuse_present(self, url: str) -> None:
        """Refuse an address where a table or view is already, and a file that is no database."""
        file, table = _target_of(self.locate(url))
        if file.exists():
            with _connect(file, "ro") as connection:
                _make_room(connection, table, overwrite=False)

    @contextlib.contextmanager
    def create_table(self, url: str, columns: Sequence[Field], *, overwrite: bool = False) -> Iterator[Insert]:
        """Make a table whose rows are sent inside of the context, in one transaction."""
        file, table = _target_of(self.locate(url))
        _refuse_equal_names([column.name for column in columns])
        is_new_file = not file.exists()
        try:
            # a transaction is rolled back where the connection is closed before its end
            with _connect(file, "rwc") as connection:
                with _translate_errors(begun=False):
                    connection.execute("BEGIN IMMEDIATE")
                    _create(connection, table, columns, overwrite)
                with _translate_errors(begun=True):
                    yield _make_inserter(connection, table, columns)
                    connection.execute("COMMIT")
        except BaseException:
            if is_new_file:
                with contextlib.suppress(OSError):
                    os.unlink(file)
            raise


# -- reading ----------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def guard_reading(connection: Any) -> Iterator[None]:
    """Keep what a hostile file's own views may do within limits, and let a signal end what may take for ever.

    SQLite drops what is raised where it asks whether to go on; so that is kept, and raised again.
    """
    connection.execute("PRAGMA trusted_schema=0")
    for limit, most in _LIMITS.items():
        connection.setlimit(limit, most)
    raised: list[BaseException] = []
    watch = _watch_signals(raised)
    next(watch)
    connection.set_progress_handler(watch.__next__, _STEPS)
    try:
        yield
    except BaseException:
        if raised:
            raise raised[0] from None
        raise


def _watch_signals(raised: list[BaseException]) -> Iterator[int]:
    """Yield 0 to go on, and 1 once something was raised.

    Python runs the handlers of signals where a function begins, and where a generator goes on: which is inside of the
    `try` here.
    """
    while True:
        try:
            yield len(raised)
        except GeneratorExit:
            return
        except BaseException as error:
            raised.append(error)


def allow_only_reading(connection: Any) -> None:
    """Let SQLite refuse every statement of a connection that is not a SELECT."""
    connection.set_authorizer(lambda action, *_: sqlite3.SQLITE_OK if action in _ALLOWED else sqlite3.SQLITE_DENY)


def _execute(connection: sqlite3.Connection, statement: str) -> sqlite3.Cursor:
    try:
        cursor = connection.execute(statement)
    except (sqlite3.ProgrammingError, sqlite3.Warning) as error:
        raise TableError(f"the query is not one SELECT statement: {error}") from None
    except sqlite3.DatabaseError as error:
        if "not authorized" in str(error) or "prohibited" in str(error):
            raise TableError(f"only a SELECT is allowed when a table is read: {error}") from None
        if isinstance(error, sqlite3.OperationalError):
            raise TableError(f"SQLite refuses the query: {error}") from None
        raise
    if cursor.description is None:
        raise TableError("the query gives no columns; write one SELECT statement")
    return cursor


@contextlib.contextmanager
def _connect(file: Path | None, mode: str) -> Iterator[sqlite3.Connection]:
    """Open a database; transactions are begun and ended by hand."""
    try:
        name = f"file:{quote(os.fsencode(str(file)))}?mode={mode}"
        connection = sqlite3.connect(name, uri=True, isolation_level=None, timeout=_LOCK_TIMEOUT)
        with contextlib.closing(connection):
            yield connection
    except (sqlite3.DatabaseError, OverflowError, UnicodeDecodeError) as error:
        if isinstance(error, OverflowError):
            raise TableError(f"SQLite holds integers below 2**63 only: {error}") from None
        raise FormatError(f"SQLite: {error}") from error


# -- writing ----------------------------------------------------------------------------------------------------------


def _target_of(address: DatabaseLocation) -> tuple[Path, str]:
    """Return the file and the name of a table that is to be written."""
    if address.file is None or not address.table:
        raise FormatError(f"{address.shown!r}: a table is written to sqlite:///file.db?table=name")
    refuse_special_file(resolve_links(address.file))
    return address.file, address.table


@contextlib.contextmanager
def _translate_errors(*, begun: bool) -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as error:
        full = "full" in str(error) or "disk I/O" in str(error)
        raise NotWritten(f"SQLite: {error}; nothing was written", begun=begun or full) from error
    except UnicodeEncodeError as error:
        raise TableError(f"{error.object[error.start : error.end]!r} can't be written in UTF-8") from None


def _refuse_equal_names(names: list[str]) -> None:
    folded = [name.lower() for name in names]
    clash = next((name for name in names if folded.count(name.lower()) > 1), None)
    if clash is not None:
        raise TableError(f"SQLite takes column names for equal that differ in case only: {clash!r}; rename one")


def _make_room(connection: sqlite3.Connection, name: str, *, overwrite: bool) -> None:
    """Drop a table that may be overwritten; refuse everything else that has the name."""
    exists = connection.execute("SELECT type FROM sqlite_master WHERE lower(name) = lower(?)", (name,)).fetchone()
    if exists and not (overwrite and exists[0] == "table"):
        hint = "overwrite=True would replace it" if exists[0] == "table" else "choose another name"
        raise OutputExists(f"there is a {exists[0]} {name!r} already; {hint}")
    if exists:
        connection.execute(f"DROP TABLE {quote_name(name)}")


def _create(connection: sqlite3.Connection, name: str, columns: Sequence[Field], overwrite: bool) -> None:
    _make_room(connection, name, overwrite=overwrite)
    defined = ", ".join(f"{quote_name(column.name)} {_type_of(column)}".rstrip() for column in columns)
    connection.execute(f"CREATE TABLE {quote_name(name)} ({defined})")


def _type_of(column: Field) -> str:
    declared = column.declared
    if declared is not None and declared.dialect == "sqlite" and isinstance(declared.type, str):
        # SQLite takes a quoted name for a type as it is, so that no word in it is one of a constraint
        return quote_name(declared.type) if declared.type else ""
    return _TYPES.get(column.kind, "")


def _make_inserter(connection: sqlite3.Connection, name: str, columns: Sequence[Field]) -> Insert:
    statement = f"INSERT INTO {quote_name(name)} VALUES ({', '.join('?' * len(columns))})"
    foreign = [i for i, column in enumerate(columns) if column.kind not in ("integer", "float", "bool", "text")]

    def insert(rows: list[Sequence[Any]]) -> None:
        if foreign:
            columnwise: list[Sequence[Any]] = list(zip(*rows, strict=True))
            for i in foreign:
                columnwise[i] = [convert_for_database(value, _OWN) for value in columnwise[i]]
            rows = list(zip(*columnwise, strict=True))
        connection.executemany(statement, rows)

    return insert
