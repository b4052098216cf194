"""Tables of probabilities from counts."""

import numpy as np
import pytest
from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from narrowing import as_kind

import hybridbn as hb
from hybridbn.fitting import Dirichlet, MaximumLikelihood, MEstimate, MultinomialFitter

D = hb.Discrete("d", states=("x", "y", "never"))
C = hb.Discrete("c", states=("a", "b", "never"))
TABLE = hb.Table({"d": list("xxxy"), "c": list("aabb")}, variables=[D, C])

counts_2d = hnp.arrays(
    np.float64, st.tuples(st.integers(1, 4), st.integers(1, 5)), elements=st.integers(0, 20).map(float)
)


def test_m_estimate_by_hand():
    m = 2.0
    prior = np.array([2 + m / 3, 2 + m / 3, m / 3]) / (4 + m)
    by_hand = np.array(
        [
            (np.array([2, 1, 0]) + m * prior) / (3 + m),
            (np.array([0, 1, 0]) + m * prior) / (1 + m),
            prior,
        ]
    )
    np.testing.assert_allclose(
        as_kind(hb.Multinomial, MultinomialFitter().fit(TABLE, C, (D,))).table, by_hand, rtol=1e-15
    )
    np.testing.assert_allclose(as_kind(hb.Multinomial, MultinomialFitter().fit(TABLE, C)).table, prior, rtol=1e-15)
    uniform = as_kind(
        hb.Multinomial, MultinomialFitter(estimate=MEstimate(m=3, uniform=True)).fit(TABLE, C, (D,))
    ).table
    np.testing.assert_allclose(uniform, (np.array([[2, 1, 0], [0, 1, 0], [0, 0, 0]]) + 1) / [[6], [4], [3]])


def test_other_estimates_by_hand():
    laplace = as_kind(hb.Multinomial, MultinomialFitter(estimate=Dirichlet()).fit(TABLE, C, (D,))).table
    np.testing.assert_allclose(laplace, np.array([[3, 2, 1], [1, 2, 1], [1, 1, 1]]) / [[6], [4], [3]], rtol=1e-15)
    pseudo = as_kind(hb.Multinomial, MultinomialFitter(estimate=Dirichlet((1, 2, 5))).fit(TABLE, C, (D,))).table
    np.testing.assert_allclose(pseudo[2], [1 / 8, 2 / 8, 5 / 8])
    likely = as_kind(hb.Multinomial, MultinomialFitter(estimate=MaximumLikelihood()).fit(TABLE, C, (D,))).table
    np.testing.assert_allclose(likely, [[2 / 3, 1 / 3, 0.0], [0.0, 1.0, 0.0], [0.5, 0.5, 0.0]], rtol=1e-15)


@settings(max_examples=examples(60), deadline=None)
@given(counts_2d, st.floats(0.01, 50))
def test_estimates_are_positive_and_sum_to_one(counts, m):
    for estimate in (MEstimate(m), MEstimate(m, uniform=True), Dirichlet(m)):
        table = estimate(counts)
        assert (table > 0).all()
        np.testing.assert_allclose(table.sum(axis=-1), 1, rtol=1e-14)


@settings(max_examples=examples(40), deadline=None)
@given(counts_2d)
def test_estimates_tend_to_the_frequencies(counts):
    many = 1e9 * (counts + 1)
    for estimate in (MEstimate(), Dirichlet()):
        np.testing.assert_allclose(estimate(many), MaximumLikelihood()(many), atol=1e-7)


def test_three_dimensions_and_the_order_of_parents():
    rng = np.random.default_rng(0)
    data = {"d": rng.integers(0, 2, 500), "e": rng.integers(0, 3, 500), "c": rng.integers(0, 4, 500)}
    table = hb.Table(data, discrete=list(data))
    d, e, c = table.variables
    found = as_kind(hb.Multinomial, MultinomialFitter(estimate=MaximumLikelihood()).fit(table, c, (e, d))).table
    assert found.shape == (3, 2, 4)
    for i in range(3):
        for j in range(2):
            rows = (data["e"] == i) & (data["d"] == j)
            np.testing.assert_allclose(found[i, j], np.bincount(data["c"][rows], minlength=4) / rows.sum())


def test_many_rows_go_through_in_blocks():
    codes = np.random.default_rng(0).integers(0, 3, 100_000)
    table = hb.Table({"c": codes}, discrete=["c"])
    counts = MultinomialFitter().statistics(table, table.variable("c")).counts
    np.testing.assert_array_equal(counts, np.bincount(codes))


def test_discretized_numbers_are_counted():
    x = hb.Discrete("x", cuts=(1.0, 2.0))
    table = hb.Table({"x": [0.5, 1.0, 1.5, 2.0, None]})
    np.testing.assert_array_equal(MultinomialFitter().statistics(table, x).counts, [1, 2, 1])


@pytest.mark.parametrize("m", [0, -1, np.inf, np.nan])
def test_bad_options(m):
    with pytest.raises(hb.NetworkError, match="positive"):
        MEstimate(m)
    with pytest.raises(hb.NetworkError, match="positive"):
        Dirichlet((1, m))


def test_refusals():
    with pytest.raises(hb.NetworkError, match="2 pseudo-counts were given for a child of 3 states"):
        MultinomialFitter(estimate=Dirichlet((1, 2))).fit(TABLE, C)
    with pytest.raises(hb.NetworkError, match="positive"):
        Dirichlet("a")  # type: ignore[arg-type]
    x = hb.Continuous("x")
    with pytest.raises(hb.NetworkError, match="'x' is continuous, and a table of probabilities"):
        MultinomialFitter().fit(TABLE, C, (x,))


def test_a_table_that_would_not_fit_is_refused_before_anything_is_counted():
    parents = tuple(hb.Discrete(f"p{i}", states=tuple(range(100))) for i in range(5))
    with pytest.raises(hb.TooWide, match=r"'c' given 'p0', .*: the table would have 3e\+10 numbers"):
        MultinomialFitter().fit(TABLE, C, parents)
    with pytest.raises(hb.TooWide, match="max_bytes=64"):
        MultinomialFitter(max_bytes=64).fit(TABLE, C, (D,))
