"""Growing trees: what holds for every order and criterion; counts by brute force; and ridge regressions against their
definitions.
"""

import itertools
import pickle

import numpy as np
import pytest
from scipy import stats

import hybridbn as hb
from hybridbn.fitting.ridge import Spectrum, regress_towards
from hybridbn.fitting.trees import (
    _PRIOR,
    BestFirst,
    CodedColumn,
    LikelihoodGain,
    LocatedRows,
    Route,
    Sample,
    Split,
    grow,
    leaves,
    make_class_models,
    make_value_models,
)
from hybridbn.structures.column_splits import ColumnReader, ColumnView, GainRatio, Utility, grow_by_tests, mass_of


class LeastSquares:
    """The cut of an ordered column that leaves the least sum of squares of a target."""

    def __init__(self, columns, target, weights, least=5.0):
        self.columns, self.target, self.least = columns, target, least
        self.located = LocatedRows([Sample(np.arange(len(weights)), weights)], columns)

    def measure(self, routes):
        samples = map(self.located.locate, routes)
        return [float(weights @ self.target[rows]) for rows, weights in samples]

    def best(self, nodes):
        return [self._best(node) for node in nodes]

    def _best(self, node):
        best = None
        rows, weights = self.located.locate(node.route)
        for column, codes in enumerate(self.columns):
            for cut in range(1, int(codes.max()) + 1):
                side = (codes[rows] >= cut).astype(int)
                known = codes[rows] >= 0
                mass: np.ndarray = np.bincount(side[known], weights[known], 2)
                if mass.min() < self.least or node.level == 4:
                    continue
                sums = np.bincount(side[known], (weights * self.target[rows])[known], 2)
                gain = float((sums**2 / mass).sum() - sums.sum() ** 2 / mass.sum())
                if best is None or gain > best.gain:
                    branches = np.append((np.arange(codes.max() + 1) >= cut).astype(int), -1)
                    best = Split(column, branches, mass, gain)
        return best


def data(rows=400, holes=0.0, seed=0):
    rng = np.random.default_rng(seed)
    columns = [rng.integers(6, size=rows) for _ in range(4)]
    target = columns[0] * 1.5 - (columns[1] > 2) * columns[2] + rng.normal(size=rows)
    for column in columns:
        column[rng.random(rows) < holes] = -1
    return columns, target, rng.uniform(0.5, 2, rows)


def described(root, located):
    samples = [(leaf.boxes.keys(), *located.locate(leaf.route)) for leaf in leaves(root)]
    return [(columns, rows.tolist(), weights.tolist()) for columns, rows, weights in samples]


@pytest.mark.parametrize("holes", [0.0, 0.2])
def test_every_order_grows_the_same_tree_whose_leaves_share_out_the_rows(holes):
    columns, target, weights = data(holes=holes)
    criterion = LeastSquares(columns, target, weights)
    locate = criterion.located.locate
    best_first: BestFirst = BestFirst(10**6, lambda split: True)
    trees = [grow([Route()], criterion), grow([Route()], criterion, best_first)]
    assert described(trees[0][0], criterion.located) == described(trees[1][0], criterion.located)
    assert len(leaves(trees[0][0])) > 5
    for node in trees[0]:
        rows, own = locate(node.route)
        assert (np.diff(rows) > 0).all()
        for column, box in node.boxes.items():
            assert np.isin(columns[column][rows], [-1, *box]).all()
        if node.children:
            shared = np.zeros(len(weights))
            for child in node.children:
                assert child.parent is node
                np.add.at(shared, *locate(child.route))
            np.testing.assert_allclose(shared[rows], own)
    assert [node.level for node in leaves(trees[0][0], 1)] == [1, 1]


def test_growing_best_first_makes_the_best_of_few_leaves():
    columns, target, weights = data()
    criterion = LeastSquares(columns, target, weights)
    nodes = grow([Route()], criterion, BestFirst(5, lambda split: True))
    assert sum(node.split is None for node in nodes) == 5
    gains = [node.split.gain for node in nodes if node.split is not None]
    assert all(node.split is not None or criterion.best([node])[0].gain <= min(gains) for node in nodes)
    refused = grow([Route()], criterion, BestFirst(5, lambda split: split.column == 0))
    assert {node.split.column for node in refused if node.split is not None} == {0}


@pytest.mark.parametrize(("criterion", "binary"), [(GainRatio(), False), (GainRatio(), True), (Utility(), True)])
def test_counts_of_nodes_are_those_of_their_rows_and_add_up_over_batches(criterion, binary):
    columns, target, weights = data(600, holes=0.15)
    classes = np.digitize(target, [-1.0, 2.0])
    numbers = {f"x{i}": np.where(codes < 0, np.nan, codes) for i, codes in enumerate(columns)}
    table = hb.Table({**numbers, "c": classes.astype(str)}, weights=weights)
    tests = {name: hb.Discrete(name, cuts=(0.5, 1.5, 2.5, 3.5, 4.5)) for name in numbers}
    read = ColumnReader({variable.name: variable for variable in table.variables}, tests, "c")
    root = grow_by_tests(ColumnView(table, read), criterion, 2, 10.0, 2.0, binary)
    coded = read(table, 0)
    assert root.children
    for leaf in leaves(root):
        rows, own = coded.locate(leaf.route)
        assert mass_of(leaf) == pytest.approx(own.sum())
        expected = np.zeros((3, 25))
        np.add.at(expected[:, 24], classes[rows], own)
        for number, column in enumerate(columns):
            seen = column[rows] >= 0
            np.add.at(expected, (classes[rows][seen], 6 * number + column[rows][seen]), own[seen])
        np.testing.assert_allclose(leaf.statistics, expected, atol=1e-12)
        half = len(rows) // 2
        batches = coded.count_samples([Sample(rows[:half], own[:half]), Sample(rows[half:], own[half:])])
        np.testing.assert_allclose(batches.sum(axis=0), expected, atol=1e-12)


def test_cells_divide_all_configurations_of_the_parents():
    rng = np.random.default_rng(0)
    columns = [rng.integers(4, size=500), rng.integers(3, size=500)]
    child = ((columns[0] > 1) ^ (columns[1] == 2)).astype(int)
    # a state that no row has stays with the cell above
    models = make_class_models(child, 2)
    cells, last = LikelihoodGain.of(
        [CodedColumn(columns[0], 4, np.arange(1.0, 4.0)), CodedColumn(columns[1], 5)], models, np.ones(500), 8.0
    ).grow_cells()
    covered = np.zeros((4, 5), dtype=int)
    for cell in (cells[i] for i in last):
        covered += np.outer(*cell.allowed)
        inside = cell.allowed[0][columns[0]] & cell.allowed[1][columns[1]]
        np.testing.assert_array_equal(np.flatnonzero(inside), cell.rows)
    assert (covered == 1).all()
    assert all(cell.above < number for number, cell in enumerate(cells))


def test_penalties_are_judged_by_their_definitions():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(40, 3)) @ rng.normal(size=(3, 3))
    x -= x.mean(axis=0)
    y = x @ [1.0, -0.5, 0.0] + rng.normal(size=40)
    y -= y.mean()
    penalties = np.geomspace(0.1, 100, 7)
    spectrum = Spectrum.of(x.T @ x, x.T @ y)
    validated = spectrum.cross_validation_losses(float(y @ y), penalties, 40.0)
    likely = spectrum.negative_log_evidence(float(y @ y), penalties, 40.0)
    logs = []
    for penalty, loss in zip(penalties, validated, strict=True):
        hat = x @ np.linalg.solve(x.T @ x + penalty * np.eye(3), x.T)
        np.testing.assert_allclose(x @ spectrum.slopes(penalty), hat @ y)
        assert spectrum.coefficients(penalty) == pytest.approx(np.trace(hat))
        residual = y - hat @ y
        assert loss == pytest.approx(residual @ residual / (40 - 1 - np.trace(hat)) ** 2)
        # the residual variance that makes the target most likely
        covariance = np.eye(40) + x @ x.T / penalty
        variance = y @ np.linalg.solve(covariance, y) / 40
        logs.append(stats.multivariate_normal(np.zeros(40), variance * covariance).logpdf(y))
        moments = np.column_stack((np.ones(40), x, y))
        drawn = regress_towards(moments.T @ moments, np.zeros(4), np.full(3, penalty), 0.0)[0]
        np.testing.assert_allclose(drawn[1:], spectrum.slopes(penalty), rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(np.diff(likely), -np.diff(logs), atol=1e-9)
    assert np.argmin(likely) == np.argmax(logs)


def test_what_is_kept_of_rows_goes_with_its_owner_and_stays_in_its_process():
    table = hb.Table({"x": [1.0, 2.0]})
    owner, made = (lambda: None), []

    def make():
        made.append(1)
        return len(made)

    for rows in (table, table.select("x"), table):
        assert rows.keep(owner, make) == 1
    (kept,) = table.remembered.values()
    assert len(kept.made) == 1
    assert pickle.loads(pickle.dumps(table)).keep(owner, lambda: "made anew") == "made anew"
    del owner
    assert not kept.made


def test_wide_columns_are_tested_in_passes_as_in_memory():
    rng = np.random.default_rng(0)
    columns = {"wide": rng.integers(5000, size=4000).astype(str), "a": rng.choice(["u", "v"], 4000)}
    columns["c"] = np.where((columns["a"] == "u") ^ (columns["wide"] < "3"), "p", "q")
    nets = [hb.structures.nb_tree(rows, "c", least=500.0) for rows in (hb.Table(columns), hb.scan(columns))]
    assert nets[0].variable("c leaf") == nets[1].variable("c leaf")
    table = hb.Table(columns)
    np.testing.assert_allclose(nets[0].log_density(table), nets[1].log_density(table), rtol=1e-12)


@pytest.mark.parametrize("numbers", [False, True], ids=["states", "numbers"])
@pytest.mark.parametrize("seed", range(4))
def test_the_first_cut_is_the_best_of_all_cuts(seed, numbers):
    """By the likelihoods of both sides for all cuts of an ordered parent and all divisions of states, added up anew."""
    rng = np.random.default_rng(seed)
    rows, least = 90, 6.0
    columns = [rng.integers(1, 5, rows), rng.integers(0, 3, rows)]  # the first and last cells of the first are empty
    parents = [CodedColumn(columns[0], 6, np.arange(1.0, 6.0)), CodedColumn(columns[1], 4)]
    weights = rng.choice((0.0, 0.5, 1.0, 3.0), rows)
    scores = rng.normal(size=rows) + (columns[0] > 1 + seed % 3) - 0.8 * (columns[1] == 1)
    codes = np.clip((scores + 1).astype(int), 0, 2)
    if seed == 3:  # a state that is only on one side
        codes = np.where(columns[0] < 3, codes % 2, 2)

    def measure(part, whole):
        """Return the log-likelihoods of the models of a part of the rows, given a variance of the whole."""
        weight = weights[part].sum()
        counts = np.bincount(
            codes[part] if not numbers else np.clip((scores[part] + 1.5) * 2, 0, 5).astype(int), weights[part]
        )
        histogram = sum(n * np.log(n / weight) for n in counts if n > 0)
        if not numbers:
            return [histogram]
        mean = weights[part] @ scores[part] / weight
        deviations = weights[part] @ (scores[part] - mean) ** 2
        around = np.average(
            (scores[whole] - np.average(scores[whole], weights=weights[whole])) ** 2, weights=weights[whole]
        )
        pooled = (deviations + _PRIOR * around) / (weight + _PRIOR)
        return [-0.5 * (weight * np.log(pooled) + deviations / pooled), histogram]

    parameters = [3.0, 6.0] if numbers else [3.0]
    price, everything = 0.5 * np.log(weights.sum()), np.arange(rows)
    best = -np.inf
    sides = [(0, set(range(cut))) for cut in range(1, 6)]
    sides += [(1, set(left)) for size in (1, 2) for left in itertools.combinations(range(3), size)]
    for parent, left in sides:
        inside = np.isin(columns[parent], list(left))
        parts = np.flatnonzero(inside), np.flatnonzero(~inside)
        if min(weights[part].sum() for part in parts) < least:
            continue
        own = [sum(pair) for pair in zip(*(measure(part, everything) for part in parts), strict=True)]
        gains = [a - b - price * c for a, b, c in zip(own, measure(everything, everything), parameters, strict=True)]
        best = max(best, *gains)
    models = make_value_models(scores) if numbers else make_class_models(codes, 3)
    split = LikelihoodGain.of(parents, models, weights, least).grow_nodes()[0].split
    # states are ordered by one number of the child, which is not always the best division of them
    if split is None or split.column == 0:
        assert (0.0 if split is None else split.gain) == pytest.approx(max(best, 0.0), abs=1e-9)
    else:
        assert split.gain <= best + 1e-9
    assert split is not None
