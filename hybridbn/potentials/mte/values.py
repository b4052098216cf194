"""Values of exponential sums on axes, fast: rows are grouped by their cell, and a group is one matrix product."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hybridbn.potentials.mte.terms import Terms
from hybridbn.variables import Codes, Values

__all__ = ["cells_of", "contracted", "flattened", "joint_groups", "log_values", "values", "weights"]

_BLOCK = 16384  # rows that are grouped at a time
_CHUNK = 4096  # columns of a matrix product; a few exponentials of each stay in cache
_SMALL = 4096  # values that are quicker to look up one by one


def values(terms: Terms, axes: Sequence[NDArray[Any]]) -> Values:
    """Evaluate on axes, one for each column (discrete ones first), shared or per row.

    Returns
    -------
    ndarray, one dimension for each column, and the rows last where an axis is per row
    """
    shape = np.broadcast_shapes(*(axis.shape for axis in _spread(axes))) if axes else ()
    if math.prod(shape) <= _SMALL:
        exponents, found = _looked_up(terms, axes, shape)
        result = np.zeros(shape)
        with np.errstate(under="ignore"):
            for exponent, coefficient in exponents:
                result += coefficient * np.exp(exponent)
        return np.where(found, np.maximum(result, 0.0), 0.0)
    result = contracted(terms, axes)
    return np.maximum(result, 0.0, out=result)


def log_values(terms: Terms, axes: Sequence[NDArray[Any]]) -> Values:
    """Evaluate the logarithm, also where the values themselves would underflow."""
    shape = np.broadcast_shapes(*(axis.shape for axis in _spread(axes))) if axes else ()
    exponents, found = _looked_up(terms, axes, shape)
    top = np.full(shape, -np.inf)
    for exponent, coefficient in exponents:
        np.maximum(top, np.where(coefficient == 0, -np.inf, exponent), out=top)
    top = np.where(np.isfinite(top), top, 0.0)
    result = np.zeros(shape)
    with np.errstate(under="ignore", divide="ignore"):
        for exponent, coefficient in exponents:
            result += np.where(coefficient == 0, 0.0, coefficient * np.exp(np.minimum(exponent - top, 0.0)))
        return np.asarray(np.where(found, np.log(np.maximum(result, 0.0)) + top, -np.inf))


def _spread(axes: Sequence[NDArray[Any]]) -> list[NDArray[Any]]:
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


def _looked_up(terms: Terms, axes: Sequence[NDArray[Any]], shape: tuple[int, ...]) -> tuple[Any, NDArray[np.bool_]]:
    """Return exponents and coefficients of the first, second ... term of the piece of every point, and where there is one."""
    cells = _spread([cells_of(terms, j, axis) for j, axis in enumerate(axes)])
    inside = np.ones(shape, dtype=bool)
    for cell in cells:
        inside = inside & (cell >= 0)
    pieces = np.full(shape, -1, dtype=np.intp)
    if terms.table.size:
        pieces = np.where(inside, terms.table[tuple(cells)], -1)
    found = pieces >= 0
    numbers = _spread(axes)[len(terms.sizes) :]
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


def _sorted_runs(key: Codes, most: int) -> tuple[Codes | None, list[tuple[int, int, int]]]:
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


def contracted(terms: Terms, axes: Sequence[NDArray[Any]], sides: Mapping[int, Values] | None = None) -> Values:
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
            sides[j] = _side(terms, j, axes[j], cells[j])
    flat, extent = flattened([axes[j] for j in running])
    places, _ = flattened([cells[j] for j in running])
    count = math.prod(extent)
    result = np.zeros((*(len(sides[j]) for j in shared), count))
    for begin in range(0, count, _BLOCK):
        block = slice(begin, min(begin + _BLOCK, count))
        numbers = [
            (x[block], j - len(terms.sizes)) for j, x in zip(running, flat, strict=True) if j >= len(terms.sizes)
        ]
        order, runs = joint_groups(terms, running, [place[block] for place in places], block.stop - begin)
        for chosen, start, stop in runs:
            weight = weights(terms, chosen, [sides[j] for j in shared])
            for part, values_of_part in _products(terms, chosen, weight, numbers, order, start, stop):
                result[..., block][..., part] = values_of_part
    shape = (*result.shape[:-1], *extent)
    dimensions = [*shared, *running] + ([len(axes)] if rows is not None else [])
    return result.reshape(shape).transpose(np.argsort(dimensions))


def weights(terms: Terms, chosen: Codes, sides: Sequence[Values]) -> Values:
    """Return the product of some terms' coefficients and their factors on shared axes (points of each axis..., terms)."""
    weight = terms.coefficient[chosen].reshape((1,) * len(sides) + (len(chosen),))
    for i, side in enumerate(sides):
        shape = (1,) * i + (len(side),) + (1,) * (len(sides) - i - 1) + (len(chosen),)
        weight = weight * side[:, chosen].reshape(shape)
    return weight


def joint_groups(
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
    order, runs = _sorted_runs(key, outside)
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


def _products(
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
        exponent = _linear(*columns[0], part)
        for column in columns[1:]:
            exponent += _linear(*column, part)
        with np.errstate(under="ignore"):
            np.exp(exponent, out=exponent)
            yield part, weight @ exponent + constant[..., None]


def _linear(number: Values, rate: Values, anchor: Values, part: Any) -> Values:
    result = number[part] - anchor
    result *= rate
    return np.asarray(result)


def flattened(axes: list[NDArray[Any]]) -> tuple[list[NDArray[Any]], tuple[int, ...]]:
    """Make every axis as long as all combinations of their points (and the rows), which are then rows of their own."""
    if not axes:
        return [], ()
    if axes[0].ndim == 1:
        return [axes[0]], axes[0].shape
    extent = (*(axis.shape[0] for axis in axes), axes[0].shape[1])
    if all(axis.shape[0] == 1 for axis in axes):
        return [axis[0] for axis in axes], extent
    return [np.broadcast_to(axis, extent).reshape(-1) for axis in _spread(axes)], extent


def _side(terms: Terms, column: int, axis: NDArray[Any], cells: Codes) -> Values:
    """Return the factor of each term that belongs to one shared axis (points, terms); 0 outside the term's piece."""
    first, last = (span[terms.owner, column] for span in terms.spans)
    inside = (cells[:, None] >= first) & (cells[:, None] < last) & (cells[:, None] >= 0)
    j = column - len(terms.sizes)
    if j < 0 or not (terms.rates[:, j] != 0).any():
        return np.asarray(inside, dtype=float)
    rate, anchor = terms.rates[:, j], terms.anchors[:, j]
    with np.errstate(under="ignore"):
        return np.asarray(np.exp(np.where(inside, np.where(rate == 0, 0.0, rate * (axis[:, None] - anchor)), -np.inf)))
