"""The imputer for scikit-learn: fit once, complete other tables."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("sklearn", reason="the imputer needs scikit-learn")

from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

import hybridbn as hb

pytestmark = pytest.mark.filterwarnings("ignore:.* rows have no observed cell")


def frame(n: int = 150, seed: int = 0, rate: float = 0.25) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=n)
    kind = np.select([x < -0.5, x < 0.5], ["low", "middle"], "high")
    made = pd.DataFrame({"x": x, "y": x + rng.normal(size=n), "kind": kind, "count": rng.poisson(5, n).astype(float)})
    return made.mask(rng.random(made.shape) < rate)


@pytest.fixture(scope="module")
def imputer() -> hb.Imputer:
    return hb.Imputer(random_state=0).fit(frame())


def test_new_rows_are_completed(imputer: hb.Imputer) -> None:
    new = frame(seed=1)
    filled = imputer.transform(new)
    assert not filled.isna().any().any()
    assert (filled.dtypes == new.dtypes).all()
    for name in new:
        assert (filled[name] == new[name])[new[name].notna()].all()
    assert (filled["count"] % 1 == 0).all()
    assert isinstance(imputer.network_, hb.Network)


def test_rows_do_not_depend_on_their_batch(imputer: hb.Imputer) -> None:
    new = frame(seed=1)
    new["y"] = np.linspace(-2, 2, len(new))
    whole = imputer.transform(new)
    for size in (1, 13):
        parts = [imputer.transform(new[i : i + size]) for i in range(0, 39, size)]
        pd.testing.assert_frame_equal(pd.concat(parts), whole[:39])
    pd.testing.assert_frame_equal(imputer.transform(new[::-1])[::-1], whole)


def test_a_subset_of_the_categories_is_no_obstacle(imputer: hb.Imputer) -> None:
    new = pd.DataFrame(
        {"x": [2.5, -2.5], "y": [2.0, -2.0], "kind": pd.Categorical([None, "low"]), "count": [3.0, None]}
    )
    filled = imputer.transform(new)
    assert filled["kind"].tolist() == ["high", "low"]
    assert set(filled["kind"].cat.categories) == {"low", "high"}
    all_missing = new.assign(kind=[None, None])
    assert not imputer.transform(all_missing).isna().any().any()


def test_categories_never_seen_stay_and_say_nothing(imputer: hb.Imputer) -> None:
    new = pd.DataFrame({"x": [None, 0.5], "y": [1.0, 1.0], "kind": ["huge", "low"], "count": [3.0, 4.0]})
    new["x"] = new["x"].astype(float)
    with pytest.warns(UserWarning, match="columns 'kind' hold 1 values that the model has never seen"):
        filled = imputer.transform(new)
    assert filled["kind"].tolist() == ["huge", "low"]
    assert filled["x"].notna().all()
    strict = clone(imputer).set_params(handle_unknown="error").fit(frame())
    with pytest.raises(hb.TableError, match="'kind', row 0: 'huge' is not a state"):
        strict.transform(new)


def test_other_columns_are_refused(imputer: hb.Imputer) -> None:
    with pytest.raises(ValueError, match="feature names should match"):
        imputer.transform(frame().rename(columns={"x": "z"}))
    with pytest.raises(ValueError, match="'x'"):
        imputer.transform(frame().assign(x="text"))


def test_arrays_and_other_frames_come_back_as_they_were() -> None:
    polars = pytest.importorskip("polars")
    array = frame()[["x", "y", "count"]].to_numpy()
    before = array.copy()
    filled = hb.Imputer(random_state=0).fit_transform(array)
    assert isinstance(filled, np.ndarray)
    assert filled.dtype == array.dtype
    np.testing.assert_array_equal(array, before)
    assert not np.isnan(filled).any()
    rows = polars.from_pandas(frame(), nan_to_null=True)
    assert hb.Imputer(random_state=0).fit_transform(rows).schema == rows.schema


def test_names_and_indicators() -> None:
    imputer = hb.Imputer(indicators=True, random_state=0).fit(frame())
    filled = imputer.transform(frame(seed=1))
    assert list(filled.columns) == imputer.get_feature_names_out().tolist()
    assert (filled["x_imputed"] == frame(seed=1)["x"].isna()).all()


def test_strategies() -> None:
    new = frame(20, seed=1)
    best = hb.Imputer("most_probable", random_state=0).fit(frame()).transform(new)
    mean = hb.Imputer("mean", random_state=0).fit(frame()).transform(new)
    assert not best.isna().any().any()
    assert not mean.isna().any().any()
    with pytest.raises(hb.TableError, match="strategy must be"):
        hb.Imputer("median").fit(frame())  # type: ignore[arg-type]


def test_it_can_be_pickled_cloned_and_put_into_a_pipeline(imputer: hb.Imputer) -> None:
    new = frame(30, seed=1)
    again: Any = pickle.loads(pickle.dumps(imputer))
    pd.testing.assert_frame_equal(again.transform(new), imputer.transform(new))
    pd.testing.assert_frame_equal(clone(imputer).fit(frame()).transform(new), imputer.transform(new))
    numbers = frame()[["x", "y"]]
    model = make_pipeline(hb.Imputer(random_state=0), LogisticRegression())
    assert model.fit(numbers, frame(rate=0)["kind"] == "high").score(numbers, frame(rate=0)["kind"] == "high") > 0.8


def test_options_that_are_set_after_fit_are_checked_before_use() -> None:
    frame = pd.DataFrame({"x": [1.0, 2.0, None, 4.0, 5.0], "y": [1.0, 2.0, 3.0, 4.5, 5.0]})
    imputer = hb.Imputer(random_state=0).fit(frame)
    for option, value in (("strategy", "median"), ("handle_unknown", "ignore")):
        before = getattr(imputer, option)
        with pytest.raises(hb.HybridBNError, match=option):
            imputer.set_params(**{option: value}).transform(frame)
        imputer.set_params(**{option: before})
    assert not imputer.transform(frame).isna().any().any()
