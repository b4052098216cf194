"""How imputation treats each column: modeled, constant, left alone or drawn by itself; its bounds and its decimals."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from hybridbn.errors import TableError, warn_user
from hybridbn.estimation.completion import collect_observed_numbers
from hybridbn.learning.imputation.rules import Rules, decimals_of, grid_ends, usual_decimals
from hybridbn.tables import Table
from hybridbn.tables.cells import integer_limits
from hybridbn.tables.columns import Column, Frame, describe_left_alone, read_as_variable, read_column
from hybridbn.units import coarsest_step
from hybridbn.variables import Continuous, Discrete, Values, Variable, shorten

Bounds = Mapping[str, tuple[float, float]]

_IDENTIFIER_ROWS = 20
"""In a column of fewer rows all values may well differ by chance."""
_NEARLY_ALL = 0.9
"""If this share of the cells of a text column differ, it is taken for an identifier."""
_WORDS_OF_TEXT = 4
"""If most cells of a text column differ and have this many words, it is taken for free text."""
_MISSING_MARKS = frozenset({"", "?", "n/a", "na", "nan", "nat", "null", "<na>", "#n/a"})
"""Texts that stand for missing cells in many files; they only cause a warning."""
_LARGEST_NUMBER = 1e150
"""The squares of larger numbers are close to the end of the range of floats."""
_ROUNDED_ROWS = 20
"""Columns with fewer observed numbers are not rounded, as these may have few decimals by chance."""


@dataclass(frozen=True)
class ModelColumns:
    """The columns that imputation completes, and what it does with each.

    Attributes
    ----------
    variables : mapping from column to Variable
        The columns that are completed; discrete ones have the states that occur, and no others.
    modeled : tuple of str
        The columns of the network, which depend on each other.
    constants : mapping from column to value
        Columns in which all observed cells are equal.
    alone : tuple of str
        Identifiers that are completed on request, from their own values.
    decimals : mapping from column to int
        The decimals that nearly all of a column's observed numbers have at most, and imputed ones get; 0 for whole
        numbers.
    bounds : mapping from column to (low, high)
    ranges : mapping from column to (low, high)
        The range of a column's integer type; imputed numbers are clipped to it.
    rules : Rules
        What imputed numbers keep. The bounds of clock times are in minutes.
    """

    variables: Mapping[str, Variable]
    modeled: tuple[str, ...]
    constants: Mapping[str, Any]
    alone: tuple[str, ...]
    decimals: Mapping[str, int]
    bounds: Bounds
    ranges: Bounds
    rules: Rules = field(default_factory=Rules)

    def with_rules(self, rules: Rules) -> ModelColumns:
        """Return the columns with rules, which bounds of the user restrict."""
        bounds = rules.encode_bounds(self.bounds)
        return replace(self, bounds=bounds, rules=rules.within(bounds))

    def widen(self, bounds: Bounds) -> dict[str, tuple[float, float]]:
        """Return the bounds of unrounded draws: half a unit wider at both ends where the numbers are rounded later."""
        widened = dict(bounds)
        for name in bounds.keys() & self.decimals.keys():
            low, high = grid_ends(*bounds[name], self.decimals[name])
            half = 0.5 * 10.0 ** -self.decimals[name]
            widened[name] = (low - half, high + half)
        return widened


def classify_columns(
    table: Table,
    include: str | Iterable[str] = (),
    integers: str | Iterable[str] | None = None,
    bounds: Any = None,
    ranges: Bounds | None = None,
    full_precision: bool = False,
    unusable: Mapping[str, str] | None = None,
) -> ModelColumns:
    """Decide how each column is treated, and name all that are left alone in one warning.

    `unusable` are columns that are not in this table, and why.

    Examples
    --------
    >>> columns = classify_columns(Table({"x": [1.0, None, 2.0], "c": ["a", "a", "a"], "y": [0.5, 1.0, 1.5]}))
    >>> columns.modeled, dict(columns.constants), columns.decimals
    (('x', 'y'), {'c': 'a'}, {'x': 0})
    """
    table.require_rows(1).require_values()
    included = check_names("include", include, table.names)
    limits = check_bounds(bounds, table)
    modeled: list[str] = []
    alone: list[str] = []
    left_alone = dict(unusable or {})
    constants: dict[str, Any] = {}
    variables: dict[str, Variable] = {}
    for name in table.names:
        variable, column = table.variable(name), table.column(name)
        observed = column[~table.cells(name).missing]
        if isinstance(variable, Discrete) and variable.cuts is None:
            # holes never get a state that was not observed
            occurring = np.unique(observed)
            variable = Discrete(name, states=tuple(variable.states[code] for code in occurring))
            reason = reason_alone(table, name)
            if reason is not None and name in included:
                alone.append(name)
                variables[name] = variable
            elif reason is not None:
                left_alone[name] = reason
            if reason is not None:
                continue
        elif isinstance(variable, Continuous) and variable.unit is not None and not full_precision:
            variable = coarsen_unit(variable, observed)
        variables[name] = variable
        _refuse_extreme_numbers(name, observed)
        if (observed == observed[0]).all():
            constants[name] = variable.states[0] if isinstance(variable, Discrete) else float(observed[0])
        else:
            modeled.append(name)
    _warn_of_constants(table, constants)
    _warn_of_marks(variables)
    if left_alone:
        holes = sum(
            int(table.cells(name).missing.sum()) if name in table else len(table) * (reason == "no value")
            for name, reason in left_alone.items()
        )
        warn_user(
            f"{describe_left_alone(left_alone, holes)}; name them in skip to say so, or identifiers and texts in "
            "include to complete them from their own values",
        )
    decimals = refuse_empty_bounds(limits, _find_decimals(table, variables, integers, full_precision))
    return ModelColumns(variables, tuple(modeled), constants, tuple(alone), decimals, limits, ranges or {})


def coarsen_unit(variable: Continuous, observed: Values) -> Continuous:
    """Return a variable whose imputed values are rounded to days, hours, minutes, ... as all observed ones are."""
    unit = variable.unit
    if unit is None or len(observed) < _ROUNDED_ROWS:
        return variable
    return replace(variable, unit=replace(unit, step=coarsest_step(observed, unit)))


def _refuse_extreme_numbers(name: str, observed: Values) -> None:
    with np.errstate(over="ignore"):
        size, spread = float(np.abs(observed).max()), float(np.ptp(observed))
    if observed.dtype.kind == "f" and spread > 0 and not (size < _LARGEST_NUMBER and spread > 1 / _LARGEST_NUMBER):
        what = (
            f"numbers as large as {size:g}" if size >= _LARGEST_NUMBER else f"numbers that differ by {spread:g} at most"
        )
        raise TableError(f"column {name!r} holds {what}, whose squares are no floating-point numbers; use another unit")


def _warn_of_constants(table: Table, constants: Mapping[str, Any]) -> None:
    holes = [name for name in constants if table.cells(name).missing.any()]
    if holes:
        warn_user(
            f"columns {shorten(holes)} have the same value in every observed cell, and get it in the others, too; name "
            "them in skip to leave them as they are",
        )


def _warn_of_marks(variables: Mapping[str, Variable]) -> None:
    marked = {}
    for name, variable in variables.items():
        states = variable.states if isinstance(variable, Discrete) else ()
        marks = [state for state in states if isinstance(state, str) and state.strip().lower() in _MISSING_MARKS]
        if marks:
            marked[name] = marks
    if marked:
        shown = ", ".join(f"{name!r} ({shorten(marks)})" for name, marks in marked.items())
        warn_user(
            f"columns hold text that often stands for missing cells, and is an ordinary state here: {shown}; replace "
            "it with "
            "None to have it imputed",
        )


def refuse_empty_bounds(bounds: Bounds, decimals: Mapping[str, int]) -> dict[str, int]:
    """Return the decimals of the columns that can be rounded within their bounds.

    Bounds without a whole number in between are refused for columns of whole numbers; other columns stay unrounded.
    """
    kept_decimals = dict(decimals)
    for name, (low, high) in bounds.items():
        first, last = grid_ends(low, high, decimals.get(name, 0))
        if name not in decimals or first <= last:
            continue
        if decimals[name] == 0:
            raise TableError(
                f"bounds of {name!r}: there is no whole number between {low} and {high}, and the column holds whole "
                "numbers; "
                "widen them, or say integers=()"
            )
        del kept_decimals[name]
    return kept_decimals


def check_bounds(bounds: Any, table: Table | None = None) -> dict[str, tuple[float, float]]:
    """Return bounds as pairs of floats; "observed" becomes the range of the observed values."""
    if bounds is None:
        return {}
    if isinstance(bounds, str) and bounds == "observed" and table is not None:
        bounds = {name: "observed" for name in table.names if not table.is_discrete(name)}
    if not isinstance(bounds, Mapping):
        raise TableError(f"bounds must be a mapping such as {{'age': (0, 120)}} or 'observed', not {bounds!r:.60}")
    checked = {}
    for name, ends in bounds.items():
        if table is not None and (name not in table or table.is_discrete(name)):
            reason = "is discrete" if name in table else "is no column"
            raise TableError(f"bounds: {name!r} {reason}; bounds are for columns of numbers")
        if isinstance(ends, str) and ends == "observed" and table is not None:
            ends = (np.nanmin(table.column(name)), np.nanmax(table.column(name)))
        unit = getattr(table.variable(name), "unit", None) if table is not None else None
        as_number = float if unit is None else unit.number
        try:
            low, high = (
                -math.inf if end is None and i == 0 else math.inf if end is None else as_number(end)
                for i, end in enumerate(ends)
            )
        except (TypeError, ValueError):
            raise TableError(
                f"bounds of {name!r} must be a pair (low, high) of numbers or None, not {ends!r}"
            ) from None
        if not low < high:
            raise TableError(f"bounds of {name!r} need low < high, not ({low}, {high})")
        checked[name] = (low, high)
    return checked


def _find_decimals(
    table: Table, variables: Mapping[str, Variable], integers: str | Iterable[str] | None, full_precision: bool
) -> dict[str, int]:
    units = {
        name: variable.unit
        for name, variable in variables.items()
        if isinstance(variable, Continuous) and variable.unit is not None
    }
    numbers = collect_observed_numbers(table)
    named = frozenset() if integers is None else check_names("integers", integers, table.names)
    for name in named:
        if table.is_discrete(name):
            raise TableError(f"integers={name!r}: the column is discrete, so its values are never rounded")
        if name in units or decimals_of(numbers[name]) != 0:
            raise TableError(f"integers={name!r}: the column holds numbers that are not whole")
    result = {name: 0 for name, unit in units.items() if unit.whole}
    for name, observed in numbers.items():
        if name in units or name not in variables:
            continue
        is_whole = decimals_of(observed) == 0
        if is_whole:
            decimals: int | None = 0
        elif len(observed) < _ROUNDED_ROWS or full_precision:
            continue
        else:
            decimals = usual_decimals(observed)
        # an integer type can't hold other numbers
        if decimals == 0 and not (integers is None or name in named or has_integer_type(table, name)):
            continue
        if decimals is not None:
            result[name] = decimals
    return result


def describe_identifier(states: Sequence[Any], observed: int, *, declared: bool = False) -> str | None:
    """Return in words that states name rows or are free text, which other columns can tell nothing of; else None.

    Parameters
    ----------
    states : sequence
        Those that occur.
    observed : int
        The number of observed cells.
    declared : bool
        Whether the column's type names the states, which are then no free text.

    Examples
    --------
    >>> describe_identifier([f"p{i}" for i in range(20)], 20), describe_identifier(["a", "b"], 20)
    ('a different value in each row', None)
    """
    if not _IDENTIFIER_ROWS <= observed < 2 * len(states):
        return None
    if len(states) == observed:
        return "a different value in each row"
    if declared or not all(isinstance(state, str) for state in states):
        return None
    if len(states) >= _NEARLY_ALL * observed:
        return "a different value in nearly each row"
    words = sum(len(state.split()) for state in states) / len(states)
    return "free text" if words >= _WORDS_OF_TEXT else None


def reason_alone(table: Table, name: str) -> str | None:
    """Return why imputation leaves a column alone, in a few words; None where it does not.

    Examples
    --------
    >>> reason_alone(Table({"id": [f"p{i}" for i in range(20)]}), "id")
    'a different value in each row'
    """
    variable, column = table.variable(name), table.column(name)
    if not isinstance(variable, Discrete) or variable.cuts is not None:
        return None
    observed = column[column >= 0]
    if len(observed) >= 2 * len(variable):
        return None  # whichever states occur, they do so twice and more
    states = [variable.states[code] for code in np.flatnonzero(np.bincount(observed))]
    return describe_identifier(states, len(observed), declared=table.cells(name).declared)


def has_integer_type(table: Table, name: str) -> bool:
    """Return whether a column of numbers has an integer type, which holds whole numbers only.

    Examples
    --------
    >>> table = Table({"x": [1, None], "y": [1.0, None]})
    >>> has_integer_type(table, "x"), has_integer_type(table, "y")
    (True, False)
    """
    first = next((value for value in table.raw(name) if value is not None), None)
    return isinstance(first, int) and not isinstance(first, bool)


def check_names(option: str, names: str | Iterable[str], columns: Collection[str]) -> frozenset[str]:
    """Return the names that an option gives; refuse those that are no columns.

    Examples
    --------
    >>> sorted(check_names("skip", ["x", "y"], ["x", "y", "z"])), sorted(check_names("keys", "x", ["x"]))
    (['x', 'y'], ['x'])
    """
    result = frozenset([names] if isinstance(names, str) else names)
    for name in result:
        if name not in columns:
            raise TableError(f"{option}={name!r}: there is no such column; the columns are {shorten(columns)}")
    return result


def leave_out(frame: Frame, skip: str | Iterable[str] = ()) -> Frame:
    """Return a frame without the skipped columns, which may hold anything."""
    skipped = check_names("skip", frame.find_names(skip), frame.columns)
    return frame.select(name for name in frame.columns if name not in skipped)


def integer_ranges(frame: Frame) -> dict[str, tuple[float, float]]:
    """Return the range of the type of each column that has an integer type."""
    ranges = {}
    for name, values in frame.columns.items():
        dtype = str(getattr(values, "dtype", getattr(values, "type", "")))
        match = re.fullmatch(r"(u?)int(8|16|32|64|128)(\[pyarrow\])?", dtype.lower())
        if match:
            ranges[name] = integer_limits(int(match[2]), signed=not match[1])
    return ranges


def read_by_own_types(frame: Frame, known: Mapping[str, Variable]) -> Table:
    """Return the model's columns, read by their own types; a column without any value is of the model's type.

    Numbers in a column that is discrete in the model are read as states.
    """
    columns = [_read_column(frame.columns[name], variable) for name, variable in known.items() if name in frame.columns]
    return Table.from_columns(columns, frame)


def _read_column(values: Any, variable: Variable) -> Column:
    column = read_column(variable.name, values, unit=getattr(variable, "unit", None))
    if column.cells.missing.all():
        return read_as_variable(values, variable)
    wants_states = isinstance(variable, Discrete) and variable.cuts is None
    return read_column(variable.name, column, "discrete") if wants_states else column
