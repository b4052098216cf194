"""Values of grids have the probability of all that is told as them, and intervals hold their ends wholly."""

from __future__ import annotations

import datetime
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pytest
from narrowing import as_continuous

import hybridbn as hb
from hybridbn.variables import Grid

RNG = np.random.default_rng(31)
ROWS = 150
STEPS = np.clip(np.rint(RNG.normal(30, 9, ROWS)), 0, 59).astype(int)
START = pd.Timestamp("2023-03-05")


class Kind(NamedTuple):
    """A kind of column: how it holds k of its steps, and other ways to write a value."""

    make: Callable[[int], Any]
    spell: tuple[Callable[[Any], Any], ...] = ()


def as_day(value: Any) -> pd.Timestamp:
    return pd.Timestamp(value)


DAY_FORMS = (as_day, lambda v: as_day(v).to_datetime64(), lambda v: as_day(v).date(), lambda v: f"{as_day(v):%Y-%m-%d}")
KINDS = {
    "whole numbers": Kind(lambda k: k, (float, np.int64)),
    "codes": Kind(lambda k: k // 12, (float,)),
    "codes with a hole": Kind(lambda k: [1, 2, 4, 5][k // 15], (float,)),
    "multiples of 5": Kind(lambda k: 5 * k + 80),
    "cents": Kind(lambda k: k / 100),
    "dollars": Kind(lambda k: f"${k}.00", (lambda v: float(v[1:]),)),
    "dates": Kind(lambda k: (START + pd.Timedelta(days=k)).date(), DAY_FORMS),
    "timestamps": Kind(lambda k: START + pd.Timedelta(days=k), DAY_FORMS),
    "texts of dates": Kind(lambda k: f"{START + pd.Timedelta(days=k):%d.%m.%Y}"),
    "days of a zone": Kind(lambda k: (START + pd.Timedelta(days=k)).tz_localize("Asia/Tokyo")),
    "hours": Kind(lambda k: START + pd.Timedelta(hours=k), (lambda v: f"{v:%Y-%m-%d %H:%M}",)),
    "times of day": Kind(lambda k: datetime.time(7, k)),
    "durations": Kind(lambda k: datetime.timedelta(minutes=k)),
}


@pytest.fixture(scope="module")
def known() -> dict[str, tuple[pd.DataFrame, hb.Network]]:
    result = {}
    for name, kind in KINDS.items():
        frame = pd.DataFrame({"x": STEPS + RNG.normal(0, 6, ROWS), "v": [kind.make(int(k)) for k in STEPS]})
        result[name] = frame, hb.fit([("x", "v")], frame)
    return result


@pytest.mark.parametrize("form", ["single", "table", "scan"])
@pytest.mark.parametrize("name", KINDS)
def test_probabilities_are_those_of_intervals(name: str, form: str, known: Any) -> None:
    frame, network = known[name]
    own = [KINDS[name].make(k) for k in (15, 30, 44)]
    variable = as_continuous(network.variable("v"))
    evidence = {"single": {"x": frame["x"][0]}, "table": frame[["x"]], "scan": hb.scan(frame[["x"]])}[form]
    posterior = network.posterior("v", evidence)
    low, _, high = variable.values(own).tolist()
    step = {"codes with a hole": 1.0}.get(name, variable.rounding.step)
    between = variable.round(np.arange(low, high + step / 2, step)).tolist()
    masses = np.array([posterior.probability(value) for value in between])
    assert masses.max() > 0.01
    whole = np.asarray(posterior.probability(hb.Interval(low, high)))
    np.testing.assert_allclose(masses.sum(axis=0), whole, atol=1e-7)
    # what lies between two neighbors belongs to none of them
    rest = posterior.probability(hb.Interval(high=low - step / 2)), posterior.probability(hb.Interval(high + step / 2))
    np.testing.assert_allclose(rest[0] + rest[1] + whole, 1, atol=1e-7)
    for spell in KINDS[name].spell:
        assert np.array_equal(posterior.probability(spell(own[1])), posterior.probability(own[1]))
    if form == "single":
        assert posterior[own[1]] == posterior.probability(own[1]) > 0


@pytest.mark.parametrize("name", KINDS)
def test_intervals_as_evidence_hold_their_ends(name: str, known: Any) -> None:
    _, network = known[name]
    variable, prior = as_continuous(network.variable("v")), network.posterior("v")
    low, high = variable.values([KINDS[name].make(20), KINDS[name].make(40)]).tolist()
    interval = hb.Interval(low, high)
    share = prior.probability(interval)
    assert network.log_evidence({"v": interval}) == pytest.approx(math.log(share), abs=1e-6)
    given = network.posterior("v", {"v": interval})
    for value in (low, high):
        assert given.probability(value) * share == pytest.approx(prior.probability(value), abs=1e-6)
    numbers = variable.values(network.sample(400, random_state=1, evidence={"v": interval})["v"].to_numpy())
    assert (numbers.min(), numbers.max()) == pytest.approx((low, high), abs=2 * variable.rounding.step)
    assert ((numbers >= low - 1e-9) & (numbers <= high + 1e-9)).all()
    best = variable.value(network.most_probable({"v": interval, "x": 100.0})["v"])
    assert low - 1e-9 <= best <= high + 1e-9


def test_ends_of_grids_and_what_lies_between_their_numbers() -> None:
    x = hb.Continuous("x", grid=Grid(1.0, low=-0.5))
    net = hb.Network([hb.LinearGaussian(x, intercept=1, variance=1)])
    posterior, plain = net.posterior("x"), hb.Network([hb.LinearGaussian(hb.Continuous("x"), intercept=1, variance=1)])
    # what is below the least number is told as this one
    assert posterior.probability(hb.Interval(0, 1)) == pytest.approx(
        posterior.probability(0) + posterior.probability(1)
    )
    assert posterior.probability(hb.Interval(0)) == pytest.approx(1.0)
    # an interval that holds no number of the grid is taken as it is
    between = hb.Interval(0.2, 0.8)
    assert posterior.probability(between) == pytest.approx(plain.posterior("x").probability(between))
    assert net.log_evidence({"x": between}) == pytest.approx(plain.log_evidence({"x": between}))
    rain = hb.Continuous("rain")
    wet = hb.LinearGaussian(rain, intercept=5, variance=4)
    found = hb.Network([hb.Atoms(rain, points=[0], probabilities=[0.25, 0.75], density=wet)]).posterior("rain")
    reached = found.probability(hb.Interval(-1, 0)) + found.probability(hb.Interval(0, 9))
    assert reached == pytest.approx(found.cdf(9) - found.cdf(-1) + 0.25)
