"""What the numbers of a column are: measurements, codes, counts, marks of missing cells, or names of rows.

A scale is found once from the numbers of a column, and everything that depends on what a column is asks it: how it is
learned by default, which numbers are drawn and told, and what is warned of.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from hybridbn.units import coarsest_step
from hybridbn.variables import Continuous, Grid, Values

MOST_LISTED = 12
"""A column of no more different numbers is learned as a table of their probabilities."""
ROWS_PER_CODE = 4
"""Numbers that are repeated less often are no codes."""
MOST_CODES = 20
"""A column with more different numbers has no codes."""
ROWS = 50
"""What a column can't be needs so many rows that show it."""
CHANCE = 1e-4
"""Chance keeps a rule that is found with at most this probability."""
_SIGNS_ROWS = 14
"""This many numbers of the same sign show that a column has no other, as chance gives them with 2 ** -14 at most."""
_USUAL_SHARE = 0.9
"""The share of a column's numbers that have no more decimals than its grid."""
SPIKE_SHARE = 0.1
"""A number that a larger share of the cells has says nothing about the decimals of the others."""
_MOST_DECIMALS = 6
"""Numbers with more decimals are taken for measurements of full precision."""
_FLOAT_DIGITS = (("f8", 1e13), ("f4", 1e6))
"""Beyond these multiples of the last decimal, rounding changes nothing: the types have 16 and 7 digits."""
_EDGE_ROWS, _EDGE_SHARE, _EDGE_FACTOR = 5, 0.02, 2.0
"""An end of the observed range that occurs so often, and so many times as often as others, is an end of the scale."""
_LARGEST_WHOLE = 1e15
"""Whole numbers below that are exact."""
_PROBED, _PROBE_SLACK = 100, 0.2
"""So many numbers are looked at first, whose share may be that much smaller than that of all."""
_SLACK, _SMALLEST = 1e-9, 1e-6
"""What rounding changes, in steps, and the least step that is found."""
_EDGE_NUMBERS = 10
"""A column of fewer different numbers has no end of the scale that stands out."""
LEAST_ROWS = 20
"""Points are told apart from densities in columns of so many rows at least."""
FEW_VALUES = 3
"""The frequencies of so few values have no more parameters than a normal density, two."""
NEIGHBORS = 3
ABOVE_HEAPS = 3.0
"""A value is more than a heap that rounding makes where it has this many times the rows of other frequent values."""
HEAVIER = 10.0
"""Of ten rows at a point at least nine are there because of the point, so a value observed there may count as such."""
MANY_ROWS = 2000
"""From this number of rows on, values are counted by hashes before they are sorted."""
HASH_FACTOR = 0x9E3779B97F4A7C15
"""Multiplicative hashing: the first bits of the product with an odd number close to the golden ratio of 2 ** 64."""
HASH_BITS = 14

_MARKS = frozenset(
    [-1.0, 66.0, 77.0, 88.0, 96.0]
    + [sign * float(str(digit) * count) for sign in (1, -1) for digit in (7, 8, 9) for count in (1, 2, 3, 4, 5)]
    + [sign * (10.0**count - back) for sign in (1, -1) for count in (2, 3, 4) for back in (2, 3)]
)
"""Numbers that often stand for answers that nobody gave."""
_APART = 2.5
"""Marks are so many times as far from the other numbers as any neighbors among these are from each other."""
_MOST_MARKS = 4


class Mark(NamedTuple):
    """A number that may stand for missing cells, and how many cells have it."""

    value: float
    cells: int


@dataclass(frozen=True)
class Scale:
    """What the numbers of a column are.

    Attributes
    ----------
    grid : Grid
        Their step, and the ends beyond which none can be.
    codes : tuple of float
        All numbers, where they are few and repeated, and those between them.
    points : tuple of float
        Numbers that a density does not explain.
    marks : tuple of Mark
    row_numbers : bool
        Whether they number the rows.
    seen : (low, high), optional
        The least and the greatest one.
    """

    grid: Grid | None = None
    codes: tuple[float, ...] = ()
    points: tuple[float, ...] = ()
    marks: tuple[Mark, ...] = ()
    row_numbers: bool = False
    seen: tuple[float, float] | None = None

    @property
    def multiple(self) -> float | None:
        """The step of a column of multiples of a number, if that is more than decimals say."""
        step = 0.0 if self.grid is None else self.grid.step
        return step if step > 1 or (step > 0 and math.log10(step) % 1) else None

    def describe(self) -> str:
        """Return in a few words what the numbers are; nothing where they may be any.

        Examples
        --------
        >>> Scale(Grid(1.0, 1.0, 3.0), (1.0, 2.0, 3.0), seen=(1.0, 3.0)).describe()
        'codes 1, 2, 3'
        >>> Scale(Grid(0.5, 0.0), points=(0.0,), marks=(Mark(99.0, 7),), seen=(0.0, 99.0)).describe()
        'multiples of 0.5, 0 to 99, never negative, often 0; 99 in 7 cells may mean that they are missing'
        """
        if self.seen is None:
            return ""
        marks = {mark.value for mark in self.marks}
        digits = 10 if self.grid is not None and self.grid.step else 4
        seen = " to ".join(f"{end:.{digits}g}" for end in self.seen)
        if self.seen[0] == self.seen[1]:
            words = [f"always {self.seen[0]:.10g}"]
        elif self.row_numbers:
            words = [f"row numbers {seen}"]
        elif self.codes:
            words = [f"codes {_list_numbers(self.codes)}"]
        else:
            often = _list_numbers([point for point in self.points if point not in marks])
            words = [*self._describe_grid(marks, seen), f"often {often}" if often else ""]
        cells = [f"{mark.value:g} in {mark.cells:,} cells" for mark in self.marks]
        told = f"{', '.join(cells)} may mean that they are missing" if cells else ""
        return "; ".join(filter(None, [", ".join(filter(None, words)), told]))

    def _describe_grid(self, marks: Collection[float], seen: str) -> list[str]:
        grid = Grid() if self.grid is None else self.grid
        low, high = grid.low, grid.high
        if math.isfinite(low) and math.isfinite(high):
            ends = f"between {low:g} and {high:g}"
        elif low in marks or high in marks:
            ends = ""
        elif 0 < low <= max(grid.step, _SMALLEST):
            ends = "positive"
        elif not low:
            ends = "never negative"
        else:
            sides = ("below", low), ("above", high)
            ends = "".join(f"never {word} {end:g}" for word, end in sides if math.isfinite(end))
        kinds = {0.0: "numbers", 1.0: "whole numbers"}
        return [kinds.get(grid.step, f"multiples of {grid.step:g}"), seen, ends]


def _list_numbers(numbers: Sequence[float]) -> str:
    return ", ".join(f"{number:.10g}" for number in numbers)


def find_scale(values: Values, weights: Values | None = None, *, ordered: bool = False) -> Scale:
    """Find what the numbers of a column are.

    Parameters
    ----------
    values : ndarray (rows,)
        NaN where a cell is missing.
    weights : ndarray (rows,), optional
    ordered : bool
        Whether the column is known to be one of ordered codes.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> find_scale(rng.integers(1, 6, size=200).astype(float)).codes
    (1.0, 2.0, 3.0, 4.0, 5.0)
    >>> find_scale(rng.gamma(9.0, 4.0, size=200).round()).grid
    Grid(step=1.0, low=1.0, high=inf)
    """
    values, weights = _leave_missing(values, weights)
    if len(values) < LEAST_ROWS:
        return Scale()
    few = ordered or has_frequent_value(values, weights)
    tally = Tally(values, np.ones(len(values)) if weights is None else weights)
    if few or {tally.least, tally.most} & _MARKS or tally.most - tally.least < len(values):
        tally = Tally(*count_values(values, weights))
    marks = find_marks(tally.values, tally.counts)
    codes = list_codes(tally, marks, ordered=ordered) if few else ()
    low, high = (codes[0], codes[-1]) if codes else find_support(tally)
    step = find_step(tally) or 0.0
    if step:
        low, high = math.ceil(low / step - _SLACK) * step if math.isfinite(low) else low, high
    bounded = step > 0 or math.isfinite(low) or math.isfinite(high)
    return Scale(
        Grid(step, low, high) if bounded and low < high else None,
        codes,
        find_points(tally.values, tally.counts) if few else (),
        marks,
        number_rows(tally.values, len(values)),
        (tally.least, tally.most),
    )


@dataclass(frozen=True)
class Tally:
    """Numbers, different ones or not, and the weights of their rows."""

    values: Values
    counts: Values

    @cached_property
    def rows(self) -> float:
        """The weight of all."""
        return float(self.counts.sum())

    @cached_property
    def least(self) -> float:
        """The least number."""
        return float(self.values.min())

    @cached_property
    def most(self) -> float:
        """The greatest number."""
        return float(self.values.max())

    @cached_property
    def decimals(self) -> int | None:
        """The decimals that all have at most; None for more than six, or where they are too large to count in units."""
        decimals = decimals_of(self.values)
        largest = max(-self.least, self.most)
        return decimals if decimals is not None and largest * 10.0**decimals < _LARGEST_WHOLE else None


def _leave_missing(values: Values, weights: Values | None) -> tuple[Values, Values | None]:
    """Return the numbers and weights of the rows that count."""
    seen = ~np.isnan(values) if weights is None else ~np.isnan(values) & (weights > 0)
    return values[seen], None if weights is None else weights[seen]


def count_values(values: Values, weights: Values | None = None) -> tuple[Values, Values]:
    """Return the different values and the weights of their rows."""
    if weights is None:
        distinct, counts = np.unique(values, return_counts=True)  # sorts the values alone, which is faster
        return distinct, np.asarray(counts, dtype=np.float64)
    distinct, owner = np.unique(values, return_inverse=True)
    return distinct, np.asarray(np.bincount(owner, weights), dtype=np.float64)


def coarsen_unit(variable: Continuous, observed: Values) -> Continuous:
    """Return a variable whose imputed values are rounded to days, hours, minutes, ... as all observed ones are."""
    unit = variable.unit
    if unit is None or len(observed) < LEAST_ROWS:
        return variable
    return replace(variable, unit=replace(unit, step=coarsest_step(observed, unit)))


def find_step(tally: Tally) -> float | None:
    """Return the step of a column's numbers: a multiple that chance hardly makes, or that of their usual decimals."""
    step = find_multiple(tally)
    if step is not None or max(-tally.least, tally.most) >= _LARGEST_WHOLE:
        return step
    decimals = 0 if tally.decimals == 0 else usual_decimals(tally.values, tally.counts)
    return None if decimals is None else 10.0**-decimals


def list_codes(tally: Tally, marks: Sequence[Mark] = (), *, ordered: bool = False) -> tuple[float, ...]:
    """Return the numbers of a column of codes, those between them included; none where they are measurements.

    Codes are few numbers each of which occurs several times, as declared ones need not.

    Examples
    --------
    >>> numbers = np.array([1.0, 2.0, 4.0, 5.0])
    >>> list_codes(Tally(numbers, np.full(4, 9.0))), list_codes(Tally(numbers, np.ones(4)))
    ((1.0, 2.0, 3.0, 4.0, 5.0), ())
    """
    distinct, size, decimals = tally.values, len(tally.values), tally.decimals
    repeated = size <= MOST_LISTED and tally.rows >= ROWS_PER_CODE * size
    repeated |= size <= MOST_CODES and tally.rows >= ROWS and tally.counts.min() > 1
    if size < 2 or not (ordered or repeated):
        return ()
    own = np.setdiff1d(distinct, [mark.value for mark in marks])
    if decimals is None or len(own) <= FEW_VALUES:
        return tuple(distinct.tolist())
    units = np.rint(own * 10.0**decimals).astype(np.int64)
    step = int(np.gcd.reduce(np.diff(units)))
    # numbers such as 1, 2, 3 and 24 are no scale, but codes all the same
    between = (units[-1] - units[0]) // step < max(MOST_LISTED, len(units))
    listed = np.arange(units[0], units[-1] + step, step) if between else units
    return tuple(np.union1d(np.round(listed * 10.0**-decimals, decimals), distinct).tolist())


def find_marks(distinct: Values, counts: Values) -> tuple[Mark, ...]:
    """Return the numbers at the ends of a column that may stand for missing cells.

    They are repeated, and far from all others as these lie: 9 after 1 and 2, 97 to 99 after 8, -99 below amounts of
    which none is negative.

    Examples
    --------
    >>> find_marks(np.array([1.0, 2.0, 9.0]), np.array([40.0, 50.0, 3.0]))
    (Mark(value=9.0, cells=3),)
    >>> find_marks(np.arange(11.0), np.full(11, 20.0))
    ()
    """
    if not {float(distinct[0]), float(distinct[-1])} & _MARKS:
        return ()
    candidates = np.isin(distinct, [*_MARKS]) & (counts > 1)
    marks: list[int] = []
    for order in (np.arange(len(distinct)), np.arange(len(distinct))[::-1]):
        run = 0
        while run < min(_MOST_MARKS, len(order) - 2) and candidates[order[run]]:
            run += 1
        sizes = (
            size for size in range(run, 0, -1) if _is_apart(distinct[order[:size]], np.sort(distinct[order[size:]]))
        )
        marks += order[: next(sizes, 0)].tolist()
    return tuple(Mark(float(distinct[place]), int(counts[place])) for place in sorted(marks))


def _is_apart(marks: Values, rest: Values) -> bool:
    """Tell whether numbers at one end lie apart from the rest, which is ascending."""
    if marks.max() < 0 <= rest[0]:
        return True
    gap = rest[0] - marks.max() if marks.max() < rest[0] else marks.min() - rest[-1]
    return bool(gap > _APART * np.diff(rest).max())


def number_rows(distinct: Values, rows: int) -> bool:
    """Tell whether the numbers of a column number its rows: whole, all different and consecutive.

    Examples
    --------
    >>> number_rows(np.arange(1.0, 31.0), 30), number_rows(np.arange(1.0, 31.0), 31)
    (True, False)
    """
    least, most = distinct.min(), distinct.max()
    return bool(len(distinct) == rows and most == least + rows - 1 and not (distinct % 1).any())


# -- steps and ends ---------------------------------------------------------------------------------------------------


def usual_decimals(values: Values, counts: Values | None = None) -> int | None:
    """Return the number of decimals that nearly all values have at most; None for more than six.

    A number that very many cells have, such as zero, says nothing of the others, but keeps its own decimals.

    Parameters
    ----------
    values : ndarray
    counts : ndarray, optional
        How often each value occurs, where they are different.

    Examples
    --------
    >>> ages = np.array([*range(20, 79), 0.9166666667])
    >>> usual_decimals(ages), usual_decimals(np.array([0.0] * 90 + [1.25, 3.5, 12.75, 8.25, 2.75]))
    (0, 2)
    """
    distinct, counts = count_values(values) if counts is None else (values, counts)
    is_rare = counts <= SPIKE_SHARE * counts.sum()
    if is_rare.all() or not is_rare.any():
        return decimals_of(distinct, share=_USUAL_SHARE, counts=counts)
    least = decimals_of(distinct[~is_rare])
    rare = distinct[is_rare], counts[is_rare]
    return None if least is None else decimals_of(rare[0], least, share=_USUAL_SHARE, counts=rare[1])


def decimals_of(values: Values, least: int = 0, share: float = 1.0, counts: Values | None = None) -> int | None:
    """Return the number of decimals that a share of the values has at most, at least `least`; None for more than six.

    Examples
    --------
    >>> decimals_of(np.array([1.5, 2.25, -3.0])), decimals_of(np.array([1.0, 2.0])), decimals_of(np.array([1 / 3]))
    (2, 0, None)
    >>> decimals_of(np.array([0.1, 2.5], dtype=np.float32).astype(np.float64))
    1
    """
    size = float(np.abs(values).max(initial=0.0))
    weights = np.ones(len(values)) if counts is None else counts
    some = np.arange(0, len(values), max(1, len(values) // _PROBED))
    for kind, digits in _FLOAT_DIGITS:
        with np.errstate(over="ignore"):
            converted = values.astype(kind)
        if (converted != values).any():
            continue
        tried = [n for n in range(least, _MOST_DECIMALS + 1) if not n or size * 10.0**n <= digits]
        # some numbers usually suffice to rule out that all, or most, have so few decimals
        if (
            not tried
            or (np.round(values[some], tried[-1]).astype(kind) == converted[some]).mean() < share - _PROBE_SLACK
        ):
            continue
        for decimals in tried:
            kept = np.round(values, decimals).astype(kind) == converted
            if kept.all() if share == 1 else kept @ weights >= share * weights.sum():
                return decimals
    return None


def round_to_decimals(values: Values, decimals: int) -> Values:
    """Return values rounded to a number of decimals; -0.0 becomes 0.0.

    Examples
    --------
    >>> round_to_decimals(np.array([0.126, -0.001]), 2).tolist()
    [0.13, 0.0]
    """
    return np.asarray(np.round(values, decimals) + 0.0)


def grid_ends(low: float, high: float, decimals: int) -> tuple[float, float]:
    """Return the least and the greatest rounded number within bounds; the first is the greater one if there is none.

    Examples
    --------
    >>> grid_ends(0.7, np.inf, 1), grid_ends(0.21, 0.49, 1), grid_ends(0.21, 0.29, 1)
    ((0.7, inf), (0.3, 0.4), (0.3, 0.2))
    """
    first, last = (float(round_to_decimals(np.array(end), decimals)) for end in (low, high))
    step = 10.0**-decimals
    first = first if first >= low else float(round_to_decimals(np.array(first + step), decimals))
    return first, last if last <= high else float(round_to_decimals(np.array(last - step), decimals))


def find_multiple(tally: Tally) -> float | None:
    """Return the greatest number that all are multiples of, if chance would hardly make them so."""
    decimals = tally.decimals if tally.rows >= ROWS else None
    if decimals is None:
        return None
    units = np.unique(np.round(tally.values * 10.0**decimals)).astype(np.int64)
    step = int(np.gcd.reduce(units))
    if step < 2 or math.log(step) * (len(units) - 1) < -math.log(CHANCE):
        return None
    return float(np.round(step * 10.0**-decimals, decimals))


def find_support(tally: Tally) -> tuple[float, float]:
    """Return what numbers of a column can't be below or above: zero, one, a hundred, or an end where many are."""
    from scipy.special import ndtr

    values, counts, rows, least, most = tally.values, tally.counts, tally.rows, tally.least, tally.most
    low, high = -math.inf, math.inf
    if rows < _SIGNS_ROWS:
        return low, high
    if least >= 0:
        low = 0.0 if not least or tally.decimals is None else min(10.0**-tally.decimals, least)
    elif most <= 0:
        high = 0.0
    if rows < ROWS:
        return low, high
    for top in (1.0, 100.0) if least >= 0 else ():
        whole_scale = 0.9 * top < most <= top and least < 0.1 * top
        if most == top or whole_scale:
            high = top
        elif 0.5 * top < most < top:
            mean = values @ counts / rows
            deviation = max(math.sqrt((values - mean) ** 2 @ counts / rows), 1e-300)
            if rows * math.log1p(-min(float(ndtr((mean - top) / deviation)), 0.999)) < math.log(0.01):
                high = top
    low = 0.0 if least >= 0 and math.isfinite(high) else low
    enough = max(_EDGE_ROWS, _EDGE_SHARE * rows)
    at_least, at_most = (float(counts[values == end].sum()) for end in (least, most))
    if max(at_least, at_most) >= enough and (size := len(np.unique(values))) >= _EDGE_NUMBERS:
        enough = max(enough, _EDGE_FACTOR * rows / size)
        low = max(low, least) if at_least >= enough else low
        high = min(high, most) if at_most >= enough else high
    return low, high


# -- points -----------------------------------------------------------------------------------------------------------


def find_heavy_points(values: Values, weights: Values | None = None) -> tuple[float, ...]:
    r"""Return the values of a column that have a mass of their own, rather than a share in a density.

    The Bayesian information criterion compares a point and a density with a density alone at the resolution of the
    column, as probabilities of its distinct values. What a density expects at a value is the mean number of rows of its
    neighbors, the three next values on the side where that is larger. The value is a point where its c rows exceed the
    expected number e so far that

    .. math:: c \log \frac{c}{e} - (c - e) > \tfrac{1}{2} \log n + \log k

    with n rows and k distinct values, and it has at least :math:`\sqrt{n}` rows and ten times as many as expected.
    Numbers that were rounded, such as ages, have no points, since their neighbors have about as many rows, nor have the
    heaps of numbers that were often rounded to tens, which are compared with each other; values that resampling repeats
    are too few. Up to three values are all points, because their frequencies have no more
    parameters than a normal density, and no smaller likelihood. There are no points in columns of less than 20 rows or
    of a single value.

    Parameters
    ----------
    values : ndarray (rows,)
        NaN where a cell is missing.
    weights : ndarray (rows,), optional
        A weight of two is the same as a row that occurs twice.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> ages, rain = rng.normal(40, 12, 1000).round(), np.where(rng.random(1000) < 0.3, 0.0, rng.gamma(2, size=1000))
    >>> find_heavy_points(ages), find_heavy_points(rain), find_heavy_points(np.where(ages > 40, 1.0, 0.5))
    ((), (0.0,), (0.5, 1.0))
    """
    values, weights = _leave_missing(values, weights)
    return find_points(*count_values(values, weights)) if has_frequent_value(values, weights) else ()


def find_points(distinct: Values, counts: Values) -> tuple[float, ...]:
    """Return which of some values have a mass of their own, as `find_heavy_points` says."""
    rows, size = float(counts.sum()), len(distinct)
    if rows < LEAST_ROWS or size < 2:
        return ()
    if size <= FEW_VALUES:
        return tuple(distinct.tolist())
    numbers, rest = counts.tolist(), list(range(size))
    candidates = np.flatnonzero(counts >= max(math.sqrt(rows), HEAVIER))
    price = 0.5 * math.log(rows) + math.log(size)
    for index in candidates[np.argsort(-counts[candidates], kind="stable")].tolist():
        count = numbers[index]
        expected = _find_mean_beside(numbers, rest, index) if len(rest) > 1 else 0.5
        if count < HEAVIER * expected or count * math.log(count / expected) - (count - expected) <= price:
            continue
        # numbers that are often rounded to tens: the tens are what to compare with
        if len(candidates) <= NEIGHBORS or count >= ABOVE_HEAPS * _find_mean_beside(
            numbers, candidates.tolist(), index
        ):
            rest.remove(index)
    # what is left may be too little for a density
    left = sum(numbers[index] for index in rest)
    if len(rest) < size and (len(rest) == 1 or len(rest) <= FEW_VALUES < left):
        rest = []
    return tuple(np.delete(distinct, rest).tolist())


def _find_mean_beside(counts: Sequence[float], values: Sequence[int], index: int) -> float:
    """Return the mean number of rows of the next values among some, on the side where that is larger."""
    place = bisect_left(values, index)
    sides = values[max(place - NEIGHBORS, 0) : place], values[place + 1 : place + 1 + NEIGHBORS]
    return max(sum(counts[value] for value in side) / len(side) for side in sides if side)


def has_frequent_value(values: Values, weights: Values | None) -> bool:
    """Tell whether a value may have enough rows for a point; counting hashed values is faster than sorting them."""
    if len(values) < MANY_ROWS:
        return True
    # zero has two signs; other equal numbers have the same bits
    bits = (values + 0.0).view(np.uint64)
    bits *= np.uint64(HASH_FACTOR)
    bits >>= np.uint64(64 - HASH_BITS)
    counts = np.bincount(bits.view(np.int64), weights)
    return bool(counts.max() >= max(math.sqrt(float(counts.sum())), HEAVIER))
