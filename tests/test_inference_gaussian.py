"""Linear Gaussian networks against the closed form of the joint normal distribution."""

from __future__ import annotations

import json
import math

import networkx as nx
import numpy as np
import pandas as pd
import pytest
from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from inference_tools import pgmpy_file
from scipy import linalg, stats

import hybridbn as hb

CLOSE = 1e-10


def joint_normal(net: hb.Network) -> tuple[list[str], np.ndarray, np.ndarray]:
    """Return names, means and covariances: (I - B)^-1 D (I - B)^-T."""
    names = list(nx.topological_sort(net))
    place = {n: i for i, n in enumerate(names)}
    slopes, intercept, variance = np.zeros((len(names),) * 2), np.zeros(len(names)), np.zeros(len(names))
    for name in names:
        potential = net.potential(name)
        intercept[place[name]], variance[place[name]] = potential.intercept, potential.variance
        for parent, slope in zip(potential.parents, potential.coefficients, strict=True):
            slopes[place[name], place[parent.name]] = slope
    lower = np.eye(len(names)) - slopes
    mean = linalg.solve_triangular(lower, intercept, lower=True)
    root = linalg.solve_triangular(lower, np.diag(np.sqrt(variance)), lower=True)
    return names, mean, root @ root.T


def conditioned(names, mean, covariance, evidence):
    known = [names.index(n) for n in evidence]
    rest = [i for i in range(len(names)) if i not in known]
    if not known:
        return [names[i] for i in rest], mean, covariance, 0.0
    offset = np.array([*evidence.values()]) - mean[known]
    factor = linalg.cho_factor(covariance[np.ix_(known, known)])
    gain = covariance[np.ix_(rest, known)]
    log_evidence = -0.5 * (
        offset @ linalg.cho_solve(factor, offset)
        + 2 * np.log(np.diag(factor[0])).sum()
        + len(known) * math.log(2 * math.pi)
    )
    return (
        [names[i] for i in rest],
        mean[rest] + gain @ linalg.cho_solve(factor, offset),
        covariance[np.ix_(rest, rest)] - gain @ linalg.cho_solve(factor, gain.T),
        log_evidence,
    )


def check(net, evidence, joint, targets=None, close=CLOSE):
    names, mean, covariance, log_evidence = conditioned(*joint, evidence)
    found = net.posteriors(evidence, targets)
    spread = np.sqrt(np.diag(covariance))
    for i, name in enumerate(names):
        if name not in found:
            continue
        post = found[name]
        # relative to the spread or to the value, whichever is larger: no method does better
        assert post.mean() == pytest.approx(mean[i], rel=close, abs=close * spread[i]), name
        assert post.std() == pytest.approx(spread[i], rel=close), name
        x = mean[i] + spread[i] * np.array([-2.0, 0.3, 1.5])
        np.testing.assert_allclose(post.cdf(x), stats.norm.cdf([-2.0, 0.3, 1.5]), atol=1e-9)
        np.testing.assert_allclose(post.quantile([0.025, 0.5, 0.9]), mean[i] + spread[i] * stats.norm.ppf([0.025, 0.5, 0.9]), rtol=1e-8, atol=1e-8 * spread[i])  # fmt: skip
        assert post.error <= 1e-11
    assert net.log_evidence(evidence) == pytest.approx(log_evidence, rel=close, abs=close)


def shipped(name: str) -> hb.Network:
    """Read one of the networks of bnlearn's repository as pgmpy ships them: coefficients and residual deviations."""
    data = json.loads(pgmpy_file(f"{name}.json").read_text())
    variables = {node: hb.Continuous(node) for node in data["nodes"]}
    potentials = []
    for node in data["nodes"]:
        cpd = data["cpds"][node]
        coefficients = {k: (v[0] if isinstance(v, list) else v) for k, v in cpd["coefficients"].items()}
        variance = cpd["variance"]
        variance = variance[0] if isinstance(variance, list) else variance
        parents = cpd["parents"]
        parents = [parents] if isinstance(parents, str) else list(parents or [])
        potentials.append(
            hb.LinearGaussian(
                variables[node],
                [variables[p] for p in parents],
                intercept=coefficients["(Intercept)"],
                coefficients=[coefficients[p] for p in parents],
                variance=variance,
            )
        )
    return hb.Network(potentials)


@pytest.mark.parametrize("name", ["ecoli70", "magic-niab", "magic-irri", "arth150"])
def test_networks_shipped_by_pgmpy(name):
    net = shipped(name)
    joint = joint_normal(net)
    names = joint[0]
    rng = np.random.default_rng(1)
    check(net, {}, joint)
    for share in (0.1, 0.6):
        case = dict(zip(names, rng.multivariate_normal(joint[1], joint[2]), strict=True))
        evidence = {n: float(v) for n, v in case.items() if rng.random() < share}
        check(net, evidence, joint)
    evidence = {n: float(joint[1][names.index(n)] + 1) for n in names[-3:]}
    for target in names[:3]:
        check(net, evidence, joint, [target])


def test_all_posteriors_share_one_decomposition(monkeypatch):
    rng = np.random.default_rng(0)
    net = random_gaussian(rng, 30, 3)
    calls = []
    original = np.linalg.qr
    monkeypatch.setattr(np.linalg, "qr", lambda *given, **how: calls.append(1) or original(*given, **how))
    found = net.posteriors({"x29": 0.5})
    # one for the probability of the evidence, one for the moments of all targets
    assert len(calls) <= 2
    assert len(found) == 29
    for name in ("x3", "x17"):
        alone = net.posterior(name, {"x29": 0.5})
        assert found[name].mean() == pytest.approx(alone.mean(), rel=1e-12)
        assert found[name].std() == pytest.approx(alone.std(), rel=1e-12)


def test_models_of_pgmpy():
    pytest.importorskip("pgmpy")
    same = shipped("ecoli70")
    net = hb.from_pgmpy(same.to_pgmpy())
    evidence = {"asnA": 1.0, "lacZ": 2.0}
    for name in ("eutG", "icdA"):
        assert net.posterior(name, evidence).mean() == pytest.approx(same.posterior(name, evidence).mean(), rel=1e-9)
        assert net.posterior(name, evidence).std() == pytest.approx(same.posterior(name, evidence).std(), rel=1e-9)


def random_gaussian(rng: np.random.Generator, nodes: int, parents: int) -> hb.Network:
    variables = [hb.Continuous(f"x{i}") for i in range(nodes)]
    potentials = []
    for i in range(nodes):
        above = rng.choice(i, min(i, parents), replace=False) if i else []
        potentials.append(
            hb.LinearGaussian(
                variables[i],
                [variables[j] for j in above],
                intercept=rng.normal(),
                coefficients=rng.normal(size=len(above)) * 0.7,
                variance=rng.uniform(0.2, 2),
            )
        )
    return hb.Network([potentials[i] for i in rng.permutation(nodes)])


def test_thirty_nodes_with_three_parents_each():
    rng = np.random.default_rng(0)
    net = random_gaussian(rng, 30, 3)
    joint = joint_normal(net)
    names = joint[0]
    check(net, {}, joint)
    for _ in range(4):
        case = rng.multivariate_normal(joint[1], joint[2])
        chosen = rng.random(30) < rng.uniform(0.1, 0.8)
        check(net, {n: float(v) for n, v, c in zip(names, case, chosen, strict=True) if c}, joint)


def test_tables_with_holes():
    rng = np.random.default_rng(2)
    net = random_gaussian(rng, 8, 3)
    joint = joint_normal(net)
    names = joint[0]
    full = rng.multivariate_normal(joint[1], joint[2], size=40)
    table = pd.DataFrame(np.where(rng.random(full.shape) < 0.5, np.nan, full), columns=names)
    logs = net.log_density(table)
    together = net.posteriors(table)
    for i, row in enumerate(table.to_dict("records")):
        evidence = {k: v for k, v in row.items() if not math.isnan(v)}
        rest, mean, covariance, log_evidence = conditioned(*joint, evidence)
        assert logs[i] == pytest.approx(log_evidence, rel=CLOSE, abs=CLOSE)
        for k, name in enumerate(rest):
            assert together[name].mean()[i] == pytest.approx(mean[k], rel=CLOSE, abs=CLOSE)
            assert together[name].var()[i] == pytest.approx(covariance[k, k], rel=CLOSE)
        for name in set(evidence) & set(together):  # what is observed is known
            assert together[name].mean()[i] == pytest.approx(evidence[name], rel=1e-12)
            assert together[name].var()[i] == pytest.approx(0, abs=1e-12)


def test_joint_posteriors():
    rng = np.random.default_rng(4)
    net = random_gaussian(rng, 9, 3)
    joint = joint_normal(net)
    evidence = {"x8": 1.0, "x2": -0.5}
    names, mean, covariance, _ = conditioned(*joint, evidence)
    wanted = ["x5", "x0", "x7"]
    at = [names.index(n) for n in wanted]
    post = net.posterior(wanted, evidence)
    np.testing.assert_allclose(post.mean(), mean[at], rtol=CLOSE)
    np.testing.assert_allclose(post.cov(), covariance[np.ix_(at, at)], rtol=CLOSE, atol=1e-12)
    x = mean[at] + [0.3, -0.8, 1.1]
    expected = stats.multivariate_normal(mean[at], covariance[np.ix_(at, at)]).logpdf(x)
    assert post.log_pdf(**dict(zip(wanted, x, strict=True))) == pytest.approx(expected, rel=1e-9)


@settings(max_examples=examples(40), derandomize=True, deadline=None)
@given(st.integers(0, 2**32 - 1), st.floats(-12, 2))
def test_tiny_noise(seed, exponent):
    """Regressions whose variance is next to nothing don't lose the digits that the problem has."""
    rng = np.random.default_rng(seed)
    x, y, z = map(hb.Continuous, "xyz")
    tiny = 10.0**exponent
    slope = float(rng.uniform(0.5, 2))
    net = hb.Network(
        [
            hb.LinearGaussian(x, intercept=1, variance=2),
            hb.LinearGaussian(y, (x,), intercept=0, coefficients=[slope], variance=tiny),
            hb.LinearGaussian(z, (x,), intercept=0, coefficients=[1], variance=1),
        ]
    )
    value = float(rng.normal())
    precision = 0.5 + slope**2 / tiny
    mean = (0.5 + slope * value / tiny) / precision
    post = net.posterior("x", {"y": value})
    assert post.mean() == pytest.approx(mean, rel=1e-10, abs=1e-12)
    assert post.var() == pytest.approx(1 / precision, rel=1e-8)
    assert net.posterior("z", {"y": value}).var() == pytest.approx(1 / precision + 1, rel=1e-10)
