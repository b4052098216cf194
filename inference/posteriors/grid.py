"""Posteriors on Gauss-Legendre cells: piecewise polynomials, and mixtures of shapes that all rows share.

Posteriors of variables that inference saw through their cells only: the prior's shape in each cell, reweighted.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.polynomial.legendre import legint, legval
from numpy.typing import NDArray

from hybridbn.inference.axes import ORDER, CellAxis, cell_points, legendre, node_axis, pack_cells
from hybridbn.inference.compilation import Problem
from hybridbn.inference.evidence import Evidence
from hybridbn.inference.posteriors.continuous import NOTHING, Density
from hybridbn.potentials.base import NO_POINTS, PointCells, Potential, solve_increasing, take_logs
from hybridbn.variables import Continuous, Discrete, Values

if TYPE_CHECKING:
    from hybridbn.potentials import MTE

TAIL_DENSITY = 1e-4
"""Relative to the largest density of a cell, a density above which polynomials are accurate."""
MOST_BEYOND = 1e-11
"""Where more mass than this seems to lie beyond the end of a grid, the density ends there: else it were longer."""
LEAST = 1e-12
"""A tail has ended where a moment gains less than this, relative to its scale, with each doubling of the grid; and its
power is told no better.
"""
MOST_POWER = 20.0
"""A tail that falls faster holds nothing beyond the grid."""
MOST_DOUBT = 1e-6
"""A moment exists if what lies beyond the grid can be told so well, relative to its scale."""
_TO_INTEGRALS = np.asarray(legint(np.eye(ORDER), lbnd=-1), dtype=np.float64)
"""From the coefficients of a Legendre series to those of its integral from -1."""


class PiecewisePosterior(Density):
    """A density given at Gauss-Legendre nodes in cells, which is a polynomial in every cell.

    Parameters
    ----------
    low, high : ndarray (cells, rows)
        Ascending, those of width zero last (a row of nothing else is an observed value).
    masses : ndarray (cells * ORDER, rows)
        Probability at every node; sums to one.
    point_cells : PointCells, optional
        Cells that stand for points. There the density is their mass, and values are the points.
    """

    _by_row: ClassVar[tuple[str, ...]] = ("_masses", "_low", "_high")

    def __init__(
        self,
        variable: Continuous,
        low: Values,
        high: Values,
        masses: Values,
        single: bool,
        error: Values,
        log_evidence: Any,
        point_cells: PointCells = NO_POINTS,
    ):
        super().__init__(variable, single, error, log_evidence)
        self._low, self._high, self._masses = low, high, masses
        self._point_cells = point_cells

    @classmethod
    def of(
        cls, variable: Continuous, low: Values, high: Values, masses: Values, point_cells: PointCells
    ) -> PiecewisePosterior:
        """Return the density on a grid for rows that are to be joined; cells without mass are left out."""
        return PiecewisePosterior(
            variable, *drop_empty_cells(low, high, masses), False, np.zeros(low.shape[1]), None, point_cells
        )

    def _fill_up(self, name: str) -> float | Values:
        return 0.0 if name == "_masses" else np.asarray(self._high[-1])

    @property
    def error(self) -> Any:
        """Estimated absolute error of the probabilities, with what lies beside points in their cells."""
        points, low, high = (ends[:, None, None] for ends in self._point_cells)
        width = np.where(self._high > self._low, self._high - self._low, np.inf)
        density = self._masses.reshape(len(width), ORDER, -1).sum(axis=1) / width
        beside = np.where((self._high == low) | (self._low == high), density, 0.0).max(axis=1, initial=0.0)
        far = np.maximum(np.abs(high - points), np.abs(low - points))[:, 0]
        return self._rows_first(np.maximum(self._error, (beside * far).sum(axis=0)))

    def _measure_spread(self, _: Values) -> Values:
        """Return mean and variance with what lies beyond the grid; NaN where a tail is too heavy for them."""
        return self._add_tails(*self.integrate_moments())

    def integrate_moments(self) -> tuple[Values, Values]:
        """Return mean and variance on the grid, and what they gain beyond it (2, rows each); NaN where that can't be
        told.
        """
        points = self._point_cells.snap(node_axis(self._low, self._high).points)
        mean, orders = np.sum(points * self._masses, axis=0), np.array([[1], [2]])
        inner = np.stack([mean, np.sum((points - mean) ** 2 * self._masses, axis=0)])
        gains = np.zeros_like(inner)
        scales = np.stack([np.sum(np.abs(points - mean) * self._masses, axis=0), inner[1]])
        rows, last = np.arange(len(mean)), (self._high > self._low).sum(axis=0) - 1
        for sign, cell, limit in zip((-1, 1), (last * 0, last), self.variable.domain, strict=True):
            x, masses = (
                each.reshape(len(self._low), ORDER, len(rows))[cell, :, rows].T[::sign]
                for each in (points, self._masses)
            )
            power, doubt, distance, density = _fit_power(x, masses, self._low[cell, rows], self._high[cell, rows])
            open_end = (power > 0) & (power < MOST_POWER) & (density * distance < MOST_BEYOND) & np.isinf(limit)
            with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
                gain, excess = density * distance ** (orders + 1) / scales, power - orders - 1
                exists = gain * doubt < MOST_DOUBT * excess * np.abs(excess)
                beyond = np.where(exists, sign**orders * gain * scales / excess, np.where(gain > LEAST, np.nan, 0.0))
                gains += np.where(open_end, beyond, 0.0)
        gains[1] += 0 * gains[0]
        return inner, gains

    def _local_coefficients(self, cell: NDArray[np.intp]) -> Values:
        """Legendre coefficients of the density times half its cell's width, in one cell a point: (ORDER, m, rows)."""
        _, weights, transform = legendre()
        values = self._masses.reshape(len(self._low), ORDER, -1)[cell, :, np.arange(cell.shape[1])]
        return np.asarray(np.einsum("kq,mrq->kmr", transform / weights, values))

    def _locate(self, x: Values) -> tuple[NDArray[np.intp], Values, NDArray[np.bool_]]:
        """Return the cell of each point, its place in [-1, 1], and whether it is inside any cell."""
        used = self._high > self._low
        columns = np.arange(x.shape[1])
        position = np.stack([(used & (self._low <= row)).sum(axis=0) for row in x]) - 1
        cell = np.maximum(position, 0)
        low, high = self._low[cell, columns], self._high[cell, columns]
        width = np.where(high > low, high - low, 1.0)
        return cell, np.clip(2 * (x - low) / width - 1, -1, 1), (position >= 0) & (x <= high)

    def _pdf(self, x: Values) -> Values:
        cell, position, inside = self._locate(x)
        half = (self._high - self._low)[cell, np.arange(x.shape[1])] / 2
        density = legval(position, self._local_coefficients(cell), tensor=False) / np.where(half > 0, half, 1.0)
        density = np.where(inside, np.maximum(density, 0.0), np.where(np.isnan(density), np.nan, 0.0))
        return self._put_masses(x, density)

    def _measure_points(self) -> Values:
        per_cell = self._masses.reshape(len(self._low), ORDER, -1).sum(axis=1)
        _, low, high = (ends[:, None, None] for ends in self._point_cells)
        return np.asarray(np.where((self._low >= low) & (self._high <= high), per_cell, 0.0).sum(axis=1))

    def _mode(self, _: Values) -> Values:
        return _keep_blank(self._masses[0], self._point_cells.snap(super()._mode(_)))

    def _masses_below(self) -> Values:
        """Probability below each cell, and in all (cells + 1, rows)."""
        per_cell = self._masses.reshape(len(self._low), ORDER, -1).sum(axis=1)
        return np.concatenate([np.zeros((1, per_cell.shape[1])), np.cumsum(per_cell, axis=0)])

    def _cdf(self, x: Values) -> Values:
        x = self._point_cells.move_above(x)
        cell, position, _ = self._locate(x)
        columns = np.arange(x.shape[1])
        before = self._masses_below()
        beyond = x >= self._high[cell, columns]
        series = np.tensordot(_TO_INTEGRALS, self._local_coefficients(cell), 1)
        partial = before[cell, columns] + legval(position, series, tensor=False)
        probability = np.where(beyond, before[cell + 1, columns], partial)
        # the sum of all masses is 1 but for rounding
        probability = np.where(beyond & (x >= self._high[-1]), 1.0, probability)
        return _keep_blank(before[-1], np.where(x < self._low[0], 0.0, np.clip(probability, 0.0, 1.0)))

    def _quantile(self, levels: Values) -> Values:
        """Find the cell by its probabilities, then solve for the place in it."""
        before = self._masses_below()
        columns = np.arange(levels.shape[1])
        cell = np.stack([np.clip((before < level).sum(axis=0) - 1, 0, len(before) - 2) for level in levels])
        coefficients = self._local_coefficients(cell)
        excess = levels * before[-1] - before[cell, columns]
        position = _solve_series(coefficients.reshape(ORDER, -1), excess.ravel()).reshape(levels.shape)
        values = self._low[cell, columns] + (self._high - self._low)[cell, columns] / 2 * (1 + position)
        return _keep_blank(before[-1], self._point_cells.snap(values))

    def knots(self) -> tuple[Values, Values]:
        """Return points (knots, rows) and the cdf there, from (nearly) zero to (nearly) one."""
        before = self._masses_below()
        return (
            np.sort(np.concatenate([self._low, self._high]), axis=0),
            np.sort(np.concatenate([before[:-1], before[1:]]), axis=0),
        )


def _fit_power(x: Values, masses: Values, low: Values, high: Values) -> tuple[Values, Values, Values, Values]:
    """Fit c |x - origin|^-power to a cell of each row.

    The density over its slope grows by 1 / power with each unit, wherever the origin is; where the tail has no power,
    it hardly grows, or shrinks.

    Parameters
    ----------
    x, masses : ndarray (ORDER, rows)
        Nodes, outward, and the probability at each.
    low, high : ndarray (rows,)

    Returns
    -------
    power, doubt, distance, density : ndarrays (rows,)
        The power and how uncertain it is; the distance of the outer end from the origin, and the density there.
    """
    between, half = (x[1:] + x[:-1]) / 2, ORDER // 2
    with np.errstate(all="ignore"):
        logs = np.log(masses / (legendre()[1][:, None] * (high - low) / 2))
        lengths = np.diff(x, axis=0) / -np.diff(logs, axis=0)
        for _ in range(6):
            outer, inner = (
                (lengths[to] - lengths[start]) / (between[to] - between[start]) for start, to in ((half, -1), (0, half))
            )
            origin = between[-1] - lengths[-1] / outer
            # a power has the slope of its chord at the logarithmic mean of both ends
            between = origin + np.diff(x, axis=0) / np.diff(np.log(np.abs(x - origin)), axis=0)
        distance = np.abs(np.where(x[-1] > x[0], high, low) - origin)
        density = np.exp(logs[-1] - np.log(distance / np.abs(x[-1] - origin)) / outer)
        return 1 / outer, np.maximum(np.abs(1 / inner - 1 / outer), LEAST), distance, density


def _keep_blank(masses: Values, values: Values) -> Values:
    """Return values (..., rows), NaN in rows whose masses (rows,) are."""
    return np.where(np.isnan(masses), np.nan, values)


def _solve_series(coefficients: Values, goals: Values) -> Values:
    """Return where the integrals of some Legendre series (ORDER, series) from -1 reach their goals."""
    integrals, ends = _TO_INTEGRALS @ coefficients, np.ones(len(goals))

    def evaluate(position: Values, series: NDArray[np.intp]) -> tuple[Any, Any]:
        reached = legval(position, integrals[:, series], tensor=False)
        return reached, legval(position, coefficients[:, series], tensor=False)

    return solve_increasing(evaluate, goals, -ends, ends, 0 * ends, tolerance=0.0)


def drop_empty_cells(low: Values, high: Values, masses: Values) -> tuple[Values, Values, Values]:
    """Bring the cells in which there is any mass to the front and cut the others off; ends of rows are filled up.

    Parameters
    ----------
    low, high : ndarray (cells, rows)
    masses : ndarray (cells * ORDER, rows)
    """
    turned = masses.reshape(len(low), ORDER, -1)
    used = (high > low) & ~(turned.sum(axis=1) < NOTHING)
    most = max(int(used.sum(axis=0).max(initial=1)), 1)
    # a row without cells is an observed value: all its mass stays in the first node
    filled = used | ~used.any(axis=0)
    low, high, order = pack_cells(low, high, used, most, high[0])
    turned = np.take_along_axis(turned, order[:, None], axis=0)
    filled = np.take_along_axis(filled, order, axis=0)
    return low, high, np.where(filled[:, None], turned, 0.0).reshape(-1, low.shape[1])


class CellPosterior(PiecewisePosterior):
    """A mixture of shapes that all rows share, with weights for each row.

    Parameters
    ----------
    low, high : ndarray (cells, 1)
    shapes : ndarray (cells * ORDER, shapes)
        Probabilities at the nodes; each shape sums to one.
    weights : ndarray (shapes, rows)
    closed_form : _ClosedForm
        From the weights of one row to the density as an MTE, or None if it is none.
    values : ndarray (rows,), optional
        Observed values of rows that have one, NaN elsewhere.
    """

    _by_row = ("_weights", "_values")

    def __init__(
        self,
        variable: Continuous,
        low: Values,
        high: Values,
        shapes: Values,
        weights: Values,
        closed_form: _ClosedForm,
        single: bool,
        error: Values,
        log_evidence: Any,
        values: Values | None = None,
    ):
        Density.__init__(self, variable, single, error, log_evidence)
        self._shared_low, self._shared_high, self._shapes, self._weights = low, high, shapes, weights
        self._values = values
        self._closed_form = closed_form

    def _as_mte(self, **options: Any) -> MTE:
        from hybridbn.potentials import MTE

        exact = None if options else self._closed_form(self._weights[:, 0])
        return exact if isinstance(exact, MTE) else super()._as_mte(**options)

    def _with_values(self, array: Values) -> Values:
        """Give rows with an observed value that value."""
        return array if self._values is None else np.where(np.isnan(self._values), array, self._values)

    def _pdf(self, x: Values) -> Values:
        return np.exp(self._log_pdf(x))

    def _log_pdf(self, x: Values) -> Values:
        density = super()._pdf(x)
        places = self._find_tails(density)
        logs = take_logs(density)
        logs[places] = self._closed_form.log_density(x[places], self._weights[:, places[1]])
        return np.asarray(logs)

    def _find_tails(self, density: Values) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Return point and row where the density (points, rows) is too small for a polynomial to have its digits."""
        width = self._shared_high - self._shared_low
        largest = (self._shapes.reshape(len(width), ORDER, -1).sum(axis=1) / width) @ self._weights
        small = density < TAIL_DENSITY * largest.max(axis=0)
        if self._values is not None:
            small &= np.isnan(self._values)
        point, row = np.nonzero(small)
        return point, row

    @property
    def _width(self) -> int:
        return 3 * len(self._shapes)

    @property
    def _low(self) -> Values:  # type: ignore[override]
        return self._with_values(np.broadcast_to(self._shared_low, (len(self._shared_low), self._weights.shape[1])))

    @property
    def _high(self) -> Values:  # type: ignore[override]
        return self._with_values(np.broadcast_to(self._shared_high, (len(self._shared_high), self._weights.shape[1])))

    @property
    def _masses(self) -> Values:  # type: ignore[override]
        masses = np.asarray(self._shapes @ self._weights)
        if self._values is not None:
            # a row without cells has all its mass in the first node
            known = ~np.isnan(self._values) & ~np.isnan(masses[0])
            masses[:, known] = 0.0
            masses[0, known] = 1.0
        return masses

    def _measure_spread(self, _: Values) -> Values:
        points = node_axis(self._shared_low, self._shared_high).points
        means = (points * self._shapes).sum(axis=0)
        within = np.sum((points - means) ** 2 * self._shapes, axis=0)
        # deviations from the middle of all shapes, so that a distant origin costs no digits
        middle = float(means.mean())
        mean = (means - middle) @ self._weights
        variance = within @ self._weights + np.sum(self._weights * ((means - middle)[:, None] - mean) ** 2, axis=0)
        if self._values is not None:
            variance = np.where(np.isnan(self._values), variance, variance * 0.0)
        return np.stack([self._with_values(mean + middle), variance])


TAIL = 1e-17
ENOUGH = 1e-13
ROUNDS = 12


def cell_posterior(
    problem: Problem,
    name: str,
    axis: CellAxis,
    table: Values,
    evidence: Evidence,
    error: Values,
) -> CellPosterior:
    """Return the posterior whose probabilities of hidden parents and cells are `table` (*parents, cells, rows)."""
    potential = problem.potentials[name]
    child = potential.child
    assert isinstance(child, Continuous)
    points: dict[str, Any] = {}
    for position, parent in enumerate(potential.parents):
        if parent.name not in problem.hard:
            points[parent.name] = problem.axes[parent.name].points
            continue
        # an observed parent gets a dimension in which each row has one place
        values = evidence.findings[parent.name].values
        if isinstance(parent, Discrete):
            points[parent.name], chosen = np.arange(len(parent)), values
        else:
            inner = potential.breaks(parent.name)
            inner = inner[(inner > parent.domain[0]) & (inner < parent.domain[1])]
            points[parent.name] = cell_points(np.concatenate([parent.domain[:1], inner, parent.domain[1:]]))
            chosen = np.searchsorted(inner, values, side="right")
        places = np.arange(len(points[parent.name]))[:, None] == chosen
        shape = [len(places) if i == position else 1 for i in range(table.ndim)]
        table = np.expand_dims(table, position) * places.reshape([*shape, len(chosen)])
    low, high, shapes = _shapes(potential, points, axis)
    weights, closed_form = table.reshape(-1, table.shape[-1]), _ClosedForm(potential, axis.edges, points)
    own = evidence.findings.get(name)
    observed = own.values if own is not None and own.observed.any() else None
    return CellPosterior(child, low, high, shapes, weights, closed_form, evidence.single, error, None, observed)


@dataclass(frozen=True)
class _ClosedForm:
    """The posterior as the variable's own potential times a function that is constant in each cell, parents summed
    out.
    """

    potential: Potential
    edges: Values
    points: Mapping[str, Any]

    def __call__(self, weights: Values) -> Potential | None:
        if any(isinstance(parent, Continuous) for parent in self.potential.parents):
            return None
        mass, scale = self.potential.mass(self.points, self.edges)
        cell_weights = weights.reshape(mass.shape)
        factors = np.divide(cell_weights, mass * np.exp(scale), out=np.zeros_like(cell_weights), where=cell_weights > 0)
        return self.potential.reweighted(self.edges, factors)

    def log_density(self, x: Values, weights: Values) -> Values:
        """Return the log density at points (points,), each with weights of its own (*parents and cells, points)."""
        mass, scale = self.potential.mass(self.points, self.edges)
        cell = np.clip(np.searchsorted(self.edges, x, side="right") - 1, 0, len(self.edges) - 2)
        with np.errstate(divide="ignore", invalid="ignore"):
            masses = np.broadcast_to(np.log(mass) + scale, mass.shape).reshape(-1, mass.shape[-1])
            logs = self.potential.log_on({**self.points, self.potential.child.name: x}).reshape(len(masses), len(x))
            shares = np.log(weights.reshape(*masses.shape, len(x))[:, cell, np.arange(len(x))])
            terms = np.where(shares > -np.inf, shares + logs - masses[:, cell], -np.inf)
        return np.asarray(np.logaddexp.reduce(terms, axis=0))


def _shapes(potential: Potential, points: dict[str, Any], axis: CellAxis) -> tuple[Values, Values, Values]:
    """Return fine cells and, for each combination of parents and cell, the probability at every node given that cell.

    The fine cells cut the axis' cells at the potential's own breaks, and are halved until the density is a polynomial
    in each.
    """
    name = potential.child.name
    support = potential.support(name, TAIL)
    low_end, high_end = float(np.min(support[0])), float(np.max(support[1]))
    edges = np.concatenate([[low_end], axis.edges, potential.breaks(name), [high_end]])
    edges = np.unique(np.clip(edges, low_end, high_end))
    nodes, weights, transform = legendre()
    for _ in range(ROUNDS):
        low, high = edges[:-1], edges[1:]
        half = (high - low) / 2
        x = ((low + half)[:, None] + half[:, None] * nodes).ravel()
        density, scale = potential.on({**points, name: x})
        values = density.reshape(-1, len(low), ORDER) * np.exp(np.max(scale)) * half[:, None]
        coefficients = np.einsum("kq,pcq->pck", transform, values)
        rough = (np.abs(coefficients[..., -2:]).max(axis=-1) > ENOUGH).any(axis=0)
        if not rough.any():
            break
        edges = np.sort(np.concatenate([edges, (low + half)[rough]]))
    masses = (values * weights).reshape(values.shape[0], -1)
    cell = np.clip(np.searchsorted(axis.edges, (low + half), side="right") - 1, 0, axis.size - 1)
    inside = np.repeat(cell, ORDER)[:, None] == np.arange(axis.size)
    per_cell = masses[:, :, None] * inside
    total = per_cell.sum(axis=1, keepdims=True)
    shapes = np.divide(per_cell, total, out=np.zeros_like(per_cell), where=total > 0)
    return low[:, None], high[:, None], np.moveaxis(shapes, 1, 0).reshape(len(x), -1)
