"""The cells of a column as numbers or as codes of states, and their conversion to and from values.

Cells are either *numbers* (floats, ``NaN`` where one is missing) or *labels* (codes of the column's states, ``-1``
where one is missing). All functions are vectorized over the rows and loop over distinct states only.
"""

from __future__ import annotations

import copy
import datetime
import math
import re
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from numbers import Number
from typing import Any, Literal, NamedTuple, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from hybridbn.errors import HybridBNError, TableError, warn_user
from hybridbn.options import list_items
from hybridbn.registry import LazyModule
from hybridbn.unit_texts import PatternFinder, describe_mixture, unit_of_texts
from hybridbn.units import (
    DAY,
    Unit,
    UnitKind,
    count_days,
    count_one_day,
    is_time_like,
    order_of_pattern,
    parse_all_days,
)
from hybridbn.variables import Continuous, Discrete, Values, Variable, as_objects, is_missing, plain_state, shorten

pandas: LazyModule = LazyModule("pandas")

Kind: TypeAlias = Literal["discrete", "continuous"]
Unknown: TypeAlias = Literal["error", "missing"]

REST = "(other)"
"""The state that stands for all rare ones of a column that has too many."""
EXACT_INTEGERS = 2.0**53
"""Floats represent all integers below this one exactly, and round larger ones."""
_BLOCK = 1 << 16


@dataclass(frozen=True, slots=True, eq=False)
class Cells:
    """The cells of one column: floats, or codes of `states`.

    `declared` is true where the states come from a type that names them (a category, an enumeration, bool) and not
    from the values that occur, `integer` where the numbers are of an integer type. `ordered` tells whether states are
    ordered, and numbers are ordered codes or, if false, no codes; None where nobody said so. Dates and times are
    numbers with a `unit`.
    """

    array: NDArray[Any]
    states: tuple[Hashable, ...] | None = None
    declared: bool = False
    ordered: bool | None = None
    integer: bool = False
    unit: Unit | None = None

    def __post_init__(self) -> None:
        self.array.flags.writeable = False

    @property
    def missing(self) -> NDArray[np.bool_]:
        """The mask of the missing cells."""
        return np.asarray(np.isnan(self.array) if self.states is None else self.array < 0)

    def widen(self) -> Cells:
        """Return the cells with codes that computations can multiply; those of a file are as short as they can be."""
        if self.states is None or self.array.dtype == np.intp:
            return self
        return replace(self, array=self.array.astype(np.intp))

    def take(self, rows: NDArray[np.intp]) -> Cells:
        """Return the cells of some rows."""
        return replace(self, array=self.array[rows])


def declare_kinds(discrete: Any, continuous: Any) -> dict[str, Kind]:
    """Return the kind of each column that is declared to be discrete or continuous.

    Examples
    --------
    >>> declare_kinds("c", ["x", "y"])
    {'c': 'discrete', 'x': 'continuous', 'y': 'continuous'}
    """
    kinds: dict[str, Kind] = dict.fromkeys(list_items(discrete, "the names of discrete columns"), "discrete")
    for name in list_items(continuous, "the names of continuous columns"):
        if kinds.setdefault(name, "continuous") != "continuous":
            raise TableError(f"column {name!r} is declared both discrete and continuous")
    return kinds


def integer_limits(bits: int, *, signed: bool) -> tuple[float, float]:
    """Return the least and the greatest float that a type of integers holds.

    Examples
    --------
    >>> integer_limits(8, signed=True), integer_limits(64, signed=False)[1] < 2.0**64
    ((-128.0, 127.0), True)
    """
    end = 2.0 ** (bits - signed)
    return -end if signed else 0.0, min(end - 1, math.nextafter(end, 0.0))


def freeze_array(array: NDArray[Any]) -> NDArray[Any]:
    """Make an array read-only and return it."""
    array.flags.writeable = False
    return array


# --- making cells -------------------------------------------------------------------------------------------------


def check_numbers(name: str, values: NDArray[Any], *, integer: bool = False) -> Cells:
    """Return an array of numbers as continuous cells; raise `TableError` where one is infinite."""
    array = np.ascontiguousarray(values, dtype=np.float64)
    # The sum of an array with an infinity is not finite; that of large numbers may overflow, so the cells are checked
    # again.
    with np.errstate(over="ignore", invalid="ignore"):
        may_be_infinite = not math.isfinite(float(array.sum())) if array.size else False
    if may_be_infinite:
        infinite = np.isinf(array)
        if infinite.any():
            row = int(np.argmax(infinite))
            raise TableError(
                f"column {name!r}, row {row}: {array[row]} is infinite; give a finite number, or leave the cell empty "
                f"({int(infinite.sum())} such cells)"
            )
    if array.flags.writeable and array is values:
        array = array.view()
    return Cells(array, integer=integer)


def label_codes(
    name: str,
    codes: NDArray[Any],
    states: Iterable[Any],
    *,
    declared: bool = False,
    ordered: bool = False,
    compact: bool = False,
) -> Cells:
    """Return codes and their states as discrete cells; states that no type has `declared` are sorted.

    The array of `compact` ones stays of the type that the codes have.
    """
    codes = codes if compact else codes.astype(np.intp, copy=False)
    named = [plain_state(state) for state in states]
    kinds = {state_kind(state) for state in named if not is_missing(state)}
    if len(kinds) > 1:
        raise TableError(
            f"column {name!r} mixes states of several types ({', '.join(sorted(kinds))}): {shorten(named)}; "
            "convert them all to text, or all to numbers"
        )
    if kinds == {"number"}:
        named = _convert_whole_numbers(name, named)
    elif kinds == {"bool"} and not declared:
        order: list[Any] = [False, True]
        codes, named, declared = _translate_codes(codes, [order.index(state) for state in named]), order, True
    if not declared:
        try:
            ranked = sorted(range(len(named)), key=named.__getitem__)
        except TypeError:
            ranked = list(range(len(named)))
        positions = np.empty(len(named), dtype=np.intp)
        positions[ranked] = np.arange(len(named))
        codes, named = _translate_codes(codes, positions), [named[i] for i in ranked]
    distinct: dict[Hashable, int] = {}
    new_codes = []
    for state in named:
        try:
            new_codes.append(-1 if is_missing(state) else distinct.setdefault(state, len(distinct)))
        except TypeError:
            raise TableError(f"column {name!r}: the state {state!r} is not hashable; convert it to text") from None
    codes = _translate_codes(codes, new_codes)
    return Cells(np.ascontiguousarray(codes), tuple(distinct), declared, ordered)


def _translate_codes(codes: NDArray[Any], positions: Sequence[int] | NDArray[np.intp]) -> NDArray[Any]:
    """Return new codes for old ones, in the bytes of the old ones where these have room for all of them."""
    if np.array_equal(positions, np.arange(len(positions))):
        return codes
    fits = max(positions, default=0) <= np.iinfo(codes.dtype).max
    # code -1 looks up the last entry of the table
    table = np.full(len(positions) + 1, -1, dtype=codes.dtype if fits else np.intp)
    table[:-1] = positions
    if codes.dtype == np.intp:
        return table.take(codes)
    # a block at a time, as a whole column of indices takes eight bytes a row
    starts = range(0, max(len(codes), 1), _BLOCK)
    return np.concatenate([table.take(codes[start : start + _BLOCK]) for start in starts])


def _convert_whole_numbers(name: str, states: list[Any]) -> list[Any]:
    """Return whole floats as integers where all states are whole numbers, and all states as floats otherwise."""
    if any(isinstance(state, float) and math.isinf(state) for state in states):
        raise TableError(f"column {name!r}: states must be finite numbers, not {shorten(states)}")
    if all(is_missing(state) or state == int(state) for state in states):
        return [state if is_missing(state) else int(state) for state in states]
    return [state if is_missing(state) else float(state) for state in states]


def label_floats(name: str, values: NDArray[Any]) -> Cells:
    """Return a number column as discrete cells: each distinct number is a state, whole ones are integers."""
    if values.dtype.kind == "f":
        check_numbers(name, values)
    codes, states = pandas.factorize(values)
    return label_codes(name, codes, states.tolist())


# --- dates and times --------------------------------------------------------------------------------------------------


_RESOLUTIONS = {"s": 1_000_000_000, "ms": 1_000_000, "us": 1000, "ns": 1, "h": 3600 * 10**9, "m": 60 * 10**9}


class TimeValues(NamedTuple):
    """A column of dates or durations as an array of numpy, in UTC; times of day are durations since midnight."""

    values: NDArray[Any]
    kind: UnitKind | None = None
    zone: str | None = None


def count_moments(values: NDArray[Any], kind: UnitKind | None = None, zone: str | None = None) -> Cells:
    """Return an array of numpy's dates or durations as numbers with a unit.

    Examples
    --------
    >>> cells = count_moments(np.array(["1970-01-02", "NaT"], dtype="datetime64[D]"))
    >>> cells.array, cells.unit.kind
    (array([ 1., nan]), 'date')
    """
    code, count = np.datetime_data(values.dtype)
    step = _RESOLUTIONS.get(code, 1 if code in ("ps", "fs", "as") else DAY)
    step = step * count if DAY % (step * count) == 0 else step
    whole: UnitKind = "duration" if values.dtype.kind == "m" else "date" if step == DAY else "datetime"
    return Cells(count_days(values), unit=Unit(kind or whole, step, zone))


def count_objects(values: NDArray[Any]) -> Cells | None:
    """Return Python's dates, times or durations as numbers with a unit; None where values are of other or several
    kinds.
    """
    observed = [value for value in values.tolist() if not is_missing(value)]
    kinds = {_kind_of_object(value) for value in observed}
    if len(kinds) != 1 or None in kinds:
        return None
    ((kind, zoned),) = [item for item in kinds if item is not None]
    numbers = [math.nan if is_missing(value) else count_one_day(value) for value in values.tolist()]
    step = DAY if kind == "date" else 1000
    zone = str(observed[0].tzinfo) if zoned else None
    return Cells(np.array(numbers, dtype=np.float64), unit=Unit(kind, step, zone))


def _kind_of_object(value: Any) -> tuple[UnitKind, bool] | None:
    if not is_time_like(value):
        return None
    if isinstance(value, datetime.datetime | np.datetime64):
        return "datetime", getattr(value, "tzinfo", None) is not None
    if isinstance(value, datetime.time):
        return ("time", False) if value.tzinfo is None else None
    return ("date" if isinstance(value, datetime.date) else "duration"), False


def count_texts(
    name: str,
    codes: NDArray[Any],
    texts: Sequence[Any],
    unit: Unit | None = None,
    *,
    strict: bool = False,
    dates: str | None = None,
) -> Cells | None:
    """Return text cells, given as codes of distinct texts, as numbers with a unit where all texts are dates, times, or
    amounts of the same.

    Parameters
    ----------
    unit : Unit, optional
        Its pattern comes first where texts allow several.
    strict : bool
        Refuse texts that do not follow the pattern of `unit`.
    dates : str, optional
        The order of day, month and year where texts leave it open, such as "dmy"; such texts are refused where it is
        empty, and warned of by default.

    Examples
    --------
    >>> count_texts("d", np.array([0, -1]), ["1970-01-03"]).array, count_texts("c", np.array([0]), ["a"])
    (array([ 2., nan]), None)
    """
    occurring = [text for text in texts if isinstance(text, str)]
    if not occurring or len(occurring) < len(texts):
        return None
    if strict and unit is not None and unit.pattern is not None:
        days = parse_all_days(unit.pattern, occurring) or [
            _parse_strictly(name, codes, code, text, unit) for code, text in enumerate(occurring)
        ]
    elif not any(map(str.isdigit, occurring[0])):
        return None
    else:
        finder = PatternFinder(dates if unit is None else unit.pattern)
        if not finder.add(occurring) or finder.unit is None:
            if mixture := describe_mixture(occurring):
                warn_user(f"column {name!r} holds amounts {mixture}, so its cells are states; convert them to one unit")
            return None
        if finder.ambiguous:
            report_ambiguity(name, finder, refuse=dates is not None)
        unit, days = finder.unit, finder.numbers
    return Cells(np.array([*days, np.nan])[codes], unit=unit)


def _parse_strictly(name: str, codes: NDArray[Any], code: int, text: str, unit: Unit) -> float:
    number = unit.parse(text)
    if number is None:
        row = _first_row(codes == code) or 0
        raise TableError(f"column {name!r}, row {row}: {text!r} is not a {unit.kind} such as {unit.text(0.0)!r}")
    return number


def label_moments(name: str, cells: Cells) -> Cells:
    """Return numbers with a unit as discrete cells, whose states are dates or times of Python, or texts where the
    column holds texts.

    Examples
    --------
    >>> label_moments("d", Cells(np.array([1.0, np.nan]), unit=Unit("date"))).states
    (datetime.date(1970, 1, 2),)
    """
    unit, (codes, distinct) = cells.unit, pandas.factorize(cells.array, sort=True)
    assert unit is not None
    values = unit.list_values(distinct) if unit.pattern is None else map(unit.text, distinct.tolist())
    return label_codes(name, codes, values)


def report_ambiguity(name: str, finder: PatternFinder, *, refuse: bool) -> None:
    """Refuse a column of dates whose day and month could be either way round, or of amounts whose only sign could be
    before decimals or between thousands; or warn of it.
    """
    text, units = finder.example, [unit_of_texts(pattern) for pattern in finder.candidates]
    values = [Continuous(name, unit=unit).restore(unit.parse(text)) for unit in units]
    is_time = units[0].is_time
    what, doubt = ("dates", "order of year, month and day") if is_time else ("amounts", "sign before decimals")
    if not refuse:
        remedy = "dates as in 2024-01-31 leave no doubt" if is_time else "numbers leave no doubt"
        warn_user(
            f"column {name!r} holds {what} such as {text!r}, whose {doubt} its cells leave open; read as"
            f" {finder.pattern}, so this one is {values[0]}; {remedy}",
        )
        return
    orders = [f"dates={order_of_pattern(str(unit.pattern))!r}" if is_time else f"{unit.pattern!r}" for unit in units]
    told = " or ".join(f"{order} as {value}" for order, value in zip(orders, values, strict=True))
    open_to = "no cell tells day and month apart" if is_time else "no cell tells decimals and thousands apart"
    raise TableError(
        f"column {name!r} holds {what} such as {text!r}, and {open_to}:"
        f" {told.replace(' as ', ' reads it as ', 1)}; or read the column as text with discrete=[{name!r}]"
    )


def state_kind(state: Any) -> str:
    """Return "bool", "number", "text" or the name of another type; the states of a column are of one kind."""
    if isinstance(state, bool | np.bool_):
        return "bool"
    if isinstance(state, int | float | np.number):
        return "number"
    return "text" if isinstance(state, str) else type(state).__name__


def label_objects(name: str, values: NDArray[Any], kind: Kind | None) -> Cells:
    """Return the cells of an array of Python values; raise `TableError` for mixed and for unusable types."""
    from pandas.api.types import infer_dtype

    inferred = infer_dtype(values, skipna=True)
    if inferred in {"string", "boolean"} or (inferred == "integer" and kind == "discrete"):
        codes, states = pandas.factorize(values)
        return label_codes(name, codes, states)
    if inferred == "empty":
        is_number, size = kind == "continuous", len(values)
        return check_numbers(name, np.full(size, np.nan)) if is_number else label_codes(name, np.full(size, -1), ())
    if inferred in {"integer", "floating", "mixed-integer-float", "decimal"}:
        try:
            floats = np.where(pandas.isna(values), math.nan, values).astype(np.float64)
        except OverflowError:
            raise TableError(f"column {name!r} holds an integer too large for a floating-point number") from None
        return (
            label_floats(name, floats)
            if kind == "discrete"
            else check_numbers(name, floats, integer=inferred == "integer")
        )
    cells = count_objects(values)
    if cells is not None:
        return cells
    raise _refuse_objects(name, values)


class UnsupportedType(TableError):
    """A column of a type that no variable has.

    Attributes
    ----------
    reason : str
        What it holds, in a few words.
    """

    def __init__(self, text: str, reason: str = "of no usable type") -> None:
        super().__init__(text)
        self.reason = reason


Refusal = TypeVar("Refusal", bound=HybridBNError)


def reword_error(error: Refusal, text: str) -> Refusal:
    """Return an error with another text.

    Examples
    --------
    >>> reword_error(UnsupportedType("a list", "of type list"), "x: a list").reason
    'of type list'
    """
    reworded = copy.copy(error)
    reworded.args = (text,)
    return reworded


@contextmanager
def reword_errors(reword: Callable[[str], str], *others: type[HybridBNError]) -> Iterator[None]:
    """Change the texts of errors that say what is wrong with a table, and of those of a few other kinds.

    Examples
    --------
    >>> with reword_errors(lambda text: f"t.csv: {text}"):
    ...     raise TableError("no rows")
    Traceback (most recent call last):
        ...
    hybridbn.errors.TableError: t.csv: no rows
    """
    try:
        yield
    except HybridBNError as error:
        if type(error) not in (TableError, UnsupportedType, *others):
            raise
        raise reword_error(error, reword(error.text)) from error.__cause__


def _refuse_objects(name: str, values: NDArray[Any]) -> TableError:
    """Return why an object column can't be used; a loop over the rows, which runs only before an error."""
    first: dict[str, tuple[int, Any]] = {}
    for row, value in enumerate(values.tolist()):
        if not is_missing(value):
            first.setdefault(type(value).__name__, (row, value))
    if len(first) > 1:
        seen = ", ".join(f"{kind} ({value!r} in row {row})" for kind, (row, value) in list(first.items())[:6])
        text = f"column {name!r} mixes values of several types: {seen}; convert them all to text, or all to numbers"
        plain = all(isinstance(value, str | Number | np.bool_) for _, value in first.values())
        return TableError(text) if plain else UnsupportedType(text, f"of types {', '.join(list(first)[:4])}")
    kind, (row, value) = next(iter(first.items()), ("NaT", (0, "NaT")))
    text = f"column {name!r}, row {row}: {str(value)[:60]!r} is a {kind}; {suggest_remedy(kind)}"
    return UnsupportedType(text, f"of type {kind}")


_REMEDIES = {
    "period": "convert periods to dates first, with pandas for example column.dt.to_timestamp()",
    "complex": "split a complex number into two real columns",
    "bytes|binary": "decode bytes to text first, or cast them in a query of the database",
    "list|dict|struct|map|array|tuple|set": (
        "nested values are no cells: leave out this column, or make columns of what they hold"
    ),
    "": "columns must hold text, numbers or truth values: convert or leave out this one",
}
"""What to do with columns of unusable types, by words in the names of these; the first one counts."""


def suggest_remedy(kind: str) -> str:
    """Return the remedy for a column whose type is neither text nor truth values nor real numbers."""
    return next(remedy for words, remedy in _REMEDIES.items() if re.search(words, kind, re.IGNORECASE))


def make_type_error(name: str, dtype: Any) -> UnsupportedType:
    """Return the error for a column of an unusable type, with a remedy."""
    shown = str(getattr(dtype, "name", dtype))  # numpy calls bytes "S1", but names them
    return UnsupportedType(f"column {name!r} is of type {shown}; {suggest_remedy(shown)}", f"of type {shown:.40}")


# --- reading cells against a variable -------------------------------------------------------------------------------


def convert_cells(name: str, cells: Cells, kind: Kind | None) -> Cells:
    """Return cells as cells of a kind; for `kind` None they stay as they are."""
    if kind == "discrete" and cells.states is None:
        return label_floats(name, cells.array) if cells.unit is None else label_moments(name, cells)
    if kind == "continuous" and cells.states is not None:
        return check_numbers(
            name, convert_to_numbers(name, cells), integer=all(isinstance(state, int) for state in cells.states)
        )
    return cells


def convert_to_numbers(name: str, cells: Cells) -> Values:
    """Return the numbers that are the states of discrete cells."""
    states = cells.states or ()
    numbers = [state if isinstance(state, int | float) else None for state in states]
    odd = [code for code, number in enumerate(numbers) if number is None]
    row = _first_row(np.isin(cells.array, odd)) if odd else None
    if row is not None:
        raise TableError(
            f"column {name!r}, row {row}: {states[cells.array[row]]!r} is not a number, but the column is wanted as a "
            "continuous one; convert it to numbers first"
        )
    return np.asarray(np.array([*numbers, None], dtype=np.float64)[cells.array])


def recode_cells(name: str, cells: Cells, variable: Variable, *, unknown_missing: bool = False) -> Cells:
    """Return cells as the codes or values of a given variable.

    Unknown states raise `TableError`, or become missing cells with `unknown_missing`.
    """
    if isinstance(variable, Continuous):
        if cells.unit is not None and (variable.unit is None or not variable.unit.accepts(cells.unit)):
            wanted = "plain numbers" if variable.unit is None else f"a {variable.unit.kind}"
            raise TableError(f"column {name!r} holds a {cells.unit.kind}, but {name!r} is {wanted}; convert it first")
        array: Values = cells.array if cells.states is None else convert_to_numbers(name, cells)
        if variable.domain != (-math.inf, math.inf):
            _check_domain(name, array, variable)
        return Cells(array, ordered=cells.ordered, integer=cells.integer, unit=cells.unit or variable.unit)
    if (
        cells.states is not None
        and cells.states == variable.states
        and variable.cuts is None
        and ([type(s) for s in cells.states] == [type(s) for s in variable.states])
    ):
        return Cells(cells.array, variable.states, cells.declared, cells.ordered)
    if cells.states is None and variable.cuts is not None:
        return Cells(variable.codes(cells.array), variable.states)
    if cells.states is None:
        cells = convert_cells(name, cells, "discrete")
    states = cells.states or ()
    positions = np.full(len(states), -1, dtype=np.intp)
    unknown = []
    for code, state in enumerate(states):
        try:
            positions[code] = variable.code(state)
        except TableError:
            unknown.append(code)
    if unknown and not unknown_missing:
        _refuse_unknown(name, cells, unknown, variable)
    return Cells(_translate_codes(cells.array, positions), variable.states, cells.declared, cells.ordered)


def _refuse_unknown(name: str, cells: Cells, unknown: list[int], variable: Discrete) -> None:
    where = np.isin(cells.array, unknown)
    row = _first_row(where)
    if row is None:  # the unknown states are levels of the column's type that no row has
        return
    state = (cells.states or ())[int(cells.array[row])]
    known, hint = {state_kind(item) for item in variable.states}, ""
    if state_kind(state) not in known and len(known) == 1:
        hint = f" (the states are of type {known.pop()}, the value is of type {state_kind(state)})"
    raise TableError(
        f"column {name!r}, row {row}: {state!r} is not a state{hint}; the known states are {shorten(variable.states)} "
        f"({int(where.sum())} cells in all; unknown='missing' would treat them as missing)"
    )


def _check_domain(name: str, array: Values, variable: Continuous) -> None:
    low, high = variable.domain
    row = _first_row((array < low) | (array > high))
    if row is not None:
        raise TableError(f"column {name!r}, row {row}: {array[row]} lies outside the domain [{low}, {high}]")


def _first_row(where: NDArray[np.bool_]) -> int | None:
    return int(np.argmax(where)) if where.any() else None


# --- values of cells --------------------------------------------------------------------------------------------------


class PlainValues(NamedTuple):
    """The values of cells, of one type; missing ones are replaced by a filler (None for objects)."""

    form: Literal["float", "integer", "bool", "text", "category", "object"]
    values: NDArray[Any]
    missing: NDArray[np.bool_]

    @property
    def fits_integers(self) -> bool:
        """Whether all values are whole numbers."""
        if self.form != "float":
            return self.form == "integer"
        return bool((self.values == np.floor(self.values))[~self.missing].all())


def as_plain(cells: Cells) -> PlainValues:
    """Return the values of cells; those of text and categories are codes of the cells' states.

    Examples
    --------
    >>> as_plain(Cells(np.array([1.0, np.nan]), integer=True)).values
    array([1, 0])
    """
    missing = cells.missing
    if cells.states is None:
        whole = cells.integer and (np.abs(cells.array[~missing]) < EXACT_INTEGERS).all()
        if whole and (cells.array == np.floor(cells.array))[~missing].all():
            return PlainValues("integer", np.where(missing, 0, cells.array).astype(np.int64), missing)
        return PlainValues("float", cells.array, missing)
    types = {type(state) for state in cells.states}
    if types == {bool} and not (cells.declared and cells.states == (True, False)):
        return PlainValues("bool", decode_states(cells, bool, False), missing)
    if types == {str}:
        return PlainValues("category" if cells.declared else "text", cells.array, missing)
    if types == {int} and not cells.declared and all(-(2**63) <= int(str(state)) < 2**63 for state in cells.states):
        return PlainValues("integer", decode_states(cells, np.int64, 0), missing)
    if types == {float} and not cells.declared:
        return PlainValues("float", decode_states(cells, np.float64, np.nan), missing)
    if cells.declared and cells.states:
        return PlainValues("category", cells.array, missing)
    return PlainValues("object", decode_states(cells, object, None), missing)


def decode_states(cells: Cells, dtype: Any, filler: Any) -> NDArray[Any]:
    """Return the states of the cells as an array of a type, with a filler where one is missing."""
    return np.asarray(as_objects([*(cells.states or ()), filler]).astype(dtype)[cells.array])
