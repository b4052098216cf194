"""Bias and variance of classifiers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

import hybridbn as hb
from hybridbn.learning.repeated_estimates import bias_variance


class Coin:
    """Predicts without looking."""

    def __init__(self, seed: int | None) -> None:
        self.rng = None if seed is None else np.random.default_rng(seed)

    def fit(self, X: Any, y: Any) -> None:
        self.first = y[0]
        assert len(X) == len(y)

    def predict(self, X: Any) -> Any:
        return np.full(len(X), 1) if self.rng is None else self.rng.integers(0, 2, len(X))


def test_a_constant_has_no_variance() -> None:
    y = np.array([0, 0, 1, 1, 1])
    found = bias_variance(Coin(None), np.zeros((5, 1)), y, repeats=3, folds=2)
    assert (found.error, found.bias, found.variance) == pytest.approx((0.4, 0.4, 0))
    assert found.errors.tolist() == pytest.approx([0.4] * 3)


def test_formula_by_hand() -> None:
    answers = iter(np.array([[0, 0], [0, 1], [1, 0], [1, 1], [0, 1], [1, 0]]))

    class Told(Coin):
        def predict(self, X: Any) -> Any:
            return next(answers)

    y = np.array([0, 1, 0, 1])
    found = bias_variance(lambda: Told(None), [[0], [1], [2], [3]], y, repeats=3, folds=2, random_state=5)
    # each case was given to some class three times; the decomposition holds whatever these were
    assert found.bias + found.variance == pytest.approx(found.error)
    assert 0 < found.variance < 0.5


def test_chance_is_half_bias_and_half_variance() -> None:
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 300)
    made = iter(range(1000))
    found = bias_variance(lambda: Coin(next(made)), np.zeros((300, 1)), y, repeats=40, folds=2)
    assert found.error == pytest.approx(0.5, abs=0.02)
    assert found.bias == pytest.approx(0.25, abs=0.02)
    assert found.variance == pytest.approx(0.25, abs=0.02)


@pytest.mark.parametrize("kind", ["frame", "array", "table", "polars"])
@pytest.mark.parametrize("stratified", [False, True])
def test_data_of_any_kind(kind: str, stratified: bool) -> None:
    rng = np.random.default_rng(1)
    y = np.where(rng.random(60) < 0.5, "p", "n")
    frame = pd.DataFrame({"a": (y == "p") + rng.normal(size=60), "b": rng.normal(size=60)})
    if kind == "polars":
        data: Any = pytest.importorskip("polars").from_pandas(frame)
    else:
        data = {"frame": frame, "array": frame.to_numpy(), "table": hb.Table(frame)}[kind]
    classifier = hb.HybridClassifier("naive_bayes", potentials="gaussian")
    found = bias_variance(classifier, data, y, repeats=2, stratified=stratified)
    assert found.error < 0.5
    assert found.bias + found.variance == pytest.approx(found.error)
    assert not hasattr(classifier, "classes_")
    again = bias_variance(classifier, data, y, repeats=2, stratified=stratified)
    assert (again.errors == found.errors).all()


def test_bad_input() -> None:
    X, y = np.zeros((6, 1)), np.array([0, 1] * 3)
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"repeats": 0}, "repeats"),
        ({"folds": 1}, "folds"),
        ({"folds": 7}, "6 rows"),
    ]
    for options, text in wrong:
        with pytest.raises(hb.TableError, match=text):
            bias_variance(Coin(None), X, y, **options)
    with pytest.raises(hb.TableError, match="one class for each"):
        bias_variance(Coin(None), X, y[:3])
    with pytest.raises(hb.TableError, match="fit and predict"):
        bias_variance(3, X, y)
    with pytest.raises(hb.TableError, match="not among the classes"):
        bias_variance(Coin(None), X, y + 5)
