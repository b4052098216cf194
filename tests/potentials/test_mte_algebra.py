"""The MTE algebra against exact integrals, and its laws."""

from __future__ import annotations

import itertools
import math
from typing import Any

import mpmath as mp
import numpy as np
import pytest
from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from mte_oracle import exact, random_mte
from narrowing import as_kind
from scipy import integrate

import hybridbn as hb
from hybridbn.errors import NetworkError, TableError
from hybridbn.potentials.base import Potential
from hybridbn.potentials.mte import MTE, Piece, algebra
from hybridbn.potentials.mte.terms import integrate_decay, integrate_powers, integrate_segments, minimize_on_box
from hybridbn.variables import Continuous, Discrete

INF = math.inf
X, Y, Z = Continuous("x", (0, 4)), Continuous("y", (-2, 2)), Continuous("z", (10, 11))
C, D = Discrete("c", ("a", "b")), Discrete("d", (1, 2, 3))
seeds = st.integers(0, 2**32 - 1)


def close(got: Any, wanted: Any, condition: float = 1.0, small: float = 1e-12) -> bool:
    return abs(mp.mpf(float(got)) - wanted) <= max(small, 1e-13 * condition) * abs(wanted)


# -- integrals of one exponential -----------------------------------------------------------------------------------


@pytest.mark.parametrize("width", [1e-9, 1.0, 1e9])
@pytest.mark.parametrize("exponent", [0, 1e-320, 1e-17, 1e-12, 1e-8, 1e-3, 0.1, 0.7, 0.999, 1.001, 3, 30, 700, 1e5])
def test_moments_of_an_exponential_keep_all_digits(exponent, width):
    rate = exponent / width
    got = integrate_powers(np.array(rate), np.array(width), 4)
    for k in range(5):
        with mp.workdps(400 if exponent < 1e-300 else 150):
            b, w = mp.mpf(rate), mp.mpf(width)
            x = b * w
            wanted = w ** (k + 1) * (
                mp.hyp1f1(k + 1, k + 2, -x) / (k + 1) if x < 200 else mp.gammainc(k + 1, 0, x) / x ** (k + 1)
            )
        assert abs(got[k] / float(wanted) - 1) < 3e-15 * (k + 1)


def test_endless_exponentials():
    assert integrate_decay(np.array(4.0), np.array(INF)) == 0.25
    np.testing.assert_allclose(integrate_powers(np.array(2.0), np.array(INF), 3), [0.5, 0.25, 0.25, 0.375], rtol=1e-15)
    left = integrate_segments(np.array(2.0), np.array(1.0), np.array(-INF), np.array(0.0), 1, np.array(0.0))
    np.testing.assert_allclose(left, [math.exp(-2) / 2, -math.exp(-2) / 4], rtol=1e-15)


@given(seeds)
@settings(max_examples=examples(40), deadline=None)
def test_segments_of_an_exponential(seed):
    rng = np.random.default_rng(seed)
    rate, anchor, low, center = rng.normal() * 10 ** rng.uniform(-6, 1.5), *rng.normal(size=3)
    high = low + rng.uniform(0, 3)
    got = integrate_segments(np.array(rate), np.array(anchor), np.array(low), np.array(high), 2, np.array(center))
    for k in range(3):
        wanted = mp.quad(lambda z, k=k: (z - center) ** k * mp.exp(mp.mpf(rate) * (z - anchor)), [low, high])
        size = mp.quad(
            lambda z, k=k: abs(z - center) ** k * mp.exp(mp.mpf(rate) * (z - anchor)),
            [low, center, high] if low < center < high else [low, high],
        )
        assert abs(mp.mpf(float(got[k])) - wanted) <= 1e-13 * size


@given(seeds, st.integers(2, 6))
@settings(max_examples=examples(40), deadline=None)
def test_the_minimum_of_an_exponential_sum_is_found(seed, count):
    rng = np.random.default_rng(seed)
    rates, coefficients = rng.normal(size=(count, 1)) * 5, rng.normal(size=count)
    low, high = np.array([-1.0]), np.array([rng.uniform(-0.5, 3)])
    least, where, _ = minimize_on_box(coefficients, rates, low, high)
    x = np.linspace(low[0], high[0], 20001)
    anchors = np.where(rates > 0, high, low)
    values = np.exp(rates * (x - anchors)).T @ coefficients
    assert low[0] <= where[0] <= high[0]
    assert values.min() - 1e-6 * np.abs(values).max() <= least <= values.min() + 1e-13


def test_the_minimum_in_two_dimensions_is_found():
    # (exp(x) - 2)**2 + (exp(y) - 1.5)**2 - 1e-6 on the unit square
    coefficients, rates = np.array([1, -4, 1, -3, 6.25 - 1e-6]), np.array([[2.0, 0], [1, 0], [0, 2], [0, 1], [0, 0]])
    anchored = coefficients * np.exp(rates.sum(axis=1))
    least, where, _ = minimize_on_box(anchored, rates, np.zeros(2), np.ones(2))
    assert least == pytest.approx(-1e-6, abs=1e-9)
    np.testing.assert_allclose(where, [math.log(2), math.log(1.5)], atol=1e-4)


# -- against exact integrals ------------------------------------------------------------------------------------------


@given(seeds)
@settings(max_examples=examples(2), deadline=None)
def test_joint_of_a_hybrid_network(seed):
    rng = np.random.default_rng(seed)
    factors = [random_mte(rng, C, ()), random_mte(rng, X, (C,)), random_mte(rng, Y, (C, X)), random_mte(rng, D, (Y,))]
    pieces, variables = [f.pieces for f in factors], (C, X, Y, D)
    joint = factors[0] * factors[1] * factors[2] * factors[3]
    assert joint.scope[-1] == "d"
    assert close(joint.integral(), exact(pieces, variables), joint.condition)
    assert joint.condition < 20
    x, y = rng.uniform(0, 4), rng.uniform(-2, 2)
    for evidence in ({"x": x}, {"y": y, "c": "b"}, {"d": 3, "x": (0.3, 1.9)}, {"y": (-0.5, 0.25)}):
        known = as_kind(hb.MTE, joint.restrict(evidence))
        assert close(known.integral(), exact(pieces, variables, evidence), known.condition)
    left = as_kind(hb.MTE, as_kind(hb.MTE, joint.restrict({"d": 2})).marginalize("y", "c"))
    assert left.scope == ("x",)
    assert close(left(x=x), exact(pieces, variables, {"d": 2, "x": x}), left.condition)
    mass = exact(pieces, variables, {"d": 2})
    mean = exact(pieces, variables, {"d": 2}, "x", 1) / mass
    second = exact(pieces, variables, {"d": 2}, "x", 2) / mass
    assert close(left.mean(), mean)
    assert close(left.var(), second - mean**2)
    assert close(left.moment(2), second)
    cut = rng.uniform(0, 4)
    assert close(left.cdf(cut), exact(pieces, variables, {"d": 2, "x": (0, cut)}) / mass)


@given(seeds)
@settings(max_examples=examples(15), deadline=None)
def test_operations_commute(seed):
    rng = np.random.default_rng(seed)
    f, g = random_mte(rng, X, (Y, C)), random_mte(rng, Y, (Z, C))
    y, z = rng.uniform(-2, 2, 50), rng.uniform(10, 11, 50)
    c = rng.choice(["a", "b"], 50).astype(object)
    x = rng.uniform(0, 4, 50)
    np.testing.assert_allclose((f * g)(x=x, y=y, z=z, c=c), f(x=x, y=y, c=c) * g(y=y, z=z, c=c), rtol=1e-13)
    np.testing.assert_allclose((f * g)(x=x, y=y, z=z, c=c), (g * f)(x=x, y=y, z=z, c=c), rtol=1e-13)
    product = f * g
    multiplied = MTE._of(product.variables, [product._terms])  # written out instead of kept as factors
    np.testing.assert_allclose(product(x=x, y=y, z=z, c=c), multiplied(x=x, y=y, z=z, c=c), rtol=1e-12)
    for names in itertools.permutations(["x", "y", "c"]):
        one, two = product, multiplied
        for name in names:
            one, two = as_kind(hb.MTE, one.marginalize(name)), as_kind(hb.MTE, two.marginalize(name))
        np.testing.assert_allclose(one(z=z), as_kind(hb.MTE, product.marginalize("x", "y", "c"))(z=z), rtol=1e-12)
        np.testing.assert_allclose(two(z=z), one(z=z), rtol=1e-12)
    first = as_kind(hb.MTE, as_kind(hb.MTE, product.restrict({"y": y[0]})).marginalize("x", "c"))
    second = as_kind(hb.MTE, as_kind(hb.MTE, product.marginalize("x", "c")).restrict({"y": y[0]}))
    np.testing.assert_allclose(first(z=z), second(z=z), rtol=1e-12)
    both = (
        as_kind(hb.MTE, product.restrict({"c": "a"})).integral()
        + as_kind(hb.MTE, product.restrict({"c": "b"})).integral()
    )
    assert both == pytest.approx(product.integral(), rel=1e-13)
    assert as_kind(hb.MTE, product.restrict({"c": {"a", "b"}})).integral() == pytest.approx(
        product.integral(), rel=1e-13
    )
    assert (product * 3).integral() == pytest.approx(3 * product.integral(), rel=1e-14)
    parts = (
        as_kind(hb.MTE, product.restrict({"x": (0, 1.5)})).integral()
        + as_kind(hb.MTE, product.restrict({"x": (1.5, 4)})).integral()
    )
    assert parts == pytest.approx(product.integral(), rel=1e-13)


@given(seeds, st.sampled_from([1e-9, 0.5, 1e9]), st.sampled_from([0.0, 1e6, -3.0]))
@settings(max_examples=examples(20), deadline=None)
def test_affine_rescaling(seed, scale, shift):
    rng = np.random.default_rng(seed)
    f = random_mte(rng, X, (), cuts=3).normalize()
    shift = shift * scale
    moved = Continuous("x", (shift, 4 * scale + shift))
    pieces = [
        Piece(
            {"x": tuple(min(end * scale + shift, moved.domain[1]) for end in p.box["x"])}, {}, p.constant / scale,
            [(a / scale, {"x": b["x"] / scale}, {"x": s["x"] * scale + shift}) for a, b, s in p.terms],
        )
        for p in f.pieces
    ]  # fmt: skip
    g = MTE(moved, (), pieces, normalize=None)
    rounding = max(1e-12, 1e-15 * abs(shift) / scale)  # of the ends of the pieces
    assert g.integral() == pytest.approx(1, rel=rounding)
    assert g.mean() == pytest.approx(f.mean() * scale + shift, rel=1e-12, abs=rounding * scale)
    assert g.var() == pytest.approx(f.var() * scale**2, rel=10 * rounding)
    x = rng.uniform(0.01, 3.99, 30)
    np.testing.assert_allclose(g.cdf(x * scale + shift), f.cdf(x), atol=10 * rounding)


# -- cancelling terms -----------------------------------------------------------------------------------------------


def cobb_shenoy(mean: float, sd: float) -> MTE:
    return MTE.from_gaussian(Continuous("x"), mean, sd**2, method="cobb-shenoy", normalize=None)


@pytest.mark.parametrize(
    "count", [1, 2, 3, 4, pytest.param(6, marks=pytest.mark.slow), pytest.param(8, marks=pytest.mark.slow)]
)
def test_products_of_cobb_shenoy_normals_keep_their_digits(count):
    rng = np.random.default_rng(count)
    factors = [cobb_shenoy(float(m), 1.0 + 0.1 * i) for i, m in enumerate(rng.uniform(-1, 1, count))]
    product = factors[0]
    for factor in factors[1:]:
        product = product * factor
    pieces = [f.pieces for f in factors]
    cuts = sorted({float(end) for ps in pieces for p in ps for end in p.box["x"]})

    def density(x: Any) -> Any:
        return mp.fprod(
            sum(
                mp.mpf(p.constant)
                + sum(mp.mpf(c) * mp.exp(mp.mpf(b["x"]) * (x - mp.mpf(a["x"]))) for c, b, a in p.terms)
                for p in ps
                if p.box["x"][0] <= x < p.box["x"][1]
            )
            for ps in pieces
        )

    with mp.workdps(40):
        low = max(float(ps[0].box["x"][0]) for ps in pieces)
        high = min(float(ps[-1].box["x"][1]) for ps in pieces)
        inner = [c for c in cuts if low <= c <= high]
        mass, first = mp.mpf(0), mp.mpf(0)
        for a, b in itertools.pairwise(inner):
            mass += mp.quad(density, [a, b])
            first += mp.quad(lambda x: x * density(x), [a, b])
    assert product.condition < 1e4
    assert repr(product).startswith("f(x) = product of" if count > 4 else "f(x) =\n")
    assert close(product.integral(), mass, product.condition, 1e-15)
    assert abs(product.integral() / float(mass) - 1) < 2e-12  # whatever the condition of the terms multiplied out
    assert product.mean() == pytest.approx(float(first / mass), abs=3e-11)


def test_quadrature_keeps_exponents_in_other_variables():
    rng = np.random.default_rng(5)
    f, g = random_mte(rng, X, (Y,), steep=6.0), random_mte(rng, Z, (X, C), steep=6.0)
    h = random_mte(rng, X, (), steep=6.0)
    closed = as_kind(hb.MTE, (f * g * h).marginalize("x"))
    product = f * g * h
    continuous = [v.name for v in product._columns if isinstance(v, Continuous)]
    by_nodes = algebra._integrate_numerically(product._blocks, continuous.index("x"))
    other = MTE._of(closed.variables, [by_nodes])
    y, z, c = rng.uniform(-2, 2, 40), rng.uniform(10, 11, 40), rng.choice(["a", "b"], 40).astype(object)
    np.testing.assert_allclose(other(y=y, z=z, c=c), closed(y=y, z=z, c=c), rtol=1e-13)


def test_quadrature_on_endless_pieces():
    x = Continuous("x")
    parts = [
        MTE(
            x,
            pieces=[
                Piece({"x": (-INF, m)}, terms=[(1, {"x": b}, {"x": m})]),
                Piece({"x": (m, INF)}, terms=[(1, {"x": -b}, {"x": m})]),
            ],
            normalize=True,
        )
        for m, b in ((0, 1), (1, 3), (0.5, 20))
    ]
    product = parts[0] * parts[1] * parts[2]
    by_nodes = algebra._integrate_numerically(product._blocks, 0).total()[0]
    assert by_nodes == pytest.approx(product._terms.total()[0], rel=1e-13)
    assert product.integral() == pytest.approx(by_nodes, rel=1e-13)


def test_cancelled_rates_are_zero_and_equal_ones_merged():
    f = MTE(X, pieces=[Piece({"x": (0, 4)}, terms=[(1, {"x": 0.1}), (1, {"x": 0.2})])], normalize=None)
    g = MTE(X, pieces=[Piece({"x": (0, 4)}, terms=[(1, {"x": -0.1}), (1, {"x": -0.2})])], normalize=None)
    assert sorted((f * g)._terms.rates[:, 0].tolist()) == [-0.1, 0.0, 0.1]
    h = MTE(X, pieces=[Piece({"x": (0, 4)}, terms=[(1, {"x": 0.30000000000000004})])], normalize=None)
    k = MTE(X, pieces=[Piece({"x": (0, 4)}, terms=[(1, {"x": -0.3})])], normalize=None)
    assert (h * k)._terms.rates[0, 0] == 0


def test_condition_is_tracked_through_operations():
    f = cobb_shenoy(0, 1)
    assert 500 < f.condition < 1500
    assert (f * 7).condition == pytest.approx(f.condition)
    positive = MTE(Y, (Continuous("x"),), [Piece({"x": (-9, 9), "y": (-2, 2)}, constant=0.25)])
    assert as_kind(hb.MTE, (positive * f).marginalize("x")).condition == pytest.approx(f.condition, rel=1e-6)
    assert random_mte(np.random.default_rng(0), X, (C,)).condition == 1


@pytest.mark.parametrize("parents", [(X,), (D,), (X, D)])
def test_integrals_run_over_variables_on_which_no_factor_depends(parents):
    rng = np.random.default_rng(len(parents))
    ends, factors = {v.name: v.domain for v in parents if isinstance(v, Continuous)}, []
    for one in (random_mte(rng, Y, ()), random_mte(rng, C, (Y,))):
        pieces = [Piece({**p.box, **ends}, p.given, p.constant, p.terms) for p in one.pieces]
        factors.append(MTE(one.child, (*one.parents, *parents), pieces, normalize=None))
    wanted = exact([f.pieces for f in factors], (Y, C, *parents))
    for joint in (factors[0] * factors[1], factors[1] * factors[0]):
        assert close(joint.integral(), wanted, joint.condition)
        assert joint.condition == pytest.approx(1)
        for names in itertools.permutations([v.name for v in parents]):
            rest = as_kind(hb.MTE, joint.marginalize(*names))
            assert close(rest.integral(), wanted, rest.condition)


# -- edges of the algebra -------------------------------------------------------------------------------------------


def test_numbers_come_out_where_no_variable_is_left():
    f = MTE(X, pieces=[Piece({"x": (0, 4)}, constant=0.25)])
    assert f.marginalize("x") == 1.0
    assert f.restrict({"x": 4}) == 0.25
    assert isinstance(f.marginalize("x"), float)


def test_a_restriction_outside_all_pieces_is_zero():
    x = Continuous("x")
    f = MTE(x, (C,), [Piece({"x": (0, 1)}, {"c": "a"}, 1), Piece({"x": (0, 2)}, {"c": "b"}, 0.5)])
    assert as_kind(hb.MTE, f.restrict({"x": 7.0})).integral() == 0
    within = as_kind(hb.MTE, f.restrict({"x": 1.5}))
    assert within(c="a") == 0
    assert within(c="b") == 0.5
    assert as_kind(hb.MTE, f.restrict({"x": (5, 6)})).integral() == 0


def test_intervals_are_closed_and_may_be_objects():
    class Interval:
        low, high = 1, 3

    f = MTE(X, pieces=[Piece({"x": (0, 4)}, constant=0.25)])
    part = as_kind(hb.MTE, f.restrict({"x": Interval()}))
    assert part.integral() == 0.5
    assert part(x=3.0) == 0.25
    assert part(x=3.1) == 0


def test_normalize_for_every_configuration_of_some_variables():
    rng = np.random.default_rng(3)
    f = random_mte(rng, Y, (C, D), cuts=3)
    g = f.normalize(given=("d",))
    for state in D.states:
        assert as_kind(hb.MTE, g.restrict({"d": state})).integral() == pytest.approx(1, rel=1e-14)
    assert g.scope[0] == "d"
    assert f.normalize().integral() == pytest.approx(1, rel=1e-14)
    with pytest.raises(NetworkError, match=r"mass varies with 'x'"):
        random_mte(rng, Y, (X,)).normalize(given="x")


def test_factors_of_other_families_are_welcome_when_discrete():
    class Coin(Potential):
        child, parents = C, ()

        def on(self, axes):
            return np.array([0.25, 0.75])[axes["c"]], 0.0

    f = MTE(
        X,
        (C,),
        [Piece({"x": (0, 4)}, {"c": "a"}, 0.25), Piece({"x": (0, 4)}, {"c": "b"}, 0, [(1, {"x": -1})])],
        normalize=True,
    )
    assert as_kind(hb.MTE, (f * Coin()).restrict({"c": "a"})).integral() == pytest.approx(0.25)
    assert (f * Coin()).child == X


@pytest.mark.parametrize(
    ("operation", "message"),
    [
        (lambda f: f * -1, "finite numbers >= 0"),
        (lambda f: f * math.nan, "finite numbers >= 0"),
        (lambda f: f.marginalize("q"), "no variable 'q'"),
        (lambda f: f.restrict({"q": 1}), "no variable 'q'"),
        (lambda f: f.restrict({"x": (2, 1)}), "interval .* is empty"),
        (lambda f: f.restrict({"x": None}), "missing"),
        (lambda f: f.restrict({"c": None}), "missing"),
        (lambda f: f.mean(), "one continuous variable"),
        (lambda f: f.marginalize("c").quantile(1.5), "between 0 and 1"),
        (lambda f: f * MTE(Continuous("x"), pieces=[Piece({"x": (0, 1)}, constant=1)]), "'x' differs"),
        (lambda f: f.normalize(given=("x", "c")), "not given"),
    ],
)
def test_operations_that_make_no_sense_are_refused(operation, message):
    f = MTE(X, (C,), [Piece({"x": (0, 4)}, constant=0.25)])
    with pytest.raises(NetworkError, match=message):
        operation(f)


def test_evidence_outside_the_domain_is_refused():
    f = MTE(X, (C,), [Piece({"x": (0, 4)}, constant=0.25)])
    with pytest.raises(TableError, match="outside its domain"):
        f.restrict({"x": 5})
    with pytest.raises(TableError, match="no state 'q'"):
        f.restrict({"c": "q"})


def test_an_infinite_integral_is_refused():
    f = MTE(Y, (Continuous("x"),), [Piece({"y": (-2, 2)}, constant=0.25)])
    with pytest.raises(NetworkError, match="infinite"):
        f.integral()
    assert f.condition == 1
    product = f * MTE(C, (Y,), [Piece({"y": (-2, 2)}, {"c": state}, constant=0.5) for state in C.states])
    with pytest.raises(NetworkError, match="infinite"):
        product.integral()


@pytest.mark.parametrize("multiplied", [True, False])
def test_products_are_integrated_cell_by_cell(multiplied: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Moments of a product of two densities in uneven cells, some across pieces, by terms and by quadrature."""
    x = Continuous("x", domain=(-1, 5))
    first = MTE(
        x,
        pieces=[Piece({"x": (-1, 1)}, constant=0.3), Piece({"x": (1, 5)}, constant=0.1, terms=[(2.0, {"x": -0.7})])],
        normalize=True,
    )
    second = MTE(
        x,
        pieces=[
            Piece({"x": (-1, 2)}, terms=[(1.0, {"x": 0.4})]),
            Piece({"x": (2, 5)}, constant=0.2, terms=[(0.5, {"x": -1.1})]),
        ],
        normalize=True,
    )
    blocks = [*first._blocks, *second._blocks]
    if not multiplied:
        monkeypatch.setattr(algebra, "_can_multiply_out", lambda blocks: False)
    edges, centers = np.array([-1.0, -0.2, 0.9, 2.6, 3.0, 5.0]), np.array([0.0, 0.5, 1.0, 2.0, 4.0])
    found = algebra.integrate_product_cells(blocks, edges, 2, centers)
    assert found.shape == (3, 5)
    for cell, (low, high) in enumerate(itertools.pairwise(edges)):
        for order in range(3):
            expected, _ = integrate.quad(
                lambda z, k=order, c=cell: first(x=z) * second(x=z) * (z - centers[c]) ** k,
                low,
                high,
                points=[1.0, 2.0],
                epsabs=1e-13,
            )
            assert found[order, cell] == pytest.approx(expected, rel=1e-9, abs=1e-12)


def test_the_condition_of_a_marginal_whose_pieces_overlap_counts_all_terms():
    pieces = [
        Piece({"x": (0, 1), "y": (-2, 2)}, terms=[(1.0, {"y": 0.5}), (-0.3, {"y": 0.45})]),
        Piece({"x": (1, 4), "y": (-2, 1)}, terms=[(2.0, {"y": -1.0}), (-1.2, {"y": -0.9})]),
        Piece({"x": (1, 4), "y": (1, 2)}, constant=0.25),
    ]
    marginal = as_kind(hb.MTE, MTE(Y, (X,), pieces, normalize=None).marginalize("x"))

    def integrals(piece):
        (left, right), (low, high) = piece.box["x"], piece.box["y"]
        yield (right - left) * piece.constant * (high - low)
        for size, rates in piece.terms:
            rate = rates["y"]
            yield (right - left) * size * (math.exp(rate * high) - math.exp(rate * low)) / rate

    parts = np.array([part for piece in pieces for part in integrals(piece)])
    assert marginal.integral() == pytest.approx(parts.sum())
    assert marginal.condition == pytest.approx(np.abs(parts).sum() / parts.sum())
