"""``hybridbn predict``: a table with the predictions of a column."""

from __future__ import annotations

import argparse
from typing import ClassVar

from hybridbn.commands.terminal import Terminal, keep_interrupts
from hybridbn.commands.verb import TEXT_OPTIONS, Groups, Verb


class Predict(Verb):
    """Adds the predictions of a column to a table."""

    summary = "add the predictions of a column to a table"
    examples = """
hybridbn predict model.hbn new.csv predicted.csv --target disease
hybridbn predict model.hbn new.csv predicted.parquet --target cholesterol --level 0.95
hybridbn predict model.hbn 'sqlite:///study.db?table=visits' 'sqlite:///study.db?table=predicted' --target y
hybridbn predict model.hbn new.parquet predicted.parquet --target disease --workers 4
hybridbn predict model.hbn big.parquet predicted2.parquet --target disease --rows 1000000:2000000
zcat new.csv.gz | hybridbn predict model.hbn - - --format csv --target disease > predicted.csv
"""
    description = """
Each row gets the posterior of the target given its other cells, of which any may be missing. A target
with states gets the columns A_predicted (the most probable state) and A_probability_STATE for each
state; a number gets A_mean, A_sd, A_low and A_high, the ends of the interval. What the table holds of
the target itself tells nothing. Tables may be larger than the memory; the output appears complete or
not at all.
"""
    groups: ClassVar[Groups] = {
        "": {
            "model": {"metavar": "MODEL", "help": "a file of a network"},
            "input": {"metavar": "DATA", "help": "a file, a table of a database, a folder, a pattern of files, or -"},
            "output": {"metavar": "OUT", "help": "a file, a new table of a database, or -; of several files a folder"},
        },
        "what is predicted": {
            "--target": {"required": True, "help": "the column to predict, a node"},
            "--level": {"help": "probability of the interval of a number (default 0.9)"},
            "--prefix": {
                "metavar": "TEXT",
                "help": "what the names of the new columns begin with (default: the target and _)",
            },
            "--unknown": {"help": "refuse states that the model doesn't know (default), or let them tell nothing"},
        },
        "who predicts; the bytes of the output don't depend on it": {
            "--backend": {
                "help": "local (this machine), duckdb (which reads a query or its files), dask, spark or another"
                " backend; this process reads and writes the blocks of rows"
            },
            "--workers": {},
            "--scheduler": {},
        },
        "files": {
            "--format": {},
            "--from": {},
            "--to": {},
            **TEXT_OPTIONS,
            "--rows": {},
            "--chunk": {},
            "--no-clobber": {"help": "refuse to replace an existing file (tables of databases are never replaced)"},
        },
    }

    def run(self, options: argparse.Namespace, terminal: Terminal) -> None:
        """Predict."""
        from functools import partial

        from hybridbn.commands.prediction import PredictionRequest, predict
        from hybridbn.commands.table_input import answer_inputs

        keep_interrupts()
        answer_inputs(PredictionRequest.of(options), partial(predict, terminal=terminal), terminal)
