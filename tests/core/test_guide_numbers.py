"""The command that measures hybridbn beside its peers, and the page of the guide that is made of what it writes."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
BENCHMARKS = ROOT / "examples" / "benchmarks"


@pytest.fixture
def ratios(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return importlib.import_module("ratios")


def measure(**ratio: float | None) -> dict[str, Any]:
    rows = [
        {"name": name, "ours": 0.5, "peer": None if value is None else value / 2, "ratio": value}
        for name, value in ratio.items()
    ]
    return {
        "versions": {"hybridbn": "1", "Python": "3"},
        "machine": "a computer",
        "quick": False,
        "incomplete": [],
        "benchmarks": {"bif": rows},
    }


def test_worse_ratios_are_named(ratios: Any) -> None:
    lines, worse = ratios.compare_ratios(measure(a=2.0, b=8.0, c=1.0, d=None), measure(a=2.4, b=11.0, d=3.0))
    assert worse == ["bif: b"]  # by more than a quarter
    assert [line.split()[1] for line in lines[1:]] == ["a", "b", "c"]  # without a peer there is no ratio
    assert lines[1].split()[-2:] == ["2", "2.4"]
    assert lines[3].split()[-1] == "1"  # new: nothing to compare with


def test_each_benchmark_takes_what_the_command_gives(ratios: Any) -> None:
    for name, (full, quick) in ratios.BENCHMARKS.items():
        text = (BENCHMARKS / f"{name}.py").read_text(encoding="utf-8")
        assert "parser(__doc__)" in text  # of `rows`, with --json and --ours
        for option in (*full, *quick):
            assert not option.startswith("--") or f'"{option}"' in text
    assert not (BENCHMARKS / "numbers.py").exists()  # it would hide the module of that name from all benchmarks


@pytest.mark.slow
def test_a_run_writes_what_the_page_is_made_of(
    ratios: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("duckdb")
    pytest.importorskip("pybnesian")
    monkeypatch.setitem(ratios.BENCHMARKS, "peers", ([], ["--rows", "500"]))
    last = tmp_path / "last.json"
    last.write_text(json.dumps(measure(a=1.0) | {"quick": True}))
    goal = tmp_path / "new.json"
    monkeypatch.setattr(
        sys, "argv", ["ratios.py", "--quick", "--only", "peers", "--json", str(goal), "--last", str(last)]
    )
    ratios.main()
    assert "0 rows worse than in the last release" in capsys.readouterr().out
    measured = json.loads(goal.read_text())
    assert {"hybridbn", "Python", "numpy", "duckdb"} <= set(measured["versions"])
    assert measured["machine"]
    assert all(row["ratio"] > 0 for row in measured["benchmarks"]["peers"])
    assert len(measured["benchmarks"]["peers"]) == 3


def test_the_page_shows_every_ratio(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "examples" / "guide"))
    pages = importlib.import_module("pages")
    for folder in ("guide", "benchmarks"):
        (tmp_path / folder).mkdir()
    (tmp_path / "guide" / "numbers_text.txt").write_text("The numbers\n===========\n")
    (tmp_path / "benchmarks" / "ratios.json").write_text(json.dumps(measure(read=20.0, alone=None)))
    pages.write_numbers(tmp_path / "guide")
    written = (tmp_path / "guide" / "numbers.rst").read_text(encoding="utf-8")
    assert "Measured with hybridbn 1, Python 3, on a computer." in written
    assert "   * - read\n     - 500 ms\n     - 10 s\n     - 20\n" in written
    assert "alone" not in written
    assert "ran out of time" not in written
    (tmp_path / "benchmarks" / "ratios.json").write_text(json.dumps(measure(read=2163.1) | {"incomplete": ["bif"]}))
    pages.write_numbers(tmp_path / "guide")
    written = (tmp_path / "guide" / "numbers.rst").read_text(encoding="utf-8")
    assert "ran out of time" in written
    assert "     - 2,163\n" in written
    assert [pages.format_seconds(value) for value in (2.0, 0.02, 3e-6)] == ["2 s", "20 ms", "3 µs"]
