"""Columns that nothing can be done with never stop a table; column names that are no text come back as they were."""

from __future__ import annotations

import contextlib
import json
import sqlite3
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import hybridbn as hb
from hybridbn.commands.cli import run
from hybridbn.structures import naive_bayes

N = 60


def make_frame() -> pd.DataFrame:
    rng = np.random.default_rng(1)
    x = rng.normal(size=N)
    return pd.DataFrame(
        {
            "id": [f"p{i:03}" for i in range(N)],
            "name": ["Kelly, James"] * 2 + [f"Mr. {i}, James" for i in range(N - 2)],
            "x": pd.Series(x).mask(rng.random(N) < 0.3),
            "y": x + rng.normal(size=N),
            "c": rng.choice(["a", "b"], N),
            "note": [f"was seen at visit {i % 40} and went home" for i in range(N)],
            "empty": [None] * N,
            "tags": [[1, 2], None] * (N // 2),
            "blob": [b"\x00"] * N,
            "record": [{"a": 1.5}] * N,
        }
    )


ALONE = {"id", "name", "note", "empty", "tags", "blob", "record"}


def warned(action: Callable[[], Any]) -> tuple[Any, list[str]]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = action()
    return result, [str(item.message) for item in caught if issubclass(item.category, UserWarning)]


def names_in(text: str) -> set[str]:
    return {name for name in make_frame().columns if repr(name) in text}


def test_impute_names_all_of_them_in_one_warning() -> None:
    frame = make_frame()
    filled, messages = warned(lambda: hb.impute(frame, random_state=0))
    assert len(messages) == 1
    assert names_in(messages[0]) == ALONE
    assert f"{N + N // 2 - N // 2} missing cells stay missing" in messages[0]
    assert filled[["x", "y", "c"]].notna().all(axis=None)
    for name in ALONE:
        assert filled[name].equals(frame[name])
    assert (filled.dtypes == frame.dtypes).all()
    skipped, silent = warned(lambda: hb.impute(frame, skip=sorted(ALONE), random_state=0))
    assert silent == []
    assert skipped["x"].equals(filled["x"])


@pytest.mark.parametrize("make", [pl.from_pandas, pa.Table.from_pandas])
def test_other_frames(make: Callable[[pd.DataFrame], Any]) -> None:
    frame = make(make_frame())
    filled, messages = warned(lambda: hb.impute(frame, random_state=0))
    assert len(messages) == 1
    assert names_in(messages[0]) == ALONE
    assert filled.schema == frame.schema
    assert filled["x"].null_count == 0 if isinstance(frame, pa.Table) else filled["x"].null_count() == 0


def test_numbers_and_damaged_columns_are_never_left_alone_silently() -> None:
    frame = make_frame().assign(number=3 * np.arange(N), k=[1, 1.5, None] * (N // 3))
    filled, messages = warned(lambda: hb.impute(frame, random_state=0))
    assert names_in(messages[0]) == ALONE
    assert filled["k"].notna().all()
    with pytest.raises(hb.TableError, match="'m' mixes values of several types"):
        hb.impute(frame.assign(m=[1, "a"] * (N // 2)))
    assert set(hb.structures.chow_liu(frame[["number", "x"]])) == {"number", "x"}


def test_a_table_of_nothing_else_comes_back_as_it_is() -> None:
    frame = make_frame()[["tags", "empty"]]
    filled, messages = warned(lambda: hb.impute(frame, random_state=0))
    assert filled.equals(frame)
    assert len(messages) == 1


def test_estimators_leave_them_out() -> None:
    frame = make_frame()
    features, target = frame.drop(columns="c"), frame["c"]
    for make in (
        lambda: hb.HybridClassifier("naive_bayes").fit(features, target),
        lambda: hb.HybridClassifier("naive_bayes").partial_fit(features, target, classes=["a", "b"]),
        lambda: hb.HybridRegressor("naive_bayes").fit(frame.drop(columns="y"), frame["y"]),
    ):
        model, messages = warned(make)
        assert len(messages) == 1
        assert names_in(messages[0]) == ALONE
        assert set(model.network_) == {"x", "y", "c"}
    model, _ = warned(lambda: hb.HybridClassifier("naive_bayes").fit(features, target))
    assert warned(lambda: model.predict(features))[1] == []
    imputer, messages = warned(lambda: hb.Imputer(random_state=0).fit(frame))
    assert names_in(messages[0]) == ALONE
    filled, messages = warned(lambda: imputer.transform(frame))
    assert messages == []
    assert filled["x"].notna().all()
    with pytest.raises(TypeError, match="must be a string or a number"):
        hb.HybridClassifier("naive_bayes").fit(np.array([[{"a": 1}], [2.0]], dtype=object), [0, 1])


def test_builders_leave_empty_columns_out() -> None:
    frame = make_frame()[["x", "y", "c", "empty", "tags"]]
    for build in (
        lambda: naive_bayes(frame, "c"),
        lambda: hb.structures.chow_liu(frame),
        lambda: hb.fit([("c", "x")], frame, "gaussian"),
    ):
        network, messages = warned(build)
        assert set(network) == {"x", "y", "c"}
        assert len(messages) == 1
        assert names_in(messages[0]) == {"empty", "tags"}
    with pytest.raises(hb.TableError, match=r"the target 'empty' can't be used \(no value\)"):
        naive_bayes(frame, "empty")
    with pytest.raises(hb.TableError, match="'empty'"):
        hb.fit([("empty", "x")], frame.drop(columns="tags"))


@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet", "sqlite"])
def test_the_command_prints_one_line(kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    frame = make_frame()
    source, goal = tmp_path / f"t.{kind}", tmp_path / f"o.{kind}"
    lacking: set[str] = set()
    if kind == "csv":
        lacking = {"tags", "blob", "record"}
        frame.drop(columns=sorted(lacking)).to_csv(source, index=False)
    elif kind == "jsonl":
        lacking = {"blob"}
        frame.drop(columns="blob").to_json(source, orient="records", lines=True)
    elif kind == "parquet":
        frame.to_parquet(source)
    else:
        lacking = {"tags", "record"}
        with contextlib.closing(sqlite3.connect(source)) as connection:
            frame.drop(columns=sorted(lacking)).to_sql("t", connection, index=False)
    prefix, suffix = ("sqlite:///", "?table=t") if kind == "sqlite" else ("", "")
    assert run(["impute", f"{prefix}{source}{suffix}", f"{prefix}{goal}{suffix}", "--chunk", "25"]) == 0
    lines = [line for line in capsys.readouterr().err.splitlines() if "left alone" in line]
    assert len(lines) == 1
    assert names_in(lines[0]) == ALONE - lacking
    if kind == "jsonl":
        before, after = (list(map(json.loads, path.read_text().splitlines())) for path in (source, goal))
        assert all(
            old | {"x": new["x"]} == new and new["x"] is not None for old, new in zip(before, after, strict=True)
        )
    if kind == "parquet":
        assert pd.read_parquet(goal).drop(columns="x").equals(pd.read_parquet(source).drop(columns="x"))


# -- names -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "names", [[0, 1, 2], [("a", 1), ("a", 2), ("b", 1)], ["x", 3, None], [0, "0", 1.5], ["", "a", "b"]]
)
def test_frames_of_any_names(names: list[Any]) -> None:
    values = np.random.default_rng(0).normal(size=(40, 3))
    values[::5, 1] = np.nan
    frame = pd.DataFrame(values)
    frame.columns = pd.MultiIndex.from_tuples(names) if isinstance(names[0], tuple) else pd.Index(names, dtype=object)
    filled = hb.impute(frame, rounds=0, random_state=0)
    assert filled.columns.equals(frame.columns)
    assert filled.notna().all(axis=None)
    assert hb.Table(frame).to_pandas().columns.tolist() == names
    kept = hb.impute(frame, skip=[names[1]], rounds=0, random_state=0)
    assert kept.isna().to_numpy().tolist() == frame.isna().to_numpy().tolist()
    within = hb.impute(frame, bounds={names[1]: (-1, 1)}, rounds=0, random_state=0)
    assert within[names[1]][::5].between(-1, 1).all()
    given = dict(zip(names, values.T, strict=True))
    assert list(hb.impute(given, rounds=0, random_state=0)) == names


def test_arrays_get_names() -> None:
    values = np.random.default_rng(0).normal(size=(40, 3))
    values[::5, 1] = np.nan
    filled = hb.impute(values, random_state=0)
    assert isinstance(filled, np.ndarray)
    assert not np.isnan(filled).any()
    assert np.array_equal(filled[:, [0, 2]], values[:, [0, 2]])
    assert hb.Table(values).names == ("x0", "x1", "x2")
    assert set(hb.structures.chow_liu(values)) == {"x0", "x1", "x2"}


@pytest.mark.parametrize(
    "learn",
    [
        lambda data: hb.bootstrap("tan", data, target="c", replicates=2).network(0.5),
        lambda data: hb.boost(data, "c", rounds=2).networks[0],
        lambda data: hb.augment(data, "c", max_iterations=1).network,
        lambda data: hb.fit([("c", "x")], data, "gaussian", missing="em"),
    ],
    ids=["bootstrap", "boost", "augment", "em"],
)
@pytest.mark.parametrize("empty", [[None] * 40, [np.nan] * 40], ids=["objects", "numbers"])
def test_an_empty_column_is_left_out_by_all_that_learns(learn, empty):
    x = np.random.default_rng(0).normal(size=40)
    with pytest.warns(UserWarning, match=r"columns left alone: 'empty' \(no value\)"):
        net = learn({"x": x, "empty": empty, "c": np.where(x > 0, "a", "b")})
    assert set(net) == {"x", "c"}
