"""Every kind of mark is where its numbers say and looks as it is told to, as SVG and with matplotlib."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from matplotlib.collections import QuadMesh
from matplotlib.colors import to_hex, to_rgb
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch, Rectangle
from narrowing import known

import hybridbn as hb
from hybridbn.pictures import html
from hybridbn.pictures.chart import (
    INK,
    SERIES,
    SMALL,
    Area,
    Arrow,
    Axis,
    Chart,
    Frame,
    Heat,
    Line,
    Mark,
    Points,
    Rectangles,
    Rule,
    Text,
)
from hybridbn.pictures.html import show_network
from hybridbn.pictures.networks import chart_network

WIDE, HIGH = 10.0, 5.0
CORNERS = Points([0.0, WIDE], [0.0, HIGH])
BARS = Rectangles([1.0, 3.0, 6.0], [2.0, 5.0, 6.0], 0.5, [1.0, 4.0, 2.0], color=1, opacity=0.5, tips=("<a>", "b", "c"))
GAP = Line([0.0, 1.0, 2.0, 3.0, 4.0], [1.0, 2.0, np.nan, 3.0, 2.5], color=2, width=2.5, marked=True)
BAND = Area([0.0, 1.0, 2.0], [0.0, 0.5, 0.25], [1.0, 3.0, 2.0], color=3, opacity=0.4)
DOTS = Points([1.0, 2.5], [2.0, 4.0], color=4, size=6.0)
CELLS = Heat([0.0, 1.0, 3.0], [1.0, 2.0, 4.0], [[0.5, 2.0], [0.001, np.nan]])
ROUTE = Arrow([(1.0, 4.0), (2.0, 3.0), (4.0, 1.0)], width=1.5, strength=0.5)
WORD = Text(4.0, 3.0, "$<w>", size=10.0, shift=(3.0, 2.0), bold=True, tip="whole")
REVERSED = [(False, False), (True, False), (False, True), (True, True)]


def make(*marks: Mark, x: bool = False, y: bool = False, **options: Any) -> Chart:
    """Return a chart without axes whose ends are known."""
    across, up = (Axis(low=0, high=end, shown=False, reverse=flip) for end, flip in ((WIDE, x), (HIGH, y)))
    return Chart(marks, x=across, y=up, **options)


# -- SVG ---------------------------------------------------------------------------------------------------------------


class Drawing:
    """What an SVG shows of marks, in the units of their axes."""

    def __init__(self, *marks: Mark, **options: bool) -> None:
        first, second, *self.elements = ElementTree.fromstring(make(CORNERS, *marks, **options).to_svg())
        ends = [[float(element.attrib[key]) for element in (first, second)] for key in ("cx", "cy")]
        self.scales = [(a, (b - a) / length) for (a, b), length in zip(ends, (WIDE, HIGH), strict=True)]

    def places(self, text: str) -> Any:
        """Return the points of a path or polygon."""
        pixels = np.array(re.findall(r"-?[\d.]+", text), dtype=float).reshape(-1, 2)
        return np.column_stack([(pixels[:, i] - a) / step for i, (a, step) in enumerate(self.scales)])

    def box(self, element: ElementTree.Element) -> list[float]:
        """Return left, right, low, high of a rectangle."""
        a, b, wide, high = (float(element.attrib[key]) for key in ("x", "y", "width", "height"))
        (x, y), (other_x, other_y) = self.places(f"{a} {b} {a + wide} {b + high}")
        return [*sorted((x, other_x)), *sorted((y, other_y))]


def near(found: Any, wanted: Any, within: float = 0.012) -> None:
    np.testing.assert_allclose(found, wanted, atol=within)


@pytest.mark.parametrize(("x", "y"), REVERSED)
def test_svg_has_marks_at_their_places(x: bool, y: bool) -> None:
    drawing = Drawing(BARS, GAP, BAND, DOTS, Rule(x=3.0), Rule(y=2.0), CELLS, x=x, y=y)
    bars, (run, other), dots, (area,), points, rules, cells = (
        [drawing.elements.pop(0) for _ in range(count)] for count in (2, 2, 4, 1, 2, 2, 2)
    )
    assert not drawing.elements
    near([drawing.box(bar) for bar in bars], [[1, 2, 0.5, 1], [3, 5, 0.5, 4]])
    near(drawing.places(run.attrib["points"]), [[0, 1], [1, 2]])
    near(drawing.places(other.attrib["points"]), [[3, 3], [4, 2.5]])
    near(drawing.places(" ".join(f"{dot.attrib['cx']} {dot.attrib['cy']}" for dot in dots)), np.array(
        [[0, 1], [1, 2], [3, 3], [4, 2.5]]))  # fmt: skip
    near(drawing.places(area.attrib["points"]), [[0, 1], [1, 3], [2, 2], [2, 0.25], [1, 0.5], [0, 0]])
    near(drawing.places(" ".join(f"{dot.attrib['cx']} {dot.attrib['cy']}" for dot in points)), [[1, 2], [2.5, 4]])
    ends = [drawing.places(" ".join(rule.attrib[key] for key in ("x1", "y1", "x2", "y2"))) for rule in rules]
    near(ends, [[[3, 0], [3, HIGH]], [[0, 2], [WIDE, 2]]])
    near([drawing.box(cell) for cell in cells], [[0, 1, 1, 2], [1, 3, 1, 2]], within=0.02)  # they overlap a little


def test_svg_has_frames_arrows_and_texts_at_their_places() -> None:
    frame = Frame(1.0, 2.0, 3.0, 1.5, color=1, tip="<f>")
    chart = replace(make(CORNERS, frame, ROUTE, replace(ROUTE, head=False), WORD), diagram=True)
    _, _, group, line, head, bare, word = ElementTree.fromstring(chart.to_svg())
    drawing = Drawing()
    drawing.scales = [(0.0, 72.0), (0.0, 72.0)]  # a diagram is in inches, and goes down
    title, box = group
    assert title.text == "<f>"
    near(drawing.box(box), [1, 4, 2, 3.5])
    assert box.attrib["stroke"] == SERIES[1]
    near(drawing.places(line.attrib["d"]), [[1, 4], [1, 3.5], [2, 3.5], [2, 3], [2, 2], [4, 2], [4, 1]])
    assert line.attrib["d"] == bare.attrib["d"]
    assert (line.attrib["stroke-width"], line.attrib["stroke-opacity"]) == ("1.5", "0.5")
    near(drawing.places(head.attrib["d"])[1], [4, 1])
    near(drawing.places(head.attrib["d"])[[0, 2]] - [4, 1], [[-3.5 / 72, -7 / 72], [3.5 / 72, -7 / 72]])
    title, text = word
    assert (title.text, text.text, text.attrib["font-weight"]) == ("whole", "$<w>", "bold")
    assert float(text.attrib["font-size"]) == 12.5
    near(drawing.places(f"{text.attrib['x']} {text.attrib['y']}"), [
        [4 + 3 * 1.25 / 72, 3 - 2 * 1.25 / 72 + 0.35 * 12.5 / 72]])  # fmt: skip


def test_svg_paints_marks_as_they_are_told() -> None:
    drawing = Drawing(
        *(BARS, replace(BARS, hollow=True, tips=()), replace(GAP, color=7, marked=False), replace(GAP, dashed=True)),
        *(replace(DOTS, hollow=True), replace(DOTS, strokes=True, color="dim"), Rule(x=1.0, dashed=True), CELLS),
    )
    bars, hollow, seventh, dashed, dots, rings, strokes, (rule,), (pale, dark) = (
        [drawing.elements.pop(0) for _ in range(count)] for count in (2, 2, 2, 2, 4, 2, 2, 1, 2)
    )
    assert [bar[0].text for bar in bars] == ["<a>", "b"]
    assert {(bar.attrib["fill"], bar.attrib["fill-opacity"]) for bar in bars} == {(SERIES[1], "0.5")}
    assert {(bar.attrib["stroke"], bar.attrib["fill"], len(bar)) for bar in hollow} == {(SERIES[1], "none", 0)}
    assert {line.attrib["stroke"] for line in seventh} == {SERIES[2]} == {line.attrib["stroke"] for line in dashed}
    assert all("stroke-dasharray" in line.attrib for line in [*seventh, *dashed, rule])
    assert all("stroke-dasharray" not in line.attrib for line in strokes)
    assert {line.attrib["stroke-width"] for line in dashed} == {"2.5"}
    assert {dot.attrib["fill"] for dot in dots} == {SERIES[2]}
    assert {(ring.attrib["fill"], ring.attrib["stroke"]) for ring in rings} == {("none", SERIES[4])}
    for stroke, (a, b) in zip(strokes, ((1.0, 2.0), (2.5, 4.0)), strict=True):
        low, high = (float(stroke.attrib[key]) for key in ("y1", "y2"))
        near(drawing.places(f"{stroke.attrib['x1']} {(low + high) / 2}"), [[a, b]])
        assert high - low == pytest.approx(1.2 * 6.0)
        assert stroke.attrib["stroke-opacity"] == str(INK["dim"])
    assert (pale.attrib["fill-opacity"], dark.attrib["fill"]) == ("0.25", SERIES[0])
    assert "fill-opacity" not in dark.attrib


@pytest.mark.parametrize(
    ("mark", "tag", "attributes"),
    [
        (replace(BARS, label="bars"), "rect", {"fill": SERIES[1]}),
        (replace(BAND, label="band"), "rect", {"fill": SERIES[3], "fill-opacity": "0.4"}),
        (replace(DOTS, label="dots"), "circle", {"fill": SERIES[4]}),
        (
            replace(GAP, label="line", dashed=True, marked=False),
            "line",
            {"stroke": SERIES[2], "stroke-dasharray": "4 3"},
        ),
        (Rule(x=1.0, label="rule"), "line", {"stroke": "currentColor"}),
    ],
)
def test_legends_show_marks_as_they_are(mark: Any, tag: str, attributes: dict[str, str]) -> None:
    sign, text, *_ = ElementTree.fromstring(make(mark).to_svg())
    assert (sign.tag, text.text) == (tag, mark.label)
    assert sign.attrib.items() >= attributes.items()
    assert not list(ElementTree.fromstring(make(mark, legend=False).to_svg()).iter("text"))


# -- matplotlib --------------------------------------------------------------------------------------------------------


def draw(*marks: Mark, **options: Any) -> Any:
    return make(*marks, **options).draw(Figure().add_subplot())


@pytest.mark.parametrize(("x", "y"), REVERSED)
def test_matplotlib_has_marks_at_their_places(x: bool, y: bool) -> None:
    ax = draw(BARS, GAP, BAND, DOTS, Rule(x=3.0), Rule(y=2.0, dashed=True), CELLS, x=x, y=y)
    assert ax.get_xlim() == ((WIDE, 0) if x else (0, WIDE))
    assert ax.get_ylim() == ((HIGH, 0) if y else (0, HIGH))
    found = [[b.get_x(), b.get_x() + b.get_width(), b.get_y(), b.get_y() + b.get_height()] for b in ax.patches]
    near(found, [[1, 2, 0.5, 1], [3, 5, 0.5, 4], [6, 6, 0.5, 2]], 1e-12)
    assert {(to_hex(bar.get_facecolor()), bar.get_alpha()) for bar in ax.patches} == {(SERIES[1], 0.5)}
    line, dots, upright, level = ax.lines
    np.testing.assert_array_equal(line.get_xydata(), np.column_stack((GAP.x, GAP.y)))
    assert (line.get_color(), line.get_linewidth(), line.get_marker()) == (SERIES[2], 2.5, "o")
    np.testing.assert_array_equal(dots.get_xydata(), [[1, 2], [2.5, 4]])
    assert (dots.get_color(), dots.get_linestyle(), dots.get_markersize()) == (SERIES[4], "None", 6.0)
    assert (upright.get_xdata(), upright.get_ydata(), upright.get_linestyle()) == ([3, 3], [0, 1], "-")
    assert (level.get_xdata(), level.get_ydata(), level.get_linestyle()) == ([0, 1], [2, 2], "--")
    band, cells = ax.collections
    assert {*map(tuple, band.get_paths()[0].vertices)} >= {(0, 0), (1, 0.5), (2, 0.25), (0, 1), (1, 3), (2, 2)}
    assert band.get_alpha() == 0.4
    assert isinstance(cells, QuadMesh)
    places, held = np.asarray(cells.get_coordinates()), known(cells.get_array())
    np.testing.assert_array_equal(places[0, :, 0], CELLS.x)
    np.testing.assert_array_equal(places[:, 0, 1], CELLS.y)
    np.testing.assert_array_equal(np.ma.filled(held, np.nan), CELLS.values)
    assert cells.get_clim() == (0, 2)


def test_matplotlib_paints_marks_as_they_are_told() -> None:
    frame = Frame(1.0, 2.0, 3.0, 1.5, color=1)
    marks: list[Mark] = [replace(BARS, hollow=True), frame, ROUTE, replace(ROUTE, head=False), WORD]
    ax = draw(*marks, replace(GAP, color=7, marked=False), replace(DOTS, hollow=True), replace(DOTS, strokes=True))
    patches: list[Any] = list(ax.patches)
    bars, (box, arrow, bare) = patches[:-3], patches[-3:]
    assert [type(patch) for patch in patches] == [Rectangle] * 3 + [FancyBboxPatch, FancyArrowPatch, FancyArrowPatch]
    assert all(bar.get_facecolor()[3] == 0 for bar in bars)
    assert {to_hex(bar.get_edgecolor()) for bar in bars} == {SERIES[1]} == {to_hex(box.get_edgecolor())}
    near([box.get_x(), box.get_y(), box.get_width(), box.get_height()], [1, 2, 3, 1.5])
    near(arrow._path_original.vertices, [[1, 4], [1, 3.5], [2, 3.5], [2, 3], [2, 2], [4, 2], [4, 1]])
    assert arrow.get_linewidth() == 1.5
    ink, back = np.array(to_rgb("black")), np.ones(3)
    near(arrow.get_edgecolor()[:3], 0.5 * ink + 0.5 * back, 0.01)
    assert type(arrow.get_arrowstyle()) is not type(bare.get_arrowstyle())
    (word,) = ax.texts
    assert (word.get_text(), word.xy, word.xyann) == (r"\$<w>", (4.0, 3.0), (3.0, 2.0))
    assert (word.get_fontsize(), word.get_weight(), word.get_rotation()) == (10.0, "bold", 0.0)
    assert (word.get_ha(), word.get_va()) == ("center", "center")
    line, rings, strokes = ax.lines
    assert (line.get_color(), line.get_linestyle(), line.get_marker()) == (SERIES[2], "--", "")
    assert (rings.get_markerfacecolor(), strokes.get_marker()) == ("none", "|")


@pytest.mark.parametrize("draw_words", [
    lambda chart: [text.text for text in ElementTree.fromstring(chart.to_svg()).iter("text")],
    lambda chart: _list_words(chart.draw(Figure().add_subplot())),
])  # fmt: skip
def test_axes_have_their_names_ticks_and_labels(draw_words: Callable[[Chart], list[str]]) -> None:
    named = Chart([CORNERS], x=Axis("across", names=["a", "b"]), y=Axis("up", ticks=[(1.0, "one"), (9.0, "nine")]))
    words = draw_words(named)
    assert {"across", "up", "a", "b", "one"} <= set(words)
    assert "nine" not in words  # lies outside
    hidden = draw_words(replace(named, x=replace(named.x, shown=False), y=replace(named.y, shown=False)))
    assert not {"across", "up", "a", "b", "one"} & set(hidden)


def _list_words(ax: Any) -> list[str]:
    ticks = [text.get_text() for axis in (ax.xaxis, ax.yaxis) for text in axis.get_ticklabels()]
    return [*ticks, ax.get_xlabel(), ax.get_ylabel()]


def test_limits_hold_all_marks() -> None:
    marks: list[Mark] = [BARS, GAP, BAND, DOTS, Rule(x=-1.0), Rule(y=7.0), CELLS, Frame(1, 2, 8, 0.5), ROUTE]
    ends = {
        **{"Rectangles": (1, 6, 0.5, 4), "Line": (0, 4, 1, 3), "Area": (0, 2, 0, 3), "Points": (1, 2.5, 2, 4)},
        **{"Heat": (0, 3, 1, 4), "Frame": (1, 9, 2, 2.5), "Arrow": (1, 4, 1, 4)},
    }
    for mark in marks:
        if isinstance(mark, Rule):
            continue
        found, wanted = Chart([mark]).limits(), ends[type(mark).__name__]
        for (low, high), (a, b) in zip(zip(found[::2], found[1::2], strict=True), pairwise_ends(wanted), strict=True):
            assert (low, high) == pytest.approx((a - 0.04 * (b - a), b + 0.04 * (b - a)))
    assert Chart(marks).limits() == pytest.approx((-1.4, 9.4, -0.28, 7.28))
    assert Chart([WORD]).limits() == pytest.approx((-0.04, 1.04, -0.04, 1.04))
    assert Chart([Rule(x=2.0), Rule(y=0.0)]).limits() == pytest.approx((1.999, 2.001, -0.5, 0.5))
    assert Chart([DOTS], x=Axis(names=["a", "b", "c"]), y=Axis(low=0.0)).limits() == pytest.approx((-0.5, 2.5, 0, 4.08))
    assert WORD.size > SMALL


def pairwise_ends(ends: tuple[float, ...]) -> list[tuple[float, float]]:
    return list(pairwise(ends))[::2]


def test_networks_whose_beliefs_can_not_be_had_are_shown_without(monkeypatch: pytest.MonkeyPatch) -> None:
    c = hb.Discrete("c", ("low", "high"))
    net = hb.Network([hb.Multinomial(c, table=[0.25, 0.75])])
    assert "0.250" in show_network(net)

    def refuse(network: Any, *arguments: Any, beliefs_shown: bool = True, **keywords: Any) -> Any:
        if beliefs_shown:
            raise hb.TooWide("too wide")
        return chart_network(network, *arguments, beliefs_shown=False, **keywords)

    monkeypatch.setattr(html, "chart_network", refuse)
    shown = show_network(net)
    assert "<svg" in shown
    assert "0.250" not in shown.split("<details>")[0]
