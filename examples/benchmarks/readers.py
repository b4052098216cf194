"""Time reading a million rows into a Table beside pyarrow's own readers: python examples/benchmarks/readers.py [rows]."""

from __future__ import annotations

import gc
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import csv, parquet

from hybridbn.formats.tables import read_table
from hybridbn.table import Table
from hybridbn.variables import Discrete


def made(rows: int) -> pa.Table:
    rng = np.random.default_rng(0)
    columns: dict[str, Any] = {}
    for i in range(10):
        columns[f"x{i}"] = pa.array(rng.normal(size=rows).round(6), mask=rng.random(rows) < 0.05)
    for i in range(5):
        columns[f"k{i}"] = pa.array(rng.integers(0, 1000, rows), mask=rng.random(rows) < 0.05)
    for i in range(5):
        states = np.array([f"state{j}" for j in range(10)], dtype=object)
        columns[f"c{i}"] = pa.array(states[rng.integers(0, 10, rows)], mask=rng.random(rows) < 0.05)
    return pa.table(columns)


def accessed(table: Table) -> Table:
    for name in table.names:
        table.column(name)
    return table


def timed(jobs: dict[str, Callable[[], Any]], repeats: int = 7) -> dict[str, float]:
    """Return the best time of each job; the jobs take turns, so that a busy machine slows all of them alike."""
    best = dict.fromkeys(jobs, float("inf"))
    for _ in range(repeats):
        for name, job in jobs.items():
            gc.collect()
            start = time.perf_counter()
            job()
            best[name] = min(best[name], time.perf_counter() - start)
    return best


def compare(what: str, ours: Callable[[], Any], theirs: Callable[[], Any]) -> None:
    best = timed({"hybridbn": ours, "pyarrow": theirs})
    ratio = best["hybridbn"] / best["pyarrow"]
    print(f"{what:32} hybridbn {best['hybridbn']:7.3f} s   pyarrow {best['pyarrow']:7.3f} s   ratio {ratio:5.2f}")


def main(rows: int) -> None:
    table = made(rows)
    print(f"{rows:,} rows x {table.num_columns} columns, best of 7, in turns")
    with tempfile.TemporaryDirectory() as folder:
        flat, delimited, quoted = (Path(folder, name) for name in ("d.parquet", "d.csv", "quoted.csv"))
        parquet.write_table(table, flat)
        csv.write_csv(table, delimited, csv.WriteOptions(quoting_style="none"))
        csv.write_csv(table, quoted)
        theirs, ours = table.column("x0").to_numpy(), read_table(flat)["x0"]
        assert np.array_equal(theirs, ours, equal_nan=True)
        assert read_table(delimited).equals(read_table(flat))
        assert read_table(quoted).equals(read_table(flat))
        compare("Parquet", lambda: accessed(read_table(flat)), lambda: parquet.read_table(flat))
        compare("CSV", lambda: accessed(read_table(delimited)), lambda: csv.read_csv(delimited))
        compare("CSV, text in quotes", lambda: accessed(read_table(quoted)), lambda: csv.read_csv(quoted))
    variable = Discrete("c0", states=[f"state{j}" for j in range(10)])
    frame = table.select(["c0"])
    forms = {
        "objects": {"c0": np.array(frame["c0"].to_pylist(), dtype=object)},
        "pandas str": frame.to_pandas(),
        "pandas category": frame.to_pandas().astype("category"),
        "arrow string": frame,
        "arrow dictionary": pa.table({"c0": frame["c0"].dictionary_encode()}),
    }
    for form, data in forms.items():
        best = timed({form: lambda data=data: Table(data, variables=[variable])["c0"]}, repeats=3)[form]
        print(f"coding text against a variable, {form:17} {best / rows * 1e9:6.1f} ns a cell")
    integers = {"k0": np.random.default_rng(1).integers(0, 1000, rows)}
    coder = Discrete("k0", states=range(1000))
    best = timed({"": lambda: Table(integers, variables=[coder])["k0"]}, repeats=3)[""]
    print(f"coding integers against a variable                 {best / rows * 1e9:6.1f} ns a cell")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000)
