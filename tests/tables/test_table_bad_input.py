"""Tables, weights and CSV files that can't be used as they are: a named error with column and row, nothing changed."""

from __future__ import annotations

import datetime
import warnings
from decimal import Decimal
from pathlib import Path
from typing import Any

import badinputs
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from hybridbn.errors import TableError
from hybridbn.tables import Table
from hybridbn.tables.formats import read_table


def frame(**columns: Any) -> pd.DataFrame:
    return pd.DataFrame({"x": [1.0, 2, 3, 4], "c": list("abab"), **columns})


REFUSED = {
    "infinity": (frame(x=[1, np.inf, 3, 4]), "column 'x', row 1: inf is infinite"),
    "minus infinity": (frame(x=[1, 2, 3, -np.inf]), "column 'x', row 3: -inf is infinite"),
    "infinite Decimal": (frame(x=[Decimal("Infinity")] * 4), "column 'x', row 0"),
    "infinity in polars": (pl.DataFrame({"x": [1.0, float("inf")]}), "column 'x', row 1"),
    "infinity in arrow": (pa.table({"x": pa.chunked_array([[1.0], [float("inf")]])}), "column 'x', row 1"),
    "no columns": (pd.DataFrame(index=range(3)), "no columns"),
    "nothing": ({}, "no columns"),
    "no records": ([], "no columns"),
    "repeated names": (pd.concat([frame(), frame()[["x"]]], axis=1), "several columns are called 'x'"),
    "mixed": (frame(c=["a", 1, 2.5, True]), "'c' mixes values of several types: str .*int .*float .*bool"),
    "text and number": (frame(c=["1", 1, "1", 1]), r"'c' mixes .*str \('1' in row 0\), int \(1 in row 1\)"),
    "bool and number": (frame(c=[True, 1, 2, 3]), "'c' mixes"),
    "mixed categories": (frame(c=pd.Categorical(["a", 1, "a", 1])), "'c' mixes"),
    "polars objects": (pl.DataFrame({"c": pl.Series(["a", 1], dtype=pl.Object)}), "'c' mixes"),
    "repeated numbers as names": (frame().set_axis([0, 0], axis=1), "several columns are called '0'"),
    "ragged": ({"x": [1, 2], "c": ["a"]}, "'c' has 1 values, but 'x' has 2"),
    "two dimensions": ({"x": np.ones((2, 2))}, "'x' has 2 dimensions"),
    "array of one dimension": (np.ones(2), "no column names"),
    "scalar column": ({"x": 3}, "'x' must be an array"),
    "text": ("x", "can't be made of a str"),
    "number": (3, "can't be made of a int"),
    "rows of numbers": ([[1, 2], [3, 4]], "row 0 is a list, not a record"),
    "lazy": (pl.DataFrame({"x": [1]}).lazy(), "lazy: collect"),
    "huge integer": ({"x": [10**400]}, "'x' holds an integer too large"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused_frames(name: str) -> None:
    data, message = REFUSED[name]
    with pytest.raises(TableError, match=message):
        Table(data)


UNUSABLE = {
    "period": (frame(x=pd.period_range("2020", periods=4)), "'x'"),
    "dates and times": (frame(x=[datetime.date(2020, 1, 1), datetime.time(1), None, None]), "'x' mixes values"),
    "dates and text": (frame(x=[datetime.date(2020, 1, 1), "a", None, None]), "'x' mixes values"),
    "points in time in two ways": (
        frame(x=[datetime.datetime(2020, 1, 1), datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC), None, None]),
        "'x'",
    ),
    "polars list": (pl.DataFrame({"x": [[1, 2]]}), "'x'.*nested values"),
    "arrow struct": (pa.table({"x": [{"a": 1}]}), "'x'.*nested values"),
    "complex": (frame(x=np.arange(4) + 1j), "'x'.*split a complex number"),
    "bytes": (frame(x=[b"a"] * 4), "'x'.*decode"),
    "fixed bytes": ({"x": np.array([b"a"])}, "'x'.*decode"),
    "tuples": (frame(c=[(1,), (2,), (1,), (2,)]), "'c', row 0"),
    "no value at all": (frame(c=[None] * 4), "column 'c' has no value, so nothing tells what it is"),
    "unhashable category": (pd.DataFrame({"x": pd.Series([["a"]])}), "'x', row 0"),
}


@pytest.mark.parametrize("name", UNUSABLE)
def test_columns_of_no_use_are_kept_and_refused_when_they_are_asked_for(name: str) -> None:
    data, message = UNUSABLE[name]
    table = Table(data)
    assert "can't be used" in repr(table)
    for part in (table, table[:1]):
        with pytest.raises(TableError, match=message):
            _ = part.variables
    if not isinstance(data, dict):
        assert type(table.to_native()) is type(data)
        assert len(table.take([0]).to_native()) == 1


def test_declarations_that_dont_fit() -> None:
    with pytest.raises(TableError, match="discrete='z': there is no such column; the columns are 'x', 'c'"):
        Table(frame(), discrete=["z"])
    with pytest.raises(TableError, match="both discrete and continuous"):
        Table(frame(), discrete="x", continuous=["x"])
    with pytest.raises(TableError, match=r"column 'c', row 0: 'a' is not a number"):
        Table(frame(), continuous="c")
    with pytest.raises(TableError, match="infinite"):
        Table(frame(x=[1, np.inf, 3, 4]), discrete="x")
    assert np.isnan(Table(frame(c=[None] * 4), continuous="c")["c"]).all()


def test_access_that_fails() -> None:
    table = Table(frame())
    for access in (
        lambda: table["z"],
        lambda: table.select(["z"]),
        lambda: table.drop("z"),
        lambda: table.variable("z"),
    ):
        with pytest.raises(TableError, match="no column 'z'; the columns are 'x', 'c'"):
            access()
    for rows in ([9], [True], 3, np.ones((2, 2), dtype=int), [0.5]):
        with pytest.raises(TableError, match="rows must be"):
            table.take(rows)
    with pytest.raises(TableError, match="3 values, but the table has 4 rows"):
        table.with_column("n", [1, 2, 3])
    with pytest.raises(TableError, match="row 1: 'z' is not a state"):
        table.with_column("c", ["a", "z", "a", "a"])
    with pytest.raises(TableError, match="between -1 and 1"):
        table.with_array("c", np.array([0, 1, 2, 0]))
    with pytest.raises(TableError, match="infinite"):
        table.with_array("x", np.array([0, 1, np.inf, 0]))


@pytest.mark.parametrize("engine", [None, "scanner"])
def test_a_csv_column_without_any_value(engine: str | None, tmp_path: Path) -> None:
    (tmp_path / "d.csv").write_bytes(b"a,b\n1,\n2,NA\n")
    table = read_table(tmp_path / "d.csv", engine=engine)
    assert table.missing == {"a": 0, "b": 2}
    with pytest.raises(TableError, match="column 'b' has no value, so nothing tells what it is; leave it out"):
        table.variable("b")


def test_learners_can_ask_for_rows_and_values() -> None:
    empty = Table(frame().iloc[:0])
    assert len(empty) == 0
    with pytest.raises(TableError, match="no rows; at least 1"):
        empty.require_rows()
    with pytest.raises(TableError, match="column 'c' has no value, so nothing tells what it is"):
        empty.variable("c")
    with pytest.raises(TableError, match="column 'x' has no observed value in 4 rows"):
        Table(frame(x=[np.nan] * 4)).require_values()
    assert Table(frame()).require_rows(4).require_values().require_few_states(2).names == ("x", "c")


@pytest.mark.parametrize(
    "states", [["a", "a ", "b"], ["a", " a", "b"], ["\u00e9", "e\u0301", "b"], ["a b", "a  b", "b"]]
)
def test_states_that_look_alike_stay_apart_with_one_warning(states: list[str]) -> None:
    with pytest.warns(UserWarning, match="look alike are kept apart") as caught:
        table = Table({"c": states, "d": states})
    assert len(caught) == 1
    assert caught[0].filename == __file__
    assert len(table.variable("c")) == 3  # type: ignore[arg-type]


def test_case_makes_states_differ_without_a_warning() -> None:
    assert Table({"c": ["a", "A"]}).variable("c").states == ("A", "a")  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ([-1, 1, 1, 1], "weights, row 0: -1.0 is not a finite non-negative"),
        ([0, 0, 0, 0], "weights sum to 0"),
        ([1, np.nan, 1, 1], "row 1: nan"),
        ([1, 1, np.inf, 1], "row 2: inf"),
        ([1, 1], "2 weights of shape"),
        ([[1], [1], [1], [1]], r"shape \(4, 1\)"),
        (list("abcd"), "must be numbers"),
        ([None, 1, 1, 1], "row 0: nan"),
        ([1e308] * 4, "sum to inf"),
    ],
)
def test_refused_weights(weights: Any, message: str) -> None:
    with pytest.raises(TableError, match=message):
        Table(frame(), weights=weights)
    with pytest.raises(TableError, match=message):
        Table(frame()).with_weights(weights)


CSV = {
    "ragged": (b"a,b,c\n1,2,3\n4,5\n6,7,8,9\n", "line 3: 2 cells, but the header names 3"),
    "too wide": (b"a,b\n1,2\n\n3,4,5\n", "line 4: 3 cells"),
    "open quote": (b'a,b\n1,"x\n2,y\n', "line 2: a quote is opened and never closed"),
    "quotes that swallow lines": (b'a,b\n1,"x\n2,y\n3,"z\n4,w\n', "line 2: text after a closing quote"),
    "stray quote": (b'a,b\n1,"x"y\n', "line 2: text after a closing quote"),
    "quotes not doubled": (b'a,b\n1,"x "y" z"\n', "line 2: text after a closing quote"),
    "latin-1 after UTF-8": ("a,b\n1,\u00fc\n".encode() + b"2,caf\xe9\n", "line 3: byte 0xe9 is not UTF-8"),
    "late latin-1": (b"a,b\n" + b"1,x\n" * 30000 + b"1,caf\xe9\n", "line 30002: byte 0xe9 .* encoding='cp1252'"),
    "late damage in cp1252": (b"a,b\n1,caf\xe9\n" + b"1,x\n" * 30000 + b"1,\x81\n", "line 30003: not text in cp1252"),
    "repeated name": (b"a,a\n1,2\n", "line 1: several columns are called 'a'"),
    "no name": (b",a\n0,1\n", "line 1: column 1 has no name.*index=False"),
    "NUL": (b"a,b\n1,2\r\n3,\x00\n", "line 3: a NUL byte"),
    "late text": (
        b"a,b\n" + b"1,2\n" * 30000 + b"oops,3\n",
        r"'a' mixes numbers \('1' in line 2\) with text \('oops' in line 30002",
    ),
    "early text": (b"a,b\n?,2\n1,3\n", r"'a' mixes numbers \('1' in line 3\) with text \('\?' in line 2.*missing="),
    "late fraction then text": (b"a\n" + b"1\n" * 40000 + b"1.5\n?\n", r"'a' mixes.*'\?' in line 40003"),
    "text in line after a quoted line end": (b'a,b\n1,"x\ny"\noops,z\n', r"'1' in line 2.*'oops' in line 4"),
    "two delimiters": (b"a;b|c;d\n1;2|3;4\n", r"both ';' and '\|' could .* delimiter=';' or delimiter='\|'"),
    "thousands or decimals": (
        b"a;b\n1.234;x\n",
        "'a', line 2: '1.234' can be read in two .*: decimal='.' reads it as 1.234, thousands='.' as 1234",
    ),
    "decimals or thousands": (
        b"a;b\n17;x\n1,234;x\n",
        "line 3: .* thousands=',' reads it as 1234, decimal=',' as 1.234",
    ),
    "two conventions": (b"a;b\n1,5;2.5\n", r"'b', line 2: '2.5' .* than '1,5' in column 'a', .* discrete=\['b'\] or"),
    "late thousands": (
        b"a,b\n" + b"12,2\n" * 20000 + b'"1,000",2\n',
        "'a', line 20002: '1,000' looks like .* than 1234.5: thousands=',' reads it as 1000, decimal=',' as 1.000",
    ),
    "late decimals": (b"a;b\n1,5;2\n" + b"2,5;2\n" * 20000 + b"2.5;2\n", "line 20003: '2.5' looks .* than 1234,5"),
    "late text among decimal commas": (b"a;b\n1,5;2\n" + b"2,5;2\n" * 20000 + b"?;2\n", r"'\?' in line 20003"),
    "dates": (
        b"a,b\n01/02/03,x\n04/05/06,x\n",
        "'a' holds dates such as '01/02/03', and no cell tells day and month apart: dates='mdy' reads it as 2003-01-02"
        " or dates='dmy' as 2003-02-01; or read the column as text",
    ),
    "infinity": (b"a,b\n1,2\ninf,3\n", "column 'a', line 3: inf is infinite"),
    "overflow": (b"a,b\n1.5,2\n1e999,3\n", "column 'a', line 3: inf is infinite"),
    "hexadecimal": (b"a,b\n1,x\n2,x\n0x1F,x\n", "'a' mixes numbers .*'0x1F' in line 4"),
    "empty": (b"", "the file is empty"),
    "only a mark": (b"\xef\xbb\xbf", "the file is empty"),
    "blank lines": (b"\n\n\n", "the file is empty"),
    "gzip by another name": (b"\x1f\x8b\x08 not text", "line 1: the file is compressed"),
}


@pytest.mark.filterwarnings("ignore:read as")
@pytest.mark.parametrize("engine", [None, "scanner"])
@pytest.mark.parametrize("name", CSV)
def test_refused_csv_files(name: str, engine: str | None, tmp_path: Path) -> None:
    data, message = CSV[name]
    path = tmp_path / "d.csv"
    path.write_bytes(data)
    with pytest.raises(TableError, match=message) as caught:
        read_table(path, engine=engine)
    assert str(path) in str(caught.value)
    assert path.read_bytes() == data
    assert [item.name for item in tmp_path.iterdir()] == ["d.csv"]


# What the catalog of bad inputs says of cases that a table accepts and a learner has to judge.
LEARNERS = {
    "empty frame",
    "one row",
    "constant column",
    "all missing column",
    "all missing object",
    "huge cardinality",
    "CPT too large",
}


ACCEPTED = {"datetime", "tz datetime", "timedelta", "NaT", "multiindex columns"}
"""What the catalog wants refused, and tables take: dates are numbers with a unit, and any names are names."""


FOUND = {"csv latin1", "csv utf16", "csv decimal comma", "csv thousands"}
"""What the catalog wants refused, and is found to be written in another way than usual, with a word."""


def catalog_cases() -> list[Any]:
    return [
        pytest.param(case, id=f"{case[1]}-{case[0]}")
        for case in badinputs.CASES
        if case[1] in ("data", "weights", "csv")
    ]


@pytest.mark.filterwarnings(
    "ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"
)  # the catalog's
@pytest.mark.parametrize("case", catalog_cases())
def test_catalog(case: tuple[str, str, Any, str], tmp_path: Path) -> None:
    name, area, factory, ideal = case
    given = factory(tmp_path)
    warned: list[Any] = []

    def attempt() -> Table:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            if area == "csv":
                table = read_table(given)
            else:
                table = Table(given[0], weights=given[1]) if area == "weights" else Table(given)
            warned.extend(caught)
        for column in table.names:
            assert not np.isinf(table[column]).any()
        return table

    before = given.copy(deep=True) if isinstance(given, pd.DataFrame) else None
    if ideal.startswith("E") and name not in LEARNERS | ACCEPTED | FOUND:
        with pytest.raises(TableError):
            attempt()
    else:
        attempt()
        assert bool(warned) == (name in {"whitespace states", "unicode NFC/NFD"} | FOUND)
    if before is not None:
        pd.testing.assert_frame_equal(given, before)
    assert len(list(tmp_path.iterdir())) <= 1
