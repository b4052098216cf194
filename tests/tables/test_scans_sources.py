"""Scans of databases and of files that hybridbn reads by itself: what is learned is what is learned from memory."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from narrowing import as_discrete, as_kind
from test_scans import make_data, names_of, same

import hybridbn as hb
from hybridbn.structures import naive_bayes, tan
from hybridbn.tables.backends.sources import FileFragment

pytest.importorskip("pyarrow")


@pytest.mark.parametrize("place", ["t.jsonl", "t.arff", "t.jsonl.gz", "sqlite"])
def test_rows_of_any_format_are_scanned(place: str, tmp_path: Path) -> None:
    data = make_data(300, 1)
    path = f"sqlite:///{tmp_path}/t.db?table=t" if place == "sqlite" else str(tmp_path / place)
    hb.Table(data, discrete=["k"]).write(path)
    known = tan(hb.read_table(path, discrete=["k"]), "y", "gaussian")
    scan = hb.scan(path, discrete=["k"])
    assert same(tan(scan, "y", "gaussian"), known)
    assert scan.missing == hb.read_table(path, discrete=["k"]).missing


def test_several_files_of_rows_are_one_table(tmp_path: Path) -> None:
    data = names_of(make_data(200, 2), "y", "a", "x")
    table = hb.Table(data)
    table[:120].write(tmp_path / "1.jsonl")
    table[120:].write(tmp_path / "2.jsonl")
    assert same(naive_bayes(hb.scan(str(tmp_path / "*.jsonl")), "y", "gaussian"), naive_bayes(table, "y", "gaussian"))


def test_counts_of_a_database_are_made_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = names_of(make_data(300, 3), "y", "a", "k", "x")
    url = f"sqlite:///{tmp_path}/a b.db?table=my%20t"
    hb.Table(data, discrete=["k"]).write(url)

    def refuse(*arguments: Any) -> Iterator[Any]:
        raise AssertionError("rows are fetched")

    monkeypatch.setattr(FileFragment, "batches", refuse)
    known = naive_bayes(names_of(data, "y", "a"), "y")
    assert same(naive_bayes(hb.scan(url, columns=["y", "a"]), "y"), known)
    query = f"sqlite:///{tmp_path}/a b.db?query=SELECT * FROM \"my t\" WHERE y <> 'no' AND a LIKE '%25'"
    assert len(hb.scan(query, discrete=["k"])) == sum(
        y != "no" and a is not None for y, a in zip(data["y"], data["a"], strict=True)
    )


def test_a_collation_merges_no_states(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "t.db")) as connection:
        connection.execute("CREATE TABLE t (c TEXT COLLATE NOCASE, y TEXT)")
        connection.executemany("INSERT INTO t VALUES (?, ?)", [("a", "p"), ("A", "q"), ("a", "q"), (None, "p")])
        connection.commit()
    scan = hb.scan(f"sqlite:///{tmp_path}/t.db?table=t")
    assert as_discrete(scan.variable("c")).states == ("A", "a")
    np.testing.assert_array_equal(
        as_kind(hb.Multinomial, hb.structures.chow_liu(scan).potential("c")).table.shape[-1], 2
    )


def test_values_of_other_types_than_the_first_are_told(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "t.db")) as connection:
        connection.execute("CREATE TABLE t (x, y TEXT)")
        connection.executemany("INSERT INTO t VALUES (?, 'a')", [(float(i),) for i in range(20_000)])
        connection.execute("INSERT INTO t VALUES ('much', 'b')")
        connection.commit()
    with pytest.raises(
        hb.TableError, match=r"column 'x' mixes .*: float \(0.0 in row 0\), str \('much' in row 20000\)"
    ):
        hb.scan(f"sqlite:///{tmp_path}/t.db?table=t", backend="local").sample()
    query = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 140001)"
    query += " SELECT CASE WHEN i > 140000 THEN 'far' ELSE i + 0.5 END AS x FROM n"
    scan = hb.scan(f"sqlite:///{tmp_path}/t.db?query={query}")
    with pytest.raises(hb.TableError, match="column 'x', row 140000: 'far' is not a number"):
        scan.sample()
    with closing(sqlite3.connect(tmp_path / "u.db")) as connection:
        connection.execute("CREATE TABLE t (k INTEGER)")
        connection.execute(f"INSERT INTO t {query.replace('i + 0.5', 'i').replace(chr(39) + 'far' + chr(39), '0.5')}")
        connection.commit()
    with pytest.raises(hb.TableError, match="column 'k' begins with values of one kind and goes on with others"):
        hb.scan(f"sqlite:///{tmp_path}/u.db?table=t").sample()


def test_dates_and_empty_beginnings_of_a_database(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "t.db")) as connection:
        connection.execute("CREATE TABLE t (d TEXT, n REAL, s VARCHAR(9), b BOOLEAN)")
        rows = [(f"2024-01-{1 + i % 28:02}", None, None, i % 2) for i in range(150)] + [("2024-02-01", 1.5, "z", None)]
        connection.executemany("INSERT INTO t VALUES (?, ?, ?, ?)", rows)
        connection.commit()
    url = f"sqlite:///{tmp_path}/t.db?table=t"
    assert hb.scan(url).variables == hb.read_table(url).variables
    with pytest.raises(hb.TableError, match="no table"):
        hb.scan(f"sqlite:///{tmp_path}/t.db?table=u")


@pytest.mark.parametrize("suffix", ["csv", "jsonl", "parquet"])
def test_columns_of_later_files_are_not_lost(suffix: str, tmp_path: Path) -> None:
    hb.Table({"x": [1.5, 2.5]}).write(tmp_path / f"a.{suffix}")
    hb.Table({"x": [3.5], "late": [1.0]}).write(tmp_path / f"b.{suffix}")
    with pytest.raises(hb.TableError, match=f"b.{suffix} has a column 'late', which the first file lacks"):
        hb.fit([], hb.scan(tmp_path / f"*.{suffix}"))


def test_columns_of_no_use_are_left_alone_in_all_files(tmp_path: Path) -> None:
    for number in range(2):
        rows = [f'{{"x": {number + 0.5 * row}, "l": [1, 2]}}\n' for row in range(9)]
        (tmp_path / f"{number}.jsonl").write_text("".join(rows))
    with pytest.warns(UserWarning, match="'l'"):
        assert list(hb.fit([], hb.scan(tmp_path / "*.jsonl"))) == ["x"]


def test_files_of_a_store_are_found_by_name_folder_and_pattern(tmp_path: Path) -> None:
    (tmp_path / "below").mkdir()
    for number, name in enumerate(("a.csv", "below/b.csv", "c.txt", "d.csv")):
        (tmp_path / name).write_text(f"x,y\n{number},1.5\n")
    store = tmp_path.as_uri()
    for address, numbers in (("a.csv", [0]), ("below", [1]), ("*.csv", [0, 3]), ("[cd].csv", [3]), ("", [0, 1, 3])):
        scan = hb.scan(f"{store}/{address}".rstrip("/"))
        assert sorted(scan.sample().column("x").tolist()) == numbers
    for address in ("gone.csv", "e*.csv", "gone/*.csv"):
        with pytest.raises(hb.FormatError, match="there is no file to scan"):
            hb.scan(f"{store}/{address}")


WEIGHED = {"x": [1.0, 2.0, 4.0], "w": [1.0, 0.0, 2.0], "v": [2.0, 1.0, 1.0], "c": ["a", "b", "a"]}


def test_weights_of_a_scan_are_no_column_of_it() -> None:
    scan = hb.scan(pd.DataFrame(WEIGHED), weights="w")
    assert scan.names == ("x", "v", "c")
    other = scan.with_weights("v")
    assert (other.names, other.total_weight) == (("x", "c"), 4.0)
    assert (scan.with_weights(None).names, scan.with_weights(None).total_weight) == (("x", "v", "c"), 3.0)
    assert set(hb.fit([], other)) == {"x", "c"}
