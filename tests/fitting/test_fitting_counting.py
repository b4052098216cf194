"""The contract of what counts tables, for columns in memory, in blocks of rows and in a database."""

from __future__ import annotations

import itertools
import math
import pickle
import sqlite3
import weakref
from collections.abc import Callable, Iterable, Sequence
from contextlib import contextmanager
from functools import cached_property, partial, reduce
from operator import add

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from narrowing import as_discrete

import hybridbn as hb
from hybridbn.estimators.base import Stream
from hybridbn.fitting import contingency_tables
from hybridbn.fitting.contingency_tables import list_occurring, plan_pairs
from hybridbn.fitting.counting import Counter, Counts, Groups, Moments, Names, NumpyCounter, RowCounter
from hybridbn.fitting.cross_validation import collapse_rows
from hybridbn.structures import chow_liu, column_splits, hill_climb, kdb, naive_bayes, nb_tree, tan
from hybridbn.structures.column_splits import Utility

NAMES = ("a", "b", "c", "d")


class BlockCounter(Counter):
    """Counts blocks of rows one by one and adds up, as a counter of files or of several machines does."""

    def __init__(self, columns, sizes, weights=None, block=37):
        self.sizes, self.columns, self.block = sizes, columns, block
        self.rows = len(next(iter(columns.values())))
        self.weights = np.ones(self.rows) if weights is None else weights

    def blocks(self):
        for start in range(0, max(self.rows, 1), self.block):
            part = slice(start, start + self.block)
            counter = NumpyCounter({n: c[part] for n, c in self.columns.items()}, self.sizes, self.weights[part])
            counter.incomplete = self.incomplete  # of all blocks, so that their tables have one shape
            yield start, counter

    @cached_property
    def incomplete(self) -> frozenset[str]:
        return NumpyCounter(self.columns, self.sizes).incomplete

    def persist(self) -> Counter:
        return self

    def count(self, families: Iterable[Names]) -> Counts:
        families = list(families)
        return reduce(add, (pickle.loads(pickle.dumps(b.count(families))) for _, b in self.blocks()))

    def moments(self, numbers: Names, given: Names = ()) -> Moments:
        return reduce(add, (block.moments(numbers, given) for _, block in self.blocks()))

    def with_target(self, names: Iterable[str], target: Names) -> Counts:
        return self.count([(*target, name) for name in names])

    def pairs(self, names: Sequence[str], given: Names = ()) -> Counts:
        return self.count([(*given, *pair) for pair in itertools.combinations(names, 2)])

    def occurring(self, names: Names) -> tuple[np.ndarray, np.ndarray]:
        return list_occurring(self.joint(names))

    def by_group(self, groups: Groups, families: Sequence[Names]) -> list[np.ndarray]:
        tables = []
        for start, block in self.blocks():
            if groups.rows is None:
                rows, assign = None, partial(self.assign_block, groups, start)
            else:
                mine = np.flatnonzero((groups.rows >= start) & (groups.rows < start + self.block))
                rows, assign = groups.rows[mine] - start, partial(self.assign_rows, groups, mine)
            tables.append(block.by_group(Groups(groups.size, assign, groups.reads, rows), families))
        return [sum(parts) for parts in zip(*tables, strict=True)]

    @staticmethod
    def assign_block(groups, start, part, codes, read):
        return groups.assign(slice(start + part.start, start + part.stop), codes, read)

    @staticmethod
    def assign_rows(groups, rows, part, codes, read):
        return groups.assign(rows[part], codes, read)


class SqlCounter(BlockCounter):
    """Lets a database count: one GROUP BY for each table; the rest in blocks."""

    def __init__(self, columns, sizes, weights=None):
        super().__init__(columns, sizes, weights)
        self.database = sqlite3.connect(":memory:")
        weakref.finalize(self, self.database.close)
        names = [*columns, "weight"]
        self.database.execute(f"create table cells ({', '.join(names)})")
        rows = zip(*(column.tolist() for column in columns.values()), self.weights.tolist(), strict=True)
        self.database.executemany(f"insert into cells values ({', '.join('?' * len(names))})", rows)

    def count(self, families: Iterable[Names]) -> Counts:
        tables = {}
        for names in families:
            table = np.zeros(tuple(self.sizes[name] + 1 for name in names))
            query = f"select {', '.join(names)}, sum(weight) from cells group by {', '.join(names)}"
            for *codes, weight in self.database.execute(query):
                table[tuple(codes)] = weight  # a missing cell, -1, is the last state
            tables[names] = table[tuple(map(slice, self.shape(names)))]
        return Counts(tables)


def remembering(columns, sizes, weights=None) -> Counter:
    table = as_table(columns, sizes, weights)
    return RowCounter(table, table.variables)


def as_table(columns, sizes, weights=None) -> hb.Table:
    variables = [
        hb.Discrete(name, tuple(range(sizes[name]))) if name in sizes else hb.Continuous(name) for name in columns
    ]
    return hb.Table.from_arrays(variables, columns, weights=weights)


def persistent(columns, sizes, weights=None) -> Counter:
    return NumpyCounter(columns, sizes, weights).persist()


GROUPING = [NumpyCounter, persistent, partial(NumpyCounter, jobs=2), BlockCounter, SqlCounter]
KINDS = [*GROUPING, remembering]


def count_rows(columns, shape, weights):
    """Count row by row; codes below zero are left out unless they are made states before."""
    table = np.zeros(shape)
    for *codes, weight in zip(*columns, weights, strict=True):
        if min(codes, default=0) >= 0:
            table[tuple(codes)] += weight
    return table


def make_columns(rows=200, holes=True, seed=0):
    rng = np.random.default_rng(seed)
    sizes = dict(zip(NAMES, (2, 3, 4, 2), strict=True))
    columns = {name: rng.integers(-1 if holes and name != "d" else 0, size, rows) for name, size in sizes.items()}
    return columns, sizes, rng.integers(1, 5, rows).astype(float)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("weighted", [False, True])
def test_tables_are_those_of_the_rows(kind, weighted):
    columns, sizes, weights = make_columns()
    counter = kind(columns, sizes, weights if weighted else None)
    weights = weights if weighted else np.ones(200)
    families = [f for k in (1, 2, 3) for f in itertools.permutations(NAMES, k)]
    tables = counter.count(families)
    assert list(tables) == families
    for names, table in tables.items():
        expected = count_rows([columns[n] for n in names], [sizes[n] for n in names], weights)
        np.testing.assert_array_equal(table, expected)
    for names in (("a",), ("c", "d"), ("b", "a", "d")):
        keys, counts = counter.occurring(names)
        dense = np.zeros(math.prod(counter.shape(names)))
        dense[keys] = counts
        np.testing.assert_array_equal(dense.reshape(counter.shape(names)), counter.joint(names))
        assert (np.diff(keys) > 0).all()
        assert (counts > 0).all()


@pytest.mark.parametrize("kind", KINDS)
def test_requests_of_many_tables_are_those_of_each(kind):
    columns, sizes, weights = make_columns(seed=1)
    plain = NumpyCounter(columns, sizes, weights)
    counter = kind(columns, sizes, weights)
    for request in (
        lambda c: c.pairs(("a", "b", "c"), ("d",)),
        lambda c: c.pairs(("a", "b", "c")),
        lambda c: c.pairs(("c", "b"), ("a", "d")),
        lambda c: c.with_target(("a", "b", "c"), ("d",)),
        lambda c: c.with_target(("d", "b"), ("c", "a")),
    ):
        for names, table in request(counter).items():
            np.testing.assert_array_equal(table, plain.joint(names))


@pytest.mark.parametrize("kind", GROUPING)
@pytest.mark.parametrize("picked", [False, True])
def test_groups_are_told_once_for_each_row(kind, picked):
    columns, sizes, weights = make_columns(seed=2)
    rows = np.random.default_rng(3).permutation(np.repeat(np.arange(200), 2))[:250] if picked else None
    own = np.arange(1.0, 251.0 if picked else 201.0)
    seen = np.zeros(len(own), int)

    def assign(part, codes, read):
        seen[part] += 1
        assert len(codes[0]) == len(read[0]) == len(own[part])
        return np.asarray(read[0] * 2 + codes[1] % 2), own[part]

    counter = kind(columns, sizes, weights)
    found = counter.by_group(Groups(4, assign, ("d",), rows), [("a", "b"), ("d",), ()])
    assert (seen == 1).all()
    rows = np.arange(200) if rows is None else rows
    group = columns["d"][rows] * 2 + columns["d"][rows] % 2
    for names, table in zip((("a", "b"), ("d",), ()), found, strict=True):
        as_states = [np.where(columns[n] < 0, sizes[n], columns[n])[rows] for n in names]
        shape = (4, *counter.shape(names, holes=True))
        np.testing.assert_array_equal(table, count_rows([group, *as_states], shape, own).reshape(4, -1))


@pytest.mark.parametrize("kind", GROUPING)
def test_rows_count_with_their_own_weights_where_groups_have_none(kind):
    columns, sizes, weights = make_columns(seed=4)
    table = kind(columns, sizes, weights).by_group(Groups.of(columns["d"], 2), [("b",)])[0]
    assert table.sum() == weights.sum()


@pytest.mark.parametrize("kind", KINDS)
def test_moments_are_those_of_the_complete_rows(kind):
    columns, sizes, weights = make_columns(seed=5)
    rng = np.random.default_rng(6)
    x = np.where(rng.random(200) < 0.1, np.nan, 1e6 + rng.normal(size=200))
    columns = {**columns, "x": x, "z": rng.normal(size=200)}
    moments = kind(columns, sizes, weights).moments(("x", "z"), ("a", "d"))
    kept = ~np.isnan(x) & (columns["a"] >= 0)
    assert moments.total == weights[kept].sum()
    for group in range(4):
        mine = kept & (columns["a"] * 2 + columns["d"] == group)
        values, w = np.stack([x[mine], columns["z"][mine]]), weights[mine]
        mean = values @ w / w.sum()
        assert moments.weights[group] == w.sum()
        np.testing.assert_allclose(moments.means[group], mean, rtol=1e-12)
        centered = values - mean[:, None]
        np.testing.assert_allclose(moments.products[group], centered * w @ centered.T, rtol=1e-8, atol=1e-8)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 60), st.integers(0, 60), st.integers(0, 10**6))
def test_statistics_of_two_sets_of_rows_add_up(first, second, seed):
    columns, sizes, weights = make_columns(first + second, seed=seed)
    parts = (slice(first), slice(first, None))
    one, two = (NumpyCounter({n: c[p] for n, c in columns.items()}, sizes, weights[p]) for p in parts)
    families = [("a", "b"), ("c",)]
    whole = NumpyCounter(columns, sizes, weights).count(families)
    for names, table in (one.count(families) + two.count(families)).items():
        np.testing.assert_array_equal(table, whole[names])


def test_rows_are_counted_once_for_a_table_and_its_margins(monkeypatch):
    columns, sizes, weights = make_columns(holes=False)
    expected: dict[Names, np.ndarray] = {
        names: NumpyCounter(columns, sizes, weights).joint(names) for names in (("b", "d", "a"), ("d", "a"), ("c",))
    }
    asked, count = [], NumpyCounter.count

    def noted(self, families, **how):
        asked.extend(families)
        return count(self, families, **how)

    monkeypatch.setattr(NumpyCounter, "count", noted)
    table = as_table(columns, sizes, weights)
    RowCounter(table, table.variables).pairs(("a", "b"), ("d",))
    counter = RowCounter(table.select(["d", "c", "b", "a"]), table.variables)
    for names, counts in counter.count(expected).items():
        np.testing.assert_array_equal(counts, expected[names])
    counter.count([("c",)])
    assert asked == [("c",)]


def test_moments_of_some_numbers_follow_from_those_of_more(monkeypatch):
    rng = np.random.default_rng(0)
    columns = {name: rng.normal(size=50) for name in "xyz"} | {"c": rng.integers(0, 2, 50)}
    table = as_table(columns, {"c": 2})
    counter = RowCounter(table, table.variables)
    counter.prepare([], [(("x", "y"), ("c",)), (("z",), ("c",))])
    expected = NumpyCounter(columns, {"c": 2}).moments(("z", "x"), ("c",))
    monkeypatch.setattr(NumpyCounter, "moments", None)
    some = table.select(["z", "x", "c"])  # rows without the other number
    found = RowCounter(some, some.variables).moments(("z", "x"), ("c",))
    np.testing.assert_allclose(found.products, expected.products, rtol=1e-12)


def test_what_was_counted_as_other_variables_is_counted_again():
    table = hb.Table({"x": [1.0, 2.0, 3.0, 4.0]})
    for cuts in ((1.5,), (2.5,)):
        variable = hb.Discrete("x", cuts=cuts)
        expected = np.bincount(table.coded(variable))
        np.testing.assert_array_equal(RowCounter(table, [variable]).joint(("x",)), expected)


# --- builders ---------------------------------------------------------------------------------------------------------


@contextmanager
def counting_with(kind):
    """Let another counter count all tables."""
    plain, counters = NumpyCounter.of, []

    def make(table, variables, jobs=1, incomplete=None):
        counter = plain(table, variables, jobs, incomplete)
        counters.append(kind(dict(counter.columns), counter.sizes, counter.weights))
        return counters[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(NumpyCounter, "of", make)
        yield
    assert counters


def make_table(holes):
    rng = np.random.default_rng(7)
    y = rng.integers(0, 2, 300)
    data: dict[str, list[str | None]] = {"y": [f"y{v}" for v in y]}
    for name, size in (("a", 2), ("b", 3), ("c", 4), ("d", 2)):
        codes = np.where(rng.random(300) < 0.5, y % size, rng.integers(0, size, 300))
        data[name] = [None if holes and rng.random() < 0.1 else f"s{code}" for code in codes]
    return hb.Table(data)


BUILDERS: dict[str, Callable[..., hb.Network]] = {
    "naive_bayes": partial(naive_bayes, target="y"),
    "tan": partial(tan, target="y"),
    "kdb": partial(kdb, target="y"),
    "chow_liu": chow_liu,
    "hill_climb": hill_climb,
}


def parameters_of(network):
    return {name: (list(network.predecessors(name)), network.potential(name).to_dict()) for name in network}


@pytest.mark.parametrize("kind", [BlockCounter, SqlCounter])
@pytest.mark.parametrize("holes", [False, True])
@pytest.mark.parametrize("builder", [name for name in BUILDERS if name != "hill_climb"])  # which keeps its counter
def test_builders_are_bit_equal_with_every_counter(builder, holes, kind):
    table, build = make_table(holes), BUILDERS[builder]
    expected = build(table)
    with counting_with(kind):
        network = build(make_table(holes))  # nothing is remembered of another table
    assert repr(parameters_of(network)) == repr(parameters_of(expected))


@pytest.mark.parametrize("criterion", [None, Utility()])
def test_trees_are_bit_equal_with_every_counter(criterion, monkeypatch):
    table = make_table(False)
    expected = nb_tree(table, "y", criterion=criterion)
    monkeypatch.setattr(column_splits, "NumpyCounter", BlockCounter)
    network = nb_tree(table, "y", criterion=criterion)
    assert len(as_discrete(expected.variable("y leaf"))) > 1
    assert repr(parameters_of(network)) == repr(parameters_of(expected))


def test_boosting_is_the_same_with_every_counter():
    table = make_table(True)
    expected = hb.boost(table, "y", rounds=8)
    with counting_with(BlockCounter):
        ensemble = hb.boost(make_table(True), "y", rounds=8)
    assert len(ensemble.networks) == len(expected.networks)
    # weights are no whole numbers after the first round, so their sums are the same up to rounding
    np.testing.assert_allclose(ensemble.votes, expected.votes, rtol=1e-12)


def test_streams_are_the_same_with_every_counter():
    table = make_table(False)
    expected = Stream.of(table[:150], "y", "auto").plus(table[150:]).network()
    with counting_with(SqlCounter):
        network = Stream.of(table[:150], "y", "auto").plus(table[150:]).network()
    assert repr(parameters_of(network)) == repr(parameters_of(expected))


@pytest.mark.parametrize("most_cells", [1, 300, 10**6])
def test_pairs_are_planned_so_that_few_cells_are_held_at_a_time(most_cells):
    sizes = (2, 9, 3, 3, 20, 2, 5, 4)
    batches = list(plan_pairs(sizes, 6, 500, most_cells))
    counted = []
    for batch in batches:
        cells = [6 * math.prod(sizes[i] for group in block.groups for i in group) for block in batch]
        assert len(batch) == 1 or sum(cells) <= most_cells
        for block in batch:
            inside = [pair for place in block.within for pair in itertools.combinations(block.groups[place], 2)]
            counted += inside + [pair for pair in itertools.product(*block.groups) if len(block.groups) == 2]
    assert sorted(tuple(sorted(pair)) for pair in counted) == list(itertools.combinations(range(8), 2))
    if most_cells > 10**5:
        assert len(batches) == 1


def test_pairs_of_columns_with_many_states_are_refused_before_they_are_counted(monkeypatch):
    monkeypatch.setattr(contingency_tables, "MOST_CELLS", 100)
    table = hb.Table({"a": [f"s{i}" for i in range(30)], "b": ["u", "v", "w"] * 10, "c": ["p", "q"] * 15})
    counter = RowCounter(table, table.variables)
    monkeypatch.setattr(NumpyCounter, "pairs", None)
    with pytest.raises(hb.TooWide, match=r"would have 156 cells .* the column 'a' with 30 states"):
        counter.pairs(("a", "b", "c"))


def test_names_of_columns_do_not_order_the_rows_of_a_table():
    rng = np.random.default_rng(8)
    columns = {"a": rng.integers(0, 3, 30).astype(str), "b": rng.normal(size=30).round(), "k": np.full(30, 1.0)}
    columns |= {"e": rng.integers(0, 2, 30).astype(str), "f": columns["b"] ** 2}
    renamed = dict(zip(columns, ("z", "q", "m", "p", "b"), strict=True))
    one = collapse_rows(hb.Table(columns))
    other = collapse_rows(hb.Table({renamed[name]: column for name, column in reversed(columns.items())}))
    assert (one.hashes == other.hashes).all()
    assert (one.groups == other.groups).all()
    assert [renamed[name] for name in one.columns] == list(other.columns)
    assert sorted(one.columns) == sorted(columns)
