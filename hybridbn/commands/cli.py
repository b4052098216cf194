"""The command line: finds the verb, such as ``impute``, runs it, and turns errors into messages and exit codes."""

from __future__ import annotations

import argparse
import contextlib
import errno
import io
import os
import sys
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from typing import NoReturn

from hybridbn.commands.terminal import (
    NotShown,
    OutputTaken,
    RunMismatch,
    Terminal,
    Terminated,
    discard_output,
    raise_on_termination,
    reword_for_command,
    say,
)
from hybridbn.commands.verb import make_parser, parse_words
from hybridbn.errors import HybridBNError, mask_secrets

BAD_INPUT, BROKEN, TAKEN, NOT_WRITTEN, CHANGED, INTERRUPTED, SIGNALED = 2, 70, 73, 74, 75, 130, 128
"""The exit codes; the help explains them."""

_DISK_ERRORS = {getattr(errno, name) for name in ("ENOSPC", "EFBIG", "EDQUOT", "EIO") if hasattr(errno, name)}
"""Errors of the system that mean a full or broken disk."""


def run(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code; an error is printed as one line on standard error.

    Examples
    --------
    >>> run(["impute", "nowhere.csv", "-", "--format", "csv", "--quiet"])
    2
    """
    words = sys.argv[1:] if arguments is None else arguments
    if not words:
        make_parser().print_help()
        return BAD_INPUT
    options = _parse(words)
    report = partial(_report, words)
    try:
        terminal = Terminal(options.quiet, words)
        # the command itself records the warnings meant for the user
        with warnings.catch_warnings(action="ignore"), terminal.show_progress():
            options.verb.run(options, terminal)
            return 0
    except KeyboardInterrupt as error:
        code = SIGNALED + error.number if isinstance(error, Terminated) else INTERRUPTED
        return report(str(error) or "interrupted; nothing was written", code)
    except BrokenPipeError:  # the reader closed the pipe
        discard_output()
        return 0
    except NotShown as error:
        discard_output()
        return report(f"the output is there, complete, but its rows can't be shown: {error}", NOT_WRITTEN)
    except (HybridBNError, OutputTaken, RunMismatch, FileNotFoundError, IsADirectoryError, NotADirectoryError) as error:
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
            return parse_words(words)
    finally:
        if complaint.getvalue():
            say(complaint.getvalue().rstrip("\n"), words)


def _report_unexpected(report: Callable[[str, int], int], error: Exception) -> int:
    if os.environ.get("HYBRIDBN_TRACEBACK"):
        raise error
    return report(
        f"a fault of hybridbn itself: {type(error).__name__}: {error!s:.300}; please report it "
        "(HYBRIDBN_TRACEBACK=1 shows where it happened)",
        BROKEN,
    )


def _exit_code(error: Exception) -> int:
    from hybridbn.tables.formats.database_base import NotWritten

    if isinstance(error, NotWritten):
        return NOT_WRITTEN if error.begun else TAKEN
    return {OutputTaken: TAKEN, RunMismatch: CHANGED}.get(type(error), BAD_INPUT)


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
