"""Values of exponential sums on axes, fast: rows are grouped by their cell, and a group is one matrix product."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hybridbn.potentials.mte.exponentials import decay_integral, segment_integrals
from hybridbn.potentials.mte.terms import Terms
from hybridbn.variables import Codes, Values

__all__ = [
    "cells_of",
    "combine_sides",
    "evaluate",
    "evaluate_by_products",
    "evaluate_log",
    "flatten_axes",
    "group_rows",
    "integrate_cells",
    "inverse_cdf",
]

_BLOCK = 16384  # rows that are grouped at a time
_CHUNK = 4096  # columns of a matrix product; a few exponentials of each stay in cache
_SMALL = 4096  # values that are quicker to look up one by one


def evaluate(terms: Terms, axes: Sequence[NDArray[Any]]) -> Values:
    """Evaluate on axes, one for each column (discrete ones first), shared or per row.

    Returns
    -------
    ndarray, one dimension for each column, and the rows last where an axis is per row
    """
    shape = np.broadcast_shapes(*(axis.shape for axis in _broadcast_axes(axes))) if axes else ()
    if math.prod(shape) <= _SMALL:
        exponents, found = _look_up_terms(terms, axes, shape)
        result = np.zeros(shape)
        with np.errstate(under="ignore"):
            for exponent, coefficient in exponents:
                result += coefficient * np.exp(exponent)
        return np.where(found, np.maximum(result, 0.0), 0.0)
    result = evaluate_by_products(terms, axes)
    return np.maximum(result, 0.0, out=result)


def evaluate_log(terms: Terms, axes: Sequence[NDArray[Any]]) -> Values:
    """Evaluate the logarithm, also where the values themselves would underflow."""
    shape = np.broadcast_shapes(*(axis.shape for axis in _broadcast_axes(axes))) if axes else ()
    exponents, found = _look_up_terms(terms, axes, shape)
    top = np.full(shape, -np.inf)
    for exponent, coefficient in exponents:
        np.maximum(top, np.where(coefficient == 0, -np.inf, exponent), out=top)
    top = np.where(np.isfinite(top), top, 0.0)
    result = np.zeros(shape)
    with np.errstate(under="ignore", divide="ignore"):
        for exponent, coefficient in exponents:
            result += np.where(coefficient == 0, 0.0, coefficient * np.exp(np.minimum(exponent - top, 0.0)))
        return np.asarray(np.where(found, np.log(np.maximum(result, 0.0)) + top, -np.inf))


def _broadcast_axes(axes: Sequence[NDArray[Any]]) -> list[NDArray[Any]]:
    rows = any(axis.ndim == 2 for axis in axes)
    spread = []
    for position, axis in enumerate(axes):
        shape = [1] * (len(axes) + rows)
        shape[position] = axis.shape[0]
        if axis.ndim == 2:
            shape[-1] = axis.shape[1]
        spread.append(axis.reshape(shape))
    return spread


def cells_of(terms: Terms, column: int, axis: NDArray[Any]) -> Codes:
    """Return the cell of every point of an axis, -1 outside all of them."""
    if column >= len(terms.sizes):
        return terms.cell(column - len(terms.sizes), axis)
    return np.where((axis >= 0) & (axis < terms.sizes[column]), axis, -1).astype(np.intp)


def _look_up_terms(terms: Terms, axes: Sequence[NDArray[Any]], shape: tuple[int, ...]) -> tuple[Any, NDArray[np.bool_]]:
    """Return exponents and coefficients of the first, second ... term of the piece of every point, and where there is one."""
    cells = _broadcast_axes([cells_of(terms, j, axis) for j, axis in enumerate(axes)])
    inside = np.ones(shape, dtype=bool)
    for cell in cells:
        inside = inside & (cell >= 0)
    pieces = np.full(shape, -1, dtype=np.intp)
    if terms.table.size:
        pieces = np.where(inside, terms.table[tuple(cells)], -1)
    found = pieces >= 0
    numbers = _broadcast_axes(axes)[len(terms.sizes) :]
    counts = np.diff(terms.starts)
    most = int(counts[np.unique(pieces[found])].max(initial=0))
    result = []
    for k in range(most):
        has = found & (counts[pieces] > k) if len(counts) else found
        term = np.where(has, terms.starts[pieces] + k, 0)
        exponent = np.zeros(shape)
        for j, number in enumerate(numbers):
            rate = terms.rates[term, j]
            # (far enough out, a steep decay leaves the range of floats)
            with np.errstate(over="ignore", invalid="ignore"):
                exponent += np.where(has & (rate != 0), rate * (number - terms.anchors[term, j]), 0.0)
        result.append((exponent, np.where(has, terms.coefficient[term], 0.0)))
    return result, found


def _sort_into_runs(key: Codes, most: int) -> tuple[Codes | None, list[tuple[int, int, int]]]:
    """Sort rows by key: return the order (None if all keys are equal), and (key, start, stop) of each run in that order."""
    if not len(key):
        return None, []
    if (key == key[0]).all():
        return None, [(int(key[0]), 0, len(key))]
    # the radix sort for 16 bits is ten times faster than others
    order = np.argsort(key.astype(np.uint16) if most < 65535 else key, kind="stable")
    ordered = key[order]
    bounds = [0, *(np.flatnonzero(np.diff(ordered)) + 1).tolist(), len(key)]
    return order, [(int(ordered[a]), a, b) for a, b in itertools.pairwise(bounds)]


def evaluate_by_products(
    terms: Terms, axes: Sequence[NDArray[Any]], sides: Mapping[int, Values] | None = None
) -> Values:
    """Evaluate by matrix products: the shared axes' side of each term times the side of the axes that vary by row.

    Parameters
    ----------
    axes : one axis for each column; what stands where `sides` has a column is not looked at
    sides : mapping from columns to the factor of each term at each of the axis' points (points, terms), computed already
    """
    sides = dict(sides or {})
    plain = [j for j in range(len(axes)) if j not in sides]
    running = [j for j in plain if axes[j].ndim == 2]
    rows = axes[running[0]].shape[1] if running else None
    if rows is None and plain:  # no rows: the longest axis takes their place
        running = [max(plain, key=lambda j: (len(axes[j]), j))]
    shared = [j for j in range(len(axes)) if j not in running]
    cells = {j: cells_of(terms, j, axes[j]) for j in plain}
    for j in shared:
        if j not in sides:
            sides[j] = _evaluate_side(terms, j, axes[j], cells[j])
    flat, extent = flatten_axes([axes[j] for j in running])
    places, _ = flatten_axes([cells[j] for j in running])
    count = math.prod(extent)
    result = np.zeros((*(len(sides[j]) for j in shared), count))
    for begin in range(0, count, _BLOCK):
        block = slice(begin, min(begin + _BLOCK, count))
        numbers = [
            (x[block], j - len(terms.sizes)) for j, x in zip(running, flat, strict=True) if j >= len(terms.sizes)
        ]
        order, runs = group_rows(terms, running, [place[block] for place in places], block.stop - begin)
        for chosen, start, stop in runs:
            weight = combine_sides(terms, chosen, [sides[j] for j in shared])
            for part, values_of_part in _multiply_chunks(terms, chosen, weight, numbers, order, start, stop):
                result[..., block][..., part] = values_of_part
    shape = (*result.shape[:-1], *extent)
    dimensions = [*shared, *running] + ([len(axes)] if rows is not None else [])
    return result.reshape(shape).transpose(np.argsort(dimensions))


def combine_sides(terms: Terms, chosen: Codes, sides: Sequence[Values]) -> Values:
    """Return the product of some terms' coefficients and their factors on shared axes (points of each axis..., terms)."""
    weight = terms.coefficient[chosen].reshape((1,) * len(sides) + (len(chosen),))
    for i, side in enumerate(sides):
        shape = (1,) * i + (len(side),) + (1,) * (len(sides) - i - 1) + (len(chosen),)
        weight = weight * side[:, chosen].reshape(shape)
    return weight


def group_rows(
    terms: Terms, running: Sequence[int], places: Sequence[Codes], count: int
) -> tuple[Codes | None, list[tuple[Codes, int, int]]]:
    """Group rows by their cells in some columns.

    Returns
    -------
    order : ndarray or None
        The rows sorted by group; None if they are in order as they are.
    runs : list of (terms that hold there, start, stop); rows where none hold are left out
    """
    if not running:
        return None, [(np.arange(len(terms.owner)), 0, count)]
    dims = tuple(max(terms.dims[j], 1) for j in running)
    outside = math.prod(dims)
    key = np.ravel_multi_index(tuple(np.maximum(place, 0) for place in places), dims)
    for place in places:
        if (place < 0).any():
            key = np.where(place < 0, outside, key)
    order, runs = _sort_into_runs(key, outside)
    first, last = terms.spans
    found = []
    for where, start, stop in runs:
        if where == outside:
            continue
        holds = np.ones(len(terms.codes), dtype=bool)
        for j, cell in zip(running, np.unravel_index(where, dims), strict=True):
            holds &= (first[:, j] <= cell) & (cell < last[:, j])
        chosen = np.flatnonzero(holds[terms.owner])
        if len(chosen):
            found.append((chosen, start, stop))
    return order, found


def _multiply_chunks(
    terms: Terms, chosen: Codes, weight: Values, numbers: list[tuple[Values, int]], order: Codes | None, start: int, stop: int
) -> Iterator[tuple[Any, Values]]:  # fmt: skip
    """Yield the values of a run of rows, a chunk at a time."""
    rates = terms.rates[chosen][:, [j for _, j in numbers]]
    anchors = terms.anchors[chosen][:, [j for _, j in numbers]]
    moving = (rates != 0).any(axis=1)
    constant = weight[..., ~moving].sum(axis=-1)
    weight, rates, anchors = np.ascontiguousarray(weight[..., moving]), rates[moving], anchors[moving]
    columns = [(number, rates[:, i, None], anchors[:, i, None]) for i, (number, _) in enumerate(numbers)]
    columns = [column for column in columns if column[1].any()]
    for begin in range(start, stop, _CHUNK):
        end = min(begin + _CHUNK, stop)
        part: Any = slice(begin, end) if order is None else order[begin:end]
        if not len(rates):
            yield part, constant[..., None]
            continue
        exponent = _exponent_of(*columns[0], part)
        for column in columns[1:]:
            exponent += _exponent_of(*column, part)
        with np.errstate(under="ignore"):
            np.exp(exponent, out=exponent)
            yield part, weight @ exponent + constant[..., None]


def _exponent_of(number: Values, rate: Values, anchor: Values, part: Any) -> Values:
    result = number[part] - anchor
    result *= rate
    return np.asarray(result)


def flatten_axes(axes: list[NDArray[Any]]) -> tuple[list[NDArray[Any]], tuple[int, ...]]:
    """Make every axis as long as all combinations of their points (and the rows), which are then rows of their own."""
    if not axes:
        return [], ()
    if axes[0].ndim == 1:
        return [axes[0]], axes[0].shape
    extent = (*(axis.shape[0] for axis in axes), axes[0].shape[1])
    if all(axis.shape[0] == 1 for axis in axes):
        return [axis[0] for axis in axes], extent
    return [np.broadcast_to(axis, extent).reshape(-1) for axis in _broadcast_axes(axes)], extent


def _evaluate_side(terms: Terms, column: int, axis: NDArray[Any], cells: Codes) -> Values:
    """Return the factor of each term that belongs to one shared axis (points, terms); 0 outside the term's piece."""
    first, last = (span[terms.owner, column] for span in terms.spans)
    inside = (cells[:, None] >= first) & (cells[:, None] < last) & (cells[:, None] >= 0)
    j = column - len(terms.sizes)
    if j < 0 or not (terms.rates[:, j] != 0).any():
        return np.asarray(inside, dtype=float)
    rate, anchor = terms.rates[:, j], terms.anchors[:, j]
    with np.errstate(under="ignore"):
        return np.asarray(np.exp(np.where(inside, np.where(rate == 0, 0.0, rate * (axis[:, None] - anchor)), -np.inf)))


_NUMBERS = 1 << 16  # numbers in a temporary array
_ROWS, _GUESSES = 8192, 257
_STEPS = 200  # bisections that halve any bracket of floats to nothing are fewer


def integrate_cells(terms: Terms, parents: Sequence[NDArray[Any]], edges: Values, order: int, center: Values) -> Values:
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
        return _integrate_row_cells(terms, parents, edges, order, center)
    low, high, rate, anchor = _piece_ends(terms, column)
    lower, upper = edges[:-1, None], edges[1:, None]
    spread = center[:, None] if center.ndim else center
    side = segment_integrals(rate, anchor, np.maximum(lower, low), np.minimum(upper, high), order, spread)
    cells = side.shape[1]
    result = evaluate_by_products(terms, [*parents, edges], {last: side.reshape(-1, len(rate))})
    return np.moveaxis(result.reshape(*result.shape[:last], order + 1, cells, *result.shape[last + 1 :]), last, 0)


def _piece_ends(terms: Terms, column: int) -> tuple[Values, Values, Values, Values]:
    owner = terms.owner
    return terms.low[owner, column], terms.high[owner, column], terms.rates[:, column], terms.anchors[:, column]


def _integrate_row_cells(
    terms: Terms, parents: Sequence[NDArray[Any]], edges: Values, order: int, center: Values
) -> Values:
    """Integrate over cells that differ from row to row."""
    rows = edges.shape[1] if edges.ndim == 2 else center.shape[1]
    edges = np.broadcast_to(edges if edges.ndim == 2 else edges[:, None], (len(edges), rows))
    center = center if center.ndim == 2 else np.broadcast_to(center if center.ndim == 0 else center[:, None], (1, rows))
    column, count = len(terms.limits) - 1, len(edges) - 1
    extents = [len(axis) for axis in parents]
    # every combination of the parents' points and the row is a row of its own
    shape = (*extents, rows)
    flat = flatten_axes([axis if axis.ndim == 2 else np.repeat(axis[:, None], rows, axis=1) for axis in parents])[0]
    row = np.broadcast_to(np.arange(rows), shape).reshape(-1)
    result = np.zeros((order + 1, count, len(row)))
    places = [cells_of(terms, j, axis) for j, axis in enumerate(flat)]
    sequence, runs = group_rows(terms, list(range(len(flat))), places, len(row))
    for chosen, start, stop in runs:
        low, high, rate, anchor = (array[chosen, None, None] for array in _piece_ends(terms, column))
        step = max(1, _NUMBERS // (len(chosen) * count))
        for begin in range(start, stop, step):
            end = min(begin + step, stop)
            part = slice(begin, end) if sequence is None else sequence[begin:end]
            lower, upper = edges[:-1, row[part]], edges[1:, row[part]]
            integrals = segment_integrals(
                rate, anchor, np.maximum(lower, low), np.minimum(upper, high), order, center[:, row[part]]
            )
            factor = terms.coefficient[chosen, None] * _evaluate_parents_side(terms, chosen, flat, part)
            result[:, :, part] = np.einsum("ktcm,tm->kcm", integrals, factor)
    spread = result.reshape(order + 1, count, *shape)
    return np.moveaxis(spread, 1, -2)


def _evaluate_parents_side(terms: Terms, chosen: Codes, flat: Sequence[NDArray[Any]], part: Any) -> Values:
    """Return the factor of some terms that belongs to the parents' values (terms, rows)."""
    exponent: Any = 0.0
    for j, axis in enumerate(flat[len(terms.sizes) :]):
        rate, anchor = terms.rates[chosen, j, None], terms.anchors[chosen, j, None]
        if rate.any():
            exponent = exponent + np.where(rate == 0, 0.0, rate * (axis[part] - anchor))
    with np.errstate(under="ignore"):
        return np.broadcast_to(np.exp(exponent), (len(chosen), len(flat[0][part]) if flat else _count_rows(part)))


def _count_rows(part: Any) -> int:
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
    sequence, runs = group_rows(terms, list(range(len(parents))), places, len(uniforms))
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
        sides = [terms.coefficient[g, None] * _evaluate_parents_side(terms, g, parents, rows_of_sides) for g in groups]
        masses = np.stack(
            [_integrate_terms(terms, p, g, column) @ side for p, g, side in zip(pieces, groups, sides, strict=True)]
        )
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
                found[rows] = _invert_piece(
                    terms.rates[g, column], terms.anchors[g, column], sides[i][:, columns],
                    float(terms.low[p, column]), float(terms.high[p, column]), below, mass,
                )  # fmt: skip
        result[part] = found
    return result


def _integrate_terms(terms: Terms, piece: int, of_piece: Codes, column: int) -> Values:
    """Return the integral of each term's exponential along one column of its piece."""
    low, high = terms.low[piece, column], terms.high[piece, column]
    return decay_integral(np.abs(terms.rates[of_piece, column]), high - low)


def _invert_piece(
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
        curve = _PieceIntegral(rates, anchors, low, high, upward)
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
            result[rows[part]] = _solve_by_newton(curve, factor, start[part], target[part], (bottom, top), end)
    return result


class _PieceIntegral:
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


def _solve_by_newton(
    curve: _PieceIntegral, factor: Values, z: Values, target: Values, bracket: tuple[float, float], end: float
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
