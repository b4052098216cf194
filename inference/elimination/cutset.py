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
from scipy.sparse import csr_matrix

from hybridbn.inference.elimination.ordering import (
    EliminationOrder,
    make_junction_tree,
    search_order,
)

__all__ = ["CUT_EFFORT", "Cut", "choose_cut"]

CUT_EFFORT = 2e9
"""Searches for better orders while variables are cut stop at this effort, as `search_order` counts it, if not
earlier."""
_TRIALS_PER_CUT = 2
"""Searches for a better order after a variable is cut."""
_FEW_CUTS = 8
"""After more cuts, the order is searched for again only after each so many."""
_TRIALS_AT_LAST = 20
"""Searches for a better order after all cuts."""
_TIE = 1e-12
"""Rates that differ by less are the same."""


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
    most_total: float = math.inf,
    most_slices: float = math.inf,
    effort: float = CUT_EFFORT,
) -> Cut | None:
    """Return the variables to cut until no table has more than `most_cells`; None where those allowed don't suffice, or
    where that certainly takes more than `most_slices`.

    Parameters
    ----------
    keep : variables that are eliminated last, and are not part of the order
    most_total : more variables are cut, as long as there are some, until all tables together have at most so many cells
    effort : of the search for better orders; without any the order of the others stays as it is, which is fast and good
        enough for a prediction

    Examples
    --------
    >>> from hybridbn.inference.elimination.ordering import find_order
    >>> scopes, sizes = [("a", "b"), ("b", "c"), ("c", "d"), ("d", "a")], dict.fromkeys("abcd", 10)
    >>> cut = choose_cut(scopes, sizes, set("abcd"), 100, find_order(scopes, sizes, ()))
    >>> len(cut.names), cut.slices, cut.order.largest
    (1, 10.0, 100.0)
    """
    cut: list[str] = []
    slices, left = 1.0, effort / 2
    while order.largest > most_cells or order.total > most_total:
        # a variable divides the largest table by no more than the number of its states
        if slices * (order.largest / most_cells) > most_slices:
            return None
        trial = _count_trial(order)
        many = len(cut) >= _FEW_CUTS or left < trial
        names = _Cliques(scopes, sizes, order).choose_names(allowed, most_cells, most_total, _FEW_CUTS if many else 1)
        if not names:
            if order.largest > most_cells:
                return None
            break
        cut += names
        slices *= math.prod(float(sizes[name]) for name in names)
        scopes = list({tuple(other for other in scope if other not in names): None for scope in scopes})
        keep = [other for other in keep if other not in names]
        order = _measure(scopes, sizes, [other for other in order.names if other not in names], keep)
        if left >= trial:
            order = search_order(scopes, sizes, keep, order, _TRIALS_PER_CUT)
            left -= _TRIALS_PER_CUT * trial
    if cut and effort:
        better = search_order(scopes, sizes, keep, order, _TRIALS_AT_LAST, effort / 2)
        order = better if better.largest <= most_cells else order
    return Cut(tuple(cut), slices, order)


def _count_trial(order: EliminationOrder) -> float:
    """Return about the effort of one search for a better order."""
    return len(order.names) * float(len(order.clique)) ** 3


class _Cliques:
    """The tables of an elimination, which get smaller when variables are cut, in the same order."""

    def __init__(self, scopes: Sequence[tuple[str, ...]], sizes: Mapping[str, int], order: EliminationOrder) -> None:
        cliques = make_junction_tree(scopes, [*order.names, *_list_kept(scopes, order)], ())
        self._names = sorted({name for clique in cliques for name in clique.names})
        position = {name: i for i, name in enumerate(self._names)}
        members = [[position[name] for name in clique.names] for clique in cliques]
        columns = np.array([i for clique in members for i in clique], dtype=np.intp)
        starts = np.cumsum([0, *map(len, members)])
        self._holds = csr_matrix((np.ones(len(columns)), columns, starts), (len(members), len(self._names)))
        self._logs = np.log([max(sizes[name], 1) for name in self._names])

    def choose_names(self, allowed: Collection[str], most_cells: float, most_total: float, count: int) -> list[str]:
        """Return variables to cut, one after the other the one of the largest table that costs least for each bit that
        it takes from the tables.
        """
        usable = np.array([name in allowed for name in self._names], dtype=bool) & (self._logs > 0)
        left, chosen = self._logs.copy(), list[str]()
        while len(chosen) < count:
            logs = self._holds @ left
            cells = np.exp(np.minimum(logs, 700.0))
            largest = int(logs.argmax())
            if cells[largest] <= most_cells and cells.sum() <= most_total:
                break
            start, stop = self._holds.indptr[largest : largest + 2]
            members = self._holds.indices[start:stop]
            candidates = members[usable[members]]
            if not len(candidates):
                break
            shares = np.exp(logs - logs[largest])
            held = (self._holds[:, candidates].T @ shares) / shares.sum()
            growth = np.exp(left[candidates])
            rates = np.log(growth - (growth - 1) * held) / left[candidates]
            # the first of the best ones by name
            best = candidates[rates <= rates.min() + _TIE].min()
            chosen.append(self._names[best])
            usable[best], left[best] = False, 0.0
        return chosen


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
