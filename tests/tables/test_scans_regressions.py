"""Regressions and model trees of tables that are read in passes."""

from __future__ import annotations

import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from test_scans import write

import hybridbn as hb
from hybridbn.fitting.trees import TreeNode
from hybridbn.structures import model_tree, regression
from hybridbn.structures.model_tree import _choose_cuts
from hybridbn.structures.regression import learn_regressors, read_for_regression, view_all_rows
from hybridbn.structures.regression_splits import (
    Growth,
    NodeRegression,
    RegressionView,
    grow_regressions,
    predict_by_depth,
)
from hybridbn.tables.backends import sources
from hybridbn.tables.backends.workers import open_pool

pytest.importorskip("pyarrow")


@pytest.fixture(autouse=True)
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Read the rows in many batches."""
    monkeypatch.setattr(sources.FileFragment.batches, "__defaults__", (97,))


def make_regimes(rows: int, seed: int, holes: float = 0.0) -> dict[str, Any]:
    """A number whose slopes depend on the sign of another one, with some errors that are large."""
    rng = np.random.default_rng(seed)
    x, z, u = rng.normal(size=(3, rows))
    c = rng.choice(["a", "b", "c"], rows)
    y = np.where(x < 0, z, 5 - 2 * z) + (c == "b") * u + 0.3 * rng.standard_t(3, size=rows)
    data = {"x": x.tolist(), "z": z.tolist(), "u": u.tolist(), "c": c.tolist(), "y": y.tolist()}
    for name, column in data.items():
        data[name] = [None if hole else cell for hole, cell in zip(rng.random(rows) < holes, column, strict=True)]
    data["w"] = rng.choice([0.0, 1.0, 2.5], rows).tolist()
    return data


def read_weighted(data: dict[str, Any]) -> hb.Table:
    return hb.Table({name: column for name, column in data.items() if name != "w"}, weights=data["w"])


OPTIONS: list[dict[str, Any]] = [{}, {"trees": 3, "max_depth": 2}]


def learn_quietly(build: Any, data: Any, **options: Any) -> hb.Network:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        network: hb.Network = build(data, "y", **options)
    return network


@pytest.mark.parametrize("options", OPTIONS)
def test_a_sample_of_all_rows_gives_what_memory_does(options: dict[str, Any], tmp_path: Path) -> None:
    data = make_regimes(400, 2, 0.03)
    known = model_tree(read_weighted(data), "y", **options)
    learned = learn_quietly(model_tree, hb.scan(write(tmp_path, data), weights="w"), **options)
    table = read_weighted(data)
    np.testing.assert_allclose(learned.log_density(table), known.log_density(table), rtol=1e-9, atol=1e-9)


def describe(trees: list[TreeNode[NodeRegression]]) -> list[tuple[Any, ...]]:
    """Return the tests of trees from above, and the regressions below them."""
    described: list[tuple[Any, ...]] = []
    for node in trees:
        described.append((node.split and (node.split.column, tuple(node.split.branches)), node.statistics.coefficients))
        described += describe(node.children)
    return described


def test_a_level_by_a_pass_is_that_of_rows_in_memory(tmp_path: Path) -> None:
    data = make_regimes(700, 2, 0.1)
    scan = hb.scan(write(tmp_path, data), weights="w", sample=300)
    regressors = learn_regressors(*read_for_regression(scan, "y", "auto", None, 5, np.random.default_rng(0)))
    tests = [_choose_cuts(regressors, name) for name in ("x", "u", "c")]
    view = view_all_rows(regressors, tests)
    growth, before = Growth(0.5, depth=2), scan.passes.made
    trees = grow_regressions(view, 1, growth, np.random.default_rng(0))
    assert scan.passes.made == before + 3
    table = read_weighted(data)
    assert view.variables is not None
    batch = view.read(table.with_variables(view.variables), 0)
    block, ((_, weights),) = batch.rows, batch.roots
    seen = [row for row in range(700) if data["y"][row] is not None and data["w"][row] > 0]
    np.testing.assert_allclose(block.target * regressors.encoding.unit, [data["y"][row] for row in seen])
    known = grow_regressions(RegressionView.of(block, weights[None], table), 1, growth, np.random.default_rng(0))
    for (test, coefficients), (other, expected) in zip(describe(trees), describe(known), strict=True):
        assert test == other
        np.testing.assert_allclose(coefficients, expected, rtol=1e-9, atol=1e-9)
    assert sum(test is not None for test, _ in describe(trees)) >= 2
    view.rows = table
    one_batch = grow_regressions(view, 1, growth, np.random.default_rng(0))
    np.testing.assert_allclose(
        predict_by_depth(one_batch[-1], block, 2), predict_by_depth(trees[-1], block, 2), rtol=1e-9, atol=1e-9
    )


def test_large_errors_count_less_in_all_rows_too(tmp_path: Path) -> None:
    rng = np.random.default_rng(4)
    x, z = rng.normal(size=(2, 600))
    y = 2 * x - z + np.where(rng.random(600) < 0.1, 60 * rng.random(600), 0.1 * rng.normal(size=600))
    data = {"x": x.tolist(), "z": z.tolist(), "y": y.tolist()}
    network = regression(hb.scan(write(tmp_path, data), sample=200), "y")
    found = network.posterior("y", hb.Table({"x": [0.0, 1.0, 0.0], "z": [0.0, 0.0, 1.0]})).median()
    np.testing.assert_allclose(found, [0.0, 2.0, -1.0], atol=0.05)


@pytest.mark.parametrize("build", [regression, model_tree])
def test_all_rows_have_a_say(build: Any, tmp_path: Path) -> None:
    data = make_regimes(6000, 3)
    del data["w"]
    scan = hb.scan(write(tmp_path, data, groups=3000), sample=400)
    test = read_weighted(make_regimes(2000, 4))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sources.FileFragment.batches, "__defaults__", (2000,))
        learned = learn_quietly(build, scan)
    known, sampled = build(hb.Table(data), "y"), build(scan.sample(), "y")
    ours, best, worse = (network.log_density(test).mean() for network in (learned, known, sampled))
    assert abs(ours - best) < 0.5 * (best - worse)


def test_trees_do_not_depend_on_batches(tmp_path: Path) -> None:
    options = {"max_depth": 2}
    data = make_regimes(900, 5, 0.02)
    table = read_weighted(data)
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    learned = learn_quietly(model_tree, hb.scan(write(tmp_path / "one", data), weights="w", sample=500), **options)
    with pytest.MonkeyPatch.context() as patch, ThreadPoolExecutor(2) as pool:
        patch.setattr(sources.FileFragment.batches, "__defaults__", (400,))
        scan = hb.scan(write(tmp_path / "two", data, (0.3,), 250), weights="w", sample=500, backend=pool)
        other = learn_quietly(model_tree, scan, **options)
    assert learned.variable("y leaf") == other.variable("y leaf")
    np.testing.assert_allclose(other.log_density(table), learned.log_density(table), rtol=1e-6, atol=1e-6)


@pytest.mark.slow
def test_processes_take_the_passes(tmp_path: Path) -> None:
    data = make_regimes(900, 6, 0.02)
    pattern, table = write(tmp_path, data), read_weighted(data)
    alone = model_tree(hb.scan(pattern, weights="w", sample=500), "y")
    with open_pool(2) as pool:
        shared = model_tree(hb.scan(pattern, weights="w", sample=500, backend=pool), "y")
    np.testing.assert_allclose(shared.log_density(table), alone.log_density(table), rtol=1e-6, atol=1e-6)


def test_several_trees_say_that_they_are_those_of_a_sample() -> None:
    scan = hb.scan({name: cells for name, cells in make_regimes(300, 7).items() if name != "w"}, sample=200)
    with pytest.warns(UserWarning, match="several model trees are learned from a sample of 200 of 300 rows"):
        model_tree(scan, "y", trees=2, max_depth=1)
