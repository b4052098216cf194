"""polars: DataFrames and Series."""

from __future__ import annotations

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
    label_objects,
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
)
from hybridbn.units import Unit
from hybridbn.variables import as_objects

polars: LazyModule = LazyModule("polars")


class PolarsColumns(ColumnAdapter):
    """Series."""

    kind = "polars"

    def owns(self, values: Any) -> bool:
        return is_of_library(values, "polars", "Series")

    def copy(self, name: str, values: Any) -> Any:
        return values.clone()

    def read(self, name: str, values: Any, kind: Kind | None) -> Cells:
        dtype = values.dtype
        if dtype == polars.Boolean:
            return label_codes(name, values.cast(polars.Int8).fill_null(-1).to_numpy(), (False, True), declared=True)
        declared = isinstance(dtype, polars.Enum)
        if declared or dtype in (polars.String, polars.Categorical):
            text = values if declared else values.cast(polars.String)
            # polars shares the levels of a Categorical between unrelated columns, so the states are those that occur.
            states = dtype.categories if declared else text.drop_nulls().unique().sort()
            codes = text.cast(polars.Enum(states)).to_physical().cast(polars.Int64).fill_null(-1).to_numpy()
            return label_codes(name, codes, states.to_list(), declared=declared)
        if dtype.is_integer() and kind == "discrete":
            states = values.drop_nulls().unique().sort()
            codes = states.search_sorted(values).cast(polars.Int64)
            return label_codes(name, np.where(values.is_null().to_numpy(), -1, codes.to_numpy()), states.to_list())
        if dtype.is_numeric():
            return check_numbers(name, values.cast(polars.Float64).to_numpy(), integer=dtype.is_integer())
        if (moments := self.read_moments(values)) is not None:
            return count_moments(*moments)
        if dtype in (polars.Null, polars.Object):
            return label_objects(name, as_objects(values.to_list()), kind)
        raise make_type_error(name, dtype)

    def encode(self, values: Any, states: Sequence[Any]) -> NDArray[np.intp] | None:
        if values.dtype != polars.String or not isinstance(states[0], str):
            return None
        codes = values.cast(polars.Enum(states), strict=False).to_physical()
        if codes.null_count() > values.null_count():
            return None
        return np.asarray(codes.cast(polars.Int64).fill_null(-1).to_numpy())

    def take(self, values: Any, rows: NDArray[np.intp]) -> Any:
        return values.gather(rows)

    def list_values(self, values: Any) -> Sequence[Any]:
        return list(values.to_list())

    def holds_objects(self, values: Any) -> bool:
        return bool(values.dtype.is_nested() or values.dtype.is_(polars.Object))

    def write(self, column: Column) -> Any:
        return super().write(column).alias(column.name)

    def make(self, name: str, cells: Cells) -> Any:
        form, values, missing = as_plain(cells)
        if form == "object":
            try:
                return polars.Series(name, values.tolist())
            except TypeError:
                return polars.Series(name, values.tolist(), dtype=polars.Object)  # states of several types
        if form in {"text", "category"}:
            textual = all(isinstance(state, str) for state in cells.states or ())
            states = polars.Series(list(cells.states or ()), dtype=polars.String if textual else None)
            codes = polars.Series(np.where(missing, 0, values)).set(polars.Series(missing), None)
            series = states.gather(codes).alias(name)
            return series.cast(polars.Enum(states)) if form == "category" and textual else series
        series = polars.Series(name, values)
        return series.set(polars.Series(missing), None) if missing.any() else series

    def read_moments(self, values: Any) -> TimeValues | None:
        dtype = values.dtype
        if not dtype.is_temporal():
            return None
        ticks = values.to_physical().cast(polars.Int64).fill_null(np.iinfo(np.int64).min).to_numpy()
        if dtype == polars.Time:
            return TimeValues(ticks.astype("m8[ns]"), "time")
        code = "D" if dtype == polars.Date else dtype.time_unit
        letter = "m" if dtype == polars.Duration else "M"
        return TimeValues(ticks.astype(f"{letter}8[{code}]"), zone=getattr(dtype, "time_zone", None))

    def make_moments(self, name: str, moments: NDArray[Any], unit: Unit, old: Any) -> Any:
        if old is not None and old.dtype == polars.Object:
            return polars.Series(name, unit.list_moments(moments), dtype=polars.Object)
        letter, code = moments.dtype.kind, np.datetime_data(moments.dtype)[0]
        if code in ("h", "m", "s") or (letter == "m" and code not in ("us", "ns")):
            moments = moments.astype("M8[ms]" if letter == "M" else "m8[us]")
        series = polars.Series(name, moments)
        if unit.kind == "time":
            return series.cast(polars.Duration("ns")).to_physical().cast(polars.Time)
        if unit.kind == "date" and old is None:
            return series.cast(polars.Date)
        if unit.zone is not None:
            zone = unit.zone if old is None else old.dtype.time_zone
            series = series.dt.replace_time_zone("UTC").dt.convert_time_zone(zone or "UTC")
        return series if old is None else series.cast(old.dtype)

    def make_integers(self, name: str, values: NDArray[Any]) -> Any:
        return polars.Series(name, list(values))

    def restore_type(self, made: Any, old: Any, cells: Cells) -> Any:
        dtype = old.dtype
        if isinstance(dtype, polars.Enum) and cells.states is not None:
            levels = dtype.categories.to_list()
            occurring = dict.fromkeys(cells.states[code] for code in cells.array[cells.array >= 0].tolist())
            dtype = polars.Enum([*levels, *(state for state in occurring if state not in levels)])
        if dtype == made.dtype or (dtype.is_integer() and not as_plain(cells).fits_integers):
            return made
        try:
            return made.cast(dtype)
        except (polars.exceptions.PolarsError, TypeError, ValueError):
            return made

    def insert(self, old: Any, rows: NDArray[np.intp], part: Any) -> Any:
        if part.dtype != old.dtype or not (old.dtype.is_numeric() or old.dtype.is_temporal()) or not len(rows):
            return None
        positions = np.arange(len(old))
        positions[rows] = len(old) + np.arange(len(rows))
        return polars.concat([old, part]).gather(positions)


class PolarsFrames(FrameAdapter):
    """DataFrames."""

    kind = "polars"

    def owns(self, data: Any) -> bool:
        return is_of_library(data, "polars", "DataFrame")

    def open(self, data: Any) -> Frame:
        names = check_column_names(data.columns)
        return Frame(self.kind, dict(zip(names, data.clone().get_columns(), strict=True)), data.height, data=data)

    def build(self, columns: Sequence[Column], like: Frame) -> Any:
        return polars.DataFrame([column_adapter("polars").write(column) for column in columns])

    def replace(self, frame: Frame, columns: Mapping[str, Column], added: Mapping[str, NDArray[np.bool_]]) -> Any:
        written = [column_adapter("polars").write(column) for column in columns.values()]
        return frame.data.with_columns(*written, *(polars.Series(name, values) for name, values in added.items()))
