"""Slices: where tables are too wide, a few variables are observed in each of their states, and the answers added up.

A slice is a row of evidence. The slices of one row are solved as a batch by the ordinary elimination, in which all that
does not depend on the cut variables has no rows, so that it is computed once for all slices of a chunk. Sums over
slices are weighted by the probabilities of the slices, from their logarithms.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from hybridbn.inference.axes import StateAxis
from hybridbn.inference.elimination.cutting import Cut, choose_cut
from hybridbn.inference.elimination.ordering import MOST_TRIALS, search_order
from hybridbn.inference.engines import Engine, EngineRequest, Plan, Solution
from hybridbn.inference.engines.elimination import EliminationPlan, solve_in_chunks
from hybridbn.inference.evidence import Evidence, Finding
from hybridbn.inference.problem import Problem, problem_of
from hybridbn.variables import Values

__all__ = [
    "CELLS_PER_SECOND",
    "BetterOrder",
    "SlicePlan",
    "Slices",
    "add_slices",
    "find_cut",
    "list_kept",
    "solve_slices",
]

CELLS_PER_SECOND = 5e7
"""About as many table cells are computed in a second."""
SLICES_AT_ONCE = 4096
"""The slices of one row are solved in chunks of this many."""
WORKING_TABLES = 8
"""Messages in both directions take about as much memory as so many tables of the largest size."""
MOST_SLICES = 2.0**40
"""More slices take longer than anybody can wait."""


FEW_TRIALS = 12
"""Searches for a better order before `TooWide` is raised."""
_HOPELESS = 2.0**14
"""A table that is too large by more than this factor will not fit in any order, so none is searched for."""


def list_kept(problem: Problem) -> tuple[str, ...]:
    """Return the variables that are eliminated last."""
    return problem.scopes[0] if len(problem.scopes) == 1 else ()


class BetterOrder(Engine):
    """Elimination in an order that is searched for longer, where the first one is too wide."""

    rank = 55

    def plan(self, request: EngineRequest) -> Plan | None:
        """Return the plan of elimination in a better order."""
        problem = request.problem
        if request.question.drawn or problem.tables.searched:
            return None
        refused = request.options.beyond is None
        if refused and 8 * problem.order.largest > _HOPELESS * request.options.max_bytes:
            return None
        problem.tables.searched = True
        scopes = [*(factor.names for factor in problem.factors), *problem.scopes]
        order = search_order(
            scopes, problem.sizes, list_kept(problem), problem.order, FEW_TRIALS if refused else MOST_TRIALS
        )
        if order is problem.order:
            return None
        problem.order = order
        return EliminationPlan.of(problem, request.evidence, request.options)


class Slices(Engine):
    """Conditioning on a few discrete variables, where the options ask for it."""

    rank = 60

    def plan(self, request: EngineRequest) -> Plan | None:
        """Return the plan with the cheapest variables to cut."""
        return SlicePlan.of(request) if request.options.beyond == "slice" else None

    def offer(self, request: EngineRequest) -> str | None:
        """Return what slices would cost."""
        plan = SlicePlan.of(request, search=False)
        if plan is None or plan.held_bytes > request.options.max_bytes:
            return None
        seconds = describe_seconds(predict_seconds(plan.cut))
        return f"beyond='slice' (exact: {plan.cut.slices:.3g} slices, {describe_cost(seconds, plan.held_bytes)})"


def describe_seconds(seconds: float) -> str:
    """Return a predicted time as text.

    Examples
    --------
    >>> describe_seconds(0.2), describe_seconds(2000), describe_seconds(1e9)
    ('below 1 second', '33 minutes', '31.7 years')
    """
    for unit, size in (("years", 3.156e7), ("days", 86400.0), ("hours", 3600.0), ("minutes", 60.0), ("seconds", 1.0)):
        if seconds >= 2 * size or (unit == "seconds" and seconds >= 1):
            return f"{seconds / size:.3g} {unit}" if unit == "years" else f"{seconds / size:.0f} {unit}"
    return "below 1 second"


def describe_cost(time: str, held_bytes: float) -> str:
    """Return the predicted cost of a row as text."""
    return f"about {time} a row and {held_bytes / 2**20:.3g} MiB"


def find_cut(request: EngineRequest, most_cells: float, *, search: bool = True) -> Cut | None:
    """Return the variables to cut for tables of that size; None where cutting discrete variables can't help."""
    problem = request.problem
    if request.question.drawn:
        return None
    states = {name for name, axis in problem.axes.items() if isinstance(axis, StateAxis)}
    scopes = [*(factor.names for factor in problem.factors), *problem.scopes]
    return choose_cut(scopes, problem.sizes, states, most_cells, problem.order, list_kept(problem), search=search)


@dataclass
class SlicePlan(Plan):
    """The elimination of a problem's variables in slices."""

    request: EngineRequest
    cut: Cut
    cells: float
    clique: Sequence[str]
    held_bytes: float
    operations: float
    distinct: ClassVar[bool] = True

    @classmethod
    def of(cls, request: EngineRequest, *, search: bool = True) -> SlicePlan | None:
        """Choose the variables to cut; None where there are none."""
        cut = find_cut(request, request.options.max_bytes / (8 * WORKING_TABLES), search=search)
        if cut is None or cut.slices > MOST_SLICES:
            return None
        seconds = request.options.seconds
        if seconds is not None and predict_seconds(cut) > seconds:
            return None
        largest = cut.order.largest
        operations = cut.total * request.evidence.rows
        return cls(request, cut, largest, cut.order.clique, 8 * WORKING_TABLES * largest, operations)

    def solve(self, evidence: Evidence) -> Iterator[Solution]:
        """Yield the solution of each row."""
        problem = self.request.problem
        sizes = tuple(problem.sizes[name] for name in self.cut.names)
        count = math.prod(sizes)
        for row in range(evidence.rows):
            case = evidence.take(slice(row, row + 1), 1)
            total = SliceSum(problem, self.cut.names)
            for start in range(0, count, SLICES_AT_ONCE):
                numbers = np.arange(start, min(start + SLICES_AT_ONCE, count))
                codes = dict(zip(self.cut.names, np.unravel_index(numbers, sizes), strict=True))
                for part in solve_slices(self.request, case, codes, self.cut):
                    total.add(part, codes)
            yield total.solution(row, case)


def predict_seconds(cut: Cut) -> float:
    """Return about how many seconds all slices of one row take."""
    return cut.total / CELLS_PER_SECOND


def make_slices(request: EngineRequest, case: Evidence, codes: dict[str, NDArray[np.intp]]) -> Evidence:
    """Return one row of evidence for each combination of states of the cut variables."""
    count = len(next(iter(codes.values())))
    repeated = np.zeros(count, dtype=np.intp)
    findings = {name: finding.take(repeated) for name, finding in case.findings.items() if name not in codes}
    for name, values in codes.items():
        variable = request.problem.potentials[name].child
        findings[name] = Finding(variable, values)
    return Evidence(findings, count, single=False)


def prepare_slices(request: EngineRequest, evidence: Evidence, cut: Cut) -> Problem:
    """Return the problem of the slices: the same potentials, and the cut variables observed."""
    constant = frozenset(name for name in request.problem.hard if name not in cut.names)
    question = replace(request.question, only=frozenset(request.problem.potentials), constant=constant)
    problem = problem_of(request.network, question, evidence)
    if set(cut.order.names) == set(problem.order.names):
        problem.order = cut.order
    return problem


def solve_slices(
    request: EngineRequest, case: Evidence, codes: dict[str, NDArray[np.intp]], cut: Cut
) -> Iterator[Solution]:
    """Yield the solutions of some slices of one row, with soft evidence on the cut variables in their probabilities."""
    evidence = make_slices(request, case, codes)
    problem = prepare_slices(request, evidence, cut)
    log_weights = np.zeros(evidence.rows)
    for name, values in codes.items():
        finding = case.findings.get(name)
        if finding is not None:
            log_weights += finding.take(np.zeros(evidence.rows, dtype=np.intp)).log_weight_of(values)
    for part in solve_in_chunks(problem, evidence, request.options):
        yield replace(part, log_norm=part.log_norm + log_weights[part.rows])


@dataclass
class SliceSum:
    """The weighted sum of the tables of slices.

    Attributes
    ----------
    tables : for each scope of the problem the sum over slices of probability times table
    log_scale : the logarithm by which the sums are scaled
    """

    problem: Problem
    cut: tuple[str, ...]
    tables: list[Values] = field(default_factory=list)
    total: float = 0.0
    log_scale: float = -math.inf
    error: float = 0.0

    def add(self, part: Solution, codes: dict[str, NDArray[np.intp]]) -> None:
        """Add the slices in a solution; `codes` are those of all slices of the chunk."""
        if not self.tables:
            sizes = self.problem.sizes
            self.tables = [np.zeros([sizes[name] for name in scope]) for scope in self.problem.scopes]
        top = float(part.log_norm.max(initial=-math.inf))
        if top == -math.inf:
            return
        if top > self.log_scale:
            factor = math.exp(self.log_scale - top)
            self.tables = [table * factor for table in self.tables]
            self.total *= factor
            self.error *= factor
            self.log_scale = top
        weights = np.exp(part.log_norm - self.log_scale)
        possible = np.flatnonzero(weights)
        weights = weights[possible]
        self.total += float(weights.sum())
        self.error += float(weights @ part.error[possible])
        for number, scope in enumerate(self.problem.scopes):
            add_slices(
                self.tables[number], scope, part.tables[number][..., possible], weights, part.rows[possible], codes
            )

    def solution(self, row: int, case: Evidence) -> Solution:
        """Return the solution of the row."""
        possible = self.total > 0
        with np.errstate(invalid="ignore", divide="ignore"):
            tables = [(table / table.sum())[..., None] for table in self.tables]
        log_norm = self.log_scale + math.log(self.total) if possible else -math.inf
        error = self.error / self.total if possible else 0.0
        rows = np.array([row])
        return Solution(
            self.problem, rows, case, dict(self.problem.axes), tables, np.array([log_norm]), np.array([error])
        )


def add_slices(
    total: Values,
    scope: tuple[str, ...],
    table: Values,
    weights: Values,
    rows: NDArray[np.intp],
    codes: Mapping[str, NDArray[np.intp]],
) -> None:
    """Add to a table over a scope the weighted tables of slices, which lack the dimensions of the cut variables."""
    inside = [name for name in scope if name in codes]
    if not inside:
        total += table @ weights
        return
    # dimensions of cut variables first, so that the others are what each slice adds
    turned = np.moveaxis(total, [scope.index(name) for name in inside], range(len(inside)))
    np.add.at(turned, tuple(codes[name][rows] for name in inside), np.moveaxis(table * weights, -1, 0))
