"""The table that a verb reads, or the files: the options, who reads and computes, the profile of the columns, and what
is said about them.
"""

from __future__ import annotations

import argparse
import glob
import os
import warnings
import zlib
from collections import Counter
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from functools import partial
from itertools import tee
from pathlib import Path
from typing import Any, Self, TypeVar

import numpy as np

from hybridbn.commands.column_profiles import TableProfile, profile_columns, read_block
from hybridbn.commands.locations import Location, locate, open_source, refuse_folders
from hybridbn.commands.terminal import Terminal, UsageFault, parse_number, spell_mark_option
from hybridbn.errors import TableError
from hybridbn.jobs import PackedFunction, track
from hybridbn.tables import Rows, Table
from hybridbn.tables.backends import Backend, Scan, open_rows, scan
from hybridbn.tables.columns import match_marks
from hybridbn.tables.formats import read_table, suffix_of
from hybridbn.tables.formats.base import Kinds, TableBlock, TableSource, name_file_in_errors, names, suffixes
from hybridbn.tables.formats.delimited import MISSING
from hybridbn.tables.formats.files import open_private, open_scratch
from hybridbn.tables.scales import count_values, describe_left_alone, find_marks
from hybridbn.variables import Discrete, Variable, hint_at_names, shorten

_CELLS = 400_000
"""A block has at most this many cells, as one of them takes some hundred bytes of memory."""
_SAMPLE_CELLS = 5_000_000
"""The sample of rows to learn from has at most this many cells."""


@dataclass(frozen=True)
class TableRequest:
    """The options on the table that a verb reads, under their own names.

    Examples
    --------
    >>> TableRequest("t.parquet", backend="dask")
    Traceback (most recent call last):
        ...
    hybridbn.commands.terminal.UsageFault: --backend dask needs workers: name a running scheduler with --scheduler
    tcp://host:8786, or start some on this machine with --workers 2
    """

    input: str
    output: str = "-"
    no_clobber: bool = False
    unknown: str = "error"
    target: str | None = None
    discrete: tuple[str, ...] = ()
    continuous: tuple[str, ...] = ()
    keep: tuple[str, ...] = ()
    include: tuple[str, ...] = ()
    sample: int = 100_000
    chunk: int | None = None
    format: str | None = None
    from_format: str | None = None
    to_format: str | None = None
    delimiter: str | None = None
    missing: tuple[str, ...] = ()
    marks: tuple[str, ...] = ()
    decimal: str | None = None
    thousands: str | None = None
    dates: str | None = None
    encoding: str | None = None
    backend: str | None = None
    scheduler: str | None = None
    workers: int | None = None
    rows: tuple[int, int] | None = None
    parts: str | None = None

    @classmethod
    def of(cls, options: argparse.Namespace, **given: Any) -> Self:
        """Return the request that options of the command line make, with some of them `given`."""
        values = {**vars(options), **given}
        values["missing"], values["marks"] = split_marks(options.missing)
        names = [field.name for field in fields(cls) if field.name in values]
        chosen: dict[str, Any] = {n: tuple(values[n]) if isinstance(values[n], list) else values[n] for n in names}
        return cls(**chosen)

    def __post_init__(self) -> None:
        """Refuse options that contradict each other."""
        clashing = (("discrete", "continuous"), ("discrete", "keep"), ("continuous", "keep"), ("include", "keep"))
        for first, second in clashing:
            both = sorted({*getattr(self, first)} & {*getattr(self, second)})
            if both:
                raise UsageFault(f"column {both[0]!r} is named in both --{first} and --{second}")
        self._refuse_clashing_engines()

    def _refuse_clashing_engines(self) -> None:
        if self.scheduler is not None:
            if self.backend not in (None, "dask"):
                raise UsageFault(
                    f"--scheduler is one of dask, not of --backend {self.backend}; leave one of the two out"
                )
            if self.workers is not None:
                raise UsageFault("the workers of --scheduler are running already; leave --workers out")
        elif self.backend == "dask" and self.workers is None:
            raise UsageFault(
                "--backend dask needs workers: name a running scheduler with --scheduler tcp://host:8786, or start some"
                " on this machine with --workers 2"
            )

    @property
    def given(self) -> dict[str, Any]:
        """The options of `hybridbn.read_table` that the user gave."""
        names = ("discrete", "continuous", "delimiter", "missing", "decimal", "thousands", "dates", "encoding")
        options = {name: getattr(self, name) for name in names}
        return {name: value for name, value in options.items() if value not in (None, (), MISSING)}

    @property
    def reading(self) -> dict[str, Any]:
        """The options of formats for reading blocks."""
        return {**self.given, "states": (*self.discrete, *self.keep)}


def is_shared(request: TableRequest) -> bool:
    """Return whether a request names who reads the table, so that it is scanned instead of sampled."""
    return any(one is not None for one in (request.backend, request.scheduler, request.workers))


def locate_output(request: TableRequest, origin: Location) -> Location:
    """Locate the output of a request; refuse one that is the input, or where nothing can be written."""
    # A pipe has no suffix, so it gets the input's format.
    same = origin.suffix.removeprefix(".") if request.output == "-" and origin.suffix[1:] in names() else None
    destination = locate(request.output, request.to_format, request.format or same, "OUTPUT")
    places = [(one.path or one.url, one.table) for one in (origin, destination)]
    if not destination.pipe and places[0] == places[1]:
        raise UsageFault(f"the output {destination.shown} is the input; choose another name")
    refuse_folders(destination)
    return destination


@contextmanager
def open_input(request: TableRequest) -> Iterator[tuple[Location, TableSource]]:
    """Open the table that a request names; copies of what can't be read twice live as long as the statement."""
    location = locate(request.input, request.from_format, request.format, "INPUT")
    with open_scratch() as folder:
        with name_file_in_errors(location.shown):
            source = open_source(location, folder, request.encoding, request.reading, request.rows)
        yield location, source


def read_profile(
    source: TableSource,
    shown: str,
    request: TableRequest,
    terminal: Terminal,
    *,
    kinds: Kinds | None = None,
    bounds: Iterable[str] = (),
    leave: Iterable[str] = (),
) -> TableProfile:
    """Read a whole table once, to profile its columns and to sample rows.

    Parameters
    ----------
    kinds : mapping from column to its declared kind, optional
        What counts where the request declares nothing.
    bounds : iterable of str
        Columns that have limits.
    leave : iterable of str
        Columns that are left out besides those that the request keeps.
    """
    if source.knows_names:
        refuse_unknown_columns(request, source.names, bounds)
    declared: dict[str, Any] = {
        **(kinds or {}),
        **dict.fromkeys(request.discrete, "discrete"),
        **dict.fromkeys(request.continuous, "continuous"),
    }
    keep = frozenset((*request.keep, *leave))
    declared = {name: kind for name, kind in declared.items() if name not in request.keep}
    with terminal.forward_warnings(), name_file_in_errors(shown):
        if next(source.blocks(1), None) is None:
            first = source.span.start
            absent = f"the table has no row {first:,}, where --rows begins"
            raise TableError(absent if first else "the table has no rows; at least 1 are needed")
        # columns of too many states are left alone
        warnings.filterwarnings("ignore", message=r"columns of more than .* states keep the most frequent ones")
        source.marks = assign_marks(request.marks, source.names) if source.knows_names else {}
        rows, unusable = open_rows(source, declared, keep, block=rows_per_block(source, request))
        source.marks = settle_marks(request.marks, rows, source.names, terminal)
        if source.marks:
            rows, emptied = rows.declare(missing=source.marks).read_usable()
            unusable = {**unusable, **emptied}
        refuse_unknown_columns(request, source.names, bounds)
        most = min(request.sample, max(_SAMPLE_CELLS // max(len(source.names), 1), 2000))
        names = [name for name in source.names if name not in keep]
        return profile_columns(rows, names, unusable, most)


def rows_per_block(source: TableSource, request: TableRequest) -> int:
    """Return the number of rows of a block."""
    return request.chunk or max(min(_CELLS // max(len(source.names), 1), 65_536), 100)


def refuse_unknown_columns(request: TableRequest, names: Sequence[str], bounds: Iterable[str] = ()) -> None:
    """Refuse options that name columns which the table does not have."""
    options = ("discrete", "continuous", "keep", "include")
    asked = {name: option for option in options for name in getattr(request, option)}
    if request.target is not None:
        asked[request.target] = "target"
    asked |= dict.fromkeys(bounds, "bounds")
    for name, option in asked.items():
        if name not in names:
            raise TableError(f"--{option} {name}: there is no such column; {hint_at_names(name, names)}")


def split_marks(texts: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return texts that readers of text take for missing cells of any column, by default the usual ones, and marks that
    depend on the columns: those of one of them, and numbers, which may be ordinary values of another.

    Examples
    --------
    >>> split_marks(["k.A.", "-99", "sex=9"])
    (('', 'k.A.'), ('-99', 'sex=9'))
    """
    marks = [text for text in texts if "=" in text or parse_number(text) is not None]
    others = [text for text in texts if text not in marks]
    return ("", *others) if others else MISSING, tuple(marks)


def assign_marks(texts: Sequence[str], names: Collection[str]) -> dict[str, list[str]]:
    """Return which of all columns have which marks, where these are given with a column, as in ``sex=9``.

    Examples
    --------
    >>> assign_marks(["-99", "sex=9", "a=b=c"], ["sex", "a=b"])
    {'sex': ['9'], 'a=b': ['c']}
    """
    marks: dict[str, list[str]] = {}
    for text in texts:
        # a name may hold an equals sign, too
        splits = [(text[:place], text[place + 1 :]) for place, sign in enumerate(text) if sign == "="]
        known = [split for split in splits if split[0] in names]
        if splits and not known:
            raise UsageFault(f"--missing {text}: there is no such column; {hint_at_names(splits[0][0], names)}")
        for name, value in known[:1]:
            marks.setdefault(name, []).append(value)
    return marks


def settle_marks(texts: Sequence[str], rows: Rows, names: Collection[str], terminal: Terminal) -> dict[str, list[str]]:
    """Return which columns have which marks, and say how many cells hold those that were named without a column.

    Those are refused where they look like an ordinary value of some column, and so are columns that are not there.
    Numbers that name or count the rows are no marks.

    Parameters
    ----------
    texts : sequence of str
        What `split_marks` returned.
    rows : Rows
        Those of the columns that something can be computed with.
    names : collection of str
        All columns.
    """
    marks, bare = assign_marks(texts, names), [text for text in texts if "=" not in text]
    cells = rows.learn(partial(_count_marks, bare)) if bare else Counter[tuple[str, str]]()
    for text in bare:
        held = {name: count for (name, mark), count in cells.items() if mark == text and not rows.reason_alone(name)}
        odd = [name for name in held if _is_ordinary(rows, name, text, bare)]
        if odd:
            meant = " ".join(spell_mark_option(name, text) for name in held if name not in odd)
            others = " ".join(spell_mark_option(name, text) for name in odd)
            raise UsageFault(
                f"--missing {text}: {text} looks like an ordinary value of"
                f" {', '.join(f'{name!r} ({held[name]:,} cells)' for name in odd)}; name the columns where it marks"
                f" missing cells: {f'{meant}, and only if it does so there, too, ' if meant else ''}{others}"
            )
        terminal.warn(f"--missing {text}: {sum(held.values()):,} cells in {len(held):,} columns")
        for name in held:
            marks.setdefault(name, []).append(text)
    return marks


def read_marked(request: TableRequest, terminal: Terminal) -> Table:
    """Read the table that a request names, with cells missing that hold marks."""
    table = read_table(request.input, **request.given)
    return table.declare(missing=settle_marks(request.marks, table, table.names, terminal))


def _count_marks(texts: Sequence[str], table: Table, first: int) -> Counter[tuple[str, str]]:
    """Return how many cells of each column hold which texts; zeros are left out."""
    counts = {(name, text): int(match_marks(table.cells(name), [text]).sum()) for name in table.names for text in texts}
    return Counter({key: count for key, count in counts.items() if count})


def _is_ordinary(rows: Rows, name: str, text: str, asked: Iterable[str]) -> bool:
    """Tell whether a number, one of several that are asked for, lies among the others of a column."""
    variable, mark = rows.variable(name), parse_number(text)
    values = rows.points(variable)[0]
    if isinstance(variable, Discrete):
        states = [parse_number(str(state)) for state in variable.states]
        if mark is None or None in states:
            return False
        values = np.array([*states, np.nan], dtype=np.float64)[values]
    distinct, counts = count_values(values[~np.isnan(values)])
    numbers = [number for one in asked if (number := parse_number(one)) is not None]
    # a single other number does not tell how far apart they are
    return len(distinct) > 2 and mark not in [found.value for found in find_marks(distinct, counts, numbers)]


def choose_columns(
    profile: TableProfile, request: TableRequest, terminal: Terminal, included: str, nodes: Iterable[str] = ()
) -> list[str]:
    """Return the columns to learn from, and warn about those that are left out.

    `included` is what becomes of the columns that the request includes; `nodes` are left out where they are unusable
    only.
    """
    asked = {*request.include, *nodes}
    reasons = {
        name: reason
        for name, column in profile.columns.items()
        if (reason := column.reason_alone) is not None and (column.variable is None or name not in asked)
    }
    if reasons:
        holes = sum(profile.columns[name].missing for name in reasons)
        terminal.warn(f"{describe_left_alone(reasons, holes)}; --keep says so, --include {included}")
    return [name for name in profile.columns if name not in reasons]


def refuse_unknown_states(
    profile: TableProfile, variables: Mapping[str, Variable], choice: str, terminal: Terminal
) -> None:
    """Refuse states that the user's model does not have or, if the choice is "missing", warn about them."""
    for name, variable in variables.items():
        states = profile.columns[name].states if name in profile.columns else ()
        unknown = [state for state in states if isinstance(variable, Discrete) and state not in variable.states]
        text = f"column {name!r} holds {shorten(unknown)}, which the model has never seen"
        if unknown and choice == "error":
            raise TableError(f"{text}; --unknown missing leaves such cells as they are and lets them tell nothing")
        if unknown:
            terminal.warn(f"{text}; such cells stay as they are, and count as unknown for the others of their rows")


Result = TypeVar("Result")


@contextmanager
def open_engine(request: TableRequest) -> Iterator[Backend]:
    """Open the backend that a request names, with its workers, which end with the statement."""
    name = request.backend or ("local" if request.scheduler is None else "dask")
    kind = Backend.registry.find(name)
    if kind is None:
        raise UsageFault(f"there is no backend {name!r}; choose one of {shorten(sorted(Backend.registry), 9)}")
    with kind.start(request.workers, request.scheduler) as backend:
        yield backend


def answer_blocks(
    request: TableRequest,
    source: TableSource,
    variables: Sequence[Variable],
    function: Callable[[tuple[Table, int]], Result],
    what: str,
    rows: int,
    first: int = 0,
) -> Generator[tuple[TableBlock, Table, Result]]:
    """Yield blocks of rows in their order, each as a table of variables, too, and with the result of a function.

    Parameters
    ----------
    request : TableRequest
        It names who calls the function.
    function : callable
        Of a table and the number of its first row, as a pair.
    what : str
        What is done, as the progress says.
    rows : int
        The number of all rows.
    first : int
        The number of the first block.
    """
    size = rows_per_block(source, request)
    here, there = tee((block, read_block(block, variables, source.marks)) for block in source.blocks(size, first))
    with open_engine(request) as engine, track(what, rows, first=min(first * size, rows), unit="rows") as report:
        run: Any = engine.map  # of anything that can be sent, as of fragments, and few of them at a time
        called = function if engine.in_process else PackedFunction(function, "the model", "leave --workers out")
        results = run(called, ((table, block.start) for block, table in there))
        for (block, table), result in zip(here, results, strict=True):
            yield block, table, result
            report(block.start + block.rows - source.span.start, "")


def open_scan(request: TableRequest, engine: Backend, terminal: Terminal) -> Scan:
    """Return the scan of the table that a request names."""
    if request.input == "-" or request.format is not None or request.from_format is not None:
        what = "a pipe" if request.input == "-" else "a file without a telling suffix"
        raise UsageFault(f"{what} can't be read by several workers; make a file with hybridbn convert")
    made = scan(request.input, backend=engine, sample=max(request.sample, 2), **request.given)
    refuse_unknown_columns(request, made.names)
    made = made.declare(missing=settle_marks(request.marks, made, made.names, terminal))
    return made.drop(request.keep) if request.keep else made


Request = TypeVar("Request", bound=TableRequest)


def answer_inputs(request: Request, answer: Callable[[Request], None], terminal: Terminal) -> None:
    """Answer the table that a request names, or each of several files into a folder.

    Parameters
    ----------
    request : TableRequest with an output
    answer : callable
        Takes the request for one table.
    terminal : Terminal
    """
    if request.backend == "duckdb":
        with _copy_with_duckdb(request) as copied:
            answer(copied)
        return
    files = list_inputs(request.input)
    if files is None:
        answer(request)
        return
    if request.rows is not None:
        raise UsageFault(f"{request.input} is several files, and --rows are of one table; name one file")
    folder = Path(request.output)
    if request.output == "-" or (folder.exists() and not folder.is_dir()) or folder.suffix in suffixes():
        raise UsageFault(f"{request.input} is several files; name a folder for the output, and each gets one there")
    if os.path.isdir(request.input) and folder.resolve().is_relative_to(Path(request.input).resolve()):
        raise UsageFault(
            f"the output {folder} lies in the input {request.input}, and would be read as more input next time; name a"
            " folder elsewhere"
        )
    folder.mkdir(parents=True, exist_ok=True)
    for number, (path, name) in enumerate(files, 1):
        target = folder / name
        if request.no_clobber and target.exists():
            terminal.note(f"{target} is there already, and left")
            continue
        terminal.note(f"file {number} of {len(files)}: {path}")
        target.parent.mkdir(parents=True, exist_ok=True)
        answer(replace(request, input=path, output=str(target)))


def list_inputs(text: str) -> list[tuple[str, str]] | None:
    """Return the files of a folder or a pattern, each with its name below the folder; None for anything else.

    Examples
    --------
    >>> with open_scratch() as folder:
    ...     for name in ("b.csv", "a.csv", "notes.md"):
    ...         _ = Path(folder, name).write_text("")
    ...     [name for _, name in list_inputs(str(folder))], list_inputs(f"{folder}/a.csv")
    (['a.csv', 'b.csv'], None)
    """
    if os.path.isdir(text):
        paths = [os.path.join(above, name) for above, _, names in os.walk(text) for name in names]
        pairs = [(path, os.path.relpath(path, text)) for path in paths if suffix_of(path) in suffixes()]
    elif not os.path.exists(text) and glob.has_magic(text) and "://" not in text and not text.startswith("sqlite:"):
        pairs = [(path, os.path.basename(path)) for path in glob.glob(text, recursive=True)]
    else:
        return None
    if not pairs:
        raise TableError(f"{text}: there is no table file")
    if len({name for _, name in pairs}) < len(pairs):
        raise UsageFault(f"{text}: two of the files have the same name; name the folder that holds them all")
    return sorted(pairs)


@contextmanager
def sample_inputs(request: TableRequest) -> Iterator[str]:
    """Write a sample of the rows of several files to a file, from which one model is learned for all of them."""
    paths = [path for path, _ in list_inputs(request.input) or ()]
    sample = scan(paths, request.discrete, request.continuous).sample(max(request.sample, 2))
    with open_scratch() as folder:
        sample.write(f"{folder}/sample.parquet")
        os.chmod(f"{folder}/sample.parquet", 0o600)
        yield f"{folder}/sample.parquet"


def seed_of_file(seed: int, name: str) -> int:
    """Return a seed for a file of several, given its name below their folder, so that rows of different files are drawn
    independently.

    Examples
    --------
    >>> seed_of_file(1, "day=1/0.csv") == seed_of_file(1, "day=2/0.csv")
    False
    """
    return zlib.crc32(f"{seed} {Path(name).as_posix()}".encode())


@contextmanager
def _copy_with_duckdb(request: Request) -> Iterator[Request]:
    """Write the rows of a query or of files that DuckDB reads into a file."""
    import pyarrow
    from pyarrow.parquet import ParquetWriter

    with open_engine(request) as engine, open_scratch() as folder:
        opened: Any = engine.open(request.input)
        if opened is None:
            raise UsageFault(f"{request.input}: --backend duckdb takes a query or Parquet files; leave it out")
        # its own connection may write no files
        with open_private(folder / "input.parquet") as file, ParquetWriter(file, opened.schema) as writer:
            for fragment in opened.fragments():
                for batch in fragment.batches(opened.schema.names):
                    # texts may come as dictionaries
                    writer.write_table(pyarrow.Table.from_batches([batch.data]).cast(opened.schema))
        yield replace(request, input=f"{folder}/input.parquet", backend=None)
