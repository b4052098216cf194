"""Time reading a million rows into a Table beside pyarrow's own readers: python examples/benchmarks/readers.py [rows].

Then come coding of cells in memory, 100,000 rows of ten columns written and read in three formats, and ``hybridbn
impute`` of a file of 20,000 rows. Times are CPU-seconds.
"""

from __future__ import annotations

import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import csv, parquet
from rows import Report, parser, seconds, take_turns

import hybridbn as hb
from hybridbn import Discrete, Table, read_table


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


def bench_files(report: Report, folder: Path, rows: int) -> None:
    table = made(rows)
    repeats = 3 if report.ours else 7
    print(f"{rows:,} rows x {table.num_columns} columns, best of {repeats}, in turns")
    flat, delimited, quoted = (Path(folder, name) for name in ("d.parquet", "d.csv", "quoted.csv"))
    parquet.write_table(table, flat)
    csv.write_csv(table, delimited, csv.WriteOptions(quoting_style="none"))
    csv.write_csv(table, quoted)
    theirs, ours = table.column("x0").to_numpy(), read_table(flat)["x0"]
    assert np.array_equal(theirs, ours, equal_nan=True)
    assert read_table(delimited).equals(read_table(flat))
    assert read_table(quoted).equals(read_table(flat))
    for what, path, peer in (
        ("Parquet", flat, parquet.read_table),
        ("CSV", delimited, csv.read_csv),
        ("CSV, text in quotes", quoted, csv.read_csv),
    ):
        jobs = {"hybridbn": lambda path=path: accessed(read_table(path)), "pyarrow": partial(peer, path)}
        best, _ = take_turns({"hybridbn": jobs["hybridbn"]} if report.ours else jobs, repeats)
        report.add(f"{what}, a row", best["hybridbn"] / rows, best["pyarrow"] / rows if "pyarrow" in best else None)
        print(f"{what:32} hybridbn {best['hybridbn']:7.3f} s", end="")
        if not report.ours:
            ratio = best["hybridbn"] / best["pyarrow"]
            print(f"   pyarrow {best['pyarrow']:7.3f} s   ratio {ratio:5.2f}", end="")
        print(flush=True)


def bench_coding(report: Report, rows: int) -> None:
    variable = Discrete("c0", states=[f"state{j}" for j in range(10)])
    frame = made(rows).select(["c0"])
    forms = {
        "objects": {"c0": np.array(frame["c0"].to_pylist(), dtype=object)},
        "pandas str": frame.to_pandas(),
        "pandas category": frame.to_pandas().astype("category"),
        "arrow string": frame,
        "arrow dictionary": pa.table({"c0": frame["c0"].dictionary_encode()}),
    }
    for form, data in forms.items():
        best, _ = seconds(lambda data=data: Table(data, variables=[variable])["c0"], 3)
        report.add(f"coding text against a variable, {form}, a cell", best / rows)
        print(f"coding text against a variable, {form:17} {best / rows * 1e9:6.1f} ns a cell")
    integers = {"k0": np.random.default_rng(1).integers(0, 1000, rows)}
    coder = Discrete("k0", states=range(1000))
    best, _ = seconds(lambda: Table(integers, variables=[coder])["k0"], 3)
    report.add("coding integers against a variable, a cell", best / rows)
    print(f"coding integers against a variable                 {best / rows * 1e9:6.1f} ns a cell")


def bench_formats(report: Report, folder: Path, rows: int = 100_000) -> None:
    """Write and read ten columns; what is read equals what was written."""
    table = Table(made(rows).select([*(f"x{i}" for i in range(7)), *(f"c{i}" for i in range(3))]))
    accessed(table)
    for suffix in ("csv", "parquet", "arff"):
        path = folder / f"ten.{suffix}"
        written, _ = seconds(partial(hb.write_table, table, path, overwrite=True), 2)
        report.show(f"writing {suffix}, {rows:,} x 10", written)
        read, again = seconds(lambda path=path: accessed(read_table(path)), 2)
        for name in table.names:
            assert np.array_equal(table[name], again[name], equal_nan=name.startswith("x"))
        report.show(f"reading {suffix}, {rows:,} x 10", read)


def bench_command(report: Report, folder: Path, rows: int = 20_000) -> None:
    """Fill the holes of a file of six numbers and four categories, all of which depend on three factors."""
    from hybridbn.commands.cli import run as run_command

    rng = np.random.default_rng(0)
    values = rng.normal(size=(rows, 3)) @ rng.normal(size=(3, 10)) + rng.normal(size=(rows, 10))
    columns: dict[str, Any] = {f"x{i}": values[:, i].round(4) for i in range(6)}
    columns |= {f"c{i}": np.array(list("abcd"))[np.digitize(values[:, 6 + i], (-2, 0, 2))] for i in range(4)}
    arrays = {name: pa.array(column, mask=rng.random(rows) < 0.1) for name, column in columns.items()}
    source, target = folder / "holes.csv", folder / "filled.csv"
    csv.write_csv(pa.table(arrays), source, csv.WriteOptions(quoting_style="none"))

    ours, code = seconds(lambda: run_command(["impute", str(source), str(target), "--quiet"]), 2)
    assert not code
    filled = csv.read_csv(target)
    assert filled.num_rows == rows
    assert not any(filled[name].null_count for name in filled.column_names)
    report.show(f"hybridbn impute, {rows:,} x 10 as CSV", ours)


def main() -> None:
    options_parser = parser(__doc__)
    options_parser.add_argument("rows", type=int, nargs="?", default=1_000_000)
    options = options_parser.parse_args()
    rows = 100_000 if options.ours else options.rows
    with Report(options) as report, tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        report.run(bench_files, folder, rows)
        report.run(bench_coding, rows)
        report.run(bench_formats, folder)
        report.run(bench_command, folder)


if __name__ == "__main__":
    main()
