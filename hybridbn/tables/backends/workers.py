"""Backends with workers: the processes or threads of an executor, a cluster of dask, and Spark.

Fragments are sent to the workers, which must have the same build of hybridbn: a hash tells whether they do. dask and
Spark also merge what the workers learned in a tree.
"""

from __future__ import annotations

import hashlib
import io
import itertools
import math
import multiprocessing
import os
import pickle
import platform
import signal
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import BrokenExecutor, Executor, ProcessPoolExecutor
from contextlib import ExitStack, closing, contextmanager, nullcontext
from dataclasses import dataclass
from functools import cache, partial
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar, NoReturn, TypeVar

import hybridbn
from hybridbn.errors import HybridBNError, TableError, warn_user
from hybridbn.jobs import check_jobs, run_in_executor
from hybridbn.registry import LazyModule, import_library
from hybridbn.tables.backends.base import (
    BATCH_ROWS,
    FILE_BITS,
    Backend,
    Batch,
    Fragment,
    Source,
    Task,
    merge,
    number_batches,
)
from hybridbn.tables.backends.sources import ArrowTable
from hybridbn.tables.columns import is_of_library
from hybridbn.tables.frames.arrow import validate

pyarrow: LazyModule = LazyModule("pyarrow")
pyspark: LazyModule = LazyModule("pyspark")

Result = TypeVar("Result")

_FAN_IN = 16
"""The number of statistics that are merged at a time."""
_QUIET = 60
"""After so many seconds in which a cluster gave nothing, it is asked whether it is still there."""


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
    wraps: ClassVar[tuple[str, str]] = ("concurrent.futures", "Executor")

    workers: int

    def __init__(self, executor: Executor | None = None, workers: int = -1) -> None:
        self._executor, self.workers = executor, check_jobs(workers)

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
            with (
                nullcontext(self._executor)
                if self._executor is not None
                else open_pool(min(self.workers, max(len(items), 1))) as executor
            ):
                yield from run_in_executor(executor, function, items, "the task", self.workers)
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
    # what ends all of a terminal's processes is left to the one that others wait for
    with ProcessPoolExecutor(workers, context, signal.signal, (signal.SIGINT, signal.SIG_IGN)) as pool:
        try:
            yield pool
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


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
        digest.update(f"{name.as_posix()}\0".encode() + path.read_bytes())
    return digest.hexdigest()


def call_checked(build: str, function: Callable[..., Any], *arguments: Any) -> Any:
    """Return what a function returns, or the error that says what is wrong with the data; in another build, an error.

    Errors are returned, because whoever runs tasks tries again what raises one.

    Examples
    --------
    >>> call_checked(hash_build(), divmod, 7, 3)
    (2, 1)
    >>> call_checked("abc", divmod, 7, 3)  # doctest: +ELLIPSIS
    TableError('a worker on ... has another build of hybridbn than the process that calls it; install the same ...')
    """
    try:
        if build != hash_build():
            raise TableError(
                f"a worker on {platform.node()} has another build of hybridbn than the process that calls it; install"
                " the same on all machines"
            )
        return function(*arguments)
    except HybridBNError as error:
        return error


def _raise_error(result: Any) -> Any:
    """Return what a task returned, unless it is an error."""
    if isinstance(result, HybridBNError):
        raise result
    return result


# -- dask --------------------------------------------------------------------------------------------------------------


class Dask(Backend):
    """Sends the fragments to the workers of a cluster of dask.

    A fragment that is lost with its worker is read again by another, `retries` times; what comes back is exact, or an
    error. A worker that dask hears nothing of for five minutes (``distributed.scheduler.worker-ttl``) is lost, too.
    Whenever no fragment comes back for a minute, the scheduler is asked: one that is silent or has no workers ends the
    call with an error, otherwise a warning tells. The workers need the same build of hybridbn, which each task checks,
    and the same files.

    Parameters
    ----------
    client : distributed.Client, optional
        By default the client that was made last.
    retries : int
        How often a fragment is read again after an error.
    timeout : float, optional
        Seconds that a pass over the rows waits for the cluster in all before it ends with an error; by default as long
        as its workers live, though they may hang.

    Examples
    --------
    >>> Dask().name
    'dask'
    """

    name = "dask"
    wraps: ClassVar[tuple[str, str]] = ("distributed", "Client")

    def __init__(self, client: Any = None, *, retries: int = 2, timeout: float | None = None) -> None:
        self._client, self._retries, self._timeout = client, retries, timeout

    @classmethod
    @contextmanager
    def start(cls, workers: int | None = None, scheduler: str | None = None) -> Iterator[Backend]:
        """Connect to a scheduler, or to a cluster of this machine."""
        distributed = import_library("distributed", "--backend dask needs dask: pip install 'hybridbn[scale]'")
        with ExitStack() as stack:
            if scheduler is None:
                cluster = distributed.LocalCluster(n_workers=workers, threads_per_worker=1, dashboard_address=None)
                client = stack.enter_context(distributed.Client(stack.enter_context(cluster)))
            else:
                client = stack.enter_context(_connect(distributed, scheduler))
            yield cls(client)

    @property
    def client(self) -> Any:
        """The client."""
        if self._client is None:
            distributed = import_library("distributed", "backend='dask' needs dask: pip install 'hybridbn[scale]'")
            try:
                self._client = distributed.get_client()
            except ValueError:
                raise TableError(
                    "backend='dask' needs a cluster: make a distributed.Client, and give it as backend="
                ) from None
        return self._client

    def map(self, function: Callable[[Fragment], Result], items: Sequence[Fragment]) -> Iterator[Result]:
        """Yield the results in the order of the fragments, of which a few are under way for each worker."""
        with closing(_DaskPass(self, "of the parts of the table the first {} were answered")) as tasks:
            width = max(4, 2 * sum(tasks.count_threads().values()))
            for item in items:
                tasks.submit(partial(function, item))
                if len(tasks.futures) >= width:
                    yield tasks.fetch_first()
            while tasks.futures:
                yield tasks.fetch_first()

    def merge(self, task: Task, source: Source) -> Any:
        """Return the sum of the statistics, which the workers add up among themselves."""
        with closing(_DaskPass(self, "nothing was counted")) as tasks:
            level = [tasks.submit(partial(task.learn_fragment, fragment)) for fragment in source.fragments()]
            while len(level) > 1:
                parts = [level[start : start + _FAN_IN] for start in range(0, len(level), _FAN_IN)]
                level = [tasks.submit(_merge_results, part) for part in parts]
            return tasks.fetch(level[0]) if level else None


class _DaskPass:
    """The tasks of a pass over the rows that a cluster has, and how long they may still be waited for.

    `counted` tells, in errors, what was counted when so many tasks were fetched.
    """

    def __init__(self, backend: Dask, counted: str) -> None:
        self._backend, self._counted, self._fetched = backend, counted, 0
        self._left = math.inf if backend._timeout is None else backend._timeout
        self.futures: list[Any] = []

    def close(self) -> None:
        """Let go of all tasks."""
        # nobody computes what no client holds; to cancel it would wait for a scheduler that may be gone
        for future in self.futures:
            future.release()

    def submit(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Return the future of a function, which goes with the hash of this build."""
        packed = import_module("cloudpickle").dumps(function)
        with self._explain():
            future = self._backend.client.submit(
                call_checked, hash_build(), _run, packed, *arguments, retries=self._backend._retries, pure=False
            )
        self.futures.append(future)
        return future

    def fetch_first(self) -> Any:
        """Return the result of the task that was submitted first, and let go of it."""
        result = self.fetch(self.futures[0])
        self.futures.pop(0).release()
        self._fetched += 1
        return result

    def fetch(self, future: Any) -> Any:
        """Return the result of a task; what is wrong with the data is raised, and `TableError` where dask failed."""
        while True:
            done = self._count_done()
            with self._explain(future):
                try:
                    return _raise_error(self._wait(future.result))
                except TimeoutError:
                    if future.status == "error" or self._left <= 0:
                        raise
            if self._count_done() == done:
                if not self.count_threads():
                    raise TableError(f"the cluster of dask has lost its workers; {self._tell()}: start some")
                warn_user(
                    f"no part of the table came back from the workers of dask for {_QUIET} seconds; if they hang, end"
                    " them, or give up sooner with hybridbn.tables.backends.workers.Dask(client, timeout=...)"
                )

    def count_threads(self) -> Any:
        """Return how many threads each worker has."""
        with self._explain():
            return self._wait(lambda seconds: self._backend.client.nthreads(callback_timeout=seconds))

    def _wait(self, call: Callable[[float], Result]) -> Result:
        """Return the result of a call that is told how many seconds it may take."""
        began = time.monotonic()
        try:
            return call(max(min(self._left, _QUIET), 0))
        finally:
            self._left -= time.monotonic() - began

    def _count_done(self) -> int:
        return sum(future.done() for future in self.futures)

    def _tell(self) -> str:
        return self._counted.format(self._fetched)

    @contextmanager
    def _explain(self, future: Any = None) -> Iterator[None]:
        """Pass on what a task raised, and tell what went wrong on the way to it and back."""
        try:
            yield
        except HybridBNError:
            raise
        except Exception as error:
            raised, cause = future is not None and future.status == "error", error.__cause__
            is_of_dask = type(error).__module__.startswith("distributed")
            seconds = _QUIET if self._left > 0 else self._backend._timeout
            situations = (
                (
                    raised and isinstance(cause, ImportError | AttributeError),
                    f"dask could not read a task ({cause})",
                    "install the same build of hybridbn on all machines",
                ),
                (
                    raised and is_of_dask,
                    f"the workers that read a part of the table were lost again and again ({error})",
                    "give them more memory, or read with fewer threads a worker",
                ),
                (raised, "", "what the task itself raised"),
                (
                    isinstance(error, TimeoutError),
                    f"dask did not answer within {seconds:g} seconds",
                    "end workers that hang, and run the call again",
                ),
                (
                    True,
                    f"the connection to the cluster of dask was lost ({' '.join(str(error).split())})",
                    "run the call again",
                ),
            )
            reason, remedy = next((reason, remedy) for holds, reason, remedy in situations if holds)
            if not reason:
                raise
            raise TableError(f"{reason}; {self._tell()}: {remedy}") from error


def _run(packed: bytes, *arguments: Any) -> Any:
    return pickle.loads(packed)(*arguments)  # what the same call packed


def _merge_results(results: Iterable[Any]) -> Any:
    """Return the sum of statistics, or raise the error that is among them."""
    return merge(map(_raise_error, results))


def _connect(distributed: Any, scheduler: str) -> Any:
    """Return a client of a scheduler that runs already, and has workers."""
    try:
        client = distributed.Client(scheduler, timeout=10)
        threads = client.nthreads(callback_timeout=10)
    except (OSError, TypeError, ValueError) as error:
        raise TableError(
            f"--scheduler {scheduler}: no scheduler answers ({error}); start one with: dask scheduler"
        ) from error
    if threads:
        return client
    client.close()
    raise TableError(f"--scheduler {scheduler}: it has no workers; start some with: dask worker {scheduler}")


# -- Spark -------------------------------------------------------------------------------------------------------------


class Spark(Backend):
    """Reads frames of Spark where their partitions are, by `mapInArrow`, and lets its workers read files.

    A partition that is lost is read again as often as ``spark.task.maxFailures`` says; what comes back is exact, or an
    error. A frame is computed anew for every pass: cache one that takes long, and one that is not the same every time.
    Rows are numbered by their partitions, so that a sample of fewer rows than the frame has depends on these. The
    workers need the same build of hybridbn, and see the same files where files are scanned.

    Parameters
    ----------
    session : pyspark.sql.SparkSession, optional
        By default that of the frame, or the active one.

    Examples
    --------
    >>> Spark().name
    'spark'
    """

    name = "spark"
    wraps: ClassVar[tuple[str, str]] = ("pyspark.sql", "SparkSession")

    def __init__(self, session: Any = None) -> None:
        self._session = session

    @classmethod
    @contextmanager
    def start(cls, workers: int | None = None, scheduler: str | None = None) -> Iterator[Backend]:
        """Start a session, which is that of spark-submit, or one of this machine with so many workers."""
        spark = import_library("pyspark.sql", "--backend spark needs Spark: pip install 'hybridbn[spark]'")
        builder = spark.SparkSession.builder
        builder = builder if workers is None else builder.master(f"local[{workers}]")
        with builder.getOrCreate() as session:
            yield cls(session)

    @property
    def session(self) -> Any:
        """The session that runs the tasks."""
        if self._session is None:
            spark = import_library("pyspark.sql", "backend='spark' needs Spark: pip install 'hybridbn[spark]'")
            self._session = spark.SparkSession.getActiveSession()
            if self._session is None:
                raise TableError("backend='spark' needs a session: make a SparkSession, and give it as backend=")
        return self._session

    def open(self, data: Any) -> Source | None:
        """Return a frame."""
        if not is_of_library(data, "pyspark.sql", "DataFrame"):
            return None
        self._session = self._session or data.sparkSession
        schema = import_module("pyspark.sql.pandas.types").to_arrow_schema(data.schema)
        return ArrowTable("the frame of Spark", schema, [_Frame(data)])

    def map(self, function: Callable[[Fragment], Result], items: Sequence[Fragment]) -> Iterator[Result]:
        """Yield the results in the order of the fragments; those of a frame are one for each of its partitions."""
        with _explain():
            results = self._distribute(function, items)
            context = results.context
            width = 2 * context.defaultParallelism
            count = results.getNumPartitions()
            for start in range(0, count, width):
                for _, packed in context.runJob(results, list, range(start, min(start + width, count))):
                    yield _unpack(packed)

    def merge(self, task: Task, source: Source) -> Any:
        """Return the sum of the statistics, which the workers add up among themselves."""
        with _explain():
            results = self._distribute(task.learn_fragment, source.fragments())
            while results.getNumPartitions() > _FAN_IN:
                groups = -(-results.getNumPartitions() // _FAN_IN)
                grouped = results.groupBy(lambda result: result[0] // _FAN_IN, groups)
                results = grouped.mapValues(partial(_merge_packed, hash_build()))
            return merge(_unpack(packed) for _, packed in sorted(results.collect()))

    def answer(self, task: Task, source: Source) -> Iterator[Any]:
        """Yield what the batches become, in the order of the rows."""
        for answers in self.map(task.answer_fragment, source.fragments()):
            yield from answers

    def _distribute(self, function: Callable[[Fragment], Any], items: Sequence[Fragment]) -> Any:
        """Return the results as an RDD of numbers in the order of the rows, and what is packed."""
        context, frames = self.session.sparkContext, list[Any]()
        call = partial(_call, hash_build(), _pack(function, frames))
        packed = [_pack(item, frames) for item in items]
        if not frames:
            numbered = context.parallelize(list(enumerate(packed)), max(len(packed), 1))
            return numbered.mapValues(call)
        # the columns that a function of the frame reads come out when there are no rows
        asked = _Asked()
        function(_unpack(packed[0], asked))
        names = [*asked.columns] or frames[0].columns[:1]
        # Spark can't find columns by any name
        places = [f"c{frames[0].columns.index(name)}" for name in names]
        frame = frames[0].toDF(*(f"c{place}" for place in range(len(frames[0].columns)))).select(places)
        return frame.mapInArrow(partial(_run_on_rows, call, packed[0], names), "number long, packed binary").rdd.map(
            tuple
        )


@dataclass(frozen=True)
class _Frame(Fragment):
    """All rows of a frame, which is one fragment here and as many there as it has partitions."""

    frame: Any

    def batches(self, columns: Sequence[str], rows: int = BATCH_ROWS) -> Iterator[Batch]:
        """Yield the rows in this process, some partitions at a time."""
        spark = Spark(self.frame.sparkSession)
        for batches in spark.map(lambda partition: list(partition.batches(columns, rows)), [self]):
            yield from batches

    def __reduce__(self) -> NoReturn:
        raise TableError(
            "a frame of Spark can't be sent to other processes; leave the backend out: Spark has workers of its own"
        )


class _Asked(Fragment):
    """No rows; it notes what columns are asked for."""

    columns: Sequence[str] = ()

    def batches(self, columns: Sequence[str], rows: int = BATCH_ROWS) -> Iterator[Batch]:
        """Yield nothing."""
        self.columns = columns
        yield from ()


class _Partition(Fragment):
    """The rows of a partition where it is; they can be read once."""

    def __init__(self, number: int, batches: Iterable[Any]) -> None:
        self.number, self._batches = number, batches

    def batches(self, columns: Sequence[str], rows: int = BATCH_ROWS) -> Iterator[Batch]:
        """Yield the rows in batches that are larger than Spark's, whose ten thousand rows take longer in all."""
        chosen = (validate(data.select(list(columns))) for data in _join(self._batches, rows))
        yield from number_batches(chosen, self.number << FILE_BITS)


def _join(batches: Iterable[Any], rows: int) -> Iterator[Any]:
    held: list[Any] = []
    for batch in itertools.chain(batches, [None]):
        if held and (batch is None or sum(one.num_rows for one in held) + batch.num_rows > rows):
            yield from pyarrow.Table.from_batches(held).combine_chunks().to_batches(rows)
            held = []
        if batch is not None and batch.num_rows:
            held.append(batch)


# -- what goes to the workers and comes back ---------------------------------------------------------------------------


def _pack(value: Any, frames: list[Any]) -> bytes:
    """Return a pickle, in which a frame stands for the rows of the partition that is read; note the frame."""
    base: Any = pyspark.cloudpickle.CloudPickler

    class Packer(base):  # type: ignore[misc]
        def persistent_id(self, part: Any) -> str | None:
            if isinstance(part, _Frame):
                frames.append(part.frame)
                return "rows"
            return None

    file = io.BytesIO()
    Packer(file).dump(value)
    return file.getvalue()


class _Unpacker(pickle.Unpickler):
    rows: Fragment | None = None

    def persistent_load(self, name: str) -> Fragment | None:
        """Return the rows that stand for the frame."""
        return self.rows


def _unpack(packed: bytes, rows: Fragment | None = None) -> Any:
    unpacker = _Unpacker(io.BytesIO(packed))
    unpacker.rows = rows
    return _raise_error(unpacker.load())


def _call(build: str, function: bytes, item: bytes, rows: Fragment | None = None) -> bytes:
    """Return the packed result of a packed function of a fragment."""
    return _pack(call_checked(build, lambda: _unpack(function)(_unpack(item, rows))), [])


def _run_on_rows(
    call: Callable[..., bytes], item: bytes, names: Sequence[str], batches: Iterable[Any]
) -> Iterator[Any]:
    number = pyspark.TaskContext.get().partitionId()
    packed = call(item, _Partition(number, (batch.rename_columns(names) for batch in batches)))
    yield pyarrow.record_batch({"number": [number], "packed": [packed]})


def _merge_packed(build: str, results: Iterable[tuple[int, bytes]]) -> bytes:
    """Return the sum of packed statistics, in their order, so that it is the same to the last bit every time."""
    return _pack(call_checked(build, lambda: merge(_unpack(packed) for _, packed in sorted(results))), [])


@contextmanager
def _explain() -> Iterator[None]:
    try:
        yield
    except Exception as error:
        if not type(error).__module__.startswith(("py4j", "pyspark")):
            raise
        # the last line before the calls of Java
        line = str(error).split("\n\tat ")[0].strip().splitlines()[-1]
        cause = line.rpartition(" executor driver): ")[2]
        raise TableError(
            f"Spark did not read all parts of the table ({cause:.400}); nothing was counted: if a worker ended, perhaps"
            " for lack of memory, run the call again with smaller partitions or more memory"
        ) from error
