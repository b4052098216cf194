"""The default backend: one fragment after the other, in this process."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from hybridbn.backends.base import Backend, Fragment

__all__ = ["Local"]

Result = TypeVar("Result")


class Local(Backend):
    """Reads in this process, with no more memory than a few batches take."""

    name = "local"

    def map(self, function: Callable[[Fragment], Result], items: Sequence[Fragment]) -> Iterator[Result]:
        """Yield the results one by one."""
        return map(function, items)
