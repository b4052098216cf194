"""Tables in databases as Arrow batches, through ADBC drivers: ``adbc+postgresql://user@host/base?table=t``.

Faster than rows where a driver (``adbc_driver_postgresql``, ``adbc_driver_sqlite``, ...) is installed. A table is read
in one statement, and written in one transaction: all of it arrives, or nothing changes.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

from hybridbn.errors import FormatError, HybridBNError, TableError
from hybridbn.formats.secrets import mask_secrets
from hybridbn.formats.tables.base import Field, TableSource
from hybridbn.formats.tables.columnar import ArrowSource, ArrowWriter, Feather, read_arrow_table, read_batches
from hybridbn.formats.tables.database_base import (
    Database,
    DatabaseLocation,
    DatabaseWriter,
    NotWritten,
    OutputExists,
    QueryResult,
)
from hybridbn.formats.tables.pyarrow_checks import NEEDS, validate
from hybridbn.formats.tables.sqlalchemy_database import DatabaseAddress, address_of
from hybridbn.formats.tables.statements import refuse_statements
from hybridbn.formats.tables.typed_columns import ReadColumns, WantedColumns
from hybridbn.tables import Table

__all__ = ["Adbc", "ingest"]


class Adbc(Database):
    """Databases with an ADBC driver."""

    schemes: ClassVar[tuple[str, ...]] = ("adbc+",)
    part_form = "arrow"
    keeps_index = True
    needs: ClassVar[tuple[str, str] | None] = NEEDS

    def locate(self, url: str) -> DatabaseLocation:
        """Take an address apart."""
        address = address_of(url)
        return DatabaseLocation(address.shown, None, address.name if address.what == "table" else "")

    def read(self, url: str, wanted: WantedColumns) -> ReadColumns:
        """Read a table or the result of one query; nothing is committed."""
        import pyarrow

        with _connect(url, reading=True) as opened:
            schema, batches = _fetch(opened, wanted)
            return read_arrow_table(pyarrow.Table.from_batches(batches, schema), wanted)

    @contextlib.contextmanager
    def open_result(self, url: str, wanted: WantedColumns) -> Iterator[QueryResult]:
        """Open a table or the result of one query, as rows."""
        with _connect(url, reading=True) as opened:
            schema, batches = _fetch(opened, wanted)
            rows: Iterator[list[Any]] = (
                list(zip(*(column.to_pylist() for column in batch.columns), strict=True)) for batch in batches
            )
            yield QueryResult(schema.names, rows)

    def source(self, url: str, folder: Path, shown: str) -> TableSource:
        """Open a table or the result of one query that is read in blocks, from a copy in a folder."""
        import pyarrow

        path = folder / "input.feather"
        with _connect(url, reading=True) as opened:
            schema, batches = _fetch(opened, WantedColumns())
            with pyarrow.OSFile(str(path), "wb") as raw, pyarrow.ipc.new_file(raw, schema) as file:
                for batch in batches:
                    file.write_batch(batch)
        return ArrowSource(Feather(), path, shown)

    def write(self, table: Table, url: str, *, overwrite: bool = False) -> None:
        """Write a new table in one transaction."""
        arrow_table = table.to_arrow()
        ingest(url, arrow_table.schema, arrow_table.to_batches(), overwrite=overwrite)

    def writer(
        self, fields: Sequence[Field], url: str, *, origin: TableSource | None = None, counter: str | None = None
    ) -> AdbcWriter:
        """Return what writes a new table with these columns."""
        return AdbcWriter(fields, counter, origin, url)

    def refuse_present(self, url: str) -> None:
        """Refuse an address where something has the table's name, or that can't be reached."""
        with _connect(url, lambda text: NotWritten(text, begun=False)) as opened:
            _refuse_present(opened)


class AdbcWriter(ArrowWriter, DatabaseWriter):
    """Writes a new table from Arrow batches."""

    def __init__(self, fields: Sequence[Field], counter: str | None, origin: TableSource | None, url: str) -> None:
        super().__init__(fields, counter, origin)
        self.url = url

    def insert(self, parts: Iterable[bytes]) -> None:
        """Make the table with the rows of all parts."""
        ingest(self.url, self.schema, read_batches(parts))


class _Session(NamedTuple):
    address: DatabaseAddress
    connection: Any
    cursor: Any


@contextlib.contextmanager
def _connect(
    url: str, refusal: Callable[[str], Exception] = FormatError, *, reading: bool = False
) -> Iterator[_Session]:
    """Open a connection with one transaction, which is rolled back unless it is committed inside."""
    address = address_of(url)
    scheme, _, rest = address.url.removeprefix("adbc+").partition("://")
    try:
        driver: Any = import_module(f"adbc_driver_{scheme}.dbapi")
    except ImportError as error:
        raise HybridBNError(
            f"{address.shown}: there is no ADBC driver {scheme!r} ({error}); install it with: pip install"
            f" adbc-driver-{scheme}"
        ) from error
    database = f"{scheme}://{rest}"
    if scheme == "sqlite":
        database = f"file:{rest.removeprefix('/')}?mode={'ro' if reading else 'rwc'}"
    try:
        with driver.connect(database) as connection, connection.cursor() as cursor:
            yield _Session(address, connection, cursor)
            connection.rollback()
    except driver.Error as error:
        raise refusal(
            f"{address.shown}: the database refuses: {mask_secrets(str(error).strip(), [address.url])[:600]}"
        ) from None


# -- reading ----------------------------------------------------------------------------------------------------------


def _fetch(opened: _Session, wanted: WantedColumns) -> tuple[Any, Iterator[Any]]:
    """Return a schema, and the batches of a result."""
    import pyarrow

    with _report_unreadable(opened):
        opened.cursor.execute(_build_statement(opened, wanted))
        reader = opened.cursor.fetch_record_batch()
    # The driver hands decimals over as text, to keep their digits.
    texts = {
        index
        for index, field in enumerate(reader.schema)
        if (field.metadata or {}).get(b"ADBC:postgresql:typname") == b"numeric"
    }
    fields = [(f.name, pyarrow.float64() if i in texts else f.type) for i, f in enumerate(reader.schema)]
    schema = pyarrow.schema(fields)

    def batches() -> Iterator[Any]:
        batches_left = map(validate, reader)
        while True:
            with _report_unreadable(opened):
                batch = next(batches_left, None)
            if batch is None:
                return
            columns = [
                column.cast(pyarrow.string()).cast(pyarrow.float64()) if index in texts else column
                for index, column in enumerate(batch.columns)
            ]
            yield pyarrow.record_batch(columns, schema)

    return schema, batches()


@contextlib.contextmanager
def _report_unreadable(opened: _Session) -> Iterator[None]:
    """Report what a driver raises while it reads; many queries fail only when their rows are fetched."""
    import pyarrow

    try:
        yield
    except (opened.connection.Error, pyarrow.ArrowException, OSError) as error:
        reason = mask_secrets(str(error).strip(), [opened.address.url])[:600]
        raise FormatError(f"{opened.address.shown}: the database refuses: {reason}") from None


def _build_statement(opened: _Session, wanted: WantedColumns) -> str:
    address, cursor = opened.address, opened.cursor
    if address.what == "query":
        refuse_statements(address.name, address.dialect)
        return address.name
    target = _qualify(address)
    if wanted.columns is None:
        return f"SELECT * FROM {target}"
    cursor.execute(f"SELECT * FROM {target} WHERE 1 = 0")
    names = wanted.names(cursor.fetch_arrow_table().column_names)
    return f"SELECT {', '.join(map(_quote, names))} FROM {target}"


def _qualify(address: DatabaseAddress) -> str:
    return ".".join(map(_quote, [*([address.schema] if address.schema else []), address.name]))


def _quote(name: str) -> str:
    if "\0" in name:
        raise TableError(f"{name!r}: a name can't hold a NUL character")
    return '"' + name.replace('"', '""') + '"'


# -- writing ----------------------------------------------------------------------------------------------------------


def _refuse_present(opened: _Session) -> None:
    if opened.address.what != "table":
        raise FormatError(f"{opened.address.shown!r}: a table is written to adbc+dialect://user@host/base?table=name")
    try:
        opened.cursor.execute(f"SELECT 1 FROM {_qualify(opened.address)} WHERE 1 = 0")
    except opened.connection.Error:
        opened.connection.rollback()
    else:
        raise OutputExists(f"there is a table {opened.address.name!r} already; overwrite=True would replace it")


def ingest(url: str, schema: Any, batches: Iterable[Any], *, overwrite: bool = False) -> None:
    """Make a table of Arrow batches, in one transaction; dictionaries are written as what they stand for."""
    import pyarrow

    plain = pyarrow.schema(
        [(f.name, f.type.value_type if pyarrow.types.is_dictionary(f.type) else f.type) for f in schema]
    )
    begun, broken = False, list[BaseException]()

    def send() -> Iterator[Any]:
        try:
            for batch in batches:
                yield batch.cast(plain)
        except BaseException as error:  # the driver would tell its traceback as text
            broken.append(error)
            raise

    try:
        with _connect(url, lambda text: NotWritten(text, begun=begun)) as opened:
            if not overwrite:
                _refuse_present(opened)
            begun = True
            reader = pyarrow.RecordBatchReader.from_batches(plain, send())
            mode = "replace" if overwrite else "create"
            opened.cursor.adbc_ingest(opened.address.name, reader, mode=mode, db_schema_name=opened.address.schema)
            opened.connection.commit()
    except NotWritten:
        if broken:
            raise broken[0] from None
        raise
