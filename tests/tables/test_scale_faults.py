"""Workers that die, hang or run out of memory: totals are exact, or an error says what happened."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from test_scans import make_data, names_of, same, write

import hybridbn as hb
from hybridbn.structures import tan
from hybridbn.tables.backends import Batch, Fragment, Scan, sources
from hybridbn.tables.backends.workers import Dask

pytest.importorskip("pyarrow")
pytestmark = pytest.mark.slow


def kill() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def hang() -> None:
    time.sleep(600)


def fill_memory() -> None:
    held = [np.ones(20_000_000) for _ in range(40)]
    time.sleep(60)
    del held


@dataclass(frozen=True)
class Faulty(Fragment):
    """Reads the first batch of another fragment, then fails as often as it is told."""

    real: Fragment
    fault: Any
    marks: str
    times: int

    def batches(self, columns: Sequence[str], rows: int = 64) -> Iterator[Batch]:
        for batch in self.real.batches(columns, rows):
            yield batch
            folder = Path(self.marks)
            count = len(list(folder.iterdir()))
            if count < self.times:
                (folder / f"{count}-{os.getpid()}").touch()
                self.fault()


def make_faulty(scan: Scan, fault: Any, folder: Path, times: int) -> Scan:
    """Let the middle fragment of a scan fail."""
    marks = folder / "marks"
    marks.mkdir()
    pieces = list(scan.passes.source.fragments())
    middle = len(pieces) // 2
    pieces[middle] = Faulty(pieces[middle], fault, str(marks), times)
    scan.passes.source.fragments = lambda: pieces  # type: ignore[method-assign]
    return scan


@pytest.fixture
def data(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    monkeypatch.setattr(sources, "_FRAGMENT_ROWS", 100)
    return names_of(make_data(600, 1), "y", "a", "t")


@pytest.fixture
def client() -> Iterator[Any]:
    distributed = pytest.importorskip("distributed")
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None, memory_limit="700MB"
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


def test_a_worker_killed_in_the_middle_costs_its_fragment(client: Any, data: dict[str, Any], tmp_path: Path) -> None:
    scan = make_faulty(hb.scan(write(tmp_path, data), backend=client), kill, tmp_path, 1)
    assert same(tan(scan, "y"), tan(data, "y"))
    assert len(list((tmp_path / "marks").iterdir())) == 1


def test_workers_killed_again_and_again_are_told(client: Any, data: dict[str, Any], tmp_path: Path) -> None:
    scan = make_faulty(hb.scan(write(tmp_path, data), backend=client), kill, tmp_path, 99)
    with pytest.raises(hb.TableError, match=r"were lost again and again.*nothing was counted"):
        tan(scan, "y")


def test_a_worker_that_hangs_is_told(client: Any, data: dict[str, Any], tmp_path: Path) -> None:
    scan = make_faulty(hb.scan(write(tmp_path, data), backend=Dask(client, timeout=5)), hang, tmp_path, 9)
    with pytest.raises(hb.TableError, match=r"did not answer within 5 seconds; nothing was counted"):
        tan(scan, "y")


@pytest.fixture
def machines(tmp_path: Path) -> Iterator[list[subprocess.Popen[bytes]]]:
    """A scheduler and two workers, which nothing starts again, each a process of its own."""
    pytest.importorskip("distributed")
    # workers import what tests define; `pythonpath` of pytest is this process's alone
    tests = Path(__file__).parents[1]
    folders = [tests.parent, tests, Path(__file__).parent]
    options = {
        "PYTHONPATH": os.pathsep.join(map(str, folders)),
        "DASK_DISTRIBUTED__SCHEDULER__WORKER_TTL": "5s",
        "DASK_DISTRIBUTED__COMM__TIMEOUTS__CONNECT": "5s",
    }
    file = ["--scheduler-file", str(tmp_path / "scheduler.json")]
    started = []
    for kind, more in (("scheduler", ["--port", "0", "--no-show"]), ("worker", ["--no-nanny", "--nthreads", "1"])):
        for _ in range(1 if kind == "scheduler" else 2):
            command = [sys.executable, "-m", f"distributed.cli.dask_{kind}", *file, "--dashboard-address", ":0", *more]
            started.append(subprocess.Popen(command, env=os.environ | options, stderr=subprocess.DEVNULL, cwd=tmp_path))
    yield started
    for process in started:
        process.kill()
        process.wait()


@pytest.mark.parametrize(
    ("fault", "struck", "told"),
    [
        (signal.SIGKILL, [0], "cluster of dask was lost"),
        (signal.SIGKILL, [1, 2], "did not answer within 8 seconds"),
        (signal.SIGSTOP, [0], "did not answer within 8 seconds"),
        (signal.SIGSTOP, [1, 2], "did not answer within 8 seconds"),
        # one that is silent for the five seconds of `worker-ttl` is lost, and the other reads its fragments
        (signal.SIGKILL, [1], None),
        (signal.SIGSTOP, [2], None),
    ],
)
def test_processes_of_a_cluster_that_end_or_stop(
    machines: list[Any], fault: int, struck: list[int], told: str | None, data: dict[str, Any], tmp_path: Path
) -> None:
    distributed = pytest.importorskip("distributed")
    path = write(tmp_path, data)
    net = tan(data, "y")
    with distributed.Client(scheduler_file=str(tmp_path / "scheduler.json"), timeout=10) as client:
        client.wait_for_workers(2)
        assert same(tan(hb.scan(path, backend=client), "y"), net)
        scan = hb.scan(path, backend=Dask(client, timeout=8 if told else 60))
        for number in struck:
            machines[number].send_signal(fault)
        if told is None:
            assert same(tan(scan, "y"), net)
            np.testing.assert_allclose(net.log_density(scan), net.log_density(hb.Table(data)), rtol=1e-12)
        else:
            with pytest.raises(hb.TableError, match=rf"{told}.*nothing was counted"):
                tan(scan, "y")
        for process in machines:
            process.send_signal(signal.SIGCONT)


def test_a_scheduler_that_ends_between_answers(machines: list[Any], data: dict[str, Any], tmp_path: Path) -> None:
    distributed = pytest.importorskip("distributed")
    path = write(tmp_path, data)
    with distributed.Client(scheduler_file=str(tmp_path / "scheduler.json"), timeout=10) as client:
        client.wait_for_workers(2)
        answers = hb.scan(path, backend=Dask(client, timeout=8)).answer(lambda batch, first: len(batch), ())
        assert next(answers) > 0
        machines[0].kill()
        with pytest.raises(hb.TableError, match=r"of the parts of the table the first \d+ were answered"):
            list(answers)


def test_a_worker_out_of_memory_is_replaced(client: Any, data: dict[str, Any], tmp_path: Path) -> None:
    scan = make_faulty(hb.scan(write(tmp_path, data), backend=client), fill_memory, tmp_path, 1)
    assert same(tan(scan, "y"), tan(data, "y"))


def test_a_pool_that_lost_a_process_is_told(data: dict[str, Any], tmp_path: Path) -> None:
    with ProcessPoolExecutor(2) as pool:
        scan = make_faulty(hb.scan(write(tmp_path, data), backend=pool), kill, tmp_path, 1)
        with pytest.raises(hb.TableError, match=r"worker process ended .*nothing was counted"):
            tan(scan, "y")
