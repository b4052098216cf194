"""Kernel conditionals at many points, by whichever of a few methods takes the fewest operations.

Matrix products of kernels over all points, for every combination of the parents' values; the same axis by axis where
rows share the nodes of an axis of a parent (`evaluate_on_product`); where many values of the child
meet many of one parent, with the child's kernels spread onto a line of a lattice for each value of the parent; or one
sum of kernels for every target, whose work grows with the points plus the targets and not with their product. All give
the same digits.

A product kernel is a product of kernels along each variable. Where all rows share the nodes of a variable, its kernels
are computed once for every node, and variables of which each row has one value are factors of the points' weights.
Along many nodes, kernels are replaced by their convolution with narrower kernels on a lattice, as in
`hybridbn.potentials.kernel.sums`: the points are summed up for the lattice, and its few nodes for the many.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy
from numpy.typing import NDArray

from hybridbn.potentials.base import exponentiate, take_logs
from hybridbn.potentials.gaussian import LOG_ROOT_TWO_PI
from hybridbn.potentials.kernel.sums import (
    CELLS,
    DIGITS,
    FARTHEST,
    KernelLogs,
    KernelMixture,
    choose_units,
    count_cells,
    evaluate_child,
    evaluate_exponents,
    grid_of,
    log_conditional,
    log_kernel_sums,
    sum_on_line,
    weigh_by_parents,
)
from hybridbn.variables import Codes, Values, slice_blocks

PRODUCTS_PER_KERNEL, TERMS_PER_KERNEL = 6, 128
"""An exponential counts as this many products of two kernels, or terms of a large matrix product."""
KERNELS_PER_ROW = 1 << 16
"""A row that has grids of its own counts as this many exponentials at the beginning."""
MOST_KERNELS = 1 << 23
"""The kernels along all axes are at most this many numbers."""
MOST_WEIGHTS = 1 << 22
"""The weights of the points in the rows that are computed at a time are about this many numbers."""
STEP = 0.36
"""Step of the lattice in bandwidths, for a relative error of every kernel of 1e-16."""
MARGIN = 13
"""Steps of the lattice beyond the outermost points and nodes, 4.7 bandwidths."""
LEAST_LOG = -668.0
"""Kernels with smaller logarithms are zero, because arithmetic with subnormal numbers is slow."""
SAFE = 1e-265
"""Sums below this may have lost terms, which are less than 1e-290, and are computed again in logarithms."""
CERTAIN = 1e-35
"""Densities are ratios of a sum to the sum of the points' weights: if that is larger, what is lost of them is less than
1e-225.
"""
SMALL = 1e-100
"""Rows whose largest value is smaller, or larger than its inverse, are computed in logarithms."""


class _Factor(NamedTuple):
    """The kernels of an axis: those of the points at its nodes, or at a lattice from which nodes are summed up."""

    kernels: Values
    """ndarray (points, nodes)"""
    collect: Values | None
    """ndarray (nodes of the axis, nodes of the lattice)"""

    @property
    def nodes(self) -> int:
        return self.kernels.shape[1] if self.collect is None else len(self.collect)


def has_product_axes(axes: Sequence[Values], child: NDArray[Any]) -> bool:
    """Tell whether each axis (nodes, rows or 1) has the same nodes in all rows, or a single one in each."""
    return all(1 in axis.shape for axis in (*axes, child))


def count_product_kernels(group: KernelMixture, axes: Sequence[Values], child: NDArray[Any]) -> float:
    """Count the operations of `evaluate_on_product`, in exponentials; infinite where it takes too much memory, or
    where every row has one value of each variable, so that it would do what is done for any combinations of values.
    """
    points, rows = len(group.points), max(axis.shape[1] for axis in (*axes, child))
    if not has_product_axes(axes, child):
        one = count_product_kernels(group, *select_rows(axes, child, slice(1)))
        return float(rows * (KERNELS_PER_ROW + one))
    if all(axis.shape[1] > 1 for axis in (*axes, child)):
        return math.inf
    shared = [len(child)] * (child.shape[1] == 1)
    for column, axis in enumerate(axes, start=group.first):
        if axis.shape[1] == 1:
            shared.append(_count_lattice(group.points[:, column], group.widths[:, column], axis[:, 0]) or len(axis))
    if points * (sum(shared) + 1) > MOST_KERNELS:
        return math.inf
    kernels = sum(shared) + rows * (len(axes) + 1 - len(shared))
    shared.sort()
    # products of kernels: of nodes with the rows' weights, or of the nodes of two axes
    combined = min(math.prod(shared[:-1]) * rows, math.prod(shared[-2:])) if len(shared) > 1 else 0
    terms = math.prod(shared) * rows
    operations: float = points * (kernels + combined / PRODUCTS_PER_KERNEL + terms / TERMS_PER_KERNEL)
    return operations


def select_rows(axes: Sequence[Values], child: NDArray[Any], rows: Any) -> tuple[list[Values], NDArray[Any]]:
    """Return axes (nodes, rows or 1) of the parents and of the child in some of the rows."""
    *parents, own = (axis if axis.shape[1] == 1 else axis[:, rows] for axis in (*axes, child))
    return parents, own


def evaluate_on_product(
    group: KernelMixture, axes: Sequence[Values], child: NDArray[Any], *, log: bool
) -> tuple[Values, Values]:
    """Evaluate the conditional, or its logarithm; row by row where rows have several nodes of their own on an axis.

    Sums that may have lost terms to underflow are computed in logarithms. Where no logarithm is wanted, these are only
    the sums over the parents' kernels: a value that underflows is negligible in its row.
    """
    if not has_product_axes(axes, child):
        rows = max(axis.shape[1] for axis in (*axes, child))
        parts = [evaluate_on_product(group, *select_rows(axes, child, part), log=log) for part in slice_blocks(rows, 1)]
        values, log_scale = (np.concatenate(part, axis=-1) for part in zip(*parts, strict=True))
        return values, log_scale
    repeated = _find_repeated_rows(axes, child)
    if repeated is not None:
        first, inverse = repeated
        values, log_scale = evaluate_on_product(group, *select_rows(axes, child, first), log=log)
        return values[..., inverse], np.broadcast_to(log_scale, len(first))[inverse]
    shared = {
        position: _evaluate_axis(group, position + group.first, axis[:, 0])
        for position, axis in enumerate(axes)
        if axis.shape[1] == 1
    }
    rows = max((axis.shape[1] for axis in (*axes, child)), default=1)
    grid = math.prod(factor.nodes for factor in shared.values())
    step = max(1, MOST_WEIGHTS // len(group.points))
    if rows <= step:
        return _evaluate_rows(group, axes, child, shared, log=log)
    values, log_scale = np.empty((grid, len(child), rows)), np.zeros(rows)
    for some in slice_blocks(rows, step):
        own = select_rows(axes, child, some)
        values[..., some], log_scale[some] = _evaluate_rows(group, *own, shared, log=log)
    return values, log_scale


def _find_repeated_rows(axes: Sequence[Values], child: NDArray[Any]) -> tuple[Codes, Codes] | None:
    """Return the first of each of the distinct rows, and the number of each row among these, where many are equal."""
    differing = [axis[0] for axis in (*axes, child) if axis.shape[1] > 1]
    if len(differing) != 1:
        return None
    _, first, inverse = np.unique(differing[0], return_index=True, return_inverse=True)
    return (first, inverse) if 2 * len(first) <= len(inverse) else None


def _evaluate_axis(group: KernelMixture, column: int, nodes: Values) -> _Factor:
    points, widths = group.points[:, column], group.widths[:, column]
    size = _count_lattice(points, widths, nodes)
    if not size:
        logs, _ = evaluate_exponents(points, widths, nodes)
        kernels = logs(slice(None), slice(None))
        if (widths != widths[0]).any():
            kernels -= kernels.max(axis=0)
        return _Factor(_exponentiate(kernels), None)
    lattice = STEP * np.arange(-MARGIN, size - MARGIN)
    low = min(points.min(), nodes.min())
    # a kernel is the convolution of two that are narrower by the root of two, but for a constant factor
    spread, collect = ((values - low)[:, None] / widths[0] for values in (points, nodes))
    return _Factor(*(_exponentiate(-((values - lattice) ** 2)) for values in (spread, collect)))


def _exponentiate(logs: Values) -> Values:
    """Return exponentials in place, zero where they are very small."""
    used = logs >= LEAST_LOG
    np.exp(np.maximum(logs, LEAST_LOG, out=logs), out=logs)
    return np.multiply(logs, used, out=logs)


def _count_lattice(points: Values, widths: Values, nodes: Values) -> int:
    """Return the number of nodes of the lattice; zero where the kernels themselves are cheaper."""
    with np.errstate(over="ignore"):
        length = max(points.max(), nodes.max(initial=-np.inf)) - min(points.min(), nodes.min(initial=np.inf))
        size = length / widths[0] / STEP + 2 * MARGIN + 2
        cheaper = 2 * size * (len(points) + len(nodes)) < len(points) * len(nodes)
    return int(size) if cheaper and (widths == widths[0]).all() else 0


def _evaluate_rows(
    group: KernelMixture,
    axes: Sequence[Values],
    child: NDArray[Any],
    shared: dict[int, _Factor],
    *,
    log: bool,
) -> tuple[Values, Values]:
    factors, all_points = list(shared.values()), slice(None)
    weights = group.log_weights[:, None]
    for position, axis in enumerate(axes):
        if position not in shared:
            column = position + group.first
            logs, _ = evaluate_exponents(group.points[:, column], group.widths[:, column], axis[0])
            weights = weights + logs(all_points, all_points)
    weights_top = weights.max(axis=0)
    kernels, child_top = evaluate_child(group, child.ravel())
    bells = kernels(all_points, all_points)
    given = _exponentiate(weights - weights_top)
    if child.shape[1] > 1:
        bells += weights
        top = bells.max(axis=0)
        joint = _exponentiate(np.subtract(bells, np.where(np.isfinite(top), top, 0.0), out=bells))
        sums = _sum_over_points(factors, np.concatenate([given, joint], axis=1))
        total, both = sums[:, : given.shape[1]], sums[:, None, given.shape[1] :]
        tops = (top - weights_top + child_top)[None]
    else:
        total, top = _sum_over_points(factors, given), bells.max(axis=0)
        both = _sum_over_points([*factors, _Factor(_exponentiate(bells), None)], given)
        both = both.reshape(len(total), len(child), given.shape[1])
        # states without points
        tops = np.where(np.isfinite(top), child_top, -np.inf)[:, None]
    uncertain = total < (SAFE if log else CERTAIN)
    small = (both < SAFE) & ~uncertain[:, None] & np.isfinite(tops) if log else None
    values = np.divide(both, np.where(uncertain, np.inf, total)[:, None], out=both)
    if small is not None:
        values = take_logs(values)
        values += tops
        _replace_combinations(values, uncertain | small.any(axis=1), group, axes, child, None)
        return values, np.zeros(1)
    scale = tops.max(axis=0)
    possible = np.isfinite(scale)
    scale[~possible] = 0.0
    if len(tops) > 1 or not possible.all():
        values *= np.exp(tops - scale)
    if ((values.max(axis=(0, 1), initial=0.0) > SMALL) | ~possible).all():
        with np.errstate(over="ignore"):
            _replace_combinations(values, uncertain, group, axes, child, scale)
        if (values.max(axis=(0, 1), initial=0.0) < 1 / SMALL).all():
            return values, scale
    values, scale = exponentiate(_evaluate_rows(group, axes, child, shared, log=True)[0], 2)
    return values, np.asarray(scale)


def _sum_over_points(factors: Sequence[_Factor], weights: Values) -> Values:
    """Return the sums over points of weights (points, rows) times kernels of all axes, (grid, rows)."""
    left, right = [factor.kernels for factor in factors], weights
    while len(left) > 1:
        before, last = math.prod(part.shape[1] for part in left[:-1]), left[-1].shape[1]
        # as few products of kernels as possible
        if before + last * right.shape[1] > before * last + right.shape[1] or last * right.size > MOST_WEIGHTS:
            break
        right = _combine(left.pop(), right)
    if len(left) == right.shape[1] == 1:
        # unlike in a matrix product, a node's sum does not depend on how many there are
        sums: Values = (left[0] * right).sum(axis=0)
        collect = factors[0].collect
        return (sums if collect is None else collect @ sums)[:, None]
    sizes = [part.shape[1] for part in left]
    columns = math.prod(sizes)
    result = np.empty((columns, right.shape[1]))
    step = max(64, CELLS // len(right))
    for start in range(0, columns, step):
        block = left[0][:, start : start + step] if len(left) == 1 else np.ones((len(right), 1))
        if len(left) > 1:
            index = np.unravel_index(np.arange(start, min(start + step, columns)), sizes)
            block = left[0][:, index[0]]
            for part, own in zip(left[1:], index[1:], strict=True):
                block *= part[:, own]
        np.matmul(block.T, right, out=result[start : start + step])
    shape = [factor.kernels.shape[1] for factor in factors]
    sums = result.reshape(*shape, weights.shape[1])
    for position, factor in enumerate(factors):
        if factor.collect is not None:
            sums = np.moveaxis(np.tensordot(factor.collect, sums, (1, position)), 0, position)
    return np.ascontiguousarray(sums).reshape(-1, weights.shape[1])


def _combine(left: Values, right: Values) -> Values:
    """Return all products of a column of one and a column of the other, (points, left * right)."""
    return np.asarray((left[:, :, None] * right[:, None]).reshape(len(left), -1))


def _find_values(axes: Sequence[Values], combination: Codes, row: Codes | int) -> list[Values]:
    """Return the value of each parent at some combinations of its grid in some rows."""
    index = np.unravel_index(combination, [len(axis) for axis in axes]) if axes else ()
    return [axis[own, row if axis.shape[1] > 1 else 0] for axis, own in zip(axes, index, strict=True)]


def _replace_combinations(
    values: Values,
    chosen: NDArray[np.bool_],
    group: KernelMixture,
    axes: Sequence[Values],
    child: NDArray[Any],
    scale: Values | None,
) -> None:
    """Compute some combinations of the parents (combinations, rows or 1) in logarithms, and replace what is there.

    With a scale of each row, values are written, else logarithms.
    """
    if not chosen.any():
        return
    if child.shape[1] == 1:
        combination, row = np.nonzero(chosen)
        given = [v[None] for v in _find_values(axes, combination, row)]
        logs = log_conditional(group, given, child.T, evaluate_child)[0]
    elif all(axis.shape[1] == 1 for axis in axes):
        # all rows of a combination, because its weights of the points are the same
        combination, row = np.flatnonzero(chosen.any(axis=1))[:, None], np.arange(child.shape[1])
        given = [v.T for v in _find_values(axes, combination, 0)]
        logs = log_conditional(group, given, child.T, evaluate_child)[..., 0].T[..., None]
    else:
        combination, row = np.nonzero(chosen)
        given = [v[:, None] for v in _find_values(axes, combination, row)]
        logs = log_conditional(group, given, child[0, row][:, None], evaluate_child)[:, 0]
    if scale is not None:
        logs = np.exp(logs - np.broadcast_to(scale, values.shape[2])[row][..., None])
    values[combination, :, row] = logs


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
UNDERFLOW, LEAST_LOG_SUM = 745.0, 660.0
"""Exponentials of less than -UNDERFLOW are zero; sums whose logarithm is above -LEAST_LOG_SUM have lost no terms."""


def evaluate_conditional(
    group: KernelMixture, axes: Sequence[Values], child: NDArray[Any], *, log: bool
) -> tuple[Values, Values | float]:
    """Return the conditional, or its logarithm, on axes (nodes, rows or 1) of the parents and of the child, and its log
    scale.

    Returns
    -------
    values : ndarray (parents' grid, child's nodes, rows or 1)
    log_scale : ndarray (rows or 1,), zero for logarithms
    """
    if not all(axis.shape[1] for axis in (*axes, child)):
        return np.empty((math.prod(map(len, axes)), len(child), 0)), np.zeros(0)
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
        return logs, np.zeros(1)
    return exponentiate(logs, 2)


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
        logs = take_logs(sums)
        accurate = logs > np.maximum(missing, -LEAST_LOG_SUM)[:, None]
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
    for block in slice_blocks(len(parent_index), MOST_TARGETS):
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
    rows, grid = parents[0].shape if parents else (1, 1)
    # one row is shared by all, of which there may be none
    rows, nodes = len(child) if rows == 1 else rows, child.shape[1]
    parent_values = [values.reshape(-1) for values in parents]
    combinations = np.stack(parent_values, axis=1) if parent_values else np.empty((1, 0))
    weights, tops = weigh_by_parents(group, parent_values, len(combinations))
    # the combination of the parents and the child's value that each target has
    parent_index = np.broadcast_to(np.arange(len(combinations)).reshape(-1, grid, 1), (rows, grid, nodes)).reshape(-1)
    child_index = np.broadcast_to(np.arange(child.size).reshape(-1, 1, nodes), (rows, grid, nodes)).reshape(-1)
    if not group.first:
        by_state = _log_sums_by_state(group, combinations, weights, tops, int(child.max(initial=0)) + 1)
        total = scipy.special.logsumexp(by_state, axis=0)
        return np.asarray(
            by_state[child.reshape(-1).astype(np.intp)[child_index], parent_index] - total[parent_index]
        ).reshape(rows, grid, nodes)
    if parent_values:
        total = log_kernel_sums(
            group.points[:, 1:], group.widths[0, 1:], group.log_weights, combinations, weights, tops
        )
    else:
        total = scipy.special.logsumexp(group.log_weights, keepdims=True)
    values = child.reshape(-1)
    kernels, child_tops = evaluate_child(group, values)
    result = np.full(len(parent_index), -np.inf)
    possible = np.flatnonzero(np.isfinite(child_tops[child_index]))
    i, j = parent_index[possible], child_index[possible]
    joint = _sum_jointly(group, (weights, tops), (kernels, child_tops), combinations, values, i, j, True)
    result[possible] = joint - total[i]
    return result.reshape(rows, grid, nodes)


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


def log_factors_without_self(group: KernelMixture, left_out: Values) -> Values:
    """Return the logarithm of the factor by which leaving its own kernel out changes the conditional at each point.

    Parameters
    ----------
    group : KernelMixture
    left_out : ndarray (points,)
        The logarithms of the shares of their weights that are left out.

    Examples
    --------
    >>> zeros = np.zeros(2)
    >>> one = KernelMixture(np.zeros((2, 1)), np.ones((2, 1)), zeros, zeros, np.zeros(2, int), (-9.0, 9.0), 1)
    >>> log_factors_without_self(one, zeros)
    array([0., 0.])
    """
    if group.first:
        own = group.log_weights - group.log_inside
        numerator = _log_sums_at(group.points, group.widths[0], own, group.points)
        denominator = _log_sums_at(group.points[:, 1:], group.widths[0, 1:], group.log_weights, group.points[:, 1:])
        return _log_rest(left_out + own - numerator) - _log_rest(left_out + group.log_weights - denominator)
    by_state = np.stack(
        [
            _log_sums_at(group.points[mine], group.widths[mine][0], group.log_weights[mine], group.points)
            for mine in (group.labels == label for label in np.unique(group.labels))
        ]
    )
    numerator = np.take_along_axis(by_state, np.unique(group.labels, return_inverse=True)[1].reshape(1, -1), axis=0)[0]
    denominator = np.asarray(scipy.special.logsumexp(by_state, axis=0))
    return _log_rest(left_out + group.log_weights - numerator) - _log_rest(left_out + group.log_weights - denominator)


def _log_sums_at(points: Values, widths: Values, log_weights: Values, targets: Values) -> Values:
    """Return the logarithm of the sum of all kernels at each target, or of all weights if there are no variables."""
    if not points.shape[1]:
        return np.full(len(targets), float(scipy.special.logsumexp(log_weights)))

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
