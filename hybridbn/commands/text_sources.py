"""Text files as sources: CSV and TSV, JSON lines, ARFF. Their blocks keep the bytes, so that only holes need to change."""

from __future__ import annotations

import gzip
import hashlib
import io
import itertools
import os
import zlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import IO, Any, cast

import numpy as np

from hybridbn.commands.records import Piece, Split, delimited_records, lines, pieces
from hybridbn.commands.sources import Kinds, Marks, located
from hybridbn.errors import FormatError, TableError
from hybridbn.formats.tables import arff, delimited, jsonlines
from hybridbn.formats.tables.reading import Read, Wanted, relocated
from hybridbn.formats.tables.scanning import Scanner, checked_bytes
from hybridbn.tables.columns import Cells

__all__ = ["ArffSource", "DelimitedSource", "JsonSource", "TextBlock", "TextSource"]

_HEAD = 1 << 16
_MOST_HEAD = 1 << 28


class TextSource:
    """A text file, packed with gzip or not, read in blocks of records."""

    family = ""
    spelled = False
    split: Split

    def __init__(self, path: Path, shown: str) -> None:
        self.path, self.shown = path, shown
        self.names: list[str] = []
        self.header, self.header_lines = b"", 0
        self._marks = Marks()
        self._state = _state(path)
        if self.family != "rows" and shown.lower().endswith(".gz") and not _packed(path):
            raise FormatError("not a gzip file, whatever its name says")

    def _open(self) -> IO[bytes]:
        return cast(IO[bytes], gzip.open(self.path)) if _packed(self.path) else open(self.path, "rb")

    def digest(self) -> str:
        """Return a hash of the file."""
        with open(self.path, "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()

    def unchanged(self) -> bool:
        """Tell whether the file is the same as in the beginning."""
        return _state(self.path) == self._state

    def close(self) -> None:
        """Nothing stays open."""

    def blocks(self, rows: int, first: int = 0) -> Iterator[TextBlock]:
        """Give blocks of so many records."""
        offset, line = self._marks.places[first] if first else (len(self.header), self.header_lines + 1)
        try:
            with self._open() as stream:
                stream.seek(offset)
                for number, piece in enumerate(pieces(stream, self.split, rows, offset, line), start=first):
                    self._marks.noted(number, piece.offset, piece.line)
                    yield self._block(number * rows, piece)
        except (gzip.BadGzipFile, EOFError, zlib.error) as error:
            raise FormatError(f"not a whole gzip file: {error}") from error

    def _block(self, start: int, piece: Piece) -> TextBlock:
        return TextBlock(self, start, piece)

    def read(self, piece: Piece, names: Sequence[str], kinds: Kinds) -> Read:
        """Return columns of some records, typed."""
        raise NotImplementedError

    def line_of(self, row: int) -> str:
        """Return the line of a row."""
        for block in self.blocks(1 << 16):
            if row < block.start + block.rows:
                before = block.piece.data[: block.piece.starts[row - block.start]]
                line = block.piece.line + before.count(b"\n")
                return f"line {line}"
        return f"row {row}"


class TextBlock:
    """Some records of a text file."""

    def __init__(self, source: TextSource, start: int, piece: Piece) -> None:
        self.source, self.start, self.piece = source, start, piece
        self.rows = len(piece.starts)

    def cells(self, names: Sequence[str], kinds: Kinds) -> dict[str, Cells]:
        """Return columns as typed cells."""
        source = self.source
        with located(source.header_lines, self.piece.line - 1 - source.header_lines):
            return self.source.read(self.piece, names, kinds).cells

    def values(self, names: Sequence[str]) -> dict[str, list[Any]]:
        """Return columns as text, or as what JSON says."""
        raise NotImplementedError


def _state(path: Path) -> tuple[int, int, int]:
    status = os.stat(path)
    return status.st_size, status.st_mtime_ns, status.st_ino


def _packed(path: Path) -> bool:
    with open(path, "rb") as file:
        return file.read(2) == b"\x1f\x8b"


# -- CSV and TSV ----------------------------------------------------------------------------------------------------


class DelimitedSource(TextSource):
    """A CSV or TSV file."""

    family = "delimited"
    spelled = True

    def __init__(
        self, path: Path, shown: str, suffix: str, delimiter: str | None, missing: Iterable[str], decimal: str = "."
    ) -> None:
        super().__init__(path, shown)
        self.decimal = decimal
        self.suffix = suffix
        self.delimiter = delimited.checked_delimiter(delimiter, suffix)
        self.missing = tuple(missing)
        self.split = delimited_records(self.delimiter)
        with self._open() as stream:
            head, end = self._head(stream)
        self.header = head[:end]
        self.header_lines = self.header.count(b"\n") or self.header.count(b"\r")
        scanner = Scanner(checked_bytes(io.BytesIO(self.header), "utf-8"), self.delimiter)
        found = scanner.beginning(_HEAD)[0]
        try:
            self.names = Wanted().names(found)
        except TableError as error:
            raise TableError(f"{error}{delimited.other_delimiter(found, self.delimiter)}") from None
        if delimiter is None and (hint := delimited.other_delimiter(found, self.delimiter)):
            raise TableError(f"the only column is called {found[0]!r}{hint}")

    def _head(self, stream: IO[bytes]) -> tuple[bytes, int]:
        head, size = b"", _HEAD
        try:
            while True:
                more = stream.read(size)
                head += more
                starts, ends = self.split(head, not more)
                if len(starts):
                    return head, int(ends[0])
                if not more or len(head) > _MOST_HEAD:
                    # an empty file, or a quote that is never closed: the scanner says which
                    scanner = Scanner(checked_bytes(io.BytesIO(head), "utf-8"), self.delimiter)
                    next(scanner.records(scanner.text()), None)
                    raise TableError("the file is empty; a header with the columns' names is needed")
                size = len(head)
        except (gzip.BadGzipFile, EOFError, zlib.error) as error:
            raise FormatError(f"not a whole gzip file: {error}") from error

    def _block(self, start: int, piece: Piece) -> TextBlock:
        return DelimitedBlock(self, start, piece)

    def read(self, piece: Piece, names: Sequence[str], kinds: Kinds) -> Read:
        """Return columns of some records, typed."""
        wanted = Wanted({n: kind for n, kind in kinds.items() if n in names}, tuple(names))
        data = io.BytesIO(self.lined(self.header) + piece.data)
        return delimited.read(
            data, wanted, self.suffix, delimiter=self.delimiter, missing=self.missing, decimal=self.decimal
        )

    @staticmethod
    def lined(header: bytes) -> bytes:
        """Return a header with a line end."""
        return header if header[-1:] in (b"\n", b"\r") else header + b"\n"


class DelimitedBlock(TextBlock):
    """Some records of a CSV or TSV file."""

    source: DelimitedSource

    def values(self, names: Sequence[str]) -> dict[str, list[Any]]:
        """Return columns as their texts; markers of missing cells without quotes are None."""
        places = [self.source.names.index(name) for name in names]
        markers = frozenset(self.source.missing)
        scanner = Scanner(b"x", self.source.delimiter)
        text = self.piece.data.decode("utf-8-sig" if not self.start else "utf-8")
        rows = [record.cells for record in scanner.records(text)]
        return {
            name: [_unquoted(row[place], markers) for row in rows] for name, place in zip(names, places, strict=True)
        }

    def quoted_places(self, row: int) -> list[tuple[int, int]]:
        """Return where the cells of one record are, in a block that has quotes."""
        start, end = self.piece.starts[row], self.piece.ends[row]
        text = self.piece.data[start:end]
        found, place = [], 0
        cell = Scanner(b"x", self.source.delimiter).cell
        # each byte one character, so that places are those of bytes
        letters = text.decode("latin-1")
        while True:
            match = cell.match(letters, place)
            if match is None:
                raise FormatError(f"row {self.start + row}: the record can't be taken apart")
            found.append((int(start) + place, int(start) + match.start(3)))
            place = match.end()
            if match.group(3) != self.source.delimiter:
                return found

    def plain_places(self) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]] | None:
        """Return the starts and ends of all cells, (rows, columns); None where a quoted cell may hold a delimiter."""
        data, starts, ends = self.piece.data, self.piece.starts, self.piece.ends
        signs, width = np.frombuffer(data, dtype=np.uint8), len(self.source.names)
        seps = np.flatnonzero(signs == ord(self.source.delimiter))
        if len(seps) != self.rows * (width - 1):
            return None
        found = seps.reshape(self.rows, width - 1)
        if not ((found >= starts[:, None]) & (found < ends[:, None])).all():
            return None
        stops = ends.copy()
        for _ in range(2):  # \r\n takes two
            last = signs[np.maximum(stops - 1, 0)]
            stops -= ((last == 10) | (last == 13)) & (stops > starts)
        return np.column_stack([starts, found + 1]), np.column_stack([found, stops])


def _unquoted(text: str, markers: frozenset[str]) -> str | None:
    return text[1:] if text.startswith("\0") else None if text in markers else text


# -- JSON lines -----------------------------------------------------------------------------------------------------


class JsonSource(TextSource):
    """A file of JSON lines; columns turn up as it is read."""

    family = "jsonlines"
    split = staticmethod(lines())

    def _block(self, start: int, piece: Piece) -> TextBlock:
        return JsonBlock(self, start, piece)


class JsonBlock(TextBlock):
    """Some lines of JSON."""

    def __init__(self, source: TextSource, start: int, piece: Piece) -> None:
        super().__init__(source, start, piece)
        self._columns: dict[str, list[Any]] = {}
        self._lines: list[int] = []
        with located(0, piece.line - 1):
            jsonlines.gather(cast(IO[bytes], io.BytesIO(piece.data)), self._columns, self._lines)
        for values in self._columns.values():
            values.extend([None] * (self.rows - len(values)))
        source.names += [name for name in self._columns if name not in source.names]

    def cells(self, names: Sequence[str], kinds: Kinds) -> dict[str, Cells]:
        """Return columns as typed cells."""
        columns = self._columns
        chosen = {name: columns[name] for name in names if name in columns}
        wanted = Wanted({name: kind for name, kind in kinds.items() if name in chosen})
        try:
            return jsonlines.typed_objects(chosen, wanted).cells
        except TableError as error:
            moved = relocated(error, lambda row: self.piece.line - 1 + self._lines[row])
            raise moved from error.__cause__

    def values(self, names: Sequence[str]) -> dict[str, list[Any]]:
        """Return columns as JSON's values."""
        return {name: self._columns.get(name, [None] * self.rows) for name in names}


# -- ARFF -----------------------------------------------------------------------------------------------------------


class ArffSource(TextSource):
    """An ARFF file."""

    family = "arff"
    split = staticmethod(lines(b"%"))

    def __init__(self, path: Path, shown: str) -> None:
        super().__init__(path, shown)
        with self._open() as stream:
            head = list(itertools.takewhile(lambda line: line is not None, _until_data(stream)))
        self.header = b"".join(head)
        self.header_lines = len(head)
        try:
            text = self.header.decode("utf-8-sig")
        except UnicodeDecodeError:
            raise TableError("the header is not text in UTF-8; give another encoding, such as latin-1") from None
        self.attributes = arff.header_of(text.splitlines()).attributes
        self.names = Wanted().names([attribute.name for attribute in self.attributes])

    def _block(self, start: int, piece: Piece) -> TextBlock:
        return ArffBlock(self, start, piece)

    def read(self, piece: Piece, names: Sequence[str], kinds: Kinds) -> Read:
        """Return columns of some records, typed."""
        wanted = Wanted({n: kind for n, kind in kinds.items() if n in names}, tuple(names))
        found = arff.read(cast(IO[bytes], io.BytesIO(self.header + piece.data)), wanted)
        if found.weights is not None:
            raise TableError("rows have weights, which the command does not know; hybridbn.impute in Python does")
        return found


def _until_data(stream: IO[bytes]) -> Iterator[bytes]:
    size = 0
    for line in stream:
        yield line
        size += len(line)
        if line.strip().lower().startswith(b"@data") or size > _MOST_HEAD:
            return


class ArffBlock(TextBlock):
    """Some rows of an ARFF file."""

    source: ArffSource

    def values(self, names: Sequence[str]) -> dict[str, list[Any]]:
        """Return columns as their texts."""
        text = (self.source.header + self.piece.data).decode("utf-8-sig").splitlines()
        rows, _, _ = arff.rows_of(text, arff.header_of(text))
        places = [self.source.names.index(name) for name in names]
        return {name: [row[place] for row in rows] for name, place in zip(names, places, strict=True)}
