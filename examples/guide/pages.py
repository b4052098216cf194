"""Pages that are made when the site is built: public names that no page of the reference has yet, and the numbers."""

from __future__ import annotations

import json
import re
from importlib import import_module
from pathlib import Path
from typing import Any

PACKAGES = ("", "estimators", "fitting", "learning", "potentials", "structures", "datasets")
"""The packages whose `__all__` is public."""


def list_public_names() -> dict[str, Any]:
    """Return the public names, each once, by the shortest path to it."""
    names: dict[int, str] = {}
    for package in PACKAGES:
        path = f"hybridbn.{package}".rstrip(".")
        module = import_module(path)
        for name in module.__all__:
            value = getattr(module, name)
            if not name.startswith("__"):
                names.setdefault(id(value), f"{path}.{name}")
    return {name: key for key, name in names.items()}


def list_documented_names(folder: Path) -> set[str]:
    """Return the names that the hand-written pages of the reference list."""
    pages = [path for path in (folder / "reference").glob("*.rst") if path.stem != "other_names"]
    return {name for page in pages for name in re.findall(r"^   (hybridbn\.\S+)$", page.read_text(), re.MULTILINE)}


def write_other_names(folder: Path) -> None:
    """Write the page of the public names that no other page lists, so that none is left out."""
    others = sorted(set(list_public_names()) - list_documented_names(folder))
    lines = ["Other names", "===========", ""]
    if others:
        lines += [".. autosummary::", "   :toctree: ../generated", "   :nosignatures:", ""]
        lines += [f"   {name}" for name in others]
    else:
        lines.append("There are none: the pages before hold every public name.")
    _write(folder / "reference" / "other_names.rst", lines)


def write_numbers(folder: Path) -> None:
    """Write the page of the numbers from what ``examples/benchmarks/ratios.py`` measured last."""
    path = folder.parent / "benchmarks" / "ratios.json"
    lines = (folder / "numbers_text.txt").read_text(encoding="utf-8").splitlines()
    if path.exists():
        lines += _number_lines(json.loads(path.read_text(encoding="utf-8")))
    _write(folder / "numbers.rst", lines)


def _number_lines(measured: dict[str, Any]) -> list[str]:
    versions = ", ".join(f"{name} {version}" for name, version in measured["versions"].items())
    sizes = " These are figures of a quick run, on smaller tables." if measured["quick"] else ""
    lines = ["", f"Measured with {versions}, on {measured['machine']}.{sizes}", ""]
    for benchmark, rows in measured["benchmarks"].items():
        compared = [row for row in rows if row["ratio"] is not None]
        if not compared:
            continue
        lines += [benchmark, "-" * len(benchmark), ""]
        if benchmark in measured["incomplete"]:
            lines += ["This one ran out of time, so that its last rows are missing.", ""]
        lines += [
            ".. list-table::",
            "   :header-rows: 1",
            "   :widths: 60 14 14 12",
            "",
        ]
        lines += _cells("", "hybridbn", "peer", "ratio")
        for row in compared:
            times = [format_seconds(row[side]) for side in ("ours", "peer")]
            lines += _cells(row["name"], *times, format_ratio(row["ratio"]))
        lines.append("")
    return lines


def format_seconds(seconds: float) -> str:
    """Return a time in the unit that suits it.

    Examples
    --------
    >>> format_seconds(0.00123)
    '1.23 ms'
    """
    units = (("s", 1.0), ("ms", 1e3), ("µs", 1e6))
    unit, scale = next((pair for pair in units if seconds * pair[1] >= 1), units[-1])
    return f"{seconds * scale:.3g} {unit}"


def format_ratio(ratio: float) -> str:
    """Return a ratio with two or three digits that count.

    Examples
    --------
    >>> format_ratio(2163.1), format_ratio(0.5512)
    ('2,163', '0.55')
    """
    return f"{ratio:,.0f}" if ratio >= 100 else f"{ratio:.2g}" if ratio < 1 else f"{ratio:.3g}"


def _cells(first: str, *others: str) -> list[str]:
    return [f"   * - {first}", *(f"     - {cell}" for cell in others)]


def _write(path: Path, lines: list[str]) -> None:
    text = "\n".join(lines).rstrip() + "\n"
    if not path.exists() or path.read_text(encoding="utf-8") != text:  # else everything would be built anew
        path.write_text(text, encoding="utf-8")
