"""The inputs and outputs of a command: files, pipes and tables of databases, with the format that their suffix or name
tells.
"""

from __future__ import annotations

import codecs
import contextlib
import hashlib
import os
import re
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from hybridbn.commands.terminal import OutputTaken, UsageFault
from hybridbn.errors import FormatError
from hybridbn.tables.formats import WEB, describe_location, suffix_of
from hybridbn.tables.formats.base import FileFormat, TableSource, names, suffixes
from hybridbn.tables.formats.database_base import Database, OutputExists, database_of
from hybridbn.tables.formats.files import (
    StoredFile,
    check_encoding,
    is_packed,
    open_private,
    resolve_links,
)

_HINTS = {
    ".json": "a file with one object a line is .jsonl, or say --format jsonl",
    ".txt": "say --format csv",
    ".dat": "say --format csv",
    **dict.fromkeys((".xlsx", ".xls", ".ods"), "save the sheet as CSV"),
    **dict.fromkeys((".sav", ".dta", ".sas7bdat", ".rds"), "export it as CSV or Parquet"),
    **dict.fromkeys((".db", ".sqlite", ".sqlite3"), "write sqlite:///file.db?table=name"),
    **dict.fromkeys((".zip", ".bz2", ".xz", ".zst"), "unpack it, or pack it with gzip"),
}


@dataclass(frozen=True)
class Location:
    """A file, a table of a database, or a pipe.

    Attributes
    ----------
    shown : str
        The location as the user wrote it, without a password.
    form : FileFormat or Database
        The format.
    suffix : str
        The suffix of the format.
    path : Path or None
        The file, with links resolved, also for SQLite; None for a pipe and for a database on a server.
    table : str
        The table of a database.
    packed : bool
        Whether the file is packed with gzip.
    url : str
        The address of a table of a database, or of a query.
    """

    shown: str
    form: FileFormat | Database
    suffix: str
    path: Path | None
    table: str = ""
    packed: bool = False
    url: str = ""

    @property
    def pipe(self) -> bool:
        """Whether this is standard input or output."""
        return self.path is None and not self.url

    def beside(self, parts: str | None = None) -> Path | None:
        """Return the path that names of temporary files start with, beside the output or in the folder `parts`.

        It is None for pipes and for tables on a server, unless `parts` names a folder.
        """
        if parts is None and self.path is None:
            return None
        name = self.path.name if self.path is not None else "pipe"
        if self.url and self.path is None:
            name = f"{self.url.partition(':')[0]}-{hashlib.sha256(self.shown.encode()).hexdigest()[:12]}"
        if self.url:
            name = f"{name}-{quote(self.table, safe='')[:80]}"
        return Path(parts, name) if parts is not None else self.path.with_name(name)  # type: ignore[union-attr]


def locate(text: str, named: str | None, otherwise: str | None, what: str) -> Location:
    """Locate the argument called `what`; its format is `named`, or that of its suffix, or `otherwise`.

    Examples
    --------
    >>> locate("data/table.csv.gz", None, None, "INPUT").packed, locate("-", None, "tsv", "INPUT").suffix
    (True, '.tsv')
    """
    if re.match(r"sqlite:|(?!file:)[a-zA-Z][a-zA-Z0-9+._-]+://", text):
        return _locate_in_database(text, what)
    if text == "-":
        return _locate_pipe(named or otherwise, what)
    path = Path(text.removeprefix("file://"))
    if what == "OUTPUT":
        path = resolve_links(path)
    elif not _is_pipe(path):
        path = Path(os.path.realpath(path))
    suffix = f".{named}" if named else suffix_of(text)
    if suffix not in suffixes() and otherwise is not None:
        suffix = f".{otherwise}"
    if path.is_dir():
        raise UsageFault(f"{text} is a folder; name a file")
    form, packed = _find_format(text, suffix, what), is_packed(text)
    if packed and not form.packable:
        raise UsageFault(f"{text}: {form.title} files are not packed; leave .gz out")
    return _check_library(Location(text, form, suffix, path, "", packed))


def _locate_pipe(named: str | None, what: str) -> Location:
    if (sys.stdin if what == "INPUT" else sys.stdout) is None:
        raise UsageFault(f"{what} is a pipe, but standard {'in' if what == 'INPUT' else 'out'}put is closed")
    if named is None:
        raise UsageFault(f"{what} is a pipe: say its format with --format {', '.join(names())}")
    return _check_library(Location("-", suffixes()[f".{named}"], f".{named}", None))


def _find_format(text: str, suffix: str, what: str) -> FileFormat:
    """Return the format of a suffix, which must be one that is written where it is that of the output."""
    known = suffixes()
    form = known.get(suffix)
    if form is None:
        known_suffixes = ", ".join(name for name, form in known.items() if what == "INPUT" or not form.unwritable)
        hint = _HINTS.get(suffix, "or say --format")
        raise UsageFault(
            f"{text}: the suffix tells no known format; known are {known_suffixes} and sqlite:///file.db?table=t;"
            f" {hint}"
        )
    if form.unwritable and what == "OUTPUT":
        raise UsageFault(f"{text}: {form.unwritable}")
    return form


def _locate_in_database(url: str, what: str) -> Location:
    if not url.startswith("sqlite:") and url.partition("://")[0].lower() in WEB:
        raise UsageFault(
            f"{describe_location(url)}: only files and tables of databases can be read and written; download it first"
        )
    form = database_of(url)
    shown, file, table, *_ = form.locate(url)
    path = None if file is None else resolve_links(file) if what == "OUTPUT" else Path(os.path.realpath(file))
    return _check_library(Location(shown, form, "", path, table, url=url))


def _check_library(location: Location) -> Location:
    if absent := location.form.absent_library():
        raise UsageFault(absent)
    return location


def _is_pipe(path: Path) -> bool:
    """Return whether a path is a named pipe, such as a shell makes for ``<(command)``."""
    return path.exists() and not path.is_file() and not path.is_dir()


def open_source(
    location: Location, folder: Path, encoding: str | None, options: dict[str, Any], rows: tuple[int, int] | None = None
) -> TableSource:
    """Open a table that is read more than once; what can't be read twice is copied into `folder` first.

    Parameters
    ----------
    encoding : str, optional
        The encoding of a text file, if it is known.
    options : dict
        Options of the command line for reading a file; a format uses those that it knows.
    rows : (int, int), optional
        The number of the first row that is read, and that of the first one behind them; by default all are.
    """
    form = location.form
    if isinstance(form, Database):
        source = form.source(location.url, folder, location.shown)
    else:
        path = _copy_if_needed(location, folder)
        file = StoredFile(str(path), encoding=encoding_of_file(form, encoding))
        known = {name: value for name, value in options.items() if name in form.options}
        source = form.source(file, location.shown, location.suffix, **known)
    if rows is not None:
        source.span = range(*rows)
    return source


def _copy_if_needed(location: Location, folder: Path) -> Path:
    """Return a file that can be read twice: the original, or a copy in `folder`."""
    if location.path is not None and location.packed and location.path.is_file():
        with open(location.path, "rb") as start:
            if start.read(2) != b"\x1f\x8b":
                raise FormatError("not a gzip file, whatever its name says")
    if location.path is not None and not _is_pipe(location.path):
        return location.path
    copy = folder / f"input{location.suffix}{'.gz' if location.packed else ''}"
    with contextlib.ExitStack() as stack, open_private(copy) as out:
        file = sys.stdin.buffer if location.path is None else stack.enter_context(open(location.path, "rb"))
        shutil.copyfileobj(file, out, 1 << 20)
    return copy


def encoding_of_file(form: FileFormat | Database, encoding: str | None) -> str | None:
    """Return the name of a text file's encoding, "utf-8" also for its subsets; None if it is unknown or no text."""
    if encoding is None or not (isinstance(form, FileFormat) and form.text):
        return None
    name = codecs.lookup(check_encoding(encoding)).name
    return "utf-8" if name in ("utf-8-sig", "ascii") else name


def refuse_folders(location: Location) -> None:
    """Refuse an output that is a folder or a query, or whose folder does not exist."""
    if location.url and not location.table:
        form = "sqlite:///file.db?table=name" if location.path is not None else "dialect://user@host/base?table=name"
        raise UsageFault(f"{location.shown}: a table is written to {form}")
    if location.path is None:
        return
    if location.path.is_dir():
        raise UsageFault(f"{location.shown} is a folder; name a file to write")
    if _is_pipe(location.path):
        raise UsageFault(f"{location.shown} is no ordinary file; write to - for a pipe")
    if not location.path.parent.is_dir():
        raise UsageFault(f"{location.shown}: there is no folder {location.path.parent}")


def refuse_existing_output(location: Location, no_clobber: bool) -> None:
    """Raise `OutputTaken` if the output exists already and must not be replaced."""
    if location.url:
        with report_present_output(location.shown):
            database_of(location.url).refuse_present(location.url)
    elif location.path is not None and no_clobber and location.path.exists():
        raise OutputTaken(f"{location.shown} exists already, and --no-clobber says to leave it")


def refuse_replacement(source: str, target: str, no_clobber: bool) -> None:
    """Refuse to replace the input or, with `no_clobber`, any file, and refuse folders that do not exist."""
    folder = Path(os.path.realpath(target)).parent
    if not folder.is_dir():
        raise UsageFault(f"{target}: there is no folder {folder}")
    if os.path.exists(target):
        if no_clobber:
            raise OutputTaken(f"there is {target} already")
        if os.path.exists(source) and os.path.samefile(source, target):
            raise UsageFault("input and output are the same file")


@contextlib.contextmanager
def report_present_output(shown: str) -> Iterator[None]:
    """Turn `OutputExists` of a database into `OutputTaken`, in the words of the command."""
    try:
        yield
    except OutputExists:
        raise OutputTaken(f"{shown}: there is such a table already; choose a new name") from None
