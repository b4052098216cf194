"""Sums of Gaussian kernels at many places by way of a lattice, for several bandwidths at once.

A Gaussian kernel is the convolution of two narrower ones, and the trapezoidal rule does that integral on a lattice of step
d with a relative error of about 2 exp(-2 pi**2 s**2 / d**2), the integrand being itself a Gaussian of standard deviation
s. So the points are spread onto a lattice by one kernel, once for all bandwidths, and collected from it by another. All
terms are positive and the error is relative for every pair, which is what sums in the tails and leaving one point out need:
Fourier series and polynomials, whose error is relative to the largest sum, lose them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hybridbn.variables import Codes, Values

__all__ = ["sum_on_lattice"]

STEP = 0.4
"""Step of the lattice in units of the least bandwidth: a relative error of 1e-13."""
COVERED = 7.2
"""How many standard deviations of the product of two kernels the lattice has to cover: 1e-12 of the farthest pairs."""
CELL, TILE = 16, 32
"""Steps of a cell, whose points are one matrix product; cells of a tile, whose lattice stays in cache."""
AT_ONCE = 1024
"""Most points of one matrix product."""
FEWEST_TARGETS = 3
"""Cells with fewer places aren't worth a matrix product."""


class LatticeAxis(NamedTuple):
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


class LatticeCells(NamedTuple):
    """Places sorted by the cell they are in."""

    order: Codes
    cells: Codes
    """The number of each cell that isn't empty, one column a variable."""
    starts: Codes
    """Where the places of each cell start in `order`, and the number of places."""
    local: Values
    """Coordinates within the cell."""

    def blocks(self, cell: int) -> Iterator[Codes]:
        """Yield the rows of a cell."""
        start, stop = int(self.starts[cell]), int(self.starts[cell + 1])
        for first in range(start, stop, AT_ONCE):
            yield self.order[first : min(first + AT_ONCE, stop)]


def sum_on_lattice(
    points: Values, weights: Values, widths: Sequence[Values], reach: float, places: Values | None = None
) -> Iterator[tuple[Codes, Values]]:
    """Yield rows of places and the sums of all kernels there, (rows, bandwidths of each variable).

    Rows may be left out where few places are near each other; the sum of kernels without their constant factors, so a
    point's own is its weight.

    Parameters
    ----------
    points : ndarray (points, 1 or 2)
        Less than a million bandwidths apart and from 0, or what is near each other gets the wrong distance.
    weights : ndarray (points,)
    widths : sequence of ndarray
        For each variable its bandwidths, increasing.
    reach : float
        Pairs farther apart than this many bandwidths may be missing from the sums.
    places : ndarray (places, 1 or 2), optional
        Where the sums are wanted, by default at the points.

    Examples
    --------
    >>> points, widths = np.array([[0.0], [1.0], [2.0]]), [np.array([1.0, 2.0])]
    >>> ((rows, sums),) = sum_on_lattice(points, np.ones(3), widths, reach=9)
    >>> rows, sums[1].round(4), np.round(1 + 2 * np.exp([-1 / 2, -1 / 8]), 4)
    (array([0, 1, 2]), array([2.2131, 2.765 ]), array([2.2131, 2.765 ]))
    """
    sides = tuple(_lay_axis(h, reach) for h in widths)
    sources = _sort_into_cells(points, sides)
    targets = sources if places is None else _sort_into_cells(places, sides)
    crowded = np.flatnonzero(np.diff(targets.starts) >= FEWEST_TARGETS)
    if not crowded.size:
        return
    tiles, owner = np.unique(targets.cells[crowded] // TILE, axis=0, return_inverse=True)
    reaches = [-(-(side.spread_nodes + side.collect_nodes[-1]) // CELL) + 1 for side in sides]
    margin = np.array([max(side.spread_nodes, side.collect_nodes[-1]) for side in sides])
    by_first = np.argsort(sources.cells[:, 0], kind="stable")
    firsts = sources.cells[by_first, 0]
    for number, tile in enumerate(tiles):
        low, high = tile * TILE - reaches, (tile + 1) * TILE + reaches
        near = by_first[np.searchsorted(firsts, low[0]) : np.searchsorted(firsts, high[0])]
        if len(sides) == 2:
            near = near[(sources.cells[near, 1] >= low[1]) & (sources.cells[near, 1] < high[1])]
        mine = crowded[owner.ravel() == number]
        # the lattice holds all nodes that any of these cells is spread to or collected from
        used = np.concatenate([sources.cells[near], targets.cells[mine]])
        first = used.min(axis=0) * CELL - margin
        values = np.zeros((used.max(axis=0) + 1) * CELL + margin - first + 1)
        for cell in near.tolist():
            corner = sources.cells[cell] * CELL - first
            for rows in sources.blocks(cell):
                _spread_weights(values, corner, sides, sources.local[rows], weights[rows])
        for cell in mine.tolist():
            corner = targets.cells[cell] * CELL - first
            for rows in targets.blocks(cell):
                yield rows, _collect_sums(values, corner, sides, targets.local[rows])


def _lay_axis(widths: Values, reach: float) -> LatticeAxis:
    least = float(widths[0])
    spread = least / math.sqrt(2)
    collect = np.sqrt(widths**2 - spread**2)
    # of so few digits that whole multiples are exact, and so are coordinates within a cell
    mantissa, exponent = math.frexp(STEP * least)
    step = math.ldexp(round(mantissa * 2**20), exponent - 20)
    # a pair reach * h apart meets at a share of its distance, with the standard deviation of the product of the kernels
    both = COVERED * spread * collect / widths
    spread_nodes = math.ceil(float((reach * spread**2 / widths + both).max()) / step)
    collect_nodes = tuple(np.ceil((reach * collect**2 / widths + both) / step).astype(int).tolist())
    factors = step * widths / (spread * collect) / math.sqrt(2 * math.pi)
    return LatticeAxis(step, spread, collect, spread_nodes, collect_nodes, factors)


def _sort_into_cells(places: Values, sides: tuple[LatticeAxis, ...]) -> LatticeCells:
    size = np.array([side.step * CELL for side in sides])
    where = np.floor(places / size)
    local = places - where * size
    where = where.astype(np.intp)
    order = np.lexsort(where.T[::-1])
    ordered = where[order]
    starts = np.r_[0, np.flatnonzero((ordered[1:] != ordered[:-1]).any(axis=1)) + 1]
    return LatticeCells(order, ordered[starts], np.r_[starts, len(places)], local)


def _evaluate_kernels(local: Values, step: float, reach: int, width: float) -> Values:
    """Return the kernel between each node around a cell and each of its points, (nodes, points)."""
    nodes = np.arange(-reach, CELL + reach + 1) * (step / width)
    z = nodes[:, None] - local / width
    return np.asarray(np.exp(-0.5 * z * z))


def _spread_weights(
    values: Values, corner: NDArray[Any], sides: tuple[LatticeAxis, ...], local: Values, weights: Values
) -> None:
    slices = tuple(
        slice(start - side.spread_nodes, start + CELL + side.spread_nodes + 1)
        for start, side in zip(corner.tolist(), sides, strict=True)
    )
    bells = [_evaluate_kernels(local[:, j], side.step, side.spread_nodes, side.spread) for j, side in enumerate(sides)]
    if len(sides) == 1:
        values[slices] += bells[0] @ weights
    else:
        values[slices] += (bells[0] * weights) @ bells[1].T


def _collect_sums(values: Values, corner: NDArray[Any], sides: tuple[LatticeAxis, ...], local: Values) -> Values:
    last = len(sides) - 1
    side = sides[last]
    most = sides[0].collect_nodes[-1]
    if last:
        values = values[corner[0] - most : corner[0] + CELL + most + 1]
    sums = []
    for width, reach in zip(side.collect.tolist(), side.collect_nodes, strict=True):
        near = values[..., corner[last] - reach : corner[last] + CELL + reach + 1]
        # one variable: (points,); two: (nodes of the first, points)
        sums.append(near @ _evaluate_kernels(local[:, last], side.step, reach, width))
    if not last:
        return np.stack(sums, axis=1) * side.factors
    inner, first = np.stack(sums), sides[0]
    result = np.empty((len(local), len(first.collect), len(sums)))
    for a, (width, reach) in enumerate(zip(first.collect.tolist(), first.collect_nodes, strict=True)):
        bells = _evaluate_kernels(local[:, 0], first.step, reach, width)
        result[:, a] = np.einsum("kp,bkp->pb", bells, inner[:, most - reach : most + CELL + reach + 1])
    return result * first.factors[:, None] * side.factors
