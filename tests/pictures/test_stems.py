"""Pictures of numbers with points, or on a grid: stems and curves add up to one, and ticks are numbers there are."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np
import pytest
from narrowing import as_continuous

import hybridbn as hb
from hybridbn.commands.printing import Style, draw_posterior
from hybridbn.explorer.responder import describe_belief
from hybridbn.inference.posteriors import ContinuousPosterior
from hybridbn.pictures.chart import Line
from hybridbn.pictures.html import show_posterior
from hybridbn.pictures.posteriors import chart_posterior
from hybridbn.units import Unit
from hybridbn.variables import Grid

C = hb.Discrete("c", ("a", "b"))
TABLES = {2: [[0.7, 0.3], [0.2, 0.8]], 3: [[0.2, 0.5, 0.3], [0.1, 0.1, 0.8]]}


def ask(potential: Callable[[hb.Continuous], hb.Potential], **more: object) -> hb.Network:
    return hb.Network([hb.Multinomial(C, table=[0.5, 0.5]), potential(hb.Continuous("x", **more))])  # type: ignore[arg-type]


def normal(mean: float, deviation: float) -> Callable[[hb.Continuous], hb.Potential]:
    return lambda x: hb.LinearGaussian(
        x, (C,), intercept=[mean, mean + deviation], coefficients=[[], []], variance=[deviation**2] * 2
    )


def atoms(points: list[float], rest: float, mean: float, deviation: float) -> Callable[[hb.Continuous], hb.Potential]:
    """Return points, the last of them the heaviest, beside a density."""
    table = [[p * (1 - rest) for p in row] + [rest] for row in TABLES.get(len(points), [[1.0], [1.0]])]
    return lambda x: hb.Atoms(x, (C,), points=points, probabilities=table, density=normal(mean, deviation)(x))


YEARS = [2007.0, 2008.0, 2009.0]
KINDS = {
    "two codes": lambda: ask(atoms([0.0, 1.0], 1e-6, 0.5, 1.0), grid=Grid(1.0, 0.0, 1.0)),
    "two codes that no grid tells": lambda: ask(atoms([0.0, 1.0], 1e-6, 0.5, 1.0)),
    "years": lambda: ask(atoms(YEARS, 1e-5, 2008.0, 2.0), grid=Grid(1.0, 2007.0, 2009.0)),
    "years that no grid tells": lambda: ask(atoms(YEARS, 1e-5, 2008.0, 2.0)),
    "half points": lambda: ask(normal(3.0, 0.8), grid=Grid(0.5, 1.0, 5.0)),
    "amounts with zeros": lambda: ask(atoms([0.0], 0.6, 50.0, 12.0), grid=Grid(0.01, 0.0)),
    "points at both ends": lambda: ask(atoms([0.0, 100.0], 0.5, 50.0, 12.0)),
    "points in the middle": lambda: ask(atoms([40.0, 50.0, 60.0], 0.8, 50.0, 12.0)),
    "few counts": lambda: ask(normal(4.0, 4.0), grid=Grid(1.0, 0.0)),
    "many counts": lambda: ask(normal(1200.0, 400.0), grid=Grid(1.0, 0.0)),
    "a density cut off by its grid": lambda: ask(normal(1.0, 1.0), grid=Grid(0.001, 0.0, 2.5)),
    "a density": lambda: ask(normal(3.0, 2.0)),
    "dates": lambda: ask(normal(19000.0, 40.0), unit=Unit("date")),
    "dates with a point": lambda: ask(atoms([19000.0], 0.5, 19200.0, 40.0), unit=Unit("date")),
}
GIVEN = {"nothing": {}, "a state": {"c": "b"}, "an interval": {"x": hb.Interval(0.5)}}
WHOLE = [name for name in KINDS if "codes" in name or "years" in name or "counts" in name]


@cache
def posterior_of(kind: str, given: str = "nothing") -> ContinuousPosterior:
    return as_continuous(KINDS[kind]().posterior("x", GIVEN[given]))


@pytest.mark.parametrize("given", GIVEN)
@pytest.mark.parametrize("kind", KINDS)
def test_stems_and_curve_are_all_of_the_posterior(kind: str, given: str) -> None:
    posterior = posterior_of(kind, given)
    trace = posterior.trace(300)
    steps = np.diff(trace.x)
    area = float(np.sum(steps * (trace.density[1:] + trace.density[:-1]) / 2)) if len(trace.x) else 0.0
    assert np.isfinite(trace.density).all()
    assert area + trace.probabilities.sum() == pytest.approx(1.0, abs=0.012)
    # every point is a stem of its probability, the largest one included, and no part of the curve
    for point in posterior.point_cells.points.tolist():
        mass = float(posterior.pdf(point))
        if mass > 0.01:
            (place,) = np.flatnonzero(trace.values == point)
            assert trace.probabilities[place] == pytest.approx(mass, abs=0.004)
    assert not set(trace.x.tolist()) & set(posterior.point_cells.points.tolist())
    # curves of a single mode have no spikes
    if len(trace.x):
        assert trace.density.max() * (trace.x[-1] - trace.x[0]) < 12


@pytest.mark.parametrize("kind", KINDS)
def test_every_picture_is_made_of_the_same_stems(kind: str) -> None:
    posterior, prior = posterior_of(kind, "a state"), posterior_of(kind)
    trace = posterior.trace(90)
    belief = describe_belief(posterior)
    assert belief is not None
    assert np.array(belief.get("stems", [])).reshape(-1, 2) == pytest.approx(
        np.column_stack([trace.values, trace.probabilities])
    )
    assert ("x" in belief) == (len(trace.x) > 0)
    chart = chart_posterior(posterior, prior)
    heights = [float(np.nanmax(mark.y)) for mark in chart.marks if isinstance(mark, Line)]
    if len(trace.values):
        assert any(height == pytest.approx(float(trace.probabilities.max())) for height in heights)
    stems, curves = (any(len(each[part]) for each in (trace, prior.trace())) for part in (0, 2))
    label = chart.y.label
    assert (stems, curves) == ("probability" in label, "curve" in label or "density" in label)
    assert "<svg" in show_posterior(posterior)
    told = draw_posterior("x", posterior, 0.9, Style())
    if 0 < len(trace.values) <= 12:
        assert f"{trace.probabilities.max():.1%}" in told


@pytest.mark.parametrize("kind", ["two codes", "amounts with zeros", "a steep curve"])
def test_no_probability_that_is_drawn_is_above_one(kind: str) -> None:
    steep = ask(atoms([100.0], 0.9, 5.0, 0.5))
    chart = chart_posterior(as_continuous(steep.posterior("x")) if kind == "a steep curve" else posterior_of(kind))
    assert "probability" in chart.y.label
    assert max(float(np.nanmax(mark.y)) for mark in chart.marks if isinstance(mark, Line)) <= 1


@pytest.mark.parametrize("kind", WHOLE)
def test_ticks_of_whole_numbers_are_whole_and_without_separators(kind: str) -> None:
    chart = chart_posterior(posterior_of(kind, "a state"), posterior_of(kind))
    low, high, _, _ = chart.limits()
    for most in range(2, 12):
        for at, text in chart.x.choose_ticks(low, high, most):
            assert float(text) == at == round(at)
            assert text.lstrip("-").isdigit()
    if kind == "years":
        svg = KINDS[kind]()._repr_html_()
        assert ">2009<" in svg
        assert "2,0" not in svg + chart.description + show_posterior(posterior_of(kind))


def test_a_certain_number_is_one_stem() -> None:
    posterior = as_continuous(KINDS["years"]().posterior("x", {"x": hb.Interval(2008.9, 2009.1)}))
    trace = posterior.trace()
    assert (trace.values.tolist(), len(trace.x)) == ([2009.0], 0)
    assert trace.probabilities.sum() == pytest.approx(1.0, abs=1e-3)
    assert chart_posterior(posterior).description == "Posterior of x: certainly 2009."


def test_a_curve_beside_stems_of_a_grid_shows_the_probabilities_of_its_numbers() -> None:
    net = ask(normal(150.0, 25.0), grid=Grid(1.0, 0.0))
    prior, posterior = net.posterior("x"), net.posterior("x", {"x": hb.Interval(100, 120)})
    marks = chart_posterior(posterior, prior).marks
    highest = {mark.color: np.nanmax(mark.y) for mark in marks if isinstance(mark, Line)}
    assert highest["dim"] == pytest.approx(prior.probability(prior.mode()), rel=0.01)
    assert highest[0] == pytest.approx(max(posterior.probability(value) for value in range(100, 121)))
