"""Quadrature grids: Gauss-Legendre nodes laid where the posterior of each row has its mass.

Marginals are computed in logarithms, so a posterior far out in the tails of every single factor is found like any
other. In rounds, cells without mass are dropped and cells whose Legendre coefficients have not decayed are split; a row
is done when the sum of its last coefficients is below the tolerance. Rows are refined independently, so a batch gives
the results of single cases.

Most evidence leaves the posterior where the prior has its mass, and smooth on the same scale. Then one shared grid does
for all rows: whatever needs no evidence is computed once and kept with the problem. Rows whose posterior turns out to
be too sharp for the grid, or to lie at its ends, are told apart and get nodes of their own.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from operator import itemgetter
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from hybridbn.errors import TooWide
from hybridbn.inference.axes import (
    CENTRAL_TAIL,
    NEARER,
    ORDER,
    Axis,
    NodeAxis,
    PriorReach,
    Ruler,
    arrange_by_row,
    clip_to_support,
    find_evidence_ranges,
    find_prior_reaches,
    find_pulls,
    legendre,
    measure_hidden_kinks,
    measure_rounding_noise,
    node_axis,
    node_axis_of,
    pack_cells,
    ranges_of_others,
)
from hybridbn.inference.compilation import Problem
from hybridbn.inference.elimination.compilers import compile_program
from hybridbn.inference.elimination.factors import (
    FactorSource,
    PatternProgram,
    PointwiseMarginal,
    PotentialSource,
    evaluate_factors,
)
from hybridbn.inference.elimination.program import Factor, Program
from hybridbn.inference.evidence import Evidence
from hybridbn.inference.modes import find_modes_along, find_modes_of_root
from hybridbn.potentials.base import take_logs
from hybridbn.variables import Continuous, Values, shorten

START_CELLS = 24
"""The number of cells of each variable in the first round."""
FEWER_CELLS = 10
"""The number where three or more variables with nodes are in one table, or two with many states, and where the others
are conditioned on.
"""
MOST_AT_FIRST = 1e7
"""A table of two variables with nodes and more cells than this starts with fewer cells of each."""
MOST_CELLS = 1024
"""The largest number of cells of a variable; rows that need more end with the error reached."""
NEGLIGIBLE = 46.0
"""Cells whose log density is farther below the largest are dropped: e^-46 = 1e-20."""
SETTLED = 1e-6
"""No cell is dropped while the grid of another variable has a larger estimated error, as densities are uncertain."""
ROUNDS = 60
"""The largest number of rounds of refinement."""
BEYOND = -30.0
"""A grid is extended where the log of the mass beyond its end, relative to the whole, may be larger."""
OUTWARD = np.exp2(np.arange(-3.0, 40.0, 2.0))[:, None]
"""Edges between the expected range and modes outside of it, in lengths of the range."""
LONGER = np.array([1.0, 5.0, 21.0, 85.0])[:, None] / 8
"""The ends of the cells that extend a grid, in lengths of the grid."""
TOO_WIDE = 4.0
"""The tables of the first round may exceed the budget by this factor."""
STRICTER = 100.0
"""Grids are refined until the estimated error is the tolerance over this; it costs one more halving."""
STRICTER_IF_WIDE = 3.0
"""The same where three or more variables with nodes are in one table, and a halving costs much."""

_Cells: TypeAlias = tuple[NDArray[np.intp], Mapping[str, tuple[Values, Values]]]
"""Rows, and the ends of the cells (cells, rows) of each variable with nodes."""


@dataclass
class PlacedNodes:
    """Axes with nodes, and the error estimated for each row.

    Attributes
    ----------
    logs : the logarithms of the factors at the nodes of a single row, if there are several variables with nodes
    marginal : ndarray (nodes, rows), the log marginal at the nodes of the only variable that has some
    """

    axes: dict[str, NodeAxis]
    error: Values
    logs: Mapping[int, Values] | None = None
    marginal: Values | None = None

    def take(self, rows: NDArray[np.intp]) -> PlacedNodes:
        """Return the nodes of some rows."""
        axes = {name: axis.take(rows) for name, axis in self.axes.items()}
        return PlacedNodes(axes, self.error[rows], self.logs, None if self.marginal is None else self.marginal[:, rows])


def place_nodes(
    problem: Problem,
    evidence: Evidence,
    tolerance: float,
    budget: float,
    pointwise: PointwiseMarginal | None = None,
) -> list[tuple[NDArray[np.intp], PlacedNodes]]:
    """Return the nodes of all variables that need some, for groups of rows with grids of the same size.

    Parameters
    ----------
    tolerance : wanted error of the posterior
    budget : most cells that the largest table may have for one row
    pointwise : what evaluates the marginal of the only variable with nodes, if not the problem's factors
    """
    stricter = refinement_tolerance(problem, tolerance)
    start, bounds, unseen = _lay_first_cells(problem, evidence)
    done: list[tuple[NDArray[np.intp], PlacedNodes]] = []
    _check_first_cells(problem, {name: len(low) for name, (low, _) in start.items()}, budget)
    if pointwise is None and len(problem.nodes) == 1:
        pointwise = PointwiseMarginal(problem)
    work = list(_split_rows(problem, [(np.arange(evidence.rows), start)], TOO_WIDE * budget, pointwise is None))
    for round_number in range(ROUNDS):
        fresh: list[_Cells] = []
        for rows, cells in work:
            part = evidence.take(rows, len(rows))
            known = {name: part.findings[name].values for name in problem.nodes if name in part.findings}
            axes = {name: node_axis(*cells[name], known.get(name)) for name in problem.nodes}
            arrays: dict[int, Values] = {}
            if pointwise is None:
                arrays = evaluate_factors(problem, {**problem.axes, **axes}, part)
                logs = problem.compute_log_marginals(arrays)
            else:
                logs = [pointwise.evaluate(axes[problem.nodes[0]], rows, part)]
            reusable = arrays if arrays and evidence.rows == 1 else None
            marginal = None if pointwise is None else logs[0]
            del arrays
            assessments = {}
            for name, own in zip(problem.nodes, logs, strict=True):
                assessments[name] = assess_cells(own, axes[name], stricter, known.get(name))
                assessments[name].check_ends(axes[name], bounds[name], rows)
            _keep_cells_while_rough(assessments)
            error = np.sum([look.error for look in assessments.values()], axis=0) + unseen[rows]
            if len(axes) > 1:
                error = error + estimate_ridge_error(problem, axes, assessments)
            settled = np.all([look.settled for look in assessments.values()], axis=0)
            finished = settled | (round_number == ROUNDS - 1)
            placed = PlacedNodes(axes, error, reusable, marginal)
            if finished.any():
                pick = np.flatnonzero(finished)
                done.append((rows[pick], placed.take(pick)))
            left = np.flatnonzero(~finished)
            if len(left):
                fresh += _refine_cells(problem, rows, cells, assessments, left, budget, done, placed, bounds)
        # what was evaluated at nodes of a single variable is known of rows that stay together
        work = fresh if pointwise else list(_split_rows(problem, fresh, TOO_WIDE * budget, True))
        if not work:
            break
    return done


@dataclass
class Bounds:
    """The ends of a variable's grid in each row (low, high), and the limits to which it may be extended (least,
    most).
    """

    low: Values
    high: Values
    least: Values
    most: Values


@dataclass
class CellAssessment:
    """The assessment of one variable's cells in one round.

    Attributes
    ----------
    keep, split : ndarray (cells, rows)
    error : ndarray (rows,), estimated
    settled : ndarray (rows,), whether the grid is good enough
    bound : ndarray (cells, rows), upper bound of the cell's log mass relative to the whole
    ends : ndarrays (cells, rows), log densities relative to the whole mass at the first and last nodes
    longer : whether the grid must be extended below and above (rows each)
    """

    keep: NDArray[np.bool_]
    split: NDArray[np.bool_]
    error: Values
    settled: NDArray[np.bool_]
    bound: Values
    ends: tuple[Values, Values]
    longer: tuple[NDArray[np.bool_], NDArray[np.bool_]] | None = None

    def count_cells(self, rows: NDArray[np.intp]) -> NDArray[np.intp]:
        """Return how many cells rows keep, with those that are split or added."""
        kept = (self.keep[:, rows] * (1 + self.split[:, rows])).sum(axis=0)
        return np.asarray(kept + sum(len(LONGER) * longer[rows] for longer in self.longer or ()))

    def check_ends(self, axis: NodeAxis, bounds: Bounds, rows: NDArray[np.intp]) -> None:
        """Record where mass may lie beyond an end of the grid: the density is not small there, or increases towards
        it.
        """
        low, high = bounds.low[rows], bounds.high[rows]
        used = axis.high > axis.low
        columns = np.arange(len(rows))
        longer = []
        for backward in (False, True):
            place = len(used) - 1 - np.argmax(used[::-1], axis=0) if backward else np.argmax(used, axis=0)
            outer, inner = (ends[place, columns] for ends in (self.ends[::-1] if backward else self.ends))
            at_end = axis.high[place, columns] >= high if backward else axis.low[place, columns] <= low
            is_open = high < bounds.most[rows] if backward else low > bounds.least[rows]
            with np.errstate(divide="ignore", invalid="ignore"):
                mass = outer + np.log(high - low)
                wanted = at_end & is_open & np.isfinite(outer) & ((mass > BEYOND) | (outer > inner))
            longer.append(wanted)
            self.error = self.error + np.where(wanted, np.exp(np.minimum(mass, 0.0)), 0.0)
        self.longer = longer[0], longer[1]
        self.settled = self.settled & ~longer[0] & ~longer[1]


def _keep_cells_while_rough(assessments: Mapping[str, CellAssessment]) -> None:
    """Drop no cells of any mass in rows where the grid of another variable is rough: sums over it may miss a ridge that
    its next nodes will see.
    """
    for name, seen in assessments.items():
        others = [other.error for key, other in assessments.items() if key != name]
        if others:
            seen.keep |= (np.max(others, axis=0) > SETTLED) & (seen.bound > -np.inf)


def estimate_ridge_error(
    problem: Problem, axes: Mapping[str, Axis], assessments: Mapping[str, CellAssessment] | None = None
) -> Values | float:
    """Return what products of grids may miss of families that are too sharp for them: anything, where cells are wider
    than the families' scale.
    """
    error: Values | float = 0.0
    for name, rough in (problem.tables.ridge or {}).items():
        scales = [p.scale(name) for p in problem.potentials.values() if p.opaque and name in p.scope]
        axis = node_axis_of(axes, name)
        used = True if assessments is None else assessments[name].keep
        widest = ((axis.high - axis.low) * used).max(axis=0)
        error = np.maximum(error, np.where(widest > 2 * RESOLVED * min(scales), 1.0, min(rough, 1.0)))
    return error


def _cliques(problem: Problem) -> list[tuple[str, ...]]:
    return [problem.order.clique, *(factor.names for factor in problem.factors)]


def table_size(problem: Problem, names: Iterable[str], cells: Mapping[str, Any]) -> Any:
    """Return the number of entries of a table for one row, given the numbers of cells of variables with nodes."""
    sizes = [cells[name] * float(ORDER) if name in cells else float(problem.axes[name].size) for name in names]
    return np.prod(np.broadcast_arrays(*sizes), axis=0) if sizes else 1.0


def _split_rows(problem: Problem, work: Sequence[_Cells], most_cells: float, several: bool) -> Iterator[_Cells]:
    """Yield rows with their cells, so few at a time that what is held at once is within the limit: the largest table,
    and with several variables with nodes all factors and what the program makes of them.
    """
    for rows, cells in work:
        counts = {name: len(low) for name, (low, _) in cells.items()}
        held = max(float(table_size(problem, names, counts)) for names in _cliques(problem))
        if several:
            program = problem.placement
            sizes = [float(table_size(problem, names, counts)) for names in program.names]
            given = len(program.factors)
            held += sum(sizes[:given]) + program.count_cells_at_once([0.0] * given + sizes[given:])
        step = max(int(most_cells / held), 1)
        for own in np.split(np.arange(len(rows)), range(step, len(rows), step)):
            yield rows[own], {name: (low[:, own], high[:, own]) for name, (low, high) in cells.items()}


def _check_first_cells(problem: Problem, cells: Mapping[str, int], budget: float) -> None:
    """Raise `TooWide` if the tables of not even one row fit into memory."""
    clique, size = max(
        ((names, float(table_size(problem, names, cells))) for names in _cliques(problem)), key=itemgetter(1)
    )
    if size > TOO_WIDE * budget:
        raise TooWide(
            f"quadrature would need a table of {size:.3g} cells over {shorten(clique)}, the least that shows all their"
            " features. Observe some of these variables, ask for fewer targets at once, or raise max_bytes"
        )


def assess_cells(logs: Values, axis: NodeAxis, tolerance: float, observed: Values | None = None) -> CellAssessment:
    """Assess every cell by the log marginal at its nodes (weights included); cells of rows with an observed value (not
    NaN) are fine.
    """
    cells, rows = axis.low.shape
    width = axis.high - axis.low
    used = width > 0
    _, weights, transform = legendre()
    mass = logs.reshape(cells, ORDER, rows)
    top = mass.max(axis=(0, 1))
    nothing = ~np.isfinite(top)
    top = np.where(nothing, 0.0, top)
    mass = mass - top
    shares = np.exp(mass)
    total = shares.sum(axis=(0, 1))
    divisor = np.where(total > 0, total, 1.0)
    unknown = nothing if observed is None else nothing | ~np.isnan(observed)
    # logarithms of densities times half a cell's width
    density = np.subtract(mass, np.log(weights)[:, None], out=mass)
    peak, lowest = density.max(axis=1), density.min(axis=1)
    partly = np.nonzero(np.isneginf(lowest) & (peak > -np.inf))
    if len(partly[0]):
        own = density[partly[0], :, partly[1]]
        lowest[partly] = np.where(own > -np.inf, own, np.inf).min(axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        slope = np.where(np.isfinite(peak), peak - lowest, 0.0)
        log_half = np.log(np.where(used, width / 2, 1.0))
        ends = [np.where(unknown, -np.inf, density[:, node] - log_half - np.log(total)) for node in (0, -1)]
        heights = peak - log_half + top
    # between its nodes, a smooth density exceeds its values at the nodes by no more than their variation
    bound = np.where(used, peak + 2 * slope + np.log(2.0), -np.inf)
    coefficients = np.matmul(transform * (2 / weights), shares)
    tail = np.abs(coefficients[:, -2:]).max(axis=1) / divisor
    hidden = measure_hidden_kinks(axis, coefficients) / divisor
    noise = measure_rounding_noise(axis, slope, heights) * np.abs(coefficients).max(axis=1) / divisor
    share = tolerance / np.maximum(used.sum(axis=0), 1)
    # where a narrow mode ends next to a wide one, the nodes of the next cell see the wide one alone
    keep = used & ((bound > -NEGLIGIBLE) | (hidden > share))
    rough = (tail > np.maximum(share, noise)) | (hidden > share) | (slope > 200)
    small = width <= 1e-13 * np.maximum(np.abs(axis.low), np.abs(axis.high))
    split = keep & rough & ~small
    error = ((tail + hidden) * used).sum(axis=0)
    steep = (split & (slope > 200)).any(axis=0)
    settled = ~split.any(axis=0) | (error <= tolerance) & ~steep | unknown
    return CellAssessment(keep, split, np.where(unknown, 0.0, error), settled, bound, (ends[0], ends[1]))


def _refine_cells(
    problem: Problem,
    rows: NDArray[np.intp],
    cells: Mapping[str, tuple[Values, Values]],
    assessments: Mapping[str, CellAssessment],
    left: NDArray[np.intp],
    budget: float,
    done: list[tuple[NDArray[np.intp], PlacedNodes]],
    placed: PlacedNodes,
    bounds: Mapping[str, Bounds],
) -> Iterator[_Cells]:
    """Yield the refined cells, grouped by the size of the grids; rows over the budget are added to `done`."""
    capacity = {name: 8 * -(-np.maximum(assessments[name].count_cells(left), 1) // 8) for name in problem.nodes}
    over = np.any([count > MOST_CELLS for count in capacity.values()], axis=0)
    for names in _cliques(problem):
        if sum(name in capacity for name in names) > 1:
            over |= table_size(problem, names, capacity) > budget
    if over.any():
        pick = left[over]
        done.append((rows[pick], placed.take(pick)))
    keys = np.stack([capacity[name] for name in problem.nodes])
    if len(keys) == 1 and not over.all():
        # only new cells are evaluated, so that rows may stay together
        keys[:] = keys[0, ~over].max()
    keys[:, over] = -1
    for key in np.unique(keys[:, ~over], axis=1).T:
        chosen = left[(keys == key[:, None]).all(axis=0)]
        fresh = {
            name: _split_cells(cells[name], assessments[name], rows, chosen, int(size), bounds[name])
            for name, size in zip(problem.nodes, key, strict=True)
        }
        yield rows[chosen], fresh


def _split_cells(
    cells: tuple[Values, Values],
    look: CellAssessment,
    rows: NDArray[np.intp],
    chosen: NDArray[np.intp],
    size: int,
    bounds: Bounds,
) -> tuple[Values, Values]:
    """Return the cells to keep, halved where they are to be split, in arrays of `size` cells in ascending order.

    Where the grid must be extended, cells are added and the bounds are changed.
    """
    low, high = cells[0][:, chosen], cells[1][:, chosen]
    keep, split = look.keep[:, chosen], look.split[:, chosen]
    middle = low + (high - low) / 2
    count = len(chosen)
    lows = [np.stack([low, middle], axis=1).reshape(-1, count)]
    highs = [np.stack([np.where(split, middle, high), high], axis=1).reshape(-1, count)]
    use = [np.stack([keep, keep & split], axis=1).reshape(-1, count)]
    if look.longer is not None and any(longer[chosen].any() for longer in look.longer):
        below, above = (longer[chosen] for longer in look.longer)
        mine = rows[chosen]
        start, stop = bounds.low[mine], bounds.high[mine]
        steps = LONGER * (stop - start)
        down = np.clip(np.concatenate([start - steps[::-1], start[None]]), np.maximum(bounds.least[mine], -1e150), None)
        up = np.clip(np.concatenate([stop[None], stop + steps]), None, np.minimum(bounds.most[mine], 1e150))
        lows, highs = [down[:-1], *lows, up[:-1]], [down[1:], *highs, up[1:]]
        use = [below & (down[1:] > down[:-1]), *use, above & (up[1:] > up[:-1])]
        bounds.low[mine] = np.where(below, down[0], start)
        bounds.high[mine] = np.where(above, up[-1], stop)
    return pack_cells(np.concatenate(lows), np.concatenate(highs), np.concatenate(use), size, high[0])[:2]


def halve_cells(
    cells: tuple[Values, Values], look: CellAssessment, row: NDArray[np.intp], bounds: Bounds
) -> tuple[Values, Values]:
    """Return the cells of one row to keep, halved or extended where that is wanted, without unused ones."""
    size = 2 * len(cells[0]) + 2 * len(LONGER)
    low, high = _split_cells(cells, look, row, row, size, bounds)
    used = high[:, 0] > low[:, 0]
    return low[used], high[used]


# -- the first cells ------------------------------------------------------------------------------------------


def refinement_tolerance(problem: Problem, tolerance: float) -> float:
    """Return the estimated error along each variable at which its grid is fine enough."""
    strict = STRICTER if start_cells(problem) == START_CELLS else STRICTER_IF_WIDE
    return tolerance / (strict * len(problem.nodes))


def start_cells(problem: Problem) -> int:
    """Return the number of cells to start with."""
    clique = problem.order.clique
    together = sum(name in problem.nodes for name in clique)
    states = float(table_size(problem, [name for name in clique if name not in problem.nodes], {}))
    if problem.conditioned:
        return FEWER_CELLS
    return START_CELLS if together <= 2 and states * (START_CELLS * ORDER) ** together <= MOST_AT_FIRST else FEWER_CELLS


def _lay_first_cells(
    problem: Problem, evidence: Evidence
) -> tuple[dict[str, tuple[Values, Values]], dict[str, Bounds], NDArray[np.bool_]]:
    """Return the first cells: the range of prior and likelihood, cut at all breaks and around modes, its bounds, and
    the rows in which modes may be too narrow to be seen.
    """
    ranges, pulls = find_evidence_ranges(problem, evidence), find_pulls(problem, evidence)
    central = find_evidence_ranges(problem, evidence, CENTRAL_TAIL)
    places = {name: pulls[name].confine(*ends) if name in pulls else ends for name, ends in ranges.items()}
    cells, bounds = {}, {}
    nowhere, unseen = np.full(evidence.rows, -np.inf), np.zeros(evidence.rows, dtype=bool)
    for name in problem.nodes:
        low, high = ranges[name]
        touching = [potential for potential in problem.potentials.values() if name in potential.scope]
        ruler = Ruler.of(ranges[name], central[name], NEARER)
        points = [ruler.mark(np.linspace(0.0, 1.0, start_cells(problem) + 1))]
        for potential in touching:
            breaks = potential.breaks(name, ranges_of_others(potential, name, places))
            points.append(np.clip(breaks if breaks.ndim == 2 else breaks[:, None], low, high))
        variable = touching[0].variable(name)
        assert isinstance(variable, Continuous)
        least, most = clip_to_support(problem, variable, nowhere, -nowhere, evidence)
        bottom, top = low.copy(), high.copy()
        peaks = list(find_modes_along(problem, name, evidence, ranges, (least, most), central[name]))
        for rows, modes in peaks:
            bottom[rows], top[rows] = np.minimum(bottom[rows], modes.low), np.maximum(top[rows], modes.high)
            unseen[rows] |= modes.unseen
        if peaks:
            owner = np.concatenate([rows[modes.rows] for rows, modes in peaks])
            around = np.concatenate([modes.edges for _, modes in peaks])
            points.append(arrange_by_row(owner, around, evidence.rows, low))
        if (bottom < low).any() or (top > high).any():
            points += [low - OUTWARD[::-1] * (high - low), high + OUTWARD * (high - low), bottom[None], top[None]]
        edges = np.sort(np.clip(np.concatenate(points), bottom, top), axis=0)
        wide = edges[1:] > edges[:-1]
        # many breaks may coincide at an end
        size = max(int(wide.sum(axis=0).max(initial=0)), 1)
        cells[name] = pack_cells(edges[:-1], edges[1:], wide, size, edges[-1])[:2]
        bounds[name] = Bounds(bottom.copy(), top.copy(), least, most)
    return cells, bounds, unseen


SHARED_START_CELLS = 12
"""The number of cells of each variable with which a shared grid starts."""
SHARED_FEWER_CELLS = 4
"""The number where three or more variables with nodes are in one table."""
MOST_SHARED_CELLS = 96
MOST_CELLS_ALONE = 1024
"""The largest number of cells of a variable, and of the only variable with nodes."""
MOST_TABLE = 4e6
"""The most cells of a factor, and of a table that is kept for all rows."""
WORKING_TABLES = 4
"""While a table is computed or looked at, there may be so many more of its size."""
SHARED_MOST_AT_FIRST = 1e6
"""A grid with a larger table at first would hardly be fine enough before it is too large."""
SHARED_ROUNDS = 6
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
    reaches : of the priors of all continuous variables; the grid is laid over those of variables with nodes
    edges : of the cells of each variable with nodes
    made_finer : how often the grid was made finer for evidence
    sources, program : for the tables over the problem's scopes, then the marginals of the variables with nodes
    patterns : the same for rows that differ in what is observed; None where they do not
    """

    axes: dict[str, Axis]
    reaches: Mapping[str, PriorReach]
    edges: dict[str, Values]
    sources: Sequence[FactorSource]
    program: Program
    patterns: PatternProgram | None
    refinements: int = 0

    @cached_property
    def _cells(self) -> tuple[list[float], list[float]]:
        """The cells of the program's tables without rows, and those of a row in each table."""
        partly = set(() if self.patterns is None else self.patterns.partly_observed)
        fixed, moving = [], []
        for names, rows in zip(self.program.names, self.program.rows, strict=True):
            cells = _find_largest(self.axes, [names])
            known = [self.axes[name].size for name in partly.intersection(names)]
            fixed.append(0.0 if rows else cells)
            # rows that know one of its variables have tables of their own
            moving.append(cells if rows else cells / min(known) if known else 0.0)
        return fixed, moving

    @property
    def largest(self) -> float:
        """Cells of a row in the largest table that has rows."""
        return max(1.0, *self._cells[1])

    def count_rows_within(self, max_bytes: float) -> int:
        """Return how many rows such a memory has room for at once, with all that is held meanwhile."""
        fixed, moving = self._cells
        if max(fixed) > MOST_TABLE:
            return 0
        cells = self.program.count_cells_at_once(moving) + WORKING_TABLES * self.largest
        # products of matrices may need copies of tables without rows
        return max(int((max_bytes / 8 - 2 * sum(fixed)) / cells), 0)

    def estimate_bytes(self) -> int:
        """Return about how many bytes the grid's stored tables take."""
        return self.program.estimate_bytes() if self.patterns is None else self.patterns.estimate_bytes()

    def nodes(self, name: str, rows: int) -> NodeAxis:
        """Return the axis of a variable as that of so many rows."""
        axis = node_axis_of(self.axes, name)
        return NodeAxis(
            np.broadcast_to(axis.low, (len(axis.low), rows)),
            np.broadcast_to(axis.high, (len(axis.high), rows)),
            np.broadcast_to(axis.points[:, None], (len(axis.points), rows)),
            np.broadcast_to(axis.weights[:, None], (len(axis.weights), rows)),
        )

    def assess_rows(
        self, problem: Problem, evidence: Evidence, marginals: Mapping[str, tuple[Any, Values]], tolerance: float
    ) -> RowAssessment:
        """Tell for which rows the grid is fine enough, the error estimated, and which cells the other rows want
        halved.

        Parameters
        ----------
        marginals : of each variable with nodes the rows in which it is hidden, and the marginals in these
        """
        pulls = find_pulls(problem, evidence)
        out = [pulls[name].out_of_reach for name in problem.nodes if name in pulls]
        inside = ~np.any([np.zeros(evidence.rows, dtype=bool), *out], axis=0)
        seen = self._assess_each(marginals, inside, tolerance)
        if seen.fine.all():
            return seen
        # the sum of the errors of all variables decides
        together = tolerance * len(self.edges)
        rows, rough = np.arange(evidence.rows), ~seen.fine
        coarse = {name: (rows[own][rough[own]], table[:, rough[own]]) for name, (own, table) in marginals.items()}
        likely = self._assess_each(coarse, inside, together)
        return RowAssessment(seen.fine | likely.fine & (seen.error <= together), seen.error, likely.splits)

    def _assess_each(
        self, marginals: Mapping[str, tuple[Any, Values]], inside: NDArray[np.bool_], tolerance: float
    ) -> RowAssessment:
        """Assess the grid of each variable by itself, in rows that may lie inside the grid."""
        fine, inside = np.ones(len(inside), dtype=bool), inside.copy()
        error = np.zeros(len(inside))
        rough_cells: dict[str, NDArray[Any]] = {}
        for name, (own, table) in marginals.items():
            seen = assess_cells(take_logs(table), self.nodes(name, table.shape[1]), tolerance)
            # where nothing was seen, something may lie between the nodes
            inside[own] &= table.max(axis=0, initial=0.0) > 0
            fine[own] &= seen.settled
            error[own] += seen.error
            rough_cells[name] = seen.split
            for end, slope in zip((0, -1), self.reaches[name].slopes, strict=True):
                if np.isfinite(slope):
                    inside[own] &= table[end] <= AT_THE_END
        rough = inside & ~fine
        splits = {
            name: np.asarray(rough_cells[name][:, rough[own]].any(axis=1)) for name, (own, _) in marginals.items()
        }
        return RowAssessment(fine & inside, error, splits)


def make_shared_grid(problem: Problem, tolerance: float, max_bytes: float) -> SharedGrid | None:
    """Lay the shared grid of a problem; None where it would be too large, or leave no room for a row in `max_bytes`."""
    if problem.shared is None:
        return None
    reaches = find_prior_reaches(problem)
    if not all(name in reaches and 0 < reaches[name].high - reaches[name].low < 1e100 for name in problem.nodes):
        return None
    cells = {name: _first_edges(problem, name, reaches[name].low, reaches[name].high) for name in problem.nodes}
    if _is_too_large(problem, cells, SHARED_MOST_AT_FIRST):
        return None
    static = tuple(source for source in problem.shared if source.static)
    for _ in range(SHARED_ROUNDS):
        fresh = _refine_for_prior(static, _axes(problem, cells), cells, tolerance, max_bytes / 16)
        if fresh is None:
            break
        cells = fresh
        if _is_too_large(problem, cells, MOST_TABLE):
            return None
    grid = _make_grid(problem, cells, reaches)
    return grid if grid.count_rows_within(max_bytes) else None


def refine_shared_grid(
    problem: Problem, grid: SharedGrid, splits: Mapping[str, NDArray[np.bool_]], max_bytes: float
) -> SharedGrid | None:
    """Return the grid with some cells halved; None where it would be too large, or leave no room for a row in
    `max_bytes`, or was made finer often enough.
    """
    if grid.refinements >= MOST_REFINEMENTS or not any(split.any() for split in splits.values()):
        return None
    edges = {name: _halve_cells(cells, splits[name]) if name in splits else cells for name, cells in grid.edges.items()}
    if _is_too_large(problem, edges, MOST_TABLE):
        return None
    finer = _make_grid(problem, edges, grid.reaches, grid.refinements + 1)
    return finer if finer.count_rows_within(max_bytes) else None


def _make_grid(
    problem: Problem, cells: dict[str, Values], reaches: Mapping[str, PriorReach], refinements: int = 0
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
    patterns = None
    if problem.partly_observed:
        patterns = PatternProgram(problem.shared, program, problem.partly_observed, sizes)
    return SharedGrid(axes, reaches, cells, problem.shared, program, patterns, refinements)


def _halve_cells(edges: Values, split: NDArray[np.bool_]) -> Values:
    return np.sort(np.concatenate([edges, ((edges[:-1] + edges[1:]) / 2)[split]]))


def _most_cells(problem: Problem) -> int:
    return MOST_CELLS_ALONE if len(problem.nodes) == 1 else MOST_SHARED_CELLS


def _first_edges(problem: Problem, name: str, low: float, high: float) -> Values:
    """Cut at breaks, and finely enough for the likelihoods of observed children and for functions."""
    touching = [potential for potential in problem.potentials.values() if name in potential.scope]
    together = max(len(set(problem.nodes).intersection(factor.names)) for factor in problem.factors)
    count = SHARED_START_CELLS if together <= 2 else SHARED_FEWER_CELLS
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
        modes = find_modes_of_root(own)
        if modes.unseen.any():
            return np.linspace(low, high, _most_cells(problem) + 2)
        breaks.append(modes.edges)
    inner = np.concatenate([np.linspace(low, high, count + 1), *breaks])
    return np.unique(inner[(inner >= low) & (inner <= high)])


def _axes(problem: Problem, cells: Mapping[str, Values]) -> dict[str, Axis]:
    axes: dict[str, Axis] = dict(problem.axes)
    for name, edges in cells.items():
        axis = node_axis(edges[:-1, None], edges[1:, None])
        axes[name] = NodeAxis(axis.low, axis.high, axis.points[:, 0], axis.weights[:, 0])
    return axes


def _find_largest(axes: Mapping[str, Axis], scopes: Iterable[Sequence[str]]) -> float:
    """Return the cells of the largest table over some names."""
    return max((math.prod(float(axes[name].size) for name in names) for names in scopes), default=1.0)


def _is_too_large(problem: Problem, cells: Mapping[str, Values], most: float) -> bool:
    """Tell whether a grid has too many cells of a variable, or more than `most` in a factor."""
    factors = [factor.names for factor in problem.factors]
    longest = max(map(len, cells.values()), default=0)
    return longest > _most_cells(problem) + 1 or _find_largest(_axes(problem, cells), factors) > most


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
    if _find_largest(axes, program.names) > table_cells:
        return None
    nothing = Evidence({}, 1, single=False)
    tables = program.run({number: source.values(axes, nothing)[0] for number, source in enumerate(static)})
    fresh = {}
    for name, table in zip(names, tables, strict=True):
        edges = cells[name]
        axis = node_axis(edges[:-1, None], edges[1:, None])
        fresh[name] = _halve_cells(edges, assess_cells(take_logs(table)[:, None], axis, tolerance).split[:, 0])
    return fresh if any(len(edges) > len(cells[name]) for name, edges in fresh.items()) else None
