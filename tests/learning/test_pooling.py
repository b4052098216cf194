"""Rubin's rules against the published formulas."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy import stats

import hybridbn as hb


def published(estimates: list[float], variances: list[float], complete_df: float) -> tuple[float, float, float]:
    """Return estimate, total variance and df, as Barnard and Rubin (1999, eqs. 1 to 5) write them."""
    m = len(estimates)
    q, u = sum(estimates) / m, sum(variances) / m
    b = sum((e - q) ** 2 for e in estimates) / (m - 1)
    t = u + (1 + 1 / m) * b
    gamma = (1 + 1 / m) * b / t
    nu = (m - 1) / gamma**2
    if math.isinf(complete_df):
        return q, t, nu
    observed = (complete_df + 1) / (complete_df + 3) * complete_df * (1 - gamma)
    return q, t, 1 / (1 / nu + 1 / observed)


@pytest.mark.parametrize("complete_df", [3.0, 50.0, math.inf])
@pytest.mark.parametrize("m", [2, 3, 20])
def test_pooling_follows_the_published_formulas(m: int, complete_df: float) -> None:
    rng = np.random.default_rng(m)
    estimates, variances = rng.normal(2, 0.3, m).tolist(), rng.uniform(0.05, 0.2, m).tolist()
    pooled = hb.pool(estimates, variances, complete_df=complete_df)
    q, t, df = published(estimates, variances, complete_df)
    assert pooled.estimate == pytest.approx(q, rel=1e-13)
    assert pooled.variance == pytest.approx(t, rel=1e-13)
    assert pooled.df == pytest.approx(df, rel=1e-12)
    assert pooled.standard_error == pytest.approx(math.sqrt(t), rel=1e-13)
    low, high = pooled.interval(0.9)
    assert (low, high) == pytest.approx(stats.t.interval(0.9, df, q, math.sqrt(t)), rel=1e-12)
    # van Buuren (2018, eq. 2.29): (r + 2 / (df + 3)) / (1 + r)
    r = (t - pooled.within) / pooled.within
    assert pooled.missing_information == pytest.approx((r + 2 / (df + 3)) / (1 + r), rel=1e-12)


def test_a_worked_example_by_hand() -> None:
    # q = 2, B = 1, U = 4, T = 4 + 4/3
    pooled = hb.pool([1.0, 2.0, 3.0], [4.0, 4.0, 4.0])
    assert pooled.variance == pytest.approx(16 / 3)
    assert pooled.df == pytest.approx(2 / (1 / 4) ** 2)
    assert (pooled.within, pooled.between, pooled.draws) == (4.0, 1.0, 3)


def test_vectors_are_pooled_entry_by_entry() -> None:
    rng = np.random.default_rng(0)
    estimates, variances = rng.normal(size=(5, 3)), rng.uniform(1, 2, (5, 3))
    pooled = hb.pool(estimates, variances, complete_df=30)
    assert pooled.interval().shape == (3, 2)
    for j in range(3):
        alone = hb.pool(estimates[:, j], variances[:, j], complete_df=30)
        assert pooled.estimate[j] == pytest.approx(alone.estimate)
        assert pooled.df[j] == pytest.approx(alone.df)
        assert tuple(pooled.interval()[j]) == pytest.approx(alone.interval())


def test_nothing_missing_leaves_the_analysis_of_the_complete_table() -> None:
    pooled = hb.pool([1.5] * 4, [0.2] * 4, complete_df=17)
    assert pooled.missing_information == 0
    assert pooled.df == pytest.approx(17 * 18 / 20)
    assert hb.pool([1.5] * 4, [0.2] * 4).df == math.inf
    assert hb.pool([1.5] * 4, [0.2] * 4).interval() == pytest.approx(stats.norm.interval(0.95, 1.5, math.sqrt(0.2)))


def test_all_that_is_known_may_be_missing() -> None:
    pooled = hb.pool([1.0, 2.0], [0.0, 0.0])
    assert pooled.df == 1
    assert np.isfinite(pooled.interval()).all()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([1.0], [1.0]), "at least two"),
        ((2.0, 1.0), "at least two"),
        (([1.0, 2.0], [1.0]), "each estimate needs its variance"),
        (([1.0, 2.0], [1.0, -1.0]), "squared standard errors"),
        (([1.0, math.nan], [1.0, 1.0]), "estimates must be finite"),
        ((["a", "b"], [1.0, 1.0]), "estimates must be numbers"),
    ],
)
def test_what_cannot_be_pooled_is_refused(arguments: Any, message: str) -> None:
    with pytest.raises(hb.TableError, match=message):
        hb.pool(*arguments)


def test_options_are_checked() -> None:
    with pytest.raises(hb.TableError, match="complete_df"):
        hb.pool([1.0, 2.0], [1.0, 1.0], complete_df=0)
    with pytest.raises(hb.TableError, match="between 0 and 1"):
        hb.pool([1.0, 2.0], [1.0, 1.0]).interval(95)
