"""Slices: where tables are too wide, a few variables are observed in each of their states, and the answers added up.

A slice is a row of evidence. The slices of one row are solved as a batch by the ordinary elimination, in which all that
does not depend on the cut variables has no rows, so that it is computed once for all slices of a chunk. Sums over
slices are weighted by the probabilities of the slices, from their logarithms. A continuous variable is observed at each
node of a grid, which is refined by its marginal until that is accurate.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hybridbn.inference.axes import (
    Axis,
    CellAxis,
    NodeAxis,
    StateAxis,
    clip_to_support,
    find_evidence_ranges,
    node_axis,
    ranges_of_others,
)
from hybridbn.inference.compilation import Problem, problem_of
from hybridbn.inference.elimination import ordering
from hybridbn.inference.elimination.factors import normalize
from hybridbn.inference.elimination.ordering import (
    CUT_EFFORT,
    Cut,
    EliminationOrder,
    choose_cut,
    find_order,
    limit_effort,
    search_order,
)
from hybridbn.inference.engines import (
    Engine,
    Plan,
    Solution,
    describe_cost,
    describe_seconds,
)
from hybridbn.inference.engines.elimination import EliminationPlan, compute_mixtures, solve_in_chunks
from hybridbn.inference.evidence import Evidence, Finding
from hybridbn.inference.grids import Bounds, assess_cells, halve_cells
from hybridbn.inference.posteriors.continuous import Density
from hybridbn.inference.posteriors.mixtures import WeightedMixture
from hybridbn.options import CELLS_PER_SECOND, Options
from hybridbn.potentials.base import take_logs
from hybridbn.variables import Values

SLICES_AT_ONCE, FACTOR_BYTES = 4096, 2.0**28
"""The slices of one row are solved in chunks of this many, or of fewer, so that their factors take no more memory."""
WORKING_TABLES = 8
"""Messages in both directions take about as much memory as so many tables of the largest size."""
MOST_SLICES = 2.0**40
"""More slices take longer than anybody can wait."""
_LUCK = 1024.0
"""Better orders that are found while variables are cut hardly save more slices than by this factor."""
CELLS_PER_SLICE, CELLS_PER_GRID = 250.0, 1e5
"""What a slice costs beside its tables, in cells, and one in which there are nodes left."""
GRIDS_OF_A_ROW = 3
"""About as many grids are tried for the cut continuous variables of one row."""
NODES, CUT_NODES = 600, 144
"""Continuous variables are taken to have so many nodes, and those that are cut fewer, since all of their grid is made
for one row."""
FIRST_CELLS, MOST_FIRST_CELLS = 6, 64
"""A cut continuous variable starts with so many cells, and with at most so many where its density has breaks."""
MOST_ROUNDS = 8
"""Its grid is refined at most so often."""

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

    def plan(self, problem: Problem, evidence: Evidence, options: Options) -> Plan | None:
        """Return the plan of elimination in a better order."""
        refused = options.beyond is None
        hopeless = refused and 8 * problem.order.largest > _HOPELESS * options.max_bytes
        if problem.question.drawn or problem.tables.searched or hopeless:
            return None
        problem.tables.searched = True
        scopes = [*(factor.names for factor in problem.factors), *problem.scopes]
        trials, effort = (
            (FEW_TRIALS, ordering.SEARCH_EFFORT)
            if refused
            else (ordering.MOST_TRIALS, limit_effort(options.cells_per_row))
        )
        order = search_order(scopes, problem.sizes, list_kept(problem), problem.order, trials, effort)
        if order is problem.order:
            return None
        problem.order = order
        return EliminationPlan.of(problem, evidence, options)


class Slices(Engine):
    """Conditioning on a few discrete variables, where the options ask for it."""

    rank = 60

    def plan(self, problem: Problem, evidence: Evidence, options: Options) -> Plan | None:
        """Return the plan with the cheapest variables to cut."""
        return SlicePlan.of(problem, evidence, options) if options.beyond == "slice" else None

    def offer(self, problem: Problem, evidence: Evidence, options: Options) -> str | None:
        """Return what slices would cost."""
        plan = SlicePlan.of(problem, evidence, options, search=False)
        if plan is None or plan.held_bytes > options.max_bytes:
            return None
        seconds = describe_seconds(plan.work / CELLS_PER_SECOND)
        return f"beyond='slice' (exact: {plan.slices:.3g} slices, {describe_cost(seconds, plan.held_bytes)})"


class Part(NamedTuple):
    """Some targets of a question that are sliced together.

    Attributes
    ----------
    numbers : of the targets in the question that was asked
    problem : the question for these
    """

    numbers: tuple[int, ...]
    problem: Problem
    cut: Cut


def is_sliceable(problem: Problem) -> bool:
    """Tell whether the answers to a question are sums over slices."""
    question = problem.question
    tables = question.joint or question.over
    return not question.drawn and not (problem.nodes and (tables or question.pointwise or question.dense))


def split_targets(problem: Problem, evidence: Evidence, options: Options, *, search: bool) -> list[Part] | None:
    """Return which variables to cut for which targets; None where cutting doesn't help.

    A target with nodes is cut, so that all slices share the grid that its density is told on; so there is one such
    target at a time.
    """
    question = problem.question
    if not is_sliceable(problem):
        return None
    gridded = [number for number, name in enumerate(question.targets) if name in problem.nodes]
    together = tuple(number for number in range(len(question.targets)) if number not in gridded)
    most_slices = min(MOST_SLICES, _LUCK * options.cells_per_row / CELLS_PER_SLICE)
    parts = []
    for numbers in [together] * (bool(together) or not gridded) + [(number,) for number in gridded]:
        own = problem
        if len(numbers) < len(question.targets):
            asked = replace(question, targets=tuple(question.targets[number] for number in numbers))
            asked = replace(asked, only=frozenset(problem.potentials))
            own = problem_of(problem.snapshot, asked, evidence)
        cut = _find_cut(own, options, most_slices, search=search)
        if cut is None or cut.slices > MOST_SLICES:
            return None
        parts.append(Part(numbers, own, cut))
    return parts


def _find_cut(problem: Problem, options: Options, most_slices: float, *, search: bool) -> Cut | None:
    """Return the variables to cut for tables that fit into memory; None where that can't help."""
    most_cells = options.max_bytes / (8 * WORKING_TABLES)
    sizes = {**problem.sizes, **dict.fromkeys(problem.nodes, NODES)}
    targets = tuple(name for name in problem.question.targets if name in problem.nodes)
    allowed = {name for name, axis in problem.axes.items() if isinstance(axis, StateAxis)}.union(problem.nodes)
    # whoever is asked for the density of a variable with a closed form gets one part for each slice
    question, asked = problem.question, list(problem.scopes)
    if not (question.joint or question.over):
        asked = [() if n in problem.component_of else scope for n, scope in zip(question.targets, asked, strict=True)]
    scopes = [*(factor.names for factor in problem.factors), *asked]
    order, kept = problem.order, [] if asked == [()] else list(list_kept(problem))
    if targets or len(asked) < len(problem.scopes) or () in asked:
        scopes = list({tuple(name for name in scope if name not in targets): None for scope in scopes})
        kept = [name for name in kept if name not in targets]
        order = find_order(scopes, sizes, kept)
    effort = min(limit_effort(options.cells_per_row), CUT_EFFORT) if search else 0.0
    cut = choose_cut(
        scopes, sizes, allowed.difference(targets), most_cells, order, kept, most_slices=most_slices, effort=effort
    )
    if cut is None:
        return None
    names = (*targets, *cut.names)
    slices = math.prod(float(CUT_NODES if name in problem.nodes else sizes[name]) for name in names)
    return Cut(names, slices, cut.order)


@dataclass
class SlicePlan(Plan):
    """The elimination of a problem's variables in slices."""

    parts: Sequence[Part]
    work: float

    @classmethod
    def of(cls, problem: Problem, evidence: Evidence, options: Options, *, search: bool = True) -> SlicePlan | None:
        """Choose the variables to cut; None where there are none."""
        parts = split_targets(problem, evidence, options, search=search)
        if parts is None:
            return None
        work = sum(count_work(part) for part in parts)
        if work > options.cells_per_row:
            return None
        order = max((part.cut.order for part in parts), key=lambda order: order.largest)
        held = 8 * WORKING_TABLES * order.largest
        operations = sum(part.cut.total for part in parts) * evidence.rows
        return cls(problem, options, order.largest, order.clique, held, operations, parts, work)

    @property
    def slices(self) -> float:
        """How many slices there are for one row."""
        return sum(part.cut.slices for part in self.parts)

    def solve(self, evidence: Evidence) -> Iterator[Solution]:
        """Yield the solution of each row."""
        for row in range(evidence.rows):
            case = evidence.take(slice(row, row + 1), 1)
            solutions = [_solve_part(part, row, case, self.options) for part in self.parts]
            whole = replace(solutions[0], problem=self.problem)
            yield whole if len(solutions) == 1 else self._join(whole, solutions)

    def _join(self, whole: Solution, solutions: Sequence[Solution]) -> Solution:
        """Return the solution of one row for all targets, from those of the parts."""
        names, pairs = self.problem.question.targets, list(zip(self.parts, solutions, strict=True))
        tables = {n: table for part, own in pairs for n, table in zip(part.numbers, own.tables, strict=True)}
        found = {part.numbers[place]: one for part, own in pairs for place, one in (own.densities or {}).items()}
        # another part may have cut a target on another grid
        axes = {names[n]: own.axes[names[n]] for part, own in pairs for n in part.numbers if names[n] in own.axes}
        return replace(
            whole,
            axes={**whole.axes, **axes},
            tables=[tables[number] for number in range(len(names))],
            error=np.max([own.error for own in solutions], axis=0),
            densities=found,
        )

    def weigh(self, case: Evidence) -> Iterator[tuple[Mapping[str, NDArray[Any]], Values]] | None:
        """Yield the states of the cut variables in all slices; None where some are nodes."""
        part, problem = self.parts[0], self.problem
        if not set(problem.nodes).isdisjoint(part.cut.names):
            return None
        axes = {name: problem.axes[name] for name in part.cut.names}
        grids = SliceGrids(part.problem, case, [], self.options.tolerance)
        slices = _iterate_slices(part, case, grids, axes, self.options)
        return (
            ({name: own[solution.rows] for name, own in values.items()}, solution.log_norm)
            for solution, _, values in slices
        )


def _solve_part(part: Part, row: int, case: Evidence, options: Options) -> Solution:
    """Return the solution of one row for some targets, on grids that are refined until they are fine enough."""
    problem, names = part.problem, part.cut.names
    grids = SliceGrids(problem, case, [name for name in names if name in problem.nodes], options.tolerance)
    while True:
        axes = {name: problem.axes[name] for name in names if name not in grids.axes} | grids.axes
        total = SliceSum(problem, names, axes)
        for solution, codes, values in _iterate_slices(part, case, grids, axes, options):
            total.add_slices(solution, codes, values)
        if not grids.refine(total.log_marginals()):
            return total.solution(row, case, grids.error)


def _iterate_slices(
    part: Part, case: Evidence, grids: SliceGrids, axes: Mapping[str, Axis], options: Options
) -> Iterator[tuple[Solution, dict[str, NDArray[np.intp]], dict[str, NDArray[Any]]]]:
    """Yield solutions of slices of one row, with the numbers and values of the cut variables in these."""
    names = part.cut.names
    sizes = tuple(axes[name].size for name in names)
    count, step = math.prod(sizes), count_slices_at_once(part.problem, names)
    for start in range(0, count, step):
        numbers = np.arange(start, min(start + step, count))
        codes = dict(zip(names, np.unravel_index(numbers, sizes), strict=True)) if names else {}
        values, log_weights = grids.place(codes)
        for solution in solve_slices(part.problem, case, values, part.cut.order, options):
            yield replace(solution, log_norm=solution.log_norm + log_weights[solution.rows]), codes, values


def count_work(part: Part) -> float:
    """Return about how much work all slices of one row take, in cells of tables."""
    work = part.cut.total
    sizes = {**part.problem.sizes, **dict.fromkeys(part.problem.nodes, CUT_NODES)}
    for component in {id(other): other for other in part.problem.component_of.values()}.values():
        work += component.count_work(sizes)
    nodes = part.problem.nodes
    if nodes:
        left = len(nodes) - len(set(nodes).intersection(part.cut.names))
        work += GRIDS_OF_A_ROW * part.cut.slices * (CELLS_PER_GRID if left else CELLS_PER_SLICE)
    return work


def count_slices(values: Mapping[str, NDArray[Any]]) -> int:
    """Return how many combinations of values there are: one where some targets need no variable to be cut."""
    return len(next(iter(values.values()))) if values else 1


def count_slices_at_once(problem: Problem, cut: Collection[str]) -> int:
    """Return how many slices are solved at once."""
    sizes = {**problem.sizes, **dict.fromkeys([*cut, *problem.nodes], 1)}
    cells = sum(math.prod(float(sizes[name]) for name in factor.names) for factor in problem.factors)
    return int(min(max(FACTOR_BYTES / (8 * max(cells, 1.0)), 1), SLICES_AT_ONCE))


def make_slices(problem: Problem, case: Evidence, values: Mapping[str, NDArray[Any]]) -> Evidence:
    """Return one row of evidence for each combination of values of the cut variables."""
    repeated = case.repeat(count_slices(values))
    cut = {name: Finding(problem.potentials[name].child, own) for name, own in values.items()}
    return replace(repeated, findings={**repeated.findings, **cut})


def prepare_slices(problem: Problem, evidence: Evidence, names: Collection[str], order: EliminationOrder) -> Problem:
    """Return the problem of the slices: the same potentials, and the cut variables observed."""
    constant = frozenset(name for name in problem.hard if name not in names)
    question = replace(problem.question, only=frozenset(problem.potentials), constant=constant)
    problem = problem_of(problem.snapshot, question, evidence)
    if set(order.names) == set(problem.order.names):
        problem.order = order
    return problem


def solve_slices(
    problem: Problem, case: Evidence, values: Mapping[str, NDArray[Any]], order: EliminationOrder, options: Options
) -> Iterator[Solution]:
    """Yield the solutions of some slices of one row, with soft evidence on the cut variables in their probabilities."""
    evidence = make_slices(problem, case, values)
    problem = prepare_slices(problem, evidence, values, order)
    log_weights = case.evidence(values).repeat(evidence.rows).log_weights_of(values)
    for part in solve_in_chunks(problem, evidence, options):
        yield replace(part, log_norm=part.log_norm + log_weights[part.rows])


class SliceGrids:
    """The grids of the continuous variables that are cut in one row: their nodes, and how these are refined.

    Attributes
    ----------
    axes : the nodes of each variable, of one row
    error : estimated
    """

    def __init__(self, problem: Problem, case: Evidence, names: Sequence[str], tolerance: float) -> None:
        self._problem, self._case = problem, case
        self._tolerance = tolerance / max(len(names), 1)
        self._bounds: dict[str, Bounds] = {}
        self._rounds = 0
        self.axes: dict[str, NodeAxis] = {}
        self.error: float = 0.0
        if not names:
            return
        ranges = find_evidence_ranges(self._problem, case)
        for name in names:
            low, high = ranges[name]
            touching = [potential for potential in self._problem.potentials.values() if name in potential.scope]
            breaks = [
                np.ravel(potential.breaks(name, ranges_of_others(potential, name, ranges))) for potential in touching
            ]
            points = np.concatenate([np.linspace(low[0], high[0], FIRST_CELLS + 1), *breaks])
            edges = np.unique(points[(points >= low[0]) & (points <= high[0])])
            if len(edges) > MOST_FIRST_CELLS:
                edges = np.unique(np.quantile(edges, np.linspace(0, 1, MOST_FIRST_CELLS + 1)))
            nowhere = np.full(1, -np.inf)
            limits = clip_to_support(self._problem, self._problem.continuous_variable(name), nowhere, -nowhere, case)
            self._bounds[name] = Bounds(low.copy(), high.copy(), *limits)
            self.axes[name] = node_axis(edges[:-1, None], edges[1:, None])

    def place(self, codes: Mapping[str, NDArray[np.intp]]) -> tuple[dict[str, NDArray[Any]], Values]:
        """Return the values of the cut variables in some slices, and the logarithms of their nodes' weights."""
        values: dict[str, NDArray[Any]] = dict(codes)
        log_weights = np.zeros(count_slices(codes))
        for name, axis in self.axes.items():
            values[name] = axis.points[codes[name], 0]
            log_weights += np.log(axis.weights[codes[name], 0])
        return values, log_weights

    def refine(self, log_marginals: Mapping[str, Values]) -> bool:
        """Make the grids finer where that is wanted, by the log marginals at their nodes; tell whether it was."""
        row = np.zeros(1, dtype=np.intp)
        cells, changed, self.error = {}, False, 0.0
        for name, axis in self.axes.items():
            look = assess_cells(log_marginals[name][:, None], axis, self._tolerance)
            look.check_ends(axis, self._bounds[name], row)
            self.error += float(look.error[0])
            cells[name] = look
            changed |= not look.settled[0]
        self._rounds += 1
        if not changed or self._rounds >= MOST_ROUNDS:
            return False
        for name, look in cells.items():
            axis = self.axes[name]
            if not look.settled[0]:
                low, high = halve_cells((axis.low, axis.high), look, row, self._bounds[name])
                self.axes[name] = node_axis(low, high)
        return True


class WeightedSums:
    """The weighted sums over slices or draws of one row, relative to the largest weight.

    Attributes
    ----------
    tables : for each scope of the problem, by its number, the sum of weight times table
    total, error : the sums of the weights, and of weight times error
    log_scale : the logarithm of the largest weight, by which the sums are divided
    """

    def __init__(self, problem: Problem, names: Collection[str], sizes: Mapping[str, int], *, sampled: bool) -> None:
        self.problem = problem
        question = problem.question
        self._drawn, self._numbers = frozenset(names), dict[int, str]()
        if not question.joint and not question.over:
            self._numbers = {
                number: name
                for number, name in enumerate(question.targets)
                if name in problem.component_of or (sampled and name in problem.nodes)
            }
        self._mixtures = {
            number: WeightedMixture(problem.continuous_variable(name), sampled=sampled)
            for number, name in self._numbers.items()
        }
        self.tables: dict[int, Values] = {
            number: np.zeros([sizes[name] for name in scope])
            for number, scope in enumerate(problem.scopes)
            if number not in self._numbers
        }
        self.scaled: list[tuple[int, Values]] = [(1, table) for table in self.tables.values()]
        """What is multiplied where all weights are, with the power of the weights that it is made of."""
        self.total: float = 0.0
        self.error: float = 0.0
        self.log_scale: float = -math.inf

    def add(
        self,
        part: Solution,
        logs: Values,
        codes: Mapping[str, NDArray[np.intp]],
        values: Mapping[str, NDArray[Any]],
        counts: Any = 1.0,
    ) -> tuple[NDArray[np.intp], Values, Values]:
        """Add the slices in a solution; return which are possible, and their weights, once and by their counts.

        Parameters
        ----------
        logs : the logarithms of the weights (slices of the solution,)
        codes, values : of the variables that are cut or drawn, in all slices of the chunk
        counts : how often each slice counts
        """
        top = float(logs.max(initial=-math.inf))
        if top > self.log_scale:
            self.rescale(math.exp(self.log_scale - top))
            self.log_scale = top
        weights = np.exp(logs - self.log_scale) if self.log_scale > -math.inf else np.zeros(len(logs))
        linear = counts * weights
        self._add_densities(part, values, linear)
        possible = np.flatnonzero(weights)
        weights, linear = weights[possible], linear[possible]
        self.total += float(linear.sum())
        self.error += float(linear @ part.error[possible])
        for number, table in self.tables.items():
            self.add_tables(table, number, part, possible, linear, codes)
        return possible, weights, linear

    def add_tables(
        self,
        total: Values,
        number: int,
        part: Solution,
        slices: NDArray[np.intp],
        weights: Values,
        codes: Mapping[str, NDArray[np.intp]],
        power: int = 1,
    ) -> None:
        """Add to a table over a scope the weighted tables of slices, which lack the dimensions of the cut variables."""
        scope, table = self.problem.scopes[number], part.tables[number][..., slices] ** power
        inside = [name for name in scope if name in codes]
        if not inside:
            total += table @ weights
            return
        # dimensions of cut variables first, so that the others are what each slice adds
        turned = np.moveaxis(total, [scope.index(name) for name in inside], range(len(inside)))
        rows = part.rows[slices]
        np.add.at(turned, tuple(codes[name][rows] for name in inside), np.moveaxis(table * weights, -1, 0))

    def rescale(self, factor: float) -> None:
        """Multiply all weights by a factor."""
        self.total *= factor
        self.error *= factor
        for power, table in self.scaled:
            table *= factor**power

    def _add_densities(self, part: Solution, values: Mapping[str, NDArray[Any]], weights: Values) -> None:
        """Add the densities of the slices in a solution, with a weight for each of its rows."""
        for number, name in self._numbers.items():
            if name in values:
                own = values[name][part.rows]
                self._mixtures[number].add(weights, own, np.zeros(len(own)), self.log_scale)
        inner = {number: name for number, name in self._numbers.items() if name not in values}
        for number, table, mean, variance in compute_mixtures(part, inner):
            self._mixtures[number].add((table * weights).ravel(), mean.ravel(), variance.ravel(), self.log_scale)

    def densities(self, effective: float | None = None) -> dict[int, Density]:
        """Return the densities; of variables that were drawn, with the size of the effective sample."""
        return {
            number: self._mixtures[number].posterior(effective if name in self._drawn else None)
            for number, name in self._numbers.items()
        }


class SliceSum(WeightedSums):
    """The weighted sum of the tables of slices.

    Attributes
    ----------
    axes : those of the variables that are cut
    marginals : for each cut variable with nodes the sum of weights
    """

    def __init__(self, problem: Problem, cut: Collection[str], axes: Mapping[str, Axis]) -> None:
        sizes = {**problem.sizes, **{name: axis.size for name, axis in axes.items()}}
        super().__init__(problem, cut, sizes, sampled=False)
        self.axes = axes
        self.marginals: dict[str, Values] = {name: np.zeros(sizes[name]) for name in cut if name in problem.nodes}
        self.scaled.extend((1, marginal) for marginal in self.marginals.values())

    def add_slices(
        self, part: Solution, codes: Mapping[str, NDArray[np.intp]], values: Mapping[str, NDArray[Any]]
    ) -> None:
        """Add the slices in a solution; `codes` and `values` are those of all slices of the chunk."""
        if part.log_norm.max(initial=-math.inf) == -math.inf:
            return
        possible, weights, _ = self.add(part, part.log_norm, codes, values)
        for name, marginal in self.marginals.items():
            np.add.at(marginal, codes[name][part.rows[possible]], weights)

    def log_marginals(self) -> dict[str, Values]:
        """Return the logarithms of the marginals of the cut variables with nodes."""
        return {name: take_logs(marginal) + self.log_scale for name, marginal in self.marginals.items()}

    def solution(self, row: int, case: Evidence, error: float) -> Solution:
        """Return the solution of the row."""
        problem = self.problem
        possible = self.total > 0
        known = {number: normalize(table[..., None])[0] for number, table in self.tables.items()}
        tables = [known.get(number, np.ones(1)) for number in range(len(problem.scopes))]
        log_norm = np.array([self.log_scale + math.log(self.total) if possible else -math.inf])
        errors = np.array([error + self.error / self.total if possible else 0.0])
        axes = {**problem.axes, **{name: self.axes[name] for name in self.marginals}}
        densities = self.densities() or None
        return Solution(problem, np.array([row]), case, axes, tables, log_norm, errors, densities=densities)


def index_cells(problem: Problem, values: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[np.intp]]:
    """Return the states of cut variables, and the cells of those that have some."""
    codes = {}
    for name, own in values.items():
        axis = problem.axes.get(name)
        if isinstance(axis, StateAxis):
            codes[name] = own
        elif isinstance(axis, CellAxis):
            codes[name] = np.searchsorted(axis.edges[1:-1], own, side="right")
    return codes
