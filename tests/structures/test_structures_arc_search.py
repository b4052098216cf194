"""The search over graphs: which steps there are, the tabu list, turned arcs, restarts, and limits that hold all the
time.
"""

import itertools
from typing import Any

import numpy as np
import pytest

import hybridbn as hb
from hybridbn.structures import hill_climb
from hybridbn.structures.arcs import Limits, is_acyclic
from hybridbn.structures.hill_climb import _GraphSearch, arcs_of, climb, graph_of
from hybridbn.structures.scores import FamilyScores
from hybridbn.structures.training_data import read_data_without_target


class Given:
    """Scores that are made up: a table of (child, set of parents)."""

    def __init__(self, names, score):
        self.column_index = {name: i for i, name in enumerate(names)}
        self.names, self.score = names, score

    def __call__(self, child, parents):
        return self.score(child, frozenset(parents))

    def score_changes(self, child, parents):
        return np.array(
            [-np.inf if name == child else self.score(child, frozenset(parents) ^ {name}) for name in self.names]
        )


def random_scores(names, seed):
    rng = np.random.default_rng(seed)
    table = {
        (child, frozenset(chosen)): rng.normal()
        for child in names
        for count in range(len(names))
        for chosen in itertools.combinations([name for name in names if name != child], count)
    }
    return Given(names, lambda child, parents: table[child, parents])


def free(size, required=(), forbidden=(), most=None):
    stays, allowed = np.zeros((size, size), dtype=bool), ~np.eye(size, dtype=bool)
    for child, parent in required:
        stays[child, parent] = True
    for child, parent in forbidden:
        allowed[child, parent] = False
    return Limits(stays, allowed, most or size, np.zeros_like(allowed))


def search_of(names, scores, limits, graph=None):
    return _GraphSearch(names, scores, limits, graph or (0,) * len(names))


def every_change(graph):
    """Return all graphs that one arc more, less, or turned around makes, those with cycles left out."""
    arcs = arcs_of(graph)
    for child, parent in itertools.permutations(range(len(graph)), 2):
        neighbor = arcs.copy()
        neighbor[child, parent] = ~arcs[child, parent]
        yield neighbor
        if arcs[child, parent]:
            neighbor = neighbor.copy()
            neighbor[parent, child] = True
            yield neighbor


@pytest.mark.parametrize("seed", range(5))
def test_the_best_step_is_the_best_of_all(seed):
    rng = np.random.default_rng(seed)
    names = list("abcde")
    scores = random_scores(names, seed)
    order = rng.permutation(5)
    graph = graph_of((np.tril(rng.random((5, 5)) < 0.5, -1))[np.ix_(order, order)])
    search = search_of(names, scores, free(5), graph)

    def value(arcs):
        return sum(scores(names[i], {names[j] for j in np.flatnonzero(arcs[i])}) for i in range(5))

    assert search.score == pytest.approx(value(arcs_of(graph)))
    possible = {graph_of(arcs): value(arcs) for arcs in every_change(graph) if is_acyclic(arcs)}
    past: list[tuple[int, ...]] = []
    ranked = sorted(possible.items(), key=lambda item: -item[1])
    for expected, score in ranked:
        step = search.find_best(past)
        assert step[1] == expected
        assert step[0] == pytest.approx(score - search.score, abs=1e-5)
        past.append(expected)
    assert search.find_best(past) is None


@pytest.mark.parametrize("seed", range(5))
def test_cycles_are_seen(seed):
    arcs = np.random.default_rng(seed).random((12, 12)) < 0.08
    reaches = np.linalg.matrix_power(np.eye(12, dtype=int) + arcs, 12) @ arcs > 0
    assert is_acyclic(arcs) == all(not reaches[i, i] for i in range(12))
    assert np.array_equal(arcs_of(graph_of(arcs)), arcs)


def test_the_tabu_list_leads_past_a_summit_and_never_back(monkeypatch):
    # two arcs into c are worth a lot together, each alone costs something
    worth = {frozenset(): 0.0, frozenset("a"): -1.0, frozenset("b"): -1.0, frozenset("ab"): 10.0}
    scores: Any = Given(list("abc"), lambda child, parents: worth[parents] if child == "c" else -20.0 * len(parents))
    visited = []
    move_to = _GraphSearch.move_to

    def noted(self, graph):
        move_to(self, graph)
        visited.append(graph)

    monkeypatch.setattr(_GraphSearch, "move_to", noted)

    def found(tabu):
        rng = np.random.default_rng(0)
        return climb(list("abc"), scores, free(3), (0, 0, 0), tabu=tabu, turns=0, restarts=0, rng=rng)

    assert found(0) == (0, 0, 0)
    assert visited == [(0, 0, 0)]
    visited.clear()
    assert found(2) == (0, 0, 3)
    for first in range(len(visited) - 2):
        assert visited[first] not in visited[first + 1 : first + 3]


def test_restarts_and_turns_are_never_worse():
    names = list("abcdef")
    for seed in range(10):
        scores = random_scores(names, seed)
        values = []
        for options in (
            {"tabu": 0, "turns": 0, "restarts": 0},
            {"tabu": 5, "turns": 0, "restarts": 0},
            {"tabu": 5, "turns": 0, "restarts": 20},
        ):
            graph = climb(names, scores, free(6), (0,) * 6, rng=np.random.default_rng(0), **options)
            values.append(search_of(names, scores, free(6), graph).score)
        assert values == sorted(values)


def test_turned_arcs_make_no_difference():
    rng = np.random.default_rng(0)
    a, b = rng.integers(3, size=(2, 400))
    data = {"a": a, "b": (a + b) % 3, "c": (a * b) % 3, "d": (b + rng.integers(2, size=400)) % 3}
    texts = {name: column.astype(str) for name, column in data.items()}
    read = FamilyScores(read_data_without_target(texts, "auto", None))
    names = list(data)
    search = search_of(names, read, free(4), graph_of(np.tril(np.ones((4, 4), dtype=bool), -1)))
    seen, value = set(), search.score
    for _ in range(50):
        assert search.reverse_neutral_arcs(3, rng)
        assert search.score == pytest.approx(value, rel=1e-12)
        assert is_acyclic(arcs_of(search.parents))
        seen.add(search.parents)
    # a complete graph has 24 orders
    assert len(seen) > 12


@pytest.mark.parametrize("seed", range(3))
def test_limits_hold_through_turns_and_restarts(seed):
    rng = np.random.default_rng(seed)
    a = rng.integers(3, size=(6, 500))
    for row in range(1, 6):
        a[row] = np.where(rng.random(500) < 0.7, a[row - 1], a[row])
    data = {f"v{row}": a[row].astype(str) for row in range(6)}
    required = [("v3", "v2"), ("v5", "v0")]
    forbidden = [("v0", "v1"), ("v4", "v5"), ("v5", "v4")]
    net = hill_climb(
        data, required=required, forbidden=forbidden, max_parents=2, turns=20, restarts=20, random_state=seed
    )
    assert set(required) <= set(net.edges)
    assert not set(forbidden) & set(net.edges)
    assert max(dict(net.in_degree()).values()) <= 2
    assert set(net.edges) == set(
        hill_climb(
            hb.Table(data),
            required=required,
            forbidden=forbidden,
            max_parents=2,
            turns=20,
            restarts=20,
            random_state=seed,
        ).edges
    )
