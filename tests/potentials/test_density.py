import math
from typing import Any

import numpy as np
import pandas as pd
import pytest
from contract import CHECKS, Example
from scipy import integrate, stats

import hybridbn as hb
from hybridbn.errors import HybridBNError, NetworkError
from hybridbn.potentials.density import Density
from hybridbn.potentials.mode_search import _points_around
from hybridbn.variables import Continuous, Discrete

X, Y = Continuous("x"), Continuous("y")
SHARE = Continuous("share", (0, 1))
C = Discrete("c", ("a", "b"))
POSITIVE = Continuous("t", (0, np.inf))


def normal(x, mean, deviation):
    return np.exp(-0.5 * ((x - mean) / deviation) ** 2) / (deviation * math.sqrt(2 * math.pi))


def test_the_function_gets_states_and_numbers_in_arrays_of_one_length():
    seen = []

    def function(c, x, y):
        seen.append((c, x, y))
        return np.where(c == "a", stats.norm.pdf(y, x), stats.norm.pdf(y, -x))

    potential = Density(Y, (C, X), function=function, check=False)
    assert not seen
    values, scale = potential.on({"c": np.arange(2), "x": np.zeros((3, 5)), "y": np.linspace(-1, 1, 4)})
    assert values.shape == (2, 3, 4, 5)
    assert scale == 0
    (c, x, y) = seen[0]
    assert c.shape == x.shape == y.shape == (120,)
    assert set(c.tolist()) == {"a", "b"}
    assert potential(c="b", x=1.0, y=-1.0) == stats.norm.pdf(0)


def test_states_of_several_types_come_as_objects():
    mixed = Discrete("m", (1, "one", True is False))
    types: list[type] = []

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


def test_rows_of_different_widths_have_their_own_masses():
    """Rows lie in different numbers of cells, and on both sides of zero."""
    x, y = Continuous("x"), Continuous("y")

    def function(x: Any, y: Any) -> Any:
        return stats.norm.pdf(y, 3 * x, 0.1 + np.abs(x))

    potential = Density(y, parents=(x,), function=function)
    given = np.array([0.0, 1.0, 5.0, -4.0, 0.3])
    centers, widths = 3 * given, 0.1 + np.abs(given)
    values = np.array([0.1, 4.0, 14.0, -11.0, 20.0])
    found = potential.conditional_cdf(values, {"x": given})
    np.testing.assert_allclose(found, stats.norm.cdf(values, centers, widths), rtol=0, atol=1e-12)
    edges = np.array([-math.inf, -10.0, 0.0, 0.5, 3.0, math.inf])
    expected = np.diff(stats.norm.cdf(edges, centers[:, None], widths[:, None]), axis=1)
    np.testing.assert_allclose(potential.integrate_bins(edges, {"x": given}), expected, rtol=0, atol=1e-12)


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
        Y,
        (X,),
        function=lambda x, y: distribution.pdf(y - x) if (x != 0).any() else distribution.pdf(y),
        check=False,  # numbers that are not 0 come so near to a pole that there it is infinite
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
        (lambda: Density(SHARE, function="share"), "function must be callable"),  # type: ignore[arg-type]
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
        (lambda: Density(Y, function=lambda y: 1 / (1 + y**2)), "mass of its Density is 3\\.14159265, not 1; divide"),
        (lambda: Density(Y, function=lambda y: 1.0), "mass of its Density is .*e\\+59, not 1"),
        (lambda: Density(POSITIVE, function=lambda t: np.exp(-2 * t)), "'t': the mass of its Density is 0.5, not 1"),
        (
            lambda: Density(Y, (X,), function=lambda x, y: normal(y, x, 1) * (1 + 0.01 * (x > 1))),
            r"mass of its Density at x=2\.0 is 1\.01, not 1",
        ),
        (
            lambda: Density(
                Y, (X,), function=lambda x, y: normal(y, x, np.where(x < 5, 1, 2)) / (1 + (x > 5)), breaks={"x": [5]}
            ),
            r"mass of its Density at x=5\.5 is 0\.5, not 1",
        ),
        (
            lambda: Density(Y, (X,), function=lambda x, z: z),
            r"takes \(x, z\), but .* keywords: 'x', 'y' .*name its arguments",
        ),
        (lambda: Density(Y, (X,), function=lambda y: normal(y, 0, 1)), r"takes \(y\), but .*'x'"),
        (lambda: Density(Y, function=abs), "takes .*keywords: 'y'"),
        (lambda: Density(Y, function=np.exp), "takes .*keywords: 'y'"),
        (
            lambda: Density(Y, function=lambda y: math.exp(-0.5 * y**2)),
            r"raised TypeError: .*arrays of one length; write it with numpy's functions .*np\.vectorize",
        ),
        (lambda: Density(Y, function=lambda y: y if y > 0 else 0), "raised ValueError: .*np.where"),
        (lambda: Density(Y, (C,), function=lambda c, y: {"a": 1, "b": 2}[c] * y), "raised TypeError: unhashable"),
        (lambda: Density(C, (X,), function=lambda c, x: math.exp(x)), "raised TypeError: .*np.where"),
        (lambda: Density(Y, function=lambda y: y * np.nan), "'y': the function of its Density returned nan at y="),
        (lambda: Density(Y, function=lambda y: np.sin(y)), r"returned -\d.* at y=.*non-negative"),
        (
            lambda: Density(Y, function=lambda y: 0 * y),
            r"'y': its Density was zero everywhere.* give support=\(low, high\), or breaks=",
        ),
        (
            lambda: Density(Y, (C,), function=lambda c, y: np.where(c == "b", 0, normal(y, 0, 1))),
            "zero everywhere it was looked at for c='b'; give support=",
        ),
        (lambda: Density(Y, function=abs, breaks=None), "'y': the breaks of a Density must be .*not None"),  # type: ignore[arg-type]
        (lambda: Density(Y, function=abs, breaks=0.5), r"'y': the breaks of a Density must be .*not 0\.5"),  # type: ignore[arg-type]
        (lambda: Density(Y, function=abs, breaks=lambda y: [y]), "'y': the breaks of a Density must be numbers"),  # type: ignore[arg-type]
        (lambda: Density(Y, function=abs, breaks={"y": None}), "'y': the breaks of a Density must be .*not None"),  # type: ignore[dict-item]
        (lambda: Density(Y, function=abs, support=(1, 0)), "the support .* is empty"),
        (lambda: Density(Y, function=abs, support=3), "a support is a pair"),  # type: ignore[arg-type]
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

    values, _ = Density(Y, function=function, check=False).on({"y": np.linspace(-1, 1, 600_000)})
    assert max(lengths) <= 1 << 18
    assert values.shape == (600_000,)


# -- supports that are found --------------------------------------------------------------------------------------

FOUND = {
    "standard normal": (Y, stats.norm(), ()),
    "narrow and away": (Y, stats.norm(30, 1e-3), ()),
    "far": (Y, stats.norm(1e6, 1), ()),
    "exponential": (POSITIVE, stats.expon(), ()),
    "pole at the end": (POSITIVE, stats.gamma(0.5), ()),
    "log-normal": (POSITIVE, stats.lognorm(1), ()),
    "below": (Continuous("t", (-np.inf, 100)), stats.norm(90, 1), ()),
    "kink": (Y, stats.laplace(1.2345), ()),
    "jumps": (Y, stats.uniform(3.3, 1.4), ()),
    "student": (Y, stats.t(3), ()),
    "with breaks": (Y, stats.norm(1e5 + 77.7, 0.1), (1e5,)),
}


@pytest.mark.parametrize("name", FOUND)
def test_the_support_is_found_on_infinite_domains(name):
    variable, distribution, breaks = FOUND[name]
    density = Density(variable, function=lambda **values: distribution.pdf(values[variable.name]), breaks=breaks)
    for tail in (1e-3, 1e-8, 1e-12, 1e-17):
        low, high = density.support(variable.name, tail)
        assert type(low) is type(high) is float
        assert distribution.cdf(low) + distribution.sf(high) <= tail * (1 + 1e-6) + (1e-14 if low > 0 else 0)
        # and not much more of the axis than that takes
        center, wanted = distribution.median(), distribution.isf(tail / 3) - distribution.median()
        assert high - center <= 2 * max(wanted, 1e-9)
    assert density.support(variable.name, 0.0) == variable.domain


def test_a_found_support_takes_few_evaluations_and_is_kept():
    calls = []

    def function(x, y):
        calls.append(len(y))
        return normal(y, x, 1)

    density = Density(Y, (X,), function=function)
    found = density.support("y", 1e-17, {"x": (-8.0, 8.0)})
    assert len(calls) < 200
    assert sum(calls) < 200_000
    calls.clear()
    assert density.support("y", 1e-17, {"x": (-8.0, 8.0)}) == found
    assert density.renamed({"x": "u"}).support("y", 1e-17, {"u": (-8.0, 8.0)}) == found
    assert not calls


@pytest.mark.parametrize("function", [lambda y: 1 / math.pi / (1 + y**2), lambda y: 0.25 * (1 + np.abs(y)) ** -1.5])
def test_very_heavy_tails_are_cut_far_out(function):
    low, high = Density(Y, function=function).support("y", 1e-17)
    assert 1e12 < -low < 1e16
    assert 1e12 < high < 1e16


def test_several_modes():
    def function(y):
        return 0.5 * normal(y, -50, 1) + 0.5 * normal(y, 50, 1)

    density = Density(Y, function=function, breaks=[-50, 50])
    low, high = density.support("y", 1e-17)
    assert -62 < low < -58
    assert 58 < high < 62
    result = hb.Network([density]).posterior("y", {})
    assert abs(result.mean()) < 1e-9
    assert abs(result.std() - math.sqrt(2501)) < 1e-9


def test_the_support_follows_the_parents():
    density = Density(Y, (C, X), function=lambda c, x, y: normal(y, np.where(c == "a", 100 * x, -7), 0.5))
    low, high = density.support("y", 1e-17, {"x": (0.0, 3.0)})
    # the supports at 0 and 3, and a margin for centers that do not move straight
    assert -12 - 0.11 * 300 < low < -11
    assert 304 < high < 305 + 0.11 * 300
    # of the row that has it, whatever the others have
    rows = np.array([0.0, 1.0, -5.0, 1.0])
    ends = np.array(density.support("y", 1e-17, {"x": (rows, rows)}))
    for i, x in enumerate(rows):
        alone = np.array(density.support("y", 1e-17, {"x": (x, x)}))
        np.testing.assert_allclose(ends[:, i], alone, rtol=1e-12)
        assert abs(alone[0] - (min(100 * x, -7) - 4.3)) < 0.4
    for unknown in ({}, {"x": (-np.inf, np.inf)}, {"x": (-1e150, 1e150)}):
        low, high = density.support("y", 1e-17, unknown)
        assert low < -100
        assert high > 100
    assert density.support("x", 1e-17, {"y": (0.0, 0.0)}) == (-np.inf, np.inf)


def test_the_center_may_turn_between_the_ends_of_a_range():
    density = Density(Y, (X,), function=lambda x, y: normal(y, 10 * np.sin(3 * x), 0.1))
    low, high = density.support("y", 1e-17, {"x": (-3.0, 3.0)})
    assert low < -10.8
    assert high > 10.8


def test_undefined_at_the_ends_of_a_parents_range():
    low, high = Density(Y, (SHARE,), function=lambda share, y: normal(y, 0, share)).support(
        "y", 1e-17, {"share": (0.0, 1.0)}
    )
    assert -9.5 < low < -8.4
    assert 8.4 < high < 9.5


def test_nothing_seen_is_not_impossible():
    density = Density(
        Y, (C,), function=lambda c, y: np.where(c == "a", normal(y, 0, 1), normal(y, 1e9 / 7, 1e-3)), check=False
    )
    with pytest.raises(
        NetworkError, match=r"'y': .*zero everywhere.* for c='b'; give support=\(low, high\), or breaks="
    ):
        density.support("y", 1e-17)
    net = hb.Network([hb.Multinomial(C, table=[0.5, 0.5]), density])
    with pytest.raises(NetworkError, match="give support="):
        net.posterior("y", {})
    known = Density(Y, (C,), function=density.function, breaks=[1e9 / 7])
    np.testing.assert_allclose(known.support("y", 1e-17)[1], 1e9 / 7 + 9e-3, rtol=0, atol=2e-3)


def test_proper_densities_with_unknown_kinks_are_accepted():
    Density(Y, (X,), function=lambda x, y: stats.laplace.pdf(y, np.sin(7 * x) + 1 / 3, 0.01))
    Density(Y, (X,), function=lambda x, y: (np.abs(y - x / 3) < 0.5).astype(float))
    Density(POSITIVE, (X,), function=lambda x, t: np.where(t > 1 / 3, 2 / 3, 0) * np.exp(-(t - 1 / 3) * 2 / 3))
    Density(Y, function=lambda y: np.where(y > math.e, 2 * math.e**2 / np.where(y > 1, y, 1) ** 3, 0))


def test_an_error_of_the_function_s_own_is_passed_on():
    class Own(HybridBNError):
        pass

    def function(y):
        raise Own("mine")

    with pytest.raises(Own, match="mine"):
        Density(Y, function=function)
    assert Density(Y, function=function, check=False).scope == ("y",)


def test_many_parents_are_all_checked():
    parents = [Discrete(f"d{i}", ("p", "q")) for i in range(9)]

    def function(y, **states):
        return normal(y, 0, 1) * np.where(states["d0"] == "q", 1.5, 1)

    with pytest.raises(NetworkError, match=r"d0='q'.* is 1\.5, not 1"):
        Density(Y, parents, function=function)


# -- what queries make of them ------------------------------------------------------------------------------------


@pytest.mark.parametrize(("mean", "deviation"), [(0, 1), (30, 1e-3), (1e6, 1)])
def test_posteriors_of_a_root_without_a_support(mean, deviation):
    net = hb.Network([Density(Y, function=lambda y: normal(y, mean, deviation))])
    result = net.posterior("y", {})
    assert abs(result.mean() - mean) < 1e-9 * max(abs(mean), 1)
    assert abs(result.std() - deviation) < 1e-6 * deviation


def test_a_hidden_density_without_a_support():
    x, e = Continuous("x", (0, 1)), Continuous("e")
    results = []
    for support in (None, (-12, 13)):
        net = hb.Network(
            [
                hb.MTE(x, pieces=[hb.Piece({"x": (0, 1)}, {}, 1.0, [])]),
                Density(e, parents=(x,), function=lambda x, e: normal(e, x, 1), support=support),
                hb.Softmax(C, (e,), intercept=[0, 0.5], coefficients=[[0], [-1]]),
            ]
        )
        results.append(net.posterior("x", {"c": "a"}).mean())

    def joint(power):
        return integrate.dblquad(
            lambda e, x: x**power * normal(e, x, 1) / (1 + math.exp(0.5 - e)), 0, 1, -12, 13, epsabs=1e-12
        )[0]

    np.testing.assert_allclose(results, joint(1) / joint(0), rtol=0, atol=1e-10)


@pytest.mark.parametrize(("child", "distribution"), [(POSITIVE, stats.expon()), (Continuous("t"), stats.t(3))])
def test_hidden_densities_on_half_a_line_and_with_heavy_tails(child, distribution):
    density = Density(child, function=lambda t: distribution.pdf(t))
    net = hb.Network([density, hb.LinearGaussian(Y, (child,), intercept=0, coefficients=[1], variance=1)])

    def joint(t, power):
        return t**power * distribution.pdf(t) * normal(2, t, 1)

    total, first = (
        integrate.quad(joint, max(child.domain[0], -40), 40, args=(k,), points=[0, 2], epsabs=1e-13)[0] for k in (0, 1)
    )
    assert abs(net.posterior("t", {"y": 2.0}).mean() - first / total) < 1e-9


def test_a_moving_center_agrees_with_the_linear_gaussian():
    for deviation in (1.0, 0.1):
        means = []
        for middle in (
            Density(Y, (X,), function=lambda x, y, deviation=deviation: normal(y, 3 * x, deviation)),
            hb.LinearGaussian(Y, (X,), intercept=0, coefficients=[3], variance=deviation**2),
        ):
            last = hb.LinearGaussian(Continuous("z"), (Y,), intercept=0, coefficients=[1], variance=0.5)
            net = hb.Network([hb.LinearGaussian(X, intercept=0, variance=1), middle, last])
            means.append([net.posterior(name, {"z": 2.0}).mean() for name in ("x", "y")])
        np.testing.assert_allclose(means[0], means[1], atol=1e-9)


def test_rows_with_supports_far_apart():
    table = pd.DataFrame({"x": [-3.0, 0.0, 2.5], "z": [-3000.2, 0.3, 2500.0]})
    found = []
    for middle in (
        Density(Y, (X,), function=lambda x, y: normal(y, 1000 * x, 0.5)),
        hb.LinearGaussian(Y, (X,), intercept=0, coefficients=[1000], variance=0.25),
    ):
        last = hb.LinearGaussian(Continuous("z"), (Y,), intercept=0, coefficients=[1], variance=1)
        net = hb.Network([hb.LinearGaussian(X, intercept=0, variance=1), middle, last])
        found.append(net.posterior("y", table).mean())
    np.testing.assert_allclose(found[0], found[1], rtol=0, atol=1e-9)


def test_discrete_parents_far_apart():
    density = Density(Y, (C,), function=lambda c, y: np.where(c == "a", normal(y, -3, 0.5), normal(y, 1000, 20)))
    net = hb.Network([hb.Multinomial(C, table=[0.3, 0.7]), density])
    assert abs(net.posterior("y", {}).mean() - (0.3 * -3 + 0.7 * 1000)) < 1e-8


# -- the promises of every potential, with nothing declared -------------------------------------------------------

UNDECLARED = [
    Example("root", Density(Y, function=lambda y: normal(y, 2, 3)), saved=False),
    Example(
        "moving",
        Density(Y, (C, X), function=lambda c, x, y: normal(y, np.where(c == "a", x, 4 * np.tanh(x)), 0.7)),
        {"c": [0, 1, 1], "x": [0.0, 2.0, -1.0]},
        saved=False,
    ),
    Example("half a line", Density(POSITIVE, function=lambda t: t * np.exp(-t)), saved=False),
]


@pytest.mark.parametrize("example", UNDECLARED, ids=lambda example: example.name)
@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_the_contract_is_kept_without_a_support(check, example):
    check(example)


@pytest.mark.parametrize("rows", [150, 1000])
def test_rows_with_similar_parents_are_drawn_as_each_alone(rows: int) -> None:
    x, y = Continuous("x"), Continuous("y")

    def density(x: Any, y: Any) -> Any:
        jump = np.where(y > x, 1.5, 0.5)
        wide = np.exp(-0.5 * ((y - x) / (0.5 + x**2)) ** 2) / (0.5 + x**2) / np.sqrt(2 * np.pi)
        narrow = np.exp(-0.5 * ((y - 40 * (x > 1)) / 1e-3) ** 2) / 1e-3 / np.sqrt(2 * np.pi)
        return 0.7 * jump * wide + 0.3 * narrow

    potential = Density(y, parents=(x,), function=density, breaks=[0.0, 40.0], check=False)
    rng = np.random.default_rng(rows)
    given, uniforms = np.sort(rng.normal(size=rows)), rng.random(rows)
    together = potential.ppf(uniforms, {"x": given})
    some = rng.choice(rows, 20, replace=False)
    alone = np.concatenate([potential.ppf(uniforms[[row]], {"x": given[[row]]}) for row in some])
    assert np.allclose(together[some], alone, rtol=1e-9, atol=1e-9)


def test_modes_are_looked_for_inside_of_the_ends_alone() -> None:
    low, high = np.array([-np.inf, 2.0, -np.inf, 0.0]), np.array([5.0, np.inf, np.inf, 1.0])
    points = _points_around([np.zeros((1, 4)), np.full((1, 4), 1e6)], low, high, 8)
    assert ((points > low) & (points < high)).all()
    # also where no point around an anchor is
    assert {len(np.unique(column)) for column in points[len(points) // 2 :].T[[0, 3]]} == {1}
