"""Markov networks in UAI files: observed factors, which no question and no copy forgets."""

from __future__ import annotations

import itertools
import math

import networkx as nx
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from narrowing import as_discrete, as_kind

import hybridbn as hb
from hybridbn.exchange.uai import parse_uai, read_uai_evidence

TEXT = """MARKOV
3
2 3 1
4
2 0 1
1 1
2 1 2
0

6
 4 0.5 0
 1 2 7e0
3 1 1 5
3 1 2 3
1 0.25
"""


def brute_force(sizes, factors, evidence):
    """Return the marginals and the partition function by enumeration."""
    total = np.zeros(sizes)
    for states in itertools.product(*map(range, sizes)):
        if all(states[i] == value for i, value in evidence.items()):
            total[states] = math.prod(float(table[tuple(states[i] for i in scope)]) for scope, table in factors)
    axes = range(len(sizes))
    return [total.sum(tuple(a for a in axes if a != i)) / total.sum() for i in axes], total.sum()


@pytest.fixture
def net():
    return parse_uai(TEXT)


def test_factors_follow_the_variables_and_are_named_in_the_graph(net):
    assert list(net) == ["var_0", "var_1", "var_2", *(f"factor_{i}" for i in range(4))]
    assert net.graph["factors"] == tuple(f"factor_{i}" for i in range(4))
    assert net.graph["evidence"] == dict.fromkeys(net.graph["factors"], 1)
    net.check()


@st.composite
def markov_networks(draw):
    sizes = draw(st.lists(st.integers(1, 3), min_size=1, max_size=4))
    scopes = draw(st.lists(st.lists(st.integers(0, len(sizes) - 1), unique=True, max_size=3), min_size=1, max_size=5))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    factors = [(scope, rng.gamma(0.5, size=[sizes[i] for i in scope]) + 1e-3) for scope in scopes]
    observed = draw(st.dictionaries(st.integers(0, len(sizes) - 1), st.just(0), max_size=2))
    return sizes, factors, observed


@settings(max_examples=25, deadline=None)
@given(markov_networks())
def test_posteriors_and_partition_function_are_those_of_enumeration(case):
    sizes, factors, observed = case
    words = ["MARKOV", len(sizes), *sizes, len(factors)]
    words += [word for scope, _ in factors for word in (len(scope), *scope)]
    words += [word for _, table in factors for word in (table.size, *map(repr, table.ravel().tolist()))]
    net = parse_uai(" ".join(map(str, words)))
    evidence = {**net.graph["evidence"], **{f"var_{i}": state for i, state in observed.items()}}
    marginals, total = brute_force(sizes, factors, observed)
    assert net.log_evidence(evidence) + net.graph["log_constant"] == pytest.approx(math.log(total), abs=1e-11)
    for name, posterior in net.posteriors(evidence).items():
        if name.startswith("var"):
            np.testing.assert_allclose(as_discrete(posterior).probabilities, marginals[int(name[4:])], atol=1e-12)


def test_the_file_of_evidence_beside_it_is_read(tmp_path, net):
    (tmp_path / "x.uai").write_text(TEXT)
    assert hb.read_network(tmp_path / "x.uai").graph["evidence"] == net.graph["evidence"]
    for text in ("2 0 1 1 2\n", "1\n2 0 1 1 2"):
        (tmp_path / "x.uai.evid").write_text(text)
        evidence = hb.read_network(tmp_path / "x.uai").graph["evidence"]
        assert evidence == {**net.graph["evidence"], "var_0": 1, "var_1": 2}
    for text in ("0", "1\n0"):
        (tmp_path / "x.uai.evid").write_text(text)
        assert hb.read_network(tmp_path / "x.uai").graph["evidence"] == net.graph["evidence"]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("2 0", "2 findings are announced, and 1 numbers"),
        ("1 0 2", "no variable 0 with a state 2"),
        ("1 3 0", "no variable 3"),
        ("one", "whole numbers"),
    ],
)
def test_bad_evidence_is_refused(tmp_path, net, text, reason):
    (tmp_path / "x.evid").write_text(text)
    with pytest.raises(hb.FormatError, match=reason):
        read_uai_evidence(tmp_path / "x.evid", net)


@pytest.mark.parametrize(("old", "new"), [("0.5", "-0.5"), ("7e0", "inf"), ("7e0", "1e999"), ("2 0 1\n", "2 0 0\n")])
def test_values_that_are_no_factors_are_refused(old, new):
    with pytest.raises(hb.FormatError):
        parse_uai(TEXT.replace(old, new))


def test_a_factor_that_is_zero_everywhere_makes_everything_impossible():
    net = parse_uai("MARKOV 1 2 1 1 0 2 0 0")
    with pytest.raises(hb.ImpossibleEvidence):
        net.posterior("var_0", net.graph["evidence"])


QUESTIONS = {
    "posterior": lambda net, evidence: net.posterior("var_0", evidence),
    "posteriors": lambda net, evidence: net.posteriors(evidence),
    "joint": lambda net, evidence: net.posterior(["var_0", "var_1"], evidence),
    "log_evidence": lambda net, evidence: net.log_evidence(evidence),
    "log_density": lambda net, evidence: net.log_density(pd.DataFrame([evidence])),
    "most_probable": lambda net, evidence: net.most_probable(evidence),
    "sample": lambda net, evidence: net.sample(2, evidence=evidence),
    "table": lambda net, evidence: net.posterior("var_0", pd.DataFrame([evidence, evidence])),
    "explain": lambda net, evidence: net.explain("var_0", evidence),
    "fit": lambda net, evidence: hb.fit(net, pd.DataFrame([{"var_0": 0, "var_1": 0, "var_2": 0, **evidence}] * 5)),
    "em": lambda net, evidence: hb.fit(net, pd.DataFrame([{"var_0": 0, "var_1": 0, **evidence}] * 5), missing="em"),
}


@pytest.mark.parametrize("question", QUESTIONS)
def test_whoever_forgets_a_factor_gets_no_answer(net, question):
    ask, whole = QUESTIONS[question], net.graph["evidence"]
    ask(net, whole)
    wrong = [{name: state for name, state in whole.items() if name != "factor_1"}, {**whole, "factor_1": 0}]
    for evidence in wrong:
        with pytest.raises(hb.NetworkError, match=r"'factor_1'.*net\.graph\['evidence'\]"):
            ask(net, evidence)


def test_copies_keep_the_rule_and_parts_are_refused(net, tmp_path):
    net.save(tmp_path / "n.hbn")
    renamed = net.rename({"factor_1": "f", "var_0": "a"})
    assert renamed.graph["factors"] == ("factor_0", "f", "factor_2", "factor_3")
    expected = net.posterior("var_0", net.graph["evidence"]).probabilities
    assert (renamed.posterior("a", renamed.graph["evidence"]).probabilities == expected).all()
    assert net.graph["factors"][1] == "factor_1"
    loaded = as_kind(hb.Network, hb.load(tmp_path / "n.hbn"))
    for copy in (net.copy(), hb.Network(net), loaded, nx.compose(net, nx.DiGraph())):
        assert (as_discrete(copy.posterior("var_0", copy.graph["evidence"])).probabilities == expected).all()
        with pytest.raises(hb.NetworkError, match=r"net\.graph"):
            copy.posterior("var_0")
    with pytest.raises(hb.NetworkError, match=r"net\.graph"):
        renamed.sample(3)
    part = net.subgraph(["var_0", "var_1", "factor_0"])
    with pytest.raises(hb.NetworkError, match="lacks the factors 'factor_1', 'factor_2', 'factor_3'"):
        part.posterior("var_0", {"factor_0": 1})


@pytest.mark.parametrize("suffix", ["bif", "uai", "xdsl", "net", "xmlbif", "elv"])
def test_formats_that_would_forget_the_findings_refuse(net, suffix, tmp_path):
    with pytest.raises(hb.FormatError, match=r"net\.graph\['factors'\]"):
        hb.write_network(net, tmp_path / f"n.{suffix}")


def test_pgmpy_would_forget_the_findings(net):
    pytest.importorskip("pgmpy")
    with pytest.raises(hb.FormatError, match=r"net\.graph\['factors'\]"):
        net.to_pgmpy()
