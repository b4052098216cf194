"""Files and databases of tables: round trips, what counts as missing, atomic writing, damaged files."""

from __future__ import annotations

import gzip
import json
import os
import sqlite3
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from effort import examples
from hypothesis import example, given, settings
from hypothesis import strategies as st
from narrowing import as_kind
from pyarrow import feather, parquet

import hybridbn as hb
from hybridbn.errors import FormatError, HybridBNError, TableError
from hybridbn.structures.naive_bayes import tan
from hybridbn.tables import Table
from hybridbn.tables import formats as tables
from hybridbn.tables.formats import read_table
from hybridbn.tables.frames import arrow
from hybridbn.variables import Continuous, Discrete, Variable

FORMATS = ["csv", "tsv", "csv.gz", "arff", "parquet", "feather", "jsonl", "sqlite"]


def target(folder: Path, suffix: str) -> str:
    return f"sqlite:///{folder / 'd.db'}?table=t" if suffix == "sqlite" else str(folder / f"d.{suffix}")


def sample(**more: Any) -> Table:
    columns = {
        "x": [1.5, None, -0.0, 1e-320, 0.1],
        "i": pd.array([3, None, 1, 2, 2], dtype="Int64"),
        "c": ["b", "a", None, "b", "\u00e9, \"q\" 'p' \\"],
        "b": pd.array([True, None, False, True, True], dtype="boolean"),
        "k": pd.array([2, 10, None, 2, 2], dtype="Int64"),
    }
    return Table({**columns, **more}, discrete=["k"])


@pytest.mark.parametrize("suffix", FORMATS)
def test_round_trip(suffix: str, tmp_path: Path) -> None:
    table = sample()
    path = target(tmp_path, suffix)
    table.write(path)
    typed = suffix in ("arff", "parquet", "feather")
    again = read_table(path) if typed else read_table(path, discrete=["k"])
    assert again.equals(table)
    assert again.variable("k").states == (2, 10)  # type: ignore[union-attr]
    assert {type(state) for state in again.variable("k").states} == {int}  # type: ignore[union-attr]
    assert np.signbit(again["x"][2]) == (suffix != "sqlite")  # SQLite stores -0.0 as 0
    frame = again.to_pandas()
    assert str(frame["i"].dtype) == "Int64"
    assert str(frame["b"].dtype) == "boolean"
    assert read_table(path, variables=table.variables).equals(table)
    part = read_table(path, columns=["c", "x"])
    assert part.names == ("c", "x")
    assert os.listdir(tmp_path) == [path.split("/")[-1].split("?")[0]]


@pytest.mark.parametrize("suffix", FORMATS)
def test_weights_travel_in_a_column(suffix: str, tmp_path: Path) -> None:
    table = sample().with_weights([1, 2, 0, 0.5, 1])
    path = target(tmp_path, suffix)
    with pytest.raises(TableError, match="name the column"):
        table.write(path)
    table.write(path, weights="w")
    assert read_table(path, discrete=["k"], weights="w").equals(table)


@pytest.mark.parametrize("suffix", FORMATS)
def test_existing_output_is_refused_and_replaced_on_request(suffix: str, tmp_path: Path) -> None:
    path = target(tmp_path, suffix)
    Table({"x": [1.5]}).write(path)
    with pytest.raises(FileExistsError, match="overwrite=True") as caught:
        Table({"x": [2.5]}).write(path)
    assert isinstance(caught.value, HybridBNError)
    assert read_table(path)["x"].tolist() == [1.5]
    Table({"x": [2.5]}).write(path, overwrite=True)
    assert read_table(path)["x"].tolist() == [2.5]


@pytest.mark.parametrize("suffix", FORMATS)
def test_a_failed_write_leaves_nothing_behind(suffix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = Table({"x": np.arange(10.0), "c": pd.Categorical([pd.Interval(0, 1)] * 10)})
    with pytest.raises(HybridBNError, match="'c'"):
        table.write(target(tmp_path, suffix))
    assert os.listdir(tmp_path) == []
    old = Table({"x": [1.5]})
    old.write(target(tmp_path, suffix))
    with pytest.raises(HybridBNError, match="'c'"):
        table.write(target(tmp_path, suffix), overwrite=True)
    assert read_table(target(tmp_path, suffix)).equals(old)
    assert len(os.listdir(tmp_path)) == 1

    def full(_: Any) -> None:
        raise OSError(28, "No space left on device")

    if suffix != "sqlite":
        monkeypatch.setattr(os, "fsync", full)
        with pytest.raises(OSError, match="No space"):
            Table({"x": [2.5]}).write(target(tmp_path, suffix), overwrite=True)
        assert read_table(target(tmp_path, suffix)).equals(old)
        assert len(os.listdir(tmp_path)) == 1


def test_replacing_keeps_permissions_and_links(tmp_path: Path) -> None:
    real, link = tmp_path / "real.csv", tmp_path / "link.csv"
    Table({"x": [1.5]}).write(real)
    real.chmod(0o640)
    link.symlink_to(real)
    Table({"x": [2.5]}).write(link, overwrite=True)
    assert link.is_symlink()
    assert real.stat().st_mode & 0o777 == 0o640
    assert read_table(real)["x"].tolist() == [2.5]


def test_a_file_that_appears_meanwhile_is_not_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "d.csv"
    original = os.fsync

    def rival(descriptor: int) -> None:
        path.write_text("rival")
        original(descriptor)

    monkeypatch.setattr(os, "fsync", rival)
    with pytest.raises(FileExistsError, match="exists already"):
        Table({"x": [1.5]}).write(path)
    assert path.read_text() == "rival"
    assert os.listdir(tmp_path) == ["d.csv"]


TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=6)
ROWS = st.lists(
    st.tuples(
        st.none() | st.floats(allow_nan=False, allow_infinity=False),
        st.none() | st.integers(-(2**60), 2**60),
        st.none() | TEXT,
        st.none() | st.booleans(),
    ),
    min_size=1,
    max_size=8,
)


@pytest.mark.filterwarnings("ignore:states that look alike")
@pytest.mark.parametrize("suffix", FORMATS)
@settings(max_examples=examples(25), deadline=None)
@given(rows=ROWS)
@example(rows=[(None, None, None, None)])
@example(rows=[(1.0, 2**60, "", True), (None, None, "NA", None), (0.5, 3, " a\r\nb\t", False)])
@example(rows=[(1.0, 1, "a", True), (2.0, 2, "\u2028\x85\x0b\ufeff", False)])
def test_any_table_survives(suffix: str, rows: list[tuple[Any, ...]]) -> None:
    x, i, c, b = (list(column) for column in zip(*rows, strict=True))
    states = sorted({text for text in c if text is not None} | {"other"})
    table = Table(
        {
            "x": pd.array(x, dtype="Float64"),
            "i": pd.array(i, dtype="Int64"),
            "c": pd.Categorical(c, categories=states),
            "b": pd.array(b, dtype="boolean"),
        }
    )
    with tempfile.TemporaryDirectory() as folder:
        path = target(Path(folder), suffix)
        table.write(path)
        again = read_table(path, variables=table.variables)
        assert again.equals(table)
        assert again.raw("i").tolist() == table.raw("i").tolist()
        if suffix in ("parquet", "feather", "arff"):
            # Without help: states, their order and the integer type are in the file.
            alone = read_table(path)
            assert alone.equals(table)
            assert alone.to_pandas()["c"].dtype == table.to_pandas()["c"].dtype


class TestColumnar:
    @pytest.mark.parametrize("suffix", ["parquet", "feather"])
    def test_files_of_others(self, suffix: str, tmp_path: Path) -> None:
        frame = pd.DataFrame(
            {"c": pd.Categorical(["a", None], categories=["b", "a"]), "s": ["p", "q"], "x": [1.5, np.nan]},
            index=pd.Index(["r", "s"], name="id"),
        )
        path = tmp_path / f"d.{suffix}"
        writer = parquet.write_table if suffix == "parquet" else feather.write_feather
        writer(pa.Table.from_pandas(frame), path)
        table = read_table(path)
        assert table.names == ("c", "s", "x")
        assert table.is_discrete("s")
        assert read_table(path, columns=["id"]).raw("id").tolist() == ["r", "s"]

    @pytest.mark.parametrize("suffix", ["parquet", "feather"])
    @pytest.mark.parametrize(
        "content",
        [b"", b"PAR1", b"PAR1" + b"\xff" * 50 + b"PAR1", b"x,y\n1,2\n", b"ARROW1\0\0" + b"\0" * 40],
        ids=["empty", "start of Parquet", "damaged Parquet", "text", "damaged Feather"],
    )
    def test_damaged_files(self, suffix: str, content: bytes, tmp_path: Path) -> None:
        path = tmp_path / f"d.{suffix}"
        path.write_bytes(content)
        with pytest.raises(FormatError, match=r"d\.(parquet|feather): not a whole"):
            read_table(path)

    @pytest.mark.parametrize("suffix", ["parquet", "feather"])
    def test_a_file_cut_short(self, suffix: str, tmp_path: Path) -> None:
        path = tmp_path / f"d.{suffix}"
        sample().write(path)
        content = path.read_bytes()
        for size in range(1, len(content), 997):
            path.write_bytes(content[:size])
            with pytest.raises(FormatError):
                read_table(path)

    @pytest.mark.parametrize(
        "note",
        [
            b"{",
            b'{"version": 2, "columns": {}}',
            b"[]",
            b'{"version": 1, "columns": {"c": {}}}',
            b"[" * 100_000,
            b'{"version": 1, "columns": {"c": {"kind": "discrete", "states": ["q"]}}}',
            b'{"version": 1, "columns": {"c": {"kind": "discrete", "states": ["a", "a"]}}}',
        ],
    )
    def test_a_damaged_note(self, note: bytes, tmp_path: Path) -> None:
        path = tmp_path / "d.parquet"
        parquet.write_table(pa.table({"c": ["a"]}).replace_schema_metadata({b"hybridbn": note}), path)
        with pytest.raises(FormatError, match="note"):
            read_table(path)

    def test_nested_columns_are_refused(self, tmp_path: Path) -> None:
        parquet.write_table(pa.table({"c": [[1]], "x": [1.5]}), tmp_path / "d.parquet")
        with pytest.raises(TableError, match="'c' is of type list"):
            read_table(tmp_path / "d.parquet").variable("c")
        assert read_table(tmp_path / "d.parquet")["x"].tolist() == [1.5]


class TestJsonLines:
    def test_lines(self, tmp_path: Path) -> None:
        path = tmp_path / "d.jsonl"
        path.write_text('{"x": 1, "c": "a"}\n\n{"c": null, "b": true, "x": 2.5}\n')
        table = read_table(path)
        assert table.names == ("x", "c", "b")
        assert table.raw("c").tolist() == ["a", None]
        assert table["b"].tolist() == [-1, 1]

    @pytest.mark.parametrize(
        ("line", "message"),
        [
            ('{"x": ', "line 2 is not JSON"),
            ("[1]", "line 2 holds a list"),
            ('{"x": NaN}', "line 2 is not JSON: NaN is no JSON value"),
            ('{"x": 1, "x": 2}', "line 2 is not JSON: the key 'x' occurs twice"),
            ("[" * 100_000, "line 2: nested too deeply"),
            ('{"x": "a"}', r"'x' mixes .*int \(1 in line 1\), str \('a' in line 2\)"),
            ('{"x": 1e999}', "'x', line 2: inf is infinite"),
            ('{"x": ' + "9" * 5000 + "}", "line 2"),
            ("\ud800", "line 2: not UTF-8"),
        ],
    )
    def test_faults(self, line: str, message: str, tmp_path: Path) -> None:
        path = tmp_path / "d.jsonl"
        path.write_bytes(f'{{"x": 1}}\n{line}\n'.encode("utf-8", "surrogatepass"))
        with pytest.raises(TableError, match=message):
            read_table(path)

    def test_lists_among_numbers(self, tmp_path: Path) -> None:
        (tmp_path / "d.jsonl").write_text('{"x": 1}\n\n{"x": [1]}\n')
        with pytest.raises(TableError, match=r"'x' mixes .* int \(1 in line 1\), list \(\[1\] in line 3\)"):
            read_table(tmp_path / "d.jsonl").variable("x")

    def test_empty(self, tmp_path: Path) -> None:
        (tmp_path / "d.jsonl").write_text("\n")
        with pytest.raises(TableError, match="the file is empty"):
            read_table(tmp_path / "d.jsonl")


class TestSqlite:
    def make(self, tmp_path: Path) -> str:
        connection = sqlite3.connect(tmp_path / "d.db")
        connection.executescript(
            'CREATE TABLE t (x REAL, "a b" TEXT, k INTEGER, flag BOOLEAN);'
            "INSERT INTO t VALUES (1.5, 'p', 1, 1), (NULL, NULL, 2, 0), (2, 'q', NULL, NULL);"
            'CREATE TABLE "x""; drop table t; --" (y REAL); INSERT INTO "x""; drop table t; --" VALUES (1);'
            "CREATE TABLE mixed (c); INSERT INTO mixed VALUES (1), ('a'); CREATE TABLE b (c BLOB); INSERT INTO b "
            "VALUES "
            "(x'00')"
        )
        connection.close()
        return f"sqlite:///{tmp_path / 'd.db'}"

    def test_tables_and_queries(self, tmp_path: Path) -> None:
        url = self.make(tmp_path)
        table = read_table(f"{url}?table=t", discrete=["k"])
        assert table.names == ("x", "a b", "k", "flag")
        assert table.variable("k").states == (1, 2)  # type: ignore[union-attr]
        assert table["flag"].tolist() == [1, 0, -1]
        assert read_table(f"{url}?query=SELECT k + 1 AS n FROM t WHERE k > 0 AND x > 1")["n"].tolist() == [2.0]
        assert read_table(f"{url}?query=WITH q AS (SELECT x FROM t) SELECT * FROM q WHERE x LIKE '1%25'")[
            "x"
        ].tolist() == [1.5]
        assert read_table(f"{url}?table=t", columns=["a b"]).names == ("a b",)

    def test_names_are_quoted_and_nothing_is_changed(self, tmp_path: Path) -> None:
        url = self.make(tmp_path)
        before = (tmp_path / "d.db").read_bytes()
        assert read_table(f'{url}?table=x"; drop table t; --')["y"].tolist() == [1.0]
        for statement in (
            "DROP TABLE t",
            "DELETE FROM t",
            "SELECT 1; DROP TABLE t",
            "PRAGMA writable_schema=1",
            f"ATTACH '{tmp_path / 'other.db'}' AS o",
            "INSERT INTO t VALUES (1, 'a', 1, 1)",
            "nonsense",
            "SELECT y FROM t",
        ):
            with pytest.raises(TableError, match=r"d\.db"):
                read_table(f"{url}?query={statement}")
        with pytest.raises(TableError, match="no table 'none'; the tables are 'b', 'mixed', 't'"):
            read_table(f"{url}?table=none")
        assert (tmp_path / "d.db").read_bytes() == before
        assert os.listdir(tmp_path) == ["d.db"]

    def test_faults(self, tmp_path: Path) -> None:
        url = self.make(tmp_path)
        with pytest.raises(TableError, match="'c' mixes"):
            read_table(f"{url}?table=mixed")
        with pytest.raises(TableError, match=r"'c', row 0: .* is a bytes; decode"):
            read_table(f"{url}?table=b").variable("c")
        with pytest.raises(TableError, match="several columns are called 'x'"):
            read_table(f"{url}?query=SELECT x, x FROM t")
        with pytest.raises(TableError, match="differ in case only"):
            Table({"a": [1.5], "A": [2.5]}).write(f"{url}?table=new")
        for bad in ("sqlite:///", "sqlite://d.db?table=t", "sqlite:///d.db", "sqlite:///d.db?table="):
            with pytest.raises(FormatError, match="no address of an SQLite table"):
                read_table(bad)
        (tmp_path / "bad.db").write_bytes(b"SQLite format 3\0" + b"\xff" * 2000)
        with pytest.raises(FormatError, match=r"bad\.db"):
            read_table(f"sqlite:///{tmp_path / 'bad.db'}?table=t")
        with pytest.raises(FileNotFoundError):
            read_table(f"sqlite:///{tmp_path / 'absent.db'}?table=t")
        assert not (tmp_path / "absent.db").exists()

    def test_writing_adds_a_table_in_one_transaction(self, tmp_path: Path) -> None:
        url = self.make(tmp_path)
        Table({"x": [1.5]}).write(f"{url}?table=new")
        assert len(read_table(f"{url}?table=t")) == 3
        before = (tmp_path / "d.db").read_bytes()
        with pytest.raises(TableError, match="can't be written in UTF-8"):
            Table({"x": [1.5, 2.5], "c": ["a", "\ud800"]}).write(f"{url}?table=new", overwrite=True)
        assert (tmp_path / "d.db").read_bytes() == before


def test_places_that_can_not_be_read(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="the suffix tells no known format"):
        read_table(tmp_path / "d.xyz")
    with pytest.raises(FormatError, match="only files and sqlite"):
        read_table("https://example.org/d.csv")
    for suffix in ("csv", "arff", "parquet", "feather", "jsonl", "csv.gz"):
        with pytest.raises(FileNotFoundError):
            read_table(tmp_path / f"absent.{suffix}")
    (tmp_path / "d.csv.gz").write_bytes(gzip.compress(b"x\n1\n2\n" * 1000)[:-20])
    with pytest.raises(FormatError, match="not a whole gzip file"):
        read_table(tmp_path / "d.csv.gz")


def test_wishes_that_dont_fit(tmp_path: Path) -> None:
    path = tmp_path / "d.csv"
    path.write_text("x,c\n1,a\n")
    with pytest.raises(TableError, match="no column 'z'; the columns are 'x', 'c'"):
        read_table(path, discrete=["z"])
    with pytest.raises(TableError, match="no column 'z'"):
        read_table(path, columns=["z"])
    with pytest.raises(TableError, match="column 'c', line 2: 'a' is not a number"):
        read_table(path, continuous=["c"])
    with pytest.raises(TableError, match="both discrete and continuous"):
        read_table(path, discrete="x", continuous="x")
    variables: list[Variable] = [Continuous("x"), Discrete("c", states=("b",))]
    with pytest.raises(TableError, match="column 'c', row 0: 'a' is not a state"):
        read_table(path, variables=variables).column("c")
    assert read_table(path, variables=variables, unknown="missing")["c"].tolist() == [-1]


def test_public_names_are_reached_through_the_table(tmp_path: Path) -> None:
    Table({"x": [1.5]}).write(tmp_path / "d.jsonl")
    assert json.loads((tmp_path / "d.jsonl").read_text()) == {"x": 1.5}
    assert tables.read_table(f"file://{tmp_path / 'd.jsonl'}")["x"].tolist() == [1.5]


@pytest.mark.parametrize("most", [3, 300])
def test_states_of_parquet_files_are_coded_batch_by_batch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    monkeypatch.setattr(arrow, "_BATCH", 64)
    monkeypatch.setattr(arrow, "_SPAN", 400)
    rng = np.random.default_rng(most)
    # later batches have states of their own, and a long one needs another type of codes
    level = np.sort(rng.integers(0, most, 500)) + rng.integers(0, 2, 500)
    text = np.array([f"s{999 - code}" for code in level], dtype=object)
    text[rng.random(500) < 0.1] = None
    frame = pd.DataFrame(
        {
            "text": text,
            "levels": pd.Categorical(text, categories=[f"s{code}" for code in range(999 - most, 1010)], ordered=True),
            "whole": level * np.where(rng.random(500) < 0.5, -1, 1),
            "wide": level * 10**9,
            "number": rng.normal(size=500),
            "none": pd.Series([None] * 499 + ["x"], dtype="str"),
        }
    )
    path = tmp_path / "d.parquet"
    parquet.write_table(pa.Table.from_pandas(frame), path, row_group_size=150)
    table = read_table(path, discrete=["whole", "wide"])
    wanted = Table(frame, discrete=["whole", "wide"])
    assert table.equals(wanted)
    assert all(table[name].dtype == np.intp for name in ("text", "levels", "whole", "wide"))
    for both in (lambda t: t.to_pandas(), lambda t: t.to_polars().to_pandas(), lambda t: t.to_arrow().to_pandas()):
        # before pandas 3, what is missing in text is None or nan
        shown, expected = (both(t)[["text", "number"]].fillna({"text": ""}) for t in (table, wanted))
        pd.testing.assert_frame_equal(shown, expected)
    taken = table.take(np.arange(200, 400))
    assert taken.equals(wanted.take(np.arange(200, 400)))
    assert taken.with_column("text", ["new"] * 200, Discrete("text", states=("new",)))["text"].max() == 0
    columns = ["text", "whole", "levels"]
    learned, other = (tan(t.select(columns), "text") for t in (table, wanted))
    for name in columns:
        assert np.array_equal(
            as_kind(hb.Multinomial, learned.potential(name)).table, as_kind(hb.Multinomial, other.potential(name)).table
        )
    written = tmp_path / "again.parquet"
    table.write(written)
    assert read_table(written).equals(table)
