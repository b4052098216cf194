"""One density from weighted numbers: a smooth log-linear spline on many knots first, a few exponential pieces after.

1. Knots: at equal steps of the normal scores, so that they follow the data's own scale (and outliers of any size cost
   nothing), finer where modes are far apart.
2. Heights: penalized maximum likelihood for a ladder of smoothing strengths, each with and without an *edge* on either
   side (a jump of the density to almost nothing, as of a uniform or exponential one); then also drawn toward mixtures
   of normal densities. The winner has the largest ``log-likelihood - price * degrees of freedom - log(n) / 2 * edges``.
3. Pieces (`hybridbn.fitting.mte.pieces`): dynamic programming finds the knots whose straight lines follow the smooth
   logarithm best; the heights there are those of the density nearest to the smooth one in Kullback-Leibler divergence.

Log-linear splines are densities whose logarithm is continuous and piecewise linear, many at once, as plain arrays:
``f(z) = exp(sum_k theta_k B_k(z))`` with hat functions B_k at knots; beyond the outermost knots the logarithm goes on
in a straight line, to the end of the domain or without end. On each piece f is one exponential, so this is an MTE with
one term a piece: positive everywhere, continuous, with closed-form masses. It is an exponential family too. Its
sufficient statistics are the means of the hats, and the penalized log-likelihood

    n (stats @ theta - log(integral of f)) - n * strength / 2 * sum_k w_k (third divided difference of theta at k)**2

is concave in the heights theta. The penalty is zero for parabolas: a strong one leaves a normal density (or an
exponential, a uniform or a truncated normal one, where the spline has ends). It is Silverman's (1982, Annals of
Statistics 10, 795-810), with every difference measured in units of its own knots' distance, so that it smooths as much
as the data are sparse.

Arrays of heights are (rows, knots): several splines on the same knots.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import scipy
from numpy.typing import NDArray

from hybridbn.potentials.base import freeze
from hybridbn.variables import Codes, Values

_SERIES = np.array([2.0 / math.factorial(n + 3) for n in range(16)])  # of exp(x) times the integral of t**2 exp(-x t)
_STEEPEST, _FLATTEST, _CLIMB = 12.0, 0.05, 5.0
_HALVINGS = 24
_RIDGES = (1e-13, 1e-10, 1e-7, 1e-4)  # added to a diagonal of ones until the system is safely positive definite


class Knots(NamedTuple):
    """Knots, and how far the outermost straight lines go on beyond them: 0, a distance or inf.

    The places are (knots,), or (rows, knots) where each spline has its own.
    """

    places: Values
    below: float
    above: float

    def of(self, rows: Codes | NDArray[np.bool_]) -> Knots:
        """Return the knots of some rows."""
        return self if self.places.ndim == 1 else self._replace(places=self.places[rows])


class _HatIntegrals(NamedTuple):
    """The integral of splines and of their products with hats, and with neighboring pairs of hats."""

    total: Values
    first: Values
    diagonal: Values
    beside: Values


def _integrate_powers(steps: Values) -> tuple[Values, Values, Values]:
    """Integrate ``t**k exp(step * t - max(step, 0))`` over 0 <= t <= 1 for k = 0, 1, 2."""
    fall = np.abs(steps)
    decay = np.exp(-fall)
    small = fall < 1.0
    safe = np.where(small, 1.0, fall)
    second = (2.0 - decay * (2.0 + safe * (2.0 + safe))) / safe**3
    x = fall[small]
    second[small] = decay[small] * np.polynomial.polynomial.polyval(x, _SERIES)
    # downward, where nothing cancels
    first = 0.5 * (fall * second + decay)
    zeroth = fall * first + decay
    rising = steps > 0  # seen from the other end of the interval, it falls
    return (
        zeroth,
        np.where(rising, zeroth - first, first),
        np.where(rising, np.maximum(zeroth - 2.0 * first + second, 0.0), second),
    )


def _integrate_tail(heights: Values, neighbors: Values, step: Values, length: float) -> tuple[Values, Values, Values]:
    """Integrate ``(y / step)**k f`` for k = 0, 1, 2 over the straight line that goes on beyond an outermost knot.

    The heights are those at the knot and at its neighbor, which is `step` away; y is the distance from the knot.
    """
    slope = (neighbors - heights) / step
    if math.isinf(length):
        with np.errstate(divide="ignore", over="ignore"):
            mean = np.where(slope > 0, 1.0 / np.where(slope > 0, slope, 1.0), np.inf)
            zeroth = np.exp(heights) * mean
            share = mean / step
            return zeroth, zeroth * share, 2.0 * zeroth * share * share
    moments = _integrate_powers(-slope * length)
    scale, share = np.exp(np.maximum(heights, heights - slope * length)) * length, length / step
    return scale * moments[0], scale * moments[1] * share, scale * moments[2] * share * share


def integrate_pieces(heights: Values, knots: Knots) -> tuple[Values, Values, Values]:
    """Integrate 1, t and t**2 times each piece, t running from 0 to 1 between its knots (rows, knots - 1).

    What lies beyond the outermost knots belongs to the first and the last piece (with t < 0 and t > 1).
    """
    widths = np.diff(knots.places, axis=-1)
    zeroth, first, second = _integrate_powers(np.diff(heights, axis=-1))
    scale = np.exp(np.maximum(heights[..., :-1], heights[..., 1:])) * widths
    zeroth, first, second = zeroth * scale, first * scale, second * scale
    if knots.below > 0:
        a, b, c = _integrate_tail(heights[..., 0], heights[..., 1], widths[..., 0], knots.below)
        zeroth[..., 0] += a
        first[..., 0] -= b
        second[..., 0] += c
    if knots.above > 0:
        a, b, c = _integrate_tail(heights[..., -1], heights[..., -2], widths[..., -1], knots.above)
        zeroth[..., -1] += a
        first[..., -1] += a + b
        second[..., -1] += a + 2.0 * b + c
    return zeroth, first, second


def _integrate_hats(heights: Values, knots: Knots) -> _HatIntegrals:
    zeroth, first, second = integrate_pieces(heights, knots)
    means, diagonal = np.zeros(heights.shape), np.zeros(heights.shape)
    means[..., :-1] += zeroth - first
    means[..., 1:] += first
    diagonal[..., :-1] += zeroth - 2.0 * first + second
    diagonal[..., 1:] += second
    return _HatIntegrals(zeroth.sum(axis=-1), means, diagonal, first - second)


def normalize(heights: Values, knots: Knots) -> Values:
    """Return the heights of the splines divided by their integrals."""
    top = heights.max(axis=-1, keepdims=True)
    total = integrate_pieces(heights - top, knots)[0].sum(axis=-1, keepdims=True)
    return np.asarray(heights - (np.log(total) + top))


def limit_steepness(heights: Values, knots: Knots) -> Values:
    """Return the splines with low heights raised so that neighboring knots differ by a factor of e**12 at most.

    Atoms (a number that is half of the data) make spikes, beside which the density would fall to nothing.
    """
    ramp = _STEEPEST * np.arange(heights.shape[-1])
    rising = np.maximum.accumulate(heights + ramp, axis=-1) - ramp
    falling = np.maximum.accumulate((heights - ramp)[..., ::-1], axis=-1)[..., ::-1] + ramp
    return normalize(make_tails_decay(np.maximum(rising, falling), knots), knots)


def make_tails_decay(heights: Values, knots: Knots) -> Values:
    """Return the splines with endless tails that fall by a factor of e**0.05 at least between the outermost knots.

    Far from the data a logarithm may be flat within rounding, or clipped, and its tail would have no mass, or all of
    it. Tails that end may grow, but by a factor of e**5 at most.
    """
    heights = heights.copy()
    for end, beside, length in ((0, 1, knots.below), (-1, -2, knots.above)):
        if length > 0:
            step = np.abs(knots.places[..., beside] - knots.places[..., end])
            most = -_FLATTEST if math.isinf(length) else _CLIMB * step / length
            heights[..., end] = np.minimum(heights[..., end], heights[..., beside] + most)
    return heights


def compute_hat_means(heights: Values, knots: Knots) -> Values:
    """Return the mean of each hat function under each spline (rows, knots)."""
    parts = _integrate_hats(heights, knots)
    return np.asarray(parts.first / parts.total[..., None])


def spread_over_knots(places: Values, knots: Values) -> tuple[Codes, Values]:
    """Return three neighboring knots for each place, and the means of their hats over a step between knots around it.

    In steps, a place u from the nearest knot gives ``(1/2 - u)**2 / 2, 3/4 - u**2, (1/2 + u)**2 / 2`` (the quadratic
    B-spline). An atom, a number that is half of the data, is so spread over a step; as it stands it would be an
    infinite spike.
    """
    left, share = shares(places, knots)
    nearest = left + (share > 0.5)
    u = np.clip(share - (share > 0.5), -0.5, 0.5)
    weights = np.stack([0.5 * (0.5 - u) ** 2, 0.75 - u**2, 0.5 * (0.5 + u) ** 2])
    return np.clip(nearest + np.array([[-1], [0], [1]]), 0, len(knots) - 1), weights


def shares(places: Values, knots: Values) -> tuple[Codes, Values]:
    """Return for each place the knot to its left, and the value there of the next knot's hat (the knot's own has the
    rest).
    """
    left = np.clip(np.searchsorted(knots, places, side="right") - 1, 0, len(knots) - 2)
    return left, (places - knots[left]) / (knots[left + 1] - knots[left])


def third_differences(places: Values) -> Values:
    """Return the matrix of third divided differences, each in units of its own knots' distance (knots - 3, knots)."""
    differences = np.eye(len(places))
    for order in range(1, 4):
        differences = order * np.diff(differences, axis=0) / (places[order:] - places[:-order])[:, None]
    units = (places[3:] - places[:-3]) / 3.0
    return np.asarray(differences * (units**3)[:, None])


def maximize_likelihood(
    stats: Values,
    knots: Knots,
    matrix: Values,
    strengths: Values,
    start: Values,
    bends: Values | None = None,
    within: float = 1e-11,
    steps: int = 60,
) -> Values:
    """Maximize ``stats @ theta - log(integral) - strength / 2 sum((matrix @ theta - bends)**2)`` by Newton's method.

    Where the integral is one, ``-integral`` has the gradient of ``-log(integral)`` and a Hessian that is a band
    (Silverman's device); the steps are those of the former, and the splines are divided by their integrals after each
    of them. The bands of all rows make one long band, which is solved at once.

    Parameters
    ----------
    stats : (rows, knots) means of the hats; each row adds up to 1
    matrix : (differences, knots), of up to four neighbors
    strengths : (rows,)
    start : (rows, knots) heights
    bends : (rows, differences) the differences that cost nothing; zeros if not given
    within : largest gain in log-likelihood for an observation that may be missed
    steps : most Newton steps

    Returns
    -------
    ndarray (rows, knots)
    """
    size = start.shape[1]
    band = np.zeros((4, *start.shape))
    products = matrix.T @ matrix
    for k in range(min(4, size)):
        band[k, :, : size - k] = np.diag(products, -k) * strengths[:, None]
    result = np.empty(start.shape)
    targets = np.zeros((len(start), len(matrix))) if bends is None else bends
    active = np.arange(len(start))
    now, gain, parts = _normalize_and_score(make_tails_decay(start, knots), stats, knots, matrix, strengths, targets)
    result[:] = now
    for _ in range(steps):
        own, wanted, strength, target = knots.of(active), stats[active], strengths[active], targets[active]
        system = band[:, active]
        # far below the data there is no curvature yet; the data's own keeps the steps in bounds
        system[0] += np.maximum(parts.diagonal, 0.0) * (1.0 + 1e-13) + np.where(
            parts.first < 0.01 * wanted, 0.3 * np.abs(wanted), 1e-300
        )
        system[1, :, :-1] += parts.beside
        slope = wanted - parts.first - strength[:, None] * ((now @ matrix.T - target) @ matrix)
        step = _solve_bands(system, slope)
        decrement = (slope * step).sum(axis=1)
        scale = np.ones(len(active))
        new, new_gain, new_parts = _normalize_and_score(now + step, wanted, own, matrix, strength, target)
        for halving in range(_HALVINGS):
            worse = np.flatnonzero(~(new_gain >= gain - 1e-11 * (1.0 + np.abs(gain))))
            if not len(worse):
                break
            scale[worse] *= 0.3 if halving < _HALVINGS - 1 else 0.0
            fit_strengths = now[worse] + scale[worse, None] * step[worse]
            again = _normalize_and_score(
                fit_strengths, wanted[worse], own.of(worse), matrix, strength[worse], target[worse]
            )
            new[worse], new_gain[worse] = again[:2]
            for array, values in zip(new_parts, again[2], strict=True):
                array[worse] = values
        result[active] = new
        on = (decrement > 2.0 * within) & (scale > 0)
        active, now, gain, parts = active[on], new[on], new_gain[on], _HatIntegrals(*(array[on] for array in new_parts))
        if not len(active):
            break
    return result


def _normalize_and_score(
    heights: Values, stats: Values, knots: Knots, matrix: Values, strengths: Values, bends: Values
) -> tuple[Values, Values, _HatIntegrals]:
    """Return the splines divided by their integrals, what is maximized there, and their parts."""
    with np.errstate(over="ignore", invalid="ignore", under="ignore", divide="ignore"):
        heights = heights - heights.max(axis=1, keepdims=True)
        parts = _integrate_hats(heights, knots)
        heights = heights - np.log(parts.total)[:, None]
        by = 1.0 / parts.total
        parts = _HatIntegrals(parts.total * by, *(array * by[:, None] for array in parts[1:]))
        gain = (stats * heights).sum(axis=1) - 0.5 * strengths * ((heights @ matrix.T - bends) ** 2).sum(axis=1)
        return heights, np.asarray(np.where(np.isfinite(gain), gain, -np.inf)), parts


def _solve_bands(system: Values, right: Values) -> Values:
    """Solve the rows' banded systems as one, after scaling its diagonal to one."""
    _, rows, size = system.shape
    unit = 1.0 / np.sqrt(system[0])
    for k in range(min(4, size)):
        system[k, :, : size - k] *= unit[:, : size - k] * unit[:, k:]
    wanted = (right * unit).ravel()
    for ridge in _RIDGES:
        system[0] += ridge
        # (what scipy's solveh_banded calls, whose checks take as long as the solution)
        _, solution, failed = scipy.linalg.lapack.dpbsv(system.reshape(4, rows * size), wanted, lower=1)
        if not failed:
            steps = np.asarray(solution.reshape(rows, size) * unit)
            # rows that floats can't solve stay where they are
            return np.where(np.isfinite(steps).all(axis=1, keepdims=True), steps, 0.0)
    return np.zeros(right.shape)  # nothing can be improved


def count_degrees_of_freedom(heights: Values, knots: Knots, matrix: Values, strengths: Values) -> Values:
    """Return the effective number of parameters of penalized fits: the trace of (G + P)^-1 G, less one for the mass."""
    parts = _integrate_hats(heights, knots)
    size = heights.shape[1]
    gram = np.zeros((*heights.shape, size))
    i = np.arange(size)
    gram[:, i, i] = parts.diagonal
    gram[:, i[:-1], i[1:]] = gram[:, i[1:], i[:-1]] = parts.beside
    whole = gram + strengths[:, None, None] * (matrix.T @ matrix)
    unit = 1.0 / np.sqrt(np.maximum(whole[:, i, i], 1e-300))
    gram *= unit[:, :, None] * unit[:, None, :]
    whole *= unit[:, :, None] * unit[:, None, :]
    whole[:, i, i] += 1e-13
    return np.asarray(np.trace(np.linalg.solve(whole, gram), axis1=1, axis2=2) - 1.0)


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
    return (mass / float(everything.sum()), float((distances * (weights / mass)).sum())) if mass else (0.0, 0.0)


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
    return np.asarray(scipy.special.ndtri((np.cumsum(weights) - 0.5 * weights) / weights.sum()))


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
    inner = np.interp((score[0] + 1.0, score[-1] - 1.0), score, values)
    (before, below), (after, above) = (
        (np.empty(0), 0.0) if edges[side] else _reach_out(places[side], places[side] - inner[side], domain[side])
        for side in (0, -1)
    )
    places = _grade_steps(np.concatenate([before, places, after]), _EXTENDED_RATIO)
    # a domain that ends far beyond the data does not end
    below, above = (math.inf if rest > _FAR * (places[-1] - places[0]) else rest for rest in (below, above))
    return Knots(places, below, above)


def _reach_out(end: float, reach: float, limit: float) -> tuple[Values, float]:
    """Return two places beyond an end of the data that a limit allows, and how far the outermost is from the limit."""
    places = np.unique(np.clip(end + reach * np.array([0.5, 1.0]), min(end, limit), max(end, limit)))
    places = places[places != end]
    outermost = places[0 if reach < 0 else -1] if len(places) else end
    return places, abs(float(outermost - limit))


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
