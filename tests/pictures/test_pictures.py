"""Pictures: layouts, arrows of plots, and what notebooks show."""

from __future__ import annotations

import sys
import xml.etree.ElementTree as ElementTree
from functools import partial
from itertools import combinations, pairwise
from typing import Any

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hybridbn as hb
from hybridbn.pictures.chart import Area, Chart
from hybridbn.pictures.layout import lay_out
from hybridbn.pictures.tables import chart_histogram, chart_patterns, chart_rounds, chart_shares
from hybridbn.structures import naive_bayes
from hybridbn.units import Unit

HOSTILE = '<script>alert("x")</script>&'


@st.composite
def graphs(draw: st.DrawFn) -> nx.DiGraph:
    count = draw(st.integers(1, 14))
    arcs = draw(st.sets(st.sampled_from(list(combinations(range(count), 2)) or [(0, 0)]), max_size=30))
    graph = nx.DiGraph()
    graph.add_nodes_from(range(count))
    graph.add_edges_from((start, end) for start, end in arcs if start != end)
    return graph


@given(graphs())
def test_layouts_have_parents_above_children_and_boxes_apart(graph: nx.DiGraph) -> None:
    layout = lay_out(graph)
    width, height = layout.box
    for (a, b), route in layout.routes.items():
        (xa, ya), (xb, yb) = layout.centers[a], layout.centers[b]
        assert all(upper[1] < lower[1] for upper, lower in pairwise(route))
        assert route[0][1] == pytest.approx(ya + height / 2)
        assert route[-1][1] == pytest.approx(yb - height / 2)
        assert abs(route[0][0] - xa) <= width / 2 + 1e-9
        assert abs(route[-1][0] - xb) <= width / 2 + 1e-9
    for (x0, y0), (x1, y1) in combinations(layout.centers.values(), 2):
        assert abs(x0 - x1) >= width - 1e-9 or abs(y0 - y1) >= height - 1e-9
    for x, y in layout.centers.values():
        assert width / 2 <= x <= layout.width - width / 2
        assert height / 2 <= y <= layout.height - height / 2
    assert lay_out(graph) == layout


@given(graphs())
def test_arcs_pass_no_box(graph: nx.DiGraph) -> None:
    layout = lay_out(graph)
    width, height = layout.box
    for arc, route in layout.routes.items():
        for node, (x, y) in layout.centers.items():
            if node in arc:
                continue
            beside = [point for point in route if abs(point[1] - y) < height / 2 + 1e-9]
            assert all(abs(point[0] - x) > width / 2 for point in beside)


def test_a_tree_has_no_crossings_and_a_wide_layer_fills_rows() -> None:
    tree = nx.DiGraph([(i, 2 * i + k) for i in range(1, 16) for k in (0, 1)])
    layout = lay_out(tree, aspect=10.0)
    for (a, b), (c, d) in combinations(layout.routes, 2):
        if layout.centers[a][1] == layout.centers[c][1] and len({a, b, c, d}) == 4:
            upper, lower = layout.centers[a][0] - layout.centers[c][0], layout.centers[b][0] - layout.centers[d][0]
            assert upper * lower > 0
    star = lay_out(nx.DiGraph([(0, i) for i in range(1, 41)]))
    assert 0.5 < star.width / star.height < 4


def test_parts_without_arcs_between_them_lie_side_by_side() -> None:
    diamond = nx.DiGraph([("a", "b"), ("a", "c"), ("b", "d"), ("c", "d")])
    pairs = nx.DiGraph([((name, i), (name, i + 1)) for name in range(30) for i in (0, 2)])
    layout, alone = lay_out(nx.union(pairs, diamond)), lay_out(diamond)
    assert 0.5 < layout.width / layout.height < 4
    (x0, y0), (x, y) = layout.centers["a"], alone.centers["a"]
    for node, (a, b) in alone.centers.items():
        assert layout.centers[node] == pytest.approx((a + x0 - x, b + y0 - y))


def chain(length: int) -> hb.Network:
    nodes = [hb.Discrete(f"c{i}", ("a", "b")) for i in range(length)]
    potentials = [hb.Multinomial(nodes[0], table=[0.25, 0.75])]
    table = [[0.5, 0.5], [0.25, 0.75]]
    return hb.Network(potentials + [hb.Multinomial(b, parents=(a,), table=table) for a, b in pairwise(nodes)])


@pytest.mark.parametrize("length", [2, 12])
def test_arrows_point_from_parents_down_to_children(length: int) -> None:
    pyplot = pytest.importorskip("matplotlib.pyplot")
    from matplotlib.patches import FancyArrowPatch

    axes = chain(length).plot({"c1": "a"})
    arrows = [patch for patch in axes.patches if isinstance(patch, FancyArrowPatch)]
    assert len(arrows) == length - 1
    for arrow in arrows:
        # in pixels, where y grows upwards
        vertices = axes.transData.transform(arrow._path_original.vertices)  # type: ignore[attr-defined]
        assert vertices[0][1] > vertices[-1][1]
    pyplot.close("all")


def parse(html: str) -> ElementTree.Element:
    assert "<script" not in html
    return ElementTree.fromstring(html)


def test_notebooks_show_networks_with_beliefs() -> None:
    shown = parse(chain(3)._repr_html_())
    text = "".join(shown.itertext())
    assert "0.250" in text
    assert "c2" in text
    assert len(list(shown.iter("svg"))) == 1


def mixed() -> tuple[hb.Network, dict[str, Any]]:
    rng = np.random.default_rng(0)
    x = rng.normal(size=60)
    data = {HOSTILE: np.where(x + rng.normal(size=60) > 0, HOSTILE, "no"), "x": x, "<b>": 2 * x + 1}
    return naive_bayes(data, HOSTILE), data


def test_everything_that_notebooks_show_is_escaped_and_well_formed() -> None:
    net, data = mixed()
    table = hb.Table(data)
    shown = [
        net,
        net.posterior("x", {HOSTILE: HOSTILE}),
        net.posterior(HOSTILE, {"x": 0.5}),
        net.posterior("x", table.select([HOSTILE])),
        net.posterior(HOSTILE, table.select(["x"])),
        net.posterior(HOSTILE, table.select(["x"]))[:0],
        net.explain(HOSTILE, {"x": 0.5, "<b>": 1.0}),
        table,
        hb.boost(table, HOSTILE, build=partial(naive_bayes, potentials="gaussian"), rounds=3),
    ]
    for each in shown:
        parse(each._repr_html_())


def test_an_area_goes_along_its_upper_line_and_back_along_the_lower_one() -> None:
    svg = parse(Chart([Area([0.0, 1.0, 2.0], [0.0, 0.0, 0.5], [1.0, 3.0, 2.0])]).to_svg())
    (points,) = (polygon.attrib["points"] for polygon in svg.iter("polygon"))
    across, up = np.array([point.split(",") for point in points.split()], dtype=float).T
    np.testing.assert_array_equal(across[:3], across[:2:-1])
    assert across[0] < across[1] < across[2]
    # the axis points down
    np.testing.assert_allclose((up - up[5]) / (up[1] - up[5]), np.array([1, 3, 2, 0.5, 0, 0]) / 3, atol=0.01)


def test_charts_are_svg_with_words_for_those_who_do_not_see_them() -> None:
    charts = [
        chart_histogram(HOSTILE, [0.5, 1.5, 2.5, 3.5], [0, 5, 0, 3, 2], [1, 30, 1, 2, 0]),
        chart_histogram("few", [0.0, 0.5, 1.0], [0, 5, 3, 0], [0, 2, 1, 0]),
        chart_histogram("day", [19000.0, 19100.0, 19200.0], [0, 5, 3, 0], [0, 20, 10, 0], Unit("date")),
        chart_shares(HOSTILE, [HOSTILE, "b"], [3, 1], [1, 0]),
        chart_rounds(HOSTILE, [0.5, 0.25], None),
        chart_rounds("x", [1e12, 2e12], [1e10, 2e10], 1.5e12),
        chart_patterns([HOSTILE, "b"], {(True, False): 3, (False, False): 2}, 5, 4),
        chart_patterns([], {}, 5, 4),
    ]
    for chart in charts:
        svg = parse(chart.to_svg())
        assert svg.attrib["role"] == "img"
        assert svg.attrib["aria-label"] == chart.description != ""
        width, height = float(svg.attrib["width"]), float(svg.attrib["height"])
        for text in svg.iter("text"):
            assert 0 <= float(text.attrib["x"]) <= width
            assert -5 <= float(text.attrib["y"]) <= height
    shares = parse(charts[3].to_svg())
    bars = [float(rect.attrib["width"]) for rect in shares.iter("rect") if len(rect)]
    assert bars == pytest.approx([bars[0], bars[0] / 3, bars[0] / 0.75], rel=1e-3)
    assert "75.0%" in "".join(shares.itertext())
    ticks = "".join(parse(charts[2].to_svg()).itertext())
    assert "2022-03" in ticks


def test_notebooks_and_reports_need_no_matplotlib(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.delitem(sys.modules, "hybridbn.pictures.axes", raising=False)
    assert "<svg" in chain(3)._repr_html_()
    assert "<svg" in chart_shares("c", ["a", "b"], [3, 1], [1, 0]).to_svg()
    with pytest.raises(hb.HybridBNError, match=r"pip install 'hybridbn\[plot\]'"):
        chain(3).plot()


def test_networks_without_potentials_or_with_cycles_are_shown_without_beliefs() -> None:
    assert "no potential" in hb.Network([("season", "rain")])._repr_html_()
    assert "2 arcs" in hb.Network([("a", "b"), ("b", "a")])._repr_html_()
