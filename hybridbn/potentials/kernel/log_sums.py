"""Logarithms of sums of kernels at targets: on a lattice where many kernels overlap, else over the nearest points."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from hybridbn.potentials.kernel.lattice import sum_on_lattice
from hybridbn.variables import Codes, Values

__all__ = ["DIGITS", "FARTHEST", "choose_units", "log_kernel_sums"]

NUMBERS = 1 << 20
"""Temporary arrays hold about this many numbers."""
REACH = 14.0
"""Kernels are summed on the lattice up to this distance, in bandwidths; beyond it, few of the nearest points matter."""
DIGITS = 25.0
"""The terms that are left out of a sum are less than exp(-DIGITS) of it."""
FARTHEST = 1e6
"""Farther away, in bandwidths, squares of distances have no digits left for their differences."""
FIRST_NEIGHBORS = 16
"""The number of nearest points that are summed first; it is quadrupled until the rest is negligible."""

Exponents = Callable[[Any, Any], Values]


def log_kernel_sums(
    points: Values,
    widths: Values,
    log_weights: Values,
    targets: Values,
    exponents: Exponents,
    tops: Values,
    lattice: bool = True,
) -> Values:
    """Return the logarithm of the sum of kernels at each target.

    Kernels are summed on a lattice where many overlap, else over the nearest points. What is left out of a sum is less
    than 1e-10 of it by a bound, and neither time nor memory grows with the number of points times targets.

    Parameters
    ----------
    points : ndarray (points, variables)
    widths : ndarray (variables,)
    log_weights : ndarray (points,)
    targets : ndarray (targets, variables)
    exponents : callable
        Called with rows of points, as a slice or (neighbors, targets), and with targets; returns the logarithms of
        weighted kernels relative to `tops`, in a way that keeps their digits far from all points.
    tops : ndarray (targets,)
    lattice : bool
        False where all targets are far from the points.

    Examples
    --------
    >>> points, weights = np.array([[0.0], [1.0]]), np.zeros(2)
    >>> targets = np.array([[0.0], [1e4]])
    >>> def exponents(some, chosen):
    ...     return -0.5 * (targets[chosen, 0] - points[some, 0].reshape(-1, len(targets[chosen]))) ** 2
    >>> log_kernel_sums(points, np.ones(1), weights, targets, exponents, np.zeros(2)).round(4)
    array([ 4.74100000e-01, -4.99900005e+07])
    """
    from scipy.special import logsumexp

    result = np.full(len(targets), np.nan)
    low, high = points.min(axis=0), points.max(axis=0)
    with np.errstate(over="ignore", invalid="ignore"):
        scaled, wanted = (points - low) / widths, (targets - low) / widths
        ends = (high - low) / widths
        near = ((wanted > -FARTHEST) & (wanted < ends + FARTHEST)).all(axis=1)
    if not (ends < FARTHEST).all():
        near[:] = False
    remaining = np.flatnonzero(near)
    top = float(log_weights.max())
    if lattice and points.shape[1] <= 2:
        reached = (wanted > -REACH).all(axis=1) & (wanted < ends + REACH).all(axis=1) & near
        reachable = np.flatnonzero(reached)
        weights = np.exp(log_weights - top)
        least = float(weights.sum()) * math.exp(DIGITS - REACH**2 / 2)
        if len(reachable):
            origin, unit = choose_units(points, widths)
            ours, theirs = (points - origin) / unit, (targets[reachable] - origin) / unit
            for rows, sums in sum_on_lattice(ours, weights, list((widths / unit)[:, None]), REACH, theirs):
                sums = sums.reshape(-1)
                accurate = sums >= least
                chosen = reachable[rows[accurate]]
                result[chosen] = np.log(sums[accurate]) + (top - tops[chosen])
        remaining = remaining[np.isnan(result[remaining])]
    if len(remaining):
        _sum_nearest(scaled, log_weights, wanted, exponents, remaining, result)
    far = np.flatnonzero(~near)
    at_once = max(1, NUMBERS // len(points))
    for start in range(0, len(far), at_once):
        some = far[start : start + at_once]
        result[some] = logsumexp(exponents(slice(None), some), axis=0)
    return result


def choose_units(points: Values, widths: Values) -> tuple[Values, Values]:
    """Return an origin from which differences are exact, and powers of two as units; others would lose digits."""
    low, high = points.min(axis=0), points.max(axis=0)
    with np.errstate(over="ignore"):
        return np.where(np.abs(low) > high - low, low, 0.0), np.ldexp(1.0, np.frexp(widths)[1] - 1)


def _sum_nearest(
    scaled: Values, log_weights: Values, wanted: Values, exponents: Exponents, rows: Codes, result: Values
) -> None:
    """Write the logarithms of sums at some rows of `wanted` into `result`, over as many nearest points as needed.

    `scaled` are the points and `wanted` the targets in units of the bandwidths.
    """
    from scipy.spatial import cKDTree
    from scipy.special import logsumexp

    # unbalanced, because many equal points make a balanced tree slow
    tree = cKDTree(scaled, balanced_tree=False, compact_nodes=False)
    total_weight = float(logsumexp(log_weights))
    count = min(FIRST_NEIGHBORS, len(scaled))
    while len(rows):
        unsettled = []
        at_once = max(1, NUMBERS // count)
        for start in range(0, len(rows), at_once):
            some = rows[start : start + at_once]
            distances, neighbors = tree.query(wanted[some], k=count)
            squares = distances.reshape(len(some), -1) ** 2
            neighbors = neighbors.reshape(len(some), -1)
            best = (log_weights[neighbors] - 0.5 * squares).max(axis=1)
            # all other points together add at most all the weight at the distance of the last neighbor
            missing = total_weight - 0.5 * squares[:, -1] + DIGITS
            slack = 1e-14 * squares[:, -1]
            settled = (best > missing + slack) | (count == len(scaled))
            done = some[settled]
            result[done] = logsumexp(exponents(neighbors[settled].T, done), axis=0)
            unsettled.append(some[~settled])
        rows = np.concatenate(unsettled)
        count = min(4 * count, len(scaled))
