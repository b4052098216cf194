"""Put columns back together: as pandas, polars or pyarrow frames, or as plain arrays.

A column that came from the same library goes out as it came in. Any other is built from its numbers or states:
missing cells become the library's own missing value, integers stay integers, and states that a type declared become a
category (pandas), an Enum (polars) or a dictionary (pyarrow).
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hybridbn.tables.columns import EXACT_INTEGERS, Cells, Column, Source, objects

__all__ = ["Plain", "arrow_column", "numpy_column", "pandas_column", "plain", "polars_column", "raw_values"]


class Plain(NamedTuple):
    """Cells as values of one plain type; where `missing` holds, the value is a filler (None for objects)."""

    form: Literal["float", "integer", "bool", "text", "category", "object"]
    values: NDArray[Any]
    missing: NDArray[np.bool_]


def plain(cells: Cells) -> Plain:
    """Return cells as values; text and categories stay codes (``values``), their states being in the cells.

    Examples
    --------
    >>> plain(Cells(np.array([1.0, np.nan]), integer=True)).values
    array([1, 0])
    """
    missing = cells.missing
    if cells.states is None:
        whole = cells.integer and (np.abs(cells.array[~missing]) < EXACT_INTEGERS).all()
        if whole and (cells.array == np.floor(cells.array))[~missing].all():
            return Plain("integer", np.where(missing, 0, cells.array).astype(np.int64), missing)
        return Plain("float", cells.array, missing)
    types = {type(state) for state in cells.states}
    if types == {bool}:
        return Plain("bool", _looked_up(cells, bool, False), missing)
    if types == {str}:
        return Plain("category" if cells.declared else "text", cells.array, missing)
    if types == {int} and not cells.declared and all(-(2**63) <= int(str(state)) < 2**63 for state in cells.states):
        return Plain("integer", _looked_up(cells, np.int64, 0), missing)
    if types == {float} and not cells.declared:
        return Plain("float", _looked_up(cells, np.float64, np.nan), missing)
    if cells.declared and cells.states:
        return Plain("category", cells.array, missing)
    return Plain("object", _looked_up(cells, object, None), missing)


def _looked_up(cells: Cells, dtype: Any, filler: Any) -> NDArray[Any]:
    table = np.empty(len(cells.states or ()) + 1, dtype=dtype)
    table[:-1] = objects(cells.states or ())
    table[-1] = filler
    values: NDArray[Any] = table[cells.array]
    return values


def _native(column: Column, kind: str) -> Source | None:
    """Return the column as it came in, if it came from the library asked for and still says the same."""
    source = column.source
    return source if source is not None and source.kind == kind and source.current else None


def _outdated(column: Column, kind: str) -> Any:
    """Return the column that the cells replaced, whose dtype they should take where they can."""
    source = column.source
    return source.values if source is not None and source.kind == kind and not source.current else None


def _fits_integers(found: Plain) -> bool:
    return found.form == "integer" or (
        found.form == "float" and bool((found.values == np.floor(found.values))[~found.missing].all())
    )


def _large_integers(column: Column) -> Any:
    """Return integers that floats would round as Python integers, from the column as it came in; else None."""
    source = column.source
    if source is None or not source.current or column.cells.states is not None or not column.cells.integer:
        return None
    with np.errstate(invalid="ignore"):
        large = np.abs(column.cells.array) >= EXACT_INTEGERS
    return raw_values(column) if large.any() else None


def pandas_column(column: Column, index: Any) -> Any:
    """Return the column as a pandas Series on the index given."""
    import pandas

    native = _native(column, "pandas")
    if native is not None:
        series = native.values if native.rows is None else native.values.take(native.rows)
        return series.set_axis(index)
    exact = _large_integers(column)
    if exact is not None:
        return pandas.Series(pandas.array(exact, dtype="Int64"), index=index)
    series = pandas.Series(_pandas_array(column.cells), index=index)
    old = _outdated(column, "pandas")
    if old is None or old.dtype == series.dtype:
        return series
    whole = getattr(old.dtype, "kind", "O") in "iu"
    holes = isinstance(old.dtype, np.dtype) and old.dtype.kind in "iub" and column.cells.missing.any()
    if holes or (whole and not _fits_integers(plain(column.cells))):
        return series
    try:
        return series.astype(old.dtype)
    except (TypeError, ValueError):
        return series


def _pandas_array(cells: Cells) -> Any:
    import pandas

    form, values, missing = plain(cells)
    holes = bool(missing.any())
    if form == "category":
        return pandas.Categorical.from_codes(
            cells.array, categories=pandas.Index(list(cells.states or ())), ordered=cells.ordered
        )
    if form == "text":
        # A list, not an object array: pandas then gives its own type for text.
        states = pandas.Series(list(cells.states or ())).array
        return states.take(values, allow_fill=True)
    if holes and form in {"integer", "bool"}:
        kinds = {"integer": pandas.arrays.IntegerArray, "bool": pandas.arrays.BooleanArray}
        return kinds[form](values, missing)
    return values.copy()


def polars_column(column: Column) -> Any:
    """Return the column as a polars Series."""
    import polars

    native = _native(column, "polars")
    if native is not None:
        return (native.values if native.rows is None else native.values.gather(native.rows)).alias(column.name)
    exact = _large_integers(column)
    if exact is not None:
        return polars.Series(column.name, list(exact))
    cells = column.cells
    form, values, missing = plain(cells)
    if form == "object":
        series = polars.Series(column.name, values.tolist())
    elif form in {"text", "category"}:
        textual = all(isinstance(state, str) for state in cells.states or ())
        states = polars.Series(list(cells.states or ()), dtype=polars.String if textual else None)
        codes = polars.Series(np.where(missing, 0, values)).set(polars.Series(missing), None)
        series = states.gather(codes).alias(column.name)
        if form == "category" and textual:
            series = series.cast(polars.Enum(states))
    else:
        series = polars.Series(column.name, values)
        if missing.any():
            series = series.set(polars.Series(missing), None)
    old = _outdated(column, "polars")
    if old is None or old.dtype == series.dtype or (old.dtype.is_integer() and not _fits_integers(plain(cells))):
        return series
    try:
        return series.cast(old.dtype)
    except (polars.exceptions.PolarsError, TypeError, ValueError):
        return series


def arrow_column(column: Column) -> Any:
    """Return the column as a pyarrow ChunkedArray."""
    import pyarrow

    native = _native(column, "arrow")
    if native is not None:
        return native.values if native.rows is None else native.values.take(pyarrow.array(native.rows))
    exact = _large_integers(column)
    if exact is not None:
        return pyarrow.chunked_array([pyarrow.array(exact.tolist())])
    cells = column.cells
    form, values, missing = plain(cells)
    if form == "object":
        array = pyarrow.array(values.tolist())
    elif form in {"text", "category"}:
        array = pyarrow.DictionaryArray.from_arrays(
            pyarrow.array(values.astype(np.int32), mask=missing),
            pyarrow.array(list(cells.states or ())),
            ordered=cells.ordered,
        )
        if form == "text":
            array = array.cast(pyarrow.string())
    else:
        array = pyarrow.array(values, mask=missing)
    old = _outdated(column, "arrow")
    if old is not None and old.type != array.type:
        with contextlib.suppress(pyarrow.ArrowInvalid, pyarrow.ArrowNotImplementedError):
            array = array.cast(old.type)
    return pyarrow.chunked_array([array])


def numpy_column(column: Column) -> NDArray[Any]:
    """Return the column as an array of values: objects with None where states that aren't numbers can be missing."""
    native = _native(column, "numpy")
    if native is not None:
        taken: NDArray[Any] = native.values if native.rows is None else native.values[native.rows]
        return taken
    form, values, missing = plain(column.cells)
    if form in {"text", "category"}:
        return _looked_up(column.cells, object, None)
    if form in {"integer", "bool"} and missing.any():
        mixed = values.astype(object)
        mixed[missing] = None
        return mixed
    return values.copy()


def raw_values(column: Column) -> NDArray[Any]:
    """Return the column's values as Python objects, as they came in, None where a cell is missing."""
    source = column.source
    if source is None or not source.current:
        array = numpy_column(column).astype(object)
        array[column.cells.missing] = None
        return array
    return raw_of(source)


def raw_of(source: Source) -> NDArray[Any]:
    """Return a column as it came in as an array of Python objects; missing cells are None."""
    from pandas import isna

    listed = {"arrow": "to_pylist", "polars": "to_list"}.get(source.kind, "tolist")
    values: Sequence[Any] = getattr(source.values, listed)()
    array = objects(values)
    array = array if source.rows is None else array[source.rows]
    array[isna(array)] = None
    return array
