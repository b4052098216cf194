"""Knowledge about arcs: what builders make of it, and contradictions."""

from __future__ import annotations

import re
from functools import partial
from typing import Any

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hybridbn as hb
from hybridbn.structures import chow_liu, hill_climb, tan
from hybridbn.structures.dependence import find_maximum_branching

NAMES = ("a", "b", "c", "x", "y")


def table(rows: int = 120, missing: float = 0.0) -> dict[str, Any]:
    rng = np.random.default_rng(3)
    a = rng.integers(2, size=rows)
    b = np.where(rng.random(rows) < 0.8, a, 1 - a)
    x = a + rng.normal(size=rows)
    data = {"a": a, "b": b, "c": rng.integers(2, size=rows)}
    data = {name: np.array(["n", "p"], object)[column] for name, column in data.items()}
    y = x - b + rng.normal(size=rows)
    y[rng.random(rows) < missing] = np.nan
    return {**data, "x": x, "y": y}


@st.composite
def consistent(draw: st.DrawFn) -> hb.Knowledge:
    """Knowledge that an order of the columns agrees with."""
    order = draw(st.permutations(NAMES))
    arcs = [(a, b) for i, a in enumerate(order) for b in order[i + 1 :]]
    pick = st.lists(st.sampled_from(arcs), max_size=3, unique=True)
    cut = draw(st.integers(1, 4))
    required, undirected = draw(pick), draw(pick)
    roots = draw(st.lists(st.sampled_from(NAMES), max_size=1))
    used = {name for arc in (*required, *undirected) for name in arc}
    forbidden = [arc[::-1] for arc in draw(pick)]
    return hb.Knowledge(
        tiers=[order[:cut], order[cut:]],
        required=required,
        forbidden=forbidden,
        undirected=[pair if draw(st.booleans()) else pair[::-1] for pair in undirected],
        roots=[name for name in roots if name not in used],
        leaves=[name for name in roots if name not in used],
    )


def check(net: Any, knowledge: hb.Knowledge) -> None:
    assert nx.is_directed_acyclic_graph(net)
    tier = {name: number for number, names in enumerate(knowledge.tiers) for name in names}
    assert all(tier.get(a, 0) <= tier.get(b, 9) for a, b in net.edges)
    assert set(knowledge.required) <= set(net.edges)
    assert not set(knowledge.forbidden) & set(net.edges)
    assert all(net.has_edge(a, b) or net.has_edge(b, a) for a, b in knowledge.undirected)
    assert not any(net.in_degree(name) for name in knowledge.roots)
    assert not any(net.out_degree(name) for name in knowledge.leaves)


@given(consistent())
def test_hill_climbing_keeps_to_what_is_known(knowledge: hb.Knowledge) -> None:
    numbers = dict(zip(NAMES, np.random.default_rng(0).normal(size=(5, 40)), strict=True))
    numbers["y"] = numbers["x"] + numbers["a"] + 0.1 * numbers["y"]
    check(hill_climb(numbers, "gaussian", knowledge=knowledge, restarts=2), knowledge)


@given(consistent())
def test_trees_keep_to_what_is_known_or_are_refused(knowledge: hb.Knowledge) -> None:
    numbers = dict(zip(NAMES, np.random.default_rng(0).normal(size=(5, 40)), strict=True))
    try:
        net = chow_liu(numbers, "gaussian", knowledge=knowledge)
    except hb.NetworkError as error:
        net, refusal = None, str(error)
    if net is None:
        assert re.search("can't have all that is known|max_parents=1", refusal)
    else:
        check(net, knowledge)
        assert max(dict(net.in_degree).values()) <= 1


@given(st.integers(0, 2**20))
def test_branchings_without_limits_weigh_as_much_as_spanning_trees(seed: int) -> None:
    weights = np.random.default_rng(seed).random((5, 5))
    pairs = {(a, b): float(weights[i, j]) for i, a in enumerate(NAMES) for j, b in enumerate(NAMES) if i < j}
    parents = find_maximum_branching(NAMES, pairs, hb.Knowledge().limit(NAMES), None, 0.0)
    graph = nx.Graph()
    graph.add_weighted_edges_from((*pair, weight) for pair, weight in pairs.items())
    best = nx.maximum_spanning_tree(graph).size("weight")
    chosen = [tuple(sorted((child, *given))) for child, given in parents.items() if given]
    weight = sum(pairs[first, second] for first, second in chosen)
    assert weight == pytest.approx(best)


def test_every_searching_builder_takes_the_same_words() -> None:
    knowledge = hb.Knowledge(tiers=[["c", "a"], ["b"]], undirected=[("x", "y")], leaves=["y"], forbidden=[("b", "x")])
    for net in (
        hill_climb(table(), "gaussian", knowledge=knowledge),
        hill_climb(table(missing=0.1), "gaussian", knowledge=knowledge, restarts=0),
        chow_liu(table(), "gaussian", knowledge=knowledge),
        tan(table(), "c", "gaussian", knowledge=knowledge),
        hb.structural_em(table(missing=0.1), "c", partial(tan, knowledge=knowledge), "gaussian", rounds=1).network,
    ):
        check(net, knowledge)


def test_required_and_forbidden_arcs_add_to_knowledge() -> None:
    knowledge = hb.Knowledge(required=[("c", "a")])
    net = hill_climb(
        table(), "gaussian", required=[("c", "b")], forbidden=[("a", "b"), ("b", "a")], knowledge=knowledge
    )
    assert {("c", "a"), ("c", "b")} <= set(net.edges)
    assert not {("a", "b"), ("b", "a")} & set(net.edges)


def test_known_directions_are_certain_in_resampled_networks() -> None:
    build = partial(hill_climb, knowledge=hb.Knowledge(tiers=[["x"], ["y"]]))
    result = hb.bootstrap(build, {name: table()[name] for name in ("x", "y")}, 5, potentials="gaussian")
    assert result.strengths.values.tolist() == [["x", "y", 1.0, 1.0]]
    assert list(result.cpdag().edges) == [("x", "y")]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ({"required": [("a", "b")], "forbidden": [("a", "b")]}, "both required and forbidden"),
        ({"required": [("a", "b")], "roots": ["b"]}, "required, but 'b' is a root"),
        ({"required": [("a", "b")], "leaves": ["a"]}, "required, but 'a' is a leaf"),
        ({"required": [("a", "b")], "tiers": ["b", "a"]}, "'a' is in tier 2 and 'b' in tier 1"),
        ({"required": [("a", "b"), ("b", "c"), ("c", "a")]}, "make a cycle: 'a' -> 'b' -> 'c' -> 'a'"),
        ({"required": [("a", "b"), ("b", "c")], "undirected": [("a", "c")], "leaves": ["b"]}, "'b' is a leaf"),
        ({"required": [("a", "b"), ("b", "c")], "undirected": [("a", "c")], "forbidden": [("a", "c")]}, "cycle"),
        ({"undirected": [("a", "b")], "forbidden": [("a", "b")], "roots": ["a"]}, "are to be joined, but"),
        ({"tiers": [["a", "b"], ["a"]]}, "'a' stands in the tiers twice"),
        ({"tiers": 3}, "tiers must be"),
        ({"roots": ["q"]}, "roots names 'q'"),
        ({"tiers": [["q"]]}, "tiers names 'q'"),
        ({"undirected": [("a", "a")]}, "undirected must hold arcs"),
        ({"required": "ab"}, "required must hold arcs"),
    ],
)
def test_contradictions_and_bad_words_are_refused(words: dict[str, Any], message: str) -> None:
    with pytest.raises(hb.HybridBNError, match=message):
        hill_climb(table(20), "gaussian", knowledge=hb.Knowledge(**words))


def test_what_a_structure_can_not_have_is_refused() -> None:
    data = table(40)
    with pytest.raises(hb.NetworkError, match="lacks the arc"):
        tan(data, "c", "gaussian", knowledge=hb.Knowledge(required=[("a", "b"), ("x", "b")]))
    with pytest.raises(hb.NetworkError, match="has the arc 'c' -> 'a'"):
        tan(data, "c", "gaussian", knowledge=hb.Knowledge(roots=["a"]))
    with pytest.raises(hb.NetworkError, match="doesn't join"):
        chow_liu(data, "gaussian", knowledge=hb.Knowledge(undirected=[("a", "b"), ("b", "x"), ("x", "a")]))
    with pytest.raises(hb.NetworkError, match="more than max_parents=1"):
        hill_climb(data, "gaussian", max_parents=1, knowledge=hb.Knowledge(required=[("a", "b"), ("x", "b")]))
    with pytest.raises(hb.NetworkError, match="knowledge must be"):
        hill_climb(data, "gaussian", knowledge={"roots": ["a"]})  # type: ignore[arg-type]
