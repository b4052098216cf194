"""Every fitter, whatever the parents: what it learns in each of their configurations, against plain sums.

The shapes have none to two discrete and none to two continuous parents, in both orders, with holes and without,
weighted or not. The oracles are loops over configurations in NumPy: least squares, sums of kernels, frequencies, the
gradient of a likelihood. Trees, which have no such formula, have to spread the rows of each configuration evenly.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pytest
from narrowing import as_kind
from scipy.special import logsumexp

import hybridbn as hb
from hybridbn.fitting import (
    AtomsFitter,
    Dirichlet,
    Fitter,
    GaussianFitter,
    KernelFitter,
    LinearGaussianMixtureFitter,
    MaximumLikelihood,
    MTEFitter,
    MultinomialFitter,
    SemiparametricFitter,
    SoftmaxFitter,
)
from hybridbn.potentials.base import Potential
from hybridbn.variables import Values, Variable

ROWS = 360
D, E = hb.Discrete("d", ("u", "v")), hb.Discrete("e", (0, 1, 2))
Y, Z = hb.Continuous("y"), hb.Continuous("z")
X, C, B = hb.Continuous("x"), hb.Discrete("c", ("k", "l", "m")), hb.Discrete("b", ("no", "yes"))
VARIABLES: list[Variable] = [D, E, Y, Z, X, C, B]


def shapes() -> Iterator[tuple[Variable, ...]]:
    """Give the parents: so many of either kind, the discrete ones first and last, and between the others."""
    for discrete, continuous in itertools.product(range(3), range(3)):
        states, numeric = (D, E)[:discrete], (Y, Z)[:continuous]
        yield from dict.fromkeys([states + numeric, (states + numeric)[::-1], states[:1] + numeric + states[1:]])


def describe(parents: tuple[Variable, ...]) -> str:
    return "".join(parent.name for parent in parents) or "none"


FORWARD = {(D, E)[:discrete] + (Y, Z)[:continuous] for discrete in range(3) for continuous in range(3)}
SHAPES = [pytest.param(parents, id=describe(parents)) for parents in shapes()]


@dataclass(frozen=True)
class Sample:
    """A table, and the rows of it that count for a family, as plain arrays."""

    table: hb.Table
    arrays: dict[str, Any]
    weights: Values

    def rows(self, child: Variable, parents: tuple[Variable, ...]) -> tuple[dict[str, Any], Values]:
        seen = self.weights > 0
        for variable in (child, *parents):
            seen &= ~np.isnan(self.arrays[variable.name])
        return {v.name: self.arrays[v.name][seen] for v in (child, *parents)}, self.weights[seen]

    def configurations(
        self, child: Variable, parents: tuple[Variable, ...]
    ) -> Iterator[tuple[dict[str, int], dict[str, Any], Values]]:
        """Give each configuration of the discrete parents, its rows and their weights."""
        arrays, weights = self.rows(child, parents)
        discrete = [parent for parent in parents if isinstance(parent, hb.Discrete)]
        for codes in itertools.product(*(range(len(parent)) for parent in discrete)):
            given = {parent.name: code for parent, code in zip(discrete, codes, strict=True)}
            mine = np.ones(len(weights), dtype=bool)
            for name, code in given.items():
                mine &= arrays[name] == code
            yield given, {name: column[mine] for name, column in arrays.items()}, weights[mine]


@cache
def sample(kind: str) -> Sample:
    """Make the rows: whole ones, some with holes, or all with weights of which some are zero."""
    rng = np.random.default_rng(17)
    d, e = rng.integers(0, 2, ROWS), rng.choice(3, p=(0.4, 0.35, 0.25), size=ROWS)
    y, z = rng.normal(2.0, 1.5, ROWS), rng.gamma(3.0, size=ROWS)
    line = (1 - 2 * d) * (y - 2) + 0.7 * e * (z - 3) + 4 * d - 3 * e
    x = line + rng.choice((-2.0, 2.0), size=ROWS) + 0.4 * rng.normal(size=ROWS)
    odds = np.stack([0 * line, line / 6, 0.5 - 0.5 * e + 0.15 * z], axis=1)
    c = (odds + rng.gumbel(size=odds.shape)).argmax(axis=1)
    b = 2 * (y - 2) + 4 * d - 2 * (e - 1) + rng.logistic(size=ROWS) > 2
    arrays = {name: column.astype(float) for name, column in zip("deyzxcb", (d, e, y, z, x, c, b), strict=True)}
    if kind == "holes":
        for column in arrays.values():
            column[rng.random(ROWS) < 0.04] = np.nan
    weights = np.ones(ROWS) if kind != "weights" else rng.choice((0.0, 0.5, 1.0, 2.7), size=ROWS)
    cells = {
        v.name: [None if np.isnan(code) else v.states[int(code)] for code in arrays[v.name]]
        if isinstance(v, hb.Discrete)
        else arrays[v.name]
        for v in VARIABLES
    }
    given = weights if kind == "weights" else None
    return Sample(hb.Table(cells, variables=VARIABLES, weights=given), arrays, weights)


KINDS = ("whole", "holes", "weights")


def kind_of(parents: tuple[Variable, ...], child: Variable) -> str:
    """Return one of the samples, in turn."""
    return KINDS[(len(parents) + sum(map(ord, describe(parents) + child.name))) % 3]


def evaluate(potential: Potential, arrays: dict[str, Any]) -> Values:
    """Return a density at rows of codes and numbers, which have one length or are single."""
    cells: dict[str, Any] = {}
    for variable in potential.variables:
        column = np.asarray(arrays[variable.name])
        cells[variable.name] = (
            [variable.states[int(code)] for code in np.atleast_1d(column)]
            if isinstance(variable, hb.Discrete)
            else column
        )
        if np.ndim(column) == 0 and isinstance(variable, hb.Discrete):
            cells[variable.name] = cells[variable.name][0]
    return np.asarray(potential(**cells))


def numbers(arrays: dict[str, Any], parents: tuple[Variable, ...]) -> Values:
    columns = [arrays[p.name] for p in parents if isinstance(p, hb.Continuous)]
    return np.stack(columns, axis=1) if columns else np.zeros((len(next(iter(arrays.values()))), 0))


def normal(x: Any, mean: Any, deviation: Any) -> Values:
    return np.exp(-0.5 * ((x - mean) / deviation) ** 2) / (deviation * np.sqrt(2 * np.pi))


# -- the oracles: densities of rows, from the sample alone ---------------------------------------------------------


def count_states(data: Sample, parents: tuple[Variable, ...], fitter: MultinomialFitter) -> Iterator[Any]:
    everything, weights = data.rows(C, parents)
    margin = np.array([weights[everything["c"] == state].sum() for state in range(3)])
    for given, own, heavy in data.configurations(C, parents):
        counts = np.array([heavy[own["c"] == state].sum() for state in range(3)])
        if isinstance(fitter.estimate, MaximumLikelihood):
            expected = counts / counts.sum()
        elif isinstance(fitter.estimate, Dirichlet):
            expected = (counts + np.arange(1, 4)) / (counts.sum() + 6)
        else:
            prior = (margin + 2 / 3) / (margin.sum() + 2) if parents else np.full(3, 1 / 3)
            expected = (counts + 2 * prior) / (counts.sum() + 2)
        yield {**given, "c": np.arange(3)}, expected


def regress(data: Sample, parents: tuple[Variable, ...], fitter: GaussianFitter) -> Iterator[Any]:
    for given, own, weights in data.configurations(X, parents):
        design = np.column_stack([np.ones(len(weights)), numbers(own, parents)])
        root = np.sqrt(weights)
        solution = np.linalg.lstsq(design * root[:, None], own["x"] * root, rcond=None)[0]
        residuals = own["x"] - design @ solution
        deviation = np.sqrt(weights @ residuals**2 / weights.sum())
        yield {**own, **given}, normal(own["x"], design @ solution, deviation)


def weigh_kernels(data: Sample, child: Variable, parents: tuple[Variable, ...]) -> Iterator[Any]:
    """Give the rows of each configuration, how much each counts for each at the numbers of the parents, and what the
    widths of kernels are divided by.
    """
    names = [p.name for p in parents if isinstance(p, hb.Continuous)]
    counting = data.weights > 0
    for given, own, weights in data.configurations(child, parents):
        root = np.sqrt(weights.sum() ** 2 / np.minimum(weights, weights**2).sum()) / 0.7
        shares = np.tile(weights, (len(weights), 1))
        for name in names:
            span = np.ptp(data.arrays[name][counting & ~np.isnan(data.arrays[name])])
            shares *= normal(own[name][:, None], own[name], span / root)
        yield given, own, shares, root


def sum_kernels(data: Sample, parents: tuple[Variable, ...], fitter: KernelFitter) -> Iterator[Any]:
    span = np.ptp(data.arrays["x"][(data.weights > 0) & ~np.isnan(data.arrays["x"])])
    for given, own, shares, root in weigh_kernels(data, X, parents):
        kernels = normal(own["x"][:, None], own["x"], span / root)
        yield {**own, **given}, (shares * kernels).sum(axis=1) / shares.sum(axis=1)


def turn_kernels_around(data: Sample, parents: tuple[Variable, ...], fitter: KernelFitter) -> Iterator[Any]:
    for given, own, shares, _ in weigh_kernels(data, C, parents):
        same = own["c"][:, None] == own["c"]
        yield {**own, **given}, (shares * same).sum(axis=1) / shares.sum(axis=1)


def fit_alone(data: Sample, parents: tuple[Variable, ...], fitter: Fitter) -> Iterator[Any]:
    """Fit the rows of a configuration as if there were no others."""
    continuous = tuple(p for p in parents if isinstance(p, hb.Continuous))
    for given, own, weights in data.configurations(X, parents):
        rows = hb.Table({v.name: own[v.name] for v in (X, *continuous)}, variables=[X, *continuous], weights=weights)
        yield {**own, **given}, evaluate(fitter.fit(rows, X, continuous), own)


Oracle = Callable[[Sample, tuple[Variable, ...], Any], Iterator[tuple[dict[str, Any], Values]]]
DIRECT: list[tuple[str, Fitter, Variable, Oracle]] = [
    ("m estimate", MultinomialFitter(), C, count_states),
    ("dirichlet", MultinomialFitter(estimate=Dirichlet((1, 2, 3))), C, count_states),
    ("frequencies", MultinomialFitter(estimate=MaximumLikelihood()), C, count_states),
    ("gaussian", GaussianFitter(), X, regress),
    ("one component", LinearGaussianMixtureFitter(components=1), X, regress),
    ("mixture", LinearGaussianMixtureFitter(components=2), X, fit_alone),
    ("kernel", KernelFitter(bandwidths=0.7), X, sum_kernels),
    ("kernel of states", KernelFitter(bandwidths=0.7), C, turn_kernels_around),
]


def fits(fitter: Fitter, child: Variable, parents: tuple[Variable, ...]) -> bool:
    return type(fitter).fits(child, parents)


@pytest.mark.parametrize(
    ("parents", "fitter", "child", "oracle"),
    [
        pytest.param(parents, fitter, child, oracle, id=f"{name}-{describe(parents)}")
        for name, fitter, child, oracle in DIRECT
        for parents in shapes()
        if fits(fitter, child, parents)
    ],
)
def test_each_configuration_has_what_its_rows_say(
    parents: tuple[Variable, ...], fitter: Fitter, child: Variable, oracle: Oracle
) -> None:
    data = sample(kind_of(parents, child))
    potential = fitter.fit(data.table, child, parents)
    assert potential.parents == parents
    for arrays, expected in oracle(data, parents, fitter):
        # the floor of variances is 1e-9 of the column's
        np.testing.assert_allclose(evaluate(potential, arrays), expected, rtol=1e-6, atol=1e-12)


@pytest.mark.parametrize("parents", [p for p in SHAPES if "y" in str(p.id)])
def test_logistic_regressions_have_no_slope_left(parents: tuple[Variable, ...]) -> None:
    """The gradient of what the fitter says that it minimizes is zero, for all rows and then in each configuration."""
    data = sample(kind_of(parents, C))
    everything, weights = data.rows(C, parents)
    numeric = tuple(p for p in parents if isinstance(p, hb.Continuous))
    potential = SoftmaxFitter().fit(data.table, C, parents)
    columns = numbers(everything, parents)
    mean = weights @ columns / weights.sum()
    scale = np.sqrt(weights @ (columns - mean) ** 2 / weights.sum())
    kept: tuple[Variable, ...] = (C, *numeric)
    rows = {v.name: everything[v.name] for v in kept}
    complete = hb.Table({**rows, "c": [C.states[int(c)] for c in rows["c"]]}, variables=kept, weights=weights)
    common = SoftmaxFitter().fit(complete, C, numeric)

    def standardize(intercept: Values, coefficients: Values) -> Values:
        """Return the coefficients (states, 1 + numbers) of standardized numbers, those of all states adding up to 0."""
        whole = np.column_stack([intercept + coefficients @ mean, coefficients * scale])
        return whole - whole.mean(axis=0)

    shared = standardize(as_kind(hb.Softmax, common).intercept, as_kind(hb.Softmax, common).coefficients)
    prior = np.exp(shared[:, 0] - logsumexp(shared[:, 0]))

    def slope(own: Values, design: Values, targets: Values, start: Values) -> Values:
        odds = design @ own.T
        chances = np.exp(odds - logsumexp(odds, axis=1)[:, None])
        gradient = (chances * targets.sum(axis=1, keepdims=True) - targets).T @ design
        gradient[:, 1:] += own[:, 1:] - start[:, 1:]
        return gradient

    def make_targets(arrays: dict[str, Any], heavy: Values) -> Values:
        return (arrays["c"][:, None] == np.arange(3)) * heavy[:, None]

    design = np.column_stack([np.ones(len(weights)), (columns - mean) / scale])
    spread = make_targets(everything, weights) + 2 / 3 * (weights / weights.sum())[:, None]
    np.testing.assert_allclose(slope(shared, design, spread, 0 * shared), 0, atol=1e-6)
    if len(numeric) == len(parents):
        np.testing.assert_allclose(evaluate(potential, everything), evaluate(common, everything), rtol=1e-9)
        return
    for given, own, heavy in data.configurations(C, parents):
        codes = tuple(given[p.name] for p in parents if isinstance(p, hb.Discrete))
        mine = standardize(
            as_kind(hb.Softmax, potential).intercept[codes],
            as_kind(hb.Softmax, potential).coefficients[codes],
        )
        design = np.column_stack([np.ones(len(heavy)), (numbers(own, parents) - mean) / scale])
        design = np.concatenate([design, np.eye(1, design.shape[1])])
        targets = np.concatenate([make_targets(own, heavy), 2 * prior[None]])
        np.testing.assert_allclose(slope(mine, design, targets, shared), 0, atol=1e-6)


def test_points_and_density() -> None:
    """The probabilities of points are those of their codes, the density that of the other rows."""
    points = (-40.0, 40.0)
    for parents in shapes():
        data = sample(kind_of(parents, X))
        at = np.random.default_rng(3).choice(3, size=ROWS, p=(0.2, 0.2, 0.6))
        x = np.where(at < 2, np.take((-40.0, 40.0, 0.0), at), data.arrays["x"])
        missing = np.isnan(data.arrays["x"])
        x = np.where(missing, np.nan, x)
        frame = data.table.to_pandas().assign(
            x=x, c=np.where(missing, np.array(None), np.take(np.array(C.states, dtype=object), at))
        )
        weights = data.table.weights if data.table.weighted else None
        table = hb.Table(frame, variables=VARIABLES, weights=weights)
        others = hb.Table(frame[at == 2], variables=VARIABLES, weights=None if weights is None else weights[at == 2])
        potential = AtomsFitter(points, "gaussian").fit(table, X, parents)
        # the points depend on no number
        flat = hb.Table(
            frame.assign(**{p.name: 0.0 * frame[p.name] for p in parents if isinstance(p, hb.Continuous)}),
            variables=VARIABLES,
            weights=weights,
        )
        component = (SoftmaxFitter() if numbers(data.arrays, parents).size else MultinomialFitter()).fit(
            flat, C, parents
        )
        density = GaussianFitter().fit(others, X, parents)
        rows, _ = Sample(table, {**data.arrays, "x": x, "c": at.astype(float)}, data.weights).rows(X, parents)
        free = evaluate(component, {**rows, "c": np.full(len(rows["x"]), 2)})
        for state, point in enumerate(points):
            chance = evaluate(component, {**rows, "c": np.full(len(rows["x"]), state)})
            np.testing.assert_allclose(evaluate(potential, {**rows, "x": np.full(len(free), point)}), chance)
        near = {**rows, "x": np.where(np.abs(rows["x"]) == 40, 1.0, rows["x"])}
        np.testing.assert_allclose(evaluate(potential, near), free * evaluate(density, near))


# -- trees of densities --------------------------------------------------------------------------------------------


def find_ranks(potential: Potential, arrays: dict[str, Any]) -> Values:
    """Return the probability below each row's number given its parents, by sums over a fine grid."""
    edges = np.linspace(-25.0, 25.0, 251)
    middle = 0.5 * (edges[1:] + edges[:-1])
    rows = len(arrays["x"])
    repeated = {name: np.repeat(column, len(middle)) for name, column in arrays.items()}
    repeated["x"] = np.tile(middle, rows)
    masses = evaluate(potential, repeated).reshape(rows, -1) * np.diff(edges)
    below = np.concatenate([np.zeros((rows, 1)), masses.cumsum(axis=1)], axis=1)
    np.testing.assert_allclose(below[:, -1], 1, atol=0.02)
    return np.array([np.interp(x, edges, row) for x, row in zip(arrays["x"], below, strict=True)])


TREES = [
    pytest.param(parents, id=describe(parents), marks=[] if parents in FORWARD else [pytest.mark.slow])
    for parents in shapes()
]


@pytest.mark.parametrize("parents", TREES)
def test_trees_of_densities_spread_the_rows_of_each_configuration(parents: tuple[Variable, ...]) -> None:
    data = sample(kind_of(parents, X))
    potential = MTEFitter(min_weight=4).fit(data.table, X, parents)
    for given, own, weights in data.configurations(X, parents):
        ranks = find_ranks(potential, {**own, **{name: np.full(len(weights), code) for name, code in given.items()}})
        for name in (p.name for p in parents if isinstance(p, hb.Continuous)):
            upper = own[name] > np.median(own[name])
            for half in (upper, ~upper):
                assert abs(np.average(ranks[half], weights=weights[half]) - 0.5) < 1.5 / np.sqrt(half.sum()), given
        order = np.argsort(ranks)
        reached = np.cumsum(weights[order]) / weights.sum()
        assert np.abs(reached - ranks[order]).max() < 1.6 / np.sqrt(len(ranks)), given


@pytest.mark.parametrize("parents", [p for p in SHAPES if "y" in str(p.id)])
def test_trees_of_states_give_each_configuration_its_frequencies(parents: tuple[Variable, ...]) -> None:
    data = sample(kind_of(parents, B))
    potential = MTEFitter(min_weight=4).fit(data.table, B, parents)
    gain = 0.0
    for given, own, weights in data.configurations(B, parents):
        chances = evaluate(potential, {**own, **given, "b": np.ones(len(weights))})
        frequency = np.average(own["b"], weights=weights)
        assert abs(np.average(chances, weights=weights) - frequency) < 1.5 / np.sqrt(len(weights)), given
        gain += weights @ np.log(np.where(own["b"] == 1, chances / frequency, (1 - chances) / (1 - frequency)))
    assert gain > 5  # what the numbers tell beyond the configuration


# -- what holds for all --------------------------------------------------------------------------------------------

ALL: list[tuple[str, Fitter, Variable]] = [
    *((name, fitter, child) for name, fitter, child, _ in DIRECT),
    ("softmax", SoftmaxFitter(), C),
    ("mte", MTEFitter(), X),
    ("mte of states", MTEFitter(), B),
    ("normal kernel", KernelFitter(bandwidths="normal"), X),
    ("atoms", AtomsFitter((0.0,), "mte"), X),
    ("semiparametric", SemiparametricFitter(("gaussian", "gaussian_mixture"), folds=2), X),
]
FAMILIES = [
    pytest.param(fitter, child, parents, id=f"{name}-{describe(parents)}")
    for name, fitter, child in ALL
    for parents in ((D, E), (Y, Z), (D, Y, E, Z))
    if fits(fitter, child, parents)
]


def test_every_fitter_is_here() -> None:
    own = {name for name, one in Fitter.registry.items() if one.__module__.startswith("hybridbn.")}
    assert {type(fitter).name for _, fitter, _ in ALL} == own


def densities(potential: Potential) -> Values:
    """Return a density in rows of the sample without holes."""
    return evaluate(potential, {name: column[:80] for name, column in sample("whole").arrays.items()})


def assert_same(first: Potential, second: Potential) -> None:
    np.testing.assert_allclose(densities(first), densities(second), rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize(("fitter", "child", "parents"), FAMILIES)
def test_orders_tell_nothing(fitter: Fitter, child: Variable, parents: tuple[Variable, ...]) -> None:
    table = sample("holes").table
    plain = fitter.fit(table, child, parents)
    assert_same(fitter.fit(table.take(np.random.default_rng(5).permutation(ROWS)), child, parents), plain)
    assert_same(fitter.fit(table, child, parents[::-1]), plain)


@pytest.mark.parametrize(("fitter", "child", "parents"), FAMILIES)
def test_weights_are_frequencies(fitter: Fitter, child: Variable, parents: tuple[Variable, ...]) -> None:
    table = sample("holes").table
    weights = np.random.default_rng(6).integers(0, 4, ROWS)
    weighted = fitter.fit(table.with_weights(weights), child, parents)
    present = table.with_weights(weights).take(np.flatnonzero(weights))
    assert_same(fitter.fit(present, child, parents), weighted)
    assert_same(fitter.fit(table.take(np.repeat(np.arange(ROWS), weights)), child, parents), weighted)


@pytest.mark.parametrize(("fitter", "child", "parents"), FAMILIES)
def test_statistics_of_parts_are_those_of_the_whole(
    fitter: Fitter, child: Variable, parents: tuple[Variable, ...]
) -> None:
    """So they are where only one of the parts has weights, which are then one in the other."""
    whole = sample("holes").table
    weights = np.where(np.arange(ROWS) < 140, 1.0, sample("weights").weights)
    first, second = whole[:140], whole.with_weights(weights)[140:]
    first_part, second_part = (fitter.statistics(part, child, parents) for part in (first, second))
    merged = fitter.potential(first_part + second_part)
    backward = fitter.potential(second_part + first_part)
    expected = fitter.fit(whole.with_weights(weights), child, parents)
    assert_same(merged, expected)
    assert_same(backward, expected)
