"""Logarithms of sums of many kernels at many places: a lattice where kernels overlap, nearest points where they don't.

For thousands of points and places the work is neither points times places nor in need of large arrays. What is left out
of a sum is less than 1e-10 of it by a bound, not by a guess.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.spatial import cKDTree
from scipy.special import logsumexp

from hybridbn.potentials.kernel.lattice import lattice_sums
from hybridbn.variables import Codes, Values

__all__ = ["DIGITS", "FARTHEST", "log_sums", "nearest_log_sums"]

NUMBERS = 1 << 20
"""Temporary arrays hold about this many numbers."""
REACH = 14.0
"""How far kernels are summed on the lattice, in bandwidths. Beyond, nearest points take over, and by then few of them count."""
DIGITS = 25.0
"""What is left out of a sum is less than exp(-DIGITS) of it."""
FARTHEST = 1e6
"""In bandwidths; squares of larger distances have no digits left for the difference of two of them."""
FIRST = 16
"""How many nearest points are looked at first."""

Exponents = Callable[[Any, Any], Values]


def log_sums(
    points: Values,
    widths: Values,
    log_weights: Values,
    places: Values,
    exponents: Exponents,
    tops: Values,
) -> Values:
    """Return the logarithm of the sum of kernels at each place.

    Parameters
    ----------
    points : ndarray (points, variables)
    widths : ndarray (variables,)
    log_weights : ndarray (points,)
    places : ndarray (places, variables)
    exponents : callable
        Of rows of points, as a slice or (neighbors, places), and of the places: the logarithms of weighted kernels, relative to
        `tops`; computed in whatever way keeps their digits far from all points.
    tops : ndarray (places,)

    Examples
    --------
    >>> points, weights = np.array([[0.0], [1.0]]), np.zeros(2)
    >>> places = np.array([[0.0], [1e4]])
    >>> def exponents(some, chosen):
    ...     return -0.5 * (places[chosen, 0] - points[some, 0].reshape(-1, len(places[chosen]))) ** 2
    >>> log_sums(points, np.ones(1), weights, places, exponents, np.zeros(2)).round(4)
    array([ 4.74100000e-01, -4.99900005e+07])
    """
    result = np.full(len(places), np.nan)
    low, high = points.min(axis=0), points.max(axis=0)
    with np.errstate(over="ignore", invalid="ignore"):
        scaled, wanted = (points - low) / widths, (places - low) / widths
        ends = (high - low) / widths
        near = ((wanted > -FARTHEST) & (wanted < ends + FARTHEST)).all(axis=1)
    if not (ends < FARTHEST).all():
        near[:] = False
    open_places = np.flatnonzero(near)
    top = float(log_weights.max())
    if points.shape[1] <= 2:
        reached = (wanted > -REACH).all(axis=1) & (wanted < ends + REACH).all(axis=1) & near
        reachable = np.flatnonzero(reached)
        weights = np.exp(log_weights - top)
        least = float(weights.sum()) * math.exp(DIGITS - REACH**2 / 2)
        if len(reachable):
            # differences of points and an origin far away are exact, and so are units of powers of two; others lose digits
            with np.errstate(over="ignore"):
                origin = np.where(np.abs(low) > high - low, low, 0.0)
            unit = np.ldexp(1.0, np.frexp(widths)[1] - 1)
            ours, theirs = (points - origin) / unit, (places[reachable] - origin) / unit
            for rows, sums in lattice_sums(ours, weights, list((widths / unit)[:, None]), REACH, theirs):
                sums = sums.reshape(-1)
                fine = sums >= least
                chosen = reachable[rows[fine]]
                result[chosen] = np.log(sums[fine]) + (top - tops[chosen])
        open_places = open_places[np.isnan(result[open_places])]
    if len(open_places):
        nearest_log_sums(scaled, log_weights, wanted, exponents, open_places, result)
    far = np.flatnonzero(~near)
    at_once = max(1, NUMBERS // len(points))
    for start in range(0, len(far), at_once):
        some = far[start : start + at_once]
        result[some] = logsumexp(exponents(slice(None), some), axis=0)
    return result


def nearest_log_sums(
    scaled: Values, log_weights: Values, wanted: Values, exponents: Exponents, rows: Codes, result: Values
) -> None:
    """Write the logarithms of sums at some rows of `wanted` into `result`, over so many nearest points as it takes.

    `scaled` are the points and `wanted` the places in units of the bandwidths.
    """
    # sliding midpoints: many equal points would make the balanced kind slow
    tree = cKDTree(scaled, balanced_tree=False, compact_nodes=False)
    everything = float(logsumexp(log_weights))
    count = min(FIRST, len(scaled))
    while len(rows):
        unsettled = []
        at_once = max(1, NUMBERS // count)
        for start in range(0, len(rows), at_once):
            some = rows[start : start + at_once]
            distances, neighbors = tree.query(wanted[some], k=count)
            squares = distances.reshape(len(some), -1) ** 2
            neighbors = neighbors.reshape(len(some), -1)
            best = (log_weights[neighbors] - 0.5 * squares).max(axis=1)
            # all others together are at most as much as all the weight at the distance of the last
            missing = everything - 0.5 * squares[:, -1] + DIGITS
            slack = 1e-14 * squares[:, -1]
            settled = (best > missing + slack) | (count == len(scaled))
            kept = some[settled]
            result[kept] = logsumexp(exponents(neighbors[settled].T, kept), axis=0)
            unsettled.append(some[~settled])
        rows = np.concatenate(unsettled)
        count = min(4 * count, len(scaled))
