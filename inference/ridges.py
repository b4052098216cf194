"""Ridges: families that are known by their values alone and have several hidden numbers at once.

Where such a density is narrow, or has a kink, all that it says of these numbers lies along a curve or a surface that is
aligned with none of them. A product of two grids would need as many points along each number as the ridge is thin. So
one of the numbers is observed in thought, at the nodes of its own grid: given these, each problem has one hidden number
less, and that along which the ridge is crossed gets a grid of its own at each node, around the modes that are found
there. What comes out as the probability of the evidence and of the node is the marginal of the first number, whose grid
is refined like any other.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from operator import itemgetter
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from hybridbn.errors import NetworkError
from hybridbn.inference.axes import CENTRAL_TAIL, ORDER, Axis, find_prior_reaches, node_axis, node_axis_of
from hybridbn.inference.compilation import Problem
from hybridbn.inference.elimination.factors import normalize_logs
from hybridbn.inference.engines import Solution
from hybridbn.inference.evidence import Evidence, Finding
from hybridbn.inference.grids import MOST_SHARED_CELLS, assess_cells, place_nodes
from hybridbn.inference.modes import PointwiseMarginal
from hybridbn.options import Options
from hybridbn.potentials.base import Potential
from hybridbn.potentials.mode_search import REACHES, evaluate, find_modes
from hybridbn.variables import Continuous, Discrete, Values

Solve: TypeAlias = Callable[[Problem, Evidence, NDArray[np.intp], Options], Iterator[Solution]]
"""Solves a problem for some rows."""

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
MOST_CONDITIONED = 2
"""The most numbers on which one conditions, one after the other."""
NEGLIGIBLE_SHARE = 1e-22
"""Nodes with a smaller share of the probability are left out."""


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
            ends[n] = np.sort(np.where(np.isfinite(reach), reach, SOMEWHERE))
    low, high = ends[name]
    if not low < high or potential.scale(name) * FINEST < high - low:
        return np.inf
    places = np.arange(1, PLACES + 1) * np.resize(IRRATIONALS, (len(potential.variables), 1)) % 1
    given: dict[str, NDArray[Any]] = {}
    for variable, shares in zip(potential.variables, places, strict=True):
        if isinstance(variable, Discrete):
            given[variable.name] = (shares * len(variable)).astype(np.intp)
        else:
            least, most = ends[variable.name]
            given[variable.name] = least + shares * (most - least)
    child = potential.child
    try:
        if isinstance(child, Continuous):
            seen = find_modes(potential, {n: v for n, v in given.items() if n != child.name}, REACHES[-1], 0.0)
            given[child.name] = np.clip(seen.peak + (4 * places[-1] - 2) * seen.width, seen.low, seen.high)
        del given[name]
        edges = np.repeat(np.linspace(low, high, MOST_SHARED_CELLS + 1)[:, None], PLACES, axis=1)
        axis = node_axis(edges[:-1], edges[1:])
        with np.errstate(divide="ignore"):
            logs = evaluate(potential, given, np.arange(PLACES), axis.points, log=True, along=name)
            return float(assess_cells(logs + np.log(axis.weights), axis, SMOOTH).error.max())
    except NetworkError:  # it may be undefined at some places
        return np.inf


def choose_conditioned(problem: Problem) -> list[str] | None:
    """Return the numbers on which to condition so that their own tables, or all of those without numbers, are found;
    None where there is no ridge, or it can't be done.
    """
    ridge = find_ridge(problem)
    wanted = [[name for name in scope if name in problem.nodes] for scope in problem.scopes]
    if not ridge or problem.conditioned >= MOST_CONDITIONED or max(map(len, wanted), default=0) > 1:
        return None
    return list(dict.fromkeys(name for names in wanted for name in names)) or [next(iter(ridge))]


def solve_conditioned(
    problem: Problem,
    names: list[str],
    evidence: Evidence,
    rows: NDArray[np.intp],
    options: Options,
    solve: Solve,
) -> Iterator[Solution]:
    """Yield the solutions for some rows, each number in turn being conditioned on for the tables over it."""
    if len(names) > 1 and evidence.rows > 1:
        for row in range(evidence.rows):
            part = evidence.take(slice(row, row + 1), 1)
            yield from solve_conditioned(problem, names, part, rows[row : row + 1], options, solve)
        return
    first: Solution | None = None
    for name in names:
        for solution in _integrate_over(problem, name, evidence, rows, options, solve):
            if len(names) == 1:
                yield solution
            elif first is None:
                first = solution
            else:
                tables = [
                    own if name in scope else other
                    for scope, own, other in zip(problem.scopes, solution.tables, first.tables, strict=True)
                ]
                error = np.maximum(first.error, solution.error)
                first = replace(first, axes={**first.axes, **solution.axes}, tables=tables, error=error)
    if first is not None:
        yield first


@dataclass
class _Conditioned(PointwiseMarginal):
    """The log marginal of one number: the probability of the evidence and of its value, all others summed out."""

    inner: Problem = field(kw_only=True)
    options: Options = field(kw_only=True)
    solve: Solve = field(kw_only=True)

    evaluated: list[tuple[Values, Values]] = field(default_factory=list)
    """Rows and points (2, points), and the errors and tables there, one after the other (numbers, points)."""

    def _evaluate_cells(self, axes: Mapping[str, Axis], evidence: Evidence, rows: NDArray[np.intp]) -> Values:
        (name,) = self.problem.nodes
        points = node_axis_of(axes, name).points
        given = evidence.take(np.tile(np.arange(len(rows)), ORDER), points.size)
        finding, value = given.findings.get(name), Finding(self.problem.potentials[name].child, points.ravel())
        given = Evidence({**given.findings, name: value}, points.size, single=False)
        logs = np.empty(points.size)
        numbers = np.empty((1 + sum(math.prod(shape) for shape in self.shapes), points.size))
        for part in self.solve(self.inner, given, np.arange(points.size), self.options):
            logs[part.rows] = part.log_norm
            numbers[:, part.rows] = np.concatenate(
                [part.error[None], *(table.reshape(-1, len(part.rows)) for table in part.tables)]
            )
        if finding is not None and finding.weighted:
            with np.errstate(divide="ignore"):
                logs += np.log(finding.weights(points.reshape(1, -1))[0])
        self.evaluated.append((np.stack([np.tile(rows, ORDER), points.ravel()]), numbers))
        return logs.reshape(points.shape)

    @property
    def shapes(self) -> list[list[int]]:
        """The shapes of the tables."""
        return [[self.inner.sizes[name] for name in scope] for scope in self.inner.scopes]

    def recall_numbers(self, rows: NDArray[np.intp], points: Values) -> Values:
        """Return what was evaluated of points, each of a row."""
        places, numbers = (np.concatenate(arrays, axis=1) for arrays in zip(*self.evaluated, strict=True))
        keys = np.concatenate([places, np.stack([rows, points])], axis=1)
        _, code = np.unique(keys, axis=1, return_inverse=True)
        where = np.empty(code.max(initial=0) + 1, dtype=np.intp)
        where[code.ravel()[: len(numbers[0])]] = np.arange(len(numbers[0]))
        return numbers[:, where[code.ravel()[len(numbers[0]) :]]]


def _integrate_over(
    problem: Problem, name: str, evidence: Evidence, rows: NDArray[np.intp], options: Options, solve: Solve
) -> Iterator[Solution]:
    """Yield solutions with tables over one number, and over none."""
    inner = problem.restrict_to_observed(frozenset((name,)))
    inner.conditioned = depth = problem.conditioned + 1
    order = problem.order._replace(clique=(name,))
    alone = replace(problem, nodes=(name,), factors=(), order=order, conditioned=depth)
    marginal = _Conditioned(alone, inner=inner, options=options, solve=solve)
    for chosen, placed in place_nodes(alone, evidence, options.tolerance, options.max_bytes / 64, marginal):
        assert placed.marginal is not None
        shares, log_norm = normalize_logs(placed.marginal)
        axis, own = placed.axes[name], evidence.take(chosen, len(chosen))
        node, row = np.nonzero(shares > NEGLIGIBLE_SHARE)
        share = shares[node, row]
        errors, *numbers = marginal.recall_numbers(chosen[row], axis.points[node, row])
        error = placed.error + np.bincount(row, share * errors, len(chosen))
        tables, start = [], 0
        for scope, shape in zip(problem.scopes, marginal.shapes, strict=True):
            part = np.array(numbers[start : (start := start + math.prod(shape))])
            table = np.zeros((len(chosen), len(shares), *shape))
            table[row, node] = (part * share).T.reshape(-1, *shape)
            table[np.isneginf(log_norm)] = np.nan
            rows_last = np.moveaxis(table, 0, -1)
            tables.append(np.moveaxis(rows_last, 0, scope.index(name)) if name in scope else rows_last.sum(axis=0))
        yield Solution(problem, rows[chosen], own, {**problem.axes, name: axis}, tables, log_norm, error)
