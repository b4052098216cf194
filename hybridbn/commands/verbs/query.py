"""``hybridbn query``: the posterior of a node given what is known of others."""

from __future__ import annotations

import argparse
from typing import ClassVar

from hybridbn.commands.terminal import Terminal
from hybridbn.commands.verb import ANSWERS, Groups, Verb


class Query(Verb):
    """Prints the posterior of a node."""

    summary = "ask a model for the posterior of a node"
    examples = """
hybridbn query model.hbn disease
hybridbn query model.hbn disease age=62 sex=female
hybridbn query model.hbn disease cholesterol=200:260 'ward={a,b}'
hybridbn query model.hbn cholesterol disease=yes --json
hybridbn query alarm.bif HYPOVOLEMIA HR=HIGH CO=LOW > posterior.csv
"""
    description = """
What is known may be a value (age=62, sex=female), an interval of a number (age=40:60, age=40: or
age=:60), some states (ward={a,b}) or their likelihoods (test={positive:0.9,negative:0.2}). Dates and
times are written as in the table that the model was learned from. Any other node may be unknown.
A model is a network in .hbn .bif .elv .xmlbif .xdsl .net .uai.
"""
    groups: ClassVar[Groups] = {
        "": {
            "model": {"metavar": "MODEL", "help": "a file of a network"},
            "target": {"metavar": "TARGET", "help": "a node, which may be known in part only"},
            "evidence": {"metavar": "NAME=VALUE", "nargs": "*", "help": "what is known of other nodes"},
            "--level": {"help": "probability of the interval of a number (default 0.9)"},
        },
        **ANSWERS,
    }

    def run(self, options: argparse.Namespace, terminal: Terminal) -> None:
        """Query."""
        from hybridbn.commands.models import find_node, parse_evidence, read_model
        from hybridbn.commands.printing import (
            HEADER,
            Style,
            choose_form,
            describe_posterior,
            draw_posterior,
            list_posterior,
            print_rows,
        )
        from hybridbn.inference.queries import allow_draws
        from hybridbn.options import Options

        with terminal.forward_warnings():
            network = read_model(options.model)
            find_node(network, options.target)
            evidence = parse_evidence(network, options.evidence)
            posterior = network.posterior(
                options.target, evidence, options=allow_draws(network, options.target, Options())
            )
            log_evidence = float(posterior.log_evidence)
            form, level, target = choose_form(options.form), options.level, options.target
            tree = {
                "target": target,
                "evidence": options.evidence,
                "log_evidence": log_evidence,
                **describe_posterior(posterior, level),
            }
            rows = list_posterior(target, posterior, level) if form == "csv" else ()
            text = draw_posterior(target, posterior, level, Style()) if form == "text" else ""
        print_rows(terminal, form, HEADER, rows, tree, text)
