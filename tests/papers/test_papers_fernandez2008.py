"""The study of regression from incomplete tables: its functions, and the whole script on a tiny folder."""

import importlib
import math
from pathlib import Path

import numpy as np
import pytest

import hybridbn as hb

PAPERS = Path(__file__).parents[2] / "examples" / "papers"


@pytest.fixture
def modules(monkeypatch):
    if not PAPERS.is_dir():
        pytest.skip("examples/papers is not there")
    monkeypatch.syspath_prepend(str(PAPERS))
    return {name: importlib.import_module(name) for name in ("studies", "fernandez2008", "fernandez2008_report")}


def _folder(path):
    """Write a folder with a line of two attributes, and what the paper's boston is taken from."""
    rng = np.random.default_rng(0)
    y = rng.normal(size=36)
    kinds = np.array(["low", "high"])
    lines = ["x,kind,y"]
    lines += [f"{2 * value + 0.3 * rng.normal():.4f},{kinds[int(value > 0)]},{value:.4f}" for value in y]
    (path / "line.csv").write_text("\n".join(lines) + "\n")
    (path / "housing.csv").write_text("CRIM,class\n" + "\n".join(f"{k},{k % 7}" for k in range(20)) + "\n")
    (path / "manifest.csv").write_text(
        "name,task,file,target,tables\nLine,regression,line.csv,y,\nhousing,regression,housing.csv,class,another:table1\n"
    )
    return path


@pytest.mark.slow
def test_the_study_runs_on_any_folder(modules, tmp_path, capsys, monkeypatch):
    pytest.importorskip("matplotlib")
    fernandez2008, studies = modules["fernandez2008"], modules["studies"]
    monkeypatch.setattr(fernandez2008, "RATES", (0, 30))
    folder, results = _folder(tmp_path), tmp_path / "results"
    arguments = ["--data", str(folder), "--results", str(results), "--datasets", "line", "--masks", "1", "--folds", "2"]
    fernandez2008.main([*arguments, "--tree-masks", "1", "--repetitions", "2"])
    printed = capsys.readouterr().out
    for text in ("Table 2", "\nLine 0 ", "\nLine 30 ", "Friedman", "p = 0.6831 (stated: 0.6831)", "Figures 1 and 2"):
        assert text in printed
    found = studies.summaries(studies.read_records(results / "table.csv"))
    for method in ("naive_bayes", "available", "gaussian", "linear", "tan"):
        assert found["Line 30", method, "srmse"].shape == (1,)
        # the response's standard deviation is about one
        assert found["Line 0", method, "srmse"].mean() < 0.8
    assert ("Line 0", "selective", "srmse") in found
    assert ("Line 30", "selective", "srmse") not in found
    # without holes nothing is filled
    assert (found["Line 0", "naive_bayes", "srmse"] == found["Line 0", "available", "srmse"]).all()
    assert (results / "curves.png").stat().st_size > 5000
    before = (results / "table.csv").read_bytes()
    monkeypatch.setattr(fernandez2008, "table_records", None)
    fernandez2008.main([*arguments, "--parts", "table", "--resume"])
    assert (results / "table.csv").read_bytes() == before


def test_databases_have_the_names_of_the_paper(modules, tmp_path):
    found = modules["fernandez2008"].databases(_folder(tmp_path))
    assert [(dataset.name, len(dataset)) for dataset in found] == [("boston", 10), ("Line", 36)]


def test_cells_are_missing_at_the_rate_and_filled_with_means(modules):
    fernandez2008 = modules["fernandez2008"]
    whole = hb.Table({"x": np.arange(1000.0), "c": ["a", "b"] * 500})
    table = fernandez2008.punched(whole, 0.3, np.random.default_rng(0))
    assert 240 < np.isnan(table.column("x")).sum() < 360
    assert 240 < (table.column("c") < 0).sum() < 360
    assert not np.isnan(whole.column("x")).any()
    training = hb.Table({"x": [1.0, 3.0, math.nan], "c": ["b", "b", "a"]})
    filled = fernandez2008.mean_filled(training, training)
    assert filled.column("x").tolist() == [1.0, 3.0, 2.0]
    emptied = training.with_array("c", np.array([-1, 0, -1]))
    assert fernandez2008.mean_filled(emptied, training).column("c").tolist() == [1, 0, 1]


def test_intervals_and_verdicts(modules):
    report = modules["fernandez2008_report"]
    mean, half = report.mean_interval(np.array([1.0, 2.0, 3.0]))
    # t of 2 degrees of freedom at 97.5 % is 4.3027
    assert (mean, half) == (2.0, pytest.approx(4.30265 / math.sqrt(3), abs=1e-5))
    assert math.isnan(report.mean_interval([1.0])[1])
    assert report.verdict(1.0, math.nan, 10) == ""
    _, p = report.friedman(np.array([[1.0, 2.0, 3.0]] * 10))
    assert p == pytest.approx(math.exp(-10))
