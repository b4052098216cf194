"""Closed-form elimination of hidden linear Gaussian variables.

The potentials that mention a connected set of hidden linear Gaussian variables are regressions;
`hybridbn.inference.gaussian_conditioning` conditions them on what is observed in each row, for each configuration of
hidden discrete parents that the row allows. What it takes as given are observed values and the nodes of other hidden
variables.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from hybridbn.inference.axes import Axis, node_axis_of
from hybridbn.inference.elimination.factors import FactorSource
from hybridbn.inference.evidence import Evidence
from hybridbn.inference.gaussian_conditioning import Conditional, OneSystem, Regressions, solve_conditionals
from hybridbn.potentials.base import PointCells, Potential
from hybridbn.variables import Codes, Discrete, Values, encode_configurations

MOST_KEPT_NUMBERS = 1 << 16
"""Numbers in regressions that are kept with the component."""
BLOCK_NUMBERS = 1 << 22
"""Numbers in regressions that are made for some rows and configurations at a time."""
SMALLEST_UNIFORM = 1e-16
"""Uniform numbers below this give no more extreme draws."""


@dataclass(frozen=True)
class _Cases:
    """Rows with one configuration of the hidden discrete parents each.

    Attributes
    ----------
    regressions : Regressions
    index : ndarray (cases,)
        The configuration of all discrete parents, as the regressions number it.
    configuration, row : ndarray (cases,)
    values : ndarray (rows, columns)
    hidden : ndarray (rows, closed)
    """

    regressions: Regressions
    index: Codes
    configuration: Codes
    row: Codes
    values: Values
    hidden: NDArray[np.bool_]


@dataclass(frozen=True)
class GaussianComponent(FactorSource):
    """A connected set of hidden linear Gaussian variables with all the potentials that mention them.

    Attributes
    ----------
    closed : names of the variables eliminated here (in rows where one is observed, its value is used)
    names : hidden discrete parents and hidden continuous variables with nodes: the dimensions of the factor
    hard : names observed in every row
    cells : the cells that stand for the points of variables with nodes
    """

    potentials: tuple[Potential, ...]
    closed: tuple[str, ...]
    hard: frozenset[str]
    cells: Mapping[str, PointCells]

    @property
    def mentions(self) -> list[str]:
        """All variables of the potentials."""
        return [name for potential in self.potentials for name in potential.scope]

    def count_work(self, sizes: Mapping[str, int]) -> float:
        """Return about how many cells of other tables take as long as this factor."""
        return math.prod(float(sizes[name]) for name in self.names) * (len(self.closed) + 1) ** 2

    def moments(
        self, targets: Sequence[str], axes: Mapping[str, Axis], evidence: Evidence, *, pairs: bool = True
    ) -> tuple[Values, Values]:
        """Return means (targets, *names, rows) and covariances (targets, targets, *names, rows) of closed variables, or
        variances (targets, *names, rows).

        They are those given the axes' points and the evidence.
        """
        columns, shared = [self.closed.index(name) for name in targets], self._find_one_system(evidence)
        if shared is not None:
            system, known = shared
            products = _combine_roots(system.root[None, columns], pairs)
            slopes, constant = system.mean
            mean = slopes[columns] @ known
            mean += constant[columns, None]
            return mean, products if len(known.T) == 1 else np.broadcast_to(
                products, (*products.shape[:-1], known.shape[1])
            )
        count = len(targets)
        mean = self._fill_array(0.0, axes, evidence, count)
        spread = self._fill_array(0.0, axes, evidence, *[count] * (2 if pairs else 1))
        for cases, part in self._solve(evidence, axes):
            constants = cases.regressions.constants[cases.index[part.cases]][:, columns].T
            self._write_means(mean, targets, cases, part, axes, constants)
            products = _combine_roots(_target_roots(part, columns), pairs)[..., part.system]
            moving = np.isnan(constants)
            products = products * (moving[:, None] & moving if pairs else moving)
            self._write(spread, cases, part, products[..., None, :])
        return self._arrange_by_name(mean, axes, evidence), self._arrange_by_name(spread, axes, evidence)

    def draw(self, order: Sequence[str], uniforms: Mapping[str, Values], evidence: Evidence) -> dict[str, Values]:
        """Draw all closed variables of a component without other hidden ones, each by a uniform number and those before
        it.

        Parameters
        ----------
        order : sequence of str
            In which the closed variables are drawn.
        """
        from scipy.special import ndtri

        closed = tuple(sorted(self.closed, key=order.index, reverse=True))
        component = replace(self, closed=closed, rows=True, static=False)
        noise = ndtri(np.clip(np.array([uniforms[name] for name in closed]), SMALLEST_UNIFORM, 1 - SMALLEST_UNIFORM)).T
        drawn = np.empty((evidence.rows, len(closed)))
        for cases, part in component._solve(evidence, {}, separately=True):
            row, columns = cases.row[part.cases][:, None], part.columns[part.system]
            drawn[row[:, 0]] = cases.values[row[:, 0], : len(closed)]
            drawn[row, columns] = part.draw(noise[row, columns])
        return dict(zip(closed, drawn.T, strict=True))

    # -- results over all configurations, points and rows ---------------------------------------------------------

    def logs(self, axes: Mapping[str, Axis], evidence: Evidence, *, at_peak: bool = False) -> Values:
        """Return the log density of the rest with the closed variables integrated out, or at their most probable
        values.
        """
        shared = self._find_one_system(evidence)
        if shared is not None:
            system, known = shared
            slopes, constant = system.residual
            residuals = slopes @ known
            residuals += constant[:, None]
            logs: Values = np.einsum("ir,ir->r", residuals, residuals)
            logs *= -0.5
            logs += system.log_scale if at_peak else system.log_constant
            return logs
        result = self._fill_array(-np.inf, axes, evidence)
        for cases, part in self._solve(evidence, axes):
            log_constant = part.log_scale if at_peak else part.log_constant
            residual = part.residual
            if residual.shape[2] == 1:
                squares = np.einsum("cij,cij->c", residual, residual)[None]
            else:
                if residual.shape[1] > residual.shape[2]:
                    # no more equations than numbers that they are made of
                    residual = np.asarray(np.linalg.qr(residual, mode="r"))
                squares = self._evaluate_at_points(residual, axes, cases.row[part.cases])
                squares = np.einsum("igc,igc->gc", squares, squares)
            self._write(result, cases, part, log_constant - 0.5 * squares)
        result = self._arrange_by_name(result, axes, evidence)
        return result if self.rows else result[..., 0]

    def _fill_array(self, value: float, axes: Mapping[str, Axis], evidence: Evidence, *leading: int) -> Values:
        """Return an array (*leading, configurations, points, rows)."""
        configurations = math.prod(axes[name].size for name in self._hidden_discrete)
        points = math.prod(axes[name].size for name in self._with_nodes)
        return np.full([*leading, configurations, points, evidence.rows if self.rows else 1], value)

    def _write(self, result: Values, cases: _Cases, part: Conditional, values: Values) -> None:
        """Write values (..., points, cases) where they belong."""
        configuration, row = cases.configuration[part.cases], cases.row[part.cases]
        if result.shape[-3] == 1 and len(row) == result.shape[-1] and (row[1:] > row[:-1]).all():
            result[..., 0, :, :] = values
            return
        points = np.arange(result.shape[-2])[:, None]
        result[..., configuration, points, row] = values

    def _write_means(
        self,
        result: Values,
        targets: Sequence[str],
        cases: _Cases,
        part: Conditional,
        axes: Mapping[str, Axis],
        constants: Values,
    ) -> None:
        row = cases.row[part.cases]
        for number, name in enumerate(targets):
            column = self.closed.index(name)
            there, place = part.rows_of(column)
            if not there.any():
                mean = cases.values[row, column][None]
            else:
                chosen = (
                    part.mean[:, place] if len(place) == 1 else part.mean[np.arange(len(row)), None, place[part.system]]
                )
                mean = self._evaluate_at_points(chosen, axes, row)[0]
                if not there.all():
                    mean = np.where(there[part.system], mean, cases.values[row, column])
            mean = np.where(np.isnan(constants[number]), mean, constants[number])
            self._write(result[number], cases, part, mean)

    def _evaluate_at_points(self, linear: Values, axes: Mapping[str, Axis], row: Codes) -> Values:
        """Return linear functions (cases, m, 1 + open) of the open variables at all their points, which begin at the
        middle ones: (m, points, cases).
        """
        moved = np.moveaxis(linear, 0, -1)
        total = moved[:, 0].reshape([len(moved), *[1] * len(self._with_nodes), len(row)])
        for number, name in enumerate(self._with_nodes):
            points = self.cells[name].snap(node_axis_of(axes, name).points)
            points = points - points[len(points) // 2]
            known = points[:, row] if points.ndim == 2 and points.shape[1] > 1 else points.reshape(-1, 1)
            shape = [len(points) if other == name else 1 for other in self._with_nodes]
            coefficient = moved[:, number + 1].reshape([len(moved), *[1] * len(self._with_nodes), len(row)])
            total = total + coefficient * known.reshape([1, *shape, known.shape[1]])
        sizes = [axes[name].size for name in self._with_nodes]
        return np.broadcast_to(total, [len(moved), *sizes, len(row)]).reshape(len(moved), math.prod(sizes), len(row))

    def _arrange_by_name(self, array: Values, axes: Mapping[str, Axis], evidence: Evidence) -> Values:
        """Turn (..., configurations, points, rows) into (..., *names, rows)."""
        leading, order = array.shape[:-3], [*self._hidden_discrete, *self._with_nodes]
        sizes = [axes[name].size for name in order]
        array = array.reshape([*leading, *sizes, array.shape[-1]])
        count = len(leading)
        turn = [*range(count), *(count + order.index(name) for name in self.names), count + len(order)]
        array = array.transpose(turn)
        if array.shape[-1] != evidence.rows and not self.rows:
            array = np.broadcast_to(array, [*array.shape[:-1], evidence.rows])
        return array

    # -- rows that share one system ---------------------------------------------------------------------------------

    def _find_one_system(self, evidence: Evidence) -> tuple[OneSystem, Values] | None:
        """Return the system of all rows if they differ in nothing but the values of variables observed in all of them,
        none of which is far from zero, and these values, a variable each.
        """
        everything = None if self.names or not self.rows else self._all_regressions
        if everything is None or not evidence.findings.keys().isdisjoint(self.closed) or everything.one_system is None:
            return None
        known = np.array([evidence.findings[name].values for name in self._outside]).reshape(-1, evidence.rows)
        known -= everything.origin.center[len(self.closed) :, None]
        farthest = np.maximum(known.max(axis=1, initial=0.0), -known.min(axis=1, initial=0.0))
        near = (farthest <= everything.origin.limits[len(self.closed) :]).all()
        return (everything.one_system, known) if near else None

    # -- cases ----------------------------------------------------------------------------------------------------

    def _solve(
        self, evidence: Evidence, axes: Mapping[str, Axis], separately: bool = False
    ) -> Iterator[tuple[_Cases, Conditional]]:
        """Condition the rows with each configuration that they allow on the observed values."""
        for cases in self._cases(evidence, axes):
            for part in solve_conditionals(
                cases.regressions, cases.index, cases.row, cases.values, cases.hidden, separately=separately
            ):
                yield cases, part

    def _cases(self, evidence: Evidence, axes: Mapping[str, Axis]) -> Iterator[_Cases]:
        """Yield the rows with each configuration that they allow."""
        rows = evidence.rows if self.rows else 1
        # a column's values stand together
        values = np.full((len(self.closed) + len(self._outside) + len(self._with_nodes), rows), np.nan).T
        for column, name in enumerate((*self.closed, *self._outside)):
            if name in evidence.findings:
                values[:, column] = evidence.findings[name].values
        for column, name in enumerate(self._with_nodes, len(self.closed) + len(self._outside)):
            points = self.cells[name].snap(node_axis_of(axes, name).points)
            values[:, column] = points[len(points) // 2]
        hidden = np.isnan(values[:, : len(self.closed)])
        known = [name for name in self._discrete if name in self.hard]
        codes = np.array([evidence.findings[name].values for name in known], dtype=np.intp)
        everything = self._all_regressions
        count = math.prod(len(self._discrete[name]) for name in self._hidden_discrete)
        step, block = rows, count
        if everything is None:
            block = min(max(BLOCK_NUMBERS // self._width, 1), count)
            step = max(BLOCK_NUMBERS // (block * self._width), 64)
        for start in range(0, rows, step):
            some = np.arange(start, min(start + step, rows))
            for first in range(0, count, block):
                states = _list_states(self._discrete, self._hidden_discrete, first, min(first + block, count))
                configuration, row = self._find_allowed(evidence, some, states)
                if everything is not None:
                    every = [
                        states[name][configuration] if name in states else codes[known.index(name)][row]
                        for name in self._discrete
                    ]
                    index = encode_configurations(every, [len(v) for v in self._discrete.values()], len(row))
                    yield _Cases(everything, index, configuration, row, values, hidden)
                    continue
                seen, which = codes[:, None], np.zeros(len(some), dtype=np.intp)
                if known:
                    seen, which = np.unique(codes[:, some], axis=1, return_inverse=True)
                indices = {name: code[None, :] for name, code in states.items()}
                indices.update({name: own[:, None] for name, own in zip(known, seen, strict=True)})
                shape = seen.shape[1], min(block, count - first)
                regressions = self._regressions(indices, shape, kept=False)
                index = which.ravel()[row - start] * shape[1] + configuration
                yield _Cases(regressions, index, configuration + first, row, values, hidden)

    def _find_allowed(self, evidence: Evidence, rows: Codes, states: Mapping[str, Codes]) -> tuple[Codes, Codes]:
        """Return the configurations of hidden discrete parents that are possible in each row, and their rows."""
        count = len(next(iter(states.values()))) if states else 1
        if not states:
            return np.zeros(len(rows), dtype=np.intp), rows
        possible = np.ones((count, len(rows)), dtype=bool)
        if not self.static:
            for name, state in states.items():
                finding = evidence.findings.get(name)
                if finding is not None:
                    possible &= ~finding.observed[rows] | (state[:, None] == finding.values[rows])
        configuration, place = np.nonzero(possible)
        return configuration, rows[place]

    @cached_property
    def _discrete(self) -> dict[str, Discrete]:
        """The discrete parents, by name."""
        return {v.name: v for p in self.potentials for v in p.parents if isinstance(v, Discrete)}

    @cached_property
    def _hidden_discrete(self) -> tuple[str, ...]:
        """The hidden discrete parents."""
        return tuple(name for name in self.names if name in self._discrete)

    @cached_property
    def _with_nodes(self) -> tuple[str, ...]:
        """The hidden continuous variables with nodes."""
        return tuple(name for name in self.names if name not in self._discrete)

    @cached_property
    def _outside(self) -> tuple[str, ...]:
        """The continuous variables that the potentials mention beside the closed ones, observed in every row."""
        mentioned = dict.fromkeys(v.name for p in self.potentials for v in p.variables if not isinstance(v, Discrete))
        return tuple(name for name in mentioned if name not in self.closed and name not in self._with_nodes)

    @property
    def _width(self) -> int:
        return len(self.potentials) * (len(self.closed) + len(self._outside) + len(self._with_nodes) + 1)

    @cached_property
    def _all_regressions(self) -> Regressions | None:
        """The regressions of all configurations; None where these are many."""
        count = math.prod(map(len, self._discrete.values()))
        if count * self._width > MOST_KEPT_NUMBERS:
            return None
        return self._regressions(_list_states(self._discrete, self._discrete, 0, count), (count,), kept=True)

    def _regressions(self, states: Mapping[str, Codes], shape: tuple[int, ...], *, kept: bool) -> Regressions:
        columns = (*self.closed, *self._outside, *self._with_nodes)
        return Regressions.of(
            self.potentials, columns, len(self.closed), states, shape, opened=len(self._with_nodes), kept=kept
        )


def _list_states(discrete: Mapping[str, Discrete], names: Collection[str], first: int, last: int) -> dict[str, Codes]:
    """Return the states of discrete variables in some of the configurations of those with the names."""
    sizes = [len(discrete[name]) for name in names]
    codes = np.unravel_index(np.arange(first, last), sizes) if sizes else ()
    return dict(zip(names, codes, strict=True))


def _target_roots(part: Conditional, columns: Sequence[int]) -> Values:
    """Return the rows of the root of some columns (systems, columns, hidden); zeros where one is observed."""
    roots = np.zeros((len(part.columns), len(columns), part.columns.shape[1]))
    for number, column in enumerate(columns):
        there, place = part.rows_of(column)
        roots[there, number] = part.root[there, place[there]]
    return roots


def _combine_roots(roots: Values, pairs: bool) -> Values:
    """Return the covariances (columns, columns, systems) from the rows of roots (systems, columns, hidden), or the
    variances (columns, systems).
    """
    return np.moveaxis(roots @ np.swapaxes(roots, 1, 2), 0, -1) if pairs else np.einsum("sti,sti->ts", roots, roots)
