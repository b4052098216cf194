"""Equal rows of evidence are computed once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hybridbn.inference.evidence import Evidence, Finding
from hybridbn.variables import Discrete

__all__ = ["Repeats", "repeats"]

WORTHWHILE = 64
"""Fewer rows are not worth looking at, where inference is cheap."""


class Repeats(NamedTuple):
    """The first row of each kind, and for each row its kind."""

    first: NDArray[np.intp]
    inverse: NDArray[np.intp]


def repeats(evidence: Evidence, *, continuous: bool) -> Repeats | None:
    """Find equal rows; None where there are hardly any, or where looking for them would not pay.

    Parameters
    ----------
    continuous : whether rows with anything but states are worth comparing (where inference is expensive)
    """
    findings = list(evidence.findings.values())
    if evidence.rows < (2 if continuous else WORTHWHILE):
        return None
    if all(isinstance(finding.variable, Discrete) and finding.plain for finding in findings):
        space = 1
        codes = np.zeros(evidence.rows, dtype=np.intp)
        for finding in findings:
            assert isinstance(finding.variable, Discrete)
            states = len(finding.variable) + 1
            space *= states
            if space >= 2**62:
                return None
            codes = codes * states + (finding.values + 1)
        return _few(codes, space) if space <= 2 * evidence.rows else _sorted(codes)
    if not continuous:
        return None
    columns = [column for finding in findings for column in _columns(finding)]
    keys = np.zeros(evidence.rows, dtype=np.uint64)
    for bits in columns:
        keys = (keys ^ (bits ^ (bits >> np.uint64(31)))) * np.uint64(0x9E3779B97F4A7C15)
        keys ^= keys >> np.uint64(29)
    found = _sorted(keys)
    if found is not None and any((bits != bits[found.first][found.inverse]).any() for bits in columns):
        return None
    return found


def _columns(finding: Finding) -> Iterator[NDArray[np.uint64]]:
    """Yield the bits of all that a finding says of each row."""
    for array in finding.columns():
        # adding zero turns -0.0 into 0.0; NaN has one bit pattern here
        bits = np.ascontiguousarray(array + 0.0).view(np.uint64)
        yield np.where(np.isnan(array), np.uint64(0x7FF8000000000001), bits)


def _few(keys: NDArray[np.intp], space: int) -> Repeats:
    """Number the kinds through a table of all possible keys."""
    first = np.full(space, -1, dtype=np.intp)
    first[keys[::-1]] = np.arange(len(keys) - 1, -1, -1)
    present = np.flatnonzero(first >= 0)
    number = np.empty(space, dtype=np.intp)
    number[present] = np.arange(len(present))
    return Repeats(first[present], number[keys])


def _sorted(keys: NDArray[np.uint64] | NDArray[np.intp]) -> Repeats | None:
    _, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
    return Repeats(first, inverse.ravel()) if len(first) <= 0.9 * len(keys) else None
