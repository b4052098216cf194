"""What the readers and writers of databases share: results on their way in, new tables on their way out."""

from __future__ import annotations

import datetime
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, NamedTuple, Protocol, TypeAlias, cast

from hybridbn.errors import FormatError, TableError
from hybridbn.formats.tables.jsonlines import cell_values, typed_objects
from hybridbn.formats.tables.reading import Read, Wanted
from hybridbn.tables import Table
from hybridbn.tables.columns import Cells
from hybridbn.variables import shorten

__all__ = [
    "BATCH",
    "Database",
    "Declared",
    "Insert",
    "NewColumn",
    "NotWritten",
    "OutputExists",
    "Relation",
    "as_held",
    "as_truths",
    "database_of",
    "gathered",
    "new_columns",
    "no_table",
    "refuse_binary",
    "write_rows",
]

BATCH = 10_000
"""Rows that are fetched, or sent, at a time."""


class OutputExists(FormatError, FileExistsError):
    """The output is there already, and `overwrite` was not asked for."""


class NotWritten(FormatError):
    """A database did not take a table; nothing of it stays.

    Attributes
    ----------
    begun : bool
        Whether rows were on their way already; otherwise the table could not even be made.
    """

    begun: bool

    def __init__(self, text: str, *, begun: bool) -> None:
        super().__init__(text)
        self.begun = begun


class Declared(NamedTuple):
    """The type that a column has in a database of this dialect."""

    dialect: str
    type: Any


@dataclass(frozen=True)
class Relation:
    """The result of one statement.

    Attributes
    ----------
    names : list of str
    batches : iterator of lists of rows
        All rows, each a sequence of Python's values, None for NULL.
    declared : mapping from name to Declared
        Of a table's columns; a query's have none.
    truths : frozenset of str
        Columns of truth values that the rows may hold as 0 and 1.
    ranges : mapping from name to (low, high)
        What the types of integers, and of numbers with so many digits, can hold.
    key : tuple of str
        The columns of a table's primary key.
    """

    names: list[str]
    batches: Iterator[list[Sequence[Any]]]
    declared: Mapping[str, Declared] = field(default_factory=dict)
    truths: frozenset[str] = frozenset()
    ranges: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    key: tuple[str, ...] = ()


class NewColumn(NamedTuple):
    """A column of a table that is to be made.

    Attributes
    ----------
    name : str
    kind : str
        "integer", "float", "bool", "text", "decimal", "date", "datetime", "time", "interval", "uuid", "bytes" or "json"; anything
        else is held as the database likes.
    declared : Declared, optional
        The type of the column that it comes from.
    """

    name: str
    kind: str
    declared: Declared | None = None


Insert: TypeAlias = Callable[[list[Sequence[Any]]], None]
"""Sends rows to a new table."""


class Database(Protocol):
    """A module that reads and makes tables by their addresses."""

    def opened(self, url: str, wanted: Wanted) -> AbstractContextManager[Relation]:
        """Open a table or the result of a query for reading."""

    def creating(
        self, url: str, columns: Sequence[NewColumn], *, overwrite: bool = False
    ) -> AbstractContextManager[Insert]:
        """Make a table whose rows are sent inside of the context: all of it is there in the end, or nothing."""

    def refuse_present(self, url: str) -> None:
        """Raise `OutputExists` where something has the table's name, `NotWritten` where no table can be made."""


def database_of(url: str) -> Database:
    """Return the module for an address: SQLite's own, ADBC's (made from Arrow batches, not rows), or SQLAlchemy's for all others.

    Examples
    --------
    >>> database_of("sqlite:///f.db?table=t").__name__
    'hybridbn.formats.tables.sqlite'
    >>> database_of("postgresql+psycopg://host/base?table=t").__name__
    'hybridbn.formats.tables.database'
    """
    name = "sqlite" if url.startswith("sqlite:") else "adbc" if url.startswith("adbc+") else "database"
    return cast(Database, import_module(f"hybridbn.formats.tables.{name}"))


# -- reading ----------------------------------------------------------------------------------------------------------


def gathered(relation: Relation, wanted: Wanted) -> Read:
    """Return the wanted columns of a result as typed cells."""
    found: list[list[Any]] = [[] for _ in relation.names]
    for batch in relation.batches:
        for column, part in zip(found, zip(*batch, strict=True), strict=True):
            column.extend(part)
    values = {name: found[relation.names.index(name)] for name in wanted.names(relation.names)}
    for name, column in values.items():
        refuse_binary(name, column)
        if name in relation.truths:
            values[name] = as_truths(column)
    return typed_objects(values, wanted)


def as_truths(column: Sequence[Any]) -> list[Any]:
    """Return 0 and 1 as truth values.

    Examples
    --------
    >>> as_truths([1, 0, None])
    [True, False, None]
    """
    return [bool(value) if value in (0, 1) else value for value in column]


def as_held(value: Any, own: tuple[type, ...]) -> Any:
    """Return a value as text where a database has no type for it; those of the types `own` stay.

    Examples
    --------
    >>> import datetime
    >>> as_held(datetime.datetime(2020, 1, 2), (int,)), as_held([1, None], (int,)), as_held(3, (int,))
    ('2020-01-02 00:00:00', '[1, null]', 3)
    """
    if value is None or isinstance(value, own):
        return value
    if isinstance(value, dict | list):
        return json.dumps(value, ensure_ascii=False, default=str)
    return value.isoformat(" ") if isinstance(value, datetime.datetime) else str(value)


def no_table(name: str, present: Sequence[str]) -> TableError:
    """Return the error of a table that is not there.

    Examples
    --------
    >>> no_table("t", [])
    TableError("there is no table 't'; the database holds none")
    """
    there = f"the tables are {shorten(sorted(present))}" if present else "the database holds none"
    return TableError(f"there is no table {name!r}; {there}")


def refuse_binary(name: str, column: Sequence[Any], first: int = 0) -> None:
    """Refuse a column that holds binary data; `first` is the number of its first row."""
    blob = next((row for row, value in enumerate(column) if isinstance(value, bytes | memoryview)), None)
    if blob is not None:
        raise TableError(f"column {name!r}, row {first + blob}: binary data; cast it to text in a query first")


# -- writing ----------------------------------------------------------------------------------------------------------


def write_rows(table: Table, url: str, *, overwrite: bool = False) -> None:
    """Write a new table through the database of this address, in one transaction."""
    with database_of(url).creating(url, new_columns(table), overwrite=overwrite) as insert:
        for start in range(0, len(table), BATCH):
            part = table[start : start + BATCH]
            insert(list(zip(*(cell_values(part, name) for name in part.names), strict=True)))


def new_columns(table: Table) -> list[NewColumn]:
    """Return the columns of a database that hold a table.

    Examples
    --------
    >>> [column.kind for column in new_columns(Table({"x": [1.5, None], "k": [1, 2], "c": ["a", "b"]}))]
    ['float', 'integer', 'text']
    """
    return [NewColumn(name, _kind(name, table.cells(name))) for name in table.names]


def _kind(name: str, cells: Cells) -> str:
    types = {type(state) for state in cells.states or ()}
    if cells.states is None:
        return "integer" if cells.integer else "float"
    if types <= {str}:
        return "text"
    if types == {bool}:
        return "bool"
    if types <= {int, float}:
        return "integer" if types == {int} else "float"
    odd = [state for state in cells.states if not isinstance(state, str | int | float)]
    raise FormatError(
        f"column {name!r}: states such as {shorten(odd or cells.states, most=1)} can't be held by a database"
    )
