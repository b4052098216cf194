"""The two kinds of variables: `Discrete` with named states and `Continuous` with a domain.

A variable knows how to turn a user's values into the numbers that the rest of the library computes
with: state codes (``-1`` for a missing value) and floats (``NaN`` for a missing value).
"""

from __future__ import annotations

import difflib
import itertools
import math
from collections.abc import Callable, Container, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import Any, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from hybridbn.errors import NetworkError, TableError
from hybridbn.units import Unit, count_one_day, is_time_like

Values: TypeAlias = NDArray[np.float64]
Codes: TypeAlias = NDArray[np.intp]
Number = TypeVar("Number", int, float)
_DIFFERENCE = Unit("duration", step=1_000_000_000)
"""Differences of dates and times, such as their standard deviations, are told in seconds."""
_ROUNDED = 1e-15
"""How near to each other numbers are that would be equal but for rounding, relative to them."""


def shorten(items: Iterable[object], most: int = 8) -> str:
    """List values for a message, the first few of them.

    Examples
    --------
    >>> shorten(["a", "b"])
    "'a', 'b'"
    >>> shorten(range(30), most=3)
    '0, 1, 2, ... (30 in all)'
    """
    listed = list(items)
    text = ", ".join(repr(item) for item in listed[:most])
    return text if len(listed) <= most else f"{text}, ... ({len(listed)} in all)"


def find_similar_names(name: Any, known: Iterable[Any], most: int = 20_000) -> list[str]:
    """Return the names that resemble a mistyped one; where very many are known, which takes seconds, none."""
    names = [one for one in known if isinstance(one, str)]
    if not isinstance(name, str) or len(names) > most:
        return []
    same = [one for one in names if one.casefold() == name.casefold()]
    return same or difflib.get_close_matches(name, names, n=3)


def hint_at_names(name: Any, known: Iterable[Any], otherwise: str = "") -> str:
    """Return the end of a message about a name that is not known; where none resembles it, what to say instead, by
    default that the known ones are columns.

    Examples
    --------
    >>> hint_at_names("agee", ["age", "sex"]), hint_at_names("z", ["age", "sex"])
    ("did you mean 'age'?", "the columns are 'age', 'sex'")
    """
    near = find_similar_names(name, known)
    return f"did you mean {near[0]!r}?" if near else otherwise or f"the columns are {shorten(known)}"


def find_unused_name(name: str, taken: Container[str], mark: str = "_") -> str:
    """Return a name that is not taken, with marks appended if necessary.

    Examples
    --------
    >>> find_unused_name("a", ["b"]), find_unused_name("a", ["a", "a_"])
    ('a', 'a__')
    """
    while name in taken:
        name += mark
    return name


def plain_state(value: Any) -> Any:
    """Return a numpy scalar as the Python value it stands for, anything else as it is."""
    return value.item() if isinstance(value, np.generic) and not isinstance(value, np.datetime64) else value


def as_objects(items: Sequence[Any]) -> NDArray[Any]:
    """Return a one-dimensional object array of items, also where these are sequences themselves."""
    array = np.empty(len(items), dtype=object)
    array[:] = items
    return array


def combine_codes(codes: Sequence[Codes], sizes: Sequence[int]) -> Codes:
    """Return each row's configuration as one number, the last column running fastest."""
    mixed = codes[0]
    for column, size in zip(codes[1:], sizes[1:], strict=True):
        mixed = mixed * size
        mixed += column
    return mixed


def encode_configurations(codes: Sequence[Codes], sizes: Sequence[int], rows: int) -> Codes:
    """Return each row's joint configuration as one number, the last column running fastest; zeros without columns.

    Examples
    --------
    >>> encode_configurations([np.array([0, 1, 1]), np.array([2, 0, 1])], (2, 3), 3)
    array([2, 3, 4])
    """
    whole = [column.astype(np.intp, copy=False) for column in codes[:1]]
    return combine_codes([*whole, *codes[1:]], sizes) if whole else np.zeros(rows, np.intp)


def slice_blocks(count: int, size: int, first: int = 0) -> Iterator[slice]:
    """Return the slices of blocks of at most so many of `count` rows, from the first of them on.

    Examples
    --------
    >>> list(slice_blocks(5, 2))
    [slice(0, 2, None), slice(2, 4, None), slice(4, 5, None)]
    """
    return (slice(start, min(start + size, count)) for start in range(first, count, size))


def find_observed(column: Codes | Values) -> NDArray[np.bool_]:
    """Return which cells of a column of codes or numbers are observed.

    Examples
    --------
    >>> find_observed(np.array([0, -1])), find_observed(np.array([np.nan, 1.0]))
    (array([ True, False]), array([False,  True]))
    """
    return ~np.isnan(column) if column.dtype.kind == "f" else column >= 0


def is_missing(value: Any) -> bool:
    """Tell whether a single value stands for "unknown": None, NaN, NaT or pandas' NA.

    Examples
    --------
    >>> is_missing(None), is_missing(float("nan")), is_missing("nan"), is_missing(0)
    (True, True, False, False)
    """
    if value is None or type(value).__name__ in {"NAType", "NaTType"}:
        return True
    if isinstance(value, float | np.floating):
        return math.isnan(value)
    return isinstance(value, np.datetime64 | np.timedelta64) and bool(np.isnat(value))


def code_state(variable: Discrete, state: Any) -> int:
    """Return the code of a state; refuse a missing value.

    Examples
    --------
    >>> code_state(Discrete("c", states=("a", "b")), "b")
    1
    """
    code = variable.code(state)
    if code < 0:
        raise TableError(f"{variable.name!r}: {state!r} is not a state")
    return code


def _check_name(name: Any) -> str:
    if not isinstance(name, str) or not name:
        raise NetworkError(f"a variable's name must be a non-empty string, not {name!r}")
    return str(name)


@dataclass(frozen=True)
class Discrete:
    """A variable with finitely many states.

    Parameters
    ----------
    name : str
    states : sequence of hashable, optional
        The states in order, types kept: ``1`` stays the integer one and is not the state ``"1"``.
        May be left out where `cuts` are given; the states are then named after the intervals.
    cuts : sequence of float, optional
        Makes the variable a discretized number: state ``i`` is the interval ``[cuts[i-1], cuts[i])``.
        Raw numbers and states are then both accepted as values.

    Examples
    --------
    >>> Discrete("c", states=("a", "b")).codes(["b", None, "a"])
    array([ 1, -1,  0])
    >>> dose = Discrete("dose", states=("low", "medium", "high"), cuts=(1.5, 3))
    >>> dose.codes([0.2, 1.5, 99]), dose.code("high")
    (array([0, 1, 2]), 2)
    """

    name: str
    states: tuple[Hashable, ...] = ()
    cuts: tuple[float, ...] | None = None
    _index: Mapping[Hashable, int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        name = _check_name(self.name)
        object.__setattr__(self, "name", name)
        if isinstance(self.states, str) or not isinstance(self.states, Iterable):
            raise NetworkError(f"{name!r}: states must be a sequence of states, not {self.states!r}")
        states = tuple(plain_state(state) for state in self.states)
        if self.cuts is not None:
            cuts = self._checked_cuts()
            object.__setattr__(self, "cuts", cuts)
            states = states or _label_intervals(cuts)
            if len(states) != len(cuts) + 1:
                raise NetworkError(
                    f"{name!r}: {len(cuts)} cuts make {len(cuts) + 1} states, but {len(states)} are named"
                )
            if any(isinstance(s, int | float) and not isinstance(s, bool) for s in states):
                raise NetworkError(
                    f"{name!r}: states of a discretized number must not be numbers themselves "
                    "(a value could mean either); name them with text"
                )
        if not states:
            raise NetworkError(f"{name!r}: a discrete variable needs at least one state")
        index: dict[Hashable, int] = {}
        for code, state in enumerate(states):
            if is_missing(state):
                raise NetworkError(f"{name!r}: {state!r} means a missing value and can't be a state")
            try:
                known = index.setdefault(state, code)
            except TypeError:
                raise NetworkError(f"{name!r}: the state {state!r} is not hashable") from None
            if known != code:
                raise NetworkError(
                    f"{name!r}: the states {states[known]!r} and {state!r} are equal; states must differ"
                )
        object.__setattr__(self, "states", states)
        object.__setattr__(self, "_index", index)

    def _checked_cuts(self) -> tuple[float, ...]:
        try:
            cuts = tuple(float(cut) for cut in self.cuts or ())
        except (TypeError, ValueError, OverflowError):
            raise NetworkError(f"{self.name!r}: cuts must be numbers, not {self.cuts!r}") from None
        if not all(map(math.isfinite, cuts)) or any(a >= b for a, b in itertools.pairwise(cuts)):
            raise NetworkError(f"{self.name!r}: cuts must be finite and increasing, not {cuts!r}")
        return cuts

    def __len__(self) -> int:
        return len(self.states)

    def round(self, codes: NDArray[Any]) -> NDArray[Any]:
        """Return codes as they are."""
        return codes

    def restore(self, code: Any) -> Any:
        """Return the state of a code."""
        return self.states[int(code)]

    def code(self, value: Any) -> int:
        """Return the code of one state (or of a raw number where there are cuts), ``-1`` for a missing value."""
        if type(value) is str and (known := self._index.get(value)) is not None:
            return known
        if is_missing(value):
            return -1
        value = plain_state(value)
        try:
            code = self._index.get(value)
        except TypeError:
            code = None
        if code is not None and (type(value) is bool) == (type(self.states[code]) is bool):
            return code
        if self.cuts is not None and is_time_like(value):
            value = count_one_day(value)
        if self.cuts is not None and isinstance(value, int | float) and not isinstance(value, bool):
            return int(np.searchsorted(self.cuts, value, side="right"))
        raise TableError(f"{self.name!r} has no state {value!r}; its states are {shorten(self.states)}")

    def codes(self, values: Any) -> Codes:
        """Return the codes of many values as an integer array, ``-1`` where one is missing.

        Raises `TableError` naming the first row with an unknown state.
        """
        array = values if isinstance(values, np.ndarray) else _as_array(values)
        if self.cuts is not None and array.dtype.kind in "iuf":
            found = np.searchsorted(self.cuts, array.astype(float), side="right")
            return np.where(np.isnan(array.astype(float)), -1, found).astype(np.intp)
        items = array.ravel().tolist() if array.dtype != object else [plain_state(item) for item in array.ravel()]
        # each value is looked up once; 1, 1.0 and True are different ones
        code = lru_cache(None, typed=True)(self.code)
        return np.fromiter(_convert_rows(items, code, self.name), np.intp, len(items)).reshape(array.shape)


@dataclass(frozen=True)
class Grid:
    """Which numbers there are: multiples of a step between two ends. Others are unlikely, but not refused.

    Parameters
    ----------
    step : float, optional
        Zero for any number.
    low, high : float, optional

    Examples
    --------
    >>> Grid(0.5, low=0).round([0.3, -2.0, 1.24])
    array([0.5, 0. , 1. ])
    """

    step: float = 0.0
    low: float = -math.inf
    high: float = math.inf

    def __post_init__(self) -> None:
        if not (0 <= self.step < math.inf and self.low <= self.high):
            raise NetworkError(f"a grid has a positive step, or none, and low <= high, not {self!r}")

    @cached_property
    def _decimals(self) -> int:
        """Those of the step: tenths are written as such, 0.3, not three times 0.1."""
        return next(n for n in range(16) if n == 15 or math.isclose(round(self.step, n), self.step, rel_tol=1e-9))

    def _round_to_steps(self, numbers: Any) -> Values:
        values = np.asarray(numbers, dtype=np.float64)
        return np.round(np.rint(values / self.step) * self.step, self._decimals) + 0.0 if self.step else values

    @cached_property
    def ends(self) -> tuple[float, float]:
        """The least and the greatest number that there are; the first is the greater one where there is none.

        Examples
        --------
        >>> Grid(0.1, 0.7).ends, Grid(0.1, 0.21, 0.49).ends, Grid(0.1, 0.21, 0.29).ends
        ((0.7, inf), (0.3, 0.4), (0.3, 0.2))
        """
        low, high = self._round_to_steps((self.low, self.high)).tolist()
        inner = low + self.step * (low < self.low), high - self.step * (high > self.high)
        first, last = self._round_to_steps(inner).tolist()
        return first, last

    def round(self, numbers: Any) -> Values:
        """Return the nearest numbers that there are."""
        return np.clip(self._round_to_steps(numbers), *self.ends)


@dataclass(frozen=True)
class Continuous:
    """A variable with real values.

    Parameters
    ----------
    name : str
    domain : (float, float), optional
        Values outside it are refused; both ends belong to it. The ends may be infinite.
    unit : Unit, optional
        What the numbers stand for: dates, points in time, times of day or durations, all of them counted in days, or
        amounts. Dates and texts are then values, too; `restore` is the way back.
    grid : Grid, optional
        Which numbers there are. Quantiles, modes and draws are among these. Variables of different grids are equal.

    Examples
    --------
    >>> Continuous("x").values([1, None, 2.5])
    array([1. , nan, 2.5])
    >>> Continuous("share", domain=(0, 1)).values([2.0])
    Traceback (most recent call last):
        ...
    hybridbn.errors.TableError: row 0: 'share' = 2.0 lies outside its domain [0.0, 1.0]
    >>> Continuous("born", unit=Unit("date")).value("2024-01-31")
    19753.0
    """

    name: str
    domain: tuple[float, float] = (-math.inf, math.inf)
    unit: Unit | None = None
    grid: Grid | None = field(default=None, compare=False)

    def __repr__(self) -> str:
        given = {"unit": self.unit, "grid": self.grid}
        more = "".join(f", {name}={value!r}" for name, value in given.items() if value is not None)
        return f"Continuous(name={self.name!r}, domain={self.domain!r}{more})"

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", _check_name(self.name))
        if self.unit is not None and not isinstance(self.unit, Unit):
            raise NetworkError(f"{self.name!r}: a unit must be a hybridbn.units.Unit, not {self.unit!r}")
        try:
            low, high = (float(end) for end in self.domain)
        except (TypeError, ValueError, OverflowError):
            raise NetworkError(
                f"{self.name!r}: a domain is a pair (low, high) of numbers, not {self.domain!r}"
            ) from None
        if not low < high or low == math.inf or high == -math.inf:
            raise NetworkError(f"{self.name!r}: the domain ({low}, {high}) is empty; low must be less than high")
        object.__setattr__(self, "domain", (low, high))

    @property
    def time_unit(self) -> Unit | None:
        """The unit of dates and times; None for other numbers."""
        return self.unit if self.unit is not None and self.unit.is_time else None

    @property
    def rounding(self) -> Grid:
        """The numbers that the variable may have: its grid, with the step of its unit where it has none of its own."""
        grid = self.grid or Grid()
        return grid if grid.step or self.unit is None else replace(grid, step=self.unit.spacing)

    def widen(self, low: float, high: float) -> tuple[float, float]:
        """Return the ends of all that is rounded to numbers of the grid within two ends; these themselves if there is
        none.

        Examples
        --------
        >>> [round(end, 9) for end in Continuous("age", grid=Grid(1.0, low=0.0)).widen(0, 65.9)]
        [-inf, 65.5]
        """
        grid, ends = self.rounding, np.array([low, high])
        near = 1e-9 * grid.step + _ROUNDED * np.abs(ends)
        first, last = np.where(np.isinf(ends), ends, self.round(ends))
        first, last = first + grid.step * (first < low - near[0]), last - grid.step * (last > high + near[1])
        if not low - near[0] <= first <= last <= high + near[1]:
            return low, high
        # right at the middle, numbers might be rounded to the next one
        below, above = np.maximum(grid.step / 2 - _ROUNDED * np.abs([first, last]), 0.0)
        return (
            -math.inf if first <= grid.ends[0] else float(first - below),
            math.inf if last >= grid.ends[1] else float(last + above),
        )

    def round(self, numbers: Any) -> Values:
        """Return the nearest numbers that the variable may have, of its grid or its unit."""
        if self.unit is not None:
            numbers = self.unit.round(numbers)
        return np.asarray(numbers, dtype=np.float64) if self.grid is None else self.grid.round(numbers)

    def restore(self, numbers: Any) -> Any:
        """Return the nearest numbers that the variable may have as what they stand for: numpy's dates or durations, or
        floats.

        Examples
        --------
        >>> Continuous("born", unit=Unit("date")).restore(19753.2), Continuous("age", grid=Grid(1.0)).restore([7.4])
        (np.datetime64('2024-01-31'), array([7.]))
        """
        rounded = self.round(numbers)
        values = rounded if self.time_unit is None else self.time_unit.arrays(rounded)
        return values[()] if values.ndim or self.time_unit is not None else values.item()

    def restore_difference(self, numbers: Any) -> Any:
        """Return differences between numbers as what they stand for: durations where these are dates or times.

        Examples
        --------
        >>> Continuous("born", unit=Unit("date")).restore_difference(1.5), Continuous("age").restore_difference(1.5)
        (np.timedelta64(129600,'s'), 1.5)
        """
        return numbers if self.time_unit is None else _DIFFERENCE.arrays(numbers)[()]

    def value(self, value: Any) -> float:
        """Return one value as a float, NaN where it is missing; refuse text, infinities and values outside the
        domain.
        """
        if is_missing(value):
            return math.nan
        if self.unit is not None and (isinstance(value, str) or is_time_like(value)):
            try:
                number = self.unit.number(value)
            except ValueError as error:
                raise TableError(f"{self.name!r}: {error}") from None
        else:
            if isinstance(value, str | bytes | bool | np.bool_ | complex | np.datetime64 | np.timedelta64):
                raise TableError(f"{self.name!r} is continuous; {value!r} is not a number")
            try:
                number = float(value)
            except (TypeError, ValueError, OverflowError):
                raise TableError(f"{self.name!r} is continuous; {value!r} is not a number") from None
        self._refuse(np.asarray(number))
        return number

    def values(self, values: Any) -> Values:
        """Return many values as a float array, NaN where one is missing.

        Raises `TableError` naming the first row that is not a finite number of the domain.
        """
        array = values if isinstance(values, np.ndarray) else _as_array(values)
        if array.dtype.kind in "iuf":
            numbers = array.astype(np.float64)
        else:
            items = array.ravel() if array.dtype.kind in "mM" else array.ravel().tolist()
            converted = np.fromiter(_convert_rows(items, self.value, self.name), np.float64, array.size)
            numbers = converted.reshape(array.shape)
        self._refuse(numbers)
        return numbers

    def _refuse(self, numbers: Values) -> None:
        low, high = self.domain
        bad = ~((numbers >= low) & (numbers <= high) & np.isfinite(numbers) | np.isnan(numbers))
        if bad.any():
            row = int(np.flatnonzero(bad)[0])
            where, value = (f"row {row}: " if numbers.ndim else ""), float(numbers.ravel()[row])
            if math.isinf(value):
                raise TableError(
                    f"{where}{self.name!r} = {value} is infinite; give a finite number, or None if unknown"
                )
            raise TableError(f"{where}{self.name!r} = {value} lies outside its domain [{low}, {high}]")


Variable: TypeAlias = Discrete | Continuous


def _convert_rows(items: Iterable[Any], convert: Callable[[Any], Number], name: str) -> Iterator[Number]:
    """Yield what becomes of the items of a variable; errors name the row."""
    for row, item in enumerate(items):
        try:
            yield convert(item)
        except TableError as error:
            raise TableError(f"row {row}: {error}") from None
        except TypeError:
            raise TableError(f"{name!r}, row {row}: {item!r} is not a state") from None


def _as_array(values: Any) -> NDArray[Any]:
    if hasattr(values, "__array__") and not hasattr(values, "to_list"):
        return np.asarray(values)
    return as_objects(values.to_list() if hasattr(values, "to_list") else list(values))


def _label_intervals(cuts: tuple[float, ...]) -> tuple[str, ...]:
    if not cuts:
        return ("any",)
    return (f"< {cuts[0]!r}", *(f"{a!r} to {b!r}" for a, b in itertools.pairwise(cuts)), f">= {cuts[-1]!r}")
