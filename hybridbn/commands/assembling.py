"""From parts to the output, which appears whole or not at all."""

from __future__ import annotations

import codecs
import contextlib
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import IO, Any, cast

from hybridbn.commands.places import Place, Taken, named_taken
from hybridbn.commands.row_files import decoded
from hybridbn.commands.writing import Writer
from hybridbn.formats.atomic import NameTaken, replacing
from hybridbn.formats.tables import adbc
from hybridbn.formats.tables.relations import database_of

__all__ = ["assembled", "rehearsed"]

_GROUP = 1 << 20
_GROUP_BYTES = 1 << 26


def assembled(
    place: Place, parts: Sequence[Path], writer: Writer, overwrite: bool, before: Callable[[], None], encoding: str
) -> None:
    """Put the parts together; `before` is called when all bytes are on the disk and only the name is missing."""
    if place.url:
        before()
        with named_taken(place):
            _into_database(place, parts, writer)
    elif place.pipe:
        before()
        _written(place, sys.stdout.buffer, parts, writer, encoding)
        sys.stdout.buffer.flush()
    else:
        with _replacing(place, overwrite, before) as file:
            _written(place, file, parts, writer, encoding)


class _Back(Exception):
    """Takes back what was made."""


def rehearsed(place: Place, writer: Writer) -> None:
    """Make the table of a database and take it back, so that what is refused is known before anything is learned."""
    if place.url and place.family == "rows":
        made = database_of(place.url).creating(place.url, writer.new_columns())
        with named_taken(place), contextlib.suppress(_Back), made:
            raise _Back


def _into_database(place: Place, parts: Sequence[Path], writer: Writer) -> None:
    """Insert all rows into a new table, in one transaction."""
    if place.family == "arrow":
        adbc.ingest(place.url, writer.schema, _batches(parts))
        return
    with database_of(place.url).creating(place.url, writer.new_columns()) as insert:
        for part in parts:
            insert(list(decoded(part.read_bytes())))


def _written(place: Place, file: IO[bytes], parts: Sequence[Path], writer: Writer, encoding: str) -> None:
    if place.family == "arrow":
        _arrow(place, file, parts, writer)
        return
    name = codecs.lookup(encoding).name
    recode = place.family in ("delimited", "arff") and name not in ("utf-8", "utf-8-sig", "ascii")
    for data in (writer.header(), *_contents(parts)):
        file.write(data.decode().encode(name) if recode else data)


def _contents(parts: Sequence[Path]) -> Iterator[bytes]:
    for part in parts:
        yield part.read_bytes()


def _arrow(place: Place, file: IO[bytes], parts: Sequence[Path], writer: Writer) -> None:
    import pyarrow

    if place.suffix in (".parquet", ".pq"):
        from pyarrow import parquet

        with parquet.ParquetWriter(file, writer.schema) as out:
            for table in _grouped(pyarrow, parts):
                out.write_table(table, row_group_size=max(table.num_rows, 1))
        return
    options = pyarrow.ipc.IpcWriteOptions(compression="lz4" if pyarrow.Codec.is_available("lz4") else None)
    with pyarrow.ipc.new_file(file, writer.schema, options=options) as feather:
        for batch in _batches(parts):
            feather.write_batch(batch)


def _batches(parts: Sequence[Path]) -> Iterator[Any]:
    import pyarrow

    for part in parts:
        with pyarrow.OSFile(os.fspath(part)) as raw, pyarrow.ipc.open_file(raw) as opened:
            for number in range(opened.num_record_batches):
                yield opened.get_batch(number)


def _grouped(pyarrow: Any, parts: Sequence[Path]) -> Iterator[Any]:
    """Give tables of many parts each: row groups that are not too small."""
    held: list[Any] = []
    for part in parts:
        with pyarrow.OSFile(os.fspath(part)) as raw, pyarrow.ipc.open_file(raw) as opened:
            held.append(opened.read_all())
        if sum(t.num_rows for t in held) >= _GROUP or sum(t.nbytes for t in held) >= _GROUP_BYTES:
            yield pyarrow.concat_tables(held)
            held = []
    if held:
        yield pyarrow.concat_tables(held)


@contextlib.contextmanager
def _replacing(place: Place, overwrite: bool, before: Callable[[], None]) -> Iterator[IO[bytes]]:
    target = cast(Path, place.path)
    mark = "hybridbn-"
    for left in target.parent.glob(f".{glob_safe(target.name[:100])}.{mark}*.tmp"):
        left.unlink()  # of a run that was killed here; this one has the lock
    try:
        with replacing(target, overwrite=overwrite, packed=place.packed, mark=mark, before=before) as file:
            yield file
    except NameTaken:
        raise Taken(f"{place.shown} has appeared meanwhile, and --no-clobber says to leave it") from None


def glob_safe(text: str) -> str:
    """Return text in which no sign has a meaning for `glob`.

    Examples
    --------
    >>> glob_safe("a[1].csv")
    'a[[]1].csv'
    """
    return "".join(f"[{sign}]" if sign in "*?[" else sign for sign in text)
