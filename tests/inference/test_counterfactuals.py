"""Counterfactuals against closed forms, enumeration of response functions, and the quantile rule by hand."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from narrowing import as_discrete, as_kind
from scipy import optimize, stats

import hybridbn as hb
from hybridbn.potentials import cell_quadrature

seeds = st.integers(0, 2**32 - 1)
A, B, C = (hb.Discrete(name, states=("k", "l", "m")[:size]) for name, size in (("a", 2), ("b", 2), ("c", 3)))
X, Y, Z, U = (hb.Continuous(name) for name in "xyzu")


def linear_network(rng: np.random.Generator) -> tuple[hb.Network, np.ndarray, np.ndarray]:
    """Return u -> x -> y -> z, u -> y, u -> z with matrices of coefficients (child, parent) and of noise."""
    slopes = np.zeros((4, 4))
    slopes[1, 0], slopes[2, 0], slopes[2, 1], slopes[3, 2], slopes[3, 0] = rng.normal(size=5)
    noise = rng.uniform(0.2, 3, 4)
    means = rng.normal(size=4)
    parents: list[tuple[hb.Continuous, ...]] = [(), (U,), (U, X), (U, Y)]
    places = [[], [0], [0, 1], [0, 2]]
    return (
        hb.Network(
            [
                hb.LinearGaussian(
                    child, parents=above, intercept=means[i], coefficients=slopes[i, at], variance=noise[i]
                )
                for i, (child, above, at) in enumerate(zip((U, X, Y, Z), parents, places, strict=True))
            ]
        ),
        np.column_stack([means, slopes]),
        noise,
    )


@given(seeds)
@settings(max_examples=6, deadline=None)
def test_linear_gaussians_keep_their_residuals(seed: int) -> None:
    rng = np.random.default_rng(seed)
    net, coefficients, noise = linear_network(rng)
    means, slopes = coefficients[:, 0], coefficients[:, 1:]
    # all variables as linear functions of the noise, in the world and with x set
    world = np.linalg.inv(np.eye(4) - slopes)
    cut = slopes.copy()
    cut[1] = 0
    other = np.linalg.inv(np.eye(4) - cut)
    seen = [1, 3]
    values, level = rng.normal(size=2) * 2, float(rng.normal())
    covariance = world @ np.diag(noise) @ world.T
    gain = np.diag(noise) @ world[seen].T @ np.linalg.inv(covariance[np.ix_(seen, seen)])
    residual = gain @ (values - (world @ means)[seen])
    spread = np.diag(noise) - gain @ world[seen] @ np.diag(noise)
    shift, residual_set = means.copy(), residual.copy()
    shift[1], residual_set[1] = level, 0.0
    spread_set = spread.copy()
    spread_set[1], spread_set[:, 1] = 0, 0
    expected = other @ (shift + residual_set)
    variance = other @ spread_set @ other.T
    for name, place in (("y", 2), ("z", 3)):
        found = hb.counterfactual(net, name, {"x": values[0], "z": values[1]}, {"x": level})
        assert found.mean() == pytest.approx(expected[place], rel=1e-9, abs=1e-9)
        assert found.std() == pytest.approx(np.sqrt(max(variance[place, place], 0.0)), rel=1e-6, abs=1e-4)
    # what is above stays as it was
    above = hb.counterfactual(net, "u", {"x": values[0], "z": values[1]}, {"x": level})
    assert above.mean() == pytest.approx(net.posterior("u", {"x": values[0], "z": values[1]}).mean())


def test_a_table_of_cases_with_holes_gives_what_each_gives_alone() -> None:
    net, *_ = linear_network(np.random.default_rng(3))
    frame = pd.DataFrame({"x": [1.0, None, 2.0], "z": [0.5, 1.0, None], "y": [None, None, 1.0]})
    together = hb.counterfactual(net, "z", frame, {"x": 0.0})
    for row in range(3):
        case = {name: value for name, value in frame.iloc[row].items() if value == value}
        alone = hb.counterfactual(net, "z", case, {"x": 0.0})
        assert together.mean()[row] == pytest.approx(alone.mean(), abs=1e-9)
        assert together.interval()[row] == pytest.approx(alone.interval(), abs=1e-6)
    assert repr(together) == "<counterfactual 'z' of 3 rows>"


def random_table(rng: np.random.Generator, *sizes: int) -> np.ndarray:
    return rng.dirichlet(np.ones(sizes[-1]), sizes[:-1])


def tables(rng: np.random.Generator) -> hb.Network:
    """Return b -> a -> c <- b."""
    return hb.Network(
        [
            hb.Multinomial(B, table=random_table(rng, 2)),
            hb.Multinomial(A, parents=(B,), table=random_table(rng, 2, 2)),
            hb.Multinomial(C, parents=(A, B), table=random_table(rng, 2, 2, 3)),
        ]
    )


@given(
    seeds, st.sampled_from([{"a": "k", "c": "l"}, {"c": "m"}, {"a": "l"}, {"a": "l", "b": "k", "c": "k"}, {"b": "l"}])
)
@settings(max_examples=12, deadline=None)
def test_bounds_are_those_of_all_response_functions(seed: int, evidence: dict[str, str]) -> None:
    net = tables(np.random.default_rng(seed))
    prior, above, table = (as_kind(hb.Multinomial, net.potential(name)).table for name in "bac")
    low, high = hb.counterfactual(net, "c", evidence, {"a": "k"}).probability_bounds
    # given b the noise of c is which state it takes for each state of a: nine functions
    functions = list(itertools.product(range(3), repeat=2))
    seen = {name: "klm".index(state) for name, state in evidence.items()}
    for state in range(3):
        weights, mass = np.zeros((2, 9)), 0.0
        for b, a, number in itertools.product(range(2), range(2), range(9)):
            share = prior[b] * above[b, a]
            case = {"b": b, "a": a, "c": functions[number][a]}
            if all(case[name] == code for name, code in seen.items()):
                weights[b, number] += share * (functions[number][0] == state)
        for b, a, c in itertools.product(range(2), range(2), range(3)):
            if all({"b": b, "a": a, "c": c}[name] == code for name, code in seen.items()):
                mass += prior[b] * above[b, a] * table[a, b, c]
        rows, right = [], []
        for b, a, c in itertools.product(range(2), range(2), range(3)):
            row = np.zeros((2, 9))
            row[b] = [functions[number][a] == c for number in range(9)]
            rows.append(row.ravel())
            right.append(table[a, b, c])
        for sign, bound in ((1, low), (-1, high)):
            best = optimize.linprog(sign * weights.ravel(), A_eq=np.array(rows), b_eq=right)
            assert bound[state] == pytest.approx(sign * best.fun / mass, abs=1e-8)


@given(seeds)
@settings(max_examples=8, deadline=None)
def test_ordered_states_share_their_quantiles(seed: int) -> None:
    rng = np.random.default_rng(seed)
    net = tables(rng)
    found = hb.counterfactual(net, "c", {"a": "l", "c": "l"}, {"a": "k"}, monotone=True).probabilities
    # by one uniform number, on a fine grid, for each state of b
    prior, above, table = (as_kind(hb.Multinomial, net.potential(name)).table for name in "bac")
    expected = np.zeros(3)
    for b in range(2):
        before, after = np.cumsum(table[1, b]), np.cumsum(table[0, b])
        for state in range(3):
            start = max(before[0], after[state - 1] if state else 0.0)
            expected[state] += prior[b] * above[b, 1] * max(min(before[1], after[state]) - start, 0.0)
    np.testing.assert_allclose(found, expected / expected.sum(), atol=1e-12)


def test_any_density_keeps_its_quantile() -> None:
    rng = np.random.default_rng(0)
    points = rng.normal(size=(40, 2))
    net = hb.Network(
        [
            hb.Kernel(X, points=rng.normal(size=(30, 1)), bandwidths=[0.4]),
            hb.Kernel(Y, parents=(X,), points=points, bandwidths=[0.3, 0.5]),
            hb.Density(Z, parents=(Y,), function=lambda z, y: stats.logistic.pdf(z, loc=np.sin(y))),
        ]
    )
    frame = pd.DataFrame({"x": [0.1, -0.5], "y": [0.3, -1.0], "z": [1.0, -0.2]})
    found = hb.counterfactual(net, "z", frame, {"x": 1.0})
    level = cell_quadrature.cdf(net.potential("y"), frame["y"].to_numpy(), {"x": frame["x"].to_numpy()})
    moved = net.potential("y").ppf(level, {"x": np.ones(2)})
    expected = frame["z"] - np.sin(frame["y"]) + np.sin(moved)
    np.testing.assert_allclose(found.mean(), expected, atol=1e-7)
    np.testing.assert_allclose(found.std(), 0)
    # a hidden number on the way is drawn
    hidden = hb.counterfactual(net, "z", {"x": 0.1, "z": 1.0}, {"x": 1.0}, draws=400)
    assert hidden.std() > 0
    assert 0 < hidden.quantile(0.5) < 2.5


def test_setting_what_was_observed_changes_nothing() -> None:
    net = tables(np.random.default_rng(1))
    low, high = hb.counterfactual(net, "c", {"a": "k", "c": "m"}, {"a": "k"}).probability_bounds
    np.testing.assert_allclose(low, [0, 0, 1])
    np.testing.assert_allclose(high, [0, 0, 1])


def test_a_number_may_move_a_category() -> None:
    net = hb.Network(
        [
            hb.LinearGaussian(X, intercept=0, variance=1),
            hb.Softmax(A, parents=(X,), intercept=[0, 1], coefficients=[[0], [2]]),
        ]
    )
    before, after = (as_discrete(net.posterior("a", {"x": x})).probabilities[1] for x in (0.0, 1.0))
    low, high = hb.counterfactual(net, "a", {"x": 0.0, "a": "k"}, {"x": 1.0}).probability_bounds
    assert low[1] == pytest.approx((after - before) / (1 - before))
    assert high[1] == pytest.approx(min(after / (1 - before), 1))
    drawn = hb.counterfactual(net, "a", {"x": 0.0, "a": "k"}, {"x": 1.0}, monotone=True, draws=4000)
    assert drawn.probabilities[1] == pytest.approx(low[1], abs=0.03)
    with pytest.raises(hb.NetworkError, match="only where 'x' is observed"):
        hb.counterfactual(net, "a", {"a": "k"}, {"x": 1.0})


@pytest.mark.parametrize(
    ("on", "do", "message"),
    [
        ("c", {}, "mapping from names to values"),
        ("c", {"a": None}, "set to a value"),
        ("a", {"a": "k"}, "is set"),
        ("c", {"b": "k"}, "monotone=True"),
        ("c", {"q": 1}, "q"),
        ("c", {"a": "strange"}, "strange"),
    ],
)
def test_questions_without_an_answer_are_refused(on: str, do: Any, message: str) -> None:
    net = tables(np.random.default_rng(1))
    with pytest.raises(hb.HybridBNError, match=message):
        hb.counterfactual(net, on, {"c": "k"}, do)


def test_what_is_known_within_bounds_is_no_probability() -> None:
    found = hb.counterfactual(tables(np.random.default_rng(1)), "c", {"c": "k", "a": "l"}, {"a": "k"})
    with pytest.raises(hb.TableError, match="within bounds"):
        _ = found.probabilities
    with pytest.raises(hb.TableError, match="category"):
        found.mean()


def test_impossible_cases_are_named() -> None:
    a = hb.Multinomial(A, table=[1, 0])
    net = hb.Network([a, hb.Multinomial(B, parents=(A,), table=[[0.5, 0.5], [0.1, 0.9]])])
    with pytest.raises(hb.ImpossibleEvidence, match="1"):
        hb.counterfactual(net, "b", pd.DataFrame({"a": ["k", "l"]}), {"a": "l"})


@pytest.mark.parametrize(
    ("on", "known", "do"), [("c", "a", {"u": 1.0}), ("u", "c", {"a": "x"}), ("c", "c", {"u": 1.0})]
)
def test_a_table_without_rows_has_no_counterfactuals(on: str, known: str, do: dict[str, Any]) -> None:
    a, u, c = hb.Discrete("a", ("x", "y")), hb.Continuous("u"), hb.Continuous("c")
    network = hb.Network(
        [
            hb.Multinomial(a, table=[0.5, 0.5]),
            hb.LinearGaussian(u, (a,), intercept=[0, 1], variance=[1, 0.5]),
            hb.LinearGaussian(c, (u,), intercept=0, coefficients=[1.0], variance=1),
        ]
    )
    answer = hb.counterfactual(network, on, hb.Table({known: []}), do)
    assert np.shape(answer.mean()) == (0,)
    assert np.shape(answer.interval()) == (0, 2)
