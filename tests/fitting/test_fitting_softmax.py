"""Logistic regressions against scikit-learn and a general optimizer."""

import numpy as np
import pytest
from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from narrowing import as_kind
from scipy.optimize import minimize

import hybridbn as hb
from hybridbn.fitting import MEstimate, MultinomialFitter, SoftmaxFitter
from hybridbn.fitting import ridge as module

C = hb.Discrete("c", states=("a", "b", "z"))
D = hb.Discrete("d", states=(0, 1, 2))
X, Y = hb.Continuous("x"), hb.Continuous("y")


def some_data(rows=150, seed=0):
    rng = np.random.default_rng(seed)
    x, y, d = rng.normal(100, 20, rows), rng.normal(0, 0.01, rows), rng.integers(0, 2, rows)
    scores = np.stack([np.zeros(rows), (x - 100) / 15, y * 80 * (1 - 2 * d)], axis=1) + rng.gumbel(size=(rows, 3))
    return {"x": x, "y": y, "d": d, "c": np.array(C.states)[scores.argmax(axis=1)]}


def table_of(data, weights=None):
    return hb.Table(data, variables=[C, D, X, Y], weights=weights)


def predicted(potential, **values):
    return np.stack([potential(c=state, **values) for state in potential.child.states], axis=-1)


@pytest.mark.parametrize("ridge", [0.01, 1.0, 30.0])
@pytest.mark.parametrize("weighted", [False, True])
def test_it_is_scikit_learns_with_the_rows_of_the_prior(ridge, weighted):
    linear_model = pytest.importorskip("sklearn.linear_model")
    data = some_data()
    weights = np.random.default_rng(1).random(150) + 0.2 if weighted else np.ones(150)
    found = SoftmaxFitter(ridge=ridge, m=1.5).fit(table_of(data, weights), C, (X, Y))
    values = np.stack([data["x"], data["y"]], axis=1)
    mean = np.average(values, axis=0, weights=weights)
    scale = np.sqrt(np.average((values - mean) ** 2, axis=0, weights=weights))
    z = (values - mean) / scale
    classes = np.concatenate([data["c"], np.repeat(np.array(C.states), 150)])
    spread = np.tile(weights * 0.5 / weights.sum(), 3)
    model = linear_model.LogisticRegression(C=1 / ridge, tol=1e-12, max_iter=10_000, solver="newton-cg")
    model.fit(np.tile(z, (4, 1)), classes, sample_weight=np.concatenate([weights, spread]))
    np.testing.assert_allclose(predicted(found, x=data["x"], y=data["y"]), model.predict_proba(z), rtol=1e-6, atol=1e-9)
    slopes = as_kind(hb.Softmax, found).coefficients * scale
    np.testing.assert_allclose(slopes - slopes.mean(axis=0), model.coef_ - model.coef_.mean(axis=0), atol=1e-6)


def test_configurations_are_pulled_toward_the_common_regression():
    """The documented objective, minimized by a general optimizer."""
    data = some_data()
    fitter = SoftmaxFitter(ridge=2.0, m=3.0)
    table = table_of(data)
    common = fitter.fit(table, C, (X, Y))
    found = fitter.fit(table, C, (X, D, Y))
    values = np.stack([data["x"], data["y"]], axis=1)
    mean, scale = values.mean(axis=0), values.std(axis=0)
    z = (values - mean) / scale
    start = as_kind(hb.Softmax, common).coefficients * scale
    prior = predicted(common, x=mean[0], y=mean[1])
    codes = np.array([C.states.index(c) for c in data["c"]])

    def log_shares(parameters, at):
        logits = parameters[:, 0] + at @ parameters[:, 1:].T
        return logits - np.log(np.exp(logits).sum(axis=-1, keepdims=True))

    for d in (0, 1):
        rows = data["d"] == d

        def objective(flat, rows=rows):
            parameters = flat.reshape(3, 3)
            likelihood = log_shares(parameters, z[rows])[np.arange(rows.sum()), codes[rows]].sum()
            at_mean = 3.0 * (prior * log_shares(parameters, np.zeros(2))).sum()
            return -likelihood - at_mean + ((parameters[:, 1:] - start) ** 2).sum()

        best = minimize(objective, np.zeros(9), method="BFGS", options={"gtol": 1e-6}).x.reshape(3, 3)
        mine = predicted(found, x=data["x"], y=data["y"], d=d)
        np.testing.assert_allclose(mine, np.exp(log_shares(best, z)), atol=1e-5)
    # no row has d=2
    np.testing.assert_allclose(
        predicted(found, x=data["x"], y=data["y"], d=2), predicted(common, x=data["x"], y=data["y"]), rtol=1e-9
    )


def test_without_continuous_parents_it_is_the_m_estimate():
    table = table_of(some_data())
    for m in (0.5, 2.0):
        table_fitter = MultinomialFitter(estimate=MEstimate(m))
        for parents in ((), (D,)):
            logistic, counted = SoftmaxFitter(m=m).fit(table, C, parents), table_fitter.fit(table, C, parents)
            values = {"d": np.array([0, 1, 2])} if parents else {}
            np.testing.assert_allclose(predicted(logistic, **values), as_kind(hb.Multinomial, counted).table, rtol=1e-9)


@settings(max_examples=examples(15), deadline=None)
@given(st.integers(0, 1000), st.sampled_from([1e-9, 1e7]), st.sampled_from([-1e3, 50.0]))
def test_units_do_not_matter(seed, scale, shift):
    data = some_data(seed=seed)
    before = SoftmaxFitter().fit(table_of(data), C, (X, Y))
    after = SoftmaxFitter().fit(table_of(data | {"x": (data["x"] + shift) * scale}), C, (X, Y))
    np.testing.assert_allclose(
        predicted(after, x=(data["x"] + shift) * scale, y=data["y"]),
        predicted(before, x=data["x"], y=data["y"]),
        rtol=1e-8,
    )


@pytest.mark.parametrize("ridge", [1e-6, 1e-3, 1.0])
def test_separable_rows_converge(ridge):
    x = np.concatenate([np.arange(50.0), np.arange(60.0, 110.0)])
    table = table_of({"x": x, "c": np.repeat(["a", "b"], 50)})
    found = SoftmaxFitter(ridge=ridge).fit(table, C, (X,))
    assert np.isfinite(as_kind(hb.Softmax, found).coefficients).all()
    assert found(x=10.0, c="a") > 0.95
    assert found(x=100.0, c="b") > 0.95
    assert 0 < found(x=55.0, c="z") < 0.1


def test_a_state_that_was_never_seen_stays_possible():
    data = some_data()
    data["c"] = np.where(data["c"] == "z", "a", data["c"])
    found = SoftmaxFitter().fit(table_of(data), C, (X, D))
    assert (predicted(found, x=data["x"], d=data["d"]) > 1e-5).all()


def test_a_single_state_is_certain():
    one = hb.Discrete("c", ("u",))
    table = hb.Table({"c": ["u"] * 5, "x": np.arange(5.0)}, variables=[one, X])
    certain = SoftmaxFitter().fit(table, one, (X,))(c="u", x=[1.0, 9.0])
    assert as_kind(np.ndarray, certain).tolist() == [1.0, 1.0]


def test_a_constant_parent_tells_nothing():
    data = some_data()
    constant = SoftmaxFitter().fit(table_of(data | {"y": np.full(150, 0.1)}), C, (X, Y))
    without = SoftmaxFitter().fit(table_of(data), C, (X,))
    np.testing.assert_allclose(as_kind(hb.Softmax, constant).coefficients[:, 1], 0, atol=1e-12)
    np.testing.assert_allclose(
        as_kind(hb.Softmax, constant).coefficients[:, 0],
        as_kind(hb.Softmax, without).coefficients[:, 0],
        rtol=1e-9,
    )


def test_many_parameters_by_the_quasi_newton_method(monkeypatch):
    data = some_data()
    by_newton = SoftmaxFitter().fit(table_of(data), C, (X, D, Y))
    monkeypatch.setattr(module, "_NEWTON", 0)
    other = SoftmaxFitter().fit(table_of(data), C, (X, D, Y))
    np.testing.assert_allclose(
        as_kind(hb.Softmax, other).coefficients,
        as_kind(hb.Softmax, by_newton).coefficients,
        rtol=1e-4,
        atol=1e-6,
    )


@pytest.mark.parametrize("parents", [(X,), (Y, X), (D, X), (X, D, Y)])
def test_an_approximation_has_the_likelihood_of_the_regressions(parents):
    table = table_of(some_data(2000))
    fitter = SoftmaxFitter(ridge=1e-3)
    exact = fitter.fit(table, C, parents)
    approximate = fitter.approximate(fitter.statistics(table, C, parents))
    axes = {variable.name: table.coded(variable)[None] for variable in (C, *parents)}
    likelihood = fitter.statistics(table, C, parents).log_likelihood(approximate)
    np.testing.assert_allclose(likelihood, exact.log_on(axes).sum(), rtol=1e-9)
    np.testing.assert_allclose(approximate.coefficients, as_kind(hb.Softmax, exact).coefficients, rtol=1e-4, atol=1e-4)


def test_many_rows_are_fitted_as_those_of_a_few_that_are_repeated():
    data = some_data()
    few = SoftmaxFitter(ridge=0.5).fit(table_of(data, np.full(len(data["x"]), 40.0)), C, (X, D, Y))
    many = SoftmaxFitter(ridge=0.5).fit(table_of({name: np.tile(own, 40) for name, own in data.items()}), C, (X, D, Y))
    np.testing.assert_allclose(
        as_kind(hb.Softmax, many).coefficients,
        as_kind(hb.Softmax, few).coefficients,
        rtol=1e-9,
        atol=1e-10,
    )


def test_gradient_and_curvature_are_derivatives():
    rng = np.random.default_rng(0)
    problem = module._ClassRegression(rng.normal(size=(3, 20)), rng.random((4, 20)), rng.normal(size=(4, 3)), 0.7)
    at = rng.normal(size=12)
    _, gradient, shares = problem.evaluate(at)
    curvature = problem.curvature(shares)
    for i, step in enumerate(1e-5 * np.eye(12)):
        up, down = problem.evaluate(at + step), problem.evaluate(at - step)
        np.testing.assert_allclose((up[0] - down[0]) / 2e-5, gradient[i], rtol=1e-7, atol=1e-7)
        np.testing.assert_allclose((up[1] - down[1]) / 2e-5, curvature[i], rtol=1e-7, atol=1e-7)


def test_refusals():
    with pytest.raises(hb.NetworkError, match="'x' is continuous"):
        SoftmaxFitter().fit(table_of(some_data()), X, (C,))
    with pytest.raises(hb.NetworkError, match="ridge must be a positive number"):
        SoftmaxFitter(ridge=0)
    with pytest.raises(hb.NetworkError, match="m must be a positive number"):
        SoftmaxFitter(m=-1)
    parents = tuple(hb.Discrete(f"p{i}", states=tuple(range(100))) for i in range(5))
    with pytest.raises(hb.TooWide, match="'c' given 'p0'"):
        SoftmaxFitter().fit(table_of(some_data()), C, (*parents, X))


@pytest.mark.parametrize("seed", range(8))
def test_badly_conditioned_rows_converge(seed):
    """No warning, which would fail the test: heavy tails, mixed scales, weights far from 1, next to no ridge."""
    rng = np.random.default_rng(seed)
    rows = int(rng.integers(1, 60))
    x, y = rng.standard_cauchy((2, rows)) * 10.0 ** rng.integers(-8, 9, (2, 1))
    c = np.where(x > 0, "a", np.array(C.states)[rng.integers(0, 3, rows)])
    weights = rng.random(rows) * 10.0 ** rng.integers(-3, 4)
    table = table_of({"x": x, "y": y, "d": rng.integers(0, 3, rows), "c": c}, weights)
    for ridge, m in ((1e-9, 1e-6), (1e-9, 2.0), (1.0, 1e-6)):
        assert np.isfinite(
            as_kind(hb.Softmax, SoftmaxFitter(ridge=ridge, m=m).fit(table, C, (X, D, Y))).coefficients
        ).all()
