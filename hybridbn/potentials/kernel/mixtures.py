"""The numerics of kernel conditionals: mixtures of product kernels, weighted by the parents, in bounded memory.

All kernels are computed in logarithms relative to the nearest points, so nothing underflows to 0/0. Matrix products sum
over the points; sums that may have lost terms to underflow are computed again in logarithms.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from hybridbn.potentials.cell_quadrature import solve
from hybridbn.potentials.gaussian import LOG_ROOT_TWO_PI, log_normal_interval
from hybridbn.variables import Codes, Values

__all__ = [
    "CELLS",
    "CELLS_IN_CACHE",
    "KernelLogs",
    "KernelMixture",
    "component_quantile",
    "evaluate_child",
    "evaluate_exponents",
    "grid_of",
    "integrate_child",
    "invert",
    "lay_breaks",
    "log_conditional",
    "log_inside_domain",
    "weigh_by_parents",
]

CELLS = 1 << 20
"""Temporary arrays hold about this many numbers."""
CELLS_IN_CACHE = 1 << 17
"""Arrays that are computed in several passes hold about this many numbers."""
SAFE = 1e-280
"""Sums below this may have lost terms to underflow and are computed again in logarithms."""
FARTHEST = 1e150
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
        values = np.clip(values, low - FARTHEST * widths.max(), high + FARTHEST * widths.max())
    if max(abs(low), abs(high)) > FARTHEST:
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
    for start in range(0, len(low), step):
        block = slice(start, start + step)
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
    for start in range(0, points, step):
        some = slice(start, start + step)
        logs = weights(some, left_columns.reshape(-1)).reshape(-1, *left_columns.shape)
        higher = np.maximum(top, logs.max(axis=0))
        if start and (higher > top).any():
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
    with np.errstate(divide="ignore"):
        result = np.log(shares)
    b, i, j = np.nonzero(shares < SAFE)
    at_once = max(1, CELLS // points)
    for start in range(0, len(b), at_once):
        some = slice(start, start + at_once)
        entry = b[some], i[some], j[some]
        logs = weights(slice(None), left_columns[entry[:2]])
        both = logs + kernels(slice(None), right_columns[entry[0], entry[2]])
        result[entry] = _log_sum(both) - _log_sum(logs)
    return np.asarray(result)


def _log_sum(logs: Values) -> Values:
    top = logs.max(axis=0)
    shift = np.where(np.isfinite(top), top, 0.0)
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(np.exp(logs - shift).sum(axis=0)) + shift)


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
    from scipy.special import ndtr, ndtri

    points, h = group.points[:, :1], float(group.widths[0, 0])
    low, high = group.domain
    lower = uniforms <= 0.5
    sign = np.where(lower, 1.0, -1.0)
    with np.errstate(divide="ignore"):
        target = np.where(lower, np.log(uniforms), -np.log1p(-uniforms))
    inside = (uniforms > 0) & (uniforms < 1)
    scaled = weights * np.exp(-group.log_inside)[:, None]

    def tail(x: Values, active: Codes) -> tuple[Values, Values]:
        w, side = scaled[:, active], sign[active]
        with np.errstate(over="ignore"):
            z = side * (x - points) / h
            bell = np.exp(-0.5 * z * z)
        if math.isinf(low) and math.isinf(high):
            masses = ndtr(z)
        else:
            ends = np.where(side > 0, low, high)
            masses = np.exp(log_normal_interval(side * (ends - points) / h, z))
        mass = np.maximum((w * masses).sum(axis=0), np.finfo(float).tiny)
        density = (w * bell).sum(axis=0) / (h * math.sqrt(2 * math.pi))
        return side * np.log(mass), density / mass

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
        bottom = np.maximum(low, points.min() + h * (ndtri(0.5 * uniforms) - 1e-6))
        top = np.minimum(high, points.max() - h * (ndtri(0.5 * (1 - uniforms)) - 1e-6))
    else:
        bottom, top = np.full(len(uniforms), low), np.full(len(uniforms), high)
    result = np.where(uniforms <= 0, low, high)
    chosen = np.flatnonzero(inside)

    def evaluate(x: Values, active: Codes) -> tuple[Values, Values]:
        return tail(x, chosen[active])

    result[chosen] = solve(evaluate, target[chosen], bottom[chosen], top[chosen], start[chosen])
    return result


def component_quantile(group: KernelMixture, chosen: Codes, uniforms: Values) -> Values:
    """Return quantiles of single kernels; points lie inside the domain, so their cdfs there are not in the far
    tails.
    """
    from scipy.special import ndtr, ndtri

    points, h = group.points[chosen, 0], group.widths[chosen, 0]
    low, high = (ndtr((end - points) / h) for end in group.domain)
    return np.asarray(np.clip(points + h * ndtri(low + uniforms * (high - low)), *group.domain))
