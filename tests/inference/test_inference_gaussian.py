"""Linear Gaussian networks against the closed form of the joint normal distribution."""

from __future__ import annotations

import copy
import itertools
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
from narrowing import as_continuous, as_discrete, as_kind
from scipy import linalg, stats

import hybridbn as hb
from hybridbn.inference import gaussian_component

CLOSE = 1e-10


def joint_normal(net: hb.Network) -> tuple[list[str], np.ndarray, np.ndarray]:
    """Return names, means and covariances: (I - B)^-1 D (I - B)^-T."""
    names = list(nx.topological_sort(net))
    place = {n: i for i, n in enumerate(names)}
    slopes, intercept, variance = np.zeros((len(names),) * 2), np.zeros(len(names)), np.zeros(len(names))
    for name in names:
        potential = net.potential(name)
        intercept[place[name]], variance[place[name]] = (
            as_kind(hb.LinearGaussian, potential).intercept,
            as_kind(hb.LinearGaussian, potential).variance,
        )
        for parent, slope in zip(potential.parents, as_kind(hb.LinearGaussian, potential).coefficients, strict=True):
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
    everything, center, spread = joint
    names, mean, covariance, log_evidence = conditioned(everything, center, spread, evidence)
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
        np.testing.assert_allclose(
            post.quantile([0.025, 0.5, 0.9]),
            mean[i] + spread[i] * stats.norm.ppf([0.025, 0.5, 0.9]),
            rtol=1e-8,
            atol=1e-8 * spread[i],
        )
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

    def noted(*given, **how):
        calls.append(1)
        return original(*given, **how)

    monkeypatch.setattr(np.linalg, "qr", noted)
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
        above = rng.choice(i, min(i, parents), replace=False) if i else np.array([], dtype=int)
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


def test_tables_of_complete_rows_are_linear_functions_of_them(monkeypatch):
    """Where all rows lack the same variables, no system is solved for them."""
    net = random_gaussian(np.random.default_rng(4), 9, 3)
    names, mean, covariance = joint_normal(net)
    table = net.sample(40, random_state=1)
    monkeypatch.setattr(gaussian_component, "solve_conditionals", None)
    for hidden in (["x1"], ["x0", "x8"], ["x0", "x3", "x4", "x5"]):
        known = table.drop(columns=hidden)
        posteriors, best = net.posteriors(known, hidden), net.most_probable(known)
        logs = net.log_evidence(known)
        for row, case in enumerate(known.to_dict("records")):
            left, center, spread, log_evidence = conditioned(names, mean, covariance, case)
            assert logs[row] == pytest.approx(log_evidence, abs=CLOSE)
            for name in hidden:
                place = left.index(name)
                assert posteriors[name].mean()[row] == pytest.approx(center[place], abs=CLOSE)
                assert posteriors[name].var()[row] == pytest.approx(spread[place, place], rel=CLOSE)
                assert best[name][row] == pytest.approx(center[place], abs=CLOSE)


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


def random_conditional(rng: np.random.Generator, nodes: int, discrete: int) -> hb.Network:
    """Make a network of numbers of different units whose regressions depend on some discrete parents."""
    given = [hb.Discrete(f"d{i}", ("a", "b", "c")[: 2 + i % 2]) for i in range(discrete)]
    potentials: list = [
        hb.Multinomial(
            d, given[:i][-1:], table=rng.dirichlet(np.ones(len(d)), size=[len(p) for p in given[:i][-1:]] or None)
        )
        for i, d in enumerate(given)
    ]
    units = 10.0 ** rng.uniform(-3, 3, nodes)
    numbers: list[hb.Continuous] = []
    for i in range(nodes):
        above = sorted(rng.choice(i, min(i, int(rng.integers(0, 4))), replace=False).tolist()) if i else []
        own = [d for d in given if rng.random() < 0.6]
        shape = [len(d) for d in own]
        numbers.append(hb.Continuous(f"x{i}"))
        potentials.append(
            hb.LinearGaussian(
                numbers[i],
                (*own, *(numbers[j] for j in above)),
                intercept=units[i] * rng.normal(size=shape),
                coefficients=rng.normal(size=[*shape, len(above)]) * units[i] / units[above],
                variance=(units[i] * rng.uniform(0.3, 2, size=shape)) ** 2,
            )
        )
    return hb.Network(potentials)


def enumerated(net: hb.Network, case: dict) -> tuple[float, list[tuple[float, dict, dict, list, np.ndarray]]]:
    """Return the log probability of a case, and for each discrete configuration its weight and states, the means, the
    names and the covariances.
    """
    given = {p.child.name: p for p in net.potentials if isinstance(p, hb.Multinomial)}
    numbers = {name: value for name, value in case.items() if name not in given}
    logs, parts = [], []
    for states in itertools.product(*(p.child.states for p in given.values())):
        chosen = dict(zip(given, states, strict=True))
        if any(case.get(name, state) != state for name, state in chosen.items()):
            continue
        plain = []
        for p in net.potentials:
            if p.child.name in given:
                continue
            cell = tuple(as_discrete(q).code(chosen[q.name]) for q in p.parents if q.name in given)
            above = [q for q in p.parents if q.name not in given]
            plain.append(
                hb.LinearGaussian(
                    as_continuous(p.child),
                    above,
                    intercept=as_kind(hb.LinearGaussian, p).intercept[cell],
                    coefficients=as_kind(hb.LinearGaussian, p).coefficients[cell],
                    variance=as_kind(hb.LinearGaussian, p).variance[cell],
                )
            )
        names, mean, covariance, log_evidence = conditioned(*joint_normal(hb.Network(plain)), numbers)
        prior = sum(math.log(p(**{v.name: chosen[v.name] for v in p.variables})) for p in given.values())
        logs.append(prior + log_evidence)
        parts.append((chosen, dict(zip(names, mean, strict=True)), names, covariance))
    top = max(logs)
    total = top + math.log(sum(math.exp(log - top) for log in logs))
    return total, [(math.exp(log - total), *part) for log, part in zip(logs, parts, strict=True)]


@settings(max_examples=12, derandomize=True, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_rows_with_any_holes_are_answered_as_by_conditioning_the_joint_distribution(seed):
    rng = np.random.default_rng(seed)
    net = random_conditional(rng, int(rng.integers(2, 7)), int(rng.integers(0, 3)))
    complete = net.sample(12, random_state=seed % 1000)
    table = complete.mask(rng.random(complete.shape) < rng.uniform(0.1, 0.9))
    numbers = [name for name in net if name.startswith("x")]
    logs, found = net.log_density(table), net.posteriors(table)
    target, pair = numbers[0], numbers[-2:]
    alone, joint = net.posterior(target, table), net.posterior(pair, table)
    for row, record in enumerate(table.to_dict("records")):
        case = {name: value for name, value in record.items() if pd.notna(value)}
        total, parts = enumerated(net, case)
        assert logs[row] == pytest.approx(total, rel=CLOSE, abs=CLOSE)
        assert net.log_evidence(case) == pytest.approx(logs[row], rel=1e-12, abs=1e-12)
        for name in numbers:
            if name in found and name not in case:
                mean = sum(weight * means[name] for weight, _, means, _, _ in parts)
                spread = math.sqrt(
                    sum(w * (c[n.index(name), n.index(name)] + (m[name] - mean) ** 2) for w, _, m, n, c in parts)
                )
                assert found[name].mean()[row] == pytest.approx(mean, rel=1e-9, abs=1e-9 * spread)
                assert found[name].std()[row] == pytest.approx(spread, rel=1e-8)
        # a target's own values in a table are not evidence
        _, parts = enumerated(net, {name: value for name, value in case.items() if name != target})
        mean = sum(weight * means[target] for weight, _, means, _, _ in parts)
        assert alone.mean()[row] == pytest.approx(mean, rel=1e-9, abs=1e-9 * alone.std()[row])
        rest = {name: value for name, value in case.items() if name not in pair}
        one = net.posterior(pair, rest)
        np.testing.assert_allclose(joint.mean()[row], one.mean(), rtol=1e-11, atol=1e-11 * float(one.std().max()))
        np.testing.assert_allclose(joint.cov()[row], one.cov(), rtol=1e-9, atol=1e-11 * float(one.var().max()))


def test_nearly_dependent_hidden_numbers_are_decomposed_without_squaring():
    """Rows whose precisions would lose digits keep them beside rows that are harmless."""
    x, y, z = map(hb.Continuous, "xyz")
    noise = 1e-14
    net = hb.Network(
        [
            hb.LinearGaussian(x, intercept=0, variance=1),
            hb.LinearGaussian(y, (x,), intercept=0, coefficients=[1], variance=noise),
            hb.LinearGaussian(z, (y,), intercept=0, coefficients=[1], variance=1),
        ]
    )
    table = pd.DataFrame({"x": [np.nan, 0.5, np.nan], "y": [np.nan, np.nan, 1.0], "z": [3.0, 3.0, np.nan]})
    found = net.posteriors(table)
    # x and y together are z halved; y is x but for the noise; x is y but for the noise
    np.testing.assert_allclose(found["x"].mean(), [1.5, 0.5, 1.0], rtol=1e-12)
    np.testing.assert_allclose(found["y"].mean(), [1.5, 0.5, 1.0], rtol=1e-12)
    np.testing.assert_allclose(found["x"].var(), [0.5, 0, noise], rtol=1e-7)
    np.testing.assert_allclose(net.log_density(table)[0], stats.norm.logpdf(3, 0, math.sqrt(2)), rtol=1e-12)


def test_a_thousand_patterns_take_no_thousand_calls(monkeypatch):
    net = random_gaussian(np.random.default_rng(3), 12, 2)
    complete = net.sample(1500, random_state=0)
    table = complete.mask(np.random.default_rng(1).random(complete.shape) < 0.4)
    assert len(table.notna().drop_duplicates()) > 700
    calls = []
    original = np.linalg.cholesky

    def noted(*given):
        calls.append(1)
        return original(*given)

    monkeypatch.setattr(np.linalg, "cholesky", noted)
    net.log_density(table)
    assert 0 < len(calls) <= 13


def test_draws_given_a_table_have_the_joint_distribution_of_its_rows():
    net = random_conditional(np.random.default_rng(5), 5, 2)
    case = {"x4": 0.3, "x1": 1.0}
    draws = net.sample(4000, random_state=0, evidence=case)
    names = ["x0", "x2", "x3"]
    joint = net.posterior(names, case)
    values = draws[names].to_numpy()
    spread = np.sqrt(np.diag(joint.cov()))
    assert np.abs((values.mean(axis=0) - joint.mean()) / spread).max() < 5 / math.sqrt(len(values))
    np.testing.assert_allclose(
        np.cov(values.T) / np.outer(spread, spread), joint.cov() / np.outer(spread, spread), atol=0.15
    )
    table = pd.DataFrame([case, {"x0": 2.0}])
    first = net.sample(3, random_state=1, evidence=table)
    pd.testing.assert_frame_equal(first, net.sample(3, random_state=1, evidence=table))
    assert (first["x4"][:3] == 0.3).all()
    assert (first["x0"][3:] == 2.0).all()


def test_regressions_of_occurring_configurations_alone_give_the_same(monkeypatch):
    """Where there are too many configurations of discrete parents to keep all, only those that occur are made."""
    net = random_conditional(np.random.default_rng(8), 5, 3)
    complete = net.sample(200, random_state=0)
    table = complete.mask(np.random.default_rng(1).random(complete.shape) < 0.4)
    table["d1"] = complete["d1"]

    def answers():
        joint, one = net.posterior(["x0", "x4"], table), net.posterior("x1", {"d1": "b", "x4": 0.5})
        filled = net.sample(random_state=0, evidence=table)[["x0", "x1", "x2", "x3", "x4"]].to_numpy()
        return net.log_density(table), joint.mean(), joint.cov(), [one.mean(), one.var(), one.log_evidence], filled

    kept = answers()
    monkeypatch.setattr("hybridbn.inference.gaussian_component.MOST_KEPT_NUMBERS", 0)
    monkeypatch.setattr("hybridbn.inference.gaussian_component.BLOCK_NUMBERS", 1)
    net = copy.deepcopy(net)  # nothing is kept of its potentials
    for before, now in zip(kept, answers(), strict=True):
        np.testing.assert_allclose(now, before, rtol=1e-10)


def test_rows_whose_predictions_overflow_are_no_nan():
    x, y, z = (hb.Continuous(name) for name in "xyz")
    net = hb.Network(
        [
            hb.LinearGaussian(x, intercept=0, coefficients=[], variance=1),
            hb.LinearGaussian(y, (x,), intercept=0, coefficients=[1e200], variance=1e300),
            hb.LinearGaussian(z, (x, y), intercept=0, coefficients=[1e200, -1e200], variance=1),
        ]
    )
    table = pd.DataFrame({"x": [1e-200, 1e200, 1e-200], "y": [2e-200, 1e200, 0.0], "z": [0.5, 0.0, 1.0]})
    logs = net.log_density(table)
    expected = [net.log_density(table[row : row + 1])[0] for row in range(3)]
    assert not np.isnan(logs).any()
    np.testing.assert_allclose(logs[[0, 2]], np.array(expected)[[0, 2]], rtol=1e-12)
    assert logs[1] == expected[1]
    rest = stats.norm.logpdf(1e-200) + stats.norm.logpdf(2e-200, 1.0, 1e150)
    assert logs[0] == pytest.approx(rest + stats.norm.logpdf(0.5, 1 - 2, 1), rel=1e-12)
