"""Cut points of numbers: equal width, equal frequency, and Fayyad and Irani's entropy criterion.

All return increasing cuts as `Discrete` takes them: state i is the interval ``[cuts[i-1], cuts[i])``. Missing values
(NaN, and ``-1`` in a target) and rows of weight zero are left out, and a column with a single value gets no cut.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from hybridbn.errors import TableError
from hybridbn.variables import Codes, Values


def equal_width(
    values: ArrayLike, target: ArrayLike | None = None, weights: ArrayLike | None = None, *, bins: int = 10
) -> tuple[float, ...]:
    """Return the cuts that divide the range of the values into intervals of equal width (Elkan 1997 takes 10).

    Parameters
    ----------
    values : array_like of float (rows,)
    target : ignored
        Discretizers share their signature.
    weights : array_like of float (rows,), optional
        Only whether a weight is zero matters here.
    bins : int

    Examples
    --------
    >>> equal_width([0, 1, 7, 10], bins=5)
    (2.0, 4.0, 6.0, 8.0)
    >>> equal_width([3, 3, 3])
    ()
    """
    numbers, _, _ = _check_rows(values, None, weights, bins)
    if not numbers.size:
        return ()
    low, high = numbers.min(), numbers.max()
    share = np.arange(1, bins) / bins
    # written so that ends of 1e308 don't overflow; rounding may join cuts where the range is next to nothing
    cuts = np.unique(low * (1 - share) + high * share)
    return tuple(cuts[(cuts > low) & (cuts <= high)].tolist())


def equal_frequency(
    values: ArrayLike, target: ArrayLike | None = None, weights: ArrayLike | None = None, *, bins: int = 10
) -> tuple[float, ...]:
    """Return the cuts that divide the rows into groups of about equal weight.

    Equal values stay together, so there may be fewer groups: each cut lies midway between the two neighboring values
    whose cumulative weight comes nearest to the wanted share.

    Parameters
    ----------
    values : array_like of float (rows,)
    target : ignored
        Discretizers share their signature.
    weights : array_like of float (rows,), optional
    bins : int

    Examples
    --------
    >>> equal_frequency([1, 2, 3, 4, 50, 60], bins=3)
    (2.5, 27.0)
    >>> equal_frequency([1, 1, 1, 1, 1, 2], bins=3)
    (1.5,)
    """
    numbers, _, checked_weights = _check_rows(values, None, weights, bins)
    return tuple(cut_evenly(numbers, checked_weights, bins).tolist())


def cut_evenly(numbers: Values, weights: Values, bins: int) -> Values:
    """Return the cuts that divide numbers into so many groups of about equal weight; see `equal_frequency`."""
    distinct, place = np.unique(numbers, return_inverse=True)
    if len(distinct) < 2:
        return np.empty(0)
    cumulative = np.cumsum(np.bincount(place, weights))
    wanted = cumulative[-1] * np.arange(1, bins) / bins
    inner = cumulative[:-1]
    # the slack lets rounding of weighted sums not decide between two equally near boundaries
    after = np.minimum(np.searchsorted(inner, wanted * (1 - 1e-12)), len(inner) - 1)
    before = np.maximum(after - 1, 0)
    nearer = wanted - inner[before] < (inner[after] - wanted) - 1e-12 * cumulative[-1]
    chosen = np.unique(np.where(nearer, before, after))
    return _find_midpoints(distinct, chosen)


def mdl(values: ArrayLike, target: ArrayLike | None, weights: ArrayLike | None = None) -> tuple[float, ...]:
    r"""Return the cuts that tell most about a discrete target, as many as pay for their description.

    Parameters
    ----------
    values : array_like of float (rows,)
    target : array_like of int (rows,)
        Codes of the target's states.
    weights : array_like of float (rows,), optional
        A row of weight 2 is two rows; so weights that sum to 1 leave nothing to learn from.

    Notes
    -----
    Fayyad & Irani (1993): of all cuts between neighboring values the one with the least weighted entropy
    of the target is kept where its gain pays for it,

    .. math::

        \mathrm{Gain} > \frac{\log_2(n - 1) + \log_2(3^k - 2) - [k H - k_1 H_1 - k_2 H_2]}{n},

    with n the weight of the rows, k the number of states that occur and H their entropy in bits; then both sides are
    cut in the same way. A number that tells nothing about the target gets no cut. Of equally good cuts the lowest is
    taken.

    Examples
    --------
    >>> mdl([1, 2, 3, 4, 11, 12, 13, 14], [0, 0, 0, 0, 1, 1, 1, 1])
    (7.5,)
    >>> mdl([1, 2, 3, 4], [0, 1, 0, 1])
    ()
    """
    if target is None:
        raise TableError("MDL needs a discrete target; without one, use equal_frequency or equal_width")
    numbers, classes, checked_weights = _check_rows(values, target, weights, 2)
    if not numbers.size:
        return ()
    order = np.argsort(numbers, kind="stable")
    rows = numbers[order], classes[order], checked_weights[order]
    own = _accumulate_by_class(*rows[1:])
    cuts: list[float] = []
    segments = [(0, len(numbers))]
    while segments:
        start, stop = segments.pop()
        part = slice(start, stop)
        split = _find_best_split(rows[0][part], rows[1][part], rows[2][part], own[part])
        if split is not None:
            cuts.append(split)
            middle = start + int(np.searchsorted(rows[0][part], split))
            segments += [(start, middle), (middle, stop)]
    return tuple(sorted(cuts))


def _accumulate_by_class(classes: Codes, weights: Values) -> Values:
    """Return the cumulative weight of each row's class up to and with the row."""
    by_class = np.argsort(classes, kind="stable")
    running = np.cumsum(weights[by_class])
    sizes = np.bincount(classes)
    before = np.concatenate([[0.0], running])[np.cumsum(sizes) - sizes]
    accumulated = np.empty(len(classes))
    accumulated[by_class] = running - np.repeat(before, sizes)
    return accumulated


def _find_best_split(values: Values, classes: Codes, weights: Values, own: Values) -> float | None:
    """Return the cut of sorted rows that has the greatest gain, or None where it does not pay.

    With f(x) = x log2 x, the entropy of a set times its weight is f(n) - sum f(n_c). Moving a row from the
    right to the left changes one n_c on each side, so both sums are cumulative sums over the rows, whatever the number
    of classes.
    """
    boundaries = np.flatnonzero(values[1:] > values[:-1])
    if not boundaries.size:
        return None
    _, first, classes = np.unique(classes, return_index=True, return_inverse=True)
    totals = _sum_weights(classes, weights, 0)
    if len(totals) < 2:
        return None
    # what each class weighed before this segment: at its first row, the running weight without the row itself
    base = own[first] - weights[first]
    left = own - base[classes]
    right = np.maximum(totals[classes] - left, 0.0)
    left_sums = np.cumsum(_plogp(left) - _plogp(np.maximum(left - weights, 0.0)))[boundaries]
    right_sums = (_plogp(totals).sum() + np.cumsum(_plogp(right) - _plogp(right + weights)))[boundaries]
    n = totals.sum()
    n_left = np.cumsum(weights)[boundaries]
    n_right = n - n_left
    remaining = (_plogp(n_left) - left_sums) + (_plogp(n_right) - right_sums)
    best = int(np.flatnonzero(remaining <= remaining.min() + 1e-9 * n)[0])
    cut = int(boundaries[best])
    sides = slice(cut + 1), slice(cut + 1, None)
    below, above = (_entropy(_sum_weights(classes[side], weights[side], len(totals))) for side in sides)
    whole = _entropy(totals)
    k, (k_below, k_above) = len(totals), (len(np.unique(classes[side])) for side in sides)
    gain = whole - (n_left[best] * below + n_right[best] * above) / n
    delta = k * math.log2(3) + math.log1p(-2 * 3.0**-k) / math.log(2) - (k * whole - k_below * below - k_above * above)
    if not gain > (math.log2(max(n - 1, 1.0)) + delta) / n:
        return None
    return float(_find_midpoints(values[cut : cut + 2], np.array([0]))[0])


def _sum_weights(classes: Codes, weights: Values, size: int) -> Values:
    return np.asarray(np.bincount(classes, weights, size), dtype=np.float64)


def _plogp(weights: Values) -> Values:
    return np.asarray(weights * np.log2(np.where(weights > 0, weights, 1.0)))


def _entropy(counts: Values) -> float:
    shares = counts / counts.sum()
    return float(-_plogp(shares).sum())


def _find_midpoints(distinct: Values, below: Codes) -> Values:
    """Return a point above each value and not above its neighbor."""
    low, high = distinct[below], distinct[below + 1]
    middle = low / 2 + high / 2
    # halves lose a bit next to the least double, and neighbors have nothing between them: then the upper one is the cut
    return np.where((middle > low) & (middle <= high), middle, high)


def _check_rows(
    values: ArrayLike, target: ArrayLike | None, weights: ArrayLike | None, bins: int
) -> tuple[Values, Codes, Values]:
    """Return the rows that count: their values, classes and weights."""
    try:
        numbers = np.asarray(values, dtype=np.float64)
        factors = np.ones(numbers.shape) if weights is None else np.asarray(weights, dtype=np.float64)
        codes = np.zeros(numbers.shape, np.intp) if target is None else np.asarray(target)
    except (TypeError, ValueError):
        raise TableError("values and weights to discretize must be numbers") from None
    faults = (
        (bins < 1, f"bins must be at least 1, not {bins}"),
        (
            numbers.ndim != 1 or factors.shape != numbers.shape or codes.shape != numbers.shape,
            f"values, target and weights must be one-dimensional and of one length, not {numbers.shape}, {codes.shape}"
            f" and {factors.shape}",
        ),
        (
            codes.dtype.kind not in "iub",
            f"the target must be codes of states, not of type {codes.dtype}; see Table.column",
        ),
        (np.isinf(numbers).any(), "values to discretize must be finite"),
        (not (np.isfinite(factors) & (factors >= 0)).all(), "weights must be finite non-negative numbers"),
    )
    for is_wrong, message in faults:
        if is_wrong:
            raise TableError(message)
    kept = ~np.isnan(numbers) & (codes >= 0) & (factors > 0)
    return numbers[kept], codes[kept].astype(np.intp), factors[kept]
