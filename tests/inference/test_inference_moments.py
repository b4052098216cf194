"""Means and standard deviations of numbers that lie on grids: none where a tail is too heavy, else with their tails."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest
from scipy import stats

import hybridbn as hb

X, Z = hb.Continuous("x"), hb.Continuous("z")
NAN = math.nan
SLOW = pytest.mark.slow


def t_sd(df, scale=1.0):
    return scale * math.sqrt(df / (df - 2)) if df > 2 else NAN


def pareto(power):
    return lambda x: np.where(x >= 1, power * np.maximum(x, 1) ** (-power - 1), 0.0)


def spike(share, center, width, rest):
    return lambda x: share * stats.norm.pdf(x, center, width) + (1 - share) * rest(x)


def halves(center, rest):
    return lambda x: (rest(x + center) + rest(x - center)) / 2


def mix(share, first, second):
    """Return mean and standard deviation of a mixture of two parts, each with its own."""
    mean = share * first[0] + (1 - share) * second[0]
    square = share * (first[0] ** 2 + first[1] ** 2) + (1 - share) * (second[0] ** 2 + second[1] ** 2)
    return mean, math.sqrt(square - mean**2)


CASES = {
    "normal": (stats.norm(1, 2).pdf, 1, 2),
    "Laplace": (stats.laplace(0.3, 2).pdf, 0.3, 2 * math.sqrt(2)),
    "exponential of a root": (lambda x: np.exp(-np.sqrt(np.abs(x - 2))) / 4, 2, math.sqrt(120)),
    "lognormal": (
        lambda x: stats.lognorm.pdf(np.maximum(x, 0), 1),
        math.exp(0.5),
        math.sqrt((math.e - 1) * math.e),
    ),
    "spike and normal": (spike(0.3, 0.5, 1e-5, stats.norm.pdf), *mix(0.3, (0.5, 1e-5), (0, 1))),
    "spike and uniform": (spike(0.4, 0.5, 1e-5, stats.uniform(-1, 2).pdf), *mix(0.4, (0.5, 1e-5), (0, 3**-0.5))),
    "spike and t(4)": (spike(0.8, 0.5, 1e-4, stats.t(4).pdf), *mix(0.8, (0.5, 1e-4), (0, t_sd(4)))),
    "spike and t(2)": (spike(0.8, 0.5, 1e-4, stats.t(2).pdf), 0.4, NAN),
    "spike and t(1)": (spike(0.8, 0.5, 1e-4, stats.t(1).pdf), NAN, NAN),
    "hardly any t(1.5)": (lambda x: (1 - 1e-6) * stats.norm.pdf(x) + 1e-6 * stats.t.pdf(x, 1.5), 0, NAN),
    "two far modes": (halves(1e5, stats.norm.pdf), 0, math.sqrt(1e10 + 1)),
    "two far t(3)": (halves(1e5, stats.t(3).pdf), 0, math.sqrt(1e10 + 3)),
    "two far t(2)": (halves(1e5, stats.t(2).pdf), 0, NAN),
    "two far t(1)": (halves(1e5, stats.t(1).pdf), NAN, NAN),
    "t with an end": (
        lambda x: np.where(np.abs(x) < 50, stats.t.pdf(x, 1), 0) * math.pi / (2 * math.atan(50)),
        0,
        math.sqrt(50 / math.atan(50) - 1),
    ),
    **{f"t({df})": (stats.t(df, 1, 3).pdf, NAN if df == 1 else 1, t_sd(df, 3)) for df in (1, 1.5, 2, 2.1, 2.5, 3, 8)},
    **{
        f"Pareto({power})": (
            pareto(power),
            power / (power - 1) if power > 1 else NAN,
            math.sqrt(power / (power - 2)) / (power - 1) if power > 2 else NAN,
        )
        for power in (0.8, 1, 1.1, 1.5, 2, 2.5, 3)
    },
}
BREAKS = {"spike": 0.5 + 1e-4 * np.array([-9, -3, 0, 3, 9]), "two": np.array([-1e5, 1e5])}


EVERYDAY = {
    "normal",
    "Laplace",
    "spike and normal",
    "two far modes",
    "t with an end",
    "t(2.5)",
    "Pareto(1.5)",
    "Pareto(2)",
}


@pytest.mark.parametrize("name", [name if name in EVERYDAY else pytest.param(name, marks=SLOW) for name in CASES])
def test_moments_exist_where_the_tails_let_them(name):
    density, mean, sd = CASES[name]
    places = BREAKS.get(name.split()[0], ())
    net = hb.Network([hb.Density(X, function=lambda x: density(x), check=False, breaks={"x": places})])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        post = net.posterior("x")
        found = post.mean(), post.std()
    assert found == pytest.approx((mean, sd), rel=1e-8, abs=1e-9, nan_ok=True)
    assert bool(caught) == math.isnan(sd)
    assert all(("no mean" if math.isnan(mean) else "no variance") in str(each.message) for each in caught)


@pytest.mark.slow
def test_rows_of_a_table_have_the_moments_that_their_tails_let_them_have():
    root = hb.Density(X, function=lambda x: stats.t.pdf(x, 2), check=False)
    parts = [root, hb.LinearGaussian(Z, [X], intercept=0, coefficients=[1], variance=1)]
    post = hb.Network(parts).posterior("x", hb.Table({"z": [None, 1.0, None, 40.0]}, variables=[Z]))
    with pytest.warns(UserWarning, match="no variance"):
        means, deviations = post.mean(), post.std()
    assert np.isfinite(means).all()
    assert np.isnan(deviations).tolist() == [True, False, True, False]
    alone = hb.Network(parts).posterior("x", {"z": 40.0})
    assert (means[3], deviations[3]) == pytest.approx((alone.mean(), alone.std()), rel=1e-10)
