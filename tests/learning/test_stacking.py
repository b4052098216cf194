"""Weighing several networks by held-out rows, alone and in the classifier."""

from __future__ import annotations

from functools import partial

import numpy as np
import pandas as pd
import pytest
from narrowing import as_discrete, as_kind

import hybridbn as hb
from hybridbn.errors import NetworkError
from hybridbn.estimators import HybridClassifier
from hybridbn.learning.ensemble import _LEAST_POOLED, fit_pool
from hybridbn.structures import automatic, logistic, naive_bayes


def noisy(rows: int = 300, seed: int = 0) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(rows, 2))
    c = np.where(x @ [1.0, 1.0] + rng.logistic(size=rows) > 0, "p", "n")
    return {"x": x[:, 0], "copy": x[:, 0], "again": x[:, 0], "z": x[:, 1], "c": c}


def frame_of(data: dict[str, np.ndarray]) -> tuple[pd.DataFrame, pd.Series]:
    frame = pd.DataFrame(data)
    return frame.drop(columns="c"), frame["c"]


def test_a_network_that_is_too_sure_gets_a_smaller_weight():
    data, fresh = noisy(), noisy(2000, seed=1)
    ensemble = hb.stack(data, "c", candidates=[(naive_bayes, "gaussian"), (naive_bayes, "multinomial")])
    alone = naive_bayes(data, "c", "gaussian")
    table = hb.Table({name: column for name, column in fresh.items() if name != "c"})
    truth = fresh["c"] == "p"

    def loss(told: np.ndarray) -> float:
        return float(-np.log(np.where(truth, told, 1 - told)).mean())

    pooled = loss(ensemble.posterior(table).probability("p"))
    assert ensemble.votes[:-1].sum() < 0.8
    assert pooled < loss(as_discrete(alone.posterior("c", table)).probability("p")) - 0.05


def test_no_sure_member_overrules_the_others():
    c, x = hb.Discrete("c", ("a", "b")), hb.Continuous("x")

    def normal(spread: float) -> hb.Network:
        family = hb.LinearGaussian(x, (c,), intercept=[-1.0, 1.0], variance=[spread, spread])
        return hb.Network([hb.Multinomial(c, table=[0.5, 0.5]), family])

    even, ruled_out = (hb.Network([hb.Multinomial(c, table=table)]) for table in ([0.5, 0.5], [1.0, 0.0]))
    far = {"x": -50.0}
    for spread in (1.0, 1e-6):
        told = hb.Ensemble([normal(100.0), normal(spread), even], np.array([1.0, 0.1, 1.0]), "c", "pool").posterior(far)
        alone = np.log(as_discrete(normal(100.0).posterior("c", far)).probabilities) @ [1, -1]
        assert np.log(told.probabilities) @ [1, -1] == pytest.approx(alone - 0.1 * np.log(_LEAST_POOLED))
    # what is known of the class alone holds
    told = hb.Ensemble([normal(1.0), ruled_out], np.ones(2), "c", "pool").posterior({"x": 50.0})
    assert told.probability("b") == pytest.approx(0, abs=1e-200)


def test_the_weights_are_those_of_the_greatest_likelihood():
    rng = np.random.default_rng(0)
    scores = rng.normal(size=(2, 4000, 3))
    scores -= np.log(np.exp(scores).sum(axis=2, keepdims=True))
    wanted, bias = np.array([0.5, 1.5]), np.array([0.4, 0.0, -0.4])
    chances = np.exp(np.tensordot(wanted, scores, 1) + bias)
    chances /= chances.sum(axis=1, keepdims=True)
    truth = (chances.cumsum(axis=1) < rng.random((4000, 1))).sum(axis=1)
    votes, found_bias = fit_pool(scores, truth, np.ones(4000))
    np.testing.assert_allclose(votes, wanted, atol=0.12)
    np.testing.assert_allclose(found_bias - found_bias.mean(), bias, atol=0.1)
    twice = fit_pool(scores, truth, np.full(4000, 2.0))[0]
    np.testing.assert_allclose(twice, fit_pool(scores.repeat(2, axis=1), truth.repeat(2), np.ones(8000))[0], atol=1e-4)


def test_without_findings_classes_are_as_frequent_as_in_the_rows():
    rng = np.random.default_rng(0)
    c = np.where(rng.random(60) < 0.8, "often", "rarely")
    x, z = np.where(c == "often", 0.0, 2.0) + rng.normal(size=(2, 60))
    told = hb.stack({"x": x, "z": z, "c": c}, "c").posterior().probability("often")
    assert told == pytest.approx((c == "often").mean(), abs=0.05)


def test_a_pool_is_saved_explained_and_deterministic(tmp_path):
    data = noisy(80)
    ensemble, again = (hb.stack(data, "c", candidates=["logistic", "naive_bayes"]) for _ in range(2))
    assert repr(ensemble).endswith("for 'c': a logarithmic pool>")
    np.testing.assert_array_equal(ensemble.votes, again.votes)
    ensemble.save(tmp_path / "pool.hbn")
    case = {"x": 1.0, "z": None, "copy": 0.5}
    loaded = as_kind(hb.Ensemble, hb.load(tmp_path / "pool.hbn"))
    np.testing.assert_array_equal(loaded.posterior(case).probabilities, ensemble.posterior(case).probabilities)
    explained = ensemble.explain({"x": 1.0, "z": 2.0})
    assert explained.prior + sum(explained.weights.values()) == pytest.approx(explained.log_odds)
    chances = np.log(as_discrete(loaded.networks[0].posterior("c", {"x": 1.0})).probabilities)
    rest = [
        np.log(as_discrete(net.posterior("c", {"x": 1.0} if "x" in net else {})).probabilities)
        for net in loaded.networks[1:]
    ]
    total = np.tensordot(loaded.votes, np.stack([chances, *rest]), 1)
    np.testing.assert_allclose(loaded.posterior({"x": 1.0}).probabilities, np.exp(total) / np.exp(total).sum())


def test_the_automatic_classifier_is_a_pool_that_takes_holes_and_priors():
    features, classes = frame_of(noisy(100))
    model = HybridClassifier().fit(features, classes)
    assert model.ensemble_.algorithm == "pool"
    assert model.network_ is model.ensemble_.networks[0]
    holes = features.mask(np.random.default_rng(0).random(features.shape) < 0.3)
    told = model.predict_proba(holes)
    assert np.isfinite(told).all()
    assert np.mean(model.predict(features) == classes) > 0.65
    odds = np.log(told[:, 1] / told[:, 0])
    rare = HybridClassifier("auto", priors={"n": 0.9, "p": 0.1}).fit(features, classes).predict_proba(holes)
    shift = np.log(rare[:, 1] / rare[:, 0]) - odds
    share = np.mean(classes == "p")
    np.testing.assert_allclose(shift, np.log(0.1 / 0.9) - np.log(share / (1 - share)), atol=1e-6)


def test_stacking_has_options_in_the_classifier_and_refuses_what_it_can_not():
    features, classes = frame_of(noisy(60))
    model = HybridClassifier(partial(hb.stack, candidates=[logistic, naive_bayes])).fit(features, classes)
    assert {net.graph.get("chosen", "").split(",")[0] for net in model.ensemble_.networks} <= {
        "logistic",
        "naive_bayes",
        "",
    }
    features.iloc[0, 0] = np.nan
    with pytest.raises(NetworkError, match="single network"):
        HybridClassifier("auto", missing="em").fit(features, classes)
    for options in ({"effort": 0}, {"seconds": 0}, {"seconds": True}, {"folds": 1}):
        with pytest.raises(NetworkError, match=f"{next(iter(options))} must be"):
            hb.stack(noisy(60), "c", **options)


def test_there_is_a_result_when_the_time_is_over():
    net = automatic(noisy(60), "c", seconds=1e-9)
    assert net.graph["chosen"] == "logistic correlated=True, auto"
    assert list(net.graph["losses"]) == [net.graph["chosen"]]


def test_few_rows_and_a_class_alone_can_be_stacked():
    assert len(hb.stack({"x": [1.0, 2.0, 3.0, 4.0], "c": ["a", "b", "a", "b"]}, "c")) == 1
    assert hb.stack({"c": ["a", "a", "b"] * 5}, "c").predict({}) == "a"
