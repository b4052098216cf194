"""Plain Python and numpy: mappings of arrays or lists, lists of records, structured arrays."""

from __future__ import annotations

import contextlib
import decimal
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hybridbn.errors import TableError
from hybridbn.registry import LazyModule
from hybridbn.tables.cells import (
    Cells,
    Kind,
    TimeValues,
    as_plain,
    check_numbers,
    count_moments,
    decode_states,
    freeze_array,
    label_codes,
    label_floats,
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
    column_kind,
    frame_adapter,
    own_names,
)
from hybridbn.units import Unit
from hybridbn.variables import Codes, as_objects, is_missing

pandas: LazyModule = LazyModule("pandas")


class ArrayColumns(ColumnAdapter):
    """Arrays of one dimension, and sequences that belong to no library."""

    kind = "numpy"

    def owns(self, values: Any) -> bool:
        return isinstance(values, np.ndarray)

    def copy(self, name: str, values: Any) -> Any:
        if isinstance(values, np.ma.MaskedArray):
            array = np.array(values.data, dtype=object)
            array[np.ma.getmaskarray(values)] = None
        else:
            array = np.array(values) if isinstance(values, np.ndarray) else as_objects(list(values))
        if array.ndim != 1:
            raise TableError(f"column {name!r} has {array.ndim} dimensions {array.shape}; a column must have one")
        return freeze_array(array)

    def read(self, name: str, values: Any, kind: Kind | None) -> Cells:
        array = values if isinstance(values, np.ndarray) else as_objects(list(values))
        code = array.dtype.kind
        if code == "b":
            return label_codes(name, array.astype(np.intp), (False, True), declared=True)
        if code in "iuf" and kind == "discrete":
            coded = None if code == "f" else _code_integers(array)
            return label_floats(name, array) if coded is None else Cells(coded[0], tuple(coded[1].tolist()))
        if code in "iuf":
            return check_numbers(name, array, integer=code != "f")
        if (moments := self.read_moments(array)) is not None:
            return count_moments(*moments)
        if code in "OUT":
            return _label_objects(name, array.astype(object), kind)
        raise make_type_error(name, array.dtype)

    def encode(self, values: Any, states: Sequence[Any]) -> NDArray[np.intp] | None:
        if not isinstance(values, np.ndarray):
            return None
        if values.dtype.kind in "iu":
            coded = _code_integers(values, states)
            return None if coded is None else coded[0]
        if values.dtype != object or not isinstance(states[0], str):
            return None
        shared = _find_shared_objects(values)
        objects = values if shared is None else shared[1]
        codes = {**{state: code for code, state in enumerate(states)}, None: -1, np.nan: -1}
        try:
            encoded = np.fromiter(map(codes.__getitem__, objects.tolist()), np.intp, len(objects))
        except (KeyError, TypeError):
            return None
        return encoded if shared is None else encoded.take(shared[0])

    def take(self, values: Any, rows: NDArray[np.intp]) -> Any:
        return values[rows]

    def list_values(self, values: Any) -> Sequence[Any]:
        if values.dtype.kind in "mM" and np.datetime_data(values.dtype)[0] == "ns":
            values = pandas.Series(values)  # of which numpy would make plain integers
        return super().list_values(values)

    def holds_objects(self, values: Any) -> bool:
        return bool(values.dtype.kind == "O")

    def make(self, name: str, cells: Cells) -> NDArray[Any]:
        """Return an array of values, of objects with None where cells of another type than floats are missing."""
        form, values, missing = as_plain(cells)
        if form in {"text", "category"}:
            return decode_states(cells, object, None)
        has_holes = form in {"integer", "bool"} and missing.any()
        return np.where(missing, np.array(None), values) if has_holes else values.copy()

    def read_moments(self, values: Any) -> TimeValues | None:
        return TimeValues(values) if getattr(values, "dtype", np.dtype(object)).kind in "mM" else None

    def make_moments(self, name: str, moments: NDArray[Any], unit: Unit, old: Any) -> Any:
        if (old is None or old.dtype == object) and (unit.kind == "time" or unit.zone is not None or old is not None):
            return as_objects(unit.list_moments(moments))
        return moments if old is None else moments.astype(old.dtype)

    def make_integers(self, name: str, values: NDArray[Any]) -> Any:
        return values if any(value is None for value in values) else np.array(values.tolist())

    def restore_type(self, made: Any, old: Any, cells: Cells) -> Any:
        # Arrays of objects hold any value, and arrays of text would cut longer text off.
        if old.dtype == made.dtype or old.dtype.kind not in "iuf" or made.dtype.kind not in "iuf":
            return made
        if old.dtype.kind in "iu" and not as_plain(cells).fits_integers:
            return made
        with np.errstate(over="ignore", invalid="ignore"):
            cast = made.astype(old.dtype)
        lost = np.isfinite(made) & (~np.isfinite(cast) if old.dtype.kind == "f" else cast != made)
        return made if lost.any() else cast

    def insert(self, old: Any, rows: NDArray[np.intp], part: Any) -> Any:
        if old.dtype == object:
            return _narrow(insert_objects(old, rows, part))
        if old.dtype != part.dtype:
            return None
        array = old.copy()
        array[rows] = part
        return array


def _label_objects(name: str, values: NDArray[Any], kind: Kind | None) -> Cells:
    """Return the cells of an array of objects; where the same few stand in many cells, these alone are looked at."""
    shared = _find_shared_objects(values)
    if shared is not None:
        codes, objects = shared
        # what is refused is read again, as the message names a row
        with contextlib.suppress(TableError):
            return label_objects(name, objects, kind).take(codes)
    return label_objects(name, values, kind)


_SPAN = 256
"""Integers of so many different sizes are counted by size, as are more of them if there are as many cells."""


def _code_integers(values: NDArray[Any], states: Sequence[Any] | None = None) -> tuple[Codes, NDArray[Any]] | None:
    """Return integers as codes of known states, or of those that occur in ascending order, and the states; None where
    one is no state, or their range is wide.
    """
    if not len(values) or not all(type(state) is int for state in states or ()):
        return None
    least, most = int(values.min()), int(values.max())
    low, high = (min(states), max(states)) if states else (least, most)
    if high - low >= max(_SPAN, len(values)) or least < low or most > min(high, np.iinfo(np.intp).max):
        return None
    offsets = values.astype(np.intp)
    if low:
        offsets -= low
    known = np.flatnonzero(np.bincount(offsets)) + low if states is None else np.array(states)
    if np.array_equal(known, np.arange(low, high + 1)):
        return offsets, known
    lookup = np.full(high - low + 1, -1, dtype=np.intp)
    lookup[known - low] = np.arange(len(known))
    codes = lookup.take(offsets)
    return (codes, known) if codes.min() >= 0 else None


_PROBED = 512
"""Objects that are looked at before it is decided whether the same ones stand in many cells."""


def _find_shared_objects(values: NDArray[Any]) -> tuple[Codes, NDArray[Any]] | None:
    """Return which of few objects stands in each cell, and these objects in the order of their first cells; None where
    most cells have objects of their own.
    """
    if len(values) < 2 * _PROBED:
        return None

    step = len(values) // _PROBED
    if len(set(map(id, values[::step].tolist()))) > _PROBED // 2:
        return None
    values = np.ascontiguousarray(values)
    # an array of objects holds their addresses
    codes, addresses = pandas.factorize(np.frombuffer(values, dtype=np.uintp))
    if len(addresses) > len(values) // 2:
        return None
    rows = np.empty(len(addresses), dtype=np.intp)
    rows[codes] = np.arange(len(values))
    return codes, values[rows]


def insert_objects(old: NDArray[Any], rows: NDArray[np.intp], part: NDArray[Any]) -> NDArray[Any]:
    """Return an array of objects with other values in some rows, of the type of the first of those that stay.

    Examples
    --------
    >>> insert_objects(np.array([2**60 + 1, None], dtype=object), np.array([1]), np.array([3.0]))
    array([1152921504606846977, 3], dtype=object)
    """
    array = old.copy()
    array[rows] = None
    kind = type(next((value for value in array.tolist() if not is_missing(value)), None))
    values = part.tolist()
    if issubclass(kind, decimal.Decimal):
        values = [decimal.Decimal(repr(value)) for value in values]
    elif issubclass(kind, int | np.integer) and all(float(value).is_integer() for value in values):
        values = [bool(value) if kind is bool else int(value) for value in values]
    array[rows] = as_objects(values)
    return array


def _narrow(array: NDArray[Any]) -> NDArray[Any]:
    """Return an array of objects as one of floats, integers or truth values, where it holds nothing else."""
    kinds = set(map(type, array.tolist()))
    narrow = np.array(array.tolist()) if kinds in ({float}, {bool}, {int}) else array
    # large integers may become floats
    return array if kinds == {int} and narrow.dtype.kind not in "iu" else narrow


class Mappings(FrameAdapter):
    """Mappings of names to columns, of any library each."""

    kind = "dict"

    def owns(self, data: Any) -> bool:
        return isinstance(data, Mapping)

    def open(self, data: Any) -> Frame:
        names = check_column_names(data)
        columns, rows = {}, -1
        for name, values in zip(names, data.values(), strict=True):
            if isinstance(values, str | bytes | Mapping) or not (
                hasattr(values, "__len__") or isinstance(values, Iterable)
            ):
                raise TableError(f"column {name!r} must be an array or list of values, not {values!r:.60}")
            column = column_adapter(column_kind(values)).copy(name, values)
            if rows not in (-1, len(column)):
                raise TableError(
                    f"column {name!r} has {len(column)} values, but {names[0]!r} has {rows}; all columns must be "
                    f"equally "
                    f"long"
                )
            rows = len(column)
            columns[name] = column
        return Frame(self.kind, columns, rows, data=data, given=own_names(data, names))

    def build(self, columns: Sequence[Column], like: Frame) -> Any:
        names = like.rename(column.name for column in columns)
        return {name: column_adapter("numpy").write(column) for name, column in zip(names, columns, strict=True)}

    def replace(self, frame: Frame, columns: Mapping[str, Column], added: Mapping[str, NDArray[np.bool_]]) -> Any:
        return {**frame.data, **self.build(list(columns.values()), frame), **added}


class Records(FrameAdapter):
    """Iterables of mappings from names to values; a cell is missing where a record has no value of that name.

    No type alone decides: what is iterable may be a frame of another kind.
    """

    kind = "records"

    def open(self, data: Any) -> Frame:
        records = list(data)
        names: dict[Any, None] = {}
        for row, record in enumerate(records):
            if not isinstance(record, Mapping):
                raise TableError(f"row {row} is a {type(record).__name__}, not a record such as {{'x': 1.5, 'c': 'a'}}")
            names.update(dict.fromkeys(record))
        opened = frame_adapter("dict").open({name: [record.get(name) for record in records] for name in names})
        return Frame(self.kind, opened.columns, len(records), data=records, given=opened.given)

    def build(self, columns: Sequence[Column], like: Frame) -> Any:
        values = [array.tolist() for array in frame_adapter("dict").build(columns, like).values()]
        names = like.rename(column.name for column in columns)
        return [dict(zip(names, row, strict=True)) for row in zip(*values, strict=True)]

    def replace(self, frame: Frame, columns: Mapping[str, Column], added: Mapping[str, NDArray[np.bool_]]) -> Any:
        new = [{} for _ in frame.data] if not columns else self.build(list(columns.values()), frame)
        flags = {name: values.tolist() for name, values in added.items()}
        return [
            {**record, **new[row], **{name: values[row] for name, values in flags.items()}}
            for row, record in enumerate(frame.data)
        ]


class StructuredArrays(FrameAdapter):
    """Arrays whose type names their fields."""

    kind = "structured"

    def owns(self, data: Any) -> bool:
        return isinstance(data, np.ndarray)

    def open(self, data: Any) -> Frame:
        if data.ndim == 2 and data.dtype.names is None:
            return frame_adapter("matrix").open(data)
        if data.dtype.names is None or data.ndim != 1:
            raise TableError(
                f"an array of shape {data.shape} and type {data.dtype} has no column names; "
                "give an array of two dimensions, a structured array, or a mapping of names to arrays"
            )
        names = check_column_names(data.dtype.names)
        columns = {name: column_adapter("numpy").copy(name, data[name]) for name in names}
        return Frame(self.kind, columns, len(data), labels=data.dtype, data=data)

    def build(self, columns: Sequence[Column], like: Frame) -> Any:
        arrays = {column.name: column_adapter("numpy").write(column) for column in columns}
        types = {name: like.labels[name] for name in like.labels.names} if like.labels is not None else {}
        fields = [
            (name, types[name] if name in types and types[name].kind in (array.dtype.kind, "U") else array.dtype)
            for name, array in arrays.items()
        ]
        return _fill_structured(like.rows, fields, arrays)

    def replace(self, frame: Frame, columns: Mapping[str, Column], added: Mapping[str, NDArray[np.bool_]]) -> Any:
        fields = [(name, frame.labels[name]) for name in frame.labels.names]
        arrays = {name: frame.data[name] for name in frame.labels.names}
        arrays |= {name: column_adapter("numpy").write(column) for name, column in columns.items()}
        return _fill_structured(frame.rows, [*fields, *((name, np.dtype(bool)) for name in added)], {**arrays, **added})


class Matrices(FrameAdapter):
    """Arrays of two dimensions, whose columns get the names x0, x1, ...; `StructuredArrays` opens them."""

    kind = "matrix"

    def open(self, data: Any) -> Frame:
        columns = {f"x{number}": column_adapter("numpy").copy("", column) for number, column in enumerate(data.T)}
        return Frame(self.kind, columns, len(data), data=data)

    def build(self, columns: Sequence[Column], like: Frame) -> Any:
        return np.column_stack([column_adapter("numpy").write(column) for column in columns])

    def replace(self, frame: Frame, columns: Mapping[str, Column], added: Mapping[str, NDArray[np.bool_]]) -> Any:
        # Integers and truth values have no missing cells, so only added columns can need another type.
        keeps_type = frame.data.dtype.kind in "fO" or not added
        dtype = frame.data.dtype if keeps_type else np.result_type(frame.data.dtype, np.bool_)
        array = np.empty((frame.rows, frame.data.shape[1] + len(added)), dtype=dtype)
        array[:, : frame.data.shape[1]] = frame.data
        for name, column in columns.items():
            array[:, int(name[1:])] = column_adapter("numpy").write(column)
        for number, values in enumerate(added.values(), frame.data.shape[1]):
            array[:, number] = values
        return array


def _fill_structured(rows: int, fields: list[tuple[str, Any]], arrays: Mapping[str, Any]) -> NDArray[Any]:
    structured = np.empty(rows, dtype=fields)
    for name, array in arrays.items():
        structured[name] = array
    return structured
