"""What numbers are is kept by every builder: no answer lies off the grid of a column, or beyond its ends."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
import pytest
from narrowing import as_continuous, known

import hybridbn as hb
from hybridbn.structures.building import BUILDERS, declaration_of

ROWS = 120
REGRESSIONS = {"regression", "model_tree"}
WHOLE = {"likert", "children", "visits", "year", "percent", "smoker"}
CODES = {"likert": range(1, 6), "children": range(7), "year": range(2019, 2025), "smoker": (0, 1)}


@functools.cache
def make_frame() -> pd.DataFrame:
    rng = np.random.default_rng(5)
    group = rng.integers(0, 2, ROWS)
    level = rng.normal(size=ROWS) + group
    frame = pd.DataFrame(
        {
            "group": np.array(["low", "high"])[group],
            "likert": np.clip(np.rint(3 + level), 1, 5),
            "children": rng.poisson(1 + group).clip(0, 6),
            "visits": rng.negative_binomial(1, 0.08, ROWS),
            "year": rng.integers(2019, 2025, ROWS),
            "percent": np.rint(100 / (1 + np.exp(-2 * level))),
            "smoker": (rng.random(ROWS) < 0.2 + 0.3 * group).astype(int),
            "fee": np.where(rng.random(ROWS) < 0.4, 0.0, rng.gamma(2, 20, ROWS).round(2)),
            "price": np.rint(rng.lognormal(2, 0.5, ROWS) * 4) / 4,
            "born": pd.Timestamp("1980-01-01") + pd.to_timedelta(rng.integers(0, 9000, ROWS), unit="D"),
            "height": 170 + 8 * level + rng.normal(0, 5, ROWS),
        }
    )
    frame.loc[[0, *CODES["children"]], "children"] = [0, *CODES["children"]]
    return frame


@functools.cache
def build(name: str, family: str) -> hb.Network:
    build = BUILDERS[name]
    target = {"target": "price" if name in REGRESSIONS else "group"} if declaration_of(build).takes_target else {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        built = build(make_frame(), potentials=family, **target)
    network = getattr(built, "network", built)
    assert isinstance(network, hb.Network)
    return network


def find_strays(name: str, values: Any) -> list[Any]:
    """Return those values of a column that it can't have."""
    observed = make_frame()[name]
    if name == "born":
        days = np.asarray(values, dtype="M8[ns]")
        return days[days != days.astype("M8[D]")].tolist()
    numbers = np.asarray(values, dtype=float).ravel()
    strays = np.zeros(len(numbers), dtype=bool)
    if name in CODES:
        strays |= ~np.isin(numbers, list(CODES[name]))
    if name in WHOLE:
        strays |= numbers % 1 != 0
    if name == "price":
        strays |= numbers % 0.25 != 0
    if name == "fee":
        strays |= np.round(numbers, 2) != numbers
    low = 0 if observed.min() >= 0 else -np.inf
    strays |= (numbers < low) | (numbers > (100 if name == "percent" else np.inf))
    return numbers[strays].tolist()


ANSWERS: Mapping[str, Any] = {
    "quantiles": lambda posterior: posterior.quantile([0.001, 0.1, 0.5, 0.9, 0.999]),
    "intervals": lambda posterior: posterior.interval(0.9),
    "medians": lambda posterior: posterior.median(),
    "draws": lambda posterior: posterior.sample(20, random_state=1),
}


SLOW = {"class_clusters", "kdb", "max_min_hill_climb", "tan"}
"""Builders whose networks are like those of `mixture`, `naive_bayes` and `hill_climb`, and dearer to make or to ask."""


@pytest.mark.parametrize("family", ["auto", pytest.param("gaussian", marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] * (name in SLOW)) for name in sorted(BUILDERS)]
)
def test_answers_are_numbers_of_the_column(name: str, family: str) -> None:
    network, frame = build(name, family), make_frame()
    numbers = [column for column in frame if column != "group" and column in network]
    strays: dict[tuple[str, str], list[Any]] = {}
    # what a forest says of its attributes takes more than anybody has
    for column in numbers if name != "random_forest" else ():
        for case in ({}, {"group": "low"} if "group" in network else {"year": 2020}):
            if column in case:
                continue
            posterior = network.posterior(column, case)
            found = {what: find_strays(column, ask(posterior)) for what, ask in ANSWERS.items()}
            strays |= {(column, what): values for what, values in found.items() if values}
    drawn = network.sample(50, random_state=2)
    sampled = {(column, "sample"): find_strays(column, drawn[column]) for column in numbers}
    strays |= {what: values for what, values in sampled.items() if values}
    assert strays == {}


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("class_clusters", marks=pytest.mark.slow),
        *sorted(set(BUILDERS) - {"class_clusters", "logistic", "random_forest", *REGRESSIONS}),
    ],
)
def test_codes_are_learned_as_probabilities(name: str) -> None:
    network = build(name, "auto")
    for column, codes in CODES.items():
        if column in network:
            posterior = network.posterior(column)
            shares = [posterior.probability(code) for code in codes]
            assert sum(shares) == pytest.approx(1, abs=0.03)
            observed = make_frame()[column].value_counts(normalize=True).reindex(codes, fill_value=0).to_numpy()
            assert np.abs(shares - observed).max() < 0.12


def test_grids_are_known_to_the_network() -> None:
    grids = {name: known(as_continuous(build("tan", "auto").variable(name)).grid) for name in ("visits", "price")}
    assert (grids["visits"].step, grids["visits"].low, grids["price"].step) == (1, 0, 0.25)
