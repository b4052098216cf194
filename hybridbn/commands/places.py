"""Where a command reads from and writes to: formats by suffix or by name, pipes, and what must not be overwritten."""

from __future__ import annotations

import codecs
import contextlib
import hashlib
import importlib.util
import os
import re
import shutil
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any
from urllib.parse import quote

from hybridbn.commands.arrow_sources import ArrowSource
from hybridbn.commands.database_sources import DatabaseSource
from hybridbn.commands.sources import Source
from hybridbn.commands.text_sources import ArffSource, DelimitedSource, JsonSource
from hybridbn.errors import FormatError
from hybridbn.formats.tables import SUFFIXES, WEB, adbc, database, read_table, sqlite, write_table
from hybridbn.formats.tables.reading import Wanted
from hybridbn.formats.tables.relations import OutputExists, database_of

__all__ = [
    "FORMATS",
    "Place",
    "Taken",
    "UsageFault",
    "named_taken",
    "opened_source",
    "place_of",
    "refuse_folders",
    "refuse_taken",
    "rows_in",
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
_FAMILIES = {"delimited": "delimited", "arff": "arff", "columnar": "arrow", "jsonlines": "jsonlines", "dbc": "arff"}
_HINTS = {
    ".json": "a file with one object a line is .jsonl, or say --format jsonl",
    ".txt": "say --format csv or tsv, and --delimiter",
    ".dat": "say --format csv or tsv, and --delimiter",
    **dict.fromkeys((".xlsx", ".xls", ".ods"), "save the sheet as CSV"),
    **dict.fromkeys((".sav", ".dta", ".sas7bdat", ".rds"), "export it as CSV or Parquet"),
    **dict.fromkeys((".db", ".sqlite", ".sqlite3"), "write sqlite:///file.db?table=name"),
    **dict.fromkeys((".zip", ".bz2", ".xz", ".zst"), "unpack it, or pack it with gzip"),
}


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
        As the user wrote it, without a password.
    family : str
        "delimited", "jsonlines", "arff", "arrow" or "rows".
    suffix : str
    path : Path or None
        The file that links lead to, also SQLite's; None for a pipe and for a database on a server.
    table : str
        In a database.
    packed : bool
        With gzip.
    url : str
        Of a table of a database, or a query.
    """

    shown: str
    family: str
    suffix: str
    path: Path | None
    table: str = ""
    packed: bool = False
    url: str = ""

    @property
    def pipe(self) -> bool:
        """Whether it is standard input or output."""
        return self.path is None and not self.url

    def beside(self, parts: str | None = None) -> Path | None:
        """Return the path that the names of temporary files start with: beside the output, or in a folder.

        It is None where there is no such place: of pipes, and of tables on a server.
        """
        if parts is None and self.path is None:
            return None
        name = self.path.name if self.path is not None else "pipe"
        if self.url and self.path is None:
            name = f"{self.url.partition(':')[0]}-{hashlib.sha256(self.shown.encode()).hexdigest()[:12]}"
        if self.url:
            name = f"{name}-{quote(self.table, safe='')[:80]}"
        return Path(parts, name) if parts is not None else self.path.with_name(name)  # type: ignore[union-attr]


def place_of(text: str, named: str | None, otherwise: str | None, what: str) -> Place:
    """Return the place that an argument, `what`, names: in the format `named`, or what the suffix says, or `otherwise`.

    Examples
    --------
    >>> place_of("data/table.csv.gz", None, None, "INPUT").packed, place_of("-", None, "tsv", "INPUT").suffix
    (True, '.tsv')
    """
    if re.match(r"sqlite:|(?!file:)[a-zA-Z][a-zA-Z0-9+._-]+://", text):
        return _database_of(text)
    if text == "-":
        named = named or otherwise
        if named is None:
            raise UsageFault(f"{what} is a pipe: say its format with --format {', '.join(FORMATS)}")
        _refuse_absent_library(FORMATS[named])
        return Place("-", _family(FORMATS[named]), FORMATS[named], None)
    path = Path(text.removeprefix("file://"))
    if not _is_pipe(path):
        path = Path(os.path.realpath(path))
    suffixes = [suffix.lower() for suffix in Path(text).suffixes]
    packed = suffixes[-1:] == [".gz"]
    suffix = FORMATS[named] if named else (suffixes[: -1 if packed else None] or [""])[-1]
    if suffix not in SUFFIXES and otherwise is not None:
        suffix = FORMATS[otherwise]
    if path.is_dir():
        raise UsageFault(f"{text} is a folder; name a file")
    if suffix not in SUFFIXES:
        known = ", ".join(name for name in SUFFIXES if what == "INPUT" or name != ".dbc")
        hint = _HINTS.get(suffix, "or say --format")
        raise UsageFault(
            f"{text}: the suffix tells no known format; known are {known} and sqlite:///file.db?table=t; {hint}"
        )
    if suffix == ".dbc" and what == "OUTPUT":
        raise UsageFault(f"{text}: tables are not written as .dbc; write .csv, which Elvira imports, or .arff")
    if packed and _family(suffix) == "arrow":
        raise UsageFault(f"{text}: Parquet and Feather are compressed inside; leave .gz out")
    _refuse_absent_library(suffix)
    return Place(text, _family(suffix), suffix, path, "", packed)


def _database_of(url: str) -> Place:
    if url.startswith("sqlite:"):
        file = sqlite.address_of(url)
        table = file.text if file.what == "table" else ""
        return Place(url, "rows", "", Path(os.path.realpath(file.file)), table, url=url)
    if url.partition("://")[0].lower() in WEB:
        raise UsageFault(
            f"{database.shown(url)}: only files and tables of databases can be read and written; download it first"
        )
    address = database.address_of(url)
    name = address.name if address.what == "table" else ""
    if url.startswith("adbc+"):
        _refuse_absent_library(".feather")
        return Place(address.shown, "arrow", ".feather", None, name, url=url)
    return Place(address.shown, "rows", "", None, name, url=url)


def _is_pipe(path: Path) -> bool:
    """Tell whether a path is neither a file nor a folder: a named pipe, or what a shell makes of <(command)."""
    return path.exists() and not path.is_file() and not path.is_dir()


def _refuse_absent_library(suffix: str) -> None:
    if _family(suffix) == "arrow" and importlib.util.find_spec("pyarrow") is None:
        raise UsageFault("Parquet and Feather need pyarrow: pip install 'hybridbn[io]'")


def _family(suffix: str) -> str:
    return _FAMILIES[SUFFIXES[suffix]]


def spooled(place: Place, folder: Path, encoding: str) -> Path:
    """Return a file that can be read twice, in UTF-8: the place's own, or a copy in `folder`."""
    if place.url:
        copy = folder / f"input{place.suffix or '.rows'}"
        if place.family == "arrow":
            adbc.spool(place.url, copy)
        return copy
    if place.suffix == ".dbc" and place.path is not None:
        copy = folder / "input.arff"
        write_table(read_table(place.path), copy, overwrite=True)
        return copy
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


def opened_source(
    place: Place, path: Path, delimiter: str | None, missing: Iterable[str], decimal: str = "."
) -> Source:
    """Open a table for reading."""
    if place.family == "rows":
        return DatabaseSource(place.url, path, place.shown)
    if path.is_dir():
        raise UsageFault(f"{place.shown} is a folder; name a file")
    if place.family == "delimited":
        return DelimitedSource(path, place.shown, place.suffix, delimiter, missing, decimal)
    if place.family == "jsonlines":
        return JsonSource(path, place.shown)
    if place.family == "arff":
        return ArffSource(path, place.shown)
    return ArrowSource(path, place.shown, place.suffix)


def refuse_folders(place: Place) -> None:
    """Refuse an output that is a folder, or in none, or a query."""
    if place.url and not place.table:
        form = "sqlite:///file.db?table=name" if place.path is not None else "dialect://user@host/base?table=name"
        raise UsageFault(f"{place.shown}: a table is written to {form}")
    if place.path is None:
        return
    if place.path.is_dir():
        raise UsageFault(f"{place.shown} is a folder; name a file to write")
    if _is_pipe(place.path):
        raise UsageFault(f"{place.shown} is no ordinary file; write to - for a pipe")
    if not place.path.parent.is_dir():
        raise UsageFault(f"{place.shown}: there is no folder {place.path.parent}")


def refuse_taken(place: Place, no_clobber: bool) -> None:
    """Raise `Taken` where the output is there already and must not be replaced."""
    if place.url:
        with named_taken(place):
            database_of(place.url).refuse_present(place.url)
    elif place.path is not None and no_clobber and place.path.exists():
        raise Taken(f"{place.shown} exists already, and --no-clobber says to leave it")


def rows_in(place: Place) -> int:
    """Return how many rows a table of a database has."""
    with database_of(place.url).opened(place.url, Wanted()) as relation:
        return sum(map(len, relation.batches))


@contextlib.contextmanager
def named_taken(place: Place) -> Iterator[None]:
    """Say that a table is there already as the command says it."""
    try:
        yield
    except OutputExists:
        raise Taken(f"{place.shown}: there is such a table already; choose a new name") from None
