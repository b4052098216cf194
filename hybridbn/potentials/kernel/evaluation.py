"""Kernel conditionals at many points, by whichever of a few methods takes the fewest operations.

Matrix products of kernels over all points, for every combination of the parents' values; the same axis by axis where
rows share the nodes of an axis of a parent (`hybridbn.potentials.kernel.product_grids`); where many values of the child
meet many of one parent, with the child's kernels spread onto a line of a lattice for each value of the parent; or one
sum of kernels for every target, whose work grows with the points plus the targets and not with their product. All give
the same digits.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hybridbn.potentials.gaussian import LOG_ROOT_TWO_PI
from hybridbn.potentials.kernel.lattice import count_cells, sum_on_line
from hybridbn.potentials.kernel.log_sums import DIGITS, FARTHEST, choose_units, log_kernel_sums
from hybridbn.potentials.kernel.mixtures import (
    KernelLogs,
    KernelMixture,
    evaluate_child,
    grid_of,
    log_conditional,
    weigh_by_parents,
)
from hybridbn.potentials.kernel.product_grids import (
    TERMS_PER_KERNEL,
    ScaledConditional,
    count_product_kernels,
    evaluate_on_product,
)
from hybridbn.variables import Codes, Values

__all__ = ["evaluate_conditional", "log_factors_without_self", "sum_on_lines", "sum_per_target"]

TERMS_IN_BLOCKS = 32
"""An exponential counts as this many terms of the matrix products of `log_conditional`, which are done in small blocks
in logarithms.
"""
KERNELS_TO_START, KERNELS_PER_POINT, KERNELS_PER_TARGET = 1 << 19, 512, 160
"""The operations of one sum for every target, counted in exponentials: to begin with, for each point that is spread
onto a lattice, and for each target that is collected from it.
"""
KERNELS_PER_CELL, POWERS_PER_KERNEL = 1 << 16, 4
"""To begin with a cell of a line counts as this many exponentials, and an exponential as this many kernels between a
point and a node of a line, which are products of powers.
"""
MOST_TARGETS = 1 << 20
"""Targets that are summed at a time, which bounds temporary arrays."""
LINE_REACH, NODES_OF_LINE = 36.0, 128
"""On lines of a lattice kernels are summed up to this distance; this many nodes of a line are near a point."""
LARGEST_LINES = 1 << 18
"""All lines together have at most this many cells (32 MiB)."""
UNDERFLOW, LEAST_LOG = 745.0, 660.0
"""Exponentials of less than -UNDERFLOW are zero, and sums whose logarithm is above -LEAST_LOG have lost no terms."""


def evaluate_conditional(
    group: KernelMixture, axes: Sequence[Values], child: NDArray[Any], *, log: bool
) -> ScaledConditional:
    """Return the conditional, or its logarithm, on axes (nodes, rows or 1) of the parents and of the child."""
    if not all(axis.shape[1] for axis in (*axes, child)):
        return ScaledConditional(np.empty((math.prod(map(len, axes)), len(child), 0)), np.zeros(0))
    matrices, lines, sums = (count(group, axes, child) for count in (_count_matrices, _count_lines, _count_sums))
    fewest = min(matrices, lines, sums)
    if count_product_kernels(group, axes, child) < fewest:
        return evaluate_on_product(group, axes, child, log=log)
    parents = grid_of(axes)
    if fewest == matrices:
        logs = log_conditional(group, parents, child.T, evaluate_child)
    elif fewest == lines:
        logs = sum_on_lines(group, parents[0], child.T)
    else:
        logs = sum_per_target(group, parents, child.T)
    logs = np.moveaxis(logs, 0, -1)
    if log:
        return ScaledConditional(logs, np.zeros(1))
    top = logs.max(axis=(0, 1), initial=-np.inf)
    top = np.where(np.isfinite(top), top, 0.0)
    return ScaledConditional(np.exp(logs - top), top)


def _count_matrices(group: KernelMixture, axes: Sequence[Values], child: NDArray[Any]) -> float:
    """Count the operations of matrix products for all combinations of the parents' values, in exponentials."""
    combinations, targets = _count_targets(axes, child)
    kernels = combinations + (child.size if group.first else 0)
    return len(group.points) * (kernels + targets / TERMS_IN_BLOCKS)


def _count_sums(group: KernelMixture, axes: Sequence[Values], child: NDArray[Any]) -> float:
    """Count the operations of one sum for every target, in exponentials."""
    points, numbers = group.points.shape
    if numbers > 2:  # a lattice in three dimensions would be too large
        return math.inf
    combinations, targets = _count_targets(axes, child)
    sums = combinations + targets if group.first else combinations * (int(group.labels.max()) + 1)
    operations: float = KERNELS_TO_START + points * KERNELS_PER_POINT + sums * KERNELS_PER_TARGET
    return operations


def _count_lines(group: KernelMixture, axes: Sequence[Values], child: NDArray[Any]) -> float:
    """Count the operations of sums on a line for each of the parent's values, in exponentials; infinite where the child
    has a parent more or less, or rows have values of their own of both.
    """
    points, numbers = group.points.shape
    if group.first == 0 or numbers != 2 or min(axes[0].shape[1], child.shape[1]) > 1:
        return math.inf
    columns, targets = axes[0].size, child.size
    cells = count_cells(group.points[:, 0], float(group.widths[0, 0]))
    if not columns * targets or not cells * columns < LARGEST_LINES:
        return math.inf
    spread = NODES_OF_LINE * (1 / POWERS_PER_KERNEL + columns / TERMS_PER_KERNEL)
    operations: float = 2 * (1 + cells) * KERNELS_PER_CELL + (points + targets) * (columns + spread)
    return operations


def _count_targets(axes: Sequence[Values], child: NDArray[Any]) -> tuple[int, int]:
    """Return the numbers of the parents' combinations and of all targets, in all rows."""
    combinations = math.prod(map(len, axes)) * max((axis.shape[1] for axis in axes), default=0)
    rows = max(axis.shape[1] for axis in (*axes, child))
    return combinations, math.prod(map(len, (*axes, child))) * rows


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
