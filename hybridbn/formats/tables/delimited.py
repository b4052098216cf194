"""CSV and TSV files, read by pyarrow where it is installed and by a scanner of our own where not, with equal results.

The scanner also finds the line to blame when something is wrong, and types the first lines for pyarrow.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hybridbn.errors import FormatError, TableError
from hybridbn.formats.tables.base import Field, FileFormat, Fills, Kinds, Spell, TableSource
from hybridbn.formats.tables.delimited_scanner import Scanner, encode_columns, read_text_bytes
from hybridbn.formats.tables.text_blocks import (
    Change,
    TextBlock,
    TextSource,
    TextWriter,
    format_texts,
    make_delimited_splitter,
    report_damaged_gzip,
    shift_lines_in_errors,
)
from hybridbn.formats.tables.typed_columns import NUMBER, ReadColumns, WantedColumns, name_lines_for_rows, type_texts
from hybridbn.tables.adapters.arrow import decode_dictionary
from hybridbn.tables.cells import EXACT_INTEGERS, Cells
from hybridbn.tables.columns import ColumnSource, read_cells
from hybridbn.time_patterns import PatternFinder

__all__ = ["MISSING", "Delimited", "replace_comma", "suggest_delimiter"]

MISSING = ("", "NA", "N/A", "n/a", "NaN", "nan", "NULL", "null", "#N/A")
"""The cells that count as missing unless the caller says otherwise; quoted, they are ordinary text."""

_SAMPLE = 1 << 16
_COMMA = re.compile(r"\s*[-+]?(?:[0-9]+(?:,[0-9]*)?|,[0-9]+)(?:[eE][-+]?[0-9]+)?\s*", re.ASCII)
_HEAD = 1 << 16
_MOST_HEAD = 1 << 28


class Delimited(FileFormat):
    """Cells between commas or tabs."""

    title = "CSV"
    scan_form = "csv"
    position = 1
    suffixes: ClassVar[tuple[str, ...]] = (".csv", ".tsv", ".tab")
    names: ClassVar[tuple[str, ...]] = ("csv", "tsv")
    part_form = "delimited"
    packable = True
    text = True
    exact = True
    options: ClassVar[tuple[str, ...]] = ("delimiter", "missing", "decimal")

    def read(
        self,
        file: Path | IO[bytes],
        wanted: WantedColumns,
        suffix: str,
        *,
        delimiter: str | None = None,
        missing: str | Iterable[str] = MISSING,
        encoding: str = "utf-8",
        decimal: str = ".",
        engine: str | None = None,
    ) -> ReadColumns:
        """Read a file. `engine` None takes pyarrow if it is there; "scanner" never does."""
        return _read(file, wanted, _check_delimiter(delimiter, suffix), missing, encoding, decimal, engine)

    def source(  # type: ignore[override]
        self,
        path: Path,
        shown: str,
        suffix: str,
        *,
        delimiter: str | None = None,
        missing: Iterable[str] = MISSING,
        decimal: str = ".",
    ) -> DelimitedSource:
        """Open a file that is read in blocks."""
        return DelimitedSource(path, shown, suffix, delimiter, missing, decimal)

    def writer(  # type: ignore[override]
        self,
        fields: Sequence[Field],
        suffix: str,
        *,
        origin: TableSource | None = None,
        counter: str | None = None,
        delimiter: str | None = None,
        missing: str = "",
        encoding: str = "utf-8",
    ) -> DelimitedWriter:
        """Return what writes a file with these columns; text that would read as a missing cell is put in quotes."""
        return DelimitedWriter(fields, counter, encoding, _check_delimiter(delimiter, suffix), missing, origin)


# --- reading ----------------------------------------------------------------------------------------------------------


def _read(
    file: Path | IO[bytes],
    wanted: WantedColumns,
    separator: str,
    missing: str | Iterable[str],
    encoding: str = "utf-8",
    decimal: str = ".",
    engine: str | None = None,
) -> ReadColumns:
    if decimal not in (".", ","):
        raise TableError(f"decimal must be '.' or ',', not {decimal!r}")
    markers = frozenset([missing] if isinstance(missing, str) else missing)
    data = read_text_bytes(file, encoding)
    scanner = Scanner(data, separator)
    header, sample, whole = scanner.read_beginning(_SAMPLE)
    try:
        names = wanted.names(header)
    except TableError as error:
        raise TableError(f"{error}{suggest_delimiter(header, separator)}") from None
    remedy = "if it marks a missing cell, add it to missing=[...]; else mend the cell"
    rules = _Rules(wanted, markers, remedy, decimal)
    arrow = _pyarrow_csv() if engine is None and not (whole and not sample) else None
    try:
        if arrow is None:
            return _read_with_scanner(scanner, header, names, rules)
        return _read_with_pyarrow(arrow, scanner, header, names, rules, sample)
    except TableError as error:
        # Rows are counted over records; only the way to an error looks for their lines.
        raise name_lines_for_rows(error, scanner.line_of) from None


class _Rules(NamedTuple):
    """How cells are read: as what, which are missing, what to say of bad ones, and the sign before decimals."""

    wanted: WantedColumns
    markers: frozenset[str]
    remedy: str
    decimal: str


def _check_delimiter(delimiter: str | None, suffix: str) -> str:
    r"""Return the delimiter of a file, given or by its suffix; refuse what can't be one.

    Examples
    --------
    >>> _check_delimiter(None, ".tsv")
    '\t'
    """
    separator = delimiter if delimiter is not None else "\t" if suffix in (".tsv", ".tab") else ","
    if len(separator) != 1 or not separator.isascii() or separator in '"\r\n\0':
        raise TableError(f"a delimiter must be one ASCII character other than a quote or line end, not {separator!r}")
    return separator


def suggest_delimiter(header: Sequence[str], separator: str) -> str:
    """Return what to ask where the only column's name holds another delimiter; nothing otherwise.

    Examples
    --------
    >>> suggest_delimiter(["a;b"], ",")
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


def _read_with_scanner(scanner: Scanner, header: Sequence[str], names: Sequence[str], rules: _Rules) -> ReadColumns:
    columns = encode_columns(scanner, len(header), [header.index(name) for name in names])
    cells: dict[str, Cells] = {}
    sources: dict[str, ColumnSource] = {}
    for name, (codes, distinct) in zip(names, columns, strict=True):
        codes, texts = _drop_markers(codes, distinct, rules.markers)
        _add_typed_column(cells, sources, name, codes, texts, rules)
    return ReadColumns(cells, sources)


def _drop_markers(
    codes: NDArray[np.intp], distinct: Sequence[str], markers: frozenset[str]
) -> tuple[NDArray[np.intp], list[str]]:
    """Return codes and texts without the markers of missing cells; a quoted text (NUL before it) is none."""
    new_codes = np.full(len(distinct) + 1, -1, dtype=np.intp)
    texts: dict[str, int] = {}
    for code, text in enumerate(distinct):
        if text not in markers:
            plain_text = text[1:] if text.startswith("\0") else text
            new_codes[code] = texts.setdefault(plain_text, len(texts))
    return new_codes[codes], list(texts)


def _add_typed_column(
    cells: dict[str, Cells],
    sources: dict[str, ColumnSource],
    name: str,
    codes: NDArray[Any],
    texts: Sequence[str],
    rules: _Rules,
) -> None:
    declared_kind = rules.wanted.kinds.get(name)
    if rules.decimal == "," and declared_kind not in ("discrete", "text"):
        texts = _replace_commas(name, codes, texts)
    if "" in texts and declared_kind not in ("discrete", "text"):
        # Programs that quote every cell write a missing number as "".
        others = [text for text in texts if text]
        if others and (all(NUMBER.fullmatch(text) for text in others) or PatternFinder().add(others)):
            known = {text: code for code, text in enumerate(others)}
            new_codes = np.array([known.get(text, -1) for text in texts] + [-1], dtype=np.intp)
            codes, texts = new_codes[codes], others
    cells[name], source = type_texts(name, codes, texts, declared_kind, rules.remedy)
    if source is not None:
        sources[name] = source


def _replace_commas(name: str, codes: NDArray[Any], texts: Sequence[str]) -> Sequence[str]:
    """Return numbers with a decimal comma as ones with a point; other texts as they are."""
    pointed = next((code for code, text in enumerate(texts) if "." in text and NUMBER.fullmatch(text)), None)
    if pointed is not None:
        raise TableError(
            f"column {name!r}, row {int(np.argmax(codes == pointed))}: {texts[pointed]!r} has a point, which may"
            " separate thousands where decimal=','; write numbers as 1234,5, or read the column as text with"
            f" discrete=[{name!r}]"
        )
    return [replace_comma(text) for text in texts] if all(map(_COMMA.fullmatch, filter(None, texts))) else texts


def replace_comma(text: str) -> str:
    """Return a number with a decimal comma as one with a point.

    Examples
    --------
    >>> replace_comma("-1,5")
    '-1.5'
    """
    return text.replace(",", ".")


# --- pyarrow ----------------------------------------------------------------------------------------------------------


def _read_with_pyarrow(
    csv: Any,
    scanner: Scanner,
    header: Sequence[str],
    names: Sequence[str],
    rules: _Rules,
    sample: Sequence[Sequence[str]],
) -> ReadColumns:
    import pyarrow

    text = pyarrow.dictionary(pyarrow.int32(), pyarrow.string())
    types = dict.fromkeys(names, text)
    for name in names:
        index = header.index(name)
        number = rules.decimal == "." and rules.wanted.kinds.get(name) not in ("discrete", "text")
        if number and _are_numbers((row[index] for row in sample), rules.markers):
            del types[name]  # pyarrow's own inference is faster than a declared type, and right for numbers
    table = _convert(csv, pyarrow, scanner, header, names, types, rules.markers)
    cells: dict[str, Cells] = {}
    sources: dict[str, ColumnSource] = {}
    for name, column in zip(table.column_names, table.columns, strict=True):
        if not pyarrow.types.is_integer(column.type) and not pyarrow.types.is_floating(column.type):
            coded = (
                column if pyarrow.types.is_dictionary(column.type) else column.cast(text.value_type).dictionary_encode()
            )
            codes, texts = decode_dictionary(coded)
            _add_typed_column(cells, sources, name, codes, texts, rules)
        else:
            cells[name] = typed = read_cells(name, column)
            if typed.integer and _exceeds_floats(column):
                sources[name] = ColumnSource("arrow", column)
    return ReadColumns(cells, sources)


def _exceeds_floats(column: Any) -> bool:
    import pyarrow.compute as compute

    ends = compute.min_max(column).as_py()
    return any(end is not None and abs(end) >= EXACT_INTEGERS for end in ends.values())


def _are_numbers(texts: Iterable[str], markers: frozenset[str]) -> bool:
    """Tell whether a column's first cells are numbers: a guess that the whole column has to confirm."""
    observed = {text for text in texts if text not in markers}
    return bool(observed) and all(NUMBER.fullmatch(text) for text in observed)


def _convert(
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
            if _widen(pyarrow, str(error), header, types):
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


def _widen(pyarrow: Any, message: str, header: Sequence[str], types: dict[str, Any]) -> bool:
    """Give the column that a conversion failed at the next wider type; tell whether there was one."""
    match = re.match(r"In CSV column #(\d+): (?:Row #\d+: )?CSV conversion error to (\w+)", message)
    text = pyarrow.dictionary(pyarrow.int32(), pyarrow.string())
    number = -1 if match is None else int(match.group(1))
    if match is None or number >= len(header) or match.group(2) in ("string", "dictionary"):
        return False
    name = header[number]
    wider = pyarrow.float64() if name not in types and match.group(2).startswith("int") else text
    if types.get(name) == text:
        return False
    types[name] = wider
    return True


# --- blocks -----------------------------------------------------------------------------------------------------------


class DelimitedSource(TextSource):
    """A CSV or TSV file that is read in blocks."""

    textual = True
    spelled = True

    def __init__(
        self, path: Path, shown: str, suffix: str, delimiter: str | None, missing: Iterable[str], decimal: str
    ) -> None:
        self.delimiter: str = _check_delimiter(delimiter, suffix)
        super().__init__(path, shown, make_delimited_splitter(self.delimiter), DelimitedBlock)
        self.decimal = decimal
        self.missing: tuple[str, ...] = tuple(missing)
        with report_damaged_gzip(), self._open() as stream:
            self.header: bytes = self._read_header(stream)
        self.header_lines: int = self.header.count(b"\n") or self.header.count(b"\r")
        scanner = Scanner(read_text_bytes(io.BytesIO(self.header), "utf-8"), self.delimiter)
        names = scanner.read_beginning(_HEAD)[0]
        hint = suggest_delimiter(names, self.delimiter)
        try:
            self.names: list[str] = WantedColumns().names(names)
        except TableError as error:
            raise TableError(f"{error}{hint}") from None
        if delimiter is None and hint:
            raise TableError(f"the only column is called {names[0]!r}{hint}")

    def _read_header(self, stream: IO[bytes]) -> bytes:
        head, size = b"", _HEAD
        while True:
            more = stream.read(size)
            head += more
            starts, ends = self.split(head, not more)
            if len(starts):
                return head[: int(ends[0])]
            if not more or len(head) > _MOST_HEAD:
                # an empty file, or a quote that is never closed: the scanner says which
                scanner = Scanner(read_text_bytes(io.BytesIO(head), "utf-8"), self.delimiter)
                next(scanner.split_records(scanner.text()), None)
                raise TableError("the file is empty; a header with the columns' names is needed")
            size = len(head)

    def header_with_line_end(self) -> bytes:
        """Return the header with a line end."""
        return self.header if self.header[-1:] in (b"\n", b"\r") else self.header + b"\n"


class DelimitedBlock(TextBlock):
    """Some records of a CSV or TSV file."""

    source: DelimitedSource

    def cells(self, names: Sequence[str], kinds: Kinds) -> dict[str, Cells]:
        """Return columns as typed cells."""
        source = self.source
        wanted = WantedColumns({n: kind for n, kind in kinds.items() if n in names}, tuple(names))
        data = io.BytesIO(source.header_with_line_end() + self.piece.data)
        with shift_lines_in_errors(source.header_lines, self.piece.line - 1 - source.header_lines):
            return _read(data, wanted, source.delimiter, source.missing, decimal=source.decimal).cells

    def values(self, names: Sequence[str]) -> dict[str, list[Any]]:
        """Return columns as their texts; markers of missing cells without quotes are None."""
        columns = [self.source.names.index(name) for name in names]
        markers = frozenset(self.source.missing)
        scanner = Scanner(b"x", self.source.delimiter)
        text = self.piece.data.decode("utf-8-sig" if not self.start else "utf-8")
        rows = [record.cells for record in scanner.split_records(text)]
        return {
            name: [_strip_mark(row[column], markers) for row in rows]
            for name, column in zip(names, columns, strict=True)
        }

    def find_quoted_spans(self, row: int) -> list[tuple[int, int]]:
        """Return where the cells of one record start and end, in a block that has quotes."""
        start, end = self.piece.starts[row], self.piece.ends[row]
        spans, begin = [], 0
        cell = Scanner(b"x", self.source.delimiter).cell
        # each byte one character, so that places are those of bytes
        letters = self.piece.data[start:end].decode("latin-1")
        while True:
            match = cell.match(letters, begin)
            if match is None:
                raise FormatError(f"row {self.start + row}: the record can't be taken apart")
            spans.append((int(start) + begin, int(start) + match.start(3)))
            begin = match.end()
            if match.group(3) != self.source.delimiter:
                return spans

    def find_plain_spans(self) -> tuple[NDArray[Any], NDArray[Any]] | None:
        """Return the starts and ends of all cells, (rows, columns); None where a quoted cell may hold a delimiter."""
        data, starts, ends = self.piece.data, self.piece.starts, self.piece.ends
        signs, width = np.frombuffer(data, dtype=np.uint8), len(self.source.names)
        separators: NDArray[Any] = np.flatnonzero(signs == ord(self.source.delimiter))
        if len(separators) != self.rows * (width - 1):
            return None
        separators = separators.reshape(self.rows, width - 1)
        if not ((separators >= starts[:, None]) & (separators < ends[:, None])).all():
            return None
        stops = ends.copy()
        for _ in range(2):  # \r\n takes two
            last = signs[np.maximum(stops - 1, 0)]
            stops -= ((last == 10) | (last == 13)) & (stops > starts)
        return np.column_stack([starts, separators + 1]), np.column_stack([separators, stops])


def _strip_mark(text: str, markers: frozenset[str]) -> str | None:
    return text[1:] if text.startswith("\0") else None if text in markers else text


# --- writing ----------------------------------------------------------------------------------------------------------


class DelimitedWriter(TextWriter):
    """Writes delimited files."""

    def __init__(
        self,
        fields: Sequence[Field],
        counter: str | None,
        encoding: str,
        delimiter: str,
        missing: str,
        origin: TableSource | None,
    ) -> None:
        super().__init__(fields, counter, encoding)
        if any(sign in missing for sign in f'{delimiter}"\r\n'):
            raise TableError(
                f"the marker for missing cells, {missing!r}, must not hold delimiters, quotes or line ends"
            )
        self.delimiter = delimiter
        # a line without anything would be no row at all
        self.missing: str = missing if missing or len(self.fields) > 1 else "NA"
        same = isinstance(origin, DelimitedSource) and origin.delimiter == delimiter
        self.origin: DelimitedSource | None = origin if isinstance(origin, DelimitedSource) and same else None
        self.splices: bool = self.origin is not None
        self._quoted = {*MISSING, self.missing, *(self.origin.missing if self.origin is not None else ())}

    def _cell(self, text: str) -> str:
        return _quote_cell(text, self.delimiter, self._quoted)

    def header(self) -> bytes:
        """Return the columns' names."""
        if self.origin is None:
            names = self.delimiter.join(self._cell(field.name) for field in self.fields)
            return f"{names}\n".encode()
        header = self.origin.header_with_line_end()
        if self.counter is None:
            return header
        mark = b"\xef\xbb\xbf" if header.startswith(b"\xef\xbb\xbf") else b""
        rest = header.removeprefix(mark).lstrip(b"\r\n")
        return mark + f"{self._cell(self.counter)}{self.delimiter}".encode() + rest

    def lines(self, columns: Mapping[str, list[Any]]) -> Iterator[str]:
        """Give a line for each row."""
        texts = [format_texts(values, self._cell, self.missing) for values in columns.values()]
        return map(self.delimiter.join, zip(*texts, strict=True))

    def splice(self, block: DelimitedBlock, fills: Fills, spell: Spell, draw: int = 0) -> bytes:
        """Return the block's bytes with the holes filled."""
        names = block.source.names
        written: dict[tuple[str, Any], bytes] = {}
        changes: list[Change] = []
        plain = block.find_plain_spans()
        quoted: dict[int, list[tuple[int, int]]] = {}
        for name, (rows, values) in fills.items():
            column = names.index(name)
            if plain is not None:
                starts, ends = plain[0][rows, column].tolist(), plain[1][rows, column].tolist()
            else:
                spans = [quoted.setdefault(row, block.find_quoted_spans(row))[column] for row in rows.tolist()]
                starts, ends = [span[0] for span in spans], [span[1] for span in spans]
            filled = []
            for value in values:
                text = written.get((name, value)) if isinstance(value, str | bool) else None
                if text is None:
                    text = self._cell(spell(name, value)).encode()
                    if isinstance(value, str | bool):
                        written[name, value] = text
                filled.append(text)
            changes += zip(starts, ends, filled, strict=True)
        prefix = "" if self.counter is None else f"{draw + 1}{self.delimiter}"
        return self.end_last_line(block.replace_bytes(changes, prefix.encode()))


def _quote_cell(text: str, separator: str, quoted: set[str]) -> str:
    """Return a cell as it is written, in quotes if it needs them; so do the texts in `quoted`, which mark missing
    cells.

    Examples
    --------
    >>> _quote_cell("a", ",", {"NA"}), _quote_cell("a,b", ",", {"NA"}), _quote_cell("NA", ",", {"NA"})
    ('a', '"a,b"', '"NA"')
    """
    if text in quoted or text != text.strip() or any(sign in text for sign in (separator, '"', "\n", "\r")):
        return '"' + text.replace('"', '""') + '"'
    if "\0" in text:
        raise FormatError(f"the text {text!r} holds a NUL character, which no delimited file can")
    return text
