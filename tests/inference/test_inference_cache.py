"""Compiled questions are kept as long as they fit in some bytes, and what they hold is counted as it grows."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator
from threading import Thread
from typing import Any

import numpy as np
import pytest

import hybridbn as hb
from hybridbn.fitting import MTEFitter
from hybridbn.inference import queries, relevance
from hybridbn.inference.compilation import Problem
from hybridbn.inference.elimination.compilers import compile_program
from hybridbn.inference.elimination.program import Factor
from hybridbn.inference.relevance import ProblemCache


@pytest.fixture
def cache(monkeypatch: pytest.MonkeyPatch) -> Iterator[ProblemCache]:
    fresh = ProblemCache(2e6)
    monkeypatch.setattr(relevance, "CACHE", fresh)
    yield fresh
    held = sum(entry.problem.estimate_bytes() for entry in fresh.entries())
    assert held <= fresh.total <= held + 1e5 * len(fresh)


def discrete_grid(side: int, states: int) -> hb.Network:
    """Return a network over a grid, each node depending on those above and to the left."""
    rng = np.random.default_rng(0)
    nodes = {(i, j): hb.Discrete(f"v{i}{j}", states=tuple(range(states))) for i in range(side) for j in range(side)}
    potentials = []
    for (i, j), node in nodes.items():
        parents = [nodes[place] for place in ((i - 1, j), (i, j - 1)) if place in nodes]
        table = rng.dirichlet(np.ones(states), size=(states,) * len(parents))
        potentials.append(hb.Multinomial(node, parents, table=table))
    return hb.Network(potentials)


def test_queries_for_every_node_stay_within_the_bytes(cache: ProblemCache) -> None:
    network = discrete_grid(5, 6)
    totals: list[float] = []
    answers: dict[str, Any] = {}
    for _ in range(2):
        for name in list(network)[:-1]:
            answer = network.posterior(name, {"v44": 1}).probabilities
            np.testing.assert_allclose(answer, answers.setdefault(name, answer), rtol=1e-12)
            totals.append(cache.total)
    assert 1e6 < max(totals) <= cache.most_bytes
    # plans without tables are small, so that choosing the order is not repeated; one entry is the network's snapshot
    assert len(cache) == 25


def test_what_alone_exceeds_the_bytes_keeps_its_plan(cache: ProblemCache) -> None:
    network = discrete_grid(5, 6)
    cache.most_bytes = 3e5
    network.posterior("v00", {"v44": 1})
    small = cache.total
    assert len(cache) == 2
    network.posteriors({"v44": 1})
    assert len(cache) == 3
    assert cache.total <= 3e5
    assert cache.total > small


def test_even_plans_are_dropped_in_the_end(cache: ProblemCache) -> None:
    network = discrete_grid(3, 2)
    cache.most_bytes = 1e5
    for name in network:
        for other in network:
            if other != name:
                network.posterior(name, {other: 0})
    assert 1 <= len(cache) < 30
    assert cache.total <= 1e5


def test_growth_after_the_first_answer_counts(cache: ProblemCache, monkeypatch: pytest.MonkeyPatch) -> None:
    """Grids of nodes, and cases that are known to contradict nothing, come with later questions."""
    x, y = hb.Continuous("x"), hb.Continuous("y")
    kernel = hb.Kernel(x, points=[0.0, 1.0], bandwidths=1)
    network = hb.Network([kernel, hb.LinearGaussian(y, (x,), intercept=0, coefficients=[1], variance=1)])
    network.posterior("x", {"y": 0.0})
    first = cache.total
    network.posterior("x", {"y": 0.0}, tolerance=1e-6)
    assert cache.total > first + 1000
    monkeypatch.setattr(queries, "CASES_PER_MEASUREMENT", 1)
    a, b = hb.Discrete("a", states=(0, 1)), hb.Discrete("b", states=(0, 1))
    tables = hb.Network([hb.Multinomial(a, table=[1.0, 0.0]), hb.Multinomial(b, (a,), table=[[0.5, 0.5], [0.5, 0.5]])])
    tables.add(hb.LinearGaussian(x, (), intercept=0, variance=1))
    tables.posterior("x", {"b": 0})
    second = cache.total
    tables.posterior("x", {"b": 1})
    assert second < cache.total < second + 1000


FAMILIES = {
    "tables": lambda rng, x, d: hb.Multinomial(d, table=rng.dirichlet([1, 1])),
    "kernels": lambda rng, x, d: hb.Kernel(x, points=rng.normal(size=5), bandwidths=1),
    "normal": lambda rng, x, d: hb.LinearGaussian(x, (), intercept=rng.normal(), variance=1),
    "mte": lambda rng, x, d: MTEFitter().fit(hb.Table({"x": rng.normal(size=50)}), x),
}


@pytest.mark.usefixtures("frozen")
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("ask", ["one case", "a table", "a thread"])
def test_what_is_kept_goes_with_the_last_network(cache: ProblemCache, family: str, ask: str) -> None:
    rng = np.random.default_rng(0)
    x, d, y = hb.Continuous("x"), hb.Discrete("d", states=(0, 1)), hb.Continuous("y")

    def use(network: hb.Network) -> None:
        cases = hb.Table({"y": [1.0, 2.0]}) if ask == "a table" else {"y": 1.0}
        for name in network:
            network.posterior(name, {} if name == "y" else cases)

    gone, kept = [], []
    for _ in range(3):
        first = FAMILIES[family](rng, x, d)
        network = hb.Network([first, hb.LinearGaussian(y, (), intercept=0, variance=1)])
        copy = network.copy()
        for each in (network, copy):
            if ask == "a thread":
                thread = Thread(target=use, args=(each,))
                thread.start()
                thread.join()
            else:
                use(each)
        gone.append(weakref.ref(first))
        kept.append(len(cache))
        del first, network, each
        gc.collect()
        assert gone[-1]() is not None
        assert len(cache) == kept[0] > 1, "the copy asks the same"
        del copy
        gc.collect()
        assert (gone[-1](), len(cache), cache.total) == (None, 0, 0)


def test_tables_that_are_in_use_survive_their_release(cache: ProblemCache) -> None:
    network = discrete_grid(3, 2)
    network.posterior("v00", hb.Table({"v22": [1]}, discrete=["v22"]))
    entry = cache.entries()[-1]
    assert isinstance(entry.problem, Problem)
    used = entry.problem.tables
    entry.problem.release()
    assert entry.problem.tables is used
    del used
    assert entry.problem.tables.program is None


def test_folded_tables_are_held_once() -> None:
    rng = np.random.default_rng(0)
    factors = [Factor(("a", "b", "c"), static=True), Factor(("b",), rows=True)]
    program = compile_program(factors, [("a", "c")], {"a": 20, "b": 30, "c": 40})
    table, weights = rng.random((20, 30, 40)), rng.random((30, 1))
    before = program.estimate_bytes()
    for _ in range(2):
        (product,) = program.run({0: table, 1: weights})
        np.testing.assert_allclose(product[..., 0], np.einsum("abc,b->ac", table, weights[:, 0]), rtol=1e-12)
    assert program._matrices
    assert program.estimate_bytes() - before == table.nbytes
    assert all(np.shares_memory(matrix, program.evidence_free[0]) for matrix in program._matrices.values())
