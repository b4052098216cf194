"""What draws need for estimates from completed tables to be right: all dependences, and cells that agree with what
depends on them along curves.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from narrowing import as_kind, known

import hybridbn as hb
from hybridbn.fitting import GaussianFitter
from hybridbn.learning.imputation.compatible_draws import ResidualDensity, spread_residuals
from hybridbn.learning.imputation.default_network import ImputationRegression, conditional_gaussian_arcs


def test_arcs_that_few_drawn_cells_show_are_kept_as_long_as_there_are_ten_cells_for_each() -> None:
    rng = np.random.default_rng(0)
    numbers = dict(zip("vxyz", rng.normal(size=(4, 200)), strict=True))
    table = hb.Table({"c": np.array(["s", "t"])[np.arange(200) % 2], **numbers})
    arcs = conditional_gaussian_arcs(table)
    # all between four numbers that depend on nothing, and from a category to each
    assert len(arcs) == 6 + 4
    assert len(conditional_gaussian_arcs(table, dict.fromkeys("vxyz", 20.0))) < len(arcs)
    assert len(conditional_gaussian_arcs(table, most_parents=1)) < 4


def test_effects_are_shrunk_only_where_that_clearly_explains_more() -> None:
    rng = np.random.default_rng(1)
    few = rng.choice(3, size=60)
    table = hb.Table({"c": few.astype(str), "x": rng.normal(size=60), "y": (few == 1) + rng.normal(size=60)})
    y, parents = table.variable("y"), (table.variable("c"), table.variable("x"))
    fitters = ImputationRegression(), GaussianFitter()
    shrunk, own = (as_kind(hb.LinearGaussian, one.fit(table, y, parents)).intercept for one in fitters)
    assert np.ptp(shrunk) == pytest.approx(np.ptp(own), rel=0.05)
    noise = hb.Table(dict(zip("abcdefghijklmnopqrstuvwxyz", rng.normal(size=(26, 60)), strict=True)))
    first, *others = noise.variables
    slopes = [as_kind(hb.LinearGaussian, one.fit(noise, first, tuple(others))).coefficients for one in fitters]
    assert np.abs(slopes[0]).sum() < 0.5 * np.abs(slopes[1]).sum()


def test_densities_of_residuals_have_their_mass_and_variance() -> None:
    residuals = spread_residuals(np.random.default_rng(0).standard_t(5, size=300), np.ones(300))
    density = ResidualDensity.of(residuals, 300.0)
    points = np.linspace(density.points[0], density.points[-1], 20_001)
    mass = np.exp(density.log(points)) * (points[1] - points[0])
    assert mass.sum() == pytest.approx(1, abs=0.02)
    # but for the share that may lie anywhere
    near = np.abs(points) < 6
    assert (mass * points**2)[near].sum() == pytest.approx(residuals.var(), rel=0.1)
    assert density.log(np.array([1e9])) == density.logs[-1]


def bent(rows: int, seed: int) -> tuple[pd.DataFrame, np.ndarray]:
    """Return a table in which b is missing, the more often the larger y is, and y is a curve of b; and where."""
    rng = np.random.default_rng(seed)
    a, b, noise = rng.normal(size=(3, rows))
    y = 0.5 * a + b + 0.8 * b**2 + noise
    return pd.DataFrame({"a": a, "b": b, "y": y}), rng.random(rows) < 1 / (1 + np.exp(1.2 - 0.4 * y))


@pytest.mark.filterwarnings("ignore:imputing expected values")
def test_holes_agree_with_the_number_that_is_a_curve_of_them(tmp_path: Path) -> None:
    true, hidden = bent(500, 3)
    frame = true.assign(b=true["b"].mask(hidden))
    result = hb.impute(frame, draws=4, details=True, random_state=0)
    bends = [np.polyfit(one["b"], one["y"] - 0.5 * one["a"], 2)[0] for one in result.tables]
    whole = np.polyfit(true["b"], true["y"] - 0.5 * true["a"], 2)[0]
    assert np.mean(bends) == pytest.approx(whole, abs=0.1)
    # straight lines lose half of it
    straight = hb.impute(frame, donors=False, random_state=0)
    assert np.polyfit(straight["b"], straight["y"] - 0.5 * straight["a"], 2)[0] < whole - 0.2
    network = known(result.network)
    assert list(network.graph["imputation"]["matching"]["compatible"]) == ["b"]
    network.save(tmp_path / "model.hbn")
    loaded = as_kind(hb.Network, hb.load(tmp_path / "model.hbn"))
    for strategy in ("draw", "mean", "most_probable"):
        filled, again = (hb.impute(frame, strategy=strategy, network=one, random_state=0) for one in (network, loaded))
        pd.testing.assert_frame_equal(filled, again, check_exact=True)
        part = hb.impute(frame[50:90], strategy=strategy, network=loaded, random_state=0)
        pd.testing.assert_frame_equal(part, filled[50:90], check_exact=True)


def test_a_hole_and_the_missing_number_that_depends_on_it_are_drawn_together() -> None:
    true, hidden = bent(600, 4)
    gone = np.random.default_rng(5).random(600) < 0.3
    frame = true.assign(b=true["b"].mask(hidden), y=true["y"].mask(gone))
    filled = hb.impute(frame, random_state=0)
    both = hidden & gone
    # b is drawn as if y were not there, and y on the curve around it
    off = filled["y"] - 0.5 * filled["a"] - filled["b"] - 0.8 * filled["b"] ** 2
    assert off[both].std() == pytest.approx(1, abs=0.35)


@pytest.mark.parametrize("saved", [False, True])
def test_categories_agree_with_heavy_tailed_numbers_that_depend_on_them(saved: bool, tmp_path: Path) -> None:
    rng = np.random.default_rng(6)
    group = rng.choice(["u", "v", "w"], size=500)
    true = pd.DataFrame({"group": group, "y": 2.0 * (group == "v") + rng.standard_t(2.5, size=500)})
    hidden = rng.random(500) < 0.4
    frame = true.assign(group=true["group"].mask(hidden))
    result = hb.impute(frame, details=True, random_state=0)
    network = known(result.network)
    assert list(network.graph["imputation"]["matching"]["compatible"]) == ["group"]
    if saved:
        network.save(tmp_path / "model.hbn")
        network = as_kind(hb.Network, hb.load(tmp_path / "model.hbn"))
    filled = hb.impute(frame, network=network, random_state=1)
    is_own = filled["group"] == "v"
    differences = [one.groupby(one["group"] == "v")["y"].mean().diff().iloc[1] for one in (filled, true)]
    assert differences[0] == pytest.approx(differences[1], abs=0.35)
    assert is_own[hidden].mean() == pytest.approx(1 / 3, abs=0.1)
