"""Real AdaBoost, the one network that an ensemble collapses into, and the numerics of both."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest
from effort import examples
from hypothesis import example, given, settings
from hypothesis import strategies as st
from narrowing import as_discrete, as_kind, known
from numpy.typing import NDArray
from scipy.special import expit

import hybridbn as hb
from hybridbn.fitting import MultinomialFitter
from hybridbn.fitting.multinomial import MaximumLikelihood
from hybridbn.learning.weak_learners import PERFECT, MarginSums, line_search, measure_margins
from hybridbn.structures import naive_bayes, selective_naive_bayes, tan


def made(seed: int, rows: int = 200, columns: int = 4, classes: int = 2, noise: float = 0.4) -> hb.Table:
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 5, columns)
    x = [rng.integers(0, size, rows) for size in sizes]
    y = (sum(x[:2]) + (rng.random(rows) < noise) * rng.integers(0, classes, rows)) % classes
    y[:classes] = np.arange(classes)
    return hb.Table(
        {f"x{j}": column for j, column in enumerate(x)} | {"y": y}, discrete=[*(f"x{j}" for j in range(columns)), "y"]
    )


def log_odds(network: hb.Network, table: hb.Table) -> NDArray[np.float64]:
    # probabilities themselves would come to nothing in separable tables
    first, second = (network.log_density(table.with_array("y", np.full(len(table), code))) for code in (0, 1))
    return np.asarray(second - first)


@pytest.mark.filterwarnings("ignore:the target .* has one value")  # in a bootstrap sample of five rows
@settings(max_examples=examples(25), deadline=None)
@given(seed=st.integers(0, 10**6), rounds=st.integers(1, 30), columns=st.integers(1, 6), rows=st.integers(5, 120))
@example(
    seed=1155, rounds=12, columns=2, rows=86
)  # nothing is left to learn, and a vote would make rounding errors large
@example(seed=1000000, rounds=21, columns=2, rows=5)  # separable
def test_real_ensembles_collapse_exactly(seed: int, rounds: int, columns: int, rows: int) -> None:
    table = made(seed, rows, columns)
    ensemble = hb.boost(table, "y", rounds=rounds, algorithm="real", max_restarts=1000)
    expected = ensemble.scores(table) @ [-1, 1]
    np.testing.assert_allclose(log_odds(ensemble.collapse(), table), expected, rtol=1e-12, atol=1e-9)
    # by the members' own posteriors, without any short cut
    by_hand = sum(vote * log_odds(net, table) for vote, net in zip(ensemble.votes, ensemble.networks, strict=True))
    np.testing.assert_allclose(expected, by_hand, rtol=1e-10, atol=1e-9)
    np.testing.assert_allclose(ensemble.posterior(table).probabilities[:, 1], expit(by_hand), atol=1e-12)


def test_collapsed_networks_are_naive_bayes() -> None:
    table = made(3, 300, 6)
    ensemble = hb.boost(table, "y", rounds=50, algorithm="real")
    one = ensemble.collapse()
    one.check()
    assert set(one.edges) == {("y", f"x{j}") for j in range(6)}
    assert ensemble.disagreement(one, table) == 0
    # with a hole it can't be the same: the members marginalize the cell each for itself
    other = ensemble.posterior({"x0": 0}).probabilities
    assert abs(as_discrete(one.posterior("y", {"x0": 0})).probabilities - other).max() > 1e-6


def test_cuts_that_differ_are_joined() -> None:
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 400)
    data = hb.Table(
        {
            "a": rng.normal(size=400) + y,
            "b": rng.normal(size=400) - y * rng.integers(0, 3, 400),
            "y": np.where(y, "p", "n"),
        }
    )
    ensemble = hb.boost(data, "y", rounds=8, algorithm="real", refit_cuts=True)
    cuts = [known(as_discrete(network.variable("a")).cuts) for network in ensemble.networks]
    assert len(set(cuts)) > 1
    one = ensemble.collapse()
    assert as_discrete(one.variable("a")).cuts == tuple(sorted(set().union(*cuts)))
    np.testing.assert_allclose(log_odds(one, data), ensemble.scores(data) @ [-1, 1], atol=1e-9)


def test_attributes_that_only_some_members_have() -> None:
    ensemble = hb.boost(made(5, 300, 5), "y", build=partial(selective_naive_bayes), rounds=6, algorithm="real")
    one = ensemble.collapse()
    table = made(5, 300, 5)
    np.testing.assert_allclose(log_odds(one, table), ensemble.scores(table) @ [-1, 1], atol=1e-9)


@pytest.mark.parametrize("classes", [2, 3])
def test_votes_collapse_to_the_nearest_network(classes: int) -> None:
    table = made(8, 500, 5, classes)
    ensemble = hb.boost(table, "y", rounds=10, random_state=3)
    one = ensemble.collapse()
    total = sum(
        vote / classes * np.log(as_discrete(network.posterior("y", table)).probabilities)
        for vote, network in zip(ensemble.votes, ensemble.networks, strict=True)
    )
    expected = np.exp(total) / np.exp(total).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(as_discrete(one.posterior("y", table)).probabilities, expected, atol=1e-9)
    rate = ensemble.disagreement(one, table)
    apart = as_discrete(one.posterior("y", table)).probabilities.argmax(axis=1) != ensemble.posterior(
        table
    ).probabilities.argmax(axis=1)
    assert rate == apart.mean()
    assert rate < 0.2
    weights = np.arange(500) + 1.0
    assert ensemble.disagreement(one, table.with_weights(weights)) == pytest.approx(np.average(apart, weights=weights))


def test_what_cannot_collapse_says_so() -> None:
    table = made(1, 200, 4)
    with pytest.raises(hb.NetworkError, match=r"in network 0 .* has the parent .* beside the target"):
        hb.boost(table, "y", build=tan, rounds=2).collapse()
    numbers = hb.Table({"x": np.random.default_rng(0).normal(size=50), "y": ["a", "b"] * 25})
    with pytest.raises(hb.NetworkError, match="a LinearGaussian, not a table"):
        hb.boost(numbers, "y", rounds=1, potentials="gaussian", max_restarts=100).collapse()
    with pytest.raises(hb.NetworkError, match="the target 'y' has the parent"):
        hb.boost(table, "y", build=[("x0", "y")], rounds=1).collapse()
    zeros = hb.Table({"x": ["p", "p", "q", "q"] * 5, "y": ["a", "a", "b", "a"] * 5})
    likeliest = MultinomialFitter(estimate=MaximumLikelihood())
    with pytest.raises(hb.NetworkError, match="a probability of zero"):
        hb.boost(zeros, "y", rounds=1, potentials=likeliest).collapse()
    ensemble = hb.boost(table, "y", rounds=2)
    with pytest.raises(hb.HybridBNError, match="with the states"):
        ensemble.disagreement(hb.Network([hb.Multinomial(hb.Discrete("y", ("other",)), table=[1])]), table)


def brute(weights: NDArray[np.float64], margins: NDArray[np.float64]) -> float:
    votes = np.linspace(0, 20, 200_001)
    z = np.array([np.exp(-votes * m / 2) * w for w, m in zip(weights, margins, strict=True)]).sum(axis=0)
    return float(votes[z.argmin()])


def search(weights: NDArray[np.float64], margins: NDArray[np.float64]) -> float:
    return line_search(lambda vote: measure_margins(weights, np.ones(len(weights)), margins, vote))[0]


@settings(max_examples=examples(30), deadline=None)
@given(seed=st.integers(0, 10**6))
def test_line_search_is_the_minimum(seed: int) -> None:
    rng = np.random.default_rng(seed)
    weights, margins = rng.uniform(0, 2, 6), rng.normal(0.3, 1, 6)
    found = search(weights, margins)
    expected = brute(weights, margins)
    if margins.min() < 0 and expected < 15 and found < PERFECT / float(weights @ np.abs(margins) / weights.sum()):
        assert found == pytest.approx(expected, abs=2e-4)
    assert found >= 0


def test_line_search_ends_where_there_is_no_minimum() -> None:
    assert search(np.ones(3), np.array([1.0, 2.0, 3.0])) == pytest.approx(PERFECT / 2)
    assert search(np.ones(2), np.array([-1.0, 1.0])) == 0
    assert search(np.ones(2), np.zeros(2)) == 0
    assert search(np.array([1.0, 0.0]), np.array([2.0, -5.0])) == pytest.approx(PERFECT / 2)
    assert 0 < search(np.ones(2), np.array([600.0, -1.0])) < 1


@settings(max_examples=examples(40), deadline=None)
@given(seed=st.integers(0, 10**6), spread=st.floats(-2, 3), power=st.integers(1, 6))
def test_line_search_is_exact_and_takes_few_passes(seed: int, spread: float, power: int) -> None:
    rng = np.random.default_rng(seed)
    weights, margins = rng.uniform(0, 2, 40) ** power, rng.normal(0.3, 10**spread, 40)
    votes: list[float] = []

    def measure(vote: float) -> MarginSums:
        votes.append(vote)
        halves = [
            measure_margins(weights[rows], np.ones(20), margins[rows], vote) for rows in (slice(20), slice(20, 40))
        ]
        return halves[0] + halves[1]

    vote, sums = line_search(measure)
    assert len(votes) <= 12
    limit = PERFECT / float(weights @ np.abs(margins) / weights.sum())  # summed in another order than there
    if 0 < vote < (1 - 1e-12) * limit:
        exponents = -vote / 2 * margins
        tilted = weights * np.exp(exponents - exponents.max())
        assert abs(tilted @ margins) <= 1e-12 * (tilted @ np.abs(margins))
        assert sums.log_sum(vote) == pytest.approx(np.log(tilted.sum()) + exponents.max(), rel=1e-12, abs=1e-12)


def test_real_weights_follow_their_formula() -> None:
    table = made(2, 150, 4)
    y = table.column("y")
    told: list[tuple[float, NDArray[np.float64], hb.Network]] = []
    ensemble = hb.boost(
        table,
        "y",
        rounds=5,
        algorithm="real",
        progress=lambda done: told.append((done.vote, done.weights, done.network)),
    )
    assert not ensemble.restarts
    weights = np.ones(150)
    for vote, after, network in told:
        margins = np.where(y == 1, 1, -1) * log_odds(network, table)
        np.testing.assert_allclose(
            as_kind(hb.Multinomial, network.potential("y")).table,
            as_kind(hb.Multinomial, naive_bayes(table, "y", weights=weights).potential("y")).table,
            atol=1e-9,
        )
        weights = weights * np.exp(-vote * margins / 2)
        weights *= 150 / weights.sum()
        np.testing.assert_allclose(after, weights, atol=1e-9)
    # the exponential loss is the product of the normalizers, and bounds the training error
    loss = np.exp(-np.where(y == 1, 1, -1) * (ensemble.scores(table) @ [-1, 1]) / 2).mean()
    assert (ensemble.predict(table) != y).mean() <= loss <= 1


def test_real_boosting_of_other_builders() -> None:
    table = made(4, 200, 4).with_column(
        "x1", [None if k % 5 == 0 else int(v) for k, v in enumerate(made(4, 200, 4).column("x1"))]
    )
    for build in (tan, [("y", "x0"), ("y", "x1")]):
        ensemble = hb.boost(table, "y", build=build, rounds=4, algorithm="real", weights=np.linspace(1, 2, 200))
        total = sum(
            v * log_odds(net, table.select([n for n in table.names if n in net]))
            for v, net in zip(ensemble.votes, ensemble.networks, strict=True)
        )
        np.testing.assert_allclose(ensemble.scores(table) @ [-1, 1], total, atol=1e-9)


def test_real_restarts() -> None:
    easy = hb.Table({"x": [0, 1] * 20, "y": [0, 1] * 20}, discrete=["x", "y"])
    ensemble = hb.boost(easy, "y", rounds=3, algorithm="real")
    assert ensemble.restarts == 3
    assert (ensemble.predict(easy) == easy.column("y")).all()
    rng = np.random.default_rng(0)
    coins: dict[str, Any] = {"x": rng.integers(0, 2, 60).tolist(), "y": [0, 1] * 30}
    with pytest.warns(UserWarning, match="max_restarts=1"):
        hb.boost(hb.Table(coins, discrete=["x", "y"]), "y", rounds=300, algorithm="real", max_restarts=1)
