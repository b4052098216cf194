"""Parquet and Feather as sources, read in blocks of rows of the same size wherever the file's own parts end."""

from __future__ import annotations

import contextlib
import hashlib
import math
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from hybridbn.commands.sources import Kinds, located
from hybridbn.errors import FormatError, TableError
from hybridbn.formats.tables import columnar
from hybridbn.formats.tables.reading import Wanted
from hybridbn.tables.columns import Cells

__all__ = ["ArrowBlock", "ArrowSource"]


class ArrowSource:
    """A Parquet or Feather file."""

    family = "arrow"
    spelled = False

    def __init__(self, path: Path, shown: str, suffix: str) -> None:
        self.path, self.shown, self.suffix = path, shown, suffix
        self.pyarrow = columnar.needed_pyarrow()
        self._state = _state(path)
        with self._opened() as file:
            self.schema = file.schema_arrow if self._parquet else file.schema
        self.names = Wanted().names(list(self.schema.names))
        # pandas' index stands beside the data
        self.index = columnar.index_columns(self.schema.metadata)
        self.noted = columnar.noted_columns(self.schema.metadata)
        self.ranges = _ranges(self.schema)
        self.kinds = {field.name: _kind(self.pyarrow.types, field.type) for field in self.schema}

    @property
    def _parquet(self) -> bool:
        return self.suffix in columnar.PARQUET

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


def _kind(types: Any, held: Any) -> str:
    """Return what a type holds, in the words of `hybridbn.formats.tables.relations.NewColumn`."""
    if types.is_dictionary(held):
        held = held.value_type
    tests = {
        "integer": types.is_integer,
        "float": types.is_floating,
        "bool": types.is_boolean,
        "text": lambda kind: types.is_string(kind) or types.is_large_string(kind),
        "decimal": types.is_decimal,
        "date": types.is_date,
        "time": types.is_time,
        "interval": types.is_duration,
        "bytes": lambda kind: types.is_binary(kind) or types.is_large_binary(kind) or types.is_fixed_size_binary(kind),
    }
    if types.is_nested(held):
        return "json"
    if types.is_timestamp(held):
        return "datetime" if held.tz is None else "instant"
    return next((kind for kind, test in tests.items() if test(held)), "other")


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
                found[name], _ = columnar.cells_in(
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


def _state(path: Path) -> tuple[int, int, int]:
    status = os.stat(path)
    return status.st_size, status.st_mtime_ns, status.st_ino
