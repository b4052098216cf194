"""``hybridbn completion``: a script that lets a shell complete the verbs and options."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from shlex import quote
from typing import ClassVar, NamedTuple

from hybridbn.commands.terminal import Terminal
from hybridbn.commands.verb import Groups, Verb, make_parser


class _Word(NamedTuple):
    """An option of a command, or after its options the command itself, whose option is empty.

    Attributes
    ----------
    values : list of str
        What may follow, where that is chosen from a list.
    alone : bool
        Whether nothing follows.
    """

    command: str
    option: str
    text: str
    values: list[str]
    alone: bool


def _list_words() -> Iterator[_Word]:
    [commands] = [action for action in make_parser()._actions if isinstance(action, argparse._SubParsersAction)]
    for command in commands._choices_actions:
        listed: list[str] = []
        for action in commands.choices[command.dest]._actions:
            values = [str(value) for value in vars(action).get("known", action.choices) or ()]
            listed += [] if action.option_strings else values
            # the first words of the help
            text = " ".join(str(action.help).split()).partition(";")[0].partition(" (")[0].partition("%(")[0].strip()
            for option in action.option_strings:
                if option.startswith("--"):
                    yield _Word(command.dest, option, text, values, action.nargs == 0)
        yield _Word(command.dest, "", str(command.help), listed, False)


def _fill(script: str, describe: Callable[[str, str], str], words: list[_Word]) -> str:
    """Fill in the script of a shell that puts the words that may follow into `listed`, each of them with its help."""
    commands = {word.command: word.text for word in words if not word.option}
    options = {
        name: " ".join(describe(word.option, word.text) for word in words if word.option and word.command == name)
        for name in commands
    }
    values = {
        f'"{word.command} {word.option}"{"" if word.option else "*"}': " ".join(map(quote, word.values))
        for word in words
        if word.values
    }
    return script % {
        "commands": " ".join(describe(name, text) for name, text in commands.items()),
        "options": _write_cases(options),
        "values": _write_cases(values),
    }


def _write_cases(listed: Mapping[str, str]) -> str:
    return "\n".join(f"    {pattern}) listed=({words}) ;;" for pattern, words in listed.items())


_BASH = """\
_hybridbn() {
  local word="${COMP_WORDS[COMP_CWORD]}" before="${COMP_WORDS[COMP_CWORD-1]}" verb="${COMP_WORDS[1]}" listed=()
  case "$verb $before" in
%(values)s
  esac
  if ((COMP_CWORD == 1)); then
    listed=(%(commands)s --help --version)
  elif [[ $word == -* ]]; then
    case "$verb" in
%(options)s
    esac
  fi
  COMPREPLY=($(compgen -W "${listed[*]}" -- "$word"))
}
complete -o default -F _hybridbn hybridbn"""

_ZSH = """\
#compdef hybridbn
_hybridbn() {
  local -a listed
  case "$words[2] $words[CURRENT-1]" in
%(values)s
  esac
  if ((CURRENT == 2)); then
    listed=(%(commands)s)
    _describe command listed
  elif [[ $words[CURRENT] == -* ]]; then
    case "$words[2]" in
%(options)s
    esac
    _describe option listed
  elif (($#listed)); then
    compadd -- $listed
  else
    _files
  fi
}
compdef _hybridbn hybridbn"""


def _write_fish(words: list[_Word]) -> str:
    commands = [word for word in words if not word.option]
    lines = [f"set -l verbs {' '.join(word.command for word in commands)}"]
    lines += [
        f'complete -c hybridbn -n "not __fish_seen_subcommand_from $verbs" -f -a {word.command}'
        f" -d {_quote_for_fish(word.text)}"
        for word in commands
    ]
    for word in words:
        values = f" -f -a {_quote_for_fish(' '.join(word.values))}" if word.values else ""
        option = f" -l {word.option[2:]}{'' if word.alone else ' -r'}" if word.option else ""
        text = f" -d {_quote_for_fish(word.text)}" if word.option else ""
        if option or values:
            lines.append(f'complete -c hybridbn -n "__fish_seen_subcommand_from {word.command}"{option}{values}{text}')
    return "\n".join(lines)


def _quote_for_fish(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


_WRITERS: dict[str, Callable[[list[_Word]], str]] = {
    "bash": partial(_fill, _BASH, lambda word, text: word),
    "zsh": partial(_fill, _ZSH, lambda word, text: quote(f"{word}:{text}")),
    "fish": _write_fish,
}


class ShellCompletion(Verb):
    """Prints a script for a shell."""

    summary = "print the completion of commands and options for a shell"
    examples = """
eval "$(hybridbn completion bash)"                                        in ~/.bashrc
eval "$(hybridbn completion zsh)"                                         in ~/.zshrc, after compinit
hybridbn completion fish > ~/.config/fish/completions/hybridbn.fish
"""
    description = """
Completes commands, options, and the values of options that are chosen from a list, such as the names
of structures; all other words are completed as files.
"""

    groups: ClassVar[Groups] = {
        "": {"shell": {"metavar": "SHELL", "choices": [*_WRITERS], "help": "bash, zsh or fish"}}
    }

    def run(self, options: argparse.Namespace, terminal: Terminal) -> None:
        """Print the script."""
        terminal.show(_WRITERS[options.shell](list(_list_words())))
