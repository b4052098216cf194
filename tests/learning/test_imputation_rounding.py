"""Imputed numbers look like those of their column, and a learned network knows so when it is used again."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from narrowing import known

import hybridbn as hb
from hybridbn.commands.table_input import TableRequest, open_input, read_profile
from hybridbn.commands.terminal import Terminal
from hybridbn.tables.scales import decimals_of, usual_decimals
from hybridbn.variables import Grid

pytestmark = pytest.mark.filterwarnings("ignore:.* rows have no observed cell")


def test_numbers_have_as_many_decimals_as_those_of_their_column() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(10, 3, size=200)
    frame = pd.DataFrame(
        {"one": x.round(1), "three": (x + rng.normal(size=200)).round(3), "all": x + rng.normal(size=200)}
    ).mask(rng.random((200, 3)) < 0.3)
    frame["few"] = [1.5] * 5 + [2.5] * 14 + [np.nan] * 181

    def whole(filled: pd.DataFrame, name: str, decimals: int) -> bool:
        return bool((filled[name] == filled[name].round(decimals)).all())

    for filled in hb.impute(frame, draws=2, donors=False, random_state=0):
        assert whole(filled, "one", 1)
        assert whole(filled, "three", 3)
        assert not whole(filled, "all", 6)
        assert not whole(filled, "few", 6)
        assert filled["one"].max() > frame["one"].max() or filled["one"].nunique() > frame["one"].nunique()
    exact = hb.impute(frame, full_precision=True, donors=False, random_state=0)
    rounded = hb.impute(frame, donors=False, random_state=0)
    assert not whole(exact, "one", 6)
    np.testing.assert_array_equal(exact["one"].round(1), rounded["one"])
    np.testing.assert_array_equal(exact["all"], rounded["all"])


@pytest.mark.parametrize(("low", "high"), [(0.05, 2.0), (0.0, 0.31), (0.11, 0.19)])
def test_bounds_hold_for_rounded_numbers(low: float, high: float) -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"x": rng.uniform(0, high + 0.3, size=2000).round(1)}).mask(rng.random((2000, 1)) < 0.5)
    filled = hb.impute(frame.assign(y=rng.normal(size=2000)), bounds={"x": (low, high)}, donors=False, random_state=0)
    drawn = filled.loc[frame["x"].isna(), "x"]
    assert drawn.between(low, high).all()
    # where there is no such number between the bounds, they come first
    if high > 0.2:
        assert set(drawn) == set((np.arange(np.ceil(low * 10), np.floor(high * 10) + 1) / 10).round(1))
    assert not np.signbit(drawn).any()


def test_a_learned_network_brings_along_what_it_was_learned_with() -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"x": rng.exponential(size=200), "y": rng.normal(size=200).round(1), "one": "a"})
    frame["x"] += frame["y"] ** 2
    frame = frame.mask(rng.random(frame.shape) < 0.2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = hb.impute(frame, bounds={"x": (0, None)}, details=True, random_state=1)
        again = hb.impute(frame, network=found.network, random_state=1)
    pd.testing.assert_frame_equal(again, found.table)
    with pytest.raises(hb.TableError, match="bounds of its own"):
        hb.impute(frame, network=found.network, bounds={"x": (0, 1)})
    with pytest.raises(hb.TableError, match="has the columns"):
        hb.impute(frame[["x"]], network=found.network)
    changed = known(found.network).copy()
    changed.remove_node("y")
    with pytest.raises(hb.NetworkError, match=r"del network\.graph\['imputation'\]"):
        hb.impute(frame, network=changed)


@pytest.mark.parametrize("decimals", range(7))
def test_decimals_are_found_at_any_size_that_floats_tell_apart(decimals: int) -> None:
    rng = np.random.default_rng(decimals)
    for size in 10.0 ** np.arange(-3, 12 - decimals):
        values = np.round(rng.normal(size=200) * size, decimals)
        values[0] = round(7 * 10.0**-decimals + 10.0**-decimals, decimals)
        assert decimals_of(values) in (decimals, 0 if not values.any() else decimals)
    for size in 10.0 ** np.arange(-3, 16):
        full = rng.normal(size=200) * size
        assert decimals_of(full) is None


def test_ends_of_bounds_lie_on_the_grid_and_within() -> None:
    rng = np.random.default_rng(0)
    for low, width, decimals in zip(
        rng.normal(size=200) * 10, rng.exponential(size=200), rng.integers(7, size=200), strict=True
    ):
        for first, last in ((low, low + width), (round(low, decimals), round(low + width, decimals))):
            ends = Grid(10.0 ** -int(decimals), first, last).ends
            if ends[0] <= ends[1]:
                assert first <= ends[0] <= ends[1] <= last
                assert [round(end, int(decimals)) for end in ends] == list(ends)


@pytest.mark.parametrize("step", [0.1, 0.25, 2.0, 5.0, 20.0])
def test_numbers_of_a_grid_are_the_nearest_multiples_between_its_ends(step: float) -> None:
    rng = np.random.default_rng(0)
    numbers = rng.uniform(-3, 13, size=500) * step
    rounded = Grid(step, -0.6 * step, 9.4 * step).round(numbers)
    assert set(np.rint(rounded / step)) == set(range(10))
    inside = (numbers > -0.5 * step) & (numbers < 9.5 * step)
    assert (np.abs(rounded - numbers)[inside] <= 0.5001 * step).all()


def test_the_command_knows_whether_all_numbers_are_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hybridbn.tables.formats.delimited._BLOCK", 64)
    rows = ["1.0,1,1,1"] * 40
    path = tmp_path / "t.csv"
    path.write_text("\n".join(["points,all,few,most", *rows, "2.0,2,2.5,2.0", *rows, ""]))
    request = TableRequest(str(path))
    with open_input(request) as (location, source):
        columns = read_profile(source, location.shown, request, Terminal(quiet=True)).columns
    assert [name for name, column in columns.items() if column.integer] == ["all"]
    assert [name for name, column in columns.items() if column.whole] == ["points", "all", "most"]


@pytest.mark.parametrize("usual", range(5))
def test_a_few_numbers_with_more_decimals_do_not_count(usual: int) -> None:
    rng = np.random.default_rng(usual)
    x = (rng.normal(40, 12, size=400)).round(usual)
    x[rng.random(400) < 0.02] += 1 / 3
    x[rng.random(400) < 0.25] = np.nan
    frame = pd.DataFrame({"x": x, "y": rng.normal(size=400)})
    drawn = hb.impute(frame, donors=False, random_state=0)["x"][np.isnan(x)]
    assert (drawn == drawn.round(usual)).all()
    assert usual == 0 or (drawn != drawn.round(usual - 1)).any()


def test_a_spike_does_not_tell_the_decimals_of_other_numbers() -> None:
    rng = np.random.default_rng(0)
    paid = np.where(rng.random(600) < 0.97, 0.0, rng.exponential(20, size=600).round(2))
    assert usual_decimals(paid) == 2


def test_estimates_do_not_suffer_from_rounding() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=4000)
    frame = pd.DataFrame({"x": x, "y": (x + rng.normal(size=4000)).round(1)})
    hidden = rng.random(4000) < 1 / (1 + np.exp(-x))
    filled = hb.impute(frame.assign(y=frame["y"].mask(hidden)), random_state=0)
    assert filled["y"].std() == pytest.approx(frame["y"].std(), rel=0.03)
    assert np.polyfit(filled["x"], filled["y"], 1)[0] == pytest.approx(1, abs=0.05)


def test_floats_of_half_the_size_are_rounded_too() -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"x": rng.normal(size=200).round(1), "y": rng.normal(size=200)}).astype(np.float32)
    filled = hb.impute(frame.mask(rng.random((200, 2)) < 0.2), random_state=0)
    assert (filled.dtypes == np.float32).all()
    assert (filled["x"] == filled["x"].astype(float).round(1).astype(np.float32)).all()
    # not numbers that have no more decimals than such floats can hold
    assert decimals_of(1e4 * frame["y"].to_numpy(dtype=np.float64)) is None
    assert decimals_of((1e4 * frame["y"]).to_numpy(dtype=np.float64)) is None
    assert decimals_of(np.array([1e39, 2e39, 1 / 3])) is None


def test_rounding_keeps_frequent_numbers() -> None:
    assert usual_decimals(np.array([0.5] * 143 + [1.0])) == 1
    assert usual_decimals(np.array([1 / 3] * 143 + [1.0])) is None
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"x": rng.normal(size=100), "half": [0.5] * 60 + [np.nan] * 39 + [1.0]})
    assert set(hb.impute(frame, random_state=0)["half"]) <= {0.5, 1.0}
