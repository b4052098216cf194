"""Tests of conditional independence, and the builders that rest on them."""

from __future__ import annotations

import itertools
from typing import Any

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

import hybridbn as hb
from hybridbn.fitting.counting import RowCounter
from hybridbn.structures import max_min_hill_climb, pc_stable
from hybridbn.structures.arcs import find_essential_graph, find_extension, matrix_of
from hybridbn.structures.constraint_based import IndependenceTests
from hybridbn.structures.training_data import read_data_without_target

seeds = st.integers(0, 2**32 - 1)


def make_tests(data: Any, **options: Any) -> IndependenceTests:
    return IndependenceTests(read_data_without_target(hb.Table(data, **options), "auto", None))


def mixed_columns(rng: np.random.Generator, rows: int = 300) -> dict[str, Any]:
    """Columns a -> x -> c <- y, b -> y, in which z hangs on nothing."""
    a, b = rng.choice(["k", "l", "m"], rows), rng.choice(["u", "v"], rows)
    x = 1.5 * (a == "k") + rng.normal(size=rows)
    y = np.exp(1.0 * (b == "u") + rng.normal(size=rows))
    c = np.where(x + np.log(y) + 0.5 * rng.normal(size=rows) > 0.7, "yes", "no")
    return {"a": a, "b": b, "x": x, "y": y, "c": c, "z": rng.normal(size=rows)}


def residual_of(target: np.ndarray, *columns: np.ndarray) -> tuple[float, int]:
    """Return the residual sum of squares of a regression, and the rank of its columns."""
    design = np.column_stack([np.ones(len(target)), *columns])
    slopes, _, rank, _ = np.linalg.lstsq(design, target, rcond=None)
    return float(((target - design @ slopes) ** 2).sum()), int(rank)


def indicators(*columns: np.ndarray) -> np.ndarray:
    joined = np.array([" ".join(cells) for cells in zip(*columns, strict=True)])
    return np.array([joined == value for value in np.unique(joined)[1:]], dtype=float).T


@given(seeds)
@settings(max_examples=4, deadline=None)
def test_tables_are_tested_by_the_likelihood_ratio_in_each_stratum(seed: int) -> None:
    rng = np.random.default_rng(seed)
    a, b = rng.choice(["k", "l", "m"], 400), rng.choice(["u", "v"], 400)
    c = np.where(rng.random(400) < 0.4, b, "w")
    outcome = make_tests({"a": a, "b": b, "c": c})("a", "b", ["c"])
    statistic, degrees = 0.0, 0
    for value in np.unique(c):
        table = np.array([[((a == i) & (b == j) & (c == value)).sum() for j in "uv"] for i in "klm"])
        table = table[table.any(axis=1)][:, table.any(axis=0)]
        if min(table.shape) > 1:
            found = stats.chi2_contingency(table, correction=False, lambda_="log-likelihood")
            statistic, degrees = statistic + found.statistic, degrees + found.dof
    assert outcome is not None
    assert outcome.statistic == pytest.approx(statistic, rel=1e-9)
    assert outcome.p == pytest.approx(stats.chi2.sf(statistic, degrees), rel=1e-9)


@given(seeds)
@settings(max_examples=4, deadline=None)
def test_numbers_are_tested_by_nested_regressions_of_normal_scores(seed: int) -> None:
    rng = np.random.default_rng(seed)
    columns = mixed_columns(rng)
    tests = make_tests(columns)
    scores = {
        name: stats.norm.ppf((stats.rankdata(columns[name]) - 0.5) / len(columns[name])) for name in ("x", "y", "z")
    }
    cells = indicators(columns["a"], columns["b"])
    for names, wide, narrow in (
        (("x", "y", "z"), (scores["y"], scores["z"]), (scores["z"],)),
        (("x", "y", "a", "b"), (scores["y"], cells), (cells,)),
        (("x", "c", "z"), (indicators(columns["c"]), scores["z"]), (scores["z"],)),
        (("a", "y", "b", "x"), (cells, scores["x"]), (indicators(columns["b"]), scores["x"])),
    ):
        outcome = tests(names[0], names[1], names[2:])
        target = scores[next(name for name in names[:2] if name in scores)]
        (left, rank), (more, fewer) = residual_of(target, *wide), residual_of(target, *narrow)
        ratio = (more - left) / (rank - fewer) / (left / (len(target) - rank))
        assert outcome is not None
        assert outcome.p == pytest.approx(stats.f.sf(ratio, rank - fewer, len(target) - rank), rel=1e-6, abs=1e-12)


def test_two_categories_given_numbers_take_logistic_regressions() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=1500)
    first, second = (np.where(x + rng.logistic(size=1500) / 2 > 0, "p", "n") for _ in range(2))
    third = np.where((first == "p") ^ (rng.random(1500) < 0.3), "u", "v")
    tests = make_tests({"x": x, "f": first, "s": second, "t": third})
    apart, together = tests("f", "s", ["x"]), tests("f", "t", ["x"])
    assert apart is not None
    assert together is not None
    assert tests.accept("f", "s", ["x"], 0.01)
    assert not tests.accept("f", "s", [], 0.01)
    assert together.p < 1e-6


def test_rows_with_holes_serve_the_tests_that_need_no_more() -> None:
    rng = np.random.default_rng(1)
    a, b, c = (rng.choice(["u", "v"], 300).astype(object) for _ in range(3))
    b[rng.random(300) < 0.3] = None
    whole = [cell is not None for cell in b]
    found = make_tests({"a": a, "b": b, "c": c})
    expected = make_tests({"a": a[whole], "b": b[whole], "c": c[whole]})
    assert found("a", "b", ["c"]) == pytest.approx(expected("a", "b", ["c"]))
    assert found("a", "c", []) == pytest.approx(make_tests({"a": a, "c": c})("a", "c"))


def test_weights_count_as_repeated_rows() -> None:
    rng = np.random.default_rng(2)
    columns = mixed_columns(rng, 100)
    weights = rng.integers(1, 4, 100)
    repeated = {name: np.repeat(column, weights) for name, column in columns.items()}
    found, expected = make_tests(columns, weights=weights), make_tests(repeated)
    for names in (("a", "b", ()), ("x", "y", ("a",)), ("x", "c", ("y",)), ("a", "c", ())):
        assert found(*names) == pytest.approx(expected(*names), rel=1e-9, abs=1e-12)


def test_too_few_rows_for_a_test_leave_columns_joined() -> None:
    rng = np.random.default_rng(3)
    codes = [rng.integers(20, size=100).astype(str) for _ in range(2)]
    tests = make_tests({"a": codes[0], "b": codes[1]})
    assert tests("a", "b") is None
    assert not tests.accept("a", "b", [], 0.01)


def random_dag(rng: np.random.Generator, size: int) -> list[tuple[str, str]]:
    names = [f"n{i}" for i in rng.permutation(size)]
    return [pair for pair in itertools.combinations(names, 2) if rng.random() < 0.35]


@given(seeds)
@settings(max_examples=15, deadline=None)
def test_perfect_tests_lead_to_the_equivalence_class(seed: int) -> None:
    rng = np.random.default_rng(seed)
    names = [f"n{i}" for i in range(6)]
    arcs = random_dag(rng, 6)
    graph = nx.DiGraph(arcs)
    graph.add_nodes_from(names)

    def accept(_: Any, first: str, second: str, others: Any, alpha: float) -> bool:
        return bool(nx.is_d_separator(graph, {first}, {second}, set(others)))

    data = {name: rng.normal(size=20) for name in names}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(IndependenceTests, "accept", accept)
        found = pc_stable(data, "gaussian", max_condition=5)
    same = [find_essential_graph(matrix_of(edges, names)) for edges in (found.edges, arcs)]
    np.testing.assert_array_equal(same[0].arcs, same[1].arcs)


@given(seeds)
@settings(max_examples=25, deadline=None)
def test_an_essential_graph_has_an_extension_in_its_class(seed: int) -> None:
    names = [f"n{i}" for i in range(7)]
    matrix = matrix_of(random_dag(np.random.default_rng(seed), 7), names)
    essential = find_essential_graph(matrix)
    extension = find_extension(essential, np.ones_like(matrix))
    np.testing.assert_array_equal(find_essential_graph(extension).arcs, essential.arcs)


@pytest.mark.parametrize("build", [pc_stable, max_min_hill_climb])
def test_mixed_columns_and_what_is_known_of_them(build: Any) -> None:
    columns = mixed_columns(np.random.default_rng(5), 800)
    net = build(columns, "gaussian")
    assert {frozenset(arc) for arc in net.edges} == {frozenset(pair) for pair in ("ax", "by", "xc", "yc")}
    assert net.number_of_nodes() == 6
    # whatever the order of the columns
    backwards = build(dict(reversed(columns.items())), "gaussian")
    assert {frozenset(arc) for arc in backwards.edges} == {frozenset(arc) for arc in net.edges}
    knowledge = hb.Knowledge(
        tiers=[["c"], ["x", "y"]], required=[("z", "a")], forbidden=[("y", "b"), ("b", "y")], undirected=[("z", "b")]
    )
    told = build(columns, "gaussian", knowledge=knowledge)
    assert set(told.edges) >= {("z", "a"), ("c", "x"), ("c", "y")}
    assert not {("y", "b"), ("b", "y")} & set(told.edges)
    assert {("z", "b"), ("b", "z")} & set(told.edges)


def test_the_strongest_arcs_survive_a_bootstrap() -> None:
    columns = mixed_columns(np.random.default_rng(5), 300)
    result = hb.bootstrap(pc_stable, columns, potentials="gaussian", replicates=5, random_state=0)
    strongest = {frozenset(pair) for pair in result.strengths[["from", "to"]].to_numpy()[:4].tolist()}
    assert strongest <= {frozenset(pair) for pair in ("ax", "by", "xc", "yc")}


@pytest.mark.parametrize("build", [pc_stable, max_min_hill_climb])
def test_options_that_make_no_sense_are_refused(build: Any) -> None:
    data = {"x": [1.0, 2.0, 4.0], "y": [2.0, 1.0, 1.5]}
    for options in ({"alpha": 0}, {"alpha": True}, {"max_condition": -1}, {"max_condition": 1.5}):
        with pytest.raises(hb.HybridBNError):
            build(data, **options)


@pytest.mark.parametrize(
    ("numbers", "classes"), [(370, ()), (40, ("a", "b", "c"))], ids=["many numbers", "many classes"]
)
def test_one_pass_over_the_rows_serves_all_tests_given_the_same_classes(
    numbers: int, classes: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    # more moments than a counter remembers of one set of columns, or of all of them together
    rng, passes, take = np.random.default_rng(6), list[Any](), RowCounter._pass

    def count_pass(counter: RowCounter, requests: Any, used: Any) -> tuple[Any, ...]:
        passes.append(requests)
        return take(counter, requests, used)

    monkeypatch.setattr(RowCounter, "_pass", count_pass)
    data: dict[str, Any] = {f"x{i}": column for i, column in enumerate(rng.normal(size=(numbers, 60)))}
    data |= {name: rng.choice([f"{name}{i}" for i in range(6)], 60) for name in classes}
    tests = make_tests(data)
    for number in range(1, 12):
        tests("x0", f"x{number}", classes)
    assert len(passes) == 1
