"""Tables in databases as Arrow batches, through ADBC drivers: ``adbc+postgresql://user@host/base?table=t``.

Faster than rows where a driver (``adbc_driver_postgresql``, ``adbc_driver_sqlite``, ...) is installed. Reading only.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from hybridbn.errors import FormatError, HybridBNError, TableError
from hybridbn.formats.columnar import arrow_read
from hybridbn.formats.database import Address, address_of, refuse_statements
from hybridbn.formats.reading import Read, Wanted
from hybridbn.table import Table

__all__ = ["read", "write"]


def read(url: str, wanted: Wanted, suffix: str = "") -> Read:
    """Read a table or the result of one query; nothing is committed."""
    import pyarrow

    address = address_of(url)
    scheme, _, rest = address.url.removeprefix("adbc+").partition("://")
    try:
        driver: Any = import_module(f"adbc_driver_{scheme}.dbapi")
    except ImportError as error:
        raise HybridBNError(
            f"{address.shown}: there is no ADBC driver {scheme!r} ({error}); install it with: pip install adbc-driver-{scheme}"
        ) from error
    place = f"file:{rest.removeprefix('/')}?mode=ro" if scheme == "sqlite" else f"{scheme}://{rest}"
    try:
        with driver.connect(place) as connection, connection.cursor() as cursor:
            cursor.execute(_statement(address, wanted, cursor))
            table = cursor.fetch_arrow_table()
            connection.rollback()
    except driver.Error as error:
        raise FormatError(f"{address.shown}: the database refuses: {str(error).strip()[:600]}") from None
    for number, field in enumerate(table.schema):
        # The driver hands decimals over as text, to keep their digits.
        if (field.metadata or {}).get(b"ADBC:postgresql:typname") == b"numeric":
            values = table.column(number).cast(pyarrow.string()).cast(pyarrow.float64())
            table = table.set_column(number, field.name, values)
    return arrow_read(table, wanted)


def _statement(address: Address, wanted: Wanted, cursor: Any) -> str:
    if address.what == "query":
        refuse_statements(address.name)
        return address.name
    target = ".".join(map(_quoted, [*([address.schema] if address.schema else []), address.name]))
    if wanted.columns is None:
        return f"SELECT * FROM {target}"
    cursor.execute(f"SELECT * FROM {target} WHERE 1 = 0")
    names = wanted.names(cursor.fetch_arrow_table().column_names)
    return f"SELECT {', '.join(map(_quoted, names))} FROM {target}"


def _quoted(name: str) -> str:
    if "\0" in name:
        raise TableError(f"{name!r}: a name can't hold a NUL character")
    return '"' + name.replace('"', '""') + '"'


def write(table: Table, url: str, *, overwrite: bool = False) -> None:
    """Refuse to write: SQLAlchemy's addresses do that in one transaction."""
    raise FormatError(
        "tables are read through ADBC only; write to the same address without 'adbc+', through SQLAlchemy"
    )
