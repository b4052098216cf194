"""Weights are frequencies, and the order of rows, columns and classes tells nothing: for every builder."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import pytest
from narrowing import as_discrete

import hybridbn as hb
from hybridbn.fitting.cross_validation import deal_table
from hybridbn.structures.building import BUILDERS, declaration_of
from hybridbn.variables import Continuous, Discrete, Values

ROWS = 60
WEIGHTS = np.random.default_rng(1).integers(1, 4, size=ROWS).astype(float)
ABSENT = np.arange(ROWS) % 6 == 2
ORDER = np.random.default_rng(2).permutation(ROWS)
RENAMED = {"low": "z", "mid": "m", "top": "a"}

EFFORT: dict[str, dict[str, Any]] = {
    "random_forest": {"trees": 20},
    "automatic": {"folds": 2},
    "model_tree": {"trees": 2},
}
"""Options with which a builder takes less time."""


@cache
def frame() -> pd.DataFrame:
    rng = np.random.default_rng(3)
    code = rng.choice(3, p=(0.5, 0.3, 0.2), size=ROWS)
    x = code + rng.normal(size=ROWS)
    kind = np.where(rng.random(ROWS) < 0.7, code > 0, x > 1)
    return pd.DataFrame(
        {
            "c": np.array(list(RENAMED))[code],
            "x": x.round(2),
            "y": (x + 2.0 * kind + rng.normal(size=ROWS)).round(2),
            "d": np.where(kind, "u", "v"),
            "z": rng.gamma(2.0, size=ROWS).round(2),
        }
    )


def predict(
    name: str,
    target: str,
    data: pd.DataFrame,
    weights: Any = None,
    asked: pd.DataFrame | None = None,
    potentials: str = "gaussian",
) -> Values:
    """Return what the network of a builder says of rows: of the target given the others, and of all columns."""
    asked = frame() if asked is None else asked
    function = BUILDERS[name]
    options = EFFORT.get(name, {})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if declaration_of(function).takes_target is False:
            network = function(data, weights=weights, potentials=potentials, **options)
        else:
            network = function(data, target, weights=weights, potentials=potentials, **options)
        posterior = network.posterior(target, asked.drop(columns=target))
    if target == "y":
        return np.stack([posterior.mean(), posterior.std()], axis=1)
    states = RENAMED if "low" in as_discrete(posterior).states else RENAMED.values()
    return np.stack([as_discrete(posterior).probability(state) for state in states], axis=1)


@cache
def expected(name: str, target: str) -> Values:
    return predict(name, target, frame())


def repeat_rows(weights: Values) -> pd.DataFrame:
    return frame().loc[np.repeat(np.arange(ROWS), weights.astype(int))]


def change_everything(name: str, target: str, potentials: str = "gaussian") -> tuple[Values, Values]:
    """Weigh rows, some of them not at all, shuffle them, permute and rename columns, and rename classes."""
    names = {"x": "w", "d": "a", "z": "b"}
    renamed = frame().replace({"c": RENAMED}).rename(columns=names)[["b", "a", "y", "w", "c"]]
    weights = np.where(ABSENT, 0.0, WEIGHTS)
    far = renamed.assign(w=np.where(ABSENT, 50.0 + np.arange(ROWS), renamed["w"]))
    changed = predict(
        name, target, far.loc[ORDER].reset_index(drop=True), weights[ORDER], asked=renamed, potentials=potentials
    )
    return changed, predict(name, target, repeat_rows(weights), potentials=potentials)


def weigh_rows(name: str, target: str) -> tuple[Values, Values]:
    return predict(name, target, frame(), WEIGHTS), predict(name, target, repeat_rows(WEIGHTS))


def leave_out(name: str, target: str) -> tuple[Values, Values]:
    far = frame().assign(x=np.where(ABSENT, 50.0 + np.arange(ROWS), frame()["x"]))
    return predict(name, target, far, 1.0 - ABSENT), predict(name, target, frame()[~ABSENT])


def shuffle_rows(name: str, target: str) -> tuple[Values, Values]:
    return predict(name, target, frame().loc[ORDER].reset_index(drop=True)), expected(name, target)


def permute_columns(name: str, target: str) -> tuple[Values, Values]:
    return predict(name, target, frame()[["z", "d", "y", "x", "c"]]), expected(name, target)


def rename_columns(name: str, target: str) -> tuple[Values, Values]:
    names = {"x": "w", "d": "a", "z": "b"}
    return predict(name, target, frame().rename(columns=names), asked=frame().rename(columns=names)), expected(
        name, target
    )


def rename_classes(name: str, target: str) -> tuple[Values, Values]:
    renamed = frame().replace({"c": RENAMED})
    return predict(name, target, renamed, asked=renamed), expected(name, target)


CHANGES: list[Callable[[str, str], tuple[Values, Values]]] = [
    change_everything,
    weigh_rows,
    leave_out,
    shuffle_rows,
    permute_columns,
    rename_columns,
    rename_classes,
]


def list_cases() -> list[Any]:
    cases = []
    for name in sorted(BUILDERS):
        wanted = declaration_of(BUILDERS[name]).takes_target
        for target, kind in (("c", Discrete), ("y", Continuous)):
            if isinstance(wanted, type) and wanted is not kind:
                continue
            for change in CHANGES:
                # which of the changes tells is asked where it costs nothing
                marks = () if change is change_everything else pytest.mark.slow
                cases.append(pytest.param(name, target, change, id=f"{name}-{target}-{change.__name__}", marks=marks))
    return cases


@pytest.mark.parametrize(("name", "target", "change"), list_cases())
def test_frequencies(name: str, target: str, change: Callable[[str, str], tuple[Values, Values]]) -> None:
    changed, plain = change(name, target)
    np.testing.assert_allclose(changed, plain, rtol=1e-6, atol=1e-7)


FAMILIES = [
    pytest.param(*case.values[:2], family, id=f"{case.values[0]}-{case.values[1]}-{family}")
    for case in list_cases()
    for family in ("auto", "mte", "kernel")
    if case.values[2] is change_everything and (case.values[0] != "logistic" or family == "auto")
]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "target", "family"), FAMILIES)
def test_frequencies_of_other_families(name: str, target: str, family: str) -> None:
    changed, plain = change_everything(name, target, family)
    np.testing.assert_allclose(changed, plain, rtol=1e-6, atol=1e-7)


def test_parts_of_a_weight_are_in_all_folds() -> None:
    table = hb.Table({"c": ["a", "b", "a", "b", "a"], "x": [1.0, 2.0, 1.0, 3.0, 4.0]}, weights=[7, 3.5, 4, 1e-12, 0])
    dealt = deal_table(table, 3, np.random.default_rng(0), table.column("c"))
    shares = np.zeros((len(table), 3))
    np.add.at(shares, (dealt.rows, dealt.parts), dealt.weights)
    # equal rows are one, and each of three folds has the third of what can be divided
    np.testing.assert_allclose(shares.sum(axis=1), [11, 3.5, 0, 1e-12, 0])
    assert sorted(shares[0]) == [3, 4, 4]
    assert sorted(shares[1]) == [1, 1, 1.5]
    told = dealt.average(np.arange(len(dealt.rows), dtype=float))
    assert told[0] == told[2]
    assert np.isnan(told).tolist() == [False, False, False, False, True]


@pytest.mark.parametrize(
    ("target", "options"),
    [
        ("c", {"builder": "naive_bayes", "boost": 2, "calibrated": True, "potentials": "gaussian"}),
        ("c", {"builder": "naive_bayes", "boost": 12, "potentials": "multinomial"}),
        pytest.param("c", {"builder": "auto"}, marks=pytest.mark.slow),
        pytest.param("y", {"builder": "auto"}, marks=pytest.mark.slow),
        ("c", {"builder": "tan", "potentials": "kernel"}),
        ("y", {"builder": "naive_bayes", "potentials": "kernel"}),
    ],
)
def test_estimators(target: str, options: dict[str, Any]) -> None:
    pytest.importorskip("sklearn", reason="the estimators need scikit-learn")
    asked = frame().drop(columns=target)

    def answer(rows: Any, weights: Any = None, columns: Any = asked.columns) -> Values:
        model = (hb.HybridClassifier if target == "c" else hb.HybridRegressor)(**options)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model.fit(asked.loc[rows, columns], frame().loc[rows, target], sample_weight=weights)
            if isinstance(model, hb.HybridClassifier):
                return np.asarray(model.predict_proba(asked[columns]))
            return np.asarray(model.predict_interval(asked[columns]))

    weights = np.where(ABSENT, 0.0, WEIGHTS)
    changed = answer(ORDER, weights[ORDER], asked.columns[::-1])
    plain = answer(np.repeat(np.arange(ROWS), weights.astype(int)))
    np.testing.assert_allclose(changed, plain, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("name", ["hill_climb", "max_min_hill_climb"])
@pytest.mark.parametrize("potentials", ["gaussian", "multinomial"])
def test_structures_of_tables_with_holes(name: str, potentials: str) -> None:
    holes = np.random.default_rng(4).random((ROWS, 5)) < 0.1
    data = frame().mask(holes)
    weights = np.where(ABSENT, 0.0, WEIGHTS)

    def learn(rows: pd.DataFrame, given: Any = None) -> hb.Network:
        return BUILDERS[name](rows, potentials, given, restarts=1, turns=2)

    changed = learn(data.loc[ORDER, ["z", "d", "y", "x", "c"]], weights[ORDER])
    plain = learn(data.loc[np.repeat(np.arange(ROWS), weights.astype(int))])
    assert set(changed.edges) == set(plain.edges)
    np.testing.assert_allclose(changed.log_density(frame()), plain.log_density(frame()), rtol=1e-6)
