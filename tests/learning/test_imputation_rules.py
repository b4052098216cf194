"""Imputed numbers are what numbers of their column can be, and keep what the observed ones have in common."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from narrowing import as_kind

import hybridbn as hb
from hybridbn.commands.cli import run
from hybridbn.learning.imputation.rules import Rules, Sum, find_rules, minutes_of, times_of

pytestmark = pytest.mark.filterwarnings("ignore:imputing expected values", "ignore:.* rows have no observed cell")


def make_table(rows: int = 240, seed: int = 0) -> pd.DataFrame:
    """Return a complete table that keeps rules of every kind."""
    rng = np.random.default_rng(seed)
    driver = rng.normal(size=rows)
    begun = rng.integers(14000, 16000, size=rows).astype(float)
    minutes = rng.integers(0, 1440, size=rows)
    shares = 100 * rng.dirichlet([2, 3, 4], size=rows)
    kind = np.eye(3)[rng.integers(3, size=rows)]
    north, south = rng.poisson(25, size=(2, rows)).astype(float)
    return pd.DataFrame(
        {
            "driver": driver,
            "begun": begun,
            "ended": begun + rng.integers(0, 12, size=rows),
            "leaves": 100.0 * (minutes // 60) + minutes % 60,
            "clay": shares[:, 0],
            "silt": shares[:, 1],
            "sand": shares[:, 2],
            "red": kind[:, 0],
            "green": kind[:, 1],
            "blue": kind[:, 2],
            "grade": rng.integers(1, 5, size=rows).astype(float),
            "price": 5.0 * np.round(rng.lognormal(5, 0.5, size=rows) / 5),
            "north": north,
            "south": south,
            "both": north + south,
            "height": np.maximum(14 + 7 * driver + 7 * rng.normal(size=rows), 0.5).round(1),
            "share": rng.beta(2, 2, size=rows),
            "score": np.clip(np.round(32 + 8 * driver), 0, 40),
        }
    )


def hide(frame: pd.DataFrame, share: float = 0.15, seed: int = 1) -> pd.DataFrame:
    return frame.mask(np.random.default_rng(seed).random(frame.shape) < share)


def broken_rules(frame: pd.DataFrame) -> list[str]:
    """Return what a completed table breaks."""
    kept = {
        "order": (frame["begun"] <= frame["ended"]).all(),
        "clock": ((frame["leaves"] % 100 < 60) & frame["leaves"].between(0, 2359) & (frame["leaves"] % 1 == 0)).all(),
        "shares": np.allclose(frame["clay"] + frame["silt"] + frame["sand"], 100, atol=1e-6),
        "indicators": (frame["red"] + frame["green"] + frame["blue"] == 1).all(),
        "codes": frame["grade"].isin([1, 2, 3, 4]).all(),
        "steps": (frame["price"] % 5 == 0).all() and (frame["price"] > 0).all(),
        "total": (frame["north"] + frame["south"] == frame["both"]).all(),
        "positive": (frame.drop(columns="driver") >= 0).all().all() and (frame["height"] > 0).all(),
        "bounded": frame["share"].between(0, 1).all() and (frame["score"] <= 40).all(),
        "complete": not frame.isna().any().any(),
    }
    return [name for name, holds in kept.items() if not holds]


FRONTS: dict[str, Callable[[pd.DataFrame], pd.DataFrame]] = {
    "draw": lambda frame: hb.impute(frame, random_state=0),
    "mean": lambda frame: hb.impute(frame, strategy="mean", random_state=0),
    "most probable": lambda frame: hb.impute(frame, strategy="most_probable", random_state=0),
    "proper draw": lambda frame: hb.impute(frame, draws=2, random_state=0)[1],
    "without donors": lambda frame: hb.impute(frame, donors=False, random_state=0),
    "Imputer": lambda frame: hb.Imputer(random_state=0).fit(frame).transform(frame),
}


@pytest.mark.parametrize(
    "front",
    [
        pytest.param(name, marks=[pytest.mark.slow] * (name in ("mean", "most probable", "proper draw")))
        for name in FRONTS
    ],
)
def test_no_strategy_breaks_a_rule(front: str) -> None:
    true = make_table()
    assert not broken_rules(true)
    frame = hide(true)
    filled = FRONTS[front](frame)
    assert not broken_rules(filled)
    pd.testing.assert_frame_equal(filled.where(frame.notna()), frame)


@pytest.mark.slow
@pytest.mark.parametrize("structure", ["chow_liu", "naive_bayes", "tan"])
def test_no_structure_breaks_a_rule(structure: str) -> None:
    assert not broken_rules(hb.impute(hide(make_table()), structure=structure, random_state=0))  # type: ignore[arg-type]


def test_a_saved_model_keeps_the_rules(tmp_path: Path) -> None:
    frame = hide(make_table())
    result = hb.impute(frame, details=True, random_state=0)
    assert result.network is not None
    result.network.save(tmp_path / "model.hbn")
    network = hb.load(tmp_path / "model.hbn")
    pd.testing.assert_frame_equal(hb.impute(frame, network=as_kind(hb.Network, network), random_state=0), result.table)
    assert not broken_rules(
        hb.impute(hide(make_table(seed=5), seed=6), network=as_kind(hb.Network, network), random_state=1)
    )


def test_the_command_tells_the_rules_and_keeps_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    hide(make_table()).to_csv(tmp_path / "in.csv", index=False)
    assert run(["impute", str(tmp_path / "in.csv"), str(tmp_path / "out.csv"), "--chunk", "50"]) == 0
    told = [line for line in capsys.readouterr().err.splitlines() if "treated as" in line]
    assert len(told) == 1
    for rule in ("clock times: leaves", "grade (1, 2, 3, 4)", "price (of 5)", "= 100", "begun <= ended", "--no-rules"):
        assert rule in told[0]
    assert not broken_rules(pd.read_csv(tmp_path / "out.csv"))


def test_the_command_counts_what_is_outside_of_the_observed_range(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=400)
    frame = pd.DataFrame({"x": x, "y": x + 0.1 * rng.normal(size=400)})
    frame["y"] = frame["y"].mask(x > 1)
    frame.to_csv(tmp_path / "in.csv", index=False)
    assert run(["impute", str(tmp_path / "in.csv"), str(tmp_path / "out.csv"), "--chunk", "150"]) == 0
    filled = pd.read_csv(tmp_path / "out.csv")
    outside = int((filled["y"] > frame["y"].max()).sum() + (filled["y"] < frame["y"].min()).sum())
    assert outside
    assert (
        f"{outside} imputed numbers lie outside of the observed range: y ({outside} outside of"
        in capsys.readouterr().err
    )


def test_rules_can_be_forgotten() -> None:
    frame = hide(make_table())
    with pytest.warns(UserWarning, match="rules=False"):
        hb.impute(frame, rounds=0, random_state=0)
    assert "order" in broken_rules(hb.impute(frame, rules=False, donors=False, random_state=0))


def test_bounds_of_the_user_come_first() -> None:
    frame = hide(make_table())
    filled = hb.impute(frame, bounds={"grade": (2, 3), "height": (-5, 12), "leaves": (600, 1830)}, random_state=0)
    holes = frame.isna()
    assert set(filled.loc[holes["grade"], "grade"]) == {2, 3}
    assert filled.loc[holes["height"], "height"].max() <= 12
    leaves = filled.loc[holes["leaves"], "leaves"]
    assert leaves.between(600, 1830).all()
    assert (leaves < 1000).any()
    assert (leaves % 100 < 60).all()


# -- what is found ----------------------------------------------------------------------------------------------------


def find(frame: pd.DataFrame) -> Rules:
    table = hb.Table(frame)
    return find_rules(table, table.names)


@pytest.mark.parametrize("seed", range(4))
def test_rules_are_found_by_name_in_tables_with_and_without_holes(seed: int) -> None:
    for share in (0.0, 0.12, 0.3):
        frame = hide(make_table(400, seed), share, seed)
        rules = find(frame)
        assert rules.clocks == ("leaves",)
        assert {*rules.codes} == {"red", "green", "blue", "grade"}
        assert rules.steps == {"price": 5.0}
        assert {frozenset(one.names) for one in rules.sums} == {
            frozenset({"clay", "silt", "sand"}),
            frozenset({"red", "green", "blue"}),
            frozenset({"north", "south", "both"}),
        }
        assert rules.orders == (("begun", "ended"),)
        assert rules.supports["score"][1] == 40
        assert find(-frame[["score"]]).supports["score"] == (-40, 0)
        assert rules.supports["share"] == (0, 1)


@pytest.mark.parametrize("seed", range(10))
def test_chance_makes_no_rules(seed: int) -> None:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(80, 6)) @ rng.normal(size=(6, 6))
    count = rng.poisson(40, size=80)
    frame = pd.DataFrame(x).add_prefix("x").assign(count=count, one=rng.normal(100, 15, size=80).round())
    rules = find(frame)
    assert not rules.describe()
    assert not any(name.startswith("x") for name in rules.supports)


def test_few_rows_show_nothing() -> None:
    assert not find(make_table(40)).describe()


@pytest.mark.parametrize("strategy", ["draw", "mean"])
def test_equations_hold_together(strategy: str) -> None:
    rng = np.random.default_rng(2)
    born, year = rng.integers(1930, 2005, size=300).astype(float), rng.integers(2010, 2020, size=300).astype(float)
    frame = hide(pd.DataFrame({"born": born, "year": year, "age": year - born, "copy": born}), 0.25)
    filled = hb.impute(frame, strategy=strategy, random_state=0)  # type: ignore[call-overload]
    assert (filled["year"] - filled["born"] == filled["age"]).all()
    assert (filled["born"] == filled["copy"]).all()


def test_chains_of_orders_hold() -> None:
    rng = np.random.default_rng(0)
    first = rng.integers(0, 2000, size=300)
    second = first + rng.integers(0, 20, size=300)
    third = second + rng.integers(0, 50, size=300)
    filled = hb.impute(hide(pd.DataFrame({"c": third, "a": first, "b": second}), 0.3), random_state=0)
    assert (filled["a"] <= filled["b"]).all()
    assert (filled["b"] <= filled["c"]).all()


def test_prices_in_steps_of_fifty_are_no_clock_times() -> None:
    rng = np.random.default_rng(0)
    rules = find(pd.DataFrame({"x": 50.0 * rng.integers(2, 46, size=300), "y": rng.integers(100, 160, size=300)}))
    assert not rules.clocks
    assert rules.steps == {"x": 50.0}


def test_rounded_shares_add_up_too() -> None:
    rng = np.random.default_rng(0)
    shares = (100 * rng.dirichlet([2, 3, 4, 2], size=200)).round(1)
    frame = hide(pd.DataFrame(shares, columns=list("abcd")))
    assert [one.total for one in find(frame).sums] == [100]
    filled = hb.impute(frame, random_state=0)
    observed = abs(pd.DataFrame(shares).sum(axis=1) - 100).max()
    assert (abs(filled.sum(axis=1) - 100) < observed + 1e-6).all()
    assert (filled == filled.round(1)).all().all()


def test_minutes_and_times_are_inverse() -> None:
    minutes = np.arange(1441.0)
    np.testing.assert_array_equal(minutes_of(times_of(minutes)), minutes)


def test_settling_changes_filled_holes_only_and_as_little_as_needed() -> None:
    rules = Rules(sums=(Sum(("t", "a", "b"), (1.0, -1.0, -1.0), 0.0),), supports={"a": (0.0, np.inf)})
    columns = {"t": np.array([5.0, 5.0, 9.0]), "a": np.array([1.0, -3.0, 2.0]), "b": np.array([4.0, 6.0, 3.0])}
    holes = {"a": np.array([False, True, False]), "b": np.array([False, True, True])}
    settled: Any = rules.settle(columns, holes, lambda _, values: values)
    np.testing.assert_allclose(settled["t"], [5, 5, 9])
    np.testing.assert_allclose(settled["a"] + settled["b"], settled["t"])
    assert settled["a"][1] >= 0
    assert settled["a"][2] == 2
    np.testing.assert_allclose([settled["a"][0], settled["b"][0]], [1, 4])


# -- draws stay right -------------------------------------------------------------------------------------------------


def test_limits_do_not_shift_what_is_drawn() -> None:
    rng = np.random.default_rng(0)
    x, noise = rng.normal(size=(2, 4000))
    y = 2.2 + 0.8 * x + 0.7 * noise
    x, y = x[y > 0], y[y > 0]
    hidden = rng.random(len(x)) < 1 / (1 + np.exp(x))
    frame = pd.DataFrame({"x": x, "y": np.where(hidden, np.nan, y)})
    for donors in (True, False):
        filled = hb.impute(frame, donors=donors, random_state=0)
        assert filled["y"].min() > 0
        assert filled["y"].mean() == pytest.approx(y.mean(), abs=0.04)
        assert filled["y"].std() == pytest.approx(y.std(), rel=0.04)
        assert np.polyfit(filled["x"], filled["y"], 1)[0] == pytest.approx(np.polyfit(x, y, 1)[0], abs=0.04)


def test_gaps_between_ordered_numbers_are_like_the_observed_ones() -> None:
    rng = np.random.default_rng(1)
    begun = rng.integers(0, 3000, size=1500).astype(float)
    frame = hide(pd.DataFrame({"begun": begun, "ended": begun + rng.gamma(2, 4, size=1500).round()}), 0.25)
    filled = hb.impute(frame, random_state=0)
    gaps, seen = filled["ended"] - filled["begun"], (frame["ended"] - frame["begun"]).dropna()
    drawn = gaps[frame["begun"].isna() ^ frame["ended"].isna()]
    assert drawn.min() >= 0
    assert drawn.mean() == pytest.approx(seen.mean(), abs=1)
    assert drawn.std() == pytest.approx(seen.std(), rel=0.25)


def test_expected_cells_are_those_of_the_posterior() -> None:
    rng = np.random.default_rng(2)
    group, other = rng.choice(["a", "b", "c"], size=(2, 300))
    x = rng.normal(size=300) + (group == "a")
    frame = pd.DataFrame({"group": group, "other": np.where(rng.random(300) < 0.6, group, other), "x": x})
    frame["y"] = x + (group == "b") + rng.normal(size=300)
    frame = hide(frame, 0.3)
    learned = hb.impute(frame, strategy="mean", rules=False, details=True, random_state=0)
    result = hb.impute(frame, strategy="mean", network=learned.network, details=True, random_state=0)
    pd.testing.assert_frame_equal(result.table, learned.table, check_exact=True)
    cells = result.cells().set_index(["row", "column"])
    for name in ("x", "y"):
        rows = np.flatnonzero(result.imputed[name])
        expected = cells["mean"].reindex([(row, name) for row in rows]).to_numpy()
        np.testing.assert_allclose(result.table[name].to_numpy()[rows], expected, atol=1e-6)
    for name in ("group", "other"):
        rows = np.flatnonzero(result.imputed[name])
        states = cells["state"].reindex([(row, name) for row in rows]).to_numpy()
        assert (result.table[name].to_numpy()[rows] == states).all()


def test_orders_hold_in_cells_that_are_filled():
    """A filled cell yields to an observed one; of two that are filled the lesser one stays."""
    rules = Rules(orders=(("a", "b"), ("b", "c"), ("a", "c")))
    columns = {"a": np.array([5.0, 1.0, 4.0, 1.0]), "b": np.array([2.0, 3.0, 1.0, 2.0])}
    columns["c"] = np.array([9.0, 2.0, 0.0, 3.0])
    holes = {"a": np.array([True, False, True, False]), "b": np.array([False, False, True, False])}
    holes["c"] = np.array([False, True, True, False])
    settled = rules.settle(dict(columns), holes, lambda name, values: values)
    np.testing.assert_array_equal(settled["a"], [2, 1, 4, 1])
    np.testing.assert_array_equal(settled["b"], [2, 3, 4, 2])
    np.testing.assert_array_equal(settled["c"], [9, 3, 4, 3])
    # without one of the columns the other orders hold
    settled = rules.settle({name: columns[name] for name in "ac"}, {name: holes[name] for name in "ac"}, lambda _, v: v)
    np.testing.assert_array_equal(settled["a"], [5, 1, 4, 1])
    np.testing.assert_array_equal(settled["c"], [9, 2, 4, 3])
