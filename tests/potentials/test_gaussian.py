import mpmath
import numpy as np
import pandas as pd
import pytest
from narrowing import as_discrete
from scipy import stats

import hybridbn as hb
from hybridbn.errors import NetworkError
from hybridbn.potentials.gaussian import LinearGaussian, log_normal_interval
from hybridbn.variables import Continuous, Discrete

X, Y, Z = Continuous("x"), Continuous("y"), Continuous("z")
D = Discrete("d", ("a", "b"))
MIXED = LinearGaussian(Y, (X, D, Z), intercept=[1, -2], coefficients=[[0.5, -1.0], [0.0, 3.0]], variance=[0.25, 4.0])


def test_values_agree_with_scipy():
    rng = np.random.default_rng(0)
    x, z, d = rng.normal(size=50), rng.normal(size=50), rng.integers(0, 2, 50)
    mean = np.where(d == 0, 1 + 0.5 * x - z, -2 + 3 * z)
    y = mean + rng.normal(size=50) * 5
    expected = stats.norm.pdf(y, mean, np.where(d == 0, 0.5, 2.0))
    np.testing.assert_allclose(MIXED(x=x, z=z, d=[D.states[i] for i in d], y=y), expected, rtol=1e-12)


def test_far_evidence_keeps_its_digits_in_logarithms():
    potential = LinearGaussian(Y, (X,), intercept=0, coefficients=[1], variance=1)
    values, scale = potential.on({"x": np.array([0.0, 70.0, 140.0]), "y": np.array([[140.0, 1e8]])})
    assert np.shape(scale) == (2,)
    assert values.max(axis=(0, 1)).tolist() == [1, 1]
    np.testing.assert_allclose(potential.log_on({"x": np.zeros(1), "y": np.array([1e8])}).item(), -5e15, rtol=1e-15)


@pytest.mark.parametrize("far", [1e155, 1e300, 1.7e308, -1.7e308])
def test_the_largest_doubles_are_no_nan(far):
    axes = {"x": np.array([far]), "d": np.arange(2), "z": np.array([far, -far]), "y": np.array([far, -far, 0.0])}
    values, scale = MIXED.on(axes)
    assert np.isfinite(values).all()
    assert np.isfinite(scale)
    assert not np.isnan(MIXED.log_on(axes)).any()


def test_normal_intervals_against_60_digits():
    rng = np.random.default_rng(1)
    low = rng.normal(size=400) * 10 ** rng.uniform(-3, 1.7, 400)
    high = low + 10 ** rng.uniform(-12, 1.5, 400)
    found = log_normal_interval(low, high)

    def upper(z):
        return mpmath.erfc(mpmath.mpf(z) / mpmath.sqrt(2)) / 2

    with mpmath.workdps(60):
        for a, b, log in zip(low, high, found, strict=True):
            first, last = (a, b) if b > 0 else (-b, -a)
            exact = mpmath.log(upper(first) - upper(last))
            assert abs(log - exact) < 2e-15 * max(1, abs(exact))


def test_intervals_that_are_empty_or_infinite():
    inf = np.inf
    low, high = np.array([-inf, inf, 0, 3, -inf, 1e200]), np.array([inf, inf, 0, 2, -inf, inf])
    np.testing.assert_array_equal(log_normal_interval(low, high), [0, -inf, -inf, -inf, -inf, -inf])


def test_cells_in_the_far_tails_have_masses():
    potential = LinearGaussian(Y, (X,), intercept=0, coefficients=[1], variance=1)
    values, scale = potential.mass({"x": np.array([0.0])}, np.array([50.0, 51.0, np.inf]))
    expected = mpmath.log(mpmath.erfc(mpmath.mpf(50) / mpmath.sqrt(2)) / 2)
    assert abs(np.log(values.sum()) + scale - float(expected)) < 1e-12


def test_support_of_the_child_follows_the_ranges_of_the_parents():
    low, high = MIXED.support("y", 1e-12, {"x": (0, 2), "z": (-1, 1)})
    reach = -stats.norm.ppf(5e-13)
    np.testing.assert_allclose(np.array([low, high]), [-2 - 3 - 2 * reach, -2 + 3 + 2 * reach], rtol=1e-6)
    assert MIXED.support("y") == (-np.inf, np.inf)
    low, high = MIXED.support("y", 1e-3, {"x": (np.zeros(3), np.ones(3)), "z": (0.0, 0.0)})
    assert np.shape(low) == np.shape(high) == (3,)


def test_support_along_a_parent_is_where_the_likelihood_is():
    potential = LinearGaussian(Y, (X, Z), intercept=1, coefficients=[2.0, 1.0], variance=0.01)
    y, z = np.array([3.0, 100.0]), np.array([0.0, 1.0])
    low, high = potential.support("x", 1e-12, {"y": (y, y), "z": (z, z)})
    center = (y - 1 - z) / 2
    np.testing.assert_allclose(0.5 * (low + high), center)
    for end in (low, high):
        ratio = potential(x=end, y=y, z=z) / potential(x=center, y=y, z=z)
        np.testing.assert_allclose(ratio, 1e-12, rtol=1e-3)
    # with a slope of zero in one configuration nothing is known
    assert MIXED.support("x", 1e-12, {"y": (0, 0), "z": (0, 0)}) == (-np.inf, np.inf)
    # a likelihood that peaks outside the parent's domain says nothing about where in the domain it matters
    bounded = LinearGaussian(Y, (Continuous("x", (0, 1)),), intercept=0, coefficients=[1.0], variance=1e-4)
    assert bounded.support("x", 1e-12, {"y": (5, 5)}) == (0, 1)
    np.testing.assert_allclose(
        np.array(bounded.support("x", 1e-12, {"y": (0.01, 0.01)})), [0, 0.01 + 0.01 * np.sqrt(-2 * np.log(1e-12))]
    )


def test_breaks_show_the_peaks_and_scales_their_widths():
    assert MIXED.scale("y") == 0.5
    assert MIXED.scale("x") == 1.0
    assert MIXED.scale("z") == 0.5
    np.testing.assert_allclose(LinearGaussian(Y, intercept=5, variance=4).breaks("y"), [-3, 5, 13])
    potential = LinearGaussian(Y, (X,), intercept=1, coefficients=[2.0], variance=1)
    np.testing.assert_allclose(potential.breaks("x", {"y": (5, 5)}), [0, 2, 4])
    np.testing.assert_allclose(potential.breaks("y", {"x": (0, 10)}), [-3, 1, 21, 25])
    assert potential.breaks("y").size == 0
    bounded = LinearGaussian(Y, (Continuous("x", (3, 5)),), intercept=0, coefficients=[1.0], variance=1e-4)
    np.testing.assert_allclose(bounded.breaks("x", {"y": (3.01, 3.01)}), [3.01, 3.05])
    y = np.array([3.01, 100.0])
    np.testing.assert_allclose(bounded.breaks("x", {"y": (y, y)})[:, 1], 3.0)
    many = Discrete("m", tuple(range(5000)))
    breaks = LinearGaussian(Y, (many,), intercept=np.arange(5000), variance=np.ones(5000)).breaks("y")
    assert len(breaks) < 100


def test_regression_gives_the_parameters():
    with pytest.deprecated_call(match="as_regression"):
        assert MIXED.regression() is MIXED
    regression = MIXED.as_regression()
    assert regression.intercept is MIXED.intercept
    assert regression.coefficients.shape == (2, 2)
    assert LinearGaussian(Y, intercept=0, variance=1).as_regression().coefficients.shape == (0,)


def test_quantiles():
    uniforms = np.array([0.0, 0.025, 1.0])
    np.testing.assert_allclose(
        LinearGaussian(Y, intercept=1, variance=4).ppf(uniforms, {}), stats.norm.ppf(uniforms, 1, 2)
    )


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"variance": [1, 0.0]}, r"'y': the variance at d='b' is 0\.0; a variance must be positive"),
        ({"variance": [1, np.nan]}, "the variance has nan at d='b'"),
        ({"variance": 1}, r"the variance must have shape \(2,\), that is 2 states of 'd', not \(\)"),
        ({"coefficients": [1, 2]}, r"shape \(2, 1\), that is 2 states of 'd', one for each of 'x', not \(2,\)"),
        ({"coefficients": [[1], [np.inf]]}, "the array of coefficients has inf at d='b', of 'x'"),
        ({"coefficients": None}, "'y': give coefficients, one for each of 'x'"),
        ({"intercept": ["a", "b"]}, "numbers in a regular array"),
    ],
)
def test_bad_parameters_are_refused(parameters, message):
    good = {"intercept": [0, 1], "coefficients": [[1], [2]], "variance": [1, 2]}
    with pytest.raises(NetworkError, match=message):
        LinearGaussian(Y, (X, D), **{**good, **parameters})


def test_bad_children_are_refused():
    with pytest.raises(NetworkError, match=r"'d' is discrete; .* use Softmax or Multinomial"):
        LinearGaussian(D, intercept=0, variance=1)  # type: ignore[arg-type]
    with pytest.raises(NetworkError, match=r"'s' has the domain \(0\.0, inf\).*leave the domain out"):
        LinearGaussian(Continuous("s", (0, np.inf)), intercept=0, variance=1)


def test_repr_is_the_formula():
    assert (
        repr(LinearGaussian(Y, (X,), intercept=0.5, coefficients=[-2], variance=3))
        == "<LinearGaussian y | x: N(0.5 - 2 x, 3)>"
    )
    assert repr(MIXED) == "<LinearGaussian y | x, d, z: 2 regressions>"
    wide = [Continuous(f"x{i}") for i in range(30)]
    assert len(repr(LinearGaussian(Y, wide, intercept=0, coefficients=np.ones(30), variance=1))) < 250


@pytest.mark.parametrize("count", [31, 70])
def test_wide_normal_densities_of_classes(count: int) -> None:
    """Observed parents need no dimensions of arrays, which have few."""
    rng, c = np.random.default_rng(0), hb.Discrete("c", ("a", "b"))
    parents = tuple(hb.Continuous(f"x{i}") for i in range(count))
    slopes = rng.normal(size=(2, count))
    child = hb.LinearGaussian(Y, (c, *parents), intercept=[0, 1], coefficients=slopes, variance=[1, 2])
    softmax = hb.Softmax(hb.Discrete("z", (0, 1)), parents, intercept=[0, 1], coefficients=slopes)
    normal = [hb.LinearGaussian(x, intercept=0, variance=1) for x in parents]
    net = hb.Network([hb.Multinomial(c, table=[0.5, 0.5]), *normal, child, softmax])
    rows = pd.DataFrame(rng.normal(size=(5, count)), columns=[x.name for x in parents])
    means = rows.to_numpy() @ slopes.T + [0, 1]
    logits = np.exp(means)
    found = as_discrete(net.posterior("z", rows)).probabilities
    np.testing.assert_allclose(found, logits / logits.sum(axis=1, keepdims=True))
    np.testing.assert_allclose(net.posterior("y", rows).mean(), means.mean(axis=1))
    told = stats.norm.pdf(1.0, means, np.sqrt([1, 2]))
    found = as_discrete(net.posterior("c", rows.assign(y=1.0))).probabilities
    np.testing.assert_allclose(found, told / told.sum(axis=1, keepdims=True))
