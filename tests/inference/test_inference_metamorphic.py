"""Relations between answers that hold whatever the answers are."""

from __future__ import annotations

import math

import networkx as nx
import numpy as np
import pandas as pd
import pytest
from effort import examples
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from inference_tools import crops, network_of, random_evidence, random_hybrid, widest
from narrowing import as_continuous, as_discrete

import hybridbn as hb

CLOSE = 1e-9
SETTINGS = settings(
    max_examples=examples(25),
    derandomize=True,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)


@st.composite
def problems(draw, most_nodes: int = 5):
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    nodes = draw(st.integers(2, most_nodes))
    specs = random_hybrid(rng, nodes)
    target = f"n{draw(st.integers(0, nodes - 1))}"
    evidence = random_evidence(specs, target, rng)
    assume(widest(specs, evidence) <= 2)
    return specs, target, evidence, rng


def summary(post) -> np.ndarray:
    """Return numbers that describe a posterior."""
    if hasattr(post, "probabilities"):
        return np.atleast_1d(post.probabilities)
    return np.array([post.mean(), post.var(), *post.quantile([0.1, 0.5, 0.9])])


def same(one, other, close=CLOSE):
    np.testing.assert_allclose(summary(one), summary(other), rtol=close, atol=close)


@SETTINGS
@given(problems())
def test_chain_rule(problem):
    """log P(e1, e2) = log P(e1) + log P(e2 | e1), the latter from the posterior of e2's variable."""
    specs, target, evidence, _ = problem
    net = network_of(specs)
    assume(net.log_evidence(evidence) > -500)
    post = net.posterior(target, evidence)
    if specs[target].discrete:
        value = specs[target].states[int(np.argmax(post.probabilities))]
        step = math.log(post.probability(value))
    else:
        value = float(post.quantile(0.3))
        step = post.log_pdf(value)
    whole = net.log_evidence({**evidence, target: value})
    assert whole == pytest.approx(net.log_evidence(evidence) + step, rel=CLOSE, abs=2e-9)


@SETTINGS
@given(problems())
def test_barren_nodes_change_nothing(problem):
    specs, target, evidence, _ = problem
    net = network_of(specs)
    wide = network_of(specs)
    parents = [s.potential.child for s in specs.values()]
    numbers = [v for v in parents if isinstance(v, hb.Continuous)]
    extra = hb.Discrete("extra", (0, 1))
    if numbers:
        wide.add(hb.Softmax(extra, numbers[:1], intercept=[0, 1], coefficients=[[1.0], [3.0]]))
        wide.add(
            hb.LinearGaussian(
                hb.Continuous("leaf"), numbers[:2], intercept=0, coefficients=[1.0] * len(numbers[:2]), variance=1
            )
        )
    else:
        wide.add(hb.Multinomial(extra, table=[0.5, 0.5]))
    same(net.posterior(target, evidence), wide.posterior(target, evidence), 1e-12)
    assert wide.log_evidence(evidence) == pytest.approx(net.log_evidence(evidence), rel=1e-12, abs=1e-12)
    # and observing nothing of them, in so many words
    same(net.posterior(target, evidence), wide.posterior(target, {**evidence, "extra": None}), 1e-12)


@SETTINGS
@given(problems())
def test_the_order_of_nodes_does_not_matter(problem):
    specs, target, evidence, rng = problem
    net = network_of(specs)
    potentials = [s.potential for s in specs.values()]
    shuffled = hb.Network([potentials[i] for i in rng.permutation(len(potentials))])
    turned = dict(reversed(evidence.items()))
    same(net.posterior(target, evidence), shuffled.posterior(target, turned), 1e-10)
    assert shuffled.log_evidence(turned) == pytest.approx(net.log_evidence(evidence), rel=1e-10, abs=1e-10)


@SETTINGS
@given(problems())
def test_names_do_not_matter(problem):
    specs, target, evidence, rng = problem
    net = network_of(specs)
    names = dict(zip(specs, [f"z{i}" for i in rng.permutation(len(specs))], strict=True))
    potentials = [s.potential for s in specs.values() if s.family != "density"]
    assume(len(potentials) == len(specs))  # a Density's function knows its variables by name
    renamed = hb.Network([p.renamed(names) for p in potentials])
    assert nx.is_isomorphic(net, renamed)
    same(
        net.posterior(target, evidence),
        renamed.posterior(names[target], {names[n]: v for n, v in evidence.items()}),
        1e-10,
    )


def test_relabeled_states():
    """Another order and other names of the states: the same probabilities."""
    net = crops()
    s, b = hb.Discrete("S", ("none", "some")), hb.Discrete("B", (1, 0))
    c, p = hb.Continuous("C"), hb.Continuous("P")
    other = hb.Network(
        [
            hb.Multinomial(s, table=[0.7, 0.3]),
            hb.LinearGaussian(c, intercept=5, variance=1),
            hb.LinearGaussian(p, (c, s), intercept=[20, 10], coefficients=[[-1], [-1]], variance=[1, 1]),
            hb.Softmax(b, (p,), intercept=[0, 5], coefficients=[[0], [-1]]),
        ]
    )
    for mine, theirs in (
        ({}, {}),
        ({"B": False}, {"B": 0}),
        ({"B": True, "C": 4.0}, {"B": 1, "C": 4.0}),
        ({"S": True, "B": True}, {"S": "some", "B": 1}),
    ):
        assert net.log_evidence(mine) == pytest.approx(other.log_evidence(theirs), abs=1e-11)
        one, two = net.posteriors(mine), other.posteriors(theirs)
        if "S" in one:
            assert as_discrete(one["S"]).probability(True) == pytest.approx(two["S"]["some"], abs=1e-11)
        assert one["P"].mean() == pytest.approx(two["P"].mean(), rel=1e-10)


@pytest.mark.parametrize(("scale", "shift"), [(1e6, 0.0), (1e-6, 0.0), (-2.0, 3.0), (1.0, 1e6), (1e3, -1e7)])
def test_affine_rescaling(scale, shift):
    """Crops with the price in other units, and everything that depends on it rewritten."""
    net = crops()
    s, b = hb.Discrete("S", (True, False)), hb.Discrete("B", (True, False))
    c, p = hb.Continuous("C"), hb.Continuous("P")
    other = hb.Network(
        [
            hb.Multinomial(s, table=[0.3, 0.7]),
            hb.LinearGaussian(c, intercept=5, variance=1),
            hb.LinearGaussian(
                p,
                (s, c),
                intercept=[10 * scale + shift, 20 * scale + shift],
                coefficients=[[-scale], [-scale]],
                variance=[scale**2] * 2,
            ),
            hb.Softmax(b, (p,), intercept=[-5 - shift / scale, 0], coefficients=[[1 / scale], [0]]),
        ]
    )
    # a shift costs the digits that the shifted numbers lack
    close = max(1e-9, 1e-13 * abs(shift / scale))
    for evidence in ({"B": False}, {"B": True, "C": 6.0}, {}):
        one, two = net.posterior("P", evidence), other.posterior("P", evidence)
        assert (two.mean() - shift) / scale == pytest.approx(one.mean(), rel=close)
        assert two.var() / scale**2 == pytest.approx(one.var(), rel=close)
        x = np.array([2.0, 5.0, 12.0])
        np.testing.assert_allclose(
            as_continuous(two).pdf(scale * x + shift) * abs(scale),
            as_continuous(one).pdf(x),
            rtol=max(close, 1e-8),
            atol=close,
        )
        assert other.log_evidence(evidence) == pytest.approx(net.log_evidence(evidence), abs=close)
        same(net.posterior("S", evidence), other.posterior("S", evidence), close)
    price = 7.5
    assert other.log_evidence({"P": scale * price + shift}) == pytest.approx(
        net.log_evidence({"P": price}) - math.log(abs(scale)), rel=close
    )


@SETTINGS
@given(problems(most_nodes=4))
def test_likelihoods_split_in_two(problem):
    """A likelihood of a node is an observed child; two of them are their product."""
    specs, target, evidence, rng = problem
    discrete = [n for n in specs if specs[n].discrete and n != target]
    assume(discrete)
    name = discrete[0]
    net = network_of(specs)
    states = specs[name].states
    first, second = rng.uniform(0.2, 1, len(states)), rng.uniform(0.2, 1, len(states))
    sensors = [hb.Discrete(n, ("on", "off")) for n in ("sensor1", "sensor2")]
    wide = network_of(specs)
    for sensor, p in zip(sensors, (first, second), strict=True):
        wide.add(hb.Multinomial(sensor, (specs[name].potential.child,), table=np.stack([p, 1 - p], axis=-1)))
    rest = {n: v for n, v in evidence.items() if n != name}
    together = {**rest, name: dict(zip(states, first * second, strict=True))}
    apart = {**rest, "sensor1": "on", "sensor2": "on"}
    assume(net.log_evidence(together) > -500)
    same(net.posterior(target, together), wide.posterior(target, apart))
    assert net.log_evidence(together) == pytest.approx(wide.log_evidence(apart), rel=CLOSE, abs=CLOSE)


@SETTINGS
@given(problems(most_nodes=4))
def test_total_probability(problem):
    """A posterior is the average of the posteriors given one more variable; intervals add up to the whole."""
    specs, target, evidence, _ = problem
    net = network_of(specs)
    free = [n for n in specs if n != target and evidence.get(n) is None]
    assume(free)
    assume(net.log_evidence(evidence) > -300)
    name = free[0]
    if specs[name].discrete:
        parts = [{**evidence, name: s} for s in specs[name].states]
    else:
        low, high = net.posterior(name, evidence).quantile([0.2, 0.7])
        parts = [{**evidence, name: hb.Interval(*ends)} for ends in ((-math.inf, low), (low, high), (high, math.inf))]
    logs = np.array([net.log_evidence(part) for part in parts])
    whole = net.log_evidence(evidence)
    weights = np.exp(logs - whole)
    assert weights.sum() == pytest.approx(1, abs=1e-8)
    used = [(w, net.posterior(target, part)) for w, part in zip(weights, parts, strict=True) if w > 1e-12]
    post = net.posterior(target, evidence)
    if specs[target].discrete:
        np.testing.assert_allclose(sum(w * p.probabilities for w, p in used), post.probabilities, atol=1e-8)
    else:
        assert sum(w * p.mean() for w, p in used) == pytest.approx(post.mean(), rel=1e-8, abs=1e-8)
        x = post.quantile([0.1, 0.6])
        np.testing.assert_allclose(sum(w * p.cdf(x) for w, p in used), post.cdf(x), atol=1e-8)


def test_rows_of_very_different_sharpness():
    """One batch with priors, ordinary rows, far tails and observations a millionth wide; each as if it were alone."""
    x, y, z = map(hb.Continuous, "xyz")
    b = hb.Discrete("b", (0, 1))
    net = hb.Network(
        [
            hb.Kernel(x, points=[-1.0, 0.0, 2.0], bandwidths=0.7),
            hb.LinearGaussian(y, (x,), intercept=0, coefficients=[1], variance=1e-12),
            hb.LinearGaussian(z, (x,), intercept=1, coefficients=[2], variance=4),
            hb.Softmax(b, (x,), intercept=[0, 0], coefficients=[[0.0], [2.0]]),
        ]
    )
    nan = np.nan
    table = pd.DataFrame(
        {
            "y": [nan, 0.25, nan, nan, -1.7, nan, 3.3],
            "z": [nan, nan, 60.0, 1.0, nan, -200.0, 5.0],
            "b": [None, 1, 0, None, 0, 1, None],
        },
    ).astype({"b": object})
    together = net.posteriors(table, ["x"])["x"]
    logs = net.log_evidence(table)
    for row, values in enumerate(table.to_dict("records")):
        case = {k: v for k, v in values.items() if v is not None and v == v}
        alone = net.posterior("x", case)
        assert together.mean()[row] == pytest.approx(alone.mean(), rel=1e-12, abs=1e-12)
        assert together.std()[row] == pytest.approx(alone.std(), rel=1e-11)
        assert logs[row] == pytest.approx(net.log_evidence(case), rel=1e-12, abs=1e-12)
        q = alone.quantile([0.01, 0.5, 0.99])
        np.testing.assert_allclose(together[row].cdf(q), [0.01, 0.5, 0.99], atol=1e-12)


def test_chunks_do_not_matter(monkeypatch):
    elimination = pytest.importorskip("hybridbn.inference.engines.elimination")
    net = crops()
    rng = np.random.default_rng(0)
    table = net.sample(300, 0)[["C", "B"]].astype(object)
    table = table.mask(rng.random(table.shape) < 0.4)
    whole = {n: (p.mean(), p.error) for n, p in net.posteriors(table, ["P"]).items()}
    logs = net.log_evidence(table)
    monkeypatch.setattr(elimination, "CHUNK_BYTES", 1)
    monkeypatch.setattr(elimination, "MOST_ROWS", 7)
    parts = net.posteriors(table, ["P"])["P"]
    np.testing.assert_allclose(parts.mean(), whole["P"][0], rtol=1e-12)
    np.testing.assert_allclose(net.log_evidence(table), logs, rtol=1e-12, atol=1e-12)
    turned = table.iloc[::-1]
    np.testing.assert_allclose(net.posterior("P", turned).mean()[::-1], whole["P"][0], rtol=1e-12)
