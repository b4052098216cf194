"""What a verb of the command line is, and the parser that all of them share.

A verb is a module of `hybridbn.commands.verbs` with a subclass of `Verb`, which declares its arguments and runs itself;
its name is that of the module. Nothing else has to be changed.
"""

from __future__ import annotations

import argparse
import difflib
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from copy import copy
from typing import Any, ClassVar

import hybridbn
from hybridbn.commands.terminal import Terminal
from hybridbn.registry import Registered, Registry

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
    arguments : str
        The positional arguments, as the usage shows them.
    summary : str
        One line.
    examples : str
        Command lines, one a line.
    description : str
    exit_codes : str
    """

    name: ClassVar[str]
    arguments: ClassVar[str]
    summary: ClassVar[str]
    examples: ClassVar[str]
    description: ClassVar[str]
    exit_codes: ClassVar[str] = EXIT_CODES
    registry: ClassVar[Registry[Verb]] = Registry("command", "hybridbn.commands.verbs", "name", instances=True)

    @abstractmethod
    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare the arguments; nothing heavy is imported for that."""

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


def suggest(word: str, known: Iterable[str], prefix: str = "") -> str:
    """Return the question that ends a message about a word that is not known, or nothing.

    Examples
    --------
    >>> suggest("tagret", ["target", "structure"], "--"), suggest("xyz", ["target"])
    ('; did you mean --target?', '')
    """
    near = difflib.get_close_matches(word, list(known), n=1)
    return f"; did you mean {prefix}{near[0]}?" if near else ""


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
            usage=f"hybridbn {name} {verb.arguments} [options]",
            help=verb.summary,
            description="\n".join(_describe(verb)),
            epilog=verb.exit_codes,
            formatter_class=_HelpFormatter,
        )
        parser.set_defaults(verb=verb)
        verb.add_arguments(parser)
        parser.add_argument("--quiet", action="store_true", help="no progress and no warnings, errors only")
    return top


def _describe(verb: Verb) -> Iterator[str]:
    yield f"{verb.summary[0].upper()}{verb.summary[1:]}.\n\nexamples:"
    for line in verb.examples.strip().splitlines():
        yield f"  {line.strip()}"
    yield f"\n{verb.description.strip()}"


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
