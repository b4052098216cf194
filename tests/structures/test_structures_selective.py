"""Selective naive Bayes: what it keeps, and that validation is honest."""

import numpy as np
import pandas as pd
import pytest
from narrowing import as_continuous, as_discrete

import hybridbn as hb
from hybridbn.fitting.cross_validation import deal_folds
from hybridbn.structures import naive_bayes, selective_naive_bayes
from hybridbn.structures.heldout import log_loss, misclassification, squared_error
from hybridbn.structures.naive_bayes import _discretize_again
from hybridbn.structures.training_data import read_data_with_target


def numbers(rows: int = 300, seed: int = 0) -> pd.DataFrame:
    """A response with two useful numbers, copies of one of them, and noise."""
    rng = np.random.default_rng(seed)
    y = rng.normal(size=rows)
    a, b = y + 0.5 * rng.normal(size=rows), y + 0.7 * rng.normal(size=rows)
    return pd.DataFrame(
        {
            "noise": rng.normal(size=rows),
            "a": a,
            "copy": a,
            "again": 2 * a,
            "b": b,
            "y": y,
            "c": np.where(y > 0, "p", "q"),
        }
    )


def test_drops_noise_and_copies_in_regression():
    net = selective_naive_bayes(numbers().drop(columns="c"), "y", "gaussian")
    assert "b" in net
    assert len({"a", "copy", "again"} & set(net)) == 1
    assert set(net.edges) == {("y", name) for name in net if name != "y"}
    best = naive_bayes(numbers()[[name for name in numbers() if name in net]], "y", "gaussian")
    assert repr(net.potential("b")) == repr(best.potential("b"))


@pytest.mark.parametrize("potentials", ["mte", "kernel", "multinomial", "gaussian"])
def test_drops_noise_and_copies_in_classification(potentials):
    net = selective_naive_bayes(numbers().drop(columns="y"), "c", potentials, folds=3, random_state=3)
    assert next(iter(net)) == "c"
    assert "b" in net
    assert "noise" not in net
    assert len({"a", "copy", "again"} & set(net)) == 1


@pytest.mark.parametrize("loss", [misclassification, log_loss])
def test_losses_of_classes(loss):
    net = selective_naive_bayes(numbers().drop(columns="y"), "c", "gaussian", loss=loss)
    assert "a" in net or "copy" in net or "again" in net


def test_a_loss_is_any_function_of_posterior_and_truth():
    seen = []

    def absolute(posterior, truth):
        seen.append(len(truth))
        return np.abs(posterior.median() - truth)

    frame = numbers(60).drop(columns="c")
    assert "y" in selective_naive_bayes(frame, "y", "gaussian", loss=absolute, folds=3)
    assert sum(seen[:3]) == 60


def test_losses_by_hand():
    c, x = hb.Discrete("c", ("a", "b")), hb.Continuous("x")
    net = hb.Network([hb.Multinomial(c, table=[0.75, 0.25]), hb.LinearGaussian(x, intercept=1.0, variance=2.0)])
    here = hb.Table({"c": ["a", "b"], "x": [1.0, 4.0]})
    truth = np.array([0, 1])
    np.testing.assert_allclose(log_loss(as_discrete(net.posterior("c", here)), truth), -np.log([0.75, 0.25]))
    np.testing.assert_array_equal(misclassification(as_discrete(net.posterior("c", here)), truth), [0, 1])
    np.testing.assert_allclose(squared_error(as_continuous(net.posterior("x", here)), here["x"]), [0, 9], atol=1e-12)


def test_nothing_useful_leaves_the_target_alone():
    rng = np.random.default_rng(0)
    data = {"a": rng.normal(size=100), "b": rng.choice(list("uv"), 100), "c": list("pq") * 50}
    assert len(selective_naive_bayes(data, "c", "gaussian")) <= 2
    assert list(selective_naive_bayes({"c": list("pqq")}, "c")) == ["c"]


def test_rows_without_target_or_weight_and_holes():
    frame = numbers().drop(columns="y")
    frame.loc[::10, "c"] = None
    frame.loc[::7, "a"] = None
    weights = np.ones(300)
    weights[5:20] = 0
    net = selective_naive_bayes(frame, "c", "gaussian", weights)
    counted = weights.astype(bool) & frame["c"].notna()
    assert set(net) == set(selective_naive_bayes(frame[counted], "c", "gaussian"))
    assert "b" in net


def test_is_deterministic_and_indifferent_to_the_order_of_columns():
    frame = numbers(100).drop(columns="y")
    nets = [
        selective_naive_bayes(data, "c", "gaussian", random_state=3)
        for data in (frame, frame, frame[frame.columns[::-1]])
    ]
    assert set(nets[0]) == set(nets[1]) == set(nets[2])


@pytest.mark.parametrize(("rows", "folds"), [(10, 5), (11, 5), (3, 3), (103, 10)])
def test_folds_are_alike(rows, folds):
    rng = np.random.default_rng(0)
    target = rng.permutation(np.arange(rows) % 2)
    parts = deal_folds(rows, folds, rng, target)
    assert set(parts) == set(range(folds))
    assert np.ptp(np.bincount(parts)) <= 1
    for state in (0, 1):
        assert np.ptp(np.bincount(parts[target == state], minlength=folds)) <= 2


def test_cut_points_of_a_fold_are_learned_in_it():
    data = read_data_with_target({"x": [1.0, 2, 3, 4, 11, 12, 13, 14], "c": list("aaaabbbb")}, "c", "multinomial", None)
    assert as_discrete(data.variable("x")).cuts == (7.5,)
    part = _discretize_again(data.take([0, 1, 2, 5, 6, 7]), "c")
    assert as_discrete(part.variable("x")).cuts == (7.5,)
    part = _discretize_again(data.take([0, 1, 2, 3, 6, 7] * 2), "c")
    assert as_discrete(part.variable("x")).cuts == (8.5,)
    assert part.variable("c") == data.variable("c")
    # a discretized target keeps its states, whatever the fold
    data = read_data_with_target({"x": np.arange(50.0), "y": np.arange(50.0)}, "y", "multinomial", None)
    part = _discretize_again(data.take(np.arange(25)), "y")
    assert part.variable("y") == data.variable("y")
    assert as_discrete(part.variable("x")).cuts != as_discrete(data.variable("x")).cuts
