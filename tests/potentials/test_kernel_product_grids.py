"""Kernel conditionals on products of axes, against the sums over all points at every combination of their values."""

import itertools

import numpy as np
import pytest

from hybridbn.potentials.kernel import Kernel, evaluation
from hybridbn.variables import Continuous, Discrete

A, B, X, C = Continuous("a"), Continuous("b"), Continuous("x"), Discrete("c", ("u", "v", "w"))


def _make(child, parents, points, rng, shift=0.0, scale=1.0, h=0.3):
    """Points around a curve, with weights."""
    first = rng.normal(size=points)
    columns = [np.sin(2 * first) + 0.3 * rng.normal(size=points), first, first**2 + 0.3 * rng.normal(size=points)]
    columns = columns[: 1 + len(parents)] if child is X else columns[1 : 1 + len(parents)]
    labels = {"c": rng.integers(0, 2, points)} if child is C else None
    widths = scale * h * np.linspace(0.8, 1.2, len(columns))
    if child is C:
        widths = widths * np.array([1.0, 0.5, 2.0])[:, None]  # of each state
    return Kernel(
        child,
        parents,
        points=shift + scale * np.column_stack(columns),
        bandwidths=widths,
        weights=rng.exponential(size=points) + 1e-3,
        labels=labels,
    )


def _compare(monkeypatch, potential, axes):
    """Compare both the logarithms and the values with those without products of axes."""
    monkeypatch.setattr(evaluation, "_count_matrices", lambda *_: 0.0)
    monkeypatch.setattr(evaluation, "count_product_kernels", lambda *_: np.inf)
    wanted = potential.log_on(axes)
    monkeypatch.setattr(evaluation, "count_product_kernels", lambda *_: -1.0)
    logs = potential.log_on(axes)
    assert logs.shape == wanted.shape
    assert (np.isfinite(logs) == np.isfinite(wanted)).all()
    finite = np.isfinite(wanted)
    np.testing.assert_allclose(logs[finite], wanted[finite], rtol=1e-13, atol=1e-11)
    values, scale = potential.on(axes)
    # what is negligible in its row may be zero
    large = values > 1e-100 * values.max(axis=tuple(range(len(potential.scope))))
    top = wanted.max(axis=tuple(range(len(potential.scope))))
    assert large[np.isfinite(wanted) & (wanted > top - 200)].all()
    with np.errstate(divide="ignore"):
        np.testing.assert_allclose((np.log(values) + scale)[large], wanted[large], rtol=1e-13, atol=1e-11)


@pytest.mark.parametrize(("shift", "scale"), [(0.0, 1.0), (1e5, 1.0), (0.0, 1e-200)])
@pytest.mark.parametrize("child", [X, C])
@pytest.mark.parametrize("parents", [(), (A,), (A, B)])
def test_axes_of_all_kinds(monkeypatch, child, parents, shift, scale):
    if child is C and not parents:
        pytest.skip("a Kernel needs a number")
    rng = np.random.default_rng(len(parents))
    potential = _make(child, parents, 40, rng, shift, scale)
    far = np.array([-1e6, -30.0, 8.0, 200.0])
    numbers = shift + scale * np.concatenate([3 * rng.normal(size=5), far])
    kinds = {"shared": numbers, "row": shift + scale * np.concatenate([2 * rng.normal(size=4), far])[None]}
    states = {"shared": np.arange(3), "row": np.array([[0, 1, 2, 1, 0, 0, 1, 2]])}
    for chosen in itertools.product(("shared", "row"), repeat=1 + len(parents)):
        axes = {variable.name: kinds[kind] for variable, kind in zip(parents, chosen, strict=False)}
        axes[child.name] = (states if child is C else kinds)[chosen[-1]]
        _compare(monkeypatch, potential, axes)


@pytest.mark.parametrize("h", [0.02, 0.3])
def test_many_nodes_by_way_of_a_lattice(monkeypatch, h):
    rng = np.random.default_rng(0)
    potential = _make(X, (A,), 400, rng, h=h)
    group = potential._mixture_of(0)
    nodes = np.linspace(-4, 4, 900)
    if h == 0.3:
        assert evaluation._count_lattice(group.points[:, 1], group.widths[:, 1], nodes)
    _compare(monkeypatch, potential, {"a": nodes, "x": 2 * rng.normal(size=(1, 20))})
    _compare(monkeypatch, potential, {"a": nodes, "x": np.linspace(-3, 3, 7)})


GEOMETRIES = {
    "curve": (_curve := np.column_stack([np.sin(np.arange(60.0)), np.cos(1.7 * np.arange(60.0))]), [0.2, 0.3], None),
    "one row of points": (np.column_stack([np.arange(9.0), np.zeros(9)]), [0.01, 1.0], None),
    "little weight is near": (np.array([[0.0, 0.0], [71.2, 0.0]]), [1.0, 1.0], [1e-12, 1.0]),
    "twice the same": (np.repeat(_curve[:5], 2, axis=0), [1.0, 0.1], np.arange(1.0, 11.0)),
    "far from zero": (1e5 + _curve, [0.2, 0.3], None),
}


@pytest.mark.parametrize("way", ["_count_matrices", "_count_lines", "_count_sums", "count_product_kernels"])
@pytest.mark.parametrize("geometry", GEOMETRIES)
def test_every_way_gives_the_sums_over_all_points(monkeypatch, way, geometry):
    points, widths, weights = GEOMETRIES[geometry]
    for other in ("_count_matrices", "_count_lines", "_count_sums", "count_product_kernels"):
        monkeypatch.setattr(evaluation, other, lambda *_, own=other: -1.0 if own == way else np.inf)
    potential = Kernel(X, (A,), points=points, bandwidths=widths, weights=weights)
    shift = points[:, 1].min()
    a = shift + np.array([0.0, 0.4, -7.0, 30.0])
    x = points[:, 0].min() + np.array([0.0, 0.31, 1.0, 35.0, 36.5, 71.0, -3.0, 500.0])
    parts = [-0.5 * ((axis[:, None] - points[:, i]) / widths[i]) ** 2 for i, axis in enumerate((x, a))]
    logs = np.log(np.ones(len(points)) if weights is None else weights) + parts[1]
    sums = np.logaddexp.reduce(logs[:, None] + parts[0], axis=-1) - np.logaddexp.reduce(logs, axis=-1)[:, None]
    wanted = sums - np.log(widths[0] * np.sqrt(2 * np.pi))
    np.testing.assert_allclose(potential.log_on({"a": a, "x": x[None]}), wanted[:, None], rtol=1e-11)
    np.testing.assert_allclose(potential.log_on({"a": a[None], "x": x}), wanted.T[None], rtol=1e-11)


def test_rows_in_blocks_and_equal_rows(monkeypatch):
    rng = np.random.default_rng(1)
    potential = _make(X, (A, B), 50, rng)
    axes = {"a": rng.normal(size=6), "b": rng.normal(size=(1, 9)), "x": rng.normal(size=(1, 9))}
    equal = {"a": rng.normal(size=6), "b": rng.normal(size=3), "x": np.array([[0.5, 0.1, 0.5, 0.5, 0.1, 0.5]])}
    monkeypatch.setattr(evaluation, "MOST_WEIGHTS", 100)
    monkeypatch.setattr(evaluation, "CELLS", 500)
    _compare(monkeypatch, potential, axes)
    _compare(monkeypatch, potential, equal)


def test_truncated_kernels(monkeypatch):
    rng = np.random.default_rng(2)
    points = rng.uniform(size=(30, 2))
    potential = Kernel(Continuous("x", (0, 1)), (Continuous("a", (0, 1)),), points=points, bandwidths=[0.2, 0.1])
    for x in (np.array([-0.1, 0.0, 0.4, 1.0]), np.array([[-0.1, 0.3, 2.0, 1.0]])):
        _compare(monkeypatch, potential, {"a": np.linspace(0, 1, 5), "x": x})


def test_nodes_that_are_all_far_from_the_points_with_weight(monkeypatch):
    points, widths = [[0.0, 0.0], [1.0, 100.0]], [1e-3, 1.0]
    given = np.array([0.0])
    _compare(monkeypatch, Kernel(X, (A,), points=points, bandwidths=widths), {"a": given, "x": np.array([-5.0, 1.0])})
    truncated = Kernel(Continuous("x", (0, 1)), (A,), points=points, bandwidths=widths)
    _compare(monkeypatch, truncated, {"a": given, "x": np.array([-1e-3, 0.9, 1.0])})


def test_values_at_the_end_of_the_doubles_are_possible():
    potential = _make(X, (A,), 40, np.random.default_rng(5))
    nodes = np.concatenate([np.linspace(-1, 1, 50), [1e306]])
    for axes in ({"a": nodes, "x": np.array([[0.2, 0.3]])}, {"a": np.array([0.2, 0.3]), "x": nodes}):
        assert not np.isnan(potential.log_on(axes)).any()


def test_pairs_of_values_and_small_grids_of_rows_are_left_to_other_methods():
    rng = np.random.default_rng(3)
    group = _make(X, (A,), 30, rng)._mixture_of(0)
    row, own = rng.normal(size=(1, 10)), rng.normal(size=(5, 10))
    assert evaluation.has_product_axes([row], row)
    assert not evaluation.has_product_axes([own], row)
    assert evaluation.count_product_kernels(group, [row], row) == np.inf
    assert evaluation.count_product_kernels(group, [own[:, :1]], row) < np.inf
    assert evaluation.count_product_kernels(group, [own], row) > evaluation._count_matrices(group, [own], row)


def test_large_grids_of_single_rows_give_what_rows_give_alone():
    rng = np.random.default_rng(4)
    potential = _make(X, (A, B), 200, rng)
    axes = {"a": 2 * rng.normal(size=(30, 3)), "b": 2 * rng.normal(size=(40, 3)), "x": rng.normal(size=(1, 3))}
    for function in (potential.log_on, lambda given: np.log(potential.on(given)[0]) + potential.on(given)[1]):
        alone = [function({name: axis[:, row] for name, axis in axes.items()}) for row in range(3)]
        np.testing.assert_allclose(function(axes), np.stack(alone, axis=-1), rtol=1e-12, atol=1e-12)
