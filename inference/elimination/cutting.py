"""Which variables to cut, so that the tables of what is left fit: one elimination for each combination of their states.

A cut variable is observed, and leaves all tables. Eliminations that don't mention it are done again for each of its
states, so the variables are chosen one after the other by how little that costs for what they take from the largest
table.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from hybridbn.inference.elimination.ordering import (
    SEARCH_EFFORT,
    EliminationOrder,
    make_junction_tree,
    search_order,
)

__all__ = ["Cut", "choose_cut"]

_TRIALS_PER_CUT = 2
"""Searches for a better order after a variable is cut."""
_FEW_CUTS = 8
"""After more cuts, the order is searched for again only after each so many."""
_BITS_AT_ONCE = 32
"""One more variable is cut at a time for each so many bits by which the largest table is too large."""
_BITS_AT_ONCE_IN_PREDICTIONS = 1
"""The same where only the cost is to be predicted, which must not take long itself."""
_TRIALS_AT_LAST = 20
"""Searches for a better order after all cuts."""
_EFFORT = 2e8
"""So many variables are cut at a time that all rounds together look at about so many pairs of neighbors."""


class Cut(NamedTuple):
    """Some variables to cut, the number of combinations of their states, and the elimination order of the others."""

    names: tuple[str, ...]
    slices: float
    order: EliminationOrder

    @property
    def total(self) -> float:
        """The cells of all tables of all slices."""
        return self.slices * self.order.total


def choose_cut(
    scopes: Sequence[tuple[str, ...]],
    sizes: Mapping[str, int],
    allowed: Collection[str],
    most_cells: float,
    order: EliminationOrder,
    keep: Sequence[str] = (),
    *,
    search: bool = True,
    most_slices: float = math.inf,
) -> Cut | None:
    """Return the variables to cut until no table has more than `most_cells`; None where those allowed don't suffice, or
    where that certainly takes more than `most_slices`.

    Variables to keep are eliminated last, and are not part of the order. Without `search` the order of the others stays
    as it is, which is fast and good enough for a prediction.

    Examples
    --------
    >>> from hybridbn.inference.elimination.ordering import find_order
    >>> scopes, sizes = [("a", "b"), ("b", "c"), ("c", "d"), ("d", "a")], dict.fromkeys("abcd", 10)
    >>> cut = choose_cut(scopes, sizes, set("abcd"), 100, find_order(scopes, sizes, ()))
    >>> len(cut.names), cut.slices, cut.order.largest
    (1, 10.0, 100.0)
    """
    cut: list[str] = []
    slices = 1.0
    while order.largest > most_cells:
        # a variable divides the largest table by no more than the number of its states
        if slices * (order.largest / most_cells) > most_slices:
            return None
        excess = math.log2(min(order.largest, 1e300) / most_cells)
        bits = float(_BITS_AT_ONCE_IN_PREDICTIONS)
        if search:
            rounds = _EFFORT / (len(order.names) * len(order.clique) ** 2 + 1)
            bits = min(max(rounds / (1 + math.log(1 + excess)), bits), _BITS_AT_ONCE)
        names = _choose_names(scopes, sizes, allowed, order, max(1, int(excess / bits)))
        if not names:
            return None
        cut += names
        slices *= math.prod(float(sizes[name]) for name in names)
        scopes = list({tuple(other for other in scope if other not in names): None for scope in scopes})
        keep = [other for other in keep if other not in names]
        order = _measure(scopes, sizes, [other for other in order.names if other not in names], keep)
        fast = 10 * len(order.names) * len(order.clique) ** 3 < SEARCH_EFFORT
        if search and fast and (len(cut) < _FEW_CUTS or len(cut) % _FEW_CUTS == 0):
            order = search_order(scopes, sizes, keep, order, _TRIALS_PER_CUT)
    if cut and search:
        better = search_order(scopes, sizes, keep, order, _TRIALS_AT_LAST)
        order = better if better.largest <= most_cells else order
    return Cut(tuple(cut), slices, order)


def _choose_names(
    scopes: Sequence[tuple[str, ...]],
    sizes: Mapping[str, int],
    allowed: Collection[str],
    order: EliminationOrder,
    count: int,
) -> list[str]:
    """Return the variables of the largest table that cost least for each bit that they take from the table."""
    cliques = [clique.names for clique in make_junction_tree(scopes, [*order.names, *_list_kept(scopes, order)], ())]
    log_sizes = dict(zip(sizes, map(math.log, sizes.values()), strict=True))
    logs = np.array([sum(map(log_sizes.__getitem__, clique)) for clique in cliques])
    cells = np.exp(logs - logs.max())
    candidates = [name for name in order.clique if name in allowed and sizes[name] > 1]
    if len(candidates) <= count:
        return candidates
    total = cells.sum()
    smaller = dict.fromkeys(candidates, 0.0)
    for clique, part in zip(cliques, cells, strict=True):
        for name in clique:
            if name in smaller:
                smaller[name] += float(part)

    def rate(name: str) -> tuple[float, str]:
        states = sizes[name]
        return math.log((total * states - (states - 1) * smaller[name]) / total) / math.log(states), name

    return sorted(candidates, key=rate)[:count]


def _list_kept(scopes: Sequence[tuple[str, ...]], order: EliminationOrder) -> list[str]:
    return sorted(set().union(*scopes).difference(order.names))


def _measure(
    scopes: Sequence[tuple[str, ...]], sizes: Mapping[str, int], names: Sequence[str], keep: Sequence[str]
) -> EliminationOrder:
    """Return an order with its cost."""
    around: dict[str, set[str]] = {}
    for scope in scopes:
        for name in scope:
            around.setdefault(name, set()).update(scope)
    total = largest = 0.0
    widest: tuple[str, ...] = ()
    cells_of = dict(zip(sizes, map(float, sizes.values()), strict=True))
    for name in names:
        members = around.pop(name, {name})
        for other in members - {name}:
            around[other] = (around[other] | members) - {name}
        cells = math.prod(map(cells_of.__getitem__, members))
        total += cells
        if cells > largest:
            largest, widest = cells, tuple(sorted(members))
    last = math.prod(float(sizes[name]) for name in keep)
    if last > largest:
        largest, widest = last, tuple(keep)
    return EliminationOrder(tuple(names), total + last, largest, widest)
