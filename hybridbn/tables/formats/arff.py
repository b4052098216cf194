"""ARFF, Weka's format of tables: nominal attributes are discrete with the states declared, numeric ones continuous.

``?`` without quotes is a missing cell; ``'?'`` with quotes is a value. Nominal values are text. Where hybridbn writes
integer or truth states, a comment in the header says so, and reading gives them back.
"""

from __future__ import annotations

import codecs
import io
import itertools
import json
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from hybridbn.errors import FormatError, TableError
from hybridbn.tables import Table
from hybridbn.tables.cells import Cells, check_numbers, convert_cells, count_texts, label_codes
from hybridbn.tables.columns import Column, ColumnSource
from hybridbn.tables.formats.base import Field, FileFormat, Fills, Kinds, Spell, TableSource
from hybridbn.tables.formats.dialects import PLAIN
from hybridbn.tables.formats.files import StoredFile, check_encoding, encode_text
from hybridbn.tables.formats.text_blocks import (
    Change,
    TextBlock,
    TextSource,
    TextWriter,
    format_texts,
    make_line_splitter,
    plain_text,
    shift_lines_in_errors,
)
from hybridbn.tables.formats.typed_columns import WantedColumns, name_lines_in_errors, type_texts
from hybridbn.units import Unit, unit_of_pattern
from hybridbn.variables import as_objects, shorten

_NOTE = "% hybridbn: "
"""Starts the comment that keeps the types of states that are not text."""
_WORD = r"""'(?:[^'\\]|\\.)*+'|"(?:[^"\\]|\\.)*+\""""


def _bare_value(ends: str = "", space: str = r"\s") -> str:
    """Return the pattern of a value without quotes, up to a comma or one of some other signs and the spaces before it;
    of a value of many spaces, no longer than the value takes.
    """
    sign = rf"[^,'\"{ends}{space}]++"
    return f"(?:{sign}(?:[{space}]++{sign})*+)?+"


_ATTRIBUTE = re.compile(rf"@attribute\s+({_WORD}|[^\s{{]+)\s*(.*)", re.IGNORECASE | re.DOTALL)
_VALUE = re.compile(rf"\s*+({_WORD}|{_bare_value()})\s*(,|\Z)")
_TABBED = re.compile(rf"\s*+({_WORD}|%s)[ ]*(,|\t|\Z)" % _bare_value("\t", " "))
_SPARSE = re.compile(rf"\s*+(\d++)\s++({_WORD}|{_bare_value('{}')})\s*(,|\Z)")
"""Values in a dense row, in one with tabs, and in a sparse one: each with the sign behind it."""
_WEIGHT = re.compile(r"(?:,\s*|(?<!\s)\s+)\{([^{}]*)\}$")
_ESCAPES = {"n": "\n", "r": "\r", "t": "\t", "u": "\x1e"}
_NUMERIC = ("numeric", "real", "integer")
_LETTERS = {
    "yyyy": "%Y",
    "yy": "%y",
    "MMMM": "%B",
    "MMM": "%b",
    "MM": "%m",
    "M": "%-m",
    "dd": "%d",
    "d": "%-d",
    "HH": "%H",
    "H": "%-H",
    "hh": "%I",
    "h": "%-I",
    "mm": "%M",
    "ss": "%S",
    "SSS": "%3f",
    "a": "%p",
    "Z": "%z",
    "XXX": "%:z",
}
"""The letters of dates in Java, in which other programs declare them, and the directives of Python."""
_LETTER = re.compile(r"'((?:[^']|'')*)'|([A-Za-z])\2*")


@dataclass(frozen=True)
class _Attribute:
    """A declared column; `values` are the states of a nominal one."""

    name: str
    values: tuple[str, ...] | None
    line: int
    integer: bool = False
    unit: Unit | None = None
    textual: bool = False


@dataclass
class _Header:
    """What stands before the data, which start on the line of this number; `types` are those of noted states."""

    attributes: list[_Attribute]
    types: dict[str, str]
    data: int


class Arff(FileFormat):
    """Dense and sparse ARFF files; relational attributes are refused."""

    title = "ARFF"
    position = 2
    suffixes: ClassVar[tuple[str, ...]] = (".arff",)
    packable = True
    text = True
    mixed = False

    def read(self, file: Path | IO[bytes], wanted: WantedColumns, suffix: str, *, encoding: str = "utf-8") -> Table:
        """Read a file."""
        raw = file.read_bytes() if isinstance(file, Path) else file.read()
        name = codecs.lookup(check_encoding(encoding)).name
        try:
            text = raw.decode("utf-8-sig" if name == "utf-8" else name)
        except UnicodeDecodeError as error:
            line = 1 + raw.count(b"\n", 0, error.start)
            raise TableError(f"line {line}: not text in {encoding}; give another encoding, such as 'latin-1'") from None
        split = re.split(r"\r\n|\n|\r", text)
        if "\0" in text:
            number = next(i for i, line in enumerate(split, start=1) if "\0" in line)
            raise FormatError(f"line {number}: a NUL character; the file is damaged, or no ARFF file")
        header = _parse_header(split)
        names = wanted.names([attribute.name for attribute in header.attributes])
        rows, where, weights = _parse_rows(split, header)
        columns = list(zip(*rows, strict=True)) if rows else [()] * len(header.attributes)
        with name_lines_in_errors(where.__getitem__):
            typed = {
                one.name: _type_column(one, column, header.types.get(one.name), wanted)
                for one, column in zip(header.attributes, columns, strict=True)
                if one.name in names
            }
        return Table.from_columns([typed[name] for name in names], weights=weights)

    def source(self, file: Path | StoredFile, shown: str, suffix: str) -> ArffSource:  # type: ignore[override]
        """Open a file that is read in blocks."""
        return ArffSource(file, shown)

    def writer(  # type: ignore[override]
        self,
        fields: Sequence[Field],
        suffix: str,
        *,
        origin: TableSource | None = None,
        counter: str | None = None,
        encoding: str = "utf-8",
    ) -> ArffWriter:
        """Return what writes a dense file; the order of states is kept, their types are noted in a comment."""
        return ArffWriter(fields, counter, encoding, origin if isinstance(origin, ArffSource) else None)


# --- the header -------------------------------------------------------------------------------------------------------


def _parse_header(lines: Sequence[str]) -> _Header:
    """Return the header that some lines begin with.

    Examples
    --------
    >>> _parse_header(["@relation r", "@attribute c {a,b}", "@data"]).attributes[0].values
    ('a', 'b')
    """
    attributes: list[_Attribute] = []
    types: dict[str, str] = {}
    for number, line in enumerate(lines, start=1):
        text = line.strip()
        if text.startswith(_NOTE):
            types = _parse_note(text.removeprefix(_NOTE), number)
        if not text or text.startswith("%"):
            continue
        word = text.split(maxsplit=1)[0].lower()
        if word == "@data":
            if not attributes:
                raise FormatError(f"line {number}: @data without any @attribute before it")
            _refuse_repeats(attributes)
            return _Header(attributes, types, number)
        if word == "@attribute":
            attributes.append(_attribute(text, number))
        elif word != "@relation":
            raise FormatError(
                f"line {number}: {text[:60]!r} is no part of an ARFF header (@relation, @attribute, @data)"
            )
    raise FormatError("there is no @data line; the file is no ARFF file, or cut short")


def _attribute(text: str, number: int) -> _Attribute:
    found = _ATTRIBUTE.match(text)
    if found is None:
        raise FormatError(f"line {number}: {text[:60]!r} names no attribute")
    name, declared = _unquote(found.group(1)), found.group(2).strip()
    if not name:
        raise FormatError(f"line {number}: the attribute's name is empty")
    if declared.startswith("{"):
        return _Attribute(name, _parse_nominal(declared, name, number), number)
    kind = re.split(r"[\s%\[]", declared, maxsplit=1)[0].lower()
    if kind in _NUMERIC:
        return _Attribute(name, None, number, kind == "integer")
    if kind == "date":
        return _Attribute(name, None, number, unit=_unit_of_format(_unquote(declared[4:].strip()), name, number))
    if kind == "string":
        return _Attribute(name, None, number, textual=True)
    advice = {
        "relational": "flatten it into ordinary attributes",
    }.get(kind, "it must be numeric, real, integer or {value, ...}")
    raise FormatError(f"line {number}: attribute {name!r} is of type {kind or 'nothing'!r}; {advice}")


def _unit_of_format(form: str, name: str, number: int) -> Unit:
    """Return the unit of dates that are written in a format of Java."""
    try:
        return unit_of_pattern(pattern_from_java(form or "yyyy-MM-dd'T'HH:mm:ss"))
    except ValueError as error:
        raise FormatError(f"line {number}: attribute {name!r}: {error}") from None


def _spell_unit(unit: Unit) -> Unit:
    """Return a unit whose values are texts that ARFF can declare, if it can."""
    if unit.pattern is not None:
        return unit
    clock = "%H:%M:%S" + (".%3f" if unit.step < 10**9 else "")
    zone = "%:z" if unit.zone is not None else ""
    patterns = {
        "date": "%Y-%m-%d",
        "datetime": f"%Y-%m-%dT{clock}{zone}",
        "time": clock,
        "duration": f"%D days {clock}",
    }
    return replace(unit, pattern=patterns[unit.kind])


def _parse_nominal(declared: str, name: str, number: int) -> tuple[str, ...]:
    position, values, closed = 1, list[str](), False
    pattern = re.compile(rf"\s*+({_WORD}|{_bare_value('{}')})\s*(,|\}})")
    while not closed:
        match = pattern.match(declared, position)
        if match is None:
            raise FormatError(
                f"line {number}: the values of attribute {name!r} don't end with a brace, or have an open quote"
            )
        if not match.group(1) and (values or match.group(2) == ","):
            raise FormatError(f"line {number}: attribute {name!r} has an empty value; quote it as ''")
        if match.group(1):
            values.append(_unquote(match.group(1)))
        position, closed = match.end(), match.group(2) == "}"
    if not values or len(set(values)) < len(values):
        fault = "no values" if not values else "a value twice"
        raise FormatError(f"line {number}: attribute {name!r} has {fault}")
    return tuple(values)


def _refuse_repeats(attributes: Sequence[_Attribute]) -> None:
    seen: dict[str, int] = {}
    for attribute in attributes:
        first = seen.setdefault(attribute.name, attribute.line)
        if first != attribute.line:
            raise FormatError(
                f"line {attribute.line}: attribute {attribute.name!r} is declared already in line {first}"
            )


def _parse_note(text: str, number: int) -> dict[str, str]:
    try:
        types = json.loads(text)
    except (ValueError, RecursionError):
        types = None
    if not isinstance(types, dict) or not all(kind in ("integer", "float", "bool") for kind in types.values()):
        raise FormatError(f"line {number}: hybridbn's note on the types of states is damaged")
    return types


def _unquote(word: str) -> str:
    """Return a word without its quotes and escapes."""
    if word[:1] not in ("'", '"') or len(word) < 2:
        return word
    return re.sub(
        r"\\(u001E|.)", lambda match: _ESCAPES.get(match.group(1)[0], match.group(1)), word[1:-1], flags=re.DOTALL
    )


# --- the data ---------------------------------------------------------------------------------------------------------


def _parse_rows(lines: Sequence[str], header: _Header) -> tuple[list[list[str | None]], list[int], NDArray[Any] | None]:
    """Return the rows as texts (None: missing), their lines, and the weights if rows have any."""
    width = len(header.attributes)
    rows: list[list[str | None]] = []
    where: list[int] = []
    weights: dict[int, float] = {}
    left_out = ["0" if one.values is None else one.values[0] for one in header.attributes]
    for number in range(header.data, len(lines)):
        line = lines[number].strip()
        if not line or line[0] == "%":
            continue
        if line[-1] == "}":
            line, weight = _split_weight(line)
            if weight is not None and not PLAIN.number.fullmatch(weight):
                raise TableError(f"line {number + 1}: the weight {weight!r} is not a number")
            if weight is not None:
                weights[len(rows)] = float(weight)
        if line[0] == "{" or "'" in line or '"' in line or "\t" in line:
            # What a sparse row leaves out is zero, or the first value of a nominal attribute; it is not missing.
            cells: dict[int, str | None] = dict(enumerate(left_out if line[0] == "{" else ()))
            for index, match, group in _match_values(line, width, number + 1):
                cells[index] = None if match.group(group) == "?" else _unquote(match.group(group))
            row = list(cells.values())
        else:
            row = [None if value == "?" else value for value in map(str.strip, line.split(","))]
        if len(row) != width:
            raise TableError(
                f"line {number + 1}: {len(row)} values, but {width} attributes are declared; mend the line"
            )
        rows.append(row)
        where.append(number + 1)
    if not weights:
        return rows, where, None
    row_weights = np.ones(len(rows))
    row_weights[list(weights)] = list(weights.values())
    return rows, where, row_weights


def _split_weight(line: str) -> tuple[str, str | None]:
    """Return a row without the weight in braces that may follow it, and the weight."""
    match = _WEIGHT.search(line)
    return (line, None) if match is None else (line[: match.start()].rstrip(), match.group(1).strip())


def _match_values(line: str, width: int, number: int) -> Iterator[tuple[int, re.Match[str], int]]:
    """Give the number of the attribute of each value in a row, the match that has found the value, and its group."""
    if line[0] == "{":
        yield from _match_pairs(line, width, number)
        return
    pattern = _TABBED if "," not in line else _VALUE
    position = 0
    for index in itertools.count():
        match = pattern.match(line, position)
        if match is None:
            raise TableError(
                f"line {number}: an open quote, or text beside a quoted value, at {line[position : position + 40]!r}"
            )
        yield index, match, 1
        position = match.end()
        if not match.group(2):
            return


def _match_pairs(line: str, width: int, number: int) -> Iterator[tuple[int, re.Match[str], int]]:
    """Give what `_match_values` does of a sparse row."""
    end = len(line) - 1
    if line[end] != "}":
        raise TableError(f"line {number}: a sparse row must end with a brace")
    position, last = 1, -1
    while line[position:end].strip():
        match = _SPARSE.match(line, position, end)
        if match is None:
            raise TableError(
                f"line {number}: {line[position:end].strip()[:40]!r} is no pair of an attribute's number and a value"
            )
        index = int(match.group(1))
        if not last < index < width:
            raise TableError(
                f"line {number}: attribute number {index} is out of order, or not below {width} (they count from 0)"
            )
        yield index, match, 2
        position, last = match.end(), index


def _type_column(
    attribute: _Attribute, column: Sequence[str | None], noted: str | None, wanted: WantedColumns
) -> Column:
    name = attribute.name
    declared = len(attribute.values or ())
    texts = [value for value in dict.fromkeys([*(attribute.values or ()), *column]) if value is not None]
    known: dict[str | None, int] = {None: -1, **{value: code for code, value in enumerate(texts)}}
    codes = np.array([known[value] for value in column], dtype=np.intp)
    spelled = ColumnSource("numpy", as_objects([*texts, None])[codes])
    if attribute.unit is not None and wanted.kind(name) != "discrete":
        moments = count_texts(name, codes, texts, attribute.unit, strict=True) or Cells(np.full(len(codes), math.nan))
        return Column(name, replace(moments, unit=attribute.unit), None, spelled)
    if attribute.values is None:
        kind = wanted.kinds.get(name, "continuous")
        if attribute.unit is not None or (attribute.textual and kind == "continuous"):
            dates = count_texts(name, codes, texts, wanted.unit(name)) if attribute.textual else None
            return Column(name, dates or label_codes(name, codes, texts), None, spelled)
        return type_texts(name, codes, texts, kind, "write ? for a missing value")
    if len(texts) > declared:
        row = int(np.argmax(codes == declared))
        raise TableError(
            f"column {name!r}, row {row}: {texts[declared]!r} is not among the values declared in line"
            f" {attribute.line}: {shorten(attribute.values)}"
        )
    cells = label_codes(name, codes, _type_states(name, texts, noted), declared=True)
    if wanted.kind(name) == "continuous":
        if not all(PLAIN.number.fullmatch(text) for text in texts):
            raise TableError(f"column {name!r} is nominal with values {shorten(texts)}, which are not numbers")
        values = np.array([*map(float, texts), math.nan])
        return Column(name, check_numbers(name, values[codes]))
    return Column(name, convert_cells(name, cells, wanted.kind(name)))


def _type_states(name: str, texts: list[str], noted: str | None) -> list[Any]:
    parsers: dict[str | None, Callable[[str], Any]] = {
        "integer": int,
        "float": float,
        "bool": {"False": False, "True": True}.__getitem__,
    }
    try:
        return list(map(parsers.get(noted, str), texts))
    except (ValueError, KeyError):
        raise FormatError(
            f"the states {shorten(texts)} of attribute {name!r} are not of the type noted, {noted}"
        ) from None


# --- blocks -----------------------------------------------------------------------------------------------------------

_MOST_HEAD = 1 << 28


class ArffSource(TextSource):
    """An ARFF file that is read in blocks."""

    textual = True

    def __init__(self, file: Path | StoredFile, shown: str) -> None:
        super().__init__(file, shown, make_line_splitter(b"%"), ArffBlock)
        with self.file.open() as stream:
            head = list(_read_until_data(stream))
        self.header: bytes = b"".join(head)
        self.header_lines: int = len(head)
        try:
            text = self.header.decode("utf-8-sig")
        except UnicodeDecodeError:
            raise TableError("the header is not text in UTF-8; give another encoding, such as latin-1") from None
        attributes = _parse_header(text.splitlines()).attributes
        self.names: list[str] = WantedColumns().names([attribute.name for attribute in attributes])
        self.fields: Mapping[str, Field] = {
            a.name: Field(a.name, "text", unit=a.unit) for a in attributes if a.unit is not None
        }


def _read_until_data(stream: IO[bytes]) -> Iterator[bytes]:
    size = 0
    for line in stream:
        yield line
        size += len(line)
        if line.strip().lower().startswith(b"@data") or size > _MOST_HEAD:
            return


class ArffBlock(TextBlock):
    """Some rows of an ARFF file."""

    source: ArffSource

    def read(self, names: Sequence[str], kinds: Kinds) -> Table:
        """Return columns as typed ones."""
        source = self.source
        wanted = WantedColumns({n: kind for n, kind in kinds.items() if n in names}, tuple(names))
        with shift_lines_in_errors(source.header_lines, self.piece.line - 1 - source.header_lines):
            read = Arff().read(io.BytesIO(source.header + self.piece.data), wanted, "")
            if read.weighted:
                raise TableError("rows have weights, which the command does not know; hybridbn.impute in Python does")
            return read

    def values(self, names: Sequence[str]) -> dict[str, list[Any]]:
        """Return columns as their texts."""
        text = (self.source.header + self.piece.data).decode("utf-8-sig").splitlines()
        rows, _, _ = _parse_rows(text, _parse_header(text))
        columns = [self.source.names.index(name) for name in names]
        return {name: [row[column] for row in rows] for name, column in zip(names, columns, strict=True)}


# --- writing ----------------------------------------------------------------------------------------------------------


class ArffWriter(TextWriter):
    """Writes dense ARFF files."""

    def __init__(self, fields: Sequence[Field], counter: str | None, encoding: str, origin: ArffSource | None) -> None:
        # the header of the source has no attribute for the counter
        super().__init__(fields, counter, encoding, origin if counter is None else None)
        for field in fields:
            if field.states == ():
                raise FormatError(f"column {field.name!r} has no states, which an ARFF attribute must have")
        units = {field.name: field.unit for field in fields if field.unit is not None and field.unit.is_time}
        self._spelled = {name: _spell_unit(unit) for name, unit in units.items()}

    def header(self) -> bytes:
        """Return what stands before the rows."""
        if self.origin is not None:
            header: bytes = self.origin.header
            return header if header.endswith(b"\n") else header + b"\n"
        lines, notes = ["@relation table", ""], dict[str, str]()
        kinds = {"integer": "integer", "float": "numeric"}
        for field in self.fields:
            kind = kinds.get(field.kind, "string")
            if field.name in self._spelled and (form := pattern_to_java(str(self._spelled[field.name].pattern))):
                kind = f"date {_quote_word(form)}"
            if field.states is not None:
                kind = f"{{{','.join(_quote_word(plain_text(state)) for state in field.states)}}}"
                if field.kind in ("integer", "float", "bool"):
                    notes[field.name] = field.kind
            lines.append(f"@attribute {_quote_word(field.name)} {kind}")
        if notes:
            lines.insert(1, _NOTE + json.dumps(notes))
        return encode_text("\n".join([*lines, "", "@data", ""]))

    def lines(self, columns: Mapping[str, list[Any]]) -> Iterator[str]:
        """Give a line for each row."""
        columns = {**columns, **{name: self._spell(name, columns[name]) for name in self._spelled if name in columns}}
        texts = [format_texts(values, _quote_word, "?") for values in columns.values()]
        return map(",".join, zip(*texts, strict=True))

    def _spell(self, name: str, values: list[Any]) -> list[Any]:
        """Return dates and times of Python as the texts that the header declares."""
        unit = self._spelled[name]
        return [v if v is None or isinstance(v, str) else unit.text(unit.number(v)) for v in values]

    def splice(self, block: ArffBlock, fills: Fills, spell: Spell, draw: int = 0) -> bytes:
        """Return the rows with the question marks filled, dense and sparse ones."""
        piece, names = block.piece, block.source.names
        cell_texts: dict[int, dict[int, bytes]] = {}
        for name, (rows, values) in fills.items():
            column = names.index(name)
            for row, value in zip(rows.tolist(), values, strict=True):
                cell_texts.setdefault(row, {})[column] = _quote_word(spell(name, value)).encode()
        changes: list[Change] = []
        for row, filled in cell_texts.items():
            start = int(piece.starts[row])
            spans = _find_spans(piece.data[start : int(piece.ends[row])].decode("latin-1"), len(names))
            changes += [(start + spans[column][0], start + spans[column][1], text) for column, text in filled.items()]
        return block.replace_bytes(changes)


def _find_spans(line: str, width: int) -> Mapping[int, tuple[int, int]]:
    """Return where the values of a row start and end."""
    row = line.strip()
    begin = line.index(row)
    matches = _match_values(_split_weight(row)[0], width, 0)
    return {index: (begin + match.start(group), begin + match.end(group)) for index, match, group in matches}


def _quote_word(text: str) -> str:
    r"""Return a name or state as ARFF writes it.

    Examples
    --------
    >>> print(_quote_word("a"), _quote_word("it's"))
    a 'it\'s'
    """
    if re.fullmatch(r"[A-Za-z0-9_.+<>=:/&*-]+", text):
        return text
    if "\0" in text:
        raise FormatError(f"the text {text!r} holds a NUL character, which no ARFF file can")
    back = {"\\": "\\\\", "'": "\\'", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\x1e": "\\u001E"}
    return "'" + "".join(back.get(sign, sign) for sign in text) + "'"


def pattern_from_java(form: str) -> str:
    """Return the pattern that a date format of Java stands for; raise `ValueError` where it has letters without one.

    Examples
    --------
    >>> pattern_from_java("yyyy-MM-dd'T'HH:mm")
    '%Y-%m-%dT%H:%M'
    """

    def translate(match: re.Match[str]) -> str:
        if match[2] is None:
            return match[1].replace("''", "'") or "'"
        if match[0] not in _LETTERS:
            raise ValueError(f"the letters {match[0]!r} of the date format {form!r} are none of {', '.join(_LETTERS)}")
        return _LETTERS[match[0]]

    return _LETTER.sub(translate, form)


def pattern_to_java(pattern: str) -> str | None:
    """Return the date format of Java that stands for a pattern; None where there is none.

    Examples
    --------
    >>> pattern_to_java("%d.%m.%Y"), pattern_to_java("%D days")
    ('dd.MM.yyyy', None)
    """
    directives = {directive: letters for letters, directive in _LETTERS.items()}
    parts = re.split(r"(%-?[YymdHIMSDT]|%[bBpzZ]|%[0-9]f|%:z)", pattern)
    literals = [re.sub(r"[A-Za-z']+", lambda match: "'" + match[0].replace("'", "''") + "'", part) for part in parts]
    if any("%" in part and part not in directives for part in parts):
        return None
    return "".join(directives.get(part, literal) for part, literal in zip(parts, literals, strict=True))
