"""Engines that read scans: each gives what memory gives, and says what it can't."""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from narrowing import as_kind
from test_scans import make_data, names_of, same, write

import hybridbn as hb
from hybridbn.structures import naive_bayes, tan

pytest.importorskip("pyarrow")


def test_processes_share_the_fragments(tmp_path: Path) -> None:
    data = names_of(make_data(300, 1), "y", "a", "k")
    pattern, known = write(tmp_path, data), tan(hb.Table(data, discrete=["k"]), "y")
    with ProcessPoolExecutor(2) as pool:
        scan = hb.scan(pattern, discrete=["k"], backend=pool)
        assert same(tan(scan, "y"), known)
        table = hb.Table(data, variables=known.variables)
        np.testing.assert_allclose(known.log_density(scan), known.log_density(table), rtol=1e-12)


def test_what_can_not_be_sent_is_told(tmp_path: Path) -> None:
    pattern = write(tmp_path, {"c": ["a", "b"] * 10})
    with ProcessPoolExecutor(1) as pool, pytest.raises(hb.TableError, match="can't be sent to other processes"):
        list(hb.scan(pattern, backend=pool).answer(lambda table, start: len(table), ()))


@pytest.mark.slow
def test_a_pool_is_made_where_none_is_given(tmp_path: Path) -> None:
    data = names_of(make_data(300, 7), "y", "a")
    assert same(naive_bayes(hb.scan(write(tmp_path, data), backend="processes"), "y"), naive_bayes(data, "y"))


def test_unknown_backends_are_refused() -> None:
    for backend in ("spark?", 3):
        with pytest.raises(hb.TableError, match="is not known; choose one of 'dask'"):
            hb.scan({"c": ["a"]}, backend=backend)


class TestDuckDB:
    @pytest.fixture
    def connection(self) -> Any:
        duckdb = pytest.importorskip("duckdb")
        with duckdb.connect() as connection:
            yield connection

    def test_files_queries_and_relations(self, connection: Any, tmp_path: Path) -> None:
        data = names_of(make_data(400, 2), "y", "a", "k", "t")
        pattern, known = write(tmp_path, data), hb.Table(data, discrete=["k"])
        query = f"SELECT * FROM read_parquet('{pattern}')"
        for given in (pattern, query, connection.sql(query)):
            scan = hb.scan(given, ["k"], backend=connection)
            for build in (naive_bayes, tan):
                assert same(build(scan, "y"), build(known, "y"))

    def test_numbers_holes_and_weights(self, connection: Any, tmp_path: Path) -> None:
        data = make_data(400, 3)
        weights = np.random.default_rng(0).integers(0, 4, 400).astype(float)
        pattern = write(tmp_path, data | {"w": weights.tolist()})
        scan = hb.scan(pattern, weights="w", backend=connection)
        table = hb.Table(data, weights=weights)
        assert same(naive_bayes(scan, "y", "gaussian"), naive_bayes(table, "y", "gaussian"))
        assert scan.missing == table.missing
        assert scan.value_range("x") == table.value_range("x")

    def test_counts_are_those_of_one_query(self, connection: Any, tmp_path: Path) -> None:
        data = names_of(make_data(200, 4), "y", "a")
        scan = hb.scan(write(tmp_path, data), backend=connection)
        monkey: list[Any] = []
        fragments = scan.passes.source.fragments

        def noted() -> Any:
            monkey.append(1)
            return fragments()

        scan.passes.source.fragments = noted  # type: ignore[method-assign]
        assert same(naive_bayes(scan, "y"), naive_bayes(data, "y"))
        assert not monkey

    def test_odd_names_and_values(self, connection: Any) -> None:
        connection.sql("""CREATE TABLE t AS SELECT 'it''s' AS "a ""b", 'x' || i % 2 AS "select" FROM range(9) u(i)""")
        scan = hb.scan("t", backend=connection)
        assert scan.variable('a "b').states == ("it's",)  # type: ignore[union-attr]
        assert as_kind(hb.Multinomial, hb.fit([('a "b', "select")], scan).potential("select")).table.shape == (1, 2)

    def test_not_a_number_is_missing(self, connection: Any) -> None:
        scan = hb.scan(
            "SELECT CASE WHEN i < 3 THEN 'nan'::DOUBLE ELSE i END AS x FROM range(9) t(i)", backend=connection
        )
        assert scan.value_range("x") == (3.0, 8.0)
        assert scan.missing == {"x": 3}

    def test_a_relation_stays_in_its_process(self, connection: Any) -> None:
        relation = connection.sql("SELECT 1.5 AS x")
        with pytest.raises(hb.TableError, match="can't be sent"):
            hb.scan(relation, backend=ProcessPoolExecutor(1)).sample()


class TestDask:
    @pytest.fixture
    def client(self) -> Any:
        distributed = pytest.importorskip("distributed")
        with (
            distributed.LocalCluster(n_workers=1, threads_per_worker=2, processes=False, dashboard_address=None) as own,
            distributed.Client(own) as client,
        ):
            yield client

    @pytest.mark.slow
    def test_results_are_those_from_memory(self, client: Any, tmp_path: Path) -> None:
        data = names_of(make_data(300, 5), "y", "a", "t")
        scan = hb.scan(write(tmp_path, data), backend=client)
        net = tan(scan, "y")
        assert same(net, tan(data, "y"))
        np.testing.assert_allclose(net.log_density(scan), net.log_density(hb.Table(data)), rtol=1e-12)


@pytest.mark.parametrize("jobs", [1, 3])
def test_threads_may_read_at_a_time(jobs: int, tmp_path: Path) -> None:
    data = make_data(300, 6)
    with ThreadPoolExecutor(jobs) as pool:
        scan = hb.scan(write(tmp_path, data), backend=pool)
        assert same(tan(scan, "y", "gaussian"), tan(hb.Table(data), "y", "gaussian"))


def test_text_files_have_the_same_types_with_duckdb(tmp_path: Path) -> None:
    pytest.importorskip("duckdb")
    path = tmp_path / "t.csv"
    path.write_text("x,c,n\n1,yes,NA\n2.5,no,3\n,yes,4\n", encoding="utf-8")
    here, there = hb.scan(path), hb.scan(path, backend="duckdb")
    assert [there.variable(name) for name in "xcn"] == [here.variable(name) for name in "xcn"]
