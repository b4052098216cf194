"""What learns from large tables in little memory and time gives the same as what does all at once."""

import itertools
import tracemalloc

import numpy as np
import pytest
from narrowing import as_discrete, as_kind

import hybridbn as hb
from hybridbn.fitting import counting, ridge
from hybridbn.fitting.counting import NumpyCounter, RowCounter
from hybridbn.fitting.mte import CellGains, MTEFitter
from hybridbn.structures import column_splits, dependence, hill_climb, mixture, nb_tree, tan
from hybridbn.structures.dependence import Dependence
from hybridbn.structures.heldout import _ROWS, fit_residual_mixture
from hybridbn.structures.scores import FamilyScores
from hybridbn.structures.training_data import read_data_with_target, read_data_without_target


def make_states(rows: int = 400, columns: int = 7, states: int = 4, holes: float = 0.0) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(columns)
    codes = np.cumsum(rng.integers(states, size=(columns, rows)) * (rng.random((columns, 1)) < 0.7), axis=0) % states
    return {
        f"c{i}": np.where(
            rng.random(rows) < holes, np.array(None), np.array([f"s{code}" for code in column], dtype=object)
        )
        for i, column in enumerate(codes)
    }


def remember(columns: dict[str, np.ndarray]) -> RowCounter:
    variables = [hb.Discrete(name, (0, 1, 2)) for name in columns]
    return RowCounter(hb.Table.from_arrays(variables, columns), variables)


@pytest.mark.parametrize("holes", [0.0, 0.2])
@pytest.mark.parametrize("remembered", [0, 2**22])
def test_pairs_come_in_batches(monkeypatch, holes, remembered):
    monkeypatch.setattr(counting, "_REMEMBERED_CELLS", remembered)
    rng = np.random.default_rng(0)
    columns = {f"c{i}": rng.integers(-1 if holes else 0, 3, 300) for i in range(6)}
    counter, plain = remember(columns), NumpyCounter(columns, dict.fromkeys(columns, 3))
    names = list(columns)[1:]
    whole: dict[tuple[str, ...], np.ndarray] = {}
    for pair in itertools.combinations(names, 2):
        whole["c0", *pair] = counter.joint(("c0", *pair))
    for most in (1, 200, 2**22):
        monkeypatch.setattr(counting, "_PASS_CELLS", most)
        for batches in (list(counter.pair_batches(names, ("c0",))), [plain.pairs(names, ("c0",))]):
            tables = dict(item for batch in batches for item in batch.items())
            assert tables.keys() == whole.keys()
            for family, table in tables.items():
                np.testing.assert_array_equal(table, whole[family])


@pytest.mark.parametrize("holes", [0.0, 0.2])
def test_information_from_what_occurs_is_that_of_the_tables(monkeypatch, holes):
    read = read_data_with_target(make_states(holes=holes), "c0", "auto", None)
    tables = Dependence(read).measure_pairs()
    monkeypatch.setattr(dependence, "_SPARSE", 0)
    monkeypatch.setattr(dependence, "_LEAST_SPARSE", 0)
    assert Dependence(read).measure_pairs() == pytest.approx(tables, abs=1e-11)


def test_wide_columns_take_little_more_memory_than_the_network():
    """Tables of counts and of probabilities are not held twice, nor remembered beyond a bound."""
    rng = np.random.default_rng(0)
    table = hb.Table({f"c{i}": rng.integers(600 if i else 2, size=3000).astype(str) for i in range(7)})
    tan(table.take(np.arange(50)), "c0")
    tracemalloc.start()
    network = tan(table, "c0")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    held = sum(as_kind(hb.Multinomial, network.potential(name)).table.nbytes for name in network)
    assert peak < 1.4 * held + 4 * 2**20


def test_a_counter_remembers_no_more_than_it_may(monkeypatch):
    monkeypatch.setattr(counting, "_REMEMBERED_CELLS", 5 * (9 + 64))
    rng = np.random.default_rng(0)
    columns = {f"c{i}": rng.integers(0, 3, 100) for i in range(6)}
    counter, plain = remember(columns), NumpyCounter(columns, dict.fromkeys(columns, 3))
    families = [*itertools.permutations(columns, 2)]
    for _ in range(2):
        for families_asked in (families, families[::-1]):
            for family, counts in counter.count(families_asked).items():
                np.testing.assert_array_equal(counts, plain.joint(family))
    known = {id(known.table) for tables in counter._memory.tables.values() for known in tables.values()}
    assert len(known) == 5


def test_hundreds_of_columns_make_a_tree():
    rng = np.random.default_rng(0)
    data = {f"c{i}": rng.integers(5, size=60).astype(str) for i in range(110)}
    assert tan(data, "c0").number_of_edges() == 109 + 108


@pytest.mark.parametrize("holes", [0.0, 0.1])
def test_naive_bayes_trees_weigh_wide_columns_alike(monkeypatch, holes):
    data = make_states(holes=holes)
    data["c0"] = make_states()["c0"]
    expected = nb_tree(data, "c0")
    monkeypatch.setattr(column_splits, "SPARSE", 0)
    found = nb_tree(data, "c0")
    assert list(found) == list(expected)
    assert [found.variable(name) for name in found] == [expected.variable(name) for name in expected]


def make_numbers(rows: int = 300) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(2)
    x, z = rng.normal(size=(2, rows))
    c = np.where(rng.random(rows) < 1 / (1 + np.exp(-2 * x)), "a", "b")
    return {"x": x, "y": np.abs(x) + 0.3 * rng.normal(size=rows), "z": z, "c": c}


def test_gains_of_cells_do_not_depend_on_units_or_on_repeated_rows():
    data = make_numbers()
    table = hb.Table(data)
    moved = hb.Table({**data, "x": 1e3 * data["x"] + 5, "y": 2 * data["y"]})
    weighted = hb.Table(data, weights=np.full(300, 2.0))
    fitter = MTEFitter()
    for child, parents in (("y", ("x",)), ("y", ("x", "c")), ("c", ("x",)), ("z", ("x",)), ("c", ("x", "z"))):
        names = table.variable(child), [table.variable(name) for name in parents]
        gain = CellGains(table).measure(fitter, *names)
        same = CellGains(moved).measure(fitter, moved.variable(child), [moved.variable(name) for name in parents])
        assert same.likelihood == pytest.approx(gain.likelihood, rel=1e-9, abs=1e-9)
        twice = CellGains(hb.Table({k: np.tile(v, 2) for k, v in data.items()})).measure(fitter, *names)
        assert CellGains(weighted).measure(fitter, *names) == pytest.approx(twice)


def test_gains_of_cells_leave_out_rows_with_holes():
    data = make_numbers()
    data["x"][:100] = np.nan
    table = hb.Table(data)
    x, y, z, _ = table.variables
    gains = CellGains(table)
    assert gains.measure(MTEFitter(), y, (x,)).weight == 200
    assert gains.measure(MTEFitter(), y, (z,), (x,)).weight == 200
    assert gains.measure(MTEFitter(), y, (z,)).weight == 300


def test_the_parents_of_the_found_network_are_worth_it_by_their_fitted_densities():
    data = make_numbers()
    net = hill_climb(data)
    assert frozenset(("x", "y")) in {frozenset(arc) for arc in net.edges}
    assert not list(net.predecessors("z"))
    scores = FamilyScores(read_data_without_target(data, "auto", None))
    for child in net:
        parents = tuple(name for name in data if name in net.pred[child])
        for name in parents:
            rest = tuple(other for other in parents if other != name)
            assert scores._fit(child, parents)[0] > scores._fit(child, rest)[0]


@pytest.mark.parametrize("rows", [7, 1000])
def test_rows_left_out_in_blocks_are_those_left_out_one_by_one(monkeypatch, rows):
    monkeypatch.setattr(ridge, "_ROWS", rows)
    rng = np.random.default_rng(1)
    x, weights = rng.normal(size=(40, 3)), rng.random(40) + 0.5
    x[:, 2] = x[:, 0] - x[:, 1]
    y = x[:, 0] + 0.5 * rng.normal(size=40)
    found = ridge._fit_leaving_one_out(x, y, weights, np.ones(len(y)), np.array([1.0, 2.0, 3.0]))
    center, mean = weights @ x / weights.sum(), weights @ y / weights.sum()
    root = np.sqrt(weights)
    design = (x - center) * root[:, None]
    within = design.T @ design + np.diag(found.penalties)
    np.testing.assert_allclose(found.slopes, np.linalg.solve(within, design.T @ ((y - mean) * root)), atol=1e-10)
    leverage = np.einsum("ij,ij->i", design, np.linalg.solve(within, design.T).T) + weights / weights.sum()
    np.testing.assert_allclose(found.residuals, (y - mean - (x - center) @ found.slopes) / (1 - leverage), atol=1e-10)


def test_residuals_in_blocks_are_those_of_all_rows(monkeypatch):
    rng = np.random.default_rng(3)
    rows = rng.integers(50, size=400)
    arguments = rng.normal(size=400) * rng.choice([1, 6], 400), rng.random(400) + 0.5, rows, rng.random(50)
    whole = fit_residual_mixture(*arguments)
    assert _ROWS > 50
    monkeypatch.setitem(fit_residual_mixture.__globals__, "_ROWS", 7)
    for one, two in zip(whole, fit_residual_mixture(*arguments), strict=True):
        np.testing.assert_allclose(np.asarray(one), np.asarray(two), rtol=1e-10)


def test_components_are_chosen_on_a_sample_and_fitted_to_all_rows():
    rng = np.random.default_rng(0)
    group = rng.integers(3, size=4000)
    x = {f"x{i}": 4.0 * (group == i) + rng.normal(size=4000) for i in range(3)}
    net = mixture(x, random_state=1)
    assert len(as_discrete(net.variable("cluster"))) == 3
    shares = np.sort(as_kind(hb.Multinomial, net.potential("cluster")).table)
    np.testing.assert_allclose(shares, np.sort(np.bincount(group)) / 4000, atol=0.01)
