"""Exponential sums on an interval or a box: stable integrals, moments and minima, as functions of plain arrays."""

from __future__ import annotations

import itertools
import math

import numpy as np

from hybridbn.variables import Values

__all__ = ["integrate_decay", "integrate_powers", "integrate_segments", "minimize_on_box"]

_SERIES = 22
"""Terms of the power series for arguments below 1, where 1/22! = 1e-21 is below rounding."""
_NEGLIGIBLE = 40.0
"""Exponents at which a decaying term is negligible: exp(-40) = 4e-18 is below the rounding of 1."""


def integrate_decay(rate: Values, width: Values) -> Values:
    """Integrate ``exp(-rate t)`` over ``0 <= t <= width`` for rates >= 0; no digits are lost as rate * width -> 0.

    ``width`` may be infinite; the integral is then ``1 / rate``, and infinite where the rate is zero.
    """
    rate, width = np.broadcast_arrays(rate, width)
    with np.errstate(invalid="ignore", divide="ignore", over="ignore", under="ignore"):
        product = np.asarray(rate * width)
        mean = np.where(product > 1e-300, -np.expm1(-product) / product, 1.0)
        return np.asarray(np.where(np.isinf(width), np.where(rate > 0, 1.0 / rate, np.inf), width * mean))


def integrate_powers(rate: Values, width: Values, order: int) -> Values:
    """Integrate ``t**k exp(-rate t)`` over ``0 <= t <= width`` for k = 0 .. order, rates >= 0.

    With x = rate * width it is ``gamma(k+1, x) / rate**(k+1)`` (incomplete gamma function); below x = 1 its power
    series ``width**(k+1) sum_n (-x)**n / (n! (n+k+1))``, because the closed form cancels there.

    Returns
    -------
    ndarray (order + 1, ...)
    """
    from scipy.special import gammainc

    rate, width = np.broadcast_arrays(rate, width)
    result = np.empty((order + 1, *rate.shape))
    result[0] = integrate_decay(rate, width)
    with np.errstate(invalid="ignore", divide="ignore", over="ignore", under="ignore"):
        product = np.where(rate == 0, 0.0, rate * width)
        small = np.minimum(product, 1.0)
        for k in range(1, order + 1):
            series = np.zeros(rate.shape)
            for n in range(_SERIES, -1, -1):
                series = series * (-small / (n + 1)) + 1.0 / (n + k + 1)
            closed = gammainc(k + 1, product) * math.factorial(k) / rate ** (k + 1)
            result[k] = np.where(product < 1.0, width ** (k + 1) * series, closed)
    return result


def integrate_segments(rate: Values, anchor: Values, low: Values, high: Values, order: int, center: Values) -> Values:
    """Integrate ``(z - center)**k exp(rate (z - anchor))`` over [low, high] for k = 0 .. order; 0 where high <= low.

    Each segment is integrated from its end nearest to the anchor, where the exponential is largest.

    Returns
    -------
    ndarray (order + 1, ...)
    """
    rate, anchor, low, high, center = np.broadcast_arrays(rate, anchor, low, high, center)
    empty = ~(high > low)
    near = np.where(rate > 0, high, np.where(np.isfinite(low), low, high))
    direction = np.where((rate > 0) | ~np.isfinite(low), -1.0, 1.0)
    near = np.where(empty | ~np.isfinite(near), 0.0, near)
    with np.errstate(invalid="ignore"):
        width = np.where(empty, 0.0, high - low)
    with np.errstate(under="ignore"):
        weight = np.where(empty, 0.0, np.exp(np.where(empty | (rate == 0), 0.0, rate * (near - anchor))))
        local = integrate_powers(np.abs(rate), width, order) * weight
    if order == 0:
        return local
    offset = near - center
    result = np.zeros_like(local)
    for k in range(order + 1):
        for i in range(k + 1):
            result[k] += math.comb(k, i) * offset ** (k - i) * direction**i * local[i]
    return result


# -- minima -------------------------------------------------------------------------------------------------------


def minimize_on_box(coefficients: Values, rates: Values, low: Values, high: Values) -> tuple[float, Values, float]:
    """Find the minimum over a box of ``sum_t coefficients[t] exp(sum_j rates[t, j] (z_j - anchor_tj))``.

    Anchors are the corners where the terms are largest. In one dimension the stationary points are found exactly, one
    after the other (an exponential sum of n terms has at most n - 1 zeros, separated by those of a sum of n - 1 terms);
    in more dimensions by a grid with the corners and local searches from its lowest points.

    Returns
    -------
    minimum : float
    where : ndarray (dimensions,)
    maximum : float
        Largest value among the points that were evaluated.
    """
    active = np.flatnonzero((rates != 0).any(axis=0))
    point = np.where(np.isfinite(low), low, np.where(np.isfinite(high), high, 0.0))
    if not active.size:
        value = float(coefficients.sum())
        return value, point, value
    rates, low, high = rates[:, active], low[active].copy(), high[active].copy()
    for j in range(active.size):  # beyond this length every decaying term is negligible
        slowest = np.abs(rates[rates[:, j] != 0, j]).min()
        low[j] = max(low[j], high[j] - _NEGLIGIBLE / slowest) if np.isinf(low[j]) else low[j]
        high[j] = min(high[j], low[j] + _NEGLIGIBLE / slowest) if np.isinf(high[j]) else high[j]
    anchors = np.where(rates > 0, high, low)
    if active.size == 1 and len(coefficients) <= 8:
        candidates = _stationary_points(coefficients, rates[:, 0], low[0], high[0])[:, None]
    else:
        candidates = _search_grid(coefficients, rates, anchors, low, high)
    with np.errstate(under="ignore"):
        values = np.exp(((candidates[:, None, :] - anchors) * rates).sum(axis=2)) @ coefficients
    best = int(values.argmin())
    point[active] = candidates[best]
    return float(values[best]), point, float(values.max())


def _stationary_points(coefficients: Values, rates: Values, low: float, high: float) -> Values:
    """Return the ends of the interval and every stationary point in it, for anchored terms."""
    distinct, group = np.unique(rates, return_inverse=True)
    merged = np.bincount(group, weights=coefficients, minlength=len(distinct))
    width = high - low
    nonzero = (merged != 0) & (distinct != 0)
    slopes, distinct = merged[nonzero] * distinct[nonzero], distinct[nonzero]
    if not len(slopes):
        return np.array([low, high])
    # in t = z - low every term is sign * exp(log + rate t); logarithms can't overflow
    logs = np.log(np.abs(slopes)) - np.maximum(distinct, 0.0) * width
    zeros = _find_zeros(np.sign(slopes), logs, distinct, width)
    return np.array([low, *(low + t for t in zeros), high])


def _find_zeros(signs: Values, logs: Values, rates: Values, width: float) -> list[float]:
    """Return the zeros of ``sum signs exp(logs + rates t)`` in (0, width), rates increasing."""
    from scipy.optimize import brentq

    if len(signs) < 2:
        return []

    def evaluate_scaled(t: float) -> float:
        exponents = logs + rates * t
        return float(signs @ np.exp(exponents - exponents.max()))

    steps = rates[1:] - rates[0]
    turning = _find_zeros(signs[1:], logs[1:] - logs[0] + np.log(steps), steps, width)
    points = [0.0, *turning, width]
    zeros = []
    with np.errstate(under="ignore"):
        values = [evaluate_scaled(t) for t in points]
        for (a, va), (b, vb) in itertools.pairwise(zip(points, values, strict=True)):
            if va == 0.0 and a > 0:
                zeros.append(a)
            elif va * vb < 0 and b > a:
                zeros.append(float(brentq(evaluate_scaled, a, b, xtol=1e-15 * width, rtol=1e-14)))
    return zeros


def _search_grid(coefficients: Values, rates: Values, anchors: Values, low: Values, high: Values) -> Values:
    """Return points of a grid over the box, and the ends of local searches from the lowest of them."""
    from scipy.optimize import minimize

    dimensions = len(low)
    per_axis = {1: 513, 2: 65, 3: 17, 4: 9}.get(dimensions, 5 if dimensions < 8 else 2)
    # cosine spacing: exponential sums change fastest near the faces
    fractions = 0.5 - 0.5 * np.cos(np.linspace(0.0, math.pi, per_axis))
    axes = [np.minimum(a + (b - a) * fractions, b) for a, b in zip(low, high, strict=True)]
    grid = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, dimensions)

    def value_and_slope(fraction: Values) -> tuple[float, Values]:
        terms = coefficients * np.exp(((low + fraction * (high - low) - anchors) * rates).sum(axis=1))
        return float(terms.sum()), np.asarray(terms @ rates * (high - low))

    with np.errstate(under="ignore"):
        values = np.exp(np.einsum("gtj,tj->gt", grid[:, None, :] - anchors, rates)) @ coefficients
        ends = [grid]
        for start in np.argsort(values)[:6]:
            fraction = (grid[start] - low) / (high - low)
            search = minimize(value_and_slope, fraction, jac=True, method="L-BFGS-B", bounds=[(0, 1)] * dimensions)
            ends.append((low + np.clip(search.x, 0, 1) * (high - low))[None])
    return np.concatenate(ends)
