"""Where the records of a text file start and end, so that a file can be read, and written again, a block of rows at a time."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import IO, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from hybridbn.errors import TableError

__all__ = ["Piece", "Split", "delimited_records", "lines", "pieces"]

Places: TypeAlias = NDArray[np.intp]

Split: TypeAlias = Callable[[bytes, bool], tuple[Places, Places]]
"""From bytes, and whether they are the last of the file, to the starts and ends of the records that are whole."""

_SIZE = 1 << 22
_LONGEST = 1 << 26
_LINE = re.compile(rb"[^\r\n]*(?:\r\n|\n|\r|\Z)")
_NO_PLACES = np.zeros(0, dtype=np.intp)


class Piece(NamedTuple):
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
    starts: Places
    ends: Places
    offset: int
    line: int


def pieces(stream: IO[bytes], split: Split, rows: int, offset: int, line: int) -> Iterator[Piece]:
    """Give the records of a stream, `rows` at a time; bytes after the last one go with the last piece."""
    held: Piece | None = None
    tail, final = b"", False
    while not final:
        data = stream.read(_SIZE)
        final = not data
        tail += data
        starts, ends = split(tail, final)
        if not final and len(starts) < rows and len(tail) < _LONGEST:
            # what was split is split again with more bytes behind it; reading more each time keeps that cheap
            more = stream.read(max(len(tail), _SIZE))
            tail, final = tail + more, not more
            starts, ends = split(tail, final)
        if not final and not len(starts) and len(tail) >= _LONGEST:
            raise TableError(f"line {line}: a record of more than {_LONGEST} bytes; is a quote open?")
        begin = place = 0
        whole = len(starts) if final else len(starts) - len(starts) % rows
        while place < whole:
            stop = min(place + rows, whole)
            if held is not None:
                yield held
            end = int(ends[stop - 1])
            part = tail[begin:end]
            held = Piece(part, starts[place:stop] - begin, ends[place:stop] - begin, offset + begin, line)
            line += _line_ends(part)
            begin, place = end, stop
        if final and held is not None and begin < len(tail):
            held = held._replace(data=held.data + tail[begin:])
        elif final and begin < len(tail) and tail[begin:].strip():
            # what no record could be made of: its reader says why
            held = Piece(tail[begin:], _NO_PLACES, _NO_PLACES, offset + begin, line)
        tail, offset = tail[begin:], offset + begin
    if held is not None:
        yield held


def _line_ends(data: bytes) -> int:
    return data.count(b"\n") + (data.count(b"\r") - data.count(b"\r\n") if b"\r" in data else 0)


def lines(comment: bytes = b"") -> Split:
    r"""Return what finds lines that are neither blank nor comments.

    Examples
    --------
    >>> lines(b"%")(b"a\n\n% no\nb\nhalf", False)[0].tolist()
    [0, 8]
    """

    def split(data: bytes, final: bool) -> tuple[Places, Places]:
        starts, ends = _all_lines(data, final)
        keep = np.ones(len(starts), dtype=bool)
        first = np.frombuffer(data, dtype=np.uint8)[starts] if len(starts) else _NO_PLACES
        for place in np.flatnonzero((first <= 32) | (first == (comment or b"\n")[0])).tolist():
            text = data[starts[place] : ends[place]].strip()
            keep[place] = bool(text) and not (comment and text.startswith(comment))
        return starts[keep], ends[keep]

    return split


def _all_lines(data: bytes, final: bool) -> tuple[Places, Places]:
    if b"\r" in data and data.count(b"\r") > data.count(b"\r\n"):
        # a return at the very end may be half of a line end
        stop = len(data) if final else len(data) - data.endswith(b"\r")
        ends = [found.end() for found in _LINE.finditer(data, 0, stop) if found.end() > found.start()]
        if ends and not final and data[ends[-1] - 1 : ends[-1]] not in (b"\n", b"\r"):
            ends.pop()
        found_ends = np.array(ends, dtype=np.intp)
    else:
        found_ends = np.flatnonzero(np.frombuffer(data, dtype=np.uint8) == 10) + 1
        if final and data and not data.endswith(b"\n"):
            found_ends = np.append(found_ends, len(data))
    return np.concatenate([[0], found_ends[:-1]]).astype(np.intp)[: len(found_ends)], found_ends


def _quotes_close_within_lines(data: bytes) -> bool:
    """Tell whether each line has an even number of quotes, as it has unless a quoted cell holds a line end."""
    signs = np.frombuffer(data, dtype=np.uint8)
    ends = np.flatnonzero((signs == 10) | (signs == 13))
    before = np.searchsorted(np.flatnonzero(signs == 34), ends)
    return bool((before % 2 == 0).all())


def delimited_records(delimiter: str) -> Split:
    r"""Return what finds the records of a delimited file, line ends in quotes included; blank lines are none.

    Examples
    --------
    >>> starts, ends = delimited_records(",")(b'a,"x\ny"\n\nb,c\nd,', False)
    >>> starts.tolist(), ends.tolist()
    ([0, 9], [8, 13])
    """
    sign = re.escape(delimiter).encode()
    cell = rb'(?:"(?:[^"]|"")*+"|[^%s\r\n"][^%s\r\n]*+)?' % (sign, sign)
    record = re.compile(rb"%s(?:%s%s)*+(\r\n|\n|\r|\Z)" % (cell, sign, cell))

    def split(data: bytes, final: bool) -> tuple[Places, Places]:
        if b'"' not in data or _quotes_close_within_lines(data):
            starts, ends = _all_lines(data, final)
            short = np.flatnonzero(ends - starts <= 2)
            keep = np.ones(len(starts), dtype=bool)
            for place in short.tolist():
                keep[place] = bool(data[starts[place] : ends[place]].strip(b"\r\n"))
            return starts[keep], ends[keep]
        found: list[tuple[int, int]] = []
        place, size = 0, len(data)
        while place < size:
            match = record.match(data, place)
            if match is None:
                break
            start, end = match.span()
            if not final and (end == size and match.group(1) != b"\n"):
                break
            if match.start(1) > start:
                found.append((start, end))
            place = end
        places = np.array(found, dtype=np.intp).reshape(-1, 2)
        return places[:, 0], places[:, 1]

    return split
