"""Naive Bayes: against scikit-learn's, by hand, and in every family."""

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from narrowing import as_discrete, as_kind
from sklearn.naive_bayes import CategoricalNB, GaussianNB

import hybridbn as hb
from hybridbn.fitting import Dirichlet, MultinomialFitter, fit, joint_counts
from hybridbn.structures import naive_bayes


def mixed(rows: int = 120, seed: int = 0) -> dict[str, list[object]]:
    """Two numbers and two discrete columns that depend on a class and on a number."""
    rng = np.random.default_rng(seed)
    c = rng.integers(0, 3, rows)
    y = rng.normal(size=rows) + c
    return {
        "x": list(y + rng.normal(size=rows)),
        "z": list(rng.exponential(size=rows) * (1 + c)),
        "d": list(np.array(["u", "v"])[(y + rng.normal(size=rows) > 1).astype(int)]),
        "e": list(np.array(["p", "q", "r"])[(c + (rng.random(rows) < 0.3)) % 3]),
        "c": list(np.array(["a", "b", "c"])[c]),
        "y": list(y),
    }


def holed(data: dict[str, list[object]], share: float = 0.2, seed: int = 1) -> dict[str, list[object]]:
    rng = np.random.default_rng(seed)
    return {
        name: [None if hole else value for value, hole in zip(column, rng.random(len(column)) < share, strict=True)]
        for name, column in data.items()
    }


def test_equals_scikit_learn_on_discrete_columns():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 400)
    columns = (rng.integers(0, 4, (400, 6)) + y[:, None] * (rng.random((400, 6)) < 0.4)) % 4
    data = {**{f"x{j}": columns[:, j] for j in range(6)}, "y": y}
    weights = rng.integers(0, 4, 400)
    table = hb.Table(data, discrete=list(data), weights=weights)
    fitters = MultinomialFitter(estimate=Dirichlet(1))
    net = naive_bayes(table, "y", fitters)
    peer = CategoricalNB(min_categories=4).fit(columns, y, sample_weight=weights)
    for j in range(6):
        np.testing.assert_allclose(
            as_kind(hb.Multinomial, net.potential(f"x{j}")).table, np.exp(peer.feature_log_prob_[j]), rtol=1e-12
        )
    prior = (np.bincount(y, weights) + 1) / (weights.sum() + 3)
    np.testing.assert_allclose(as_kind(hb.Multinomial, net.potential("y")).table, prior, rtol=1e-12)
    peer.class_log_prior_ = np.log(prior)
    found = as_discrete(net.posterior("y", table)).probabilities
    np.testing.assert_allclose(found, peer.predict_proba(columns), rtol=1e-9)


def test_equals_scikit_learn_on_numbers():
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1], 50)
    x = rng.normal(size=(100, 3)) * [1, 5, 0.1] + y[:, None] * [0.5, 3, 0.2]
    table = hb.Table({**{f"x{j}": x[:, j] for j in range(3)}, "y": y}, discrete="y")
    net = naive_bayes(table, "y", "gaussian")
    peer = GaussianNB(var_smoothing=0.0).fit(x, y)
    np.testing.assert_allclose(
        as_discrete(net.posterior("y", table)).probabilities, peer.predict_proba(x), rtol=1e-9, atol=1e-12
    )


def test_linear_regression_is_a_product_of_normal_densities():
    rng = np.random.default_rng(0)
    y = rng.normal(size=200)
    table = hb.Table({"y": y, "a": 2 * y + rng.normal(size=200), "b": rng.normal(size=200) - y})
    net = naive_bayes(table, "y", "gaussian")
    precision, shift = 1 / y.var(), y.mean() / y.var()
    at = {"a": 1.3, "b": -0.4}
    for name, value in at.items():
        slope, intercept = np.polyfit(y, table[name], 1)
        variance = np.mean((table[name] - slope * y - intercept) ** 2)
        precision += slope**2 / variance
        shift += slope * (value - intercept) / variance
    post = net.posterior("y", at)
    assert post.mean() == pytest.approx(shift / precision, rel=1e-9)
    assert post.var() == pytest.approx(1 / precision, rel=1e-9)


@pytest.mark.parametrize("target", ["c", "y"])
@pytest.mark.parametrize("potentials", ["auto", "mte", "kernel", "gaussian", "multinomial"])
def test_every_family_classifies_and_regresses_mixed_tables_with_holes(potentials, target):
    data = holed(mixed(), 0.1)
    net = naive_bayes(data, target, potentials)
    net.check()
    assert list(net) == [target, *(name for name in data if name != target)]
    assert set(net.edges) == {(target, name) for name in data if name != target}
    rows = hb.Table(holed(mixed(20, seed=5), 0.3), variables=[net.variable(name) for name in net])
    post = net.posterior(target, rows, tolerance=1e-5)
    # Bayes' rule by hand, over the states of the target or a fine grid of it: what is observed of a row multiplies
    variable = net.variable(target)
    if isinstance(variable, hb.Discrete):
        places: Any = list(variable.states)
    else:
        ends = net.posterior(target).quantile([1e-6, 1 - 1e-6])
        low, high = ends + np.array([-1, 1]) * 0.05 * np.ptp(ends)
        places = np.linspace(low, high, 2001)
    known = rows.to_dict()
    for row in range(6):
        product = np.asarray(net.potential(target)(**{target: places}), dtype=float)
        for name in net:
            value = known[name][row]
            if name != target and not pd.isna(value):
                product = product * net.potential(name)(**{target: places, name: value})
        product /= product.sum()
        if isinstance(variable, hb.Discrete):
            np.testing.assert_allclose(post.probabilities[row], product, rtol=1e-7, atol=1e-12)
        else:
            mean = product @ places
            deviation = np.sqrt(product @ (places - mean) ** 2)
            assert post.mean()[row] == pytest.approx(mean, abs=5e-3 * deviation)
            assert post.std()[row] == pytest.approx(deviation, rel=1e-2)


def test_a_mapping_chooses_families_and_discretized_numbers_take_raw_evidence():
    data = mixed()
    net = naive_bayes(data, "c", {"x": "gaussian", "z": "multinomial", "y": "gaussian"})
    assert net.potential("x").family == "gaussian"
    assert as_discrete(net.variable("z")).cuts
    raw = as_discrete(net.posterior("c", {"z": 4.2})).probabilities
    state = as_discrete(net.variable("z")).states[as_discrete(net.variable("z")).code(4.2)]
    np.testing.assert_array_equal(raw, as_discrete(net.posterior("c", {"z": state})).probabilities)


def test_learns_what_fit_learns():
    data = holed(mixed())
    net = naive_bayes(data, "c", "gaussian")
    peer = fit([("c", name) for name in data if name != "c"], data, "gaussian")
    for name in data:
        mine, yours = net.potential(name).to_dict(), peer.potential(name).to_dict()
        assert mine.keys() == yours.keys()
        for key in mine:
            np.testing.assert_array_equal(mine[key], yours[key])


def test_missing_cells_are_left_out_family_by_family():
    a, c = [0, 1, None, 1, 0, 1], [0, None, 1, 1, 0, 1]
    table = hb.Table({"a": a, "c": c}, discrete=["a", "c"])
    net = naive_bayes(table, "c", MultinomialFitter(estimate=Dirichlet(1)))
    np.testing.assert_allclose(as_kind(hb.Multinomial, net.potential("a")).table, [[3 / 4, 1 / 4], [1 / 4, 3 / 4]])
    np.testing.assert_allclose(as_kind(hb.Multinomial, net.potential("c")).table, [3 / 7, 4 / 7])
    counts = joint_counts([table["c"], table["a"]], (2, 2))
    np.testing.assert_array_equal(counts, [[2, 0], [0, 2]])


def test_a_single_column_is_a_network_of_one_node():
    net = naive_bayes({"c": ["a", "b", "b"]}, "c")
    assert list(net) == ["c"]
    assert not net.edges
    assert as_discrete(net.posterior("c")).probability("b") > 0.5
    assert list(naive_bayes({"y": [1.0, 2.0, 4.0]}, "y", "gaussian")) == ["y"]


def test_any_kind_of_data_will_do():
    data = mixed(60)
    frame = pd.DataFrame(data)
    wanted = naive_bayes(data, "c", "gaussian")
    for other in (frame, pl.from_pandas(frame), hb.Table(data), frame.to_dict("records")):
        net = naive_bayes(other, "c", "gaussian")
        for name in data:
            assert repr(net.potential(name)) == repr(wanted.potential(name))
    assert list(frame.columns) == list(data)


@pytest.mark.parametrize("target", ["c", "y"])
def test_a_weight_is_as_good_as_repeated_rows(target):
    table = hb.Table(mixed(60))
    weights = np.random.default_rng(3).integers(0, 4, 60)
    weighted = naive_bayes(table, target, "gaussian", weights)
    repeated = naive_bayes(table.take(np.repeat(np.arange(60), weights)), target, "gaussian")
    here = table.take(slice(10))
    if target == "c":
        mine, yours = (as_discrete(net.posterior("c", here)).probabilities for net in (weighted, repeated))
    else:
        mine, yours = (net.posterior("y", here).mean() for net in (weighted, repeated))
    np.testing.assert_allclose(mine, yours, rtol=1e-7)


def test_weights_replace_those_of_a_table():
    table = hb.Table({"c": ["a", "b"], "d": ["u", "v"]}, weights=[1, 3])
    assert as_kind(hb.Multinomial, naive_bayes(table, "c").potential("c")).table[1] == pytest.approx(4 / 6)
    assert as_kind(hb.Multinomial, naive_bayes(table, "c", weights=[3, 1]).potential("c")).table[1] == pytest.approx(
        2 / 6
    )


def test_a_table_that_is_too_wide_is_refused_by_its_fitter():
    table = hb.Table({"a": ["x", "y"] * 5, "c": ["p", "q"] * 5})
    with pytest.raises(hb.TooWide, match="max_bytes=16"):
        naive_bayes(table, "c", {"a": MultinomialFitter(max_bytes=16)})


def test_a_fitter_that_counts_differently_is_asked():
    class Doubled(MultinomialFitter):
        def statistics(self, table, child, parents=()):
            once = super().statistics(table, child, parents)
            return once + once

    table = hb.Table({"a": ["x", "y", "y", "y"], "c": ["p", "q", "p", "q"]})
    plain, doubled = (naive_bayes(table, "c", fitter) for fitter in (MultinomialFitter(), Doubled()))
    assert (
        as_kind(hb.Multinomial, plain.potential("a")).table[1, 1]
        < as_kind(hb.Multinomial, doubled.potential("a")).table[1, 1]
    )
