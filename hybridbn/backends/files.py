"""Files and folders as sources: Parquet, Feather, CSV and TSV, on disk or in an object store, through pyarrow."""

from __future__ import annotations

import errno
import glob
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hybridbn.backends.base import BATCH_ROWS, FILE_BITS, Batch, Fragment, Source
from hybridbn.errors import FormatError, TableError
from hybridbn.formats.secrets import mask_secrets
from hybridbn.formats.tables import format_of
from hybridbn.formats.tables.base import FileFormat
from hybridbn.formats.tables.base import suffixes as list_suffixes
from hybridbn.formats.tables.columnar import index_columns, read_notes
from hybridbn.formats.tables.delimited import MISSING
from hybridbn.formats.tables.pyarrow_checks import import_pyarrow, report_damage, validate
from hybridbn.tables import Table
from hybridbn.variables import shorten

__all__ = ["FileFragment", "FileTable", "is_scannable", "open_files", "suffix_of"]

_FRAGMENT_ROWS = 1 << 20
"""Row groups of a file are read together until they have so many rows."""


@dataclass(frozen=True)
class FileFragment(Fragment):
    """A file, or some row groups of a Parquet file.

    Attributes
    ----------
    path : str
    form : "parquet", "feather" or "csv"; "rows" of those that hybridbn reads by itself
    number : int
        Of the file.
    start : int
        The number of the first row in the file.
    groups : tuple of int, optional
        Row groups of a Parquet file.
    filesystem : pyarrow.fs.FileSystem, optional
        By default that of the machine.
    constants : mapping from column to value
        Those that the names of folders give, as in ``year=2024/``.
    kinds : mapping from column to the Arrow type that a text file's column is read as
    delimiter : str
    state : tuple, optional
        Size and time of the file, by which one that changed is told.
    """

    path: str
    form: str
    number: int = 0
    start: int = 0
    rows: int | None = None
    groups: tuple[int, ...] | None = None
    filesystem: Any = None
    constants: Mapping[str, Any] = field(default_factory=dict)
    kinds: Mapping[str, Any] = field(default_factory=dict)
    delimiter: str = ","
    state: tuple[int, Any] | None = None

    def batches(self, columns: Sequence[str], rows: int = BATCH_ROWS) -> Iterator[Batch]:
        """Yield the rows of the file or of its row groups."""
        pyarrow = import_pyarrow()
        first = (self.number << FILE_BITS) + self.start
        held = [name for name in columns if name not in self.constants]
        if self.state is not None and _file_state(self.filesystem, self.path) != self.state:
            raise TableError(f"{self.path} was changed while it was scanned; scan it again")
        with report_damage(f"{self.form} ({self.path})"):
            for read in self._read(pyarrow, held, rows):
                data = validate(read)
                for name, value in self.constants.items():
                    if name in columns:
                        data = data.append_column(name, pyarrow.repeat(pyarrow.scalar(value), data.num_rows))
                if data.num_rows:
                    yield Batch(first, data)
                first += data.num_rows

    def _read(self, pyarrow: Any, columns: list[str], rows: int) -> Iterator[Any]:
        if self.form == "parquet":
            from pyarrow import parquet

            with _open_file(pyarrow, self.filesystem, self.path) as raw:
                types, schema = pyarrow.types, parquet.ParquetFile(raw).schema_arrow
                texts = [n for n in columns if _is_text(types, schema.field(n).type)]
                raw.seek(0)
                # text that the file holds as a dictionary is taken as one; a column is read piece by piece
                file = parquet.ParquetFile(raw, read_dictionary=texts, pre_buffer=False, buffer_size=1 << 20)
                groups = list(range(file.num_row_groups)) if self.groups is None else list(self.groups)
                yield from file.iter_batches(rows, row_groups=groups, columns=columns, use_threads=False)
        elif self.form == "feather":
            with (
                _open_file(pyarrow, self.filesystem, self.path) as raw,
                pyarrow.ipc.open_file(raw) as file,
            ):
                for number in range(file.num_record_batches):
                    whole = file.get_batch(number).select(columns)
                    for start in range(0, max(whole.num_rows, 1), rows):
                        yield whole.slice(start, rows)
        elif self.form == "rows":
            yield from _read_rows(pyarrow, self.path, columns, self.kinds, rows)
        else:
            with _open_csv(pyarrow, self, columns or None) as reader:
                yield from reader


def _read_rows(
    pyarrow: Any, path: str, columns: Sequence[str] | None, kinds: Mapping[str, Any], rows: int
) -> Iterator[Any]:
    """Yield batches of a file in a format of hybridbn's own, its columns as Arrow types if these are known."""
    form, suffix = format_of(Path(path))
    source = form.source(Path(path), path, suffix)
    types = pyarrow.types
    declared: dict[str, Any] = {
        name: "continuous" if types.is_floating(kind) else "discrete"
        for name, kind in kinds.items()
        if not types.is_temporal(kind)
    }
    for block in source.blocks(rows):
        names = list(source.names if columns is None else columns)
        cells = block.cells(names, {name: kind for name, kind in declared.items() if name in names})
        table = Table.from_cells(cells, stateless=True).to_arrow()
        table = pyarrow.table({name: _as_type(pyarrow, table.column(name), kinds.get(name)) for name in names})
        yield from table.combine_chunks().to_batches()


def _as_type(pyarrow: Any, column: Any, kind: Any) -> Any:
    if pyarrow.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    return column if kind is None or column.type == kind else column.cast(kind)


def _is_text(types: Any, kind: Any) -> bool:
    return bool(types.is_string(kind) or types.is_large_string(kind))


def _open_file(pyarrow: Any, filesystem: Any, path: str) -> Any:
    return pyarrow.OSFile(path) if filesystem is None else filesystem.open_input_file(path)


def _open_csv(pyarrow: Any, fragment: FileFragment, columns: list[str] | None) -> Any:
    from pyarrow import csv

    stream = (
        pyarrow.input_stream(fragment.path)
        if fragment.filesystem is None
        else fragment.filesystem.open_input_stream(fragment.path)
    )
    return csv.open_csv(
        stream,
        csv.ReadOptions(use_threads=False, block_size=1 << 22),
        csv.ParseOptions(delimiter=fragment.delimiter, newlines_in_values=True),
        csv.ConvertOptions(
            include_columns=columns,
            column_types=dict(fragment.kinds),
            null_values=list(MISSING),
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
            auto_dict_encode=False,
        ),
    )


def _file_state(filesystem: Any, path: str) -> tuple[int, Any]:
    if filesystem is None:
        status = os.stat(path)
        return status.st_size, status.st_mtime_ns
    info = filesystem.get_file_info(path)
    return info.size, info.mtime_ns


class FileTable(Source):
    """Files of one format with the same columns."""

    shown: str
    schema: Any
    notes: dict[str, dict[str, Any]]

    def __init__(self, shown: str, paths: Sequence[str], filesystem: Any, base: str | None, kinds: Mapping[str, str]):
        self.shown, self._paths, self._filesystem = shown, list(paths), filesystem
        suffixes, known = {suffix_of(path) for path in self._paths}, FileFormat.registry.load()
        forms = {known[suffix].scan_form for suffix in suffixes if suffix in known}
        if not suffixes <= known.keys() or len(forms) != 1:
            raise FormatError(
                f"{shown}: a scan reads files of one of the formats {shorten(list_suffixes(), 9)}, not"
                f" {shorten(sorted(suffixes))}"
            )
        [self._form] = forms
        self._delimiter = "," if suffixes == {".csv"} else "\t"
        self._base, self._kinds = base, dict(kinds)
        self._csv_types: dict[str, Any] = {}
        pyarrow = import_pyarrow()
        with report_damage(self._form):
            schema = self._read_schema(pyarrow, self._paths[0])
        constants = self._constants(self._paths[0])
        self.file = None if constants or filesystem is not None or len(self._paths) > 1 else self._paths[0]
        for name, value in constants.items():
            schema = schema.append(pyarrow.field(name, pyarrow.scalar(value).type))
        index = index_columns(schema.metadata)
        self.schema = pyarrow.schema([one for one in schema if one.name not in index])
        self.notes = read_notes(schema.metadata)
        self._fragments: list[Fragment] | None = None

    def fragments(self) -> Sequence[Fragment]:
        """Return files, and pieces of large Parquet files."""
        if self._fragments is None:
            pyarrow = import_pyarrow()
            self._fragments = [
                piece for number, path in enumerate(self._paths) for piece in self._divide(pyarrow, number, path)
            ]
        return self._fragments

    def _divide(self, pyarrow: Any, number: int, path: str) -> Iterator[FileFragment]:
        state = _file_state(self._filesystem, path)

        def make(**options: Any) -> FileFragment:
            return FileFragment(
                path,
                self._form,
                number,
                filesystem=self._filesystem,
                constants=self._constants(path),
                kinds=self._csv_types,
                delimiter=self._delimiter,
                state=state,
                **options,
            )

        if self._form != "parquet":
            yield make()
            return
        from pyarrow import parquet

        with report_damage(f"Parquet ({path})"), _open_file(pyarrow, self._filesystem, path) as raw:
            metadata = parquet.ParquetFile(raw).metadata
            counts = [metadata.row_group(group).num_rows for group in range(metadata.num_row_groups)]
            self._refuse_other_columns(path, metadata.schema.to_arrow_schema())
        start, groups, rows = 0, list[int](), 0
        for group, count in enumerate(counts):
            groups.append(group)
            rows += count
            if rows >= _FRAGMENT_ROWS or group == len(counts) - 1:
                yield make(start=start, rows=rows, groups=tuple(groups))
                start, groups, rows = start + rows, [], 0

    def _refuse_other_columns(self, path: str, schema: Any) -> None:
        held = {*schema.names, *self._constants(path)}
        absent = [name for name in self.schema.names if name not in held]
        if absent:
            raise TableError(
                f"{path} has no column {absent[0]!r}, which {self._paths[0]} has; the files of a scan have the same"
                " columns"
            )

    def _constants(self, path: str) -> dict[str, Any]:
        if self._base is None:
            return {}
        folders = os.path.relpath(path, self._base).split(os.sep)[:-1]
        pairs = [folder.split("=", 1) for folder in folders if "=" in folder]
        return {name: int(value) if value.isdecimal() else value for name, value in pairs}

    def _read_schema(self, pyarrow: Any, path: str) -> Any:
        if self._form == "parquet":
            from pyarrow import parquet

            with _open_file(pyarrow, self._filesystem, path) as raw:
                return parquet.ParquetFile(raw).schema_arrow
        if self._form == "feather":
            with _open_file(pyarrow, self._filesystem, path) as raw, pyarrow.ipc.open_file(raw) as file:
                return file.schema
        if self._form == "rows":
            return self._read_row_types(pyarrow, path)
        probe = FileFragment(path, "csv", filesystem=self._filesystem, delimiter=self._delimiter)
        with _open_csv(pyarrow, probe, None) as reader:
            guessed = reader.schema
        types = pyarrow.types
        for one in guessed:
            # what begins with whole numbers or with nothing may go on with others
            declared, kind = self._kinds.get(one.name), one.type
            if declared == "discrete":
                kind = (
                    pyarrow.int64()
                    if types.is_integer(kind)
                    else pyarrow.bool_()
                    if types.is_boolean(kind)
                    else pyarrow.string()
                )
            elif types.is_integer(kind) or types.is_null(kind) or declared == "continuous":
                kind = pyarrow.float64()
            self._csv_types[one.name] = kind
        schema = pyarrow.schema(list(self._csv_types.items()))
        # text is parsed into dictionaries, which takes less than half of the time
        text = pyarrow.dictionary(pyarrow.int32(), pyarrow.string())
        self._csv_types = {name: text if _is_text(types, kind) else kind for name, kind in self._csv_types.items()}
        return schema

    def _read_row_types(self, pyarrow: Any, path: str) -> Any:
        """Return the schema that the first rows of a file tell."""
        if self._filesystem is not None:
            raise FormatError(f"{path}: files of this format are scanned on this machine; copy it here")
        first = next(_read_rows(pyarrow, path, None, {}, BATCH_ROWS), None)
        if first is None:
            raise TableError(f"{path}: the file has no rows")
        for one in first.schema:
            declared, kind = self._kinds.get(one.name), one.type
            number = pyarrow.types.is_integer(kind) or pyarrow.types.is_floating(kind) or pyarrow.types.is_null(kind)
            if number:
                # what begins with whole numbers or with nothing may go on with others
                kind = pyarrow.int64() if declared == "discrete" else pyarrow.float64()
            self._csv_types[one.name] = kind
        return pyarrow.schema(list(self._csv_types.items()))


def suffix_of(path: str) -> str:
    """Return what a name ends with, in small letters, without the suffix of a packed file."""
    name = path.lower()
    for packed in (".gz", ".bz2", ".zst"):
        name = name.removesuffix(packed)
    return os.path.splitext(name)[1]


def is_scannable(path: str) -> bool:
    """Tell whether a file has a suffix of a known format.

    Examples
    --------
    >>> is_scannable("t.CSV.gz"), is_scannable("notes.txt")
    (True, False)
    """
    return suffix_of(path) in FileFormat.registry.load()


def open_files(given: Any, kinds: Mapping[str, str]) -> FileTable | None:
    """Return the table that a path, a folder, a pattern, an address of an object store or a list of paths names; None
    for anything else.

    Parameters
    ----------
    kinds : mapping from column to "discrete" or "continuous"
        What text files do not say of their columns.
    """
    if isinstance(given, list | tuple) and given and all(isinstance(path, str | os.PathLike) for path in given):
        return FileTable(shorten([os.fspath(path) for path in given]), list(map(os.fspath, given)), None, None, kinds)
    if not isinstance(given, str | os.PathLike):
        return None
    text = os.fspath(given)
    if "://" in text:
        return _open_store(text, kinds)
    base = None
    if os.path.isdir(text):
        base = text
        paths = sorted(
            os.path.join(folder, name)
            for folder, _, names in os.walk(text)
            for name in names
            if not name.startswith(("_", ".")) and is_scannable(name)
        )
    elif not os.path.exists(text) and glob.has_magic(text):
        paths = sorted(glob.glob(text, recursive=True))
    elif os.path.exists(text):
        paths = [text]
    else:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), text)
    if not paths:
        raise FormatError(f"{text}: there is no file to scan")
    return FileTable(text, paths, None, base, kinds)


def _open_store(address: str, kinds: Mapping[str, str]) -> FileTable:
    """Return the files of an object store: by pyarrow where it knows the scheme, else by fsspec."""
    import_pyarrow()
    from pyarrow import fs

    try:
        store, path = fs.FileSystem.from_uri(address)
    except Exception as error:
        try:
            import fsspec
        except ModuleNotFoundError:
            shown = mask_secrets(address, [address])
            raise FormatError(f"{shown}: pyarrow can't open it ({error}); fsspec may: pip install fsspec") from error
        opened, path = fsspec.core.url_to_fs(address)
        store = fs.PyFileSystem(fs.FSSpecHandler(opened))
    info = store.get_file_info(path)
    base = None
    if info.type == fs.FileType.Directory:
        base = path
        listed = store.get_file_info(fs.FileSelector(path, recursive=True))
        paths = sorted(one.path for one in listed if one.type == fs.FileType.File and is_scannable(one.path))
    elif info.type == fs.FileType.File:
        paths = [path]
    else:
        folder, _, pattern = path.rpartition("/")
        import fnmatch

        listed = store.get_file_info(fs.FileSelector(folder, allow_not_found=True))
        paths = sorted(one.path for one in listed if fnmatch.fnmatch(one.path, f"{folder}/{pattern}"))
    if not paths:
        raise FormatError(f"{mask_secrets(address, [address])}: there is no file to scan")
    return FileTable(mask_secrets(address, [address]), paths, store, base, kinds)
