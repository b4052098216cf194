"""Spark: frames and files that its workers read give what memory gives; workers that fail give errors."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from narrowing import as_discrete, as_kind
from test_scans import make_data, names_of, same, write

import hybridbn as hb
from hybridbn.structures import naive_bayes, tan
from hybridbn.tables.backends import Batch, workers
from hybridbn.tables.backends.base import Task

pa = pytest.importorskip("pyarrow")
sql = pytest.importorskip("pyspark.sql")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore:PySpark does not yet fully support:FutureWarning"),
]


@pytest.fixture(scope="module")
def session() -> Iterator[Any]:
    """Two workers, each of which may fail twice."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYSPARK_PYTHON", sys.executable)
        # workers import what tests define; `pythonpath` of pytest is this process's alone
        tests = Path(__file__).parents[1]
        patch.setenv("PYTHONPATH", os.pathsep.join(map(str, [tests.parent, tests, Path(__file__).parent])))
        options = {
            "spark.ui.enabled": "false",
            "spark.driver.memory": "600m",
            "spark.driver.host": "127.0.0.1",
            "spark.sql.shuffle.partitions": "3",
            "spark.log.level": "OFF",
        }
        builder = sql.SparkSession.builder.master("local[2, 3]")
        for name, value in options.items():
            builder = builder.config(name, value)
        session = builder.getOrCreate()
        yield session
        session.stop()


def make_frame(session: Any, data: dict[str, Any], partitions: int) -> Any:
    return session.createDataFrame(pa.table(data)).repartition(partitions)


@pytest.mark.parametrize("partitions", [1, 5, 40])
def test_counts_of_a_frame_are_those_from_memory(session: Any, partitions: int) -> None:
    data = names_of(make_data(400, 1), "y", "a", "k", "t")
    scan = hb.scan(make_frame(session, data, partitions), ["k"])
    known = hb.Table(data, discrete=["k"])
    assert same(tan(scan, "y"), tan(known, "y"))
    assert len(scan) == 400
    assert scan.missing == known.missing


def test_files_are_read_by_the_workers(session: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hybridbn.tables.backends.sources._FRAGMENT_ROWS", 10)
    data = names_of(make_data(400, 2), "y", "a", "t")
    scan = hb.scan(write(tmp_path, data, groups=10), backend=session)
    assert len(scan.passes.source.fragments()) > 2 * workers._FAN_IN
    net = tan(scan, "y")
    assert same(net, tan(data, "y"))
    # answers come in the order of the rows
    np.testing.assert_allclose(net.log_density(scan), net.log_density(hb.Table(data)), rtol=1e-12)


def test_numbers_weights_and_odd_names(session: Any) -> None:
    data = make_data(300, 3)
    weights = np.random.default_rng(0).integers(1, 4, 300).astype(float)
    data["x `1`.2"] = data.pop("x")
    frame = make_frame(session, data | {"w": weights.tolist()}, 3)
    scan, table = hb.scan(frame, weights="w"), hb.Table(data, weights=weights)
    assert same(naive_bayes(scan, "y", "gaussian"), naive_bayes(table, "y", "gaussian"))
    assert scan.value_range("x `1`.2") == table.value_range("x `1`.2")


def test_a_frame_of_a_shuffle_and_an_empty_partition(session: Any) -> None:
    frame = session.createDataFrame(pa.table({"c": ["a", "b", "b"] * 20})).groupBy("c").count()
    net = hb.fit([], hb.scan(frame, weights="count"))
    np.testing.assert_array_equal(
        as_kind(hb.Multinomial, net.potential("c")).table,
        as_kind(hb.Multinomial, hb.fit([], {"c": ["a", "b", "b"] * 20}).potential("c")).table,
    )


def test_only_columns_that_are_asked_for_are_read(session: Any) -> None:
    frame = session.createDataFrame(pa.table({"c": ["a", "b"], "d": ["u", "v"]}))
    raising = sql.functions.udf(lambda value: 1 / 0, "string")
    scan = hb.scan(frame.withColumn("e", raising("d")), columns=["c"])
    assert as_discrete(scan.variable("c")).states == ("a", "b")
    assert sum(scan.answer(lambda batch, first: len(batch), ())) == 2


def test_this_process_and_transformations_read_a_frame_too(session: Any) -> None:
    data = names_of(make_data(200, 4), "y", "a")
    frame = make_frame(session, data, 4)
    for backend in (None, "local"):
        rows = pa.Table.from_batches(hb.scan(frame, backend=backend).batches())
        assert sorted(map(str, rows.to_pylist())) == sorted(map(str, pa.table(data).to_pylist()))
    full = hb.scan(frame).transform(lambda first, table: table.drop_null())
    assert set(full.missing.values()) == {0}


@dataclass(frozen=True)
class Fault(Task):
    """Counts rows, and does something first."""

    act: Callable[[], None]
    columns: tuple[str, ...] = ("c",)

    def learn(self, batch: Batch) -> int:
        self.act()
        return int(batch.data.num_rows)


@pytest.fixture
def passes(session: Any) -> Any:
    return hb.scan(session.range(40).selectExpr("cast(id % 2 as string) c").repartition(4)).passes


def refuse() -> None:
    raise hb.TableError("column 'c' is not what it was")


def divide() -> None:
    print(1 / 0)


def kill() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.parametrize(
    ("act", "message"),
    [
        (refuse, "^column 'c' is not what it was$"),
        (divide, r"\(ZeroDivisionError: division by zero\); nothing was counted"),
        (kill, r"Python worker exited unexpectedly.*; nothing was counted"),
    ],
)
def test_workers_that_fail_give_clear_errors(passes: Any, act: Callable[[], None], message: str) -> None:
    with pytest.raises(hb.TableError, match=message):
        passes.learn(Fault(act))
    with pytest.raises(hb.TableError, match=message):
        list(passes.backend.answer(Fault(act), passes.source))


def test_a_worker_killed_in_the_middle_costs_its_partition(passes: Any, tmp_path: Path) -> None:
    mark = tmp_path / "killed"

    def kill_once() -> None:
        try:
            mark.touch(exist_ok=False)
        except FileExistsError:
            return
        kill()

    assert passes.learn(Fault(kill_once)) == 40
    assert mark.exists()


def test_a_worker_of_another_build_is_refused(passes: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "hash_build", lambda: "other")
    with pytest.raises(hb.TableError, match="another build"):
        passes.learn(Fault(print))
    with pytest.raises(hb.TableError, match="another build"):
        list(passes.backend.answer(Fault(print), passes.source))
    with pytest.raises(hb.TableError, match="another build"):
        workers._unpack(workers._merge_packed("that of the caller", []))


def test_other_processes_are_refused(passes: Any) -> None:
    from concurrent.futures import ProcessPoolExecutor

    with ProcessPoolExecutor(1) as pool, pytest.raises(hb.TableError, match="frame of Spark can't be sent"):
        hb.scan(passes.source.fragments()[0].frame, backend=pool).sample()
