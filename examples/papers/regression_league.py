"""How well HybridRegressor(builder="auto") predicts numbers: errors beside M5', and predictive densities beside NGBoost
and Gaussian processes.

python regression_league.py --data FOLDER [--datasets bolts servo ...] [--repetitions 10] [--methods auto
linear_regression ...] [--quick]

FOLDER has a manifest.csv (see `studies`); by default the regression datasets of Frank, Trigg, Holmes & Witten (1998)
take part. Printed are

* the root mean squared error of each method relative to that of predicting the mean, by the paper's convention (see
  `frank1998`), beside the figures of Weka's M5' and linear regression in ten ten-fold cross-validations and those of
  naive Bayes in the paper, and on how many datasets the error is less than that of M5';
* for the methods that predict whole densities: the continuous ranked probability score and the negative log-likelihood,
  of a target measured in its standard deviations, the share of targets inside the central 90 % intervals, the mean
  length of these, and seconds for a fit.

NGBoost takes part if the package ngboost is installed, Gaussian processes if scikit-learn is; what is missing is said.
Both see numbers only: the coding of nominal attributes and missing cells is that of `baselines.Coding`. Rows without a
target are left out, and so are nominal attributes without a value that occurs twice in the training rows. --quick is
one cross-validation with three folds on the three smallest datasets. Results are written to a CSV file, dataset by
dataset; with --resume datasets that are there already are not run again.
"""

import argparse
import time
import warnings
from pathlib import Path

import numpy as np
from baselines import Coding, linear_regression, model_tree
from frank1998 import PUBLISHED, kernel_naive_bayes, relative_rmse, run, varies
from scipy import stats
from studies import comparable, datasets_of, layout, read_published, summaries

from hybridbn.estimators import HybridRegressor

LEVELS = (np.arange(50) + 0.5) / 50
"""Of the quantiles that the continuous ranked probability score is computed from."""
INTERVAL = 0.9
SCORES = ("mean", "crps", "nll", "coverage", "width", "seconds")
LABELS = {
    "auto": "hybridbn",
    "linear_regression": "LR",
    "naive_bayes": "naive Bayes",
    "model_tree": "m5py",
    "ngboost": "NGBoost",
    "gaussian_process": "GP",
}


# -- methods that predict densities: from training rows and test rows to an array (rows, scores) -----------------------


def scored(truth, mean, quantiles, log_densities, ends, seconds):
    """Return what `SCORES` names, each row's own: the score 2 E[pinball loss] over all levels is the integral of
    squared cdf differences.
    """
    short = truth[:, None] - quantiles
    crps = 2 * np.mean(np.maximum(LEVELS * short, (LEVELS - 1) * short), axis=1)
    inside = (ends[:, 0] <= truth) & (truth <= ends[:, 1])
    return np.column_stack(
        (mean, crps, -log_densities, inside, ends[:, 1] - ends[:, 0], np.full(len(truth), float(seconds)))
    )


def normal_scores(truth, mean, sd, seconds):
    """Return the scores of normal predictions."""
    density = stats.norm(mean, sd)
    ends = np.column_stack((density.ppf((1 - INTERVAL) / 2), density.ppf((1 + INTERVAL) / 2)))
    return scored(truth, mean, density.ppf(LEVELS[:, None]).T, density.logpdf(truth), ends, seconds)


def automatic_regressor(training, test, target):
    """Predict with HybridRegressor(builder="auto")."""
    names = [name for name in training.names if name != target and varies(training, name)]
    start = time.perf_counter()
    model = HybridRegressor(builder="auto", target=target)
    model.fit(training.select(names).to_pandas(), training.column(target))
    seconds = time.perf_counter() - start
    features, truth = test.select(names).to_pandas(), test.column(target)
    posterior = model.predict_distribution(features)
    logs = model.predict_log_density(features, truth)
    return scored(
        truth, model.predict(features), posterior.quantile(LEVELS), logs, posterior.interval(INTERVAL), seconds
    )


def ngboost():
    """Return the method "NGBoost" with normal densities as the package makes them, None where it is not installed."""
    try:
        from ngboost import NGBRegressor
    except ImportError:
        return None

    def predict(training, test, target):
        coding = Coding(training, target)
        start = time.perf_counter()
        model = NGBRegressor(verbose=False, random_state=0).fit(coding(training), training.column(target))
        seconds = time.perf_counter() - start
        found = model.pred_dist(coding(test))
        return normal_scores(test.column(target), found.params["loc"], found.params["scale"], seconds)

    return predict


def gaussian_process():
    """Return the method "Gaussian process" (squared exponential and noise, on standardized columns), None without
    scikit-learn.
    """
    try:
        from sklearn.gaussian_process import GaussianProcessRegressor
        from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel
    except ImportError:
        return None

    def predict(training, test, target):
        coding = Coding(training, target)
        numbers = coding(training)
        center, spread = numbers.mean(axis=0), numbers.std(axis=0)
        used = spread > 0
        kernel = ConstantKernel() * RBF(np.sqrt(max(used.sum(), 1))) + WhiteKernel(0.1)
        start = time.perf_counter()
        model = GaussianProcessRegressor(kernel, normalize_y=True, random_state=0)
        model.fit(((numbers - center) / np.where(used, spread, 1))[:, used], training.column(target))
        seconds = time.perf_counter() - start
        mean, sd = model.predict(((coding(test) - center) / np.where(used, spread, 1))[:, used], return_std=True)
        return normal_scores(test.column(target), mean, sd, seconds)

    return predict


def quietly(method):
    """Return the method without its warnings: of states that only test rows have, of fits that did not converge."""

    def predict(training, test, target):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return method(training, test, target)

    return predict


def methods(names=()):
    """Return the methods that are installed, by name, and the names of those that are not."""

    def only_mean(training, test, target):
        return kernel_naive_bayes()(training, test, target)["naive_bayes"]

    found = {
        "auto": automatic_regressor,
        "linear_regression": linear_regression,
        "naive_bayes": only_mean,
        "model_tree": model_tree(),
        "ngboost": ngboost(),
        "gaussian_process": gaussian_process(),
    }
    chosen = {name: method for name, method in found.items() if not names or name in names}
    missing = [LABELS[name] for name, method in chosen.items() if method is None]
    return {name: quietly(method) for name, method in chosen.items() if method is not None}, missing


# -- measures of a fold ------------------------------------------------------------------------------------------------


def rmse(truth, predicted):
    """Return the relative root mean squared error of what a method predicts, with or without other scores."""
    return relative_rmse(truth, predicted[:, 0] if predicted.ndim == 2 else predicted)


def score(name):
    """Return the mean of one of the scores, NaN for methods that only predict the mean."""
    place = SCORES.index(name)
    return lambda truth, predicted: float(predicted[:, place].mean()) if predicted.ndim == 2 else float("nan")


MEASURES = {"rmse": rmse, **{name: score(name) for name in SCORES[1:]}}


# -- tables ------------------------------------------------------------------------------------------------------------


def errors_table(records, published):
    """Return the table of errors as text, and how many of how many datasets are won against M5'."""
    found = summaries(records)
    names = list(dict.fromkeys(record.dataset for record in records))
    present = [method for method in LABELS if any(record.method == method for record in records)]
    header = [
        "dataset",
        "runs",
        *(LABELS[method] for method in present),
        "M5' Weka",
        "LR Weka",
        "NB paper",
        "against M5'",
    ]
    rows, wins = [], []
    for name in names:
        own = found.get((name, "auto", "rmse"), np.array([np.nan]))
        figures = [
            published[key].value if (key := ("2", name.lower(), method)) in published else float("nan")
            for method in ("model_tree_weka", "linear_regression_weka", "naive_bayes")
        ]
        verdict = (
            "" if not np.isfinite([own.mean(), figures[0]]).all() else "win" if own.mean() < figures[0] else "loss"
        )
        wins += [verdict] if verdict else []
        means = [float(np.mean(found.get((name, method, "rmse"), np.nan))) for method in present]
        rows.append([name, len(own), *means, *figures, verdict])
    return layout(header, rows), wins.count("win"), len(wins)


def densities_table(records, datasets):
    """Return the table of scores as text, a row for each dataset and method; the last rows are means."""
    found = summaries(records)
    units = {dataset.name: float(dataset.table.column(dataset.target).std()) for dataset in datasets}
    rows, sums = [], {}
    for name in dict.fromkeys(record.dataset for record in records):
        for method, label in LABELS.items():
            if not np.isfinite(found.get((name, method, "crps"), [np.nan])).all():
                continue
            crps, nll, coverage, width, seconds = (float(found[name, method, score].mean()) for score in SCORES[1:])
            scores = [crps / units[name], nll - np.log(units[name]), 100 * coverage, width / units[name], seconds]
            sums.setdefault(label, []).append(scores)
            rows.append([name, label, *shown(scores)])
    rows += [["mean", label, *shown(np.mean(scores, axis=0))] for label, scores in sums.items()]
    return layout(["dataset", "method", "CRPS", "-log density", "inside 90 %", "length", "seconds"], rows)


def shown(scores):
    """Return scores as text with the digits that matter."""
    return [f"{value:.{digits}f}" for value, digits in zip(scores, (3, 2, 1, 2, 2), strict=True)]


def report(records, datasets, published):
    """Print both tables."""
    text, won, compared = errors_table(records, published)
    print(f"\nrelative root mean squared errors, %\n\n{text}\n")
    if compared:
        print(f"hybridbn has a smaller error than Weka's M5' on {won} of {compared} datasets")
    print("\npredictive densities; targets in units of their standard deviation\n")
    print(densities_table(records, datasets))


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", required=True, help="a folder of datasets with a manifest.csv")
    parser.add_argument("--results", type=Path, default=Path("results/regression_league.csv"), help="where results go")
    parser.add_argument("--datasets", nargs="+", default=[], help="only these")
    parser.add_argument("--methods", nargs="+", default=[], choices=list(LABELS), help="only these")
    parser.add_argument("--repetitions", type=int, default=10)
    parser.add_argument("--folds", type=int, default=10)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--quick", action="store_true", help="the three smallest datasets, one repetition, three folds")
    parser.add_argument("--resume", action="store_true", help="keep the datasets that the results have already")
    options = parser.parse_args(arguments)
    datasets = datasets_of(options.data, "regression", "frank1998", options.datasets)
    repetitions, count = options.repetitions, options.folds
    if options.quick:
        datasets, repetitions, count = datasets[:3], 1, 3
    chosen, missing = methods(options.methods)
    for name in missing:
        print(f"{name} is not installed, or not for these versions of other packages; it does not take part")
    records = run(
        datasets,
        chosen,
        MEASURES,
        options.results,
        repetitions=repetitions,
        count=count,
        seed=options.seed,
        resume=options.resume,
    )
    if records:
        report(records, datasets, comparable(read_published(PUBLISHED), datasets, "1"))


if __name__ == "__main__":
    main()
