"""Work shared among threads or processes, with results in the order of what was asked: the same for any number of
them.
"""

from __future__ import annotations

import os
import pickle
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import wraps
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from hybridbn.errors import TableError

if TYPE_CHECKING:
    from concurrent.futures import Executor, Future

__all__ = [
    "check_jobs",
    "get_jobs",
    "run_in_executor",
    "run_in_processes",
    "run_in_threads",
    "share_passes",
    "use_jobs",
]

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
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(jobs) as pool:
        yield from _yield_in_order(pool, function, items, jobs)


def run_in_processes(
    function: Callable[[Any, Item], Result], shared: Any, items: Iterable[Item], jobs: int, what: str
) -> Iterator[Result]:
    """Yield the results of a function of something shared and an item, in the order of the items.

    Parameters
    ----------
    function : a function of a module, called with what is shared and an item
    shared : sent to each process once
    what : str
        What can't be sent, in the error.
    """
    if jobs == 1:
        yield from (function(shared, item) for item in items)
        return
    try:
        packed = pickle.dumps((function, shared))
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise TableError(
            f"{what} can't be sent to other processes ({error}); define it at the top of a module, or give n_jobs=1"
        ) from error
    from concurrent.futures import ProcessPoolExecutor

    with ProcessPoolExecutor(jobs, initializer=_initialize, initargs=(packed,)) as pool:
        yield from _yield_in_order(pool, _work, items, jobs)


def run_in_executor(
    executor: Executor | None,
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


_SHARED: list[Any] = []


def _initialize(packed: bytes) -> None:
    _SHARED[:] = [pickle.loads(packed)]  # what the same call packed


def _work(item: Any) -> Any:
    function, shared = _SHARED[0]
    return function(shared, item)


def _yield_in_order(
    pool: Executor, function: Callable[[Item], Result], items: Iterable[Item], jobs: int
) -> Iterator[Result]:
    waiting: deque[Future[Result]] = deque()
    for item in items:
        waiting.append(pool.submit(function, item))
        if len(waiting) > 2 * jobs:
            yield waiting.popleft().result()
    while waiting:
        yield waiting.popleft().result()
