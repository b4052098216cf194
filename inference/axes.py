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
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from hybridbn.potentials.base import Interval, PointCells, Potential, all_states
from hybridbn.variables import Continuous, Discrete, Values

if TYPE_CHECKING:
    from hybridbn.inference.compilation import Problem
    from hybridbn.inference.evidence import Evidence, Finding
    from hybridbn.potentials import LinearGaussian

ORDER = 12
"""Gauss-Legendre nodes in a cell."""
PRIOR_TAIL = 1e-17
"""The mass of the prior outside of the range that is taken for its whole."""
FARTHER_TAIL = 1e-30
"""The mass outside of a wider range, by which one sees how fast the prior falls."""
NEARER = 16.0
"""The first cells grow from so many times nearer to the middle on than the steps in which peaks are looked for."""
CENTRAL_TAIL = 1e-6
"""The mass outside of the range in which other parents are looked for that can account for what is observed."""
WIDTHS_OF_PEAK = 5.0
"""Widths of a peak within which a variable may lie that it pulls."""
WIDTHS_TO_END = 9.0
"""Widths of a peak past which it is negligible."""


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


@dataclass(frozen=True)
class Ruler:
    """Marks the range of a variable evenly where its mass is, and farther out at distances that grow with how far that
    is: heavy tails reach a thousand times as far, and there is as little in them as they are long.

    Attributes
    ----------
    low, high : ndarray (rows,), the ranges
    center, reach : ndarray (rows,), the middle of the mass, and up to which distance from it marks are even
    """

    low: Values
    high: Values
    center: Values
    reach: Values

    @classmethod
    def of(cls, ends: tuple[Values, Values], central: Sequence[Values], nearer: float = 1.0) -> Ruler:
        """Return the ruler of ranges, nearly all of whose mass is between `central` ends; where tails are heavy, steps
        grow from so many times nearer on.
        """
        reach = central[1] - central[0]
        center = central[0] + reach / 2
        far = np.maximum(np.abs(ends[0] - center), np.abs(ends[1] - center))
        return cls(*ends, center, np.where((reach > 0) & (reach < far), reach / nearer, np.inf))

    def take(self, rows: NDArray[np.intp]) -> Ruler:
        """Return the ruler of some rows."""
        return Ruler(self.low[rows], self.high[rows], self.center[rows], self.reach[rows])

    @property
    def length(self) -> Values:
        """The lengths of the ranges in steps of the middle (rows,)."""
        return np.where(self.reach < np.inf, self._measure(self.high) - self._measure(self.low), self.high - self.low)

    def mark(self, shares: Values) -> Values:
        """Return the places (shares, rows) at some shares of the way from low to high.

        Examples
        --------
        >>> ends, central = [np.array([end]) for end in (-1e4, 1e4)], [np.array([end]) for end in (-5.0, 5.0)]
        >>> Ruler.of(ends, central).mark(np.linspace(0, 1, 9))[:, 0].round(1).tolist()
        [-10000.0, -1384.9, -191.8, -26.6, 0.0, 26.6, 191.8, 1384.9, 10000.0]
        """
        shares = shares[:, None]
        even = self.low + shares * (self.high - self.low)
        if np.isinf(self.reach).all():
            return even
        with np.errstate(all="ignore"):  # of ranges that are even
            way = self._measure(self.low) + shares * self.length
            away = np.where(np.abs(way) > self.reach, self.reach * np.exp(np.abs(way) / self.reach - 1), np.abs(way))
            places = np.clip(self.center + np.copysign(away, way), self.low, self.high)
        return np.where(np.isinf(self.reach) | (shares <= 0) | (shares >= 1), even, places)

    def stretch(self, points: Values, rows: NDArray[np.intp]) -> Values:
        """Return how many times longer steps are at points, each in its row, than in the middle."""
        return np.maximum(np.abs(points - self.center[rows]) / self.reach[rows], 1.0)

    def _measure(self, places: Values) -> Values:
        """Return the distances of places (rows,) from the center, in steps of the middle."""
        away = places - self.center
        with np.errstate(all="ignore"):
            far = self.reach * (1 + np.log(np.abs(away) / self.reach))
        return np.where(np.abs(away) > self.reach, np.copysign(far, away), away)


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


def find_prior_ranges(problem: Problem, tail: float = PRIOR_TAIL) -> dict[str, tuple[float, float, bool, bool]]:
    """Return for every continuous variable an interval that holds the prior but for a tail, and whether the density may
    go on beyond.
    """
    ranges: dict[str, tuple[Values, Values]] = {}
    result = {}
    for name in sort_topologically(problem):
        potential = problem.potentials[name]
        if isinstance(potential.child, Continuous):
            within = ranges_of_others(potential, name, ranges)
            low, high = _expand_interval(potential.support(name, tail, within), 1)
            least, most = _expand_interval(potential.support(name, 0.0), 1)
            ranges[name] = low, high
            result[name] = (float(low[0]), float(high[0]), bool(low[0] > least[0]), bool(high[0] < most[0]))
    return result


class PriorReach(NamedTuple):
    """How far the prior of a variable reaches.

    Attributes
    ----------
    low, high : past which it is negligible
    slopes : by how much its logarithm falls per unit below and above; infinite where it ends there
    central : ends between which it has nearly all of its mass
    expected : ends between which a value pulls no parent out of its reach, whatever the configuration
    """

    low: float
    high: float
    slopes: tuple[float, float]
    central: tuple[float, float]
    expected: tuple[float, float]

    def measure_fall(self, points: Values) -> Values:
        """Return by how much the logarithm of the prior has fallen at points past its reach, where it does not end."""
        below, above = (slope if math.isfinite(slope) else 0.0 for slope in self.slopes)
        return np.asarray(below * np.maximum(self.low - points, 0.0) + above * np.maximum(points - self.high, 0.0))


def find_prior_reaches(problem: Problem) -> Mapping[str, PriorReach]:
    """Return how far the prior of every continuous variable reaches, parents first; it is kept with the problem."""
    tables = problem.tables
    if tables.reaches is not None:
        return tables.reaches
    central, farther = find_prior_ranges(problem, CENTRAL_TAIL), find_prior_ranges(problem, FARTHER_TAIL)
    fall = math.log(PRIOR_TAIL / FARTHER_TAIL)
    reaches: dict[str, PriorReach] = {}
    for name, (low, high, below, above) in find_prior_ranges(problem).items():
        slopes = (
            fall / max(low - farther[name][0], 1e-300) if below else math.inf,
            fall / max(farther[name][1] - high, 1e-300) if above else math.inf,
        )
        expected = _find_expected_values(problem, name, reaches)
        reaches[name] = PriorReach(low, high, slopes, central[name][:2], expected)
    tables.reaches = reaches
    return reaches


def _find_expected_values(problem: Problem, name: str, reaches: Mapping[str, PriorReach]) -> tuple[float, float]:
    """Return ends between which values pull no parent out of its reach, given the reaches of the parents."""
    least, most = -math.inf, math.inf
    for regression in problem.potentials[name].list_regressions():
        parents = [parent.name for parent in regression.parents if isinstance(parent, Continuous)]
        if not problem.hard.union(problem.partly_observed).isdisjoint(parents) or not reaches.keys() >= set(parents):
            return math.inf, -math.inf
        within = {parent: reaches[parent].central for parent in parents}
        # past what the parents account for, a value pulls them, and the prior holds them where it falls more steeply
        slopes = np.abs(regression.coefficients)
        steepest = slopes.max(axis=tuple(range(slopes.ndim - 1)), initial=1e-300)
        with np.errstate(over="ignore"):  # where a parent counts for nothing
            held = min((min(reaches[p].slopes) / b for p, b in zip(parents, steepest, strict=True)), default=math.inf)
        for low, high, sd in regression.locate_peaks(name, within):
            slack = held * sd**2 / len(problem.potentials)
            least, most = max(least, float(np.max(low - slack))), min(most, float(np.min(high + slack)))
    return least, most


@dataclass
class Pull:
    """What is known of a variable and below it.

    Attributes
    ----------
    reach : of the prior
    low, high : between which it peaks, or is nearly as large (rows,); NaN where nothing is known
    rise : how steeply it rises past the ends of the reach (2, rows)
    least, most : past which it is negligible (rows,)
    """

    reach: PriorReach
    low: Values
    high: Values
    rise: Values
    least: Values
    most: Values

    @classmethod
    def of(cls, reach: PriorReach, finding: Finding | None, rows: int) -> Pull:
        """Take what is known of the variable itself; of an interval the place that is nearest to the prior."""
        place = np.full(rows, np.nan)
        if finding is not None:
            if finding.reach is not None:
                middle = (reach.central[0] + reach.central[1]) / 2
                place = np.where(finding.confined, np.clip(middle, *finding.reach), np.nan)
            place = np.where(finding.observed, finding.values, place)
        return cls(reach, place, place, np.zeros((2, rows)), place, place)

    def add(self, first: Values, last: Values, width: Values, possible: NDArray[np.bool_]) -> None:
        """Take peaks of a likelihood between first and last (configurations, rows)."""
        with np.errstate(all="ignore"):
            possible = possible & np.isfinite(first + last)
            past = np.stack([self.reach.low - last, first - self.reach.high])
            rise = np.where(possible & (past > 0), past / width**2, 0.0)
            middle = (self.reach.central[0] + self.reach.central[1]) / 2
            first, last = np.where(possible, first, np.nan), np.where(possible, last, np.nan)
            place = np.clip(middle, first - WIDTHS_OF_PEAK * width, last + WIDTHS_OF_PEAK * width)
            least, most = first - WIDTHS_TO_END * width, last + WIDTHS_TO_END * width
        self.rise = self.rise + rise.max(axis=1, initial=0.0)
        self.low, self.high = np.fmin(self.low, np.fmin.reduce(place)), np.fmax(self.high, np.fmax.reduce(place))
        self.least, self.most = np.fmin(self.least, np.fmin.reduce(least)), np.fmax(self.most, np.fmax.reduce(most))

    @property
    def out_of_reach(self) -> NDArray[np.bool_]:
        """The rows in which the likelihood rises more steeply than the prior falls past its reach.

        Such a mode may be so narrow that nothing of it is seen from within.
        """
        return np.asarray((self.rise > np.array(self.reach.slopes)[:, None]).any(axis=0))

    def confine(self, low: Values, high: Values) -> tuple[Values, Values]:
        """Return a range, shrunk to the peaks where these are out of reach."""
        out = self.out_of_reach
        return np.where(out, self.low, low), np.where(out, self.high, high)


def find_pulls(problem: Problem, evidence: Evidence) -> dict[str, Pull]:
    """Return where evidence pulls each continuous variable through linear regressions below it; nothing where all
    values are as expected.
    """
    findings, reaches = evidence.findings, find_prior_reaches(problem)
    if all(_is_expected(findings[name], reach) for name, reach in reaches.items() if name in findings):
        return {}
    pulls = {name: Pull.of(reach, findings.get(name), evidence.rows) for name, reach in reaches.items()}
    for name in list(reaches)[::-1]:
        for regression in problem.potentials[name].list_regressions():
            _pull_parents(regression, problem, evidence, pulls)
    return pulls


def _pull_parents(regression: LinearGaussian, problem: Problem, evidence: Evidence, pulls: Mapping[str, Pull]) -> None:
    """Note where a child pulls its parents, others of which may lie anywhere in the middle of what they can be."""
    own = pulls[regression.child.name]
    if np.isnan(own.low).all():
        return
    possible = _match_configurations(regression, evidence)
    within: dict[str, Interval] = {}
    for parent in pulls.keys() & set(regression.scope[:-1]):
        reach = pulls[parent].reach
        known = Pull.of(reach, evidence.findings.get(parent), evidence.rows).low
        low, high = reach.central
        within[parent] = np.where(np.isnan(known), low, known), np.where(np.isnan(known), high, known)
    for parent in within.keys() - problem.hard:
        for place in (own.low, own.high)[: 1 + (own.low is not own.high)]:
            start = 0
            for first, last, width in regression.locate_peaks(
                parent, {**within, regression.child.name: (place, place)}
            ):
                pulls[parent].add(first, last, width, possible[start : start + len(first)])
                start += len(first)


def _is_expected(finding: Finding, reach: PriorReach) -> bool:
    """Tell whether what is known of a variable agrees with its expected values in all rows."""
    least, most = reach.expected
    with np.errstate(invalid="ignore"):
        out = (finding.values < least) | (finding.values > most)
        if finding.reach is not None:
            out |= (finding.reach[0] > most) | (finding.reach[1] < least)
    return not out.any()


def _match_configurations(potential: Potential, evidence: Evidence) -> NDArray[np.bool_]:
    """Tell which configurations of the discrete parents agree with what is observed (configurations, rows)."""
    discrete = [parent for parent in potential.parents if isinstance(parent, Discrete)]
    result = np.ones((*map(len, discrete), evidence.rows), dtype=bool)
    for place, parent in enumerate(discrete):
        finding = evidence.findings.get(parent.name)
        if finding is not None:
            codes = np.arange(len(parent)).reshape(-1, *(1,) * (len(discrete) - place))
            result &= (finding.values < 0) | (finding.values == codes)
    return result.reshape(-1, evidence.rows)


def find_evidence_ranges(
    problem: Problem, evidence: Evidence, tail: float = PRIOR_TAIL
) -> dict[str, tuple[Values, Values]]:
    """Return for every continuous variable an interval (rows each) that holds prior, but for a tail, and likelihood."""
    rows = evidence.rows
    ranges = {
        name: (finding.values, finding.values)
        for name, finding in evidence.findings.items()
        if isinstance(finding.variable, Continuous) and name in problem.hard
    }
    ordered = sort_topologically(problem)
    for name in ordered:
        potential = problem.potentials[name]
        if not isinstance(potential.child, Continuous) or name in problem.hard:
            continue
        low, high = _expand_interval(potential.support(name, tail, ranges_of_others(potential, name, ranges)), rows)
        ranges[name] = _clip_to_evidence(evidence.findings.get(name), low, high, potential.point_cells)
    for name in reversed(ordered):
        potential, told = problem.potentials[name], evidence.findings.get(name)
        # parents of what is observed, or confined to an interval, may lie far out
        if told is None or not told.confined.any():
            continue
        known = told.confined
        for parent in potential.parents:
            if not isinstance(parent, Continuous) or parent.name in problem.hard:
                continue
            low, high = ranges[parent.name]
            reach = _expand_interval(
                potential.support(parent.name, tail, ranges_of_others(potential, parent.name, ranges)), rows
            )
            low = np.where(known & np.isfinite(reach[0]), np.minimum(low, reach[0]), low)
            high = np.where(known & np.isfinite(reach[1]), np.maximum(high, reach[1]), high)
            ranges[parent.name] = clip_to_support(problem, parent, low, high, evidence)
    _reach_pulls(problem, evidence, ranges)
    # infinite ends become large ones
    return {name: (np.clip(low, -1e150, 1e150), np.clip(high, -1e150, 1e150)) for name, (low, high) in ranges.items()}


def _reach_pulls(problem: Problem, evidence: Evidence, ranges: dict[str, tuple[Values, Values]]) -> None:
    """Extend ranges to where evidence pulls variables out of the reach of their priors."""
    for name, pull in find_pulls(problem, evidence).items():
        variable, (low, high), out = problem.potentials[name].child, ranges[name], pull.out_of_reach
        if isinstance(variable, Continuous) and name not in problem.hard:
            low, high = np.where(out, np.fmin(low, pull.least), low), np.where(out, np.fmax(high, pull.most), high)
            ranges[name] = clip_to_support(problem, variable, low, high, evidence)


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


def sort_topologically(problem: Problem) -> list[str]:
    """Return the names of a problem's potentials, parents first; components of mixtures come last."""
    depths = problem.snapshot.depths
    return sorted(problem.potentials, key=lambda name: depths.get(name, len(depths)))


def measure_hidden_kinks(axis: NodeAxis, coefficients: Values) -> Values:
    """Return the mass that kinks between the last node of each cell and its end hide from the nodes.

    The polynomials of two neighbors then disagree at their common end, by the change of slope times the distance of
    the kink from the end; it lies in the cell at which sign and size of that distance point. What disagrees otherwise
    jumps there, or is less smooth in the cells than at their ends, which the coefficients tell.
    """
    nodes, _, _ = legendre()
    width = axis.high - axis.low
    order = np.arange(coefficients.shape[1])
    signs, slopes = (-1.0) ** order, order * (order + 1.0)
    touching = (axis.high[:-1] == axis.low[1:]) & (width[:-1] > 0) & (width[1:] > 0)
    result = np.zeros_like(width)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        # the coefficients are those of densities times widths
        right, left = np.einsum("ckr->cr", coefficients) / width, np.einsum("k,ckr->cr", signs, coefficients) / width
        rising = np.einsum("k,ckr->cr", slopes, coefficients) / width**2
        starting = np.einsum("k,ckr->cr", -signs * slopes, coefficients) / width**2
        difference = left[1:] - right[:-1]
        distance = difference / (starting[1:] - rising[:-1])
        mass = np.where(touching, np.abs(0.5 * difference * distance), 0.0)
        room = (1 - nodes[-1]) * width  # twice what lies between node and end
        result[:-1] += np.where((distance > 0) & (distance <= room[:-1]), mass, 0.0)
        result[1:] += np.where((distance < 0) & (-distance <= room[1:]), mass, 0.0)
    return result


def measure_rounding_noise(axis: NodeAxis, slope: Values, peak: Values) -> Values:
    """Return the relative error of the density in each cell that is due to rounding alone.

    A node is a double, so the error of the log density is its slope times the spacing of doubles, and the logarithm
    itself is rounded. Splitting cells reduces neither.
    """
    width = np.where(axis.high > axis.low, axis.high - axis.low, 1.0)
    spacing = np.spacing(np.maximum(np.abs(axis.low), np.abs(axis.high)))
    return 8 * (spacing * slope / width + np.spacing(np.where(np.isfinite(peak), np.abs(peak), 1.0)))
