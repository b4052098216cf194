"""What every potential promises, as checks that take an `Example`: a new family gets all of them by adding one.

The checks rely on nothing but `on` and this file's own quadrature: composite Gauss-Legendre on cells between the
declared support, the declared breaks and the example's own landmarks.
"""

from __future__ import annotations

import copy
import itertools
import pickle
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from narrowing import as_continuous, as_discrete
from scipy import stats

from hybridbn.errors import NetworkError
from hybridbn.potentials import cell_quadrature
from hybridbn.potentials.base import Potential, spread
from hybridbn.variables import Continuous, Discrete

ALPHA = 1e-6
NODES, WEIGHTS = np.polynomial.legendre.leggauss(16)
UNIFORMS = np.concatenate(([1e-12, 1e-9, 1e-6], np.linspace(0.001, 0.999, 333), [1 - 1e-6, 1 - 1e-9, 1 - 1e-12]))


@dataclass(frozen=True)
class Example:
    """A potential, parents' values (codes or numbers, one for each row) and what the
    checks can't know by themselves.
    """

    name: str
    potential: Potential
    given: Mapping[str, Any] = field(default_factory=dict)
    landmarks: Callable[[Mapping[str, float]], list[float]] | None = None
    """For a family that declares neither support nor breaks: points for one row, the
    first and last bounding the mass.
    """
    rescaled: Callable[[float, float], Potential] | None = None
    """Makes the potential of ``a * child + b``."""
    anywhere: bool = True
    """Whether the parents may have any value of their domains."""
    saved: bool = True

    @property
    def rows(self) -> int:
        return len(next(iter(self.given.values()))) if self.given else 1

    def row(self, index: int) -> dict[str, Any]:
        return {name: np.asarray(values)[index] for name, values in self.given.items()}

    def columns(self, copies: int = 1) -> dict[str, np.ndarray]:
        """Return the parents' values as axes with one node, each row ``copies`` times in turn."""
        return {name: np.repeat(np.asarray(values), copies)[None, :] for name, values in self.given.items()}

    @property
    def continuous(self) -> bool:
        return isinstance(self.potential.child, Continuous)


def density(example: Example, row: int, points: np.ndarray) -> np.ndarray:
    """Evaluate along the child for one row of the parents."""
    axes = {name: np.array([value]) for name, value in example.row(row).items()}
    values, scale = example.potential.on({**axes, example.potential.child.name: points.ravel()})
    return (values * np.exp(scale)).reshape(points.shape)


def edges_for(example: Example, row: int, extra: Any = ()) -> np.ndarray:
    """Return the edges of cells that quadrature can trust, within the support for one row."""
    potential, child = example.potential, example.potential.child
    if example.landmarks is not None:
        edges = np.unique(np.concatenate((example.landmarks(example.row(row)), extra)))
        pieces = 8
    else:
        within = {
            p.name: (v, v) for p in potential.parents if isinstance(p, Continuous) for v in [example.row(row)[p.name]]
        }
        low, high = (float(np.asarray(end).reshape(-1)[0]) for end in potential.support(child.name, 1e-14, within))
        assert np.isfinite([low, high]).all(), "declare a support, or landmarks in the example"
        breaks = potential.breaks(child.name, within)
        breaks = breaks.reshape(-1) if breaks.ndim == 1 else breaks[:, 0]
        edges = np.concatenate(([low, high], breaks, extra))
        edges = np.unique(edges[(edges >= low) & (edges <= high)])
        pieces = int(np.clip(np.ceil((high - low) / min(potential.scale(child.name), 1e300) / len(edges)), 32, 400))
    shares = np.linspace(0, 1, pieces + 1)[:-1]
    return np.append((edges[:-1, None] + np.diff(edges)[:, None] * shares).ravel(), edges[-1])


def cell_masses(example: Example, row: int, edges: np.ndarray) -> np.ndarray:
    half = 0.5 * np.diff(edges)
    points = edges[:-1] + half * (1 + NODES[:, None])
    return half * (WEIGHTS @ density(example, row, points))


def cdf(example: Example, row: int, points: np.ndarray) -> np.ndarray:
    """Integrate up to sorted or unsorted points of the child, for one row of the parents."""
    edges = edges_for(example, row, np.clip(points, *_finite_ends(example, row)))
    reached = np.concatenate(([0.0], np.cumsum(cell_masses(example, row, edges))))
    return reached[np.clip(np.searchsorted(edges, points), 0, len(edges) - 1)]


def _finite_ends(example: Example, row: int) -> tuple[float, float]:
    edges = edges_for(example, row)
    return edges[0], edges[-1]


def some_axes(example: Example, rng: np.random.Generator, nodes: int = 3, rows: int = 4) -> dict[str, np.ndarray]:
    """Return per-row axes for every name, the parents' values taken from the example and the child's from its mass."""
    potential = example.potential
    axes = {}
    for parent in potential.parents:
        axes[parent.name] = rng.choice(np.asarray(example.given[parent.name]), (nodes, rows))
    child = potential.child
    if isinstance(child, Discrete):
        axes[child.name] = rng.integers(0, len(child), (nodes, rows))
    else:
        low, high = _finite_ends(example, 0)
        axes[child.name] = rng.uniform(low, high, (nodes, rows))
    return axes


# -- the checks: each takes an example ----------------------------------------------------------------------------


def check_mass_is_one(example: Example) -> None:
    for row in range(example.rows):
        if example.continuous:
            mass = cell_masses(example, row, edges_for(example, row)).sum()
        else:
            mass = density(example, row, np.arange(len(as_discrete(example.potential.child)))).sum()
        assert abs(mass - 1) < 1e-10, f"mass {mass} at {example.row(row)}"


def check_axes_agree(example: Example) -> None:
    """Any mixture of shared and per-row axes gives what single points give, in `on` and in `log_on`."""
    potential, rng = example.potential, np.random.default_rng(1)
    full = some_axes(example, rng)
    if isinstance(potential.child, Discrete):
        whole = {**{n: a[:, 0] for n, a in full.items()}, potential.child.name: np.arange(len(potential.child))}
        _compare_with_points(potential, whole)
    for pattern in itertools.product((False, True), repeat=len(full)):
        axes = {
            name: axis if by_row else axis[:, 0] for (name, axis), by_row in zip(full.items(), pattern, strict=True)
        }
        _compare_with_points(potential, axes)


def _compare_with_points(potential: Potential, axes: dict[str, np.ndarray]) -> None:
    values, scale = potential.on(axes)
    logs = potential.log_on(axes)
    shape = np.broadcast_shapes(*(axis.shape for axis in spread(axes, potential.scope)))
    assert values.shape == logs.shape == shape
    assert np.ndim(scale) == 0 or np.shape(scale) == values.shape[-1:]
    grid = np.broadcast_arrays(*spread(axes, potential.scope))
    points = {
        v.name: [v.states[code] for code in array.ravel()] if isinstance(v, Discrete) else array.ravel()
        for v, array in zip(potential.variables, grid, strict=True)
    }
    single = np.asarray(potential(**points)).reshape(values.shape)
    together = values * np.exp(scale)
    np.testing.assert_allclose(together, single, rtol=1e-12, atol=1e-300)
    with np.errstate(divide="ignore"):
        expected = np.log(values) + scale
    seen = values > 1e-290
    np.testing.assert_allclose(logs[seen], expected[seen], rtol=1e-12, atol=1e-12)
    assert not np.isnan(logs).any()


def check_no_rows(example: Example) -> None:
    potential = example.potential
    for nodes in (1, 3):
        full = some_axes(example, np.random.default_rng(0), nodes)
        for pattern in itertools.product((False, True), repeat=len(full)):
            if any(pattern):
                by_row = zip(full.items(), pattern, strict=True)
                axes = {name: axis[:, :0] if own else axis[:, 0] for (name, axis), own in by_row}
                assert potential.on(axes)[0].shape == potential.log_on(axes).shape == (nodes,) * len(axes) + (0,)
    none = {name: np.asarray(values)[:0] for name, values in example.given.items()}
    assert potential.ppf(np.empty(0), none).shape == (0,)


def check_masses(example: Example) -> None:
    potential = example.potential
    if not potential.exact_mass:
        return
    axes = example.columns()
    low, high = as_continuous(potential.child).domain
    ends = [_finite_ends(example, row) for row in range(example.rows)]
    inner = np.linspace(max(e[0] for e in ends), min(e[1] for e in ends), 9)
    inner = inner if inner[0] < inner[-1] else np.linspace(min(e[0] for e in ends), max(e[1] for e in ends), 9)
    shared = np.concatenate(([low], inner[(inner > low) & (inner < high)], [high]))
    for edges in (shared, np.repeat(shared[:, None], example.rows, axis=1)):
        values, scale = potential.mass(axes, edges)
        masses = (values * np.exp(scale)).reshape(len(edges) - 1, -1)
        rows = (example.rows,) if example.given or edges.ndim == 2 else ()
        assert values.shape == (*(1 for _ in potential.parents), len(edges) - 1, *rows)
        np.testing.assert_allclose(masses.sum(axis=0), 1, atol=1e-12)
        for row in range(example.rows):
            fine = edges_for(example, row, shared[1:-1])
            numeric = np.add.reduceat(
                np.append(cell_masses(example, row, fine), 0.0),
                np.searchsorted(fine, np.clip(shared[:-1], fine[0], fine[-1])),
            )
            numeric = np.where(np.diff(np.clip(shared, fine[0], fine[-1])) > 0, numeric, 0.0)
            np.testing.assert_allclose(masses[:, row if masses.shape[1] > 1 else 0], numeric, rtol=1e-9, atol=1e-12)


def check_support(example: Example) -> None:
    """No more than the tail lies outside, also where the parents are known only to lie in
    ranges, as arrays over rows.
    """
    potential = example.potential
    if not example.continuous or example.landmarks is not None:
        return
    name, (bottom, top) = potential.child.name, as_continuous(potential.child).domain
    parents = [p.name for p in potential.parents if isinstance(p, Continuous)]
    exact = {p: (np.asarray(example.given[p], float), np.asarray(example.given[p], float)) for p in parents}
    wide = {p: (pair[0] - 0.25, pair[1] + 0.5) for p, pair in exact.items()}
    for tail in (1e-3, 1e-8):
        for within in (exact, wide):
            low, high = (np.broadcast_to(end, (example.rows,)) for end in potential.support(name, tail, within))
            for row in range(example.rows):
                assert bottom <= low[row] < high[row] <= top
                edges = edges_for(example, row, np.array([low[row], high[row]]))
                masses = cell_masses(example, row, edges)
                middles = edges[:-1] + 0.5 * np.diff(edges)
                outside = masses[(middles < low[row]) | (middles > high[row])].sum()
                assert outside <= tail * (1 + 1e-6) + 1e-13, f"{outside} outside {low[row], high[row]}"


def check_landmarks(example: Example) -> None:
    """Breaks are finite, sorted and inside the domain; scales are not negative; cellwise potentials are constant in
    cells.
    """
    potential = example.potential
    for variable in potential.variables:
        if isinstance(variable, Discrete):
            continue
        assert potential.scale(variable.name) >= 0
        others = [v.name for v in potential.parents if isinstance(v, Continuous) and v.name != variable.name]
        single = {n: (float(example.row(0)[n]), float(example.row(0)[n])) for n in others}
        by_row = {n: (np.asarray(example.given[n], float), np.asarray(example.given[n], float)) for n in others}
        if variable.name != potential.child.name and example.continuous:
            single[potential.child.name] = (0.5, 0.5)
            by_row[potential.child.name] = (np.full(example.rows, 0.5), np.full(example.rows, 0.5))
        for within in (None, single, by_row):
            breaks = potential.breaks(variable.name, within)
            assert breaks.ndim == 1 or (within is by_row and breaks.shape[1] == example.rows)
            assert np.isfinite(breaks).all()
            assert ((breaks >= variable.domain[0]) & (breaks <= variable.domain[1])).all()
            assert (np.diff(breaks, axis=0) >= 0).all()
            low, high = potential.support(variable.name, 1e-12, within)
            assert (np.asarray(low) < np.asarray(high)).all()
        if variable.name != potential.child.name and potential.cellwise(variable.name):
            breaks = potential.breaks(variable.name)
            axes = some_axes(example, np.random.default_rng(2))
            for low, high in itertools.pairwise(breaks):
                points = low + (high - low) * np.array([0.1, 0.9])
                values, scale = potential.on({**axes, variable.name: points})
                along = potential.scope.index(variable.name)
                first, second = np.moveaxis(values * np.exp(scale), along, 0)
                np.testing.assert_allclose(first, second, rtol=1e-12)


def check_zeros(example: Example) -> None:
    """Zeros are announced, and the support of states is all of them."""
    potential = example.potential
    for variable in potential.variables:
        if isinstance(variable, Discrete):
            assert potential.support(variable.name) == (0.0, len(variable) - 1.0)
    if not potential.has_zeros:
        assert np.isfinite(potential.log_on(some_axes(example, np.random.default_rng(9), 20))).all()


def check_regression(example: Example) -> None:
    potential, regression = example.potential, example.potential.as_regression()
    if regression is None:
        return
    codes = tuple(np.asarray(example.given[p.name]) for p in potential.parents if isinstance(p, Discrete))
    mean = np.broadcast_to(regression.intercept[codes], (example.rows,)).astype(float)
    for j, parent in enumerate(p for p in potential.parents if isinstance(p, Continuous)):
        mean = mean + regression.coefficients[(*codes, j)] * np.asarray(example.given[parent.name])
    sd = np.broadcast_to(np.sqrt(regression.variance[codes]), (example.rows,))
    for row in range(example.rows):
        x = mean[row] + sd[row] * np.linspace(-3, 3, 7)
        np.testing.assert_allclose(density(example, row, x), stats.norm.pdf(x, mean[row], sd[row]), rtol=1e-9)


def check_ppf(example: Example) -> None:
    potential = example.potential
    for row in range(example.rows):
        given = {name: np.repeat(value, len(UNIFORMS)) for name, value in example.row(row).items()}
        found = potential.ppf(UNIFORMS, given)
        assert (np.diff(found) >= 0).all()
        if example.continuous:
            assert np.isfinite(found).all()
            np.testing.assert_allclose(cdf(example, row, found), UNIFORMS, atol=1e-10, rtol=0)
            np.testing.assert_allclose(cell_quadrature.cdf(potential, found, given), UNIFORMS, atol=1e-9, rtol=0)
            continue
        assert found.dtype.kind == "i"
        masses = density(example, row, np.arange(len(as_discrete(potential.child))))
        reached = np.cumsum(masses)
        assert (reached[found] >= UNIFORMS - 1e-12).all()
        assert ((reached - masses)[found] <= UNIFORMS + 1e-12).all()
        ends = potential.ppf(np.array([0.0, np.nextafter(1, 0), 1.0]), {n: v[:3] for n, v in given.items()})
        assert (masses[ends] > 0).all()
        assert (masses[found] > 0).all()
    _check_rows_alone(example)


def _check_rows_alone(example: Example) -> None:
    """What a row gives does not depend on the rows beside it."""
    if not example.given:
        return
    rng = np.random.default_rng(5)
    chosen = rng.integers(0, example.rows, 7)
    uniforms = rng.uniform(size=7)
    given = {name: np.asarray(values)[chosen] for name, values in example.given.items()}
    together = example.potential.ppf(uniforms, given)
    alone = [
        example.potential.ppf(uniforms[i : i + 1], {n: v[i : i + 1] for n, v in given.items()})[0] for i in range(7)
    ]
    np.testing.assert_allclose(together, alone, rtol=1e-9, atol=1e-9)


def check_samples(example: Example, count: int = 4000) -> None:
    potential = example.potential
    for row in range(min(example.rows, 2)):
        given = {name: np.repeat(value, count) for name, value in example.row(row).items()}
        drawn = potential.sample(given, np.random.default_rng(11), None if given else count)
        again = potential.sample(given, np.random.default_rng(11), None if given else count)
        assert len(drawn) == count
        np.testing.assert_array_equal(drawn, again)
        if example.continuous:
            assert np.isfinite(drawn).all()
            assert len(np.unique(drawn)) > 0.99 * count
            assert stats.kstest(cdf(example, row, drawn), "uniform").pvalue > ALPHA
        else:
            masses = density(example, row, np.arange(len(as_discrete(potential.child))))
            counts = np.bincount(drawn, minlength=len(masses))
            assert (counts[masses == 0] == 0).all()
            likely = masses * count > 5
            observed = np.append(counts[likely], counts[~likely].sum())
            expected = np.append(masses[likely], masses[~likely].sum()) * count
            if likely.sum() > 1:
                keep = expected > 0
                assert stats.chisquare(observed[keep], expected[keep] * observed.sum() / expected.sum()).pvalue > ALPHA


def check_saved(example: Example) -> None:
    potential = example.potential
    if not example.saved:
        with pytest.raises(NetworkError, match=re.escape(repr(potential.child.name))):
            potential.to_dict()
        return
    state = potential.to_dict()
    assert potential.family
    assert Potential.families[potential.family] is type(potential)
    assert _plain(state), state
    again = type(potential).from_dict(potential.child, potential.parents, state)
    _same(example, again)


def _plain(value: Any) -> bool:
    if isinstance(value, Mapping):
        return all(isinstance(key, str) and _plain(item) for key, item in value.items())
    if isinstance(value, list | tuple):
        return all(map(_plain, value))
    if isinstance(value, np.ndarray):
        return value.dtype == np.float64
    return value is None or type(value) in (str, int, float, bool)


def _same(example: Example, other: Potential) -> None:
    potential = example.potential
    assert type(other) is type(potential)
    assert other.scope == potential.scope
    assert other.variables == potential.variables
    assert repr(other) == repr(potential)
    axes = some_axes(example, np.random.default_rng(3))
    for first, second in ((potential.log_on(axes), other.log_on(axes)), (potential.on(axes)[0], other.on(axes)[0])):
        np.testing.assert_array_equal(first, second)


def check_copies(example: Example) -> None:
    copies = [copy.copy(example.potential), copy.deepcopy(example.potential)]
    if example.saved:  # functions of the user's may not be picklable
        copies.append(pickle.loads(pickle.dumps(example.potential)))
    for other in copies:
        _same(example, other)
        assert not any(v.flags.writeable for v in vars(other).values() if isinstance(v, np.ndarray))


def check_renamed(example: Example) -> None:
    potential = example.potential
    new = {name: f"{name} new" for name in potential.scope[::2]}
    other = potential.renamed(new)
    assert other.scope == tuple(new.get(name, name) for name in potential.scope)
    assert not set(new) & set(other.scope)
    axes = some_axes(example, np.random.default_rng(4))
    np.testing.assert_array_equal(
        potential.log_on(axes), other.log_on({new.get(name, name): axis for name, axis in axes.items()})
    )
    for name in (v.name for v in potential.variables if isinstance(v, Continuous)):
        assert potential.scale(name) == other.scale(new.get(name, name))
        np.testing.assert_array_equal(potential.breaks(name), other.breaks(new.get(name, name)))


def check_repr(example: Example) -> None:
    text = repr(example.potential)
    assert example.potential.child.name in text
    assert len(text) < 2000
    assert all(len(line) < 140 for line in text.splitlines())
    assert " at 0x" not in text


def check_frozen(example: Example) -> None:
    potential = example.potential
    assert not any(v.flags.writeable for v in vars(potential).values() if isinstance(v, np.ndarray))
    before = potential.log_on(some_axes(example, np.random.default_rng(6)))
    values, _ = potential.on(some_axes(example, np.random.default_rng(6)))
    if values.flags.writeable:
        values[...] = -1.0
    np.testing.assert_array_equal(before, potential.log_on(some_axes(example, np.random.default_rng(6))))


def check_far(example: Example) -> None:
    """A million standard deviations away nothing is NaN or negative, and conditionals keep their mass."""
    potential, rng = example.potential, np.random.default_rng(8)
    axes = some_axes(example, rng)
    for name, axis in axes.items():
        variable = potential.variable(name)
        if isinstance(variable, Discrete) or not (example.anywhere or name == potential.child.name):
            continue
        for far in (-1e6, 1e6, 1e12, 1e200):
            points = np.clip(np.full_like(axis, far), *variable.domain)
            values, scale = potential.on({**axes, name: points})
            assert (values >= 0).all()
            assert np.isfinite(values).all()
            assert np.isfinite(scale).all()
            assert not np.isnan(potential.log_on({**axes, name: points})).any()
            if name != potential.child.name and isinstance(potential.child, Discrete):
                states = {**axes, name: points, potential.child.name: np.arange(len(potential.child))}
                values, scale = potential.on(states)
                np.testing.assert_allclose((values * np.exp(scale)).sum(axis=-2), 1, rtol=1e-12)


def check_rescaled(example: Example) -> None:
    if example.rescaled is None:
        return
    for a, b in ((2.5, -3.0), (1e-6, 1.0), (1e6, 10.0)):
        other = example.rescaled(a, b)
        for row in range(example.rows):
            low, high = _finite_ends(example, row)
            points = np.linspace(low + 0.3 * (high - low), low + 0.7 * (high - low), 17)
            axes = {name: np.array([value]) for name, value in example.row(row).items()}
            values, scale = other.on({**axes, other.child.name: a * points + b})
            scaled = (values * np.exp(scale)).ravel() * abs(a)
            np.testing.assert_allclose(scaled, density(example, row, points), rtol=1e-6, atol=1e-12)


CHECKS = [value for name, value in list(globals().items()) if name.startswith("check_")]
