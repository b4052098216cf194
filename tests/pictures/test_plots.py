"""What the plots show: texts, bars and curves against the numbers that they stand for."""

from __future__ import annotations

import datetime
from functools import cache
from itertools import combinations, pairwise
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from narrowing import as_continuous, as_discrete

import hybridbn as hb
from hybridbn.formatting import choose_ticks, format_numbers, format_probability, format_value, shorten_text
from hybridbn.learning.augmentation import History, Step
from hybridbn.pictures.chart import SERIES
from hybridbn.units import Unit

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("Agg")

from matplotlib import pyplot  # noqa: E402
from matplotlib.colors import to_rgb  # noqa: E402
from matplotlib.figure import Figure  # noqa: E402
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch, Rectangle  # noqa: E402

C, D, X, Y = hb.Discrete("c", ("a", "b")), hb.Discrete("d", ("p", "q", "r")), hb.Continuous("x"), hb.Continuous("y")
TABLE = [[0.5, 0.25, 0.25], [0.125, 0.125, 0.75]]
MANY = hb.Discrete("a variable with a rather long name", tuple(f"one of the states, {i}" for i in range(30)))
DAY = hb.Continuous("day", unit=Unit("date"))


@cache
def mixed() -> hb.Network:
    return hb.Network(
        [
            hb.Multinomial(C, table=[0.25, 0.75]),
            hb.Multinomial(D, (C,), table=TABLE),
            hb.LinearGaussian(X, (C,), intercept=[0.0, 3.0], coefficients=[[], []], variance=[1.0, 4.0]),
            hb.LinearGaussian(Y, (X,), intercept=-5e11, coefficients=[1e9], variance=1e18),
            hb.LinearGaussian(DAY, (C,), intercept=[19000.0, 19200.0], coefficients=[[], []], variance=[900.0, 900.0]),
            hb.Multinomial(MANY, (C,), table=[np.arange(1, 31), np.ones(30)], normalize=True),
        ]
    )


@cache
def cases() -> pd.DataFrame:
    return mixed().sample(300, random_state=0)


@cache
def ensemble() -> hb.Ensemble:
    return hb.boost(cases()[["c", "d"]].assign(k=cases()["x"] > 2), "c", rounds=4, random_state=0)


def open_axes(width: float = 4.0, height: float = 3.0) -> Any:
    return Figure(figsize=(width, height)).add_subplot()


def texts_of(ax: Any) -> list[str]:
    return [text.get_text() for text in ax.texts]


def bars_of(ax: Any) -> list[list[tuple[float, float, float, float]]]:
    """Return (x, y, width, height) of the bars of each container."""
    return [[(*bar.get_xy(), bar.get_width(), bar.get_height()) for bar in container] for container in ax.containers]


def history() -> History:
    return History((Step(0, 2.5, -40.0), Step(1, 2.0, -38.0), Step(2, 2.25, -37.0)))


def with_holes() -> pd.DataFrame:
    data = cases()[["c", "x", "y", MANY.name, "day"]]
    return data.mask(np.random.default_rng(0).random(data.shape) < 0.2)


def filled() -> pd.DataFrame:
    return cases()[["c", "x", "y", MANY.name, "day"]]


def logistic() -> hb.Network:
    out = hb.Softmax(hb.Discrete("out", ("no", "yes")), (X,), intercept=[0, -1], coefficients=[[0.0], [1.5]])
    return hb.Network([hb.LinearGaussian(X, intercept=0.5, coefficients=[], variance=1.0), out])


PLOTS = {
    "posterior": lambda ax: mixed().posterior("d", {"c": "b"}).plot(ax, prior=mixed().posterior("d")),
    "many states": lambda ax: mixed().posterior(MANY.name).plot(ax),
    "density": lambda ax: mixed().posterior("x", {"c": "b"}).plot(ax, prior=mixed().posterior("x")),
    "huge numbers": lambda ax: mixed().posterior("y").plot(ax),
    "dates": lambda ax: mixed().posterior("day").plot(ax),
    "batch": lambda ax: mixed().posterior(MANY.name, cases()[["c"]][:20]).plot(ax),
    "batch of densities": lambda ax: mixed().posterior("day", cases()[["c"]][:20]).plot(ax),
    "joint table": lambda ax: mixed().posterior(["c", "d"]).plot(ax),
    "joint curves": lambda ax: mixed().posterior(["x", "c"]).plot(ax),
    "joint density": lambda ax: mixed().posterior(["x", "day"]).plot(ax),
    "ridges": lambda ax: hb.pictures.plot_conditional(mixed(), "day", "c", ax=ax),
    "heat map": lambda ax: hb.pictures.plot_conditional(mixed(), "y", "x", ax=ax),
    "curves": lambda ax: hb.pictures.plot_conditional(mixed(), "c", "day", ax=ax),
    "table": lambda ax: hb.pictures.plot_conditional(mixed(), "d", "c", ax=ax),
    "network": lambda ax: mixed().plot({"c": "a"}, ax),
    "neighborhood": lambda ax: mixed().plot(None, ax, around="x"),
    "nomogram": lambda ax: ensemble().plot({"d": "p"}, ax=ax),
    "nomogram of numbers": lambda ax: hb.pictures.plot_nomogram(mixed().subgraph("cdx"), {"x": 1.0}, ax=ax),
    "nomogram of a logistic regression": lambda ax: hb.pictures.plot_nomogram(logistic(), ax=ax),
    "weights of evidence": lambda ax: mixed().explain("c", {"d": "p", "x": 1.0}).plot(ax),
    "missing": lambda ax: hb.pictures.plot_missing(with_holes(), ax),
    "imputed": lambda ax: hb.pictures.plot_imputed(with_holes(), filled(), "x", ax),
    "imputed dates": lambda ax: hb.pictures.plot_imputed(with_holes(), [filled()] * 2, "day", ax),
    "imputed states": lambda ax: hb.pictures.plot_imputed(with_holes(), filled(), MANY.name, ax),
    "augmentation": lambda ax: hb.pictures.plot_augmentation(history(), ax),
    "boosting": lambda ax: hb.pictures.plot_boosting(ensemble(), ax=ax),
    "calibration": lambda ax: hb.pictures.plot_calibration(
        as_discrete(mixed().posterior("c", cases()[["x", "d"]])), cases()["c"], ax=ax
    ),
    "transform": lambda ax: hb.pictures.plot_probability_integral_transform(
        as_continuous(mixed().posterior("x", cases()[["c"]])), cases()["x"], ax=ax
    ),
    "tornado": lambda ax: mixed().subgraph("cd").sensitivity("c", {"d": "p"}).plot(ax=ax),
    "effect": lambda ax: hb.effect([mixed()], of="x", on="y", values=[0.0, 1.0]).plot(ax),
}


@pytest.mark.parametrize("name", PLOTS)
def test_every_plot_is_described_and_readable_in_a_column_of_80_mm(name: str) -> None:
    with pyplot.style.context("dark_background"):
        figure = Figure(figsize=(3.15, 2.4))
        ax = figure.add_subplot()
        assert PLOTS[name](ax) is ax
        figure.canvas.draw()
    words = ax.get_label()
    assert len(words) > 20
    assert words.endswith(".")
    labels = [*ax.texts, *ax.get_xticklabels(), *ax.get_yticklabels(), ax.title, ax.xaxis.label, ax.yaxis.label]
    shown = [label for label in labels if label.get_text() and label.get_visible()]
    assert shown
    assert min(label.get_fontsize() for label in shown) >= 5.5
    assert min(find_contrast(label.get_color(), "black") for label in shown) >= 3


def linear(color: Any) -> np.ndarray:
    values = np.array(to_rgb(color))
    return np.where(values <= 0.04045, values / 12.92, ((values + 0.055) / 1.055) ** 2.4)


def find_contrast(color: Any, other: Any) -> float:
    """Return the ratio of contrast as the Web Content Accessibility Guidelines define it."""
    first, second = (float(linear(each) @ [0.2126, 0.7152, 0.0722]) + 0.05 for each in (color, other))
    return max(first, second) / min(first, second)


# how colors look to people without one kind of cones (Machado, Oliveira & Fernandes, 2009)
VISION = {
    "normal": np.eye(3),
    "protanopia": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "deuteranopia": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.01182, 0.04294, 0.968881]],
    "tritanopia": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.3039]],
}
TO_XYZ = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])


@pytest.mark.parametrize("vision", VISION)
def test_colors_differ_for_everybody_and_from_white_and_black(vision: str) -> None:
    def look(color: str) -> np.ndarray:
        x, y, z = np.cbrt(TO_XYZ @ np.clip(VISION[vision] @ linear(color), 0, 1) / [0.9505, 1.0, 1.089])
        return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])

    for color in SERIES:
        assert min(find_contrast(color, "white"), find_contrast(color, "black")) >= 2.8
    for first, second in combinations(SERIES, 2):
        assert np.linalg.norm(look(first) - look(second)) > 25


def test_bars_are_the_probabilities_and_outlines_those_without_evidence() -> None:
    posterior, prior = mixed().posterior("d", {"c": "b"}), mixed().posterior("d")
    ax = posterior.plot(open_axes(), prior=prior)
    _, bars, ghosts = bars_of(ax)
    np.testing.assert_allclose([bar[2] for bar in bars], as_discrete(posterior).probabilities)
    np.testing.assert_allclose([bar[2] for bar in ghosts], as_discrete(prior).probabilities)
    assert texts_of(ax) == ["0.125", "0.125", "0.750"]
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["posterior", "prior"]
    assert [label.get_text() for label in ax.get_yticklabels()] == ["p", "q", "r"]


def test_of_many_states_the_most_probable_ones_are_shown() -> None:
    posterior = mixed().posterior(MANY.name, {"c": "a"})
    ax = posterior.plot(open_axes())
    bars = bars_of(ax)[1]
    np.testing.assert_allclose([bar[2] for bar in bars[:-1]], as_discrete(posterior).probabilities[-11:])
    assert sum(bar[2] for bar in bars) == pytest.approx(1)
    assert ax.get_yticklabels()[-1].get_text() == "19 others"


def test_a_state_alone_and_certainty_are_drawn() -> None:
    one = hb.Network([hb.Multinomial(hb.Discrete("one", ("only",)), table=[1.0])])
    assert texts_of(one.posterior("one").plot(open_axes())) == ["1"]
    sure = mixed().posterior("c", {"x": -60.0, "day": 18000.0})
    ax = sure.plot(open_axes())
    assert bars_of(ax)[1][0][2] == pytest.approx(sure["a"])
    fixed = mixed().do(x=2.0).posterior("x").plot(open_axes())
    assert "certainly 2" in fixed.get_label()


def test_curves_are_the_densities() -> None:
    posterior, prior = mixed().posterior("x", {"c": "b"}), mixed().posterior("x")
    ax = posterior.plot(open_axes(), prior=prior)
    for line, density in zip(ax.lines[:2], (posterior, prior), strict=True):
        x, y = line.get_data()
        np.testing.assert_allclose(y, as_continuous(density).pdf(x))
        assert density.cdf(x.max()) - density.cdf(x.min()) > 0.998
    assert ax.lines[2].get_xdata()[0] == pytest.approx(3.0)
    assert ax.get_ylim()[0] == 0


def test_axes_of_dates_have_dates() -> None:
    ax = mixed().posterior("day").plot(open_axes())
    ax.figure.canvas.draw()
    labels = [label.get_text() for label in ax.get_xticklabels()]
    assert len(labels) >= 2
    assert all(datetime.date.fromisoformat(f"{label}-01") for label in labels)
    assert "2022-06" in ax.get_label()
    assert ax.get_ylabel() == "density per day"


def test_two_posteriors_share_axes() -> None:
    ax = open_axes()
    for state in ("a", "b"):
        mixed().posterior("day", {"c": state}).plot(ax)
    low, high = ax.get_xlim()
    assert low < 18900
    assert high > 19290
    assert ax.get_label().count("Density of day") == 2


def test_conditional_pictures_show_the_conditional_distributions() -> None:
    ax = hb.pictures.plot_conditional(mixed(), "x", "c", ax=open_axes())
    assert len(ax.collections) == 2
    assert [point.get_xdata()[0] for point in ax.lines if point.get_marker() == "o"] == pytest.approx([0.0, 3.0])
    ax = hb.pictures.plot_conditional(mixed(), "y", "x", values=[-1, 0, 2.5], ax=open_axes())
    assert [label.get_text() for label in ax.get_yticklabels()] == ["-1", "0", "2.5"]
    ax = hb.pictures.plot_conditional(mixed(), "c", "x", ax=open_axes())
    x, y = ax.lines[0].get_data()
    np.testing.assert_allclose(y, as_discrete(mixed().posterior("c", pd.DataFrame({"x": x}))).probabilities[:, 0])
    ax = hb.pictures.plot_conditional(mixed(), "d", "c", ax=open_axes())
    assert sorted(texts_of(ax)) == sorted(format_probability(p) for row in TABLE for p in row)
    ax = hb.pictures.plot_conditional(mixed(), "y", "x", {"c": "a"}, ax=open_axes())
    (mesh,) = ax.collections
    densities = mesh.get_array()
    assert densities.shape == (121, 60)
    assert densities.max() == pytest.approx(1)


def test_networks_show_as_much_as_has_room() -> None:
    full = mixed().plot({"c": "b"})
    words = texts_of(full)
    assert "0.750" in words
    assert len([p for p in full.patches if isinstance(p, FancyBboxPatch)]) == 6
    bars = [bar for container in bars_of(full) for bar in container]
    assert len(bars) == 3 * 3 + 3 * 5
    small = mixed().plot({"c": "b"}, open_axes(3.15, 2.4))
    assert "0.750" not in texts_of(small)
    assert {"c", "d", "x"} <= set(texts_of(small))
    assert "Posterior" not in small.get_label()
    pyplot.close("all")


def chain(length: int) -> hb.Network:
    nodes = [hb.Discrete(f"node {i}", ("a", "b")) for i in range(length)]
    rest = [hb.Multinomial(b, (a,), table=[[0.5, 0.5], [0.25, 0.75]]) for a, b in pairwise(nodes)]
    return hb.Network([hb.Multinomial(nodes[0], table=[0.25, 0.75]), *rest])


def test_a_large_network_is_a_map_and_a_part_of_it_has_beliefs() -> None:
    net = chain(120)
    ax = net.plot()
    assert len([patch for patch in ax.patches if isinstance(patch, FancyArrowPatch)]) == 119
    assert {"node 0", "node 119"} <= set(texts_of(ax))
    dots = net.plot({"node 3": "a"}, open_axes(3.15, 2.4))
    assert [len(line.get_xdata()) for line in dots.lines] == [119, 1]
    part = net.plot({"node 58": "b"}, around="node 60", steps=2)
    boxes = [patch for patch in part.patches if isinstance(patch, FancyBboxPatch)]
    assert len(boxes) == 5
    assert texts_of(part).count("+1") == 2
    assert format_probability(net.posterior("node 60", {"node 58": "b"})["a"]) in texts_of(part)
    pyplot.close("all")
    with pytest.raises(hb.NetworkError, match="no node 'node x'"):
        net.plot(around="node x")
    with pytest.raises(hb.TableError, match="around="):
        chain(1001).plot()


def test_structures_without_potentials_are_drawn_and_cycles_told() -> None:
    ax = hb.Network("a -> b <- c").plot()
    assert set(texts_of(ax)) == {"a", "b", "c"}
    pyplot.close("all")
    with pytest.raises(hb.NetworkError, match="cycle"):
        hb.Network([("a", "b"), ("b", "a")]).plot()


def test_names_are_no_formulas_and_states_no_hidden_labels() -> None:
    name = hb.Discrete("$x_1$ costs $5", ("_a", "b\n$"))
    net = hb.Network([hb.Multinomial(name, table=[0.25, 0.75])])
    drawn, posterior = net.plot(), net.posterior(name.name).plot(prior=net.posterior(name.name))
    for ax in (drawn, posterior):
        ax.figure.canvas.draw()
        assert "$x_1$ costs $5: _a 0.250" in ax.get_label()
    assert texts_of(drawn)[:2] == [r"\$x_1\$ costs \$5", " _a"]
    assert [label.get_text() for label in posterior.get_yticklabels()][-2:] == [" _a", r"b \$"]
    pyplot.close("all")


# -- evidence and models ----------------------------------------------------------------------------------------------


def test_steps_of_an_explanation_add_up() -> None:
    reasons = mixed().explain("c", {"d": "p", "x": 1.0}, "a")
    ax = reasons.plot(open_axes())
    bars = {bar[1] + 0.34: (bar[0], bar[0] + bar[2]) for container in bars_of(ax) for bar in container}
    start, first, second, end = (bars[key] for key in sorted(bars))
    assert start[1] == pytest.approx(reasons.prior)
    assert first == pytest.approx((reasons.prior, reasons.prior + reasons.weights["d"]))
    assert second[1] == pytest.approx(reasons.log_odds)
    assert end == pytest.approx((0.0, reasons.log_odds))
    sure = hb.Network([mixed().potential("c"), hb.Multinomial(D, (C,), table=[[1.0, 0.0, 0.0], [0.0, 0.5, 0.5]])])
    assert "-∞" in texts_of(sure.explain("c", {"d": "q"}, "a").plot(open_axes()))


def test_nomograms_of_naive_bayes_with_numbers_and_of_logistic_regression() -> None:
    net = mixed().subgraph("cdx")
    case = {"d": "p", "x": 1.0}
    ax = hb.pictures.plot_nomogram(net, case, "a", open_axes(8, 4))
    reasons = net.explain("c", case, "a")
    assert f"{reasons.log_odds:+.2f}: probability {reasons.probability:.3f}" in texts_of(ax)
    observed = [line.get_xdata()[0] for line in ax.lines if line.get_color() == SERIES[1]]
    assert observed == pytest.approx([reasons.weights["x"], reasons.weights["d"], reasons.log_odds])
    ax = hb.pictures.plot_nomogram(logistic(), {"x": 2.0}, ax=open_axes(8, 4))
    probability = logistic().posterior("out", {"x": 2.0})["yes"]
    assert f"probability {probability:.3f}" in ax.get_label()
    with pytest.raises(hb.NetworkError, match=r"'y' has other parents.*explain"):
        hb.pictures.plot_nomogram(mixed().subgraph("cdxy"), target="c")
    with pytest.raises(hb.TableError, match="target="):
        hb.pictures.plot_nomogram(mixed())


def test_a_nomogram_shows_what_is_impossible() -> None:
    sure = hb.Network([mixed().potential("c"), hb.Multinomial(D, (C,), table=[[1.0, 0.0, 0.0], [0.5, 0.25, 0.25]])])
    told = texts_of(hb.pictures.plot_nomogram(sure, ax=open_axes(8, 4)))
    assert any(text.endswith("+∞") for text in told)


def test_a_tornado_shows_the_swings() -> None:
    sensitivity = mixed().subgraph("cd").sensitivity("c", {"d": "p"})
    ax = sensitivity.plot(ax=open_axes())
    swings = sensitivity.find_swings()
    for way, bars in enumerate(bars_of(ax), 1):
        np.testing.assert_allclose([x + width for x, _, width, _ in bars], [swing[way] for swing in swings])  # type: ignore[arg-type]


def test_boosting_curves_count_errors() -> None:
    data = cases()[["c", "d"]].assign(k=cases()["x"] > 2)
    ax = hb.pictures.plot_boosting(ensemble(), data[:200], data[200:], open_axes())
    for line, part in zip(ax.lines, (data[:200], data[200:]), strict=True):
        wrong = [np.mean(ensemble()[:k].posterior(part).mode() != part["c"].to_numpy()) for k in range(1, 5)]
        np.testing.assert_allclose(line.get_ydata(), wrong)
    with pytest.raises(hb.TableError, match="no column 'c'"):
        hb.pictures.plot_boosting(ensemble(), data[["d", "k"]])


def test_calibration_compares_predictions_with_what_came_true() -> None:
    posterior = mixed().posterior("c", cases()[["x"]])
    truth = cases()["c"].where(np.arange(300) > 20, None)
    ax = hb.pictures.plot_calibration(as_discrete(posterior), truth, "a", 5, open_axes())
    known, shares = truth.notna().to_numpy(), posterior["a"]
    bins = np.minimum((shares * 5).astype(int), 4)
    expected = [np.mean((truth == "a")[known & (bins == b)]) for b in range(5) if (known & (bins == b)).any()]
    np.testing.assert_allclose(ax.lines[-1].get_ydata(), expected)
    for wrong, message in ((["a"], "one for each row"), ([None] * 300, "nothing to draw"), (["z"] * 300, "no state")):
        with pytest.raises(hb.TableError, match=message):
            hb.pictures.plot_calibration(as_discrete(posterior), wrong)


def test_the_transform_of_true_values_is_their_cdf() -> None:
    posterior = mixed().posterior("x", cases()[["c"]])
    below = as_continuous(posterior).pit(cases()["x"])
    for row in (0, 7):
        assert below[row] == pytest.approx(posterior[row].cdf(cases()["x"][row]))
    ax = hb.pictures.plot_probability_integral_transform(as_continuous(posterior), cases()["x"], 4, open_axes())
    heights = [bar[3] for bar in bars_of(ax)[0]]
    np.testing.assert_allclose(heights, np.histogram(below, 4, (0, 1))[0] * 4 / 300)
    with pytest.raises(hb.TableError, match="plot_calibration"):
        hb.pictures.plot_probability_integral_transform(mixed().posterior("c", cases()[["x"]]), cases()["c"])  # type: ignore[arg-type]


# -- tables -----------------------------------------------------------------------------------------------------------


def test_patterns_of_missing_cells_are_counted() -> None:
    data = with_holes()
    ax = hb.pictures.plot_missing(data)
    filled_squares = [
        p for p in ax.patches if isinstance(p, Rectangle) and to_rgb(p.get_facecolor()) == to_rgb(SERIES[1])
    ]
    patterns = data.isna().value_counts()[:20]
    assert len(filled_squares) == sum(sum(pattern) for pattern in patterns.index)
    assert f"{data.notna().all(axis=1).sum()} ({data.notna().all(axis=1).mean():.1%}), complete" in texts_of(ax)
    assert "no cell is missing" in texts_of(hb.pictures.plot_missing(filled(), open_axes()))
    pyplot.close("all")
    with pytest.raises(hb.TableError, match="no rows"):
        hb.pictures.plot_missing(data[:0])


def test_observed_and_imputed_are_compared() -> None:
    data, complete = with_holes(), filled()
    ax = hb.pictures.plot_imputed(data, complete, "x", open_axes())
    bars = bars_of(ax)[0][:32]  # what lies beyond is piled up beside them
    ends = np.array([bars[0][0], *(x + width for x, _, width, _ in bars)])
    assert sum(bar[3] for bar in bars) == pytest.approx(1)
    np.testing.assert_allclose([bar[3] for bar in bars], np.histogram(data["x"].dropna(), ends)[0] / data["x"].count())
    ax = hb.pictures.plot_imputed(data, [complete, complete], "c", open_axes())
    observed, imputed = bars_of(ax)
    for shown, part in ((observed, data["c"].dropna()), (imputed, complete["c"][data["c"].isna()])):
        np.testing.assert_allclose([bar[2] for bar in shown], [np.mean(part == state) for state in ("a", "b")])
    few = data["x"].where(np.arange(len(data)) > 2)
    few[3:] = complete["x"][3:]
    ax = hb.pictures.plot_imputed(pd.DataFrame({"x": few}), complete, "x", open_axes())
    assert len(ax.lines[0].get_xdata()) == 3  # few numbers are dots
    for other, message in (
        (data, "missing cells in the completed table"),
        (complete[:5], "5 rows"),
        ([], "empty"),
        (complete[["c"]], "no column 'x'"),
    ):
        with pytest.raises(hb.TableError, match=message):
            hb.pictures.plot_imputed(data, other, "x")
    with pytest.raises(hb.TableError, match="with holes"):
        hb.pictures.plot_imputed(complete, complete, "x")


@pytest.mark.parametrize(
    "name", [name for name in vars(hb.pictures)["__all__"] if name not in ("plot_missing", "plot_imputed")]
)
def test_what_is_not_drawn_is_told(name: str) -> None:
    arguments = {"plot_conditional": 2, "plot_strengths": 2}.get(name, name.endswith(("calibration", "transform")))
    with pytest.raises(hb.TableError, match=r"not 5|is that of"):
        getattr(hb.pictures, name)(5, *[["x"]] * int(arguments))


# -- labels -----------------------------------------------------------------------------------------------------------


@settings(max_examples=40)
@given(st.floats(-1e12, 1e12), st.floats(1e-6, 1e12), st.integers(2, 9))
def test_ticks_lie_within_the_ends_and_differ(low: float, width: float, most: int) -> None:
    high = low + width
    assume(high - low > 1e-12 * abs(low))
    ticks = choose_ticks(low, high, most)
    places, labels = [at for at, _ in ticks], [text for _, text in ticks]
    assert 2 <= len(ticks) <= most
    assert places == sorted(places)
    assert len(set(labels)) == len(labels)
    assert all(low - 1e-6 * width <= at <= high + 1e-6 * width for at in places)
    for at, text in ticks:
        assert float(text.replace(",", "")) == pytest.approx(at, abs=1e-3 * width)


@settings(max_examples=40)
@given(st.floats(-600_000, 2_000_000), st.floats(1e-3, 1e5), st.integers(2, 7), st.sampled_from(["date", "datetime"]))
def test_ticks_of_dates_are_dates(low: float, width: float, most: int, kind: Any) -> None:
    ticks = choose_ticks(low, low + width, most, Unit(kind))
    assert len(ticks) <= most
    assert all(low - 1e-6 * width <= at <= low + width * (1 + 1e-6) for at, _ in ticks)


def test_labels_of_numbers_and_names() -> None:
    assert format_numbers([-0.25, 0.0, 0.25], 0.25) == ["-0.25", "0.00", "0.25"]
    assert [format_probability(p) for p in (0.0, 1e-5, 0.0499, 0.9996, 1.0)] == ["0", "<0.001", "0.050", ">0.999", "1"]
    assert format_value(1e12, spread=1e6) == "1.00000000e+12"
    assert format_value(19753.5, Unit("datetime", step=10**9)) == "2024-01-31 12:00:00"
    assert format_value(19753.5, Unit("datetime", step=10**9), spread=30) == "2024-01-31"
    assert [text for _, text in choose_ticks(0.0, 1.0, 5, Unit("time", step=10**9))][:2] == ["00:00", "06:00"]
    assert [text for _, text in choose_ticks(0.0, 0.5, 5, Unit("duration"))][:2] == ["0 h", "5 h"]
    assert shorten_text("variable number 17", 9) == "vari…r 17"
    assert shorten_text("ab", 1) == "…"


def test_axes_show_the_ends_of_their_description_only() -> None:
    """As the last line of a cell they would fill it otherwise."""
    states = tuple(f"state {number}" for number in range(40))
    net = hb.Network([hb.Multinomial(hb.Discrete("c", states), table=np.full(40, 1 / 40))])
    ax = net.posterior("c").plot(Figure().add_subplot())
    net.posterior("c").plot(ax)
    assert len(repr(ax)) < 120
    assert ax.get_label().count("Posterior of c") == 2
    assert ax.get_label().split("; ")[0] == f"{ax.get_label()}".split("; ")[0]
