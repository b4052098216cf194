"""Choosing builders and families by validation inside the data, from Python and from the estimators."""

from importlib import import_module

import numpy as np
import pytest
from narrowing import as_kind

import hybridbn as hb
from hybridbn.structures import automatic, naive_bayes, nb_tree, tan
from hybridbn.structures.heldout import misclassification


def parity(rows: int = 400, seed: int = 0):
    rng = np.random.default_rng(seed)
    a, b, c = (rng.integers(2, size=rows) for _ in range(3))
    y = (a ^ b) ^ (rng.random(rows) < 0.1)
    return {name: np.array(["n", "p"])[code] for name, code in (("a", a), ("b", b), ("c", c), ("y", y.astype(int)))}


def curve(rows: int = 300, seed: int = 0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=rows)
    return {
        "x": x,
        "copy": x + 0.05 * rng.normal(size=rows),
        "w": rng.normal(size=rows),
        "y": 2 * x + 0.5 * rng.normal(size=rows),
    }


def test_what_predicts_best_is_chosen():
    net = automatic(parity(), "y")
    losses = net.graph["losses"]
    assert net.graph["chosen"] == min(losses, key=losses.get)
    assert net.graph["chosen"].startswith(("nb_tree", "tan"))
    assert losses[net.graph["chosen"]] < losses["naive_bayes, auto"] - 0.1


def test_numbers_get_trees_and_regressions():
    net = automatic(curve(), "y")
    assert {name.split()[0].rstrip(",") for name in net.graph["losses"]} == {"model_tree", "regression"}
    assert net.graph["losses"][net.graph["chosen"]] < 0.4


def test_candidates_and_loss_can_be_given(tmp_path):
    net = automatic(
        parity(), "y", candidates=[naive_bayes, (nb_tree, "multinomial")], loss=misclassification, random_state=3
    )
    assert set(net.graph["losses"]) == {"naive_bayes, auto", "nb_tree, multinomial"}
    assert net.graph["losses"]["nb_tree, multinomial"] < 0.2
    net.save(tmp_path / "net.hbn")
    assert as_kind(hb.Network, hb.load(tmp_path / "net.hbn")).graph["chosen"] == "nb_tree, multinomial"


def test_few_rows_and_single_columns():
    assert automatic({"x": [1.0, 2.0, 3.0], "y": ["a", "b", "a"]}, "y").graph["losses"] == {}
    assert list(automatic({"y": ["a", "b", "a"] * 5}, "y")) == ["y"]


def test_a_candidate_that_fails_takes_no_part():
    def fails(data, target, potentials):
        raise hb.TableError("never")

    net = automatic(parity(), "y", candidates=[fails, naive_bayes])
    assert net.graph["chosen"] == "naive_bayes, auto"
    with pytest.raises(hb.TableError, match="never"):
        automatic(parity(), "y", candidates=[fails])


def test_estimators_take_it_by_name():
    pytest.importorskip("sklearn")
    import pandas as pd

    data = pd.DataFrame(curve())
    model = hb.HybridRegressor(builder="auto").fit(data.drop(columns="y"), data["y"])
    assert model.score(data.drop(columns="y"), data["y"]) > 0.9
    assert model.network_.graph["chosen"]
    fixed = hb.HybridRegressor(builder=tan, potentials="gaussian").fit(data.drop(columns="y"), data["y"])
    assert fixed.score(data.drop(columns="y"), data["y"]) > 0.9


@pytest.mark.parametrize("change", [{"folds": 1}, {"candidates": []}, {"candidates": ["tann"]}])
def test_bad_requests(change):
    with pytest.raises(hb.HybridBNError):
        automatic(parity(60), "y", **change)


def test_who_is_clearly_behind_is_not_tried_further():
    calls = {"naive_bayes": 0, "alone": 0}

    def counted(data, target, potentials):
        calls["naive_bayes"] += 1
        return naive_bayes(data, target, potentials)

    def alone(data, target, potentials):
        calls["alone"] += 1
        return naive_bayes(hb.Table(data).select([target]), target, potentials)

    net = automatic(curve(), "y", "gaussian", candidates=[alone, counted])
    # five folds calibrate the intervals of the one that is left
    assert calls == {"naive_bayes": 6, "alone": 1}
    assert net.graph["losses"]["alone, gaussian"] > 2 * net.graph["losses"]["counted, gaussian"]
    assert net.graph["chosen"] == "counted, gaussian"


def test_the_first_of_equals_is_taken_for_numbers():
    def first(data, target, potentials):
        return tan(data, target, potentials)

    def second(data, target, potentials):
        return tan(data, target, potentials)

    assert automatic(curve(), "y", "gaussian", candidates=[first, second]).graph["chosen"] == "first, gaussian"
    assert automatic(curve(), "y", "gaussian", candidates=[second, first]).graph["chosen"] == "second, gaussian"


@pytest.mark.slow
def test_trees_of_regressions_are_taken_where_slopes_change():
    rng = np.random.default_rng(0)
    x, z = rng.normal(size=(2, 300))
    data = {"x": x, "z": z, "y": np.where(x < 0, 2 * z, -2 * z) + 0.2 * rng.normal(size=300)}
    net = automatic(data, "y")
    assert net.graph["chosen"].startswith("model_tree")
    assert net.posterior("y", {"x": 1.0, "z": 1.5}).mean() == pytest.approx(-3, abs=0.4)


def test_columns_that_are_constant_in_some_folds_do_not_stop_it():
    rng = np.random.default_rng(1)
    x = rng.normal(size=40)
    rare = np.zeros(40)
    rare[3] = 1.0
    names = np.array([f"n{i // 2}" for i in range(40)], dtype=object)
    net = automatic({"x": x, "rare": rare, "name": names, "y": x + 0.1 * rng.normal(size=40)}, "y")
    assert net.graph["losses"]


def test_more_effort_tries_more_candidates():
    module = import_module("hybridbn.structures.automatic")
    rng = np.random.default_rng(0)
    data = {"x": [None, *rng.normal(size=19)], "z": rng.normal(size=20), "c": ["a", "b"] * 10, "y": ["u", "v"] * 10}

    def names(columns, effort):
        read = module.read_data_with_target({name: data[name] for name in columns}, "y", "auto", None, "networks")
        candidates = module._list_class_candidates(read, "auto", effort)
        return [(getattr(build, "func", build).__name__, family) for build, family in candidates]

    usual = [("logistic", "auto"), ("random_forest", "gaussian"), ("naive_bayes", "auto")]
    assert names("cy", 1) == usual
    assert names("cy", 2) == [*usual, ("naive_bayes", "auto"), ("nb_tree", "auto")]
    more = {*names("xzy", 2)} - {*names("xzy", 1)}
    normal = {(name, "gaussian") for name in ("naive_bayes", "tan", "nb_tree")}
    others = {("naive_bayes", "mte"), ("tan", "mte"), ("selective_naive_bayes", "kernel"), ("nb_tree", "multinomial")}
    assert more == normal | others
    # with holes in numbers beside categories some questions take long
    assert {*names("xcy", 2)} == {*names("zcy", 2)} - {("tan", "gaussian")}
