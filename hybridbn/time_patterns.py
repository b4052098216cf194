"""Text patterns of dates and times: which one a column's texts follow, and texts as numbers of days and back.

Patterns hold the directives of `time.strftime`, where ``%-d`` is a number without leading zeros, ``%3f`` three decimals
of a second, ``%:z`` an offset with a colon, ``%D`` the whole days of a duration and ``%T`` all of its hours.
"""

from __future__ import annotations

import datetime
import functools
import re
from collections.abc import Iterable, Sequence

import numpy as np

__all__ = [
    "PatternFinder",
    "has_directives",
    "parse",
    "parse_all",
    "pattern_from_java",
    "pattern_to_java",
    "write_moment",
]

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

_LETTERS = {
    "yyyy": "%Y",
    "yy": "%y",
    "MMMM": "%B",
    "MMM": "%b",
    "MM": "%m",
    "M": "%-m",
    "dd": "%d",
    "d": "%-d",
    "HH": "%H",
    "H": "%-H",
    "hh": "%I",
    "h": "%-I",
    "mm": "%M",
    "ss": "%S",
    "SSS": "%3f",
    "a": "%p",
    "Z": "%z",
    "XXX": "%:z",
}
"""The letters of dates in Java, in which other programs declare them, and the directives of Python."""
_LETTER = re.compile(r"'((?:[^']|'')*)'|([A-Za-z])\2*")


def parse(pattern: str, text: str) -> float | None:
    """Return the number of days that a text stands for, None where it does not follow the pattern.

    Examples
    --------
    >>> parse("%d/%m/%y", "2/1/70"), parse("%D days %H:%M:%S", "2 days 12:00:00"), parse("%Y-%m-%d", "2023-02-29")
    (1.0, 2.5, None)
    """
    compiled, directives, sign = _compile(pattern)
    match = compiled.fullmatch(text.strip())
    return None if match is None else _convert(directives, match.groups(), sign)


@functools.lru_cache(maxsize=512)
def _compile(pattern: str) -> tuple[re.Pattern[str], tuple[str, ...], bool]:
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


def _convert(directives: Sequence[str], groups: Sequence[str], signed: bool) -> float | None:
    year, month, day, hour, offset = 1970, 1, 1, 0, 0
    microseconds, days, negative, point = 0.0, 0, False, False
    for directive, text in zip(directives, groups, strict=True):
        if directive == "Y":
            year, point = int(text), True
        elif directive == "y":
            year, point = int(text) + (1900 if int(text) > 68 else 2000), True
        elif directive in ("b", "B"):
            month = _OF_MONTH.get(text.lower(), 0)
        elif directive == "m":
            month = int(text)
        elif directive == "d":
            day = int(text)
        elif directive in ("H", "I"):
            hour += int(text)
            if hour > 23 or (directive == "I" and not 1 <= hour <= 12):
                return None
            hour = hour % 12 if directive == "I" else hour
        elif directive == "p":
            hour += _HALVES[text.lower()]
        elif directive == "M":
            if int(text) > 59:
                return None
            microseconds += int(text) * 60e6
        elif directive == "S":
            if float(text) >= 60:
                return None
            microseconds += float(text) * 1e6
        elif directive in ("z", ":z"):
            minutes = int(text[1:3]) * 60 + int(text[-2:])
            offset = -minutes if text[0] == "-" else minutes
        elif directive == "D":
            days = int(text)
        elif directive == "T":
            negative, hour = text.startswith("-"), abs(int(text))
    if point:
        try:
            days = datetime.date(year, month, day).toordinal() - 719_163
        except ValueError:
            return None
    seconds = (hour * 3600 - offset * 60) + microseconds / 1e6
    total = days + seconds / 86_400
    return -total if signed and negative else total


_ISO = {"%Y-%m-%d": 10, "%Y-%m-%d %H:%M:%S": 19, "%Y-%m-%dT%H:%M:%S": 19}
"""Patterns that numpy reads, and how long their texts are."""
_FIRST_DAY = 1 - 719_163
"""That of the year 1."""
_FEW_TEXTS = 100
"""So many texts are parsed one by one."""


def parse_all(pattern: str, texts: Sequence[str]) -> list[float] | None:
    """Return many texts that are written with all their digits as numbers of days; None where they have to be parsed
    one by one.

    Examples
    --------
    >>> parse_all("%Y-%m-%d", ["1970-01-03"] * 100)[:2], parse_all("%Y-%m-%d", ["1970-1-3"] * 100)
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

    def write(match: re.Match[str]) -> str:
        directive = match[1]
        plain = directive.lstrip("-")
        if plain.endswith("f"):
            return f"{moment.microsecond:06d}000"[: int(plain[0])]
        if plain in ("b", "B"):
            name = _MONTHS[moment.month - 1].capitalize()
            return name[:3] if plain == "b" else name
        if plain == "p":
            return "PM" if moment.hour >= 12 else "AM"
        if plain in ("z", ":z"):
            text = moment.strftime("%z") or "+0000"
            return text[:5] if plain == "z" else f"{text[:3]}:{text[3:5]}"
        if plain == "Z":
            return "UTC" if pattern[: match.start()].endswith(" ") else "Z"
        if plain == "T":
            return f"{hours:02d}" if directive == "T" else str(hours)
        number = {
            "Y": moment.year,
            "y": moment.year % 100,
            "m": moment.month,
            "d": moment.day,
            "H": moment.hour,
            "I": moment.hour % 12 or 12,
            "M": moment.minute,
            "S": moment.second,
            "D": days,
        }[plain]
        width = 4 if plain == "Y" else 2
        return str(number) if directive.startswith("-") or plain == "D" else f"{number:0{width}d}"

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
"""Of dates that could be either, those with strokes have the month first, and all others the day."""


class PatternFinder:
    """Finds the pattern that all texts of a column follow, whatever blocks they come in.

    Parameters
    ----------
    preferred : str, optional
        The pattern that comes first where texts allow several.

    Attributes
    ----------
    ambiguous : bool
        Whether the texts could have day and month in either order.
    example : str
        The first text.
    zone : str or None
        The first offset from UTC.

    Examples
    --------
    >>> finder = PatternFinder()
    >>> finder.add(["1/2/2024"]), finder.ambiguous, finder.add(["28/2/2024"]), finder.ambiguous
    (True, True, True, False)
    >>> finder.pattern, PatternFinder().add(["1/2/2024", "unknown"])
    ('%-d/%-m/%Y', False)
    """

    def __init__(self, preferred: str | None = None) -> None:
        self._preferred = None if preferred is None else _plain(preferred)
        self._candidates: list[str] | None = None
        self._unpadded: dict[str, set[str]] = {}
        self._numbers: dict[str, list[float]] = {}
        self._decimals = 0
        self.zone: str | None = None
        self.example: str = ""

    def add(self, texts: Iterable[str]) -> bool:
        """Add texts; return whether there is still a pattern that all texts follow."""
        listed = [text.strip() for text in texts]
        if self._candidates is None and listed:
            self.example = listed[0]
            self._candidates = _propose(self.example)
            if self._preferred is not None:
                self._candidates.sort(key=lambda candidate: candidate != self._preferred)
        for candidate in list(self._candidates or ()):
            if not self._follow(candidate, listed):
                self._candidates = [other for other in self._candidates or () if other != candidate]
        return bool(self._candidates)

    def _follow(self, candidate: str, texts: Sequence[str]) -> bool:
        compiled, directives, signed = _compile(candidate)
        unpadded = self._unpadded.setdefault(candidate, set())
        parsed = parse_all(candidate, texts)
        numbers = self._numbers[candidate] = parsed or []
        if parsed is not None:
            return True
        for text in texts:
            match = compiled.fullmatch(text)
            number = None if match is None else _convert(directives, match.groups(), signed)
            if match is None or number is None:
                return False
            numbers.append(number)
            for directive, part in zip(directives, match.groups(), strict=True):
                if directive in "mdHIT" and f"%{directive}" in candidate:
                    if len(part) == 1:
                        unpadded.add(directive)
                        if ".%y" in candidate:  # such as 1.2.10, which numbers a version
                            return False
                elif directive == "S":
                    self._decimals = max(self._decimals, len(part.partition(".")[2]))
                elif directive in ("z", ":z", "Z") and self.zone is None:
                    self.zone = "UTC" if directive == "Z" else part
        return True

    @property
    def ambiguous(self) -> bool:
        """Whether the texts could have day and month in either order, and no preferred pattern decides it."""
        rivals = self._candidates or []
        orders = {"".join(re.findall(r"%([Yymd])", rival)) for rival in rivals}
        return len(orders) > 1 and rivals[0] != self._preferred

    @property
    def numbers(self) -> list[float]:
        """The texts that were added last as numbers of days, by the pattern."""
        return self._numbers[self._candidates[0]] if self._candidates else []

    @property
    def pattern(self) -> str | None:
        """The pattern of the texts; None where there is none, or no text yet."""
        if not self._candidates:
            return None
        pattern = self._candidates[0]
        if self._decimals:
            pattern = re.sub(r"(%-?S)", rf"\1.%{min(self._decimals, 9)}f", pattern)
        for directive in self._unpadded.get(self._candidates[0], ()):
            pattern = pattern.replace(f"%{directive}", f"%-{directive}")
        return pattern


def _plain(pattern: str) -> str:
    return re.sub(r"\.%\df", "", pattern).replace("%-", "%")


def _propose(text: str) -> list[str]:
    """Return the patterns that a text may follow, the likeliest first."""
    if not text or len(text) > 50 or not any(sign in text for sign in "0123456789"):
        return []
    for form, pattern in _SPANS:
        if form.fullmatch(text):
            return [pattern]
    times = [""]
    date = text
    if _TIME.fullmatch(text):
        pattern = _clock_pattern(text)
        if "z" in pattern.lower():
            return []
        return [pattern] if "%I" in pattern else [pattern, f"%T{pattern[2:]}"]
    if match := re.fullmatch(r"-?\d{1,9}(:\d\d)(:\d\d(?:\.\d{1,9})?)?", text, re.ASCII):
        return ["%T:%M" + (":%S" if match[2] else "")]
    for position in re.finditer(r"[T ]", text):
        rest = text[position.end() :]
        if _TIME.fullmatch(rest):
            times, date = [f"{position.group()}{_clock_pattern(rest)}"], text[: position.start()]
            break
    joint = ""
    if times != [""] and date.endswith(","):
        date, joint = date[:-1], ","
    return [f"{pattern}{joint}{times[0]}" for pattern in _date_patterns(date)]


def _clock_pattern(text: str) -> str:
    match = _TIME.fullmatch(text)
    assert match is not None
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


def pattern_from_java(form: str) -> str:
    """Return the pattern that a date format of Java stands for; raise `ValueError` where it has letters without one.

    Examples
    --------
    >>> pattern_from_java("yyyy-MM-dd'T'HH:mm")
    '%Y-%m-%dT%H:%M'
    """

    def translate(match: re.Match[str]) -> str:
        if match[2] is None:
            return match[1].replace("''", "'") or "'"
        if match[0] not in _LETTERS:
            raise ValueError(f"the letters {match[0]!r} of the date format {form!r} are none of {', '.join(_LETTERS)}")
        return _LETTERS[match[0]]

    return _LETTER.sub(translate, form)


def pattern_to_java(pattern: str) -> str | None:
    """Return the date format of Java that stands for a pattern; None where there is none.

    Examples
    --------
    >>> pattern_to_java("%d.%m.%Y"), pattern_to_java("%D days")
    ('dd.MM.yyyy', None)
    """
    directives = {directive: letters for letters, directive in _LETTERS.items()}
    parts = re.split(r"(%-?[YymdHIMSDT]|%[bBpzZ]|%[0-9]f|%:z)", pattern)
    literals = [re.sub(r"[A-Za-z']+", lambda match: "'" + match[0].replace("'", "''") + "'", part) for part in parts]
    if any("%" in part and part not in directives for part in parts):
        return None
    return "".join(directives.get(part, literal) for part, literal in zip(parts, literals, strict=True))
