"""Progress of long calls: off by default, shown inside ``with hybridbn.progress():``, and cancelable there."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar, Token
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self, TextIO, TypeVar

from hybridbn.errors import Canceled

__all__ = ["ProgressLine", "Task", "advance", "format_task", "progress", "progress_if", "track", "track_items"]

Item = TypeVar("Item")

_EVERY = 0.1
"""Progress is shown at most once in this many seconds."""


@dataclass
class Task:
    """A long call, or a part of one, that is under way.

    Attributes
    ----------
    name : str
        Such as "boost".
    total : int or None
        The number of its steps where that is known.
    done : int
    detail : str
        What is reached so far, such as an error.
    began : float
        The reading of `time.monotonic` at its beginning.
    first : int
        The number of steps that were done before it began, by an earlier call.
    unit : str
        What its steps are.
    """

    name: str
    total: int | None
    done: int = 0
    detail: str = ""
    began: float = 0.0
    first: int = 0
    unit: str = "steps"

    @property
    def seconds(self) -> float:
        """The seconds since it began."""
        return time.monotonic() - self.began

    @property
    def rate(self) -> float | None:
        """The steps of a second, None where nobody knows."""
        steps, seconds = self.done - self.first, self.seconds
        return steps / seconds if steps > 0 and seconds > 0 else None

    @property
    def seconds_left(self) -> float | None:
        """The seconds that the other steps will take if they are like those before; None where nobody knows."""
        steps = self.done - self.first
        if not self.total or steps <= 0:
            return None
        return self.seconds * (self.total - self.done) / steps


class progress(AbstractContextManager["progress"]):  # noqa: N801  it is used like a function
    """Show the progress of the long calls inside a ``with`` statement, and let them be canceled.

    Calls such as `hill_climb`, `impute`, `boost`, `fit` with ``missing="em"``, `automatic` and `bias_variance` tell how
    far they are. Many of them take ``progress=True`` for the same.

    Parameters
    ----------
    show : callable, optional
        Called with the sequence of tasks under way, the outermost first, whenever one goes on. By default they are
        shown on one line of the standard error.

    Examples
    --------
    >>> import hybridbn as hb
    >>> counts = []
    >>> with hb.progress(lambda tasks: counts.append((tasks[0].name, tasks[0].done, tasks[0].total))):
    ...     ensemble = hb.boost({"x": ["u", "v", "v", "u"] * 9, "c": ["a", "b", "a", "a"] * 9}, "c", rounds=2)
    >>> counts[-1]
    ('boost', 2, 2)
    """

    def __init__(self, show: Callable[[Sequence[Task]], Any] | None = None) -> None:
        self._show = ProgressLine() if show is None else show
        self._tasks: list[Task] = []
        self._canceled = False
        self._token: Token[progress | None] | None = None

    def cancel(self) -> None:
        """End the call that is under way with `Canceled` at its next step; another thread or a callback may ask for
        this.
        """
        self._canceled = True

    def __enter__(self) -> Self:
        self._canceled = False
        self._token = _CURRENT.set(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._token is not None:
            _CURRENT.reset(self._token)
        if isinstance(self._show, ProgressLine):
            self._show.erase()

    def _report(self) -> None:
        self._show(tuple(self._tasks))
        if self._canceled:
            raise Canceled("canceled by progress.cancel()")


_CURRENT: ContextVar[progress | None] = ContextVar("progress", default=None)


def progress_if(shown: bool) -> AbstractContextManager[Any]:
    """Return the context of a call that was given ``progress=True`` or not; one around it stays in force."""
    return progress() if shown and _CURRENT.get() is None else nullcontext()


@contextmanager
def track(
    name: str, total: int | None = None, *, first: int = 0, unit: str = "steps"
) -> Iterator[Callable[[int, str], None]]:
    """Yield a function that tells how many steps of a task are done, and what is reached.

    Those before `first` were done by an earlier call; `unit` is what they are.

    Examples
    --------
    >>> with progress(lambda tasks: print(format_task(tasks[-1]))), track("count", 2) as report:
    ...     report(1, "")
    count: [############            ]  50%, 1/2, 0 s left
    """
    shown = _CURRENT.get()
    if shown is None:
        yield _ignore
        return
    task = Task(name, total, first, began=time.monotonic(), first=first, unit=unit)
    shown._tasks.append(task)

    def report(done: int, detail: str) -> None:
        task.done, task.detail = done, detail
        shown._report()

    try:
        yield report
    finally:
        shown._tasks.remove(task)


def advance(detail: str = "") -> None:
    """Tell that the innermost task has done another step, if there is one and anybody wants to know."""
    shown = _CURRENT.get()
    if shown is not None and shown._tasks:
        task = shown._tasks[-1]
        task.done, task.detail = task.done + 1, detail
        shown._report()


def track_items(items: Iterable[Item], name: str, total: int | None = None) -> Iterator[Item]:
    """Yield the items, each of them a step of a task."""
    with track(name, total) as report:
        for number, item in enumerate(items, 1):
            yield item
            report(number, "")


def _ignore(done: int, detail: str) -> None:
    """Tell nobody."""


class ProgressLine:
    """Shows tasks on one line of a stream, again and again; usable as the function of `progress`."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self.stream = stream
        self._shown = 0.0
        self._length = 0

    def __call__(self, tasks: Sequence[Task]) -> None:
        """Write the line, unless it was written a moment ago."""
        now = time.monotonic()
        if now - self._shown >= _EVERY or (len(tasks) == 1 and tasks[0].done == tasks[0].total):
            self._shown = now
            self._write(" > ".join(map(format_task, tasks)))

    def show(self, text: str) -> None:
        """Write a text, such as the name of a step that tells no progress."""
        self._write(text)

    def erase(self) -> None:
        """Erase the line, if there is one."""
        if self._length:
            self._write("")
            self._write("")

    def _write(self, text: str) -> None:
        stream = sys.stderr if self.stream is None else self.stream
        if stream is not None:
            if stream.isatty():  # a line that wraps can't be erased
                text = text[: shutil.get_terminal_size().columns - 1]
            stream.write(f"\r{text:<{self._length}}")
            stream.flush()
            self._length = len(text)


def format_task(task: Task) -> str:
    """Return a task as text: a bar where the number of steps is known, and the time.

    Examples
    --------
    >>> format_task(Task("em", None, 1200, "log-likelihood -42", began=time.monotonic()))
    'em: 1,200 steps, log-likelihood -42, 0 s'
    """
    detail = f", {task.detail}" if task.detail else ""
    if task.unit == "rows" and task.rate is not None:
        detail += f", {task.rate:,.0f} rows/s"
    if not task.total:
        return f"{task.name}: {task.done:,} {task.unit}{detail}, {_format_duration(task.seconds)}"
    bar = "#" * (24 * task.done // task.total)
    left = task.seconds_left
    time_left = "" if left is None else f", {_format_duration(left)} left"
    share = min(task.done / task.total, 1.0)
    unit = "" if task.unit == "steps" else f" {task.unit}"
    return f"{task.name}: [{bar:<24}] {share:4.0%}, {task.done:,}/{task.total:,}{unit}{detail}{time_left}"


def _format_duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
