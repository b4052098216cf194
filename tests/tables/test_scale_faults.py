"""Workers that die, hang or run out of memory: totals are exact, or an error says what happened."""

from __future__ import annotations

import os
import signal
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
    with pytest.raises(hb.TableError, match="did not answer within 5 seconds"):
        tan(scan, "y")


def test_a_worker_out_of_memory_is_replaced(client: Any, data: dict[str, Any], tmp_path: Path) -> None:
    scan = make_faulty(hb.scan(write(tmp_path, data), backend=client), fill_memory, tmp_path, 1)
    assert same(tan(scan, "y"), tan(data, "y"))


def test_a_pool_that_lost_a_process_is_told(data: dict[str, Any], tmp_path: Path) -> None:
    with ProcessPoolExecutor(2) as pool:
        scan = make_faulty(hb.scan(write(tmp_path, data), backend=pool), kill, tmp_path, 1)
        with pytest.raises(hb.TableError, match=r"worker process ended .*nothing was counted"):
            tan(scan, "y")
