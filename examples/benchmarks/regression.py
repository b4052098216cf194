"""Predicting numbers: HybridRegressor(builder="auto") beside forests, Gaussian processes, NGBoost and Weka's M5'.

Run ``python examples/benchmarks/regression.py --data FOLDER`` (an hour; FOLDER as in examples/papers/studies.py, by
default ``../shared/data`` beside the repository); ``--datasets bolts servo`` runs some, ``--folds 3`` less of all,
``--methods hybridbn forest`` some methods. With ``--resume FILE`` a run that was stopped goes on where it was. All
methods see the same folds; peers see the coding of nominal attributes and missing cells of ``baselines.Coding``. Shown
are, for each dataset and as means,

* rmse: the mean over folds of the root mean squared error relative to that of the fold's mean, in percent, beside the
  figures of Weka's M5' in ten ten-fold cross-validations where they are published;
* crps and nll: the continuous ranked probability score and the negative log density of held-out targets, in units of
  the target's standard deviation; worst: the least log density relative to that of a normal density with the training
  rows' mean and standard deviation, in nats;
* inside and length: the share of held-out targets inside the 90 % intervals, and their length in standard deviations;
* fit: CPU-seconds, and ratio: these over those of a random forest with 200 trees on one core;
* memory: the peak of what a fit allocates, in MB (of the first fold).

quantile-forest and NGBoost take part where they are installed.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from rows import Report, parser, seconds
from scipy import stats

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "examples" / "papers"))

from baselines import Coding  # noqa: E402
from frank1998 import PUBLISHED, relative_rmse, varies  # noqa: E402
from regression_league import LEVELS, normal_scores, scored  # noqa: E402
from studies import Dataset, datasets_of, folds, layout, read_published  # noqa: E402

from hybridbn.estimators import HybridRegressor  # noqa: E402
from hybridbn.structures import automatic, model_tree, regression  # noqa: E402

SHARED = ROOT.parent / "shared" / "data"
TREES = 200
FIGURES = ("rmse", "M5'", "crps", "nll", "worst", "inside", "length", "fit", "ratio", "memory")
Model = Callable[[Any], Any]
Method = Callable[[Any, str], Model]
"""Fits a table with a target, and returns what turns test rows into the scores of `regression_league.scored`."""


# -- methods ----------------------------------------------------------------------------------------------------------


def fit_hybridbn(training: Any, target: str) -> Model:
    """Fit HybridRegressor(builder="auto")."""
    names = [name for name in training.names if name != target and varies(training, name)]
    model = HybridRegressor(builder="auto", target=target)
    model.fit(training.select(names).to_pandas(), training.column(target))

    def predict(test: Any) -> Any:
        features, truth = test.select(names).to_pandas(), test.column(target)
        posterior = model.predict_distribution(features)
        rows = scored(
            truth,
            posterior.mean(),
            posterior.quantile(LEVELS),
            model.predict_log_density(features, truth),
            model.predict_interval(features),
            0.0,
        )
        rows[:, 1] = posterior.crps(truth)
        return rows

    return predict


def fit_forest(training: Any, target: str) -> Model:
    """Fit scikit-learn's random forest, which predicts means only."""
    from sklearn.ensemble import RandomForestRegressor

    coding = Coding(training, target)
    model = RandomForestRegressor(TREES, random_state=0).fit(coding(training), training.column(target))
    return lambda test: np.column_stack((model.predict(coding(test)), np.full((len(test), 5), np.nan)))


def fit_quantile_forest(training: Any, target: str) -> Model:
    """Fit a quantile forest, which has no density."""
    from quantile_forest import RandomForestQuantileRegressor

    coding = Coding(training, target)
    model = RandomForestQuantileRegressor(TREES, random_state=0).fit(coding(training), training.column(target))

    def predict(test: Any) -> Any:
        numbers, truth = coding(test), test.column(target)
        quantiles, ends = (model.predict(numbers, quantiles=list(levels)) for levels in (LEVELS, (0.05, 0.95)))
        mean = model.predict(numbers, quantiles="mean")
        return scored(truth, mean, quantiles, np.full(len(truth), np.nan), ends, 0.0)

    return predict


def fit_ngboost(training: Any, target: str) -> Model:
    """Fit NGBoost with normal densities as the package makes them."""
    from ngboost import NGBRegressor

    coding = Coding(training, target)
    model = NGBRegressor(verbose=False, random_state=0).fit(coding(training), training.column(target))

    def predict(test: Any) -> Any:
        told = model.pred_dist(coding(test)).params
        return normal_scores(test.column(target), told["loc"], told["scale"], 0.0)

    return predict


def fit_gaussian_process(training: Any, target: str) -> Model:
    """Fit a Gaussian process with squared exponential covariance and noise to standardized columns."""
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

    coding = Coding(training, target)
    center, spread = coding(training).mean(axis=0), coding(training).std(axis=0)
    used = spread > 0

    def standardize(table: Any) -> Any:
        return ((coding(table) - center) / np.where(used, spread, 1))[:, used]

    kernel = ConstantKernel() * RBF(np.sqrt(max(used.sum(), 1))) + WhiteKernel(0.1)
    model = GaussianProcessRegressor(kernel, normalize_y=True, random_state=0)
    model.fit(standardize(training), training.column(target))

    def predict(test: Any) -> Any:
        return normal_scores(test.column(target), *model.predict(standardize(test), return_std=True), 0.0)

    return predict


METHODS: dict[str, Method] = {
    "hybridbn": fit_hybridbn,
    "forest": fit_forest,
    "quantile_forest": fit_quantile_forest,
    "gaussian_process": fit_gaussian_process,
    "ngboost": fit_ngboost,
}


# -- measuring --------------------------------------------------------------------------------------------------------


def measure_fold(dataset: Dataset, method: Method, test: Any) -> dict[str, float]:
    """Return the figures of a method on one fold, in the target's units."""
    truth = dataset.table.column(dataset.target)
    held_out = np.zeros(len(truth), dtype=bool)
    held_out[test] = True
    training, rows = dataset.table.take(~held_out), dataset.table.take(held_out)
    start = time.process_time()
    model = method(training, dataset.target)
    spent = time.process_time() - start
    told = model(rows)
    own = training.column(dataset.target)
    below = -told[:, 2] - stats.norm.logpdf(truth[held_out], own.mean(), own.std())
    means = dict(zip(("crps", "nll", "inside", "length"), told.mean(axis=0)[1:5].tolist(), strict=True))
    rmse = relative_rmse(truth[held_out], told[:, 0])
    return {"rows": len(test), "rmse": rmse, **means, "worst": float(below.min()), "fit": spent}


def cross_validate(dataset: Dataset, name: str, count: int, seed: int, kept: Results) -> dict[str, float]:
    """Return the figures of a method on a dataset; folds that were measured before are not run again."""
    truth = dataset.table.column(dataset.target)
    parts = []
    for fold, test in enumerate(folds(len(truth), count, [0, seed])):
        key = (dataset.name, name, count, seed, fold)
        if key not in kept:
            kept.add(key, measure_fold(dataset, METHODS[name], test))
        parts.append(kept[key])
    table = {figure: np.array([part[figure] for part in parts], dtype=float) for figure in parts[0]}
    shares = table["rows"] / table["rows"].sum()
    spread = float(truth.std())
    return {
        "rmse": float(np.nanmean(table["rmse"])),
        "crps": float(shares @ table["crps"]) / spread,
        "nll": float(shares @ table["nll"]) - float(np.log(spread)),
        "worst": float(table["worst"].min()),
        "inside": 100 * float(shares @ table["inside"]),
        "length": float(shares @ table["length"]) / spread,
        "fit": float(table["fit"].mean()),
    }


class Results(dict[tuple[Any, ...], dict[str, float]]):
    """Figures of folds by dataset, method, number of folds, seed and fold; kept in a file of JSON lines, if given."""

    def __init__(self, path: Path | None) -> None:
        super().__init__()
        self._path = path
        if path is not None and path.exists():
            lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
            self.update((tuple(key), figures) for key, figures in lines)

    def add(self, key: tuple[Any, ...], figures: dict[str, float]) -> None:
        """Keep the figures of a fold, at once in the file."""
        self[key] = figures
        if self._path is not None:
            with self._path.open("a", encoding="utf-8") as file:
                file.write(json.dumps([key, figures]) + "\n")


def measure_memory(dataset: Dataset, name: str, kept: Results) -> float:
    """Return the peak of what a fit to all rows allocates, in MB."""
    key = (dataset.name, name, "memory")
    if key not in kept:
        tracemalloc.start()
        try:
            METHODS[name](dataset.table, dataset.target)
            kept.add(key, {"peak": tracemalloc.get_traced_memory()[1] / 2**20})
        finally:
            tracemalloc.stop()
    return kept[key]["peak"]


def run_datasets(report: Report, options: argparse.Namespace) -> None:
    """Print the tables, dataset by dataset, and the means."""
    published, kept = read_published(PUBLISHED), Results(options.resume)
    results: dict[str, list[list[float]]] = {}
    lines: list[list[Any]] = []
    for dataset in datasets_of(options.data, "regression", "frank1998", options.datasets):
        weka = published.get(("2", dataset.name.lower(), "model_tree_weka"))
        forest = float("nan")
        for name in ["forest", *(name for name in options.methods if name != "forest")]:
            try:
                figures = cross_validate(dataset, name, options.folds, options.seed, kept)
            except ImportError as error:
                print(f"missing: {error}", file=sys.stderr)
                continue
            if name == "forest":
                forest = figures["fit"]
            figures |= {
                "M5'": weka.value if weka else float("nan"),
                "ratio": figures["fit"] / forest,
                "memory": measure_memory(dataset, name, kept) if name in ("forest", "hybridbn") else float("nan"),
            }
            row = [figures[figure] for figure in FIGURES]
            results.setdefault(name, []).append(row)
            lines.append([dataset.name, len(dataset), name, *map(show, row)])
            report.add(f"{dataset.name}, {name}", figures["fit"], forest, **figures)
            print("  ".join(map(str, lines[-1])), flush=True)
    lines += [["mean", "", name, *map(show, np.nanmean(rows, axis=0))] for name, rows in results.items()]
    print(f"\n{layout(['dataset', 'rows', 'method', *FIGURES], lines)}")
    own = np.array(results.get("hybridbn", np.empty((0, len(FIGURES)))))
    if len(own):
        known = np.isfinite(own[:, 1])
        print(f"\nhybridbn has a smaller error than M5' on {(own[known, 0] < own[known, 1]).sum()} of {known.sum()}")


def show(value: float) -> str:
    """Return a figure with the digits that matter."""
    return "" if np.isnan(value) else f"{value:.3g}" if abs(value) < 100 else f"{value:.0f}"


def time_builders(report: Report) -> None:
    """Time builders on simulated tables: many rows, and a category of many states."""
    import hybridbn as hb

    rng = np.random.default_rng(0)
    x = rng.normal(size=(10_000, 10))
    y = 2 * x[:, 0] + np.abs(x[:, 1]) * x[:, 2] + rng.normal(size=len(x))
    many = hb.Table({**{f"x{i}": column for i, column in enumerate(x.T)}, "y": y})
    states = rng.integers(190, size=175)
    y = x[:175, 0] + rng.normal(size=190)[states] + rng.normal(size=175)
    names = np.array([f"s{state:03}" for state in states], dtype=object)
    nominal = hb.Table({"c": names, **{f"x{i}": column for i, column in enumerate(x[:175, :5].T)}, "y": y})
    tables = {"10,000 rows of 10 numbers": many, "175 rows and 190 states": nominal}
    for title, table in tables.items():
        for builder in (regression, model_tree, automatic):

            def build(builder: Any = builder, table: Any = table) -> Any:
                return builder(table, "y")

            report.show(f"{builder.__name__}, {title}", seconds(build, 2)[0], unit="s")


def main() -> None:
    options_parser = parser(__doc__)
    options_parser.add_argument("--data", type=Path, default=SHARED)
    options_parser.add_argument("--datasets", nargs="+", default=[])
    options_parser.add_argument("--methods", nargs="+", default=list(METHODS), choices=list(METHODS))
    options_parser.add_argument("--resume", type=Path, metavar="FILE", help="keep the figures of folds in this file")
    options_parser.add_argument("--folds", type=int, default=10)
    options_parser.add_argument("--seed", type=int, default=0)
    options = options_parser.parse_args()
    with Report(options) as report:
        report.run(time_builders)
        if not report.ours and (options.data / "manifest.csv").exists():
            report.run(run_datasets, options)


if __name__ == "__main__":
    main()
