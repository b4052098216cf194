"""Fill the holes of text files in place: every other byte stays as it is."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np

from hybridbn.commands.filling import Fills
from hybridbn.commands.text_sources import ArffBlock, DelimitedBlock, JsonBlock, TextBlock
from hybridbn.formats.tables import arff, delimited
from hybridbn.formats.tables.jsonlines import no_constant

__all__ = ["Texts", "spliced_arff", "spliced_delimited", "spliced_json"]


class Texts(Protocol):
    """How values are written: numbers by `repr`, states as they are spelled in the file."""

    def text(self, name: str, value: Any) -> str:
        """Return the text of a value of a column, without quotes."""


Change = tuple[int, int, bytes]
"""Where to start and end, and what to put there."""


def _changed(data: bytes, changes: list[Change]) -> bytes:
    changes.sort(key=lambda change: change[0])
    parts: list[bytes] = []
    place = 0
    for start, end, text in changes:
        parts += (data[place:start], text)
        place = end
    parts.append(data[place:])
    return b"".join(parts)


def _prefixes(block: TextBlock, prefix: bytes, skip: int = 0) -> list[Change]:
    return [(start + skip, start + skip, prefix) for start in block.piece.starts.tolist()] if prefix else []


def spliced_delimited(block: DelimitedBlock, fills: Fills, texts: Texts, prefix: str) -> bytes:
    """Return the block's bytes with the holes filled, and `prefix` before each record."""
    source, data = block.source, block.piece.data
    quoted = {*delimited.MISSING, *source.missing}
    written: dict[tuple[str, Any], bytes] = {}
    # the first record of a file without header line end may have a mark of byte order, which belongs to the header
    changes = _prefixes(block, prefix.encode())
    plain = block.plain_places()
    found: dict[int, list[tuple[int, int]]] = {}
    for name, (rows, values) in fills.items():
        column = source.names.index(name)
        if plain is not None:
            starts, ends = plain[0][rows, column].tolist(), plain[1][rows, column].tolist()
        else:
            places = [found.setdefault(row, block.quoted_places(row))[column] for row in rows.tolist()]
            starts, ends = [place[0] for place in places], [place[1] for place in places]
        filled = []
        for value in values:
            text = written.get((name, value)) if isinstance(value, str | bool) else None
            if text is None:
                text = delimited.quoted_cell(texts.text(name, value), source.delimiter, quoted).encode()
                if isinstance(value, str | bool):
                    written[name, value] = text
            filled.append(text)
        changes += zip(starts, ends, filled, strict=True)
    return _changed(data, changes)


class _Literal(str):
    """A number as it is written in the file."""

    __slots__ = ()


def spliced_json(block: JsonBlock, fills: Fills, texts: Texts, prefix: str) -> bytes:
    """Return the lines, those with holes written anew with all numbers as they were; `prefix` starts every object."""
    data, piece = block.piece.data, block.piece
    wanted: dict[int, dict[str, str]] = {}
    for name, (rows, values) in fills.items():
        for row, value in zip(rows.tolist(), values, strict=True):
            wanted.setdefault(row, {})[name] = json.dumps(value, ensure_ascii=False)
    decoder = json.JSONDecoder(parse_float=_Literal, parse_int=_Literal, parse_constant=no_constant)
    changes: list[Change] = []
    for row, filled in wanted.items():
        start, end = int(piece.starts[row]), int(piece.ends[row])
        line = data[start:end]
        stop = start + len(line.rstrip())
        record: dict[str, Any] = decoder.decode(line.decode("utf-8-sig").strip())
        cells = {name: _json(value) for name, value in record.items()} | filled
        inner = ", ".join(f"{json.dumps(name, ensure_ascii=False)}: {text}" for name, text in cells.items())
        changes.append((start, stop, f"{{{prefix}{inner}}}".encode()))
    if prefix:
        for row, start in enumerate(piece.starts.tolist()):
            if row not in wanted:
                begin = data.index(b"{", start) + 1
                empty = data[begin : piece.ends[row]].strip() == b"}"
                changes.append((begin, begin, (prefix.removesuffix(", ") if empty else prefix).encode()))
    return _changed(data, changes)


def _json(value: Any) -> str:
    return str(value) if isinstance(value, _Literal) else json.dumps(value, ensure_ascii=False)


def spliced_arff(block: ArffBlock, fills: Fills, texts: Texts) -> bytes:
    """Return the rows with the question marks filled, dense and sparse ones."""
    data, piece, names = block.piece.data, block.piece, block.source.names
    wanted: dict[int, dict[int, bytes]] = {}
    for name, (rows, values) in fills.items():
        column = names.index(name)
        for row, value in zip(rows.tolist(), values, strict=True):
            wanted.setdefault(row, {})[column] = arff.quoted_word(texts.text(name, value)).encode()
    changes: list[Change] = []
    for row, filled in wanted.items():
        start = int(piece.starts[row])
        places = _arff_places(data[start : int(piece.ends[row])].decode("latin-1"))
        changes += [(start + places[column][0], start + places[column][1], text) for column, text in filled.items()]
    return _changed(data, changes)


def _arff_places(line: str) -> Mapping[int, tuple[int, int]]:
    """Return where the values of a row are."""
    found: dict[int, tuple[int, int]] = {}
    begin = len(line) - len(line.lstrip())
    end = len(line.rstrip())
    if line[begin] == "{":
        place, end = begin + 1, line.rindex("}", 0, _unweighted(line, end))
        while place < end and line[place:end].strip():
            match = arff.SPARSE.match(line, place, end)
            if match is None:
                break
            found[int(match.group(1))] = match.span(2)
            place = match.end()
        return found
    end = _unweighted(line, end)
    pattern = arff.TABBED if "," not in line else arff.VALUE
    place = begin
    while True:
        match = pattern.match(line, place, end)
        if match is None:
            return found
        found[len(found)] = match.span(1)
        place = match.end()
        if not match.group(2):
            return found


def _unweighted(line: str, end: int) -> int:
    """Return the end of a row without the weight in braces that may follow it."""
    text = line[:end]
    if text.endswith("}"):
        cut = text.rindex("{")
        before = text[:cut].rstrip()
        if before and before[-1] in ",}" and np.char.isnumeric(text[cut + 1 : -1].strip().replace(".", "", 1) or "x"):
            return len(before[:-1].rstrip()) if before[-1] == "," else len(before)
    return end
