"""What is drawn where exact inference is too wide, from what, and how much a draw may weigh.

Variables whose tables are small are drawn from the mini-buckets, which know all evidence that tables tell. The others
(variables with nodes and all that is above them, and the linear Gaussian variables of very large components) are drawn
from their own potentials, given those above them. A factor that has no small table counts by the largest value that it
can have, so that what a draw weighs stays bounded.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hybridbn.inference.axes import StateAxis
from hybridbn.inference.compilation import Problem
from hybridbn.inference.elimination.cutset import choose_cut
from hybridbn.inference.elimination.factors import FactorSource, LikelihoodSource, PotentialSource, WeightSource
from hybridbn.inference.elimination.mini_buckets import Draw, LogTable
from hybridbn.inference.elimination.ordering import EliminationOrder, find_order
from hybridbn.inference.evidence import Evidence
from hybridbn.inference.gaussian_component import GaussianComponent
from hybridbn.inference.quadrature.supports import sort_topologically
from hybridbn.potentials.base import Potential
from hybridbn.variables import Discrete, Values

__all__ = ["Drawn", "choose_drawn", "draw_all", "draw_forward", "list_tables"]

LARGEST_COMPONENT = 200
"""The linear Gaussian variables of a larger component are drawn one by one, because a solution takes a cube of time."""
SMALLEST_UNIFORM = 2.0**-54
"""No draw is infinite."""


class Drawn(NamedTuple):
    """The variables to draw.

    Attributes
    ----------
    names : in the order in which their buckets are eliminated; they are drawn in the opposite order
    forward : those that are drawn from their own potentials
    order : in which the other variables are eliminated
    """

    names: tuple[str, ...]
    forward: frozenset[str]
    order: EliminationOrder


def choose_drawn(
    problem: Problem,
    kept: Iterable[str],
    most_cells: float,
    most_total: float,
    table_cells: float,
    effort: float,
) -> Drawn | None:
    """Return the variables to draw until the tables of the others have at most `most_cells` each; None where that can't
    be done.

    Parameters
    ----------
    kept : variables that are eliminated last
    most_total : of all tables together, if that can be done
    table_cells : the most cells of a table that is known to the proposal
    effort : of the search, see `choose_cut`
    """
    sizes = problem.sizes
    states = {name for name, axis in problem.axes.items() if isinstance(axis, StateAxis)}

    def has_table(name: str) -> bool:
        if name not in problem.potentials:
            return True
        scope = [other for other in problem.potentials[name].scope if other not in problem.hard]
        return states.issuperset(scope) and math.prod(float(sizes[other]) for other in scope) <= table_cells

    def add_above(names: Iterable[str]) -> None:
        waiting = list(names)
        while waiting:
            name = waiting.pop()
            if name in drawn or name in problem.hard:
                continue
            drawn.add(name)
            if not has_table(name):
                forward.add(name)
                waiting += [parent.name for parent in problem.potentials[name].parents]

    drawn: set[str] = set()
    forward: set[str] = set()
    wanted = set(problem.nodes)
    for component in {id(part): part for part in problem.component_of.values()}.values():
        if len(component.closed) > LARGEST_COMPONENT:
            wanted.update(component.closed)
        if component.count_work(sizes) > most_cells:
            wanted.update(states.intersection(component.names))
    if not wanted.issubset(problem.potentials):
        return None
    add_above(wanted)
    scopes = [*(factor.names for factor in problem.factors), *problem.scopes]
    order = problem.order
    if drawn:
        scopes = list({tuple(name for name in scope if name not in drawn): None for scope in scopes})
        kept = [name for name in kept if name not in drawn]
        order = find_order(scopes, sizes, kept)
    cut = choose_cut(
        scopes, sizes, states - drawn, most_cells, order, tuple(kept), most_total=most_total, effort=effort
    )
    if cut is None or not (cut.names or drawn):
        return None
    add_above(cut.names)
    if any(not problem.potentials[name].normalized for name in forward):
        return None
    names = (*sorted(drawn.difference(cut.names)), *cut.names)
    if forward:
        names = tuple(name for name in reversed(sort_topologically(problem.potentials)) if name in drawn)
    order = cut.order._replace(names=tuple(name for name in cut.order.names if name not in drawn))
    return Drawn(names, frozenset(forward), order)


def draw_all(problem: Problem) -> Drawn | None:
    """Return all variables, which are drawn in a good order for mini-buckets; None where they are not all discrete."""
    names = problem.order.names
    kept = tuple(name for name in problem.axes if name not in set(names))
    if problem.component_of or not all(isinstance(axis, StateAxis) for axis in problem.axes.values()) or problem.nodes:
        return None
    return Drawn((*names, *kept), frozenset(), EliminationOrder((), 0.0, 1.0, ()))


def list_tables(
    problem: Problem, case: Evidence, drawn: Drawn, most_cells: float, *, maximize: bool = False
) -> tuple[list[LogTable], bool]:
    """Return the logarithms of all factors for one row, or of their largest values; and whether all have one.

    With `maximize`, linear Gaussian variables are at their most probable values.
    """
    tables: list[LogTable] = []
    bounded, sizes = True, problem.sizes
    for source in problem.sources:
        for table in _list_tables(problem, sizes, source, case, drawn, most_cells, maximize=maximize):
            bounded &= table is not None
            if table is not None:
                tables.append(table)
    return tables, bounded


def _list_tables(
    problem: Problem,
    sizes: Mapping[str, int],
    source: FactorSource,
    case: Evidence,
    drawn: Drawn,
    most_cells: float,
    *,
    maximize: bool,
) -> list[LogTable | None]:
    """Return the tables whose product a factor never exceeds, with None for a factor that may be any number."""
    has_axes = problem.axes.keys() >= set(source.names)
    if isinstance(source, WeightSource):
        return []
    if isinstance(source, GaussianComponent):
        if not has_axes or drawn.forward.intersection(source.closed) or source.count_work(sizes) > most_cells:
            # what is not observed has the mass one
            counted = [p for p in source.potentials if maximize or _is_observed(p.child.name, case)]
            return [_bound_potential(problem, potential, case, most_cells) for potential in counted]
    elif isinstance(source, PotentialSource):
        child = source.potential.child.name
        if child in drawn.forward and not _is_observed(child, case):
            return []
        if not has_axes or math.prod(float(sizes[name]) for name in source.names) > most_cells:
            return [_bound_potential(problem, source.potential, case, most_cells)]
    elif isinstance(source, LikelihoodSource) and not has_axes:
        return [None]
    if maximize and isinstance(source, GaussianComponent):
        logs = source.maximize_logs(problem.axes, case)
    else:
        logs = source.logs(problem.axes, case)
    return [LogTable(source.names, logs[..., 0] if logs.ndim > len(source.names) else logs)]


def _is_observed(name: str, case: Evidence) -> bool:
    finding = case.findings.get(name)
    return finding is not None and bool(finding.observed[0])


def _bound_potential(problem: Problem, potential: Potential, case: Evidence, most_cells: float) -> LogTable | None:
    """Return the largest values of a potential for the states of its discrete parents; None where there are none."""
    if isinstance(potential.child, Discrete):
        return LogTable((), np.zeros(()))
    regression = potential.as_regression()
    if regression is None:
        return None
    logs = -0.5 * np.log(2 * np.pi * regression.variance)
    parents = [parent.name for parent in potential.parents if isinstance(parent, Discrete)]
    logs = logs[tuple(case.findings[name].values[0] if _is_observed(name, case) else slice(None) for name in parents)]
    hidden = tuple(name for name in parents if not _is_observed(name, case))
    if logs.size > most_cells or not problem.axes.keys() >= set(hidden):
        return LogTable((), logs.max())
    return LogTable(hidden, logs)


def draw_forward(problem: Problem, case: Evidence, drawn: Drawn) -> dict[str, Draw]:
    """Return for each variable that is drawn from its own potential a function that does it."""
    return {name: partial(_draw_from, problem.potentials[name], case) for name in drawn.forward}


def _draw_from(
    potential: Potential, case: Evidence, uniforms: Values, drawn: Mapping[str, NDArray[Any]]
) -> tuple[NDArray[Any], Values]:
    """Return a variable's values given those of its parents, and their log densities; where it is observed, its
    value.
    """
    count, name = len(uniforms), potential.child.name
    if _is_observed(name, case):
        return np.repeat(case.findings[name].values, count), np.zeros(count)
    given = {
        parent.name: drawn[parent.name] if parent.name in drawn else np.repeat(case.findings[parent.name].values, count)
        for parent in potential.parents
    }
    values = potential.ppf(np.maximum(uniforms, SMALLEST_UNIFORM), given)
    points = {other: array[None, :] for other, array in {**given, name: values}.items()}
    return values, potential.log_on(points).reshape(count)
