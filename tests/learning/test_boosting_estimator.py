"""`HybridClassifier(boost=...)`."""

from __future__ import annotations

import warnings
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import pytest
from narrowing import as_kind
from sklearn.base import clone
from sklearn.model_selection import cross_val_score

import hybridbn as hb
from hybridbn.fitting.cross_validation import deal_folds
from hybridbn.structures import nb_tree, tan


def data(rows: int = 300, classes: int = 2) -> tuple[pd.DataFrame, np.ndarray[Any, Any]]:
    rng = np.random.default_rng(0)
    X = pd.DataFrame(
        {"a": rng.choice(["p", "q", "r"], rows), "b": rng.normal(size=rows), "c": rng.choice(["u", "v"], rows)}
    )
    y = ((X.a == "p").to_numpy() ^ (X.c == "u").to_numpy()) + (X.b > 1).to_numpy()
    X.loc[::9, "a"] = None
    return X, np.array(["no", "yes", "maybe"])[y % classes]


@pytest.mark.parametrize("classes", [2, 3])
def test_it_is_the_ensemble_of_boost(classes: int) -> None:
    X, y = data(classes=classes)
    model = hb.HybridClassifier(boost=8, calibrated=False).fit(X, y)
    expected = hb.boost(X.assign(y=y), "y", rounds=8)
    np.testing.assert_allclose(model.ensemble_.votes, expected.votes)
    np.testing.assert_allclose(model.predict_proba(X), expected.posterior(X).probabilities)
    assert model.classes_.tolist() == sorted(set(y))
    assert (model.predict(X) == expected.predict(X)).all()
    assert model.network_ is model.ensemble_.networks[0]
    assert not hasattr(model, "partial_fit")


@pytest.mark.parametrize(
    "build", [tan, partial(nb_tree, max_depth=2), [("y", "a"), ("y", "c"), ("a", "c"), ("y", "b")]]
)
def test_structures(build: Any) -> None:
    X, y = data()
    model = hb.HybridClassifier(build, boost=6)
    assert cross_val_score(model, X, y, cv=3).mean() > 0.8


def test_weights_and_priors() -> None:
    X, y = data()
    weights = np.where(y == "yes", 2.0, 1.0)
    model = hb.HybridClassifier(boost=4, calibrated=False).fit(X, y, weights)
    expected = hb.boost(X.assign(y=y), "y", rounds=4, weights=weights)
    np.testing.assert_allclose(model.ensemble_.votes, expected.votes)
    for priors in ([0.2, 0.8], {"yes": 0.8, "no": 0.2}):
        model = hb.HybridClassifier(boost=1, priors=priors).fit(X, y)
        assert as_kind(hb.Multinomial, model.network_.potential("y")).table == pytest.approx([0.2, 0.8], abs=0.01)
    with pytest.raises(hb.TableError, match="priors"):
        hb.HybridClassifier(boost=1, priors=[0.2, 0.9]).fit(X, y)


def test_other_ways_in_and_out() -> None:
    X, y = data()
    model = hb.HybridClassifier(boost=3).fit(X, y)
    assert not hasattr(clone(model).set_params(boost=None, builder="naive_bayes").fit(X, y), "ensemble_")
    assert not hasattr(model.set_params(boost=None, builder="naive_bayes").fit(X, y), "ensemble_")
    one = hb.HybridClassifier(boost=3).fit(X, np.full(len(X), "only"))
    assert set(one.predict(X)) == {"only"}
    with pytest.warns(UserWarning, match="same value"):
        hb.HybridClassifier(boost=3).fit(X.assign(same=1.0), y)
    with pytest.raises(hb.TableError, match="rounds"):
        hb.HybridClassifier(boost=0).fit(X, y)


def test_arrays() -> None:
    rng = np.random.default_rng(2)
    y = rng.integers(0, 3, 120)
    X = rng.normal(size=(120, 3)) + y[:, None]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = hb.HybridClassifier(boost=5).fit(X, y)
    assert (model.predict(X) == y).mean() > 0.7
    assert model.classes_.dtype == y.dtype
    X[:, 0] = np.nan
    assert model.predict_proba(X).shape == (120, 3)


def test_probabilities_are_calibrated_and_predictions_stay() -> None:
    X, y = data(rows=600)
    y = np.where(np.random.default_rng(1).random(600) < 0.2, np.where(y == "yes", "no", "yes"), y)
    plain, model = (
        hb.HybridClassifier(nb_tree, boost=20, calibrated=scaled).fit(X[:300], y[:300]) for scaled in (False, True)
    )
    assert (model.predict(X) == plain.predict(X)).all()
    rows, columns = np.arange(300), (y[300:] == "yes").astype(int)
    losses = [-np.log(net.predict_proba(X[300:])[rows, columns]).mean() for net in (plain, model)]
    assert losses[1] < min(0.69, losses[0] - 0.02)
    shares = model.ensemble_.votes / plain.ensemble_.votes
    np.testing.assert_allclose(shares, shares[0])


def test_boosting_is_calibrated_where_folds_lack_a_column() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=30)
    rare = np.full(30, None, dtype=object)
    rare[deal_folds(30, 3, np.random.default_rng(0), x > 0) == 1] = "seen"
    X = pd.DataFrame({"x": x, "rare": rare})
    for potentials in ("auto", {"rare": "multinomial"}):
        model = hb.HybridClassifier(nb_tree, boost=3, potentials=potentials).fit(X, x > 0)  # type: ignore[arg-type]
        assert model.score(X, x > 0) > 0.9
