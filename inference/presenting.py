"""Completed rows as users see them: states instead of codes, in the same kind of frame that the evidence came in."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hybridbn.errors import TableError
from hybridbn.tables import Table
from hybridbn.variables import Discrete, Variable

__all__ = ["frame_of", "presented"]


def presented(variables: Iterable[Variable], codes: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """Return codes as states, in a plain array where the states are all integers, floats or truth values."""
    columns = {}
    for variable in variables:
        values = codes[variable.name]
        if isinstance(variable, Discrete):
            states = np.empty(len(variable), dtype=object)
            states[:] = variable.states
            values = states[values.astype(np.intp)]
            plain = {type(state) for state in variable.states}
            values = values.astype(next(iter(plain))) if plain in ({int}, {float}, {bool}) else values
        columns[variable.name] = values
    return columns


def frame_of(kind: str, variables: Iterable[Variable], codes: Mapping[str, NDArray[Any]], index: Any = None) -> Any:
    """Return codes and numbers as a frame.

    Parameters
    ----------
    kind : {"pandas", "polars", "arrow", "records", "structured", "table"}
    index : of a pandas frame

    Examples
    --------
    >>> c = Discrete("c", states=("a", "b"))
    >>> frame_of("records", [c], {"c": np.array([1, 0])})
    [{'c': 'b'}, {'c': 'a'}]
    """
    variables = list(variables)
    columns = presented(variables, codes)
    if kind == "table":
        return Table(columns, variables=variables)
    if kind == "records":
        return [
            dict(zip(columns, row, strict=True)) for row in zip(*(c.tolist() for c in columns.values()), strict=True)
        ]
    if kind == "structured":
        made = np.empty(len(next(iter(columns.values()))), dtype=[(name, c.dtype) for name, c in columns.items()])
        for name, values in columns.items():
            made[name] = values
        return made
    if kind == "polars":
        import polars

        return polars.DataFrame([_series(polars, name, values) for name, values in columns.items()])
    if kind == "arrow":
        import pyarrow

        return pyarrow.table({name: _array(pyarrow, name, values) for name, values in columns.items()})
    import pandas

    return pandas.DataFrame(columns, index=index)


def _series(polars: Any, name: str, values: NDArray[Any]) -> Any:
    if values.dtype != object:
        return polars.Series(name, values)
    try:
        return polars.Series(name, values.tolist())
    except TypeError:
        return polars.Series(name, values.tolist(), dtype=polars.Object)  # states of several types


def _array(pyarrow: Any, name: str, values: NDArray[Any]) -> Any:
    try:
        return pyarrow.array(values.tolist() if values.dtype == object else values)
    except (pyarrow.ArrowInvalid, pyarrow.ArrowTypeError):
        raise TableError(
            f"the states of {name!r} are of several types, which an arrow table can't hold; give the evidence as pandas"
        ) from None
