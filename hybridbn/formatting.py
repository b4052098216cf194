"""Labels that fit: numbers with the digits that matter, long names cut in the middle, and the ticks of axes.

Reports, pictures and the command line write numbers and names by the same rules.
"""

from __future__ import annotations

import datetime
import html
import math
from collections.abc import Sequence
from typing import Any

from hybridbn.errors import escape_controls
from hybridbn.unit_texts import read_pattern
from hybridbn.units import Unit

_DURATIONS = ((1.0, "d"), (1 / 24, "h"), (1 / 1440, "min"), (1 / 86400, "s"))


def format_number(value: float) -> str:
    """Return a number with four significant digits or so, for a label.

    Examples
    --------
    >>> format_number(1234567.0), format_number(0.123456), format_number(-2.0)
    ('1,234,567', '0.1235', '-2')
    """
    if value and not 1e-4 <= abs(value) < 1e9:
        return f"{value:.3g}"
    digits = max(0, 3 - math.floor(math.log10(abs(value)))) if value else 0
    text = f"{value:,.{min(digits, 7)}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def format_range(low: float, high: float) -> tuple[str, str]:
    """Return the two ends of an axis as text, with enough digits to tell them apart.

    Examples
    --------
    >>> format_range(0.0, 12.5), format_range(9.97e11, 1.0031e12)
    (('0', '12.5'), ('9.9700e+11', '1.0031e+12'))
    """
    largest = max(abs(low), abs(high))
    digits = math.ceil(math.log10(largest / (high - low))) + 2 if high > low and largest else 0
    if digits <= 3 or largest / (high - low) > 1e13:
        return format_number(low), format_number(high)
    if 1e-4 <= largest < 1e9:
        places = max(0, digits - 1 - math.floor(math.log10(largest)))
        return f"{low:,.{places}f}", f"{high:,.{places}f}"
    return f"{low:.{digits - 1}e}", f"{high:.{digits - 1}e}"


def format_numbers(values: Sequence[float], step: float) -> list[str]:
    """Return numbers that are multiples of a step as texts, with the same digits and no more than the step needs.

    Examples
    --------
    >>> format_numbers([0.0, 0.5, 1.0], 0.5), format_numbers([1e12, 1.002e12], 2e9), format_numbers([0.0, 3e-7], 3e-7)
    (['0.0', '0.5', '1.0'], ['1.000e+12', '1.002e+12'], ['0', '3e-07'])
    """
    largest = max(map(abs, values), default=0.0)
    exponent = math.floor(math.log10(step) + 1e-9) if step > 0 else 0
    while step > 0 and exponent > -300 and abs(step / 10.0**exponent - round(step / 10.0**exponent)) > 1e-6:
        exponent -= 1
    if not largest or 1e-4 <= largest < 1e7:
        return [f"{value:,.{max(0, -exponent)}f}" for value in (v + 0.0 for v in values)]
    digits = max(0, math.floor(math.log10(largest)) - exponent)
    return [f"{value:.{digits}e}" if value else "0" for value in values]


def format_probability(value: float) -> str:
    """Return a probability with three decimals; one that is not quite 0 or 1 is not shown as if it were.

    Examples
    --------
    >>> [format_probability(value) for value in (0.0, 1e-9, 0.25, 0.99999, 1.0)]
    ['0', '<0.001', '0.250', '>0.999', '1']
    """
    if math.isnan(value) or value in (0.0, 1.0):
        return f"{value:g}"
    return "<0.001" if value < 0.0005 else ">0.999" if value >= 0.9995 else f"{value:.3f}"


def format_share(value: float) -> str:
    """Return a share of cells or rows in percent.

    Examples
    --------
    >>> format_share(0.1234), format_share(1.0)
    ('12.3%', '100.0%')
    """
    return f"{value:.1%}"


def format_value(value: float, unit: Unit | None = None, spread: float = 0.0) -> str:
    """Return a number of a variable as text: a date or time where it has such a unit.

    With a `spread`, such as a standard deviation, it has enough digits to tell it from numbers that far away.

    Examples
    --------
    >>> format_value(123456.789), format_value(123456.789, spread=0.5)
    ('123,457', '123,456.79')
    >>> format_value(3.14159), format_value(19753.2, Unit("date")), format_value(0.5, Unit("duration"))
    ('3.142', '2024-01-31', '12 h')
    >>> from hybridbn.unit_texts import make_amount
    >>> format_value(1234.567, make_amount("#.##0,00 €"))
    '1.234,57 €'
    """
    if unit is None or not math.isfinite(value):
        fine = spread > 0 and math.isfinite(value) and math.isfinite(spread)
        return format_range(value, value + spread)[0] if fine else format_number(value)
    if unit.kind == "duration":
        size, name = next((each for each in _DURATIONS if abs(value) >= each[0]), _DURATIONS[-1 if value else 0])
        return f"{format_number(value / size)} {name}"
    text = unit.text(float(unit.round(value)))
    if unit.kind != "datetime" or unit.pattern is not None:
        return text
    # no more of the time of day than matters
    end = 10 if spread >= 2 or text[10:19] == "T00:00:00" else 16 if spread >= 1 / 24 else 19
    return text[:end].replace("T", " ")


def step_of(variable: Any) -> float:
    """Return what the numbers of a continuous variable are multiples of; zero where they may be any."""
    return 0.0 if variable.grid is None else float(variable.grid.step)


def format_of(variable: Any, value: float, spread: float = 0.0) -> str:
    """Return a number of a continuous variable as text; whole numbers have no separators, as years have none.

    Examples
    --------
    >>> from hybridbn.variables import Continuous, Grid
    >>> format_of(Continuous("year", grid=Grid(1.0)), 2009.0), format_of(Continuous("income"), 2009.0)
    ('2009', '2,009')
    """
    step = 0.0 if variable.unit is not None else step_of(variable)
    whole = step > 0 and step % 1 == value % 1 == 0
    return f"{value:.0f}" if whole else _drop_separators(format_value(value, variable.unit, spread), step)


def _drop_separators(text: str, step: float) -> str:
    return text.replace(",", "") if step and step % 1 == 0 else text


def escape_markup(text: str) -> str:
    r"""Return a text as HTML and SVG show it; signs that turn the direction of writing or are none are seen escaped.

    Examples
    --------
    >>> print(escape_markup("a < b\udcff"))
    a &lt; b\udcff
    """
    return html.escape(escape_controls(text, lines=True))


def shorten_text(text: str, most: int) -> str:
    """Cut the middle out of a text longer than `most`, as long names often differ at their end.

    Examples
    --------
    >>> shorten_text("a very long name, number 7", 12)
    'a very…ber 7'
    """
    if len(text) <= most:
        return text
    tail = max(0, most - 1) // 2
    return f"{text[: max(0, most - 1 - tail)]}…{text[len(text) - tail :]}"


def choose_ticks(
    low: float, high: float, most: int = 6, unit: Unit | None = None, step: float = 0.0
) -> list[tuple[float, str]]:
    """Return round numbers between two ends, at most so many, with their labels; dates and times where there is a unit.

    With a `step`, what lies between its multiples is no number.

    Examples
    --------
    >>> choose_ticks(0.0, 10.3, 4)
    [(0.0, '0'), (5.0, '5'), (10.0, '10')]
    >>> choose_ticks(2006.5, 2009.5, 6, step=1.0)
    [(2007.0, '2007'), (2008.0, '2008'), (2009.0, '2009')]
    >>> choose_ticks(19000.0, 20000.0, 3, Unit("date"))
    [(19358.0, '2023'), (19723.0, '2024')]
    """
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        return [(low, _drop_separators(format_value(low, unit), step))] if math.isfinite(low) else []
    if high - low < 1e-12 * max(abs(low), abs(high)):
        return [(low, repr(float(low)))]  # the numbers between have no digits of their own
    most = max(most, 2)
    if unit is not None and unit.kind == "duration":
        size, name = next((each for each in _DURATIONS if max(abs(low), abs(high)) >= 2 * each[0]), _DURATIONS[-1])
        return [(number * size, f"{text} {name}") for number, text in choose_ticks(low / size, high / size, most)]
    ticks = [] if unit is None or not unit.is_time else _choose_times(low, high, most, unit)
    if unit is None or unit.is_time:
        return ticks or _choose_numbers(low, high, most, step)
    prefix, suffix = read_pattern(str(unit.pattern)).group("prefix", "suffix")
    return [(number, f"{prefix}{text}{suffix}") for number, text in _choose_numbers(low, high, most, step)]


def _choose_numbers(low: float, high: float, most: int, least: float) -> list[tuple[float, str]]:
    """Return multiples of 1, 2 or 5 times a power of ten, two at least where numbers have no least distance."""
    exponent = math.floor(math.log10(max((high - low) / most, least)))
    finer: list[float] = []
    for factor in (1, 2, 5, 10, 20, 50):
        step = float(f"{factor}e{exponent}")
        if step < least:
            continue
        first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
        numbers = [float(f"{multiple * factor}e{exponent}") for multiple in range(first, last + 1)]
        if len(numbers) < 2 and finer:
            numbers, step = [finer[0], finer[-1]], max(step / 10, least)
        if len(numbers) <= most:
            break
        finer = numbers
    texts = format_numbers(numbers, step)
    return [(at, _drop_separators(text, least)) for at, text in zip(numbers, texts, strict=True)]


def _choose_times(low: float, high: float, most: int, unit: Unit) -> list[tuple[float, str]]:
    """Return beginnings of years, months, days, hours, minutes or seconds; none where a calendar does not reach."""
    width = (high - low) / most
    calendar = unit.kind != "time"
    low, high = (low, high) if calendar else (max(low, 0.0), min(high, 1.0))
    if calendar and not -719_000 < low <= high < 2_900_000:
        return []
    if calendar and width > 14 and len(months := _choose_months(low, high, most)) > 1:
        return months
    finer: list[float] = []
    for step, form in (
        *((1 / 86400 * k, "%H:%M:%S") for k in (1, 2, 5, 15, 30)),
        *((1 / 1440 * k, "%H:%M") for k in (1, 2, 5, 15, 30)),
        *((1 / 24 * k, "%m-%d %H:%M" if calendar else "%H:%M") for k in (1, 3, 6, 12)),
        *((float(k), "%Y-%m-%d") for k in (1, 2, 7, 14, 28)),
    ):
        first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
        chosen = [multiple * step for multiple in (range(first, last + 1) if last - first < 400 else ())]
        if len(chosen) < 2 and len(finer) > 1:
            chosen = [finer[0], finer[-1]]
        if 2 <= len(chosen) <= most:
            return [(day, _to_moment(day).strftime(form)) for day in chosen]
        finer = chosen
    return []


def _to_moment(day: float) -> datetime.datetime:
    return datetime.datetime(1970, 1, 1) + datetime.timedelta(seconds=round(day * 86400))


def _choose_months(low: float, high: float, most: int) -> list[tuple[float, str]]:
    start, end = _to_moment(low), _to_moment(high)
    first, last = start.year * 12 + start.month - 1, end.year * 12 + end.month
    finer: list[tuple[float, str]] = []
    for months in (1, 2, 3, 6, *(12 * k for k in (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000))):
        chosen = []
        for month in range(-(-first // months) * months, last, months):
            year, rest = divmod(month, 12)
            if 1 <= year <= 9999:
                day = float(datetime.date(year, rest + 1, 1).toordinal() - 719_163)
                if low <= day <= high:
                    chosen.append((day, f"{year:04d}" if months >= 12 else f"{year:04d}-{rest + 1:02d}"))
        if len(chosen) < 2 and finer:
            return [finer[0], finer[-1]]
        if len(chosen) <= most:
            return chosen
        finer = chosen
    return []
