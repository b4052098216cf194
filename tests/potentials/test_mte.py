"""The MTE as a potential: what it accepts, its values on all kinds of axes, masses, sampling, files, text."""

from __future__ import annotations

import copy
import functools
import itertools
import json
import math
import pickle
from decimal import Decimal
from typing import Any

import mpmath as mp
import numpy as np
import pytest
from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from mte_oracle import random_mte
from narrowing import as_kind

import hybridbn as hb
from hybridbn.errors import NetworkError, TooWide
from hybridbn.potentials.base import Potential
from hybridbn.potentials.mte import MTE, Piece, evaluation
from hybridbn.variables import Continuous, Discrete

INF = math.inf
X, Y = Continuous("x"), Continuous("y")
C = Discrete("c", ("a", "b"))
seeds = st.integers(0, 2**32 - 1)

EXAMPLE_1 = [
    Piece({"x": (0.4, 5), "y": (0, 13)}, constant=1.26, terms=[(-1.15, {"y": 0.006})]),
    Piece({"x": (0.4, 5), "y": (13, 43)}, constant=1.18, terms=[(-1.16, {"y": 0.0002})]),
    Piece({"x": (5, 19), "y": (0, 5)}, constant=0.07, terms=[(-0.03, {"y": -0.4}), (0.0001, {"y": 0.0004})]),
    Piece({"x": (5, 19), "y": (5, 43)}, constant=-0.99, terms=[(1.03, {"y": 0.001})]),
]


def uniform(variable, low, high, **options):
    return Piece({variable.name: (low, high)}, constant=1 / (high - low), **options)


# -- the published example ------------------------------------------------------------------------------------------


def test_example_1_is_refused_as_printed():
    with pytest.raises(NetworkError, match=r"1\.24 for 0\.4 <= x < 5; 2\.76 for 5 <= x < 19.*normalize=True"):
        MTE(Y, (X,), EXAMPLE_1)


def test_example_1_can_be_normalized_or_kept():
    kept, made = MTE(Y, (X,), EXAMPLE_1, normalize=None), MTE(Y, (X,), EXAMPLE_1, normalize=True)
    assert kept.mass_error == made.mass_error == pytest.approx(1.7587858575241295)
    for x in (1.0, 7.0):
        assert as_kind(hb.MTE, made.restrict({"x": x})).integral() == pytest.approx(1, rel=1e-15)
        assert as_kind(hb.MTE, made.restrict({"x": x})).mean() == pytest.approx(
            as_kind(hb.MTE, kept.restrict({"x": x})).mean(), rel=1e-14
        )
    assert kept(x=1.0, y=2.0) == pytest.approx(1.26 - 1.15 * math.exp(0.012), rel=1e-14)
    assert kept.cellwise("x")
    assert not kept.cellwise("y")
    assert kept.breaks("y").tolist() == [0, 5, 13, 43]
    assert kept.breaks("x").tolist() == [0.4, 5, 19]
    assert kept.support("y") == (0, 43)
    assert kept.support("y", within={"x": (1.0, 1.0)}) == (0, 43)
    assert kept.scale("y") == 2.5


def test_example_1_reads_as_printed():
    assert repr(MTE(Y, (X,), EXAMPLE_1, normalize=None)).splitlines() == [
        "f(y | x) =",
        "  1.26 - 1.15 exp(0.006 y)                        if 0.4 <= x < 5, 0 <= y < 13",
        "  1.18 - 1.16 exp(0.0002 y)                       if 0.4 <= x < 5, 13 <= y < 43",
        "  0.07 - 0.03 exp(-0.4 y) + 0.0001 exp(0.0004 y)  if 5 <= x < 19, 0 <= y < 5",
        "  -0.99 + 1.03 exp(0.001 y)                       if 5 <= x < 19, 5 <= y < 43",
    ]


def test_text_of_other_forms():
    shifted = MTE(
        X,
        pieces=[Piece({"x": (1e6, 1e6 + 1)}, terms=[("8.8106930962166154511766757933366383674e+1302883", {"x": -3})])],
    )
    assert repr(shifted) == "f(x) =\n  3.15719 exp(-3 (x - 1000000))  if 1000000 <= x < 1000001"
    many = MTE(X, pieces=[Piece({"x": (i, i + 1)}, constant=0.05) for i in range(20)])
    assert repr(many).splitlines()[-1] == "  ... (20 pieces in all)"
    given_c = MTE(C, (X,), [Piece(given={"c": "a"}, constant=0.25), Piece(given={"c": "b"}, constant=0.75)])
    assert repr(given_c) == "P(c | x) =\n  0.25  if c = 'a'\n  0.75  if c = 'b'"
    joint = MTE(Y, (X,), [Piece({"x": (0, 1), "y": (0, 1)}, terms=[(1, {"x": 2, "y": -1})])], normalize=None)
    assert "1 exp(2 x - y)" in repr(joint)


# -- what is refused ------------------------------------------------------------------------------------------------

REFUSED: list[tuple[str, Any, str]] = [
    ("no pieces", lambda: MTE(X, pieces=[]), "at least one piece"),
    ("not a piece", lambda: MTE(X, pieces=[{"x": (0, 1)}]), "'x', piece 0: .* is not a Piece"),  # type: ignore[list-item]
    (
        "stranger in box",
        lambda: MTE(X, pieces=[Piece({"q": (0, 1)}, constant=1)]),
        r"piece 0: box mentions 'q'.*are 'x'",
    ),
    ("stranger in given", lambda: MTE(X, pieces=[Piece({"x": (0, 1)}, {"q": 1}, 1)]), "given mentions 'q'"),
    ("stranger in terms", lambda: MTE(X, pieces=[Piece({"x": (0, 1)}, terms=[(1, {"q": 1})])]), "terms mentions 'q'"),
    ("number as state", lambda: MTE(X, (C,), [Piece({"x": (0, 1), "c": (0, 1)}, constant=1)]), "box mentions 'c'"),
    ("unknown state", lambda: MTE(X, (C,), [Piece({"x": (0, 1)}, {"c": "z"}, 1)]), "piece 0: 'c' has no state 'z'"),
    ("empty box", lambda: MTE(X, pieces=[Piece({"x": (1, 1)}, constant=1)]), r"box of 'x' is \[1.0, 1.0\)"),
    ("outside the domain", lambda: MTE(Continuous("x", (0, 1)), pieces=[Piece({"x": (0, 2)}, constant=0.5)]), "domain"),
    (
        "gap",
        lambda: MTE(X, pieces=[Piece({"x": (0, 1)}, constant=0.5), Piece({"x": (2, 3)}, constant=0.5)]),
        r"gap.*1 <= x < 2",
    ),
    (
        "overlap",
        lambda: MTE(X, pieces=[Piece({"x": (0, 2)}, constant=0.25), Piece({"x": (1, 3)}, constant=0.25)]),
        r"pieces 0 and 1 overlap at 1 <= x < 2",
    ),
    (
        "same state twice",
        lambda: MTE(X, (C,), [uniform(X, 0, 1), uniform(X, 0, 1, given={"c": "b"})]),
        r"overlap at c = 'b', 0 <= x < 1",
    ),
    ("state forgotten", lambda: MTE(X, (C,), [uniform(X, 0, 1, given={"c": "a"})]), r"gap.*c = 'b'"),
    (
        "gap in a parent",
        lambda: MTE(X, (Y,), [Piece({"x": (0, 1), "y": (a, a + 1)}, constant=1) for a in (0, 2)]),
        r"gap.*1 <= y < 2",
    ),
    ("state of the child forgotten", lambda: MTE(C, (X,), [Piece({"x": (0, 1)}, {"c": "a"}, 1)]), r"gap.*c = 'b'"),
    (
        "negative",
        lambda: MTE(X, pieces=[Piece({"x": (0, 1)}, constant=1, terms=[(-3, {"x": -2})])], normalize=True),
        r"negative: its minimum is -2 at x = 0",
    ),
    (
        "negative inside",
        lambda: MTE(
            X,
            pieces=[
                Piece(
                    {"x": (0, 2)},
                    constant=2.01 - 1e-1,
                    terms=[(1, {"x": 1}, {"x": 1}), (1, {"x": -1}, {"x": 1}), (-3.92, {})],
                )
            ],
            normalize=None,
        ),
        r"its minimum is -0\.01 at x = 1",
    ),
    ("negative number", lambda: MTE(X, pieces=[Piece({"x": (0, 1)}, constant=-1)], normalize=None), "negative"),
    ("endless constant", lambda: MTE(X, pieces=[Piece({"x": (0, INF)}, constant=1)]), "does not decay along x"),
    ("endless growth", lambda: MTE(X, pieces=[Piece({"x": (0, INF)}, terms=[(1, {"x": 1})])]), "does not decay"),
    (
        "growth along a parent",
        lambda: MTE(X, (Y,), [Piece({"x": (0, 1)}, terms=[(1, {"y": -1})])]),
        "box of 'y' ends at -inf",
    ),
    ("wrong mass", lambda: MTE(X, pieces=[Piece({"x": (0, 1)}, constant=1.1)]), r"it is 1\.1; normalize=True"),
    ("mass slightly wrong", lambda: MTE(X, pieces=[Piece({"x": (0, 1)}, constant=1.00001)]), r"it is 1\+1e-05"),
    ("mass varies", lambda: MTE(X, (Y,), [Piece({"x": (0, 1), "y": (0, 1)}, terms=[(1, {"y": 1})])]), r"1 to 2\.718"),
    (
        "can't be normalized",
        lambda: MTE(X, (Y,), [Piece({"x": (0, 1), "y": (0, 1)}, terms=[(1, {"y": 1})])], normalize=True),
        "varies with the parents",
    ),
    ("no mass", lambda: MTE(X, pieces=[Piece({"x": (0, 1)})], normalize=True), "mass is 0"),
    (
        "too large",
        lambda: MTE(X, pieces=[Piece({"x": (0, 1)}, terms=[("1e400", {"x": -1})])]),
        "beyond the range of floats",
    ),
    ("nan", lambda: Piece({"x": (0, 1)}, constant=math.nan), "finite"),
    ("infinite rate", lambda: Piece({"x": (0, 1)}, terms=[(1, {"x": INF})]), "rate of 'x' must be finite"),
    ("text", lambda: Piece({"x": (0, 1)}, constant="one"), "must be a number, not 'one'"),
    ("true", lambda: Piece({"x": (0, True)}), "must be a number, not True"),
    ("not a pair", lambda: Piece({"x": 3}), r"\(low, high\)"),  # type: ignore[dict-item]
    ("not a term", lambda: Piece({"x": (0, 1)}, terms=[(1,)]), "a term is"),
    ("box is no mapping", lambda: Piece((0, 1)), "mapping"),  # type: ignore[arg-type]
    (
        "anchor without rate",
        lambda: MTE(X, pieces=[Piece({"x": (0, 1)}, terms=[(1, {}, {"x": 1})])]),
        "anchor for 'x', but no rate",
    ),
    (
        "second anchor without rate",
        lambda: MTE(Y, (X,), [Piece({"x": (0, 1), "y": (0, 1)}, terms=[(1, {"x": 1}, {"x": 0, "y": 1})])]),
        "anchor for 'y', but no rate",
    ),
    ("parent is the child", lambda: MTE(X, (X,), [uniform(X, 0, 1)]), "more than once"),
]


@pytest.mark.parametrize(("make", "message"), [pytest.param(m, t, id=i) for i, m, t in REFUSED])
def test_refused(make, message):
    with pytest.raises(NetworkError, match=message):
        make()


def test_too_many_cells_are_refused_before_memory_is_taken():
    many = [Continuous(f"x{i}") for i in range(8)]
    pieces = [
        Piece({v.name: (0.1 * k, 0.1 * k + 0.01 * (i + 1)) for i, v in enumerate(many)}, constant=1) for k in range(9)
    ]
    with pytest.raises(TooWide, match="grid of"):
        MTE(many[0], many[1:], pieces)


def test_what_touches_zero_is_accepted():
    e = math.e
    assert MTE(X, pieces=[Piece({"x": (0, 1)}, constant=e, terms=[(-e, {"x": -1})])])(x=0.0) == 0
    squared = [(1, {"x": 2}), (-2, {"x": 1})]  # (exp(x) - 1)**2, zero inside
    assert MTE(X, pieces=[Piece({"x": (-1, 1)}, constant=1, terms=squared)], normalize=True)(x=0.0) < 1e-15


def test_pieces_may_reach_less_far_than_the_domain():
    x = Continuous("x", (-6, 6))
    f = MTE(x, (C,), [uniform(x, -3, 3, given={"c": "a"}), uniform(x, -4, 5, given={"c": "b"})])
    np.testing.assert_allclose(f(x=[-3.5, 0, 3.0, 4.9, 5.0, 5.5], c="a"), [0, 1 / 6, 0, 0, 0, 0])
    np.testing.assert_allclose(f(x=[-4.5, -4, 3.0, 4.9, 5.0], c="b"), [0, 1 / 9, 1 / 9, 1 / 9, 0])


def test_numbers_beyond_floats_are_read_exactly():
    piece = Piece(
        {"x": ("1e6", Decimal(1000001))},
        terms=[("8.8106930962166154511766757933366383674066400698675e+1302883", {"x": "-3"})],
    )
    f = MTE(X, pieces=[piece])
    assert f.mass_error < 1e-15
    assert f(x=1e6) == pytest.approx(3 / (1 - math.exp(-3)), rel=1e-15)
    assert f.mean() - 1e6 == pytest.approx(0.280937636842077381, rel=1e-9)
    assert f.var() == pytest.approx(0.05597010560905134786234834, rel=1e-13)
    mixed = MTE(
        X, pieces=[Piece({"x": (0, 1)}, constant=np.float64(0.5), terms=[(np.int64(1), {"x": 0}), ("-0.5", {})])]
    )
    assert mixed(x=0.5) == 1


# -- values ---------------------------------------------------------------------------------------------------------


def slow(pieces, tops, **values):
    """Evaluate one point straight from the pieces."""
    ends = {n: max(p.box[n][1] for p in pieces) for n in tops}
    for p in pieces:
        boxes = all(
            a <= values[n] < b or (values[n] == b == ends[n] and tops[n] in (INF, b)) for n, (a, b) in p.box.items()
        )
        if boxes and all(values[n] == s for n, s in p.given.items()):
            return p.constant + sum(c * math.exp(sum(b[n] * (values[n] - a[n]) for n in b)) for c, b, a in p.terms)
    return 0.0


@functools.lru_cache
def hybrid_of(seed):
    x, y, z = Continuous("x", (0, 4)), Continuous("y", (-2, 2)), Continuous("z", (10, 11))
    return random_mte(np.random.default_rng(seed), y, (x, C, z), cuts=3)


def hybrid(seed):
    return np.random.default_rng(seed), hybrid_of(seed % 5)


def points(rng, f, name, shape):
    v = f.variable(name)
    if isinstance(v, Discrete):
        return rng.integers(0, len(v), shape)
    low, high = v.domain
    values = rng.uniform(low - 0.1, high + 0.1, shape)
    flat = values.reshape(-1)
    special = [low, high, *f.breaks(name)]
    flat[: len(special)] = special[: len(flat)]
    return values


@given(
    seeds,
    st.tuples(*[st.booleans()] * 4),
    st.tuples(*[st.integers(1, 5)] * 4),
    st.integers(1, 9),
    st.sampled_from([0, 4096]),
)
@settings(max_examples=examples(60), deadline=None)
def test_on_is_the_slow_evaluation_whatever_the_axes(seed, per_row, sizes, rows, small):
    rng, f = hybrid(seed)
    axes = {n: points(rng, f, n, (k, rows) if r else (k,)) for n, k, r in zip(f.scope, sizes, per_row, strict=True)}
    before, evaluation._SMALL = evaluation._SMALL, small
    try:
        got, scale = f.on(axes)
    finally:
        evaluation._SMALL = before
    assert got.shape == (*sizes, rows) if any(per_row) else sizes
    logs = f.log_on(axes)
    values = got * np.exp(scale)
    pieces, tops = f.pieces, {"x": 4.0, "y": 2.0, "z": 11.0}
    for number in rng.choice(got.size, min(got.size, 60), replace=False):
        index = np.unravel_index(number, got.shape)
        at = {}
        for n, i in zip(f.scope, index, strict=False):
            value = axes[n][i] if axes[n].ndim == 1 else axes[n][i, index[-1]]
            at[n] = C.states[value] if n == "c" else float(value)
        wanted = slow(pieces, tops, **at)
        assert values[index] == pytest.approx(wanted, rel=1e-13, abs=1e-15)
        assert logs[index] == (pytest.approx(math.log(wanted), rel=1e-12, abs=1e-13) if wanted else -INF)


def test_many_rows_are_evaluated_in_blocks():
    rng, f = hybrid(1)
    axes = {
        "x": rng.uniform(0, 4, (1, 50_000)),
        "c": rng.integers(0, 2, (1, 50_000)),
        "z": np.array([10.1, 10.8]),
        "y": rng.uniform(-2, 2, (1, 50_000)),
    }
    whole = f.on(axes)[0]
    for rows in (slice(0, 100), slice(49_000, 50_000)):
        part = f.on({n: a if a.ndim == 1 else a[:, rows] for n, a in axes.items()})[0]
        np.testing.assert_allclose(whole[..., rows], part, rtol=1e-14)
    assert whole.shape == (1, 1, 2, 1, 50_000)


def test_boxes_are_half_open_and_the_last_is_closed():
    f = MTE(X, pieces=[Piece({"x": (0, 1)}, constant=0.25), Piece({"x": (1, 2)}, constant=0.75)])
    np.testing.assert_array_equal(f(x=[-1e-9, 0.0, 1 - 1e-9, 1.0, 2.0, 2 + 1e-9]), [0, 0.25, 0.25, 0.75, 0.75, 0])


def test_values_that_underflow_keep_their_logarithm():
    f = MTE(
        X,
        pieces=[Piece({"x": (0, 20)}, terms=[("2.5379794487747283826459047397871684596527996414464e-433", {"x": 50})])],
    )
    values, log_scale = f.on({"x": np.array([[0.0, 19.9, 30.0]])})
    logs = np.log(values[0]) + log_scale if (values > 0).all() else np.log(np.maximum(values[0], 1e-300)) + log_scale
    assert logs[0] == pytest.approx(math.log(50) - 1000, rel=1e-15)
    assert logs[1] == pytest.approx(math.log(50) - 5, rel=1e-14)
    assert values[0, 2] == 0
    assert f.log_on({"x": np.array([0.0])})[0] == pytest.approx(math.log(50) - 1000, rel=1e-15)
    shared, scale = f.on({"x": np.array([0.0, 1.0])})
    assert shared[1] == 1
    assert scale == pytest.approx(math.log(50) - 950, rel=1e-15)


def test_every_state_and_the_whole_domain_when_not_mentioned():
    f = MTE(X, (C, Y), [uniform(X, 0, 2)])
    assert f(x=1.0, c="b", y=1e9) == 0.5
    assert f.support("y") == (-INF, INF)
    assert f.breaks("y").size == 0


# -- masses and sampling --------------------------------------------------------------------------------------------


@given(seeds, st.booleans(), st.booleans())
@settings(max_examples=examples(25), deadline=None)
def test_masses_and_moments_on_shared_and_per_row_edges(seed, row_edges, row_parents):
    rng, f = hybrid(seed)
    rows = 3
    parents = {n: points(rng, f, n, (2, rows) if row_parents else (2,)) for n in ("x", "c", "z")}
    edges = np.sort(rng.uniform(-2.5, 2.5, (4, rows)), axis=0) if row_edges else np.sort(rng.uniform(-2.5, 2.5, 4))
    got, _ = f.mass(parents, edges)
    moments, _ = f.moments(parents, edges, 2, center=0.5)
    assert got.shape == ((2, 2, 2, 3, rows) if row_edges or row_parents else (2, 2, 2, 3))
    nodes, weights = np.polynomial.legendre.leggauss(30)
    for index in itertools.islice(np.ndindex(got.shape), 0, None, 7):
        row = index[-1] if row_edges or row_parents else 0
        at = {
            n: (parents[n][i, row] if row_parents else parents[n][i])
            for n, i in zip(("x", "c", "z"), index, strict=False)
        }
        low, high = edges[index[3] : index[3] + 2, row] if row_edges else edges[index[3] : index[3] + 2]
        cuts = [low, *[b for b in f.breaks("y") if low < b < high], high]
        wanted = np.zeros(3)
        for a, b in itertools.pairwise(cuts):
            y = a + (b - a) * (nodes + 1) / 2
            values = f(y=y, x=at["x"], z=at["z"], c=C.states[int(at["c"])])
            wanted += [(weights * values * (y - 0.5) ** k).sum() * (b - a) / 2 for k in range(3)]
        assert got[index] == pytest.approx(wanted[0], rel=1e-12, abs=1e-14)
        np.testing.assert_allclose([m[index] for m in moments], wanted, rtol=1e-11, atol=1e-13)


def test_endless_edges():
    f = MTE(
        X, pieces=[Piece({"x": (-INF, 0)}, terms=[(0.5, {"x": 1})]), Piece({"x": (0, INF)}, terms=[(0.5, {"x": -1})])]
    )
    np.testing.assert_allclose(
        f.mass({}, np.array([-INF, -1, 2, INF]))[0],
        [math.exp(-1) / 2, 1 - math.exp(-1) / 2 - math.exp(-2) / 2, math.exp(-2) / 2],
        rtol=1e-15,
    )
    per_row = f.mass({}, np.array([[-INF, 0.0], [0.0, 1.0]]))[0]
    np.testing.assert_allclose(per_row, [[0.5, (1 - math.exp(-1)) / 2]], rtol=1e-15)
    assert f.mean() == 0
    assert f.var() == pytest.approx(2, rel=1e-15)
    low, high = f.support("x", 1e-12)
    assert f.cdf(low) < 1e-12
    assert 1 - f.cdf(high) < 1e-12
    assert 27 < high < 30


DENSITIES = {
    "uniform": [uniform(X, 2, 5)],
    "one exponential": [Piece({"x": (0, 3)}, terms=[(1, {"x": -2})])],
    "touches zero": [Piece({"x": (0, 1)}, constant=math.e, terms=[(-math.e, {"x": -1})])],
    "zero piece": [Piece({"x": (0, 1)}, constant=0.5), Piece({"x": (1, 2)}), Piece({"x": (2, 3)}, constant=0.5)],
    "steep": [Piece({"x": (0, 20)}, terms=[("2.537979e-433", {"x": 50})])],
    "shifted": [Piece({"x": (1e6, 1e6 + 1)}, terms=[(1, {"x": -3}, {"x": 1e6})])],
    "tiny rate": [Piece({"x": (0, 1)}, terms=[(1, {"x": 1e-12})])],
    "tails": [
        Piece({"x": (-INF, 0)}, terms=[(0.5, {"x": 1})]),
        Piece({"x": (0, INF)}, terms=[(0.2, {"x": -1}), (0.3, {"x": -5})]),
    ],
    "normal": MTE.from_gaussian(X, 0, 1).pieces,
}


@pytest.mark.parametrize("name", DENSITIES)
def test_quantiles_invert_the_distribution_function(name):
    f = MTE(X, pieces=DENSITIES[name], normalize=True)
    u = np.linspace(0, 1, 1001)
    x = np.asarray(f.quantile(u))
    assert np.isfinite(x).all()
    assert (np.diff(x) >= 0).all()
    np.testing.assert_allclose(f.cdf(x), u, atol=1e-10)
    np.testing.assert_allclose(f.cdf(x), u, atol=1e-14 * max(1, abs(x).max() / np.ptp(x)) * 30)
    low, high = float(f.pieces[0].box["x"][0]), float(f.pieces[-1].box["x"][1])
    if math.isfinite(low + high):
        assert x[0] == low
        assert x[-1] == pytest.approx(high, rel=1e-13)
    sample = f.sample({}, np.random.default_rng(0), 20_000)
    assert len(np.unique(sample)) > (19_998 if name != "shifted" else 19_950)  # floats near 1e6 are 1e-10 apart


@given(seeds)
@settings(max_examples=examples(15), deadline=None)
def test_ppf_of_rows_given_their_parents(seed):
    rng, f = hybrid(seed)
    rows = 200
    given_ = {"x": rng.uniform(0, 4, rows), "c": rng.integers(0, 2, rows), "z": rng.uniform(10, 11, rows)}
    u = rng.random(rows)
    y = f.ppf(u, given_)
    parents = {n: a[None] for n, a in given_.items()}
    below = f.mass(parents, np.stack([np.full(rows, -2.0), y]))[0].ravel()
    whole = f.mass(parents, np.array([-2.0, 2.0]))[0].ravel()
    np.testing.assert_allclose(below / whole, u, atol=1e-13)
    assert len(np.unique(y)) == rows


def test_a_discrete_child_of_a_continuous_parent():
    # a logistic-like curve from two pieces
    pieces = [
        Piece({"x": (-5, 0)}, {"c": "a"}, terms=[(0.5, {"x": 1})]),
        Piece({"x": (-5, 0)}, {"c": "b"}, 1, [(-0.5, {"x": 1})]),
        Piece({"x": (0, 5)}, {"c": "a"}, 1, [(-0.5, {"x": -1})]),
        Piece({"x": (0, 5)}, {"c": "b"}, terms=[(0.5, {"x": -1})]),
    ]
    f = MTE(C, (X,), pieces)
    assert f.mass_error < 1e-15
    assert not f.exact_mass
    x = np.repeat([-4.0, -0.5, 0.5, 4.0], 20_000)
    codes = f.sample({"x": x}, np.random.default_rng(0))
    chances = np.array([f(x=v, c="b") for v in (-4.0, -0.5, 0.5, 4.0)])
    np.testing.assert_allclose(codes.reshape(4, -1).mean(axis=1), chances, atol=4 * 0.5 / math.sqrt(20_000))
    assert f.ppf(np.array([0.0, 1.0]), {"x": np.array([1.0, 1.0])}).tolist() == [0, 1]
    with pytest.raises(NetworkError, match="discrete"):
        f.mass({"x": np.array([1.0])}, np.array([0.0, 1.0]))
    assert f.support("c") == (0, 1)


def test_states_of_no_probability_are_never_drawn():
    f = MTE(C, (), [Piece(given={"c": "a"}, constant=1), Piece(given={"c": "b"}, constant=0)])
    assert f.ppf(np.array([0.0, 0.5, 1.0]), {}).tolist() == [0, 0, 0]


def test_sampling_where_nothing_is_defined_is_refused():
    f = MTE(Y, (X,), EXAMPLE_1, normalize=True)
    with pytest.raises(NetworkError, match=r"'y' has no density at x = 99.0 \(row 1\)"):
        f.ppf(np.array([0.5, 0.5]), {"x": np.array([1.0, 99.0])})


# -- a value among values -------------------------------------------------------------------------------------------


def same(one, two, rng):
    axes = {n: points(rng, one, n, (7,)) for n in one.scope}
    return all(np.array_equal(a, b) for a, b in zip(one.on(axes), two.on(axes), strict=True))


@given(seeds)
@settings(max_examples=examples(10), deadline=None)
def test_dictionaries_are_exact(seed):
    rng, f = hybrid(seed)
    for g in (f, f * MTE(C, (), [Piece(constant=0.5)]), f.restrict({"z": 10.5, "x": (0.1, 3)})):
        state = g.to_dict()
        assert all(isinstance(v, list | float | str | np.ndarray | None) for v in state.values())
        again = MTE.from_dict(g.child, g.parents, state)
        assert same(g, again, rng)
        assert again.condition == g.condition
        assert all(np.array_equal(again.to_dict()[k], v) for k, v in state.items())
        assert repr(again) == repr(g)
    plain = json.loads(json.dumps({k: v.tolist() if isinstance(v, np.ndarray) else v for k, v in f.to_dict().items()}))
    assert same(f, MTE.from_dict(f.child, f.parents, plain), rng)


@pytest.mark.parametrize(
    "change",
    [
        {"coefficient": [math.nan]},
        {"coefficient": [1.0, 2.0]},
        {"low": [[5.0]]},
        {"codes": [[0]]},
        {"counts": [7]},
        {"blocks": [2]},
        {"rates": [[math.inf]]},
        {"extra": 1},
        {"counts": ["x"]},
        {"blocks": []},
        {"high": [[math.inf]], "rates": [[1.0]]},
    ],
)
def test_damaged_dictionaries_are_refused(change):
    state = MTE(X, pieces=[uniform(X, 0, 1)]).to_dict()
    with pytest.raises(NetworkError, match="'x'"):
        MTE.from_dict(X, (), {**state, **change})


def test_it_is_a_value():
    rng, f = hybrid(4)
    for g in (pickle.loads(pickle.dumps(f)), copy.deepcopy(f), copy.copy(f)):
        assert same(f, g, rng)
        assert not g._blocks[0].coefficient.flags.writeable
    with pytest.raises(AttributeError):
        f.child = X
    with pytest.raises(ValueError, match="read-only"):
        f._blocks[0].rates[0] = 1
    assert Potential.families["mte"] is MTE
    renamed = f.renamed({"x": "u"})
    assert renamed.scope == ("u", "c", "z", "y")
    assert renamed(u=1.0, c="a", z=10.5, y=0.0) == f(x=1.0, c="a", z=10.5, y=0.0)
    assert pickle.loads(pickle.dumps(EXAMPLE_1[0])) == EXAMPLE_1[0]
    assert len({*EXAMPLE_1, *EXAMPLE_1}) == 4


def test_its_own_pieces_make_it_again():
    rng, f = hybrid(9)
    again = MTE(f.child, f.parents, f.pieces, normalize=None)
    axes = {n: points(rng, f, n, (7,)) for n in f.scope}
    np.testing.assert_allclose(again.on(axes)[0], f.on(axes)[0], rtol=1e-15)


def test_a_mixed_scope_keeps_its_order():
    f = MTE(
        Y,
        (X, C),
        [
            Piece({"x": (0, 1), "y": (0, 1)}, {"c": s}, a, [(2 - 2 * a, {"y": 0, "x": 0})])
            for s, a in (("a", 1), ("b", 0.5))
        ],
        normalize=None,
    )
    values, _ = f.on({"x": np.array([0.1, 0.2, 0.3]), "c": np.array([0, 1]), "y": np.array([0.5])})
    assert values.shape == (3, 2, 1)
    np.testing.assert_allclose(values[0, :, 0], [1, 1.5])
    assert f.mass({"x": np.array([0.1, 0.2, 0.3]), "c": np.array([0, 1])}, np.array([0, 0.25, 0.5, 1]))[0].shape == (
        3,
        2,
        3,
    )


def test_digits_against_mpmath():
    rates, coefficients = [2.25, -1.5, 0.01, 1e-9], [0.5, 0.25, 3.0, 1.0]
    f = MTE(
        X,
        pieces=[
            Piece(
                {"x": (-1, 2.5)},
                constant=0.125,
                terms=[(c, {"x": b}) for c, b in zip(coefficients, rates, strict=True)],
            )
        ],
        normalize=None,
    )

    def density(x):
        return mp.mpf(0.125) + sum(mp.mpf(c) * mp.exp(mp.mpf(b) * x) for c, b in zip(coefficients, rates, strict=True))

    mass, first, second = (mp.quad(lambda x, k=k: x**k * density(x), [-1, 2.5]) for k in range(3))
    assert f.integral() == pytest.approx(float(mass), rel=2e-15)
    assert f.mean() == pytest.approx(float(first / mass), rel=5e-15)
    assert f.var() == pytest.approx(float(second / mass - (first / mass) ** 2), rel=1e-14)
    assert f.cdf(0.3) == pytest.approx(float(mp.quad(density, [-1, 0.3]) / mass), rel=5e-15)
    assert f.std() == math.sqrt(f.var())
    assert f.pdf(0.3) == pytest.approx(float(density(mp.mpf(0.3)) / mass), rel=1e-14)


@pytest.mark.parametrize("factor", [1e-3, 1.0, 50.0])
def test_the_support_is_relative_to_the_mass(factor):
    x = Continuous("x")
    pieces = [Piece({"x": (0, math.inf)}, terms=[(factor, {"x": -1.0})])]
    low, high = MTE(x, pieces=pieces, normalize=None).support("x", 1e-6)
    assert low == 0.0
    assert high == pytest.approx(-math.log(1e-6), abs=1.0)


@pytest.mark.parametrize("parts", [{"box": 5}, {"box": {}, "given": 5}, {"given": [("c", "a")]}])
def test_boxes_and_states_of_pieces_are_mappings(parts):
    with pytest.raises(NetworkError, match="must be a mapping from variables' names"):
        Piece(**parts)
