"""What work costs, counted rather than timed: the same on every machine, however busy."""

from __future__ import annotations

import contextlib
import signal
import sys
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any


def count_lines(work: Callable[[], object]) -> int:
    """Return how many lines of Python run; what C code does within a line is not seen."""
    lines = 0

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal lines
        lines += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)
    return lines


def assert_linear(work: Callable[[int], object], size: int) -> None:
    """Check that twice the size takes about twice the lines: a loop within a loop would take four times as many."""
    work(size)  # imports and caches
    once, twice = count_lines(lambda: work(size)), count_lines(lambda: work(2 * size))
    assert twice <= 2.3 * once + 2000, f"{once} lines at {size}, {twice} at twice the size"


@contextlib.contextmanager
def ended_if_it_hangs(seconds: float = 120) -> Iterator[None]:
    """End work in C, which `count_lines` does not see, after far more processor time than it could need."""
    if not hasattr(signal, "setitimer"):
        yield
        return

    def end(*_: object) -> None:
        raise TimeoutError(f"still at work after {seconds} seconds of the processor")

    before = signal.signal(signal.SIGPROF, end)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
