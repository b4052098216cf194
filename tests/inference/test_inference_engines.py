"""The seam of engines: who is asked, in what order, and what happens when an answer would cost too much."""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy
from typing import Any

import numpy as np
import pandas as pd
import pytest
from narrowing import as_discrete

import hybridbn as hb
from hybridbn.errors import TooWide
from hybridbn.inference import solutions
from hybridbn.inference.compilation import Problem, Question
from hybridbn.inference.engines import Engine, Plan, Solution, list_engines
from hybridbn.inference.engines.bounds import SampledBounds
from hybridbn.inference.engines.elimination import Elimination, EliminationPlan, RowPatterns, SoftPatterns
from hybridbn.inference.engines.leaves import Leaves
from hybridbn.inference.engines.naive_bayes import NaiveBayes
from hybridbn.inference.engines.single_case import SingleCase
from hybridbn.inference.engines.slices import BetterOrder, Slices
from hybridbn.inference.evidence import Evidence, EvidenceReader
from hybridbn.options import Options
from hybridbn.registry import Registry

A, B, C = (hb.Discrete(name, states=(0, 1)) for name in "abc")


def chain() -> hb.Network:
    return hb.Network(
        [
            hb.Multinomial(A, table=[0.4, 0.6]),
            hb.Multinomial(B, (A,), table=[[0.9, 0.1], [0.2, 0.8]]),
            hb.Multinomial(C, (B,), table=[[0.7, 0.3], [0.5, 0.5]]),
        ]
    )


def naive_bayes() -> hb.Network:
    return hb.Network(
        [
            hb.Multinomial(A, table=[0.4, 0.6]),
            hb.Multinomial(B, (A,), table=[[0.9, 0.1], [0.2, 0.8]]),
            hb.Multinomial(C, (A,), table=[[1.0, 0.0], [0.5, 0.5]]),
        ]
    )


@pytest.fixture
def registry(monkeypatch: pytest.MonkeyPatch) -> Registry[Engine]:
    """Engines of a test are forgotten after it."""
    monkeypatch.setattr(Engine, "registry", copy(Engine.registry.load()))
    return Engine.registry


class CertainPlan(Plan):
    """A toy: the first state has all the probability, and nothing costs anything."""

    cells, clique, held_bytes, operations = 1.0, ("nothing",), 8.0, 1.0

    def __init__(self, problem: Problem) -> None:
        self.problem = problem

    def solve(self, evidence: Evidence) -> Iterator[Solution]:
        rows = evidence.rows
        tables = []
        for scope in self.problem.scopes:
            table = np.zeros((*(self.problem.axes[name].size for name in scope), rows))
            table[(0,) * len(scope)] = 1.0
            tables.append(table)
        zero = np.zeros(rows)
        yield Solution(self.problem, np.arange(rows), evidence, dict(self.problem.axes), tables, zero, zero)


def make_engine(own_rank: int, asked: list[Options]) -> None:
    class Certain(Engine):
        rank = own_rank

        def plan(self, problem: Problem, evidence: Evidence, options: Options) -> Plan | None:
            asked.append(options)
            return CertainPlan(problem)


def test_engines_are_registered_in_the_order_of_their_rank(registry: Registry[Engine]) -> None:
    assert [type(engine) for engine in list_engines()] == [
        SingleCase,
        Leaves,
        NaiveBayes,
        SoftPatterns,
        Elimination,
        BetterOrder,
        RowPatterns,
        Slices,
        SampledBounds,
    ]
    make_engine(30, [])
    assert [engine.rank for engine in list_engines()] == [5, 8, 10, 30, 45, 50, 55, 57, 60, 70]


@pytest.mark.parametrize(
    "ask",
    [
        lambda net: net.posterior("a", {"c": 1}).probability(0) == 1,
        lambda net: (net.posterior("a", pd.DataFrame({"c": [1, 0, None]})).probability(0) == 1).all(),
        lambda net: net.posteriors({"c": 1})["b"].probability(0) == 1,
        lambda net: net.posterior(["a", "b"], {"c": 1}).probabilities[0, 0] == 1,
        lambda net: net.log_evidence({"c": 1}) == 0,
        lambda net: (net.sample(20, 0, {"c": 1})[["a", "b"]] == 0).all(axis=None),
        lambda net: net.most_probable({"c": 1}, ["a"]) is not None,
        lambda net: net.explain("a", {"c": 1}, 0) is not None,
        lambda net: hb.fit(net, pd.DataFrame({"a": [0, None, 1], "b": [0, 1, 1], "c": [1, 1, 0]}), missing="em"),
    ],
    ids=["posterior", "table", "posteriors", "joint", "log_evidence", "sample", "most_probable", "explain", "em"],
)
def test_a_new_engine_is_asked_by_every_question(registry: Registry[Engine], ask: Any) -> None:
    asked: list[Options] = []
    make_engine(1, asked)
    with np.errstate(all="ignore"):
        assert ask(chain())
    assert asked or "most_probable" in ask.__code__.co_names  # the maximum is sought by elimination alone


def test_the_next_engine_is_asked_when_one_is_too_wide(registry: Registry[Engine]) -> None:
    asked: list[Options] = []
    make_engine(60, asked)
    net, evidence = chain(), {"c": 1}
    assert as_discrete(net.posterior("a", evidence)).probability(0) < 1
    assert not asked
    assert as_discrete(net.posterior("a", evidence, max_bytes=10)).probability(0) == 1
    assert len(asked) == 1
    assert asked[0].max_bytes == 10


def test_too_wide_is_raised_when_all_decline(registry: Registry[Engine]) -> None:
    with pytest.raises(hb.TooWide, match=r"needs a table of 4 cells .* over 'b', 'a'|'a', 'b'; at most"):
        chain().posterior("a", {"c": 1}, max_bytes=10)
    with pytest.raises(hb.TooWide, match=r"exact inference needs a table of"):
        naive_bayes().posterior("a", pd.DataFrame({"b": [0, 1]}), max_bytes=10)


def test_tables_of_naive_bayes_equal_elimination(registry: Registry[Engine], monkeypatch: pytest.MonkeyPatch) -> None:
    net = naive_bayes()
    table = pd.DataFrame({"b": [0, 1, None, 0], "c": [0, 1, 1, None]})
    engine = registry["NaiveBayes"]
    plan = engine.plan
    seen: list[Any] = []

    def noted(*given: Any) -> Any:
        seen.append(plan(*given))
        return seen[-1]

    monkeypatch.setattr(engine, "plan", noted)
    fast = net.posterior("a", table)
    assert seen[0] is not None
    del registry["NaiveBayes"]
    slow = net.posterior("a", table)
    np.testing.assert_allclose(as_discrete(fast).probabilities, as_discrete(slow).probabilities, rtol=1e-12)
    np.testing.assert_allclose(fast.log_evidence, slow.log_evidence, rtol=1e-12)
    assert (fast.error < 1e-11).all()


def test_naive_bayes_leaves_other_questions_to_others() -> None:
    net = naive_bayes()
    assert as_discrete(net.posterior("a", pd.DataFrame({"b": [0, 1], "c": [0, 0]}))).probability(0).shape == (2,)
    soft = pd.DataFrame({"b": np.array([{0, 1}, 1], dtype=object)})
    np.testing.assert_allclose(as_discrete(net.posterior("a", soft)).probability(0), [0.4, 0.04 / 0.52], rtol=1e-12)
    np.testing.assert_allclose(
        as_discrete(net.posterior("b", pd.DataFrame({"a": [0, 1]}))).probability(1), [0.1, 0.8], rtol=1e-12
    )
    sure = net.posterior("a", pd.DataFrame({"c": [1, 0]}))
    np.testing.assert_allclose(as_discrete(sure).probability(1), [1.0, 0.3 / 0.7], rtol=1e-12)


def test_elimination_that_turns_out_to_be_too_wide_is_planned_again(monkeypatch):
    net = hb.Network([hb.LinearGaussian(hb.Continuous("x"), intercept=0, variance=1)])
    calls: list[Any] = []

    class Tried(EliminationPlan):
        def __init__(self):
            pass

    def solve_by(plan, *_):
        if isinstance(plan, Exception | None):
            return plan
        raise TooWide(type(plan).__name__)

    monkeypatch.setattr(solutions, "_solve_by", solve_by)
    for first, planned_again in ((Tried(), True), (object(), False)):
        plans = iter([first, None])
        calls.clear()

        def choose(problem, read, options, refused=None, plans=plans):
            calls.append(refused)
            return next(plans)

        monkeypatch.setattr(solutions, "choose_plan", choose)
        read = EvidenceReader(net, None).evidence()
        if planned_again:
            solutions.solve(net, Question(("x",)), read, hb.Options())
            assert [type(refused) for refused in calls] == [type(None), TooWide]
        else:
            with pytest.raises(TooWide, match="object"):
                solutions.solve(net, Question(("x",)), read, hb.Options())
            assert calls == [None]
