"""Text files in blocks of records: where records start and end, blocks that keep their bytes, and parts that are
text.
"""

from __future__ import annotations

import codecs
import contextlib
import datetime
import itertools
import json
import re
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from hybridbn.errors import TableError
from hybridbn.tables.cells import reword_errors
from hybridbn.tables.formats.base import Field, FileSource, FileWriter, TableBlock
from hybridbn.tables.formats.delimited_scanner import count_line_ends
from hybridbn.tables.formats.files import StoredFile, check_encoding, encode_text, report_damaged_gzip

Positions: TypeAlias = NDArray[np.intp]

Splitter: TypeAlias = Callable[[bytes, bool], tuple[Positions, Positions]]
"""From bytes, and whether they are the last of the file, to the starts and ends of the records that are whole."""

_SIZE = 1 << 22
_LONGEST = 1 << 26
_NO_POSITIONS = np.zeros(0, dtype=np.intp)


class RecordChunk(NamedTuple):
    """Some records that stand together in a file.

    Attributes
    ----------
    data : bytes
    starts, ends : ndarray
        Of the records in `data`, line ends included. Blank lines before a record belong to none.
    offset : int
        Of `data` in the file.
    line : int
        The number of the first line of `data`.
    """

    data: bytes
    starts: Positions
    ends: Positions
    offset: int
    line: int

    def head(self, rows: int) -> RecordChunk:
        """Return the first of the records, at most so many."""
        if rows >= len(self.starts):
            return self
        return self._replace(data=self.data[: self.ends[rows - 1]], starts=self.starts[:rows], ends=self.ends[:rows])


def read_chunks(stream: IO[bytes], split: Splitter, rows: int, offset: int, line: int) -> Iterator[RecordChunk]:
    """Give the records of a stream, `rows` at a time; bytes after the last one go with the last piece."""
    held: RecordChunk | None = None
    tail, final = b"", False
    while not final:
        # what was split is split again with more bytes behind it; reading more each time keeps that cheap
        data = stream.read(max(len(tail), _SIZE))
        final = not data
        tail += data
        starts, ends = split(tail, final)
        if not final and not len(starts) and len(tail) >= _LONGEST:
            raise TableError(f"line {line}: a record of more than {_LONGEST} bytes; is a quote open?")
        begin = position = 0
        whole = len(starts) if final else len(starts) - len(starts) % rows
        while position < whole:
            stop = min(position + rows, whole)
            if held is not None:
                yield held
            end = int(ends[stop - 1])
            part = tail[begin:end]
            held = RecordChunk(part, starts[position:stop] - begin, ends[position:stop] - begin, offset + begin, line)
            line += count_line_ends(part)
            begin, position = end, stop
        if final and held is not None and begin < len(tail):
            held = held._replace(data=held.data + tail[begin:])
        elif final and begin < len(tail) and tail[begin:].strip():
            # what no record could be made of: its reader says why
            held = RecordChunk(tail[begin:], _NO_POSITIONS, _NO_POSITIONS, offset + begin, line)
        tail, offset = tail[begin:], offset + begin
    if held is not None:
        yield held


def make_line_splitter(comment: bytes = b"", blank: bytes = b" \t\n\r\v\f", *, returns: bool = True) -> Splitter:
    r"""Return what finds lines that are neither comments nor of `blank` signs only; with `returns`, a CR alone ends a
    line, too.

    Examples
    --------
    >>> make_line_splitter(b"%")(b"a\n\n% no\nb\nhalf", False)[0].tolist()
    [0, 8]
    """

    def split(data: bytes, final: bool) -> tuple[Positions, Positions]:
        starts, ends = _find_lines(data, final, returns)
        keep = np.ones(len(starts), dtype=bool)
        first = np.frombuffer(data, dtype=np.uint8)[starts] if len(starts) else _NO_POSITIONS
        for index in np.flatnonzero(np.isin(first, [*blank, *comment[:1]])).tolist():
            text = data[starts[index] : ends[index]].strip(blank)
            keep[index] = bool(text) and not (comment and text.startswith(comment))
        return starts[keep], ends[keep]

    return split


def _find_lines(data: bytes, final: bool, returns: bool) -> tuple[Positions, Positions]:
    signs = np.frombuffer(data, dtype=np.uint8)
    is_end = signs == 10
    if returns and b"\r" in data and data.count(b"\r") > data.count(b"\r\n"):
        # a return at the very end may be half of a line end
        following = np.append(signs[1:], np.uint8(0 if final else 10))
        is_end |= (signs == 13) & (following != 10)
    ends = np.flatnonzero(is_end) + 1
    if final and data and not is_end[-1]:
        ends = np.append(ends, len(data))
    return np.concatenate([[0], ends[:-1]]).astype(np.intp)[: len(ends)], ends


def _quotes_close_within_lines(data: bytes) -> bool:
    """Tell whether each line has an even number of quotes, as it has unless a quoted cell holds a line end."""
    signs = np.frombuffer(data, dtype=np.uint8)
    ends = np.flatnonzero((signs == 10) | (signs == 13))
    before = np.searchsorted(np.flatnonzero(signs == 34), ends)
    return bool((before % 2 == 0).all())


def make_delimited_splitter(delimiter: str) -> Splitter:
    r"""Return what finds the records of a delimited file, line ends in quotes included; blank lines are none.

    Examples
    --------
    >>> starts, ends = make_delimited_splitter(",")(b'a,"x\ny"\n\nb,c\nd,', False)
    >>> starts.tolist(), ends.tolist()
    ([0, 9], [8, 13])
    """
    sign = re.escape(delimiter).encode()
    cell = rb'(?:"(?:[^"]|"")*+"|[^%s\r\n"][^%s\r\n]*+)?' % (sign, sign)
    record = re.compile(rb"%s(?:%s%s)*+(\r\n|\n|\r|\Z)" % (cell, sign, cell))
    split_lines = make_line_splitter(blank=b"\r\n")

    def split(data: bytes, final: bool) -> tuple[Positions, Positions]:
        if b'"' not in data or _quotes_close_within_lines(data):
            return split_lines(data, final)
        spans: list[tuple[int, int]] = []
        position, size = 0, len(data)
        while position < size:
            match = record.match(data, position)
            if match is None:
                break
            start, end = match.span()
            if not final and (end == size and match.group(1) != b"\n"):
                break
            if match.start(1) > start:
                spans.append((start, end))
            position = end
        positions = np.array(spans, dtype=np.intp).reshape(-1, 2)
        return positions[:, 0], positions[:, 1]

    return split


Change: TypeAlias = tuple[int, int, bytes]
"""Where to start and end, and what to put there."""


# -- reading ----------------------------------------------------------------------------------------------------------


class TextSource(FileSource):
    """A text file in UTF-8, packed with gzip or not, read in blocks of records.

    Attributes
    ----------
    header : bytes
        What stands before the records.
    header_lines : int
    split : callable
        What finds the records in bytes.
    """

    def __init__(
        self,
        file: Path | StoredFile,
        shown: str,
        split: Splitter,
        block: Callable[[int, int, Any, RecordChunk], TableBlock],
    ) -> None:
        super().__init__(file, shown)
        self._split, self._block = split, block
        self.names: list[str] = []
        self.header: bytes = b""
        self.header_lines: int = 0
        self._starts: dict[int, list[tuple[int, int]]] = {}

    def blocks(self, rows: int, first: int = 0) -> Iterator[Any]:
        """Give blocks of so many records."""
        starts = self._starts.setdefault(rows, [])
        known = min(first, max(len(starts) - 1, 0))
        with report_damaged_gzip(), self.file.open() as stream:
            offset, line = starts[known] if known else self._find_span()
            _skip_to(stream, offset)
            for number, piece in enumerate(read_chunks(stream, self._split, rows, offset, line), start=known):
                start = self.span.start + number * rows
                if start >= self.span.stop:
                    return
                if number == len(starts):
                    starts.append((piece.offset, piece.line))
                if number >= first:
                    held = piece.head(self.span.stop - start)
                    yield self._block(start, len(held.starts), self, held)

    def _find_span(self) -> tuple[int, int]:
        """Return where the first record of the span begins, and the number of its line."""
        offset, line, before = len(self.header), self.header_lines + 1, self.span.start
        if not before:
            return offset, line
        # a stream of its own, as some are only read onwards
        with self.file.open() as stream:
            _skip_to(stream, offset)
            for piece in read_chunks(stream, self._split, 1 << 16, offset, line):
                if before < len(piece.starts):
                    skipped = piece.data[: piece.starts[before]]
                    return piece.offset + len(skipped), piece.line + count_line_ends(skipped)
                before -= len(piece.starts)
                offset, line = piece.offset + len(piece.data), piece.line + count_line_ends(piece.data)
        return offset, line

    def line_of(self, row: int) -> str:
        """Return the line of a row."""
        for block in self.blocks(1 << 16):
            if row < block.start + block.rows:
                before = block.piece.data.count(b"\n", 0, block.piece.starts[row - block.start])
                return f"line {block.piece.line + before}"
        return f"row {row}"


@dataclass(eq=False)
class TextBlock(TableBlock):
    """Some records of a text file."""

    source: Any
    piece: RecordChunk

    def replace_bytes(self, changes: list[Change], prefix: bytes = b"") -> bytes:
        """Return the bytes with some of them replaced, and `prefix` before each record."""
        if prefix:
            changes = [*((start, start, prefix) for start in self.piece.starts.tolist()), *changes]
        return replace_bytes(self.piece.data, changes)


def replace_bytes(data: bytes, changes: list[Change]) -> bytes:
    """Return bytes with some of them replaced.

    Examples
    --------
    >>> replace_bytes(b"1,,2", [(2, 2, b"x"), (0, 1, b"3")])
    b'3,x,2'
    """
    changes.sort(key=lambda change: change[0])
    parts: list[bytes] = []
    last = 0
    for start, end, text in changes:
        parts += (data[last:start], text)
        last = end
    parts.append(data[last:])
    return b"".join(parts)


def _skip_to(stream: IO[bytes], offset: int) -> None:
    """Go to a place in a stream that has not been read; some packed ones are only read onwards."""
    if stream.seekable():
        stream.seek(offset)
    else:
        stream.read(offset)


def shift_lines_in_errors(header: int, by: int, word: str = "line") -> contextlib.AbstractContextManager[None]:
    """Shift the numbers of lines or rows beyond the header, in errors that come from reading a block, by so many.

    Examples
    --------
    >>> with shift_lines_in_errors(1, 100):
    ...     raise TableError("column 'x', line 3: no number")
    Traceback (most recent call last):
    hybridbn.errors.TableError: column 'x', line 103: no number
    """

    def shift_number(match: re.Match[str]) -> str:
        number = int(match.group(1))
        return f"{word} {number + by if number > header else number}"

    return reword_errors(lambda text: re.sub(rf"\b{word} (\d+)\b", shift_number, text))


# -- writing ----------------------------------------------------------------------------------------------------------


class TextWriter(FileWriter):
    """Writes parts that are text in UTF-8; the file may be in another encoding."""

    def __init__(
        self, fields: Sequence[Field], counter: str | None, encoding: str = "utf-8", origin: Any = None
    ) -> None:
        super().__init__(fields, counter, origin)
        self.encoding = encoding

    def header(self) -> bytes:
        """Return what stands before the rows."""
        return b""

    @abstractmethod
    def lines(self, columns: Mapping[str, list[Any]]) -> Iterable[str]:
        """Give a line for each row."""

    def render(self, columns: Mapping[str, list[Any]]) -> bytes:
        """Return rows as text."""
        text = "\n".join(self.lines(columns))
        return encode_text(f"{text}\n") if text else b""

    def join(self, parts: Iterable[bytes], file: IO[bytes]) -> None:
        """Write header and parts, in the encoding of the file."""
        name = codecs.lookup(check_encoding(self.encoding)).name
        encoder = None if name == "utf-8" else codecs.getincrementalencoder(name)()
        for part in itertools.chain([self.header()], parts):
            file.write(part if encoder is None else encode_text(part.decode(), encoder, self.encoding))

    def end_last_line(self, data: bytes) -> bytes:
        """Return a part with the end of its last line, which a file may lack, where another draw follows."""
        return data if self.counter is None or data[-1:] in (b"\n", b"\r", b"") else data + b"\n"


_NUMBERS = {int, float}
_NUMBERS_WITH_HOLES = {int, float, type(None)}
_TEXTS = {str, type(None)}


def format_texts(
    values: Sequence[Any], quote: Callable[[str], str], missing: str, other: Callable[[Any], str] | None = None
) -> list[str]:
    """Return the texts of a column: text by `quote`, numbers by `repr`, all else by `other`.

    Examples
    --------
    >>> format_texts(["a", None, "b"], str.upper, "?"), format_texts([1.5, None, True], str.upper, "?")
    (['A', '?', 'B'], ['1.5', '?', 'TRUE'])
    """
    if isinstance(next((value for value in values if value is not None), ""), str):
        distinct = set(values)
        if set(map(type, distinct)) <= _TEXTS:  # nothing else equals a text, so all values are texts
            known = {value: missing if value is None else quote(value) for value in distinct}
            return list(map(known.__getitem__, values))
    types = set(map(type, values))
    if types <= _NUMBERS:
        return list(map(repr, values))
    if types <= _NUMBERS_WITH_HOLES:
        return [missing if value is None else repr(value) for value in values]
    make = other or (lambda value: quote(plain_text(value)))
    return [missing if v is None else repr(v) if type(v) in _NUMBERS else make(v) for v in values]


def spell_duration(value: datetime.timedelta) -> str:
    """Return a duration as text, always with its days, as pandas writes it.

    Examples
    --------
    >>> spell_duration(datetime.timedelta(hours=30)), spell_duration(datetime.timedelta(seconds=-1.5))
    ('1 days 06:00:00', '-1 days +23:59:58.500000')
    """
    clock = (datetime.datetime.min + datetime.timedelta(seconds=value.seconds, microseconds=value.microseconds)).time()
    return f"{value.days} days {'+' if value.days < 0 else ''}{clock.isoformat()}"


_SPELLINGS: tuple[tuple[Any, Callable[[Any], str]], ...] = (
    (str, str),
    ((datetime.date, datetime.time), lambda value: str(value.isoformat())),
    (datetime.timedelta, spell_duration),
    (float, lambda value: repr(float(value))),
    ((dict, list), lambda value: json.dumps(value, ensure_ascii=False, default=str)),
    (bytes, bytes.hex),
)
"""How values of some types are written; the first one counts."""


def plain_text(value: Any) -> str:
    """Return a value as text without quotes.

    Examples
    --------
    >>> plain_text(1.5), plain_text(True), plain_text(datetime.date(2020, 1, 2)), plain_text([1, None])
    ('1.5', 'True', '2020-01-02', '[1, null]')
    """
    return next((spell for kinds, spell in _SPELLINGS if isinstance(value, kinds)), str)(value)
