"""The numerics of kernel fits and of kernels at many places, against direct sums over all pairs."""

import itertools
import math

import numpy as np
import pytest
from scipy.special import logsumexp

from hybridbn.fitting import kernel
from hybridbn.fitting.base import effective_size
from hybridbn.fitting.kernel import (
    PAPER,
    has_many_repeats,
    leave_one_out,
    list_constants,
    search_constants,
    sum_logs_of_nearest,
    sum_pairs,
)
from hybridbn.potentials.kernel import Kernel, evaluation
from hybridbn.potentials.kernel import sums as kernel_sums
from hybridbn.potentials.kernel.sums import choose_units, sum_on_lattice
from hybridbn.variables import Continuous, Discrete

INF = math.inf


def _direct(points, weights, widths):
    """Equation 5 with weights, pair by pair."""
    n, d = points.shape
    left = np.maximum(weights - 1, 0)
    rest = np.array([np.delete(weights, j).sum() for j in range(n)]) + left
    squares = [(points[:, j, None] - points[:, j]) ** 2 for j in range(d)]
    result = np.empty(tuple(map(len, widths)))
    for place in np.ndindex(result.shape):
        h = [widths[j][i] for j, i in enumerate(place)]
        logs = np.log(weights) - 0.5 * sum(square / width**2 for square, width in zip(squares, h, strict=True))
        np.fill_diagonal(logs, np.log(left, out=np.full(n, -INF), where=left > 0))
        parts = logsumexp(logs, axis=1) - np.log(rest) - np.log(h).sum() - d / 2 * math.log(2 * math.pi)
        result[place] = -(weights @ parts) / weights.sum()
    return result


def _samples(rng, n, d):
    yield "normal", rng.normal(size=(n, d))
    yield "heavy tails", rng.standard_t(1.5, size=(n, d))
    outlier = rng.normal(size=(n, d))
    outlier[0] = 1e12
    yield "outlier", outlier
    yield "rounded", np.round(rng.normal(size=(n, d)), 1)
    yield "two far clusters", rng.normal(size=(n, d)) * 1e-6 + (np.arange(n) % 2)[:, None]
    yield "offset", 1e15 + np.round(rng.normal(size=(n, d)) * 100)


@pytest.mark.parametrize("n", [2, 5, 150, pytest.param(500, marks=pytest.mark.slow)])
@pytest.mark.parametrize("d", [1, 2, 3])
@pytest.mark.parametrize("weighted", [False, True])
def test_cross_entropy_is_that_of_all_pairs(n, d, weighted):
    rng = np.random.default_rng(n * d)
    for name, sample in _samples(rng, n, d):
        points = (sample - sample.min(axis=0)) / np.ptp(sample, axis=0)
        weights = rng.exponential(size=n) + 1e-4 if weighted else np.ones(n)
        for window in (-2, 0, 2):
            widths = [list_constants(window)[::2] / math.sqrt(n)] * d
            exact = _direct(points, weights, widths)
            np.testing.assert_allclose(
                leave_one_out(points, weights, widths), exact, rtol=1e-13, atol=1e-10, err_msg=f"{name}, {window}"
            )


def test_cross_entropy_in_many_tiles_and_small_blocks(monkeypatch):
    rng = np.random.default_rng(0)
    points, weights = rng.uniform(size=(600, 2)), rng.uniform(0.5, 2, 600)
    widths = [np.array([0.005, 0.01]), np.array([0.02, 0.03])]
    exact = _direct(points, weights, widths)
    monkeypatch.setattr(kernel_sums, "TILE", 2)
    monkeypatch.setattr(kernel_sums, "AT_ONCE", 5)
    monkeypatch.setattr(kernel, "CELLS", 2000)
    monkeypatch.setattr(kernel_sums, "CELLS", 2000)
    np.testing.assert_allclose(leave_one_out(points, weights, widths), exact, rtol=0, atol=1e-11)
    monkeypatch.setattr(kernel, "FEW_POINTS", 1000)
    np.testing.assert_allclose(leave_one_out(points, weights, widths), exact, rtol=0, atol=1e-11)


def test_a_row_with_nearly_all_the_weight():
    points, weights = np.array([[0.0], [0.3], [1.0]]), np.array([1e18, 1.0, 2.0])
    widths = [np.array([0.2, 0.5])]
    np.testing.assert_allclose(leave_one_out(points, weights, widths), _direct(points, weights, widths), rtol=1e-12)


def test_pair_sums_leave_out_only_what_is_far():
    rng = np.random.default_rng(1)
    points, weights = rng.uniform(size=(300, 3)), rng.uniform(size=300)
    widths = [np.array([0.01]), np.array([0.1, 0.2]), np.array([0.3])]
    for rows, sums in sum_pairs(points, weights, widths, 9.0):
        for b, h in enumerate(widths[1]):
            z = (points[rows, None] - points) / [0.01, h, 0.3]
            np.testing.assert_allclose(sums[:, 0, b, 0], np.exp(-0.5 * (z**2).sum(axis=2)) @ weights, rtol=1e-12)


def test_nearest_sums_need_as_many_points_as_count():
    """A lonely point far from a crowd of 3000 needs far more of it than its 64 nearest."""
    rng = np.random.default_rng(2)
    points = np.vstack([[[30.0, 0.0]], rng.normal(size=(3000, 2)) * 0.1])
    sums = sum_logs_of_nearest(points, np.ones(3001), np.ones(3001), [np.array([1.0, 2.0])] * 2, np.array([0]))
    squares = (points[0] - points[1:]) ** 2
    assert logsumexp(-0.5 * np.sort(squares.sum(axis=1))[:64]) < sums[0, 0, 0] - 0.1
    for (a, g), (b, h) in itertools.product(enumerate((1.0, 2.0)), repeat=2):
        exact = logsumexp(-0.5 * (squares / [g**2, h**2]).sum(axis=1))
        assert abs(sums[0, a, b] - exact) < 1e-10


@pytest.mark.parametrize("d", [1, 2])
@pytest.mark.parametrize("reach", [9.0, 14.0])
def test_lattice_is_relatively_exact_for_every_pair_within_reach(d, reach):
    rng = np.random.default_rng(3)
    widths = [np.array([0.5, 0.7, 1.0])] * d
    origin, distances = np.array([[0.37] * d]), rng.uniform(0, reach * 0.5 / math.sqrt(d), size=60)
    places = origin + distances[:, None] * np.sign(rng.normal(size=(60, d)))
    for rows, sums in sum_on_lattice(origin, np.array([2.0]), widths, reach, places):
        for index in np.ndindex(sums.shape[1:]):
            h = np.array([widths[j][i] for j, i in enumerate(index)])
            exact = 2 * np.exp(-0.5 * (((places[rows] - origin) / h) ** 2).sum(axis=1))
            np.testing.assert_allclose(sums[(slice(None), *index)], exact, rtol=2e-11)


# -- the search ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("d", [1, 2])
def test_search_on_the_papers_grid_is_brute_force(seed, d):
    rng = np.random.default_rng(seed)
    points, weights = rng.uniform(size=(40, d)) ** 2, rng.uniform(0.2, 2, 40)
    size = effective_size(weights)
    entropies = _direct(points, weights, [np.array(PAPER) / math.sqrt(size)] * d)
    best = np.unravel_index(np.argmin(entropies), entropies.shape)
    assert search_constants(points, weights, size, extend=False) == tuple(PAPER[i] for i in best)


@pytest.mark.parametrize(
    ("d", "power"),
    [(1, 0.2), (1, 1.0), (1, 6.0), (2, 1.0), *(pytest.param(2, power, marks=pytest.mark.slow) for power in (0.2, 6.0))],
)
def test_extended_search_is_brute_force_over_all_windows(d, power):
    rng = np.random.default_rng(5)
    points = rng.uniform(size=(60, d)) ** power
    every = np.unique(np.concatenate([list_constants(k) for k in range(-8, 6)]))
    entropies = _direct(points, np.ones(60), [every / math.sqrt(60)] * d)
    best = np.unravel_index(np.argmin(entropies), entropies.shape)
    assert search_constants(points, np.ones(60), 60) == tuple(every[i] for i in best)


def test_three_variables_are_searched_one_at_a_time():
    rng = np.random.default_rng(6)
    points = rng.normal(size=(80, 3)) / 6
    chosen = search_constants(points, np.ones(80), 80)
    entropy = _direct(points, np.ones(80), [np.array([c]) / math.sqrt(80) for c in chosen]).item()
    for j in range(3):
        for factor in (2**0.25, 2**-0.25):
            other = [c * (factor if i == j else 1) / math.sqrt(80) for i, c in enumerate(chosen)]
            assert _direct(points, np.ones(80), [np.array([h]) for h in other]).item() > entropy


def test_grid_goes_down_for_distinct_values_but_not_for_repeated_ones():
    rng = np.random.default_rng(7)
    clusters = (np.arange(200) % 2 + 1e-4 * rng.normal(size=200))[:, None]
    assert search_constants(clusters, np.ones(200), 200)[0] < 0.01
    assert search_constants(clusters.round(4), np.ones(200), 200)[0] == 0.4
    assert search_constants(clusters, np.ones(200), 200, extend=False)[0] == 0.4
    twice = np.repeat(rng.normal(size=(100, 2)), 2, axis=0)
    assert search_constants(twice, np.ones(200), 200) == (0.4, 0.4)
    assert has_many_repeats(np.array([1.0, 1.0, 2.0]), np.ones(3))
    assert not has_many_repeats(np.arange(20.0), np.ones(20))
    assert has_many_repeats(np.arange(20.0), np.full(20, 2.0))


def test_two_points_have_a_bandwidth_of_their_distance():
    """(1 / h) exp(-1 / 2h^2) has its maximum at h = 1."""
    (c,) = search_constants(np.array([[0.0], [1.0]]), np.ones(2), 2)
    assert abs(c / math.sqrt(2) - 1) < 0.1


def test_windows_meet_at_their_ends():
    for k in range(-5, 5):
        assert list_constants(k)[-1] == list_constants(k + 1)[0]
        assert (np.diff(list_constants(k)) > 0).all()
    assert kernel.OCTAVES >= 20


# -- kernels at many places ---------------------------------------------------------------------------------------


def _choose(monkeypatch, way):
    """Make every evaluation take one way, where that is possible."""
    counts = {
        "matrices": "_count_matrices",
        "places": "_count_sums",
        "lines": "_count_lines",
        "product": "count_product_kernels",
    }
    for name, count in counts.items():
        if way != "lines" or name != "lines":
            monkeypatch.setattr(evaluation, count, lambda *_, chosen=name == way: -1.0 if chosen else INF)
    if way == "lines":
        monkeypatch.setattr(evaluation, "_count_matrices", lambda *_: 1e300)


def _all_ways(monkeypatch, potential, axes):
    results = []
    for way in ("matrices", "places", "product", "lines"):
        if way == "product" and any(axis.ndim == 2 and min(axis.shape) > 1 for axis in axes.values()):
            continue
        with monkeypatch.context() as patch:
            _choose(patch, way)
            results.append(potential.log_on(axes))
    finite = np.isfinite(results[0])
    for other in results[1:]:
        assert other.shape == finite.shape
        assert (np.isfinite(other) == finite).all()
        error = np.abs(other[finite] - results[0][finite]) / (1 + 1e-4 * np.abs(results[0][finite]))
        assert error.max(initial=0.0) < 1e-11


@pytest.mark.parametrize("n", [1, 2, 30, pytest.param(1500, marks=pytest.mark.slow)])
@pytest.mark.parametrize(("shift", "scale"), [(0, 1), (1e6, 1), (-1e6, 1), (0, 1e-200), (0, 1e200)])
def test_places_matrices_and_lines_give_the_same(monkeypatch, n, shift, scale):
    rng = np.random.default_rng(n)
    y = rng.standard_t(3, size=n) * scale + shift
    x = np.sin(2 * (y - shift) / scale) * scale + 0.3 * scale * rng.normal(size=n)
    weights = rng.exponential(size=n) + 1e-5
    far = scale * np.array([1, 10, 100, 1e4, 1e7, 1e9])
    ys, xs = (
        np.r_[y[:3], y[0] + far, rng.normal(size=12) * 3 * scale],
        np.r_[x[:3], x[0] - far, rng.normal(size=6) * scale],
    )
    y_rows, x_rows = rng.normal(size=(6, 5)) * 4 * scale + shift, rng.normal(size=(6, 5)) * 4 * scale
    for domain in ((-INF, INF), (x.min() - scale, x.max() + scale)):
        x_variable, y_variable = Continuous("x", domain), Continuous("y")
        for h in (0.2 * scale, 2 * scale):
            potential = Kernel(
                x_variable, (y_variable,), points=np.column_stack([x, y]), bandwidths=[h, 0.7 * h], weights=weights
            )
            for axes in ((xs, ys), (x_rows, ys), (xs, y_rows), (x_rows[:1], y_rows), (x_rows, y_rows[:1])):
                _all_ways(monkeypatch, potential, {"x": axes[0], "y": axes[1]})
            _all_ways(monkeypatch, Kernel(x_variable, points=x, bandwidths=h, weights=weights), {"x": xs})
    c, labels = Discrete("c", ("u", "v", "w")), rng.integers(0, 2, n)
    for h in (0.5 * scale, scale * np.array([0.5, 1, 2])):
        potential = Kernel(c, (Continuous("y"),), points=y, bandwidths=h, weights=weights, labels={"c": labels})
        _all_ways(monkeypatch, potential, {"c": np.arange(3), "y": ys})
        _all_ways(monkeypatch, potential, {"c": np.array([[0, 1, 2, 1, 0]]), "y": y_rows})


def test_places_in_small_chunks_and_without_rows(monkeypatch):
    rng = np.random.default_rng(8)
    points = rng.normal(size=(400, 2))
    potential = Kernel(Continuous("x"), (Continuous("y"),), points=points, bandwidths=[0.05, 0.05])
    monkeypatch.setattr(kernel_sums, "CELLS", 500)
    monkeypatch.setattr(evaluation, "MOST_TARGETS", 37)
    _all_ways(monkeypatch, potential, {"x": rng.normal(size=(3, 20)), "y": rng.normal(size=(4, 20)) * 3})
    _choose(monkeypatch, "places")
    assert potential.log_on({"x": np.empty((1, 0)), "y": points[:3, 1]}).shape == (3, 1, 0)
    assert potential.log_on({"x": points[:3, 1], "y": np.empty((2, 0))}).shape == (2, 3, 0)


@pytest.mark.slow
@pytest.mark.parametrize("domain", [(-INF, INF), (-4.0, 4.0)])
def test_lines_have_the_digits_of_direct_sums_in_the_tails(domain):
    rng = np.random.default_rng(12)
    y = rng.normal(size=1200)
    x = np.clip(np.sin(2 * y) + 0.3 * rng.normal(size=1200), -4, 4)
    weights = np.exp(rng.normal(size=1200) * 3)
    potential = Kernel(
        Continuous("x", domain),
        (Continuous("y"),),
        points=np.column_stack([x, y]),
        bandwidths=[0.03, 0.05],
        weights=weights,
    )
    group, xs, ys = potential._mixture_of(0), np.r_[x[:200], np.linspace(-4, 4, 100)], np.linspace(-6, 6, 40)
    lines = evaluation.sum_on_lines(group, ys[None], xs[None])[0]
    given = np.log(weights) - 0.5 * ((ys[:, None] - y) / 0.05) ** 2
    joint = given[:, None] - 0.5 * ((xs[:, None] - x) / 0.03) ** 2 - group.log_inside
    expected = logsumexp(joint, axis=2) - logsumexp(given, axis=1)[:, None] - np.log(0.03 * np.sqrt(2 * np.pi))
    np.testing.assert_allclose(lines, expected, rtol=1e-12, atol=1e-11)


@pytest.mark.parametrize(
    ("way", "points", "x", "y"),
    [
        ("log_conditional", 300, (1, 50), (1, 50)),
        ("sum_per_target", 3000, (1, 500), (50, 500)),
        ("sum_on_lines", 20000, (1, 2000), (200,)),
        ("evaluate_on_product", 300, (1, 30), (9,)),
    ],
)
def test_the_way_with_the_fewest_operations_is_chosen(monkeypatch, way, points, x, y):
    rng = np.random.default_rng(9)
    sample = rng.normal(size=(points, 2))
    potential = Kernel(Continuous("x"), (Continuous("y"),), points=sample, bandwidths=[0.2, 0.2])
    taken, function = [], getattr(evaluation, way)

    def noted(*given, **options):
        taken.append(way)
        return function(*given, **options)

    monkeypatch.setattr(evaluation, way, noted)
    potential.log_on({"x": rng.normal(size=x), "y": rng.normal(size=y)})
    assert taken


def test_rows_with_nodes_of_their_own_get_what_they_get_alone():
    """As quadrature asks: every row has nodes of its own, but from a common stock, and one value of the child."""
    rng = np.random.default_rng(10)
    points = rng.normal(size=(200, 3))
    child, first, second = Continuous("x"), Continuous("y"), Continuous("z")
    stock = rng.normal(size=300)
    nodes, own = stock[rng.integers(0, 300, (400, 60))], rng.normal(size=(1, 60))
    potential = Kernel(child, (first,), points=points[:, :2], bandwidths=[0.1, 0.1])
    together = potential.log_on({"x": own, "y": nodes})
    apart = [potential.log_on({"x": own[:, row], "y": nodes[:, row]}) for row in range(60)]
    assert np.abs(together - np.stack(apart, axis=-1)).max() < 1e-11
    # combinations of two parents, and child's nodes of each row's own
    potential = Kernel(child, (first, second), points=points, bandwidths=[0.1, 0.1, 0.2])
    axes = {"x": stock[rng.integers(0, 300, (5, 60))], "y": nodes[:6] * 3, "z": nodes[6:10]}
    together = potential.log_on(axes)
    assert together.shape == (6, 4, 5, 60)
    apart = [potential.log_on({name: axis[:, row] for name, axis in axes.items()}) for row in range(60)]
    assert np.abs(together / np.stack(apart, axis=-1) - 1).max() < 1e-11


@pytest.mark.parametrize("order", [[0, 1], [1, 0]])
def test_origins_are_chosen_column_by_column(order) -> None:
    points = np.array([[5.0, 1e9], [6.0, 1e9 + 1], [6.5, 1e9 + 3]])[:, order]
    origin, units = choose_units(points, np.array([0.3, 5.0])[order])
    np.testing.assert_array_equal(origin, np.array([5.0, 1e9])[order])
    np.testing.assert_array_equal(units, np.array([0.25, 4.0])[order])
    near, _ = choose_units(points - points[1], np.ones(2))
    np.testing.assert_array_equal(near, [0.0, 0.0])
