"""What the reproductions of papers share: folders of datasets, folds, repeated cross-validation, progress, tables,
published figures.

A folder of datasets has a `manifest.csv` with the columns name, file and target, and, as far as they are needed, task
("regression" or "classification"), drop (columns that are no attributes: identifiers) and tables (of which papers a
dataset is part).
"""

import csv
import math
import os
import sys
import time
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy import stats

import hybridbn as hb

__all__ = [
    "Dataset",
    "Figure",
    "Progress",
    "Record",
    "comparable",
    "cross_validated",
    "datasets_of",
    "folds",
    "judge",
    "layout",
    "read_published",
    "read_records",
    "significant",
    "summaries",
    "write_records",
]


FEWEST = 6
"""A sign test can't be significant on fewer datasets: 2 * 0.5**5 is above 5 %."""


def judge(holds, datasets, words=("holds", "DOES NOT HOLD")):
    """Return in a word whether what is expected of many datasets holds, unless too few of them were run to tell.

    Examples
    --------
    >>> judge(False, 20), judge(True, 20, ("within", "OUTSIDE"))
    ('DOES NOT HOLD', 'within')
    >>> judge(False, 2)
    'too few datasets were run to tell (2; at least 6 are needed)'
    """
    if datasets < FEWEST:
        return f"too few datasets were run to tell ({datasets}; at least {FEWEST} are needed)"
    return words[0] if holds else words[1]


# -- datasets ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Dataset:
    """A table whose target has no missing cell.

    Attributes
    ----------
    name : str
    table : hybridbn.Table
    target : str
    tables : str
        What the manifest says about where the dataset belongs.
    """

    name: str
    table: Any
    target: str
    tables: str = ""

    def __len__(self):
        return len(self.table)


def datasets_of(folder, task, paper="", names=()):
    """Read the datasets of a folder, by size.

    Parameters
    ----------
    folder : path
    task : "regression" or "classification"
        A dataset without a task in the manifest is one of regression if its target is a column of numbers.
    paper : str
        Leave out the datasets whose `tables` mention other papers only; those that mention none stay.
    names : sequence of str
        Only these, wherever they belong; in any case.
    """
    wanted = {name.lower() for name in names}
    with open(Path(folder) / "manifest.csv", newline="", encoding="utf-8") as file:
        rows = [{key: (value or "").strip() for key, value in row.items() if key} for row in csv.DictReader(file)]
    found = []
    for row in rows:
        tables = row.get("tables", "")
        if wanted and row["name"].lower() not in wanted:
            continue
        if not wanted and tables and paper not in tables:
            continue
        if row.get("task", "") not in ("", task):
            continue
        dataset = _dataset(Path(folder), row, task)
        if dataset is not None:
            found.append(dataset)
    return sorted(found, key=len)


def _dataset(folder, row, task):
    target = row["target"]
    table = hb.read_table(folder / row["file"])
    if not row.get("task") and table.is_discrete(target) != (task == "classification"):
        return None
    if task == "classification" and not table.is_discrete(target):
        table = hb.read_table(folder / row["file"], discrete=[target])
    drop = row.get("drop", "")
    left_out = [drop] if drop in table else drop.replace(",", " ").replace(";", " ").split()
    table = table.drop(left_out)
    table = table.keep_columns(table.names)  # papers learn from all of their columns, from running numbers as well
    column = table.column(target)
    known = column >= 0 if table.is_discrete(target) else ~np.isnan(column)
    return Dataset(row["name"], table.take(known), target, row.get("tables", ""))


# -- cross-validation --------------------------------------------------------------------------------------------------


class Record(NamedTuple):
    """A figure of one cross-validation: the mean over its folds."""

    dataset: str
    repetition: int
    method: str
    measure: str
    value: float


def folds(rows, count, seed, classes=None):
    """Return the test rows of each fold of a shuffled sample; with classes, each fold has its share of every class."""
    order = np.random.default_rng(seed).permutation(rows)
    if classes is not None:
        order = order[np.argsort(np.asarray(classes)[order], kind="stable")]
    count = min(count, rows)
    return [np.sort(order[fold::count]) for fold in range(count)]


def cross_validated(dataset, methods, measures, *, repetitions=10, count=10, seed=0, progress=None):
    """Cross-validate methods repeatedly, all of them on the same folds.

    Parameters
    ----------
    dataset : Dataset
        The folds of a discrete target are stratified.
    methods : mapping from names to functions of (training table, test table, target)
        They return predictions, or a mapping from further names to predictions where one fit gives several.
    measures : mapping from names to functions of (true values or codes, predictions) of a test fold
        A fold for which a measure is NaN does not count.
    repetitions, count : int
        Cross-validations, and folds of each.
    """
    truth = dataset.table.column(dataset.target)
    classes = truth if dataset.table.is_discrete(dataset.target) else None
    records = []
    for repetition in range(repetitions):
        scores = defaultdict(list)
        for test in folds(len(truth), count, [seed, repetition], classes):
            held_out = np.zeros(len(truth), dtype=bool)
            held_out[test] = True
            training, rows = dataset.table.take(~held_out), dataset.table.take(held_out)
            for name, method in methods.items():
                predicted = method(training, rows, dataset.target)
                for label, values in (predicted if isinstance(predicted, dict) else {name: predicted}).items():
                    for measure, function in measures.items():
                        scores[label, measure].append(function(truth[held_out], np.asarray(values)))
            if progress is not None:
                progress.step(f"{dataset.name} {repetition + 1}/{repetitions}")
        for (label, measure), values in scores.items():
            known = [value for value in values if not math.isnan(value)]
            value = float(np.mean(known)) if known else math.nan
            records.append(Record(dataset.name, repetition, label, measure, value))
    return records


def summaries(records):
    """Return the values of each (dataset, method, measure) in the order of the repetitions."""
    found = defaultdict(list)
    for record in sorted(records, key=lambda record: record.repetition):
        found[record.dataset, record.method, record.measure].append(record.value)
    return {key: np.array(values) for key, values in found.items()}


def significant(first, second, level=0.01):
    """Compare errors of the same cross-validations by a paired two-sided t-test: -1 if the first is less, 1 if greater,
    else 0.
    """
    first, second = np.asarray(first), np.asarray(second)
    difference = first - second
    if len(first) != len(second) or len(first) < 2 or not np.isfinite(difference).all():
        return 0
    if np.ptp(difference) == 0:
        return int(np.sign(difference[0]))
    return int(np.sign(difference.mean())) if stats.ttest_rel(first, second).pvalue < level else 0


# -- progress ----------------------------------------------------------------------------------------------------------


class Progress:
    """A bar on standard error, if that is a terminal."""

    def __init__(self, total, stream=None):
        self.total, self.done = total, 0
        self.stream = sys.stderr if stream is None else stream
        self.shown = self.stream.isatty()
        self.start = time.monotonic()

    def step(self, text, count=1):
        """Go on by some steps."""
        self.done += count
        if not self.shown:
            return
        share = min(1.0, self.done / max(self.total, 1))
        left = (time.monotonic() - self.start) * (1 - share) / share
        bar = "#" * round(30 * share)
        self.stream.write(f"\r[{bar:<30}] {share:4.0%} {left / 60:5.1f} min left  {text[:40]:<40}")
        self.stream.flush()

    def close(self):
        """Wipe the bar."""
        if self.shown:
            self.stream.write("\r" + " " * 95 + "\r")
            self.stream.flush()


# -- files and tables --------------------------------------------------------------------------------------------------


class Figure(NamedTuple):
    """A published number: its standard deviation is NaN where none is given, its mark a verdict of the paper's."""

    value: float
    sd: float
    mark: str
    source: str


def read_published(path):
    """Read published numbers, a mapping from (table, dataset, method) to figures; datasets in lower case."""
    with open(path, newline="", encoding="utf-8") as file:
        return {
            (row["table"], row["dataset"].lower(), row["method"]): Figure(
                float(row["value"]), float(row.get("sd") or "nan"), row.get("mark") or "", row.get("source") or ""
            )
            for row in csv.DictReader(file)
        }


def comparable(published, datasets, table, most=0.05):
    """Return the published numbers without those of datasets that aren't the paper's: by their numbers of rows, of
    which a few may be lost.

    Parameters
    ----------
    published : mapping
        With the method "instances" in the table named.
    datasets : sequence of Dataset
    table : str
    most : float
        The share by which numbers of rows may differ: rows without a target are left out here.
    """
    others = {}
    for dataset in datasets:
        figure = published.get((table, dataset.name.lower(), "instances"))
        if figure is not None and abs(len(dataset) - figure.value) > most * figure.value:
            others[dataset.name.lower()] = figure.value
            print(
                f"{dataset.name} has {len(dataset)} rows where the paper's has {figure.value:.0f}, so it is not "
                f"compared"
            )
    return {key: figure for key, figure in published.items() if key[1] not in others}


def write_records(path, records):
    """Write records as CSV, replacing the file in one go."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(path.name + ".part")
    with open(draft, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(Record._fields)
        writer.writerows(record._replace(value=repr(record.value)) for record in records)
    os.replace(draft, path)


def read_records(path):
    """Read what `write_records` wrote; nothing if there is no such file."""
    if not Path(path).exists():
        return []
    with open(path, newline="", encoding="utf-8") as file:
        return [
            Record(row["dataset"], int(row["repetition"]), row["method"], row["measure"], float(row["value"]))
            for row in csv.DictReader(file)
        ]


def layout(header, rows):
    """Return a table as text: the first column to the left, the others to the right; numbers with one decimal, NaN as a
    blank.

    Examples
    --------
    >>> print(layout(["set", "error"], [["iris", 4.25], ["zoo", float("nan")]]))
    set   error
    -----------
    iris    4.2
    zoo
    """

    def shown(cell):
        if isinstance(cell, float):
            return "" if math.isnan(cell) else f"{cell:.1f}"
        return str(cell)

    cells = [[shown(cell) for cell in row] for row in (header, *rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = [
        "  ".join(
            cell.ljust(width) if i == 0 else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in cells
    ]
    lines.insert(1, "-" * len(lines[0]))
    return "\n".join(line.rstrip() for line in lines)
