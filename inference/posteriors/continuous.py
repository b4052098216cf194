"""Posteriors of numbers."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, NamedTuple, Self, TypeAlias, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hybridbn.errors import TableError, warn_user
from hybridbn.inference.axes import ORDER, as_slice, node_axis
from hybridbn.inference.evidence import Interval
from hybridbn.inference.posteriors.base import Posterior, compute_entropy
from hybridbn.options import as_numbers
from hybridbn.potentials.base import NO_POINTS, PointCells, take_logs
from hybridbn.variables import Continuous, Grid, Values, shorten

if TYPE_CHECKING:
    from hybridbn.potentials import MTE


MOSTLY, TOLD = 0.99, 0.95
"""From this share of the mass at points on, a picture and a text show nothing but these."""
_END, _MOST_STEMS, _MOST_TOLD = 0.0025, 50, 12
"""The share of the mass at either end that a picture leaves out; so many neighbors on a grid have a stem each, and tell
a grid that has no more.
"""
BLOCK = 1 << 22
"""Numbers in a temporary array at the most, about."""
NOTHING = 1e-18
"""A cell, a part of a mixture or a state of less probability is left out."""
_PARTS_OF_CELL = 4
"""Into how many parts cells between knots are divided for modes and entropies."""
_OVER_ALL_CELLS = {"_mode": 1, "_entropy": ORDER}
"""Methods that are given no points and look at all cells, and at how many points of each part of a cell."""
_LEVELS = 100
"""The number of quantiles that scores are computed from where there is no closed form."""


class Trace(NamedTuple):
    """What pictures show of a density: stems at values that have a probability, and a curve of what is left.

    Attributes
    ----------
    values, probabilities : ndarray
        The stems.
    x, density : ndarray
        The curve over nearly all of what is left, with both sides of every jump; empty where nothing is. The area below
        it and the probabilities add up to 1, but for the ends that are left out.
    """

    values: Values
    probabilities: Values
    x: Values
    density: Values


class ContinuousPosterior(Posterior):
    """The density of a continuous variable."""

    variable: Continuous
    _point_cells: PointCells = NO_POINTS

    @abstractmethod
    def _by_rows(self, method: str, x: Values) -> Values:
        """Evaluate a method of `Density` at points (m, rows)."""

    def as_continuous(self) -> Self:
        """Return the posterior itself."""
        return self

    @property
    def point_cells(self) -> PointCells:
        """The values that may have mass, at which the density is their mass."""
        return self._point_cells

    @abstractmethod
    def knots(self) -> tuple[Values, Values]:
        """Return points (knots, rows) and the cdf there, from (nearly) zero to (nearly) one."""

    def _at_points(self, method: str, points: Values) -> Values:
        return self._by_rows(method, np.broadcast_to(points, (len(points), self._rows)))

    def trace(self, count: int = 100) -> Trace:
        """Return what pictures show of a single case, the curve at so many points or more.

        Each number has a stem where few of a grid are likely. Otherwise stems stand at points, and at an end of the
        grid to which what lies beyond it is rounded.

        Examples
        --------
        >>> import hybridbn as hb
        >>> rain = hb.Continuous("rain")
        >>> normal = hb.LinearGaussian(rain, intercept=5, variance=4)
        >>> net = hb.Network([hb.Atoms(rain, points=[0], probabilities=[0.25, 0.75], density=normal)])
        >>> trace = net.posterior("rain").trace()
        >>> trace.values, trace.probabilities, trace.density.max().round(2)
        (array([0.]), array([0.25]), np.float64(0.15))
        """
        low, high = self._at("_quantile", [_END, 1 - _END])
        grid, none = self.variable.grid or Grid(), np.empty(0)
        if not low < high:
            return Trace(np.array([low]), np.ones(1), none, none)
        if high - low < _MOST_STEMS * grid.step:
            first, last = grid.round([low, high]).tolist()
            values = grid.round(np.arange(first, last + grid.step / 2, grid.step))
            return Trace(values, np.array([self.probability(value) for value in values.tolist()]), none, none)
        points = self.point_cells.points
        masses = dict(zip(points.tolist(), self._at_points("_mass_at", points[:, None])[:, 0], strict=True))
        ends = np.clip([grid.low, np.nextafter(grid.high, -np.inf)], 2 * low - high, 2 * high - low)
        upto, below = self._at("_cdf", ends)
        masses |= {end: mass for end, mass in ((grid.low, upto), (grid.high, 1 - below)) if mass > 1 - MOSTLY}
        values, probabilities = np.array([pair for pair in sorted(masses.items()) if pair[1] > 0]).reshape(-1, 2).T
        x = self._list_abscissae(low, high, count) if probabilities.sum() < MOSTLY else none
        x = x[(x >= grid.low) & (x <= grid.high)]
        return Trace(values, probabilities, x, self.pdf(x) if len(x) else none)

    def _list_abscissae(self, low: float, high: float, count: int) -> Values:
        """Return where a curve is drawn: at both sides of jumps and of points, and not at points."""
        cells, margin = self.point_cells, 0.12 * (high - low)
        sides = [self.knots()[0][:, 0], 2 * cells.low - cells.high, 2 * cells.high - cells.low]
        x = np.concatenate([np.linspace(low - margin, high + margin, count), *sides])
        x = np.unique(np.concatenate([x, np.nextafter(x, -np.inf)]))
        return x[(x >= low - margin) & (x <= high + margin) & ~np.isin(cells.snap(x), cells.points)]

    def _read(self, values: ArrayLike, what: str) -> Values:
        array = np.asarray(values)
        if self.variable.unit is None or array.dtype.kind in "biuf":
            return as_numbers(values, what)
        return self.variable.values(array)

    def _judge(self, method: str, truth: ArrayLike) -> Any:
        """Return what a method tells of one true value of each row, NaN where that is missing."""
        values = self._read(truth, f"true values of {self.variable.name!r}")
        if values.shape != (() if self.single else (self._rows,)):
            wanted = "a number" if self.single else f"one number for each of the {self._rows} rows"
            raise TableError(f"the truth must be {wanted}, not an array of the shape {values.shape}")
        missing = np.isnan(values).reshape(-1)
        result = self._by_rows(method, np.where(missing, 0.0, values)[None])[0]
        return self._rows_first(np.where(missing, np.nan, result))

    def mode(self) -> Any:
        """Return where the density is largest (the first of several); of numbers on a grid, the likeliest."""
        modes, grid = self._by_rows("_mode", np.empty((1, self._rows))), self.variable.grid
        if grid is not None and grid.step:
            # beside a jump, rounding leads to where little is; points and ends, which hold what is beyond them, count
            # where pictures have stems
            others = np.array([*self.point_cells.points, *filter(math.isfinite, (grid.low, grid.high))])
            told = grid.round(modes + grid.step * np.array([[0.0], [-1.0], [1.0]]))
            told = np.concatenate([told, np.broadcast_to(others[:, None], (len(others), self._rows))])
            low, high = (told == end for end in grid.ends)
            weights = self._measure_between(
                told - np.where(low, math.inf, grid.step / 2), told + np.where(high, math.inf, grid.step / 2)
            )
            weights[3:] *= weights[3:] > 1 - MOSTLY
            modes = np.take_along_axis(told, np.argmax(weights, axis=0)[None], axis=0)
        return self._settle(self._rows_first(modes[0]))

    def probability(self, value: Any) -> Any:
        """Return the probability of one value: of a point, or of all numbers that are told as this one of a grid; or of
        an `Interval`, whose ends belong to it.
        """
        if isinstance(value, Interval):
            value.check(self.variable)
            ends = value.reach()
        else:
            ends = (self.variable.value(value),) * 2
        lower, upper = (np.full((1, self._rows), end) for end in self.variable.widen(*ends))
        return self._rows_first(self._measure_between(lower, upper)[0])

    def _measure_between(self, lower: Values, upper: Values) -> Values:
        """Return the probabilities of what lies between two ends or is one of them."""
        # at once, as rows that are worked out part by part are worked out for each question
        upto, below = np.split(self._by_rows("_cdf", np.concatenate([upper, lower])), 2)
        return np.asarray(upto - below + self._by_rows("_mass_at", lower))

    def _look_up(self, value: Any) -> Any:
        number, known = self.variable.value(value), self.point_cells.points
        if self.variable.widen(number, number) == (number, number) and number not in known:
            points = "".join(f", {point:g}" for point in known[:8])
            raise TableError(
                f"{self.variable.name!r}: {value!r:.80} is none of the values that have a probability of their own"
                f"{points}; a density is asked by pdf(x) and cdf(x)"
            )
        return self.probability(value)

    def _settle(self, result: Any) -> Any:
        if not self._is_numeric:
            return self.variable.restore(result)
        rounded = self.variable.round(result)
        return rounded if rounded.ndim else rounded.item()

    def mean(self) -> Any:
        """Return the expectation, a date or a time if values are."""
        mean = super().mean()
        return mean if self._is_numeric or self.variable.time_unit is None else self.variable.restore(mean)

    def std(self) -> Any:
        """Return the standard deviation, a duration if values are dates or times."""
        std = super().std()
        return std if self._is_numeric else self.variable.restore_difference(std)

    def entropy(self) -> Any:
        """Return the differential entropy in nats."""
        return self._rows_first(self._by_rows("_entropy", np.empty((1, self._rows)))[0])

    def _as_mte(self, **options: Any) -> MTE:
        from hybridbn.potentials import MTE

        points = [f"{point:g}" for point in self.point_cells.points.tolist() if self.pdf(point) > 0]
        if points:
            raise TableError(
                f"{self.variable.name!r} has mass at {shorten(points)}, and mixtures of truncated exponentials have"
                " none at single values; ask for pdf(), cdf() or quantile()"
            )
        ends = self._at("_quantile", [1e-12, 1 - 1e-12])
        return MTE.from_density(self.variable, self.pdf, support=(float(ends[0]), float(ends[1])), **options)

    def draw(self, uniforms: Values) -> NDArray[Any]:
        """Turn uniforms (k, rows) into codes or numbers."""
        return self._by_rows("_draw", uniforms)

    def __repr__(self) -> str:
        name, points, unit = self.variable.name, self.point_cells.points, self.variable.unit
        if not self.single:
            return f"<posterior density of {name!r} in {len(self)} rows>"
        grid = self.variable.grid or Grid()
        if grid.high - grid.low < _MOST_TOLD * grid.step:
            points = grid.round(np.arange(grid.low, grid.high + grid.step / 2, grid.step))
        masses = np.array([self.probability(point) for point in points.tolist()])
        texts = [f"{point:g}" if unit is None else unit.text(point) for point in points.tolist()]
        shown = [f"{text}: {mass:.4g}" for text, mass in zip(texts, masses, strict=True) if mass > 0]
        listed = ", ".join([*shown[:8], *["..."] * (len(shown) > 8)])
        if masses.sum() > TOLD:
            return f"<posterior of {name!r}: {listed}>"
        mean, std, spread = self.numeric.mean(), f"{self.numeric.std():.6g}", unit and unit.name.partition(" ")[0]
        shown_mean = f"{mean:.6g}"
        if unit is not None and math.isfinite(mean):
            in_own_text = self.variable.time_unit is None or self.variable.time_unit.pattern is not None
            shown_mean = unit.text(mean) if in_own_text else str(self.mean())
        told = ", ".join(filter(None, [f"mean {shown_mean}", f"sd {std} {spread or ''}".rstrip(), listed]))
        return f"<posterior density of {name!r}: {told}>"


class Density(ContinuousPosterior):
    """A density that is given by arrays, from which all else is derived; families give what is abstract."""

    @property
    def numbers(self) -> int:
        """How many numbers the density of one row takes."""
        return sum(len(getattr(self, name)) for name in self._by_row)

    @classmethod
    def join(cls, parts: Sequence[tuple[NDArray[np.intp], Any]], rows: int) -> Self:
        """Join the densities of groups of rows into that of `rows` rows."""
        joined: Self = parts[0][1].clone()
        joined._error = np.zeros(rows)
        for name in cls._by_row:
            array = np.empty((max(len(getattr(part, name)) for _, part in parts), rows))
            for places, part in parts:
                own, where = getattr(part, name), as_slice(places)
                array[: len(own), where], array[len(own) :, where] = own, part._fill_up(name)
            setattr(joined, name, array)
        return joined

    @abstractmethod
    def _fill_up(self, name: str) -> float | Values:
        """Return what stands in an array (rows,) where other rows take more numbers."""

    def with_answer(self, single: bool, error: Values, marked: NDArray[np.bool_] | None, log_evidence: Any) -> Self:
        """Return the density with all that belongs to an answer; marked rows become NaN."""
        clone = self.clone()
        clone.single, clone._error, clone._log_evidence = single, error, log_evidence
        if marked is not None:
            masses = self._by_row[0]
            setattr(clone, masses, np.where(marked, np.nan, getattr(self, masses)))
        return clone

    @abstractmethod
    def _pdf(self, x: Values) -> Values:
        """Return the density at points (m, rows)."""

    @abstractmethod
    def _cdf(self, x: Values) -> Values:
        """Return the probability of values up to points (m, rows)."""

    @abstractmethod
    def _measure_points(self) -> Values:
        """Return the mass of each point (points, rows)."""

    def _put_masses(self, x: Values, elsewhere: Values) -> Values:
        """Return the masses of values that have one, and numbers of all others."""
        if not len(self._point_cells.points):
            return elsewhere
        # so do those at the ends of their cells, where nodes of neighboring cells lie but for rounding
        nearest, exact, _ = self._point_cells.locate(self._point_cells.snap(x))
        return np.where(exact, self._measure_points()[nearest, np.arange(x.shape[1])], elsewhere)

    def _mass_at(self, x: Values) -> Values:
        """Return by how much the cdf jumps at values."""
        return self._put_masses(x, np.zeros(x.shape))

    @abstractmethod
    def _measure_spread(self, _: Values) -> Values:
        """Return mean and variance (2, rows)."""

    def _add_tails(self, inner: Values, gains: Values) -> Values:
        """Return mean and variance with what tails add, and warn where they have none."""
        missing = np.asarray((np.isnan(gains) & ~np.isnan(inner)).any(axis=1))
        if missing.any():
            warn_user(
                f"{self.variable.name!r} has no {'mean' if missing[0] else 'variance'}, or none that could be told:"
                " its density has too heavy a tail; ask for quantiles instead",
            )
        return inner + gains

    def moments(self) -> Values:
        """Return mean and variance (2, rows)."""
        return self._by_rows("_measure_spread", np.empty((2, self._rows)))

    def _log_pdf(self, x: Values) -> Values:
        return take_logs(self._pdf(x))

    def _pit(self, truth: Values) -> Values:
        return np.asarray(self._cdf(truth) - self._mass_at(truth) / 2)

    def _central_level(self, truth: Values) -> Values:
        reached = self._cdf(truth)
        return np.maximum(np.maximum(1 - 2 * reached, 2 * (reached - self._mass_at(truth)) - 1), 0.0)

    def _crps(self, truth: Values) -> Values:
        """Return the mean pinball loss over the levels of quantiles, twice."""
        levels = (np.arange(_LEVELS) + 0.5) / _LEVELS
        below = truth - self._quantile(np.broadcast_to(levels[:, None], (_LEVELS, truth.shape[1])))
        losses = np.maximum(levels[:, None] * below, (levels[:, None] - 1) * below)
        return np.asarray(2 * losses.mean(axis=0, keepdims=True))

    def _mode(self, _: Values) -> Values:
        x = self._grid()
        best = np.argmax(self._pdf(x), axis=0)
        columns = np.arange(x.shape[1])
        # between the neighbors that differ from it: the grid has points more than once where cells meet
        highest = x[best, columns]
        high = np.where(x > highest, x, np.inf).min(axis=0)
        inside = self._climb(x, highest, np.where(np.isfinite(high), high, highest))
        # where the density jumps down it is largest right before the jump, which is no point of the grid
        knots, _ = self.knots()
        before = np.nextafter(knots[1:], knots[:-1])
        limit = before[np.argmax(self._pdf(before), axis=0), columns]
        before_jump = self._climb(x, limit, limit)
        jumps = self._pdf(before_jump[None])[0] > self._pdf(inside[None])[0] * (1 + 1e-9)
        return np.asarray(np.where(jumps, before_jump, inside))[None]

    def _climb(self, x: Values, highest: Values, high: Values) -> Values:
        """Return the highest places between the points of a grid before the chosen ones and `high`."""
        low = np.where(x < highest, x, -np.inf).max(axis=0)
        low = np.where(np.isfinite(low), low, highest)
        golden = (math.sqrt(5) - 1) / 2
        for _round in range(60):
            a, b = high - golden * (high - low), low + golden * (high - low)
            lower = self._pdf(a[None])[0] >= self._pdf(b[None])[0]
            low, high = np.where(lower, low, a), np.where(lower, b, high)
        middle = (low + high) / 2
        better = self._pdf(middle[None])[0] >= self._pdf(highest[None])[0]
        return np.asarray(np.where(better, middle, highest))

    def _entropy(self, _: Values) -> Values:
        knots = self._grid()
        cells = node_axis(knots[:-1], knots[1:])
        density = self._pdf(cells.points) - self._mass_at(cells.points)
        logs = np.log(density, where=density > 0, out=np.zeros_like(density))
        entropy: Values = compute_entropy(self._measure_points()) - np.sum(density * logs * cells.weights, axis=0)
        return entropy[None]

    def _grid(self) -> Values:
        knots, _ = self.knots()
        parts = np.linspace(0, 1, _PARTS_OF_CELL + 1)[:-1, None]
        fine = knots[:-1, None, :] + np.diff(knots, axis=0)[:, None, :] * parts
        return np.concatenate([fine.reshape(_PARTS_OF_CELL * (len(knots) - 1), -1), knots[-1:]])

    def _by_rows(self, method: str, x: Values) -> Values:
        """Evaluate in blocks of rows, so that temporary arrays stay small."""
        rows, points = self._rows, max(len(x), 1)
        if method in _OVER_ALL_CELLS and rows > 1:
            points = _PARTS_OF_CELL * _OVER_ALL_CELLS[method] * len(self.select_rows(np.arange(1)).knots()[0])
        block = max(1, BLOCK // max(self._width * points, 1))
        if block >= rows:
            return np.asarray(getattr(self, method)(x))
        result = np.empty(x.shape)
        for block_rows in np.split(np.arange(rows), range(block, rows, block)):
            result[:, block_rows] = getattr(self.select_rows(block_rows), method)(x[:, block_rows])
        return result

    def _draw(self, uniforms: Values) -> Values:
        return self._quantile(uniforms)

    @abstractmethod
    def _quantile(self, levels: Values) -> Values:
        """Return quantiles at levels (m, rows)."""

    @property
    def _width(self) -> int:
        """About how many numbers one row and one point take."""
        return 3 * self.numbers


Result = TypeVar("Result")
PartQuestion: TypeAlias = Callable[[Any, NDArray[np.intp]], Result]
"""From a posterior and the places of its rows to what is asked of it."""
_Ask: TypeAlias = Callable[[PartQuestion[Any]], Iterator[tuple[NDArray[np.intp], Any]]]
"""Yields the places of each part's rows, and what a function gives of their posterior."""


class LazyPosterior(ContinuousPosterior):
    """Densities of a batch that are made part by part, when they are asked for; error, mean and variance are kept."""

    def __init__(self, variable: Continuous, rows: int, ask: _Ask) -> None:
        self.variable = variable
        self.single: bool = False
        self._count, self._ask = rows, ask
        self._log_evidence = partial(gather, ask, list_log_evidence, (3, rows))

    @property
    def _rows(self) -> int:
        return self._count

    @cached_property
    def _summary(self) -> Values:
        """The error, the mean and the variance of each row (3, rows)."""
        return gather(self._ask, _summarize, (3, self._count))

    _error: Any = property(lambda self: self._summary[0])
    _point_cells: Any = property(lambda self: self.select_rows(np.arange(1)).point_cells if self._count else NO_POINTS)

    def moments(self) -> Values:
        """Return mean and variance (2, rows)."""
        return self._summary[1:]

    def _by_rows(self, method: str, x: Values) -> Values:
        # points that all rows share are sent to the rows as one column
        points = x[:, :1] if not x.strides[-1] else x
        return gather(self._ask, partial(_evaluate, method, points), x.shape)

    def knots(self) -> tuple[Values, Values]:
        """Refuse, as rows of different parts may have different numbers of them."""
        raise TableError("knots are those of a single case: choose a row, posterior[0]")

    def select_rows(self, rows: NDArray[np.intp]) -> Any:
        """Return some rows, whose densities are kept."""
        chosen: list[tuple[NDArray[np.intp], ContinuousPosterior]] = []
        left = len(rows)
        for places, answer in self._ask(return_posterior) if left else ():
            position = np.searchsorted(places, rows)
            inside = np.flatnonzero(places[np.minimum(position, len(places) - 1)] == rows)
            if len(inside):
                chosen.append((inside, answer.select_rows(position[inside])))
            left -= len(inside)
            if not left:
                break
        return (
            chosen[0][1] if len(chosen) == 1 else LazyPosterior(self.variable, len(rows), partial(_ask_parts, chosen))
        )


def _ask_parts(
    parts: Sequence[tuple[NDArray[np.intp], ContinuousPosterior]], question: PartQuestion[Result]
) -> Iterator[tuple[NDArray[np.intp], Result]]:
    """Ask densities of some rows in parts, whose forms may differ, with the places of their rows."""
    return ((places, question(answer, places)) for places, answer in parts)


def gather(ask: _Ask, question: PartQuestion[Values], shape: tuple[int, ...]) -> Values:
    """Return numbers (..., rows) of all rows, of which a function yields the places of each part and its numbers."""
    result = np.empty(shape)
    for places, values in ask(question):
        result[..., places] = values
    return result


def return_posterior(answer: Result, places: NDArray[np.intp]) -> Result:
    """Return the posterior of a part itself."""
    return answer


def list_log_evidence(answer: Posterior, places: NDArray[np.intp]) -> Values:
    """Return the log probability of a part's evidence and its limits."""
    return answer.compute_log_evidence()


def _summarize(answer: ContinuousPosterior, places: NDArray[np.intp]) -> Values:
    return np.stack([answer._error, *answer.moments()])


def _evaluate(method: str, points: Values, answer: ContinuousPosterior, places: NDArray[np.intp]) -> Values:
    x = np.broadcast_to(points, (len(points), len(places))) if points.shape[1] == 1 else points[:, places]
    return answer._by_rows(method, x)
