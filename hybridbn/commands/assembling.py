"""From parts to the output, which appears whole or not at all."""

from __future__ import annotations

import codecs
import contextlib
import json
import os
import sqlite3
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import IO, Any, cast
from urllib.parse import quote

from hybridbn.commands.other_sources import SqliteSource
from hybridbn.commands.places import Place, Taken
from hybridbn.commands.writing import Writer
from hybridbn.errors import TableError
from hybridbn.formats import sqlite
from hybridbn.formats.atomic import NameTaken, replacing

__all__ = ["assembled"]

_GROUP = 1 << 20
_GROUP_BYTES = 1 << 26
_DECLARED = {"integer": "INTEGER", "float": "REAL", "bool": "BOOLEAN", "text": "TEXT"}


def assembled(
    place: Place, parts: Sequence[Path], writer: Writer, overwrite: bool, before: Callable[[], None], encoding: str
) -> None:
    """Put the parts together; `before` is called when all bytes are on the disk and only the name is missing."""
    if place.family == "sqlite":
        before()
        _into_database(place, parts, writer)
    elif place.path is None:
        before()
        _written(place, sys.stdout.buffer, parts, writer, encoding)
        sys.stdout.buffer.flush()
    else:
        with _replacing(place, overwrite, before) as file:
            _written(place, file, parts, writer, encoding)


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
        for part in parts:
            with pyarrow.OSFile(os.fspath(part)) as raw, pyarrow.ipc.open_file(raw) as opened:
                for number in range(opened.num_record_batches):
                    feather.write_batch(opened.get_batch(number))


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


# -- databases ------------------------------------------------------------------------------------------------------


def _into_database(place: Place, parts: Sequence[Path], writer: Writer) -> None:
    """Insert all rows into a new table, in one transaction."""
    path = cast(Path, place.path)
    fresh = not path.exists()
    try:
        connection = sqlite3.connect(f"file:{quote(str(path))}?mode=rwc", uri=True, isolation_level=None, timeout=60)
        try:
            connection.execute("BEGIN IMMEDIATE")
            try:
                _inserted(connection, place, parts, writer)
                connection.execute("COMMIT")
            except BaseException:
                with contextlib.suppress(sqlite3.Error):
                    connection.execute("ROLLBACK")
                raise
        finally:
            connection.close()
    except BaseException:
        if fresh:
            with contextlib.suppress(OSError):
                path.unlink()
        raise


def _inserted(connection: sqlite3.Connection, place: Place, parts: Sequence[Path], writer: Writer) -> None:
    target = sqlite._identifier(place.table)
    names = [writer.draw_column, *writer.names] if writer.draws else writer.names
    folded = [name.lower() for name in names]
    clash = next((name for name in names if folded.count(name.lower()) > 1), None)
    if clash is not None:
        raise TableError(f"SQLite takes column names for equal that differ in case only: {clash!r}; rename one")
    declared = writer.source.declared if isinstance(writer.source, SqliteSource) else {}
    types = {name: declared.get(name) or _DECLARED.get(writer.kinds.get(name, "integer"), "") for name in names}
    try:
        connection.execute(
            f"CREATE TABLE {target} ({', '.join(f'{sqlite._identifier(n)} {t}'.rstrip() for n, t in types.items())})"
        )
    except sqlite3.OperationalError as error:
        if "already exists" in str(error):
            raise Taken(f"{place.shown}: there is such a table already; choose a new name") from None
        raise
    places = ", ".join("?" * len(names))
    for part in parts:
        with open(part, encoding="utf-8") as file:
            rows = ([bytes.fromhex(v[0]) if isinstance(v, list) else v for v in json.loads(line)] for line in file)
            connection.executemany(f"INSERT INTO {target} VALUES ({places})", rows)
