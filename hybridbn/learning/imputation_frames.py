"""A user's frame as imputation sees it: what is left alone, what integer types can hold, each column in its own terms."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from hybridbn.errors import TableError
from hybridbn.tables import Table
from hybridbn.tables.columns import Column, read_as_variable, read_column
from hybridbn.tables.frames import Frame
from hybridbn.variables import Discrete, Variable, shorten

__all__ = ["integer_ranges", "leave_out", "read_in_own_terms"]


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
