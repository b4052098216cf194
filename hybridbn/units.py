"""Units of continuous variables that are points in time, times of day or durations.

All of them are counted in days: dates and points in time since 1970-01-01 (in UTC where they have a time zone), times
of day since midnight. So differences of columns need no conversion, whatever their types or text patterns are.
"""

from __future__ import annotations

import datetime
import functools
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "DAY",
    "Unit",
    "UnitKind",
    "coarsest_step",
    "count_days",
    "count_one_day",
    "find_zone",
    "is_time_like",
    "unit_of_pattern",
]

UnitKind: TypeAlias = Literal["date", "datetime", "time", "duration"]
_KINDS = ("date", "datetime", "time", "duration")

DAY = 86_400_000_000_000
"""Nanoseconds of a day."""
_SECOND = 1_000_000_000
_MICROSECOND = 1_000
_STEPS = (DAY, 3600 * _SECOND, 60 * _SECOND, _SECOND, 1_000_000, 1_000, 1)
"""The steps that times are rounded to: days, hours, minutes, seconds and their thousandth parts."""
_CODES = {DAY: "D", 3600 * _SECOND: "h", 60 * _SECOND: "m", _SECOND: "s", 1_000_000: "ms", 1_000: "us", 1: "ns"}
_TICKS = {code: step for step, code in _CODES.items()}
_FIRST, _LAST = (float(datetime.date(year, *rest).toordinal() - 719_163) for year, *rest in ((1, 1, 2), (9999, 12, 30)))
"""The days that Python's dates reach, a day less at both ends because of time zones."""
_EPOCH = datetime.datetime(1970, 1, 1)

# -- one value -------------------------------------------------------------------------------------------------------


def is_time_like(value: Any) -> bool:
    """Return whether a Python value is a date, a point in time, a time of day or a duration.

    Examples
    --------
    >>> is_time_like(datetime.date(2024, 1, 31)), is_time_like(np.timedelta64(3, "D")), is_time_like("2024-01-31")
    (True, True, False)
    """
    return isinstance(
        value, datetime.date | datetime.time | datetime.timedelta | np.datetime64 | np.timedelta64
    ) and not (isinstance(value, np.datetime64 | np.timedelta64) and np.isnat(value))


def count_one_day(value: Any) -> float:
    """Return a date, point in time, time of day or duration as a number of days.

    Examples
    --------
    >>> count_one_day(datetime.date(1970, 1, 3)), count_one_day(datetime.time(18))
    (2.0, 0.75)
    """
    if isinstance(value, np.datetime64 | np.timedelta64):
        return float(count_days(np.array([value]))[0])
    if isinstance(value, datetime.datetime):
        if value.tzinfo is not None:
            value = value.astimezone(datetime.UTC).replace(tzinfo=None)
        return float((value - _EPOCH) / datetime.timedelta(days=1))
    if isinstance(value, datetime.date):
        return float(value.toordinal() - 719_163)
    if isinstance(value, datetime.timedelta):
        return value / datetime.timedelta(days=1)
    if isinstance(value, datetime.time):
        seconds = 3600 * value.hour + 60 * value.minute + value.second
        return (seconds * 1_000_000 + value.microsecond) / 86_400_000_000
    raise TypeError(f"{value!r} is no date or time")


def count_days(values: NDArray[Any]) -> NDArray[np.float64]:
    """Return an array of numpy's dates or durations as numbers of days, NaN where one is missing.

    Examples
    --------
    >>> count_days(np.array(["1970-01-02T12", "NaT"], dtype="datetime64[h]"))
    array([1.5, nan])
    """
    code, count = np.datetime_data(values.dtype)
    if code in ("Y", "M", "W") and values.dtype.kind == "M":
        values, code, count = values.astype("datetime64[D]"), "D", 1
    step = 7 * DAY if code == "W" else _TICKS.get(code, 1) * count
    ticks = values.astype(np.int64)
    if DAY % step:
        days = ticks * (step / DAY)
    else:
        whole, rest = np.divmod(ticks, DAY // step)
        days = whole + rest / (DAY // step)
    return np.where(np.isnat(values), np.nan, days)


@functools.lru_cache(maxsize=256)
def find_zone(name: str) -> datetime.tzinfo:
    """Return a time zone by its name or its offset; UTC where there is no such zone.

    Examples
    --------
    >>> find_zone("+02:00"), find_zone("UTC")
    (datetime.timezone(datetime.timedelta(seconds=7200)), datetime.timezone.utc)
    """
    if match := re.fullmatch(r"(?:UTC)?([+-])(\d\d):?(\d\d)", name):
        offset = datetime.timedelta(hours=int(match[2]), minutes=int(match[3]))
        return datetime.timezone(-offset if match[1] == "-" else offset)
    from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

    try:
        return datetime.UTC if name in ("UTC", "Z") else ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError):
        return datetime.UTC


# -- units -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Unit:
    """What the numbers of a continuous variable stand for: days since 1970-01-01 or midnight, or days of a duration.

    Parameters
    ----------
    kind : {"date", "datetime", "time", "duration"}
    step : int
        The nanoseconds that values are multiples of; numbers are rounded to them on their way back.
    zone : str, optional
        The time zone of points in time.
    pattern : str, optional
        How a text column writes them: see `hybridbn.time_patterns`.

    Examples
    --------
    >>> unit = Unit("date", pattern="%d.%m.%Y")
    >>> unit.number("31.01.2024"), unit.number(datetime.date(2024, 1, 31))
    (19753.0, 19753.0)
    >>> unit.restore(19753.2), unit.text(19753.2)
    (datetime.date(2024, 1, 31), '31.01.2024')
    """

    kind: UnitKind
    step: int = DAY
    zone: str | None = None
    pattern: str | None = None

    def __post_init__(self) -> None:
        if self.kind not in _KINDS:
            raise ValueError(f"a unit's kind is one of {', '.join(_KINDS)}, not {self.kind!r}")
        if type(self.step) is not int or not 0 < self.step <= DAY or DAY % self.step:
            raise ValueError(f"a unit's step is a number of nanoseconds that a day is a multiple of, not {self.step!r}")
        for text in (self.zone, self.pattern):
            if text is not None and not isinstance(text, str):
                raise ValueError(f"a unit's zone and pattern are texts, not {text!r}")
        if self.pattern is not None:
            from hybridbn.time_patterns import has_directives

            if not has_directives(self.pattern):
                raise ValueError(f"a unit's pattern holds directives such as %Y-%m-%d; found {self.pattern!r}")

    @property
    def name(self) -> str:
        """What a number of this unit counts."""
        since = {"date": " since 1970-01-01", "datetime": " since 1970-01-01", "time": " since midnight"}
        return "days" + since.get(self.kind, "")

    @property
    def whole(self) -> bool:
        """Whether all values are whole numbers of days."""
        return self.step == DAY and self.zone is None

    def describe(self) -> str:
        """Return what values are, in words.

        Examples
        --------
        >>> Unit("datetime", step=10**9, zone="Asia/Tokyo").describe(), Unit("date", pattern="%d.%m.%Y").describe()
        ('points in time, Asia/Tokyo', 'dates, %d.%m.%Y')
        """
        word = {"datetime": "points in time", "time": "times of day"}.get(self.kind, f"{self.kind}s")
        return ", ".join(filter(None, (word, self.zone if self.pattern is None else None, self.pattern)))

    def accepts(self, other: Unit) -> bool:
        """Return whether the numbers of another unit are numbers of this one, too: dates are points in time."""
        points = ("date", "datetime")
        return (self.kind in points) == (other.kind in points)

    def number(self, value: Any) -> float:
        """Return a date, time, duration, number of days or text as a number of days; raise `ValueError` for others."""
        if isinstance(value, str):
            from hybridbn.time_patterns import PatternFinder, parse

            parsed = None if self.pattern is None else parse(self.pattern, value)
            if parsed is None:
                finder = PatternFinder()
                finder.add([value])
                unit = None if finder.pattern is None else unit_of_pattern(finder.pattern)
                parsed = parse(str(unit.pattern), value) if unit is not None and self.accepts(unit) else None
            if parsed is None:
                wanted = f", as in {self.text(0.0)!r}" if self.pattern is not None else ", as in '2024-01-31'"
                what = "point in time" if self.kind == "datetime" else self.kind
                raise ValueError(f"{value!r} is not a {what}{wanted}")
            return parsed
        if is_time_like(value):
            if isinstance(value, datetime.date | np.datetime64) != (self.kind in ("date", "datetime")):
                raise ValueError(f"{value!r} is not a {self.kind}")
            return count_one_day(value)
        return float(value)

    def round(self, numbers: Any) -> NDArray[np.float64]:
        """Return numbers of days as the nearest ones that the unit can write."""
        per_day = DAY // self.step
        most = 9e18 / max(per_day, 86_400_000_000)  # in microseconds, at least, an integer must hold them
        low, high = {"time": (0.0, 1 - 1 / per_day), "duration": (-most, most)}.get(self.kind, (_FIRST, _LAST))
        days = np.clip(np.asarray(numbers, dtype=np.float64), max(low, -most), min(high, most))
        if self.zone is not None and self.step >= 3600 * _SECOND:
            shifts = np.array([self._offset(day) for day in days.ravel().tolist()]).reshape(days.shape)
        else:
            shifts = np.zeros_like(days)
        local = days + shifts
        whole = np.floor(local)
        return np.asarray(whole + np.rint((local - whole) * per_day) / per_day - shifts)

    def _offset(self, day: float) -> float:
        """Return by how many days the clocks of the time zone are before those of UTC."""
        if math.isnan(day):
            return 0.0
        shift = find_zone(str(self.zone)).utcoffset(None)
        if shift is None:
            moment = (_EPOCH + datetime.timedelta(days=day)).replace(tzinfo=datetime.UTC)
            shift = moment.astimezone(find_zone(str(self.zone))).utcoffset() or datetime.timedelta()
        return shift / datetime.timedelta(days=1)

    def restore(self, numbers: Any) -> Any:
        """Return numbers of days as what they stand for.

        One number becomes a date, datetime, time or timedelta of Python; an array one of numpy's dates or durations (in
        UTC where there is a time zone), or an object array of times of day.

        Examples
        --------
        >>> Unit("datetime", step=60_000_000_000).restore(np.array([0.5, np.nan]))
        array(['1970-01-01T12:00', 'NaT'], dtype='datetime64[m]')
        """
        if np.ndim(numbers) == 0:
            return None if math.isnan(numbers) else self.list_values(np.array([numbers]))[0]
        days = np.asarray(numbers, dtype=np.float64)
        if self.kind == "time":
            values = np.empty(days.size, dtype=object)
            values[:] = self.list_values(days.ravel())
            return values.reshape(days.shape)
        return self.arrays(days)

    def arrays(self, days: NDArray[np.float64]) -> NDArray[Any]:
        """Return numbers of days as numpy's dates (of times of day: durations), in UTC."""
        missing = np.isnan(days)
        rounded = self.round(np.where(missing, 0.0, days))
        step = self.step if self.zone is None else min(self.step, 60 * _SECOND)
        per_day = DAY // step
        whole = np.floor(rounded)
        rest = rounded - whole
        ticks = np.rint(rest * per_day).astype(np.int64)
        if step < _MICROSECOND:
            # days of this era are exact to a third of a microsecond, so nanoseconds would be noise
            coarse = np.rint(rest * (DAY // _MICROSECOND))
            close = np.abs(rest - coarse / (DAY // _MICROSECOND)) <= 2 * np.spacing(np.abs(rounded))
            ticks = np.where(close, coarse.astype(np.int64) * (_MICROSECOND // step), ticks)
        ticks += whole.astype(np.int64) * per_day
        known = max(known for known in _STEPS if step % known == 0)
        ticks *= step // known
        letter = "m8" if self.kind in ("time", "duration") else "M8"
        values = ticks.astype(f"{letter}[{_CODES[known]}]")
        values[missing] = "NaT"
        return values

    def list_values(self, days: NDArray[np.float64]) -> list[Any]:
        """Return numbers of days as Python's dates, times or durations, None where one is missing."""
        return self.list_moments(self.arrays(days))

    def list_moments(self, moments: NDArray[Any]) -> list[Any]:
        """Return what `arrays` makes of numbers of days as Python's dates, times or durations."""
        microseconds = moments.astype(f"{moments.dtype.kind}8[us]").tolist()
        return [None if value is None else self._as_python(value) for value in microseconds]

    def _as_python(self, value: Any) -> Any:
        if self.kind == "date":
            return value.date()
        if self.kind == "time":
            return (_EPOCH + value).time()
        if self.zone is not None:
            return value.replace(tzinfo=datetime.UTC).astimezone(find_zone(self.zone))
        return value

    def text(self, number: float) -> str:
        """Return a number of days as text: by the pattern, or in ISO format."""
        pattern = self.pattern
        (value,) = replace(self, pattern=None).list_values(np.array([number], dtype=np.float64))
        if pattern is None:
            return str(value) if self.kind == "duration" else cast(str, value.isoformat())
        from hybridbn.time_patterns import write_moment

        moment, total = (value, 0) if self.kind == "datetime" else (_EPOCH, 0)
        in_hours = re.search("%-?T", pattern) is not None
        if self.kind == "date":
            moment = datetime.datetime.combine(value, datetime.time())
        elif self.kind == "time":
            moment = datetime.datetime.combine(_EPOCH, value)
        elif self.kind == "duration":
            # the sign is that of the days in one form, and of the hours in the other
            moment, total = _EPOCH + (abs(value) if in_hours else value), _hours(value)
            if in_hours and value < datetime.timedelta() and total == 0:
                return "-" + write_moment(pattern, moment, 0, 0)
        days = value.days if self.kind == "duration" else 0
        return write_moment(pattern, moment, days, total)

    def to_dict(self) -> dict[str, Any]:
        """Return the unit as plain values."""
        return {"kind": self.kind, "step": self.step, "zone": self.zone, "pattern": self.pattern}

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> Unit:
        """Make a unit again from what `to_dict` returned.

        Examples
        --------
        >>> Unit.from_dict(Unit("time", step=1_000_000_000).to_dict()).kind
        'time'
        """
        return cls(plain["kind"], plain["step"], plain.get("zone"), plain.get("pattern"))


def _hours(value: datetime.timedelta) -> int:
    hours = abs(value) // datetime.timedelta(hours=1)
    return -hours if value < datetime.timedelta() else hours


def coarsest_step(numbers: NDArray[np.float64], unit: Unit) -> int:
    """Return the coarsest of days, hours, minutes, ... that all numbers are multiples of, at least the unit's step.

    Examples
    --------
    >>> coarsest_step(np.array([0.25, 1.5]), Unit("datetime", step=1000)) == 3600 * 10**9
    True
    """
    if unit.zone is not None:
        numbers = numbers + np.array([unit._offset(day) for day in numbers.tolist()])
    for step in _STEPS:
        if step <= unit.step or step % unit.step:
            break
        if unit.kind == "time" and step == DAY:
            continue
        ticks = numbers * (DAY // step)
        # as exact as numbers of days are
        if (np.abs(ticks - np.rint(ticks)) <= 1e-15 * np.abs(ticks) + 1e-12).all():
            return step
    return unit.step


def unit_of_pattern(pattern: str, zone: str | None = None) -> Unit:
    """Return the unit of texts that follow a pattern.

    Examples
    --------
    >>> unit_of_pattern("%Y-%m-%d %H:%M")
    Unit(kind='datetime', step=60000000000, zone=None, pattern='%Y-%m-%d %H:%M')
    """
    match = re.search(r"%(\d)f", pattern)
    finest = 10 ** (9 - int(match[1])) if match else _SECOND if re.search("%-?S", pattern) else 60 * _SECOND
    return Unit(_kind_of(pattern), finest if re.search("%-?M", pattern) else DAY, zone, pattern)


def _kind_of(pattern: str) -> UnitKind:
    if re.search("%-?[DT]", pattern):
        return "duration"
    dated = "%Y" in pattern or "%y" in pattern
    return "time" if not dated else "datetime" if "%M" in pattern else "date"
