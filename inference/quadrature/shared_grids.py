"""Gauss-Legendre nodes that all rows share, laid where the prior is.

Most evidence leaves the posterior where the prior has its mass, and smooth on the same scale. Then one grid does for
all rows: whatever needs no evidence is computed once and kept with the problem. Rows whose posterior turns out to be
too sharp for the grid, or to lie at its ends, are told apart here and get nodes of their own from
`hybridbn.inference.quadrature.grids`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hybridbn.inference.axes import Axis, NodeAxis, node_axis
from hybridbn.inference.elimination.executor import Executor, FactorSource, PotentialSource
from hybridbn.inference.elimination.patterns import PatternExecutor
from hybridbn.inference.elimination.program import Factor, Program, compile_program
from hybridbn.inference.evidence import Evidence
from hybridbn.inference.problem import Problem
from hybridbn.inference.quadrature.grids import assess_cells
from hybridbn.inference.quadrature.modes import find_modes_of_root
from hybridbn.inference.quadrature.supports import find_prior_ranges
from hybridbn.variables import Continuous, Values

__all__ = ["RowAssessment", "SharedGrid", "make_shared_grid", "refine_shared_grid"]

START_CELLS = 12
FEWER_CELLS = 4
"""The number of cells to start with where three or more variables with nodes are in one table."""
MOST_CELLS = 96
MOST_CELLS_ALONE = 1024
"""The largest number of cells of a variable, and of the only variable with nodes."""
MOST_TABLE = 4e6
MOST_AT_FIRST = 1e6
"""A grid with a larger table at first would hardly be fine enough before it is too large."""
ROUNDS = 6
MOST_REFINEMENTS = 3
"""How often a grid is made finer for evidence for which it was too coarse."""
RESOLVED = 4.0
"""A cell resolves features of this part of its width."""
AT_THE_END = 1e-13


class RowAssessment(NamedTuple):
    """What a shared grid is worth for some rows of evidence.

    Attributes
    ----------
    fine : ndarray (rows,), whether it is fine enough
    error : ndarray (rows,)
    splits : for each variable with nodes, the cells that are too coarse for some row that lies inside the grid
    """

    fine: NDArray[np.bool_]
    error: Values
    splits: dict[str, NDArray[np.bool_]]


@dataclass
class SharedGrid:
    """A grid for all rows of a problem, and what was computed on it without evidence.

    Attributes
    ----------
    axes : all axes; those of nodes have points (nodes,)
    open_ends : for each variable with nodes, whether density may go on below and above the grid
    edges : of the cells of each variable with nodes
    made_finer : how often the grid was made finer for evidence
    machine : gives the tables over the problem's scopes, then the marginals of the variables with nodes
    """

    axes: dict[str, Axis]
    open_ends: dict[str, tuple[bool, bool]]
    edges: dict[str, Values]
    executor: Executor | PatternExecutor
    refinements: int = 0

    @property
    def widest(self) -> float:
        """Cells of the largest table of all, with rows or without."""
        if isinstance(self.executor, PatternExecutor):
            # hardly any row has all variables of a table hidden
            return self.executor.largest
        return _find_widest(self.executor.program, self.axes)

    def estimate_bytes(self) -> int:
        """Return about how many bytes the grid's stored tables take."""
        return self.executor.estimate_bytes()

    @property
    def largest(self) -> float:
        """Cells of the largest table that has rows."""
        if isinstance(self.executor, PatternExecutor):
            return self.executor.largest
        program = self.executor.program
        with_rows = [names for names, rows in zip(program.names, program.rows, strict=True) if rows]
        return max((float(np.prod([self.axes[name].size for name in names])) for names in with_rows), default=1.0)

    def nodes(self, name: str, rows: int) -> NodeAxis:
        """Return the axis of a variable as that of so many rows."""
        axis = self.axes[name]
        assert isinstance(axis, NodeAxis)
        return NodeAxis(
            np.broadcast_to(axis.low, (len(axis.low), rows)),
            np.broadcast_to(axis.high, (len(axis.high), rows)),
            np.broadcast_to(axis.points[:, None], (len(axis.points), rows)),
            np.broadcast_to(axis.weights[:, None], (len(axis.weights), rows)),
        )

    def assess_rows(self, marginals: Mapping[str, Values], evidence: Evidence, tolerance: float) -> RowAssessment:
        """Tell for which rows the grid is fine enough, the error estimated, and which cells the other rows want
        halved.
        """
        fine = np.ones(evidence.rows, dtype=bool)
        inside = np.ones(evidence.rows, dtype=bool)
        error = np.zeros(evidence.rows)
        splits = {}
        for name, table in marginals.items():
            with np.errstate(divide="ignore"):
                seen = assess_cells(np.log(table), self.nodes(name, evidence.rows), evidence, name, tolerance)
            # where nothing was seen, something may lie between the nodes
            inside &= table.max(axis=0, initial=0.0) > 0
            fine &= seen.settled
            error += seen.error
            splits[name] = seen.split
            for end, is_open in zip((0, -1), self.open_ends[name], strict=True):
                if is_open:
                    inside &= table[end] <= AT_THE_END
        rough = inside & ~fine
        return RowAssessment(
            fine & inside, error, {name: np.asarray(split[:, rough].any(axis=1)) for name, split in splits.items()}
        )


def make_shared_grid(problem: Problem, tolerance: float, table_cells: float) -> SharedGrid | None:
    """Lay the shared grid of a problem; None where it, or a table of more than `table_cells`, would be too large."""
    if problem.shared is None:
        return None
    cells: dict[str, Values] = {}
    open_ends = {}
    most_cells = _most_cells(problem)
    for name, (low, high, below, above) in find_prior_ranges(problem).items():
        if name not in problem.nodes:
            continue
        if not (np.isfinite(low) and np.isfinite(high) and 0 < high - low < 1e100):
            return None
        edges = _first_edges(problem, name, low, high)
        if len(edges) - 1 > most_cells:
            return None
        cells[name] = edges
        open_ends[name] = (below, above)
    if set(cells) != set(problem.nodes):
        return None
    if _largest_table(problem, _axes(problem, cells)) > MOST_AT_FIRST:
        return None
    static = tuple(source for source in problem.shared if source.static)
    for _ in range(ROUNDS):
        axes = _axes(problem, cells)
        if _largest_table(problem, axes) > MOST_TABLE:
            return None
        fresh = _refine_for_prior(static, axes, cells, tolerance, table_cells)
        if fresh is None:
            break
        if max(map(len, fresh.values())) > most_cells + 1:
            return None
        cells = fresh
    grid = _make_grid(problem, cells, open_ends)
    return grid if grid.widest <= table_cells else None


def refine_shared_grid(
    problem: Problem, grid: SharedGrid, splits: Mapping[str, NDArray[np.bool_]], table_cells: float
) -> SharedGrid | None:
    """Return the grid with some cells halved; None where it, or a table of more than `table_cells`, would be too large,
    or it was made finer often enough.
    """
    if grid.refinements >= MOST_REFINEMENTS or not any(split.any() for split in splits.values()):
        return None
    edges = {name: _halve_cells(cells, splits[name]) for name, cells in grid.edges.items()}
    most_cells = _most_cells(problem)
    if max(map(len, edges.values())) > most_cells + 1 or _largest_table(problem, _axes(problem, edges)) > MOST_TABLE:
        return None
    finer = _make_grid(problem, edges, grid.open_ends, grid.refinements + 1)
    return finer if finer.widest <= table_cells else None


def _make_grid(
    problem: Problem, cells: dict[str, Values], open_ends: dict[str, tuple[bool, bool]], refinements: int = 0
) -> SharedGrid:
    assert problem.shared is not None
    axes = _axes(problem, cells)
    factors = [Factor(source.names, source.rows, source.static) for source in problem.shared]
    scopes = [*problem.scopes, *((name,) for name in problem.nodes)]
    sizes = {name: axis.size for name, axis in axes.items()}
    distinct = list(dict.fromkeys(scopes))
    program = compile_program(factors, distinct, sizes, partly_observed=problem.partly_observed)
    outputs = dict(zip(distinct, program.outputs, strict=True))
    program.scopes, program.outputs = tuple(scopes), [outputs[scope] for scope in scopes]
    program.on_growth = problem.on_growth
    executor: Executor | PatternExecutor
    if problem.partly_observed:
        executor = PatternExecutor(problem.shared, program, problem.partly_observed, sizes)
    else:
        executor = Executor(problem.shared, program)
    return SharedGrid(axes, open_ends, cells, executor, refinements)


def _halve_cells(edges: Values, split: NDArray[np.bool_]) -> Values:
    return np.sort(np.concatenate([edges, ((edges[:-1] + edges[1:]) / 2)[split]]))


def _most_cells(problem: Problem) -> int:
    return MOST_CELLS_ALONE if len(problem.nodes) == 1 else MOST_CELLS


def _first_edges(problem: Problem, name: str, low: float, high: float) -> Values:
    """Cut at breaks, and finely enough for the likelihoods of observed children and for functions."""
    touching = [potential for potential in problem.potentials.values() if name in potential.scope]
    together = max(len(set(problem.nodes).intersection(factor.names)) for factor in problem.factors)
    count = START_CELLS if together <= 2 else FEWER_CELLS
    observed = problem.hard.union(problem.partly_observed)
    varying = {
        id(source.potential) for source in problem.shared or () if isinstance(source, PotentialSource) and source.rows
    }
    for potential in touching:
        if not observed.isdisjoint(potential.scope) or id(potential) in varying or potential.opaque:
            scale = potential.scale(name)
            most = _most_cells(problem)
            if scale * RESOLVED * most < high - low:
                return np.linspace(low, high, most + 2)
            count = max(count, int(np.ceil((high - low) / (scale * RESOLVED))))
    breaks = [np.ravel(potential.breaks(name, {})) for potential in touching]
    own = problem.potentials.get(name)
    if own is not None and own.opaque and not any(isinstance(parent, Continuous) for parent in own.parents):
        breaks.append(find_modes_of_root(own).edges[:, 0])
    inner = np.concatenate([np.linspace(low, high, count + 1), *breaks])
    return np.unique(inner[(inner >= low) & (inner <= high)])


def _axes(problem: Problem, cells: Mapping[str, Values]) -> dict[str, Axis]:
    axes: dict[str, Axis] = dict(problem.axes)
    for name, edges in cells.items():
        axis = node_axis(edges[:-1, None], edges[1:, None])
        axes[name] = NodeAxis(axis.low, axis.high, axis.points[:, 0], axis.weights[:, 0])
    return axes


def _find_widest(program: Program, axes: Mapping[str, Axis]) -> float:
    """Return the cells of the largest table of a program."""
    return max((math.prod(float(axes[name].size) for name in names) for names in program.names), default=1.0)


def _largest_table(problem: Problem, axes: Mapping[str, Axis]) -> float:
    return max(float(np.prod([float(axes[name].size) for name in factor.names])) for factor in problem.factors)


def _refine_for_prior(
    static: tuple[FactorSource, ...],
    axes: Mapping[str, Axis],
    cells: Mapping[str, Values],
    tolerance: float,
    table_cells: float,
) -> dict[str, Values] | None:
    """Halve the cells in which the prior (what is known without evidence) is not smooth; None if there are none, or if
    that would take larger tables.
    """
    names = tuple(cells)
    factors = [Factor(source.names) for source in static]
    sizes = {name: axis.size for name, axis in axes.items()}
    program = compile_program(factors, [(name,) for name in names], sizes)
    if _find_widest(program, axes) > table_cells:
        return None
    nothing = Evidence({}, 1, single=False)
    tables = program.run({number: source.values(axes, nothing)[0] for number, source in enumerate(static)})
    fresh, changed = {}, False
    for name, table in zip(names, tables, strict=True):
        edges = cells[name]
        axis = node_axis(edges[:-1, None], edges[1:, None])
        with np.errstate(divide="ignore"):
            logs = np.log(table)
        split = assess_cells(logs[:, None], axis, nothing, name, tolerance).split[:, 0]
        changed |= bool(split.any())
        fresh[name] = _halve_cells(edges, split)
    return fresh if changed else None
