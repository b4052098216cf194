"""Statistics that add up, the rows that count, grouped counting, and the choice of fitters."""

import itertools
import pickle

import numpy as np
import pytest
from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from narrowing import as_discrete, known

import hybridbn as hb
from hybridbn.fitting import (
    Fitter,
    GaussianFitter,
    MultinomialFitter,
    SoftmaxFitter,
    contingency_tables,
    equal_width,
    fitter_of,
    observed,
    roles,
)
from hybridbn.fitting.contingency_tables import joint_counts, pair_counts, single_counts

C = hb.Discrete("c", states=("a", "b", "z"))
D = hb.Discrete("d", states=(0, 1))
X = hb.Continuous("x")
Y = hb.Continuous("y")


def some_table(rows=60, seed=0, holes=True, weights=None):
    rng = np.random.default_rng(seed)
    data = {
        "c": np.array(["a", "b"], dtype=object)[rng.integers(0, 2, rows)],
        "d": rng.integers(0, 2, rows).astype(object),
        "x": rng.normal(5, 2, rows),
        "y": rng.normal(-3, 0.1, rows),
    }
    data["y"] = data["y"] + 0.5 * data["x"]
    if holes:
        for column, dtype in (("c", None), ("d", None), ("x", np.nan), ("y", np.nan)):
            data[column][rng.random(rows) < 0.1] = dtype
    return hb.Table(data, variables=[C, D, X, Y], weights=weights)


FAMILIES = [
    (MultinomialFitter(), C, ()),
    (MultinomialFitter(), C, (D,)),
    (GaussianFitter(), X, ()),
    (GaussianFitter(), Y, (D, X, C)),
    (GaussianFitter(ridge=2.0), Y, (X, D)),
    (SoftmaxFitter(), C, (X,)),
    (SoftmaxFitter(), C, (X, D, Y)),
]


def parameters(potential):
    return potential.to_dict().values()


def assert_same(first, second, tolerance=1e-12):
    for one, other in zip(parameters(first), parameters(second), strict=True):
        np.testing.assert_allclose(one, other, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize(("fitter", "child", "parents"), FAMILIES)
def test_weights_are_repeated_rows_and_a_zero_weight_is_no_row(fitter, child, parents):
    table = some_table()
    weights = np.random.default_rng(1).integers(0, 4, len(table))
    repeated = table.take(np.repeat(np.arange(len(table)), weights))
    dropped = table.take(np.flatnonzero(weights)).with_weights(weights[weights > 0])
    weighted = fitter.fit(table.with_weights(weights), child, parents)
    assert_same(weighted, fitter.fit(repeated, child, parents))
    assert_same(weighted, fitter.fit(dropped, child, parents))


@pytest.mark.parametrize(("fitter", "child", "parents"), FAMILIES)
@pytest.mark.parametrize("weighted", [False, True])
def test_statistics_of_parts_add_up(fitter, child, parents, weighted):
    table = some_table(weights=np.random.default_rng(2).random(60) if weighted else None)
    whole = fitter.statistics(table, child, parents)
    ends = [0, 1, 1, 20, 47, 60]
    parts = [fitter.statistics(table[start:stop], child, parents) for start, stop in itertools.pairwise(ends)]
    merged = parts[0]
    for part in parts[1:]:
        merged = merged + part
    backward = parts[-1]
    for part in parts[-2::-1]:
        backward = part + backward
    assert merged.total == pytest.approx(whole.total, rel=1e-14)
    if isinstance(fitter, MultinomialFitter) and not weighted:
        np.testing.assert_array_equal(merged.counts, whole.counts)
    for other in (merged, backward):
        assert_same(fitter.potential(whole), fitter.potential(other), 1e-11)


@pytest.mark.parametrize(("fitter", "child", "parents"), FAMILIES)
def test_available_cases_are_the_complete_rows(fitter, child, parents):
    table = some_table()
    frame = table.to_pandas()
    complete = frame[[v.name for v in (child, *parents)]].dropna()
    kept = hb.Table(complete, variables=[child, *parents])
    assert_same(fitter.fit(table, child, parents), fitter.fit(kept, child, parents))
    assert fitter.statistics(table, child, parents).total == len(complete) < 60


@pytest.mark.parametrize(("fitter", "child", "parents"), FAMILIES)
def test_fitters_and_statistics_are_pickled(fitter, child, parents):
    statistics = fitter.statistics(some_table(), child, parents)
    again = pickle.loads(pickle.dumps(fitter)).potential(pickle.loads(pickle.dumps(statistics)))
    assert_same(again, fitter.potential(statistics), 0)
    assert pickle.loads(pickle.dumps(fitter)) == fitter


@pytest.mark.parametrize(("fitter", "child", "parents"), FAMILIES)
def test_no_row_to_learn_from(fitter, child, parents):
    empty = some_table()[:0]
    with pytest.raises(hb.TableError, match="no row has values"):
        fitter.fit(empty, child, parents)


def test_statistics_of_different_families_do_not_merge():
    table = some_table()
    fitter = MultinomialFitter()
    one = fitter.statistics(table, C)
    with pytest.raises(hb.NetworkError, match="can't merge statistics of 'c' with those of 'c' given 'd'"):
        one + fitter.statistics(table, C, (D,))
    other = hb.Discrete("c", states=("a", "b"))
    with pytest.raises(hb.NetworkError, match="different states"):
        one + fitter.statistics(table, other)
    with pytest.raises(TypeError):
        one + GaussianFitter().statistics(table, X)
    assert repr(one) == f"<MultinomialStatistics of 'c': total weight {one.total:g}>"


def test_statistics_are_read_only():
    statistics = GaussianFitter().statistics(some_table(), Y, (X,))
    with pytest.raises(ValueError, match="read-only"):
        statistics.products[:] = 0


def test_observed_rows_are_the_table_itself_where_all_count():
    table = some_table(holes=False)
    assert observed(table, X).columns[0] is table.coded(X)
    assert observed(table, X).weights is None
    columns, weights, total = observed(table, Y, (C, X))
    assert weights is None
    assert total == len(table) == 60
    frame = table.to_pandas()
    for column, name in zip(columns, ("y", "c", "x"), strict=True):
        expected = frame[name].map({"a": 0, "b": 1}) if name == "c" else frame[name]
        np.testing.assert_array_equal(column, expected)
    weighed = observed(table.with_weights(np.arange(60) % 3), X)
    np.testing.assert_array_equal(weighed.columns[0], frame["x"][np.arange(60) % 3 > 0])
    np.testing.assert_array_equal(weighed.weights, [1.0, 2.0] * 20)
    assert weighed.total == 60
    with pytest.raises(hb.NetworkError, match="more than once"):
        observed(table, X, (X,))


# --- counting ---------------------------------------------------------------------------------------------------------


def brute_counts(columns, sizes, weights):
    table = np.zeros(sizes)
    for row, codes in enumerate(zip(*columns, strict=True)):
        if min(codes) >= 0:
            table[codes] += 1 if weights is None else weights[row]
    return table


@st.composite
def coded_columns(draw):
    sizes = draw(st.lists(st.integers(1, 4), min_size=1, max_size=7))
    rows = draw(st.integers(0, 30))
    seed = draw(st.integers(0, 10**6))
    rng = np.random.default_rng(seed)
    low = draw(st.sampled_from([-1, 0]))
    dtype = draw(st.sampled_from([np.intp, np.int8]))
    columns = [rng.integers(low, size, rows).astype(dtype) for size in sizes]
    weights = rng.random(rows) if draw(st.booleans()) else None
    return columns, sizes, rng.integers(low, 3, rows).astype(dtype), weights


@settings(max_examples=examples(60), deadline=None)
@given(coded_columns(), st.sampled_from([4, 30, 2**18]))
def test_grouped_counts_equal_plain_ones(drawn, cells):
    columns, sizes, target, weights = drawn
    kept = contingency_tables._PAIR_CELLS, contingency_tables._SINGLE_CELLS, contingency_tables.ROWS
    contingency_tables._PAIR_CELLS = contingency_tables._SINGLE_CELLS = cells
    contingency_tables.ROWS = 7
    try:
        pairs, singles = (
            pair_counts(columns, sizes, target, 3, weights),
            single_counts(columns, sizes, target, 3, weights),
        )
        without = pair_counts(columns, sizes, weights=weights)
        joint = joint_counts(columns, sizes, weights)
    finally:
        contingency_tables._PAIR_CELLS, contingency_tables._SINGLE_CELLS, contingency_tables.ROWS = kept
    same = np.testing.assert_array_equal if weights is None else np.testing.assert_allclose
    assert list(pairs) == list(itertools.combinations(range(len(columns)), 2)) == list(without)
    for i, j in pairs:
        same(pairs[i, j], brute_counts([target, columns[i], columns[j]], (3, sizes[i], sizes[j]), weights))
        same(without[i, j], brute_counts([columns[i], columns[j]], (sizes[i], sizes[j]), weights))
    for i, table in enumerate(singles):
        same(table, brute_counts([target, columns[i]], (3, sizes[i]), weights))
    same(joint, brute_counts(columns, tuple(sizes), weights))


def test_counting_refuses_strange_codes_and_huge_tables():
    with pytest.raises(hb.TableError, match=r"between -1 and 1; found 2"):
        joint_counts([np.array([0, 2])], (2,))
    with pytest.raises(hb.TableError, match="found -2"):
        pair_counts([np.array([0, -2]), np.array([0, 1])], (2, 2))
    with pytest.raises(hb.TooWide, match="100000 states"):
        pair_counts([np.zeros(3, np.intp)] * 2, (100_000, 100_000))


# --- choosing ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("spec", "child", "parents", "name"),
    [
        ("auto", C, (), "multinomial"),
        ("auto", C, (D,), "multinomial"),
        ("mte", C, (D,), "multinomial"),
        ("kernel", C, (), "multinomial"),
        ("gaussian", C, (D,), "multinomial"),
        ("multinomial", C, (D,), "multinomial"),
        ("gaussian", C, (X, D), "softmax"),
        ("softmax", X, (), "gaussian"),
        ("gaussian", X, (C,), "gaussian"),
        (GaussianFitter(floor=1.0), C, (X,), "softmax"),
        (SoftmaxFitter(), X, (C,), "gaussian"),
        (GaussianFitter(), C, (D,), "multinomial"),
    ],
)
def test_what_a_name_stands_for(spec, child, parents, name):
    assert fitter_of(spec, child, parents).name == name


def test_a_fitter_keeps_its_options():
    fitter = GaussianFitter(ridge=3.0)
    assert fitter_of(fitter, X, (C,)) is fitter

    class Own(Fitter):
        name = "own"

        def statistics(self, table, child, parents=()):
            raise NotImplementedError

        def potential(self, statistics):
            raise NotImplementedError

    own = Own()
    assert fitter_of(own, C, ()) is own


def test_choices_that_are_none():
    with pytest.raises(hb.NetworkError, match="did you mean 'kernel'"):
        fitter_of("kernels", X)
    with pytest.raises(hb.NetworkError, match=r"give an object: GaussianFitter\(\)"):
        fitter_of(GaussianFitter, X)  # type: ignore[arg-type]
    with pytest.raises(hb.NetworkError, match="choose one of 'auto'"):
        fitter_of(3, X)  # type: ignore[arg-type]
    with pytest.raises(hb.NetworkError, match="ask it for 'x' too"):
        fitter_of("multinomial", C, (X,))
    with pytest.raises(hb.NetworkError, match="'x' is continuous"):
        fitter_of("multinomial", X)


def test_roles_discretize_what_is_asked_for():
    table = hb.Table({"x": [1.0, 2, 3, 11, 12, 13], "y": [2.0, 1, 2, 1, 2, 1], "c": list("aaabbb")})
    found = roles(table, "c", "multinomial")
    assert as_discrete(found["x"].variable).cuts == (7.0,)
    assert as_discrete(found["y"].variable).cuts == ()
    assert found["c"].variable is table.variable("c")
    assert as_discrete(roles(table, None, "multinomial")["y"].variable).cuts == (1.5,)
    own = roles(table, "c", {"y": MultinomialFitter(discretizer=equal_width)})
    assert len(known(as_discrete(own["y"].variable).cuts)) == 9
    assert own["x"] == (hb.Continuous("x"), "auto")
    assert [role.variable.name for role in own.values()] == ["x", "y", "c"]


def test_a_discretized_target_guides_the_others():
    rng = np.random.default_rng(0)
    x = rng.random(200)
    table = hb.Table({"x": x, "y": x + 0.01 * rng.random(200)})
    found = roles(table, "y", {"x": "multinomial", "y": "multinomial"})
    assert len(known(as_discrete(found["y"].variable).cuts)) == 9
    assert len(known(as_discrete(found["x"].variable).cuts)) > 3
    guided = roles(table, "y", {"x": "multinomial"})["x"].variable
    assert len(known(as_discrete(guided).cuts)) == 9


def test_roles_refuse_hopeless_columns():
    with pytest.raises(hb.TableError, match="no column 'z'"):
        roles(some_table(), "z")
    with pytest.raises(hb.TableError, match="potentials: there is no column 'z'"):
        roles(some_table(), "c", {"z": "mte"})
    with pytest.raises(hb.NetworkError, match="all columns"):
        roles(some_table(), "c", "nothing")
    with pytest.raises(hb.TableError, match="'x' has no observed value"):
        roles(hb.Table({"x": [np.nan, np.nan]}, continuous=["x"]))
    with pytest.raises(hb.TableError, match="the table has no rows"):
        roles(some_table()[:0])
