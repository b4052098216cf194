"""The league of regressors runs on any folder of datasets, and its scores are what they should be."""

import importlib
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

PAPERS = Path(__file__).parents[2] / "examples" / "papers"


@pytest.fixture
def league(monkeypatch):
    if not PAPERS.is_dir():
        pytest.skip("examples/papers is not there")
    pytest.importorskip("sklearn")
    monkeypatch.syspath_prepend(str(PAPERS))
    return importlib.import_module("regression_league")


@pytest.mark.slow
def test_the_quick_mode_runs(league, tmp_path, capsys):
    rng = np.random.default_rng(0)
    x, kind = rng.normal(size=36), rng.integers(2, size=36)
    rows = [
        f"{a:.4f},{'no' if k else 'yes'},{2 * a + k + 0.3 * rng.normal():.4f}" for a, k in zip(x, kind, strict=True)
    ]
    (tmp_path / "bolts.csv").write_text("\n".join(["x,kind,y", *rows]) + "\n")
    (tmp_path / "manifest.csv").write_text("name,task,file,target,drop,tables\nline,regression,bolts.csv,y,,\n")
    results = tmp_path / "results.csv"
    names = ["auto", "linear_regression", "gaussian_process"]
    arguments = ["--data", str(tmp_path), "--results", str(results), "--quick"]
    league.main([*arguments, "--methods", *names])
    printed = capsys.readouterr().out
    assert "relative root mean squared errors" in printed
    lines = printed.splitlines()
    errors = next(line for line in lines if line.startswith("line")).split()
    assert errors[1] == "1"
    assert all(float(error) < 60 for error in errors[2:5])
    means = {line.split()[1]: line.split()[2:] for line in lines if line.startswith("mean")}
    assert set(means) == {"hybridbn", "GP"}
    assert all(float(scores[0]) < 0.4 and float(scores[2]) > 60 for scores in means.values())
    league.main([*arguments, "--methods", *names, "--resume"])
    assert capsys.readouterr().out == printed


def test_scores_of_a_normal_density(league):
    truth = np.array([0.3, -1.0, 2.5])
    found = league.normal_scores(truth, np.zeros(3), np.ones(3), 1.5)
    z = truth
    crps = z * (2 * stats.norm.cdf(z) - 1) + 2 * stats.norm.pdf(z) - 1 / np.sqrt(np.pi)
    np.testing.assert_allclose(found[:, 1], crps, atol=0.01)
    np.testing.assert_allclose(found[:, 2], -stats.norm.logpdf(truth))
    np.testing.assert_array_equal(found[:, 3], [1, 1, 0])
    np.testing.assert_allclose(found[:, 4], 2 * 1.6449, atol=1e-3)


def test_wins_are_counted_against_the_model_tree(league):
    studies = importlib.import_module("studies")
    records = [studies.Record("a", 0, "auto", "rmse", 50.0), studies.Record("b", 0, "auto", "rmse", 70.0)]
    published = {("2", name, "model_tree_weka"): studies.Figure(60.0, np.nan, "", "") for name in "ab"}
    text, won, compared = league.errors_table(records, published)
    assert (won, compared) == (1, 2)
    assert "win" in text
