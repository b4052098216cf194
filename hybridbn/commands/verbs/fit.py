"""``hybridbn fit``: learn a model from a table."""

from __future__ import annotations

import argparse
from typing import ClassVar

from hybridbn.commands.terminal import Terminal, UsageFault, keep_interrupts
from hybridbn.commands.verb import TEXT_OPTIONS, Groups, Verb


class Fit(Verb):
    """Learns a model from a table."""

    summary = "learn a model from a table"
    examples = """
hybridbn fit patients.csv model.hbn
hybridbn fit patients.csv model.hbn --target disease
hybridbn fit patients.csv model.hbn --structure tan --target disease --potentials gaussian
hybridbn fit patients.csv model.hbn --structure 'age -> disease <- sex; disease -> cholesterol'
hybridbn fit 'sqlite:///study.db?table=visits' model.bif --discrete ward --potentials multinomial
hybridbn fit 'days*.parquet' model.hbn --structure tan --target disease --workers 4
hybridbn fit /data/days model.hbn --structure tan --target disease --scheduler tcp://127.0.0.1:8786
"""
    description = """
A network of the columns is learned, and saved as .hbn (every kind of model) or in another format of
networks, by the suffix. Cells may be missing. Without --structure the one that predicts the target
best is chosen, or without --target arcs in any direction (hill_climb). Identifiers, free text and
columns without any value are left out, which is told.

With --backend, --workers or --scheduler a table of any size is read in passes, and learned from exactly
instead of from a sample of its rows; DATA may then be a folder, a pattern of files, an address of an
object store, and with --backend duckdb a query. Tables of probabilities are the same to the last bit
whoever reads, densities of numbers but for rounding.
"""
    groups: ClassVar[Groups] = {
        "": {
            "input": {"metavar": "DATA", "help": "a file, a table of a database, or -"},
            "model": {"metavar": "MODEL", "help": "a file of a network, such as model.hbn"},
            "--bins": {},
            "--no-clobber": {},
        },
        "the model": {
            "--structure": {
                "help": "auto (default), tan, kdb, naive_bayes, hill_climb, chow_liu, mixture, ... of"
                " hybridbn.structures, or arcs such as 'a -> b <- c'"
            },
            "--target": {"help": "the column to predict; structures such as tan need it"},
            "--potentials": {},
            "--sample": {},
        },
        "how the table is read": {
            "--discrete": {},
            "--continuous": {},
            "--keep": {},
            "--include": {},
            "--format": {},
            **TEXT_OPTIONS,
        },
        "who reads the table, of any size, to learn from all of its rows": {
            "--backend": {
                "help": "who does the work (%(known)s); local is this machine, and duckdb reads queries, too, and"
                " counts by SQL where that is cheaper"
            },
            "--workers": {},
            "--scheduler": {},
        },
    }

    def run(self, options: argparse.Namespace, terminal: Terminal) -> None:
        """Fit."""
        from hybridbn.commands.models import find_structure, learn_model, refuse_model_output
        from hybridbn.commands.table_input import TableRequest
        from hybridbn.fitting.base import check_spec

        is_open = options.structure == "auto" and options.target is None
        structure = "hill_climb" if is_open else options.structure
        check_spec(options.potentials)
        build = find_structure(structure)
        if build.structure is None and build.declaration.takes_target and options.target is None:
            raise UsageFault(f"--structure {structure} needs a column to predict; name it with --target")
        if options.bins is not None and options.model.lower().endswith(".hbn"):
            raise UsageFault("--bins is for formats without continuous nodes, and .hbn holds them; leave it out")
        refuse_model_output(options.input, options.model, options.no_clobber)
        keep_interrupts()
        learn_model(TableRequest.of(options), build, options.potentials, options.model, terminal, bins=options.bins)
