"""Parquet and Feather files, through pyarrow; hybridbn's own types travel in the schema's metadata."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

import numpy as np

from hybridbn.errors import FormatError, NetworkError, TableError
from hybridbn.formats.tables.reading import Read, Wanted
from hybridbn.tables import Table
from hybridbn.tables.adapters.arrow import arrow_labels
from hybridbn.tables.columns import Cells, Source, coded_cells, recoded
from hybridbn.tables.frames import cells_of
from hybridbn.variables import Discrete

__all__ = ["PARQUET", "arrow_read", "cells_in", "index_columns", "needed_pyarrow", "noted_columns", "read", "write"]

_KEY = b"hybridbn"
_MOST_METADATA = 1 << 28
PARQUET = (".parquet", ".pq")
"""The suffixes of Parquet; the others are those of Feather."""


def read(file: Path, wanted: Wanted, suffix: str) -> Read:
    """Read a Parquet or Feather file. pandas' index columns are left out unless they are asked for by name."""
    pyarrow = needed_pyarrow()
    # A missing file is reported as one, before pyarrow wraps it.
    with open(file, "rb"):
        pass
    try:
        with (
            pyarrow.memory_map(str(file)) if suffix not in PARQUET and file.stat().st_size else open(file, "rb") as data
        ):
            table, original = (_parquet if suffix in PARQUET else _feather)(pyarrow, data, wanted)
    except (pyarrow.ArrowException, OSError) as error:
        if isinstance(error, TableError):
            raise
        raise FormatError(f"not a whole {'Parquet' if suffix in PARQUET else 'Feather'} file: {error}") from error
    return _typed(pyarrow, table, original, wanted, noted_columns(original.metadata))


def arrow_read(table: Any, wanted: Wanted) -> Read:
    """Return the wanted columns of an Arrow table from anywhere."""
    return _typed(needed_pyarrow(), table.select(wanted.names(table.column_names)), table.schema, wanted, {})


def _typed(pyarrow: Any, table: Any, original: Any, wanted: Wanted, noted: Mapping[str, Mapping[str, Any]]) -> Read:
    cells: dict[str, Cells] = {}
    sources: dict[str, Source] = {}
    for name, column in zip(table.column_names, table.columns, strict=True):
        cells[name], source = cells_in(pyarrow, name, column, original.field(name).type, wanted, noted.get(name))
        if source is not None:
            sources[name] = source
    return Read(cells, sources)


def needed_pyarrow() -> Any:
    """Return pyarrow, or say how to get it."""
    try:
        import pyarrow
    except ModuleNotFoundError:
        raise FormatError("Parquet and Feather need pyarrow: pip install 'hybridbn[io]'") from None
    return pyarrow


def _parquet(pyarrow: Any, data: Any, wanted: Wanted) -> tuple[Any, Any]:
    from pyarrow import parquet

    schema = parquet.ParquetFile(data).schema_arrow
    names = _chosen(schema, wanted)
    texts = [
        name
        for name in names
        if pyarrow.types.is_string(schema.field(name).type) or pyarrow.types.is_large_string(schema.field(name).type)
    ]
    data.seek(0)
    # Text that the file holds as a dictionary is taken as one: building strings would cost more than all the rest.
    opened = parquet.ParquetFile(data, read_dictionary=texts)
    if opened.metadata.num_columns == len(names):
        return opened.read().select(names), schema
    return opened.read(columns=names).select(names), schema


def _feather(pyarrow: Any, data: Any, wanted: Wanted) -> tuple[Any, Any]:
    from pyarrow import feather

    table = feather.read_table(data)
    schema = table.schema
    return table.select(_chosen(schema, wanted)), schema


def _chosen(schema: Any, wanted: Wanted) -> list[str]:
    names = list(schema.names)
    if wanted.columns is None:
        index = index_columns(schema.metadata)
        names = [name for name in names if name not in index]
    return wanted.names(names)


def index_columns(metadata: Mapping[bytes, bytes] | None) -> set[str]:
    """Return the columns that pandas wrote for a frame's index."""
    try:
        noted = json.loads((metadata or {}).get(b"pandas", b"{}"))
        return {name for name in noted.get("index_columns", []) if isinstance(name, str)}
    except (ValueError, AttributeError, TypeError, RecursionError):
        return set()  # someone else's note; the data does not depend on it


def cells_in(
    pyarrow: Any, name: str, column: Any, original: Any, wanted: Wanted, noted: Mapping[str, Any] | None
) -> tuple[Cells, Source | None]:
    """Return a column of Arrow as typed cells, and what keeps integers that no float holds.

    Parameters
    ----------
    original : Arrow type
        That of the file, where the column was read as another one.
    noted : mapping, optional
        What `write` noted about the column.
    """
    kind = wanted.kind(name)
    note = noted if kind is None else None
    if note is not None:
        kind = note["kind"]
    if pyarrow.types.is_dictionary(column.type) and not pyarrow.types.is_dictionary(original):
        found = coded_cells(name, arrow_labels(name, column, declared=False), kind)
    else:
        found = cells_of(name, column, kind)
    if note is not None and "states" in note:
        try:
            variable = Discrete(name, states=tuple(note["states"]))
            found = recoded(name, found, variable)
        except (NetworkError, TableError) as error:
            raise FormatError(f"the states noted for column {name!r} don't fit it: {error}") from None
        return Cells(found.array, found.states, bool(note.get("declared")), bool(note.get("ordered"))), None
    large = found.integer and found.states is None
    return found, Source("arrow", column) if large and not pyarrow.types.is_null(column.type) else None


def noted_columns(metadata: Mapping[bytes, bytes] | None) -> dict[str, dict[str, Any]]:
    """Return what `write` noted about the columns; refuse a note that it can't have written."""
    text = (metadata or {}).get(_KEY)
    if text is None:
        return {}
    try:
        if len(text) > _MOST_METADATA:
            raise ValueError("too long")
        noted = json.loads(text)
        if not isinstance(noted, dict) or noted.get("version") != 1 or not isinstance(noted.get("columns"), dict):
            raise ValueError("not version 1")
        for note in noted["columns"].values():
            if note["kind"] not in ("discrete", "continuous") or not isinstance(note.get("states", []), list):
                raise ValueError("not a column's kind")
        columns: dict[str, dict[str, Any]] = noted["columns"]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise FormatError(f"hybridbn's note in the file's metadata is damaged or of a newer version: {error}") from None
    return columns


def write(table: Table, file: IO[bytes], suffix: str) -> None:
    """Write a Parquet or Feather file."""
    pyarrow = needed_pyarrow()
    notes = {}
    for name in table.names:
        cells = table.cells(name)
        note: dict[str, Any] = {"kind": "continuous" if cells.states is None else "discrete"}
        if cells.states is not None and _needs_states(cells):
            if not all(isinstance(state, str | int | float) for state in cells.states):
                raise FormatError(f"column {name!r}: only text, numbers and truth values can be states in a file")
            note |= {"states": list(cells.states), "declared": cells.declared, "ordered": cells.ordered}
        notes[name] = note
    try:
        made = table.to_arrow()
        metadata = {
            **(made.schema.metadata or {}),
            _KEY: json.dumps({"version": 1, "columns": notes}).encode(),
        }
        made = made.replace_schema_metadata(metadata)
        if suffix in PARQUET:
            from pyarrow import parquet

            parquet.write_table(made, file)
        else:
            from pyarrow import feather

            feather.write_feather(made, file)
    except (pyarrow.ArrowException, UnicodeEncodeError) as error:
        raise FormatError(f"this table can't be written as {suffix}: {error}") from error


def _needs_states(cells: Cells) -> bool:
    """Tell whether states can't be found again from the values: unused ones, or an order of their own."""
    states = list(cells.states or ())
    if set(map(type, states)) == {bool}:
        return False
    used = np.zeros(len(states) + 1, dtype=bool)
    used[cells.array] = True
    if cells.declared or not used[:-1].all():
        return True
    try:
        return states != sorted(states)  # type: ignore[type-var]
    except TypeError:
        return True
