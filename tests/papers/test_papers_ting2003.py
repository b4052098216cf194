"""The study of boosted naive Bayes trees: its functions, and the whole script on a tiny folder."""

import importlib
from pathlib import Path

import numpy as np
import pytest

PAPERS = Path(__file__).parents[2] / "examples" / "papers"


@pytest.fixture
def modules(monkeypatch):
    if not PAPERS.is_dir():
        pytest.skip("examples/papers is not there")
    monkeypatch.syspath_prepend(str(PAPERS))
    return {name: importlib.import_module(name) for name in ("studies", "ting2003", "ting2003_report")}


def _folder(path):
    """Write a class that two columns decide on together, of which naive Bayes sees nothing, and one of a number."""
    rng = np.random.default_rng(0)
    a, b, noise = rng.integers(0, 2, (3, 120))
    lines = [f"{'uv'[i]},{'pq'[j]},{'xy'[k]},{'ny'[i ^ j]}" for i, j, k in zip(a, b, noise, strict=True)]
    (path / "either.csv").write_text("\n".join(["a,b,noise,class", *lines]) + "\n")
    lines = [f"{rng.normal() + 2 * (k % 2):.3f},{'ab'[k % 2]}" for k in range(90)]
    (path / "kr.csv").write_text("\n".join(["x,class", *lines]) + "\n")
    (path / "manifest.csv").write_text(
        "name,task,file,target,tables\nEither,classification,either.csv,class,\n"
        "kr-vs-kp,classification,kr.csv,class,ting2003:table1\nother,classification,kr.csv,class,frank1998:table6\n"
    )
    return path


@pytest.mark.slow
def test_the_study_runs_on_any_folder_and_goes_on(modules, tmp_path, capsys, monkeypatch):
    pytest.importorskip("matplotlib")
    ting2003 = modules["ting2003"]
    folder, results = _folder(tmp_path), tmp_path / "results"
    arguments = ["--data", str(folder), "--results", str(results), "--rounds", "6", "--depths", "0", "1"]
    ting2003.main([*arguments, "--repetitions", "1"])
    ting2003.main([*arguments, "--repetitions", "2"])
    printed = capsys.readouterr().out
    for text in (
        "Table 2",
        "Table 3: trees of depth 1",
        "\nEither ",
        "\nkr-vs-kp ",
        "Figure 3",
        "Table 4",
        "figure4.png",
    ):
        assert text in printed
    assert "\nother " not in printed
    # the paper's has another size
    assert "kr-vs-kp has 90 rows where the paper's has 3169, so it is not compared" in printed
    assert sorted(path.name for path in results.glob("*.png")) == ["figure2.png", "figure3.png", "figure4.png"]
    errors = {}
    for depth in (0, 1):
        with np.load(results / f"Either_{depth}.npz") as known:
            assert known["codes"].shape == (2, 4, 120)
            assert known["restarts"].shape == (2, 3, 2)
            errors[depth] = (known["codes"] != known["codes"][:1, :1]).mean()
            whole = known["codes"]
    # a repetition of its own has the same folds in one go
    ting2003.main([*arguments[:2], "--results", str(tmp_path / "again"), *arguments[4:], "--repetitions", "2"])
    with np.load(tmp_path / "again" / "Either_1.npz") as known:
        assert (known["codes"] == whole).all()
    monkeypatch.setattr(ting2003, "predictions", None)
    ting2003.main([*arguments, "--repetitions", "2"])
    ting2003.main([*arguments, "--report"])


def test_a_quick_look_is_quick(modules, tmp_path, capsys, monkeypatch):
    pytest.importorskip("matplotlib")
    asked = []
    ting2003 = modules["ting2003"]
    own = ting2003.predictions

    def noted(training, test, target, depth, stages):
        asked.append((depth, stages))
        return own(training, test, target, depth, [2])[0][[0, 1, 1, 1]], np.zeros((3, 2))

    monkeypatch.setattr(ting2003, "predictions", noted)
    ting2003.main(["--data", str(_folder(tmp_path)), "--results", str(tmp_path / "results"), "--quick"])
    # two datasets of three folds each
    assert asked == [(depth, [1, 5, 10]) for _ in range(2) for depth in (0, 1, 3) for _ in range(3)]


def test_predictions_are_those_of_the_tree_and_of_its_boosted_ones(modules, tmp_path):
    ting2003 = modules["ting2003"]
    dataset = modules["studies"].datasets_of(_folder(tmp_path), "classification", names=["either"])[0]
    table = dataset.table
    codes, restarts = ting2003.predictions(table[:80], table[80:], "class", 1, [1, 5])
    ensemble = ting2003.hb.boost(table[:80], "class", lambda *a, **k: ting2003.nb_tree(*a, max_depth=1, **k), rounds=5)
    rows, variable = table[80:].drop("class"), ensemble.variable
    for found, wanted in zip(codes, (ensemble[:1], ensemble[:1], ensemble), strict=True):
        assert found.tolist() == [variable.code(state) for state in wanted.predict(rows)]
    assert restarts[-1].sum() == ensemble.restarts
    # one test and naive Bayes below it decide on two columns
    assert (codes[0] == table.column("class")[80:]).mean() > 0.9


def test_the_published_figures_are_complete(modules):
    published = modules["studies"].read_published(modules["ting2003"].PUBLISHED)
    names = {dataset for table, dataset, _ in published if table == "1"}
    assert len(names) == 25
    for name in names:
        assert published["2", name, "naive_bayes"].value == published["3", name, "tree 0"].value
        assert published["2", name, "ratio"].value == published["3", name, "ratio 0"].value
    for depth in modules["ting2003"].DEPTHS:
        mean = np.mean([published["3", name, f"tree {depth}"].value for name in names])
        assert mean == pytest.approx(published["3", "mean", f"tree {depth}"].value, abs=0.06)
        whole = (
            published["4", "mean", f"tree bias {depth}"].value + published["4", "mean", f"tree variance {depth}"].value
        )
        assert whole == pytest.approx(mean, abs=0.11)


def test_the_sign_test_is_the_papers(modules):
    sign_test = modules["ting2003_report"].sign_test
    for wins, losses, p in ((14, 11, 0.3450), (15, 10, 0.2122), (20, 5, 0.0020), (19, 6, 0.0073)):
        assert sign_test([0.5] * wins + [2.0] * losses)[2] == pytest.approx(p, abs=1e-4)
