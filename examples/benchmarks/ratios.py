"""All benchmarks that have a peer or a limit: python examples/benchmarks/ratios.py [--quick] [--only NAME ...].

Each benchmark runs in a process of its own, on one thread, one after the other; a ratio is the peer's time over that of
hybridbn, and a factor, in a second table, what hybridbn takes over its limit. What is measured goes with versions and
machine to ``--json`` (results/ratios.json by default). Beside each ratio stands that of the last release, which
``ratios.json`` in this folder holds, and rows that became worse by more than a quarter are named at the end.
``--release`` writes ratios.json anew: the guide's page of numbers is made from it. ``--quick`` takes smaller tables and
some minutes; in full it is about an hour. With ``--only`` the other benchmarks in the file stay as they are. Peers that
are not installed are left out.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import os
import platform
import subprocess
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import hybridbn as hb

HERE = Path(__file__).resolve().parent
LAST = HERE / "ratios.json"
LIMIT = 1.25
PEERS = ("pgmpy", "pyagrum", "pybnesian", "scikit-learn", "miceforest", "duckdb", "pyarrow")
BASE = ("numpy", "scipy", "pandas", "networkx")
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS", "POLARS_MAX_THREADS")
BENCHMARKS: dict[str, tuple[list[str], list[str]]] = {
    "inference": ([], []),
    "kernel": ([], ["--points", "1000", "10000"]),
    "structures": ([], []),
    "recovery": (["--pgmpy"], ["--networks", "asia", "sachs", "--rows", "2000"]),
    "boosting": ([], ["100000"]),
    "imputation": ([], ["--large", "--methods", "hybridbn", "iterative", "miceforest"]),
    "peers": ([], ["--rows", "20000"]),
    "bif": ([], ["asia", "alarm", "win95pts", "--repeat", "1"]),
    "readers": ([], ["100000"]),
    "mte_density": ([], ["250", "--seeds", "2"]),
    "limits": ([], ["--rows", "1000000"]),
}
"""The options of each benchmark, in full and quick."""


def run_benchmark(name: str, quick: bool, minutes: float) -> tuple[list[dict[str, Any]], bool]:
    """Return the rows that a benchmark reports, and whether it came to its end in so many minutes."""
    environment = os.environ | dict.fromkeys(THREADS, "1") | {"PYTHONHASHSEED": "0", "PYTHONPATH": str(HERE.parents[1])}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "rows.json")
        command = [sys.executable, str(HERE / f"{name}.py"), "--json", str(path), *BENCHMARKS[name][quick]]
        process = subprocess.Popen(
            command, cwd=folder, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
        )
        try:
            _, errors = process.communicate(timeout=minutes * 60)
        except subprocess.TimeoutExpired:
            process.send_signal(2)  # the rows measured so far are written on the way out
            _, errors = process.communicate()
        if process.returncode:
            print(f"{name}: {(errors.decode().strip().splitlines() or ['killed'])[-1]}", file=sys.stderr)
        rows: list[dict[str, Any]] = json.loads(path.read_text())["rows"] if path.exists() else []
    return rows, process.returncode == 0


def describe_machine() -> str:
    """Return the processor, its count and the system."""
    lines = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    model = models[0] if models else platform.processor() or platform.machine()
    return f"{model}, {os.cpu_count()} processors, {platform.system()}"


def list_versions() -> dict[str, str]:
    """Return the versions of Python, hybridbn, what it is built on, and the peers that are installed."""
    versions = {"hybridbn": hb.__version__, "Python": platform.python_version()}
    for name in (*BASE, *PEERS):
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            print(f"{name} is not installed, so rows beside it are missing", file=sys.stderr)
    return versions


def compare_ratios(new: dict[str, Any], last: dict[str, Any]) -> tuple[list[str], list[str]]:
    """Return the lines of a table of ratios, and the names of the rows whose ratio is worse than in the last release.

    Examples
    --------
    >>> new = {"benchmarks": {"bif": [{"name": "read asia", "ours": 0.001, "peer": 0.002, "ratio": 2.0}]}}
    >>> last = {"benchmarks": {"bif": [{"name": "read asia", "ours": 0.001, "peer": 0.004, "ratio": 4.0}]}}
    >>> compare_ratios(new, last)[1]
    ['bif: read asia']
    """
    before = {(name, row["name"]): row["ratio"] for name, rows in last.get("benchmarks", {}).items() for row in rows}
    lines, worse = [f"{'seconds of one processor':<72}{'hybridbn':>12}{'peer':>12}{'ratio':>9}{'last':>9}"], []
    for name, rows in new["benchmarks"].items():
        for row in rows:
            if row["ratio"] is None:
                continue
            known = before.get((name, row["name"]))
            lines.append(
                f"{name + ': ' + row['name']:<72.72}{row['ours']:>12.3e}{row['peer']:>12.3e}{row['ratio']:>9.3g}"
                f"{'' if known is None else format(known, '9.3g')}"
            )
            if known is not None and row["ratio"] * LIMIT < known:
                worse.append(f"{name}: {row['name']}")
    return lines, worse


def list_limits(measured: dict[str, Any]) -> list[str]:
    """Return the lines of a table of seconds, memory and other figures beside their limits.

    Examples
    --------
    >>> row = {"name": "convert", "ours": 0.3, "bound": 0.6, "unit": "s"}
    >>> list_limits({"benchmarks": {"limits": [row]}})[1].split()
    ['convert', '0.3', '0.6', 's', '0.5']
    """
    lines = [f"{'beside its limit':<72}{'hybridbn':>12}{'limit':>12}{'':>6}{'factor':>9}"]
    for rows in measured["benchmarks"].values():
        for row in rows:
            if "unit" in row:
                figure, limit = row["ours"], row["bound"]
                lines.append(f"{row['name']:<72.72}{figure:>12.3g}{limit:>12.3g}{row['unit']:>6}{figure / limit:>9.3g}")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="smaller tables")
    parser.add_argument("--only", nargs="+", choices=list(BENCHMARKS), default=list(BENCHMARKS), metavar="NAME")
    parser.add_argument("--minutes", type=float, default=30.0, help="after which a benchmark is ended")
    parser.add_argument("--json", type=Path, default=Path("results/ratios.json"))
    parser.add_argument("--last", type=Path, default=LAST, help="what to compare with")
    parser.add_argument("--release", action="store_true", help=f"write {LAST.name}, for the next release")
    options = parser.parse_args()
    measured: dict[str, Any] = {
        "versions": list_versions(),
        "machine": describe_machine(),
        "date": datetime.now(UTC).date().isoformat(),
        "quick": options.quick,
        "incomplete": [],
        "benchmarks": {},
    }
    if len(options.only) < len(BENCHMARKS) and options.json.exists():
        known = json.loads(options.json.read_text())
        if all(known.get(key) == measured[key] for key in ("versions", "machine", "quick")):
            measured["benchmarks"] |= known["benchmarks"]
            measured["incomplete"] = [name for name in known["incomplete"] if name not in options.only]
    for name in options.only:
        print(f"{name} ...", file=sys.stderr, flush=True)
        measured["benchmarks"][name], complete = run_benchmark(name, options.quick, options.minutes)
        if not complete:
            measured["incomplete"].append(name)
    last = json.loads(options.last.read_text()) if options.last.exists() else {}
    if last.get("quick", options.quick) != options.quick:
        print("the last release was measured on tables of other sizes, so ratios are not compared", file=sys.stderr)
        last = {}
    lines, worse = compare_ratios(measured, last)
    print(*lines, "", *list_limits(measured), sep="\n")
    if last:
        print(f"\n{len(worse)} rows worse than in the last release by more than a quarter:")
        print(*worse or ["none"], sep="\n")
    for path in [options.json, *([LAST] if options.release else [])]:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(measured, indent=1) + "\n")


if __name__ == "__main__":
    main()
