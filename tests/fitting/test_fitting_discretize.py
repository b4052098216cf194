"""Cut points against brute force and published ones."""

import math

import numpy as np
import pytest
from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st

import hybridbn as hb
from hybridbn.fitting import equal_frequency, equal_width, mdl

BOTH = [equal_width, equal_frequency]


def entropy(counts):
    counts = np.asarray(counts, dtype=float)
    shares = counts[counts > 0] / counts.sum()
    return float(-(shares * np.log2(shares)).sum())


def brute_mdl(values, classes, weights, slack=1e-9):
    """The definition, row by row and cut by cut."""
    order = np.argsort(values, kind="stable")
    return sorted(brute_segment(values[order], classes[order], weights[order], slack))


def brute_segment(v, c, w, slack):
    k = c.max(initial=0) + 1
    n, candidates = w.sum(), []
    whole = entropy(np.bincount(c, w, k)) if len(v) else 0.0
    for i in range(1, len(v)):
        if v[i] > v[i - 1]:
            low, high = np.bincount(c[:i], w[:i], k), np.bincount(c[i:], w[i:], k)
            rest = (low.sum() * entropy(low) + high.sum() * entropy(high)) / n
            candidates.append((rest, i))
    if not candidates:
        return []
    least = min(rest for rest, _ in candidates)
    rest, i = next(item for item in candidates if item[0] <= least + slack)
    low, high = c[:i], c[i:]
    kinds, kinds_low, kinds_high = (len(np.unique(side)) for side in (c, low, high))
    delta = math.log2(3**kinds - 2) - (
        kinds * whole - kinds_low * entropy(np.bincount(low, w[:i])) - kinds_high * entropy(np.bincount(high, w[i:]))
    )
    if not whole - rest > (math.log2(max(n - 1, 1)) + delta) / n:
        return []
    cut = (v[i - 1] + v[i]) / 2
    return [*brute_segment(v[:i], low, w[:i], slack), cut, *brute_segment(v[i:], high, w[i:], slack)]


@settings(max_examples=examples(150), deadline=None)
@given(st.integers(0, 10**6), st.integers(0, 60), st.integers(1, 4), st.integers(2, 40), st.sampled_from([0, 1, 2]))
def test_mdl_is_its_definition(seed, rows, kinds, distinct, weighting):
    rng = np.random.default_rng(seed)
    values = rng.integers(0, distinct, rows) / 4
    # classes that follow the values more or less, so that there is something to find
    noise = rng.random(rows) < 0.25
    classes = np.where(noise, rng.integers(0, kinds, rows), (values * 4 * kinds // distinct).astype(int))
    weights = [np.ones(rows), rng.integers(1, 5, rows).astype(float), rng.random(rows) * 5 + 0.01][weighting]
    found = mdl(values, classes, weights)
    np.testing.assert_allclose(found, brute_mdl(values, classes, weights), rtol=1e-15)
    if weighting == 1:
        repeat = weights.astype(int)
        assert mdl(np.repeat(values, repeat), np.repeat(classes, repeat)) == found


def test_mdl_finds_the_known_cuts_of_iris():
    datasets = pytest.importorskip("sklearn.datasets")
    iris = datasets.load_iris()
    known = [(5.55, 6.15), (2.95, 3.35), (2.45, 4.75), (0.8, 1.75)]
    for column, cuts in zip(iris.data.T, known, strict=True):
        np.testing.assert_allclose(mdl(column, iris.target), cuts, rtol=1e-12)


def test_mdl_with_nothing_to_find():
    rng = np.random.default_rng(0)
    assert mdl(rng.normal(size=1000), rng.integers(0, 2, 1000)) == ()
    assert mdl(np.arange(100), np.zeros(100, int)) == ()
    assert mdl(np.ones(100), np.arange(100) % 2) == ()
    assert mdl([], np.array([], int)) == ()
    assert mdl([1, 2], [0, 1], [0.3, 0.4]) == ()


def test_mdl_with_many_classes():
    x = np.arange(3000) / 10
    cuts = mdl(x, np.arange(3000) // 4)
    assert len(cuts) == 749  # each class of four rows pays for its cut; log2(3**750) does not overflow
    np.testing.assert_allclose(np.array(cuts) * 10 + 0.5, np.arange(4, 3000, 4))


@pytest.mark.parametrize("discretizer", [*BOTH, mdl])
def test_hundred_thousand_values_keep_their_ties_together(discretizer):
    rng = np.random.default_rng(0)
    values = rng.integers(0, 50, 100_000) * 0.1
    target = (values + rng.normal(size=100_000) > 2).astype(int)
    cuts = discretizer(values, target)
    assert len(cuts) > 3
    assert list(cuts) == sorted(set(cuts))
    if discretizer is not equal_width:
        assert not np.isin(cuts, values).any()


def test_equal_width_by_hand():
    np.testing.assert_allclose(equal_width([0.0, 3.0, 10.0]), np.arange(1, 10))
    assert equal_width([0, 10, 1e9, np.nan], None, [1, 1, 0, 1], bins=2) == (5.0,)
    huge = equal_width([-1.7e308, 1.7e308], bins=4)
    np.testing.assert_allclose(huge, [-0.85e308, 0, 0.85e308], atol=1e293)
    assert equal_width([1.0, np.nextafter(1.0, 2)]) in {(np.nextafter(1.0, 2),)}


def test_equal_frequency_by_hand():
    assert equal_frequency(np.arange(100), bins=4) == (24.5, 49.5, 74.5)
    assert equal_frequency([0, 0, 0, 0, 1, 2, 3, 4], bins=4) == (0.5, 2.5)
    assert equal_frequency([1, 2, 3], None, [1, 1, 8], bins=2) == (2.5,)
    assert equal_frequency([1, 2, 3, 4], None, [3, 1, 1, 1], bins=2) == (1.5,)


@settings(max_examples=examples(60), deadline=None)
@given(
    st.lists(st.floats(-1e6, 1e6).map(lambda x: round(x, 1)), max_size=40),
    st.integers(1, 12),
    st.sampled_from(BOTH),
    st.integers(0, 1000),
)
def test_cuts_are_cuts(values, bins, discretizer, seed):
    array = np.array(values, dtype=float)
    cuts = discretizer(array, bins=bins)
    assert len(cuts) < bins
    hb.Discrete("x", cuts=cuts)
    if cuts:
        assert array.min() < cuts[0]
        assert cuts[-1] <= array.max()
    if len(set(values)) < 2 or bins == 1:
        assert cuts == ()
    weights = np.random.default_rng(seed).integers(0, 3, len(array))
    assert discretizer(array, None, weights, bins=bins) == discretizer(np.repeat(array, weights), bins=bins)


@settings(max_examples=examples(40), deadline=None)
@given(st.integers(0, 10**6), st.sampled_from([0.5, 4.0, 1024.0]), st.sampled_from([0.0, -64.0]))
def test_cuts_follow_units(seed, factor, shift):
    rng = np.random.default_rng(seed)
    values, target = rng.integers(0, 30, 50).astype(float), rng.integers(0, 2, 50)
    for discretizer in (*BOTH, mdl):
        moved = discretizer(values * factor + shift, target)
        np.testing.assert_allclose(
            moved, np.array(discretizer(values, target)) * factor + shift, rtol=1e-12, atol=1e-12
        )


def test_equal_frequency_makes_groups_of_equal_weight():
    rng = np.random.default_rng(0)
    values, weights = rng.normal(size=5000), rng.random(5000)
    states = np.searchsorted(equal_frequency(values, None, weights, bins=8), values, side="right")
    shares = np.bincount(states, weights) / weights.sum()
    assert len(shares) == 8
    np.testing.assert_allclose(shares, 1 / 8, atol=3e-4)


def test_neighboring_doubles_are_told_apart():
    low = 1.0
    high = np.nextafter(low, 2)
    tiny = 5e-324
    for pair in ((low, high), (0.0, tiny), (-tiny, 0.0)):
        (cut,) = equal_frequency(pair, bins=2)
        assert pair[0] < cut <= pair[1]
        (cut,) = mdl([pair[0]] * 20 + [pair[1]] * 20, [0] * 20 + [1] * 20)
        assert pair[0] < cut <= pair[1]


def test_bad_input():
    with pytest.raises(hb.TableError, match="needs a discrete target"):
        mdl([1, 2], None)
    with pytest.raises(hb.TableError, match="one length"):
        mdl([1, 2], [0])
    with pytest.raises(hb.TableError, match="codes of states"):
        mdl([1, 2], [0.5, 1.0])
    with pytest.raises(hb.TableError, match="at least 1"):
        equal_width([1, 2], bins=0)
    with pytest.raises(hb.TableError, match="must be numbers"):
        equal_width(["a"])
    with pytest.raises(hb.TableError, match="finite"):
        equal_width([1, np.inf])
    with pytest.raises(hb.TableError, match="non-negative"):
        equal_width([1, 2], None, [1, -1])


@pytest.mark.parametrize("seed", range(12))
def test_mdl_is_its_definition_on_larger_samples(seed):
    rng = np.random.default_rng(seed)
    values = np.round(rng.normal(size=250), 1 + seed % 3)
    classes = np.digitize(values + rng.normal(0, 0.3, 250), [-1, -0.2, 0.7][: 1 + seed % 3])
    weights = rng.random(250) * 3 if seed % 2 else np.ones(250)
    found = mdl(values, classes, weights)
    assert len(found) >= 1
    np.testing.assert_allclose(found, brute_mdl(values, classes, weights), rtol=1e-14)
