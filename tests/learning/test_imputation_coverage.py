"""Pooled intervals hold the true value as often as they say: the study of examples/benchmarks/coverage.py."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture(scope="module")
def study() -> Any:
    path = Path(__file__).parents[2] / "examples" / "benchmarks" / "coverage.py"
    spec = importlib.util.spec_from_file_location("coverage_study", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(path.parent)
        spec.loader.exec_module(module)
    return module


def z_scores(found: Any) -> Any:
    errors = found.groupby("estimand")["error"]
    return errors.mean() / (errors.std() / errors.count() ** 0.5)


def test_estimates_from_imputed_tables_are_not_biased(study: Any) -> None:
    found = study.study(200, 30, 5, "linear", seed=1)
    assert z_scores(found).abs().max() < 5
    # 30 replications can only tell what is far off: less than .7 would happen less than once in 100,000 tables
    assert found.groupby("estimand")["covered"].mean().min() > 0.7


@pytest.mark.slow
def test_intervals_cover_as_often_as_they_say(study: Any) -> None:
    found = study.study(200, 1000, 20, "linear", seed=1)
    covered = found.groupby("estimand")["covered"].mean()[["mean", "slope", "reverse slope"]]
    assert covered.between(*study.ACCEPTED).all()
    assert z_scores(found).abs().max() < 5


@pytest.mark.slow
@pytest.mark.parametrize(("table", "estimands"), [("skewed", ["mean", "slope"]), ("curved", ["mean", "slope", "bend"])])
def test_intervals_of_what_is_not_normal_are_not_too_short(study: Any, table: str, estimands: list[str]) -> None:
    covered = study.study(200, 100, 10, table, seed=1).groupby("estimand")["covered"].mean()[estimands]
    # so many replications tell .95 from what is below .85
    assert covered.min() > 0.85
