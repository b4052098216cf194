"""Integrals and inverse distribution functions of exponential sums along their child, for many parents at once."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hybridbn.potentials.mte.exponentials import decay_integral, segment_integrals
from hybridbn.potentials.mte.terms import Terms
from hybridbn.potentials.mte.values import cells_of, contracted, flattened, joint_groups
from hybridbn.variables import Codes, Values

__all__ = ["cell_integrals", "inverse_cdf"]

_CHUNK = 1 << 16  # numbers in a temporary array
_ROWS, _GUESSES = 8192, 257
_STEPS = 200  # bisections that halve any bracket of floats to nothing are fewer


def cell_integrals(terms: Terms, parents: Sequence[NDArray[Any]], edges: Values, order: int, center: Values) -> Values:
    """Integrate ``(z - center)**k`` times the function over cells of its last column z.

    Parameters
    ----------
    parents : an axis for each column but the last (discrete ones first)
    edges : (cells + 1,) or (cells + 1, rows), increasing
    center : () or (cells,), or (cells, rows) if the edges have rows

    Returns
    -------
    ndarray (order + 1, points of each parent..., cells[, rows])
    """
    last = len(terms.sizes) + len(terms.limits) - 1
    column = len(terms.limits) - 1
    if edges.ndim == 2 or center.ndim == 2:
        return _row_integrals(terms, parents, edges, order, center)
    low, high, rate, anchor = _pieces_of_terms(terms, column)
    lower, upper = edges[:-1, None], edges[1:, None]
    spread = center[:, None] if center.ndim else center
    side = segment_integrals(rate, anchor, np.maximum(lower, low), np.minimum(upper, high), order, spread)
    cells = side.shape[1]
    result = contracted(terms, [*parents, edges], {last: side.reshape(-1, len(rate))})
    return np.moveaxis(result.reshape(*result.shape[:last], order + 1, cells, *result.shape[last + 1 :]), last, 0)


def _pieces_of_terms(terms: Terms, column: int) -> tuple[Values, Values, Values, Values]:
    owner = terms.owner
    return terms.low[owner, column], terms.high[owner, column], terms.rates[:, column], terms.anchors[:, column]


def _row_integrals(terms: Terms, parents: Sequence[NDArray[Any]], edges: Values, order: int, center: Values) -> Values:
    """Integrate over cells that differ from row to row."""
    rows = edges.shape[1] if edges.ndim == 2 else center.shape[1]
    edges = np.broadcast_to(edges if edges.ndim == 2 else edges[:, None], (len(edges), rows))
    center = center if center.ndim == 2 else np.broadcast_to(center if center.ndim == 0 else center[:, None], (1, rows))
    column, count = len(terms.limits) - 1, len(edges) - 1
    extents = [len(axis) for axis in parents]
    # every combination of the parents' points and the row is a row of its own
    shape = (*extents, rows)
    flat = flattened([axis if axis.ndim == 2 else np.repeat(axis[:, None], rows, axis=1) for axis in parents])[0]
    row = np.broadcast_to(np.arange(rows), shape).reshape(-1)
    result = np.zeros((order + 1, count, len(row)))
    places = [cells_of(terms, j, axis) for j, axis in enumerate(flat)]
    sequence, runs = joint_groups(terms, list(range(len(flat))), places, len(row))
    for chosen, start, stop in runs:
        low, high, rate, anchor = (array[chosen, None, None] for array in _pieces_of_terms(terms, column))
        step = max(1, _CHUNK // (len(chosen) * count))
        for begin in range(start, stop, step):
            end = min(begin + step, stop)
            part = slice(begin, end) if sequence is None else sequence[begin:end]
            lower, upper = edges[:-1, row[part]], edges[1:, row[part]]
            integrals = segment_integrals(
                rate, anchor, np.maximum(lower, low), np.minimum(upper, high), order, center[:, row[part]]
            )
            factor = terms.coefficient[chosen, None] * _parents_side(terms, chosen, flat, part)
            result[:, :, part] = np.einsum("ktcm,tm->kcm", integrals, factor)
    spread = result.reshape(order + 1, count, *shape)
    return np.moveaxis(spread, 1, -2)


def _parents_side(terms: Terms, chosen: Codes, flat: Sequence[NDArray[Any]], part: Any) -> Values:
    """Return the factor of some terms that belongs to the parents' values (terms, rows)."""
    exponent: Any = 0.0
    for j, axis in enumerate(flat[len(terms.sizes) :]):
        rate, anchor = terms.rates[chosen, j, None], terms.anchors[chosen, j, None]
        if rate.any():
            exponent = exponent + np.where(rate == 0, 0.0, rate * (axis[part] - anchor))
    with np.errstate(under="ignore"):
        return np.broadcast_to(np.exp(exponent), (len(chosen), len(flat[0][part]) if flat else _length(part)))


def _length(part: Any) -> int:
    return part.stop - part.start if isinstance(part, slice) else len(part)


# -- inverse distribution functions -------------------------------------------------------------------------------


def inverse_cdf(terms: Terms, uniforms: Values, parents: Sequence[NDArray[Any]]) -> Values:
    """Return where the distribution function of the last column reaches given probabilities, one for each row.

    Parameters
    ----------
    uniforms : (rows,)
    parents : (rows,) for each column but the last

    Returns
    -------
    ndarray (rows,); NaN where the parents' values lie outside all pieces
    """
    column = len(terms.limits) - 1
    result = np.full(len(uniforms), np.nan)
    places = [cells_of(terms, j, axis) for j, axis in enumerate(parents)]
    sequence, runs = joint_groups(terms, list(range(len(parents))), places, len(uniforms))
    for chosen, start, stop in runs:
        part = slice(start, stop) if sequence is None else sequence[start:stop]
        pieces = np.unique(terms.owner[chosen])
        pieces = pieces[np.argsort(terms.low[pieces, column])]
        groups = [np.arange(terms.starts[p], terms.starts[p + 1]) for p in pieces]
        # where the parents only choose the pieces, one column of coefficients serves all rows
        alike = not terms.rates[chosen, :column].any()
        rows_of_sides = (
            (slice(start, start + 1) if sequence is None else sequence[start : start + 1]) if alike else part
        )
        sides = [terms.coefficient[g, None] * _parents_side(terms, g, parents, rows_of_sides) for g in groups]
        masses = np.stack([_mass(terms, p, g, column) @ side for p, g, side in zip(pieces, groups, sides, strict=True)])
        masses = np.maximum(masses, 0.0)
        upto = np.cumsum(masses, axis=0)
        held = np.flatnonzero((masses > 0).any(axis=1))
        if not len(held):
            continue
        target = uniforms[part] * upto[-1]
        where = np.searchsorted(upto[:, 0], target, side="right") if alike else (target >= upto).sum(axis=0)
        where = np.minimum(where, len(masses) - 1 - np.argmax(masses[::-1] > 0, axis=0))  # the last piece with mass
        found = np.full(len(target), np.nan)
        for i in held:
            rows = np.flatnonzero((where == i) & (masses[i] > 0))
            if len(rows):
                columns = np.zeros(1, dtype=np.intp) if alike else rows
                mass = masses[i, columns]
                below = np.clip(target[rows] - (upto[i, columns] - mass), 0.0, mass)
                g, p = groups[i], pieces[i]
                found[rows] = _inverse_in_piece(
                    terms.rates[g, column], terms.anchors[g, column], sides[i][:, columns],
                    float(terms.low[p, column]), float(terms.high[p, column]), below, mass,
                )  # fmt: skip
        result[part] = found
    return result


def _mass(terms: Terms, piece: int, of_piece: Codes, column: int) -> Values:
    """Return the integral of each term's exponential along one column of its piece."""
    low, high = terms.low[piece, column], terms.high[piece, column]
    return decay_integral(np.abs(terms.rates[of_piece, column]), high - low)


def _inverse_in_piece(
    rates: Values, anchors: Values, factors: Values, low: float, high: float, below: Values, mass: Values
) -> Values:
    """Solve ``integral from low to z = below`` for every row by Newton steps on logarithms, bracketed.

    The equation is written from the nearer end of the piece, and in logarithms, because there distribution functions
    are nearly straight lines: a handful of steps reaches full precision, and tails are as accurate as the middle.
    """
    reach = 800.0 / np.abs(rates[rates != 0]).min() if (rates != 0).any() else 0.0
    bottom, top = (low if math.isfinite(low) else high - reach), (high if math.isfinite(high) else low + reach)
    alike = factors.shape[1] == 1  # one first guess serves all rows
    result = np.empty(len(below))
    from_low = below <= 0.5 * mass
    for upward in (True, False):
        rows = np.flatnonzero(from_low == upward)
        target = below[rows] if upward else (mass if alike else mass[rows]) - below[rows]
        end = low if upward else high
        curve = _Curve(rates, anchors, low, high, upward)
        if alike and len(rows) > 4 * _GUESSES:
            guesses = bottom + (top - bottom) * (0.5 - 0.5 * np.cos(np.linspace(0.0, math.pi, _GUESSES)))
            masses = curve.at(guesses, factors)[0]
            start = np.interp(target, masses if upward else masses[::-1], guesses if upward else guesses[::-1])
        elif math.isinf(low) or math.isinf(high):  # where one exponential of mean decay would have it
            scale = 1.0 / np.abs(rates[rates != 0]).mean()
            start = np.full(len(rows), top - scale if math.isinf(low) else bottom + scale)
        else:
            start = np.full(len(rows), 0.5 * (bottom + top))
        for begin in range(0, len(rows), _ROWS):
            part = slice(begin, begin + _ROWS)
            factor = factors if alike else factors[:, rows[part]]
            result[rows[part]] = _newton(curve, factor, start[part], target[part], (bottom, top), end)
    return result


class _Curve:
    """The integral from the lower end of a piece to z, or from z to its upper end, and the density there."""

    def __init__(self, rates: Values, anchors: Values, low: float, high: float, upward: bool) -> None:
        self.rate, self.anchor, self.steepness = rates[:, None], anchors[:, None], np.abs(rates)[:, None]
        self.low, self.high, self.upward = low, high, upward
        # seen from z or from the anchor, whichever is the end where the exponential is larger
        self.from_z = self.rate > 0 if upward else self.rate < 0

    def at(self, z: Values, factor: Values) -> tuple[Values, Values, Values]:
        """Return the integrals, the sums of their terms' absolute values, and the densities."""
        with np.errstate(under="ignore"):
            wave = np.exp(np.where(self.rate == 0, 0.0, self.rate * (z - self.anchor)))
            widths = decay_integral(self.steepness, z - self.low if self.upward else self.high - z)
            shares = np.where(self.from_z, wave, 1.0) * widths * factor
            return shares.sum(axis=0), np.abs(shares).sum(axis=0), (wave * factor).sum(axis=0)


def _newton(
    curve: _Curve, factor: Values, z: Values, target: Values, bracket: tuple[float, float], end: float
) -> Values:
    lower, upper = np.full(len(target), bracket[0]), np.full(len(target), bracket[1])
    sign = 1.0 if curve.upward else -1.0
    z = np.where((target <= 0) & math.isfinite(end), end if math.isfinite(end) else 0.0, z)
    active = np.flatnonzero((target > 0) | (not math.isfinite(end)))
    for _ in range(_STEPS):
        if not len(active):
            break
        x, goal = z[active], target[active]
        mass, magnitude, density = curve.at(x, factor if factor.shape[1] == 1 else factor[:, active])
        beyond = mass > goal if curve.upward else mass < goal
        upper[active] = np.where(beyond, x, upper[active])
        lower[active] = np.where(beyond, lower[active], x)
        with np.errstate(under="ignore", divide="ignore", invalid="ignore", over="ignore"):
            new = x - sign * np.log(mass / goal) * mass / density
        new = np.where((new >= lower[active]) & (new <= upper[active]), new, 0.5 * (lower[active] + upper[active]))
        there = np.abs(mass - goal) <= 2e-16 * magnitude  # more steps would follow rounding errors
        z[active] = np.where(there, x, new)
        active = active[~(there | (np.abs(new - x) <= 4e-16 * np.abs(new)))]
    return z
