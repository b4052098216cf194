"""Tables in databases, through SQLAlchemy: ``postgresql+psycopg://user@host/base?table=t`` and ``...?query=SELECT ...``.

A table is read in one statement inside a read-only transaction where the database has such; NULL is a missing cell. It is
written in one transaction: all of it arrives, or nothing changes.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Sequence
from typing import Any, Literal, NamedTuple
from urllib.parse import unquote

from hybridbn.columns import Cells
from hybridbn.errors import FormatError, HybridBNError, TableError
from hybridbn.formats.jsonlines import cell_values, typed_objects
from hybridbn.formats.reading import Read, Wanted
from hybridbn.table import Table
from hybridbn.variables import shorten

__all__ = ["Address", "address_of", "read", "refuse_statements", "shown", "write"]

_CHUNK = 10_000
_PLACE = re.compile(r"([?&])(table|query)=")
_SECRET = re.compile(r"(://[^/@:]*:)(?:[^/]*)@")
_QUOTED = re.compile(r"'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|--[^\n]*|/\*[\s\S]*?\*/")
_TRANSACTIONAL = ("postgresql", "sqlite", "mssql", "firebird", "cockroachdb", "redshift", "db2")


class Address(NamedTuple):
    """A database's address, what is asked of it, and the address without its password."""

    url: str
    what: Literal["table", "query"]
    name: str
    schema: str | None
    shown: str


def shown(url: str) -> str:
    """Return an address without its password.

    Examples
    --------
    >>> shown("postgresql://me:secret@host/base?table=t")
    'postgresql://me:***@host/base?table=t'
    """
    return _SECRET.sub(r"\1***@", url)


def address_of(url: str) -> Address:
    """Take an address apart.

    Examples
    --------
    >>> address_of("postgresql://host/base?schema=s&table=my%20t")[:4]
    ('postgresql://host/base', 'table', 'my t', 's')
    """
    found = _PLACE.search(url)
    if found is None or not url[found.end() :]:
        raise FormatError(
            f"{shown(url)!r} is no address of a table; write dialect://user@host/base?table=name (and &schema=... before it), "
            "or ?query=SELECT ..."
        )
    base, rest = url[: found.start()], unquote(url[found.end() :])
    # Everything behind "table=" or "query=" belongs to it, so that a query may hold & and +.
    schema = re.search(r"[?&]schema=([^&]*)", base)
    if schema is not None:
        base = base[: schema.start()] + base[schema.end() :].replace("&", schema[0][0], 1)
    what: Literal["table", "query"] = "table" if found[2] == "table" else "query"
    return Address(base, what, rest, unquote(schema[1]) if schema else None, shown(url))


def _sqlalchemy(address: Address) -> Any:
    try:
        import sqlalchemy
    except ImportError as error:
        raise HybridBNError(
            f"{address.shown!r}: only files and sqlite:///file.db?table=t can be read without SQLAlchemy ({error}); "
            "install it with: pip install 'hybridbn[sql]'"
        ) from error
    return sqlalchemy


@contextlib.contextmanager
def _connected(address: Address, *, reading: bool) -> Iterator[tuple[Any, Any]]:
    """Open a connection with one transaction, which is rolled back after reading and on any error."""
    sqlalchemy = _sqlalchemy(address)
    try:
        engine = sqlalchemy.create_engine(address.url, poolclass=sqlalchemy.pool.NullPool, hide_parameters=True)
        if engine.dialect.name == "sqlite":
            _begin_by_hand(sqlalchemy, engine)
        with engine.connect() as connection:
            if reading:
                connection = connection.execution_options(**_read_only(engine.dialect.name))
            with connection.begin() as transaction:
                yield sqlalchemy, connection
                if reading:
                    transaction.rollback()
    except sqlalchemy.exc.NoSuchModuleError:
        raise FormatError(
            f"{address.shown!r}: only files, sqlite:///file.db?table=t and databases that SQLAlchemy knows can be read; "
            "download it first"
        ) from None
    except sqlalchemy.exc.ArgumentError as error:
        raise FormatError(f"{address.shown!r} is no address of a database: {shown(str(error))}") from None
    except sqlalchemy.exc.SQLAlchemyError as error:
        reason = str(getattr(error, "orig", None) or error).strip()
        raise FormatError(f"{address.shown}: the database refuses: {shown(reason)[:600]}") from None
    except ImportError as error:
        raise HybridBNError(f"{address.shown}: the database's driver is missing: {error}; install it") from error


def _read_only(dialect: str) -> dict[str, Any]:
    return {"postgresql_readonly": True, "isolation_level": "REPEATABLE READ"} if dialect == "postgresql" else {}


def _begin_by_hand(sqlalchemy: Any, engine: Any) -> None:
    """Make SQLite begin transactions itself: Python's driver leaves CREATE TABLE outside of them."""

    def opened(connection: Any, record: Any) -> None:
        connection.isolation_level = None

    def begun(connection: Any) -> None:
        connection.exec_driver_sql("BEGIN")

    sqlalchemy.event.listen(engine, "connect", opened)
    sqlalchemy.event.listen(engine, "begin", begun)


# -- reading ----------------------------------------------------------------------------------------------------------


def read(url: str, wanted: Wanted, suffix: str = "") -> Read:
    """Read a table or the result of one query."""
    address = address_of(url)
    if address.what == "query":
        refuse_statements(address.name)
    with _connected(address, reading=True) as (sqlalchemy, connection):
        if address.what == "table":
            types = _columns_of(sqlalchemy, connection, address)
            names = wanted.names(list(types))
            # Keyed by number, as names may be anything. Some databases hold truth values as numbers, unless told.
            truth = [sqlalchemy.Boolean() if isinstance(types[name], sqlalchemy.Boolean) else None for name in names]
            columns = [sqlalchemy.Column(name, truth[i], key=f"c{i}") for i, name in enumerate(names)]
            source = sqlalchemy.Table(address.name, sqlalchemy.MetaData(), *columns, schema=address.schema)
            result = connection.execution_options(stream_results=True).execute(sqlalchemy.select(*source.c))
        else:
            result = connection.exec_driver_sql(address.name)
            if not result.returns_rows:
                raise TableError("the query gives no columns; write one SELECT statement")
            names = list(result.keys())
        found: list[list[Any]] = [[] for _ in names]
        while rows := result.fetchmany(_CHUNK):
            for column, part in zip(found, zip(*rows, strict=True), strict=True):
                column.extend(part)
    keep = wanted.names(names)
    values = {name: found[names.index(name)] for name in keep}
    for name, column in values.items():
        blob = next((row for row, value in enumerate(column) if isinstance(value, bytes | memoryview)), None)
        if blob is not None:
            raise TableError(f"column {name!r}, row {blob}: binary data; cast it to text in a query first")
    return typed_objects(values, wanted)


def refuse_statements(query: str) -> None:
    """Refuse what is not one statement that only reads."""
    plain = _QUOTED.sub(" ", query).strip().rstrip(";")
    word = plain.split(None, 1)[0].strip("(").upper() if plain else ""
    if ";" in plain or word not in ("SELECT", "WITH", "VALUES", "TABLE"):
        raise TableError(f"the query is not one SELECT statement: {query[:60]!r}")


def _columns_of(sqlalchemy: Any, connection: Any, address: Address) -> dict[str, Any]:
    """Return the columns of a table with their types."""
    inspector = sqlalchemy.inspect(connection)
    try:
        listed = inspector.get_columns(address.name, schema=address.schema)
        found = {column["name"]: column["type"] for column in listed}
    except sqlalchemy.exc.NoSuchTableError:
        found = {}
    if not found:
        tables = [*inspector.get_table_names(schema=address.schema), *inspector.get_view_names(schema=address.schema)]
        raise TableError(f"there is no table {address.name!r}; the tables are {shorten(sorted(tables)) or 'none'}")
    return found


# -- writing ----------------------------------------------------------------------------------------------------------


def write(table: Table, url: str, *, overwrite: bool = False) -> None:
    """Write a new table in one transaction; one that is there already is refused unless `overwrite`."""
    address = address_of(url)
    if address.what != "table":
        raise FormatError(f"{address.shown!r}: a table is written to dialect://user@host/base?table=name")
    with _connected(address, reading=False) as (sqlalchemy, connection):
        dialect = connection.dialect
        _refuse_long([address.name, *table.names], dialect)
        columns = [
            sqlalchemy.Column(name, _type(sqlalchemy, name, table._column(name).cells), key=f"c{i}", nullable=True)
            for i, name in enumerate(table.names)
        ]
        target = sqlalchemy.Table(address.name, sqlalchemy.MetaData(), *columns, schema=address.schema)
        transactional = dialect.name in _TRANSACTIONAL
        _make_room(sqlalchemy, connection, target, address, overwrite=overwrite, transactional=transactional)
        target.create(connection)
        try:
            _fill(connection, table, target)
        except BaseException:
            if not transactional:  # the table is there already, transaction or not
                connection.rollback()
                target.drop(connection)
            raise


def _make_room(
    sqlalchemy: Any, connection: Any, target: Any, address: Address, *, overwrite: bool, transactional: bool
) -> None:
    from hybridbn.formats.tables import OutputExists

    inspector = sqlalchemy.inspect(connection)
    if address.name in inspector.get_view_names(schema=address.schema):
        raise OutputExists(f"there is a view {address.name!r} already; choose another name")
    if not inspector.has_table(address.name, schema=address.schema):
        return
    if not overwrite:
        raise OutputExists(f"there is a table {address.name!r} already; overwrite=True would replace it")
    if not transactional:
        raise OutputExists(
            f"there is a table {address.name!r} already, and {connection.dialect.name} can't replace it in one transaction; "
            "write to a new name and rename it"
        )
    target.drop(connection)


def _refuse_long(names: Sequence[str], dialect: Any) -> None:
    most = dialect.max_identifier_length
    for name in names:
        if len(name.encode()) > most:
            raise TableError(
                f"the name {name[:40]!r}... has {len(name.encode())} bytes, and {dialect.name} allows {most}; rename it"
            )
        if "\0" in name:
            raise TableError(f"{name!r}: a name can't hold a NUL character")


def _fill(connection: Any, table: Table, target: Any) -> None:
    keys = [f"c{i}" for i in range(len(table.names))]
    insert = target.insert()
    for start in range(0, len(table), _CHUNK):
        part = table[start : start + _CHUNK]
        rows = zip(*(cell_values(part, name) for name in part.names), strict=True)
        connection.execute(insert, [dict(zip(keys, row, strict=True)) for row in rows])


def _type(sqlalchemy: Any, name: str, cells: Cells) -> Any:
    types = {type(state) for state in cells.states or ()}
    if cells.states is None:
        return sqlalchemy.BigInteger() if cells.integer else sqlalchemy.Double()
    if types <= {str}:
        return sqlalchemy.Text()
    if types == {bool}:
        return sqlalchemy.Boolean()
    if types <= {int, float}:
        return sqlalchemy.BigInteger() if types == {int} else sqlalchemy.Double()
    odd = [state for state in cells.states if not isinstance(state, str | int | float)]
    raise FormatError(
        f"column {name!r}: states such as {shorten(odd or cells.states, most=1)} can't be held by a database"
    )
