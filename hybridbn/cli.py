"""The command line: ``hybridbn impute INPUT OUTPUT`` and ``hybridbn convert INPUT OUTPUT``."""

from __future__ import annotations

import argparse
import contextlib
import errno
import io
import os
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, NoReturn

import hybridbn
from hybridbn.commands.terminal import (
    NotShown,
    Terminal,
    Terminated,
    discard_output,
    raise_on_termination,
    reword_for_command,
    say,
)
from hybridbn.errors import HybridBNError
from hybridbn.formats.secrets import mask_secrets

__all__ = ["main", "parser", "run"]

BAD_INPUT, BROKEN, TAKEN, NOT_WRITTEN, CHANGED, INTERRUPTED, SIGNALED = 2, 70, 73, 74, 75, 130, 128
"""The exit codes; the help explains them."""

_DISK_ERRORS = {getattr(errno, name) for name in ("ENOSPC", "EFBIG", "EDQUOT", "EIO") if hasattr(errno, name)}
"""Errors of the system that mean a full or broken disk."""

# The commands import what they need when they run, so that the help appears at once.

_EPILOG = """\
exit codes:
  0    the output is there, complete
  2    the input, the model or an option can't be used; the message says why
  70   a fault of hybridbn itself; please report it
  73   the output can't be made: another run is writing it, there is such a table (or, with
       --no-clobber, file) already, or the folder can't be written to
  74   writing failed: the disk is full or broken; nothing is left behind (where only --show can't be
       printed, the output is there)
  75   input, options or versions are not those of the unfinished run (--restart begins anew), or the
       input changed while it was read
  130  interrupted (143 by SIGTERM, 129 by SIGHUP); the same command goes on from there, as it does
       after kill -9 (into a pipe, or without --parts into a database on a server, it begins anew)

examples:
  hybridbn impute patients.csv completed.csv
  hybridbn impute patients.csv completed.parquet --draws 20 --seed 1 --report report.html
  hybridbn impute 'sqlite:///study.db?table=visits' 'sqlite:///study.db?table=visits_completed'
  hybridbn impute 'postgresql+psycopg://me@host/base?table=t' 'postgresql+psycopg://me@host/base?schema=s&table=u'
  hybridbn impute train.csv train_completed.csv --save-model model.hbn
  hybridbn impute new.csv new_completed.csv --model model.hbn
  zcat big.csv.gz | hybridbn impute - - --format csv | wc -l
"""

_IMPUTE_DESCRIPTION = """\
Fill the holes of a table: a Bayesian network of all columns is learned from the incomplete table,
and the missing cells of each row are drawn together given its observed cells. Observed cells, the
order of rows and columns, and in a text file every other byte stay as they are. Tables may be larger
than the memory.

A file's suffix tells its format: .csv .tsv .arff .jsonl (also .gz) .parquet .feather;
sqlite:///file.db?table=name is a table of a database, as is every address that SQLAlchemy or an ADBC
driver knows with ?table=name (or, of INPUT, ?query=SELECT ...) behind it; - is a pipe. The output
appears complete or not at all. An existing file is replaced at that moment, an existing table is refused.
"""


_CONVERT_DESCRIPTION = """\
Write a network or a table in another format, by the suffixes: networks as .hbn .bif .elv .xmlbif .xdsl
.net .uai, tables as .csv .tsv .arff .jsonl .parquet .feather or in a database (sqlite:///file.db?table=name,
and whatever SQLAlchemy or an ADBC driver knows); .dbc tables can be read. Texts may be packed (.bif.gz, .csv.gz).
What a format can't hold is refused by name. The output appears complete or not at all. Exit codes are those of impute.
"""


class _FormatNames:
    """The names of all table formats, imported only when the user names one."""

    def __iter__(self) -> Iterator[str]:
        from hybridbn.formats.tables.base import names

        return iter(names())

    def __contains__(self, name: object) -> bool:
        return any(name == known for known in self)


class _FitterNames:
    """The names of all fitters, imported only when the help is printed."""

    def __str__(self) -> str:
        from hybridbn.fitting.fitter_choice import list_fitter_names

        return ", ".join(list_fitter_names())


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    formatter = argparse.RawDescriptionHelpFormatter
    top = argparse.ArgumentParser(
        prog="hybridbn",
        description="Hybrid Bayesian networks: discrete and continuous variables in one network.",
        formatter_class=formatter,
    )
    top.add_argument("--version", action="version", version=f"hybridbn {hybridbn.__version__}")
    added = top.add_subparsers(title="commands", metavar="COMMAND", required=True)
    impute = added.add_parser(
        "impute",
        usage="hybridbn impute INPUT OUTPUT [options]",
        help="fill the holes of a table",
        description=_IMPUTE_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=formatter,
    )
    impute.set_defaults(command=_run_impute)
    _add_impute_arguments(impute)
    convert = added.add_parser(
        "convert",
        usage="hybridbn convert INPUT OUTPUT [options]",
        help="write a network or a table in another format",
        description=_CONVERT_DESCRIPTION,
        formatter_class=formatter,
    )
    convert.set_defaults(command=_run_convert)
    convert.add_argument("input", metavar="INPUT", help="a file, or a table of a database")
    convert.add_argument("output", metavar="OUTPUT", help="a file, or a new table of a database")
    convert.add_argument(
        "--bins", type=_parse_positive, metavar="N", help="cut continuous nodes into N bins, for formats that hold none"
    )
    _add_table_arguments(convert.add_argument_group("how a table is read"))
    convert.add_argument("--no-clobber", action="store_true", help="refuse to replace an existing file")
    convert.add_argument("--quiet", action="store_true", help="no warnings, errors only")
    return top


def _add_impute_arguments(impute: argparse.ArgumentParser) -> None:
    impute.add_argument("input", metavar="INPUT", help="a file, a table of a database, or -")
    impute.add_argument("output", metavar="OUTPUT", help="a file, a new table of a database, or -")

    imputation = impute.add_argument_group("what is imputed")
    imputation.add_argument(
        "--draws",
        type=_parse_positive,
        metavar="M",
        help=(
            "M completed tables one after the other, with a first column that counts them; parameters are drawn, too,"
            " so that they differ as much as is unknown"
        ),
    )
    imputation.add_argument(
        "--strategy",
        choices=("draw", "mean", "most_probable"),
        default="draw",
        help=(
            "draw (default) keeps variances and correlations; mean and most_probable are the best guess for single"
            " cells, and wrong for any estimate"
        ),
    )
    imputation.add_argument(
        "--seed",
        type=_parse_count,
        default=0,
        metavar="N",
        help="of the random numbers (default 0); the same seed gives the same bytes",
    )
    _add_kind_arguments(imputation)
    imputation.add_argument(
        "--keep",
        type=_parse_names,
        action="extend",
        default=[],
        metavar="A,B",
        help="columns to leave as they are; they are not even looked at",
    )
    imputation.add_argument(
        "--include",
        type=_parse_names,
        action="extend",
        default=[],
        metavar="A,B",
        help="columns to complete although they look like identifiers, from their own values",
    )
    imputation.add_argument(
        "--bounds",
        type=_parse_bounds,
        action="append",
        default=[],
        metavar="A=LOW:HIGH",
        help=(
            "limits of a column, numbers or dates (either may be left out), or 'observed' for the observed range of all"
            " columns"
        ),
    )

    imputation.add_argument(
        "--full-precision",
        action="store_true",
        help=(
            "leave imputed numbers unrounded; by default they have as many decimals as nearly all of the observed ones"
            " of their column (six at most)"
        ),
    )

    model = impute.add_argument_group("the model")
    model.add_argument(
        "--structure",
        default="auto",
        metavar="NAME",
        help="auto (default), tan, chow_liu, naive_bayes, kdb, ... of hybridbn.structures",
    )
    model.add_argument(
        "--target",
        metavar="A",
        help="the target column of a structure that has one; by default the one that tells most about the others",
    )
    potentials = model.add_argument(
        "--potentials", default="auto", metavar="NAME", help="auto is the default; one of %(known)s"
    )
    vars(potentials)["known"] = _FitterNames()
    model.add_argument(
        "--no-donors",
        dest="donors",
        action="store_false",
        help=(
            "draw numbers that are far from normal (skewed, with spikes) from normal distributions, too, instead of"
            " taking observed ones from similar rows"
        ),
    )
    model.add_argument(
        "--no-rules",
        dest="rules",
        action="store_false",
        help=(
            "let imputed numbers be what none of their column is (below zero, no code, no clock time), and break the"
            " sums and orders that the observed ones keep"
        ),
    )
    model.add_argument(
        "--rounds",
        type=_parse_count,
        metavar="N",
        help="rounds of drawing and learning; by default as many as the share of missing cells asks for",
    )
    model.add_argument(
        "--sample",
        type=_parse_positive,
        default=100_000,
        metavar="ROWS",
        help="learn from so many rows, drawn at random, where the table has more (default 100,000)",
    )
    model.add_argument(
        "--model",
        metavar="FILE.hbn",
        help="use this network, of --save-model or of Network.save, instead of learning one",
    )
    model.add_argument("--save-model", metavar="FILE.hbn", help="save what was learned")
    model.add_argument(
        "--unknown",
        choices=("error", "missing"),
        default="error",
        help="with --model: refuse states that it doesn't know (default), or leave them and let them tell nothing",
    )

    files = impute.add_argument_group("files")
    formats = _FormatNames()
    files.add_argument(
        "--format",
        choices=formats,
        metavar="FORMAT",
        help="of pipes and files without a telling suffix: csv, tsv, arff, parquet, feather or jsonl",
    )
    files.add_argument(
        "--from", dest="from_format", choices=formats, metavar="FORMAT", help="the same, of the input only"
    )
    files.add_argument("--to", dest="to_format", choices=formats, metavar="FORMAT", help="the same, of the output only")
    _add_text_arguments(files)
    files.add_argument(
        "--draw-column",
        default="draw",
        metavar="NAME",
        help="the name of the column that counts the draws (default draw)",
    )
    files.add_argument(
        "--no-clobber",
        action="store_true",
        help="refuse to replace existing files (tables of databases are never replaced)",
    )
    files.add_argument(
        "--restart", action="store_true", help="forget what an unfinished run left beside the output (OUTPUT.parts)"
    )
    files.add_argument(
        "--parts",
        metavar="FOLDER",
        help=(
            "keep what an unfinished run leaves in this folder; a run into a table on a server can only be taken up"
            " with it, and works in the system's temporary folder otherwise"
        ),
    )
    files.add_argument(
        "--chunk",
        type=_parse_positive,
        metavar="ROWS",
        help="rows to hold in memory at a time; the result does not depend on it",
    )

    output = impute.add_argument_group("what is said")
    output.add_argument(
        "--report",
        metavar="FILE.html",
        help="a page with observed and imputed distributions, patterns of missing cells, and the course of learning",
    )
    output.add_argument(
        "--show",
        type=_parse_count,
        nargs="?",
        const=8,
        default=0,
        metavar="N",
        help="print the first N (8) rows that had holes",
    )
    output.add_argument("--quiet", action="store_true", help="no progress and no warnings, errors only")


def _add_table_arguments(group: argparse._ArgumentGroup) -> None:
    _add_kind_arguments(group)
    _add_text_arguments(group)


def _add_kind_arguments(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--discrete",
        type=_parse_names,
        action="extend",
        default=[],
        metavar="A,B",
        help="columns of numbers that are categories",
    )
    group.add_argument(
        "--continuous",
        type=_parse_names,
        action="extend",
        default=[],
        metavar="A,B",
        help="columns that must be numbers",
    )


def _add_text_arguments(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--delimiter", type=_parse_delimiter, metavar="C", help="of CSV and TSV")
    group.add_argument(
        "--missing",
        action="append",
        default=[],
        metavar="TEXT",
        help=(
            "what marks a missing cell in CSV and TSV, besides an empty one; may be given again (default: NA N/A n/a"
            " NaN nan NULL null #N/A)"
        ),
    )
    group.add_argument(
        "--decimal",
        choices=(".", ","),
        default=".",
        help="what stands before the decimals in CSV and TSV (default a point)",
    )
    group.add_argument("--encoding", default="utf-8", help="of text files (default utf-8)")


def _parse_names(text: str) -> list[str]:
    """Split names at commas; a name that contains a comma is quoted as in CSV."""
    import csv

    names = [name for row in csv.reader([text], strict=True) for name in row]
    if not all(names):
        raise argparse.ArgumentTypeError(f"{text!r}: a name is empty")
    return names


def _parse_delimiter(text: str) -> str:
    return "\t" if text in ("\\t", "tab") else text


def _parse_count(text: str) -> int:
    try:
        number = int(text)
    except ValueError:
        number = -1
    if number < 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 0 on")
    return number


def _parse_positive(text: str) -> int:
    number = _parse_count(text)
    if not number:
        raise argparse.ArgumentTypeError("must be at least 1")
    return number


def _parse_bounds(text: str) -> tuple[str, tuple[float | str | None, float | str | None] | None]:
    if text == "observed":
        return "", None
    name, equals, ends = text.rpartition("=")
    low, colon, high = ends.partition(":")
    try:
        if not (name and equals and colon):
            raise ValueError
        return name, (_parse_end(low), _parse_end(high))
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r}: write A=0:120, A=0:, A=:120, A=2024-01-01: or observed") from None


def _parse_end(text: str) -> float | str | None:
    """Return a number, or a date as it is written."""
    if not text:
        return None
    try:
        return float(text)
    except ValueError:
        from hybridbn.time_patterns import PatternFinder

        if PatternFinder().add([text]):
            return text
        raise


# -- running -----------------------------------------------------------------------------------------------------------


def _run_impute(options: argparse.Namespace) -> int:
    from hybridbn.commands.impute import ImputationRequest, impute
    from hybridbn.formats.tables.delimited import MISSING

    values: dict[str, Any] = {
        name: value for name, value in vars(options).items() if name not in ("command", "quiet", "words")
    }
    for name in ("discrete", "continuous", "keep", "include"):
        values[name] = tuple(values[name])
    values["missing"] = ("", *options.missing) if options.missing else MISSING
    bounds = dict(options.bounds)
    values["bounds"] = None if not bounds else "observed" if "" in bounds else bounds
    if "" in bounds and len(bounds) > 1:
        _raise_usage("--bounds observed is for all columns; leave the others out")
    if options.model is not None:
        for name, value in (
            ("structure", "auto"),
            ("target", None),
            ("potentials", "auto"),
            ("rounds", None),
            ("full_precision", False),
            ("donors", True),
            ("rules", True),
            ("save_model", None),
        ):
            if values[name] != value:
                _raise_usage(
                    f"--model is used as it is; --{name.replace('_', '-')} is for learning: leave one of the two out"
                )
    if options.draws is not None and options.strategy != "draw":
        _raise_usage(f"--draws of --strategy {options.strategy} would all be equal; leave one of the two out")
    impute(ImputationRequest(**values), Terminal(options.quiet, options.words))
    return 0


def _run_convert(options: argparse.Namespace) -> int:
    from hybridbn.commands.convert import convert

    terminal = Terminal(options.quiet, options.words)
    reading = {
        name: getattr(options, name)
        for name in ("discrete", "continuous", "delimiter", "missing", "decimal", "encoding")
    }
    reading = {name: value for name, value in reading.items() if value and value not in ("utf-8", ".")}
    if "missing" in reading:
        reading["missing"] = ("", *reading["missing"])
    convert(options.input, options.output, terminal, bins=options.bins, no_clobber=options.no_clobber, reading=reading)
    return 0


def _raise_usage(text: str) -> NoReturn:
    """Raise a `UsageFault`, whose module is imported only now."""
    from hybridbn.commands.locations import UsageFault

    raise UsageFault(text)


def run(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code; an error is printed as one line on standard error.

    Examples
    --------
    >>> run(["impute", "nowhere.csv", "-", "--format", "csv", "--quiet"])
    2
    """
    words = sys.argv[1:] if arguments is None else arguments
    if not words:
        parser().print_help()
        return BAD_INPUT
    options = _parse(words)
    report = partial(_report, words)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the command itself records the warnings meant for the user
            return int(options.command(options))
    except KeyboardInterrupt as error:
        code = SIGNALED + error.number if isinstance(error, Terminated) else INTERRUPTED
        return report(str(error) or "interrupted; nothing was written", code)
    except BrokenPipeError:  # the reader closed the pipe
        discard_output()
        return 0
    except NotShown as error:
        discard_output()
        return report(f"the output is there, complete, but its rows can't be shown: {error}", NOT_WRITTEN)
    except (HybridBNError, FileNotFoundError, IsADirectoryError, NotADirectoryError) as error:
        return report(_describe_error(error), _exit_code(error))
    except OSError as error:
        if error.errno in _DISK_ERRORS:
            discard_output()
            return report(f"writing failed, and nothing is left of it: {_describe_error(error)}", NOT_WRITTEN)
        return report(_describe_error(error), TAKEN)
    except MemoryError:
        return report("there is not enough memory; try a smaller --chunk or --sample", BAD_INPUT)
    except Exception as error:
        return _report_unexpected(report, error)


def _parse(words: Sequence[str]) -> argparse.Namespace:
    """Return the options that the words of a command line say."""
    complaint = io.StringIO()
    try:
        with contextlib.redirect_stderr(complaint):
            options = parser().parse_args(words)
    finally:
        if complaint.getvalue():
            say(complaint.getvalue().rstrip("\n"), words)
    options.words = tuple(words)
    return options


def _report_unexpected(report: Callable[[str, int], int], error: Exception) -> int:
    from hybridbn.commands.locations import OutputTaken
    from hybridbn.commands.workspace import RunMismatch

    if isinstance(error, OutputTaken):
        return report(str(error), TAKEN)
    if isinstance(error, RunMismatch):
        return report(str(error), CHANGED)
    if os.environ.get("HYBRIDBN_TRACEBACK"):
        raise error
    return report(
        f"a fault of hybridbn itself: {type(error).__name__}: {error!s:.300}; please report it "
        "(HYBRIDBN_TRACEBACK=1 shows where it happened)",
        BROKEN,
    )


def _exit_code(error: Exception) -> int:
    from hybridbn.formats.tables.database_base import NotWritten

    if isinstance(error, NotWritten):
        return NOT_WRITTEN if error.begun else TAKEN
    return BAD_INPUT


def _describe_error(error: Exception) -> str:
    if isinstance(error, FileNotFoundError) and error.filename is not None:
        return f"there is no file {os.fsdecode(error.filename)}"
    if isinstance(error, OSError) and error.strerror:
        where = "" if error.filename is None else f"{os.fsdecode(error.filename)}: "
        return f"{where}{error.strerror}"
    return reword_for_command(str(error))


def _report(words: Sequence[str], text: str, code: int) -> int:
    # what is masked first may hold ends of lines
    say(f"hybridbn: {' '.join(mask_secrets(text, words).split())}", words)
    return code


def main() -> NoReturn:
    """Run the command given by the arguments of the process, and exit with its code."""
    import logging

    logging.getLogger().addHandler(logging.NullHandler())  # log records of database drivers are not for the user
    raise_on_termination()
    code = run()
    if code > SIGNALED:
        # Threads of C++ libraries may still be running, and abort the process if Python cleans up under them.
        for stream in filter(None, (sys.stdout, sys.stderr)):
            stream.flush()
        os._exit(code)
    sys.exit(code)
