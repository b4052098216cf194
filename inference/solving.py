"""Running a compiled problem on rows of evidence: tables over the scopes, normalized, with an error for each row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hybridbn.errors import TooWide
from hybridbn.inference.axes import ORDER, NodeAxis
from hybridbn.inference.evidence import Evidence
from hybridbn.inference.placement import STRICTER, place, start_cells
from hybridbn.inference.problem import Problem
from hybridbn.inference.shared import SharedGrid, shared_grid, touches_nodes
from hybridbn.inference.sources import Axis
from hybridbn.variables import Values, shorten

__all__ = ["Solution", "solutions"]

CHUNK_BYTES = 1 << 20
MOST_BYTES = 1 << 26
MOST_ROWS = 1 << 14
LINEAR_SPAN = 600.0
SUSPICIOUS = 1e-250


@dataclass
class Solution:
    """What was found for some rows.

    Attributes
    ----------
    rows : numbers of the rows
    evidence : their evidence
    axes : the axes of all hidden variables
    tables : for each scope an array (*scope, rows) that sums to one; NaN in impossible rows
    log_norm : (rows,) log of what the tables summed to: the probability of the evidence that the problem contains
    error : (rows,)
    """

    rows: NDArray[np.intp]
    evidence: Evidence
    axes: Mapping[str, Axis]
    tables: list[Values]
    log_norm: Values
    error: Values


def solutions(problem: Problem, evidence: Evidence, tolerance: float, max_bytes: float) -> list[Solution]:
    """Solve a problem for all rows, in chunks of a size that depends on the problem alone."""
    width = _checked_width(problem, max_bytes)
    row = 8 * max(width, 1.0)
    chunk = int(min(max(CHUNK_BYTES / row, 64), max(MOST_BYTES / row, 1), MOST_ROWS))
    found = []
    for start in range(0, max(evidence.rows, 1), chunk):
        rows = np.arange(start, min(start + chunk, evidence.rows))
        part = evidence if len(rows) == evidence.rows else evidence.take(slice(start, start + chunk), len(rows))
        if problem.nodes:
            found += _solve_with_nodes(problem, part, rows, tolerance, max_bytes)
        else:
            found.append(_solve(problem, part, rows, {}, np.zeros(len(rows))))
    return found


def _solve_with_nodes(
    problem: Problem, evidence: Evidence, rows: NDArray[np.intp], tolerance: float, max_bytes: float
) -> list[Solution]:
    """Try the grid that all rows share; rows that need more get nodes of their own."""
    found = []
    left = np.arange(evidence.rows)
    stricter = tolerance / (STRICTER * len(problem.nodes))
    if tolerance not in problem.grids:
        problem.grids[tolerance] = shared_grid(problem, stricter)
    grid = problem.grids[tolerance]
    if grid is not None and evidence.rows:
        solution, fine = _solve_on_grid(problem, grid, evidence, rows, stricter)
        left = np.flatnonzero(~fine)
        if fine.any():
            found.append(solution if fine.all() else _chosen(solution, np.flatnonzero(fine)))
    if len(left):
        part = evidence if len(left) == evidence.rows else evidence.take(left, len(left))
        for chosen, placed in place(problem, part, tolerance, max_bytes / 64):
            mine = left[chosen]
            found.append(_solve(problem, evidence.take(mine, len(mine)), rows[mine], placed.axes, placed.error))
    return found


def _solve_on_grid(
    problem: Problem, grid: SharedGrid, evidence: Evidence, rows: NDArray[np.intp], tolerance: float
) -> tuple[Solution, NDArray[np.bool_]]:
    """Solve all rows on a shared grid, and tell for which it is good enough."""
    count = evidence.rows
    arrays: dict[int, Values] = {}
    scale: Values | float = 0.0
    fine = np.ones(count, dtype=bool)
    warm = grid.program.warm
    for number, source in enumerate(grid.sources):
        if warm and source.static:
            continue
        if source.rows and touches_nodes(source, problem):
            array, top, lost = _guarded(source.logs(grid.axes, evidence))
            log_scale: Values | float = top
            fine &= ~lost
        else:
            array, log_scale = source.values(grid.axes, evidence)
        arrays[number] = array
        if source.static:
            grid.static_scale += float(np.max(log_scale))
        else:
            scale = scale + log_scale
    tables = grid.program.run(arrays)
    scopes = [*problem.scopes, *((name,) for name in problem.nodes)]
    tables = [_with_rows(table, scope, count) for table, scope in zip(tables, scopes, strict=True)]
    total = tables[0].sum(axis=tuple(range(tables[0].ndim - 1)))
    with np.errstate(divide="ignore"):
        log_norm = np.log(total) + scale + grid.static_scale
    tables = [_normalized(table) for table in tables]
    fine &= total > SUSPICIOUS
    kept = len(problem.scopes)
    marginals = dict(zip(problem.nodes, tables[kept:], strict=True))
    settled, error = grid.judged(problem, marginals, evidence, tolerance)
    axes: dict[str, Axis] = {**problem.axes, **{name: grid.nodes(name, count) for name in problem.nodes}}
    return Solution(rows, evidence, axes, tables[:kept], log_norm, error), fine & settled


def _chosen(solution: Solution, rows: NDArray[np.intp]) -> Solution:
    """Return some rows of a solution."""
    return Solution(
        solution.rows[rows],
        solution.evidence.take(rows, len(rows)),
        _taken(solution.axes, rows),
        [table[..., rows] for table in solution.tables],
        solution.log_norm[rows],
        solution.error[rows],
    )


def _taken(axes: Mapping[str, Axis], rows: NDArray[np.intp]) -> dict[str, Axis]:
    return {
        name: NodeAxis(axis.low[:, rows], axis.high[:, rows], axis.points[:, rows], axis.weights[:, rows])
        if isinstance(axis, NodeAxis)
        else axis
        for name, axis in axes.items()
    }


def _checked_width(problem: Problem, max_bytes: float) -> float:
    order = problem.order
    cells = order.largest
    if problem.nodes:
        first = ORDER * start_cells(problem)
        cells = float(np.prod([float(first if n in problem.nodes else problem.axes[n].size) for n in order.clique]))
    # while a table is made, what it is made from may be of the same size
    needed = 16 * cells
    if needed > max_bytes:
        raise TooWide(
            f"exact inference needs a table of {cells:.3g} cells ({needed / 2**30:.3g} GiB to work with) over "
            f"{shorten(order.clique)}; at most {max_bytes / 2**30:.3g} GiB are allowed. Observe some of these variables, ask for "
            "fewer targets at once, or raise max_bytes"
        )
    return order.largest


def _solve(
    problem: Problem, evidence: Evidence, rows: NDArray[np.intp], nodes: Mapping[str, NodeAxis], error: Values
) -> Solution:
    axes: dict[str, Axis] = {**problem.axes, **nodes}
    count = evidence.rows
    if not problem.sources:
        return Solution(rows, evidence, axes, [np.ones(count) for _ in problem.scopes], np.zeros(count), error)
    arrays: dict[int, Values] = {}
    scale: Values | float = 0.0
    wide = np.zeros(count, dtype=bool)
    warm = problem.program.warm
    for number, source in enumerate(problem.sources):
        if warm and source.static:
            continue
        if nodes and touches_nodes(source, problem):
            array, top, lost = _guarded(source.logs(axes, evidence))
            log_scale: Values | float = top
            wide |= lost
        else:
            array, log_scale = source.values(axes, evidence)
        arrays[number] = array
        if not source.static:
            scale = scale + log_scale
        else:
            problem.static_scale += float(np.max(log_scale))
    tables = [
        _with_rows(table, scope, count)
        for table, scope in zip(problem.program.run(arrays), problem.scopes, strict=True)
    ]
    total = tables[0].sum(axis=tuple(range(tables[0].ndim - 1)))
    with np.errstate(divide="ignore"):
        log_norm = np.log(total) + scale + problem.static_scale
    tables = [_normalized(table) for table in tables]
    doubt = ~(total > SUSPICIOUS) | wide
    if doubt.any():
        doubtful = np.flatnonzero(doubt)
        again, log_again = _solve_in_logs(problem, evidence.take(doubtful, len(doubtful)), axes, doubtful)
        log_norm[doubtful] = log_again
        for table, fresh in zip(tables, again, strict=True):
            table[..., doubtful] = fresh
    return Solution(rows, evidence, axes, tables, log_norm, error)


def _guarded(logs: Values) -> tuple[Values, Values, NDArray[np.bool_]]:
    """Exponentiate logarithms (rows last); tell the rows in which they span too much for that."""
    over = tuple(range(logs.ndim - 1))
    top = logs.max(axis=over, initial=-np.inf)
    top = np.where(np.isfinite(top), top, 0.0)
    low = np.where(np.isneginf(logs), np.inf, logs).min(axis=over, initial=np.inf)
    return np.exp(logs - top), top, low < top - LINEAR_SPAN


def _with_rows(table: Values, scope: Sequence[str], count: int) -> Values:
    if table.ndim == len(scope):
        table = table[..., None]
    return np.array(np.broadcast_to(table, (*table.shape[:-1], count)))


def _normalized(table: Values) -> Values:
    total = table.sum(axis=tuple(range(table.ndim - 1)))
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(table / total)


def _solve_in_logs(
    problem: Problem, evidence: Evidence, axes: Mapping[str, Axis], rows: NDArray[np.intp]
) -> tuple[list[Values], Values]:
    taken = _taken(axes, rows)
    arrays = {number: source.logs(taken, evidence) for number, source in enumerate(problem.sources)}
    tables: list[Values] = []
    log_norm = np.full(len(rows), -np.inf)
    for logs, scope in zip(problem.program.run_log(arrays), problem.scopes, strict=True):
        logs = _with_rows(logs, scope, len(rows))
        top = logs.max(axis=tuple(range(logs.ndim - 1)))
        shifted = np.exp(logs - np.where(np.isfinite(top), top, 0.0))
        total = shifted.sum(axis=tuple(range(logs.ndim - 1)))
        with np.errstate(divide="ignore", invalid="ignore"):
            if not tables:
                log_norm = np.log(total) + np.where(np.isfinite(top), top, 0.0)
            tables.append(shifted / total)
    return tables, log_norm


def padded(axes: Sequence[NodeAxis], tables: Sequence[Values]) -> tuple[Values, Values, list[Values]]:
    """Bring node axes of several chunks, and tables with one dimension of nodes, to a common number of cells."""
    cells = max(len(axis.low) for axis in axes)
    lows, highs, filled = [], [], []
    for axis, table in zip(axes, tables, strict=True):
        extra = cells - len(axis.low)
        lows.append(np.concatenate([axis.low, np.repeat(axis.low[:1], extra, axis=0)]))
        highs.append(np.concatenate([axis.high, np.repeat(axis.low[:1], extra, axis=0)]))
        filled.append(np.concatenate([table, np.zeros((extra * ORDER, table.shape[1]))]))
    return np.concatenate(lows, axis=1), np.concatenate(highs, axis=1), filled
