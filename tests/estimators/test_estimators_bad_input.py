"""The estimators: values never seen before, options and targets that make no sense, and the catalog of bad inputs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import badinputs
import numpy as np
import pandas as pd
import pytest

pytest.importorskip("sklearn", reason="the estimators need scikit-learn")

from sklearn.exceptions import NotFittedError
from test_estimators import Classifier, Regressor, mixed, numbers

import hybridbn as hb
from hybridbn.errors import HybridBNError, NetworkError, TableError
from hybridbn.estimators import HybridClassifier, HybridRegressor
from hybridbn.estimators.base import read_against

# --- what prediction makes of strange values --------------------------------------------------------------------------


def test_unseen_categories() -> None:
    frame, y = mixed()
    model = Classifier().fit(frame, y)
    new = frame.iloc[:6].assign(group=["a", "z", "q", None, "z", "a"], count=[1, 2, 3, 1, 2, 3])
    with pytest.warns(
        UserWarning, match=r"'group': 'z', 'q' \(first in row 1, 3 cells in all\) are no states seen in fit"
    ) as caught:
        found = model.predict_proba(new)
    assert len(caught) == 1
    assert Path(caught[0].filename) == Path(__file__)
    np.testing.assert_array_equal(found, model.predict_proba(new.assign(group=["a", None, None, None, None, "a"])))
    strict = Classifier(handle_unknown="error").fit(frame, y)
    with pytest.raises(TableError, match="handle_unknown='missing' would"):
        strict.predict(new)
    strict.predict(new.iloc[[0, 3, 5]])
    for handle in ("missing", "error"):
        with pytest.raises(TableError, match="1 is of type number, but the states seen in fit are of type text"):
            model.set_params(handle_unknown=handle).predict(frame.assign(group=1))
        with pytest.raises(TableError, match="'x', row 0: 'low' is not a number"):
            model.predict(frame.assign(x="low"))


def test_all_columns_with_unknown_states_are_named() -> None:
    variables = [hb.Discrete(name, ("u", "v")) for name in "ab"]
    with pytest.raises(TableError, match=r"'a': 'zz' .*; .*'b': 'q' "):
        read_against(pd.DataFrame({"a": ["u", "zz"], "b": ["v", "q"]}), variables, "error")


def test_columns_must_be_those_of_fit() -> None:
    frame, y = mixed()
    model = Classifier().fit(frame, y)
    for other in (frame.drop(columns="x"), frame.assign(more=1), frame[["x", "group", "count", "flag"]]):
        with pytest.raises(ValueError, match="feature names should match"):
            model.predict(other)
    with pytest.raises(NotFittedError):
        Classifier().predict(frame)


# --- refusals ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"builder": "tann"}, "builder='tann' is not known; did you mean 'tan'"),
        ({"builder": 3}, "builder must be a builder such as"),
        ({"builder": [("x", "y", "z")]}, "builder must be a builder such as"),
        ({"builder": lambda table, target, potentials="auto": 3}, "must return a Network, not 3"),
        ({"handle_unknown": "ignore"}, "handle_unknown must be 'missing' or 'error'"),
        ({"potentials": "gausian"}, "did you mean 'gaussian'"),
        ({"potentials": {"z": "gaussian"}}, "there is no column 'z'"),
        ({"discrete": "z"}, "there is no such column"),
        ({"target": 3}, "target must be the name"),
    ],
)
def test_options_are_checked_in_fit(options: dict[str, Any], message: str) -> None:
    frame, y = mixed()
    model = Classifier(**options)
    with pytest.raises(HybridBNError, match=message):
        model.fit(frame, y)


def test_a_regressor_wants_a_number() -> None:
    frame, y = numbers()
    with pytest.raises(TableError, match="point must be"):
        Regressor(point="mode").fit(frame, y)  # type: ignore[arg-type]
    with pytest.raises(NetworkError, match="no number to predict"):
        HybridRegressor("naive_bayes", potentials="multinomial").fit(frame, y)
    with pytest.raises(ValueError, match="could not convert"):
        Regressor().fit(frame, ["a"] * len(y))


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (["a", None, "b"], "y, row 1: the class is missing"),
        ([1.0, 2.0, np.nan], "y, row 2: the class is missing"),
        ([1.0, np.inf, 2.0], "y, row 1: the class is infinite"),
        (["a", 1, "b"], "y mixes classes of several types"),
        ([0.5, 1.5, 2.5], "continuous"),
        (None, "requires y to be passed"),
        (["a", "b"], "inconsistent numbers of samples"),
    ],
)
def test_bad_classes_are_refused(y: Any, message: str) -> None:
    labels = np.array(y, dtype=object) if y and any(isinstance(item, str) for item in y) else y
    with pytest.raises(ValueError, match=message):
        Classifier().fit([[1.0], [2.0], [4.0]], labels)


def bad_inputs() -> list[Any]:
    found = []
    for name, area, factory, _ in badinputs.CASES:
        # the two large ones are about time and memory, which builders and fitters answer for
        if area not in ("data", "weights", "predict") or name in ("huge cardinality", "CPT too large"):
            continue
        families = ("auto", "gaussian")
        found += [pytest.param(family, area, factory, id=f"{name}-{family}") for family in families]
    return found


@pytest.mark.parametrize(("family", "area", "factory"), bad_inputs())
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_bad_inputs_are_refused_or_answered_properly(family: str, area: str, factory: Any, tmp_path: Path) -> None:
    given = factory(tmp_path)
    weights = None
    train = new = given
    if area == "weights":
        train, weights = given
        new = train
    elif area == "predict":
        train, new = given
    before = train.copy() if isinstance(train, pd.DataFrame) else None
    features = train.drop(columns="y") if isinstance(train, pd.DataFrame) and "y" in train else train
    y = train["y"] if isinstance(train, pd.DataFrame) and "y" in train else list("uvuvuv")[: len(train)]
    try:
        model = HybridClassifier("naive_bayes", potentials=family).fit(features, y, sample_weight=weights)  # type: ignore[arg-type]
        found = model.predict_proba(new.drop(columns="y") if isinstance(new, pd.DataFrame) and "y" in new else new)
    except (ValueError, TypeError) as error:
        refusal = str(error)
    else:
        refusal = ""
        assert np.isfinite(found).all()
        np.testing.assert_allclose(found.sum(axis=1), 1.0)
    assert not refusal or len(refusal) > 20
    if before is not None:
        pd.testing.assert_frame_equal(train, before)
