"""What a verb of the command line is, the options that several verbs have, and the parser that all of them share.

A verb is a module of `hybridbn.commands.verbs` with a subclass of `Verb`, which declares its arguments and runs itself;
its name is that of the module. Nothing else has to be changed.
"""

from __future__ import annotations

import argparse
import difflib
import re
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import fields
from functools import partial
from typing import Any, ClassVar, TypeAlias

import hybridbn
from hybridbn.commands.terminal import Terminal, parse_number
from hybridbn.registry import LazyModule, Registered, Registry

Groups: TypeAlias = Mapping[str, Mapping[str, Mapping[str, Any]]]

EXIT_CODES = """\
exit codes:
  0    the output is there, complete
  2    the input, the model or an option can't be used; the message says why
  70   a fault of hybridbn itself; please report it
  73   the output can't be made: there is such a table (or, with --no-clobber, file) already, or the
       folder can't be written to
  74   writing failed: the disk is full or broken; nothing is left behind
  130  interrupted (143 by SIGTERM, 129 by SIGHUP)
"""

_backends: LazyModule = LazyModule("hybridbn.tables.backends")
_building: LazyModule = LazyModule("hybridbn.structures.building")
_fitting: LazyModule = LazyModule("hybridbn.fitting.base")
_formats: LazyModule = LazyModule("hybridbn.tables.formats.base")

_DESCRIPTION = """\
Hybrid Bayesian networks: discrete and continuous variables in one network.

examples:
  hybridbn check patients.csv                                       what is in a table, and what is wrong with it
  hybridbn fit patients.csv model.hbn --structure tan --target disease
  hybridbn show model.hbn                                           the nodes, their parents and their beliefs
  hybridbn explore model.hbn                                        the same in the browser: set findings, see beliefs
  hybridbn query model.hbn disease age=62 cholesterol=200:260
  hybridbn predict model.hbn new.csv predicted.csv --target disease
  hybridbn impute patients.csv completed.csv                        fill the holes
"""

_EPILOG = "hybridbn COMMAND --help explains a command, with examples."


class Verb(Registered, ABC):
    """A verb of the command line, such as ``fit`` in ``hybridbn fit DATA MODEL``.

    Attributes
    ----------
    name : str
    summary : str
        One line.
    examples : str
        Command lines, one a line.
    description : str
    exit_codes : str
    groups : mapping from title to mapping from argument to keywords
        The arguments under each title in the help, or under none, and what argparse is told of them, for those that
        several verbs have besides what is the same for all.
    """

    name: ClassVar[str]
    summary: ClassVar[str]
    examples: ClassVar[str]
    description: ClassVar[str]
    exit_codes: ClassVar[str] = EXIT_CODES
    groups: ClassVar[Groups] = {}
    registry: ClassVar[Registry[Verb]] = Registry("command", "hybridbn.commands.verbs", "name", instances=True)

    def __init_subclass__(cls, **options: Any) -> None:
        """Call the verb as its module is called, unless it has a name of its own."""
        if "name" not in vars(cls):
            cls.name = cls.__module__.rpartition(".")[2]
        super().__init_subclass__(**options)

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare the arguments; nothing heavy is imported for that.

        Examples
        --------
        >>> parser = argparse.ArgumentParser()
        >>> Verb.registry.load()["show"].add_arguments(parser)
        >>> parser.parse_args(["model.hbn", "--level", "0.8", "--csv"])
        Namespace(model='model.hbn', level=0.8, form='csv')
        """
        for title, declared in self.groups.items():
            group: Any = parser.add_argument_group(title) if title else parser
            if title in ANSWERS:
                group = group.add_mutually_exclusive_group()
            for name, changes in declared.items():
                keywords = {**_SHARED.get(name, {}), **changes}
                known = keywords.pop("known", keywords.get("choices"))
                vars(group.add_argument(name, **keywords))["known"] = known

    @abstractmethod
    def run(self, options: argparse.Namespace, terminal: Terminal) -> None:
        """Do it."""


def list_verbs() -> list[str]:
    """Return the names of all verbs, in the order in which a new user needs them.

    Examples
    --------
    >>> list_verbs()[:3]
    ['check', 'fit', 'show']
    """
    known = Verb.registry.load()
    usual = ["check", "fit", "show", "explore", "query", "predict", "impute", "convert"]
    return [name for name in usual if name in known] + sorted({*known} - {*usual})


def suggest(word: str, known: Iterable[str]) -> str:
    """Return the question that ends a message about a word that is not known, or nothing.

    Examples
    --------
    >>> suggest("--tagret", ["--target", "--structure"]), suggest("xyz", ["target"])
    ('; did you mean --target?', '')
    """
    near = difflib.get_close_matches(word, list(known), n=1)
    return f"; did you mean {near[0]}?" if near else ""


class _HelpFormatter(argparse.RawDescriptionHelpFormatter):
    """Writes help without asking for choices that it does not show, which may have to be imported."""

    def _expand_help(self, action: argparse.Action) -> str:
        if action.choices is not None and action.metavar is not None:
            action = copy(action)
            action.choices = None
        return super()._expand_help(action)


class CommandParser(argparse.ArgumentParser):
    """A parser that asks back where an option, a choice or a verb is misspelt."""

    def check_words(self, words: Sequence[str]) -> None:
        """Refuse options that there are not, before anything else is found to be missing."""
        options = [name for action in self._actions for name in action.option_strings if name.startswith("--")]
        for word in words:
            if word == "--":
                return
            name = word.partition("=")[0]
            if name.startswith("--") and " " not in name and not any(known.startswith(name) for known in options):
                self.error(f"there is no option {name}{suggest(name, options)}")

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        try:
            super()._check_value(action, value)
        except argparse.ArgumentError as error:
            if isinstance(value, str) and action.choices is not None:
                error.message += suggest(value, map(str, action.choices))
            raise


def make_parser(only: str | None = None) -> CommandParser:
    """Return the parser of the command line, or of one verb of it."""
    top = CommandParser(
        prog="hybridbn",
        usage="hybridbn COMMAND ... [options]",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=_HelpFormatter,
    )
    top.add_argument("--version", action="version", version=f"hybridbn {hybridbn.__version__}")
    added = top.add_subparsers(
        title="commands", metavar="COMMAND", required=True, prog="hybridbn", parser_class=CommandParser
    )
    for name in list_verbs() if only is None else [only]:
        verb = Verb.registry.find(name)
        assert verb is not None
        parser = added.add_parser(
            name,
            help=verb.summary,
            description=_describe(verb),
            epilog=verb.exit_codes,
            formatter_class=_HelpFormatter,
        )
        parser.set_defaults(verb=verb)
        verb.add_arguments(parser)
        needed = [action for action in parser._actions if action.required or not action.option_strings]
        parser.usage = f"hybridbn {name} {' '.join(map(_name_argument, needed))} [options]"
        parser.add_argument("--quiet", action="store_true", help="no progress and no warnings, errors only")
    return top


def _name_argument(action: argparse.Action) -> str:
    """Return an argument as the usage shows it."""
    name = str(action.metavar or action.dest)
    if action.option_strings:
        return f"{action.option_strings[0]} {name}"
    return f"[{name} ...]" if action.nargs == "*" else name


def _describe(verb: Verb) -> str:
    examples = "\n".join(f"  {line.strip()}" for line in verb.examples.strip().splitlines())
    return f"{verb.summary[0].upper()}{verb.summary[1:]}.\n\nexamples:\n{examples}\n\n{verb.description.strip()}"


def parse_words(words: Sequence[str]) -> argparse.Namespace:
    """Return the options that the words of a command line say; a word that means nothing ends the process."""
    first = words[0]
    verb = None if first.startswith("-") else Verb.registry.find(first)
    if verb is None:
        top = make_parser()
        if not first.startswith("-"):
            verbs = list_verbs()
            listed = f"; the commands are {', '.join(verbs)}"
            top.error(f"there is no command {first!r}{suggest(first, verbs) or listed}")
        top.check_words(words)
        return top.parse_args(words)
    top = make_parser(first)
    [commands] = [action for action in top._actions if isinstance(action, argparse._SubParsersAction)]
    commands.choices[first].check_words(words[1:])
    return top.parse_args(words)


# -- options that several verbs have, declared once, and what their values mean ---------------------------------------


class RegisteredNames:
    """The names that an option knows, imported only when the user gives one or asks for help."""

    def __init__(self, list_names: Callable[[], Iterable[str]]) -> None:
        self._list_names = list_names

    def __iter__(self) -> Iterator[str]:
        return iter(self._list_names())

    def __str__(self) -> str:
        return ", ".join(self)


def list_options(kind: type, **parsers: Callable[[str], Any]) -> dict[str, dict[str, Any]]:
    """Return options for fields of a dataclass, whose metadata are their help.

    Parameters
    ----------
    kind : dataclass
    **parsers
        The names of fields, and what reads the word that follows each; `bool` where none does.
    """
    listed: dict[str, dict[str, Any]] = {}
    for option in fields(kind):
        parse, flag = parsers.get(option.name), option.name.replace("_", "-")
        if parse is bool:
            prefix, action = ("--no-", "store_false") if option.default else ("--", "store_true")
            listed[f"{prefix}{flag}"] = {"dest": option.name, "action": action, **option.metadata}
        elif parse in (parse_names, parse_bounds):
            action = "extend" if parse is parse_names else "append"
            listed[f"--{flag}"] = {"type": parse, "action": action, "default": [], **option.metadata}
        elif parse is not None:
            listed[f"--{flag}"] = {"type": parse, "default": option.default, **option.metadata}
    return listed


def parse_names(text: str) -> list[str]:
    """Split names at commas; a name that contains a comma is quoted as in CSV.

    Examples
    --------
    >>> parse_names('a,"b, c"')
    ['a', 'b, c']
    >>> parse_names('a,"b" c')
    Traceback (most recent call last):
        ...
    argparse.ArgumentTypeError: 'a,"b" c': these are no names as in a line of CSV: ',' expected after '"'
    """
    import csv

    try:
        names = [name for row in csv.reader([text], strict=True) for name in row]
    except csv.Error as error:
        raise argparse.ArgumentTypeError(f"{text!r}: these are no names as in a line of CSV: {error}") from None
    if not all(names):
        raise argparse.ArgumentTypeError(f"{text!r}: a name is empty")
    return names


def parse_count(text: str, least: int = 0) -> int:
    """Return a whole number that is not less than another."""
    try:
        number = int(text)
    except ValueError:
        number = -1
    if number < 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 0 on")
    if number < least:
        raise argparse.ArgumentTypeError(f"must be at least {least}")
    return number


parse_positive: Callable[[str], int] = partial(parse_count, least=1)
"""Return a whole number from 1 on."""


def _parse_rows(text: str) -> tuple[int, int]:
    """Return the number of the first of some rows, and that of the first one behind them.

    Examples
    --------
    >>> _parse_rows("100:200"), _parse_rows(":5")
    ((100, 200), (0, 5))
    """
    match = re.fullmatch(r"([0-9]*):([0-9]*)", text)
    first, end = (0, 0) if match is None else (int(match[1] or 0), int(match[2] or sys.maxsize))
    if first >= end:
        raise argparse.ArgumentTypeError(f"{text!r}: write 100:200 for the rows from number 100 to before 200")
    return first, end


def _parse_level(text: str) -> float:
    """Return a probability between 0 and 1, as of an interval."""
    level = parse_number(text) or 0.0
    if not 0 < level < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a probability between 0 and 1, such as 0.9")
    return level


def parse_bounds(text: str) -> tuple[str, tuple[float | str | None, float | str | None] | None]:
    """Return a column and its limits; no name stands for the observed ranges of all columns."""
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
    number = parse_number(text)
    if number is not None or not text:
        return number
    from hybridbn.unit_texts import PatternFinder

    if not PatternFinder().add([text]):
        raise ValueError
    return text


_NAMES = {"type": parse_names, "action": "extend", "default": [], "metavar": "A,B"}
_FORMATS = {"choices": RegisteredNames(lambda: _formats.names()), "metavar": "FORMAT"}
_SHARED: Mapping[str, Mapping[str, Any]] = {
    "--discrete": {**_NAMES, "help": "columns of numbers that are categories"},
    "--continuous": {**_NAMES, "help": "columns that must be numbers"},
    "--keep": {**_NAMES, "help": "columns to leave as they are; they are not even looked at"},
    "--include": {**_NAMES, "help": "columns to learn from although they look like identifiers"},
    "--delimiter": {
        "type": lambda text: "\t" if text in ("\\t", "tab") else text,
        "metavar": "C",
        "help": "of CSV and TSV (default: what the file shows)",
    },
    "--missing": {
        "action": "append",
        "default": [],
        "metavar": "[A=]TEXT",
        "help": (
            "what marks a missing cell, of column A or, if it is no ordinary value of one, of all; may be given again"
            " (default in CSV and TSV, besides an empty cell: NA N/A n/a NaN nan NULL null #N/A)"
        ),
    },
    "--decimal": {
        "choices": (".", ","),
        "metavar": "SIGN",
        "help": "what stands before the decimals in CSV and TSV (default: what the file shows)",
    },
    "--thousands": {
        "metavar": "SIGN",
        "help": "what may stand between thousands in CSV and TSV, '' for nothing (default: what the file shows)",
    },
    "--dates": {
        "choices": ("dmy", "mdy", "ymd"),
        "help": "the order of day, month and year in dates such as 01/02/03 (default: what the file shows)",
    },
    "--encoding": {"help": "of text files (default: what the file shows, utf-8, utf-16 or cp1252)"},
    "--format": {
        **_FORMATS,
        "help": "of pipes and files without a telling suffix: csv, tsv, arff, parquet, feather or jsonl",
    },
    "--from": {**_FORMATS, "dest": "from_format", "help": "the same, of the input only"},
    "--to": {**_FORMATS, "dest": "to_format", "help": "the same, of the output only"},
    "--rows": {
        "type": _parse_rows,
        "metavar": "FIRST:END",
        "help": "only the rows from number FIRST, counted from 0, to before END (either may be left out)",
    },
    "--chunk": {
        "type": parse_positive,
        "metavar": "ROWS",
        "help": "rows to hold in memory at a time; the result does not depend on it",
    },
    "--structure": {
        "metavar": "NAME",
        "known": RegisteredNames(lambda: ["auto", *sorted(_building.BUILDERS)]),
        "default": "auto",
    },
    "--target": {"metavar": "A"},
    "--potentials": {
        "metavar": "NAME",
        "known": RegisteredNames(lambda: _fitting.list_fitter_names()),
        "default": "auto",
        "help": "auto is the default; one of %(known)s",
    },
    "--sample": {
        "type": parse_positive,
        "default": 100_000,
        "metavar": "ROWS",
        "help": "learn from so many rows, drawn at random, where the table has more (default 100,000)",
    },
    "--unknown": {"choices": ("error", "missing"), "default": "error"},
    "--backend": {"metavar": "NAME", "choices": RegisteredNames(lambda: sorted(_backends.Backend.registry.load()))},
    "--workers": {"type": parse_positive, "metavar": "N", "help": "processes of this machine that share the work"},
    "--scheduler": {
        "metavar": "ADDRESS",
        "help": "of dask, such as tls://host:8786 or tcp://host:8786, whose workers share the work; they need the same"
        " build of hybridbn. Whoever reaches one by tcp:// can run programs as you: use tls:// outside of your machine",
    },
    "--bins": {
        "type": parse_positive,
        "metavar": "N",
        "help": "cut continuous nodes into N bins, for formats that hold none",
    },
    "--level": {"type": _parse_level, "default": 0.9, "metavar": "P"},
    "--no-clobber": {"action": "store_true", "help": "refuse to replace an existing file"},
}
"""What argparse is told of each option that several verbs have. The values of one with `known` names are checked by
other code; its help may show them, as that of one with choices may.
"""


TEXT_OPTIONS: Mapping[str, Mapping[str, Any]] = {
    flag: {} for flag in ("--delimiter", "--missing", "--decimal", "--thousands", "--dates", "--encoding")
}
"""The options of text files."""
ANSWERS: Groups = {
    "what is printed (by default text on a terminal, CSV into a pipe)": {
        f"--{name}": {"dest": "form", "action": "store_const", "const": name, "help": f"print {title}"}
        for name, title in (("text", "text with bars"), ("csv", "CSV with a header"), ("json", "JSON"))
    }
}
"""How an answer is printed, of which only one way can be asked for."""
