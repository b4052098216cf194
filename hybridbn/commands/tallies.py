"""What the report and the last line of the command count: observed and imputed values of each column, part by part."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from hybridbn.commands.filling import Fills
from hybridbn.commands.profile import ColumnProfile, Profile
from hybridbn.tables.columns import Cells

__all__ = ["Tally", "bins_of", "counted", "joined"]

_BINS = 32

Tally: TypeAlias = dict[str, dict[str, list[float]]]


def bins_of(column: ColumnProfile) -> NDArray[Any]:
    """Return the ends of the intervals that a column of numbers is counted in, where nearly all of them lie.

    Examples
    --------
    >>> bins_of(ColumnProfile("x", kind="number", low=1.0, high=3.0)).tolist()
    [0.5, 1.5, 2.5, 3.5]
    """
    low, high = column.body or (column.low, column.high)
    if column.whole:
        low, high = math.floor(low), math.ceil(high)
    if column.whole and high - low < _BINS:
        return np.asarray(np.arange(low, high + 2) - 0.5)
    if column.whole:
        width = np.ceil((high - low + 1) / _BINS)
        return np.asarray(low - 0.5 + width * np.arange(np.ceil((high - low + 1) / width) + 1))
    spread = high - low if high > low else abs(low) or 1.0
    ends = np.linspace(low, low + spread, _BINS + 1)
    ends[-1] = np.nextafter(ends[-1], np.inf)  # the greatest number lies in the last one
    return ends


def counted(profile: Profile, cells: dict[str, Cells], fills: list[Fills]) -> Tally:
    """Return the counts of a block: of observed cells, and of the imputed ones of all draws.

    Of numbers there are the counts below, in and above the bins, and number, sum and sum of squares; of states, their counts.
    """
    tally: Tally = {}
    for name, found in cells.items():
        column = profile.columns[name]
        values = [value for fill in fills if name in fill for value in fill[name][1]]
        if column.kind == "number":
            seen = found.array[~found.missing]
            imputed = np.array(values, dtype=float)
            ends = np.concatenate([[-np.inf], bins_of(column), [np.inf]])
            center = (column.low + column.high) / 2
            tally[name] = {
                what: [*np.histogram(part, ends)[0].tolist(), len(part), *_sums(part - center)]
                for what, part in (("observed", seen), ("imputed", imputed))
            }
        else:
            codes = {state: code for code, state in enumerate(column.states)}
            size = len(column.states)
            tally[name] = {
                "observed": np.bincount(found.array[~found.missing], minlength=size).tolist(),
                "imputed": np.bincount([codes[v] for v in values if v in codes], minlength=size).tolist(),
            }
    return tally


def _sums(values: NDArray[Any]) -> tuple[float, float]:
    return float(values.sum()), float((values * values).sum())


def joined(tallies: Iterable[Tally]) -> Tally:
    """Add up the counts of blocks.

    Examples
    --------
    >>> joined([{"x": {"observed": [1, 2]}}, {"x": {"observed": [0, 3]}}])
    {'x': {'observed': [1.0, 5.0]}}
    """
    total: dict[str, dict[str, NDArray[Any]]] = {}
    for tally in tallies:
        for name, kinds in tally.items():
            held = total.setdefault(name, {})
            for what, counts in kinds.items():
                added = np.array(counts, dtype=float)
                held[what] = held[what] + added if what in held else added
    return {name: {what: counts.tolist() for what, counts in kinds.items()} for name, kinds in total.items()}
