"""Tables in SQLite databases: ``sqlite:///file.db?table=t`` and ``sqlite:///file.db?query=SELECT ...``."""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, NamedTuple
from urllib.parse import quote, unquote

from hybridbn.columns import Cells
from hybridbn.errors import FormatError, TableError
from hybridbn.formats.jsonlines import cell_values, typed_objects
from hybridbn.formats.reading import Read, Wanted
from hybridbn.table import Table
from hybridbn.variables import shorten

__all__ = ["read", "write"]

_CHUNK = 20_000
_ALLOWED = {sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION, 33}  # 33: recursive common tables


class _Address(NamedTuple):
    file: Path
    what: Literal["table", "query"]
    text: str


def _address(url: str) -> _Address:
    place, _, rest = url.removeprefix("sqlite:").partition("?")
    what, _, text = rest.partition("=")
    path = unquote(place.removeprefix("///"))
    if not place.startswith("///") or not path or what not in ("table", "query") or not text:
        raise FormatError(
            f"{url!r} is no address of an SQLite table; write sqlite:///file.db?table=name or sqlite:///file.db?query=SELECT ... "
            "(sqlite:////folder/file.db for an absolute path)"
        )
    # Everything after "table=" or "query=" belongs to it, so that a query may hold & and +.
    return _Address(Path(path), "table" if what == "table" else "query", unquote(text))


def _identifier(name: str) -> str:
    if "\0" in name:
        raise TableError(f"{name!r}: a name in SQLite can't hold a NUL character")
    return '"' + name.replace('"', '""') + '"'


def read(url: str, wanted: Wanted, suffix: str = "") -> Read:
    """Read a table or the result of one query, from a database opened read-only; NULL is a missing cell.

    A column of a table that is declared BOOLEAN holds truth values. In one statement SQLite shows one state of the
    database, whatever others write meanwhile.
    """
    address = _address(url)
    with open(address.file, "rb"):  # a missing file is reported as one
        pass
    with _connected(f"file:{quote(str(address.file))}?mode=ro") as connection:
        statement, truths = address.text, set[str]()
        if address.what == "table":
            described = connection.execute(f"PRAGMA table_info({_identifier(address.text)})").fetchall()
            if not described:
                raise TableError(f"there is no table {address.text!r}; the tables are {shorten(_tables(connection))}")
            truths = {name for _, name, declared, *_ in described if declared.upper() in ("BOOLEAN", "BOOL")}
            chosen = wanted.names([name for _, name, *_ in described])
            statement = f"SELECT {', '.join(map(_identifier, chosen))} FROM {_identifier(address.text)}"
        connection.set_authorizer(lambda action, *_: sqlite3.SQLITE_OK if action in _ALLOWED else sqlite3.SQLITE_DENY)
        names, columns = _fetched(connection, statement)
    keep = wanted.names(names)
    values = {name: columns[names.index(name)] for name in keep}
    for name, column in values.items():
        if name in truths:
            values[name] = [bool(value) if value in (0, 1) else value for value in column]
        blob = next((row for row, value in enumerate(column) if isinstance(value, bytes)), None)
        if blob is not None:
            raise TableError(f"column {name!r}, row {blob}: a BLOB; cast it to text in a query first")
    return typed_objects(values, wanted)


def _tables(connection: sqlite3.Connection) -> list[str]:
    found = connection.execute("SELECT name FROM sqlite_master WHERE type IN ('table', 'view') ORDER BY name")
    return [name for (name,) in found]


def _fetched(connection: sqlite3.Connection, statement: str) -> tuple[list[str], list[list[Any]]]:
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
    names = [column[0] for column in cursor.description]
    columns: list[list[Any]] = [[] for _ in names]
    while rows := cursor.fetchmany(_CHUNK):
        for column, part in zip(columns, zip(*rows, strict=True), strict=True):
            column.extend(part)
    return names, columns


@contextlib.contextmanager
def _connected(uri: str) -> Iterator[sqlite3.Connection]:
    """Open a database; transactions are begun and ended by hand."""
    try:
        connection = sqlite3.connect(uri, uri=True, isolation_level=None)
        try:
            yield connection
        finally:
            connection.close()
    except (sqlite3.DatabaseError, OverflowError) as error:
        if isinstance(error, OverflowError):
            raise TableError(f"SQLite holds integers below 2**63 only: {error}") from None
        raise FormatError(f"SQLite: {error}") from error


def write(table: Table, url: str, *, overwrite: bool = False) -> None:
    """Write a new table in one transaction: all of it arrives or nothing changes."""
    address = _address(url)
    if address.what != "table":
        raise FormatError(f"{url!r}: a table is written to sqlite:///file.db?table=name")
    fresh = not address.file.exists()
    try:
        with _connected(f"file:{quote(str(address.file))}?mode=rwc") as connection:
            connection.execute("BEGIN IMMEDIATE")
            try:
                _fill(connection, table, address.text, overwrite=overwrite)
                connection.execute("COMMIT")
            except BaseException:
                with contextlib.suppress(sqlite3.Error):
                    connection.execute("ROLLBACK")
                raise
    except BaseException:
        if fresh:
            with contextlib.suppress(OSError):
                os.unlink(address.file)
        raise


def _fill(connection: sqlite3.Connection, table: Table, name: str, *, overwrite: bool) -> None:
    target = _identifier(name)
    folded = [column.lower() for column in table.names]
    clash = next((column for column in table.names if folded.count(column.lower()) > 1), None)
    if clash is not None:
        raise TableError(f"SQLite takes column names for equal that differ in case only: {clash!r}; rename one")
    exists = connection.execute("SELECT type FROM sqlite_master WHERE lower(name) = lower(?)", (name,)).fetchone()
    if exists and not (overwrite and exists[0] == "table"):
        from hybridbn.formats.tables import OutputExists

        hint = "overwrite=True would replace it" if exists[0] == "table" else "choose another name"
        raise OutputExists(f"there is a {exists[0]} {name!r} already; {hint}")
    if exists:
        connection.execute(f"DROP TABLE {target}")
    types = [_declared(column, table._column(column).cells) for column in table.names]
    defined = ", ".join(f"{_identifier(column)} {type_}" for column, type_ in zip(table.names, types, strict=True))
    connection.execute(f"CREATE TABLE {target} ({defined})")
    places = ", ".join("?" * len(table.names))
    for start in range(0, len(table), _CHUNK):
        part = table[start : start + _CHUNK]
        rows = zip(*(cell_values(part, column) for column in part.names), strict=True)
        try:
            connection.executemany(f"INSERT INTO {target} VALUES ({places})", rows)
        except UnicodeEncodeError as error:
            raise TableError(f"{error.object[error.start : error.end]!r} can't be written in UTF-8") from None


def _declared(name: str, cells: Cells) -> str:
    types = {type(state) for state in cells.states or ()}
    if cells.states is None:
        return "INTEGER" if cells.integer else "REAL"
    if types <= {str}:
        return "TEXT"
    if types == {bool}:
        return "BOOLEAN"
    if types <= {int, float}:
        return "INTEGER" if types == {int} else "REAL"
    odd = [state for state in cells.states if not isinstance(state, str | int | float)]
    raise FormatError(f"column {name!r}: states such as {shorten(odd, most=1)} can't be held by SQLite")
