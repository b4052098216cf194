"""Learners whose passes are shared by threads give the same to the last bit, whatever their number."""

import threading
from functools import partial

import numpy as np
import pytest

import hybridbn as hb
from hybridbn.fitting import contingency_tables
from hybridbn.fitting.counting import Groups, NumpyCounter
from hybridbn.inference.engines import elimination
from hybridbn.inference.gaussian_component import GaussianComponent
from hybridbn.jobs import get_jobs, share_passes
from hybridbn.structures import (
    chow_liu,
    hill_climb,
    kdb,
    logistic,
    naive_bayes,
    nb_tree,
    pc_stable,
    selective_naive_bayes,
    tan,
)
from hybridbn.variables import combine_codes

ROWS = 40_000


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    """Tables of some blocks."""
    monkeypatch.setattr(contingency_tables, "ROWS", 2**15)


def make_data(holes, weighted):
    """Columns along a chain, categories and numbers, in more rows than a few blocks."""
    rng = np.random.default_rng(0)
    data, above = {}, rng.integers(0, 3, ROWS)
    for i in range(5):
        above = (above + rng.integers(0, 3, ROWS) * (rng.random(ROWS) < 0.3)) % 3
        data[f"c{i}"] = np.array(list("uvw"), dtype=object)[above]
        if holes:
            data[f"c{i}"][rng.random(ROWS) < 0.02] = None
    numbers = {f"x{i}": above + rng.normal(size=ROWS) for i in range(2)}
    weights = rng.random(ROWS) if weighted else None
    return hb.Table(data, weights=weights), hb.Table(data | numbers, weights=weights)


def write(network):
    """The bits of all parameters."""
    states = [(name, network.potential(name).to_dict()) for name in network]
    return [(name, key, np.asarray(value).tobytes()) for name, state in states for key, value in state.items()]


@pytest.mark.parametrize(("holes", "weighted"), [(False, True), (True, False)])
def test_builders_learn_the_same_with_any_number_of_threads(holes, weighted):
    table, mixed = make_data(holes, weighted)
    arcs = [("c0", "c1"), ("c0", "c2"), ("c1", "c2"), ("c2", "x0"), ("c2", "x1"), ("x0", "x1"), ("c3", "c4")]
    learners = [
        partial(hb.fit, arcs, mixed, "gaussian"),
        partial(naive_bayes, mixed, "c0", "gaussian"),
        partial(tan, table, "c0"),
        partial(kdb, table, "c0"),
        partial(chow_liu, table),
        partial(hill_climb, table, missing="available", restarts=1),
        partial(pc_stable, table),
        partial(nb_tree, table, "c0", max_depth=2),
        partial(nb_tree, table.select(["c0", "c1", "c2"]), "c0"),
        partial(selective_naive_bayes, table.select(["c0", "c1"]), "c0", folds=2),
        partial(logistic, table.select(["c0", "c1"]), "c0"),
    ]
    for learn in learners:
        one, two, three = (write(learn(n_jobs=n_jobs)) for n_jobs in (None, 2, 3))
        assert one == two == three, learn
    assert get_jobs() == 1


def test_expectations_are_computed_by_threads(monkeypatch):
    monkeypatch.setattr(elimination, "CHUNK_BYTES", 2**16)
    table = make_data(True, False)[0].take(np.arange(9000))
    arcs = [("c0", "c1"), ("c1", "c2")]
    one, two = (write(hb.fit(arcs, table, missing="em", n_jobs=n_jobs)) for n_jobs in (1, 2))
    assert one == two


@pytest.mark.parametrize("target", ["x0", "c1"])
def test_closed_marginals_are_computed_by_threads(monkeypatch, target):
    monkeypatch.setattr(elimination, "MOST_ROWS", 500)
    table = make_data(True, False)[1].take(np.arange(3000))
    network = hb.fit([("c1", "x0"), ("x0", "x1"), ("c1", "c2")], table, "gaussian")
    computing, moments = set(), GaussianComponent.moments

    def note_thread(*arguments, **options):
        computing.add(threading.current_thread())
        return moments(*arguments, **options)

    monkeypatch.setattr(GaussianComponent, "moments", note_thread)
    one, two, three = (
        network.posteriors(table.drop([target]), [target, "x1"], n_jobs=n_jobs) for n_jobs in (None, 2, 3)
    )
    for other in (two, three):
        assert np.array_equal(one["x1"].mean(), other["x1"].mean())
        assert np.array_equal(one["x1"].var(), other["x1"].var())
    assert len(computing) > 2


@pytest.mark.parametrize("persistent", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
def test_all_requests_of_a_counter_are_shared(weighted, persistent):
    rng = np.random.default_rng(1)
    columns: dict[str, np.ndarray] = {}
    columns |= {f"c{i}": rng.integers(-1 if i == 2 else 0, 4, ROWS).astype(np.int8) for i in range(5)}
    columns |= {"x": rng.normal(size=ROWS), "y": rng.normal(size=ROWS)}
    sizes, weights = {f"c{i}": 4 for i in range(5)}, rng.random(ROWS) if weighted else None
    one, two = (NumpyCounter(columns, sizes, weights, jobs, persistent) for jobs in (1, 2))
    names = list(sizes)
    groups = Groups.of(rng.integers(0, 3, ROWS), 3)
    for ask in (
        lambda c: c.joint(("c0", "c2", "c3")),
        lambda c: c.joint(("c0", "c2")),
        lambda c: np.concatenate([table.ravel() for table in c.with_target(names[1:], ("c0",)).values()]),
        lambda c: np.concatenate([table.ravel() for table in c.pairs(names[1:], ("c0",)).values()]),
        lambda c: c.moments(("x", "y"), ("c1", "c2")).products,
        lambda c: np.concatenate([table.ravel() for table in c.by_group(groups, [("c0", "c1"), ("c2",)])]),
    ):
        assert np.array_equal(ask(one), ask(two))


@pytest.mark.parametrize("weighted", [False, True])
def test_counts_are_those_of_numpy(weighted):
    rng = np.random.default_rng(2)
    for rows, size, kind in ((10, 3, np.int8), (70_000, 3, np.int64), (70_000, 40_000, np.int32), (1, 1, np.intp)):
        codes: np.ndarray = rng.integers(0, size, rows).astype(kind)
        weights = rng.random(rows) if weighted else None
        expected = np.bincount(codes, weights, size)
        assert np.allclose(contingency_tables.count_codes(codes, weights, size), expected, rtol=1e-13, atol=0)


def test_two_threads_count_at_the_same_time(monkeypatch):
    table = make_data(False, False)[0]
    both, combine = threading.Barrier(2), combine_codes

    def wait_for_the_other(*arguments):
        if threading.current_thread() is not threading.main_thread() and not both.broken and not met:
            both.wait(timeout=60)
            met.append(threading.get_ident())
        return combine(*arguments)

    met: list[int] = []
    monkeypatch.setattr(contingency_tables, "combine_codes", wait_for_the_other)
    naive_bayes(table, "c0", n_jobs=2)
    assert len(set(met)) == 2


def test_a_learner_that_is_called_by_another_shares_its_passes_likewise():
    @share_passes
    def learn(build, *, n_jobs=None):
        return build()

    assert learn(get_jobs, n_jobs=3) == 3
    assert learn(partial(learn, get_jobs), n_jobs=3) == 3
    assert learn(partial(learn, get_jobs, n_jobs=2), n_jobs=3) == 2
    with pytest.raises(hb.TableError, match="n_jobs must be"):
        naive_bayes({"a": ["x", "y"], "b": ["x", "y"]}, "a", n_jobs=0)
    assert get_jobs() == 1
