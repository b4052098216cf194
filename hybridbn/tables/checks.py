"""What happens to a table's columns at the door: which to read as what, when to read them, and checks of the weights."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from hybridbn.errors import TableError
from hybridbn.tables.columns import (
    Cells,
    Column,
    Kind,
    Source,
    coded_cells,
    frozen_array,
    look_alikes,
    recoded,
    state_kind,
)
from hybridbn.tables.frames import cells_of, series_kind
from hybridbn.tables.output import raw_of
from hybridbn.variables import Continuous, Discrete, Values, Variable, shorten

__all__ = [
    "Unread",
    "checked_kinds",
    "checked_states",
    "checked_variables",
    "checked_weights",
    "outdated_source",
    "read_column",
    "row_type",
    "warn_of_look_alikes",
]


class Unread:
    """A column that is read against a given variable when it is first asked for."""

    __slots__ = ("values", "variable")

    def __init__(self, values: Any, variable: Variable) -> None:
        self.values = values
        self.variable = variable

    @property
    def name(self) -> str:
        """The column's name."""
        return self.variable.name

    def read(self, *, unknown_missing: bool) -> Column:
        """Read the column against its variable."""
        values, variable = self.values, self.variable
        if isinstance(values, Unread):
            values = values.read(unknown_missing=unknown_missing)
        if isinstance(values, Column):
            cells = recoded(self.name, values.cells, variable, unknown_missing=unknown_missing)
            return Column(self.name, cells, variable, values.source)
        source = Source(series_kind(values), values)
        wants_labels = isinstance(variable, Discrete) and variable.cuts is None
        if isinstance(variable, Discrete) and len({state_kind(state) for state in variable.states}) > 1:
            # A variable that mixes types of states on purpose: looked up one by one.
            codes = variable.codes(raw_of(source))
            return Column(self.name, Cells(codes, variable.states, declared=True), variable, source)
        found = cells_of(self.name, values, "discrete" if wants_labels else None)
        return Column(self.name, recoded(self.name, found, variable, unknown_missing=unknown_missing), variable, source)


def outdated_source(column: Column) -> Source | None:
    """Return the column as it came in, marked as replaced, for the dtype of what replaces it."""
    return None if column.source is None else column.source._replace(current=False, rows=None)


def row_type(rows: Any) -> Any:
    """Return the dtype to read row numbers with: an empty list is one of integers, not of floats."""
    return np.intp if isinstance(rows, list | tuple) and not len(rows) else None


def read_column(name: str, values: Any, kind: Kind | None) -> Column:
    """Read a column by its own type, or as the kind that was declared."""
    if isinstance(values, Unread):
        values = values.read(unknown_missing=False)
    if isinstance(values, Column):
        if kind is None or (kind == "discrete") == (values.cells.states is not None):
            return values
        source = values.source
        if source is not None and source.current and source.rows is None:
            return checked_states(Column(name, cells_of(name, source.values, kind), None, source))
        return checked_states(Column(name, coded_cells(name, values.cells, kind), None, source))
    return checked_states(Column(name, cells_of(name, values, kind), None, Source(series_kind(values), values)))


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


def warn_of_look_alikes(columns: Iterable[Column | Unread], *, stacklevel: int = 3) -> None:
    """Warn once a table of states that a reader would take for the same."""
    found = [
        text
        for column in columns
        if isinstance(column, Column) and column.cells.states
        if (text := look_alikes(column.name, column.cells.states)) is not None
    ]
    if found:
        warnings.warn(
            f"states that look alike are kept apart; clean them if they mean the same: {'; '.join(found)}",
            UserWarning,
            stacklevel=stacklevel,
        )
