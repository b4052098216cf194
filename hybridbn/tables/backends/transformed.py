"""Batches that become others while they are read, and batches that are written to a file."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hybridbn.errors import FormatError, TableError
from hybridbn.registry import LazyModule
from hybridbn.tables import Table
from hybridbn.tables.backends.base import BATCH_ROWS, FILE_BITS, Batch, Fragment, Source
from hybridbn.tables.backends.batches import BatchReader
from hybridbn.tables.cells import Cells
from hybridbn.tables.formats.base import FileFormat, TableSource, suffixes
from hybridbn.tables.formats.database_base import OutputExists
from hybridbn.tables.formats.files import NameTaken, replace_file, resolve_links
from hybridbn.tables.frames.arrow import decode_type
from hybridbn.tables.rows import LEAST_SHARE, find_rows
from hybridbn.units import Unit
from hybridbn.variables import Discrete, Values, shorten

pyarrow = LazyModule("pyarrow")

_WHOLE = re.compile(r"[-+]?[0-9]+")
_MADE = (".parquet", ".pq", ".feather", ".arrow", ".csv", ".tsv")


@dataclass(frozen=True)
class TransformedFragment(Fragment):
    """A fragment whose batches become others."""

    real: Fragment
    function: Callable[[int, Any], Any]
    schema: Any
    rows: int | None = None

    def batches(self, columns: Sequence[str], rows: int = BATCH_ROWS) -> Iterator[Batch]:
        """Yield the new batches, of which these columns are wanted."""
        names = self.schema.names
        for batch in self.real.batches(names, rows):
            table = pyarrow.Table.from_batches([batch.data]).select(names).cast(self.schema)
            made = self.function(batch.first, table)
            if not isinstance(made, pyarrow.Table) or not {*columns} <= {*made.column_names}:
                raise TableError(f"a scan was to be transformed into an Arrow table of its columns, not {made!r:.80}")
            for data in made.select(list(columns)).combine_chunks().to_batches():
                yield Batch(batch.first, data)


class TransformedSource(Source):
    """A source whose batches become others.

    Parameters
    ----------
    real : Source
    function : callable
        From the number of the first row and an Arrow table to another Arrow table.
    fields : sequence of pyarrow.Field
        Columns that the function adds, or to which it gives another type.
    keep_observed : bool
        Whether nothing but missing cells becomes another.
    """

    shown: str
    notes: Mapping[str, Mapping[str, Any]]

    def __init__(
        self, real: Source, function: Callable[[int, Any], Any], fields: Sequence[Any] = (), keep_observed: bool = False
    ) -> None:
        self.real, self.function, self.shown, self.notes = real, function, real.shown, real.notes
        self.open = real.open if keep_observed else None
        self._fields = tuple(fields)

    @property
    def schema(self) -> Any:
        """The columns, those of other types and the added ones included."""
        return pyarrow.schema([*({one.name: one for one in (*self.real.schema, *self._fields)}.values())])

    @property
    def units(self) -> Mapping[str, Unit]:
        """The units of columns of text that are dates or times."""
        return self.real.units

    def settle(self, names: Iterable[str]) -> None:
        """Find out what columns are of which the first cells told otherwise."""
        self.real.settle(names)

    def fragments(self) -> Sequence[Fragment]:
        """Return the fragments of the real source, with what their batches become."""
        return [
            TransformedFragment(fragment, self.function, self.real.schema, fragment.rows)
            for fragment in self.real.fragments()
        ]


def write_batches(
    batches: Iterable[Any],
    path: str | os.PathLike[str],
    overwrite: bool,
    origin: Callable[[], TableSource] | None = None,
    **options: Any,
) -> None:
    r"""Write Arrow record batches to a file, which appears complete or not at all.

    Of the rows of a file of text, which `origin` opens, the cells that it has stay as it spells them in a file of the
    same format.

    Examples
    --------
    >>> import pyarrow, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_batches([pyarrow.record_batch({"x": [1, 2]})], f"{folder}/t.csv", False)
    ...     Path(folder, "t.csv").read_text()
    '"x"\n1\n2\n'
    """
    target = resolve_links(Path(path))
    suffix = target.suffix.lower()
    if suffix not in _MADE:
        known = shorten(_MADE, 9)
        hint = "; write it as one of these, and convert it" if suffix in suffixes() else ""
        raise FormatError(f"{path}: a scan is written to files of the formats {known}{hint}")
    taken = OutputExists(f"{path} exists already; overwrite=True would replace it")
    if target.exists() and not overwrite:
        raise taken
    parts = iter(batches)
    first = next(parts, None)
    if first is None:
        raise TableError("the scan has no rows to write")
    # dictionaries differ from batch to batch
    schema = pyarrow.schema([one.with_type(decode_type(one.type)) for one in first.schema])
    splicer = None if origin is None or options else _find_splicer(origin, suffix)
    try:
        with replace_file(target, overwrite=overwrite) as file:
            tables = (pyarrow.Table.from_batches([batch]).cast(schema) for batch in chain([first], parts))
            if splicer is not None:
                splicer[1].join(_splice_blocks(*splicer, tables), file)
                return
            with _open_writer(suffix, file, schema, options) as writer:
                for table in tables:
                    writer.write_table(table)
    except NameTaken:
        raise taken from None


def _find_splicer(origin: Callable[[], TableSource], suffix: str) -> tuple[TableSource, Any] | None:
    """Return the source of a file of text, and what writes it again in its own format."""
    form, source = FileFormat.registry.load()[suffix], origin()
    if not form.text:
        return None
    writer = form.writer([source.field(name) for name in source.names], suffix, origin=source)
    return (source, writer) if writer.splices else None


def _splice_blocks(source: TableSource, writer: Any, tables: Iterator[Any]) -> Iterator[bytes]:
    """Give the blocks of a file with their holes filled from tables of the same rows."""
    pending = next(tables)
    for block in source.blocks(BATCH_ROWS):
        while pending.num_rows < block.rows:
            pending = pyarrow.concat_tables([pending, next(tables)])
        texts = block.cells(source.names, dict.fromkeys(source.names, "text"))
        fills = {}
        for name, cells in texts.items():
            values = pending.column(name).slice(0, block.rows).filter(pyarrow.array(cells.missing)).to_pylist()
            known = [place for place, value in enumerate(values) if value is not None]
            if known:
                fills[name] = np.flatnonzero(cells.missing)[known], [values[place] for place in known]
        yield writer.splice(block, fills, partial(_spell, texts))
        pending = pending.slice(block.rows)


def _spell(texts: Mapping[str, Cells], name: str, value: Any) -> str:
    """Return a value as the texts of its column are spelled.

    Examples
    --------
    >>> texts = {"n": Cells(np.array([0]), ("-4",)), "b": Cells(np.array([0]), ("TRUE",))}
    >>> _spell(texts, "n", 3.0), _spell(texts, "b", True), _spell(texts, "b", False)
    ('3', 'TRUE', 'false')
    """
    known = list(map(str, texts[name].states or ()))
    if isinstance(value, float) and value.is_integer() and known and all(map(_WHOLE.fullmatch, known)):
        return str(int(value))
    spelled = str(value).lower() if isinstance(value, bool) else str(value)
    return next((text for text in known if isinstance(value, bool) and text.lower() == spelled), spelled)


def _open_writer(suffix: str, file: Any, schema: Any, options: dict[str, Any]) -> Any:
    if suffix in (".parquet", ".pq"):
        from pyarrow import parquet

        return parquet.ParquetWriter(file, schema, **options)
    if suffix in (".feather", ".arrow"):
        return pyarrow.ipc.new_file(file, schema, **options)
    from pyarrow import csv

    delimiter = "\t" if suffix == ".tsv" else ","
    return csv.CSVWriter(file, schema, write_options=csv.WriteOptions(delimiter=delimiter, **options))


# -- what batches become -----------------------------------------------------------------------------------------------


def find_place(first: int, offsets: Mapping[int, int]) -> int:
    """Return the place of a row among all rows.

    Examples
    --------
    >>> find_place((1 << FILE_BITS) + 3, {0: 0, 1: 100})
    103
    """
    file, place = divmod(first, 1 << FILE_BITS)
    return offsets.get(file, 0) + place


def call_at_place(function: Callable[[int, Any], Any], offsets: Mapping[int, int], first: int, table: Any) -> Any:
    """Return a function of the place of a first row and of the rows."""
    return function(find_place(first, offsets), table)


def weigh_rows(
    first: int,
    table: Any,
    *,
    reader: BatchReader,
    function: Callable[[Table, int], Values],
    offsets: Mapping[int, int],
    added: Sequence[Any],
) -> Any:
    """Return rows with a column of weights."""
    (batch,) = _combine(table)
    weights = function(reader.table(Batch(first, batch)), find_place(first, offsets))
    return table.append_column(added[0], pyarrow.array(weights))


def keep_rows(first: int, table: Any, *, reader: BatchReader, code: int | None) -> Any:
    """Return the rows of positive weight in which a column has a state, or any value."""
    (variable,) = reader.variables
    kept = [find_rows(reader.table(Batch(first, data)), variable, code) for data in _combine(table)]
    return table.filter(np.concatenate(kept))


def fill_holes(
    first: int,
    table: Any,
    *,
    reader: BatchReader,
    function: Callable[[Table, int], Mapping[str, NDArray[Any]]],
    floats: Sequence[Any],
) -> Any:
    """Return rows without holes, those columns as floats that have to become such."""
    parts = []
    for data in _combine(table):
        known = reader.table(Batch(first, data))
        part = pyarrow.Table.from_batches([data])
        for one in floats:
            place = part.column_names.index(one.name)
            part = part.set_column(place, one, part.column(place).cast(one.type, safe=False))
        for name, cells in function(known, first).items():
            if known.count_missing(name):
                column = known.select([name]).with_array(name, cells).to_arrow().column(name)
                place = part.column_names.index(name)
                part = part.set_column(place, part.schema.field(place), _cast(column, part.schema.field(place).type))
        parts.append(part)
    return pyarrow.concat_tables(parts)


def _cast(column: Any, kind: Any) -> Any:
    types = pyarrow.types
    if types.is_dictionary(kind) and not types.is_dictionary(column.type):
        return column.cast(kind.value_type).dictionary_encode().cast(kind)
    return column if column.type == kind else column.cast(kind)


def expand_rows(
    first: int,
    table: Any,
    *,
    reader: BatchReader,
    variable: Discrete,
    assign: Callable[[Table], Values],
    added: Sequence[Any],
) -> Any:
    """Return rows, some of them repeated, with the states of a further column and with weights."""
    parts = []
    for data in _combine(table):
        known = reader.table(Batch(first, data))
        shares = assign(known)
        rows, states = np.nonzero(shares > LEAST_SHARE)
        labels = pyarrow.array(list(variable.states)).take(states)
        part = pyarrow.Table.from_batches([data]).take(rows)
        weights = known.weights[rows] * shares[rows, states]
        for field, column in zip(added, (labels, weights), strict=True):
            part = part.append_column(field, pyarrow.array(column))
        parts.append(part)
    return pyarrow.concat_tables(parts)


def _combine(table: Any) -> list[Any]:
    """Return the rows as batches, at least one."""
    return table.combine_chunks().to_batches() or [pyarrow.RecordBatch.from_pylist([], table.schema)]
