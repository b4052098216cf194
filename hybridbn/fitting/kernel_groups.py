"""Kernels for each configuration of discrete variables: their bandwidths, and points for those that have none."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, TypeAlias

import numpy as np

from hybridbn.fitting.kernel_bandwidths import effective_size
from hybridbn.variables import Codes, Values

__all__ = ["Kernels", "Points", "Search"]

MOST_BORROWED = 1000
"""Most points that a configuration or state without points of its own borrows."""
MIDDLE = 0.6
"""The middle of the paper's grid, for a single point."""

Search: TypeAlias = Callable[[Values, Values, float], Values]
"""The constants c of each variable, from at least two points, their weights and the n of c / sqrt(n)."""


class Kernels(NamedTuple):
    """Which kernels there are: rows of the points, which may come up several times, and what they stand for."""

    rows: Codes
    groups: Codes
    states: Codes
    weights: Values
    widths: Values
    """(groups, states, variables)"""


@dataclass(frozen=True, eq=False)
class Points:
    """Points in units of the variables' ranges, each in a group (a configuration of discrete parents) and a state.

    Attributes
    ----------
    values : ndarray (points, variables)
    weights : ndarray (points,)
    groups : ndarray (points,)
    states : ndarray (points,)
        All zero if the child is continuous.
    shape : (groups, states)
    search : Search
    per_state : bool
        See `KernelFitter`.
    unseen : float
        See `KernelFitter`.
    """

    values: Values
    weights: Values
    groups: Codes
    states: Codes
    shape: tuple[int, int]
    search: Search
    per_state: bool
    unseen: float

    def kernels(self) -> Kernels:
        """Return a kernel for every point, those that are borrowed, and the bandwidths."""
        order = np.lexsort((self.states, self.groups))
        cells = self.groups * self.shape[1] + self.states
        starts = np.searchsorted(cells[order], np.arange(self.shape[0] * self.shape[1] + 1)).tolist()
        widths = np.empty((*self.shape, self.values.shape[1]))
        kernels = [(np.arange(len(cells)), self.groups, self.states, self.weights)]
        for group in range(self.shape[0]):
            bounds = starts[group * self.shape[1] : (group + 1) * self.shape[1] + 1]
            mine = order[bounds[0] : bounds[-1]]
            if not len(mine):
                mine = self._borrowed(np.arange(len(cells)))
                widths[group] = self._widened(float(len(mine)))
                kernels.append(self._lent(mine, group, self.states[mine], 1.0))
            else:
                size = effective_size(self.weights[mine])
                for state, (start, stop) in enumerate(itertools.pairwise(bounds)):
                    widths[group, state] = self._width(order[start:stop], size)
            if self.unseen:
                seen = np.bincount(self.states[mine], minlength=self.shape[1])
                for state in np.flatnonzero(seen == 0).tolist():
                    lent = self._borrowed(mine)
                    states = np.full(len(lent), state)
                    kernels.append(self._lent(lent, group, states, self.unseen))
        rows, groups, states, weights = (np.concatenate(column) for column in zip(*kernels, strict=True))
        return Kernels(rows, groups, states, weights, widths)

    @cached_property
    def _everything(self) -> tuple[float, Values]:
        """The n of all points, whatever their group and state, and their bandwidths."""
        size = effective_size(self.weights)
        if len(self.values) == 1:
            return size, np.full(self.values.shape[1], MIDDLE)
        return size, self.search(self.values, self.weights, size) / np.sqrt(size)

    def _widened(self, size: float) -> Values:
        """Return the bandwidths of all points, widened for a smaller n."""
        whole, widths = self._everything
        return np.asarray(widths * max(whole / size, 1.0) ** (1 / (4 + len(widths))))

    def _width(self, mine: Codes, group_size: float) -> Values:
        """Return the bandwidths of the points of one state in a group."""
        if not len(mine):
            return self._widened(group_size)
        weights = self.weights[mine]
        size = effective_size(weights) if self.per_state else group_size
        if len(mine) == 1:
            return self._widened(size)
        return np.asarray(self.search(self.values[mine], weights, size) / np.sqrt(size))

    def _borrowed(self, rows: Codes) -> Codes:
        """Return rows to lend, evenly in the order of the first variable if they are many."""
        if len(rows) <= MOST_BORROWED:
            return rows
        order = rows[np.argsort(self.values[rows, 0], kind="stable")]
        return order[np.linspace(0, len(rows) - 1, MOST_BORROWED).round().astype(np.intp)]

    def _lent(self, rows: Codes, group: int, states: Codes, count: float) -> tuple[Codes, Codes, Codes, Values]:
        """Return kernels that together weigh as much as some rows of average weight."""
        weights = self.weights[rows]
        weights = weights * (count * self.weights.mean() / weights.sum())
        return rows, np.full(len(rows), group), states, weights
