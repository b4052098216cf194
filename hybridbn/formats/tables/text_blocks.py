"""What formats of text share: blocks of records that keep their bytes, and parts that are text."""

from __future__ import annotations

import codecs
import contextlib
import datetime
import gzip
import json
import re
import zlib
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import IO, Any, TypeAlias, cast

from hybridbn.errors import FormatError, TableError
from hybridbn.formats.tables.base import Block, Field, FileSource, FileWriter
from hybridbn.formats.tables.records import Piece, Split, pieces

__all__ = [
    "Change",
    "TextBlock",
    "TextSource",
    "TextWriter",
    "changed",
    "located",
    "plain_text",
    "refused_gzip",
    "texts_of",
]

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

    def __init__(self, path: Path, shown: str, split: Split, block: Callable[[Any, int, Piece], TextBlock]) -> None:
        super().__init__(path, shown)
        self.split, self._block = split, block
        self.names = []
        self.header, self.header_lines = b"", 0
        self._starts: list[tuple[int, int]] = []

    def _open(self) -> IO[bytes]:
        return cast(IO[bytes], gzip.open(self.path)) if _is_packed(self.path) else open(self.path, "rb")

    def blocks(self, rows: int, first: int = 0) -> Iterator[TextBlock]:
        """Give blocks of so many records."""
        offset, line = self._starts[first] if first else (len(self.header), self.header_lines + 1)
        with refused_gzip(), self._open() as stream:
            stream.seek(offset)
            for number, piece in enumerate(pieces(stream, self.split, rows, offset, line), start=first):
                if number == len(self._starts):
                    self._starts.append((piece.offset, piece.line))
                yield self._block(self, number * rows, piece)

    def line_of(self, row: int) -> str:
        """Return the line of a row."""
        for block in self.blocks(1 << 16):
            if row < block.start + block.rows:
                before = block.piece.data[: block.piece.starts[row - block.start]]
                line = block.piece.line + before.count(b"\n")
                return f"line {line}"
        return f"row {row}"


class TextBlock(Block):
    """Some records of a text file."""

    def __init__(self, source: Any, start: int, piece: Piece) -> None:
        self.source, self.start, self.piece, self.rows = source, start, piece, len(piece.starts)

    def changed(self, changes: list[Change], prefix: bytes = b"") -> bytes:
        """Return the bytes with some of them replaced, and `prefix` before each record."""
        if prefix:
            changes = [*((start, start, prefix) for start in self.piece.starts.tolist()), *changes]
        return changed(self.piece.data, changes)


def changed(data: bytes, changes: list[Change]) -> bytes:
    """Return bytes with some of them replaced.

    Examples
    --------
    >>> changed(b"1,,2", [(2, 2, b"x"), (0, 1, b"3")])
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


def _is_packed(path: Path) -> bool:
    with open(path, "rb") as file:
        return file.read(2) == b"\x1f\x8b"


@contextlib.contextmanager
def refused_gzip() -> Iterator[None]:
    """Say what a damaged packed file is."""
    try:
        yield
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise FormatError(f"not a whole gzip file: {error}") from error


@contextlib.contextmanager
def located(header: int, by: int, word: str = "line") -> Iterator[None]:
    """Shift the numbers of lines or rows beyond the header, in errors that come from reading a block, by so many.

    Examples
    --------
    >>> with located(1, 100):
    ...     raise TableError("column 'x', line 3: no number")
    Traceback (most recent call last):
    hybridbn.errors.TableError: column 'x', line 103: no number
    """

    def shifted(match: re.Match[str]) -> str:
        number = int(match.group(1))
        return f"{word} {number + by if number > header else number}"

    try:
        yield
    except TableError as error:
        raise TableError(re.sub(rf"\b{word} (\d+)\b", shifted, str(error))) from error.__cause__


# -- writing ----------------------------------------------------------------------------------------------------------


class TextWriter(FileWriter):
    """Writes parts that are text in UTF-8; the file may be in another encoding."""

    def __init__(self, fields: Sequence[Field], counter: str | None, encoding: str = "utf-8") -> None:
        super().__init__(fields, counter)
        self.encoding = encoding

    def header(self) -> bytes:
        """Return what stands before the rows."""
        return b""

    @abstractmethod
    def lines(self, columns: dict[str, list[Any]]) -> Iterable[str]:
        """Give a line for each row."""

    def render(self, columns: dict[str, list[Any]]) -> bytes:
        """Return rows as text."""
        text = "\n".join(self.lines(columns))
        try:
            return f"{text}\n".encode() if text else b""
        except UnicodeEncodeError as error:
            raise TableError(f"{error.object[error.start : error.end]!r} can't be written in UTF-8") from None

    def join(self, parts: Iterable[bytes], file: IO[bytes]) -> None:
        """Write header and parts, in the encoding of the file."""
        try:
            encoder = None if self.encoding == "utf-8" else codecs.getincrementalencoder(self.encoding)()
        except LookupError:
            raise TableError(f"there is no encoding {self.encoding!r}") from None
        file.write(self._encoded(self.header(), encoder))
        for part in parts:
            file.write(self._encoded(part, encoder))

    def _encoded(self, data: bytes, encoder: codecs.IncrementalEncoder | None) -> bytes:
        try:
            return data if encoder is None else encoder.encode(data.decode())
        except UnicodeEncodeError as error:
            raise TableError(f"{error.object[error.start : error.end]!r} can't be written in {self.encoding}") from None

    def lined(self, data: bytes) -> bytes:
        """Return a part with the end of its last line, which a file may lack, where another draw follows."""
        return data if self.counter is None or data[-1:] in (b"\n", b"\r", b"") else data + b"\n"


_NUMBERS = {int, float}
_TEXTS = {str, type(None)}


def texts_of(
    values: Sequence[Any], quote: Callable[[str], str], missing: str, other: Callable[[Any], str] | None = None
) -> list[str]:
    """Return the texts of a column: text by `quote`, numbers by `repr`, all else by `other`.

    Examples
    --------
    >>> texts_of(["a", None, "b"], str.upper, "?"), texts_of([1.5, None, True], str.upper, "?")
    (['A', '?', 'B'], ['1.5', '?', 'TRUE'])
    """
    types = set(map(type, values))
    if types <= _TEXTS:
        # each text once only
        known = {value: missing if value is None else quote(value) for value in set(values)}
        return list(map(known.__getitem__, values))
    if types <= _NUMBERS:
        return list(map(repr, values))
    make = other or (lambda value: quote(plain_text(value)))
    return [missing if v is None else repr(v) if type(v) in _NUMBERS else make(v) for v in values]


def plain_text(value: Any) -> str:
    """Return a value as text without quotes.

    Examples
    --------
    >>> plain_text(1.5), plain_text(True), plain_text(datetime.date(2020, 1, 2)), plain_text([1, None])
    ('1.5', 'True', '2020-01-02', '[1, null]')
    """
    if isinstance(value, str):
        return str(value)
    if isinstance(value, datetime.date | datetime.time):
        return value.isoformat()
    if isinstance(value, float):
        return repr(float(value))
    if isinstance(value, dict | list):
        return json.dumps(value, ensure_ascii=False)
    return value.hex() if isinstance(value, bytes) else str(value)
