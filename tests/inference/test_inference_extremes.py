"""Far tails, sharp evidence, very many attributes, probabilities beyond the range of doubles, contradictions."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pandas as pd
import pytest
from narrowing import as_discrete
from scipy import special, stats

import hybridbn as hb
from hybridbn.errors import ImpossibleEvidence, NetworkError
from hybridbn.inference.engines import elimination
from hybridbn.inference.grids import PlacedNodes, place_nodes

X, Y, Z = map(hb.Continuous, "xyz")
B = hb.Discrete("b", ("no", "yes"))


def shifted(x: hb.Continuous, y: hb.Continuous, variance: float = 1.0) -> list:
    """X ~ N(0, 1), Y | X ~ N(X, variance)."""
    return [
        hb.LinearGaussian(x, intercept=0, variance=1),
        hb.LinearGaussian(y, (x,), intercept=0, coefficients=[1], variance=variance),
    ]


def flat(x: hb.Continuous) -> hb.Softmax:
    """A child that says nothing about x but can't be handled in closed form."""
    return hb.Softmax(B, (x,), intercept=[0, math.log(3)], coefficients=[[0.0], [0.0]])


TAILS = [3.0, 40.0, 140.0, -140.0, 200.0, 1400.0]


@pytest.mark.parametrize("y", TAILS)
def test_far_tails_in_closed_form(y):
    net = hb.Network(shifted(X, Y))
    post = net.posterior("x", {"y": y})
    assert post.mean() == pytest.approx(y / 2, rel=1e-14)
    assert post.var() == pytest.approx(0.5, rel=1e-14)
    assert net.log_evidence({"y": y}) == pytest.approx(stats.norm.logpdf(y, 0, math.sqrt(2)), rel=1e-14)


@pytest.mark.parametrize("y", TAILS)
def test_far_tails_by_quadrature(y):
    net = hb.Network([*shifted(X, Y), flat(X)])
    post = net.posterior("x", {"y": y, "b": "yes"})
    # log_evidence of -1e4 and beyond has an absolute error of its size times 2e-16
    exact = stats.norm.logpdf(y, 0, math.sqrt(2)) + math.log(0.75)
    assert net.log_evidence({"y": y, "b": "yes"}) == pytest.approx(exact, rel=1e-12)
    assert post.mean() == pytest.approx(y / 2, rel=1e-12)
    assert post.var() == pytest.approx(0.5, rel=1e-9)
    grid = y / 2 + np.linspace(-3, 3, 13)
    np.testing.assert_allclose(post.cdf(grid), stats.norm.cdf(grid, y / 2, math.sqrt(0.5)), atol=1e-10)
    assert post.error < 1e-9


def test_far_tails_where_the_child_matters():
    """The softmax shifts a posterior that lies at 70 standard deviations; tilting is exact for its exponential tail."""
    steep = hb.Softmax(B, (X,), intercept=[0, -1e3], coefficients=[[0.0], [1.0]])
    net = hb.Network([*shifted(X, Y), steep])
    # at x around 70, p(yes | x) = exp(x - 1000) to 1e-400: a tilt by one
    post = net.posterior("x", {"y": 140.0, "b": "yes"})
    assert post.mean() == pytest.approx(70.5, rel=1e-12)
    assert post.var() == pytest.approx(0.5, rel=1e-9)
    exact = stats.norm.logpdf(140, 0, math.sqrt(2)) - 1000 + 70 + 0.25
    assert net.log_evidence({"y": 140.0, "b": "yes"}) == pytest.approx(exact, rel=1e-12)


def test_a_chain_of_far_tails():
    """Both hidden variables need nodes, and neither lies where its prior is."""
    net = hb.Network(
        [
            *shifted(X, Y),
            hb.LinearGaussian(Z, (Y,), intercept=0, coefficients=[1], variance=1),
            flat(X),
            hb.Softmax(hb.Discrete("c", (0, 1)), (Y,), intercept=[0, 0], coefficients=[[0.0], [0.0]]),
        ]
    )
    found = net.posteriors({"z": 90.0, "b": "no", "c": 1})
    assert found["x"].mean() == pytest.approx(30, rel=1e-11)
    assert found["y"].mean() == pytest.approx(60, rel=1e-11)
    assert found["x"].var() == pytest.approx(2 / 3, rel=1e-9)
    assert found["y"].var() == pytest.approx(2 / 3, rel=1e-9)


def test_intervals_in_the_tails():
    """P(X > 30), its posterior mean by the asymptotics of Mills' ratio, and both ends far out."""
    net = hb.Network(
        [
            hb.LinearGaussian(X, intercept=0, variance=1),
            hb.LinearGaussian(Y, (X,), intercept=0, coefficients=[0.5], variance=1),
        ]
    )
    assert net.log_evidence({"x": hb.Interval(30)}) == pytest.approx(stats.norm.logsf(30), rel=1e-12)
    assert net.log_evidence({"x": hb.Interval(-math.inf, -30)}) == pytest.approx(stats.norm.logsf(30), rel=1e-12)
    inverse_mills = math.exp(stats.norm.logpdf(30) - stats.norm.logsf(30))
    assert net.posterior("y", {"x": hb.Interval(30)}).mean() == pytest.approx(inverse_mills / 2, rel=1e-10)
    log_mass = stats.norm.logsf(20) + math.log1p(-math.exp(stats.norm.logsf(21) - stats.norm.logsf(20)))
    assert net.log_evidence({"x": hb.Interval(20, 21)}) == pytest.approx(log_mass, rel=1e-12)


@pytest.mark.parametrize("sd", [1e-2, 1e-3, 1e-4, 1e-6])
@pytest.mark.parametrize("where", [0.31, -2.7])
def test_sharp_evidence(sd, where):
    """A likelihood of sd 1e-4 of the range, and far narrower, on a variable that needs nodes."""
    steep = hb.Softmax(B, (X,), intercept=[0.3, 0], coefficients=[[0.0], [1.0]])
    net = hb.Network([*shifted(X, Y, sd**2), steep])
    post = net.posterior("x", {"y": where, "b": "yes"})
    # at this width the softmax is linear in the exponent: one step of Newton from the Gaussian posterior
    precision = 1 + 1 / sd**2
    mean, variance = where / sd**2 / precision, 1 / precision
    nodes, weights = special.roots_hermitenorm(60)
    x = mean + math.sqrt(variance) * nodes
    tilted = weights * special.expit(x - 0.3)
    expected = (tilted @ x) / tilted.sum()
    assert post.mean() == pytest.approx(expected, rel=1e-12, abs=1e-10 * sd)
    assert post.std() == pytest.approx(math.sqrt((tilted @ (x - expected) ** 2) / tilted.sum()), rel=1e-6)
    exact = stats.norm.logpdf(where, 0, math.sqrt(1 + sd**2)) + math.log(tilted.sum() / weights.sum())
    assert net.log_evidence({"y": where, "b": "yes"}) == pytest.approx(exact, abs=1e-9)


def test_sharper_than_doubles_are_dense():
    """What cannot be reached is said: a width of 1e-12 around 2.7 has a few thousand doubles."""
    steep = hb.Softmax(B, (X,), intercept=[0.3, 0], coefficients=[[0.0], [1.0]])
    net = hb.Network([*shifted(X, Y, 1e-24), steep])
    with pytest.warns(UserWarning, match="estimated error"):
        post = net.posterior("x", {"y": 2.7, "b": "yes"})
    assert post.mean() == pytest.approx(2.7, abs=1e-11)
    grid = 2.7 + np.linspace(-2e-12, 2e-12, 9)
    assert post.error >= np.abs(post.cdf(grid) - stats.norm.cdf(grid, 2.7, 1e-12)).max() * 0.5


def test_sharp_evidence_in_a_batch_is_what_it_is_alone():
    steep = hb.Softmax(B, (X,), intercept=[0.3, 0], coefficients=[[0.0], [1.0]])
    net = hb.Network(
        [*shifted(X, Y, 1e-8), hb.LinearGaussian(Z, (X,), intercept=0, coefficients=[1], variance=1), steep]
    )
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"y": rng.normal(size=30) * 3, "z": rng.normal(size=30), "b": rng.choice(["no", "yes"], 30)})
    table.loc[::3, "y"] = np.nan
    table.loc[::4, "z"] = 90.0
    table.loc[::5, "b"] = None
    together = net.posterior("x", table)
    logs = together.log_evidence
    for row in range(0, 30, 3):
        case = {k: v for k, v in table.iloc[row].to_dict().items() if not pd.isna(v)}
        alone = net.posterior("x", case)
        assert together.mean()[row] == pytest.approx(alone.mean(), rel=1e-12, abs=1e-13)
        assert together.std()[row] == pytest.approx(alone.std(), rel=1e-10)
        assert logs[row] == pytest.approx(alone.log_evidence, rel=1e-12, abs=1e-12)


# -- very many attributes -----------------------------------------------------------------------------------------

MANY = 1500


def many_attributes(rng, adversarial: bool):
    """Return a naive Bayes and a row; adversarial: one half of the attributes favors the
    first class, then the other.
    """
    classes = hb.Discrete("class", ("a", "b", "c"))
    tables = rng.dirichlet(np.ones(4), size=(MANY, 3))
    if adversarial:
        tables[:, 0] = [0.997, 0.001, 0.001, 0.001]
        tables[:, 1] = [0.001, 0.997, 0.001, 0.001]
        tables[:, 2] = [0.0005, 0.0005, 0.4995, 0.4995]
    potentials = [hb.Multinomial(classes, table=[0.2, 0.3, 0.5])]
    row = {}
    for i in range(MANY):
        variable = hb.Discrete(f"x{i}", tuple("pqrs"))
        potentials.append(hb.Multinomial(variable, (classes,), table=tables[i]))
        state = int(i >= MANY // 2) if adversarial else int(rng.integers(4))
        row[f"x{i}"] = "pqrs"[state]
    states = ["pqrs".index(s) for s in row.values()]
    logs = np.log([0.2, 0.3, 0.5]) + [math.fsum(np.log(tables[range(MANY), k, states])) for k in range(3)]
    return hb.Network(potentials), row, logs


@pytest.mark.parametrize("adversarial", [pytest.param(False, marks=pytest.mark.slow), True])
def test_1500_attributes(adversarial):
    rng = np.random.default_rng(1)
    net, row, logs = many_attributes(rng, adversarial)
    total = special.logsumexp(logs)
    expected = np.exp(logs - total)
    post = net.posterior("class", row)
    np.testing.assert_allclose(post.probabilities, expected, atol=1e-9)
    assert net.log_evidence(row) == pytest.approx(total, rel=1e-12)
    if adversarial:
        assert expected[:2] == pytest.approx([0.4, 0.6], abs=1e-9)
    table = pd.DataFrame([row, {**row, "x0": None}, dict.fromkeys(row)])
    together = net.posterior("class", table)
    np.testing.assert_allclose(together.probabilities[0], expected, atol=1e-9)
    np.testing.assert_allclose(together.probabilities[2], [0.2, 0.3, 0.5], atol=1e-12)
    assert net.log_evidence(table)[0] == pytest.approx(total, rel=1e-12)


def test_adversarial_gaussian_attributes():
    """Partial products reach exp(-2e5) in favor of one class before the other class catches up."""
    classes = hb.Discrete("class", ("a", "b"))
    potentials: list[hb.Potential] = [hb.Multinomial(classes, table=[0.25, 0.75])]
    row = {}
    for i in range(400):
        x = hb.Continuous(f"x{i}")
        potentials.append(hb.LinearGaussian(x, (classes,), intercept=[-15, 15], variance=[1, 1]))
        row[x.name] = -15.0 if i < 200 else 15.0
    net = hb.Network(potentials)
    post = net.posterior("class", row)
    np.testing.assert_allclose(as_discrete(post).probabilities, [0.25, 0.75], atol=1e-9)
    expected = 200 * (stats.norm.logpdf(0) + stats.norm.logpdf(30))
    assert net.log_evidence(row) == pytest.approx(expected, rel=1e-12)


def test_adversarial_mte_attributes():
    classes = hb.Discrete("class", ("a", "b"))
    potentials: list[hb.Potential] = [hb.Multinomial(classes, table=[0.25, 0.75])]
    row = {}
    for i in range(300):
        x = hb.Continuous(f"x{i}", (0, 1))
        k = 40 / math.expm1(40)
        pieces = [
            hb.Piece({x.name: (0, 1)}, {"class": "a"}, 0, [(k, {x.name: 40.0})]),
            hb.Piece({x.name: (0, 1)}, {"class": "b"}, 0, [(k * math.exp(40), {x.name: -40.0})]),
        ]
        potentials.append(hb.MTE(x, (classes,), pieces))
        row[x.name] = 0.0 if i < 150 else 1.0
    net = hb.Network(potentials)
    np.testing.assert_allclose(as_discrete(net.posterior("class", row)).probabilities, [0.25, 0.75], atol=1e-9)
    assert net.log_evidence(row) == pytest.approx(150 * (2 * math.log(k) + 40), rel=1e-12)


# -- next to impossible, and impossible ---------------------------------------------------------------------------


def test_evidence_of_probability_1e_minus_400():
    states = hb.Discrete("c", ("a", "b"))
    potentials = [hb.Multinomial(states, table=[0.5, 0.5])]
    for i in range(40):
        x = hb.Discrete(f"x{i}", (0, 1))
        potentials.append(hb.Multinomial(x, (states,), table=[[1e-10, 1 - 1e-10], [1e-10 / 3, 1 - 1e-10 / 3]]))
    net = hb.Network(potentials)
    row = {f"x{i}": 0 for i in range(40)}
    assert net.log_evidence(row) == pytest.approx(math.log(0.5) - 400 * math.log(10) + math.log1p(3.0**-40), rel=1e-13)
    post = net.posterior("c", row)
    assert post["b"] == pytest.approx(3.0**-40, rel=1e-9)
    assert math.isfinite(post.log_evidence)


def test_contradictions_name_their_rows():
    a, b = hb.Discrete("a", ("x", "y")), hb.Discrete("b", ("x", "y"))
    c = hb.Discrete("c", ("x", "y"))
    same = [[1.0, 0.0], [0.0, 1.0]]
    net = hb.Network(
        [hb.Multinomial(a, table=[0.5, 0.5]), hb.Multinomial(b, (a,), table=same), hb.Multinomial(c, (b,), table=same)]
    )
    table = pd.DataFrame({"a": ["x", "x", None, "y", "y"], "c": ["x", "y", "x", "x", None]})
    with pytest.raises(ImpossibleEvidence, match="rows 1, 3") as caught:
        net.posterior("b", table)
    assert caught.value.rows == (1, 3)
    with pytest.raises(ImpossibleEvidence) as caught:
        net.posterior("b", {"a": "x", "c": "y"})
    assert caught.value.rows == (0,)
    post = net.posterior("b", table, impossible="nan")
    expected = [[1, 0], [np.nan] * 2, [1, 0], [np.nan] * 2, [0, 1]]
    np.testing.assert_array_equal(as_discrete(post).probabilities, expected)
    possible = [True, False, True, False, True]
    logs = np.log([0.5, 0, 0.5, 0, 0.5], where=possible, out=np.full(5, -np.inf))
    np.testing.assert_array_equal(net.log_evidence(table), logs)
    with pytest.raises(ImpossibleEvidence):
        net.posteriors(table)
    with pytest.raises(ImpossibleEvidence):
        net.sample(3, 0, {"a": "x", "c": "y"})
    with pytest.raises(ImpossibleEvidence):
        net.most_probable({"a": "x", "c": "y"})


def test_contradictions_of_numbers():
    """A value where no density reaches, and an interval beside all mass."""
    x, y = hb.Continuous("x"), hb.Continuous("y")
    unit = hb.MTE(x, pieces=[hb.Piece({"x": (0, 1)}, {}, 1.0, [])])
    net = hb.Network([unit, hb.LinearGaussian(y, (x,), intercept=0, coefficients=[1], variance=1)])
    assert net.log_evidence({"x": 2.0}) == -math.inf
    assert net.log_evidence({"x": hb.Interval(2, 3)}) == -math.inf
    for evidence in ({"x": 2.0}, {"x": hb.Interval(2, 3)}, {"x": lambda v: np.where(v > 5, 1.0, 0.0)}):
        with pytest.raises(ImpossibleEvidence):
            net.posterior("y", evidence)
    table = pd.DataFrame({"x": [0.5, 2.0, np.nan, -1.0]})
    with pytest.raises(ImpossibleEvidence) as caught:
        net.posterior("y", table)
    assert caught.value.rows == (1, 3)
    means = net.posterior("y", table, impossible="nan").mean()
    np.testing.assert_allclose(means, [0.5, np.nan, 0.5, np.nan], rtol=1e-9)


@pytest.mark.parametrize("table", [False, True])
def test_contradictions_of_numbers_that_the_target_does_not_depend_on(table):
    c = hb.Discrete("c", (0, 1))
    unit = hb.MTE(hb.Continuous("x", (0, 10)), pieces=[hb.Piece({"x": (0, 1)}, {}, 1.0, [])])
    net = hb.Network([unit, hb.Multinomial(c, table=[0.25, 0.75])])
    evidence = pd.DataFrame({"x": [0.5, 5.0]}) if table else {"x": 5.0}
    with pytest.raises(ImpossibleEvidence) as caught:
        net.posterior("c", evidence)
    assert caught.value.rows == ((1,) if table else (0,))


def test_impossible_rows_between_possible_ones_with_nodes():
    """Rows of a batch with quadrature: the impossible ones don't disturb the others."""
    x, y = hb.Continuous("x"), hb.Continuous("y", (0, 2))
    unit = hb.MTE(x, pieces=[hb.Piece({"x": (0, 1)}, {}, 1.0, [])])
    near = hb.Density(y, (x,), function=lambda y, x: np.where((y > x) & (y < x + 1), 1.0, 0.0), check=False)
    net = hb.Network(
        [
            hb.MTE(hb.Continuous("x", (0, 1)), pieces=unit.pieces),
            hb.Density(y, (hb.Continuous("x", (0, 1)),), function=near.function, check=False),
        ]
    )
    table = pd.DataFrame({"y": [0.5, 1.5, 0.25]})
    post = net.posterior("x", table)
    np.testing.assert_allclose(post.mean(), [0.25, 0.75, 0.125], atol=1e-6)


# -- densities that do not say where they lie ---------------------------------------------------------------------


@pytest.mark.parametrize(("mean", "sd"), [(0.0, 1.0), (1000.0, 1.0), (0.0, 1e-3), (-3.0, 1e6)])
def test_a_function_on_the_whole_line(mean, sd):
    """Neither support nor breaks nor a finite domain: it has to be looked for."""
    net = hb.Network([hb.Density(X, function=lambda x: stats.norm.pdf(x, mean, sd))])
    post = net.posterior("x")
    assert post.mean() == pytest.approx(mean, rel=1e-9, abs=1e-9 * sd)
    assert post.std() == pytest.approx(sd, rel=1e-9)
    assert net.log_evidence({"x": hb.Interval(mean + sd)}) == pytest.approx(stats.norm.logsf(1), abs=1e-9)


def test_functions_of_parents_on_the_whole_line():
    z = hb.Discrete("z", (0, 1))
    net = hb.Network(
        [
            hb.Multinomial(z, table=[0.4, 0.6]),
            hb.Density(X, (z,), function=lambda x, z: stats.norm.pdf(x, 50.0 * z, 1 + z)),
            hb.Density(Y, (X,), function=lambda y, x: stats.logistic.pdf(y, 3 * x)),
        ]
    )
    post = net.posterior("y")
    mean = 3 * 0.6 * 50
    assert post.mean() == pytest.approx(mean, rel=1e-9)
    assert post.var() == pytest.approx(9 * (0.4 + 0.6 * 4 + 0.24 * 2500) + math.pi**2 / 3, rel=1e-9)
    below = net.posterior("z", {"y": 20.0})
    assert as_discrete(below).probability(0) == pytest.approx(1, abs=1e-9)
    assert net.posterior("x", {"y": 150.0, "z": 1}).mean() == pytest.approx(50, rel=1e-9)


def test_a_function_that_can_not_be_found_is_refused():
    """Zero to the last bit wherever one would look: not taken for impossible evidence."""
    net = hb.Network([hb.Density(X, function=lambda x: np.where((x > 777.77) & (x < 777.78), 100.0, 0.0), check=False)])
    with pytest.raises(NetworkError, match="'x'"):
        net.posterior("x")
    told = hb.Density(X, function=lambda x: np.where((x > 777.77) & (x < 777.78), 100.0, 0.0), breaks=[777.77, 777.78])
    assert hb.Network([told]).posterior("x").mean() == pytest.approx(777.775, rel=1e-9)


def test_nodes_that_miss_mass_are_not_believed(monkeypatch):
    """If a row's own nodes find less of the evidence's probability than the shared ones, which are nearly fine, those
    count.
    """
    rng = np.random.default_rng(0)
    x, y = hb.Continuous("x"), hb.Continuous("y")
    points = np.column_stack([rng.normal(size=8), rng.normal(size=8)])
    net = hb.Network(
        [
            hb.Kernel(x, points=rng.normal(size=(8, 1)), bandwidths=[0.5]),
            hb.Kernel(y, parents=(x,), points=points, bandwidths=[0.5, 0.5]),
        ]
    )
    table = pd.DataFrame({"y": [0.1, 0.4, -0.3]})
    expected = net.posterior("x", table)
    original = elimination._solve_on_grid, place_nodes

    def never_fine(*given):
        solution, fine, _ = original[0](*given)
        return solution, np.zeros_like(fine), {}

    def half_of_it(*given):
        def cut(axis):
            weights = axis.weights.copy()
            weights[: len(weights) // 2, 1:] = 0
            return dataclasses.replace(axis, weights=weights)

        return [(rows, PlacedNodes({n: cut(a) for n, a in p.axes.items()}, p.error)) for rows, p in original[1](*given)]

    monkeypatch.setattr(elimination, "_solve_on_grid", never_fine)
    monkeypatch.setattr(elimination, "place_nodes", half_of_it)
    found = net.posterior("x", table)
    np.testing.assert_allclose(found.mean(), expected.mean(), rtol=1e-9)
    np.testing.assert_allclose(found.quantile(0.2), expected.quantile(0.2), rtol=1e-9)


def test_nodes_of_two_numbers_and_many_states_are_refused_before_they_take_the_memory():
    """A tree of two hundred leaves, tested numbers missing: its boxes' ends alone make many cells."""
    rng = np.random.default_rng(0)
    a, b, y = (hb.Continuous(name) for name in "aby")
    leaf = hb.Discrete("leaf", tuple(range(200)))
    sides = [[[low, low + 0.1] for low in rng.normal(size=200).tolist()] for _ in range(2)]
    net = hb.Network(
        [
            hb.LinearGaussian(a, intercept=0.0, variance=1.0),
            hb.LinearGaussian(b, parents=(a,), intercept=0.0, coefficients=[0.5], variance=1.0),
            hb.Boxes(leaf, (a, b), sides),
            hb.LinearGaussian(
                y,
                parents=(leaf, a, b),
                intercept=np.zeros(200),
                coefficients=rng.normal(size=(200, 2)),
                variance=np.ones(200),
            ),
        ]
    )
    with pytest.raises(hb.TooWide, match="'leaf', 'a', 'b'"):
        net.posterior("y", {})
    assert net.posterior("y", {"a": 0.3, "b": 0.1}).mean() == pytest.approx(
        net.posterior("y", pd.DataFrame({"a": [0.3], "b": [0.1]})).mean()[0]
    )
