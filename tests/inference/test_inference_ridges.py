"""Ridges: narrow or bent densities, known by their values alone, of several hidden numbers. None is lost in silence."""

from __future__ import annotations

import itertools
import math
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy import special

import hybridbn as hb
from hybridbn.inference.compilation import Question, problem_of
from hybridbn.inference.engines.elimination import find_ridge
from hybridbn.inference.evidence import EvidenceReader
from hybridbn.inference.modes import Trail, find_modes

C = hb.Discrete("c", ("a", "b"))
XS = [hb.Continuous(name) for name in ("x1", "x2", "x3")]
Y = hb.Continuous("y")
PANELS = np.linspace(-9, 9, 145)


def normal(values, sd):
    return np.exp(-0.5 * (values / sd) ** 2) / (sd * math.sqrt(2 * math.pi))


NOISES = {
    "normal": normal,
    "heavy": lambda d, s: 2 / (math.sqrt(3) * math.pi * s) / (1 + (d / s) ** 2 / 3) ** 2,
    "outliers": lambda d, s: 0.95 * normal(d, s) + 0.05 * normal(d, 3.0),
}


def lay_nodes(edges, order):
    nodes, weights = np.polynomial.legendre.leggauss(order)
    half = np.diff(edges)[:, None] / 2
    return (edges[:-1, None] + half * (nodes + 1)).ravel(), (half * weights).ravel()


def share(x):
    return special.expit(3 * x)


def moments(x):
    return np.stack([np.ones_like(x), x, share(x)], axis=-1)


def integrate_over_first(density, breaks=()):
    """Return E[moments(x1); m = u], given the density of m at u given x1."""
    x, weights = lay_nodes(np.unique([*PANELS, *breaks]), 12)
    return (weights * normal(x, 1) * density(x)) @ moments(x)


def of_extreme(u, k, sign):
    """The largest (or smallest) of standard normals is another one than the first, or the first itself."""
    rest = integrate_over_first(
        lambda x: np.where(sign * x < sign * u, (k - 1) * normal(u, 1) * special.ndtr(sign * u) ** (k - 2), 0.0),
        [u],
    )
    return rest + normal(u, 1) * special.ndtr(sign * u) ** (k - 1) * moments(np.array(u))


def of_ring(u, k):
    if u <= 0:
        return np.zeros(3)
    angles, weights = lay_nodes(np.linspace(0, np.pi, 33), 12)
    surface = 2 * u if k == 2 else 2 * np.pi * u**2 * np.sin(angles)
    return (weights * surface * math.exp(-(u**2) / 2) / (2 * np.pi) ** (k / 2)) @ moments(u * np.cos(angles))


def of_distance(u, k):
    if k == 2:
        return (u > 0) * integrate_over_first(lambda x: normal(x - u, 1) + normal(x + u, 1))

    def half(x):
        return normal(x - u, math.sqrt(2)) * special.ndtr((x + u) / math.sqrt(2))

    return integrate_over_first(lambda x: half(x) + half(-x))


# the mean of y, and the density of that mean together with the moments of the first parent
RIDGES: dict[tuple[str, int], tuple[Callable[..., Any], Callable[..., Any]]] = {
    ("linear", 2): (lambda a, b: a + 0.7 * b, lambda u: integrate_over_first(lambda x: normal(u - x, 0.7))),
    ("linear", 3): (
        lambda a, b, c: a + 0.7 * b - 0.5 * c,
        lambda u: integrate_over_first(lambda x: normal(u - x, math.hypot(0.7, 0.5))),
    ),
    ("alone", 2): (lambda a, b: a + 0 * b, lambda u: normal(u, 1) * moments(np.array(u))),
    ("alone", 3): (lambda a, b, c: a + 0 * b * c, lambda u: normal(u, 1) * moments(np.array(u))),
    ("max", 2): (np.maximum, lambda u: of_extreme(u, 2, 1)),
    ("max", 3): (lambda a, b, c: np.maximum(np.maximum(a, b), c), lambda u: of_extreme(u, 3, 1)),
    ("min", 2): (np.minimum, lambda u: of_extreme(u, 2, -1)),
    ("product", 3): (
        lambda a, b, c: a * b + c,
        lambda u: integrate_over_first(lambda x: normal(u / np.sqrt(1 + x * x), 1) / np.sqrt(1 + x * x)),
    ),
    ("ring", 2): (np.hypot, lambda u: of_ring(u, 2)),
    ("ring", 3): (lambda a, b, c: np.sqrt(a * a + b * b + c * c), lambda u: of_ring(u, 3)),
    ("distance", 2): (lambda a, b: np.abs(a - b), lambda u: of_distance(u, 2)),
    ("distance", 3): (lambda a, b, c: np.abs(a - b) + c, lambda u: of_distance(u, 3)),
    ("wave", 2): (
        lambda a, b: np.sin(4 * a) + b,
        lambda u: integrate_over_first(lambda x: normal(u - np.sin(4 * x), 1)),
    ),
}


def expect(ridge, noise, width, observed):
    """Return the density of the observed value with the moments of the first parent."""
    away = np.concatenate([[0], width * np.array([0.5, 1, 2, 3, 4, 6, 8, 12]), np.geomspace(20 * width, 14, 60)])
    u, weights = lay_nodes(np.unique([*(observed - away), *(observed + away), 0.0]), 10)
    return (weights * NOISES[noise](observed - u, width)) @ np.array([RIDGES[ridge][1](each) for each in u])


def make_network(ridge, noise, width):
    mean, kernel, parents = RIDGES[ridge][0], NOISES[noise], XS[: ridge[1]]

    def two(y, x1, x2):
        return kernel(y - mean(x1, x2), width)

    def three(y, x1, x2, x3):
        return kernel(y - mean(x1, x2, x3), width)

    child = hb.Density(Y, parents, function=two if ridge[1] == 2 else three, check=False)
    slope = hb.Softmax(C, XS[:1], intercept=[0, 0], coefficients=[[0], [3]])
    return hb.Network([*(hb.LinearGaussian(x, intercept=0, variance=1) for x in parents), child, slope])


def check_ridge(ridge, noise, width, observed):
    """Assert that answers are as right as they claim, and narrow ones that can be seen claim to be right."""
    net = make_network(ridge, noise, width)
    density, first, upper = expect(ridge, noise, width, observed)
    for target, truth in (("c", upper / density), ("x1", first / density)):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            post = net.posterior(target, {"y": observed}, impossible="nan")
        answer = post["b"] if target == "c" else post.mean()
        assert abs(answer - truth) <= max(post.error, 1e-8) or caught
        if width >= 1e-4:
            assert abs(answer - truth) < 1e-6
            assert post.error < 1e-4
            assert post.log_evidence == pytest.approx(math.log(density), abs=1e-6)


EVERYDAY = [
    (("linear", 2), "outliers", 1e-3, 0.58),
    (("alone", 2), "outliers", 1e-3, 0.7169),
    pytest.param(("distance", 2), "normal", 1e-3, 0.31, marks=pytest.mark.slow),
]


@pytest.mark.parametrize(("ridge", "noise", "width", "observed"), EVERYDAY)
def test_ridges_are_found(ridge, noise, width, observed):
    check_ridge(ridge, noise, width, observed)


@pytest.mark.slow
@pytest.mark.parametrize("width", [1e-1, 1e-2, 1e-3, 1e-4, 1e-5])
@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("ridge", [ridge for ridge in RIDGES if ridge[1] == 2])
def test_every_ridge_of_two_numbers_is_found(ridge, noise, width):
    check_ridge(ridge, noise, width, 0.5831)


@pytest.mark.slow
def test_what_only_a_product_of_grids_can_answer_says_what_it_may_miss():
    net = make_network(("linear", 2), "outliers", 1e-4)
    with pytest.warns(UserWarning, match="estimated error"):
        assert not net.posterior(["x1", "x2"], {"y": 0.58}).error < 1


@pytest.mark.slow
def test_ridges_of_three_numbers_say_what_they_may_miss():
    density, first, _ = expect(("max", 3), "normal", 0.5, 0.58)
    with pytest.warns(UserWarning, match="estimated error"):
        post = make_network(("max", 3), "normal", 0.5).posterior("x1", {"y": 0.58})
    assert abs(post.mean() - first / density) < post.error < 0.01


def test_a_density_that_was_zero_wherever_one_looked_is_doubtful():
    inside = hb.Density(Y, XS[:1], function=lambda y, x1: np.where(np.abs(y - np.sin(x1)) < 0.5, 1.0, 0.0))
    net = hb.Network([hb.LinearGaussian(XS[0], intercept=0, variance=1), inside])
    with pytest.warns(UserWarning, match="known by its values alone"):
        assert net.log_evidence({"y": 5.0}) == -math.inf
    with pytest.raises(hb.ImpossibleEvidence, match="as far as could be seen"):
        net.posterior("x1", {"y": 5.0})


def test_smooth_families_share_a_grid():
    for ridge, noise, width in itertools.product([("linear", 2), ("ring", 2)], NOISES, [0.3, 1e-3]):
        net = make_network(ridge, noise, width)
        problem = problem_of(net, Question(("c",)), EvidenceReader(net, {"y": 0.5}, ("c",)).evidence())
        assert bool(find_ridge(problem)) == (width < 0.1)


@pytest.mark.parametrize(
    ("follows", "curves"),
    [(True, [np.sin]), (True, [np.sin, lambda x: 4 + x**2]), (False, [lambda x: np.sin(x) + 1e3 * (x == 0.5)])],
)
def test_peaks_are_followed_between_places_that_see_as_many(follows, curves):
    trail, evaluated = Trail(), [0]

    def find(places):
        def logs(points, rows):
            evaluated[0] += points.size
            away = [(points - curve(places[rows])) / 1e-4 for curve in curves]
            return np.logaddexp.reduce([-0.5 * each**2 for each in away])

        low, high = np.full(len(places), -9.0), np.full(len(places), 9.0)
        modes = find_modes(logs, low, high, low, high, scale=1e-4, trail=(trail, places))
        return modes, evaluated[0] / len(places)

    _, closely = find(np.linspace(0, 1, 9))
    between = np.array([0.03, 0.5001, 0.95] if follows else [0.49, 0.51])
    evaluated[0] = 0
    found, quickly = find(between)
    assert (quickly < closely / 5) == follows
    assert not found.unseen.any()
    for row, place in enumerate(between):
        for curve in curves:
            assert np.abs(found.edges[found.rows == row] - curve(place)).min() < 1e-5
