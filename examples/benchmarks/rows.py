"""What all benchmarks share: CPU times, the networks that pgmpy ships, and rows to be printed and written as JSON.

Every benchmark takes ``--json FILE``, to write its rows, and ``--ours``, to time hybridbn alone on smaller data, which
is what compare.py does with two versions. Set OMP_NUM_THREADS=1 for times of one core.
"""

from __future__ import annotations

import argparse
import gc
import importlib.util
import json
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any

import hybridbn as hb

Job = Callable[[], Any]


def shipped(name: str) -> Path:
    """Return the file of a network that comes with pgmpy, which is not imported."""
    spec = importlib.util.find_spec("pgmpy")
    return Path(str(spec and spec.origin)).parent / "utils" / "example_models" / f"{name}.bif.gz"


def take_turns(jobs: dict[str, Job], repeats: int = 1) -> tuple[dict[str, float], dict[str, Any]]:
    """Return the least CPU-seconds and the result of each job; they take turns, so that a
    busy machine slows all alike.
    """
    least, results = dict.fromkeys(jobs, float("inf")), {}
    for _ in range(repeats):
        for name, job in jobs.items():
            gc.collect()
            start = time.process_time()
            results[name] = job()
            least[name] = min(least[name], time.process_time() - start)
    return least, results


def seconds(job: Job, repeats: int = 1, at_least: float = 0.0) -> tuple[float, Any]:
    """Return the least CPU-seconds of some runs, which take ``at_least`` so many together, and the result."""
    start = time.process_time()
    least, results = take_turns({"": job}, repeats)
    while time.process_time() - start < at_least:
        least = {"": min(least[""], take_turns({"": job})[0][""])}
    return least[""], results[""]


def parser(doc: str | None) -> argparse.ArgumentParser:
    """Return a parser of the options that all benchmarks have."""
    result = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    result.add_argument("--json", type=Path, metavar="FILE", help="write the rows to this file")
    result.add_argument("--ours", action="store_true", help="time hybridbn alone, on smaller data")
    return result


class Report:
    """The rows of one run, written when the context ends, whatever ends it."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.ours: bool = options.ours
        self._path: Path | None = options.json
        self._rows: list[dict[str, Any]] = []

    def __enter__(self) -> Report:
        warnings.simplefilter("ignore")  # deprecations inside of peers
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._path is not None:
            self._path.write_text(json.dumps({"library": hb.__file__, "rows": self._rows}, indent=1) + "\n")

    def run(self, group: Callable[..., None], *arguments: Any) -> None:
        """Do a group of rows; where this version of the library lacks a name, the rest of them is missing."""
        try:
            group(self, *arguments)
        except (ImportError, AttributeError) as error:
            print(f"missing: {error}", file=sys.stderr)

    def add(
        self,
        name: str,
        ours: float,
        peer: float | None = None,
        bound: float | None = None,
        difference: float | None = None,
        **figures: Any,
    ) -> None:
        """Keep a row: seconds of hybridbn and of the peer for a unit of work, the least ratio wanted, what sets the
        answers apart.
        """
        row = {"name": name, "ours": ours, "peer": peer, "ratio": None if peer is None else peer / ours}
        self._rows.append(
            row | {"bound": bound, "difference": None if difference is None else float(difference)} | figures
        )

    def show(
        self,
        name: str,
        ours: float,
        peer: float | None = None,
        bound: float | None = None,
        difference: float | None = None,
        unit: str = "ms",
    ) -> None:
        """Keep a row, and print it in a unit that may be for one of many ("us/row")."""
        self.add(name, ours, peer, bound, difference)
        scale = {"us": 1e6, "ms": 1e3, "s": 1.0}[unit.split("/")[0]]
        line = f"{name:<62} {ours * scale:10.3f} "
        line += f"{peer * scale:10.3f} {unit:<7} {peer / ours:9.1f}x" if peer is not None else f"{'':10} {unit:<7}"
        if peer is not None and bound is not None:
            line += f" (bound {bound:g}x) {'ok' if peer / ours >= bound else 'SLOWER THAN THE BOUND'}"
        print(line + (f"  |diff| {difference:.1e}" if difference is not None else ""), flush=True)

    def compare(
        self,
        name: str,
        ours: Job,
        peer: Job,
        difference: Callable[[Any, Any], float],
        *,
        bound: float | None = None,
        unit: str = "ms",
        size: int = 1,
        peer_size: int = 1,
        repeats: int = 1,
        peer_repeats: int | None = None,
    ) -> None:
        """Time two jobs of some units of work each, check how far apart their answers are, and show the row."""
        own, answer = seconds(ours, repeats)
        if self.ours:
            return self.show(name, own / size, unit=unit)
        other, expected = seconds(peer, peer_repeats or repeats)
        return self.show(name, own / size, other / peer_size, bound, difference(answer, expected), unit)
