"""One density from weighted numbers: a smooth log-linear spline on many knots first, a few exponential pieces after.

1. Knots: at equal steps of the normal scores, so that they follow the data's own scale (and outliers of any size cost
   nothing), finer where modes are far apart.
2. Heights: penalized maximum likelihood for a ladder of smoothing strengths, each with and without an *edge* on either side (a
   jump of the density to almost nothing, as of a uniform or exponential one). The winner has the largest
   ``log-likelihood - price * degrees of freedom - log(n) / 2 * edges``.
3. Pieces: dynamic programming finds the knots whose straight lines follow the smooth logarithm best; the heights there are those
   of the density nearest to the smooth one in Kullback-Leibler divergence.
"""

from __future__ import annotations

import itertools
import math
from typing import Any, NamedTuple

import numpy as np
from scipy.special import ndtri

from hybridbn.fitting.mte_splines import (
    Knots,
    bounded,
    degrees_of_freedom,
    hat_means,
    maximized,
    normalized,
    penalty,
    shares,
    smeared,
    spans,
)
from hybridbn.variables import Codes, Values

__all__ = ["Smooth", "fitted", "ladder", "normal_scores", "roughly", "scores", "started", "thinned"]

PRICE = 1.5  # of a degree of freedom: between AIC's 1 and BIC's log(n) / 2
_STRENGTHS = 10.0 ** np.arange(3.0, -6.5, -1.0)
_SPREAD, _FAR = 0.5, 100.0
_STRAY = 5.0  # how far a logarithm may move when pieces are merged; more would be a spike's effect on its neighbors
_NORMAL = 1e4  # strong enough to leave nothing but a parabola
_FEW = 8  # with fewer distinct values there is no shape to be seen
_MOST_SPLITS, _RATIO, _GRADES = 6, 8.0, 12


class Smooth(NamedTuple):
    """A spline with or without edges: the tail beyond an edge is not part of the spline and has a mass of its own.

    Attributes
    ----------
    knots : Knots
    heights : (knots,)
    edges : whether there is an edge on the left, on the right
    slack : mass of the tail beyond each edge
    strays : on the left and on the right, the mass of values that are very far out, and their mean distance
        They are no part of the spline either.
    """

    knots: Knots
    heights: Values
    edges: tuple[bool, bool]
    slack: float
    strays: tuple[tuple[float, float], tuple[float, float]]


def fitted(values: Values, weights: Values, domain: tuple[float, float]) -> Smooth:
    """Fit a smooth density to at least two distinct sorted values with positive weights."""
    first, last = _bulk(values, weights)
    strays = (
        _far(values[first] - values[:first], weights[:first], weights),
        _far(values[last:] - values[last - 1], weights[last:], weights),
    )
    values, weights = values[first:last], weights[first:last]
    total = float(weights.sum())
    size = min(total, float(len(values)))
    places = placed(values, weights, size)
    slack = 1.0 / (total + 1.0)
    strengths = ladder(len(values), total)

    def tried(edges: tuple[bool, bool]) -> tuple[float, Knots, Values, Values]:
        knots = extended(places, values, weights, domain, edges)
        stats = np.repeat(stats_at(values, weights, knots.places)[None], len(strengths), axis=0)
        matrix = penalty(knots.places)
        heights = maximized(stats, knots, matrix, strengths, started(stats, knots, total), **roughly(total))
        score = scores(stats, heights, degrees_of_freedom(heights, knots, matrix, strengths), total, size)
        jumps = sum(edges)
        price = 0.5 * jumps * math.log(max(total, 2.0)) - total * math.log1p(-min(jumps * slack, 0.5))
        row = int(np.argmax(score))
        return float(score[row]) - price, knots, strengths[[row]], heights[[row]]

    fits = {edges: tried(edges) for edges in _edges_to_try(values, size, domain)}
    edges = max(fits, key=lambda edges: fits[edges][0])
    _, knots, strength, heights = fits[edges]
    exact = maximized(stats_at(values, weights, knots.places)[None], knots, penalty(knots.places), strength, heights)
    return Smooth(knots, bounded(exact, knots)[0], edges, slack, strays)


def _bulk(values: Values, weights: Values) -> tuple[int, int]:
    """Return the range of the values without a few (a twentieth on each side) that are a hundred times as far out as the rest."""
    upto = np.cumsum(weights)
    middle = int(np.searchsorted(upto, 0.5 * upto[-1]))
    last, first = (
        _outermost(np.abs(values[side] - values[middle]), np.cumsum(weights[side]), float(upto[-1]))
        for side in (slice(middle, None), slice(middle, None, -1))
    )
    first, last = middle + 1 - first, middle + last
    return (first, last) if last - first >= _FEW else (0, len(values))


def _outermost(distances: Values, upto: Values, total: float) -> int:
    """Return how many values are not too far out, given the distances from the median outward."""
    beyond = upto[-1] - upto[:-1]
    gaps = (distances[1:] > _FAR * distances[:-1]) & (distances[:-1] > 0) & (beyond <= total / 20.0)
    return int(np.argmax(gaps)) + 1 if gaps.any() else len(distances)


def _far(distances: Values, weights: Values, everything: Values) -> tuple[float, float]:
    """Return the share of some weights, and the mean distance."""
    mass = float(weights.sum())
    if not mass:
        return 0.0, 0.0
    return mass / float(everything.sum()), float((distances * (weights / mass)).sum())


def _edges_to_try(values: Values, size: float, domain: tuple[float, float]) -> list[tuple[bool, bool]]:
    if len(values) < _FEW or size < _FEW:
        return [(False, False)]
    left = (False, True) if values[0] > domain[0] else (False,)
    right = (False, True) if values[-1] < domain[1] else (False,)
    return list(itertools.product(left, right))


def ladder(distinct: int, total: float) -> Values:
    """Return the smoothing strengths that a number of distinct values allows."""
    return _STRENGTHS if distinct >= _FEW and total >= _FEW else np.array([_NORMAL])


def roughly(total: float) -> dict[str, Any]:
    """Return the options of `maximized` that suffice for comparing fits."""
    return {"within": 1e-2 / max(total, 1.0), "steps": 12}


def scores(stats: Values, heights: Values, freedom: Values, total: Values | float, size: Values | float) -> Values:
    """Return the log-likelihood of each row less the price of its freedom, corrected for small samples as in AICc."""
    most = 2.5 + size / 8.0  # more would follow single values
    correction = size / np.maximum(size - freedom - 2.0, 0.5)
    value = total * (stats * heights).sum(axis=-1) - PRICE * freedom * np.maximum(correction, 1.0)
    return np.asarray(np.where(freedom <= most, value, value - 1e6 * (freedom - most)))


def stats_at(values: Values, weights: Values, knots: Values) -> Values:
    """Return the weighted means of the hat functions, with half an observation spread over all of them."""
    places, share = smeared(values, knots)
    size = len(knots)
    means = np.bincount(places.ravel(), (weights * share).ravel(), size)
    return np.asarray((means + _SPREAD / size) / (weights.sum() + _SPREAD))


def started(stats: Values, knots: Knots, total: Values | float) -> Values:
    """Return the heights of histograms, with a third of an observation added to each cell, that decay at endless ends."""
    steps = np.diff(knots.places)
    areas = 0.5 * (np.append(steps, steps[-1]) + np.append(steps[0], steps))
    # beyond the outermost knots hats go on below zero
    heights = np.log((np.maximum(stats, 0.0) * np.asarray(total)[..., None] + 1 / 3) / areas)
    heights[:, 0] = np.minimum(heights[:, 0], heights[:, 1] - 0.5)
    heights[:, -1] = np.minimum(heights[:, -1], heights[:, -2] - 0.5)
    return np.asarray(heights)


# -- knots --------------------------------------------------------------------------------------------------------


def placed(values: Values, weights: Values, size: float) -> Values:
    """Return knots between the smallest and the largest value, at equal steps of the normal scores, finer between modes."""
    score = normal_scores(weights)
    count = int(np.clip(round(2.4 * size ** (1 / 3)), 8, 24))
    knots = np.unique(np.interp(np.linspace(score[0], score[-1], count), score, values))
    steps = np.diff(knots)
    # a step that is wider than some step to its left and some to its right lies in a valley
    narrow = np.maximum(np.minimum.accumulate(steps), np.minimum.accumulate(steps[::-1])[::-1])
    reach = np.interp(1.645, score, values) - np.interp(-1.645, score, values)
    with np.errstate(divide="ignore"):
        wanted = np.minimum(steps / (2.0 * narrow), steps / (reach / 20.0) if reach > 0 else np.inf)
    # (a little less, so that rounding does not decide)
    splits = np.clip(np.ceil(wanted - 1e-6), 1, _MOST_SPLITS).astype(int) * (2 if count <= 12 else 1)
    return _graded(_split(knots, splits))


def normal_scores(weights: Values) -> Values:
    """Return the normal quantiles of the middles of the values' steps of the distribution function."""
    return np.asarray(ndtri((np.cumsum(weights) - 0.5 * weights) / weights.sum()))


def _split(knots: Values, splits: Codes) -> Values:
    """Divide the steps between knots into equal parts."""
    steps = np.repeat(np.diff(knots) / splits, splits)
    start = np.repeat(knots[:-1], splits)
    number = np.arange(len(steps)) - np.repeat(np.cumsum(splits) - splits, splits)
    return np.append(start + number * steps, knots[-1])


def _graded(knots: Values) -> Values:
    """Put knots between steps of very different widths, whose third differences would be ill-conditioned."""
    steps = np.diff(knots)
    ratio = max(_RATIO, (steps.max() / steps.min()) ** (1 / _GRADES))
    parts = [knots[:1]]
    for i, step in enumerate(steps):
        left = steps[i - 1] if i else step
        right = steps[i + 1] if i + 1 < len(steps) else step
        rising = _growing(left * ratio, 0.5 * step if right * ratio < step else step, ratio)
        falling = _growing(right * ratio, 0.5 * step if left * ratio < step else step, ratio)
        parts += [knots[i] + rising, knots[i + 1] - falling[::-1], knots[i + 1 : i + 2]]
    return np.unique(np.concatenate(parts))


def _growing(first: float, end: float, ratio: float) -> Values:
    """Return first, first * ratio, ... while they are clearly below the end."""
    if not 0 < first * 1.5 < end:
        return np.empty(0)
    count = math.ceil(math.log(end / (1.5 * first)) / math.log(ratio))
    return np.asarray(first * ratio ** np.arange(count), dtype=np.float64)


def extended(
    places: Values, values: Values, weights: Values, domain: tuple[float, float], edges: tuple[bool, bool]
) -> Knots:
    """Add two knots beyond the data on each side without an edge, as far out as the last step of the normal scores."""
    score = normal_scores(weights)
    low, high = places[0], places[-1]
    below = above = 0.0
    before, after = np.empty(0), np.empty(0)
    if not edges[0]:
        reach = np.interp(score[0] + 1.0, score, values) - low
        before = low - reach * np.array([1.0, 0.5])
        before = np.unique(np.maximum(before, domain[0]))
        before = before[before < low]
        below = float((before[0] if len(before) else low) - domain[0])
    if not edges[1]:
        reach = high - np.interp(score[-1] - 1.0, score, values)
        after = np.unique(np.minimum(high + reach * np.array([0.5, 1.0]), domain[1]))
        after = after[after > high]
        above = float(domain[1] - (after[-1] if len(after) else high))
    places = np.concatenate([before, places, after])
    # a domain that ends far beyond the data does not end
    below, above = (math.inf if rest > _FAR * (places[-1] - places[0]) else rest for rest in (below, above))
    return Knots(places, below, above)


# -- fewer pieces -------------------------------------------------------------------------------------------------


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
