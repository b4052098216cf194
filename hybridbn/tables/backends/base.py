"""The contract between tables that are read in batches, what is computed of a batch, and who computes it.

A `Source` is divided into fragments, each of which any process can read by itself. A `Task` turns a batch into
statistics that add up (`learn`), or into an answer of its own (`answer`). A `Backend` runs tasks over the fragments;
there is nothing else between workers, so that one that is lost costs its fragment and no more. What a worker returns is
small: counts, moments, a sample.
"""

from __future__ import annotations

import functools
import operator
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from itertools import accumulate
from typing import Any, ClassVar, NamedTuple, TypeVar

from hybridbn.errors import TableError
from hybridbn.jobs import track
from hybridbn.registry import Registered, Registry
from hybridbn.tables import Table
from hybridbn.tables.cells import UnsupportedType
from hybridbn.tables.columns import is_of_library
from hybridbn.tables.formats.base import OtherKind, TableSource, name_file_in_errors
from hybridbn.tables.frames.arrow import number_rows
from hybridbn.units import Unit
from hybridbn.variables import Values, Variable, shorten

BATCH_ROWS = 1 << 17
"""Rows of a batch: enough that Python's share of the work is small, few enough that a batch is a few MB."""
FILE_BITS = 40
"""Rows are numbered by their file, times two to this power, plus their place in it."""

Result = TypeVar("Result")


class Batch(NamedTuple):
    """Some consecutive rows.

    Attributes
    ----------
    first : int
        The number of the first row, which is the same whoever reads the table, and in batches of whatever size.
    data : pyarrow.RecordBatch
    whole : frozenset of str
        Columns of floats all of which are written as whole numbers.
    """

    first: int
    data: Any
    whole: frozenset[str] = frozenset()


def number_batches(batches: Iterable[Any], first: int) -> Iterator[Batch]:
    """Give record batches that follow each other with the numbers of their first rows, but for empty ones."""
    return (Batch(start, data) for start, data in number_rows(batches, first) if data.num_rows)


class Fragment(ABC):
    """A part of a table that any process can read by itself; small when it is pickled.

    Attributes
    ----------
    rows : int or None
        How many there are, where that is known.
    shown : str
        What messages call the file that it is in, where there are several.
    """

    rows: int | None = None
    shown: str = ""

    @abstractmethod
    def batches(self, columns: Sequence[str], rows: int = BATCH_ROWS) -> Iterator[Batch]:
        """Yield the rows in their order, with these columns only, in batches of about so many rows."""


class Source(ABC):
    """A table outside of this process's memory.

    Attributes
    ----------
    shown : str
        What messages call it.
    schema : pyarrow.Schema
    notes : mapping from column to mapping
        What hybridbn noted about columns when it wrote the table: "kind", "states", "declared", "ordered".
    faults : mapping from column to UnsupportedType
        Columns that are not read, as nothing can be computed with them.
    untyped : sequence of str
        Columns of which nothing tells what they are where all of their cells are missing.
    open : callable, optional
        Opens the only file, whose cells are those of the table but for missing ones.
    """

    shown: str
    schema: Any
    open: Callable[[], TableSource] | None = None
    notes: Mapping[str, Mapping[str, Any]] = {}
    faults: Mapping[str, UnsupportedType] = {}
    untyped: Sequence[str] = ()

    @abstractmethod
    def fragments(self) -> Sequence[Fragment]:
        """Return the parts of the table, in the order of its rows."""

    def ends(self) -> Mapping[int, int]:
        """Return how many rows each file has, by its number, where statistics of `learn` do not tell it."""
        return {}

    @property
    def units(self) -> Mapping[str, Unit]:
        """The units of columns of text that are dates or times."""
        return {}

    def prepare(self, names: Iterable[str]) -> None:
        """Find out, before the first pass, what those of these columns are whose texts are too many for it."""
        return

    def read(self) -> Table:
        """Return a table without rows, which has no batches."""
        return Table(self.schema.empty_table())

    def settle(self, names: Iterable[str], fault: UnsupportedType | None = None) -> None:
        """Find out what columns are whose cells are not all of the kind of the first ones, or leave alone one with
        which nothing can be computed.
        """
        raise OtherKind(next(iter(names)))

    def settle_texts(self, texts: Mapping[str, Sequence[str] | None]) -> bool:
        """Find out what columns of text are, given their texts, or None where these are too many; return whether any is
        read otherwise now.
        """
        return False

    def learn(self, task: Task) -> Any:
        """Return the statistics of a task where the table's own engine computes them; None where the rows are read."""
        return None

    def count(
        self, families: Sequence[tuple[str, ...]], variables: Mapping[str, Variable], weights: str | None
    ) -> dict[tuple[str, ...], Values]:
        """Return joint counts of columns, or sums of a column of weights, where the table's own engine counts."""
        return {}


class Task(ABC):
    """What is computed of a batch of rows: without state, and small when it is pickled.

    Attributes
    ----------
    columns : sequence of str
        The columns that are read.
    """

    columns: Sequence[str]

    @abstractmethod
    def learn(self, batch: Batch) -> Any:
        """Return statistics of a batch; ``a + b`` are those of the rows of both."""

    def answer(self, batch: Batch) -> Any:
        """Return what a batch becomes: by default its statistics."""
        return self.learn(batch)

    def learn_fragment(self, fragment: Fragment) -> Any:
        """Return the statistics of a fragment, None if it has no rows."""
        with name_file_in_errors(fragment.shown):
            return merge(map(self.learn, fragment.batches(self.columns)))

    def answer_fragment(self, fragment: Fragment) -> list[Any]:
        """Return what the batches of a fragment become."""
        with name_file_in_errors(fragment.shown):
            return list(map(self.answer, fragment.batches(self.columns)))


def merge(statistics: Iterable[Any]) -> Any:
    """Return the sum of statistics, None if there are none.

    Examples
    --------
    >>> merge([2, None, 3]), merge([])
    (5, None)
    """
    known = (one for one in statistics if one is not None)
    first = next(known, None)
    return functools.reduce(operator.add, known, first)


class Backend(Registered, ABC):
    """Who runs tasks over the fragments of a table. A subclass with a `name` can be asked for by it.

    A backend implements `map`; everything else follows. `wraps` is the module and the class of objects that users
    already have and that stand for the backend, such as a client; it is made of one of them.

    Examples
    --------
    >>> class Backward(Backend):
    ...     def map(self, function, items):
    ...         return [function(item) for item in items[::-1]][::-1]
    >>> import tempfile, hybridbn as hb
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     hb.Table({"c": ["a", "b", "b"]}).write(f"{folder}/t.parquet")
    ...     net = hb.fit([], hb.scan(f"{folder}/t.parquet", backend=Backward()))
    >>> net.potential("c").table
    array([0.4, 0.6])
    """

    name: ClassVar[str] = ""
    wraps: ClassVar[tuple[str, str]] = ("", "")
    in_process: ClassVar[bool] = False
    """Whether functions run in this process, so that they need not be pickled."""
    registry: ClassVar[Registry[type[Backend]]] = Registry("backend", "hybridbn.tables.backends", "name")

    @classmethod
    def owns(cls, given: Any) -> bool:
        """Return whether an object of a user stands for a backend of this kind, which is made of it."""
        return is_of_library(given, *cls.wraps)

    @classmethod
    @contextmanager
    def start(cls, workers: int | None = None, scheduler: str | None = None) -> Iterator[Backend]:
        """Start the backend for a command, with what ends with the statement.

        Parameters
        ----------
        workers : int, optional
            How many share the work. By default the backend has nothing to start, and refuses a number.
        scheduler : str, optional
            The address of one that runs already, for backends that have such a thing.
        """
        if workers is not None:
            raise TableError(f"the backend {cls.name!r} has workers of its own; leave --workers out")
        yield cls()

    def open(self, data: Any) -> Source | None:
        """Return the source that an object of this engine is, such as a relation; None if it is none of this kind."""
        return None

    @abstractmethod
    def map(self, function: Callable[[Fragment], Result], items: Sequence[Fragment]) -> Iterable[Result]:
        """Yield the results of a function in the order of the items, few of which are held at a time."""

    def learn(self, task: Task, source: Source) -> Any:
        """Return the statistics of all rows."""
        own = source.learn(task)
        return own if own is not None else self.merge(task, source)

    def merge(self, task: Task, source: Source) -> Any:
        """Return the sum of the statistics of all fragments."""
        return merge(self._run(task.learn_fragment, source, "scanning"))

    def answer(self, task: Task, source: Source) -> Iterator[Any]:
        """Yield what the batches become, in the order of the rows."""
        for answers in self._run(task.answer_fragment, source, "answering"):
            yield from answers

    def _run(self, function: Callable[[Fragment], Result], source: Source, what: str) -> Iterator[Result]:
        fragments = source.fragments()
        counts = [fragment.rows for fragment in fragments]
        unit = "rows" if all(counts) else "parts"
        steps = [count or 0 for count in counts] if unit == "rows" else [1] * len(counts)
        with track(what, sum(steps), unit=unit) as report:
            for done, result in zip(accumulate(steps), self.map(function, fragments), strict=True):
                yield result
                report(done, "")


def find_backend(given: Any) -> Backend:
    """Return the backend that a name or an object stands for.

    Examples
    --------
    >>> find_backend(None).name
    'local'
    >>> find_backend("lokal")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    hybridbn.errors.TableError: backend='lokal' is not known; choose one of ...
    """
    if isinstance(given, Backend):
        return given
    is_named = given is None or isinstance(given, str)
    kind: Any = Backend.registry.find(given or "local") if is_named else Backend.registry.find_owner(given)
    if kind is None:
        raise TableError(
            f"backend={given!r:.80} is not known; choose one of {shorten(sorted(Backend.registry.load()), 9)}, or give"
            " a Backend, an Executor, a dask Client or a SparkSession"
        )
    made: Backend = kind() if is_named else kind(given)
    return made


# -- the default backend -----------------------------------------------------------------------------------------------


class Local(Backend):
    """Reads in this process, with no more memory than a few batches take."""

    name = "local"
    in_process = True

    @classmethod
    @contextmanager
    def start(cls, workers: int | None = None, scheduler: str | None = None) -> Iterator[Backend]:
        """Start processes, if there are to be several workers."""
        processes = cls.registry.load()["processes"]
        with nullcontext(cls()) if (workers or 1) == 1 else processes.start(workers) as backend:
            yield backend

    def map(self, function: Callable[[Fragment], Result], items: Sequence[Fragment]) -> Iterator[Result]:
        """Yield the results one by one."""
        return map(function, items)
