"""Numbers that are far from normal, and the regressions and arcs that imputation learns by default."""

from __future__ import annotations

import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from narrowing import as_kind, known
from scipy import stats

import hybridbn as hb
from hybridbn.fitting import GaussianFitter
from hybridbn.inference.sampling import conditional_gaussian
from hybridbn.learning.imputation import data_augmentation
from hybridbn.learning.imputation.column_matching import (
    DonorRule,
    StackedRegression,
    choose_donors,
    fit_stacked_regression,
    match_numbers,
)
from hybridbn.learning.imputation.data_augmentation import DefaultLearner
from hybridbn.learning.imputation.default_network import ImputationRegression, conditional_gaussian_arcs
from hybridbn.learning.imputation.predictive_mean_matching import PredictiveMeanMatching, add_matching

pytestmark = pytest.mark.filterwarnings("ignore:.* rows have no observed cell")


def test_skewed_numbers_are_taken_from_rows_like_theirs() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=1500)
    true = pd.DataFrame({"x": x, "y": 2 + x + rng.exponential(2, 1500)})
    frame = true.copy()
    frame.loc[rng.random(1500) < 1 / (1 + np.exp(-2 * x)), "y"] = np.nan
    hidden = frame["y"].isna()
    filled = hb.impute(frame, random_state=0)
    # few numbers are known where x is large, so some get a residual instead
    assert filled.loc[hidden, "y"].isin(frame["y"]).mean() > 0.6
    residuals = (filled["y"] - filled["x"])[hidden]
    assert stats.skew(residuals) == pytest.approx(2, abs=0.8)
    assert np.polyfit(filled["x"], filled["y"], 1)[0] == pytest.approx(1, abs=0.15)
    normal = hb.impute(frame, donors=False, random_state=0)
    assert not normal.loc[hidden, "y"].isin(frame["y"]).any()
    assert abs(stats.skew((normal["y"] - normal["x"])[hidden])) < 0.4


def test_normal_numbers_are_drawn_from_the_network() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=500)
    frame = pd.DataFrame({"x": x, "y": x + rng.normal(size=500)}).mask(rng.random((500, 2)) < 0.3)
    for one, other in zip(
        hb.impute(frame, draws=2, random_state=0), hb.impute(frame, draws=2, random_state=0, donors=False), strict=True
    ):
        pd.testing.assert_frame_equal(one, other)


def test_spikes_stay_spikes() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=800)
    frame = pd.DataFrame({"x": x, "y": np.maximum(x + 0.5 * rng.normal(size=800), 0)})
    share = (frame["y"] == 0).mean()
    hidden = rng.random(800) < 0.3
    filled = hb.impute(frame.assign(y=frame["y"].mask(hidden)), random_state=0)
    assert (filled.loc[hidden, "y"] == 0).mean() == pytest.approx(share, abs=0.1)
    assert filled["y"].min() >= 0


def profiles(rows: int, seed: int) -> pd.DataFrame:
    """Return rows that repeat a few combinations of skewed numbers, which no regression of one column tells."""
    rng = np.random.default_rng(seed)
    few = np.exp(rng.normal(scale=1.5, size=(12, 6)))
    return pd.DataFrame(few[rng.integers(12, size=rows)], columns=list("abcdef"))


@pytest.mark.parametrize("rate", [0.1, 0.3])
def test_combinations_of_numbers_stay_together(rate: float) -> None:
    true = profiles(300, 1)
    hidden = np.random.default_rng(2).random(true.shape) < rate
    filled = hb.impute(true.mask(hidden), random_state=0)
    # two observed numbers of six name the combination, and three rows in four have more
    assert (filled == true).to_numpy()[hidden].mean() > 0.8


def test_leaves_have_the_donors_where_numbers_come_in_combinations_and_lines_go_on_beyond_them() -> None:
    rng = np.random.default_rng(0)
    x, noise = rng.normal(size=300), rng.exponential(size=300)
    chosen = []
    for features in (profiles(300, 1).to_numpy(), np.column_stack([x + 0.5 * noise, x])):
        fit = fit_stacked_regression(features, [0], np.ones(300), rng)
        chosen.append(choose_donors(fit, features[:, 0], features[:0]).power)
    assert chosen[0] is not None
    assert chosen[1] is None


def test_models_of_earlier_versions_have_one_sweep_and_near_donors() -> None:
    frame = profiles(120, 3)
    network = hb.impute(frame.mask(np.random.default_rng(4).random(frame.shape) < 0.3), details=True).network
    content = known(network).graph["imputation"]["matching"]
    assert content["sweeps"] > 1
    earlier = {name: value for name, value in content.items() if name != "sweeps"}
    earlier["donors"] = {
        name: {key: value for key, value in one.items() if key != "leaves"} for name, one in content["donors"].items()
    }
    for one in earlier["donors"].values():
        # there was one output
        old = one["expectation"] = dict(one["expectation"])
        old |= {name: float(old[name][0]) for name in ("constant", "share")}
        old |= {name: old[name][:, 0] for name in ("slopes", "bends")}
        old["forest"] = {**old["forest"], "value": old["forest"]["value"][:, 0]}
    matching = PredictiveMeanMatching.from_dict(earlier)
    features = np.random.default_rng(5).normal(size=(9, 6))
    for name, one in content["donors"].items():
        read = StackedRegression.from_dict(earlier["donors"][name]["expectation"])
        wanted = StackedRegression.from_dict(one["expectation"])
        np.testing.assert_array_equal(read.predict(features), wanted.predict(features))
        assert read.forest.value.shape == wanted.forest.value.shape
    assert matching.sweeps == 1
    assert all(getattr(matcher, "leaves", None) is None for matcher in matching.matchers.values())


def bent(rows: int, seed: int) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    x, c = rng.uniform(-2, 2, rows), rng.integers(2, size=rows)
    y = np.where(c == 1, np.abs(x), -(x**2)) + 0.2 * rng.normal(size=rows)
    return pd.DataFrame({"x": x, "y": y, "c": np.array(["a", "b"])[c]})


def test_numbers_follow_curves_that_differ_between_categories() -> None:
    true = bent(800, 0)
    hidden = np.random.default_rng(1).random(800) < 0.3
    frame = true.assign(y=true["y"].mask(hidden))
    draws = hb.impute(frame, draws=5, random_state=0)
    error = np.mean([(draw["y"] - true["y"])[hidden] ** 2 for draw in draws])
    # a draw from the truth is off by the noise twice; straight lines by six times that
    assert error / true["y"][hidden].var() < 0.12
    straight = hb.impute(frame, random_state=0, donors=False)
    assert ((straight["y"] - true["y"])[hidden] ** 2).mean() / true["y"][hidden].var() > 0.3


def test_odd_curves_and_products_are_found_and_lines_with_categories_are_not() -> None:
    rng = np.random.default_rng(4)
    x, z, noise = rng.normal(size=(3, 400))
    kind = rng.choice(["a", "b"], size=400)
    shift = np.where(kind == "a", 3.0, 0.0)
    true = pd.DataFrame({"x": x, "z": z, "wave": np.sin(2 * x) + 0.3 * noise, "product": x * z, "kind": kind})
    true["line"] = shift + x + noise
    frame = true.mask(rng.random(true.shape) < 0.1)
    network = hb.impute(frame[["x", "z", "wave", "product"]], details=True, random_state=0).network
    assert {"wave", "product"} <= set(known(network).graph["imputation"]["matching"]["donors"])
    straight = hb.impute(frame[["x", "kind", "line"]], details=True, random_state=0).network
    assert not known(straight).graph["imputation"]["matching"]


def test_states_that_badly_described_numbers_depend_on_are_drawn_by_regressions() -> None:
    rng = np.random.default_rng(0)
    group = rng.choice(["a", "b"], p=[0.7, 0.3], size=200)
    for noise, matched in ((rng.normal(size=200), []), (rng.exponential(size=200), ["group", "y"])):
        frame = pd.DataFrame({"group": group, "y": noise + 0.8 * (group == "b")}).mask(rng.random((200, 2)) < 0.3)
        network = hb.impute(frame, rules=False, details=True, random_state=0).network
        assert (known(network).graph["imputation"]["matching"] or {"order": []})["order"] == matched


def test_leaves_without_donors_do_not_end_the_choice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hybridbn.learning.imputation.column_matching._MOST_DONORS", 20)
    rng = np.random.default_rng(0)
    features = rng.normal(size=(300, 2))
    fit = fit_stacked_regression(features, [1], np.ones(300), rng)
    with np.errstate(all="raise"):
        assert choose_donors(fit, features[:, 1], features[:100]).power is None
    leaves = match_numbers(fit, features[:, 1], np.ones(300), DonorRule(has_spikes=False, power=1.0)).leaves
    assert leaves is not None
    assert not leaves.counts[fit.find_leaves(fit.seen)].all()


def test_numbers_that_nothing_tells_about_come_from_any_row() -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({
        "x": rng.normal(size=200), "z": rng.normal(size=200), "rare": (rng.permutation(200) < 26) * 1.0
    })  # fmt: skip
    hidden = rng.random(200) < 0.5
    draws = hb.impute(frame.assign(rare=frame["rare"].mask(hidden)), draws=30, random_state=0)
    shares = [draw["rare"][hidden].mean() for draw in draws]
    assert np.mean(shares) == pytest.approx(frame["rare"][~hidden].mean(), abs=0.03)
    # were equal expectations not told apart by chance, all cells of a draw would get the numbers of the same few rows
    assert max(shares) < 0.4


def test_borrowed_numbers_belong_to_their_rows_and_to_a_model_that_is_saved(tmp_path: Path) -> None:
    rows = bent(300, 2)
    frame = rows.mask(np.random.default_rng(3).random(rows.shape) < 0.25)
    network = hb.impute(frame, details=True, random_state=0).network
    known(network).save(tmp_path / "model.hbn")
    loaded = hb.load(tmp_path / "model.hbn")
    # a row without any observed cell has mates with the same key
    frame = frame[frame.notna().any(axis=1)]
    filled = hb.impute(frame, network=network, random_state=0)
    pd.testing.assert_frame_equal(hb.impute(frame, network=as_kind(hb.Network, loaded), random_state=0), filled)
    part = hb.impute(frame[100:150], network=as_kind(hb.Network, loaded), random_state=0)
    pd.testing.assert_frame_equal(part, filled[100:150], check_exact=True)
    for row in range(40):
        alone = hb.impute(frame[row : row + 1], network=as_kind(hb.Network, loaded), random_state=0)
        pd.testing.assert_frame_equal(alone, filled[row : row + 1], check_exact=True)


def test_expectations_given_all_others_are_those_of_the_network() -> None:
    c, x, y = hb.Discrete("c", states=("a", "b")), hb.Continuous("x"), hb.Continuous("y")
    net = hb.Network([
        hb.Multinomial(c, table=[0.5, 0.5]),
        hb.LinearGaussian(x, parents=(c,), intercept=[0, 4], variance=[1, 2]),
        hb.LinearGaussian(y, parents=(c, x), intercept=[1, 0], coefficients=[[2], [-1]], variance=[0.25, 1]),
    ])  # fmt: skip
    closed = conditional_gaussian(net)
    assert closed is not None
    rows = net.sample(50, random_state=0)
    configuration = (rows["c"] == "b").to_numpy().astype(np.intp)
    found = closed.conditional_mean(0, rows[["x", "y"]].to_numpy(), configuration)
    np.testing.assert_allclose(found, net.posterior("x", rows[["c", "y"]]).mean(), rtol=1e-8)


def test_a_regression_without_categories_is_that_of_least_squares() -> None:
    rng = np.random.default_rng(0)
    x, z, noise = rng.normal(size=(3, 500))
    table = hb.Table({"x": x, "z": 1e3 * z, "y": 3 * x - 2 * z + noise})
    family = (table.variable("y"), (table.variable("x"), table.variable("z")))
    mine, exact = ImputationRegression().fit(table, *family), GaussianFitter().fit(table, *family)
    np.testing.assert_allclose(
        as_kind(hb.LinearGaussian, mine).coefficients, as_kind(hb.LinearGaussian, exact).coefficients, rtol=0.01
    )
    np.testing.assert_allclose(
        as_kind(hb.LinearGaussian, mine).variance, as_kind(hb.LinearGaussian, exact).variance * 500 / 497, rtol=0.01
    )


def test_a_regression_has_slopes_of_its_own_where_the_data_say_so() -> None:
    rng = np.random.default_rng(0)
    c, x, noise = rng.integers(2, size=500), *rng.normal(size=(2, 500))
    table = hb.Table({"c": c, "x": x, "y": np.where(c == 1, 3.0, -3.0) * x + noise}, discrete="c")
    found = ImputationRegression().fit(table, table.variable("y"), (table.variable("c"), table.variable("x")))
    np.testing.assert_allclose(as_kind(hb.LinearGaussian, found).coefficients.ravel(), [-3, 3], atol=0.2)


def test_arcs_follow_what_depends_on_what() -> None:
    rng = np.random.default_rng(0)
    n = 1000
    a, b = rng.integers(2, size=(2, n))
    x = a + b + rng.normal(size=n)
    d = np.where(rng.random(n) < 0.9, a, 1 - a)
    table = hb.Table({"a": a, "b": b, "d": d, "x": x, "y": x + rng.normal(size=n)}, discrete=["a", "b", "d"])
    arcs = conditional_gaussian_arcs(table)
    assert {("a", "x"), ("b", "x")} <= set(arcs) or {("a", "y"), ("b", "y")} <= set(arcs)
    assert {frozenset(arc) for arc in arcs} >= {frozenset("ad"), frozenset("xy")}
    # no category depends on a number
    assert not any(child in "abd" for parent, child in arcs if parent in "xy")
    assert len(conditional_gaussian_arcs(table, most_parents=1)) <= 4


def test_the_search_for_arcs_does_not_grow_with_rows_times_states() -> None:
    rng = np.random.default_rng(0)
    c = rng.integers(300, size=30_000)
    table = hb.Table({"c": [f"s{i}" for i in c], "x": c % 7 + rng.normal(size=len(c))})
    tracemalloc.start()
    try:
        assert conditional_gaussian_arcs(table) == [("c", "x")]
        # an indicator for each row and state would take 72 MB
        assert tracemalloc.get_traced_memory()[1] < 2e7
    finally:
        tracemalloc.stop()


def test_hidden_numbers_are_drawn_from_their_conditional_normal_distribution() -> None:
    rng = np.random.default_rng(0)
    root = rng.normal(size=(4, 4))
    z = pd.DataFrame(rng.normal(size=(400, 4)) @ root.T, columns=list("abcd"))
    closed = conditional_gaussian(hb.fit([("a", "b"), ("a", "c"), ("b", "c"), ("c", "d"), ("a", "d")], z, "gaussian"))
    assert closed is not None
    values = z[list(closed.numbers)].to_numpy()[:50].copy()
    values[rng.random(values.shape) < 0.5] = np.nan
    expected = closed._draw_numbers(values, np.zeros(50, dtype=np.intp), np.zeros(values.shape))
    none = np.zeros(1, dtype=np.intp)
    density = closed._densities(values, np.zeros(50, dtype=np.intp), none, np.ones((50, 1), dtype=bool))[:, 0]
    mean, covariance = closed.regressions.means[0], np.linalg.inv(closed.regressions.gram[0])
    for row, given in enumerate(values):
        o, h = np.flatnonzero(~np.isnan(given)), np.flatnonzero(np.isnan(given))
        pull = np.linalg.solve(covariance[np.ix_(o, o)], given[o] - mean[o])
        np.testing.assert_allclose(expected[row, h], mean[h] + covariance[np.ix_(h, o)] @ pull)
        seen = stats.multivariate_normal(mean[o], covariance[np.ix_(o, o)]).logpdf(given[o]) if len(o) else 0.0
        np.testing.assert_allclose(density[row], seen, atol=1e-9)


def test_densities_of_many_configurations_are_those_of_each() -> None:
    rng = np.random.default_rng(0)
    c, d = (hb.Discrete(name, states=tuple(f"s{i}" for i in range(k))) for name, k in (("c", 100), ("d", 3)))
    x, y, z = (hb.Continuous(name) for name in "xyz")
    tables = rng.dirichlet(np.ones(100)), rng.dirichlet(np.ones(3))
    closed = conditional_gaussian(hb.Network([
        hb.Multinomial(c, table=tables[0]),
        hb.Multinomial(d, table=tables[1]),
        hb.LinearGaussian(x, parents=(c,), intercept=1e3 + rng.normal(size=100), variance=rng.uniform(0.5, 2, 100)),
        hb.LinearGaussian(y, parents=(d, x), intercept=[0, 1, 2], coefficients=[[1], [1], [2]], variance=[1, 2, 1]),
        hb.LinearGaussian(z, parents=(x, y), intercept=0, coefficients=[1, -1], variance=0.5),
    ]))  # fmt: skip
    assert closed is not None
    values = 1e3 + rng.normal(size=(30, 3))
    values[rng.random(values.shape) < 0.4] = np.nan
    sizes = [len(variable) for variable in closed.given]
    strides = dict(zip([variable.name for variable in closed.given], [sizes[1], 1], strict=True))
    first = rng.integers(3, size=30) * strides["d"]
    steps = np.arange(100) * strides["c"]
    found = closed._densities(values, first, steps, np.ones((30, 100), dtype=bool))
    for row, step in ((0, 0), (3, 50), (29, 99)):
        alone = closed._densities(
            values[row : row + 1], first[row : row + 1], steps[step : step + 1], np.ones((1, 1), bool)
        )
        np.testing.assert_allclose(found[row, step], alone[0, 0], rtol=1e-12)


def test_the_last_draws_of_a_row_weigh_as_much_as_the_row(monkeypatch: pytest.MonkeyPatch) -> None:
    learn, seen = DefaultLearner.learn_again, []

    def note(self: DefaultLearner, network: hb.Network, completed: hb.Table, *arguments: Any, **options: Any) -> Any:
        seen.append(completed)
        return learn(self, network, completed, *arguments, **options)

    monkeypatch.setattr(DefaultLearner, "learn_again", note)
    frame = profiles(60, 3)[["a", "b", "c"]]
    hb.impute(frame.mask(np.random.default_rng(4).random(frame.shape) < 0.2), random_state=0, rounds=7, rules=False)
    assert len(seen[-1]) > 60
    for table in seen:
        assert table.weights.sum() == pytest.approx(60)


def test_each_draw_has_a_matching_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(3)
    x = rng.normal(size=120)
    frame = pd.DataFrame({"x": x, "y": np.exp(x + rng.normal(size=120))})
    frame.loc[rng.random(120) < 0.3, "y"] = np.nan
    matchings: list[Any] = []

    def note(completion: Any, matching: Any, rules: Any) -> Any:
        matchings.append(matching)
        return add_matching(completion, matching, rules)

    monkeypatch.setattr(data_augmentation, "add_matching", note)
    hb.impute(frame, draws=3, rounds=1, random_state=0)
    matchers = [matching.matchers["y"] for matching in matchings if matching is not None]
    assert len(matchers) >= 3
    assert len(set(map(id, matchers))) == len(matchers)
