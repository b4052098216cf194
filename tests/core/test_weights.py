"""Weights are frequencies in all that takes them, beside the builders: weight 2 is the row twice, weight 0 is no row,
the order of rows tells nothing, and two parts that are put together are the whole.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest

import hybridbn as hb
from hybridbn.fitting import (
    AtomsFitter,
    equal_frequency,
    equal_width,
    find_heavy_points,
    joint_counts,
    mdl,
    pair_counts,
    single_counts,
)
from hybridbn.fitting.counting import NumpyCounter, RowCounter
from hybridbn.learning.ensemble import calibrate_votes
from hybridbn.structures.dependence import Dependence
from hybridbn.structures.scores import BIC, BDeu, BGe, CrossValidation
from hybridbn.structures.training_data import read_data_with_target, read_data_without_target
from hybridbn.variables import Values

ROWS = 70
WEIGHTS = np.random.default_rng(31).integers(0, 4, ROWS)


@cache
def table() -> hb.Table:
    rng = np.random.default_rng(30)
    code, d = rng.integers(0, 3, ROWS), rng.integers(0, 2, ROWS)
    x = code + rng.normal(size=ROWS).round(1)
    columns: dict[str, Any] = {
        "c": np.array(["low", "mid", "top"], dtype=object)[code],
        "d": np.where((d == 1) | (x > 2), "u", "v").astype(object),
        "x": x,
        "y": x + 2.0 * d + rng.normal(size=ROWS),
    }
    for name in ("d", "x", "y"):
        missing = rng.random(ROWS) < 0.12
        columns[name] = np.where(missing, None if name == "d" else np.nan, columns[name])
    return hb.Table(columns)


def flatten(thing: Any) -> Values:
    """Return the numbers of a result."""
    if isinstance(thing, hb.Network):
        return flatten([thing.potential(name).to_dict() for name in sorted(thing)])
    if isinstance(thing, dict):
        return flatten([thing[key] for key in sorted(thing, key=repr)])
    if isinstance(thing, list | tuple):
        return np.concatenate([np.zeros(0), *map(flatten, thing)])
    if isinstance(thing, str) or thing is None:
        return np.zeros(0)
    return np.atleast_1d(np.asarray(thing, dtype=float)).ravel()


# -- what takes weights: from a weighted table to numbers -----------------------------------------------------------


def coded(rows: hb.Table, *names: str) -> list[Any]:
    return [rows.column(name) for name in names]


def count_jointly(rows: hb.Table) -> Any:
    return joint_counts(coded(rows, "c", "d"), [3, 2], rows.weights)


def count_pairs(rows: hb.Table) -> Any:
    singles = single_counts(coded(rows, "d"), [2], rows.column("c"), 3, rows.weights)
    return [pair_counts(coded(rows, "c", "d"), [3, 2], weights=rows.weights), singles]


def list_moments(moments: Any) -> Any:
    return [moments.weights, moments.means, moments.products]


def count_in_memory(rows: hb.Table) -> Any:
    counter = NumpyCounter.of(rows, rows.variables)
    moments = list_moments(counter.moments(("x", "y"), ("c", "d")))
    return [counter.joint(("c", "d")), counter.joint(("d",)), moments]


def count_rows(rows: hb.Table) -> Any:
    counter = RowCounter(rows, rows.variables)
    counts = [counter.joint(("d", "c")), *counter.occurring(("c", "d")), *counter.pairs(("c", "d")).values()]
    return [counts, list_moments(counter.moments(("y",), ("d",)))]


def cut_columns(rows: hb.Table) -> Any:
    seen = ~np.isnan(rows.column("x"))
    x, weights, codes = rows.column("x")[seen], rows.weights[seen], rows.column("c")[seen]
    return [equal_frequency(x, None, weights, bins=4), equal_width(x, None, weights, bins=3), mdl(x, codes, weights)]


def find_points(rows: hb.Table) -> Any:
    return find_heavy_points(np.where(rows.column("c") == 0, 1.5, rows.column("x").round(2)), rows.weights)


def fit_codes(rows: hb.Table) -> Any:
    codes = rows.with_array("x", np.clip(rows.column("x").round(), -2, 2))
    x, c, y = (codes.variable(name) for name in "xcy")
    fitter = AtomsFitter((-2.0, -1.0, 0.0, 1.0, 2.0), grid=True)
    return [fitter.fit(codes, x, given).to_dict()["component"] for given in ((), (c,), (c, y))]


def score_families(score: Any, names: tuple[str, ...]) -> Callable[[hb.Table], Any]:
    def measure(rows: hb.Table) -> Any:
        scores = score.prepare(
            read_data_without_target(rows.select(names), "auto" if names == ("c", "d") else "gaussian", None)
        )
        first, *others = names
        return [scores(first, ()), scores(first, tuple(others)), scores(others[0], (first,))]

    return measure


def measure_dependence(rows: hb.Table) -> Any:
    dependence = Dependence(read_data_with_target(rows, "c", "gaussian", None))
    return [dependence.measure_with_target(), dependence.measure_pairs()]


def learn_by_em(rows: hb.Table) -> Any:
    learned = hb.expectation_maximization([("c", "x"), ("x", "y"), ("c", "d")], rows, "gaussian", max_iterations=5)
    return [learned.network, learned.history]


def fit(rows: hb.Table) -> Any:
    return hb.fit([("c", "x"), ("x", "y"), ("c", "d")], rows, {"x": "mte", "y": "gaussian_mixture"})


def fit_kernels(rows: hb.Table) -> Any:
    network = hb.fit([("c", "x"), ("x", "y")], rows, "kernel")
    return network.log_density(table().select(["c", "x", "y"]))


def boost(rows: hb.Table) -> Any:
    boosted = hb.boost(rows, "c", "naive_bayes", rounds=3, potentials="gaussian", max_restarts=0)
    return [boosted.votes, *boosted.networks]


def calibrate(rows: hb.Table) -> Any:
    boosted = hb.boost(table(), "c", "naive_bayes", rounds=2, potentials="gaussian", max_restarts=0)
    scores: Any = -0.3 * (rows.column("x")[:, None] - np.arange(3)) ** 2
    return calibrate_votes(boosted, scores, rows.column("c"), rows.weights).votes


def augment(rows: hb.Table) -> Any:
    return hb.augment(
        rows.select(["c", "x", "y"]), "y", "naive_bayes", potentials="gaussian", max_iterations=2, random_state=0
    ).network


def compare(rows: hb.Table) -> Any:
    plain = table()
    one, other = (hb.fit(arcs, plain, "gaussian") for arcs in ([("c", "x")], [("c", "x"), ("x", "y"), ("c", "d")]))
    compared = hb.compare(one, other, rows)
    return [value for value in vars(compared).values() if isinstance(value, float | int | np.ndarray)]


WEIGHED: dict[str, Callable[[hb.Table], Any]] = {
    "joint counts": count_jointly,
    "counts of pairs": count_pairs,
    "counter in memory": count_in_memory,
    "counter of rows": count_rows,
    "cuts": cut_columns,
    "heavy points": find_points,
    "tables of codes": fit_codes,
    "BIC": score_families(BIC(), ("c", "d", "x", "y")),
    "BDeu": score_families(BDeu(), ("c", "d")),
    "BGe": score_families(BGe(), ("x", "y")),
    "cross-validation": score_families(CrossValidation(), ("x", "y", "c")),
    "dependence": measure_dependence,
    "EM": learn_by_em,
    "fit": fit,
    "kernels": fit_kernels,
    "boost": boost,
    "calibrated votes": calibrate,
    "augment": augment,
    "comparison": compare,
}


def assert_same(one: Any, other: Any) -> None:
    np.testing.assert_allclose(flatten(one), flatten(other), rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] if name == "augment" else []) for name in WEIGHED]
)
def test_weights_are_frequencies(name: str) -> None:
    """Weighted rows, each row as often as its weight says, and those with a weight alone, in another order."""
    measure, rows = WEIGHED[name], table()
    present = np.flatnonzero(WEIGHTS)
    order = np.random.default_rng(32).permutation(present)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        weighted = measure(rows.with_weights(WEIGHTS.astype(float)))
        assert flatten(weighted).size
        # a row that is absent may hold anything
        far = rows.column("x").copy()
        far[WEIGHTS == 0] = 99.5
        assert_same(measure(rows.with_array("x", far).with_weights(WEIGHTS.astype(float))), weighted)
        if name != "augment":  # which draws numbers for each row
            assert_same(measure(rows.take(np.repeat(np.arange(ROWS), WEIGHTS))), weighted)
            assert_same(measure(rows.take(order).with_weights(WEIGHTS[order].astype(float))), weighted)
        plain = flatten(measure(rows))
    # weights tell something at all
    assert name == "heavy points" or plain.shape != flatten(weighted).shape or not np.allclose(plain, flatten(weighted))


def test_counts_of_parts_add_up() -> None:
    rows = table().with_weights(WEIGHTS + 0.5)
    for measure in (count_jointly, count_pairs):
        parts = [flatten(measure(part)) for part in (rows[:20], rows[20:21], rows[21:])]
        np.testing.assert_allclose(sum(parts), flatten(measure(rows)))


def test_scans_with_a_column_of_weights_are_weighted_tables() -> None:
    frame = table().to_pandas().assign(w=WEIGHTS.astype(float))
    scan = hb.scan(frame, weights="w")
    weighted = hb.Table(frame.drop(columns="w"), variables=[scan.variable(name) for name in "cdxy"], weights=WEIGHTS)
    for given in (("c",), ("c", "d")):
        one, other = (RowCounter(rows, rows.variables).moments(("x", "y"), given) for rows in (scan, weighted))
        assert_same([one.weights, one.means, one.products], [other.weights, other.means, other.products])
    assert_same(
        RowCounter(scan, scan.variables).joint(("d", "c")), RowCounter(weighted, weighted.variables).joint(("d", "c"))
    )
    assert scan.total_weight == weighted.total_weight == WEIGHTS.sum()


def test_bootstraps_draw_as_many_rows_as_the_weights_say() -> None:
    drawn: list[hb.Table] = []

    def note(rows: hb.Table, target: str, potentials: Any = "auto", weights: Any = None) -> hb.Network:
        drawn.append(rows)
        return hb.fit([], rows, "gaussian")

    weights = np.where(np.arange(ROWS) < 10, 6.0, WEIGHTS)
    hb.bootstrap(note, table().select(["c", "d"]), 12, target="c", weights=weights)
    for rows in drawn[-12:]:
        assert rows.weights.sum() == weights.sum() != ROWS
        # each of them is drawn by itself
        np.testing.assert_array_equal(rows.weights, rows.weights.round())
    hb.bootstrap(note, table().select(["c", "d"]), 3, target="c", weights=weights / 4)
    assert [rows.weights.sum() for rows in drawn[-3:]] == pytest.approx([weights.sum() / 4] * 3)
