"""DuckDB: relations, queries and files, counted by SQL where that is cheaper than reading the rows."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, ClassVar, NoReturn

from hybridbn.errors import TableError
from hybridbn.registry import LazyModule, import_library
from hybridbn.tables.backends.base import (
    BATCH_ROWS,
    Backend,
    Batch,
    Fragment,
    Local,
    Source,
    number_batches,
)
from hybridbn.tables.backends.sources import FileFragment, FileTable, is_scannable, open_files, suffix_of
from hybridbn.tables.backends.sql import SQLSource
from hybridbn.tables.columns import is_of_library
from hybridbn.tables.formats.database_base import parse_duckdb_query, quote_name, quote_text
from hybridbn.tables.formats.files import StoredFile

duckdb: LazyModule = LazyModule("duckdb")
pyarrow: LazyModule = LazyModule("pyarrow")

_SUFFIXES = (".parquet", ".pq")
_NEEDED = "backend='duckdb' needs DuckDB: pip install 'hybridbn[duckdb]'"
_QUERY = re.compile(r"\s*(select|from|with|values|table|pivot|describe)\b(?!\.\w+$)", re.IGNORECASE)
_READERS = re.compile(r"read_(csv|parquet|json|ndjson)\w*|parquet_scan", re.IGNORECASE)
"""The functions whose arguments are files that a query reads as tables."""
_ROUNDING = 1e-9
"""Sums of floats may differ so much with the order of the rows, which is another one each time."""


class DuckDB(Local):
    """Reads relations of DuckDB, SQL queries, the names of tables, and Parquet files.

    Text files are read as by any other backend, because DuckDB has types of its own for their columns; a query, such as
    ``"FROM 'table.csv'"``, reads them as DuckDB does.

    Parameters
    ----------
    connection : duckdb.DuckDBPyConnection, optional
        By default each scan has one of its own, in memory, that can read the files of the scan and no others.

    Examples
    --------
    >>> import duckdb, hybridbn as hb  # doctest: +SKIP
    >>> with duckdb.connect() as connection:  # doctest: +SKIP
    ...     scan = hb.scan("SELECT i % 3 AS a, i % 2 AS b FROM range(60) AS t(i)", ["a", "b"], backend=connection)
    ...     hb.fit([("a", "b")], scan).potential("b").table
    array([[0.5, 0.5],
           [0.5, 0.5],
           [0.5, 0.5]])
    """

    name = "duckdb"
    wraps: ClassVar[tuple[str, str]] = ("duckdb", "DuckDBPyConnection")

    def __init__(self, connection: Any = None) -> None:
        self._connection = connection
        self._threads: int | None = None

    @classmethod
    @contextmanager
    def start(cls, workers: int | None = None, scheduler: str | None = None) -> Iterator[Backend]:
        """Take as many threads as there are to be workers."""
        backend = cls()
        backend._threads = workers
        yield backend

    def connect(self, files: Iterable[str]) -> Any:
        """Return the connection that was given, or a new one that can read these files only.

        Addresses of other computers need extensions of DuckDB, so with these all can be read.
        """
        if self._connection is not None:
            return self._connection
        library = import_library("duckdb", _NEEDED)
        connection = library.connect(config={} if self._threads is None else {"threads": self._threads})
        paths = [path for name in files for path in (name, *glob.glob(name, recursive=True))]
        connection.execute("SET python_enable_replacements = false")
        if not any("://" in path for path in paths):
            connection.execute(f"SET allowed_paths = [{', '.join(map(quote_text, paths))}]")
            connection.execute("SET enable_external_access = false")
        connection.execute("SET lock_configuration = true")
        return connection

    def open(self, data: Any) -> Source | None:
        """Return a relation, a query, a table of the connection, or files."""
        if is_of_library(data, "duckdb", "DuckDBPyRelation"):
            return _Relation(data, "the relation")
        if isinstance(data, str) and _QUERY.match(data) and not _is_file(data):
            import_library("duckdb", _NEEDED)
            return self._ask(data, "the query", list_files(parse_duckdb_query(data)))
        if isinstance(data, str | os.PathLike):
            text = os.fspath(data)
            if "://" not in text and (os.path.isdir(text) or suffix_of(text) in _SUFFIXES):
                files = open_files(text, {}, partial(_ParquetFiles, self._ask))
                return None if files is None or {*map(suffix_of, files.paths)} - {*_SUFFIXES} else files
            if suffix_of(text) in _SUFFIXES:
                return self._ask(f"FROM read_parquet({quote_text(text)})", text, [text])
            if re.fullmatch(r"[\w.]+", text) and not is_scannable(text):
                name = ".".join(map(quote_name, text.split(".")))
                return self._ask(f"FROM {name}", text)
        return None

    def _ask(self, query: str, shown: str, files: Iterable[str] = ()) -> _Relation:
        connection = self.connect(files)
        with _report_refusal(shown):
            return _Relation(connection.sql(query), shown)


class _Counted(SQLSource):
    """What DuckDB counts: a relation, which is run again for every query."""

    relation: Any
    _sums: Sequence[Any] = ()

    def rows(self, query: str) -> Iterable[Sequence[Any]]:
        """Run a query; its rows come in batches."""
        self.check_rows()
        yield from self._fetch(query)

    def check_rows(self) -> None:
        """Refuse rows that are other ones than before, because a query draws them or someone writes them."""
        floats = [one.name for one in self.schema if pyarrow.types.is_floating(one.type)]
        others = [quote_name(name) for name in self.schema.names if name not in floats]
        asked = ["count(*)", f"sum(hash({', '.join(others)}))::VARCHAR" if others else "NULL"]
        for name in map(quote_name, floats):
            asked += [f"sum({cell}) FILTER (isfinite({name}))" for cell in (name, f"abs({name})")]
        (sums,) = self._fetch(f"SELECT {', '.join(asked)} FROM scanned")
        before, self._sums = self._sums or sums, sums
        pairs = zip(before[2::2], sums[2::2], sums[3::2], strict=True)
        if before[:2] != sums[:2] or any(abs((a or 0) - (b or 0)) > _ROUNDING * (most or 0) for a, b, most in pairs):
            raise TableError(
                f"{self.shown}: the rows are other ones than before; a query must give the same rows each time, and"
                " nobody may write what it reads: keep them in a table first"
            )

    def _fetch(self, query: str) -> Iterator[Sequence[Any]]:
        with _read(self.relation.query("scanned", query), BATCH_ROWS, self.shown) as reader:
            for batch in reader:
                yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)

    def is_nan(self, cell: str) -> str:
        """NaN is equal to itself here."""
        return f"isnan({cell})"


class _Relation(_Counted):
    """A relation, which is run again for every pass."""

    def __init__(self, relation: Any, shown: str) -> None:
        self.relation, self.shown = relation, shown
        # no row is read for the types
        with _read(relation.limit(0), 1, shown) as reader:
            self.schema = reader.schema

    def fragments(self) -> Sequence[Fragment]:
        """Return the relation, which DuckDB divides among its own threads."""
        return [_RelationFragment(self)]


class _ParquetFiles(FileTable, _Counted):
    """Parquet files, whose rows are read as by any other backend, and which DuckDB counts."""

    def __init__(self, ask: Callable[[str, str, Sequence[str]], _Relation], *given: Any) -> None:
        super().__init__(*given)
        self._ask = ask

    @cached_property
    def relation(self) -> Any:
        """All rows as DuckDB reads them."""
        kinds = {
            name: "BIGINT" if pyarrow.types.is_integer(one.type) else "VARCHAR"
            for name, one in self._constants[0].items()
        }
        typed = ", ".join(f"{quote_text(name)}: {kind}" for name, kind in kinds.items())
        options = f"hive_partitioning = true, hive_types = {{{typed}}}" if kinds else "hive_partitioning = false"
        paths = ", ".join(map(quote_text, self.paths))
        return self._ask(
            f"FROM read_parquet([{paths}], union_by_name = true, {options})", self.shown, self.paths
        ).relation

    def check_rows(self) -> None:
        """Refuse files that were changed since they were counted first, which costs less than to sum their rows."""
        states = [StoredFile(path).state() for path in self.paths]
        before, self._sums = self._sums or states, states
        if before != states:
            raise TableError(f"{self.shown} was changed while it was scanned; scan it again")

    def _are_plain(self, names: Iterable[str]) -> bool:
        """Tell whether the values of columns come out of a query as their states, and the files by their names."""
        is_named = len({name.lower() for name in self.schema.names}) == len(self.schema.names)
        return is_named and not any(map(glob.has_magic, self.paths)) and super()._are_plain(names)

    def ends(self) -> Mapping[int, int]:
        """Return how many rows each file has, as it says itself."""
        pieces = [piece for piece in self.fragments() if isinstance(piece, FileFragment)]
        return {piece.number: piece.start + (piece.rows or 0) for piece in pieces}


@dataclass(frozen=True)
class _RelationFragment(Fragment):
    """All rows of a relation, in its order."""

    source: _Relation

    def batches(self, columns: Sequence[str], rows: int = BATCH_ROWS) -> Iterator[Batch]:
        """Yield what the relation gives."""
        self.source.check_rows()
        chosen = self.source.relation.project(", ".join(map(quote_name, columns)))
        with _read(chosen, rows, self.source.shown) as reader:
            yield from number_batches(reader, 0)

    def __reduce__(self) -> NoReturn:
        raise TableError(
            "a relation of DuckDB can't be sent to other processes; scan the files that it reads with this backend, or"
            " leave the backend out: DuckDB has threads of its own"
        )


@contextmanager
def _read(relation: Any, rows: int, shown: str) -> Iterator[Any]:
    """Open a stream of the relation's batches, by the name that the version of DuckDB has for it."""
    names = ("to_arrow_reader", "fetch_record_batch", "fetch_arrow_reader")
    method = next(getattr(relation, name) for name in names if hasattr(relation, name))
    # an open reader owns the connection, so that it is closed whatever happens
    with _report_refusal(shown), closing(method(rows)) as reader:
        yield reader


@contextmanager
def _report_refusal(shown: str) -> Iterator[None]:
    """Turn what DuckDB raises, and pyarrow about its batches, into `TableError`."""
    try:
        yield
    except (duckdb.Error, pyarrow.ArrowException, OSError) as error:
        raise TableError(f"{shown}: DuckDB can't read it: {error}") from error


def _is_file(text: str) -> bool:
    """Return whether there are files of a name that looks like a query."""
    return os.path.exists(text) or (glob.has_magic(text) and "\0" not in text and bool(glob.glob(text, recursive=True)))


def list_files(node: Any, is_reader: bool = False) -> Iterator[str]:
    """Yield the tables of a query that was parsed, which may be files, and texts in the arguments of what reads files.

    Examples
    --------
    >>> query = "FROM 'a.parquet' JOIN read_csv('b.csv') USING (k) WHERE c = 'd'"
    >>> list(list_files(parse_duckdb_query(query)))  # doctest: +SKIP
    ['a.parquet', 'b.csv']
    """
    if isinstance(node, list):
        for part in node:
            yield from list_files(part, is_reader)
    elif isinstance(node, dict):
        if node.get("type") == "BASE_TABLE":
            yield ".".join(filter(None, (node["catalog_name"], node["schema_name"], node["table_name"])))
        if node.get("type") == "TABLE_FUNCTION":
            is_reader = _READERS.fullmatch(node["function"]["function_name"]) is not None
        for key, part in node.items():
            if is_reader and key in ("text", "value") and isinstance(part, str):
                yield part
            yield from list_files(part, is_reader)
