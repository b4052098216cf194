"""Integrals and inverse distribution functions of exponential sums along their child, for many parents at once."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hybridbn.potentials.exponentials import segment_integrals
from hybridbn.potentials.mte_terms import Terms
from hybridbn.potentials.mte_values import cells_of, contracted, flattened, joint_groups
from hybridbn.variables import Codes, Values

__all__ = ["cell_integrals", "inverse_cdf"]

_CHUNK = 1 << 16  # numbers in a temporary array
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
        sides = [terms.coefficient[g, None] * _parents_side(terms, g, parents, part) for g in groups]
        zero = np.zeros(())
        masses = np.stack([
            segment_integrals(
                terms.rates[g, column], terms.anchors[g, column], terms.low[p, column], terms.high[p, column], 0, zero
            )[0] @ side
            for p, g, side in zip(pieces, groups, sides, strict=True)
        ])  # fmt: skip
        masses = np.maximum(masses, 0.0)
        upto = np.cumsum(masses, axis=0)
        target = uniforms[part] * upto[-1]
        found = np.full(len(target), np.nan)
        where = np.minimum((target >= upto).sum(axis=0), len(pieces) - 1)
        while True:  # a piece without mass holds no probability: step back to one that does
            empty = (masses[where, np.arange(len(where))] <= 0) & (where > 0)
            if not empty.any():
                break
            where[empty] -= 1
        for i, (p, g) in enumerate(zip(pieces, groups, strict=True)):
            rows = np.flatnonzero((where == i) & (upto[-1] > 0))
            if len(rows):
                mass = masses[i, rows]
                below = np.clip(target[rows] - (upto[i, rows] - mass), 0.0, mass)
                found[rows] = _inverse_in_piece(
                    terms.rates[g, column], terms.anchors[g, column], sides[i][:, rows],
                    float(terms.low[p, column]), float(terms.high[p, column]), below, mass,
                )  # fmt: skip
        result[part] = found
    return result


def _inverse_in_piece(
    rates: Values, anchors: Values, factors: Values, low: float, high: float, below: Values, mass: Values
) -> Values:
    """Solve ``integral from low to z = below`` for every row by Newton steps on logarithms, bracketed.

    The equation is written from the nearer end of the piece, and in logarithms, because there distribution functions
    are nearly straight lines: a handful of steps reaches full precision, and tails are as accurate as the middle.
    """
    reach = 800.0 / np.abs(rates[rates != 0]).min() if (rates != 0).any() else 0.0
    bottom, top = (low if math.isfinite(low) else high - reach), (high if math.isfinite(high) else low + reach)
    result = np.empty(len(below))
    from_low = below <= 0.5 * mass
    for upward in (True, False):
        rows = np.flatnonzero(from_low == upward)
        if len(rows):
            target = below[rows] if upward else mass[rows] - below[rows]
            result[rows] = _newton(rates, anchors, factors[:, rows], (low, high), (bottom, top), target, upward)
    return result


def _newton(
    rates: Values, anchors: Values, factors: Values, ends: tuple[float, float], bracket: tuple[float, float],
    target: Values, upward: bool,
) -> Values:  # fmt: skip
    lower, upper = np.full(len(target), bracket[0]), np.full(len(target), bracket[1])
    rate, anchor, zero = rates[:, None], anchors[:, None], np.zeros(())
    z = np.full(len(target), 0.5 * (bracket[0] + bracket[1]))
    if math.isinf(ends[0]) or math.isinf(ends[1]):  # start where one exponential of mean decay would have it
        scale = 1.0 / np.abs(rates[rates != 0]).mean()
        z = np.full(len(target), bracket[1] - scale if math.isinf(ends[0]) else bracket[0] + scale)
    active = np.arange(len(target))
    for _ in range(_STEPS):
        x, factor, goal = z[active], factors[:, active], target[active]
        low, high = (np.full(len(x), ends[0]), x) if upward else (x, np.full(len(x), ends[1]))
        shares = segment_integrals(rate, anchor, low, high, 0, zero)[0] * factor
        mass = shares.sum(axis=0)
        with np.errstate(under="ignore", divide="ignore", invalid="ignore", over="ignore"):
            density = (np.exp(np.where(rate == 0, 0.0, rate * (x - anchor))) * factor).sum(axis=0)
            beyond = (mass > goal) if upward else (mass < goal)
            upper[active] = np.where(beyond, x, upper[active])
            lower[active] = np.where(beyond, lower[active], x)
            step = (np.log(mass) - np.log(goal)) * mass / density * (1.0 if upward else -1.0)
            new = x - step
            noise = 4e-16 * (np.abs(shares).sum(axis=0) / density)  # steps below it only follow rounding errors
        middle = 0.5 * (lower[active] + upper[active])
        new = np.where((new >= lower[active]) & (new <= upper[active]), new, middle)
        z[active] = np.where(goal > 0, new, ends[0] if upward else ends[1]) if _finite(ends, upward) else new
        done = (
            (np.abs(new - x) <= np.maximum(4e-16 * np.abs(new), noise))
            | (goal <= 0) & _finite(ends, upward)
            | (mass == goal)
        )
        z[active[mass == goal]] = x[mass == goal]
        active = active[~done]
        if not len(active):
            break
    return z


def _finite(ends: tuple[float, float], upward: bool) -> bool:
    return math.isfinite(ends[0] if upward else ends[1])
