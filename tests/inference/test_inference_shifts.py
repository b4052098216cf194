"""A shift of the origin and a change of scale change nothing: the answers are shifted and scaled like the numbers."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from narrowing import as_continuous, as_discrete

import hybridbn as hb

C = hb.Discrete("c", ("a", "b"))
X, Y, Z = (hb.Continuous(name) for name in "xyz")
GIVEN = {"x": 0.5, "y": 1.25, "z": 0.75}


class Move:
    """Numbers and potentials in another unit, from another origin; all numbers are sums of few powers of two."""

    def __init__(self, scale: float = 1.0, shift: float = 0.0) -> None:
        self.scale, self.shift = scale, shift * scale

    def __call__(self, numbers):
        return np.asarray(numbers) * self.scale + self.shift

    def back(self, numbers):
        return (np.asarray(numbers, dtype=float) - self.shift) / self.scale

    def normal(self, child, parents=(), *, intercept, slopes=None, variance):
        moved = self(intercept) - self.shift * (0 if slopes is None else np.sum(slopes, axis=-1))
        variance = np.array(variance) * self.scale**2
        return hb.LinearGaussian(child, parents, intercept=moved, coefficients=slopes, variance=variance)

    def classes(self, child, parent, intercept, slopes):
        slopes = np.array(slopes) / self.scale
        moved = np.array(intercept) - slopes[:, 0] * self.shift
        return hb.Softmax(child, (parent,), intercept=moved, coefficients=slopes)


def make_chain(move):
    return [
        move.normal(X, intercept=1, variance=4),
        move.normal(Y, (X,), intercept=0.5, slopes=[1.5], variance=0.25),
        move.normal(Z, (Y, X), intercept=-1, slopes=[-0.5, 0.25], variance=0.0625),
    ]


def make_sensors(move):
    """Return two precise sensors of a number of which nearly nothing is known."""
    return [
        move.normal(X, intercept=0, variance=2.0**36),
        move.normal(Y, (X,), intercept=0, slopes=[1], variance=2.0**-4),
        move.normal(Z, (X,), intercept=0, slopes=[1], variance=2.0**-4),
    ]


def make_classes(move):
    return [
        hb.Multinomial(C, table=[0.25, 0.75]),
        move.normal(X, (C,), intercept=[0, 3], variance=[1, 0.25]),
        move.normal(Y, (X, C), intercept=[0.5, -1], slopes=[[1], [0.5]], variance=[0.25, 1]),
        move.normal(Z, (Y,), intercept=1, slopes=[1], variance=0.5),
    ]


def make_points(move):
    density = move.normal(X, (C,), intercept=[5, 1], variance=[4, 1])
    table = [[0.2, 0.3, 0.5], [0.7, 0.1, 0.2]]
    return [
        hb.Multinomial(C, table=[0.4, 0.6]),
        hb.Atoms(X, (C,), points=move([0, 3]), probabilities=table, density=density, unit=move.scale),
        move.normal(Y, (X,), intercept=1, slopes=[1], variance=0.5),
        move.normal(Z, (Y,), intercept=0, slopes=[0.5], variance=0.25),
    ]


def make_logistic(move):
    return [
        move.normal(X, intercept=1, variance=4),
        move.classes(C, X, [0, 0.5], [[0], [1.5]]),
        move.normal(Y, (X, C), intercept=[0, 1], slopes=[[1.5], [1]], variance=[0.25, 1]),
        move.normal(Z, (Y,), intercept=1, slopes=[1], variance=0.5),
    ]


def make_kernels(move):
    kernel = hb.Kernel(X, points=move([[0.0], [0.5], [1.25], [4]]), bandwidths=[0.5 * move.scale])
    return [
        hb.Atoms(X, points=move([0, 3]), probabilities=[0.2, 0.3, 0.5], density=kernel, unit=move.scale),
        move.normal(Y, (X,), intercept=1, slopes=[1], variance=0.5),
        move.normal(Z, (Y,), intercept=0, slopes=[0.5], variance=0.25),
    ]


def ask_everything(make, move, known):
    """Return answers as they are in the first unit, from the first origin, by what they are; and the largest error."""
    network = hb.Network(make(move))
    evidence = {name: float(move(GIVEN[name])) for name in known}
    hidden = [name for name in "xyz" if name not in known]
    log_scale = np.log(move.scale)
    chances = {"log evidence": network.log_evidence(evidence) + len(known) * log_scale}
    shapes, places, error = {}, {}, 0.0
    if "c" in network:
        classes = as_discrete(network.posterior("c", evidence))
        chances["classes"], error = classes.probabilities, classes.error
    for name in hidden:
        posterior = as_continuous(network.posterior(name, evidence))
        points = network.potential(name).point_cells.points
        masses = np.asarray(posterior.pdf(points)) if len(points) else np.zeros(1)
        chances[f"masses of {name}"] = masses
        shapes[f"entropy of {name}"] = posterior.entropy() - (1 - masses.sum()) * log_scale
        shapes[f"spread of {name}"] = posterior.std() / move.scale
        shapes[f"distribution of {name}"] = posterior.cdf(move([-0.5, 0.25, 1.0]))
        shapes[f"density of {name}"] = posterior.pdf(move([-0.5, 0.25, 1.0])) * move.scale
        places[f"mean of {name}"] = move.back(posterior.mean())
        places[f"quantiles of {name}"] = move.back(posterior.quantile([0.1, 0.5, 0.9]))
        error = max(error, posterior.error)
    joint = network.posterior(hidden[:2], evidence)
    places["draws of two"] = move.back(joint.sample(4, random_state=0)[hidden[:2]])
    if make not in (make_points, make_kernels):
        # a density is higher than a mass in one unit, and lower in another
        best = network.most_probable(evidence)
        places["most probable"] = move.back([best[name] for name in hidden])
    drawn = network.sample(4, random_state=0, evidence=evidence)
    places["draws"] = move.back(drawn[hidden])
    table = hb.Table({name: move([value, value + 0.5, np.nan]) for name, value in GIVEN.items()})
    chances["log density"] = network.log_density(table) + np.array([3, 3, 0]) * log_scale
    return chances, shapes, places, max(error, joint.error)


CLOSED = [make_chain, make_sensors, make_classes, make_points]
MOVES = [(1.0, 2.0**30), (2.0**-20, -(2.0**24)), (2.0**40, 0.0)]


CASES = [
    *((make, known, MOVES) for make in CLOSED for known in ("", "z", "yz")),
    (make_logistic, "yz", [(2.0**-20, 2.0**12)]),
    *((make_kernels, known, [(2.0**12, -(2.0**6))]) for known in ("", "yz")),
    (make_kernels, "yz", [(1.0, 2.0**12)]),
]


@pytest.mark.parametrize(
    ("make", "known", "moves"), CASES, ids=[f"{make.__name__}-{known}" for make, known, _ in CASES]
)
def test_a_shift_and_a_scale_change_nothing(make, known, moves):
    chances, shapes, places, error = ask_everything(make, Move(), known)
    for scale, shift in moves:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            moved = ask_everything(make, Move(scale, shift), known)
        # numbers far from zero have lost digits when they are given and returned, but not more than that
        lost = 4 * np.spacing(abs(shift))
        close = 1e-11 + (0 if make in CLOSED else error + moved[3])
        for name, answer in chances.items():
            np.testing.assert_allclose(moved[0][name], answer, rtol=1e-11, atol=close, err_msg=name)
        for name, answer in shapes.items():
            # what is lost counts in standard deviations
            near = close + lost / min(float(shapes[f"spread of {name[-1]}"]), 1.0)
            np.testing.assert_allclose(moved[1][name], answer, rtol=near, atol=near, err_msg=name)
        for name, answer in places.items():
            near = 1e-7 if name == "most probable" and make not in CLOSED else 1e-9
            np.testing.assert_allclose(moved[2][name], answer, rtol=near, atol=near + lost, err_msg=name)
        assert moved[3] < 1e-9 + 16 * lost
