"""A user's own family is one class with one method: everything else works without touching anything."""

import numpy as np
import pytest
from contract import CHECKS, Example

from hybridbn.errors import NetworkError
from hybridbn.potentials.base import Potential, spread
from hybridbn.variables import Continuous, Discrete

X, Y = Continuous("x"), Continuous("y")
COUNT, RATE = Discrete("count", (0, 1, 2, "more")), Continuous("rate", (0, np.inf))


class Laplace(Potential):
    """The child is Laplace distributed around its only parent. Only `on` is given, and what saving needs."""

    family = "test laplace"

    def __init__(self, child, parents, width):
        self.child, self.parents, self.width = child, tuple(parents), float(width)

    def on(self, axes):
        x, y = spread(axes, self.scope)
        return np.exp(-np.abs(y - x) / self.width) / (2 * self.width), 0.0

    def to_dict(self):
        return {"width": self.width}

    @classmethod
    def from_dict(cls, child, parents, state):
        return cls(child, parents, **state)


class Triangle(Potential):
    """A triangle around twice the parent; it also declares where it lies, with two more methods."""

    family = "test triangle"

    def __init__(self, child, parents):
        self.child, self.parents = child, tuple(parents)

    def log_on(self, axes):
        x, y = spread(axes, self.scope)
        with np.errstate(divide="ignore"):
            return np.log(np.clip(1 - np.abs(y - 2 * x), 0, None))

    def breaks(self, name, within=None):
        known = (within or {}).get("x" if name == "y" else "y")
        if known is None or np.any(known[0] != known[1]):
            return np.empty(0)
        return np.stack([np.asarray(known[0]) * (2 if name == "y" else 0.5) + shift for shift in (-1, 0, 1)])

    def support(self, name, tail=1e-12, within=None):
        known = (within or {}).get("x")
        return (
            super().support(name, tail, within)
            if name == "x" or known is None
            else (2 * known[0] - 1, 2 * known[1] + 1)
        )

    def to_dict(self):
        return {}

    @classmethod
    def from_dict(cls, child, parents, state):
        return cls(child, parents)


class Poisson(Potential):
    """A count, the last state being all higher ones, whose rate is a continuous parent."""

    family = "test poisson"

    def __init__(self, child, parents):
        self.child, self.parents = child, tuple(parents)

    def log_on(self, axes):
        rate, count = spread(axes, self.scope)
        rate = np.minimum(rate, 1e6)
        few = np.stack([np.exp(-rate), rate * np.exp(-rate), rate**2 / 2 * np.exp(-rate)])
        table = np.concatenate((few, 1 - few.sum(axis=0, keepdims=True)))
        table = np.broadcast_to(table, (4, *np.broadcast_shapes(rate.shape, count.shape)))
        with np.errstate(divide="ignore"):
            return np.log(np.take_along_axis(table, np.broadcast_to(count, table.shape[1:])[None], axis=0)[0])

    def to_dict(self):
        return {}

    @classmethod
    def from_dict(cls, child, parents, state):
        return cls(child, parents)


def _around(row):
    return [row["x"] + step for step in (-60, -30, -10, -3, -1, 0, 1, 3, 10, 30, 60)]


def _tent(row):
    return [2 * row["x"] + step for step in (-1, 0, 1)]


EXAMPLES = [
    Example("laplace", Laplace(Y, (X,), 1.5), {"x": [0.0, 2.5, -1000.0]}, landmarks=_around),
    Example("triangle", Triangle(Y, (X,)), {"x": [0.0, 2.5, 1000.0]}, landmarks=_tent),
    Example("poisson", Poisson(COUNT, (RATE,)), {"rate": [0.1, 2.0]}),
]


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__.removeprefix("check_"))
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)
def test_seventh_family_keeps_every_promise(example, check):
    check(example)


def test_a_family_without_values_is_refused_when_it_is_defined():
    with pytest.raises(TypeError, match="must implement on"):

        class Empty(Potential):
            pass


def test_an_improper_density_is_not_sampled():
    class Half(Laplace):
        family = ""

        def on(self, axes):
            values, scale = super().on(axes)
            return 0.5 * values, scale

    with pytest.raises(NetworkError, match=r"'y': the mass of its Half at x=1\.0 was found to be 0\.5, not 1"):
        Half(Y, (X,), 1.0).ppf(np.array([0.5]), {"x": np.array([1.0])})


def test_negative_values_are_named():
    class Wrong(Laplace):
        family = ""

        def on(self, axes):
            values, scale = super().on(axes)
            return values - 0.01, scale

        def support(self, name, tail=1e-12, within=None):
            return (-5.0, 5.0)

        def log_on(self, axes):
            return np.log(np.abs(self.on(axes)[0]))

    with pytest.raises(NetworkError, match=r"'y': its Wrong is -0\.0.* can't be negative"):
        Wrong(Y, (X,), 0.5).ppf(np.array([0.5]), {"x": np.array([1.0])})
