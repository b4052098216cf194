r"""What is drawn where exact inference is too wide, from what, and how much a draw may weigh.

Variables whose tables are small are drawn from weighted mini-buckets, which know all evidence that tables tell. The
others (variables with nodes and all that is above them, and the linear Gaussian variables of very large components) are
drawn from their own potentials, given those above them. A factor that has no small table counts by the largest value
that it can have, so that what a draw weighs stays bounded.

Mini-buckets give an upper bound on a sum of products from tables of limited size, and a proposal for sampling.
Variables are eliminated one after the other. Where the product of the tables of a variable would be too large, the
tables are divided into mini-buckets, and Hölder's inequality bounds the sum:

.. math:: \sum_x \prod_r f_r \le \prod_r \Bigl(\sum_x f_r^{1/w_r}\Bigr)^{w_r}, \qquad \sum_r w_r = 1

Before that, the mini-buckets are reweighted so that their marginals agree, which makes the bound tighter without
changing the product (Liu & Ihler 2011, "Bounding the partition function using Hölder's inequality"). The mixture of
the mini-buckets' conditionals, weighted by w, is a distribution to draw from; the ratio of the product to it never
exceeds the bound (Liu, Fisher & Ihler 2015, "Probabilistic variational bounds for graphical models"). A factor with the
weight one beside others with the weight zero makes a variable that is drawn from that factor alone.

Maxima in the place of sums are bounded by the products of the mini-buckets' maxima, the limit of all weights at zero.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial, reduce
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from hybridbn.inference.axes import StateAxis, sort_topologically
from hybridbn.inference.compilation import Problem
from hybridbn.inference.elimination.compilers import TooManyCells
from hybridbn.inference.elimination.factors import (
    FactorSource,
    LikelihoodSource,
    PotentialSource,
    WeightSource,
    normalize_logs,
)
from hybridbn.inference.elimination.ordering import EliminationOrder, choose_cut, find_order
from hybridbn.inference.elimination.program import align
from hybridbn.inference.evidence import Evidence
from hybridbn.inference.gaussian_component import GaussianComponent
from hybridbn.potentials.base import Potential, draw_codes, sum_logs
from hybridbn.variables import Discrete, Values

Draw: TypeAlias = Callable[[Values, Mapping[str, NDArray[Any]]], tuple[NDArray[Any], Values]]
"""From uniform numbers and the values drawn before to the values of a variable and their log densities."""


_Combine: TypeAlias = Callable[[Values, tuple[int, ...]], Values]
"""From logarithms and dimensions to those of the sums, or the largest ones, over these dimensions."""

_SHARES = 4.0
"""A variable may take so many times the work or the memory that is left for each variable, since many take little."""


class LogTable(NamedTuple):
    """The logarithms of a table over some names."""

    names: tuple[str, ...]
    logs: Values


class MiniBucket(NamedTuple):
    """A product of tables that mention a variable, which is the last dimension, and its weight."""

    table: LogTable
    weight: float


class Proposal(NamedTuple):
    """An upper bound on the logarithm of a sum of products, and the mini-buckets of the variables to draw, in order."""

    log_bound: float
    buckets: tuple[tuple[str, tuple[MiniBucket, ...]], ...]
    states: Mapping[str, NDArray[np.intp]] = MappingProxyType({})
    """Those that the tables have of their variables, where these are not all."""

    def draw(
        self, count: int, rng: np.random.Generator, forward: Mapping[str, Draw] = MappingProxyType({})
    ) -> tuple[dict[str, NDArray[Any]], Values]:
        """Return values of the variables in `count` draws, and the logarithms of the draws' probabilities.

        Parameters
        ----------
        forward : the functions that draw the variables without mini-buckets
        """
        values: dict[str, NDArray[Any]] = {}
        codes: dict[str, NDArray[Any]] = {}
        log_probability = np.zeros(count)
        for name, parts in self.buckets:
            if name in forward:
                values[name], logs = forward[name](rng.random(count), values)
                codes[name] = values[name]
                log_probability += logs
                continue
            shares = np.sum([part.weight * _condition(part.table, codes, count) for part in parts], axis=0)
            total = shares.sum(axis=1, keepdims=True)
            # nothing is possible below such a draw, so that any state will do
            shares = np.where(total > 0, shares, 1.0)
            draws = np.arange(count)
            codes[name] = draw_codes(shares, draws, rng.random(count))
            values[name] = self.states[name][codes[name]] if name in self.states else codes[name]
            log_probability += np.log(shares[draws, codes[name]] / shares.sum(axis=1))
        return values, log_probability


def _condition(table: LogTable, codes: Mapping[str, NDArray[Any]], count: int) -> Values:
    """Return the probabilities (count, states) of the last name given states of the others; zeros where there are
    none.
    """
    logs = table.logs[tuple(codes[name] for name in table.names[:-1])]
    shares, _ = normalize_logs(np.broadcast_to(logs, (count, table.logs.shape[-1])).T)
    return np.where(np.isnan(shares), 0.0, shares).T


def find_possible(
    tables: Sequence[LogTable], sizes: Mapping[str, int], whole: Collection[str] = ()
) -> tuple[list[LogTable], dict[str, NDArray[np.intp]]]:
    """Return tables without the states that other tables make impossible, and the states that are left.

    A state is possible as long as each table has a cell for it with possible states of the others (arc consistency).

    Parameters
    ----------
    whole : variables of which all states are kept; one is kept of each

    Examples
    --------
    >>> tables = [LogTable(("a",), np.zeros(2)), LogTable(("a", "b"), np.where(np.eye(2, 3), 0.0, -np.inf))]
    >>> left, states = find_possible(tables, {"a": 2, "b": 3})
    >>> left[1].logs.shape, {name: known.tolist() for name, known in states.items()}
    ((2, 2), {'b': [0, 1]})
    """
    possible = {name: np.ones(size, dtype=np.bool_) for name, size in sizes.items()}
    supports = [np.isfinite(table.logs) for table in tables]
    touching: dict[str, list[int]] = {}
    for number, table in enumerate(tables):
        for name in table.names:
            touching.setdefault(name, []).append(number)
    waiting = {number for number, support in enumerate(supports) if not support.all()}
    while waiting:
        number = waiting.pop()
        names, support = tables[number].names, supports[number]
        if not support.any():
            break
        support = supports[number] = support & reduce(np.multiply.outer, [possible[name] for name in names])
        for axis, name in enumerate(names):
            left = support.any(axis=tuple(other for other in range(len(names)) if other != axis))
            if name not in whole and left.any() and (left < possible[name]).any():
                possible[name] &= left
                waiting.update(touching[name])
    kept = {name: np.flatnonzero(left) for name, left in possible.items()}
    states = {name: own for name, own in kept.items() if len(own) < sizes[name]}
    smaller = [
        table
        if states.keys().isdisjoint(table.names)
        else LogTable(table.names, table.logs[np.ix_(*(kept[name] for name in table.names))])
        for table in tables
    ]
    return smaller, states


def bound_within(
    tables: Sequence[LogTable],
    sizes: Mapping[str, int],
    order: Sequence[str],
    drawn: Sequence[str],
    most_cells: float,
    forward: Collection[str],
    most_held: float,
    most_work: float = math.inf,
    *,
    maximize: bool = False,
) -> Proposal:
    """Return what `bound_from_above` does, with mini-buckets so small that no more than `most_held` cells are held."""
    while most_cells > 1:
        try:
            return bound_from_above(
                tables, sizes, order, drawn, most_cells, forward, most_held, most_work, maximize=maximize
            )
        except TooManyCells:
            most_cells /= 4
    return bound_from_above(tables, sizes, order, drawn, 1.0, forward, maximize=maximize)


def bound_from_above(
    tables: Sequence[LogTable],
    sizes: Mapping[str, int],
    order: Sequence[str],
    drawn: Sequence[str],
    most_cells: float,
    forward: Collection[str] = (),
    most_held: float = math.inf,
    most_work: float = math.inf,
    *,
    maximize: bool = False,
) -> Proposal:
    """Return an upper bound on the sum of the product of tables, and the proposal for the variables eliminated last.

    Parameters
    ----------
    order, drawn : the variables that are eliminated first, and then these
    forward : of these, the ones that are drawn from a distribution of mass one that no table tells, so that the other
        tables count by their largest values
    most_held : where more cells would be held, `TooManyCells` is raised
    most_work : mini-buckets get smaller where all of them together would have many more cells
    maximize : whether the bound is on the largest product, not on the sum

    Examples
    --------
    >>> tables = [LogTable(("a", "b"), np.log([[0.1, 0.3], [0.2, 0.4]])), LogTable(("b",), np.log([1.0, 3.0]))]
    >>> proposal = bound_from_above(tables, {"a": 2, "b": 2}, ["a"], ["b"], 100)
    >>> round(float(np.exp(proposal.log_bound)), 6)
    2.4
    """
    waiting: dict[str, list[LogTable]] = {name: [] for name in (*order, *drawn)}
    position = {name: i for i, name in enumerate(waiting)}
    constant, held = 0.0, 0
    combine: _Combine = np.max if maximize else sum_logs

    def send(table: LogTable) -> None:
        nonlocal constant, held
        held += table.logs.size
        if table.names:
            waiting[min(table.names, key=position.__getitem__)].append(table)
        else:
            constant += float(table.logs)

    for table in tables:
        send(table)
    buckets: list[tuple[str, tuple[MiniBucket, ...]]] = []
    chosen = frozenset(drawn)
    for left, (name, inputs) in zip(range(len(waiting), 0, -1), waiting.items(), strict=True):
        if name in forward:
            for table in inputs:
                axis = table.names.index(name)
                send(LogTable((*table.names[:axis], *table.names[axis + 1 :]), table.logs.max(axis=axis)))
            buckets.append((name, ()))
            continue
        if not inputs:
            inputs = [LogTable((name,), np.zeros(sizes[name]))]
        share = min(most_work, max(most_held - held, 0.0) if name in chosen else math.inf) * _SHARES / left
        groups = _group_tables(inputs, sizes, most_cells, share)
        parts = _match_marginals(name, _multiply_groups(name, groups, sizes), combine)
        most_work -= sum(part.table.logs.size for part in parts)
        held -= sum(table.logs.size for table in inputs)
        inputs.clear()
        for part in parts:
            send(LogTable(part.table.names[:-1], part.weight * combine(part.table.logs, (part.table.logs.ndim - 1,))))
        if name in chosen:
            buckets.append((name, parts))
            held += sum(part.table.logs.size for part in parts)
        if held > most_held:
            raise TooManyCells
    return Proposal(constant, tuple(reversed(buckets)))


def _group_tables(
    inputs: Sequence[LogTable], sizes: Mapping[str, int], most_cells: float, most_work: float
) -> list[tuple[set[str], list[LogTable]]]:
    """Divide tables into groups, with their names, whose products have at most `most_cells` each and `most_work`
    together, unless a table is that large already.
    """
    most_cells = min(most_cells, most_work)
    largest_first = sorted(inputs, key=lambda table: -table.logs.size)
    while True:
        groups: list[tuple[set[str], list[LogTable]]] = []
        cells: list[float] = []
        for table in largest_first:
            names = set(table.names)
            fitting = [
                (len(names & scope), -len(scope), -number)
                for number, (scope, _) in enumerate(groups)
                if cells[number] * math.prod([float(sizes[n]) for n in names - scope]) <= most_cells
            ]
            if not fitting:
                groups.append((names, [table]))
                cells.append(float(table.logs.size))
                continue
            best = -max(fitting)[-1]  # the first of those that share most names and have fewest more
            scope, members = groups[best]
            cells[best] *= math.prod([float(sizes[n]) for n in names - scope])
            scope |= names
            members.append(table)
        total = sum(cells)
        if total <= most_work or len(groups) == len(inputs):
            return groups
        most_cells = min(most_cells / 2, most_cells * most_work / total)


def _multiply_groups(
    name: str, groups: Sequence[tuple[set[str], list[LogTable]]], sizes: Mapping[str, int]
) -> tuple[MiniBucket, ...]:
    """Return the products of groups of tables."""
    parts = []
    for scope, members in groups:
        # powers of the same tables in every mini-bucket would do as well; equal weights are not far from the best
        names_in_order = (*sorted(scope - {name}), name)
        product = np.zeros([sizes[n] for n in names_in_order])
        for table in members:
            product += align(table.logs, table.names, names_in_order)
        parts.append(MiniBucket(LogTable(names_in_order, product / (1 / len(groups))), 1 / len(groups)))
    return tuple(parts)


def _match_marginals(name: str, parts: tuple[MiniBucket, ...], combine: _Combine) -> tuple[MiniBucket, ...]:
    """Return the mini-buckets with equal marginals of the names that they share; their product is the same."""
    if len(parts) == 1:
        return parts
    shared = set.intersection(*(set(part.table.names) for part in parts))
    names = [*sorted(shared - {name}), name]
    others = [tuple(i for i, other in enumerate(part.table.names) if other not in shared) for part in parts]
    marginals = [combine(part.table.logs, over) for part, over in zip(parts, others, strict=True)]
    with np.errstate(invalid="ignore"):
        # the weights add up to one, so that the mean is weighted by them
        mean = np.sum([part.weight * marginal for part, marginal in zip(parts, marginals, strict=True)], axis=0)
        changes = [np.where(np.isneginf(mean), -np.inf, mean - marginal) for marginal in marginals]
    matched = []
    for (table, weight), change in zip(parts, changes, strict=True):
        logs = table.logs + align(change, names, table.names)
        matched.append(MiniBucket(LogTable(table.names, logs), weight))
    return tuple(matched)


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
        names = tuple(name for name in reversed(sort_topologically(problem)) if name in drawn)
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
    listed = [_list_tables(problem, source, case, drawn, most_cells, maximize=maximize) for source in problem.sources]
    tables = [table for some in listed for table in some if table is not None]
    return tables, len(tables) == sum(map(len, listed))


def _list_tables(
    problem: Problem,
    source: FactorSource,
    case: Evidence,
    drawn: Drawn,
    most_cells: float,
    *,
    maximize: bool,
) -> list[LogTable | None]:
    """Return the tables whose product a factor never exceeds, with None for a factor that may be any number."""
    sizes, has_axes = problem.sizes, problem.axes.keys() >= set(source.names)
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
    given = problem.axes, case
    logs = source.logs(*given, at_peak=maximize) if isinstance(source, GaussianComponent) else source.logs(*given)
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
