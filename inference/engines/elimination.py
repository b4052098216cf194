"""The engine of sum-product elimination, with quadrature for hidden continuous variables without a closed form.

Rows are solved in chunks, on a grid of nodes that all rows share where it is fine enough, else on nodes of their own.

Densities that are known by their values alone and have several hidden numbers at once may be narrow, or have a kink,
along a ridge that is aligned with none of the numbers. A product of two grids would need as many points along each as
the ridge is thin. So one of the numbers is observed in thought, at the nodes of its own grid: each problem then has one
hidden number less, and that along which the ridge is crossed gets a grid of its own at each node, around the modes that
are found there. What comes out as the probability of the evidence and of the node is the marginal of the first number,
whose grid is refined like any other.

Rows that differ in what is observed are solved apart where they would be too wide together. A variable that some rows
know is hidden in the problem of all rows. In that of the rows which know it, it is observed, and takes no dimension; so
only the rows whose own problem is too wide are sliced, sampled or refused.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import itemgetter
from typing import Any, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from hybridbn.errors import NetworkError, TooWide
from hybridbn.inference.axes import (
    CENTRAL_TAIL,
    Axis,
    NodeAxis,
    StateAxis,
    find_prior_reaches,
    node_axis,
    node_axis_of,
)
from hybridbn.inference.compilation import Problem, problem_of
from hybridbn.inference.elimination.factors import (
    PointwiseMarginal,
    RowGroup,
    group_rows,
    normalize,
    normalize_logs,
    run_program,
    run_program_in_logs,
)
from hybridbn.inference.engines import Engine, Plan, Solution, choose_plan
from hybridbn.inference.evidence import Evidence, Finding
from hybridbn.inference.grids import (
    MOST_SHARED_CELLS,
    SharedGrid,
    assess_cells,
    estimate_ridge_error,
    make_shared_grid,
    place_nodes,
    refine_shared_grid,
    refinement_tolerance,
    start_cells,
    table_size,
)
from hybridbn.inference.posteriors.continuous import Density
from hybridbn.inference.posteriors.grid import PiecewisePosterior
from hybridbn.inference.posteriors.mixtures import GaussianPosterior
from hybridbn.jobs import run_in_threads
from hybridbn.options import Options
from hybridbn.potentials.base import Potential, take_logs
from hybridbn.potentials.mode_search import REACHES, evaluate, find_modes
from hybridbn.variables import Continuous, Discrete, Values

CHUNK_BYTES = 1 << 22
"""The largest table of a chunk has about this size, so that it stays in the cache of the processor."""
MOST_BYTES = 1 << 26
"""Chunks of 64 rows may take this much where the tables of single rows are large."""
GRID_CELLS = 1 << 19
"""The largest table of a chunk of rows that share a grid has about this many cells."""
MOST_ROWS = 1 << 17
"""The largest number of rows in a chunk."""
NEARLY = 1e-6
"""A shared grid whose estimated error is smaller approximates the probability of the evidence."""
IRRATIONALS = np.sqrt([2.0, 3, 5, 7, 11, 13, 17, 19, 23, 29])[:, None]
"""Multiples of them, modulo one, are spread over a cube."""
FINEST = 4.0 * MOST_SHARED_CELLS
"""A family is too sharp if its scale times this is less than the range."""
SOMEWHERE = (-1.0, 2.0)
"""Ends of ranges that are not known."""
PLACES = 24
"""The places of its other variables at which a family is looked at along one."""
SMOOTH = 1e-5
"""The error along a line, which many lines together even out, at which a family is smooth."""
NEGLIGIBLE_SHARE = 1e-22
"""Nodes with a smaller share of the probability are left out."""
_OnGrid: TypeAlias = tuple[Solution, NDArray[np.bool_], dict[str, NDArray[np.bool_]]]
"""The solution on a grid, the rows for which it is accurate, and the cells that are too coarse for others."""
_SolveOnGrid: TypeAlias = Callable[[Problem, SharedGrid, Evidence, NDArray[np.intp], float], _OnGrid]
_NOTHING: frozenset[str] = frozenset()


class Elimination(Engine):
    """Sum-product elimination: answers every question whose tables are small enough."""

    rank = 50

    def plan(self, problem: Problem, evidence: Evidence, options: Options) -> Plan:
        """Return the plan, with the cost of the widest table."""
        return EliminationPlan.of(problem, evidence, options)


class EliminationPlan(Plan):
    """The elimination of a problem's variables."""

    @classmethod
    def of(cls, problem: Problem, evidence: Evidence, options: Options, *, grouped: bool = True) -> Self:
        """Estimate the cost of a problem; with `grouped`, of the most expensive of its groups of rows, which are solved
        apart.
        """
        widest, cells = problem, _table_cells(problem)
        # the table with all of them hidden is the largest; the others are looked at only where that is too large
        if grouped and problem.partly_observed and evidence.rows and 16 * cells > options.max_bytes:
            groups = _group_rows(problem.partly_observed, evidence)
            apart = [problem.restrict_to_observed(known) for known, _ in groups]
            widest = max(apart, key=_table_cells)
            cells = _table_cells(widest)
        work = widest.order.total + widest.component_work
        # the inputs of the largest table may be of the same size as the table
        return cls(problem, options, cells, widest.order.clique, 16 * cells, work * evidence.rows)

    def solve(self, evidence: Evidence) -> Iterator[Solution]:
        """Yield solutions chunk by chunk."""
        return solve_in_chunks(self.problem, evidence, self.options)


def split_rows(problem: Problem, evidence: Evidence) -> Iterator[tuple[NDArray[np.intp], Evidence]]:
    """Yield chunks of row numbers with their evidence."""
    chunk = count_rows_at_once(problem)
    if problem.mixtures:
        evidence = problem.axis_choice.tell_components(evidence)
    if evidence.rows <= chunk:
        yield np.arange(evidence.rows), evidence
        return
    for start in range(0, evidence.rows, chunk):
        rows = np.arange(start, min(start + chunk, evidence.rows))
        yield rows, evidence.take(slice(start, start + chunk), len(rows))


def count_rows_at_once(problem: Problem) -> int:
    """Return how many rows are solved at once, which depends on the problem alone, as sums over rows do."""
    row = 8 * max(problem.order.largest, 1.0)
    return int(min(max(CHUNK_BYTES / row, 64), max(MOST_BYTES / row, 1), MOST_ROWS))


def solve_in_chunks(problem: Problem, evidence: Evidence, options: Options) -> Iterator[Solution]:
    """Solve a problem for all rows, chunk by chunk."""
    tables = problem.tables  # this reference keeps them for all chunks
    if problem.mixtures:
        evidence = problem.axis_choice.tell_components(evidence)
    rows = np.arange(evidence.rows)
    if problem.partly_observed and evidence.rows > 1:
        rows = yield from _solve_with_patterns(problem, evidence, options)
        if not len(rows):
            return
        evidence = evidence.take(rows, len(rows))
    solve = _solve_with_nodes if problem.nodes else _solve_without_nodes
    if not problem.partly_observed or not evidence.rows:
        yield from solve(problem, evidence, rows, options)
        return
    # in the problem of a group an observed variable has no nodes, and the rows can share a grid
    for known, members in _group_rows(problem.partly_observed, evidence):
        part = evidence.observe_only(problem.partly_observed, known, members)
        restricted = problem.restrict_to_observed(known)
        solve = _solve_with_nodes if restricted.nodes else _solve_without_nodes
        for solution in solve(restricted, part, rows[members], options):
            yield _add_observed_targets(problem, solution)
    del tables


def _solve_without_nodes(
    problem: Problem, evidence: Evidence, rows: NDArray[np.intp], options: Options
) -> Iterator[Solution]:
    def solve_part(part: tuple[NDArray[np.intp], Evidence]) -> Solution:
        return _solve(problem, part[1], rows[part[0]], {}, np.zeros(len(part[0])))

    if evidence.rows <= count_rows_at_once(problem):
        return iter([_solve(problem, evidence, rows, {}, np.zeros(evidence.rows))])
    return run_in_threads(solve_part, split_rows(problem, evidence), options.jobs)


def _solve_on_grids(
    problem: Problem, evidence: Evidence, rows: NDArray[np.intp], options: Options, solve: _SolveOnGrid
) -> Iterator[tuple[NDArray[np.intp], Solution | None, NDArray[np.bool_]]]:
    """Yield chunks of row numbers with their solutions on a grid that all rows share, and the rows for which it is fine
    enough.

    Where it is not, it is made finer for all later chunks. Threads begin with these before that is known; what they
    computed is not used then, so that each row gets what it gets without threads. Where there is no grid, there are no
    solutions.
    """
    numbers = np.arange(evidence.rows)
    stricter = refinement_tolerance(problem, options.tolerance)
    grids = problem.tables.grids
    if options.tolerance not in grids:
        # rows that know some of the numbers of a ridge have none
        apart = choose_conditioned(problem) or (problem.partly_observed and find_ridge(problem))
        grids[options.tolerance] = None if apart else make_shared_grid(problem, stricter, options.max_bytes)
    start = 0
    while start < evidence.rows:
        grid = grids[options.tolerance]
        # the grid may have been made where more memory was allowed
        if grid is None or not grid.count_rows_within(options.max_bytes):
            yield numbers[start:], None, np.zeros(evidence.rows - start, dtype=bool)
            return
        most_cells = MOST_BYTES / 8 if problem.partly_observed else GRID_CELLS
        step = int(np.clip(most_cells / grid.largest, 16, MOST_ROWS))
        step = min(step, grid.count_rows_within(options.max_bytes))

        def solve_chunk(chunk: NDArray[np.intp], grid: SharedGrid = grid) -> _OnGrid:
            return solve(problem, grid, evidence.take(chunk, len(chunk)), rows[chunk], stricter)

        chunks = np.split(numbers[start:], range(step, evidence.rows - start, step))
        for chunk, (solution, accurate, splits) in zip(
            chunks, run_in_threads(solve_chunk, chunks, options.jobs), strict=True
        ):
            finer = None if accurate.all() else refine_shared_grid(problem, grid, splits, options.max_bytes)
            if finer is not None:
                grids[options.tolerance] = finer
                break
            yield chunk, solution, accurate
            start += len(chunk)


def _solve_with_patterns(
    problem: Problem, evidence: Evidence, options: Options
) -> Generator[Solution, None, NDArray[np.intp]]:
    """Yield solutions on one grid for rows that differ in what is observed; return the rows for which it is too coarse.

    Where a table is over several variables of which some rows know one, there are none.
    """
    everything = np.arange(evidence.rows)
    partly = set(problem.partly_observed)
    if any(len(scope) > 1 and not partly.isdisjoint(scope) for scope in problem.scopes):
        return everything
    left = []
    for chunk, solution, accurate in _solve_on_grids(problem, evidence, everything, options, _solve_patterns):
        if solution is not None and accurate.any():
            yield solution if accurate.all() else _select_rows(solution, np.flatnonzero(accurate))
        left.append(chunk[~accurate])
    return np.concatenate(left)


def _solve_patterns(
    problem: Problem, grid: SharedGrid, evidence: Evidence, rows: NDArray[np.intp], tolerance: float
) -> _OnGrid:
    """Return the solution on a grid, the rows for which it is accurate, and the cells that are too coarse for
    others.
    """
    assert grid.patterns is not None
    run = grid.patterns.run(grid.axes, evidence)
    kept = len(problem.scopes)
    hidden = {
        name: RowGroup(groups[_NOTHING].rows, normalize(groups[_NOTHING].array)[0])
        for name, groups in zip(problem.nodes, run.tables[kept:], strict=True)
        if _NOTHING in groups
    }
    look = grid.assess_rows(problem, evidence, hidden, tolerance)
    axes: dict[str, Axis] = {**problem.axes, **{name: grid.nodes(name, evidence.rows) for name in problem.nodes}}
    tables = []
    for scope, groups in zip(problem.scopes, run.tables[:kept], strict=True):
        table = np.zeros((*(axes[name].size for name in scope), evidence.rows))
        for observed, (own, array) in groups.items():
            # an observed value has the first node
            table[(0,) * len(observed) + (..., own)] = array
        tables.append(normalize(table)[0])
        for name in scope:
            axis = axes[name]
            if name in problem.partly_observed and isinstance(axis, NodeAxis):
                values = evidence.findings[name].values
                known = ~np.isnan(values)
                axes[name] = node_axis(np.where(known, values, axis.low), np.where(known, values, axis.high), values)
    log_norm = take_logs(run.total) + run.log_scale
    return Solution(problem, rows, evidence, axes, tables, log_norm, look.error), look.fine & ~run.doubtful, look.splits


def _add_observed_targets(problem: Problem, solution: Solution) -> Solution:
    """Add axes of one node for targets that are observed in these rows and hidden in others."""
    axes, tables = dict(solution.axes), list(solution.tables)
    for number, name in enumerate(problem.question.targets):
        if name in problem.partly_observed and name not in axes:
            values = solution.evidence.findings[name].values
            axes[name] = axis = node_axis(values[None], values[None], values)
            tables[number] = tables[number] * (axis.weights > 0)
    return replace(solution, axes=axes, tables=tables)


def _solve_with_nodes(
    problem: Problem, evidence: Evidence, rows: NDArray[np.intp], options: Options
) -> Iterator[Solution]:
    """Yield solutions on the grid that all rows share; rows that need a finer one get nodes of their own."""
    for chunk, solution, accurate in _solve_on_grids(problem, evidence, rows, options, _solve_on_grid):
        if solution is not None and accurate.any():
            yield solution if accurate.all() else _select_rows(solution, np.flatnonzero(accurate))
        coarse = np.flatnonzero(~accurate)
        if len(coarse):
            approximate = None if solution is None else _select_rows(solution, coarse)
            own = chunk[coarse]
            yield from _solve_apart(problem, evidence.take(own, len(own)), rows[own], approximate, options)


def _solve_apart(
    problem: Problem, evidence: Evidence, rows: NDArray[np.intp], approximate: Solution | None, options: Options
) -> Iterator[Solution]:
    """Yield solutions on nodes that each row has of its own, or approximate ones that saw more."""
    conditioned = choose_conditioned(problem)

    def solve_part(part: tuple[NDArray[np.intp], Evidence]) -> list[tuple[NDArray[np.intp], Solution]]:
        numbers, chunk = part
        if conditioned:
            apart = solve_conditioned(problem, conditioned, chunk, numbers, replace(options, n_jobs=1))
            return [(solution.rows, replace(solution, rows=rows[solution.rows])) for solution in apart]
        solutions = []
        for chosen, placed in place_nodes(problem, chunk, options.tolerance, options.max_bytes / 64):
            own = numbers[chosen]
            solution = _solve(
                problem,
                chunk.take(chosen, len(chosen)),
                rows[own],
                placed.axes,
                placed.error,
                placed.logs,
                placed.marginal,
            )
            solutions.append((own, solution))
        return solutions

    for solutions in run_in_threads(solve_part, split_rows(problem, evidence), options.jobs):
        for own, solution in solutions:
            if approximate is None:
                yield solution
                continue
            missed = _find_missed_rows(solution, approximate, own)
            if missed.any():
                yield _select_rows(approximate, own[missed])
            if not missed.all():
                yield _select_rows(solution, np.flatnonzero(~missed)) if missed.any() else solution


def _solve_hidden(problem: Problem, evidence: Evidence, rows: NDArray[np.intp], options: Options) -> Iterator[Solution]:
    """Yield the solutions of a problem whose rows are observed in the same variables."""
    return (_solve_with_nodes if problem.nodes else _solve_without_nodes)(problem, evidence, rows, options)


def _find_missed_rows(solution: Solution, approximate: Solution, rows: NDArray[np.intp]) -> NDArray[np.bool_]:
    """Return the rows whose own nodes give a smaller probability of the evidence than the shared grid, which is nearly
    exact.

    Densities are not negative, so nodes that give a clearly smaller probability have missed some mass.
    """
    with np.errstate(invalid="ignore"):
        lost = approximate.log_norm[rows] - solution.log_norm
    return (approximate.error[rows] < NEARLY) & (lost > np.maximum(NEARLY, 10 * approximate.error[rows]))


def _solve_on_grid(
    problem: Problem, grid: SharedGrid, evidence: Evidence, rows: NDArray[np.intp], tolerance: float
) -> _OnGrid:
    """Return the solution on a shared grid, the rows for which it is accurate, and the cells that are too coarse for
    others.
    """
    run = run_program(grid.program, grid.sources, grid.axes, evidence)
    kept = len(problem.scopes)
    marginals = {name: (slice(None), table) for name, table in zip(problem.nodes, run.tables[kept:], strict=True)}
    look = grid.assess_rows(problem, evidence, marginals, tolerance)
    axes: dict[str, Axis] = {**problem.axes, **{name: grid.nodes(name, evidence.rows) for name in problem.nodes}}
    error = look.error + estimate_ridge_error(problem, axes)
    solution = Solution(problem, rows, evidence, axes, run.tables[:kept], run.log_norm, error)
    return solution, look.fine & ~run.doubtful, look.splits


def _select_rows(solution: Solution, rows: NDArray[np.intp]) -> Solution:
    """Return some rows of a solution."""
    return Solution(
        solution.problem,
        solution.rows[rows],
        solution.evidence.take(rows, len(rows)),
        _select_axis_rows(solution.axes, rows),
        [table[..., rows] for table in solution.tables],
        solution.log_norm[rows],
        solution.error[rows],
    )


def _select_axis_rows(axes: Mapping[str, Axis], rows: NDArray[np.intp]) -> dict[str, Axis]:
    return {name: axis.take(rows) if isinstance(axis, NodeAxis) else axis for name, axis in axes.items()}


def _table_cells(problem: Problem) -> float:
    """Return the cells of the largest table."""
    if not problem.nodes:
        return problem.order.largest
    return float(table_size(problem, problem.order.clique, dict.fromkeys(problem.nodes, start_cells(problem))))


def _solve(
    problem: Problem,
    evidence: Evidence,
    rows: NDArray[np.intp],
    nodes: Mapping[str, NodeAxis],
    error: Values,
    logs: Mapping[int, Values] | None = None,
    marginal: Values | None = None,
) -> Solution:
    """Return the solution on given nodes.

    Where they are known, `logs` are the logarithms of the factors, and `marginal` is that of the marginal of the only
    variable with nodes.
    """
    axes: dict[str, Axis] = {**problem.axes, **nodes}
    count = evidence.rows
    if not problem.sources:
        return Solution(problem, rows, evidence, axes, [np.ones(count) for _ in problem.scopes], np.zeros(count), error)
    if marginal is not None and all(scope in ((), problem.nodes) for scope in problem.scopes):
        table, log_norm = normalize_logs(marginal)
        tables = [table if scope else normalize(table.sum(axis=0))[0] for scope in problem.scopes]
        return Solution(problem, rows, evidence, axes, tables, log_norm, error)
    run = run_program(problem.program, problem.sources, axes, evidence, logs)
    if run.doubtful.any():
        again = np.flatnonzero(run.doubtful)
        part = evidence.take(again, len(again))
        fresh = run_program_in_logs(problem.program, problem.sources, _select_axis_rows(axes, again), part, logs)
        run.log_norm[again] = fresh.log_norm
        for table, better in zip(run.tables, fresh.tables, strict=True):
            table[..., again] = better
    return Solution(problem, rows, evidence, axes, run.tables, run.log_norm, error)


def find_ridge(problem: Problem) -> Mapping[str, float]:
    """Return how rough families that are too sharp for a product of grids are along their hidden numbers, those first
    along which they are least so; it is kept with the problem.
    """
    tables = problem.tables
    if tables.ridge is None:
        errors: dict[str, float] = {}
        for potential in problem.potentials.values():
            hidden = [name for name in problem.nodes if name in potential.scope]
            if potential.opaque and len(hidden) > 1:
                rough = {name: _measure_roughness(problem, potential, name) for name in hidden}
                if max(rough.values()) > SMOOTH:
                    errors |= {name: max(error, errors.get(name, 0.0)) for name, error in rough.items()}
        tables.ridge = dict(sorted(errors.items(), key=itemgetter(1)))
    return tables.ridge


def _measure_roughness(problem: Problem, potential: Potential, name: str) -> float:
    """Return the largest error of quadrature on as fine a grid as all rows may share, along one number through some
    places of the others.
    """
    reaches = find_prior_reaches(problem)
    ends: dict[str, Values] = {}
    for variable in potential.variables:
        if isinstance(variable, Continuous):
            n = variable.name
            # observed parents need not be in the problem
            reach = reaches[n].central if n in reaches else problem.snapshot.by_name[n].support(n, CENTRAL_TAIL)
            where = np.array(reach, dtype=np.float64)
            ends[n] = np.sort(np.where(np.isfinite(where), where, SOMEWHERE))
    low, high = ends[name]
    if not low < high or potential.scale(name) * FINEST < high - low:
        return np.inf
    places = np.arange(1, PLACES + 1) * np.resize(IRRATIONALS, (len(potential.variables), 1)) % 1
    given: dict[str, NDArray[Any]] = {
        v.name: (own * len(v)).astype(np.intp)
        if isinstance(v, Discrete)
        else ends[v.name][0] + own * np.ptp(ends[v.name])
        for v, own in zip(potential.variables, places, strict=True)
    }
    child = potential.child
    try:
        if isinstance(child, Continuous):
            seen = find_modes(potential, {n: v for n, v in given.items() if n != child.name}, REACHES[-1], 0.0)
            given[child.name] = np.clip(seen.peak + (4 * places[-1] - 2) * seen.width, seen.low, seen.high)
        del given[name]
        edges = np.repeat(np.linspace(low, high, MOST_SHARED_CELLS + 1)[:, None], PLACES, axis=1)
        axis = node_axis(edges[:-1], edges[1:])
        logs = evaluate(potential, given, np.arange(PLACES), axis.points, log=True, along=name)
        return float(assess_cells(logs + take_logs(axis.weights), axis, SMOOTH).error.max())
    except NetworkError:  # it may be undefined at some places
        return np.inf


def choose_conditioned(problem: Problem) -> list[str] | None:
    """Return the numbers on which to condition so that their own tables, or all of those without numbers, are found;
    None where there is no ridge, or one of three numbers at once.
    """
    ridge = find_ridge(problem)
    wanted = [[name for name in scope if name in problem.nodes] for scope in problem.scopes]
    names = list(dict.fromkeys(name for several in wanted for name in several)) or list(ridge)[:1]
    left = [ridge.keys() & set(potential.scope) - {name} for potential in problem.potentials.values() for name in names]
    return names if ridge and max(map(len, [*wanted, *left])) < 2 else None


def solve_conditioned(
    problem: Problem, names: list[str], evidence: Evidence, rows: NDArray[np.intp], options: Options
) -> Iterator[Solution]:
    """Yield the solution of each row, each number in turn being conditioned on for the tables over it."""
    for row in range(evidence.rows):
        part = evidence.take(slice(row, row + 1), 1)
        found = {name: _integrate_over(problem, name, part, rows[row : row + 1], options) for name in names}
        own = [found[next((name for name in scope if name in found), names[0])] for scope in problem.scopes]
        yield replace(
            found[names[0]],
            axes={name: axis for solution in found.values() for name, axis in solution.axes.items()},
            tables=[solution.tables[number] for number, solution in enumerate(own)],
            error=np.max([solution.error for solution in found.values()], axis=0),
        )


@dataclass
class _Conditioned(PointwiseMarginal):
    """The log marginal of one number in a single row: the probability of the evidence and of its value, all others
    summed out.
    """

    inner: Problem = field(kw_only=True)
    options: Options = field(kw_only=True)

    evaluated: list[tuple[Values, Values]] = field(default_factory=list)
    """Points, and the errors and tables there, one after the other (numbers, points)."""

    def _evaluate_cells(self, axes: Mapping[str, Axis], evidence: Evidence, rows: NDArray[np.intp]) -> Values:
        (name,) = self.problem.nodes
        points = node_axis_of(axes, name).points
        given = evidence.take(np.zeros(points.size, dtype=np.intp), points.size)
        finding, value = given.findings.get(name), Finding(self.problem.potentials[name].child, points.ravel())
        given = Evidence({**given.findings, name: value}, points.size, single=False)
        logs = np.empty(points.size)
        numbers = np.empty((1 + sum(math.prod(shape) for shape in self.shapes), points.size))
        for part in _solve_hidden(self.inner, given, np.arange(points.size), self.options):
            logs[part.rows] = part.log_norm
            numbers[:, part.rows] = np.concatenate(
                [part.error[None], *(table.reshape(-1, len(part.rows)) for table in part.tables)]
            )
        if finding is not None and finding.weighted:
            logs += take_logs(finding.weights(points.reshape(1, -1))[0])
        self.evaluated.append((points.ravel(), numbers))
        return logs.reshape(points.shape)

    @property
    def shapes(self) -> list[list[int]]:
        """The shapes of the tables."""
        return [[self.inner.sizes[name] for name in scope] for scope in self.inner.scopes]

    def recall_numbers(self, points: Values) -> Values:
        """Return what was evaluated at points."""
        places, numbers = (np.concatenate(arrays, axis=-1) for arrays in zip(*self.evaluated, strict=True))
        order = np.argsort(places)
        return np.asarray(numbers[:, order[np.searchsorted(places, points, sorter=order)]])


def _integrate_over(
    problem: Problem, name: str, evidence: Evidence, rows: NDArray[np.intp], options: Options
) -> Solution:
    """Return the solution of a single row with tables over one number, and over none."""
    inner = replace(problem.restrict_to_observed(frozenset((name,))), conditioned=(name, {}))
    order = problem.order._replace(clique=(name,))
    alone = replace(problem, nodes=(name,), factors=(), order=order, conditioned=(name, {}))
    marginal = _Conditioned(alone, inner=inner, options=options)
    ((_, placed),) = place_nodes(alone, evidence, options.tolerance, options.max_bytes / 64, marginal)
    assert placed.marginal is not None
    shares, log_norm = normalize_logs(placed.marginal)
    axis, node = placed.axes[name], np.flatnonzero(shares > NEGLIGIBLE_SHARE)
    errors, *numbers = marginal.recall_numbers(axis.points[node, 0])
    tables, start = [], 0
    for scope, shape in zip(problem.scopes, marginal.shapes, strict=True):
        part = np.array(numbers[start : (start := start + math.prod(shape))])
        table = np.full((len(shares), *shape, 1), np.nan if np.isneginf(log_norm[0]) else 0.0)
        table[node] = (part * shares[node, 0]).T.reshape(-1, *shape, 1)
        tables.append(np.moveaxis(table, 0, scope.index(name)) if name in scope else table.sum(axis=0))
    error = placed.error + shares[node, 0] @ errors
    return Solution(problem, rows, evidence, {**problem.axes, name: axis}, tables, log_norm, error)


MOST_PATTERNS = 1 << 12
"""Tables in which more patterns are observed are solved by one problem or not at all."""


class RowPatterns(Engine):
    """Elimination, slices or sampling for each pattern of what is observed."""

    rank = 57

    def plan(self, problem: Problem, evidence: Evidence, options: Options) -> Plan | None:
        """Plan the rows of each pattern, those first that know least; None where rows don't differ, or where some of
        them are too wide by themselves.
        """
        names = self.list_names(problem, evidence)
        if problem.question.drawn or not names or evidence.rows < 2:
            return None
        groups = _group_rows(names, evidence)
        if not 1 < len(groups) <= MOST_PATTERNS:
            return None
        # the posterior of a target has one form in all rows
        dense = problem.question.dense.union(set(problem.nodes).intersection(problem.question.targets))
        question = replace(
            problem.question,
            only=frozenset(problem.potentials),
            dense=dense,
            whole=False if problem.mixtures else None,
        )
        plans = {}
        for known, rows in groups:
            own = evidence.observe_only(names, known, rows)
            try:
                plans[known] = choose_plan(problem_of(problem.snapshot, question, own), own, options)
            except TooWide:
                return None
        widest = max(plans.values(), key=lambda plan: plan.held_bytes)
        operations = sum(plan.operations for plan in plans.values())
        return PatternPlan(problem, options, widest.cells, widest.clique, widest.held_bytes, operations, names, plans)

    def list_names(self, problem: Problem, evidence: Evidence) -> list[str]:
        """Return the variables of which rows may know something or nothing."""
        return [
            name
            for name, finding in evidence.findings.items()
            if finding.plain and not finding.hard and isinstance(problem.axes.get(name), StateAxis)
        ]


class SoftPatterns(RowPatterns):
    """Elimination for each pattern of the numbers of which more is known than values: only these need nodes."""

    rank = 45

    def list_names(self, problem: Problem, evidence: Evidence) -> list[str]:
        """Return the numbers with intervals or likelihood functions in some rows; none where tables of all rows are
        wanted that have no form of their own in rows which know more.
        """
        question, findings = problem.question, evidence.findings
        densities = {*problem.nodes, *problem.component_of}
        wanted = dict(zip(question.targets, problem.scopes, strict=False))
        tables = [name for target in wanted if question.joint or target not in densities for name in wanted[target]]
        known = [findings[name].observed.any() for name in densities.intersection(wanted, findings)]
        if question.over or any(known) or not all(isinstance(problem.axes.get(name), StateAxis) for name in tables):
            return []
        return [name for name in problem.nodes if name in findings and not findings[name].plain]


@dataclass
class PatternPlan(Plan):
    """A plan for each pattern, by the observed variables."""

    names: Sequence[str]
    plans: dict[frozenset[str], Plan]

    def solve(self, evidence: Evidence) -> Iterator[Solution]:
        """Yield the solutions of each group of rows, with tables over the scopes of all rows."""
        problem = self.problem
        question, sampled = problem.question, any(plan.sampled for plan in self.plans.values())
        targets = {} if question.joint or question.over else dict(enumerate(question.targets))
        for known, rows in _group_rows(self.names, evidence):
            own = evidence.observe_only(self.names, known, rows)
            for part in self.plans[known].solve(own):
                there = rows[part.rows]
                chosen = evidence.take(there, len(there))
                densities = compute_densities(part, targets)
                tables, bounds = [], []
                for number, scope in enumerate(problem.scopes):
                    if number in densities:
                        tables.append(np.ones(len(there)))
                        bounds.append(np.full((4, len(there)), np.nan))
                        continue
                    tables.append(_expand(problem, scope, part, part.tables[number], chosen))
                    limits = [part.tables[number]] * 4 if part.bounds is None else part.bounds[number]
                    bounds.append(np.stack([_expand(problem, scope, part, limit, chosen) for limit in limits], axis=0))
                bounds.append(np.stack([part.log_norm] * 2) if part.bounds is None else part.bounds[-1])
                yield replace(
                    part,
                    problem=problem,
                    rows=there,
                    evidence=chosen,
                    tables=tables,
                    bounds=bounds if sampled else None,
                    densities=densities,
                )


def compute_densities(part: Solution, targets: Mapping[int, str]) -> dict[int, Density]:
    """Return the densities of the continuous targets in a solution that have no cells, by number."""
    problem, densities = part.problem, dict(part.densities or {})
    targets = {number: name for number, name in targets.items() if number not in densities}
    for number, name in targets.items():
        axis = part.axes.get(name)
        if name not in problem.component_of and isinstance(axis, NodeAxis):
            variable, cells = problem.continuous_variable(name), problem.potentials[name].point_cells
            densities[number] = PiecewisePosterior.of(variable, axis.low, axis.high, part.tables[number], cells)
    for number, *arrays in compute_mixtures(part, targets):
        mixture = (array.reshape(-1, array.shape[-1]) for array in arrays)
        name = targets[number]
        variable, cells = problem.continuous_variable(name), problem.potentials[name].point_cells
        gains = _measure_tails(part, problem.scopes[number], *arrays[:2])
        densities[number] = GaussianPosterior.of(variable, *mixture, point_cells=cells, gains=gains)
    return densities


def _measure_tails(part: Solution, scope: Sequence[str], table: Values, means: Values) -> Values:
    """Return what mean and variance (2, rows) of a mixture gain from the tails beyond the grids of its scope, along
    which the means (*scope, rows) of its parts are linear; NaN where a tail is too heavy.
    """
    gains = np.zeros((2, table.shape[-1]))
    for place, name in enumerate(scope):
        axis = part.axes[name]
        if not isinstance(axis, NodeAxis):
            continue
        masses, means_along = np.moveaxis(table, place, 0), np.moveaxis(means, place, 0)
        with np.errstate(divide="ignore", invalid="ignore"):
            slopes = (means_along[-1] - means_along[0]) / (axis.points[-1] - axis.points[0])
        own = masses.reshape(len(masses), -1, masses.shape[-1]).sum(axis=1)
        variable, cells = part.problem.continuous_variable(name), part.problem.potentials[name].point_cells
        inner, tails = PiecewisePosterior.of(variable, axis.low, axis.high, own, cells).integrate_moments()
        if tails.any():
            # the mixture has parts in the outermost cells, too, which are left out there
            everywhere = PiecewisePosterior(variable, axis.low, axis.high, own, False, part.error, None, cells)
            tails = np.where(tails == 0, 0.0, inner + tails - everywhere.integrate_moments()[0])
        for order, tail in enumerate(tails, 1):
            moved = np.sum((masses.sum(axis=0) * slopes**order).reshape(-1, len(tail)), axis=0)
            gains[order - 1] += np.where((tail == 0) | (moved == 0), 0.0, moved * tail)
    return gains


def compute_mixtures(part: Solution, targets: Mapping[int, str]) -> Iterator[tuple[int, Values, Values, Values]]:
    """Yield weights, means and variances (*names, rows) of each target that is integrated out in closed form, by its
    number; those of one Gaussian component are computed together.
    """
    component_of = part.problem.component_of
    together: dict[int, list[int]] = {}
    for number, name in targets.items():
        if name in component_of:
            together.setdefault(id(component_of[name]), []).append(number)
    for numbers in together.values():
        names = [targets[number] for number in numbers]
        means, variances = component_of[names[0]].moments(names, part.axes, part.evidence, pairs=False)
        for number, mean, variance in zip(numbers, means, variances, strict=True):
            table = part.tables[number]
            yield number, table, np.broadcast_to(mean, table.shape), np.broadcast_to(variance, table.shape)


def _group_rows(names: Sequence[str], evidence: Evidence) -> list[tuple[frozenset[str], NDArray[np.intp]]]:
    """Return of which variables something is told, with the rows in which it is of just these; few of them first."""
    groups = group_rows({name: evidence.findings[name].told for name in names}, evidence.rows)
    return sorted(groups, key=lambda group: len(group[0]))


def _expand(problem: Problem, scope: tuple[str, ...], part: Solution, table: Values, evidence: Evidence) -> Values:
    """Return a table with a dimension for each name of a scope, those that are observed in these rows too."""
    own = [name for name in scope if name not in part.problem.hard]
    known = [name for name in scope if name in part.problem.hard]
    if not known:
        return table
    sizes = [part.axes[name].size if name in part.axes else problem.sizes[name] for name in scope]
    full = np.zeros([*sizes, evidence.rows])
    turned = np.moveaxis(full, [scope.index(name) for name in known], range(len(known)))
    places: list[Any] = [evidence.findings[name].values for name in known]
    turned[(*places, *[slice(None)] * len(own), np.arange(evidence.rows))] = np.moveaxis(table, -1, 0)
    return full
