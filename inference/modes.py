"""Peaks and jumps of what is known by its values alone: where quadrature has to look closely, or farther out.

A likelihood given as a function, an observed child of a family that says nothing of its scale and a density without
declared breaks may be much narrower than the range of the variable, jump, or lie beyond the range. They are looked
through evenly where the mass is, in steps that grow with the distance from there (`Ruler`), and at growing distances
outside of the range. The steps are made smaller until they are small against the narrowest peak that was seen, and
against the scale of the family, so that another peak of the same kind can't lie between them. Between places of
another variable at which as many peaks were seen, they are followed. The peaks are climbed, and edges are laid around
them at multiples of the distance at which the function falls; jumps are bisected down to neighboring doubles. Where
nothing is seen, the steps become as small as `MOST_POINTS` allow, and numbers of few digits are tried too. What would
need still smaller steps has an error of one. A peak that is narrower than a tenth of the steps and stands on a function
that is positive everywhere can be missed.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hybridbn.errors import NetworkError, TableError
from hybridbn.inference.axes import (
    CENTRAL_TAIL,
    NEARER,
    PRIOR_TAIL,
    PriorReach,
    Ruler,
    arrange_by_row,
    find_evidence_ranges,
    find_prior_reaches,
)
from hybridbn.inference.compilation import Problem
from hybridbn.inference.evidence import Evidence, Finding
from hybridbn.potentials.base import Potential, take_logs
from hybridbn.potentials.mode_search import (
    SMALLEST_JUMP,
    LogFunctions,
    bisect_jumps,
    climb,
    evaluate,
    find_decay_distance,
    round_numbers,
)
from hybridbn.variables import Continuous, Discrete, Values

MOST_POINTS = 1 << 22
EVEN_STEPS = (1_000, 20_000, 400_000)
"""The numbers of even steps that are tried: more where nothing was seen at all, or peaks are narrow."""
EVEN_STEPS_OF_ROOTS = 1 << 16
"""The most even steps for all states of the parents together."""
EVEN_STEPS_OF_FUNCTIONS = (60_000, 400_000, MOST_POINTS)
MOST_MODES = 128
MOST_JUMPS = 256
STEPS_OF_PEAK = 32.0
"""A peak must be seen from so many steps, so that one that is as many times narrower is seen too."""
CLOSE_STEPS = 1 / 4
"""The share of these that is enough for rows whose neighbors would show what was not seen."""
FOLLOWED_STEPS = 200
"""The even steps in rows between others, besides those from peak to peak of these."""
STEPS_BESIDE = 16
"""Steps on both sides of where peaks are expected."""
STEP_OF_SCALE = 4.0
"""A step in scales of the family: an eighth of the distance at which a normal density is zero in doubles."""
LOWEST = -700.0
"""Logarithms, relative to the largest, below which a function counts as zero."""
JUMP = 4.0
"""A difference that is so many times larger than those on both sides may be a jump."""
OUTWARD = np.exp2(np.arange(-6.0, 30.0))[:, None]
"""Distances from the range at which to look, in lengths of it."""
EDGES_AROUND_MODE = np.array([0.0, 1.0, 3.0, 9.0, 27.0])[:, None, None]
"""Edges around a peak, in distances at which it falls by a factor e: a normal density is zero in doubles past the last.
"""
NARROW_MODE = 1 / 24
"""Peaks that are wider, relative to the range, need no edges of their own."""
PLACES_OF_HIDDEN = 8
"""The places of other hidden variables at which one looks along a variable."""
FIRST_EDGES = 25
"""The edges of cells from which on it is tried whether a grid sees all mass."""
NARROWER = 32
"""Mass in cells that are so many times narrower may be missed by the nodes."""
MOST_MISSED = 1e-6
"""The mass that may be missing: as much as densities may differ from one in it."""
SAME_EDGE = 1e-9
MOST_STATE_CASES = 32
BLOCK = 1024


@dataclass(frozen=True)
class ModeEdges:
    """Edges around peaks and at jumps, each with its row, the range (rows,) widened to hold them, and whether peaks may
    be too narrow to be seen (rows,).
    """

    rows: NDArray[np.intp]
    edges: Values
    low: Values
    high: Values
    unseen: NDArray[np.bool_]


class _Peaks(NamedTuple):
    """Peaks that are narrow or outside the range: each with its row, and how far from it the function falls by a factor
    e, or by half of what it rises above a floor, below and above, and how wide it is, at least, where it has not fallen
    by half of all that it falls.
    """

    rows: NDArray[np.intp]
    points: Values
    below: Values
    above: Values
    visible: Values


class _Look(NamedTuple):
    """What was seen of some rows: peaks, jumps (each with its row), and whether there was anything."""

    peaks: _Peaks
    jump_rows: NDArray[np.intp]
    jumps: Values
    seen: NDArray[np.bool_]


def find_modes(
    logs: LogFunctions,
    low: Values,
    high: Values,
    least: Values,
    most: Values,
    marks: Values | None = None,
    even: Sequence[int] = EVEN_STEPS,
    scale: float = np.inf,
    trail: tuple[Trail, Values] | None = None,
    central: Sequence[Values] | None = None,
) -> ModeEdges:
    """Find the narrow peaks and the jumps of functions of one variable, a function a row.

    Parameters
    ----------
    low, high : ndarray (rows,), the ranges looked through
    least, most : ndarray (rows,), ends past which nothing is
    marks : ndarray (marks, rows), places to look at besides
    even : numbers of even steps, the next one for rows in which nothing was seen
    scale : length below which the functions have no features, as far as that is known
    trail : what was seen at other places along another variable, between which peaks are followed, and the rows' places
    central : ndarrays (rows,), ends between which nearly all mass is: steps grow with the distance from there

    Examples
    --------
    >>> ends = [np.array([end]) for end in (-8.0, 8.0, -np.inf, np.inf)]
    >>> found = find_modes(lambda x, _: -0.5 * ((x - 60) / 1e-4) ** 2, *ends)
    >>> bool(found.low[0] == -8 and 60 < found.high[0] < 60.01 and (abs(found.edges - 60) < 1e-3).any())
    True
    >>> both = find_modes(lambda x, _: -0.5 * ((x**2 - 2) / 1e-4) ** 2, *ends)
    >>> [bool((abs(both.edges - root) < 1e-7).any()) for root in (-(2**0.5), 2**0.5)]
    [True, True]
    >>> step = find_modes(lambda x, _: np.where(x < 0.3, 0.0, -1.0), *ends)
    >>> bool((step.edges == 0.3).any())
    True
    """
    ruler = Ruler.of((low, high), (low, high) if central is None else central)
    search = _Search(logs, ruler, (least, most), marks, even, scale, trail is not None)
    whole = search.look_closely(np.arange(len(low))) if trail is None else search.follow(*trail)
    return ModeEdges(*_list_edges(whole, ruler, least, most), search.find_unseen(whole))


@dataclass
class _Search:
    """A search of rows, and how closely it has looked: see `find_modes`."""

    logs: LogFunctions
    ruler: Ruler
    ends: tuple[Values, Values]
    marks: Values | None
    even: Sequence[int]
    scale: float
    alike: bool

    def __post_init__(self) -> None:
        self.length = self.ruler.length
        self.steps = np.full(len(self.length), self.even[0])
        known = self.length / (STEP_OF_SCALE * self.scale) if self.scale > 0 else 0.0
        self.wanted = np.zeros(len(self.length)) + known

    def look(self, rows: NDArray[np.intp], count: int, marks: Values | None = None) -> _Look:
        """Look through rows in so many steps."""
        self.steps[rows] = count
        if marks is None:
            marks = np.empty((0, 1)) if self.marks is None else self.marks[:, rows]
        marks = np.broadcast_to(marks, (len(marks), len(rows)))
        looks, most = [], max(1, MOST_POINTS // (count + len(marks)))
        for start in range(0, max(len(rows), 1), most):
            part, own_marks = rows[start : start + most], marks[:, start : start + most]
            ruler, ends = self.ruler.take(part), (self.ends[0][part], self.ends[1][part])
            grid = _make_search_grid(ruler, *ends, own_marks, count)
            looks.append(_look_through(self.logs, part, grid, ruler, *ends))
        return _join_looks(looks)

    def look_closely(self, rows: NDArray[np.intp]) -> _Look:
        """Look through rows in steps that are small against what is seen there."""
        whole = self.look(rows, self.even[0])
        seen = np.ones(len(self.steps), dtype=bool)
        seen[rows] = whole.seen
        for _ in range(len(self.even) + 1):
            goal = self._set_goals(rows, ~seen[rows], whole.peaks)
            further = goal > 1.5 * self.steps[rows]
            again, goal = rows[further], goal[further]
            if not len(again):
                break
            fresh = []
            for count in np.unique(goal):
                same = again[goal == count]
                marks = _short_numbers() if count >= self.even[-1] and not seen[same].all() else None
                fresh.append(self.look(same, int(count), marks))
                seen[same] = fresh[-1].seen
            whole = _join_looks([_drop_rows(whole, again), *fresh])
        return whole

    def _set_goals(self, rows: NDArray[np.intp], blank: NDArray[np.bool_], peaks: _Peaks) -> NDArray[np.intp]:
        """Return in how many steps to look through rows, in some of which nothing was seen yet."""
        wanted = STEPS_OF_PEAK * (CLOSE_STEPS if self.alike else 1.0) / self._compare_widths(peaks)
        np.maximum.at(self.wanted, peaks.rows, wanted)
        goal = np.exp2(np.ceil(np.log2(np.maximum(self.wanted[rows], 1.0))))
        if self.alike:
            # what was seen in other rows would be seen here
            goal[blank] = goal[~blank].max() if not blank.all() else STEPS_OF_PEAK / STEP_OF_SCALE * goal[blank]
        else:
            goal[blank] = 0.0
            for level in reversed(self.even):
                coarser = blank & (level > self.steps[rows])
                goal = np.where(coarser, np.maximum(level, self.wanted[rows]), goal)
        return np.minimum(goal, MOST_POINTS).astype(np.intp)

    def _compare_widths(self, peaks: _Peaks) -> Values:
        """Return how wide peaks are, relative to the range as it is measured where they are."""
        return peaks.visible / (self.length[peaks.rows] * self.ruler.stretch(peaks.points, peaks.rows))

    def find_unseen(self, look: _Look) -> NDArray[np.bool_]:
        """Tell in which rows peaks may be too narrow to be seen."""
        unseen, peaks = np.zeros(len(self.steps), dtype=bool), look.peaks
        unseen[peaks.rows[self._compare_widths(peaks) * self.steps[peaks.rows] < 1]] = True
        if self.scale > 0:
            unseen |= self.length / (STEP_OF_SCALE * self.scale) > STEPS_OF_PEAK * self.steps
        return unseen

    def follow(self, trail: Trail, places: Values) -> _Look:
        """Look through rows along a trail: from peak to peak of places that see equally many, else closely."""
        rows, after = np.arange(len(places)), np.searchsorted(trail.places, places)
        below, above = trail.features[:, after - 1], trail.features[:, after]
        steps = np.minimum(trail.steps[after - 1], trail.steps[after])
        way, beside = np.abs(above - below), STEPS_BESIDE * self.length / steps
        start, length = np.minimum(below, above) - way - beside, 3 * way + 2 * beside
        goal = np.exp2(np.ceil(np.log2(np.nanmax(length * steps / self.length, axis=0, initial=1.0))))
        lost = (np.isnan(below) != np.isnan(above)).any(axis=0) | (goal * len(below) >= steps)
        lost |= not 0 < self.scale < np.inf
        looks = []
        for count in np.unique(goal[~lost]):
            same = rows[~lost & (goal == count)]
            shares = np.linspace(0.0, 1.0, int(count) + 1)[:, None, None]
            marks = (start[:, same] + shares * length[:, same]).reshape(-1, len(same))
            look = self.look(same, FOLLOWED_STEPS, np.where(np.isnan(marks), self.ruler.low[same], marks))
            self.steps[same] = steps[same]
            number = np.isfinite(_list_features(look, len(rows))).sum(axis=0)
            lost[same] = ((number != np.isfinite(below).sum(axis=0)) | self.find_unseen(look))[same]
            looks.append(_drop_rows(look, rows[lost]))
        whole = _join_looks([*looks, self.look_closely(rows[lost])])
        trail.add(places, _list_features(whole, len(rows)), self.steps)
        return whole


@dataclass
class Trail:
    """Places along a variable, ascending, and what was seen there along another one: peaks and jumps."""

    places: Values = field(default_factory=lambda: np.array([-np.inf, np.inf]))
    features: Values = field(default_factory=lambda: np.full((1, 2), np.nan))
    steps: Values = field(default_factory=lambda: np.ones(2))

    def add(self, places: Values, features: Values, steps: Values) -> None:
        """Note what was seen at some places."""
        self.places = np.concatenate([self.places, places])
        order, size = np.argsort(self.places), max(len(self.features), len(features))
        both = [
            np.pad(part, ((0, size - len(part)), (0, 0)), constant_values=np.nan) for part in (self.features, features)
        ]
        self.places, self.features = self.places[order], np.concatenate(both, axis=1)[:, order]
        self.steps = np.concatenate([self.steps, steps])[order]


def _list_features(look: _Look, rows: int) -> Values:
    """Return peaks and jumps in ascending order (numbers, rows), rows with fewer than others ending with NaN."""
    row, place = np.concatenate([look.peaks.rows, look.jump_rows]), np.concatenate([look.peaks.points, look.jumps])
    return np.sort(arrange_by_row(row, place, rows, np.nan), axis=0)


def _look_through(
    logs: LogFunctions,
    rows: NDArray[np.intp],
    grid: Values,
    ruler: Ruler,
    least: Values,
    most: Values,
) -> _Look:
    """Look at a grid (points, rows), climb the peaks that are narrow or outside the range, and bisect jumps."""
    values = _replace_poles(logs(grid, rows))
    top = values.max(axis=0)
    seen = np.isfinite(top)
    top = np.where(seen, top, 0.0)
    values = np.maximum(values - top, LOWEST)  # from now on, relative to the largest
    place, column, fall = _find_local_maxima(grid, values, ruler, (np.isfinite(least), np.isfinite(most)))

    def evaluate_columns(points: Values, columns: NDArray[np.intp]) -> Values:
        return np.maximum(_replace_poles(logs(points, rows[columns])) - top[columns], LOWEST)

    jump_columns, left, right = _find_steep_steps(grid, values)
    peaks = _Peaks(rows[column], *np.empty((4, 0)))
    if len(column):
        bracket = grid[np.stack([np.maximum(place - 1, 0), place, np.minimum(place + 1, len(grid) - 1)]), column]

        def climb_columns(points: Values) -> Values:
            return evaluate_columns(points, column)

        modes = climb(climb_columns, bracket)
        ends, half = (least[column], most[column]), np.maximum(-values.min(axis=0)[column] / 2, 1.0)
        # what was seen of a peak may be its flank
        fall = np.where(
            fall < 1, np.minimum(fall + (climb_columns(modes[None])[0] - values[place, column]) / 2, 1.0), 1.0
        )
        half = np.where(fall < 1, fall, half)
        below, above = (find_decay_distance(climb_columns, modes, *ends, sign, fall) for sign in (-1, 1))
        length = (ruler.high - ruler.low)[column]
        # distances are powers of two, so that the half is surely visible
        sides = [find_decay_distance(climb_columns, modes, *ends, sign, half) for sign in (-1, 1)]
        visible = np.sum(np.minimum(sides, length), axis=0) / 2
        # where a kink meets a slope are low ones of any width, in which there is nothing
        visible = np.where(fall < 1, np.maximum(visible, length / EVEN_STEPS[1]), visible)
        peaks = _Peaks(rows[column], modes, np.minimum(below, length), np.minimum(above, length), visible)
        # what was not fallen yet at half the distance may jump behind it
        jump_columns = np.concatenate([jump_columns, column, column])
        left = np.concatenate([left, np.clip(modes - below, *ends), modes + above / 2])
        right = np.concatenate([right, modes - below / 2, np.clip(modes + above, *ends)])
    chosen = np.isfinite(left) & np.isfinite(right) & (right > left)
    jump_columns, jumps = bisect_jumps(evaluate_columns, jump_columns[chosen], left[chosen], right[chosen])
    return _Look(peaks, rows[jump_columns], jumps, seen)


def _find_local_maxima(
    grid: Values,
    values: Values,
    ruler: Ruler,
    ends: tuple[NDArray[np.bool_], NDArray[np.bool_]],
) -> tuple[NDArray[np.intp], NDArray[np.intp], Values]:
    """Return place and column of the highest local maxima that are narrow or outside the range, and by how much they
    fall there: a factor e, or half of what they rise above a floor if that is less.
    """
    rises = values[1:] >= values[:-1]
    higher = np.zeros(values.shape, dtype=bool)
    higher[1:-1] = rises[:-1] & ~rises[1:] & (values[1:-1] > LOWEST)
    # what rises without an end is no peak
    higher[0] = ends[0] & (values[0] > values[1])
    higher[-1] = ends[1] & (values[-1] > values[-2])
    place, column = np.nonzero(higher)
    if not len(place):
        return place, column, np.empty(0)
    here, height = grid[place, column], values[place, column]
    narrow = NARROW_MODE * ruler.length[column] * ruler.stretch(here, column)
    steps = np.exp2(np.arange(np.log2(len(grid)))).astype(np.intp)

    def measure_distances(fall: Values, chosen: NDArray[np.intp]) -> list[Values]:
        """Return how far below and above chosen ones the function is lower by so much."""
        distances = []
        top, there_column = height[chosen] - fall[chosen], column[chosen]
        for sign in (-1, 1):
            fallen = np.full(len(chosen), np.inf)
            for step in steps:
                there = np.clip(place[chosen] + sign * step, 0, len(grid) - 1)
                reached = np.isinf(fallen) & (values[there, there_column] < top)
                fallen[reached] = np.abs(grid[there, there_column] - here[chosen])[reached]
            distances.append(fallen)
        return distances

    distance = measure_distances(np.ones(len(place)), np.arange(len(place)))
    fall = np.where(np.maximum(*distance) < narrow, 1.0, np.inf)
    wide = np.flatnonzero(fall > 1)
    fall[wide] = _measure_low_peaks(grid, values, place[wide], column[wide], narrow[wide], steps)
    low_ones = np.flatnonzero(fall < 1)
    small = np.maximum(*measure_distances(fall, low_ones)) <= narrow[low_ones] / 4
    fall[low_ones[~small]] = 1.0
    fall = np.minimum(fall, 1.0)
    outside = (here < ruler.low[column]) | (here > ruler.high[column])
    chosen = np.flatnonzero((np.maximum(*distance) < narrow) | outside | (fall < 1))
    place, column, height, fall = place[chosen], column[chosen], height[chosen], fall[chosen]
    order = np.lexsort((-height, column))
    rank = np.arange(len(order)) - np.searchsorted(column[order], column[order])
    order = order[rank < MOST_MODES]
    return place[order], column[order], fall[order]


def _measure_low_peaks(
    grid: Values,
    values: Values,
    place: NDArray[np.intp],
    column: NDArray[np.intp],
    narrow: Values,
    steps: NDArray[np.intp],
) -> Values:
    """Return half of what local maxima rise above the function beside them: above a floor, maybe by less than e.

    What is lower than rounding explains is infinite.
    """
    here, bases = grid[place, column], []
    for sign in (-1, 1):
        base = np.full(len(place), np.inf)
        for step in steps:
            there = np.clip(place + sign * step, 0, len(grid) - 1)
            near = np.abs(grid[there, column] - here) <= narrow
            base = np.where(near | (step == 1), np.minimum(base, values[there, column]), base)
        bases.append(base)
    rise = values[place, column] - np.maximum(*bases)
    return np.where(rise > SMALLEST_JUMP, np.minimum(rise / 2, 1.0), np.inf)


def _find_steep_steps(grid: Values, values: Values) -> tuple[NDArray[np.intp], Values, Values]:
    """Return column and ends of the steps of a grid where the values differ by much more than beside it."""
    change = np.abs(np.diff(values, axis=0))
    # another jump may be beside it
    pairs = np.minimum(change[:-1], change[1:])
    beside = np.maximum(pairs[:-3], pairs[3:]) * JUMP
    step, column = np.nonzero(change[2:-2] > np.maximum(beside, SMALLEST_JUMP, out=beside))
    step += 2
    if len(step) > MOST_JUMPS * grid.shape[1]:
        largest = np.argsort(-change[step, column])[: MOST_JUMPS * grid.shape[1]]
        step, column = step[largest], column[largest]
    return column, grid[step, column], grid[step + 1, column]


def _join_looks(looks: Sequence[_Look]) -> _Look:
    peaks = _Peaks(*map(np.concatenate, zip(*(look.peaks for look in looks), strict=True)))
    return _Look(peaks, *map(np.concatenate, zip(*(look[1:] for look in looks), strict=True)))


def _drop_rows(look: _Look, rows: NDArray[np.intp]) -> _Look:
    """Return what was seen of other rows."""
    peaks, jumps = (~np.isin(array, rows) for array in (look.peaks.rows, look.jump_rows))
    kept: Any = (array[peaks] for array in look.peaks)
    return look._replace(peaks=_Peaks(*kept), jump_rows=look.jump_rows[jumps], jumps=look.jumps[jumps])


def _list_edges(
    look: _Look, ruler: Ruler, least: Values, most: Values
) -> tuple[NDArray[np.intp], Values, Values, Values]:
    """Return edges around peaks and at jumps after their rows, and the range (rows,) widened to hold them."""
    peaks, low, high = look.peaks, ruler.low, ruler.high
    around = peaks.points + np.stack([-peaks.below, peaks.above]) * EDGES_AROUND_MODE
    around = np.clip(around, least[peaks.rows], most[peaks.rows])
    around = around.reshape(len(EDGES_AROUND_MODE) * 2, len(peaks.rows))
    bottom, top = low.copy(), high.copy()
    np.minimum.at(bottom, peaks.rows, np.where(peaks.points < low[peaks.rows], around.min(axis=0), np.inf))
    np.maximum.at(top, peaks.rows, np.where(peaks.points > high[peaks.rows], around.max(axis=0), -np.inf))
    narrow = np.maximum(peaks.below, peaks.above) < NARROW_MODE * ruler.length[peaks.rows] * ruler.stretch(
        peaks.points, peaks.rows
    )
    rows = np.concatenate([np.repeat(peaks.rows[narrow], len(around)), look.jump_rows])
    return rows, np.concatenate([around[:, narrow].T.ravel(), look.jumps]), bottom, top


@lru_cache(maxsize=1)
def _short_numbers() -> Values:
    away = round_numbers(3, 30)
    return np.asarray(np.concatenate([-away, [0.0], away])[:, None])


def _make_search_grid(ruler: Ruler, least: Values, most: Values, marks: Values | None, even: int) -> Values:
    """Return places to look at (places, rows), in ascending order."""
    length = ruler.high - ruler.low
    with np.errstate(over="ignore", invalid="ignore"):
        inside = ruler.mark((np.arange(even) + 0.5) / even)
        grid = np.concatenate([ruler.low - OUTWARD[::-1] * length, inside, ruler.high + OUTWARD * length])
    for part in (grid[: len(OUTWARD)], grid[-len(OUTWARD) :]):  # the range is inside
        np.clip(part, np.maximum(least, -1e150), np.minimum(most, 1e150), out=part)
    if marks is None or not len(marks):
        return grid
    return np.asarray(np.sort(np.concatenate([grid, np.clip(marks, grid[0], grid[-1])]), axis=0))


def find_modes_along(
    problem: Problem,
    name: str,
    evidence: Evidence,
    ranges: Mapping[str, tuple[Values, Values]],
    ends: tuple[Values, Values],
    central: tuple[Values, Values],
) -> Iterator[tuple[NDArray[np.intp], ModeEdges]]:
    """Find the peaks along a variable of everything that touches it and is known by its values alone; yield some row
    numbers and the peaks in these rows.

    Parameters
    ----------
    ranges : ranges of all continuous variables (rows each); known values have equal ends
    ends : past which the density of the variable is zero
    central : between which nearly all of its mass is
    """
    finding = evidence.findings.get(name)
    if finding is not None and finding.weighted:
        yield from _find_modes_of_evidence(finding, ranges[name], ends, central)
    for potential in problem.potentials.values():
        if name not in potential.scope or not potential.opaque:
            continue
        child = evidence.findings.get(potential.child.name)
        own = potential.child.name == name
        if not own and (child is None or not child.observed.any()):
            continue
        hidden = [
            parent.name
            for parent in potential.parents
            if isinstance(parent, Continuous) and parent.name != name and parent.name not in problem.hard
        ]
        if own and hidden and not problem.conditioned:
            continue
        if own and not any(isinstance(parent, Continuous) for parent in potential.parents):
            modes, rows = find_modes_of_root(potential), np.arange(evidence.rows)
            edges = np.tile(modes.edges, evidence.rows)
            yield rows, replace(modes, rows=np.repeat(rows, len(modes.edges)), edges=edges)
            continue
        places = list(_spread_places(hidden, ranges)) if hidden and problem.conditioned else [ranges]
        scale = potential.scale(name) if problem.conditioned or not hidden else np.inf
        rows = np.arange(evidence.rows) if own else np.flatnonzero(child.observed if child is not None else ())
        for block in np.split(rows, range(BLOCK, len(rows), BLOCK)):
            prior = None if own else find_prior_reaches(problem).get(name)
            searched = potential, name, evidence, ends, block, scale, problem.conditioned, prior
            looks = [_find_modes_of_potential(*searched, place, central) for place in places]
            for several in zip(*looks, strict=True):
                yield block, _keep_common_edges(several, len(block)) if hidden else several[0]


def _spread_places(
    hidden: Sequence[str], ranges: Mapping[str, tuple[Values, Values]]
) -> Iterator[Mapping[str, tuple[Values, Values]]]:
    """Yield ranges in which hidden variables have one value, spread over what their ranges are."""
    for number in range(PLACES_OF_HIDDEN):
        place = dict(ranges)
        for other, name in enumerate(hidden):
            low, high = ranges[name]
            share = (number + 0.5) / PLACES_OF_HIDDEN if not other else (number * other * 0.618) % 1
            value = low + share * (high - low)
            place[name] = value, value
        yield place


def _keep_common_edges(looks: Sequence[ModeEdges], rows: int) -> ModeEdges:
    """Return the edges of rows of which some are the same wherever the other variables are: these are features of one
    variable, others are ridges that are crossed elsewhere at each place of the others.
    """
    row, edges = (np.concatenate([getattr(look, name) for look in looks]) for name in ("rows", "edges"))
    place = np.repeat(np.arange(len(looks)), [len(look.rows) for look in looks])
    order = np.lexsort((edges, row))
    row, edges, place = row[order], edges[order], place[order]
    near = np.diff(edges) <= SAME_EDGE * np.maximum(np.abs(edges[1:]), 1e-300)
    common = near & (row[1:] == row[:-1]) & (place[1:] != place[:-1])
    kept, middle = np.isin(row, row[1:][common]), looks[len(looks) // 2]
    return ModeEdges(row[kept], edges[kept], middle.low, middle.high, np.zeros(rows, dtype=bool))


def describe_blank_functions(problem: Problem, evidence: Evidence) -> str:
    """Say of a single row where its likelihood functions were looked at, if one was zero everywhere, or what else may
    have been missed; else nothing.
    """
    weighted = [name for name, finding in evidence.findings.items() if finding.weighted and name in problem.nodes]
    ranges = find_evidence_ranges(problem, evidence) if weighted else {}
    for name in weighted:
        low, high = ranges[name]
        ruler = Ruler.of(ranges[name], find_evidence_ranges(problem, evidence, CENTRAL_TAIL)[name])
        grid = _make_search_grid(ruler, np.full(1, -np.inf), np.full(1, np.inf), None, MOST_POINTS)
        try:
            blank = not np.isfinite(_logs_of_evidence(evidence.findings[name], 0)(grid, np.zeros(1, np.intp))).any()
        except TableError:  # it is undefined outside the range
            blank = False
        if blank:
            return (
                f"the likelihood function of {name!r} was zero wherever it was looked at: in steps of"
                f" {ruler.length[0] / MOST_POINTS:.2g} from {low[0]:.6g} to {high[0]:.6g}, and at growing distances"
                " outside. If it is positive between them, give a wider function, a number or an hb.Interval"
            )
    for name, potential in problem.potentials.items():
        if potential.opaque and not set(problem.nodes).isdisjoint(potential.scope):
            return (
                f"the {type(potential).__name__} of {name!r} is known by its values alone, which may have been zero"
                " wherever they were looked at and positive between. Give breaks=, or a wider density, if they are"
            )
    return ""


def find_modes_of_root(potential: Potential) -> ModeEdges:
    """Find the peaks and jumps of a density without continuous parents, in all states of its parents together.

    They are kept on the potential, because they do not depend on evidence. The range is that of peaks outside of the
    support, if there are any.
    """
    kept: list[ModeEdges] = vars(potential).setdefault("_found_modes", [])
    if not kept:
        name, states = potential.child.name, [range(len(p)) for p in potential.parents if isinstance(p, Discrete)]
        cases = np.array(list(itertools.product(*states)), dtype=np.intp)
        given: dict[str, NDArray[Any]] = {p.name: codes for p, codes in zip(potential.parents, cases.T, strict=True)}
        ends, interval, central = (
            [np.full(len(cases), np.clip(end, -limit, limit)) for end in potential.support(name, tail)]
            for tail, limit in ((0.0, np.inf), (PRIOR_TAIL, 1e150), (CENTRAL_TAIL, 1e150))
        )

        def logs(points: Values, owner: NDArray[np.intp]) -> Values:
            return evaluate(potential, given, owner, points, log=True)

        marks = np.repeat(np.ravel(potential.breaks(name, {}))[:, None], len(cases), axis=1)
        few = max(EVEN_STEPS_OF_ROOTS // len(cases), EVEN_STEPS[0]), MOST_POINTS
        looks = (few, interval), (few, interval), ((MOST_POINTS,), central)
        modes = _find_whole_mass(
            potential, given, logs, interval, ends, central, looks, marks=marks, scale=potential.scale(name)
        )
        bottom, top = modes.low.min(keepdims=True), modes.high.max(keepdims=True)
        low, high = (np.where(bottom < interval[0][:1], bottom, np.inf), np.where(top > interval[1][:1], top, -np.inf))
        kept.append(ModeEdges(modes.rows * 0, modes.edges, low, high, np.array([modes.unseen.any()])))
    return kept[0]


def _find_whole_mass(
    potential: Potential,
    given: Mapping[str, NDArray[Any]],
    logs: LogFunctions,
    interval: Sequence[Values],
    ends: Sequence[Values],
    central: Sequence[Values],
    looks: Sequence[tuple[Sequence[int], Sequence[Values]]],
    *,
    marks: Values,
    scale: float,
) -> ModeEdges:
    """Find the modes of a density of its child, looking more closely until a grid with edges around them sees all of
    its mass, which is one.
    """
    ruler = Ruler.of((interval[0], interval[1]), central, NEARER)
    for number, (even, middle) in enumerate(looks):
        modes = _find_modes_within(logs, interval, ends, marks=marks, even=even, scale=scale, central=middle)
        rows, places, missing = _find_unresolved(potential, given, modes, ruler)
        if not missing.any() and (number or not len(places)):
            break
        marks = np.concatenate([marks, arrange_by_row(rows, places, len(ruler.low), ruler.low)])
    # where all mass was found no peak was missed, and next to heavy tails, any peak is narrow
    return replace(modes, unseen=missing)


def _find_unresolved(
    potential: Potential, given: Mapping[str, NDArray[Any]], modes: ModeEdges, ruler: Ruler
) -> tuple[NDArray[np.intp], Values, NDArray[np.bool_]]:
    """Return places of mass that is too narrow for a grid with edges around modes, after their rows, and the rows in
    which such a grid misses mass.
    """
    around = arrange_by_row(modes.rows, modes.edges, len(ruler.low), ruler.low)
    edges = np.sort(np.concatenate([ruler.mark(np.linspace(0.0, 1.0, FIRST_EDGES)), around]), axis=0)
    missing = np.zeros(len(ruler.low), dtype=bool)
    try:
        cells = potential.lay_cells(given, edges)
        missing = cells.totals < 1 - MOST_MISSED
        if missing.any():
            cells = potential.lay_cells(given)
    except NetworkError:  # it may be undefined somewhere
        return np.empty(0, dtype=np.intp), np.empty(0), missing
    rows, number = np.nonzero(cells.masses > MOST_MISSED**2)
    low, high = (ends[rows, number] for ends in cells[:2])
    # the edges of all rows, of which there may be more
    edges, middle = np.unique(edges), low / 2 + high / 2
    after = np.clip(np.searchsorted(edges, middle), 1, len(edges) - 1)
    narrow = edges[after] - edges[after - 1] > NARROWER * (high - low)
    return rows[narrow], potential.point_cells.move_below(middle[narrow]), missing


def _find_modes_of_evidence(
    finding: Finding, interval: tuple[Values, Values], ends: tuple[Values, Values], central: tuple[Values, Values]
) -> Iterator[tuple[NDArray[np.intp], ModeEdges]]:
    """Look along a variable for the peaks of what evidence gives for likelihoods of it, row by row."""
    for row in finding.list_weighted_rows():
        logs, breaks = _logs_of_evidence(finding, row), finding.breaks(row)
        here = slice(row, row + 1)
        own, strict, middle = ((pair[0][here], pair[1][here]) for pair in (interval, ends, central))
        with np.errstate(all="ignore"):  # overflow far out does not matter
            modes = _find_modes_within(
                logs, own, strict, marks=breaks[:, None], even=EVEN_STEPS_OF_FUNCTIONS, central=middle
            )
        edges = np.concatenate([modes.edges, breaks])
        yield np.array([row]), replace(modes, rows=np.zeros(len(edges), dtype=np.intp), edges=edges)


def _logs_of_evidence(finding: Finding, row: int) -> LogFunctions:
    """Return the logarithm of the likelihood of one row."""
    own = finding.take(slice(row, row + 1))

    def logs(points: Values, _: NDArray[np.intp]) -> Values:
        return take_logs(own.weights(points.reshape(-1, 1)).reshape(points.shape))

    return logs


def _find_modes_of_potential(
    potential: Potential,
    name: str,
    evidence: Evidence,
    ends: tuple[Values, Values],
    rows: NDArray[np.intp],
    scale: float,
    conditioned: tuple[str, dict[Any, Trail]] | None,
    prior: PriorReach | None,
    ranges: Mapping[str, tuple[Values, Values]],
    central: tuple[Values, Values],
) -> Iterator[ModeEdges]:
    """Look along one variable of a potential; what is hidden of the others is in all its states, or in the middle of
    its range. Past the reach of a prior it falls as the prior does.
    """
    given: dict[str, NDArray[Any]] = {}
    free = []
    for variable in potential.variables:
        if variable.name == name:
            continue
        if isinstance(variable, Continuous):
            low, high = (end[rows] for end in ranges[variable.name])
            given[variable.name] = low + (high - low) / 2
        else:
            finding = evidence.findings.get(variable.name)
            given[variable.name] = np.full(len(rows), -1) if finding is None else finding.values[rows]
            if (given[variable.name] < 0).any():
                free.append(variable)
    within = {n: (values, values) for n, values in given.items() if not isinstance(potential.variable(n), Discrete)}
    breaks = np.asarray(potential.breaks(name, within), dtype=np.float64)
    breaks = np.broadcast_to(breaks if breaks.ndim == 2 else breaks[:, None], (len(breaks), len(rows)))
    # many have their center where another variable has its value
    marks = np.concatenate([breaks, *(values[None] for values, _ in within.values())])
    low, high = (end[rows] for end in ranges[name])
    middle = central[0][rows], central[1][rows]
    told = evidence.findings.get(name)
    # of what is known to lie in an interval there is less
    whole = name == potential.child.name and conditioned is None and (told is None or not told.confined[rows].any())
    for states in itertools.islice(itertools.product(*(range(len(variable)) for variable in free)), MOST_STATE_CASES):
        chosen = zip((variable.name for variable in free), states, strict=True)
        filled = given | {other: np.where(given[other] < 0, state, given[other]) for other, state in chosen}

        def logs(points: Values, owner: NDArray[np.intp], filled: Mapping[str, Any] = filled) -> Values:
            logs = evaluate(potential, filled, owner, points, log=True, along=name)
            return logs if prior is None else logs - prior.measure_fall(points)

        trail = None
        if conditioned is not None:
            number, trails = conditioned
            place = given.get(number, np.zeros(len(rows)))
            trail = trails.setdefault((potential.child.name, name, *states), Trail()), place
        searched: dict[str, Any] = {"marks": marks, "scale": scale}
        strict = [end[rows] for end in ends]
        if whole:
            looks = [(EVEN_STEPS, middle)] * 2
            yield _find_whole_mass(potential, filled, logs, (low, high), strict, middle, looks, **searched)
        else:
            yield _find_modes_within(logs, (low, high), strict, trail=trail, central=middle, **searched)


def _find_modes_within(
    logs: LogFunctions, interval: Sequence[Values], ends: Sequence[Values], **searched: Any
) -> ModeEdges:
    """Find modes up to the ends, or in the interval alone where a function is undefined outside of it."""
    (low, high), (least, most) = interval, ends
    try:
        return find_modes(logs, low, high, least, most, **searched)
    except (NetworkError, TableError):
        return find_modes(logs, low, high, low, high, **searched)


def _replace_poles(logs: Values) -> Values:
    """Return logarithms with neither NaN nor poles."""
    return np.where(logs < np.inf, logs, -np.inf)
