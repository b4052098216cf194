"""``hybridbn show``: the nodes of a model, their parents and their beliefs."""

from __future__ import annotations

import argparse
from typing import ClassVar

from hybridbn.commands.terminal import Terminal
from hybridbn.commands.verb import ANSWERS, Groups, Verb


class Show(Verb):
    """Prints a model."""

    summary = "print a model: nodes, parents and beliefs"
    examples = """
hybridbn show model.hbn
hybridbn show alarm.bif.gz --text | less
hybridbn show model.hbn --json > model.json
"""
    description = """
Prints what the nodes are, their parents and families, and what is believed of each while nothing is
known: the probabilities of states, and the mean, the standard deviation and an interval of a number.
"""
    groups: ClassVar[Groups] = {
        "": {
            "model": {"metavar": "MODEL", "help": "a file of a network"},
            "--level": {"help": "probability of the intervals of numbers (default 0.9)"},
        },
        **ANSWERS,
    }

    def run(self, options: argparse.Namespace, terminal: Terminal) -> None:
        """Show."""
        from hybridbn.commands.models import read_model
        from hybridbn.commands.printing import (
            HEADER,
            Style,
            choose_form,
            describe_posterior,
            draw_posterior,
            list_posterior,
            print_rows,
        )
        from hybridbn.errors import TooWide
        from hybridbn.network_description import as_text

        form, level = choose_form(options.form), options.level
        with terminal.forward_warnings():
            network = read_model(options.model)
            try:
                beliefs = network.posteriors()
            except TooWide as error:
                if form == "csv":
                    raise
                terminal.warn(f"beliefs are not shown: {error}")
                beliefs = {}
            style = Style()
            nodes = [
                {
                    "name": name,
                    "parents": [parent.name for parent in network.potential(name).parents],
                    "potential": type(network.potential(name)).__name__,
                    **(describe_posterior(beliefs[name], level) if name in beliefs and form == "json" else {}),
                }
                for name in network
            ]
            rows = [row for name in beliefs if form == "csv" for row in list_posterior(name, beliefs[name], level)]
            drawn = [draw_posterior(name, beliefs[name], level, style) for name in beliefs if form == "text"]
        text = "\n".join([as_text(network), *(["", *drawn] if drawn else [])])
        print_rows(terminal, form, HEADER, rows, {"nodes": nodes}, text)
