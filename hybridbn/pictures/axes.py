"""Charts on the axes of matplotlib (the extra ``plot``).

Text and lines have a color that can be read on the background of the axes, whatever the style. The description of the
picture, its alternative text, is the label of the axes: ``ax.get_label()``; its repr, as in that of the axes, shows the
two ends.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
from matplotlib import pyplot, rcParams
from matplotlib.colors import LinearSegmentedColormap, to_rgb, to_rgba
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch
from matplotlib.path import Path
from matplotlib.ticker import FixedFormatter, FuncFormatter, Locator, NullLocator

from hybridbn.formatting import shorten_text
from hybridbn.pictures.chart import (
    INK,
    LETTER,
    SERIES,
    SMALL,
    TITLE,
    Area,
    Arrow,
    Axis,
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
    fit_ticks,
    is_dashed,
)

_MARGINS = (1.1, 0.8)
"""What labels add to the size of a picture, in inches."""


def draw_chart(chart: Chart, ax: Any = None) -> Any:
    """Draw a chart; return the axes.

    Axes that have pictures already keep them, and their limits hold both.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> ax = draw_chart(Chart([Line([0, 1], [2, 3])], description="a line from 2 to 3"), Figure().add_subplot())
    >>> len(ax.lines), ax.get_label()
    (1, 'a line from 2 to 3')
    """
    left, right, low, high = chart.limits()
    if ax is None:
        ax = _open_axes(chart, (right - left, high - low))
    elif ax.figure.get_layout_engine() is None and len(ax.figure.axes) == 1 and not chart.diagram:
        # labels lie outside of the axes, and should not be cut off
        ax.figure.set_layout_engine("constrained")
    painter = _Painter(ax)
    if chart.diagram:
        ax.set_axis_off()
        ax.set(xlim=(left, right), ylim=(high, low))
        across, up = _measure(ax)
        # letters grow a little on larger axes, no more than boxes do
        painter.scale = min(across / (right - left) / 72, up / (high - low) / 72, 1.25)
    else:
        if ax.has_data() and chart.x.names is None and chart.y.names is None:
            (a, b), (c, d) = sorted(ax.get_xlim()), sorted(ax.get_ylim())
            left, right, low, high = min(left, a), max(right, b), min(low, c), max(high, d)
        ax.set_xlim((right, left) if chart.x.reverse else (left, right))
        ax.set_ylim((high, low) if chart.y.reverse else (low, high))
    drawn = [painter.draw(mark) for mark in chart.marks]
    if not chart.diagram:
        _dress(chart, ax, painter, {label: drawn[number] for label, number in chart.labels().items()})
    ax.set_label(_Description("; ".join(filter(None, (ax.get_label(), chart.description)))))
    return ax


class _Description(str):
    """The alternative text of a picture, of which the repr of its axes shows the ends only."""

    __slots__ = ()

    def __repr__(self) -> str:
        return repr(shorten_text(str.__str__(self), 60))

    def __str__(self) -> str:
        return self  # matplotlib keeps what this gives


def _open_axes(chart: Chart, size: tuple[float, float]) -> Any:
    if chart.diagram:
        scale = chart.size[0] / size[0]
        return pyplot.figure(figsize=(scale * size[0], scale * size[1])).add_axes((0, 0, 1, 1))
    size = chart.size[0] + _MARGINS[0], chart.size[1] + _MARGINS[1]
    return pyplot.figure(figsize=size, layout="constrained").add_subplot()


def _measure(ax: Any) -> tuple[float, float]:
    """Return the size of axes in points."""
    return 72 / ax.figure.dpi * ax.bbox.width, 72 / ax.figure.dpi * ax.bbox.height


def _write(text: str) -> str:
    """Return a name so that matplotlib shows it as it is: without formulas, line ends and hidden labels."""
    text = "".join(letter if letter.isprintable() else " " for letter in text).replace("$", r"\$")
    return f" {text}" if text.startswith("_") else text


def _luminance(color: Any) -> float:
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in to_rgb(color)]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


class _Painter:
    """Draws marks on axes."""

    def __init__(self, ax: Any) -> None:
        self.ax, self.scale = ax, 1.0
        faces = [to_rgba(face) for face in (ax.get_facecolor(), ax.figure.get_facecolor())]
        text = rcParams["text.color"]
        # without any background, the one that the style's text is made for
        opaque = [face[:3] for face in faces if face[3] > 0.5]
        self.back: Any = opaque[0] if opaque else (1.0,) * 3 if _luminance(text) < 0.5 else (0.0,) * 3
        dark = _luminance(self.back) < 0.18
        self.ink = to_rgb(text) if (_luminance(text) < 0.18) != dark else to_rgb("white" if dark else "#222222")

    def color(self, color: Color) -> Any:
        """Return the color of a role on this background."""
        if isinstance(color, int):
            return SERIES[color % len(SERIES)]
        share = INK[color]
        return tuple(share * a + (1 - share) * b for a, b in zip(self.ink, self.back, strict=True))

    def draw(self, mark: Mark) -> Any:
        """Draw a mark; return what stands for it in a legend."""
        method: Any = getattr(self, f"draw_{type(mark).__name__.lower()}")
        return method(mark)

    def draw_rectangles(self, mark: Rectangles) -> Any:
        left, right, low, high = np.broadcast_arrays(
            *(np.asarray(side, dtype=np.float64) for side in (mark.left, mark.right, mark.low, mark.high))
        )
        paint = (
            {"facecolor": "none", "edgecolor": self.color(mark.color), "linewidth": 1.0}
            if mark.hollow
            else {"color": self.color(mark.color), "alpha": None if mark.opacity == 1 else mark.opacity, "linewidth": 0}
        )
        left, low = np.atleast_1d(left), np.atleast_1d(low)
        return self.ax.bar(left, high - low, right - left, low, align="edge", zorder=2, **paint)

    def draw_line(self, mark: Line) -> Any:
        (line,) = self.ax.plot(
            mark.x,
            mark.y,
            color=self.color(mark.color),
            lw=mark.width,
            ls="--" if is_dashed(mark.color, mark.dashed) else "-",
            marker="o" if mark.marked else "",
            ms=4,
            zorder=3,
        )
        return line

    def draw_area(self, mark: Area) -> Any:
        return self.ax.fill_between(
            mark.x, mark.low, mark.high, color=self.color(mark.color), alpha=mark.opacity, lw=0, zorder=2
        )

    def draw_points(self, mark: Points) -> Any:
        color = self.color(mark.color)
        size = mark.size * self.scale if self.scale < 1 else mark.size
        (line,) = self.ax.plot(
            mark.x,
            mark.y,
            "|" if mark.strokes else "o",
            color=color,
            ms=size,
            mfc="none" if mark.hollow else color,
            zorder=4,
        )
        return line

    def draw_rule(self, mark: Rule) -> Any:
        draw, at = (self.ax.axvline, mark.x) if mark.x is not None else (self.ax.axhline, mark.y)
        return draw(at, color=self.color(mark.color), lw=1, ls="--" if mark.dashed else "-", zorder=1.5)

    def draw_text(self, mark: Text) -> Any:
        return self.ax.annotate(
            _write(mark.text),
            (mark.x, mark.y),
            (mark.shift[0] * self.scale, mark.shift[1] * self.scale),
            textcoords="offset points",
            ha={"middle": "center"}.get(mark.side, mark.side),
            va={"middle": "center"}.get(mark.level, mark.level),
            fontsize=mark.size * self.scale,
            color=self.color(mark.color),
            fontweight="bold" if mark.bold else "normal",
            rotation=mark.angle,
            rotation_mode="anchor",
            annotation_clip=False,
            zorder=5,
        )

    def draw_heat(self, mark: Heat) -> Any:
        shades = LinearSegmentedColormap.from_list("shades", [self.back, SERIES[0]])
        highest = float(np.nanmax(mark.values)) or 1.0
        return self.ax.pcolormesh(mark.x, mark.y, mark.values, cmap=shades, vmin=0, vmax=highest, rasterized=True)

    def draw_frame(self, mark: Frame) -> Any:
        box = FancyBboxPatch(
            (mark.left, mark.top),
            mark.width,
            mark.height,
            boxstyle="round,pad=0,rounding_size=0.05",
            fc=self.back,
            ec=self.color(mark.color),
            lw=max(0.4, min(1.0, self.scale)) * (2 if isinstance(mark.color, int) else 1),
        )
        return self.ax.add_patch(box)

    def draw_arrow(self, mark: Arrow) -> Any:
        """Draw a smooth line downwards, with a head at its end or without."""
        points, codes = [mark.route[0]], [Path.MOVETO]
        for (x0, y0), (x1, y1) in pairwise(mark.route):
            middle = (y0 + y1) / 2
            points += [(x0, middle), (x1, middle), (x1, y1)]
            codes += [Path.CURVE4] * 3
        scale = min(self.scale, 1.5)
        share = mark.strength
        arrow = FancyArrowPatch(
            path=Path(points, codes),
            arrowstyle="-|>" if mark.head else "-",
            mutation_scale=10 * scale,
            color=tuple(share * a + (1 - share) * b for a, b in zip(self.ink, self.back, strict=True)),
            lw=mark.width * max(scale, 0.4),
            shrinkA=0,
            shrinkB=0,
        )
        arrow.set_in_layout(False)
        return self.ax.add_patch(arrow)


# -- axes -------------------------------------------------------------------------------------------------------------


def _dress(chart: Chart, ax: Any, painter: _Painter, handles: dict[str, Any]) -> None:
    """Add title, labels, ticks and legend."""
    width, height = _measure(ax)
    # long names of ticks take from the width
    inner = width * (0.78 if chart.y.named is not None else 1.0)
    dim, line = painter.color("dim"), painter.color("line")
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)
    for side, shown in (("bottom", chart.x.shown), ("left", chart.y.shown and chart.y.named is None)):
        ax.spines[side].set_visible(shown)
        ax.spines[side].set_color(line)
    ax.tick_params(labelsize=SMALL, colors=dim, length=3, labelcolor=dim)
    _set_ticks(ax.xaxis, chart.x, width)
    _set_ticks(ax.yaxis, chart.y, height, int(0.38 * width / SMALL / LETTER))
    if chart.y.named is not None:
        ax.tick_params(axis="y", length=0)
    for axis, spec, room in ((ax.xaxis, chart.x, inner), (ax.yaxis, chart.y, height)):
        text = shorten_text(spec.label, max(12, int(room / SMALL / LETTER))) if spec.shown else ""
        axis.set_label_text(_write(text), fontsize=SMALL, color=dim)
    above = 0.0
    if handles:
        letters = max(14, int(inner / SMALL / LETTER) - 5)
        labels = [_write(shorten_text(label, letters)) for label in handles]
        columns = max(1, min(len(labels), int(inner / ((max(map(len, labels)) + 6) * SMALL * LETTER))))
        above = 3 + 1.35 * SMALL * -(-len(labels) // columns)
        ax.legend(
            list(handles.values()),
            labels,
            loc="lower left",
            bbox_to_anchor=(0, 1.0),
            borderaxespad=0.1,
            borderpad=0.1,
            ncols=columns,
            frameon=False,
            fontsize=SMALL,
            labelcolor=painter.color("dim"),
            handlelength=1.4,
            columnspacing=1.2,
            labelspacing=0.2,
        )
    if chart.title:
        title = _write(shorten_text(chart.title, max(14, int(1.1 * inner / TITLE / LETTER))))
        ax.set_title(title, fontsize=TITLE, color=painter.color("ink"), loc="left", pad=5 + above)


def _set_ticks(axis: Any, spec: Axis, room: float, letters: int = 0) -> None:
    """Set ticks where the chart has them; others are chosen for what is seen at any time."""
    if not spec.shown:
        axis.set_major_locator(NullLocator())
    elif spec.named is None:
        ticks = _Ticks(spec, vertical=bool(letters))
        axis.set_major_locator(ticks)
        axis.set_major_formatter(FuncFormatter(ticks.write))
    else:
        low, high = sorted(axis.get_view_interval())
        most = 1000 if spec.ticks is not None else int(room / SMALL / 1.15)
        ticks_here = spec.choose_ticks(low, high, most, letters or 16)
        texts = [_write(text) for _, text in ticks_here]
        axis.set_ticks([at for at, _ in ticks_here])
        axis.set_major_formatter(FixedFormatter(texts))
        if not letters and sum(map(len, texts)) + 2 * len(texts) > room / SMALL / LETTER:
            axis.set_tick_params(rotation=90)


class _Ticks(Locator):
    """Round numbers, dates and times within what is seen, as many as have room."""

    def __init__(self, spec: Axis, *, vertical: bool) -> None:
        self.spec, self.vertical = spec, vertical

    def choose(self) -> list[tuple[float, str]]:
        """Return the ticks with their texts."""
        axis: Any = self.axis
        low, high = sorted(axis.get_view_interval())
        room = 72 / axis.figure.dpi * (axis.axes.bbox.height if self.vertical else axis.axes.bbox.width) / SMALL
        if self.vertical:
            return self.spec.choose_ticks(low, high, max(2, min(6, int(room / 2))))
        return fit_ticks(
            lambda most: self.spec.choose_ticks(low, high, most),
            lambda ticks: sum(len(text) + 2 for _, text in ticks) * LETTER <= room,
        )

    def __call__(self) -> Any:
        """Return where the ticks are."""
        return [at for at, _ in self.choose()]

    def tick_values(self, vmin: float, vmax: float) -> Any:
        """Return where ticks between two ends would be."""
        return [at for at, _ in self.spec.choose_ticks(vmin, vmax, 6)]

    def write(self, x: float, _: int | None = None) -> str:
        """Return the text of one tick."""
        texts = dict(self.choose())
        return _write(texts[x]) if x in texts else f"{x:.6g}"
