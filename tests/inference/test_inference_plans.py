"""Plans, counted exactly: elimination orders, cells, bytes, chunks of rows, and what half of a budget changes."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import hybridbn as hb
from hybridbn.errors import TooWide
from hybridbn.inference import grids
from hybridbn.inference.axes import ORDER
from hybridbn.inference.compilation import Question, problem_of
from hybridbn.inference.elimination import ordering
from hybridbn.inference.elimination.ordering import EliminationOrder, choose_cut, find_order, search_order
from hybridbn.inference.engines import bounds, elimination, slices
from hybridbn.inference.engines.slices import list_kept
from hybridbn.inference.evidence import EvidenceReader
from hybridbn.inference.proposals import choose_drawn
from hybridbn.options import Options

PRIMES = (2, 3, 5, 7, 11, 13, 17, 19, 23, 29)


def random_graph(seed: int, count: int = 9) -> tuple[list[tuple[str, ...]], dict[str, int]]:
    rng = np.random.default_rng(seed)
    names = [f"v{number}" for number in range(count)]
    scopes = [tuple(rng.choice(names, size=int(rng.integers(2, 4)), replace=False).tolist()) for _ in range(count + 3)]
    return scopes, dict(zip(names, rng.permutation(PRIMES).tolist(), strict=False))


def connect(scopes: list[tuple[str, ...]]) -> dict[str, set[str]]:
    around: dict[str, set[str]] = {name: set() for scope in scopes for name in scope}
    for one, other in (pair for scope in scopes for pair in itertools.permutations(scope, 2)):
        around[one].add(other)
    return around


def measure(name: str, around: dict[str, set[str]], sizes: dict[str, int], score: str) -> float:
    """Return what the greedy search compares: the cells of a table, or the edges that are added, maybe weighted."""
    if score == "cells":
        return math.prod(sizes[other] for other in (name, *around[name]))
    missing = [pair for pair in itertools.combinations(sorted(around[name]), 2) if pair[1] not in around[pair[0]]]
    if score == "fill":
        return len(missing)
    return sum(math.log(sizes[one]) * math.log(sizes[other]) for one, other in missing)


def eliminate(
    scopes: list[tuple[str, ...]], sizes: dict[str, int], keep: tuple[str, ...], order: Sequence[str], score: str = ""
) -> Any:
    """Return all cells of an order, the largest table and its clique; a score has to be the least at each step."""
    around = connect([*scopes, keep] if len(keep) > 1 else scopes)
    waiting = sorted(set(around) - set(keep))
    tables = []
    for name in order:
        if score:
            least = min(measure(other, around, sizes, score) for other in waiting)
            assert measure(name, around, sizes, score) <= least * (1 + 1e-9)
        waiting.remove(name)
        neighbors = around.pop(name)
        tables.append((math.prod(sizes[other] for other in (name, *neighbors)), {name, *neighbors}))
        for other in neighbors:
            around[other] = (around[other] | neighbors) - {other, name}
    tables.append((math.prod(sizes[name] for name in keep), set(keep)))
    largest = max(cells for cells, _ in tables)
    assert not waiting
    return sum(cells for cells, _ in tables), largest, [clique for cells, clique in tables if cells == largest]


def assert_is(order: EliminationOrder, expected: Any) -> None:
    total, largest, cliques = expected
    assert order.total == pytest.approx(total, rel=1e-9)
    assert order.largest == pytest.approx(largest, rel=1e-9)
    assert set(order.clique) in cliques


@pytest.mark.parametrize("score", ["cells", "fill", "weighted fill"])
@pytest.mark.parametrize("seed", range(6))
def test_greedy_orders_take_the_least_of_what_is_left(seed: int, score: str) -> None:
    scopes, sizes = random_graph(seed)
    keep = ("v0", "v1")[: seed % 3]
    names, logs, neighbors = ordering._connect([*scopes, keep], sizes)
    chosen = ordering._Score(fill=score != "cells", weighted=score == "weighted fill")
    kept = [names.index(name) for name in keep]
    found = ordering._eliminate_greedily(chosen, list(neighbors), logs, names, kept)
    assert_is(found, eliminate(scopes, sizes, keep, found.names, score))


def test_noise_finds_better_orders(monkeypatch: pytest.MonkeyPatch) -> None:
    totals: list[list[float]] = []
    for noise in (0.0, ordering.NOISE):
        monkeypatch.setattr(ordering, "NOISE", noise)
        totals.append([])
        for seed in range(5):
            scopes, sizes = random_graph(20 + seed)
            names, logs, neighbors = ordering._connect(scopes, sizes)
            score = ordering._Score(fill=False)
            first = ordering._eliminate_greedily(score, list(neighbors), logs, names, [])
            found = ordering._improve_with_noise(first, 60, [score], neighbors, logs, names, [])
            assert_is(found, eliminate(scopes, sizes, (), found.names))
            totals[-1].append(found.total / first.total)
    assert totals[0] == [1.0] * 5
    assert max(totals[1]) <= 1
    assert sum(ratio < 0.99 for ratio in totals[1]) >= 3, totals[1]


def test_a_search_keeps_the_better_order() -> None:
    scopes, sizes = random_graph(24)
    best, poor = find_order(scopes, sizes, ()), ordering._measure(scopes, sizes, sorted(sizes), ())
    assert_is(poor, eliminate(scopes, sizes, (), sorted(sizes)))
    assert best.total < poor.total
    assert search_order(scopes, sizes, (), best).total <= best.total
    assert search_order(scopes, sizes, (), poor).total < poor.total
    assert search_order(scopes, sizes, (), poor, trials=0) == poor


def test_a_chain_has_the_cells_that_one_counts_by_hand() -> None:
    sizes = {"a": 2, "b": 3, "c": 5, "d": 7}
    scopes = [("a", "b"), ("b", "c"), ("c", "d")]
    # a from 2 x 3, b from 3 x 5, then c from 5 x 7, and what is left has 7
    found = find_order(scopes, sizes, ["d"])
    assert (found.names, set(found.clique)) == (("a", "b", "c"), {"c", "d"})
    assert (found.total, found.largest) == pytest.approx((6 + 15 + 35 + 7, 35))


@pytest.mark.parametrize("most_cells", [10_000, 1001, 999, 101, 11])
def test_cuts_keep_tables_to_what_is_allowed(most_cells: int) -> None:
    ring = [("a", "b", "c"), ("c", "d"), ("d", "e"), ("e", "a")]
    sizes = dict.fromkeys("abcde", 10)
    cut = choose_cut(ring, sizes, set("abcde"), most_cells, find_order(ring, sizes, ()))
    assert cut is not None
    assert cut.order.largest <= most_cells * (1 + 1e-9)
    # a cut variable divides the table of 10 ** 3 by its ten states
    assert len(cut.names) == {10_000: 0, 1001: 0, 999: 1, 101: 1, 11: 3}[most_cells]
    assert cut.slices == pytest.approx(10.0 ** len(cut.names))
    rest = [tuple(name for name in scope if name not in cut.names) for scope in ring]
    names = {name for scope in rest for name in scope}
    assert cut.order.total == pytest.approx(eliminate(rest, sizes, (), cut.order.names)[0])
    assert set(cut.order.names) == names


# -- budgets -------------------------------------------------------------------------------------------------------


def test_what_is_allowed_is_the_largest_table_to_the_byte() -> None:
    """A grid of 4 x 4 with 3 states: a table of 3**5 cells at least, to which as large a one is added."""
    nodes = {place: hb.Discrete("x{}{}".format(*place), (0, 1, 2)) for place in itertools.product(range(4), range(4))}
    rng = np.random.default_rng(0)
    network = hb.Network()
    for (i, j), node in nodes.items():
        parents = [nodes[place] for place in ((i - 1, j), (i, j - 1)) if place in nodes]
        network.add(hb.Multinomial(node, parents, table=rng.dirichlet(np.ones(3), size=[3] * len(parents))))
    posterior: Any = network.posterior("x00", {"x33": 1}, max_bytes=16 * 3**5)
    assert len(posterior.probabilities) == 3
    with pytest.raises(TooWide, match="table of 243 cells"):
        network.posterior("x00", {"x33": 1}, max_bytes=16 * 3**5 - 1)


def stub(**attributes: Any) -> Any:
    return SimpleNamespace(**attributes)


def test_chunks_of_rows_and_slices() -> None:
    for cells, rows in ((1.0, elimination.MOST_ROWS), (1e5, None), (1e12, 1)):
        order = EliminationOrder((), cells, cells, ())
        expected = rows or int(
            max(elimination.CHUNK_BYTES / (8 * cells), min(64, elimination.MOST_BYTES / (8 * cells)))
        )
        assert elimination.count_rows_at_once(stub(order=order)) == expected
    problem = stub(
        sizes={"a": 10, "b": 20, "c": 30}, nodes=("c",), factors=[stub(names=("a", "b")), stub(names=("b", "c"))]
    )
    # c has nodes, and a is cut: 20 cells and 20 more
    assert slices.count_slices_at_once(problem, ["a"]) == min(slices.FACTOR_BYTES // (8 * 40), slices.SLICES_AT_ONCE)
    assert slices.count_slices_at_once(problem, []) == min(slices.FACTOR_BYTES // (8 * 220), slices.SLICES_AT_ONCE)


def test_tables_of_nodes_and_their_budget() -> None:
    axes = {"s": stub(size=3)}
    problem = stub(axes=axes, order=stub(clique=("s", "x", "y")), factors=[stub(names=("x",))])
    cells = {"x": 2, "y": 4}
    size = 3 * 2 * ORDER * 4 * ORDER
    assert grids.table_size(problem, ("s", "x", "y"), cells) == size
    rows, ends = np.arange(5), {name: (np.zeros((count, 5)), np.ones((count, 5))) for name, count in cells.items()}
    for together, cells_held in ((1, size), (1, 1.99 * size), (2, 2 * size), (4, 4.5 * size), (5, 9 * size)):
        parts = list(grids._split_rows(problem, [(rows, ends)], cells_held, several=False))
        assert len(parts[0][0]) == parts[0][1]["x"][0].shape[1] == together
        assert np.concatenate([own for own, _ in parts]).tolist() == rows.tolist()
    grids._check_first_cells(problem, cells, size / grids.TOO_WIDE)
    with pytest.raises(TooWide, match="s', 'x', 'y'"):
        grids._check_first_cells(problem, cells, 0.99 * size / grids.TOO_WIDE)


def test_tables_that_proposals_know() -> None:
    least, most = 16 * bounds.SMALL_TABLE, 16 * bounds.TABLE_CELLS

    def count(size: float) -> float:
        return bounds._count_table_cells(Options(max_bytes=int(size)))

    assert count(least / 2) == bounds.SMALL_TABLE
    assert count(2 * least) == 2 * bounds.SMALL_TABLE
    assert count(most / 2) == bounds.TABLE_CELLS / 2
    assert count(2 * most) == bounds.TABLE_CELLS


@pytest.mark.parametrize("wide", ["a", "b", "ab"])
def test_discrete_variables_of_every_expensive_component_are_drawn(wide: str) -> None:
    """Two hidden linear Gaussian variables, each with two discrete parents of 2 or 4 states."""
    network = hb.Network()
    for letter in "ab":
        size = 4 if letter in wide else 2
        parents = [hb.Discrete(f"{letter}{number}", tuple(range(size))) for number in range(2)]
        hidden, seen = hb.Continuous(f"{letter}x"), hb.Continuous(f"{letter}y")
        for parent in parents:
            network.add(hb.Multinomial(parent, table=np.full(size, 1 / size)))
        network.add(hb.LinearGaussian(hidden, parents, intercept=np.ones((size, size)), variance=np.ones((size, size))))
        network.add(hb.LinearGaussian(seen, (hidden,), intercept=0, coefficients=[1.0], variance=1))
    targets = ("a0", "b0")
    evidence = EvidenceReader(network, {"ay": 1.0, "by": 2.0}, targets).evidence()
    problem = problem_of(network, Question(targets), evidence)
    works = sorted(
        part.count_work(problem.sizes) for part in {id(p): p for p in problem.component_of.values()}.values()
    )
    assert works == sorted(4.0 * (16 if letter in wide else 4) for letter in "ab")
    choose = partial(choose_drawn, problem, list_kept(problem), most_total=math.inf, table_cells=1e6, effort=0.0)
    drawn = choose(most_cells=17.0)
    assert drawn is not None
    assert set(drawn.names) == {f"{letter}{number}" for letter in wide for number in range(2)}
    assert choose(most_cells=64.0) is None


def make_hidden_numbers() -> hb.Network:
    """Return two hidden numbers above a logistic regression, one of which has two narrow modes."""
    x, y, d = hb.Continuous("x"), hb.Continuous("y"), hb.Discrete("d", ("u", "v"))
    return hb.Network(
        [
            hb.LinearGaussianMixture(x, probabilities=[0.5, 0.5], intercept=[-2, 2], variance=[0.04, 0.05]),
            hb.LinearGaussian(y, intercept=0, variance=4),
            hb.Softmax(d, (x, y), intercept=[0, 0], coefficients=[[0, 0], [4, -3]]),
        ]
    )


def test_nodes_are_refined_as_far_as_the_budget_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    network = make_hidden_numbers()
    evidence = EvidenceReader(network, {"d": "v"}, ("x", "y")).evidence()
    problem = problem_of(network, Question(("x",)), evidence)
    assert set(problem.nodes) == {"x", "y"}

    def place(budget: float) -> tuple[float, float]:
        """Return the cells of the grid and its error."""
        ((_, placed),) = grids.place_nodes(problem, evidence, 1e-5, budget)
        return float(math.prod(axis.size for axis in placed.axes.values())), float(placed.error[0])

    cells, error = place(1e9)
    assert error < 1e-4
    assert place(cells) == (cells, error)
    fewer, rough = place(cells * 0.99)
    assert fewer < cells
    assert rough > error
    # the engine allows 64 bytes a cell; where rows share a grid, it looks at all tables
    budgets: list[float] = []
    for name in ("place_nodes", "make_shared_grid"):
        function = getattr(elimination, name)

        def note(*given: Any, function: Any = function) -> Any:
            budgets.append(given[-1])
            return function(*given)

        monkeypatch.setattr(elimination, name, note)
    for most in (2.0**30, 2.0**29):
        network.posterior("x", {"d": "u"}, max_bytes=most, tolerance=1e-3)
        assert set(budgets) <= {most / 64, most}
        make_hidden_numbers().posterior("x", hb.Table({"d": ["u", "v"]}), max_bytes=most, tolerance=1e-3)
        assert most in budgets
        budgets.clear()
