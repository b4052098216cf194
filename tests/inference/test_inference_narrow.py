"""Peaks and jumps of likelihoods that are known by their values alone: all are found, or the error says so."""

from __future__ import annotations

import itertools
import math
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from narrowing import as_continuous
from scipy import integrate, optimize, stats

import hybridbn as hb
from hybridbn.errors import ImpossibleEvidence

X, Y = hb.Continuous("x"), hb.Continuous("y")
C = hb.Discrete("c", ("a", "b"))
STANDARD = hb.LinearGaussian(X, intercept=0, variance=1)
SIGN = hb.Softmax(C, (X,), intercept=[0, 0], coefficients=[[0], [3]])


def share(x):
    """Return P(b | x)."""
    return 1 / (1 + np.exp(-3 * np.asarray(x)))


def normal(values, mean, sd):
    return np.exp(-0.5 * ((values - mean) / sd) ** 2) / sd / math.sqrt(2 * math.pi)


BENT: dict[str, tuple[Callable[..., Any], Callable[..., Any], float]] = {
    "square": (lambda x: x**2, lambda x: 2 * x, 1.3),
    "wave": (lambda x: np.sin(5 * x), lambda x: 5 * np.cos(5 * x), 0.37),
    "cubic": (lambda x: x**3 - 2 * x, lambda x: 3 * x**2 - 2, 0.15),
    "bump": (lambda x: 3 * np.exp(-(x**2)), lambda x: -6 * x * np.exp(-(x**2)), 1.1),
    "kink": (np.abs, np.sign, 0.8),
}


@pytest.mark.parametrize("name", BENT)
@pytest.mark.parametrize("sd", [1e-3, 1e-4])
def test_every_mode_below_a_bent_mean_counts(name, sd):
    bend, slope, observed = BENT[name]
    child = hb.Density(Y, (X,), function=lambda x, y: normal(y, bend(x), sd), check=False)
    post = hb.Network([STANDARD, child, SIGN]).posterior("c", {"y": observed})
    # in the limit of no noise, each root weighs as much as the prior there over the slope
    places = np.linspace(-8, 8, 20_001)
    over = bend(places) > observed
    pairs = itertools.compress(itertools.pairwise(places), over[1:] != over[:-1])
    roots = np.array([optimize.brentq(lambda x: bend(x) - observed, *pair) for pair in pairs])
    weights = stats.norm.pdf(roots) / np.abs(slope(roots))
    assert post["b"] == pytest.approx(np.average(share(roots), weights=weights), abs=100 * sd**2 + 1e-9)
    assert post.log_evidence == pytest.approx(math.log(weights.sum()), abs=100 * sd**2 + 1e-9)
    assert post.error < 1e-9


def test_what_is_too_narrow_to_be_seen_everywhere_has_a_large_error():
    child = hb.Density(Y, (X,), function=lambda x, y: normal(y, x**2, 1e-9), check=False)
    with pytest.warns(UserWarning, match="estimated error"):
        post = hb.Network([STANDARD, child, SIGN]).posterior("c", {"y": 1.0}, impossible="nan")
    assert not post.error < 0.1


@settings(max_examples=10, deadline=None, derandomize=True)
@given(st.lists(st.floats(-2.5, 2.5), min_size=1, max_size=5, unique=True), st.integers(0, 2**32 - 1))
@example([0.0, 0.001], 0)
def test_jumps_of_likelihoods_are_found_to_the_last_bit(jumps, seed):
    jumps = np.sort(jumps)
    levels = np.random.default_rng(seed).uniform(0.1, 1, len(jumps) + 1)
    net = hb.Network(
        [hb.Multinomial(C, table=[0.5, 0.5]), hb.LinearGaussian(X, (C,), intercept=[0, 1], variance=[1, 2])]
    )
    post = net.posterior("c", {"x": lambda z: levels[np.searchsorted(jumps, z, side="right")]})
    masses = [
        levels @ np.diff(stats.norm.cdf([-np.inf, *jumps, np.inf], mean, sd))
        for mean, sd in ((0, 1), (1, math.sqrt(2)))
    ]
    assert post["a"] == pytest.approx(masses[0] / sum(masses), abs=1e-11)
    assert post.log_evidence == pytest.approx(math.log(sum(masses) / 2), abs=1e-10)
    assert post.error < 1e-9


@pytest.mark.parametrize("ends", [(0.7713, 0.77131), (-1.25, -1.2), (0.3, 2.0)])
def test_boxes_of_any_width(ends):
    low, high = ends
    net = hb.Network([STANDARD, SIGN])
    evidence = {"x": lambda z: ((z > low) & (z < high)).astype(float)}
    assert net.log_evidence(evidence) == pytest.approx(math.log(stats.norm.cdf(high) - stats.norm.cdf(low)), abs=1e-9)
    assert net.posterior("c", evidence).error < 1e-9


def test_jumps_of_an_observed_density_along_its_parent():
    child = hb.Density(Y, (X,), function=lambda x, y: np.where(np.abs(y - x) < 0.7, 1 / 1.4, 0.0))
    post = hb.Network([STANDARD, child]).posterior("x", {"y": 0.4})
    assert post.log_evidence == pytest.approx(math.log((stats.norm.cdf(1.1) - stats.norm.cdf(-0.3)) / 1.4), abs=1e-10)
    assert post.mean() == pytest.approx(stats.truncnorm(-0.3, 1.1).mean(), abs=1e-10)


@pytest.mark.parametrize("width", [1e-3, 1e-4])
def test_spikes_of_a_density_without_parents(width):
    own = hb.Density(X, function=lambda x: 0.7 * normal(x, 0, 1) + 0.3 * normal(x, 1.2345, width), check=False)
    post = hb.Network([own, SIGN]).posterior("c", {})
    assert post["b"] == pytest.approx(0.35 + 0.3 * share(1.2345), abs=width**2 + 1e-9)


def test_the_error_says_where_a_function_was_looked_at():
    net = hb.Network([STANDARD, SIGN])
    evidence = {"x": lambda z: normal(z, 0.512345678, 1e-9)}
    with pytest.raises(ImpossibleEvidence, match=r"as far as could be seen.*likelihood function of 'x'.*in steps of"):
        net.posterior("c", evidence)
    with pytest.warns(UserWarning, match="in steps of"):
        assert net.log_evidence(evidence) == -math.inf


def test_a_heavy_tail_has_no_moments():
    cauchy = hb.Density(X, function=lambda x: 1 / math.pi / (1 + x**2))
    child = hb.LinearGaussian(Y, (X,), intercept=0, coefficients=[1], variance=1)
    net = hb.Network([cauchy, child])
    prior = net.posterior("x", {})
    with pytest.warns(UserWarning, match="no mean"):
        assert math.isnan(prior.mean())
    assert prior.quantile(0.75) == pytest.approx(1, abs=1e-9)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert 0 < net.posterior("x", {"y": 1.0}).mean() < 1
    fair = hb.Network([hb.Density(X, function=lambda x: stats.t.pdf(x, 5))]).posterior("x", {})
    assert fair.var() == pytest.approx(5 / 3, rel=1e-6)


def test_log_densities_of_an_mte_far_in_its_tail():
    x = hb.Continuous("x", (0, 20))
    own = hb.MTE(
        x,
        (C,),
        [
            hb.Piece({"x": (0, 20)}, {"c": state}, 0.0, [(rate, {"x": -rate})])
            for state, rate in (("a", 50.0), ("b", 20.0))
        ],
        normalize=True,
    )
    post = hb.Network([hb.Multinomial(C, table=[0.5, 0.5]), own]).posterior("x", {})
    points = np.array([0.1, 1.25, 3.75, 19.0])
    logs = np.logaddexp(math.log(25) - 50 * points, math.log(10) - 20 * points)
    np.testing.assert_allclose(as_continuous(post).log_pdf(points), logs, rtol=1e-9)
    np.testing.assert_allclose(as_continuous(post).pdf(points), np.exp(logs), rtol=1e-7)


@settings(max_examples=20, deadline=None, derandomize=True)
@given(st.floats(-2.5, 2.5))
def test_kinks_count_wherever_they_lie_in_their_cell(kink):
    """Between the last node of a cell and its end, too."""
    log_evidence = hb.Network([STANDARD]).log_evidence({"x": lambda z: np.abs(z - kink)})
    expected = 2 * stats.norm.pdf(kink) + kink * (2 * stats.norm.cdf(kink) - 1)
    assert log_evidence == pytest.approx(math.log(expected), abs=1e-10)


@pytest.mark.parametrize(("width", "floor"), [(1.5e-3, 0.7), (2e-4, 1e-3)])
def test_spikes_on_a_floor_count(width, floor):
    for center in (-0.2855027, 0.7123456):
        log_evidence = hb.Network([STANDARD]).log_evidence(
            {"x": lambda z, a=center: floor + np.exp(-0.5 * ((z - a) / width) ** 2)}
        )
        spike = stats.norm.pdf(center / math.hypot(1, width)) * width * math.sqrt(2 * math.pi) / math.hypot(1, width)
        assert log_evidence == pytest.approx(math.log(floor + spike), abs=1e-9)


def student(distance):
    """Return the density of Student's t with 4 degrees of freedom."""
    return 0.375 * (1 + distance**2 / 4) ** -2.5


@pytest.mark.parametrize("place", np.round(np.linspace(-0.0683, -0.0671, 7), 6))
def test_spikes_on_a_wide_peak_count(place):
    width, wide, height = 1.7e-4, 0.95, 0.5
    post = hb.Network([STANDARD, SIGN]).posterior(
        "c",
        {"x": lambda x: np.exp(-0.5 * (x / wide) ** 2) + height * np.exp(-0.5 * ((x - place) / width) ** 2)},
    )
    masses = [
        h / math.hypot(1.0, s) * s * math.exp(-0.5 * m**2 / (1 + s**2))
        for h, m, s in ((1, 0, wide), (height, place, width))
    ]
    assert post.log_evidence == pytest.approx(math.log(sum(masses)), abs=1e-9)


def test_heavy_tails_are_searched_where_their_mass_is():
    looked = []

    def family(y, x):
        looked.append(np.broadcast(x, y).size)
        return student(y - np.tanh(x))

    net = hb.Network([hb.Density(X, function=lambda x: student(x)), hb.Density(Y, (X,), function=family)])
    net.log_density({"y": 1.0})
    looked.clear()
    for value in (0.4, 2.5, -3.7):
        mass = integrate.quad(lambda x, y=value: student(x) * student(y - np.tanh(x)), -np.inf, np.inf, epsabs=1e-13)[0]
        assert net.log_density({"y": value}) == pytest.approx(math.log(mass), abs=1e-9)
    assert sum(looked) < 500_000


@pytest.mark.slow
def test_narrow_peaks_between_heavy_tails_are_found():
    def family(y, x):
        return 0.95 * normal(y, x**3, 1e-4) + 0.05 * student(y - x**3)

    net = hb.Network([hb.Density(X, function=lambda x: student(x)), hb.Density(Y, (X,), function=family, check=False)])
    nodes = np.linspace(-5, 5, 400_001)
    wide = 0.05 * np.trapezoid(student(nodes) * student(0.343 - nodes**3), nodes)
    mass = 0.95 * student(0.7) / (3 * 0.7**2) + wide
    assert net.log_density({"y": 0.343}) == pytest.approx(math.log(mass), abs=1e-6)
