"""Charts as SVG text, for notebooks and reports: no scripts, no styles of the page, all text escaped.

Text and lines have the color of the text around the picture, so it can be read on light and on dark backgrounds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from html import escape
from typing import Any

import numpy as np

from hybridbn.formatting import shorten_text
from hybridbn.pictures.chart import (
    DIGIT,
    INK,
    LETTER,
    SERIES,
    SMALL,
    Area,
    Arrow,
    Chart,
    Color,
    Frame,
    Heat,
    Line,
    Mark,
    Points,
    Rectangles,
    Rule,
    Text,
)

__all__ = ["draw_svg", "wrap_svg"]

_INCH, _POINT = 72.0, 1.25
"""Pixels of an inch and of a point of text: pictures on a screen are smaller, their texts are not."""

Place = Callable[[Any], Any]


def draw_svg(chart: Chart, width: float | None = None, height: float | None = None) -> str:
    """Return a chart as an ``<svg>`` element of a size in pixels.

    Examples
    --------
    >>> svg = draw_svg(Chart([Line([0, 1], [2, 3], label="<l>")], description="a line from 2 to 3"), 200, 120)
    >>> svg[:30], 'aria-label="a line from 2 to 3"' in svg, "<l>" in svg
    ('<svg viewBox="0 0 200 120" wid', True, False)
    """
    left, right, low, high = chart.limits()
    if chart.diagram:
        scale = _INCH if width is None else width / (right - left)
        sized = (scale * (right - left), scale * (high - low))
        return wrap_svg(*sized, _draw_marks(chart, _along(left, right, 0, sized[0]), _along(low, high, 0, sized[1]),
                                            scale * _POINT / _INCH), chart.description)  # fmt: skip
    width = _INCH * chart.size[0] if width is None else width
    height = _INCH * chart.size[1] if height is None else height
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
        for label, mark in row:
            parts += [_swatch(mark, x, top - 8), _put_text(x + 13, top, label, "start", text, "dim")]
            x += 22 + len(label) * text * LETTER
    if not chart.x.reverse:
        for mark in chart.marks:  # texts to the right of bars need room
            if isinstance(mark, Text) and mark.side == "left" and mark.x > left:
                wide = (mark.shift[0] + mark.size * DIGIT * len(mark.text)) * _POINT
                end = min(end, start + (width - wide - start) * (right - left) / (mark.x - left))
    below = (text + 5 if chart.x.shown else 2) + (text + 2 if chart.x.label and chart.x.shown else 0)
    place_x = _along(left, right, end if chart.x.reverse else start, start if chart.x.reverse else end)
    floor = height - below
    place_y = _along(low, high, top + 2 if chart.y.reverse else floor, floor if chart.y.reverse else top + 2)
    axes: list[str] = []
    if chart.x.shown:
        axes.append(_put_line(start, floor, end, floor, "line"))
        axes += _draw_ticks(chart, left, right, place_x, floor, end, text)
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
    return wrap_svg(width, height, [*parts, *marks, *axes], chart.description)


def wrap_svg(width: float, height: float, parts: Iterable[str], description: str) -> str:
    """Return parts of a picture as an ``<svg>`` element with its alternative text."""
    return (
        f'<svg viewBox="0 0 {width:.0f} {height:.0f}" width="{width:.0f}" height="{height:.0f}" role="img" '
        f'aria-label="{escape(description)}" style="max-width:100%;height:auto" font-family="system-ui,sans-serif" '
        f'fill="currentColor">{"".join(parts)}</svg>'
    )


def _along(low: float, high: float, first: float, last: float) -> Place:
    return lambda value: first + (np.asarray(value, dtype=np.float64) - low) * ((last - first) / (high - low))


def _fit(text: str, width: float, size: float) -> str:
    return shorten_text(text, max(3, int(width / size / LETTER)))


def _fit_legend(labels: Sequence[tuple[str, Mark]], width: float) -> list[list[tuple[str, Mark]]]:
    """Return the labels in rows of a width."""
    rows: list[list[tuple[str, Mark]]] = []
    used = width
    for label, mark in labels:
        label = _fit(label, width - 22, SMALL * _POINT)
        length = 22 + len(label) * SMALL * _POINT * LETTER
        if used + length > width:
            rows.append([])
            used = 0.0
        rows[-1].append((label, mark))
        used += length
    return rows


def _draw_ticks(
    chart: Chart, left: float, right: float, place: Place, floor: float, end: float, size: float
) -> list[str]:
    """Draw the ticks of the horizontal axis, as many as have room side by side."""
    width = abs(float(place(right)) - float(place(left)))
    for most in (7, 5, 4, 3, 2):
        ticks = chart.x.choose_ticks(left, right, most, int(width / max(most, 1) / size / LETTER))
        longest = max((len(label) for _, label in ticks), default=0)
        if (longest + 2) * size * LETTER * len(ticks) <= width:
            break
    parts = []
    for at, label in ticks:
        x, half = float(place(at)), len(label) * size * DIGIT / 2
        parts.append(_put_line(x, floor, x, floor + 3, "line"))
        parts.append(_put_text(min(max(x, half), end + 5 - half), floor + size + 2, label, "middle", size, "dim"))
    return parts


# -- marks ------------------------------------------------------------------------------------------------------------


def _draw_marks(chart: Chart, x: Place, y: Place, scale: float) -> list[str]:
    """Draw the marks; `scale` is the number of pixels of a point of text."""
    parts: list[str] = []
    for mark in chart.marks:
        if isinstance(mark, Rectangles):
            parts += _draw_rectangles(mark, x, y)
        elif isinstance(mark, Line):
            parts += _draw_line(mark, x, y)
        elif isinstance(mark, Area):
            upper = _list_points(x(mark.x), y(mark.high))
            lower = _list_points(x(mark.x), y(mark.low))[::-1]
            parts.append(f'<polygon points="{" ".join([*upper, *lower])}" {_paint(mark.color, mark.opacity)}/>')
        elif isinstance(mark, Points):
            parts += [_put_point(mark, a, b) for a, b in zip(_flat(x(mark.x)), _flat(y(mark.y)), strict=True)]
        elif isinstance(mark, Rule):
            left, right, low, high = chart.limits()
            ends = ((mark.x, low), (mark.x, high)) if mark.x is not None else ((left, mark.y), (right, mark.y))
            (a, b), (c, d) = ((float(x(one)), float(y(other))) for one, other in ends)
            parts.append(_put_line(a, b, c, d, mark.color, mark.dashed))
        elif isinstance(mark, Text):
            parts.append(_draw_text(mark, float(x(mark.x)), float(y(mark.y)), scale))
        elif isinstance(mark, Heat):
            parts += _draw_heat(mark, x, y)
        elif isinstance(mark, Frame):
            a, b = float(x(mark.left)), float(y(mark.top))
            width, height = float(x(mark.left + mark.width)) - a, float(y(mark.top + mark.height)) - b
            tip = f"<title>{escape(mark.tip)}</title>" if mark.tip else ""
            parts.append(
                f'<g>{tip}<rect x="{a:.1f}" y="{b:.1f}" width="{width:.1f}" height="{height:.1f}" rx="4" '
                f"{_paint(mark.color, hollow=True)}/></g>"
            )
        else:
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
        tip = f"<title>{escape(mark.tips[number])}</title></rect>" if mark.tips else ""
        parts.append(
            f'<rect x="{a:.2f}" y="{c:.2f}" width="{b - a:.2f}" height="{d - c:.2f}" '
            f"{_paint(mark.color, mark.opacity, hollow=mark.hollow)}{'>' + tip if tip else '/>'}"
        )
    return parts


def _draw_line(mark: Line, x: Place, y: Place) -> list[str]:
    across, up = _flat(x(mark.x)), _flat(y(mark.y))
    runs: list[list[str]] = [[]]
    for a, b in zip(across, up, strict=True):
        if np.isfinite(b):
            runs[-1].append(f"{a:.1f},{b:.1f}")
        elif runs[-1]:
            runs.append([])
    dashed = ' stroke-dasharray="5 3"' if _is_dashed(mark.color, mark.dashed) else ""
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


def _is_dashed(color: Color, dashed: bool) -> bool:
    """Tell whether a line is dashed: as it was asked for, or because all colors are used up."""
    return dashed or (isinstance(color, int) and color // len(SERIES) % 2 == 1)


def _draw_text(mark: Text, x: float, y: float, scale: float) -> str:
    size = mark.size * scale
    x, y = x + mark.shift[0] * scale, y - mark.shift[1] * scale
    drop = {"middle": 0.35, "top": 0.8, "bottom": -0.1}[mark.level] * size
    anchor = {"left": "start", "right": "end"}.get(mark.side, "middle")
    text = _put_text(x, y + drop, mark.text, anchor, size, mark.color, bold=mark.bold, tip=mark.tip)
    return f'<g transform="rotate({-mark.angle:g} {x:.1f} {y:.1f})">{text}</g>' if mark.angle else text


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
    for row, texts in enumerate(mark.texts):
        for column, text in enumerate(texts):
            middle = (across[column] + across[column + 1]) / 2, (up[row] + up[row + 1]) / 2
            parts.append(_put_text(middle[0], middle[1] + 4, text, "middle", SMALL * _POINT, "ink"))
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
        f"{escape(text)}</text>"
    )
    return f"<g><title>{escape(tip)}</title>{element}</g>" if tip and tip != text else element


def _put_line(a: float, b: float, c: float, d: float, color: Color, dashed: bool = False) -> str:
    dashes = ' stroke-dasharray="4 3"' if dashed else ""
    return f'<line x1="{a:.1f}" y1="{b:.1f}" x2="{c:.1f}" y2="{d:.1f}" {_paint(color, hollow=True)}{dashes}/>'


def _put_point(mark: Points, x: float, y: float) -> str:
    if mark.strokes:
        return _put_line(x, y - mark.size * 0.6, x, y + mark.size * 0.6, mark.color)
    return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{mark.size * 0.6:.2g}" {_paint(mark.color, hollow=mark.hollow)}/>'


def _swatch(mark: Mark, x: float, y: float) -> str:
    """Draw the sign of a mark in the legend."""
    if isinstance(mark, Rectangles):
        return (
            f'<rect x="{x:.1f}" y="{y:.1f}" width="9" height="8" {_paint(mark.color, mark.opacity, hollow=mark.hollow)}'
            "/>"
        )
    if isinstance(mark, Area):
        return f'<rect x="{x:.1f}" y="{y:.1f}" width="9" height="8" {_paint(mark.color, mark.opacity)}/>'
    if isinstance(mark, Points):
        return _put_point(mark, x + 4.5, y + 4)
    assert isinstance(mark, Line | Rule)
    return _put_line(x, y + 4, x + 10, y + 4, mark.color, _is_dashed(mark.color, mark.dashed))


def _flat(values: Any) -> list[float]:
    return list(np.asarray(values, dtype=np.float64).ravel().tolist())


def _list_points(x: Any, y: Any) -> list[str]:
    return [f"{a:.1f},{b:.1f}" for a, b in zip(*np.broadcast_arrays(x, y), strict=True)]
