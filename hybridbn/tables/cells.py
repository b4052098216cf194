"""The cells of a column as numbers or as state codes, how they are read against a variable, and what values they stand for.

Cells are either *numbers* (floats, ``NaN`` where one is missing) or *labels* (codes into the column's states, ``-1``
where one is missing). Everything here is vectorized over the rows; only distinct states are looked at one by one.
"""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from hybridbn.errors import TableError
from hybridbn.variables import Codes, Continuous, Discrete, Values, Variable, is_missing, plain_state, shorten

__all__ = [
    "Cells",
    "Kind",
    "PlainValues",
    "as_objects",
    "as_plain",
    "check_numbers",
    "convert_cells",
    "convert_to_numbers",
    "decode_states",
    "describe_look_alikes",
    "freeze_array",
    "label_codes",
    "label_floats",
    "label_objects",
    "make_type_error",
    "recode_cells",
    "state_kind",
]

Kind: TypeAlias = Literal["discrete", "continuous"]

EXACT_INTEGERS = 2.0**53
"""From here on, neighboring integers share a float."""


@dataclass(frozen=True, slots=True, eq=False)
class Cells:
    """The cells of one column: floats, or codes of `states`.

    `declared` tells that the states come from a type that names them (a category, an enumeration, bool) and not from
    the values that occur; `integer` that the numbers are of an integer type.
    """

    array: NDArray[Any]
    states: tuple[Hashable, ...] | None = None
    declared: bool = False
    ordered: bool = False
    integer: bool = False

    def __post_init__(self) -> None:
        freeze_array(self.array)

    @property
    def missing(self) -> NDArray[np.bool_]:
        """Where a cell is missing."""
        holes: NDArray[np.bool_] = np.isnan(self.array) if self.states is None else self.array < 0
        return holes

    def take(self, rows: NDArray[np.intp]) -> Cells:
        """Return the cells of some rows."""
        return Cells(self.array[rows], self.states, self.declared, self.ordered, self.integer)


def freeze_array(array: NDArray[Any]) -> NDArray[Any]:
    """Make an array read-only and return it."""
    array.flags.writeable = False
    return array


def as_objects(items: Sequence[Any]) -> NDArray[Any]:
    """Return a one-dimensional object array of the items, whatever they are."""
    array = np.empty(len(items), dtype=object)
    array[:] = items
    return array


# --- making cells -------------------------------------------------------------------------------------------------


def check_numbers(name: str, values: NDArray[Any], *, integer: bool = False) -> Cells:
    """Return continuous cells; refuse the infinite ones."""
    array = np.ascontiguousarray(values, dtype=np.float64)
    # One sum finds every infinity (and the overflow of large numbers, which the second look clears).
    with np.errstate(over="ignore", invalid="ignore"):
        suspicious = not math.isfinite(float(array.sum())) if array.size else False
    if suspicious:
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
    name: str, codes: NDArray[Any], states: Iterable[Any], *, declared: bool = False, ordered: bool = False
) -> Cells:
    """Return discrete cells; states found in the values (not `declared` by a type) are put in sorted order."""
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
    states_of: dict[Hashable, int] = {}
    positions_of = []
    for state in named:
        try:
            positions_of.append(-1 if is_missing(state) else states_of.setdefault(state, len(states_of)))
        except TypeError:
            raise TableError(f"column {name!r}: the state {state!r} is not hashable; convert it to text") from None
    if positions_of != list(range(len(named))):
        codes = _translate_codes(codes, positions_of)
    return Cells(np.ascontiguousarray(codes, dtype=np.intp), tuple(states_of), declared, ordered)


def _translate_codes(codes: NDArray[Any], positions: Sequence[int] | NDArray[np.intp]) -> Codes:
    # The last place of the lookup table is where code -1 lands.
    table = np.full(len(positions) + 1, -1, dtype=np.intp)
    table[:-1] = positions
    translated: Codes = table[codes]
    return translated


def _convert_whole_numbers(name: str, states: list[Any]) -> list[Any]:
    """Return float-coded integers as the integers they stand for, unless a state is a genuine fraction."""
    if any(isinstance(state, float) and not math.isfinite(state) for state in states):
        raise TableError(f"column {name!r}: states must be finite numbers, not {shorten(states)}")
    if all(is_missing(state) or state == int(state) for state in states):
        return [state if is_missing(state) else int(state) for state in states]
    return [state if is_missing(state) else float(state) for state in states]


def label_floats(name: str, values: NDArray[Any]) -> Cells:
    """Return a number column as discrete cells: each distinct number is a state, whole ones are integers."""
    from pandas import factorize

    if values.dtype.kind == "f":
        check_numbers(name, values)
    codes, found = factorize(values)
    return label_codes(name, codes, found.tolist())


def state_kind(state: Any) -> str:
    """Tell which states may stand in one column: "bool", "number", "text", or the name of another type."""
    if isinstance(state, bool | np.bool_):
        return "bool"
    if isinstance(state, int | float | np.number):
        return "number"
    return "text" if isinstance(state, str) else type(state).__name__


def label_objects(name: str, values: NDArray[Any], kind: Kind | None) -> Cells:
    """Return the cells of an array of Python values; refuse a mixture of types and types that are no data."""
    from pandas import factorize, isna
    from pandas.api.types import infer_dtype

    found = infer_dtype(values, skipna=True)
    if found in {"string", "boolean"}:
        codes, states = factorize(values)
        return label_codes(name, codes, states)
    if found == "empty":
        if kind == "continuous":
            return check_numbers(name, np.full(len(values), np.nan))
        return label_codes(name, np.full(len(values), -1), ())
    if found in {"integer", "floating", "mixed-integer-float", "decimal"}:
        if kind == "discrete" and found == "integer":
            codes, states = factorize(values)
            return label_codes(name, codes, states)
        try:
            floats = np.where(isna(values), math.nan, values).astype(np.float64)
        except OverflowError:
            raise TableError(f"column {name!r} holds an integer too large for a floating-point number") from None
        return (
            label_floats(name, floats)
            if kind == "discrete"
            else check_numbers(name, floats, integer=found == "integer")
        )
    raise TableError(_describe_refusal(name, values))


def _describe_refusal(name: str, values: NDArray[Any]) -> str:
    """Say why an object column can't be used; a loop over the rows, run only on the way to an error."""
    first: dict[str, tuple[int, Any]] = {}
    for row, value in enumerate(values.tolist()):
        if not is_missing(value):
            first.setdefault(type(value).__name__, (row, value))
    if len(first) > 1:
        seen = ", ".join(f"{kind} ({value!r} in row {row})" for kind, (row, value) in list(first.items())[:6])
        return f"column {name!r} mixes values of several types: {seen}; convert them all to text, or all to numbers"
    kind, (row, value) = next(iter(first.items()), ("NaT", (0, "NaT")))
    return f"column {name!r}, row {row}: {str(value)[:60]!r} is a {kind}; {suggest_remedy(kind)}"


def suggest_remedy(kind: str) -> str:
    """Say what can be done about a type that is neither text, truth nor a real number."""
    lowered = kind.lower()
    if "delta" in lowered or "duration" in lowered:
        return "a duration must be converted to a number first, for example its seconds"
    if any(word in lowered for word in ("date", "time", "nat", "period")):
        return "a point in time must be converted first: to a number (days since a date) or to text (its month)"
    if "complex" in lowered:
        return "split a complex number into two real columns"
    if any(word in lowered for word in ("bytes", "binary")):
        return "decode bytes to text first"
    return "columns must hold text, numbers or truth values: convert or leave out this one"


def make_type_error(name: str, dtype: Any) -> TableError:
    """Return the error that says why a column of a type can't be used, and what can be done."""
    shown = str(getattr(dtype, "name", dtype))  # numpy calls bytes "S1", but names them
    return TableError(f"column {name!r} is of type {shown}; {suggest_remedy(shown)}")


def describe_look_alikes(name: str, states: Iterable[Hashable]) -> str | None:
    """Describe the first two states that differ only in spaces or in how Unicode spells an accent."""
    seen: dict[str, str] = {}
    for state in states:
        if isinstance(state, str):
            plain = " ".join(state.split())
            other = seen.setdefault(plain if plain.isascii() else unicodedata.normalize("NFC", plain), state)
            if other is not state:
                return f"column {name!r}: the states {other!r} and {state!r} ({other!a}, {state!a})"
    return None


# --- reading cells against a variable -------------------------------------------------------------------------------


def convert_cells(name: str, cells: Cells, kind: Kind | None) -> Cells:
    """Return cells in the asked-for form: `kind` None keeps numbers continuous and labels discrete."""
    if kind == "discrete" and cells.states is None:
        return label_floats(name, cells.array)
    if kind == "continuous" and cells.states is not None:
        return check_numbers(
            name, convert_to_numbers(name, cells), integer=all(isinstance(state, int) for state in cells.states)
        )
    return cells


def convert_to_numbers(name: str, cells: Cells) -> Values:
    """Return discrete cells whose states are numbers as those numbers."""
    states = cells.states or ()
    table = np.full(len(states) + 1, math.nan)
    for code, state in enumerate(states):
        if not isinstance(state, int | float):
            row = _first_row(cells.array == code)
            if row is None:
                continue
            raise TableError(
                f"column {name!r}, row {row}: {state!r} is not a number, but the column is wanted as a continuous one; "
                "convert it to numbers first"
            )
        table[code] = state
    values: Values = table[cells.array]
    return values


def recode_cells(name: str, cells: Cells, variable: Variable, *, unknown_missing: bool = False) -> Cells:
    """Return cells as the codes or values of a given variable.

    Unknown states raise `TableError`, or become missing cells with `unknown_missing`.
    """
    if isinstance(variable, Continuous):
        if cells.states is None:
            array: Values = cells.array
        elif any(isinstance(state, bool) for state in cells.states):
            raise TableError(f"column {name!r} holds truth values, but {name!r} is continuous; convert it to numbers")
        else:
            array = convert_to_numbers(name, cells)
        _check_domain(name, array, variable)
        return Cells(array, integer=cells.integer)
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
        cells = label_floats(name, cells.array)
    found = cells.states or ()
    positions = np.full(len(found) + 1, -1, dtype=np.intp)
    unknown = []
    for code, state in enumerate(found):
        try:
            positions[code] = variable.code(state)
        except TableError:
            unknown.append(code)
    if unknown and not unknown_missing:
        _refuse_unknown(name, cells, unknown, variable)
    return Cells(positions[cells.array], variable.states, cells.declared, cells.ordered)


def _refuse_unknown(name: str, cells: Cells, unknown: list[int], variable: Discrete) -> None:
    strange = np.zeros(len(cells.states or ()) + 1, dtype=bool)
    strange[unknown] = True
    where = strange[cells.array]
    row = _first_row(where)
    if row is None:  # a level of the type that no row has
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
    if low == -math.inf and high == math.inf:
        return
    row = _first_row((array < low) | (array > high))
    if row is not None:
        raise TableError(f"column {name!r}, row {row}: {array[row]} lies outside the domain [{low}, {high}]")


def _first_row(where: NDArray[np.bool_]) -> int | None:
    return int(np.argmax(where)) if where.any() else None


# --- what cells stand for ---------------------------------------------------------------------------------------------


class PlainValues(NamedTuple):
    """Cells as values of one plain type; where `missing` holds, the value is a filler (None for objects)."""

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
    """Return cells as values; text and categories stay codes (``values``), their states being in the cells.

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
    if types == {bool}:
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
    """Return the state of each cell as an array of some type, and the filler where one is missing."""
    table = np.empty(len(cells.states or ()) + 1, dtype=dtype)
    table[:-1] = as_objects(cells.states or ())
    table[-1] = filler
    values: NDArray[Any] = table[cells.array]
    return values
