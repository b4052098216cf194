"""What dask and Spark are asked for, with stand-ins of them in this process: starting, packing, order and merging.

Real clusters are those of `test_scale_faults` and `test_spark`, which are slow.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from numbered_source import Numbers
from test_scans import same

import hybridbn as hb
from hybridbn.tables.backends import workers
from hybridbn.tables.backends.base import Batch, Task
from hybridbn.tables.backends.workers import Dask, Spark

cloudpickle = pytest.importorskip("cloudpickle")
pa = pytest.importorskip("pyarrow")


class Listing(Task):
    """Statistics whose sums tell in what order they were added."""

    columns = ()

    def learn(self, batch: Batch) -> tuple[int, ...]:
        return (batch.first,)

    def answer(self, batch: Batch) -> int:
        return batch.first


# -- Spark -------------------------------------------------------------------------------------------------------------


@dataclass
class Rdd:
    context: Any
    partitions: list[list[Any]]

    def map(self, function: Callable[[Any], Any]) -> Rdd:
        return Rdd(self.context, [[function(one) for one in part] for part in self.partitions])

    def mapValues(self, function: Callable[[Any], Any]) -> Rdd:  # as Spark names it
        return self.map(lambda pair: (pair[0], function(pair[1])))

    def groupBy(self, function: Callable[[Any], Any], count: int) -> Rdd:  # as Spark names it
        groups: dict[Any, list[Any]] = {}
        for value in [one for part in reversed(self.partitions) for one in part]:
            groups.setdefault(function(value), []).append(value)
        self.context.groupings.append(count)
        return Rdd(self.context, [[pair for pair in groups.items() if pair[0] % count == i] for i in range(count)])

    def getNumPartitions(self) -> int:
        return len(self.partitions)

    def collect(self) -> list[Any]:
        return [one for part in reversed(self.partitions) for one in part]


@dataclass
class Context:
    defaultParallelism: int = 3  # noqa: N815
    jobs: list[list[int]] = field(default_factory=list)
    groupings: list[int] = field(default_factory=list)

    def parallelize(self, items: list[Any], count: int) -> Rdd:
        assert count == max(len(items), 1)
        return Rdd(self, [[one] for one in items] or [[]])

    def runJob(self, rdd: Rdd, function: Callable[[Any], Any], chosen: Iterable[int]) -> list[Any]:
        self.jobs.append(list(chosen))
        return [one for number in self.jobs[-1] for one in function(iter(rdd.partitions[number]))]


class Frame:
    """A frame of some partitions of record batches."""

    def __init__(self, session: Any, partitions: list[list[Any]]) -> None:
        self.sparkSession, self.partitions = session, partitions
        self.schema = partitions[0][0].schema
        self.columns = self.schema.names

    def toDF(self, *names: str) -> Frame:
        return Frame(self.sparkSession, [[batch.rename_columns(names) for batch in p] for p in self.partitions])

    def select(self, names: list[str]) -> Frame:
        self.sparkSession.sparkContext.selected.append(names)
        return Frame(self.sparkSession, [[batch.select(names) for batch in part] for part in self.partitions])

    def mapInArrow(self, function: Callable[[Any], Iterator[Any]], schema: str) -> Any:
        assert schema == "number long, packed binary"
        parts = []
        for number, part in enumerate(self.partitions):
            sys.modules["pyspark"].TaskContext.number = number
            rows = [row for batch in function(iter(part)) for row in batch.to_pylist()]
            parts.append([tuple(row.values()) for row in rows])
        return SimpleNamespace(rdd=Rdd(self.sparkSession.sparkContext, parts))


class Here:
    """The context of a task."""

    number = 0

    @classmethod
    def get(cls) -> Any:
        return SimpleNamespace(partitionId=lambda: cls.number)


class Session:
    """A session, which is also the builder of sessions, and the class whose instances sessions are."""

    active: Any = None
    builder: Any = None

    def __init__(self) -> None:
        self.sparkContext = Context()
        self.sparkContext.selected = []  # type: ignore[attr-defined]
        self.asked: list[str] = []

    @classmethod
    def getActiveSession(cls) -> Any:
        return cls.active

    def master(self, name: str) -> Session:
        self.asked.append(name)
        return self

    def getOrCreate(self) -> Session:
        return self

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_: Any) -> None:
        self.asked.append("stopped")


@pytest.fixture
def session(monkeypatch: pytest.MonkeyPatch) -> Session:
    names = ("pyspark", "pyspark.sql", "pyspark.sql.pandas", "pyspark.sql.pandas.types")
    modules = {name: ModuleType(name) for name in names}
    vars(modules["pyspark"]).update(cloudpickle=cloudpickle, TaskContext=Here)
    vars(modules["pyspark.sql"]).update(SparkSession=Session, DataFrame=Frame)
    vars(modules[names[-1]]).update(to_arrow_schema=lambda schema: schema)
    for name, module in modules.items():
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.setattr(Session, "builder", Session())
    return Session()


@pytest.mark.parametrize("count", [0, 1, 16, 17, 300])
def test_results_of_spark_come_in_the_order_of_the_rows(session: Session, count: int) -> None:
    backend, source = Spark(session), Numbers(count)
    assert list(backend.answer(Listing(), source)) == [*range(count)]
    jobs = session.sparkContext.jobs
    assert [number for job in jobs for number in job] == [*range(max(count, 1))]
    assert max(map(len, jobs)) <= 6  # few results are held at a time
    assert backend.merge(Listing(), source) == (tuple(range(count)) or None)
    assert session.sparkContext.groupings == {17: [2], 300: [19, 2]}.get(count, [])


def make_frame(session: Session, rows: int) -> tuple[Frame, dict[str, list[Any]]]:
    """Return a frame of three partitions, one of which is empty, and its rows."""
    letters = [("a", "b", "b", "c")[number % 4] for number in range(rows)]
    data: dict[str, list[Any]] = {"odd `1`.2": letters, "x": [float(number % 7) for number in range(rows)]}
    data["d"] = ["v" if number % 5 < 2 or letters[number] == "a" else "u" for number in range(rows)]
    table = pa.table(data)
    parts = [table.slice(0, 10).to_batches() + table.slice(10, 15).to_batches(), table.slice(25).to_batches()]
    parts.insert(1, [pa.record_batch([[], [], []], schema=table.schema)])
    return Frame(session, parts), data


def test_frames_of_spark_give_what_memory_gives(session: Session) -> None:
    frame, data = make_frame(session, 60)
    scan, known = hb.scan(frame), hb.Table(data)
    assert len(scan) == 60
    assert scan.variables == known.variables
    arcs = [("d", "odd `1`.2"), ("d", "x")]
    assert same(hb.fit(arcs, scan), hb.fit(arcs, known))
    rows = pa.Table.from_batches(hb.scan(frame, backend="local").batches())
    assert rows.to_pydict() == data
    assert session.sparkContext.selected[-1] == ["c0", "c1", "c2"]  # type: ignore[attr-defined]
    hb.scan(frame, columns=["x"]).value_range("x")
    assert session.sparkContext.selected[-1] == ["c1"]  # type: ignore[attr-defined]


def test_rows_of_partitions_are_joined_to_batches_of_a_size() -> None:
    parts = [pa.record_batch({"x": [*range(start, start + size)]}) for start, size in ((0, 3), (3, 0), (3, 4), (7, 9))]
    batches = list(workers._join(parts, 7))
    assert [batch.num_rows for batch in batches] == [7, 7, 2]
    assert [x for batch in batches for x in batch["x"].to_pylist()] == [*range(16)]
    fragment = workers._Partition(5, iter(parts))
    firsts = [batch.first for batch in fragment.batches(["x"], 8)]
    assert firsts == [5 << 40, (5 << 40) + 7, (5 << 40) + 15]


def test_what_workers_of_spark_raise_is_told(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    for error, kind, message in (
        (hb.TableError("own"), hb.TableError, "^own$"),
        (ZeroDivisionError("own"), ZeroDivisionError, "^own$"),
    ):

        def fail(_: Any, batch: Batch, error: Exception = error) -> Any:
            raise error

        monkeypatch.setattr(Listing, "learn", fail)
        with pytest.raises(kind, match=message):
            Spark(session).merge(Listing(), Numbers(3))

    class JavaError(Exception):
        __module__ = "py4j.protocol"

    def lose(*_: Any) -> Any:
        raise JavaError("An error\nTask 3 lost (TID 9) (host executor driver): worker died\n\tat java.Some\n\tat other")

    monkeypatch.setattr(Context, "parallelize", lose)
    with pytest.raises(
        hb.TableError, match=r"did not read all parts of the table \(worker died\); nothing was counted"
    ):
        Spark(session).merge(Listing(), Numbers(3))


def test_sessions_are_those_that_are_there_or_asked_for(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(hb.TableError, match="make a SparkSession"):
        _ = Spark().session
    monkeypatch.setattr(Session, "active", session)
    assert Spark().session is session
    other = Session()
    assert Spark(other).session is other
    frame, _ = make_frame(session, 30)
    backend = Spark()
    assert backend.open(frame) is not None
    assert backend.session is frame.sparkSession
    assert backend.open({"x": [1]}) is None
    for count, asked in ((3, ["local[3]", "stopped"]), (None, ["stopped"])):
        Session.builder.asked.clear()
        with Spark.start(count) as started:
            assert isinstance(started, Spark)
            assert started.session is Session.builder
        assert Session.builder.asked == asked


# -- dask --------------------------------------------------------------------------------------------------------------


@dataclass
class Client:
    """A client, or a cluster, that notes how it was made and that it is closed."""

    scheduler: Any = None
    timeout: Any = None
    threads: int = 1
    closed: bool = False

    def nthreads(self, callback_timeout: float) -> dict[str, int]:
        return {f"tcp://{number}": 1 for number in range(self.threads)}

    def close(self) -> None:
        self.closed = True

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: Any) -> None:
        self.closed = True


def test_clusters_of_dask_are_started_or_found_and_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    module: Any = ModuleType("distributed")
    monkeypatch.setitem(sys.modules, "distributed", module)
    made: list[Any] = []

    def make_cluster(**options: Any) -> Client:
        made.append(options)
        return cluster

    cluster = Client()
    module.LocalCluster, module.Client = make_cluster, Client
    with Dask.start(3) as backend:
        assert isinstance(backend, Dask)
        assert backend.client.scheduler is cluster
        assert not cluster.closed
    assert made == [{"n_workers": 3, "threads_per_worker": 1, "dashboard_address": None}]
    assert cluster.closed
    assert backend.client.closed
    with Dask.start(None, "tcp://there") as backend:
        assert isinstance(backend, Dask)
        client = backend.client
        assert (client.scheduler, client.timeout, client.closed) == ("tcp://there", 10, False)
    assert client.closed
    assert len(made) == 1

    clients = []

    def refuse(*_: Any, **__: Any) -> Client:
        raise OSError("timed out")

    def connect(*arguments: Any, **options: Any) -> Client:
        clients.append(Client(threads=0))
        return clients[-1]

    module.Client = connect
    with pytest.raises(hb.TableError, match="tcp://there: it has no workers"), Dask.start(None, "tcp://there"):
        pass
    assert clients[0].closed
    module.Client = refuse
    with pytest.raises(hb.TableError, match="tcp://there: no scheduler answers"), Dask.start(None, "tcp://there"):
        pass
    module.get_client = lambda: cluster
    assert Dask().client is cluster

    def find_none() -> Any:
        raise ValueError("no client")

    module.get_client = find_none
    with pytest.raises(hb.TableError, match=r"make a distributed\.Client"):
        _ = Dask().client
