"""Two rules of trees that Ting & Zheng (2003) leave open, on datasets that had no part in choosing them.

python ting2003_rules.py --data FOLDER [--repetitions 3] [--results results/ting2003_rules]

The rules are described in `ting2003`; they were chosen while looking at audiology, nursery and DNA. Here single trees
are learned with both rules, without the bound on branches, and without the rule for values that no row of a leaf has,
on the same folds of all other datasets of the paper that are not too large. Their errors stand beside the published
ones.
"""

import argparse
import functools
import sys
from pathlib import Path
from unittest import mock

import numpy as np
from studies import Record, comparable, cross_validated, datasets_of, layout, read_published, summaries, write_records
from ting2003 import PUBLISHED

import hybridbn as hb
from hybridbn.structures import nb_tree

LOOKED_AT = ("audiology", "nursery", "dna")
DEPTHS = (1, 3, 5)


def learn(training, rows, target, depth, bounded, neutral):
    """Return the classes that a tree predicts."""
    build = functools.partial(nb_tree, max_depth=depth, **({} if bounded else {"least_branch": 0.0}))
    module = sys.modules[nb_tree.__module__]
    kept = module._make_uninformative if neutral else lambda table, *_: table
    with mock.patch.object(module, "_make_uninformative", kept):
        network = build(training, target, "multinomial")
    posterior = hb.Ensemble([network], [1.0], target).posterior(rows.drop(target), impossible="nan")
    return np.nan_to_num(posterior.probabilities, nan=-1.0).argmax(axis=1)


VARIANTS = {"both rules": (True, True), "no bound": (False, True), "no neutral": (True, False)}


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", required=True, help="a folder of datasets with a manifest.csv")
    parser.add_argument("--results", type=Path, default=Path("results/ting2003_rules"))
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--most-rows", type=int, default=1000)
    options = parser.parse_args(arguments)
    datasets = [
        dataset
        for dataset in datasets_of(options.data, "classification", "ting2003")
        if dataset.name not in LOOKED_AT and len(dataset) <= options.most_rows
    ]
    published = comparable(read_published(PUBLISHED), datasets, "1")
    records: list[Record] = []
    for dataset in datasets:
        methods = {
            f"{label} {depth}": functools.partial(learn, depth=depth, bounded=bounded, neutral=neutral)
            for depth in DEPTHS
            for label, (bounded, neutral) in VARIANTS.items()
        }
        errors = {"error": lambda truth, codes: 100 * float((truth != codes).mean())}
        records += cross_validated(dataset, methods, errors, repetitions=options.repetitions, count=3)
    write_records(options.results / "errors.csv", records)
    means = {key: float(values.mean()) for key, values in summaries(records).items()}
    for depth in DEPTHS:
        print(f"\nErrors of single trees of depth {depth} in %, {options.repetitions} three-fold cross-validations\n")
        rows, differences = [], []
        for dataset in datasets:
            figure = published.get(("3", dataset.name.lower(), f"tree {depth}"))
            measured = [means[dataset.name, f"{label} {depth}", "error"] for label in VARIANTS]
            rows.append([dataset.name, *measured, float("nan") if figure is None else figure.value])
            if figure is not None:
                differences.append(np.abs(np.array(measured) - figure.value))
        print(layout(["dataset", *VARIANTS, "publ."], rows))
        print("\nmean distance to the published errors:", end=" ")
        distances = np.mean(differences, axis=0) if differences else []
        print(", ".join(f"{label} {value:.2f}" for label, value in zip(VARIANTS, distances, strict=False)))


if __name__ == "__main__":
    main()
