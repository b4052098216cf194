"""Bounds: where slices would be too many, some of them are drawn, and the answer is told with limits of its error.

The variables that would be cut are drawn, from weighted mini-buckets or from their own potentials; given them
everything else is exact, in the same batches as all slices would be (a cutset sampler: Bidyuk & Dechter 2007). No
importance weight exceeds the upper bound of the mini-buckets, so there are intervals that hold for any number of draws
(see `hybridbn.inference.sample_limits`). Where that bound is so far above the weights that these intervals are wide,
which is said, there are those of a large sample beside them, without a guarantee.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hybridbn.errors import warn_user
from hybridbn.inference.density_sums import DensitySums
from hybridbn.inference.elimination.mini_buckets import Proposal, bound_within, find_possible
from hybridbn.inference.elimination.ordering import limit_effort
from hybridbn.inference.engines import Engine, EngineRequest, Plan, Solution, describe_cost, describe_seconds
from hybridbn.inference.engines.slices import (
    add_slices,
    count_slices_at_once,
    index_cells,
    is_sliceable,
    list_kept,
    solve_slices,
)
from hybridbn.inference.evidence import Evidence
from hybridbn.inference.posteriors.base import SAMPLED_CONFIDENCE
from hybridbn.inference.problem import Problem
from hybridbn.inference.proposals import Drawn, choose_drawn, draw_all, draw_forward, list_tables
from hybridbn.inference.sample_limits import AsymptoticLimits, BettingLimits, SampleMoments, estimate_tail
from hybridbn.variables import Values

__all__ = ["BoundPlan", "SampledBounds"]

CELLS_PER_DRAW = 2.0**15
"""Variables are cut until the tables of one draw have at most this many cells, so that there can be many draws."""
CELLS_BESIDE_TABLES = 2500.0
"""What a draw costs beside its tables, in cells."""
CELLS_PER_FACTOR = 5.0
"""What a draw costs for each factor where variables are drawn from their own potentials."""
FACTORS_MORE = 50
"""A draw of all variables takes as much longer as with so many more factors."""
BUCKET_CELLS = 2.0**23
"""Mini-buckets have at most this many cells, because more would take longer than they help."""
BUCKET_SHARE, BUCKETS_SHARE = 2.0**17 / 5e7, 2.0**21 / 5e7
"""A mini-bucket, and all of them together, have at most this share of the cells that an answer may take: sums over
buckets are many times slower than those over tables.
"""
TABLE_CELLS, SMALL_TABLE = 2.0**25, 2.0**12
"""Factors with more cells count by their largest values, where that does not take more memory than is allowed; those
with fewer cells than the second number don't."""
HELD_BYTES_PER_CELL = 32
"""The memory that is allowed for each cell of all mini-buckets together."""
DRAWING = 0.7
"""The part of the time that draws take by the plan; the rest is for the search of what to draw and for mini-buckets."""
FEWEST, MOST, MOST_FORWARD = 256, 200_000, 2_000_000
"""There are at least and at most so many draws; more where variables are drawn from their own potentials, without
tables, which is fast and needs many."""
ENOUGH = 4096
"""Where there is no time for that many draws, more variables are drawn, so that the tables of a draw are smaller."""
LATENESS, LATE_SECONDS = 1.2, 0.3
"""There are no more draws after this part of the time and so many seconds more."""
PARTS = 8
"""There are at least about so many chunks of draws, after each of which the time is looked at."""
FEW_EFFECTIVE = 50.0
"""A smaller effective sample is said."""
LOOSE = 0.1
"""Where the bound on the weights alone makes intervals wider than twice this, there are asymptotic ones, too."""
HEAVY = 0.7
"""There are none where the tail of the weights has a larger shape."""
_SEED = 0


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
        seconds = describe_seconds(replace(request.options, beyond="bound").seconds_per_row)
        return f"beyond='bound' (sampled, with bounds: {plan.draws} draws, {describe_cost(seconds, plan.held_bytes)})"


@dataclass
class BoundPlan(Plan):
    """Draws of some variables, and elimination of the others."""

    request: EngineRequest
    drawn: Drawn
    draws: int
    bucket_cells: float
    cells: float
    clique: Sequence[str]
    held_bytes: float
    operations: float
    sampled: ClassVar[bool] = True

    @classmethod
    def of(cls, request: EngineRequest, *, search: bool = True) -> BoundPlan | None:
        """Choose the variables to draw, and how many draws fit into the time."""
        problem, question = request.problem, request.question
        options = replace(request.options, beyond="bound")
        allowed, most_bytes = options.cells_per_row, options.max_bytes
        bucket_cells = max(min(BUCKET_CELLS, most_bytes / 64, allowed * BUCKET_SHARE), 1.0)
        if not is_sliceable(request):
            return None
        most_cells, effort = min(CELLS_PER_DRAW, most_bytes / 64), limit_effort(allowed) if search else 0.0
        # tables that cost a draw less than what it takes beside them need not be smaller
        most_total = max(DRAWING * allowed / ENOUGH - CELLS_BESIDE_TABLES, CELLS_BESIDE_TABLES)
        drawn = choose_drawn(request, list_kept(problem), most_cells, most_total, _table_cells_of(request), effort)
        if drawn is None or (drawn.forward and (question.joint or question.over)):
            return None
        most, each = MOST, CELLS_BESIDE_TABLES
        if drawn.forward:
            most, each = MOST_FORWARD, CELLS_PER_FACTOR * len(problem.factors)
        draws = DRAWING * allowed / (each + drawn.order.total)
        draws = int(min(max(draws, FEWEST), most))
        largest = drawn.order.largest
        held = 32 * (bucket_cells + largest)
        return cls(request, drawn, draws, bucket_cells, largest, drawn.order.clique, held, draws * drawn.order.total)

    def draw_all(self) -> BoundPlan | None:
        """Return the plan to draw all variables; None where they are not all discrete."""
        drawn = draw_all(self.request)
        if drawn is None:
            return None
        problem = self.request.problem
        each = CELLS_PER_FACTOR * (len(problem.factors) + len(drawn.names) + FACTORS_MORE)
        draws = DRAWING * self.request.options.cells_per_row / each
        return replace(self, drawn=drawn, draws=int(min(max(draws, FEWEST), MOST)))

    def make_proposal(self, case: Evidence, *, maximize: bool = False) -> tuple[Proposal, float]:
        """Return what the variables are drawn from in one row, and a bound on the logarithm of all weights; with
        `maximize` these are the largest products instead of the sums of products.
        """
        problem, drawn, options = self.request.problem, self.drawn, self.request.options
        kept = [name for name in list_kept(problem) if name not in drawn.names]
        tables, bounded = list_tables(problem, case, drawn, _table_cells_of(self.request), maximize=maximize)
        tables, states = find_possible(tables, problem.sizes, drawn.forward)
        proposal = bound_within(
            tables,
            {**problem.sizes, **{name: len(own) for name, own in states.items()}},
            [*drawn.order.names, *kept],
            drawn.names,
            self.bucket_cells,
            drawn.forward,
            options.max_bytes / HELD_BYTES_PER_CELL,
            options.cells_per_row * BUCKETS_SHARE,
            maximize=maximize,
        )
        return proposal._replace(states=states), proposal.log_bound if bounded else math.inf

    def find_end(self, started: float) -> float:
        """Return until when there are draws for a row that was begun at `started`."""
        # of the processor, so that a busy machine changes no answers; nor does a plan that is a little too short
        options = self.request.options
        return started + (LATENESS * options.seconds_per_row + LATE_SECONDS) * options.jobs

    def split_draws(self, started: float) -> Iterator[int]:
        """Yield the numbers of draws to make at a time, as long as there is time, which began at `started`."""
        latest = self.find_end(started)
        step = min(count_slices_at_once(self.request.problem, self.drawn.names), max(self.draws // PARTS, FEWEST))
        for start in range(0, self.draws, step):
            yield min(step, self.draws - start)
            if time.process_time() > latest:
                break

    def solve(self, evidence: Evidence) -> Iterator[Solution]:
        """Yield the solution of each row."""
        started = self.request.started
        for row in range(evidence.rows):
            yield self._solve_row(row, evidence.take(slice(row, row + 1), 1), started)
            started = time.process_time()

    def weigh(self, case: Evidence) -> Iterator[tuple[Mapping[str, NDArray[Any]], Values]] | None:
        """Return the values that are drawn, weighted by their importance."""
        return self._weigh(case)

    def _weigh(self, case: Evidence) -> Iterator[tuple[Mapping[str, NDArray[Any]], Values]]:
        sampler = _Sampler.of(self, case)
        for part, values, log_probability, counts in sampler.draw(time.process_time()):
            logs = part.log_norm - log_probability + np.log(counts)
            yield {name: own[part.rows] for name, own in values.items()}, logs

    def _solve_row(self, row: int, case: Evidence, started: float) -> Solution:
        sampler = _Sampler.of(self, case)
        for part, values, log_probability, counts in sampler.draw(started):
            sampler.sums.add(part, values, log_probability, counts)
        return sampler.sums.solution(row, case)


class _Sampler:
    """Draws for one row, and their sums."""

    def __init__(self, plan: BoundPlan, case: Evidence) -> None:
        self._plan, self._case = plan, case
        self._proposal, log_bound = plan.make_proposal(case)
        self.sums = SampleSums(plan.request, plan.drawn, log_bound)

    @classmethod
    def of(cls, plan: BoundPlan, case: Evidence) -> _Sampler:
        """Return the sampler whose limits will be narrower: of the planned variables, or of all."""
        samplers = [cls(one, case) for one in (plan, plan.draw_all()) if one is not None]
        # limits narrow as draws get more, and are as wide as the bound on their weights is high
        return min(samplers, key=lambda sampler: sampler.sums.log_bound - math.log(sampler._plan.draws))

    def draw(self, started: float) -> Iterator[_DrawnPart]:
        """Yield solutions of draws, and tell the sums their number."""
        request, drawn, sums = self._plan.request, self._plan.drawn, self.sums
        forward = draw_forward(request.problem, self._case, drawn)
        rng = np.random.default_rng(_SEED)
        for count in self._plan.split_draws(started):
            values, log_probability = self._proposal.draw(count, rng, forward)
            first, counts = np.arange(count), np.ones(count, dtype=np.intp)
            if not forward:
                stacked = np.array([values[name] for name in drawn.names])
                _, first, counts = np.unique(stacked, axis=1, return_index=True, return_counts=True)
            distinct = {name: values[name][first] for name in drawn.names}
            sums.draws += count
            for part in solve_slices(request, self._case, distinct, drawn.order):
                yield _DrawnPart(part, distinct, log_probability[first][part.rows], counts[part.rows])
            if sums.is_accurate():
                break


class _DrawnPart(NamedTuple):
    """The solution of some distinct draws: `values` of all draws of the chunk, and of its rows the log probabilities
    under the proposal and the numbers.
    """

    part: Solution
    values: dict[str, NDArray[Any]]
    log_probability: Values
    counts: NDArray[np.intp]


def _table_cells_of(request: EngineRequest) -> float:
    """Return the most cells of a factor whose table the mini-buckets know."""
    # small tables are in memory anyway
    return min(TABLE_CELLS, max(SMALL_TABLE, request.options.max_bytes / 16))


class SampleSums:
    """Sums over draws, from which estimates and their bounds are computed; the largest weight is one."""

    request: EngineRequest
    problem: Problem
    log_bound: float
    log_scale: float
    densities: DensitySums
    moments: dict[int, SampleMoments]
    total: float
    squares: float
    error: float

    def __init__(self, request: EngineRequest, drawn: Drawn, log_bound: float) -> None:
        self.request, self.problem = request, request.problem
        self.log_bound = log_bound
        self.draws = 0
        self._next_look = FEWEST
        self._logs: list[Values] = []
        self.log_scale = -math.inf
        self.densities = DensitySums(request, drawn.names, sampled=True)
        sizes = self.problem.sizes
        self.moments = {
            number: SampleMoments(*(np.zeros([sizes[name] for name in scope]) for _ in range(3)))
            for number, scope in enumerate(self.problem.scopes)
            if number not in self.densities.numbers
        }
        self.total = self.squares = self.error = 0.0

    def add(
        self, part: Solution, values: dict[str, NDArray[Any]], log_probability: Values, counts: NDArray[np.intp]
    ) -> None:
        """Add the slices in a solution, each with the probability and the number of its draws."""
        logs = part.log_norm - log_probability
        # no weight exceeds the bound but for rounding
        logs = np.minimum(logs, self.log_bound)
        self._logs.append(np.repeat(logs, counts))
        self._rescale(float(logs.max(initial=-math.inf)))
        weights = np.exp(logs - self.log_scale) if self.log_scale > -math.inf else np.zeros(len(logs))
        possible = np.flatnonzero(weights)
        weights, rows = weights[possible], part.rows[possible]
        linear = np.asarray(counts[possible] * weights, dtype=np.float64)
        self.total += float(linear.sum())
        self.squares += float(linear @ weights)
        self.error += float(linear @ part.error[possible])
        codes = index_cells(self.problem, values)
        for number, moments in self.moments.items():
            scope, table = self.problem.scopes[number], part.tables[number][..., possible]
            add_slices(moments.first, scope, table, linear, rows, codes)
            add_slices(moments.mixed, scope, table, linear * weights, rows, codes)
            add_slices(moments.second, scope, table**2, linear * weights, rows, codes)
        every = np.zeros(len(logs))
        every[possible] = linear
        self.densities.add(part, values, every, self.log_scale)

    def _rescale(self, top: float) -> None:
        if not top > self.log_scale:
            return
        factor = math.exp(self.log_scale - top)
        self.log_scale = top
        self.total, self.error = self.total * factor, self.error * factor
        self.squares *= factor**2
        for moments in self.moments.values():
            moments.rescale(factor)

    @property
    def effective(self) -> float:
        """The size of the effective sample."""
        return self.total**2 / self.squares if self.squares > 0 else 0.0

    def is_accurate(self) -> bool:
        """Tell whether no limit is further from its estimate than the wanted error, each time that there are twice as
        many draws.
        """
        if self.draws < self._next_look or self.effective < FEW_EFFECTIVE:
            return False
        self._next_look = 2 * self.draws
        flat = self._flatten()
        estimates = flat.first / self.total
        low, high = self._limit_certainly().bound_ratio(flat)
        return bool(
            np.max(np.maximum(estimates - low, high - estimates), initial=0.0) <= self.request.options.tolerance
        )

    def solution(self, row: int, case: Evidence) -> Solution:
        """Return the estimate of the row, with its bounds."""
        problem = self.problem
        impossible = self.log_bound == -math.inf
        certain, asymptotic = self._choose_limits(impossible)
        flat = self._flatten()
        own = certain.bound_ratio(flat)
        limits = np.stack([*own, *(own if asymptotic is None else asymptotic.bound_ratio(flat))])
        start = 0
        bounds: list[Values] = []
        tables: list[Values] = []
        for number in range(len(problem.scopes)):
            moments = self.moments.get(number)
            if moments is None:
                tables.append(np.ones(1))
                bounds.append(np.full((4, 1), np.nan))
                continue
            stop = start + moments.first.size
            bounds.append(limits[:, start:stop].reshape(4, *moments.first.shape, 1))
            start = stop
            share = moments.first if self.total > 0 else np.ones_like(moments.first)
            tables.append((np.full_like(share, np.nan) if impossible else share / share.sum())[..., None])
        # an estimate of zero is none: the upper bound is all that is known
        log_norm = self.log_bound
        if self.total > 0:
            log_norm = self.log_scale + math.log(self.total / self.draws)
        bounds.append(np.array(certain.bound_log_mean(self.log_scale, self.log_bound))[:, None])
        error = np.array([self.error / self.total if self.total > 0 else 0.0])
        densities = {} if impossible else self.densities.posteriors(self.effective)
        rows = np.array([row])
        return Solution(problem, rows, case, dict(problem.axes), tables, np.array([log_norm]), error, bounds, densities)

    def _flatten(self) -> SampleMoments:
        """Return the moments of all tables at once, because there may be many small ones."""
        kinds = zip(*self.moments.values(), strict=True) if self.moments else [[np.zeros(0)]] * 3
        return SampleMoments(*(np.concatenate([np.ravel(table) for table in tables]) for tables in kinds))

    def _limit_certainly(self) -> BettingLimits:
        """Return the limits that hold for any number of draws."""
        reach = math.exp(min(self.log_bound - self.log_scale, 300.0)) if self.log_scale > -math.inf else 1.0
        return BettingLimits(self.draws, self.total, self.squares, reach, 1 - SAMPLED_CONFIDENCE)

    def _choose_limits(self, impossible: bool) -> tuple[BettingLimits, AsymptoticLimits | None]:
        """Return how the bounds are computed, and asymptotic ones where these are loose, of which a warning tells."""
        effective, certain = self.effective, self._limit_certainly()
        if impossible:
            return certain, None
        if effective < FEW_EFFECTIVE:
            warn_user(
                f"the effective sample has the size {effective:.3g} of {self.draws} draws, below {FEW_EFFECTIVE:.0f},"
                " so the estimates are rough; look at their bounds, or allow more seconds= or max_bytes=",
            )
            return certain, None
        if certain.least_width <= LOOSE:
            return certain, None
        tail = estimate_tail(np.concatenate(self._logs))
        if tail > HEAVY:
            warn_user(
                f"a few draws weigh most (their tail has the shape {tail:.2g}, above {HEAVY}), and much probability may"
                " lie in what was not drawn, so the estimates are rough; look at their bounds, or allow more seconds="
                " or max_bytes=",
            )
            return certain, None
        warn_user(
            "the bounds are wide, because a draw may weigh far more than the heaviest one does; asymptotic_bounds"
            f" (from an effective sample of the size {effective:.3g}) are narrower, without a guarantee: they are wrong"
            " where much probability lies in what was not drawn. More max_bytes= make the bounds narrower",
        )
        return certain, AsymptoticLimits(self.total, self.squares)
