"""Measure scans of tables larger than memory: python examples/benchmarks/scale.py [--rows 1e6] [--work NAME ...]
[--scaling].

Every piece of work runs in a process of its own, whose address space is limited where a bound of its memory is known.
Shown are CPU-seconds (with all threads), the peak of the resident memory, and the ratio to what the same process takes
for reading alone: pyarrow's decoding of the file as it is, DuckDB's own GROUPING SETS, pyarrow's parsing of CSV. The
tables are skewed, of 2 to 30 states a column that depend on each other, and are made once, in a folder that is kept.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
from pyarrow import csv, parquet
from rows import Report, parser

import hybridbn as hb
from hybridbn.structures import class_clusters, hill_climb, mixture, naive_bayes, nb_tree, tan

SIZES = (2, 3, 4, 5, 6, 8, 10, 12, 15, 20, 3, 4, 5, 6, 8, 10, 12, 15, 20, 30)
BATCH = 1 << 17
GIB = 1 << 30


# -- tables -----------------------------------------------------------------------------------------------------------


def make_states(rng: np.random.Generator, rows: int) -> pa.Table:
    """Return twenty skewed columns of text that depend on each other."""
    first = rng.choice(2, rows, p=[0.8, 0.2])
    columns, before = {}, first
    for number, size in enumerate(SIZES):
        parent = before if number % 3 else first
        codes = first if not number else np.minimum(rng.geometric(0.35, rows) - 1 + parent, size - 1)
        before = codes % 3
        states = pa.array([f"level {state}" for state in range(size)])
        columns[f"c{number}"] = pa.DictionaryArray.from_arrays(pa.array(codes.astype(np.int32)), states).cast(
            pa.string()
        )
    return pa.table(columns)


def make_holes(rng: np.random.Generator, rows: int) -> pa.Table:
    """Return six columns, three of numbers, with a tenth of the cells missing."""
    kind = rng.choice(3, rows, p=[0.6, 0.3, 0.1])
    x = rng.normal(size=rows) + kind
    y = 0.5 * x + rng.normal(size=rows)
    z = np.exp(0.3 * y + 0.2 * rng.normal(size=rows))
    names = np.array(["low", "middle", "high"])
    flag = np.where(rng.random(rows) < 0.2 + 0.2 * kind, "yes", "no")
    columns = {"kind": names[kind], "flag": flag, "x": x, "y": y, "z": z, "other": names[rng.integers(3, size=rows)]}
    return pa.table({name: pa.array(values, mask=rng.random(rows) < 0.1) for name, values in columns.items()})


def make_file(folder: Path, rows: int, make: Callable[[np.random.Generator, int], pa.Table], suffix: str) -> Path:
    """Return a file of so many rows, which is made if it is not there."""
    path = folder / f"{make.__name__}-{rows}.{suffix}"
    if path.exists():
        return path
    rng, unfinished, writer = np.random.default_rng(0), path.with_suffix(".part"), None
    for start in range(0, rows, 1 << 20):
        table = make(rng, min(1 << 20, rows - start))
        if writer is None:
            kind = parquet.ParquetWriter if suffix == "parquet" else csv.CSVWriter
            writer = kind(unfinished, table.schema)
        writer.write_table(table)
    writer.close()
    return unfinished.rename(path)


# -- work, each in a process of its own -------------------------------------------------------------------------------


def decode(path: Path) -> None:
    for _ in parquet.ParquetFile(path).iter_batches(BATCH, use_threads=False):
        pass


def parse(path: Path) -> None:
    with csv.open_csv(path, csv.ReadOptions(use_threads=False)) as reader:
        for _ in reader:
            pass


def connect() -> Any:
    import duckdb

    connection = duckdb.connect()
    connection.execute("SET threads = 1")
    return connection


def group(path: Path, pairs: bool) -> None:
    """Count pairs with the first column by DuckDB's GROUPING SETS; for all pairs, with a tenth of them."""
    names = [f"c{number}" for number in range(len(SIZES))]
    others = [(a, b) for place, a in enumerate(names[1:]) for b in names[2 + place :]][::10] if pairs else None
    sets = [("c0", *pair) for pair in others] if others else [("c0", name) for name in names[1:]]
    listed = ", ".join(f"({', '.join(own)})" for own in sets)
    used = list(dict.fromkeys(name for own in sets for name in own))
    query = f"SELECT {', '.join(used)}, count(*) FROM '{path}' GROUP BY GROUPING SETS ({listed})"
    connect().sql(query).to_arrow_table()


def build_naive_bayes(path: Path) -> None:
    naive_bayes(hb.scan(path), "c0")


def build_with_duckdb(path: Path) -> None:
    naive_bayes(hb.scan(path, backend=connect()), "c0")


def build_tan(path: Path) -> None:
    tan(hb.scan(path), "c0")


def build_by_two(path: Path) -> None:
    with ProcessPoolExecutor(2) as pool:
        tan(hb.scan(path, backend=pool), "c0")


def boost(path: Path, rounds: int, algorithm: Literal["m1", "real"] = "m1") -> None:
    hb.boost(hb.scan(path), "c0", rounds=rounds, algorithm=algorithm)


def grow(path: Path) -> None:
    scan = hb.scan(path)
    nb_tree(scan, "c0", max_depth=2)
    print(f"passes: {scan.passes.made}", file=sys.stderr)


def cluster(path: Path) -> None:
    scan = hb.scan(path)
    mixture(scan, 3)
    print(f"passes: {scan.passes.made}", file=sys.stderr)


def cluster_classes(path: Path) -> None:
    class_clusters(hb.scan(path), "kind", "gaussian", clusters=2, guard=False)


def climb(path: Path) -> None:
    scan = hb.scan(path, columns=[f"c{number}" for number in range(20)])
    hill_climb(scan, restarts=0, tabu=0, turns=0, max_parents=2)
    print(f"passes: {scan.passes.made}", file=sys.stderr)


def score(path: Path, rows: int) -> None:
    net = tan(hb.scan(path, sample=50_000).sample(), "c0")
    begin = time.process_time()
    assert len(net.log_density(hb.scan(path))) == rows
    print(json.dumps({"seconds": time.process_time() - begin}))


def impute(path: Path) -> None:
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        hb.impute(hb.scan(path), random_state=0).write(Path(folder, "out.parquet"))


def run_step(name: str, path: Path, rows: int) -> None:
    """Do one piece of work in this process, and print what it took."""
    jobs: dict[str, Callable[[], Any]] = {
        "decode": lambda: decode(path),
        "parse CSV": lambda: parse(path),
        "grouping sets": lambda: group(path, False),
        "grouping sets of pairs / 10": lambda: group(path, True),
        "naive Bayes": lambda: build_naive_bayes(path),
        "naive Bayes, DuckDB": lambda: build_with_duckdb(path),
        "naive Bayes, CSV": lambda: build_naive_bayes(path),
        "TAN": lambda: build_tan(path),
        "TAN, two processes": lambda: build_by_two(path),
        "boosting, 1 round": lambda: boost(path, 1),
        "boosting, 4 rounds": lambda: boost(path, 4),
        "Real AdaBoost, 1 round": lambda: boost(path, 1, "real"),
        "Real AdaBoost, 4 rounds": lambda: boost(path, 4, "real"),
        "naive Bayes tree": lambda: grow(path),
        "mixture": lambda: cluster(path),
        "class clusters": lambda: cluster_classes(path),
        "hill climbing": lambda: climb(path),
        "score with TAN": lambda: score(path, rows),
        "impute": lambda: impute(path),
    }
    pa.set_cpu_count(1)
    pa.set_io_thread_count(1)
    begin = time.process_time()
    jobs[name]()
    own, children = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = time.process_time() - begin + children.ru_utime + children.ru_stime
    print(json.dumps({"seconds": seconds, "memory": own.ru_maxrss / 1024}))


WORK: dict[str, tuple[str | None, int | None]] = {
    "naive Bayes": ("decode", 400),
    "naive Bayes, DuckDB": ("grouping sets", None),
    "TAN": ("decode", 500),
    "TAN, two processes": ("TAN", None),
    "boosting, 1 round": ("decode", None),
    "boosting, 4 rounds": ("decode", None),
    "Real AdaBoost, 1 round": ("decode", None),
    "Real AdaBoost, 4 rounds": ("decode", None),
    "naive Bayes tree": ("decode", None),
    "mixture": (None, None),
    "class clusters": (None, None),
    "hill climbing": ("decode", 1024),
    "score with TAN": ("decode", None),
    "impute": (None, 1024),
    "naive Bayes, CSV": ("parse CSV", None),
    "grouping sets of pairs / 10": ("TAN", None),
}
"""What each piece of work is compared with, and the MB of memory that it may take."""
HOLES = ("impute", "mixture", "class clusters")
"""Work on the table with numbers and missing cells."""
SCALED = ("naive Bayes", "TAN", "boosting, 4 rounds", "Real AdaBoost, 1 round", "naive Bayes tree", "mixture")
"""Work that is also done with a tenth of the rows, where it is to take a tenth of the time, and as much memory."""


def measure(name: str, path: Path, rows: int) -> tuple[float, float]:
    """Return the CPU-seconds and the MB of a piece of work in a process of its own."""
    # the first line tells the time where there was something to prepare
    command = [sys.executable, __file__, "--step", name, "--path", str(path), "--rows", str(rows)]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(
        command,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        env=environment,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (8 * GIB, 8 * GIB)),
    )
    shown = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    return shown[0]["seconds"], shown[-1]["memory"]


def find_file(folder: Path, name: str, rows: int) -> Path:
    """Return the file of a piece of work."""
    made = make_holes if name in HOLES else make_states
    return make_file(folder, rows, made, "csv" if name.endswith("CSV") else "parquet")


def show_scaling(report: Report, folder: Path, rows: int, chosen: Sequence[str]) -> None:
    """Compare work with that on a tenth of the rows, less what a thousand rows take, which is the start."""
    print(f"\n{'':28} time and memory of {rows:,} rows, as multiples of those of {rows // 10:,}")
    for name in (name for name in SCALED if name in chosen):
        sizes = (1000, rows // 10, rows)
        (start, _), (less, small), (more, large) = (measure(name, find_file(folder, name, n), n) for n in sizes)
        growth = (more - start) / max(less - start, 1e-9)
        report.add(f"{name}, ten times the rows", more, less, growth=growth, memory=large / small)
        print(f"{name:28} {growth:6.1f} {large / small:8.2f}", flush=True)


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--scaling", action="store_true", help="compare with a tenth of the rows, too")
    options.add_argument("--rows", type=float, default=1e6)
    options.add_argument("--work", nargs="*", default=list(WORK))
    options.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()) / "hybridbn-scale")
    options.add_argument("--step")
    options.add_argument("--path", type=Path)
    chosen = options.parse_args()
    rows = int(chosen.rows)
    if chosen.step:
        run_step(chosen.step, chosen.path, rows)
        return
    chosen.folder.mkdir(exist_ok=True)
    known: dict[str, float] = {}
    with Report(chosen) as report:
        for name in chosen.work:
            against, most = WORK[name]
            path = find_file(chosen.folder, name, rows)
            if against is not None and against not in known:
                known[against], _ = measure(against, path, rows)
            seconds, memory = measure(name, path, rows)
            known[name] = seconds
            peer = known[against] if against else None
            report.add(name, seconds, peer, memory=memory, rows=rows)
            compared = f"{seconds / peer:6.2f} x {against}" if peer else f"{rows / seconds:,.0f} rows/s"
            room = f" (at most {most})" if most else ""
            print(f"{name:28} {seconds:8.2f} s {memory:6.0f} MB{room:16} {compared}", flush=True)
        if chosen.scaling:
            show_scaling(report, chosen.folder, rows, chosen.work)


if __name__ == "__main__":
    main()
