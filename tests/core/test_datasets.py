"""The tables that come with the package: small, whole, with holes where they are said to be, licensed and installed."""

from __future__ import annotations

import inspect
import os
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import hybridbn as hb
from hybridbn import datasets

ROOT = Path(__file__).resolve().parents[2]
SUMMARY = {
    name: (int(rows), int(columns), int(holes.replace("none", "0")))
    for name, rows, columns, holes in re.findall(r"`(load_\w+)` +(\d+) +(\d+) +(\w+)", str(datasets.__doc__))
}


def test_the_list_names_them_all() -> None:
    assert sorted(SUMMARY) == sorted(datasets.__all__)
    assert len(SUMMARY) <= 6
    assert {path.stem for path in Path(str(datasets.__file__)).parent.glob("*.csv")} == {
        name.removeprefix("load_") for name in SUMMARY
    }


@pytest.mark.parametrize("name", sorted(SUMMARY))
def test_each_is_as_described(name: str) -> None:
    function = getattr(datasets, name)
    frame = function()
    assert isinstance(frame, pd.DataFrame)
    assert (*frame.shape, int(frame.isna().sum().sum())) == SUMMARY[name]
    documented = inspect.getdoc(function) or ""
    assert "License:" in documented
    assert len(hb.Table(frame)) == len(frame)  # taken as it is wherever data are
    frame.iloc[0, 0] = frame.iloc[1, 0]
    del frame[frame.columns[0]]  # what a user does to a frame is the user's own
    assert function().shape == SUMMARY[name][:2]


def test_the_example_file_is_the_same_one() -> None:
    assert os.path.samefile(ROOT / "examples" / "data" / "heart.csv", Path(str(datasets.__file__)).parent / "heart.csv")


def test_dates_are_dates_and_counts_are_integers() -> None:
    assert datasets.load_economy()["quarter"].dtype.kind == "M"
    assert str(datasets.load_heart()["cholesterol"].dtype) == "Int64"


def test_the_market_is_what_its_formula_says() -> None:
    market = datasets.load_market()
    yes = (market["subsidy"] == "yes").to_numpy()
    error = market["price"] + market["crop"] - np.where(yes, 12.0, 16.0)
    assert abs(yes.mean() - 0.3) < 4 * np.sqrt(0.21 / 500)
    assert abs(error.mean()) < 4 / np.sqrt(500)
    assert 0.85 < error.std() < 1.15
    bought = (market["buy"] == "yes").to_numpy()
    expected = 1 / (1 + np.exp(market["price"].to_numpy() - 9))
    assert abs((bought - expected).sum()) < 4 * np.sqrt((expected * (1 - expected)).sum())
