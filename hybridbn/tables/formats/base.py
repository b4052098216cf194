"""What a format of tables is, and which formats there are.

A format is a class in a file of its own. Subclassing `FileFormat` with suffixes, or `Database` with schemes, registers
it: `hybridbn.read_table`, `hybridbn.write_table`, ``hybridbn convert`` and ``hybridbn impute`` know it from then on,
and nothing else has to be changed. A small format defines how a whole table is read and written; the base class makes
blocks and parts of that. A format of large tables defines a `TableSource`, which is read in blocks of rows, and a
`Writer`, which turns blocks into parts and joins the parts.
"""

from __future__ import annotations

import hashlib
import importlib.util
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, ClassVar, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from hybridbn.errors import FormatError, TableError
from hybridbn.registry import LazyModule, Registered, Registry
from hybridbn.tables import Table
from hybridbn.tables.cells import Cells, UnsupportedType, as_plain, decode_states, reword_errors
from hybridbn.tables.formats.dialects import PLAIN, Dialect
from hybridbn.tables.formats.files import StoredFile, is_packed, open_unpacked
from hybridbn.tables.formats.row_encoding import decode_rows, encode_rows, kind_of_types
from hybridbn.tables.formats.typed_columns import DeclaredKind, WantedColumns, type_objects
from hybridbn.tables.frames.arrow import decode_column, encode_as
from hybridbn.units import Unit
from hybridbn.variables import shorten

pyarrow: LazyModule = LazyModule("pyarrow")

Kinds: TypeAlias = Mapping[str, DeclaredKind]
"""What the cells of columns are to be read as, where their type does not say so."""

Fills: TypeAlias = Mapping[str, tuple[NDArray[np.intp], list[Any]]]
"""For each column with holes, their rows within a block and what fills them."""

Spell: TypeAlias = Callable[[str, Any], str]
"""From a column's name and a value to the text that stands for it, without quotes."""

ROWS_OF_BATCH = 1 << 17
"""The types of columns are told by so many rows at a time."""
ROWS = 5_000
"""The number of rows of a table that are written as one part."""


class DatabaseType(NamedTuple):
    """The type that a column has in a database of this dialect."""

    dialect: str
    type: Any


class Field(NamedTuple):
    """What is known of a column from its type.

    Attributes
    ----------
    name : str
    kind : str
        "integer", "float", "bool", "text", "decimal", "date", "datetime", "instant", "time", "interval", "uuid",
        "bytes" or "json"; "other" is anything else.
    declared : DatabaseType, optional
        The type in the database that it comes from.
    states : tuple, optional
        All values of a column of states, in their order.
    limits : (low, high), optional
        What the type of a column of numbers can hold.
    unit : Unit, optional
        Of dates and times that are text.
    """

    name: str
    kind: str = "other"
    declared: DatabaseType | None = None
    states: tuple[Hashable, ...] | None = None
    limits: tuple[float, float] | None = None
    unit: Unit | None = None


# -- reading ----------------------------------------------------------------------------------------------------------


@dataclass(eq=False)
class TableBlock(ABC):
    """Some consecutive rows of a table, as they came in.

    Attributes
    ----------
    start : int
        The number of the first row.
    rows : int
    """

    start: int
    rows: int

    @abstractmethod
    def read(self, names: Sequence[str], kinds: Kinds) -> Table:
        """Return columns as typed ones; one that the block doesn't have is left out."""

    def cells(self, names: Sequence[str], kinds: Kinds) -> dict[str, Cells]:
        """Return columns as typed cells; one that the block doesn't have is left out."""
        table = self.read(names, kinds)
        return {name: table.cells(name) for name in table.names}

    @abstractmethod
    def values(self, names: Sequence[str]) -> dict[str, list[Any]]:
        """Return columns as Python values, None where a cell is missing; of a textual source, as text."""


class TableSource(ABC):
    """A table that is read in blocks, as often as needed.

    Attributes
    ----------
    shown : str
        What messages call it.
    names : list of str
        All columns; those seen so far, unless `knows_names`.
    knows_names : bool
        Whether all columns are known before the first block is read.
    fields : dict from str to Field
        What the types of columns say; a column without types has none.
    index : frozenset of str
        Columns that number the rows and say nothing about the others.
    frame_index : frozenset of str
        Those of them that are the index of a frame, which stands beside the data.
    textual : bool
        Whether values are text, which is to be typed.
    spelled : bool
        Whether states are read as the text that stands in the file, and typed when all of them are known.
    dialect : Dialect
        How the file is written, numbers and dates in text above all.
    doubtful : sequence of str
        Columns of so many texts that these are not listed while they are counted; known after `types`.
    untyped : sequence of str
        Columns of which nothing but cells tells what they are, and the first ones are missing; known after `types`.
    numbers : sequence of str
        Columns whose first texts are numbers and no codes; known after `types`.
    span : range
        The numbers of the rows that are read, some consecutive ones; all, unless some were asked for.
    leave : collection of str
        Columns that are not read.
    marks : mapping from column to sequence of str
        What marks missing cells of it; whoever asks for cells blanks them.
    state : tuple, optional
        What the content was known by in the beginning, which changes with it.
    """

    shown: str
    names: list[str]
    span: range = range(sys.maxsize)
    knows_names: bool = True
    fields: Mapping[str, Field] = {}
    index: frozenset[str] = frozenset()
    frame_index: frozenset[str] = frozenset()
    textual: bool = False
    spelled: bool = False
    dialect: Dialect = PLAIN
    doubtful: Sequence[str] = ()
    untyped: Sequence[str] = ()
    numbers: Sequence[str] = ()
    leave: Collection[str] = ()
    marks: Mapping[str, Sequence[str]] = {}
    state: tuple[Any, ...] | None = None
    first_rows: int = 1 << 17
    """The types of columns are told by so many rows at a time."""

    @abstractmethod
    def blocks(self, rows: int, first: int = 0) -> Iterator[TableBlock]:
        """Give blocks of so many rows of the span, from the block of this number on."""

    def digest(self) -> str:
        """Return a fingerprint of the content; nothing where there is none."""
        return ""

    def is_unchanged(self) -> bool:
        """Tell whether the content is still that of the beginning, as far as that can be told."""
        return True

    @property
    def notes(self) -> Mapping[str, Mapping[str, Any]]:
        """What hybridbn noted about columns when it wrote the table: "kind", "states", "declared", "ordered"."""
        return {}

    def types(self, kinds: Kinds) -> dict[str, Any]:
        """Return the Arrow types of the columns: as the first rows tell, or all rows where any may have more columns.
        Columns with which nothing can be computed raise `OtherKind`; those that are not read are of the type null.

        Parameters
        ----------
        kinds : mapping from column to its declared kind
        """
        types: dict[str, Any] = {}
        for block in self.blocks(self.first_rows):
            for name, column in _as_arrow(self.read_block(block, kinds)).items():
                types[name] = _join_types(name, types.get(name), self.open_type(name, column.type, kinds.get(name)))
            if self.knows_names:
                break
        self.untyped = [name for name, kind in types.items() if kind is None]
        types |= dict.fromkeys(self.leave, pyarrow.null()) if types else {}
        return {name: types[name] or pyarrow.float64() for name in self.names if name in types}

    def open_type(self, name: str, kind: Any, declared: Any) -> Any:
        """Return the type of a column that begins with cells of a type, None where these are missing: whole numbers may
        go on with others.
        """
        types = pyarrow.types
        if types.is_null(kind):
            return None
        if types.is_integer(kind) or types.is_floating(kind):
            return pyarrow.int64() if declared == "discrete" else pyarrow.float64()
        return kind

    def divide(self, rows: int) -> Iterator[tuple[int, int | None, Any]]:
        """Give parts of about so many rows that can be read by themselves: the first row, the number of rows, and what
        `batches` takes.
        """
        yield 0, None, None

    def batches(self, types: Mapping[str, Any], kinds: Kinds, rows: int, part: Any = None) -> Iterator[tuple[int, Any]]:
        """Give columns as Arrow record batches, each with the number of its first row.

        Parameters
        ----------
        types : mapping from column to its Arrow type
            Cells of another kind raise `OtherKind`. In place of floats there may be whole numbers.
        kinds : mapping from column to its declared kind
            Also of columns of text that are dates or times: their unit.
        rows : int
            About so many rows are in a batch.
        part : optional
            One of those that `divide` gives; by default all.
        """
        declared: dict[str, Any] = {
            name: "continuous" if pyarrow.types.is_floating(kind) else "discrete"
            for name, kind in types.items()
            if not pyarrow.types.is_temporal(kind)
        }
        read = [name for name, kind in types.items() if not pyarrow.types.is_null(kind)]
        for block in self.blocks(rows):
            columns = _as_arrow(block.read(read, declared))
            empty = {name: pyarrow.nulls(block.rows, kind) for name, kind in types.items() if name not in columns}
            held = {name: cast_column(name, column, types[name]) for name, column in columns.items()} | empty
            table = pyarrow.table({name: held[name] for name in types}).combine_chunks()
            yield from ((block.start, batch) for batch in table.to_batches())

    def read_block(self, block: TableBlock, kinds: Kinds) -> Table:
        """Return the columns of a block as typed ones, without those that are not read."""
        names = [name for name in self.names if name not in self.leave]
        return block.read(names, {name: kind for name, kind in kinds.items() if name in names})

    def line_of(self, row: int) -> str:
        """Return where a row stands, in words."""
        return f"row {row}"

    def field(self, name: str) -> Field:
        """Return what the type of a column says."""
        return self.fields.get(name, Field(name, "text" if self.textual else "other"))


def name_file_in_errors(shown: str) -> AbstractContextManager[None]:
    """Put the name of a file or another input in front of errors that come from reading it."""
    return reword_errors(lambda text: text if shown in text else f"{shown}: {text}", FormatError)


class OtherKind(TableError):
    """A column holds cells of another kind than its first ones told; all of its cells tell of which.

    Attributes
    ----------
    name : str
    fault : UnsupportedType, optional
        Why nothing can be computed with the column.
    """

    def __init__(self, name: str, fault: UnsupportedType | None = None) -> None:
        super().__init__(name, fault)
        self.name = name
        self.fault: UnsupportedType | None = fault

    def __str__(self) -> str:
        return (
            f"column {self.name!r} begins with values of one kind and goes on with others; convert them all to one,"
            " those of a database in a query: ?query=SELECT ..."
        )


def _as_arrow(table: Table) -> dict[str, Any]:
    """Return columns of Arrow; only states that a type declares make dictionaries. Raise `OtherKind` where nothing can
    be computed with a column.
    """
    for column in table._columns.values():
        if column.fault is not None:
            raise OtherKind(column.name, column.fault)
    columns = Table.from_cells({name: table.cells(name) for name in table.names}).to_arrow()
    pairs = zip(columns.column_names, columns.columns, strict=True)
    return {name: one if table.lists_states(name) else decode_column(one) for name, one in pairs}


def cast_column(name: str, column: Any, kind: Any) -> Any:
    """Return an Arrow column of another type; whole numbers stay so in place of floats."""
    types = pyarrow.types
    if column.type == kind or (types.is_integer(column.type) and types.is_floating(kind)):
        return column
    cast = encode_as(decode_column(column), kind)
    if cast.type != kind:
        raise OtherKind(name)
    return cast


def _join_types(name: str, before: Any, then: Any) -> Any:
    if before is None or then is None or before == then:
        return then if before is None else before
    raise OtherKind(name)


class FileSource(TableSource):
    """A table in a file, which must not change while it is read."""

    def __init__(self, file: Path | StoredFile, shown: str) -> None:
        self.file: StoredFile = StoredFile.of(file)
        self.shown = shown
        self.state: tuple[Any, ...] | None = self.file.state()

    def digest(self) -> str:
        """Return a hash of the file."""
        with self.file.open_packed() as file:
            return hashlib.file_digest(file, "sha256").hexdigest()

    def is_unchanged(self) -> bool:
        """Tell whether the file is the same as in the beginning."""
        return self.file.state() == self.state


class WholeSource(FileSource):
    """A file that its format reads as a whole only; the table is held in memory."""

    def __init__(
        self, form: FileFormat, file: Path | StoredFile, shown: str, suffix: str, options: Mapping[str, Any]
    ) -> None:
        super().__init__(file, shown)
        if self.file.filesystem is not None:
            raise FormatError(f"{shown}: files of this format are read on this machine; copy it here")
        self._form, self._suffix, self._options = form, suffix, options
        self.table: Table = self._read(WantedColumns())
        self.names: list[str] = list(self.table.names)
        self.fields: Mapping[str, Field] = {field.name: field for field in fields_of(self.table, form.title)}
        self._kinds: dict[str, Any] = {}

    def _read(self, wanted: WantedColumns) -> Table:
        path = Path(self.file.path)
        return self._form.read(open_unpacked(path) if is_packed(path) else path, wanted, self._suffix, **self._options)

    def read_as(self, kinds: Kinds) -> Table:
        """Return the table with some columns read as what they are declared to be."""
        if dict(kinds) != self._kinds:
            self._kinds = dict(kinds)
            self.table = self._read(WantedColumns(dict(kinds), optional=True))
        return self.table

    def blocks(self, rows: int, first: int = 0) -> Iterator[TableBlock]:
        """Give blocks of so many rows."""
        end = min(self.span.stop, len(self.table))
        for start in range(self.span.start + first * rows, end, rows):
            yield WholeBlock(start, min(rows, end - start), self)


@dataclass(eq=False)
class WholeBlock(TableBlock):
    """Some rows of a table in memory."""

    source: WholeSource

    def read(self, names: Sequence[str], kinds: Kinds) -> Table:
        """Return columns as typed ones."""
        table = self.source.read_as({name: kind for name, kind in kinds.items() if name in self.source.names})
        return table.select(names).take(slice(self.start, self.start + self.rows))

    def values(self, names: Sequence[str]) -> dict[str, list[Any]]:
        """Return columns as Python values."""
        return list_columns(self.source.table[self.start : self.start + self.rows], names)


# -- writing ----------------------------------------------------------------------------------------------------------


class Writer:
    """Turns blocks of rows into parts of a new table, and the parts into the table.

    Attributes
    ----------
    fields : list of Field
        The columns, that of the counter included.
    counter : str, optional
        The name of a first column that counts the draws of the table, one after the other.
    origin : TableSource, optional
        A source of the same format, whose blocks keep what has no holes as it is.
    """

    def __init__(self, fields: Sequence[Field], counter: str | None = None, origin: Any = None) -> None:
        self.counter: str | None = counter
        self.origin: Any = origin
        self.fields: list[Field] = [*([Field(counter, "integer")] if counter is not None else []), *fields]

    def make_part(self, columns: dict[str, list[Any]], draw: int = 0) -> bytes:
        """Return rows, given as columns of Python values, as a part of the table."""
        if self.counter is not None:
            rows = len(next(iter(columns.values()), ()))
            columns = {self.counter: [draw + 1] * rows, **columns}
        return self.render(columns)

    def render(self, columns: Mapping[str, list[Any]]) -> bytes:
        """Return rows as bytes that `join` understands: by default as lines of JSON."""
        return encode_rows(zip(*columns.values(), strict=True), list(columns))

    def splice(self, block: Any, fills: Fills, spell: Spell, draw: int = 0) -> bytes:
        """Return a block of the source as a part of the table, its holes filled and everything else as it is."""
        raise NotImplementedError


class FileWriter(Writer, ABC):
    """Writes the parts of a file."""

    @abstractmethod
    def join(self, parts: Iterable[bytes], file: IO[bytes]) -> None:
        """Write the whole file."""


class WholeWriter(FileWriter):
    """Holds all rows until they are written as one table, for formats that can't do it in parts."""

    def __init__(self, form: FileFormat, fields: Sequence[Field], suffix: str, counter: str | None) -> None:
        super().__init__(fields, counter)
        self._form, self._suffix = form, suffix

    def join(self, parts: Iterable[bytes], file: IO[bytes]) -> None:
        """Write the table."""
        rows = [row for part in parts for row in decode_rows(part)]
        names = [field.name for field in self.fields]
        columns = dict(zip(names, map(list, zip(*rows, strict=True)) if rows else ([] for _ in names), strict=True))
        wanted: dict[str, Any] = {
            field.name: "discrete" if field.states is not None else "continuous"
            for field in self.fields
            if field.states is not None or field.kind in ("integer", "float", "decimal")
        }
        self._form.write(type_objects(columns, WantedColumns(wanted)), file, self._suffix)


def fields_of(table: Table, holder: str, *, mixed: bool = True) -> list[Field]:
    """Return the columns of a table; refuse states that no file can hold, and unless `mixed` those of several types.

    Examples
    --------
    >>> [field.kind for field in fields_of(Table({"x": [1.5, None], "k": [1, 2], "c": ["a", "b"]}), "CSV")]
    ['float', 'integer', 'text']
    """
    return [_make_field(name, table.cells(name), holder, mixed) for name in table.names]


def kind_of_states(states: Sequence[Hashable]) -> str:
    """Return what all states are, in the words of `Field`.

    Examples
    --------
    >>> kind_of_states((1, 2.5)), kind_of_states((True,)), kind_of_states(("a", 1))
    ('float', 'bool', 'other')
    """
    return kind_of_types(map(type, states)) if states else "text"


def _make_field(name: str, cells: Cells, holder: str, mixed: bool) -> Field:
    if cells.states is None:
        return (
            Field(name, "integer" if cells.integer else "float")
            if cells.unit is None
            else _moment_field(name, cells.unit)
        )
    kind = kind_of_states(cells.states)
    odd = [state for state in cells.states if not isinstance(state, str | int | float)]
    if odd or (kind == "other" and not mixed):
        shown = shorten(odd or cells.states, most=1 if odd else 2)
        raise FormatError(f"column {name!r}: states such as {shown} can't be held by {holder}")
    return Field(name, kind, states=cells.states)


def _moment_field(name: str, unit: Unit) -> Field:
    kind = {"datetime": "datetime" if unit.zone is None else "instant", "duration": "interval"}.get(
        unit.kind, unit.kind
    )
    return Field(name, "text" if unit.pattern is not None else kind, unit=unit)


def cell_values(table: Table, name: str) -> list[Any]:
    """Return a column as text, integers, floats, truth values and None.

    Examples
    --------
    >>> cell_values(Table({"k": [1, 2], "c": ["a", None]}), "c")
    ['a', None]
    """
    cells = table.cells(name)
    if cells.states is not None:
        return list(decode_states(cells, object, None).tolist())
    if cells.unit is not None:
        return list(table.raw(name))
    form, values, missing = as_plain(cells)
    if not cells.integer or form == "integer":
        return list(np.where(missing, np.array(None), values).tolist())
    return [None if value is None else int(value) if value == int(value) else float(value) for value in table.raw(name)]


def list_columns(table: Table, names: Iterable[str]) -> dict[str, list[Any]]:
    """Return columns as lists of what `cell_values` makes of them."""
    return {name: cell_values(table, name) for name in names}


# -- formats ----------------------------------------------------------------------------------------------------------


class TableFormat:
    """A format of tables; subclasses that say what they are known by are registered.

    Attributes
    ----------
    title : str
        What messages call it.
    position : int
        Where it stands in lists of the known formats.
    needs : (module, remedy), optional
        A library that must be installed, and what to say where it isn't.
    mixed : bool
        Whether a column may hold text and numbers.
    exact : bool
        Whether numbers are written digit by digit as they came in, as text or exact decimals.
    keeps_index : bool
        Whether the columns of a frame's index are written, too.
    """

    title: ClassVar[str] = ""
    position: ClassVar[int] = 100
    needs: ClassVar[tuple[str, str] | None] = None
    mixed: ClassVar[bool] = True
    exact: ClassVar[bool] = False
    keeps_index: ClassVar[bool] = False

    def absent_library(self) -> str | None:
        """Return what to say of a library that is needed and not installed."""
        return None if self.needs is None or importlib.util.find_spec(self.needs[0]) else self.needs[1]


class FileFormat(TableFormat, Registered, ABC):
    """A format of files, known by suffixes such as ``.csv``. It must define `read`, and `write` or `writer`.

    Attributes
    ----------
    suffixes : tuple of str
        In lower case, the usual one first.
    packable : bool
        Whether a file may be packed with gzip (``.csv.gz``).
    text : bool
        Whether files are text in an encoding; those that are read in blocks are in UTF-8.
    options : tuple of str
        What `source` takes from the options of the command line.
    unwritable : str
        Why no table is written in this format.
    """

    suffixes: ClassVar[tuple[str, ...]] = ()
    packable: ClassVar[bool] = False
    text: ClassVar[bool] = False
    options: ClassVar[tuple[str, ...]] = ()
    unwritable: ClassVar[str] = ""
    registry: ClassVar[Registry[FileFormat]] = Registry(
        "suffix", "hybridbn.tables.formats", "suffixes", instances=True, others=("hybridbn.exchange.elvira_syntax",)
    )

    @abstractmethod
    def read(self, file: Path | IO[bytes], wanted: WantedColumns, suffix: str) -> Table:
        """Read the wanted columns of a whole file; formats may have options of their own."""

    def source(self, file: Path | StoredFile, shown: str, suffix: str, **options: Any) -> TableSource:
        """Open a file that is read in blocks; messages call it `shown`."""
        return WholeSource(self, file, shown, suffix, options)

    def writer(
        self,
        fields: Sequence[Field],
        suffix: str,
        *,
        origin: TableSource | None = None,
        counter: str | None = None,
        **options: Any,
    ) -> FileWriter:
        """Return what writes a file with these columns; the parts will be made of blocks of `origin`."""
        return WholeWriter(self, fields, suffix, counter)

    def write(self, table: Table, file: IO[bytes], suffix: str, **options: Any) -> None:
        """Write a whole file."""
        if self.unwritable or type(self).writer is FileFormat.writer:
            raise FormatError(self.unwritable or f"{self.title or suffix}: such files are read, and not written")
        writer = self.writer(fields_of(table, self.title, mixed=self.mixed), suffix, **options)
        parts = (list_columns(table[start : start + ROWS], table.names) for start in range(0, len(table), ROWS))
        writer.join(map(writer.render, parts), file)


def suffixes() -> dict[str, FileFormat]:
    """Return the formats of files by suffix, the common ones first."""
    return dict(sorted(FileFormat.registry.load().items(), key=lambda item: item[1].position))


def names() -> list[str]:
    """Return what ``--format`` calls formats that are written: their suffixes without the point."""
    return [suffix.removeprefix(".") for suffix, form in suffixes().items() if not form.unwritable]
