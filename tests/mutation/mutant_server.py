"""A plugin of pytest that collects the tests once, and then asks for each mutant whether one of them fails.

With probes it runs all tests, and writes which of them run which blocks (`Mapper`). With mutants it forks a process for
each, swaps the code of the functions that it changes, and runs the tests that run its block until one fails (`Server`):
first quick ones of many files. How a test fails tells a crash, an error raised by the library or by what it calls, from
a result that a test finds wrong.
"""

from __future__ import annotations

import doctest
import functools
import gc
import itertools
import json
import os
import pickle
import resource
import select
import signal
import sys
from array import array
from collections import Counter
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

import mutant_imports
import pytest

WORK = "HYBRIDBN_MUTATION_WORK"
"""The environment variable that names a file in JSON: what a `Mapper` or a `Server` is to do."""
Wrapper = Generator[None, Any, Any]
"""What a hook is that runs around others."""

SHRINKING = "hypothesis.internal.conjecture.engine"


def pytest_configure(config: pytest.Config) -> None:
    """Register what the environment asks for."""
    if WORK in os.environ:
        work = json.loads(Path(os.environ[WORK]).read_text())
        config.pluginmanager.register(Mapper(work) if mutant_imports.PROBES in os.environ else Server(work))


def measure_cpu() -> float:
    """Return the seconds that this process and those that it has waited for have computed."""
    own, children = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    return own.ru_utime + own.ru_stime + children.ru_utime + children.ru_stime


class Memories:
    """What the library remembers of earlier calls; a test that finds it there doesn't run what made it."""

    def __init__(self, packages: tuple[str, ...]) -> None:
        of_packages = [name for name in sys.modules if name.split(".")[0] in packages]
        values = [value for name in of_packages for value in list(vars(sys.modules[name]).values())]
        wrappers = [value for value in values if isinstance(value, functools._lru_cache_wrapper)]
        self.wrappers = [wrapper for wrapper in wrappers if wrapper.cache_parameters()["maxsize"] is not None]
        self.caches = [value for value in values if type(value).__name__ == "ProblemCache"]

    def forget(self) -> None:
        """Empty them."""
        for wrapper in self.wrappers:
            wrapper.cache_clear()
        for cache in self.caches:
            cache.__init__(cache.most_bytes)


class Mapper:
    """Finds out which blocks each test runs, and how long it takes."""

    def __init__(self, work: dict[str, Any]) -> None:
        self.target = Path(work["map"])
        self.packages = tuple(work["packages"])
        self.probes = mutant_imports.open_probes(Path(os.environ[mutant_imports.PROBES]))
        self.zeros = bytes(len(self.probes))
        self.tests: dict[str, tuple[float, array[int]]] = {}
        self.failed: set[str] = set()
        self.collected: set[int] = set()
        self.shared: dict[object, set[int]] = {}
        self.memories = Memories(())

    def take(self) -> set[int]:
        """Return the numbers of the probes that were run since the last time."""
        taken = set(itertools.compress(range(len(self.zeros)), self.probes[:]))
        self.probes[:] = self.zeros
        return taken

    def put(self, numbers: set[int]) -> None:
        """Let probes count as run."""
        for number in numbers:
            self.probes[number] = 1

    @contextmanager
    def sharing(self, key: object) -> Iterator[None]:
        """Let what runs in the context count for all tests that use its result, by its key."""
        before = self.take()
        yield
        self.shared[key] = self.shared.get(key, set()) | self.take()
        self.put(before | self.shared[key])

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Begin to count, after what runs when modules are imported."""
        self.collected = self.take()
        self.memories = Memories(self.packages)
        for module in {item.module for item in session.items if isinstance(item, pytest.Function)}:
            for name, value in list(vars(module).items()):
                if isinstance(value, functools._lru_cache_wrapper) and value.__module__ == module.__name__:
                    setattr(module, name, self._share(value))

    def _share(self, function: Any) -> Any:
        def call(*args: Any, **kwargs: Any) -> Any:
            with self.sharing((function, str(args), str(kwargs))):
                return function(*args, **kwargs)

        return call

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: Any, request: Any) -> Wrapper:
        """Let what a fixture of several tests runs count for all of them."""
        if fixturedef.scope == "function":
            return (yield)
        with self.sharing((fixturedef.argname, fixturedef.scope == "session" or request.path)):
            return (yield)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Wrapper:
        """Count what a test runs."""
        self.memories.forget()
        self.take()
        began = measure_cpu()
        result = yield
        numbers = self.take()
        for name in getattr(item, "fixturenames", ()):
            for where in (True, item.path):
                numbers |= self.shared.get((name, where), set())
        self.tests[item.nodeid] = measure_cpu() - began, array("I", sorted(numbers))
        return result

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note which tests fail or are skipped without any mutant, so that they say nothing of one."""
        if not report.passed:
            self.failed.add(report.nodeid)

    def pytest_sessionfinish(self) -> None:
        """Write what was found."""
        usable = {name: found for name, found in self.tests.items() if name not in self.failed}
        self.target.write_bytes(pickle.dumps((usable, self.failed, self.collected)))


class Server:
    """Runs tests on mutants, one process for each, and writes a line in JSON about each.

    A process ends after `test_seconds` of tests. A test ends after ten times what it took without a mutant and some
    seconds, and counts as one that crashes.
    """

    def __init__(self, work: dict[str, Any]) -> None:
        self.work = work
        self.results = Path(work["results"])
        self.failure: dict[str, str] = {}
        self.items: dict[str, pytest.Item] = {}
        self.functions: dict[str, list[FunctionType]] = {}

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Ask the tests about each mutant."""
        Memories(tuple(self.work["packages"])).forget()
        if SHRINKING in sys.modules:
            sys.modules[SHRINKING].MAX_SHRINKING_SECONDS = 0  # type: ignore[attr-defined]
        self.items = {item.nodeid: item for item in session.items}
        for value in gc.get_objects():
            if isinstance(value, FunctionType):
                self.functions.setdefault(os.path.realpath(value.__code__.co_filename), []).append(value)
        gc.collect()
        gc.freeze()
        for mutant in self.work["mutants"]:
            if measure_cpu() > self.work["seconds"]:
                break
            result = self.judge(mutant)
            with self.results.open("a") as file:
                file.write(json.dumps(result) + "\n")
        return True

    def judge(self, mutant: dict[str, Any]) -> dict[str, Any]:
        """Return what becomes of a mutant."""
        costs = {name: cost for name, cost in mutant["tests"] if name in self.items}
        result = {"place": mutant["place"], "edit": mutant["edit"], "tests": len(costs)}
        began = measure_cpu()
        reader, writer = os.pipe()
        process = os.fork()
        if not process:
            os.close(reader)
            self._run(mutant, order_tests(costs, mutant["path"]), costs, writer)
        os.close(writer)
        try:
            end = self._follow(reader, costs)
        finally:
            os.close(reader)
            for kill in (os.killpg, os.kill):
                try:
                    kill(process, signal.SIGKILL)
                except ProcessLookupError:
                    continue
            _, status = os.waitpid(process, 0)
        return {**result, "seconds": round(measure_cpu() - began, 2), **name_end(end, status)}

    def _follow(self, reader: int, costs: dict[str, float]) -> list[dict[str, Any]]:
        """Return what a process has told: the tests that it began, and its end if it got there."""
        told: list[dict[str, Any]] = []
        text = b""
        while True:
            patience = 90 + 30 * costs.get(told[-1].get("by", ""), 0) if told else 90
            if not select.select([reader], [], [], patience)[0]:
                return told
            part = os.read(reader, 1 << 16)
            if not part:
                return told
            *lines, text = (text + part).split(b"\n")
            told += map(json.loads, lines)

    def _run(self, mutant: dict[str, Any], names: list[str], costs: dict[str, float], writer: int) -> None:
        def tell(**values: Any) -> None:
            os.write(writer, json.dumps(values).encode() + b"\n")

        ran = 0
        try:
            os.setpgid(0, 0)
            self._swap(mutant)
            for name, following in itertools.zip_longest(names, names[1:]):
                used = measure_cpu()
                if used > self.work["test_seconds"]:
                    tell(end="lived", ran=ran, whole=False)
                    return
                tell(by=name, ran=ran)
                limit = int(used + 10 * costs[name] + 10)
                resource.setrlimit(resource.RLIMIT_CPU, (limit, resource.RLIM_INFINITY))
                item = self.items[name]
                item.config.hook.pytest_runtest_protocol(item=item, nextitem=self.items.get(following or ""))
                ran += 1
                if self.failure:
                    tell(by=name, ran=ran, **self.failure)
                    return
            tell(end="lived", ran=ran, whole=True)
        except BaseException as error:
            tell(end="crash", ran=ran, message=repr(error)[:300])
        finally:
            os._exit(0)

    def _swap(self, mutant: dict[str, Any]) -> None:
        """Give the functions of the mutant's file their new code, here and in all processes that are started."""
        root, path, index = Path(os.environ[mutant_imports.ROOT]), mutant["path"], mutant["index"]
        os.environ[mutant_imports.MUTANT] = f"{path}:{index}"
        if index is None:
            return
        mutant_imports.install()
        before = compile((root / path).read_text(encoding="utf-8"), str(root / path), "exec", dont_inherit=True)
        new = dict(match_codes(before, mutant_imports.compile_mutant(root, path, index)))
        for function in self.functions.get(os.path.realpath(root / path), []):
            code = new.get(function.__code__)
            if code is not None and code.co_freevars == function.__code__.co_freevars:
                function.__code__ = code.replace(co_filename=function.__code__.co_filename)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item, call: pytest.CallInfo[None]) -> Wrapper:
        """Note how a test fails."""
        report = yield
        if report.failed and call.excinfo is not None and not self.failure:
            error = call.excinfo.value
            noticed = AssertionError, doctest.DocTestFailure, pytest.fail.Exception
            failures = getattr(error, "failures", [error])  # those of a doctest
            end = "noticed" if isinstance(failures[0], noticed) else "crash"
            self.failure = {"end": end, "message": f"{type(error).__name__}: {failures[0]}"[:300]}
        return report


def name_end(told: list[dict[str, Any]], status: int) -> dict[str, Any]:
    """Return how a process ended: what it told last, or else that it was killed by a limit or a signal."""
    last = {"ran": 0, **(told[-1] if told else {})}
    if "end" not in last:
        message = signal.strsignal(os.WTERMSIG(status)) if os.WIFSIGNALED(status) else None
        last |= {"end": "crash", "message": f"no end: {message}"}
    return last


def order_tests(costs: dict[str, float], path: str) -> list[str]:
    """Return tests of a mutant's file: quick ones of many files, then what is near, then the others file by file.

    Near are the doctests of the file, the files of tests that have its name in theirs, and next those of its room.

    Examples
    --------
    >>> costs = {"a::1": 0.1, "a::2": 0.2, "a::3": 0.3, "a::4": 0.4, "test_b_c::1": 5.0, "c::1": 0.2, "room/d::1": 3.0}
    >>> order_tests(costs, "library/room/b.py")
    ['a::1', 'a::2', 'c::1', 'test_b_c::1', 'room/d::1', 'a::3', 'a::4']
    """
    files = {name: name.split("::")[0] for name in costs}
    name, rooms = Path(path).stem, Path(path).parent.parts
    far = {file: (name not in Path(file).stem, Path(file).parent.name not in rooms) for file in files.values()}
    seen: Counter[str] = Counter()
    first: list[str] = []
    for test in sorted(costs, key=lambda test: costs[test]):
        seen[files[test]] += 1
        if seen[files[test]] <= 2 and costs[test] < 3:
            first.append(test)
    rest = [test for test in costs if test not in set(first)]
    totals = dict.fromkeys(files.values(), 0.0)
    for test in rest:
        totals[files[test]] += costs[test]
    return [*first, *sorted(rest, key=lambda test: (far[files[test]], totals[files[test]], files[test]))]


def match_codes(before: CodeType, after: CodeType) -> Iterator[tuple[CodeType, CodeType]]:
    """Yield the codes of functions that differ, in pairs; where more or fewer are in one, that one without these."""
    nested = [[const for const in code.co_consts if isinstance(const, CodeType)] for code in (before, after)]
    if [code.co_name for code in nested[0]] == [code.co_name for code in nested[1]]:
        for old, new in zip(*nested, strict=True):
            if old != new:
                yield old, new
                yield from match_codes(old, new)
