"""Batches that become others while they are read, and batches that are written to a file."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hybridbn.backends.base import BATCH_ROWS, Batch, Fragment, Source
from hybridbn.errors import FormatError, TableError
from hybridbn.formats.files import NameTaken, replace_file, resolve_links
from hybridbn.formats.tables.base import suffixes
from hybridbn.formats.tables.database_base import OutputExists
from hybridbn.formats.tables.pyarrow_checks import import_pyarrow
from hybridbn.variables import shorten

__all__ = ["TransformedSource", "write_batches"]

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
        pyarrow = import_pyarrow()
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
    """

    real: Source
    function: Callable[[int, Any], Any]
    shown: str
    notes: Mapping[str, Mapping[str, Any]]
    schema: Any

    def __init__(self, real: Source, function: Callable[[int, Any], Any], fields: Sequence[Any] = ()) -> None:
        self.real, self.function, self.shown, self.notes = real, function, real.shown, real.notes
        self.schema = import_pyarrow().schema([*({one.name: one for one in (*real.schema, *fields)}.values())])

    def fragments(self) -> Sequence[Fragment]:
        """Return the fragments of the real source, with what their batches become."""
        return [
            TransformedFragment(fragment, self.function, self.real.schema, fragment.rows)
            for fragment in self.real.fragments()
        ]


def write_batches(batches: Iterable[Any], path: str | os.PathLike[str], overwrite: bool, **options: Any) -> None:
    r"""Write Arrow record batches to a file, which appears complete or not at all.

    Examples
    --------
    >>> import pyarrow, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_batches([pyarrow.record_batch({"x": [1, 2]})], f"{folder}/t.csv", False)
    ...     Path(folder, "t.csv").read_text()
    '"x"\n1\n2\n'
    """
    pyarrow = import_pyarrow()
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
    schema = pyarrow.schema([_plain_field(pyarrow, one) for one in first.schema])
    try:
        with replace_file(target, overwrite=overwrite) as file, _open_writer(suffix, file, schema, options) as writer:
            for batch in _chain(first, parts):
                writer.write_table(pyarrow.Table.from_batches([batch]).cast(schema))
    except NameTaken:
        raise taken from None


def _chain(first: Any, others: Iterator[Any]) -> Iterator[Any]:
    yield first
    yield from others


def _plain_field(pyarrow: Any, one: Any) -> Any:
    """Return a field without a dictionary, which differs from batch to batch."""
    return one.with_type(one.type.value_type) if pyarrow.types.is_dictionary(one.type) else one


def _open_writer(suffix: str, file: Any, schema: Any, options: dict[str, Any]) -> Any:
    pyarrow = import_pyarrow()
    if suffix in (".parquet", ".pq"):
        from pyarrow import parquet

        return parquet.ParquetWriter(file, schema, **options)
    if suffix in (".feather", ".arrow"):
        return pyarrow.ipc.new_file(file, schema, **options)
    from pyarrow import csv

    delimiter = "\t" if suffix == ".tsv" else ","
    return csv.CSVWriter(file, schema, write_options=csv.WriteOptions(delimiter=delimiter, **options))
