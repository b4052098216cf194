"""Where a command reads from and writes to: formats by suffix or by name, pipes, and what must not be overwritten."""

from __future__ import annotations

import codecs
import importlib.util
import os
import re
import shutil
import sqlite3
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any
from urllib.parse import quote

from hybridbn.commands.other_sources import ArrowSource, SqliteSource
from hybridbn.commands.sources import Source
from hybridbn.commands.text_sources import ArffSource, DelimitedSource, JsonSource
from hybridbn.errors import FormatError
from hybridbn.formats import sqlite
from hybridbn.formats.tables import _SUFFIXES

__all__ = [
    "FORMATS",
    "Place",
    "Taken",
    "UsageFault",
    "opened_source",
    "place_of",
    "refuse_folders",
    "refuse_taken",
    "spooled",
]

FORMATS = {
    "csv": ".csv",
    "tsv": ".tsv",
    "arff": ".arff",
    "parquet": ".parquet",
    "feather": ".feather",
    "jsonl": ".jsonl",
}
_FAMILIES = {"delimited": "delimited", "arff": "arff", "columnar": "arrow", "jsonlines": "jsonlines"}


class UsageFault(FormatError):
    """What was asked for can't be done, whatever the table holds."""


class Taken(Exception):
    """The output can't be made: it is there already, or another run is at it."""


@dataclass(frozen=True)
class Place:
    """A file, a table of a database, or a pipe.

    Attributes
    ----------
    shown : str
        As the user wrote it.
    family : str
        "delimited", "jsonlines", "arff", "arrow" or "sqlite".
    suffix : str
    path : Path or None
        The file that links lead to; None for a pipe.
    table : str
        In a database.
    packed : bool
        With gzip.
    """

    shown: str
    family: str
    suffix: str
    path: Path | None
    table: str = ""
    packed: bool = False

    @property
    def beside(self) -> Path | None:
        """The path that the names of temporary files beside the output start with."""
        if self.path is None or self.family != "sqlite":
            return self.path
        return self.path.with_name(f"{self.path.name}-{quote(self.table, safe='')[:80]}")


def place_of(text: str, named: str | None, otherwise: str | None, what: str) -> Place:
    """Return the place that an argument names: in the format `named`, or what the suffix says, or `otherwise`.

    Examples
    --------
    >>> place_of("data/table.csv.gz", None, None, "INPUT").packed, place_of("-", None, "tsv", "INPUT").suffix
    (True, '.tsv')
    """
    if text.startswith("sqlite:"):
        address = sqlite._address(text)
        table = address.text if address.what == "table" else ""
        return Place(text, "sqlite", "", Path(os.path.realpath(address.file)), table)
    if text == "-":
        named = named or otherwise
        if named is None:
            raise UsageFault(f"{what} is a pipe: say its format with --format {', '.join(FORMATS)}")
        _refuse_absent_library(FORMATS[named])
        return Place("-", _family(FORMATS[named]), FORMATS[named], None)
    if re.match(r"(?!file:)[a-zA-Z][a-zA-Z0-9+.-]+://", text):
        raise UsageFault(f"{text}: only files and sqlite:///file.db?table=name can be read; download it first")
    path = Path(text.removeprefix("file://"))
    if not _is_pipe(path):
        path = Path(os.path.realpath(path))
    suffixes = [suffix.lower() for suffix in Path(text).suffixes]
    packed = suffixes[-1:] == [".gz"]
    suffix = FORMATS[named] if named else (suffixes[: -1 if packed else None] or [""])[-1]
    if suffix not in _SUFFIXES and otherwise is not None:
        suffix = FORMATS[otherwise]
    if suffix not in _SUFFIXES:
        known = ", ".join(_SUFFIXES)
        raise UsageFault(
            f"{text}: the suffix tells no known format; known are {known} and sqlite:///file.db?table=t; or say --format"
        )
    if packed and _family(suffix) == "arrow":
        raise UsageFault(f"{text}: Parquet and Feather are compressed inside; leave .gz out")
    _refuse_absent_library(suffix)
    return Place(text, _family(suffix), suffix, path, "", packed)


def _is_pipe(path: Path) -> bool:
    """Tell whether a path is neither a file nor a folder: a named pipe, or what a shell makes of <(command)."""
    return path.exists() and not path.is_file() and not path.is_dir()


def _refuse_absent_library(suffix: str) -> None:
    if _family(suffix) == "arrow" and importlib.util.find_spec("pyarrow") is None:
        raise UsageFault("Parquet and Feather need pyarrow: pip install 'hybridbn[io]'")


def _family(suffix: str) -> str:
    return _FAMILIES[_SUFFIXES[suffix]]


def spooled(place: Place, folder: Path, encoding: str) -> Path:
    """Return a file that can be read twice, in UTF-8: the place's own, or a copy in `folder`."""
    text = place.family in ("delimited", "arff")
    name = _encoding(encoding)
    recode = text and name not in ("utf-8", "utf-8-sig", "ascii")
    if place.path is not None and not recode and not _is_pipe(place.path):
        return place.path
    copy = folder / f"input{place.suffix}"
    with open(copy, "wb") as out:
        if place.path is None:
            _copied(sys.stdin.buffer, out, name if recode else None, place)
        else:
            import gzip

            with gzip.open(place.path) if place.packed else open(place.path, "rb") as file:
                _copied(file, out, name, place)
    return copy


def _copied(file: Any, out: IO[bytes], encoding: str | None, place: Place) -> None:
    if encoding is None:
        shutil.copyfileobj(file, out, 1 << 20)
        return
    decoder = codecs.getincrementaldecoder(encoding)()
    try:
        while True:
            data = file.read(1 << 20)
            out.write(decoder.decode(data, final=not data).encode())
            if not data:
                return
    except UnicodeError as error:
        raise FormatError(f"{place.shown} is not in {encoding}: {error}") from None


def _encoding(name: str) -> str:
    try:
        return codecs.lookup(name).name
    except LookupError:
        raise UsageFault(f"there is no encoding {name!r}") from None


def opened_source(place: Place, path: Path, delimiter: str | None, missing: Iterable[str]) -> Source:
    """Open a table for reading."""
    if place.family == "sqlite":
        return SqliteSource(place.shown)
    if path.is_dir():
        raise UsageFault(f"{place.shown} is a folder; name a file")
    if place.family == "delimited":
        return DelimitedSource(path, place.shown, place.suffix, delimiter, missing)
    if place.family == "jsonlines":
        return JsonSource(path, place.shown)
    if place.family == "arff":
        return ArffSource(path, place.shown)
    return ArrowSource(path, place.shown, place.suffix)


def refuse_folders(place: Place) -> None:
    """Refuse an output that is a folder, or in none, or a query."""
    if place.path is None:
        return
    if place.path.is_dir():
        raise UsageFault(f"{place.shown} is a folder; name a file to write")
    if _is_pipe(place.path):
        raise UsageFault(f"{place.shown} is no ordinary file; write to - for a pipe")
    if not place.path.parent.is_dir():
        raise UsageFault(f"{place.shown}: there is no folder {place.path.parent}")
    if place.family == "sqlite" and not place.table:
        raise UsageFault(f"{place.shown}: a table is written to sqlite:///file.db?table=name")


def refuse_taken(place: Place, no_clobber: bool) -> None:
    """Raise `Taken` where the output is there already and must not be replaced."""
    if place.path is None:
        return
    if place.family == "sqlite":
        if place.path.exists() and _has_table(place):
            raise Taken(f"{place.shown}: there is such a table already; choose a new name")
    elif no_clobber and place.path.exists():
        raise Taken(f"{place.shown} exists already, and --no-clobber says to leave it")


def _has_table(place: Place) -> bool:
    try:
        connection = sqlite3.connect(f"file:{quote(str(place.path))}?mode=ro", uri=True, timeout=60)
        try:
            found = connection.execute("SELECT 1 FROM sqlite_master WHERE lower(name) = lower(?)", (place.table,))
            return found.fetchone() is not None
        finally:
            connection.close()
    except sqlite3.DatabaseError as error:
        raise FormatError(f"{place.shown}: SQLite: {error}") from None
