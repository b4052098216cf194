"""Elimination for rows that differ in which variables are observed.

Each step of a program is done once for each pattern of what is observed among its own variables. Where cliques are
small, there are few such patterns, however many patterns of holes the rows have. So all rows share one grid, one
elimination order, and everything that does not depend on the evidence.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hybridbn.inference.axes import Axis
from hybridbn.inference.elimination.executor import (
    FactorSource,
    PotentialSource,
    WeightSource,
    evaluate_source,
    find_least_total,
)
from hybridbn.inference.elimination.program import MatrixProduct, Program, plan_matrix_product
from hybridbn.inference.evidence import Evidence
from hybridbn.inference.gaussian_component import GaussianComponent
from hybridbn.variables import Values

__all__ = ["PatternExecutor", "PatternRun", "RowGroup"]

Observed = frozenset[str]


class RowGroup(NamedTuple):
    """Rows that are observed in the same variables of a table, and their table over the hidden ones.

    Attributes
    ----------
    rows : ndarray of ascending row numbers, or None if the array has none because it is the same for all
    array : ndarray (*hidden, rows) or (*hidden,)
    """

    rows: NDArray[np.intp] | None
    array: Values


class PatternRun(NamedTuple):
    """The tables over the scopes of a program, not normalized.

    Attributes
    ----------
    tables : for each scope the groups of rows by what is observed of its names
    total : (rows,) sum of each row's first table
    log_scale : (rows,) to be added to the logarithm of the total
    doubtful : (rows,) whether linear arithmetic may have underflowed
    """

    tables: list[dict[Observed, RowGroup]]
    total: Values
    log_scale: Values
    doubtful: NDArray[np.bool_]


class _Patterns:
    """The groups of rows that are observed in the same ones of some names."""

    def __init__(self, observed: Mapping[str, NDArray[np.bool_]], rows: int) -> None:
        self._observed, self._rows = observed, rows
        self._groups: dict[Observed, list[tuple[Observed, NDArray[np.intp]]]] = {}

    def groups(self, names: Sequence[str]) -> list[tuple[Observed, NDArray[np.intp]]]:
        partly = [name for name in dict.fromkeys(names) if name in self._observed]
        key = frozenset(partly)
        if key not in self._groups:
            self._groups[key] = list(self._split(partly))
        return self._groups[key]

    def _split(self, partly: Sequence[str]) -> Iterator[tuple[Observed, NDArray[np.intp]]]:
        if not partly:
            yield frozenset(), np.arange(self._rows)
            return
        flags = np.array([self._observed[name] for name in partly])
        patterns, group = np.unique(flags, axis=1, return_inverse=True)
        group = group.ravel()
        order = np.argsort(group, kind="stable")
        parts = np.split(order, np.cumsum(np.bincount(group))[:-1])
        for pattern, rows in zip(patterns.T, parts, strict=True):
            yield frozenset(name for name, there in zip(partly, pattern, strict=True) if there), rows


class _Step(NamedTuple):
    """A step of a program for one pattern of what is observed."""

    subscripts: str
    product: MatrixProduct | None


@dataclass(eq=False)
class PatternExecutor:
    """Factor sources on axes that all rows share, and the program that multiplies their factors and sums variables out.

    Attributes
    ----------
    sources : those of a problem in which everything is hidden that some rows do not know
    partly_observed : variables with nodes that are observed in some rows
    """

    sources: Sequence[FactorSource]
    program: Program
    partly_observed: tuple[str, ...]
    sizes: Mapping[str, int]
    _restricted: dict[tuple[int, Observed], Any] = field(default_factory=dict, repr=False)
    _steps: dict[tuple[int, Observed, tuple[bool, ...]], _Step] = field(default_factory=dict, repr=False)
    _factors: dict[int, tuple[Values, float]] = field(default_factory=dict, repr=False)
    _tables: dict[tuple[int, Observed], Values] = field(default_factory=dict, repr=False)
    _matrices: dict[tuple[int, Observed], Values] = field(default_factory=dict, repr=False)

    @cached_property
    def largest(self) -> float:
        """Cells of the largest table that has rows."""
        partly = set(self.partly_observed)
        largest = 1.0
        for step in self.program.steps:
            names = self.program.names[step.output]
            cells = self._cells(names)
            if not self.program.rows[step.output]:
                # it has rows where something is observed
                cells /= min((self.sizes[name] for name in partly.intersection(names)), default=cells)
            largest = max(largest, cells)
        return largest

    def estimate_bytes(self) -> int:
        """Return about how many bytes the tables take that do not depend on the evidence."""
        arrays = [array for array, _ in list(self._factors.values())]
        arrays += [*list(self._tables.values()), *list(self._matrices.values())]
        # a matrix may be a view of a table
        buffers = {id(array if array.base is None else array.base): array.nbytes for array in arrays}
        return sum(buffers.values()) + self.program.estimate_bytes()

    def run(self, axes: Mapping[str, Axis], evidence: Evidence) -> PatternRun:
        """Run in linear arithmetic."""
        findings = evidence.findings
        patterns = _Patterns({name: findings[name].observed for name in self.partly_observed}, evidence.rows)
        log_scale = np.zeros(evidence.rows)
        slots: dict[int, dict[Observed, RowGroup]] = {}
        for number in range(len(self.sources)):
            slots[number] = self._evaluate(number, axes, evidence, patterns, log_scale)
        kept = self._known_bytes()
        for step in self.program.steps:
            slots[step.output] = self._apply(step, slots, patterns)
            for slot in step.done_with:
                del slots[slot]
        if self._known_bytes() != kept and self.program.on_growth is not None:
            self.program.on_growth()
        tables = [
            _give_rows(slots[output], patterns.groups(scope))
            for output, scope in zip(self.program.outputs, self.program.scopes, strict=True)
        ]
        total = np.empty(evidence.rows)
        for rows, table in tables[0].values():
            total[rows] = table.sum(axis=tuple(range(table.ndim - 1)))
        return PatternRun(tables, total, log_scale, ~(total > find_least_total(self.sources)))

    def _known_bytes(self) -> int:
        return len(self._tables) + len(self._matrices) + len(self._factors)

    def _evaluate(
        self, number: int, axes: Mapping[str, Axis], evidence: Evidence, patterns: _Patterns, log_scale: Values
    ) -> dict[Observed, RowGroup]:
        """Return a factor for each group of rows, and add its log scale."""
        source = self.sources[number]
        result = {}
        for observed, rows in patterns.groups(source.names):
            if isinstance(source, WeightSource) and observed:
                result[observed] = RowGroup(None, np.ones(()))
                continue
            if source.static and not observed:
                if number not in self._factors:
                    array, scale = source.values(axes, evidence)
                    self._factors[number] = array, float(np.max(scale))
                array, scale = self._factors[number]
                log_scale[rows] += scale
                result[observed] = RowGroup(None, array)
                continue
            own = self._restrict(number, observed)
            part = evidence.evidence(_find_scope(own))
            if len(rows) != evidence.rows:
                part = part.take(rows, len(rows))
            # what underflows here is small beside the total, or leaves a total that is doubtful
            array, scale = evaluate_source(own, axes, part)
            log_scale[rows] += scale
            result[observed] = RowGroup(rows, array)
        return result

    def _restrict(self, number: int, observed: Observed) -> Any:
        """Return the source of a factor for rows in which some of its variables are observed."""
        source: Any = self.sources[number]
        if not observed:
            return source
        key = number, observed
        if key not in self._restricted:
            names = tuple(name for name in source.names if name not in observed)
            self._restricted[key] = replace(source, names=names, hard=source.hard | observed, rows=True, static=False)
        return self._restricted[key]

    def _apply(
        self, step: Any, slots: Mapping[int, dict[Observed, RowGroup]], patterns: _Patterns
    ) -> dict[Observed, RowGroup]:
        """Do a step for each pattern of its variables; rows that differ in a variable summed out are joined."""
        names = [self.program.names[slot] for slot in step.inputs]
        out = self.program.names[step.output]
        results: dict[Observed, list[tuple[NDArray[np.intp], RowGroup]]] = {}
        for observed, rows in patterns.groups([name for own in names for name in own]):
            inputs = [slots[slot][observed.intersection(own)] for slot, own in zip(step.inputs, names, strict=True)]
            key = step.output, observed
            if all(group.rows is None for group in inputs):
                if key not in self._tables:
                    self._tables[key] = self._multiply(step, observed, inputs)
                group = RowGroup(None, self._tables[key])
            else:
                inputs = [_select_rows(group, rows) for group in inputs]
                group = RowGroup(rows, self._multiply(step, observed, inputs))
            results.setdefault(observed.intersection(out), []).append((rows, group))
        return {key: _join(parts) for key, parts in results.items()}

    def _multiply(self, step: Any, observed: Observed, inputs: Sequence[RowGroup]) -> Values:
        arrays = [group.array for group in inputs]
        plan = self._plan(step, observed, tuple(group.rows is not None for group in inputs))
        if step.divide:
            top, bottom = arrays
            parts, out = plan.subscripts.split("->")
            if parts.split(",") != [out, out]:
                top, bottom = (_align(part, array, out) for part, array in zip(parts.split(","), arrays, strict=True))
            shape = np.broadcast_shapes(top.shape, bottom.shape)
            return np.divide(top, bottom, out=np.zeros(shape), where=bottom > 0)
        if plan.product is None:
            return np.asarray(np.einsum(plan.subscripts, *arrays))
        left = inputs[plan.product.left]
        key = step.output, observed
        matrix = self._matrices.get(key)
        if matrix is None:
            matrix = plan.product.matrix(left.array)
            if left.rows is None:
                self._matrices[key] = matrix
        return plan.product.multiply(matrix, plan.product.others(left.array), arrays[1 - plan.product.left])

    def _plan(self, step: Any, observed: Observed, rows: tuple[bool, ...]) -> _Step:
        key = step.output, observed, rows
        plan = self._steps.get(key)
        if plan is None:
            names = [[n for n in self.program.names[slot] if n not in observed] for slot in step.inputs]
            out = [n for n in self.program.names[step.output] if n not in observed]
            letters = dict(zip(dict.fromkeys(n for own in names for n in own), _LETTERS, strict=False))
            parts = ["".join(letters[n] for n in own) + "Z" * has for own, has in zip(names, rows, strict=True)]
            subscripts = f"{','.join(parts)}->{''.join(letters[n] for n in out)}{'Z' * any(rows)}"
            product = None
            if len(names) == 2 and not step.divide and not all(rows):
                product = plan_matrix_product(names, rows, out, [self._cells(own) for own in names])
            plan = self._steps[key] = _Step(subscripts, product)
        return plan

    def _cells(self, names: Sequence[str]) -> float:
        return float(np.prod([float(self.sizes[name]) for name in names]))


_LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXY"


def _find_scope(source: Any) -> list[str]:
    """Return the variables whose evidence a factor may depend on."""
    if isinstance(source, PotentialSource):
        return list(source.potential.scope)
    if isinstance(source, GaussianComponent):
        return [name for potential in source.potentials for name in potential.scope]
    return list(source.names)


def _give_rows(
    groups: Mapping[Observed, RowGroup], patterns: Sequence[tuple[Observed, NDArray[np.intp]]]
) -> dict[Observed, RowGroup]:
    """Return groups of which each has the rows of its pattern."""
    result = {}
    for observed, rows in patterns:
        array = groups[observed].array
        if groups[observed].rows is None:
            array = np.repeat(array[..., None], len(rows), axis=-1)
        result[observed] = RowGroup(rows, array)
    return result


def _align(part: str, array: Values, out: str) -> Values:
    """Return an array with its dimensions in the order of `out`, and ones for those that it lacks."""
    turned = array.transpose([part.index(letter) for letter in out if letter in part])
    shape = iter(turned.shape)
    return turned.reshape([next(shape) if letter in part else 1 for letter in out])


def _select_rows(group: RowGroup, rows: NDArray[np.intp]) -> RowGroup:
    if group.rows is None or len(group.rows) == len(rows):
        return group
    return RowGroup(rows, group.array[..., np.searchsorted(group.rows, rows)])


def _join(parts: Sequence[tuple[NDArray[np.intp], RowGroup]]) -> RowGroup:
    if len(parts) == 1:
        return parts[0][1]
    rows = np.sort(np.concatenate([rows for rows, _ in parts]))
    first = parts[0][1]
    shape = first.array.shape if first.rows is None else first.array.shape[:-1]
    array = np.empty((*shape, len(rows)))
    for own, group in parts:
        array[..., np.searchsorted(rows, own)] = group.array[..., None] if group.rows is None else group.array
    return RowGroup(rows, array)
