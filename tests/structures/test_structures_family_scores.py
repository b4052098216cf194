"""Scores of families: by definition, and all single changes of a family at once against one at a time."""

import math
from typing import Any, Literal

import numpy as np
import pandas as pd
import pytest

import hybridbn as hb
from hybridbn.fitting.contingency_tables import CrossedColumns, PaddedColumn
from hybridbn.structures import hill_climb
from hybridbn.structures import scores as family_scores
from hybridbn.structures.scores import BIC, BDeu, BGe, CrossValidation, FamilyScores
from hybridbn.structures.training_data import read_data_without_target


def table_of(kind: str, rows: int = 300, seed: int = 0):
    """Return columns that depend on each other, some of many states or of one."""
    rng = np.random.default_rng(seed)
    a = rng.integers(3, size=rows)
    b = (a + rng.integers(2, size=rows)) % 4
    data = {
        "a": a,
        "b": b,
        "c": (a * b + rng.integers(2, size=rows)) % 5,
        "many": rng.integers(90, size=rows) + b,
        "one": np.zeros(rows, dtype=int),
    }
    data = {name: np.array([f"s{value}" for value in column], dtype=object) for name, column in data.items()}
    if kind == "numbers":
        x = a + rng.normal(size=rows)
        y = 2 * x - b + 0.3 * rng.normal(size=rows)
        return {"x": x, "y": y, "z": 1000 + rng.normal(size=rows), "w": x - y + rng.normal(size=rows)}
    if kind == "mixed":
        x = a + rng.normal(size=rows)
        return {"a": data["a"], "b": data["b"], "x": x, "y": np.where(a == 1, -x, x) + rng.normal(size=rows)}
    if kind == "holes":
        for column in data.values():
            column[rng.random(rows) < 0.1] = None
    return data


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("kind", ["tables", "holes", "numbers", "mixed"])
@pytest.mark.parametrize("cells", [family_scores.CELLS, 50])
def test_all_changes_of_a_family_are_scored_as_one_by_one(monkeypatch, kind, weighted, cells):
    monkeypatch.setattr(family_scores, "CELLS", cells)
    data = table_of(kind)
    weights = np.random.default_rng(1).integers(0, 3, 300).astype(float) if weighted else None
    read = read_data_without_target(data, "gaussian", weights)
    scores, alone = FamilyScores(read), FamilyScores(read)
    names = list(data)
    for child, parents in (
        (names[0], ()),
        (names[1], (names[0],)),
        (names[2], (names[0], names[1])),
        (names[3], (names[2],)),
    ):
        found = scores.score_changes(child, frozenset(parents))
        expected = [-np.inf if name == child else alone(child, frozenset(parents) ^ {name}) for name in names]
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)


def test_scores_of_tables_are_the_definition():
    data = table_of("tables")
    states = {name: sorted(set(data[name])) for name in ("a", "b", "c")}
    joint = np.array(
        [
            [[np.sum((data["a"] == i) & (data["b"] == j) & (data["c"] == k)) for k in states["c"]] for j in states["b"]]
            for i in states["a"]
        ],
        dtype=float,
    )
    seen = joint > 0
    shares = joint / np.maximum(joint.sum(axis=2, keepdims=True), 1)
    likelihood = np.sum(joint[seen] * np.log(shares[seen]))
    expected = likelihood - 0.5 * math.log(300) * 3 * 4 * 4
    assert FamilyScores(read_data_without_target(data, "auto", None))("c", ("a", "b")) == pytest.approx(expected)


@pytest.mark.parametrize("holes", [False, True])
def test_regressions_are_scored_by_moments_as_by_their_density(holes):
    data = table_of("mixed")
    if holes:
        data["x"][:40], data["a"][20:60] = np.nan, None
    read = read_data_without_target(data, "gaussian", np.random.default_rng(3).random(300))
    scores = FamilyScores(read)
    for child, parents in (("x", ()), ("y", ("x",)), ("y", ("a", "x")), ("x", ("a", "b"))):
        potential = read.fit(child, parents)
        assert scores(child, parents) == pytest.approx(scores._score_density(potential), rel=1e-9)


def test_a_combination_of_parents_is_refused():
    data = table_of("numbers")
    data |= {"sum": data["x"] + data["z"], "same": np.full(300, 2.0)}
    scores = FamilyScores(read_data_without_target(data, dict.fromkeys(data, "gaussian"), None))
    names = list(data)
    for found in (
        scores.score_changes("y", frozenset({"x", "z"}))[names.index("sum")],
        scores.score_changes("y", frozenset())[names.index("same")],
        scores("same", ("x",)),
        scores("sum", ("x", "z")),
    ):
        assert found == -np.inf


@pytest.mark.parametrize("holes", [False, True])
def test_counts_with_a_configuration_are_those_of_each_column(holes):
    rng = np.random.default_rng(4)
    sizes = (2, 3, 2, 40, 2, 7, 2, 2, 1)
    codes = [rng.integers(-1 if holes else 0, size, size=500) for size in sizes]
    weights = rng.random(500)
    configuration = rng.integers(6, size=500)
    rows = np.flatnonzero(rng.random(500) < 0.7)
    for kept in (None, rows):
        for given in (None, weights):
            crossed = CrossedColumns([PaddedColumn.check(*column) for column in zip(codes, sizes, strict=True)], given)
            part = slice(None) if kept is None else kept
            found = crossed.tables(configuration[part], 6, kept)
            for table, size, column in zip(found, sizes, codes, strict=True):
                mass = (np.ones(500) if given is None else given)[part]
                expected = np.zeros((6, size))
                seen = column[part] >= 0
                np.add.at(expected, (configuration[part][seen], column[part][seen]), mass[seen])
                np.testing.assert_allclose(table, expected, atol=1e-12)


def test_a_gain_counts_as_much_as_the_rows_that_tell_of_it():
    data = {"a": ["x", "x", "y", "y", None] * 20, "b": ["u", "v", "v", None, "u"] * 20}
    scores = FamilyScores(read_data_without_target(data, "auto", None))
    seen = FamilyScores(
        read_data_without_target({name: column[:3] * 20 for name, column in data.items()}, "auto", None)
    )
    # the density of b alone is that of all its 80 cells
    alone = 20 * math.log(40 / 80) + 40 * math.log(40 / 80)
    gain = seen("b", ("a",)) + 0.5 * math.log(60) * 2 - alone
    penalty = 0.5 * math.log(60) * (100 - 2) / 100 / ((60 - 2) / 60)
    assert scores("b", ("a",)) == pytest.approx(scores("b", ()) + gain - penalty)
    assert scores.score_changes("b", frozenset())[0] == pytest.approx(scores("b", ("a",)))
    assert hb.Table(data).missing["b"] == 20


@pytest.mark.parametrize("potentials", ["gaussian", "auto"])
def test_which_rows_are_complete_is_no_reason_for_an_arc(potentials):
    """The density of few complete rows can be much higher or lower than that of all, without any dependence."""
    rng = np.random.default_rng(0)
    data = {name: rng.normal(size=150) for name in "abcdefgh"} | {"k": rng.integers(0, 3, 150).astype(str)}
    frame = pd.DataFrame(data).mask(rng.random((150, 9)) < 0.4)
    ways: list[tuple[Literal["available", "em"], int, float]] = [("available", 6, -13.5), ("em", 2, -12.5)]
    for missing, most, least in ways:
        network = hill_climb(frame, potentials=potentials, missing=missing)
        assert network.number_of_edges() <= most
        assert network.log_density(hb.Table(data)).mean() > least


def split_columns(states: str) -> hb.Table:
    """Return columns of which the first two are never observed in the same row; some are of states."""
    rng = np.random.default_rng(6)
    first = np.arange(40) < 20
    columns: dict[str, Any] = {
        "a": np.where(first, rng.normal(size=40), np.nan),
        "b": np.where(first, np.nan, rng.normal(size=40)),
    }
    columns["c"] = rng.normal(size=40)
    for name in states:
        numbers = columns[name]
        columns[name] = [None if np.isnan(number) else "uv"[int(number < 0)] for number in numbers]
    return hb.Table(columns)


@pytest.mark.parametrize(
    ("score", "states"),
    [
        *((score, states) for score in (BIC(), CrossValidation(folds=2)) for states in ("", "a", "b", "abc")),
        (BDeu(1.0), "abc"),
        (BGe(), ""),
    ],
)
def test_columns_that_are_never_observed_together_have_no_arc(score, states) -> None:
    table = split_columns(states)
    scores = score.prepare(read_data_without_target(table, "gaussian", None))
    for child, other in ("ab", "ba"):
        assert scores(child, ()) > -math.inf
        assert scores(child, ("c",)) > -math.inf
        assert scores(child, (other,)) == scores(child, (other, "c")) == -math.inf
        changes = scores.score_changes(child, frozenset())
        assert changes[scores.column_index[other]] == -math.inf
    arcs = hill_climb(table, potentials="gaussian", score=score, missing="available").edges
    assert not {("a", "b"), ("b", "a")} & set(arcs)
