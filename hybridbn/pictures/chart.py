"""What a picture shows, whatever draws it: marks, axes, a title and a description in words; and its drawing as SVG.

Pictures are made of a few kinds of marks in the units of their axes. `hybridbn.pictures.axes` draws them with
matplotlib, and `Chart.to_svg` as text, for notebooks and reports, so that both show the same. Colors are roles here;
the palette says which colors they stand for.

The text has no scripts and no styles of the page, and all text in it is escaped. Text and lines have the color of the
text around the picture, so it can be read on light and on dark backgrounds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from operator import itemgetter
from typing import Any, TypeAlias

import numpy as np

from hybridbn.errors import HybridBNError, TableError
from hybridbn.formatting import choose_ticks, escape_markup, shorten_text, step_of
from hybridbn.units import Unit
from hybridbn.variables import Continuous

SERIES = ("#2f7fc8", "#d9622b", "#9c6054", "#9c00fc", "#9c90a8")
"""Blue, vermilion, brown, violet and gray: each has a contrast of at least 3 with white and with black, and any two are
told apart with every kind of color blindness. Lines beyond these are dashed."""
INK = {"ink": 1.0, "dim": 0.68, "line": 0.35, "pale": 0.12}
"""Text, labels, lines and backgrounds of bars: how much they cover of the background in the color of text."""

Color: TypeAlias = int | str
"""The number of a series, or one of the names in `INK`."""
Numbers: TypeAlias = Any
"""Numbers in the units of an axis: a sequence or an array."""

SMALL, TITLE = 8.0, 9.5
"""The sizes of labels and of titles, in points; readable in a column of 80 mm."""
LETTER, DIGIT = 0.56, 0.64
"""The mean width of a letter and that of a digit, as shares of the size of text."""


@dataclass(frozen=True)
class Rectangles:
    """Bars and cells: rectangles from (`left`, `low`) to (`right`, `high`); `tips` are their texts."""

    left: Numbers
    right: Numbers
    low: Numbers
    high: Numbers
    color: Color = 0
    opacity: float = 1.0
    label: str = ""
    hollow: bool = False
    tips: Sequence[str] = ()


@dataclass(frozen=True)
class Line:
    """A line through points, or steps between them; NaN interrupts it."""

    x: Numbers
    y: Numbers
    color: Color = 0
    width: float = 1.5
    label: str = ""
    dashed: bool = False
    marked: bool = False


@dataclass(frozen=True)
class Area:
    """The area between two lines."""

    x: Numbers
    low: Numbers
    high: Numbers
    color: Color = 0
    opacity: float = 0.25
    label: str = ""


@dataclass(frozen=True)
class Points:
    """Single points: circles, or short vertical strokes."""

    x: Numbers
    y: Numbers
    color: Color = 0
    size: float = 5.0
    label: str = ""
    strokes: bool = False
    hollow: bool = False


@dataclass(frozen=True)
class Rule:
    """A straight line across the whole picture, at one value of one axis."""

    x: float | None = None
    y: float | None = None
    color: Color = "dim"
    label: str = ""
    dashed: bool = False


@dataclass(frozen=True)
class Text:
    """A text at a point, moved by `shift` points to the right and up; `side` is where the point lies.

    `size` is that in points where the picture has its natural size.
    `tip` is the whole text where this one is shortened.
    """

    x: float
    y: float
    text: str
    color: Color = "ink"
    size: float = SMALL
    side: str = "middle"
    level: str = "middle"
    shift: tuple[float, float] = (0.0, 0.0)
    bold: bool = False
    tip: str = ""
    angle: float = 0.0


@dataclass(frozen=True)
class Heat:
    """Cells between edges along both axes, the darker the greater their values (y, x)."""

    x: Numbers
    y: Numbers
    values: Numbers


@dataclass(frozen=True)
class Frame:
    """A box with round corners, such as a node of a network."""

    left: float
    top: float
    width: float
    height: float
    color: Color = "line"
    tip: str = ""


@dataclass(frozen=True)
class Arrow:
    """A smooth line along the points of a route, with a head at its end or without."""

    route: Sequence[tuple[float, float]]
    width: float = 1.1
    strength: float = 0.6
    head: bool = True


Mark: TypeAlias = Rectangles | Line | Area | Points | Rule | Text | Heat | Frame | Arrow


@dataclass(frozen=True)
class Axis:
    """One axis of a picture.

    Parameters
    ----------
    label : str
    low, high : float, optional
        The ends; by default those of the marks.
    names : sequence of str, optional
        What stands at 0, 1, 2, ... instead of numbers.
    ticks : sequence of (number, text), optional
        What stands at other numbers.
    unit : Unit, optional
    step : float
        What lies between its multiples is no number.
    reverse : bool
        Numbers increase to the left, or downwards.
    shown : bool
    """

    label: str = ""
    low: float | None = None
    high: float | None = None
    names: Sequence[str] | None = None
    ticks: Sequence[tuple[float, str]] | None = None
    unit: Unit | None = None
    reverse: bool = False
    shown: bool = True
    step: float = 0.0

    @staticmethod
    def of(variable: Continuous, label: str = "", low: float | None = None, high: float | None = None) -> Axis:
        """Return an axis for the numbers of a variable."""
        return Axis(label, low, high, unit=variable.unit, step=step_of(variable))

    @property
    def named(self) -> list[tuple[float, str]] | None:
        """The ticks that do not depend on the ends."""
        if self.names is not None:
            return [(float(number), name) for number, name in enumerate(self.names)]
        return None if self.ticks is None else list(self.ticks)

    def choose_ticks(self, low: float, high: float, most: int, letters: int = 40) -> list[tuple[float, str]]:
        """Return ticks between two ends with texts of at most so many letters."""
        named = self.named
        if named is None:
            return choose_ticks(low, high, most, self.unit, self.step)
        inside = [(at, text) for at, text in named if low <= at <= high]
        if self.ticks is not None:
            return inside
        return [(at, shorten_text(text, letters)) for at, text in inside[:: max(1, -(-len(inside) // max(most, 1)))]]


def fit_ticks(
    choose: Callable[[int], list[tuple[float, str]]],
    has_room: Callable[[list[tuple[float, str]]], bool],
    numbers: Sequence[int] = (7, 5, 4, 3, 2),
) -> list[tuple[float, str]]:
    """Return the ticks for the greatest of some numbers of them whose texts have room; those for the last one
    otherwise.
    """
    for most in numbers:
        ticks = choose(most)
        if has_room(ticks):
            break
    return ticks


@dataclass(frozen=True)
class Chart:
    """A picture.

    Attributes
    ----------
    marks : sequence of Mark
        Later ones lie above earlier ones.
    title : str
    description : str
        What can be seen, in words: the alternative text.
    x, y : Axis
    size : (width, height)
        The natural size in inches, without the title and labels of axes.
    diagram : bool
        Whether the units are inches, y grows downwards, and there are no axes.
    legend : bool
    """

    marks: Sequence[Mark]
    title: str = ""
    description: str = ""
    x: Axis = field(default_factory=Axis)
    y: Axis = field(default_factory=Axis)
    size: tuple[float, float] = (4.6, 2.8)
    diagram: bool = False
    legend: bool = True

    def draw(self, ax: Any = None) -> Any:
        """Draw the picture with matplotlib on axes, those of a new figure if none are given; return the axes."""
        try:
            from hybridbn.pictures.axes import draw_chart
        except ImportError as error:
            raise HybridBNError("plots need matplotlib: pip install 'hybridbn[plot]'") from error
        return draw_chart(self, ax)

    def to_svg(self) -> str:
        """Return the picture as an ``<svg>`` element.

        Examples
        --------
        >>> svg = Chart([Line([0, 1], [2, 3], label="<l>")], description="a line from 2 to 3").to_svg()
        >>> svg[:30], 'aria-label="a line from 2 to 3"' in svg, "<l>" in svg
        ('<svg viewBox="0 0 331 202" wid', True, False)
        """
        return _draw_diagram(self) if self.diagram else _draw_plot(self)

    def labels(self) -> dict[str, int]:
        """Return the labels of the legend and the number of the first mark of each."""
        labels = [getattr(mark, "label", "") for mark in self.marks] if self.legend else []
        return {label: labels.index(label) for label in labels if label}

    def limits(self) -> tuple[float, float, float, float]:
        """Return the ends of both axes: those given, else those of the marks with a margin."""
        extents = [_extent(mark) for mark in self.marks]
        result = []
        for number, axis in enumerate((self.x, self.y)):
            parts = [np.asarray(extent[number], dtype=np.float64).ravel() for extent in extents]
            values = np.concatenate([np.empty(0), *parts])
            values = values[np.isfinite(values)]
            low, high = (float(values.min()), float(values.max())) if len(values) else (0.0, 1.0)
            margin = 0.04 * (high - low) if high > low else 0.5 * (abs(low) * 1e-3 or 1.0)
            low, high = low - margin, high + margin
            if axis.names is not None:
                low, high = -0.5, len(axis.names) - 0.5
            result += [low if axis.low is None else axis.low, high if axis.high is None else axis.high]
        return result[0], result[1], result[2], result[3]


def _extent(mark: Mark) -> tuple[Numbers, Numbers]:
    match mark:
        case Rectangles():
            return [*_flat(mark.left), *_flat(mark.right)], [*_flat(mark.low), *_flat(mark.high)]
        case Area():
            return mark.x, [*_flat(mark.low), *_flat(mark.high)]
        case Rule():
            return [] if mark.x is None else [mark.x], [] if mark.y is None else [mark.y]
        case Frame():
            return [mark.left, mark.left + mark.width], [mark.top, mark.top + mark.height]
        case Arrow():
            return [point[0] for point in mark.route], [point[1] for point in mark.route]
        case Text():
            return [], []
        case _:
            return mark.x, mark.y


def check_kind(value: Any, kind: type | tuple[type, ...], wanted: str) -> None:
    """Raise an error where something else is given than what a plot shows.

    Examples
    --------
    >>> check_kind(5, str, "a name is drawn")
    Traceback (most recent call last):
        ...
    hybridbn.errors.TableError: a name is drawn, not 5
    """
    if not isinstance(value, kind):
        raise TableError(f"{wanted}, not {value!r:.80}")


# -- drawing as SVG ---------------------------------------------------------------------------------------------------

_INCH, _POINT = 72.0, 1.25
"""Pixels of an inch and of a point of text: pictures on a screen are smaller, their texts are not."""

Place: TypeAlias = Callable[[Any], Any]


def _draw_diagram(chart: Chart) -> str:
    left, right, low, high = chart.limits()
    width, height = _INCH * (right - left), _INCH * (high - low)
    place_x, place_y = place_along(left, right, 0, width), place_along(low, high, 0, height)
    return _wrap(width, height, _draw_marks(chart, place_x, place_y, _POINT), chart.description)


def _draw_plot(chart: Chart) -> str:
    """Draw a picture with axes, whose labels need room beside it, and a legend above it."""
    left, right, low, high = chart.limits()
    width, height = _INCH * chart.size[0], _INCH * chart.size[1]
    text = SMALL * _POINT
    named = chart.y.named is not None
    most = int(height / 1.15 / text) if named else min(6, int(height / 2.4 / text))
    ticks_y = chart.y.choose_ticks(low, high, max(2, most), int(0.36 * width / text / LETTER))
    letters = max((len(label) for _, label in ticks_y), default=0)
    start = ((letters + 1) * LETTER if named else letters * DIGIT) * text + 6 if chart.y.shown else 3.0
    start += text + 2 if chart.y.label and chart.y.shown else 0.0
    end, top = width - 6, 5.0
    parts: list[str] = []
    for row in _fit_legend(chart.labels(), width - 6):
        x, top = 4.0, top + text + 3
        for label, number in row:
            sign = _swatch(chart.marks[number], x, top - 8)
            parts += [sign, _put_text(x + 13, top, label, "start", text, "dim")]
            x += 22 + len(label) * text * LETTER
    if not chart.x.reverse:
        for mark in chart.marks:  # texts to the right of bars need room
            if isinstance(mark, Text) and mark.side == "left" and mark.x > left:
                wide = (mark.shift[0] + mark.size * DIGIT * len(mark.text)) * _POINT
                end = min(end, start + (width - wide - start) * (right - left) / (mark.x - left))
    below = (text + 5 if chart.x.shown else 2) + (text + 2 if chart.x.label and chart.x.shown else 0)
    place_x = place_along(left, right, end if chart.x.reverse else start, start if chart.x.reverse else end)
    floor = height - below
    place_y = place_along(low, high, top + 2 if chart.y.reverse else floor, floor if chart.y.reverse else top + 2)
    axes: list[str] = []
    if chart.x.shown:
        axes = [
            _put_line(start, floor, end, floor, "line"),
            *_draw_ticks(chart, left, right, place_x, floor, end, text),
        ]
        if chart.x.label:
            axes.append(_put_text((start + end) / 2, height - 3, _fit(chart.x.label, end - start, text), "middle",
                                  text, "dim", tip=chart.x.label))  # fmt: skip
    if chart.y.shown:
        for at, label in ticks_y:
            y = float(place_y(at))
            axes.append(_put_text(start - 4, y + 0.35 * text, label, "end", text, "dim"))
        if chart.y.label:
            middle = (top + floor) / 2
            shown = _fit(chart.y.label, floor - top, text)
            axes.append(
                f'<g transform="rotate(-90 {text:.1f} {middle:.1f})">'
                f"{_put_text(text, middle, shown, 'middle', text, 'dim')}</g>"
            )
    marks = _draw_marks(chart, place_x, place_y, _POINT)
    return _wrap(width, height, [*parts, *marks, *axes], chart.description)


def _wrap(width: float, height: float, parts: Iterable[str], description: str) -> str:
    """Return parts of a picture as an ``<svg>`` element with its alternative text."""
    return (
        f'<svg viewBox="0 0 {width:.0f} {height:.0f}" width="{width:.0f}" height="{height:.0f}" role="img" '
        f'aria-label="{escape_markup(description)}" style="max-width:100%;height:auto" '
        f'font-family="system-ui,sans-serif" fill="currentColor">{"".join(parts)}</svg>'
    )


def place_along(low: float, high: float, first: float, last: float) -> Place:
    """Return the function that takes numbers from one pair of ends to another."""
    return lambda value: first + (np.asarray(value, dtype=np.float64) - low) * ((last - first) / (high - low))


def _fit(text: str, width: float, size: float) -> str:
    return shorten_text(text, max(3, int(width / size / LETTER)))


def _fit_legend(labels: Mapping[str, int], width: float) -> list[list[tuple[str, int]]]:
    """Return the labels, with the numbers of their marks, in rows of a width."""
    rows: list[list[tuple[str, int]]] = []
    used = width
    for label, number in labels.items():
        label = _fit(label, width - 22, SMALL * _POINT)
        length = 22 + len(label) * SMALL * _POINT * LETTER
        if used + length > width:
            rows.append([])
            used = 0.0
        rows[-1].append((label, number))
        used += length
    return rows


def _draw_ticks(
    chart: Chart, left: float, right: float, place: Place, floor: float, end: float, size: float
) -> list[str]:
    """Draw the ticks of the horizontal axis, as many as have room side by side."""
    width = abs(float(place(right)) - float(place(left)))
    ticks = fit_ticks(
        lambda most: chart.x.choose_ticks(left, right, most, int(width / most / size / LETTER)),
        lambda ticks: (max((len(label) for _, label in ticks), default=0) + 2) * size * LETTER * len(ticks) <= width,
    )
    parts = []
    for at, label in ticks:
        x, half = float(place(at)), len(label) * size * DIGIT / 2
        parts += [
            _put_line(x, floor, x, floor + 3, "line"),
            _put_text(min(max(x, half), end + 5 - half), floor + size + 2, label, "middle", size, "dim"),
        ]
    return parts


# -- marks ------------------------------------------------------------------------------------------------------------


def _draw_marks(chart: Chart, x: Place, y: Place, scale: float) -> list[str]:
    """Draw the marks; `scale` is the number of pixels of a point of text."""
    parts: list[str] = []
    for mark in chart.marks:
        match mark:
            case Rectangles():
                parts += _draw_rectangles(mark, x, y)
            case Line():
                parts += _draw_line(mark, x, y)
            case Area():
                upper = _list_points(x(mark.x), y(mark.high))
                lower = _list_points(x(mark.x), y(mark.low))[::-1]
                parts.append(f'<polygon points="{" ".join([*upper, *lower])}" {_paint(mark.color, mark.opacity)}/>')
            case Points():
                parts += [_put_point(mark, a, b) for a, b in zip(_flat(x(mark.x)), _flat(y(mark.y)), strict=True)]
            case Rule():
                left, right, low, high = chart.limits()
                ends = ((mark.x, low), (mark.x, high)) if mark.x is not None else ((left, mark.y), (right, mark.y))
                (a, b), (c, d) = ((float(x(one)), float(y(other))) for one, other in ends)
                parts.append(_put_line(a, b, c, d, mark.color, mark.dashed))
            case Text():
                parts.append(_draw_text(mark, float(x(mark.x)), float(y(mark.y)), scale))
            case Heat():
                parts += _draw_heat(mark, x, y)
            case Frame():
                parts.append(_draw_frame(mark, x, y))
            case Arrow():
                parts += _draw_arrow(mark, x, y)
    return parts


def _paint(color: Color, opacity: float = 1.0, *, hollow: bool = False) -> str:
    """Return the attributes of a filled shape, or of an outline."""
    what = "stroke" if hollow else "fill"
    share = opacity * (INK[color] if isinstance(color, str) else 1.0)
    shown = "currentColor" if isinstance(color, str) else SERIES[color % len(SERIES)]
    faint = f' {what}-opacity="{share:.2g}"' if share < 1 else ""
    return f'{what}="{shown}"{faint}{" fill=" + chr(34) + "none" + chr(34) if hollow else ""}'


def _draw_rectangles(mark: Rectangles, x: Place, y: Place) -> list[str]:
    sides = [np.broadcast_to(np.asarray(v, dtype=float), np.broadcast(mark.left, mark.right, mark.low, mark.high).shape)
             .ravel() for v in (mark.left, mark.right, mark.low, mark.high)]  # fmt: skip
    parts = []
    for number, (left, right, low, high) in enumerate(zip(*sides, strict=True)):
        (a, b), (c, d) = sorted((float(x(left)), float(x(right)))), sorted((float(y(low)), float(y(high))))
        if not (b > a and d > c):
            continue
        tip = f"<title>{escape_markup(mark.tips[number])}</title></rect>" if mark.tips else ""
        parts.append(
            f'<rect x="{a:.2f}" y="{c:.2f}" width="{b - a:.2f}" height="{d - c:.2f}" '
            f"{_paint(mark.color, mark.opacity, hollow=mark.hollow)}{'>' + tip if tip else '/>'}"
        )
    return parts


def _draw_line(mark: Line, x: Place, y: Place) -> list[str]:
    across, up = _flat(x(mark.x)), _flat(y(mark.y))
    points = [f"{a:.1f},{b:.1f}" for a, b in zip(across, up, strict=True)]
    drawn = groupby(zip(points, np.isfinite(up).tolist(), strict=True), itemgetter(1))
    runs = [[point for point, _ in run] for is_finite, run in drawn if is_finite]
    dashed = ' stroke-dasharray="5 3"' if is_dashed(mark.color, mark.dashed) else ""
    parts = [
        f'<polyline points="{" ".join(run)}" {_paint(mark.color, hollow=True)} stroke-width="{mark.width:g}"'
        f' stroke-linejoin="round"{dashed}/>'
        for run in runs
        if len(run) > 1
    ]
    if mark.marked:
        dot = Points([], [], mark.color, 4.0)
        parts += [_put_point(dot, a, b) for a, b in zip(across, up, strict=True) if np.isfinite(b)]
    return parts


def is_dashed(color: Color, dashed: bool) -> bool:
    """Tell whether a line is dashed: as it was asked for, or because all colors are used up."""
    return dashed or (isinstance(color, int) and color // len(SERIES) % 2 == 1)


def _draw_text(mark: Text, x: float, y: float, scale: float) -> str:
    size = mark.size * scale
    x, y = x + mark.shift[0] * scale, y - mark.shift[1] * scale
    drop = {"middle": 0.35, "top": 0.8, "bottom": -0.1}[mark.level] * size
    anchor = {"left": "start", "right": "end"}.get(mark.side, "middle")
    text = _put_text(x, y + drop, mark.text, anchor, size, mark.color, bold=mark.bold, tip=mark.tip)
    return f'<g transform="rotate({-mark.angle:g} {x:.1f} {y:.1f})">{text}</g>' if mark.angle else text


def _draw_frame(mark: Frame, x: Place, y: Place) -> str:
    a, b = float(x(mark.left)), float(y(mark.top))
    width, height = float(x(mark.left + mark.width)) - a, float(y(mark.top + mark.height)) - b
    tip = f"<title>{escape_markup(mark.tip)}</title>" if mark.tip else ""
    return (
        f'<g>{tip}<rect x="{a:.1f}" y="{b:.1f}" width="{width:.1f}" height="{height:.1f}" rx="4" '
        f"{_paint(mark.color, hollow=True)}/></g>"
    )


def _draw_heat(mark: Heat, x: Place, y: Place) -> list[str]:
    values = np.asarray(mark.values, dtype=np.float64)
    highest = float(np.nanmax(values)) or 1.0
    across, up = _flat(x(mark.x)), _flat(y(mark.y))
    parts = []
    for row, line in enumerate(values.tolist()):
        for column, value in enumerate(line):
            if not value > 0.004 * highest:
                continue
            (a, b), (c, d) = sorted(across[column : column + 2]), sorted(up[row : row + 2])
            parts.append(
                f'<rect x="{a:.1f}" y="{c:.1f}" width="{b - a + 0.3:.1f}" height="{d - c + 0.3:.1f}" '
                f"{_paint(0, value / highest)}/>"
            )
    return parts


def _draw_arrow(mark: Arrow, x: Place, y: Place) -> list[str]:
    """Draw a smooth line downwards, with a head at its end or without."""
    points = [(float(x(a)), float(y(b))) for a, b in mark.route]
    (a, b), *others = points
    path = [f"M{a:.1f} {b:.1f}"]
    for end_a, end_b in others:
        middle = (b + end_b) / 2
        path.append(f"C{a:.1f} {middle:.1f} {end_a:.1f} {middle:.1f} {end_a:.1f} {end_b:.1f}")
        a, b = end_a, end_b
    parts = [
        f'<path d="{"".join(path)}" fill="none" stroke="currentColor" stroke-opacity="{mark.strength:.2g}" '
        f'stroke-width="{mark.width:.2g}"/>'
    ]
    if mark.head:
        parts.append(
            f'<path d="M{a - 3.5:.1f} {b - 7:.1f}L{a:.1f} {b:.1f}L{a + 3.5:.1f} {b - 7:.1f}Z" '
            f'fill-opacity="{min(1.0, mark.strength + 0.15):.2g}"/>'
        )
    return parts


# -- elements ---------------------------------------------------------------------------------------------------------


def _put_text(
    x: float, y: float, text: str, anchor: str, size: float, color: Color, *, bold: bool = False, tip: str = ""
) -> str:
    weight = ' font-weight="bold"' if bold else ""
    element = (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size:.3g}" {_paint(color)}{weight}>'
        f"{escape_markup(text)}</text>"
    )
    return f"<g><title>{escape_markup(tip)}</title>{element}</g>" if tip and tip != text else element


def _put_line(a: float, b: float, c: float, d: float, color: Color, dashed: bool = False) -> str:
    dashes = ' stroke-dasharray="4 3"' if dashed else ""
    return f'<line x1="{a:.1f}" y1="{b:.1f}" x2="{c:.1f}" y2="{d:.1f}" {_paint(color, hollow=True)}{dashes}/>'


def _put_point(mark: Points, x: float, y: float) -> str:
    if mark.strokes:
        return _put_line(x, y - mark.size * 0.6, x, y + mark.size * 0.6, mark.color)
    return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{mark.size * 0.6:.2g}" {_paint(mark.color, hollow=mark.hollow)}/>'


def _swatch(mark: Any, x: float, y: float) -> str:
    """Draw the sign of a mark with a label in the legend."""
    match mark:
        case Rectangles() | Area():
            hollow = isinstance(mark, Rectangles) and mark.hollow
            paint = _paint(mark.color, mark.opacity, hollow=hollow)
            return f'<rect x="{x:.1f}" y="{y:.1f}" width="9" height="8" {paint}/>'
        case Points():
            return _put_point(mark, x + 4.5, y + 4)
        case _:
            return _put_line(x, y + 4, x + 10, y + 4, mark.color, is_dashed(mark.color, mark.dashed))


def _flat(values: Any) -> list[float]:
    return list(np.asarray(values, dtype=np.float64).ravel().tolist())


def _list_points(x: Any, y: Any) -> list[str]:
    return [f"{a:.1f},{b:.1f}" for a, b in zip(*np.broadcast_arrays(x, y), strict=True)]
