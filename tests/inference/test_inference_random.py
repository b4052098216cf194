"""Random hybrid networks, every family under every other, evidence of every kind, against quadrature that knows no
engine.
"""

from __future__ import annotations

import math
import os
from typing import Any

import numpy as np
import oracle
import pandas as pd
import pytest
from effort import examples
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from inference_tools import (
    Maker,
    Reference,
    drawn_case,
    network_of,
    oracle_nodes,
    random_evidence,
    random_hybrid,
    reference,
    soft_scale,
    widest,
)
from narrowing import as_discrete

import hybridbn as hb
from hybridbn.errors import ImpossibleEvidence

CLOSE = 1e-9
COMMON: dict[str, Any] = {
    "deadline": None,
    "suppress_health_check": [HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large],
}
SETTINGS = settings(max_examples=examples(60), derandomize=True, **COMMON)
# HYBRIDBN_FRESH=1 makes the slow runs look for new cases each time
SLOW = settings(max_examples=int(os.environ.get("HYBRIDBN_EXAMPLES", "400")),
                derandomize="HYBRIDBN_FRESH" not in os.environ, **COMMON)  # fmt: skip


def worst(post, found: Reference, discrete: bool) -> float:
    """Return the largest error of probabilities."""
    if discrete:
        return float(np.abs(post.probabilities - found.probabilities).max())
    return float(np.abs(post.cdf(found.edges[1:]) - found.cdf).max())


def check_posterior(post, found: Reference, discrete: bool) -> None:
    if discrete:
        np.testing.assert_allclose(post.probabilities, found.probabilities, atol=CLOSE)
    else:
        assert post.mean() == pytest.approx(found.mean, rel=CLOSE, abs=CLOSE)
        assert post.var() == pytest.approx(found.var, rel=CLOSE, abs=CLOSE)
        np.testing.assert_allclose(post.cdf(found.edges[1:]), found.cdf, atol=CLOSE)
        np.testing.assert_allclose(post.pdf(found.points), found.pdf, atol=CLOSE * max(1.0, found.pdf.max()))
    assert post.log_evidence == pytest.approx(found.log_evidence, rel=CLOSE, abs=CLOSE)


def check_error(post, true: float) -> None:
    """The estimate is never below the true error, and not a thousand times it (or 1e-11 if that is more)."""
    assert true <= post.error
    assert post.error <= max(1000 * true, 1e-11)


@st.composite
def problems(draw, most_nodes: int = 6, families=None):
    seed = draw(st.integers(0, 2**32 - 1))
    nodes = draw(st.integers(2, most_nodes))
    rng = np.random.default_rng(seed)
    specs = random_hybrid(rng, nodes, families)
    target = f"n{draw(st.integers(0, nodes - 1))}"
    evidence = random_evidence(specs, target, rng)
    assume(widest(specs, evidence) <= 2)
    return specs, target, evidence


def check_problem(problem) -> None:
    specs, target, evidence = problem
    found = reference(specs, target, evidence)
    assume(found.log_evidence > -600)
    post = network_of(specs).posterior(target, evidence)
    check_posterior(post, found, specs[target].discrete)
    check_error(post, worst(post, found, specs[target].discrete))


@SETTINGS
@given(problems())
def test_random_networks(problem):
    check_problem(problem)


@pytest.mark.slow
@SLOW
@given(problems())
def test_many_random_networks(problem):
    check_problem(problem)


@pytest.mark.slow
@SLOW
@given(problems())
def test_random_networks_against_the_oracle(problem):
    specs, target, evidence = problem
    nodes, known = oracle_nodes(specs, evidence, oracle)
    discrete = specs[target].discrete
    low, high = np.clip(specs[target].reach, -8, 8)
    grid = None if discrete else np.linspace(low, high, 9)
    try:
        exact = oracle.posterior(nodes, target, known, grid=grid, n=10)
    except oracle.ZeroEvidence:
        with pytest.raises(ImpossibleEvidence):
            network_of(specs).posterior(target, evidence)
        return
    assume(exact.err < CLOSE and exact.log_evidence > -600)
    post = network_of(specs).posterior(target, evidence)
    if discrete:
        p = [exact.p[state] for state in post.states]
        np.testing.assert_allclose(post.probabilities, p, atol=CLOSE)
    else:
        assert post.mean() == pytest.approx(exact.mean, rel=CLOSE, abs=CLOSE)
        assert post.var() == pytest.approx(exact.var, rel=CLOSE, abs=CLOSE)
        np.testing.assert_allclose(post.pdf(grid), exact.pdf, atol=CLOSE * max(1.0, exact.pdf.max()))
    log_evidence = exact.log_evidence + soft_scale(specs, evidence)
    assert post.log_evidence == pytest.approx(log_evidence, rel=CLOSE, abs=CLOSE)


# -- every family as the parent and as the child of every other ---------------------------------------------------

PARENTS = ("multinomial", "mte", "mte-slope", "kernel", "gaussian", "softmax", "density", "mte*", "kernel*", "density*")
CHILDREN = PARENTS
ROOTED = {"mte-slope": "mte", "softmax": "gaussian", "mte*": "kernel", "kernel*": "gaussian", "density*": "density"}
"""What a family that needs a continuous parent gets above it."""


def pair(parent: str, child: str, seed: int):
    """Make root -> parent -> child, the root only where the parent's family needs one."""
    rng = np.random.default_rng(seed)
    maker = Maker(rng)
    above = []
    if parent in ROOTED:
        maker.add("root", ROOTED[parent], [], False)
        above = ["root"]
    discrete = parent in ("multinomial", "softmax") or parent.endswith("*")
    maker.add("parent", parent.rstrip("*"), above, discrete)
    needs_number = child in ("softmax", "mte-slope") or child.endswith("*")
    over = ["parent"]
    if child == "multinomial" and not discrete:
        return None
    if child == "mte-slope" and (discrete or not parent.startswith("mte")):
        return None
    if needs_number and discrete:
        maker.add("other", "gaussian", [], False)
        over = ["parent", "other"]
    maker.add("child", child.rstrip("*"), over, child in ("multinomial", "softmax") or child.endswith("*"))
    return maker.specs


@pytest.mark.parametrize(
    "parent", [pytest.param(name, marks=[pytest.mark.slow] * (name in ("density*", "mte-slope"))) for name in PARENTS]
)
def test_every_pair_of_families(parent):
    for number, child in enumerate(CHILDREN):
        specs = pair(parent, child, 7 * number + len(parent))
        if specs is None:
            continue
        rng = np.random.default_rng(number)
        net = network_of(specs)
        for kind in ("value", "soft", "missing"):
            for target in ("parent", "child"):
                other = "child" if target == "parent" else "parent"
                evidence = random_evidence(specs, target, rng, {other: kind, "root": "none", "other": "none"})
                found = reference(specs, target, evidence)
                if found.log_evidence == -math.inf:
                    continue
                try:
                    post = net.posterior(target, evidence)
                    check_posterior(post, found, specs[target].discrete)
                    check_error(post, worst(post, found, specs[target].discrete))
                except Exception as problem:
                    raise AssertionError(f"{parent} -> {child}, {target} given {evidence}") from problem


# -- batches ------------------------------------------------------------------------------------------------------


def table_of(cases: list[dict], specs) -> pd.DataFrame:
    columns = {}
    for name in specs:
        column = np.empty(len(cases), dtype=object)
        for i, case in enumerate(cases):
            column[i] = case.get(name)
        columns[name] = column
    return pd.DataFrame(columns)


def check_batch(specs, target: str, cases: list[dict]) -> None:
    """A batch gives what single cases give."""
    net, discrete = network_of(specs), specs[target].discrete
    table = table_of(cases, specs).drop(columns=[target])
    together = net.posterior(target, table, impossible="nan")
    logs = together.log_evidence
    assert len(together) == len(cases)
    for row, case in enumerate(cases):
        try:
            alone = net.posterior(target, case)
        except ImpossibleEvidence:
            assert logs[row] == -math.inf
            continue
        mine = together[row]
        if discrete:
            np.testing.assert_allclose(mine.probabilities, as_discrete(alone).probabilities, atol=1e-12)
        else:
            scale = alone.std()
            assert mine.mean() == pytest.approx(alone.mean(), rel=1e-12, abs=1e-12 * (1 + scale))
            assert mine.std() == pytest.approx(scale, rel=1e-11, abs=1e-12)
            x = alone.quantile([0.01, 0.3, 0.9])
            np.testing.assert_allclose(mine.cdf(x), alone.cdf(x), atol=1e-12)
        assert logs[row] == pytest.approx(alone.log_evidence, rel=1e-12, abs=1e-11)


@st.composite
def batches(draw):
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    nodes = draw(st.integers(2, 5))
    specs = random_hybrid(rng, nodes)
    target = f"n{draw(st.integers(0, nodes - 1))}"
    cases = [random_evidence(specs, target, rng) for _ in range(6)]
    assume(all(widest(specs, case) <= 2 for case in (*cases, {})))
    return specs, target, cases


@settings(SETTINGS, max_examples=examples(12))
@given(batches())
def test_batches_of_random_networks(batch):
    check_batch(*batch)


@pytest.mark.slow
@SLOW
@given(batches())
def test_many_batches_of_random_networks(batch):
    check_batch(*batch)


@st.composite
def questions_about_all(draw):
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    specs = random_hybrid(rng, draw(st.integers(2, 5)))
    evidence = random_evidence(specs, "", rng)
    assume(widest(specs, evidence) <= 2)
    return specs, evidence


def check_all(specs, evidence) -> None:
    """All posteriors in one pass, those of variables with soft evidence too."""
    net = network_of(specs)
    together = net.posteriors(evidence)
    hidden = [
        n
        for n in specs
        if evidence.get(n) is None or isinstance(evidence[n], hb.Interval | set | dict) or callable(evidence[n])
    ]
    assert set(together) == set(hidden)
    for name in hidden:
        found = reference(specs, name, evidence)
        assume(found.log_evidence > -600)
        check_posterior(together[name], found, specs[name].discrete)


@settings(SETTINGS, max_examples=examples(40))
@given(questions_about_all())
def test_all_posteriors_at_once(question):
    check_all(*question)


@pytest.mark.slow
@SLOW
@given(questions_about_all())
def test_many_posteriors_at_once(question):
    check_all(*question)


@settings(SETTINGS, max_examples=examples(30))
@given(problems(most_nodes=4))
def test_log_density_of_complete_rows_is_the_sum_of_the_potentials(problem):
    specs, _, _ = problem
    rng = np.random.default_rng(0)
    cases = [drawn_case(specs, rng) for _ in range(5)]
    expected = []
    for case in cases:
        total = 0.0
        for name, spec in specs.items():
            value = spec.function(case[name], **{p: case[p] for p in spec.parents})
            with np.errstate(divide="ignore"):
                total += float(np.log(value))
        expected.append(total)
    found = network_of(specs).log_density(pd.DataFrame(cases))
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-11)
