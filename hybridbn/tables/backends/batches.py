"""Batches as codes and numbers of known variables, batches that become others, and batches written to a file."""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hybridbn.errors import FormatError, TableError
from hybridbn.registry import LazyModule
from hybridbn.tables import Table
from hybridbn.tables.backends.base import BATCH_ROWS, FILE_BITS, Batch, Fragment, Source
from hybridbn.tables.cells import REST, Cells, UnsupportedType, count_texts
from hybridbn.tables.columns import check_weights, column_adapter, match_marks, read_as_variable, read_cells
from hybridbn.tables.formats import open_output
from hybridbn.tables.formats.base import FileFormat, TableSource, suffixes
from hybridbn.tables.formats.files import resolve_links
from hybridbn.tables.formats.text_blocks import shift_lines_in_errors
from hybridbn.tables.frames.arrow import (
    NUMBERS,
    StateCoder,
    decode_column,
    decode_dictionary,
    decode_type,
    encode_states,
    is_text,
    kind_of_type,
    unify_dictionaries,
)
from hybridbn.tables.rows import LEAST_SHARE, find_rows
from hybridbn.units import Unit
from hybridbn.variables import Codes, Continuous, Discrete, Values, Variable, shorten

pyarrow: LazyModule = LazyModule("pyarrow")
csv: LazyModule = LazyModule("pyarrow.csv")
parquet: LazyModule = LazyModule("pyarrow.parquet")

_WHOLE = re.compile(r"[-+]?[0-9]+")


class BatchReader:
    """Reads the columns of batches as codes or values of variables, in as few bytes as they need.

    Parameters
    ----------
    variables : sequence of Variable
        A discrete one whose last state is `REST` takes every value that is no other of its states for that one.
    weights : str, optional
        The column of the rows' weights.
    """

    variables: tuple[Variable, ...]

    def __init__(self, variables: Sequence[Variable], weights: str | None = None) -> None:
        self.variables, self._weights = tuple(variables), weights
        names = [variable.name for variable in self.variables]
        self.columns: tuple[str, ...] = tuple(names if weights is None else dict.fromkeys([*names, weights]))
        # workers may be threads that share this reader
        self._of_thread = threading.local()

    def __reduce__(self) -> tuple[Any, ...]:
        return BatchReader, (self.variables, self._weights)

    def read(self, batch: Batch) -> tuple[dict[str, NDArray[Any]], Values | None]:
        """Return the columns of a batch and the weights of its rows."""
        columns = {variable.name: self._read(batch, variable) for variable in self.variables}
        if self._weights is None:
            return columns, None
        try:
            weights = read_numbers(self._weights, batch.data.column(self._weights))
            if np.isnan(weights).any() or (weights < 0).any():
                check_weights(weights, batch.data.num_rows)
        except TableError as error:
            raise TableError(f"the column of weights, {self._weights!r}: {error}") from None
        return columns, weights

    def table(self, batch: Batch) -> Table:
        """Return a batch as a table of these variables."""
        columns, weights = self.read(batch)
        if not columns:
            return Table({"": np.zeros(batch.data.num_rows)}).select([])
        return Table.from_arrays(self.variables, columns, weights=weights)

    def _read(self, batch: Batch, variable: Variable) -> NDArray[Any]:
        name = variable.name
        column = batch.data.column(name)
        if isinstance(variable, Discrete):
            if variable.cuts is None and can_be_coded(column.type) and _suits(variable.states, column.type):
                return self._encode(batch, variable, column)
        elif variable.unit is None and variable.domain == (-np.inf, np.inf) and kind_of_type(column.type) in NUMBERS:
            return read_numbers(name, column)
        if isinstance(variable, Discrete) and variable.states[-1:] == (REST,):
            return _read_rest(variable, column)
        return self._read_cells(batch, variable, column)

    def _read_cells(self, batch: Batch, variable: Variable, column: Any) -> NDArray[Any]:
        with shift_lines_in_errors(-1, batch.first % (1 << FILE_BITS), "row"):
            moments = read_moments(column, variable) if isinstance(variable, Continuous) else None
            if moments is not None:
                return moments
            if is_text(decode_type(column.type)):
                # files may give texts as a dictionary
                column = decode_column(column)
            return read_as_variable(pyarrow.chunked_array([column]), variable).cells.array

    def _encode(self, batch: Batch, variable: Discrete, column: Any) -> Codes:
        has_rest = variable.states[-1] == REST
        known = len(variable) - has_rest
        coders: dict[str, StateCoder] = vars(self._of_thread)
        coder = coders.get(variable.name)
        if coder is None or len(coder.states) > 2 * known + 2**16:
            # so that rare states don't pile up
            coder = coders[variable.name] = StateCoder(variable.states[:known])
        codes = coder.encode(column)
        if len(coder.states) == known:
            return codes
        strange = np.asarray(codes >= known)
        if not strange.any():
            return codes
        if has_rest:
            return np.where(strange, np.array(known, np.int64), codes)
        del coders[variable.name]
        return self._read_cells(batch, variable, column)  # which refuses it


def _read_rest(variable: Discrete, column: Any) -> Codes:
    codes = {state: code for code, state in enumerate(variable.states)}
    rest = len(variable) - 1
    return np.array([-1 if value is None else codes.get(value, rest) for value in column.to_pylist()], np.intp)


def can_be_coded(kind: Any) -> bool:
    """Tell whether a column of an Arrow type has states that are coded batch by batch: text and integers."""
    return kind_of_type(kind) in ("text", "integer") and not pyarrow.types.is_uint64(kind)


def _suits(states: Sequence[Any], kind: Any) -> bool:
    """Tell whether states are values of a type."""
    wanted = int if kind_of_type(kind) == "integer" else str
    return all(type(state) is wanted or state == REST for state in states)


def read_moments(column: Any, variable: Continuous) -> Values | None:
    """Return an Arrow array of text as the dates or times of a variable; None where it is anything else."""
    is_coded, unit = pyarrow.types.is_dictionary(column.type), variable.unit
    is_written = unit is not None and unit.pattern is not None and variable.domain == (-np.inf, np.inf)
    if not is_written or not (is_coded or is_text(column.type)):
        return None
    encoded = column if is_coded else column.dictionary_encode()
    codes, states = decode_dictionary(pyarrow.chunked_array([encoded]))
    cells = count_texts(variable.name, codes, states, unit, strict=True)
    return np.full(len(codes), np.nan) if cells is None else cells.array


def read_numbers(name: str, column: Any) -> Values:
    """Return an Arrow array of numbers as floats, NaN where one is missing.

    Examples
    --------
    >>> import pyarrow
    >>> read_numbers("x", pyarrow.array([1, None, 3]))
    array([ 1., nan,  3.])
    """
    if kind_of_type(column.type) not in NUMBERS:
        raise TableError(f"column {name!r} is of type {column.type}, not of numbers")
    return read_cells(name, decode_column(column)).array


# -- other batches ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class TransformedFragment(Fragment):
    """A fragment whose batches become others."""

    real: Fragment
    function: Callable[[int, Any], Any]
    schema: Any
    rows: int | None = None
    shown: str = ""

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
        self._real, self._function, self.shown, self.notes = real, function, real.shown, real.notes
        self.faults: Mapping[str, UnsupportedType] = real.faults
        self.untyped: Sequence[str] = real.untyped
        self.open: Callable[[], TableSource] | None = real.open if keep_observed else None
        self._fields = tuple(fields)

    @property
    def schema(self) -> Any:
        """The columns, those of other types and the added ones included."""
        return pyarrow.schema([*({one.name: one for one in (*self._real.schema, *self._fields)}.values())])

    @property
    def units(self) -> Mapping[str, Unit]:
        """The units of columns of text that are dates or times."""
        return self._real.units

    def prepare(self, names: Iterable[str]) -> None:
        """Find out what the columns of the real source are."""
        self._real.prepare([name for name in names if name in self._real.schema.names])

    def settle(self, names: Iterable[str], fault: UnsupportedType | None = None) -> None:
        """Find out what columns are of which the first cells told otherwise."""
        self._real.settle(names, fault)

    def settle_texts(self, texts: Mapping[str, Sequence[str] | None]) -> bool:
        """Find out what columns of text are, given what became of their texts."""
        return self._real.settle_texts(texts)

    def fragments(self) -> Sequence[Fragment]:
        """Return the fragments of the real source, with what their batches become."""
        return [
            TransformedFragment(fragment, self._function, self._real.schema, fragment.rows, fragment.shown)
            for fragment in self._real.fragments()
        ]


def write_batches(
    batches: Iterable[Any],
    path: str | os.PathLike[str],
    overwrite: bool,
    origin: Callable[[], TableSource] | None = None,
    states: Mapping[str, Iterable[Any]] = MappingProxyType({}),
    **options: Any,
) -> None:
    r"""Write Arrow record batches to a file, which appears complete or not at all.

    Of the rows of a file of text, which `origin` opens, the cells that it has stay as it spells them in a file of the
    same format. Columns with dictionaries keep one where their `states` are known.

    Examples
    --------
    >>> import pyarrow, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_batches([pyarrow.record_batch({"x": [1, 2]})], f"{folder}/t.csv", False)
    ...     Path(folder, "t.csv").read_text()
    '"x"\n1\n2\n'
    """
    suffix = resolve_links(Path(path)).suffix.lower()
    if suffix not in _WRITERS:
        known = shorten(_WRITERS, 9)
        hint = "; write it as one of these, and convert it" if suffix in suffixes() else ""
        raise FormatError(f"{path}: a scan is written to files of the formats {known}{hint}")
    with open_output(Path(path), overwrite) as file:
        parts = iter(batches)
        first = next(parts, None)
        if first is None:
            raise TableError("the scan has no rows to write")
        # dictionaries differ from batch to batch
        kept = {} if FileFormat.registry.load()[suffix].text else states
        schema = unify_dictionaries(first.schema, kept)
        batches = map(pyarrow.Table.from_batches, ([one] for one in chain([first], parts)))
        tables = (encode_states(table, schema, kept) for table in batches)
        splicer = None if origin is None or options else _find_splicer(origin, suffix)
        if splicer is not None:
            splicer[1].join(_splice_blocks(*splicer, tables), file)
            return
        with _WRITERS[suffix](file, schema, **options) as writer:
            for table in tables:
                writer.write_table(table)


def _find_splicer(origin: Callable[[], TableSource], suffix: str) -> tuple[TableSource, Any] | None:
    """Return the source of a file of text, and what writes it again in its own format."""
    form, source = FileFormat.registry.load()[suffix], origin()
    if not form.text:
        return None
    options = source.dialect.writing(suffix) if "delimiter" in form.options else {}
    writer = form.writer([source.field(name) for name in source.names], suffix, origin=source, **options)
    return None if writer.origin is None else (source, writer)


def _splice_blocks(source: TableSource, writer: Any, tables: Iterator[Any]) -> Iterator[bytes]:
    """Give the blocks of a file with their holes filled from tables of the same rows."""
    pending = next(tables)
    for block in source.blocks(BATCH_ROWS):
        while pending.num_rows < block.rows:
            pending = pyarrow.concat_tables([pending, next(tables)])
        names = [one.name for one in pending.schema if not pyarrow.types.is_null(one.type)]
        texts = block.cells(names, dict.fromkeys(names, "text"))
        fills = {}
        for name, cells in texts.items():
            values = pending.column(name).slice(0, block.rows).filter(pyarrow.array(cells.missing)).to_pylist()
            known = [place for place, value in enumerate(values) if value is not None]
            if known:
                fills[name] = np.flatnonzero(cells.missing)[known], [values[place] for place in known]
        yield writer.splice(block, fills, partial(_spell, source, texts))
        pending = pending.slice(block.rows)


def _spell(source: TableSource, texts: Mapping[str, Cells], name: str, value: Any) -> str:
    """Return a value as the texts of its column in a source are spelled."""
    known = list(map(str, texts[name].states or ()))
    if isinstance(value, float):
        plain = [source.dialect.plain(text) or text for text in known]
        is_whole = value.is_integer() and known and all(map(_WHOLE.fullmatch, plain))
        return source.dialect.spell(name, str(int(value) if is_whole else value))
    spelled = str(value).lower() if isinstance(value, bool) else str(value)
    return next((text for text in known if isinstance(value, bool) and text.lower() == spelled), spelled)


def _open_csv(file: Any, schema: Any, delimiter: str = ",", **options: Any) -> Any:
    return csv.CSVWriter(file, schema, write_options=csv.WriteOptions(delimiter=delimiter, **options))


_WRITERS: dict[str, Callable[..., Any]] = {
    **dict.fromkeys((".parquet", ".pq"), lambda *given, **options: parquet.ParquetWriter(*given, **options)),
    **dict.fromkeys((".feather", ".arrow"), lambda *given, **options: pyarrow.ipc.new_file(*given, **options)),
    ".csv": _open_csv,
    ".tsv": partial(_open_csv, delimiter="\t"),
}
"""What writes batches to a file, given the file and the schema, by suffix."""


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
    weights = function(_read_rows(first, table, reader), find_place(first, offsets))
    return table.append_column(added[0], pyarrow.array(weights))


def blank_marks(first: int, table: Any, *, marks: Mapping[str, Sequence[Any]]) -> Any:
    """Return rows with cells missing that hold marks."""
    for name, own in marks.items():
        column, place = table.column(name), table.column_names.index(name)
        holes = match_marks(read_cells(name, column), own)
        if holes.any():
            blank = column.take(pyarrow.array(np.arange(len(holes)), mask=holes))
            table = table.set_column(place, table.schema.field(place), blank)
    return table


def keep_rows(first: int, table: Any, *, reader: BatchReader, code: int | None) -> Any:
    """Return the rows of positive weight in which a column has a state, or any value."""
    (variable,) = reader.variables
    return table.filter(pyarrow.array(find_rows(_read_rows(first, table, reader), variable, code)))


def fill_holes(
    first: int,
    table: Any,
    *,
    reader: BatchReader,
    function: Callable[[Table, int], Mapping[str, NDArray[Any]]],
    floats: Sequence[Any],
) -> Any:
    """Return rows without holes, those columns as floats that have to become such."""
    known = _read_rows(first, table, reader)
    for one in floats:
        place = table.column_names.index(one.name)
        table = table.set_column(place, one, table.column(place).cast(one.type, safe=False))
    for name, cells in function(known, first).items():
        if known.count_missing(name):
            place, one = table.column_names.index(name), table.schema.field(name)
            column = known.select([name]).with_array(name, cells).to_arrow().column(name)
            table = table.set_column(place, one, column_adapter("arrow").fit(column, one.type))
    return table


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
    known = _read_rows(first, table, reader)
    shares = assign(known)
    rows, states = np.nonzero(shares > LEAST_SHARE)
    labels = pyarrow.array(list(variable.states)).take(states)
    weights = known.weights[rows] * shares[rows, states]
    table = table.take(rows)
    for field, column in zip(added, (labels, weights), strict=True):
        table = table.append_column(field, pyarrow.array(column))
    return table


def _read_rows(first: int, table: Any, reader: BatchReader) -> Table:
    """Return the rows of a batch, which came as an Arrow table, as a table of variables."""
    batches = table.combine_chunks().to_batches() or [pyarrow.RecordBatch.from_pylist([], table.schema)]
    return reader.table(Batch(first, batches[0]))
