"""The study of naive Bayes for regression: its functions on tiny tables, and two of its figures where the data are at
hand.
"""

import importlib
import math
from pathlib import Path

import numpy as np
import pytest
from known_answers import TABLES

import hybridbn as hb

PAPERS = Path(__file__).parents[2] / "examples" / "papers"


@pytest.fixture
def modules(monkeypatch):
    if not PAPERS.is_dir():
        pytest.skip("examples/papers is not there")
    monkeypatch.syspath_prepend(str(PAPERS))
    return {name: importlib.import_module(name) for name in ("studies", "baselines", "frank1998", "frank1998_tables")}


def _folder(path):
    """Write a folder with a regression and two classifications: mixed attributes, holes, an identifier, a constant
    column.
    """
    rng = np.random.default_rng(0)
    kinds, y = np.array(["low", "mid", "high"]), rng.uniform(0, 3, 40)
    lines = ["id,x,kind,same,y"]
    for row in range(40):
        x = "" if row % 9 == 4 else f"{y[row] ** 2 + 0.1 * rng.normal():.4f}"
        lines.append(f"r{row},{x},{kinds[int(y[row])]},5,{'' if row == 7 else f'{y[row]:.4f}'}")
    (path / "curve.csv").write_text("\n".join(lines) + "\n")
    classes = rng.integers(0, 3, 45)
    rows = [f"{k + 0.2 * rng.normal():.4f},{'ab'[int(k > 0)]},{k}" for k in classes]
    (path / "three.csv").write_text("\n".join(["x,k,c", *rows]) + "\n")
    rows = [f"{k + 0.2 * rng.normal():.4f},{'no' if k else 'yes'}" for k in classes]
    (path / "two.csv").write_text("\n".join(["x,c", *rows]) + "\n")
    (path / "manifest.csv").write_text(
        "name,task,file,target,drop,tables\n"
        "Curve,regression,curve.csv,y,id,\n"
        "other,regression,curve.csv,y,id,another2001:table1\n"
        "three,classification,three.csv,c,,frank1998:table6\n"
        "two,,two.csv,c,,\n"
    )
    return path


def test_the_study_runs_on_any_folder(modules, tmp_path, capsys, monkeypatch):
    studies, frank1998 = modules["studies"], modules["frank1998"]
    folder = _folder(tmp_path)
    (curve,) = studies.datasets_of(folder, "regression", "frank1998")
    assert (curve.name, len(curve), curve.table.names) == ("Curve", 39, ("x", "kind", "same", "y"))
    assert [d.name for d in studies.datasets_of(folder, "regression", "frank1998", ["other"])] == ["other"]
    monkeypatch.setattr(frank1998, "SIZES", (30, 60))
    results = tmp_path / "results"
    arguments = [
        "--data",
        str(folder),
        "--results",
        str(results),
        "--repetitions",
        "2",
        "--folds",
        "3",
        "--samples",
        "2",
    ]
    frank1998.main([*arguments, "--parts", "regression", "classification"])
    printed = capsys.readouterr().out
    for text in ("Table 2", "Table 3", "Table 4", "Table 5", "Table 6", "\nCurve ", "\nthree ", "\ntwo "):
        assert text in printed
    found = studies.summaries(studies.read_records(results / "regression.csv"))
    assert found["Curve", "naive_bayes", "rmse"].shape == (2,)
    # half of the rows' spread at most is left unexplained by attributes that nearly give it away
    assert found["Curve", "naive_bayes", "rmse"].mean() < 50
    assert found["Curve", "knn_mae", "mae"].mean() < 50
    classes = studies.summaries(studies.read_records(results / "classification.csv"))
    for method in ("regressions", "classification"):
        assert classes["three", method, "accuracy"].mean() > 85
    # what is there already is not run again
    before = (results / "regression.csv").read_bytes()
    monkeypatch.setattr(frank1998, "cross_validated", None)
    frank1998.main([*arguments, "--parts", "regression", "--resume"])
    assert (results / "regression.csv").read_bytes() == before


def test_datasets_of_other_sizes_are_not_compared(modules, capsys):
    studies = modules["studies"]
    rows = hb.Table({"y": np.arange(60.0)})
    few = rows.take(slice(37))
    sets = [
        studies.Dataset("Servo", rows, "y"),
        studies.Dataset("mbagrade", rows, "y"),
        studies.Dataset("schlvote", few, "y"),
        studies.Dataset("own", rows, "y"),
    ]
    published = studies.read_published(modules["frank1998"].PUBLISHED)
    left = studies.comparable(published, sets, "1")
    assert ("2", "servo", "naive_bayes") not in left
    assert ("2", "mbagrade", "naive_bayes") in left
    assert ("2", "schlvote", "naive_bayes") in left
    assert "Servo has 60 rows where the paper's has 167" in capsys.readouterr().out


def test_the_spiral_is_drawn(modules, tmp_path):
    frank1998 = modules["frank1998"]
    pytest.importorskip("matplotlib")
    records = frank1998.spiral_records(sizes=(40, 150), samples=2, tested=100)
    found = modules["studies"].summaries(records)
    few, many = (found[f"spiral {size}", "naive_bayes", "rmse"].mean() for size in (40, 150))
    assert many < few < found["spiral 40", "linear_regression", "rmse"].mean()
    frank1998.draw_spiral(records, tmp_path / "deep" / "spiral.png")
    assert (tmp_path / "deep" / "spiral.png").stat().st_size > 1000


def test_the_grid_gives_what_exact_inference_gives(modules):
    """With many points the sums of equations 12 and 15 are the posterior's mean and median."""
    rng = np.random.default_rng(1)
    y = rng.normal(size=120)
    kinds = np.where(y + rng.normal(size=120) > 0, "a", "b")
    table = hb.Table({"x": np.sin(y) + 0.2 * rng.normal(size=120), "kind": kinds, "y": y})
    model = modules["frank1998"].GridNaiveBayes(table.take(slice(100)), "y")
    new = table.take(slice(100, 120)).drop("y")
    posterior = model.network.posterior("y", new)
    assert np.abs(model.mean(new, 2000) - posterior.mean()).max() < 1e-6
    assert np.abs(model.median(new, 2000) - posterior.median()).max() < 2 * np.ptp(y) / 2000
    assert (np.diff(model.grid(50)) > 0).all()
    assert np.isclose(model.grid(50), y[:100].min()).any()
    assert np.isclose(model.grid(50), y[:100].max()).any()


def test_a_value_never_seen_says_nothing(modules):
    """Footnote 6: its likelihood is zero for every target, so the attribute is left out for that row."""
    c = hb.Discrete("c", states=("a", "b", "new"))
    data = {
        "c": ["a", "b"] * 20 + ["new"],
        "y": [float(i) for i in range(41)],
        "x": [i % 7 + 0.1 * i for i in range(41)],
    }
    table = hb.Table(data, variables=[c, hb.Continuous("x"), hb.Continuous("y")])
    training, test = table.take(slice(40)), table.take([40])
    frank1998 = modules["frank1998"]
    expected = frank1998.GridNaiveBayes(training.drop("c"), "y").mean(test)
    assert frank1998.GridNaiveBayes(training, "y").mean(test) == pytest.approx(expected)


def test_errors_are_relative_to_the_test_rows_own_mean(modules):
    frank1998 = modules["frank1998"]
    truth = np.array([1.0, 2.0, 6.0])
    assert frank1998.relative_rmse(truth, np.full(3, 3.0)) == pytest.approx(100)
    assert frank1998.relative_mae(truth, np.array([1.0, 2.0, 3.0])) == pytest.approx(50)
    assert math.isnan(frank1998.relative_rmse(np.ones(3), np.zeros(3)))


def test_baselines_on_what_they_can_learn(modules):
    baselines = modules["baselines"]
    rng = np.random.default_rng(2)
    x, kind = rng.normal(size=80), rng.choice(["p", "q", "r"], 80)
    noise = rng.normal(size=80)
    y = 3 * x + np.where(kind == "q", 5.0, np.where(kind == "r", 1.0, 0.0))
    table = hb.Table({"x": x, "noise": noise, "kind": kind, "y": y})
    training, test = table.take(slice(60)), table.take(slice(60, 80))
    assert np.abs(baselines.linear_regression(training, test, "y") - y[60:]).max() < 1e-4
    shuffled = training.with_column("y", rng.permutation(y[:60]))
    spread = np.ptp(baselines.linear_regression(shuffled, test, "y"))
    assert spread < np.ptp(y)
    for predicted in baselines.nearest_neighbors(training, test, "y").values():
        assert np.mean((predicted - y[60:]) ** 2) < 0.5 * np.var(y)
    # a row that is in the training table is its own nearest neighbor
    again = baselines.nearest_neighbors(table, table, "y")["knn_rmse"]
    assert np.abs(again - y).max() < 0.2 * np.ptp(y)


def test_folds_are_the_same_for_the_same_seed_and_cover_all(modules):
    studies = modules["studies"]
    classes = np.repeat([0, 1], [30, 10])
    found = studies.folds(40, 10, [0, 1], classes)
    assert sorted(np.concatenate(found).tolist()) == list(range(40))
    assert all(classes[fold].sum() == 1 for fold in found)
    assert all((a == b).all() for a, b in zip(found, studies.folds(40, 10, [0, 1], classes), strict=True))
    assert len(studies.folds(3, 10, 0)) == 3


def test_significance_is_paired(modules):
    significant = modules["studies"].significant
    base = np.array([1.0, 5.0, 3.0, 8.0])
    above = base + np.array([0.1, 0.11, 0.1, 0.11])
    assert significant(base, above) == -1
    assert significant(above, base) == 1
    assert significant(base, base[::-1]) == 0
    assert significant(base, base + 1) == -1


@pytest.mark.slow
@pytest.mark.parametrize("name", ["elusage", "cloud"])
def test_published_errors_are_met(modules, name):
    studies, frank1998 = modules["studies"], modules["frank1998"]
    (dataset,) = studies.datasets_of(TABLES, "regression", "frank1998", [name])
    methods = {"naive_bayes": frank1998.kernel_naive_bayes()}
    found = studies.summaries(studies.cross_validated(dataset, methods, frank1998.ERRORS, repetitions=3))
    published = studies.read_published(frank1998.PUBLISHED)
    for measure, table in (("rmse", "2"), ("mae", "4")):
        measured = float(found[name, "naive_bayes", measure].mean())
        assert modules["frank1998_tables"].verdict(measured, published[table, name, "naive_bayes"]) == "within"
