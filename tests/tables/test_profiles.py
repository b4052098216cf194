"""Profiles of columns with more states than are tracked: counts are bounded on both sides, however the rows come."""

from __future__ import annotations

import json
import math
from collections import Counter
from functools import reduce
from operator import add
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import hybridbn as hb
from hybridbn.commands.column_profiles import TableProfile
from hybridbn.tables.backends import profiles
from hybridbn.tables.backends.profiles import ColumnTally, _States
from hybridbn.units import DAY, Unit

pyarrow = pytest.importorskip("pyarrow")

TRACKED = 8
ROWS = 600
CELLS = np.random.default_rng(3).zipf(1.4, ROWS) % 60


def tally(cells: Any, size: int) -> ColumnTally:
    """Count the cells of one part, batch by batch."""
    column = _States("c", None)
    for start in range(0, len(cells), size):
        block = pyarrow.record_batch({"c": [None if cell == 7 else f"s{cell}" for cell in cells[start : start + size]]})
        codes = column.add(SimpleNamespace(data=block), None)  # type: ignore[arg-type]
        assert codes is not None
        column.count(codes, None)
    return column.tally()


@pytest.mark.parametrize("size", [600, 40])
@pytest.mark.parametrize("parts", [1, 2, 7])
def test_counts_are_bounded(parts: int, size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(profiles, "TRACKED", TRACKED)
    split = [tally(cells, size) for cells in np.array_split(CELLS, parts)]
    for together in (reduce(add, split), reduce(add, split[::-1])):
        assert together.counts is not None
        assert together.missing == (CELLS == 7).sum()
        assert 0 < len(together.counts) <= TRACKED
        assert together.lost > 0
        for state in set(CELLS.tolist()) - {7}:
            true, counted = int((state == CELLS).sum()), together.counts.get(f"s{state}", 0)
            assert counted <= true <= counted + together.lost, state
        # Misra and Gries: each time, one more state than are kept loses so much
        assert together.lost <= ROWS / TRACKED


def test_few_states_are_counted_exactly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(profiles, "TRACKED", TRACKED)
    cells = CELLS % 5
    one, other = tally(cells[:250], 40), tally(cells[250:], 300)
    for together in (one + other, other + one, tally(cells, ROWS)):
        assert together.lost == 0
        assert together.counts == {f"s{state}": int((cells == state).sum()) for state in range(5)}


def test_ranges_units_and_kinds_of_two_parts() -> None:
    day, hour = (Unit("datetime", step=step) for step in (DAY, DAY // 24))
    one = ColumnTally(missing=1, low=-1.0, high=4.0, unit=day)
    other = ColumnTally(missing=2, low=0.0, high=9.0, integer=False, unit=hour)
    for together in (one + other, other + one):
        assert (together.missing, together.low, together.high, together.integer) == (3, -1.0, 9.0, False)
        assert together.unit is not None
        assert together.unit.step == DAY // 24
    empty = ColumnTally() + one
    assert (empty.low, empty.high, empty.unit) == (-1.0, 4.0, day)
    assert (ColumnTally() + ColumnTally()).low == math.inf


def test_patterns_of_holes_are_those_of_the_whole_where_columns_come_late(tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    rows = [{"a": 1.5}] * 3 + [
        {name: float(row) for name in "abc" if rng.random() < (0.7 if name == "a" or row > 20 else 0.0)}
        for row in range(60)
    ]
    expected = Counter(bytes(name not in row for name in "abc") for row in rows)
    whole = tmp_path / "whole.jsonl"
    whole.write_text("".join(json.dumps(row) + "\n" for row in rows))
    for table in (hb.scan(str(whole)), hb.read_table(whole)):
        assert list(table.names) == ["a", "b", "c"]
        # from a sample of all rows, and in passes
        for most in (1000, 5):
            assert TableProfile(table, {}, most).patterns == expected
        blank = TableProfile(table, {}, 5).blank
        assert blank == expected[bytes([1, 1, 1])]
