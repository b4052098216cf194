"""Values, integrals and quantiles of exponential sums for many rows at once.

Rows are grouped by the cell they are in; the terms that hold there are evaluated for the whole group by a matrix
product.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hybridbn.potentials.base import spread, take_logs
from hybridbn.potentials.mte.terms import Terms, integrate_decay, integrate_segments
from hybridbn.variables import Codes, Values, slice_blocks

_BLOCK = 16384
"""Rows are grouped this many at a time, which bounds temporary arrays."""
_CHUNK = 4096
"""Columns of a matrix product; a few exponentials for each of them stay in the cache."""
_SMALL = 4096
"""Up to this many values are looked up one by one, because grouping them would take longer."""


def evaluate(terms: Terms, axes: Sequence[NDArray[Any]]) -> Values:
    """Evaluate on axes, one for each column (discrete columns first), shared or per row.

    Returns
    -------
    ndarray, one dimension for each column, and the rows last where an axis is per row
    """
    shape = np.broadcast_shapes(*(axis.shape for axis in _broadcast_axes(axes))) if axes else ()
    if math.prod(shape) <= _SMALL:
        exponents, has_piece = _look_up_terms(terms, axes, shape)
        result = np.zeros(shape)
        for exponent, coefficient in exponents:
            result += coefficient * np.exp(exponent)
        return np.where(has_piece, np.maximum(result, 0.0), 0.0)
    result = evaluate_by_products(terms, axes)
    return np.maximum(result, 0.0, out=result)


def evaluate_log(terms: Terms, axes: Sequence[NDArray[Any]]) -> Values:
    """Evaluate the logarithm, also where the values themselves would underflow."""
    shape = np.broadcast_shapes(*(axis.shape for axis in _broadcast_axes(axes))) if axes else ()
    exponents, has_piece = _look_up_terms(terms, axes, shape)
    top = np.full(shape, -np.inf)
    for exponent, coefficient in exponents:
        np.maximum(top, np.where(coefficient == 0, -np.inf, exponent), out=top)
    top = np.where(np.isfinite(top), top, 0.0)
    result = np.zeros(shape)
    for exponent, coefficient in exponents:
        result += np.where(coefficient == 0, 0.0, coefficient * np.exp(np.minimum(exponent - top, 0.0)))
    return np.where(has_piece, take_logs(np.maximum(result, 0.0)) + top, -np.inf)


def _broadcast_axes(axes: Sequence[NDArray[Any]]) -> list[NDArray[Any]]:
    return spread(dict(enumerate(axes)), range(len(axes)))


def _look_up_terms(terms: Terms, axes: Sequence[NDArray[Any]], shape: tuple[int, ...]) -> tuple[Any, NDArray[np.bool_]]:
    """Return exponents and coefficients of the first, second ... term of every point's piece, and where there is a
    piece.
    """
    cells = _broadcast_axes([terms.find_cells(j, axis) for j, axis in enumerate(axes)])
    inside = np.ones(shape, dtype=bool)
    for cell in cells:
        inside = inside & (cell >= 0)
    pieces = np.full(shape, -1, dtype=np.intp)
    if terms.table.size:
        pieces = np.where(inside, terms.table[tuple(cells)], -1)
    has_piece = pieces >= 0
    numbers = _broadcast_axes(axes)[len(terms.sizes) :]
    counts = np.diff(terms.starts)
    most = int(counts[np.unique(pieces[has_piece])].max(initial=0))
    exponents = []
    for k in range(most):
        has_term = has_piece & (counts[pieces] > k) if len(counts) else has_piece
        term = np.where(has_term, terms.starts[pieces] + k, 0)
        exponent = np.zeros(shape)
        for j, number in enumerate(numbers):
            rate = terms.rates[term, j]
            # far out, a steep decay leaves the range of floats
            with np.errstate(over="ignore", invalid="ignore"):
                exponent += np.where(has_term & (rate != 0), rate * (number - terms.anchors[term, j]), 0.0)
        exponents.append((exponent, np.where(has_term, terms.coefficient[term], 0.0)))
    return exponents, has_piece


def _sort_into_runs(key: Codes, most: int) -> tuple[Codes | None, list[tuple[int, int, int]]]:
    """Return the order of rows by key (None if all keys are equal), and (key, start, stop) of each run in that
    order.
    """
    if (key == key[:1]).all():
        return None, [(int(number), 0, len(key)) for number in key[:1]]
    # the radix sort for 16 bits is ten times faster than others
    order = np.argsort(key.astype(np.uint16) if most < 65535 else key, kind="stable")
    ordered = key[order]
    bounds = [0, *(np.flatnonzero(np.diff(ordered)) + 1).tolist(), len(key)]
    return order, [(int(ordered[a]), a, b) for a, b in itertools.pairwise(bounds)]


def evaluate_by_products(
    terms: Terms, axes: Sequence[NDArray[Any]], sides: Mapping[int, Values] | None = None
) -> Values:
    """Evaluate by matrix products: the factor of each term on the shared axes times its factor on the axes per row.

    Parameters
    ----------
    axes : one axis for each column; ignored for the columns in `sides`
    sides : mapping from columns to factors that are known: of each term at each point of the axis (points, terms)
    """
    sides = dict(sides or {})
    unknown = [j for j in range(len(axes)) if j not in sides]
    running = [j for j in unknown if axes[j].ndim == 2]
    rows = axes[running[0]].shape[1] if running else None
    if rows is None and unknown:  # no rows: the longest axis takes their place
        running = [max(unknown, key=lambda j: (len(axes[j]), j))]
    shared = [j for j in range(len(axes)) if j not in running]
    cells = {j: terms.find_cells(j, axes[j]) for j in unknown}
    for j in shared:
        if j not in sides:
            sides[j] = _evaluate_side(terms, j, axes[j], cells[j])
    flat, extent = flatten_axes([axes[j] for j in running])
    flat_cells, _ = flatten_axes([cells[j] for j in running])
    count = math.prod(extent)
    result = np.zeros((*(len(sides[j]) for j in shared), count))
    for block in slice_blocks(count, _BLOCK):
        numbers = [
            (x[block], j - len(terms.sizes)) for j, x in zip(running, flat, strict=True) if j >= len(terms.sizes)
        ]
        order, runs = group_rows(
            terms, running, [cells_along[block] for cells_along in flat_cells], block.stop - block.start
        )
        for chosen, start, stop in runs:
            weight = combine_sides(terms, chosen, [sides[j] for j in shared])
            for chunk, chunk_values in _multiply_chunks(terms, chosen, weight, numbers, order, start, stop):
                result[..., block][..., chunk] = chunk_values
    shape = (*result.shape[:-1], *extent)
    dimensions = [*shared, *running] + ([len(axes)] if rows is not None else [])
    return result.reshape(shape).transpose(np.argsort(dimensions))


def combine_sides(terms: Terms, chosen: Codes, sides: Sequence[Values]) -> Values:
    """Multiply some terms' coefficients by their factors on the shared axes (points of each axis..., terms)."""
    weight = terms.coefficient[chosen].reshape((1,) * len(sides) + (len(chosen),))
    for i, side in enumerate(sides):
        shape = (1,) * i + (len(side),) + (1,) * (len(sides) - i - 1) + (len(chosen),)
        weight = weight * side[:, chosen].reshape(shape)
    return weight


def group_rows(
    terms: Terms, running: Sequence[int], cells_by_column: Sequence[Codes], count: int
) -> tuple[Codes | None, list[tuple[Codes, int, int]]]:
    """Group rows by their cells in some columns.

    Returns
    -------
    order : ndarray or None
        The rows sorted by group; None if they are in order.
    runs : list of (terms that hold there, start, stop); rows without terms are left out
    """
    if not running:
        return None, [(np.arange(len(terms.owner)), 0, count)]
    dims = tuple(max(terms.dims[j], 1) for j in running)
    outside = math.prod(dims)
    key = np.ravel_multi_index(tuple(np.maximum(cells_along, 0) for cells_along in cells_by_column), dims)
    for cells_along in cells_by_column:
        key = np.where(cells_along < 0, outside, key)
    order, runs = _sort_into_runs(key, outside)
    first, last = terms.spans
    runs_with_terms = []
    for cell_number, start, stop in runs:
        if cell_number == outside:
            continue
        holds_there = np.ones(len(terms.codes), dtype=bool)
        for j, cell in zip(running, np.unravel_index(cell_number, dims), strict=True):
            holds_there &= (first[:, j] <= cell) & (cell < last[:, j])
        chosen = np.flatnonzero(holds_there[terms.owner])
        if len(chosen):
            runs_with_terms.append((chosen, start, stop))
    return order, runs_with_terms


def _multiply_chunks(
    terms: Terms,
    chosen: Codes,
    weight: Values,
    numbers: list[tuple[Values, int]],
    order: Codes | None,
    start: int,
    stop: int,
) -> Iterator[tuple[Any, Values]]:
    """Yield the values of a run of rows, a chunk at a time."""
    rates = terms.rates[chosen][:, [j for _, j in numbers]]
    anchors = terms.anchors[chosen][:, [j for _, j in numbers]]
    moving = (rates != 0).any(axis=1)
    constant = weight[..., ~moving].sum(axis=-1)
    weight, rates, anchors = np.ascontiguousarray(weight[..., moving]), rates[moving], anchors[moving]
    columns = [(number, rates[:, i, None], anchors[:, i, None]) for i, (number, _) in enumerate(numbers)]
    columns = [column for column in columns if column[1].any()]
    for part in slice_blocks(stop, _CHUNK, start):
        chunk: Any = part if order is None else order[part]
        if not len(rates):
            yield chunk, constant[..., None]
            continue
        exponent = _exponent_of(*columns[0], chunk)
        for column in columns[1:]:
            exponent += _exponent_of(*column, chunk)
        np.exp(exponent, out=exponent)
        yield chunk, weight @ exponent + constant[..., None]


def _exponent_of(number: Values, rate: Values, anchor: Values, chunk: Any) -> Values:
    result = number[chunk] - anchor
    result *= rate
    return np.asarray(result)


def flatten_axes(axes: list[NDArray[Any]]) -> tuple[list[NDArray[Any]], tuple[int, ...]]:
    """Return axes over all combinations of their points and the rows, flattened to one dimension, and the extents."""
    if not axes:
        return [], ()
    if axes[0].ndim == 1:
        return [axes[0]], axes[0].shape
    extent = (*(axis.shape[0] for axis in axes), axes[0].shape[1])
    return [np.broadcast_to(axis, extent).reshape(-1) for axis in _broadcast_axes(axes)], extent


def _evaluate_side(terms: Terms, column: int, axis: NDArray[Any], cells: Codes) -> Values:
    """Return the factor of each term on one shared axis (points, terms); 0 outside the term's piece."""
    first, last = (span[terms.owner, column] for span in terms.spans)
    inside = (cells[:, None] >= first) & (cells[:, None] < last) & (cells[:, None] >= 0)
    j = column - len(terms.sizes)
    if j < 0 or not (terms.rates[:, j] != 0).any():
        return np.asarray(inside, dtype=float)
    rate, anchor = terms.rates[:, j], terms.anchors[:, j]
    return np.asarray(np.exp(np.where(inside, np.where(rate == 0, 0.0, rate * (axis[:, None] - anchor)), -np.inf)))


_NUMBERS = 1 << 16
"""Temporary arrays of integrals that differ by row have about this many numbers."""
_ROWS, _GUESSES = 8192, 257
"""Rows that are inverted at a time, and points of the table that gives first guesses."""
_STEPS = 200
"""Largest number of Newton steps; fewer bisections shrink any bracket of floats to neighboring ones."""


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
    about = center[:, None] if center.ndim else center
    side = integrate_segments(rate, anchor, np.maximum(lower, low), np.minimum(upper, high), order, about)
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
    flat_cells = [terms.find_cells(j, axis) for j, axis in enumerate(flat)]
    sequence, runs = group_rows(terms, list(range(len(flat))), flat_cells, len(row))
    for chosen, start, stop in runs:
        low, high, rate, anchor = (array[chosen, None, None] for array in _piece_ends(terms, column))
        step = max(1, _NUMBERS // (len(chosen) * count))
        for part in slice_blocks(stop, step, start):
            chunk = part if sequence is None else sequence[part]
            lower, upper = edges[:-1, row[chunk]], edges[1:, row[chunk]]
            integrals = integrate_segments(
                rate, anchor, np.maximum(lower, low), np.minimum(upper, high), order, center[:, row[chunk]]
            )
            factor = terms.coefficient[chosen, None] * _evaluate_parents_side(terms, chosen, flat, chunk)
            result[:, :, chunk] = np.einsum("ktcm,tm->kcm", integrals, factor)
    return np.moveaxis(result.reshape(order + 1, count, *shape), 1, -2)


def _evaluate_parents_side(terms: Terms, chosen: Codes, flat: Sequence[NDArray[Any]], chunk: Any) -> Values:
    """Return the factor of some terms at the parents' values (terms, rows or 1)."""
    exponent: Any = 0.0
    for j, axis in enumerate(flat[len(terms.sizes) :]):
        rate, anchor = terms.rates[chosen, j, None], terms.anchors[chosen, j, None]
        if rate.any():
            exponent = exponent + np.where(rate == 0, 0.0, rate * (axis[chunk] - anchor))
    return np.broadcast_to(np.exp(exponent), (len(chosen), len(flat[0][chunk]) if flat else 1))


# -- inverse distribution functions -------------------------------------------------------------------------------


def inverse_cdf(terms: Terms, uniforms: Values, parents: Sequence[NDArray[Any]]) -> Values:
    """Return where the distribution function of the last column reaches a given probability, for each row.

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
    flat_cells = [terms.find_cells(j, axis) for j, axis in enumerate(parents)]
    sequence, runs = group_rows(terms, list(range(len(parents))), flat_cells, len(uniforms))
    for chosen, start, stop in runs:
        run = slice(start, stop) if sequence is None else sequence[start:stop]
        pieces = np.unique(terms.owner[chosen])
        pieces = pieces[np.argsort(terms.low[pieces, column])]
        groups = [np.arange(terms.starts[p], terms.starts[p + 1]) for p in pieces]
        # if no exponent mentions a parent, one column of coefficients serves all rows
        alike = not terms.rates[chosen, :column].any()
        side_rows = (slice(start, start + 1) if sequence is None else sequence[start : start + 1]) if alike else run
        sides = [terms.coefficient[g, None] * _evaluate_parents_side(terms, g, parents, side_rows) for g in groups]
        widths = terms.high[pieces, column] - terms.low[pieces, column]
        decays = [
            integrate_decay(np.abs(terms.rates[g, column]), width) for g, width in zip(groups, widths, strict=True)
        ]
        masses = np.maximum(np.stack([decay @ side for decay, side in zip(decays, sides, strict=True)]), 0.0)
        cumulative = np.cumsum(masses, axis=0)
        target = uniforms[run] * cumulative[-1]
        target_piece = (
            np.searchsorted(cumulative[:, 0], target, side="right") if alike else (target >= cumulative).sum(axis=0)
        )
        target_piece = np.minimum(
            target_piece, len(masses) - 1 - np.argmax(masses[::-1] > 0, axis=0)
        )  # the last piece with mass
        quantiles = np.full(len(target), np.nan)
        for i in np.flatnonzero((masses > 0).any(axis=1)):
            rows = np.flatnonzero((target_piece == i) & (masses[i] > 0))
            if len(rows):
                columns = np.zeros(1, dtype=np.intp) if alike else rows
                mass = masses[i, columns]
                below = np.clip(target[rows] - (cumulative[i, columns] - mass), 0.0, mass)
                g, p = groups[i], pieces[i]
                quantiles[rows] = _invert_piece(
                    terms.rates[g, column],
                    terms.anchors[g, column],
                    sides[i][:, columns],
                    float(terms.low[p, column]),
                    float(terms.high[p, column]),
                    below,
                    mass,
                )
        result[run] = quantiles
    return result


def _invert_piece(
    rates: Values, anchors: Values, factors: Values, low: float, high: float, below: Values, mass: Values
) -> Values:
    """Solve ``integral from low to z = below`` for every row by bracketed Newton steps on logarithms.

    The equation is written from the nearer end of the piece, and in logarithms, because there distribution functions
    are nearly straight lines: a handful of steps reaches full precision, and tails are as accurate as the middle.
    """
    reach = 800.0 / np.abs(rates[rates != 0]).min() if (rates != 0).any() else 0.0
    bottom, top = (low if math.isfinite(low) else high - reach), (high if math.isfinite(high) else low + reach)
    alike = factors.shape[1] == 1  # one first guess serves all rows
    from_low = below <= 0.5 * mass
    result = np.where(from_low, bottom, top)
    for upward in (True, False):
        rest = below if upward else mass - below
        rows = np.flatnonzero((from_low == upward) & (rest > 0))
        target = rest[rows]
        integrate = partial(_integrate_from_end, rates[:, None], anchors[:, None], low, high, upward)
        if alike and len(rows) > 4 * _GUESSES:
            guesses = bottom + (top - bottom) * (0.5 - 0.5 * np.cos(np.linspace(0.0, math.pi, _GUESSES)))
            masses = integrate(factors, guesses)[0]
            start = np.interp(target, masses if upward else masses[::-1], guesses if upward else guesses[::-1])
        elif math.isinf(low) or math.isinf(high):  # the mean of one exponential of mean rate
            scale = 1.0 / np.abs(rates[rates != 0]).mean()
            start = np.full(len(rows), top - scale if math.isinf(low) else bottom + scale)
        else:
            start = np.full(len(rows), 0.5 * (bottom + top))
        for chunk in slice_blocks(len(rows), _ROWS):
            own = factors if alike else factors[:, rows[chunk]]
            sign = 1.0 if upward else -1.0
            result[rows[chunk]] = _solve_by_newton(integrate, own, start[chunk], target[chunk], (bottom, top), sign)
    return result


def _integrate_from_end(
    rate: Values, anchor: Values, low: float, high: float, upward: bool, factor: Values, z: Values
) -> tuple[Values, Values, Values]:
    """Return the integrals from the lower end of a piece to z, or from z to its upper end, the sums of their terms'
    absolute values, and the densities there.
    """
    wave = np.exp(np.where(rate == 0, 0.0, rate * (z - anchor)))
    widths = integrate_decay(np.abs(rate), z - low if upward else high - z)
    # measured from z or from the anchor, whichever is the end where the exponential is larger
    shares = np.where(rate > 0 if upward else rate < 0, wave, 1.0) * widths * factor
    return shares.sum(axis=0), np.abs(shares).sum(axis=0), (wave * factor).sum(axis=0)


def _solve_by_newton(
    integrate: Callable[[Values, Values], tuple[Values, Values, Values]],
    factor: Values,
    z: Values,
    target: Values,
    bracket: tuple[float, float],
    sign: float,
) -> Values:
    lower, upper = np.full(len(target), bracket[0]), np.full(len(target), bracket[1])
    active = np.arange(len(target))
    for _ in range(_STEPS):
        if not len(active):
            break
        x, goal = z[active], target[active]
        mass, magnitude, density = integrate(factor if factor.shape[1] == 1 else factor[:, active], x)
        beyond = sign * (mass - goal) > 0
        upper[active] = np.where(beyond, x, upper[active])
        lower[active] = np.where(beyond, lower[active], x)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            next_z = x - sign * np.log(mass / goal) * mass / density
        next_z = np.where(
            (next_z >= lower[active]) & (next_z <= upper[active]), next_z, 0.5 * (lower[active] + upper[active])
        )
        converged = np.abs(mass - goal) <= 2e-16 * magnitude  # more steps would follow rounding errors
        z[active] = np.where(converged, x, next_z)
        active = active[~(converged | (np.abs(next_z - x) <= 4e-16 * np.abs(next_z)))]
    return z
