"""One statement that only reads: what the guard of queries lets through, against PostgreSQL's own reading."""

from __future__ import annotations

import os
import pwd
import random
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

from hybridbn.errors import TableError
from hybridbn.formats.tables.statements import refuse_statements

READING = (
    "SELECT 1",
    "select 1;",
    "SELECT 1 ; -- end;",
    "(SELECT 1) UNION (SELECT 2)",
    "WITH a AS (SELECT 1) SELECT * FROM a",
    "VALUES (1)",
    "TABLE t",
    "SELECT ';', 'it''s; fine', \"a;b\" FROM t",
    "SELECT $$a;b'$$",
    "SELECT $tag$ $$; $tag$",
    "SELECT E'a\\';b'",
    "SELECT /* a /* ; */ ; */ 1",
    "/* first */ SELECT 1",
    "-- first\nSELECT 1",
    "SELECT U&\"d\\0061t;\", U&'\\0061;' FROM t",
    "SELECT replace(a, '\\', '/') FROM t",
    "SELECT a$b$c FROM t",
    "SELECT E'a'\n 'b\\';c'",
    "SELECT $1$$;$$",
    "SELECT a$$'$$; COMMIT; --'",  # a name, and a text
)
ENDING = (
    "",
    "  ;",
    "DROP TABLE t",
    "COMMIT",
    "EXPLAIN ANALYZE DELETE FROM t",
    "SELECT 1; DROP TABLE t",
    "SELECT 1;;;DROP TABLE t",
    "SELECT c <> $$'$$; COMMIT; DROP TABLE victim; --'",
    "SELECT $a$'$a$; COMMIT --'",
    "SELECT $b$ $c$; COMMIT; --$b$$c$",
    "SELECT E'a\\''; DROP TABLE t; --'",
    "SELECT e'\\\\'; COMMIT; --'",
    "SELECT nameE'a\\'; COMMIT; --'",
    "SELECT '\\''; COMMIT; --'",
    "SELECT E'a'\n'b\\''; COMMIT; --'",
    "SELECT E'a' -- c\n 'b\\''; COMMIT; --'",
    "SELECT 1 --x\r; COMMIT",
    'SELECT U&"a"""; COMMIT; --"',
    "SELECT /* /* */ */; COMMIT; -- */",
    "SELECT 'open",
    "SELECT /* open",
    "SELECT 1\0; COMMIT",
)


@pytest.mark.parametrize("query", READING)
def test_one_statement_is_let_through(query: str) -> None:
    refuse_statements(query, "postgresql")


@pytest.mark.parametrize("query", ENDING)
def test_a_second_statement_is_not(query: str) -> None:
    for dialect in ("postgresql", "unknown"):
        with pytest.raises(TableError, match="not one SELECT statement"):
            refuse_statements(query, dialect)


@pytest.mark.parametrize(
    ("dialect", "query"),
    [
        ("mysql", "SELECT 'a\\''; DROP TABLE t; -- '"),
        ("mysql", 'SELECT "a\\""; DROP TABLE t -- "'),
        ("mysql", "SELECT 1 /*! ; DROP TABLE t */"),
        ("mariadb", "SELECT 1 /*M!100100 ; DROP TABLE t */"),
        ("mysql", "SELECT 1 --1; DROP TABLE t"),
        ("mysql", "SELECT `a'`; DROP TABLE t; -- '"),
        ("mysql", "SELECT 1 # '\n; DROP TABLE t -- '"),
        ("mssql", "SELECT 1 DROP TABLE t"),
        ("mssql", "SELECT * INTO copy FROM t"),
    ],
)
def test_what_other_databases_read_otherwise(dialect: str, query: str) -> None:
    with pytest.raises(TableError, match="not one SELECT statement"):
        refuse_statements(query, dialect)


def test_other_databases_have_quotes_of_their_own() -> None:
    refuse_statements("SELECT `a;b` FROM t # last;", "mysql")
    refuse_statements("SELECT [into it] FROM t WHERE c = 'drop'".replace("into it", "a b"), "mssql")
    refuse_statements("SELECT 'a' FROM t", "unknown")


def test_long_queries_are_read_in_linear_time() -> None:
    for query in ("SELECT E'a' " + "-- " * 50_000, "SELECT " + "(" * 50_000, "SELECT '" + "''" * 50_000):
        refuse_or_not(query)
    refuse_or_not("SELECT " + "/*" * 50_000)


def refuse_or_not(query: str) -> bool:
    """Return whether a query is refused."""
    try:
        refuse_statements(query, "postgresql")
    except TableError:
        return True
    return False


PIECES = ("'", "''", "\\", "\\'", "$$", "$a$", "$", "E'", "e'", "U&'", 'U&"', '"', '""', "/*", "*/", "--", "\r", " ")
PIECES = (*PIECES, "a", "1", "x", "N'", "B'", "$1", "/* /*", "é", "\t", "UESCAPE '!'")


@pytest.mark.slow
@pytest.mark.parametrize("conforming", ["on", "off"])
def test_no_query_that_ends_early_in_postgresql_is_let_through(conforming: str) -> None:
    """Thousands of queries with a DROP TABLE behind a semicolon: none that PostgreSQL carries out may pass."""
    programs = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"))
    if not programs or os.geteuid():
        pytest.skip("needs root and /usr/lib/postgresql/*/bin/postgres")
    user = pwd.getpwnam("nobody")
    folder = Path(tempfile.mkdtemp(prefix="hybridbn-postgresql-"))
    rng = random.Random(7)
    queries = []
    for number in range(4000):
        before = "".join(rng.choice(PIECES) for _ in range(rng.randrange(7)))
        behind = "".join(rng.choice(PIECES) for _ in range(rng.randrange(5)))
        queries.append(f"SELECT {rng.choice(('1 ', 'c ', ''))}{before}; DROP TABLE v{number}; {behind}")
    statements = [f"CREATE TABLE v{number} (a int)" for number in range(len(queries))]
    statements += [*queries, "SELECT relname FROM pg_class WHERE relname ~ '^v[0-9]+$'"]
    options = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": [], "cwd": "/", "timeout": 300}
    try:
        os.chown(folder, user.pw_uid, user.pw_gid)
        initdb = [str(programs[-1].with_name("initdb")), "-D", f"{folder}/data", "-A", "trust", "-N", "-E", "UTF8"]
        subprocess.run([*initdb, "--locale", "C"], check=True, stdout=subprocess.DEVNULL, **options)  # type: ignore[call-overload]
        command = [str(programs[-1]), "--single", "-j", "-D", f"{folder}/data"]
        settings = ["-c", f"standard_conforming_strings={conforming}", "-c", "backslash_quote=on"]
        done = subprocess.run(
            [*command, *settings, "postgres"],
            input="".join(f"{statement} ;\n\n" for statement in statements).encode(),
            capture_output=True,
            **options,  # type: ignore[call-overload]
        )
    finally:
        shutil.rmtree(folder)
    left = {int(number) for number in re.findall(r'relname = "v(\d+)"', done.stdout.decode(errors="replace"))}
    dropped = [query for number, query in enumerate(queries) if number not in left]
    print(f"{len(dropped)} of {len(queries)} tables dropped, {sum(map(refuse_or_not, queries))} queries refused")
    assert 100 < len(dropped) < 1000
    assert [query for query in dropped if not refuse_or_not(query)] == []
