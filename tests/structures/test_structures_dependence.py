"""Mutual information of pairs, against other implementations and closed forms."""

import itertools

import networkx as nx
import numpy as np
import pytest
from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from sklearn.metrics import mutual_info_score

import hybridbn as hb
from hybridbn.fitting import GaussianFitter, equal_frequency
from hybridbn.structures.dependence import (
    Dependence,
    _log_ratio,
    find_maximum_spanning_tree,
    measure_occurring,
    varies,
)
from hybridbn.structures.training_data import read_data_with_target, read_data_without_target

tables_of_counts = hnp.arrays(
    np.float64,
    st.tuples(st.integers(1, 3), st.integers(1, 4), st.integers(1, 4)),
    elements=st.integers(0, 30).map(float),
)


def measured(data, target=None, potentials="gaussian", weights=None) -> Dependence:
    if target is None:
        return Dependence(read_data_without_target(data, potentials, weights))
    return Dependence(read_data_with_target(data, target, potentials, weights))


def mutual_information(counts):
    occurring = np.flatnonzero(counts)
    return measure_occurring(occurring, counts.ravel()[occurring], counts.shape) / max(counts.sum(), 1)


@given(tables_of_counts)
@settings(deadline=None, max_examples=examples(60))
def test_information_of_counts_is_the_sum_over_conditions(counts):
    found = mutual_information(counts)
    by_state = 0.0
    for table in counts:
        if table.sum() > 0:
            i, j = np.indices(table.shape)
            repeats = table.ravel().astype(int)
            score = mutual_info_score(np.repeat(i.ravel(), repeats), np.repeat(j.ravel(), repeats))
            by_state += table.sum() * score
    assert found == pytest.approx(by_state / max(counts.sum(), 1), abs=1e-12)
    assert found == pytest.approx(mutual_information(counts.transpose(0, 2, 1)), abs=1e-12)
    assert found >= 0


def test_discrete_pairs_and_targets_with_weights():
    rng = np.random.default_rng(0)
    c = rng.integers(0, 2, 300)
    a, b = (c + (rng.random(300) < 0.3)) % 3, (c + (rng.random(300) < 0.2)) % 2
    weights = rng.integers(0, 3, 300)
    found = measured(hb.Table({"b": b, "a": a, "c": c}, discrete=["a", "b", "c"]), "c", weights=weights)
    rows = np.repeat(np.arange(300), weights)
    share = np.bincount(c[rows]) / len(rows)
    wanted = sum(share[k] * mutual_info_score(a[rows][c[rows] == k], b[rows][c[rows] == k]) for k in (0, 1))
    assert found.measure_pairs() == {("a", "b"): pytest.approx(wanted, abs=1e-11)}
    assert list(found.measure_with_target()) == ["b", "a"]
    assert found.measure_with_target()["a"] == pytest.approx(mutual_info_score(a[rows], c[rows]), abs=1e-11)


@pytest.mark.parametrize("holes", [False, True])
def test_linear_gaussian_pairs_have_the_information_of_their_correlation(holes):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(400, 3)) @ rng.normal(size=(3, 3))
    c = rng.integers(0, 2, 400)
    x[c == 1] *= [1, 2, -3]
    if holes:
        x[rng.random((400, 3)) < 0.2] = np.nan
    data = {**dict(zip("abe", x.T, strict=True)), "c": np.array(["u", "v"])[c]}
    found = measured(data, "c").measure_pairs()
    for i, j in itertools.combinations(range(3), 2):
        seen = ~np.isnan(x[:, [i, j]]).any(axis=1)
        wanted = 0.0
        for state in (0, 1):
            rows = x[seen & (c == state)]
            wanted -= 0.5 * len(rows) / 400 * np.log1p(-(np.corrcoef(rows[:, i], rows[:, j])[0, 1] ** 2))
        assert found["abe"[i], "abe"[j]] == pytest.approx(wanted, rel=1e-9)


def test_a_continuous_target_conditions_by_partial_correlation():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(300, 3)) @ rng.normal(size=(3, 3))
    found = measured(dict(zip("aby", x.T, strict=True)), "y")
    inverse = np.linalg.inv(np.corrcoef(x.T))
    partial = -inverse[0, 1] / np.sqrt(inverse[0, 0] * inverse[1, 1])
    assert found.measure_pairs()["a", "b"] == pytest.approx(-0.5 * np.log1p(-(partial**2)), rel=1e-9)
    relevance = -0.5 * np.log1p(-(np.asarray(np.corrcoef(x.T))[0, 2] ** 2))
    assert found.measure_with_target()["a"] == pytest.approx(relevance, rel=1e-9)


def test_a_mixed_pair_has_the_information_of_the_number_given_the_state():
    rng = np.random.default_rng(0)
    d = rng.integers(0, 3, 500)
    x = d + rng.normal(size=500)
    wanted = np.log(x.std()) - sum(np.mean(d == k) * np.log(x[d == k].std()) for k in range(3))
    for data, target in (({"d": d, "x": x}, None), ({"d": d, "x": x}, "x"), ({"d": d, "x": x}, "d")):
        found = measured(hb.Table(data, discrete="d"), target)
        value = found.measure_pairs()["d", "x"] if target is None else next(iter(found.measure_with_target().values()))
        assert value == pytest.approx(wanted, rel=1e-9)


def test_discrete_pairs_given_a_number_are_counted_in_its_cells():
    rng = np.random.default_rng(0)
    y = rng.normal(size=600)
    a, b = ((y + rng.normal(size=600) > 0).astype(int) for _ in range(2))
    e = np.where(rng.random(600) < 0.1, 1 - a, a)
    found = measured(hb.Table({"a": a, "b": b, "e": e, "y": y}, discrete=["a", "b", "e"]), "y").measure_pairs()
    cells = np.searchsorted(equal_frequency(y, bins=4), y, side="right")
    counts = np.zeros((4, 2, 2))
    np.add.at(counts, (cells, a, b), 1)
    assert found["a", "b"] == pytest.approx(mutual_information(counts), abs=1e-11)
    # a and b depend on each other through y only
    assert found["a", "b"] < 0.02 < 0.15 < found["a", "e"]


def test_cells_of_a_target_are_the_same_for_weights_and_repeated_rows():
    rng = np.random.default_rng(0)
    data = hb.Table({"a": rng.choice(list("uv"), 90), "b": rng.choice(list("uv"), 90), "y": rng.normal(size=90)})
    weights = rng.integers(0, 8, 90)
    weighted = measured(data, "y", weights=weights).measure_pairs()
    assert weighted == measured(data.take(np.repeat(np.arange(90), weights)), "y").measure_pairs()


@pytest.mark.parametrize("potentials", ["mte", "gaussian"])
def test_units_do_not_matter(potentials):
    rng = np.random.default_rng(0)
    a = rng.normal(size=200)
    b = a + rng.normal(size=200)
    b[0] = 100.0
    small, large = (
        measured({"a": factor * a, "b": factor * b}, None, potentials).measure_pairs() for factor in (1.0, 2.0**60)
    )
    assert small["a", "b"] == pytest.approx(large["a", "b"], abs=1e-6)


def test_a_constant_column_is_refused_before_the_work_begins():
    rng = np.random.default_rng(0)
    data = {"a": rng.normal(size=50), "b": rng.normal(size=50), "k": np.full(50, 2.0)}
    found = measured(data, None, dict.fromkeys(data, "gaussian"))
    with pytest.raises(hb.TableError, match="'k' is constant"):
        found.measure_pairs()
    assert not found.reusable_potentials()


def test_impossible_rows_speak_against_a_parent():
    above, below = np.array([-np.inf, -np.inf, 0.0, 1.0]), np.array([-np.inf, 0.0, -np.inf, 3.0])
    least = np.log(np.finfo(float).tiny)
    np.testing.assert_array_equal(_log_ratio(above, below), [0, least, -least, -2])


def test_a_column_varies_where_two_values_are_seen():
    data = read_data_with_target(
        {"x": [1.0, None, 1.0, 2.0], "d": ["u", None, "u", "v"], "c": list("abab")}, "c", "gaussian", None
    )
    assert [varies(data, name) for name in ("x", "d")] == [True, True]
    assert [varies(data.take([0, 1, 2]), name) for name in ("x", "d", "c")] == [False, False, True]
    weighted = read_data_with_target(data.table, "c", "gaussian", [1, 1, 1, 0])
    assert [varies(weighted, name) for name in ("x", "d")] == [False, False]


@pytest.mark.parametrize("potentials", ["mte", "kernel"])
def test_densities_without_a_formula_come_near_the_truth(potentials):
    rng = np.random.default_rng(0)
    c = rng.integers(0, 2, 1000)
    a = rng.normal(size=1000) + c
    data = {"a": a, "b": a + rng.normal(size=1000), "e": rng.normal(size=1000) - c, "c": np.array(["u", "v"])[c]}
    found = measured(data, "c", potentials).measure_pairs()
    assert found["a", "b"] == pytest.approx(0.5 * np.log(2), rel=0.2)
    assert abs(found["a", "e"]) < 0.02
    assert abs(found["b", "e"]) < 0.02


def test_kernels_of_the_structure_are_not_those_of_the_network():
    rng = np.random.default_rng(0)
    data = {"a": rng.normal(size=50), "b": rng.normal(size=50), "c": list("uv") * 25}
    found = measured(data, "c", "kernel")
    found.measure_pairs()
    assert not found.reusable_potentials()
    found = measured(data, "c", "gaussian")
    found.measure_pairs()
    assert ("a", "c", "b") in found.reusable_potentials()


def test_pairs_never_seen_together_or_constant_tell_nothing():
    data = {"a": [1.0, 2, 3, None, None, None], "b": [None, None, None, 1.0, 2, 3], "k": [2.0] * 6, "d": list("uuuvvv")}
    found = measured(data, None, GaussianFitter(floor=0.1)).measure_pairs()
    assert found["a", "b"] == found["a", "d"] == found["a", "k"] == found["d", "k"] == 0


@given(st.integers(2, 7), st.integers(0, 1000), st.sampled_from([0.0, 0.5]))
@settings(deadline=None, max_examples=examples(40))
def test_branches_are_a_maximum_spanning_forest(size, seed, threshold):
    rng = np.random.default_rng(seed)
    names = [f"n{i}" for i in rng.permutation(size)]
    pairs = {pair: float(rng.integers(0, 5)) / 4 for pair in itertools.combinations(sorted(names), 2)}
    importance = dict.fromkeys(names, 0.0)
    parents = find_maximum_spanning_tree(names, pairs, importance, names[0], threshold)
    forest = nx.DiGraph((above[0], name) for name, above in parents.items() if above)
    forest.add_nodes_from(names)
    assert nx.is_forest(forest)
    assert not parents[names[0]]
    joined = {pair: weight for pair, weight in pairs.items() if weight > threshold}
    graph = nx.Graph(list(joined))
    graph.add_nodes_from(names)
    assert nx.number_weakly_connected_components(forest) == nx.number_connected_components(graph)
    weight = sum(pairs[min(arc), max(arc)] for arc in forest.edges)
    sets = itertools.combinations(joined, forest.number_of_edges()) if 0 < forest.number_of_edges() < 5 else []
    best = [sum(joined[edge] for edge in edges) for edges in sets if nx.is_forest(nx.Graph(edges))]
    assert not best or weight == pytest.approx(max(best))
    assert find_maximum_spanning_tree(names[::-1], pairs, importance, names[0], threshold) == parents


@pytest.mark.parametrize("missing", [0.0, 0.3])
@pytest.mark.parametrize("weighted", [False, True])
def test_linear_pairs_from_moments_are_those_of_fitted_densities(missing, weighted):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(120, 4))
    x[:, 1] += x[:, 0]
    x[:, 2] = 1e6 + 100 * x[:, 3] + x[:, 2]
    x[rng.random(x.shape) < missing] = np.nan
    table = hb.Table({f"x{i}": column for i, column in enumerate(x.T)})
    weights = rng.integers(0, 3, 120).astype(float) if weighted else None
    dependence = Dependence(read_data_without_target(table, "gaussian", weights))
    measured = dependence.measure_pairs()
    for pair, value in measured.items():
        assert value == pytest.approx(dependence._measure_gain(pair[0], (), pair[1]), abs=1e-9)
    assert len(measured) == 6
