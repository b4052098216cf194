"""What imputation makes of each column: part of the model, a constant, left alone, or drawn by itself."""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from hybridbn.errors import TableError
from hybridbn.tables import Table
from hybridbn.tables.columns import Column, read_as_variable, read_column
from hybridbn.tables.frames import Frame
from hybridbn.variables import Discrete, Values, Variable, shorten

__all__ = [
    "ROUNDED_ROWS",
    "Bounds",
    "Columns",
    "checked_bounds",
    "decimals_of",
    "draw_bounds",
    "grid_ends",
    "integer_ranges",
    "integer_type",
    "leave_out",
    "looks_like_identifier",
    "read_in_own_terms",
    "refuse_empty_bounds",
    "rounded",
    "sorted_out",
]

Bounds = Mapping[str, tuple[float, float]]

_IDENTIFIER_ROWS = 20
"""A column of fewer rows may well be all different by chance."""
_MARKS = frozenset({"", "?", "n/a", "na", "nan", "nat", "null", "<na>", "#n/a"})
"""Text that stands for missing cells in many files."""
_LARGEST = 1e150
"""Numbers have squares."""


@dataclass(frozen=True)
class Columns:
    """The columns of a table, sorted out.

    Attributes
    ----------
    variables : mapping from column to Variable
        Of those that are completed; discrete ones have the states that occur, and no others.
    modeled : tuple of str
        Those that depend on each other.
    constants : mapping from column to value
        Columns in which all observed cells are equal.
    alone : tuple of str
        Identifiers that are completed on request, from their own values.
    decimals : mapping from column to int
        How many decimals all observed numbers of a column have at most, and imputed ones get; 0 for whole numbers.
    bounds : mapping from column to (low, high)
    ranges : mapping from column to (low, high)
        What integer types can hold; numbers beyond become the ends.
    """

    variables: Mapping[str, Variable]
    modeled: tuple[str, ...]
    constants: Mapping[str, Any]
    alone: tuple[str, ...]
    decimals: Mapping[str, int]
    bounds: Bounds
    ranges: Bounds


def draw_bounds(columns: Columns) -> dict[str, tuple[float, float]]:
    """Return bounds as draws have to respect them: where they are rounded later, half a unit more at both ends."""
    found = dict(columns.bounds)
    for name in columns.bounds.keys() & columns.decimals.keys():
        decimals = columns.decimals[name]
        low, high = grid_ends(*columns.bounds[name], decimals)
        found[name] = (low - 0.5 * 10.0**-decimals, high + 0.5 * 10.0**-decimals)
    return found


def sorted_out(
    table: Table,
    include: str | Iterable[str] = (),
    integers: str | Iterable[str] | None = None,
    bounds: Any = None,
    ranges: Bounds | None = None,
    full_precision: bool = False,
    decimals: Mapping[str, int] | None = None,
) -> Columns:
    """Sort the columns of a table out, refusing those without any value and naming identifiers in one warning.

    `decimals`, where they are known of a larger table, are not looked for in this one.

    Examples
    --------
    >>> columns = sorted_out(Table({"x": [1.0, None, 2.0], "c": ["a", "a", "a"], "y": [0.5, 1.0, 1.5]}))
    >>> columns.modeled, dict(columns.constants), columns.decimals
    (('x', 'y'), {'c': 'a'}, {'x': 0})
    """
    table.require_rows(1).require_values()
    asked = _names("include", include, table)
    limits = checked_bounds(bounds, table)
    modeled: list[str] = []
    alone: list[str] = []
    identifiers: list[str] = []
    constants: dict[str, Any] = {}
    variables: dict[str, Variable] = {}
    for name in table.names:
        variable, column = table.variable(name), table.column(name)
        seen = column[~table.cells(name).missing]
        if isinstance(variable, Discrete) and variable.cuts is None:
            # a state that never occurs is no candidate for a hole
            occurring = np.unique(seen)
            variable = Discrete(name, states=tuple(variable.states[code] for code in occurring))
            if looks_like_identifier(table, name):
                (alone if name in asked else identifiers).append(name)
                if name in asked:
                    variables[name] = variable
                continue
        variables[name] = variable
        _refuse_sizes(name, seen)
        if (seen == seen[0]).all():
            constants[name] = variable.states[0] if isinstance(variable, Discrete) else float(seen[0])
        else:
            modeled.append(name)
    _warn_of_constants(table, constants)
    _warn_of_marks(variables)
    if identifiers:
        holes = [name for name in identifiers if table.cells(name).missing.any()]
        left = (
            f"; their {sum(int(table.cells(n).missing.sum()) for n in holes)} missing cells stay missing"
            if holes
            else ""
        )
        warnings.warn(
            f"columns {shorten(identifiers)} have a different value in each row, as identifiers have, and are left alone{left}; "
            f"name them in skip to say so, or in include to complete them from their own values",
            stacklevel=4,
        )
    if decimals is None:
        decimals = _decimals(table, variables, integers, full_precision)
    decimals = refuse_empty_bounds(limits, decimals)
    return Columns(variables, tuple(modeled), constants, tuple(alone), decimals, limits, ranges or {})


def _refuse_sizes(name: str, seen: Values) -> None:
    with np.errstate(over="ignore"):
        size, spread = float(np.abs(seen).max()), float(np.ptp(seen))
    if seen.dtype.kind == "f" and spread > 0 and not (size < _LARGEST and spread > 1 / _LARGEST):
        what = f"numbers as large as {size:g}" if size >= _LARGEST else f"numbers that differ by {spread:g} at most"
        raise TableError(f"column {name!r} holds {what}, whose squares are no floating-point numbers; use another unit")


def _warn_of_constants(table: Table, constants: Mapping[str, Any]) -> None:
    holes = [name for name in constants if table.cells(name).missing.any()]
    if holes:
        warnings.warn(
            f"columns {shorten(holes)} have the same value in every observed cell, and get it in the others, too; name them in "
            "skip to leave them as they are",
            stacklevel=5,
        )


def _warn_of_marks(variables: Mapping[str, Variable]) -> None:
    found = {}
    for name, variable in variables.items():
        states = variable.states if isinstance(variable, Discrete) else ()
        marks = [state for state in states if isinstance(state, str) and state.strip().lower() in _MARKS]
        if marks:
            found[name] = marks
    if found:
        shown = ", ".join(f"{name!r} ({shorten(marks)})" for name, marks in found.items())
        warnings.warn(
            f"columns hold text that often stands for missing cells, and is an ordinary state here: {shown}; replace it with "
            "None to have it imputed",
            stacklevel=5,
        )


def refuse_empty_bounds(bounds: Bounds, decimals: Mapping[str, int]) -> dict[str, int]:
    """Refuse bounds without a whole number for columns of these; return what is rounded: nothing that bounds leave no room for."""
    found = dict(decimals)
    for name, (low, high) in bounds.items():
        first, last = grid_ends(low, high, decimals.get(name, 0))
        if name not in decimals or first <= last:
            continue
        if decimals[name] == 0:
            raise TableError(
                f"bounds of {name!r}: there is no whole number between {low} and {high}, and the column holds whole numbers; "
                "widen them, or say integers=()"
            )
        del found[name]
    return found


def checked_bounds(bounds: Any, table: Table | None = None) -> dict[str, tuple[float, float]]:
    """Return bounds as floats, "observed" standing for the range of the observed values."""
    if bounds is None:
        return {}
    if isinstance(bounds, str) and bounds == "observed" and table is not None:
        bounds = {name: "observed" for name in table.names if not table.is_discrete(name)}
    if not isinstance(bounds, Mapping):
        raise TableError(f"bounds must be a mapping such as {{'age': (0, 120)}} or 'observed', not {bounds!r:.60}")
    found = {}
    for name, ends in bounds.items():
        if table is not None and (name not in table or table.is_discrete(name)):
            what = "is discrete" if name in table else "is no column"
            raise TableError(f"bounds: {name!r} {what}; bounds are for columns of numbers")
        if isinstance(ends, str) and ends == "observed" and table is not None:
            ends = (np.nanmin(table.column(name)), np.nanmax(table.column(name)))
        try:
            low, high = (
                -math.inf if end is None and i == 0 else math.inf if end is None else float(end)
                for i, end in enumerate(ends)
            )
        except (TypeError, ValueError):
            raise TableError(
                f"bounds of {name!r} must be a pair (low, high) of numbers or None, not {ends!r}"
            ) from None
        if not low < high:
            raise TableError(f"bounds of {name!r} need low < high, not ({low}, {high})")
        found[name] = (low, high)
    return found


def _decimals(
    table: Table, variables: Mapping[str, Variable], integers: str | Iterable[str] | None, full_precision: bool
) -> dict[str, int]:
    numbers = {name: _seen(table, name) for name in variables if not table.is_discrete(name)}
    asked = frozenset() if integers is None else _names("integers", integers, table)
    for name in asked:
        if table.is_discrete(name):
            raise TableError(f"integers={name!r}: the column is discrete, so its values are never rounded")
        if decimals_of(_seen(table, name)) != 0:
            raise TableError(f"integers={name!r}: the column holds numbers that are not whole")
    found = {}
    for name, seen in numbers.items():
        decimals = decimals_of(seen)
        if decimals == 0:
            # an integer type can't hold anything else
            if integers is None or name in asked or integer_type(table, name):
                found[name] = 0
        elif decimals is not None and len(seen) >= ROUNDED_ROWS and not full_precision:
            found[name] = decimals
    return found


def _seen(table: Table, name: str) -> Values:
    column = table.column(name)
    return np.asarray(column[~np.isnan(column)])


def looks_like_identifier(table: Table, name: str) -> bool:
    """Tell whether a discrete column has a different value in each of many rows.

    Examples
    --------
    >>> looks_like_identifier(Table({"id": [f"p{i}" for i in range(20)]}), "id")
    True
    """
    variable, column = table.variable(name), table.column(name)
    if not isinstance(variable, Discrete) or len(variable) < _IDENTIFIER_ROWS:
        return False
    seen = column[column >= 0]
    return bool(_IDENTIFIER_ROWS <= len(seen) == len(np.unique(seen)))


def integer_type(table: Table, name: str) -> bool:
    """Tell whether a column of numbers is of an integer type, which can hold nothing but whole numbers.

    Examples
    --------
    >>> table = Table({"x": [1, None], "y": [1.0, None]})
    >>> integer_type(table, "x"), integer_type(table, "y")
    (True, False)
    """
    first = next((value for value in table.raw(name) if value is not None), None)
    return isinstance(first, int) and not isinstance(first, bool)


def _names(option: str, names: str | Iterable[str], table: Table) -> frozenset[str]:
    found = frozenset([names] if isinstance(names, str) else names)
    for name in found:
        if name not in table:
            raise TableError(f"{option}={name!r}: there is no such column; the columns are {shorten(table.names)}")
    return found


ROUNDED_ROWS = 20
"""Fewer numbers may well have few decimals by chance."""
_MOST = 6
_DIGITS = (("f8", 1e13), ("f4", 1e6))
"""Beyond, rounding takes nothing away from floats, which have 16 digits, or from those of half the size, which have 7."""


def decimals_of(values: Values, least: int = 0) -> int | None:
    """Return how many decimals numbers have at most, but not fewer than `least`; None where there are more than six.

    Examples
    --------
    >>> decimals_of(np.array([1.5, 2.25, -3.0])), decimals_of(np.array([1.0, 2.0])), decimals_of(np.array([1 / 3]))
    (2, 0, None)
    >>> decimals_of(np.array([0.1, 2.5], dtype=np.float32).astype(np.float64))
    1
    """
    size = float(np.abs(values).max(initial=0.0))
    for kind, digits in _DIGITS:
        with np.errstate(over="ignore"):
            own = values.astype(kind)
        if (own != values).any():
            continue
        for decimals in range(least, _MOST + 1):
            if decimals and size * 10.0**decimals > digits:
                break
            # a few numbers tell most often that it isn't so
            if all((np.round(part, decimals).astype(own.dtype) == part).all() for part in (values[:20], values)):
                return decimals
    return None


def rounded(values: Values, decimals: int) -> Values:
    """Return numbers with so many decimals, none of them -0.0.

    Examples
    --------
    >>> rounded(np.array([0.126, -0.001]), 2).tolist()
    [0.13, 0.0]
    """
    return np.asarray(np.round(values, decimals) + 0.0)


def grid_ends(low: float, high: float, decimals: int) -> tuple[float, float]:
    """Return the least and the greatest number with so many decimals within bounds; the first is greater if there is none.

    Examples
    --------
    >>> grid_ends(0.7, np.inf, 1), grid_ends(0.21, 0.49, 1), grid_ends(0.21, 0.29, 1)
    ((0.7, inf), (0.3, 0.4), (0.3, 0.2))
    """
    first, last = (float(rounded(np.array(end), decimals)) for end in (low, high))
    step = 10.0**-decimals
    first = first if first >= low else float(rounded(np.array(first + step), decimals))
    return first, last if last <= high else float(rounded(np.array(last - step), decimals))


def leave_out(frame: Frame, skip: str | Iterable[str] = ()) -> Frame:
    """Return a frame without some columns, which then may hold anything."""
    skipped = {skip} if isinstance(skip, str) else set(skip)
    for name in skipped:
        if name not in frame.columns:
            raise TableError(f"skip={name!r}: there is no such column; the columns are {shorten(frame.columns)}")
    return frame.select(name for name in frame.columns if name not in skipped)


def integer_ranges(frame: Frame) -> dict[str, tuple[float, float]]:
    """Return the least and the greatest number that a column's integer type can hold, of columns of such a type."""
    ranges = {}
    for name, values in frame.columns.items():
        dtype = str(getattr(values, "dtype", getattr(values, "type", "")))
        match = re.fullmatch(r"(u?)int(8|16|32|64)", dtype.lower())
        if match:
            bits = int(match[2]) - (not match[1])
            # floats are too coarse for the greatest numbers of 64 bits, and nobody gets there
            high = float(2**bits - 1) if bits < 63 else np.inf
            ranges[name] = (0.0 if match[1] else -high - 1, high)
    return ranges


def read_in_own_terms(frame: Frame, known: Mapping[str, Variable]) -> Table:
    """Return the columns that a model knows, read by their own types where they have any value.

    A column of numbers that the model takes for states is read as these.
    """
    columns = [_read(frame.columns[name], variable) for name, variable in known.items() if name in frame.columns]
    return Table.from_columns(columns, frame)


def _read(values: Any, variable: Variable) -> Column:
    column = read_column(variable.name, values)
    if column.cells.missing.all():
        # only the model says what it is
        return read_as_variable(values, variable)
    wants_states = isinstance(variable, Discrete) and variable.cuts is None
    return read_column(variable.name, column, "discrete") if wants_states else column
