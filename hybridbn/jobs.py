"""Long calls: work shared among threads or processes, with results in the order of what was asked, the same for any
number of them; and progress, which is off by default, shown inside ``with hybridbn.progress():``, and cancelable there.
"""

from __future__ import annotations

import os
import pickle
import shutil
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent import futures
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar, Token
from dataclasses import dataclass
from functools import wraps
from types import TracebackType
from typing import Any, ParamSpec, Self, TextIO, TypeVar

from hybridbn.errors import Canceled, TableError

Item = TypeVar("Item")
Result = TypeVar("Result")
Parameters = ParamSpec("Parameters")

_THREADS: ContextVar[int] = ContextVar("threads of a pass", default=1)


def check_jobs(n_jobs: Any) -> int:
    """Return how many jobs run at the same time: None is one, -1 as many as there are processors, -2 one less.

    Examples
    --------
    >>> check_jobs(None), check_jobs(3), check_jobs(-1) >= 1
    (1, 3, True)
    >>> check_jobs(0)
    Traceback (most recent call last):
        ...
    hybridbn.errors.TableError: n_jobs must be a whole number that is not zero (-1: all processors), or None, not 0
    """
    if n_jobs is None:
        return 1
    try:
        number = int(n_jobs)
    except (TypeError, ValueError):
        number = 0
    if isinstance(n_jobs, bool) or number == 0 or number != n_jobs:
        raise TableError(
            f"n_jobs must be a whole number that is not zero (-1: all processors), or None, not {n_jobs!r:.80}"
        )
    return number if number > 0 else max((os.cpu_count() or 1) + 1 + number, 1)


def get_jobs() -> int:
    """Return how many threads share a pass over the rows, which the innermost call with `n_jobs` tells.

    Examples
    --------
    >>> @share_passes
    ... def learn(*, n_jobs=None):
    ...     return get_jobs()
    >>> learn(), learn(n_jobs=2)
    (1, 2)
    """
    return _THREADS.get()


def share_passes(function: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """Let the passes that a learner makes be shared by as many threads as its keyword `n_jobs` tells; None leaves it to
    who called the learner.
    """

    @wraps(function)
    def call(*args: Parameters.args, **options: Parameters.kwargs) -> Result:
        with use_jobs(options.get("n_jobs")):
            return function(*args, **options)

    return call


@contextmanager
def use_jobs(n_jobs: Any) -> Iterator[None]:
    """Let passes inside be shared by so many threads; None leaves it to who said so before.

    Examples
    --------
    >>> with use_jobs(2):
    ...     get_jobs()
    2
    """
    if n_jobs is None:
        yield
        return
    token = _THREADS.set(check_jobs(n_jobs))
    try:
        yield
    finally:
        _THREADS.reset(token)


def run_in_threads(function: Callable[[Item], Result], items: Iterable[Item], jobs: int) -> Iterator[Result]:
    """Yield the results of a function in the order of the items, few of which are under way at a time.

    Examples
    --------
    >>> list(run_in_threads(str, range(5), 2))
    ['0', '1', '2', '3', '4']
    """
    if jobs == 1:
        yield from map(function, items)
        return
    with futures.ThreadPoolExecutor(jobs) as pool:
        yield from _yield_in_order(pool, function, items, jobs)


def run_in_processes(
    function: Callable[[Item], Result], items: Iterable[Item], jobs: int, what: str
) -> Iterator[Result]:
    """Yield the results of a function, which holds all that it needs besides an item, in the order of the items.

    Parameters
    ----------
    what : str
        What can't be sent, in the error.
    """
    if jobs == 1:
        yield from map(function, items)
        return
    packed = PackedFunction(function, what, "define it at the top of a module, or give n_jobs=1")
    with futures.ProcessPoolExecutor(jobs, initializer=packed.unpack) as pool:
        yield from _yield_in_order(pool, _call_unpacked, items, jobs)


_UNPACKED = threading.local()


class PackedFunction:
    """A function that is sent along with each item, and unpacked once by each thread that is sent many.

    Parameters
    ----------
    function : callable
    what, remedy : str
        What can't be sent, and what to do then, in the error.

    Examples
    --------
    >>> PackedFunction(abs, "the function", "use threads")(-2)
    2
    """

    def __init__(self, function: Callable[[Any], Any], what: str, remedy: str) -> None:
        try:
            self._packed = pickle.dumps(function)
        except (pickle.PicklingError, AttributeError, TypeError) as error:
            raise TableError(f"{what} can't be sent to other processes ({error}); {remedy}") from error

    def __call__(self, item: Any) -> Any:
        """Return the function of an item."""
        if getattr(_UNPACKED, "packed", None) != self._packed:
            self.unpack()
        return _call_unpacked(item)

    def unpack(self) -> None:
        """Make this the function of the thread."""
        _UNPACKED.packed, _UNPACKED.function = self._packed, pickle.loads(self._packed)  # what the same call packed


def _call_unpacked(item: Any) -> Any:
    return _UNPACKED.function(item)


def run_in_executor(
    executor: futures.Executor | None,
    function: Callable[[Item], Result],
    items: Sequence[Item],
    what: str,
    ahead: int | None = None,
) -> Iterator[Result]:
    """Yield the results of a function in the order of the items, which are submitted to an executor, if any.

    Parameters
    ----------
    what : str
        What can't be sent, in the error.
    ahead : int, optional
        So many workers are kept busy, so that few results wait to be fetched; by default all items are submitted.

    Examples
    --------
    >>> from concurrent.futures import ThreadPoolExecutor
    >>> with ThreadPoolExecutor(2) as pool:
    ...     list(run_in_executor(pool, str, [1, 2], "the function"))
    ['1', '2']
    """
    if executor is None:
        yield from map(function, items)
        return
    if not callable(getattr(executor, "submit", None)):
        raise TableError(
            f"executor must be an Executor of concurrent.futures, or have its method submit, not {executor!r:.80}"
        )
    try:
        yield from _yield_in_order(executor, function, items, len(items) if ahead is None else ahead)
    except (pickle.PicklingError, AttributeError) as error:
        raise TableError(
            f"{what} can't be sent to other processes ({error}); define it at the top of a module, or use threads"
        ) from error


def _yield_in_order(
    pool: futures.Executor, function: Callable[[Item], Result], items: Iterable[Item], jobs: int
) -> Iterator[Result]:
    waiting: deque[futures.Future[Result]] = deque()
    for item in items:
        waiting.append(pool.submit(function, item))
        if len(waiting) > 2 * jobs:
            yield waiting.popleft().result()
    while waiting:
        yield waiting.popleft().result()


# -- progress ---------------------------------------------------------------------------------------------------------

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
        return self.seconds * (self.total - self.done) / steps if self.total and steps > 0 else None


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
        yield lambda done, detail: None  # nobody wants to know
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
            self.show(" > ".join(map(format_task, tasks)))

    def erase(self) -> None:
        """Erase the line, if there is one."""
        if self._length:
            self.show("")
            self.show("")

    def show(self, text: str) -> None:
        """Write a text, such as the name of a step that tells no progress."""
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
    longer = f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
    return f"{seconds:.0f} s" if seconds < 90 else longer
