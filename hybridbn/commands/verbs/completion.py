"""``hybridbn completion``: a script that lets a shell complete the verbs and options."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Iterator, Mapping
from typing import Any

from hybridbn.commands.terminal import Terminal
from hybridbn.commands.verb import Verb, make_parser

__all__ = ["ShellCompletion"]


class ShellCompletion(Verb):
    """Prints a script for a shell."""

    name = "completion"
    arguments = "SHELL"
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

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare the arguments."""
        parser.add_argument("shell", metavar="SHELL", choices=("bash", "zsh", "fish"), help="bash, zsh or fish")
        parser.set_defaults(quiet=False)

    def run(self, options: argparse.Namespace, terminal: Terminal) -> None:
        """Print the script."""
        write = {"bash": _write_bash, "zsh": _write_zsh, "fish": _write_fish}[options.shell]
        terminal.show("\n".join(write(_list_words())))


def _list_words() -> dict[str, tuple[str, dict[str, tuple[str, list[str] | None]]]]:
    """Return the summary of each verb, and its options with their help and values.

    Values are None for an option that takes none, and empty where they aren't chosen from a list.
    """
    [commands] = [action for action in make_parser()._actions if isinstance(action, argparse._SubParsersAction)]
    summaries = {action.dest: str(action.help) for action in commands._choices_actions}
    return {
        name: (
            summaries[name],
            {
                option: (_first_words(parser, action), None if action.nargs == 0 else _list_values(action))
                for action in parser._actions
                for option in action.option_strings
                if option.startswith("--")
            },
        )
        for name, parser in commands.choices.items()
    }


def _first_words(parser: argparse.ArgumentParser, action: argparse.Action) -> str:
    text = " ".join(str(action.help or "").split())
    return text.partition(";")[0].partition(" (")[0].partition("%(")[0].strip()


def _list_values(action: argparse.Action) -> list[str]:
    if action.dest == "structure":
        from hybridbn.structures.building import BUILDERS

        return ["auto", *sorted(BUILDERS)]
    if action.dest == "potentials":
        from hybridbn.fitting.fitter_choice import list_fitter_names

        return ["auto", *list_fitter_names()]
    return [str(choice) for choice in action.choices or ()]


Words = Mapping[str, tuple[str, Mapping[str, tuple[str, Any]]]]


def _write_bash(words: Words) -> Iterator[str]:
    yield "_hybridbn() {"
    yield '  local word="${COMP_WORDS[COMP_CWORD]}" before="${COMP_WORDS[COMP_CWORD-1]}" verb="${COMP_WORDS[1]}"'
    yield "  COMPREPLY=()"
    yield "  if ((COMP_CWORD == 1)); then"
    yield f'    COMPREPLY=($(compgen -W "{" ".join(words)} --help --version" -- "$word"))'
    yield "    return"
    yield "  fi"
    yield '  case "$verb $before" in'
    for verb, (_, options) in words.items():
        for option, (_, values) in options.items():
            if values:
                reply = f'COMPREPLY=($(compgen -W {shlex.quote(" ".join(values))} -- "$word"))'
                yield f'    "{verb} {option}") {reply}; return ;;'
    yield "  esac"
    yield "  if [[ $word == -* ]]; then"
    yield '    case "$verb" in'
    for verb, (_, options) in words.items():
        yield f'      {verb}) COMPREPLY=($(compgen -W "{" ".join(options)}" -- "$word")) ;;'
    yield "    esac"
    yield "  elif [[ $verb == completion ]]; then"
    yield '    COMPREPLY=($(compgen -W "bash zsh fish" -- "$word"))'
    yield "  fi"
    yield "}"
    yield "complete -o default -F _hybridbn hybridbn"


def _write_zsh(words: Words) -> Iterator[str]:
    yield "#compdef hybridbn"
    yield "_hybridbn() {"
    yield "  local -a listed"
    yield "  if ((CURRENT == 2)); then"
    yield f"    listed=({' '.join(shlex.quote(f'{verb}:{summary}') for verb, (summary, _) in words.items())})"
    yield "    _describe command listed"
    yield "    return"
    yield "  fi"
    yield '  case "$words[2] $words[CURRENT-1]" in'
    for verb, (_, options) in words.items():
        for option, (_, values) in options.items():
            if values:
                yield f'    "{verb} {option}") compadd -- {" ".join(map(shlex.quote, values))}; return ;;'
    yield "  esac"
    yield "  if [[ $words[CURRENT] == -* ]]; then"
    yield '    case "$words[2]" in'
    for verb, (_, options) in words.items():
        pairs = " ".join(shlex.quote(f"{option}:{text}") for option, (text, _) in options.items())
        yield f"      {verb}) listed=({pairs}) ;;"
    yield "    esac"
    yield "    _describe option listed"
    yield "  elif [[ $words[2] == completion ]]; then"
    yield "    compadd -- bash zsh fish"
    yield "  else"
    yield "    _files"
    yield "  fi"
    yield "}"
    yield "compdef _hybridbn hybridbn"


def _write_fish(words: Words) -> Iterator[str]:
    yield f"set -l verbs {' '.join(words)}"
    for verb, (summary, options) in words.items():
        yield (
            f'complete -c hybridbn -n "not __fish_seen_subcommand_from $verbs" -f -a {verb}'
            f" -d {_quote_for_fish(summary)}"
        )
        for option, (text, values) in options.items():
            takes = "" if values is None else " -r"
            takes += f" -f -a {_quote_for_fish(' '.join(values))}" if values else ""
            yield (
                f'complete -c hybridbn -n "__fish_seen_subcommand_from {verb}" -l {option[2:]}{takes}'
                f" -d {_quote_for_fish(text)}"
            )
    yield 'complete -c hybridbn -n "__fish_seen_subcommand_from completion" -f -a "bash zsh fish"'


def _quote_for_fish(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
