import numpy as np
import pytest
from scipy import stats

from hybridbn.errors import NetworkError
from hybridbn.potentials.density import Density
from hybridbn.variables import Continuous, Discrete

X, Y = Continuous("x"), Continuous("y")
SHARE = Continuous("share", (0, 1))
C = Discrete("c", ("a", "b"))


def test_the_function_gets_states_and_numbers_in_arrays_of_one_length():
    seen = []

    def function(c, x, y):
        seen.append((c, x, y))
        return np.where(c == "a", stats.norm.pdf(y, x), stats.norm.pdf(y, -x))

    potential = Density(Y, (C, X), function=function)
    assert not seen, "without breaks or a finite domain nothing is checked"
    values, scale = potential.on({"c": np.arange(2), "x": np.zeros((3, 5)), "y": np.linspace(-1, 1, 4)})
    assert values.shape == (2, 3, 4, 5)
    assert scale == 0
    (c, x, y) = seen[0]
    assert c.shape == x.shape == y.shape == (120,)
    assert set(c.tolist()) == {"a", "b"}
    assert potential(c="b", x=1.0, y=-1.0) == stats.norm.pdf(0)


def test_states_of_several_types_come_as_objects():
    mixed = Discrete("m", (1, "one", True is False))
    types = []

    def function(m):
        types.extend(map(type, m.tolist()))
        return 1 / 3

    Density(mixed, function=function)
    assert set(types) == {int, str, bool}


def test_any_conditional_can_be_sampled():
    potential = Density(Y, (X,), function=lambda x, y: stats.gumbel_r.pdf(y, 3 * x, 0.1), check=False)
    x = np.repeat([0.0, 2.0, -40.0], 700)
    drawn = potential.sample({"x": x}, np.random.default_rng(1))
    assert stats.kstest(stats.gumbel_r.cdf(drawn, 3 * x, 0.1), "uniform").pvalue > 1e-6
    uniforms = np.linspace(0.01, 0.99, 99)
    found = potential.ppf(uniforms, {"x": np.full(99, 2.0)})
    np.testing.assert_allclose(stats.gumbel_r.cdf(found, 6.0, 0.1), uniforms, atol=1e-10)


def test_a_function_that_fails_far_out_can_be_sampled():
    potential = Density(Y, (X,), function=lambda x, y: np.exp(y - x) / (1 + np.exp(y - x)) ** 2)
    with pytest.raises(NetworkError, match="returned nan"):
        potential.on({"x": np.zeros(1), "y": np.array([1000.0])})
    uniforms = np.linspace(0.001, 0.999, 99)
    for x in (0.0, -300.0):
        found = potential.ppf(uniforms, {"x": np.full(99, x)})
        np.testing.assert_allclose(stats.logistic.cdf(found, x), uniforms, atol=1e-10)


@pytest.mark.parametrize("distribution", [stats.expon(), stats.uniform(), stats.uniform(-1e-5, 2e-5), stats.gamma(0.5)])
def test_jumps_and_poles_are_found_without_being_declared(distribution):
    potential = Density(
        Y, (X,), function=lambda x, y: distribution.pdf(y - x) if (x != 0).any() else distribution.pdf(y)
    )
    uniforms = np.linspace(0.001, 0.999, 99)
    found = potential.ppf(uniforms, {"x": np.zeros(99)})
    np.testing.assert_allclose(distribution.cdf(found), uniforms, atol=1e-10)


def test_breaks_and_support_for_any_variable():
    def triangle(x, y):
        return np.clip(1 - np.abs(y), 0, None) + 0 * x

    potential = Density(Y, (X,), function=triangle, breaks={"y": [1, -1, 0, 0], "x": [5]}, support={"y": (-1, 1)})
    np.testing.assert_array_equal(potential.breaks("y"), [-1, 0, 1])
    np.testing.assert_array_equal(potential.breaks("x"), [5])
    assert potential.support("y") == (-1, 1)
    assert potential.support("x") == (-np.inf, np.inf)
    renamed = potential.renamed({"y": "z"})
    np.testing.assert_array_equal(renamed.breaks("z"), [-1, 0, 1])
    assert renamed(x=0.0, z=0.25) == 0.75
    np.testing.assert_array_equal(
        Density(SHARE, function=lambda share: 1.0, breaks=np.array([0.5])).breaks("share"), [0.5]
    )


def test_outside_the_domain_the_function_is_not_called():
    def function(share):
        assert (share >= 0).all()
        assert (share <= 1).all()
        return 2 * share

    np.testing.assert_array_equal(Density(SHARE, function=function)(share=[-1, 0.5, 1, 1.5]), [0, 1, 2, 0])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Density(SHARE, function=lambda share: 0.5 + 0 * share), "mass of its Density is 0.5, not 1.*divide"),
        (
            lambda: Density(SHARE, function=lambda share: 4 * share - 1),
            r"returned -0\.9+\d* at share=.*e-13; .*non-negative",
        ),
        (lambda: Density(SHARE, function=lambda share: share * np.nan), "returned nan at share="),
        (lambda: Density(SHARE, function=lambda share: "text"), "returned 'text' for arrays of length"),
        (lambda: Density(SHARE, function=lambda share: np.ones(3)), r"returned an array of shape \(3,\)"),
        (lambda: Density(SHARE, function="share"), "function must be callable"),
        (lambda: Density(C, (X,), function=lambda c, x: np.where(c == "a", 0.5, 0.4)), r"at x=-1\.0 is 0\.9, not 1"),
        (
            lambda: Density(SHARE, (C,), function=lambda c, share: np.where(c == "a", 1.0, 2.0)),
            "mass of its Density at c=b is 2, not 1|mass of its Density at c='b' is 2, not 1",
        ),
        (lambda: Density(Y, function=lambda y: np.exp(-abs(y)), breaks=[0]), "mass of its Density is 2, not 1"),
        (
            lambda: Density(Y, function=abs, breaks=[0, np.nan]),
            "'y': the breaks of a Density must be a sequence of finite",
        ),
        (lambda: Density(Y, function=abs, breaks={"q": [0]}), "no variable 'q'"),
        (lambda: Density(Y, (C,), function=abs, breaks={"c": [0]}), "breaks are given for 'c', which is discrete"),
        (lambda: Density(Y, function=abs, support=(1, 0)), "the support .* is empty"),
        (lambda: Density(Y, function=abs, support=3), "a support is a pair"),
    ],
)
def test_bad_densities_are_refused(make, message):
    with pytest.raises(NetworkError, match=message):
        make()


def test_the_check_can_be_left_out():
    assert Density(SHARE, function=lambda share: 0.5 + 0 * share, check=False)(share=0.5) == 0.5


def test_values_are_checked_whenever_they_are_computed():
    potential = Density(Y, (C,), function=lambda c, y: np.where(c == "b", -1.0, 1.0), check=False)
    with pytest.raises(NetworkError, match=r"'y': .* returned -1\.0 at c='b', y=0\.5"):
        potential.on({"c": np.arange(2), "y": np.array([0.5])})


def test_it_is_not_saved():
    with pytest.raises(NetworkError, match="'share' is a Python function and can't be saved"):
        Density(SHARE, function=lambda share: 1.0).to_dict()


def test_many_points_are_evaluated_in_parts():
    lengths = []

    def function(y):
        lengths.append(len(y))
        return stats.norm.pdf(y)

    values, _ = Density(Y, function=function).on({"y": np.linspace(-1, 1, 600_000)})
    assert max(lengths) <= 1 << 18
    assert values.shape == (600_000,)
