"""Running a compiled problem on rows of evidence: tables over the scopes, normalized, with an error for each row."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from hybridbn.errors import TooWide
from hybridbn.inference.axes import NodeAxis, node_axis
from hybridbn.inference.evidence import Evidence
from hybridbn.inference.placement import STRICTER, place, start_cells, table_size
from hybridbn.inference.problem import Problem
from hybridbn.inference.shared import SharedGrid, finer, shared_grid
from hybridbn.inference.sources import Axis
from hybridbn.potentials.base import frozen
from hybridbn.variables import Values, shorten

__all__ = ["Solution", "checked_width", "chunks", "solutions"]

CHUNK_BYTES = 1 << 20
MOST_BYTES = 1 << 26
MOST_ROWS = 1 << 14
NEARLY = 1e-6
"""A grid with less of an estimated error tells how probable the evidence is, about."""
_FIRST = frozen(np.arange(1))


@dataclass
class Solution:
    """What was found for some rows.

    Attributes
    ----------
    problem : the one that was solved: of rows observed in the same variables
    rows : numbers of the rows
    evidence : their evidence
    axes : the axes of all hidden variables
    tables : for each scope an array (*scope, rows) that sums to one; NaN in impossible rows
    log_norm : (rows,) log of what the tables summed to: the probability of the evidence that the problem contains
    error : (rows,)
    """

    problem: Problem
    rows: NDArray[np.intp]
    evidence: Evidence
    axes: Mapping[str, Axis]
    tables: list[Values]
    log_norm: Values
    error: Values


def chunks(problem: Problem, evidence: Evidence, max_bytes: float) -> Iterator[tuple[NDArray[np.intp], Evidence]]:
    """Yield the rows in chunks whose size depends on the problem alone, with their evidence."""
    width = checked_width(problem, max_bytes)
    if evidence.rows == 1:
        yield _FIRST, evidence
        return
    row = 8 * max(width, 1.0)
    chunk = int(min(max(CHUNK_BYTES / row, 64), max(MOST_BYTES / row, 1), MOST_ROWS))
    for start in range(0, max(evidence.rows, 1), chunk):
        rows = np.arange(start, min(start + chunk, evidence.rows))
        whole = len(rows) == evidence.rows
        yield rows, evidence if whole else evidence.take(slice(start, start + chunk), len(rows))


def solutions(problem: Problem, evidence: Evidence, tolerance: float, max_bytes: float) -> Iterator[Solution]:
    """Solve a problem for all rows, chunk by chunk; take what is wanted of a solution before the next one is asked for."""
    kept = problem.tables  # this reference keeps them for all chunks
    for members, mine, group in _groups(problem, evidence):
        for rows, part in chunks(mine, group, max_bytes):
            if mine.nodes:
                for found in _solve_with_nodes(mine, part, members[rows], tolerance, max_bytes):
                    yield _with_observed(problem, found)
            else:
                yield _with_observed(problem, _solve(mine, part, members[rows], {}, np.zeros(len(rows))))
    del kept


def _groups(problem: Problem, evidence: Evidence) -> Iterator[tuple[NDArray[np.intp], Problem, Evidence]]:
    """Yield rows in which the same variables with nodes are observed, with a problem of their own.

    In such a problem an observed variable has no nodes, and what is left can share a grid.
    """
    observed = np.array([evidence.findings[name].observed for name in problem.partly])
    if not len(observed) or not evidence.rows:
        yield np.arange(evidence.rows), problem, evidence
        return
    patterns, group = np.unique(observed, axis=1, return_inverse=True)
    order = np.argsort(group.ravel(), kind="stable")
    ends = np.cumsum(np.bincount(group.ravel()))
    for pattern, rows in zip(patterns.T, np.split(order, ends[:-1]), strict=True):
        known = frozenset(name for name, there in zip(problem.partly, pattern, strict=True) if there)
        findings = {
            name: finding for name, finding in evidence.findings.items() if name not in problem.partly or name in known
        }
        yield rows, problem.observing(known), Evidence(findings, evidence.rows, evidence.single).take(rows, len(rows))


def _with_observed(problem: Problem, solution: Solution) -> Solution:
    """Give targets that are observed in these rows, and hidden in others, one node each."""
    if solution.problem is problem:
        return solution
    axes, tables = dict(solution.axes), list(solution.tables)
    for number, name in enumerate(problem.targets):
        if name in problem.partly and name not in axes:
            values = solution.evidence.findings[name].values
            axes[name] = axis = node_axis(values[None], values[None], values)
            tables[number] = tables[number] * (axis.weights > 0)
    return replace(solution, axes=axes, tables=tables)


def _solve_with_nodes(
    problem: Problem, evidence: Evidence, rows: NDArray[np.intp], tolerance: float, max_bytes: float
) -> Iterator[Solution]:
    """Try the grid that all rows share; rows that need more get nodes of their own."""
    if not evidence.rows:
        nothing = node_axis(np.zeros((1, 0)), np.ones((1, 0)))
        yield _solve(problem, evidence, rows, dict.fromkeys(problem.nodes, nothing), np.zeros(0))
        return
    left = np.arange(evidence.rows)
    stricter = tolerance / (STRICTER * len(problem.nodes))
    grids = problem.tables.grids
    if tolerance not in grids:
        grids[tolerance] = shared_grid(problem, stricter)
    grid = grids[tolerance]
    rough: Solution | None = None
    if grid is not None:
        solution, fine, splits = _solve_on_grid(problem, grid, evidence, rows, stricter)
        while not fine.all() and (grid := finer(problem, grid, splits)) is not None:
            grids[tolerance] = grid
            solution, fine, splits = _solve_on_grid(problem, grid, evidence, rows, stricter)
        left = np.flatnonzero(~fine)
        if fine.any():
            yield solution if fine.all() else _chosen(solution, np.flatnonzero(fine))
        rough = _chosen(solution, left) if len(left) else None
        del solution
    if len(left):
        part = evidence if len(left) == evidence.rows else evidence.take(left, len(left))
        for chosen, placed in place(problem, part, tolerance, max_bytes / 64):
            mine = left[chosen]
            found = _solve(problem, evidence.take(mine, len(mine)), rows[mine], placed.axes, placed.error)
            if rough is None:
                yield found
                continue
            missed = _missed(found, rough, chosen)
            if missed.any():
                yield _chosen(rough, chosen[missed])
            if not missed.all():
                yield _chosen(found, np.flatnonzero(~missed)) if missed.any() else found


def _missed(found: Solution, rough: Solution, rows: NDArray[np.intp]) -> NDArray[np.bool_]:
    """Tell the rows whose own nodes hold less than the shared ones do, although those are nearly fine enough.

    Densities are not negative, so nodes that find clearly less of the evidence's probability have missed some of it.
    """
    with np.errstate(invalid="ignore"):
        less = rough.log_norm[rows] - found.log_norm
    return (rough.error[rows] < NEARLY) & (less > np.maximum(NEARLY, 10 * rough.error[rows]))


def _solve_on_grid(
    problem: Problem, grid: SharedGrid, evidence: Evidence, rows: NDArray[np.intp], tolerance: float
) -> tuple[Solution, NDArray[np.bool_], dict[str, NDArray[np.bool_]]]:
    """Solve all rows on a shared grid; tell for which it is good enough, and which cells are too coarse for the others."""
    run = grid.machine.run(grid.axes, evidence)
    kept = len(problem.scopes)
    marginals = dict(zip(problem.nodes, run.tables[kept:], strict=True))
    settled, error, splits = grid.judged(marginals, evidence, tolerance)
    if not settled.all():
        # what counts in the end is the error of all variables together
        together = tolerance * len(problem.nodes)
        likely, _, splits = grid.judged(marginals, evidence, together)
        settled |= likely & (error <= together)
    axes: dict[str, Axis] = {**problem.axes, **{name: grid.nodes(name, evidence.rows) for name in problem.nodes}}
    return (
        Solution(problem, rows, evidence, axes, run.tables[:kept], run.log_norm, error),
        settled & ~run.doubtful,
        splits,
    )


def _chosen(solution: Solution, rows: NDArray[np.intp]) -> Solution:
    """Return some rows of a solution."""
    return Solution(
        solution.problem,
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


def checked_width(problem: Problem, max_bytes: float) -> float:
    """Return the size of the largest table, or raise `TooWide` before anything is allocated."""
    order = problem.order
    cells = order.largest
    if problem.nodes:
        cells = float(table_size(problem, order.clique, dict.fromkeys(problem.nodes, start_cells(problem))))
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
        return Solution(problem, rows, evidence, axes, [np.ones(count) for _ in problem.scopes], np.zeros(count), error)
    run = problem.machine.run(axes, evidence)
    if run.doubtful.any():
        again = np.flatnonzero(run.doubtful)
        fresh = problem.machine.run_in_logs(_taken(axes, again), evidence.take(again, len(again)))
        run.log_norm[again] = fresh.log_norm
        for table, better in zip(run.tables, fresh.tables, strict=True):
            table[..., again] = better
    return Solution(problem, rows, evidence, axes, run.tables, run.log_norm, error)
