"""Random forests, logistic regression and discriminant analysis as networks, and the engine that looks up leaves."""

from __future__ import annotations

import math
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from narrowing import as_discrete, as_kind, known
from scipy import special

import hybridbn as hb
from hybridbn.errors import NetworkError
from hybridbn.inference.engines import Engine
from hybridbn.structures import discriminant, logistic, naive_bayes, random_forest
from hybridbn.structures.building import Build, declaration_of
from hybridbn.structures.discriminant import MOST_LOSS, SHARES, STRENGTHS, DiscriminantAnalysis
from hybridbn.structures.training_data import read_data_with_class


def mixed(rows: int = 150, seed: int = 0, holes: float = 0.0) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    x, z = rng.normal(size=(2, rows))
    d = np.array(["p", "q", "r"], dtype=object)[rng.integers(3, size=rows)]
    c = np.where((x > 0) ^ (d == "p"), "yes", "no").astype(object)
    c[z > 1] = "maybe"
    x[rng.random(rows) < holes], z[rng.random(rows) < holes], d[rng.random(rows) < holes] = np.nan, np.nan, None
    return {"x": x, "z": z, "d": d, "c": c}


def without_class(data: dict[str, np.ndarray], rows: slice = slice(None)) -> hb.Table:
    return hb.Table({name: column[rows] for name, column in data.items() if name != "c"})


def hit_rate(net: hb.Network, data: dict[str, np.ndarray]) -> float:
    return float(np.mean(np.asarray(net.posterior("c", without_class(data)).mode()) == data["c"]))


@pytest.fixture
def only_elimination(monkeypatch):
    def switch() -> None:
        monkeypatch.delitem(Engine.registry.load(), "Leaves")

    return switch


@pytest.mark.parametrize("family", ["gaussian", "multinomial"])
def test_leaves_that_are_looked_up_answer_as_elimination_does(only_elimination, family):
    data = mixed(holes=0.2)
    net = random_forest(data, "c", family, trees=3)
    net.check()
    table = without_class(data, slice(10))
    cases: tuple[dict[str, object], ...] = ({"x": 0.3}, {"d": "p", "z": 2.0}, {})
    fast = [as_discrete(net.posterior("c", evidence)).probabilities for evidence in (table, *cases)]
    only_elimination()
    slow = [as_discrete(net.posterior("c", evidence)).probabilities for evidence in (table, *cases)]
    for one, other in zip(fast, slow, strict=True):
        assert one.shape == other.shape
        np.testing.assert_allclose(one, other, atol=1e-9)


@settings(max_examples=6, deadline=None, derandomize=True)
@given(st.integers(0, 2**32 - 1))
def test_rules_that_do_not_cover_all_points_are_looked_up_as_they_are_evaluated(seed):
    rng = np.random.default_rng(seed)
    x, d = hb.Continuous("x"), hb.Discrete("d", ("a", "b"))
    rule, c = hb.Discrete("rule", tuple(range(5))), hb.Discrete("c", ("n", "p"))
    ends = np.sort(rng.normal(size=(5, 2)), axis=1)
    sides = rng.integers(0, 2, (5, 2))
    sides[~sides.any(axis=1), 0] = 1
    boxes = hb.Boxes(rule, (x, d), [ends, sides], rng.random(5) + 0.1)
    table = rng.dirichlet(np.ones(2), 5)
    attributes = [
        hb.LinearGaussian(x, intercept=0.0, coefficients=[], variance=1.0),
        hb.Multinomial(d, table=[0.5, 0.5]),
    ]
    net = hb.Network([*attributes, boxes, hb.Multinomial(c, (rule,), table=table)])
    values, codes = rng.normal(size=8), rng.integers(0, 2, 8)
    told = as_discrete(net.posterior("c", hb.Table({"x": values, "d": np.array(["a", "b"])[codes]}))).probabilities
    shares = np.array([[boxes(x=v, d="ab"[k], rule=r) for r in range(5)] for v, k in zip(values, codes, strict=True)])
    np.testing.assert_allclose(told, shares @ table, atol=1e-12)


def test_an_overlap_that_is_wrong_is_refused():
    x, leaf = hb.Continuous("x"), hb.Discrete("leaf", (0, 1, 2))
    sides = [[[-math.inf, 1.0], [1.0, math.inf], [0.0, 2.0]]]
    for overlap in (1, 2, 0, True):
        with pytest.raises(NetworkError, match=r"overlap|boxes"):
            hb.Boxes(leaf, (x,), sides, overlap=overlap)
    assert hb.Boxes(hb.Discrete("leaf", (0, 1)), (x,), [sides[0][:2]], overlap=1).overlap == 1


def test_a_forest_learns_what_naive_bayes_can_not_and_is_saved_exactly(tmp_path):
    data, fresh = mixed(300), mixed(300, seed=1)
    net = random_forest(data, "c", "gaussian", trees=15)
    assert hit_rate(net, fresh) > 0.9 > hit_rate(naive_bayes(data, "c", "gaussian"), fresh) + 0.1
    net.save(tmp_path / "forest.hbn")
    again = as_kind(hb.Network, hb.load(tmp_path / "forest.hbn"))
    table = without_class(mixed(50, seed=2, holes=0.3))
    np.testing.assert_array_equal(
        as_discrete(again.posterior("c", table)).probabilities, as_discrete(net.posterior("c", table)).probabilities
    )
    assert set(net.sample(20, random_state=0)) == set(net)
    explained = net.explain("c", {"x": 1.0, "d": "p"})
    assert explained.log_odds == pytest.approx(explained.prior + sum(explained.weights.values()))


@pytest.mark.parametrize(
    "build",
    [
        pytest.param(partial(random_forest, trees=20), marks=pytest.mark.slow),
        logistic,
        partial(logistic, correlated=True, n_jobs=1),
        discriminant,
    ],
)
def test_held_out_predictions_tell_how_well_fresh_rows_are_predicted(build):
    data, fresh = mixed(300, holes=0.05), mixed(600, seed=3, holes=0.05)
    net, predicted = Build.of(build).learn_held_out(hb.Table(data), "c", "gaussian")
    told = known(predicted)(np.arange(300)).probabilities
    states = list(as_discrete(net.variable("c")).states)
    codes = np.array([states.index(c) for c in data["c"]])
    held_out = -np.log(told[np.arange(300), codes]).mean()
    posterior = as_discrete(net.posterior("c", without_class(fresh))).probabilities
    loss = -np.log(posterior[np.arange(600), [states.index(c) for c in fresh["c"]]]).mean()
    assert held_out == pytest.approx(loss, rel=0.25)
    np.testing.assert_allclose(told.sum(axis=1), 1.0)


@pytest.mark.parametrize("build", [partial(random_forest, trees=3), logistic, discriminant])
def test_rows_without_a_class_or_weight_change_nothing(build):
    data = mixed(60)
    more = {name: np.append(column, column[:10]) for name, column in data.items()}
    more["c"][60:65] = None
    net, table = build(data, "c", "gaussian"), without_class(data)
    other = build(more, "c", "gaussian", weights=np.repeat([1.0, 0.0], [65, 5]))
    np.testing.assert_allclose(net.posterior("c", table).probabilities, other.posterior("c", table).probabilities)


@pytest.mark.parametrize("potentials", ["auto", "gaussian"])
@pytest.mark.parametrize("least", [-np.inf, 0.0], ids=["continuous", "half zeros"])
def test_logistic_is_the_regression_of_scikit_learn(least, potentials):
    linear_model = pytest.importorskip("sklearn.linear_model")
    rng = np.random.default_rng(0)
    x = rng.normal(size=(300, 3)) @ np.array([[1.0, 0.9, 0.0], [0.0, 0.3, 0.0], [0.0, 0.0, 2.0]])
    x[:, 2] = np.maximum(x[:, 2], least)
    codes = (x @ [1.0, -1.0, 0.5] + rng.logistic(size=300) > 0).astype(int) + (x[:, 2] > 2.5)
    net = logistic({**{f"x{i}": x[:, i] for i in range(3)}, "c": codes.astype(str)}, "c", potentials)
    standard = (x - x.mean(axis=0)) / x.std(axis=0)
    told = as_discrete(net.posterior("c", hb.Table({f"x{i}": x[:, i] for i in range(3)}))).probabilities
    apart = []
    # as if two more rows had been seen, spread evenly over the classes
    weights = (codes == np.arange(3)[:, None]).ravel() + 2 / 3 / 300
    for ridge in (30.0, 10.0, 3.0, 1.0, 0.3):
        peer = linear_model.LogisticRegression(C=1 / ridge, max_iter=1000)
        peer.fit(np.tile(standard, (3, 1)), np.repeat([0, 1, 2], 300), sample_weight=weights)
        apart.append(np.abs(peer.predict_proba(standard) - told).max())
    assert min(apart) < 0.01


def test_missing_cells_do_not_tell_a_forest_the_class_of_a_row_that_is_held_out():
    losses = []
    for seed in range(3):
        rng = np.random.default_rng(seed)
        codes = np.tile([0, 1], 160)
        x = rng.normal(size=(320, 20)) + 0.5 * codes[:, None]
        x[rng.random(x.shape) < 0.5] = np.nan
        names = [f"x{i}" for i in range(20)]
        data = dict(zip(names, x[:60].T, strict=True)) | {"c": codes[:60].astype(str)}
        net, held_out = known(declaration_of(random_forest).held_out)(data, "c", "gaussian", trees=30)
        rest = hb.Table(dict(zip(names, x[60:].T, strict=True)))
        new = as_discrete(net.posterior("c", rest)).probabilities
        losses.append(
            [
                -np.log(told[np.arange(len(told)), own]).mean()
                for told, own in ((known(held_out)(np.arange(60)).probabilities, codes[:60]), (new, codes[60:]))
            ]
        )
    seen, fresh = np.mean(losses, axis=0)
    assert fresh < seen + 0.02


def test_copies_of_an_attribute_do_not_count_twice():
    rng = np.random.default_rng(0)
    x = rng.normal(size=400)
    c = np.where(x + rng.logistic(size=400) > 0, "p", "n")
    copies = {f"x{i}": x for i in range(6)}
    told = as_discrete(logistic({**copies, "c": c}, "c").posterior("c", dict.fromkeys(copies, 2.0))).probability("p")
    assert told == pytest.approx(1 / (1 + math.exp(-2)), abs=0.08)
    assert naive_bayes({**copies, "c": c}, "c", "gaussian").posterior("c", dict.fromkeys(copies, 2.0))["p"] > 0.99


def test_discriminant_analysis_finds_normal_densities_and_integrates_over_holes():
    rng = np.random.default_rng(1)
    covariances = [np.array([[1.0, 0.8], [0.8, 1.0]]), np.array([[1.0, -0.8], [-0.8, 1.0]])]
    codes = rng.integers(2, size=3000)
    values = np.stack([rng.multivariate_normal([0.0, code], covariances[code]) for code in codes])
    net = discriminant({"x": values[:, 0], "y": values[:, 1], "c": np.array(["a", "b"])[codes]}, "c")

    def density(point: dict[str, float], code: int) -> float:
        kept = [i for i, name in enumerate("xy") if name in point]
        apart = np.array([point["xy"[i]] for i in kept]) - np.array([0.0, code])[kept]
        cov = covariances[code][np.ix_(kept, kept)]
        return math.exp(-0.5 * apart @ np.linalg.solve(cov, apart)) / math.sqrt(np.linalg.det(2 * math.pi * cov))

    for point in ({"x": 0.5, "y": 0.5}, {"x": 1.0, "y": -1.0}, {"y": 1.0}, {"x": 2.0}):
        a, b = density(point, 0), density(point, 1)
        assert net.posterior("c", point)["a"] == pytest.approx(a / (a + b), abs=0.04)


def test_correlated_numbers_of_a_regression_stand_in_for_each_other():
    rng = np.random.default_rng(0)
    cov = np.array([[1.0, 0.95], [0.95, 1.0]])
    codes = rng.choice(2, p=[0.3, 0.7], size=3000)
    means = np.array([[0.0, 0.0], [0.6, 0.2]])
    values = means[codes] + rng.multivariate_normal([0.0, 0.0], cov, size=3000)
    data = {"x": values[:, 0], "y": values[:, 1], "c": np.array(["a", "b"])[codes]}
    net, plain = (logistic(data, "c", correlated=correlated) for correlated in (True, False))
    assert ("x", "y") in net.edges

    def told(point: dict[str, float]) -> float:
        kept = [i for i, name in enumerate("xy") if name in point]
        apart = [point["xy"[i]] for i in kept] - means[:, kept]
        inverse = np.linalg.inv(cov[np.ix_(kept, kept)])
        shares = np.array([0.3, 0.7]) * np.exp(-0.5 * np.einsum("ki,ij,kj->k", apart, inverse, apart))
        return float(shares[0] / shares.sum())

    for point in ({"x": 0.5, "y": 0.5}, {"x": 2.0}, {"y": -2.0}, {}):
        assert net.posterior("c", point)["a"] == pytest.approx(told(point), abs=0.03)
    complete = {"x": 1.0, "y": -1.0}
    assert net.posterior("c", complete)["a"] == pytest.approx(plain.posterior("c", complete)["a"], abs=1e-9)
    # all classes together are distributed as the cells are
    assert net.posterior("x").mean() == pytest.approx(values[:, 0].mean(), abs=0.05)


@pytest.mark.parametrize("build", [partial(logistic, correlated=True), discriminant])
def test_holes_hide_no_covariance(build):
    rng = np.random.default_rng(0)
    codes = rng.integers(2, size=1500)
    values = rng.multivariate_normal([0.0, 0.0], [[1.0, 0.9], [0.9, 1.0]], size=1500)
    values[:, 0] += codes
    complete = dict(zip("xy", values.T, strict=True)) | {"c": np.array(["a", "b"])[codes]}
    holes = np.where(rng.random(values.shape) < 0.3, np.nan, values)
    net, other = (build({**complete, "x": cells[:, 0], "y": cells[:, 1]}, "c") for cells in (values, holes))
    for point in ({"x": 1.0, "y": 1.0}, {"x": 1.0, "y": 0.0}, {"x": 1.0}):
        assert other.posterior("c", point)["a"] == pytest.approx(net.posterior("c", point)["a"], abs=0.1)
    slopes = [network.potential("y").coefficients for network in (net, other)]
    np.testing.assert_allclose(slopes[0], slopes[1], atol=0.1)


@pytest.mark.parametrize("seed", range(4))
def test_shrinkage_is_what_predicts_held_out_rows_best(seed):
    """Of all strengths without a sphere, then of larger spheres as long as one gains enough."""
    rng = np.random.default_rng(seed)
    codes = rng.integers(3, size=50)
    values = rng.normal(size=(50, 4)) @ rng.normal(size=(4, 4)) * (1 + codes[:, None] * (seed % 2)) + codes[:, None]
    weights = rng.integers(1, 4, 50).astype(float)
    table = hb.Table(
        dict(zip("wxyz", values.T, strict=True)) | {"c": np.array(["a", "b", "e"])[codes]}, weights=weights
    )
    data, target = read_data_with_class(table, "c", "auto", None, "")
    analysis, parts = DiscriminantAnalysis(data, target), rng.integers(3, size=50)

    def predict(strength: float, share: float) -> np.ndarray:
        logs = np.empty((50, 3))
        for part in range(3):
            test, rows = np.flatnonzero(parts == part), np.flatnonzero(parts != part)
            means, covariances = (part[:, 0] for part in analysis.estimate(rows, strength, share))
            apart = analysis.values[test, None] - means
            squares = np.einsum("rki,kij,rkj->rk", apart, np.linalg.inv(covariances), apart)
            logs[test] = analysis._score_tables(rows, test) - 0.5 * (squares + np.linalg.slogdet(covariances)[1])
        return special.log_softmax(logs, axis=1)

    told = {(share, strength): predict(strength, share) for share in SHARES for strength in STRENGTHS}
    losses = {place: np.minimum(-logs[np.arange(50), codes], MOST_LOSS) @ weights for place, logs in told.items()}
    best = min(((0.0, strength) for strength in STRENGTHS), key=losses.__getitem__)
    for share in SHARES[1:]:
        before = best
        for strength in STRENGTHS[STRENGTHS.index(best[1]) :]:
            if losses[share, strength] >= losses[best]:
                break
            best = share, strength
        if losses[before] - losses[best] < 1e-3 * weights.sum():
            break
    shrinkage, probabilities = analysis.tune(parts)
    assert shrinkage == best[::-1]  # the strength, the share
    np.testing.assert_allclose(probabilities, np.exp(told[best]), atol=1e-9)


def test_more_numbers_than_rows_of_a_class_make_covariances_rounder():
    rng = np.random.default_rng(0)
    values = rng.normal(size=(60, 40)) + np.repeat([0.0, 0.6], 30)[:, None]
    data = {f"x{i}": column for i, column in enumerate(values.T)} | {"c": np.repeat(["a", "b"], 30)}
    _, told = known(declaration_of(discriminant).held_out)(data, "c")
    loss = -np.log(known(told)(np.arange(60)).probabilities[np.arange(60), np.repeat([0, 1], 30)])
    assert loss.mean() < 0.35


@pytest.mark.parametrize("build", [random_forest, logistic, discriminant])
def test_a_number_as_target_is_refused(build):
    with pytest.raises(NetworkError, match="is continuous"):
        build({"x": [1.0, 2.0, 3.0, 4.0], "y": [1.0, 2.0, 4.0, 3.0]}, "y")


def test_families_that_a_regression_does_not_have_are_refused():
    with pytest.raises(NetworkError, match="normal densities and tables"):
        logistic(mixed(40), "c", "kernel")
    with pytest.raises(NetworkError, match="trees must be"):
        random_forest(mixed(40), "c", trees=0)
    with pytest.raises(NetworkError, match="column 'x'"):
        random_forest(mixed(40), "c", name="x")


def test_columns_of_one_state_and_rare_classes_are_no_trouble():
    data = {"x": [1.0, 2.0, 3.0, 4.0, 5.0, 6.0], "d": ["k"] * 6, "c": ["a", "a", "a", "b", "b", "z"]}
    for build in (partial(random_forest, trees=3), logistic, discriminant):
        net = build(data, "c", "gaussian")
        assert np.isfinite(as_discrete(net.posterior("c", {"x": 3.5, "d": "k"})).probabilities).all()
