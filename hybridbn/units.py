"""Units of continuous variables that are points in time, times of day or durations, and the patterns of their texts.

All of them are counted in days: dates and points in time since 1970-01-01 (in UTC where they have a time zone), times
of day since midnight. So differences of columns need no conversion, whatever their types or text patterns are.

Patterns hold the directives of `time.strftime`, where ``%-d`` is a number without leading zeros, ``%3f`` three decimals
of a second, ``%:z`` an offset with a colon, ``%D`` the whole days of a duration and ``%T`` all of its hours.
"""

from __future__ import annotations

import datetime
import functools
import itertools
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

UnitKind: TypeAlias = Literal["date", "datetime", "time", "duration"]
KINDS = ("date", "datetime", "time", "duration")

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
    match value:
        case np.datetime64() | np.timedelta64():
            return float(count_days(np.array([value]))[0])
        case datetime.datetime():
            if value.tzinfo is not None:
                value = value.astimezone(datetime.UTC).replace(tzinfo=None)
            return float((value - _EPOCH) / datetime.timedelta(days=1))
        case datetime.date():
            return float(value.toordinal() - 719_163)
        case datetime.timedelta():
            return value / datetime.timedelta(days=1)
        case datetime.time():
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
    step = (7 * DAY if code == "W" else _TICKS.get(code, 1)) * count
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

    Those of `hybridbn.unit_texts.Amount` are no days, and `is_time` is False.

    Parameters
    ----------
    kind : {"date", "datetime", "time", "duration"}
    step : int
        The nanoseconds that values are multiples of; numbers are rounded to them on their way back.
    zone : str, optional
        The time zone of points in time.
    pattern : str, optional
        How a text column writes them, with directives such as ``%d.%m.%Y``; see the top of this module.

    Examples
    --------
    >>> unit = Unit("date", pattern="%d.%m.%Y")
    >>> unit.number("31.01.2024"), unit.number(datetime.date(2024, 1, 31))
    (19753.0, 19753.0)
    >>> unit.text(19753.2)
    '31.01.2024'
    """

    kind: str
    step: int = DAY
    zone: str | None = None
    pattern: str | None = None
    is_time: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(f"a unit's kind is one of {', '.join(KINDS)}, not {self.kind!r}")
        if type(self.step) is not int or not 0 < self.step <= DAY or DAY % self.step:
            raise ValueError(f"a unit's step is a number of nanoseconds that a day is a multiple of, not {self.step!r}")
        for text in (self.zone, self.pattern):
            if text is not None and not isinstance(text, str):
                raise ValueError(f"a unit's zone and pattern are texts, not {text!r}")
        if self.pattern is not None and not has_directives(self.pattern):
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

    @property
    def spacing(self) -> float:
        """How far apart the numbers are that `round` returns."""
        return self.step / DAY

    def describe(self) -> str:
        """Return what values are, in words.

        Examples
        --------
        >>> Unit("datetime", step=10**9, zone="Asia/Tokyo").describe(), Unit("date", pattern="%d.%m.%Y").describe()
        ('points in time, Asia/Tokyo', 'dates, %d.%m.%Y')
        """
        kind = "date" if self.kind == "datetime" and self.whole else self.kind
        words = {"date": "dates", "datetime": "points in time", "time": "times of day", "duration": "durations"}
        word = words.get(kind, kind)
        return ", ".join(filter(None, (word, self.zone if self.pattern is None else None, self.pattern)))

    def accepts(self, other: Unit) -> bool:
        """Return whether the numbers of another unit are numbers of this one, too: dates are points in time."""
        points = ("date", "datetime")
        are_times = self.is_time and other.is_time
        return (self.kind in points) == (other.kind in points) if are_times else self.name == other.name

    def parse(self, text: str) -> float | None:
        """Return the number of a text that follows the pattern; None for any other.

        Examples
        --------
        >>> unit_of_pattern("%d/%m/%y").parse("2/1/70"), unit_of_pattern("%D days %H:%M:%S").parse("2 days 12:00:00")
        (1.0, 2.5)
        >>> unit_of_pattern("%Y-%m-%d").parse("2023-02-29")
        """
        compiled, directives, sign = compile_pattern(str(self.pattern))
        match = compiled.fullmatch(text.strip())
        return None if match is None else convert_parts(directives, match.groups(), sign)

    def _guess(self, text: str) -> Iterable[Unit]:
        """Return units of the patterns that a text may follow."""
        return map(unit_of_pattern, propose_patterns(text.strip()))

    def number(self, value: Any) -> float:
        """Return a value, a number or a text, also of another pattern, as a number; raise `ValueError` for others."""
        if isinstance(value, str):
            units = itertools.chain(() if self.pattern is None else (self,), filter(self.accepts, self._guess(value)))
            numbers = (unit.parse(value) for unit in units)
            parsed = next((number for number in numbers if number is not None), None)
            if parsed is None:
                wanted = f", as in {self.text(0.0)!r}" if self.pattern is not None else ", as in '2024-01-31'"
                what = "point in time" if self.kind == "datetime" else self.kind
                raise ValueError(f"{value!r} is not a {what}{wanted}")
            return parsed
        if is_time_like(value):
            is_point = isinstance(value, datetime.date | np.datetime64)
            if not self.is_time or is_point != (self.kind in ("date", "datetime")):
                raise ValueError(f"{value!r} is not a {self.kind}")
            return count_one_day(value)
        return float(value)

    def round(self, numbers: Any) -> NDArray[np.float64]:
        """Return numbers of days as the nearest ones that the unit can write."""
        per_day = DAY // self.step
        most = 9e18 / max(per_day, 86_400_000_000)  # in microseconds, at least, an integer must hold them
        low, high = {"time": (0.0, 1 - 1 / per_day), "duration": (-most, most)}.get(self.kind, (_FIRST, _LAST))
        days = np.clip(np.asarray(numbers, dtype=np.float64), max(low, -most), min(high, most))
        is_shifted = self.zone is not None and self.step >= 3600 * _SECOND
        shifts = (
            np.reshape([*map(self._offset, days.ravel().tolist())], days.shape) if is_shifted else np.zeros_like(days)
        )
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
        values = np.asarray(ticks).astype(f"{letter}[{_CODES[known]}]")
        return np.where(missing, np.array("NaT", values.dtype), values)

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
        return value if self.zone is None else value.replace(tzinfo=datetime.UTC).astimezone(find_zone(self.zone))

    def text(self, number: float) -> str:
        """Return a number of days as text: by the pattern, or in ISO format."""
        pattern = self.pattern
        (value,) = replace(self, pattern=None).list_values(np.array([number], dtype=np.float64))
        if pattern is None:
            return str(value) if self.kind == "duration" else cast(str, value.isoformat())
        moment, days, hours = value, 0, 0
        match self.kind:
            case "date":
                moment = datetime.datetime.combine(value, datetime.time())
            case "time":
                moment = datetime.datetime.combine(_EPOCH, value)
            case "duration":
                # the sign is that of the days in one form, and of the hours in the other
                in_hours = re.search("%-?T", pattern) is not None
                moment, days, hours = _EPOCH + (abs(value) if in_hours else value), value.days, _hours(value)
                if in_hours and value < datetime.timedelta() and hours == 0:
                    return "-" + write_moment(pattern, moment, 0, 0)
        return write_moment(pattern, moment, days, hours)

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


# -- patterns of dates and times --------------------------------------------------------------------------------------

_MONTHS = (
    *("january", "february", "march", "april", "may", "june"),
    *("july", "august", "september", "october", "november", "december"),
)
_OF_MONTH = {name[:3]: number for number, name in enumerate(_MONTHS, start=1)}
_OF_MONTH |= {name: number for number, name in enumerate(_MONTHS, start=1)} | {"sept": 9}
_HALVES = {"am": 0, "pm": 12}

_DIRECTIVE = re.compile(r"%(-?[YymdHIMSDT]|[bBpz]|[0-9]f|:z|Z)")
_LENIENT = {
    "Y": r"(\d{4})",
    "y": r"(\d\d)",
    "m": r"(\d{1,2})",
    "d": r"(\d{1,2})",
    "b": r"([A-Za-z]{3,4})",
    "B": r"([A-Za-z]{3,9})",
    "H": r"(\d{1,2})",
    "I": r"(\d{1,2})",
    "M": r"(\d\d)",
    "S": r"(\d\d(?:\.\d{1,9})?)",
    "p": r"([AaPp][Mm])",
    "z": r"([+-]\d{4})",
    ":z": r"([+-]\d\d:\d\d)",
    "Z": r"(Z|UTC)",
    "D": r"(-?\d{1,9})",
    "T": r"(-?\d{1,9})",
}
"""What the directives of `strftime` match, and two of our own: whole days (D) and all hours (T) of a duration."""


@functools.lru_cache(maxsize=512)
def compile_pattern(pattern: str) -> tuple[re.Pattern[str], tuple[str, ...], bool]:
    """Return the expression that texts of a pattern match, the directives of its groups, and if hours have a sign."""
    parts, directives, position = [], [], 0
    for match in _DIRECTIVE.finditer(pattern):
        parts.append(re.escape(pattern[position : match.start()]))
        directive = match[1].lstrip("-")
        position = match.end()
        if directive.endswith("f"):
            parts[-1] = parts[-1].removesuffix(re.escape("."))  # the fraction belongs to the seconds
            continue
        directives.append(directive)
        parts.append(_LENIENT[directive].replace(r"\d\d", r"\d{1,2}") if match[1][0] == "-" else _LENIENT[directive])
    parts.append(re.escape(pattern[position:]))
    text = "".join(parts).replace(r"\ days\ ", r"\ days,?\ \+?").replace(r"\ days", r"\ days?")
    return re.compile(text, re.ASCII), tuple(directives), "T" in directives


def convert_parts(directives: Sequence[str], groups: Sequence[str], signed: bool) -> float | None:
    """Return what the groups of directives stand for as a number of days; None where there is no such moment."""
    parts = dict(zip(directives, groups, strict=True))
    hour, minute, second = int(parts.get("H") or parts.get("I") or 0), int(parts.get("M", 0)), float(parts.get("S", 0))
    if hour > 23 or minute > 59 or second >= 60 or ("I" in parts and not 1 <= hour <= 12):
        return None
    if "T" in parts:
        hour = abs(int(parts["T"]))
    if "I" in parts:
        hour %= 12
    hour += _HALVES[parts.get("p", "am").lower()]
    days = int(parts.get("D", 0))
    if "Y" in parts or "y" in parts:
        try:
            days = _read_date(parts).toordinal() - 719_163
        except ValueError:
            return None
    shift = parts.get("z") or parts.get(":z") or "+0000"
    offset = int(f"{shift[0]}1") * (int(shift[1:3]) * 60 + int(shift[-2:]))
    seconds = (hour * 3600 - offset * 60) + (minute * 60e6 + second * 1e6) / 1e6
    total = days + seconds / 86_400
    return -total if signed and parts["T"].startswith("-") else total


def _read_date(parts: Mapping[str, str]) -> datetime.date:
    """Return the date of texts by their directives; raise `ValueError` where there is none."""
    year, name = int(parts.get("Y") or parts["y"]), parts.get("b") or parts.get("B")
    if "Y" not in parts:
        year += 1900 if year > 68 else 2000
    month = int(parts.get("m", 1)) if name is None else _OF_MONTH.get(name.lower(), 0)
    return datetime.date(year, month, int(parts.get("d", 1)))


_ISO = {"%Y-%m-%d": 10, "%Y-%m-%d %H:%M:%S": 19, "%Y-%m-%dT%H:%M:%S": 19}
"""Patterns that numpy reads, and how long their texts are."""
_FIRST_DAY = 1 - 719_163
"""The number of the first day of the year 1, counted from 1970."""
_FEW_TEXTS = 100
"""Fewer texts than this are parsed one by one."""


def parse_all_days(pattern: str, texts: Sequence[str]) -> list[float] | None:
    """Return many texts that are written with all their digits as numbers of days; None where they have to be parsed
    one by one.

    Examples
    --------
    >>> parse_all_days("%Y-%m-%d", ["1970-01-03"] * 100)[:2], parse_all_days("%Y-%m-%d", ["1970-1-3"] * 100)
    ([2.0, 2.0], None)
    """
    if len(texts) < _FEW_TEXTS or set(map(len, texts)) != {_ISO.get(pattern)}:
        return None
    # numpy reads other forms of the same length, too, and years with a sign
    signs = {text[10:11] + text[13:14] + text[16:17] for text in texts}
    if signs != {re.sub("%[YmdHMS]", "", pattern)[2:]} or any(text[0] in "+-" for text in texts):
        return None
    try:
        seconds = np.array(texts, "datetime64[s]").astype(np.int64)
    except ValueError:
        return None
    days, clock = seconds // 86_400, seconds % 86_400
    return None if (days < _FIRST_DAY).any() else list((days + clock / 86_400).tolist())


def write_moment(pattern: str, moment: datetime.datetime, days: int = 0, hours: int = 0) -> str:
    """Return a point in time, or the clock of a duration of so many days or hours, as text.

    Examples
    --------
    >>> write_moment("%-d %b %Y, %I:%M %p", datetime.datetime(2024, 1, 5, 15, 30))
    '5 Jan 2024, 03:30 PM'
    """
    month, offset = _MONTHS[moment.month - 1].capitalize(), moment.strftime("%z") or "+0000"
    texts = {
        "Y": f"{moment.year:04d}",
        "y": f"{moment.year % 100:02d}",
        "m": f"{moment.month:02d}",
        "B": month,
        "b": month[:3],
        "d": f"{moment.day:02d}",
        "H": f"{moment.hour:02d}",
        "I": f"{moment.hour % 12 or 12:02d}",
        "p": "PM" if moment.hour >= 12 else "AM",
        "M": f"{moment.minute:02d}",
        "S": f"{moment.second:02d}",
        "z": offset[:5],
        ":z": f"{offset[:3]}:{offset[3:5]}",
        "D": str(days),
        "T": f"{hours:02d}",
    }

    def write(match: re.Match[str]) -> str:
        directive = match[1]
        if directive.endswith("f"):
            return f"{moment.microsecond:06d}000"[: int(directive[0])]
        if directive == "Z":
            return "UTC" if pattern[: match.start()].endswith(" ") else "Z"
        text = texts[directive.lstrip("-")]
        return text.lstrip("0") or "0" if directive.startswith("-") else text

    text = _DIRECTIVE.sub(write, pattern)
    return text.replace(" days ", " days +") if days < 0 else text


_TIME = re.compile(r"(\d{1,2})(:\d\d)(:\d\d(?:\.\d{1,9})?)?( ?[AaPp][Mm])?( ?(?:Z|UTC|[+-]\d\d:?\d\d))?", re.ASCII)
_NUMERIC = re.compile(r"(\d{4}|\d{1,2})([-/. ])(\d{1,2})\2(\d{4}|\d{1,2})", re.ASCII)
_NAMED = (
    (re.compile(r"\d{1,2}([-/. ]|\. )([A-Za-z]{3,9})([-/. ]|, )(\d{4}|\d\d)", re.ASCII), "%d{0}{1}{2}{3}"),
    (re.compile(r"([A-Za-z]{3,9})([ -])\d{1,2}(,? |-)(\d{4}|\d\d)", re.ASCII), "{0}{1}%d{2}{3}"),
)
_SPANS = (
    (re.compile(r"-?\d{1,9} days?", re.ASCII), "%D days"),
    (re.compile(r"-?\d{1,9} days?,? \+?\d{1,2}:\d\d:\d\d(\.\d{1,9})?", re.ASCII), "%D days %H:%M:%S"),
    (re.compile(r"P-?\d{1,9}DT\d{1,2}H\d{1,2}M\d{1,2}(\.\d{1,9})?S", re.ASCII), "P%DDT%-HH%-MM%-SS"),
)
_ORDERS = {
    "/": ("%m{0}%d{0}%{1}", "%d{0}%m{0}%{1}"),
    "other": ("%d{0}%m{0}%{1}", "%m{0}%d{0}%{1}"),
}
"""The order of day and month in dates that could be either: with slashes the month comes first, else the day."""


def order_of_pattern(pattern: str) -> str:
    """Return the order of day, month and year.

    Examples
    --------
    >>> order_of_pattern("%-d.%m.%Y %H:%M")
    'dmy'
    """
    return "".join(re.findall("%-?([Yymd])", pattern)).lower()


def propose_patterns(text: str) -> list[str]:
    """Return the patterns that a text may follow, the likeliest first."""
    if not text or len(text) > 50 or not any(sign in text for sign in "0123456789"):
        return []
    for form, pattern in _SPANS:
        if form.fullmatch(text):
            return [pattern]
    if match := _TIME.fullmatch(text):
        pattern = _clock_pattern(match)
        if "z" in pattern.lower():
            return []
        return [pattern] if "%I" in pattern else [pattern, f"%T{pattern[2:]}"]
    if match := re.fullmatch(r"-?\d{1,9}(:\d\d)(:\d\d(?:\.\d{1,9})?)?", text, re.ASCII):
        return ["%T:%M" + (":%S" if match[2] else "")]
    date, clock = text, ""
    for position in re.finditer(r"[T ]", text):
        if match := _TIME.fullmatch(text, position.end()):
            date, clock = text[: position.start()], position.group() + _clock_pattern(match)
            break
    if clock and date.endswith(","):
        date, clock = date[:-1], f",{clock}"
    return [pattern + clock for pattern in _date_patterns(date)]


def _clock_pattern(match: re.Match[str]) -> str:
    _, _, seconds, half, zone = match.groups()
    pattern = ("%I" if half else "%H") + ":%M" + (":%S" if seconds else "")
    if half:
        pattern += half[:-2] + "%p"
    if zone:
        blank = " " if zone.startswith(" ") else ""
        pattern += blank + ("%Z" if zone.strip() in ("Z", "UTC") else "%:z" if ":" in zone else "%z")
    return pattern


def _date_patterns(text: str) -> list[str]:
    if match := _NUMERIC.fullmatch(text):
        first, sign, _, last = match.groups()
        if len(first) == 4:
            return [f"%Y{sign}%m{sign}%d"] if len(last) < 4 else []
        orders = _ORDERS.get(sign, _ORDERS["other"])
        if len(last) == 4:
            return [order.format(sign, "Y") for order in orders]
        years = [order.format(sign, "y") for order in orders] if len(last) == 2 and sign != " " else []
        return ([f"%y{sign}%m{sign}%d"] if len(first) == 2 and sign == "-" and years else []) + years
    for form, template in _NAMED:
        if match := form.fullmatch(text):
            parts = list(match.groups())
            spot = next(i for i, part in enumerate(parts) if part.isalpha())
            if parts[spot].lower() not in _OF_MONTH:
                return []
            short = len(parts[spot]) <= 4
            year = "%Y" if len(parts[-1]) == 4 else "%y"
            names = ("%b", "%B") if short else ("%B",)
            return [template.format(*parts[:spot], name, *parts[spot + 1 : -1], year) for name in names]
    return []


def has_directives(pattern: str) -> bool:
    """Return whether a text is a pattern.

    Examples
    --------
    >>> has_directives("%Y-%m-%d"), has_directives("2024")
    (True, False)
    """
    return _DIRECTIVE.search(pattern) is not None
