"""The library as it was at an earlier commit, beside the one that is tested: both run in one environment, and their
answers are compared.

A test file that compares holds functions `record_<section>()`, which give trees of plain values. `recorded` calls one
in a process of its own, with the library of either tree, and `differences` compares the two trees.

`HYBRIDBN_EARLIER` names that commit, or a folder with its checkout; without it there is nothing to compare with, since
versions may differ in what they answer. It is for changes that ought to leave all answers as they are.
"""

from __future__ import annotations

import argparse
import io
import json
import math
import os
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
EARLIER = os.environ.get("HYBRIDBN_EARLIER", "")
LINKS = ("structures", "inference")

# one thread, so that sums are added in one order; the width of help texts depends on the terminal otherwise
_STEADY = {
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "PYTHONHASHSEED": "0",
    "COLUMNS": "80",
    "TZ": "UTC",
}


def earlier_tree(folder: Path) -> Path:
    """Put a checkout of the earlier version into a folder and return it, or skip the test.

    The history may lack the commit: in a shallow clone, say, or in an archive of the sources.
    """
    if not EARLIER:
        pytest.skip("HYBRIDBN_EARLIER names no commit or checkout to compare with")
    if Path(EARLIER).is_dir():
        return Path(EARLIER).resolve()
    try:
        packed = subprocess.run(
            ["git", "-C", str(ROOT), "archive", "--format=tar", EARLIER], capture_output=True, check=True
        ).stdout
    except FileNotFoundError:
        pytest.skip("git, which gives the earlier version, is not installed")
    except subprocess.CalledProcessError as error:
        reason = error.stderr.decode(errors="replace").strip()
        pytest.skip(f"the history here has no commit {EARLIER} to compare with: {reason}")
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        archive.extractall(folder, filter="data")
    for name in LINKS:
        link = folder / "hybridbn" / name
        if not link.is_dir():  # where git does not make links, they come out as small files
            link.unlink(missing_ok=True)
            link.symlink_to(Path("..", name))
    return folder


def environment(tree: Path) -> dict[str, str]:
    """Return the environment in which `import hybridbn` takes a tree; its path stands before what is installed."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("HYBRIDBN_")}
    return {**kept, **_STEADY, "PYTHONPATH": f"{tree}{os.pathsep}{HERE}", "HYBRIDBN_TREE": str(tree)}


def require_tree() -> None:
    """Make sure that the library which this process imports is the one that it was started for."""
    import hybridbn

    tree, home = Path(os.environ["HYBRIDBN_TREE"]).resolve(), Path(str(hybridbn.__file__)).resolve()
    if not home.is_relative_to(tree):
        raise RuntimeError(f"hybridbn comes from {home}, not from {tree}")


def recorded(script: str, section: str, tree: Path, folder: Path) -> Any:
    """Return what `record_<section>` of a test file gives with the library of a tree; run it in a new folder."""
    folder.mkdir(parents=True)
    path = folder.with_suffix(".json")
    done = subprocess.run(
        [sys.executable, "-W", "ignore", script, "--record", section, str(path)],
        cwd=folder,
        env=environment(tree),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"section {section} failed with {tree}:\n{done.stdout[-4000:]}")
    return json.loads(path.read_text())


# -- trees of plain values ---------------------------------------------------------------------------------------------


def encode(value: Any) -> Any:
    """Return a value as JSON that loses nothing: floats in hexadecimal, names with their types."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, np.generic):
        return encode(value.item())
    if isinstance(value, int):
        return value
    if isinstance(value, float):
        return f"float {value.hex()}"
    if isinstance(value, str):
        return f"text {value}"
    if isinstance(value, np.ndarray):
        return {"shape": list(value.shape), "values": [encode(v) for v in value.ravel().tolist()]}
    if isinstance(value, Mapping):
        return {str(name) if isinstance(name, str) else repr(name): encode(v) for name, v in value.items()}
    if isinstance(value, set | frozenset):
        return sorted(repr(v) for v in value)
    if isinstance(value, Iterable):
        return [encode(v) for v in value]
    return repr(value)


@dataclass(frozen=True)
class Difference:
    """Where two trees differ, and by how much: relative to max(1, value), or infinite where they are no numbers."""

    path: str
    earlier: Any
    current: Any
    size: float

    def __str__(self) -> str:
        return f"{self.path}: {_short(self.earlier)} -> {_short(self.current)} ({self.size:.3g})"


def _short(value: Any) -> str:
    number = _number(value)
    text = json.dumps(value, ensure_ascii=False) if number is None else repr(number)
    return text if len(text) <= 200 else f"{text[:100]} ... {text[-90:]}"


def _number(value: Any) -> float | None:
    if isinstance(value, str) and value.startswith("float "):
        return float.fromhex(value[6:])
    return float(value) if isinstance(value, int) and not isinstance(value, bool) else None


def compare(earlier: Any, current: Any, path: str = "") -> Iterator[Difference | None]:
    """Yield for every leaf of two trees None, or how they differ; what only one tree has is a difference, too."""
    if isinstance(earlier, dict) and isinstance(current, dict):
        for name in [*earlier, *(n for n in current if n not in earlier)]:
            at = f"{path}/{name}"
            if name not in earlier or name not in current:
                yield Difference(at, earlier.get(name, "absent"), current.get(name, "absent"), math.inf)
            else:
                yield from compare(earlier[name], current[name], at)
    elif isinstance(earlier, list) and isinstance(current, list):
        if len(earlier) != len(current):
            yield Difference(f"{path}/length", len(earlier), len(current), math.inf)
        for i, (one, other) in enumerate(zip(earlier, current, strict=False)):
            yield from compare(one, other, f"{path}[{i}]")
    elif earlier == current and type(earlier) is type(current):
        yield None
    else:
        one, other = _number(earlier), _number(current)
        size = math.inf
        if one is not None and other is not None and math.isfinite(one) and math.isfinite(other):
            size = abs(one - other) / max(1.0, abs(one))
        yield Difference(path, earlier, current, size)


@dataclass(frozen=True)
class Comparison:
    """The outcome for a section."""

    section: str
    compared: int
    largest: float
    differences: tuple[Difference, ...]

    def __str__(self) -> str:
        lines = [
            f"{self.section}: {self.compared} values compared, the largest difference is {self.largest:.3g}, "
            f"{len(self.differences)} beyond what is allowed"
        ]
        lines += [f"  {difference}" for difference in self.differences[:40]]
        return "\n".join(lines + ["  ..."] * (len(self.differences) > 40))


def differences(section: str, earlier: Any, current: Any, tolerance: float = 0.0) -> Comparison:
    """Compare two trees; a difference of numbers up to `tolerance` is allowed."""
    compared, largest, listed = 0, 0.0, []
    for difference in compare(earlier, current):
        compared += 1
        if difference is not None:
            largest = max(largest, difference.size)
            # a difference of size 0 is one of type: 1 and 1.0, 0.0 and -0.0
            if difference.size > tolerance or not tolerance:
                listed.append(difference)
    return Comparison(section, compared, largest, tuple(listed))


def compare_section(script: str, section: str, tolerance: float, folder: Path) -> Comparison:
    """Run a section of a test file with both versions, and compare."""
    before = recorded(script, section, earlier_tree(folder / "earlier"), folder / "answers" / "earlier")
    now = recorded(script, section, ROOT, folder / "answers" / "current")
    return differences(section, before, now, tolerance)


def run_as_tool(script: str, sections: Mapping[str, Any], tolerances: Mapping[str, float], given: Sequence[str]) -> int:
    """Be the command line of a test file: print the summary of sections; with ``--record`` write what one gives."""
    parser = argparse.ArgumentParser(description=f"Compare this version with {EARLIER}.")
    parser.add_argument("sections", nargs="*", metavar="SECTION", help=", ".join(sections))
    parser.add_argument("--record", nargs=2, metavar=("SECTION", "FILE"), help="write what this version gives")
    options = parser.parse_args(given)
    if options.record:
        require_tree()
        section, path = options.record
        Path(path).write_text(json.dumps(sections[section]()))
        return 0
    if unknown := set(options.sections) - set(sections):
        parser.error(f"no section {', '.join(sorted(unknown))}; there are {', '.join(sections)}")
    code = 0
    for section in options.sections or sections:
        with tempfile.TemporaryDirectory() as folder:
            try:
                comparison = compare_section(script, section, tolerances.get(section, 0.0), Path(folder))
            except pytest.skip.Exception as skipped:
                print(f"{section}: skipped, {skipped}")
                continue
        print(comparison, flush=True)
        code = code or int(bool(comparison.differences))
    return code
