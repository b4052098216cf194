"""The default backend: one fragment after the other, in this process."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

from hybridbn.tables.backends.base import Backend, Fragment

__all__ = ["Local"]

Result = TypeVar("Result")


class Local(Backend):
    """Reads in this process, with no more memory than a few batches take."""

    name = "local"

    @classmethod
    @contextmanager
    def start(cls, workers: int | None = None, scheduler: str | None = None) -> Iterator[Backend]:
        """Start processes, if there are to be several workers."""
        if (workers or 1) == 1:
            yield cls()
            return
        from hybridbn.tables.backends.processes import Processes

        with Processes.start(workers) as backend:
            yield backend

    def map(self, function: Callable[[Fragment], Result], items: Sequence[Fragment]) -> Iterator[Result]:
        """Yield the results one by one."""
        return map(function, items)
