"""Regressions against numpy's least squares, and what happens where rows are few or columns constant."""

import numpy as np
import pytest
from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from narrowing import as_kind

import hybridbn as hb
from hybridbn.errors import TableError
from hybridbn.fitting import GaussianFitter
from hybridbn.structures.building import BUILDERS, declaration_of

D = hb.Discrete("d", states=("p", "q", "never"))
X, Z, Y = (hb.Continuous(name) for name in "xzy")


def some_data(rows=80, seed=0):
    rng = np.random.default_rng(seed)
    d = np.array(["p", "q"])[rng.integers(0, 2, rows)]
    x, z = rng.normal(3, 2, rows), rng.normal(-50, 0.1, rows)
    y = np.where(d == "p", 1 + 2 * x, 5 - x) + 7 * z + rng.normal(0, 0.5, rows)
    return {"d": d, "x": x, "z": z, "y": y}


def table_of(data, weights=None):
    return hb.Table(data, variables=[D, X, Z, Y], weights=weights)


def least_squares(columns, y, weights):
    """Intercept, slopes and variance by numpy."""
    design = np.column_stack([np.ones(len(y)), *columns])
    root = np.sqrt(weights)
    found = np.linalg.lstsq(design * root[:, None], y * root, rcond=None)[0]
    return found[0], found[1:], (weights * (y - design @ found) ** 2).sum() / weights.sum()


@pytest.mark.parametrize("weighted", [False, True])
def test_regressions_are_those_of_lstsq(weighted):
    data = some_data()
    weights = np.random.default_rng(1).random(80) + 0.1 if weighted else np.ones(80)
    found = GaussianFitter().fit(table_of(data, weights), Y, (X, D, Z))
    for code, state in enumerate(D.states):
        rows = data["d"] == state if state != "never" else np.full(80, True)
        a, b, s2 = least_squares([data["x"][rows], data["z"][rows]], data["y"][rows], weights[rows])
        np.testing.assert_allclose(as_kind(hb.LinearGaussian, found).intercept[code], a, rtol=1e-9)
        np.testing.assert_allclose(as_kind(hb.LinearGaussian, found).coefficients[code], b, rtol=1e-9)
        np.testing.assert_allclose(as_kind(hb.LinearGaussian, found).variance[code], s2, rtol=1e-9)


def test_without_parents_it_is_mean_and_variance():
    data = some_data()
    found = GaussianFitter().fit(table_of(data), X)
    np.testing.assert_allclose(
        [as_kind(hb.LinearGaussian, found).intercept, as_kind(hb.LinearGaussian, found).variance],
        [data["x"].mean(), data["x"].var()],
        rtol=1e-14,
    )


@settings(max_examples=examples(25), deadline=None)
@given(
    st.integers(0, 1000),
    st.sampled_from([1e-6, 1.0, 1e5]),
    st.sampled_from([-1e4, 0.0, 1e3]),
    st.sampled_from([0.0, 3.0]),
)
def test_units_do_not_matter(seed, scale, shift, ridge):
    data = some_data(seed=seed)
    fitter = GaussianFitter(ridge=ridge)
    before = fitter.fit(table_of(data), Y, (X, D, Z))
    moved = {**data, "x": data["x"] * scale + shift * scale, "y": data["y"] * 10 - shift}
    after = fitter.fit(table_of(moved), Y, (X, D, Z))
    np.testing.assert_allclose(
        as_kind(hb.LinearGaussian, after).coefficients[:, 0] * scale / 10,
        as_kind(hb.LinearGaussian, before).coefficients[:, 0],
        rtol=1e-7,
        atol=1e-9,
    )
    np.testing.assert_allclose(
        as_kind(hb.LinearGaussian, after).coefficients[:, 1] / 10,
        as_kind(hb.LinearGaussian, before).coefficients[:, 1],
        rtol=1e-7,
    )
    np.testing.assert_allclose(
        as_kind(hb.LinearGaussian, after).variance / 100, as_kind(hb.LinearGaussian, before).variance, rtol=1e-7
    )


def test_a_far_offset_costs_no_digits():
    """Moments of 1e9 + noise, merged from parts whose means have nine digits after the first: sums of squares would
    have none.
    """
    rng = np.random.default_rng(0)
    noise = np.round(rng.normal(size=3000), 3)
    table = table_of({"y": 1e9 + noise})
    parts = [GaussianFitter().statistics(table[i : i + 100], Y) for i in range(0, 3000, 100)]
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    exact = (1e9 + noise - 1e9).var()
    np.testing.assert_allclose(GaussianFitter().potential(total).variance, exact, rtol=1e-8)
    np.testing.assert_allclose(as_kind(hb.LinearGaussian, GaussianFitter().fit(table, Y)).variance, exact, rtol=1e-12)


def test_the_ridge_by_hand():
    data = some_data()
    ridge = 5.0
    found = GaussianFitter(ridge=ridge).fit(table_of(data), Y, (X, Z))
    design = np.column_stack([data["x"], data["z"]])
    s = design.std(axis=0)
    standardized = (design - design.mean(axis=0)) / s
    centered = data["y"] - data["y"].mean()
    slopes = np.linalg.solve(standardized.T @ standardized + ridge * np.eye(2), standardized.T @ centered)
    np.testing.assert_allclose(as_kind(hb.LinearGaussian, found).coefficients, slopes / s, rtol=1e-10)
    np.testing.assert_allclose(
        as_kind(hb.LinearGaussian, found).variance, ((centered - standardized @ slopes) ** 2).mean(), rtol=1e-10
    )
    np.testing.assert_allclose(
        as_kind(hb.LinearGaussian, found).intercept, data["y"].mean() - (slopes / s) @ design.mean(axis=0), rtol=1e-10
    )


def test_a_strong_ridge_gives_all_configurations_the_common_slopes():
    data = some_data()
    common = GaussianFitter().fit(table_of(data), Y, (X,))
    small = GaussianFitter(ridge=1e-9).fit(table_of(data), Y, (X, D))
    # the common regression feels the ridge too, so it is compared with its own
    large = GaussianFitter(ridge=1e3).fit(table_of(data), Y, (X, D))
    own = GaussianFitter(ridge=1e3).fit(table_of(data), Y, (X,))
    assert (
        abs(as_kind(hb.LinearGaussian, small).coefficients[0, 0] - as_kind(hb.LinearGaussian, small).coefficients[1, 0])
        > 2.5
    )
    np.testing.assert_allclose(
        as_kind(hb.LinearGaussian, large).coefficients[:2, 0], as_kind(hb.LinearGaussian, own).coefficients[0], atol=0.2
    )
    np.testing.assert_allclose(
        as_kind(hb.LinearGaussian, small).coefficients[2], as_kind(hb.LinearGaussian, common).coefficients, rtol=1e-8
    )


def test_few_rows_use_the_regression_of_all():
    data = some_data()
    data["d"][:] = "p"
    data["d"][:3] = "q"
    found = GaussianFitter().fit(table_of(data), Y, (D, X, Z))
    common = GaussianFitter().fit(table_of(data), Y, (X, Z))
    for code in (1, 2):
        np.testing.assert_allclose(
            as_kind(hb.LinearGaussian, found).coefficients[code], as_kind(hb.LinearGaussian, common).coefficients
        )
        np.testing.assert_allclose(
            as_kind(hb.LinearGaussian, found).intercept[code], as_kind(hb.LinearGaussian, common).intercept
        )
        np.testing.assert_allclose(
            as_kind(hb.LinearGaussian, found).variance[code], as_kind(hb.LinearGaussian, common).variance
        )
    four = data | {"d": np.array(["q"] * 4 + ["p"] * 76)}
    assert (
        as_kind(hb.LinearGaussian, GaussianFitter().fit(table_of(four), Y, (D, X, Z))).coefficients[1, 0]
        != as_kind(hb.LinearGaussian, common).coefficients[0]
    )


def test_constant_columns():
    table = table_of({"y": [0.1] * 10, "x": np.arange(10.0)})
    with pytest.raises(hb.TableError, match=r"column 'y' is constant \(0.1\)"):
        GaussianFitter().fit(table, Y)
    with pytest.raises(hb.TableError, match="constant"):
        GaussianFitter().fit(table, Y, (X,))
    with pytest.raises(hb.TableError, match="constant"):
        GaussianFitter().fit(table[:1], X)
    floored = GaussianFitter(floor=0.01).fit(table, Y)
    np.testing.assert_allclose(
        [as_kind(hb.LinearGaussian, floored).intercept, as_kind(hb.LinearGaussian, floored).variance],
        [0.1, 1e-4],
        rtol=1e-12,
    )
    parent = GaussianFitter().fit(table, X, (Y,))
    np.testing.assert_allclose(
        [as_kind(hb.LinearGaussian, parent).coefficients[0], as_kind(hb.LinearGaussian, parent).intercept],
        [0, 4.5],
        atol=1e-12,
    )


def test_collinear_parents_and_exact_relations():
    data = some_data()
    data["z"] = 3 * data["x"] - 1
    data["y"] = 2 * data["x"] + 5
    found = GaussianFitter().fit(table_of(data), Y, (X, Z))
    predicted = as_kind(hb.LinearGaussian, found).intercept + as_kind(hb.LinearGaussian, found).coefficients @ [
        data["x"],
        data["z"],
    ]
    np.testing.assert_allclose(predicted, data["y"], rtol=1e-9)
    np.testing.assert_allclose(as_kind(hb.LinearGaussian, found).variance, 1e-9 * data["y"].var(), rtol=1e-6)
    assert np.abs(as_kind(hb.LinearGaussian, found).coefficients).max() < 3


def test_a_constant_within_a_configuration_is_floored():
    data = some_data()
    data["y"] = np.where(data["d"] == "p", 4.0, data["y"])
    found = GaussianFitter().fit(table_of(data), Y, (D,))
    np.testing.assert_allclose(as_kind(hb.LinearGaussian, found).variance[0], 1e-9 * data["y"].var(), rtol=1e-9)
    assert as_kind(hb.LinearGaussian, GaussianFitter(floor=2.0).fit(table_of(data), Y, (D,))).variance[0] == 4.0


def test_the_network_recovers_what_it_sampled():
    truth = hb.LinearGaussian(Y, parents=(D, X), intercept=[1, 2, 3], coefficients=[[1], [-1], [0]], variance=[1, 2, 3])
    rng = np.random.default_rng(0)
    d, x = rng.integers(0, 3, 20_000), rng.normal(size=20_000)
    y = truth.sample({"d": d, "x": x}, rng)
    table = table_of({"d": np.array(D.states)[d], "x": x, "y": y})
    found = GaussianFitter().fit(table, Y, (D, X))
    np.testing.assert_allclose(as_kind(hb.LinearGaussian, found).intercept, truth.intercept, atol=0.08)
    np.testing.assert_allclose(as_kind(hb.LinearGaussian, found).coefficients, truth.coefficients, atol=0.08)
    np.testing.assert_allclose(as_kind(hb.LinearGaussian, found).variance, truth.variance, rtol=0.05)


def test_refusals():
    with pytest.raises(hb.NetworkError, match="'d' is discrete"):
        GaussianFitter().fit(table_of(some_data()), D, (X,))
    with pytest.raises(hb.NetworkError, match="domain"):
        GaussianFitter().fit(hb.Table({"s": [0.1, 0.2]}), hb.Continuous("s", domain=(0, 1)))
    with pytest.raises(hb.NetworkError, match="ridge"):
        GaussianFitter(ridge=-1)
    with pytest.raises(hb.NetworkError, match="floor"):
        GaussianFitter(floor=0)
    parents = tuple(hb.Discrete(f"p{i}", states=tuple(range(100))) for i in range(5))
    with pytest.raises(hb.TooWide, match="'y' given 'p0'"):
        GaussianFitter().fit(table_of(some_data()), Y, parents)


def test_a_parent_that_rounding_keeps_from_being_constant_tells_nothing():
    data = some_data(90)
    for constant in (0.1, 1e9 / 3, -7.3):
        found = GaussianFitter().fit(table_of(data | {"z": np.full(90, constant)}), Y, (D, X, Z))
        without = GaussianFitter().fit(table_of(data), Y, (D, X))
        np.testing.assert_allclose(as_kind(hb.LinearGaussian, found).coefficients[:, 1], 0, atol=1e-12)
        np.testing.assert_allclose(
            as_kind(hb.LinearGaussian, found).coefficients[:, 0],
            as_kind(hb.LinearGaussian, without).coefficients[:, 0],
            rtol=1e-9,
        )


def test_a_parent_that_is_constant_within_a_configuration_keeps_the_common_slope():
    data = some_data()
    data["x"] = np.where(data["d"] == "p", 0.1, data["x"])
    found = GaussianFitter().fit(table_of(data), Y, (D, X))
    common = GaussianFitter().fit(table_of(data), Y, (X,))
    np.testing.assert_allclose(
        as_kind(hb.LinearGaussian, found).coefficients[0], as_kind(hb.LinearGaussian, common).coefficients, rtol=1e-9
    )
    at = as_kind(hb.LinearGaussian, found).intercept[0] + as_kind(hb.LinearGaussian, found).coefficients[0, 0] * 0.1
    np.testing.assert_allclose(at, data["y"][data["d"] == "p"].mean(), rtol=1e-9)


def test_values_whose_squares_overflow_are_refused():
    table = hb.Table({"x": [1e308, -1e308, 5e307, 1.7e308, 0.0], "y": [1.0, 2.0, 4.0, 3.0, 5.0]})
    x, y = table.variable("x"), table.variable("y")
    for child, parents in ((x, ()), (x, (y,)), (y, (x,))):
        with pytest.raises(TableError, match=r"column 'x'.*another unit"):
            GaussianFitter().fit(table, child, parents)
    assert as_kind(hb.LinearGaussian, GaussianFitter().fit(table, y)).variance == pytest.approx(2)


FAR = {
    "far apart": np.resize([1e308, -1e308, 5e307, 1.7e308, 0.0], 60),
    "an outlier": np.append(np.linspace(0.0, 1.0, 59), 1.7e308),
    "far out": 1e308 + 1e300 * np.arange(60),
    "squares overflow": 1e160 * np.arange(60),
    "close together": 1e-300 * np.arange(60) ** 2,
    "below normal floats": np.resize([5e-324, 0.0, 1e-310, 2e-320, 1e-323], 60),
}


@pytest.mark.parametrize("values", FAR)
@pytest.mark.parametrize("name", sorted(BUILDERS))
def test_builders_refuse_values_whose_variance_is_no_float(name, values):
    rng = np.random.default_rng(0)
    frame = {column: rng.normal(size=60) for column in "yz"}
    frame |= {"x": FAR[values], "d": np.resize(list("uvv"), 60)}
    wanted = declaration_of(BUILDERS[name]).takes_target
    kinds = {"d": hb.Discrete, "x": hb.Continuous, "y": hb.Continuous}
    targets = [(target,) for target, kind in kinds.items() if wanted in (True, kind)] if wanted else [()]
    for target in targets:
        if name == "selective_naive_bayes" and target != ("x",) and max(FAR[values]) < 1:
            # a column that tells nothing about the target is left out
            assert "x" not in BUILDERS[name](frame, *target, potentials="gaussian")
            continue
        with pytest.raises(TableError, match="'x'"):
            BUILDERS[name](frame, *target, potentials="gaussian")
