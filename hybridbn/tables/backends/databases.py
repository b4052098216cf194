"""Tables of databases as sources: rows as they are fetched, and counts by GROUP BY where the table lives."""

from __future__ import annotations

import datetime
import decimal
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from hybridbn.errors import TableError
from hybridbn.tables.backends.base import BATCH_ROWS, Batch, Fragment, Source, Task
from hybridbn.tables.backends.sql import SQLSource
from hybridbn.tables.formats.database_base import QueryResult, database_of, quote_name
from hybridbn.tables.formats.pyarrow_checks import import_pyarrow
from hybridbn.tables.formats.typed_columns import WantedColumns

__all__ = ["open_database"]

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

    shown: str
    schema: Any
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
        pyarrow = import_pyarrow()
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
    pyarrow = import_pyarrow()
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
        with database_of(self.url).open_result(self.url, WantedColumns(columns=tuple(columns))) as result:
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
        pyarrow = import_pyarrow()
        types = pyarrow.types
        arrays = []
        for name, place in zip(columns, places, strict=True):
            kind = self.schema.field(name).type
            convert: Any = None
            if types.is_floating(kind):
                convert = float
            elif types.is_boolean(kind):
                convert = bool
            elif types.is_string(kind):
                convert = _spell
            cells = [row[place] for row in rows]
            try:
                if convert is not None:
                    cells = [None if cell is None else convert(cell) for cell in cells]
                arrays.append(pyarrow.array(cells, kind))
            except (pyarrow.ArrowException, TypeError, ValueError) as error:
                raise TableError(
                    f"column {name!r} begins with values of type {kind} and goes on with others ({error}), in rows"
                    f" {first} to {first + len(rows) - 1}; convert them in a query: ?query=SELECT ..."
                ) from None
        return pyarrow.record_batch(arrays, list(columns))


def _spell(value: Any) -> str:
    if isinstance(value, int | float | bytes):
        raise TypeError(f"{value!r} is no text")
    return str(value)
