"""Other densities as MTEs: the stated error is kept, they are densities, and they are well conditioned."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from narrowing import known
from scipy import stats

import hybridbn as hb
from hybridbn.errors import NetworkError
from hybridbn.potentials.base import Potential
from hybridbn.potentials.mte import MTE
from hybridbn.potentials.mte.conversions import repair_mixture
from hybridbn.variables import Continuous, Discrete

X = Continuous("x")


def check(f, density, low, high, points=20_001):
    """Compare on a fine grid and at random points, and return the largest difference."""
    x = np.concatenate([np.linspace(low, high, points), np.random.default_rng(0).uniform(low, high, points)])
    values = f(x=x)
    assert (values >= 0).all()
    assert f.integral() == pytest.approx(1, rel=1e-13)
    return np.abs(values - density(x)).max()


@pytest.mark.parametrize("relative", [None, 1e-2, 1e-3, 1e-4, 1e-6, 1e-8, 1e-10])
@pytest.mark.parametrize(("mean", "sd"), [(0, 1), (1e6, 1e-3), (-3, 1e9)])
def test_a_normal_keeps_its_stated_error(mean, sd, relative):
    peak = 1 / (sd * math.sqrt(2 * math.pi))
    f = MTE.from_gaussian(X, mean, sd**2, max_error=None if relative is None else relative * peak)
    found = check(f, stats.norm(mean, sd).pdf, mean - 9 * sd, mean + 9 * sd)
    rounding = peak * 1e-15 * abs(mean) / sd  # of (x - mean) / sd
    assert found <= f.max_error + rounding
    assert f.max_error <= (1e-6 if relative is None else relative) * peak * 1.01
    assert f.max_error <= 3 * found + peak * 1e-12  # and is no idle boast of the other kind
    assert f.condition < 100
    assert len(f.pieces) <= 26
    assert f.mean() == pytest.approx(mean, abs=1e-9 * sd + 1e-15 * abs(mean))
    assert f.var() == pytest.approx(sd**2, rel=30 * (relative or 1e-6))


def test_the_published_normal():
    f = MTE.from_gaussian(X, 0, 1, method="cobb-shenoy", normalize=None)
    assert f.integral() == pytest.approx(0.9973074, abs=1e-7)
    assert f.mass_error == pytest.approx(0.0026926, abs=1e-7)
    assert f(x=0.0) == pytest.approx(0.398942, abs=1e-3)
    x = np.linspace(-4, 4, 10_001)
    assert np.abs(f(x=x) - stats.norm.pdf(x)).max() <= known(f.max_error) < 0.006
    scaled = MTE.from_gaussian(X, 5, 4, method="cobb-shenoy")
    assert scaled.integral() == pytest.approx(1, rel=1e-13)
    assert scaled.mean() == pytest.approx(5, rel=1e-11)
    assert (scaled.pieces[0].box["x"], len(scaled.pieces), len(scaled.pieces[0].terms)) == ((-1, 5), 2, 3)


def test_a_normal_on_a_finite_domain_is_truncated():
    x = Continuous("x", (0, 3))
    f = MTE.from_gaussian(x, 0.5, 1)
    exact = stats.truncnorm(-0.5, 2.5, loc=0.5)
    assert check(f, exact.pdf, 0, 3) <= known(f.max_error) < 1e-6
    half = MTE.from_gaussian(Continuous("x", (0, math.inf)), 0, 1)
    assert check(half, stats.halfnorm.pdf, 0, 9) <= half.max_error


DENSITIES = [
    ("beta", stats.beta(2, 5).pdf, (0, 1), ()),
    ("beta with a root at its end", stats.beta(1.5, 2).pdf, (0, 1), ()),
    ("gamma", stats.gamma(3).pdf, (0, 60), ()),
    ("laplace", stats.laplace(0.3).pdf, (-40, 40), (0.3,)),
    ("uniform in parts", lambda x: np.where(x < 0.3, 0.5, 0.85 / 0.7), (0, 1), (0.3,)),
    ("student", stats.t(5).pdf, (-3000, 3000), (0.0, -5.0, 5.0)),
    ("mixture", lambda x: 0.9 * stats.norm.pdf(x) + 0.1 * stats.norm.pdf(x, 3.21, 1e-3), (-9, 9), (3.21,)),
]  # fmt: skip


@pytest.mark.parametrize(("density", "support", "breaks"), [pytest.param(*d[1:], id=d[0]) for d in DENSITIES])
@pytest.mark.parametrize("error", [1e-3, 1e-6])
def test_any_density_keeps_its_stated_error(density, support, breaks, error):
    f = MTE.from_density(X, density, support, max_error=error, breaks=breaks)
    inner = np.array([*support, *breaks])
    x = np.linspace(support[0], support[1], 30_001)
    x = x[np.abs(x[:, None] - inner).min(axis=1) > 1e-12]
    assert np.all(f(x=x) >= 0)
    assert f.integral() == pytest.approx(1, rel=1e-13)
    lost = 1e-9  # mass outside of the support
    assert np.abs(f(x=x) - density(x)).max() <= f.max_error + lost * density(x).max()
    assert f.max_error <= error
    assert f.condition < 100


def test_a_normal_far_outside_its_domain():
    x = Continuous("x", (10, math.inf))
    f = MTE.from_gaussian(x, 0, 1)
    assert f.mean() == pytest.approx(10.0980932, abs=1e-6)
    assert f.integral() == pytest.approx(1, rel=1e-13)
    assert known(f.max_error) < 1e-5 * 1.1  # of a peak of 10.1


def test_a_function_need_not_be_normalized():
    f = MTE.from_density(X, lambda x: 7 * np.exp(-x * x / 2), (-8, 8))
    assert check(f, stats.norm.pdf, -8, 8) <= known(f.max_error) < 4e-7


def test_a_potential_of_any_family_goes_over():
    rng = np.random.default_rng(0)
    centers = np.sort(rng.normal(size=200))
    width = 0.2

    class Bumps(Potential):
        child, parents = X, ()

        def on(self, axes):
            return stats.norm.pdf(axes["x"][..., None], centers, width).mean(axis=-1), 0.0

        def breaks(self, name, within=None):
            return centers

        def support(self, name, tail=1e-12, within=None):
            return centers[0] - 8 * width, centers[-1] + 8 * width

    bumps = Bumps()
    f = MTE.from_potential(bumps)
    assert check(f, lambda x: bumps(x=x), -6, 6, 5001) <= known(f.max_error) < 1e-6
    assert len(f.pieces) < 100
    assert f.mean() == pytest.approx(centers.mean(), abs=1e-6)
    assert f(x=1e3) == 0 or f(x=1e3) < 1e-200  # tails without end, however small
    assert f.log_on({"x": np.array([20.0])})[0] > -math.inf
    again = MTE.from_potential(f, max_error=1e-5)
    assert known(again.max_error) < 1e-5


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: MTE.from_gaussian(X, 0, -1), "positive variance"),
        (lambda: MTE.from_gaussian(X, math.nan, 1), "finite mean"),
        (lambda: MTE.from_gaussian(X, 0, 1, method="magic"), "'magic'"),
        (lambda: MTE.from_gaussian(X, 0, 1, max_error=0), "must be positive"),
        (lambda: MTE.from_gaussian(Continuous("x", (0, 1)), 0, 1, method="cobb-shenoy"), "beyond the domain"),
        (lambda: MTE.from_gaussian(Continuous("x", (90, 91)), 0, 1), "too far from the mean"),
        (lambda: MTE.from_density(X, stats.norm.pdf, (-math.inf, 3)), "finite interval"),
        (lambda: MTE.from_density(X, lambda x: x, (-1, 1)), r"is -1.0 at -1.0; it must be finite and >= 0"),
        (lambda: MTE.from_density(X, lambda x: 0 * x, (-1, 1)), "zero wherever"),
        (lambda: MTE.from_density(X, lambda x: 1.0, (-1, 1)), "array like its argument"),  # type: ignore[arg-type, return-value]
        (
            lambda: MTE.from_density(X, lambda x: (x > 0.123456789).astype(float), (0, 1)),
            "out of reach near 0.12345.*breaks=",
        ),
    ],
)
def test_what_can_not_be_converted_is_refused(make, message):
    with pytest.raises(NetworkError, match=message):
        make()


def test_a_conditional_is_not_converted():
    class Coin(Potential):
        child, parents = Discrete("c", ("a", "b")), ()

        def on(self, axes):
            return np.full(len(axes["c"]), 0.5), 0.0

    with pytest.raises(NetworkError, match="not a density of one continuous variable"):
        MTE.from_potential(Coin())


def test_pieces_join_where_the_density_is_continuous():
    f = MTE.from_gaussian(X, 0, 1)
    ends = [float(p.box["x"][1]) for p in f.pieces[:-1]]
    for end, _ in itertools.pairwise(ends):
        assert f(x=np.nextafter(end, -9)) == pytest.approx(f(x=end), abs=2 * known(f.max_error))


def test_where_a_child_has_mass_its_gaps_stay() -> None:
    x, d = hb.Continuous("x", domain=(0, 4)), hb.Discrete("d", ("a", "b"))
    pieces = [
        hb.Piece({"x": (0, 1)}, {"d": "a"}, constant=1.0),
        hb.Piece({"x": (1, 4)}, {"d": "a"}),
        hb.Piece({"x": (0, 2)}, {"d": "b"}),
        hb.Piece({"x": (2, 4)}, {"d": "b"}),
    ]
    mixture, repairs = repair_mixture(x, (d,), pieces, True)
    assert repairs[0] == "'x' had no mass at all for some values of its parents; a uniform one was taken there"
    np.testing.assert_allclose(mixture(d=["a", "a", "b", "b"], x=[0.5, 3.0, 1.0, 3.0]), [1.0, 0.0, 0.25, 0.25])
    whole, repairs = repair_mixture(x, (d,), [*pieces[:2], hb.Piece({"x": (0, 4)}, {"d": "b"}, constant=0.25)], True)
    assert repairs == []
    np.testing.assert_allclose(whole(d=["a", "a", "b"], x=[0.5, 3.0, 1.0]), [1.0, 0.0, 0.25])
