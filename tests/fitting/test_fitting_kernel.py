"""KernelFitter against the formulas of Frank et al. (1998), equations 3 to 9, and the promises of its documentation."""

import itertools
import math

import numpy as np
import pytest
from narrowing import as_kind
from scipy import stats

import hybridbn as hb
from hybridbn.errors import NetworkError, TableError, TooWide
from hybridbn.fitting import KernelFitter
from hybridbn.fitting.kernel import PAPER, negligible, search_constants
from hybridbn.potentials.cell_quadrature import integrate

PAPERS = KernelFitter(bandwidths="paper", unseen=0)


def _table(n=60, seed=0, **options):
    rng = np.random.default_rng(seed)
    y = rng.normal(size=n)
    columns = {
        "y": y * 10 + 50,
        "x": np.sin(2 * y) + 0.3 * rng.normal(size=n),
        "c": np.where(y + rng.normal(size=n) > 0, "high", "low"),
        "d": np.array(["p", "q", "r"])[rng.integers(0, 3, n)],
    }
    return hb.Table(columns, **options)


def _variables(table, names):
    return [table.variable(name) for name in names]


def _entropy(points, widths):
    """Equation 5, term by term."""
    n, total = len(points), 0.0
    for j in range(n):
        others = [i for i in range(n) if i != j]
        kernels = np.prod(
            [stats.norm.pdf((points[j, m] - points[others, m]) / h) / h for m, h in enumerate(widths)], axis=0
        )
        total -= math.log(kernels.sum() / (n - 1)) / n
    return total


def _brute_force(points, n):
    grid = itertools.product(PAPER, repeat=points.shape[1])
    return min(grid, key=lambda constants: _entropy(points, np.array(constants) / math.sqrt(n)))


def _scaled(values):
    return (values - values.min()) / np.ptp(values)


# -- the paper's formulas -----------------------------------------------------------------------------------------


def test_numeric_attribute():
    """Equations 3 to 6: the joint density over the response's, bandwidths by leaving one out."""
    table = _table(40)
    x, y = table["x"], table["y"]
    c = _brute_force(np.column_stack([_scaled(x), _scaled(y)]), 40)
    h_x, h_y = (constant / math.sqrt(40) * np.ptp(values) for constant, values in zip(c, (x, y), strict=True))
    potential = PAPERS.fit(table, table.variable("x"), (table.variable("y"),))
    np.testing.assert_allclose(as_kind(hb.Kernel, potential).bandwidths, [h_x, h_y], rtol=1e-12)
    for at_x, at_y in ((0.3, 55.0), (-0.8, 35.0), (0.0, 90.0)):
        k_x, k_y = stats.norm.pdf((at_x - x) / h_x), stats.norm.pdf((at_y - y) / h_y)
        joint = (k_x * k_y).sum() / (40 * h_x * h_y)
        marginal = k_y.sum() / (40 * h_y)
        assert math.isclose(potential(x=at_x, y=at_y), joint / marginal, rel_tol=1e-9)


@pytest.mark.parametrize("per_state", [False, True])
def test_nominal_attribute(per_state):
    """Equations 7 to 9; the n below c is that of all points, or as printed that of the state."""
    table = _table(40)
    y, codes = table["y"], table["c"]
    fitter = KernelFitter(bandwidths="paper", unseen=0, per_state=per_state)
    potential = fitter.fit(table, table.variable("c"), (table.variable("y"),))
    densities, shares = [], []
    for k in (0, 1):
        mine = codes == k
        n = mine.sum() if per_state else 40
        (c,) = _brute_force(_scaled(y)[mine, None], n)
        h = c / math.sqrt(n) * np.ptp(y)
        assert math.isclose(as_kind(hb.Kernel, potential).bandwidths[k, 0], h, rel_tol=1e-12)
        densities.append(lambda at, mine=mine, h=h: stats.norm.pdf((at - y[mine]) / h).mean() / h)
        shares.append(mine.mean())
    for at in (40.0, 52.0, 75.0):
        joint = [share * density(at) for share, density in zip(shares, densities, strict=True)]
        for k, state in enumerate(table.variable("c").states):
            assert math.isclose(potential(c=state, y=at), joint[k] / sum(joint), rel_tol=1e-9)


def test_response():
    """Section 2.3: the one-dimensional estimate with all points."""
    table = _table(50)
    y = table["y"]
    (c,) = _brute_force(_scaled(y)[:, None], 50)
    h = c / math.sqrt(50) * np.ptp(y)
    potential = PAPERS.fit(table, table.variable("y"))
    assert math.isclose(as_kind(hb.Kernel, potential).bandwidths.item(), h, rel_tol=1e-12)
    assert math.isclose(potential(y=48.0), stats.norm.pdf((48 - y) / h).mean() / h, rel_tol=1e-12)


def test_negligible_attributes():
    """Footnote 6."""
    table = hb.Table({"c": ["a", "a", "b"], "y": [0.0, 1.0, 2.0]})
    y, c = table.variable("y"), hb.Discrete("c", ("a", "b", "never"))
    grid, rows = np.linspace(-1, 3, 9), np.array([[0, 2, 1]])
    never = PAPERS.fit(table, c, (y,)).log_on({"c": rows, "y": grid})[:, 0]
    assert negligible(never).tolist() == [False, True, False]
    # with rows of its own such a state says next to nothing about y instead
    kept = KernelFitter(bandwidths="paper").fit(table, c, (y,)).log_on({"c": rows, "y": grid})[:, 0]
    assert not negligible(kept).any()
    assert np.ptp(kept[:, 1]) < 0.5
    assert not negligible([[-800.0]], below=-1000).any()


# -- parents, states, missing values ------------------------------------------------------------------------------


def test_every_configuration_of_nominal_parents_has_kernels_of_its_own():
    table = _table(90)
    x, y, d = _variables(table, "xyd")
    potential = KernelFitter().fit(table, x, (d, y))
    for code, state in enumerate(d.states):
        mine = table["d"] == code
        points = np.column_stack([_scaled(table["x"])[mine], _scaled(table["y"])[mine]])
        c = search_constants(points, np.ones(mine.sum()), mine.sum())
        h = np.array(c) / math.sqrt(mine.sum()) * [np.ptp(table["x"]), np.ptp(table["y"])]
        np.testing.assert_allclose(as_kind(hb.Kernel, potential).bandwidths[code], h, rtol=1e-12)
        alone = hb.Kernel(x, (y,), points=np.column_stack([table["x"], table["y"]])[mine], bandwidths=h)
        for at in (30.0, 55.0):
            assert math.isclose(potential(x=0.2, d=state, y=at), alone(x=0.2, y=at), rel_tol=1e-12)


@pytest.mark.parametrize("names", ["xy", "xyd", "xd", "x", "cy", "cyd", "cyx"])
@pytest.mark.parametrize("fitter", [KernelFitter(), PAPERS, KernelFitter(bandwidths=1.5)])
def test_conditionals_have_mass_one(names, fitter):
    table = _table(40)
    child, *parents = _variables(table, names)
    potential = fitter.fit(table, child, tuple(parents))
    given = {"y": np.array([20.0, 50.0, 500.0]), "x": np.array([-9.0, 0.0, 0.5]), "d": np.array([0, 1, 2])}
    given = {parent.name: given[parent.name] for parent in parents}
    if isinstance(child, hb.Continuous):
        np.testing.assert_allclose(integrate(potential, given, 3), 1, rtol=1e-9)
    else:
        axes = {name: array[None] for name, array in given.items()}
        values = np.exp(potential.log_on({**axes, "c": np.arange(2)}))
        np.testing.assert_allclose(values.sum(axis=-2), 1, rtol=1e-12)


def test_rows_with_missing_values_are_left_out():
    """Footnote 2; but what they have counts for the ranges (footnote 1)."""
    full = _table(50)
    columns = {name: full.raw(name) for name in full.names}
    holes = {**columns, "x": [None if row % 5 == 0 else value for row, value in enumerate(columns["x"])]}
    table, rows = hb.Table(holes), np.arange(50) % 5 != 0
    x, y = _variables(table, "xy")
    potential = PAPERS.fit(table, x, (y,))
    np.testing.assert_array_equal(as_kind(hb.Kernel, potential).points, np.column_stack([full["x"], full["y"]])[rows])
    # the response of a row without x widens the range, though it has no kernel
    wider = hb.Table({**holes, "y": np.r_[1e3, full["y"][1:]]})
    ratio = as_kind(hb.Kernel, PAPERS.fit(wider, x, (y,))).bandwidths[1] / np.ptp(wider["y"])
    assert 0.39 < ratio * math.sqrt(40) < 0.81
    for names in ("yx", "cyx", "xc"):
        child, *parents = _variables(table, names)
        assert np.isfinite(as_kind(hb.Kernel, PAPERS.fit(table, child, tuple(parents))).points).all()


def test_states_that_are_numbers_truth_values_and_cuts():
    y = np.linspace(0, 1, 12) ** 2
    for states in ((3, 1, 2), (True, False), (1.5, 2.5)):
        values = [states[row % len(states)] for row in range(12)]
        table = hb.Table({"y": y, "c": values}, discrete=["c"])
        c = hb.Discrete("c", states)
        potential = KernelFitter().fit(table, c, (table.variable("y"),))
        assert [c.states[code] for code in as_kind(hb.Kernel, potential).codes[:, 0]] == values
    cut = hb.Discrete("c", ("low", "high"), cuts=(0.5,))
    table = hb.Table({"y": y, "c": y}, variables=[hb.Continuous("y"), cut])
    potential = KernelFitter().fit(table, cut, (hb.Continuous("y"),))
    assert (as_kind(hb.Kernel, potential).codes[:, 0] == (y >= 0.5)).all()


def test_configurations_without_points_get_those_of_the_whole_table():
    table = _table(1500)
    x, y, c = _variables(table, "xyc")
    d = hb.Discrete("d", ("p", "q", "r", "empty"))
    for fitter in (KernelFitter(), PAPERS):
        potential, pooled = fitter.fit(table, x, (d, y)), fitter.fit(table, x, (y,))
        assert (as_kind(hb.Kernel, potential).codes == 3).sum() == 1000
        assert 0.5 < potential(x=0.5, d="empty", y=50.0) / pooled(x=0.5, y=50.0) < 2
        potential, pooled = fitter.fit(table, c, (d, y)), fitter.fit(table, c, (y,))
        assert abs(float(potential(c="high", d="empty", y=53.0)) - float(pooled(c="high", y=53.0))) < 0.1


def test_single_points():
    table = hb.Table({"d": ["a", "b", "b", "b"], "y": [0.0, 1.0, 3.0, 2.5], "x": [1.0, 5.0, 4.0, 2.0]})
    d, y, x = table.variables
    widths = as_kind(hb.Kernel, KernelFitter().fit(table, x, (d, y))).bandwidths
    whole = as_kind(hb.Kernel, KernelFitter().fit(table, x, (y,))).bandwidths
    np.testing.assert_allclose(widths[0], whole * 4 ** (1 / 6))
    # a state's density keeps the bandwidth of all points: the n of c / sqrt(n) is the same
    states = as_kind(hb.Kernel, KernelFitter().fit(table, d, (y,))).bandwidths
    assert states[0] == as_kind(hb.Kernel, KernelFitter().fit(table, y)).bandwidths


# -- weights, statistics, invariance ------------------------------------------------------------------------------


@pytest.mark.parametrize("names", ["xy", "xyd", "cy", "y"])
def test_weights(names):
    table = _table(60)
    child, *parents = _variables(table, names)
    parents = tuple(parents)
    weights = np.random.default_rng(1).uniform(size=60)
    fitted = KernelFitter().fit(table.with_weights(weights), child, parents)
    scaled = KernelFitter().fit(table.with_weights(weights / 8), child, parents)
    np.testing.assert_allclose(as_kind(hb.Kernel, scaled).bandwidths, as_kind(hb.Kernel, fitted).bandwidths, rtol=1e-12)
    plain = KernelFitter().fit(table, child, parents)
    np.testing.assert_array_equal(
        as_kind(hb.Kernel, KernelFitter().fit(table.with_weights(np.ones(60)), child, parents)).bandwidths,
        as_kind(hb.Kernel, plain).bandwidths,
    )
    kept = np.arange(60) % 4 != 0
    without = KernelFitter().fit(table.take(kept), child, parents)
    zero = KernelFitter().fit(table.with_weights(np.where(kept, 1.0, 0.0)), child, parents)
    np.testing.assert_array_equal(as_kind(hb.Kernel, zero).points, as_kind(hb.Kernel, without).points)
    np.testing.assert_array_equal(as_kind(hb.Kernel, zero).bandwidths, as_kind(hb.Kernel, without).bandwidths)


@pytest.mark.parametrize("names", ["xy", "xyd", "cyd", "y"])
def test_statistics_of_parts_add_up(names):
    table = _table(60, weights=np.random.default_rng(2).exponential(size=60))
    child, *parents = _variables(table, names)
    fitter = KernelFitter()
    whole = fitter.potential(fitter.statistics(table, child, tuple(parents)))
    parts = [
        fitter.statistics(table[rows], child, tuple(parents)) for rows in (slice(0, 7), slice(7, 40), slice(40, 60))
    ]
    merged = fitter.potential(parts[0] + parts[1] + parts[2])
    np.testing.assert_array_equal(merged.points, whole.points)
    np.testing.assert_array_equal(merged.bandwidths, whole.bandwidths)
    empty = fitter.statistics(table[:0], child, tuple(parents))
    np.testing.assert_array_equal(fitter.potential(empty + parts[0] + parts[1] + parts[2]).bandwidths, whole.bandwidths)


@pytest.mark.parametrize(("scale", "shift"), [(1024.0, 0.0), (-3.0, 1e3), (1e-3, -7.0), (1e200, 0.0), (1e-200, 0.0)])
def test_affine_changes_of_variables(scale, shift):
    table = _table(60)
    x, y, c = _variables(table, "xyc")
    changed = table.with_column("x", table["x"] * scale + shift).with_column("y", table["y"] * scale + shift)
    before, after = KernelFitter().fit(table, x, (y,)), KernelFitter().fit(changed, x, (y,))
    np.testing.assert_allclose(
        as_kind(hb.Kernel, after).bandwidths, as_kind(hb.Kernel, before).bandwidths * abs(scale), rtol=1e-9
    )
    at_x, at_y = np.array([-1.0, 0.3, 2.0]), np.array([40.0, 55.0, 70.0])
    densities = after(x=at_x * scale + shift, y=at_y * scale + shift) * abs(scale)
    np.testing.assert_allclose(densities, before(x=at_x, y=at_y), rtol=1e-7)
    np.testing.assert_allclose(
        KernelFitter().fit(changed, c, (y,))(c="high", y=at_y * scale + shift),
        KernelFitter().fit(table, c, (y,))(c="high", y=at_y),
        rtol=1e-7,
    )


def test_wild_columns():
    rng = np.random.default_rng(3)
    y = rng.normal(size=50)
    for x in (np.r_[1e12, y[1:]], 1e15 + np.round(100 * y), np.r_[-1.7e308, 1.7e308, y[2:]], np.round(y), y * 1e-300):
        table = hb.Table({"x": x, "y": y})
        for names in ("xy", "yx", "x"):
            child, *parents = _variables(table, names)
            potential = KernelFitter().fit(table, child, tuple(parents))
            assert (as_kind(hb.Kernel, potential).bandwidths > 0).all()
            assert np.isfinite(as_kind(hb.Kernel, potential).bandwidths).all()
            axes = {"x": table["x"][None, 2:5], "y": y[None, 2:5]}
            assert np.isfinite(potential.log_on({name: axes[name] for name in potential.scope})).all()


def test_two_rows_and_domains():
    table = hb.Table({"x": [0.0, 1.0], "y": [3.0, 5.0]}, variables=[hb.Continuous("x", (0, 1)), hb.Continuous("y")])
    x, y = table.variables
    potential = KernelFitter().fit(table, x, (y,))
    np.testing.assert_allclose(integrate(potential, {"y": np.array([3.0, 100.0])}), 1, rtol=1e-9)


# -- refusals -----------------------------------------------------------------------------------------------------


def test_refusals():
    table = hb.Table({"x": [1.0, 2.0, None], "k": [3.0, 3.0, 3.0], "c": ["a", "b", "a"], "gone": [None, None, 1.0]})
    x, k, c, gone = table.variables
    for child, parents in ((k, ()), (x, (k,)), (k, (x,)), (c, (k,))):
        with pytest.raises(TableError, match=r"column 'k' has the single value 3\.0 in all its rows"):
            KernelFitter().fit(table, child, parents)
    with pytest.raises(TableError, match="column 'x' has the single value"):
        KernelFitter().fit(table[:1], x)
    with pytest.raises(TableError, match="no row has values of all of 'x' given 'gone'"):
        KernelFitter().fit(table, x, (gone,))
    with pytest.raises(NetworkError, match="'c': kernels need a continuous variable"):
        KernelFitter().fit(table, c)
    with pytest.raises(TooWide, match="array of bandwidths"):
        KernelFitter(max_bytes=8).fit(table, x, (c,))
    for wrong in ("cv", 0, -1.0, math.inf, math.nan, True, None):
        with pytest.raises(NetworkError, match="bandwidths must be"):
            KernelFitter(bandwidths=wrong)  # type: ignore[arg-type]
    for wrong in (-1, math.inf, math.nan):
        with pytest.raises(NetworkError, match="unseen must be"):
            KernelFitter(unseen=wrong)
    with pytest.raises(NetworkError, match="can't merge statistics"):
        KernelFitter().statistics(table, x) + KernelFitter().statistics(table, k)


@pytest.mark.parametrize("bandwidths", ["normal", "extended"])
def test_equal_points_have_no_narrow_kernels(bandwidths):
    """A state all of whose rows have one value, which has the bandwidth of all rows then."""
    rng = np.random.default_rng(3)
    label = np.array(["a"] * 96 + ["b"] * 4)
    table = hb.Table({"x": np.where(label == "a", rng.normal(size=100), 0.5), "c": label})
    x, c = table.variables
    potential = KernelFitter(bandwidths=bandwidths).fit(table, x, (c,))
    assert np.log(potential(x=0.8, c="b")) > -10


@pytest.mark.parametrize("bandwidths", ["normal", "extended"])
def test_two_points_have_no_narrow_kernels(bandwidths):
    rng = np.random.default_rng(3)
    values, label = rng.normal(size=100), np.array(["a"] * 98 + ["b"] * 2)
    values[98:] = 0.5, 0.51
    table = hb.Table({"x": values, "c": label})
    x, c = table.variables
    potential = KernelFitter(bandwidths=bandwidths).fit(table, x, (c,))
    assert np.log(potential(x=-1.5, c="b")) > -20


@pytest.mark.parametrize("weight", [0.25, 1.0, 3.0])
def test_states_that_were_never_seen_borrow_so_many_rows(weight):
    """Rows that count less than one are as many equal ones; then the kernels of all states weigh the same shares."""
    data = {"c": ["a", "b", "b", "a", "b"] * 4, "y": np.arange(20.0)}
    c, y = hb.Discrete("c", ("a", "b", "never")), hb.Continuous("y")
    table = hb.Table(data, variables=[c, y], weights=np.full(20, weight))
    potential = as_kind(hb.Kernel, KernelFitter(unseen=0.5).fit(table, c, (y,)))
    sums = np.bincount(potential.codes[:, -1], potential.weights, 3)
    rows = 20 * max(weight, 1.0)
    np.testing.assert_allclose(sums / sums.sum(), np.array([0.4 * rows, 0.6 * rows, 0.5]) / (rows + 0.5))
