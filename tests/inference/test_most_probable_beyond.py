"""Most probable completions of what is too wide: exact in slices, and between limits where some variables are drawn."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from test_inference_bounds import multiply, products
from test_inference_slices import make_grid, make_mixed

import hybridbn as hb
from hybridbn.inference.proposals import _bound_potential, _draw_from, bound_from_above

SMALL = hb.Options(max_bytes=300, beyond="slice")
BOUND = hb.Options(max_bytes=300, beyond="bound", seconds=0.05)


@settings(max_examples=30, deadline=None)
@given(products(), st.integers(1, 40))
def test_mini_buckets_bound_the_maximum(case, most_cells):
    tables, sizes = case
    with np.errstate(divide="ignore"):
        largest = np.log(multiply(tables, sizes).max())
    assert largest <= bound_from_above(tables, sizes, [], list(sizes), most_cells, maximize=True).log_bound + 1e-9
    exact = bound_from_above(tables, sizes, [], list(sizes), 1e9, maximize=True).log_bound
    np.testing.assert_allclose(np.exp(exact), np.exp(largest), rtol=1e-9, atol=1e-300)


@pytest.mark.parametrize("zeros", [0.0, 0.3])
def test_slices_find_the_most_probable_completion(zeros):
    net = make_grid(np.random.default_rng(3), 4, zeros=zeros)
    drawn = net.sample(3, random_state=0)[["g33", "g12"]].assign(g00=[None, {0: 0.3, 1: 0.7}, {1}])
    drawn["g12"] = drawn["g12"].astype(object).where([True, False, True], None)
    with pytest.raises(hb.TooWide):
        net.most_probable(drawn, max_bytes=300)
    exact, (low, high) = net.most_probable(drawn, return_bounds=True)
    sliced, limits = net.most_probable(drawn, return_bounds=True, options=SMALL)
    pd.testing.assert_frame_equal(sliced, exact)
    np.testing.assert_array_equal(low, high)
    np.testing.assert_allclose(limits, [low, high], rtol=1e-12)


@pytest.mark.filterwarnings("ignore:a more probable completion")
def test_the_largest_probability_lies_between_the_limits():
    for seed in range(3):
        net = make_grid(np.random.default_rng(seed), 4, zeros=0.1 * (seed % 2))
        evidence = net.sample(1, random_state=seed)[["g33"]].iloc[0].to_dict()
        _, (best, _) = net.most_probable(evidence, return_bounds=True)
        completion, (low, high) = net.most_probable(evidence, return_bounds=True, options=BOUND)
        assert low == pytest.approx(net.log_evidence({**evidence, **completion}))
        assert low <= best + 1e-9
        assert best <= high + 1e-9
        assert best - low < 1


def test_a_completion_that_may_not_be_the_best_one_is_said():
    net = make_grid(np.random.default_rng(1), 4)
    with pytest.warns(UserWarning, match=r"a more probable completion may exist.*none has more than"):
        net.most_probable({"g33": 1}, options=BOUND)


@pytest.mark.filterwarnings("ignore:a more probable completion")
def test_linear_gaussian_variables_are_at_their_peak():
    net = make_mixed(np.random.default_rng(2), 4)
    net = net.subgraph([name for name in net if name != "d0"]).copy()
    evidence = {"x1": 0.3}
    exact, (best, _) = net.most_probable(evidence, return_bounds=True)
    sliced, (low, high) = net.most_probable(evidence, return_bounds=True, options=SMALL)
    assert sliced == pytest.approx(exact)
    assert (low, high) == pytest.approx((best, best))
    _, (low, high) = net.most_probable(evidence, return_bounds=True, options=BOUND)
    assert low <= best + 1e-9
    assert best <= high + 1e-9


def test_impossible_rows_are_named():
    net = make_grid(np.random.default_rng(4), 4)
    copy = hb.Discrete("copy", (0, 1))
    net.add(hb.Multinomial(copy, [net.variable("g00")], table=np.eye(2)))
    table = pd.DataFrame({"copy": [0, 1], "g00": [0, 0]})
    for options in (SMALL, BOUND):
        with pytest.raises(hb.ImpossibleEvidence, match="1"):
            net.most_probable(table, options=options)


def test_a_mode_search_has_no_upper_limit():
    x, d = hb.Continuous("x"), hb.Discrete("d", ("n", "y"))
    net = hb.Network(
        [
            hb.LinearGaussian(x, intercept=0.0, variance=1.0),
            hb.Softmax(d, (x,), intercept=[0.0, 1.0], coefficients=[[0.0], [1.0]]),
        ]
    )
    completion, (low, high) = net.most_probable(return_bounds=True)
    assert low == pytest.approx(net.log_density(pd.DataFrame([completion]))[0])
    assert high == np.inf


def test_a_regression_is_never_above_its_peak_in_each_configuration() -> None:
    c, d, x, y = hb.Discrete("c", ("a", "b")), hb.Discrete("d", (0, 1, 2)), hb.Continuous("x"), hb.Continuous("y")
    variance = np.array([[1.0, 4.0, 9.0], [0.25, 1.0, 16.0]])
    potential = hb.LinearGaussian(
        x, (c, d, y), intercept=np.ones((2, 3)), coefficients=np.ones((2, 3, 1)), variance=variance
    )
    peaks = -0.5 * np.log(2 * np.pi * variance)

    def bound(observed: dict[str, int], axes: str = "cd", most_cells: float = 9) -> tuple[tuple[str, ...], list[float]]:
        findings = {name: SimpleNamespace(observed=[True], values=[code]) for name, code in observed.items()}
        problem: Any = SimpleNamespace(axes=dict.fromkeys(axes))
        case: Any = SimpleNamespace(findings=findings)
        table = _bound_potential(problem, potential, case, most_cells)
        assert table is not None
        return table.names, np.ravel(table.logs).tolist()

    assert bound({}) == (("c", "d"), peaks.ravel().tolist())
    assert bound({"c": 1}) == (("d",), peaks[1].tolist())
    assert bound({"d": 2}) == (("c",), peaks[:, 2].tolist())
    assert bound({}, most_cells=6) == (("c", "d"), peaks.ravel().tolist())
    assert bound({}, most_cells=5) == bound({}, axes="c") == ((), [peaks.max()])
    assert bound({"c": 0, "d": 1}) == ((), [peaks[0, 1]])


def test_what_is_observed_is_not_drawn() -> None:
    x, y = hb.Continuous("x"), hb.Continuous("y")
    potential = hb.LinearGaussian(y, (x,), intercept=1, coefficients=[2], variance=4)
    given: Any = SimpleNamespace(findings={"x": SimpleNamespace(observed=[True], values=np.array([5.0]))})
    both: Any = SimpleNamespace(findings={"y": SimpleNamespace(observed=[True], values=np.array([7.0]))})
    uniforms = np.array([0.5, 0.8])
    values, logs = _draw_from(potential, both, uniforms, {"x": np.zeros(2)})
    assert (values.tolist(), logs.tolist()) == ([7.0, 7.0], [0.0, 0.0])
    for case, drawn, mean in ((given, {}, 11.0), (both, {"x": np.zeros(2)}, 1.0)):
        case.findings.pop("y", None)
        values, logs = _draw_from(potential, case, uniforms, drawn)
        np.testing.assert_allclose(values, stats.norm.ppf(uniforms, mean, 2))
        np.testing.assert_allclose(logs, stats.norm.logpdf(values, mean, 2))
