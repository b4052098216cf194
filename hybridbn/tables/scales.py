"""What the numbers of a column are: measurements, codes, counts, marks of missing cells, or names of rows.

A scale is found once from the numbers of a column, and everything that depends on what a column is asks it: how it is
learned by default, which numbers are drawn and told, and what is warned of.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_left
from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from hybridbn.variables import Grid, Values, shorten

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
MARKS = frozenset(
    [-1.0, 66.0, 77.0, 88.0, 96.0]
    + [sign * float(str(digit) * count) for sign in (1, -1) for digit in (7, 8, 9) for count in range(1, 8)]
    + [sign * (10.0**count - back) for sign in (1, -1) for count in (2, 3, 4) for back in (2, 3)]
    + [sign * (10.0**count - back) for sign in (1, -1) for count in (2, 3, 4) for back in (0.1, 0.01)]
)
"""Numbers that often stand for answers that nobody gave,"""
_INNER = (7.0, 8.0, 66.0, 96.0)
"""and those of them that do so only before others, as 8 before 9."""
_TEXTS = re.compile(
    r"|[?.*]|--?|n[./]?[ad]\.?|nan|nat|null|<na>|#n/?a|\(?(?:missing|unknown)\)?|unspecified|undefined|refused"
    r"|not? (?:known|available|applicable|stated|specified|data|answer|response|reply)|do ?n'?o?t know"
    r"|prefer not to (?:say|answer)|keine angaben?|k[./]? ?a\.?|unbekannt|fehlt|weiss nicht|verweigert"
    r"|nicht (?:bekannt|zutreffend)|inconnue?|non renseigné|sans réponse|nsp|ne sait pas|refus|non disponible"
    r"|manquant|s/o"
)
"""Texts that do, without regard to case."""
_LEAST_SIGNS = 4
"""Shorter texts are marks only where others are not like them."""
_MOST_MARKS, _NEAREST = 4, 10
"""So many numbers at an end of a column may be marks, and so many beside them tell how far apart others are."""
_WIDER, _SURPRISE = 2.5, 8.0
"""The gap before a mark is so many times as wide as that which would follow the steps before it, and chance would leave
such a gap with a probability of exp(-8) at most."""
_LARGER, _MUCH_LARGER, _HEAVY = 2.0, 10.0, 5.0
"""What is no greatest number of all is so many times as large or as small as the one beside it; so many times, it may
have no such gap where it is so many times as frequent as others."""
_NINES, _TAPERED, _LEAST_OF_SIGNS = 0.3, 0.1, 4.0
"""Where such a share of numbers end in nines, they are prices; counts whose last number has so small a share of the
most frequent one's cells may skip some; a scale that goes on so far is not symmetric, as -1, 0, 1 is."""
_ROUNDING = 8 * float(np.finfo(float).eps)
"""Numbers that differ by less than this share of the largest are what rounding makes of a constant."""
_IDENTIFIER_ROWS, _NEARLY_ALL, _WORDS_OF_TEXT = 20, 0.9, 4
"""In a column of fewer rows all values may well differ by chance; if this share of the cells of a text column differ,
it is taken for an identifier, and for free text if most do, and have so many words."""
_YEARS, _REPETITIONS = (1500, 2200), 10.0
"""Different whole numbers between these are years; where so many repetitions are expected by chance and there is none,
they were dealt out."""
_LONG, _VERY_LONG = 6, 9
"""Different whole numbers of so many digits each are names where they spread evenly, or even where they don't."""
_EVEN_ROWS, _EVEN = 50, 1.36
"""So many numbers spread evenly if Kolmogorov's statistic is no greater, as that of 95 % of uniform ones is."""


class Mark(NamedTuple):
    """A value that may stand for missing cells, and how many cells have it."""

    value: Any
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
    identifier : str
        In words that they name or count the rows; empty where they don't.
    seen : (low, high), optional
        The least and the greatest one.
    """

    grid: Grid | None = None
    codes: tuple[float, ...] = ()
    points: tuple[float, ...] = ()
    marks: tuple[Mark, ...] = ()
    identifier: str = ""
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
        elif self.identifier:
            words = [f"{self.identifier}, {seen}"]
        elif self.codes:
            words = [f"codes {_list_numbers(self.codes)}"]
        else:
            often = _list_numbers([point for point in self.points if point not in marks])
            words = [*self._describe_grid(marks, seen), f"often {often}" if often else ""]
        return "; ".join(filter(None, [", ".join(filter(None, words)), describe_cells(self.marks)]))

    def _describe_grid(self, marks: Collection[float], seen: str) -> list[str]:
        grid = Grid() if self.grid is None else self.grid
        low, high = -math.inf if grid.low in marks else grid.low, math.inf if grid.high in marks else grid.high
        if math.isfinite(low) and math.isfinite(high):
            ends = f"between {low:g} and {high:g}"
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


def find_scale(
    values: Values, weights: Values | None = None, *, ordered: bool | None = None, integer: bool = False
) -> Scale:
    """Find what the numbers of a column are.

    Parameters
    ----------
    values : ndarray (rows,)
        NaN where a cell is missing.
    weights : ndarray (rows,), optional
    ordered : bool, optional
        Whether the column is known to be one of ordered codes, or of none.
    integer : bool
        Whether its type is one of whole numbers, which may number the rows.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> find_scale(rng.integers(1, 6, size=200).astype(float)).codes
    (1.0, 2.0, 3.0, 4.0, 5.0)
    >>> find_scale(rng.gamma(9.0, 4.0, size=200).round()).grid
    Grid(step=1.0, low=1.0, high=inf)
    """
    rows = len(values) if integer else 0
    values, weights = _leave_missing(values, weights)
    if len(values) < LEAST_ROWS:
        return Scale()
    few = ordered or has_frequent_value(values, weights)
    tally = Tally(values, np.ones(len(values)) if weights is None else weights)
    has_marks = bool({tally.least, tally.most} & MARKS)
    numbers_rows = not (ordered or (values[:_PROBED] % 1).any())
    if few or has_marks or numbers_rows:
        tally = Tally(*count_values(values, weights))
    marks = find_marks(tally.values, tally.counts) if has_marks else ()
    codes = list_codes(tally, marks, ordered=bool(ordered)) if few and ordered is not False else ()
    # others are looked at without marks, which lie apart, so that no density holds them
    apart = [mark.value for mark in marks]
    own = np.isin(tally.values, apart, invert=True)
    points = find_points(tally.values[own], tally.counts[own]) if few else ()
    low, high = (codes[0], codes[-1]) if codes else find_support(tally)
    step = find_step(tally) or 0.0
    low = math.ceil(low / step - _SLACK) * step if step and math.isfinite(low) else low
    bounded = step > 0 or math.isfinite(low) or math.isfinite(high)
    return Scale(
        Grid(step, low, high) if bounded and low < high else None,
        codes,
        tuple(sorted({*points, *apart})),
        marks,
        describe_numbering(tally.values, len(values), rows) if numbers_rows else "",
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


# -- marks -------------------------------------------------------------------------------------------------------------


def find_marks(distinct: Values, counts: Values, asked: Collection[float] = ()) -> tuple[Mark, ...]:
    """Return the numbers at the ends of a column that may stand for missing cells.

    They are of a list, are repeated, and lie apart from all others: 9 after 1 and 2, 97 to 99 after 8, -99 below
    amounts of which none is negative. They are no marks where the column may go on as far, as ages do, up to 99, or
    where many of its numbers end in nines, as prices do.

    Parameters
    ----------
    distinct, counts : ndarray (numbers,)
        The different numbers, ascending, and the weight of each.
    asked : collection of float
        Numbers that may be marks, whether they are in the list and repeated or not.

    Examples
    --------
    >>> find_marks(np.array([1.0, 2.0, 9.0]), np.array([40.0, 50.0, 3.0]))
    (Mark(value=9.0, cells=3),)
    >>> find_marks(np.arange(11.0), np.full(11, 20.0))
    ()
    """
    candidates = (np.isin(distinct, [*MARKS]) & (counts > 1)) | np.isin(distinct, [*asked])
    marks: list[int] = []
    for sign in (1, -1):
        # seen from this end, the numbers rise behind the marks
        numbers, weights, listed = sign * distinct[::sign], counts[::sign], candidates[::sign]
        is_inner = sign < 0 and -numbers[0] in _INNER and -numbers[0] not in asked
        run = 0 if is_inner else int(np.argmin(np.append(listed[: min(_MOST_MARKS, max(len(numbers) - 2, 0))], False)))
        size = next((size for size in range(run, 0, -1) if _lie_apart(numbers, weights, size, sign)), 0)
        marks += np.arange(len(distinct))[::sign][:size].tolist()
    return tuple(Mark(float(distinct[place]), round(float(counts[place]))) for place in sorted(marks))


def _lie_apart(numbers: Values, weights: Values, size: int, sign: int) -> bool:
    """Tell whether the first numbers of a column, which is ascending but for a sign, lie apart from the others."""
    mark, rest, cells = sign * float(numbers[size - 1]), numbers[size:], weights[size:]
    gap, own = float(rest[0] - numbers[size - 1]), float(weights[:size].sum())
    steps = np.diff(rest[: _NEAREST + 1])
    # steps that grow towards the end, as in 1, 2, 4, 8, may grow further
    grows = 1 < len(steps) == len(rest) - 1 and bool((np.diff(steps) < 0).all())
    is_wide = gap > _WIDER * (steps[0] ** 2 / steps[1] if grows else steps.max())
    tail = np.searchsorted(np.cumsum(cells), 0.1 * cells.sum())
    scale = max(float(np.average(rest[tail] - rest[: tail + 1], weights=cells[: tail + 1])), float(np.median(steps)))
    # the chance that all of them lie so far beyond, and that the numbers between do not occur
    surprise = own * min(gap / scale, (gap / steps.min() - 1) * min(1.0, cells[0] / own))
    is_heavy = own >= _HEAVY * max(1.0, float(np.median(cells[: _NEAREST + 1])))
    if mark < 0 <= sign * rest[0]:
        may_be_symmetric = mark >= -1 and rest[-1] < _LEAST_OF_SIGNS
        return not may_be_symmetric and (is_heavy or is_wide or own * gap / scale > _SURPRISE)
    ratio = max(abs(rest[0] / mark), abs(mark / rest[0]) if rest[0] else 0.0)
    if sign < 0 < mark:
        nines = ((rest - 1) % 10 == 0) | (np.round(rest - 0.01, 4) % 1 == 0)
        tapers_off = cells[0] < _TAPERED * cells.max() and own < 2 * cells[0]
        return is_wide and surprise > _SURPRISE and nines.mean() < _NINES and not tapers_off
    return ratio >= _LARGER and ((is_wide and surprise > _SURPRISE) or (is_heavy and ratio >= _MUCH_LARGER))


def list_marks_among(states: Sequence[Hashable], counts: Values) -> tuple[Mark, ...]:
    """Return the states of a column that may stand for missing cells, given the rows of each.

    States that are numbers are looked at as numbers. Short texts are none among others of the same kind, such as "na"
    among codes of countries and "-" beside "+", nor is a word that is one of two states.

    Examples
    --------
    >>> list_marks_among(("m", "f", "n/a", "k.A."), np.array([5.0, 5.0, 2.0, 1.0]))
    (Mark(value='n/a', cells=2), Mark(value='k.A.', cells=1))
    >>> list_marks_among(("+", "-"), np.array([5.0, 5.0])), list_marks_among(("known", "unknown"), np.array([5.0, 5.0]))
    ((), ())
    """
    if all(type(state) in (int, float) for state in states):
        numbers = np.array(states, dtype=np.float64)
        order = np.argsort(numbers)
        found = find_marks(numbers[order], counts[order]) if len(states) > 2 else ()
        return tuple(Mark(states[int(np.argmax(numbers == mark.value))], mark.cells) for mark in found)
    texts = [state.strip().casefold() if isinstance(state, str) else "0" for state in states]
    others = [text for text in texts if not _TEXTS.fullmatch(text)]

    def is_mark(text: str) -> bool:
        alike = [other for other in others if other.isalpha() == text.isalpha() and len(other) <= len(text)]
        if len(text) < _LEAST_SIGNS:
            return 2 * len(alike) <= len(others) if text.isalpha() else not alike
        return len(others) > 1 or not text.isalpha()

    rows = zip(states, texts, counts.tolist(), strict=True)
    return tuple(
        Mark(state, round(cells)) for state, text, cells in rows if cells and _TEXTS.fullmatch(text) and is_mark(text)
    )


def describe_cells(marks: Sequence[Mark]) -> str:
    """Return in a few words how many cells may be missing in truth; nothing where none are.

    Examples
    --------
    >>> describe_cells([Mark(99.0, 7)])
    '99 in 7 cells may mean that they are missing'
    """
    cells = [f"{spell_mark(mark.value)!r} in {mark.cells:,} cells" for mark in marks]
    return f"{', '.join(cells)} may mean that they are missing" if cells else ""


def describe_marks(marks: Mapping[str, Sequence[Mark]]) -> str:
    """Return in one line which values of columns may stand for missing cells, and what to say if they do.

    Examples
    --------
    >>> describe_marks({"sex": [Mark(9.0, 4)], "ward": [Mark("n/a", 2)]})
    "values that may stand for missing cells: 9 in 'sex' (4 cells), 'n/a' in 'ward' (2 cells); if they do, say
    missing={'sex': [9], 'ward': ['n/a']}"
    """
    plain = {name: [(spell_mark(mark.value), mark.cells) for mark in own] for name, own in marks.items()}
    listed = [f"{value!r} in {name!r} ({cells:,} cells)" for name, own in plain.items() for value, cells in own]
    advice = {name: [value for value, _ in own] for name, own in plain.items()}
    return f"values that may stand for missing cells: {', '.join(listed)}; if they do, say missing={advice}"


def spell_mark(value: Any) -> Any:
    """Return a mark as users write it: 9 in place of 9.0.

    Examples
    --------
    >>> spell_mark(9.0), spell_mark(99.9), spell_mark("9")
    (9, 99.9, '9')
    """
    return int(value) if isinstance(value, float) and value.is_integer() else value


def describe_left_alone(reasons: Mapping[str, str], holes: int = 0) -> str:
    """Return in one line which columns are left alone, and why.

    Examples
    --------
    >>> describe_left_alone({"id": "no value", "note": "free text", "e": "no value"}, 3)
    "columns left alone: 'id', 'e' (no value), 'note' (free text), whose 3 missing cells stay missing"
    """
    names: dict[str, list[str]] = {}
    for name, reason in reasons.items():
        names.setdefault(reason, []).append(name)
    listed = ", ".join(f"{shorten(group, 20)} ({reason})" for reason, group in names.items())
    return f"columns left alone: {listed}" + (f", whose {holes:,} missing cells stay missing" if holes else "")


def is_constant(low: float, high: float) -> bool:
    """Tell whether numbers between these two are the same up to rounding; of no numbers at all, give (inf, -inf).

    Examples
    --------
    >>> is_constant(0.3, 0.1 + 0.2), is_constant(0.0, 1e-300)
    (True, False)
    """
    # halves, so that the difference of the largest floats is finite
    return high / 2 - low / 2 <= _ROUNDING * max(abs(low / 2), abs(high / 2)) if low <= high else True


def find_bulk(values: Values, low: float, high: float) -> tuple[float, float] | None:
    """Return the range of nearly all numbers between two ends if some lie far outside of it, else None.

    Examples
    --------
    >>> find_bulk(np.arange(100.0), 0.0, 99.0), find_bulk(np.arange(100.0), 0.0, 9999.0)
    (None, (0.0, 183.15))
    """
    first, last = np.quantile(values, (0.05, 0.95)).tolist() if len(values) else (0.0, 0.0)
    is_wide = 0 < last - first < (high - low) / 6
    return (max(low, 2 * first - last), min(high, 2 * last - first)) if is_wide else None


def describe_constants(names: Sequence[str], rows: int) -> str:
    """Return in one line that columns have a single number, and what becomes of them.

    Examples
    --------
    >>> describe_constants(["wave"], 300)
    "columns 'wave' have the same value in all 300 rows that count; they say nothing about others and are left out"
    """
    return (
        f"columns {shorten(names)} have the same value in all {rows:,} rows that count; they say nothing about others"
        " and are left out"
    )


# -- names of rows ----------------------------------------------------------------------------------------------------


def describe_numbering(distinct: Values, observed: int, rows: int = 0) -> str:
    """Return in words that the numbers of a column name or count its rows, which other columns can tell nothing of;
    nothing where they may be measurements.

    They are whole and all different, and consecutive, of a type of whole numbers with no cell missing, or so close that
    chance would have repeated many, or long: all of the same length, as those of phones and orders. Years, multiples of
    a number and numbers of few rows are none.

    Parameters
    ----------
    distinct : ndarray (numbers,)
        The different numbers, ascending.
    observed, rows : int
        How many cells have one, and how many there are, where their type is one of whole numbers.

    Examples
    --------
    >>> describe_numbering(np.arange(1.0, 31.0), 30, 30), describe_numbering(np.arange(1990.0, 2020.0), 30, 30)
    ('row numbers', '')
    >>> describe_numbering(np.array([20, 21, 23.5] * 10), 30, 30)
    ''
    """
    size = len(distinct)
    if size < _IDENTIFIER_ROWS or size != observed or (distinct % 1).any():
        return ""
    first, last = float(distinct[0]), float(distinct[-1])
    is_exact = max(-first, last) < 2.0**53
    is_multiple = is_exact and np.gcd.reduce(np.diff(distinct).astype(np.int64)) > 1
    if is_multiple or not (is_exact or rows) or (_YEARS[0] <= first and last <= _YEARS[1]):
        return ""
    if last - first == size - 1:
        return "row numbers" if observed == rows else ""
    digits = {len(f"{abs(end):.0f}") for end in (first, last)}
    spread = np.abs((distinct - first) / (last - first) - np.linspace(0.0, 1.0, size)).max() * math.sqrt(size)
    is_long = len(digits) == 1 and first > 0 and min(digits) >= _LONG
    is_dense = rows > 0 and size * (size - 1) / 2 >= _REPETITIONS * (last - first)
    spreads = is_long and (min(digits) >= _VERY_LONG or (size >= _EVEN_ROWS and spread <= _EVEN))
    return "a different number in each row" if is_dense or spreads else ""


def describe_identifier(states: Sequence[Any], observed: int, *, declared: bool = False) -> str | None:
    """Return in words that states name rows or are free text, which other columns can tell nothing of; else None.

    Parameters
    ----------
    states : sequence
        Those that occur.
    observed : int
        The number of observed cells.
    declared : bool
        Whether the column's type names the states, which are then no free text.

    Examples
    --------
    >>> describe_identifier([f"p{i}" for i in range(20)], 20), describe_identifier(["a", "b"], 20)
    ('a different value in each row', None)
    """
    if not _IDENTIFIER_ROWS <= observed < 2 * len(states):
        return None
    if len(states) == observed:
        return "a different value in each row"
    if declared or not all(isinstance(state, str) for state in states):
        return None
    if len(states) >= _NEARLY_ALL * observed:
        return "a different value in nearly each row"
    words = sum(len(state.split()) for state in states) / len(states)
    return "free text" if words >= _WORDS_OF_TEXT else None


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


def find_multiple(tally: Tally) -> float | None:
    """Return the greatest number that all are multiples of, if chance would hardly make them so."""
    decimals = tally.decimals if tally.rows >= ROWS else None
    if decimals is None:
        return None
    units = np.unique(np.round(tally.values * 10.0**decimals)).astype(np.int64)
    step = int(np.gcd.reduce(units))
    is_found = step >= 2 and math.log(step) * (len(units) - 1) >= -math.log(CHANCE)
    return float(np.round(step * 10.0**-decimals, decimals)) if is_found else None


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
