"""`scan`, and what it opens: files and folders, on disk or in an object store, frames and datasets in memory."""

from __future__ import annotations

import errno
import glob
import os
import re
import sys
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from functools import partial
from importlib.util import find_spec
from itertools import islice
from types import MappingProxyType
from typing import Any, TypeAlias, cast
from urllib.parse import quote, unquote

import numpy as np

from hybridbn.errors import FormatError, TableError, mask_secrets
from hybridbn.options import check_count, list_items
from hybridbn.registry import LazyModule, import_library
from hybridbn.tables import Rows, Table
from hybridbn.tables.backends.base import (
    BATCH_ROWS,
    FILE_BITS,
    Backend,
    Batch,
    Fragment,
    Source,
    find_backend,
    number_batches,
)
from hybridbn.tables.backends.batches import TransformedSource
from hybridbn.tables.backends.scans import Passes, Scan
from hybridbn.tables.backends.sql import SQLSource
from hybridbn.tables.cells import UnsupportedType, declare_kinds
from hybridbn.tables.columns import Frame, check_states, is_of_library, open_frame, split_marks
from hybridbn.tables.formats import read_table
from hybridbn.tables.formats.base import (
    FileFormat,
    Kinds,
    OtherKind,
    TableSource,
    name_file_in_errors,
)
from hybridbn.tables.formats.base import suffixes as list_suffixes
from hybridbn.tables.formats.columnar import ArrowSource, read_notes
from hybridbn.tables.formats.database_base import QuerySource, database_of, quote_name
from hybridbn.tables.formats.delimited import DelimitedSource, check_reading, find_kinds, tell_reading
from hybridbn.tables.formats.files import StoredFile
from hybridbn.tables.formats.text_blocks import shift_lines_in_errors
from hybridbn.tables.formats.typed_columns import WantedColumns, type_column
from hybridbn.tables.frames.arrow import (
    decode_column,
    decode_type,
    dense_schema,
    import_pyarrow,
    is_text,
    join_types,
    make_all_dense,
    report_damage,
    validate,
)
from hybridbn.units import Unit
from hybridbn.variables import shorten

pyarrow: LazyModule = LazyModule("pyarrow")
fs: LazyModule = LazyModule("pyarrow.fs")

_WHOLE = re.compile(r"-?[0-9]{1,18}")
_PACKED = re.compile(r"\.(gz|bz2|zst)$")
_NO_VALUE = "__HIVE_DEFAULT_PARTITION__"
_FRAGMENT_ROWS = 1 << 20
"""Row groups of a file are read together until they have so many rows."""


OpenSource: TypeAlias = Callable[[], TableSource]
"""Opens a file as a source of rows; it can be pickled, where other processes read the rows."""


@dataclass(frozen=True)
class FileFragment(Fragment):
    """A file, or a part of one.

    Attributes
    ----------
    open : callable
        Opens the file.
    number : int
        Of the file.
    start : int
        The number of the first row in the file.
    part : object, optional
        What the format calls the part.
    constants : mapping from column to value
        Those that the names of folders give, as in ``year=2024/``.
    types : mapping from column to Arrow type
    kinds : mapping from column to its declared kind
    state : tuple, optional
        That of the file, by which one that changed is told.
    """

    open: OpenSource
    number: int = 0
    start: int = 0
    rows: int | None = None
    part: Any = None
    constants: Mapping[str, Any] = field(default_factory=dict)
    types: Mapping[str, Any] = field(default_factory=dict)
    kinds: Kinds = field(default_factory=dict)
    state: tuple[Any, ...] | None = None
    shown: str = ""

    def batches(self, columns: Sequence[str], rows: int = BATCH_ROWS) -> Iterator[Batch]:
        """Yield the rows of the file or of its part that are in the span of the source."""
        first = (self.number << FILE_BITS) + self.start
        held = [name for name in columns if name not in self.constants] or list(self.types)[:1]
        source = self.open()
        if self.state is not None and source.state != self.state:
            raise TableError(f"{source.shown} was changed while it was scanned; scan it again")
        with name_file_in_errors(source.shown), shift_lines_in_errors(-1, self.start, "row"):
            refuse_absent_columns(held, source)
            types = {name: self.types[name] for name in held}
            with report_damage(source.shown):
                for start, batch in source.batches(types, self.kinds, rows, self.part):
                    begin = max(source.span.start - self.start - start, 0)
                    data = batch.slice(begin, max(source.span.stop - self.start - start - begin, 0))
                    if data.num_rows:
                        yield self._make_batch(first + start + begin, data, columns)

    def _make_batch(self, first: int, batch: Any, columns: Sequence[str]) -> Batch:
        """Return rows with the types that are wanted, and with the columns that folders name."""
        types, whole = pyarrow.types, set[str]()
        for place, (name, held) in enumerate(zip(batch.schema.names, batch.schema.types, strict=True)):
            wanted = self.types.get(name, held)
            # columns of text may come as dictionaries
            if decode_type(held) == decode_type(wanted) or (is_text(decode_type(held)) and is_text(wanted)):
                continue
            if types.is_integer(held) and types.is_floating(wanted):
                whole.add(name)
            batch = batch.set_column(place, name, batch.column(place).cast(wanted, safe=False))
        for name, value in self.constants.items():
            if name in columns:
                batch = batch.append_column(name, pyarrow.repeat(value, batch.num_rows))
        return Batch(first, batch, frozenset(whole))


def open_source(file: StoredFile, options: Mapping[str, Any], states: Sequence[str]) -> TableSource:
    """Return a file as a source of rows, by its suffix, with options of its format, and those columns of states."""
    suffix = suffix_of(file.path)
    form = FileFormat.registry.load()[suffix]
    known = {**options, "states": states} if "states" in form.options else options
    with name_file_in_errors(file.path), report_damage(file.path):
        return form.source(file, file.path, suffix, **known)


def refuse_absent_columns(names: Iterable[str], source: TableSource) -> None:
    """Refuse a file without some columns that another one has."""
    absent = [name for name in names if source.knows_names and name not in source.names]
    if absent:
        raise TableError(
            f"{source.shown} has no column {absent[0]!r}, which the first file has; the files of a scan have the same"
            " columns"
        )


class FileTable(Source):
    """Files of one format with the same columns.

    Parameters
    ----------
    sources : sequence of callable
        Open the files.
    kinds : mapping from column to its declared kind
    read : callable
        Reads the first file as a whole, which says what is wrong with it, and where; of a table without rows, what its
        columns are.
    constants : sequence of mapping
        The columns that the folders of each file name.
    paths : sequence of str
        Those of the files, where they are some.
    """

    def __init__(
        self,
        shown: str,
        sources: Sequence[OpenSource],
        kinds: Kinds,
        read: Callable[[], Table],
        constants: Sequence[Mapping[str, Any]] = (),
        paths: Sequence[str] = (),
    ) -> None:
        self.shown = shown
        self.paths: Sequence[str] = paths
        self._sources, self._kinds, self._read = sources, dict(kinds), read
        self._constants = constants or [{}] * len(sources)
        self.open: OpenSource | None = sources[0] if len(sources) == 1 and not self._constants[0] else None
        self.faults: dict[str, UnsupportedType] = {}
        self._settled: set[str] = set()
        source = self._source = sources[0]()
        with name_file_in_errors(source.shown), report_damage(source.shown):
            self._spelled = source.spelled
            self.notes: Mapping[str, Mapping[str, Any]] = source.notes
            self._types = self._find_types(source) or {one.name: one.type for one in read().to_arrow().schema}
        self._kinds |= dict.fromkeys(source.numbers, "numbers")
        tell_reading(source.dialect.found)
        self.untyped: Sequence[str] = source.untyped
        self._is_joined = len(sources) == 1 or not isinstance(source, ArrowSource)
        self._fragments: list[Fragment] | None = None

    def _find_types(self, source: TableSource) -> dict[str, Any]:
        """Return the types of the columns, without reading those with which nothing can be computed; none where the
        first cells do not tell them.
        """
        while True:
            try:
                return source.types(self._kinds)
            except OtherKind as error:
                if error.fault is None:
                    return {}
                self.faults[error.name] = error.fault
                source.leave = {*source.leave, error.name}

    @property
    def schema(self) -> Any:
        """The columns, with those that folders name."""
        types = {name: decode_type(kind) if self._spelled else kind for name, kind in self._types.items()}
        types |= {name: value.type for name, value in self._constants[0].items()}
        return pyarrow.schema(list(types.items()))

    @property
    def units(self) -> Mapping[str, Unit]:
        """The units of columns of text that are dates or times."""
        return {
            name: kind
            for name, kind in self._kinds.items()
            if isinstance(kind, Unit) and name in self._types and is_text(decode_type(self._types[name]))
        }

    def read(self) -> Table:
        """Return the first file as a whole, of which one without rows tells what its columns are."""
        return self._read()

    def fragments(self) -> Sequence[Fragment]:
        """Return files, and parts of large ones."""
        if self._fragments is None:
            self._fragments = [piece for number in range(len(self._sources)) for piece in self._divide(number)]
        return self._fragments

    def _divide(self, number: int) -> Iterator[FileFragment]:
        open_one, constants = self._sources[number], self._constants[number]
        source = open_one()
        with name_file_in_errors(source.shown), report_damage(source.shown):
            if number:
                self._refuse_other_columns(source, constants)
            for start, rows, part in source.divide(_FRAGMENT_ROWS):
                if rows is None or (start < source.span.stop and start + rows > source.span.start):
                    shown = source.shown if len(self._sources) > 1 else ""
                    yield FileFragment(
                        open_one, number, start, rows, part, constants, self._types, self._kinds, source.state, shown
                    )

    def _refuse_other_columns(self, source: TableSource, constants: Mapping[str, Any]) -> None:
        refuse_absent_columns(self._types.keys() - constants.keys(), source)
        known = {*self._types, *self.faults, *constants}
        # where each row names its columns, all rows tell what they are
        names = source.names if source.knows_names else self._find_types(source)
        added = [name for name in names if name not in known]
        if added:
            raise TableError(
                f"{source.shown} has a column {added[0]!r}, which the first file lacks; the files of a scan have the"
                " same columns"
            )

    def _join_types(self) -> None:
        """Find the types that hold the columns of all files, whose types stand in them."""
        for open_one, constants in zip(self._sources[1:], self._constants[1:], strict=True):
            source = cast(ArrowSource, open_one())
            with name_file_in_errors(source.shown):
                self._refuse_other_columns(source, constants)
                for name in self._types.keys() - constants.keys() - self.faults.keys():
                    self._types[name] = join_types(name, self._types[name], source.types({})[name])
        self._is_joined = True

    def prepare(self, names: Iterable[str]) -> None:
        """Find the types that hold the columns of all files; read all texts of columns whose first ones are all
        different.
        """
        if not self._is_joined:
            self._join_types()
        doubtful = [name for name in self._source.doubtful if name in names]
        if doubtful:
            self.settle(doubtful)

    def settle(self, names: Iterable[str], fault: UnsupportedType | None = None) -> None:
        """Read all texts of columns, and find out what they are; leave one alone with which nothing can be computed."""
        if fault is not None:
            self.faults |= dict.fromkeys(names, fault)
            self._types |= dict.fromkeys(names, pyarrow.null())
            self._fragments = None
            return
        unsettled = [name for name in names if name not in self._settled]
        if not unsettled or not self._spelled:
            raise OtherKind(next(iter(names)))
        sources = [cast(DelimitedSource, open_one()) for open_one in self._sources]
        for name, (kind, unit) in find_kinds(sources, {name: self._kinds.get(name) for name in unsettled}).items():
            self._types[name] = kind
            if unit is not None:
                self._kinds[name] = unit
        self._settled.update(unsettled)
        self._fragments = None

    def settle_texts(self, texts: Mapping[str, Sequence[str] | None]) -> bool:
        """Find out what columns of text are that are more than states or dates, or have too many texts to tell; return
        whether there were any.

        Parameters
        ----------
        texts : mapping from column to its texts, None where they are too many
        """
        odd = [name for name, found in texts.items() if name not in self._settled and not self._is_plain(name, found)]
        before = {name: (self._types[name], self._kinds.get(name)) for name in odd} if self._spelled else {}
        if before:
            self.settle(odd)
        return any((self._types[name], self._kinds.get(name)) != kind for name, kind in before.items())

    def _is_plain(self, name: str, texts: Sequence[str] | None) -> bool:
        if texts is None:
            return False
        try:
            with warnings.catch_warnings(action="ignore"):
                dialect = self._source.dialect
            cells = type_column(name, np.arange(len(texts)), texts, self._kinds.get(name), dialect).cells
        except TableError:
            return False
        if cells.missing.any():
            return False
        if cells.unit is not None:
            return not self._source.dialect.dates
        return all(isinstance(state, str) for state in cells.states or (0,))


def suffix_of(path: str) -> str:
    """Return what a name ends with, in small letters, without the suffix of a packed file."""
    return os.path.splitext(_PACKED.sub("", path.lower()))[1]


def is_scannable(path: str) -> bool:
    """Tell whether a file has a suffix of a known format.

    Examples
    --------
    >>> is_scannable("t.CSV.gz"), is_scannable("notes.txt")
    (True, False)
    """
    return suffix_of(path) in FileFormat.registry.load()


def open_files(
    given: Any,
    kinds: Mapping[str, str],
    make: Callable[..., FileTable] = FileTable,
    options: Mapping[str, Any] = MappingProxyType({}),
) -> FileTable | None:
    """Return the table that a path, a folder, a pattern, an address of an object store or a list of paths names; None
    for anything else.

    Parameters
    ----------
    kinds : mapping from column to "discrete" or "continuous"
        What text files do not say of their columns.
    make : callable
        Makes the table of the arguments that `FileTable` takes.
    options : mapping from str to object
        Those of `read_table` for text files.
    """
    open_paths = partial(_open_paths, kinds=kinds, make=make, options=options)
    if isinstance(given, list | tuple) and given and all(isinstance(path, str | os.PathLike) for path in given):
        paths = list(map(os.fspath, given))
        return open_paths(shorten(paths), paths, None, None)
    if not isinstance(given, str | os.PathLike):
        return None
    text = os.fspath(given)
    if "://" in text:
        return _open_store(text, open_paths)
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
        base = text[: re.search(r"[*?[]", text).start()].rpartition(os.sep)[0]  # type: ignore[union-attr]
        paths = sorted(glob.glob(text, recursive=True))
    elif os.path.exists(text):
        paths = [text]
    else:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), text)
    return open_paths(text, paths, None, base)


def _open_paths(
    shown: str,
    paths: Sequence[str],
    filesystem: Any,
    base: str | None,
    kinds: Mapping[str, str],
    make: Callable[..., FileTable],
    options: Mapping[str, Any],
) -> FileTable:
    """Return the table of some files, whose folders below the base may name columns."""
    if not paths:
        raise FormatError(f"{shown}: there is no file to scan")
    suffixes, known = {suffix_of(path) for path in paths}, FileFormat.registry.load()
    forms = {known[suffix] for suffix in suffixes if suffix in known}
    if not suffixes <= known.keys() or len(forms) != 1:
        raise FormatError(
            f"{shown}: a scan reads files of one of the formats {shorten(list_suffixes(), 9)}, not"
            f" {shorten(sorted(suffixes))}"
        )
    told, states = dict(options), [name for name, kind in kinds.items() if kind == "discrete"]
    encoding = told.pop("encoding", None)
    sources = [partial(open_source, StoredFile(path, filesystem, encoding), told, states) for path in paths]
    constants = [{}] * len(paths) if base is None else read_constants([os.path.relpath(path, base) for path in paths])
    return make(shown, sources, kinds, partial(read_table, paths[0], **options), constants, paths)


def read_constants(paths: Sequence[str]) -> list[dict[str, Any]]:
    """Return the columns that the folders of files name, as Arrow scalars: whole numbers where all are such.

    Examples
    --------
    >>> read_constants(["c=a%20b/d=7/0.csv", "c=3/d=8/0.csv", "c=__HIVE_DEFAULT_PARTITION__/d=9/0.csv"])[1:]
    [{'c': <pyarrow.StringScalar: '3'>, 'd': <pyarrow.Int64Scalar: 8>}, \
{'c': <pyarrow.StringScalar: None>, 'd': <pyarrow.Int64Scalar: 9>}]
    """
    texts: list[dict[str, str | None]] = []
    for path in paths:
        pairs = [folder.split("=", 1) for folder in path.split(os.sep)[:-1] if "=" in folder]
        texts.append({name: None if value == _NO_VALUE else unquote(value) for name, value in pairs})
    if any(one.keys() != texts[0].keys() for one in texts):
        names = sorted({*texts[0]} ^ set().union(*texts)) or sorted(texts[0])
        raise TableError(f"the folders of some files name a column, and those of others don't: {shorten(names)}")
    kinds = {
        name: pyarrow.int64() if all(one[name] is None or _WHOLE.fullmatch(str(one[name])) for one in texts) else None
        for name in texts[0]
    }
    return [
        {
            name: pyarrow.scalar(value, pyarrow.string()).cast(kinds[name] or pyarrow.string())
            for name, value in one.items()
        }
        for one in texts
    ]


def _open_store(address: str, open_paths: Callable[..., FileTable]) -> FileTable:
    """Return the files of an object store: by pyarrow where it knows the scheme, else by fsspec."""
    try:
        store, path = fs.FileSystem.from_uri(address)
    except Exception as error:
        shown = mask_secrets(address, [address])
        needed = f"{shown}: pyarrow can't open it ({error}); fsspec may: pip install fsspec"
        fsspec = import_library("fsspec", needed, FormatError)
        opened, path = fsspec.core.url_to_fs(address)
        store = fs.PyFileSystem(fs.FSSpecHandler(opened))
    info = store.get_file_info(path)
    base = path if info.type == fs.FileType.Directory else None
    if base is not None:
        listed = store.get_file_info(fs.FileSelector(path, recursive=True))
        paths = sorted(one.path for one in listed if one.type == fs.FileType.File and is_scannable(one.path))
    elif info.type == fs.FileType.File:
        paths = [path]
    else:
        folder, _, pattern = path.rpartition("/")
        import fnmatch

        listed = store.get_file_info(fs.FileSelector(folder, allow_not_found=True))
        paths = sorted(one.path for one in listed if fnmatch.fnmatch(one.path, f"{folder}/{pattern}"))
    return open_paths(mask_secrets(address, [address]), paths, store, base)


# -- scans -------------------------------------------------------------------------------------------------------------


MOST_STATES = 10_000
SAMPLE = 100_000
"""Rows of a sample. By the inequality of Dvoretzky, Kiefer, Wolfowitz and Massart, every quantile of the sample has a
rank within 0.62 % of all rows with probability 0.999.
"""


def scan(
    data: Any,
    discrete: str | Iterable[str] = (),
    continuous: str | Iterable[str] = (),
    *,
    backend: Any = None,
    weights: str | None = None,
    columns: Iterable[str] | None = None,
    ordered: str | Iterable[str] = (),
    missing: Any = None,
    most_states: int = MOST_STATES,
    sample: int = SAMPLE,
    **options: Any,
) -> Scan:
    """Return a table that is read in passes, and never as a whole, wherever data are taken.

    Parameters
    ----------
    data : path, folder, pattern, address, list of paths, frame, dataset or relation
        Parquet, Feather, CSV and TSV files: ``"folder/*.parquet"``, ``"s3://bucket/folder"``; ARFF files and JSON
        lines; tables and queries of databases: ``"sqlite:///f.db?table=t"``, ``"postgresql://host/base?query=..."``.
        Frames of pandas, polars and pyarrow, datasets of pyarrow, relations of DuckDB, and what else a backend opens.
    discrete, continuous, ordered, missing : as in `Table`
    backend : str, Backend, concurrent.futures.Executor, dask Client or SparkSession, optional
        Who reads the rows: "local", "processes", "duckdb", "dask" or "spark". By default the engine of the data, and
        this process for files.
    weights : str, optional
        The column of the rows' weights.
    columns : iterable of str, by default all
    most_states : int
        Of a column with more states the most frequent ones are kept, and the state "(other)" stands for the rest.
    sample : int
        Rows from which densities are learned that can't be learned in passes, and cut points of numbers.
    **options
        How CSV and TSV files are written, as in `read_table`: ``delimiter``, ``missing``, ``encoding``, ``decimal``,
        ``thousands`` and ``dates``.

    Notes
    -----
    The first pass finds the states and ranges of the columns; it is made when they are first needed. Tables of
    probabilities and normal densities, and all structures of these, are learned exactly; tables are the same to the
    last bit as from memory, unless weights are fractions. `nb_tree` takes a few passes for each level, `mixture`,
    `class_clusters` and expectation maximization one for each step, `augment` some for each iteration.
    `model_tree` takes one for each level and `regression` one in all, after a sample has settled their options.
    Mixtures of truncated exponentials, kernels, logistic regressions and several model trees are learned from a
    sample, with a warning that tells its size. The sample is that of the rows whose numbers have the smallest hashes,
    so it does not depend on the backend; a table of fewer rows is its own sample.

    Examples
    --------
    >>> import tempfile, hybridbn as hb
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     table = hb.Table({"wind": ["weak", "strong", "strong"], "play": ["yes", "no", "no"]})
    ...     table.write(f"{folder}/1.parquet")
    ...     table.write(f"{folder}/2.parquet")
    ...     scan = hb.scan(f"{folder}/*.parquet")
    ...     print(scan)
    ...     net = hb.structures.naive_bayes(scan, "play")
    ...     net.log_density(scan).round(3)
    Scan: 6 rows, 2 columns
      wind  discrete    2 states  0 missing  'strong', 'weak'
      play  discrete    2 states  0 missing  'no', 'yes'
    array([-1.356, -0.604, -0.604, -1.356, -0.604, -0.604])
    """
    if isinstance(data, Scan):
        raise TableError("this is a scan already; give what was scanned")
    import_pyarrow()
    declared = declare_kinds(discrete, continuous)
    kinds: dict[str, str] = {**declared}
    form = FileFormat.registry.load().get(suffix_of(os.fspath(data))) if isinstance(data, str | os.PathLike) else None
    texts, missing = split_marks(missing) if form is not None and "missing" in form.options else ({}, missing)
    engine, source = _open(data, backend, kinds, {**options, **texts})
    if any(pyarrow.types.is_null(one.type) for one in source.schema):
        # the first file does not tell what these are
        source.prepare(())
    truths = [
        one.with_type(pyarrow.float64())
        for one in source.schema
        if declared.get(one.name) == "continuous" and pyarrow.types.is_boolean(decode_type(one.type))
    ]
    if truths:
        source = TransformedSource(source, partial(_cast_columns, truths), truths)
    codes = frozenset(list_items(ordered, "the names of columns of ordered codes"))
    for name in (*kinds, *codes, *([] if weights is None else [weights]), *(columns or ())):
        if name not in source.schema.names:
            raise TableError(f"there is no column {name!r}; the columns are {shorten(source.schema.names)}")
    most_states, sample = check_count(most_states, "most_states", 2), check_count(sample, "sample", 2)
    chosen = list(source.schema.names) if columns is None else list_items(columns, "the names of columns")
    names = tuple(name for name in chosen if name != weights)
    if not names:
        raise TableError(f"{source.shown}: no column is left to scan")
    noted = {name: str(note["kind"]) for name, note in source.notes.items()}
    passes = Passes(source, engine, noted | kinds, frozenset(declared), weights, names, most_states, sample, codes)
    return Scan(passes, names).declare(missing=missing)


def _cast_columns(fields: Sequence[Any], first: int, table: Any) -> Any:
    """Return rows with columns of truth values as numbers."""
    for one in fields:
        column = decode_column(table.column(one.name)).cast(one.type)
        table = table.set_column(table.column_names.index(one.name), one, column)
    return table


def open_rows(
    source: TableSource, kinds: Kinds, leave: Collection[str] = (), *, block: int = BATCH_ROWS
) -> tuple[Rows, dict[str, str]]:
    """Return the rows of an opened source: in memory where they are one block, or pyarrow is absent, and else read in
    passes; also why columns are not among theirs.

    Parameters
    ----------
    kinds : mapping from column to its declared kind
    leave : collection of str
        Columns that are left out.
    block : int
        The most rows of a block.
    """
    source.leave = leave
    if find_spec("pyarrow") is None or len(list(islice(source.blocks(block), 2))) < 2:
        return _read_whole(source, kinds).read_usable()
    table = FileTable(source.shown, [lambda: source], kinds, partial(_read_whole, source, kinds))
    names = tuple(name for name in table.schema.names if name not in leave)
    noted = {name: str(note["kind"]) for name, note in source.notes.items()}
    declared: dict[str, str] = {
        name: "continuous" if isinstance(kind, Unit) else "discrete" if kind == "text" else kind
        for name, kind in kinds.items()
    }
    passes = Passes(table, find_backend(None), noted | declared, frozenset(kinds), None, names, MOST_STATES, SAMPLE)
    return Scan(passes, names).read_usable()


def _read_whole(source: TableSource, kinds: Kinds) -> Table:
    """Return all rows at once; what is wrong with them is said then."""
    tell_reading(source.dialect.found)
    (block,) = source.blocks(sys.maxsize)
    columns = list(source.read_block(block, kinds)._columns.values())
    check_states(columns)
    # their number may be all that there is
    return Table.from_columns(columns, Frame("pandas", {}, block.rows))


def _open(data: Any, backend: Any, kinds: Mapping[str, str], options: Mapping[str, Any]) -> tuple[Backend, Source]:
    source: Source | None
    named = isinstance(data, str | os.PathLike | list | tuple) and not _ADDRESS.match(str(data))
    check_reading(options, named)
    engine = None if backend is None else find_backend(backend)
    if engine is not None:
        source = engine.open(data)
        if source is not None:
            return engine, source
    source = open_database(data, cast(Kinds, kinds)) or open_files(data, kinds, options=options)
    if source is not None:
        return engine or find_backend(None), source
    for kind in Backend.registry.load().values():
        other = kind()
        source = other.open(data)
        if source is not None:
            return engine or other, source
    source = open_memory(data)
    if source is not None:
        return engine or find_backend(None), source
    raise TableError(
        f"a scan can't be made of a {type(data).__name__}; give paths of files, a frame, a dataset of pyarrow or a"
        " relation of DuckDB"
    )


# -- databases ---------------------------------------------------------------------------------------------------------


_ADDRESS = re.compile(r"[a-zA-Z][\w+.-]*:.*[?&](table|query)=", re.DOTALL)


def open_database(given: Any, kinds: Kinds) -> DatabaseTable | None:
    """Return the table or query that an address names, such as ``"sqlite:///f.db?table=t"``; None for anything else.

    Examples
    --------
    >>> import sqlite3, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     connection = sqlite3.connect(f"{folder}/f.db")
    ...     _ = connection.executescript("CREATE TABLE t (c TEXT, x REAL); INSERT INTO t VALUES ('a', 1.5)")
    ...     connection.close()
    ...     open_database(f"sqlite:///{folder}/f.db?table=t", {}).schema.names
    ['c', 'x']
    """
    text = os.fspath(given) if isinstance(given, str | os.PathLike) else None
    return DatabaseTable(text, kinds) if isinstance(text, str) and _ADDRESS.match(text) else None


class DatabaseTable(FileTable, SQLSource):
    """A table of a database, or the result of a query, which is asked again in every pass."""

    groups_sets = False

    def __init__(self, url: str, kinds: Kinds) -> None:
        self._form = database_of(url)
        # none of these where groups of SQL are not those of exact values
        self._base, self._select, self._dialect = self._form.select_statement(url) or ("", "", "")
        source = QuerySource(url)
        super().__init__(source.shown, [partial(copy, source)], kinds, partial(read_table, url))
        self.open: OpenSource | None = None

    def _are_plain(self, names: Iterable[str]) -> bool:
        """Tell whether SQL is asked, whose groups have to be those of exact values."""
        return bool(self._select) and super()._are_plain(names)

    def rows(self, query: str) -> Iterable[Sequence[Any]]:
        """Run a query."""
        asked = quote(f"WITH scanned AS ({self._select}) {query}", safe="")
        with self._form.open_result(f"{self._base}?query={asked}", WantedColumns()) as result:
            for batch in result.batches:
                yield from batch

    def key(self, name: str) -> str:
        """Group by exact values, whatever the column's collation is."""
        return f"{quote_name(name)} COLLATE BINARY" if self._dialect == "sqlite" else quote_name(name)

    def is_nan(self, cell: str) -> str:
        """NaN is equal to itself in PostgreSQL, and NULL in SQLite."""
        return f"(CAST({cell} AS double precision) = 'NaN')" if self._dialect == "postgresql" else "(1 = 0)"


# -- memory ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ArrowFragment(Fragment):
    """An Arrow table, or a fragment of a dataset of pyarrow."""

    held: Any
    number: int = 0
    rows: int | None = None

    def batches(self, columns: Sequence[str], rows: int = BATCH_ROWS) -> Iterator[Batch]:
        """Yield slices of the table, or what the dataset reads."""
        if hasattr(self.held, "physical_schema"):
            options = {"columns": list(columns), "batch_size": rows, "use_threads": False, "batch_readahead": 1}
            batches = self.held.to_batches(**options)
        else:
            batches = self.held.select(list(columns)).to_batches(rows)
        with report_damage("Arrow"):
            yield from number_batches(map(make_all_dense, map(validate, batches)), self.number << FILE_BITS)


class ArrowTable(Source):
    """A frame in memory, or a dataset of pyarrow."""

    def __init__(
        self,
        shown: str,
        schema: Any,
        fragments: Sequence[Fragment],
        faults: Mapping[str, UnsupportedType] = MappingProxyType({}),
    ) -> None:
        self.shown = shown
        self.faults: Mapping[str, UnsupportedType] = faults
        self._fragments = fragments
        self.schema: Any = dense_schema(schema)
        self.notes: Mapping[str, Mapping[str, Any]] = read_notes(schema.metadata)

    def fragments(self) -> Sequence[Fragment]:
        """Return the table, or the files of the dataset."""
        return self._fragments


def open_memory(data: Any) -> ArrowTable | None:
    """Return a frame, or a dataset of pyarrow, as a source; None for anything else."""
    if is_of_library(data, "pyarrow.dataset", "Dataset"):
        pieces = [ArrowFragment(piece, number) for number, piece in enumerate(data.get_fragments())]
        return ArrowTable("dataset", data.schema, pieces)
    if isinstance(data, Table):
        if data.weighted:
            raise TableError("a scan takes weights as a column: put them into one, and give its name as weights=")
    else:
        try:
            frame = open_frame(data)
        except TableError:
            return None
    faults: dict[str, UnsupportedType] = {}
    table = data
    if not isinstance(data, pyarrow.Table):
        read = data if isinstance(data, Table) else Table(frame)
        faults |= {name: one.fault for name, one in read._columns.items() if one.fault is not None}
        usable, empty = read.drop(faults).to_arrow(), pyarrow.nulls(len(read))
        table = pyarrow.table({name: empty if name in faults else usable[name] for name in read.names})
    return ArrowTable(type(data).__name__, table.schema, [ArrowFragment(table, rows=table.num_rows)], faults)
