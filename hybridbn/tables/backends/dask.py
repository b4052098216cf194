"""dask.distributed: a cluster's workers read the fragments, and merge what they learned in a tree."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from importlib import import_module
from typing import Any, Self, TypeVar

from hybridbn.errors import TableError
from hybridbn.tables.backends.base import Backend, Fragment, Source, Task, merge
from hybridbn.tables.columns import find_imported

__all__ = ["Dask"]

Result = TypeVar("Result")

_FAN_IN = 16
"""So many statistics are merged at a time."""


class Dask(Backend):
    """Sends the fragments to the workers of a cluster of dask.

    A fragment that is lost with its worker is read again by another, `retries` times; what comes back is exact, or an
    error. The workers need the same build of hybridbn and the same files.

    Parameters
    ----------
    client : distributed.Client, optional
        By default the client that was made last.
    retries : int
        How often a fragment is read again after an error.
    timeout : float, optional
        Seconds after which a fragment that is not done is given up, as of a worker that hangs; by default never.

    Examples
    --------
    >>> Dask().name
    'dask'
    """

    name = "dask"

    retries: int
    timeout: float | None

    def __init__(self, client: Any = None, *, retries: int = 2, timeout: float | None = None) -> None:
        self._client, self.retries, self.timeout = client, retries, timeout

    @classmethod
    def wrap(cls, given: Any) -> Self | None:
        """Take a client."""
        distributed = find_imported("distributed")
        return cls(given) if distributed is not None and isinstance(given, distributed.Client) else None

    @classmethod
    @contextmanager
    def start(cls, workers: int | None = None, scheduler: str | None = None) -> Iterator[Backend]:
        """Connect to a scheduler, or to a cluster of this machine, all of whose workers have this build."""
        try:
            distributed: Any = import_module("distributed")
        except ModuleNotFoundError:
            raise TableError("--backend dask needs dask: pip install 'hybridbn[scale]'") from None
        with ExitStack() as stack:
            if scheduler is None:
                cluster = distributed.LocalCluster(n_workers=workers, threads_per_worker=1, dashboard_address=None)
                client = stack.enter_context(distributed.Client(stack.enter_context(cluster)))
            else:
                client = stack.enter_context(_connect(distributed, scheduler))
            check_builds(client)
            yield cls(client)

    @property
    def client(self) -> Any:
        """The client."""
        if self._client is None:
            try:
                from distributed import get_client
            except ModuleNotFoundError:
                raise TableError("backend='dask' needs dask: pip install 'hybridbn[scale]'") from None
            try:
                self._client = get_client()
            except ValueError:
                raise TableError(
                    "backend='dask' needs a cluster: make a distributed.Client, and give it as backend="
                ) from None
        return self._client

    def map(self, function: Callable[[Fragment], Result], items: Sequence[Fragment]) -> Iterator[Result]:
        """Yield the results in the order of the fragments, of which a few are under way for each worker."""
        width = max(4, 2 * sum(self.client.nthreads().values()))
        waiting: list[Any] = []
        try:
            for item in items:
                waiting.append(self._submit(function, item))
                if len(waiting) >= width:
                    yield self._fetch(waiting.pop(0))
            while waiting:
                yield self._fetch(waiting.pop(0))
        finally:
            self._cancel(waiting)

    def merge(self, task: Task, source: Source) -> Any:
        """Return the sum of the statistics, which the workers add up among themselves."""
        check_builds(self.client)
        level = [self._submit(task.learn_fragment, fragment) for fragment in source.fragments()]
        held = list(level)
        try:
            while len(level) > 1:
                parts = [level[start : start + _FAN_IN] for start in range(0, len(level), _FAN_IN)]
                level = [self._submit(merge, part) for part in parts]
                held += level
            return self._fetch(level[0]) if level else None
        finally:
            self._cancel(held)

    def _submit(self, function: Callable[..., Any], *arguments: Any) -> Any:
        return self.client.submit(function, *arguments, retries=self.retries, pure=False)

    def _fetch(self, future: Any) -> Any:
        from distributed import KilledWorker
        from distributed import TimeoutError as LateError

        try:
            return future.result(self.timeout)
        except KilledWorker as error:
            raise TableError(
                f"the workers that read a part of the table were lost again and again ({error}), perhaps for lack of"
                " memory; nothing was counted: give them more, or read with fewer threads a worker"
            ) from error
        except (LateError, TimeoutError) as error:
            raise TableError(
                f"a worker did not answer within {self.timeout} seconds; nothing was counted: end it, and run the call"
                " again"
            ) from error

    def _cancel(self, futures: Iterable[Any]) -> None:
        for future in futures:
            if not future.done():
                future.cancel()
            future.release()


def _connect(distributed: Any, scheduler: str) -> Any:
    """Return a client of a scheduler that runs already, and has workers."""
    try:
        client = distributed.Client(scheduler, timeout=10)
    except (OSError, ValueError, TimeoutError) as error:
        raise TableError(
            f"--scheduler {scheduler}: no scheduler answers ({error}); start one with: dask scheduler"
        ) from error
    if client.nthreads():
        return client
    client.close()
    raise TableError(f"--scheduler {scheduler}: it has no workers; start some with: dask worker {scheduler}")


def check_builds(client: Any) -> None:
    """Raise `TableError` where a worker has another build of hybridbn.

    Examples
    --------
    >>> class Client:
    ...     def run(self, function):
    ...         return {"tcp://here:1": function(), "tcp://there:1": "abc"}
    >>> check_builds(Client())
    Traceback (most recent call last):
        ...
    hybridbn.errors.TableError: the worker tcp://there:1 has another build of hybridbn than this process; install the
    same on all machines
    """
    from hybridbn.tables.backends.processes import hash_build, refuse_other_build

    for address, build in client.run(hash_build).items():
        refuse_other_build(build, f"the worker {address}")
