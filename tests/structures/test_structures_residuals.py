"""Tails, outlying rows, and the coverage of intervals: what held-out residuals decide."""

import pickle
from functools import partial

import numpy as np
import pytest
from narrowing import as_continuous, as_discrete, as_kind, known
from scipy.integrate import trapezoid

import hybridbn as hb
from hybridbn.fitting.cross_validation import is_clearly_less
from hybridbn.structures import automatic, model_tree, regression
from hybridbn.structures.automatic import Race, calibrate_intervals, summarize_levels, widen_level
from hybridbn.structures.building import Build
from hybridbn.structures.heldout import ResidualMixture, crps, fit_residual_mixture, score_residuals
from hybridbn.structures.training_data import read_data_with_target


def line(rows: int = 120, seed: int = 0, spoiled: int = 0):
    """A straight line with small errors, some of whose targets are far off on the side of large x."""
    rng = np.random.default_rng(seed)
    x, z = rng.normal(size=(2, rows))
    y = 2 * x - z + 0.2 * rng.normal(size=rows)
    worst = np.argsort(x)[-20:][:spoiled]
    y[worst] -= 40.0
    return {"x": x, "z": z, "y": y}


@pytest.mark.parametrize("seed", range(3))
def test_a_few_wrong_targets_do_not_bend_the_line(seed):
    net = regression(line(seed=seed, spoiled=4), "y")
    fresh = line(seed=seed + 10)
    predicted = net.posterior("y", hb.Table(fresh).drop("y")).median()
    assert np.sqrt(np.mean((predicted - fresh["y"]) ** 2)) < 0.4


def test_scores_are_clearly_less_by_two_standard_errors():
    rng = np.random.default_rng(0)
    noise, weights = rng.normal(size=100), np.ones(100)
    noise = (noise - noise.mean()) / noise.std() / 10  # a standard error of 0.01
    for gain, clear in ((0.015, False), (0.025, True)):
        assert is_clearly_less(np.zeros(100), gain + noise, weights) == clear


def test_rows_of_normal_residuals_are_all_trusted():
    net = regression(line(), "y")
    assert as_discrete(net.variable("y noise")).states == ("usual", "any")
    design = np.column_stack((np.ones(120), line()["x"], line()["z"]))
    expected = np.linalg.lstsq(design, line()["y"], rcond=None)[0]
    np.testing.assert_allclose(as_kind(hb.LinearGaussian, net.potential("y")).coefficients[0], expected[1:], atol=0.01)


@pytest.mark.parametrize("build", [regression, model_tree, automatic], ids=["regression", "tree", "automatic"])
def test_no_target_within_the_usual_range_is_taken_for_impossible(build):
    data = line(rows=60)
    net = build(data, "y")
    wide = np.std(data["y"])
    # the prediction is certain, extrapolated or both, and the target contradicts it
    rows = {"x": [0.0, 30.0, -30.0], "z": [0.0, -30.0, 0.0]}
    for truth in (-2 * wide, 0.0, 2 * wide):
        logs = net.posterior("y", hb.Table(rows)).log_pdf(truth)
        widest = -0.5 * np.log(2 * np.pi * wide**2) - 0.5 * (truth / wide) ** 2
        assert (logs > widest - 10).all()


def test_scores_are_those_of_the_mixture():
    rng = np.random.default_rng(0)
    mixture = ResidualMixture(np.array([0.7, 0.3]), np.array([1.0, 9.0]), 0.0)
    rows = np.array([0, 2, 2, 2, 3])
    residuals, variances = rng.normal(size=5), rng.uniform(0.5, 2, 5)
    scores = score_residuals(mixture, residuals, variances, rows, 4)
    assert np.isnan(scores[1])
    grid = np.linspace(-30, 30, 20_001)
    from scipy.stats import norm

    for row in (0, 2, 3):
        own = np.flatnonzero(rows == row)
        below = np.mean(
            [
                mixture.shares @ norm.cdf(grid + residuals[i], scale=np.sqrt(variances[i] * mixture.factors)[:, None])
                for i in own
            ],
            axis=0,
        )
        expected = trapezoid((below - (grid >= 0)) ** 2, grid)
        assert scores[row] == pytest.approx(expected, abs=1e-3)


def test_outlying_rows_count_less():
    rng = np.random.default_rng(1)
    residuals = rng.normal(size=300) * np.where(np.arange(300) < 20, 12.0, 1.0)
    mixture = fit_residual_mixture(residuals, np.ones(300), np.arange(300), np.ones(300))
    trust = mixture.weigh_rows(residuals, np.ones(300))
    assert trust[np.abs(residuals) > 8].max() < 0.1 < 0.8 < trust[np.abs(residuals) < 1].min()


@pytest.mark.parametrize("level", [0.5, 0.8, 0.9])
def test_intervals_hold_as_many_rows_as_they_promise(level):
    """Whatever the levels of held-out rows are distributed like, a new one is inside with the probability wanted."""
    rng = np.random.default_rng(0)
    inside = []
    for count in (19, 60, 250):
        for _ in range(400):
            levels = rng.beta(2.0, 0.7, size=count + 1)
            known = summarize_levels(levels[:-1], np.ones(count))
            inside.append(levels[-1] <= widen_level(known, level))
    assert np.mean(inside) == pytest.approx(level, abs=4 * np.sqrt(level * (1 - level) / len(inside)))


def test_weights_are_repetitions_for_levels():
    levels = np.array([0.5, 0.7, 0.95, 0.2])
    weights = np.array([1.0, 3.0, 1.0, 2.0])
    repeated = summarize_levels(np.repeat(levels, weights.astype(int)), np.ones(7))
    weighted = summarize_levels(levels, weights)
    for level in (0.4, 0.6):
        assert widen_level(weighted, level) == pytest.approx(widen_level(repeated, level), abs=0.2)


def test_a_network_that_is_too_sure_is_calibrated():
    rng = np.random.default_rng(0)
    x = rng.normal(size=150)
    # copies of an attribute count twice for naive Bayes, which is then too sure of the target
    data = {**{f"x{i}": x + 0.1 * rng.normal(size=150) for i in range(6)}, "y": x + rng.normal(size=150)}
    levels = calibrate_intervals("naive_bayes", data, "y", "gaussian")
    assert len(levels) == 150
    assert widen_level(levels, 0.8) > 0.93
    assert calibrate_intervals("naive_bayes", {"x": [1.0, 2.0, 4.0], "y": [1.0, 3.0, 2.0]}, "y") == []


def test_automatic_knows_its_own_levels(tmp_path):
    net = automatic(line(), "y", candidates=["regression", "naive_bayes"], potentials="gaussian")
    levels = net.graph["calibration"]
    assert len(levels) == 120
    assert levels == sorted(levels)
    net.save(tmp_path / "net.hbn")
    assert as_kind(hb.Network, hb.load(tmp_path / "net.hbn")).graph["calibration"] == levels


def test_the_regressor_calibrates_by_default():
    pytest.importorskip("sklearn")
    import pandas as pd

    rng = np.random.default_rng(3)
    x = rng.normal(size=300)
    X = pd.DataFrame({f"x{i}": x + 0.1 * rng.normal(size=300) for i in range(6)})
    y = x + rng.normal(size=300)
    model = hb.HybridRegressor("naive_bayes", potentials="gaussian").fit(X[:150], y[:150])
    plain = hb.HybridRegressor("naive_bayes", potentials="gaussian", intervals="posterior").fit(X[:150], y[:150])

    def measure_coverage(model):
        low, high = model.predict_interval(X[150:], 0.8).T
        return np.mean((low <= y[150:]) & (y[150:] <= high))

    assert measure_coverage(plain) < 0.6
    assert plain.calibration_ == []
    assert 0.7 < measure_coverage(model) < 0.9
    np.testing.assert_array_equal(model.predict(X), plain.predict(X))
    again = pickle.loads(pickle.dumps(hb.HybridRegressor("naive_bayes", potentials="gaussian").fit(X[:150], y[:150])))
    np.testing.assert_array_equal(again.predict_interval(X, 0.8), model.predict_interval(X, 0.8))
    assert hb.HybridRegressor("naive_bayes", potentials="gaussian").partial_fit(X, y).calibration_ == []
    with pytest.raises(hb.HybridBNError, match="intervals must be"):
        hb.HybridRegressor(intervals="wide").fit(X, y)  # type: ignore[arg-type]
    with pytest.raises(hb.HybridBNError, match="between 0 and 1"):
        model.predict_interval(X, 90)


def test_scores_of_posteriors_by_formula_and_by_levels():
    from hybridbn.inference.posteriors.continuous import Density

    x, c = hb.Continuous("x"), hb.Discrete("c", ("a", "b", "d"))
    net = hb.Network(
        [hb.Multinomial(c, table=[0.5, 0.3, 0.2]), hb.LinearGaussian(x, (c,), intercept=[0, 3, -1], variance=[1, 4, 9])]
    )
    batch = net.posterior("x", hb.Table({"c": ["a", "b", None]}))
    truth = np.array([1.0, -2.0, 7.0])
    assert isinstance(batch, Density)
    np.testing.assert_allclose(batch.crps(truth), Density._crps(batch, truth[None])[0], rtol=2e-3)
    np.testing.assert_allclose(as_continuous(batch).pit(truth), [batch[i].cdf(truth[i]) for i in range(3)])
    assert batch[1].crps(-2.0) == pytest.approx(as_continuous(batch).crps(truth)[1])
    with pytest.raises(hb.HybridBNError, match="one number for each of the 3 rows"):
        as_continuous(batch).crps(1.0)


def make_states(seed, rows, states=50):
    """Return a category of many states, which tells nothing, beside a number and one with holes, which do."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(rows, 2))
    y = np.where(x[:, 0] < 0, x[:, 1], 2 - x[:, 1]) + rng.normal(size=rows)
    names = np.array([f"s{state:02}" for state in rng.integers(states, size=rows)], dtype=object)
    x[rng.random(rows) < 0.2, 1] = np.nan
    return hb.Table({"x": x[:, 0], "z": x[:, 1], "name": names, "y": y})


@pytest.mark.parametrize("build", [regression, model_tree, partial(model_tree, trees=20)])
def test_rows_left_out_are_predicted_as_new_ones_are(build):
    """No row tells its own prediction anything, not even by the effect of a category that few rows share."""
    scores = []
    for seed in range(4):
        table = make_states(seed, 240)
        training, fresh = table[:120], table[120:]
        network, held_out = Build.of(build).learn_held_out(training, "y")
        told = network.posterior("y", fresh.select(["x", "z", "name"]), beyond="bound")
        pair = [(known(held_out)(np.arange(120)), training.column("y")), (told, fresh.column("y"))]
        scores.append([[p.crps(y).mean(), (p.central_level(y) < 0.9).mean()] for p, y in pair])
    (own, inside), (new, _) = np.mean(scores, axis=0)
    assert own == pytest.approx(new, rel=0.1)
    assert inside == pytest.approx(0.9, abs=0.05)


def test_regressions_leave_out_what_they_say():
    rng = np.random.default_rng(2)
    x = rng.normal(size=30)
    data = {"x": x, "c": np.where(rng.random(30) < 0.5, "a", "b"), "y": x + 0.3 * rng.normal(size=30)}
    data["y"][4] = np.nan
    table = hb.Table(data)
    _, held_out = Build.of("regression").learn_held_out(table, "y")
    means = known(held_out)(np.arange(30)).mean()
    assert np.isnan(means[4])
    np.testing.assert_array_equal(known(held_out)(np.array([7, 4, 3])).mean(), means[[7, 4, 3]])
    for row in (0, 7, 29):
        without = regression(table.take(np.arange(30) != row), "y")
        own = {name: table.select([name]).to_dict()[name][row] for name in ("x", "c")}
        assert means[row] == pytest.approx(without.posterior("y", own).mean(), abs=0.03)


def test_comparisons_of_numbers_learn_each_candidate_once():
    table = make_states(0, rows=300)
    read = read_data_with_target(table, "y", "auto", None)
    rows = np.arange(300)
    candidates = {f"{name}, gaussian": (Build.of(name), "gaussian") for name in ("regression", "model_tree")}
    race = Race(read, "y", crps, rows, rows % 5, candidates=candidates)
    race.run()
    assert set(race.losses) == set(race.built) == {"regression, gaussian", "model_tree, gaussian"}
    assert not race._networks  # no fold is learned
    # nobody drops out after a few rows, as all of them are known
    for name, (build, _) in candidates.items():
        _, held_out = build.learn_held_out(table, "y", "gaussian")
        expected = known(held_out)(rows).crps(table.column("y")).mean()
        assert race.losses[name] == pytest.approx(expected)
    levels, _ = race.hold_out("model_tree, gaussian", 1000)
    assert len(levels) == 300
