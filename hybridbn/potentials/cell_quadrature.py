"""The conditional density of a continuous child, integrated on cells for every row of its parents.

Cells are laid around the peak of the density, which is searched in its logarithm, around the declared breaks, and
within the declared support; they are halved until Gauss-Legendre quadrature agrees with itself.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from hybridbn.errors import NetworkError
from hybridbn.potentials.base import Axes, Potential, freeze
from hybridbn.potentials.mode_search import REACHES, evaluate, lay_edges
from hybridbn.variables import Codes, Values

__all__ = ["NODES", "TAIL", "WEIGHTS", "IntegrationCells", "integrate_cells", "lay_cells", "lay_shared_cells"]

NODES, WEIGHTS = (freeze(array) for array in np.polynomial.legendre.leggauss(10))
ENDS = freeze([2.0**-30 - 1, 1 - 2.0**-30])
EXTRAPOLATION = freeze(
    np.polynomial.legendre.legvander(ENDS, 9) @ np.linalg.inv(np.polynomial.legendre.legvander(NODES, 9))
)
TAIL = 1e-16
CELL_TOLERANCE = 1e-14
HIDDEN_TOLERANCE = 1e-10
CELLS = 1 << 16
MOST_CELLS = 1 << 21
_SHARING = 64
"""So many rows share where they begin to look."""
_OUTSIDE = 1e-20
_SAME_MASS = 1e-11
"""The masses of neighboring rows differ by rounding only, if their cells cover all."""


class IntegrationCells(NamedTuple):
    """Cells of every row in increasing order, (rows, cells); those that fill up short rows are empty."""

    low: Values
    high: Values
    masses: Values
    reached: Values
    """The mass up to the end of the cell."""

    @property
    def totals(self) -> Values:
        """The mass of every row."""
        return np.asarray(self.reached[:, -1])


def integrate_cells(potential: Potential, given: Axes, rows: Codes, low: Values, high: Values) -> tuple[Values, Values]:
    """Integrate over cells; also tell what a jump near an end, between the nodes and the end, could have hidden."""
    result, hidden = np.empty(len(low)), np.empty(len(low))
    for start in range(0, len(low), CELLS):
        block = slice(start, start + CELLS)
        half = 0.5 * (high[block] - low[block])
        points = low[block] + half * (1 + np.concatenate((NODES, ENDS))[:, None])
        density = evaluate(potential, given, rows[block], points)
        result[block] = half * (WEIGHTS @ density[: len(NODES)])
        surprise = np.abs(density[len(NODES) :] - EXTRAPOLATION @ density[: len(NODES)])
        hidden[block] = half * (1 + NODES[0]) * surprise.sum(axis=0)
    return result, hidden


def lay_shared_cells(potential: Potential, given: Axes, tail: float = TAIL) -> IntegrationCells:
    """Lay cells for every row of the parents, which stand in order; those with similar parents share a beginning.

    Looking for where a density lies costs most. So it is done for some rows, and the rows between two of them begin
    with the cells of these where these have mass, halving them where they need it. A row with another mass than its
    neighbors have is looked at alone, so what is not seen is less than `_SAME_MASS`.
    """
    rows = len(next(iter(given.values()))) if given else 1
    if rows < 2 * _SHARING:
        return lay_cells(potential, given, tail)
    chosen = np.unique([*range(0, rows, _SHARING), rows - 1])
    known = _drop_outside(lay_cells(potential, {name: values[chosen] for name, values in given.items()}, tail))
    others = np.setdiff1d(np.arange(rows), chosen)
    left = np.searchsorted(chosen, others) - 1
    shared = {name: values[others] for name, values in given.items()}
    try:
        between = _halve_cells(potential, shared, _join_edges(known, left))
    except NetworkError:
        return lay_cells(potential, given, tail)
    like = np.abs(between.totals - known.totals[left]) <= _SAME_MASS
    like &= np.abs(between.totals - known.totals[left + 1]) <= _SAME_MASS
    parts = [(chosen, known), (others[like], IntegrationCells(*(table[like] for table in between)))]
    unlike = others[~like]
    for start in range(0, len(unlike), _SHARING):
        some = unlike[start : start + _SHARING]
        own = lay_cells(potential, {name: values[some] for name, values in given.items()}, tail)
        parts.append((some, _drop_outside(own)))
    width = max(cells.low.shape[1] for _, cells in parts)
    tables = np.zeros((3, rows, width))
    for numbers, cells in parts:
        for table, values in zip(tables, cells, strict=False):
            table[numbers, : values.shape[1]] = values
    return IntegrationCells(tables[0], tables[1], tables[2], np.cumsum(tables[2], axis=1))


def _drop_outside(cells: IntegrationCells) -> IntegrationCells:
    """Return cells without those beyond which there is next to no mass: uniforms are multiples of 2**-53, so nobody
    asks for these.
    """
    beyond = np.minimum(cells.reached, np.cumsum(cells.masses[:, ::-1], axis=1)[:, ::-1])
    rows, places = np.nonzero((cells.high > cells.low) & (beyond >= _OUTSIDE))
    return _arrange_cells(len(beyond), rows, *(table[rows, places] for table in cells[:3]))


def _join_edges(known: IntegrationCells, left: Codes) -> Values:
    """Return edges (edges, rows): the cells of the row on the left, and those of the next one beyond them."""
    empty = known.high <= known.low
    low = np.where(empty, np.nan, known.low)
    edges = np.concatenate((low, np.where(empty, np.nan, known.high)), axis=1)
    first, last = (function.reduce(edges, axis=1, keepdims=True) for function in (np.fmin, np.fmax))
    own, beyond = edges[left], edges[left + 1]
    beyond = np.where((beyond < first[left]) | (beyond > last[left]), beyond, np.nan)
    joined = np.sort(np.concatenate((own, beyond), axis=1), axis=1)
    # what is missing stands last and makes cells of no width
    end = np.fmax.reduce(joined, axis=1, keepdims=True)
    return np.where(np.isnan(joined), end, joined).T


def lay_cells(potential: Potential, given: Axes, tail: float = TAIL) -> IntegrationCells:
    """Lay cells, looking less far where a function fails far out, such as exp(x) / (1 + exp(x))**2 at 1000."""
    failure: NetworkError | None = None
    for reach in REACHES:
        try:
            return _halve_cells(potential, given, lay_edges(potential, given, reach, tail))
        except NetworkError as error:
            failure = failure or error
    raise failure or NetworkError(f"{potential.child.name!r} can't be integrated")


def _halve_cells(potential: Potential, given: Axes, edges: Values) -> IntegrationCells:
    """Halve the cells between edges (edges, rows) until quadrature agrees with itself."""
    rows = edges.shape[1]
    owner = np.tile(np.arange(rows), len(edges) - 1)
    low, high = edges[:-1].ravel(), edges[1:].ravel()
    wide = high > low
    owner, low, high = owner[wide], low[wide], high[wide]
    whole, _ = integrate_cells(potential, given, owner, low, high)
    done: list[tuple[Codes, Values, Values, Values]] = []
    for _ in range(64):  # after so many halvings any interval is down to neighboring doubles
        middle = low + 0.5 * (high - low)
        left, hidden_left = integrate_cells(potential, given, owner, low, middle)
        right, hidden_right = integrate_cells(potential, given, owner, middle, high)
        # a conditional density has no mass above 1; of what is none, a few digits are enough to refuse it
        least = np.maximum(whole, 1.0)
        fine = np.abs(left + right - whole) <= CELL_TOLERANCE * least
        fine &= hidden_left + hidden_right <= HIDDEN_TOLERANCE * least
        fine |= ~((middle > low) & (middle < high))
        both = np.concatenate((fine, fine))
        owner, low, high = np.tile(owner, 2), np.concatenate((low, middle)), np.concatenate((middle, high))
        whole = np.concatenate((left, right))
        done.append((owner[both], low[both], high[both], whole[both]))
        owner, low, high, whole = owner[~both], low[~both], high[~both], whole[~both]
        if not len(owner) or len(owner) > MOST_CELLS:
            break
    if len(owner):
        done.append((owner, low, high, whole))
    return _arrange_cells(rows, *(np.concatenate(part) for part in zip(*done, strict=True)))


def _arrange_cells(rows: int, owner: Codes, low: Values, high: Values, masses: Values) -> IntegrationCells:
    order = np.lexsort((low, owner))
    owner, low, high, masses = owner[order], low[order], high[order], masses[order]
    counts = np.bincount(owner, minlength=rows)
    width = max(int(counts.max(initial=0)), 1)
    place = np.arange(len(owner)) - (np.cumsum(counts) - counts)[owner]
    table = np.zeros((3, rows, width))
    table[:, owner, place] = low, high, masses
    return IntegrationCells(table[0], table[1], table[2], np.cumsum(table[2], axis=1))
