"""Tables in databases, through SQLAlchemy: ``postgresql+psycopg://user@host/base?table=t`` and ``...?query=SELECT
...``.

A table is read in one statement inside a read-only transaction where the database has such, in the order of its primary
key; NULL is a missing cell. A query is one statement that only reads, by the database's own parser and in a transaction
that refuses anything else. A table is written in one transaction: all of it arrives, or nothing changes.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar
from urllib.parse import unquote

from hybridbn.errors import FormatError, HybridBNError, TableError, mask_secrets
from hybridbn.registry import LazyModule, import_library
from hybridbn.tables.cells import integer_limits
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
    parse_duckdb_query,
    quote_name,
)
from hybridbn.tables.formats.sqlite import allow_only_reading, guard_reading
from hybridbn.tables.formats.typed_columns import WantedColumns

sqlalchemy: LazyModule = LazyModule("sqlalchemy")

_PLACE = re.compile(r"([?&])(table|query)=")
_STREAMING = {"stream_results": True, "max_row_buffer": BATCH}
_POSTGRESQL_READS = {"postgresql_readonly": True, "isolation_level": "REPEATABLE READ"}
_KEEP_QUERY = "SELECT set_config('hybridbn.query', :query, true)"
_OPEN_CURSOR = """DO $$ DECLARE rows refcursor := 'hybridbn';
BEGIN OPEN rows FOR EXECUTE current_setting('hybridbn.query'); END $$"""
_FETCH = f"FETCH {BATCH} FROM hybridbn"
_MYSQL = ("mysql", "mariadb")
_TRANSACTIONAL = ("postgresql", "sqlite", "mssql", "firebird", "cockroachdb", "redshift", "db2")


class SqlAlchemy(Database):
    """All databases that SQLAlchemy knows."""

    schemes: ClassVar[tuple[str, ...]] = ("",)

    def locate(self, url: str) -> DatabaseLocation:
        """Take an address apart.

        Examples
        --------
        >>> SqlAlchemy().locate("postgresql://host/base?schema=s&table=my%20t")[2:]
        ('my t', '', 'postgresql://host/base', 's')
        """
        if url.startswith("adbc"):
            raise FormatError(
                f"{mask_secrets(url, [url])!r}: ADBC drivers are not used; write the address as SQLAlchemy does,"
                " without adbc+, or read large tables by DuckDB: hybridbn.scan(query, backend='duckdb')"
            )
        match = _PLACE.search(url)
        if match is None or not url[match.end() :]:
            raise FormatError(
                f"{mask_secrets(url, [url])!r} is no address of a table; write dialect://user@host/base?table=name (and"
                " &schema=... before it), or ?query=SELECT ..."
            )
        base, rest = url[: match.start()], unquote(url[match.end() :])
        # Everything behind "table=" or "query=" belongs to it, so that a query may hold & and +.
        schema = re.search(r"[?&]schema=([^&]*)", base)
        if schema is not None:
            base = base[: schema.start()] + base[schema.end() :].replace("&", schema[0][0], 1)
        asked: dict[str, Any] = {match[2]: rest, "schema": unquote(schema[1]) if schema else None}
        return DatabaseLocation(mask_secrets(url, [url]), None, url=base, **asked)

    def select_statement(self, url: str) -> tuple[str, str, str] | None:
        """Return the address of the database, and the statement that gives the rows, of PostgreSQL."""
        address = self.locate(url)
        if "?" in address.url or re.split(r"[+:]", address.url)[0].lower() not in ("postgresql", "postgres"):
            return None
        name = ".".join(quote_name(part) for part in (address.schema, address.table) if part)
        return address.url, address.query or f"SELECT * FROM {name}", "postgresql"

    @contextlib.contextmanager
    def open_result(self, url: str, wanted: WantedColumns) -> Iterator[QueryResult]:
        """Open a table or the result of one query; rows come as they are fetched, and the server sends a batch at a
        time.
        """
        address = self.locate(url)
        if address.query:
            with _connect(address, _refuse_query, reading=True) as connection, _open_query(connection, address) as rows:
                yield rows
            return
        with _connect(address, reading=True) as connection:
            dialect = connection.dialect.name
            types = _column_types(connection, address)
            names = wanted.names(list(types))
            declared = {name: DatabaseType(dialect, types[name]) for name in names}
            # Keyed by number, as names may be anything.
            columns = [
                sqlalchemy.Column(
                    name, _binding_type(Field(name, "", declared[name]), types[name], dialect), key=f"c{i}"
                )
                for i, name in enumerate(names)
            ]
            source = sqlalchemy.Table(address.table, sqlalchemy.MetaData(), *columns, schema=address.schema)
            # by which the rows of two readings come in the same order
            key = _key_of(connection, address)
            whole = sqlalchemy.table(address.table, schema=address.schema)
            query = sqlalchemy.select(*source.c).order_by(*(sqlalchemy.column(n, _selectable=whole) for n in key))
            if dialect == "postgresql":
                # without a key, rows come as they lie; otherwise each reader of a large table starts somewhere else
                connection.exec_driver_sql("SET LOCAL synchronize_seqscans = off")
            ranges = _ranges_of({name: types[name] for name in names}, dialect)
            with connection.execute(query, execution_options=_STREAMING) as result:  # closed where rows are left
                yield QueryResult(names, _fetch_batches(result), declared, ranges=ranges, key=key)

    def refuse_present(self, url: str) -> None:
        """Refuse an address where a table or view is already, or where none can be made: one is, and is taken back."""
        address = _require_table(self.locate(url))
        with _connect(address, lambda text: NotWritten(text, begun=False)) as connection:
            target = _build_target(connection, address, [Field("x", "integer")])
            transactional = connection.dialect.name in _TRANSACTIONAL
            _make_room(connection, target, address, overwrite=False, transactional=transactional)
            if transactional:
                target.create(connection)
                connection.rollback()

    @contextlib.contextmanager
    def create_table(self, url: str, columns: Sequence[Field], *, overwrite: bool = False) -> Iterator[Insert]:
        """Make a table whose rows are sent inside of the context, in one transaction."""
        address = _require_table(self.locate(url))
        begun = False
        with _connect(address, lambda text: NotWritten(text, begun=begun)) as connection:
            dialect = connection.dialect
            _refuse_long([address.table, *(column.name for column in columns)], dialect)
            target = _build_target(connection, address, columns)
            transactional = dialect.name in _TRANSACTIONAL
            _make_room(connection, target, address, overwrite=overwrite, transactional=transactional)
            target.create(connection)
            begun = True
            try:
                yield _make_inserter(connection, target, columns)
            except BaseException:
                if not transactional:  # the table is there already, transaction or not
                    connection.rollback()
                    target.drop(connection)
                raise


@contextlib.contextmanager
def _connect(
    address: DatabaseLocation, refusal: Callable[[str], Exception] = FormatError, *, reading: bool = False
) -> Iterator[Any]:
    """Open a connection with one transaction, which is rolled back after reading and on any error.

    What the database refuses is raised as `refusal` makes it.
    """
    needed = (
        f"{address.shown!r}: only files and sqlite:///file.db?table=t can be read without SQLAlchemy; install it with:"
        " pip install 'hybridbn[sql]'"
    )
    import_library("sqlalchemy", needed, HybridBNError)
    try:
        engine = _make_engine(address)
        if engine.dialect.name == "sqlite":
            _begin_explicitly(engine)
            if reading and engine.url.database and not engine.url.database.startswith("file:"):
                with open(engine.url.database, "rb"):  # SQLite would make a missing file
                    pass
        with contextlib.ExitStack() as stack:
            connection = stack.enter_context(engine.connect())
            if reading and (engine.dialect.name, engine.dialect.driver) == ("sqlite", "pysqlite"):
                stack.enter_context(guard_reading(connection.connection.dbapi_connection))
            if reading and engine.dialect.name == "postgresql":
                connection = connection.execution_options(**_POSTGRESQL_READS)
            with connection.begin() as transaction:
                if reading and connection.dialect.name in _MYSQL:
                    # of the session, too, so that nothing is changed where a procedure ends the transaction
                    for mode in ("SET SESSION TRANSACTION READ ONLY", "START TRANSACTION READ ONLY"):
                        connection.exec_driver_sql(mode)
                yield connection
                if reading:
                    transaction.rollback()
    except sqlalchemy.exc.NoSuchModuleError:
        raise FormatError(
            f"{address.shown!r}: only files, sqlite:///file.db?table=t and databases that SQLAlchemy knows can be read;"
            " download it first"
        ) from None
    except sqlalchemy.exc.SQLAlchemyError as error:
        reason = str(getattr(error, "orig", None) or error).strip()
        raise refusal(f"{address.shown}: the database refuses: {mask_secrets(reason, [address.url])[:600]}") from None
    except (OverflowError, UnicodeEncodeError) as error:
        raise refusal(f"{address.shown}: a value that the database can't hold: {error}") from None
    except ImportError as error:
        raise HybridBNError(f"{address.shown}: the database's driver is missing: {error}; install it") from error


def _make_engine(address: DatabaseLocation) -> Any:
    try:
        return sqlalchemy.create_engine(address.url, poolclass=sqlalchemy.pool.NullPool, hide_parameters=True)
    except sqlalchemy.exc.NoSuchModuleError:
        raise
    except (sqlalchemy.exc.ArgumentError, ValueError, TypeError) as error:  # a port may be no number
        reason = mask_secrets(str(error), [address.url])
        raise FormatError(f"{address.shown!r} is no address of a database: {reason}") from None


def _begin_explicitly(engine: Any) -> None:
    """Make SQLite begin transactions itself: Python's driver leaves CREATE TABLE outside of them."""

    def turn_off_implicit_transactions(connection: Any, record: Any) -> None:
        connection.isolation_level = None

    sqlalchemy.event.listen(engine, "connect", turn_off_implicit_transactions)
    sqlalchemy.event.listen(engine, "begin", lambda connection: connection.exec_driver_sql("BEGIN"))


# -- reading ----------------------------------------------------------------------------------------------------------


def _refuse_query(text: str) -> FormatError:
    # what PostgreSQL says of its own cursor is of no use
    reason = re.split(r"\n(?:QUERY|CONTEXT):", text, maxsplit=1)[0]
    return FormatError(f"{reason.rstrip('.')}; write one SELECT statement")


@contextlib.contextmanager
def _open_query(connection: Any, address: DatabaseLocation) -> Iterator[QueryResult]:
    """Open the result of a query, which the database's own parser takes for one statement that reads."""
    dialect, query = connection.dialect.name, address.query
    if dialect == "postgresql":
        # a cursor has one SELECT, whatever way a driver sends text
        connection.execute(sqlalchemy.text(_KEEP_QUERY), {"query": query})
        connection.exec_driver_sql(_OPEN_CURSOR)
        result = connection.exec_driver_sql(_FETCH)
        yield QueryResult(list(result.keys()), _fetch_from_cursor(connection, result))
        return
    if dialect in _MYSQL:
        # what is prepared is one statement, and what can be explained is none that manages the server
        for kept in ("CONCAT('EXPLAIN FORMAT=JSON ', :query)", ":query"):
            connection.execute(sqlalchemy.text(f"SET @hybridbn = {kept}"), {"query": query})
            connection.exec_driver_sql("PREPARE hybridbn FROM @hybridbn")
        query = "EXECUTE hybridbn"
    elif dialect == "sqlite":
        # whose driver takes one statement at a time
        allow_only_reading(connection.connection.dbapi_connection)
    elif dialect == "duckdb":
        parse_duckdb_query(query)
    else:
        raise TableError(
            f"{address.shown}: queries of {dialect} are not read, as nothing is known there that keeps them from"
            " writing; make a view, and read it with ?table=name"
        )
    # without parameters, so that a percent sign in a query is one
    result = connection.exec_driver_sql(query, execution_options={**_STREAMING, "no_parameters": True})
    if not result.returns_rows:
        raise TableError("the query gives no columns; write one SELECT statement")
    with result:
        yield QueryResult(list(result.keys()), _fetch_batches(result))


def _fetch_from_cursor(connection: Any, result: Any) -> Iterator[list[Sequence[Any]]]:
    while rows := result.fetchall():
        yield rows
        result = connection.exec_driver_sql(_FETCH)


def _fetch_batches(result: Any) -> Iterator[list[Sequence[Any]]]:
    return iter(lambda: result.fetchmany(BATCH), [])


def _key_of(connection: Any, address: DatabaseLocation) -> tuple[str, ...]:
    """Return the columns of the primary key; a view has none."""
    key = sqlalchemy.inspect(connection).get_pk_constraint(address.table, schema=address.schema) or {}
    return tuple(key.get("constrained_columns") or ())


def _column_types(connection: Any, address: DatabaseLocation) -> dict[str, Any]:
    """Return the columns of a table with their types."""
    inspector = sqlalchemy.inspect(connection)
    try:
        listed = inspector.get_columns(address.table, schema=address.schema)
        types = {column["name"]: column["type"] for column in listed}
    except sqlalchemy.exc.NoSuchTableError:
        types = {}
    if not types:
        tables = [*inspector.get_table_names(schema=address.schema), *inspector.get_view_names(schema=address.schema)]
        raise absent_table_error(address.table, tables)
    return types


# -- writing ----------------------------------------------------------------------------------------------------------


def _require_table(address: DatabaseLocation) -> DatabaseLocation:
    if not address.table:
        raise FormatError(f"{address.shown!r}: a table is written to dialect://user@host/base?table=name")
    return address


def _build_target(connection: Any, address: DatabaseLocation, columns: Sequence[Field]) -> Any:
    dialect = connection.dialect.name
    made = [
        sqlalchemy.Column(column.name, _type_of(column, dialect), key=f"c{i}", nullable=True, autoincrement=False)
        for i, column in enumerate(columns)
    ]
    return sqlalchemy.Table(address.table, sqlalchemy.MetaData(), *made, schema=address.schema)


def _make_inserter(connection: Any, target: Any, columns: Sequence[Field]) -> Insert:
    keys = [f"c{i}" for i in range(len(columns))]
    dialect = connection.dialect.name
    sent = [
        sqlalchemy.Column(column.name, _binding_type(column, made.type, dialect), key=key)
        for column, made, key in zip(columns, target.c, keys, strict=True)
    ]
    statement = sqlalchemy.Table(target.name, sqlalchemy.MetaData(), *sent, schema=target.schema).insert()

    # what has no type is text there
    texts = [
        key
        for key, column, made in zip(keys, columns, target.c, strict=True)
        if column.kind == "other" and isinstance(made.type, sqlalchemy.Text)
    ]

    def insert(rows: list[Sequence[Any]]) -> None:
        for start in range(0, len(rows), BATCH):
            records = [dict(zip(keys, row, strict=True)) for row in rows[start : start + BATCH]]
            for key in texts:
                for record in records:
                    record[key] = convert_for_database(record[key], (str,))
            connection.execute(statement, records)

    return insert


def _make_room(
    connection: Any, target: Any, address: DatabaseLocation, *, overwrite: bool, transactional: bool
) -> None:
    inspector = sqlalchemy.inspect(connection)
    if address.table in inspector.get_view_names(schema=address.schema):
        raise OutputExists(f"there is a view {address.table!r} already; choose another name")
    if not inspector.has_table(address.table, schema=address.schema):
        return
    if not overwrite:
        raise OutputExists(f"there is a table {address.table!r} already; overwrite=True would replace it")
    if not transactional:
        raise OutputExists(
            f"there is a table {address.table!r} already, and {connection.dialect.name} can't replace it in one"
            " transaction; write to a new name and rename it"
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


# -- types of columns --------------------------------------------------------------------------------------------------

_BYTES = {"TINYINT": 1, "SMALLINT": 2, "SMALLSERIAL": 2, "MEDIUMINT": 3, "INTEGER": 4, "SERIAL": 4, "BIGINT": 8}


def _type_of(column: Field, dialect: str) -> Any:
    """Return the type of a new column: the one it comes from, in the same kind of database; else one for its kind.

    Examples
    --------
    >>> import sqlalchemy
    >>> _type_of(Field("x", "decimal"), "postgresql")
    Numeric()
    """
    declared = column.declared
    if declared is not None and isinstance(declared.type, sqlalchemy.types.TypeEngine):
        if declared.dialect == dialect:
            return _as_new_type(declared.type)
        if column.kind in ("decimal", "float", "integer") and isinstance(declared.type, sqlalchemy.Numeric):
            return declared.type.as_generic()
    types = {
        "integer": sqlalchemy.BigInteger,
        "float": sqlalchemy.Double,
        "bool": sqlalchemy.Boolean,
        "decimal": sqlalchemy.Numeric,
        "date": sqlalchemy.Date,
        "time": sqlalchemy.Time,
        "interval": sqlalchemy.Interval,
        "uuid": sqlalchemy.Uuid,
        "bytes": sqlalchemy.LargeBinary,
        "datetime": sqlalchemy.DateTime,
        "instant": lambda: sqlalchemy.DateTime(timezone=True),
        "json": lambda: sqlalchemy.JSON(none_as_null=True),
    }
    return types.get(column.kind, sqlalchemy.Text)()


def _as_new_type(column_type: Any) -> Any:
    """Return a type that was found in a database as one for a new table: types that have names are there already."""
    if isinstance(column_type, sqlalchemy.JSON):
        return type(column_type)(none_as_null=True)
    if hasattr(column_type, "create_type"):
        column_type = column_type.copy() if hasattr(column_type, "copy") else column_type
        column_type.create_type = False
    return column_type


def _binding_type(column: Field, column_type: Any, dialect: str) -> Any:
    """Return the type by which values are read and sent: the driver's own, unless it needs to be told or comes from
    elsewhere.
    """
    own = column.declared is not None and column.declared.dialect == dialect
    # drivers do not tell these from others, as truth values held as numbers
    ambiguous = sqlalchemy.Boolean, sqlalchemy.JSON, sqlalchemy.ARRAY
    return column_type if not own or isinstance(column_type, ambiguous) else None


def _ranges_of(types: Mapping[str, Any], dialect: str) -> dict[str, tuple[float, float]]:
    """Return the least and the greatest number that each column of integers, or of numbers with so many digits, can
    hold.

    Examples
    --------
    >>> import sqlalchemy
    >>> _ranges_of({"k": sqlalchemy.SmallInteger(), "n": sqlalchemy.Numeric(4, 1)}, "postgresql")
    {'k': (-32768.0, 32767.0), 'n': (-999.9, 999.9)}
    """
    ranges: dict[str, tuple[float, float]] = {}
    for name, held in types.items():
        if isinstance(held, sqlalchemy.Integer) and dialect != "sqlite":  # where all integers have 64 bits
            size = 8 * _BYTES.get(held.__visit_name__.upper().replace("SMALL_INTEGER", "SMALLINT"), 8)
            ranges[name] = integer_limits(size, signed=not getattr(held, "unsigned", False))
        elif isinstance(held, sqlalchemy.Numeric) and not isinstance(held, sqlalchemy.Float) and held.precision:
            scale = held.scale or 0
            high = (10**held.precision - 1) / 10**scale
            ranges[name] = (-high, high)
    return ranges
