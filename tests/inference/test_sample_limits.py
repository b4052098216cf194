"""Limits of ratios of weighted means: they hold as often as they say, and narrow with the draws."""

from __future__ import annotations

import numpy as np
import pytest

from hybridbn.inference.engines.bounds import BettingLimits, SampleMoments, estimate_tail

RISK = 0.05


def make_moments(weights, values):
    scale = weights.max()
    weights = weights / scale
    linear = SampleMoments(
        np.array([weights @ values]), np.array([weights**2 @ values]), np.array([weights**2 @ values**2])
    )
    return linear, weights.sum(), (weights**2).sum(), scale


def draw_rare(rng, count):
    """Return weights of which one in a hundred has most of the mass, and values that are different there."""
    heavy = rng.random(count) < 0.01
    return np.where(heavy, 80.0, 0.2), np.where(heavy, 0.9, rng.random(count) * 0.2), 80.0


def draw_even(rng, count):
    weights = rng.random(count)
    return weights, (rng.random(count) < weights).astype(float), 1.0


def draw_skew(rng, count):
    weights = np.minimum(rng.pareto(1.2, count), 500.0)
    return weights, rng.random(count) ** (1 + weights), 500.0


@pytest.mark.parametrize("draw", [draw_rare, draw_even, draw_skew])
@pytest.mark.parametrize("count", [50, 1000])
def test_limits_hold(draw, count):
    weights, values, _ = draw(np.random.default_rng(0), 300_000)
    ratio, mean = weights @ values / weights.sum(), weights.mean()
    inside, inside_mean = [], []
    for seed in range(20):
        weights, values, most = draw(np.random.default_rng([1, seed]), count)
        moments, total, squares, scale = make_moments(weights, values)
        limits = BettingLimits(count, total, squares, most / scale, RISK)
        low, high = limits.bound_ratio(moments)
        assert 0 <= low[0] <= moments.first[0] / total <= high[0] <= 1
        inside.append(low[0] <= ratio <= high[0])
        lowest, highest = limits.bound_log_mean(np.log(scale), np.log(most))
        inside_mean.append(lowest <= np.log(mean) <= highest)
    assert np.mean(inside) >= 1 - RISK
    assert np.mean(inside_mean) >= 1 - RISK


def test_limits_are_narrow_where_draws_are_many_and_the_bound_is_near():
    widths = []
    for count in (100, 1000, 10_000):
        weights, values, _ = draw_even(np.random.default_rng(0), count)
        moments, total, squares, scale = make_moments(weights, values)
        limits = BettingLimits(count, total, squares, 1 / scale, RISK)
        low, high = limits.bound_ratio(moments)
        width = high[0] - low[0]
        widths.append(width)
        normal = limits.bound_asymptotically(moments)
        assert width < 2.5 * (normal[1] - normal[0])[0]
    assert widths[2] < 0.05 < widths[0]
    far = BettingLimits(count, total, squares, 1e4 / scale, RISK)
    assert np.subtract(*far.bound_ratio(moments)[::-1])[0] > 0.4
    assert far.least_width > 0.2


def test_without_possible_draws_everything_is_possible():
    moments = SampleMoments(*(np.zeros(2) for _ in range(3)))
    limits = BettingLimits(10, 0.0, 0.0, 1.0, RISK)
    low, high = limits.bound_ratio(moments)
    assert (low == 0).all()
    assert (high == 1).all()
    assert limits.bound_log_mean(0.0, 2.0) == (-np.inf, 2.0)
    assert limits.least_width == 0.5


def test_values_at_the_ends_have_limits_there():
    moments = SampleMoments(*(np.array([0.0, 90.0]) for _ in range(3)))
    low, high = BettingLimits(90, 90.0, 90.0, 1.0, RISK).bound_ratio(moments)
    assert (low[0], high[1]) == (0.0, 1.0)
    assert 0 < high[0] < 0.1
    assert 0.9 < low[1] < 1


@pytest.mark.parametrize("shape", [0.2, 0.5, 1.0, 1.5])
def test_the_shape_of_a_tail_is_found(shape):
    rng = np.random.default_rng(3)
    assert estimate_tail(-shape * np.log(rng.random(50_000))) == pytest.approx(shape, abs=0.15)


def test_tails_of_few_or_equal_weights():
    assert estimate_tail(np.zeros(10)) == np.inf
    assert estimate_tail(np.zeros(1000)) == -np.inf
    assert estimate_tail(np.full(1000, -np.inf)) == np.inf
