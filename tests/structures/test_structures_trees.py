"""Trees over attributes: TAN, k-dependence networks and Chow-Liu."""

import itertools
import warnings

import networkx as nx
import numpy as np
import pandas as pd
import pytest

import hybridbn as hb
from hybridbn.fitting import MultinomialFitter, fit
from hybridbn.structures import chow_liu, kdb, naive_bayes, tan
from hybridbn.structures.dependence import Dependence
from hybridbn.structures.training_data import read_data_with_target


def discrete(rows: int = 500, columns: int = 6, seed: int = 0) -> pd.DataFrame:
    """Columns along a random tree, given a class."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 3, rows)
    made: list[np.ndarray] = []
    for _ in range(columns):
        above = made[rng.integers(0, len(made))] if made else y
        kept = rng.random(rows)
        made.append(np.where(kept < 0.5, above, np.where(kept < 0.6, y, rng.integers(0, 4, rows))) % 4)
    names = rng.permutation([f"x{j}" for j in range(columns)])
    frame = pd.DataFrame({**dict(zip(names, made, strict=True)), "y": y})
    return frame.map(lambda code: f"s{code}")


def numbers(rows: int = 300, seed: int = 0, classes: bool = True) -> pd.DataFrame:
    """A chain x0 - x1 - x2 - x3 and a lone d, given a target."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, rows) if classes else rng.normal(size=rows)
    x: list[np.ndarray] = [y + rng.normal(size=rows)]
    for _ in range(3):
        x.append(x[-1] + 0.7 * y + rng.normal(size=rows))
    d = np.array(["u", "v"])[(x[3] + rng.normal(size=rows) > x[3].mean()).astype(int)]
    frame = pd.DataFrame({**{f"x{j}": column for j, column in enumerate(x)}, "d": d, "y": y})
    return frame.astype({"y": "category"}) if classes else frame


def inner(net: hb.Network, target: str) -> set[frozenset[str]]:
    return {frozenset(arc) for arc in net.edges if target not in arc}


def same(mine: hb.Network, yours: hb.Network, rtol: float = 0.0) -> None:
    assert set(mine.edges) == set(yours.edges)
    for name in mine:
        left, right = mine.potential(name).to_dict(), yours.potential(name).to_dict()
        for key in left:
            if rtol:
                np.testing.assert_allclose(left[key], right[key], rtol=rtol, atol=1e-12)
            else:
                np.testing.assert_array_equal(left[key], right[key])


def pyagrum_arcs(frame: pd.DataFrame, method: str) -> set[tuple[str, str]]:
    skbn = pytest.importorskip("pyagrum.skbn")
    processors = pytest.importorskip("pyagrum.lib.discreteTypeProcessor")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        peer = skbn.BNClassifier(
            type_processor=processors.DiscreteTypeProcessor("quantile"), learningMethod=method, prior="NoPrior"
        )
        peer.fit(frame.drop(columns="y"), frame["y"])
        return {(peer.bn_.variable(a).name(), peer.bn_.variable(b).name()) for a, b in peer.bn_.arcs()}


@pytest.mark.parametrize("seed", range(4))
def test_tan_is_pyagrums(seed):
    frame = discrete(seed=seed)
    information = Dependence(read_data_with_target(frame, "y", "auto", None)).measure_pairs()
    # pyAgrum leaves out arcs below half the mean, and takes the root that tells most about the class, as tan does
    threshold = sum(information.values()) / len(information) / 2
    assert set(tan(frame, "y", threshold=threshold).edges) == pyagrum_arcs(frame, "TAN")


@pytest.mark.parametrize("seed", range(3))
def test_chow_liu_is_pyagrums(seed):
    frame = discrete(seed=seed)
    arcs = pyagrum_arcs(frame, "Chow-Liu")
    mine = {frozenset(arc) for arc in chow_liu(frame).edges}
    # pyAgrum may leave out the weakest arcs
    assert {frozenset(arc) for arc in arcs} <= mine
    assert len(arcs) > 3


@pytest.mark.parametrize("seed", range(3))
def test_tan_is_the_likeliest_of_all_trees(seed):
    frame = discrete(columns=4, seed=seed)
    names = [name for name in frame if name != "y"]
    plain = MultinomialFitter(estimate=lambda counts: (counts + 1e-9) / (counts + 1e-9).sum(axis=-1, keepdims=True))

    def likelihood(net):
        return net.log_density(hb.Table(frame)).sum()

    found = likelihood(tan(frame, "y", plain))
    others = []
    for edges in itertools.combinations(itertools.combinations(names, 2), 3):
        graph = nx.Graph(edges)
        if nx.is_forest(graph) and len(graph) == 4:
            arcs = [("y", name) for name in names] + list(nx.bfs_tree(graph, names[0]).edges)
            others.append(likelihood(fit(arcs, frame, plain)))
    assert len(others) == 16
    assert found == pytest.approx(max(others), rel=1e-9)


@pytest.mark.parametrize("target", ["y", None])
def test_a_known_structure_is_found_again(target):
    rng = np.random.default_rng(1)
    y = hb.Discrete("y", ("n", "p"))
    first = hb.Discrete("x0", ("a", "b", "c"))
    potentials: list[hb.Potential] = [hb.Multinomial(y, table=[0.4, 0.6])] if target else []
    given = (y,) if target else ()
    shape = (2,) if target else ()
    potentials.append(hb.Multinomial(first, parents=given, table=rng.dirichlet([2, 2, 2], shape)))
    tree = {"x1": "x0", "x2": "x0", "x3": "x1", "x4": "x3", "x5": "x3"}
    known = {"x0": first}
    for name, above in tree.items():
        known[name] = hb.Discrete(name, ("a", "b", "c"))
        table = rng.dirichlet([0.7, 0.7, 0.7], (*shape, 3))
        potentials.append(hb.Multinomial(known[name], parents=(*given, known[above]), table=table))
    sample = hb.Network(potentials).sample(4000, random_state=0)
    net = tan(sample, target) if target else chow_liu(sample)
    assert inner(net, "y") == {frozenset(arc) for arc in tree.items()}


@pytest.mark.parametrize("potentials", ["gaussian", "mte", "kernel", "multinomial"])
@pytest.mark.parametrize("classes", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_chains_of_numbers_are_found_in_mixed_tables(potentials, classes):
    frame = numbers(classes=classes)
    net = tan(frame, "y", potentials)
    net.check()
    chain = {frozenset(pair) for pair in [("x0", "x1"), ("x1", "x2"), ("x2", "x3"), ("x3", "d")]}
    assert inner(net, "y") == chain
    assert inner(chow_liu(frame.drop(columns="y"), potentials), "y") == chain
    post = net.posterior("y", hb.Table(frame.iloc[:5]), tolerance=1e-4)
    assert np.isfinite(post.probabilities if hasattr(post, "probabilities") else post.mean()).all()


def test_learns_what_fit_learns_from_complete_and_incomplete_tables():
    frame = discrete()
    for table in (frame, frame.mask(np.random.default_rng(0).random(frame.shape) < 0.2)):
        for net in (tan(table, "y"), kdb(table, "y", k=2), chow_liu(table)):
            same(net, fit(hb.Network(net), table))
    mixed = numbers()
    mixed.loc[::7, "x1"] = np.nan
    mixed.loc[::5, "d"] = None
    for net in (tan(mixed, "y", "gaussian"), chow_liu(mixed, "gaussian")):
        same(net, fit(hb.Network(net), mixed))


@pytest.mark.parametrize("builder", [tan, kdb, lambda data, _, *rest: chow_liu(data, *rest)])
def test_neither_order_of_columns_nor_of_rows_matters(builder):
    rng = np.random.default_rng(0)
    for frame, potentials in ((discrete(200), "auto"), (numbers(200), "gaussian")):
        net = builder(frame, "y", potentials)
        other = builder(frame[rng.permutation(frame.columns)].iloc[::-1], "y", potentials)
        assert set(net.edges) == set(other.edges)
    # all columns are the same: nothing but names can decide
    column = list("abca") * 5
    equal = dict.fromkeys("qwerty", column)
    net = builder(equal, "y", "auto")
    assert set(net.edges) == set(builder(dict.fromkeys("ytrewq", column), "y", "auto").edges)


@pytest.mark.parametrize("builder", [tan, kdb, lambda data, _, *rest: chow_liu(data, *rest)])
def test_a_weight_is_as_good_as_repeated_rows(builder):
    weights = np.random.default_rng(0).integers(0, 4, 200)
    rows = np.repeat(np.arange(200), weights)
    for frame, potentials in ((discrete(200), "auto"), (numbers(200), "gaussian")):
        same(builder(frame, "y", potentials, weights), builder(frame.iloc[rows], "y", potentials), rtol=1e-7)


def test_roots():
    frame = discrete()
    relevance = Dependence(read_data_with_target(frame, "y", "auto", None)).measure_with_target()
    net = tan(frame, "y")
    (top,) = (name for name in relevance if list(net.predecessors(name)) == ["y"])
    assert relevance[top] == max(relevance.values())
    for root in ("x1", "x3"):
        chosen = tan(frame, "y", root=root)
        assert list(chosen.predecessors(root)) == ["y"]
        assert inner(chosen, "y") == inner(net, "y")
        assert not list(chow_liu(frame, root=root).predecessors(root))
    assert [name for name, count in chow_liu(frame).in_degree if not count] != []


def test_thresholds_leave_attributes_alone():
    frame = discrete()
    assert inner(tan(frame, "y", threshold=10.0), "y") == set()
    assert set(tan(frame, "y", threshold=10.0).edges) == set(naive_bayes(frame, "y").edges)
    assert not chow_liu(frame, threshold=10.0).edges
    independent = {"a": list("uuvv"), "b": list("uvuv"), "y": ["p"] * 2 + ["q"] * 2}
    assert inner(tan(independent, "y"), "y") == set()


def test_few_columns():
    frame = discrete(columns=2)
    assert list(tan(frame[["y"]], "y")) == ["y"]
    assert list(chow_liu(frame[["y"]])) == ["y"]
    assert list(kdb(frame[["y"]], "y")) == ["y"]
    one = frame[["x0", "y"]]
    for builder in (tan, kdb):
        same(builder(one, "y"), naive_bayes(one, "y"))


def test_k_dependence_by_hand():
    frame = discrete(columns=5)
    found = Dependence(read_data_with_target(frame, "y", "auto", None))
    pairs, relevance = found.measure_pairs(), found.measure_with_target()
    order = sorted(relevance, key=relevance.__getitem__, reverse=True)
    for k in range(5):
        net = kdb(frame, "y", k=k)
        for place, name in enumerate(order):
            earlier = sorted(order[:place], key=lambda other: pairs[min(name, other), max(name, other)], reverse=True)
            assert set(net.predecessors(name)) == {"y", *earlier[:k]}
    same(kdb(frame, "y", k=0), naive_bayes(frame, "y"))


def test_rows_without_a_target_or_with_holes_still_count_where_they_can():
    frame = discrete()
    frame.loc[:100, "y"] = None
    frame.loc[::3, "x2"] = None
    pairs = Dependence(read_data_with_target(frame, "y", "auto", None)).measure_pairs()
    complete = frame.dropna(subset=["y", "x0", "x2"])
    wanted = Dependence(read_data_with_target(complete[["y", "x0", "x2"]], "y", "auto", None)).measure_pairs()[
        "x0", "x2"
    ]
    assert pairs["x0", "x2"] == pytest.approx(wanted * len(complete) / len(frame), abs=1e-11)
