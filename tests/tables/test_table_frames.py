"""Every kind of frame and every type of column: what goes in comes out, and holes are filled with all else left as it
is.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hybridbn.errors import TableError
from hybridbn.tables import Table
from hybridbn.tables.columns import Frame, FrameAdapter, frame_adapter, open_frame
from hybridbn.tables.frames.arrays import insert_objects
from hybridbn.variables import Discrete

INTEGERS = st.integers(-(2**63), 2**63 - 1)
SMALL = st.integers(0, 100)
FLOATS = st.floats(allow_nan=False, allow_infinity=False) | st.just(-0.0)
TEXT = st.sampled_from(["a", "b", "", "NA", "\u00e9"])

COLUMNS: dict[str, tuple[st.SearchStrategy[Any], Any, Callable[[list[Any]], Any]]] = {
    "pandas float64": (FLOATS, 2.5, lambda values: pd.Series(values, dtype="float64")),
    "pandas float32": (
        st.floats(width=32, allow_nan=False, allow_infinity=False),
        2.5,
        lambda v: pd.Series(v, dtype="float32"),
    ),
    "pandas Int64": (INTEGERS, 7, lambda values: pd.Series(values, dtype="Int64")),
    "pandas UInt64": (st.integers(0, 2**64 - 1), 7, lambda values: pd.Series(values, dtype="UInt64")),
    "pandas Int8": (SMALL, 7, lambda values: pd.Series(values, dtype="Int8")),
    "pandas boolean": (st.booleans(), True, lambda values: pd.Series(values, dtype="boolean")),
    "pandas category": (
        TEXT,
        "b",
        lambda v: pd.Series(pd.Categorical(v, ["b", "a", "", "NA", "\u00e9"], ordered=True)),
    ),
    "pandas short category": (st.just("a"), "b", lambda values: pd.Series(pd.Categorical(values, ["z", "a"]))),
    "pandas text": (TEXT, "b", lambda values: pd.Series(values, dtype="string")),
    "pandas object": (TEXT, "b", lambda values: pd.Series(values, dtype=object)),
    "pandas arrow": (INTEGERS, 7, lambda values: pd.Series(values, dtype=pd.ArrowDtype(pa.int64()))),
    "polars Float64": (FLOATS, 2.5, lambda values: pl.Series(values, dtype=pl.Float64)),
    "polars Int64": (INTEGERS, 7, lambda values: pl.Series(values, dtype=pl.Int64)),
    "polars UInt64": (st.integers(0, 2**64 - 1), 7, lambda values: pl.Series(values, dtype=pl.UInt64)),
    "polars Boolean": (st.booleans(), True, lambda values: pl.Series(values, dtype=pl.Boolean)),
    "polars Enum": (st.just("a"), "b", lambda values: pl.Series(values, dtype=pl.Enum(["z", "a"]))),
    "polars Categorical": (TEXT, "b", lambda values: pl.Series(values, dtype=pl.Categorical)),
    "polars String": (TEXT, "b", lambda values: pl.Series(values, dtype=pl.String)),
    "arrow double": (FLOATS, 2.5, lambda values: pa.chunked_array([pa.array(values, pa.float64())])),
    "arrow int64": (INTEGERS, 7, lambda values: pa.chunked_array([pa.array(values, pa.int64())])),
    "arrow uint64": (st.integers(0, 2**64 - 1), 7, lambda v: pa.chunked_array([pa.array(v, pa.uint64())])),
    "arrow bool": (st.booleans(), True, lambda values: pa.chunked_array([pa.array(values, pa.bool_())])),
    "arrow string": (TEXT, "b", lambda values: pa.chunked_array([pa.array(values, pa.large_string())])),
    "arrow dictionary": (
        TEXT,
        "b",
        lambda values: pa.chunked_array([pa.array(values, pa.string()).dictionary_encode()]),
    ),
    "dict floats": (FLOATS, 2.5, lambda v: np.array([math.nan if x is None else x for x in v])),
    "dict float32": (
        st.floats(width=32, allow_nan=False, allow_infinity=False),
        2.5,
        lambda v: np.array([math.nan if x is None else x for x in v], dtype=np.float32),
    ),
    "dict text": (TEXT, "b", lambda values: np.array(values, dtype=object)),
    "records text": (TEXT, "b", list),
    "records floats": (FLOATS, 2.5, list),
    "structured floats": (FLOATS, 2.5, lambda v: np.array([math.nan if x is None else x for x in v])),
    "table floats": (FLOATS, 2.5, lambda v: np.array([math.nan if x is None else x for x in v])),
    "table text": (TEXT, "b", lambda values: np.array(values, dtype=object)),
}


def frame_of(kind: str, column: Any) -> Any:
    """Return a frame of a kind with the column and another one, which nothing touches."""
    other = list(range(len(column)))
    if kind == "pandas":
        return pd.DataFrame({"c": column, "other": other}).set_axis([f"row {i}" for i in other])
    if kind == "polars":
        return pl.DataFrame({"c": column, "other": other})
    if kind == "arrow":
        return pa.table({"c": column, "other": other}, metadata={"k": "v"})
    if kind == "records":
        return [{"c": value, "other": i} for i, value in enumerate(column)]
    if kind == "structured":
        fields = [("c", np.asarray(column).dtype), ("other", np.array(other).dtype)]
        return np.rec.fromarrays([column, np.array(other)], dtype=fields).view(np.ndarray)
    made = {"c": column, "other": np.array(other)}
    return Table(made) if kind == "table" else made


def column_in(frame: Any) -> Any:
    """Return the column of a frame, of a kind whose type tells something."""
    if isinstance(frame, list):
        return [record["c"] for record in frame]
    if isinstance(frame, Table):
        return frame.to_dict()["c"]
    return frame["c"]


def values_in(column: Any) -> list[str]:
    """Return the values as text, which tells 0.0 from -0.0 and 1 from 1.0; missing ones are empty."""
    listed = column.to_pylist() if isinstance(column, pa.ChunkedArray) else list(column)
    listed = [value.item() if isinstance(value, np.generic) else value for value in listed]
    return ["" if value is None or value is pd.NA or value != value else repr(value) for value in listed]


def type_of(column: Any) -> Any:
    return getattr(column, "dtype", getattr(column, "type", None))


@pytest.mark.parametrize("name", COLUMNS)
@settings(max_examples=5, deadline=None)
@given(data=st.data())
def test_every_column_survives_and_is_filled_in_place(name: str, data: st.DataObject) -> None:
    strategy, filler, make = COLUMNS[name]
    kind = name.split()[0]
    values = [data.draw(strategy), *data.draw(st.lists(st.none() | strategy, min_size=1, max_size=6)), None]
    column = make(values)
    frame = frame_of(kind, column)
    before = values_in(column_in(frame))
    table = Table(frame)
    if kind != "table":
        assert values_in(column_in(table.to_native())) == before
        assert type_of(column_in(table.to_native())) == type_of(column_in(frame)) or kind == "records"

    holes = table.cells("c").missing
    assert holes.tolist() == [value is None for value in values]
    filled = table.select(["c"]).fill({"c": (holes, np.array([filler] * int(holes.sum())))})
    after = open_frame(frame).replace(filled, {"flag": holes})

    expected = [repr(filler) if hole else value for value, hole in zip(before, holes, strict=True)]
    if name.endswith("float32"):
        assert [float(value) for value in values_in(column_in(after))] == [float(value) for value in expected]
    else:
        assert values_in(column_in(after)) == expected
    if "short" not in name and "Enum" not in name and kind not in {"records", "table"}:
        assert type_of(column_in(after)) == type_of(column_in(frame))
    again = Table(after)
    assert again.names == ("c", "other", "flag")
    assert again.to_dict()["other"].tolist() == table.to_dict()["other"].tolist()
    assert values_in(column_in(frame)) == before
    if kind == "pandas":
        assert list(after.index) == list(frame.index)
    if kind == "arrow":
        assert after.schema.metadata == frame.schema.metadata


def test_an_adapter_of_ones_own_is_enough_for_a_new_kind_of_frame() -> None:
    class Pair:
        def __init__(self, first: list[float], second: list[float]) -> None:
            self.first, self.second = first, second

    class Pairs(FrameAdapter):
        kind = "pair"

        def owns(self, data: Any) -> bool:
            return isinstance(data, Pair)

        def open(self, data: Any) -> Frame:
            columns = open_frame({"first": data.first, "second": data.second}).columns
            return Frame(self.kind, columns, len(data.first), data=data)

        def build(self, columns: Any, like: Frame) -> Any:
            return Pair(*(column.raw().tolist() for column in columns))

        def replace(self, frame: Frame, columns: Any, added: Any) -> Any:
            kept = {"first": frame.data.first, "second": frame.data.second}
            return Pair(**kept | {name: column.raw().tolist() for name, column in columns.items()})

    pair = Pair([1.0, None], [3.0, 4.0])  # type: ignore[list-item]
    table = Table(pair)
    assert table.kind == "pair"
    assert table.missing == {"first": 1, "second": 0}
    assert table.take([1]).to_native().second == [4.0]
    filled = table.fill({"first": (np.array([False, True]), np.array([2.0]))})
    assert open_frame(pair).replace(filled, {}).first == [1.0, 2.0]


# before version 3, pandas takes text that differs after a zero character only for the same
ZERO = "\0" if int(pd.__version__.split(".")[0]) >= 3 else "0"
TEXTS = st.text(max_size=4).map(lambda text: text.replace("\0", ZERO)) | st.text(
    "ab\u00e9" + ZERO, min_size=6, max_size=18
)


@settings(max_examples=25, deadline=None)
@given(st.lists(TEXTS, min_size=2, max_size=12, unique=True), st.integers(0, 2**32 - 1), st.booleans())
def test_text_is_coded_against_known_states_alike_in_every_library(states: list[str], seed: int, holes: bool) -> None:
    codes = np.random.default_rng(seed).integers(-int(holes), len(states), 1500)
    text = np.array([*states, None], dtype=object)[codes]
    own = text.tolist()
    chunks = pa.chunked_array([pa.array(own[:7], pa.string()), pa.array(own[7:], pa.string())])
    frames = [
        pd.DataFrame({"c": pd.Series(text, dtype="str")}),
        pd.DataFrame({"c": pd.Series(text, dtype=object)}),
        pd.DataFrame({"c": pd.Series([value and (value + "x")[:-1] for value in own], dtype=object)}),
        pd.DataFrame({"c": pd.Series(text, dtype="string[python]")}),
        pl.DataFrame({"c": pl.Series(own, dtype=pl.String)}),
        pa.table({"c": chunks}),
        pa.table({"c": pa.array(["?", *own], pa.large_string())}).slice(1),
        {"c": own},
    ]
    variable, fewer = Discrete("c", tuple(states)), Discrete("c", tuple(states[:-1]))
    unknown = codes == len(states) - 1
    for frame in frames:
        assert Table(frame, variables=[variable])["c"].tolist() == codes.tolist()
        some = Table(frame, variables=[fewer], unknown="missing")["c"]
        assert some.tolist() == np.where(unknown, -1, codes).tolist()
        if unknown.any():
            with pytest.raises(TableError, match=rf"column 'c', row {int(np.argmax(unknown))}: "):
                Table(frame, variables=[fewer])["c"]


@pytest.mark.parametrize(
    "objects", [["b", "a", None], [2, 1, None], [True, False, np.nan], [1.5, 2, None], ["a", 1], [1, 2.5, True]]
)
@pytest.mark.parametrize("kind", [{}, {"discrete": "c"}, {"continuous": "c"}])
def test_objects_that_stand_in_many_cells_are_read_as_few_rows_are(objects: list[Any], kind: dict[str, Any]) -> None:
    column = np.array(objects, dtype=object)[np.random.default_rng(0).integers(0, len(objects), 2000)]

    def read(rows: int) -> Any:
        try:
            table = Table({"c": column[:rows]}, **kind)
        except TableError as error:
            return str(error)
        return table.variables, np.nan_to_num(table["c"][:100], nan=-9.0).tolist()

    assert read(2000) == read(100)


KNOWN = {
    "integers from 0": tuple(range(5)),
    "integers with gaps, in no order": (7, -3, 12, 0),
    "wide integers": (-(2**62), 5, 2**62),
    "text": ("b", "a", "c"),
    "text of 129 states": tuple(f"s{i}" for i in range(129)),
    "text of 255 states": tuple(f"s{i}" for i in range(255)),
    "text of 256 states": tuple(f"s{i}" for i in range(256)),
}


@pytest.mark.parametrize("states", KNOWN.values(), ids=KNOWN)
@pytest.mark.parametrize("rows", [1, 2, 4096, 4097, 9000])
def test_columns_are_read_as_known_states(states, rows):
    variable, rng = Discrete("c", states=states), np.random.default_rng(rows)
    codes = rng.integers(0, len(states), rows)
    values = np.array(states, dtype=object)[codes]
    text = isinstance(states[0], str)
    if text:
        values = np.array([value[:1] + value[1:] for value in values.tolist()], dtype=object)  # objects of their own
        holes = rng.random(rows) < 1 / 3000
        codes, values = np.where(holes, -1, codes), np.where(holes, rng.choice(np.array([None, np.nan]), rows), values)
    array = values if text else values.astype(np.int64)
    for column in (array, pd.Series(array), pd.Series(values, dtype="object")):
        np.testing.assert_array_equal(Table({"c": column}, variables=[variable]).column("c"), codes)
    strange = array.copy()
    strange[-1] = "q" if text else 999
    with pytest.raises(TableError, match=f"row {rows - 1}: ('q'|999) is not a state"):
        Table({"c": strange}, variables=[variable]).column("c")


@pytest.mark.parametrize(
    "values",
    [np.array([True, False]), np.array([0.5, 1.0]), np.array(["0", "1"]), pa.array(["0", "1"])],
    ids=["truth values", "floats", "text", "text of Arrow"],
)
def test_columns_of_other_types_are_no_known_integers(values):
    with pytest.raises(TableError, match="is not a state"):
        Table({"c": values}, variables=[Discrete("c", states=(0, 1))]).column("c")
    unsigned = np.array([1, 2**64 - 1], dtype=np.uint64)
    with pytest.raises(TableError, match="row 1: 18446744073709551615 is not a state"):
        Table({"c": unsigned}, variables=[Discrete("c", states=(0, 1))]).column("c")


@pytest.mark.parametrize("dtype", ["float32", "int8", "bool", "object"])
def test_matrices_keep_their_type(dtype):
    data = np.array([[0, 1], [1, 1]]).astype(dtype)
    frame = open_frame(data)
    for flags in ({}, {"x1 is missing": np.array([True, False])}):
        replaced = frame_adapter("matrix").replace(frame, {}, flags)
        assert replaced.dtype == dtype
        assert replaced.tolist() == np.column_stack([data, *flags.values()]).tolist()


def test_inserted_objects_are_of_the_type_of_those_that_stay() -> None:
    old = np.array([Decimal("1.5"), 2.5, None], dtype=object)
    inserted = insert_objects(old, np.array([0]), np.array([3.0]))
    assert inserted.tolist() == [3.0, 2.5, None]
    assert type(inserted[0]) is float
    assert type(insert_objects(old, np.array([1, 2]), np.array([3.0, 4.0]))[2]) is Decimal
