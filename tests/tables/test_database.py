"""Tables in databases through SQLAlchemy: SQLite here, and a real PostgreSQL server in the slow test."""

import random
import sys
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from databases import mariadb, opened, postgresql, tables
from narrowing import as_kind

import hybridbn as hb
from hybridbn.tables.formats import OutputExists, describe_location

needs = pytest.mark.usefixtures("alchemy")


@pytest.fixture(scope="session")
def alchemy():
    return pytest.importorskip("sqlalchemy", reason="SQLAlchemy is not installed (pip install 'hybridbn[sql]')")


def awkward():
    """Every type with holes, integers that no float holds, names that must be quoted."""
    return hb.Table(
        {
            "x": [1.5, None, -0.1, 1e-300],
            "big": [2**53 + 1, None, -(2**62), 0],
            'say "hi"; --': ["a", None, "O'Reilly %s :x", "é\n☃"],
            "select": [True, None, False, True],
            "%(k)s": ["u", "v", "u", None],
            "état (1)": [1.0, 2.0, None, 4.0],
        },
        discrete=['say "hi"; --', "select", "%(k)s"],
    )


def same(left, right):
    assert list(left.names) == list(right.names)
    for name in left.names:
        assert left.is_discrete(name) == right.is_discrete(name)
        if left.is_discrete(name):
            assert left.raw(name).tolist() == right.raw(name).tolist()
        else:
            np.testing.assert_array_equal(left[name], right[name])
    for table in (left, right):  # integers that no float holds
        assert [int(value) for value in table.to_pandas()["big"].dropna()] == [2**53 + 1, -(2**62), 0]


@pytest.fixture
def base(tmp_path, alchemy):
    return f"sqlite+pysqlite:///{tmp_path / 'd.db'}"


@pytest.fixture(scope="module")
def server(alchemy):
    """A PostgreSQL server of the test's own, on loopback."""
    with postgresql() as url:
        yield url


@pytest.fixture(params=["base", pytest.param("server", marks=pytest.mark.slow)])
def place(request, alchemy):
    """An empty database."""
    url = request.getfixturevalue(request.param)
    if request.param == "server":
        with opened(alchemy, url) as connection:
            connection.exec_driver_sql("DROP SCHEMA public CASCADE")
            connection.exec_driver_sql("CREATE SCHEMA public")
    return url


# -- round trips ------------------------------------------------------------------------------------------------------


def test_every_type_makes_the_trip(place):
    table = awkward()
    table.write(f"{place}?table=t")
    again = hb.read_table(f"{place}?table=t")
    same(table, again)
    assert again.raw("select").tolist() == [True, None, False, True]
    queried = hb.read_table(
        f"{place}?query=SELECT * FROM t", discrete=["select"]
    )  # SQLite gives its truth values as numbers
    same(table.drop("select"), queried.drop("select"))


def test_types_are_those_of_the_database(place, alchemy):
    awkward().write(f"{place}?table=t")
    with opened(alchemy, place) as connection:
        found = {c["name"]: type(c["type"]).__name__.upper() for c in alchemy.inspect(connection).get_columns("t")}
    assert found["x"].startswith("DOUBLE")
    assert found["big"] == "BIGINT"
    assert found["select"] == "BOOLEAN"
    assert found["%(k)s"] == "TEXT"


@pytest.mark.parametrize("name", ['My "table"; DROP', "select", "été", "50%"])
def test_tables_names_are_quoted(name, place):
    from urllib.parse import quote

    table = hb.Table({"x": [1.0, 2.0]})
    table.write(f"{place}?table={quote(name)}")
    assert hb.read_table(f"{place}?table={quote(name)}")["x"].tolist() == [1.0, 2.0]


def test_holes_are_filled_and_written_to_a_new_table(place, alchemy):
    """The everyday use: read with NULLs, complete from a network, write beside it; the source stays as it is."""
    rng = np.random.default_rng(1)
    c = rng.integers(0, 2, 200)
    x = np.where(rng.random(200) < 0.2, np.nan, rng.normal(3.0 * c, 1))
    labels = [None if hole else "ab"[code] for code, hole in zip(c, rng.random(200) < 0.2, strict=True)]
    hb.Table({"c": labels, "x": x}).write(f"{place}?table=incomplete")
    table = hb.read_table(f"{place}?table=incomplete")
    net = hb.fit([("c", "x")], table, potentials={"x": "gaussian"})
    net.most_probable(table)
    frame = table.to_pandas()
    frame["c"] = [str(value) for value in net.posterior("c", table).mode()] if frame["c"].isna().any() else frame["c"]
    frame["x"] = frame["x"].fillna(float(net.posterior("x", {}).mean()))
    hb.Table(frame).write(f"{place}?table=complete")
    again = hb.read_table(f"{place}?table=complete")
    assert len(again) == 200
    assert not np.isnan(again["x"]).any()
    assert tables(alchemy, place) == ["complete", "incomplete"]
    np.testing.assert_array_equal(hb.read_table(f"{place}?table=incomplete")["x"], x)


def test_columns_and_kinds_may_be_chosen(place):
    hb.Table({"x": [1.0, None], "k": [1, 2], "c": ["a", "b"]}).write(f"{place}?table=t")
    table = hb.read_table(f"{place}?table=t", columns=["k", "c"], discrete=["k"])
    assert list(table.names) == ["k", "c"]
    assert table.raw("k").tolist() == [1, 2]
    with pytest.raises(hb.TableError, match="there is no column 'q'; the columns are 'x', 'k', 'c'"):
        hb.read_table(f"{place}?table=t", columns=["q"])


def test_empty_tables_and_many_rows(place):
    hb.Table({"x": np.arange(25_000.0)}).write(f"{place}?table=many")
    assert hb.read_table(f"{place}?table=many")["x"].sum() == 25_000 * 24_999 / 2
    assert len(hb.read_table(f"{place}?query=SELECT x FROM many WHERE x < 0", continuous=["x"])) == 0
    assert len(hb.read_table(f"{place}?query=SELECT x, '%s' AS c FROM many WHERE '50%' LIKE '5%' AND x < 3")) == 3


# -- refusals ---------------------------------------------------------------------------------------------------------


def test_what_is_there_stays_unless_it_may_be_replaced(place, alchemy):
    hb.Table({"x": [1.0]}).write(f"{place}?table=t")
    with pytest.raises(OutputExists, match="there is a table 't' already; overwrite=True would replace it"):
        hb.Table({"y": [2.0]}).write(f"{place}?table=t")
    hb.Table({"y": [2.0, 3.0]}).write(f"{place}?table=t", overwrite=True)
    assert list(hb.read_table(f"{place}?table=t").names) == ["y"]
    with opened(alchemy, place) as connection:
        connection.exec_driver_sql("CREATE VIEW v AS SELECT * FROM t")
    with pytest.raises(OutputExists, match="there is a view 'v' already"):
        hb.Table({"y": [2.0]}).write(f"{place}?table=v", overwrite=True)
    assert len(hb.read_table(f"{place}?table=v")) == 2


@pytest.mark.parametrize("overwrite", [False, True])
def test_nothing_is_written_on_failure(overwrite, place, alchemy, monkeypatch):
    if overwrite:
        hb.Table({"old": [1.0]}).write(f"{place}?table=t")
    before = tables(alchemy, place)

    from hybridbn.tables.formats import database_base
    from hybridbn.tables.formats.base import cell_values as original

    calls = []

    def breaking(table, name):
        calls.append(name)
        if len(calls) > 4:
            raise RuntimeError("halfway")
        return original(table, name)

    monkeypatch.setattr(database_base, "BATCH", 2)
    monkeypatch.setattr(database_base, "cell_values", breaking)
    with pytest.raises(RuntimeError, match="halfway"):
        hb.Table({"x": np.arange(10.0), "y": np.arange(10.0)}).write(f"{place}?table=t", overwrite=overwrite)
    assert len(calls) >= 4  # some rows had gone out
    assert tables(alchemy, place) == before
    if overwrite:
        assert list(hb.read_table(f"{place}?table=t").names) == ["old"]


@pytest.mark.slow
def test_text_that_postgresql_refuses_leaves_nothing(server, alchemy):
    table = hb.Table({"c": ["fine"] * 15_000 + ["nul \0 inside"]})
    with pytest.raises(hb.FormatError, match="the database refuses") as caught:
        table.write(f"{server}?table=nul")
    assert "secret" not in str(caught.value)
    assert "nul" not in tables(alchemy, server)


@pytest.mark.slow
def test_postgresql_reads_schemas_numerics_and_only_reads(server, alchemy):
    with opened(alchemy, server) as connection:
        connection.exec_driver_sql('CREATE SCHEMA IF NOT EXISTS "My Schema"')
        connection.exec_driver_sql('DROP TABLE IF EXISTS "My Schema".t')
        connection.exec_driver_sql('CREATE TABLE "My Schema".t (n numeric(8, 3), s smallint, v varchar(9), f real)')
        connection.exec_driver_sql(
            """INSERT INTO "My Schema".t VALUES (1.125, 3, 'a', 0.5), (NULL, NULL, NULL, 'NaN')"""
        )
    table = hb.read_table(f"{server}?schema=My%20Schema&table=t")
    np.testing.assert_array_equal(table["n"], [1.125, np.nan])
    np.testing.assert_array_equal(table["f"], [0.5, np.nan])
    assert table.raw("v").tolist() == ["a", None]
    hb.Table({"x": [1.0]}).write(f"{server}?schema=My%20Schema&table=u", overwrite=True)
    assert len(hb.read_table(f"{server}?schema=My%20Schema&table=u")) == 1
    with pytest.raises(hb.FormatError, match="in a read-only transaction; write one SELECT statement"):
        hb.read_table(f'{server}?query=WITH gone AS (DELETE FROM "My Schema".t RETURNING n) SELECT * FROM gone')
    assert len(hb.read_table(f"{server}?schema=My%20Schema&table=t")) == 2
    with pytest.raises(hb.FormatError, match=r"postgresql.*the database refuses") as caught:
        hb.read_table(server.replace("/postgres", "/absent") + "?table=t")
    assert "secret" not in str(caught.value)
    with pytest.raises(hb.TableError, match="has 66 bytes, and postgresql allows 63"):
        hb.Table({"é" * 33: [1.0]}).write(f"{server}?table=long")


@pytest.mark.parametrize(
    ("rest", "reason"),
    [
        ("?table=absent", "there is no table 'absent'; the tables are 't'"),
        ("?query=SELECT * FROM absent", "the database refuses"),
        ("?query=DROP TABLE t", "not authorized; write one SELECT statement"),
        ("?query=SELECT 1; DROP TABLE t", "one statement at a time; write one SELECT statement"),
        ("?query=ATTACH 'other.db' AS other", "not authorized; write one SELECT statement"),
        ("?query=VACUUM INTO 'other.db'", "cannot VACUUM from within a transaction"),
        ("?query=PRAGMA query_only = OFF", "not authorized; write one SELECT statement"),
        ("?query=WITH a AS (SELECT 1 AS x) INSERT INTO t SELECT x FROM a", "not authorized; write one SELECT"),
        ("?query=COMMIT", "gives no columns"),
        ("?query=", "is no address of a table"),
        ("", "is no address of a table"),
        ("?table=", "is no address of a table"),
    ],
)
def test_bad_addresses_and_queries_are_refused(rest, reason, base):
    hb.Table({"x": [1.0]}).write(f"{base}?table=t")
    with pytest.raises(hb.HybridBNError, match=reason):
        hb.read_table(base + rest)
    assert len(hb.read_table(f"{base}?query=SELECT x, ';' AS c FROM t; ")) == 1


# -- queries only read -----------------------------------------------------------------------------------------------

ENDING = (
    "SELECT 1; DROP TABLE t",
    "SELECT 1; COMMIT; DROP TABLE t",
    "SELECT 'a\\'; COMMIT; DROP TABLE t; -- '",
    "SELECT $$a$$; COMMIT; DROP TABLE t --$$",
    "SELECT a$$'$$; COMMIT; DROP TABLE t; --'",
    "SELECT /* /* */ */; COMMIT; DROP TABLE t; -- */",
    "SELECT 1 /*! ; DROP TABLE t */",
    "SELECT 1 /*M!100100 ; DROP TABLE t */",
    "SELECT 1 # '\n; DROP TABLE t -- '",
    "SELECT `a'`; DROP TABLE t; -- '",
    "COMMIT",
    "DROP TABLE t",
    "DELETE FROM t",
    "INSERT INTO t VALUES (1)",
    "INSERT INTO t SELECT 1",
    "WITH gone AS (DELETE FROM t RETURNING x) SELECT * FROM gone",
    "SELECT 1 AS x INTO u",
    "CREATE TABLE u (x int)",
    "TRUNCATE TABLE t",
    "CALL p()",
    "SET SESSION TRANSACTION READ WRITE",
    "SELECT set_config('transaction_read_only', 'off', true)",
    "SHUTDOWN",
    "EXPLAIN ANALYZE DELETE FROM t",
    "ANALYZE DELETE FROM t",
    "SELECT 1\0; COMMIT; DROP TABLE t",
    "CREATE TABLE u AS SELECT 1",
    "COPY t TO '/tmp/u'",
    "",
)
PIECES: tuple[str, ...]
PIECES = ("'", "''", "\\", "\\'", "$$", "$a$", "$", "E'", "e'", "U&'", 'U&"', '"', '""', "/*", "*/", "--", "\r", " ")
PIECES = (*PIECES, "a", "1", "x", "N'", "B'", "$1", "/* /*", "é", "\t", "UESCAPE '!'", "`", "#", "/*!", "\n")


@pytest.fixture(scope="module")
def mysql(alchemy):
    """A MariaDB server of the test's own, on loopback."""
    with mariadb() as url:
        yield url


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["server", "mysql"])
def test_no_query_changes_anything_on_a_server(kind, request, alchemy):
    url = request.getfixturevalue(kind)
    with opened(alchemy, url) as connection:
        connection.exec_driver_sql("DROP TABLE IF EXISTS t")
        connection.exec_driver_sql("CREATE TABLE kept (x int)")
        connection.exec_driver_sql("CREATE TABLE t (x int)")
        connection.exec_driver_sql("INSERT INTO t VALUES (1), (2), (3)")
        if kind == "mysql":
            connection.exec_driver_sql("CREATE PROCEDURE p() BEGIN COMMIT; DELETE FROM t; SELECT 1 AS x; END")
    rng, before, refused = random.Random(7), tables(alchemy, url), 0
    ways = []
    for _ in range(400):
        before_end, behind = ("".join(rng.choices(PIECES, k=rng.randrange(most))) for most in (7, 5))
        ways.append(f"SELECT {rng.choice(('1 ', 'x ', ''))}{before_end}; COMMIT; DROP TABLE t; {behind}")
    for query in (*ENDING, *ways):
        try:
            hb.read_table(f"{url}?query={query or ' '}")
        except (hb.HybridBNError, UnicodeError):
            refused += 1
    assert refused > len(ENDING)
    assert tables(alchemy, url) == before
    assert len(hb.read_table(f"{url}?query=SELECT x, ';' AS c, '%s' AS d FROM t WHERE '50%' LIKE '5%'; -- end")) == 3
    assert len(hb.scan(f"{url}?query=SELECT x FROM t")) == 3
    for query in ("(SELECT 1 AS x) UNION (SELECT 2)", "WITH a AS (SELECT 1 AS x) SELECT * FROM a", "VALUES (1)"):
        assert len(hb.read_table(f"{url}?query={query}")) > 0
    with pytest.raises(hb.FormatError, match=r"the database refuses.*; write one SELECT statement"):
        hb.read_table(f"{url}?query=DROP TABLE t")


@pytest.mark.slow
def test_tables_of_mysql_make_the_trip(mysql):
    table = hb.Table({"x": [1.5, None, -0.1], "c": ["a", None, "b %s"]})
    table.write(f"{mysql}?table=made")
    assert hb.read_table(f"{mysql}?table=made").equals(table)
    assert hb.read_table(f"{mysql}?query=SELECT * FROM made").equals(table)


class Recorder:
    """A connection that remembers what it is sent."""

    def __init__(self, dialect):
        self.sent, self.name = [], dialect

    dialect = property(lambda self: self)
    returns_rows = True

    def exec_driver_sql(self, text, execution_options=None):
        self.sent.append(text)
        return self

    def execute(self, text, values):
        return self.exec_driver_sql(f"{text} {values['query']}")

    def keys(self):
        return ["x"]

    def fetchall(self):
        return []

    def __enter__(self):
        return self

    def __exit__(self, *failed):
        pass


@needs
@pytest.mark.parametrize(
    ("dialect", "words"),
    [
        ("postgresql", ["SELECT set_config", "DO $$ DECLARE rows refcursor", "FETCH 10000 FROM hybridbn"]),
        (
            "mysql",
            [
                "SET @hybridbn = CONCAT('EXPLAIN FORMAT=JSON '",
                "PREPARE",
                "SET @hybridbn = :query",
                "PREPARE",
                "EXECUTE",
            ],
        ),
        ("mssql", None),
    ],
)
@pytest.mark.usefixtures("alchemy")
def test_the_parser_of_the_server_sees_one_statement(dialect, words):
    """The query is never a statement by itself: it is a value, of which the server makes one statement."""
    from hybridbn.tables.formats.sqlalchemy_database import SqlAlchemy, _open_query

    connection, query = Recorder(dialect), "SELECT 1; DROP TABLE t"
    if words is None:
        with pytest.raises(hb.TableError, match=r"queries of mssql are not read.*make a view.*\?table=name"):
            _open_query(connection, SqlAlchemy().locate(f"{dialect}://host/b?query={query}")).__enter__()
        return
    with _open_query(connection, SqlAlchemy().locate(f"{dialect}://host/b?query={query}")):
        pass
    assert all(text.startswith(word) for text, word in zip(connection.sent, words, strict=True))
    assert not any(text.startswith(query) for text in connection.sent)


def test_duckdb_reads_one_statement(tmp_path):
    duckdb = pytest.importorskip("duckdb")
    with duckdb.connect() as connection:
        connection.sql("CREATE TABLE t AS SELECT i % 2 AS a, i AS x FROM range(6) u(i)")
        for query in ("FROM t", "SELECT ';' AS c, * FROM t -- ;", "PIVOT t ON a IN (0, 1) USING sum(x)", "VALUES (1)"):
            assert len(hb.scan(query, backend=connection)) > 0
        for query in (
            "SELECT 1 AS x; DROP TABLE t",
            "FROM t; COPY t TO 'u.csv'",
            "WITH a AS (SELECT 1) INSERT INTO t SELECT 1, * FROM a",
            "SELECT $$;$$ AS c; DELETE FROM t",
            "WITH a AS (INSERT INTO t VALUES (7, 8) RETURNING *) FROM a",
            f"SELECT * FROM t WHERE x > (WITH a AS (COPY t TO '{tmp_path}/u.csv') SELECT 0)",
            "PIVOT t ON a USING sum(x)",
        ):
            # the parser of DuckDB 1.5 knows no statements that write in a WITH
            with pytest.raises(hb.TableError, match=r"is not one SELECT statement|DuckDB can't read it"):
                hb.scan(query, backend=connection)
        with pytest.raises(hb.TableError, match="DuckDB can't read it"):
            hb.scan("SELECT FROM WHERE", backend=connection)
        with pytest.raises(hb.TableError, match="the query: DuckDB can't read it"):
            hb.scan("SELECT CAST('a' || x AS INTEGER) AS x FROM t", backend=connection).value_range("x")
        assert connection.sql("SELECT count(*) FROM t").fetchall() == [(6,)]


def test_duckdb_through_sqlalchemy_reads_one_statement(tmp_path, alchemy):
    pytest.importorskip("duckdb_engine", reason="duckdb-engine is not installed")
    url = f"duckdb:///{tmp_path}/d.duckdb"
    with opened(alchemy, url) as connection:
        connection.exec_driver_sql("CREATE TABLE t AS SELECT 1.5 AS x")
    assert len(hb.read_table(f"{url}?query=SELECT * FROM t")) == 1
    with pytest.raises(hb.TableError, match="is not one SELECT statement"):
        hb.read_table(f"{url}?query=SELECT 1; DROP TABLE t")


@needs
def test_queries_of_duckdb_are_checked_before_they_run(monkeypatch):
    from hybridbn.tables.formats import sqlalchemy_database

    def refuse(query):
        raise hb.TableError(f"refused: {query}")

    monkeypatch.setattr(sqlalchemy_database, "parse_duckdb_query", refuse)
    connection = SimpleNamespace(dialect=SimpleNamespace(name="duckdb"))
    address: Any = SimpleNamespace(query="DROP TABLE t")
    with pytest.raises(hb.TableError, match="refused: DROP TABLE t"):
        sqlalchemy_database._open_query(connection, address).__enter__()


@needs
def test_unknown_databases_and_drivers(tmp_path):
    with pytest.raises(
        hb.FormatError, match=r"only files, sqlite:///file\.db.table=t and databases that SQLAlchemy knows"
    ):
        hb.read_table("gopher://me:secret@host/base?table=t")
    with pytest.raises(hb.HybridBNError, match=r"oracle.*driver is missing") as caught:
        hb.read_table("oracle+cx_oracle://me:secret@host/base?table=t")
    assert "secret" not in str(caught.value)
    for absent in ("no/such/folder.db", "absent.db"):
        with pytest.raises(FileNotFoundError):
            hb.read_table(f"sqlite+pysqlite:///{tmp_path}/{absent}?table=t")
        assert not (tmp_path / absent).exists()


def test_binary_data_is_refused(base, alchemy):
    with opened(alchemy, base) as connection:
        connection.exec_driver_sql("CREATE TABLE t (b BLOB)")
        connection.exec_driver_sql("INSERT INTO t VALUES (NULL), (x'00ff')")
    with pytest.raises(hb.TableError, match=r"column 'b', row 1: .* is a bytes; .* cast them in a query"):
        hb.read_table(f"{base}?table=t").variable("b")


def test_databases_that_create_tables_outside_of_transactions(base, alchemy, monkeypatch):
    from hybridbn.tables.formats import sqlalchemy_database

    monkeypatch.setattr(sqlalchemy_database, "_TRANSACTIONAL", ())
    table = hb.Table({"x": [1.0, 2.0]})
    table.write(f"{base}?table=t")
    with pytest.raises(OutputExists, match="sqlite can't replace it in one transaction; write to a new name"):
        table.write(f"{base}?table=t", overwrite=True)
    assert tables(alchemy, base) == ["t"]


def test_without_sqlalchemy_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "sqlalchemy", None)
    with pytest.raises(hb.HybridBNError, match=r"install it with: pip install 'hybridbn\[sql\]'") as caught:
        hb.read_table("postgresql://me:secret@host/base?table=t")
    assert "secret" not in str(caught.value)


def test_passwords_are_never_shown():
    assert describe_location("postgresql://me:pass@host/b?table=t") == "postgresql://me:***@host/b?table=t"
    assert describe_location("postgresql://me:p@ss@host/b") == "postgresql://me:***@host/b"
    assert describe_location("postgresql://me:p?a/ss@host/b?table=a@b") == "postgresql://me:***@host/b?table=a@b"
    assert (
        describe_location("mssql://host/b?user=me&password=secret&table=t")
        == "mssql://host/b?user=me&password=***&table=t"
    )
    assert (
        describe_location("sqlite+pysqlite:///f.db?query=SELECT '@' || c FROM t")
        == "sqlite+pysqlite:///f.db?query=SELECT '@' || c FROM t"
    )


def test_addresses_of_adbc_are_refused_with_a_remedy():
    with pytest.raises(hb.FormatError, match=r"as SQLAlchemy does, without adbc\+, or .* by DuckDB") as caught:
        hb.read_table("adbc+postgresql://me:secret@host/base?table=t")
    assert "secret" not in str(caught.value)


@needs
def test_rows_are_counted_where_no_sql_groups_them(tmp_path):
    url = f"sqlite:///{tmp_path}/f.db?table=t"
    hb.Table({"a": list("xxw") * 5, "b": list("yzz") * 5, "c": list("uvu") * 5}).write(url)
    arcs = [("a", "b"), ("c", "b")]
    nets = hb.fit(arcs, hb.scan(url.replace("sqlite:", "sqlite+pysqlite:"))), hb.fit(arcs, hb.read_table(url))
    scanned, read = (as_kind(hb.Multinomial, net.potential("b")).table for net in nets)
    np.testing.assert_array_equal(scanned, read)
