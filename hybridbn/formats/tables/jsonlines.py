"""JSON lines: one object a line; null or an absent key is a missing cell."""

from __future__ import annotations

import json
from pathlib import Path
from typing import IO, Any

from hybridbn.errors import FormatError, TableError
from hybridbn.formats.tables.reading import Read, Wanted, relocated
from hybridbn.tables import Table
from hybridbn.tables.columns import Cells, Source, numbers, objects
from hybridbn.tables.frames import cells_of
from hybridbn.variables import shorten

__all__ = ["cell_values", "gather", "no_constant", "read", "typed_objects", "write"]

_CHUNK = 20_000


def read(file: Path | IO[bytes], wanted: Wanted, suffix: str = ".jsonl") -> Read:
    """Read JSON lines; blank lines are skipped."""
    columns: dict[str, list[Any]] = {}
    lines: list[int] = []
    if isinstance(file, Path):
        with open(file, "rb") as opened:
            gather(opened, columns, lines)
    else:
        gather(file, columns, lines)
    if not lines:
        raise TableError('the file is empty; at least one line with an object such as {"x": 1.5} is needed')
    for values in columns.values():
        values.extend([None] * (len(lines) - len(values)))
    names = wanted.names(list(columns))
    try:
        return typed_objects({name: columns[name] for name in names}, wanted)
    except TableError as error:
        raise relocated(error, lambda row: lines[row]) from None


def typed_objects(columns: dict[str, list[Any]], wanted: Wanted) -> Read:
    """Return columns of Python values as typed cells; integers too large for floats are kept beside them."""
    cells: dict[str, Cells] = {}
    sources: dict[str, Source] = {}
    for name, values in columns.items():
        array = objects(values)
        wish = wanted.kind(name)
        found = cells_of(name, array, wish)
        if wanted.optional and found.states == () and wish is None:
            found = numbers(name, array.astype(float))
        cells[name] = found
        if found.integer and found.states is None:
            sources[name] = Source("numpy", array)
    return Read(cells, sources)


def gather(file: IO[bytes], columns: dict[str, list[Any]], lines: list[int]) -> None:
    """Add the values of all lines to `columns`, which may end early, and the numbers of the lines to `lines`."""
    decoder = json.JSONDecoder(object_pairs_hook=_without_repeats, parse_constant=no_constant)
    for number, raw in enumerate(file, start=1):
        try:
            text = raw.decode("utf-8-sig" if number == 1 else "utf-8").strip()
            if not text:
                continue
            record = decoder.decode(text)
        except RecursionError:
            raise TableError(
                f"line {number}: nested too deeply; a cell must be text, a number, true, false or null"
            ) from None
        except UnicodeDecodeError as error:
            raise TableError(f"line {number}: not UTF-8 text: {error.reason} at byte {error.start}") from None
        except ValueError as error:
            raise TableError(f"line {number} is not JSON: {error}; write one object a line") from None
        if not isinstance(record, dict):
            raise TableError(
                f'line {number} holds a {type(record).__name__}; write one object such as {{"x": 1.5}} a line'
            )
        row = len(lines)
        for name, value in record.items():
            if isinstance(value, dict | list):
                raise TableError(
                    f"line {number}: {name!r} is a nested value, not a cell: text, a number, true, false or null"
                )
            column = columns.setdefault(name, [])
            if len(column) < row:
                column.extend([None] * (row - len(column)))
            column.append(value)
        lines.append(number)


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    record = dict(pairs)
    if len(record) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"the key {next(name for name in names if names.count(name) > 1)!r} occurs twice")
    return record


def no_constant(text: str) -> None:
    """Refuse a constant such as NaN, which Python's reader takes and JSON does not have."""
    raise ValueError(f"{text} is no JSON value; write null for a missing number")


def write(table: Table, file: IO[bytes], suffix: str = ".jsonl") -> None:
    """Write JSON lines; every key is on every line, null where a cell is missing."""
    for name in table.names:
        for state in table.cells(name).states or ():
            if not isinstance(state, str | int | float):
                raise FormatError(f"column {name!r}: states such as {shorten([state])} are no JSON values")
    keys = (json.dumps(name, ensure_ascii=False).replace("%", "%%") for name in table.names)
    line = "{" + ", ".join(f"{key}: %s" for key in keys) + "}\n"
    for start in range(0, len(table), _CHUNK):
        part = table[start : start + _CHUNK]
        columns = [_texts(part, name) for name in part.names]
        try:
            file.write("".join(map(line.__mod__, zip(*columns, strict=True))).encode())
        except UnicodeEncodeError as error:
            raise TableError(f"{error.object[error.start : error.end]!r} can't be written in UTF-8") from None


def _texts(table: Table, name: str) -> list[str]:
    """Return a column as JSON values; each state is turned into text once only."""
    cells = table.cells(name)
    if cells.states is None:
        return ["null" if value is None else repr(value) for value in cell_values(table, name)]
    texts = [json.dumps(state, ensure_ascii=False) for state in cells.states]
    return list(objects([*texts, "null"])[cells.array])


def cell_values(table: Table, name: str) -> list[Any]:
    """Return a column as text, integers, floats, truth values and None."""
    cells = table.cells(name)
    if cells.states is None and not cells.integer:
        array = cells.array.astype(object)
        array[cells.missing] = None
        return list(array)
    if cells.states is None:
        return [
            None if value is None else int(value) if value == int(value) else float(value) for value in table.raw(name)
        ]
    return list(objects([*cells.states, None])[cells.array])
