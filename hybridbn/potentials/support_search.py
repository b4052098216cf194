"""Where a density lies that does not say so itself, for ranges of its parents: found from its values alone."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hybridbn.errors import NetworkError
from hybridbn.potentials.base import Interval, Potential
from hybridbn.potentials.mode_search import REACHES, evaluate, fallen_at, named, peaks_of
from hybridbn.potentials.numeric import supports
from hybridbn.variables import Continuous, Discrete, Values, Variable

__all__ = ["found_scale", "found_support", "nothing_seen", "typical_values"]

PLACES = {0: 1, 1: 9, 2: 5}
"""At how many values of each continuous parent the support is looked for, if so many vary."""
FEWER_PLACES = 3
MOST_PLACES = 81
MARGIN = 0.1
"""By how much of its movement a support may move farther between those places."""
INSIDE = 1e-6
UNKNOWN = 1e100
"""Ranges of parents that go beyond are not taken for known."""
AT_THE_END = 1 / 16
MOST_KEPT = 32
LARGEST_KEPT = 1 << 14
"""So many supports that were found are kept, of so many ranges of the parents each."""


def found_support(potential: Potential, tail: float, within: Mapping[str, Interval]) -> Interval:
    """Find the support of a continuous child for every row of its parents' ranges; equal ranges are looked at once.

    It is looked for at all states of the discrete parents and some values of each continuous one within its range; of a
    range that is not known, a few are taken.

    Examples
    --------
    >>> from hybridbn.potentials.gaussian import LinearGaussian
    >>> x, y = Continuous("x"), Continuous("y")
    >>> potential = LinearGaussian(y, (x,), intercept=0, coefficients=[1], variance=4)
    >>> low, high = found_support(potential, 1e-12, {"x": (0.0, 100.0)})
    >>> bool(-25 < low < -14 and 114 < high < 125)
    True
    """
    ranges = [_range(potential, parent, within) for parent in potential.parents if isinstance(parent, Continuous)]
    shape = np.broadcast_shapes(*(np.shape(end) for pair in ranges for end in pair))
    table = np.array([np.broadcast_to(end, shape).reshape(-1) for pair in ranges for end in pair], dtype=np.float64)
    table = table.reshape(2 * len(ranges), -1 if ranges else 1)
    cases, owner = np.unique(table, axis=1, return_inverse=True) if table.shape[1] > 1 else (table, np.zeros(1, int))
    kept = vars(potential).setdefault("_found_supports", {})
    key = tail, cases.tobytes()
    found = kept.get(key)
    if found is None:
        found = _looked_for(potential, tail, cases[0::2], cases[1::2])
        if len(kept) >= MOST_KEPT:
            kept.clear()
        if cases.shape[1] <= LARGEST_KEPT:
            kept[key] = found
    low, high = (end[owner.reshape(-1)].reshape(shape) for end in found)
    return (low, high) if shape else (float(low), float(high))


def found_scale(potential: Potential, name: str) -> float:
    """Find how sharp a density is along a variable, at its peaks for some values of the parents; 0 if it can't be told.

    Examples
    --------
    >>> from hybridbn.potentials.gaussian import LinearGaussian
    >>> x, y = Continuous("x"), Continuous("y")
    >>> potential = LinearGaussian(y, (x,), intercept=0, coefficients=[10], variance=4)
    >>> 1 < found_scale(potential, "y") < 3 and 0.1 < found_scale(potential, "x") < 0.3
    True
    """
    kept = vars(potential).setdefault("_found_scales", {})
    place = potential.scope.index(name)
    if place not in kept:
        kept[place] = _scale(potential, name) if isinstance(potential.variable(name), Continuous) else math.inf
    return float(kept[place])


def _scale(potential: Potential, name: str) -> float:
    child = potential.child
    cases = list(itertools.product(*(typical_values(potential, parent) for parent in potential.parents)))
    cases = cases[:: max(1, len(cases) // MOST_PLACES)]
    given = {p.name: np.array(column) for p, column in zip(potential.parents, zip(*cases, strict=True), strict=True)}
    if isinstance(child, Discrete):
        rows = len(cases)
        given = {n: np.tile(values, len(child)) for n, values in given.items()}
        given[child.name] = np.repeat(np.arange(len(child)), rows)
    else:
        for reach in REACHES:
            try:
                found = peaks_of(potential, given, reach, 0.0)
            except NetworkError:  # a function may be undefined so far out
                continue
            if name == child.name:
                return float(found.width.min()) / 2
            given[child.name] = found.peak
            break
        else:
            return 0.0
    start = given.pop(name)
    least, most = (np.full(len(start), end) for end in potential.support(name, 0.0))
    rows_of = np.arange(len(start))

    def logs(points: Values) -> Values:
        return evaluate(potential, given, rows_of, points, log=True, along=name)

    try:
        return min(float(fallen_at(logs, start, least, most, sign).min()) for sign in (-1, 1)) / 2
    except NetworkError:
        return 0.0


def nothing_seen(potential: Potential, given: Mapping[str, Any]) -> NetworkError:
    """Return the error for a density that seems to be zero everywhere."""
    where = named(potential, dict(given))
    return NetworkError(
        f"{potential.child.name!r}: its {type(potential).__name__} was zero everywhere it was looked at{where and ' for '}"
        f"{where}; give support=(low, high), or breaks= at its peaks, so that its mass is found"
    )


def typical_values(potential: Potential, parent: Variable) -> list[Any]:
    """Return the codes of a parent, or some values in ascending order: between breaks too, where there are any."""
    if isinstance(parent, Discrete):
        return list(range(len(parent)))
    low, high = (float(end) for end in potential.support(parent.name, 0.0))
    if math.isfinite(low) and math.isfinite(high):
        choices = [low + share * (high - low) for share in (0.1, 0.5, 0.9)]
    elif math.isfinite(low) or math.isfinite(high):
        choices = sorted(low + step if math.isfinite(low) else high - step for step in (0.3, 1.0, 3.0))
    else:
        choices = [-1.0, 0.3, 2.0]
    breaks = potential.breaks(parent.name)
    if len(breaks):
        ends = [max(breaks[0] - 1, low), *breaks.tolist(), min(breaks[-1] + 1, high)]
        choices += [0.5 * a + 0.5 * b for a, b in itertools.pairwise(ends) if a < b]
    return sorted(choices)


def _range(potential: Potential, parent: Continuous, within: Mapping[str, Interval]) -> tuple[Values, Values]:
    """Return the range of a parent with what is not known of it filled in."""
    low, high = (np.asarray(end, dtype=np.float64) for end in within.get(parent.name, (-math.inf, math.inf)))
    choices = typical_values(potential, parent)
    low_known, high_known = np.abs(low) < UNKNOWN, np.abs(high) < UNKNOWN
    length = choices[-1] - choices[0]
    bottom, top = potential.support(parent.name, 0.0)
    return (
        np.where(low_known, low, np.where(high_known, np.maximum(high - length, bottom), choices[0])),
        np.where(high_known, high, np.where(low_known, np.minimum(low + length, top), choices[-1])),
    )


def _looked_for(potential: Potential, tail: float, low: Values, high: Values) -> tuple[Values, Values]:
    """Find the support for ranges (continuous parents, rows)."""
    failure: NetworkError | None = None
    for inset in (0.0, INSIDE, 0.25):  # a function may be undefined at the ends of its parents' ranges
        shares = inset + (1 - 2 * inset) * _places(int((high > low).any(axis=1).sum()))
        places = np.full((len(low), len(shares)), 0.5)
        places[(high > low).any(axis=1)] = shares.T
        points = low[:, :, None] + (high - low)[:, :, None] * places[:, None, :]
        try:
            return _hull(potential, tail, np.clip(points, low[:, :, None], high[:, :, None]))
        except NetworkError as error:
            failure = failure or error
    assert failure is not None
    raise failure


def _hull(potential: Potential, tail: float, points: Values) -> tuple[Values, Values]:
    """Return the hull of the supports at points (continuous parents, rows, places) and all states."""
    states = [range(len(parent)) for parent in potential.parents if isinstance(parent, Discrete)]
    combos = math.prod(map(len, states))
    codes = np.array(list(itertools.product(*states)), dtype=np.intp).reshape(combos, len(states)).T
    shape = points.shape[1], points.shape[2], combos
    numbers = iter(np.broadcast_to(points[..., None], (len(points), *shape)).reshape(len(points), math.prod(shape)))
    chosen = iter(np.broadcast_to(codes[:, None, None, :], (len(codes), *shape)).reshape(len(codes), math.prod(shape)))
    given: dict[str, NDArray[Any]] = {
        parent.name: next(chosen) if isinstance(parent, Discrete) else next(numbers) for parent in potential.parents
    }
    low, high = (end.reshape(shape) for end in supports(potential, given, tail))
    unseen = np.isnan(low).all(axis=1)
    if unseen.any():
        row, combo = np.argwhere(unseen)[0]
        middle = np.ravel_multi_index((row, shape[1] // 2, combo), shape)
        raise nothing_seen(potential, {name: values[middle] for name, values in given.items()})
    bottom, top = np.nanmin(low, axis=1), np.nanmax(high, axis=1)
    room = MARGIN * ((top - bottom) - np.nanmax(high - low, axis=1))
    bottom, top = (bottom - room).min(axis=1), (top + room).max(axis=1)
    least, most = potential.support(potential.child.name, 0.0)
    near = AT_THE_END * (top - bottom)
    # an end of the domain so near is worth the few cells more
    return np.where(bottom - near < least, least, bottom), np.where(top + near > most, most, top)


def _places(parents: int) -> Values:
    """Return places in a unit cube (places, parents): a grid, or the corner, middle and centers of the sides."""
    each = PLACES.get(parents, FEWER_PLACES)
    if each**parents <= MOST_PLACES:
        return np.array(list(itertools.product(np.linspace(0, 1, each), repeat=parents))).reshape(
            each**parents, parents
        )
    sides = np.full((2 * parents, parents), 0.5)
    sides[np.arange(2 * parents), np.arange(2 * parents) % parents] = np.repeat([0.0, 1.0], parents)
    return np.concatenate(
        (np.zeros((1, parents)), sides[:parents], np.full((1, parents), 0.5), sides[parents:], np.ones((1, parents)))
    )
