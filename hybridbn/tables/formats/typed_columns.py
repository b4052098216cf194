"""What the readers of tables share: what is wanted, what was read, and how text cells become typed ones."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from hybridbn.errors import TableError
from hybridbn.registry import LazyModule
from hybridbn.tables import Table
from hybridbn.tables.cells import (
    EXACT_INTEGERS,
    check_numbers,
    count_texts,
    declare_kinds,
    label_codes,
    report_ambiguity,
    reword_errors,
)
from hybridbn.tables.columns import Column, ColumnSource, read_column
from hybridbn.tables.formats.dialects import PLAIN, Dialect, describe_readings
from hybridbn.tables.formats.row_encoding import kind_of_types
from hybridbn.tables.frames.arrow import decode_dictionary
from hybridbn.unit_texts import PatternFinder
from hybridbn.units import Unit
from hybridbn.variables import Continuous, Values, Variable, as_objects, shorten

pyarrow: LazyModule = LazyModule("pyarrow")
compute: LazyModule = LazyModule("pyarrow.compute")

DeclaredKind: TypeAlias = Literal["discrete", "continuous", "text", "numbers"] | Unit
"""What a column is; a unit is that of dates or times, whose text pattern comes first where texts allow several. Of
"numbers" its first cells show that none is a code, and its other cells have to confirm that they are numbers.
"""

_DIGITS = re.compile(r"[-+.0-9eE]++")
_INTEGER = re.compile(r"\s*[-+]?[0-9]+\s*", re.ASCII)
_PADDED = re.compile(r"\s*[-+]?0[0-9]|\s*\+|\s")
_NAN = re.compile(r"\s*[-+]?nan(?:\([^)]*\))?\s*", re.IGNORECASE)
_INFINITE = re.compile(r"\s*[-+]?inf(?:inity)?\s*", re.IGNORECASE)
REMEDY = "if it marks a missing cell, add it to missing=[...]; else mend the cell"
CODE = re.compile("0[0-9]+")
"""A code such as a postal one, which is no number."""
_MOST_TEXTS = 10_000
"""The number of texts by which the kind of a column is found."""
_TRUTH = ({"True": True, "False": False}, {"true": True, "false": False}, {"TRUE": True, "FALSE": False})


@dataclass(frozen=True)
class WantedColumns:
    """Which columns a reader is to read, and as what where the type does not say it."""

    kinds: dict[str, DeclaredKind] = field(default_factory=dict)
    columns: tuple[str, ...] | None = None
    optional: bool = False
    """Whether a wanted column may be absent: a model's variables may, columns asked for by name may not."""

    @classmethod
    def of(
        cls,
        discrete: str | Iterable[str],
        continuous: str | Iterable[str],
        columns: Iterable[str] | None,
        weights: str | None,
        variables: Sequence[Variable] | None,
    ) -> WantedColumns:
        """Check and join the wishes of `read_table`'s caller."""
        kinds: dict[str, DeclaredKind] = {**declare_kinds(discrete, continuous)}
        chosen = None if columns is None else [columns] if isinstance(columns, str) else list(columns)
        if variables is not None:
            if kinds or chosen is not None:
                raise TableError("give variables, or discrete, continuous and columns, not both")
            chosen = [variable.name for variable in variables]
            for variable in variables:
                if isinstance(variable, Continuous):
                    kinds[variable.name] = variable.unit or "continuous"
                elif variable.cuts is None:
                    textual = all(isinstance(state, str) for state in variable.states)
                    kinds[variable.name] = "text" if textual else "discrete"
        if chosen is not None and weights is not None and weights not in chosen:
            chosen.append(weights)
        if weights is not None and kinds.setdefault(weights, "continuous") != "continuous":
            raise TableError(f"the column of weights, {weights!r}, can't be discrete")
        return cls(kinds, None if chosen is None else tuple(chosen), variables is not None)

    def names(self, available: Sequence[str]) -> list[str]:
        """Return the columns to read, in the order asked for, having checked that they can be."""
        _check_header(available)
        requested = list(available) if self.columns is None else list(self.columns)
        if len(set(requested)) < len(requested):
            raise TableError(f"a column is named twice in {shorten(requested)}")
        known = set(available)
        absent = [name for name in [*self.kinds, *requested] if name not in known]
        if absent and not self.optional:
            raise TableError(f"there is no column {absent[0]!r}; the columns are {shorten(available)}")
        chosen = [name for name in requested if name in known]
        if not chosen:
            raise TableError(f"none of the columns {shorten(requested)} is there; the columns are {shorten(available)}")
        return chosen

    def kind(self, name: str) -> Literal["discrete", "continuous"] | None:
        """Return what a column is declared to be."""
        declared_kind = self.kinds.get(name)
        if isinstance(declared_kind, Unit):
            return "continuous"
        return "discrete" if declared_kind == "text" else None if declared_kind == "numbers" else declared_kind

    def unit(self, name: str) -> Unit | None:
        """Return the unit that a column is declared to have."""
        declared_kind = self.kinds.get(name)
        return declared_kind if isinstance(declared_kind, Unit) else None


def _check_header(names: Sequence[str]) -> None:
    if not names:
        raise TableError("the table has no columns")
    if "" in names:
        raise TableError(
            f"line 1: column {names.index('') + 1} has no name; name it, or leave it out when the file is written "
            "(pandas writes its index so, unless index=False)"
        )
    if len(set(names)) < len(names):
        twice = sorted({name for name in names if list(names).count(name) > 1})
        raise TableError(f"line 1: several columns are called {shorten(twice)}; column names must differ: rename them")


def name_lines_for_rows(text: str, line_of: Callable[[int], int]) -> str:
    """Return the text of an error with lines of the file instead of rows of the table."""
    return re.sub(r"\brow (\d+)", lambda match: f"line {line_of(int(match[1]))}", text)


def name_lines_in_errors(line_of: Callable[[int], int]) -> AbstractContextManager[None]:
    """Name lines of a file instead of rows of the table in errors that come from typing its columns."""
    return reword_errors(lambda text: name_lines_for_rows(text, line_of))


def type_texts(
    name: str,
    codes: NDArray[Any],
    distinct: Sequence[str],
    declared_kind: DeclaredKind | None,
    remedy: str,
    dialect: Dialect = PLAIN,
) -> Column:
    """Return a column of text cells, given as codes of distinct texts (-1: missing), as what its texts say.

    Numbers if every text is one and none is a code with a leading zero, dates or times if all texts follow one pattern
    of them, truth values, else text; a mixture of numbers and text is refused unless `declared_kind` allows it.

    Examples
    --------
    >>> type_texts("x", np.array([0, 1, -1]), ["1.5", "2"], None, "").cells.array
    array([1.5, 2. , nan])
    """
    if declared_kind == "text":
        return Column(name, label_codes(name, codes, distinct))
    if declared_kind == "discrete":
        return Column(name, label_codes(name, codes, parse_states(distinct)))
    unit = declared_kind if isinstance(declared_kind, Unit) else None
    moments = count_texts(name, codes, distinct, unit, dates=dialect.dates)
    # how numbers without a symbol are written is a matter of the file, if files have numbers like that
    is_number = moments is not None and moments.unit is not None and moments.unit.kind == "number"
    if moments is not None and not (is_number and all(map(describe_readings, distinct))):
        return Column(name, moments, None, ColumnSource("numpy", as_objects([*distinct, None])[codes]))
    if declared_kind is None and holds_code(distinct):
        return Column(name, label_codes(name, codes, distinct))
    declared_kind = "continuous" if unit is not None or declared_kind == "continuous" else None
    known = _parse_floats(distinct) if dialect.is_plain else None
    if known is not None:
        return _build_numbers(name, codes, distinct, known)
    plain = [dialect.plain(text) for text in distinct]
    hollow = [i for i, text in enumerate(distinct) if _NAN.fullmatch(text)]
    numeric = [i for i, text in enumerate(plain) if text is not None]
    infinite = (
        [i for i, text in enumerate(distinct) if _INFINITE.fullmatch(text)] if len(numeric) < len(distinct) else []
    )
    fine = {*numeric, *hollow, *infinite}
    if len(fine) == len(distinct) and (numeric or declared_kind == "continuous"):
        texts = [text if number is None else number for text, number in zip(distinct, plain, strict=True)]
        known = np.array([math.nan if _NAN.fullmatch(text) else float(text) for text in texts])
        return _build_numbers(name, codes, texts, known)
    odd = [i for i in range(len(distinct)) if i not in fine]
    foreign = [i for i in odd if describe_readings(distinct[i])]
    if declared_kind is None and not numeric and (not foreign or len(foreign) < len(distinct)):
        return Column(name, label_codes(name, codes, parse_states(distinct)))
    if foreign and (declared_kind is not None or len(foreign) == len(odd)):
        row = _first_row(codes, foreign)
        text = distinct[int(codes[row])]
        raise TableError(
            f"column {name!r}, row {row}: {text!r} looks like a number that is written in another way than"
            f" {dialect.spell('', '1234.5')}: {describe_readings(text)} in a CSV file; or read the column as text with"
            f" discrete=[{name!r}]"
        )
    raise _refuse_mixture(name, codes, distinct, odd, numeric if declared_kind is None else [], remedy)


def _refuse_mixture(
    name: str, codes: NDArray[Any], distinct: Sequence[str], odd: Sequence[int], numeric: Sequence[int], remedy: str
) -> TableError:
    """Return why texts are no numbers, some of which may be."""
    row = _first_row(codes, odd)
    text = distinct[int(codes[row])]
    if not numeric:
        return TableError(f"column {name!r}, row {row}: {text!r} is not a number; {remedy}")
    other = _first_row(codes, numeric)
    return TableError(
        f"column {name!r} mixes numbers ({distinct[codes[other]]!r} in row {other}) with text ({text!r} in row"
        f" {row}); {remedy}; if these are states, read the column with discrete=[{name!r}]"
    )


def show_numbers(texts: Collection[str], pattern: re.Pattern[str]) -> bool:
    """Tell whether texts are numbers and no codes: these have the same number of digits, or begin with 0.

    Examples
    --------
    >>> [show_numbers(texts, PLAIN.number) for texts in ({"7", "12"}, {"10115", "80331"}, {"7", "02"})]
    [True, False, False]
    """
    are_alike = len(set(map(len, texts))) < 2 and all(text.isdigit() and len(text) > 1 for text in texts)
    return not are_alike and all(map(pattern.fullmatch, texts)) and not holds_code(texts)


def holds_code(texts: Iterable[str]) -> bool:
    """Tell whether a whole number of two or more digits begins with 0, as in postal codes, so that none is a number."""
    return any(text.startswith("0") and CODE.fullmatch(text) for text in texts)


def _first_row(codes: NDArray[Any], wanted: Sequence[int]) -> int:
    return int(np.argmax(np.isin(codes, wanted)))


def parse_states(distinct: Sequence[str]) -> list[Any]:
    """Return texts as numbers or truth values where all of them are; as they are otherwise, leading zeros included."""
    if distinct and all(PLAIN.number.fullmatch(text) and not _PADDED.match(text) for text in distinct):
        # "1" and "1.0" would be one state: labels() maps equal states to one code.
        return [int(text) if _INTEGER.fullmatch(text) and len(text) < 4000 else float(text) for text in distinct]
    for words in _TRUTH:
        if distinct and words.keys() >= set(distinct):
            return [words[text] for text in distinct]
    return list(distinct)


def _parse_floats(distinct: Sequence[str]) -> Values | None:
    """Return texts as numbers if all of them are, told by their characters at once; None where a closer look is
    needed.
    """
    if not distinct or not _DIGITS.fullmatch("".join(distinct)):
        return None
    try:
        return np.array(list(map(float, distinct)))
    except ValueError:
        return None


def _build_numbers(name: str, codes: NDArray[Any], distinct: Sequence[str], known: Values) -> Column:
    values = np.append(known, math.nan)
    # What pyarrow takes for integers, so that both readers agree.
    whole = bool(distinct) and all(
        "." not in text and "+" not in text and _INTEGER.fullmatch(text) for text in distinct
    )
    whole = whole and all(-(2**63) <= int(text) < 2**63 for text in distinct if len(text) < 100)
    cells = check_numbers(name, values[codes], integer=whole)
    if whole and np.nanmax(np.abs(values)) >= EXACT_INTEGERS:
        # Floats would round these; the exact ones are kept beside them for the way out.
        return Column(name, cells, None, ColumnSource("numpy", as_objects([*map(int, distinct), None])[codes]))
    return Column(name, cells)


def type_objects(columns: Mapping[str, Sequence[Any]], wanted: WantedColumns) -> Table:
    """Return columns of Python values as a table of typed ones; integers too large for floats are kept beside these."""
    return Table.from_columns([_type_object_column(name, as_objects(held), wanted) for name, held in columns.items()])


def _type_object_column(name: str, values: NDArray[Any], wanted: WantedColumns) -> Column:
    kind = wanted.kind(name)
    column = read_column(name, values, kind, wanted.unit(name))
    if wanted.optional and kind is None and column.fault is None and column.cells.states == ():
        return Column(name, check_numbers(name, values.astype(float)))
    return drop_source(column)


def drop_source(column: Column) -> Column:
    """Return a column of a file without its source, unless its cells have lost something of it, as large integers and
    the spelling of dates.
    """
    if column.fault is not None or (column.cells.integer and column.cells.states is None) or column.cells.unit:
        return column
    return Column(column.name, column.cells)


def type_column(
    name: str,
    codes: NDArray[Any],
    texts: Sequence[str],
    declared_kind: DeclaredKind | None,
    dialect: Dialect = PLAIN,
) -> Column:
    """Return a column of text cells, given as codes of distinct texts (-1: missing), as what its texts say.

    Parameters
    ----------
    dialect : Dialect
        How numbers and dates are written.
    """
    if "" in texts and declared_kind not in ("discrete", "text"):
        # Programs that quote every cell write a missing number as "".
        others = [text for text in texts if text]
        if others and (all(map(dialect.number.fullmatch, others)) or PatternFinder().add(others)):
            known = {text: code for code, text in enumerate(others)}
            new_codes = np.array([known.get(text, -1) for text in texts] + [-1], dtype=np.intp)
            codes, texts = new_codes[codes], others
    return type_texts(name, codes, texts, declared_kind, REMEDY, dialect)


def text_type() -> Any:
    """Return the type of columns of text, which take less than half of the time as dictionaries."""
    return pyarrow.dictionary(pyarrow.int32(), pyarrow.string())


def guess_type(texts: Sequence[str], declared: DeclaredKind | None, dialect: Dialect) -> Any:
    """Return the Arrow type of a column with these first texts, which all of its cells have to confirm."""
    if declared in (None, "numbers", "continuous"):
        if all(map(dialect.number.fullmatch, texts)) and (declared is not None or not holds_code(texts)):
            return pyarrow.float64()
        if declared == "continuous":
            return text_type()
    elif declared != "discrete":
        return text_type()
    return type_of_states(parse_states(list(dict.fromkeys(texts))) if texts else ())


def type_of_states(states: Sequence[Any]) -> Any:
    """Return the Arrow type of states, all of which are texts, numbers or truth values."""
    types = {"bool": pyarrow.bool_(), "integer": pyarrow.int64(), "float": pyarrow.float64()}
    return types.get(kind_of_types(map(type, states)), text_type())


class TextKind:
    """What all texts of a column tell of its kind, as few of them as do.

    Parameters
    ----------
    declared : "discrete", "continuous" or None
    dialect : Dialect
        How numbers and dates are written.
    """

    def __init__(self, declared: DeclaredKind | None, dialect: Dialect = PLAIN) -> None:
        self.declared, self._dialect = declared, dialect
        self._kept: dict[str, tuple[Any, int]] = {}
        self._classes: set[type] = set()
        self._finder: PatternFinder | None = PatternFinder(dialect.dates)

    def add(self, column: Any, file: Any, first: int) -> None:
        """Add some cells of a file, of which the first is in this row."""
        codes, texts = decode_dictionary(pyarrow.chunked_array([column]))
        pattern = f"^(?:{self._dialect.number.pattern})$"
        number = compute.match_substring_regex(column.dictionary, pattern).to_numpy(zero_copy_only=False)
        observed = [texts[code] for code in np.flatnonzero(~number) if texts[code]]
        room = _MOST_TEXTS - len(self._kept)
        if self._finder is not None and (number.any() or (observed and not self._finder.add(observed))):
            self._finder, room = None, len(observed)
        kept = np.flatnonzero(~number)[: max(room, 0)].tolist()
        for code in np.flatnonzero(number).tolist():
            # one of each kind of numbers tells as much as all of them
            states = parse_states([str(self._dialect.plain(texts[code]))])
            if type(states[0]) not in self._classes:
                self._classes.add(type(states[0]))
                kept.append(code)
        if kept:
            present, rows = np.unique(codes, return_index=True)
            row_of = dict(zip(present.tolist(), (rows + first).tolist(), strict=True))
            for code in kept:
                self._kept.setdefault(texts[code], (file, row_of[code]))

    def decide(self, name: str, locate: Callable[[Any, int], str]) -> tuple[Any, Unit | None]:
        """Return the Arrow type and the unit of the column; raise `TableError` that names lines of files.

        Parameters
        ----------
        locate : callable
            From a file and a row of it to its line, in words.
        """
        unit = None if self._finder is None or self.declared == "discrete" else self._finder.unit
        if self._finder is not None and unit is not None and unit.kind != "number":
            if self._finder.ambiguous:
                report_ambiguity(name, self._finder, refuse=self._dialect.dates is not None)
            return text_type(), unit
        kept = sorted(self._kept, key=lambda text: self._kept[text][1])
        try:
            column = type_column(name, np.arange(len(kept)), kept, self.declared, self._dialect)
        except TableError as error:
            message = re.sub(r"\brow (\d+)", lambda match: locate(*self._kept[kept[int(match[1])]]), error.text)
            raise TableError(message) from None
        unit = column.cells.unit
        return text_type() if unit is not None else type_of_states(column.cells.states or (0.5,)), unit
