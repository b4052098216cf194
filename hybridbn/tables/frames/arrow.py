"""pyarrow: tables and arrays, all frames that export an Arrow stream, and checks of what is read."""

from __future__ import annotations

import contextlib
import errno
import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hybridbn.errors import FormatError, HybridBNError, TableError
from hybridbn.registry import LazyModule, import_library
from hybridbn.tables.cells import (
    Cells,
    Kind,
    TimeValues,
    as_plain,
    check_numbers,
    count_moments,
    integer_limits,
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

pyarrow: LazyModule = LazyModule("pyarrow")
compute: LazyModule = LazyModule("pyarrow.compute")

NUMBERS = {"integer", "float", "decimal"}
"""Kinds of Arrow types that hold numbers, in the words of `kind_of_type`."""


class ArrowColumns(ColumnAdapter):
    """Arrays and chunked arrays, which are immutable."""

    kind = "arrow"

    def owns(self, values: Any) -> bool:
        return type(values).__module__ == "pyarrow.lib"

    def copy(self, name: str, values: Any) -> Any:
        return values

    def read(self, name: str, values: Any, kind: Kind | None) -> Cells:
        column = make_dense(values if isinstance(values, pyarrow.ChunkedArray) else pyarrow.chunked_array([values]))
        types, dtype = pyarrow.types, column.type
        held = decode_type(dtype)
        if types.is_nested(held) or types.is_dictionary(held):
            raise make_type_error(name, dtype)
        if types.is_boolean(dtype):
            codes = compute.fill_null(column.cast(pyarrow.int8()), -1).to_numpy()
            return label_codes(name, codes, (False, True), declared=True)
        declared, text = types.is_dictionary(dtype), types.is_string(dtype) or types.is_large_string(dtype)
        if text or declared or (types.is_integer(dtype) and kind == "discrete"):
            return label_dictionary(name, column if declared else column.dictionary_encode(), declared=declared)
        if types.is_integer(dtype) or types.is_floating(dtype) or types.is_decimal(dtype):
            if not types.is_float64(dtype):
                column = column.cast(pyarrow.float64(), safe=False)
            filled = compute.fill_null(column, np.nan) if column.null_count else column
            return check_numbers(name, filled.to_numpy(), integer=types.is_integer(dtype))
        if (moments := self.read_moments(column)) is not None:
            return count_moments(*moments)
        if types.is_null(dtype):
            return label_objects(name, as_objects([None] * len(column)), kind)
        raise make_type_error(name, dtype)

    def encode(self, values: Any, states: Sequence[Any]) -> NDArray[np.intp] | None:
        types, dtype = pyarrow.types, values.type
        textual = types.is_string(dtype) or types.is_large_string(dtype)
        if not textual or not all(isinstance(state, str) for state in states):
            return None
        try:
            codes = compute.index_in(values, value_set=pyarrow.array(states, dtype))
        except UnicodeEncodeError:
            return None
        if codes.null_count > values.null_count:
            return None
        return np.asarray(codes.fill_null(-1), dtype=np.intp)

    def take(self, values: Any, rows: NDArray[np.intp]) -> Any:
        taken = make_dense(values).take(pyarrow.array(rows))
        return encode_as(taken, values.type)

    def list_values(self, values: Any) -> Sequence[Any]:
        return list(values.to_pylist())

    def holds_objects(self, values: Any) -> bool:
        return bool(pyarrow.types.is_nested(values.type))

    def make(self, name: str, cells: Cells) -> Any:
        form, values, missing = as_plain(cells)
        try:
            if form == "object":
                array = make_array(values.tolist())
            elif form in {"text", "category"}:
                codes = pyarrow.array(values.astype(np.int32), mask=missing)
                states = make_array(list(cells.states or ()))
                array = pyarrow.DictionaryArray.from_arrays(codes, states, ordered=cells.ordered)
                array = array.cast(pyarrow.string()) if form == "text" else array
            else:
                array = pyarrow.array(values, mask=missing)
        except (pyarrow.ArrowInvalid, pyarrow.ArrowTypeError, UnicodeEncodeError) as error:
            raise TableError(f"column {name!r}: states that an Arrow table can't hold: {error}") from None
        return pyarrow.chunked_array([array])

    def read_moments(self, values: Any) -> TimeValues | None:
        types, dtype = pyarrow.types, values.type
        if not types.is_temporal(dtype) or types.is_interval(dtype):
            return None
        if types.is_time(dtype):
            ticks = values.cast(pyarrow.int32() if types.is_time32(dtype) else pyarrow.int64())
            spans = ticks.cast(pyarrow.int64()).cast(pyarrow.duration(dtype.unit))
            return TimeValues(spans.to_numpy(zero_copy_only=False), "time")
        moments = values.to_numpy(zero_copy_only=False)
        is_date, zone = types.is_date(dtype), dtype.tz if types.is_timestamp(dtype) else None
        return TimeValues(moments.astype("M8[D]") if is_date else moments, zone=zone)

    def make_moments(self, name: str, moments: NDArray[Any], unit: Unit, old: Any) -> Any:
        code = np.datetime_data(moments.dtype)[0]
        if code not in ("s", "ms", "us", "ns") and (code != "D" or unit.kind != "date"):
            code = "s"
            moments = moments.astype(f"{moments.dtype.kind}8[s]")
        bits = 32 if code in ("D", "s", "ms") and unit.kind in ("date", "time") else 64
        names = {"date": "date32", "time": f"time{bits}[{code}]", "duration": f"duration[{code}]"}
        alias = names.get(unit.kind)
        kind = pyarrow.timestamp(code, unit.zone) if alias is None else pyarrow.type_for_alias(alias)
        array = pyarrow.array(moments.astype(f"i{bits // 8}"), mask=np.isnat(moments)).view(kind)
        return pyarrow.chunked_array(
            [array if old is None or array.type == old.type else array.cast(old.type, safe=False)]
        )

    def make_integers(self, name: str, values: NDArray[Any]) -> Any:
        return pyarrow.chunked_array([make_array(values.tolist())])

    def restore_type(self, made: Any, old: Any, cells: Cells) -> Any:
        return encode_as(made, old.type)

    def fit(self, values: Any, kind: Any) -> Any:
        limits = limits_of_type(kind)
        if limits is not None and values.type != kind and not pyarrow.types.is_dictionary(values.type):
            below = compute.min_element_wise(values, limits[1], skip_nulls=False)
            values = compute.max_element_wise(below, limits[0], skip_nulls=False)
        return encode_as(values, kind)

    def insert(self, old: Any, rows: NDArray[np.intp], part: Any) -> Any:
        if part.type != old.type:
            return None
        whole = old if isinstance(old, pyarrow.ChunkedArray) else pyarrow.chunked_array([old])
        for decode in (make_dense, lambda column: decode_column(make_dense(column))):
            # some types can't be taken from, and some dictionaries can't be joined
            with contextlib.suppress(pyarrow.ArrowException):
                return encode_as(replace_cells(decode(whole), rows, decode(part)), old.type)
        return None


def is_text(kind: Any) -> bool:
    """Tell whether an Arrow type is one of text."""
    return bool(pyarrow.types.is_string(kind) or pyarrow.types.is_large_string(kind))


def make_array(values: list[Any]) -> Any:
    """Return an Arrow array of Python values, whose type holds integers of any size.

    Examples
    --------
    >>> make_array([2**63, None]).type, make_array([2**64, 1]).type, make_array([10**90]).type
    (DataType(uint64), Decimal256Type(decimal256(76, 0)), DataType(double))
    """
    for kind in (None, pyarrow.uint64(), pyarrow.decimal256(76)):
        with contextlib.suppress(OverflowError, *([] if kind is None else [pyarrow.ArrowInvalid])):
            return pyarrow.array(values, kind)
    return pyarrow.array([None if value is None else float(value) for value in values])


def dense_type(kind: Any) -> Any:
    """Return the Arrow type that holds the same values one by one, so that rows can be taken."""
    types = pyarrow.types
    if types.is_run_end_encoded(kind):
        return dense_type(kind.value_type)
    if types.is_dictionary(kind):
        return pyarrow.dictionary(kind.index_type, dense_type(kind.value_type), kind.ordered)
    if types.is_string_view(kind):
        return pyarrow.large_string()
    return pyarrow.large_binary() if types.is_binary_view(kind) else kind


def make_dense(column: Any) -> Any:
    """Return an Arrow column whose values stand one by one.

    Examples
    --------
    >>> import pyarrow
    >>> make_dense(pyarrow.array(["a", None], pyarrow.string_view())).type
    DataType(large_string)
    """
    kind, types = dense_type(column.type), pyarrow.types
    if column.type == kind:
        return column
    if isinstance(column, pyarrow.ChunkedArray):
        return pyarrow.chunked_array(list(map(make_dense, column.chunks)), kind)
    if types.is_run_end_encoded(column.type):
        rows = np.searchsorted(column.run_ends, column.offset + np.arange(len(column)), side="right")
        return make_dense(column.values).take(pyarrow.array(rows))
    if types.is_dictionary(kind):
        dictionary = make_dense(column.dictionary)
        return pyarrow.DictionaryArray.from_arrays(column.indices, dictionary, ordered=kind.ordered)
    return column.cast(kind)


def encode_as(column: Any, kind: Any) -> Any:
    """Return an Arrow column as one of another type, perhaps of runs or with a dictionary; as it is where that type
    can't hold it.
    """
    types = pyarrow.types
    with contextlib.suppress(pyarrow.ArrowInvalid, pyarrow.ArrowNotImplementedError):
        if types.is_run_end_encoded(kind):
            return compute.run_end_encode(encode_as(column, kind.value_type), run_end_type=kind.run_end_type)
        if types.is_dictionary(kind) and not types.is_dictionary(column.type):
            return column.cast(kind.value_type).dictionary_encode().cast(kind)
        return column if column.type == kind else column.cast(kind)
    return column


def dense_schema(schema: Any) -> Any:
    """Return a schema whose types hold values one by one."""
    return pyarrow.schema([one.with_type(dense_type(one.type)) for one in schema], schema.metadata)


def make_all_dense(batch: Any) -> Any:
    """Return a record batch whose columns are dense."""
    return pyarrow.RecordBatch.from_arrays(list(map(make_dense, batch.columns)), schema=dense_schema(batch.schema))


def replace_cells(column: Any, rows: NDArray[np.intp], part: Any) -> Any:
    """Return a chunked array with other values, of its type, in some rows.

    Examples
    --------
    >>> import pyarrow
    >>> column, part = pyarrow.chunked_array([[1, None, 3]]), pyarrow.chunked_array([[2]])
    >>> replace_cells(column, np.array([1]), part).to_pylist()
    [1, 2, 3]
    """
    positions = np.arange(len(column))
    positions[rows] = len(column) + np.arange(len(rows))
    joined = pyarrow.chunked_array([*column.chunks, *part.chunks], column.type)
    return joined.combine_chunks().take(pyarrow.array(positions)) if len(joined) else column


def unify_dictionaries(schema: Any, names: Collection[str]) -> Any:
    """Return a schema with dictionaries for these of the columns that have one, and room for the states of all rows."""
    fields = []
    for one in schema:
        kind = decode_type(one.type)
        if kind != one.type and one.name in names:
            kind = pyarrow.dictionary(pyarrow.int32(), kind, ordered=one.type.ordered)
        fields.append(one.with_type(kind))
    return pyarrow.schema(fields, schema.metadata)


def encode_states(table: Any, schema: Any, states: Mapping[str, Iterable[Any]]) -> Any:
    """Return an Arrow table with the types of a schema, in which each column of a dictionary has that of given states.

    Examples
    --------
    >>> import pyarrow
    >>> schema = pyarrow.schema({"c": pyarrow.dictionary(pyarrow.int32(), pyarrow.string())})
    >>> encode_states(pyarrow.table({"c": ["a"]}), schema, {"c": ["b", "a"]})["c"].chunk(0).indices.to_pylist()
    [1]
    """
    for number, field in enumerate(schema):
        column = decode_column(table.column(number))
        if pyarrow.types.is_dictionary(field.type):
            dictionary = pyarrow.array(list(states[field.name]), field.type.value_type)
            codes = compute.index_in(column.cast(field.type.value_type).combine_chunks(), value_set=dictionary)
            indices = codes.cast(field.type.index_type)
            column = pyarrow.DictionaryArray.from_arrays(indices, dictionary, ordered=field.type.ordered)
        table = table.set_column(number, field.name, column)
    return table.cast(schema)


def label_dictionary(name: str, column: Any, *, declared: bool, compact: bool = False) -> Cells:
    """Return a dictionary-encoded pyarrow column as discrete cells, `declared` if its type names the states; `compact`
    ones keep the type of its codes.
    """
    codes, states = decode_dictionary(column)
    ordered = declared and column.type.ordered
    return label_codes(name, codes, states, declared=declared, ordered=ordered, compact=compact)


def decode_dictionary(column: Any) -> tuple[NDArray[Any], list[Any]]:
    """Return the codes of a dictionary-encoded pyarrow column, -1 where a cell is missing, and its distinct values."""
    if column.num_chunks == 1:
        return read_indices(column.chunk(0)), column.chunk(0).dictionary.to_pylist()
    # pyarrow joins dictionaries of few types only
    coder = StateCoder()
    codes = [coder.encode(one) for one in column.chunks]
    return np.concatenate(codes or [np.zeros(0, np.intp)]), list(coder.states)


def read_indices(column: Any) -> NDArray[Any]:
    """Return the indices of a dictionary array as signed numbers, -1 where a cell is missing.

    Examples
    --------
    >>> import pyarrow
    >>> read_indices(pyarrow.array(["a", None]).cast(pyarrow.dictionary(pyarrow.uint8(), pyarrow.string())))
    array([ 0, -1])
    """
    indices = column.indices
    if pyarrow.types.is_unsigned_integer(indices.type):
        indices = indices.cast(pyarrow.int64())
    return np.asarray((indices.fill_null(-1) if indices.null_count else indices).to_numpy())


class ArrowFrames(FrameAdapter):
    """Tables; new ones get the metadata of the schema."""

    kind = "arrow"

    def owns(self, data: Any) -> bool:
        return is_of_library(data, "pyarrow", "Table")

    def open(self, data: Any) -> Frame:
        kind = type(data).__name__
        import_library(
            "pyarrow", f"reading a {kind} needs pyarrow (pip install 'hybridbn[io]'); or convert it to pandas first"
        )
        data = data if self.owns(data) else pyarrow.table(data)
        names = check_column_names(data.column_names)
        # pyarrow fails where it joins chunks some of which are empty, as streams give them
        columns = [pyarrow.chunked_array([one for one in held.chunks if len(one)], held.type) for held in data.columns]
        return Frame(self.kind, dict(zip(names, columns, strict=True)), data.num_rows, labels=data.schema, data=data)

    def build(self, columns: Sequence[Column], like: Frame) -> Any:
        table = pyarrow.table({column.name: column_adapter("arrow").write(column) for column in columns})
        return table if like.labels is None else table.replace_schema_metadata(like.labels.metadata)

    def replace(self, frame: Frame, columns: Mapping[str, Column], added: Mapping[str, NDArray[np.bool_]]) -> Any:
        table = frame.data
        for name, column in columns.items():
            table = table.set_column(table.column_names.index(name), name, column_adapter("arrow").write(column))
        for name, values in added.items():
            table = table.append_column(name, pyarrow.array(values))
        return table


def decode_type(kind: Any) -> Any:
    """Return the Arrow type of the values of a dictionary, or the type itself."""
    return kind.value_type if pyarrow.types.is_dictionary(kind) else kind


def decode_column(column: Any) -> Any:
    """Return an Arrow column without a dictionary."""
    if not pyarrow.types.is_dictionary(column.type):
        return column
    if isinstance(column, pyarrow.ChunkedArray):
        return pyarrow.chunked_array(list(map(decode_column, column.chunks)), column.type.value_type)
    return column.dictionary_decode()


def join_types(name: str, first: Any, then: Any) -> Any:
    """Return an Arrow type that holds the values of two, or refuse values of two kinds.

    Examples
    --------
    >>> import pyarrow
    >>> print(join_types("x", pyarrow.int8(), pyarrow.float32()), join_types("x", pyarrow.null(), pyarrow.string()))
    float string
    """
    types = pyarrow.types
    if types.is_null(first) or types.is_null(then) or first == then:
        return then if types.is_null(first) else first
    held = decode_type(first), decode_type(then)
    kinds = {*map(kind_of_type, held)}
    if held[0] == held[1]:
        return first if types.is_dictionary(then) else held[0]
    try:
        if len(kinds) > 1 and not kinds <= NUMBERS:
            raise pyarrow.ArrowTypeError
        schemas = [pyarrow.schema({name: kind}) for kind in held]
        return pyarrow.unify_schemas(schemas, promote_options="permissive").field(0).type
    except pyarrow.ArrowException:
        raise TableError(
            f"column {name!r} is of type {then}, and of type {first} in files before; the files of a scan have the same"
            " columns: convert it"
        ) from None


def kind_of_type(kind: Any) -> str:
    """Return what an Arrow type holds, in the words of `Field`."""
    types, held = pyarrow.types, dense_type(decode_type(kind))
    tests = {
        "integer": types.is_integer,
        "float": types.is_floating,
        "bool": types.is_boolean,
        "text": is_text,
        "decimal": types.is_decimal,
        "date": types.is_date,
        "time": types.is_time,
        "interval": types.is_duration,
        "bytes": lambda kind: types.is_binary(kind) or types.is_large_binary(kind) or types.is_fixed_size_binary(kind),
        "datetime": lambda kind: types.is_timestamp(kind) and kind.tz is None,
        "instant": types.is_timestamp,
        "json": types.is_nested,
    }
    return next((kind for kind, test in tests.items() if test(held)), "other")


def limits_of_type(held: Any) -> tuple[float, float] | None:
    """Return the least and the greatest number that a type of integers or decimals holds."""
    types = pyarrow.types
    if types.is_decimal(held):
        high = math.nextafter((10**held.precision - 1) / 10**held.scale, 0.0)
        return -high, high
    return integer_limits(held.bit_width, signed=types.is_signed_integer(held)) if types.is_integer(held) else None


# -- checks ------------------------------------------------------------------------------------------------------------


NEEDS = ("pyarrow", "Parquet and Feather need pyarrow: pip install 'hybridbn[io]'")


def import_pyarrow() -> Any:
    """Return pyarrow, or say how to get it."""
    return import_library(*NEEDS, FormatError)


@contextlib.contextmanager
def report_damage(title: str) -> Iterator[None]:
    """Turn what pyarrow raises about a damaged file into `FormatError`."""
    import_pyarrow()
    try:
        yield
    except HybridBNError:
        raise
    except pyarrow.ArrowMemoryError as error:
        raise FormatError(
            f"reading the {title} file takes more memory than there is, as of one that is damaged: {error}"
        ) from error
    except (pyarrow.ArrowException, OSError, ValueError, LookupError, OverflowError) as error:
        # positions in a damaged file may lie before its beginning
        if isinstance(error, OSError) and error.errno not in (None, errno.EINVAL):
            raise
        raise FormatError(f"not a whole {title} file: {error}") from error


def number_rows(batches: Iterable[Any], start: int = 0) -> Iterator[tuple[int, Any]]:
    """Give record batches that follow each other with the numbers of their first rows."""
    for batch in batches:
        yield start, batch
        start += batch.num_rows


def validate(data: Any) -> Any:
    """Return a table or batch that was read; raise pyarrow's error where its lengths, codes or texts are damaged.

    Without this, what is computed from it may read beyond its memory.
    """
    data.validate(full=True)
    return data


# -- states coded batch by batch ---------------------------------------------------------------------------------------


_BATCH = 1 << 15
"""Rows of a batch."""
_SPAN = 1 << 16
"""Integers of a column are looked up in a table where they span at most so many numbers."""
_NEW = -2
_TYPES = (np.int8, np.int16, np.int32, np.int64)


def read_coded_columns(file: Any, kinds: Mapping[str, Any]) -> dict[str, Any]:
    """Return columns of text or integers of an opened Parquet file as Arrow columns with one dictionary each.

    Parameters
    ----------
    file : ParquetFile, which gives the columns of text as dictionaries
    kinds : mapping from column to the Arrow type that it has in the file
    """
    coders: dict[str, StateCoder] = {name: StateCoder() for name in kinds}
    codes: dict[str, list[NDArray[Any]]] = {name: [np.empty(0, np.int8)] for name in kinds}
    for batch in map(validate, file.iter_batches(_BATCH, columns=list(kinds), use_threads=False)):
        for name, coder in coders.items():
            codes[name].append(coder.encode(batch.column(name)))
    return {
        name: _make_dictionary(np.concatenate(codes.pop(name)), list(coder.states), kinds[name])
        for name, coder in coders.items()
    }


def _make_dictionary(codes: NDArray[Any], states: list[Any], kind: Any) -> Any:
    """Return codes of states, which have an Arrow type or are those of a dictionary, as an Arrow column."""
    indices = pyarrow.array(codes, mask=codes < 0)
    ordered = pyarrow.types.is_dictionary(kind) and kind.ordered
    dictionary = pyarrow.array(states, decode_type(kind))
    return pyarrow.chunked_array([pyarrow.DictionaryArray.from_arrays(indices, dictionary, ordered=ordered)])


class StateCoder:
    """Codes of states in as few bytes as their number needs, in the order in which they came; batch after batch.

    Parameters
    ----------
    states : iterable
        Those that are known before.

    Examples
    --------
    >>> import pyarrow
    >>> coder = StateCoder(["b"])
    >>> [coder.encode(pyarrow.array(batch)).tolist() for batch in (["a", "b"], [None, "c"])]
    [[1, 0], [-1, 2]]
    >>> list(coder.states)
    ['b', 'a', 'c']
    """

    def __init__(self, states: Iterable[Any] = ()) -> None:
        self.states: dict[Any, int] = {}
        self._kind: type[np.signedinteger[Any]] = np.int8
        self._dictionary: Any = None
        self._known: NDArray[Any] = np.empty(0, np.int8)
        self._low = 0
        self._span: NDArray[Any] = np.empty(0, np.int8)
        self._is_identity = False
        self.number(states)

    def encode(self, column: Any) -> NDArray[Any]:
        """Return the codes of an Arrow array of text, of integers or of a dictionary, -1 where a cell is missing."""
        if pyarrow.types.is_integer(column.type):
            looked_up = None if column.null_count else self._look_up_integers(column.to_numpy())
            if looked_up is not None:
                return looked_up
        if not pyarrow.types.is_dictionary(column.type):
            column = column.dictionary_encode()
        if self._dictionary is None or not column.dictionary.equals(self._dictionary):
            self._dictionary = column.dictionary
            # the last is looked up by the code -1 of a missing cell
            known = [*self.number(self._dictionary.to_pylist()), -1]
            self._known = np.array(known, self._kind)
        return np.asarray(self._known.take(read_indices(column), mode="wrap"))

    def number(self, values: Iterable[Any]) -> list[int]:
        """Return the codes of values, new ones following those so far; the type of the codes has room for them."""
        states = self.states
        # NaN is no value, and not equal to itself
        numbers = [states.setdefault(one, len(states)) if one is not None and one == one else -1 for one in values]
        self._kind = next(kind for kind in _TYPES if len(self.states) <= np.iinfo(kind).max)
        return numbers

    def _look_up_integers(self, values: NDArray[Any]) -> NDArray[Any] | None:
        """Return the codes of integers from a table of all between the least and the greatest; None where these are too
        many.
        """
        if not len(values):
            return self._span
        low, high = int(values.min()), int(values.max())
        if not len(self._span) or low < self._low or high >= self._low + len(self._span):
            if self.states:
                low, high = min(low, *self.states), max(high, *self.states)
            if high - low >= _SPAN:
                return None
            self._low, self._span = low, np.full(high - low + 1, _NEW, self._kind)
            for value, code in self.states.items():
                self._span[value - low] = code
            self._is_identity = bool((self._span == np.arange(len(self._span))).all())
        if not self._low and self._is_identity:
            # each integer is its own code
            return values.astype(self._kind, copy=False)
        places = values if not self._low and values.dtype.kind == "i" else values.astype(np.int64) - self._low
        codes = self._span.take(places)
        new = np.flatnonzero(np.bincount(places[codes == _NEW])) if codes.min() == _NEW else places[:0]
        if len(new):
            numbers = self.number((new + self._low).tolist())
            self._span = self._span.astype(self._kind, copy=False)
            self._span[new] = numbers
            self._is_identity = bool((self._span == np.arange(len(self._span))).all())
            codes = self._span.take(places)
        return codes
