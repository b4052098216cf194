"""Kinds of evidence: every one answers all that inference asks of it, and a new one is one class."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pytest
from narrowing import as_discrete, known
from numpy.typing import NDArray
from scipy import stats

import hybridbn as hb
from hybridbn.inference.evidence import (
    CellEvidence,
    EvidenceReader,
    Finding,
    Interval,
    LikelihoodFunction,
    StateWeights,
    as_evidence,
)
from hybridbn.variables import Variable

C = hb.Discrete("c", states=("a", "b", "d"))
X, Y = hb.Continuous("x"), hb.Continuous("y")


@dataclass(frozen=True)
class Reading(CellEvidence):
    """A number that was read with a normal error: a kind of evidence that the library does not know."""

    value: float
    error: float

    def weights(self, variable: Variable, points: NDArray[Any]) -> NDArray[np.float64]:
        return np.exp(-0.5 * ((points - self.value) / self.error) ** 2)

    def key(self) -> Hashable:
        return self.value, self.error


@dataclass(frozen=True)
class Intervals(CellEvidence):
    """One of several intervals, each with a weight."""

    parts: tuple[tuple[float, float, float], ...]

    def weights(self, variable: Variable, points: NDArray[Any]) -> NDArray[np.float64]:
        inside = [weight * ((points >= low) & (points < high)) for low, high, weight in self.parts]
        return np.sum(inside, axis=0)

    def reach(self) -> tuple[float, float]:
        return min(low for low, _, _ in self.parts), max(high for _, high, _ in self.parts)

    def breaks(self) -> Sequence[float]:
        return [end for low, high, _ in self.parts for end in (low, high)]

    def key(self) -> Hashable:
        return self.parts


@dataclass(frozen=True)
class NotThis(CellEvidence):
    """Any state but one."""

    state: str

    def weights(self, variable: Variable, points: NDArray[Any]) -> NDArray[np.float64]:
        return np.asarray(1.0 * (points != as_discrete(variable).code(self.state)))


KINDS: dict[str, tuple[Variable, Any]] = {
    "interval": (X, hb.Interval(0, 1)),
    "half line": (X, hb.Interval(0)),
    "function": (X, lambda x: np.exp(-(x**2))),
    "reading": (X, Reading(1.0, 0.5)),
    "intervals": (X, Intervals(((-1.0, 0.0, 1.0), (1.0, 2.0, 3.0)))),
    "set of states": (C, {"a", "b"}),
    "weights of states": (C, {"a": 0.5, "d": 2.0}),
    "not this": (C, NotThis("b")),
}


def network() -> hb.Network:
    return hb.Network(
        [
            hb.Multinomial(C, table=[0.2, 0.3, 0.5]),
            hb.LinearGaussian(X, (C,), intercept=[-1, 0, 1], variance=[1, 1, 1]),
            hb.LinearGaussian(Y, (X,), intercept=0, coefficients=[1], variance=1),
        ]
    )


def exact(name: str, cell: Any, density: Any) -> float:
    """Return the probability of evidence on one variable by brute force."""
    if name == "c":
        weights = known(as_evidence(cell)).weights(C, np.arange(3))
        return float(weights @ [0.2, 0.3, 0.5])
    x = np.linspace(-8, 8, 1_600_001)
    values = known(as_evidence(cell)).weights(X, x) * density(x)
    return float(np.sum((values[1:] + values[:-1]) / 2) * (x[1] - x[0]))


def prior_of_x(x: NDArray[np.float64]) -> NDArray[np.float64]:
    return sum(p * stats.norm.pdf(x, m) for p, m in ((0.2, -1), (0.3, 0), (0.5, 1)))


# -- the contract -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("variable", "cell"), KINDS.values(), ids=KINDS)
def test_contract(variable: Variable, cell: Any) -> None:
    evidence = as_evidence(cell)
    assert evidence is not None
    evidence.check(variable)
    points = np.arange(len(variable)) if isinstance(variable, hb.Discrete) else np.linspace(-3, 3, 61)
    weights = evidence.weights(variable, points)
    assert weights.shape == points.shape
    assert (np.isfinite(weights) & (weights >= 0)).all()
    low, high = evidence.reach()
    assert low < high
    assert not weights[(points < low) | (points > high)].any()
    assert all(low <= place <= high for place in evidence.breaks())
    assert evidence.key() == evidence.key()
    assert hash(evidence.key()) is not None
    if evidence.only_reach:
        assert set(weights[(points > low) & (points < high)]) == {1.0}


@pytest.mark.parametrize(("variable", "cell"), KINDS.values(), ids=KINDS)
def test_a_finding_answers_for_rows_of_all_sorts(variable: Variable, cell: Any) -> None:
    value = "a" if variable is C else 0.5
    column = np.array([cell, value, None, cell, value], dtype=object)
    finding = EvidenceReader(network(), pd.DataFrame({variable.name: column})).finding(variable.name)
    assert isinstance(finding, Finding)
    assert not finding.hard
    assert not finding.plain
    assert finding.observed.tolist() == [False, True, False, False, True]
    points = np.arange(3) if variable is C else np.array([0.5, 1.5])
    weights = finding.weights(points)
    assert weights.shape == (len(points), 5)
    assert (weights[:, 2] == 1).all()
    assert (weights[:, 0] == weights[:, 3]).all()
    keys = np.array(finding.columns(), dtype=np.float64)
    same = [np.array_equal(keys[:, 0], keys[:, row], equal_nan=True) for row in range(5)]
    assert same == [True, False, False, True, False]
    again = finding.take(np.array([3, 2]))
    assert (again.weights(points) == weights[:, [3, 2]]).all()
    reach = finding.reach
    if reach is not None:
        assert np.isinf([*reach[0][[1, 2, 4]], *reach[1][[1, 2, 4]]]).all()
        clipped = finding.clip(np.full((1, 5), 100.0))
        assert clipped[0, 1] == 0.5
        assert clipped[0, 0] == min(reach[1][0], 100.0)


def test_readers_tell_kinds_apart() -> None:
    kinds = {Interval, StateWeights, LikelihoodFunction, Reading, Intervals, NotThis}
    assert {type(as_evidence(cell)) for _, cell in KINDS.values()} == kinds
    assert as_evidence(1.0) is None
    assert as_evidence("a") is None


# -- questions ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("variable, cell", KINDS.values(), ids=KINDS)  # noqa: PT006
def test_probability_of_the_evidence(variable: Variable, cell: Any) -> None:
    expected = math.log(exact(variable.name, cell, prior_of_x))
    tolerance = 2e-5 if known(as_evidence(cell)).breaks() else 1e-6  # of the brute force at the ends
    assert network().log_evidence({variable.name: cell}) == pytest.approx(expected, abs=tolerance)


def test_a_new_kind_answers_like_an_equal_network() -> None:
    """A normal reading of x is an observed child of x."""
    net, child = network(), hb.Continuous("z")
    longer = hb.Network([*net.potentials, hb.LinearGaussian(child, (X,), intercept=0, coefficients=[1], variance=0.25)])
    for target in ("c", "y"):
        found, expected = net.posterior(target, {"x": Reading(1.0, 0.5)}), longer.posterior(target, {"z": 1.0})
        probe = "a" if target == "c" else 1.3
        ask = "probability" if target == "c" else "cdf"
        assert getattr(found, ask)(probe) == pytest.approx(getattr(expected, ask)(probe), abs=1e-9)
    scale = math.log(0.5 * math.sqrt(2 * math.pi))
    case, same = {"y": 2.0, "x": Reading(1.0, 0.5)}, {"y": 2.0, "z": 1.0}
    assert net.log_evidence(case) == pytest.approx(longer.log_evidence(same) + scale, abs=1e-9)


def test_a_new_kind_in_a_table_among_values_and_holes() -> None:
    net = network()
    cells = np.array([Reading(1.0, 0.5), 0.3, None, hb.Interval(0, 1), Intervals(((0.0, 1.0, 2.0),))], dtype=object)
    table = pd.DataFrame({"x": cells, "y": [0.5, np.nan, 1.0, 0.2, 0.2]})
    whole = as_discrete(net.posterior("c", table)).probabilities
    logs = net.log_evidence(table)
    for row, cell in enumerate(cells):
        case = {name: value for name, value in (("x", cell), ("y", table["y"][row])) if value is not None}
        np.testing.assert_allclose(as_discrete(net.posterior("c", case)).probabilities, whole[row], atol=1e-9)
        assert net.log_evidence(case) == pytest.approx(logs[row], abs=1e-8)
    np.testing.assert_allclose(whole[3], whole[4], atol=1e-8)
    states = pd.DataFrame({"c": np.array([NotThis("b"), "b", {"a"}], dtype=object)})
    found = net.posterior("x", states).mean()
    np.testing.assert_allclose(found, [(-0.2 + 0.5) / 0.7, 0.0, -1.0], atol=1e-9)


def test_draws_and_modes_given_a_new_kind() -> None:
    net = network()
    gap = Intervals(((-2.0, -1.0, 1.0), (1.0, 1.5, 1.0)))
    drawn = net.sample(300, random_state=0, evidence={"x": gap})["x"].to_numpy()
    assert (((drawn >= -2) & (drawn <= -1)) | ((drawn >= 1) & (drawn <= 1.5))).all()
    assert 0 < (drawn < 0).mean() < 1
    drawn = net.sample(4000, random_state=0, evidence={"x": Reading(2.0, 0.1)})["x"]
    assert drawn.mean() == pytest.approx(2.0, abs=0.02)
    assert set(net.sample(50, random_state=0, evidence={"c": NotThis("b")})["c"]) == {"a", "d"}
    best = net.most_probable({"x": Reading(2.0, 0.1), "y": 2.0})
    assert best["c"] == "d"
    assert best["x"] == pytest.approx(2.0 - 0.01 / 1.02, abs=1e-3)
    assert net.most_probable({"c": NotThis("d"), "x": 1.0, "y": 1.0})["c"] == "b"


def test_a_new_kind_says_what_it_is_not_fit_for() -> None:
    @dataclass(frozen=True)
    class Positive(CellEvidence):
        def check(self, variable: Variable) -> None:
            if variable.name != "x":
                raise hb.TableError(f"{variable.name!r} has no sign")

        def weights(self, variable: Variable, points: NDArray[Any]) -> NDArray[np.float64]:
            return np.where(points > 0, np.nan, 0.0)

    with pytest.raises(hb.TableError, match=r"^'y' has no sign"):
        network().posterior("c", {"y": Positive()})
    with pytest.raises(hb.TableError, match=r"^row 1: 'y' has no sign"):
        network().posterior("c", pd.DataFrame({"y": np.array([1.0, Positive()], dtype=object)}))
    with pytest.raises(hb.TableError, match="must give finite, non-negative numbers"):
        network().posterior("c", {"x": Positive()})
