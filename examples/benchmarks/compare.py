"""Compare the times of two versions of hybridbn: python examples/benchmarks/compare.py OLD_TREE [NEW_TREE] [--repeats
9] [--only NAME ...].

The new tree's benchmarks time either tree's library by turns, each in a process of its own, on one thread. Shown are
the least CPU-seconds of each row, new over old, the geometric mean of these ratios, and the rows above 1.15. The
benchmarks of such rows are timed once more, alone, and rows that are above 1.15 then, too, are slower. A row that needs
a name which one version lacks is missing there.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).resolve()
NAMES = sorted({path.stem for path in HERE.parent.glob("*.py")} - {"compare", "memory", "ratios", "rows", "wide"})
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS", "POLARS_MAX_THREADS")
LIMIT = 1.15


def time_rows(script: Path, tree: Path) -> dict[str, float]:
    """Return the seconds of each row that a benchmark reports of a tree's library."""
    environment = os.environ | dict.fromkeys(THREADS, "1") | {"PYTHONPATH": str(tree), "PYTHONHASHSEED": "0"}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "rows.json")
        command = [sys.executable, str(script), "--ours", "--json", str(path)]
        done = subprocess.run(command, env=environment, cwd=folder, capture_output=True, text=True, check=False)
        if done.stderr.strip():
            print(f"{script.stem}, {tree}: {done.stderr.strip().splitlines()[-1]}", file=sys.stderr)
        if not path.exists():
            return {}
        report: dict[str, Any] = json.loads(path.read_text())
    library = Path(report["library"]).resolve()
    if not library.is_relative_to(tree):
        raise SystemExit(f"{script.stem} was to time the library of {tree}, and got {library}")
    return {row["name"]: row["ours"] for row in report["rows"]}


def alternate(scripts: list[Path], trees: list[Path], repeats: int) -> dict[str, list[float]]:
    """Return the least seconds of each row with each tree, infinite where it is missing."""
    least: dict[str, list[float]] = {}
    for turn in range(repeats):
        for script in scripts:
            print(f"turn {turn + 1} of {repeats}: {script.stem}", file=sys.stderr, flush=True)
            for side in (0, 1) if turn % 2 == 0 else (1, 0):
                for name, spent in time_rows(script, trees[side]).items():
                    times = least.setdefault(f"{script.stem}: {name}", [np.inf, np.inf])
                    times[side] = min(times[side], spent)
    return least


def divide(times: list[float]) -> float | None:
    """Return the new version's seconds over the old one's, if both have the row."""
    return times[1] / times[0] if np.isfinite(times).all() else None


def list_slower(least: dict[str, list[float]]) -> list[str]:
    """Return the rows that are above the limit."""
    return [name for name, times in least.items() if (divide(times) or 0.0) > LIMIT]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old", type=Path, help="a checkout of the version before")
    parser.add_argument(
        "new", type=Path, nargs="?", default=HERE.parents[2], help="by default the one this script is of"
    )
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--only", nargs="+", choices=NAMES, default=NAMES, metavar="NAME", help=", ".join(NAMES))
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the rows to this file")
    options = parser.parse_args()
    trees = [options.old.resolve(), options.new.resolve()]
    scripts = [trees[1] / "examples" / "benchmarks" / f"{name}.py" for name in options.only]
    least = alternate(scripts, trees, options.repeats)
    suspected = list_slower(least)
    again = [script for script in scripts if any(name.startswith(f"{script.stem}: ") for name in suspected)]
    repeated = alternate(again, trees, options.repeats)
    slower = [name for name in suspected if name in list_slower(repeated)]
    rows: list[dict[str, Any]] = []
    print(f"{'CPU-seconds, least of ' + str(options.repeats):<76}{'old':>12}{'new':>12}{'new/old':>9}{'again':>9}")
    for name, times in sorted(least.items(), key=lambda item: NAMES.index(item[0].split(":")[0])):
        old, new = (time if np.isfinite(time) else None for time in times)
        second = divide(repeated[name]) if name in suspected else None
        rows.append({"name": name, "old": old, "new": new, "ratio": divide(times), "again": second})
        shown = "".join(f"{'missing' if time is None else format(time, '.3e'):>12}" for time in (old, new))
        both = "".join("" if ratio is None else format(ratio, "9.3f") for ratio in (divide(times), second))
        print(f"{name:<76}{shown}{both}")
    ratios = np.array([row["ratio"] for row in rows if row["ratio"] is not None])
    mean = float(np.exp(np.log(ratios).mean())) if len(ratios) else float("nan")
    print(f"geometric mean of {len(ratios)} ratios {mean:.3f}; {len(rows) - len(ratios)} rows missing in one version")
    print(f"{len(slower)} rows above {LIMIT} twice:", *slower or ["none"], sep="\n  ")
    if options.json is not None:
        result = {"repeats": options.repeats, "geometric mean": mean, f"above {LIMIT} twice": slower, "rows": rows}
        options.json.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
