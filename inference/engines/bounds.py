"""Bounds: where slices would be too many, some of them are drawn, and the answer is told with limits of its error.

The variables that would be cut are drawn, from weighted mini-buckets or from their own potentials; given them
everything else is exact, in the same batches as all slices would be (a cutset sampler: Bidyuk & Dechter 2007). No
importance weight exceeds the upper bound of the mini-buckets, so empirical Bernstein intervals (Maurer & Pontil 2009)
hold for any number of draws. Where that bound is so far above the weights that these intervals say nothing, which is
said, there are those of a large sample beside them, without a guarantee.
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
from hybridbn.inference.elimination.mini_buckets import Proposal, bound_within
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
from hybridbn.inference.proposals import Drawn, choose_drawn, draw_forward, list_tables
from hybridbn.variables import Values

__all__ = ["BoundPlan", "SampledBounds"]

CELLS_PER_DRAW = 2.0**15
"""Variables are cut until the tables of one draw have at most this many cells, so that there can be many draws."""
DRAWN_CELLS_PER_SECOND = 8e7
"""About as many cells of all draws are computed in a second."""
SECONDS_PER_DRAW = 5e-5
"""About the time that a draw takes beside its tables."""
SECONDS_PER_FACTOR = 1e-7
"""About the time that a draw takes for each factor where variables are drawn from their own potentials."""
BUCKET_CELLS = 2.0**23
"""Mini-buckets have at most this many cells, because more would take longer than they help."""
BUCKET_CELLS_PER_SECOND = 2.0**17
"""Mini-buckets have at most this many cells for each second that is allowed."""
BUCKET_WORK_PER_SECOND = 2.0**21
"""All mini-buckets together have at most this many cells for each second that is allowed: a quarter of it."""
TABLE_CELLS, SMALL_TABLE = 2.0**25, 2.0**12
"""Factors with more cells count by their largest values, where that does not take more memory than is allowed; those
with fewer cells than the second number don't."""
HELD_BYTES_PER_CELL = 32
"""The memory that is allowed for each cell of all mini-buckets together."""
DRAWING = 0.6
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
DEVIATIONS = 2.5
"""Asymptotic intervals have so many standard errors on either side."""
_RISK = 1 - SAMPLED_CONFIDENCE
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
        seconds, most_bytes = options.seconds_per_row, options.max_bytes
        bucket_cells = max(min(BUCKET_CELLS, most_bytes / 64, seconds * BUCKET_CELLS_PER_SECOND), 1.0)
        if not is_sliceable(request):
            return None
        most_cells, effort = min(CELLS_PER_DRAW, most_bytes / 64), limit_effort(seconds) if search else 0.0
        # tables of which a draw takes less time than it takes beside them need not be smaller
        most_seconds = max(DRAWING * seconds / ENOUGH - SECONDS_PER_DRAW, SECONDS_PER_DRAW)
        most_total = DRAWN_CELLS_PER_SECOND * most_seconds
        drawn = choose_drawn(request, list_kept(problem), most_cells, most_total, _table_cells_of(request), effort)
        if drawn is None or (drawn.forward and (question.joint or question.over)):
            return None
        most, each = MOST, SECONDS_PER_DRAW
        if drawn.forward:
            most, each = MOST_FORWARD, SECONDS_PER_FACTOR * len(problem.factors)
        draws = DRAWING * seconds / (each + drawn.order.total / DRAWN_CELLS_PER_SECOND)
        draws = int(min(max(draws, FEWEST), most))
        largest = drawn.order.largest
        held = 32 * (bucket_cells + largest)
        return cls(request, drawn, draws, bucket_cells, largest, drawn.order.clique, held, draws * drawn.order.total)

    def make_proposal(self, case: Evidence, *, maximize: bool = False) -> tuple[Proposal, float]:
        """Return what the variables are drawn from in one row, and a bound on the logarithm of all weights; with
        `maximize` these are the largest products instead of the sums of products.
        """
        problem, drawn, options = self.request.problem, self.drawn, self.request.options
        kept = [name for name in list_kept(problem) if name not in drawn.names]
        tables, bounded = list_tables(problem, case, drawn, _table_cells_of(self.request), maximize=maximize)
        proposal = bound_within(
            tables,
            problem.sizes,
            [*drawn.order.names, *kept],
            drawn.names,
            self.bucket_cells,
            drawn.forward,
            options.max_bytes / HELD_BYTES_PER_CELL,
            options.seconds_per_row * BUCKET_WORK_PER_SECOND,
            maximize=maximize,
        )
        return proposal, proposal.log_bound if bounded else math.inf

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
        sums = SampleSums(self.request, self.drawn, self.draws)
        for part, values, log_probability, counts in self._draw(case, sums, time.process_time()):
            logs = part.log_norm - log_probability + np.log(counts)
            yield {name: own[part.rows] for name, own in values.items()}, logs

    def _solve_row(self, row: int, case: Evidence, started: float) -> Solution:
        sums = SampleSums(self.request, self.drawn, self.draws)
        for part, values, log_probability, counts in self._draw(case, sums, started):
            sums.add(part, values, log_probability, counts)
        return sums.solution(row, case)

    def _draw(self, case: Evidence, sums: SampleSums, started: float) -> Iterator[_DrawnPart]:
        """Yield solutions of draws for one row, and tell the sums the bound on their weights and their number."""
        drawn = self.drawn
        proposal, sums.log_bound = self.make_proposal(case)
        forward = draw_forward(self.request.problem, case, drawn)
        rng = np.random.default_rng(_SEED)
        for count in self.split_draws(started):
            values, log_probability = proposal.draw(count, rng, forward)
            first, counts = np.arange(count), np.ones(count, dtype=np.intp)
            if not forward:
                stacked = np.array([values[name] for name in drawn.names])
                _, first, counts = np.unique(stacked, axis=1, return_index=True, return_counts=True)
            distinct = {name: values[name][first] for name in drawn.names}
            sums.draws += count
            for part in solve_slices(self.request, case, distinct, drawn.order):
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


class SampleMoments(NamedTuple):
    """For a table over a scope, the sums over draws of weight times value, and of the products of their squares."""

    first: Values
    mixed: Values
    second: Values

    def rescale(self, factor: float) -> None:
        """Multiply all weights by a factor."""
        self.first.__imul__(factor)
        self.mixed.__imul__(factor**2)
        self.second.__imul__(factor**2)


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

    def __init__(self, request: EngineRequest, drawn: Drawn, most_draws: int) -> None:
        self.request, self.problem = request, request.problem
        self.log_bound = math.inf
        self.draws = 0
        # bounds that are looked at before draws stop share the risk
        wanted = request.options.tolerance > _spread_by_range(1.0, _RISK / 2, MOST)
        self._looks = max(math.ceil(math.log2(most_draws / FEWEST)), 0) + 1 if wanted else 1
        self._next_look: float = FEWEST if wanted else math.inf
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

    def _limit_certainly(self) -> BernsteinLimits:
        """Return the limits that hold for any number of draws."""
        reach = math.exp(min(self.log_bound - self.log_scale, 700.0)) if self.log_scale > -math.inf else 1.0
        return BernsteinLimits(self.draws, self.total, self.squares, reach, _RISK / self._looks)

    def _choose_limits(self, impossible: bool) -> tuple[BernsteinLimits, AsymptoticLimits | None]:
        """Return how the bounds are computed, and asymptotic ones where these are loose, of which a warning tells."""
        effective, count = self.effective, self.draws
        bernstein = self._limit_certainly()
        if impossible:
            return bernstein, None
        if effective < FEW_EFFECTIVE:
            warn_user(
                f"the effective sample has the size {effective:.3g} of {count} draws, below {FEW_EFFECTIVE:.0f}, so the"
                " estimates are rough; look at their bounds, or allow more seconds= or max_bytes=",
            )
            return bernstein, None
        if bernstein.least_width <= LOOSE:
            return bernstein, None
        warn_user(
            "the bounds are wide, because a draw may weigh far more than the heaviest one does; asymptotic_bounds"
            f" (from an effective sample of the size {effective:.3g}) are narrower, without a guarantee: they are wrong"
            " where much probability lies in what was not drawn. More max_bytes= make the bounds narrower",
        )
        return bernstein, AsymptoticLimits(count, self.total, self.squares)


@dataclass(frozen=True)
class AsymptoticLimits:
    """Normal limits of ratios of means, as if one draw more, as heavy as the heaviest, had the worst value.

    Attributes
    ----------
    count : the number of draws
    total, squares : the sums of their weights, the largest of which is one, and of the squares of these
    """

    count: int
    total: float
    squares: float

    def bound_ratio(self, moments: SampleMoments) -> tuple[Values, Values]:
        """Return the limits of the ratios."""
        p = moments.first / self.total
        squares = np.maximum(moments.second - 2 * p * moments.mixed + p**2 * self.squares, 0.0)
        half = DEVIATIONS * np.sqrt(squares) / self.total
        low, high = moments.first / (self.total + 1) - half, (moments.first + 1) / (self.total + 1) + half
        return np.maximum(low, 0.0), np.minimum(high, 1.0)


def _spread_by_range(reach: float, risk: float, count: int) -> float:
    """Return how far the mean of numbers between zero and `reach` may be from its expectation if they don't vary."""
    return 7 * reach * math.log(2 / risk) / (3 * max(count - 1, 1))


@dataclass(frozen=True)
class BernsteinLimits:
    """Limits of ratios of means that hold for any number of draws, if no weight exceeds `reach` (Maurer & Pontil 2009).

    Attributes
    ----------
    count, total, squares : as in `AsymptoticLimits`
    reach : in units of the largest weight drawn
    risk : that a limit does not hold
    """

    count: int
    total: float
    squares: float
    reach: float
    risk: float = _RISK

    @property
    def least_width(self) -> float:
        """Half the width of the limits of a ratio whose values don't differ between draws."""
        return self._deviate(0.0) * self.count / self.total if self.total > 0 else math.inf

    def _deviate(self, variance: Any, risk: float | None = None) -> Any:
        """Return how far a mean may be from its expectation on either side, but with the probability `risk`, by default
        half of that of both sides (theorem 4).
        """
        risk = self.risk / 2 if risk is None else risk
        spread = np.sqrt(2 * np.asarray(variance) * math.log(2 / risk) / self.count)
        return spread + _spread_by_range(self.reach, risk, self.count)

    def bound_log_mean(self, log_scale: float, log_bound: float) -> tuple[float, float]:
        """Return the limits of the logarithm of the expected weight."""
        if self.total == 0:
            return -math.inf, log_bound
        mean = self.total / self.count
        # two limits by the variance, and below that of Markov: a mean is k times its expectation with at most 1 / k
        risk = self.risk / 3
        half = float(self._deviate(max(self.squares / self.count - mean**2, 0.0), risk))
        low, high = max(mean - half, risk * mean), mean + half
        return log_scale + math.log(low), min(log_scale + math.log(high), log_bound)

    def bound_ratio(self, moments: SampleMoments) -> tuple[Values, Values]:
        """Return the limits of the ratios p: those for which w (t - p) may have the expectation zero.

        Values t are between 0 and 1, so that w (t - p) has the range of the weights w.
        """
        count = self.count
        estimate = np.clip(moments.first / self.total, 0.0, 1.0) if self.total > 0 else np.full_like(moments.first, 0.5)
        first, mixed, second = (moment / count for moment in moments)
        mean, square = self.total / count, self.squares / count

        def is_possible(p: Values) -> NDArray[np.bool_]:
            center = first - p * mean
            variance = np.maximum(second - 2 * p * mixed + p**2 * square - center**2, 0.0) * count / max(count - 1, 1)
            return np.asarray(np.abs(center) <= self._deviate(variance))

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
