"""Marks of missing cells: which values may be some, and that every door takes them by column."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from narrowing import as_discrete
from numpy.random import Generator

import hybridbn as hb
from hybridbn.commands.cli import run
from hybridbn.tables.scales import list_marks_among

N = 400


def near(mean: float, deviation: float, low: float, high: float) -> Callable[[Generator], Any]:
    """Return what draws whole numbers of a normal density between two ends."""
    return lambda rng: np.clip(rng.normal(mean, deviation, N).round(), low, high)


SCALES: dict[str, Callable[[Generator], Any]] = {
    "0 to 10": lambda rng: rng.integers(0, 11, N),
    "0 to 9": lambda rng: rng.integers(0, 10, N),
    "ages up to 99": near(55, 20, 0, 99),
    "old people": lambda rng: np.clip(92 - rng.gamma(2, 7, N), 18, None).round(),
    "percent": lambda rng: (100 * rng.beta(6, 1, N)).round(),
    "scores": near(70, 12, 0, 100),
    "house numbers": lambda rng: np.ceil(rng.lognormal(3, 1, N)),
    "children": lambda rng: rng.choice([0, 1, 2, 3, 4, 5, 8], N, p=[0.68, 0.235, 0.03, 0.02, 0.02, 0.007, 0.008]),
    "cylinders": lambda rng: rng.choice([3, 4, 5, 6, 8], N),
    "doublings": lambda rng: rng.choice([1, 2, 4, 8], N),
    "prices": lambda rng: rng.choice([19, 49, 99, 149, 199, 999], N),
    "prices with cents": lambda rng: rng.choice([4.99, 9.99, 19.99, 99.99, 999.99], N),
    "against, neither, for": lambda rng: rng.integers(-1, 2, N),
    "temperatures": lambda rng: rng.normal(9, 5, N).round(),
    "years of birth": lambda rng: rng.integers(60, 100, N),
    "minutes": lambda rng: rng.exponential(30, N).round(),
}


@pytest.mark.parametrize("scale", SCALES)
def test_no_value_of_a_real_scale_is_taken_for_a_mark(scale: str) -> None:
    for seed in range(10):
        table = hb.Table({"x": SCALES[scale](np.random.default_rng(seed)).astype(float)})
        assert table.marks("x") == (), seed


MARKED: dict[str, tuple[Callable[[Generator], Any], tuple[float, ...]]] = {
    "sex": (lambda rng: rng.integers(1, 3, N), (9,)),
    "ratings": (lambda rng: rng.integers(1, 6, N), (8, 9)),
    "0 to 10": (lambda rng: rng.integers(0, 11, N), (77, 88, 99)),
    "parties": (lambda rng: rng.integers(1, 9, N), (97, 98, 99)),
    "ages": (near(45, 15, 18, 80), (99,)),
    "ages with 999": (near(45, 15, 18, 95), (999,)),
    "incomes": (lambda rng: rng.lognormal(10, 0.6, N).round(), (-99,)),
    "hours": (near(35, 10, 0, 80), (-88,)),
    "days": (lambda rng: rng.integers(0, 28, N), (-1,)),
    "sensor": (lambda rng: rng.normal(10, 8, N).round(1), (-999,)),
    "humidity": (lambda rng: np.clip(rng.normal(60, 18, N), 5, 100).round(1), (-99.9,)),
}


@pytest.mark.parametrize("column", MARKED)
def test_marks_are_found_with_their_counts_on_either_side(column: str) -> None:
    draw, marks = MARKED[column]
    rng = np.random.default_rng(1)
    values = draw(rng).astype(float)
    for place, mark in enumerate(marks):
        values[place :: 20 + place] = mark
    found = hb.Table({"x": values}).marks("x")
    assert {mark.value: mark.cells for mark in found} == {mark: int((values == mark).sum()) for mark in marks}
    assert all(f"{mark:g} in " in repr(hb.Table({"x": values})) for mark in marks)
    assert hb.Table({"x": values}, missing={"x": list(marks)}).marks("x") == ()


@pytest.mark.parametrize(
    ("states", "marks"),
    [
        (("f", "m", "n/a", "k.A."), ("n/a", "k.A.")),
        (("yes", "no", "Keine Angabe", "refused"), ("Keine Angabe", "refused")),
        (("A", "B", "."), (".",)),
        (("A", "B", "?", "unknown"), ("?", "unknown")),
        ((1, 2, 3, 9), (9,)),
        (("+", "-"), ()),
        (("known", "unknown"), ()),
        (("de", "fr", "na"), ()),
        (("none", "mild", "severe"), ()),
    ],
)
def test_texts_and_states_that_are_marks(states: tuple[Any, ...], marks: tuple[Any, ...]) -> None:
    assert tuple(mark.value for mark in list_marks_among(states, np.full(len(states), 12.0))) == marks


# -- doors -------------------------------------------------------------------------------------------------------------


@pytest.fixture
def survey(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> pd.DataFrame:
    """A table in which 9 marks missing cells of one column, and is a value of two others."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"sex": rng.choice([1, 2, 9], 200, p=[0.45, 0.5, 0.05]), "trust": np.arange(200) % 11})
    frame["x"] = (rng.normal(9, 3, 200) + frame["trust"]).round(1)
    frame["a=b"] = rng.choice(["u", "v", "w"], 200)
    frame.to_csv("t.csv", index=False)
    frame.to_parquet("t.parquet")
    Path("parts").mkdir()
    for part in range(2):
        frame[100 * part : 100 * part + 100].to_csv(f"parts/{part}.csv", index=False)
    return frame


DOORS: dict[str, Callable[[pd.DataFrame, Any], Any]] = {
    "Table": lambda frame, missing: hb.Table(frame, missing=missing),
    "CSV": lambda frame, missing: hb.read_table("t.csv", missing=missing),
    "Parquet": lambda frame, missing: hb.read_table("t.parquet", missing=missing),
    "scan of CSV": lambda frame, missing: hb.scan("t.csv", missing=missing),
    "scan of a folder": lambda frame, missing: hb.scan("parts", missing=missing),
    "scan of Parquet": lambda frame, missing: hb.scan("t.parquet", missing=missing),
    "scan of a frame": lambda frame, missing: hb.scan(frame, missing=missing),
}


@pytest.mark.parametrize("door", DOORS)
def test_every_reader_takes_marks_by_column(survey: pd.DataFrame, door: str) -> None:
    rows = DOORS[door](survey, {"sex": [9], "a=b": "w"})
    holes = {"sex": (survey["sex"] == 9).sum(), "trust": 0, "x": 0, "a=b": (survey["a=b"] == "w").sum()}
    assert rows.missing == holes
    assert as_discrete(rows.variable("a=b")).states == ("u", "v")
    assert rows.value_range("sex") == (1, 2)


@pytest.mark.parametrize("source", ["t.csv", "t.parquet", "parts"])
def test_the_command_takes_marks_by_column_and_asks_where_they_may_be_values(
    survey: pd.DataFrame, source: str, capsys: pytest.CaptureFixture[str]
) -> None:
    target = {"t.csv": "out.csv", "t.parquet": "out.parquet", "parts": "out"}[source]
    assert run(["impute", source, target, "--missing", "9"]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert "9 looks like an ordinary value of 'trust' (18 cells)" in said
    assert "name the columns where it marks missing cells: --missing sex=9" in said
    assert not Path(target).exists()
    assert run(["impute", source, target, "--missing", "sex=9", "--missing", "a=b=w"]) == 0
    assert "may stand for missing cells" not in capsys.readouterr().err
    made = [
        hb.read_table(path).to_pandas() for path in ([target] if target != "out" else sorted(Path("out").iterdir()))
    ]
    filled = pd.concat(made, ignore_index=True)
    assert {*filled["sex"]} == {1, 2}
    assert {*filled["a=b"]} == {"u", "v"}
    for name, mark in (("sex", 9), ("a=b", "w")):
        assert (filled[name] == survey[name])[survey[name] != mark].all()
    assert (filled["trust"] == survey["trust"]).all()
    assert run(["impute", source, f"2{target}", "--missing", "-99"]) == 0
    assert "--missing -99: 0 cells in 0 columns" in capsys.readouterr().err
    assert run(["check", "t.csv", "--missing", "sxe=9"]) == 2
    assert "did you mean 'sex'?" in capsys.readouterr().err


def test_marks_of_another_kind_than_their_column(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    rows = [f"{'k.A.' if i % 9 == 0 else i % 40},{'uv9'[i % 3]},{i % 7 / 4}" for i in range(120)]
    Path("t.csv").write_text("\n".join(["income,code,x", *rows, ""]))
    table = hb.read_table("t.csv", missing={"income": ["k.A."], "code": [9]})
    assert table.missing == {"income": 14, "code": 40, "x": 0}
    assert not table.is_discrete("income")
    assert as_discrete(table.variable("code")).states == ("u", "v")
    assert hb.read_table("t.csv", missing=["k.A.", "9"]).missing["income"] == 16
    assert run(["impute", "t.csv", "out.csv"]) == 2
    assert "name it with --missing COLUMN=TEXT" in capsys.readouterr().err
    for chunk in ("1000", "50"):
        options = ["--missing", "income=k.A.", "--missing", "code=9", "--chunk", chunk]
        assert run(["impute", "t.csv", "out.csv", *options]) == 0
        filled = hb.read_table("out.csv").to_pandas()
        assert {*filled["code"]} == {"u", "v"}
        assert pd.api.types.is_numeric_dtype(filled["income"])


def test_other_verbs_take_marks_too(survey: pd.DataFrame, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["fit", "t.csv", "m.hbn", "--missing", "sex=9", "--structure", "sex -> x"]) == 0
    assert hb.load("m.hbn").posterior("sex").quantile(0.999) <= 2
    assert run(["convert", "t.csv", "new.parquet", "--missing", "sex=9"]) == 0
    assert pd.read_parquet("new.parquet")["sex"].isna().sum() == (survey["sex"] == 9).sum()
    assert run(["predict", "m.hbn", "t.csv", "p.csv", "--target", "x", "--missing", "sex=9"]) == 0
    means = pd.read_csv("p.csv").groupby("sex")["x_mean"].first()
    assert means[9] == pytest.approx(hb.load("m.hbn").posterior("x").mean(), abs=1e-6)
    assert run(["check", "t.csv"]) == 0
    assert "9 in 'sex'" in capsys.readouterr().out


def test_row_numbers_are_no_ordinary_values(survey: pd.DataFrame, capsys: pytest.CaptureFixture[str]) -> None:
    numbered = survey.drop(columns="trust").assign(nr=np.arange(1, 201), x=survey["x"] + 200)
    numbered.to_csv("n.csv", index=False)
    assert run(["impute", "n.csv", "out.csv", "--missing", "9"]) == 0
    assert f"--missing 9: {(survey['sex'] == 9).sum()} cells in 1 columns" in capsys.readouterr().err
    assert (pd.read_csv("out.csv")["nr"] == numbered["nr"]).all()


@pytest.mark.parametrize("mark", [-99.0, -999.0, 99999.0])
def test_a_mark_hides_no_frequent_value_beside_it(mark: float) -> None:
    rng = np.random.default_rng(5)
    income = np.where(rng.random(N) < 0.35, 0.0, rng.gamma(4, 600, N).round(2))
    points = hb.Table({"x": income}).scale("x").points
    scale = hb.Table({"x": np.where(rng.random(N) < 0.15, mark, income)}).scale("x")
    assert points == (0.0,)
    assert scale.points == tuple(sorted((0.0, mark)))
    assert "often 0;" in scale.describe()
    assert "between" not in scale.describe()
