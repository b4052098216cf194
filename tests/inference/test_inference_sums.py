"""Sums over slices and draws: blocks in any order are one block, two draws are one of twice the weight; and the parts
of densities that are merged when there are too many.
"""

from __future__ import annotations

from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import hybridbn as hb
from hybridbn.inference.axes import StateAxis
from hybridbn.inference.engines.bounds import SampleSums
from hybridbn.inference.posteriors import mixtures
from hybridbn.inference.posteriors.mixtures import WeightedMixture
from hybridbn.variables import Values

SCOPES = (("a",), ("b", "a"), ("c",))
SIZES = {"a": 2, "b": 3, "c": 2}
DRAWS = 60


def make_sums(log_bound: float = 20.0) -> SampleSums:
    """Return sums for draws of a, while b and c are eliminated."""
    question = SimpleNamespace(joint=True, over=(), targets=())
    problem: Any = SimpleNamespace(
        question=question,
        scopes=SCOPES,
        axes={name: StateAxis(size) for name, size in SIZES.items()},
        sizes=SIZES,
        component_of={},
    )
    plan: Any = SimpleNamespace(
        problem=problem,
        drawn=SimpleNamespace(names=("a",)),
        options=SimpleNamespace(tolerance=1e-9),
    )
    return SampleSums(plan, log_bound)


RNG = np.random.default_rng(4)
CODES = RNG.integers(0, 2, DRAWS)
LOGS = RNG.normal(size=DRAWS) * 2
LOGS[40:] += 5  # the heavy ones come last
TABLES = RNG.dirichlet(np.ones(3), DRAWS).T, RNG.dirichlet(np.ones(2), DRAWS).T
ERRORS = RNG.random(DRAWS) * 1e-9
COUNTS = RNG.integers(1, 4, DRAWS)


def add(sums: SampleSums, rows: Any, counts: Any = COUNTS) -> None:
    codes = CODES[rows]
    ones = np.ones((1, len(codes)))
    part: Any = SimpleNamespace(
        problem=sums.problem,
        rows=np.arange(len(codes)),
        log_norm=LOGS[rows] - 3.0,
        error=ERRORS[rows],
        tables=[ones[0], TABLES[0][:, rows], TABLES[1][:, rows]],
    )
    sums.draws += int(np.sum(counts[rows]))
    sums.add_draws(part, {"a": codes}, np.full(len(codes), -3.0), counts[rows])


def list_sums(sums: SampleSums) -> dict[str, Values]:
    """Return all sums in units of one weight."""
    unit = np.exp(sums.log_scale)
    return {
        "total": np.array(sums.total * unit),
        "error": np.array(sums.error * unit),
        "squares": sums.squares * unit**2,
        **{f"first {n}": table * unit for n, table in sums.tables.items()},
        **{f"mixed {n}": table * unit**2 for n, table in sums.mixed.items()},
        **{f"second {n}": table * unit**2 for n, table in sums.second.items()},
    }


def assert_same(one: SampleSums, other: SampleSums) -> None:
    expected = list_sums(other)
    for name, value in list_sums(one).items():
        np.testing.assert_allclose(value, expected[name], rtol=1e-12, err_msg=name)
    limits = [
        bound(sums._flatten())
        for sums in (one, other)
        for bound in (sums._limit_certainly().bound_ratio, sums._limit_certainly().bound_asymptotically)
    ]
    np.testing.assert_allclose(limits[:2], limits[2:], rtol=1e-9)


def test_sums_are_what_one_adds_up_by_hand() -> None:
    sums = make_sums()
    add(sums, slice(0, DRAWS))
    weights = np.exp(LOGS)
    found = list_sums(sums)
    assert found["total"] == pytest.approx(COUNTS @ weights)
    assert found["error"] == pytest.approx((COUNTS * weights) @ ERRORS)
    assert found["squares"] == pytest.approx(COUNTS @ weights**2)
    assert sums.effective == pytest.approx((COUNTS @ weights) ** 2 / (COUNTS @ weights**2))
    for power, kind in ((1, "first"), (2, "mixed"), (2, "second")):
        shares = COUNTS * weights**power
        raised = 2 if kind == "second" else 1
        np.testing.assert_allclose(found[f"{kind} 0"], np.bincount(CODES, shares))
        pairs = [(TABLES[0] ** raised * shares)[:, a == CODES].sum(axis=1) for a in range(2)]
        np.testing.assert_allclose(found[f"{kind} 1"], np.transpose(pairs))
        np.testing.assert_allclose(found[f"{kind} 2"], (TABLES[1] ** raised * shares).sum(axis=1))


@pytest.mark.parametrize("ends", [(20,), (40,), (5, 41, 50)])
def test_blocks_are_one_block(ends: tuple[int, ...]) -> None:
    whole, parts, backward = make_sums(), make_sums(), make_sums()
    add(whole, slice(0, DRAWS))
    blocks = np.split(np.arange(DRAWS), ends)
    for rows in blocks:
        add(parts, rows)
    for rows in blocks[::-1]:
        add(backward, rows[::-1])
    assert_same(parts, whole)
    assert_same(backward, whole)


def test_counts_are_repeated_draws() -> None:
    counted, repeated = make_sums(), make_sums()
    add(counted, slice(0, DRAWS))
    add(repeated, np.repeat(np.arange(DRAWS), COUNTS), np.ones(DRAWS, dtype=int))
    assert repeated.draws == counted.draws == COUNTS.sum()
    assert_same(counted, repeated)


# -- parts of densities --------------------------------------------------------------------------------------------


def make_parts(count: int) -> tuple[Values, Values, Values]:
    rng = np.random.default_rng(7)
    weights = rng.pareto(1.5, count)
    means = np.where(rng.random(count) < 0.3, rng.normal(-4, 0.5, count), rng.normal(3, 1, count))
    return weights, means, rng.random(count) * 0.2 + 0.01


def test_neighbors_are_merged_without_a_change_of_mean_and_variance() -> None:
    weights, means, variances = make_parts(500)
    merged = mixtures._merge_neighbors(weights, means, variances, 40)
    assert 20 < len(merged[0]) <= 40
    for power in (0, 1):
        assert merged[0] @ merged[1] ** power == pytest.approx(weights @ means**power)
    assert merged[0] @ (merged[2] + merged[1] ** 2) == pytest.approx(weights @ (variances + means**2))
    assert (np.diff(merged[1]) > 0).all()
    # about the same weight each, but for single parts that are heavier, and neighbors only
    order = np.argsort(means)
    ends = np.searchsorted(np.cumsum(weights[order]), np.cumsum(merged[0]) - 1e-9)
    begins = np.concatenate([[0], ends[:-1] + 1])
    for number, (begin, end) in enumerate(zip(begins, ends, strict=True)):
        rows = order[begin : end + 1]
        assert merged[0][number] == pytest.approx(weights[rows].sum())
        center = np.average(means[rows], weights=weights[rows])
        spread = np.average(variances[rows] + (means[rows] - center) ** 2, weights=weights[rows])
        assert (merged[1][number], merged[2][number]) == pytest.approx((center, spread))
        assert len(rows) == 1 or merged[0][number] <= weights.sum() / 40 + weights[rows].max()


def test_many_drawn_parts_have_the_density_of_all(monkeypatch: pytest.MonkeyPatch) -> None:
    parts = make_parts(3000)
    variable = hb.Continuous("x")

    def collect(step: int) -> Any:
        total = WeightedMixture(variable, sampled=True)
        for start in range(0, 3000, step):
            weights, means, variances = (array[start : start + step] for array in parts)
            # each block with a scale of its own
            total.add(weights * np.exp(-start / 100), means, variances, start / 100)
        return total.posterior()

    plain = collect(3000)
    monkeypatch.setattr(mixtures, "MOST_SAMPLED_PARTS", 200)
    for merged in (collect(3000), collect(500)):
        np.testing.assert_allclose(merged.mean(), plain.mean(), rtol=1e-9)
        np.testing.assert_allclose(merged.var(), plain.var(), rtol=1e-9)
        grid = np.linspace(-7, 7, 57)
        np.testing.assert_allclose(merged.cdf(grid), plain.cdf(grid), atol=3e-3)
        assert merged.numbers < plain.numbers / 10


@pytest.mark.parametrize(
    ("weights", "log_bound", "expected", "asymptotic"),
    [
        (np.zeros(4000), 0.1, "", False),
        (np.zeros(30), 0.1, "the effective sample has the size 30 of 30 draws", False),
        (np.zeros(4000), 9.0, "asymptotic_bounds .* are narrower", True),
        (-0.85 * np.log(np.arange(1, 4001) / 4000), 12.0, "a few draws weigh most .* shape 0.79", False),
    ],
    ids=["narrow", "few", "loose", "heavy"],
)
def test_what_is_said_of_wide_limits(weights: Values, log_bound: float, expected: str, asymptotic: bool) -> None:
    sums = make_sums(log_bound)
    codes = np.arange(len(weights)) % 2
    part: Any = SimpleNamespace(
        problem=sums.problem,
        rows=np.arange(len(weights)),
        log_norm=weights,
        error=np.zeros(len(weights)),
        tables=[np.ones(len(weights)), np.full((3, len(weights)), 1 / 3), np.full((2, len(weights)), 0.5)],
    )
    sums.draws = len(weights)
    sums.add_draws(part, {"a": codes}, np.zeros(len(weights)), np.ones(len(weights), dtype=int))
    with pytest.warns(UserWarning, match=expected) if expected else nullcontext():
        assert sums._are_loose(sums._limit_certainly()) is asymptotic
