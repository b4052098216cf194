"""Conditional mixtures of truncated exponentials learned from columns."""

import itertools
import math

import numpy as np
import pytest
from mte_fits import conditional, divergence, fitted
from narrowing import as_discrete, as_kind
from scipy import stats

import hybridbn as hb
from hybridbn.fitting import MTEFitter
from hybridbn.fitting.mte import univariate

RNG = np.random.default_rng(3)


def test_a_known_mixture_is_recovered():
    rng = np.random.default_rng(5)
    c = rng.integers(0, 3, 3000)
    means, deviations = np.array([-3.0, 0.0, 1.0]), np.array([1.0, 0.4, 2.0])
    table = hb.Table({"c": c, "y": rng.normal(means[c], deviations[c])}, discrete=["c"])
    density = conditional(table, "y", "c")
    grid = np.linspace(-15, 15, 3001)
    for state in range(3):
        truth = stats.norm(means[state], deviations[state]).pdf
        kept = grid[truth(grid) > 1e-12]
        assert divergence(truth, lambda x, state=state: density(c=state, y=x), kept) < 0.015
    assert density.integral() == pytest.approx(3)


def test_conditionals_see_cells_only_and_have_no_holes():
    x = RNG.normal(size=500)
    y = np.where(x > 0, 3.0, -3.0) + 0.5 * RNG.normal(size=500)
    table = hb.Table({"x": x, "y": y, "c": np.where(RNG.random(500) < 0.5, "a", "b")})
    density = conditional(table, "y", "x", "c")
    assert density.cellwise("x")
    assert density(x=2.0, y=3.0, c="a") > 20 * density(x=-2.0, y=3.0, c="a")
    far = np.array([-1e300, -1e6, -50.0, 50.0, 1e6, 1e300])
    assert (density(x=far, y=np.zeros(6), c="b") > 0).all()
    axes = {"x": far, "c": np.arange(2)}
    np.testing.assert_allclose(density.mass(axes, np.array([-math.inf, math.inf]))[0], 1, rtol=1e-9)
    again = hb.MTE(density.child, density.parents, density.pieces)
    assert again.mass_error < 1e-9


def test_a_step_in_the_middle_of_a_range_is_found():
    x = RNG.uniform(0, 10, 1000)
    table = hb.Table({"x": x, "y": np.where((x > 4) & (x < 6), 5.0, 0.0) + RNG.normal(size=1000)})
    density = conditional(table, "y", "x")
    assert density(x=5.0, y=5.0) > 10 * density(x=1.0, y=5.0)
    assert density(x=9.0, y=0.0) > 10 * density(x=5.0, y=0.0)


def test_narrow_cells_are_not_blurred():
    rng = np.random.default_rng(2)
    x = rng.uniform(0, 10, 2000)
    table = hb.Table({"x": x, "y": x + 0.05 * rng.normal(size=2000)})
    density = conditional(table, "y", "x")
    assert density(x=5.0, y=np.array([3.0, 7.0])).max() < 1e-3
    ends = np.concatenate([[0.0], density.breaks("x"), [10.0]])
    widths = np.diff(ends)
    place = ends[:-1] + 0.5 * widths
    assert (np.array([density(x=a, y=a) for a in place]) * widths > 0.4).all()


@pytest.mark.parametrize("child", ["x", "c"])
@pytest.mark.parametrize("parents", ["", "d", "y", "dy", "de", "yz", "dyez"])
def test_every_kind_of_child_and_parents(child, parents):
    rng = np.random.default_rng(6)
    d, e, y, z = rng.integers(0, 3, 500), rng.integers(0, 2, 500), rng.normal(size=500), rng.exponential(size=500)
    x = d + y * (1 + e) + 0.5 * z + rng.normal(size=500)
    columns = {"d": d, "e": e, "y": y, "z": z, "x": x, "c": np.digitize(x + rng.normal(size=500), [0.0, 2.0])}
    columns["y"] = np.where(rng.random(500) < 0.1, np.nan, y)
    table = hb.Table(columns, discrete=["d", "e", "c"], weights=rng.uniform(0.5, 2, 500))
    density = conditional(table, child, *parents)
    given = {name: np.array([-50.0, -0.5, 0.0, 2.0, 1e9]) for name in parents if name in "yz"}
    given |= {name: np.arange(len(as_discrete(table.variable(name)).states)) for name in parents if name in "de"}
    rows = [dict(zip(given, cell, strict=True)) for cell in itertools.product(*given.values())]
    for row in rows:
        axes = {name: np.array([value]) for name, value in row.items()}
        if child == "c":
            values = np.exp(density.log_on({**axes, "c": np.arange(3)}))
            assert values.sum() == pytest.approx(1, abs=1e-9)
        else:
            values = np.exp(density.log_on({**axes, "x": np.array([-1e3, -2.0, 0.0, 3.0, 1e3])}))
            assert density.mass(axes, np.array([-math.inf, math.inf]))[0].item() == pytest.approx(1, abs=1e-9)
        assert (density.log_on({**axes, child: np.arange(3)}) > -math.inf).all()
        assert (values >= 0).all()


def test_a_child_is_fitted_once_for_all_its_parents(monkeypatch):
    calls = []
    plain = univariate._fit_density

    def noted(*given):
        calls.append(given)
        return plain(*given)

    monkeypatch.setattr(univariate, "_fit_density", noted)
    rng = np.random.default_rng(77)
    table = hb.Table({name: rng.normal(size=200) for name in "xabc"})
    for parents in ("", "a", "b", "ab", "abc"):
        conditional(table, "x", *parents)
    assert len(calls) == 1


def test_useless_parents_do_not_split():
    rng = np.random.default_rng(0)
    columns = {f"x{i}": rng.normal(size=400) for i in range(6)} | {f"d{i}": rng.integers(0, 4, 400) for i in range(4)}
    table = hb.Table({**columns, "y": rng.normal(size=400)}, discrete=[f"d{i}" for i in range(4)])
    density = conditional(table, "y", *columns)
    assert len(density.pieces) <= 10
    assert conditional(table, "d0", *[name for name in columns if name != "d0"]).integral


def test_many_parents_are_no_explosion():
    rng = np.random.default_rng(1)
    x = rng.normal(size=(3000, 8))
    table = hb.Table({**{f"x{i}": x[:, i] for i in range(8)}, "y": x.sum(axis=1) + rng.normal(size=3000)})
    density = conditional(table, "y", *[f"x{i}" for i in range(8)])
    assert 20 < len(density.pieces) < 3000
    rows = {f"x{i}": x[None, :50, i] for i in range(8)}
    masses = density.mass(rows, np.array([-math.inf, math.inf]))[0]
    np.testing.assert_allclose(masses.ravel(), 1, rtol=1e-9)


def test_unseen_states_fall_back():
    c = hb.Discrete("c", ("a", "b", "never"))
    y = hb.Continuous("y")
    values = np.concatenate([RNG.normal(-3, 1, 100), RNG.normal(3, 1, 100)])
    table = hb.Table({"c": ["a"] * 100 + ["b"] * 100, "y": values}, variables=[c, y])
    density, marginal = MTEFitter().fit(table, y, (c,)), fitted(values)
    grid = np.linspace(-5, 5, 21)
    np.testing.assert_allclose(density(c="never", y=grid), marginal(x=grid), rtol=0.35)


def test_a_category_given_a_number():
    x = RNG.normal(size=400)
    table = hb.Table({"x": x, "c": np.where(x > 0.3, "high", "low"), "d": np.where(RNG.random(400) < 0.5, "u", "v")})
    chances = conditional(table, "c", "x", "d")
    assert chances(x=2.0, c="high", d="u") > 0.9
    assert chances(x=-2.0, c="high", d="v") < 0.1
    assert chances.cellwise("x")
    for place in (-1e300, -1e5, 0.0, 1e5, 1e300):
        both = chances(x=place, c="high", d="u"), chances(x=place, c="low", d="u")
        assert sum(both) == pytest.approx(1, abs=1e-12)
        assert min(both) > 0


def test_naive_bayes_over_mixtures_predicts():
    x = RNG.uniform(-2, 2, 400)
    y = x + 0.3 * RNG.normal(size=400)
    net = hb.fit([("y", "x")], {"x": x, "y": y})
    # y given x is x but for normal errors, as x is even within its limits; cells of parents are steps of about 0.3
    grid = np.linspace(-1.6, 1.6, 17)
    means = net.posterior("y", hb.Table({"x": grid})).mean()
    assert np.abs(means - grid).max() < 0.25
    assert np.abs(means - grid).mean() < 0.12
    places = np.linspace(-4, 4, 4001)
    for value in (-1.5, 0.2):
        product = as_kind(np.ndarray, net.potential("y")(y=places) * net.potential("x")(x=value, y=places))
        assert net.posterior("y", {"x": value}).mean() == pytest.approx(product @ places / product.sum(), abs=2e-3)


def test_small_differences_between_classes_add_up() -> None:
    rng = np.random.default_rng(3)
    classes = np.repeat(np.arange(8), 150)
    centers = 0.35 * rng.normal(size=(8, 12))
    numbers = centers[classes] + rng.normal(size=(len(classes), 12))
    table = hb.Table({f"x{i}": column for i, column in enumerate(numbers.T)} | {"c": classes.astype(str)})
    learning = np.arange(len(classes)) % 3 == 0
    train, new = table.take(np.flatnonzero(learning)), table.take(np.flatnonzero(~learning))
    right = {}
    for family in ("mte", "gaussian"):
        net = hb.structures.naive_bayes(train, "c", potentials=family)
        right[family] = np.mean(np.array(net.posterior("c", new.drop(["c"])).mode()) == classes[~learning].astype(str))
    # the classes are normal, so that nothing does better than normal densities
    assert right["mte"] > right["gaussian"] - 0.04


@pytest.mark.parametrize(("domain", "end", "beside"), [((0.0, math.inf), 0.0, 1e-4), ((-math.inf, 1.0), 1.0, 1 - 1e-4)])
def test_values_at_an_end_of_the_domain_count_as_those_beside_it(domain, end, beside):
    rng = np.random.default_rng(4)
    code = rng.integers(0, 2, 200)
    inside, chosen = rng.beta(1.0, np.where(code == 1, 6.0, 1.0)), (rng.random(200) < 0.2) & (code == 1)
    places = {"x": np.abs(end - np.array([0.001, 0.01, 0.1])), "c": np.arange(2)}
    found = []
    for value in (end, beside):
        columns = {"x": np.where(chosen, value, inside), "c": code}
        table = hb.Table(columns, variables=[hb.Continuous("x", domain), hb.Discrete("c", (0, 1))])
        potential = MTEFitter().fit(table, table.variable("x"), (table.variable("c"),))
        found.append(potential.log_on(places))
    np.testing.assert_allclose(found[0], found[1], atol=0.2)
