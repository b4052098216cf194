"""Messages of the command: progress on a terminal, warnings in terms of its options, and a summary; also what ends it,
faults and signals.
"""

from __future__ import annotations

import ast
import contextlib
import importlib.util
import os
import re
import shlex
import signal
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator

from hybridbn.errors import FormatError, escape_controls, mask_secrets, tidy_message
from hybridbn.jobs import ProgressLine, progress


class UsageFault(FormatError):
    """The options can't be carried out, whatever the table holds."""


class OutputTaken(Exception):
    """The output can't be written: it exists already, or another run is writing it."""


class RunMismatch(Exception):
    """The parts beside the output belong to another input, other options or other versions."""


def keep_interrupts() -> None:
    """Let Ctrl-C reach the command while pyarrow works.

    pyarrow replaces Python's signal handler while it parses text, and loses an interrupt that arrives after its last
    check.
    """
    if importlib.util.find_spec("pyarrow") is not None:
        import pyarrow

        pyarrow.enable_signal_handlers(False)


class Terminated(KeyboardInterrupt):
    """The system asked the process to end.

    Attributes
    ----------
    number : int
        The number of the signal.
    """

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number


def raise_on_termination() -> None:
    """Let SIGTERM and SIGHUP end the command as Ctrl-C does, so that it removes its temporary copies.

    Signals that whoever started the process ignores, as nohup does, stay ignored.
    """
    numbers = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]

    def terminate(number: int, _: object) -> None:
        for other in numbers:
            signal.signal(other, signal.SIG_IGN)
        raise Terminated(number)

    for number in numbers:
        if signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, terminate)


_STYLE = re.compile(r"(\x1b\[[012]m)")
"""The control sequences for bold, faint and plain text."""


def say(text: str, addresses: Iterable[str] = ()) -> None:
    """Print a message on standard error, without the secrets of addresses, and fit for a terminal."""
    if sys.stderr is not None:  # otherwise `print` would take standard output
        print(tidy_message(mask_secrets(text, addresses)), file=sys.stderr, flush=True)


class NotShown(Exception):
    """Standard output did not take what was to be shown; the output of the command is there."""


def discard_output() -> None:
    """Send what standard output still holds to nowhere, or Python would fail when it flushes it at the end.

    A stream that a program has put in its place is the program's.
    """
    stream = sys.__stdout__
    if stream is not None and sys.stdout is stream:
        with contextlib.suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


class Terminal:
    """Writes to standard error: progress and notes only if it is a terminal, and warnings unless `quiet`.

    Parameters
    ----------
    addresses : iterable of str
        What no message shows the secrets of.
    """

    def __init__(self, quiet: bool = False, addresses: Iterable[str] = ()) -> None:
        self._quiet, self._addresses = quiet, tuple(addresses)
        self.interactive: bool = not quiet and sys.stderr is not None and sys.stderr.isatty()
        self.warnings: list[str] = []
        self._line = ProgressLine()

    def warn(self, text: str) -> None:
        """Print a warning, once."""
        text = mask_secrets(reword_for_command(text), self._addresses)
        if text in self.warnings:
            return
        self.warnings.append(text)
        if not self._quiet:
            self._print(text if text.startswith("read as: ") else f"warning: {text}")

    @contextlib.contextmanager
    def forward_warnings(self) -> Iterator[None]:
        """Show the warnings that the library gives inside of the statement, in the words of the command."""
        with warnings.catch_warnings(record=True, action="always") as caught:
            yield
        for text in dict.fromkeys(str(item.message) for item in caught if issubclass(item.category, UserWarning)):
            self.warn(text)

    def note(self, text: str) -> None:
        """Print a note if standard error is a terminal."""
        if self.interactive:
            self._print(text)

    def show(self, text: str, *, styled: bool = False) -> None:
        """Print to standard output; with `styled`, bold and faint text stays so.

        Raises
        ------
        NotShown
            If it takes nothing, as a full disk.
        """
        if sys.stdout is None:
            raise NotShown("standard output is closed")
        self.clear_step()
        parts = _STYLE.split(mask_secrets(text, self._addresses)) if styled else [mask_secrets(text, self._addresses)]
        text = "".join(
            part if styled and _STYLE.fullmatch(part) else escape_controls(part, lines=True) for part in parts
        )
        encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
        try:
            print(text.encode(encoding, "backslashreplace").decode(encoding), flush=True)
        except BrokenPipeError:
            raise
        except OSError as error:
            raise NotShown(error.strerror or str(error)) from error

    def show_step(self, text: str) -> None:
        """Show the current step, until something else is shown."""
        if self.interactive:
            self._line.show(f"{text} ...")

    def clear_step(self) -> None:
        """Erase the step or the progress."""
        self._line.erase()

    @contextlib.contextmanager
    def show_progress(self) -> Iterator[None]:
        """Show how far the long calls inside of the statement are."""
        with progress(self._line) if self.interactive else contextlib.nullcontext():
            yield
        self.clear_step()

    def _print(self, text: str) -> None:
        self.clear_step()
        say(f"hybridbn: {text}", self._addresses)


# -- the library's messages in the words of the command line ----------------------------------------------------------


def parse_number(text: str) -> float | None:
    """Return the number that a text is; None for any other text.

    Examples
    --------
    >>> parse_number("9"), parse_number("n/a"), parse_number("nan")
    (9.0, None, None)
    """
    try:
        return float(text) if float(text) == float(text) else None
    except ValueError:
        return None


def spell_mark_option(name: str, text: object) -> str:
    """Return the option that names a mark of a column, as it is pasted into a shell.

    Examples
    --------
    >>> spell_mark_option("sex", 9), spell_mark_option("my sex", "n/a")
    ('--missing sex=9', "--missing 'my sex=n/a'")
    """
    return f"--missing {shlex.quote(f'{name}={text}')}"


def _spell_marks(match: re.Match[str]) -> str:
    marks = ast.literal_eval(match[1])
    return " ".join(spell_mark_option(name, value) for name, own in marks.items() for value in own)


_LISTED = r"\[?('[^']*'|\"[^\"]*\"|[^\s\],;)]+)\]?"
_WORDS: tuple[tuple[str, str | Callable[[re.Match[str]], str]], ...] = (
    (r"missing=(\{.*?\]\})", _spell_marks),
    (r"add it to missing=\[\.\.\.\]", "name it with --missing COLUMN=TEXT"),
    (rf"read the column (?:as text )?with (discrete|continuous)={_LISTED}", r"say --\1 \2"),
    (rf"declare it with (discrete|continuous)={_LISTED}", r"say --\1 \2"),
    (
        r"name them in skip to say so, or in include to complete them from their own values",
        "--keep says so, --include completes them from their own values",
    ),
    (r"name them in skip to leave them as they are", "--keep leaves them as they are"),
    (r"name them in skip to say so", "--keep says so"),
    (r"replace it with None to have it imputed", "name it with --missing to have it imputed"),
    (r"cut the continuous variables with bins=", "cut the continuous variables with --bins"),
    (r"for example write_network\(net, path, bins=(\d+)\)", r"for example --bins \1"),
    (r"say integers=\(\)", "leave them out"),
    (r"unless discrete=\[\.\.\.\] makes", "unless --discrete makes"),
    (r"\brules=False\b", "--no-rules"),
    (r"cast it to text in a query( first)?", "--keep leaves it as it is, or cast it to text in a query"),
    (
        rf"\b(encoding|delimiter|decimal|thousands|dates|structure|target|potentials|strategy|rounds|bounds|include|unknown)={_LISTED}",
        r"--\1 \2",
    ),
    (rf"\bskip={_LISTED}", r"--keep \1"),
    (r"(to text \(its month\)|for example its seconds)", r"\1; or --keep it as it is"),
)


def reword_for_command(text: str) -> str:
    """Return a message of the library on one line, with options of the command line in place of Python arguments.

    Examples
    --------
    >>> reword_for_command("if these are states, read the column with discrete=['x']")
    "if these are states, say --discrete 'x'"
    >>> reword_for_command("give another encoding='latin-1'")
    "give another --encoding 'latin-1'"
    """
    for pattern, words in _WORDS:
        text = re.sub(pattern, words, text)
    return " ".join(text.split())
