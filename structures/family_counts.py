"""Counts of many columns with one configuration: a bincount for each handful of columns, and their margins from it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hybridbn.variables import Codes, Values

__all__ = ["Crossed"]

_CELLS = 4096
"""A table of a group of columns with the configuration has about so many cells at most: it stays in the fastest cache."""


class _Group(NamedTuple):
    """Columns counted together: their joint codes, how many these are, and the states' columns in the result."""

    codes: Codes
    size: int
    margins: Values | None
    part: slice


class Crossed:
    """Columns that are to be counted with one configuration after another.

    Parameters
    ----------
    codes : sequence of integer arrays (rows,), -1 where missing
    sizes : sequence of int
    weights : ndarray (rows,), optional

    Attributes
    ----------
    starts : ndarray (columns,), where the states of each column begin in the tables

    Examples
    --------
    >>> crossed = Crossed([np.array([0, 1, -1]), np.array([2, 0, 0])], (2, 3), None)
    >>> crossed.tables(np.array([0, 0, 1]), 2)
    array([[1., 1., 1., 0., 1.],
           [0., 0., 1., 0., 0.]])
    """

    def __init__(self, codes: Sequence[Codes], sizes: Sequence[int], weights: Values | None) -> None:
        holes = [bool((column < 0).any()) for column in codes]
        self._padded = [size + hole for size, hole in zip(sizes, holes, strict=True)]
        self._codes = [
            np.where(column < 0, size, column) if hole else column
            for column, size, hole in zip(codes, sizes, holes, strict=True)
        ]
        self._weights = weights
        self._levels: dict[int, list[_Group]] = {}
        edges = np.cumsum([0, *self._padded])
        self._edges: list[int] = edges.tolist()
        # a hole is counted as one more state and dropped
        kept = [np.arange(start, start + size) for start, size in zip(self._edges[:-1], sizes, strict=True)]
        self._kept: NDArray[np.intp] | None = np.concatenate(kept) if any(holes) else None
        self.starts = np.cumsum([0, *sizes])[:-1]

    def tables(self, configuration: Codes, size: int, rows: NDArray[np.intp] | None = None) -> Values:
        """Return the weight of each state with each configuration (size, states of all columns).

        Parameters
        ----------
        configuration : ndarray (rows,)
        size : int
            How many configurations there may be.
        rows : ndarray, optional
            Only these rows count; the configuration is given for these alone.
        """
        level = 1
        while 4 * level * size <= _CELLS:
            level *= 4
        weights = self._weights if rows is None or self._weights is None else self._weights[rows]
        result = np.empty((size, self._edges[-1]))
        for group in self._grouped(level):
            codes = configuration * group.size
            codes += group.codes if rows is None else group.codes[rows]
            found = np.bincount(codes, weights, size * group.size).reshape(size, group.size)
            result[:, group.part] = found if group.margins is None else found.astype(float) @ group.margins
        return result if self._kept is None else result[:, self._kept]

    def _grouped(self, level: int) -> list[_Group]:
        """Return the columns in groups of at most so many joint states."""
        if level not in self._levels:
            groups, begin = [], 0
            while begin < len(self._padded):
                end, size = begin + 1, self._padded[begin]
                while end < len(self._padded) and size * self._padded[end] <= level:
                    size *= self._padded[end]
                    end += 1
                groups.append(self._group(begin, end, size))
                begin = end
            self._levels[level] = groups
        return self._levels[level]

    def _group(self, begin: int, end: int, size: int) -> _Group:
        joint, margins, inner = np.zeros_like(self._codes[begin]), [], size
        every = np.arange(size)
        for column in range(begin, end):
            states = self._padded[column]
            joint = joint * states + self._codes[column]
            inner //= states
            margins.append((every // inner % states)[:, None] == np.arange(states))
        single = end == begin + 1
        part = slice(self._edges[begin], self._edges[end])
        return _Group(joint, size, None if single else np.concatenate(margins, axis=1).astype(float), part)
