"""Classify datasets with hybridbn beside scikit-learn: python examples/benchmarks/classification.py FOLDER.

FOLDER holds ARFF files and a `manifest.csv` with the columns name, task, file, target and drop. Each dataset is cut
into the same stratified folds for all methods; printed are the error in percent, the log loss (probabilities of at
least 1e-6), the expected calibration error of the most probable class (fifteen bins of equal width, on all held-out
rows together), and the CPU-seconds of fitting and predicting all folds. Set OMP_NUM_THREADS=1.

With several --seeds the folds are dealt anew for each, figures are means over them, and it is told on which datasets
a method beats "auto" by more than two corrected standard errors (Nadeau & Bengio, 2003), and on which it loses by as
much. With --results finished datasets are kept in a file, so that a run can be stopped and resumed.
"""

from __future__ import annotations

import argparse
import csv
import json
import time
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import hybridbn as hb
from hybridbn.estimators import HybridClassifier

METHODS: dict[str, Callable[[], Any]] = {}

FIGURES = ("error", "log loss", "ECE", "seconds")


def method(name: str) -> Callable[[Callable[[], Any]], Callable[[], Any]]:
    def add(make: Callable[[], Any]) -> Callable[[], Any]:
        METHODS[name] = make
        return make

    return add


for own in ("auto", "random_forest", "logistic", "discriminant", "naive_bayes", "tan"):
    METHODS[own] = partial(HybridClassifier, own)
METHODS["boosted trees"] = partial(HybridClassifier, "nb_tree", boost=100)


def encode(scale: bool) -> Any:
    """Return the usual preparation: indicators of categories, numbers filled by their median."""
    from sklearn.compose import ColumnTransformer, make_column_selector
    from sklearn.impute import SimpleImputer
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, StandardScaler

    filled = [SimpleImputer(strategy="median"), *([StandardScaler()] if scale else [])]
    categories = OneHotEncoder(handle_unknown="ignore")
    kinds = make_column_selector(dtype_include="number"), make_column_selector(dtype_exclude="number")
    return ColumnTransformer([("numbers", make_pipeline(*filled), kinds[0]), ("rest", categories, kinds[1])])


@method("random forest")
def make_forest() -> Any:
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.pipeline import make_pipeline

    return make_pipeline(encode(False), RandomForestClassifier(200, random_state=0))


@method("calibrated forest")
def make_calibrated_forest() -> Any:
    from sklearn.calibration import CalibratedClassifierCV
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.pipeline import make_pipeline

    forest = CalibratedClassifierCV(RandomForestClassifier(200, random_state=0), cv=3)
    return make_pipeline(encode(False), forest)


@method("gradient boosting")
def make_gradient_boosting() -> Any:
    from sklearn.ensemble import HistGradientBoostingClassifier

    # stopping early needs two rows of each class
    return HistGradientBoostingClassifier(categorical_features="from_dtype", early_stopping=False, random_state=0)


@method("logistic regression")
def make_logistic() -> Any:
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline

    return make_pipeline(encode(True), LogisticRegression(max_iter=2000))


def read_datasets(folder: Path) -> Iterator[tuple[str, pd.DataFrame, pd.Series[Any]]]:
    """Yield the name, the features and the classes of each dataset, the small ones first."""
    with open(folder / "manifest.csv", newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["task"] == "classification"]
    for row in sorted(rows, key=lambda row: int(row["rows"])):
        frame = hb.read_table(folder / row["file"])
        frame = frame if isinstance(frame, pd.DataFrame) else frame.to_pandas()
        frame = frame.drop(columns=[name for name in row["drop"].split(",") if name])
        yield row["name"], frame.drop(columns=row["target"]), frame[row["target"]].astype(str)


def measure_calibration(probabilities: Any, hits: Any, bins: int = 15) -> float:
    """Return the expected calibration error of the most probable class."""
    top = probabilities.max(axis=1)
    place = np.minimum((top * bins).astype(int), bins - 1)
    gaps = np.bincount(place, hits - top, bins)
    return float(np.abs(gaps).sum() / len(top))


def evaluate(name: str, features: pd.DataFrame, classes: Any, folds: int, seed: int) -> dict[str, Any]:
    """Return the figures of a method on a dataset, and those of each fold."""
    from sklearn.model_selection import StratifiedKFold

    labels, codes = np.unique(classes, return_inverse=True)
    probabilities = np.zeros((len(codes), len(labels)))
    parts = np.zeros(len(codes), dtype=int)
    spent = 0.0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        splits = StratifiedKFold(folds, shuffle=True, random_state=seed).split(features, codes)
        for part, (train, test) in enumerate(splits):
            parts[test] = part
            rare = np.bincount(codes[train])
            # a calibrator wants three rows of each class
            few = name == "calibrated forest" and rare[rare > 0].min() < 3
            model = METHODS["random forest" if few else name]()
            began = time.process_time()
            model.fit(features.iloc[train], classes.iloc[train])
            found = model.predict_proba(features.iloc[test])
            spent += time.process_time() - began
            probabilities[np.ix_(test, np.searchsorted(labels, np.asarray(model.classes_, dtype=str)))] = found
    hits = probabilities.argmax(axis=1) == codes
    loss = -np.log(np.maximum(probabilities[np.arange(len(codes)), codes], 1e-6))
    return {
        "error": 100 * float(1 - hits.mean()),
        "log loss": float(loss.mean()),
        "ECE": measure_calibration(probabilities, hits),
        "seconds": spent,
        "fold error": (100 * np.bincount(parts, ~hits) / np.bincount(parts)).tolist(),
        "fold log loss": (np.bincount(parts, loss) / np.bincount(parts)).tolist(),
    }


def measure_difference(own: Any, other: Any, folds: int) -> float:
    """Return the mean difference of the figures of folds in standard errors, corrected for the rows that training sets
    share.
    """
    apart = np.asarray(own) - np.asarray(other)
    error = np.sqrt((1 / len(apart) + 1 / (folds - 1)) * apart.var(ddof=1))
    return float(apart.mean() / error) if error > 0 else 0.0


def print_differences(figures: dict[tuple[str, str], dict[str, Any]], methods: list[str], folds: int) -> None:
    """Print where methods are clearly better or worse than "auto"."""
    for chosen in methods:
        for what in ("error", "log loss"):
            apart = {
                name: measure_difference(figures[name, "auto"][f"fold {what}"], own[f"fold {what}"], folds)
                for (name, method), own in figures.items()
                if method == chosen
            }
            better, worse = ([name for name in apart if sign * apart[name] > 2] for sign in (1, -1))
            print(f"{chosen:18} {what:8} better than auto: {', '.join(better) or '-'}; worse on {len(worse)}")


def main() -> None:
    """Print a line for each dataset and method, and the means."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--folds", type=int, default=10)
    parser.add_argument("--seeds", type=int, nargs="*", default=[0])
    parser.add_argument("--datasets", nargs="*", help="names; by default all")
    parser.add_argument("--methods", nargs="*", default=list(METHODS), choices=list(METHODS))
    parser.add_argument("--rows", type=int, default=10**9, help="leave out larger datasets")
    parser.add_argument("--results", type=Path, help="a JSON file in which figures are kept between runs")
    args = parser.parse_args()
    known: dict[str, dict[str, Any]] = {}
    if args.results and args.results.exists():
        known = json.loads(args.results.read_text())
    figures: dict[tuple[str, str], dict[str, Any]] = {}
    for name, features, classes in read_datasets(args.folder):
        if len(features) > args.rows or (args.datasets and name not in args.datasets):
            continue
        for chosen in args.methods:
            for seed in args.seeds:
                key = f"{name}, {chosen}, {args.folds}, {seed}"
                if key not in known:
                    known[key] = evaluate(chosen, features, classes, args.folds, seed)
                    if args.results:
                        args.results.write_text(json.dumps(known, indent=0))
            runs = [known[f"{name}, {chosen}, {args.folds}, {seed}"] for seed in args.seeds]
            own = figures[name, chosen] = {what: np.mean([run[what] for run in runs]) for what in FIGURES}
            print(f"{name:16} {chosen:18} {'  '.join(f'{what} {own[what]:8.3f}' for what in FIGURES)}", flush=True)
            for what in ("fold error", "fold log loss"):
                own[what] = np.concatenate([run[what] for run in runs])
    names = list(dict.fromkeys(name for name, _ in figures))
    for chosen in args.methods:
        means = {what: np.mean([figures[name, chosen][what] for name in names]) for what in FIGURES}
        line = "  ".join(f"{what} {means[what]:8.3f}" for what in FIGURES)
        print(f"{'mean of ' + str(len(names)):16} {chosen:18} {line}")
    if len(args.seeds) > 1 and "auto" in args.methods:
        print_differences(figures, [chosen for chosen in args.methods if chosen != "auto"], args.folds)


if __name__ == "__main__":
    main()
