"""Answers to questions: each distinct row is solved once, and posteriors are computed from what is kept of the
solutions.

The first engine that can answer a question solves it in chunks of rows. A solution holds the tables, axes and evidence
of a chunk. Collectors keep what the posteriors of the targets need, and the rest is released before the next chunk is
solved.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from hybridbn.errors import TooWide, warn_user
from hybridbn.inference.axes import ORDER, CellAxis, StateAxis, as_slice
from hybridbn.inference.compilation import Problem, Question, problem_of
from hybridbn.inference.engines import Plan, Solution, choose_plan, estimate_rounding
from hybridbn.inference.engines.elimination import EliminationPlan, compute_densities
from hybridbn.inference.evidence import Evidence, EvidenceReader, find_distinct_rows
from hybridbn.inference.modes import describe_blank_functions
from hybridbn.inference.posteriors.base import SAMPLED_CONFIDENCE, DiscretePosterior
from hybridbn.inference.posteriors.continuous import ContinuousPosterior, Density, LazyPosterior, PartQuestion, Result
from hybridbn.inference.posteriors.grid import PiecewisePosterior, cell_posterior
from hybridbn.inference.posteriors.mixtures import GaussianPosterior
from hybridbn.inference.queries import find_contradictions, impossible_evidence, read_relevant_evidence
from hybridbn.inference.relevance import Snapshot
from hybridbn.jobs import run_in_threads
from hybridbn.network import Network
from hybridbn.options import Options
from hybridbn.variables import Continuous, Discrete, Values, Variable

AnyNetwork: TypeAlias = Network | Snapshot

KEPT_BYTES = 1 << 28
"""Densities of one target that take more bytes are not kept; their rows are solved again when they are needed."""


class Collector(Protocol):
    """Keeps what is needed of every solution."""

    def add(self, part: Solution) -> None:
        """Store what is needed of the solution of some rows."""


Collect: TypeAlias = Callable[[Problem, int], Sequence[Collector]]
"""Returns the collectors, in the order of the targets, for a problem and a number of rows."""


@dataclass
class Answer:
    """The collected solutions of all distinct rows of the evidence."""

    problem: Problem
    options: Options
    evidence: Evidence
    distinct: Evidence
    distinct_rows: NDArray[np.intp] | None
    """For each row of the evidence, its number among the distinct rows; None where all rows are distinct."""
    collected: Sequence[Collector]
    log_norms: Values
    errors: Values
    marked: NDArray[np.bool_] | None = None
    """Impossible rows, where NaN is wanted."""
    bounds: Sequence[Values] | None = None
    """Limits of the sampled tables, and of the log probability of the evidence, as in `Solution`."""

    def arrange_rows(self, table: Values) -> Values:
        """Return a table of the distinct rows (last) as one of all rows; impossible rows are NaN."""
        if self.distinct_rows is not None:
            table = table[..., self.distinct_rows]
        if self.marked is not None:
            table[..., self.marked] = np.nan
        return table

    @property
    def log_norm(self) -> Values:
        """The log probability (rows,) of the part of the evidence that the problem contains."""
        return self.log_norms if self.distinct_rows is None else self.log_norms[self.distinct_rows]

    def refuse(self, impossible: NDArray[np.bool_], options: Options, doubt: str = "") -> None:
        """Raise `ImpossibleEvidence` for impossible rows, with what makes that doubtful, or mark them where NaN is
        wanted.
        """
        if not impossible.any():
            return
        if options.impossible == "nan":
            self.marked = impossible if self.marked is None else self.marked | impossible
            return
        raise impossible_evidence(np.flatnonzero(impossible).tolist(), self.evidence.single, nan=True, doubt=doubt)

    @property
    def error(self) -> Values:
        """The estimated error of each row, at least the effect of rounding."""
        rounding = estimate_rounding(self.log_norms, len(self.problem.factors))
        errors: Values = np.maximum(self.errors, rounding)
        return errors if self.distinct_rows is None else errors[self.distinct_rows]

    @property
    def error_without_bounds(self) -> Values:
        """The error of what is returned without bounds: not known, so NaN, where it is sampled."""
        return self.error if self.bounds is None else np.full(self.evidence.rows, np.nan)


# -- collectors ---------------------------------------------------------------------------------------------------


def collect_nothing(problem: Problem, rows: int) -> Sequence[Collector]:
    """Return no collectors: only the probability of the evidence is wanted."""
    return ()


class TableCollector:
    """Keeps the tables over one scope, rows last."""

    def __init__(self, number: int, rows: int) -> None:
        self._number, self._rows = number, rows
        self.table: Values = np.empty(0)
        """Of all distinct rows, once all are added."""

    def add(self, part: Solution) -> None:
        """Store the table of some rows."""
        table = part.tables[self._number]
        if table.shape[-1] == self._rows:
            self.table = table
            return
        if self.table.shape[-1] != self._rows:
            self.table = np.empty((*table.shape[:-1], self._rows))
        self.table[..., as_slice(part.rows)] = table


class DensityCollector:
    """Keeps the densities of the target of a number; only means and variances if they take more than `most_bytes`."""

    def __init__(self, number: int, rows: int, most_bytes: float) -> None:
        self.number = number
        self._rows, self._most = rows, most_bytes
        self._parts: list[tuple[NDArray[np.intp], Density]] = []
        self._numbers = 0.0
        self._bytes = 0.0
        self.moments: Values | None = None

    def add(self, part: Solution) -> None:
        """Store the density of some rows."""
        assert part.densities is not None
        rows, density = part.rows, part.densities[self.number]
        self._numbers = max(self._numbers, density.numbers)
        self._bytes += 8.0 * density.numbers * len(rows)
        self._parts.append((rows, density))
        # joined densities have as many numbers in every row as the largest one
        if self.moments is None and max(self._bytes, 8.0 * self._numbers * self._rows) > self._most:
            self.moments = np.empty((2, self._rows))
        if self.moments is not None:
            for numbers, one in self._parts:
                self.moments[:, numbers] = one.moments()
            self._parts.clear()

    @property
    def density(self) -> Density | None:
        """The density of all distinct rows, or None if it was not kept."""
        if self.moments is not None:
            return None
        if len(self._parts) > 1 or len(self._parts[0][0]) != self._rows:
            self._parts = [(np.arange(self._rows), type(self._parts[0][1]).join(self._parts, self._rows))]
        return self._parts[0][1]


def collect_marginals(problem: Problem, rows: int, *, most_bytes: float | None = None) -> Sequence[Collector]:
    """Return the collectors for the posteriors of all targets."""
    most = KEPT_BYTES if most_bytes is None else most_bytes
    densities = {*problem.component_of, *problem.nodes}
    return [
        DensityCollector(number, rows, most) if name in densities else TableCollector(number, rows)
        for number, name in enumerate(problem.question.targets)
    ]


def _collect_solutions(
    plan: Plan, evidence: Evidence, collected: Sequence[Collector], options: Options
) -> Iterator[Solution]:
    """Yield solutions after they are collected; threads that share the rows compute the densities, too."""
    parts = plan.solve(evidence)
    targets = {
        collector.number: plan.problem.question.targets[collector.number]
        for collector in collected
        if isinstance(collector, DensityCollector)
    }
    if targets:
        parts = run_in_threads(
            lambda part: replace(part, densities=compute_densities(part, targets)), parts, options.jobs
        )
    for part in parts:
        for collector in collected:
            collector.add(part)
        yield part


# -- from what was collected to posteriors ------------------------------------------------------------------------


def infer_posteriors(
    network: AnyNetwork,
    names: Sequence[str],
    evidence: EvidenceReader | Evidence,
    options: Options,
    *,
    refuse_contradictions: bool = False,
) -> list[Any]:
    """Return the posteriors of some variables, from what they depend on of the evidence.

    Parameters
    ----------
    refuse_contradictions : bool
        Whether rows that are impossible for reasons which do not matter for the variables are refused or marked, too.
    """
    snapshot = Snapshot.of(network)
    if not evidence.rows:
        return [empty_posterior(snapshot.variable(name)) for name in names]
    answer = solve(snapshot, Question(tuple(names)), read_relevant_evidence(snapshot, evidence, names), options)
    if refuse_contradictions:
        answer.refuse(find_contradictions(snapshot, answer.problem, evidence, options), options)
    return [_make_posterior(answer, number, snapshot.variable(name)) for number, name in enumerate(names)]


def _make_posterior(answer: Answer, number: int, variable: Variable) -> DiscretePosterior | ContinuousPosterior:
    """Return the posterior of the target with that number."""
    collector = answer.collected[number]
    if isinstance(variable, Continuous) and variable.name in answer.problem.hard:
        values = answer.evidence.findings[variable.name].values[None]
        density: Density = GaussianPosterior.of(variable, np.ones(values.shape), values, np.zeros(values.shape))
    elif isinstance(collector, TableCollector):
        table = answer.arrange_rows(collector.table)
        if isinstance(variable, Discrete):
            bounds = None if answer.bounds is None else answer.arrange_rows(answer.bounds[number])
            return DiscretePosterior(variable, table, answer.evidence.single, answer.error, None, bounds)
        name, problem = variable.name, answer.problem
        axis = problem.axes[name]
        assert isinstance(axis, CellAxis)
        return cell_posterior(problem, name, axis, table, answer.evidence, answer.error_without_bounds)
    else:
        assert isinstance(collector, DensityCollector)
        assert isinstance(variable, Continuous)
        kept = collector.density
        # where equal rows are repeated, the density of all rows takes more than that of the distinct ones
        repeated = 0 if answer.distinct_rows is None else len(answer.distinct_rows)
        if kept is None or 8.0 * kept.numbers * repeated > KEPT_BYTES:
            return _RepeatedPosterior.of(answer, number, variable)
        density = kept if answer.distinct_rows is None else kept.select_rows(answer.distinct_rows)
    return density.with_answer(answer.evidence.single, answer.error_without_bounds, answer.marked, None)


BLOCK_ROWS = 1 << 11
"""Rows whose densities exist at the same time."""


class _RepeatedPosterior(LazyPosterior):
    """The densities of many rows, which are those of distinct rows, kept or solved again.

    Parameters
    ----------
    density_of : function
        From distinct rows to their density.
    distinct_rows : ndarray (rows,)
        The distinct row of each row.
    summary : ndarray (3, rows)
        Error, mean and variance; NaN in rows that are marked as impossible.
    """

    def __init__(
        self,
        variable: Continuous,
        density_of: Callable[[NDArray[np.intp]], Density],
        distinct_rows: NDArray[np.intp],
        marked: NDArray[np.bool_] | None,
        summary: Values,
        log_evidence: Any,
    ) -> None:
        super().__init__(variable, len(distinct_rows), self._ask_blocks)
        self._log_evidence = log_evidence
        self._density_of, self._distinct_rows, self._marked = density_of, distinct_rows, marked
        self._summary = summary

    @classmethod
    def of(cls, answer: Answer, number: int, variable: Continuous) -> _RepeatedPosterior:
        """Return the posterior of the target with that number."""
        collector = answer.collected[number]
        assert isinstance(collector, DensityCollector)
        density = collector.density
        moments = collector.moments if density is None else density.moments()
        assert moments is not None
        summary = np.stack([answer.error_without_bounds, *map(answer.arrange_rows, moments)])
        problem = answer.problem
        again = partial(_solve_density, problem.snapshot, problem.question, answer.options, answer.distinct, number)
        density_of = again if density is None else density.select_rows
        distinct_rows = np.arange(answer.distinct.rows) if answer.distinct_rows is None else answer.distinct_rows
        return cls(variable, density_of, distinct_rows, answer.marked, summary, None)

    def _ask_blocks(self, question: PartQuestion[Result]) -> Iterator[tuple[NDArray[np.intp], Result]]:
        """Yield the places of each block of rows, and what a function gives of their posterior."""
        # equal rows come together, so that they are worked out once
        order = np.argsort(self._distinct_rows, kind="stable")
        for start in range(0, len(order), BLOCK_ROWS):
            rows = order[start : start + BLOCK_ROWS]
            yield rows, question(self._make_density(rows), rows)

    def select_rows(self, rows: NDArray[np.intp]) -> Any:
        """Return some rows; few of them as densities that are there at once."""
        if 0 < len(rows) <= BLOCK_ROWS:
            return self._make_density(rows)
        marked = None if self._marked is None else self._marked[rows]
        chosen = self._density_of, self._distinct_rows[rows], marked, self._summary[:, rows]
        return _RepeatedPosterior(self.variable, *chosen, partial(self._select_log_evidence, rows))

    def _make_density(self, rows: NDArray[np.intp]) -> Density:
        """Return the density of some rows."""
        distinct, inverse = np.unique(self._distinct_rows[rows], return_inverse=True)
        density = self._density_of(distinct)
        if len(inverse) != len(distinct) or (inverse != np.arange(len(inverse))).any():
            density = density.select_rows(inverse.ravel())
        marked = None if self._marked is None else self._marked[rows]
        return density.with_answer(False, self._summary[0, rows], marked, partial(self._select_log_evidence, rows))


def _solve_density(
    snapshot: Snapshot, question: Question, options: Options, everything: Evidence, number: int, rows: NDArray[np.intp]
) -> Density:
    """Solve some distinct rows again, for the target of a number whose densities were not kept."""
    # the problem is that of all rows, so that each row gets the same density as before
    evidence = everything.take(rows, len(rows))
    plan = choose_plan(problem_of(snapshot, question, everything), evidence, options)
    collected = collect_marginals(plan.problem, len(rows), most_bytes=np.inf)
    for _ in _collect_solutions(plan, evidence, collected, options):
        pass
    collector = collected[number]
    assert isinstance(collector, DensityCollector)
    density = collector.density
    assert density is not None
    return density


def empty_posterior(variable: Variable) -> DiscretePosterior | ContinuousPosterior:
    """Return the posterior of a table without rows."""
    nothing = np.empty(0)
    if isinstance(variable, Discrete):
        return DiscretePosterior(variable, np.empty((len(variable), 0)), False, nothing, nothing)
    cell = np.empty((1, 0))
    return PiecewisePosterior(variable, cell, cell, np.empty((ORDER, 0)), False, nothing, nothing)


def warn_of_estimates(answer: Answer) -> None:
    """Warn of what was sampled and is not returned with its bounds."""
    assert answer.bounds is not None
    low, high = answer.bounds[-1]
    question = answer.problem.question
    if not question.targets:
        what = (
            f"the log probability of the evidence is an estimate: it lies between {low.min():.6g} and {high.max():.6g}"
        )
    elif question.joint or any(not isinstance(answer.problem.axes.get(name), StateAxis) for name in question.targets):
        what = "joint posteriors and those of continuous variables are estimates without bounds here"
    else:
        return
    warn_user(f"{what} (with a confidence of {SAMPLED_CONFIDENCE:.0%}, in each row)")


def solve(
    network: AnyNetwork,
    question: Question,
    read: Evidence,
    options: Options,
    collect: Collect = collect_marginals,
    *,
    compare: bool = True,
) -> Answer:
    """Solve a question; refuse or mark impossible rows and warn of large errors.

    `collect` returns the collectors of solutions; by default they keep what the posterior of each target needs.
    Without `compare`, rows are known to differ.
    """
    problem = problem_of(network, question, read)
    plan = choose_plan(problem, read, options)
    try:
        return _solve_by(plan, read, options, collect, compare)
    except TooWide as refused:
        if not isinstance(plan, EliminationPlan):
            raise
        # quadrature may need more nodes than the plan could know
        plan = choose_plan(problem, read, options, refused)
    return _solve_by(plan, read, options, collect, compare)


def _solve_by(plan: Plan, read: Evidence, options: Options, collect: Collect, compare: bool) -> Answer:
    """Solve a problem as planned."""
    problem, compare = plan.problem, compare and plan.distinct and not read.single
    same = find_distinct_rows(read, continuous=bool(problem.nodes)) if compare else None
    distinct = read if same is None else read.take(same.first, len(same.first))
    collected = collect(problem, distinct.rows)
    log_norms, errors = np.zeros(distinct.rows), np.zeros(distinct.rows)
    bounds: list[Values] = []
    for part in _collect_solutions(plan, distinct, collected, options):
        where = as_slice(part.rows)
        log_norms[where], errors[where] = part.log_norm, part.error
        if part.bounds is not None:
            bounds = bounds or [np.empty((*limits.shape[:-1], distinct.rows)) for limits in part.bounds]
            for limits, own in zip(bounds, part.bounds, strict=True):
                limits[..., part.rows] = own
    distinct_rows = None if same is None else same.inverse
    answer = Answer(problem, options, read, distinct, distinct_rows, collected, log_norms, errors)
    if bounds:
        answer.bounds = bounds
        warn_of_estimates(answer)
    impossible = log_norms == -np.inf
    if impossible.any():
        row = int(np.argmax(impossible))
        doubt = describe_blank_functions(problem, distinct.take(slice(row, row + 1), 1))
        if doubt and (problem.question.all_of or options.impossible == "nan"):
            warn_user(doubt)
        if not problem.question.all_of:
            answer.refuse(impossible if distinct_rows is None else impossible[distinct_rows], options, doubt)
    worst = float(errors.max(initial=0.0))
    if worst > options.tolerance and not plan.sampled:
        warn_user(
            f"the estimated error of the posterior is {worst:.2g}, above the tolerance {options.tolerance:.2g}; more"
            " nodes do not help or would exceed max_bytes. Ask with a larger tolerance= to accept it",
        )
    return answer
