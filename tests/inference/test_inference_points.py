"""Linear Gaussian networks whose numbers have points: answers are sums over which point each number is at, or none."""

import itertools

import numpy as np
import pytest
from narrowing import as_kind
from scipy.stats import multivariate_normal, norm

import hybridbn as hb
from hybridbn.potentials import Atoms
from hybridbn.variables import Grid

STATES = ("a", "b")


def make_network(seed, size=4):
    """Return a network of a discrete variable and numbers, about half of which have points."""
    rng = np.random.default_rng(seed)
    d, e = hb.Discrete("d", STATES), hb.Discrete("e", STATES)
    numbers = [hb.Continuous(f"x{i}") for i in range(size)]
    potentials: list[hb.Potential] = [
        hb.Multinomial(d, table=rng.dirichlet([2, 2])),
        hb.Multinomial(e, (d,), table=rng.dirichlet([2, 2], 2)),
    ]
    for i, x in enumerate(numbers):
        above = [p for p in numbers[:i] if rng.random() < 0.6]
        discrete = [p for p in (d, e) if rng.random() < 0.5]
        shape = (2,) * len(discrete)
        parents: tuple[hb.Discrete | hb.Continuous, ...] = (*discrete, *above)
        slopes = rng.normal(size=(*shape, len(parents) - len(discrete)))
        density = hb.LinearGaussian(
            x, parents, intercept=rng.normal(size=shape), coefficients=slopes, variance=rng.uniform(0.3, 2, shape)
        )
        points = np.sort(rng.normal(size=rng.integers(0, 3)).round(1))
        if not len(points) or len(set(points)) < len(points):
            potentials.append(density)
            continue
        probabilities = hb.Softmax(
            Atoms.component_of(x, points.tolist()),
            parents,
            intercept=rng.normal(size=(*shape, len(points) + 1)),
            coefficients=np.zeros((*shape, len(points) + 1, len(parents) - len(discrete))),
        )
        potentials.append(hb.Atoms(x, parents, points=points, probabilities=probabilities, density=density))
    return hb.Network(potentials)


def list_configurations(net):
    """Yield the states, the points (None for the density), and the probability of each configuration."""
    names = [name for name in net if isinstance(net.variable(name), hb.Discrete)]
    mixed = [name for name in net if isinstance(net.potential(name), Atoms)]
    for states in itertools.product(STATES, repeat=len(names)):
        given = dict(zip(names, states, strict=True))
        weight = np.prod(
            [net.potential(n)(**{v.name: given[v.name] for v in net.potential(n).variables}) for n in names]
        )
        shares = []
        for name in mixed:
            potential, component = net.potential(name), net.potential(name).component
            inside = {p.name: given.get(p.name, 0.0) for p in potential.parents}
            shares.append([(state, component(**inside, **{name: state})) for state in component.child.states])
        for chosen in itertools.product(*shares):
            share = weight * np.prod([probability for _, probability in chosen])
            yield given, {n: None if s == "other" else s for n, (s, _) in zip(mixed, chosen, strict=True)}, share


def compute_moments(net, given, points, numbers):
    """Return the mean and the covariance of all numbers in a configuration."""
    mean, load = np.zeros(len(numbers)), np.zeros((len(numbers), len(numbers)))
    for i, name in enumerate(numbers):
        potential = net.potential(name)
        if points.get(name) is not None:
            mean[i] = points[name]
            continue
        regression = as_kind(hb.LinearGaussian, potential.density if isinstance(potential, Atoms) else potential)
        cell = tuple(STATES.index(given[p.name]) for p in potential.parents if p.name in given)
        mean[i], load[i, i] = regression.intercept[cell], np.sqrt(regression.variance[cell])
        above = [p.name for p in potential.parents if p.name not in given]
        for parent, slope in zip(above, np.atleast_1d(regression.coefficients[cell]), strict=True):
            j = numbers.index(parent)
            mean[i] += slope * mean[j]
            load[i] += slope * load[j]
    return mean, load @ load.T


def enumerate_answers(net, case):
    """Return log evidence, P(d) and for each number its mean, variance and the masses of its points."""
    numbers = [name for name in net if isinstance(net.variable(name), hb.Continuous)]
    values = {n: v for n, v in case.items() if n in numbers and not isinstance(v, hb.Interval)}
    (ranged,) = [n for n, v in case.items() if isinstance(v, hb.Interval)] or [None]
    total, states, first, second = 0.0, np.zeros(2), np.zeros(len(numbers)), np.zeros(len(numbers))
    masses: dict[tuple[str, float], float] = {}
    for given, points, weight in list_configurations(net):
        if any(given[n] != v for n, v in case.items() if n in given):
            continue
        known = [n for n in values if points.get(n) is None]
        if any(points[n] != values[n] for n in values if points.get(n) is not None):
            continue
        if any(values[n] in net.potential(n).point_cells.points for n in known):
            continue
        mean, spread = compute_moments(net, given, points, numbers)
        at = [numbers.index(n) for n in known]
        if at:
            gap = np.array([values[n] for n in known]) - mean[at]
            weight *= multivariate_normal(np.zeros(len(at)), spread[np.ix_(at, at)]).pdf(gap)
            gain = spread[:, at] @ np.linalg.inv(spread[np.ix_(at, at)])
            mean, spread = mean + gain @ gap, spread - gain @ spread[at]
        if ranged is not None:
            i, low, high = numbers.index(ranged), case[ranged].low, case[ranged].high
            if points.get(ranged) is not None:
                weight *= low <= mean[i] <= high
            else:
                deviation = np.sqrt(spread[i, i])
                ends = (np.array([low, high]) - mean[i]) / deviation
                inside = np.diff(norm.cdf(ends))[0]
                weight *= inside
                p = norm.pdf(ends)
                shift = (p[0] - p[1]) / inside
                tail = np.where(np.isfinite(ends), ends, 0.0) * p
                shrink = 1 + (tail[0] - tail[1]) / inside - shift**2
                gain = spread[:, i] / deviation
                mean, spread = mean + gain * shift, spread + np.outer(gain, gain) * (shrink - 1)
        if not weight:
            continue
        total += weight
        states[STATES.index(given["d"])] += weight
        first, second = first + weight * mean, second + weight * (mean**2 + np.diag(spread))
        for n, point in points.items():
            if point is not None:
                masses[n, point] = masses.get((n, point), 0.0) + weight
    mean = first / total
    masses = {key: mass / total for key, mass in masses.items()}
    return np.log(total), states / total, dict(zip(numbers, mean, strict=True)), second / total - mean**2, masses


def list_cases(net, rng):
    """Return cases with hidden, observed and ranged numbers, some of them at a point."""
    row = net.sample(1, random_state=int(rng.integers(1 << 30))).iloc[0].to_dict()
    mixed = [name for name in net if isinstance(net.potential(name), Atoms)]
    numbers = [name for name in net if isinstance(net.variable(name), hb.Continuous)]
    for name in mixed:
        if rng.random() < 0.5:
            row[name] = float(rng.choice(net.potential(name).points))
    known = {name: value for name, value in row.items() if rng.random() < 0.45}
    left = [name for name in numbers if name not in known]
    yield known
    if left:
        name = str(rng.choice(left))
        ends = [*getattr(net.potential(name), "points", []), row[name] - 1.0, row[name] + 0.7, -np.inf]
        low, high = np.sort(rng.choice(np.unique(ends), 2, replace=False))
        yield {**known, name: hb.Interval(low, high)}


@pytest.mark.parametrize("seed", range(12))
def test_answers_are_sums_over_the_points(seed):
    net, rng = make_network(seed), np.random.default_rng(seed)
    for case in list_cases(net, rng):
        log_evidence, states, means, variances, masses = enumerate_answers(net, case)
        assert net.log_evidence(case) == pytest.approx(log_evidence, abs=1e-9)
        for name, mean, variance in zip(means, means.values(), variances, strict=True):
            if name in case and not isinstance(case[name], hb.Interval):
                continue
            posterior = net.posterior(name, case)
            allowed = 10 * posterior.error + 1e-9
            assert (posterior.mean(), posterior.var()) == pytest.approx((mean, variance), rel=allowed, abs=allowed)
            points = net.potential(name).point_cells.points
            expected = [masses.get((name, point), 0.0) for point in points]
            assert posterior.pdf(points) == pytest.approx(expected, abs=allowed)
            assert posterior.cdf(points) - posterior.cdf(points - 1e-9) == pytest.approx(expected, abs=1e-8)
        if "d" not in case:
            assert net.posterior("d", case).probabilities == pytest.approx(states, abs=1e-9)


@pytest.mark.parametrize(
    ("grid", "make", "likeliest"),
    [
        # the density jumps up between 17 and 18, nearer to 17
        (Grid(1.0), lambda x: hb.MTE.from_density(x, lambda v: np.exp(-(v - 17.49) / 30), (17.49, 80.3)), None),
        (Grid(2.0, low=0.0), lambda x: hb.LinearGaussian(x, intercept=3.0, variance=9.0), None),
        (Grid(1.0, low=0.0), lambda x: hb.LinearGaussian(x, intercept=1.0, variance=16.0), 0.0),
        # so little lies beyond the end that it is no stem of a picture
        (Grid(0.01, low=0.0), lambda x: hb.LinearGaussian(x, intercept=2.5, variance=1.0), 2.5),
        (
            Grid(0.5),
            lambda x: Atoms(
                x,
                points=[4.0, 6.0],
                probabilities=[0.2, 0.3, 0.5],
                density=hb.LinearGaussian(x, intercept=0.0, variance=0.01),
            ),
            0.0,
        ),
        (
            Grid(0.01),
            lambda x: Atoms(
                x,
                points=[4.0, 6.0],
                probabilities=[0.1, 0.3, 0.6],
                density=hb.LinearGaussian(x, intercept=0.0, variance=0.01),
            ),
            6.0,
        ),
    ],
)
def test_modes_are_the_likeliest_numbers_of_a_grid(grid, make, likeliest):
    x = hb.Continuous("x", grid=grid)
    posterior = hb.Network([make(x)]).posterior("x")
    mode = posterior.mode()
    near = grid.round(mode + grid.step * np.arange(-3, 4))
    assert posterior.probability(mode) >= max(map(posterior.probability, near)) - 1e-12
    assert likeliest is None or mode == pytest.approx(likeliest, abs=grid.step / 2)


def test_what_is_shown_of_points_is_their_probability():
    x = hb.Continuous("x", grid=Grid(1.0, low=1.0, high=2.0))
    density = hb.LinearGaussian(x, intercept=1.5, variance=0.25)
    posterior = hb.Network([Atoms(x, points=[1, 2], probabilities=[0.5, 0.3, 0.2], density=density)]).posterior("x")
    assert posterior.probability(1) == pytest.approx(0.6)
    assert repr(posterior) == "<posterior of 'x': 1: 0.6, 2: 0.4>"


def test_densities_of_few_numbers_are_shown_by_these():
    passed = hb.Continuous("passed", grid=Grid(1.0, low=0.0, high=1.0))
    posterior = hb.Network([hb.LinearGaussian(passed, intercept=0.5, variance=0.25)]).posterior("passed")
    assert repr(posterior) == "<posterior of 'passed': 0: 0.5, 1: 0.5>"
