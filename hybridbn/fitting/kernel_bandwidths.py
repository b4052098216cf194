"""Bandwidths of kernel densities by leave-one-out cross-entropy: h = c / sqrt(n), c searched on a grid that moves.

Frank et al. (1998, section 2.1) try c = 0.4, 0.5, ..., 0.8 for each variable. The best is often at an end of that: the
density of a smooth law in one dimension wants h to fall like n**(-1/5), so c grows with n. Here the grid is then
continued by octaves in four equal ratios each, as far as the best of all that was tried sits at an end.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from hybridbn.potentials.kernel.lattice import sum_on_lattice
from hybridbn.variables import Codes, Values

__all__ = [
    "PAPER",
    "has_many_repeats",
    "leave_one_out",
    "list_constants",
    "search_constants",
    "sum_logs_of_nearest",
    "sum_pairs",
]

PAPER = (0.4, 0.5, 0.6, 0.7, 0.8)
"""The grid of the paper's footnotes 3 and 5."""
OCTAVES = 30
"""How far the grid moves at most, to either side."""
REPEATED = 0.1
"""Kernels get narrower than the paper's grid only where at most this share of the values occurs more than once."""
SWEEPS = 10

Windows = tuple[int, ...]


def list_constants(window: int) -> Values:
    """Return the constants c of one window: 0 is the paper's grid, 1 the octave above it, -1 the octave below it.

    Examples
    --------
    >>> list_constants(0), list_constants(1).round(3), list_constants(-1).round(3)
    (array([0.4, 0.5, 0.6, 0.7, 0.8]), array([0.8 , 0.951, 1.131, 1.345, 1.6 ]), array([0.2 , 0.238, 0.283, 0.336, 0.4
    ]))
    """
    if window == 0:
        return np.array(PAPER)
    steps = 2.0 ** (np.arange(5) / 4)
    return np.asarray(PAPER[-1] * 2.0 ** (window - 1) * steps if window > 0 else PAPER[0] * 2.0**window * steps)


def has_many_repeats(values: Values) -> bool:
    """Tell whether more than a tenth of the values occur more than once.

    The cross-entropy then rewards ever narrower kernels, which bet on the same values coming up again.
    """
    counts = np.unique(values, return_counts=True)[1]
    return bool(counts[counts > 1].sum() > REPEATED * len(values))


def search_constants(points: Values, weights: Values, size: float, extend: bool = True) -> tuple[float, ...]:
    """Return the constant c of each variable for which h = c / sqrt(size) has the least cross-entropy.

    Parameters
    ----------
    points : ndarray (points, variables)
        In units of each variable's range; at least two points.
    weights : ndarray (points,)
        Positive.
    size : float
        The n of h = c / sqrt(n).
    extend : bool
        Leave the paper's grid where the best sits at its end; downward only for variables without many repeated values.

    Notes
    -----
    One and two variables are searched on the full grid; more of them one at a time, from the middle of the grid, until
    none changes.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> points = rng.normal(size=(1000, 1)) / 7
    >>> [round(float(c), 3) for c in search_constants(points, np.ones(1000), 1000)]
    [1.131]
    >>> search_constants(points, np.ones(1000), 1000, extend=False)
    (0.8,)
    """
    lowest = [0 if not extend or has_many_repeats(column) else -OCTAVES for column in points.T]
    highest = OCTAVES if extend else 0
    root = np.sqrt(size)
    if points.shape[1] <= 2:
        # both variables move together
        def entropy(window: Windows) -> Values:
            return leave_one_out(points, weights, [list_constants(k) / root for k in window])

        return _search_windows(entropy, lowest, highest)
    chosen = [PAPER[2]] * points.shape[1]
    for _ in range(SWEEPS):
        before = list(chosen)
        for j in range(len(chosen)):

            def along(window: Windows, j: int = j) -> Values:
                widths = [np.array([c]) / root for c in chosen]
                widths[j] = list_constants(window[0]) / root
                return leave_one_out(points, weights, widths).ravel()

            (chosen[j],) = _search_windows(along, lowest[j : j + 1], highest)
        if chosen == before:
            break
    return tuple(chosen)


def _search_windows(entropy: Callable[[Windows], Values], lowest: Sequence[int], highest: int) -> tuple[float, ...]:
    """Search window by window until the best has been tried on all sides."""
    tried: dict[Windows, Values] = {}
    missing: list[Windows] = [(0,) * len(lowest)]
    window = missing[0]
    place: tuple[int, ...] = ()
    while missing:
        # diagonally first: if both variables want wider kernels, the windows beside that one aren't needed
        farthest = max(missing, key=lambda other: sum(abs(a - b) for a, b in zip(other, window, strict=True)))
        tried[farthest] = entropy(farthest)
        window = min(tried, key=lambda some: float(tried[some].min()))
        best = np.unravel_index(int(np.argmin(tried[window])), tried[window].shape)
        place = tuple(int(position) for position in best)
        beside = []
        for k, position, least in zip(window, place, lowest, strict=True):
            last = len(list_constants(k)) - 1
            beside.append(
                [
                    k,
                    *([k - 1] if position == 0 and k > least else []),
                    *([k + 1] if position == last and k < highest else []),
                ]
            )
        missing = [other for other in itertools.product(*beside) if other not in tried]
    return tuple(float(list_constants(k)[position]) for k, position in zip(window, place, strict=True))


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
    for rows, sums in (sum_on_lattice if crowd else sum_pairs)(points, weights, widths, REACH):
        others = sums - weights[rows].reshape(-1, *(1,) * len(widths))
        fine = others.reshape(len(rows), -1).min(axis=1) >= least[rows]
        kept = rows[fine]
        total += np.tensordot(weights[kept], np.log(others[fine]), 1)
        lonely[kept] = False
    for rows, logs in sum_logs_of_nearest(points, weights, widths, np.flatnonzero(lonely)):
        total += np.tensordot(weights[rows], logs, 1)
    entropy = (float(weights @ np.log(rest)) - total) / len(points) + len(widths) * math.log(2 * math.pi) / 2
    for j, h in enumerate(widths):
        entropy += np.log(h).reshape(-1, *(1,) * (len(widths) - 1 - j))
    return np.asarray(entropy)


def sum_pairs(
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
            low, high = _find_window(ordered[:, 0], start, start + rows, reach)
            rows = max(1, min(len(points) - start, NUMBERS // ((high - low) * outer)))
        low, high = _find_window(ordered[:, 0], start, start + rows, reach)
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


def _find_window(ordered: Values, start: int, stop: int, reach: float) -> tuple[int, int]:
    low = int(np.searchsorted(ordered, ordered[start] - reach))
    high = int(np.searchsorted(ordered, ordered[min(stop, len(ordered)) - 1] + reach, side="right"))
    return low, high


def sum_logs_of_nearest(
    points: Values, weights: Values, widths: Sequence[Values], rows: Codes
) -> Iterator[tuple[Codes, Values]]:
    """Yield rows and the logarithms of the sums of the others' kernels there, over so many nearest points as it
    takes.
    """
    from scipy.spatial import cKDTree

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
            sums = _sum_logs(points, logs, widths, some, neighbors)
            missing = everything - 0.5 * distances[:, -1].reshape(-1, *(1,) * len(widths)) ** 2 * narrower
            settled = (sums >= missing).reshape(len(some), -1).all(axis=1) | (count == len(points))
            yield some[settled], sums[settled]
            unsettled.append(some[~settled])
        rows = np.concatenate(unsettled)
        count = min(4 * count, len(points))


def _sum_logs(points: Values, logs: Values, widths: Sequence[Values], rows: Codes, neighbors: Codes) -> Values:
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
