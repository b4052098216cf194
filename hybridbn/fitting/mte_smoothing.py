"""Splines that weigh likelihood against roughness: for many densities on the same knots at once, the best of many strengths."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from hybridbn.fitting.mte_splines import Knots, degrees_of_freedom, maximized, penalty, smeared
from hybridbn.variables import Values

__all__ = ["FEW", "Tried", "better", "ladder", "mixtures", "started", "stats_at", "tried"]

FEW = 8  # with fewer distinct values there is no shape to be seen

_PRICE = 1.5  # of a degree of freedom: between AIC's 1 and BIC's log(n) / 2
_STRENGTHS = 10.0 ** np.arange(3.0, -6.5, -1.0)
_NORMAL = 1e4  # strong enough to leave nothing but a parabola
_SPREAD = 0.5  # of an observation
_STEPS = 8  # of Newton's method, when fits are compared
_ROUNDS = 40  # of EM
_COMPONENT = 3.0  # parameters of another component of a mixture


class Tried(NamedTuple):
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


def tried(
    stats: Values, knots: Knots, strengths: Values, totals: Values, sizes: Values,
    targets: Values | None = None, components: Sequence[int] = (1,),
) -> Tried:  # fmt: skip
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
    matrix = penalty(knots.places)
    if targets is None:
        targets = np.zeros((1, *stats.shape))
    count, choices = len(targets), len(targets) * len(strengths)
    every = np.tile(strengths, len(stats) * count)
    bends = np.repeat(np.moveaxis(targets, 0, 1).reshape(-1, stats.shape[1]) @ matrix.T, len(strengths), axis=0)
    rows, weights = np.repeat(stats, choices, axis=0), np.repeat(totals, choices)
    within = 0.03 / max(float(totals.max()), 1.0)
    heights = maximized(rows, knots, matrix, every, started(rows, knots, weights), bends, within, steps=_STEPS)
    freedom = degrees_of_freedom(heights, knots, matrix, every)
    freedom += np.tile(np.repeat(_COMPONENT * (np.array(components) - 1.0), len(strengths)), len(stats))
    score = scores(rows, heights, freedom, weights, np.repeat(sizes, choices)).reshape(-1, choices)
    score = np.where(np.isfinite(score), score, -np.inf)
    best = score.argmax(axis=1)
    chosen = np.arange(len(stats)) * choices + best
    return Tried(score.max(axis=1), every[chosen], bends[chosen], heights[chosen])


def better(one: Tried, two: Tried) -> Tried:
    """Return the better of two fits of each row."""
    first = one.score >= two.score
    return Tried(
        *(np.where(first.reshape(-1, *[1] * (a.ndim - 1)), a, b) for a, b in zip(one, two, strict=True)),
    )


def ladder(distinct: int, total: float) -> Values:
    """Return the smoothing strengths that a number of distinct values allows."""
    return _STRENGTHS if distinct >= FEW and total >= FEW else np.array([_NORMAL])


def scores(stats: Values, heights: Values, freedom: Values, total: Values | float, size: Values | float) -> Values:
    """Return the log-likelihood of each row less the price of its freedom, corrected for small samples as in AICc."""
    most = 2.5 + size / 8.0  # more would follow single values
    correction = size / np.maximum(size - freedom - 2.0, 0.5)
    value = total * (stats * heights).sum(axis=-1) - _PRICE * freedom * np.maximum(correction, 1.0)
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


def mixtures(stats: Values, places: Values, count: int) -> Values:
    """Return the logarithms of mixtures of normal densities at some places, fitted by EM to the rows' weights there.

    Examples
    --------
    >>> places = np.linspace(-3, 3, 61)
    >>> weights = np.exp(-0.5 * ((np.abs(places) - 2) / 0.3) ** 2)
    >>> logs = mixtures(weights[None] / weights.sum(), places, 2)[0]
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
        logs = _components(places, means, variances, shares)
        top = logs.max(axis=2, keepdims=True)
        parts = np.exp(logs - top)
        held = stats[:, :, None] * parts / parts.sum(axis=2, keepdims=True)
        sums = np.maximum(held.sum(axis=1), 1e-12)
        shares, means = sums / sums.sum(axis=1, keepdims=True), np.einsum("k,rkc->rc", places, held) / sums
        squares = (places[:, None] - means[:, None, :]) ** 2
        variances = np.maximum((squares * held).sum(axis=1), np.einsum("k,rkc->rc", steps, held)) / sums
        variances = np.maximum(variances, 1e-300)
    return np.asarray(np.logaddexp.reduce(_components(places, means, variances, shares), axis=2))


def _components(places: Values, means: Values, variances: Values, shares: Values) -> Values:
    squares = (places[:, None] - means[:, None, :]) ** 2
    return np.asarray(np.log(shares / np.sqrt(variances))[:, None, :] - 0.5 * squares / variances[:, None, :])
