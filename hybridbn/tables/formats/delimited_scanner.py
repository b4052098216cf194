"""A scanner for delimited text: records with their line numbers, strict about quotes and the number of fields."""

from __future__ import annotations

import codecs
import itertools
import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hybridbn.errors import TableError

_BATCH = 10_000
_WINDOW = 1 << 18  # small enough to stay in a processor's cache
_LINE_END = np.array([10], dtype=np.uint8)
MARKS = {
    codecs.BOM_UTF32_LE: "utf-32-le",
    codecs.BOM_UTF32_BE: "utf-32-be",
    codecs.BOM_UTF16_LE: "utf-16-le",
    codecs.BOM_UTF16_BE: "utf-16-be",
}
"""The encodings of texts by how they begin."""


class DelimitedRecord(NamedTuple):
    """One record of a delimited file: the line where it starts, and its cells, a quoted one with a NUL before it."""

    line: int
    cells: list[str]


def check_text(data: Any) -> Any:
    """Return bytes; refuse those that are no text in UTF-8, and text without anything in it."""
    if data[:2] == b"\x1f\x8b":
        raise TableError("line 1: the file is compressed; its name must end in .gz then")
    nul = data.find(b"\0")
    if nul >= 0:
        line = 1 + count_line_ends(data[:nul])
        raise TableError(f"line {line}: a NUL byte; the file is damaged, or no text in UTF-8")
    if data[:3] == codecs.BOM_UTF8 and len(data) == 3:
        data = b""
    if not len(data) or (not data[:4096].strip() and not data[:].strip()):
        raise TableError("the file is empty; a header with the columns' names is needed")
    return data


def count_line_ends(data: bytes) -> int:
    """Return the number of line ends; CR, LF and CRLF each are one."""
    return data.count(b"\n") + (data.count(b"\r") - data.count(b"\r\n") if b"\r" in data else 0)


class Scanner:
    """Gives the records of a file; every fault is a `TableError` with the line.

    Attributes
    ----------
    cell : compiled pattern
        Of a cell with the sign behind it: what stands in quotes, what stands without, and the sign.
    """

    def __init__(self, data: Any, delimiter: str) -> None:
        self.data = data
        self.delimiter = delimiter
        ends = [position for position in (data.find(b"\n"), data.find(b"\r")) if position >= 0]
        # Many programs quote the names only; then no cell can hold a line end, which is faster to read.
        self._first_line = min(ends, default=0)
        self.quotes: bool = data.find(b'"', self._first_line) >= 0 or data[: self._first_line].count(b'"') % 2 == 1
        sign = re.escape(delimiter)
        # A cell is quoted, with quotes inside doubled, or bare; a bare one may hold quotes but not start with one.
        self.cell: re.Pattern[str] = re.compile(
            rf'(?:"((?:[^"]|"")*+)"|((?:[^{sign}\r\n"][^{sign}\r\n]*+)?))({sign}|\r\n|\n|\r|\Z)'
        )

    def closed_bytes(self) -> Any:
        """Return the bytes for pyarrow, with a line end behind an empty last cell."""
        if self.quotes and self.data[-1:] == self.delimiter.encode():
            # pyarrow takes an empty cell at the very end for a quoted one if the cell before it is.
            return bytes(self.data) + b"\n"
        return self.data

    def text(self, size: int | None = None) -> str:
        """Return the text, or about its first `size` bytes."""
        decoder = codecs.getincrementaldecoder("utf-8-sig")()
        try:
            return decoder.decode(self.data[:size], final=size is None)
        except UnicodeDecodeError as error:
            line = 1 + count_line_ends(self.data[: error.start])
            raise TableError(
                f"line {line}: byte {self.data[error.start]:#04x} is not UTF-8; if the file is in another encoding,"
                " give it, for example encoding='cp1252'"
            ) from None

    def split_records(self, text: str, *, whole: bool = True) -> Iterator[DelimitedRecord]:
        """Give the records of a text, the header too; of a text cut short (not `whole`) only the certain ones."""
        if '"' not in text:
            yield from self._split_bare_records(text, whole)
            return
        position, line, cells, start, end = 0, 1, list[str](), 1, len(text)
        match_cell = self.cell.match
        while position < end or cells:
            match = match_cell(text, position)
            if match is None or (not whole and match.end() == end):
                if not whole:
                    return
                raise TableError(self._describe_quote_fault(text, position, start, line))
            quoted, bare, stop = match.groups()
            if quoted is None:
                cells.append(bare)
            else:
                line += quoted.count("\n") + quoted.count("\r") - quoted.count("\r\n")
                cells.append("\0" + quoted.replace('""', '"'))
            position = match.end()
            if stop != self.delimiter:
                if cells != [""]:
                    yield DelimitedRecord(start, cells)
                cells, line = [], line + 1
                start = line

    def _split_bare_records(self, text: str, whole: bool) -> Iterator[DelimitedRecord]:
        lines = re.split(r"\r\n|\n|\r", text)
        if not whole:
            lines.pop()
        for number, line in enumerate(lines, start=1):
            if line:
                yield DelimitedRecord(number, line.split(self.delimiter))

    def _describe_quote_fault(self, text: str, position: int, start: int, line: int) -> str:
        rest = text[position : position + 40]
        if rest.startswith('"') and not re.compile(r'"(?:[^"]|"")*+"').match(text, position):
            return (
                f"line {start}: a quote is opened and never closed: {rest!r}; close it, or double a quote that is meant"
            )
        return f"line {line}: text after a closing quote: {rest!r}; a quote inside a quoted cell must be doubled"

    def read_beginning(self, size: int) -> tuple[list[str], list[list[str]], bool]:
        """Return the header, the first full-width records, and whether that is the whole file."""
        while True:
            whole = size >= len(self.data)
            text = self.text(None if whole else size)
            records = list(self.split_records(text, whole=whole))
            if records or whole:
                break
            size *= 8
        if not records:
            raise TableError("the file is empty; a header with the columns' names is needed")
        header = [cell.removeprefix("\0") for cell in records[0].cells]
        rows = [record.cells for record in records[1:1001]]
        return header, [row for row in rows if len(row) == len(header)], whole and len(records) == 1 + len(rows)

    def body_records(self) -> Iterator[DelimitedRecord]:
        """Give the records after the header, refusing those that are not as wide as this."""
        records = self.split_records(self.text())
        width = len(next(records).cells)
        for record in records:
            if len(record.cells) != width:
                raise TableError(
                    f"line {record.line}: {len(record.cells)} cells, but the header names {width} columns; mend the"
                    " line, or put quotes around a cell that holds the delimiter"
                )
            yield record

    def validate(self) -> None:
        """Look at every record; raise `TableError` at the first fault."""
        for _ in self.body_records():
            pass

    def quotes_are_plain(self, rows: int) -> bool:
        """Tell whether `rows` rows are one line each and every quote is at an end of its cell, or doubled.

        pyarrow takes quotes that are never closed, or not where they should be, without a word. Vectorized, and in
        windows that stay in the processor's cache, because every file with quotes is looked at.
        """
        data, last = np.frombuffer(self.data, dtype=np.uint8), len(self.data) - 1
        returns = self.data.find(b"\r") >= 0
        lines, quotes, previous = 0, 0, _LINE_END
        flags = np.empty((4, _WINDOW + 2), dtype=bool)
        for start in range(0, len(data), _WINDOW):
            # One byte more on both sides, so that each quote has neighbors; beyond the file's ends there is a line end.
            window = np.concatenate((previous, data[start : start + _WINDOW + 1], _LINE_END[start + _WINDOW <= last :]))
            size = len(window)
            quote, ending, edge, inside = (row[:size] for row in flags)
            np.equal(window, 34, out=quote)
            np.equal(window, 10, out=ending)
            if returns:
                ending |= window == 13
                lines -= int(np.count_nonzero((window[1:-1] == 13) & (window[2:] == 10)))
            np.equal(window, ord(self.delimiter), out=edge)
            edge |= ending
            edge |= quote
            stray = inside[: size - 2]
            np.logical_or(edge[:-2], edge[2:], out=stray)
            np.greater(quote[1:-1], stray, out=stray)
            if stray.any():
                return False
            lines += int(np.count_nonzero(ending[1:-1]))
            quotes += int(np.count_nonzero(quote[1:-1]))
            previous = window[-2:-1]
        ended = int(data[last]) in (10, 13)
        return quotes % 2 == 0 and rows + 1 == lines + (not ended)

    def holds_hexadecimal(self) -> bool:
        """Tell whether a number in base 16 may be among the cells; a file without an x is settled at once."""
        find, start = self.data.find, self._first_line
        return any(find(sign, start) >= 0 and find(b"0" + sign, start) >= 0 for sign in (b"x", b"X"))

    def line_of(self, row: int) -> int:
        """Return the line where a row of the table starts."""
        return next((record.line for record in itertools.islice(self.body_records(), row, None)), row + 2)


def encode_columns(scanner: Scanner, columns: Sequence[int]) -> list[tuple[NDArray[np.intp], list[str]]]:
    """Return some columns of the body as codes and distinct texts."""
    known: list[dict[str, int]] = [{} for _ in columns]
    parts: list[list[NDArray[np.intp]]] = [[] for _ in columns]

    records = scanner.body_records()
    while batch := [record.cells for record in itertools.islice(records, _BATCH)]:
        columnwise = list(zip(*batch, strict=True))
        for seen, part, column in zip(known, parts, columns, strict=True):
            part.append(np.array([seen.setdefault(text, len(seen)) for text in columnwise[column]], dtype=np.intp))
    empty = np.empty(0, dtype=np.intp)
    return [(np.concatenate(part) if part else empty, list(seen)) for part, seen in zip(parts, known, strict=True)]
