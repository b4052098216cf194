"""Kernel conditionals at many points, by whichever of five methods is estimated to be the fastest.

Matrix products of kernels over all points; the same axis by axis where rows share the nodes of an axis; one sum of
kernels for every target; or a table over the distinct values, where they come up again in many rows (quadrature halves
the same cells for every row of a table, so hundreds of rows with hundreds of nodes each may have a thousand distinct
nodes). Where many values of the child meet many of one parent, matrix products have the child's kernels spread onto a
line of a lattice. All give the same digits.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hybridbn.potentials.gaussian import LOG_ROOT_TWO_PI
from hybridbn.potentials.kernel.lattice import count_cells, sum_on_line
from hybridbn.potentials.kernel.log_sums import DIGITS, FARTHEST, NUMBERS, choose_units, log_kernel_sums
from hybridbn.potentials.kernel.mixtures import (
    CELLS_IN_CACHE,
    SAFE,
    KernelLogs,
    KernelMixture,
    evaluate_child,
    grid_of,
    log_conditional,
    weigh_by_parents,
)
from hybridbn.potentials.kernel.product_grids import (
    SECONDS_PER_TERM,
    ScaledConditional,
    estimate_product_seconds,
    evaluate_on_product,
    has_product_axes,
)
from hybridbn.variables import Codes, Values

__all__ = [
    "DistinctValues",
    "ScaledConditional",
    "evaluate_at",
    "evaluate_conditional",
    "evaluate_distinct",
    "find_distinct",
    "lines_are_cheaper",
    "log_factors_without_self",
    "products_are_cheaper",
    "rows_are_cheaper",
    "sum_on_lines",
    "sum_per_target",
    "sums_are_cheaper",
]

SECONDS_PER_KERNEL, SECONDS_PER_PRODUCT = 6e-9, 2e-10
"""Seconds for a kernel between a point and a value, and for a term of a matrix product of kernels.

These and the next ones were measured once, on one machine. Only their ratios matter, for the choice between methods
that give the same digits; another machine may choose a somewhat slower method.
"""
SECONDS_TO_START, SECONDS_PER_POINT, SECONDS_PER_TARGET = 3e-3, 3e-6, 1e-6
"""Seconds for one sum per target: to begin with, for each point, and for each target."""
SECONDS_PER_ROW = 5e-4
"""Seconds to begin with the products of a row that has grids of its own."""
SECONDS_PER_SORTED = 1e-7
"""Seconds to sort a value among others and to look it up."""
MOST_TARGETS = 1 << 20
"""Targets that are summed at a time, which bounds temporary arrays."""
LARGEST_TABLE = 1 << 21
"""A table of distinct values has at most this many numbers."""
_FEWEST_ROWS = 4
"""Rows share grids where there are so many rows for each grid."""
LINE_REACH, NODES_OF_LINE = 36.0, 128
"""On lines of a lattice kernels are summed up to this distance; so many nodes of a line are near a point."""
LARGEST_LINES = 1 << 18
"""All lines together have at most this many cells (32 MiB)."""
UNDERFLOW, LEAST_LOG = 745.0, 660.0
"""Exponentials of less than -UNDERFLOW are zero, and sums whose logarithm is above -LEAST_LOG have lost no terms."""
SECONDS_PER_POWER, SECONDS_PER_CELL = 1.5e-9, 6e-5
"""Seconds for a kernel between a point and a node of a line, and to begin with a cell of a line."""


def evaluate_conditional(
    group: KernelMixture, axes: Sequence[Values], child: NDArray[Any], *, log: bool
) -> ScaledConditional:
    """Return the conditional, or its logarithm, on axes (nodes, rows or 1) of the parents and of the child."""
    if not all(axis.shape[1] for axis in (*axes, child)):
        return ScaledConditional(np.empty((math.prod(map(len, axes)), len(child), 0)), np.zeros(0))
    if products_are_cheaper(group, axes, child):
        return evaluate_on_product(group, axes, child, log=log)
    if rows_are_cheaper(group, axes, child):
        rows = [
            evaluate_on_product(group, *_select_row(axes, child, row), log=log)
            for row in range(_count_rows(axes, child))
        ]
        return ScaledConditional(
            np.concatenate([part.values for part in rows], axis=-1), np.concatenate([part.log_scale for part in rows])
        )
    logs = np.moveaxis(evaluate_at(group, grid_of(axes), child.T), 0, -1)
    if log:
        return ScaledConditional(logs, np.zeros(1))
    top = logs.max(axis=(0, 1), initial=-np.inf)
    top = np.where(np.isfinite(top), top, 0.0)
    return ScaledConditional(np.exp(logs - top), top)


def evaluate_at(group: KernelMixture, parents: Sequence[Values], child: NDArray[Any]) -> Values:
    """Return the logarithm of the conditional at the child's nodes, (rows or 1, parents' grid, child's nodes)."""
    distinct = find_repeats(group, parents, child)
    if distinct is not None:
        if distinct.block_terms < distinct.table_terms:
            return evaluate_blocks(group, distinct)
        return evaluate_distinct(group, distinct)
    if sums_are_cheaper(group, parents, child):
        return sum_per_target(group, parents, child)
    return evaluate_product(group, parents, child)


def evaluate_product(group: KernelMixture, parents: Sequence[Values], child: NDArray[Any]) -> Values:
    """Return the logarithm of the conditional by sums over all points: on lines of a lattice, or by matrix products."""
    if lines_are_cheaper(group, parents, child):
        return sum_on_lines(group, parents[0], child)
    return log_conditional(group, parents, child, evaluate_child)


def lines_are_cheaper(group: KernelMixture, parents: Sequence[Values], child: NDArray[Any]) -> bool:
    """Tell whether sums on lines of a lattice are estimated to be faster than matrix products over all points."""
    return _estimate_lines(group, parents, child) < _estimate_costs(group, parents, child)[0]


def products_are_cheaper(group: KernelMixture, axes: Sequence[Values], child: NDArray[Any]) -> bool:
    """Tell whether products of the kernels of each axis are estimated to be faster than lines or one sum per target."""
    others = _estimate_lines_on(group, axes, child), _estimate_sums(group, *_count_targets(axes, child))
    return estimate_product_seconds(group, axes, child) < min(others)


def rows_are_cheaper(group: KernelMixture, axes: Sequence[Values], child: NDArray[Any]) -> bool:
    """Tell whether products of the kernels of each axis, row by row, are estimated to be the fastest where each row has
    large grids of its own.
    """
    rows = _count_rows(axes, child)
    if rows < 2 or not axes or has_product_axes(axes, child):
        return False
    combinations, targets = _count_targets(axes, child)
    row_by_row = rows * (SECONDS_PER_ROW + estimate_product_seconds(group, *_select_row(axes, child, 0)))
    matrices = len(group.points) * (combinations * SECONDS_PER_KERNEL + targets * SECONDS_PER_PRODUCT)
    lines = _estimate_lines_on(group, axes, child)
    return row_by_row < min(matrices, lines, _estimate_sums(group, combinations, targets))


def _estimate_lines_on(group: KernelMixture, axes: Sequence[Values], child: NDArray[Any]) -> float:
    return _estimate_lines(group, [axis.T for axis in axes], child.T)


def _count_rows(axes: Sequence[Values], child: NDArray[Any]) -> int:
    return max(len(axis.T) for axis in (*axes, child))


def _count_targets(axes: Sequence[Values], child: NDArray[Any]) -> tuple[int, int]:
    """Return the numbers of the parents' combinations and of all targets, in all rows."""
    combinations = math.prod(len(axis) for axis in axes) * max((axis.shape[1] for axis in axes), default=0)
    return combinations, math.prod(len(axis) for axis in (*axes, child)) * _count_rows(axes, child)


def _select_row(axes: Sequence[Values], child: NDArray[Any], row: int) -> tuple[list[Values], NDArray[Any]]:
    *parents, own = (axis if axis.shape[1] == 1 else axis[:, row : row + 1] for axis in (*axes, child))
    return parents, own


def find_repeats(group: KernelMixture, parents: Sequence[Values], child: NDArray[Any]) -> DistinctValues | None:
    """Return the distinct values, or None if a table of them is estimated to take longer than the other methods."""
    rows, _, _ = _shape(parents, child)
    values = (parents[0].size if parents else 1) + child.size
    fastest = min(*_estimate_costs(group, parents, child), _estimate_lines(group, parents, child))
    # where there are no repeats, the search for them must not cost much
    if rows == 1 or fastest < 8 * values * SECONDS_PER_SORTED:
        return None
    distinct = find_distinct(parents, child)
    blocks = distinct.block_terms < distinct.table_terms
    kernels = (1 if blocks else distinct.blocks) * distinct.combinations + len(distinct.child)
    terms = min(distinct.table_terms, distinct.block_terms)
    table = (
        len(group.points) * (kernels * SECONDS_PER_KERNEL + terms * SECONDS_PER_PRODUCT) + values * SECONDS_PER_SORTED
    )
    return distinct if table < fastest else None


def sums_are_cheaper(group: KernelMixture, parents: Sequence[Values], child: NDArray[Any]) -> bool:
    """Tell whether one sum of kernels per target is estimated to be faster than sums over all points."""
    matrices, per_target = _estimate_costs(group, parents, child)
    return per_target < min(matrices, _estimate_lines(group, parents, child))


def _estimate_costs(group: KernelMixture, parents: Sequence[Values], child: NDArray[Any]) -> tuple[float, float]:
    """Estimate the seconds for matrix products over all points, and for one sum of kernels per target."""
    combinations = parents[0].size if parents else 0
    targets = math.prod(_shape(parents, child))
    kernels = combinations + (child.size if group.first else 0)
    matrices = len(group.points) * (kernels * SECONDS_PER_KERNEL + targets * SECONDS_PER_PRODUCT)
    return matrices, _estimate_sums(group, combinations, targets)


def _estimate_sums(group: KernelMixture, combinations: int, targets: int) -> float:
    """Estimate the seconds for one sum of kernels per target."""
    points, numbers = group.points.shape
    if numbers > 2:  # a lattice in three dimensions would be too large
        return math.inf
    sums = combinations + targets if group.first else combinations * (int(group.labels.max()) + 1)
    seconds: float = SECONDS_TO_START + points * SECONDS_PER_POINT + sums * SECONDS_PER_TARGET
    return seconds


def _estimate_lines(group: KernelMixture, parents: Sequence[Values], child: NDArray[Any]) -> float:
    """Estimate the seconds for sums on a line for each of the parent's values; infinite where the child has a parent
    more or less, or rows have values of their own of both.
    """
    points, numbers = group.points.shape
    if group.first == 0 or numbers != 2 or min(len(parents[0]), len(child)) > 1:
        return math.inf
    columns, targets = parents[0].size, child.size
    cells = count_cells(group.points[:, 0], float(group.widths[0, 0]))
    if not columns * targets or not cells * columns < LARGEST_LINES:
        return math.inf
    spread = (points + targets) * NODES_OF_LINE * (SECONDS_PER_POWER + columns * SECONDS_PER_TERM)
    weights = (points + targets) * columns * SECONDS_PER_KERNEL
    seconds: float = 2 * (1 + cells) * SECONDS_PER_CELL + weights + spread
    return seconds


def sum_on_lines(group: KernelMixture, parent: Values, child: NDArray[Any]) -> Values:
    """Return the logarithm of the conditional given one parent, on a line of a lattice for each of its values.

    Sums that are too small for what the lattice reaches are done over the nearest points. Either the parent's values
    (rows or 1, parent's grid) or the child's (rows or 1, nodes) are shared by all rows.
    """
    shape = len(parent), parent.shape[1], len(child), child.shape[1]
    given, values = parent.reshape(-1), child.reshape(-1)
    points, widths = group.points, group.widths[0]
    weights, tops = weigh_by_parents(group, [given], len(given))
    kernels, child_tops = evaluate_child(group, values)
    totals = log_kernel_sums(points[:, 1:], widths[1:], group.log_weights, given[:, None], weights, tops)
    result = np.full((len(given), len(values)), np.nan)
    result[:, np.isneginf(child_tops)] = -np.inf
    origin, unit = choose_units(points, widths)
    low, high = points[:, 0].min(), points[:, 0].max()
    with np.errstate(over="ignore"):
        beyond = LINE_REACH * widths[0]
        reached = np.flatnonzero((values > low - beyond) & (values < high + beyond) & np.isfinite(child_tops))
        reach = widths[1] * np.sqrt(-2 * tops + 2 * UNDERFLOW)
        least, most = given - reach, given + reach
        regular = bool((np.abs((points - origin) / widths) < FARTHEST).all())

    def weigh(rows: Codes) -> tuple[Codes, Values]:
        along = points[rows, 1]
        chosen = np.flatnonzero((least <= along.max()) & (most >= along.min()))
        logs = weights(rows, chosen)
        logs -= group.log_inside[rows, None]
        return chosen, np.exp(logs, out=logs)

    if regular and len(reached):
        line = (points[:, 0] - origin[0]) / unit[0], float(widths[0] / unit[0])
        sums = sum_on_line(
            *line, LINE_REACH, (values[reached] - origin[0]) / unit[0], len(given), weigh, by=points[:, 1]
        )
        # pairs beyond the reach add less than this
        missing = totals + (DIGITS - LINE_REACH**2 / 2 - float(group.log_inside.min()))
        with np.errstate(divide="ignore"):
            logs = np.log(sums)
        accurate = logs > np.maximum(missing, -LEAST_LOG)[:, None]
        constant = math.log(widths[0]) + LOG_ROOT_TWO_PI
        result[:, reached] = np.where(accurate, logs - totals[:, None] - constant, np.nan)
    i, j = np.nonzero(np.isnan(result))
    result[i, j] = _sum_jointly(group, (weights, tops), (kernels, child_tops), given[:, None], values, i, j, False)
    result[i, j] -= totals[i]
    return result.reshape(shape).transpose(0, 2, 1, 3).reshape(-1, shape[1], shape[3])


def _sum_jointly(
    group: KernelMixture,
    parents: KernelLogs,
    child: KernelLogs,
    combinations: Values,
    values: Values,
    parent_index: Codes,
    child_index: Codes,
    lattice: bool,
) -> Values:
    """Return the logarithm of the sum of the joint kernels at pairs of a combination of the parents and a value."""
    (weights, tops), (kernels, child_tops) = parents, child
    constant = math.log(group.widths[0, 0]) + LOG_ROOT_TWO_PI
    result = np.empty(len(parent_index))
    for start in range(0, len(parent_index), MOST_TARGETS):
        block = slice(start, start + MOST_TARGETS)
        i, j = parent_index[block], child_index[block]

        def exponents(rows: Any, chosen: Any, i: Any = i, j: Any = j) -> Values:
            return np.asarray(weights(rows, i[chosen]) + kernels(rows, j[chosen]))

        result[block] = child_tops[j] + log_kernel_sums(
            group.points,
            group.widths[0],
            group.log_weights - group.log_inside,
            np.column_stack([values[j], combinations[i]]),
            exponents,
            tops[i] + child_tops[j] + constant,
            lattice,
        )
    return result


def sum_per_target(group: KernelMixture, parents: Sequence[Values], child: NDArray[Any]) -> Values:
    """Return the logarithm of the conditional, by one sum of kernels per target."""
    from scipy.special import logsumexp

    rows, grid, nodes = _shape(parents, child)
    parent_values = [values.reshape(-1) for values in parents]
    combinations = np.stack(parent_values, axis=1) if parent_values else np.empty((1, 0))
    weights, tops = weigh_by_parents(group, parent_values, len(combinations))
    # the combination of the parents and the child's value that each target has
    parent_index = np.broadcast_to(np.arange(len(combinations)).reshape(-1, grid, 1), (rows, grid, nodes)).reshape(-1)
    child_index = np.broadcast_to(np.arange(child.size).reshape(-1, 1, nodes), (rows, grid, nodes)).reshape(-1)
    if not group.first:
        by_state = _log_sums_by_state(group, combinations, weights, tops, int(child.max(initial=0)) + 1)
        total = logsumexp(by_state, axis=0)
        return np.asarray(
            by_state[child.reshape(-1).astype(np.intp)[child_index], parent_index] - total[parent_index]
        ).reshape(rows, grid, nodes)
    if parent_values:
        total = log_kernel_sums(
            group.points[:, 1:], group.widths[0, 1:], group.log_weights, combinations, weights, tops
        )
    else:
        total = logsumexp(group.log_weights, keepdims=True)
    values = child.reshape(-1)
    kernels, child_tops = evaluate_child(group, values)
    result = np.full(len(parent_index), -np.inf)
    possible = np.flatnonzero(np.isfinite(child_tops[child_index]))
    i, j = parent_index[possible], child_index[possible]
    joint = _sum_jointly(group, (weights, tops), (kernels, child_tops), combinations, values, i, j, True)
    result[possible] = joint - total[i]
    return result.reshape(rows, grid, nodes)


def _shape(parents: Sequence[Values], child: NDArray[Any]) -> tuple[int, int, int]:
    """Return the numbers of rows, of the parents' combinations and of the child's nodes."""
    rows, grid = parents[0].shape if parents else (1, 1)
    # one row is shared by all, of which there may be none
    return (len(child) if rows == 1 else rows), grid, child.shape[1]


def _log_sums_by_state(group: KernelMixture, combinations: Values, weights: Any, tops: Values, states: int) -> Values:
    """Return the logarithm of the sum of each state's kernels, (states, parents' combinations)."""
    result = np.full((max(states, int(group.labels.max()) + 1), len(combinations)), -np.inf)
    for state in range(len(result)):
        own = np.flatnonzero(group.labels == state)
        if not len(own):
            continue

        def exponents(rows: Any, chosen: Any, own: Any = own) -> Values:
            return np.asarray(weights(own[rows], chosen))

        result[state] = log_kernel_sums(
            group.points[own], group.widths[own[0]], group.log_weights[own], combinations, exponents, tops
        )
    return result


def log_factors_without_self(group: KernelMixture) -> Values:
    """Return the logarithm of the factor by which leaving its own kernel out changes the conditional at each point.

    Examples
    --------
    >>> zeros = np.zeros(2)
    >>> one = KernelMixture(np.zeros((2, 1)), np.ones((2, 1)), zeros, zeros, np.zeros(2, int), (-9.0, 9.0), 1)
    >>> log_factors_without_self(one)
    array([0., 0.])
    """
    from scipy.special import logsumexp

    if group.first:
        own = group.log_weights - group.log_inside
        numerator = _log_sums_at(group.points, group.widths[0], own, group.points)
        denominator = _log_sums_at(group.points[:, 1:], group.widths[0, 1:], group.log_weights, group.points[:, 1:])
        return _log_rest(own - numerator) - _log_rest(group.log_weights - denominator)
    by_state = np.stack(
        [
            _log_sums_at(group.points[mine], group.widths[mine][0], group.log_weights[mine], group.points)
            for mine in (group.labels == label for label in np.unique(group.labels))
        ]
    )
    numerator = np.take_along_axis(by_state, np.unique(group.labels, return_inverse=True)[1].reshape(1, -1), axis=0)[0]
    denominator = np.asarray(logsumexp(by_state, axis=0))
    return _log_rest(group.log_weights - numerator) - _log_rest(group.log_weights - denominator)


def _log_sums_at(points: Values, widths: Values, log_weights: Values, targets: Values) -> Values:
    """Return the logarithm of the sum of all kernels at each target, or of all weights if there are no variables."""
    from scipy.special import logsumexp

    if not points.shape[1]:
        return np.full(len(targets), float(logsumexp(log_weights)))

    def exponents(some: Any, chosen: Any) -> Values:
        total = log_weights[some] if np.ndim(log_weights[some]) == 2 else log_weights[some][:, None]
        for column, width, along in zip(points.T, widths, targets[chosen].T, strict=True):
            centers = column[some] if np.ndim(column[some]) == 2 else column[some][:, None]
            with np.errstate(over="ignore"):
                total = total - 0.5 * ((centers - along) / width) ** 2
        return np.asarray(total)

    return log_kernel_sums(points, widths, log_weights, targets, exponents, np.zeros(len(targets)))


def _log_rest(logs: Values) -> Values:
    """Return log(1 - share) of the logarithms of shares; a share of one leaves a rounding error."""
    return np.log1p(-np.minimum(np.exp(logs), 1 - np.finfo(float).eps))


@dataclass(frozen=True)
class DistinctValues:
    """The distinct values of the parents and the child, and their positions for each row.

    Attributes
    ----------
    parents : list of ndarray (combinations,)
    parent_index : ndarray (rows or 1, parents' grid)
    child : ndarray (values,)
    child_index : ndarray (rows or 1, child's nodes)
    """

    parents: list[Values]
    parent_index: Codes
    child: NDArray[Any]
    child_index: Codes

    @property
    def combinations(self) -> int:
        """Number of distinct combinations of the parents."""
        return len(self.parents[0]) if self.parents else 1

    @property
    def table_terms(self) -> float:
        """Number of sums in tables of all combinations; several blocks share some of a table's columns."""
        return float(self.combinations * min(len(self.child) * self.blocks, self.child_index.size))

    @property
    def block_terms(self) -> float:
        """Number of sums where each row needs its own ones only, infinite if rows do not share whole grids.

        A block of few sums is computed half as fast.
        """
        rows, grid = self.parent_index.shape
        grids = len(self.parent_grids)
        if rows < 2 or self.child_index.shape != (rows, 1) or _FEWEST_ROWS * grids > rows:
            return math.inf
        return float(2 * rows * grid)

    @cached_property
    def parent_grids(self) -> Codes:
        """A row of each of the different parents' grids."""
        first: Codes = np.unique(self.parent_index[:, 0], return_index=True)[1]
        return first

    @property
    def blocks(self) -> int:
        """Number of tables that are needed so that none is too large."""
        if self.combinations * len(self.child) <= LARGEST_TABLE:
            return 1
        return math.ceil(self.combinations * self.child_index.size / LARGEST_TABLE)


def find_distinct(parents: Sequence[Values], child: NDArray[Any]) -> DistinctValues:
    """Return the distinct values of the parents' grid (rows or 1, grid points) and of the child (rows or 1, nodes).

    Examples
    --------
    >>> distinct = find_distinct([np.array([[1.0, 2.0], [2.0, 3.0]])], np.array([[5.0], [5.0]]))
    >>> distinct.parents, distinct.parent_index.tolist(), distinct.child, distinct.child_index.tolist()
    ([array([1., 2., 3.])], [[0, 1], [1, 2]], array([5.]), [[0], [0]])
    """
    values, child_index = np.unique(child, return_inverse=True)
    if not parents:
        return DistinctValues([], np.zeros((1, 1), dtype=np.intp), values, child_index.reshape(child.shape))
    shared = _find_shared_grids(parents[0]) if len(parents) == 1 else None
    if shared is not None:
        return DistinctValues([shared[0].reshape(-1)], shared[1], values, child_index.reshape(child.shape))
    levels, code = np.unique(parents[0], return_inverse=True)
    code = code.reshape(-1)
    if len(parents) == 1:
        return DistinctValues([levels], code.reshape(parents[0].shape), values, child_index.reshape(child.shape))
    for grid in parents[1:]:
        levels, level_index = np.unique(grid, return_inverse=True)
        # numbered anew for every parent, so that the numbers stay below those of rows times grid points
        _, first, code = np.unique(code * len(levels) + level_index.reshape(-1), return_index=True, return_inverse=True)
        code = code.reshape(-1)
    combinations = [grid.reshape(-1)[first] for grid in parents]
    return DistinctValues(combinations, code.reshape(parents[0].shape), values, child_index.reshape(child.shape))


def _find_shared_grids(grids: Values) -> tuple[Values, Codes] | None:
    """Return a few grids, and for each row the positions of its points among them all; None where rows differ more."""
    _, row, which = np.unique(grids[:, 0], return_index=True, return_inverse=True)
    if _FEWEST_ROWS * len(row) > len(grids) or not (grids[row][which] == grids).all():
        return None
    return grids[row], which[:, None] * grids.shape[1] + np.arange(grids.shape[1])


def evaluate_distinct(group: KernelMixture, distinct: DistinctValues) -> Values:
    """Return the logarithm of the conditional, (rows or 1, parents' grid, child's nodes)."""
    rows, grid = max(len(distinct.parent_index), len(distinct.child_index)), distinct.parent_index.shape[1]
    result = np.empty((rows, grid, distinct.child_index.shape[1]))
    step = max(1, math.ceil(rows / distinct.blocks)) if len(distinct.child_index) > 1 else rows
    for start in range(0, rows, step):
        block = slice(start, start + step)
        parent_index = distinct.parent_index[block] if len(distinct.parent_index) > 1 else distinct.parent_index
        child_index = distinct.child_index[block] if len(distinct.child_index) > 1 else distinct.child_index
        used, child_index = np.unique(child_index, return_inverse=True)
        child = distinct.child[used][None]
        table = evaluate_product(group, [values[None] for values in distinct.parents], child)[0]
        result[block] = table[parent_index[:, :, None], child_index.reshape(-1, 1, result.shape[2])]
    return result


def evaluate_blocks(group: KernelMixture, distinct: DistinctValues) -> Values:
    """Return what `evaluate_distinct` does, where many rows have the same grid of the parents and one child's node.

    Kernels are computed once for each distinct value, and multiplied for the rows of each grid.
    """
    rows, grid = distinct.parent_index.shape
    result = np.empty((rows, grid, 1))
    first = distinct.parent_grids
    # grids that begin with the same combination may differ later
    number = np.searchsorted(distinct.parent_index[first, 0], distinct.parent_index[:, 0])
    same = (distinct.parent_index == distinct.parent_index[first[number]]).all(axis=1)
    others = np.flatnonzero(~same)
    if len(others):
        rest = replace(distinct, parent_index=distinct.parent_index[others], child_index=distinct.child_index[others])
        result[others] = evaluate_distinct(group, rest)
    weights, _ = weigh_by_parents(group, distinct.parents, distinct.combinations)
    kernels, tops = evaluate_child(group, distinct.child)
    points = len(group.points)
    by_child = np.flatnonzero(same)[np.argsort(distinct.child_index[same, 0], kind="stable")]
    step = max(1, LARGEST_TABLE // points)
    for start in range(0, len(distinct.child), step):
        values = slice(start, min(start + step, len(distinct.child)))
        child = distinct.child_index[by_child, 0]
        mine = by_child[(child >= start) & (child < start + step)]
        bells = kernels(slice(None), values)
        bells = np.exp(bells, out=bells).T.copy()
        order = mine[np.argsort(number[mine], kind="stable")]
        ends = np.searchsorted(number[order], np.arange(len(first) + 1))
        grids = max(1, CELLS_IN_CACHE // (points * grid))
        for block in range(0, len(first), grids):
            some = [g for g in range(block, min(block + grids, len(first))) if ends[g] < ends[g + 1]]
            if not some:
                continue
            columns = distinct.parent_index[first[some]]
            logs = weights(slice(None), columns.reshape(-1)).reshape(points, len(some), grid)
            logs -= logs.max(axis=0)
            shares = np.exp(logs, out=logs)
            totals = shares.sum(axis=0)
            for position, g in enumerate(some):
                own = order[ends[g] : ends[g + 1]]
                chosen = distinct.child_index[own, 0] - start
                every = len(chosen) == len(bells) and (chosen == np.arange(len(bells))).all()
                sums = (bells if every else bells[chosen]) @ shares[:, position]
                result[own, :, 0] = sums / totals[position]
    with np.errstate(divide="ignore"):
        small = (result < SAFE) & same[:, None, None]
        logs = np.log(result, out=result, where=same[:, None, None])
    _sum_in_logs(logs, small, distinct, weights, kernels, points)
    result[same] += tops[distinct.child_index[same]][:, None, :]
    return result


def _sum_in_logs(
    result: Values, small: NDArray[np.bool_], distinct: DistinctValues, weights: Any, kernels: Any, points: int
) -> None:
    """Replace entries that may have underflowed."""
    from scipy.special import logsumexp

    row, node, _ = np.nonzero(small)
    at_once = max(1, NUMBERS // points)
    for start in range(0, len(row), at_once):
        some = row[start : start + at_once], node[start : start + at_once]
        logs = weights(slice(None), distinct.parent_index[some])
        both = logs + kernels(slice(None), distinct.child_index[some[0], 0])
        result[(*some, 0)] = logsumexp(both, axis=0) - logsumexp(logs, axis=0)
