"""Log-linear splines: densities whose logarithm is continuous and piecewise linear, many at once, as plain arrays.

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

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hybridbn.variables import Codes, Values

__all__ = [
    "Knots",
    "compute_hat_means",
    "count_degrees_of_freedom",
    "integrate_pieces",
    "limit_steepness",
    "log_integrals",
    "make_tails_decay",
    "maximize_likelihood",
    "normalize",
    "shares",
    "spread_over_knots",
    "third_differences",
]

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


def log_integrals(heights: Values, knots: Knots) -> Values:
    """Return the logarithm of each spline's integral."""
    top = heights.max(axis=-1)
    return np.asarray(np.log(integrate_pieces(heights - top[..., None], knots)[0].sum(axis=-1)) + top)


def normalize(heights: Values, knots: Knots) -> Values:
    """Return the heights of the splines divided by their integrals."""
    return np.asarray(heights - log_integrals(heights, knots)[..., None])


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
    from scipy.linalg.lapack import dpbsv

    _, rows, size = system.shape
    unit = 1.0 / np.sqrt(system[0])
    for k in range(min(4, size)):
        system[k, :, : size - k] *= unit[:, : size - k] * unit[:, k:]
    wanted = (right * unit).ravel()
    for ridge in _RIDGES:
        system[0] += ridge
        # (what scipy's solveh_banded calls, whose checks take as long as the solution)
        _, solution, failed = dpbsv(system.reshape(4, rows * size), wanted, lower=1)
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
