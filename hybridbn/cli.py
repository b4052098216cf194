"""The command line: ``hybridbn impute INPUT OUTPUT`` and ``hybridbn convert INPUT OUTPUT``."""

from __future__ import annotations

import argparse
import errno
import os
import sys
import warnings
from collections.abc import Sequence
from typing import Any, NoReturn

from hybridbn.commands.options import parser as parser_of

__all__ = ["main", "parser", "run"]

BAD_INPUT, BROKEN, TAKEN, NOT_WRITTEN, CHANGED, INTERRUPTED = 2, 70, 73, 74, 75, 130

_FULL = {getattr(errno, name) for name in ("ENOSPC", "EFBIG", "EDQUOT", "EIO") if hasattr(errno, name)}


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    return parser_of({"impute": _impute, "convert": _convert})


def _impute(options: argparse.Namespace) -> int:
    from hybridbn.commands.impute import Request, impute
    from hybridbn.commands.terminal import Terminal
    from hybridbn.formats.tables.delimited import MISSING

    given: dict[str, Any] = {name: value for name, value in vars(options).items() if name not in ("command", "quiet")}
    for name in ("discrete", "continuous", "keep", "include"):
        given[name] = tuple(given[name])
    given["missing"] = ("", *options.missing) if options.missing else MISSING
    ends = dict(options.bounds)
    given["bounds"] = None if not ends else "observed" if "" in ends else ends
    if "" in ends and len(ends) > 1:
        raise_usage("--bounds observed is for all columns; leave the others out")
    if options.model is not None:
        for name, value in (
            ("structure", "auto"),
            ("target", None),
            ("potentials", "auto"),
            ("rounds", None),
            ("full_precision", False),
            ("donors", True),
            ("save_model", None),
        ):
            if given[name] != value:
                raise_usage(
                    f"--model is used as it is; --{name.replace('_', '-')} is for learning: leave one of the two out"
                )
    if options.draws is not None and options.strategy != "draw":
        raise_usage(f"--draws of --strategy {options.strategy} would all be equal; leave one of the two out")
    impute(Request(**given), Terminal(options.quiet))
    return 0


def _convert(options: argparse.Namespace) -> int:
    from hybridbn.commands.convert import convert
    from hybridbn.commands.terminal import Terminal

    terminal = Terminal(options.quiet)
    reading = {
        name: getattr(options, name)
        for name in ("discrete", "continuous", "delimiter", "missing", "decimal", "encoding")
    }
    reading = {name: value for name, value in reading.items() if value and value not in ("utf-8", ".")}
    if "missing" in reading:
        reading["missing"] = ("", *reading["missing"])
    convert(options.input, options.output, terminal, bins=options.bins, no_clobber=options.no_clobber, reading=reading)
    return 0


def raise_usage(text: str) -> NoReturn:
    """Raise an error of usage."""
    from hybridbn.commands.locations import UsageFault

    raise UsageFault(text)


def run(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code; what goes wrong is one line on standard error.

    Examples
    --------
    >>> run(["impute", "nowhere.csv", "-", "--format", "csv", "--quiet"])
    2
    """
    from hybridbn.errors import HybridBNError

    given = sys.argv[1:] if arguments is None else arguments
    if not given:
        parser().print_help()
        return BAD_INPUT
    options = parser().parse_args(given)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the command collects those that are for the user
            return int(options.command(options))
    except KeyboardInterrupt as error:
        return _failed(str(error) or "interrupted; nothing was written", INTERRUPTED)
    except BrokenPipeError:
        # whoever reads has seen enough; Python must not find the pipe broken again when it ends
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except (HybridBNError, FileNotFoundError, IsADirectoryError, NotADirectoryError) as error:
        return _failed(_said(error), _code(error))
    except OSError as error:
        if error.errno in _FULL:
            return _failed(f"writing failed, and nothing is left of it: {_said(error)}", NOT_WRITTEN)
        return _failed(_said(error), TAKEN)
    except MemoryError:
        return _failed("there is not enough memory; try a smaller --chunk or --sample", BAD_INPUT)
    except Exception as error:
        return _unforeseen(error)


def _unforeseen(error: Exception) -> int:
    from hybridbn.commands.locations import Taken
    from hybridbn.commands.workspace import OtherRun

    if isinstance(error, Taken):
        return _failed(str(error), TAKEN)
    if isinstance(error, OtherRun):
        return _failed(str(error), CHANGED)
    if os.environ.get("HYBRIDBN_TRACEBACK"):
        raise error
    return _failed(
        f"a fault of hybridbn itself: {type(error).__name__}: {error!s:.300}; please report it "
        "(HYBRIDBN_TRACEBACK=1 shows where it happened)",
        BROKEN,
    )


def _code(error: Exception) -> int:
    from hybridbn.formats.tables.relations import NotWritten

    if isinstance(error, NotWritten):
        return NOT_WRITTEN if error.begun else TAKEN
    return BAD_INPUT


def _said(error: Exception) -> str:
    if isinstance(error, FileNotFoundError) and error.filename is not None:
        return f"there is no file {os.fsdecode(error.filename)}"
    if isinstance(error, OSError) and error.strerror:
        where = "" if error.filename is None else f"{os.fsdecode(error.filename)}: "
        return f"{where}{error.strerror}"
    from hybridbn.commands.terminal import in_options

    return in_options(str(error))


def _failed(text: str, code: int) -> int:
    print(f"hybridbn: {' '.join(text.split())}", file=sys.stderr)
    return code


def main() -> NoReturn:
    """Run the command that the process was started with."""
    import logging

    logging.getLogger().addHandler(logging.NullHandler())  # what drivers log is no message for the user
    code = run()
    if code == INTERRUPTED:
        # threads of libraries are in the middle of something, and the C++ ones abort the process if Python tidies up around them
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    sys.exit(code)
