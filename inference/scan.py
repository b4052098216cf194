"""Where a density lies that does not say so itself: quantiles of its child for some values of the parents.

A family that declares its support and breaks is taken at its word. For others, such as a user's function on the whole line,
the child's cdf is inverted for all states of the discrete parents and a few values of each continuous one, over the range
that it has. What lies between those values is interpolated; a density that moves elsewhere in between can be missed.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from functools import lru_cache

import numpy as np

from hybridbn.errors import NetworkError
from hybridbn.potentials.base import Interval, Potential
from hybridbn.variables import Continuous, Discrete, Values

__all__ = ["breaks", "support"]

LEVELS = np.array([1e-15, 1e-12, 1e-9, 1e-6, 1e-3, 0.02, 0.1, 0.25, 0.5, 0.75, 0.9, 0.98, 1 - 1e-3, 1 - 1e-6, 1 - 1e-9, 1 - 1e-12, 1 - 1e-15])  # fmt: skip
PLACES = 5
"""Values of each continuous parent."""
MOST_CASES = 256
BEYOND = 0.25
"""How much farther than the outermost quantiles the support is taken to go, relative to their distance."""


def support(potential: Potential, name: str, tail: float, within: Mapping[str, Interval]) -> Interval:
    """Return the support of a continuous variable; the child's from a scan where an end of it is infinite."""
    low, high = potential.support(name, tail, within)
    if name != potential.child.name or (np.isfinite(low).all() and np.isfinite(high).all()):
        return low, high
    found = _quantiles(potential, _key(potential, within))
    least, most = float(found[0].min()), float(found[-1].max())
    room = BEYOND * (most - least)
    return np.where(np.isfinite(low), low, least - room), np.where(np.isfinite(high), high, most + room)


def breaks(potential: Potential, name: str, within: Mapping[str, Interval]) -> Values:
    """Return the breaks along a continuous variable; quantiles of the child where it declares no support."""
    declared = potential.breaks(name, within)
    low, high = potential.support(name, 1e-12, within)
    if name != potential.child.name or (np.isfinite(low).all() and np.isfinite(high).all()):
        return declared
    found = _quantiles(potential, _key(potential, within))
    # few of them: the outermost and the middle ones over all cases
    points = np.concatenate([found.min(axis=1), np.median(found, axis=1), found.max(axis=1)])
    points = np.unique(points)
    if declared.ndim == 2:
        points = np.broadcast_to(points[:, None], (len(points), declared.shape[1]))
    return np.sort(np.concatenate([declared, points]), axis=0)


def _key(potential: Potential, within: Mapping[str, Interval]) -> tuple[tuple[float, float], ...]:
    """Return the range of each continuous parent over all rows."""
    ranges = []
    for parent in potential.parents:
        if isinstance(parent, Continuous):
            low, high = within.get(parent.name, (-1.0, 1.0))
            ends = float(np.min(low, initial=np.inf)), float(np.max(high, initial=-np.inf))
            ranges.append(ends if np.isfinite(ends).all() else (-1.0, 1.0))
    return tuple(ranges)


@lru_cache(maxsize=128)
def _quantiles(potential: Potential, ranges: tuple[tuple[float, float], ...]) -> Values:
    """Return quantiles of the child (levels, cases)."""
    left = iter(ranges)
    choices = [
        np.arange(float(len(parent))) if isinstance(parent, Discrete) else np.unique(np.linspace(*next(left), PLACES))
        for parent in potential.parents
    ]
    cases = np.array(list(itertools.islice(itertools.product(*choices), MOST_CASES)))
    try:
        return _inverted(potential, cases)
    except NetworkError:
        # it may be none for parents at the ends of their ranges
        return _inverted(potential, cases[len(cases) // 2 : len(cases) // 2 + 1])


def _inverted(potential: Potential, cases: Values) -> Values:
    given = {
        parent.name: np.repeat(column.astype(np.intp) if isinstance(parent, Discrete) else column, len(LEVELS))
        for parent, column in zip(potential.parents, cases.T, strict=True)
    }
    found = np.asarray(potential.ppf(np.tile(LEVELS, len(cases)), given), dtype=np.float64)
    return np.clip(found, -1e150, 1e150).reshape(len(cases), len(LEVELS)).T
