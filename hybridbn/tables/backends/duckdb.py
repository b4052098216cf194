"""DuckDB: relations, queries and files, counted by SQL where that is cheaper than reading the rows."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from functools import cached_property, partial
from typing import Any, NoReturn

from hybridbn.errors import TableError
from hybridbn.registry import LazyModule
from hybridbn.tables.backends.base import (
    BATCH_ROWS,
    Backend,
    Batch,
    Fragment,
    Local,
    Source,
    import_library,
    number_batches,
)
from hybridbn.tables.backends.sources import FileFragment, FileTable, is_scannable, open_files, suffix_of
from hybridbn.tables.backends.sql import SQLSource
from hybridbn.tables.columns import is_of_library
from hybridbn.tables.formats.database_base import check_duckdb_query, quote_name, quote_text

duckdb = LazyModule("duckdb")
pyarrow = LazyModule("pyarrow")

_SUFFIXES = (".parquet", ".pq")
_QUERY = re.compile(r"\s*(select|from|with|values|table|pivot|describe)\b", re.IGNORECASE)


class DuckDB(Local):
    """Reads relations of DuckDB, SQL queries, the names of tables, and Parquet files.

    Text files are read as by any other backend, because DuckDB has types of its own for their columns; a query, such as
    ``"FROM 'table.csv'"``, reads them as DuckDB does.

    Parameters
    ----------
    connection : duckdb.DuckDBPyConnection, optional
        By default one of its own, in memory.

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
    wraps = ("duckdb", "DuckDBPyConnection")

    def __init__(self, connection: Any = None) -> None:
        self._connection = connection

    @classmethod
    @contextmanager
    def start(cls, workers: int | None = None, scheduler: str | None = None) -> Iterator[Backend]:
        """Open a connection, with as many threads as there are to be workers."""
        backend = cls()
        with backend.connection as connection:
            if workers is not None:
                connection.execute(f"SET threads = {workers}")
            yield backend

    @property
    def connection(self) -> Any:
        """The connection on which queries run."""
        if self._connection is None:
            needed = "backend='duckdb' needs DuckDB: pip install 'hybridbn[duckdb]'"
            self._connection = import_library("duckdb", needed).connect()
        return self._connection

    def open(self, data: Any) -> Source | None:
        """Return a relation, a query, a table of the connection, or files."""
        if is_of_library(data, "duckdb", "DuckDBPyRelation"):
            return _Relation(data, "the relation")
        if isinstance(data, str) and _QUERY.match(data):
            return self._ask(data, "the query")
        if isinstance(data, str | os.PathLike):
            text = os.fspath(data)
            if "://" not in text and (os.path.isdir(text) or suffix_of(text) in _SUFFIXES):
                files = open_files(text, {}, partial(_ParquetFiles, self._ask))
                return None if files is None or {*map(suffix_of, files.paths)} - {*_SUFFIXES} else files
            if suffix_of(text) in _SUFFIXES:
                return self._ask(f"FROM read_parquet({quote_text(text)})", text)
            if re.fullmatch(r"[\w.]+", text) and not is_scannable(text):
                name = ".".join(map(quote_name, text.split(".")))
                return self._ask(f"FROM {name}", text)
        return None

    def _ask(self, query: str, shown: str) -> _Relation:
        connection = self.connection
        check_duckdb_query(query)
        try:
            return _Relation(connection.sql(query), shown)
        except duckdb.Error as error:
            raise TableError(f"{shown}: DuckDB can't read it: {error}") from error


class _Counted(SQLSource):
    """What DuckDB counts: a relation, which is run again for every query."""

    relation: Any

    def rows(self, query: str) -> Iterable[Sequence[Any]]:
        """Run a query; its rows come in batches."""
        with closing(_read(self.relation.query("scanned", query), BATCH_ROWS)) as reader:
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
        with closing(_read(relation.limit(0), 1)) as reader:
            self.schema = reader.schema

    def fragments(self) -> Sequence[Fragment]:
        """Return the relation, which DuckDB divides among its own threads."""
        return [_RelationFragment(self.relation)]


class _ParquetFiles(FileTable, _Counted):
    """Parquet files, whose rows are read as by any other backend, and which DuckDB counts."""

    def __init__(self, ask: Callable[[str, str], _Relation], *given: Any) -> None:
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
        return self._ask(f"FROM read_parquet([{paths}], union_by_name = true, {options})", self.shown).relation

    def _are_plain(self, names: Iterable[str]) -> bool:
        """Tell whether the values of columns come out of a query as their states, and the files by their names."""
        is_named = len({name.lower() for name in self.schema.names}) == len(self.schema.names)
        return is_named and not any(map(glob.has_magic, self.paths)) and super()._are_plain(names)

    def ends(self) -> Mapping[int, int]:
        """Return how many rows each file has, as it says itself."""
        pieces = [piece for piece in self.fragments() if isinstance(piece, FileFragment)]
        return {piece.number: piece.start + (piece.rows or 0) for piece in pieces}


class _RelationFragment(Fragment):
    """All rows of a relation, in its order."""

    def __init__(self, relation: Any) -> None:
        self.relation = relation

    def batches(self, columns: Sequence[str], rows: int = BATCH_ROWS) -> Iterator[Batch]:
        """Yield what the relation gives."""
        chosen = self.relation.project(", ".join(map(quote_name, columns)))
        # an open reader owns the connection, so that it is closed whatever happens
        with closing(_read(chosen, rows)) as reader:
            yield from number_batches(reader, 0)

    def __reduce__(self) -> NoReturn:
        raise TableError(
            "a relation of DuckDB can't be sent to other processes; scan the files that it reads with this backend, or"
            " leave the backend out: DuckDB has threads of its own"
        )


def _read(relation: Any, rows: int) -> Any:
    """Return a stream of the relation's batches, by the name that the version of DuckDB has for it."""
    method = getattr(relation, "to_arrow_reader", None) or relation.fetch_record_batch
    return method(rows)
