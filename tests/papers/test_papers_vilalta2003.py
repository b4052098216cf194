"""The study of classes decomposed into clusters: its functions, and the whole script on a tiny folder."""

import importlib
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
    return {name: importlib.import_module(name) for name in ("studies", "vilalta2003")}


def _folder(path):
    """Write four corners of a square, those across in one class, and a class of one cloud beside another."""
    rng = np.random.default_rng(0)
    corner = np.arange(80) % 4
    x, y = rng.normal(size=80) + 6 * (corner % 2), rng.normal(size=80) + 6 * (corner // 2)
    lines = [
        f"{a:.3f},{b:.3f},5,{'ab'[int(k in (1, 2))]}" for a, b, k in zip(x, y, corner, strict=True)
    ]  # one column is constant
    (path / "corners.csv").write_text("\n".join(["x,y,same,c", *lines]) + "\n")
    lines = [f"{rng.normal() + 2 * (k % 2):.3f},{'ab'[k % 2]}" for k in range(60)]
    (path / "labor.csv").write_text("\n".join(["x,c", *lines]) + "\n")
    (path / "manifest.csv").write_text(
        "name,task,file,target,tables\nCorners,classification,corners.csv,c,\nlabor,classification,labor.csv,c,vilalta2003:table1\n"
    )
    return path


def test_the_study_runs_on_any_folder(modules, tmp_path, capsys, monkeypatch):
    studies, vilalta2003 = modules["studies"], modules["vilalta2003"]
    folder, results = _folder(tmp_path), tmp_path / "results"
    arguments = ["--data", str(folder), "--results", str(results), "--repetitions", "2", "--folds", "2", "--most", "3"]
    vilalta2003.main(arguments)
    printed = capsys.readouterr().out
    for text in ("Table 1", "\nCorners ", "\nlabor ", "guarded, 1 datasets where the paper kept one cluster"):
        assert text in printed
    found = studies.summaries(studies.read_records(results / "accuracy.csv"))
    assert found["Corners", "naive_bayes", "accuracy"].mean() < 75
    for method in ("clusters", "guarded"):
        assert found["Corners", method, "accuracy"].mean() > 80
        assert found["Corners", method, "number"].shape == (2,)
        assert (found["Corners", method, "number"] >= 1.5).all()
    before = (results / "accuracy.csv").read_bytes()
    monkeypatch.setattr(vilalta2003, "measured", None)
    vilalta2003.main([*arguments, "--resume"])
    assert (results / "accuracy.csv").read_bytes() == before


def test_normal_densities_have_the_floor_of_the_paper(modules):
    table = hb.Table(
        {
            "x": [0.0, 0.0, 1.0, 4.0, np.nan],
            "same": [2.0, 2.0, 2.0, 2.0, 2.0],
            "gone": np.full(5, np.nan),
            "k": ["u", "v", "u", "v", None],
            "c": ["a", "a", "b", "b", "b"],
        }
    )
    fitters = modules["vilalta2003"].densities(table, "c")
    assert sorted(fitters) == ["k", "same", "x"]
    # three distinct values, so two gaps of two on the average
    assert fitters["x"].floor == pytest.approx(2 / 6)
    assert fitters["same"].floor == pytest.approx(0.01 / 6)


def test_scores_of_intervals_are_those_of_densities_where_intervals_are_short(modules):
    vilalta2003 = modules["vilalta2003"]
    rng = np.random.default_rng(0)
    codes = rng.integers(2, size=200)
    x = np.where(rng.random(200) < 0.1, np.nan, codes + rng.normal(size=200))
    table = hb.Table(
        {"x": x, "k": np.array(["u", "v"])[(codes + rng.integers(2, size=200)) // 2], "c": codes.astype(str)}
    )
    fitters = vilalta2003.densities(table, "c")
    network = vilalta2003.naive_bayes(table, "c", fitters)
    scores = vilalta2003.interval_scores(network, "c", table, fitters)
    found = np.exp(scores - scores.max(axis=1, keepdims=True))
    found /= found.sum(axis=1, keepdims=True)
    assert found == pytest.approx(network.posterior("c", table.drop("c")).probabilities, abs=1e-3)
