"""Factor sources, which compute factors from the evidence, and the executor that runs a program on these factors.

A factor source evaluates a potential, a likelihood or a Gaussian component on the axes of its variables. Its array has
one dimension for each of its `names`, and the rows last if `rows` is true; `static` factors do not depend on the
evidence. Sources give ``(array, log_scale)`` or logarithms.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from threading import Lock
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from hybridbn.inference.axes import Axis, CellAxis, NodeAxis
from hybridbn.inference.elimination.program import SUSPICIOUS, Program
from hybridbn.inference.evidence import Evidence
from hybridbn.potentials.base import Potential, freeze, list_dimensions
from hybridbn.variables import Continuous, Values

__all__ = [
    "Executor",
    "FactorSource",
    "LikelihoodSource",
    "NormalizedTables",
    "PotentialSource",
    "WeightSource",
    "evaluate_source",
    "find_least_total",
    "normalize",
]


LEAST_TOTAL = 1e-200
"""The same as `SUSPICIOUS` where variables have nodes, along which values may be lost that are smaller than 1e-225."""
LOG_TINY = np.log(1e-200)
"""Values whose largest one has a smaller logarithm may have lost others to underflow: logarithms are exponentiated."""


class FactorSource(Protocol):
    """Computes one factor of a sum of products."""

    @property
    def names(self) -> tuple[str, ...]:
        """The dimensions of the array."""

    @property
    def rows(self) -> bool:
        """Whether the array has the rows as its last dimension."""

    @property
    def static(self) -> bool:
        """Whether the array does not depend on the evidence."""

    def logs(self, axes: Mapping[str, Axis], evidence: Evidence) -> Values:
        """Return the logarithms of the values."""

    def values(self, axes: Mapping[str, Axis], evidence: Evidence) -> tuple[Values, Values | float]:
        """Return the values and their log scale."""


def rescale(values: Values, scale: Values | float, rows: bool) -> tuple[Values, Values | float]:
    """Divide by the largest value (of each row), so that products of many densities stay within range."""
    top = values.max(axis=tuple(range(values.ndim - rows)), initial=0.0)
    divisor = np.where(top > 0, top, 1.0)
    log = scale + np.log(divisor)
    return values / divisor, log if rows else float(log)


def exponentiate(logs: Values, rows: bool) -> tuple[Values, Values | float]:
    """Return values whose largest (of each row) is one, and the log scale, from logarithms."""
    top = logs.max(axis=tuple(range(logs.ndim - rows)), initial=-np.inf)
    top = np.where(np.isfinite(top), top, 0.0)
    return np.exp(logs - top), top if rows else float(top)


@dataclass(frozen=True)
class PotentialSource:
    """A potential on the axes of its variables.

    Attributes
    ----------
    hard : names observed in every row; they have no dimension
    masked : whether the child is observed in some rows only and nothing else depends on it: the factor is one in the
    others
    rows : whether any of its axes differs between rows
    """

    potential: Potential
    names: tuple[str, ...]
    hard: frozenset[str]
    masked: bool
    rows: bool
    static: bool

    @property
    def known_by_logarithm(self) -> bool:
        """Whether the potential computes values from their logarithms."""
        return type(self.potential).on is Potential.on

    def points(self, axes: Mapping[str, Axis], evidence: Evidence) -> dict[str, Any]:
        """Return the axis points of every variable in the scope."""
        points: dict[str, Any] = {}
        for variable in self.potential.variables:
            name = variable.name
            if name in self.hard or (self.masked and name == self.potential.child.name):
                values = evidence.findings[name].values
                if self.masked and name == self.potential.child.name:
                    values = evidence.findings[name].fill()
                points[name] = values[None, :] if self.rows else values[:1]
            else:
                points[name] = axes[name].points
        return points

    def values(self, axes: Mapping[str, Axis], evidence: Evidence) -> tuple[Values, Values | float]:
        """Return the values and their log scale."""
        child = self.potential.child.name
        axis = axes.get(child) if child in self.names else None
        points = self.points(axes, evidence)
        scale: Values | float
        if isinstance(axis, CellAxis):
            array, scale = self._cell_masses(axis, points, evidence)
        else:
            array, scale = self.potential.on(points)
        array = self._drop_observed(array, points)
        if self.masked:
            known = evidence.findings[child].observed
            array, scale = _fill_unknown(array, known, 1.0), np.where(known, scale, 0.0)
        if any(isinstance(variable, Continuous) for variable in self.potential.variables):
            scaled, log_scale = rescale(array, scale, self.rows)
            if np.any(log_scale - scale < LOG_TINY) and not isinstance(axis, CellAxis):
                return exponentiate(self.logs(axes, evidence), self.rows)
            return scaled, log_scale
        return array, scale

    def logs(self, axes: Mapping[str, Axis], evidence: Evidence) -> Values:
        """Return the logarithms of the values."""
        child = self.potential.child.name
        axis = axes.get(child) if child in self.names else None
        if isinstance(axis, CellAxis):
            array, scale = self.values(axes, evidence)
            with np.errstate(divide="ignore"):
                return np.asarray(np.log(array) + scale)
        points = self.points(axes, evidence)
        logs = self._drop_observed(self.potential.log_on(points), points)
        return np.where(evidence.findings[child].observed, logs, 0.0) if self.masked else logs

    def add_logs(self, axes: Mapping[str, Axis], evidence: Evidence, total: Values) -> float:
        """Add the logarithms (rows,) to a total, but for the number that is returned; what overflows may be NaN."""
        if self.masked:
            total += self.logs(axes, evidence)
            return 0.0
        return self.potential.add_log_on(self.points(axes, evidence), total)

    def _drop_observed(self, array: Values, points: Mapping[str, Any]) -> Values:
        """Drop the dimensions of observed variables."""
        scope = list_dimensions(points, self.potential.scope)
        if scope == list(self.names):
            return array
        sizes = dict(zip(scope, array.shape, strict=False))
        return array.reshape([*(sizes.get(name, 1) for name in self.names), *array.shape[len(scope) :]])

    def _cell_masses(self, axis: CellAxis, points: dict[str, Any], evidence: Evidence) -> tuple[Values, Values | float]:
        """Return the masses of cells where the child is hidden, and its density in the one cell where it is
        observed.
        """
        child = self.potential.child.name
        finding = evidence.findings.get(child)
        del points[child]
        edges = axis.edges
        reach = None if finding is None else finding.reach()
        if reach is not None:
            low, high = reach if self.rows else (reach[0][0], reach[1][0])
            edges = np.clip(edges[:, None] if self.rows else edges, low, high)
        array, scale = self.potential.mass(points, edges)
        dimensions = len(list_dimensions(points, self.potential.scope))
        if finding is None or not finding.observed.any():
            if self.rows and array.ndim == dimensions:
                # other rows of the table know the child
                array = np.repeat(array[..., None], evidence.rows, axis=-1)
            return array, scale
        known = finding.observed
        values = finding.fill()
        density, density_scale = self.potential.on({**points, child: values[None, :]})
        inside = np.searchsorted(axis.edges[1:-1], values, side="right")
        place = np.arange(axis.size)[:, None] == inside
        # density and masses have log scales of their own, and each row has the one of the values that it uses
        both = np.where(known, density_scale, scale)
        array = array if array.ndim > dimensions else array[..., None]
        shape = (*array.shape[:dimensions], len(known))
        return np.where(known, density * place, np.broadcast_to(array, shape)), both


def _fill_unknown(array: Values, known: NDArray[np.bool_], value: float) -> Values:
    """Return an array with a value in the rows (last) that are not known; changed in place if the array is
    writeable.
    """
    if array.shape[-1] != len(known) or not array.flags.writeable:
        return np.where(known, array, value)
    np.copyto(array, value, where=~known)  # several times faster than indexing
    return array


@dataclass(frozen=True)
class WeightSource:
    """The weights of Gauss-Legendre nodes."""

    name: str
    rows: bool = True
    static: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        """The one dimension."""
        return (self.name,)

    def values(self, axes: Mapping[str, Axis], evidence: Evidence) -> tuple[Values, Values | float]:
        """Return the values and their log scale."""
        return exponentiate(self.logs(axes, evidence), self.rows)

    def logs(self, axes: Mapping[str, Axis], evidence: Evidence) -> Values:
        """Return the logarithms of the values."""
        axis = axes[self.name]
        assert isinstance(axis, NodeAxis)
        with np.errstate(divide="ignore"):
            return np.log(axis.weights)


@dataclass(frozen=True)
class LikelihoodSource:
    """The likelihood of a hidden variable: an indicator of states, a likelihood of states or a function."""

    name: str
    rows: bool
    static: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        """The one dimension."""
        return (self.name,)

    def values(self, axes: Mapping[str, Axis], evidence: Evidence) -> tuple[Values, Values | float]:
        """Return the values and their log scale."""
        array = evidence.findings[self.name].weights(axes[self.name].points)
        return (array, 0.0) if self.rows else (array[:, 0], 0.0)

    def logs(self, axes: Mapping[str, Axis], evidence: Evidence) -> Values:
        """Return the logarithms of the values."""
        array, _ = self.values(axes, evidence)
        with np.errstate(divide="ignore"):
            return np.log(array)


class NormalizedTables(NamedTuple):
    """The result of an executor for some rows: normalized tables.

    Attributes
    ----------
    tables : for each scope an array (*scope, rows) that sums to one; NaN where nothing is possible
    log_norm : (rows,) logarithm of their sum before normalization
    doubtful : (rows,) whether linear arithmetic may have underflowed
    """

    tables: list[Values]
    log_norm: Values
    doubtful: NDArray[np.bool_]


@dataclass
class Executor:
    """Factor sources, and the program that multiplies their factors and sums variables out."""

    sources: Sequence[FactorSource]
    program: Program
    _static_scale: float = 0.0
    _lock: Lock = field(default_factory=Lock, repr=False)

    def estimate_bytes(self) -> int:
        """Return about how many bytes the stored tables take."""
        return self.program.estimate_bytes()

    def run(
        self, axes: Mapping[str, Axis], evidence: Evidence, logs: Mapping[int, Values] | None = None
    ) -> NormalizedTables:
        """Run in linear arithmetic; the logarithms of sources by number that are known are not computed again."""
        if self.program.warm:
            return self._run(axes, evidence, logs or {})
        # the first run computes what does not depend on the evidence, and only one thread may do so
        with self._lock:
            return self._run(axes, evidence, logs or {})

    def _run(self, axes: Mapping[str, Axis], evidence: Evidence, logs: Mapping[int, Values]) -> NormalizedTables:
        arrays: dict[int, Values] = {}
        scale: Values | float = 0.0
        static_scale = 0.0
        warm = self.program.warm
        numbers: list[Any] = []
        for number, source in enumerate(self.sources):
            if source.static:
                if not warm:
                    arrays[number], fixed = source.values(axes, evidence)
                    static_scale += float(np.max(fixed))
                continue
            if number in logs:
                arrays[number], log_scale = exponentiate(logs[number], rows=True)
            elif _is_logarithm(source):
                numbers.append(source)
                arrays[number], last = _ONE, number
                continue
            else:
                arrays[number], log_scale = evaluate_source(source, axes, evidence)
            scale = scale + log_scale
        if numbers:
            arrays[last], scale = _split_logarithm(scale + _sum_logs(numbers, axes, evidence))
        if not warm:
            self._static_scale = static_scale
        tables = [
            table[..., None] if table.ndim == len(scope) else table
            for table, scope in zip(self.program.run(arrays), self.scopes, strict=True)
        ]
        # tables that are the same in all rows have one
        total = _total(tables[0])
        sound = total > find_least_total(self.sources)
        if sound.all():
            log_norm = np.log(total)
            tables[0] = tables[0] / total
        else:
            with np.errstate(divide="ignore"):
                log_norm = np.log(total)
            tables[0] = normalize(tables[0])
        tables[1:] = [normalize(table) for table in tables[1:]]
        return NormalizedTables(
            [_repeat(table, evidence.rows) for table in tables],
            _repeat(log_norm + (scale + self._static_scale), evidence.rows),
            _repeat(~sound, evidence.rows),
        )

    def run_in_logs(
        self, axes: Mapping[str, Axis], evidence: Evidence, logs: Mapping[int, Values] | None = None
    ) -> NormalizedTables:
        """Run in logarithms, which do not underflow; those of sources by number that are known are not computed
        again.
        """
        known = logs or {}
        arrays = {
            number: known[number] if number in known else source.logs(axes, evidence)
            for number, source in enumerate(self.sources)
        }
        tables: list[Values] = []
        log_norm = np.full(evidence.rows, -np.inf)
        for scoped, scope in zip(self.program.run_log(arrays), self.scopes, strict=True):
            scoped = _repeat(scoped[..., None] if scoped.ndim == len(scope) else scoped, evidence.rows)
            over = tuple(range(scoped.ndim - 1))
            top = scoped.max(axis=over, initial=-np.inf)
            shift = np.where(np.isfinite(top), top, 0.0)
            table = np.exp(scoped - shift)
            if not tables:
                with np.errstate(divide="ignore"):
                    log_norm = np.log(table.sum(axis=over)) + shift
            tables.append(normalize(table))
        return NormalizedTables(tables, log_norm, np.zeros(evidence.rows, dtype=bool))

    @property
    def scopes(self) -> Sequence[tuple[str, ...]]:
        """The names of each table."""
        return self.program.scopes


def _repeat(array: NDArray[Any], rows: int) -> NDArray[Any]:
    """Return an array with so many rows (last), of one that may have a single one for all of them."""
    return array if array.shape[-1] == rows else np.array(np.broadcast_to(array, (*array.shape[:-1], rows)))


def evaluate_source(
    source: FactorSource, axes: Mapping[str, Axis], evidence: Evidence
) -> tuple[Values, Values | float]:
    """Return a factor and its log scale. What underflows is negligible beside the largest value of its row."""
    if not _is_logarithm(source):
        return source.values(axes, evidence)
    factor, log_scale = _split_logarithm(source.logs(axes, evidence))
    return np.broadcast_to(factor, log_scale.shape), log_scale


_ONE = freeze(np.ones(1))


def _is_logarithm(source: FactorSource) -> bool:
    """Tell whether a factor is one number in each row, whose logarithm is what its potential computes."""
    return not source.names and source.rows and getattr(source, "known_by_logarithm", False)


def _sum_logs(sources: Sequence[Any], axes: Mapping[str, Axis], evidence: Evidence) -> Values:
    """Return the sum of factors that are one number in each row, known by its logarithm."""
    total = np.zeros(evidence.rows)
    with np.errstate(over="ignore", invalid="ignore"):
        total += sum([source.add_logs(axes, evidence, total) for source in sources])
    # all of them are looked through together
    if total.min(initial=0.0) > -np.inf:
        return total
    return np.asarray(sum([source.logs(axes, evidence) for source in sources]))


def _split_logarithm(logs: Values) -> tuple[Values, Values]:
    """Return what is 0 in impossible rows and else 1, of a single row where it is 1 in all, and finite logarithms."""
    if logs.min(initial=np.inf) > -np.inf:
        return _ONE, logs
    possible = logs > -np.inf
    return possible.astype(float), np.where(possible, logs, 0.0)


def find_least_total(sources: Sequence[FactorSource]) -> float:
    """Return the least total of a row that linear arithmetic gives accurately."""
    return LEAST_TOTAL if any(isinstance(source, WeightSource) for source in sources) else SUSPICIOUS


def _total(table: Values) -> Values:
    return np.asarray(np.add.reduce(table, axis=0 if table.ndim == 2 else tuple(range(table.ndim - 1))))


def normalize(table: Values) -> Values:
    """Return a table (*names, rows) whose rows sum to one; NaN where all is zero."""
    total = _total(table)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(table / total)
