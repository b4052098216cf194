"""The mass of a density is one: what is narrow, far away or hidden in a tail is found, or the error says so."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy import stats

import hybridbn as hb

X, Y, Z = hb.Continuous("x"), hb.Continuous("y"), hb.Continuous("z")
C = hb.Discrete("c", ("a", "b"))
SLOW = pytest.mark.slow


def normal(x, mean, sd):
    return np.exp(-0.5 * ((x - mean) / sd) ** 2) / sd / math.sqrt(2 * math.pi)


def student(x, center, scale, df=4.0):
    top = math.gamma((df + 1) / 2) / math.gamma(df / 2) / math.sqrt(df * math.pi) / scale
    return top * (1 + ((x - center) / scale) ** 2 / df) ** (-(df + 1) / 2)


def laplace(x, center, scale):
    return np.exp(-np.abs(x - center) / scale) / scale / 2


def box(x, center, width):
    return (np.abs(x - center) < width / 2) / width


# shares of parts, each with its center and scale, and whether all of them are found
ROOTS: dict[str, tuple[list[tuple[float, Callable[..., Any], float, float]], bool]] = {
    "a spike of 1e-4": ([(0.8, normal, 0.5, 1e-4), (0.2, student, 0, 1)], True),
    "a spike of 1e-5": ([(0.8, normal, 0.5, 1e-5), (0.2, student, 0, 1)], True),
    "a small share": ([(0.01, normal, -0.25, 1e-4), (0.99, student, 0, 1)], True),
    "between the points of a search": ([(0.3, normal, 0.7391, 1e-4), (0.7, student, 0, 1)], True),
    "uneven spikes": ([(0.3, normal, -1.5, 1e-3), (0.3, normal, 2, 1e-5), (0.4, student, 0.5, 2)], True),
    "beside the middle": ([(0.3, normal, 5.7, 1e-3), (0.7, student, 5, 1)], True),
    "in the tail": ([(0.3, normal, 1234.5, 1e-3), (0.7, student, 0, 1)], True),
    "Laplace": ([(0.4, laplace, 0.3, 1e-4), (0.6, student, 0, 1)], True),
    "box": ([(0.4, box, 0.3, 1e-4), (0.6, student, 0, 1)], True),
    "heavy": ([(0.4, student, 0.3, 1e-5), (0.6, student, 0, 1)], True),
    "three spikes": ([(0.2, normal, 0.51, 1e-4), (0.4, normal, 3.3, 1e-6), (0.4, student, 0, 1)], False),
    "beyond the range": ([(0.3, normal, 1234.5, 1e-3), (0.7, normal, 0, 1)], False),
    "two far modes": ([(0.5, normal, 1e5, 1), (0.5, normal, -1e5, 1)], False),
    "two far modes of any digits": ([(0.5, normal, 123457, 1), (0.5, normal, -98765, 1)], False),
    "two far heavy modes": ([(0.5, student, 1e5, 1), (0.5, student, -1e5, 1)], True),
}
EVERYDAY = {"a spike of 1e-4", "between the points of a search", "two far modes"}


def mix(parts):
    return lambda x: sum(share * density(x, center, scale) for share, density, center, scale in parts)


def sensor(x, observed):
    return normal(observed, x, 2.0)


def expect(parts, observed=None):
    """Return the mean, that of the parts weighted by a wide normal likelihood at their centers, if one is given."""
    total = mean = 0.0
    for share, density, center, scale in parts:
        x, weights = np.array([center]), np.ones(1)
        if scale > 0.1:
            edges = center + scale * np.sinh(np.linspace(-13, 13, 400))
            nodes, own = np.polynomial.legendre.leggauss(12)
            half = np.diff(edges)[:, None] / 2
            x = (edges[:-1, None] + half * (1 + nodes)).ravel()
            weights = (half * own).ravel() * density(x, center, scale)
        likelihood = 1.0 if observed is None else sensor(x, observed)
        total, mean = total + share * np.sum(weights * likelihood), mean + share * np.sum(weights * likelihood * x)
    return mean / total


def ask(net, evidence):
    """Return the mean of x, and its error, which is below 1e-6 unless there is a warning."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        post = net.posterior("x", evidence)
    assert post.error < 1e-6 or any("estimated error" in str(each.message) for each in caught)
    return post.mean(), post.error


@pytest.mark.parametrize("name", [name if name in EVERYDAY else pytest.param(name, marks=SLOW) for name in ROOTS])
def test_no_part_of_a_root_is_lost_in_silence(name):
    parts, found = ROOTS[name]
    root = hb.Density(X, function=lambda x: mix(parts)(x), check=False)
    mean, error = ask(hb.Network([root]), {})
    scale = max(1.0, *(abs(center) for *_, center, _ in parts))
    assert abs(mean - expect(parts)) < 1e-6 * scale or error >= 1
    assert (error < 1e-6) == found


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name, (_, found) in ROOTS.items() if found and "far" not in name])
def test_parts_below_parents_and_above_children_are_found(name):
    parts = ROOTS[name][0]
    rest = parts[-1:]

    def given(x, c):
        return np.where(c == "a", mix(parts)(x), mix([(1.0, *rest[0][1:])])(x))

    below = hb.LinearGaussian(Y, (X,), intercept=0, coefficients=[1], variance=4)
    net = hb.Network([hb.Density(X, function=lambda x: mix(parts)(x), check=False), below])
    assert ask(net, {"y": 0.7}) == pytest.approx((expect(parts, 0.7), 0), abs=1e-6)
    net = hb.Network([hb.Multinomial(C, table=[0.5, 0.5]), hb.Density(X, (C,), function=given, check=False), below])
    assert ask(net, {"y": 0.7, "c": "a"}) == pytest.approx((expect(parts, 0.7), 0), abs=1e-6)
    # the states weigh the same where nothing is observed
    assert ask(net, {}) == pytest.approx(((expect(parts) + expect([(1.0, *rest[0][1:])])) / 2, 0), abs=1e-6)


@pytest.mark.parametrize(("width", "scale", "found"), [(1e-3, 1, True), (1e-5, 1, False), (3e-5, 5, False)])
def test_spikes_below_an_observed_number_are_found(width, scale, found):
    def function(x, y):
        return 0.3 * normal(x, np.sin(y) / scale, width) + 0.7 * student(x, y, scale)

    own = hb.Density(X, (Y,), function=function, check=False)
    net = hb.Network([hb.LinearGaussian(Y, intercept=0, variance=1), own])
    mean, error = ask(net, {"y": 0.37})
    assert (error < 1e-6) == found
    assert abs(mean - (0.3 * math.sin(0.37) / scale + 0.7 * 0.37)) < max(error, 1e-9)
    # an interval has less than all mass
    assert ask(net, {"y": 0.37, "x": hb.Interval(1, 3)})[1] < 1e-6 or not found


@pytest.mark.parametrize(("width", "known"), [(1e-2, True), (1e-5, False)])
def test_how_sharp_a_density_is_is_not_known_where_mass_is_missing(width, known):
    spike = hb.Density(
        X, (Y,), function=lambda x, y: 0.3 * normal(x, np.sin(y) / 3, width) + 0.7 * student(x, y, 5), check=False
    )
    assert (spike.scale("x") > 0) == known


@pytest.mark.slow
@pytest.mark.parametrize("share", [0.01, 0.3])
def test_spikes_that_the_check_of_mass_sees_are_found_below_numbers(share):
    own = hb.Density(X, (Y,), function=lambda x, y: share * normal(x, 0.5, 1e-5) + (1 - share) * student(x, y, 1))
    net = hb.Network([hb.LinearGaussian(Y, intercept=0, variance=1), own])
    mean, error = ask(net, {"y": 0.37})
    assert (mean, error) == pytest.approx((share * 0.5 + (1 - share) * 0.37, 0), abs=1e-7)


def count_values(function, most):
    """Return the function, which refuses more values than there are room for."""
    left = [most]

    def counted(**values):
        left[0] -= values["y"].size
        assert left[0] > 0, "far more values than a ridge takes"
        return function(**values)

    return counted


@pytest.mark.parametrize("waves", [1, pytest.param(4, marks=SLOW)])
def test_peaks_of_a_child_where_no_prior_is_do_not_stretch_the_grid(waves):
    ridge = count_values(lambda y, x, z: normal(y, np.sin(waves * x) + z, 1e-3), 2e7)
    parents = [hb.LinearGaussian(name, intercept=0, variance=1) for name in (X, Z)]
    net = hb.Network([*parents, hb.Density(Y, (X, Z), function=lambda y, x, z: ridge(y=y, x=x, z=z), check=False)])
    post = net.posterior("x", {"y": 0.58})
    x = np.linspace(-9, 9, 4001)
    weights = stats.norm.pdf(x) * stats.norm.pdf(0.58 - np.sin(waves * x), scale=math.hypot(1, 1e-3))
    assert post.mean() == pytest.approx(np.average(x, weights=weights), abs=1e-6)
    assert post.error < 1e-8


TAILS = [
    (1, math.nan, math.nan),
    (1.5, 1, math.nan),
    (2, 1, math.nan),
    (2.1, 1, math.sqrt(85)),
    (5, 1, math.sqrt(23 / 3)),
]


@pytest.mark.parametrize(("df", "mean", "sd"), [TAILS[0], *(pytest.param(*each, marks=SLOW) for each in TAILS[1:])])
def test_what_depends_on_a_heavy_tail_has_the_moments_that_it_lets_it_have(df, mean, sd):
    chain = [
        hb.Density(X, function=lambda x: student(x, 0, 1, df)),
        hb.LinearGaussian(Y, (X,), intercept=1, coefficients=[2], variance=1),
        hb.LinearGaussian(Z, (Y,), intercept=0, coefficients=[-1], variance=4),
    ]
    for name, sign, more in (("y", 1, 0), ("z", -1, 4)):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            post = hb.Network(chain).posterior(name)
            found = post.mean(), post.std()
        assert found == pytest.approx((sign * mean, math.sqrt(sd**2 + more)), rel=1e-7, nan_ok=True)
        reason = "no mean" if math.isnan(mean) else "no variance"
        assert {f"{name!r} has {reason}" in str(each.message) for each in caught} == (
            {True} if math.isnan(sd) else set()
        )


def test_what_does_not_depend_on_a_tail_keeps_its_moments():
    root = hb.Density(X, function=lambda x: student(x, 0, 1, 2))
    loose = hb.LinearGaussian(Y, (X,), intercept=1, coefficients=[0], variance=4)
    below = hb.LinearGaussian(Z, (X,), intercept=0, coefficients=[1], variance=1)
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        post = hb.Network([root, loose, below]).posterior("y", {"z": 3.0})
        assert (post.mean(), post.std()) == pytest.approx((1, 2), rel=1e-9)


@pytest.mark.parametrize("center", [0.0, 4e3, pytest.param(1e6, marks=SLOW)])
@pytest.mark.parametrize("away", [0.0, 0.5])
def test_points_far_from_zero_are_as_exact_as_they_claim(center, away):
    point, answers = center + away, []
    below = hb.LinearGaussian(Y, (X,), intercept=0, coefficients=[1], variance=1)
    for density in (
        hb.Density(X, function=lambda x: normal(x, center, 1), breaks=[center]),
        hb.LinearGaussian(X, intercept=center, variance=1),
    ):
        points = hb.Atoms(X, points=[point], probabilities=[0.3, 0.7], density=density, unit=1.0)
        post = hb.Network([points, below]).posterior("x", {"y": center + 0.25})
        masses = [post.pdf(point), post.cdf(point), post.cdf(point - 0.3)]
        answers.append(([post.mean() - center, post.log_evidence, *masses], post.error))
    (first, error), (second, _) = answers
    assert np.abs(np.subtract(first, second)).max() < error + 1e-11 + 4 * np.spacing(center)
    assert error < 1e-10 * max(center / 100, 1)
    # what others know of it is as exact as near zero
    assert first[1] == pytest.approx(second[1], abs=1e-12 + np.spacing(center))
