"""Files packed with gzip (``.gz``) or not; what would inflate far more than text does is refused before it takes the memory."""

from __future__ import annotations

import gzip
import io
import os
import zlib
from pathlib import Path
from typing import IO

from hybridbn.errors import FormatError
from hybridbn.formats.atomic import write_atomically

__all__ = ["is_packed", "read_network_bytes", "unpacked", "write_network_text"]

_LARGEST = 256 << 20  # bytes of a network; the largest of the public collections has 10 MB
_INFLATION = 60  # times that a packed network may inflate; networks full of zeros and ones reach 30
_INFLATED = 16 << 20, 64 << 20  # bytes of a network that are allowed in any case, and in none
_TABLE_INFLATION = 100  # times that a packed table may; a column of zeros and ones reaches 60
_TABLE_INFLATED = 16 << 20


def is_packed(path: str | os.PathLike[str]) -> bool:
    """Tell by its name whether a file is packed.

    Examples
    --------
    >>> is_packed("alarm.xdsl.GZ"), is_packed("alarm.xdsl")
    (True, False)
    """
    return os.fspath(path).lower().endswith(".gz")


# -- networks ---------------------------------------------------------------------------------------------------------


def read_network_bytes(path: str | os.PathLike[str]) -> bytes:
    """Return the content of a file of a network, unpacked if it is packed, whatever its name."""
    size = os.path.getsize(path)
    if size > _LARGEST:
        raise FormatError(
            f"{path}: the file has {size >> 20} MB; networks of more than {_LARGEST >> 20} MB are refused"
        )
    data = Path(path).read_bytes()
    return _inflated(data, str(path)) if data[:2] == b"\x1f\x8b" else data


def _inflated(data: bytes, source: str) -> bytes:
    inflater = zlib.decompressobj(wbits=31)
    try:
        limit = min(max(_INFLATED[0], _INFLATION * len(data)), _INFLATED[1])
        inflated = inflater.decompress(data, limit)
        if inflater.unconsumed_tail:
            raise FormatError(
                f"{source}: inflates to more than {limit >> 20} MB from {len(data) >> 10} KB; "
                "networks don't, but if this is one, unpack it first"
            )
        if not inflater.eof:
            raise FormatError(f"{source}: the compressed file is truncated")
    except zlib.error as error:
        raise FormatError(f"{source}: the compressed file is damaged ({error})") from None
    if inflater.unused_data:  # several members, or rubbish behind the first: rare, and gzip knows what to do
        raise FormatError(f"{source}: something follows the end of the compressed text; unpack the file first")
    return inflated


def write_network_text(path: str | os.PathLike[str], text: str) -> None:
    """Write a file of a network at once or not at all, packed if its name ends so; equal texts make equal files.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_network_text(Path(folder, "a.txt.gz"), "new")
    ...     read_network_bytes(Path(folder, "a.txt.gz"))
    b'new'
    """
    data = text.encode("utf-8")
    write_atomically(path, gzip.compress(data, mtime=0) if is_packed(path) else data)


# -- tables -----------------------------------------------------------------------------------------------------------


def unpacked(path: Path) -> IO[bytes]:
    """Return the content of a packed file of a table as a stream."""
    size = path.stat().st_size
    most = max(_TABLE_INFLATED, _TABLE_INFLATION * size)
    try:
        with gzip.open(path) as file:
            data = file.read(most + 1)
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise FormatError(f"{path} is not a whole gzip file: {error}") from error
    if len(data) > most:
        raise FormatError(
            f"{path}: inflates to more than {most >> 20} MB from {size >> 10} KB; if this is a table, unpack it first"
        )
    return io.BytesIO(data)
