"""Axes: the points at which inference looks at each variable, and the weights of those points.

Kinds of axes
-------------
* states of a discrete variable;
* an observed value: one point, which takes no dimension;
* cells of a continuous variable whose children see nothing but its cell and whose own mass in a cell is exact;
* composite Gauss-Legendre nodes of any other hidden continuous variable, laid for each row where its posterior is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from hybridbn.potentials.base import all_states
from hybridbn.variables import Values

__all__ = [
    "Axis",
    "CellAxis",
    "NodeAxis",
    "StateAxis",
    "as_slice",
    "cell_points",
    "legendre",
    "node_axis",
    "node_axis_of",
]

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
