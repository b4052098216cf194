"""``hybridbn impute``: fill the holes of a table."""

from __future__ import annotations

import argparse
from typing import Any, ClassVar

from hybridbn.commands.terminal import Terminal, UsageFault
from hybridbn.commands.verb import (
    TEXT_OPTIONS,
    Groups,
    Verb,
    list_options,
    parse_bounds,
    parse_count,
    parse_names,
    parse_positive,
)
from hybridbn.options import ImputationOptions


class Impute(Verb):
    """Fills the holes of a table."""

    summary = "fill the holes of a table"
    examples = """
  hybridbn impute patients.csv completed.csv
  hybridbn impute patients.csv completed.parquet --draws 20 --seed 1 --report report.html
  hybridbn impute 'sqlite:///study.db?table=visits' 'sqlite:///study.db?table=visits_completed'
  hybridbn impute 'postgresql+psycopg://me@host/base?table=t' 'postgresql+psycopg://me@host/base?schema=s&table=u'
  hybridbn impute train.csv train_completed.csv --save-model model.hbn
  hybridbn impute new.csv new_completed.csv --model model.hbn
  hybridbn impute big.parquet completed.parquet --scheduler tcp://127.0.0.1:8786
  hybridbn impute big.csv completed2.csv --model model.hbn --rows 1000000:2000000
  zcat big.csv.gz | hybridbn impute - - --format csv | wc -l
"""
    description = """
Fill the holes of a table: a Bayesian network of all columns is learned from the incomplete table,
and the missing cells of each row are drawn together given its observed cells. Observed cells, the
order of rows and columns, and in a text file every other byte stay as they are. Tables may be larger
than the memory.

How a CSV or TSV file is written (delimiter, decimal sign, thousands, encoding) is found from its first
64 KB, told in one line, and kept; options override it.
A file's suffix tells its format: .csv .tsv .arff .jsonl (also .gz) .parquet .feather;
sqlite:///file.db?table=name is a table of a database, as is every address that SQLAlchemy knows with
?table=name (or, of INPUT, ?query=SELECT ...) behind it; - is a pipe. The output appears complete or
not at all. An existing file is replaced at that moment, an existing table is refused.
"""
    exit_codes = """\
exit codes:
  0    the output is there, complete
  2    the input, the model or an option can't be used; the message says why
  70   a fault of hybridbn itself; please report it
  73   the output can't be made: another run is writing it, there is such a table (or, with
       --no-clobber, file) already, or the folder can't be written to
  74   writing failed: the disk is full or broken; nothing is left behind (where only --show can't be
       printed, the output is there)
  75   input, options or versions are not those of the unfinished run (--restart begins anew), or the
       input changed while it was read
  130  interrupted (143 by SIGTERM, 129 by SIGHUP); the same command goes on from there, as it does
       after kill -9 (into a pipe, or without --parts into a database on a server, it begins anew)
"""
    groups: ClassVar[Groups] = {
        "": {
            "input": {"metavar": "INPUT", "help": "a file, a table of a database, a folder, a pattern of files, or -"},
            "output": {
                "metavar": "OUTPUT",
                "help": "a file, a new table of a database, or -; of several files a folder",
            },
        },
        "what is imputed": {
            "--draws": {
                "type": parse_positive,
                "metavar": "M",
                "help": "M completed tables one after the other, with a first column that counts them; parameters are"
                " drawn, too, so that they differ as much as is unknown",
            },
            **list_options(ImputationOptions, strategy=str),
            "--seed": {
                "dest": "random_state",
                "type": parse_count,
                "default": 0,
                "metavar": "N",
                "help": "of the random numbers (default 0); the same seed gives the same bytes",
            },
            "--discrete": {},
            "--continuous": {},
            "--keep": {},
            **list_options(ImputationOptions, include=parse_names, bounds=parse_bounds, full_precision=bool),
        },
        "the model": {
            "--structure": {"help": "auto (default), tan, chow_liu, naive_bayes, kdb, ... of hybridbn.structures"},
            "--target": {
                "help": "the target column of a structure that has one; by default the one that tells most about the"
                " others"
            },
            "--potentials": {},
            **list_options(ImputationOptions, donors=bool, rules=bool, rounds=parse_count),
            "--sample": {},
            "--model": {
                "metavar": "FILE.hbn",
                "help": "use this network, of --save-model or of Network.save, instead of learning one",
            },
            "--save-model": {"metavar": "FILE.hbn", "help": "save what was learned"},
            "--unknown": {
                "help": "with --model: refuse states that it doesn't know (default), or leave them and let them tell"
                " nothing"
            },
        },
        "who imputes; the bytes of the output don't depend on it": {
            "--backend": {
                "help": "who does the work (%(known)s); local is this machine, and duckdb reads a query or its files;"
                " this process reads and writes the blocks of rows"
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
            "--draw-column": {
                "default": "draw",
                "metavar": "NAME",
                "help": "the name of the column that counts the draws (default draw)",
            },
            "--no-clobber": {"help": "refuse to replace existing files (tables of databases are never replaced)"},
            "--restart": {
                "action": "store_true",
                "help": "forget what an unfinished run left beside the output (OUTPUT.parts)",
            },
            "--parts": {
                "metavar": "FOLDER",
                "help": "keep what an unfinished run leaves in this folder; a run into a table on a server can only be"
                " taken up with it, and works in the system's temporary folder otherwise",
            },
            "--chunk": {},
        },
        "what is said": {
            "--report": {
                "metavar": "FILE.html",
                "help": "a page with observed and imputed distributions, patterns of missing cells, and the course of"
                " learning",
            },
            "--show": {
                "type": parse_count,
                "nargs": "?",
                "const": 8,
                "default": 0,
                "metavar": "N",
                "help": "print the first N (8) rows that had holes",
            },
        },
    }

    def run(self, options: argparse.Namespace, terminal: Terminal) -> None:
        """Impute."""
        from hybridbn.commands.impute import LEARNING, ImputationRequest, impute_inputs

        given = vars(options)
        if options.model is not None:
            for name, value in LEARNING.items():
                if given[name] != value:
                    raise UsageFault(
                        f"--model is used as it is; --{name.replace('_', '-')} is for learning: leave one of the two"
                        " out"
                    )
        elif options.rows is not None:
            raise UsageFault("--rows are completed by a learned model; name it with --model")
        if options.draws is not None and options.strategy != "draw":
            raise UsageFault(f"--draws of --strategy {options.strategy} would all be equal; leave one of the two out")
        bounds: Any = dict(options.bounds)
        if "" in bounds and len(bounds) > 1:
            raise UsageFault("--bounds observed is for all columns; leave the others out")
        bounds = None if not bounds else "observed" if "" in bounds else bounds
        impute_inputs(ImputationRequest.of(options, bounds=bounds), terminal)
