"""Parquet and Feather files, through pyarrow; hybridbn's own types travel in the schema's metadata."""

from __future__ import annotations

import contextlib
import decimal
import functools
import io
import json
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, ClassVar

import numpy as np

from hybridbn.errors import FormatError, NetworkError, TableError
from hybridbn.registry import LazyModule
from hybridbn.tables import Table
from hybridbn.tables.cells import Cells, convert_cells, count_texts, recode_cells
from hybridbn.tables.columns import Column, ColumnSource, read_cells, read_column
from hybridbn.tables.formats.base import (
    Field,
    FileFormat,
    FileSource,
    FileWriter,
    Fills,
    Kinds,
    Spell,
    TableBlock,
    TableSource,
    fields_of,
)
from hybridbn.tables.formats.files import StoredFile
from hybridbn.tables.formats.text_blocks import plain_text, shift_lines_in_errors
from hybridbn.tables.formats.typed_columns import WantedColumns, drop_source
from hybridbn.tables.frames.arrow import (
    NEEDS,
    decode_column,
    decode_type,
    dense_schema,
    encode_states,
    import_pyarrow,
    is_text,
    kind_of_type,
    label_dictionary,
    limits_of_type,
    make_all_dense,
    number_rows,
    read_coded_columns,
    replace_cells,
    report_damage,
    unify_dictionaries,
    validate,
)
from hybridbn.variables import Discrete

pyarrow: LazyModule = LazyModule("pyarrow")
compute: LazyModule = LazyModule("pyarrow.compute")
feather: LazyModule = LazyModule("pyarrow.feather")
parquet: LazyModule = LazyModule("pyarrow.parquet")

_KEY = b"hybridbn"
_MOST_METADATA = 1 << 28
_GROUP = 1 << 20
_GROUP_BYTES = 1 << 26
_BATCH = 1 << 16


class _Columnar(FileFormat):
    """What Parquet and Feather share."""

    keeps_index = True
    mixed = False
    needs: ClassVar[tuple[str, str] | None] = NEEDS

    def read(self, file: Path | IO[bytes], wanted: WantedColumns, suffix: str) -> Table:
        """Read a file. pandas' index columns are left out unless they are asked for by name."""
        import_pyarrow()
        # a missing file is reported as one, before pyarrow wraps it
        with (
            open(file, "rb") if isinstance(file, Path) else contextlib.nullcontext(file) as data,
            report_damage(self.title),
        ):
            table, original = self._read_table(data, wanted)
            notes = read_notes(original.metadata)
            columns = zip(table.column_names, validate(table).columns, strict=True)
            return Table.from_columns(
                [
                    _type_column(name, column, original.field(name).type, wanted, notes.get(name), whole=True)
                    for name, column in columns
                ]
            )

    @abstractmethod
    def _read_table(self, data: Any, wanted: WantedColumns) -> tuple[Any, Any]:
        """Return the wanted columns as an Arrow table, and the schema of the file."""

    @abstractmethod
    def open_batches(self, data: Any, texts: Sequence[str] = ()) -> AbstractContextManager[Any]:
        """Open a file for reading a part at a time; columns of `texts` may come as dictionaries."""

    def divide(self, file: Any, rows: int) -> Iterator[tuple[int, int | None, Any]]:
        """Give parts of an opened file: the first row, the number of rows, and what `read_part` takes."""
        yield 0, None, None

    @abstractmethod
    def read_part(self, file: Any, names: list[str], rows: int, part: Any) -> Iterator[Any]:
        """Give columns of a part of an opened file as batches of at most so many rows, None for the whole file."""

    def source(self, file: Path | StoredFile, shown: str, suffix: str) -> ArrowSource:  # type: ignore[override]
        """Open a file that is read in blocks."""
        return ArrowSource(self, file, shown)

    def writer(  # type: ignore[override]
        self, fields: Sequence[Field], suffix: str, *, origin: TableSource | None = None, counter: str | None = None
    ) -> ArrowWriter:
        """Return what writes a file with these columns."""
        return ArrowWriter(fields, counter, origin, self)

    @abstractmethod
    def join(self, schema: Any, tables: Iterable[Any], file: IO[bytes]) -> None:
        """Write Arrow tables into one file."""

    def write(self, table: Table, file: IO[bytes], suffix: str) -> None:  # type: ignore[override]
        """Write a table, and note what its columns are."""
        import_pyarrow()
        fields_of(table, self.title, mixed=self.mixed)  # which refuses what can't be held
        notes = {}
        for name in table.names:
            cells = table.cells(name)
            note: dict[str, Any] = {"kind": "continuous" if cells.states is None else "discrete"}
            if cells.states is not None and _needs_states(cells):
                note |= {"states": list(cells.states), "declared": cells.declared, "ordered": cells.ordered}
            notes[name] = note
        try:
            arrow_table = table.to_arrow()
            metadata = {
                **(arrow_table.schema.metadata or {}),
                _KEY: json.dumps({"version": 1, "columns": notes}).encode(),
            }
            noted = arrow_table.replace_schema_metadata(metadata)
            self.join(noted.schema, [noted], file)
        except (pyarrow.ArrowException, UnicodeEncodeError) as error:
            raise FormatError(f"this table can't be written as {suffix}: {error}") from error


class Parquet(_Columnar):
    """Parquet files."""

    title = "Parquet"
    position = 3
    suffixes: ClassVar[tuple[str, ...]] = (".parquet", ".pq")

    def _read_table(self, data: Any, wanted: WantedColumns) -> tuple[Any, Any]:
        schema = parquet.ParquetFile(data).schema_arrow
        names = _choose_columns(schema, wanted)
        texts = [name for name in names if is_text(schema.field(name).type)]
        data.seek(0)
        # Text that the file holds as a dictionary is taken as one: building strings would cost more than all the rest.
        # A column of a row group is read piece by piece, which takes half the time and memory.
        opened = parquet.ParquetFile(data, read_dictionary=texts, pre_buffer=False, buffer_size=1 << 20)
        notes = read_notes(schema.metadata)
        kinds = {name: schema.field(name).type for name in names}
        coded = {name: kind for name, kind in kinds.items() if _is_coded(kind, name, wanted, notes)}
        columns = read_coded_columns(opened, coded) if coded else {}
        rest = [name for name in names if name not in columns]
        table = opened.read(columns=rest) if rest else pyarrow.table(columns)
        return pyarrow.table({name: columns[name] if name in columns else table[name] for name in names}), schema

    def open_batches(self, data: Any, texts: Sequence[str] = ()) -> Any:
        """Open a file; a column is read piece by piece."""
        return parquet.ParquetFile(data, read_dictionary=list(texts), pre_buffer=False, buffer_size=1 << 20)

    def divide(self, file: Any, rows: int) -> Iterator[tuple[int, int | None, Any]]:
        """Give row groups, small ones together."""
        start, groups, count = 0, list[int](), 0
        for group in range(file.metadata.num_row_groups):
            groups.append(group)
            count += file.metadata.row_group(group).num_rows
            if count >= rows or group == file.metadata.num_row_groups - 1:
                yield start, count, tuple(groups)
                start, groups, count = start + count, [], 0

    def read_part(self, file: Any, names: list[str], rows: int, part: Any) -> Iterator[Any]:
        """Give columns of row groups."""
        groups = list(range(file.num_row_groups)) if part is None else list(part)
        yield from file.iter_batches(rows, row_groups=groups, columns=names, use_threads=False)

    def join(self, schema: Any, tables: Iterable[Any], file: IO[bytes]) -> None:
        """Write the tables in row groups that are not too small."""
        with parquet.ParquetWriter(file, schema) as out:
            for table in _group_tables(tables):
                out.write_table(table, table.num_rows if 0 < table.num_rows < 2 * _GROUP else None)


class Feather(_Columnar):
    """Feather files, which are Arrow's own."""

    title = "Feather"
    position = 4
    suffixes: ClassVar[tuple[str, ...]] = (".feather", ".arrow")

    def _read_table(self, data: Any, wanted: WantedColumns) -> tuple[Any, Any]:
        # not as a memory map: where another process cuts the file short, the system would end this one
        table = feather.read_table(data, memory_map=False)
        return table.select(_choose_columns(table.schema, wanted)), table.schema

    def open_batches(self, data: Any, texts: Sequence[str] = ()) -> Any:
        """Open a file."""
        return pyarrow.ipc.open_file(data)

    def read_part(self, file: Any, names: list[str], rows: int, part: Any) -> Iterator[Any]:
        """Give columns of the file's own batches, large ones in pieces."""
        for number in range(file.num_record_batches):
            whole = file.get_batch(number).select(names)
            for start in range(0, max(whole.num_rows, 1), rows):
                yield whole.slice(start, rows)

    def join(self, schema: Any, tables: Iterable[Any], file: IO[bytes]) -> None:
        """Write the batches of all tables, large ones in pieces."""
        with pyarrow.ipc.new_file(file, schema, options=_ipc_options()) as out:
            for table in tables:
                out.write_table(table, _BATCH)


# -- reading ----------------------------------------------------------------------------------------------------------


def _choose_columns(schema: Any, wanted: WantedColumns) -> list[str]:
    names = list(schema.names)
    if wanted.columns is None:
        index = index_columns(schema.metadata)
        names = [name for name in names if name not in index]
    return wanted.names(names)


def index_columns(metadata: Mapping[bytes, bytes] | None) -> set[str]:
    """Return the columns that pandas wrote for a frame's index."""
    try:
        noted = json.loads((metadata or {}).get(b"pandas", b"{}"))
        return {name for name in noted.get("index_columns", []) if isinstance(name, str)}
    except (ValueError, AttributeError, TypeError, RecursionError):
        return set()  # someone else's note; the data does not depend on it


def _type_column(
    name: str,
    column: Any,
    original: Any,
    wanted: WantedColumns,
    noted: Mapping[str, Any] | None,
    *,
    whole: bool = False,
) -> Column:
    """Return a column of Arrow as a typed one.

    Parameters
    ----------
    original : Arrow type
        That of the file, where the column was read as another one.
    noted : mapping, optional
        What `write` noted about the column.
    """
    kind = wanted.kind(name)
    note = noted if kind is None else None
    if note is not None:
        kind = note["kind"]
    if pyarrow.types.is_dictionary(column.type) and not pyarrow.types.is_dictionary(original):
        typed = label_dictionary(name, column, declared=False, compact=whole)
        if kind != "discrete":
            typed = count_texts(name, typed.array, typed.states or (), wanted.unit(name)) or typed
        typed = convert_cells(name, typed, kind)
    elif whole and pyarrow.types.is_dictionary(column.type) and _is_coded(column.type, name, wanted, {}):
        typed = convert_cells(name, label_dictionary(name, column, declared=True, compact=True), kind)
    else:
        read = read_column(name, column, kind, wanted.unit(name))
        if read.fault is not None:
            return read
        typed = read.cells
    if note is not None and note.get("states"):
        try:
            variable = Discrete(name, states=tuple(note["states"]))
            typed = recode_cells(name, typed, variable)
        except (NetworkError, TableError) as error:
            raise FormatError(f"the states noted for column {name!r} don't fit it: {error}") from None
        return Column(name, Cells(typed.array, typed.states, bool(note.get("declared")), bool(note.get("ordered"))))
    return drop_source(Column(name, typed, None, ColumnSource("arrow", column)))


def _is_coded(kind: Any, name: str, wanted: WantedColumns, notes: Mapping[str, Mapping[str, Any]]) -> bool:
    """Tell whether a column of a file holds states, of text or of integers."""
    held = decode_type(kind)
    if pyarrow.types.is_integer(held):
        declared = wanted.kind(name) or notes.get(name, {}).get("kind")
        return bool(declared == "discrete" and not pyarrow.types.is_uint64(held))
    return is_text(held)


def read_notes(metadata: Mapping[bytes, bytes] | None) -> dict[str, dict[str, Any]]:
    """Return what `write` noted about the columns; refuse a note that it can't have written."""
    text = (metadata or {}).get(_KEY)
    if text is None:
        return {}
    try:
        if len(text) > _MOST_METADATA:
            raise ValueError("too long")
        noted = json.loads(text)
        if not isinstance(noted, dict) or noted.get("version") != 1 or not isinstance(noted.get("columns"), dict):
            raise ValueError("not version 1")
        for note in noted["columns"].values():
            if note["kind"] not in ("discrete", "continuous") or not isinstance(note.get("states", []), list):
                raise ValueError("not a column's kind")
        return dict(noted["columns"])
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise FormatError(f"hybridbn's note in the file's metadata is damaged or of a newer version: {error}") from None


def _needs_states(cells: Cells) -> bool:
    """Tell whether states can't be found again from the values: unused ones, or an order of their own."""
    states = list(cells.states or ())
    if set(map(type, states)) == {bool}:
        return False
    rows = np.bincount(cells.array + 1, minlength=len(states) + 1)
    if cells.declared or not rows[1:].all():
        return True
    try:
        return states != sorted(states)  # type: ignore[type-var]
    except TypeError:
        return True


# -- blocks -----------------------------------------------------------------------------------------------------------


class ArrowSource(FileSource):
    """A Parquet or Feather file that is read in blocks of the same size wherever its own parts end.

    Attributes
    ----------
    schema : Arrow schema
    """

    def __init__(self, form: _Columnar, file: Path | StoredFile, shown: str) -> None:
        super().__init__(file, shown)
        self.form = form
        with self._open() as opened:
            schema = opened.schema_arrow if isinstance(form, Parquet) else opened.schema
        self.schema: Any = dense_schema(schema)
        self.names: list[str] = WantedColumns().names(list(self.schema.names))
        # pandas' index stands beside the data
        self.frame_index: frozenset[str] = frozenset(index_columns(self.schema.metadata))
        self.index: frozenset[str] = self.frame_index
        self.fields: Mapping[str, Field] = {
            f.name: Field(f.name, kind_of_type(f.type), limits=limits_of_type(f.type)) for f in self.schema
        }

    @contextlib.contextmanager
    def _open(self, texts: Sequence[str] = ()) -> Iterator[Any]:
        path, filesystem = self.file.path, self.file.filesystem
        with (
            report_damage(self.form.title),
            pyarrow.OSFile(path) if filesystem is None else filesystem.open_input_file(path) as data,
            self.form.open_batches(data, texts) as file,
        ):
            yield file

    @functools.cached_property
    def notes(self) -> Mapping[str, Mapping[str, Any]]:
        """What hybridbn noted about columns when it wrote the file."""
        return read_notes(self.schema.metadata)

    def types(self, kinds: Kinds) -> dict[str, Any]:
        """Return the types of the columns, without those of pandas' index."""
        return {field.name: field.type for field in self.schema if field.name not in self.index}

    def divide(self, rows: int) -> Iterator[tuple[int, int | None, Any]]:
        """Give parts of the file that are read by themselves."""
        with self._open() as file:
            yield from self.form.divide(file, rows)

    def batches(self, types: Mapping[str, Any], kinds: Kinds, rows: int, part: Any = None) -> Iterator[tuple[int, Any]]:
        """Give columns as they are in the file; text that it holds as a dictionary is taken as one."""
        texts = [name for name in types if is_text(self.schema.field(name).type)]
        for start, batch in self._read_part(list(types), rows, part, texts):
            with shift_lines_in_errors(-1, start, "row"):
                for name, column in zip(types, batch.columns, strict=True):
                    if pyarrow.types.is_floating(column.type):
                        read_cells(name, column)  # which refuses infinite numbers
            yield start, batch

    def _read_part(
        self, names: list[str], rows: int, part: Any, texts: Sequence[str] = ()
    ) -> Iterator[tuple[int, Any]]:
        with self._open(texts) as file:
            batches = map(validate, self.form.read_part(file, names, rows, part))
            yield from number_rows(map(make_all_dense, batches))

    def blocks(self, rows: int, first: int = 0) -> Iterator[ArrowBlock]:
        """Give blocks of so many rows."""
        start, count, held = self.span.start + first * rows, 0, list[Any]()
        parts = [part for part in self.divide(1) if part[1] is None or part[0] + part[1] > start]
        skip = start - (parts[0][0] if parts else 0)
        whole = None if not parts or parts[0][2] is None else [group for part in parts for group in part[2]]
        for _, batch in self._read_part(self.names, rows, whole) if parts else ():
            begin = min(skip, batch.num_rows)
            skip -= begin
            while begin < batch.num_rows and start < self.span.stop:
                size = min(rows, self.span.stop - start)
                held.append(batch.slice(begin, size - count))
                count, begin = count + held[-1].num_rows, begin + held[-1].num_rows
                if count == size:
                    yield ArrowBlock(start, count, pyarrow.Table.from_batches(held), self.notes)
                    start, count, held = start + size, 0, []
            if start >= self.span.stop:
                return
        if count:
            yield ArrowBlock(start, count, pyarrow.Table.from_batches(held), self.notes)


@dataclass(eq=False)
class ArrowBlock(TableBlock):
    """Some rows of an Arrow table, wherever it comes from."""

    table: Any
    noted: Mapping[str, Mapping[str, Any]]

    def read(self, names: Sequence[str], kinds: Kinds) -> Table:
        """Return columns as typed ones."""
        columns, wanted = self.table.select(list(names)).columns, WantedColumns(dict(kinds))
        notes = {name: note for name, note in self.noted.items() if name not in kinds}
        with shift_lines_in_errors(-1, self.start, "row"):
            return Table.from_columns(
                [
                    _type_column(name, column, column.type, wanted, notes.get(name))
                    for name, column in zip(names, columns, strict=True)
                ]
            )

    def values(self, names: Sequence[str]) -> dict[str, list[Any]]:
        """Return columns as Python values."""
        sources = {name: ColumnSource("arrow", self.table.column(name)) for name in names}
        return {name: Column(name, None, None, source).raw().tolist() for name, source in sources.items()}


# -- writing ----------------------------------------------------------------------------------------------------------


class ArrowWriter(FileWriter):
    """Makes parts that are Arrow files; blocks of an Arrow source keep the types of their columns."""

    def __init__(
        self, fields: Sequence[Field], counter: str | None, origin: TableSource | None, form: _Columnar
    ) -> None:
        super().__init__(fields, counter, origin if isinstance(origin, ArrowSource) else None)
        import_pyarrow()
        self.form = form
        self._states = {field.name: field.states for field in fields if field.states is not None}
        # columns that are left alone are plain ones
        own = None if self.origin is None else unify_dictionaries(self.origin.schema, self._states)
        schema = self._plain_schema(fields) if own is None else own
        if counter is not None:
            schema = schema.insert(0, pyarrow.field(counter, pyarrow.int32()))
        self.schema = schema

    def _plain_schema(self, fields: Sequence[Field]) -> Any:
        types = {
            "integer": pyarrow.int64(),
            "float": pyarrow.float64(),
            "bool": pyarrow.bool_(),
            "date": pyarrow.date32(),
            "datetime": pyarrow.timestamp("us"),
            "instant": pyarrow.timestamp("us", "UTC"),
            "time": pyarrow.time64("us"),
            "interval": pyarrow.duration("us"),
            "bytes": pyarrow.binary(),
        }
        return pyarrow.schema([(field.name, types.get(field.kind, pyarrow.string())) for field in fields])

    def render(self, columns: Mapping[str, list[Any]]) -> bytes:
        """Return rows as an Arrow file."""
        arrays = []
        for field in self.schema:
            values = columns[field.name]
            if pyarrow.types.is_string(field.type):
                values = [v if v is None or isinstance(v, str) else plain_text(v) for v in values]
            elif pyarrow.types.is_floating(field.type):
                values = [v if v is None else float(v) for v in values]
            arrays.append(pyarrow.array(values, field.type))
        return self._write_bytes(pyarrow.table(arrays, schema=self.schema))

    def splice(self, block: ArrowBlock, fills: Fills, spell: Spell, draw: int = 0) -> bytes:
        """Return the block's own table, holes filled in its own types."""
        table = block.table
        for name, (rows, values) in fills.items():
            table = self._fill_column(table, name, rows, values)
        if self.counter is not None:
            count = pyarrow.array(np.full(table.num_rows, draw + 1, dtype=np.int32))
            table = table.add_column(0, self.counter, count)
        return self._write_bytes(encode_states(table, self.schema, self._states))

    def _fill_column(self, table: Any, name: str, rows: Any, values: list[Any]) -> Any:
        number = table.column_names.index(name)
        column = table.column(number)
        dense = decode_column(column)
        kind = dense.type
        if (limits := limits_of_type(kind)) is not None:
            values = [min(max(value, limits[0]), limits[1]) for value in values]
        if pyarrow.types.is_integer(kind):
            values = list(map(int, values))
        elif pyarrow.types.is_decimal(kind):
            # of as many digits as the widest type has
            context, step = decimal.Context(prec=76), decimal.Decimal(1).scaleb(-kind.scale)
            values = [decimal.Decimal(repr(value)).quantize(step, context=context) for value in values]
        filled = replace_cells(dense, rows, pyarrow.chunked_array([pyarrow.array(values, kind)]))
        return table.set_column(number, table.schema.field(number).with_type(filled.type), filled)

    def _write_bytes(self, table: Any) -> bytes:
        sink = io.BytesIO()
        with pyarrow.ipc.new_file(sink, table.schema, options=_ipc_options()) as file:
            file.write_table(table)
        return sink.getvalue()

    def join(self, parts: Iterable[bytes], file: IO[bytes]) -> None:
        """Write the whole file."""
        self.form.join(self.schema, _read_parts(parts), file)


def _ipc_options() -> Any:
    compression = "lz4" if pyarrow.Codec.is_available("lz4") else None
    return pyarrow.ipc.IpcWriteOptions(compression=compression, unify_dictionaries=True, allow_64bit=True)


def _read_parts(parts: Iterable[bytes]) -> Iterator[Any]:
    """Give the tables of parts that are Arrow files."""
    for part in parts:
        with pyarrow.ipc.open_file(pyarrow.BufferReader(part)) as opened:
            yield validate(opened.read_all())


def _group_tables(tables: Iterable[Any]) -> Iterator[Any]:
    """Give tables of many others each: row groups that are not too small."""
    held: list[Any] = []
    for table in tables:
        held.append(table)
        if sum(t.num_rows for t in held) >= _GROUP or sum(t.nbytes for t in held) >= _GROUP_BYTES:
            yield pyarrow.concat_tables(held)
            held = []
    if held:
        yield pyarrow.concat_tables(held)
