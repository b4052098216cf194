"""Learned mixtures of truncated exponentials against other density estimators."""

import importlib
from pathlib import Path

import pytest
from scipy import stats


@pytest.fixture(scope="module")
def benchmark():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(Path(__file__).parents[2] / "examples" / "benchmarks")
        return importlib.import_module("mte_density")


OTHERS = {
    "gamma": (stats.gamma(2), 0.6),
    "Laplace": (stats.laplace(), 1.0),
    "Gumbel": (stats.gumbel_r(), 0.5),
    "logistic": (stats.logistic(), 0.7),
    "triangle": (stats.triang(0.3), 1.2),
    "half normal": (stats.halfnorm(), 0.2),
    "U-shaped": (stats.beta(0.5, 0.5), 0.3),
    "pole": (stats.gamma(0.5), 0.2),
    "Pareto": (stats.pareto(3), 0.2),
    "Cauchy": (stats.cauchy(), 0.2),
    "log-normal of spread 2": (stats.lognorm(2), 0.1),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", list(OTHERS))
def test_densities_that_were_not_tuned_for(benchmark, name):
    truth, bound = OTHERS[name]
    found = benchmark.measured(truth, 1000, 3, ("mte", "kde"))
    assert found.divergences["mte"] < bound * found.divergences["kde"]
    assert found.parameters <= 20


def check_bounds(benchmark, size, seeds):
    won = 0
    for truth in benchmark.TRUTHS.values():
        row, _, parameters = benchmark.measured(truth, size, seeds)
        assert row["mte"] < min(row["elvira"], row["motbf"])
        best = min(row["kde"], row["gmm"])
        won += row["mte"] <= 1.1 * best
        if size == 1000:
            assert row["mte"] <= 3 * best
            assert parameters <= 20
    assert won >= 5


@pytest.mark.slow
def test_the_benchmark_in_short(benchmark):
    check_bounds(benchmark, 1000, 1)


@pytest.mark.slow
@pytest.mark.parametrize("size", [50, 250, 1000, 10_000])
def test_the_benchmark(benchmark, size):
    check_bounds(benchmark, size, 10)
