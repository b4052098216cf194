"""Parquet, Feather and SQLite as sources, read in blocks of rows of the same size wherever the file's own parts end."""

from __future__ import annotations

import contextlib
import hashlib
import math
import os
import re
import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from hybridbn.columns import Cells
from hybridbn.commands.sources import Kinds, located
from hybridbn.errors import FormatError, TableError
from hybridbn.formats import columnar, sqlite
from hybridbn.formats.jsonlines import typed_objects
from hybridbn.formats.reading import Wanted
from hybridbn.variables import shorten

__all__ = ["ArrowBlock", "ArrowSource", "SqliteBlock", "SqliteSource"]


class ArrowSource:
    """A Parquet or Feather file."""

    family = "arrow"
    spelled = False

    def __init__(self, path: Path, shown: str, suffix: str) -> None:
        self.path, self.shown, self.suffix = path, shown, suffix
        self.pyarrow = columnar._pyarrow()
        self._state = _state(path)
        with self._opened() as file:
            self.schema = file.schema_arrow if self._parquet else file.schema
        self.names = Wanted().names(list(self.schema.names))
        # pandas' index stands beside the data
        self.index = columnar._index_columns(self.schema.metadata)
        self.noted = columnar._noted(self.schema.metadata)
        self.ranges = _ranges(self.schema)

    @property
    def _parquet(self) -> bool:
        return self.suffix in columnar._PARQUET

    @contextlib.contextmanager
    def _opened(self) -> Iterator[Any]:
        try:
            if self._parquet:
                from pyarrow import parquet

                with parquet.ParquetFile(self.path, pre_buffer=False, buffer_size=1 << 20) as file:
                    yield file
            else:
                with self.pyarrow.OSFile(os.fspath(self.path)) as raw, self.pyarrow.ipc.open_file(raw) as file:
                    yield file
        except (self.pyarrow.ArrowException, OSError) as error:
            if isinstance(error, TableError) or (isinstance(error, OSError) and error.errno):
                raise
            raise FormatError(f"not a whole {'Parquet' if self._parquet else 'Feather'} file: {error}") from error

    def blocks(self, rows: int, first: int = 0) -> Iterator[ArrowBlock]:
        """Give blocks of so many rows."""
        start, held = first * rows, list[Any]()
        count = 0
        with self._opened() as file:
            for batch in self._batches(file, start, rows):
                place = 0
                while place < batch.num_rows:
                    part = batch.slice(place, rows - count)
                    held.append(part)
                    count += part.num_rows
                    place += part.num_rows
                    if count == rows:
                        yield self._block(start, held)
                        start, held, count = start + rows, [], 0
        if count:
            yield self._block(start, held)

    def _batches(self, file: Any, skip: int, rows: int) -> Iterator[Any]:
        """Give the file's own batches without the first rows."""
        if self._parquet:
            group = 0
            while group < file.num_row_groups and skip >= file.metadata.row_group(group).num_rows:
                skip -= file.metadata.row_group(group).num_rows
                group += 1
            batches = file.iter_batches(rows, row_groups=list(range(group, file.num_row_groups)))
        else:
            batches = (file.get_batch(number) for number in range(file.num_record_batches))
        for batch in batches:
            if skip < batch.num_rows:
                yield batch.slice(skip)
            skip = max(skip - batch.num_rows, 0)

    def _block(self, start: int, batches: list[Any]) -> ArrowBlock:
        return ArrowBlock(self, start, self.pyarrow.Table.from_batches(batches))

    def digest(self) -> str:
        """Return a hash of the file."""
        with open(self.path, "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()

    def unchanged(self) -> bool:
        """Tell whether the file is the same as in the beginning."""
        return _state(self.path) == self._state

    def line_of(self, row: int) -> str:
        """Return the row."""
        return f"row {row}"

    def close(self) -> None:
        """Nothing stays open."""


def _ranges(schema: Any) -> dict[str, tuple[float, float]]:
    """Return the least and the greatest number that the type of each column of integers holds."""
    found = {}
    for field in schema:
        match = re.fullmatch(r"(u?)int(8|16|32|64)", str(field.type))
        if match:
            bits = int(match[2]) - (not match[1])
            # floats are too coarse for the greatest numbers of 64 bits, and nobody gets there
            high = float(2**bits - 1) if bits < 63 else math.inf
            found[field.name] = (0.0 if match[1] else -high - 1, high)
    return found


class ArrowBlock:
    """Some rows of a Parquet or Feather file."""

    def __init__(self, source: ArrowSource, start: int, table: Any) -> None:
        self.source, self.start, self.table = source, start, table
        self.rows = int(table.num_rows)

    def cells(self, names: Sequence[str], kinds: Kinds) -> dict[str, Cells]:
        """Return columns as typed cells."""
        found = {}
        wanted = Wanted(dict(kinds))
        with located(-1, self.start, "row"):
            for name in names:
                column, source = self.table.column(name), self.source
                kind = source.schema.field(name).type
                found[name], _ = columnar._cells(
                    source.pyarrow, name, column, kind, wanted, source.noted.get(name) if name not in kinds else None
                )
        return found

    def values(self, names: Sequence[str]) -> dict[str, list[Any]]:
        """Return columns as Python values."""
        found = {}
        for name in names:
            values = self.table.column(name).to_pylist()
            found[name] = [None if value is None or value != value else value for value in values]
        return found


class SqliteSource:
    """A table of an SQLite database, or the result of a query."""

    family = "sqlite"
    spelled = False

    def __init__(self, url: str) -> None:
        self.shown = url
        self.address = sqlite._address(url)
        with open(self.address.file, "rb"):  # a missing file is reported as one
            pass
        self._connection = sqlite3.connect(
            f"file:{quote(str(self.address.file))}?mode=ro", uri=True, isolation_level=None, timeout=60
        )
        self.declared: dict[str, str] = {}
        try:
            self._prepare()
        except BaseException:
            self._connection.close()
            raise

    def _prepare(self) -> None:
        connection, address = self._connection, self.address
        try:
            if address.what == "table":
                described = connection.execute(f"PRAGMA table_info({sqlite._identifier(address.text)})").fetchall()
                if not described:
                    known = shorten(sqlite._tables(connection))
                    raise TableError(f"there is no table {address.text!r}; the tables are {known}")
                self.declared = {name: declared for _, name, declared, *_ in described}
                self.names = Wanted().names(list(self.declared))
                listed = ", ".join(map(sqlite._identifier, self.names))
                self._statement = f"SELECT {listed} FROM {sqlite._identifier(address.text)}"
            else:
                self._statement = address.text
            connection.set_authorizer(
                lambda action, *_: sqlite3.SQLITE_OK if action in sqlite._ALLOWED else sqlite3.SQLITE_DENY
            )
            if address.what == "query":
                # without its rows
                names, _ = sqlite._fetched(connection, f"SELECT * FROM ({address.text}) LIMIT 0")
                self.names = Wanted().names(names)
        except sqlite3.DatabaseError as error:
            raise FormatError(f"SQLite: {error}") from error
        self.truths = {name for name, declared in self.declared.items() if declared.upper() in ("BOOLEAN", "BOOL")}

    def blocks(self, rows: int, first: int = 0) -> Iterator[SqliteBlock]:
        """Give blocks of so many rows."""
        try:
            cursor = self._connection.execute(f"SELECT * FROM ({self._statement}) LIMIT -1 OFFSET {first * rows}")
            for start in _counted(first * rows, rows):
                fetched = cursor.fetchmany(rows)
                if not fetched:
                    return
                yield SqliteBlock(self, start, fetched)
        except sqlite3.DatabaseError as error:
            raise FormatError(f"SQLite: {error}") from error

    def digest(self) -> str:
        """Return a hash of the rows; the file's other tables may change."""
        found = hashlib.sha256(repr(self.names).encode())
        for block in self.blocks(10_000):
            found.update(repr(block.fetched).encode("utf-8", "surrogatepass"))
        self._digest, self._version = found.hexdigest(), self._data_version()
        return self._digest

    def _data_version(self) -> tuple[int, ...]:
        log = Path(f"{self.address.file}-wal")
        return (*_state(self.address.file), *(_state(log) if log.exists() else ()))

    def unchanged(self) -> bool:
        """Tell whether the rows are the same as in the beginning."""
        return self._data_version() == self._version or self.digest() == self._digest

    def line_of(self, row: int) -> str:
        """Return the row."""
        return f"row {row}"

    def close(self) -> None:
        """Close the database."""
        self._connection.close()


def _counted(start: int, step: int) -> Iterator[int]:
    while True:
        yield start
        start += step


class SqliteBlock:
    """Some rows of a query."""

    def __init__(self, source: SqliteSource, start: int, fetched: list[tuple[Any, ...]]) -> None:
        self.source, self.start, self.fetched = source, start, fetched
        self.rows = len(fetched)
        self._columns = dict(zip(source.names, map(list, zip(*fetched, strict=True)), strict=True))

    def cells(self, names: Sequence[str], kinds: Kinds) -> dict[str, Cells]:
        """Return columns as typed cells."""
        chosen = {}
        for name in names:
            column = self._columns[name]
            if name in self.source.truths:
                column = [bool(value) if value in (0, 1) else value for value in column]
            blob = next((row for row, value in enumerate(column) if isinstance(value, bytes)), None)
            if blob is not None:
                raise TableError(f"column {name!r}, row {self.start + blob}: a BLOB; cast it to text in a query first")
            chosen[name] = column
        with located(-1, self.start, "row"):
            return typed_objects(chosen, Wanted({n: kind for n, kind in kinds.items() if n in chosen})).cells

    def values(self, names: Sequence[str]) -> dict[str, list[Any]]:
        """Return columns as they are in the database."""
        return {name: self._columns[name] for name in names}


def _state(path: Path) -> tuple[int, int, int]:
    status = os.stat(path)
    return status.st_size, status.st_mtime_ns, status.st_ino
