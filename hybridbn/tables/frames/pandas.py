"""pandas: DataFrames, Series, and arrays of its own types."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hybridbn.registry import LazyModule
from hybridbn.tables.cells import (
    Cells,
    Kind,
    TimeValues,
    as_plain,
    check_numbers,
    count_moments,
    label_codes,
    make_type_error,
)
from hybridbn.tables.columns import (
    Column,
    ColumnAdapter,
    Frame,
    FrameAdapter,
    check_column_names,
    column_adapter,
    is_of_library,
    own_names,
)
from hybridbn.tables.frames.arrays import insert_objects
from hybridbn.units import Unit, find_zone
from hybridbn.variables import as_objects

pandas: LazyModule = LazyModule("pandas")


class PandasColumns(ColumnAdapter):
    """Series, indexes and extension arrays."""

    kind = "pandas"

    def owns(self, values: Any) -> bool:
        library = type(values).__module__.partition(".")[0]
        return library == "pandas" or is_of_library(values, "pandas", "Series", "Index")

    def copy(self, name: str, values: Any) -> Any:
        return pandas.Series(values, copy=True)

    def read(self, name: str, values: Any, kind: Kind | None) -> Cells:
        dtype = values.dtype
        if isinstance(dtype, pandas.SparseDtype):
            dense = values.array.to_dense() if hasattr(values.array, "to_dense") else values
            return column_adapter("numpy").read(name, np.asarray(dense), kind)
        if isinstance(dtype, pandas.CategoricalDtype):
            array = values.array if hasattr(values, "array") else values
            return label_codes(name, array.codes, list(dtype.categories), declared=True, ordered=bool(dtype.ordered))
        if isinstance(dtype, pandas.ArrowDtype):
            return column_adapter("arrow").read(name, values.array.__arrow_array__(), kind)
        if isinstance(dtype, np.dtype):
            return column_adapter("numpy").read(name, values.to_numpy(), kind)
        if (moments := self.read_moments(values)) is not None:
            return count_moments(*moments)
        code = getattr(dtype, "kind", "O")
        if isinstance(dtype, pandas.StringDtype) or (kind == "discrete" and code in "iu"):
            codes, states = values.factorize()
            return label_codes(name, codes, states.tolist())
        if code == "b":
            return label_codes(name, values.to_numpy(dtype=np.int8, na_value=-1), (False, True), declared=True)
        if code not in "iuf":
            raise make_type_error(name, dtype)
        return check_numbers(name, values.to_numpy(dtype=np.float64, na_value=np.nan), integer=code != "f")

    def encode(self, values: Any, states: Sequence[Any]) -> NDArray[np.intp] | None:
        dtype, array = values.dtype, values.array if hasattr(values, "array") else values
        if isinstance(dtype, pandas.ArrowDtype) or getattr(dtype, "storage", None) == "pyarrow":
            return column_adapter("arrow").encode(array.__arrow_array__(), states)
        if isinstance(dtype, pandas.StringDtype) or (isinstance(dtype, np.dtype) and dtype.kind in "Oiu"):
            return column_adapter("numpy").encode(np.asarray(array), states)
        return None

    def take(self, values: Any, rows: NDArray[np.intp]) -> Any:
        if isinstance(values.dtype, pandas.ArrowDtype):
            # pandas can't take rows of some types of Arrow
            array = values.array if hasattr(values, "array") else values
            taken = column_adapter("arrow").take(array.__arrow_array__(), rows)
            return pandas.Series(pandas.arrays.ArrowExtensionArray(taken))
        return values.take(rows)

    def holds_objects(self, values: Any) -> bool:
        dtype = values.dtype
        if isinstance(dtype, pandas.CategoricalDtype):
            dtype = dtype.categories.dtype
        return not isinstance(dtype, pandas.StringDtype) and getattr(dtype, "kind", "O") == "O"

    def make(self, name: str, cells: Cells) -> Any:
        form, values, missing = as_plain(cells)
        if form == "category":
            states = pandas.Index(list(cells.states or ()))
            return pandas.Series(pandas.Categorical.from_codes(cells.array, categories=states, ordered=cells.ordered))
        if form == "text":
            # pandas makes a Series of its own type for text of a list, but not of an array of objects
            states = list(cells.states or ())
            try:
                texts = pandas.Series(states).array
            except UnicodeEncodeError:  # which that type can't hold
                texts = pandas.Series(states, dtype=object).array
            return pandas.Series(texts.take(values, allow_fill=True), dtype=texts.dtype)
        if missing.any() and form in {"integer", "bool"}:
            kinds = {"integer": pandas.arrays.IntegerArray, "bool": pandas.arrays.BooleanArray}
            return pandas.Series(kinds[form](values, missing))
        return pandas.Series(values.copy())

    def read_moments(self, values: Any) -> TimeValues | None:
        dtype = values.dtype
        if isinstance(dtype, pandas.ArrowDtype):
            return column_adapter("arrow").read_moments(values.array.__arrow_array__())
        if isinstance(dtype, pandas.DatetimeTZDtype):
            return TimeValues(values.to_numpy(dtype=f"datetime64[{dtype.unit}]"), zone=str(dtype.tz))
        return TimeValues(values.to_numpy()) if isinstance(dtype, np.dtype) and dtype.kind in "mM" else None

    def make_moments(self, name: str, moments: NDArray[Any], unit: Unit, old: Any) -> Any:
        dtype = None if old is None else old.dtype
        if isinstance(dtype, pandas.ArrowDtype):
            made = column_adapter("arrow").make_moments(name, moments, unit, old.array.__arrow_array__())
            return pandas.Series(pandas.array(made, dtype=dtype))
        holds_objects = isinstance(dtype, np.dtype) and dtype.kind == "O"
        if holds_objects or (dtype is None and unit.kind in ("date", "time")):
            listed = as_objects(unit.list_moments(moments))
            if old is not None and any(isinstance(value, pandas.Timestamp | pandas.Timedelta) for value in old):
                listed = as_objects([None if value is None else _as_stamp(value) for value in listed.tolist()])
            return pandas.Series(listed, dtype=object)
        series = pandas.Series(moments)
        if unit.zone is None or getattr(dtype, "kind", "M") != "M":
            return series if dtype is None else series.astype(dtype)
        zone = dtype.tz if isinstance(dtype, pandas.DatetimeTZDtype) else find_zone(unit.zone)
        zoned = series.dt.tz_localize("UTC").dt.tz_convert(zone)
        return zoned if dtype is None else zoned.astype(dtype)

    def make_integers(self, name: str, values: NDArray[Any]) -> Any:
        return pandas.Series(pandas.array(values, dtype="Int64"))

    def restore_type(self, made: Any, old: Any, cells: Cells) -> Any:
        dtype = old.dtype
        if isinstance(dtype, pandas.CategoricalDtype):
            return pandas.Series(_make_categorical(cells, dtype))
        if dtype == made.dtype:
            return made
        is_integer = getattr(dtype, "kind", "O") in "iu"
        lacks_holes = isinstance(dtype, np.dtype) and dtype.kind in "iub" and cells.missing.any()
        if lacks_holes or (is_integer and not as_plain(cells).fits_integers):
            return made
        try:
            return made.astype(dtype)
        except (TypeError, ValueError, NotImplementedError):
            return made

    def insert(self, old: Any, rows: NDArray[np.intp], part: Any) -> Any:
        if old.dtype == object:
            values = insert_objects(old.to_numpy(), rows, part.to_numpy(dtype=object))
            return pandas.Series(values, dtype=object)
        if part.dtype != old.dtype or isinstance(old.dtype, pandas.SparseDtype):
            return None
        if isinstance(old.dtype, pandas.ArrowDtype):
            # pandas can't assign to some types of Arrow
            arrays = [one.array.__arrow_array__() for one in (old, part)]
            made = column_adapter("arrow").insert(arrays[0], rows, arrays[1])
            return None if made is None else pandas.Series(pandas.arrays.ArrowExtensionArray(made))
        array = old.array.copy()
        array[rows] = part.array
        return pandas.Series(array, dtype=old.dtype)


def _as_stamp(value: Any) -> Any:
    return pandas.Timedelta(value) if isinstance(value, datetime.timedelta) else pandas.Timestamp(value)


def _make_categorical(cells: Cells, dtype: Any) -> Any:
    """Return cells as a categorical with the levels of a type, followed by the states that it does not have."""
    cells = cells if cells.states is not None else column_adapter("numpy").read("", cells.array, "discrete")
    states = cells.states or ()
    occurring = [states[code] for code in np.unique(cells.array[cells.array >= 0])]
    new = [state for state in occurring if state not in dtype.categories]
    levels = pandas.Index([*dtype.categories, *new]) if new else dtype.categories
    codes = np.append(levels.get_indexer(list(states)), -1)
    return pandas.Categorical.from_codes(codes[cells.array], categories=levels, ordered=bool(dtype.ordered))


class PandasFrames(FrameAdapter):
    """DataFrames; new ones get the index and the name of the columns' index."""

    kind = "pandas"

    def owns(self, data: Any) -> bool:
        return is_of_library(data, "pandas", "DataFrame")

    def open(self, data: Any) -> Frame:
        names = check_column_names(data.columns)
        # Where pandas copies on write, a shallow copy does not change with the user's frame.
        copies_on_write = int(pandas.__version__.split(".")[0]) >= 3
        frame = data.copy(deep=not copies_on_write)
        columns = {name: column for name, (_, column) in zip(names, frame.items(), strict=True)}
        given = own_names(data.columns, names)
        return Frame(self.kind, columns, len(frame), frame.index, frame.columns, data, given=given)

    def build(self, columns: Sequence[Column], like: Frame) -> Any:
        index = pandas.RangeIndex(like.rows) if like.index is None else like.index
        written = [column_adapter("pandas").write(column) for column in columns]
        aligned = [series if series.index.equals(index) else series.set_axis(index) for series in written]
        frame = pandas.DataFrame(dict(zip((column.name for column in columns), aligned, strict=True)), index=index)
        if like.given:
            own = like.rename(frame.columns)
            frame.columns = like.labels if own == list(like.labels) else pandas.Index(own)
        if like.labels is not None and frame.columns.nlevels == like.labels.nlevels:
            frame.columns.names = like.labels.names
        return frame

    def replace(self, frame: Frame, columns: Mapping[str, Column], added: Mapping[str, NDArray[np.bool_]]) -> Any:
        result = frame.data.copy()
        # labels of the frame need not be text
        numbers = {name: number for number, name in enumerate(check_column_names(frame.data.columns))}
        for name, column in columns.items():
            result.isetitem(numbers[name], column_adapter("pandas").write(column).set_axis(result.index))
        for name, values in added.items():
            result[name] = values
        return result
