"""Few exponential pieces in the place of many: the splines on few of their knots that come nearest."""

from __future__ import annotations

import numpy as np

from hybridbn.fitting.mte_splines import Knots, hat_means, maximized, normalized, shares, spans
from hybridbn.variables import Values

__all__ = ["thinned"]

_STRAY = 5.0  # how far a logarithm may move when pieces are merged; more would be a spike's effect on its neighbors


def thinned(heights: Values, knots: Knots, most: int, price: Values | float) -> tuple[Knots, Values]:
    """Return the splines on few of their knots that are nearest to splines on many.

    Parameters
    ----------
    heights : (rows, knots)
    knots : shared by all rows
    most : largest number of pieces
    price : () or (rows,)
        Another piece has to lower the Kullback-Leibler divergence by this much, summed over the rows.

    Returns
    -------
    knots : with places (rows, fewer knots)
    heights : (rows, fewer knots)
    """
    cost = _misfits(heights, knots)
    # a straight line that goes on must not grow beyond the density, and decay if it has no end
    top = heights.max(axis=1, keepdims=True) + _STRAY
    with np.errstate(divide="ignore", invalid="ignore"):
        if knots.below > 0:
            falls = (heights - heights[:, :1]) / (knots.places - knots.places[0]) * knots.below
            cost[:, 0, 2:][~(heights[:, :1] - falls <= top)[:, 2:]] = np.inf
        if knots.above > 0:
            falls = (heights - heights[:, -1:]) / (knots.places[-1] - knots.places) * knots.above
            cost[:, :-2, -1][~(heights[:, -1:] - falls <= top)[:, :-2]] = np.inf
    reached, come_from = [np.where(np.arange(cost.shape[1]) == 0, 0.0, np.inf)[None].repeat(len(heights), axis=0)], []
    for _ in range(min(most, cost.shape[1] - 1)):
        through = reached[-1][:, :, None] + cost
        come_from.append(through.argmin(axis=1))
        reached.append(through.min(axis=1))
    divergences = np.array([row[:, -1] for row in reached[1:]])
    pieces = np.arange(1, len(divergences) + 1)
    charged = (divergences / np.asarray(price)).sum(axis=1) + pieces * len(heights)
    last = np.full(len(heights), cost.shape[1] - 1)
    chosen = [last]
    for step in range(int(np.argmin(charged)), -1, -1):
        last = come_from[step][np.arange(len(heights)), last]
        chosen.append(last)
    kept = np.stack(chosen[::-1], axis=1)
    coarse = knots._replace(places=knots.places[kept])
    means = hat_means(heights, knots)
    stats = np.zeros(kept.shape)
    for row, places in enumerate(coarse.places):
        left, share = shares(knots.places, places)
        size = kept.shape[1]
        stats[row] = np.bincount(left, means[row] * (1.0 - share), size) + np.bincount(
            left + 1, means[row] * share, size
        )
    start = np.take_along_axis(heights, kept, axis=1)
    nothing = np.zeros((0, kept.shape[1]))
    nearest = maximized(stats, coarse, nothing, np.zeros(len(heights)), start)
    return coarse, normalized(np.clip(nearest, start - _STRAY, start + _STRAY), coarse)


def _misfits(heights: Values, knots: Knots) -> Values:
    """Return half the variance, times the mass, of a logarithm about its best straight line between any two knots.

    It is what that piece adds to the Kullback-Leibler divergence if the line takes the logarithm's place.

    Returns
    -------
    ndarray (rows, knots, knots) : from the first knot to the second; inf where that is not to its right
    """
    mass, first, second = (array[:, None, :] for array in spans(heights, knots))
    places, size = knots.places, heights.shape[1]
    # seen from the knot where the piece begins, so that nothing cancels
    offset, width = (places[:-1] - places[:, None])[None], np.diff(places)
    rise, climb = (heights[:, None, :-1] - heights[:, :, None]), np.diff(heights, axis=1)[:, None]
    after = np.triu(np.ones((size, size - 1), dtype=bool))
    terms = (
        np.broadcast_to(mass, rise.shape),
        offset * mass + width * first,
        offset**2 * mass + 2.0 * offset * width * first + width**2 * second,
        rise * mass + climb * first,
        rise**2 * mass + 2.0 * rise * climb * first + climb**2 * second,
        offset * rise * mass + (offset * climb + width * rise) * first + width * climb * second,
    )
    sums = [np.cumsum(np.where(after, term, 0.0), axis=2) for term in terms]
    total, x, xx, g, gg, xg = sums
    with np.errstate(divide="ignore", invalid="ignore"):
        spread = xx - x * x / total
        shared = xg - x * g / total
        rest = gg - g * g / total - np.where(spread > 0, shared**2 / spread, 0.0)
    cost = np.full((len(heights), size, size), np.inf)
    cost[:, :, 1:] = np.where(after, 0.5 * np.nan_to_num(np.maximum(rest, 0.0)), np.inf)
    i = np.arange(size - 1)
    cost[:, i, i + 1] = 0.0
    return cost
