"""Take frames apart into columns: pandas, polars, pyarrow, mappings of arrays, records, structured arrays.

No frame library is imported here unless a frame of that library came in.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from hybridbn.errors import TableError
from hybridbn.tables.columns import (
    Cells,
    Kind,
    coded_cells,
    frozen_array,
    labels,
    labels_of_floats,
    labels_of_objects,
    numbers,
    objects,
    remedy,
)
from hybridbn.variables import shorten

__all__ = ["Frame", "arrow_codes", "arrow_labels", "cells_of", "opened", "series_kind"]


class Frame(NamedTuple):
    """A frame taken apart: its columns by name as they came in, and what is needed to put it together again."""

    kind: str
    columns: dict[str, Any]
    rows: int
    index: Any = None
    labels: Any = None


def opened(data: Any) -> Frame:
    """Take a frame of any supported kind apart, without looking at the cells.

    Examples
    --------
    >>> opened({"x": [1, 2]}).rows, opened([{"x": 1}, {"y": "a"}]).columns["y"].tolist()
    (2, [None, 'a'])
    """
    if nw.dependencies.is_pandas_dataframe(data):
        return _opened_pandas(data)
    if nw.dependencies.is_polars_dataframe(data):
        names = _checked_names(data.columns)
        return Frame("polars", dict(zip(names, data.clone().get_columns(), strict=True)), data.height)
    if nw.dependencies.is_pyarrow_table(data):
        names = _checked_names(data.column_names)
        return Frame("arrow", dict(zip(names, data.columns, strict=True)), data.num_rows, labels=data.schema)
    if isinstance(data, Mapping):
        return _opened_mapping(data)
    if isinstance(data, np.ndarray):
        return _opened_array(data)
    if hasattr(data, "collect") and not isinstance(data, Sequence):
        raise TableError(f"a {type(data).__name__} is lazy: collect() it first")
    if hasattr(data, "compute"):
        raise TableError(f"a {type(data).__name__} is lazy: compute() it first")
    if hasattr(data, "__arrow_c_stream__") and hasattr(data, "columns"):
        return _opened_foreign(data)
    if isinstance(data, Iterable) and not isinstance(data, str | bytes) and not hasattr(data, "dtype"):
        return _opened_records(list(data))
    raise TableError(
        f"a table can't be made of a {type(data).__name__}; give a DataFrame (pandas, polars), a pyarrow table, "
        "a mapping of columns, a list of records or a structured array"
    )


def _checked_names(names: Iterable[Any]) -> list[str]:
    listed = list(names)
    if not listed:
        raise TableError("the table has no columns")
    strange = [name for name in listed if not isinstance(name, str) or not name]
    if strange:
        raise TableError(
            f"column names must be non-empty text, not {shorten(strange)}; "
            "rename them, with pandas for example frame.columns = frame.columns.map(str)"
        )
    twice = sorted({name for name in listed if listed.count(name) > 1}) if len(set(listed)) < len(listed) else []
    if twice:
        raise TableError(f"several columns are called {shorten(twice)}; column names must differ: rename or drop them")
    return [str(name) for name in listed]


def _opened_pandas(data: Any) -> Frame:
    if data.columns.nlevels > 1:
        raise TableError(
            f"the frame has a MultiIndex of {data.columns.nlevels} levels as column names; join them to text first, "
            "for example frame.columns = frame.columns.map('_'.join)"
        )
    names = _checked_names(data.columns)
    import pandas

    # With copy on write a shallow copy is a snapshot: a later change to the caller's frame does not reach it.
    lazily = int(pandas.__version__.split(".")[0]) >= 3
    kept = data.copy(deep=not lazily)
    columns = {name: kept.iloc[:, place] for place, name in enumerate(names)}
    return Frame("pandas", columns, len(kept), kept.index, kept.columns)


def _opened_foreign(data: Any) -> Frame:
    try:
        import pyarrow
    except ModuleNotFoundError:
        raise TableError(
            f"reading a {type(data).__name__} needs pyarrow (pip install 'hybridbn[io]'); or convert it to pandas first"
        ) from None
    return opened(pyarrow.table(data))


def _opened_mapping(data: Mapping[Any, Any]) -> Frame:
    names = _checked_names(data)
    columns, rows = {}, -1
    for name, values in zip(names, data.values(), strict=True):
        if isinstance(values, str | bytes | Mapping) or not (
            hasattr(values, "__len__") or isinstance(values, Iterable)
        ):
            raise TableError(f"column {name!r} must be an array or list of values, not {values!r:.60}")
        column = _owned(name, values)
        if rows not in (-1, len(column)):
            raise TableError(
                f"column {name!r} has {len(column)} values, but {names[0]!r} has {rows}; all columns must be equally long"
            )
        rows = len(column)
        columns[name] = column
    return Frame("dict", columns, rows)


def _owned(name: str, values: Any) -> Any:
    """Return one column of a mapping in a form that later changes by the caller can't reach."""
    if type(values).__module__.partition(".")[0] == "pandas":
        import pandas

        return pandas.Series(values, copy=True)  # of a Series, an Index or a bare extension array
    if series_kind(values) == "polars":
        return values.clone()
    if series_kind(values) == "arrow":
        return values  # immutable
    if isinstance(values, np.ma.MaskedArray):
        holed = np.array(values.data, dtype=object)
        holed[np.ma.getmaskarray(values)] = None
        return frozen_array(holed)
    array = np.array(values) if isinstance(values, np.ndarray) else objects(list(values))
    if array.ndim != 1:
        raise TableError(f"column {name!r} has {array.ndim} dimensions {array.shape}; a column must have one")
    return frozen_array(array)


def _opened_array(data: NDArray[Any]) -> Frame:
    if data.dtype.names is None or data.ndim != 1:
        raise TableError(
            f"an array of shape {data.shape} and type {data.dtype} has no column names; "
            "give a structured array, or a mapping such as {'x': array[:, 0], 'y': array[:, 1]}"
        )
    frame = _opened_mapping({name: data[name] for name in data.dtype.names})
    return frame._replace(kind="structured", labels=data.dtype)


def _opened_records(data: list[Any]) -> Frame:
    names: dict[Any, None] = {}
    for row, record in enumerate(data):
        if not isinstance(record, Mapping):
            raise TableError(f"row {row} is a {type(record).__name__}, not a record such as {{'x': 1.5, 'c': 'a'}}")
        names.update(dict.fromkeys(record))
    frame = _opened_mapping({name: [record.get(name) for record in data] for name in names})
    return frame._replace(kind="records")


# --- the cells of one column ------------------------------------------------------------------------------------------


def series_kind(values: Any) -> str:
    """Tell which library a column belongs to: "pandas", "polars", "arrow" or "numpy" (which stands for any sequence)."""
    if nw.dependencies.is_pandas_series(values) or nw.dependencies.is_pandas_index(values):
        return "pandas"
    if nw.dependencies.is_polars_series(values):
        return "polars"
    if nw.dependencies.is_pyarrow_chunked_array(values) or (type(values).__module__ == "pyarrow.lib"):
        return "arrow"
    return "numpy"


def cells_of(name: str, values: Any, kind: Kind | None = None) -> Cells:
    """Return the cells of a column of any library.

    `kind` None means the kind that the column's type says: numbers continuous, text, categories and truth values discrete.

    Examples
    --------
    >>> cells = cells_of("c", np.array(["b", None, "a"], dtype=object))
    >>> cells.states, cells.array
    (('a', 'b'), array([ 1, -1,  0]))
    """
    readers: dict[str, Callable[[str, Any, Kind | None], Cells]] = {
        "pandas": _pandas_cells,
        "polars": _polars_cells,
        "arrow": _arrow_cells,
        "numpy": _numpy_cells,
    }
    try:
        return coded_cells(name, readers[series_kind(values)](name, values, kind), kind)
    except TableError as error:
        if kind == "discrete" or f"column {name!r}" in str(error):
            raise
        raise TableError(f"column {name!r}: {error}") from None


def _refused(name: str, dtype: Any) -> TableError:
    shown = str(getattr(dtype, "name", dtype))  # numpy calls bytes "S1", but names them
    return TableError(f"column {name!r} is of type {shown}; {remedy(shown)}")


def _numpy_cells(name: str, values: NDArray[Any], kind: Kind | None) -> Cells:
    array = values if isinstance(values, np.ndarray) else objects(list(values))
    code = array.dtype.kind
    if code == "b":
        return labels(name, array.astype(np.intp), (False, True), declared=True)
    if code in "iuf":
        return labels_of_floats(name, array) if kind == "discrete" else numbers(name, array, integer=code != "f")
    if code in "OUT":
        return labels_of_objects(name, array.astype(object), kind)
    raise _refused(name, array.dtype)


def _pandas_cells(name: str, values: Any, kind: Kind | None) -> Cells:
    import pandas

    dtype = values.dtype
    if isinstance(dtype, pandas.SparseDtype):
        return _numpy_cells(
            name, np.asarray(values.array.to_dense() if hasattr(values.array, "to_dense") else values), kind
        )
    if isinstance(dtype, pandas.CategoricalDtype):
        array = values.array if hasattr(values, "array") else values
        return labels(name, array.codes, list(dtype.categories), declared=True, ordered=bool(dtype.ordered))
    if isinstance(dtype, pandas.ArrowDtype):
        return _arrow_cells(name, values.array.__arrow_array__(), kind)
    if isinstance(dtype, pandas.StringDtype):
        codes, states = values.factorize()
        return labels(name, codes, states.tolist())
    if isinstance(dtype, np.dtype):
        return _numpy_cells(name, values.to_numpy(), kind)
    code = getattr(dtype, "kind", "O")
    if code == "b":
        return labels(name, values.to_numpy(dtype=np.int8, na_value=-1), (False, True), declared=True)
    if code not in "iuf":
        raise _refused(name, dtype)
    if kind == "discrete" and code != "f":
        codes, states = values.factorize()
        return labels(name, codes, states.tolist())
    return numbers(name, values.to_numpy(dtype=np.float64, na_value=np.nan), integer=code != "f")


def _polars_cells(name: str, values: Any, kind: Kind | None) -> Cells:
    import polars

    dtype = values.dtype
    if dtype == polars.Boolean:
        return labels(name, values.cast(polars.Int8).fill_null(-1).to_numpy(), (False, True), declared=True)
    if isinstance(dtype, polars.Enum):
        codes = values.to_physical().cast(polars.Int64).fill_null(-1).to_numpy()
        return labels(name, codes, dtype.categories.to_list(), declared=True)
    if dtype in (polars.String, polars.Categorical):
        text = values.cast(polars.String)
        # Only the states that occur: polars shares the levels of a Categorical between unrelated columns.
        states = text.drop_nulls().unique().sort()
        codes = text.cast(polars.Enum(states)).to_physical().cast(polars.Int64).fill_null(-1).to_numpy()
        return labels(name, codes, states.to_list())
    if dtype.is_integer() and kind == "discrete":
        states = values.drop_nulls().unique().sort()
        codes = states.search_sorted(values).cast(polars.Int64)
        return labels(name, np.where(values.is_null().to_numpy(), -1, codes.to_numpy()), states.to_list())
    if dtype.is_numeric():
        return numbers(name, values.cast(polars.Float64).to_numpy(), integer=dtype.is_integer())
    if dtype in (polars.Null, polars.Object):
        return labels_of_objects(name, objects(values.to_list()), kind)
    raise _refused(name, dtype)


def _arrow_cells(name: str, values: Any, kind: Kind | None) -> Cells:
    import pyarrow
    import pyarrow.compute as compute

    column = values if isinstance(values, pyarrow.ChunkedArray) else pyarrow.chunked_array([values])
    types, dtype = pyarrow.types, column.type
    if types.is_run_end_encoded(dtype):
        column, dtype = compute.run_end_decode(column), dtype.value_type
    if types.is_boolean(dtype):
        codes = compute.fill_null(column.cast(pyarrow.int8()), -1).to_numpy()
        return labels(name, codes, (False, True), declared=True)
    text = types.is_string(dtype) or types.is_large_string(dtype) or types.is_string_view(dtype)
    if text or types.is_dictionary(dtype) or (types.is_integer(dtype) and kind == "discrete"):
        found = not types.is_dictionary(dtype)
        if types.is_string_view(dtype):
            column = column.cast(pyarrow.large_string())
        return arrow_labels(name, column.dictionary_encode() if found else column, declared=not found)
    if types.is_integer(dtype) or types.is_floating(dtype) or types.is_decimal(dtype):
        if not types.is_float64(dtype):
            column = column.cast(pyarrow.float64(), safe=False)
        return numbers(name, _floats(column), integer=types.is_integer(dtype))
    if types.is_null(dtype):
        return labels_of_objects(name, objects([None] * len(column)), kind)
    raise _refused(name, dtype)


def arrow_labels(name: str, column: Any, *, declared: bool) -> Cells:
    """Return a dictionary-encoded pyarrow column as discrete cells; `declared` where its type names the states."""
    codes, states = arrow_codes(column)
    return labels(name, codes, states, declared=declared, ordered=declared and column.type.ordered)


def arrow_codes(column: Any) -> tuple[NDArray[Any], list[Any]]:
    """Return a dictionary-encoded pyarrow column as codes (-1: missing) and the values they stand for."""
    import pyarrow.compute as compute

    merged = _merged(column)
    codes = compute.fill_null(merged.indices, -1) if merged.indices.null_count else merged.indices
    return codes.to_numpy(), merged.dictionary.to_pylist()


def _merged(column: Any) -> Any:
    """Return a dictionary-encoded column as one array with one dictionary."""
    import pyarrow

    if column.num_chunks == 1:
        return column.chunk(0)
    if column.num_chunks == 0:
        return pyarrow.array([], type=column.type)
    return pyarrow.concat_arrays(column.unify_dictionaries().chunks)


def _floats(column: Any) -> NDArray[np.float64]:
    """Return a column of doubles as an array, with a copy only where it has holes or several chunks."""
    import pyarrow.compute as compute

    if not column.null_count:
        whole: NDArray[np.float64] = column.to_numpy()
        return whole
    # Chunk by chunk into one array: fresh memory is the dearest part of all this.
    array, start = np.empty(len(column), dtype=np.float64), 0
    for chunk in column.chunks:
        array[start : start + len(chunk)] = compute.fill_null(chunk, np.nan).to_numpy()
        start += len(chunk)
    return array
