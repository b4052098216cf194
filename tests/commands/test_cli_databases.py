"""``hybridbn impute`` from and into databases: SQLite through SQLAlchemy, and a real PostgreSQL in the slow tests."""

from __future__ import annotations

import contextlib
import os
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from databases import opened, postgresql, tables
from narrowing import as_kind

import hybridbn as hb
from hybridbn.commands.cli import run
from hybridbn.commands.locations import locate

ROOT = Path(__file__).resolve().parents[2]
sqlalchemy = pytest.importorskip("sqlalchemy", reason="SQLAlchemy is not installed (pip install 'hybridbn[sql]')")


PLAIN = {"no_parameters": True}  # a percent sign is one


def executed(url: str, *statements: str) -> None:
    with opened(sqlalchemy, url) as connection:
        for statement in statements:
            connection.exec_driver_sql(statement, execution_options=PLAIN)


EMPTY = ("DROP SCHEMA public CASCADE", "CREATE SCHEMA public")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HYBRIDBN_TRACEBACK", "1")
    return tmp_path


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with postgresql() as url:
        yield url


@pytest.fixture(params=["sqlite", pytest.param("server", marks=pytest.mark.slow)])
def base(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An empty database."""
    if request.param == "sqlite":
        return f"sqlite+pysqlite:///{tmp_path / 'd.db'}"
    url = str(request.getfixturevalue("server"))
    executed(url, *EMPTY)
    return url


def values(rows: int = 400) -> dict[str, list[Any]]:
    rng = np.random.default_rng(2)
    x = rng.normal(size=rows).round(3)
    columns: dict[str, list[Any]] = {
        "x": x.tolist(),
        "s": rng.poisson(4, rows).tolist(),
        'say "hi"; --': np.where(x > 0, "a", "O'Reilly %s :x").tolist(),
        "select": (rng.random(rows) < 0.5).tolist(),
    }
    return {
        n: [None if hole else v for v, hole in zip(c, rng.random(rows) < 0.2, strict=True)] for n, c in columns.items()
    }


def given(url: str, rows: int = 400) -> str:
    """Make a table with a key, whose rows do not lie in its order."""
    columns = {"id": list(range(rows)), **values(rows)}
    types = [sqlalchemy.Integer, sqlalchemy.Numeric(8, 3, asdecimal=False), sqlalchemy.SmallInteger, sqlalchemy.Text]
    types.append(sqlalchemy.Boolean)
    made = [
        sqlalchemy.Column(n, t, key=f"c{i}", primary_key=not i)
        for i, (n, t) in enumerate(zip(columns, types, strict=True))
    ]
    target = sqlalchemy.Table("My t", sqlalchemy.MetaData(), *made)
    records = [dict(zip(target.c.keys(), row, strict=True)) for row in zip(*columns.values(), strict=True)]
    with opened(sqlalchemy, url) as connection:
        target.create(connection)
        connection.execute(target.insert(), records[::-1])
    return f"{url}?table=My%20t"


def fetched(url: str, query: str) -> list[tuple[Any, ...]]:
    with opened(sqlalchemy, url) as connection:
        return [tuple(row) for row in connection.exec_driver_sql(query, execution_options=PLAIN)]


def types(url: str, table: str) -> dict[str, str]:
    with opened(sqlalchemy, url) as connection:
        return {c["name"]: str(c["type"]) for c in sqlalchemy.inspect(connection).get_columns(table)}


def started(*arguments: str) -> subprocess.Popen[str]:
    path = os.pathsep.join([str(ROOT), *sys.path[1:]])
    return subprocess.Popen(
        [sys.executable, "-m", "hybridbn", "impute", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": path},
    )


# -- what comes out ---------------------------------------------------------------------------------------------------


def test_a_table_is_completed_beside_itself(base: str) -> None:
    source = given(base)
    assert run(["impute", source, f"{base}?table=out%20%22q%22", "--chunk", "64", "--save-model", "m.hbn"]) == 0
    assert types(base, 'out "q"') == types(base, "My t")
    whole = hb.read_table(f"{base}?table=out%20%22q%22")
    assert not any(whole.missing.values())
    before = {"id": list(range(400)), **values()}
    for name, column in before.items():
        kept = [(a, b) for a, b in zip(column, whole.raw(name), strict=True) if a is not None]
        assert all(a == b for a, b in kept), name
        assert 250 < len(kept) <= 400
    assert list(as_kind(hb.Network, hb.load("m.hbn"))) == list(values())  # the key takes no part
    assert run(["impute", source, "again.csv", "--chunk", "500"]) == 0
    assert hb.read_table("again.csv")["x"].tolist() == whole["x"].tolist()
    assert tables(sqlalchemy, base) == ["My t", 'out "q"']
    assert not list(Path().glob("*.parts"))


def test_draws_queries_and_saved_models(base: str) -> None:
    source = given(base)
    query = f"{base}?query=SELECT x, s FROM \"My t\" WHERE s < 9 AND '%' LIKE '%' ORDER BY id"
    assert run(["impute", query, f"{base}?table=drawn", "--draws", "2", "--save-model", "m.hbn"]) == 0
    drawn = hb.read_table(f"{base}?table=drawn").to_pandas()
    assert list(drawn.columns) == ["draw", "x", "s"]
    assert drawn["draw"].value_counts().to_dict() == {1.0: len(drawn) / 2, 2.0: len(drawn) / 2}
    assert run(["impute", query, f"{base}?table=modeled", "--model", "m.hbn", "--quiet"]) == 0
    assert run(["impute", source, f"{base}?table=kept", "--keep", "select,x"]) == 0
    assert hb.read_table(f"{base}?table=kept").missing["x"] == sum(value is None for value in values()["x"])


def test_every_other_format_goes_in(base: str) -> None:
    given(base)
    table = hb.read_table(f"{base}?table=My%20t")
    for name in ("t.csv", "t.parquet", "t.jsonl", "sqlite:///t.db?table=t"):
        table.write(name)
        goal = f"{base}?table={name[:9].replace(':', '').replace('/', '').replace('.', '')}"
        assert run(["impute", name, goal]) == 0
        whole = hb.read_table(goal)
        assert not any(whole.missing.values()), name
        assert whole.raw("select").dtype == object or set(whole.raw("select")) <= {True, False}


def test_what_databases_have_no_type_for_is_held_as_text(base: str) -> None:
    import pandas as pd

    made = pd.DataFrame({"when": pd.date_range("2020", periods=40), "x": np.arange(40.0), "l": [[1, None]] * 40})
    made.loc[3:9, "x"] = None
    made.to_parquet("t.parquet")
    lines = ['{"x":1,"m":"a"}', '{"x":null,"m":2}', '{"x":3,"m":true}', '{"x":4,"m":null}']
    Path("t.jsonl").write_text("\n".join(lines))
    assert run(["impute", "t.parquet", f"{base}?table=nested", "--keep", "when,l"]) == 0
    assert run(["impute", "t.jsonl", f"{base}?table=mixed", "--keep", "m"]) == 0
    assert [row[0] for row in fetched(base, "SELECT m FROM mixed ORDER BY x, m")].count(None) == 1
    assert {str(row[0]) for row in fetched(base, "SELECT m FROM mixed")} == {"a", "2", "True", "None"}
    assert str(fetched(base, 'SELECT l, "when" FROM nested')[0][0]) in (
        "[1, null]",
        "[1.0, null]",
        "[1.0, None]",
        "[1, None]",
    )


# -- what is refused, and what stays ----------------------------------------------------------------------------------


def test_refusals(
    base: str,
    tmp_path_factory: pytest.TempPathFactory,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    source = given(base)
    temporary = tmp_path_factory.mktemp("temporary")
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    for arguments, code, message in (
        ((source, source), 2, "is the input"),
        (("absent.csv", source), 73, "there is such a table already"),
        ((source, f"{base}?query=SELECT 1"), 2, "a table is written to"),
        ((f"{base}?table=absent", "out.csv"), 2, "there is no table 'absent'; the tables are 'My t'"),
        ((base, "out.csv"), 2, "is no address of a table"),
        ((source, "out.csv", "--parts", "nowhere"), 2, "--parts nowhere: there is no such folder"),
        (("https://me:secret@host/t.csv", "out.csv"), 2, "https://me:***@host/t.csv: only files and tables"),
        ((source, "gopher://me:secret@host/base?table=t"), 2, "databases that SQLAlchemy knows"),
    ):
        assert run(["impute", *arguments, "--quiet"]) == code, arguments
        said = capsys.readouterr().err
        assert message in said
        assert "secret" not in said
    assert tables(sqlalchemy, base) == ["My t"]
    assert os.listdir() in (["d.db"], [])
    assert os.listdir(temporary) == []


def test_what_a_table_can_not_be_is_told_before_anything_is_learned(
    base: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    import hybridbn.commands.impute as command

    monkeypatch.setattr(command, "_learn", lambda *_: pytest.fail("learned"))
    Path("t.csv").write_text(f"{'x' * 70},c\n1,a\n,b\n3,\n")
    Path("case.csv").write_text("x,X\n1,2\n,3\n4,\n")
    if base.startswith("postgresql"):
        assert run(["impute", "t.csv", f"{base}?table=t"]) == 2
        assert "postgresql allows 63; rename it" in capsys.readouterr().err
    else:
        assert run(["impute", "case.csv", f"{base}?table=t"]) == 73
        assert "duplicate column name" in capsys.readouterr().err
    assert run(["impute", "case.csv", "sqlite:///new.db?table=t"]) == 2
    assert "that differ in case only" in capsys.readouterr().err
    assert not Path("new.db").exists()
    assert tables(sqlalchemy, base) == []


def test_what_breaks_while_it_is_written_leaves_nothing(base: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from hybridbn.tables.formats import database_base
    from hybridbn.tables.formats.row_encoding import decode_rows

    source, calls = given(base), []

    def breaking(data: bytes) -> list[list[Any]]:
        calls.append(data)
        if len(calls) > 2:
            raise OSError(28, "No space left on device")
        return decode_rows(data)

    monkeypatch.setattr(database_base, "decode_rows", breaking)
    assert run(["impute", source, f"{base}?table=out", "--chunk", "50"]) == 74
    assert tables(sqlalchemy, base) == ["My t"]
    monkeypatch.undo()
    assert run(["impute", source, f"{base}?table=out", "--chunk", "50"]) == 0


def test_a_run_into_a_server_has_a_place_for_its_parts_if_it_is_told(tmp_path: Path) -> None:
    place = locate("postgresql://me:one@host/b?table=t", None, None, "OUTPUT")
    assert place.shown == "postgresql://me:***@host/b?table=t"
    assert place.beside() is None
    beside = place.beside(str(tmp_path))
    assert beside is not None
    assert beside.parent == tmp_path
    assert "one" not in beside.name
    other = locate("postgresql://me:two@host/b?table=t", None, None, "OUTPUT")
    assert other.beside(str(tmp_path)) == beside
    assert locate("postgresql://me@host/b?table=u", None, None, "OUTPUT").beside(str(tmp_path)) != beside
    # the tables of a file have a place each
    assert locate(f"sqlite:///{tmp_path}/d.db?table=a/b", None, None, "OUTPUT").beside() == tmp_path / "d.db-a%2Fb"


def test_a_column_of_bytes_is_left_alone(capsys: pytest.CaptureFixture[str]) -> None:
    connection = sqlite3.connect("t.db")
    connection.execute("CREATE TABLE t (x REAL, raw BLOB)")
    connection.executemany("INSERT INTO t VALUES (?, ?)", [(None if i % 3 else i, b"\0") for i in range(9)])
    connection.commit()
    connection.close()
    for options in ((), ("--keep", "raw")):
        assert run(["impute", "sqlite:///t.db?table=t", "out.csv", *options]) == 0
        assert ("'raw' (of type bytes)" in capsys.readouterr().err) == (not options)
        assert Path("out.csv").read_text().splitlines()[1] == "0.0,00"


# -- a server ---------------------------------------------------------------------------------------------------------


RICH = """CREATE TABLE rich (id serial PRIMARY KEY, n numeric(8,3), plain numeric, s smallint, big bigint, v varchar(9),
    f real, b boolean, m mood, p percent, "when" timestamptz, day date, at time, j jsonb, arr integer[], u uuid,
    ip inet, raw bytea, span interval)"""
FILLED = """INSERT INTO rich (n, plain, s, big, v, f, b, m, p, "when", day, at, j, arr, u, ip, raw, span) SELECT
    CASE WHEN g % 5 > 0 THEN (g * 37 % 1009)::numeric / 8 END, CASE WHEN g % 7 > 0 THEN (g % 83)::numeric / 10 END,
    CASE WHEN g % 6 > 0 THEN 32700 + g % 67 END, CASE WHEN g % 4 > 0 THEN 9007199254740993 + g END,
    CASE WHEN g % 3 > 0 THEN (ARRAY['a','b','c d'])[1 + g % 3] END, CASE WHEN g % 8 > 0 THEN g * 0.1 END,
    CASE WHEN g % 9 > 0 THEN g % 2 = 0 END, CASE WHEN g % 5 > 0 THEN (ARRAY['sad','ok'])[1 + g % 2]::mood END,
    CASE WHEN g % 10 > 0 THEN (g % 101)::numeric END, now() + g * interval '1 s', current_date + g, current_time,
    '{"a": [1, null]}', ARRAY[1,NULL,3], gen_random_uuid(), '10.0.0.1', '\\x00ff', interval '1 day 2 hours'
    FROM generate_series(1, 500) g"""


@pytest.mark.slow
def test_types_of_postgresql_stay(server: str, capsys: pytest.CaptureFixture[str]) -> None:
    fetch = f"{server}?table=rich"
    domain = "CREATE DOMAIN percent AS numeric(5,2) CHECK (VALUE BETWEEN 0 AND 100)"
    executed(server, *EMPTY, "CREATE TYPE mood AS ENUM ('sad', 'ok', 'happy')", domain, RICH, FILLED)
    keep = "when,day,at,j,arr,u,ip,raw,span"
    assert run(["impute", fetch, f"{server}?table=out", "--keep", keep, "--bounds", "p=0:100"]) == 0
    kinds = (
        "SELECT column_name, data_type, udt_name, domain_name, numeric_precision, numeric_scale, "
        "character_maximum_length"
    )
    kinds += " FROM information_schema.columns WHERE table_name = '{}' ORDER BY ordinal_position"
    assert fetched(server, kinds.format("out")) == fetched(server, kinds.format("rich"))
    names = list(types(server, "rich"))
    kept = " AND ".join(f'(r."{n}" IS NULL OR r."{n}" = o."{n}")' for n in names)
    assert fetched(
        server,
        f"SELECT count(*) FROM rich r JOIN out o USING (id) WHERE {kept}".replace('r."id"', "id").replace(
            'o."id"', "id"
        ),
    ) == [(500,)]
    holes = " + ".join(f'count(*) FILTER (WHERE "{n}" IS NULL)' for n in names)
    assert fetched(server, f"SELECT {holes} FROM out") == [(0,)]
    for goal in (
        "out.parquet",
        "out.csv",
        "out.jsonl",
        "sqlite:///out.db?table=t",
        "sqlite+pysqlite:///two.db?table=t",
    ):
        assert run(["impute", fetch, goal, "--keep", keep, "--bounds", "p=0:100"]) == 0, goal
    from pyarrow import parquet

    held = {field.name: str(field.type) for field in parquet.read_schema("out.parquet")}
    assert held["when"] == "timestamp[us, tz=UTC]"
    assert held["big"] == "int64"
    assert held["raw"] == "binary"
    # what the database itself refuses leaves nothing behind
    capsys.readouterr()
    executed(
        server,
        "ALTER DOMAIN percent DROP CONSTRAINT percent_check",
        "ALTER DOMAIN percent ADD CHECK (VALUE < 0) NOT VALID",
    )
    assert run(["impute", fetch, f"{server}?table=bad", "--keep", keep]) == 74
    assert "violates check constraint" in capsys.readouterr().err
    assert tables(sqlalchemy, server) == ["out", "rich"]


@pytest.mark.slow
def test_who_may_not_write_is_told_before_anything_is_learned(server: str, capsys: pytest.CaptureFixture[str]) -> None:
    executed(server, *EMPTY, "GRANT USAGE ON SCHEMA public TO public")
    with contextlib.suppress(sqlalchemy.exc.SQLAlchemyError):
        executed(server, "CREATE ROLE reader LOGIN")
    reader = server.replace("tester:secret", "reader:secret")
    assert run(["impute", "absent.csv", f"{reader}?table=t"]) == 73
    assert "permission denied" in capsys.readouterr().err
    assert run(["impute", "absent.csv", f"{server}?schema=nowhere&table=t"]) == 73
    assert "nowhere" in capsys.readouterr().err
    assert run(["impute", "absent.csv", f"{server.replace('/postgres', '/nobase')}?table=t"]) == 73
    assert "secret" not in capsys.readouterr().err


def waiting(url: str, process: subprocess.Popen[str], what: str) -> None:
    """Wait until the server is at a statement that starts so."""
    deadline = time.monotonic() + 300
    query = f"SELECT count(*) FROM pg_stat_activity WHERE query LIKE '{what}%' AND pid <> pg_backend_pid()"
    while not fetched(url, query)[0][0]:
        assert process.poll() is None
        assert time.monotonic() < deadline


def larger(url: str, rows: int = 30_000) -> str:
    executed(
        url,
        *EMPTY,
        "CREATE TABLE t AS SELECT CASE WHEN g % 3 > 0 THEN (g % 10007 * 7919 % 10007) / 7.0 END::float8 AS x, "
        "CASE WHEN g % 4 > 0 THEN (ARRAY['a','b','c'])[1 + g % 31 % 3] END AS c, "
        f"CASE WHEN g % 5 > 0 THEN g % 17 END AS k FROM generate_series(1, {rows}) g",
    )
    return f"{url}?table=t"


@pytest.mark.slow
def test_killed_while_it_writes_nothing_stays_and_parts_are_taken_up(server: str, tmp_path: Path) -> None:
    source, goal = larger(server), f"{server}?table=out"
    options = ("--chunk", "1000", "--sample", "2000", "--quiet", "--parts", str(tmp_path))
    assert run(["impute", source, f"{server}?table=clean", *options[:5]]) == 0
    process = started(source, goal, *options)
    waiting(server, process, "INSERT INTO out")
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert "out" not in tables(sqlalchemy, server)
    (parts,) = tmp_path.glob("*.parts")
    first = (parts / "part-0-0").stat()
    process = started(source, goal, *options)
    waiting(server, process, "INSERT INTO out")
    assert (parts / "part-0-0").stat().st_mtime_ns == first.st_mtime_ns
    assert process.communicate()[1] == ""
    assert process.returncode == 0
    assert not list(tmp_path.iterdir())
    both = (
        "(SELECT * FROM out EXCEPT ALL SELECT * FROM clean) UNION ALL (SELECT * FROM clean EXCEPT ALL SELECT * FROM "
        "out)"
    )
    assert fetched(server, f"SELECT count(*) FROM ({both}) d") == [(0,)]
    assert fetched(server, "SELECT count(*), count(x), count(c), count(k) FROM out") == [(30_000,) * 4]


@pytest.mark.slow
def test_of_two_writers_one_wins(server: str) -> None:
    source, goal = larger(server, 5000), f"{server}?table=out"
    both = [started(source, goal, "--seed", seed) for seed in "01"]
    ended = [(process.communicate(timeout=120)[1], process.returncode) for process in both]
    assert sorted(code for _, code in ended) == [0, 73], ended
    assert fetched(server, "SELECT count(*), count(x) FROM out") == [(5000, 5000)]


@pytest.mark.slow
def test_a_server_that_ends_while_it_is_written_to_is_told(server: str) -> None:
    source, goal = larger(server), f"{server}?table=out"
    process = started(source, goal, "--sample", "2000", "--quiet")
    waiting(server, process, "INSERT INTO out")
    ended = (
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE 'INSERT INTO out%' AND pid <> "
        "pg_backend_pid()"
    )
    fetched(server, ended)
    said = process.communicate(timeout=60)[1]
    assert process.returncode == 74, said
    assert len(said.splitlines()) == 1
    assert "secret" not in said
    assert tables(sqlalchemy, server) == ["t"]


@pytest.mark.slow
def test_memory_is_bounded(server: str) -> None:
    source = larger(server, 1_000_000)
    process = started(source, f"{server}?table=out", "--sample", "10000")
    _, status, usage = os.wait4(process.pid, 0)
    process.communicate()
    print(f"{usage.ru_maxrss / 1024:.0f} MB")
    assert os.waitstatus_to_exitcode(status) == 0
    assert usage.ru_maxrss < 450 * 1024
