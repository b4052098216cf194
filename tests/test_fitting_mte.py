"""Mixtures of truncated exponentials learned from columns."""

import numpy as np
import pytest

import hybridbn as hb
from hybridbn.errors import TableError
from hybridbn.fitting import MTEFitter

RNG = np.random.default_rng(3)
SAMPLES = {
    "normal": RNG.normal(size=300),
    "skewed": RNG.exponential(size=300),
    "two humps": np.concatenate([RNG.normal(-4, 1, 150), RNG.normal(4, 0.5, 150)]),
    "few values": RNG.integers(0, 4, 300).astype(float),
    "five rows": RNG.normal(size=5),
}


def fitted(values, weights=None):
    table = hb.Table({"x": values}, weights=weights)
    return MTEFitter().fit(table, table.variable("x"))


@pytest.mark.parametrize("name", SAMPLES)
def test_densities_have_mass_one_and_never_end(name):
    values = SAMPLES[name]
    density = fitted(values)
    assert density.integral() == pytest.approx(1, abs=1e-9)
    width = np.ptp(values)
    grid = np.linspace(values.min() - 3 * width, values.max() + 3 * width, 2001)
    assert (density(x=grid) > 0).all()
    assert not density.has_zeros


@pytest.mark.parametrize("name", ["normal", "skewed", "two humps"])
def test_shift_and_scale_do_not_matter(name):
    values = SAMPLES[name]
    plain, moved = fitted(values), fitted(1e3 * values - 7e4)
    grid = np.linspace(values.min(), values.max(), 101)
    np.testing.assert_allclose(1e3 * moved(x=1e3 * grid - 7e4), plain(x=grid), rtol=1e-6)


def test_weights_stand_for_repetition_and_nothing():
    values = SAMPLES["normal"][:60]
    weights = np.tile([0.0, 1.0, 2.0], 20)
    grid = np.linspace(-2, 2, 51)
    repeated = np.repeat(values, weights.astype(int))
    np.testing.assert_allclose(fitted(values, weights)(x=grid), fitted(repeated)(x=grid), rtol=1e-9)


def test_more_rows_come_closer_to_the_truth():
    grid = np.linspace(-6, 6, 4001)
    truth = np.exp(-(grid**2) / 2) / np.sqrt(2 * np.pi)
    distances = []
    for count in (100, 10_000):
        density = fitted(np.random.default_rng(0).normal(size=count))
        distances.append(np.trapezoid(truth * np.log(truth / density(x=grid)), grid))
    assert distances[1] < distances[0] / 5
    assert distances[1] < 5e-3


def test_conditionals_see_cells_only_and_have_no_holes():
    x = RNG.normal(size=500)
    y = np.where(x > 0, 3.0, -3.0) + 0.5 * RNG.normal(size=500)
    table = hb.Table({"x": x, "y": y})
    density = MTEFitter().fit(table, table.variable("y"), (table.variable("x"),))
    assert density.cellwise("x")
    assert density(x=2.0, y=3.0) > 20 * density(x=-2.0, y=3.0)
    far = np.array([-1e6, -50.0, 50.0, 1e6])
    assert (density(x=far, y=np.zeros(4)) > 0).all()


def test_a_category_given_a_number():
    x = RNG.normal(size=400)
    table = hb.Table({"x": x, "c": np.where(x > 0.3, "high", "low")})
    chances = MTEFitter().fit(table, table.variable("c"), (table.variable("x"),))
    assert chances(x=2.0, c="high") > 0.9
    assert chances(x=-2.0, c="high") < 0.1
    for place in (-1e5, 0.0, 1e5):
        assert chances(x=place, c="high") + chances(x=place, c="low") == pytest.approx(1)


def test_values_of_very_different_size_stay_finite():
    values = np.concatenate([np.full(200, 5.0), np.full(3, 4.999), [1e4, 2e4, 9e5]])
    other = np.concatenate([np.arange(203.0), [0.5, 1.5, 2.5]])
    table = hb.Table({"x": values, "y": other})
    density = MTEFitter().fit(table, table.variable("x"), (table.variable("y"),))
    assert np.isfinite(density(x=np.linspace(0, 1e6, 50), y=np.full(50, 3.0))).all()


def test_constants_need_a_floor():
    table = hb.Table({"x": [2.0] * 5})
    with pytest.raises(TableError, match=r"column .x. has only the value 2\.0"):
        MTEFitter().fit(table, table.variable("x"))
    density = MTEFitter(floor=0.1).fit(table, table.variable("x"))
    assert density.integral() == pytest.approx(1)
    assert density.mean() == pytest.approx(2)
    assert density.var() == pytest.approx(0.01)


def test_naive_bayes_over_mixtures_predicts():
    x = RNG.uniform(-2, 2, 400)
    y = x + 0.3 * RNG.normal(size=400)
    net = hb.fit([("y", "x")], {"x": x, "y": y})
    assert net.posterior("y", {"x": 1.5}).mean() > 1
    assert net.posterior("y", {"x": -1.5}).mean() < -1
