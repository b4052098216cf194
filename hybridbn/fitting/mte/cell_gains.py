"""By how much parents raise the likelihood of a child, from the cells of an MTE alone, without fitting its densities.

A conditional MTE divides the ranges of the parents into cells by a tree (`grow_cells`), whose splits are judged by
cheap models of the child. What these splits gain together is what the parents tell about the child. It takes a small
part of the time of a fit, so that searches for structures compare thousands of families by it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeGuard, TypeVar

import numpy as np
from numpy.typing import NDArray

from hybridbn.fitting.base import Fitter, learns_as
from hybridbn.fitting.column_groups import find_observed
from hybridbn.fitting.counting import encode_configurations
from hybridbn.fitting.mte.fitter import MTEFitter
from hybridbn.fitting.mte.univariate import normal_scores
from hybridbn.fitting.trees.likelihood_splits import (
    SplitModels,
    bin_scores,
    choose_cuts,
    make_binned_models,
    make_class_models,
    measure_cell_gains,
)
from hybridbn.tables import Table
from hybridbn.variables import Codes, Discrete, Values, Variable

__all__ = ["CellGain", "CellGains", "cells_suffice"]

K = TypeVar("K")
V = TypeVar("V")


class CellGain(NamedTuple):
    """What the parents of a child are worth.

    Attributes
    ----------
    likelihood : float
        By how much they raise the log-likelihood of the rows in which all of them are observed.
    parameters : float
        The number of parameters that this takes.
    weight : float
        Of these rows.
    """

    likelihood: float
    parameters: float
    weight: float


class _Child(NamedTuple):
    """The state or bin of a child in each row, how many there are, and what the rows of a bin add to sums."""

    codes: Codes
    size: int
    means: Values | None

    def make_models(self, codes: Codes) -> SplitModels:
        return make_class_models(codes, self.size) if self.means is None else make_binned_models(codes, self.means)


class _Parent(NamedTuple):
    """The state or cell of a parent in each row, -1 where missing, and how many there are."""

    codes: Codes
    size: int
    ordered: bool


class CellGains:
    """Measures gains in one table, and keeps the cells of its columns.

    The cells of a number are those of all rows in which it is observed, also in families that lack some of them.

    Examples
    --------
    >>> import hybridbn as hb
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=500)
    >>> table = hb.Table({"x": x, "y": x + 0.5 * rng.normal(size=500), "z": rng.normal(size=500)})
    >>> x, y, z = table.variables
    >>> gains = CellGains(table)
    >>> gains.measure(MTEFitter(), y, (x,)).likelihood > 200
    True
    >>> gains.measure(MTEFitter(), y, (z,))
    CellGain(likelihood=0.0, parameters=0.0, weight=500.0)
    """

    def __init__(self, table: Table) -> None:
        self.table = table
        self._weights = table.weights
        self._parents: dict[tuple[str, int], _Parent] = {}
        self._children: dict[str, _Child | None] = {}
        self._observed: dict[str, NDArray[np.bool_] | None] = {}

    def measure(
        self, fitter: MTEFitter, child: Variable, parents: Sequence[Variable], among: Sequence[Variable] = ()
    ) -> CellGain:
        """Return what the parents are worth to a child whose density such a fitter would learn.

        Only rows count in which child, parents and the variables in `among` are observed.
        """
        rows = self._find_rows((child, *parents, *among))
        weights = _take(self._weights, rows)
        total = float(weights.sum())
        columns = [self._read_parent(parent, fitter.max_cells) for parent in parents]
        own = self._read_child(child)
        if not parents or own is None or total < 2 * fitter.min_weight:
            return CellGain(0.0, 0.0, total)
        codes, weights = count_distinct(
            [_take(own.codes, rows), *(_take(column.codes, rows) for column in columns)],
            [own.size, *(column.size for column in columns)],
            weights,
        )
        likelihood, parameters = measure_cell_gains(
            codes[1:],
            [column.size for column in columns],
            [column.ordered for column in columns],
            own.make_models(codes[0]),
            weights,
            fitter.min_weight,
        )
        return CellGain(likelihood, parameters, total)

    def _find_observed(self, variable: Variable) -> NDArray[np.bool_] | None:
        """Return the rows in which a column is observed, None if these are all."""

        def find() -> NDArray[np.bool_] | None:
            observed = find_observed(self.table.coded(variable))
            return None if observed.all() else observed

        return _remember(self._observed, variable.name, find)

    def _find_rows(self, variables: Sequence[Variable]) -> Codes | None:
        """Return the rows in which some columns are observed and that count, None if these are all."""
        masks = [mask for mask in map(self._find_observed, variables) if mask is not None]
        if self.table.weighted:
            masks.append(self._weights > 0)
        return np.flatnonzero(np.logical_and.reduce(masks)) if masks else None

    def _read_parent(self, variable: Variable, most: int) -> _Parent:
        def read() -> _Parent:
            cells = self.table.coded(variable)
            if isinstance(variable, Discrete):
                return _Parent(cells, len(variable), False)
            rows = self._find_rows((variable,))
            cuts = choose_cuts(cells if rows is None else cells[rows], _take(self._weights, rows), most)
            return _Parent(np.searchsorted(cuts, cells, side="right"), len(cuts) + 1, True)

        return _remember(self._parents, (variable.name, most), read)

    def _read_child(self, variable: Variable) -> _Child | None:
        """Return a child, None if it does not vary."""

        def read() -> _Child | None:
            cells, rows = self.table.coded(variable), self._find_rows((variable,))
            if isinstance(variable, Discrete):
                return _Child(cells, len(variable), None)
            weights = _take(self._weights, rows)
            distinct, place = np.unique(_take(cells, rows), return_inverse=True)
            if len(distinct) < 2:
                return None
            bins, means = bin_scores(normal_scores(np.asarray(np.bincount(place, weights), float))[place], weights)
            codes = np.full(len(cells), -1)
            codes[slice(None) if rows is None else rows] = bins
            return _Child(codes, len(means), means)

        return _remember(self._children, variable.name, read)


def count_distinct(columns: Sequence[Codes], sizes: Sequence[int], weights: Values) -> tuple[list[Codes], Values]:
    """Return the distinct rows of some columns and their weights, or the rows themselves where that is not less work.

    Examples
    --------
    >>> count_distinct([np.array([1, 0, 1, 1]), np.array([0, 0, 0, 1])], [2, 2], np.ones(4))
    ([array([0, 1, 1]), array([0, 0, 1])], array([1., 2., 1.]))
    """
    size = math.prod(sizes)
    if size > len(weights):
        return list(columns), weights
    table = np.asarray(np.bincount(encode_configurations(columns, sizes, len(weights)), weights, size), float)
    occurring = np.flatnonzero(table)
    return list(np.unravel_index(occurring, tuple(sizes))), table[occurring]


def _take(values: NDArray[Any], rows: Codes | None) -> NDArray[Any]:
    return values if rows is None else values[rows]


def _remember(cache: dict[K, V], key: K, read: Callable[[], V]) -> V:
    if key not in cache:
        cache[key] = read()
    return cache[key]


def cells_suffice(fitter: Fitter) -> TypeGuard[MTEFitter]:
    """Tell whether a fitter divides the parents into cells as MTEs do; a subclass may do otherwise.

    Examples
    --------
    >>> cells_suffice(MTEFitter())
    True
    """
    return learns_as(fitter, MTEFitter)
