"""What a picture shows, whatever draws it: marks, axes, a title and a description in words.

Pictures are made of a few kinds of marks in the units of their axes. `hybridbn.pictures.axes` draws them with
matplotlib and `hybridbn.pictures.svg` as text, for notebooks and reports, so that both show the same. Colors are roles
here; the palette says which colors they stand for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

from hybridbn.errors import HybridBNError, TableError
from hybridbn.formatting import choose_ticks, shorten_text
from hybridbn.units import Unit

__all__ = [
    "DIGIT",
    "INK",
    "LETTER",
    "SERIES",
    "SMALL",
    "TITLE",
    "Area",
    "Arrow",
    "Axis",
    "Chart",
    "Color",
    "Frame",
    "Heat",
    "Line",
    "Mark",
    "Points",
    "Rectangles",
    "Rule",
    "Text",
    "TextSize",
    "check_kind",
]

SERIES = ("#2f7fc8", "#d9622b", "#9c6054", "#9c00fc", "#9c90a8")
"""Blue, vermilion, brown, violet and gray: each has a contrast of at least 3 with white and with black, and any two are
told apart with every kind of color blindness. Lines beyond these are dashed."""
INK = {"ink": 1.0, "dim": 0.68, "line": 0.35, "pale": 0.12}
"""Text, labels, lines and backgrounds of bars: how much they cover of the background in the color of text."""

Color: TypeAlias = int | str
"""The number of a series, or one of the names in `INK`."""
Numbers: TypeAlias = Any
"""Numbers in the units of an axis: a sequence or an array."""
TextSize: TypeAlias = float
"""The size of a text in points where a picture has its natural size."""

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

    `tip` is the whole text where this one is shortened.
    """

    x: float
    y: float
    text: str
    color: Color = "ink"
    size: TextSize = SMALL
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
    label: str = ""
    texts: Sequence[Sequence[str]] = ()


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
            return choose_ticks(low, high, most, self.unit)
        inside = [(at, text) for at, text in named if low <= at <= high]
        if self.ticks is not None:
            return inside
        return [(at, shorten_text(text, letters)) for at, text in inside[:: max(1, -(-len(inside) // max(most, 1)))]]


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

    def to_svg(self, width: float | None = None, height: float | None = None) -> str:
        """Return the picture as an ``<svg>`` element of a size in pixels."""
        from hybridbn.pictures.svg import draw_svg

        return draw_svg(self, width, height)

    def labels(self) -> list[tuple[str, Mark]]:
        """Return the labels of the legend and the first mark of each; there is none where there is one series only."""
        labels: dict[str, Mark] = {}
        for mark in self.marks:
            if not isinstance(mark, Text | Frame | Arrow | Heat) and mark.label:
                labels.setdefault(mark.label, mark)
        return list(labels.items()) if self.legend else []

    def limits(self) -> tuple[float, float, float, float]:
        """Return the ends of both axes: those given, else those of the marks with a margin."""
        spans: tuple[list[Any], list[Any]] = ([], [])
        for mark in self.marks:
            for values, ends in zip(_extent(mark), spans, strict=True):
                array = np.asarray(values, dtype=np.float64).ravel()
                array = array[np.isfinite(array)]
                if array.size:
                    ends += [float(array.min()), float(array.max())]
        result = []
        for axis, ends in zip((self.x, self.y), spans, strict=True):
            low, high = (min(ends), max(ends)) if ends else (0.0, 1.0)
            if axis.names is not None:
                low, high = -0.5, len(axis.names) - 0.5
            elif not high > low:
                margin = 0.5 * (abs(low) * 1e-3 or 1.0)
                low, high = low - margin, high + margin
            else:
                margin = 0.04 * (high - low)
                low, high = low - margin, high + margin
            result += [low if axis.low is None else axis.low, high if axis.high is None else axis.high]
        return result[0], result[1], result[2], result[3]


def _extent(mark: Mark) -> tuple[Numbers, Numbers]:
    if isinstance(mark, Rectangles):
        return [*_list(mark.left), *_list(mark.right)], [*_list(mark.low), *_list(mark.high)]
    if isinstance(mark, Area):
        return mark.x, [*_list(mark.low), *_list(mark.high)]
    if isinstance(mark, Rule):
        return [] if mark.x is None else [mark.x], [] if mark.y is None else [mark.y]
    if isinstance(mark, Frame):
        return [mark.left, mark.left + mark.width], [mark.top, mark.top + mark.height]
    if isinstance(mark, Arrow):
        return [point[0] for point in mark.route], [point[1] for point in mark.route]
    if isinstance(mark, Text):
        return [], []
    return mark.x, mark.y


def _list(values: Numbers) -> list[float]:
    return list(np.asarray(values, dtype=np.float64).ravel().tolist())


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
