"""What imputation expects of a number given all others: forests, regressions and their mixture."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from narrowing import as_kind, known

import hybridbn as hb
from hybridbn.fitting.ridge import fit_ridges
from hybridbn.learning.imputation import data_augmentation, predictive_mean_matching
from hybridbn.learning.imputation.column_matching import StackedRegression, _choose_others, fit_stacked_regression
from hybridbn.learning.imputation.data_augmentation import DefaultLearner, has_drift
from hybridbn.structures.random_forest import grow_forest


def learned(rows: int, y: str) -> tuple[np.ndarray, StackedRegression, np.ndarray, float]:
    """Return features, what is learned, its predictions of the rows, and the target's variance."""
    rng = np.random.default_rng(0)
    x, z, noise = rng.normal(size=(3, rows))
    target = {
        "line": 2 * x - z + noise,
        "bent": np.abs(x) + 0.3 * noise,
        "steps": np.floor(3 * x) % 2 + 0.2 * noise,
        "noise": noise,
    }[y]
    features = np.column_stack([x, target, z])
    fit = fit_stacked_regression(features, [1], np.ones(rows), rng)
    assert fit.regression.others.tolist() == [0, 2]
    return features, fit.regression, fit.training[0], float(target.var())


def test_lines_need_nothing_else() -> None:
    features, rule, without, variance = learned(1000, "line")
    assert rule.share == 0
    assert not len(rule.bends)
    assert abs(((features[:, 1] - without) ** 2).mean() / variance - 1 / 6) < 0.03


def test_steps_need_a_forest() -> None:
    features, rule, without, variance = learned(1000, "steps")
    assert 0.7 < rule.share[0] < 1.3
    assert ((features[:, 1] - without) ** 2).mean() / variance < 0.5


def test_bends_need_curves_that_go_on_where_nothing_is_observed() -> None:
    rng = np.random.default_rng(0)
    x, z, noise = rng.normal(size=(3, 500))
    seen = np.column_stack([x, 1 + x**2 + x * z + 0.1 * noise, z])[x < 1]
    rule = fit_stacked_regression(seen, [1], np.ones(len(seen)), rng).regression
    assert len(rule.bends)
    beyond = rule.predict(np.array([[1.5, np.nan, 1.0], [1.5, np.nan, -1.0]]))[:, 0]
    np.testing.assert_allclose(beyond, [4.75, 1.75], atol=0.4)
    features, rule, without, variance = learned(1000, "bent")
    assert len(rule.bends) or rule.share > 0.7
    # the noise is a fifth of the variance
    assert ((features[:, 1] - without) ** 2).mean() / variance < 0.27


def test_noise_is_expected_to_be_the_mean() -> None:
    features, _, without, _ = learned(1000, "noise")
    assert without.std() < 0.1
    assert np.corrcoef(without, features[:, 1])[0, 1] < 0.15


def test_what_a_regression_says_without_a_row_is_what_it_says_when_that_row_is_left_out() -> None:
    rng = np.random.default_rng(0)
    features = rng.normal(size=(40, 4)) @ rng.normal(size=(4, 4))
    others = np.delete(features, 2, axis=1)
    target = features[:, 2] - features[:, 2].mean()
    weights = rng.integers(1, 3, size=40).astype(float)
    ridge = fit_ridges(others, target[:, None], weights)
    fitted, _ = ridge.explain(others, weights, 0)
    np.testing.assert_allclose(fitted, ((others - ridge.center) @ ridge.slopes)[:, 0])
    left_out = ridge.leave_out(others, target[:, None], weights)[:, 0]
    for row in range(5):
        kept = np.arange(40) != row
        design = np.sqrt(weights[kept])[:, None] * np.column_stack([np.ones(39), others[kept]])
        exact = np.linalg.lstsq(design, np.sqrt(weights[kept]) * target[kept], rcond=None)[0]
        assert abs(left_out[row] - np.append(1.0, others[row]) @ exact) < 0.05 * target.std()


def test_a_row_with_weight_two_counts_as_two_rows() -> None:
    rng = np.random.default_rng(0)
    features = rng.normal(size=(60, 3)) @ rng.normal(size=(3, 3))
    weights = rng.integers(1, 3, size=60)
    one = fit_stacked_regression(features, [0], weights.astype(float), rng).regression
    repeated = np.repeat(features, weights, axis=0)
    other = fit_stacked_regression(repeated, [0], np.ones(weights.sum()), rng).regression
    np.testing.assert_allclose(one.curves.center, other.curves.center)
    np.testing.assert_allclose(one.slopes / other.slopes[0], other.slopes / other.slopes[0], rtol=0.1, atol=0.02)


def test_leaves_hold_three_rows_at_least_and_questions_do_not_depend_on_units() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(200, 3))
    y = np.sin(2 * x[:, 0]) + x[:, 1] * x[:, 2]
    forest, counts = grow_forest(x, y, np.random.default_rng(5))
    assert np.corrcoef(forest.predict_unseen(x, counts), y)[0, 1] > 0.7
    # a leaf holds the mean of the rows that its tree has seen, however the rows are weighed
    both, seen = grow_forest(x, np.column_stack([y, -y]), np.random.default_rng(5))
    leaf = np.isinf(both.cut)
    again = both.reweigh(x, np.column_stack([y, -y]), seen.astype(float))
    np.testing.assert_allclose(again.value[leaf], both.value[leaf], atol=1e-12)
    np.testing.assert_allclose(again.predict(x)[:, 0], -both.predict(x)[:, 1])
    leaves = np.isinf(forest.cut)
    assert (forest.left[leaves] == np.flatnonzero(leaves)).all()
    assert (forest.left[~leaves] > np.flatnonzero(~leaves)).all()
    scaled, _ = grow_forest(1024 * x, y, np.random.default_rng(5))
    np.testing.assert_array_equal(scaled.predict(1024 * x), forest.predict(x))


def test_a_constant_has_trees_of_one_leaf() -> None:
    forest, counts = grow_forest(np.arange(30.0)[:, None], np.zeros(30), np.random.default_rng(0))
    assert len(forest.value) == len(forest.roots)
    assert not forest.predict_unseen(np.arange(30.0)[:, None], counts).any()


def test_a_chain_goes_on_until_its_statistics_stay() -> None:
    rng = np.random.default_rng(0)
    noise = rng.normal(size=(30, 4))
    start = np.exp(-np.arange(30.0) / 8)[:, None]
    assert not has_drift(noise)
    assert has_drift(noise + 20 * start)
    # neither a constant nor a number of rounds that tells nothing
    assert not has_drift(np.ones((30, 4)))
    assert not has_drift(noise[:6] + 20 * start[:6])


def test_half_of_the_cells_missing_takes_more_rounds_than_a_tenth() -> None:
    rng = np.random.default_rng(1)
    x, y = rng.normal(size=(2, 200))
    true = pd.DataFrame({"x": x, "copy": 3 - 2 * x + 0.1 * y, "y": y})
    counts = []
    for rate in (0.1, 0.5):
        frame = true.mask(rng.random(true.shape) < rate)
        result = hb.impute(frame[frame.notna().any(axis=1)], details=True, random_state=0)
        counts.append(len(result.history))
        seen = result.table["x"] * -2 + 3 - result.table["copy"]
        # the copy stays one, where one of the two is missing and where both are
        assert seen.std() < 0.2
    assert counts[0] < counts[1]
    assert counts[1] >= 10


def test_states_that_contradict_the_network_are_drawn_given_all_other_cells(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(predictive_mean_matching, "_disagree", lambda *_: True)
    rng = np.random.default_rng(2)
    x, z = rng.normal(size=(2, 400))
    kind = np.select([x * z > 1, x * z < -1], ["same", "different"], "small")
    true = pd.DataFrame({"x": x, "z": z, "kind": kind})
    hidden = rng.random(400) < 0.3
    frame = true.assign(kind=true["kind"].mask(hidden))
    network = hb.impute(frame, details=True, random_state=0).network
    assert list(known(network).graph["imputation"]["matching"]["states"]) == ["kind"]
    filled = hb.impute(frame, network=network, random_state=0)
    assert (filled["kind"] == kind)[hidden].mean() > 0.75
    with pytest.warns(UserWarning, match="expected values"):
        expected = hb.impute(frame, network=network, strategy="mean", random_state=0)
    assert (expected["kind"] == kind)[hidden].mean() > (filled["kind"] == kind)[hidden].mean()
    known(network).save(tmp_path / "model.hbn")
    loaded = hb.load(tmp_path / "model.hbn")
    part = hb.impute(frame[100:150], network=as_kind(hb.Network, loaded), random_state=0)
    pd.testing.assert_frame_equal(part, filled[100:150], check_exact=True)


@pytest.mark.filterwarnings("ignore:imputing expected values")
@pytest.mark.parametrize("bend", [0.0, 1.0])
def test_expected_numbers_of_matched_columns_lie_on_their_lines_and_curves(bend: float) -> None:
    rng = np.random.default_rng(4)
    x, u = rng.normal(size=(2, 600))
    z = x + 0.5 * u
    true = pd.DataFrame({"x": x, "z": z, "y": x + bend * x**2 + rng.exponential(0.3, size=600)})
    hidden = rng.random(true.shape) < 0.25
    hidden[:, 1] = False
    frame = true.mask(hidden)
    result = hb.impute(frame, strategy="mean", details=True, random_state=0)
    matching = known(result.network).graph["imputation"]["matching"]
    assert "y" in matching["donors"]
    # of x given z: the normal distribution with this mean and variance
    given_z, variance = z / 1.25, 0.2
    alone, both = hidden[:, 2] & ~hidden[:, 0], hidden[:, 2] & hidden[:, 0]
    expected = np.where(hidden[:, 0], given_z + bend * (given_z**2 + variance), x + bend * x**2) + 0.3
    error = result.table["y"].to_numpy() - expected
    # where x is unknown, a single draw of it is wrong by 0.5, and its expectation alone by 0.2 in the mean
    assert np.abs(error[alone]).mean() < 0.2
    assert np.abs(error[both]).mean() < 0.35
    assert abs(error[both].mean()) < 0.1
    # each row by itself
    part = hb.impute(frame[200:230], network=result.network, strategy="mean", random_state=0)
    pd.testing.assert_frame_equal(part, result.table[200:230], rtol=1e-12)


def test_what_fits_the_weights_of_a_bootstrap_by_chance_does_not_bring_slopes_of_their_own() -> None:
    rng = np.random.default_rng(0)
    rows = 300
    first, second = rng.choice(list("abcd"), size=(2, rows))
    x = rng.normal(size=rows)
    y = x + (first == "a") - (second == "b") + rng.normal(size=rows)
    table = hb.Table({"first": first, "second": second, "x": x, "y": y})
    graph = hb.Network()
    for name in table.names:
        graph.add_node(name, variable=table.variable(name))
    graph.add_edges_from([("first", "y"), ("second", "y"), ("x", "y")])
    learner = DefaultLearner({})
    with_common_slopes = 0
    for _ in range(20):
        drawn = learner.learn_again(graph, table.with_weights(rng.gamma(1.0, size=rows)), settled=True, bootstrap=True)
        with_common_slopes += np.ptp(as_kind(hb.LinearGaussian, drawn.potential("y")).coefficients) == 0
    assert with_common_slopes >= 18


def test_many_rows_start_from_rounds_with_some_and_end_with_all(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(3)
    x, u = rng.normal(size=(2, 1000))
    kind = np.where(x + rng.normal(size=1000) > 0, "big", "small")
    true = pd.DataFrame({"x": x, "y": 1 + 2 * x + (kind == "big") + u, "kind": kind})
    frame = true.mask(rng.random(true.shape) < 0.3)
    frame = frame[frame.notna().any(axis=1)]
    whole = hb.impute(frame, details=True, random_state=0)
    monkeypatch.setattr(data_augmentation, "_FIRST_ROWS", 200)
    monkeypatch.setattr(data_augmentation, "_LEAST_ROUNDS", 4)
    some = hb.impute(frame, details=True, random_state=0)
    potentials = [as_kind(hb.LinearGaussian, known(one.network).potential("y")) for one in (whole, some)]
    of_y = [np.concatenate([p.intercept.ravel(), p.coefficients.ravel()]) for p in potentials]
    np.testing.assert_allclose(of_y[0], of_y[1], atol=0.25)
    assert len(some.history) > len(whole.history)
    # where few rows would hardly show a column's states, all rows learn from the start
    rare = frame.assign(rare=np.where(np.arange(len(frame)) % 40 == 0, "yes", "no"))
    assert len(hb.impute(rare, details=True, random_state=0).history) < len(some.history)
    # arcs of the user's builder come from all rows
    monkeypatch.setattr(data_augmentation, "_LEAST_ROUNDS", 2)
    assert len(hb.impute(frame, structure="chow_liu", potentials="gaussian", details=True, random_state=0).history) > 2


def test_a_bootstrap_sample_keeps_what_all_rows_have_chosen() -> None:
    rng = np.random.default_rng(6)
    x, noise = rng.normal(size=(2, 300))
    features = np.column_stack([x, x + x**2 + 0.3 * noise])
    fit = fit_stacked_regression(features, [1], np.ones(300), rng)
    asked = np.column_stack([np.linspace(-3, 3, 7), np.zeros(7)])
    same = fit.refit(features, np.ones(300)).regression
    np.testing.assert_allclose(same.predict(asked), fit.regression.predict(asked), atol=0.02)
    drawn = []
    for _ in range(60):
        weights = np.bincount(rng.integers(300, size=300), minlength=300).astype(float)
        drawn.append(fit.refit(features, weights).regression.predict(asked)[:, 0])
    # neither flatter at the ends than the curve of all rows, nor the same each time
    center, spread = np.mean(drawn, axis=0), np.std(drawn, axis=0)
    np.testing.assert_array_less(np.abs(center - same.predict(asked)[:, 0]), 4 * spread / np.sqrt(60) + 0.1)
    assert (spread > 0.01).all()


def test_of_many_columns_those_count_that_go_with_a_target_by_weight(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hybridbn.learning.imputation.column_matching._MOST_FEATURES", 2)
    rng = np.random.default_rng(0)
    features = rng.normal(size=(200, 6)) + 7
    features[:, 5] = 7 - 100 * (features[:, 1] + 0.1 * rng.normal(size=200))
    features[:, 3] = 7 + features[:, 4] + 0.5 * rng.normal(size=200)
    weights = np.repeat([1.0, 0.0], 100)
    features[100:, 2], features[100:, 5] = features[100:, 1], 0.0
    assert _choose_others(features, [1, 4], weights).tolist() == [3, 5]
