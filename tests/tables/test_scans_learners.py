"""Learners that take a pass over the rows for each of their steps: trees, mixtures, clusters, ensembles."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_scans import make_data, names_of, same, write

import hybridbn as hb
from hybridbn.fitting.cross_validation import deal_numbered_rows
from hybridbn.learning import sample_weights, weak_learners
from hybridbn.structures import class_clusters, mixture, nb_tree
from hybridbn.structures.column_splits import GainRatio, Utility
from hybridbn.tables.backends import sources
from hybridbn.tables.backends.workers import open_pool

pytest.importorskip("pyarrow")


@pytest.fixture(autouse=True)
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Read the rows in many batches."""
    monkeypatch.setattr(sources.FileFragment.batches, "__defaults__", (61,))


def make_parity(rows: int, seed: int, holes: float = 0.1) -> dict[str, Any]:
    """States whose class is found by tests only."""
    data = names_of(make_data(rows, seed, holes=0.0), "y", "a", "k", "t")
    rng = np.random.default_rng(seed)
    data["b"] = [f"b{number}" for number in rng.integers(2, size=rows)]
    odd = [int(a[-1]) % 2 ^ int(b[-1]) for a, b in zip(data["a"], data["b"], strict=True)]
    data["y"] = [("p", "q")[number] if rng.random() < 0.9 else "r" for number in odd]
    for name in ("a", "k", "b", "y"):
        drawn = rng.random(rows) < holes
        data[name] = [None if hole else value for hole, value in zip(drawn, data[name], strict=True)]
    return data


OPTIONS: list[dict[str, Any]] = [
    {},
    {"max_depth": 2, "least": 10.0},
    {"criterion": Utility(), "binary": True, "least": 60.0},
    {"criterion": GainRatio(), "least": 40.0},
]


@pytest.mark.slow
@settings(max_examples=30, deadline=None)
@given(
    seed=st.integers(0, 99),
    batch=st.integers(9, 500),
    groups=st.integers(5, 300),
    options=st.sampled_from(OPTIONS),
    weighted=st.booleans(),
)
def test_trees_do_not_depend_on_batches(
    seed: int,
    batch: int,
    groups: int,
    options: dict[str, Any],
    weighted: bool,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    data = make_parity(700, seed, 0.2)
    weights = np.random.default_rng(seed).integers(0, 3, 700).astype(float) if weighted else None
    known = nb_tree(hb.Table(data, discrete=["k"], weights=weights), "y", **options)
    if weights is not None:
        data["w"] = weights.tolist()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sources.FileFragment.batches, "__defaults__", (batch,))
        pattern = write(tmp_path_factory.mktemp("scan"), data, (0.43,), groups)
        scan = hb.scan(pattern, discrete=["k"], weights="w" if weighted else None)
        assert same(nb_tree(scan, "y", **options), known)


def make_corners(rows: int, seed: int) -> dict[str, Any]:
    """Two clusters in each class."""
    rng = np.random.default_rng(seed)
    corner = rng.integers(4, size=rows)
    columns: dict[str, Any] = {
        "x": (6 * (corner % 2) + rng.normal(size=rows)).tolist(),
        "z": (6 * (corner // 2) + rng.normal(size=rows)).tolist(),
        "c": [("u", "v")[int(number)] for number in rng.random(rows) < 0.2 + 0.2 * corner],
        "odd": [("no", "yes")[int(number in (1, 2))] for number in corner],
    }
    for name, column in columns.items():
        column[int(rng.integers(rows))] = None
        assert None in columns[name]
    return columns


@pytest.mark.parametrize(
    "options",
    [pytest.param({"covariance": "full"}, marks=pytest.mark.slow), {"components": 4, "covariance": "diagonal"}],
)
def test_a_step_of_a_mixture_is_a_pass(options: dict[str, Any], tmp_path: Path) -> None:
    data = make_corners(1800, 1)
    scan, table = hb.scan(write(tmp_path, data), sample=1600), hb.Table(data)
    learned, known = (mixture(one, most=5, **options) for one in (scan, table))
    # the ranges, the spreads, a sample, and at least two steps
    assert scan.passes.made >= 5
    np.testing.assert_allclose(learned.log_density(table), known.log_density(table), atol=1e-3)


@pytest.mark.parametrize(
    "options",
    [
        {"clusters": {"no": 2, "yes": 1}, "guard": False},
        {"clusters": 2, "assignment": "hard", "guard": False},
        pytest.param({"build": "tan"}, marks=pytest.mark.slow),
    ],
)
def test_clusters_of_classes_are_those_from_memory(options: dict[str, Any], tmp_path: Path) -> None:
    data = make_corners(900, 2)
    scan, table = hb.scan(write(tmp_path, data)), hb.Table(data)
    learned, known = (class_clusters(one, "odd", "gaussian", **options) for one in (scan, table))
    assert learned.variable("odd cluster") == known.variable("odd cluster")
    np.testing.assert_allclose(learned.log_density(table), known.log_density(table), atol=1e-9)


@pytest.mark.slow
def test_clusters_of_a_number_are_those_from_memory(tmp_path: Path) -> None:
    data = make_corners(900, 3)
    scan, table = hb.scan(write(tmp_path, data)), hb.Table(data)
    learned, known = (class_clusters(one, "x", "gaussian", clusters=2, guard=False) for one in (scan, table))
    np.testing.assert_allclose(learned.log_density(table), known.log_density(table), atol=1e-3)


@pytest.mark.slow
def test_processes_take_all_of_these_passes(tmp_path: Path) -> None:
    data = make_corners(600, 8)
    pattern, table = write(tmp_path, data), hb.Table(data)
    with open_pool(2) as pool:
        for build, tolerance in (
            (partial(class_clusters, target="odd", potentials="gaussian", clusters=2, guard=False), 1e-3),
            (partial(mixture, components=3), 1e-3),
            (partial(nb_tree, target="x", potentials="gaussian", max_depth=1), 1e-9),
        ):
            learned, known = build(data=hb.scan(pattern, backend=pool)), build(data=table)
            np.testing.assert_allclose(learned.log_density(table), known.log_density(table), atol=tolerance)
        shared = hb.augment(hb.scan(pattern, backend=pool), "x", potentials="gaussian", random_state=0)
        alone = hb.augment(hb.scan(pattern), "x", potentials="gaussian", random_state=0)
        np.testing.assert_allclose(shared.history.srmse, alone.history.srmse, rtol=1e-9)


@pytest.mark.parametrize(
    ("target", "response"), [("y", "expectation"), pytest.param("x", "simulation", marks=pytest.mark.slow)]
)
def test_augmentation_completes_rows_while_they_are_read(
    target: str, response: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = names_of(make_data(500, 7, holes=0.2), "y", "a", "t", *([] if target == "y" else ["x", "z"]))
    data["y"][3] = None
    options: dict[str, Any] = {"potentials": "gaussian", "response": response, "random_state": 1}
    pattern = write(tmp_path, data)
    learned = hb.augment(hb.scan(pattern), target, **options)
    monkeypatch.setattr(sources.FileFragment.batches, "__defaults__", (170,))
    with ThreadPoolExecutor(2) as pool:
        other = hb.augment(hb.scan(pattern, backend=pool), target, **options)
    np.testing.assert_allclose(other.history.srmse, learned.history.srmse, rtol=1e-9)
    assert same(other.network, learned.network)
    known = hb.augment(hb.Table(data), target, **options)
    assert learned.history[learned.history.best].srmse == pytest.approx(
        known.history[known.history.best].srmse, rel=0.1
    )
    assert not any(learned.completed.missing.values())
    learned.completed.write(tmp_path / "out.parquet")
    completed = hb.read_table(tmp_path / "out.parquet")
    for name, values in data.items():
        observed = [row for row, value in enumerate(values) if value is not None]
        cells = completed.to_dict()[name]
        assert [cells[row] for row in observed] == [values[row] for row in observed]


def test_filled_integers_are_floats(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=400)
    data: dict[str, Any] = {"y": x.tolist(), "n": [int(v) for v in 9 * x + 40], "k": [int(v) for v in 5 * x]}
    data["n"][7:300:9] = [None] * len(data["n"][7:300:9])
    scan = hb.scan(write(tmp_path, data))
    completed = hb.augment(scan, "y", potentials="gaussian", random_state=0).completed
    rows = [row for batch in completed.batches() for row in batch.to_pylist()]
    assert [type(row["k"]) for row in rows] == [int] * 400
    filled = [row["n"] for row, value in zip(rows, data["n"], strict=True) if value is None]
    assert all(isinstance(row["n"], float) for row in rows)
    assert any(value != int(value) for value in filled)
    assert [row["n"] for row, value in zip(rows, data["n"], strict=True) if value is not None] == [
        value for value in data["n"] if value is not None
    ]


def test_a_level_of_a_tree_takes_a_pass_for_counts_and_two_for_utility(tmp_path: Path) -> None:
    data = make_parity(600, 2, 0.0)
    passes = []
    for options in ({"max_depth": 1}, {"max_depth": 1, "criterion": Utility()}):
        scan = hb.scan(write(tmp_path, data), discrete=["k"], sample=300)
        nb_tree(scan, "y", **options)
        # one finds the states, one takes the sample
        passes.append(scan.passes.made - 2)
    assert passes == [2, 4]


def test_rows_without_weight_have_no_say_in_any_batch(tmp_path: Path) -> None:
    data = names_of(make_data(300, 5), "y", "a", "t")
    weights = np.ones(300)
    weights[40:200] = 0
    scan = hb.scan(write(tmp_path, data | {"w": weights.tolist()}), weights="w")
    arcs = [("y", "a"), ("a", "t")]
    known = hb.expectation_maximization(arcs, hb.Table(data, weights=weights))
    np.testing.assert_allclose(hb.expectation_maximization(arcs, scan).history, known.history, rtol=1e-9)


@given(start=st.integers(0, 50), stop=st.integers(51, 400))
def test_folds_depend_on_the_rows_numbers_alone(start: int, stop: int) -> None:
    for folds in (2, 5, 25):
        dealt = deal_numbered_rows(0, 400, folds, seed=1)
        np.testing.assert_array_equal(deal_numbered_rows(start, stop - start, folds, seed=1), dealt[start:stop])
        assert np.bincount(dealt).tolist() == [400 // folds] * folds


def make_votes(rows: int, seed: int) -> dict[str, Any]:
    """Two classes, some of them unknown, that states and a number tell."""
    data = names_of(make_data(rows, seed), "y", "a", "k", "x")
    data["y"] = [None if place % 50 == 7 else ("p", "q")[y != "no"] for place, y in enumerate(data["y"])]
    return data


def same_votes(learned: hb.Ensemble, known: hb.Ensemble, table: hb.Table) -> None:
    assert learned.restarts == known.restarts
    np.testing.assert_allclose(learned.votes, known.votes, rtol=1e-9)
    np.testing.assert_allclose(np.asarray(learned.errors), np.asarray(known.errors), rtol=1e-9, atol=1e-12)
    for mine, yours in zip(learned.networks, known.networks, strict=True):
        np.testing.assert_allclose(mine.log_density(table), yours.log_density(table), rtol=1e-9, atol=1e-9)


VOTING: dict[str, dict[str, Any]] = {
    "counted": {"rounds": 8},
    "real": {"rounds": 4, "algorithm": "real"},
    "real, normal": {"rounds": 2, "algorithm": "real", "potentials": "gaussian"},
    "trees": {"rounds": 2, "build": partial(nb_tree, max_depth=1)},
    "cut anew": {"rounds": 2, "refit_cuts": True},
}


@pytest.mark.parametrize("floor", [1e-8, 0.3])
def test_weights_are_computed_anew_where_none_are_noted(
    floor: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = make_votes(300, 4)
    table, pattern = hb.Table(data, discrete=["k"]), write(tmp_path, data)
    for module in (sample_weights, weak_learners):
        monkeypatch.setattr(module, "FLOOR", floor)
    for options in (VOTING["counted"], {"rounds": 2, "algorithm": "real"}):
        known = hb.boost(table, "y", **options)
        with monkeypatch.context() as patch:
            patch.setattr(sample_weights.SampleWeights, "recall", lambda *_: None)
            same_votes(hb.boost(hb.scan(pattern, discrete=["k"]), "y", **options), known, table)


def test_a_round_of_counts_is_a_pass(tmp_path: Path) -> None:
    made = []
    for rounds in (1, 3):
        scan = hb.scan(write(tmp_path, names_of(make_data(400, 5), "y", "a", "t")))
        assert hb.boost(scan, "y", rounds=rounds).restarts == 0
        made.append(scan.passes.made)
    # one finds the states, and one counts without errors
    assert made == [3, 5]


@pytest.mark.slow
@settings(max_examples=15, deadline=None)
@given(
    seed=st.integers(0, 99),
    batch=st.integers(40, 500),
    groups=st.integers(30, 300),
    options=st.sampled_from([options for name, options in VOTING.items() if name != "trees"]),
    floor=st.sampled_from([1e-8, 0.3]),
)
def test_ensembles_do_not_depend_on_batches(
    seed: int,
    batch: int,
    groups: int,
    options: dict[str, Any],
    floor: float,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    data = make_votes(500, seed)
    with pytest.MonkeyPatch.context() as patch, ThreadPoolExecutor(2) as pool:
        for module in (sample_weights, weak_learners):
            patch.setattr(module, "FLOOR", floor)
        table = hb.Table(data, discrete=["k"])
        known = hb.boost(table, "y", **options, random_state=seed, max_restarts=4)
        patch.setattr(sources.FileFragment.batches, "__defaults__", (batch,))
        scan = hb.scan(write(tmp_path_factory.mktemp("scan"), data, (0.43,), groups), discrete=["k"], backend=pool)
        learned = hb.boost(scan, "y", **options, random_state=seed, max_restarts=4)
        same_votes(learned, known, table)
