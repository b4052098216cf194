from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pandas as pd
import pytest
from narrowing import as_discrete, as_kind
from scipy import stats

import hybridbn as hb
from hybridbn.estimation import completion
from hybridbn.estimation.em import expect_statistics, expectation_maximization
from hybridbn.fitting import Dirichlet, MaximumLikelihood, MEstimate, MultinomialFitter, fit
from hybridbn.fitting.gaussian import GaussianStatistics
from hybridbn.fitting.multinomial import MultinomialStatistics
from hybridbn.inference.evidence import EvidenceReader
from hybridbn.options import Options
from hybridbn.structures import naive_bayes, tan
from hybridbn.structures.building import structural_em

ML = MultinomialFitter(estimate=MaximumLikelihood())
D, E = hb.Discrete("d", ("a", "b", "c")), hb.Discrete("e", ("p", "q"))
X, Y, Z = map(hb.Continuous, "xyz")


def mixed_network() -> hb.Network:
    return hb.Network([
        hb.Multinomial(D, table=[0.5, 0.3, 0.2]),
        hb.Multinomial(E, parents=(D,), table=[[0.7, 0.3], [0.2, 0.8], [0.5, 0.5]]),
        hb.LinearGaussian(X, parents=(D,), intercept=[0, 2, -3], variance=[1, 0.5, 2]),
        hb.LinearGaussian(Y, parents=(E, X), intercept=[1, -1], coefficients=[[2], [-1]], variance=[1, 0.3]),
        hb.LinearGaussian(Z, parents=(X, Y), intercept=0, coefficients=[1, 1], variance=1),
    ])  # fmt: skip


def discrete_network(seed: int = 0) -> hb.Network:
    rng = np.random.default_rng(seed)
    a, b, c, d = (hb.Discrete(name, tuple(range(k))) for name, k in zip("abcd", (2, 3, 2, 4), strict=True))
    return hb.Network([
        hb.Multinomial(a, table=rng.dirichlet([2] * 2)),
        hb.Multinomial(b, parents=(a,), table=rng.dirichlet([2] * 3, 2)),
        hb.Multinomial(c, parents=(b,), table=rng.dirichlet([2] * 2, 3)),
        hb.Multinomial(d, parents=(b, c), table=rng.dirichlet([2] * 4, (3, 2))),
    ])  # fmt: skip


def with_holes(network: hb.Network, n: int, rate: float, seed: int = 0) -> hb.Table:
    frame = network.sample(n, random_state=seed)
    holes = np.random.default_rng(seed + 1).random(frame.shape) < rate
    return hb.Table(frame.astype(object).mask(holes), variables=network.variables)


def same(first: hb.Network, second: hb.Network, tolerance: float = 1e-12) -> None:
    assert set(first.edges) == set(second.edges)
    for name in first:
        mine, yours = first.potential(name).to_dict(), second.potential(name).to_dict()
        for key, value in mine.items():
            np.testing.assert_allclose(value, yours[key], rtol=tolerance, atol=tolerance, err_msg=f"{name} {key}")


# -- expected statistics against brute force --------------------------------------------------------------------------


def brute_force(network: hb.Network, cells: dict[str, Any]) -> tuple[float, list[Any]]:
    """Return the log density of a row, and each discrete configuration's probability with the numbers' mean and
    covariance.

    The joint normal of all numbers is written down for each configuration, and conditioned on those observed.
    """
    numbers = [n for n in network if isinstance(network.variable(n), hb.Continuous)]
    states = [n for n in network if isinstance(network.variable(n), hb.Discrete)]
    found = []
    for codes in itertools.product(*(range(len(as_discrete(network.variable(n)))) for n in states)):
        code = dict(zip(states, codes, strict=True))
        if any(cells[n] is not None and as_discrete(network.variable(n)).states[code[n]] != cells[n] for n in states):
            continue
        log = 0.0
        mean, weights, noise = np.zeros(len(numbers)), np.zeros((len(numbers), len(numbers))), np.zeros(len(numbers))
        for potential in network.potentials:
            discrete = tuple(code[p.name] for p in potential.parents if isinstance(p, hb.Discrete))
            if isinstance(potential, hb.Multinomial):
                log += math.log(potential.table[(*discrete, code[potential.child.name])])
                continue
            row = numbers.index(potential.child.name)
            mean[row], noise[row] = (
                as_kind(hb.LinearGaussian, potential).intercept[discrete],
                as_kind(hb.LinearGaussian, potential).variance[discrete],
            )
            continuous = [p.name for p in potential.parents if isinstance(p, hb.Continuous)]
            for name, slope in zip(
                continuous, as_kind(hb.LinearGaussian, potential).coefficients[discrete], strict=True
            ):
                weights[row, numbers.index(name)] = slope
        inverse = np.linalg.inv(np.eye(len(numbers)) - weights)
        mu, sigma = inverse @ mean, inverse @ np.diag(noise) @ inverse.T
        seen = [i for i, name in enumerate(numbers) if not np.isnan(cells[name])]
        full_mean, full_cov = mu.copy(), sigma.copy()
        if seen:
            values = np.array([cells[numbers[i]] for i in seen])
            gain = sigma[:, seen] @ np.linalg.inv(sigma[np.ix_(seen, seen)])
            log += stats.multivariate_normal.logpdf(values, mu[seen], sigma[np.ix_(seen, seen)])
            full_mean, full_cov = mu + gain @ (values - mu[seen]), sigma - gain @ sigma[seen]
        found.append((log, code, dict(zip(numbers, range(len(numbers)), strict=True)), full_mean, full_cov))
    total = np.logaddexp.reduce([item[0] for item in found])
    return float(total), [(math.exp(log - total), *rest) for log, *rest in found]


@pytest.mark.parametrize(("rate", "scale"), [(0.3, 1.0), (0.6, 0.01)])
def test_expected_statistics_of_a_mixed_network(rate: float, scale: float) -> None:
    network = mixed_network()
    table = with_holes(network, 40, rate)
    weights = scale * np.random.default_rng(5).random(40)
    statistics, logs = expect_statistics(network, EvidenceReader(network, table).evidence(), weights, Options())
    counts, y_weights = np.zeros((3, 2)), np.zeros(2)
    first, second = np.zeros((2, 2)), np.zeros((2, 2, 2))
    for i, cells in enumerate(table.to_pandas().astype(object).to_dict("records")):
        cells = {k: (None if v is None or v != v else v) if k in "de" else float(v) for k, v in cells.items()}
        log, parts = brute_force(network, cells)
        assert logs[i] == pytest.approx(log, rel=1e-9, abs=1e-9)
        for probability, code, place, mean, cov in parts:
            p = probability * weights[i]
            counts[code["d"], code["e"]] += p
            v = [place["y"], place["x"]]
            y_weights[code["e"]] += p
            first[code["e"]] += p * mean[v]
            second[code["e"]] += p * (np.outer(mean[v], mean[v]) + cov[np.ix_(v, v)])
    np.testing.assert_allclose(as_kind(MultinomialStatistics, statistics["e"]).counts, counts, rtol=1e-9)
    y = as_kind(GaussianStatistics, statistics["y"])
    np.testing.assert_allclose(y.weights, y_weights, rtol=1e-9)
    means = first / y_weights[:, None]
    np.testing.assert_allclose(y.means, means, rtol=1e-9)
    products = second - y_weights[:, None, None] * means[:, :, None] * means[:, None, :]
    np.testing.assert_allclose(y.products, products, rtol=1e-8)
    assert statistics["z"].total == pytest.approx(weights.sum())


def test_means_far_from_zero_keep_their_digits() -> None:
    frame = mixed_network().sample(300, random_state=0)[["x", "y"]]
    frame.loc[::3, "y"] = np.nan
    near = expectation_maximization([("x", "y")], frame, "gaussian").network.potential("y")
    far = expectation_maximization([("x", "y")], frame + 1e7, "gaussian").network.potential("y")
    np.testing.assert_allclose(
        as_kind(hb.LinearGaussian, far).coefficients, as_kind(hb.LinearGaussian, near).coefficients, rtol=1e-6
    )
    np.testing.assert_allclose(
        as_kind(hb.LinearGaussian, far).variance, as_kind(hb.LinearGaussian, near).variance, rtol=1e-6
    )


# -- the algorithm ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (1, 2, 3))])
def test_likelihood_never_falls(seed: int) -> None:
    for network, n in ((discrete_network(seed), 500), (mixed_network(), 800)):
        table = with_holes(network, n, 0.35, seed)
        potentials = {name: ML if isinstance(network.variable(name), hb.Discrete) else "gaussian" for name in network}
        learned = expectation_maximization(list(network.edges), table, potentials, tolerance=1e-10)  # type: ignore[arg-type]
        assert learned.converged
        assert np.diff(learned.history).min() >= -1e-9 * abs(learned.history[0])
        assert learned.history[-1] == pytest.approx(learned.network.log_density(table).sum(), rel=1e-12)
        # a maximum: better than the truth and than available cases
        assert learned.history[-1] > network.log_density(table).sum()
        assert learned.history[-1] > fit(network, table).log_density(table).sum()


def test_posterior_never_falls_with_a_prior() -> None:
    network = discrete_network()
    table = with_holes(network, 60, 0.4)
    alpha = 1.5
    potentials = MultinomialFitter(estimate=Dirichlet(alpha))
    current, values = fit(network, table), []
    for _round in range(25):
        with pytest.warns(UserWarning, match="not converged"):
            learned = expectation_maximization(
                network, table, potentials, start=current, max_iterations=1, tolerance=1e-300
            )
        current = learned.network
        prior = sum(alpha * np.log(as_kind(hb.Multinomial, current.potential(name)).table).sum() for name in current)
        values.append(current.log_density(table).sum() + prior)
    assert np.diff(values).min() >= -1e-10 * abs(values[0])
    assert values[-1] > values[0]


@pytest.mark.parametrize("estimate", [MEstimate(), MEstimate(3.0, uniform=True), Dirichlet((0.5, 2.0))])
@pytest.mark.parametrize("seed", range(3))
def test_history_is_what_is_maximized(seed: int, estimate: Any) -> None:
    """With a prior that is the likelihood times the prior's density: it never falls, although the likelihood may."""
    rng = np.random.default_rng(seed)
    a = rng.integers(0, 2, 120)
    b, c = (np.where(rng.random(120) < 0.8, a, rng.integers(0, 2, 120)) for _ in range(2))
    frame = pd.DataFrame({"a": a, "b": b, "c": c}).astype(str).astype(object)
    frame = frame.mask(rng.random(frame.shape) < 0.4, None)
    learned = expectation_maximization(
        [("a", "b"), ("a", "c"), ("b", "c")], frame, MultinomialFitter(estimate=estimate), tolerance=1e-9
    )
    assert learned.converged
    assert np.diff(learned.history).min() >= -1e-9
    assert learned.log_likelihood[-1] == pytest.approx(learned.network.log_density(frame).sum(), rel=1e-12)
    assert (learned.history < learned.log_likelihood).all()  # densities of these priors are below one


def test_complete_tables_give_what_fit_gives() -> None:
    network = mixed_network()
    table = hb.Table(network.sample(200, random_state=0))
    by_name = {"d": ML, "e": ML, "x": "gaussian", "y": "gaussian", "z": "gaussian"}
    ways: list[Any] = ["gaussian", by_name]
    for potentials in ways:
        learned = expectation_maximization(list(network.edges), table, potentials)
        same(learned.network, fit(list(network.edges), table, potentials))
        assert learned.converged
        assert learned.log_likelihood == pytest.approx([learned.network.log_density(table).sum()])


def test_closed_form_of_a_monotone_pattern() -> None:
    # x complete, y missing by x: the regression of the complete cases with all of x's mean and variance (Anderson 1957)
    rng = np.random.default_rng(0)
    x = rng.normal(size=2000)
    y = 1 + 2 * x + rng.normal(size=2000)
    y[x > 0.3] = np.nan
    learned = expectation_maximization([("y", "x")], {"x": x, "y": y}, "gaussian", tolerance=1e-13, max_iterations=5000)
    seen = ~np.isnan(y)
    slope, intercept = np.polyfit(x[seen], y[seen], 1)
    noise = np.mean((y[seen] - slope * x[seen] - intercept) ** 2)
    own = learned.network.potential("y")
    assert float(as_kind(hb.LinearGaussian, own).intercept) == pytest.approx(intercept + slope * x.mean(), abs=1e-4)
    assert float(as_kind(hb.LinearGaussian, own).variance) == pytest.approx(slope**2 * x.var() + noise, abs=1e-3)
    # available cases are far off
    assert (
        float(as_kind(hb.LinearGaussian, fit([("y", "x")], {"x": x, "y": y}, "gaussian").potential("y")).intercept)
        < intercept - 0.5
    )


def test_equal_rows_and_weights() -> None:
    network = discrete_network()
    table = with_holes(network, 300, 0.4)
    once = table.take(np.arange(100)).with_weights(np.full(100, 3.0))
    thrice = table.take(np.repeat(np.arange(100), 3))
    # in weights, and in rows whose weight is zero
    none = table.with_weights(np.repeat([3.0, 0.0], [100, 200]))
    found = [expectation_maximization(network, data).network for data in (once, thrice, none)]
    same(found[0], found[1], 1e-9)
    same(found[0], found[2], 1e-9)


@pytest.mark.slow
def test_hidden_variable() -> None:
    truth = mixed_network()
    table = with_holes(truth, 1000, 0.1).drop("d")
    rough = hb.Network(
        [hb.LinearGaussian(X, parents=(D,), intercept=[-0.5, 1, -2], variance=[2, 2, 2])]
        + [truth.potential(name) for name in "deyz"]
    )
    learned = expectation_maximization(rough, table, {"d": ML, "e": ML, "x": "gaussian"}, start=rough, tolerance=3e-6)
    assert np.diff(learned.history).min() > -1e-6
    assert learned.history[-1] > truth.log_density(table).sum()
    np.testing.assert_allclose(
        as_kind(hb.LinearGaussian, learned.network.potential("x")).intercept, [0, 2, -3], atol=0.7
    )
    again = expectation_maximization(rough, table, {"d": ML, "e": ML, "x": "gaussian"}, tolerance=3e-6)
    same(learned.network, again.network)


def test_families_never_seen_as_a_whole() -> None:
    # no row has both a and b: available cases have nothing to say of the arc
    rng = np.random.default_rng(0)
    a, b, c = (rng.integers(0, 2, 200).astype(object) for _ in range(3))
    a[::2], b[1::2] = None, None
    with pytest.raises(hb.TableError, match="no row has values"):
        fit([("a", "b"), ("c", "a")], hb.Table({"a": a, "b": b, "c": c}, discrete=["a", "b", "c"]))
    table = hb.Table({"a": a, "b": b, "c": c}, discrete=["a", "b", "c"])
    learned = expectation_maximization([("a", "b"), ("c", "a")], table, ML, tolerance=1e-5)
    assert np.diff(learned.history).min() >= -1e-9
    np.testing.assert_allclose(
        as_discrete(learned.network.posterior("b")).probabilities[1],
        np.mean([v for v in b if v is not None]),
        atol=1e-3,
    )


def test_discretized_columns() -> None:
    frame = mixed_network().sample(300, random_state=0)
    frame = frame.mask(np.random.default_rng(0).random(frame.shape) < 0.2)
    learned = expectation_maximization([("x", "y"), ("d", "x")], frame, "multinomial")
    assert as_discrete(learned.network.variable("x")).cuts
    assert learned.converged


def test_rows_without_any_value_change_nothing() -> None:
    table = with_holes(mixed_network(), 200, 0.3)
    frame = table.to_pandas()
    frame.loc[len(frame)] = [None] * 5
    longer = hb.Table(frame, variables=table.variables)
    first, second = (expectation_maximization(mixed_network(), data, tolerance=1e-9) for data in (table, longer))
    # the prior's share of the marginals is of one row more
    same(first.network, second.network, 2e-2)
    assert first.log_likelihood[0] == pytest.approx(second.log_likelihood[0], rel=1e-9)


def test_equal_rows_of_a_large_discrete_table_count_once(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = []

    def counted(network: hb.Network, evidence: Any, weights: np.ndarray, *others: Any) -> Any:
        sizes.append(len(weights))
        return expect_statistics(network, evidence, weights, *others)

    monkeypatch.setattr("hybridbn.estimation.em.expect_statistics", counted)
    network = discrete_network()
    table = with_holes(network, 50_000, 0.3)
    learned = expectation_maximization(network, table)
    assert learned.converged
    patterns = math.prod(len(as_discrete(network.variable(name)).states) + 1 for name in network)
    assert 0 < max(sizes) <= patterns < 1000


def test_what_is_complete_needs_no_expectation(monkeypatch: pytest.MonkeyPatch) -> None:
    """A column of points beside others changes nothing, and nothing is simulated for it."""
    monkeypatch.setattr("hybridbn.estimation.em._simulate_expectation", pytest.fail)
    rng = np.random.default_rng(4)
    rated, age = np.where(rng.random(120) < 0.4, 0.0, rng.gamma(2, 3, 120)), rng.normal(50, 9, 120)
    frame = pd.DataFrame({"age": age, "pressure": 90 + 0.6 * age + rng.normal(0, 8, 120), "rated": rated})
    frame.loc[rng.random(120) < 0.2, "pressure"] = np.nan
    arcs = [("age", "pressure")]
    with_points = hb.fit(arcs, frame, "gaussian", missing="em")
    assert with_points.potential("rated").family == "atoms"
    found = as_kind(hb.LinearGaussian, with_points.potential("pressure"))
    known = frame.dropna()
    slope, intercept = np.polyfit(known["age"], known["pressure"], 1)
    np.testing.assert_allclose([found.coefficients.item(), found.intercept.item()], [slope, intercept], rtol=1e-9)


def test_each_network_is_judged_once(monkeypatch: pytest.MonkeyPatch) -> None:
    judged = []

    def recorded(network: hb.Network, evidence: Any, weights: np.ndarray, *others: Any) -> Any:
        judged.append(network)
        return expect_statistics(network, evidence, weights, *others)

    monkeypatch.setattr("hybridbn.estimation.em.expect_statistics", recorded)
    learned = expectation_maximization(mixed_network(), with_holes(mixed_network(), 60, 0.3))
    assert len(judged) == len({id(network) for network in judged}) == len(learned.history)
    assert learned.network is judged[-1]


# -- families without exact expectations ------------------------------------------------------------------------------


@pytest.mark.parametrize("family", ["mte", "gaussian"])
def test_simulated_expectations(family: str) -> None:
    # an arc from a number to a class: an MTE, or a logistic regression among Gaussians
    rng = np.random.default_rng(0)
    x = rng.normal(size=300)
    frame = pd.DataFrame({"x": x, "c": np.where(x + rng.normal(size=300) > 0, "high", "low")})
    frame.loc[:99, "c"] = None
    frame.loc[200:, "x"] = np.nan
    learned = expectation_maximization([("x", "c")], frame, family, draws=5)  # type: ignore[arg-type]
    assert learned.converged
    assert learned.network.log_density(hb.Table(frame)).sum() == pytest.approx(learned.history.max(), rel=1e-9)
    assert learned.history.max() >= learned.history[0]
    again = expectation_maximization([("x", "c")], frame, family, draws=5)  # type: ignore[arg-type]
    np.testing.assert_array_equal(learned.history, again.history)


def test_simulated_expectations_agree_with_exact_ones() -> None:
    from hybridbn.estimation import em

    network = hb.Network([
        hb.LinearGaussian(X, intercept=0, variance=1),
        hb.LinearGaussian(Y, parents=(X,), intercept=1, coefficients=[2], variance=1),
    ])  # fmt: skip
    table = with_holes(network, 2000, 0.3)
    exact = expectation_maximization(network, table).network
    families, rng = em._list_families(network, network, "gaussian"), np.random.default_rng(0)
    drawn = em._simulate_expectation(table, families, 40, rng, Options())(exact).statistics
    told = em._RowDivider(families, network, Options()).expect(exact, table, 0).statistics
    found, exactly = (as_kind(GaussianStatistics, each["y"]) for each in (drawn, told))
    assert found.total == pytest.approx(exactly.total)
    np.testing.assert_allclose(found.means, exactly.means, atol=0.02)
    np.testing.assert_allclose(found.products, exactly.products, rtol=0.02)


# -- structural EM ----------------------------------------------------------------------------------------------------


def test_structural_em_finds_the_tree_of_complete_data() -> None:
    rng = np.random.default_rng(3)
    c, *names = (hb.Discrete(name, (0, 1)) for name in "cuvw")
    u, v, w = names
    truth = hb.Network([
        hb.Multinomial(c, table=[0.5, 0.5]),
        hb.Multinomial(u, parents=(c,), table=[[0.8, 0.2], [0.3, 0.7]]),
        hb.Multinomial(v, parents=(c, u), table=[[[0.9, 0.1], [0.2, 0.8]], [[0.8, 0.2], [0.1, 0.9]]]),
        hb.Multinomial(w, parents=(c, v), table=[[[0.9, 0.1], [0.2, 0.8]], [[0.7, 0.3], [0.1, 0.9]]]),
    ])  # fmt: skip
    table = with_holes(truth, 1500, 0.3, int(rng.integers(1000)))
    found = structural_em(table, "c", tan)
    assert {frozenset(arc) for arc in found.network.edges} == {frozenset(arc) for arc in truth.edges}
    assert found.history.max() >= found.history[0]
    k = sum(potential.free_parameters() for potential in found.network.potentials)
    score = found.network.log_density(table).sum() - 0.5 * k * math.log(len(table))
    assert score == pytest.approx(found.history.max(), rel=1e-9)


def test_structural_em_with_other_builders_and_families() -> None:
    frame = mixed_network().sample(150, random_state=1)[["d", "x", "y"]]
    frame = frame.mask(np.random.default_rng(0).random(frame.shape) < 0.25)
    for potentials in ("gaussian", "mte"):
        found = structural_em(frame, "d", naive_bayes, potentials, rounds=2, draws=3)
        assert set(found.network.edges) == {("d", "x"), ("d", "y")}
        assert np.isfinite(found.history).all()
    whole = structural_em(frame.dropna(), "d", naive_bayes, "gaussian")
    same(whole.network, naive_bayes(frame.dropna(), "d", "gaussian"))


def test_free_parameters() -> None:
    network = mixed_network()
    assert [network.potential(name).free_parameters() for name in "dexyz"] == [2, 3, 6, 6, 4]
    softmax = hb.Softmax(D, parents=(X,), intercept=[0, 0, 0], coefficients=[[0], [1], [0]])
    assert softmax.free_parameters() == 4
    assert hb.Softmax(D, parents=(X,), intercept=[0, 0, 0], coefficients=[[0], [0], [0]]).free_parameters() == 2


# -- bad input --------------------------------------------------------------------------------------------------------


def test_bad_arguments() -> None:
    table = with_holes(discrete_network(), 50, 0.2)
    arcs = list(discrete_network().edges)
    for options, message in (
        ({"tolerance": 0}, "tolerance must be"),
        ({"max_iterations": 0}, "max_iterations must be"),
        ({"draws": True}, "draws must be"),
        ({"start": fit([("a", "b")], table)}, "other arcs"),
        ({"weights": np.zeros(50)}, "at least one must be positive"),
    ):
        with pytest.raises(hb.HybridBNError, match=message):
            expectation_maximization(arcs, table, **options)
    with pytest.raises(hb.NetworkError, match="rounds must be"):
        structural_em(table, "a", tan, rounds=0)
    with pytest.raises(hb.NetworkError, match="no such column"):
        expectation_maximization([("a", "q")], table)
    with pytest.raises(hb.NetworkError, match="no node of the network is a column"):
        expectation_maximization(mixed_network(), {"k": [1.0, 2.0]}, start=mixed_network())


def test_a_start_that_contradicts_the_data_names_the_rows() -> None:
    a, b = hb.Discrete("a", (0, 1)), hb.Discrete("b", (0, 1))
    start = hb.Network([
        hb.Multinomial(a, table=[0.5, 0.5]), hb.Multinomial(b, parents=(a,), table=[[1.0, 0.0], [1.0, 0.0]])
    ])  # fmt: skip
    table = hb.Table({"a": [0, 1, None, None], "b": [0, 0, 0, 1]}, variables=(a, b))
    with pytest.raises(hb.ImpossibleEvidence) as caught:
        expectation_maximization(start, table, start=start)
    assert caught.value.rows == (3,)


def test_not_converged_warns() -> None:
    table = with_holes(mixed_network(), 200, 0.4)
    with pytest.warns(UserWarning, match="has not converged in 2 iterations"):
        learned = expectation_maximization(mixed_network(), table, max_iterations=2, tolerance=1e-12)
    assert not learned.converged
    assert len(learned.history) == 3
    assert "2 iterations" in repr(learned)


# -- random numbers of rows -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "kind", [np.random.PCG64, np.random.PCG64DXSM, np.random.MT19937, np.random.Philox, np.random.SFC64]
)
def test_numbers_of_rows_are_those_of_one_draw_however_rows_come(kind: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(completion, "_SKIPPED", 4)
    columns = {"x": [1.0, None, 3.0] * 4, "y": [None, 2.0] * 6, "z": [1.0] * 12}
    table, network = hb.Table(columns), hb.Network([hb.Multinomial(D, table=[0.5, 0.3, 0.2])])
    rng, other = (np.random.Generator(kind(5)) for _ in "ab")
    levels = completion.RowLevels.draw(rng, table, network)
    assert levels.names == ("x", "y", "d")  # with holes, or hidden
    whole = other.random((12, 3))
    assert rng.random() == other.random()
    for first, rows in ((0, 12), (3, 5), (11, 1)):
        given = levels.of(table.take(range(first, first + rows)), first)
        for attempt in (0, 7):
            found = given(attempt, np.arange(rows)[::-1])
            assert np.array_equal(np.stack(list(found.values()), axis=1), whole[first : first + rows][::-1])


def test_seeds_are_the_same_for_the_same_number_and_the_next_of_a_generator() -> None:
    assert completion.seed_of(7) == completion.seed_of(np.int64(7)) == completion.seed_of([7])
    seeds = [completion.seed_of(number) for number in range(20)] + [completion.seed_of(None) for _ in "ab"]
    for make in (np.random.default_rng, np.random.RandomState):
        one, other = (make(3) for _ in "ab")
        drawn = [completion.seed_of(one) for _ in range(10)]
        assert drawn == [completion.seed_of(other) for _ in range(10)]
        seeds += drawn
        assert max(drawn) > 2**58
    assert len(set(seeds)) == len(seeds)
    assert all(0 <= seed < 2**64 for seed in seeds)
    assert max(seeds) > 2**58
    with pytest.raises(hb.TableError, match="'q'"):
        completion.seed_of("q")
