"""What was compiled for questions, kept as long as it fits in some bytes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import count
from threading import Lock
from typing import Any, Protocol

__all__ = ["CACHE", "ENTRY_BYTES", "Cached", "ProblemCache"]

ENTRY_BYTES = 1000
"""The approximate memory of an entry, or of a factor source and its factor, without tables."""
_FILL_AFTER_CLEANUP = 0.9
"""A full cache is emptied to this part of its capacity, so that not every new problem makes it full again."""


class Cached(Protocol):
    """What is compiled for a question."""

    on_growth: Callable[[], None] | None
    """Called after more tables were stored."""

    def estimate_bytes(self) -> int:
        """Return about how many bytes are held, without the potentials' own tables."""

    def release(self) -> None:
        """Drop the stored tables."""


class ProblemCache:
    """The compiled problems that were used last, as many as fit in `most_bytes`.

    A problem that grows too large loses its tables first and stays in the cache without them: choosing the elimination
    order takes longest, and the tables can be computed again.
    """

    def __init__(self, most_bytes: float = 256 * 2**20) -> None:
        self.most_bytes = most_bytes
        self.total: int = 0
        """About how many bytes all problems hold together."""
        self._entries: dict[Any, _CacheEntry] = {}
        self._clock = count()
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, key: Any) -> Any:
        """Return the problem with a key, None if there is none."""
        entry = self._entries.get(key)
        if entry is None:
            return None
        entry.used = next(self._clock)
        return entry.problem

    def put(self, key: Any, problem: Cached) -> Any:
        """Return the problem stored under a key: this one, unless another thread stored one before.

        A problem refers to its potentials, so that no other object can get their identities, which are part of the key.
        """
        problem.on_growth = partial(self.measure, key)
        with self._lock:
            kept = self._entries.setdefault(key, _CacheEntry(key, problem, next(self._clock)))
        self.measure(key)
        return kept.problem

    def measure(self, key: Any) -> None:
        """Measure a problem whose tables have grown, and make room for it."""
        with self._lock:
            entry = self._entries.get(key)
            if entry is None:
                return
            self._measure(entry)
            if entry.held > self.most_bytes:
                self._release(entry)
            if self.total > self.most_bytes:
                self._make_room()

    def _make_room(self) -> None:
        """Drop the tables, then the problems, that were used least recently, and some more than needed."""
        oldest = sorted(self._entries.values(), key=lambda entry: entry.used)
        for drop in (self._release, self._remove):
            for entry in oldest:
                if self.total <= _FILL_AFTER_CLEANUP * self.most_bytes:
                    return
                drop(entry)

    def clear(self) -> None:
        """Forget all problems."""
        with self._lock:
            self._entries.clear()
            self.total = 0

    def _remove(self, entry: _CacheEntry) -> None:
        del self._entries[entry.key]
        self.total -= entry.held

    def _release(self, entry: _CacheEntry) -> None:
        entry.problem.release()
        self._measure(entry)

    def _measure(self, entry: _CacheEntry) -> None:
        held = entry.problem.estimate_bytes() + ENTRY_BYTES
        self.total += held - entry.held
        entry.held = held


@dataclass
class _CacheEntry:
    key: Any
    problem: Cached
    used: int
    held: int = 0


CACHE = ProblemCache()
