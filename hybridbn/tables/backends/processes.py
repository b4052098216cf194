"""A backend of processes or threads of one machine: any executor of `concurrent.futures`.

Also the hash of this build, by which workers that have another one are refused.
"""

from __future__ import annotations

import hashlib
import multiprocessing
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import BrokenExecutor, Executor, ProcessPoolExecutor
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, Self, TypeVar

import hybridbn
from hybridbn.errors import TableError
from hybridbn.jobs import check_jobs, run_in_executor
from hybridbn.tables.backends.base import Backend, Fragment

__all__ = ["Processes", "hash_build", "open_pool", "refuse_other_build"]

Result = TypeVar("Result")


class Processes(Backend):
    """Shares the fragments among the workers of an executor.

    Parameters
    ----------
    executor : concurrent.futures.Executor, optional
        By default a pool of processes for each pass.
    workers : int
        How many processes such a pool has; -1: as many as there are processors.
    """

    name = "processes"

    executor: Executor | None
    workers: int

    def __init__(self, executor: Executor | None = None, workers: int = -1) -> None:
        self.executor, self.workers = executor, check_jobs(workers)

    @classmethod
    def wrap(cls, given: Any) -> Self | None:
        """Take any executor."""
        return cls(given) if isinstance(given, Executor) else None

    @classmethod
    @contextmanager
    def start(cls, workers: int | None = None, scheduler: str | None = None) -> Iterator[Backend]:
        """Start processes of this machine; by default as many as there are processors."""
        count = check_jobs(-1 if workers is None else workers)
        with open_pool(count) as pool:
            yield cls(pool, count)

    def map(self, function: Callable[[Fragment], Result], items: Sequence[Fragment]) -> Iterator[Result]:
        """Yield the results in the order of the fragments."""
        try:
            if self.executor is not None:
                yield from run_in_executor(self.executor, function, items, "the task", self.workers)
                return
            with open_pool(min(self.workers, max(len(items), 1))) as pool:
                yield from run_in_executor(pool, function, items, "the task", self.workers)
        except BrokenExecutor as error:
            raise TableError(
                f"a worker process ended before its part of the table was read ({error}), perhaps for lack of memory;"
                " nothing was counted: run the call again, with fewer workers"
            ) from error


@contextmanager
def open_pool(workers: int) -> Iterator[ProcessPoolExecutor]:
    """Open a pool of processes of this machine; where the statement ends early, what has not begun is dropped."""
    # a new interpreter each: a copy of a process with threads of Arrow may hang
    context = multiprocessing.get_context("spawn" if os.name == "nt" else "forkserver")
    with ProcessPoolExecutor(workers, context, _ignore_interrupts) as pool:
        try:
            yield pool
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _ignore_interrupts() -> None:
    """Leave what ends all of a terminal's processes to the one that others wait for."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


@cache
def hash_build() -> str:
    """Return a hash of all modules of the library as they are installed.

    Examples
    --------
    >>> len(hash_build())
    64
    """
    home = Path(hybridbn.__file__).parent
    digest = hashlib.sha256()
    folders = [home, home / "structures", home / "inference"]
    paths = {path.relative_to(home): path for folder in folders for path in folder.rglob("*.py")}
    for name, path in sorted(paths.items()):
        digest.update(f"{name.as_posix()}\0".encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()


def refuse_other_build(build: str, worker: str) -> None:
    """Raise `TableError` if a hash is not that of this build.

    Examples
    --------
    >>> refuse_other_build(hash_build(), "the worker")
    >>> refuse_other_build("abc", "the worker")
    Traceback (most recent call last):
        ...
    hybridbn.errors.TableError: the worker has another build of hybridbn than this process; install the same on all
    machines
    """
    if build != hash_build():
        raise TableError(f"{worker} has another build of hybridbn than this process; install the same on all machines")
