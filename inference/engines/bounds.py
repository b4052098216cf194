"""Bounds: where slices would be too many, some of them are drawn, and the answer is told with limits of its error.

The variables that would be cut are drawn, from weighted mini-buckets or from their own potentials; given them
everything else is exact, in the same batches as all slices would be (a cutset sampler: Bidyuk & Dechter 2007).

No importance weight exceeds the upper bound of the mini-buckets, so there are confidence sequences, which hold for any
number of draws. They follow from bets (Waudby-Smith & Ramdas 2024, "Estimating means of bounded random variables by
betting"): whoever bets against a wrong ratio gets rich, and whoever bets against the right one becomes 1 / risk times
as rich with at most the probability `risk`, whenever the draws stop. Where the upper bound is far above the weights,
these limits are wide, which is said, and beside them stand normal ones, without a guarantee, unless the tail of the
weights is too heavy for these (Vehtari, Simpson, Gelman, Yao & Gabry 2024, "Pareto smoothed importance sampling").
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from hybridbn.errors import warn_user
from hybridbn.inference.compilation import Problem
from hybridbn.inference.elimination.ordering import limit_effort
from hybridbn.inference.engines import Engine, Plan, Solution, describe_cost, describe_seconds
from hybridbn.inference.engines.slices import (
    WeightedSums,
    count_slices_at_once,
    index_cells,
    is_sliceable,
    list_kept,
    solve_slices,
)
from hybridbn.inference.evidence import Evidence
from hybridbn.inference.posteriors.base import SAMPLED_CONFIDENCE
from hybridbn.inference.proposals import (
    Drawn,
    Proposal,
    bound_within,
    choose_drawn,
    draw_all,
    draw_forward,
    find_possible,
    list_tables,
)
from hybridbn.options import Options
from hybridbn.variables import Values

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

    def plan(self, problem: Problem, evidence: Evidence, options: Options) -> Plan | None:
        """Return the plan, None where a factor alone is too wide or a hidden variable has nodes."""
        return BoundPlan.of(problem, evidence, options) if options.beyond == "bound" else None

    def offer(self, problem: Problem, evidence: Evidence, options: Options) -> str | None:
        """Return what draws would cost."""
        plan = BoundPlan.of(problem, evidence, options, search=False)
        if plan is None or plan.held_bytes > options.max_bytes:
            return None
        seconds = describe_seconds(replace(options, beyond="bound").seconds_per_row)
        return f"beyond='bound' (sampled, with bounds: {plan.draws} draws, {describe_cost(seconds, plan.held_bytes)})"


@dataclass
class BoundPlan(Plan):
    """Draws of some variables, and elimination of the others."""

    started: float
    drawn: Drawn
    draws: int
    bucket_cells: float
    sampled: ClassVar[bool] = True

    @classmethod
    def of(cls, problem: Problem, evidence: Evidence, options: Options, *, search: bool = True) -> BoundPlan | None:
        """Choose the variables to draw, and how many draws fit into the time."""
        started, question = time.process_time(), problem.question
        options = replace(options, beyond="bound")
        allowed, most_bytes = options.cells_per_row, options.max_bytes
        bucket_cells = max(min(BUCKET_CELLS, most_bytes / 64, allowed * BUCKET_SHARE), 1.0)
        most_cells, effort = min(CELLS_PER_DRAW, most_bytes / 64), limit_effort(allowed) if search else 0.0
        # tables that cost a draw less than what it takes beside them need not be smaller
        most_total = max(DRAWING * allowed / ENOUGH - CELLS_BESIDE_TABLES, CELLS_BESIDE_TABLES)
        drawn = (
            choose_drawn(problem, list_kept(problem), most_cells, most_total, _count_table_cells(options), effort)
            if is_sliceable(problem)
            else None
        )
        if drawn is None or (drawn.forward and (question.joint or question.over)):
            return None
        most = MOST_FORWARD if drawn.forward else MOST
        each = CELLS_PER_FACTOR * len(problem.factors) if drawn.forward else CELLS_BESIDE_TABLES
        draws = DRAWING * allowed / (each + drawn.order.total)
        draws = int(min(max(draws, FEWEST), most))
        order = drawn.order
        held = 32 * (bucket_cells + order.largest)
        cost = order.largest, order.clique, held, draws * order.total
        return cls(problem, options, *cost, started, drawn, draws, bucket_cells)

    def draw_all(self) -> BoundPlan | None:
        """Return the plan to draw all variables; None where they are not all discrete."""
        drawn = draw_all(self.problem)
        if drawn is None:
            return None
        problem = self.problem
        each = CELLS_PER_FACTOR * (len(problem.factors) + len(drawn.names) + FACTORS_MORE)
        draws = DRAWING * self.options.cells_per_row / each
        return replace(self, drawn=drawn, draws=int(min(max(draws, FEWEST), MOST)))

    def make_proposal(self, case: Evidence, *, maximize: bool = False) -> tuple[Proposal, float]:
        """Return what the variables are drawn from in one row, and a bound on the logarithm of all weights; with
        `maximize` these are the largest products instead of the sums of products.
        """
        problem, drawn, options = self.problem, self.drawn, self.options
        kept = [name for name in list_kept(problem) if name not in drawn.names]
        tables, bounded = list_tables(problem, case, drawn, _count_table_cells(options), maximize=maximize)
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
        options = self.options
        return started + (LATENESS * options.seconds_per_row + LATE_SECONDS) * options.jobs

    def split_draws(self, started: float) -> Iterator[int]:
        """Yield the numbers of draws to make at a time, as long as there is time, which began at `started`."""
        latest = self.find_end(started)
        step = min(count_slices_at_once(self.problem, self.drawn.names), max(self.draws // PARTS, FEWEST))
        for start in range(0, self.draws, step):
            yield min(step, self.draws - start)
            if time.process_time() > latest:
                break

    def solve(self, evidence: Evidence) -> Iterator[Solution]:
        """Yield the solution of each row."""
        started = self.started
        for row in range(evidence.rows):
            case = evidence.take(slice(row, row + 1), 1)
            sampler = _Sampler.of(self, case)
            for part, values, log_probability, counts in sampler.draw(started):
                sampler.sums.add_draws(part, values, log_probability, counts)
            yield sampler.sums.solution(row, case)
            started = time.process_time()

    def weigh(self, case: Evidence) -> Iterator[tuple[Mapping[str, NDArray[Any]], Values]]:
        """Yield the values that are drawn, weighted by their importance."""
        sampler = _Sampler.of(self, case)
        for part, values, log_probability, counts in sampler.draw(time.process_time()):
            logs = part.log_norm - log_probability + np.log(counts)
            yield {name: own[part.rows] for name, own in values.items()}, logs


class _Sampler:
    """Draws for one row, and their sums."""

    def __init__(self, plan: BoundPlan, case: Evidence) -> None:
        self._plan, self._case = plan, case
        self._proposal, log_bound = plan.make_proposal(case)
        self.sums = SampleSums(plan, log_bound)

    @classmethod
    def of(cls, plan: BoundPlan, case: Evidence) -> _Sampler:
        """Return the sampler whose limits will be narrower: of the planned variables, or of all."""
        samplers = [cls(one, case) for one in (plan, plan.draw_all()) if one is not None]
        # limits narrow as draws get more, and are as wide as the bound on their weights is high
        return min(samplers, key=lambda sampler: sampler.sums.log_bound - math.log(sampler._plan.draws))

    def draw(self, started: float) -> Iterator[tuple[Solution, dict[str, NDArray[Any]], Values, NDArray[np.intp]]]:
        """Yield solutions of distinct draws, and tell the sums their number.

        With each come the values of all distinct draws of a chunk, and the log probabilities under the proposal and the
        numbers of those in the solution.
        """
        plan, drawn, sums = self._plan, self._plan.drawn, self.sums
        forward = draw_forward(plan.problem, self._case, drawn)
        rng = np.random.default_rng(_SEED)
        for count in self._plan.split_draws(started):
            values, log_probability = self._proposal.draw(count, rng, forward)
            first, counts = np.arange(count), np.ones(count, dtype=np.intp)
            if not forward:
                stacked = np.array([values[name] for name in drawn.names])
                _, first, counts = np.unique(stacked, axis=1, return_index=True, return_counts=True)
            distinct = {name: values[name][first] for name in drawn.names}
            sums.draws += count
            for part in solve_slices(plan.problem, self._case, distinct, drawn.order, plan.options):
                yield part, distinct, log_probability[first][part.rows], counts[part.rows]
            if sums.is_accurate():
                break


def _count_table_cells(options: Options) -> float:
    """Return the most cells of a factor whose table the mini-buckets know."""
    # small tables are in memory anyway
    return min(TABLE_CELLS, max(SMALL_TABLE, options.max_bytes / 16))


class SampleSums(WeightedSums):
    """Sums over draws, from which estimates and their bounds are computed.

    Attributes
    ----------
    log_bound : a bound on the logarithms of all weights
    draws : the number of draws
    squares : the sum of the squares of the weights
    mixed, second : for each scope the sums of squared weight times table, and times squared table
    """

    def __init__(self, plan: BoundPlan, log_bound: float) -> None:
        super().__init__(plan.problem, plan.drawn.names, plan.problem.sizes, sampled=True)
        self.log_bound = log_bound
        self.draws = 0
        self.squares: Values = np.zeros(())
        self.mixed: dict[int, Values] = {number: np.zeros_like(table) for number, table in self.tables.items()}
        self.second: dict[int, Values] = {number: np.zeros_like(table) for number, table in self.tables.items()}
        self.scaled.extend((2, table) for table in (self.squares, *self.mixed.values(), *self.second.values()))
        self._tolerance = plan.options.tolerance
        self._next_look = FEWEST
        self._logs: list[Values] = []

    def add_draws(
        self, part: Solution, values: dict[str, NDArray[Any]], log_probability: Values, counts: NDArray[np.intp]
    ) -> None:
        """Add the slices in a solution, each with the probability and the number of its draws."""
        # no weight exceeds the bound but for rounding
        logs = np.minimum(part.log_norm - log_probability, self.log_bound)
        self._logs.append(np.repeat(logs, counts))
        codes = index_cells(self.problem, values)
        possible, weights, linear = self.add(part, logs, codes, values, counts)
        self.squares += linear @ weights
        for number in self.tables:
            self.add_tables(self.mixed[number], number, part, possible, linear * weights, codes)
            self.add_tables(self.second[number], number, part, possible, linear * weights, codes, power=2)

    @property
    def effective(self) -> float:
        """The size of the effective sample."""
        return self.total**2 / float(self.squares) if self.squares > 0 else 0.0

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
        return bool(np.max(np.maximum(estimates - low, high - estimates), initial=0.0) <= self._tolerance)

    def solution(self, row: int, case: Evidence) -> Solution:
        """Return the estimate of the row, with its bounds."""
        problem = self.problem
        impossible = self.log_bound == -math.inf
        certain, flat = self._limit_certainly(), self._flatten()
        own = certain.bound_ratio(flat)
        is_asymptotic = not impossible and self._are_loose(certain)
        limits = np.stack([*own, *(certain.bound_asymptotically(flat) if is_asymptotic else own)])
        sizes = [total.size for total in self.tables.values()]
        limits_of = dict(zip(self.tables, np.split(limits, np.cumsum(sizes, dtype=np.intp), axis=1), strict=False))
        bounds: list[Values] = []
        tables: list[Values] = []
        for number in range(len(problem.scopes)):
            total = self.tables.get(number)
            if total is None:
                tables.append(np.ones(1))
                bounds.append(np.full((4, 1), np.nan))
                continue
            bounds.append(limits_of[number].reshape(4, *total.shape, 1))
            share = total if self.total > 0 else np.ones_like(total)
            tables.append((np.full_like(share, np.nan) if impossible else share / share.sum())[..., None])
        # an estimate of zero is none: the upper bound is all that is known
        log_norm = self.log_scale + math.log(self.total / self.draws) if self.total > 0 else self.log_bound
        bounds.append(np.array(certain.bound_log_mean(self.log_scale, self.log_bound))[:, None])
        error = np.array([self.error / self.total if self.total > 0 else 0.0])
        densities = {} if impossible else self.densities(self.effective)
        rows = np.array([row])
        return Solution(problem, rows, case, dict(problem.axes), tables, np.array([log_norm]), error, bounds, densities)

    def _flatten(self) -> SampleMoments:
        """Return the moments of all tables at once, because there may be many small ones."""
        kinds = (self.tables, self.mixed, self.second)
        return SampleMoments(*(np.concatenate([np.empty(0), *map(np.ravel, kind.values())]) for kind in kinds))

    def _limit_certainly(self) -> BettingLimits:
        """Return the limits that hold for any number of draws."""
        reach = math.exp(min(self.log_bound - self.log_scale, 300.0)) if self.log_scale > -math.inf else 1.0
        return BettingLimits(self.draws, self.total, float(self.squares), reach, 1 - SAMPLED_CONFIDENCE)

    def _are_loose(self, certain: BettingLimits) -> bool:
        """Tell whether limits are loose beside asymptotic ones, of which a warning tells, as of rough estimates."""
        effective = self.effective
        if effective < FEW_EFFECTIVE:
            warn_user(
                f"the effective sample has the size {effective:.3g} of {self.draws} draws, below {FEW_EFFECTIVE:.0f},"
                " so the estimates are rough; look at their bounds, or allow more seconds= or max_bytes=",
            )
            return False
        if certain.least_width <= LOOSE:
            return False
        tail = estimate_tail(np.concatenate(self._logs))
        if tail > HEAVY:
            warn_user(
                f"a few draws weigh most (their tail has the shape {tail:.2g}, above {HEAVY}), and much probability may"
                " lie in what was not drawn, so the estimates are rough; look at their bounds, or allow more seconds="
                " or max_bytes=",
            )
            return False
        warn_user(
            "the bounds are wide, because a draw may weigh far more than the heaviest one does; asymptotic_bounds"
            f" (from an effective sample of the size {effective:.3g}) are narrower, without a guarantee: they are wrong"
            " where much probability lies in what was not drawn. More max_bytes= make the bounds narrower",
        )
        return True


DEVIATIONS = 2.5
"""Asymptotic intervals have so many standard errors on either side."""
BOLDEST, BETS = 0.9, 12
"""The boldest bet risks that part of what there is, and each of the others half of the one before."""
STAKES = np.array([0.5] + [0.5 / (BETS - 1)] * (BETS - 1))
"""The parts of the capital that are for each bet: half for the boldest, which is the best one where limits are wide."""
FEWEST_IN_TAIL = 5
"""A tail of fewer weights is not assessed."""
_BISECTIONS = 40


class SampleMoments(NamedTuple):
    """For a table over a scope, the sums over draws of weight times value, and of the products of their squares."""

    first: Values
    mixed: Values
    second: Values


@dataclass(frozen=True)
class BettingLimits:
    """Limits that hold for any number of draws, also for one that depends on them, if no weight exceeds `reach`.

    Attributes
    ----------
    count : the number of draws
    total, squares : the sums of the draws' weights, the largest of which is one, and of the squares of these
    reach : in units of the largest weight drawn
    risk : that the limits of one ratio do not hold
    """

    count: int
    total: float
    squares: float
    reach: float
    risk: float

    @property
    def least_width(self) -> float:
        """Half the width of the limits of a ratio whose values don't differ between draws."""
        if self.total == 0:
            return 0.5
        excess = self.reach * math.log(4 / self.risk) / (BOLDEST * self.total)
        return 0.5 * excess / (1 + excess)

    def bound_log_mean(self, log_scale: float, log_bound: float) -> tuple[float, float]:
        """Return the limits of the logarithm of the expected weight."""
        if self.total == 0:
            return -math.inf, log_bound
        mean, count = self.total / self.count, self.count
        # two bets, and Markov's inequality below: a mean is k times its expectation with at most the probability 1 / k
        risk = self.risk / 3

        def is_possible(logs: Values) -> NDArray[np.bool_]:
            means = np.exp(logs)
            surplus = self.total - count * means
            squares = np.maximum(self.squares - 2 * means * self.total + count * means**2, 0.0)
            least = np.where(surplus > 0, means, np.maximum(self.reach - means, means * 1e-12))
            return _get_rich(np.abs(surplus), squares, least) < -math.log(risk)

        start = np.log([mean])
        low = _bisect(is_possible, start, np.log([risk * mean]))[0]
        high = _bisect(is_possible, start, np.log([max(self.reach, mean)]))[0]
        return log_scale + float(low), min(log_scale + float(high), log_bound)

    def bound_ratio(self, moments: SampleMoments) -> tuple[Values, Values]:
        """Return the limits of the ratios p: those against which a bet on w (t - p) does not make rich.

        Values t are between 0 and 1, so that w (t - p) is at least -p times the largest weight, and at most 1 - p times
        that.
        """
        if self.total == 0:
            return np.zeros_like(moments.first), np.ones_like(moments.first)
        level = math.log(2 / self.risk)

        def is_possible(p: Values) -> NDArray[np.bool_]:
            surplus = moments.first - p * self.total
            squares = np.maximum(moments.second - 2 * p * moments.mixed + p**2 * self.squares, 0.0)
            least = self.reach * np.where(surplus > 0, p, 1 - p)
            return _get_rich(np.abs(surplus), squares, least) < level

        estimate = np.clip(moments.first / self.total, 0.0, 1.0)
        return _bisect(is_possible, estimate, np.zeros_like(estimate)), _bisect(
            is_possible, estimate, np.ones_like(estimate)
        )

    def bound_asymptotically(self, moments: SampleMoments) -> tuple[Values, Values]:
        """Return normal limits of the ratios, as if one draw more, as heavy as the heaviest, had the worst value."""
        p = moments.first / self.total
        squares = np.maximum(moments.second - 2 * p * moments.mixed + p**2 * self.squares, 0.0)
        half = DEVIATIONS * np.sqrt(squares) / self.total
        low, high = moments.first / (self.total + 1) - half, (moments.first + 1) / (self.total + 1) + half
        return np.maximum(low, 0.0), np.minimum(high, 1.0)


def _get_rich(surplus: Values, squares: Values, least: Values) -> Values:
    r"""Return a lower bound on the logarithm of the average capital of bets on numbers which are at least `-least`.

    A bet that risks the part m has the capital :math:`\prod_i (1 + m s_i / c)`, and :math:`\log(1 + x) \ge x - x^2
    \psi(m) / m^2` for :math:`x \ge -m` with :math:`\psi(m) = -\log(1 - m) - m` (Fan, Grama & Liu 2015, "Exponential
    inequalities for martingales with applications").

    Parameters
    ----------
    surplus, squares : the sums of the numbers, and of their squares
    """
    bets = BOLDEST * 0.5 ** np.arange(BETS)
    shape = (BETS, *(1,) * np.ndim(surplus))
    divisor = np.where(least > 0, least, 1.0)
    scaled, spread = surplus / divisor, squares / divisor / divisor
    gains = bets.reshape(shape) * scaled + (np.log1p(-bets) + bets).reshape(shape) * spread
    capital = logsumexp(gains + np.log(STAKES).reshape(shape), axis=0)
    # whoever can lose nothing may bet all
    return np.asarray(np.where(surplus > 0, np.where(least > 0, capital, np.inf), -np.inf))


def _bisect(is_possible: Callable[[Values], NDArray[np.bool_]], inside: Values, outside: Values) -> Values:
    """Return the end of what is possible between points that are and others, or these where they are possible, too."""
    end, reached = outside, is_possible(outside)
    for _ in range(_BISECTIONS):
        middle = (inside + outside) / 2
        fine = is_possible(middle)
        inside, outside = np.where(fine, middle, inside), np.where(fine, outside, middle)
    return np.asarray(np.where(reached, end, outside))


def estimate_tail(log_weights: Values) -> float:
    """Return the shape of a generalized Pareto distribution of the largest weights (Zhang & Stephens 2009).

    Weights have a variance below 1/2; above 0.7 their mean is not known from any practical number of draws.

    Examples
    --------
    >>> levels = (np.arange(4000) + 0.5) / 4000
    >>> [round(estimate_tail(-shape * np.log(levels)), 1) for shape in (0.3, 0.9)]
    [0.3, 0.9]
    """
    count = len(log_weights)
    size = math.ceil(min(0.2 * count, 3 * math.sqrt(count)))
    if size < FEWEST_IN_TAIL or not np.isfinite(log_weights).any():
        return math.inf
    largest = np.sort(np.partition(log_weights, count - size - 1)[count - size - 1 :])
    weights = np.exp(largest - largest[-1])
    excess = weights[1:] - weights[0]
    if excess[-1] <= 0:
        return -math.inf
    # the profile likelihood of the scale over a grid around its first quartile, averaged by its weights
    points = 30 + int(math.sqrt(size))
    quartile = max(float(excess[max(int(size / 4 + 0.5) - 1, 0)]), float(excess[-1]) * 1e-12)
    grid = 1 / excess[-1] + (1 - np.sqrt(points / (np.arange(points) + 0.5))) / (3 * quartile)
    shapes = np.log1p(-grid[:, None] * excess).mean(axis=1)
    profile = size * (np.log(-grid / shapes) - shapes - 1)
    scale = float(np.sum(grid * np.exp(profile - logsumexp(profile))))
    shape = float(np.log1p(-scale * excess).mean())
    # a weak prior at 1/2, because the tail is short
    return (size * shape + 10 * 0.5) / (size + 10)
