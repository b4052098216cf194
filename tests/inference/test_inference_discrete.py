"""Discrete networks: published ones against stored exact marginals, random ones against their joint table."""

from __future__ import annotations

import gzip
import json
import math
from typing import Any

import numpy as np
import pandas as pd
import pytest
from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from inference_tools import (
    brute,
    discrete_weights,
    joint_table,
    marginal,
    pgmpy_file,
    random_discrete,
)
from known_answers import ANSWERS
from narrowing import as_discrete

import hybridbn as hb
from hybridbn.errors import ImpossibleEvidence, TooWide

SETTINGS = settings(max_examples=examples(80), derandomize=True, deadline=None)
MARGINALS = ANSWERS / "bif_marginals"
CASES = sorted(path.name.removesuffix(".json.gz") for path in MARGINALS.glob("*.json.gz"))
SMALL = {"asia", "cancer", "earthquake", "sachs", "survey", "alarm", "child", "insurance"}


def bif_case(name: str):
    case = json.loads(gzip.decompress((MARGINALS / f"{name}.json.gz").read_bytes()))
    return case, hb.read_network(pgmpy_file(f"{name}.bif.gz"))


def network_cases():
    return [pytest.param(name, marks=[] if name in SMALL else [pytest.mark.slow]) for name in CASES]


def test_the_stored_marginals_are_there():
    assert len(CASES) >= 11


@pytest.mark.parametrize("name", network_cases())
def test_marginals_of_published_networks(name):
    case, net = bif_case(name)
    for query in case["evidence_sets"]:
        evidence = query["evidence"]
        together = net.posteriors(evidence)
        assert set(together) == set(net) - set(evidence)
        for node, expected in query["marginals"].items():
            if node in evidence:
                continue
            np.testing.assert_allclose(together[node].probabilities, expected, rtol=0, atol=1e-12, err_msg=node)
        log_evidence = query["log_p_evidence"]
        assert net.log_evidence(evidence) == pytest.approx(log_evidence, rel=1e-12, abs=1e-12)


@pytest.mark.parametrize("name", network_cases())
def test_single_marginals_of_published_networks(name):
    case, net = bif_case(name)
    for query in case["evidence_sets"]:
        nodes = [node for node in query["marginals"] if node not in query["evidence"]]
        for node in nodes[:: max(1, len(nodes) // 6)]:
            found = net.posterior(node, query["evidence"])
            np.testing.assert_allclose(found.probabilities, query["marginals"][node], rtol=0, atol=1e-12, err_msg=node)


def test_all_evidence_sets_of_alarm_in_one_table():
    case, net = bif_case("alarm")
    rows = [query["evidence"] for query in case["evidence_sets"]]
    table = pd.DataFrame(rows, columns=list(net))
    together = net.posteriors(table)
    logs = net.log_evidence(table)
    for row, query in enumerate(case["evidence_sets"]):
        assert logs[row] == pytest.approx(query["log_p_evidence"], rel=1e-12, abs=1e-12)
        for node, expected in query["marginals"].items():
            if node not in query["evidence"]:
                np.testing.assert_allclose(together[node].probabilities[row], expected, rtol=0, atol=1e-12)


# -- random networks against their joint table --------------------------------------------------------------------


def finding(variable, rng):
    """Draw evidence of any kind; None is unknown."""
    kind = rng.integers(6)
    states = variable.states
    if kind == 0:
        return states[rng.integers(len(states))]
    if kind == 1:
        return {s for s in states if rng.random() < 0.6} or {states[0]}
    if kind == 2:
        return {s: float(rng.random()) for s in states}
    if kind == 3:  # states that are left out have likelihood zero
        return {states[0]: 0.5, states[-1]: 2.0}
    return None


@st.composite
def networks(draw, most_nodes: int = 6):
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    return random_discrete(rng, draw(st.integers(1, most_nodes))), rng


@SETTINGS
@given(networks())
def test_evidence_of_every_kind(problem):
    net, rng = problem
    target = f"v{rng.integers(len(net))}"
    evidence = {n: finding(net.variable(n), rng) for n in net if n != target and rng.random() < 0.7}
    names, total = brute(net, evidence)
    mass = total.sum()
    if mass == 0:
        assert net.log_evidence(evidence) == -math.inf
        assert net.posterior(target, evidence, impossible="nan").log_evidence == -math.inf
        return
    post = net.posterior(target, evidence)
    np.testing.assert_allclose(post.probabilities, marginal(total, names.index(target)) / mass, atol=1e-13)
    assert post.log_evidence == pytest.approx(math.log(mass), rel=1e-12, abs=1e-12)
    assert net.log_evidence(evidence) == pytest.approx(math.log(mass), rel=1e-12, abs=1e-12)
    hidden = [n for n in names if evidence.get(n) is None or isinstance(evidence[n], set | dict)]
    together = net.posteriors(evidence)
    assert set(together) == set(hidden)
    for name in hidden:
        expected = marginal(total, names.index(name)) / mass
        np.testing.assert_allclose(together[name].probabilities, expected, atol=1e-13)


@SETTINGS
@given(networks())
def test_joint_posteriors(problem):
    net, rng = problem
    names = list(net)
    targets = [str(n) for n in rng.permutation(names)[: rng.integers(1, len(names) + 1)]]
    evidence = {n: finding(net.variable(n), rng) for n in net if n not in targets}
    _, total = brute(net, evidence)
    if total.sum() == 0:
        return
    left = [n for n in names if n in targets]
    expected = total.sum(axis=tuple(i for i, n in enumerate(names) if n not in targets)) / total.sum()
    expected = expected.transpose([left.index(n) for n in targets])
    joint = net.posterior(targets, evidence)
    np.testing.assert_allclose(joint.probabilities, expected, atol=1e-13)
    assert joint.log_evidence == pytest.approx(math.log(total.sum()), rel=1e-12, abs=1e-12)
    at = tuple(int(rng.integers(len(net.variable(n)))) for n in targets)
    states = {n: net.variable(n).states[i] for n, i in zip(targets, at, strict=True)}
    assert joint.probability(**states) == pytest.approx(expected[at], abs=1e-13)


@SETTINGS
@given(networks())
def test_tables_with_holes(problem):
    """Rows with states, sets, likelihoods and holes in one table; single cases give the same."""
    net, rng = problem
    names, full = joint_table(net)
    soft = bool(rng.integers(2))
    cases = []
    for _ in range(12):
        case = {n: finding(net.variable(n), rng) for n in net}
        if not soft:
            case = {n: None if isinstance(v, set | dict) else v for n, v in case.items()}
        cases.append(case)
    columns = {}
    for name in names:
        columns[name] = np.empty(len(cases), dtype=object)
        for i, case in enumerate(cases):
            columns[name][i] = case[name]
    table = pd.DataFrame(columns)
    for target in names[:3]:
        together = net.posterior(target, table, impossible="nan")
        logs = together.log_evidence
        for i, case in enumerate(cases):
            # values of the target are ignored
            total = full
            for k, n in enumerate(names):
                if n != target or isinstance(case[n], set | dict):
                    weights = discrete_weights(net.variable(n), case[n])
                    total = total * weights.reshape([-1 if j == k else 1 for j in range(len(names))])
            if total.sum() == 0:
                assert logs[i] == -math.inf
                continue
            expected = marginal(total, names.index(target)) / total.sum()
            np.testing.assert_allclose(together.probabilities[i], expected, atol=1e-13)
            assert logs[i] == pytest.approx(math.log(total.sum()), rel=1e-12, abs=1e-12)
    together = net.posteriors(table, impossible="nan")
    for i, case in enumerate(cases):
        _, total = brute(net, case)
        if total.sum() == 0:
            continue
        for name, post in together.items():
            expected = marginal(total, names.index(name)) / total.sum()
            np.testing.assert_allclose(post.probabilities[i], expected, atol=1e-13)


@SETTINGS
@given(networks())
def test_log_evidence_of_tables(problem):
    net, rng = problem
    names, full = joint_table(net)
    rows = [[rng.choice(len(net.variable(n))) if rng.random() < 0.6 else -1 for n in names] for _ in range(20)]
    frame = pd.DataFrame(
        {
            n: pd.Series([None if r[k] < 0 else net.variable(n).states[r[k]] for r in rows], dtype=object)
            for k, n in enumerate(names)
        }
    )
    with np.errstate(divide="ignore"):
        expected = [np.log(full[tuple(slice(None) if c < 0 else c for c in row)].sum()) for row in rows]
    np.testing.assert_allclose(net.log_evidence(frame), expected, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(net.log_density(frame), expected, rtol=1e-12, atol=1e-12)


def test_an_evidence_table_of_many_equal_rows_is_one_of_few():
    rng = np.random.default_rng(5)
    net = random_discrete(rng, 6, zeros=False)
    names = list(net)
    frame = pd.DataFrame(
        {n: [as_discrete(net.variable(n)).states[i] for i in rng.integers(2, size=5000)] for n in names[1:]}
    )
    together = net.posterior(names[0], frame)
    few = frame.drop_duplicates()
    alone = {
        row: net.posterior(names[0], dict(zip(few.columns, row, strict=True))).probabilities
        for row in few.itertuples(index=False, name=None)
    }
    expected = np.array([alone[row] for row in frame.itertuples(index=False, name=None)])
    np.testing.assert_allclose(together.probabilities, expected, atol=1e-12)


def test_raw_numbers_are_evidence_for_discretized_ones():
    age = hb.Discrete("age", ("young", "middle", "old"), cuts=(30, 60))
    ill = hb.Discrete("ill", (False, True))
    net = hb.Network(
        [
            hb.Multinomial(age, table=[0.3, 0.4, 0.3]),
            hb.Multinomial(ill, (age,), table=[[0.9, 0.1], [0.7, 0.3], [0.4, 0.6]]),
        ]
    )
    for raw, state in ((29.5, "young"), (45, "middle"), (99, "old")):
        assert as_discrete(net.posterior("ill", {"age": raw})).probabilities.tolist() == pytest.approx(
            as_discrete(net.posterior("ill", {"age": state})).probabilities.tolist()
        )


def asia() -> hb.Network:
    """Lauritzen and Spiegelhalter (1988)."""
    tables: dict[str, tuple[tuple[str, ...], Any]] = {
        "asia": ((), [0.01, 0.99]),
        "tub": (("asia",), [[0.05, 0.95], [0.01, 0.99]]),
        "smoke": ((), [0.5, 0.5]),
        "lung": (("smoke",), [[0.1, 0.9], [0.01, 0.99]]),
        "bronc": (("smoke",), [[0.6, 0.4], [0.3, 0.7]]),
        "either": (("lung", "tub"), [[[1, 0], [1, 0]], [[1, 0], [0, 1]]]),
        "xray": (("either",), [[0.98, 0.02], [0.05, 0.95]]),
        "dysp": (("bronc", "either"), [[[0.9, 0.1], [0.8, 0.2]], [[0.7, 0.3], [0.1, 0.9]]]),
    }
    variables = {name: hb.Discrete(name, ("yes", "no")) for name in tables}
    return hb.Network(
        [hb.Multinomial(variables[n], [variables[p] for p in above], table=t) for n, (above, t) in tables.items()]
    )


def test_asia():
    net = asia()
    found = net.posteriors({"asia": "yes", "dysp": "yes"})
    _, total = brute(net, {"asia": "yes", "dysp": "yes"})
    for i, name in enumerate(net):
        if name in found:
            np.testing.assert_allclose(
                as_discrete(found[name]).probabilities, marginal(total, i) / total.sum(), atol=1e-15
            )
    assert net.posterior("lung")["yes"] == pytest.approx(0.055, abs=1e-15)
    assert net.posterior("dysp")["yes"] == pytest.approx(0.4359706, abs=1e-15)


@pytest.mark.parametrize("target", ["asia", "tub", "smoke", "bronc", "xray", "dysp"])
def test_contradictions_are_found_whatever_is_asked(target):
    """No target has a posterior given what can't be, even where the contradiction is d-separated from it."""
    net, evidence = asia(), {"lung": "yes", "either": "no"}
    assert net.log_evidence(evidence) == -math.inf
    with pytest.raises(ImpossibleEvidence) as caught:
        net.posterior(target, evidence)
    assert caught.value.rows == (0,)
    assert np.isnan(net.posterior(target, evidence, impossible="nan").probabilities).all()
    table = pd.DataFrame({"lung": ["yes", "yes", "no"], "either": ["yes", "no", "no"]})
    with pytest.raises(ImpossibleEvidence) as caught:
        net.posterior(target, table)
    assert caught.value.rows == (1,)
    assert np.isnan(net.posterior(target, table, impossible="nan").probabilities).any(axis=1).tolist() == [
        False,
        True,
        False,
    ]


@pytest.mark.parametrize("question", ["joint", "some", "explain"])
def test_contradictions_are_found_by_every_question(question):
    """The same contradiction, d-separated from what a joint posterior, a MAP query or an explanation looks at."""
    net, evidence = asia(), {"lung": "yes", "either": "no"}
    ask = {
        "joint": lambda: net.posterior(["smoke", "bronc"], evidence),
        "some": lambda: net.most_probable(evidence, ["smoke"]),
        "explain": lambda: net.explain("smoke", evidence),
    }[question]
    with pytest.raises(ImpossibleEvidence) as caught:
        ask()
    assert caught.value.rows == (0,)
    # only where it is an option
    assert ("impossible='nan'" in str(caught.value)) == (question == "joint")


def test_contradictions_elsewhere_are_looked_for_within_the_budget():
    """A grid of parities is too wide, but a variable that has nothing to do with it is not."""
    rng = np.random.default_rng(0)
    variables = {(i, j): hb.Discrete(f"x{i}_{j}", (0, 1)) for i in range(12) for j in range(12)}
    parity = np.stack([np.array([[1.0, 0.0], [0.0, 1.0]]), np.array([[0.0, 1.0], [1.0, 0.0]])])
    a, b = hb.Discrete("a", ("n", "y")), hb.Discrete("b", ("n", "y"))
    potentials = [hb.Multinomial(a, table=[0.3, 0.7]), hb.Multinomial(b, (a,), table=[[1, 0], [0, 1]])]
    for (i, j), variable in variables.items():
        parents = [variables[p] for p in ((i - 1, j), (i, j - 1)) if p in variables]
        table = parity if len(parents) == 2 else rng.dirichlet([1, 1], size=[2] * len(parents))
        potentials.append(hb.Multinomial(variable, parents, table=table))
    net = hb.Network(potentials)
    seen = {"x11_11": 0, "x10_11": 1}
    with pytest.raises(TooWide):
        net.posterior("x3_3", seen, max_bytes=1e4)
    assert net.posterior("a", seen, max_bytes=1e4)["y"] == 0.7
    with pytest.raises(ImpossibleEvidence):
        net.posterior("a", {**seen, "x11_10": 0}, max_bytes=1e4)
