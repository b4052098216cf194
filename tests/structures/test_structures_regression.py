"""Linear regressions and model trees as networks: complete rows by hand, missing cells by Bayes' rule, and what
networks can do.
"""

import itertools
from functools import partial
from typing import Any

import numpy as np
import pytest
from narrowing import as_continuous, as_discrete, as_kind, known
from scipy import stats

import hybridbn as hb
from hybridbn.inference.engines import Engine
from hybridbn.potentials.cases import Boxes
from hybridbn.structures import model_tree, regression
from hybridbn.structures.building import declaration_of
from hybridbn.structures.model_tree import _measure_tails
from hybridbn.structures.regression import learn_regressors, read_for_regression
from hybridbn.structures.regression_splits import Growth, RegressionRows, RegressionView, grow_regressions

SEVERAL = partial(model_tree, trees=5, tested=1)  # exact answers for rows with holes take little time then


def bent(rows: int = 400, seed: int = 0, missing: float = 0.0):
    """A target that jumps and changes its slope at x = 0, with a category that shifts it."""
    rng = np.random.default_rng(seed)
    x, z = rng.normal(size=(2, rows))
    c = rng.integers(3, size=rows)
    y = np.where(x < 0, z, 6 - 2 * z) + np.array([0.0, 2.0, -1.0])[c] + 0.2 * rng.normal(size=rows)
    data = {"x": x, "z": z, "c": np.array(["p", "q", "r"], dtype=object)[c], "y": y}
    for name in ("x", "z", "c"):
        data[name][rng.random(rows) < missing] = None if name == "c" else np.nan
    return data


def straight(rows: int = 200, seed: int = 0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=rows)
    z = x + rng.normal(size=rows)
    return {"x": x, "z": z, "w": rng.normal(size=rows), "y": 2 * x - z + 0.5 * rng.normal(size=rows)}


def regression_of(net, leaf: str, data, row: int):
    """Return mean and variance of a complete row in a leaf, from the potentials of the target and the effects."""
    target = net.potential("y")
    code = net.variable("y leaf").code(leaf)
    mean, variance = target.intercept[code], target.variance[code]
    numbers = [p for p in target.parents if isinstance(p, hb.Continuous)]
    for parent, slope in zip(numbers, np.moveaxis(target.coefficients[code], -1, 0), strict=True):
        if parent.name == "c effect":
            effect = net.potential(parent.name)
            state = net.variable("c").code(data["c"][row])
            mean, variance = mean + slope * effect.intercept[state], variance + slope**2 * effect.variance[state]
        else:
            mean = mean + slope * data[parent.name][row]
    return mean, variance


def test_a_regression_finds_the_slopes():
    data = straight()
    net = regression(data, "y")
    potential = net.potential("y")
    found = dict(
        zip([p.name for p in potential.parents[1:]], as_kind(hb.LinearGaussian, potential).coefficients[0], strict=True)
    )
    design = np.column_stack((np.ones(200), data["x"], data["z"], data["w"]))
    expected = np.linalg.lstsq(design, data["y"], rcond=None)[0]
    np.testing.assert_allclose([found["x"], found["z"]], expected[1:3], atol=0.05)
    assert abs(found["w"]) < 0.1
    assert np.sqrt(as_kind(hb.LinearGaussian, potential).variance[0]) == pytest.approx(0.5, rel=0.15)


def test_rows_left_out_by_formula_are_rows_left_out():
    from hybridbn.fitting.ridge import _fit_leaving_one_out, fit_sparse_ridge

    rng = np.random.default_rng(1)
    x = rng.normal(size=(30, 4))
    y, weights = x @ [1.0, 0.0, -1.0, 0.5] + rng.normal(size=30), rng.uniform(0.5, 2, 30)
    found = _fit_leaving_one_out(x, y, weights, np.ones(30), np.ones(4))
    for row in range(0, 30, 7):
        kept = np.arange(30) != row
        total = weights[kept].sum()
        # the mean of the columns is that of all rows in the formula, which moves with the row; intercepts are free in
        # both
        centered, mean = x[kept] - weights[kept] @ x[kept] / total, weights[kept] @ y[kept] / total
        stiff = (centered * weights[kept, None]).T @ centered + np.diag(found.penalties)
        slopes = np.linalg.solve(stiff, (centered * weights[kept, None]).T @ (y[kept] - mean))
        predicted = mean + (x[row] - weights[kept] @ x[kept] / total) @ slopes
        assert y[row] - predicted == pytest.approx(found.residuals[row], rel=1e-9)
    assert np.mean(fit_sparse_ridge(x, y, weights, np.arange(4)).residuals ** 2) <= np.mean(found.residuals**2) * 1.2


@pytest.mark.parametrize("missing", [0.0, 0.15])
def test_a_complete_row_is_in_one_leaf_and_gets_its_regression(missing):
    data = bent(missing=missing)
    net = model_tree(data, "y")
    fresh = bent(rows=40, seed=1)
    rows = hb.Table(fresh).drop("y")
    belongs = as_discrete(net.posterior("y leaf", rows)).probabilities
    np.testing.assert_allclose(belongs.max(axis=1), 1, atol=1e-12)
    states = as_discrete(net.variable("y leaf")).states
    assert len(states) > 1
    posterior = net.posterior("y", rows)
    for row in range(0, 40, 9):
        mean, variance = regression_of(net, states[belongs[row].argmax()], fresh, row)
        shares = as_kind(hb.Multinomial, net.potential("y noise")).table
        total = shares @ mean
        mean, variance = total, shares @ (variance + (mean - total) ** 2)
        assert posterior.mean()[row] == pytest.approx(float(mean), rel=1e-9)
        assert posterior.var()[row] == pytest.approx(float(variance), rel=1e-9)
    error = np.sqrt(np.mean((posterior.mean() - fresh["y"]) ** 2))
    assert error < (1.0 if missing else 0.6)
    plain = regression(data, "y").posterior("y", rows).mean()
    assert error < 0.5 * np.sqrt(np.mean((plain - fresh["y"]) ** 2))


@pytest.mark.parametrize(("rows", "trees", "seed"), [(100, 2, 0), (100, 3, 0), (3, 2, 39), (4, 2, 42)])
def test_few_trees_predict_every_row_that_one_of_them_has_not_seen(rows, trees, seed):
    rng = np.random.default_rng(seed)
    data = {"x": rng.normal(size=rows), "y": rng.normal(size=rows)}
    _, told = known(declaration_of(model_tree).held_out)(data, "y", trees=trees, random_state=seed)
    assert np.isfinite(known(told)(np.arange(rows)).mean()).all()


def test_several_trees_are_averaged():
    data = bent()
    net = SEVERAL(data, "y")
    rows = hb.Table(bent(rows=30, seed=1)).drop("y")
    belongs = as_discrete(net.posterior("y leaf", rows)).probabilities
    trees = np.array([int(as_kind(str, state).split(".")[0]) for state in as_discrete(net.variable("y leaf")).states])
    for tree in range(1, 6):
        own = belongs[:, trees == tree]
        np.testing.assert_allclose(own.sum(axis=1), 0.2, atol=1e-12)
        np.testing.assert_allclose(own.max(axis=1), 0.2, atol=1e-12)


@pytest.mark.parametrize("build", [regression, model_tree, SEVERAL], ids=["regression", "tree", "trees"])
def test_missing_cells_are_averaged_by_bayes_rule(build):
    net = build(bent(missing=0.1), "y")
    assert set(net.variable("c").states) == {"p", "q", "r"}
    # c: its own table is the whole posterior, since nothing else that is known tells of it
    observed: dict[str, object] = {"x": 0.4, "z": -1.2}
    grid = np.linspace(-4, 12, 33)
    shares = net.posterior("c", observed).probabilities
    expected = sum(
        share * net.posterior("y", {**observed, "c": state}).pdf(grid)
        for share, state in zip(shares, net.variable("c").states, strict=True)
    )
    np.testing.assert_allclose(net.posterior("y", observed).pdf(grid), expected, rtol=1e-7, atol=1e-12)
    # x: by quadrature over its density given z
    observed = {"z": -1.2, "c": "q"}
    density = net.posterior("x", observed)
    nodes, weights = np.polynomial.legendre.leggauss(24)
    edges = np.array([-8.0, 8.0])
    if "y leaf" in net:
        edges = np.unique([-8.0, 8.0, *net.potential("y leaf").breaks("x")])
    edges = np.unique(np.concatenate([np.linspace(a, b, 12) for a, b in itertools.pairwise(edges)]))
    half = np.diff(edges) / 2
    points = (edges[:-1] + half + half * nodes[:, None]).ravel()
    mass = (half * weights[:, None]).ravel() * density.pdf(points)
    means = net.posterior("y", hb.Table({"x": points, "z": [-1.2] * len(points), "c": ["q"] * len(points)})).mean()
    assert net.posterior("y", observed).mean() == pytest.approx(float(mass @ means / mass.sum()), abs=1e-6)


@pytest.fixture
def only_elimination(monkeypatch):
    def switch() -> None:
        monkeypatch.delitem(Engine.registry.load(), "Leaves")

    return switch


def test_leaves_that_are_looked_up_answer_as_elimination_does(only_elimination):
    net = SEVERAL(bent(), "y")
    rows = hb.Table(bent(rows=30, seed=1)).drop("y")
    fast = net.posterior("y", rows)
    only_elimination()
    slow = net.posterior("y", rows)
    grid = np.linspace(-4, 12, 33)
    np.testing.assert_allclose(as_continuous(fast).pdf(grid), as_continuous(slow).pdf(grid), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(fast.var(), slow.var(), rtol=1e-9)


def test_missing_numbers_that_trees_test_are_drawn():
    net = SEVERAL(bent(missing=0.1), "y")
    rows = hb.Table(bent(rows=8, seed=2, missing=0.4)).drop("y")
    exact = net.posterior("y", rows)
    drawn = net.posterior("y", rows, beyond="bound")
    known = ~np.isnan(rows.column("x"))
    assert 0 < known.sum() < 8
    np.testing.assert_allclose(drawn.mean()[known], exact.mean()[known], rtol=1e-9)
    assert (drawn.error[~known] > 0).all()
    for level in (0.1, 0.5, 0.9):
        np.testing.assert_allclose(as_continuous(drawn).pit(exact.quantile(level)), level, atol=0.03)
    assert (np.abs(drawn.mean() - exact.mean()) < 0.05 * exact.std()).all()
    # a row's answer depends on no other row
    some = net.posterior("y", rows.take([3, 7]), beyond="bound")
    np.testing.assert_allclose(some.mean(), drawn.mean()[[3, 7]], rtol=1e-12)
    alone = net.posterior("y", {"z": 0.3}, beyond="bound")
    assert alone.mean() == pytest.approx(net.posterior("y", {"z": 0.3}).mean(), abs=0.05)


def test_some_trees_have_means_in_their_leaves():
    rng = np.random.default_rng(0)
    x, z = rng.uniform(size=(2, 300))
    step = np.floor(8 * x).astype(int)
    levels = np.array([0.0, 3.0, -2.0, 1.0, 4.0, -1.0, 2.0, -3.0])
    data = {"x": x, "z": z, "y": levels[step] + (0.05 + step / 8) * rng.normal(size=300)}
    net, told = known(declaration_of(model_tree).held_out)(data, "y", trees=10, max_depth=2, random_state=1)
    slopes = np.abs(as_kind(hb.LinearGaussian, net.potential("y")).coefficients).max(axis=(1, 2))
    assert 0.2 < np.mean(slopes == 0) <= 1
    assert np.isfinite(known(told)(np.arange(300)).mean()).all()
    fresh = hb.Table({"x": (np.arange(8) + 0.5) / 8, "z": np.full(8, 0.5)})
    posterior = net.posterior("y", fresh)
    assert np.corrcoef(posterior.mean(), levels)[0, 1] > 0.8


def test_any_numbers_may_be_missing():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(4, 300))
    data = {f"x{i}": column for i, column in enumerate(x)}
    data["y"] = np.abs(x[0]) * (x[1] > 0) + np.abs(x[2]) * (x[3] > 0) + 0.1 * rng.normal(size=300)
    net = partial(model_tree, trees=10)(data, "y")
    assert len(net.potential("y leaf").parents) > 2
    with pytest.raises(hb.TooWide, match=r"beyond='bound'.*draws of what is missing"):
        net.posterior("y", {"x0": 0.1}, max_bytes=2**16)
    everything = net.posterior("y", {}, beyond="bound")
    assert everything.mean() == pytest.approx(data["y"].mean(), abs=0.15)
    assert everything.std() == pytest.approx(data["y"].std(), rel=0.2)


@pytest.mark.parametrize("build", [regression, model_tree, SEVERAL], ids=["regression", "tree", "trees"])
def test_a_batch_gives_what_single_rows_give(build, tmp_path):
    net = build(bent(missing=0.1), "y")
    net.check()
    rows = hb.Table(bent(rows=12, seed=2, missing=0.25)).drop("y")
    posterior = net.posterior("y", rows)
    frame = rows.to_pandas()
    for row in range(12):
        alone = net.posterior("y", {n: v for n, v in frame.iloc[row].items() if v == v and v is not None})
        assert alone.mean() == pytest.approx(posterior.mean()[row], abs=1e-8)
        assert alone.quantile(0.9) == pytest.approx(posterior.quantile(0.9)[row], abs=1e-6)
    net.save(tmp_path / "net.hbn")
    again = as_kind(hb.Network, hb.load(tmp_path / "net.hbn"))
    np.testing.assert_array_equal(again.posterior("y", rows).mean(), posterior.mean())


@pytest.mark.parametrize("build", [regression, model_tree, SEVERAL], ids=["regression", "tree", "trees"])
def test_samples_come_from_the_network(build):
    net = build(bent(), "y")
    drawn = net.sample(3000, random_state=0)
    assert np.isfinite(net.log_density(drawn)).all()
    reached = net.posterior("y", drawn[["x", "z", "c"]])
    uniform = np.array([reached[i].cdf(y) for i, y in enumerate(drawn["y"][:300])])
    assert stats.kstest(uniform, "uniform").pvalue > 1e-3


def test_intervals_hold_what_they_promise():
    rng = np.random.default_rng(0)
    x = rng.uniform(-2, 2, size=600)
    spread = np.where(x > 0, 2.0, 0.2)
    data = {"x": x, "w": rng.normal(size=600), "y": 3 * np.abs(x) + spread * rng.standard_t(3, size=600)}
    train, test = ({n: c[part] for n, c in data.items()} for part in (slice(300), slice(300, None)))
    net = SEVERAL(train, "y")
    low, high = net.posterior("y", hb.Table(test).drop("y")).interval(0.9).T
    inside = (low < test["y"]) & (test["y"] < high)
    assert 0.84 < inside.mean() < 0.96
    assert (high - low)[test["x"] > 0.3].mean() > 3 * (high - low)[test["x"] < -0.3].mean()


def test_weights_are_repetitions_where_the_ridge_is_negligible():
    data = straight()
    weights = np.random.default_rng(1).integers(0, 4, 200)
    repeated = {name: np.repeat(column, weights) for name, column in data.items()}
    first = regression(data, "y", weights=weights.astype(float)).potential("y")
    second = regression(repeated, "y").potential("y")
    np.testing.assert_allclose(
        as_kind(hb.LinearGaussian, first).coefficients, as_kind(hb.LinearGaussian, second).coefficients, atol=0.02
    )
    for build in (model_tree, SEVERAL):
        double = build(data, "y", weights=np.full(200, 2.0))
        assert np.isfinite(double.posterior("y", hb.Table(data).drop("y")).mean()).all()


def test_rows_without_target_and_constant_targets():
    data = bent(rows=60)
    data["y"][:10] = np.nan
    shorter = {name: column[10:] for name, column in data.items()}
    rows = hb.Table(data).drop("y")
    np.testing.assert_array_equal(
        model_tree(data, "y").posterior("y", rows).mean(), model_tree(shorter, "y").posterior("y", rows).mean()
    )
    with pytest.raises(hb.TableError, match="nothing to predict"):
        regression({"x": [1.0, 2.0, 3.0], "y": [1.0, 1.0, 1.0]}, "y")


@pytest.mark.parametrize("build", [regression, model_tree, SEVERAL], ids=["regression", "tree", "trees"])
def test_odd_tables(build):
    rng = np.random.default_rng(0)
    y = rng.normal(size=40)
    tables = [
        {"y": y},
        {"c": ["a", "b"] * 20, "y": y},
        {"c": ["a"] * 40, "y": y},
        {"x": y * 1e-100, "y": y},
        {"x": y * 1e100, "copy": y * 1e100, "y": y * 1e100},
        {"x": np.where(np.arange(40) < 38, np.nan, y), "z": np.where(np.arange(40) > 5, np.nan, y), "y": y},
        {"x": y[:3], "y": y[:3]},
    ]
    for table in tables:
        net = build(table, "y")
        rows = hb.Table(table)
        found = net.posterior("y", rows.drop("y") if len(rows.names) > 1 else None)
        assert np.isfinite(found.mean()).all()
        assert (found.var() > 0).all() if np.ndim(found.var()) else found.var() > 0


def test_columns_that_are_tested():
    holes = bent()
    holes["z"][:20] = np.nan
    cases: tuple[tuple[Any, dict[str, Any], set[str]], ...] = (
        (bent(), {}, {"x", "z", "c"}),
        (bent(), {"tested": 1}, {"x", "c"}),
        (bent(), {"tested": 0}, {"c"}),
        (holes, {}, {"x", "c"}),
        (bent(missing=0.1), {}, {"x", "c"}),
    )  # one number at most where there are holes, the complete one if there is one
    for data, options, expected in cases:
        net = model_tree(data, "y", **options)
        assert set(net.predecessors("y leaf") if "y leaf" in net else ()) <= expected


@pytest.mark.parametrize("relevant", [1, 5])
def test_as_many_numbers_are_tested_as_pays(relevant):
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, size=(200, 5))
    y = 10 * np.abs(x[:, :relevant]).sum(axis=1) + rng.normal(size=200)
    net = model_tree({**{f"x{i}": column for i, column in enumerate(x.T)}, "y": y}, "y", trees=10, max_depth=3)
    assert sorted(net.predecessors("y leaf")) == [f"x{i}" for i in range(relevant)]


def test_slopes_along_heavy_tails_change_less():
    rng = np.random.default_rng(0)
    x, side = rng.normal(size=(300, 2)), np.arange(300) % 2
    data = {"x": x[:, 0], "far": np.sinh(2 * x[:, 1]), "y": x[:, 0] + x[:, 1] + rng.normal(size=300)}
    regressors = learn_regressors(*read_for_regression(data, "y", "auto", None, 5, np.random.default_rng(0)))
    tails = _measure_tails(regressors)
    np.testing.assert_allclose(tails, np.maximum(np.mean(regressors.numbers**4, axis=0) / 3, 1))
    assert tails[1] > 3 > tails[0]
    rows = RegressionRows(x, x.sum(axis=1) * (1 + side), side[:, None], (2,), np.zeros(2))
    growth = Growth(np.array([0.0, 1000.0]), level=0.0, depth=1)
    (tree,) = grow_regressions(RegressionView.of(rows, np.ones((1, 300)), hb.Table(data)), 1, growth, rng)
    free, drawn = np.abs(tree.children[1].statistics.coefficients - tree.children[0].statistics.coefficients)[1:]
    assert free > 0.9
    assert drawn < 0.3


def test_discretized_numbers_are_categories():
    net = model_tree(bent(), "y", {"x": "multinomial"})
    assert as_discrete(net.variable("x")).cuts is not None
    assert net.posterior("y", {"x": -1.0, "z": 0.0, "c": "p"}).mean() < net.posterior("y", {"x": 1.0, "z": 0.0}).mean()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"trees": 0}, "trees"),
        ({"max_depth": -1}, "max_depth"),
        ({"tested": 1.5}, "tested"),
        ({"name": "x"}, "has a column 'x'"),
        ({"target": "c"}, "predicts a number"),
    ],
)
def test_bad_requests(change, message):
    options = {"target": "y", **change}
    with pytest.raises(hb.HybridBNError, match=message):
        model_tree(bent(rows=60), **options)


def test_bad_boxes():
    x, c, leaf = hb.Continuous("x"), hb.Discrete("c", ("a", "b")), hb.Discrete("l", ("u", "v"))
    with pytest.raises(hb.NetworkError, match="whose low end is below"):
        Boxes(leaf, (x,), [[[0, 1], [2, 2]]])
    with pytest.raises(hb.NetworkError, match="0 or 1"):
        Boxes(leaf, (c,), [[[0, 1], [0, 0]]])
    with pytest.raises(hb.NetworkError, match="the shape"):
        Boxes(leaf, (c,), [[[0, 1]]])
    with pytest.raises(hb.NetworkError, match="positive"):
        Boxes(leaf, (c,), [[[0, 1], [1, 0]]], weights=[1, 0])
    with pytest.raises(hb.NetworkError, match="each of 1 parents"):
        Boxes(leaf, (c,), [])
    with pytest.raises(hb.NetworkError, match="is continuous"):
        Boxes(x, (c,), [[[0, 1], [1, 0]]])  # type: ignore[arg-type]
