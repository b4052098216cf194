"""Bounds: where slices would be too many, some of them are drawn, and the answer is told with limits of its error.

The variables that would be cut are drawn from the proposal of weighted mini-buckets; given them everything else is
exact, in the same batches as all slices would be (a cutset sampler: Bidyuk & Dechter 2007). No importance weight
exceeds the upper bound of the mini-buckets, so empirical Bernstein intervals (Maurer & Pontil 2009) hold for any number
of draws.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hybridbn.inference.elimination.cutting import Cut
from hybridbn.inference.elimination.mini_buckets import LogTable, Proposal, bound_from_above
from hybridbn.inference.engines import Engine, EngineRequest, Plan, Solution
from hybridbn.inference.engines.slices import (
    SLICES_AT_ONCE,
    add_slices,
    describe_cost,
    describe_seconds,
    find_cut,
    list_kept,
    solve_slices,
)
from hybridbn.inference.evidence import Evidence
from hybridbn.inference.posteriors.base import SAMPLED_CONFIDENCE
from hybridbn.inference.problem import Problem
from hybridbn.variables import Values

__all__ = ["SampledBounds"]

SECONDS = 60.0
"""About how long one row of evidence may take, if the options don't say."""
CELLS_PER_DRAW = 2.0**15
"""Variables are cut until the tables of one draw have at most this many cells, so that there can be many draws."""
DRAWN_CELLS_PER_SECOND = 8e7
"""About as many cells of all draws are computed in a second."""
SECONDS_PER_DRAW = 5e-5
"""About the time that a draw takes beside its tables."""
BUCKET_CELLS = 2.0**23
"""Mini-buckets have at most this many cells, because more would take longer than they help."""
BUCKET_CELLS_PER_SECOND = 2.0**17
"""Mini-buckets have at most this many cells for each second that is allowed."""
FEWEST, MOST = 256, 200_000
"""There are at least and at most so many draws."""
FEW_EFFECTIVE = 50.0
"""A smaller effective sample is said."""
_SEED = 0
_BISECTIONS = 40


class SampledBounds(Engine):
    """Sampling of the variables that would be cut, with bounds, where the options ask for it."""

    rank = 70

    def plan(self, request: EngineRequest) -> Plan | None:
        """Return the plan, None where a factor alone is too wide or a hidden variable has nodes."""
        return BoundPlan.of(request) if request.options.beyond == "bound" else None

    def offer(self, request: EngineRequest) -> str | None:
        """Return what draws would cost."""
        plan = BoundPlan.of(request, search=False)
        if plan is None or plan.held_bytes > request.options.max_bytes:
            return None
        seconds = describe_seconds(request.options.seconds or SECONDS)
        return f"beyond='bound' (sampled, with bounds: {plan.draws} draws, {describe_cost(seconds, plan.held_bytes)})"


@dataclass
class BoundPlan(Plan):
    """Draws of the variables that would be cut, and elimination of the others."""

    request: EngineRequest
    cut: Cut
    draws: int
    bucket_cells: float
    cells: float
    clique: Sequence[str]
    held_bytes: float
    operations: float
    distinct: ClassVar[bool] = True

    @classmethod
    def of(cls, request: EngineRequest, *, search: bool = True) -> BoundPlan | None:
        """Choose the variables to draw, and how many draws fit into the time."""
        problem, options = request.problem, request.options
        sizes = problem.sizes
        most_cells = min(CELLS_PER_DRAW, options.max_bytes / 64)
        widest = max((math.prod(float(sizes[n]) for n in factor.names) for factor in problem.factors), default=1.0)
        if problem.nodes or widest > options.max_bytes / 16:
            return None
        cut = find_cut(request, most_cells, search=search)
        if cut is None or not cut.names:
            return None
        seconds = SECONDS if options.seconds is None else options.seconds
        draws = int(min(max(seconds / (SECONDS_PER_DRAW + cut.order.total / DRAWN_CELLS_PER_SECOND), FEWEST), MOST))
        bucket_cells = max(min(BUCKET_CELLS, options.max_bytes / 64, seconds * BUCKET_CELLS_PER_SECOND), 1.0)
        largest = cut.order.largest
        held = 32 * (bucket_cells + largest)
        return cls(request, cut, draws, bucket_cells, largest, cut.order.clique, held, draws * cut.order.total)

    def solve(self, evidence: Evidence) -> Iterator[Solution]:
        """Yield the solution of each row."""
        for row in range(evidence.rows):
            yield self._solve_row(row, evidence.take(slice(row, row + 1), 1))

    def _solve_row(self, row: int, case: Evidence) -> Solution:
        problem, cut = self.request.problem, self.cut
        kept = [name for name in list_kept(problem) if name not in cut.names]
        order = [*cut.order.names, *kept]
        proposal = bound_from_above(_list_tables(problem, case), problem.sizes, order, cut.names, self.bucket_cells)
        sums = SampleSums(problem, proposal)
        rng = np.random.default_rng(_SEED)
        for start in range(0, self.draws, SLICES_AT_ONCE):
            count = min(SLICES_AT_ONCE, self.draws - start)
            codes, log_probability = proposal.draw(count, rng)
            stacked = np.array([codes[name] for name in cut.names])
            _, first, counts = np.unique(stacked, axis=1, return_index=True, return_counts=True)
            distinct = {name: codes[name][first] for name in cut.names}
            for part in solve_slices(self.request, case, distinct, cut):
                sums.add(part, distinct, log_probability[first][part.rows], counts[part.rows])
            sums.draws += count
        return sums.solution(row, case)


def _list_tables(problem: Problem, case: Evidence) -> list[LogTable]:
    """Return the logarithms of all factors for one row."""
    tables = []
    for source in problem.sources:
        logs = source.logs(problem.axes, case)
        tables.append(LogTable(source.names, logs[..., 0] if logs.ndim > len(source.names) else logs))
    return tables


class SampleMoments(NamedTuple):
    """For a table over a scope, the sums over draws of weight times value, and of the products of their squares."""

    first: Values
    mixed: Values
    second: Values


class SampleSums:
    """Sums over draws, from which estimates and their bounds are computed."""

    problem: Problem
    proposal: Proposal
    moments: list[SampleMoments]
    total: float
    squares: float
    error: float

    def __init__(self, problem: Problem, proposal: Proposal) -> None:
        self.problem, self.proposal = problem, proposal
        self.draws = 0
        sizes = problem.sizes
        self.moments = [
            SampleMoments(*(np.zeros([sizes[name] for name in scope]) for _ in range(3))) for scope in problem.scopes
        ]
        self.total = self.squares = self.error = 0.0

    def add(
        self,
        part: Solution,
        codes: dict[str, NDArray[np.intp]],
        log_probability: Values,
        counts: NDArray[np.intp],
    ) -> None:
        """Add the slices in a solution, each with the probability and the number of its draws."""
        # weights are scaled by the bound, which none of them exceeds but for rounding
        weights = np.exp(np.minimum(part.log_norm - log_probability - self.proposal.log_bound, 0.0))
        possible = np.flatnonzero(weights)
        weights, rows = weights[possible], part.rows[possible]
        linear = np.asarray(counts[possible] * weights, dtype=np.float64)
        self.total += float(linear.sum())
        self.squares += float(linear @ weights)
        self.error += float(linear @ part.error[possible])
        for moments, scope, table in zip(self.moments, self.problem.scopes, part.tables, strict=True):
            values = table[..., possible]
            add_slices(moments.first, scope, values, linear, rows, codes)
            add_slices(moments.mixed, scope, values, linear * weights, rows, codes)
            add_slices(moments.second, scope, values**2, linear * weights, rows, codes)

    def solution(self, row: int, case: Evidence) -> Solution:
        """Return the estimate of the row, with its bounds."""
        problem, count = self.problem, self.draws
        log_bound = self.proposal.log_bound
        impossible = log_bound == -math.inf
        mean = self.total / count
        effective = self.total**2 / self.squares if self.squares > 0 else 0.0
        if effective < FEW_EFFECTIVE and not impossible:
            warnings.warn(
                f"the effective sample has the size {effective:.3g} of {count} draws, below {FEW_EFFECTIVE:.0f}, so the"
                " estimates are rough; look at their bounds, or allow more seconds= or max_bytes=",
                stacklevel=6,
            )
        bounds: list[Values] = []
        tables: list[Values] = []
        for moments in self.moments:
            low, high = _bound_ratio(moments, self.total, self.squares, count)
            bounds.append(np.stack([low, high])[..., None])
            with np.errstate(invalid="ignore", divide="ignore"):
                share = moments.first / moments.first.sum() if mean > 0 else np.full_like(moments.first, 1.0)
            tables.append((share if mean > 0 else share / share.size)[..., None])
        if impossible:
            tables = [np.full_like(table, np.nan) for table in tables]
        deviation = _deviate(max(self.squares / count - mean**2, 0.0), 1.0, count)
        with np.errstate(divide="ignore"):
            limits = np.log(np.clip([mean - deviation, mean + deviation], 0.0, 1.0)) + log_bound
            # an estimate of zero is none: the upper bound is all that is known
            log_norm = log_bound + (math.log(mean) if mean > 0 else 0.0)
        bounds.append(limits[:, None])
        error = np.array([self.error / self.total if self.total > 0 else 0.0])
        axes = dict(problem.axes)
        return Solution(problem, np.array([row]), case, axes, tables, np.array([log_norm]), error, bounds)


def _deviate(variance: Values | float, reach: float, count: int) -> Values:
    """Return how far a mean may be from its expectation on either side (Maurer & Pontil 2009, theorem 4)."""
    level = math.log(4 / (1 - SAMPLED_CONFIDENCE))
    return np.asarray(np.sqrt(2 * np.asarray(variance) * level / count) + 7 * reach * level / (3 * max(count - 1, 1)))


def _bound_ratio(moments: SampleMoments, total: float, squares: float, count: int) -> tuple[Values, Values]:
    """Return the limits of the ratios p of two means: those for which w (t - p) may have the expectation zero.

    Weights w are between 0 and 1 and values t too, so that w (t - p) has a range of one.
    """
    estimate = np.clip(moments.first / total, 0.0, 1.0) if total > 0 else np.full_like(moments.first, 0.5)
    first, mixed, second = (moment / count for moment in moments)
    mean, square = total / count, squares / count

    def is_possible(p: Values) -> NDArray[np.bool_]:
        center = first - p * mean
        variance = np.maximum(second - 2 * p * mixed + p**2 * square - center**2, 0.0) * count / max(count - 1, 1)
        return np.asarray(np.abs(center) <= _deviate(variance, 1.0, count))

    limits = []
    for end in (0.0, 1.0):
        inside, outside = estimate, np.full_like(estimate, end)
        reached = is_possible(outside)
        for _ in range(_BISECTIONS):
            middle = (inside + outside) / 2
            fine = is_possible(middle)
            inside, outside = np.where(fine, middle, inside), np.where(fine, outside, middle)
        limits.append(np.where(reached, end, outside))
    return limits[0], limits[1]
