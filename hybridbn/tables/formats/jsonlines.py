"""JSON lines: one object a line; null or an absent key is a missing cell."""

from __future__ import annotations

import contextlib
import io
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, ClassVar

from hybridbn.errors import TableError
from hybridbn.tables import Table
from hybridbn.tables.cells import reword_error
from hybridbn.tables.formats.base import Field, FileFormat, Fills, Kinds, Spell, TableSource
from hybridbn.tables.formats.files import StoredFile
from hybridbn.tables.formats.text_blocks import (
    Change,
    TextBlock,
    TextSource,
    TextWriter,
    format_texts,
    make_line_splitter,
    plain_text,
    shift_lines_in_errors,
)
from hybridbn.tables.formats.typed_columns import WantedColumns, name_lines_for_rows, name_lines_in_errors, type_objects

_EMPTY = 'the file is empty; at least one line with an object such as {"x": 1.5} is needed'


class JsonLines(FileFormat):
    """One object a line."""

    title = "JSON lines"
    position = 5
    suffixes: ClassVar[tuple[str, ...]] = (".jsonl", ".ndjson")
    packable = True

    def read(self, file: Path | IO[bytes], wanted: WantedColumns, suffix: str) -> Table:
        """Read JSON lines; blank lines are skipped."""
        with open(file, "rb") if isinstance(file, Path) else contextlib.nullcontext(file) as opened:
            columns, lines = _gather(opened)
        if not lines:
            raise TableError(_EMPTY)
        return _type({name: columns[name] for name in wanted.names(list(columns))}, wanted, lines)

    def source(self, file: Path | StoredFile, shown: str, suffix: str) -> JsonSource:  # type: ignore[override]
        """Open a file that is read in blocks."""
        return JsonSource(file, shown)

    def writer(  # type: ignore[override]
        self, fields: Sequence[Field], suffix: str, *, origin: TableSource | None = None, counter: str | None = None
    ) -> JsonWriter:
        """Return what writes a file with these columns; every key is on every line, null where a cell is missing."""
        return JsonWriter(fields, counter, origin=origin if isinstance(origin, JsonSource) else None)


# -- reading ----------------------------------------------------------------------------------------------------------


def _type(columns: dict[str, list[Any]], wanted: WantedColumns, lines: Sequence[int], before: int = 0) -> Table:
    """Return columns as typed ones; errors name the lines of rows, before which there are others of the file."""
    with name_lines_in_errors(lambda row: before + lines[row]):
        table = type_objects(columns, wanted)
    for column in table._columns.values():
        if column.fault is not None:
            text = name_lines_for_rows(column.fault.text, lambda row: before + lines[row])
            column.fault = reword_error(column.fault, text)
    return table


def _gather(file: IO[bytes]) -> tuple[dict[str, list[Any]], list[int]]:
    """Return the values of all lines by columns, and the numbers of the lines."""
    columns: dict[str, list[Any]] = {}
    numbers: list[int] = []
    decoder = json.JSONDecoder(object_pairs_hook=_refuse_repeats, parse_constant=_refuse_constant)
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
        row = len(numbers)
        for name, value in record.items():
            column = columns.setdefault(name, [])
            if len(column) < row:
                column.extend([None] * (row - len(column)))
            column.append(value)
        numbers.append(number)
    for values in columns.values():
        values.extend([None] * (len(numbers) - len(values)))
    return columns, numbers


def _refuse_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    record = dict(pairs)
    if len(record) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"the key {next(name for name in names if names.count(name) > 1)!r} occurs twice")
    return record


def _refuse_constant(text: str) -> None:
    """Refuse a constant such as NaN, which Python's reader takes and JSON does not have."""
    raise ValueError(f"{text} is no JSON value; write null for a missing number")


class JsonSource(TextSource):
    """A file of JSON lines; columns turn up as it is read."""

    knows_names = False

    def __init__(self, file: Path | StoredFile, shown: str) -> None:
        # a CR within a line is white space of JSON
        super().__init__(file, shown, make_line_splitter(returns=False), JsonBlock)
        if next(self.blocks(1), None) is None:
            raise TableError(_EMPTY)


@dataclass(eq=False)
class JsonBlock(TextBlock):
    """Some lines of JSON."""

    def __post_init__(self) -> None:
        with shift_lines_in_errors(0, self.piece.line - 1):
            self._columns, self._lines = _gather(io.BytesIO(self.piece.data))
        self.source.names += [name for name in self._columns if name not in self.source.names]

    def read(self, names: Sequence[str], kinds: Kinds) -> Table:
        """Return columns as typed ones."""
        chosen = {name: self._columns[name] for name in names if name in self._columns}
        wanted = WantedColumns({name: kind for name, kind in kinds.items() if name in chosen})
        return _type(chosen, wanted, self._lines, self.piece.line - 1)

    def values(self, names: Sequence[str]) -> dict[str, list[Any]]:
        """Return columns as JSON's values."""
        return {name: list(self._columns.get(name, [None] * self.rows)) for name in names}


# -- writing ----------------------------------------------------------------------------------------------------------


class JsonWriter(TextWriter):
    """Writes JSON lines."""

    def lines(self, columns: Mapping[str, list[Any]]) -> Iterator[str]:
        """Give a line for each row."""
        keys = (_quote(name).replace("%", "%%") for name in columns)
        line = "{" + ", ".join(f"{key}: %s" for key in keys) + "}"
        texts = [format_texts(values, _quote, "null", _format_json) for values in columns.values()]
        return map(line.__mod__, zip(*texts, strict=True))

    def splice(self, block: JsonBlock, fills: Fills, spell: Spell, draw: int = 0) -> bytes:
        """Return the lines, those with holes written anew with all numbers as they were."""
        prefix = "" if self.counter is None else f"{json.dumps(self.counter)}: {draw + 1}, "
        data, piece = block.piece.data, block.piece
        wanted: dict[int, dict[str, str]] = {}
        for name, (rows, values) in fills.items():
            for row, value in zip(rows.tolist(), values, strict=True):
                wanted.setdefault(row, {})[name] = json.dumps(value, ensure_ascii=False)
        decoder = json.JSONDecoder(parse_float=_Literal, parse_int=_Literal, parse_constant=_refuse_constant)
        changes: list[Change] = []
        for row, filled in wanted.items():
            start, end = int(piece.starts[row]), int(piece.ends[row])
            line = data[start:end]
            record: dict[str, Any] = decoder.decode(line.decode("utf-8-sig").strip())
            cells = {name: _format_json(value) for name, value in record.items()} | filled
            inner = ", ".join(f"{_quote(name)}: {text}" for name, text in cells.items())
            changes.append((start, start + len(line.rstrip()), f"{{{prefix}{inner}}}".encode()))
        for row, start in enumerate(piece.starts.tolist() if prefix else ()):
            if row not in wanted:
                begin = data.index(b"{", start) + 1
                empty = data[begin : piece.ends[row]].strip() == b"}"
                changes.append((begin, begin, (prefix.removesuffix(", ") if empty else prefix).encode()))
        return self.end_last_line(block.replace_bytes(changes))


class _Literal(str):
    """A number as it is written in the file."""

    __slots__ = ()


def _quote(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _format_json(value: Any) -> str:
    if isinstance(value, _Literal):
        return str(value)
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_quote(name)}: {_format_json(held)}" for name, held in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_format_json, value)) + "]"
    return json.dumps(value, ensure_ascii=False, default=plain_text)
