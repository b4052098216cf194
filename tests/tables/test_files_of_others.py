"""Databases that somebody else made, temporary files that a killed process left, and queries of DuckDB."""

from __future__ import annotations

import os
import signal
import sqlite3
import stat
import subprocess
import sys
import tempfile
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from narrowing import as_kind

import hybridbn as hb
from hybridbn.commands import impute
from hybridbn.commands.cli import run
from hybridbn.structures import naive_bayes
from hybridbn.tables.formats import read_table
from hybridbn.tables.formats.files import open_scratch, replace_file, write_atomically

posix = pytest.mark.skipif(os.name != "posix", reason="locks and modes of POSIX")

# -- SQLite -----------------------------------------------------------------------------------------------------------

ENDLESS = "WITH RECURSIVE r(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM r) SELECT sum(x) AS s FROM r"


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="timers of POSIX")
@pytest.mark.parametrize("raised", [KeyboardInterrupt, ZeroDivisionError])
@pytest.mark.parametrize("scheme", ["sqlite", "sqlite+pysqlite"])
@pytest.mark.parametrize("what", ["table=v", "query=SELECT s FROM v"])
def test_a_view_that_never_ends_is_interrupted(
    tmp_path: Path, scheme: str, what: str, raised: type[BaseException]
) -> None:
    if "+" in scheme:
        pytest.importorskip("sqlalchemy")
    with closing(sqlite3.connect(tmp_path / "e.db")) as connection:
        connection.execute(f"CREATE VIEW v AS {ENDLESS}")

    def interrupt(*_: object) -> None:
        raise raised

    before = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, 0.3)
    try:
        with pytest.raises(raised):
            read_table(f"{scheme}:///{tmp_path}/e.db?{what}")
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


DECLARED = ["VARCHAR(10)", "DOUBLE PRECISION", "", "INT CHECK(0)", "INT NOT NULL", "TEXT DEFAULT (1)", "UNIQUE", "a'b"]
DECLARED += ["TEXT, evil TEXT", "TEXT) --", "A COLLATE nocase UNIQUE ;", "INT GENERATED ALWAYS AS (1)", "[x], [y"]


@pytest.mark.parametrize("declared", DECLARED)
def test_declared_types_are_types_and_nothing_else(tmp_path: Path, declared: str) -> None:
    with closing(sqlite3.connect(tmp_path / "s.db")) as connection:
        connection.execute(f'CREATE TABLE t (a "{declared}", b REAL)' if declared else "CREATE TABLE t (a, b REAL)")
        connection.execute("INSERT INTO t VALUES ('x', 1.5), (NULL, 2)")
        connection.commit()
    source, output = f"sqlite:///{tmp_path}/s.db?table=t", f"sqlite:///{tmp_path}/o.db?table=o"
    assert run(["impute", source, output, "--quiet", "--keep", "a"]) == 0
    with closing(sqlite3.connect(tmp_path / "o.db")) as connection:
        columns = connection.execute("PRAGMA table_xinfo(o)").fetchall()
        assert columns == [(0, "a", declared, 0, None, 0, 0), (1, "b", "REAL", 0, None, 0, 0)]
        assert connection.execute("SELECT count(*) FROM sqlite_master").fetchone() == (1,)


# -- what is temporary ------------------------------------------------------------------------------------------------

KILLED = """
import os, signal, sys
from pathlib import Path
from hybridbn.tables.formats.files import open_scratch, replace_file
with open_scratch() as folder, replace_file(Path(sys.argv[1])) as file:
    (folder / "part").write_text("rows")
    file.write(b"half")
    file.flush()
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setattr(tempfile, "tempdir", None)
    return folder


@posix
def test_what_a_killed_process_left_is_removed_by_the_next_one(tmp_path: Path, temporary: Path) -> None:
    target = tmp_path / "model.hbn"
    target.write_text("old")
    kept = [
        temporary / "hybridbn-mine",
        tmp_path / ".model.hbn.mine.tmp",
        tmp_path / ".other.hbn.hybridbn-unfinished.tmp",
    ]
    kept[0].mkdir()
    (kept[0] / "hybridbn.lock").write_text("somebody's own")
    for path in kept[1:]:
        path.write_text("mine")
    subprocess.run([sys.executable, "-c", KILLED, str(target)], check=False)
    (left,) = (one for one in tmp_path.glob(".model.hbn.*") if one not in kept)
    (folder,) = (one for one in temporary.iterdir() if one not in kept)
    modes = [stat.S_IMODE(one.stat().st_mode) for one in (left, folder, folder / "hybridbn.lock")]
    assert modes == [0o600, 0o700, 0o600]
    assert target.read_text() == "old"
    with open_scratch() as own:
        write_atomically(target, b"new")
        assert {*temporary.iterdir()} == {kept[0], own}
    assert target.read_text() == "new"
    assert not left.exists()
    assert all(path.exists() for path in kept)


@posix
def test_what_another_one_uses_is_left_alone(tmp_path: Path, temporary: Path) -> None:
    target = tmp_path / "model.hbn"
    with open_scratch() as first, replace_file(target) as file:
        file.write(b"first")
        with open_scratch() as second:
            write_atomically(target, b"second")
            assert {*temporary.iterdir()} == {first, second}
        assert target.read_text() == "second"
    assert target.read_text() == "first"
    assert [*tmp_path.glob(".model*")] == [*temporary.iterdir()] == []


@posix
def test_links_and_folders_in_the_place_of_temporary_files_are_left_alone(tmp_path: Path, temporary: Path) -> None:
    target, victim = tmp_path / "model.hbn", tmp_path / "victim"
    victim.write_text("a temporary folder of hybridbn\n")
    (tmp_path / ".model.hbn.hybridbn-unfinished.tmp").symlink_to(victim)
    (temporary / "hybridbn-a").mkdir()
    (temporary / "hybridbn-a" / "hybridbn.lock").symlink_to(victim)
    with open_scratch():
        write_atomically(target, b"new")
    assert target.read_text() == "new"
    assert victim.read_text() == "a temporary folder of hybridbn\n"
    assert (temporary / "hybridbn-a" / "hybridbn.lock").is_symlink()


def test_after_the_input_changed_the_same_command_begins_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    source, output = tmp_path / "in.csv", tmp_path / "out.csv"
    source.write_text("x,c\n" + "1.5,a\n2.5,b\n,a\n4,\n" * 8)
    command = ["impute", str(source), str(output), "--quiet"]
    learn = impute._learn

    def change(*given: Any) -> None:
        learn(*given)
        source.write_text("x,c\n" + "1.5,a\n3.5,b\n,b\n4,\n" * 9)

    with monkeypatch.context() as patched:
        patched.setattr(impute, "_learn", change)
        assert run(command) == 75
    assert "run the command again" in capsys.readouterr().err
    assert not output.exists()
    assert run(command) == 0
    assert output.read_text().count("\n") == 1 + 4 * 9


# -- DuckDB -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def parquet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    duckdb = pytest.importorskip("duckdb")
    monkeypatch.chdir(tmp_path)
    with duckdb.connect() as connection:
        rows = "SELECT 'u' || i % 2 AS c, 'v' || i % 3 AS d, i / 7 AS x FROM range(60) t(i)"
        for name in ("table.parquet", "select 1.parquet", "FROM x.parquet", "kept.parquet"):
            connection.execute(f"COPY ({rows}) TO '{name}'")
        connection.execute(f"COPY ({rows}) TO 'rows.csv'")
    (tmp_path / "secret.txt").write_text("secret")
    return tmp_path


READ = [
    "table.parquet",
    "select 1.parquet",
    "FROM x.parquet",
    "select*.parquet",
    "FROM 'kept.parquet'",
    "SELECT c, d FROM 'rows.csv' -- ;",
    "WITH t AS (FROM read_csv(['rows.csv'])) SELECT * FROM t JOIN (SELECT DISTINCT d FROM 'k*t.parquet') USING (d)",
    "SELECT c, d, avg(x) OVER (PARTITION BY c, d) AS m FROM read_parquet('kept.parquet')",
]


@pytest.mark.parametrize("given", READ)
@pytest.mark.usefixtures("parquet")
def test_files_and_queries_are_read(given: str) -> None:
    scan = hb.scan(given, backend="duckdb")
    assert len(scan) == 60
    assert as_kind(
        hb.Multinomial, naive_bayes(scan.select(["c", "d"]), "d").potential("d")
    ).table.tolist() == pytest.approx([1 / 3] * 3)


REFUSED = [
    "FROM read_text('secret.txt')",
    "SELECT c, d, (SELECT content FROM read_text('secret.txt')) AS s FROM 'kept.parquet'",
    "SELECT c, (SELECT count(*) FROM glob('*')) AS s FROM 'kept.parquet'",
    "SELECT c FROM 'kept.parquet'; SELECT 1 AS c",
    "SELECT c FROM 'kept.parquet'; COPY (SELECT 1) TO 'made.csv'",
    "WITH t AS (SELECT 1) COPY t TO 'made.csv'",
    "FROM data",
    "FROM connection",
]


@pytest.mark.parametrize("query", REFUSED)
def test_other_files_statements_and_names_are_refused(query: str, parquet: Path) -> None:
    with pytest.raises(hb.TableError):
        hb.scan(query, backend="duckdb").sample()
    assert not (parquet / "made.csv").exists()


@pytest.mark.parametrize(
    "query",
    [
        "SELECT c, d FROM 'kept.parquet' WHERE random() < 0.5",
        "SELECT c, d, random() AS r FROM 'kept.parquet'",
        "SELECT c, CASE WHEN random() < .5 THEN d ELSE c END AS d FROM 'kept.parquet'",
    ],
)
@pytest.mark.usefixtures("parquet")
def test_rows_that_a_query_draws_are_refused(query: str) -> None:
    with pytest.raises(hb.TableError, match="other ones than before"):
        naive_bayes(hb.scan(query, backend="duckdb"), "d")


@pytest.mark.parametrize("change", ["UPDATE t SET x = x + 1 WHERE x = 3", "INSERT INTO t VALUES ('a', 3)"])
def test_rows_that_are_written_between_passes_are_refused(change: str) -> None:
    duckdb = pytest.importorskip("duckdb")
    with duckdb.connect() as connection:
        connection.execute("CREATE TABLE t AS SELECT 'a' AS c, i::DOUBLE AS x FROM range(2000) u(i)")
        scan = hb.scan("t", backend=connection)
        assert scan.value_range("x") == (0, 1999)
        assert len(scan.sample(10)) == 10
        connection.execute(change)
        with pytest.raises(hb.TableError, match="other ones than before"):
            scan.sample(20)
