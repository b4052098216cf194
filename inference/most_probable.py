"""Most probable completions of a row (MPE), and of some of its variables with the others summed out (MAP).

The maximum is taken over discrete configurations and over points of the continuous variables; linear Gaussian variables
are maximized in closed form. The points are then drawn together around the best ones until they agree to 1e-9 of the
posterior's range. Exact for discrete and linear Gaussian networks; a search elsewhere, which can miss a higher peak
that is narrower than the cells that hold the posterior's mass. Newton steps on the exact log density lead from a peak
on a grid to its place: comparing heights finds a peak only to the square root of their precision, slope and curvature
find it to that precision.

Where tables are too wide, some variables are set, and the others maximized exactly. In slices, the set variables take
all combinations of their states, so that the best one is exact. With bounds, they are drawn from mini-buckets that
maximize, which also bound the maximum from above (Dechter & Rish 2003, "Mini-buckets: a general scheme for bounded
inference"). The best draw is improved by setting other variables to what they are in it, and maximizing the rest again,
as long as there is time.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from hybridbn.errors import TooWide, warn_user
from hybridbn.inference.axes import Axis, NodeAxis, StateAxis
from hybridbn.inference.compilation import Problem, Question, problem_of
from hybridbn.inference.elimination.factors import WeightSource
from hybridbn.inference.elimination.ordering import Cut, EliminationOrder, choose_cut, limit_effort
from hybridbn.inference.engines import list_offers, too_wide
from hybridbn.inference.engines.bounds import BoundPlan
from hybridbn.inference.engines.elimination import EliminationPlan, split_rows
from hybridbn.inference.engines.slices import (
    WORKING_TABLES,
    count_slices_at_once,
    make_slices,
    prepare_slices,
)
from hybridbn.inference.evidence import Evidence, EvidenceReader
from hybridbn.inference.gaussian_component import GaussianComponent
from hybridbn.inference.grids import place_nodes
from hybridbn.inference.posteriors.continuous import ContinuousPosterior
from hybridbn.inference.queries import (
    check_targets,
    find_contradictions,
    impossible_evidence,
    log_joint,
    suppose,
)
from hybridbn.inference.relevance import Snapshot, status_of
from hybridbn.inference.solutions import infer_posteriors
from hybridbn.jobs import run_in_threads
from hybridbn.network import Network
from hybridbn.options import Options
from hybridbn.variables import Discrete, Values

GRID = np.arange(-4, 5) / 4.0
SHRINK = 2.5
CONVERGED = 1e-10
MOST_POLISHED_VARIABLES = 12
TIE = 1e-11
"""Log probabilities that differ by less (relative to their size, if that is above 1) are the same."""
ROUNDS = 120
TIE_ROUNDS = 12
"""Rounds in which equally good points are told apart; after that they are the same point."""


def most_probable(
    network: Network,
    evidence: Any = None,
    names: Sequence[str] | None = None,
    options: Options | None = None,
    *,
    return_bounds: bool = False,
) -> Any:
    """Return the most probable values of all hidden variables, or of some: a dict, or for a table the same kind of
    frame; with `return_bounds` a pair of this and of the limits of the log probability.
    """
    options = options or Options()
    network.check()
    targets = [] if names is None else check_targets(network, names)
    reader = EvidenceReader(network, evidence, targets)
    read = reader.evidence()
    shown = list(network) if names is None else targets
    completed: dict[str, NDArray[Any]] = {}
    log_bounds = None
    # a target that was set has its value
    wanted = [name for name in shown if status_of(read.finding(name)) != "hard"]
    if names is None and read.single:
        shown = wanted
    if wanted and read.rows:
        if names is None:
            try:
                completed = _maximize_all(network, read, wanted, options)
            except TooWide as refused:
                completed, log_bounds = complete_beyond(network, read, options, refused)
        else:
            completed = _maximize_targets(network, read, wanted, options)
        if names is not None or not _has_closed_form(network):
            completed = _sharpen(network, read, completed, options)
    for name in shown:
        finding = read.finding(name)
        values = network.variable(name).round(completed.get(name, np.empty(read.rows)))
        completed[name] = values if finding is None else np.where(finding.observed, finding.values, values)
    variables = [network.variable(name) for name in shown]
    answer = (
        {v.name: v.restore(completed[v.name][0]) for v in variables}
        if read.single
        else reader.answer(variables, completed)
    )
    if not return_bounds:
        return answer
    low = log_joint(network, read, {name: completed[name] for name in wanted}, options)
    if log_bounds is None:
        log_bounds = low if _has_closed_form(network) else np.full(read.rows, np.inf)
    high = np.maximum(low, log_bounds)
    return answer, (float(low[0]), float(high[0])) if read.single else (low, high)


def _has_closed_form(network: Network) -> bool:
    """Tell whether all maxima over continuous variables are found in closed form."""
    return all(
        potential.as_regression() is not None or all(isinstance(variable, Discrete) for variable in potential.variables)
        for potential in network.potentials
    )


def _sharpen(
    network: Network, read: Evidence, start_values: dict[str, NDArray[Any]], options: Options
) -> dict[str, NDArray[Any]]:
    """Bring continuous values from the grid's precision to that of the density."""
    names = [name for name in start_values if not isinstance(network.variable(name), Discrete)]
    if not names or len(names) > MOST_POLISHED_VARIABLES:
        return start_values
    start, fixed, width = np.array([start_values[name] for name in names]), [], []
    for number, name in enumerate(names):
        finding = read.finding(name)
        observed = np.zeros(read.rows, dtype=bool) if finding is None else finding.observed
        start[number] = np.where(observed, 0.0 if finding is None else finding.values, start[number])
        fixed.append(observed)
        others = Evidence({n: f for n, f in read.findings.items() if n != name}, read.rows, single=False)
        (posterior,) = infer_posteriors(network, [name], others, options)
        spread = posterior.numeric.std() if isinstance(posterior, ContinuousPosterior) else np.ones(read.rows)
        width.append(np.where(spread > 0, spread, 1.0))

    def heights(points: Values) -> Values:
        count = points.shape[1]
        rows = np.tile(np.arange(read.rows), count)
        values = {name: start_values[name][rows] for name in start_values if name not in names}
        values |= {name: own.ravel() for name, own in zip(names, points, strict=True)}
        return log_joint(network, suppose(network, read, {}, rows), values, options).reshape(count, -1)

    polished = polish_modes(heights, start, np.array(width), np.array(fixed))
    settled = [network.potential(name).point_cells.snap(place) for name, place in zip(names, polished, strict=True)]
    return {**start_values, **dict(zip(names, settled, strict=True))}


def _maximize_all(
    network: Network, read: Evidence, targets: Sequence[str], options: Options, order: EliminationOrder | None = None
) -> dict[str, NDArray[Any]]:
    """Maximize over everything that is hidden."""
    batch = Evidence(read.findings, read.rows, single=False)
    problem = problem_of(network, Question(tuple(targets), all_of=True, pointwise=True), batch)
    if order is not None and set(order.names) == set(problem.order.names):
        problem.order = order
    result: dict[str, NDArray[Any]] = {}

    first_tied = np.full(read.rows, len(targets))
    for rows, part, axes, best, tied in _search(problem, batch, options):
        for number, name in enumerate(targets):
            if name in problem.component_of:
                component = problem.component_of[name]
                mean = component.moments([name], axes, part, pairs=False)[0][0]
                values = np.asarray(mean[(*best[number], np.arange(mean.shape[-1]))])
            elif name in problem.nodes:
                values = axes[name].points[best[number][0], np.arange(part.rows)]
            else:
                values = best[number][0]
                first_tied[rows] = np.minimum(first_tied[rows], np.where(tied[number], number, len(targets)))
            result.setdefault(name, np.empty(read.rows, dtype=values.dtype))[rows] = values
    for number in np.unique(first_tied[first_tied < len(targets)]):
        # several completions are best, and each variable may have picked another one of them: settle one variable
        name, again = targets[number], np.flatnonzero(first_tied == number)
        part = read.take(again, len(again))
        # what is observed in all of these rows is no part of their problem
        left = [other for other in targets if other != name and status_of(part.finding(other)) != "hard"]
        if left:
            settled = suppose(network, part, {name: result[name][again]})
            rest = _maximize_all(network, settled, left, options)
            for other in left:
                result[other][again] = rest[other]
    return result


def _maximize_targets(
    network: Network, read: Evidence, targets: Sequence[str], options: Options
) -> dict[str, NDArray[Any]]:
    """Maximize over the targets with everything else summed out."""
    batch = Evidence(read.findings, read.rows, single=False)
    numbers = frozenset(name for name in targets if not isinstance(network.variable(name), Discrete))
    problem = problem_of(network, Question(tuple(targets), joint=True, pointwise=True, dense=numbers), batch)
    impossible = find_contradictions(Snapshot.of(network), problem, read, options)
    if impossible.any():
        raise impossible_evidence(np.flatnonzero(impossible).tolist(), read.single)
    (scope,) = problem.scopes
    result: dict[str, NDArray[Any]] = {}

    for rows, part, axes, best, _ in _search(problem, batch, options, numbers):
        for place_in_scope, name in enumerate(scope):
            code = best[0][place_in_scope]
            values = axes[name].points[code, np.arange(part.rows)] if name in numbers else code
            result.setdefault(name, np.empty(read.rows, dtype=values.dtype))[rows] = values
    return result


_BestPoints: TypeAlias = tuple[
    NDArray[np.intp], Evidence, dict[str, Any], list[NDArray[np.intp]], list[NDArray[np.bool_]]
]
"""Some rows, their evidence and axes, and for the table over each scope the best places and whether these are some of
several.
"""


def _search(
    problem: Problem, evidence: Evidence, options: Options, maximized: frozenset[str] | None = None
) -> Iterator[_BestPoints]:
    """Find the best places for groups of rows, drawing the points of `maximized` variables (by default of all) together
    around them; other variables are summed out.
    """
    plan = EliminationPlan.of(problem, evidence, options, grouped=False)
    if plan.held_bytes > options.max_bytes:
        raise too_wide([plan], options.max_bytes)

    def search_part(chunk: tuple[NDArray[np.intp], Evidence]) -> _BestPoints:
        rows, part = chunk
        best, tied = _find_best(problem, problem.axes, part, rows, maximized)
        return rows, part, dict(problem.axes), best, tied

    if problem.nodes:
        for rows, part in split_rows(problem, evidence):
            yield from _search_around(problem, rows, part, options, maximized)
    else:
        yield from run_in_threads(search_part, split_rows(problem, evidence), options.jobs)


def _search_around(
    problem: Problem,
    chunk: NDArray[np.intp],
    evidence: Evidence,
    options: Options,
    maximized: frozenset[str] | None,
) -> Iterator[_BestPoints]:
    """Find the best places of a chunk of rows that need nodes."""
    movable = [name for name in problem.nodes if maximized is None or name in maximized]
    for chosen, placed in place_nodes(problem, evidence, options.tolerance, options.max_bytes / 64):
        rows, part = chunk[chosen], evidence.take(chosen, len(chosen))
        # a point is where its mass is, not inside of the cell that stands for it
        axes: dict[str, Any] = {**problem.axes, **placed.axes}
        for name in movable:
            axes[name] = replace(axes[name], points=problem.potentials[name].point_cells.snap(axes[name].points))
        best, tied = _settle_ties(problem, axes, part, rows, maximized)
        # half of the range to search at first is the widest cell in use
        spread = {name: (axes[name].high - axes[name].low).max(axis=0) for name in movable}
        least = {name: CONVERGED * width for name, width in spread.items()}
        for number in range(ROUNDS):
            centers = _centers(problem, axes, best, movable, part.rows)
            for name in movable:
                potential, finding = problem.potentials[name], part.finding(name)
                points = potential.point_cells.snap(centers[name] + GRID[:, None] * spread[name])
                points = np.clip(points, *potential.child.domain)  # type: ignore[union-attr]
                points = points if finding is None else finding.clip(points)
                axes[name] = NodeAxis(points[:1], points[-1:], points, np.ones_like(points))
            find = _settle_ties if number < TIE_ROUNDS else _find_best
            best, tied = find(problem, axes, part, rows, maximized)
            fresh = _centers(problem, axes, best, movable, part.rows)
            open_rows = np.zeros(part.rows, dtype=bool)
            for name in movable:
                at_edge = np.abs(fresh[name] - centers[name]) >= spread[name] * 0.99
                spread[name] = np.where(at_edge, spread[name], spread[name] / SHRINK)
                open_rows |= spread[name] > least[name] + np.spacing(np.abs(fresh[name]))
            if not open_rows.any():
                break
        yield rows, part, axes, best, tied


def _settle_ties(
    problem: Problem,
    axes: Mapping[str, Axis],
    part: Evidence,
    rows: NDArray[np.intp],
    maximized: frozenset[str] | None,
) -> tuple[list[NDArray[np.intp]], list[NDArray[np.bool_]]]:
    """Return the best places; where several points are equally good, those of all variables belong to one of them."""
    best, tied = _find_best(problem, axes, part, rows, maximized)
    settled: dict[str, Values] = {}
    for name in problem.nodes:
        number = next((i for i, scope in enumerate(problem.scopes) if scope == (name,)), None)
        if number is None or not tied[number].any():
            continue
        others = np.arange(axes[name].size)[:, None] != best[number][0]
        settled[name] = np.where(others & tied[number], -np.inf, 0.0)
        best, tied = _find_best(problem, axes, part, rows, maximized, settled)
    return best, tied


def _find_best(
    problem: Problem,
    axes: Mapping[str, Axis],
    part: Evidence,
    rows: NDArray[np.intp],
    maximized: frozenset[str] | None,
    settled: Mapping[str, Values] = MappingProxyType({}),
) -> tuple[list[NDArray[np.intp]], list[NDArray[np.bool_]]]:
    """Return the place (dimensions, rows) of the largest cell in each table, and whether others tie, but for rounding;
    refuse rows in which all is impossible.
    """
    logs = list_logs(problem, axes, part, settled, maximized)
    tables = problem.program.run_log(logs, "max" if maximized is None else "sum")
    best: list[NDArray[np.intp]] = []
    tied: list[NDArray[np.bool_]] = []
    for table, scope in zip(tables, problem.scopes, strict=True):
        shape = table.shape[: len(scope)]
        cells = np.broadcast_to(table.reshape(math.prod(shape), -1), (math.prod(shape), len(rows)))
        top = cells.max(axis=0)
        if not best and np.isneginf(top).any():
            raise impossible_evidence(rows[np.isneginf(top)].tolist(), single=False)
        place = np.unravel_index(cells.argmax(axis=0), shape) if scope else ()
        best.append(np.array(place, dtype=np.intp).reshape(len(scope), len(rows)))
        tied.append((cells >= top - TIE * (1 + np.abs(top))).sum(axis=0) > 1)
    return best, tied


def _centers(
    problem: Problem, axes: Mapping[str, Any], best: Sequence[NDArray[np.intp]], names: Sequence[str], rows: int
) -> dict[str, Values]:
    # the first scope with a name counts
    places = {
        name: index[dimension]
        for index, scope in reversed(list(zip(best, problem.scopes, strict=True)))
        for dimension, name in enumerate(scope)
    }
    return {name: axes[name].points[places[name], np.arange(rows)] for name in names if name in places}


STEP = 1e-4
"""Differences are taken over that part of the peak's width: the error of the slope is about its square."""
NEWTON_ROUNDS = 3
LOSS = 1e-12
"""Steps that lower the log density by more than this part of it, which is more than rounding, are taken back."""
NEAR = 50.0
"""A Newton step of more than so many differences means that this is no peak's neighborhood; it is not taken."""


def polish_modes(heights: Callable[[Values], Values], start: Values, width: Values, fixed: Values) -> Values:
    """Return the places of peaks.

    Parameters
    ----------
    heights : function
        From points (variables, points, rows) to log densities (points, rows).
    start : ndarray (variables, rows)
    width : ndarray (variables, rows)
        About the width of the peak.
    fixed : ndarray of bool (variables, rows)
        What must not move.
    """
    count, rows = start.shape
    pairs = list(combinations(range(count), 2))
    each = np.eye(count)
    offsets = np.array([np.zeros(count), *each, *-each, *(each[i] + each[j] for i, j in pairs)])
    place, step, reached = start.copy(), STEP * width, heights(start[:, None])[0]
    for _ in range(NEWTON_ROUNDS):
        values = heights(place[:, None] + offsets.T[:, :, None] * step[:, None])
        middle, above, below = values[0], values[1 : 1 + count], values[1 + count : 1 + 2 * count]
        with np.errstate(invalid="ignore"):
            slope = (above - below) / 2
            curvature = np.zeros((rows, count, count))
            curvature[:, np.arange(count), np.arange(count)] = (above - 2 * middle + below).T
            for number, (i, j) in enumerate(pairs):
                mixed = values[1 + 2 * count + number] - above[i] - above[j] + middle
                curvature[:, i, j] = curvature[:, j, i] = mixed
        good = np.isfinite(values).all(axis=0)
        held = np.where(good, fixed, True).T
        slope = np.where(held, 0.0, slope.T)
        curvature = np.where(held[:, :, None] | held[:, None, :], 0.0, curvature)
        curvature[:, np.arange(count), np.arange(count)] -= held
        peak = np.linalg.eigvalsh(curvature).max(axis=1, initial=-1.0) < 0
        curvature[~peak] = -np.eye(count)
        move = np.linalg.solve(curvature, -slope[..., None])[..., 0]
        taken = peak & (np.abs(move) <= NEAR).all(axis=1)
        place = place + np.where(taken, move.T * step, 0.0)
        diagonal = -np.diagonal(curvature, axis1=1, axis2=2).T
        # the second difference over one step is (step / width)^2
        better = step * STEP / np.sqrt(np.where(diagonal > 0, diagonal, STEP**2))
        step = np.where(taken & ~held.T, better, step)
    # a jump beside the peak looks like curvature, and the steps lead away from it
    with np.errstate(invalid="ignore"):
        worse = heights(place[:, None])[0] < reached - LOSS * (1 + np.abs(reached))
    return np.where(worse, start, place)


KEPT = 0.5
"""The share of the variables that may be set where the best draw is improved."""
LEAST_GAIN = 1e-9
"""A log probability that is larger by less is no improvement."""
MOST_FAILURES = 8
"""There are no more improvements after so many that were none."""
_SEED = 0


class _Completion(NamedTuple):
    """The best known completion of a row, and the largest log probability that one may have."""

    values: dict[str, NDArray[Any]]
    log_value: float
    log_bound: float


def list_logs(
    problem: Problem,
    axes: Mapping[str, Any],
    evidence: Evidence,
    settled: Mapping[str, Values] = MappingProxyType({}),
    maximized: frozenset[str] | None = None,
) -> dict[int, Values]:
    """Return the logarithms of all factors by number; linear Gaussian variables are at their most probable values.

    Points of variables with nodes have the log weights in `settled`, else none. Where only some variables are
    `maximized`, the others are to be summed out.
    """
    arrays: dict[int, Values] = {}
    for number, source in enumerate(problem.sources):
        name = source.names[0] if isinstance(source, WeightSource) else None
        if name is not None and (maximized is None or name in maximized):
            arrays[number] = settled[name] if name in settled else np.zeros((axes[name].size, evidence.rows))
        elif isinstance(source, GaussianComponent) and maximized is None:
            arrays[number] = source.logs(axes, evidence, at_peak=True)
        else:
            arrays[number] = source.logs(axes, evidence)
    return arrays


def complete_beyond(
    network: Network, read: Evidence, options: Options, refused: TooWide
) -> tuple[dict[str, NDArray[Any]], Values]:
    """Return the best known completions of all rows, and bounds on the log probabilities of all completions; without
    `beyond`, raise `TooWide`, which is also raised where that doesn't help, with what would answer.
    """
    if options.beyond is None:
        known = np.sum([np.zeros(read.rows), *(finding.observed for finding in read.findings.values())], axis=0)
        case = suppose(network, read, {}, np.array([known.argmin()]))
        problem = _compile_maximum(network, case)
        raise TooWide(f"{refused}{'' if problem.nodes else list_offers(problem, case, options)}") from None
    parts = []
    for row in range(read.rows):
        part = _Search(network, suppose(network, read, {}, np.array([row])), options, refused).complete()
        if part.log_bound == -math.inf:
            raise impossible_evidence([row], read.single)
        parts.append(part)
    worst = max(parts, key=lambda part: part.log_bound - part.log_value)
    if worst.log_bound > worst.log_value:
        warn_user(
            f"a more probable completion may exist: the log probability of the one returned is {worst.log_value:.8g},"
            f" and none has more than {worst.log_bound:.8g}; return_bounds=True tells both for each row"
        )
    # what a row observes is no part of its completion
    values = {
        name: np.concatenate(
            [
                part.values[name] if name in part.values else read.findings[name].values[[row]]
                for row, part in enumerate(parts)
            ]
        )
        for name in dict.fromkeys(name for part in parts for name in part.values)
    }
    return values, np.array([part.log_bound for part in parts])


def _compile_maximum(network: Network, case: Evidence) -> Problem:
    return problem_of(network, Question(all_of=True, pointwise=True, only=frozenset(network), whole=True), case)


class _Search:
    """The search for the most probable completion of one row."""

    def __init__(self, network: Network, case: Evidence, options: Options, refused: TooWide) -> None:
        self._network, self._case, self._options = network, case, options
        self._refused, self._started = refused, time.process_time()
        self._problem = _compile_maximum(network, case)
        if self._problem.nodes:
            raise refused
        self._scopes = [factor.names for factor in self._problem.factors]
        self._states = {name for name, axis in self._problem.axes.items() if isinstance(axis, StateAxis)}
        self._most_cells = options.max_bytes / (8 * WORKING_TABLES)

    def complete(self) -> _Completion:
        """Return the best completion, exact in slices."""
        return self._try_all() if self._options.beyond == "slice" else self._try_drawn()

    def _try_all(self) -> _Completion:
        sizes, allowed = self._problem.sizes, self._options.cells_per_row
        cut = self._choose_cut(self._states, limit_effort(allowed))
        if cut is None or cut.total > allowed:
            raise self._refused
        shape = tuple(sizes[name] for name in cut.names)
        step = count_slices_at_once(self._problem, cut.names)
        best = _Completion({}, -math.inf, math.inf)
        for start in range(0, int(cut.slices), step):
            numbers = np.arange(start, min(start + step, int(cut.slices)))
            codes = np.unravel_index(numbers, shape)
            best = self._keep_best(best, dict(zip(cut.names, codes, strict=True)), cut.order)
        if best.log_value == -math.inf:
            return best._replace(log_bound=-math.inf)
        best = self._set(best.values, cut.order)
        return best._replace(log_bound=best.log_value)

    def _try_drawn(self) -> _Completion:
        plan = BoundPlan.of(self._problem, self._case, self._options)
        if plan is None or plan.drawn.forward:
            raise self._refused
        drawn = plan.drawn
        proposal, log_bound = plan.make_proposal(self._case, maximize=True)
        best = _Completion({}, -math.inf, log_bound)
        if log_bound == -math.inf:
            return best
        rng = np.random.default_rng(_SEED)
        for count in plan.split_draws(self._started):
            values, _ = proposal.draw(count, rng)
            stacked = np.unique(np.array([values[name] for name in drawn.names]), axis=1)
            best = self._keep_best(best, dict(zip(drawn.names, stacked, strict=True)), drawn.order)
            if best.log_value >= log_bound:
                break
        if best.log_value == -math.inf:
            raise TooWide(
                f"no possible completion was found in {plan.draws} draws; more seconds= or max_bytes= may find one"
            ) from self._refused
        best = self._set(best.values, drawn.order)._replace(log_bound=log_bound)
        return self._improve(best, rng, plan.find_end(self._started))

    def _improve(self, best: _Completion, rng: np.random.Generator, latest: float) -> _Completion:
        """Return what is at least as good, by setting other variables to their values in the best completion."""
        failures, names = 0, sorted(self._states)
        while failures < MOST_FAILURES and time.process_time() < latest:
            cut = self._choose_cut({name for name in names if rng.random() < KEPT}, 0.0)
            failures += 1
            if cut is None:
                continue
            other = self._set({name: best.values[name] for name in cut.names}, cut.order)
            if other.log_value > best.log_value + LEAST_GAIN:
                best, failures = other._replace(log_bound=best.log_bound), 0
        return best

    def _choose_cut(self, allowed: set[str], effort: float) -> Cut | None:
        problem = self._problem
        return choose_cut(self._scopes, problem.sizes, allowed, self._most_cells, problem.order, effort=effort)

    def _keep_best(self, best: _Completion, values: Mapping[str, NDArray[Any]], order: EliminationOrder) -> _Completion:
        """Return the best of some values of the set variables and those known before."""
        evidence = make_slices(self._problem, self._case, values)
        log_weights = self._case.evidence(values).repeat(evidence.rows).log_weights_of(values)
        problem = prepare_slices(self._problem, evidence, values, order)
        for rows, part in split_rows(problem, evidence):
            (table,) = problem.program.run_log(list_logs(problem, problem.axes, part), "max")
            logs = np.broadcast_to(table, len(rows)) + log_weights[rows]
            top = int(logs.argmax())
            if logs[top] > best.log_value:
                chosen = {name: own[rows[top] : rows[top] + 1] for name, own in values.items()}
                best = best._replace(values=chosen, log_value=float(logs[top]))
        return best

    def _set(self, values: Mapping[str, NDArray[Any]], order: EliminationOrder) -> _Completion:
        """Return the best completion in which some variables have given values."""
        case, options = suppose(self._network, self._case, values), replace(self._options, beyond=None)
        hidden = [name for name in self._network if status_of(case.finding(name)) != "hard"]
        completed = _maximize_all(self._network, case, hidden, options, order)
        log_value = float((log_joint(self._network, case, completed, options) + self._case.log_weights_of(values))[0])
        return _Completion({**completed, **values}, log_value, math.inf)
