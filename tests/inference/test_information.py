"""The value of information and Shapley values: against closed forms, sums over joint tables, and pyAgrum."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pandas as pd
import pytest
from narrowing import as_discrete
from scipy import integrate
from scipy.stats import norm

import hybridbn as hb


def make_tables(seed: int, count: int = 6) -> hb.Network:
    """Return a random network of tables."""
    rng = np.random.default_rng(seed)
    variables = [hb.Discrete(f"v{i}", states=tuple(range(rng.integers(2, 4)))) for i in range(count)]
    potentials = []
    for i, variable in enumerate(variables):
        parents = [variables[j] for j in rng.permutation(i)[: rng.integers(0, 3)]]
        table = rng.dirichlet(np.ones(len(variable)), tuple(map(len, parents)))
        potentials.append(hb.Multinomial(variable, parents, table=table))
    return hb.Network(potentials)


def measure(joint: np.ndarray) -> tuple[float, float]:
    """Return the mutual information of a joint table (target, other), and the gain in the chance to guess right."""
    independent = joint.sum(axis=1, keepdims=True) * joint.sum(axis=0)
    some = joint > 0
    information = np.sum(joint[some] * np.log(joint[some] / independent[some]))
    return float(information), float(joint.max(axis=0).sum() - joint.sum(axis=1).max())


@pytest.mark.parametrize("evidence", [{}, {"v5": 1}, {"v4": {0: 0.3, 1: 0.9}, "v2": 0}])
def test_tables_agree_with_sums_over_joint_tables(evidence: dict) -> None:
    net = make_tables(4)
    frame = net.value_of_information("v1", evidence)
    assert set(frame.index) == set(net) - {"v1", *(name for name in evidence if name != "v4")}
    assert (frame.index.name, frame.index.dtype) == ("variable", object)
    assert frame["information"].is_monotonic_decreasing
    for name, row in frame.iterrows():
        expected = measure(net.posterior(["v1", name], evidence).probabilities)
        np.testing.assert_allclose([row["information"], row["gain"]], expected, atol=1e-12)


def test_information_agrees_with_pyagrum() -> None:
    gum = pytest.importorskip("pyagrum")
    other = gum.fastBN("a[3]->b[2]->c[3]<-d[2]<-a")
    rng = np.random.default_rng(3)
    variables = {name: hb.Discrete(name, states=tuple(range(k))) for name, k in zip("abcd", (3, 2, 3, 2), strict=True)}
    net = hb.Network()
    for name, parents in (("a", ""), ("b", "a"), ("d", "a"), ("c", "bd")):
        table = rng.dirichlet(np.ones(len(variables[name])), tuple(len(variables[p]) for p in parents))
        net.add(hb.Multinomial(variables[name], [variables[p] for p in parents], table=table))
        for codes in itertools.product(*(range(len(variables[p])) for p in parents)):
            other.cpt(name)[dict(zip(parents, codes, strict=True))] = table[codes].tolist()
    frame = net.value_of_information("a", {"c": 2})
    for name in "bd":
        engine = gum.LazyPropagation(other)
        engine.setEvidence({"c": 2})
        joint = engine.jointPosterior({"a", name})
        table = np.array([[joint[{"a": i, name: j}] for j in range(2)] for i in range(3)])
        assert frame.loc[name, "information"] == pytest.approx(measure(table)[0], abs=1e-12)


def test_linear_gaussian_variables_have_half_the_log_of_their_shared_variance() -> None:
    x, y, z = (hb.Continuous(name) for name in "xyz")
    net = hb.Network(
        [
            hb.LinearGaussian(x, intercept=1, variance=4),
            hb.LinearGaussian(y, parents=(x,), intercept=0, coefficients=[0.5], variance=1),
            hb.LinearGaussian(z, parents=(y, x), intercept=3, coefficients=[1, -2], variance=0.5),
        ]
    )
    frame = net.value_of_information("x")
    for name in "yz":
        covariance = net.posterior(["x", name]).cov()
        rho2 = covariance[0, 1] ** 2 / (covariance[0, 0] * covariance[1, 1])
        assert frame.loc[name, "information"] == pytest.approx(-0.5 * math.log(1 - rho2), abs=1e-9)
        assert frame.loc[name, "gain"] == pytest.approx(rho2 * 4, abs=1e-9)
    given = net.value_of_information("x", {"y": 2.0})
    covariance = net.posterior(["x", "z"], {"y": 2.0}).cov()
    rho2 = covariance[0, 1] ** 2 / (covariance[0, 0] * covariance[1, 1])
    assert given["information"].tolist() == pytest.approx([-0.5 * math.log(1 - rho2)], abs=1e-9)


def make_mixed() -> hb.Network:
    sick, cough = hb.Discrete("sick", states=("no", "yes")), hb.Discrete("cough", states=("no", "yes"))
    fever, pulse = hb.Continuous("fever"), hb.Continuous("pulse")
    return hb.Network(
        [
            hb.Multinomial(sick, table=[0.7, 0.3]),
            hb.LinearGaussian(fever, parents=(sick,), intercept=[36.8, 38.0], variance=[0.25, 0.5]),
            hb.Softmax(cough, parents=(fever,), intercept=[0, -37.5], coefficients=[[0], [1]]),
            hb.LinearGaussian(pulse, parents=(sick,), intercept=[60, 90], variance=[100, 150]),
        ]
    )


def test_mixed_variables_agree_with_quadrature_in_both_directions() -> None:
    net = make_mixed()

    def density(x: float) -> np.ndarray:
        return np.array([0.7 * norm.pdf(x, 60, 10), 0.3 * norm.pdf(x, 90, math.sqrt(150))])

    def integrand(x: float) -> float:
        joint = density(x)
        return float(np.sum(joint * np.log(joint / (np.array([0.7, 0.3]) * joint.sum()))))

    expected = integrate.quad(integrand, -20, 170, epsabs=1e-13, limit=200)[0]
    best = integrate.quad(lambda x: density(x).max(), -20, 170, points=[75, 80], epsabs=1e-12, limit=200)[0] - 0.7
    states, number = net.value_of_information("sick"), net.value_of_information("pulse")
    assert states.loc["pulse", "information"] == pytest.approx(expected, abs=1e-9)
    assert states.loc["pulse", "gain"] == pytest.approx(best, abs=1e-5)
    assert number.loc["sick", "information"] == pytest.approx(expected, abs=1e-9)
    assert number.loc["sick", "gain"] == pytest.approx(0.21 * 30**2, rel=1e-9)  # the variance between the means
    # both continuous, and a child that is discrete: symmetric too
    fever = net.value_of_information("fever", {"cough": "yes"})
    again = net.value_of_information("pulse", {"cough": "yes"})
    assert fever.loc["pulse", "information"] == pytest.approx(again.loc["fever", "information"], abs=1e-6)
    assert net.value_of_information("fever").loc["cough", "information"] == pytest.approx(
        net.value_of_information("cough").loc["fever", "information"], abs=1e-7
    )


def test_findings_that_are_no_values_stay() -> None:
    net = make_mixed()
    evidence = {"pulse": hb.Interval(70, 100), "sick": {"no": 0.2, "yes": 0.5}}
    frame = net.value_of_information("sick", evidence)
    prior = as_discrete(net.posterior("sick", evidence)).probabilities
    joint = net.posterior(["sick", "cough"], evidence).probabilities
    np.testing.assert_allclose(joint.sum(axis=1), prior, atol=1e-9)
    np.testing.assert_allclose(frame.loc["cough"].tolist(), measure(joint), atol=1e-9)
    assert 0 < frame.loc["pulse", "information"] < net.value_of_information("sick").loc["pulse", "information"]
    assert set(net.do(pulse=80.0).value_of_information("sick").index) == {"fever", "cough"}


def test_costs_change_the_order() -> None:
    net = make_mixed()
    plain = net.value_of_information("sick")
    priced = net.value_of_information("sick", costs={plain.index[0]: 100, plain.index[1]: 2})
    assert priced.index[-1] == plain.index[0]
    np.testing.assert_allclose(priced["per_cost"], priced["information"] / priced["cost"])
    assert priced.loc[plain.index[2], "cost"] == 1
    free = net.value_of_information("sick", costs={plain.index[2]: 0})
    assert free.index[0] == plain.index[2]


def test_what_makes_no_sense_is_refused() -> None:
    net = make_mixed()
    for call, message in (
        (lambda: net.value_of_information("ill"), "no node"),
        (lambda: net.value_of_information(["sick"]), "no node"),  # type: ignore[arg-type]
        (lambda: hb.shapley_values(net, ["sick"], {"cough": "yes"}), "no node"),  # type: ignore[arg-type]
        (lambda: net.value_of_information("sick", {"sick": "yes"}), "asked for"),
        (lambda: net.value_of_information("sick", [{"cough": "yes"}]), "a mapping"),  # type: ignore[arg-type]
        (lambda: net.value_of_information("sick", costs={"cost": 1}), "no node 'cost'"),
        (lambda: net.value_of_information("sick", costs={"cough": -1}), "not negative"),
        (lambda: net.value_of_information("sick", costs=[1]), "a mapping of names"),  # type: ignore[arg-type]
        (lambda: net.do(pulse=80.0).value_of_information("pulse"), "one value"),
        (lambda: hb.shapley_values(net, "sick", pd.DataFrame({"cough": ["yes"]})), "a mapping"),
        (lambda: hb.shapley_values(net, "sick", {"cough": "yes"}, "maybe"), "maybe"),
        (lambda: hb.shapley_values(net, "fever", {"cough": "yes"}, "yes"), "continuous"),
    ):
        with pytest.raises(hb.HybridBNError, match=message):
            call()
    assert net.subgraph(["pulse", "sick"]).value_of_information("sick", {"pulse": 70.0}).empty


# -- Shapley values -----------------------------------------------------------------------------------------------


def average_over_orders(worth, names: list[str]) -> dict[str, float]:
    shares = dict.fromkeys(names, 0.0)
    orders = list(itertools.permutations(names))
    for order in orders:
        for place, name in enumerate(order):
            shares[name] += (worth(order[: place + 1]) - worth(order[:place])) / len(orders)
    return shares


def test_shapley_values_are_averages_over_all_orders() -> None:
    net = make_tables(7)
    evidence = {"v5": 1, "v3": {0: 0.3, 1: 0.6}, "v0": 1, "v2": 0}

    def worth(known: tuple[str, ...]) -> float:
        return float(as_discrete(net.posterior("v1", {name: evidence[name] for name in known})).probability(1))

    shares = hb.shapley_values(net, "v1", evidence, 1)
    expected = average_over_orders(worth, list(evidence))
    np.testing.assert_allclose([shares[name] for name in evidence], list(expected.values()), atol=1e-12)
    assert sum(shares.values()) == pytest.approx(worth(tuple(evidence)) - worth(()), abs=1e-12)


def test_shapley_values_of_a_mean_and_of_findings_of_all_kinds() -> None:
    net = make_mixed()
    evidence = {"pulse": hb.Interval(70, 100), "cough": "yes", "sick": {"no": 0.4, "yes": 0.5}}

    def worth(known: tuple[str, ...]) -> float:
        return float(net.posterior("fever", {name: evidence[name] for name in known}).mean())

    shares = hb.shapley_values(net, "fever", evidence)
    np.testing.assert_allclose(
        list(shares.values()), list(average_over_orders(worth, list(evidence)).values()), atol=1e-8
    )
    assert hb.shapley_values(net, "fever", {}) == {}
    single = hb.shapley_values(net, "sick", {"pulse": lambda x: np.exp(-0.5 * ((x - 95) / 3) ** 2)})
    assert list(single) == ["pulse"]
    assert single["pulse"] > 0.3


def test_many_findings_are_sampled() -> None:
    root = hb.Discrete("root", states=("a", "b"))
    net, rng = hb.Network([hb.Multinomial(root, table=[0.6, 0.4])]), np.random.default_rng(2)
    for i in range(17):
        leaf = hb.Discrete(f"leaf{i}", states=("u", "v"))
        net.add(hb.Multinomial(leaf, (root,), table=0.35 + 0.3 * rng.dirichlet(np.ones(2), 2)))
    evidence = {f"leaf{i}": "u" for i in range(17)}
    shares = hb.shapley_values(net, "root", evidence, "a", random_state=1)
    total = net.posterior("root", evidence)["a"] - 0.6
    assert sum(shares.values()) == pytest.approx(total, abs=1e-12)
    assert shares == hb.shapley_values(net, "root", evidence, "a", random_state=1)
    more = hb.shapley_values(net, "root", evidence, "a", permutations=2000, random_state=2)
    np.testing.assert_allclose([shares[n] for n in evidence], [more[n] for n in evidence], atol=0.005)
    few = dict.fromkeys(list(evidence)[:15], "u")
    assert sum(hb.shapley_values(net, "root", few, "a").values()) == pytest.approx(
        net.posterior("root", few)["a"] - 0.6, abs=1e-12
    )


def test_values_that_have_mass_tell_what_they_tell() -> None:
    rng = np.random.default_rng(0)
    sick = rng.random(400) < 0.4
    dose = np.where(rng.random(400) < np.where(sick, 0.2, 0.7), 0.0, 1.0 + sick + rng.normal(size=400))
    table = {"dose": dose, "sick": np.where(sick, "yes", "no"), "age": rng.normal(size=400) + dose}
    net = hb.structures.naive_bayes(table, "sick", "gaussian")
    assert isinstance(net.potential("dose"), hb.Atoms)
    drawn = net.sample(20_000, random_state=0)[["dose"]]
    told, before = (
        as_discrete(net.posterior("sick", drawn)).probabilities,
        as_discrete(net.posterior("sick")).probabilities,
    )
    found = net.value_of_information("sick").loc["dose"]
    lost = [-(p * np.log(p)).sum(axis=-1) for p in (before, told)]
    assert found["information"] == pytest.approx(lost[0] - lost[1].mean(), abs=0.01)
    assert found["gain"] == pytest.approx(told.max(axis=1).mean() - before.max(), abs=0.01)
    # and what is told of them by another number
    other = net.value_of_information("dose").loc["sick"]
    assert other["information"] == pytest.approx(found["information"], rel=1e-6)


def gain_of_normals(shares: np.ndarray, means: np.ndarray, deviations: np.ndarray) -> float:
    """Return by how much the best guess gets better, integrated between all points where two parts cross."""
    roots = [means.min() - 40 * deviations.max(), means.max() + 40 * deviations.max()]
    for i, j in itertools.combinations(range(len(shares)), 2):
        (p, q), (m, n), (s, t) = shares[[i, j]], means[[i, j]], deviations[[i, j]]
        constant = math.log(p / s) - math.log(q / t) - 0.5 * (m / s) ** 2 + 0.5 * (n / t) ** 2
        crossings = np.roots([0.5 / t**2 - 0.5 / s**2, m / s**2 - n / t**2, constant])
        roots += crossings[np.isreal(crossings)].real.tolist()
    edges = np.unique(roots)
    middles = (edges[:-1] + edges[1:]) / 2
    logs = np.log(shares)[:, None] + norm.logpdf(middles, means[:, None], deviations[:, None])
    best = logs.argmax(axis=0)
    masses = norm.cdf(edges[1:], means[best], deviations[best]) - norm.cdf(edges[:-1], means[best], deviations[best])
    return float(shares[best] @ masses - shares.max())


@pytest.mark.parametrize("quadrature", [False, True])
@pytest.mark.parametrize("seed", range(6))
def test_gains_have_no_error_where_densities_cross(seed: int, quadrature: bool) -> None:
    rng = np.random.default_rng(seed)
    count = 2 + seed % 3
    kind, number = hb.Discrete("kind", tuple(range(count))), hb.Continuous("number")
    shares, means = rng.dirichlet(np.ones(count)), rng.normal(size=count) * 10.0 ** rng.integers(-3, 4)
    deviations = np.abs(means).max() * 10.0 ** rng.uniform(-2, 0.5, count)
    density: hb.Potential = hb.LinearGaussian(number, (kind,), intercept=means, variance=deviations**2)
    if quadrature:
        function = lambda number, kind: norm.pdf(number, means[kind], deviations[kind])  # noqa: E731
        breaks = (means[:, None] + deviations[:, None] * np.linspace(-8, 8, 9)).ravel()
        density = hb.Density(number, (kind,), function=function, breaks={"number": np.unique(breaks)})
    net = hb.Network([hb.Multinomial(kind, table=shares), density])
    gain = net.value_of_information("kind").loc["number", "gain"]
    assert gain == pytest.approx(gain_of_normals(shares, means, deviations), abs=1e-9)


def test_what_is_hardly_ever_so_counts_hardly() -> None:
    """A density with a piece far away, of nearly no mass, tells what it tells without that."""
    x, c = hb.Continuous("x", (0, 100)), hb.Discrete("c", (0, 1))
    frames = []
    for tail in (0.0, 1e-13):
        pieces = [
            hb.Piece({"x": (0, 1)}, constant=0.4),
            hb.Piece({"x": (1, 2)}, constant=0.6 - 98 * tail),
            hb.Piece({"x": (2, 100)}, constant=tail),
        ]
        steps = [hb.Piece({"x": (low, high)}, {"c": state}, constant=p if state else 1 - p)
                 for (low, high), p in (((0, 1), 0.2), ((1, 2), 0.9), ((2, 100), 0.9)) for state in (0, 1)]  # fmt: skip
        net = hb.Network([hb.MTE(x, pieces=pieces), hb.MTE(c, (x,), pieces=steps)])
        frames.append(net.value_of_information("c"))
    wanted = measure(np.array([[0.4 * 0.8, 0.6 * 0.1], [0.4 * 0.2, 0.6 * 0.9]]))
    for frame in frames:
        np.testing.assert_allclose(frame.loc["x"].to_numpy(), wanted, atol=1e-6)
