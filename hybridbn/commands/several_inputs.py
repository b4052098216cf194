"""Inputs of verbs that answer rows: a file, all files of a folder or a pattern, or what DuckDB reads."""

from __future__ import annotations

import glob
import os
import tempfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from hybridbn.commands.locations import UsageFault
from hybridbn.commands.table_input import TableRequest
from hybridbn.commands.terminal import Terminal
from hybridbn.errors import TableError
from hybridbn.tables.formats import suffix_of
from hybridbn.tables.formats.base import suffixes

__all__ = ["answer_inputs", "list_inputs", "sample_inputs", "seed_of_file"]

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
    given: Any = request
    folder = Path(given.output)
    if given.output == "-" or (folder.exists() and not folder.is_dir()) or folder.suffix in suffixes():
        raise UsageFault(f"{request.input} is several files; name a folder for the output, and each gets one there")
    if os.path.isdir(request.input) and folder.resolve().is_relative_to(Path(request.input).resolve()):
        raise UsageFault(
            f"the output {folder} lies in the input {request.input}, and would be read as more input next time; name a"
            " folder elsewhere"
        )
    folder.mkdir(parents=True, exist_ok=True)
    for number, (path, name) in enumerate(files, 1):
        target = folder / name
        if given.no_clobber and target.exists():
            terminal.note(f"{target} is there already, and left")
            continue
        terminal.note(f"file {number} of {len(files)}: {path}")
        target.parent.mkdir(parents=True, exist_ok=True)
        answer(replace(given, input=path, output=str(target)))


def list_inputs(text: str) -> list[tuple[str, str]] | None:
    """Return the files of a folder or a pattern, each with its name below the folder; None for anything else.

    Examples
    --------
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for name in ("b.csv", "a.csv", "notes.md"):
    ...         _ = Path(folder, name).write_text("")
    ...     [name for _, name in list_inputs(folder)], list_inputs(f"{folder}/a.csv")
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
    from hybridbn.tables.backends import scan

    sample = scan([path for path, _ in list_inputs(request.input) or ()], request.discrete, request.continuous).sample(
        max(request.sample, 2)
    )
    with tempfile.TemporaryDirectory(prefix="hybridbn-") as folder:
        sample.write(f"{folder}/sample.parquet")
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
    """Let DuckDB write the rows of a query or of files that it reads into a file."""
    from hybridbn.commands.engines import open_engine

    with open_engine(request) as engine, tempfile.TemporaryDirectory(prefix="hybridbn-") as folder:
        opened: Any = engine.open(request.input)
        if opened is None:
            raise UsageFault(f"{request.input}: --backend duckdb takes a query or Parquet files; leave it out")
        opened.relation.write_parquet(f"{folder}/input.parquet")
        yield replace(request, input=f"{folder}/input.parquet", backend=None)
