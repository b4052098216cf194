"""What dask tells of tasks, workers and schedulers that fail: results, or an error of ours within the time given.

The client is one of these tests, with a clock of its own; real clusters are those of `test_scale_faults`.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import CancelledError
from dataclasses import dataclass, field
from typing import Any

import pytest
from numbered_source import Numbers

import hybridbn as hb
from hybridbn.tables.backends import workers
from hybridbn.tables.backends.base import Batch, Task
from hybridbn.tables.backends.workers import Dask

pytest.importorskip("cloudpickle")


class KilledWorker(Exception):
    """As that of dask, which is known by its module."""


KilledWorker.__module__ = "distributed.scheduler"


@dataclass
class Client:
    """A cluster whose tasks take some seconds each, after which some fail; the keys of `faults` are their numbers."""

    seconds: float = 0.0
    faults: dict[Any, BaseException] = field(default_factory=dict)
    raised: dict[int, BaseException] = field(default_factory=dict)
    silent: bool = False
    workers: int = 2
    now: float = 0.0
    made: list[Any] = field(default_factory=list)

    def submit(self, function: Callable[..., Any], *arguments: Any, retries: int, pure: bool) -> Any:
        if "submit" in self.faults:
            raise self.faults["submit"]
        self.made.append(Future(self, len(self.made), function, arguments, self.seconds))
        return self.made[-1]

    def nthreads(self, callback_timeout: float) -> dict[str, int]:
        if self.silent:
            self.now += callback_timeout
            raise TimeoutError
        if "nthreads" in self.faults:
            raise self.faults["nthreads"]
        return {f"tcp://{number}": 1 for number in range(self.workers)}


@dataclass
class Future:
    client: Client
    number: int
    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    left: float
    status: str = "pending"
    released: bool = False

    def result(self, timeout: float) -> Any:
        client, end = self.client, self.client.now + timeout
        # a task of others begins when these are done, and fails as they do
        others = [one for given in self.arguments if isinstance(given, list) for one in given]
        try:
            results = [one.result(end - client.now) for one in others]
        finally:
            self.status = "error" if any(one.status == "error" for one in others) else "pending"
        took = min(self.left, end - client.now)
        client.now, self.left = client.now + took, self.left - took
        if self.left > 0:
            raise TimeoutError
        if self.number in client.faults:
            raise client.faults[self.number]
        if self.number in client.raised:
            self.status = "error"
            raise client.raised[self.number]
        self.status = "finished"
        return self.function(*(results if isinstance(one, list) else one for one in self.arguments))

    def done(self) -> bool:
        return self.status != "pending"

    def release(self) -> None:
        self.released = True


class Sum(Task):
    columns = ()

    def learn(self, batch: Batch) -> int:
        return batch.first


def learn(backend: Dask) -> Any:
    return backend.learn(Sum(), Numbers(40))


def answer(backend: Dask) -> Any:
    return list(backend.answer(Sum(), Numbers(40)))


@pytest.fixture
def use(monkeypatch: pytest.MonkeyPatch) -> Callable[[Client], Client]:
    def use(client: Client) -> Client:
        monkeypatch.setattr(time, "monotonic", lambda: client.now)
        return client

    return use


LOST = [OSError("in <TCP>: Stream is closed"), CancelledError(), RuntimeError("IOLoop is closed"), UnboundLocalError()]


@pytest.mark.parametrize("call", [learn, answer])
class TestPasses:
    def test_results_are_exact_and_nothing_is_held(self, call: Any, use: Any) -> None:
        client = use(Client())
        assert call(Dask(client)) == (sum(range(40)) if call is learn else [*range(40)])
        assert all(future.released for future in client.made)

    @pytest.mark.parametrize("error", LOST, ids=lambda error: type(error).__name__)
    def test_a_lost_connection(self, error: Exception, call: Any, use: Any) -> None:
        # statistics ask for no number of threads
        for moment in ("submit", 0, 7) if call is learn else ("nthreads", "submit", 0, 7):
            client = use(Client(faults={moment: error}))
            with pytest.raises(hb.TableError, match="cluster of dask was lost") as caught:
                call(Dask(client))
            done = "nothing was counted" if call is learn else f"the first {7 if moment == 7 else 0} were answered"
            assert done in str(caught.value)
            assert all(future.released for future in client.made)

    @pytest.mark.parametrize(("seconds", "silent"), [(3, False), (600, False), (9, True)])
    def test_there_is_one_deadline(self, seconds: float, silent: bool, call: Any, use: Any) -> None:
        client = use(Client(seconds, silent=silent))
        with pytest.raises(hb.TableError, match="did not answer within 5 seconds"):
            call(Dask(client, timeout=5))
        # three seconds of one task leave two for the others
        assert client.now == 5

    def test_what_a_task_raises_is_passed_on(self, call: Any, use: Any) -> None:
        for error in (ZeroDivisionError("own"), TimeoutError("own"), OSError("own"), hb.TableError("own")):
            with pytest.raises(type(error), match=r"^own$"):
                call(Dask(use(Client(raised={0: error}))))

    def test_workers_lost_again_and_again(self, call: Any, use: Any) -> None:
        with pytest.raises(hb.TableError, match="lost again and again"):
            call(Dask(use(Client(raised={0: KilledWorker("tcp://1")}))))

    @pytest.mark.parametrize("cause", [ModuleNotFoundError("no hybridbn"), AttributeError("no call_checked")])
    def test_a_cluster_that_can_not_read_the_task(self, cause: Exception, call: Any, use: Any) -> None:
        error = RuntimeError("Error during deserialization of the task graph")
        error.__cause__ = cause
        with pytest.raises(hb.TableError, match="install the same build of hybridbn"):
            call(Dask(use(Client(raised={0: error}))))

    def test_each_task_checks_the_build(self, call: Any, use: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        submit, builds = Client.submit, iter(["abc"])

        def submit_to_other(self: Client, *arguments: Any, **options: Any) -> Any:
            future = submit(self, *arguments, **options)
            if future.number == 3:
                checked = future.function

                def call(*arguments: Any) -> Any:
                    with monkeypatch.context() as patch:
                        patch.setattr(workers, "hash_build", lambda: next(builds))
                        return checked(*arguments)

                future.function = call
            return future

        monkeypatch.setattr(Client, "submit", submit_to_other)
        with pytest.raises(hb.TableError, match="has another build of hybridbn"):
            call(Dask(use(Client())))

    def test_without_a_limit_the_scheduler_is_asked(self, call: Any, use: Any) -> None:
        for client, seconds, message in (
            (Client(seconds=600, workers=0), 60, "lost its workers"),
            (Client(seconds=600, faults={"nthreads": OSError("closed")}), 60, "was lost"),
            (Client(seconds=600, silent=True), 120, "did not answer within 60 seconds"),
        ):
            with pytest.raises(hb.TableError, match=message):
                call(Dask(use(client)))
            assert client.now <= seconds

    def test_workers_that_take_long_are_told_of_and_waited_for(self, call: Any, use: Any) -> None:
        client = use(Client(150))
        with pytest.warns(UserWarning, match="no part of the table came back"):
            result = call(Dask(client))
        assert result == (sum(range(40)) if call is learn else [*range(40)])
        assert client.now == 150 * len(client.made)
