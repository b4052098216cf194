"""One density from weighted numbers: a smooth log-linear spline on many knots first, a few exponential pieces after.

1. Knots: at equal steps of the normal scores, so that they follow the data's own scale (and outliers of any size cost
   nothing), finer where modes are far apart.
2. Heights: penalized maximum likelihood for a ladder of smoothing strengths, each with and without an *edge* on either
   side (a jump of the density to almost nothing, as of a uniform or exponential one); then also drawn toward mixtures
   of normal densities. The winner has the largest ``log-likelihood - price * degrees of freedom - log(n) / 2 * edges``.
3. Pieces (`mte_thinning`): dynamic programming finds the knots whose straight lines follow the smooth logarithm best;
   the heights there are those of the density nearest to the smooth one in Kullback-Leibler divergence.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from hybridbn.fitting.mte.splines import (
    Knots,
    count_degrees_of_freedom,
    limit_steepness,
    maximize_likelihood,
    spread_over_knots,
    third_differences,
)
from hybridbn.potentials.base import freeze
from hybridbn.variables import Codes, Values

__all__ = [
    "FEW",
    "BestFit",
    "SmoothDensity",
    "choose_better",
    "choose_strengths",
    "fit_density",
    "fit_mixtures",
    "fit_strengths",
    "measure_hats",
    "normal_scores",
    "refine_knots",
    "start_from_histograms",
]

_CACHED, _CACHED_VALUES = 64, 32768
_FAR = 100.0  # times as far from the median as the rest
_INDEX, _DOUBT, _MANY = 0.6, 0.8, 40  # of heavy tails: least index, what is asked of few values, and least number
_INSURANCE, _REACH = 0.01, 5.0  # of an observation, and how many times as far out as the outermost
_COMPONENTS, _STRONG = 4, 4  # of mixtures, and how many of the smoothing strengths draw toward them
_NEAR, _EXTENDED_RATIO = 1e-200, 30.0
_MOST_KNOTS = 100
_MOST_SPLITS, _RATIO, _GRADES = 6, 3.0, 24


class SmoothDensity(NamedTuple):
    """A spline with or without edges: the tail beyond an edge is not part of the spline and has a mass of its own.

    Attributes
    ----------
    knots : Knots
    heights : (knots,)
    edges : whether there is an edge on the left, on the right
    slack : mass of the tail beyond each edge
    strays : on the left and on the right, the mass of values that are very far out, and their mean distance
        They are no part of the spline either. Heavy tails have some without such values.
    """

    knots: Knots
    heights: Values
    edges: tuple[bool, bool]
    slack: float
    strays: tuple[tuple[float, float], tuple[float, float]]


def fit_density(values: Values, weights: Values, domain: tuple[float, float]) -> SmoothDensity:
    """Fit a smooth density to at least two distinct sorted values with positive weights.

    The last few results are kept: a search for parents asks for the same child again and again.
    """
    if len(values) > _CACHED_VALUES:
        return _fit_density(values, weights, domain)
    return _fit_cached(values.tobytes(), weights.tobytes(), domain)


@lru_cache(maxsize=_CACHED)
def _fit_cached(values: bytes, weights: bytes, domain: tuple[float, float]) -> SmoothDensity:
    fit = _fit_density(np.frombuffer(values), np.frombuffer(weights), domain)
    return fit._replace(knots=fit.knots._replace(places=freeze(fit.knots.places)), heights=freeze(fit.heights))


def _fit_density(values: Values, weights: Values, domain: tuple[float, float]) -> SmoothDensity:
    first, last = _find_bulk(values, weights)
    strays = (
        _summarize_strays(values[first] - values[:first], weights[:first], weights),
        _summarize_strays(values[last:] - values[last - 1], weights[last:], weights),
    )
    values, weights = values[first:last], weights[first:last]
    insured = (_protect_heavy_tail(-values[::-1], weights[::-1]), _protect_heavy_tail(values, weights))
    strays = (strays[0] if strays[0][0] else insured[0], strays[1] if strays[1][0] else insured[1])
    total = float(weights.sum())
    size = min(total, float(len(values)))
    places = place_knots(values, weights, size)
    slack = 1.0 / (total + 1.0)
    strengths = choose_strengths(len(values), total)
    totals, sizes = np.array([total]), np.array([size])

    fits: list[tuple[float, tuple[bool, bool], Knots, BestFit]] = []
    for edges in _list_edges(values, size, domain):
        knots = extend_knots(places, values, weights, domain, edges)
        fit = fit_strengths(measure_hats(values, weights, knots.places)[None], knots, strengths, totals, sizes)
        jumps = sum(edges)
        price = 0.5 * jumps * math.log(max(total, 2.0)) - total * math.log1p(-min(jumps * slack, 0.5))
        fits.append((float(fit.score[0]) - price, edges, knots, fit))
    _, edges, knots, best = max(fits, key=lambda fit: fit[0])
    stats = measure_hats(values, weights, knots.places)[None]
    if len(strengths) > 1:
        counts = range(2, _COMPONENTS + 1)
        targets = np.stack([fit_mixtures(stats, knots.places, count) for count in counts])
        best = choose_better(best, fit_strengths(stats, knots, strengths[:_STRONG], totals, sizes, targets, counts))
    heights = maximize_likelihood(
        stats, knots, third_differences(knots.places), best.strength, best.heights, best.bends
    )
    return SmoothDensity(knots, limit_steepness(heights, knots)[0], edges, slack, strays)


def _find_bulk(values: Values, weights: Values) -> tuple[int, int]:
    """Return the range of the values without a few (a twentieth on each side) that are a hundred times as far out as
    the rest.
    """
    total, middle = float(weights.sum()), int(np.searchsorted(np.cumsum(weights), 0.5 * weights.sum()))
    sides = slice(middle, None, -1), slice(middle, None)
    distances = [np.abs(values[side] - values[middle]) for side in sides]
    kept = [
        _count_near(own, other[1] if len(other) > 1 else 0.0, np.cumsum(weights[side]), total)
        for own, other, side in zip(distances, distances[::-1], sides, strict=True)
    ]
    first, last = middle + 1 - kept[0], middle + kept[1]
    return (first, last) if last - first >= 2 else (0, len(values))


def _count_near(distances: Values, other: float, upto: Values, total: float) -> int:
    """Return how many values are not too far out, given the distances from the median outward and the least one on the
    other side.
    """
    beyond = upto[-1] - upto[:-1]
    near = np.maximum(distances[:-1], other)
    gaps = (distances[1:] > _FAR * near) & (near > 0) & (beyond <= total / 20.0)
    return int(np.argmax(gaps)) + 1 if gaps.any() else len(distances)


def _summarize_strays(distances: Values, weights: Values, everything: Values) -> tuple[float, float]:
    """Return the share of some weights, and the mean distance."""
    mass = float(weights.sum())
    if not mass:
        return 0.0, 0.0
    return mass / float(everything.sum()), float((distances * (weights / mass)).sum())


def _protect_heavy_tail(values: Values, weights: Values) -> tuple[float, float]:
    """Return mass and distance of an exponential beyond the largest value, where values grow so fast that there is no
    variance.

    The sign is Hill's estimate of the index of the tail, from about as many values as the root of their number: above
    1/2 the variance of the distribution is infinite. The tail of one exponential would make the next large value all
    but impossible.
    """
    total = float(weights.sum())
    size = min(total, float(len(values)))
    beyond = np.cumsum(weights[::-1])[::-1]
    held = np.flatnonzero(beyond <= math.sqrt(size) * total / size)
    if size < _MANY or len(held) < FEW - 1:
        return 0.0, 0.0
    distance = values[held[0] - 1 :] - values[np.searchsorted(beyond[0] - beyond, 0.5 * total) - 1]
    if not distance[0] > 0:
        return 0.0, 0.0
    index = float(np.average(np.log(distance[1:] / distance[0]), weights=weights[held]))
    if index < _INDEX + _DOUBT / math.sqrt(len(held)):
        return 0.0, 0.0
    return _INSURANCE / (total + 1.0), _REACH * float(distance[-1])


def _list_edges(values: Values, size: float, domain: tuple[float, float]) -> list[tuple[bool, bool]]:
    if len(values) < FEW or size < FEW:
        return [(False, False)]
    left = (False, True) if values[0] > domain[0] else (False,)
    right = (False, True) if values[-1] < domain[1] else (False,)
    return list(itertools.product(left, right))


# -- knots --------------------------------------------------------------------------------------------------------


def place_knots(values: Values, weights: Values, size: float) -> Values:
    """Return knots between the smallest and the largest value, at equal steps of the normal scores, finer between
    modes.
    """
    score = normal_scores(weights)
    count = int(np.clip(round(2.4 * size ** (1 / 3)), 8, 24))
    knots = np.unique(np.interp(np.linspace(score[0], score[-1], count), score, values))
    # nearer to each other they would be one value, and the slopes between them beyond the range of floats
    knots = knots[np.append(True, np.diff(knots) > _NEAR * (knots[-1] - knots[0]))]
    steps = np.diff(knots)
    # a step that is wider than some step to its left and some to its right lies in a valley
    narrow = np.maximum(np.minimum.accumulate(steps), np.minimum.accumulate(steps[::-1])[::-1])
    reach = np.interp(1.645, score, values) - np.interp(-1.645, score, values)
    with np.errstate(divide="ignore"):
        wanted = np.minimum(steps / (2.0 * narrow), steps / (reach / 20.0) if reach > 0 else np.inf)
    # (a little less, so that rounding does not decide)
    splits = np.clip(np.ceil(wanted - 1e-6), 1, _MOST_SPLITS).astype(int) * (2 if count <= 12 else 1)
    return _grade_steps(_split_steps(knots, splits))


def normal_scores(weights: Values) -> Values:
    """Return the normal quantiles of the middles of the values' steps of the distribution function."""
    from scipy.special import ndtri

    return np.asarray(ndtri((np.cumsum(weights) - 0.5 * weights) / weights.sum()))


def refine_knots(knots: Knots, heights: Values, low: Values, high: Values, steps: Values) -> tuple[Knots, Values]:
    """Return a spline on more knots: between each of some lows and highs, steps are at most so long (but for a few that
    many ask for).
    """
    places = knots.places
    widths = np.diff(places)
    meets = (places[:-1] < high[:, None]) & (places[1:] > low[:, None])
    wanted = np.where(meets, widths / steps[:, None], 1.0).max(axis=0)
    splits = np.clip(np.ceil(wanted - 1e-6), 1, _MOST_SPLITS).astype(int)
    if splits.max() == 1 or splits.sum() > _MOST_KNOTS:
        return knots, heights
    finer = _grade_steps(_split_steps(places, splits))
    return knots._replace(places=finer), np.interp(finer, places, heights)


def _split_steps(knots: Values, splits: Codes) -> Values:
    """Divide the steps between knots into equal parts."""
    steps = np.repeat(np.diff(knots) / splits, splits)
    start = np.repeat(knots[:-1], splits)
    number = np.arange(len(steps)) - np.repeat(np.cumsum(splits) - splits, splits)
    return np.append(start + number * steps, knots[-1])


def _grade_steps(knots: Values, least: float = _RATIO) -> Values:
    """Put knots between steps of very different widths, whose third differences would be ill-conditioned."""
    steps = np.diff(knots)
    ratio = max(least, (steps.max() / steps.min()) ** (1 / _GRADES))
    parts = [knots[:1]]
    for i, step in enumerate(steps):
        left = steps[i - 1] if i else step
        right = steps[i + 1] if i + 1 < len(steps) else step
        rising = _list_growing_steps(left * ratio, 0.5 * step if right * ratio < step else step, ratio)
        falling = _list_growing_steps(right * ratio, 0.5 * step if left * ratio < step else step, ratio)
        parts += [knots[i] + rising, knots[i + 1] - falling[::-1], knots[i + 1 : i + 2]]
    return np.unique(np.concatenate(parts))


def _list_growing_steps(first: float, end: float, ratio: float) -> Values:
    """Return first, first * ratio, ... while they are clearly below the end."""
    if not 0 < first * 1.5 < end:
        return np.empty(0)
    count = math.ceil(math.log(end / (1.5 * first)) / math.log(ratio))
    return np.asarray(first * ratio ** np.arange(count), dtype=np.float64)


def extend_knots(
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
    places = _grade_steps(np.concatenate([before, places, after]), _EXTENDED_RATIO)
    # a domain that ends far beyond the data does not end
    below, above = (math.inf if rest > _FAR * (places[-1] - places[0]) else rest for rest in (below, above))
    return Knots(places, below, above)


FEW = 8  # with fewer distinct values there is no shape to be seen

_PRICE = 1.5  # of a degree of freedom: between AIC's 1 and BIC's log(n) / 2
_STRENGTHS = 10.0 ** np.arange(3.0, -6.5, -1.0)
_NORMAL = 1e4  # strong enough to leave nothing but a parabola
_SPREAD = 0.5  # of an observation
_STEPS = 8  # of Newton's method, when fits are compared
_ROUNDS = 40  # of EM
_COMPONENT = 3.0  # parameters of another component of a mixture


class BestFit(NamedTuple):
    """The best fit of each row: its score, what led to it, and its heights, good enough for comparing.

    Attributes
    ----------
    score, strength : (rows,)
    bends : (rows, differences)
    heights : (rows, knots)
    """

    score: Values
    strength: Values
    bends: Values
    heights: Values


def fit_strengths(
    stats: Values,
    knots: Knots,
    strengths: Values,
    totals: Values,
    sizes: Values,
    targets: Values | None = None,
    components: Sequence[int] = (1,),
) -> BestFit:
    """Fit splines with every strength and return the best of each row.

    Parameters
    ----------
    stats : (rows, knots)
    strengths : (strengths,)
    totals : (rows,) the rows' weights
    sizes : (rows,) how many values they are, not counting repetitions
    targets : (targets, rows, knots)
        What the splines are drawn toward, up to a parabola, which costs nothing; nothing but that if not given.
    components : how many normal densities each target consists of
    """
    matrix = third_differences(knots.places)
    if targets is None:
        targets = np.zeros((1, *stats.shape))
    count, choices = len(targets), len(targets) * len(strengths)
    every = np.tile(strengths, len(stats) * count)
    bends = np.repeat(np.moveaxis(targets, 0, 1).reshape(-1, stats.shape[1]) @ matrix.T, len(strengths), axis=0)
    rows, weights = np.repeat(stats, choices, axis=0), np.repeat(totals, choices)
    within = 0.03 / max(float(totals.max()), 1.0)
    heights = maximize_likelihood(
        rows, knots, matrix, every, start_from_histograms(rows, knots, weights), bends, within, steps=_STEPS
    )
    freedom = count_degrees_of_freedom(heights, knots, matrix, every)
    freedom += np.tile(np.repeat(_COMPONENT * (np.array(components) - 1.0), len(strengths)), len(stats))
    score = score_fits(rows, heights, freedom, weights, np.repeat(sizes, choices)).reshape(-1, choices)
    score = np.where(np.isfinite(score), score, -np.inf)
    best = score.argmax(axis=1)
    chosen = np.arange(len(stats)) * choices + best
    return BestFit(score.max(axis=1), every[chosen], bends[chosen], heights[chosen])


def choose_better(one: BestFit, two: BestFit) -> BestFit:
    """Return the better of two fits of each row."""
    first = one.score >= two.score
    return BestFit(
        *(np.where(first.reshape(-1, *[1] * (a.ndim - 1)), a, b) for a, b in zip(one, two, strict=True)),
    )


def choose_strengths(distinct: int, total: float) -> Values:
    """Return the smoothing strengths that a number of distinct values allows."""
    return _STRENGTHS if distinct >= FEW and total >= FEW else np.array([_NORMAL])


def score_fits(stats: Values, heights: Values, freedom: Values, total: Values | float, size: Values | float) -> Values:
    """Return the log-likelihood of each row less the price of its freedom, corrected for small samples as in AICc."""
    most = 2.5 + size / 8.0  # more would follow single values
    correction = size / np.maximum(size - freedom - 2.0, 0.5)
    value = total * (stats * heights).sum(axis=-1) - _PRICE * freedom * np.maximum(correction, 1.0)
    return np.asarray(np.where(freedom <= most, value, value - 1e6 * (freedom - most)))


def measure_hats(values: Values, weights: Values, knots: Values) -> Values:
    """Return the weighted means of the hat functions, with half an observation spread over all of them."""
    places, share = spread_over_knots(values, knots)
    size = len(knots)
    means = np.bincount(places.ravel(), (weights * share).ravel(), size)
    return np.asarray((means + _SPREAD / size) / (weights.sum() + _SPREAD))


def start_from_histograms(stats: Values, knots: Knots, total: Values | float) -> Values:
    """Return the heights of histograms, with a third of an observation added to each cell, that decay at endless
    ends.
    """
    steps = np.diff(knots.places)
    areas = 0.5 * (np.append(steps, steps[-1]) + np.append(steps[0], steps))
    # beyond the outermost knots hats go on below zero
    heights = np.log((np.maximum(stats, 0.0) * np.asarray(total)[..., None] + 1 / 3) / areas)
    heights[:, 0] = np.minimum(heights[:, 0], heights[:, 1] - 0.5)
    heights[:, -1] = np.minimum(heights[:, -1], heights[:, -2] - 0.5)
    return np.asarray(heights)


def fit_mixtures(stats: Values, places: Values, count: int) -> Values:
    """Return the logarithms of mixtures of normal densities at some places, fitted by EM to the rows' weights there.

    Examples
    --------
    >>> places = np.linspace(-3, 3, 61)
    >>> weights = np.exp(-0.5 * ((np.abs(places) - 2) / 0.3) ** 2)
    >>> logs = fit_mixtures(weights[None] / weights.sum(), places, 2)[0]
    >>> places[[np.argmax(logs[:30]), 30 + np.argmax(logs[30:])]].round(3)
    array([-2.,  2.])
    """
    stats = np.maximum(stats, 0.0)
    stats = stats / stats.sum(axis=1, keepdims=True)
    upto = np.cumsum(stats, axis=1) - 0.5 * stats
    wanted = (np.arange(count) + 0.5) / count
    means = np.stack([np.interp(wanted, row, places) for row in upto])
    variance = (stats * (places - (stats @ places)[:, None]) ** 2).sum(axis=1)
    variances = np.repeat(variance[:, None] / count**2, count, axis=1)
    shares = np.full(means.shape, 1.0 / count)
    # no narrower than the steps around it
    steps = np.interp(places, 0.5 * (places[1:] + places[:-1]), np.diff(places)) ** 2 / 6.0
    for _ in range(_ROUNDS):
        logs = _log_components(places, means, variances, shares)
        top = logs.max(axis=2, keepdims=True)
        parts = np.exp(logs - top)
        held = stats[:, :, None] * parts / parts.sum(axis=2, keepdims=True)
        sums = np.maximum(held.sum(axis=1), 1e-12)
        shares, means = sums / sums.sum(axis=1, keepdims=True), np.einsum("k,rkc->rc", places, held) / sums
        squares = (places[:, None] - means[:, None, :]) ** 2
        variances = np.maximum((squares * held).sum(axis=1), np.einsum("k,rkc->rc", steps, held)) / sums
        variances = np.maximum(variances, 1e-300)
    return np.asarray(np.logaddexp.reduce(_log_components(places, means, variances, shares), axis=2))


def _log_components(places: Values, means: Values, variances: Values, shares: Values) -> Values:
    squares = (places[:, None] - means[:, None, :]) ** 2
    return np.asarray(np.log(shares / np.sqrt(variances))[:, None, :] - 0.5 * squares / variances[:, None, :])
