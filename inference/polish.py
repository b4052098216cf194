"""Newton steps on the exact log density: from a peak found on a grid to its place.

Comparing heights finds a peak only to the square root of their precision; its slope and curvature, from differences of
exact heights around it, find it to that precision.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations

import numpy as np

from hybridbn.variables import Values

__all__ = ["polished"]

STEP = 1e-4
"""Differences are taken over that part of the peak's width: the error of the slope is about its square."""
ROUNDS = 3
LOSS = 1e-12
"""Steps that lower the log density by more than this part of it, which is more than rounding, are taken back."""
NEAR = 50.0
"""A Newton step of more than so many differences means that this is no peak's neighborhood; it is not taken."""


def polished(heights: Callable[[Values], Values], start: Values, width: Values, fixed: Values) -> Values:
    """Return the places of peaks.

    Parameters
    ----------
    heights : function
        From points (variables, points, rows) to log densities (points, rows).
    start : ndarray (variables, rows)
    width : ndarray (variables, rows)
        About the width of the peak.
    fixed : ndarray of bool (variables, rows)
        What must not move.
    """
    count, rows = start.shape
    pairs = list(combinations(range(count), 2))
    offsets = np.zeros((1 + 2 * count + len(pairs), count))
    for i in range(count):
        offsets[1 + i, i], offsets[1 + count + i, i] = 1, -1
    for number, pair in enumerate(pairs):
        offsets[1 + 2 * count + number, list(pair)] = 1
    place, step, reached = start.copy(), STEP * width, heights(start[:, None])[0]
    for _ in range(ROUNDS):
        values = heights(place[:, None] + offsets.T[:, :, None] * step[:, None])
        middle, above, below = values[0], values[1 : 1 + count], values[1 + count : 1 + 2 * count]
        with np.errstate(invalid="ignore"):
            slope = (above - below) / 2
            curvature = np.zeros((rows, count, count))
            for i in range(count):
                curvature[:, i, i] = above[i] - 2 * middle + below[i]
            for number, (i, j) in enumerate(pairs):
                mixed = values[1 + 2 * count + number] - above[i] - above[j] + middle
                curvature[:, i, j] = curvature[:, j, i] = mixed
        good = np.isfinite(values).all(axis=0)
        held = np.where(good, fixed, True).T
        slope = np.where(held, 0.0, slope.T)
        curvature = np.where(held[:, :, None] | held[:, None, :], 0.0, curvature)
        curvature[:, np.arange(count), np.arange(count)] -= held
        peak = np.linalg.eigvalsh(curvature).max(axis=1, initial=-1.0) < 0
        curvature[~peak] = -np.eye(count)
        move = np.linalg.solve(curvature, -slope[..., None])[..., 0]
        taken = peak & (np.abs(move) <= NEAR).all(axis=1)
        place = place + np.where(taken, move.T * step, 0.0)
        diagonal = -np.diagonal(curvature, axis1=1, axis2=2).T
        # the second difference over one step is (step / width)^2
        better = step * STEP / np.sqrt(np.where(diagonal > 0, diagonal, STEP**2))
        step = np.where(taken & ~held.T, better, step)
    # a jump beside the peak looks like curvature, and the steps lead away from it
    with np.errstate(invalid="ignore"):
        worse = heights(place[:, None])[0] < reached - LOSS * (1 + np.abs(reached))
    return np.where(worse, start, place)
