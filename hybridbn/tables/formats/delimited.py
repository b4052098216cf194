"""CSV and TSV files, read by pyarrow where it is installed and by a scanner of our own where not, with equal results.

The scanner also finds the line to blame when something is wrong, and types the first lines for pyarrow.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType
from typing import IO, Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hybridbn.errors import FormatError, TableError, warn_user
from hybridbn.registry import LazyModule
from hybridbn.tables import Table
from hybridbn.tables.cells import EXACT_INTEGERS
from hybridbn.tables.columns import Column, ColumnSource, read_cells
from hybridbn.tables.formats.base import (
    ROWS_OF_BATCH,
    Field,
    FileFormat,
    Fills,
    Kinds,
    OtherKind,
    Spell,
    TableSource,
    name_file_in_errors,
)
from hybridbn.tables.formats.delimited_scanner import MARKS, Scanner, check_text, encode_columns
from hybridbn.tables.formats.dialects import PLAIN, SNIFFED, Dialect, default_delimiter, sniff_dialect
from hybridbn.tables.formats.files import StoredFile, encode_text, recode, report_damaged_gzip
from hybridbn.tables.formats.text_blocks import (
    Change,
    TextBlock,
    TextSource,
    TextWriter,
    format_texts,
    make_delimited_splitter,
    shift_lines_in_errors,
)
from hybridbn.tables.formats.typed_columns import (
    DeclaredKind,
    TextKind,
    WantedColumns,
    guess_type,
    holds_code,
    name_lines_in_errors,
    show_numbers,
    text_type,
    type_column,
)
from hybridbn.tables.frames.arrow import decode_dictionary, number_rows
from hybridbn.units import Unit

pyarrow: LazyModule = LazyModule("pyarrow")
compute: LazyModule = LazyModule("pyarrow.compute")
csv: LazyModule = LazyModule("pyarrow.csv")

MISSING = ("", "NA", "N/A", "n/a", "NaN", "nan", "NULL", "null", "#N/A")
"""The cells that count as missing unless the caller says otherwise; quoted, they are ordinary text."""

_BLOCK = 1 << 22
"""Blocks of records have about so many bytes at most."""
_SAMPLE = 1 << 16
_HEAD = 1 << 16
_MOST_HEAD = 1 << 28
_MANY = 500
"""Where so many first texts of a column are all different, all of them are taken to be."""


class Delimited(FileFormat):
    """Cells between commas or tabs."""

    title = "CSV"
    position = 1
    suffixes: ClassVar[tuple[str, ...]] = (".csv", ".tsv", ".tab")
    packable = True
    text = True
    exact = True
    options: ClassVar[tuple[str, ...]] = ("delimiter", "missing", "decimal", "thousands", "dates", "states")

    def read(
        self,
        file: Path | IO[bytes],
        wanted: WantedColumns,
        suffix: str,
        *,
        missing: str | Iterable[str] = MISSING,
        engine: str | None = None,
        marks: Mapping[str, Iterable[Any]] | None = None,
        **given: str | None,
    ) -> Table:
        """Read a file. `engine` None takes pyarrow if it is there; "scanner" never does. `marks` are markers of some
        columns, of which those that are numbers may be left.

        Of `given`, those of `sniff_dialect`, what is not told is found from the first bytes.
        """
        # not as a memory map: where another process cuts the file short, the system would end this one
        data: Any = file.read_bytes() if isinstance(file, Path) else file.read()
        markers = frozenset([missing] if isinstance(missing, str) else missing)
        states = [name for name, kind in wanted.kinds.items() if kind in ("discrete", "text")]
        dialect = sniff_dialect(data[:SNIFFED], suffix, markers, given, states)
        tell_reading(dialect.found)
        with recode(io.BytesIO(data), dialect.encoding) as stream:
            data = data if isinstance(stream, io.BytesIO) else stream.read()
        return _read_text(check_text(data), wanted, markers, dialect, engine, marks or {})

    def source(
        self,
        file: Path | StoredFile,
        shown: str,
        suffix: str,
        *,
        missing: Iterable[str] = MISSING,
        states: Collection[str] = (),
        **given: str | None,
    ) -> DelimitedSource:
        """Open a file that is read in blocks; columns of `states` are no numbers."""
        return DelimitedSource(file, shown, suffix, missing, given, states)

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
        separator = Dialect(default_delimiter(suffix) if delimiter is None else delimiter).delimiter
        return DelimitedWriter(fields, counter, encoding, separator, missing, origin)


# --- reading ----------------------------------------------------------------------------------------------------------


class _Rules(NamedTuple):
    """How cells are read: as what, which are missing, and how the file is written."""

    kinds: Kinds
    markers: frozenset[str]
    dialect: Dialect
    marks: Mapping[str, Iterable[Any]]


def _read_text(
    data: Any,
    wanted: WantedColumns,
    markers: frozenset[str],
    dialect: Dialect,
    engine: str | None = None,
    marks: Mapping[str, Iterable[Any]] = MappingProxyType({}),
) -> Table:
    """Read a file in UTF-8."""
    scanner = Scanner(data, dialect.delimiter)
    header, sample, whole = scanner.read_beginning(_SAMPLE)
    if "" in header:
        header = _name_empty_columns(header, sample, markers)
        scanner = Scanner(_write_header(data, header, dialect.delimiter), dialect.delimiter)
    names = wanted.names(header)
    own = {name: markers | {*map(str, marks.get(name, ()))} for name in names}
    first = {name: {row[header.index(name)] for row in sample} - own[name] for name in names}
    rules = _Rules(add_kinds(wanted.kinds, first, dialect), markers, dialect, marks)
    by_scanner = engine is not None or (whole and not sample) or find_spec("pyarrow") is None
    # Rows are counted over records; only the way to an error looks for their lines.
    with name_lines_in_errors(scanner.line_of):
        if by_scanner:
            return _read_with_scanner(scanner, header, names, rules)
        return _read_with_pyarrow(scanner, header, names, rules, first)


def _name_empty_columns(header: Sequence[str], rows: Sequence[Sequence[str]], markers: Collection[str]) -> list[str]:
    """Return the columns' names, with new ones where neither a name nor a value is, as behind the last column."""
    numbered = [(name, [row[place] for row in rows], f"unnamed_{place}") for place, name in enumerate(header)]
    return [new if not name and {*markers} >= {*cells} and new not in header else name for name, cells, new in numbered]


def _write_header(data: bytes, names: Sequence[str], delimiter: str) -> bytes:
    """Return the bytes of a file with other names of its columns."""
    (start, *_), (end, *_) = make_delimited_splitter(delimiter)(data, True)
    header = delimiter.join(_quote_cell(name, delimiter, set()) for name in names)
    return data[:start] + f"{header}\n".encode() + data[end:]


def add_kinds(kinds: Kinds, texts: Mapping[str, Collection[str]], dialect: Dialect) -> dict[str, DeclaredKind]:
    """Return the declared kinds of columns, and those of which the first texts show that they hold no codes."""
    shown = [name for name, held in texts.items() if name not in kinds and show_numbers(held, dialect.number)]
    return dict(kinds) | dict.fromkeys(shown, "numbers")


def check_reading(options: Mapping[str, Any], is_text: bool) -> None:
    """Refuse options of `hybridbn.scan` that are none of files of text, and those where there is no such file."""
    for name in options:
        if name not in ("encoding", *Delimited.options):
            raise TypeError(f"scan() got an unexpected keyword argument {name!r}")
        if not is_text:
            raise TableError(f"{name}= is for text files; leave it out")


def tell_reading(found: str) -> None:
    """Tell the user how a file is read, if that was found out and is not as usual."""
    if found:
        warn_user(f"read as: {found}")


# --- our own scanner --------------------------------------------------------------------------------------------------


def _read_with_scanner(scanner: Scanner, header: Sequence[str], names: Sequence[str], rules: _Rules) -> Table:
    columns = encode_columns(scanner, [header.index(name) for name in names])
    coded = {name: _drop_markers(*column, rules.markers) for name, column in zip(names, columns, strict=True)}
    return Table.from_columns([_type_texts(name, *column, rules) for name, column in coded.items()])


def _drop_markers(
    codes: NDArray[np.intp], distinct: Sequence[str], markers: frozenset[str]
) -> tuple[NDArray[np.intp], list[str]]:
    """Return codes and texts without the markers of missing cells; a quoted text (NUL before it) is none."""
    plain = [None if text in markers else text.removeprefix("\0") for text in distinct]
    known = {text: code for code, text in enumerate(dict.fromkeys(text for text in plain if text is not None))}
    new_codes = np.array([*(-1 if text is None else known[text] for text in plain), -1], dtype=np.intp)
    return new_codes[codes], list(known)


def _type_texts(name: str, codes: NDArray[Any], texts: Sequence[str], rules: _Rules) -> Column:
    codes, texts = _drop_markers(codes, texts, frozenset(map(str, rules.marks.get(name, ()))))
    return type_column(name, codes, texts, rules.kinds.get(name), rules.dialect)


# --- pyarrow ----------------------------------------------------------------------------------------------------------


def _read_with_pyarrow(
    scanner: Scanner,
    header: Sequence[str],
    names: Sequence[str],
    rules: _Rules,
    first: Mapping[str, Collection[str]],
) -> Table:
    types = dict.fromkeys(names, text_type())
    for name in names:
        number = rules.dialect.decimal == "." and rules.kinds.get(name) not in ("discrete", "text")
        if number and _are_numbers(first[name], rules.kinds.get(name)):
            del types[name]  # pyarrow's own inference is faster than a declared type, and right for numbers
    unsure = [name for name in names if name not in types and name not in rules.kinds]
    table = _convert(scanner, header, names, types, rules.markers)
    columns = dict(zip(table.column_names, table.columns, strict=True))
    columns |= _find_codes(scanner, header, unsure, table, rules.markers)
    return Table.from_columns([_type_arrow_column(name, column, rules) for name, column in columns.items()])


def _find_codes(
    scanner: Scanner, header: Sequence[str], names: Iterable[str], table: Any, markers: frozenset[str]
) -> Iterator[tuple[str, Any]]:
    """Give those columns as texts that were read as numbers and begin with 0 somewhere, as the shorter ones may."""
    for name in names:
        low, high = compute.min_max(table[name]).as_py().values() if _is_number(table[name].type) else (None, None)
        if low is not None and low >= 0 and len(str(low)) < len(str(high)):
            texts = _convert(scanner, header, [name], {name: text_type()}, markers)[name]
            if holds_code(decode_dictionary(texts)[1]):
                yield name, texts


def _is_number(kind: Any) -> bool:
    return bool(pyarrow.types.is_integer(kind) or pyarrow.types.is_floating(kind))


def _type_arrow_column(name: str, column: Any, rules: _Rules) -> Column:
    if not _is_number(column.type):
        coded = column if pyarrow.types.is_dictionary(column.type) else column.cast("string").dictionary_encode()
        return _type_texts(name, *decode_dictionary(coded), rules)
    typed = read_cells(name, column)
    ends = compute.min_max(column).as_py().values() if typed.integer else ()
    rounded = any(end is not None and abs(end) >= EXACT_INTEGERS for end in ends)
    return Column(name, typed, None, ColumnSource("arrow", column) if rounded else None)


def _are_numbers(texts: Collection[str], declared: DeclaredKind | None) -> bool:
    """Tell whether a column's first cells are numbers: a guess that the whole column has to confirm."""
    if declared == "numbers" or not texts:
        return bool(texts)
    return all(map(PLAIN.number.fullmatch, texts)) and (declared == "continuous" or not holds_code(texts))


def _convert(
    scanner: Scanner,
    header: Sequence[str],
    names: Sequence[str],
    types: dict[str, Any],
    markers: frozenset[str],
    block_size: int | None = None,
) -> Any:
    """Read with pyarrow; a column that does not fit the type of its first cells is read again with a wider one."""
    reading = csv.ReadOptions(block_size=block_size)
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
            with pyarrow.BufferReader(scanner.closed_bytes()) as stream:
                table = csv.read_csv(stream, reading, parse_options=parse, convert_options=options)
        except pyarrow.ArrowInvalid as error:
            if _widen(str(error), header, types):
                continue
            scanner.validate()
            if newlines or not scanner.quotes:
                raise TableError(f"pyarrow can't read it: {error}") from None
            newlines = True
            continue
        if scanner.quotes and not newlines and not scanner.quotes_are_plain(len(table)):
            # Some cell holds a line end, or a quote is where it should not be: the strict scanner tells which.
            scanner.validate()
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


def _widen(message: str, header: Sequence[str], types: dict[str, Any]) -> bool:
    """Give the column that a conversion failed at the next wider type; tell whether there was one."""
    match = re.match(r"In CSV column #(\d+): (?:Row #\d+: )?CSV conversion error to (\w+)", message)
    text = text_type()
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
    _width: int = 1
    """About so many bytes are in a record."""

    def __init__(
        self,
        file: Path | StoredFile,
        shown: str,
        suffix: str,
        missing: Iterable[str],
        given: Mapping[str, str | None],
        states: Collection[str] = (),
    ) -> None:
        stored = StoredFile.of(file)
        self.missing: tuple[str, ...] = (missing,) if isinstance(missing, str) else tuple(missing)
        with report_damaged_gzip(), replace(stored, encoding=None).open() as stream:
            head = stream.read(SNIFFED)
        dialect = sniff_dialect(head, suffix, self.missing, {"encoding": stored.encoding, **given}, states)
        self.dialect: Dialect = dialect
        self.delimiter: str = dialect.delimiter
        splitter = make_delimited_splitter(self.delimiter)
        super().__init__(replace(stored, encoding=dialect.encoding), shown, splitter, DelimitedBlock)
        with report_damaged_gzip(), self.file.open() as stream:
            self.header: bytes = self._read_header(stream)
        self.header_lines: int = self.header.count(b"\n") or self.header.count(b"\r")
        header = Scanner(check_text(self.header), self.delimiter).read_beginning(_HEAD)[0]
        named = _name_empty_columns(header, self._read_sample(), self.missing) if "" in header else header
        self.names: list[str] = WantedColumns().names(named)
        self.named_header: bytes = _write_header(self.header, self.names, self.delimiter)

    def _read_sample(self) -> list[list[str]]:
        """Return the first records."""
        with report_damaged_gzip(), self.file.open() as stream:
            head = stream.read(len(self.header) + _SAMPLE)
            size = len(head) - bool(stream.read(1))
        return Scanner(check_text(head), self.delimiter).read_beginning(size)[1]

    def types(self, kinds: Kinds) -> dict[str, Any]:
        """Return the Arrow types of the columns, as the first lines tell."""
        rows = self._read_sample()
        columns = list(zip(*rows, strict=True)) or [()] * len(self.names)
        texts = {name: self._observe(name, column) for name, column in zip(self.names, columns, strict=True)}
        types = {name: guess_type(texts[name], kinds.get(name), self.dialect) for name in self.names}
        self.untyped: list[str] = [name for name in self.names if not texts[name]]
        known = add_kinds(kinds, {name: set(held) for name, held in texts.items()}, self.dialect)
        self.numbers: list[str] = [name for name, kind in known.items() if kind == "numbers"]
        different = [name for name in self.names if len(set(texts[name])) == len(texts[name]) >= _MANY]
        self.doubtful: list[str] = [name for name in different if name not in kinds and types[name] == text_type()]
        return types

    def _observe(self, name: str, cells: Sequence[str]) -> list[str]:
        """Return the texts of cells of a column that are not missing."""
        markers = {*self.missing, *self.marks.get(name, ())}
        return [text for cell in cells if cell not in markers and (text := cell.removeprefix("\0"))]

    def batches(self, types: Mapping[str, Any], kinds: Kinds, rows: int, part: Any = None) -> Iterator[tuple[int, Any]]:
        """Give columns as Arrow record batches, each with the number of its first row."""
        for block in self.blocks(min(rows, max(_BLOCK // self._width, 1))):
            yield from number_rows(block.read_as(types, kinds).to_batches(), block.start)

    def _read_header(self, stream: IO[bytes]) -> bytes:
        head, size = b"", _HEAD
        while True:
            more = stream.read(size)
            head += more
            starts, ends = self._split(head, not more)
            if len(starts):
                self._width = max(len(head) // len(starts), 1)
                return head[: int(ends[0])]
            if not more or len(head) > _MOST_HEAD:
                # an empty file, or a quote that is never closed: the scanner says which
                scanner = Scanner(check_text(head), self.delimiter)
                next(scanner.split_records(scanner.text()), None)
                raise TableError("the file is empty; a header with the columns' names is needed")
            size = len(head)


class DelimitedBlock(TextBlock):
    """Some records of a CSV or TSV file."""

    source: DelimitedSource

    def read_as(self, types: Mapping[str, Any], kinds: Kinds) -> Any:
        """Return columns as an Arrow table of these types, but whole numbers in place of floats where all are whole;
        raise `OtherKind` where a cell is of another kind.
        """
        source, text = self.source, text_type()
        with shift_lines_in_errors(source.header_lines, self.piece.line - 1 - source.header_lines):
            scanner = Scanner(check_text(source.named_header + self.piece.data), source.delimiter)
            number = pyarrow.types.is_floating if source.dialect.decimal == "." else lambda _: False
            # pyarrow tells whole numbers from others by itself
            parsed = {name: text for name, kind in types.items() if not number(kind)}
            markers = frozenset(source.missing)
            table = _convert(scanner, source.names, list(types), parsed, markers, _BLOCK >> 1)
            unsure = [name for name in types if name not in parsed and name not in kinds]
            for name, _ in _find_codes(scanner, source.names, unsure, table, markers):
                raise OtherKind(name)
            texts = [name for name in types if table.schema.field(name).type in (text, pyarrow.string())]
            for name in source.marks.keys() & {*texts}:
                column = table.column(name)
                codes, distinct = decode_dictionary(column if column.type == text else column.dictionary_encode())
                kept, left = _drop_markers(codes, distinct, frozenset(source.marks[name]))
                coded = pyarrow.DictionaryArray.from_arrays(_mask_codes(kept.astype(np.int32)), left)
                table = table.set_column(table.column_names.index(name), name, coded)
            with name_lines_in_errors(scanner.line_of):
                for place, (name, kind) in enumerate(types.items()):
                    column = table.column(place)
                    if pyarrow.types.is_floating(column.type):
                        read_cells(name, column)  # which refuses infinite numbers
                    elif number(kind) and pyarrow.types.is_null(column.type):
                        table = table.set_column(place, name, column.cast(kind))
                    elif not pyarrow.types.is_integer(column.type) and (
                        kind != text or isinstance(kinds.get(name), Unit)
                    ):
                        table = table.set_column(place, name, self._type_column(name, column, kind, kinds.get(name)))
        return table

    def _type_column(self, name: str, column: Any, kind: Any, declared: DeclaredKind | None) -> Any:
        """Return a column of texts as one of another type, or one of dates without texts that are empty."""
        if pyarrow.types.is_temporal(column.type):
            raise OtherKind(name)
        codes, texts = decode_dictionary(column if column.type == text_type() else column.dictionary_encode())
        if isinstance(declared, Unit):
            return pyarrow.array([text or None for text in texts], pyarrow.string()).take(_mask_codes(codes))
        number = pyarrow.types.is_floating(kind) and declared != "discrete"
        if number and declared is None and holds_code(texts):
            raise OtherKind(name)
        wanted: DeclaredKind = "continuous" if number else "discrete"
        try:
            cells = type_column(name, codes, texts, wanted, self.source.dialect).cells
        except TableError as error:
            if " is infinite" in str(error):
                raise
            raise OtherKind(name) from None
        if cells.unit is not None or number != (cells.states is None):
            raise OtherKind(name)
        if cells.states is None:
            array = pyarrow.array(cells.array, from_pandas=True)
            return array.cast(pyarrow.int64(), safe=False) if cells.integer else array
        try:
            return pyarrow.array(cells.states, kind).take(_mask_codes(cells.array))
        except pyarrow.ArrowException:
            raise OtherKind(name) from None

    def read(self, names: Sequence[str], kinds: Kinds) -> Table:
        """Return columns as typed ones."""
        source = self.source
        wanted = WantedColumns({n: kind for n, kind in kinds.items() if n in names}, tuple(names))
        with shift_lines_in_errors(source.header_lines, self.piece.line - 1 - source.header_lines):
            data = check_text(source.named_header + self.piece.data)
            return _read_text(data, wanted, frozenset(source.missing), source.dialect, marks=source.marks)

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


def _mask_codes(codes: NDArray[Any]) -> Any:
    return pyarrow.array(codes, mask=codes < 0)


def _strip_mark(text: str, markers: frozenset[str]) -> str | None:
    return text[1:] if text.startswith("\0") else None if text in markers else text


def find_kinds(
    sources: Sequence[DelimitedSource], declared: Mapping[str, DeclaredKind | None]
) -> dict[str, tuple[Any, Unit | None]]:
    """Return the Arrow type and the unit of columns, as all of their texts in some files tell.

    Parameters
    ----------
    declared : mapping from column to its declared kind
    """
    texts = {name: TextKind(kind, sources[0].dialect) for name, kind in declared.items()}
    for source in sources:
        with name_file_in_errors(source.shown):
            for start, batch in source.batches(dict.fromkeys(texts, text_type()), {}, ROWS_OF_BATCH):
                for name, kind in texts.items():
                    kind.add(batch.column(name), source, start)

    def locate(source: DelimitedSource, row: int) -> str:
        return source.line_of(row) + (f" of {source.shown}" if len(sources) > 1 else "")

    with name_file_in_errors(sources[0].shown):
        return {name: kind.decide(name, locate) for name, kind in texts.items()}


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
        is_alike = isinstance(origin, DelimitedSource) and origin.delimiter == delimiter
        super().__init__(fields, counter, encoding, origin if is_alike else None)
        if any(sign in missing for sign in f'{delimiter}"\r\n'):
            raise TableError(
                f"the marker for missing cells, {missing!r}, must not hold delimiters, quotes or line ends"
            )
        self.delimiter = delimiter
        # a line without anything would be no row at all
        self.missing: str = missing if missing or len(self.fields) > 1 else "NA"
        quoted = {*MISSING, self.missing, *(self.origin.missing if self.origin is not None else ())}
        self._cell: Callable[[str], str] = partial(_quote_cell, separator=delimiter, quoted=quoted)

    def header(self) -> bytes:
        """Return the columns' names."""
        if self.origin is None:
            names = self.delimiter.join(self._cell(field.name) for field in self.fields)
            return encode_text("\ufeff" * (self.encoding in MARKS.values()) + f"{names}\n")
        header: bytes = self.origin.header
        header += b"" if header.endswith((b"\n", b"\r")) else b"\n"
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
        changes: list[Change] = []
        plain, find_spans = block.find_plain_spans(), cache(block.find_quoted_spans)
        for name, (rows, values) in fills.items():
            column = block.source.names.index(name)
            if plain is not None:
                starts, ends = plain[0][rows, column].tolist(), plain[1][rows, column].tolist()
            else:
                spans = [find_spans(row)[column] for row in rows.tolist()]
                starts, ends = [span[0] for span in spans], [span[1] for span in spans]
            texts = {value: self._cell(spell(name, value)).encode() for value in set(values)}
            changes += zip(starts, ends, map(texts.__getitem__, values), strict=True)
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
