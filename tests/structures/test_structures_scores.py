"""Scores beyond BIC: against predictive densities one row after the other, and in searches."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy import stats

import hybridbn as hb
from hybridbn.fitting import KernelFitter
from hybridbn.fitting.cross_validation import deal_table, split_folds
from hybridbn.structures import BIC, BDeu, BGe, CrossValidation, hill_climb
from hybridbn.structures.training_data import read_data_without_target


def numbers(rows: int = 30) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    x, y, z = rng.normal(size=(3, rows))
    return {"x": 100 + 3 * x, "y": x + y, "z": 0.01 * z}


def categories(rows: int = 40, missing: float = 0.0) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(1)
    a, c = rng.integers(2, size=rows), rng.integers(3, size=rows)
    b = np.where(rng.random(rows) < 0.8, a, 1 - a)
    columns = {name: np.array(list("uvw"), object)[codes] for name, codes in (("a", a), ("b", b), ("c", c))}
    columns["b"][rng.random(rows) < missing] = None
    return columns


def prepare(score: Any, data: Any, potentials: Any = "gaussian", weights: Any = None) -> Any:
    return score.prepare(read_data_without_target(data, potentials, weights))


def test_bge_of_a_complete_graph_is_the_predictive_density_of_row_after_row() -> None:
    data = numbers()
    mean_weight, degrees = 1.5, 3.0
    scores = prepare(BGe(mean_weight, degrees), data)
    total = scores("x", ()) + scores("y", ("x",)) + scores("z", ("x", "y"))
    columns = np.array(list(data.values())).T
    units = columns.std(axis=0)
    rows = (columns - columns.mean(axis=0)) / units
    size = rows.shape[1]
    freedom, weight, mean = size + degrees, mean_weight, np.zeros(size)
    inverse = np.eye(size) * mean_weight * (degrees - 1) / (mean_weight + 1)
    expected = 0.0
    for row in rows:
        left = freedom - size + 1
        expected += stats.multivariate_t(mean, inverse * (weight + 1) / (weight * left), left).logpdf(row)
        inverse = inverse + weight / (weight + 1) * np.outer(row - mean, row - mean)
        mean = (weight * mean + row) / (weight + 1)
        weight, freedom = weight + 1, freedom + 1
    assert total == pytest.approx(expected - len(rows) * np.log(units).sum(), rel=1e-9)


def test_bdeu_is_the_predictive_probability_of_row_after_row() -> None:
    data = categories()
    scores = prepare(BDeu(4.0), data)
    counts: dict[tuple[str, str], float] = {}
    expected = 0.0
    for a, c in zip(data["a"], data["c"], strict=True):
        joint = 4 / 6 + counts.get((a, c), 0.0)
        expected += math.log(joint / (4 / 3 + sum(n for (_, other), n in counts.items() if other == c)))
        counts[a, c] = counts.get((a, c), 0.0) + 1
    assert scores("a", ("c",)) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize(("score", "data"), [(BDeu(2.0), categories()), (BGe(), numbers())])
def test_equivalent_graphs_have_equal_scores(score: Any, data: Any) -> None:
    scores = prepare(score, data)
    a, b, c = data
    there = scores(a, ()) + scores(b, (a,)) + scores(c, (a, b))
    back = scores(c, ()) + scores(b, (c,)) + scores(a, (b, c))
    assert there == pytest.approx(back, rel=1e-9)


@pytest.mark.parametrize(("score", "data"), [(BDeu(2.0), categories()), (BGe(), numbers()), (BIC(), numbers())])
def test_weights_are_repetitions(score: Any, data: Any) -> None:
    weights = np.arange(len(next(iter(data.values())))) % 3
    repeated = {name: np.repeat(column, weights) for name, column in data.items()}
    a, b, _ = data
    assert prepare(score, data, weights=weights)(a, (b,)) == pytest.approx(prepare(score, repeated)(a, (b,)), rel=1e-9)


def test_held_out_rows_are_scored_by_the_others() -> None:
    data = numbers()
    score = CrossValidation(3, random_state=2)
    dealt, expected = deal_table(hb.Table(data), 3, np.random.default_rng(2)), 0.0
    table = dealt.take(hb.Table(data))
    for training, part in split_folds(dealt.parts):
        net = hb.fit([("x", "y")], table.take(training), "gaussian")
        held = table.take(part)
        expected += (net.log_density(held.select(["x", "y"])) - net.log_density(held.select(["x"]))).sum()
    assert prepare(score, data)("y", ("x",)) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize(
    ("score", "data", "arc"),
    [
        (BDeu(), categories(80), {"a", "b"}),
        (BDeu(), categories(120, missing=0.1), {"a", "b"}),
        (BGe(), numbers(), {"x", "y"}),
        (CrossValidation(), numbers(), {"x", "y"}),
        (CrossValidation(4), {**categories(), "x": np.arange(40) % 7 * 1.0}, {"a", "b"}),
    ],
)
def test_searches_take_scores(score: Any, data: Any, arc: set[str]) -> None:
    net = hill_climb(data, "gaussian", score=score, restarts=1)
    assert arc in [set(edge) for edge in net.edges]
    net.check()


@pytest.mark.parametrize(
    ("score", "message"),
    [
        ("bdeu", "score must be an object"),
        (BDeu(), "'x', 'y', 'z' are numbers"),
        (CrossValidation(50), "30 rows can't be put into 50 folds"),
    ],
)
def test_bad_scores_are_refused(score: Any, message: str) -> None:
    with pytest.raises(hb.HybridBNError, match=message):
        hill_climb(numbers(), "gaussian", score=score)


def test_bad_options_of_scores_are_refused() -> None:
    with pytest.raises(hb.NetworkError, match="'a', 'b', 'c' are categories"):
        hill_climb(categories(), score=BGe())
    with pytest.raises(hb.NetworkError, match="equivalent_sample_size must be a positive number"):
        BDeu(0)
    with pytest.raises(hb.NetworkError, match="degrees"):
        BGe(degrees=1)
    with pytest.raises(hb.TableError, match="folds"):
        CrossValidation(1)


def test_bandwidths_are_searched_for_the_network_that_is_found(monkeypatch):
    tried: list[tuple[str, tuple[str, ...]]] = []
    search = KernelFitter.potential

    def record(fitter: KernelFitter, statistics: Any) -> Any:
        if fitter.searches:
            tried.append((statistics.child.name, tuple(parent.name for parent in statistics.parents)))
        return search(fitter, statistics)

    monkeypatch.setattr(KernelFitter, "potential", record)
    rng = np.random.default_rng(6)
    x, y, noise = rng.normal(size=(3, 60))
    data = {"x": x, "y": y, "z": x**2 + 0.1 * noise}
    net = hill_climb(data, "semiparametric", score=CrossValidation())
    families = {(name, tuple(parent.name for parent in net.potential(name).parents)) for name in data}
    assert set(tried) <= families
    assert net.has_edge("x", "z") or net.has_edge("z", "x")
