"""Sums of Gaussian kernels: in logarithms, weighted by the parents, in bounded memory; at many targets on a lattice.

A Gaussian kernel is the convolution of two narrower ones, and the trapezoidal rule does that integral on a lattice of
step d with a relative error of about 2 exp(-2 pi**2 s**2 / d**2), the integrand being itself a Gaussian of standard
deviation s. So the points are spread onto a lattice by one kernel, once for all bandwidths, and the sums are collected
from it by another. All terms are positive and the error is relative for every pair, as needed for sums in the tails and
for leaving one point out; Fourier series and polynomials have errors relative to the largest sum, and lose these.
Logarithms of sums (`log_kernel_sums`) are found on a lattice where many kernels overlap, else over the nearest points.

The kernels of a conditional (`KernelMixture`) are computed in logarithms relative to the nearest points, so nothing
underflows to 0/0. Matrix products sum over the points; sums that may have lost terms to underflow are computed again in
logarithms.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import scipy
from numpy.typing import NDArray

from hybridbn.potentials.base import sum_logs, take_logs
from hybridbn.potentials.gaussian import LOG_ROOT_TWO_PI, invert_normals, log_normal_interval
from hybridbn.variables import Codes, Values, slice_blocks

STEP = 0.4
"""Step of the lattice in units of the smallest bandwidth, for a relative error of 1e-13."""
COVERED = 7.2
"""The lattice covers this many standard deviations of a product of two kernels, all but 1e-12 for the farthest pairs.
"""
CELL, TILE = 16, 32
"""Lattice steps in a cell, whose points are one matrix product, and cells in a tile, whose lattice stays in the cache.
"""
AT_ONCE = 1024
"""A matrix product has at most this many points."""
PRODUCT = 512
"""A matrix product for many columns of weights has at most this many points, so that it stays in the cache."""
LARGEST_EXPONENT = 1300.0
"""Kernels at many nodes are products of powers unless these might overflow."""
FEWEST_TARGETS = 3
"""Cells with fewer targets are left out, because a matrix product would not pay."""


class LatticeAxis(NamedTuple):
    """The lattice along one variable, and the kernels that spread points onto it and collect sums from it."""

    step: float
    spread: float
    """Standard deviation of the kernel that spreads."""
    collect: Values
    """Standard deviations of the kernels that collect, one for each bandwidth."""
    spread_nodes: int
    """Number of nodes on either side of its cell to which a point is spread."""
    collect_nodes: tuple[int, ...]
    """Number of nodes on either side from which a sum is collected, for each bandwidth."""
    factors: Values
    """Factor that turns each bandwidth's sum over nodes into the sum of kernels."""


class LatticeCells(NamedTuple):
    """Points sorted by the cell they are in."""

    order: Codes
    cells: Codes
    """The coordinates of each nonempty cell, one column for each variable."""
    starts: Codes
    """Start of each cell's points in `order`, then the number of points."""
    local: Values
    """Coordinates within the cell."""

    def blocks(self, cell: int) -> Iterator[Codes]:
        """Yield the rows of a cell."""
        start, stop = int(self.starts[cell]), int(self.starts[cell + 1])
        return (self.order[part] for part in slice_blocks(stop, AT_ONCE, start))


def sum_on_lattice(
    points: Values, weights: Values, widths: Sequence[Values], reach: float, targets: Values | None = None
) -> Iterator[tuple[Codes, Values]]:
    """Yield rows of targets and the sums of all kernels there, (rows, bandwidths of each variable).

    Rows may be left out where few targets are near each other. Kernels have no constant factors: a point adds its
    weight to the sum at its own position.

    Parameters
    ----------
    points : ndarray (points, 1 or 2)
        Less than a million bandwidths apart and from 0; beyond that, rounding changes the distances of near points.
    weights : ndarray (points,)
    widths : sequence of ndarray
        For each variable its bandwidths, increasing.
    reach : float
        Pairs farther apart than this many bandwidths may be missing from the sums.
    targets : ndarray (targets, 1 or 2), optional
        Where to evaluate the sums, by default at the points.

    Examples
    --------
    >>> points, widths = np.array([[0.0], [1.0], [2.0]]), [np.array([1.0, 2.0])]
    >>> ((rows, sums),) = sum_on_lattice(points, np.ones(3), widths, reach=9)
    >>> rows, sums[1].round(4), np.round(1 + 2 * np.exp([-1 / 2, -1 / 8]), 4)
    (array([0, 1, 2]), array([2.2131, 2.765 ]), array([2.2131, 2.765 ]))
    """
    sides = tuple(_lay_axis(h, reach) for h in widths)
    sources = _sort_into_cells(points, sides)
    wanted = sources if targets is None else _sort_into_cells(targets, sides)
    crowded = np.flatnonzero(np.diff(wanted.starts) >= FEWEST_TARGETS)
    if not crowded.size:
        return
    tiles, owner = np.unique(wanted.cells[crowded] // TILE, axis=0, return_inverse=True)
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
        used = np.concatenate([sources.cells[near], wanted.cells[mine]])
        first = used.min(axis=0) * CELL - margin
        values = np.zeros((used.max(axis=0) + 1) * CELL + margin - first + 1)
        for cell in near.tolist():
            corner = sources.cells[cell] * CELL - first
            for rows in sources.blocks(cell):
                _spread_weights(values, corner, sides, sources.local[rows], weights[rows])
        for cell in mine.tolist():
            corner = wanted.cells[cell] * CELL - first
            for rows in wanted.blocks(cell):
                yield rows, _collect_sums(values, corner, sides, wanted.local[rows])


def count_cells(points: Values, width: float) -> float:
    """Return how many cells of a lattice some points span.

    Examples
    --------
    >>> count_cells(np.array([0.0, 64.0]), 1.0)
    10.0
    """
    return float(np.ptp(points) / (width * STEP * CELL))


def sum_on_line(
    points: Values,
    width: float,
    reach: float,
    targets: Values,
    columns: int,
    weigh: Callable[[Codes], tuple[Codes, Values]],
    by: Values,
) -> Values:
    """Return the sums of kernels of one variable at all targets for many columns of weights, (columns, targets).

    Points are spread onto one lattice for each column, from which all targets are collected.

    Parameters
    ----------
    points : ndarray (points,)
        Less than a million bandwidths apart and from 0.
    width : float
    reach : float
        Pairs farther apart than this many bandwidths may be missing from the sums.
    targets : ndarray (targets,)
    columns : int
    weigh : callable
        Called with rows of points, returns the columns in which their weights are not zero, and these weights
        (points, columns).
    by : ndarray (points,)
        Points of about the same value are weighed together.

    Examples
    --------
    >>> points, targets = np.array([0.0, 1.0, 2.0]), np.array([1.0, 1.5])
    >>> weights = np.array([[1.0, 0.0], [1.0, 0.0], [1.0, 2.0]])
    >>> def weigh(rows):
    ...     return np.arange(2), weights[rows]
    >>> sum_on_line(points, 1.0, 9.0, targets, 2, weigh, points).round(4)
    array([[2.2131, 2.0896],
           [1.2131, 1.765 ]])
    >>> (np.exp(-0.5 * (targets - points[:, None]) ** 2).T @ weights).T.round(4)
    array([[2.2131, 2.0896],
           [1.2131, 1.765 ]])
    """
    side = _lay_axis(np.array([width]), reach)
    wanted, sources = (_sort_into_cells(places[:, None], (side,)) for places in (targets, points))
    spread_nodes = side.spread_nodes
    near = -(-(spread_nodes + side.collect_nodes[0]) // CELL) + 1
    low, high = int(wanted.cells[0, 0]) - near, int(wanted.cells[-1, 0]) + near
    first = low * CELL - spread_nodes
    values = np.zeros((columns, (high - low + 1) * CELL + 2 * spread_nodes + 1))
    for cell in np.flatnonzero((sources.cells[:, 0] >= low) & (sources.cells[:, 0] <= high)).tolist():
        rows = sources.order[sources.starts[cell] : sources.starts[cell + 1]]
        rows = rows[np.argsort(by[rows])] if len(rows) > PRODUCT else rows
        start = int(sources.cells[cell, 0]) * CELL - spread_nodes - first
        nodes = values[:, start : start + CELL + 2 * spread_nodes + 1]
        for block in slice_blocks(len(rows), PRODUCT):
            chosen, weights = weigh(rows[block])
            kernels = _evaluate_kernels(sources.local[rows[block], 0], side.step, spread_nodes, side.spread)
            nodes[chosen if len(chosen) < columns else slice(None)] += weights.T @ kernels.T
    sums = np.empty((columns, len(targets)))
    for cell, corner in enumerate(wanted.cells * CELL - first):
        for rows in wanted.blocks(cell):
            sums[:, rows] = _collect_sums(values, corner, (side,), wanted.local[rows])[..., 0]
    return sums


def _lay_axis(widths: Values, reach: float) -> LatticeAxis:
    least = float(widths[0])
    spread = least / math.sqrt(2)
    collect = np.sqrt(widths**2 - spread**2)
    # rounded to few digits, so that its multiples and coordinates within a cell are exact
    mantissa, exponent = math.frexp(STEP * least)
    step = math.ldexp(round(mantissa * 2**20), exponent - 20)
    # the product of the kernels of a pair has its mean at a share of their distance, and this standard deviation
    both = COVERED * spread * collect / widths
    spread_nodes = math.ceil(float((reach * spread**2 / widths + both).max()) / step)
    collect_nodes = tuple(np.ceil((reach * collect**2 / widths + both) / step).astype(int).tolist())
    factors = step * widths / (spread * collect) / math.sqrt(2 * math.pi)
    return LatticeAxis(step, spread, collect, spread_nodes, collect_nodes, factors)


def _sort_into_cells(points: Values, sides: tuple[LatticeAxis, ...]) -> LatticeCells:
    size = np.array([side.step * CELL for side in sides])
    cell = np.floor(points / size)
    local = points - cell * size
    cell = cell.astype(np.intp)
    order = np.lexsort(cell.T[::-1])
    ordered = cell[order]
    starts = np.r_[0, np.flatnonzero((ordered[1:] != ordered[:-1]).any(axis=1)) + 1]
    return LatticeCells(order, ordered[starts], np.r_[starts, len(points)], local)


def _evaluate_kernels(local: Values, step: float, reach: int, width: float) -> Values:
    """Return the kernel between each node around a cell and each of its points, (nodes, points).

    The exponential of (node - point)**2 is the product of one for each node, one for each point, and the powers of a
    third one, which are products of a few.
    """
    # both are counted from the middle of the cell
    nodes = (np.arange(-reach, CELL + reach + 1) - CELL / 2) * (step / width)
    within = (local - step * CELL / 2) / width
    if nodes[-1] * max(nodes[-1], step * CELL / width) > LARGEST_EXPONENT:
        return np.asarray(np.exp(-0.5 * (nodes[:, None] - within) ** 2))
    strides = -(-len(nodes) // CELL)
    few = np.exp((np.arange(CELL) * (step / width))[:, None] * within)
    firsts = np.exp(nodes[::CELL, None] * within - 0.5 * within**2)
    kernels = (firsts[:, None] * few).reshape(strides * CELL, -1)[: len(nodes)]
    kernels *= np.exp(-0.5 * nodes**2)[:, None]
    return kernels


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
        # one variable: (..., points); two: (nodes of the first, points)
        sums.append(near @ _evaluate_kernels(local[:, last], side.step, reach, width))
    if not last:
        return np.stack(sums, axis=-1) * side.factors
    inner, first = np.stack(sums), sides[0]
    result = np.empty((len(local), len(first.collect), len(sums)))
    for a, (width, reach) in enumerate(zip(first.collect.tolist(), first.collect_nodes, strict=True)):
        bells = _evaluate_kernels(local[:, 0], first.step, reach, width)
        result[:, a] = np.einsum("kp,bkp->pb", bells, inner[:, most - reach : most + CELL + reach + 1])
    return result * first.factors[:, None] * side.factors


REACH = 14.0
"""Kernels are summed on the lattice up to this distance, in bandwidths; beyond it, few of the nearest points matter."""
DIGITS = 25.0
"""The terms that are left out of a sum are less than exp(-DIGITS) of it."""
FARTHEST = 1e6
"""Farther away, in bandwidths, squares of distances have no digits left for their differences."""
FIRST_NEIGHBORS = 16
"""The number of nearest points that are summed first; it is quadrupled until the rest is negligible."""

Exponents = Callable[[Any, Any], Values]


def log_kernel_sums(
    points: Values,
    widths: Values,
    log_weights: Values,
    targets: Values,
    exponents: Exponents,
    tops: Values,
    lattice: bool = True,
) -> Values:
    """Return the logarithm of the sum of kernels at each target.

    Kernels are summed on a lattice where many overlap, else over the nearest points. What is left out of a sum is less
    than 1e-10 of it by a bound, and neither time nor memory grows with the number of points times targets.

    Parameters
    ----------
    points : ndarray (points, variables)
    widths : ndarray (variables,)
    log_weights : ndarray (points,)
    targets : ndarray (targets, variables)
    exponents : callable
        Called with rows of points, as a slice or (neighbors, targets), and with targets; returns the logarithms of
        weighted kernels relative to `tops`, in a way that keeps their digits far from all points.
    tops : ndarray (targets,)
    lattice : bool
        False where all targets are far from the points.

    Examples
    --------
    >>> points, weights = np.array([[0.0], [1.0]]), np.zeros(2)
    >>> targets = np.array([[0.0], [1e4]])
    >>> def exponents(some, chosen):
    ...     return -0.5 * (targets[chosen, 0] - points[some, 0].reshape(-1, len(targets[chosen]))) ** 2
    >>> log_kernel_sums(points, np.ones(1), weights, targets, exponents, np.zeros(2)).round(4)
    array([ 4.74100000e-01, -4.99900005e+07])
    """
    result = np.full(len(targets), np.nan)
    low, high = points.min(axis=0), points.max(axis=0)
    with np.errstate(over="ignore", invalid="ignore"):
        scaled, wanted = (points - low) / widths, (targets - low) / widths
        ends = (high - low) / widths
        near = ((wanted > -FARTHEST) & (wanted < ends + FARTHEST)).all(axis=1)
    if not (ends < FARTHEST).all():
        near[:] = False
    remaining = np.flatnonzero(near)
    top = float(log_weights.max())
    if lattice and points.shape[1] <= 2:
        reached = (wanted > -REACH).all(axis=1) & (wanted < ends + REACH).all(axis=1) & near
        reachable = np.flatnonzero(reached)
        weights = np.exp(log_weights - top)
        least = float(weights.sum()) * math.exp(DIGITS - REACH**2 / 2)
        if len(reachable):
            origin, unit = choose_units(points, widths)
            ours, theirs = (points - origin) / unit, (targets[reachable] - origin) / unit
            for rows, sums in sum_on_lattice(ours, weights, list((widths / unit)[:, None]), REACH, theirs):
                sums = sums.reshape(-1)
                accurate = sums >= least
                chosen = reachable[rows[accurate]]
                result[chosen] = np.log(sums[accurate]) + (top - tops[chosen])
        remaining = remaining[np.isnan(result[remaining])]
    _sum_nearest(scaled, log_weights, wanted, exponents, remaining, result)
    far = np.flatnonzero(~near)
    at_once = max(1, CELLS // len(points))
    for block in slice_blocks(len(far), at_once):
        result[far[block]] = scipy.special.logsumexp(exponents(slice(None), far[block]), axis=0)
    return result


def choose_units(points: Values, widths: Values) -> tuple[Values, Values]:
    """Return an origin from which differences are exact, and powers of two as units; others would lose digits."""
    low, high = points.min(axis=0), points.max(axis=0)
    with np.errstate(over="ignore"):
        return np.where(np.abs(low) > high - low, low, 0.0), np.ldexp(1.0, np.frexp(widths)[1] - 1)


def _sum_nearest(
    scaled: Values, log_weights: Values, wanted: Values, exponents: Exponents, rows: Codes, result: Values
) -> None:
    """Write the logarithms of sums at some rows of `wanted` into `result`, over as many nearest points as needed.

    `scaled` are the points and `wanted` the targets in units of the bandwidths.
    """
    total_weight = float(scipy.special.logsumexp(log_weights))

    def add_up(some: Codes, distances: Values, neighbors: Codes) -> NDArray[np.bool_]:
        squares = distances**2
        best = (log_weights[neighbors] - 0.5 * squares).max(axis=1)
        # all other points together add at most all the weight at the distance of the last neighbor
        missing = total_weight - 0.5 * squares[:, -1] + DIGITS
        settled = (best > missing + 1e-14 * squares[:, -1]) | (neighbors.shape[1] == len(scaled))
        done = rows[some[settled]]
        result[done] = scipy.special.logsumexp(exponents(neighbors[settled].T, done), axis=0)
        return np.asarray(settled)

    visit_nearest(scaled, wanted[rows], add_up, FIRST_NEIGHBORS)


def visit_nearest(
    points: Values,
    targets: Values,
    visit: Callable[[Codes, Values, Codes], NDArray[np.bool_]],
    first: int,
    numbers: int = 1,
) -> None:
    """Visit targets with their nearest points, and again with four times as many until they are settled.

    Parameters
    ----------
    points, targets : ndarray (points, variables), ndarray (targets, variables)
    visit : callable
        Called with some targets, and the distances and numbers of their nearest points (targets, neighbors); returns
        which of the targets are settled, as all are by all points.
    first : int
        So many points are nearest at first.
    numbers : int
        What `visit` computes for each neighbor, which bounds how many targets it is called with.
    """
    if not len(targets):
        return
    # unbalanced, because many equal points make a balanced tree slow
    tree = scipy.spatial.cKDTree(points, balanced_tree=False, compact_nodes=False)
    count, left = min(first, len(points)), np.arange(len(targets))
    while len(left):
        unsettled = []
        at_once = max(1, CELLS // (count * numbers))
        for start in range(0, len(left), at_once):
            some = left[start : start + at_once]
            nearest = tree.query(targets[some], k=count)
            settled = visit(some, *(array.reshape(len(some), -1) for array in nearest))
            unsettled.append(some[~settled])
        left = np.concatenate(unsettled)
        count = min(4 * count, len(points))


CELLS = 1 << 20
"""Temporary arrays hold about this many numbers."""
CELLS_IN_CACHE = 1 << 17
"""Arrays that are computed in several passes hold about this many numbers."""
SAFE = 1e-280
"""Sums below this may have lost terms to underflow and are computed again in logarithms."""
LARGEST_DISTANCE = 1e150
"""Values farther away are moved here, in bandwidths, so that squares don't overflow."""
GAP, SPACING, MOST_PIECES = 8.0, 4.0, 256
"""Clusters of points are divided by larger gaps; their breaks have this distance, both in bandwidths, and this largest
number.
"""


class KernelMixture(NamedTuple):
    """The kernels of one configuration; the child's column comes first where it is continuous."""

    points: Values
    widths: Values
    log_weights: Values
    """Including the constant factors of the parents' kernels."""
    log_inside: Values
    """Masses of the child's kernels inside its domain."""
    labels: Codes
    domain: tuple[float, float]
    first: int
    """The first column of a parent: 1 for a continuous child, else 0."""


KernelLogs: TypeAlias = tuple[Callable[[Any, Any], Values], Values]
"""A function of (chosen points, chosen columns) that returns logarithms (points, columns), and a constant for each
column.
"""


def log_inside_domain(points: Values, widths: Values, domain: tuple[float, float]) -> Values:
    """Return the logarithm of the mass that each kernel has inside the domain.

    Examples
    --------
    >>> np.exp(log_inside_domain(np.array([0.0, 5.0]), np.ones(2), (0.0, np.inf))).round(6)
    array([0.5, 1. ])
    """
    if domain == (-math.inf, math.inf):
        return np.zeros(len(points))
    return log_normal_interval((domain[0] - points) / widths, (domain[1] - points) / widths)


def evaluate_exponents(points: Values, widths: Values, values: Values) -> KernelLogs:
    """Return -z**2 / 2 for z = (value - point) / width, relative to the nearest point, which keeps digits at far
    values.

    With equal widths the difference of two squares is computed as a product, (near - p) (2 v - near - p) / h**2.
    """
    low, high = float(points.min()), float(points.max())
    with np.errstate(over="ignore"):
        values = np.clip(values, low - LARGEST_DISTANCE * widths.max(), high + LARGEST_DISTANCE * widths.max())
    if max(abs(low), abs(high)) > LARGEST_DISTANCE:
        # units in which differences of the largest doubles don't overflow; a power of two, so exact
        shrink = 2.0**-520
        points, widths, values = points * shrink, widths * shrink, values * shrink
    h = widths[0]
    if (widths == h).all():
        ordered = np.sort(points)
        above = np.clip(np.searchsorted(ordered, values), 0, len(points) - 1)
        below = np.maximum(above - 1, 0)
        near = np.where(
            np.abs(ordered[below] - values) < np.abs(ordered[above] - values), ordered[below], ordered[above]
        )

        def relative(some: Any, columns: Any) -> Values:
            p, v, closest = _as_column(points, some), values[columns], near[columns]
            with np.errstate(over="ignore"):
                # in place, because these arrays are the largest ones
                product, other = np.asarray(closest - p), np.asarray(v - p)
                other += v - closest
                other /= h
                product /= -2 * h
                product *= other
                return product

        return relative, -0.5 * ((values - near) / h) ** 2

    def direct(some: Any, columns: Any) -> Values:
        with np.errstate(over="ignore"):
            return np.asarray(-0.5 * ((values[columns] - _as_column(points, some)) / _as_column(widths, some)) ** 2)

    return direct, np.zeros(len(values))


def _as_column(array: NDArray[Any], some: Any) -> NDArray[Any]:
    """Return chosen numbers as a column, or unchanged if they are chosen for each target separately."""
    chosen: NDArray[Any] = array[some]
    return chosen[:, None] if chosen.ndim == 1 else chosen


def weigh_by_parents(group: KernelMixture, values: Sequence[Values], columns: int) -> KernelLogs:
    """Return the logarithms of the kernels' weights given the continuous parents."""
    parts = [
        evaluate_exponents(group.points[:, j], group.widths[:, j], value)
        for j, value in enumerate(values, start=group.first)
    ]

    def logs(some: Any, chosen: Any) -> Values:
        own = _as_column(group.log_weights, some)
        if not parts:
            return np.repeat(own, len(np.arange(columns)[chosen]), axis=1) if own.shape[1] == 1 else np.array(own)
        total = parts[0][0](some, chosen)
        for part, _ in parts[1:]:
            total += part(some, chosen)
        total += own
        return total

    return logs, np.asarray(sum((top for _, top in parts), start=np.zeros(columns)))


def evaluate_child(group: KernelMixture, values: NDArray[Any]) -> KernelLogs:
    """Return the logarithms of the child's kernels at values; for states, 0 at points of that state and else -inf."""
    if group.first == 0:

        def matches(some: Any, columns: Any) -> Values:
            return np.where(_as_column(group.labels, some) == values[columns], 0.0, -np.inf)

        return matches, np.zeros(len(values))
    low, high = group.domain
    relative, top = evaluate_exponents(group.points[:, 0], group.widths[:, 0], values)
    top = np.where((values >= low) & (values <= high), top - (math.log(group.widths[0, 0]) + LOG_ROOT_TWO_PI), -np.inf)
    if not group.log_inside.any():
        return relative, top
    return lambda some, columns: relative(some, columns) - _as_column(group.log_inside, some), top


def integrate_child(group: KernelMixture, low: Values, high: Values) -> KernelLogs:
    """Return the logarithms of the masses of the child's kernels in cells."""
    low, high = np.clip(low, *group.domain), np.clip(high, *group.domain)

    def masses(some: Any, columns: Any) -> Values:
        points, h = group.points[some, :1], group.widths[some, :1]
        with np.errstate(over="ignore"):
            logs = log_normal_interval((low[columns] - points) / h, (high[columns] - points) / h)
        return np.asarray(logs - group.log_inside[some][:, None])

    top = np.full(len(low), -np.inf)
    step = max(1, CELLS // len(group.points))
    for block in slice_blocks(len(low), step):
        top[block] = masses(slice(None), block).max(axis=0)
    shift = np.where(np.isfinite(top), top, 0.0)
    return lambda some, columns: masses(some, columns) - shift[columns], shift


def grid_of(axes: Sequence[NDArray[Any]]) -> list[Values]:
    """Return the grid of the continuous parents, for each an array (rows or 1, grid points).

    Examples
    --------
    >>> [grid.tolist() for grid in grid_of([np.array([1.0, 2.0]), np.array([5.0, 6.0])])]
    [[[1.0, 1.0, 2.0, 2.0]], [[5.0, 6.0, 5.0, 6.0]]]
    """
    rows = max((axis.shape[1] for axis in axes if axis.ndim == 2), default=1)
    shape = tuple(map(len, axes))
    result = []
    for position, axis in enumerate(axes):
        spread_axis = axis.reshape(*(len(axis) if i == position else 1 for i in range(len(axes))), -1)
        grid = np.broadcast_to(spread_axis, (*shape, rows))
        result.append(np.ascontiguousarray(grid.reshape(math.prod(shape), rows).T, dtype=np.float64))
    return result


def log_conditional(
    group: KernelMixture,
    parents: Sequence[Values],
    child: NDArray[Any],
    columns: Callable[[KernelMixture, NDArray[Any]], KernelLogs],
) -> Values:
    """Return the logarithm of the conditional, (rows or 1, parents' grid, child's nodes)."""
    rows, shared = len(parents[0]) if parents else 1, len(child) == 1
    grid, nodes = parents[0].shape[1] if parents else 1, child.shape[1]
    kernels, top = columns(group, child.reshape(-1))
    weights, _ = weigh_by_parents(group, [values.reshape(-1) for values in parents], rows * grid)
    if rows > 1 and not shared:
        logs = _log_mixtures(weights, kernels, len(group.points), (rows, grid, nodes))
    else:
        # at most one side differs between rows: a single matrix product is enough for all
        logs = _log_mixtures(weights, kernels, len(group.points), (1, rows * grid, child.size))
        logs = logs.reshape(rows, grid, len(child), nodes).transpose(0, 2, 1, 3).reshape(rows * len(child), grid, nodes)
    return logs + top.reshape(len(child), 1, nodes)


def _log_mixtures(
    weights: Callable[[Any, Any], Values],
    kernels: Callable[[Any, Any], Values],
    points: int,
    shape: tuple[int, int, int],
) -> Values:
    """Return the logarithm of sum(w k) / sum(w) over points, for batches of columns of both, in bounded memory."""
    batches, left, right = shape
    result = np.empty(shape)
    if not result.size:
        return result
    widest = CELLS // 64
    step, left_step, right_step = max(1, widest // (left + right)), min(left, widest), min(right, widest)
    for b in range(0, batches, step):
        for i in range(0, left, left_step):
            for j in range(0, right, right_step):
                block = slice(b, b + step), slice(i, i + left_step), slice(j, j + right_step)
                batch = np.arange(batches)[block[0], None]
                left_columns = batch * left + np.arange(left)[block[1]]
                right_columns = batch * right + np.arange(right)[block[2]]
                result[block] = _log_mixture_block(weights, kernels, points, left_columns, right_columns)
    return result


def _log_mixture_block(
    weights: Callable[[Any, Any], Values],
    kernels: Callable[[Any, Any], Values],
    points: int,
    left_columns: Codes,
    right_columns: Codes,
) -> Values:
    top = np.full(left_columns.shape, -np.inf)
    total = np.zeros(left_columns.shape)
    sums = np.zeros((*left_columns.shape, right_columns.shape[1]))
    step = max(64, CELLS_IN_CACHE // (left_columns.size + right_columns.size))
    for some in slice_blocks(points, step):
        logs = weights(some, left_columns.reshape(-1)).reshape(-1, *left_columns.shape)
        higher = np.maximum(top, logs.max(axis=0))
        if some.start and (higher > top).any():
            # the sums so far are brought to the new scale
            factor = np.exp(top - higher)
            sums *= factor[..., None]
            total *= factor
        top = higher
        logs -= top
        w = np.exp(logs, out=logs)
        bells = kernels(some, right_columns.reshape(-1))
        k = np.exp(bells, out=bells).reshape(-1, *right_columns.shape)
        sums += np.matmul(w.transpose(1, 2, 0), k.transpose(1, 0, 2))
        total += w.sum(axis=0)
    shares = sums / total[..., None]
    result = take_logs(shares)
    b, i, j = np.nonzero(shares < SAFE)
    at_once = max(1, CELLS // points)
    for some in slice_blocks(len(b), at_once):
        entry = b[some], i[some], j[some]
        logs = weights(slice(None), left_columns[entry[:2]])
        both = logs + kernels(slice(None), right_columns[entry[0], entry[2]])
        result[entry] = sum_logs(both, (0,)) - sum_logs(logs, (0,))
    return np.asarray(result)


def lay_breaks(points: Values, h: float, between: bool) -> Values:
    """Return breaks that divide clusters of sorted points evenly, at their fringes, and around the middles of the gaps.

    Examples
    --------
    >>> np.unique(lay_breaks(np.array([0.0, 6.0, 100.0]), 1.0, between=True).round(2))
    array([ -5.  ,   0.  ,   3.  ,   6.  ,  11.  ,  52.91,  53.  ,  53.09, 95.  , 100.  , 105.  ])
    """
    gaps = np.flatnonzero(np.diff(points) > GAP * h)
    firsts, lasts = points[np.r_[0, gaps + 1]], points[np.r_[gaps, len(points) - 1]]
    breaks = [firsts - 5 * h, lasts + 5 * h]
    for first, last in zip(firsts.tolist(), lasts.tolist(), strict=True):
        pieces = max(1, math.ceil(min(last / SPACING / h - first / SPACING / h, MOST_PIECES)))
        shares = np.linspace(0, 1, pieces + 1)
        breaks.append(first * (1 - shares) + last * shares)
    if between:
        # there a conditional changes from one cluster to the next, and sharply if they are far apart
        middles = 0.5 * lasts[:-1] + 0.5 * firsts[1:]
        beside = 8 * h * (h / (firsts[1:] - lasts[:-1]))
        breaks += [middles - beside, middles, middles + beside]
    return np.concatenate(breaks)


# -- quantiles ----------------------------------------------------------------------------------------------------


def invert(group: KernelMixture, weights: Values, uniforms: Values) -> Values:
    """Invert the cdf of mixtures, weights (kernels, rows), in the logarithm of the nearer tail."""
    points, h = group.points[:, :1], float(group.widths[0, 0])
    low, high = group.domain
    order = np.argsort(points[:, 0])
    reached = np.cumsum(weights[order], axis=0)
    component = np.minimum((reached < uniforms).sum(axis=0), len(order) - 1)
    rows = np.arange(len(uniforms))
    share = 1 - (reached[component, rows] - uniforms) / np.maximum(
        weights[order[component], rows], np.finfo(float).tiny
    )
    # exact where kernels don't overlap, and for a single one
    start = component_quantile(group, order[component], np.clip(share, 0, 1))
    if math.isinf(low) or math.isinf(high):
        # at least half of every kernel lies inside the domain; a little wider, for rounding
        bottom = np.maximum(low, points.min() + h * (scipy.special.ndtri(0.5 * uniforms) - 1e-6))
        top = np.minimum(high, points.max() - h * (scipy.special.ndtri(0.5 * (1 - uniforms)) - 1e-6))
    else:
        bottom, top = np.full(len(uniforms), low), np.full(len(uniforms), high)
    scaled = weights * np.exp(-group.log_inside)[:, None]
    return invert_normals(uniforms, points, np.full((1, 1), h), scaled, bottom, top, start, group.domain)


def component_quantile(group: KernelMixture, chosen: Codes, uniforms: Values) -> Values:
    """Return quantiles of single kernels; points lie inside the domain, so their cdfs there are not in the far
    tails.
    """
    points, h = group.points[chosen, 0], group.widths[chosen, 0]
    low, high = (scipy.special.ndtr((end - points) / h) for end in group.domain)
    return np.asarray(np.clip(points + h * scipy.special.ndtri(low + uniforms * (high - low)), *group.domain))
