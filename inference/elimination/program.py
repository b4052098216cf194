"""Sum-product elimination over named axes, the rows of evidence being one more axis that is never eliminated.

A `Program` holds the steps that multiply factors and sum variables out; `hybridbn.inference.elimination.compilers`
makes it from the scopes of the factors. It runs in linear arithmetic, or in logarithms for rows whose numbers span more
than a double can hold.

`numpy.einsum` walks over large tables element by element. A product of two of them in which shared names are summed out
is a product of matrices, which BLAS does many times faster, with rows of evidence or without.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from threading import Lock
from typing import NamedTuple, TypeVar

import numpy as np

from hybridbn.inference.elimination.ordering import EliminationOrder
from hybridbn.potentials.base import sum_logs
from hybridbn.variables import Values

ROWS = "Z"
"""The subscript of the rows in einsum."""
LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXY"
"""The subscripts of names in einsum."""
SUSPICIOUS = 1e-200
"""A smaller total may have lost terms to underflow in an intermediate product, or along nodes."""
_STEP_BYTES = 2000
"""The approximate memory of a compiled step without tables."""


Slot = TypeVar("Slot")
"""A table, or several of them."""


class Factor(NamedTuple):
    """The shape of a factor: its names, whether it has rows, whether it is independent of the evidence (static)."""

    names: tuple[str, ...]
    rows: bool = False
    static: bool = False


class ProgramStep(NamedTuple):
    """A product or quotient of tables, summed over the names that the result lacks."""

    inputs: tuple[int, ...]
    output: int
    subscripts: str
    divide: bool
    blas: bool
    product: MatrixProduct | None
    done_with: tuple[int, ...]


@dataclass
class Program:
    """Compiled steps from factors to the tables over some scopes.

    Attributes
    ----------
    order : Order
        The elimination order and its cost in cells.
    outputs : list of int
        The slot of the table over each scope.
    """

    factors: tuple[Factor, ...]
    scopes: tuple[tuple[str, ...], ...]
    order: EliminationOrder
    steps: list[ProgramStep] = field(default_factory=list)
    outputs: list[int] = field(default_factory=list)
    names: list[tuple[str, ...]] = field(default_factory=list)
    rows: list[bool] = field(default_factory=list)
    static: list[bool] = field(default_factory=list)
    """By slot: whether the table does not depend on the evidence."""
    read: set[int] = field(default_factory=set)
    """The slots that runs with evidence read, or return."""
    evidence_free: dict[int, Values] = field(default_factory=dict)
    on_growth: Callable[[], None] | None = None
    """Called after a run that stored tables for later runs."""
    static_scale: float = 0.0
    """The log scale of the factors that do not depend on the evidence; known after the first run."""
    lock: Lock = field(default_factory=Lock, repr=False)
    """Held during the first run, which computes what does not depend on the evidence."""
    warm: bool = False
    """Whether there was a run already: later ones need no static factors."""
    _moving: Sequence[ProgramStep] = ()
    """The steps that later runs do."""
    _matrices: dict[int, Values] = field(default_factory=dict)
    """By the step's output: a table that needs no evidence, as matrices in the same memory."""
    _has_grown: bool = False

    def run(self, arrays: Mapping[int, Values]) -> list[Values]:
        """Return the table over each scope, in linear arithmetic.

        `arrays` maps the factor's number to its values; after the first run only factors that are not static are read.
        """
        if not self.warm:
            self._fold(arrays)
        slots = self.execute(self._moving, chain(arrays.items(), self.evidence_free.items()), self.apply)
        if self._has_grown:
            self._has_grown = False
            if self.on_growth is not None:
                self.on_growth()
        return [slots[output] for output in self.outputs]  # type: ignore[misc]

    def run_log(self, arrays: Mapping[int, Values], combine: str = "sum") -> list[Values]:
        """Return the logarithm of the table over each scope, from logarithms; `combine` may be "max" too."""
        slots = self.execute(self.steps, arrays.items(), partial(_apply_in_logs, combine=combine))
        return [slots[output] for output in self.outputs]  # type: ignore[misc]

    def execute(
        self,
        steps: Iterable[ProgramStep],
        tables: Iterable[tuple[int, Slot]],
        apply: Callable[[ProgramStep, Sequence[Slot | None]], Slot],
    ) -> list[Slot | None]:
        """Return what is in each slot after some steps; what is no longer read is released."""
        slots: list[Slot | None] = [None] * len(self.names)
        for slot, table in tables:
            slots[slot] = table
        for step in steps:
            slots[step.output] = apply(step, slots)
            for slot in step.done_with:
                slots[slot] = None
        return slots

    def count_cells_at_once(self, cells: Sequence[float]) -> float:
        """Return the most cells that are held at a time, by those of the table in each slot."""
        held = most = sum(cells[: len(self.factors)])
        for step in self.steps:
            held += cells[step.output]
            most = max(most, held)
            held -= sum(cells[slot] for slot in step.done_with)
        return most

    def estimate_bytes(self) -> int:
        """Return about how many bytes the steps and the stored tables take."""
        buffers = {}
        for table in (*self.evidence_free.values(), *self._matrices.values()):
            while isinstance(table.base, np.ndarray):
                table = table.base
            # read-only tables belong to potentials, not to the program
            buffers[id(table)] = table.nbytes if table.flags.writeable else 0
        return sum(buffers.values()) + _STEP_BYTES * (len(self.steps) + len(self.factors))

    def _fold(self, arrays: Mapping[int, Values]) -> None:
        """Compute and store what does not depend on the evidence."""
        steps = [
            step._replace(done_with=tuple([slot for slot in step.done_with if slot not in self.read]))
            for step in self.steps
            if self.static[step.output]
        ]
        known = [(slot, array) for slot, array in arrays.items() if self.static[slot]]
        self.keep_evidence_free(self.execute(steps, known, self.apply))
        self._has_grown = True

    def keep_evidence_free(self, tables: Sequence[Values | None]) -> None:
        """Store what does not depend on the evidence, and was computed already, for later runs."""
        static = self.static
        kept = {slot: tables[slot] for slot in self.read if static[slot]}
        self.evidence_free = {slot: table for slot, table in kept.items() if table is not None}
        self._moving = [step for step in self.steps if not static[step.output]]
        self.warm = True

    def apply(self, step: ProgramStep, slots: Sequence[Values | None]) -> Values:
        """Return the result of a step."""
        if step.divide:
            return divide_tables(step.subscripts, [slots[slot] for slot in step.inputs])
        if step.product is not None:
            multiply = self._multiply(step, step.product, slots)
            if multiply is not None:
                return multiply
        operands = [slots[slot] for slot in step.inputs]
        return np.asarray(np.einsum(step.subscripts, *operands, optimize=step.blas))  # type: ignore[arg-type]

    def _multiply(self, step: ProgramStep, product: MatrixProduct, slots: Sequence[Values | None]) -> Values | None:
        """Return a product of matrices; None where that is not possible or not faster."""
        slot = step.inputs[product.left]
        left, right = slots[slot], slots[step.inputs[1 - product.left]]
        assert left is not None
        assert right is not None
        if self.rows[slot]:
            if left.shape[-1] != 1 or right.shape[-1] != 1:
                return None
            left = left[..., 0]
        matrix = self._matrices.get(step.output)
        if matrix is None:
            evidence_free = slot in self.evidence_free
            with_rows = any(self.rows[i] for i in step.inputs)
            if product.turned is not None and not evidence_free and self.warm and with_rows:
                return None
            if evidence_free:
                # the table is stored only once, in the memory order that the product needs
                left = self.evidence_free[slot] = product.lay_out(left)
            matrix = product.matrix(left)
            if evidence_free:
                self._matrices[step.output] = matrix
                self._has_grown = True
        return product.multiply(matrix, product.others(left), right)


def write_subscripts(names: Sequence[Sequence[str]], rows: Sequence[bool], out: Sequence[str], with_rows: bool) -> str:
    """Return the subscripts of einsum for a product of tables over names, some of which have rows.

    Examples
    --------
    >>> write_subscripts([("x", "y"), ("y",)], [False, True], ("x",), True)
    'ab,bZ->aZ'
    """
    letter = dict(zip(dict.fromkeys(chain.from_iterable(names)), LETTERS, strict=False)).__getitem__
    parts = ["".join(map(letter, scope)) for scope in names]
    if with_rows:
        parts = [part + ROWS * has for part, has in zip(parts, rows, strict=True)]
    return f"{','.join(parts)}->{''.join(map(letter, out))}{ROWS * with_rows}"


def align(array: Values, names: Sequence[str], scope: Sequence[str]) -> Values:
    """Return an array over some names of a scope, and maybe rows, so that it broadcasts against the whole scope.

    Examples
    --------
    >>> align(np.zeros((2, 3, 5)), ["c", "a"], ["a", "b", "c"]).shape
    (3, 1, 2, 5)
    """
    count = len(names)
    order = sorted(range(count), key=lambda i: scope.index(names[i]))
    turned = np.transpose(array, [*order, *range(count, array.ndim)])
    sizes = iter(turned.shape)
    return turned.reshape([*(next(sizes) if name in names else 1 for name in scope), *turned.shape[count:]])


def divide_tables(subscripts: str, arrays: Sequence[Values | None]) -> Values:
    """Return the quotient of two tables; zero where the second one is zero."""
    top, bottom = _align(subscripts, arrays)[0]
    return np.divide(top, bottom, out=np.zeros(np.broadcast_shapes(top.shape, bottom.shape)), where=bottom > 0)


def _align(subscripts: str, arrays: Sequence[Values | None]) -> tuple[list[Values], int]:
    """Return tables reshaped to broadcast, the dimensions of the result first, and the number of these."""
    parts, out = subscripts.split("->")
    letters = [*dict.fromkeys(out + parts.replace(",", ""))]
    operands = []
    for part, array in zip(parts.split(","), arrays, strict=True):
        assert array is not None
        operands.append(align(array, part, letters))
    return operands, len(out)


def _apply_in_logs(step: ProgramStep, slots: Sequence[Values | None], combine: str) -> Values:
    operands, kept = _align(step.subscripts, [slots[slot] for slot in step.inputs])
    if step.divide:
        top, bottom = operands
        with np.errstate(invalid="ignore"):
            return np.where(np.isneginf(bottom), -np.inf, top - bottom)
    total = operands[0]
    for operand in operands[1:]:
        total = total + operand
    over = tuple(range(kept, total.ndim))
    if combine == "max":
        return np.asarray(np.max(total, axis=over))
    # tables may be large, so a sum is overwritten; an input must not be
    return sum_logs(total, over, out=total if len(operands) > 1 else None)


ENOUGH = 4096
"""Two tables with fewer cells together are multiplied by einsum, whose overhead is smaller."""


class MatrixProduct(NamedTuple):
    """How to lay out two tables as matrices, or as stacks of matrices if some shared names stay.

    Attributes
    ----------
    left : which of the two inputs is the left one (the other one may have rows, as its last dimension)
    turned : order of the left table's dimensions, if they must be transposed
    first : whether the names summed out are the left table's first dimensions, not its last ones
    stacked : number of shared names that stay
    summed : number of shared names that are summed out
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
        """Return the left table in the memory order that makes `matrix` a view of it."""
        if self.turned is None:
            return table
        turned = np.ascontiguousarray(table.transpose(self.turned))
        return turned.transpose(sorted(range(table.ndim), key=self.turned.__getitem__))

    def matrix(self, table: Values) -> Values:
        """Return the left table as matrices (..., others, summed); a view if it need not be transposed."""
        if self.turned is not None:
            table = np.ascontiguousarray(table.transpose(self.turned))
        if self.first:
            return table.reshape(math.prod(table.shape[: self.summed]), -1).T
        stack, summed = table.shape[: self.stacked], math.prod(table.shape[table.ndim - self.summed :])
        return table.reshape((math.prod(stack), -1, summed) if stack else (-1, summed))

    def multiply(self, matrix: Values, others: tuple[int, ...], right: Values) -> Values:
        """Return the product; `others` are the sizes of the left table's names that are not shared."""
        table = right.transpose((*self.right, *range(len(self.right), right.ndim)))
        stack, more = table.shape[: self.stacked], table.shape[self.stacked + self.summed :]
        shape = (math.prod(stack), matrix.shape[-1], -1) if stack else (matrix.shape[-1], -1)
        product = (matrix @ table.reshape(shape)).reshape((*stack, *others, *more))
        return product.transpose((*self.out, *range(len(self.out), product.ndim)))

    def others(self, table: Values) -> tuple[int, ...]:
        """Return the sizes of the left table's names that are not shared, in order."""
        shape = table.shape if self.turned is None else tuple(table.shape[i] for i in self.turned)
        return shape[self.summed :] if self.first else shape[self.stacked : table.ndim - self.summed]


def plan_matrix_product(
    inputs: Sequence[Sequence[str]], rows: Sequence[bool], out: Sequence[str], cells: Sequence[float]
) -> MatrixProduct | None:
    """Return how to multiply two tables as matrices; None where their product is not one of matrices.

    At most one of the two may have rows if there is more than one row.

    Examples
    --------
    >>> product = plan_matrix_product([("a", "b"), ("b",)], [False, True], ("a",), [6000, 60])
    >>> left, right = np.ones((100, 60)), np.ones((60, 3))
    >>> product.multiply(product.matrix(left), product.others(left), right).shape
    (100, 3)
    """
    left = (0 if rows[1] else 1) if rows[0] != rows[1] else int(cells[1] > cells[0])
    mine, theirs = inputs[left], inputs[1 - left]
    stack = [name for name in mine if name in theirs and name in out]
    common = [name for name in mine if name in theirs and name not in out]
    alone, other = [n for n in mine if n not in theirs], [n for n in theirs if n not in mine]
    if not common or {*stack, *alone, *other} != set(out):
        return None
    first = not stack and list(mine[: len(common)]) == common and bool(alone)
    matrix_names = [*common, *alone] if first else [*stack, *alone, *common]
    product_names = [*stack, *alone, *other]
    return MatrixProduct(
        left,
        None if list(mine) == matrix_names else tuple(mine.index(name) for name in matrix_names),
        first,
        len(stack),
        len(common),
        tuple(theirs.index(name) for name in (*stack, *common, *other)),
        tuple(product_names.index(name) for name in out),
    )
