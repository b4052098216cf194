"""Threads that meet on purpose: in the first run of a program, where a question is compiled, where a module is
imported and where evidence is read. Nobody waits for a clock; what would hang fails after a minute.
"""

from __future__ import annotations

import gc
import sys
import textwrap
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier, Event, Lock, Thread
from typing import Any

import numpy as np
import pytest

import hybridbn as hb
from hybridbn.inference import relevance
from hybridbn.inference.elimination.program import Program
from hybridbn.learning import ensemble
from hybridbn.registry import LazyModule

PATIENCE = 60.0


def make_network() -> hb.Network:
    """Return two grids that are joined by a number, so that there are tables that no evidence changes."""
    rng = np.random.default_rng(0)
    a, b, c = (hb.Discrete(name, (0, 1, 2)) for name in "abc")
    x = hb.Continuous("x")
    return hb.Network(
        [
            hb.Multinomial(a, table=rng.dirichlet(np.ones(3))),
            hb.Multinomial(b, (a,), table=rng.dirichlet(np.ones(3), 3)),
            hb.Multinomial(c, (a, b), table=rng.dirichlet(np.ones(3), (3, 3))),
            hb.LinearGaussian(x, (c,), intercept=[0, 1, 3], variance=[1, 2, 1]),
        ]
    )


def ask(network: hb.Network) -> Any:
    posterior: Any = network.posterior("a", hb.Table({"x": [0.3, 2.0, 7.0]}))
    return posterior.probabilities


class WatchedLock:
    """A lock that tells when a second thread comes to it."""

    def __init__(self) -> None:
        self.lock, self.asked, self.visits = Lock(), Event(), 0

    def __enter__(self) -> None:
        self.visits += 1
        if self.visits == 2:
            self.asked.set()
        self.lock.acquire()

    def __exit__(self, *_: object) -> None:
        self.lock.release()


def test_one_thread_makes_the_first_run_and_others_wait_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    network, expected = make_network(), ask(make_network())
    answers: list[Any] = []
    second = Thread(target=lambda: answers.append(ask(network)))
    runs: list[Program] = []
    watched = WatchedLock()
    fold = Program._fold

    def hold(program: Program, arrays: Any) -> None:
        runs.append(program)
        if len(runs) == 1:
            second.start()
            # it comes to the lock, or makes a first run of its own, which ends the wait, too
            assert watched.asked.wait(PATIENCE)
        else:
            watched.asked.set()
        fold(program, arrays)

    create = Program.__init__

    def watch(program: Program, *arguments: Any, **options: Any) -> None:
        create(program, *arguments, **options)
        program.lock = watched  # type: ignore[assignment]

    monkeypatch.setattr(Program, "__init__", watch)
    monkeypatch.setattr(Program, "_fold", hold)
    answers.append(ask(network))
    second.join(PATIENCE)
    assert len(runs) == 1
    assert len(answers) == 2
    for answer in answers:
        np.testing.assert_allclose(answer, expected, rtol=1e-12)
    # a run that is not the first needs no lock
    visits = watched.visits
    np.testing.assert_allclose(ask(network), expected, rtol=1e-12)
    assert watched.visits == visits


def meet(work: Callable[[], Any], count: int = 2) -> list[Any]:
    with ThreadPoolExecutor(count) as pool:
        return [future.result(PATIENCE) for future in [pool.submit(work) for _ in range(count)]]


def test_a_question_that_two_threads_compile_is_kept_once(monkeypatch: pytest.MonkeyPatch) -> None:
    network, expected = make_network(), ask(make_network())
    relevance.CACHE.clear()
    barrier, kept = Barrier(2), []
    put = relevance.CACHE.put

    def put_together(potentials: Any, question: Any, problem: Any) -> Any:
        # both have compiled it before either one can store it
        barrier.wait(PATIENCE)
        kept.append((problem, put(potentials, question, problem)))
        return kept[-1][1]

    monkeypatch.setattr(relevance.CACHE, "put", put_together)
    for answer in meet(lambda: ask(network)):
        np.testing.assert_allclose(answer, expected, rtol=1e-12)
    stored = {id(problem) for _, problem in kept}
    assert len({id(own) for own, _ in kept}) == len(kept) == 2 * len(stored)
    assert {id(entry.problem) for entry in relevance.CACHE.entries()} == stored
    assert relevance.CACHE.total == sum(entry.held for entry in relevance.CACHE.entries())


@pytest.mark.usefixtures("frozen")
def test_a_network_that_goes_while_the_cache_is_locked_is_forgotten_afterwards() -> None:
    relevance.CACHE.clear()
    network = make_network()
    ask(network)
    count = len(relevance.CACHE)
    with relevance.CACHE._lock:
        del network
        gc.collect()
        assert len(relevance.CACHE) == count
    other = make_network()
    ask(other)
    assert len(relevance.CACHE) == count
    assert relevance.CACHE.total == sum(entry.held for entry in relevance.CACHE.entries())
    del other
    gc.collect()
    assert len(relevance.CACHE) == relevance.CACHE.total == 0


def test_a_module_that_two_threads_use_first_is_whole_for_both(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "met_by_threads.py").write_text(
        textwrap.dedent(
            """
            import builtins
            builtins.met_by_threads()
            answer = 42
            """
        )
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    module, answers, begun = LazyModule("met_by_threads"), [], Event()

    def use() -> None:
        begun.set()
        answers.append(module.answer)

    second = Thread(target=use)

    def join_in() -> None:
        """Let the second thread ask while the module is being imported."""
        second.start()
        assert begun.wait(PATIENCE)

    monkeypatch.setattr("builtins.met_by_threads", join_in, raising=False)
    answers.append(module.answer)
    second.join(PATIENCE)
    monkeypatch.delitem(sys.modules, "met_by_threads")
    assert answers == [42, 42]


def test_the_evidence_of_an_ensemble_is_read_by_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(1)
    table = hb.Table({name: rng.choice(["u", "v"], 60) for name in "cde"})
    network = hb.structures.naive_bayes(table, "c", potentials="multinomial")
    evidence = table.select(["d", "e"])
    expected = ensemble.ClassScorer("c", evidence).log_joint(network)
    scorer = ensemble.ClassScorer("c", evidence)
    watched = WatchedLock()
    scorer._lock = watched  # type: ignore[assignment]
    answers: list[Any] = []
    second = Thread(target=lambda: answers.append(scorer.log_joint(network)))
    inside: list[bool] = []
    read = ensemble.ClassScorer._read_codes

    def hold(self: Any, *given: Any) -> Any:
        inside.append(True)
        if len(inside) == 1:
            second.start()
            assert watched.asked.wait(PATIENCE)
        else:
            watched.asked.set()
        together.append(sum(inside))
        codes = read(self, *given)
        inside[inside.index(True)] = False
        return codes

    together: list[int] = []
    monkeypatch.setattr(ensemble.ClassScorer, "_read_codes", hold)
    answers.append(scorer.log_joint(network))
    second.join(PATIENCE)
    assert together == [1, 1]
    assert len(answers) == 2
    for answer in answers:
        np.testing.assert_array_equal(answer, expected)
