"""`scan`: the lazy table of files, frames and relations."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hybridbn.errors import TableError
from hybridbn.options import list_items
from hybridbn.tables import Table
from hybridbn.tables.backends.base import BATCH_ROWS, FILE_BITS, Backend, Batch, Fragment, Source, find_backend
from hybridbn.tables.backends.databases import open_database
from hybridbn.tables.backends.files import open_files
from hybridbn.tables.backends.scans import Passes, Scan
from hybridbn.tables.columns import find_imported
from hybridbn.tables.formats.columnar import read_notes
from hybridbn.tables.formats.pyarrow_checks import import_pyarrow, report_damage, validate
from hybridbn.tables.frames.frame import open_frame
from hybridbn.variables import shorten

__all__ = ["scan"]

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
    most_states: int = MOST_STATES,
    sample: int = SAMPLE,
) -> Scan:
    """Return a table that is read in passes, and never as a whole, wherever data are taken.

    Parameters
    ----------
    data : path, folder, pattern, address, list of paths, frame, dataset or relation
        Parquet, Feather, CSV and TSV files: ``"folder/*.parquet"``, ``"s3://bucket/folder"``; ARFF files and JSON
        lines; tables and queries of databases: ``"sqlite:///f.db?table=t"``, ``"postgresql://host/base?query=..."``.
        Frames of pandas, polars and pyarrow, datasets of pyarrow, relations of DuckDB, and what else a backend opens.
    discrete, continuous : str or iterable of str
        Columns whose type does not say what they are, as in `Table`.
    backend : str, Backend, concurrent.futures.Executor, dask Client or SparkSession, optional
        Who reads the rows: "local", "processes", "duckdb", "dask" or "spark". By default the engine of the data, and
        this process for files.
    weights : str, optional
        The column of the rows' weights.
    columns : iterable of str, optional
        These columns only.
    most_states : int
        Of a column with more states the most frequent ones are kept, and the state "(other)" stands for the rest.
    sample : int
        Rows from which densities are learned that can't be learned in passes, and cut points of numbers.

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
    kinds = {
        name: kind
        for kind, names in (("discrete", discrete), ("continuous", continuous))
        for name in list_items(names, f"the names of {kind} columns")
    }
    engine, source = _open(data, backend, kinds)
    for name in (*kinds, *([] if weights is None else [weights]), *(columns or ())):
        if name not in source.schema.names:
            raise TableError(f"there is no column {name!r}; the columns are {shorten(source.schema.names)}")
    for what, value in (("most_states", most_states), ("sample", sample)):
        if isinstance(value, bool) or not isinstance(value, int) or value < 2:
            raise TableError(f"{what} must be a whole number greater than 1, not {value!r}")
    chosen = list(source.schema.names) if columns is None else list_items(columns, "the names of columns")
    names = tuple(name for name in chosen if name != weights)
    if not names:
        raise TableError(f"{source.shown}: no column is left to scan")
    for name, note in source.notes.items():
        kinds.setdefault(name, str(note["kind"]))
    declared = frozenset(list_items(discrete, "") + list_items(continuous, ""))
    return Scan(Passes(source, engine, kinds, declared, weights, names, most_states, sample), names)


def _open(data: Any, backend: Any, kinds: Mapping[str, str]) -> tuple[Backend, Source]:
    engine = None if backend is None else find_backend(backend)
    if engine is not None:
        source = engine.open(data)
        if source is not None:
            return engine, source
    source = open_database(data, kinds) or open_files(data, kinds)
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


@dataclass(frozen=True)
class ArrowFragment(Fragment):
    """An Arrow table, or a fragment of a dataset of pyarrow."""

    held: Any
    number: int = 0
    rows: int | None = None

    def batches(self, columns: Sequence[str], rows: int = BATCH_ROWS) -> Iterator[Batch]:
        """Yield slices of the table, or what the dataset reads."""
        first = self.number << FILE_BITS
        if hasattr(self.held, "physical_schema"):
            options = {"columns": list(columns), "batch_size": rows, "use_threads": False, "batch_readahead": 1}
            batches = self.held.to_batches(**options)
        else:
            batches = self.held.select(list(columns)).to_batches(rows)
        with report_damage("Arrow"):
            for data in map(validate, batches):
                if data.num_rows:
                    yield Batch(first, data)
                first += data.num_rows


class ArrowTable(Source):
    """A frame in memory, or a dataset of pyarrow."""

    shown: str
    schema: Any

    def __init__(self, shown: str, schema: Any, fragments: Sequence[Fragment]) -> None:
        self.shown, self.schema, self._fragments = shown, schema, fragments
        self.notes: Mapping[str, Mapping[str, Any]] = read_notes(schema.metadata)

    def fragments(self) -> Sequence[Fragment]:
        """Return the table, or the files of the dataset."""
        return self._fragments


def open_memory(data: Any) -> ArrowTable | None:
    """Return a frame, or a dataset of pyarrow, as a source; None for anything else."""
    pyarrow = import_pyarrow()
    datasets = find_imported("pyarrow.dataset")
    if datasets is not None and isinstance(data, datasets.Dataset):
        pieces = [ArrowFragment(piece, number) for number, piece in enumerate(data.get_fragments())]
        return ArrowTable("dataset", data.schema, pieces)
    if isinstance(data, Table):
        if data.weighted:
            raise TableError("a scan takes weights as a column: put them into one, and give its name as weights=")
        table = data.to_arrow()
    else:
        try:
            frame = open_frame(data)
        except TableError:
            return None
        table = data if isinstance(data, pyarrow.Table) else Table(frame).to_arrow()
    return ArrowTable(type(data).__name__, table.schema, [ArrowFragment(table, rows=table.num_rows)])
