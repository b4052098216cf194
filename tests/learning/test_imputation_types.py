"""Observed cells come out of imputation bit by bit as they went in, with their types, whatever these are."""

from __future__ import annotations

import datetime
import decimal
import struct
import uuid
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import hybridbn as hb

ROWS = 24
HOLES = (2, 7, 11, 18)
INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
DAY, NOON = datetime.date(2020, 2, 28), datetime.datetime(2020, 2, 28, 12, 30, 15, 123456)
ZONE = datetime.timezone(datetime.timedelta(hours=5, minutes=30))


def spread(kind: str) -> list[int]:
    """Return integers of a type, its ends among them."""
    ends = np.iinfo(kind)
    inner = [ends.min, ends.max, ends.max - 1, 3, 5, 6, ends.max // 2 + 1, ends.max // 3]
    return (inner * 3)[:ROWS]


def ids() -> list[int]:
    """Return integers of which floats keep the first digits only."""
    return [2**53 + 1 + 2 * i for i in range(ROWS)]


def floats(kind: str) -> list[float]:
    """Return floats of a type, with signed zeros and the smallest of them."""
    special = [0.0, -0.0, float(np.finfo(kind).smallest_subnormal), 0.1, -7.25]
    return [float(v) for v in np.array((special * 5)[:ROWS]).astype(kind)]


def exact() -> list[decimal.Decimal]:
    return [decimal.Decimal(10**19 + i).scaleb(-3) for i in range(ROWS)]


TEXTS = ["a", "b", "ä"] * 8
VALUES: dict[str, Callable[[], Sequence[Any]]] = {
    "texts": lambda: TEXTS,
    "truths": lambda: [True, False, True] * 8,
    "dates": lambda: [DAY + datetime.timedelta(i) for i in range(ROWS)],
    "instants": lambda: [NOON + datetime.timedelta(i) for i in range(ROWS)],
    "zoned": lambda: [NOON.replace(tzinfo=ZONE) + datetime.timedelta(i) for i in range(ROWS)],
    "durations": lambda: [datetime.timedelta(i, 3, 7) for i in range(ROWS)],
    "times": lambda: [(NOON + datetime.timedelta(minutes=i)).time() for i in range(ROWS)],
    "decimals": exact,
    "bytes": lambda: [bytes([i, 0, 255]) for i in range(ROWS)],
    "lists": lambda: [[i, None, i + 2] for i in range(ROWS)],
    "records": lambda: [{"a": i, "b": "x"} for i in range(ROWS)],
    "ids": ids,
}


def punched(values: Sequence[Any]) -> list[Any]:
    return [None if row in HOLES else value for row, value in enumerate(values)]


def pandas_frame() -> pd.DataFrame:
    made = {name: punched(make()) for name, make in VALUES.items()}
    columns: dict[str, Any] = {"complete": pd.Series(np.arange(ROWS) % 5 * 1.5)}
    for kind in INTEGERS:
        columns[kind] = pd.Series(np.array(spread(kind), dtype=kind))
        columns[kind.replace("i", "I").replace("u", "U")] = pd.array(punched(spread(kind)), dtype=_masked(kind))
        columns[f"{kind}[pyarrow]"] = pd.array(punched(spread(kind)), dtype=f"{kind}[pyarrow]")
    for kind in ("float16", "float32", "float64"):
        columns[kind] = pd.Series(np.array(floats(kind), dtype=kind)).where(~_is_hole())
    for kind in ("Float32", "Float64", "float[pyarrow]", "double[pyarrow]", "halffloat[pyarrow]"):
        width = {"F": kind.lower(), "f": "float32", "d": "float64", "h": "float16"}[kind[0]]
        columns[kind] = pd.array(punched(floats(width)), dtype=kind)
    columns |= {
        "ids": pd.array(made["ids"], dtype="Int64"),
        "uint64 ids": pd.array([None if v is None else v + 2**63 for v in made["ids"]], dtype="UInt64"),
        "complete ids": pd.Series(ids()),
        "objects of ids": pd.Series(made["ids"], dtype=object),
        "objects of large ids": pd.Series([None if v is None else v * 2**60 for v in made["ids"]], dtype=object),
        "objects of floats": pd.Series(punched([0.1, 2.5, -0.0] * 8), dtype=object),
        "objects of texts": pd.Series(made["texts"], dtype=object),
        "objects of truths": pd.Series(made["truths"], dtype=object),
        "objects of decimals": pd.Series(made["decimals"], dtype=object),
        "objects of dates": pd.Series(made["dates"], dtype=object),
        "objects of times": pd.Series(made["times"], dtype=object),
        "objects of bytes": pd.Series(made["bytes"], dtype=object),
        "objects of lists": pd.Series(made["lists"], dtype=object),
        "objects of records": pd.Series(made["records"], dtype=object),
        "objects of uuids": pd.Series(punched([uuid.UUID(int=i) for i in range(ROWS)]), dtype=object),
        "str": pd.Series(made["texts"], dtype="str"),
        "string": pd.Series(made["texts"], dtype="string"),
        "string[python]": pd.Series(made["texts"], dtype="string[python]"),
        "string[pyarrow]": pd.Series(made["texts"], dtype=pd.ArrowDtype(pa.string())),
        "bool": pd.Series([True, False, True] * 8),
        "boolean": pd.array(made["truths"], dtype="boolean"),
        "bool[pyarrow]": pd.array(made["truths"], dtype="bool[pyarrow]"),
        "category": pd.Categorical(made["texts"], categories=["ä", "unused", "b", "a"], ordered=True),
        "category of integers": pd.Categorical(punched([1, 2, 4] * 8)),
        "category of dates": pd.Categorical(punched([DAY, NOON.date()] * 12)),
        "Sparse[float64]": pd.arrays.SparseArray([np.nan if v is None else v for v in punched(floats("float64"))]),
        "Sparse[int64]": pd.arrays.SparseArray([0, 0, 2**53 + 1] * 8),
        "Sparse[float64, 0]": pd.arrays.SparseArray(
            [np.nan if r in HOLES else r % 3 for r in range(ROWS)], fill_value=0.0
        ),
        "Sparse[bool]": pd.arrays.SparseArray([True, False, False] * 8),
        "datetime64[ns]": pd.Series(made["instants"], dtype="datetime64[ns]"),
        "datetime64[s]": pd.Series(made["instants"]).astype("datetime64[s]"),
        "datetime64[ns, tz]": pd.Series(
            pd.DatetimeIndex(made["instants"], dtype="datetime64[ns]").tz_localize("Asia/Kolkata")
        ),
        "timedelta64[ns]": pd.Series(made["durations"], dtype="timedelta64[ns]"),
        "period": pd.Series(pd.PeriodIndex(pd.Series(made["instants"]).dt.to_period("h"))),
        "interval": pd.Series(pd.arrays.IntervalArray.from_breaks(range(ROWS + 1))),
        "complex": pd.Series(np.arange(ROWS) * (1 + 2j)),
    }
    for name, column in arrow_columns().items():
        if name not in ("null", "run ends", "view of texts", "view of bytes", "lists of views"):
            columns[f"{name} in pandas"] = pd.array(column, dtype=pd.ArrowDtype(column.type))
    return pd.DataFrame(columns).set_axis(pd.Index(range(100, 100 + ROWS), name="number"))


def _masked(kind: str) -> str:
    return kind.replace("uint", "UInt") if kind.startswith("u") else kind.replace("int", "Int")


def _is_hole() -> pd.Series:
    return pd.Series([row in HOLES for row in range(ROWS)])


def arrow_columns() -> dict[str, pa.Array]:
    made = {name: punched(make()) for name, make in VALUES.items()}
    columns = {kind: pa.array(punched(spread(kind)), kind) for kind in INTEGERS}
    for kind, width in (("halffloat", "float16"), ("float", "float32"), ("double", "float64")):
        columns[kind] = pa.array(np.array(floats(width), dtype=width), mask=_is_hole().to_numpy())
    texts = pa.array(made["texts"])
    return columns | {
        "ids": pa.array(made["ids"]),
        "ids near the end": pa.array([None if v is None else v + 2**62 for v in made["ids"]]),
        "bool": pa.array(made["truths"]),
        "string": texts,
        "large_string": pa.array(made["texts"], pa.large_string()),
        "view of texts": pa.array(made["texts"], pa.string_view()),
        "dictionary": texts.dictionary_encode(),
        "small dictionary": texts.cast(pa.dictionary(pa.int8(), pa.string())),
        "ordered dictionary": pa.DictionaryArray.from_arrays(
            pa.array(punched([2, 0, 1] * 8), pa.int16()), ["b", "unused", "a"], ordered=True
        ),
        "dictionary of integers": pa.array(punched([2**53 + 1, 5, 7] * 8)).dictionary_encode(),
        "run ends": pa.compute.run_end_encode(pa.array(punched(["a"] * 12 + ["b"] * 12))),
        "decimal32": pa.array(punched([decimal.Decimal(i) / 8 for i in range(ROWS)]), pa.decimal32(8, 3)),
        "decimal128": pa.array(made["decimals"], pa.decimal128(30, 3)),
        "decimal256": pa.array(made["decimals"], pa.decimal256(60, 10)),
        "date32": pa.array(made["dates"], pa.date32()),
        "date64": pa.array(made["dates"], pa.date64()),
        "timestamp[s]": pa.array(
            [None if v is None else v.replace(microsecond=0) for v in made["instants"]], pa.timestamp("s")
        ),
        "timestamp[ns]": pa.array([None if r in HOLES else 10**18 + r for r in range(ROWS)], pa.timestamp("ns")),
        "timestamp[us, tz]": pa.array(made["zoned"], pa.timestamp("us", "Asia/Kolkata")),
        "duration[us]": pa.array(made["durations"], pa.duration("us")),
        "duration[ns]": pa.array([None if r in HOLES else 10**15 + r for r in range(ROWS)], pa.duration("ns")),
        "time32": pa.array([None if r in HOLES else r for r in range(ROWS)], pa.time32("ms")),
        "time64": pa.array([None if r in HOLES else r * 7 for r in range(ROWS)], pa.time64("ns")),
        "interval": pa.array(punched([pa.MonthDayNano([1, r, 3]) for r in range(ROWS)])),
        "binary": pa.array(made["bytes"]),
        "fixed binary": pa.array(made["bytes"], pa.binary(3)),
        "view of bytes": pa.array(made["bytes"], pa.binary_view()),
        "list": pa.array(made["lists"]),
        "large list": pa.array(made["lists"], pa.large_list(pa.int16())),
        "fixed list": pa.array(made["lists"], pa.list_(pa.int64(), 3)),
        "lists of views": pa.array(made["lists"], pa.list_view(pa.int64())),
        "struct": pa.array(made["records"]),
        "map": pa.array(punched([[("a", r)] for r in range(ROWS)]), pa.map_(pa.string(), pa.int32())),
        "uuid": pa.array([None if r in HOLES else uuid.UUID(int=r).bytes for r in range(ROWS)], pa.uuid()),
    }


def arrow_frame() -> pa.Table:
    table = pa.table({"complete": [row % 5 * 1.5 for row in range(ROWS)], **arrow_columns()})
    # chunks end anywhere
    return pa.concat_tables([table.slice(0, 9), table.slice(9)])


def polars_frame() -> pl.DataFrame:
    made = {name: punched(make()) for name, make in VALUES.items()}
    columns = [pl.Series("complete", [row % 5 * 1.5 for row in range(ROWS)])]
    kinds: dict[str, Any] = {kind: getattr(pl, _masked(kind).replace("Ui", "UI")) for kind in INTEGERS}
    columns += [pl.Series(kind, punched(spread(kind)), dtype=dtype) for kind, dtype in kinds.items()]
    columns += [
        pl.Series("int128", [None if v is None else v * 2**60 for v in made["ids"]], dtype=pl.Int128),
        pl.Series("float32", punched(floats("float32")), dtype=pl.Float32),
        pl.Series("float64", punched(floats("float64")), dtype=pl.Float64),
        pl.Series("ids", made["ids"]),
        pl.Series("bool", made["truths"]),
        pl.Series("text", made["texts"]),
        pl.Series("categorical", made["texts"], dtype=pl.Categorical),
        pl.Series("enum", made["texts"], dtype=pl.Enum(["ä", "unused", "b", "a"])),
        pl.Series("decimal", made["decimals"], dtype=pl.Decimal(30, 3)),
        pl.Series("date", made["dates"]),
        *(pl.Series(f"datetime {unit}", made["instants"], dtype=pl.Datetime(unit)) for unit in ("ms", "us", "ns")),
        pl.Series("datetime, zone", made["instants"], dtype=pl.Datetime("us")).dt.replace_time_zone("Asia/Kolkata"),
        pl.Series("duration", made["durations"]),
        pl.Series("time", made["times"]),
        pl.Series("binary", made["bytes"]),
        pl.Series("list", made["lists"]),
        pl.Series("array", made["lists"], dtype=pl.Array(pl.Int64, 3)),
        pl.Series("struct", made["records"]),
        pl.Series("object", punched([uuid.UUID(int=row) for row in range(ROWS)]), dtype=pl.Object),
    ]
    return pl.DataFrame(columns)


def mapping_of_arrays() -> dict[str, Any]:
    return {
        name: column.to_numpy(dtype=object) for name, column in pandas_frame().items() if "objects" in str(name)
    } | {
        "complete": np.arange(ROWS) % 5 * 1.5,
        "float32": np.array(floats("float32"), dtype="float32"),
        "datetime64": np.array(punched(VALUES["instants"]()), dtype="datetime64[us]"),
        "masked": np.ma.masked_array(np.array(ids()), mask=_is_hole()),
        "list of ids": punched(ids()),
    }


def records() -> list[dict[str, Any]]:
    columns = {name: punched(make()) for name, make in VALUES.items()} | {"x": [row % 5 * 1.5 for row in range(ROWS)]}
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


FRAMES = (pandas_frame, polars_frame, arrow_frame, mapping_of_arrays, records)


def bits(value: Any) -> Any:
    """Return a value so that only equal bits of equal types are equal, None where it is missing."""
    if value is None or value is pd.NA or value is pd.NaT:
        return None
    if isinstance(value, list | tuple | np.ndarray):
        return [bits(item) for item in value]
    if isinstance(value, float | np.floating):
        return None if value != value else (type(value).__name__, struct.pack("d", float(value)))
    return type(value).__name__, value


def columns_of(data: Any) -> dict[str, tuple[str, list[Any]]]:
    """Return the type and the values of each column of any frame."""
    if isinstance(data, pa.Table):
        plain = {}
        for name, column in zip(data.column_names, data.columns, strict=True):
            decoded = pa.compute.run_end_decode(column) if pa.types.is_run_end_encoded(column.type) else column
            if pa.types.is_timestamp(decoded.type) or pa.types.is_duration(decoded.type):
                decoded = decoded.cast(pa.int64())
            plain[name] = (str(column.type), decoded.to_pylist())
        return plain
    if isinstance(data, pl.DataFrame):
        return {
            name: (str(column.dtype), (column.to_physical() if column.dtype.is_temporal() else column).to_list())
            for name, column in zip(data.columns, data.get_columns(), strict=True)
        }
    if isinstance(data, pd.DataFrame):
        return {str(name): (str(column.dtype), list(column.array)) for name, column in data.items()}
    if isinstance(data, list):
        return {name: ("object", [record[name] for record in data]) for name in data[0]}
    # objects come back as numbers or truth values where they are nothing else
    return {n: ("", values if isinstance(values, list) else values.tolist()) for n, values in data.items()}


@pytest.mark.parametrize("make", FRAMES)
def test_observed_cells_and_types_stay(make: Callable[[], Any]) -> None:
    data = make()
    before = {name: (kind, [bits(value) for value in values]) for name, (kind, values) in columns_of(data).items()}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        completed = columns_of(hb.impute(data, rounds=0, donors=False, random_state=0))
    assert list(completed) == list(before)
    changed = {}
    for name, (kind, values) in before.items():
        now = [bits(value) for value in completed[name][1]]
        differ = [(a, b) for a, b in zip(values, now, strict=True) if a is not None and a != b]
        if differ or completed[name][0] != kind:
            changed[name] = (kind, completed[name][0], differ[:2])
    assert changed == {}
    assert {name: (kind, [bits(v) for v in values]) for name, (kind, values) in columns_of(data).items()} == before


def test_integers_stay_within_their_types_whatever_is_drawn() -> None:
    for kind in ("int64", "uint64", "Int64", "UInt64", "int64[pyarrow]", "uint64[pyarrow]"):
        ends = np.iinfo(kind.lower().partition("[")[0])
        half = [ends.min, ends.max] * 40
        frame = pd.DataFrame({"x": pd.array([*half, *[None] * 20], dtype=_nullable(kind)), "y": range(100)})
        completed = hb.impute(frame, rounds=0, donors=False, random_state=0)
        assert completed["x"].dtype == frame["x"].dtype
        assert completed["x"].tolist()[:80] == half
        assert completed["x"].notna().all()


def _nullable(kind: str) -> str:
    return _masked(kind) if "[" not in kind and kind[0] in "iu" else kind


def test_what_no_variable_can_be_is_named_once() -> None:
    frame = pd.DataFrame({"x": [1.0, None, 3.0], "list": [[1], None, [2]], "when": [b"a", b"b", None]})
    with pytest.warns(UserWarning, match=r"left alone: 'list' \(of type list\), 'when' \(of type bytes\)") as caught:
        completed = hb.impute(frame, random_state=0)
    assert len(caught) == 1
    assert completed[["list", "when"]].equals(frame[["list", "when"]])
    assert completed["x"].notna().all()
    with pytest.warns(UserWarning, match="left alone: 'list'"):
        assert hb.impute(frame[["list"]], random_state=0).equals(frame[["list"]])


def test_a_mixture_of_text_and_numbers_is_refused_and_any_other_left_alone() -> None:
    with pytest.raises(hb.TableError, match="mixes values of several types"):
        hb.impute(pd.DataFrame({"x": [1.0, None, 3.0], "d": [4.5, "unknown", None]}))
    with pytest.warns(UserWarning, match=r"left alone: 'd' \(of types date, str\)"):
        hb.impute(pd.DataFrame({"x": [1.0, None, 3.0], "d": [DAY, "unknown", None]}))


def test_record_batches_and_chunked_tables_are_filled_alike() -> None:
    pa = pytest.importorskip("pyarrow")
    numbers = pa.array([1.5, None, 3.5, 2.0, None, 1.0] * 5)
    states = pa.array(["u", "v", None, "v", "u", None] * 5).dictionary_encode()
    short = pa.array([1, 2, None, 4, None, 3] * 5, pa.int16())
    batch = pa.record_batch({"x": numbers, "d": states, "k": short})
    chunks = pa.Table.from_batches([batch[:7], batch[7:8], batch[8:]])
    filled = [hb.impute(frame, random_state=0) for frame in (batch, pa.Table.from_batches([batch]), chunks)]
    for frame in filled:
        assert frame.schema == batch.schema
        for name in ("x", "d", "k"):
            assert frame.column(name).null_count == 0
            assert frame.column(name).to_pylist() == filled[1].column(name).to_pylist()
            pairs = zip(batch.column(name).to_pylist(), frame.column(name).to_pylist(), strict=True)
            assert all(own is None or own == new for own, new in pairs)
