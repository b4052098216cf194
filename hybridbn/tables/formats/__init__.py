"""Read and write tables: `read_table` and `write_table` choose the format by the path's suffix or the URL.

=====================  =================================  ==========================================================
format                 suffix or URL                      a cell counts as missing when it is
=====================  =================================  ==========================================================
comma-separated        ``.csv``, ``.csv.gz``              empty, or one of ``missing`` (default: NA, N/A, n/a, NaN, nan,
                                                          NULL, null, #N/A) without quotes around it
tab-separated          ``.tsv``, ``.tab`` (and ``.gz``)   the same
ARFF                   ``.arff`` (and ``.gz``)            ``?`` without quotes
Parquet                ``.parquet``, ``.pq``              null, or NaN in a number column
Feather                ``.feather``, ``.arrow``           null, or NaN in a number column
JSON lines             ``.jsonl``, ``.ndjson`` (``.gz``)  null, or absent from its line
SQLite                 ``sqlite:///file.db?table=t``      NULL
other databases        ``postgresql://h/b?table=t`` ...   NULL
Elvira                 ``.dbc`` (read only)               ``?``
=====================  =================================  ==========================================================

Parquet and Feather keep hybridbn's own types. ARFF keeps the states and their order. CSV, JSON lines and SQLite hold no
types beyond their own, so integer states take ``discrete=["c"]`` when such a file is read, or ``variables=``.
SQLite does not keep the sign of -0.0. Other databases are reached through SQLAlchemy (``pip install 'hybridbn[sql]'``),
by its URLs with ``?table=name`` (and ``schema=name&`` before that) or ``?query=SELECT ...`` behind.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any, Literal
from urllib.parse import unquote, urlsplit

from hybridbn.errors import FormatError, TableError, hide_secrets, mask_secrets
from hybridbn.tables import Table
from hybridbn.tables.columns import check_states, list_marks, split_marks
from hybridbn.tables.formats.base import FileFormat, name_file_in_errors, suffixes
from hybridbn.tables.formats.database_base import OutputExists, database_of
from hybridbn.tables.formats.files import (
    NameTaken,
    check_encoding,
    check_path,
    is_packed,
    open_unpacked,
    replace_file,
    resolve_links,
)
from hybridbn.tables.formats.typed_columns import WantedColumns
from hybridbn.variables import Variable

__all__ = ["WEB", "OutputExists", "describe_location", "format_of", "read_table", "suffix_of", "write_table"]

WEB = ("http", "https", "ftp", "ftps", "s3", "gs", "abfs", "hdfs")
"""Addresses that are neither files nor databases."""


def read_table(
    path: str | os.PathLike[str],
    discrete: str | Iterable[str] = (),
    continuous: str | Iterable[str] = (),
    *,
    columns: Iterable[str] | None = None,
    weights: str | None = None,
    variables: Iterable[Variable] | None = None,
    unknown: Literal["error", "missing"] = "error",
    ordered: str | Iterable[str] = (),
    missing: Any = None,
    **options: Any,
) -> Table:
    r"""Read a table from a file or an SQLite database.

    Parameters
    ----------
    path : path or URL
        The suffix tells the format; ``sqlite:///file.db?table=t`` and ``sqlite:///file.db?query=SELECT ...`` read a
        database (four slashes for an absolute path; ``%`` is written ``%25``).
    discrete, continuous : str or iterable of str
        Columns whose type does not say what they are. A number column of a CSV file that is declared discrete has
        integer states if it holds whole numbers only, and is kept as text if it has leading zeros.
    columns : iterable of str, optional
        Read these columns only.
    weights : str, optional
        The column that holds the rows' weights.
    variables, unknown : optional
        Read the columns as these variables; see `hybridbn.Table`.
    ordered : str or iterable of str
        Columns of numbers that are ordered codes.
    missing : mapping from column to values, or values, optional
        What marks missing cells, such as ``{"sex": [9]}``, in some columns or in all. Those of all columns of CSV
        and TSV take the place of the usual ones (see above).
    **options
        CSV and TSV: ``delimiter``, ``encoding``, ``decimal`` (``"."`` or ``","``), ``thousands`` (such as ``"."`` or
        ``" "``; ``""`` for nothing), ``dates`` (``"dmy"``, ``"mdy"`` or ``"ymd"``). ARFF: ``encoding``.

    Notes
    -----
    In CSV and TSV a column is one of numbers if every cell is a number, one of truth values if all are
    ``True``/``False`` (or ``true``/``false``, ``TRUE``/``FALSE``), else one of text. Numbers mixed with text are
    refused, because a marker for missing values or a damaged cell would otherwise turn numbers into states silently;
    ``discrete=`` accepts the mixture as text. Cells are taken verbatim, spaces included. Where a whole number of two or
    more digits begins with 0, as in postal codes, the column is one of text.

    How the file is written is found from its first 64 KB where no option tells it, and told by a warning if it is not
    as usual: the delimiter (``,`` ``;`` tab ``|``), the decimal sign, what stands between thousands, the encoding
    (UTF-8, UTF-16 with its mark, else cp1252) and the order of dates. What two conventions could read is refused, with
    both readings and the options that choose one.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder, "d.csv")
    ...     _ = file.write_text("x,c,k\n1.5,a,1\n,b,2\n")
    ...     read_table(file, discrete=["k"])
    Table: 2 rows, 3 columns
      x  continuous            1 missing
      c  discrete    2 states  0 missing  'a', 'b'
      k  discrete    2 states  0 missing  1, 2
    """
    with hide_secrets(path):
        listed = None if variables is None else list(variables)
        wanted = WantedColumns.of(discrete, continuous, columns, weights, listed)
        location = _locate(path, options)
        with name_file_in_errors(describe_location(location)):
            if isinstance(location, str):
                table = database_of(location).read(location, wanted, **options)
            else:
                form, suffix = format_of(location)
                if isinstance(missing, Mapping) and "missing" in form.options:
                    options["marks"] = list_marks(missing, missing)
                elif "missing" in form.options:
                    texts, missing = split_marks(missing)
                    options |= texts
                file = open_unpacked(location) if is_packed(location) else location
                table = form.read(file, wanted, suffix, **options)
            check_states(table._columns.values())
            numbers = [name for name, kind in wanted.kinds.items() if kind == "continuous" and name in table]
            table = table.declare(continuous=numbers, ordered=ordered, missing=missing)
        if weights is not None:
            held = table.select([weights])
            table = table.drop(weights)
            try:
                table = table.with_weights(held[weights] if not held.is_discrete(weights) else held.raw(weights))
            except TableError as error:
                raise TableError(f"{describe_location(location)}, column {weights!r}: {error}") from None
        return table if listed is None else Table(table, variables=listed, unknown=unknown)


def write_table(
    table: Table,
    path: str | os.PathLike[str],
    *,
    overwrite: bool = False,
    weights: str | None = None,
    **options: Any,
) -> None:
    """Write a table to a file or into an SQLite database; what is there already is refused unless `overwrite`.

    A file appears complete or not at all. A weighted table needs `weights`, the name of the column that takes them.
    The options are those of `read_table` (``delimiter``; ``missing``, here one marker; ``encoding``).

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_table(Table({"x": [1.5, None]}), Path(folder, "d.parquet"))
    ...     read_table(Path(folder, "d.parquet"))["x"]
    array([1.5, nan])
    """
    if table.weighted != (weights is not None):
        raise TableError(
            "the table has weights: name the column that takes them, as in write(path, weights='weight')"
            if table.weighted
            else "the table has no weights to write"
        )
    if weights is not None:
        if weights in table:
            raise TableError(f"the column for the weights, {weights!r}, is in the table already; choose another name")
        table = table.with_weights(None).with_column(weights, table.weights)
    with hide_secrets(path):
        location = _locate(path, options)
        if isinstance(location, str):
            database_of(location).write(table, location, overwrite=overwrite, **options)
            return
        form, suffix = format_of(location)
        with open_output(location, overwrite) as file:
            form.write(table, file, suffix, **options)


def _locate(path: str | os.PathLike[str], options: dict[str, Any]) -> Path | str:
    """Return the path of a file, or the address of a table of a database; check the encoding among the options, and
    drop one that is None.
    """
    text = os.fspath(check_path(path))
    if options.get("encoding") is None:
        options.pop("encoding", None)
    else:
        check_encoding(options["encoding"])
    if text.startswith("sqlite:"):
        return text
    if text.startswith("file://"):
        return Path(unquote(urlsplit(text).path))
    if match := re.match(r"([a-zA-Z][a-zA-Z0-9+._-]+)://", text):
        if match[1].lower() in WEB:
            raise FormatError(f"{text!r}: only files and sqlite:///file.db?table=t can be read; download it first")
        return text
    return Path(text)


def describe_location(location: Path | str) -> str:
    """Return what messages call a file or a table: an address without its password.

    Examples
    --------
    >>> describe_location("postgresql://me:secret@host/base?table=t")
    'postgresql://me:***@host/base?table=t'
    """
    return mask_secrets(str(location), [str(location)])


def suffix_of(path: str | os.PathLike[str]) -> str:
    """Return the suffix that tells a file's format, in lower case and without that of gzip.

    Examples
    --------
    >>> suffix_of("data.CSV.gz"), suffix_of("data")
    ('.csv', '')
    """
    name = os.fspath(path)
    return Path(name[:-3] if is_packed(name) else name).suffix.lower()


def format_of(path: Path) -> tuple[FileFormat, str]:
    """Return a file's format and suffix; refuse a suffix that tells none, and packed files that are never packed."""
    suffix, known = suffix_of(path), suffixes()
    form = known.get(suffix)
    if form is None or (is_packed(path) and not form.packable):
        listed = ", ".join(known)
        raise FormatError(f"{path}: the suffix tells no known format; known are {listed} and sqlite:///file.db?table=t")
    return form, suffix


@contextlib.contextmanager
def open_output(location: Path, overwrite: bool) -> Iterator[IO[bytes]]:
    """Open a file that takes its name in the end, or refuse to replace the one that has it."""
    target = resolve_links(location)
    taken = OutputExists(f"{location} exists already; overwrite=True would replace it")
    if target.exists() and not overwrite:
        raise taken
    try:
        with replace_file(target, overwrite=overwrite, packed=is_packed(location)) as file:
            yield file
    except NameTaken:
        raise taken from None
