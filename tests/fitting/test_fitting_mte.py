"""Mixtures of truncated exponentials learned from columns."""

import itertools
import math

import numpy as np
import pytest
from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from mte_fits import conditional, divergence, fitted
from scipy import stats

import hybridbn as hb
from hybridbn.errors import TableError
from hybridbn.fitting import MTEFitter
from hybridbn.fitting.mte import MTEStatistics
from hybridbn.fitting.mte.pieces import _propose_moves, select_knots
from hybridbn.fitting.mte.univariate import Knots, _solve_bands, normalize

RNG = np.random.default_rng(3)
NORMAL = RNG.normal(size=300)
SAMPLES = {
    "normal": NORMAL,
    "skewed": RNG.exponential(size=300),
    "flat": RNG.uniform(2, 5, size=300),
    "two humps": np.concatenate([RNG.normal(-4, 1, 150), RNG.normal(4, 0.5, 150)]),
    "heavy tails": RNG.standard_cauchy(300),
    "few values": RNG.integers(0, 4, 300).astype(float),
    "two values": np.repeat([0.0, 1.0], [70, 30]),
    "rounded": np.round(RNG.normal(0, 2, 2000)),
    "many zeros": np.where(RNG.random(300) < 0.6, 0.0, RNG.exponential(size=300)),
    "almost all zero": np.append(np.zeros(199), 1.0),
    "U-shaped": RNG.beta(0.3, 0.3, 300),
    "two rows": np.array([1.0, 2.0]),
    "three rows": np.array([1.0, 2.0, 4.0]),
    "five rows": RNG.normal(size=5),
    "far humps": np.concatenate([NORMAL, NORMAL + 1e6]),
}
EXTREMES = {
    "an outlier": np.append(NORMAL, 1e12),
    "outliers on both sides": np.concatenate([NORMAL, [1e12, 1e12 + 1e4, -1e9]]),
    "the largest outlier": np.append(NORMAL, 1e300),
    "offset": np.round(8 * NORMAL) / 8 + 1e15,
    "tiny": NORMAL * 1e-300,
    "huge": NORMAL * 1e299,
    "neighboring floats": np.repeat([1.0, np.nextafter(1, 2)], 50),
    "log-normal of spread 4": np.exp(RNG.normal(0, 4, 1000)),
    "two scales": np.concatenate([NORMAL, NORMAL * 1e6]),
    "ties and outliers": np.concatenate([np.full(200, 5.0), np.full(3, 4.999), [1e4, 2e4, 9e5]]),
    "the largest outliers": np.append(NORMAL, [8e307, -8e307]),
    "two values and an outlier": np.append(np.repeat([0.0, 1.0], 150), 1e12),
    "half of them almost zero": np.append(NORMAL * 1e-308, NORMAL),
    "zeros and an outlier": np.append(np.zeros(300), 1e12),
    "powers of ten": np.geomspace(1e-12, 1e12, 100),
    "huge weights": np.repeat(NORMAL[:40], 250),
    "two narrow clusters": np.concatenate([0.1 * NORMAL[:7], 2.4e6 + 0.01 * NORMAL[:7]]),
    "a cluster and a cloud": np.concatenate([1e-6 * NORMAL[:40], 1e5 + 4e4 * NORMAL[:100], 1.6e5 + 0.01 * NORMAL[:30]]),
    "integers beyond 2**53": RNG.integers(2**60, 2**61, 300).astype(float),
}


# -- one variable -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SAMPLES)
def test_densities_have_mass_one_and_never_end(name):
    values = SAMPLES[name]
    density = fitted(values)
    assert density.integral() == pytest.approx(1, abs=1e-9)
    width = np.ptp(values)
    near = np.concatenate([np.linspace(values.min(), values.max(), 1001), values])
    assert (density(x=near) > 0).all()
    far = np.linspace(values.min() - 100 * width, values.max() + 100 * width, 1001)
    assert np.isfinite(density.log_on({"x": far})).all()
    assert not density.has_zeros
    assert sum(len(piece.terms) + (piece.constant != 0) for piece in density.pieces) <= 14


@pytest.mark.parametrize("name", EXTREMES)
def test_extreme_columns_have_finite_densities(name):
    values = EXTREMES[name]
    density = fitted(values)
    assert density.integral() == pytest.approx(1, abs=1e-9)
    assert np.isfinite(density.log_on({"x": values})).all()
    assert hb.MTE(density.child, (), density.pieces).integral() == pytest.approx(1, abs=1e-6)
    table = hb.Table({"x": values, "y": np.arange(len(values)) + values / np.abs(values).max()})
    given_x, given_y = conditional(table, "y", "x"), conditional(table, "x", "y")
    for potential in (given_x, given_y):
        axes = {"x": values, "y": np.array([-1e9, 0.0, 1e9])}
        assert np.isfinite(potential.log_on(axes)).all()


def test_pieces_meet():
    for name in ("normal", "skewed", "two humps", "heavy tails"):
        density = fitted(SAMPLES[name])
        for piece, following in itertools.pairwise(density.pieces):
            cut = piece.box["x"][1]
            below, above = density(x=np.array([np.nextafter(cut, -math.inf), cut]))
            # (what is added for values far beyond heavy tails is a jump of next to nothing)
            assert below == pytest.approx(above, rel=1e-9 if name != "heavy tails" else 0.01)
            assert following.box["x"][0] == cut


def test_outliers_do_not_spoil_the_rest():
    grid = np.linspace(-2, 2, 101)
    plain, disturbed = fitted(NORMAL), fitted(np.append(NORMAL, [1e9, 1e12]))
    np.testing.assert_allclose(disturbed(x=grid), plain(x=grid), rtol=0.15)
    assert disturbed.log_on({"x": np.array([1e11])})[0] > math.log(1e-16)


def test_outliers_do_not_spoil_two_values_either():
    density = fitted(EXTREMES["two values and an outlier"])
    plain = fitted(np.repeat([0.0, 1.0], 150))
    np.testing.assert_allclose(density(x=np.array([0.0, 0.5, 1.0])), plain(x=np.array([0.0, 0.5, 1.0])), rtol=0.1)
    assert density(x=1e12) > 1e-16


def test_heavy_tails_go_on_far_beyond_the_data():
    values = np.random.default_rng(4).standard_cauchy(1000)
    density, light = fitted(values), fitted(np.random.default_rng(4).normal(size=1000))
    assert density.log_on({"x": np.array([-1.0, 1.0]) * 20 * np.abs(values).max()}).min() > -60
    # while nothing of the sort moves the moments of others
    assert light.var() == pytest.approx(1, rel=0.1)


@pytest.mark.parametrize("rows", [50, 400])
@pytest.mark.parametrize("shape", ["uniform", "clipped", "whole numbers"])
def test_hardly_a_number_is_farther_out_than_the_data_are_wide(shape, rows):
    rng = np.random.default_rng(rows)
    values = {
        "uniform": rng.uniform(-3, 7, rows),
        "clipped": np.clip(rng.normal(45, 16, rows), 18, 80),
        "whole numbers": rng.integers(0, 40, rows).astype(float),
    }[shape]
    posterior, width = hb.Network([fitted(values)]).posterior("x"), np.ptp(values)
    below = posterior.probability(hb.Interval(high=values.min() - width))
    above = posterior.probability(hb.Interval(low=values.max() + width))
    assert 0 < below + above < 0.01 / rows


def test_rounded_values_give_the_density_of_what_was_rounded():
    values = np.round(np.random.default_rng(8).normal(0, 2, 4000))
    density = fitted(values)
    cells = np.arange(-4.5, 5)
    found = np.array([density.mass({}, np.array(ends))[0].item() for ends in itertools.pairwise(cells)])
    np.testing.assert_allclose(found, np.diff(stats.norm(0, 2).cdf(cells)), atol=0.02)


@given(
    name=st.sampled_from(["normal", "skewed", "flat", "two humps", "few values", "rounded", "five rows", "many zeros"]),
    factor=st.floats(1e-6, 1e6),
    shift=st.floats(-100, 100),
)
@settings(max_examples=examples(25), deadline=None)
def test_units_and_origin_do_not_matter(name, factor, shift):
    values = SAMPLES[name]
    shift *= factor
    plain, moved = fitted(values), fitted(factor * values + shift)
    grid = np.linspace(values.min() - 1, values.max() + 1, 83)
    wanted = plain.log_on({"x": grid})
    found = moved.log_on({"x": factor * grid + shift}) + math.log(factor)
    # at the ends of the data the density may jump, and rounding decides on which side a point lies
    away = np.abs(grid[:, None] - plain.breaks("x")).min(axis=1) > 1e-6
    np.testing.assert_allclose(found[away], wanted[away], atol=1e-8 * max(1.0, np.abs(wanted[away]).max()))


@given(st.lists(st.integers(0, 3), min_size=60, max_size=60), st.integers(0, 1000))
@settings(max_examples=examples(15), deadline=None)
def test_weights_stand_for_repetition_and_nothing(counts, seed):
    values = np.random.default_rng(seed).normal(size=60)
    if np.count_nonzero(counts) < 2:
        return
    grid = np.linspace(-3, 3, 51)
    weighted = fitted(values, np.array(counts, dtype=float)).log_on({"x": grid})
    repeated = fitted(np.repeat(values, counts)).log_on({"x": grid})
    np.testing.assert_allclose(weighted, repeated, rtol=1e-9, atol=1e-9)


def test_more_rows_come_closer_to_the_truth():
    grid = np.linspace(-7, 7, 2001)
    for truth in (stats.norm(), stats.t(5)):
        medians = []
        for count in (100, 1600, 25_600):
            found = []
            for seed in range(5):
                density = fitted(truth.rvs(count, random_state=seed))
                found.append(divergence(truth.pdf, lambda x, density=density: density(x=x), grid))
            medians.append(np.median(found))
        assert medians[1] < medians[0] / 3
        assert medians[2] < medians[1] / 3
        assert medians[2] < 1e-3


def test_the_exponential_distribution_is_one_exponential():
    density = fitted(np.random.default_rng(1).exponential(2.0, size=5000))
    assert density.mean() == pytest.approx(2.0, rel=0.05)
    assert density(x=-0.5) < 1e-3
    assert len(density.pieces) <= 4


def test_declared_domains_are_kept():
    values = RNG.beta(2, 5, 500)
    density = fitted(values, domain=(0.0, 1.0))
    assert density.support("x")[0] >= 0
    assert density(x=np.array([-0.01, 1.01])).tolist() == [0.0, 0.0]
    assert (density(x=np.linspace(0, 1, 501)) > 0).all()
    wide = fitted(values, domain=(-1e6, 1e6))
    assert wide.integral() == pytest.approx(1, abs=1e-9)
    half = fitted(np.abs(NORMAL), domain=(0.0, math.inf))
    assert half(x=-1e-9) == 0.0
    assert half(x=0.0) == pytest.approx(math.sqrt(2 / math.pi), rel=0.2)


def test_a_jump_is_found_at_the_end_that_is_none_of_the_domain():
    values = np.append(0.0, np.random.default_rng(0).uniform(0, 5, 400))
    places = np.array([4.9, 5.0, 5.1])
    for sign, domain in ((1, (0.0, math.inf)), (-1, (-math.inf, 0.0))):
        inside, beyond, far = fitted(sign * values, domain=domain)(x=sign * places)
        assert inside > 0.2
        assert max(beyond, far) < 0.02


@pytest.mark.parametrize("lack", [0.0, 1e-9, 1e-5])
def test_systems_that_are_hardly_definite_are_solved(lack):
    # of ones on all diagonals: the least eigenvalue is zero, or below it by what lacks
    system, right = np.ones((4, 1, 4)), np.array([[1.0, 2.0, 3.0, 4.0]])
    system[0] -= lack
    steps = _solve_bands(system, right)
    assert np.isfinite(steps).all()
    assert (steps * right).sum() > 1


def test_a_single_inner_knot_moves_by_a_step_or_two_or_to_where_a_piece_misses_most():
    misses = np.zeros((2, 10))
    misses[:, 8] = 1.0
    moved, owner = _propose_moves(np.array([[0, 4, 9], [0, 1, 9]]), misses)
    assert owner.tolist() == [0] * 6 + [1] * 3
    assert (moved[:, [0, 2]] == [0, 9]).all()
    assert [set(moved[owner == row, 1].tolist()) for row in (0, 1)] == [{1, 2, 3, 5, 6, 8}, {2, 3, 8}]


def test_constants_need_a_floor():
    table = hb.Table({"x": [2.0] * 5, "y": [0.0, 1, 2, 3, 4]})
    for parents in ((), ("y",)):
        with pytest.raises(TableError, match=r"column 'x' has only the value 2\.0"):
            conditional(table, "x", *parents)
    density = conditional(table, "x", fitter=MTEFitter(floor=0.1))
    assert density.integral() == pytest.approx(1)
    assert density.mean() == pytest.approx(2)
    assert density.var() == pytest.approx(0.01)
    limit_steepness = fitted([2.0, 2.0], domain=(2.0, 3.0), fitter=MTEFitter(floor=0.1))
    assert limit_steepness.integral() == pytest.approx(1)
    assert conditional(table, "y", "x").integral


def test_what_floats_cannot_hold_is_refused():
    with pytest.raises(TableError, match=r"column 'x'.*another unit"):
        fitted(NORMAL * 1e-320)
    with pytest.raises(TableError, match=r"column 'x'.*another unit"):
        fitted(1.7e308 * RNG.uniform(-1, 1, 100))
    with pytest.raises(TableError, match="nothing can be learned"):
        fitted([math.nan, math.nan])
    with pytest.raises(TableError, match="weights sum to 0"):
        fitted([1.0, 2.0], [0.0, 0.0])
    table = hb.Table({"x": [1.0, 2.0, math.nan], "y": [math.nan, math.nan, 3.0]})
    with pytest.raises(TableError, match=r"'x' given 'y'.*nothing can be learned"):
        conditional(table, "x", "y")


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("max_pieces", 1),
        ("max_pieces", 2.5),
        ("max_cells", 0),
        ("max_cells", True),
        ("min_weight", 0),
        ("prior", -1),
        ("floor", 0),
    ],
)
def test_bad_options_are_refused(option, value):
    with pytest.raises(TableError, match=option):
        MTEFitter(**{option: value})


def test_options_bound_what_is_learned():
    values = SAMPLES["two humps"]
    assert len(fitted(values, fitter=MTEFitter(max_pieces=4)).pieces) <= 4
    x = RNG.normal(size=2000)
    table = hb.Table({"x": x, "y": x + 0.1 * RNG.normal(size=2000)})
    for most in (1, 2, 5):
        density = conditional(table, "y", "x", fitter=MTEFitter(max_cells=most))
        assert len(density.breaks("x")) == most - 1


# -- pieces -------------------------------------------------------------------------------------------------------


def test_few_pieces_never_leave_a_rising_endless_tail():
    rng = np.random.default_rng(12)
    places = np.cumsum(rng.exponential(size=40))
    for ends in ((math.inf, math.inf), (math.inf, 0.0), (3.0, math.inf)):
        knots = Knots(places, *ends)
        # flat far from the data, as rounding leaves it, with a spike beside the outermost knot
        heights = np.cumsum(rng.normal(size=(6, 40)), axis=1)
        heights[:, [0, -1]] = heights[:, [1, -2]] - 1e-3
        heights[::2, [2, -3]] += 30.0
        for most in (2, 6):
            coarse, found = select_knots(normalize(heights, knots), knots, most, 1e-3)
            assert np.isfinite(found).all()
            np.testing.assert_allclose(normalize(found, coarse), found, atol=1e-9)
            assert not math.isinf(ends[0]) or (found[:, 0] < found[:, 1]).all()
            assert not math.isinf(ends[1]) or (found[:, -1] < found[:, -2]).all()


def test_pieces_are_those_that_matter():
    places = np.linspace(-4, 4, 41)
    knots = Knots(places, math.inf, math.inf)
    # two straight lines, and 39 knots too many
    tent = normalize(-2.0 * np.abs(places)[None], knots)
    coarse, found = select_knots(tent, knots, 10, 1e-6)
    assert found.shape == (1, 3)
    assert coarse.places[0, 1] == pytest.approx(0)
    np.testing.assert_allclose(found[0], tent[0, [0, 20, 40]], atol=1e-6)


# -- statistics ---------------------------------------------------------------------------------------------------


def test_statistics_add_up():
    x, c = np.round(RNG.normal(size=400), 1), RNG.integers(0, 2, 400)
    table = hb.Table({"x": x, "c": c}, discrete=["c"])
    variables = table.variable("x"), (table.variable("c"),)
    fitter = MTEFitter()
    halves = [fitter.statistics(part, *variables) for part in (table[:150], table[150:])]
    both = halves[0] + halves[1]
    assert isinstance(both, MTEStatistics)
    assert both.total == 400
    assert len(both.weights) == len(np.unique(np.column_stack([x, c]), axis=0))
    grid = {"c": np.arange(2), "x": np.linspace(-3, 3, 41)}
    np.testing.assert_array_equal(fitter.potential(both).on(grid)[0], fitter.fit(table, *variables).on(grid)[0])


def test_the_order_of_rows_and_missing_ones_do_not_matter():
    x, y = RNG.normal(size=(2, 200))
    order = RNG.permutation(200)
    grid = {"x": np.linspace(-2, 2, 9), "y": np.linspace(-2, 2, 9)}
    one = conditional(hb.Table({"x": x, "y": y + x}), "y", "x")
    holes = np.full(20, np.nan)
    two_columns = {"x": np.append(x[order], holes), "y": np.append((y + x)[order], np.arange(20.0))}
    two = conditional(hb.Table(two_columns), "y", "x")
    np.testing.assert_allclose(one.on(grid)[0], two.on(grid)[0], rtol=1e-9)
