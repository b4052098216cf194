"""Products of two tables, summed over the names that they share, as one multiplication of matrices.

`numpy.einsum` walks over large tables element by element; a product in which shared names are summed out is a product
of matrices, which BLAS does many times faster, with rows of evidence or without.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from hybridbn.variables import Values

__all__ = ["ENOUGH", "MatrixProduct", "matrix_product"]

ENOUGH = 4096
"""Cells of both tables together from which on it pays."""


class MatrixProduct(NamedTuple):
    """How to lay out two tables as matrices, or as stacks of matrices if some shared names stay.

    Attributes
    ----------
    left : which of the two inputs is the left one (the other one may have rows, as its last dimension)
    turned : order of the left table's dimensions, if they have to be turned
    first : whether the names summed out are the left table's first dimensions, not its last ones
    stacked : how many shared names stay
    summed : how many shared names are summed out
    right : order of the right table's dimensions
    out : order of the result's dimensions
    """

    left: int
    turned: tuple[int, ...] | None
    first: bool
    stacked: int
    summed: int
    right: tuple[int, ...]
    out: tuple[int, ...]

    def lay_out(self, table: Values) -> Values:
        """Return the left table with its numbers in memory as `matrix` wants them, so that this is a view of it."""
        if self.turned is None:
            return table
        turned = np.ascontiguousarray(table.transpose(self.turned))
        return turned.transpose(sorted(range(table.ndim), key=self.turned.__getitem__))

    def matrix(self, table: Values) -> Values:
        """Return the left table as matrices (..., others, summed); a view if it need not be turned."""
        if self.turned is not None:
            table = np.ascontiguousarray(table.transpose(self.turned))
        if self.first:
            return table.reshape(math.prod(table.shape[: self.summed]), -1).T
        stack, summed = table.shape[: self.stacked], math.prod(table.shape[table.ndim - self.summed :])
        return table.reshape((math.prod(stack), -1, summed) if stack else (-1, summed))

    def multiplied(self, matrix: Values, others: tuple[int, ...], right: Values) -> Values:
        """Multiply; `others` are the sizes of the left table's names that are not shared."""
        table = right.transpose((*self.right, *range(len(self.right), right.ndim)))
        stack, more = table.shape[: self.stacked], table.shape[self.stacked + self.summed :]
        shape = (math.prod(stack), matrix.shape[-1], -1) if stack else (matrix.shape[-1], -1)
        found = (matrix @ table.reshape(shape)).reshape((*stack, *others, *more))
        return found.transpose((*self.out, *range(len(self.out), found.ndim)))

    def others(self, table: Values) -> tuple[int, ...]:
        """Return the sizes of the left table's names that are not shared, in order."""
        shape = table.shape if self.turned is None else tuple(table.shape[i] for i in self.turned)
        return shape[self.summed :] if self.first else shape[self.stacked : table.ndim - self.summed]


def matrix_product(
    inputs: Sequence[Sequence[str]], rows: Sequence[bool], out: Sequence[str], cells: Sequence[float]
) -> MatrixProduct | None:
    """Return how to multiply two tables over these names as matrices; None where that is no product of matrices.

    Parameters
    ----------
    inputs : the names of both
    rows : whether they have rows; at the most one may if the result is to be right for more than one row
    out : the names of the result
    cells : the sizes of both

    Examples
    --------
    >>> product = matrix_product([("a", "b"), ("b",)], [False, True], ("a",), [6000, 60])
    >>> left, right = np.ones((100, 60)), np.ones((60, 3))
    >>> product.multiplied(product.matrix(left), product.others(left), right).shape
    (100, 3)
    """
    if sum(cells) < ENOUGH:
        return None
    left = (0 if rows[1] else 1) if rows[0] != rows[1] else int(cells[1] > cells[0])
    mine, theirs = inputs[left], inputs[1 - left]
    stack = [name for name in mine if name in theirs and name in out]
    common = [name for name in mine if name in theirs and name not in out]
    alone, other = [n for n in mine if n not in theirs], [n for n in theirs if n not in mine]
    if not common or {*stack, *alone, *other} != set(out):
        return None
    first = not stack and list(mine[: len(common)]) == common and bool(alone)
    wanted = [*common, *alone] if first else [*stack, *alone, *common]
    found = [*stack, *alone, *other]
    return MatrixProduct(
        left,
        None if list(mine) == wanted else tuple(mine.index(name) for name in wanted),
        first,
        len(stack),
        len(common),
        tuple(theirs.index(name) for name in (*stack, *common, *other)),
        tuple(found.index(name) for name in out),
    )
