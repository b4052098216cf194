"""``hybridbn check``: what is in a table or a model, and what is wrong with it."""

from __future__ import annotations

import argparse
from typing import ClassVar

from hybridbn.commands.terminal import Terminal, keep_interrupts
from hybridbn.commands.verb import ANSWERS, TEXT_OPTIONS, Groups, Verb


class Check(Verb):
    """Says what is wrong with a table or a model."""

    summary = "say what is in a table or a model, and what is wrong with it"
    examples = """
hybridbn check patients.csv
hybridbn check patients.csv --missing -99 --discrete ward
hybridbn check 'sqlite:///study.db?table=visits' --csv > columns.csv
hybridbn check model.hbn
"""
    description = """
Of a table: how a CSV or TSV file is written, what each column is (numbers, states, dates), how many of
its cells are missing, and what is odd: no or only one value, identifiers and free text, repeated
numbers such as -99 that may mark missing cells, a few numbers far from all others. Of a model: whether
its nodes, arcs and numbers fit together. What can't be used at all, such as a damaged file, ends with
exit code 2.
"""
    groups: ClassVar[Groups] = {
        "": {"input": {"metavar": "DATA|MODEL", "help": "a table (file, database or -) or a network"}},
        "how a table is read": {"--discrete": {}, "--continuous": {}, "--format": {}, **TEXT_OPTIONS},
        **ANSWERS,
    }

    def run(self, options: argparse.Namespace, terminal: Terminal) -> None:
        """Check."""
        from hybridbn.commands.convert import names_network
        from hybridbn.commands.printing import check_model, check_table
        from hybridbn.commands.table_input import TableRequest

        keep_interrupts()
        if options.format is None and names_network(options.input):
            check_model(options.input, options.form, terminal)
        else:
            check_table(TableRequest.of(options), options.form, terminal)
