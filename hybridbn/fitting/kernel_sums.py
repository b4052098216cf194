"""The cross-entropy of kernel densities by leaving one point out, for a grid of bandwidths: exact, in bounded memory.

Most points have neighbors within a few bandwidths; for them plain sums do, collected from a lattice or added up pair by pair.
A lonely point's sum may have lost what matters to truncation or to the subtraction of its own kernel, and a few of them
decide the cross-entropy: theirs are summed again in logarithms over so many nearest points that the rest can't matter.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np
from scipy.spatial import cKDTree

from hybridbn.potentials.kernel.lattice import lattice_sums
from hybridbn.variables import Codes, Values

__all__ = ["leave_one_out", "nearest_log_sums", "pair_sums"]

NUMBERS = 1 << 20
"""Temporary arrays hold about this many numbers."""
REACH = 9.0
"""How far kernels are summed at first, in bandwidths of the largest."""
FEW = 200
"""For so few points sums over pairs are faster than a lattice."""
DIGITS = 25.0
"""What is left out of a sum is less than exp(-DIGITS), 1e-11, of it."""
OWN = 0.01
"""A sum that is less than this share of the point's own kernel has lost digits to the latter's subtraction."""


def leave_one_out(points: Values, weights: Values, widths: Sequence[Values]) -> Values:
    r"""Return the leave-one-out cross-entropy of a product-kernel density for every combination of bandwidths.

    Equation 5 of Frank et al. (1998) with weights w that add up to W, in any number of dimensions:

    .. math::

        CV_{CE} = -\frac{1}{W} \sum_j w_j \log \left( \frac{1}{(W - w_j) \prod_m h_m}
                  \sum_{i \ne j} w_i \prod_m K\left(\frac{x_{jm} - x_{im}}{h_m}\right) \right)

    A row is left out with all its weight: weighting is not repetition, which would leave copies of the row behind.

    Parameters
    ----------
    points : ndarray (points, variables)
        At least two.
    weights : ndarray (points,), positive
    widths : sequence of ndarray
        For each variable the bandwidths to try, increasing.

    Returns
    -------
    ndarray
        One dimension for each variable, running over its bandwidths.

    Examples
    --------
    >>> leave_one_out(np.array([[0.0], [1.0], [3.0]]), np.ones(3), [np.array([0.5, 1.0, 2.0])]).round(4)
    array([4.9181, 2.5126, 2.1335])
    """
    points = np.ascontiguousarray(points, dtype=np.float64)
    weights = weights / weights.mean()
    # the subtraction W - w has no digits left where one row has nearly all the weight
    heaviest = int(np.argmax(weights))
    rest = len(points) - weights
    rest[heaviest] = math.fsum(np.delete(weights, heaviest))
    # a point's sum must dwarf all that may be missing from it
    least = np.maximum(OWN * weights, len(points) * math.exp(DIGITS - REACH**2 / 2))
    total = np.zeros(tuple(map(len, widths)))
    lonely = np.ones(len(points), dtype=bool)
    crowd = len(points) > FEW and len(widths) <= 2
    for rows, sums in (lattice_sums if crowd else pair_sums)(points, weights, widths, REACH):
        others = sums - weights[rows].reshape(-1, *(1,) * len(widths))
        fine = others.reshape(len(rows), -1).min(axis=1) >= least[rows]
        kept = rows[fine]
        total += np.tensordot(weights[kept], np.log(others[fine]), 1)
        lonely[kept] = False
    for rows, logs in nearest_log_sums(points, weights, widths, np.flatnonzero(lonely)):
        total += np.tensordot(weights[rows], logs, 1)
    entropy = (float(weights @ np.log(rest)) - total) / len(points) + len(widths) * math.log(2 * math.pi) / 2
    for j, h in enumerate(widths):
        entropy += np.log(h).reshape(-1, *(1,) * (len(widths) - 1 - j))
    return np.asarray(entropy)


def pair_sums(
    points: Values, weights: Values, widths: Sequence[Values], reach: float
) -> Iterator[tuple[Codes, Values]]:
    """Yield rows and the sum of all kernels at each of them, its own included, over the pairs of points.

    Pairs are left out that are `reach` of the largest bandwidth apart along the first variable.
    """
    order = np.argsort(points[:, 0], kind="stable")
    ordered, sorted_weights = points[order], weights[order]
    reach *= float(widths[0][-1])
    outer = math.prod(map(len, widths[:-1]))
    start = 0
    while start < len(points):
        # as many rows as fit with their window; which grows with the rows, so the estimate is corrected once
        rows = max(1, min(len(points) - start, NUMBERS // (len(points) * outer)))
        for _ in range(2):
            low, high = _window(ordered[:, 0], start, start + rows, reach)
            rows = max(1, min(len(points) - start, NUMBERS // ((high - low) * outer)))
        low, high = _window(ordered[:, 0], start, start + rows, reach)
        left = np.ones((rows, 1, high - low))
        for j, h in enumerate(widths):
            apart = ordered[start : start + rows, j, None] - ordered[low:high, j]
            kernels = np.exp(-0.5 * (apart[:, None] / h[:, None]) ** 2)
            if j == len(widths) - 1:
                sums = np.matmul(left * sorted_weights[low:high], kernels.transpose(0, 2, 1))
            else:
                left = (left[:, :, None] * kernels[:, None]).reshape(rows, -1, high - low)
        yield order[start : start + rows], sums.reshape(rows, *map(len, widths))
        start += rows


def _window(ordered: Values, start: int, stop: int, reach: float) -> tuple[int, int]:
    low = int(np.searchsorted(ordered, ordered[start] - reach))
    high = int(np.searchsorted(ordered, ordered[min(stop, len(ordered)) - 1] + reach, side="right"))
    return low, high


def nearest_log_sums(
    points: Values, weights: Values, widths: Sequence[Values], rows: Codes
) -> Iterator[tuple[Codes, Values]]:
    """Yield rows and the logarithms of the sums of the others' kernels there, over so many nearest points as it takes."""
    if not len(rows):
        return
    largest = np.array([h[-1] for h in widths])
    # how much narrower than the largest a combination's kernels are, at the least
    narrower = np.min(np.meshgrid(*[(h[-1] / h) ** 2 for h in widths], indexing="ij"), axis=0)
    scaled = points / largest
    # sliding midpoints: many equal points would make the balanced kind slow
    tree = cKDTree(scaled, balanced_tree=False, compact_nodes=False)
    logs = np.log(weights)
    # no sum of kernels leaves out more than all the weight at the distance of the farthest neighbor
    everything = math.log(len(points)) + DIGITS
    count = min(64, len(points))
    while len(rows):
        unsettled = []
        at_once = max(1, NUMBERS // (count * narrower.size))
        for start in range(0, len(rows), at_once):
            some = rows[start : start + at_once]
            distances, neighbors = tree.query(scaled[some], k=count)
            distances, neighbors = distances.reshape(len(some), -1), neighbors.reshape(len(some), -1)
            sums = _log_sums(points, logs, widths, some, neighbors)
            missing = everything - 0.5 * distances[:, -1].reshape(-1, *(1,) * len(widths)) ** 2 * narrower
            settled = (sums >= missing).reshape(len(some), -1).all(axis=1) | (count == len(points))
            yield some[settled], sums[settled]
            unsettled.append(some[~settled])
        rows = np.concatenate(unsettled)
        count = min(4 * count, len(points))


def _log_sums(points: Values, logs: Values, widths: Sequence[Values], rows: Codes, neighbors: Codes) -> Values:
    """Return the logarithms of sums of kernels over some neighbors, without the row itself."""
    exponents = np.where(neighbors == rows[:, None], -np.inf, logs[neighbors])
    for j, h in enumerate(widths):
        apart = points[rows, j, None] - points[neighbors, j]
        quadratic = -0.5 * (apart[..., None] / h) ** 2
        exponents = exponents[..., None] + quadratic.reshape(*apart.shape, *(1,) * j, len(h))
    top = exponents.max(axis=1, keepdims=True)
    shift = np.where(np.isfinite(top), top, 0.0)
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(np.exp(exponents - shift).sum(axis=1)) + shift[:, 0])
