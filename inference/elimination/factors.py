"""Factor sources, which compute factors from the evidence, and runs of programs on these factors.

A factor source evaluates a potential, a likelihood or a Gaussian component on the axes of its variables. Its array has
one dimension for each of its `names`, and the rows last if `rows` is true; `static` factors do not depend on the
evidence. Sources give ``(array, log_scale)`` or logarithms.

The log marginals from which grids are judged are computed here as well: in logarithms, which do not underflow however
far out the posterior is. Where one variable has nodes, its log marginal at a node depends on that node and on the row
alone. So cells of earlier rounds of refinement keep their values, and only new ones are evaluated, those of all rows
together.

Rows that differ in which variables are observed share one grid, one elimination order, and everything that does not
depend on the evidence: each step of a program is done once for each pattern of what is observed among its own
variables. Where cliques are small, there are few such patterns, however many patterns of holes the rows have.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from hybridbn.inference.axes import ORDER, Axis, CellAxis, NodeAxis, node_axis_of
from hybridbn.inference.elimination.program import (
    ENOUGH,
    SUSPICIOUS,
    Program,
    ProgramStep,
    divide_tables,
    plan_matrix_product,
    write_subscripts,
)
from hybridbn.inference.evidence import Evidence
from hybridbn.potentials.base import PointCells, Potential, exponentiate, freeze, list_dimensions, take_logs
from hybridbn.variables import Continuous, Values

if TYPE_CHECKING:
    from hybridbn.inference.compilation import Problem

LOG_TINY = np.log(1e-200)
"""Values whose largest one has a smaller logarithm may have lost others to underflow: logarithms are exponentiated."""


@dataclass(frozen=True)
class FactorSource:
    """Computes one factor of a sum of products; a subclass has `logs` or `values`.

    Attributes
    ----------
    names : the dimensions of the array
    rows : whether the array has the rows as its last dimension
    static : whether the array does not depend on the evidence
    """

    names: tuple[str, ...]
    rows: bool
    static: bool

    @property
    def mentions(self) -> Sequence[str]:
        """The variables whose evidence the factor may depend on."""
        return self.names

    @property
    def known_by_logarithm(self) -> bool:
        """Whether values are computed from their logarithms."""
        return type(self).values is FactorSource.values

    def logs(self, axes: Mapping[str, Axis], evidence: Evidence) -> Values:
        """Return the logarithms of the values."""
        array, scale = self.values(axes, evidence)
        return np.asarray(take_logs(array) + scale)

    def values(self, axes: Mapping[str, Axis], evidence: Evidence) -> tuple[Values, Values | float]:
        """Return the values and their log scale."""
        return exponentiate(self.logs(axes, evidence), len(self.names))

    def add_logs(self, axes: Mapping[str, Axis], evidence: Evidence, total: Values) -> float:
        """Add the logarithms (rows,) to a total, but for the number that is returned; what overflows may be NaN."""
        total += self.logs(axes, evidence)
        return 0.0


def rescale(values: Values, scale: Values | float, rows: bool) -> tuple[Values, Values | float]:
    """Divide by the largest value (of each row), so that products of many densities stay within range."""
    top = values.max(axis=tuple(range(values.ndim - rows)), initial=0.0)
    divisor = np.where(top > 0, top, 1.0)
    log = scale + np.log(divisor)
    return values / divisor, log if rows else float(log)


@dataclass(frozen=True)
class PotentialSource(FactorSource):
    """A potential on the axes of its variables.

    Attributes
    ----------
    hard : names observed in every row; they have no dimension
    masked : whether the child is observed in some rows only and nothing else depends on it: the factor is one in the
    others
    cells : the cells that stand for the points of parents with nodes
    """

    potential: Potential
    hard: frozenset[str]
    masked: bool
    cells: Mapping[str, PointCells]

    @property
    def mentions(self) -> tuple[str, ...]:
        """All variables of the potential."""
        return self.potential.scope

    @property
    def known_by_logarithm(self) -> bool:
        """Whether the potential computes values from their logarithms."""
        return type(self.potential).on is Potential.on

    def points(self, axes: Mapping[str, Axis], evidence: Evidence) -> dict[str, Any]:
        """Return the axis points of every variable in the scope."""
        points: dict[str, Any] = {}
        for variable in self.potential.variables:
            name = variable.name
            masked = self.masked and name == self.potential.child.name
            if name in self.hard or masked:
                values = evidence.findings[name].fill() if masked else evidence.findings[name].values
                points[name] = values[None, :] if self.rows else values[:1]
            else:
                points[name] = axes[name].points
            if name in self.cells:
                # as long as a cell is, it is far from its point where the child is narrow
                points[name] = self.cells[name].snap(points[name])
        return points

    def values(self, axes: Mapping[str, Axis], evidence: Evidence) -> tuple[Values, Values | float]:
        """Return the values and their log scale."""
        child = self.potential.child.name
        axis = axes.get(child) if child in self.names else None
        points = self.points(axes, evidence)
        array, scale = (
            self._cell_masses(axis, points, evidence) if isinstance(axis, CellAxis) else self.potential.on(points)
        )
        array = self._drop_observed(array, points)
        if self.masked:
            known = evidence.findings[child].observed
            array, scale = np.where(known, array, 1.0), np.where(known, scale, 0.0)
        if any(isinstance(variable, Continuous) for variable in self.potential.variables):
            scaled, log_scale = rescale(array, scale, self.rows)
            if np.any(log_scale - scale < LOG_TINY) and not isinstance(axis, CellAxis):
                return exponentiate(self.logs(axes, evidence), len(self.names))
            return scaled, log_scale
        return array, scale

    def logs(self, axes: Mapping[str, Axis], evidence: Evidence) -> Values:
        """Return the logarithms of the values."""
        child = self.potential.child.name
        axis = axes.get(child) if child in self.names else None
        if isinstance(axis, CellAxis):
            return super().logs(axes, evidence)
        points = self.points(axes, evidence)
        logs = self._drop_observed(self.potential.log_on(points), points)
        return np.where(evidence.findings[child].observed, logs, 0.0) if self.masked else logs

    def add_logs(self, axes: Mapping[str, Axis], evidence: Evidence, total: Values) -> float:
        """Add the logarithms (rows,) to a total, but for the number that is returned; what overflows may be NaN."""
        if self.masked:
            return super().add_logs(axes, evidence, total)
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
        reach = None if finding is None else finding.reach
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


class WeightSource(FactorSource):
    """The weights of the Gauss-Legendre nodes of its one name."""

    def logs(self, axes: Mapping[str, Axis], evidence: Evidence) -> Values:
        """Return the logarithms of the values."""
        axis = node_axis_of(axes, self.names[0])
        return take_logs(axis.weights)


class LikelihoodSource(FactorSource):
    """The likelihood of its one name, a hidden variable: an indicator or a likelihood of states, or a function."""

    def values(self, axes: Mapping[str, Axis], evidence: Evidence) -> tuple[Values, Values | float]:
        """Return the values and their log scale."""
        (name,) = self.names
        array = evidence.findings[name].weights(axes[name].points)
        return (array, 0.0) if self.rows else (array[:, 0], 0.0)


class NormalizedTables(NamedTuple):
    """The result of a program for some rows: normalized tables.

    Attributes
    ----------
    tables : for each scope an array (*scope, rows) that sums to one; NaN where nothing is possible
    log_norm : (rows,) logarithm of their sum before normalization
    doubtful : (rows,) whether linear arithmetic may have underflowed
    """

    tables: list[Values]
    log_norm: Values
    doubtful: NDArray[np.bool_]


def run_program(
    program: Program,
    sources: Sequence[FactorSource],
    axes: Mapping[str, Axis],
    evidence: Evidence,
    logs: Mapping[int, Values] | None = None,
) -> NormalizedTables:
    """Run a program on the factors of sources, in linear arithmetic.

    The logarithms of sources by number that are known are not computed again.
    """
    # the first run computes what does not depend on the evidence, and only one thread may do so
    with nullcontext() if program.warm else program.lock:
        arrays, scale = _evaluate_sources(program, sources, axes, evidence, logs or {})
        tables = _give_row(program.run(arrays), program.scopes)
    shares, (total, *_) = zip(*map(normalize, tables), strict=True)
    with np.errstate(divide="ignore", invalid="ignore"):
        log_norm = np.log(total)
    return NormalizedTables(
        [_repeat(table, evidence.rows) for table in shares],
        _repeat(log_norm + (scale + program.static_scale), evidence.rows),
        _repeat(~(total > SUSPICIOUS), evidence.rows),
    )


def _evaluate_sources(
    program: Program,
    sources: Sequence[FactorSource],
    axes: Mapping[str, Axis],
    evidence: Evidence,
    logs: Mapping[int, Values],
) -> tuple[dict[int, Values], Values | float]:
    """Return the factors that a run needs by number, and the log scale of those that depend on the evidence."""
    arrays: dict[int, Values] = {}
    scale: Values | float = 0.0
    static_scale = 0.0
    warm = program.warm
    numbers: list[Any] = []
    last = -1
    for number, source in enumerate(sources):
        if source.static:
            if not warm:
                arrays[number], fixed = source.values(axes, evidence)
                static_scale += float(np.max(fixed))
            continue
        if number in logs:
            arrays[number], log_scale = exponentiate(logs[number], len(source.names))
        elif _is_logarithm(source):
            numbers.append(source)
            arrays[number], last = _ONE, number
            continue
        else:
            arrays[number], log_scale = source.values(axes, evidence)
        scale = scale + log_scale
    if numbers:
        arrays[last], scale = _split_logarithm(scale + _sum_logs(numbers, axes, evidence))
    if not warm:
        program.static_scale = static_scale
    return arrays, scale


def run_program_in_logs(
    program: Program,
    sources: Sequence[FactorSource],
    axes: Mapping[str, Axis],
    evidence: Evidence,
    logs: Mapping[int, Values] | None = None,
) -> NormalizedTables:
    """Run a program on the logarithms of factors, which do not underflow.

    The logarithms of sources by number that are known are not computed again.
    """
    known = logs or {}
    arrays = {
        number: known[number] if number in known else source.logs(axes, evidence)
        for number, source in enumerate(sources)
    }
    logs_of = _give_row(program.run_log(arrays), program.scopes)
    tables, log_norms = zip(*[normalize_logs(_repeat(own, evidence.rows)) for own in logs_of], strict=True)
    return NormalizedTables(list(tables), log_norms[0], np.zeros(evidence.rows, dtype=bool))


def _give_row(tables: Iterable[Values], scopes: Iterable[Sequence[str]]) -> list[Values]:
    """Return tables over scopes with rows: a single one where they are the same in all of them."""
    return [
        table[..., None] if table.ndim == len(scope) else table for table, scope in zip(tables, scopes, strict=True)
    ]


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
    return not source.names and source.rows and source.known_by_logarithm


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


def normalize(table: Values) -> tuple[Values, Values]:
    """Return a table (*names, rows) whose rows sum to one, NaN where all is zero, and their sums before."""
    total = np.asarray(np.add.reduce(table, axis=0 if table.ndim == 2 else tuple(range(table.ndim - 1))))
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(table / total), total


def normalize_logs(logs: Values) -> tuple[Values, Values]:
    """Return the table (*names, rows) of some logarithms, whose rows sum to one, and the logarithms of their sums
    before; NaN and -inf where nothing is possible.

    Examples
    --------
    >>> table, log_sum = normalize_logs(np.log([[1.0], [3.0]]) - 2000)
    >>> table.ravel().round(9).tolist(), (log_sum + 2000).round(6).tolist()
    ([0.25, 0.75], [1.386294])
    """
    over = tuple(range(logs.ndim - 1))
    top = logs.max(axis=over, initial=-np.inf)
    shift = np.where(np.isfinite(top), top, 0.0)
    table = np.exp(logs - shift)
    total = table.sum(axis=over)
    with np.errstate(divide="ignore", invalid="ignore"):
        table /= total
        return table, np.log(total) + shift


def evaluate_factors(problem: Problem, axes: Mapping[str, Axis], evidence: Evidence) -> dict[int, Values]:
    """Return the logarithms of all factors of a problem, by number."""
    return {number: source.logs(axes, evidence) for number, source in enumerate(problem.sources)}


@dataclass(frozen=True)
class _Evaluated:
    """The cells of some rows, ascending, and the log marginals at their nodes without weights (cells, ORDER, rows)."""

    rows: NDArray[np.intp]
    low: Values
    high: Values
    logs: Values


@dataclass
class PointwiseMarginal:
    """Evaluates the log marginal of the only variable with nodes; rows come again with some cells halved."""

    problem: Problem
    _batches: list[_Evaluated] = field(default_factory=list)

    def evaluate(self, axis: NodeAxis, rows: NDArray[np.intp], evidence: Evidence) -> Values:
        """Return the log marginal at the nodes with the logarithms of their weights, (nodes, rows).

        Parameters
        ----------
        rows : ndarray of ascending row numbers, all of which were together in earlier rounds
        evidence : that of these rows
        """
        (name,) = self.problem.nodes
        finding = evidence.findings.get(name)
        used = axis.high > axis.low
        if finding is not None:
            # an observed value has the first node
            used[0] |= finding.observed
        logs = np.full((len(axis.low), ORDER, len(rows)), -np.inf)
        known = self._recall(axis, rows, logs)
        cell, row = np.nonzero(used & ~known)
        if len(cell):
            points = axis.points.reshape(-1, ORDER, len(rows))[cell, :, row].T
            ends = axis.low[cell, row][None], axis.high[cell, row][None]
            axes: Mapping[str, Axis] = {
                **self.problem.axes,
                name: NodeAxis(*ends, np.ascontiguousarray(points), np.ones(points.shape)),
            }
            logs[cell, :, row] = self._evaluate_cells(axes, evidence.take(row, len(row)), rows[row]).T
        batch = _Evaluated(rows, axis.low, axis.high, logs)
        self._batches = [other for other in self._batches if other.rows[0] > rows[-1] or other.rows[-1] < rows[0]]
        self._batches.append(batch)
        return logs.reshape(-1, len(rows)) + take_logs(axis.weights)

    def _evaluate_cells(self, axes: Mapping[str, Axis], evidence: Evidence, rows: NDArray[np.intp]) -> Values:
        """Return the log marginal at the nodes of cells, each of the row with that number and evidence."""
        (logs,) = self.problem.placement.run_log(evaluate_factors(self.problem, axes, evidence))
        return logs if logs.ndim == 2 else np.repeat(logs[:, None], evidence.rows, axis=1)

    def _recall(self, axis: NodeAxis, rows: NDArray[np.intp], logs: Values) -> NDArray[np.bool_]:
        """Fill in what was evaluated in the last round, and return for which cells (cells, rows)."""
        known = np.zeros(axis.low.shape, dtype=bool)
        for batch in self._batches:
            place = np.minimum(np.searchsorted(batch.rows, rows), len(batch.rows) - 1)
            if not (batch.rows[place] == rows).all():
                continue
            low, high = batch.low[:, place], batch.high[:, place]
            _, code = np.unique(np.concatenate([low, axis.low]), return_inverse=True)
            keys = code.reshape(-1, len(rows)) * len(rows) + np.arange(len(rows))
            # cells of width zero at the end of a row come last among those with the same key
            before, now = keys[: len(low)].ravel(), keys[len(low) :].ravel()
            order = np.argsort(before, kind="stable")
            match = order[np.minimum(np.searchsorted(before[order], now), len(order) - 1)]
            same = (before[match] == now) & (high.ravel()[match] == axis.high.ravel()) & (axis.high > axis.low).ravel()
            chosen = np.flatnonzero(same)
            old_cell, row = np.divmod(match[chosen], len(rows))
            logs[chosen // len(rows), :, row] = batch.logs[old_cell, :, place[row]]
            known.ravel()[chosen] = True
            break
        return known


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


def group_rows(observed: Mapping[str, NDArray[np.bool_]], rows: int) -> list[tuple[frozenset[str], NDArray[np.intp]]]:
    """Return the patterns of what is observed in some rows, each with the numbers of its rows.

    Parameters
    ----------
    observed : by name, whether a variable is observed (rows,)
    rows : the number of rows

    Examples
    --------
    >>> [(sorted(known), own.tolist()) for known, own in group_rows({"a": np.array([True, False, True])}, 3)]
    [([], [1]), (['a'], [0, 2])]
    """
    if not observed:
        return [(frozenset(), np.arange(rows))]
    patterns, group = np.unique(np.array(list(observed.values())), axis=1, return_inverse=True)
    group = group.ravel()
    numbers = np.split(np.argsort(group, kind="stable"), np.cumsum(np.bincount(group))[:-1])
    return [
        (frozenset(name for name, known in zip(observed, pattern, strict=True) if known), own)
        for pattern, own in zip(patterns.T, numbers, strict=True)
    ]


_Patterns: TypeAlias = Callable[[Iterable[str]], list[tuple[Observed, NDArray[np.intp]]]]
"""Returns the groups of rows that are observed in the same ones of some names."""


@dataclass(eq=False)
class PatternProgram:
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
    _steps: dict[tuple[int, Observed, tuple[bool, ...]], ProgramStep] = field(default_factory=dict, repr=False)
    _factors: dict[int, tuple[Values, float]] = field(default_factory=dict, repr=False)
    _tables: dict[tuple[int, Observed], Values] = field(default_factory=dict, repr=False)
    _matrices: dict[tuple[int, Observed], Values] = field(default_factory=dict, repr=False)

    def estimate_bytes(self) -> int:
        """Return about how many bytes the tables take that do not depend on the evidence."""
        arrays = [array for array, _ in list(self._factors.values())]
        arrays += [*list(self._tables.values()), *list(self._matrices.values())]
        # a matrix may be a view of a table
        buffers = {id(array if array.base is None else array.base): array.nbytes for array in arrays}
        return sum(buffers.values()) + self.program.estimate_bytes()

    def run(self, axes: Mapping[str, Axis], evidence: Evidence) -> PatternRun:
        """Run in linear arithmetic."""
        findings, partly = evidence.findings, frozenset(self.partly_observed)

        @cache
        def group(names: Observed) -> list[tuple[Observed, NDArray[np.intp]]]:
            return group_rows({name: findings[name].observed for name in sorted(names)}, evidence.rows)

        def patterns(names: Iterable[str]) -> list[tuple[Observed, NDArray[np.intp]]]:
            return group(partly.intersection(names))

        log_scale = np.zeros(evidence.rows)
        groups = [self._evaluate(n, axes, evidence, patterns, log_scale) for n in range(len(self.sources))]
        kept = self._known_bytes()
        slots: Any = self.program.execute(
            self.program.steps, enumerate(groups), lambda step, slots: self._apply(step, slots, patterns)
        )
        if self._known_bytes() != kept and self.program.on_growth is not None:
            self.program.on_growth()
        tables = [
            _give_rows(slots[output], patterns(scope))
            for output, scope in zip(self.program.outputs, self.program.scopes, strict=True)
        ]
        total = np.empty(evidence.rows)
        for rows, table in tables[0].values():
            total[rows] = table.sum(axis=tuple(range(table.ndim - 1)))
        return PatternRun(tables, total, log_scale, ~(total > SUSPICIOUS))

    def _known_bytes(self) -> int:
        return len(self._tables) + len(self._matrices) + len(self._factors)

    def _evaluate(
        self, number: int, axes: Mapping[str, Axis], evidence: Evidence, patterns: _Patterns, log_scale: Values
    ) -> dict[Observed, RowGroup]:
        """Return a factor for each group of rows, and add its log scale."""
        source = self.sources[number]
        result = {}
        for observed, rows in patterns(source.names):
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
            part = evidence.evidence(own.mentions)
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

    def _apply(self, step: ProgramStep, slots: Sequence[Any], patterns: _Patterns) -> dict[Observed, RowGroup]:
        """Do a step for each pattern of its variables; rows that differ in a variable summed out are joined."""
        names = [self.program.names[slot] for slot in step.inputs]
        out = self.program.names[step.output]
        results: dict[Observed, list[tuple[NDArray[np.intp], RowGroup]]] = {}
        for observed, rows in patterns(chain.from_iterable(names)):
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

    def _multiply(self, step: ProgramStep, observed: Observed, inputs: Sequence[RowGroup]) -> Values:
        arrays = [group.array for group in inputs]
        plan = self._plan(step, observed, tuple(group.rows is not None for group in inputs))
        if step.divide:
            return divide_tables(plan.subscripts, arrays)
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

    def _plan(self, step: ProgramStep, observed: Observed, rows: tuple[bool, ...]) -> ProgramStep:
        """Return a step for one pattern of what is observed."""
        key = step.output, observed, rows
        plan = self._steps.get(key)
        if plan is None:
            names = [[n for n in self.program.names[slot] if n not in observed] for slot in step.inputs]
            out = [n for n in self.program.names[step.output] if n not in observed]
            subscripts = write_subscripts(names, rows, out, any(rows))
            product = None
            cells = [self._cells(own) for own in names]
            if len(names) == 2 and not step.divide and not all(rows) and sum(cells) >= ENOUGH:
                product = plan_matrix_product(names, rows, out, cells)
            plan = self._steps[key] = step._replace(subscripts=subscripts, product=product)
        return plan

    def _cells(self, names: Sequence[str]) -> float:
        return float(np.prod([float(self.sizes[name]) for name in names]))


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
