"""Axes: the points at which inference looks at each variable, the weights of those points, and how far each continuous
variable reaches, by its prior and by what is observed right below it.

Kinds of axes
-------------
* states of a discrete variable;
* an observed value: one point, which takes no dimension;
* cells of a continuous variable whose children see nothing but its cell and whose own mass in a cell is exact;
* composite Gauss-Legendre nodes of any other hidden continuous variable, laid for each row where its posterior is.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from hybridbn.potentials.base import Interval, PointCells, Potential, all_states
from hybridbn.variables import Continuous, Values

if TYPE_CHECKING:
    from hybridbn.inference.compilation import Problem
    from hybridbn.inference.evidence import Evidence, Finding

ORDER = 12
"""Gauss-Legendre nodes in a cell."""


@dataclass(frozen=True)
class StateAxis:
    """All states of a discrete variable."""

    size: int

    @property
    def points(self) -> NDArray[Any]:
        """The codes."""
        return all_states(self.size)


@dataclass(frozen=True)
class CellAxis:
    """The cells between `edges` (cells + 1,), each represented by one of its points."""

    edges: Values

    @property
    def size(self) -> int:
        """Number of cells."""
        return len(self.edges) - 1

    @property
    def points(self) -> Values:
        """One inner point of each cell."""
        return cell_points(self.edges)


@dataclass(frozen=True)
class NodeAxis:
    """Gauss-Legendre nodes in cells that lie apart or side by side.

    Attributes
    ----------
    low, high : ndarray (cells, rows)
        A cell of width zero is unused.
    points : ndarray (cells * ORDER, rows)
        Observed rows have their value everywhere.
    weights : ndarray (cells * ORDER, rows)
        Observed rows have one weight of one.
    """

    low: Values
    high: Values
    points: Values
    weights: Values

    @property
    def size(self) -> int:
        """Number of nodes."""
        return len(self.points)

    def take(self, rows: NDArray[np.intp]) -> NodeAxis:
        """Return the axis of some rows."""
        return NodeAxis(*(array[:, rows] for array in (self.low, self.high, self.points, self.weights)))


Axis: TypeAlias = StateAxis | CellAxis | NodeAxis


def node_axis_of(axes: Mapping[str, Any], name: str) -> NodeAxis:
    """Return the Gauss-Legendre axis of a variable."""
    axis = axes[name]
    if not isinstance(axis, NodeAxis):
        raise TypeError(f"{name!r} has no nodes")
    return axis


def cell_points(edges: Values) -> Values:
    """Return an inner point of each cell; the outer cells may be infinite.

    Examples
    --------
    >>> cell_points(np.array([-np.inf, 0.0, 1.0, np.inf])).tolist()
    [-1.0, 0.5, 2.0]
    """
    low, high = edges[:-1], edges[1:]
    finite_low, finite_high = np.isfinite(low), np.isfinite(high)
    with np.errstate(invalid="ignore"):
        middle = np.where(finite_low & finite_high, low + (high - low) / 2, 0.0)
    outside = 1.0 + np.abs(np.where(finite_low, low, np.where(finite_high, high, 0.0)))
    middle = np.where(finite_low & ~finite_high, low + np.maximum(outside * 0.5, 1.0), middle)
    return np.where(~finite_low & finite_high, high - np.maximum(outside * 0.5, 1.0), middle)


@lru_cache(maxsize=8)
def legendre(order: int = ORDER) -> tuple[Values, Values, Values]:
    """Return nodes and weights on [-1, 1] and the matrix from values at the nodes to Legendre coefficients."""
    nodes, weights = np.polynomial.legendre.leggauss(order)
    basis = np.polynomial.legendre.legvander(nodes, order - 1)
    to_coefficients = (basis * weights[:, None]).T * (np.arange(order) + 0.5)[:, None]
    return nodes, weights, to_coefficients


def node_axis(low: Values, high: Values, observed: Values | None = None) -> NodeAxis:
    """Lay nodes in cells (cells, rows); rows with an observed value (not NaN) get that point alone."""
    nodes, weights, _ = legendre()
    half = (high - low) / 2
    points = (low + half)[:, None, :] + half[:, None, :] * nodes[:, None]
    spread = half[:, None, :] * weights[:, None]
    rows = low.shape[1]
    points, spread = points.reshape(len(low) * ORDER, rows), spread.reshape(len(low) * ORDER, rows)
    if observed is not None:
        known = ~np.isnan(observed)
        points = np.where(known, observed, points)
        first = np.zeros((len(points), 1))
        first[0] = 1.0
        spread = np.where(known, first, spread)
    return NodeAxis(low, high, points, spread)


def pack_cells(
    low: Values, high: Values, use: NDArray[np.bool_], size: int, otherwise: Values
) -> tuple[Values, Values, NDArray[np.intp]]:
    """Return the cells in use first, followed by cells of width zero at their end, `size` in all; and their order."""
    order = np.argsort(~use, axis=0, kind="stable")[:size]
    lows, highs, used = (np.take_along_axis(part, order, axis=0) for part in (low, high, use))
    end = np.where(used, highs, -np.inf).max(axis=0)
    end = np.where(np.isfinite(end), end, otherwise)
    return np.where(used, lows, end), np.where(used, highs, end), order


def as_slice(rows: NDArray[np.intp]) -> NDArray[np.intp] | slice:
    """Return numbers of rows that follow each other as a slice, with which arrays are read and written much faster.

    Examples
    --------
    >>> as_slice(np.array([3, 4, 5])), as_slice(np.array([3, 5, 4]))
    (slice(3, 6, None), array([3, 5, 4]))
    """
    if not len(rows) or rows[-1] - rows[0] != len(rows) - 1 or (rows[1:] <= rows[:-1]).any():
        return rows
    return slice(int(rows[0]), int(rows[-1]) + 1)


def arrange_by_row(row: NDArray[np.intp], values: Values, rows: int, blank: Values | float) -> Values:
    """Return values (entries,) or (entries, each), each entry with its row, as an array (numbers, rows), in which rows
    with fewer entries than others end with `blank`.

    Examples
    --------
    >>> arrange_by_row(np.array([0, 2, 0]), np.array([1.0, 2.0, 3.0]), 3, 0.0)
    array([[1., 0., 2.],
           [3., 0., 0.]])
    """
    order = np.argsort(row, kind="stable")
    row, values = row[order], values[order].reshape(len(row), math.prod(values.shape[1:]))
    rank = np.arange(len(row)) - np.searchsorted(row, row)
    shape = int(rank.max(initial=0)) + 1, values.shape[1], rows
    arranged = np.empty(shape)
    arranged[...] = blank
    arranged[rank, :, row] = values
    return arranged.reshape(-1, rows)


def find_prior_ranges(problem: Problem) -> dict[str, tuple[float, float, bool, bool]]:
    """Return for every continuous variable an interval that holds the prior, and whether the density may go on
    beyond.
    """
    ranges: dict[str, tuple[Values, Values]] = {}
    result = {}
    for name in sort_topologically(problem.potentials):
        potential = problem.potentials[name]
        if isinstance(potential.child, Continuous):
            within = ranges_of_others(potential, name, ranges)
            low, high = _expand_interval(potential.support(name, 1e-17, within), 1)
            least, most = _expand_interval(potential.support(name, 0.0), 1)
            ranges[name] = low, high
            result[name] = (float(low[0]), float(high[0]), bool(low[0] > least[0]), bool(high[0] < most[0]))
    return result


def find_evidence_ranges(problem: Problem, evidence: Evidence) -> dict[str, tuple[Values, Values]]:
    """Return for every continuous variable an interval (rows each) that holds prior and likelihood."""
    rows = evidence.rows
    ranges: dict[str, tuple[Values, Values]] = {}
    for name, finding in evidence.findings.items():
        if isinstance(finding.variable, Continuous) and name in problem.hard:
            ranges[name] = finding.values, finding.values
    ordered = sort_topologically(problem.potentials)
    for name in ordered:
        potential = problem.potentials[name]
        if not isinstance(potential.child, Continuous) or name in problem.hard:
            continue
        low, high = _expand_interval(potential.support(name, 1e-17, ranges_of_others(potential, name, ranges)), rows)
        ranges[name] = _clip_to_evidence(evidence.findings.get(name), low, high, potential.point_cells)
    for name in reversed(ordered):
        potential, told = problem.potentials[name], evidence.findings.get(name)
        # parents of what is observed, or confined to an interval, may lie far out; what is hidden pulls its parents as
        # far as evidence below pulls it, and grids grow where it turns out so
        if told is None or not told.confined.any():
            continue
        known = told.confined
        for parent in potential.parents:
            if not isinstance(parent, Continuous) or parent.name in problem.hard:
                continue
            low, high = ranges[parent.name]
            reach = _expand_interval(
                potential.support(parent.name, 1e-17, ranges_of_others(potential, parent.name, ranges)), rows
            )
            low = np.where(known & np.isfinite(reach[0]), np.minimum(low, reach[0]), low)
            high = np.where(known & np.isfinite(reach[1]), np.maximum(high, reach[1]), high)
            ranges[parent.name] = clip_to_support(problem, parent, low, high, evidence)
    # infinite ends become large ones
    return {name: (np.clip(low, -1e150, 1e150), np.clip(high, -1e150, 1e150)) for name, (low, high) in ranges.items()}


def clip_to_support(
    problem: Problem, variable: Continuous, low: Values, high: Values, evidence: Evidence
) -> tuple[Values, Values]:
    """Clip to where the density can be positive at all and to interval evidence."""
    ends = variable.domain
    own = problem.potentials.get(variable.name)
    if own is not None:
        strict = _expand_interval(own.support(variable.name, 0.0), len(low))
        low, high = np.clip(low, *strict), np.clip(high, *strict)
    cells = None if own is None else own.point_cells
    low, high = _clip_to_evidence(evidence.findings.get(variable.name), low, high, cells)
    return np.clip(low, *ends), np.clip(high, *ends)


def _clip_to_evidence(
    finding: Finding | None, low: Values, high: Values, point_cells: PointCells | None
) -> tuple[Values, Values]:
    """Clip a range to interval evidence, which has its ends' points with it, and shrink it to a value where there is
    one.

    Evidence may lie where the range does not reach, out in the tails: then it starts at the end of the evidence that
    is nearer, and is as long as it was.
    """
    if finding is None:
        return low, high
    reach = finding.reach
    if reach is not None:
        least, most = reach if point_cells is None else point_cells.widen(*reach)
        with np.errstate(invalid="ignore"):  # of what is not chosen
            length = high - low
            above, below = least >= high, most <= low
            low, high = (
                np.where(above, least, np.where(below, np.maximum(least, most - length), np.maximum(low, least))),
                np.where(below, most, np.where(above, np.minimum(most, least + length), np.minimum(high, most))),
            )
    return np.where(finding.observed, finding.values, low), np.where(finding.observed, finding.values, high)


def ranges_of_others(
    potential: Potential, name: str, ranges: Mapping[str, tuple[Values, Values]]
) -> dict[str, Interval]:
    """Return the ranges of the other variables of a potential that are known."""
    return {other: ranges[other] for other in potential.scope if other != name and other in ranges}


def _expand_interval(interval: Interval, rows: int) -> tuple[Values, Values]:
    low, high = interval
    return np.broadcast_to(np.asarray(low, float), (rows,)), np.broadcast_to(np.asarray(high, float), (rows,))


def sort_topologically(potentials: Mapping[str, Potential]) -> list[str]:
    """Return the children of some potentials, parents first."""
    left = {name: {p.name for p in potential.parents} & potentials.keys() for name, potential in potentials.items()}
    below: dict[str, list[str]] = {name: [] for name in potentials}
    for name, above in left.items():
        for parent in above:
            below[parent].append(name)
    ready = [name for name, above in left.items() if not above]
    ordered = []
    while ready:
        name = ready.pop()
        ordered.append(name)
        for child in below[name]:
            left[child].discard(name)
            if not left[child]:
                ready.append(child)
    return ordered
