"""What seldom occurs: nothing at all, a single value, too much of something, and requests that make no sense."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import hybridbn as hb
from hybridbn.estimation.available_cases import fit_marginals
from hybridbn.fitting import AtomsFitter, Dirichlet, GaussianFitter, MultinomialFitter, ridge
from hybridbn.fitting.counting import Occurring
from hybridbn.fitting.cross_validation import is_clearly_less, score_held_out
from hybridbn.formatting import choose_ticks
from hybridbn.inference.elimination.compilers import compile_program
from hybridbn.learning.imputation.rules import Rules
from hybridbn.network_description import _describe_both
from hybridbn.pictures.layout import lay_out
from hybridbn.potentials.cell_quadrature import _unit_cube_points

X, C = hb.Continuous("x"), hb.Discrete("c", ("a", "b"))
NET = hb.Network([
    hb.Multinomial(C, table=[0.25, 0.75]),
    hb.LinearGaussian(X, (C,), intercept=[0.0, 2.0], coefficients=np.zeros((2, 0)), variance=[1.0, 1.0]),
])  # fmt: skip


def test_nothing_at_all() -> None:
    density = hb.Density(X, function=lambda x: np.exp(-(x**2) / 2) / np.sqrt(2 * np.pi))
    assert density.on({"x": np.empty(0)})[0].shape == (0,)
    assert density.free_parameters() == 0
    assert not is_clearly_less(np.zeros(3), np.full(3, np.inf), np.ones(3))
    assert not is_clearly_less(np.zeros(3), np.ones(3), np.zeros(3))
    assert compile_program([], [()], {}).run({}) == []
    layout = lay_out(nx.DiGraph())
    assert (layout.centers, layout.routes, layout.width, layout.height) == ({}, {}, 0.0, 0.0)
    assert choose_ticks(np.nan, 1.0) == []
    assert choose_ticks(2.0, 2.0) == [(2.0, "2")]


def test_points_of_a_density_may_be_none() -> None:
    table = hb.Table({"x": [1.0, 2.0, 4.0]})
    bare, plain = AtomsFitter((), "gaussian").fit(table, X), GaussianFitter().fit(table, X)
    assert bare.to_dict().keys() == plain.to_dict().keys()
    assert bare(x=1.5) == plain(x=1.5)


def test_counts_of_parts_add_up() -> None:
    both = Occurring.of(np.array([3, 1]), np.array([1.0, 2.0])) + Occurring.of(np.array([1, 7]), np.array([0.5, 4.0]))
    assert both.keys.tolist() == [1, 3, 7]
    assert both.weights.tolist() == [2.5, 1.0, 4.0]


def test_pseudo_counts_may_be_lists() -> None:
    given: list[Any] = [[1.0, 3.0], np.array([1.0, 3.0]), (1.0, 3.0)]
    fitters = [MultinomialFitter(estimate=Dirichlet(counts)) for counts in given]
    table = hb.Table({"c": ["a", "b", "b"]})
    first, *others = (fitter.fit(table, C).to_dict()["table"] for fitter in fitters)
    for other in others:
        np.testing.assert_array_equal(first, other)


def test_held_out_rows_that_can_not_be_scored_are_impossible() -> None:
    parts = [hb.Table({"x": column}) for column in ([None, None], [1.0, 2.0])]
    assert score_held_out(GaussianFitter(), [(parts[0], parts[1])], X, ()) == (-np.inf, 1.0)


def test_families_of_absent_columns_are_left_out() -> None:
    assert set(fit_marginals(hb.Table({"x": [1.0, 2.0]}), potentials={"x": "gaussian", "y": "kernel"})) == {"x"}


def test_bounds_of_the_user_come_before_steps_and_codes() -> None:
    rules = Rules(steps={"x": 50.0, "y": 1.0}, codes={"z": np.array([1.0, 2.0, 3.0])})
    bounded = rules.within({"x": (10.0, 40.0), "y": (0.5, 1.5), "z": (2.0, 9.0)})
    assert bounded.steps == {"y": 1.0}
    assert bounded.codes["z"].tolist() == [2.0, 3.0]
    assert not rules.within({"z": (5.0, 9.0)}).codes


def test_differences_are_told_where_descriptions_are_alike() -> None:
    many = [
        hb.Discrete("x", states=tuple(f"s{n}" for n in range(41)), cuts=(*map(float, range(39)), last))
        for last in (50.0, 60.0)
    ]
    told = _describe_both(*many)
    assert "50.0" in told
    assert "60.0" in told


@pytest.mark.parametrize("parents", [1, 3, 5, 8])
def test_places_of_many_parents_are_corners_and_middles(parents: int) -> None:
    points = _unit_cube_points(parents)
    assert points.shape[1] == parents
    assert len(points) <= 81
    assert len(np.unique(points, axis=0)) == len(points)
    assert set(np.unique(points)) >= {0.0, 0.5, 1.0} or parents == 1
    for corner in (0.0, 1.0):
        assert (points == corner).all(axis=1).any()
    for column in points.T:
        assert {column.min(), column.max()} == {0.0, 1.0}


def test_regressions_that_do_not_converge_say_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ridge, "_MOST_NEWTON_STEPS", 1)
    rng = np.random.default_rng(0)
    x = rng.normal(size=60)
    with pytest.warns(RuntimeWarning, match="a logistic regression did not converge; a larger ridge would help"):
        hb.fit([("x", "c")], {"x": x, "c": np.where(x + rng.normal(size=60) > 0, "a", "b")}, {"c": "softmax"})


def test_marks_of_twins_differ_from_names() -> None:
    nodes = {name: hb.Continuous(name) for name in ("x", "y", "x*", "y*")}
    lines = [hb.LinearGaussian(nodes[name], intercept=0.0, variance=1.0) for name in ("x", "x*", "y*")]
    child = hb.LinearGaussian(nodes["y"], (nodes["x"],), intercept=1.0, coefficients=[2.0], variance=1.0)
    told = hb.counterfactual(hb.Network([*lines, child]), "y", {"x": 0.0, "y": 1.5}, {"x": 1.0})
    assert told.mean() == pytest.approx(3.5)


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: hb.pool([[1.0, 2.0], [1.5, 2.5]], [[0.1, 0.2], [0.1, 0.2]]), "<pooled over 2 draws: 2 estimates ["),
        (lambda: NET.posterior(["x", "c"], None), "<joint posterior of 'x', 'c'>"),
        (lambda: NET.posterior(["x", "c"], pd.DataFrame({"k": [1, 2]})), "<joint posterior of 'x', 'c' in 2 rows>"),
        (lambda: hb.Table({f"x{n}": [1.0, 2.5] for n in range(70)}), "... (10 more columns)"),
    ],
)
def test_things_say_what_they_are(make: Callable[[], Any], text: str) -> None:
    assert text in repr(make())


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda _: hb.scan(hb.Table({"x": [1.0, 2.0]}, weights=[1, 2])), "a scan takes weights as a column"),
        (lambda _: hb.fit([], hb.scan(pa.table({"x": [1.0, 2.0], "w": [2.0, -1.0]}), weights="w")), "'w'"),
        (lambda folder: write(folder / "rows.arff"), "a scan is written to files of the formats .*convert it"),
        (lambda folder: write(folder / "rows.docx"), r"a scan is written to files of the formats [^;]*$"),
        (
            lambda folder: read(folder / "rows.arff", "@relation r\n@attribute x numeric\n@data\n1\n\0\n"),
            "line 5: a NUL",
        ),
        (lambda _: plot_wide(), "'d' has 40 states, and a picture has room for 30"),
        (lambda _: hb.effect(NET, "c", "x", {"z": 1.0}), "'z'"),
    ],
)
def test_requests_that_make_no_sense_are_refused(ask: Callable[[Path], Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(hb.HybridBNError, match=message):
        ask(tmp_path)


def write(path: Path) -> None:
    hb.scan(pa.table({"x": [1.0, 2.0]})).write(str(path))


def read(path: Path, text: str) -> hb.Table:
    path.write_text(text)
    return hb.read_table(path)


def plot_wide() -> None:
    d = hb.Discrete("d", tuple(range(40)))
    hb.Network([hb.Multinomial(C, table=[0.5, 0.5]), hb.Multinomial(d, table=np.full(40, 1 / 40))]).posterior(
        ["c", "d"], None
    ).plot()
