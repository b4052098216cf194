"""The estimators: what they read, what they learn, what they refuse, and that scikit-learn's tools can use them."""

from __future__ import annotations

import importlib.util
import pickle
import warnings
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats

pytest.importorskip("sklearn", reason="the estimators need scikit-learn")

from narrowing import as_discrete, as_kind
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.model_selection import GridSearchCV, cross_val_predict, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import hybridbn as hb
from hybridbn.errors import NetworkError, TableError
from hybridbn.estimators import HybridClassifier, HybridRegressor
from hybridbn.fitting import GaussianFitter, MaximumLikelihood, MultinomialFitter
from hybridbn.jobs import get_jobs
from hybridbn.structures import kdb, naive_bayes, tan

# the default learns several networks, which takes longer and is tested beside `hb.stack` and `automatic`
Classifier = partial(HybridClassifier, builder="naive_bayes", potentials="gaussian")
Regressor = partial(HybridRegressor, builder="naive_bayes", potentials="gaussian")


def mixed(rows: int = 200, seed: int = 0) -> tuple[pd.DataFrame, pd.Series]:
    """Features of all kinds with holes, and a class that depends on them."""
    rng = np.random.default_rng(seed)
    group, x = rng.choice(["a", "b", "c"], rows), rng.normal(size=rows)
    frame = pd.DataFrame({"group": group, "x": x, "count": rng.integers(0, 4, rows), "flag": rng.random(rows) < 0.4})
    y = pd.Series(np.where(x + (group == "b") + 0.5 * rng.normal(size=rows) > 0.5, "yes", "no"), name="sick")
    frame.loc[::7, "group"] = None
    frame.loc[1::5, "x"] = np.nan
    return frame, y


def numbers(rows: int = 300, seed: int = 1) -> tuple[pd.DataFrame, pd.Series]:
    frame, _ = mixed(rows, seed)
    rng = np.random.default_rng(seed + 1)
    y = 3 * frame["x"].fillna(0.0) + 2.0 * (frame["group"] == "b") + rng.normal(size=rows)
    return frame, y.rename("price")


# --- what is computed -------------------------------------------------------------------------------------------------


def test_naive_bayes_is_bayes_rule() -> None:
    frame, y = mixed()
    model = Classifier(potentials={"group": MultinomialFitter(estimate=MaximumLikelihood())}, target="y")
    model.set_params(potentials=dict.fromkeys(["x", "count"], "gaussian") | as_kind(dict, model.potentials))
    model.fit(frame, y)
    new = pd.DataFrame(
        {"group": ["a", None, "c"], "x": [0.5, -1.0, np.nan], "count": [1, 2, 3], "flag": [True, False, True]}
    )
    joint = np.empty((3, 2))
    for column, label in enumerate(["no", "yes"]):
        rows = frame[y == label]
        joint[:, column] = (np.sum(y == label) + 2 * 0.5) / (len(y) + 2)
        joint[:, column] *= [
            (rows["group"] == g).sum() / rows["group"].notna().sum() if pd.notna(g) else 1.0 for g in new["group"]
        ]
        share = (frame["flag"].sum() + 1) / (len(frame) + 2)
        true = (rows["flag"].sum() + 2 * share) / (len(rows) + 2)
        joint[:, column] *= np.where(new["flag"], true, 1 - true)
        for name in ("x", "count"):
            density = stats.norm(rows[name].mean(), rows[name].std(ddof=0)).pdf(new[name])
            joint[:, column] *= np.where(new[name].isna(), 1.0, density)
    expected = joint / joint.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(model.predict_proba(new), expected, rtol=1e-9)
    np.testing.assert_allclose(model.predict_log_proba(new), np.log(model.predict_proba(new)))
    assert model.predict(new).tolist() == model.classes_[expected.argmax(axis=1)].tolist()


def test_the_estimator_is_its_network() -> None:
    frame, y = mixed()
    model = Classifier().fit(frame, y)
    direct = naive_bayes(frame.assign(sick=y), "sick", potentials="gaussian")
    found = direct.posterior("sick", frame)
    np.testing.assert_array_equal(model.predict_proba(frame), as_discrete(found).probabilities)
    np.testing.assert_array_equal(model.predict_distribution(frame).entropy(), found.entropy())
    assert model.network_.explain("sick", {"x": 1.0}).target == "sick"
    frame, y = numbers()
    regressor = Regressor().fit(frame, y)
    direct = naive_bayes(frame.assign(price=y), "price", potentials="gaussian")
    np.testing.assert_allclose(regressor.predict(frame), direct.posterior("price", frame).mean(), rtol=1e-10)


def test_a_regressor_tells_the_distribution() -> None:
    frame, y = numbers(400)
    train, new, truth = frame[:300], frame[300:], y[300:]
    model = Regressor().fit(train, y[:300])
    posterior = model.predict_distribution(new)
    assert model.score(new, truth) > 0.6
    np.testing.assert_allclose(model.predict(new), posterior.mean())
    np.testing.assert_allclose(Regressor(point="median").fit(train, y[:300]).predict(new), posterior.median())
    quantiles = model.predict_quantile(new, [0.25, 0.5, 0.75])
    assert quantiles.shape == (100, 3)
    assert model.predict_quantile(new, 0.5).shape == (100,)
    assert (np.diff(quantiles, axis=1) > 0).all()
    plain = Regressor(intervals="posterior").fit(train, y[:300])
    np.testing.assert_allclose(plain.predict_interval(new, level=0.5), quantiles[:, [0, 2]])
    wide = model.predict_interval(new)
    covered = np.mean((wide[:, 0] <= truth) & (truth <= wide[:, 1]))
    assert 0.8 <= covered <= 0.98
    densities = np.array([posterior[row].log_pdf(value) for row, value in enumerate(truth)])
    np.testing.assert_allclose(model.predict_log_density(new, truth), densities, atol=1e-7)


def test_weights_are_repetitions_and_weight_zero_is_absence() -> None:
    frame, y = mixed(120)
    weights = np.arange(120) % 4
    frame.loc[weights == 0, "group"] = "only here"
    kept = weights > 0
    new = frame.assign(group="a")
    for kind, target in ((Classifier, y), (Regressor, pd.Series(np.arange(120.0) % 17))):
        weighted = kind().fit(frame, target, sample_weight=weights)
        without = kind().fit(frame[kept], target[kept], sample_weight=weights[kept])
        repeated = kind().fit(frame.loc[np.repeat(frame.index, weights)], target.repeat(weights))
        np.testing.assert_array_equal(weighted.predict(new), without.predict(new))
        assert as_discrete(weighted.network_.variable("group")).states == ("a", "b", "c")
        if isinstance(weighted, hb.HybridClassifier):
            likewise = as_kind(hb.HybridClassifier, repeated).predict_proba(new)
            np.testing.assert_allclose(weighted.predict_proba(new), likewise, rtol=1e-10)
        else:
            np.testing.assert_allclose(weighted.predict(new), repeated.predict(new), rtol=1e-8)


# --- what can be given ------------------------------------------------------------------------------------------------


def test_frames_and_arrays_of_all_kinds_say_the_same() -> None:
    frame, y = mixed()
    expected = Classifier().fit(frame, y).predict_proba(frame)
    plain = frame.astype(object).where(frame.notna(), None)
    kinds: dict[str, Any] = {
        "objects": plain.to_numpy(),
        "list": plain.to_numpy().tolist(),
        "Table": hb.Table(frame),
        "numbered": frame.set_axis(range(4), axis=1),
        "nullable": frame.convert_dtypes(),
        "categories": frame.astype({"group": "category"}),
    }
    for library in ("polars", "pyarrow"):
        if importlib.util.find_spec(library):
            kinds[library] = hb.Table(frame).to_polars() if library == "polars" else hb.Table(frame).to_arrow()
    for kind, data in kinds.items():
        model = Classifier().fit(data, y.to_numpy())
        np.testing.assert_array_equal(model.predict_proba(data), expected, err_msg=kind)
        named = kind not in ("objects", "list", "numbered")
        assert hasattr(model, "feature_names_in_") == named, kind
        assert model.n_features_in_ == 4
        assert list(model.network_) == ["y", *(frame if named else ["x0", "x1", "x2", "x3"])], kind


@pytest.mark.parametrize(
    "y",
    [
        np.array(["u", "v", "w"] * 20),
        np.array(["u", "v", "w"] * 20, dtype=object),
        np.array([3, -1, 7] * 20),
        np.array([3, -1, 7] * 20, dtype=object),
        np.array([0.0, 1.0, 2.0] * 20),
        np.array([True, False, True] * 20),
        pd.Series(["u", "v", "w"] * 20),
        pd.Series(["u", "v", "w"] * 20, dtype="category").cat.add_categories(["unused"]),
        pd.Series([1, 2, 3] * 20, dtype="Int64"),
    ],
    ids=lambda y: f"{type(y).__name__} {y.dtype}",
)
def test_classes_keep_their_type(y: Any) -> None:
    X = np.random.default_rng(0).normal(size=(60, 2))
    X[:, 0] += np.tile([0, 5, 10], 20)
    model = Classifier().fit(X, y)
    labels = np.asarray(y)
    assert model.classes_.tolist() == sorted(set(labels.tolist()))
    predicted = model.predict(X)
    assert predicted.dtype == model.classes_.dtype
    assert model.score(X, labels.tolist() if labels.dtype == object else labels) > 0.6
    assert as_discrete(model.network_.variable("y")).states == tuple(model.classes_.tolist())


def test_declared_columns() -> None:
    X = np.column_stack([np.tile([1.0, 2.0, 7.0], 20), np.arange(60.0)])
    y = np.tile([0, 1, 1], 20)
    model = Classifier(discrete="x0").fit(X, y)
    assert as_discrete(model.network_.variable("x0")).states == (1, 2, 7)
    assert model.predict([[1, 5], [7, 5]]).tolist() == [0, 1]
    assert (
        as_discrete(Classifier(discrete=["x0"], potentials="multinomial").fit(X, y).network_.variable("x1")).cuts
        is not None
    )


def test_the_targets_name_is_free() -> None:
    frame, y = mixed()
    assert Classifier().fit(frame, y).target_name_ == "sick"
    assert Classifier().fit(frame.assign(sick=1.0 * frame["flag"]), y).target_name_ == "y"
    assert Classifier().fit(frame.rename(columns={"x": "y", "flag": "y_"}), y.to_numpy()).target_name_ == "y__"
    assert as_discrete(Classifier(target="out").fit(frame, y).network_.variable("out")).states == ("no", "yes")
    with pytest.raises(TableError, match="target='x' is the name of a column"):
        Classifier(target="x").fit(frame, y)


def test_structures_are_kept() -> None:
    frame, y = mixed()
    arcs = [("sick", "group"), ("sick", "x"), ("group", "x")]
    model = Classifier(builder=arcs).fit(frame, y.to_numpy())
    assert model.target_name_ == "sick"  # the only node that is no column
    assert sorted(model.network_.edges) == sorted(arcs)
    assert model.score(frame, y) > 0.7
    sick = hb.Discrete("sick", states=("yes", "perhaps", "no"))
    net = hb.Network([hb.Multinomial(sick, table=[0.2, 0.3, 0.5])])
    net.add(hb.LinearGaussian(hb.Continuous("x"), parents=(sick,), intercept=[0, 0, 0], variance=[1, 1, 1]))
    model = HybridClassifier(net, potentials={"count": "gaussian"}).fit(frame, y)
    assert model.classes_.tolist() == ["no", "perhaps", "yes"]
    proba = model.predict_proba(frame)
    states = model.predict_distribution(frame).probabilities
    np.testing.assert_array_equal(proba, states[:, [2, 1, 0]])
    np.testing.assert_allclose(proba.sum(axis=1), 1.0)
    assert type(model.network_.potential("x")) is hb.LinearGaussian
    assert as_kind(hb.Multinomial, net.potential("sick")).table.tolist() == [0.2, 0.3, 0.5]
    with pytest.raises(TableError, match="'no' is not a state"):
        HybridClassifier(hb.Network([hb.Multinomial(hb.Discrete("sick", ("yes", "?")), table=[0.5, 0.5])])).fit(
            frame[["flag"]], y
        )
    with pytest.raises(NetworkError, match="has no node 'sick'"):
        Classifier(builder=[("x", "count")]).fit(frame, y)


def test_partials_of_builders_keep_their_options() -> None:
    frame, y = mixed()
    one, two = (Classifier(builder=partial(kdb, k=k)).fit(frame, y).network_ for k in (1, 2))
    assert one.number_of_edges() < two.number_of_edges()
    own = HybridClassifier(partial(tan, potentials=GaussianFitter(ridge=1.0))).fit(frame, y)
    assert type(own.network_.potential("count")) is hb.LinearGaussian


def test_priors() -> None:
    frame, y = mixed()
    hidden = frame.iloc[:1].assign(group=None, x=np.nan)
    same: list[Any] = [[0.9, 0.1], {"yes": 0.1, "no": 0.9}, np.array([0.9, 0.1])]
    for priors in same:
        model = Classifier(priors=priors).fit(frame, y)
        np.testing.assert_allclose(as_kind(hb.Multinomial, model.network_.potential("sick")).table, [0.9, 0.1])
    learned = Classifier().fit(frame, y)
    ratio = (model.predict_proba(hidden) / learned.predict_proba(hidden))[0]
    own = as_kind(hb.Multinomial, learned.network_.potential("sick")).table
    assert ratio[1] / ratio[0] == pytest.approx(0.1 / 0.9 * own[0] / own[1])
    with pytest.raises(TableError, match="add up to 1"):
        Classifier(priors=[0.5, 0.6]).fit(frame, y)
    with pytest.raises(TableError, match="give one for each"):
        Classifier(priors={"yes": 1.0}).fit(frame, y)
    with pytest.raises(NetworkError, match="has the parents 'group'"):
        Classifier(builder=[("group", "sick")], priors=[0.5, 0.5]).fit(frame, y)


# --- columns, classes and rows that say little ------------------------------------------------------------------------


def test_constant_columns_of_numbers_are_left_out_with_a_warning() -> None:
    frame, y = mixed()
    holed = frame.assign(empty=[4.0, None] * 100, same="s")
    for build in (naive_bayes, tan, [("sick", "x"), ("sick", "empty"), ("empty", "group")]):
        with pytest.warns(UserWarning, match="columns 'empty' have the same value in all 200 rows"):
            model = Classifier(builder=build).fit(holed, y)
        assert model.constant_features_.tolist() == ["empty"]
        assert "empty" not in model.network_
        assert np.isfinite(model.predict_proba(holed.assign(empty=9.0))).all()
    with pytest.warns(UserWarning, match="'x', 'empty'"):
        model = Classifier(potentials=dict.fromkeys(["x", "empty", "count"], "gaussian")).fit(
            holed.assign(x=0.1 + 0.2), y
        )
    with pytest.warns(UserWarning, match="'x0', 'x1'"):
        model = Classifier().fit(np.ones((4, 2)), [0, 1, 1, 1])
    assert list(model.network_) == ["y"]
    assert model.predict([[1.0, 2.0]]).tolist() == [1]
    with pytest.warns(UserWarning, match="'x0'"):
        regressor = Regressor().fit(np.ones((4, 1)), [0.0, 1.0, 2.0, 3.0])
    np.testing.assert_allclose(regressor.predict([[1.0], [np.nan]]), 1.5)


@pytest.mark.parametrize("build", [naive_bayes, tan, [("y", "x0"), ("y", "x1")]])
def test_one_class_is_predicted(build: Any) -> None:
    X = np.random.default_rng(0).normal(size=(10, 2))
    model = Classifier(builder=build).fit(X, ["u"] * 10)
    assert model.classes_.tolist() == ["u"]
    assert model.predict(X).tolist() == ["u"] * 10
    np.testing.assert_array_equal(model.predict_proba(X), np.ones((10, 1)))


def test_few_rows() -> None:
    assert Classifier().fit(pd.DataFrame({"c": ["a"]}), ["u"]).predict(pd.DataFrame({"c": ["a"]})).tolist() == ["u"]
    with pytest.raises(TableError, match="1 sample"):
        Classifier().fit([[1.0]], [0])
    with pytest.raises(TableError, match="1 sample"):
        Regressor().fit([[1.0]], [0])
    with pytest.raises(TableError, match="y is 2 in all 3 samples"):
        Regressor().fit([[1.0], [2.0], [3.0]], [2, 2, 2])
    model = Regressor().fit([[1.0], [2.0], [3.0]], [1.0, 2.0, 4.0])
    assert model.predict([[2.5]]).shape == (1,)
    with pytest.raises(TableError, match="0 rows"):
        Regressor().fit(pd.DataFrame({"x": []}), [])
    with pytest.warns(UserWarning, match=r"columns left alone: 'x' \(no value\)"):
        model = Regressor().fit(pd.DataFrame({"x": [np.nan] * 3}), [1.0, 2.0, 3.0])
    assert model.predict(pd.DataFrame({"x": [np.nan]})) == pytest.approx([2.0], abs=0.2)


def test_rows_without_any_value_get_the_prior() -> None:
    frame, y = mixed()
    model = Classifier().fit(frame, y)
    empty = pd.DataFrame({name: [None] * 3 for name in frame})
    np.testing.assert_allclose(
        model.predict_proba(empty), np.tile(as_kind(hb.Multinomial, model.network_.potential("sick")).table, (3, 1))
    )


# --- scikit-learn's tools ---------------------------------------------------------------------------------------------


def test_stored_and_cloned() -> None:
    frame, y = mixed()
    for build in (
        naive_bayes,
        partial(kdb, k=1),
        [("sick", "x")],
        tan(frame.assign(sick=y), "sick", potentials="gaussian"),
    ):
        model = Classifier(builder=build, handle_unknown="error").fit(frame, y)
        again = pickle.loads(pickle.dumps(model))
        np.testing.assert_array_equal(again.predict_proba(frame), model.predict_proba(frame))
        fresh = clone(model)
        assert not hasattr(fresh, "network_")
        np.testing.assert_array_equal(fresh.fit(frame, y).predict_proba(frame), model.predict_proba(frame))


def test_in_pipelines_and_searches() -> None:
    frame, y = mixed()
    scale = ColumnTransformer(
        [("scale", StandardScaler(), ["x", "count"])], remainder="passthrough", verbose_feature_names_out=False
    )
    pipeline = make_pipeline(scale.set_output(transform="pandas"), Classifier())
    plain = Classifier().fit(frame, y).predict_proba(frame)
    np.testing.assert_allclose(pipeline.fit(frame, y).predict_proba(frame), plain, rtol=1e-8)
    search = GridSearchCV(Classifier(), {"builder": [naive_bayes, tan, partial(kdb, k=1)]}, cv=3, error_score="raise")
    search.fit(frame, y)
    assert search.best_score_ > 0.6
    proba = cross_val_predict(Classifier(), frame, y, cv=3, method="predict_proba")
    assert proba.shape == (200, 2)
    frame, y = numbers()
    scores = cross_validate(Regressor(), frame, y, cv=3, scoring=["r2", "neg_mean_absolute_error"], error_score="raise")
    assert (scores["test_r2"] > 0.5).all()


def test_the_package_does_not_need_scikit_learn() -> None:
    import subprocess
    import sys

    code = "import sys, hybridbn, hybridbn.structures, hybridbn.fitting; print('sklearn' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"


def test_no_warning_where_all_is_well() -> None:
    frame, y = mixed()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Classifier().fit(frame, y).predict(frame)


def test_holes_are_a_policy_that_is_shown() -> None:
    assert repr(Classifier()).endswith("missing='available')")
    assert repr(HybridRegressor(builder="tan")) == "HybridRegressor(builder='tan', missing='available')"
    assert repr(Classifier(missing="em")).count("missing") == 1
    with pytest.raises(hb.TableError, match="missing must be 'available' or 'em', not 'drop'"):
        Classifier(missing="drop").fit([[1.0], [2.0]], ["a", "b"])  # type: ignore[arg-type]


def test_expectation_maximization_uses_rows_with_holes() -> None:
    rng = np.random.default_rng(0)
    size = 400
    y = rng.integers(0, 2, size)
    a = np.where(rng.random(size) < 0.9, y, 1 - y)
    b = np.where(rng.random(size) < 0.9, a, 1 - a)
    frame = pd.DataFrame({"a": a.astype(str), "b": b.astype(str)}).mask(rng.random((size, 2)) < 0.4)
    arcs = [("y", "a"), ("a", "b")]
    available, em = (
        Classifier(builder=arcs, target="y", missing=way).fit(frame, y).network_ for way in ("available", "em")
    )
    evidence = [float(net.log_density(frame.assign(y=y)).sum()) for net in (available, em)]
    assert evidence[1] > evidence[0]


def test_predictions_come_with_standard_deviations() -> None:
    x = np.linspace(0, 1, 50)
    model = Regressor(builder="regression").fit(x[:, None], 2 * x + np.sin(40 * x) / 10)
    points, deviations = model.predict(x[:, None], return_std=True)
    np.testing.assert_array_equal(points, model.predict(x[:, None]))
    np.testing.assert_allclose(deviations, model.predict_distribution(x[:, None]).std())
    assert (deviations > 0).all()


def test_threads_share_passes_of_fit_and_rows_of_predictions():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(60, 2)), rng.integers(0, 2, 60)
    seen = []

    def build(table, target, potentials="gaussian"):
        seen.append(get_jobs())
        return naive_bayes(table, target, potentials)

    one, two = (HybridClassifier(build, n_jobs=n_jobs).fit(x, y) for n_jobs in (None, 2))
    assert seen == [1, 2]
    assert get_jobs() == 1
    assert np.array_equal(one.predict_proba(x), two.predict_proba(x))
    assert two._options.n_jobs == 2
    model = HybridRegressor(build, n_jobs=3).fit(x, x[:, 0] + rng.normal(size=60))
    assert len(model.calibration_) == 60
    assert set(seen[2:]) == {3}
    with pytest.raises(hb.TableError, match="n_jobs"):
        HybridClassifier(n_jobs=0).fit(x, y)


def test_warnings_of_folds_are_not_told_twice() -> None:
    rng = np.random.default_rng(4)
    frame = pd.DataFrame({"x": rng.normal(size=40), "rare": np.where(np.arange(40) == 7, "v", "u")})
    model = hb.HybridClassifier("naive_bayes", boost=2, calibrated=True).fit(frame, np.where(frame["x"] > 0, "a", "b"))
    assert model.predict_proba(frame).shape == (40, 2)
