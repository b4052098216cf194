"""Kernel conditionals at values that come up again in many rows.

Quadrature halves the same cells for every row of a table, so hundreds of rows with hundreds of nodes each may have a thousand
different nodes between them. A table over the different values then takes a fraction of the kernels.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hybridbn.potentials.kernel.mixtures import Mixture, log_conditional, values_at
from hybridbn.variables import Codes, Values

__all__ = ["Distinct", "distinct", "log_table"]

TABLE = 1 << 21
"""Most numbers in a table of different values."""


class Distinct(NamedTuple):
    """The different values that rows ask for, and which of them each row has.

    Attributes
    ----------
    parents : list of ndarray (combinations,)
    mine : ndarray (rows or 1, parents' grid)
    child : ndarray (values,)
    theirs : ndarray (rows or 1, child's nodes)
    """

    parents: list[Values]
    mine: Codes
    child: NDArray[Any]
    theirs: Codes

    @property
    def combinations(self) -> int:
        """How many different combinations of the parents there are."""
        return len(self.parents[0]) if self.parents else 1

    @property
    def blocks(self) -> int:
        """In how many tables the work is done, so that none is too large."""
        if self.combinations * len(self.child) <= TABLE:
            return 1
        return math.ceil(self.combinations * self.theirs.size / TABLE)


def distinct(parents: Sequence[Values], child: NDArray[Any]) -> Distinct:
    """Tell the different values of the parents' grid (rows or 1, grid points) and of the child (rows or 1, nodes).

    Examples
    --------
    >>> found = distinct([np.array([[1.0, 2.0], [2.0, 3.0]])], np.array([[5.0], [5.0]]))
    >>> found.parents, found.mine.tolist(), found.child, found.theirs.tolist()
    ([array([1., 2., 3.])], [[0, 1], [1, 2]], array([5.]), [[0], [0]])
    """
    values, theirs = np.unique(child, return_inverse=True)
    if not parents:
        return Distinct([], np.zeros((1, 1), dtype=np.intp), values, theirs.reshape(child.shape))
    levels, code = np.unique(parents[0], return_inverse=True)
    code = code.reshape(-1)
    if len(parents) == 1:
        return Distinct([levels], code.reshape(parents[0].shape), values, theirs.reshape(child.shape))
    for grid in parents[1:]:
        levels, places = np.unique(grid, return_inverse=True)
        # numbered anew for every parent, so that the numbers stay below those of rows times grid points
        _, first, code = np.unique(code * len(levels) + places.reshape(-1), return_index=True, return_inverse=True)
        code = code.reshape(-1)
    combinations = [grid.reshape(-1)[first] for grid in parents]
    return Distinct(combinations, code.reshape(parents[0].shape), values, theirs.reshape(child.shape))


def log_table(group: Mixture, found: Distinct) -> Values:
    """Return the logarithm of the conditional, (rows or 1, parents' grid, child's nodes)."""
    rows, grid = max(len(found.mine), len(found.theirs)), found.mine.shape[1]
    result = np.empty((rows, grid, found.theirs.shape[1]))
    step = max(1, math.ceil(rows / found.blocks)) if len(found.theirs) > 1 else rows
    for start in range(0, rows, step):
        some = slice(start, start + step)
        mine = found.mine[some] if len(found.mine) > 1 else found.mine
        theirs = found.theirs[some] if len(found.theirs) > 1 else found.theirs
        used, theirs = np.unique(theirs, return_inverse=True)
        child = found.child[used][None]
        table = log_conditional(group, [values[None] for values in found.parents], child, values_at)[0]
        result[some] = table[mine[:, :, None], theirs.reshape(-1, 1, result.shape[2])]
    return result
