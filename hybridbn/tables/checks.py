"""Checks of what a table is made of: declared kinds, variables, weights, columns without a value, look-alike states."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from hybridbn.errors import TableError
from hybridbn.tables.columns import Kind, frozen_array, look_alikes
from hybridbn.tables.frames import Column
from hybridbn.variables import Continuous, Discrete, Values, Variable, shorten

__all__ = [
    "checked_kinds",
    "checked_states",
    "checked_variables",
    "checked_weights",
    "row_type",
    "warn_of_look_alikes",
]


def row_type(rows: Any) -> Any:
    """Return the dtype to read row numbers with: an empty list is one of integers, not of floats."""
    return np.intp if isinstance(rows, list | tuple) and not len(rows) else None


def checked_states(column: Column) -> Column:
    """Refuse a column that is said to be discrete, but where no type and no value names a state."""
    if column.cells.states == () and len(column.cells.array):
        raise TableError(
            f"column {column.name!r} holds no value in {len(column.cells.array)} rows, so nothing tells what it is: leave it "
            f"out, or declare it with continuous=[{column.name!r}] or as a category with named levels"
        )
    return column


def checked_kinds(
    discrete: str | Iterable[str], continuous: str | Iterable[str], available: Mapping[str, Any]
) -> dict[str, Kind]:
    """Return the declared kind of each declared column."""
    kinds: dict[str, Kind] = {}
    declared: tuple[tuple[Kind, str | Iterable[str]], ...] = (("discrete", discrete), ("continuous", continuous))
    for kind, names in declared:
        for name in [names] if isinstance(names, str) else list(names):
            if name not in available:
                raise TableError(f"{kind}={name!r}: there is no such column; the columns are {shorten(available)}")
            if kinds.setdefault(name, kind) != kind:
                raise TableError(f"column {name!r} is declared both discrete and continuous")
    return kinds


def checked_variables(variables: Iterable[Variable], kinds: Mapping[str, Kind]) -> list[Variable]:
    """Refuse what is no variable, and variables together with declared kinds."""
    listed = list(variables)
    for variable in listed:
        if not isinstance(variable, Discrete | Continuous):
            raise TableError(f"variables must be Discrete or Continuous, not {variable!r}")
    if kinds:
        raise TableError("give variables, or discrete and continuous, not both: the variables say which is which")
    return listed


def checked_weights(weights: Any, rows: int) -> Values | None:
    """Return weights as a read-only array of their own, or refuse them naming the row."""
    if weights is None:
        return None
    try:
        array = np.array(weights.to_list() if hasattr(weights, "to_list") else weights, dtype=np.float64)
    except (TypeError, ValueError):
        raise TableError(f"weights must be numbers, one a row, not {weights!r:.80}") from None
    if array.shape != (rows,):
        raise TableError(
            f"there are {array.size} weights of shape {array.shape} for {rows} rows; give one weight a row"
        )
    bad = ~(np.isfinite(array) & (array >= 0))
    if bad.any():
        row = int(np.argmax(bad))
        raise TableError(
            f"weights, row {row}: {array[row]} is not a finite non-negative number ({int(bad.sum())} such weights)"
        )
    with np.errstate(over="ignore"):
        total = float(array.sum())
    if rows and not 0 < total < np.inf:
        raise TableError(f"the weights sum to {total}; at least one must be positive, and the sum finite")
    return frozen_array(array)


def warn_of_look_alikes(columns: Iterable[Column], *, stacklevel: int = 3) -> None:
    """Warn once a table of states that a reader would take for the same."""
    found = [
        text
        for column in columns
        if column.is_read and column.cells.states
        if (text := look_alikes(column.name, column.cells.states)) is not None
    ]
    if found:
        warnings.warn(
            f"states that look alike are kept apart; clean them if they mean the same: {'; '.join(found)}",
            UserWarning,
            stacklevel=stacklevel,
        )
