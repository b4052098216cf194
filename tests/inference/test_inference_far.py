"""Evidence far from the prior, and much narrower than it, known by its values alone."""

import math

import numpy as np
import pandas as pd
import pytest
from narrowing import as_discrete
from scipy import integrate, stats

import hybridbn as hb
from hybridbn.inference import relevance
from hybridbn.inference.engines import elimination
from hybridbn.potentials import LinearGaussianMixture

X, Y, E = hb.Continuous("x"), hb.Continuous("y"), hb.Continuous("e")
C = hb.Discrete("c", ("a", "b"))


def normal(values, mean, sd):
    return np.exp(-0.5 * ((values - mean) / sd) ** 2) / sd / math.sqrt(2 * math.pi)


def standard():
    return hb.LinearGaussian(X, intercept=0, variance=1)


def expected(slope: float, sd: float, observed: float) -> tuple[float, float, float]:
    """Return mean, sd and log evidence of X ~ N(0, 1) when N(slope x, sd) is observed."""
    precision = 1 + (slope / sd) ** 2
    mean = slope * observed / sd**2 / precision
    return mean, precision**-0.5, float(stats.norm.logpdf(observed, 0, math.hypot(slope, sd)))


@pytest.mark.parametrize(
    ("center", "sd"),
    [(30, 1), (60, 1), (-70, 2), (1000, 30), (0.5, 1e-4), (0.3, 1e-6), (17 / 7, 1e-4), (-math.e, 0.01)],
)
def test_likelihood_functions_far_out_and_narrow(center, sd):
    below = hb.LinearGaussian(Y, parents=(X,), intercept=0, coefficients=[1], variance=1)
    mean, deviation, log_evidence = expected(1, sd, center)
    post = hb.Network([standard(), below]).posterior("y", {"x": lambda values: normal(values, center, sd)})
    assert post.mean() == pytest.approx(mean, rel=1e-9)
    assert post.var() == pytest.approx(1 + deviation**2, rel=1e-9)
    assert post.log_evidence == pytest.approx(log_evidence, rel=1e-10)


@pytest.mark.parametrize(
    ("slope", "sd", "observed"),
    [(3, 1, 60), (1, 1, 60), (1, 1e-3, 0.7), (1, 1e-5, 0.7), (-2, 0.5, 30), (0.01, 1e-4, 0.02)],
)
def test_observed_functions_far_out_and_narrow(slope, sd, observed):
    below = hb.Density(E, parents=(X,), function=lambda e, x: normal(e, slope * x, sd))
    mean, deviation, log_evidence = expected(slope, sd, observed)
    post = hb.Network([standard(), below]).posterior("x", {"e": observed})
    assert post.mean() == pytest.approx(mean, rel=1e-9)
    assert post.std() == pytest.approx(deviation, rel=1e-9)
    assert post.log_evidence == pytest.approx(log_evidence, rel=1e-10)


def test_where_doubles_end_the_error_says_so():
    below = hb.Density(E, parents=(X,), function=lambda e, x: normal(e, x, 1))
    with pytest.warns(UserWarning, match="estimated error"):
        post = hb.Network([standard(), below]).posterior("x", {"e": 72.0})
    assert abs(post.mean() - 36) < 1e-3
    assert post.error > 1e-7


def test_rows_near_and_far_are_what_they_are_alone():
    below = hb.Density(E, parents=(X,), function=lambda e, x: normal(e, x, 1))
    net = hb.Network([standard(), below])
    observed = np.concatenate([np.linspace(-5, 5, 50), [60, -60, 30, 12]])
    together = net.posterior("x", pd.DataFrame({"e": observed}))
    np.testing.assert_allclose(together.mean(), observed / 2, atol=1e-11)
    for row in (0, 25, 50, 53):
        alone = net.posterior("x", {"e": observed[row]})
        assert together[row].mean() == pytest.approx(alone.mean(), rel=1e-12)
        assert together[row].log_evidence == pytest.approx(alone.log_evidence, rel=1e-12)


@pytest.mark.parametrize("widths", [(1e-3, 1e-2), (1e-4, 1.0), (1e-2, 1e-2)])
def test_narrow_modes_of_unequal_width(widths):
    def function(x):
        return 0.3 * normal(x, 50, widths[0]) + 0.7 * normal(x, -50, widths[1])

    child = hb.Softmax(C, parents=(X,), intercept=[0, 0], coefficients=[[0.01], [-0.01]])
    net = hb.Network([hb.Density(X, function=function, breaks=[-50, 50]), child])
    assert net.posterior("x").cdf(0) == pytest.approx(0.7, rel=1e-10)

    def weight(mode, width):
        grid = mode + width * np.linspace(-12, 12, 2001)
        return integrate.simpson(normal(grid, mode, width) / (1 + np.exp(-0.02 * grid)), x=grid)

    parts = 0.3 * weight(50, widths[0]), 0.7 * weight(-50, widths[1])
    post = net.posterior("x", {"c": "a"})
    assert post.cdf(0) == pytest.approx(parts[1] / sum(parts), rel=1e-9)


@pytest.mark.parametrize("rate", [1.5, 3.0])
def test_a_tail_that_evidence_turns_around(rate):
    own = hb.Density(X, function=lambda x: np.where(x <= 100, np.exp(np.minimum(x - 100, 0)), 0), breaks=[100])
    child = hb.Softmax(C, parents=(X,), intercept=[0, 0], coefficients=[[-rate], [0]])
    post = hb.Network([own, child]).posterior("x", {"c": "a"})
    # E[x] under exp(x) / (1 + exp(rate x)), in closed form
    share = 1 / rate
    mean = math.pi / math.tan(math.pi * share) * -share
    assert post.mean() == pytest.approx(mean, rel=1e-9)
    assert post.log_evidence == pytest.approx(-100 + math.log(math.pi * share / math.sin(math.pi * share)), rel=1e-12)


def test_ranges_of_rows_stay_apart():
    root = hb.Density(X, function=lambda x: normal(x, 0, 1))
    child = hb.Softmax(C, parents=(X,), intercept=[0, 0], coefficients=[[1], [-1]])
    table = pd.DataFrame(
        {"x": [None, hb.Interval(-0.9, -0.6), hb.Interval(20, 21)], "c": [None, None, "a"]}, dtype=object
    )
    found = hb.Network([root, child]).log_evidence(table)
    assert found[0] == pytest.approx(0, abs=1e-12)
    assert found[1] == pytest.approx(math.log(stats.norm.cdf(-0.6) - stats.norm.cdf(-0.9)), rel=1e-10)
    assert found[2] == pytest.approx(stats.norm.logsf(20), rel=1e-6)


def test_a_chain_of_functions_far_out():
    middle = hb.Density(Y, parents=(X,), function=lambda y, x: normal(y, x, 1))
    below = hb.Density(E, parents=(Y,), function=lambda e, y: normal(e, y, 1))
    posts = hb.Network([standard(), middle, below]).posteriors({"e": 30.0})
    assert posts["x"].mean() == pytest.approx(10, rel=1e-9)
    assert posts["y"].mean() == pytest.approx(20, rel=1e-9)


def test_impossible_stays_impossible():
    uniform = hb.Density(E, parents=(X,), function=lambda e, x: np.where(np.abs(e - np.tanh(x)) <= 0.5, 1.0, 0.0))
    with pytest.raises(hb.ImpossibleEvidence):
        hb.Network([standard(), uniform]).posterior("x", {"e": 3.0})


def ladder(rng, size: int) -> hb.Network:
    """Return a network in which each node has the two before it as parents, every third one being discrete."""
    variables: list[hb.Discrete | hb.Continuous] = []
    potentials: list[hb.Potential] = []
    for place in range(size):
        child: hb.Discrete | hb.Continuous
        parents = tuple(variables[-2:])
        shape = [2] * sum(isinstance(parent, hb.Discrete) for parent in parents)
        numbers = len(parents) - len(shape)
        if place % 3 == 2:
            child = hb.Discrete(f"v{place}", ("a", "b"))
            slopes = rng.normal(size=[*shape, 2, numbers])
            potentials.append(
                hb.Softmax(child, parents=parents, intercept=rng.normal(size=[*shape, 2]), coefficients=slopes)
            )
        else:
            child = hb.Continuous(f"v{place}")
            slopes = rng.normal(size=[*shape, numbers])
            potentials.append(
                hb.LinearGaussian(
                    child,
                    parents=parents,
                    intercept=rng.normal(size=shape),
                    coefficients=slopes,
                    variance=np.full(shape, 0.5),
                )
            )
        variables.append(child)
    return hb.Network(potentials)


def test_own_nodes_agree_with_shared_ones(monkeypatch):
    """Ranges add up over many variables; cells of them that are far too wide must not make nodes miss the mass."""
    net = ladder(np.random.default_rng(0), 8)
    evidence = {"v7": 0.4, "v5": "a"}
    shared = net.posterior("v0", evidence)
    relevance.CACHE.clear()
    monkeypatch.setattr(elimination, "make_shared_grid", lambda *_: None)
    own = net.posterior("v0", evidence)
    assert own.mean() == pytest.approx(shared.mean(), rel=1e-9)
    assert own.log_evidence == pytest.approx(shared.log_evidence, rel=1e-9)
    relevance.CACHE.clear()


def draw_chain(rng, scale: float, most: int = 4):
    """Return a class and linear Gaussian numbers that depend on each other, the hidden ones, evidence `scale` standard
    deviations out, and in closed form the logarithm of the probability of each class and the evidence.
    """
    classes, count = int(rng.integers(2, 4)), int(rng.integers(2, most + 1))
    numbers = [hb.Continuous(f"x{place}") for place in range(count)]
    d, shares = hb.Discrete("d", tuple(range(classes))), rng.dirichlet(np.ones(classes))
    shape = classes, count, count
    slopes = np.tril(np.where(rng.random(shape) < 0.6, rng.normal(size=shape), 0), -1)
    means, sds = rng.normal(0, 2, shape[:2]), 10 ** rng.uniform(-2.5, 0.2, shape[:2])
    potentials: dict[str, hb.Potential] = {"d": hb.Multinomial(d, table=shares)}
    for place, number in enumerate(numbers):
        parents: tuple[hb.Discrete | hb.Continuous, ...] = (d, *numbers[:place])
        shown = {"intercept": means[:, place], "variance": sds[:, place] ** 2}
        potentials[number.name] = hb.LinearGaussian(number, parents, coefficients=slopes[:, place, :place], **shown)
    hidden = [place for place in range(count - 1) if rng.random() < 0.7] or [0]
    known = [place for place in range(count) if place not in hidden]
    drawn, k = np.zeros(count), int(rng.integers(classes))
    for place in range(count):
        drawn[place] = means[k, place] + slopes[k, place] @ drawn + sds[k, place] * scale * rng.normal()
    logs = []
    for k in range(classes):
        # least squares of residuals in standard deviations, with the hidden numbers as unknowns
        matrix = (np.eye(count) - slopes[k]) / sds[k][:, None]
        q, r = np.linalg.qr(matrix[:, hidden])
        rest = means[k] / sds[k] - matrix[:, known] @ drawn[known]
        rest -= q @ (q.T @ rest)
        scales = np.log(sds[k]).sum() + np.log(np.abs(np.diag(r))).sum() + len(known) * math.log(2 * math.pi) / 2
        logs.append(math.log(shares[k]) - rest @ rest / 2 - scales)
    evidence = {f"x{place}": float(drawn[place]) for place in known}
    return potentials, [numbers[place] for place in hidden], evidence, np.array(logs)


def with_a_point(density):
    """Return a potential that equals a linear Gaussian one but for a point which is all but impossible."""
    shape, slopes = density.intercept.shape, density.coefficients
    component = hb.Atoms.component_of(density.child, [1e6])
    intercept = np.broadcast_to([-600.0, 0.0], (*shape, 2))
    share = hb.Softmax(
        component, density.parents, intercept=intercept, coefficients=np.zeros((*shape, 2, slopes.shape[-1]))
    )
    return hb.Atoms(density.child, density.parents, points=[1e6], probabilities=share, density=density)


def as_mixture(density):
    """Return a mixture of two components that are alike."""
    shape = density.intercept.shape
    parameters = {name: np.stack([getattr(density, name)] * 2, axis=len(shape)) for name in ("intercept", "variance")}
    return LinearGaussianMixture(
        density.child,
        density.parents,
        probabilities=np.full((*shape, 2), 0.5),
        coefficients=np.stack([density.coefficients] * 2, axis=len(shape)),
        **parameters,
    )


@pytest.mark.parametrize("scale", [3, 10, 25])
@pytest.mark.parametrize("kind", ["softmax", "density", "atoms", "atoms below", "mixture below"])
def test_what_tells_nothing_changes_nothing_however_far_the_evidence(kind, scale):
    """A neighbor that is not linear Gaussian makes quadrature necessary, and so does another family of a number."""
    for seed in (*range(3), 38, 109, 198, 269, 320, 346):
        rng = np.random.default_rng(seed)
        # several hidden numbers below which nothing is linear Gaussian need grids in as many dimensions
        potentials, hidden, evidence, logs = draw_chain(rng, scale, 2 if kind.endswith("below") else 4)
        beside, last = hidden[int(rng.integers(len(hidden)))], list(potentials)[-1]
        if kind == "density":
            potentials["e"] = hb.Density(E, (X,), function=lambda e, x: normal(e, 0 * x, 1)).renamed({"x": beside.name})
            evidence["e"], logs = 0.0, logs + math.log(normal(0, 0, 1))
        elif kind == "atoms":
            potentials[hidden[0].name] = with_a_point(potentials[hidden[0].name])
        else:
            potentials["c"] = hb.Softmax(C, (beside,), intercept=[0, 0], coefficients=[[0.0], [1e-13]])
            evidence["c"], logs = "a", logs + math.log(0.5)
        if kind.endswith("below"):
            potentials[last] = {"atoms below": with_a_point, "mixture below": as_mixture}[kind](potentials[last])
        post = hb.Network(potentials.values()).posterior("d", evidence)
        log_evidence = np.logaddexp.reduce(logs)
        np.testing.assert_allclose(
            as_discrete(post).probabilities, np.exp(logs - log_evidence), atol=1e-9, err_msg=f"seed {seed}"
        )
        assert post.log_evidence == pytest.approx(log_evidence, rel=1e-9, abs=1e-9), seed


@pytest.mark.parametrize(
    ("center", "spread", "interval"),
    [(0.0, 1.0, (-24.85, -24.07)), pytest.param(1.8, 3.2, (-23.0, -22.0), marks=pytest.mark.slow)],
)
def test_a_narrow_collider_of_numbers_with_nodes_loses_no_cell(
    center: float, spread: float, interval: tuple[float, float]
) -> None:
    d, c, x, u, y = hb.Discrete("d", ("a", "b")), hb.Discrete("c", ("u", "v")), *map(hb.Continuous, "xuy")
    network = hb.Network(
        [
            hb.Multinomial(d, table=[0.4, 0.6]),
            hb.LinearGaussian(x, (d,), intercept=[-2.6, -0.7], variance=[2.9, 0.11]),
            hb.LinearGaussian(u, intercept=center, variance=spread),
            hb.LinearGaussian(
                y, (d, x, u), intercept=[1.2, 0.1], coefficients=[[1.4, -3.2], [0.6, -0.8]], variance=[2e-5, 0.2]
            ),
            hb.Softmax(c, (u,), intercept=[0, 0], coefficients=[[0], [0]]),
        ]
    )
    evidence = {"y": -54.0, "x": hb.Interval(*interval)}
    # what tells nothing takes the closed form away, and changes nothing
    beside = network.log_evidence({**evidence, "c": "u"})
    assert beside == pytest.approx(network.log_evidence(evidence) - np.log(2), abs=1e-9)
