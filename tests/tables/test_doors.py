"""Every door x every type of columns x what cells are missing: the same columns, or refused alike.

A door is compared with a table in memory of what its format or library makes of the column (a *carrier*), and the
carriers with Arrow's own table but for what they have no type for.
"""

from __future__ import annotations

import datetime
import re
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from decimal import Decimal
from functools import partial
from importlib.util import find_spec
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from test_rows_equal import describe as describe_learned
from test_rows_equal import measure

import hybridbn as hb
from hybridbn.commands.cli import run
from hybridbn.estimators import HybridClassifier
from hybridbn.tables import Rows, read_rows

pa = pytest.importorskip("pyarrow")
feather = pytest.importorskip("pyarrow.feather")
parquet = pytest.importorskip("pyarrow.parquet")
pandas = pytest.importorskip("pandas")
polars = pytest.importorskip("polars")

ROWS = 12
"""Rows of each of three parts."""
TEXTS = ["low", "high", "mid"]
DAYS = [datetime.date(2024, 1, 3), datetime.date(2024, 2, 5), datetime.date(2023, 12, 31)]
TIMES = [datetime.datetime(2024, 1, 3, 12, 30), datetime.datetime(2024, 2, 5), datetime.datetime(2023, 12, 31, 23, 59)]
HOURS = [datetime.time(12, 30), datetime.time(0, 15), datetime.time(23, 59)]
SPANS = [datetime.timedelta(minutes=5), datetime.timedelta(hours=2), datetime.timedelta(days=1)]
FLOATS = [0.5, -2.0, 7.25]
EXACT = [Decimal("0.50"), Decimal("-2.00"), Decimal("7.25")]
WHOLE = [3, 1, 7]
LARGE = [2**63 + 5, 2**63 + 2**40, 2**63 - 2**50]
PAIRS = [[1, 2], [3, 4], [1, 3]]
SIZES = (8, 16, 32, 64)
INTEGERS = {f"{sign}int{size}": getattr(pa, f"{sign}int{size}")() for sign in ("", "u") for size in SIZES}

TYPES: dict[str, tuple[Any, list[Any]]] = {
    **{name: (kind, WHOLE) for name, kind in INTEGERS.items()},
    **{f"float{size}": (getattr(pa, f"float{size}")(), FLOATS) for size in (16, 32, 64)},
    **{f"decimal{size}": (getattr(pa, f"decimal{size}")(size // 8, 2), EXACT) for size in (128, 256)},
    "large integers": (pa.uint64(), LARGE),
    "decimals of 38 digits": (pa.decimal128(38, 30), EXACT),
    "bool": (pa.bool_(), [True, False, True]),
    "string": (pa.string(), TEXTS),
    "large string": (pa.large_string(), TEXTS),
    "string view": (pa.string_view(), TEXTS),
    "string of dates": (pa.string(), list(map(str, DAYS))),
    "string of numbers": (pa.string(), ["007", "012", "100"]),
    "date32": (pa.date32(), DAYS),
    "date64": (pa.date64(), DAYS),
    **{f"timestamp {unit}": (pa.timestamp(unit), TIMES) for unit in ("s", "ms", "us", "ns")},
    "timestamp with zone": (pa.timestamp("us", "Europe/Berlin"), [one.astimezone(datetime.UTC) for one in TIMES]),
    **{f"duration {unit}": (pa.duration(unit), SPANS) for unit in ("s", "ms", "us", "ns")},
    **{f"time {unit}": (pa.time32(unit), HOURS) for unit in ("s", "ms")},
    **{f"time {unit}": (pa.time64(unit), HOURS) for unit in ("us", "ns")},
    **{f"categories by {name}": (pa.dictionary(kind, pa.string()), TEXTS) for name, kind in INTEGERS.items()},
    "ordered categories": (pa.dictionary(pa.int8(), pa.string(), ordered=True), TEXTS),
    "large categories": (pa.dictionary(pa.uint32(), pa.large_string()), TEXTS),
    "categories of integers": (pa.dictionary(pa.uint8(), pa.int64()), WHOLE),
    "categories of floats": (pa.dictionary(pa.uint8(), pa.float64()), FLOATS),
    "categories of truth values": (pa.dictionary(pa.uint8(), pa.bool_()), [True, False, True]),
    "categories of dates": (pa.dictionary(pa.uint8(), pa.date32()), DAYS),
    "categories of large integers": (pa.dictionary(pa.uint8(), pa.uint64()), LARGE),
    "categories of views": (pa.dictionary(pa.int8(), pa.string_view()), TEXTS),
    "categories of nothing": (pa.dictionary(pa.int8(), pa.null()), [None] * 3),
    "runs of categories": (pa.run_end_encoded(pa.int32(), pa.dictionary(pa.int8(), pa.string())), TEXTS),
    "runs of strings": (pa.run_end_encoded(pa.int32(), pa.string()), TEXTS),
    "runs of floats": (pa.run_end_encoded(pa.int32(), pa.float64()), FLOATS),
    "null": (pa.null(), [None] * 3),
    "binary": (pa.binary(), [b"ab", b"cd", b"xy"]),
    "large binary": (pa.large_binary(), [b"ab", b"cd", b"xy"]),
    "binary view": (pa.binary_view(), [b"ab", b"cd", b"xy"]),
    "fixed binary": (pa.binary(2), [b"ab", b"cd", b"xy"]),
    "interval": (pa.month_day_nano_interval(), [pa.MonthDayNano([months, 2, 3]) for months in WHOLE]),
    "list": (pa.list_(pa.int64()), PAIRS),
    "large list": (pa.large_list(pa.int64()), PAIRS),
    "fixed list": (pa.list_(pa.int64(), 2), PAIRS),
    "categories of lists": (pa.dictionary(pa.int8(), pa.list_(pa.int64())), PAIRS),
    "struct": (pa.struct([("k", pa.int64())]), [{"k": number} for number in WHOLE]),
}
"""Types of Arrow with three values each, of which a frame of another library, or a file, has its own."""

UNUSABLE = {*list(TYPES)[list(TYPES).index("binary") :]}
"""Types of which no variable is."""

SHAPES = ("complete", "holes", "empty part", "all missing", "missing part", "untyped part", "untyped start", "late")
"""What is missing from the three parts, one of which may be of the type null, and in which a value may come late."""


def make_array(kind: Any, values: list[Any]) -> Any:
    """Return an array of a type, whose dictionary, if any, is in the order in which the values come."""
    if pa.types.is_dictionary(kind):
        # a missing value may also be one of the dictionary
        missing = [None] * (None in values and pa.types.is_uint16(kind.index_type))
        held = [value for i, value in enumerate(values) if value is not None and value not in values[:i]] + missing
        codes = [held.index(value) if value in held else None for value in values]
        indices, dictionary = pa.array(codes, kind.index_type), pa.array(held, kind.value_type)
        return pa.DictionaryArray.from_arrays(indices, dictionary, ordered=kind.ordered)
    if pa.types.is_run_end_encoded(kind):
        ends = pa.array(range(1, len(values) + 1), kind.run_end_type)
        return pa.RunEndEncodedArray.from_arrays(ends, make_array(kind.value_type, values))
    if pa.types.is_float16(kind):
        values = [None if value is None else np.float16(value) for value in values]
    return pa.array(values, kind)


def make_cells(values: list[Any], shape: str, part: int) -> list[Any]:
    """Return the cells of a part."""
    if shape == "empty part" and part == 1:
        return []
    if shape == "all missing" or (part == 1 and shape in ("missing part", "untyped part")):
        return [None] * ROWS
    if part == 0 and shape == "untyped start":
        return [None] * ROWS
    if shape == "late":
        return [values[i * i % (3 if part == 2 else 2)] for i in range(ROWS)]
    return [None if shape != "complete" and i % 5 == 0 else values[(i * i + part) % 3] for i in range(ROWS)]


def make_parts(name: str, shape: str) -> list[Any]:
    """Return three tables of a column `v` beside states and numbers that depend on each other."""
    kind, values = TYPES[name]
    parts = []
    for part in range(3):
        cells = make_cells(values, shape, part)
        is_untyped = (shape, part) in (("untyped part", 1), ("untyped start", 0))
        held = pa.nulls(ROWS) if is_untyped else make_array(kind, cells)
        states = ["xy"[(i * i + part) % 3 % 2] for i in range(len(cells))]
        numbers = [i % 7 + 2.5 * (state == "x") for i, state in enumerate(states)]
        parts.append(pa.table({"v": held, "c": pa.array(states, pa.string()), "x": pa.array(numbers, pa.float64())}))
    return parts


def join(name: str, parts: list[Any]) -> Any:
    """Return all rows as one table, with the type of the column in all of them."""
    kind = TYPES[name][0]
    typed = [part.set_column(0, "v", make_array(kind, part["v"].to_pylist())) for part in parts]
    return pa.concat_tables(typed)


# -- what is compared --------------------------------------------------------------------------------------------------


def describe(rows: Rows) -> list[Any]:
    """Describe the columns but for the last: reasons, counts, variables and values, or what is said of them."""
    reasons, sample = read_rows(rows)[1], rows.sample()
    described: list[Any] = [len(rows)]
    for name in rows.names[:-1]:
        told: list[Any] = [name, reasons.get(name), rows.missing[name]]
        try:
            variable = rows.variable(name)
        except hb.TableError as error:
            described.append([*told, str(error)])
            continue
        values = [None if value != value else value for value in sample.column(name).tolist()]
        if isinstance(variable, hb.Discrete):
            told += [[(type(state), state) for state in variable.states], rows.lists_states(name)]
        else:
            told += [repr(variable.unit), rows.value_range(name)]
        described.append([*told, values])
    return described


def read_and_describe(read: Callable[..., Rows], kinds: dict[str, Any]) -> list[Any]:
    return describe(read(**kinds))


def loosen(rows: hb.Table) -> list[Any]:
    """Describe the first column of a table by what is said of it in any library: its values, or that it has none.

    Libraries have orders of categories of their own (those of polars are sorted), and no type is the same in all.
    """
    if (reason := read_rows(rows)[1].get("v")) is not None:
        return [reason == "no value", rows.missing["v"]]
    variable = rows.variable("v")
    cells = rows.column("v").tolist()
    if isinstance(variable, hb.Discrete):
        values = [None if code < 0 else variable.states[code] for code in cells]
        return [sorted(map(str, {*values} - {None})), values]
    numbers = [None if value != value else value for value in cells]
    return [None if variable.unit is None else variable.unit.kind, numbers]


def list_states(held: Any) -> Any:
    """Return the states of the first column in their order, which is that of a network's tables and of draws."""
    variable = attempt(hb.Table(held).variable, "v")
    return variable.states if isinstance(variable, hb.Discrete) else None


def attempt(function: Callable[..., Any], *arguments: Any) -> Any:
    """Return what a function returns, or the refusal; anything else is a fault of ours."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        try:
            return function(*arguments)
        except hb.HybridBNError as error:
            return f"{type(error).__name__}: {error}"


# -- carriers and doors ------------------------------------------------------------------------------------------------


def convert_by_file(suffix: str) -> Callable[[Any], Any]:
    """Return what a format's own library reads of a table that it wrote."""

    def convert(table: Any) -> Any:
        sink = pa.BufferOutputStream()
        write_file(table, sink, suffix)
        source = pa.BufferReader(sink.getvalue())
        return parquet.read_table(source) if suffix == "parquet" else feather.read_table(source)

    return convert


def write_file(table: Any, target: Any, suffix: str) -> None:
    """Write a table by a format's own library."""
    if suffix == "parquet":
        parquet.write_table(table, target, row_group_size=5)
    else:
        feather.write_feather(table, target, chunksize=5)


CARRIERS: dict[str, Callable[[Any], Any]] = {
    "arrow": lambda table: table,
    "pandas": lambda table: table.to_pandas(),
    "pandas of arrow": lambda table: table.to_pandas(types_mapper=pandas.ArrowDtype),
    "polars": polars.from_arrow,
    "parquet": convert_by_file("parquet"),
    "feather": convert_by_file("feather"),
}
FILES = ("parquet", "feather")


class Doors:
    """The doors through which the rows of a carrier come in, but for that of `Table`."""

    def __init__(self, name: str, shape: str, folder: Path, workers: Executor) -> None:
        self.folder, self.workers = folder, workers
        self.parts = make_parts(name, shape)
        self.table = join(name, self.parts)

    def carry(self, carrier: str) -> Any:
        """Return the table as a carrier holds it; None where it can't."""
        try:
            return CARRIERS[carrier](self.table)
        except BaseException as error:
            # polars panics, and pandas has no missing category
            if isinstance(error, pa.ArrowException | polars.exceptions.PolarsError | ValueError) or "Panic" in repr(
                error
            ):
                return None
            raise

    def open(self, carrier: str) -> Iterator[tuple[str, Callable[..., Rows]]]:
        """Give the doors of a carrier by their names."""
        if carrier not in FILES:
            held = self.carry(carrier)
            yield "scan", lambda **kinds: hb.scan(held, **kinds)
            return
        path, folder = self.folder / f"whole.{carrier}", self.folder / carrier
        folder.mkdir(exist_ok=True)
        write_file(self.table, path, carrier)
        for number, part in enumerate(self.parts):
            write_file(part, folder / f"{number}.{carrier}", carrier)
        pattern = f"{folder}/*.{carrier}"
        yield "read_table", lambda **kinds: hb.read_table(path, **kinds)
        yield "scan", lambda **kinds: hb.scan(pattern, **kinds)
        yield "workers", lambda **kinds: hb.scan(folder, backend=self.workers, **kinds)
        if find_spec("duckdb") is not None:
            yield "duckdb", lambda **kinds: hb.scan(pattern, backend="duckdb", **kinds)


def pair(*everyday: tuple[str, str, Sequence[str]]) -> list[Any]:
    """Return a type, a shape and carriers: a few of them every day, all of them otherwise."""
    return [
        *(pytest.param(*one, id=", ".join([*one[:2], *one[2]])) for one in everyday),
        *(
            pytest.param(name, shape, tuple(CARRIERS), id=f"{name}, {shape}", marks=pytest.mark.slow)
            for name, shape in product(TYPES, SHAPES)
        ),
    ]


@pytest.fixture(scope="module")
def workers() -> Iterator[Executor]:
    with ThreadPoolExecutor(2) as pool:
        yield pool


KINDS: tuple[dict[str, list[str]], ...] = ({}, {"discrete": ["v"]}, {"continuous": ["v"]})


@pytest.mark.parametrize(
    ("name", "shape", "carriers"),
    pair(
        ("categories by uint8", "holes", ("arrow", "polars", "parquet")),
        ("string view", "untyped start", ("pandas", "feather")),
        ("runs of categories", "empty part", ("arrow", "feather")),
        ("binary", "all missing", ("pandas of arrow", "parquet")),
    ),
)
def test_doors_read_the_same(name: str, shape: str, carriers: Sequence[str], tmp_path: Path, workers: Executor) -> None:
    doors = Doors(name, shape, tmp_path, workers)
    wrong = []
    for carrier in carriers:
        held = doors.carry(carrier)
        if held is None:
            continue
        for kinds in KINDS:
            known = attempt(read_and_describe, partial(hb.Table, held), kinds)
            for door, read in doors.open(carrier):
                told = attempt(read_and_describe, read, kinds)
                if isinstance(told, str):
                    # rows are counted in each of several files
                    told, known = (re.sub(rf"{tmp_path}[\w./]*: |, row \d+", "", text) for text in (told, str(known)))
                if told != known:
                    wrong.append((carrier, door, kinds, told, known))
    assert not wrong


def learn(rows: Any) -> hb.Network:
    """Learn a class from the columns that can be used."""
    return hb.structures.naive_bayes(rows, "c", "gaussian")


def predict(held: Any) -> np.ndarray:
    """Predict states by the estimator, from a frame of any library."""
    if "pandas" in type(held).__module__:
        given = held[["v", "x"]], held["c"].to_numpy(dtype=object)
    else:
        given = held.select(["v", "x"]), np.array(held["c"].to_numpy(), dtype=object)
    estimator = HybridClassifier("naive_bayes", potentials="gaussian")
    return np.asarray(estimator.fit(*given).predict_proba(given[0]))


def answer(network: Any, rows: Any) -> np.ndarray:
    """Return log densities of rows."""
    return np.asarray(network.log_density(rows))


def complete(held: Any, **options: Any) -> list[Any]:
    """Fill holes, and describe the first column."""
    return loosen(hb.Table(hb.impute(held, random_state=0, **options)))


def complete_scan(rows: hb.Scan, folder: Path) -> list[Any]:
    """Fill holes of a scan, and describe the first column of the file that is written."""
    path = folder / "filled.feather"
    filled = hb.impute(rows, random_state=0)
    filled.write(path, overwrite=True)
    is_discrete = "v" not in read_rows(filled)[1] and filled.is_discrete("v")
    return loosen(hb.read_table(path, discrete=["v"] if is_discrete else []))


def complete_by_command(path: Path, folder: Path) -> list[Any] | str:
    """Fill holes by the command."""
    output = folder / f"filled{path.suffix}"
    if run(["impute", str(path), str(output), "--seed", "0", "--quiet"]):
        return "refused"
    return loosen(hb.read_table(output))


ROUNDING = {
    "float16": 2**-8,
    "float32": 2**-20,
    "decimal128": 0.005,
    "decimal256": 0.005,
    **{
        f"{kind} {unit}": 0.5 * step / 86400 for kind in ("duration", "time") for unit, step in (("s", 1), ("ms", 1e-3))
    },
}
"""How far a number in a column is from one that its type holds: what fills a hole has the type of the frame, and tables
of files and the frames of some libraries have longer types.
"""


def differ(told: Any, known: Any, rounding: float = 0.0) -> bool:
    """Tell whether two results are others, or only one of them is a refusal."""
    if isinstance(told, str) or isinstance(known, str):
        return type(told) is not type(known)
    if isinstance(known, hb.Network):
        return not measure(describe_learned(told), describe_learned(known)) < 1e-9
    if isinstance(known, np.ndarray):
        return not np.allclose(told, known, rtol=1e-9, equal_nan=True)
    return not measure(told, known) <= max(rounding, 1e-9)


@pytest.mark.parametrize(
    ("name", "shape", "carriers"), pair(("categories by uint8", "empty part", ("arrow", "feather")))
)
def test_doors_learn_and_answer_the_same(
    name: str, shape: str, carriers: Sequence[str], tmp_path: Path, workers: Executor
) -> None:
    doors = Doors(name, shape, tmp_path, workers)
    wrong = []

    def compare(door: str, told: Any, known: Any) -> None:
        if differ(told, known, ROUNDING.get(name, 0.0) if "complete" in door else 0.0):
            wrong.append((door, told, known))

    first: dict[str, Any] = {}
    for carrier in carriers:
        held = doors.carry(carrier)
        if held is None:
            continue
        network = attempt(learn, held)
        known = {
            "learn": network,
            "answer": network if isinstance(network, str) else attempt(answer, network, hb.Table(held)),
            "complete": attempt(complete, held),
        }
        if carrier not in FILES:
            known["predict"] = attempt(predict, held)
        if loosen(hb.Table(held)) == loosen(hb.Table(doors.table)):
            for what, result in known.items():
                if what in ("answer", "predict") or list_states(held) == list_states(doors.table):
                    compare(f"{carrier}: {what}", result, first.setdefault(what, result))
        for door, read in doors.open(carrier):
            compare(f"{carrier} by {door}: learn", attempt(learn, read()), network)
            if isinstance(network, hb.Network):
                compare(f"{carrier} by {door}: answer", attempt(answer, network, read()), known["answer"])
            if door == "read_table":
                compare(f"{carrier} by {door}: complete", attempt(complete, read()), known["complete"])
                path = tmp_path / f"whole.{carrier}"
                by_rows = attempt(partial(complete, keys=range(len(doors.table))), held)
                if name != "categories of dates":  # which models of the command can't hold
                    compare(f"{carrier} by command: complete", complete_by_command(path, tmp_path), by_rows)
            elif carrier in ("arrow", *FILES) or name not in UNUSABLE:
                # a column that can't be used is not converted from other libraries
                compare(f"{carrier} by {door}: complete", attempt(complete_scan, read(), tmp_path), known["complete"])
    assert not wrong


# -- several files -----------------------------------------------------------------------------------------------------


def write_parts(folder: Path, *columns: dict[str, Any]) -> list[str]:
    """Write Parquet files of a folder, and return their paths."""
    paths = [str(folder / f"{number}.parquet") for number in range(len(columns))]
    for path, held in zip(paths, columns, strict=True):
        parquet.write_table(pa.table(held), path)
    return paths


BACKENDS = ["local", "workers", pytest.param("duckdb", marks=[] if find_spec("duckdb") else pytest.mark.skip)]


@pytest.fixture(params=BACKENDS)
def backend(request: pytest.FixtureRequest, workers: Executor) -> Any:
    return workers if request.param == "workers" else request.param


PATTERNS = ("", "**/*.parquet", *(pytest.param(one, marks=pytest.mark.slow) for one in ("*/*/0.parquet", "of=*/*/*")))


@pytest.mark.parametrize("pattern", PATTERNS)
def test_folders_name_columns_however_files_are_asked_for(pattern: str, tmp_path: Path, backend: Any) -> None:
    values: dict[str, list[Any]] = {"of": ["a b", "7", None], "year": [2021, 2022, 2022]}
    for number, folder in enumerate(
        ["of=a%20b/year=2021", "of=7/year=2022", "of=__HIVE_DEFAULT_PARTITION__/year=2022"]
    ):
        (tmp_path / folder).mkdir(parents=True)
        write_parts(tmp_path / folder, {"x": [float(number), 5.5, 2.0], "c": ["u", "v", "v"]})
    scan = hb.scan(tmp_path / pattern, discrete=["year"], backend=backend)
    table = scan.sample()
    assert scan.names == ("x", "c", "of", "year")
    assert table["of", "year"].raw("of").tolist() == sorted(values["of"] * 3, key=str)
    assert scan.missing == {"x": 0, "c": 0, "of": 3, "year": 0}
    network = hb.fit("of -> c <- year", scan)
    assert not measure(describe_learned(network), describe_learned(hb.fit("of -> c <- year", table))) > 1e-12


def test_rows_are_named_by_their_file(tmp_path: Path, backend: Any) -> None:
    first = {"x": [0.5, 2.0, 1.0, 3.0], "k": ["u", "v", "u", "v"]}
    paths = write_parts(tmp_path, first, first, first | {"k": ["u", "v", "u", "odd"]}, first | {"x": [1.0, np.inf] * 2})
    network = hb.fit("k -> x", hb.read_table(paths[0]), potentials="gaussian")
    with pytest.raises(hb.TableError, match=rf"^{paths[2]}: column 'k', row 3: 'odd' is not a state"):
        network.log_density(hb.scan(f"{tmp_path}/[012].parquet", backend=backend))
    with pytest.raises(hb.TableError, match=rf"^{paths[3]}: column 'x', row 1: inf is infinite"):
        hb.scan(f"{tmp_path}/[013].parquet", backend=backend).value_range("x")


def test_numbers_of_several_types_are_read_as_one(tmp_path: Path, backend: Any) -> None:
    write_parts(
        tmp_path, {"x": pa.array([1, 2], pa.int8())}, {"x": [0.5, 3.0]}, {"x": pa.array([None, 4], pa.uint64())}
    )
    scan = hb.scan(tmp_path, backend=backend)
    assert scan.value_range("x") == (0.5, 4.0)
    np.testing.assert_array_equal(scan.sample().column("x"), [1, 2, 0.5, 3, np.nan, 4])


def test_files_of_other_types_are_refused(tmp_path: Path, backend: Any) -> None:
    paths = write_parts(tmp_path, {"x": [1, 2]}, {"x": ["a", "b"]})
    with pytest.raises(hb.TableError, match=rf"^{paths[1]}: column 'x' is of type string, and of type int64 in files"):
        len(hb.scan(tmp_path, backend=backend))


def test_dictionaries_may_hold_missing_and_equal_values() -> None:
    codes = pa.array([0, 1, 2, 3, None], pa.uint8())
    table = pa.table({"v": pa.DictionaryArray.from_arrays(codes, pa.array(["a", None, "b", "a"]))})
    for rows in (hb.Table(table), hb.scan(table)):
        assert rows.variable("v").states == ("a", "b")  # type: ignore[union-attr]
        assert rows.missing == {"v": 2}


def test_categories_declared_as_numbers_are_numbers(tmp_path: Path, backend: Any) -> None:
    held = pa.array([2, 5, None], pa.int64()).dictionary_encode()
    write_parts(tmp_path, {"v": held, "b": [True, None, False]})
    scan = hb.scan(tmp_path, continuous=["v", "b"], backend=backend)
    assert (scan.value_range("v"), scan.value_range("b")) == ((2.0, 5.0), (0.0, 1.0))


def test_categories_stay_such_when_a_scan_is_written(tmp_path: Path) -> None:
    kind = pa.dictionary(pa.int8(), pa.string(), ordered=True)
    paths = [str(tmp_path / f"{number}.feather") for number in range(2)]
    parts = (["low", "never", "high"], [0, 2]), (["mid", "low"], [0, 1, None])
    for path, (held, codes) in zip(paths, parts, strict=True):
        array = pa.DictionaryArray.from_arrays(pa.array(codes, pa.int8()), pa.array(held), ordered=True)
        write_file(pa.table({"v": array.cast(kind)}), path, "feather")
    for suffix, read in (("feather", feather.read_table), ("parquet", parquet.read_table)):
        hb.scan(paths).write(tmp_path / f"written.{suffix}")
        column = read(tmp_path / f"written.{suffix}")["v"]
        assert pa.types.is_dictionary(column.type)
        assert column.type.ordered
        assert column.to_pylist() == ["low", "high", "mid", "low", None]
    variable = hb.read_table(tmp_path / "written.feather").variable("v")
    assert variable == hb.Discrete("v", states=("low", "never", "high", "mid"))


def test_what_fills_a_hole_of_a_scan_lies_in_the_range_of_its_type(tmp_path: Path) -> None:
    cells = [None if i % 3 == 0 else (0, 120, 250, 255)[i % 4] for i in range(60)]
    table = pa.table({"v": pa.array(cells, pa.uint8()), "x": pa.array([(i % 4) ** 2 + i % 5 for i in range(60)])})
    hb.impute(hb.scan(table), random_state=3, donors=False).write(tmp_path / "filled.parquet")
    filled = parquet.read_table(tmp_path / "filled.parquet")["v"]
    assert filled.type == pa.uint8()
    assert filled.null_count == 0
    observed = [i for i, cell in enumerate(cells) if cell is not None]
    assert filled.take(observed).to_pylist() == [cells[i] for i in observed]
