"""CSV and TSV files, read by pyarrow where it is installed and by a scanner of our own where not, with equal results.

The scanner also finds the line to blame when something is wrong, and types the first lines for pyarrow.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hybridbn.errors import FormatError, TableError
from hybridbn.formats.tables.reading import NUMBER, Read, Wanted, relocated, typed
from hybridbn.formats.tables.scanning import Scanner, checked_bytes, coded_columns
from hybridbn.tables import Table
from hybridbn.tables.adapters.arrow import arrow_codes
from hybridbn.tables.columns import EXACT_INTEGERS, Cells, Source, plain
from hybridbn.tables.frames import cells_of
from hybridbn.variables import shorten

__all__ = ["MISSING", "checked_delimiter", "other_delimiter", "point_for_comma", "quoted_cell", "read", "write"]

MISSING = ("", "NA", "N/A", "n/a", "NaN", "nan", "NULL", "null", "#N/A")
"""The cells that count as missing unless the caller says otherwise; quoted, they are ordinary text."""

_SAMPLE = 1 << 16
_COMMA = re.compile(r"\s*[-+]?(?:[0-9]+(?:,[0-9]*)?|,[0-9]+)(?:[eE][-+]?[0-9]+)?\s*", re.ASCII)
_CHUNK = 50_000


def read(
    file: Path | IO[bytes],
    wanted: Wanted,
    suffix: str = ".csv",
    *,
    delimiter: str | None = None,
    missing: str | Iterable[str] = MISSING,
    encoding: str = "utf-8",
    decimal: str = ".",
    engine: str | None = None,
) -> Read:
    """Read a delimited file. `engine` None takes pyarrow if it is there; "scanner" never does."""
    if decimal not in (".", ","):
        raise TableError(f"decimal must be '.' or ',', not {decimal!r}")
    separator = checked_delimiter(delimiter, suffix)
    markers = frozenset([missing] if isinstance(missing, str) else missing)
    data = checked_bytes(file, encoding)
    scanner = Scanner(data, separator)
    header, sample, whole = scanner.beginning(_SAMPLE)
    try:
        names = wanted.names(header)
    except TableError as error:
        raise TableError(f"{error}{other_delimiter(header, separator)}") from None
    remedy = "if it marks a missing cell, add it to missing=[...]; else mend the cell"
    rules = _Rules(wanted, markers, remedy, decimal)
    arrow = _pyarrow_csv() if engine is None and not (whole and not sample) else None
    try:
        if arrow is None:
            return _scanned(scanner, header, names, rules)
        return _parsed(arrow, scanner, header, names, rules, sample)
    except TableError as error:
        # Rows are counted over records; only the way to an error looks for their lines.
        raise relocated(error, scanner.line_of) from None


class _Rules(NamedTuple):
    """How cells are read: as what, which are missing, what to say of bad ones, and the sign before decimals."""

    wanted: Wanted
    markers: frozenset[str]
    remedy: str
    decimal: str


def checked_delimiter(delimiter: str | None, suffix: str) -> str:
    r"""Return the delimiter of a file, given or by its suffix; refuse what can't be one.

    Examples
    --------
    >>> checked_delimiter(None, ".tsv")
    '\t'
    """
    separator = delimiter if delimiter is not None else "\t" if suffix in (".tsv", ".tab") else ","
    if len(separator) != 1 or not separator.isascii() or separator in '"\r\n\0':
        raise TableError(f"a delimiter must be one ASCII character other than a quote or line end, not {separator!r}")
    return separator


def other_delimiter(header: Sequence[str], separator: str) -> str:
    """Return what to ask where the only column's name holds another delimiter; nothing otherwise.

    Examples
    --------
    >>> other_delimiter(["a;b"], ",")
    " (is ';' the delimiter? then give delimiter=';')"
    """
    other = next((sign for sign in ";\t|," if sign != separator and len(header) == 1 and sign in header[0]), None)
    return "" if other is None else f" (is {other!r} the delimiter? then give delimiter={other!r})"


def _pyarrow_csv() -> Any:
    try:
        from pyarrow import csv
    except ModuleNotFoundError:
        return None
    return csv


# --- our own scanner --------------------------------------------------------------------------------------------------


def _scanned(scanner: Scanner, header: Sequence[str], names: Sequence[str], rules: _Rules) -> Read:
    columns = coded_columns(scanner, len(header), [header.index(name) for name in names])
    cells: dict[str, Cells] = {}
    sources: dict[str, Source] = {}
    for name, (codes, distinct) in zip(names, columns, strict=True):
        codes, texts = _unmarked(codes, distinct, rules.markers)
        _typed_into(cells, sources, name, codes, texts, rules)
    return Read(cells, sources)


def _unmarked(
    codes: NDArray[np.intp], distinct: Sequence[str], markers: frozenset[str]
) -> tuple[NDArray[np.intp], list[str]]:
    """Return codes and texts without the markers of missing cells; a quoted text (NUL before it) is none."""
    places = np.full(len(distinct) + 1, -1, dtype=np.intp)
    texts: dict[str, int] = {}
    for code, text in enumerate(distinct):
        if text not in markers:
            plain_text = text[1:] if text.startswith("\0") else text
            places[code] = texts.setdefault(plain_text, len(texts))
    return places[codes], list(texts)


def _typed_into(
    cells: dict[str, Cells],
    sources: dict[str, Source],
    name: str,
    codes: NDArray[Any],
    texts: Sequence[str],
    rules: _Rules,
) -> None:
    wish = rules.wanted.kinds.get(name)
    if rules.decimal == "," and wish not in ("discrete", "text"):
        texts = _with_points(name, codes, texts)
    if "" in texts and wish not in ("discrete", "text"):
        # Programs that quote every cell write a missing number as "".
        others = [text for text in texts if text]
        if others and all(NUMBER.fullmatch(text) for text in others):
            known = {text: code for code, text in enumerate(others)}
            places = np.array([known.get(text, -1) for text in texts] + [-1], dtype=np.intp)
            codes, texts = places[codes], others
    cells[name], source = typed(name, codes, texts, wish, rules.remedy)
    if source is not None:
        sources[name] = source


def _with_points(name: str, codes: NDArray[Any], texts: Sequence[str]) -> Sequence[str]:
    """Return numbers with a decimal comma as ones with a point; other texts as they are."""
    pointed = next((code for code, text in enumerate(texts) if "." in text and NUMBER.fullmatch(text)), None)
    if pointed is not None:
        raise TableError(
            f"column {name!r}, row {int(np.argmax(codes == pointed))}: {texts[pointed]!r} has a point, which may separate thousands "
            f"where decimal=','; write numbers as 1234,5, or read the column as text with discrete=[{name!r}]"
        )
    return [point_for_comma(text) for text in texts] if all(map(_COMMA.fullmatch, filter(None, texts))) else texts


def point_for_comma(text: str) -> str:
    """Return a number with a decimal comma as one with a point.

    Examples
    --------
    >>> point_for_comma("-1,5")
    '-1.5'
    """
    return text.replace(",", ".")


# --- pyarrow ----------------------------------------------------------------------------------------------------------


def _parsed(
    csv: Any,
    scanner: Scanner,
    header: Sequence[str],
    names: Sequence[str],
    rules: _Rules,
    sample: Sequence[Sequence[str]],
) -> Read:
    import pyarrow

    text = pyarrow.dictionary(pyarrow.int32(), pyarrow.string())
    types = dict.fromkeys(names, text)
    for name in names:
        place = header.index(name)
        number = rules.decimal == "." and rules.wanted.kinds.get(name) not in ("discrete", "text")
        if number and _all_numbers((row[place] for row in sample), rules.markers):
            del types[name]  # pyarrow's own inference is faster than a declared type, and right for numbers
    table = _converted(csv, pyarrow, scanner, header, names, types, rules.markers)
    cells: dict[str, Cells] = {}
    sources: dict[str, Source] = {}
    for name, column in zip(table.column_names, table.columns, strict=True):
        if not pyarrow.types.is_integer(column.type) and not pyarrow.types.is_floating(column.type):
            coded = (
                column if pyarrow.types.is_dictionary(column.type) else column.cast(text.value_type).dictionary_encode()
            )
            codes, texts = arrow_codes(coded)
            _typed_into(cells, sources, name, codes, texts, rules)
        else:
            cells[name] = found = cells_of(name, column)
            if found.integer and _beyond_floats(column):
                sources[name] = Source("arrow", column)
    return Read(cells, sources)


def _beyond_floats(column: Any) -> bool:
    import pyarrow.compute as compute

    ends = compute.min_max(column).as_py()
    return any(end is not None and abs(end) >= EXACT_INTEGERS for end in ends.values())


def _all_numbers(texts: Iterable[str], markers: frozenset[str]) -> bool:
    """Tell whether a column's first cells are numbers: a guess that the whole column has to confirm."""
    observed = {text for text in texts if text not in markers}
    return bool(observed) and all(NUMBER.fullmatch(text) for text in observed)


def _converted(
    csv: Any,
    pyarrow: Any,
    scanner: Scanner,
    header: Sequence[str],
    names: Sequence[str],
    types: dict[str, Any],
    markers: frozenset[str],
) -> Any:
    """Read with pyarrow; a column that does not fit the type of its first cells is read again with a wider one."""
    newlines = False
    confirmed: dict[str, Any] = {}
    while True:
        options = csv.ConvertOptions(
            column_types=types,
            include_columns=list(names),
            null_values=sorted(markers),
            true_values=[],
            false_values=[],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        )
        parse = csv.ParseOptions(delimiter=scanner.delimiter, newlines_in_values=newlines)
        try:
            with pyarrow.BufferReader(scanner.buffer(pyarrow)) as stream:
                table = csv.read_csv(stream, parse_options=parse, convert_options=options)
        except pyarrow.ArrowInvalid as error:
            if _widened(pyarrow, str(error), header, types):
                continue
            scanner.validate(None)
            if newlines or not scanner.quotes:
                raise TableError(f"pyarrow can't read it: {error}") from None
            newlines = True
            continue
        if scanner.quotes and not newlines and not scanner.quotes_are_plain(len(table)):
            # Some cell holds a line end, or a quote is where it should not be: the strict scanner tells which.
            scanner.validate(None)
            newlines = True
            continue
        integers = [field.name for field in table.schema if pyarrow.types.is_integer(field.type)]
        if integers and scanner.holds_hexadecimal():
            # As an integer pyarrow would take 0x1F for 31; as a float it refuses it.
            confirmed = {name: table[name] for name in integers}
            types.update(dict.fromkeys(integers, pyarrow.float64()))
            continue
        columns = [confirmed[n] if n in confirmed and types[n] == pyarrow.float64() else table[n] for n in names]
        return pyarrow.table(columns, names=list(names))


def _widened(pyarrow: Any, message: str, header: Sequence[str], types: dict[str, Any]) -> bool:
    """Give the column that a conversion failed at the next wider type; tell whether there was one."""
    found = re.match(r"In CSV column #(\d+): (?:Row #\d+: )?CSV conversion error to (\w+)", message)
    text = pyarrow.dictionary(pyarrow.int32(), pyarrow.string())
    number = -1 if found is None else int(found.group(1))
    if found is None or number >= len(header) or found.group(2) in ("string", "dictionary"):
        return False
    name = header[number]
    wider = pyarrow.float64() if name not in types and found.group(2).startswith("int") else text
    if types.get(name) == text:
        return False
    types[name] = wider
    return True


# --- writing ----------------------------------------------------------------------------------------------------------


def write(
    table: Table,
    file: IO[bytes],
    suffix: str = ".csv",
    *,
    delimiter: str | None = None,
    missing: str = "",
    encoding: str = "utf-8",
) -> None:
    """Write a delimited file; text that would read as a missing cell is put in quotes."""
    separator = checked_delimiter(delimiter, suffix)
    if any(sign in missing for sign in f'{separator}"\r\n'):
        raise TableError(f"the marker for missing cells, {missing!r}, must not hold delimiters, quotes or line ends")
    if len(table.names) == 1 and not missing:
        missing = "NA"  # a line without anything would be no row at all
    quoted = {*MISSING, missing}
    try:
        header = separator.join(quoted_cell(name, separator, quoted) for name in table.names)
        file.write(f"{header}\n".encode(encoding))
        for start in range(0, len(table), _CHUNK):
            part = table[start : start + _CHUNK]
            columns = [_texts(part, name, separator, missing, quoted) for name in table.names]
            lines = "\n".join(map(separator.join, zip(*columns, strict=True)))
            file.write(f"{lines}\n".encode(encoding))
    except UnicodeEncodeError as error:
        raise TableError(f"{error.object[error.start : error.end]!r} can't be written in {encoding}") from None
    except LookupError:
        raise TableError(f"there is no encoding {encoding!r}") from None


def quoted_cell(text: str, separator: str, quoted: set[str]) -> str:
    """Return a cell as it is written, in quotes if it needs them; so do the texts in `quoted`, which mark missing cells.

    Examples
    --------
    >>> quoted_cell("a", ",", {"NA"}), quoted_cell("a,b", ",", {"NA"}), quoted_cell("NA", ",", {"NA"})
    ('a', '"a,b"', '"NA"')
    """
    if text in quoted or text != text.strip() or any(sign in text for sign in (separator, '"', "\n", "\r")):
        return '"' + text.replace('"', '""') + '"'
    if "\0" in text:
        raise FormatError(f"the text {text!r} holds a NUL character, which no delimited file can")
    return text


def _texts(table: Table, name: str, separator: str, missing: str, quoted: set[str]) -> list[str]:
    """Return one column as the texts of its cells."""
    cells = _cells(table, name)
    form, values, holes = plain(cells)
    if form in {"text", "category", "bool", "object"} or cells.states is not None:
        for state in cells.states or ():
            if not isinstance(state, str | int | float):
                raise FormatError(f"column {name!r}: states such as {shorten([state])} can't be written as text")
        texts = [
            quoted_cell(state, separator, quoted) if isinstance(state, str) else repr(state)
            for state in cells.states or ()
        ]
        lookup = np.array([*texts, missing], dtype=object)
        return list(lookup[cells.array])
    texts = [repr(value) for value in values.tolist()]
    if cells.integer and form == "float":
        texts = [missing if value is None else repr(value) for value in table.raw(name).tolist()]
    for row in np.flatnonzero(holes).tolist():
        texts[row] = missing
    return texts


def _cells(table: Table, name: str) -> Cells:
    return table.cells(name)
