"""Where a density lies, found from its values alone: the peak of its logarithm, and cells that grow away from it.

It is searched around the declared breaks, the parents' values and zero, within the declared support.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from hybridbn.errors import NetworkError
from hybridbn.potentials.base import Axes, Potential, freeze
from hybridbn.variables import Codes, Continuous, Discrete, Values

Logs: TypeAlias = Callable[[Values], Values]
"""Logarithms at points (points, columns), every column a function of its own."""

LogFunctions: TypeAlias = Callable[[Values, NDArray[np.intp]], Values]
"""Logarithms at points (points, columns), where column ``j`` is the function of row ``rows[j]``."""

STEPS = freeze(np.exp2(np.concatenate((np.arange(40.0), np.arange(40.0, 200.0, 4)))))
"""Distances of edges from the peak, in widths of it: heavy tails, and tails of a pole, reach far."""
REACHES = (100, 20, 8)
"""How far peaks are searched from 0 and from the parents' values, as powers of two."""
SMALLEST_JUMP = 1e-9
KEPT_OF_JUMP = 0.3
"""What differs less between neighboring doubles, relative to the whole step, is steep and no jump."""
DIGITS = (3, 4)
DECADES = (-6, 10)
"""A density that is zero wherever it was looked at is sought at numbers of so many digits, and these distances."""


def evaluate(
    potential: Potential, given: Axes, rows: Codes, points: Values, log: bool = False, along: str | None = None
) -> Values:
    """Evaluate at points (nodes, cells) of the child, or another variable; cell ``j`` with the others of
    ``rows[j]``.
    """
    axes = {name: values[rows][None, :] for name, values in given.items()} | {along or potential.child.name: points}
    with np.errstate(all="ignore"):  # points may be very far out; what matters is checked below
        if log:
            return np.asarray(potential.log_on(axes).reshape(points.shape))
        values, log_scale = potential.on(axes)
        density = (values * np.exp(log_scale)).reshape(points.shape)
    wrong = ~((density >= 0) & (density < np.inf))
    if wrong.any():
        node, cell = np.argwhere(wrong)[0]
        where = {potential.child.name: points[node, cell], **{n: v[rows][cell] for n, v in given.items()}}
        raise NetworkError(
            f"{potential.child.name!r}: its {type(potential).__name__} is {float(density[node, cell])!r} at "
            f"{describe_point(potential, where)}; a density can't be negative, infinite or NaN"
        )
    return np.asarray(density)


def describe_point(potential: Potential, point: dict[str, Any]) -> str:
    """Name a point for a message."""
    words = []
    for name, value in point.items():
        variable = potential.variable(name)
        words.append(f"{name}={variable.states[int(value)] if isinstance(variable, Discrete) else float(value)!r}")
    return ", ".join(words)


class ChildModes(NamedTuple):
    """The highest point of a density for every row, how far from it it falls by a factor e, and what was declared."""

    low: Values
    high: Values
    breaks: Values
    peak: Values
    width: Values


def lay_edges(potential: Potential, given: Axes, reach: int, tail: float) -> Values:
    """Return edges of cells (edges, rows), some of them equal: the breaks, and doubling steps away from the peak."""
    low, high, breaks, peak, width = find_modes(potential, given, reach, tail)
    away = STEPS[:, None] * width
    ends = np.stack([end for end in (low, high) if np.isfinite(end).all()] or [peak])
    with np.errstate(over="ignore"):
        edges = np.concatenate((peak - away, peak[None, :], peak + away, breaks, ends))
    edges = np.clip(edges, np.maximum(low, -1e300), np.minimum(high, 1e300))
    return np.sort(edges, axis=0)


def find_modes(potential: Potential, given: Axes, reach: int, tail: float) -> ChildModes:
    """Find the highest point of the density for every row of the parents."""
    child = potential.child
    if not isinstance(child, Continuous):
        raise NetworkError(f"{child.name!r} is discrete; only continuous children are integrated")
    rows = len(next(iter(given.values()))) if given else 1
    within = {p.name: (given[p.name], given[p.name]) for p in potential.parents if isinstance(p, Continuous)}
    low, high = (np.broadcast_to(end, (rows,)).astype(float) for end in potential.support(child.name, tail, within))
    breaks = np.asarray(potential.breaks(child.name, within), dtype=np.float64)
    breaks = np.broadcast_to(breaks if breaks.ndim == 2 else breaks[:, None], (len(breaks), rows))
    breaks = np.clip(breaks, low, high)
    anchors = [given[p.name] for p in potential.parents if isinstance(p, Continuous)]
    anchors.insert(0, np.where(np.isfinite(low), low, np.where(np.isfinite(high), high, 0.0)))
    if reach < REACHES[0]:
        low = np.maximum(low, np.min(anchors, axis=0) - 2.0**reach)
        high = np.minimum(high, np.max(anchors, axis=0) + 2.0**reach)
    # from the outermost breaks outwards; the marks beside the breaks are dense between them
    anchors += list(breaks[[0, -1]] if len(breaks) else breaks)
    marks = np.concatenate((_points_between(breaks, low, high), _points_around(anchors, low, high, reach)))
    marks = _search_narrow_modes(potential, given, low, high, marks, anchors, reach)
    peak = _find_mode(potential, given, low, high, marks)
    return ChildModes(low, high, breaks, peak, _find_width(potential, given, low, high, peak))


def _find_mode(potential: Potential, given: Axes, low: Values, high: Values, marks: Values) -> Values:
    """Climb the logarithm of the density on ever finer grids; it shows the way from far off, where it is smooth."""
    bounded = np.isfinite(low) & np.isfinite(high)
    with np.errstate(invalid="ignore"):
        even = np.where(bounded, low, 0) + np.where(bounded, high - low, 0) * (np.arange(200.0)[:, None] + 0.5) / 200
    grid = np.concatenate((even, marks)) if bounded.any() else marks
    grid = np.sort(np.where((grid > low) & (grid < high), grid, _inner_point(low, high)), axis=0)
    return climb(partial(evaluate, potential, given, np.arange(len(low)), log=True), grid)


def climb(logs: Logs, grid: Values) -> Values:
    """Return the highest point of each column, found on ever finer grids around the highest of the last.

    Examples
    --------
    >>> found = climb(lambda x: -((x - np.pi) ** 2), np.linspace(-10, 10, 20)[:, None])
    >>> bool(abs(found[0] - np.pi) < 1e-7)
    True
    """
    columns = np.arange(grid.shape[1])
    for _ in range(18):
        found_logs = logs(grid)
        # neither NaN nor a pole, which may be integrable, is a peak to lay cells around
        best = np.argmax(np.where(found_logs < np.inf, found_logs, -np.inf), axis=0)
        found = grid[best, columns]
        # neighbors that differ from it, for points may occur twice
        before = np.max(grid, axis=0, initial=-np.inf, where=grid < found)
        after = np.min(grid, axis=0, initial=np.inf, where=grid > found)
        before, after = np.where(np.isfinite(before), before, found), np.where(np.isfinite(after), after, found)
        # uneven shares, which do not lead back to an anchor between two points
        sides = np.array([0.0, 0.11, 0.23, 0.36, 0.48, 0.61, 0.74, 0.87, 1.0])[:, None]
        grid = np.concatenate((before + (found - before) * sides, (found + (after - found) * sides)[1:]))
    return np.asarray(found)


def _search_narrow_modes(
    potential: Potential, given: Axes, low: Values, high: Values, marks: Values, anchors: Sequence[Values], reach: int
) -> Values:
    """Add marks in rows where nothing is seen at any: a narrow density that underflows everywhere but near its peak.

    Its center may be a number somebody wrote down, away from 0 or from a parent's value: numbers of few digits are
    tried.
    """
    rows = np.arange(len(low))
    # a finite interval is looked through evenly
    lost = ~np.isfinite(high - low)
    if lost.any() and len(marks):
        lost[lost] = _is_blank(
            evaluate(potential, _select_rows(given, rows[lost]), rows[: lost.sum()], marks[:, lost], log=True)
        )
    if not lost.any():
        return marks
    found = np.where(lost, _inner_point(low, high), np.nan) + np.zeros((3, 1))
    for digits in DIGITS:
        away = round_numbers(digits, reach)
        steps = np.concatenate((-away[::-1], away))
        for row in np.flatnonzero(lost):
            points = np.unique(np.concatenate([anchor[row] + steps for anchor in anchors]))
            points = points[(points > low[row]) & (points < high[row])]
            logs = evaluate(potential, _select_rows(given, rows[row : row + 1]), rows[:1], points[:, None], log=True)[
                :, 0
            ]
            if len(points) > 2 and not _is_blank(logs):
                best = int(np.clip(np.argmax(np.where(logs < np.inf, logs, -np.inf)), 1, len(points) - 2))
                found[:, row] = points[best - 1 : best + 2]
                lost[row] = False
    return np.concatenate((marks, np.where(np.isnan(found), marks[:1], found)))


def _is_blank(logs: Values) -> NDArray[np.bool_]:
    return np.asarray(~((logs > -np.inf) & (logs < np.inf)).any(axis=0))


def _select_rows(given: Axes, rows: Codes) -> Axes:
    return {name: np.asarray(values)[rows] for name, values in given.items()}


def round_numbers(digits: int, reach: int) -> Values:
    """Return the positive numbers of so many digits, within so many powers of two, ascending: what people write
    down.
    """
    mantissas = np.arange(10.0 ** (digits - 1), 10.0**digits)
    numbers = [
        mantissas / 10.0 ** (digits - 1 - e) if e < digits else mantissas * 10.0 ** (e - digits + 1)
        for e in range(*DECADES)
    ]
    together = np.concatenate(numbers)
    return together[together <= 2.0**reach]


def _inner_point(low: Values, high: Values) -> Values:
    """Return some point inside each interval; ends are left alone, because a density may have a pole there."""
    with np.errstate(invalid="ignore"):
        one_end = np.where(np.isfinite(low), low + 1, np.where(np.isfinite(high), high - 1, 1.0))
        return np.where(np.isfinite(low) & np.isfinite(high), 0.5 * low + 0.5 * high, one_end)


def _points_between(breaks: Values, low: Values, high: Values) -> Values:
    """Return points between neighboring breaks, also very near to them, but not the breaks."""
    if not len(breaks):
        return breaks
    breaks = np.sort(
        np.concatenate((np.maximum(breaks[:1] - 1, low), breaks, np.minimum(breaks[-1:] + 1, high))), axis=0
    )
    near = np.exp2([-40.0, -30, -20, -10, -5, -2])
    shares = np.concatenate((near, [0.5], 1 - near))[:, None, None]
    return np.asarray((breaks[:-1] + shares * np.diff(breaks, axis=0)).reshape(-1, breaks.shape[1]))


def _points_around(anchors: Sequence[Values], low: Values, high: Values, reach: int) -> Values:
    """Return points at distances of powers of two from the anchors, but not the anchors.

    A density that underflows to 0 far from its center shows no way; most have their center at 0 or a parent's value.
    """
    away = np.exp2(np.arange(-40.0, reach))
    steps = np.concatenate((-away[::-1], away))[:, None]
    inside = [anchor + steps for anchor in anchors]
    return np.concatenate(
        [np.where((points > low) & (points < high), points, _inner_point(low, high)) for points in inside]
    )


def _find_width(potential: Potential, given: Axes, low: Values, high: Values, peak: Values) -> Values:
    """Return how far from the peak the density has fallen by a factor e on both sides; an end of the domain counts."""
    logs = partial(evaluate, potential, given, np.arange(len(low)), log=True)
    width = np.maximum(*(find_decay_distance(logs, peak, low, high, sign) for sign in (-1, 1)))
    with np.errstate(invalid="ignore"):
        whole = np.where(np.isfinite(high - low), (high - low) / 4, 1.0)
    return np.where(np.isfinite(width), width, whole)


def find_decay_distance(
    logs: Logs, peak: Values, low: Values, high: Values, sign: int, drop: Values | float = 1.0
) -> Values:
    """Return how far from the peak the logarithm has fallen by 1, or `drop`, on one side; an end counts, inf if
    nowhere.

    Examples
    --------
    >>> low, high = np.full(1, -9.0), np.full(1, 9.0)
    >>> bool(0.7 < find_decay_distance(lambda x: -x**2 / 0.5, np.zeros(1), low, high, 1)[0] < 1.42)
    True
    """
    # not exactly powers of two, which lead back to the anchors
    away = 1.00001 * np.exp2(np.arange(-70, 70.0))[:, None]
    top = logs(peak[None, :])
    points = peak + sign * away
    inside = (points > low) & (points < high)
    found = logs(np.where(inside, points, peak))
    with np.errstate(invalid="ignore"):
        fallen = ~inside | ~(found > top - drop)
    return np.where(fallen.any(axis=0), away[np.argmax(fallen, axis=0), 0], np.inf)


def bisect_jumps(
    values: LogFunctions, columns: NDArray[np.intp], left: Values, right: Values
) -> tuple[NDArray[np.intp], Values]:
    """Return column and place of the jumps between given points: the right one of two neighboring doubles."""
    if not len(columns):
        return columns, left
    at_left, at_right = values(np.stack([left, right]), columns)
    smallest = np.maximum(KEPT_OF_JUMP * np.abs(at_right - at_left), SMALLEST_JUMP)
    while True:
        steep = np.abs(at_right - at_left) >= smallest
        columns, left, right, at_left, at_right, smallest = (
            array[steep] for array in (columns, left, right, at_left, at_right, smallest)
        )
        middle = left + (right - left) / 2
        inside = (middle > left) & (middle < right)
        if not inside.any():
            return columns, right
        at = values(middle[None], columns)[0]
        first = inside & (np.abs(at - at_left) >= np.abs(at_right - at))
        second = inside & ~first
        right, at_right = np.where(first, middle, right), np.where(first, at, at_right)
        left, at_left = np.where(second, middle, left), np.where(second, at, at_left)
