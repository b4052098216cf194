"""Bandwidths of kernel densities by leave-one-out cross-entropy: h = c / sqrt(n), c searched on a grid that moves.

Frank et al. (1998, section 2.1) try c = 0.4, 0.5, ..., 0.8 for each variable. The best is often at an end of that: the
density of a smooth law in one dimension wants h to fall like n**(-1/5), so c grows with n. Here the grid is then
continued by octaves in four equal ratios each, as far as the best of all that was tried sits at an end.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

import numpy as np

from hybridbn.fitting.kernel_sums import leave_one_out
from hybridbn.variables import Values

__all__ = ["PAPER", "constants", "effective_size", "repeated", "search_constants"]

PAPER = (0.4, 0.5, 0.6, 0.7, 0.8)
"""The grid of the paper's footnotes 3 and 5."""
OCTAVES = 30
"""How far the grid moves at most, to either side."""
REPEATED = 0.1
"""Kernels get narrower than the paper's grid only where at most this share of the values occurs more than once."""
SWEEPS = 10

Window = tuple[int, ...]


def constants(window: int) -> Values:
    """Return the constants c of one window: 0 is the paper's grid, 1 the octave above it, -1 the octave below it.

    Examples
    --------
    >>> constants(0), constants(1).round(3), constants(-1).round(3)
    (array([0.4, 0.5, 0.6, 0.7, 0.8]), array([0.8 , 0.951, 1.131, 1.345, 1.6 ]), array([0.2 , 0.238, 0.283, 0.336, 0.4 ]))
    """
    if window == 0:
        return np.array(PAPER)
    steps = 2.0 ** (np.arange(5) / 4)
    return np.asarray(PAPER[-1] * 2.0 ** (window - 1) * steps if window > 0 else PAPER[0] * 2.0**window * steps)


def effective_size(weights: Values) -> float:
    """Return how many equally weighted rows are worth as much as these (Kish): the n of h = c / sqrt(n).

    Examples
    --------
    >>> effective_size(np.array([2.0, 2.0, 2.0])), effective_size(np.array([1.0, 0.0, 1.0]))
    (3.0, 2.0)
    """
    shares = weights / weights.max()
    return float(shares.sum() ** 2 / (shares @ shares))


def repeated(values: Values) -> bool:
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
    lowest = [0 if not extend or repeated(column) else -OCTAVES for column in points.T]
    highest = OCTAVES if extend else 0
    root = np.sqrt(size)
    if points.shape[1] <= 2:
        # both variables move together
        def entropy(window: Window) -> Values:
            return leave_one_out(points, weights, [constants(k) / root for k in window])

        return _moving(entropy, lowest, highest)
    chosen = [PAPER[2]] * points.shape[1]
    for _ in range(SWEEPS):
        before = list(chosen)
        for j in range(len(chosen)):

            def along(window: Window, j: int = j) -> Values:
                widths = [np.array([c]) / root for c in chosen]
                widths[j] = constants(window[0]) / root
                return leave_one_out(points, weights, widths).ravel()

            (chosen[j],) = _moving(along, lowest[j : j + 1], highest)
        if chosen == before:
            break
    return tuple(chosen)


def _moving(entropy: Callable[[Window], Values], lowest: Sequence[int], highest: int) -> tuple[float, ...]:
    """Search window by window until the best has been tried on all sides."""
    tried: dict[Window, Values] = {}
    missing: list[Window] = [(0,) * len(lowest)]
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
            last = len(constants(k)) - 1
            beside.append(
                [
                    k,
                    *([k - 1] if position == 0 and k > least else []),
                    *([k + 1] if position == last and k < highest else []),
                ]
            )
        missing = [other for other in itertools.product(*beside) if other not in tried]
    return tuple(float(constants(k)[position]) for k, position in zip(window, place, strict=True))
