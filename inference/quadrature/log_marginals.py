"""Log marginals of variables with nodes, from which the quality of grids is judged.

They are computed in logarithms, which do not underflow however far out the posterior is. Where a problem has nodes for
one variable, its log marginal at a node depends on that node and on the row alone. So cells of earlier rounds of
refinement keep their values, and only new ones are evaluated, those of all rows together.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from hybridbn.inference.axes import ORDER, Axis, NodeAxis
from hybridbn.inference.evidence import Evidence
from hybridbn.inference.problem import Problem
from hybridbn.variables import Values

__all__ = ["PointwiseMarginal", "evaluate_factors"]


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
            logs[cell, :, row] = self._evaluate_cells(axes, evidence.take(row, len(row))).T
        batch = _Evaluated(rows, axis.low, axis.high, logs)
        self._batches = [other for other in self._batches if other.rows[0] > rows[-1] or other.rows[-1] < rows[0]]
        self._batches.append(batch)
        with np.errstate(divide="ignore"):
            return logs.reshape(-1, len(rows)) + np.log(axis.weights)

    def _evaluate_cells(self, axes: Mapping[str, Axis], evidence: Evidence) -> Values:
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
