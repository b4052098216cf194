"""Bootstrap of structures: strengths, thresholds, averages, equivalence classes, executors."""

from __future__ import annotations

import itertools
import json
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from functools import partial
from typing import Any

import networkx as nx
import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from known_answers import ANSWERS
from scipy import stats

import hybridbn as hb
from hybridbn.learning.arc_comparison import _resample, find_strength_threshold
from hybridbn.structures import builder, chow_liu, hill_climb, naive_bayes
from hybridbn.structures.arcs import find_essential_graph, matrix_of, structural_distance
from hybridbn.structures.building import BUILDERS, Build


def collider(rows: int = 150, missing: float = 0.0, seed: int = 0) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    x, z = rng.normal(size=(2, rows))
    y = x + z + 0.5 * rng.normal(size=rows)
    c = np.where(rng.random(rows) < 1 / (1 + np.exp(-3 * y)), "p", "n")
    y[rng.random(rows) < missing] = np.nan
    return {"x": x, "y": y, "z": z, "c": c}


def all_graphs(size: int) -> list[np.ndarray]:
    pairs = list(itertools.combinations(range(size), 2))
    graphs = []
    for kinds in itertools.product((0, 1, 2), repeat=len(pairs)):
        arcs = np.zeros((size, size), dtype=bool)
        for (a, b), kind in zip(pairs, kinds, strict=True):
            if kind:
                arcs[(a, b) if kind == 1 else (b, a)] = True
        if nx.is_directed_acyclic_graph(nx.from_numpy_array(arcs.astype(int), create_using=nx.DiGraph)):
            graphs.append(arcs)
    return graphs


def colliders(arcs: np.ndarray) -> bytes:
    joined = arcs | arcs.T
    triples = [
        (a, b, c)
        for a, b, c in itertools.permutations(range(len(arcs)), 3)
        if a < c and arcs[a, b] and arcs[c, b] and not joined[a, c]
    ]
    return joined.tobytes() + repr(triples).encode()


GRAPHS = {size: all_graphs(size) for size in (3, 4)}


@given(st.sampled_from((3, 4)).flatmap(lambda size: st.tuples(st.sampled_from(GRAPHS[size]), st.integers(0, 2**16))))
def test_essential_graphs_are_what_equivalent_graphs_share(case: tuple[np.ndarray, int]) -> None:
    arcs, bits = case
    size = len(arcs)
    fixed = arcs & (bits >> np.arange(size * size).reshape(size, size) & 1).astype(bool)
    for known in (None, fixed):
        alike = [other for other in GRAPHS[size] if colliders(other) == colliders(arcs)]
        if known is not None:
            alike = [other for other in alike if (other | ~known).all()]
        graph = find_essential_graph(arcs, known)
        assert (graph.directed == np.all(alike, axis=0)).all()
        assert (graph.arcs == np.any(alike, axis=0)).all()


@given(st.lists(st.integers(0, 20), max_size=30), st.floats(0, 1))
def test_the_threshold_minimizes_the_distance_to_certain_arcs(counts: list[int], other: float) -> None:
    strengths = np.array(counts, dtype=float) / 20
    grid = (np.arange(2000) + 0.5) / 2000
    distribution = (
        np.searchsorted(np.sort(strengths), grid, side="right") / max(len(counts), 1) if counts else np.zeros(len(grid))
    )
    threshold = find_strength_threshold(strengths)
    level = (strengths <= threshold).mean() if counts and (strengths < 0.5).any() else 0.0
    assert np.abs(distribution - level).mean() <= np.abs(distribution - other).mean() + 1e-9
    assert threshold == 0 or threshold in strengths


def test_strengths_are_the_shares_of_the_networks() -> None:
    data = collider()
    result = hb.bootstrap(hill_climb, data, 11, random_state=2, potentials="gaussian")
    frame = result.strengths
    assert list(frame.columns) == ["from", "to", "strength", "direction"]
    assert frame.strength.is_monotonic_decreasing
    both = frame.merge(frame, left_on=["from", "to"], right_on=["to", "from"])
    assert np.allclose(both.direction_x + both.direction_y, 1)
    sure = frame[frame.strength == 1]
    assert {("x", "y"), ("z", "y")} <= set(zip(sure["from"], sure["to"], strict=True))
    net = result.network(0.7)
    net.check()
    assert set(net.edges) == {("x", "y"), ("z", "y"), ("y", "c")}
    assert set(result.cpdag(0.7).edges) == set(net.edges)
    assert result.network(1.0).number_of_edges() == 0
    assert f"{result.network().number_of_edges()} arcs stronger" in repr(result)


def test_open_directions_count_half() -> None:
    data = collider()
    result = hb.bootstrap(chow_liu, {name: data[name] for name in ("x", "y", "z")}, 10, potentials="gaussian")
    assert (result.strengths.direction == 0.5).all()
    graph = result.cpdag()
    assert all(graph.has_edge(b, a) for a, b in graph.edges)


def test_arcs_of_builders_with_a_target_count_as_they_are() -> None:
    result = hb.bootstrap(naive_bayes, collider(60), 5, target="c")
    assert set(result.network().edges) == set(result.cpdag().edges) == {("c", "x"), ("c", "y"), ("c", "z")}


def test_any_executor_gives_the_same() -> None:
    data = collider(60)
    alone = hb.bootstrap("hill_climb", data, 7, potentials="gaussian")
    with ThreadPoolExecutor(2) as pool:
        shared = hb.bootstrap("hill_climb", data, 7, potentials="gaussian", executor=pool)
    assert alone.strengths.equals(shared.strengths)
    assert not alone.strengths.equals(hb.bootstrap("hill_climb", data, 7, 1, potentials="gaussian").strengths)


@pytest.mark.slow
def test_processes_give_the_same() -> None:
    data = collider(60)
    alone = hb.bootstrap("hill_climb", data, 7, potentials="gaussian")
    with ProcessPoolExecutor(2) as pool:
        assert alone.strengths.equals(
            hb.bootstrap("hill_climb", data, 7, potentials="gaussian", executor=pool).strengths
        )
        with pytest.raises(hb.TableError, match="can't be sent to other processes"):
            hb.bootstrap(lambda table, target: None, data, 7, target="c", executor=pool)


def test_rows_are_drawn_where_a_builder_takes_no_weights() -> None:
    seen: list[tuple[int, bool]] = []

    @builder(takes_target=False, takes_weights=False)
    def rows_only(data: Any, potentials: Any = "auto", weights: Any = None) -> hb.Network:
        seen.append((len(data), data.weighted))
        return hb.fit([("x", "y")], data, "gaussian")

    try:
        result = hb.bootstrap(rows_only, collider(40), 3)
    finally:
        del BUILDERS["rows_only"]
    assert seen == [(40, False)] * 3
    assert result.strengths.strength.tolist() == [1.0, 1.0]


def test_whole_weights_are_repetitions_of_rows() -> None:
    data = collider(40)
    weights = np.arange(40) % 3
    weighted = hb.bootstrap("hill_climb", data, 10, potentials="gaussian", weights=weights)
    scaled = hb.bootstrap("hill_climb", data, 10, potentials="gaussian", weights=weights.astype(float))
    assert weighted.strengths.equals(scaled.strengths)


def test_missing_cells_are_left_to_the_builder() -> None:
    data = collider(80, missing=0.2)
    build = partial(hill_climb, missing="available")
    result = hb.bootstrap(build, data, 10, potentials="gaussian")
    strong = result.strengths[result.strengths.strength > 0.9]
    assert {("x", "y"), ("z", "y")} <= set(zip(strong["from"], strong["to"], strict=True))
    result.network().check()


def test_rare_values_stay_in_the_resamples() -> None:
    rng = np.random.default_rng(0)
    rare = np.zeros(60)
    rare[7] = 1.0  # in one of three resamples constant
    result = hb.bootstrap("hill_climb", {"rare": rare, "x": rng.normal(size=60)}, 20, potentials="gaussian")
    assert result.replicates == 20


def test_bad_requests_are_refused() -> None:
    data = collider(30)
    with pytest.raises(hb.TableError, match="number of replicates"):
        hb.bootstrap("hill_climb", data, 0)
    with pytest.raises(hb.NetworkError, match="needs a target"):
        hb.bootstrap("tan", data, 5)
    with pytest.raises(hb.NetworkError, match="hidden nodes"):
        hb.bootstrap("mixture", data, 2)
    with pytest.raises(hb.TableError, match="between 0 and 1"):
        hb.bootstrap([("x", "y")], data, 2, potentials="gaussian").network(1.5)
    with pytest.raises(hb.TableError, match="executor"):
        hb.bootstrap([("x", "y")], data, 2, executor=2)  # type: ignore[arg-type]


def test_the_picture_shows_strengths_and_open_directions() -> None:
    pyplot = pytest.importorskip("matplotlib.pyplot")
    from matplotlib.patches import FancyArrowPatch

    result = hb.bootstrap("hill_climb", collider(), 11, potentials="gaussian")
    ax = result.plot()
    arrows = [patch for patch in ax.patches if isinstance(patch, FancyArrowPatch)]
    assert len(arrows) == result.network().number_of_edges() > 2
    assert {text.get_text() for text in ax.texts} >= {"x", "y", "z", "c"}
    pyplot.close("all")


def test_distances_count_pairs() -> None:
    first, second = (
        matrix_of([(arc[0], arc[1]) for arc in arcs], "abcd") for arcs in (["ab", "bc", "cd"], ["ba", "bc", "ad"])
    )
    assert structural_distance(first, second) == structural_distance(second, first) == 3
    assert structural_distance(first, first) == 0


@pytest.mark.slow
def test_averaged_networks_are_closer_to_the_true_one() -> None:
    folder = ANSWERS / "spbn"
    pandas = pytest.importorskip("pandas")
    truth = json.loads((folder / "ecoli70.json").read_text())
    train, test = (pandas.read_csv(folder / f"ecoli70_{part}.csv.xz") for part in ("200", "test"))
    averaged = hb.bootstrap("hill_climb", train, potentials="gaussian").network()
    true_arcs = [tuple(arc) for arc in truth["arcs"]]
    distances = {}
    for name, net in (("averaged", averaged), ("single", hill_climb(train, "gaussian"))):
        distances[name] = hb.compare(true_arcs, net).essential_distance
    assert distances["averaged"] <= 40 < distances["single"] <= 70
    result = hb.compare(hb.fit([], train, "gaussian"), averaged, test)
    assert result.gain > 2 * result.standard_error  # type: ignore[operator]


def draw_sparse_network(rng: np.random.Generator, size: int, rows: int) -> tuple[pd.DataFrame, list[tuple[str, str]]]:
    """Return rows of linear Gaussian variables with three neighbors each, about, and the arcs between these."""
    arcs = np.triu(rng.random((size, size)) < 3 / size, 1)
    coefficients = arcs * rng.uniform(0.4, 0.9, arcs.shape) * rng.choice([-1, 1], arcs.shape)
    values = rng.normal(size=(rows, size))
    for child in range(size):
        values[:, child] += values @ coefficients[:, child]
    names = [f"x{number}" for number in range(size)]
    return pd.DataFrame(values, columns=names), [(names[a], names[b]) for a, b in np.argwhere(arcs)]


@pytest.mark.slow
def test_averages_over_networks_are_closer_to_the_true_ones_and_predict_better() -> None:
    """One table tells little of it: its gain depends on the bootstrap's draws by more than on the rows predicted."""
    gains: list[Any] = []
    nearer: list[Any] = []
    for seed in range(8):
        data, arcs = draw_sparse_network(np.random.default_rng(seed), 40, 1100)
        train, test = data[:100], data[100:]
        single = hill_climb(train, "gaussian")
        averaged = hb.bootstrap("hill_climb", train, 40, potentials="gaussian").network()
        gains.append(hb.compare(single, averaged, test).gain)
        distances = [hb.compare(arcs, network).essential_distance for network in (single, averaged)]
        nearer.append(distances[0] - distances[1])
    for differences in (gains, nearer):
        assert np.mean(differences) > 4 * stats.sem(differences)


def test_weights_are_frequencies_and_orders_tell_nothing() -> None:
    data = pd.DataFrame(collider())
    weights = np.random.default_rng(0).integers(0, 4, len(data))
    order = np.random.default_rng(1).permutation(len(data))

    def count(frame: pd.DataFrame, given: Any = None) -> pd.DataFrame:
        return hb.bootstrap(chow_liu, frame, 5, potentials="gaussian", weights=given, random_state=3).strengths

    plain = count(data.loc[np.repeat(np.arange(len(data)), weights)])
    pd.testing.assert_frame_equal(count(data.loc[order], weights[order]), plain)


def test_other_columns_vary_beside_a_constant() -> None:
    table = hb.Table({"x": np.append(np.zeros(11), 1.0), "y": np.arange(12.0), "c": np.ones(12)})
    samples = [_resample(table, seed, Build.of("chow_liu")) for seed in range(30)]
    assert all((sample.weights[-1] > 0) and sample.weights[-1] < 12 for sample in samples)
