"""Single cases in networks of tables: answers against enumeration, and what queries share."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from narrowing import as_discrete, as_kind

import hybridbn as hb
from hybridbn.inference import relevance
from hybridbn.inference.elimination import compilers as core
from hybridbn.inference.elimination.compilers import CaseCompiler
from hybridbn.inference.engines import single_case
from hybridbn.inference.engines.single_case import SharedCase
from hybridbn.inference.relevance import ProblemCache, Snapshot

SETTINGS = settings(max_examples=examples(60), derandomize=True, deadline=None)


@pytest.fixture(autouse=True, scope="module", params=["at once", "bucket by bucket", "two by two"])
def ways_to_multiply(request: pytest.FixtureRequest) -> Iterator[None]:
    """Multiply as small tables usually are, then as larger ones are, then as the largest."""
    with pytest.MonkeyPatch.context() as patch:
        if request.param != "at once":
            patch.setattr(core, "_SMALL", 0.0)
            patch.setattr(core, "_AT_ONCE", 0 if request.param == "two by two" else 8)
        if request.param == "two by two":
            patch.setattr(core, "_WIDE", 0.0)
            patch.setattr(core, "MOST_LASTING", 0)
            patch.setattr(single_case, "_SHARED_CELLS", 0.0)
        yield


@st.composite
def cases(draw: Any) -> tuple[hb.Network, dict[str, Any]]:
    """A random network of tables with zeros, and evidence of all kinds, often impossible."""
    rng = np.random.default_rng(draw(st.integers(0, 2**20)))
    count = draw(st.integers(1, 7))
    variables = [hb.Discrete(f"v{i}", states=tuple(range(rng.integers(1, 4)))) for i in range(count)]
    potentials = []
    for i, variable in enumerate(variables):
        parents = [variables[int(p)] for p in rng.permutation(i)[: rng.integers(0, 4)]]
        shape = [len(parent) for parent in parents]
        table = rng.random([*shape, len(variable)]) * (rng.random([*shape, len(variable)]) < 0.7)
        table[..., rng.integers(len(variable))] += 0.1
        potentials.append(hb.Multinomial(variable, parents, table=table, normalize=True))
    evidence: dict[str, Any] = {}
    for variable in variables[: draw(st.integers(0, count))]:
        kind = rng.integers(4)
        if kind < 2:
            evidence[variable.name] = int(rng.integers(len(variable)))
        elif kind == 2:
            evidence[variable.name] = {state: float(w) for state, w in enumerate(rng.random(len(variable)))}
    return hb.Network([potentials[i] for i in rng.permutation(count)]), evidence


def enumerate_joint(network: hb.Network, evidence: dict[str, Any]) -> dict[str, Any] | None:
    """Return all marginals by enumeration; None where the evidence is impossible."""
    names = list(network)
    sums = {name: np.zeros(len(as_discrete(network.variable(name)))) for name in names}
    for states in itertools.product(*(range(len(as_discrete(network.variable(name)))) for name in names)):
        case = dict(zip(names, states, strict=True))
        weight = 1.0
        for name in names:
            potential = network.potential(name)
            weight *= as_kind(hb.Multinomial, potential).table[tuple(case[n] for n in potential.scope)]
            told = evidence.get(name)
            weight *= 1.0 if told is None else told[case[name]] if isinstance(told, dict) else told == case[name]
        for name in names:
            sums[name][case[name]] += weight
    total = sums[names[0]].sum()
    return {name: table / total for name, table in sums.items()} if total > 0 else None


@SETTINGS
@given(cases())
def test_posteriors_equal_enumeration(case: tuple[hb.Network, dict[str, Any]]) -> None:
    network, evidence = case
    expected = enumerate_joint(network, evidence)
    hidden = [name for name in network if not isinstance(evidence.get(name), int)]
    alone = [name for name in hidden if name not in evidence]
    for _ in range(2):  # compiled, then run
        if expected is None:
            for name in alone:
                with pytest.raises(hb.ImpossibleEvidence):
                    network.posterior(name, evidence)
                assert np.isnan(network.posterior(name, evidence, impossible="nan").probabilities).all()
            continue
        for name in alone:
            answer = network.posterior(name, evidence)
            np.testing.assert_allclose(answer.probabilities, expected[name], rtol=1e-12, atol=1e-300)
            assert answer.error < 1e-11
        together = network.posteriors(evidence)
        assert list(together) == hidden
        for name in hidden:
            np.testing.assert_allclose(
                as_discrete(together[name]).probabilities, expected[name], rtol=1e-12, atol=1e-300
            )


def grid(side: int, states: int = 2) -> hb.Network:
    rng = np.random.default_rng(0)
    nodes = {(i, j): hb.Discrete(f"v{i}{j}", states=tuple(range(states))) for i in range(side) for j in range(side)}
    potentials = []
    for (i, j), node in nodes.items():
        parents = [nodes[place] for place in ((i - 1, j), (i, j - 1)) if place in nodes]
        potentials.append(hb.Multinomial(node, parents, table=rng.dirichlet(np.ones(states), [states] * len(parents))))
    return hb.Network(potentials)


def test_other_states_take_the_program_of_the_first_case() -> None:
    network = grid(4, 3)
    for state in (0, 1, 2, 0):
        evidence = {"v33": state, "v12": state}
        fast = network.posterior("v00", evidence)
        slow = network.posterior(
            "v00", hb.Table({name: [value] for name, value in evidence.items()}, discrete=list(evidence))
        )
        np.testing.assert_allclose(as_discrete(fast).probabilities, as_discrete(slow).probabilities[0], rtol=1e-12)
        np.testing.assert_allclose(fast.log_evidence, slow.log_evidence[0], rtol=1e-12)


def test_products_too_small_for_doubles_are_logarithms() -> None:
    c = hb.Discrete("c", states=(0, 1))
    leaves = [hb.Discrete(f"x{i}", states=(0, 1)) for i in range(300)]
    tables = [hb.Multinomial(leaf, (c,), table=[[1 - 1e-3, 1e-3], [1 - 2e-3, 2e-3]]) for leaf in leaves]
    network = hb.Network([hb.Multinomial(c, table=[1 - 1e-90, 1e-90]), *tables])
    exact = 1e-90 * 2.0**300
    for evidence in (dict.fromkeys([leaf.name for leaf in leaves], 1),) * 2:
        assert as_discrete(network.posterior("c", evidence)).probability(1) == pytest.approx(
            exact / (1 - 1e-90 + exact), rel=1e-9
        )


@pytest.fixture
def cache(monkeypatch: pytest.MonkeyPatch) -> ProblemCache:
    fresh = ProblemCache(2e6)
    monkeypatch.setattr(relevance, "CACHE", fresh)
    return fresh


def test_expensive_cases_share_one_pass(cache: ProblemCache, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second question about the same case answers all of them."""
    monkeypatch.setattr(single_case, "_SHARED_CELLS", 10.0)
    network = grid(4, 2)
    compiled: list[int] = []
    compile_case = CaseCompiler.compile

    def noted(self: CaseCompiler, scopes: Any) -> Any:
        compiled.append(len(scopes))
        return compile_case(self, scopes)

    monkeypatch.setattr(CaseCompiler, "compile", noted)
    answers = {name: network.posterior(name, {"v33": 1}).probabilities for name in network if name != "v33"}
    assert compiled == [1, 15]
    assert sum(isinstance(entry.problem, SharedCase) for entry in cache.entries()) == 1
    for name, table in network.posteriors(hb.Table({"v33": [1]}, discrete=["v33"])).items():
        np.testing.assert_allclose(answers[name], as_discrete(table).probabilities[0], rtol=1e-12)


def test_targets_that_are_cheap_apart_are_answered_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many children of all roots: together they connect every root, one by one they connect few."""
    rng = np.random.default_rng(0)
    roots = [hb.Discrete(f"r{i}", states=tuple(range(3))) for i in range(12)]
    network = hb.Network([hb.Multinomial(root, table=rng.dirichlet(np.ones(3))) for root in roots])
    for a, b in itertools.combinations(roots, 2):
        child = hb.Discrete(f"{a.name}{b.name}", states=(0, 1))
        network.add(hb.Multinomial(child, (a, b), table=rng.dirichlet([1, 1], (3, 3))))
    monkeypatch.setattr(single_case, "MOST_CELLS_OF_ALL", 1e4)
    for _ in range(2):
        answers = network.posteriors()
        for name, answer in answers.items():
            np.testing.assert_allclose(
                as_discrete(answer).probabilities, as_discrete(network.posterior(name)).probabilities, rtol=1e-12
            )


def test_snapshots_are_shared_until_the_network_changes(cache: ProblemCache) -> None:
    network = grid(2)
    first = Snapshot.of(network)
    assert Snapshot.of(network) is first
    network.add(hb.Multinomial(hb.Discrete("v00", states=(0, 1)), table=[0.5, 0.5]))
    assert Snapshot.of(network) is not first
    assert as_discrete(network.posterior("v00")).probability(0) == 0.5


@SETTINGS
@given(st.integers(0, 2**20))
def test_contradictions_are_those_of_enumeration(seed: int) -> None:
    """A network of tables with many zeros, which the target does not depend on."""
    rng = np.random.default_rng(seed)
    variables = {name: hb.Discrete(name, states=tuple(range(rng.integers(1, 4)))) for name in "abcdef"}
    tables = {}
    for place, name in enumerate(variables):
        scope = (*rng.permutation(list("abcdef")[:place])[: rng.integers(0, 4)].tolist(), name)
        chances = rng.random([len(variables[n]) for n in scope])
        tables[scope] = (chances < 0.3) | (chances == chances.min(axis=-1, keepdims=True))
    potentials = [
        hb.Multinomial(variables[name], [variables[n] for n in parents], table=table, normalize=True)
        for (*parents, name), table in tables.items()
    ]
    network = hb.Network([*potentials, hb.Multinomial(hb.Discrete("target", states=(0, 1)), table=[0.3, 0.7])])
    codes = {name: int(rng.integers(len(own))) for name, own in variables.items() if rng.random() < 0.4}
    soft = {name: {0} for name in variables if name not in codes and rng.random() < 0.3}
    every = [[codes[name]] if name in codes else list(soft.get(name, own.states)) for name, own in variables.items()]
    cases_of_all = [dict(zip(variables, case, strict=True)) for case in itertools.product(*every)]
    contradictory = not any(
        all(table[tuple(case[n] for n in scope)] for scope, table in tables.items()) for case in cases_of_all
    )
    for most_cells in (2e7, 0.0):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(single_case, "_CONTRADICTION_CELLS", most_cells)
            relevance.CACHE.clear()
            chance = as_discrete(network.posterior("target", codes | soft, impossible="nan")).probability(0)
        # without memory for products of tables, contradictions between them are overlooked, but none is made up
        left = dict(zip(variables, every, strict=True))
        alone = not all(table[np.ix_(*(left[n] for n in scope))].any() for scope, table in tables.items())
        refused = contradictory and (most_cells > 0 or alone or np.isnan(chance))
        assert chance == pytest.approx(np.nan if refused else 0.3, nan_ok=True)


def test_contradictions_that_only_many_tables_show_together_are_found() -> None:
    """A chain of exclusive ors, whose sum is observed above and below the target's part of the network."""
    network = parities(4)
    assert as_discrete(network.posterior("target", {"s3": 0, "t3": 0})).probability(0) == pytest.approx(0.3)
    with pytest.raises(hb.ImpossibleEvidence):
        network.posterior("target", {"s3": 1, "t3": 0})


def test_a_program_that_another_thread_drops_is_not_looked_at_again(monkeypatch: pytest.MonkeyPatch) -> None:
    network = grid(2)
    before = as_discrete(network.posterior("v11", {"v00": 1})).probability(0)

    def program(plan: Any) -> Any:
        kept = plan.__dict__["program"]
        plan.__dict__["program"] = None  # as `release` does, which any thread calls that needs room
        return kept

    monkeypatch.setattr(
        single_case.CasePlan,
        "program",
        property(program, lambda plan, value: plan.__dict__.update(program=value)),
        raising=False,
    )
    for _ in range(3):
        assert as_discrete(network.posterior("v11", {"v00": 1})).probability(0) == before


def parities(count: int) -> hb.Network:
    """Bits, their sums in two orders, and a target that none of them depends on."""
    bits = [hb.Discrete(f"b{place}", states=(0, 1)) for place in range(count)]
    potentials = [hb.Multinomial(bit, table=[0.5, 0.5]) for bit in bits]
    for letter, order in (("s", bits), ("t", bits[::-1])):
        total = order[0]
        for place, bit in enumerate(order[1:], start=1):
            child = hb.Discrete(f"{letter}{place}", states=(0, 1))
            potentials.append(hb.Multinomial(child, (total, bit), table=[np.eye(2), np.eye(2)[::-1]]))
            total = child
    potentials.append(hb.Multinomial(hb.Discrete("target", states=(0, 1)), table=[0.3, 0.7]))
    return hb.Network(potentials)


def test_the_engine_leaves_numbers_to_others() -> None:
    x, c = hb.Continuous("x"), hb.Discrete("c", states=(0, 1))
    network = hb.Network(
        [hb.Multinomial(c, table=[0.5, 0.5]), hb.LinearGaussian(x, (c,), intercept=[0, 1], variance=[1, 1])]
    )
    assert as_discrete(network.posterior("c", {"x": 0.5})).probability(0) == pytest.approx(0.5)
    assert as_discrete(network.posterior("c")).probability(0) == 0.5
    assert isinstance(network.posterior("x", {"c": 0}).mean(), float)
