"""Slices: what is too wide is answered exactly, one combination of states of a few variables at a time."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from narrowing import as_discrete

import hybridbn as hb
from hybridbn.inference import gaussian_component
from hybridbn.inference.axes import CellAxis, StateAxis
from hybridbn.inference.engines import bounds, slices

SMALL = hb.Options(max_bytes=800, beyond="slice")
"""So few bytes that ordinary elimination is too wide for the networks of these tests."""


def make_grid(rng, side, zeros=0.0):
    """Return a grid of discrete variables, each with its upper and left neighbor as parents."""
    variables: dict[tuple[int, int], hb.Discrete] = {}
    potentials = []
    for row in range(side):
        for column in range(side):
            name = f"g{row}{column}"
            parents = [variables[key] for key in ((row - 1, column), (row, column - 1)) if key in variables]
            variables[row, column] = hb.Discrete(name, tuple(range(2 + (row + column) % 2)))
            table = rng.gamma(0.5, size=[*map(len, parents), len(variables[row, column])]) + 1e-9
            table[rng.random(table.shape) < zeros] = 0.0
            table[..., 0] += 1e-3
            potentials.append(hb.Multinomial(variables[row, column], parents, table=table, normalize=True))
    return hb.Network(potentials)


def make_mixed(rng, side):
    """Return such a grid in which every node of the last row has a Gaussian and a softmax child."""
    net = make_grid(rng, side)
    for column in range(side):
        parents = [net.variable(f"g{side - 1}{c}") for c in {column, (column + 1) % side}]
        shape = [len(parent) for parent in parents]
        x, d = hb.Continuous(f"x{column}"), hb.Discrete(f"d{column}", ("n", "y"))
        net.add(
            hb.LinearGaussian(x, parents, intercept=rng.normal(size=shape), variance=rng.gamma(2, size=shape) + 0.1)
        )
        if column == 0:
            net.add(hb.Softmax(d, (x,), intercept=rng.normal(size=2), coefficients=rng.normal(size=(2, 1))))
    return net


def compare(net, evidence, targets, tolerance=1e-9):
    exact, sliced = (net.posteriors(evidence, targets, options=options) for options in (None, SMALL))
    for name in targets:
        if isinstance(net.variable(name), hb.Discrete):
            np.testing.assert_allclose(sliced[name].probabilities, exact[name].probabilities, atol=tolerance)
        else:
            np.testing.assert_allclose(sliced[name].mean(), exact[name].mean(), atol=100 * tolerance)
            np.testing.assert_allclose(sliced[name].var(), exact[name].var(), atol=100 * tolerance)
    np.testing.assert_allclose(
        net.log_evidence(evidence, options=SMALL), net.log_evidence(evidence), rtol=tolerance, atol=tolerance
    )


@settings(max_examples=4, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_slices_add_up_to_the_exact_answer(seed):
    rng = np.random.default_rng(seed)
    net = make_grid(rng, 4, zeros=0.2)
    drawn = net.sample(3, random_state=seed % 1000).drop(columns=[f"g{i}{i}" for i in range(4)])
    drawn["g00"] = [None, {0: 0.3, 1: 0.7}, {1}]
    drawn["g33"] = [None, {0: 0.3, 1: 0.7}, None]
    kept = ["g00", "g33", *rng.choice([c for c in drawn if c not in ("g00", "g33")], 3, replace=False)]
    compare(net, drawn[kept], [name for name in net if name not in kept])
    compare(net, {}, ["g22"])
    compare(net, {"g33": 1}, ["g22", "g00"])


def test_the_network_of_these_tests_is_too_wide_otherwise():
    net = make_grid(np.random.default_rng(0), 4)
    with pytest.raises(hb.TooWide):
        net.posteriors({"g33": 1}, max_bytes=800)


def test_slices_of_mixed_networks():
    net = make_mixed(np.random.default_rng(1), 4)
    compare(net, {"x1": 0.3, "x2": hb.Interval(0, 1)}, ["g00", "x3", "g31"])


@pytest.mark.parametrize("target", ["x0", pytest.param("x3", marks=pytest.mark.slow), "g00"])
def test_densities_in_slices(target):
    """x0 has nodes, because of its softmax child, and x3 a closed form."""
    net = make_mixed(np.random.default_rng(2), 4)
    evidence = {"x1": 0.3, "d0": "y"}
    exact, sliced = (net.posterior(target, evidence, options=options) for options in (hb.Options(), SMALL))
    if target == "g00":
        np.testing.assert_allclose(sliced.probabilities, exact.probabilities, atol=1e-12)
        return
    points = exact.mean() + exact.std() * np.linspace(-3, 3, 7)
    np.testing.assert_allclose(sliced.pdf(points), exact.pdf(points), atol=1e-8)
    np.testing.assert_allclose(sliced.cdf(points), exact.cdf(points), atol=1e-9)


def make_pair(rng):
    """Return two numbers and a category, both with the first number as a parent."""
    g, x, y = hb.Discrete("g", (0, 1)), hb.Continuous("x"), hb.Continuous("y")
    d = hb.Discrete("d", ("n", "y"))
    return hb.Network(
        [
            hb.Multinomial(g, table=[0.4, 0.6]),
            hb.LinearGaussian(x, (g,), intercept=[0.0, 1.0], variance=[1.0, 0.5]),
            hb.Kernel(y, (x,), points=rng.normal(size=(8, 2)), bandwidths=[0.4, 0.5]),
            hb.Softmax(d, (x,), intercept=[0.0, 1.0], coefficients=[[0.0], [2.0]]),
        ]
    )


@pytest.mark.parametrize("evidence", [{}, {"x": -0.6, "d": "n"}])
def test_several_densities_in_slices_have_grids_of_their_own(evidence):
    net = make_pair(np.random.default_rng(3))
    targets = [name for name in net if name not in evidence]
    options = hb.Options(max_bytes=3000, beyond="slice")
    exact, sliced = net.posteriors(evidence, targets), net.posteriors(evidence, targets, options=options)
    for name in targets:
        if isinstance(net.variable(name), hb.Discrete):
            np.testing.assert_allclose(sliced[name].probabilities, exact[name].probabilities, atol=1e-6)
        else:
            points = exact[name].mean() + exact[name].std() * np.linspace(-3, 3, 7)
            np.testing.assert_allclose(sliced[name].cdf(points), exact[name].cdf(points), atol=1e-6)


def make_choice(rng, count):
    """Return a network of a discrete variable with so many continuous parents, each with a parent of its own."""
    potentials: list[hb.Potential] = []
    numbers = []
    for place in range(count):
        c, x = hb.Discrete(f"c{place}", (0, 1)), hb.Continuous(f"x{place}")
        numbers.append(x)
        potentials.append(hb.Multinomial(c, table=[0.4, 0.6]))
        potentials.append(hb.LinearGaussian(x, (c,), intercept=rng.normal(size=2), variance=[1.0, 0.5]))
    slopes = rng.normal(size=(2, count))
    return hb.Network(
        [*potentials, hb.Softmax(hb.Discrete("d", ("n", "y")), numbers, intercept=[0, 1], coefficients=slopes)]
    )


@pytest.mark.slow
def test_slices_answer_where_quadrature_turns_out_to_be_too_wide():
    net = make_choice(np.random.default_rng(0), 2)
    exact = net.posterior("c0", {"d": "y"})
    with pytest.raises(hb.TooWide, match=r"beyond='slice'.*beyond='bound'"):
        net.posterior("c0", {"d": "y"}, max_bytes=2e5)
    sliced = net.posterior("c0", {"d": "y"}, max_bytes=2e5, beyond="slice")
    np.testing.assert_allclose(sliced.probabilities, exact.probabilities, atol=1e-9)
    low, high = net.posterior("c0", {"d": "y"}, max_bytes=2e5, beyond="bound", seconds=1).bounds
    assert ((low <= exact.probabilities) & (exact.probabilities <= high) & (high - low < 0.05)).all()


def test_only_rows_that_are_too_wide_are_sliced(monkeypatch):
    net = make_mixed(np.random.default_rng(3), 4)
    table = net.sample(12, random_state=0)
    targets = ["g00", "x3", "g31"]
    # one row is too wide, the others know enough
    table.loc[3, [name for name in table if name not in ("g33", "x1")]] = None
    for row in range(len(table)):
        table.loc[row, table.columns[10 + row % 4]] = None
    table = table.drop(columns=[*targets, "d0"])
    few = hb.Options(max_bytes=800)
    with pytest.raises(hb.TooWide):
        net.posteriors(table, targets, options=few)
    narrow = table.drop(index=3)
    rows: list[Any] = []
    monkeypatch.setattr(slices.SlicePlan, "solve", _note_rows(rows, slices.SlicePlan.solve))
    exact = net.posteriors(table, targets)
    for own, options in ((narrow, few), (table, SMALL)):
        answer, known = net.posteriors(own, targets, options=options), [i for i in range(12) if i in own.index]
        for name in targets:
            if isinstance(net.variable(name), hb.Discrete):
                expected = exact[name].probabilities[known]
                np.testing.assert_allclose(answer[name].probabilities, expected, atol=1e-9)
            else:
                np.testing.assert_allclose(answer[name].mean(), exact[name].mean()[known], atol=1e-7)
                np.testing.assert_allclose(answer[name].std(), exact[name].std()[known], atol=1e-7)
    assert set(rows) == {1}


def _note_rows(rows, solve):
    def wrapped(plan, evidence):
        rows.append(evidence.rows)
        return solve(plan, evidence)

    return wrapped


def test_joint_posteriors_in_slices():
    net = make_grid(np.random.default_rng(2), 4)
    joints = [net.posterior(["g00", "g22"], {"g33": 1}, options=o).probabilities for o in (None, SMALL)]
    np.testing.assert_allclose(joints[1], joints[0], atol=1e-12)


def test_expectation_maximization_in_slices():
    net = make_grid(np.random.default_rng(3), 4)
    table = net.sample(12, random_state=0)
    table.loc[:3, ["g00", "g01", "g11", "g12", "g21", "g22"]] = None
    table = table.astype("category")
    few = hb.Options(max_bytes=200)
    with pytest.raises(hb.TooWide):
        hb.expectation_maximization(net, table, options=few)
    options = (None, hb.Options(max_bytes=200, beyond="slice"))
    learned = [hb.expectation_maximization(net, table, options=o, tolerance=1e-3) for o in options]
    np.testing.assert_allclose(learned[1].history, learned[0].history, rtol=1e-9)


def test_impossible_rows_in_slices():
    net = make_grid(np.random.default_rng(4), 4, zeros=0.0)
    copy = hb.Discrete("copy", (0, 1))
    net.add(hb.Multinomial(copy, [net.variable("g00")], table=np.eye(2)))
    table = pd.DataFrame({"copy": [0, 1, 0], "g00": [0, 0, None], "g33": [1, 1, 0]})
    marked = net.posterior("g22", table, options=SMALL, impossible="nan").probabilities
    assert np.isnan(marked).any(axis=1).tolist() == [False, True, False]
    with pytest.raises(hb.ImpossibleEvidence):
        net.posterior("g22", table, options=SMALL)


def test_draws_in_slices_are_possible_and_keep_the_evidence():
    net = make_grid(np.random.default_rng(6), 4, zeros=0.4)
    drawn = net.sample(6, random_state=0, evidence={"g33": 1}, options=SMALL)
    assert (drawn["g33"] == 1).all()
    assert np.isfinite(net.log_evidence(drawn)).all()


def test_slices_that_take_too_long_are_too_wide():
    net = make_grid(np.random.default_rng(5), 4)
    with pytest.raises(hb.TooWide):
        net.posteriors({"g33": 1}, options=SMALL, seconds=1e-9)


def test_what_fits_but_takes_too_long_is_sampled_or_refused(monkeypatch):
    net = make_grid(np.random.default_rng(5), 4)
    for options in ({}, {"beyond": "slice"}, {"beyond": "bound"}, {"seconds": 1e-7}):
        assert net.posterior("g00", {"g33": 1}, **options).confidence == 1.0
    with pytest.raises(hb.TooWide, match=r"takes about \S+ seconds a row, and seconds=1e-07 are allowed"):
        net.posterior("g00", {"g33": 1}, beyond="slice", seconds=1e-7)
    # where all tables are small there is nothing to sample
    assert net.posterior("g00", {"g33": 1}, beyond="bound", seconds=1e-7).confidence == 1.0
    monkeypatch.setattr(bounds, "CELLS_PER_DRAW", 8)
    with pytest.warns(UserWarning, match="effective sample"):
        assert net.posterior("g00", {"g33": 1}, beyond="bound", seconds=1e-7).confidence == 0.95


@pytest.mark.parametrize("options", [{"beyond": "slices"}, {"beyond": 1}, {"seconds": 0}, {"seconds": "long"}])
def test_options_that_mean_nothing(options):
    with pytest.raises(hb.TableError, match=next(iter(options))):
        hb.Options(**options)


def test_configurations_of_linear_gaussians_are_solved_in_blocks(monkeypatch):
    """Otherwise the regressions of all configurations take many times the memory of the largest table."""
    rng = np.random.default_rng(7)
    parents = [hb.Discrete(f"c{i}", (0, 1, 2)) for i in range(4)]
    potentials: list[hb.Potential] = [hb.Multinomial(c, table=rng.dirichlet(np.ones(3))) for c in parents]
    above: list[hb.Continuous] = []
    for i in range(3):
        x = hb.Continuous(f"x{i}")
        shape = [3, 3]
        slopes = rng.normal(size=(*shape, len(above)))
        variance = rng.uniform(0.5, 1, shape)
        chosen: tuple[hb.Discrete | hb.Continuous, ...] = (parents[i], parents[i + 1], *above)
        potentials.append(
            hb.LinearGaussian(x, chosen, intercept=rng.normal(size=shape), coefficients=slopes, variance=variance)
        )
        above = [x]
    net = hb.Network(potentials)
    table = pd.DataFrame({"x2": [0.3, 1.0, -2.0], "c1": [0, 1, 2], "c2": [None, 1, 0]})
    whole = net.posteriors(table, ["c0", "x1"])
    monkeypatch.setattr(gaussian_component, "MOST_KEPT_NUMBERS", 1)
    monkeypatch.setattr(gaussian_component, "BLOCK_NUMBERS", 40)
    again = hb.Network(potentials).rename({"c3": "last"}).posteriors(table, ["c0", "x1"])
    np.testing.assert_allclose(
        as_discrete(again["c0"]).probabilities, as_discrete(whole["c0"]).probabilities, atol=1e-12
    )
    np.testing.assert_allclose(again["x1"].mean(), whole["x1"].mean(), atol=1e-12)
    np.testing.assert_allclose(again["x1"].std(), whole["x1"].std(), atol=1e-12)


def test_values_of_numbers_with_cells_are_counted_by_cell() -> None:
    axes = {"x": CellAxis(np.array([0.0, 1.0, 3.0, 4.0, 9.0])), "c": StateAxis(3)}
    values = {"x": np.array([0.0, 0.5, 1.0, 3.5, 4.0, 9.0]), "c": np.array([2, 0, 1]), "free": np.zeros(2)}
    problem: Any = SimpleNamespace(axes=axes)
    codes = slices.index_cells(problem, values)
    assert {name: own.tolist() for name, own in codes.items()} == {"x": [0, 0, 1, 2, 3, 3], "c": [2, 0, 1]}
