"""Hill climbing: scores against brute force, structure recovery, limits on arcs, incomplete tables."""

import itertools
import math

import networkx as nx
import numpy as np
import pytest
from narrowing import as_kind

import hybridbn as hb
from hybridbn.structures import hill_climb
from hybridbn.structures.scores import FamilyScores
from hybridbn.structures.training_data import read_data_without_target


def mixed(rows: int = 800, seed: int = 1, missing: float = 0.0):
    rng = np.random.default_rng(seed)
    a = rng.integers(2, size=rows)
    b = np.where(rng.random(rows) < 0.85, a, 1 - a)
    x = 2.0 * b + rng.normal(size=rows)
    y = x - 1.5 * a + 0.5 * rng.normal(size=rows)
    lone = rng.normal(size=rows)
    data = {"a": np.array(["n", "p"], object)[a], "b": np.array(["u", "v"], object)[b], "x": x, "y": y, "lone": lone}
    for name in ("b", "x"):
        data[name][rng.random(rows) < missing] = None if name == "b" else np.nan
    return data


def skeleton(net):
    return {frozenset(arc) for arc in net.edges}


def total(data, arcs, potentials):
    read = read_data_without_target(data, potentials, None)
    scores = FamilyScores(read)
    return sum(scores(name, tuple(a for a, b in arcs if b == name)) for name in read.attributes)


def test_arcs_between_categories_and_numbers_are_found():
    net = hill_climb(mixed(), "gaussian")
    wanted = {frozenset(pair) for pair in (("a", "b"), ("b", "x"), ("x", "y"), ("a", "y"))}
    assert wanted <= skeleton(net)
    assert not any("lone" in pair for pair in skeleton(net))
    assert list(net) == ["a", "b", "x", "y", "lone"]
    net.check()


def test_scores_of_tables_are_the_definition():
    data = mixed()
    read = read_data_without_target({"a": data["a"], "b": data["b"]}, "auto", None)
    joint = np.array([[np.sum((data["a"] == s) & (data["b"] == t)) for t in ("u", "v")] for s in ("n", "p")], float)
    likelihood = np.sum(joint * np.log(joint / joint.sum(axis=1, keepdims=True)))
    assert FamilyScores(read)("b", ("a",)) == pytest.approx(likelihood - 0.5 * 2 * math.log(800))


def test_scores_by_moments_are_those_of_the_fitted_density():
    data = {name: column for name, column in mixed().items() if name in ("x", "y", "lone")}
    scores = FamilyScores(read_data_without_target(data, "gaussian", None))
    for child, parents in (("x", ()), ("y", ("x",)), ("y", ("x", "lone"))):
        assert scores(child, parents) == pytest.approx(scores._score_by_fitting(child, frozenset(parents)), rel=1e-9)


def test_equivalent_structures_have_equal_scores():
    data = mixed()
    for potentials in ("gaussian",):
        for first, second in (("a", "b"), ("x", "y")):
            one, other = total(data, [(first, second)], potentials), total(data, [(second, first)], potentials)
            assert one == pytest.approx(other, rel=1e-9)


def test_no_single_change_is_better():
    data = {name: column for name, column in mixed(400).items() if name != "lone"}
    net = hill_climb(data, "gaussian", tabu=0)
    best = total(data, list(net.edges), "gaussian")
    names = list(data)
    for a, b in itertools.permutations(names, 2):
        arcs = set(net.edges)
        changes = [arcs ^ {(a, b)}] if (b, a) not in arcs else [arcs - {(b, a)} | {(a, b)}]
        for changed in changes:
            graph = nx.DiGraph(list(changed))
            if nx.is_directed_acyclic_graph(graph):
                assert total(data, list(changed), "gaussian") <= best + 1e-6


def test_the_best_of_all_small_structures_is_found():
    data = {name: column for name, column in mixed(300).items() if name in ("a", "b", "x")}
    arcs = list(itertools.permutations(data, 2))
    scores = [
        total(data, chosen, "gaussian")
        for count in range(4)
        for chosen in itertools.combinations(arcs, count)
        if nx.is_directed_acyclic_graph(nx.DiGraph(list(chosen)))
    ]
    net = hill_climb(data, "gaussian")
    assert total(data, list(net.edges), "gaussian") == pytest.approx(max(scores), rel=1e-9)


def test_limits_are_kept():
    data = mixed()
    net = hill_climb(data, "gaussian", required=[("y", "lone")], forbidden=[("a", "b"), ("b", "a")], max_parents=1)
    assert ("y", "lone") in net.edges
    assert frozenset(("a", "b")) not in skeleton(net)
    assert max(dict(net.in_degree()).values()) == 1


def test_weights_are_repetitions():
    data = mixed(200)
    weights = np.random.default_rng(0).integers(0, 3, 200)
    repeated = {name: np.repeat(column, weights) for name, column in data.items()}
    first = hill_climb(data, "gaussian", weights.astype(float))
    assert set(first.edges) == set(hill_climb(repeated, "gaussian").edges)


def test_the_same_seed_gives_the_same_network():
    data = mixed(300, missing=0.1)
    first, second = (hill_climb(data, "gaussian", random_state=7) for _ in range(2))
    assert list(first.edges) == list(second.edges)
    np.testing.assert_array_equal(
        as_kind(hb.LinearGaussian, first.potential("y")).intercept,
        as_kind(hb.LinearGaussian, second.potential("y")).intercept,
    )


def test_limits_hold_in_structural_em():
    data = mixed(400, missing=0.15)
    net = hill_climb(data, "gaussian", required=[("y", "lone")], forbidden=[("a", "b"), ("b", "a")])
    assert ("y", "lone") in net.edges
    assert frozenset(("a", "b")) not in skeleton(net)


def test_the_search_starts_where_it_is_told():
    data = mixed(300)
    arcs = [("lone", "a"), ("lone", "x")]
    # nothing may come, but what does not pay goes
    everything = [(u, v) for u in data for v in data if u != v and (u, v) not in arcs]
    assert not hill_climb(data, "gaussian", start=arcs, forbidden=everything).edges
    kept = hill_climb(data, "gaussian", start=[("b", "x")], forbidden=[p for p in everything if p != ("b", "x")])
    assert list(kept.edges) == [("b", "x")]


@pytest.mark.parametrize("missing", ["em", "available"])
def test_incomplete_tables(missing):
    data = mixed(600, missing=0.15)
    net = hill_climb(data, "gaussian", missing=missing)
    assert {frozenset(("b", "x")), frozenset(("x", "y"))} <= skeleton(net)
    assert np.isfinite(net.log_evidence(hb.Table(data))).all()


def test_other_families():
    net = hill_climb({name: column for name, column in mixed(300).items() if name != "lone"})
    assert frozenset(("x", "y")) in skeleton(net)
    assert net.potential("x").family == "mte"


def test_recovery_of_a_sampled_network():
    rng = np.random.default_rng(5)
    states = ("l", "m", "h")
    variables = [hb.Discrete(f"v{i}", states) for i in range(7)]
    parents = [(), (0,), (0,), (1, 2), (3,), (), (5, 4)]
    potentials = [
        hb.Multinomial(
            v, tuple(variables[p] for p in given), table=rng.dirichlet(np.full(3, 0.3), [3] * len(given) or None)
        )
        for v, given in zip(variables, parents, strict=True)
    ]
    net = hb.Network(potentials)
    found = hill_climb(net.sample(5000, random_state=0))
    true = {frozenset((f"v{p}", f"v{i}")) for i, given in enumerate(parents) for p in given}
    assert skeleton(found) == true


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"required": [("a", "c")]}, "names 'c'"),
        ({"required": [("a", "b"), ("b", "a")]}, "cycle"),
        ({"required": [("a", "b")], "forbidden": [("a", "b")]}, "both required and forbidden"),
        ({"start": [("a", "b"), ("b", "a")]}, "cycle"),
        ({"forbidden": ["ab", ("a", "a")]}, "arcs"),
        ({"max_parents": 0}, "max_parents"),
        ({"missing": "drop"}, "missing must be"),
        ({"tabu": -1}, "tabu must be a whole number"),
        ({"turns": 1.5}, "turns must be a whole number"),
        ({"restarts": True}, "restarts must be a whole number"),
    ],
)
def test_bad_requests(change, message):
    with pytest.raises(hb.HybridBNError, match=message):
        hill_climb(mixed(50), "gaussian", **change)


@pytest.mark.parametrize("family", ["gaussian", "kernel", "mte", "multinomial"])
def test_independent_columns_stay_unconnected(family: str) -> None:
    rng = np.random.default_rng(0)
    data = {"a": rng.normal(size=150), "b": rng.random(150), "c": rng.exponential(size=150), "d": rng.normal(size=150)}
    assert not hill_climb(data, family).edges  # type: ignore[arg-type]
