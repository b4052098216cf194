"""Sums of Gaussian kernels at the points themselves by way of a lattice, for many bandwidths at once.

A Gaussian kernel is the convolution of two narrower ones, and the trapezoidal rule does that integral on a lattice of step
d with a relative error of about 2 exp(-2 pi**2 s**2 / d**2), the integrand being itself a Gaussian of standard deviation
s. So the points are spread onto a lattice by one kernel, once for all bandwidths, and collected from it by another. All
terms are positive and the error is relative for every pair of points, which is what leaving one point out needs: cosine
series and polynomials, whose error is relative to the largest sum, lose the sums of lonely points.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hybridbn.variables import Codes, Values

__all__ = ["REACH", "Cells", "cells_of", "lattice_sums"]

REACH = 9.0
"""Pairs farther apart than this many bandwidths may be missing from the sums."""
STEP = 0.4
"""Step of the lattice in units of the least bandwidth: a relative error of 1e-13."""
WIDTH = 7.2
"""How many standard deviations of the product of two kernels the lattice has to cover: 1e-12 of the farthest pairs."""
CELL, TILE = 16, 32
"""Steps of a cell, whose points are one matrix product; cells of a tile, whose lattice stays in cache."""
AT_ONCE = 1024
"""Most points of one matrix product."""


class Side(NamedTuple):
    """How one variable is spread and collected."""

    step: float
    spread: float
    """Standard deviation of the kernel that spreads."""
    collect: Values
    """Standard deviations of the kernels that collect, one for each bandwidth."""
    spread_nodes: int
    """How many nodes to either side of its cell a point is spread to."""
    collect_nodes: tuple[int, ...]
    """And collected from, for each bandwidth."""
    factors: Values
    """What turns each bandwidth's sum over nodes into the sum of kernels."""


class Cells(NamedTuple):
    """Points sorted by the cell they are in."""

    sides: tuple[Side, ...]
    order: Codes
    cells: Codes
    """The number of each cell that isn't empty, one column a variable."""
    starts: Codes
    """Where the points of each cell start in `order`, and the number of points."""


def cells_of(points: Values, widths: Sequence[Values]) -> Cells:
    """Lay cells for these bandwidths, an increasing array of them for each variable."""
    sides = tuple(_side(h) for h in widths)
    where = np.stack([np.floor(points[:, j] / (side.step * CELL)) for j, side in enumerate(sides)], axis=1)
    where = where.astype(np.intp)
    order = np.lexsort(where.T[::-1])
    ordered = where[order]
    changes = np.flatnonzero((ordered[1:] != ordered[:-1]).any(axis=1)) + 1
    starts = np.r_[0, changes]
    return Cells(sides, order, ordered[starts], np.r_[starts, len(points)])


def lattice_sums(points: Values, weights: Values, lattice: Cells) -> Iterator[tuple[Codes, Values]]:
    """Yield rows and the sum of all kernels at each of them, its own included: (rows, bandwidths of each variable).

    Parameters
    ----------
    points : ndarray (points, 1 or 2)
    weights : ndarray (points,)
    lattice : Cells
        What `cells_of` returned for these points.
    """
    sides, _, cells, _ = lattice
    local = points - np.repeat(cells, np.diff(lattice.starts), axis=0)[np.argsort(lattice.order)] * [
        side.step * CELL for side in sides
    ]
    tiles, owner = np.unique(cells // TILE, axis=0, return_inverse=True)
    reaches = [-(-(side.spread_nodes + side.collect_nodes[-1]) // CELL) + 1 for side in sides]
    for number, tile in enumerate(tiles):
        near = np.ones(len(cells), dtype=bool)
        for j, reach in enumerate(reaches):
            near &= (cells[:, j] >= tile[j] * TILE - reach) & (cells[:, j] < (tile[j] + 1) * TILE + reach)
        # the lattice reaches just so far that what any of these cells is spread to is on it
        first = cells[near].min(axis=0) * CELL - [max(s.spread_nodes, s.collect_nodes[-1]) for s in sides]
        last = (cells[near].max(axis=0) + 1) * CELL + [max(s.spread_nodes, s.collect_nodes[-1]) for s in sides]
        values = np.zeros(last - first + 1)
        for cell in np.flatnonzero(near):
            corner = cells[cell] * CELL - first
            for rows in _blocks(lattice, cell):
                _spread(values, corner, sides, local[rows], weights[rows])
        for cell in np.flatnonzero(owner.ravel() == number):
            corner = cells[cell] * CELL - first
            for rows in _blocks(lattice, cell):
                yield rows, _collect(values, corner, sides, local[rows])


def _side(widths: Values) -> Side:
    least = float(widths[0])
    spread = least / math.sqrt(2)
    collect = np.sqrt(widths**2 - spread**2)
    step = STEP * least
    # a pair REACH * h apart meets at a share of its distance, with the standard deviation of the product of the kernels
    both = WIDTH * spread * collect / widths
    spread_nodes = math.ceil(float((REACH * spread**2 / widths + both).max()) / step)
    collect_nodes = tuple(np.ceil((REACH * collect**2 / widths + both) / step).astype(int).tolist())
    return Side(
        step, spread, collect, spread_nodes, collect_nodes, step * widths / (spread * collect) / math.sqrt(2 * math.pi)
    )


def _blocks(lattice: Cells, cell: Any) -> Iterator[Codes]:
    start, stop = lattice.starts[cell], lattice.starts[cell + 1]
    for first in range(start, stop, AT_ONCE):
        yield lattice.order[first : min(first + AT_ONCE, stop)]


def _bells(local: Values, step: float, reach: int, width: float) -> Values:
    """Return the kernel between each node around a cell and each of its points, (nodes, points)."""
    nodes = np.arange(-reach, CELL + reach + 1) * (step / width)
    z = nodes[:, None] - local / width
    return np.asarray(np.exp(-0.5 * z * z))


def _spread(values: Values, corner: NDArray[Any], sides: tuple[Side, ...], local: Values, weights: Values) -> None:
    slices = tuple(
        slice(start - side.spread_nodes, start + CELL + side.spread_nodes + 1)
        for start, side in zip(corner.tolist(), sides, strict=True)
    )
    bells = [_bells(local[:, j], side.step, side.spread_nodes, side.spread) for j, side in enumerate(sides)]
    if len(sides) == 1:
        values[slices] += bells[0] @ weights
    else:
        values[slices] += (bells[0] * weights) @ bells[1].T


def _collect(values: Values, corner: NDArray[Any], sides: tuple[Side, ...], local: Values) -> Values:
    last, side = len(sides) - 1, sides[-1]
    if last:
        first = sides[0]
        most = first.collect_nodes[-1]
        values = values[corner[0] - most : corner[0] + CELL + most + 1]
    sums = []
    for width, reach in zip(side.collect, side.collect_nodes, strict=True):
        near = values[..., corner[last] - reach : corner[last] + CELL + reach + 1]
        bells = _bells(local[:, last], side.step, reach, float(width))
        # one variable: (points,); two: (nodes of the first, points)
        sums.append(np.einsum("k,kp->p", near, bells) if not last else near @ bells)
    if not last:
        return np.stack(sums, axis=1) * side.factors
    inner = np.stack(sums)
    result = np.empty((len(local), len(first.collect), len(sums)))
    for a, (width, reach) in enumerate(zip(first.collect, first.collect_nodes, strict=True)):
        bells = _bells(local[:, 0], first.step, reach, float(width))
        rows = slice(most - reach, most + CELL + reach + 1)
        result[:, a] = np.einsum("kp,bkp->pb", bells, inner[:, rows])
    return result * first.factors[:, None] * side.factors
