"""Predict a pass over 1e9 to 1e12 rows on 10 to 1,000 workers: python examples/benchmarks/scale_model.py [--rows 1e6].

Measured on this machine, in CPU-seconds, on a generated table of 20 columns, of which all pairs with the class are
counted as for TAN: what rows, batches, fragments, tasks and merges cost. The scheduler is that of dask where it is
installed, else that of a pool of processes. The CPU-seconds of two workers at a time are compared with what the
simulation says of them: they differed by 0 and 3 % in two runs with a million rows, and much more with fewer rows.

Predicted are clusters that nobody ran, whose network and storage are assumed (``--link``, ``--storage``). The
simulation takes one task after the other: a scheduler hands them out, a storage that all share and a link for each
worker bring the bytes, a worker learns from a fragment, and the statistics are merged by the driver or, in a tree, by
the workers. It knows nothing of workers that fail or are slower than others.
"""

from __future__ import annotations

import argparse
import heapq
import math
import os
import pickle
import tempfile
import time
import warnings
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from pyarrow import parquet
from rows import Report, parser, seconds
from scale import make_states
from scipy.optimize import nnls

import hybridbn as hb
from hybridbn.structures import tan
from hybridbn.tables.backends.base import BATCH_ROWS, Fragment, Local, Source, Task, merge
from hybridbn.tables.backends.workers import Processes

FAN_IN = 16
"""So many statistics are merged at a time in a tree."""
FRAGMENT_ROWS = 1 << 20


# -- the model --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Costs:
    """What is measured: seconds of a processor, and bytes.

    Attributes
    ----------
    row, batch, fragment : float
        To read and to learn from a row, and what a batch and a fragment take besides.
    task : float
        Of a worker, to receive a task.
    dispatch : float
        Of the scheduler, for a task.
    merge : float
        To unpack statistics and add them to others.
    row_bytes, result_bytes : float
        Of a row in its file, and of packed statistics.
    """

    row: float
    batch: float = 0.0
    fragment: float = 0.0
    task: float = 0.0
    dispatch: float = 0.0
    merge: float = 0.0
    row_bytes: float = 0.0
    result_bytes: float = 0.0


@dataclass(frozen=True)
class Cluster:
    """Workers of one processor each, and the bytes a second of each one's link, and of the storage that all share."""

    workers: int = 1
    link: float = math.inf
    storage: float = math.inf


@dataclass(frozen=True)
class Prediction:
    """The seconds of a pass, and those of each part if it were the only one; parts work at the same time."""

    seconds: float
    tasks: int
    batches: int
    merges: int
    parts: dict[str, float]

    @property
    def limit(self) -> str:
        """The part that takes longest."""
        return max(self.parts, key=lambda part: self.parts[part])


def count_levels(tasks: int) -> int:
    """Return how often statistics are merged one after the other in a tree."""
    levels = 0
    while tasks > 1:
        tasks, levels = -(-tasks // FAN_IN), levels + 1
    return levels


def predict(
    costs: Costs, cluster: Cluster, rows: int, *, tree: bool = False, fragment_rows: int = FRAGMENT_ROWS
) -> Prediction:
    """Return what a pass over so many rows takes, whose statistics are merged by the driver or by the workers."""
    tasks = -(-rows // fragment_rows)
    merges = max(tasks - 1, 0)
    # whoever adds statistics to others fetches them first
    joint = costs.merge + costs.result_bytes / cluster.link
    # a tree has a task more for each group that is merged
    dispatch = costs.dispatch * (1 + tree / (FAN_IN - 1))
    free = [0.0] * cluster.workers
    storage = driver = work = 0.0
    batches = 0
    for number in range(tasks):
        size = min(fragment_rows, rows - number * fragment_rows)
        own = -(-size // BATCH_ROWS)
        batches += own
        busy = costs.task + costs.fragment + own * costs.batch + size * costs.row + tree * joint
        begin = max(free[0], (number + 1) * dispatch)
        transferred = size * costs.row_bytes / cluster.link
        storage = max(storage, begin) + size * costs.row_bytes / cluster.storage
        end = max(storage, begin + transferred) + busy
        heapq.heapreplace(free, end)
        work += transferred + busy
        if not tree:
            driver = max(driver, end) + (joint if number else 0.0)
    last = count_levels(tasks) * (min(tasks, FAN_IN) - 1) * joint if tree and tasks else 0.0
    parts = {
        "scan": work / cluster.workers,
        "storage": rows * costs.row_bytes / cluster.storage,
        "scheduler": tasks * dispatch,
        "merge": last if tree else merges * joint,
    }
    return Prediction(max(max(free) + last, driver), tasks, batches, merges, parts)


def fit_reading(runs: list[tuple[int, int, int, float]]) -> tuple[float, float, float]:
    """Return what a row, a batch and a fragment take, from runs of so many of each and their seconds."""
    counts = np.array([run[:3] for run in runs], float)
    taken = np.array([run[3] for run in runs])
    # relative errors, and none of the costs below zero
    row, batch, fragment = nnls(counts / taken[:, None], np.ones(len(runs)))[0]
    return float(row), float(batch), float(fragment)


# -- measurements -----------------------------------------------------------------------------------------------------


class Recorder(Local):
    """Notes the tasks that a learner runs."""

    def __init__(self) -> None:
        self.tasks: list[Task] = []

    def merge(self, task: Task, source: Source) -> Any:
        """Run a task, and note it."""
        self.tasks.append(task)
        return super().merge(task, source)


def make_files(folder: Path, rows: int, files: int) -> str:
    """Write the table of scale.py into so many files; return the pattern of their names."""
    folder.mkdir()
    rng = np.random.default_rng(0)
    for number in range(files):
        parquet.write_table(make_states(rng, rows // files), folder / f"{number}.parquet")
    return str(folder / "*.parquet")


def record_task(pattern: str) -> tuple[Task, Source]:
    """Return the task that counts the pairs for TAN, and the files."""
    recorder = Recorder()
    scan = hb.scan(pattern, backend=recorder)
    tan(scan, "c0")
    return recorder.tasks[-1], scan.passes.source


def learn_in_batches(task: Task, source: Source, rows: int) -> Any:
    """Return the statistics of a source that is read in batches of so many rows."""
    return merge(merge(map(task.learn, one.batches(task.columns, rows))) for one in source.fragments())


def measure_reading(folder: Path, rows: int, repeats: int = 3) -> tuple[Task, Source, Any, tuple[float, float, float]]:
    """Return a task, eight files, the statistics, and what a row, a batch and a fragment take."""
    task, whole = record_task(make_files(folder / "whole", rows, 1))
    _, parts = record_task(make_files(folder / "parts", rows, 8))
    runs, statistics = [], None
    for source, files, size in ((whole, 1, BATCH_ROWS), (whole, 1, BATCH_ROWS >> 4), (parts, 8, BATCH_ROWS)):
        taken, statistics = seconds(partial(learn_in_batches, task, source, size), repeats)
        runs.append((rows, files * -(-(rows // files) // size), files, taken))
    return task, parts, statistics, fit_reading(runs)


def tell_time(item: Any) -> tuple[int, float]:
    """Return who works, and the CPU-seconds of that process so far."""
    return os.getpid(), time.process_time()


def measure_pool(task: Task, source: Source, tasks: int = 500) -> tuple[float, float]:
    """Return what a task that does nothing takes of a worker and of the process that hands it out."""
    fragment = source.fragments()[0]
    items = [(task, fragment)] * tasks
    with ProcessPoolExecutor(1) as pool:
        backend = Processes(pool)
        list(backend.map(tell_time, items[:10]))
        begin = time.process_time()
        times = [taken for _, taken in backend.map(tell_time, items)]
        return (times[-1] - times[0]) / (tasks - 1), (time.process_time() - begin) / tasks


def measure_dask(tasks: int = 500) -> float | None:
    """Return what a task that does nothing takes of a scheduler of dask, with its client and worker in this process."""
    try:
        import distributed
    except ModuleNotFoundError:
        return None
    with (
        distributed.LocalCluster(n_workers=1, processes=False, dashboard_address=None) as cluster,
        distributed.Client(cluster) as client,
    ):
        client.gather(client.map(tell_time, range(10), pure=False))
        return seconds(lambda: client.gather(client.map(tell_time, range(tasks), pure=False)), 3)[0] / tasks


def learn_timed(task: Task, fragment: Fragment) -> tuple[Any, float]:
    """Return the statistics of a fragment, and the CPU-seconds that they took."""
    begin = time.process_time()
    statistics = task.learn_fragment(fragment)
    return statistics, time.process_time() - begin


def measure_two_workers(task: Task, source: Source) -> float:
    """Return the CPU-seconds of a pass of each of two workers, on an average."""
    with ProcessPoolExecutor(2) as pool:
        passes = [list(Processes(pool).map(partial(learn_timed, task), source.fragments())) for _ in range(4)]
    # the first pass imports and allocates
    return min(sum(taken for _, taken in one) for one in passes[1:]) / 2


def measure(folder: Path, rows: int) -> tuple[Costs, Task, Source]:
    """Return all costs, and the task and the files of which they are."""
    task, source, statistics, (row, batch, fragment) = measure_reading(folder, rows)
    own, handed = measure_pool(task, source)
    packed = pickle.dumps(statistics)
    added, _ = seconds(lambda: [statistics + pickle.loads(packed) for _ in range(20)], 3)
    size = sum(path.stat().st_size for path in folder.glob("parts/*"))
    scheduler = measure_dask()
    dispatch = handed if scheduler is None else scheduler
    return Costs(row, batch, fragment, own, dispatch, added / 20, size / rows, len(packed)), task, source


def show_costs(costs: Costs, rows: int) -> None:
    """Print what was measured."""
    print(f"measured, in CPU-seconds, on {rows:,} rows of 20 columns")
    print(f"  row {costs.row * 1e6:.3f} us ({1 / costs.row:,.0f} rows/s), {costs.row_bytes:.1f} bytes in the file")
    print(f"  batch {costs.batch * 1e3:.2f} ms, fragment {costs.fragment * 1e3:.2f} ms besides its rows")
    print(f"  task {costs.task * 1e3:.2f} ms of a worker, {costs.dispatch * 1e3:.2f} ms of the scheduler")
    print(f"  merge {costs.merge * 1e3:.2f} ms, statistics of {costs.result_bytes / 1e3:,.0f} kB")


def show_predictions(costs: Costs, chosen: argparse.Namespace, report: Report) -> None:
    """Print what is predicted."""
    print(
        f"\npredicted, not run: a link of {chosen.link / 1e9:g} GB/s for each worker and a storage of"
        f" {chosen.storage / 1e9:g} GB/s are assumed; fragments of {FRAGMENT_ROWS:,} rows"
    )
    print(f"{'rows':>6} {'workers':>7} {'merged by':>9} {'seconds':>10} {'limit':>10}   seconds of each part alone")
    for exponent in (9, 10, 11, 12):
        for workers in (10, 100, 1000):
            for tree in (False, True):
                cluster = Cluster(workers, chosen.link, chosen.storage)
                done = predict(costs, cluster, 10**exponent, tree=tree)
                by = "tree" if tree else "driver"
                parts = ", ".join(f"{name} {value:,.1f}" for name, value in done.parts.items())
                print(f"{f'1e{exponent}':>6} {workers:7,} {by:>9} {done.seconds:10,.1f} {done.limit:>10}   {parts}")
                report.add(f"predicted: 1e{exponent} rows, {workers} workers, {by}", done.seconds, limit=done.limit)


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--rows", type=float, default=1e6)
    options.add_argument("--link", type=float, default=1.25e9, help="bytes a second of each worker (1.25e9: 10 Gbit/s)")
    options.add_argument("--storage", type=float, default=2e10, help="bytes a second of the storage")
    chosen = options.parse_args()
    rows = int(chosen.rows) // 8 * 8
    with tempfile.TemporaryDirectory() as folder, Report(chosen) as report, warnings.catch_warnings():
        costs, task, source = measure(Path(folder), rows)
        show_costs(costs, rows)
        expected = predict(Costs(costs.row, costs.batch, costs.fragment), Cluster(2), rows, fragment_rows=rows // 8)
        taken = measure_two_workers(task, source)
        error = expected.seconds / taken - 1
        print(f"  two workers at a time: {taken:.3f} s each, {expected.seconds:.3f} s predicted ({error:+.0%})")
        report.add("two workers", taken, expected=expected.seconds)
        show_predictions(costs, chosen, report)


if __name__ == "__main__":
    main()
