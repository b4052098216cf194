"""Mixtures of points and densities: the promises of all potentials, and answers that sums over the parts give."""

import contract
import numpy as np
import pytest
from contract import CHECKS, Example
from hypothesis import example, given, settings
from hypothesis import strategies as st
from narrowing import as_continuous, as_discrete, as_kind, known
from scipy.integrate import trapezoid
from scipy.stats import norm

import hybridbn as hb
from hybridbn.explorer.responder import describe_belief
from hybridbn.pictures.posteriors import _draw_heat
from hybridbn.potentials import Atoms, cell_quadrature

C = hb.Discrete("c", ("a", "b"))
X, Y, Z = hb.Continuous("x"), hb.Continuous("y"), hb.Continuous("z")
SHARE = hb.Continuous("share", domain=(0, 1))
RNG = np.random.default_rng(3)


def normal(child, parents=()):
    return hb.LinearGaussian(
        child,
        parents,
        intercept=[5.0, 1.0] if C in parents else 2.0,
        coefficients=[[0.5], [-1.0]] if len(parents) == 2 else None,
        variance=[4.0, 1.0] if C in parents else 1.5,
    )


EXAMPLES = [
    Example("root", hb.Atoms(X, points=[0.0], probabilities=[0.3, 0.7], density=normal(X))),
    Example(
        "given a state",
        hb.Atoms(X, (C,), points=[0.0, 3.0], probabilities=[[0.2, 0.3, 0.5], [0.7, 0.1, 0.2]], density=normal(X, (C,))),
        {"c": [0, 1]},
    ),
    Example(
        "given a number",
        hb.Atoms(
            X,
            (C, Y),
            points=[1.0],
            probabilities=hb.Softmax(
                Atoms.component_of(X, [1.0]),
                (C, Y),
                intercept=[[0, 1], [0, -1]],
                coefficients=[[[0], [1]], [[0], [-2]]],
            ),
            density=normal(X, (C, Y)),
        ),
        {"c": [0, 1, 1], "y": [0.0, 1.0, -2.0]},
    ),
    Example(
        "at both ends of a domain",
        hb.Atoms(
            SHARE,
            points=[0.0, 1.0],
            probabilities=[0.25, 0.125, 0.625],
            density=hb.Kernel(SHARE, points=RNG.random((30, 1)), bandwidths=[0.05]),
        ),
    ),
]
KEPT = [check for check in CHECKS if check.__name__ not in ("check_ppf", "check_samples")]


@pytest.mark.parametrize("check", KEPT, ids=lambda check: check.__name__)
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)
def test_promises_of_potentials(example, check):
    check(example)


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)
def test_draws_agree_with_the_distribution(example):
    levels = np.linspace(0.0005, 0.9995, 2000)
    for row in range(example.rows):
        parents = {name: np.repeat(value, len(levels)) for name, value in example.row(row).items()}
        drawn = example.potential.ppf(levels, parents)
        assert (np.diff(drawn) >= 0).all()
        masses = contract.density(example, row, example.potential.points)
        for point, mass in zip(example.potential.points, masses, strict=True):
            assert abs((drawn == point).mean() - mass) < 1.5e-3
        others = ~np.isin(drawn, example.potential.points)
        np.testing.assert_allclose(contract.cdf(example, row, drawn[others]), levels[others], atol=1e-9)


def enumerate_posterior(likelihood, shares, table, means, variances, points, noise, observed):
    """Return the evidence, P(c) and E(x) of c -> x -> y by a sum over the parts of x."""
    mass, expected = np.zeros(2), 0.0
    for c in range(2):
        for point, probability in zip(points, table[c], strict=False):
            weight = shares[c] * probability * likelihood(observed, point, noise)
            mass[c] += weight
            expected += weight * point
        total = variances[c] + noise
        weight = shares[c] * table[c][-1] * likelihood(observed, means[c], total)
        mass[c] += weight
        expected += weight * (means[c] + variances[c] / total * (observed - means[c]))
    return mass.sum(), mass / mass.sum(), expected / mass.sum()


@settings(max_examples=15, deadline=None)
@given(
    observed=st.floats(-5, 30),
    shift=st.floats(-1e3, 1e3),
    scale=st.floats(1e-3, 1e3),
    points=st.lists(st.integers(-3, 6), min_size=1, max_size=3, unique=True),
)
@example(observed=-2.1, shift=0.82, scale=1.0, points=[-3, 2, 5])  # points are breaks of the density but for rounding
@example(observed=-0.4, shift=-0.21115640124109236, scale=4.232235484178415, points=[-3])
@example(observed=0.0, shift=679.0, scale=0.0078125, points=[0, 1])
def test_posteriors_are_sums_over_the_parts(observed, shift, scale, points):
    points = np.sort(points) * scale + shift
    table = np.random.default_rng(len(points)).dirichlet(np.ones(len(points) + 1), 2)
    shares, means, variances, noise = (
        [0.4, 0.6],
        np.array([5, 1]) * scale + shift,
        np.array([4, 1]) * scale**2,
        scale**2,
    )
    value = observed * scale + shift

    def likelihood(y, mean, variance):
        return np.exp(-0.5 * (y - mean) ** 2 / variance) / np.sqrt(2 * np.pi * variance)

    net = hb.Network(
        [
            hb.Multinomial(C, table=shares),
            hb.Atoms(
                X,
                (C,),
                points=points,
                probabilities=table,
                density=hb.LinearGaussian(X, (C,), intercept=means, variance=variances),
                unit=scale,
            ),
            hb.LinearGaussian(Y, (X,), intercept=0, coefficients=[1], variance=noise),
        ]
    )
    evidence, classes, mean = enumerate_posterior(likelihood, shares, table, means, variances, points, noise, value)
    assert net.log_evidence({"y": value}) == pytest.approx(np.log(evidence), abs=1e-8)
    np.testing.assert_allclose(as_discrete(net.posterior("c", {"y": value})).probabilities, classes, atol=1e-8)
    posterior = net.posterior("x", {"y": value})
    assert posterior.mean() == pytest.approx(mean, rel=1e-14, abs=1e-8 * scale)
    masses = np.array(
        [
            sum(shares[c] * table[c][j] for c in range(2)) * likelihood(value, point, noise)
            for j, point in enumerate(points)
        ]
    )
    np.testing.assert_allclose(as_continuous(posterior).pdf(points), masses / evidence, atol=1e-8)
    # what rounding may have changed is the point
    below = points - np.maximum(1e-10 * scale, 4e-15 * np.abs(points))
    np.testing.assert_allclose(posterior.cdf(points) - posterior.cdf(below), masses / evidence, atol=1e-6)
    # one more row beside it, with x known: rows of a table are what single cases are
    logs = net.log_density(hb.Table({"c": [None, "a"], "x": [None, float(points[0])], "y": [value, value]}))
    known = np.log(shares[0] * table[0][0] * likelihood(value, points[0], noise))
    np.testing.assert_allclose(logs, [np.log(evidence), known], rtol=1e-7, atol=1e-7)


def test_points_come_out_as_they_are():
    potential = EXAMPLES[1].potential
    net = hb.Network(
        [
            hb.Multinomial(C, table=[0.4, 0.6]),
            potential,
            hb.LinearGaussian(Y, (X,), intercept=1, coefficients=[2], variance=0.5),
        ]
    )
    drawn = np.asarray(net.sample(400, random_state=0, evidence={"y": 7.0})["x"])
    expected = as_continuous(net.posterior("x", {"y": 7.0})).pdf([3.0])[0]
    assert abs((drawn == 3.0).mean() - expected) < 4 * np.sqrt(expected * (1 - expected) / 400)
    assert net.most_probable({"y": 7.0}) == {"c": "a", "x": 3.0}
    assert net.posterior("x", {"y": 7.0}).quantile(0.5) == 3.0
    assert net.posterior("x", {"y": 7.0}).mode() == 3.0
    # a density beats a mass where it is higher, as the measure has it
    assert net.most_probable({"y": 3.3})["x"] == pytest.approx(17 / 15, abs=1e-6)


def make_mixed_network(**options):
    """Return c -> x with points -> y, and the marginal distribution of x: masses, and shares, means and deviations."""
    potential = EXAMPLES[1].potential
    network = hb.Network(
        [
            hb.Multinomial(C, table=[0.4, 0.6]),
            potential,
            hb.LinearGaussian(Y, (X,), intercept=1, coefficients=[2], variance=0.5),
        ]
    )
    return network, [0.5, 0.18], ([0.2, 0.12], [5.0, 1.0], [2.0, 1.0])


def test_scores_and_modes_know_the_points():
    net, masses, (shares, means, deviations) = make_mixed_network()
    posterior = net.posterior("x")

    def reach(x):
        parts = sum(w * norm.cdf(x, m, s) for w, m, s in zip(shares, means, deviations, strict=True))
        return parts + sum(mass * (x >= point) for mass, point in zip(masses, (0.0, 3.0), strict=True))

    assert posterior.mode() == 0.0
    assert posterior.point_cells.points.tolist() == [0.0, 3.0]
    for value, mass in ((0.0, 0.5), (3.0, 0.18), (1.2, 0.0), (-1.0, 0.0)):
        high, low = reach(value), reach(value) - mass
        assert posterior.pit(value) == pytest.approx((high + low) / 2, abs=1e-9)
        level = posterior.central_level(value)
        assert level == pytest.approx(max(1 - 2 * high, 2 * low - 1, 0.0), abs=1e-9)
        # the least central interval that holds the value, and one that does not
        first, last = posterior.interval(min(level + 1e-6, 1 - 1e-9))
        assert first <= value <= last
        if level > 1e-3:
            first, last = posterior.interval(level - 1e-6)
            assert not first <= value <= last
    x = np.linspace(-15, 25, 400_001)
    for value in (0.0, 3.0, 8.0):
        expected = trapezoid((reach(x) - (x >= value)) ** 2, x)
        assert posterior.crps(value) == pytest.approx(expected, rel=2e-3)
    with pytest.raises(hb.TableError, match="mass at '0', '3'"):
        posterior.as_mte()
    batch = net.posterior("x", hb.Table({"y": [0.9, 7.1, None]}))
    np.testing.assert_array_equal(batch.mode(), [0.0, 3.0, 0.0])
    assert batch[2].pit(0.0) == pytest.approx(posterior.pit(0.0))


@pytest.mark.parametrize("density", ["normal", "kernel"])
def test_counterfactuals_of_points_stand_for_all_quantiles_of_a_jump(density):
    net, _, _ = make_mixed_network()
    if density == "kernel":
        points, labels = RNG.normal([[5.0, 1.0]] * 40, [[2.0, 1.0]] * 40), ["a", "b"] * 40
        kernel = hb.Kernel(X, (C,), points=points.reshape(-1, 1), bandwidths=[0.5], labels={"c": labels})
        net.add(hb.Atoms(X, (C,), points=[0.0, 3.0], probabilities=net.potential("x").component.table, density=kernel))
    potential = net.potential("x")
    for value in (0.0, 3.0, 1.7, -0.4)[: 4 if density == "normal" else 3]:
        below, mass = find_level(potential, value - 1e-9, {"c": np.ones(1, int)}), 0.0
        if value in (0.0, 3.0):
            mass = float(potential(c="b", x=value))
        levels = below + mass * (np.arange(2000) + 0.5) / 2000 if mass else np.array([below])
        expected = potential.ppf(levels, {"c": np.zeros(len(levels), int)})
        case = hb.counterfactual(net, "x", {"c": "b", "x": value}, {"c": "a"}, draws=1000)
        assert len(known(case.draws)[0]) == (1000 if mass else 1)
        assert case.mean() == pytest.approx(expected.mean(), abs=1e-6 + 5 * expected.std() / 1000**0.5)
        assert case.std() == pytest.approx(expected.std(), rel=0.1, abs=1e-9)
        effect = hb.counterfactual(net, "y", {"c": "b", "x": value, "y": 1.0}, {"c": "a"}, draws=1000)
        assert effect.mean() == pytest.approx(1 + 2 * (expected.mean() - value), abs=1e-6 + expected.std() / 3)
    # nothing is set to another value, so that nothing changes
    assert known(hb.counterfactual(net, "x", {"c": "b", "x": 0.0}, {"c": "b"}).draws).tolist() == [[0.0] * 1000]


def find_level(potential, value, given):
    """Return the cdf at a number, by inverting the quantiles."""
    low, high = 0.0, 1.0
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if potential.ppf(np.array([middle]), given)[0] < value else (low, middle)
    return (low + high) / 2


def test_joint_pictures_show_the_points():
    net, masses, _ = make_mixed_network()
    heat = _draw_heat(net.posterior(["x", "y"]), "x", "y")
    shown = heat.values.sum(axis=0) * np.diff(heat.y).mean() * np.diff(heat.x)
    for point, mass in zip((0.0, 3.0), masses, strict=True):
        pixel = np.searchsorted(heat.x, point, side="right") - 1
        assert mass - 0.01 < shown[pixel] < mass + 0.05
    belief = known(describe_belief(net.posterior("x")))
    assert dict(map(tuple, belief["stems"]))[3.0] == pytest.approx(0.18)


def test_intervals_hold_the_points_at_both_ends():
    net = hb.Network([EXAMPLES[0].potential])
    below = net.log_evidence({"x": hb.Interval(-np.inf, 0.0)})
    above = net.log_evidence({"x": hb.Interval(0.0, np.inf)})
    assert np.exp(below) + np.exp(above) == pytest.approx(1.3, abs=1e-9)


def test_a_file_keeps_both_parts(tmp_path):
    net = hb.Network([hb.Multinomial(C, table=[0.5, 0.5]), EXAMPLES[1].potential])
    net.save(tmp_path / "net.hbn")
    rows = hb.Table({"c": ["a", "b", None], "x": [0.0, 2.5, 3.0]})
    np.testing.assert_array_equal(
        as_kind(hb.Network, hb.load(tmp_path / "net.hbn")).log_density(rows), net.log_density(rows)
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"points": [1.0, 0.0]}, "ascending order"),
        ({"points": []}, "one point or several"),
        ({"unit": 0.0}, "positive number"),
        ({"probabilities": [0.5, 0.5, 0.0]}, "shape"),
        ({"density": normal(Y)}, "the density must be a potential of"),
    ],
)
def test_bad_parts_are_refused(options, message):
    good = {"points": [0.0], "probabilities": [0.5, 0.5], "density": normal(X)}
    with pytest.raises(hb.NetworkError, match=message):
        hb.Atoms(X, **{**good, **options})


def make_density(family, center):
    """Return a density of a variable around a center, where it has a break or not, and its entropy."""
    if family == "normal":
        return hb.LinearGaussian(X, intercept=center, variance=1), 0.5 * np.log(2 * np.pi * np.e)
    if family == "two sided":
        left, right = (hb.Piece(box={"x": box}, constant=0, terms=[(0.5, {"x": slope})]) for box, slope in ENDS)
        shifted = [_shift_piece(piece, center) for piece in (left, right)]
        return hb.MTE(X, pieces=shifted), 1 + np.log(2)
    if family == "even":
        return hb.MTE(X, pieces=[hb.Piece(box={"x": (center - 1, center + 1)}, constant=0.5)]), np.log(2)
    points = center + np.array([[0.0], [0.7]])
    levels = np.linspace(-9, 10, 40001)
    density = norm.pdf(levels[:, None], points[:, 0] - center, 1).mean(axis=1)
    return hb.Kernel(X, points=points, bandwidths=[1.0]), -trapezoid(density * np.log(density), levels)


ENDS = [((-np.inf, 0.0), 1.0), ((0.0, np.inf), -1.0)]


def _shift_piece(piece, center):
    ((low, high),) = piece.box.values()
    slope = piece.terms[0][1]["x"]
    weight = 0.5 * np.exp(-slope * center)
    return hb.Piece(box={"x": (low + center, high + center)}, constant=0, terms=[(weight, {"x": slope})])


@pytest.mark.parametrize("family", ["normal", "two sided", "even", "kernel"])
@pytest.mark.parametrize("point", [0.0, 0.37, -3.0, 11.0])
@pytest.mark.parametrize("away", [0.0, 4e-16, 2e-14, 1e-6, 0.5])
def test_entropy_wherever_a_point_lies(family, point, away):
    density, own = make_density(family, point + away)
    net = hb.Network([hb.Atoms(X, points=[point], probabilities=[0.35, 0.65], density=density)])
    posterior = net.posterior("x")
    expected = -0.35 * np.log(0.35) - 0.65 * np.log(0.65) + 0.65 * own
    assert posterior.entropy() == pytest.approx(expected, abs=1e-9)
    near = point + np.sort(np.append(np.linspace(-4e-11, 4e-11, 401), np.linspace(-4e-14, 4e-14, 81)) * max(point, 1))
    assert (as_continuous(posterior).pdf(near) < 1).all()
    assert (np.diff(posterior.cdf(near)) >= -1e-12).all()


@pytest.mark.parametrize("family", ["normal", "two sided", "kernel"])
def test_logarithms_far_out_are_those_of_the_density(family):
    density, _ = make_density(family, 1.0)
    both = hb.Atoms(X, points=[0.5], probabilities=[1 - 1e-9, 1e-9], density=density)
    far = np.array([-800.0, -60.0, -38.0, 39.6, 40.6, 700.0, 1e5])
    logs = both.log_on({"x": far})
    assert np.isfinite(logs).all()
    np.testing.assert_allclose(logs, density.log_on({"x": far}) + np.log(1e-9), rtol=1e-14)


def test_the_distribution_function_is_what_lies_below() -> None:
    """The mass of a point itself is not below it."""
    potential = EXAMPLES[1].potential
    values = np.array([0.0, 1e-6, 3.0, 3 + 1e-6, 1.0])
    for code, shares, mean, sd in ((0, [0.2, 0.3, 0.5], 5.0, 2.0), (1, [0.7, 0.1, 0.2], 1.0, 1.0)):
        found = cell_quadrature.cdf(potential, values, {"c": np.full(5, code)})
        below = shares[0] * (values > 0) + shares[1] * (values > 3) + shares[2] * norm.cdf(values, mean, sd)
        np.testing.assert_allclose(found, below, atol=1e-12)
