"""The arithmetic of the model of clusters: no clock is read here."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hybridbn as hb
from hybridbn.tables.backends import Batch, base

pa = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")


def load() -> Any:
    path = Path(__file__).parents[2] / "examples" / "benchmarks" / "scale_model.py"
    spec = importlib.util.spec_from_file_location("scale_model", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(path.parent)
        # its dataclasses look it up
        patch.setitem(sys.modules, "scale_model", module)
        spec.loader.exec_module(module)
    return module


model = load()
ROWS = model.FRAGMENT_ROWS


def test_one_worker_takes_what_was_measured() -> None:
    costs = model.Costs(row=2e-7, batch=3e-3, fragment=0.01)
    done = model.predict(costs, model.Cluster(), 2 * ROWS + 5)
    assert (done.tasks, done.batches, done.merges, done.limit) == (3, 17, 2, "scan")
    assert done.seconds == pytest.approx((2 * ROWS + 5) * 2e-7 + 17 * 3e-3 + 3 * 0.01)


def test_tasks_are_shared_by_the_workers() -> None:
    costs = model.Costs(row=1e-6)
    one, two, many = (model.predict(costs, model.Cluster(workers), 8 * ROWS) for workers in (1, 2, 100))
    assert (two.seconds, many.seconds) == pytest.approx((one.seconds / 2, one.seconds / 8))


def test_a_tree_of_merges_grows_with_the_logarithm() -> None:
    costs = model.Costs(row=0.0, merge=1.0)
    cluster = model.Cluster(workers=10**6)
    for level, tasks in enumerate((1, 16, 256, 4096)):
        assert model.count_levels(tasks) == level
        by_driver = model.predict(costs, cluster, tasks * ROWS)
        by_tree = model.predict(costs, cluster, tasks * ROWS, tree=True)
        assert by_driver.parts["merge"] == tasks - 1
        assert by_tree.parts["merge"] == 15 * level
    assert model.count_levels(257) == 3
    assert by_driver.seconds > 40 * by_tree.seconds


@pytest.mark.parametrize(
    ("costs", "cluster", "limit"),
    [
        ({"row": 1e-6}, {}, "scan"),
        ({"dispatch": 1.0}, {}, "scheduler"),
        ({"row_bytes": 10.0}, {"storage": 1e6}, "storage"),
        ({"result_bytes": 1e6}, {"link": 1e6}, "merge"),
    ],
)
def test_the_limit_is_named(costs: dict[str, float], cluster: dict[str, float], limit: str) -> None:
    done = model.predict(model.Costs(**{"row": 1e-9} | costs), model.Cluster(50, **cluster), 200 * ROWS)
    assert done.limit == limit
    assert done.seconds == pytest.approx(done.parts[limit], rel=0.05)


small = st.floats(0, 1)


@given(st.tuples(small, small, small, small, small), st.integers(1, 40), st.integers(1, 60), st.booleans())
@settings(max_examples=50)
def test_no_part_is_overtaken(costs: tuple[float, ...], workers: int, tasks: int, tree: bool) -> None:
    row, task, dispatch, merge, row_bytes = costs
    own = model.Costs(row / ROWS, 0.0, 0.0, task, dispatch, merge, row_bytes / ROWS, 1.0)
    cluster = model.Cluster(workers, link=2.0, storage=3.0)
    done = model.predict(own, cluster, tasks * ROWS, tree=tree)
    assert done.seconds >= max(done.parts.values()) - 1e-9
    longer = model.predict(own, cluster, (tasks + 1) * ROWS, tree=tree)
    assert longer.seconds >= done.seconds - 1e-9


def test_costs_are_fitted_to_runs() -> None:
    known = np.array([2e-7, 2e-3, 0.05])
    counts = [(10**6, 10, 1), (10**6, 100, 1), (10**6, 16, 8)]
    runs = [(*own, float(known @ own)) for own in counts]
    np.testing.assert_allclose(model.fit_reading(runs), known, rtol=1e-9)


@dataclass(frozen=True)
class Work:
    """How much was done."""

    batches: int = 1
    merges: int = 0

    def __add__(self, other: Work) -> Work:
        return Work(self.batches + other.batches, self.merges + other.merges + 1)


@dataclass(frozen=True)
class CountWork(base.Task):
    columns: tuple[str, ...] = ("c",)

    def learn(self, batch: Batch) -> Work:
        return Work()


@pytest.mark.parametrize("kind", [ThreadPoolExecutor, pytest.param(ProcessPoolExecutor, marks=pytest.mark.slow)])
def test_two_workers_do_what_the_model_counts(kind: Callable[[int], Executor], tmp_path: Path) -> None:
    rows = base.BATCH_ROWS + 10
    for number in range(5):
        parquet.write_table(pa.table({"c": np.zeros(rows, np.int8)}), tmp_path / f"{number}.parquet")
    with kind(2) as pool:
        passes = hb.scan(str(tmp_path / "*.parquet"), backend=pool).passes
        done = passes.learn(CountWork())
    expected = model.predict(model.Costs(1e-7), model.Cluster(2), 5 * rows, fragment_rows=rows)
    assert len(passes.source.fragments()) == expected.tasks == 5
    assert done.batches == expected.batches == 10
    # within a fragment, its batches are merged first
    assert done.merges - (expected.batches - expected.tasks) == expected.merges
