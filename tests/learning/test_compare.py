"""Comparison of networks: arcs, distances, held-out rows."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hybridbn as hb

NAMES = "abcde"


@st.composite
def arcs(draw: st.DrawFn) -> list[tuple[str, str]]:
    order = draw(st.permutations(NAMES))
    pairs = [(a, b) for i, a in enumerate(order) for b in order[:i]]
    return draw(st.lists(st.sampled_from(pairs), unique=True))


@given(arcs(), arcs())
def test_every_arc_is_in_one_list(first: list[tuple[str, str]], second: list[tuple[str, str]]) -> None:
    result = hb.compare(first, second)
    assert {*result.shared, *result.reversed, *result.only_first} == set(first)
    assert {*result.shared, *(arc[::-1] for arc in result.reversed), *result.only_second} == set(second)
    assert result.distance == len(result.reversed) + len(result.only_first) + len(result.only_second)
    back = hb.compare(second, first)
    assert (back.distance, back.essential_distance) == (result.distance, result.essential_distance)
    assert back.only_first == tuple(sorted(result.only_second, key=back.only_first.index))
    same = hb.compare(first, first)
    assert (same.distance, same.essential_distance) == (0, 0)


def test_equivalent_networks_have_no_distance() -> None:
    result = hb.compare("a->b->c", "a<-b<-c")
    assert (result.distance, result.essential_distance) == (2, 0)


def test_undirected_pairs_count_once() -> None:
    graph = nx.DiGraph([("a", "b"), ("b", "a"), ("b", "c"), ("c", "b")])
    result = hb.compare(graph, "a->b->c")
    assert (result.distance, result.essential_distance) == (2, 0)
    assert result.reversed == (("a", "b"), ("b", "c"))
    assert hb.compare(graph, graph).shared == (("a", "b"), ("b", "c"))


def test_held_out_rows_are_scored_under_both() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=300)
    data = {"x": x, "y": x + rng.normal(size=300)}
    fits = [hb.fit(structure, data, "gaussian") for structure in ([], [("x", "y")])]
    rows: dict[str, np.ndarray] = {name: column[:40].copy() for name, column in data.items()}
    rows["y"][3] = np.nan
    weights = np.arange(40.0)
    result = hb.compare(fits[0], fits[1], {**rows, "other": ["u"] * 40}, weights)
    values = [net.log_density(hb.Table(rows)) for net in fits]
    assert result.log_densities == pytest.approx([np.average(value, weights=weights) for value in values])
    assert result.gain == pytest.approx(np.average(values[1] - values[0], weights=weights))
    assert 0 < result.standard_error < result.gain  # type: ignore[operator]
    assert "gain" in repr(result)
    repeated = {name: np.repeat(column, weights.astype(int)) for name, column in rows.items()}
    assert hb.compare(fits[0], fits[1], repeated).standard_error == pytest.approx(result.standard_error)


def test_what_can_not_be_compared_is_refused() -> None:
    data = {"x": [1.0, 2.0, 4.0], "y": [1.0, 3.0, 2.0]}
    net = hb.fit([("x", "y")], data, "gaussian")
    with pytest.raises(hb.NetworkError, match="fit it"):
        hb.compare(net, [("x", "y")], data)
    with pytest.raises(hb.NetworkError, match="only one of the networks has 'y'"):
        hb.compare(net, hb.fit([], {"x": data["x"]}, "gaussian"), data)
    with pytest.raises(hb.NetworkError, match="cycle"):
        hb.compare([("a", "b"), ("b", "c"), ("c", "a")], net)
