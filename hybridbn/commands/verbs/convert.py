"""``hybridbn convert``: a network or a table in another format."""

from __future__ import annotations

import argparse
from typing import ClassVar

from hybridbn.commands.terminal import Terminal
from hybridbn.commands.verb import TEXT_OPTIONS, Groups, Verb


class Convert(Verb):
    """Writes a network or a table in another format."""

    summary = "write a network or a table in another format"
    examples = """
hybridbn convert alarm.bif alarm.xdsl
hybridbn convert market.hbn market.bif.gz --bins 8
hybridbn convert patients.csv patients.parquet --discrete ward
hybridbn convert 'sqlite:///study.db?table=visits' visits.csv
"""
    description = """
Write a network or a table in another format, by the suffixes: networks as .hbn .bif .elv .xmlbif .xdsl
.net .uai, tables as .csv .tsv .arff .jsonl .parquet .feather or in a database (sqlite:///file.db?table=name,
and whatever SQLAlchemy knows); .dbc tables can be read. Texts may be packed (.bif.gz, .csv.gz).
What a format can't hold is refused by name. The output appears complete or not at all.
"""
    groups: ClassVar[Groups] = {
        "": {
            "input": {"metavar": "INPUT", "help": "a file, or a table of a database"},
            "output": {"metavar": "OUTPUT", "help": "a file, or a new table of a database"},
            "--bins": {},
            "--no-clobber": {},
        },
        "how a table is read": {"--discrete": {}, "--continuous": {}, **TEXT_OPTIONS},
    }

    def run(self, options: argparse.Namespace, terminal: Terminal) -> None:
        """Convert."""
        from hybridbn.commands.convert import convert
        from hybridbn.commands.table_input import TableRequest

        convert(TableRequest.of(options), terminal, bins=options.bins)
