r"""Weighted mini-buckets: an upper bound on a sum of products from tables of limited size, and a proposal for sampling.

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
from collections.abc import Callable, Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from hybridbn.variables import Values

__all__ = ["Draw", "LogTable", "MiniBucket", "Proposal", "bound_from_above", "bound_within", "find_possible"]

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
            cumulated = np.cumsum(shares, axis=1)
            levels = rng.random((count, 1)) * cumulated[:, -1:]
            chosen = (levels >= cumulated).sum(axis=1)
            codes[name] = np.minimum(chosen, shares.shape[1] - 1)
            values[name] = self.states[name][codes[name]] if name in self.states else codes[name]
            log_probability += np.log(shares[np.arange(count), codes[name]] / cumulated[:, -1])
        return values, log_probability


def _condition(table: LogTable, codes: Mapping[str, NDArray[Any]], count: int) -> Values:
    """Return the probabilities (count, states) of the last name given states of the others; zeros where there are
    none.
    """
    logs = table.logs[tuple(codes[name] for name in table.names[:-1])]
    logs = np.broadcast_to(logs, (count, table.logs.shape[-1]))
    top = logs.max(axis=1, keepdims=True)
    values = np.exp(logs - np.where(np.isfinite(top), top, 0.0))
    total = values.sum(axis=1, keepdims=True)
    return np.asarray(np.divide(values, total, out=np.zeros_like(values), where=total > 0))


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
        for axis, name in enumerate(names):
            shape = [-1 if other == axis else 1 for other in range(len(names))]
            support = support & possible[name].reshape(shape)
        supports[number] = support
        for axis, name in enumerate(names):
            left = support.any(axis=tuple(other for other in range(len(names)) if other != axis))
            if name not in whole and left.any() and (left < possible[name]).any():
                possible[name] &= left
                waiting.update(touching[name])
    states = {name: np.flatnonzero(left) for name, left in possible.items() if not left.all()}
    smaller = []
    for table in tables:
        logs = table.logs
        for axis, name in enumerate(table.names):
            if name in states:
                logs = logs.take(states[name], axis=axis)
        smaller.append(LogTable(table.names, logs))
    return smaller, states


class TooManyCells(Exception):
    """The tables of the mini-buckets would take too much memory."""


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
    combine = _max_over if maximize else _sum_over

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
            best, most_shared = -1, (-1, 0)
            for number, (scope, _) in enumerate(groups):
                more = names - scope
                if cells[number] * math.prod([float(sizes[n]) for n in more]) > most_cells:
                    continue
                shared = len(names) - len(more), -len(scope)
                if shared > most_shared:
                    best, most_shared = number, shared
            if best < 0:
                groups.append((names, [table]))
                cells.append(float(table.logs.size))
                continue
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
            product += _spread(table, names_in_order)
        parts.append(MiniBucket(LogTable(names_in_order, product / (1 / len(groups))), 1 / len(groups)))
    return tuple(parts)


def _spread(table: LogTable, names: Sequence[str]) -> Values:
    """Return the table with a dimension for each of the names."""
    turned = table.logs.transpose(sorted(range(len(table.names)), key=lambda i: names.index(table.names[i])))
    sizes = iter(turned.shape)
    spread: Values = turned.reshape([next(sizes) if name in table.names else 1 for name in names])
    return spread


def _match_marginals(name: str, parts: tuple[MiniBucket, ...], combine: _Combine) -> tuple[MiniBucket, ...]:
    """Return the mini-buckets with equal marginals of the names that they share; their product is the same."""
    if len(parts) == 1:
        return parts
    shared = set.intersection(*(set(part.table.names) for part in parts))
    names = [*sorted(shared - {name}), name]
    marginals = []
    for part in parts:
        over = tuple(i for i, other in enumerate(part.table.names) if other not in shared)
        marginals.append(combine(part.table.logs, over))
    # the weights add up to one, so that the mean is weighted by them
    with np.errstate(invalid="ignore"):
        mean = sum(part.weight * marginal for part, marginal in zip(parts, marginals, strict=True))
    assert isinstance(mean, np.ndarray)
    matched = []
    for part, marginal in zip(parts, marginals, strict=True):
        with np.errstate(invalid="ignore"):
            change = np.where(np.isneginf(mean), -np.inf, mean - marginal)
        logs = part.table.logs + _spread(LogTable(tuple(names), change), part.table.names)
        matched.append(MiniBucket(LogTable(part.table.names, logs), part.weight))
    return tuple(matched)


def _sum_over(logs: Values, over: tuple[int, ...]) -> Values:
    if not over:
        return logs
    top = logs.max(axis=over, keepdims=True)
    top = np.where(np.isfinite(top), top, 0.0)
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(np.exp(logs - top).sum(axis=over)) + np.squeeze(top, over))


def _max_over(logs: Values, over: tuple[int, ...]) -> Values:
    return np.asarray(logs.max(axis=over))
