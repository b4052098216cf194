"""`partial_fit`: batches add up to what one table teaches."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pandas as pd
import pytest
from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("sklearn", reason="the estimators need scikit-learn")

from narrowing import as_discrete
from sklearn.base import clone

import hybridbn as hb
from hybridbn.errors import NetworkError, TableError
from hybridbn.estimators import HybridClassifier, HybridRegressor, base
from hybridbn.structures import naive_bayes, tan


def data(rows: int = 90) -> tuple[pd.DataFrame, Any]:
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, rows)
    frame = pd.DataFrame(
        {
            "c": pd.Categorical(rng.choice(["a", "b"], rows), categories=["a", "b", "z"]),
            "flag": rng.random(rows) < 0.3,
            "x": rng.normal(size=rows) + y,
            "k": rng.integers(0, 5, rows),
        }
    )
    frame.loc[::9, "x"] = np.nan
    return frame, y


@settings(max_examples=examples(12), deadline=None)
@given(cuts=st.lists(st.integers(2, 88), max_size=4, unique=True), weighted=st.booleans())
def test_batches_add_up(cuts: list[int], weighted: bool) -> None:
    frame, y = data()
    weights = np.arange(90) % 3 if weighted else np.ones(90)
    ends = [0, *sorted(cuts), 90]
    for kind in (HybridClassifier, HybridRegressor):
        whole, parts = kind("naive_bayes", potentials="gaussian"), kind("naive_bayes", potentials="gaussian")
        whole.fit(frame, y, sample_weight=weights if weighted else None)
        target, options = (y, {"classes": [0, 1, 2]}) if kind is HybridClassifier else (y.astype(float), {})
        if kind is HybridRegressor:
            ends = [end for end in ends if end == 0 or end >= 10]  # the first rows need targets that differ
        for start, end in itertools.pairwise(ends):
            rows = slice(start, end)
            if weights[rows].any():
                parts.partial_fit(
                    frame[rows], target[rows], sample_weight=weights[rows] if weighted else None, **options
                )
        np.testing.assert_allclose(parts.predict(frame), whole.predict(frame), rtol=1e-8)
        assert list(parts.network_) == list(whole.network_)


@pytest.mark.parametrize("potentials", ["gaussian", "multinomial", "auto", "kernel"])
def test_every_family_streams(potentials: str) -> None:
    frame, y = data()
    whole = HybridClassifier("naive_bayes", potentials=potentials).fit(frame, y)  # type: ignore[arg-type]
    parts = HybridClassifier("naive_bayes", potentials=potentials).partial_fit(frame, y, classes=[0, 1, 2])  # type: ignore[arg-type]
    np.testing.assert_allclose(parts.predict_proba(frame), whole.predict_proba(frame), rtol=1e-12)
    by_builder = naive_bayes(frame.assign(y=pd.Categorical(y)), "y", potentials=potentials)  # type: ignore[arg-type]
    np.testing.assert_allclose(
        whole.predict_proba(frame), as_discrete(by_builder.posterior("y", frame)).probabilities, rtol=1e-12
    )
    if potentials != "multinomial":  # cut points are those of the first rows
        halves = HybridClassifier("naive_bayes", potentials=potentials)  # type: ignore[arg-type]
        halves.partial_fit(frame[:40], y[:40], classes=[0, 1, 2])
        halves.partial_fit(frame[40:], y[40:])
        np.testing.assert_allclose(halves.predict_proba(frame), whole.predict_proba(frame), rtol=1e-9)


def test_fit_can_be_gone_on_from_unless_rows_were_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    frame, y = data()
    whole = HybridClassifier("naive_bayes", potentials="gaussian").fit(frame, y)
    model = (
        HybridClassifier("naive_bayes", potentials="gaussian").fit(frame[:50], y[:50]).partial_fit(frame[50:], y[50:])
    )
    np.testing.assert_allclose(model.predict_proba(frame), whole.predict_proba(frame), rtol=1e-9)
    # fit starts anew
    again = model.fit(frame, y)
    np.testing.assert_array_equal(again.predict_proba(frame), whole.predict_proba(frame))
    monkeypatch.setattr(base, "_KEPT", 10)
    model = HybridClassifier("naive_bayes", potentials="gaussian").fit(frame, y)
    with pytest.raises(NetworkError, match="can't go on from this fit"):
        model.partial_fit(frame, y)


def test_the_default_learns_naive_bayes_from_batches() -> None:
    frame, y = data(30)
    for kind, target, options in ((HybridClassifier, y, {"classes": [0, 1, 2]}), (HybridRegressor, 1.0 * y, {})):
        batches = kind().partial_fit(frame[:20], target[:20], **options).partial_fit(frame[20:], target[20:])
        np.testing.assert_allclose(
            batches.predict(frame), kind("naive_bayes").fit(frame, target).predict(frame), rtol=1e-9
        )
        whole = kind().fit(frame, target)
        with pytest.raises(AttributeError) as missing:
            whole.partial_fit(frame, target)
        assert "builder='auto' needs all rows at once" in str(missing.value.__cause__)


def test_only_known_structures_stream() -> None:
    assert hasattr(HybridClassifier(), "partial_fit")
    assert not hasattr(HybridClassifier(boost=2), "partial_fit")
    assert not hasattr(HybridClassifier(missing="em"), "partial_fit")
    assert not hasattr(HybridClassifier(tan), "partial_fit")
    assert not hasattr(HybridRegressor([("y", "x")]), "partial_fit")


def test_a_constant_column_may_vary_later() -> None:
    model = HybridClassifier("naive_bayes", potentials="gaussian")
    model.partial_fit([[1.0, 5.0], [2.0, 5.0]], [0, 1], classes=[0, 1])
    assert model.constant_features_.tolist() == ["x1"]
    assert list(model.network_) == ["y", "x0"]
    model.partial_fit([[3.0, 5.0], [2.0, 6.0]], [1, 0])
    assert model.constant_features_.tolist() == []
    assert list(model.network_) == ["y", "x0", "x1"]


def test_one_row_at_a_time() -> None:
    frame, y = data(30)
    model = HybridClassifier("naive_bayes", potentials="gaussian")
    for row in range(30):
        model.partial_fit(frame[row : row + 1].assign(x=float(row)), y[row : row + 1], classes=[0, 1, 2])
    whole = HybridClassifier("naive_bayes", potentials="gaussian").fit(frame.assign(x=np.arange(30.0)), y)
    np.testing.assert_allclose(model.predict_proba(frame), whole.predict_proba(frame), rtol=1e-9)


def test_classes_and_categories_are_those_of_the_first_call() -> None:
    frame, y = data()
    model = HybridClassifier("naive_bayes", potentials="gaussian")
    with pytest.raises(TableError, match="classes must be passed on the first call"):
        model.partial_fit(frame, y)
    model.partial_fit(frame[:10], y[:10], classes=[0, 1, 2, 5])
    assert model.classes_.tolist() == [0, 1, 2, 5]
    assert model.predict_proba(frame).shape == (90, 4)
    with pytest.raises(TableError, match="y, row 0: 7 is not among the classes"):
        model.partial_fit(frame[:1], [7])
    with pytest.raises(TableError, match="are not those of the first call"):
        model.partial_fit(frame[:1], [1], classes=[0, 1])
    with pytest.warns(UserWarning, match="'c': 'new'"):
        model.partial_fit(frame[10:12].assign(c="new"), y[10:12])
    model.partial_fit(frame[10:12].assign(c="z"), y[10:12])  # a level of the type
    regressor = HybridRegressor("naive_bayes", potentials="gaussian")
    with pytest.raises(TableError, match="1 sample"):
        regressor.partial_fit(frame[:1], [1.0])


def test_rows_with_their_target_teach_what_features_and_target_do() -> None:
    frame, y = data()
    rows = hb.Table(frame.assign(target=y), discrete=["target"], weights=np.arange(90) % 3)
    classifier = HybridClassifier("naive_bayes", potentials="gaussian")
    wanted = clone(classifier).fit(frame, y, sample_weight=np.arange(90) % 3)
    found = clone(classifier).fit(rows, "target")
    assert list(found.feature_names_in_) == list(frame)
    assert found.classes_.tolist() == [0, 1, 2]
    np.testing.assert_allclose(found.predict_proba(frame), wanted.predict_proba(frame), rtol=1e-9)
    with pytest.raises(TableError, match="y='k' is a column of numbers"):
        clone(classifier).fit(rows, "k")
    with pytest.raises(TableError, match="must be the name of a column of X"):
        clone(classifier).set_params(target="k").fit(rows, "target")
    regressor = HybridRegressor("naive_bayes", potentials="gaussian")
    numbers = hb.Table(frame.assign(target=y.astype(float)), continuous=["target"], weights=np.arange(90) % 3)
    wanted = clone(regressor).fit(frame, y.astype(float), sample_weight=np.arange(90) % 3)
    np.testing.assert_allclose(clone(regressor).fit(numbers, "target").predict(frame), wanted.predict(frame), rtol=1e-9)
