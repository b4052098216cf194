"""Naive Bayes for regression: the tables and the learning curves of Frank, Trigg, Holmes & Witten (1998), measured and
published.

python frank1998.py --data FOLDER [--parts regression classification spiral] [--datasets iris ...] [--repetitions 10]

FOLDER has a manifest.csv (see `studies`); datasets for which nothing was published get blanks. Printed are

* Tables 2 and 4: relative root mean squared and mean absolute error of kernel naive Bayes, predicting the mean
  (equation 12, 50 grid points), beside linear regression, nearest neighbors and, if the package m5py is there, a model
  tree. A verdict says whether naive Bayes is within two published standard deviations or 5 % of what was published. In
  the paper Table 4 holds predictions of the mean as well, since they were better than those of the median; the median
  (equation 15, 100 grid points) stands beside it here.
* Tables 3 and 5: on how many datasets one method is significantly better than another.
* Table 6: classification by a regression for each class.
* Figure 2: learning curves on a spiral whose attributes are independent given the target.

*Errors* are means over the folds of each fold's error relative to that of predicting the fold's own mean (footnote 9),
in percent; the published columns of naive Bayes and the neighbors follow this, those of linear regression and M5' in
Table 2 don't seem to. A fold in which all targets are equal does not count. Rows without a target are left out. Weka's
figures, where there are any, are by the convention above.

*Kernels*: the constants of the bandwidths are searched on the paper's grid. The n of a nominal attribute's c / sqrt(n)
is the number of all rows; with --per-state it is that of the rows with the value, as printed below equation 8, which
comes out farther from the tables. Attributes that are constant in the training rows are skipped, and for a row those
whose likelihood is negligible at all grid points (footnote 6). The grid goes on for six bandwidths beyond the least and
the greatest target.

The results of each cross-validation are written to a folder of CSV files, dataset by dataset; with --resume datasets
that are there already are not run again.
"""

import argparse
import math
import sys
from pathlib import Path

import numpy as np
from baselines import linear_regression, model_tree, nearest_neighbors
from frank1998_tables import interval, report_classification, report_regression, report_spiral
from studies import (
    Progress,
    Record,
    comparable,
    cross_validated,
    datasets_of,
    read_published,
    read_records,
    summaries,
    write_records,
)

import hybridbn as hb
from hybridbn.fitting import Dirichlet, KernelFitter, MultinomialFitter, mdl
from hybridbn.fitting.kernel import negligible
from hybridbn.structures import naive_bayes

PUBLISHED = Path(__file__).with_name("frank1998_published.csv")
MEAN_POINTS, MEDIAN_POINTS = 50, 100
BEYOND = 6.0
"""How many bandwidths of the target the grid goes on beyond the training targets."""
SIZES = (50, 100, 200, 400, 600, 800, 1000)
SAMPLES, TESTED = 20, 1000


# -- kernel naive Bayes on a grid --------------------------------------------------------------------------------------


class GridNaiveBayes:
    """Kernel naive Bayes that predicts from the density on equally spaced points of the target.

    Parameters
    ----------
    training : hybridbn.Table
    target : str
    per_state : bool
        See `KernelFitter`.
    """

    def __init__(self, training, target, per_state=False):
        fitter = KernelFitter(bandwidths="paper", per_state=per_state, unseen=0)
        self.attributes = [name for name in training.names if name != target and varies(training, name)]
        self.network = naive_bayes(training.select([target, *self.attributes]), target, potentials=fitter)
        self.target = target
        y = training.column(target)
        self.low, self.high = float(y.min()), float(y.max())
        self.ranges = {name: _range(training, name) for name in self.attributes}

    def grid(self, points):
        """Return the points of footnote 6: so many between the least and the greatest
        training target, and more beyond.
        """
        step = (self.high - self.low) / (points - 1)
        beyond = math.ceil(BEYOND * float(self.network.potential(self.target).bandwidths[0]) / step)
        return self.low + step * np.arange(-beyond, points + beyond)

    def densities(self, table, points):
        """Return the grid (nodes,) and the density of the target at it for each row,
        adding up to one, (nodes, rows).
        """
        grid = self.grid(points)
        logs = np.repeat(self.network.potential(self.target).log_on({self.target: grid})[:, None], len(table), axis=1)
        for name in self.attributes:
            column = table.column(name)
            known = column >= 0 if table.is_discrete(name) else ~np.isnan(column)
            axes = {self.target: grid, name: column[known][None]}
            # in units of the attribute's range, in which it is told what is negligible
            likelihoods = self.network.potential(name).log_on(axes).reshape(len(grid), -1) + np.log(self.ranges[name])
            telling = ~negligible(likelihoods)
            logs[:, np.flatnonzero(known)[telling]] += likelihoods[:, telling]
        weights = np.exp(logs - logs.max(axis=0))
        return grid, weights / weights.sum(axis=0)

    def mean(self, table, points=MEAN_POINTS):
        """Return the mean of each row's density (equation 12)."""
        grid, shares = self.densities(table, points)
        return grid @ shares

    def median(self, table, points=MEDIAN_POINTS):
        """Return the least grid point up to which there is more than half of a row's density (equation 15)."""
        grid, shares = self.densities(table, points)
        return grid[np.argmax(np.cumsum(shares, axis=0) > 0.5, axis=0)]


def varies(table, name):
    """Tell whether an attribute may say something: it has different values, not each of them just once."""
    column = table.column(name)
    if not table.is_discrete(name):
        known = column[~np.isnan(column)]
        return len(known) > 0 and known.min() < known.max()
    counts = np.bincount(column[column >= 0])
    return np.count_nonzero(counts) > 1 and counts.max() > 1


def _range(table, name):
    return 1.0 if table.is_discrete(name) else float(np.ptp(table.column(name)[~np.isnan(table.column(name))]))


def kernel_naive_bayes(per_state=False):
    """Return the method that predicts mean and median, "naive_bayes" and "naive_bayes_median"."""

    def predict(training, test, target):
        model = GridNaiveBayes(training, target, per_state)
        return {"naive_bayes": model.mean(test), "naive_bayes_median": model.median(test)}

    return predict


# -- errors ------------------------------------------------------------------------------------------------------------


def relative_rmse(truth, predicted):
    """Return the root mean squared error relative to that of the truth's own mean, in percent."""
    squares = float(((truth - truth.mean()) ** 2).sum())
    return 100 * math.sqrt(float(((truth - predicted) ** 2).sum()) / squares) if squares > 0 else math.nan


def relative_mae(truth, predicted):
    """Return the mean absolute error relative to that of the truth's own mean, in percent."""
    total = float(np.abs(truth - truth.mean()).sum())
    return 100 * float(np.abs(truth - predicted).sum()) / total if total > 0 else math.nan


def accuracy(truth, predicted):
    """Return the percentage of right classes."""
    return 100 * float(np.mean(truth == predicted))


ERRORS = {"rmse": relative_rmse, "mae": relative_mae}


def regressors(per_state=False):
    """Return the methods of Tables 2 and 4, by name."""
    tree = model_tree()
    return {
        "naive_bayes": kernel_naive_bayes(per_state),
        "linear_regression": linear_regression,
        "knn": nearest_neighbors,
        **({} if tree is None else {"model_tree": tree}),
    }


# -- classification ----------------------------------------------------------------------------------------------------


def class_regressions(per_state=False):
    """Return the method that predicts the class whose indicator is predicted to be largest."""

    def predict(training, test, target):
        codes = training.column(target)
        seen = np.unique(codes)
        # the second regression of two classes is the mirror image of the first
        needed = seen[:1] if len(seen) == 2 else seen
        scores = np.full((len(training.variable(target)), len(test)), -np.inf)
        for state in needed if len(seen) > 1 else ():
            indicators = training.drop(target).with_column(target, (codes == state).astype(float))
            scores[state] = GridNaiveBayes(indicators, target, per_state).mean(test)
        if len(seen) <= 2:
            scores[seen[-1]] = 1 - scores[seen[0]] if len(seen) == 2 else 1.0
        return np.argmax(scores, axis=0)

    return predict


def classification_naive_bayes(training, test, target):
    """Predict by tables of probabilities with Laplace's estimate, numbers being discretized by Fayyad and Irani's
    criterion.
    """
    names = [name for name in training.names if name != target and varies(training, name)]
    fitter = MultinomialFitter(estimate=Dirichlet(), discretizer=mdl)
    network = naive_bayes(training.select([target, *names]), target, potentials=fitter)
    return np.argmax(network.posterior(target, test.select(names)).probabilities, axis=1)


# -- the spiral of Figure 2 --------------------------------------------------------------------------------------------


def spiral(rows, rng):
    """Return a sample of equation 17; the range of y is not stated in the paper."""
    y = rng.uniform(0, 4 * math.pi, rows)
    x1 = y * np.sin(y) + rng.normal(size=rows)
    x2 = y * np.cos(y) + rng.normal(size=rows)
    return hb.Table({"x1": x1, "x2": x2, "y": y})


def spiral_records(sizes=SIZES, samples=SAMPLES, tested=TESTED, seed=0, progress=None):
    """Return the errors of each method for training sets of each size, all of them tested on the same rows."""
    test = spiral(tested, np.random.default_rng([seed, 0, 0]))
    tree = model_tree(smoothed=False)
    methods = {"naive_bayes": kernel_naive_bayes(), "knn": nearest_neighbors, "linear_regression": linear_regression}
    if tree is not None:
        methods["model_tree"] = tree
    records = []
    for size in sizes:
        for sample in range(samples):
            training = spiral(size, np.random.default_rng([seed, size, sample + 1]))
            for name, method in methods.items():
                predicted = method(training, test, "y")
                if isinstance(predicted, dict):
                    predicted = predicted["knn_rmse" if name == "knn" else name]
                error = relative_rmse(test.column("y"), predicted)
                records.append(Record(f"spiral {size}", sample, name, "rmse", error))
            if progress is not None:
                progress.step(f"spiral, {size} rows")
    return records


def draw_spiral(records, path):
    """Draw the spiral and the learning curves; needs matplotlib."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 4.5), layout="constrained")
    space = figure.add_subplot(1, 2, 1, projection="3d")
    sample = spiral(TESTED, np.random.default_rng([0, 0, 0]))
    colors = space.scatter(sample["x1"], sample["x2"], sample["y"], c=sample["y"], s=4)
    space.set(xlabel="x1", ylabel="x2", zlabel="y", title="the spiral")
    colors.set_clim(0, 4 * math.pi)
    axes = figure.add_subplot(1, 2, 2)
    found = summaries(records)
    labels = {"naive_bayes": "naive Bayes", "model_tree": "M5' (m5py), unsmoothed", "knn": "nearest neighbors"}
    for name, label in labels.items():
        sizes = sorted(int(dataset.split()[1]) for dataset, method, _ in found if method == name)
        if sizes:
            means, halves = zip(*(interval(found[f"spiral {size}", name, "rmse"]) for size in sizes), strict=True)
            axes.errorbar(sizes, means, halves, marker="o", markersize=3, capsize=3, label=label)
    weka = [
        (int(size), figure.value) for (table, size, _), figure in read_published(PUBLISHED).items() if "fig" in table
    ]
    axes.plot(*zip(*weka, strict=True), "kx", label="M5P -U of Weka, one cross-validation")
    axes.set(
        xlabel="training rows", ylabel="relative root mean squared error, %", title="learning curves, 99 % intervals"
    )
    axes.set_ylim(bottom=0)
    axes.legend(frameon=False)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)


# -- running -----------------------------------------------------------------------------------------------------------


def run(datasets, methods, measures, path, *, repetitions, count, seed, resume=False):
    """Cross-validate all datasets, writing the results after each of them."""
    records = read_records(path) if resume else []
    done = {record.dataset for record in records}
    left = [dataset for dataset in datasets if dataset.name not in done]
    progress = Progress(repetitions * sum(min(count, len(dataset)) for dataset in left))
    for dataset in left:
        try:
            records += cross_validated(
                dataset, methods, measures, repetitions=repetitions, count=count, seed=seed, progress=progress
            )
        except hb.HybridBNError as error:
            print(f"{dataset.name} is left out: {error}", file=sys.stderr)
            continue
        write_records(path, records)
    progress.close()
    order = {dataset.name: place for place, dataset in enumerate(datasets)}
    return sorted((r for r in records if r.dataset in order), key=lambda record: order[record.dataset])


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", required=True, help="a folder of datasets with a manifest.csv")
    parser.add_argument(
        "--results", type=Path, default=Path("results/frank1998"), help="where CSV files and pictures go"
    )
    parts = ["regression", "classification", "spiral"]
    parser.add_argument("--parts", nargs="+", choices=parts, default=parts)
    parser.add_argument(
        "--datasets", nargs="+", default=[], help="only these; by default those of the paper and of none"
    )
    parser.add_argument("--repetitions", type=int, default=10)
    parser.add_argument("--folds", type=int, default=10)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--per-state", action="store_true", help="bandwidths of nominal attributes by c / sqrt(n_k)")
    parser.add_argument("--samples", type=int, default=SAMPLES, help="training sets of each size, for the spiral")
    parser.add_argument("--resume", action="store_true", help="keep the datasets that the results folder has already")
    options = parser.parse_args(arguments)
    published = read_published(PUBLISHED)
    repeated = {
        "repetitions": options.repetitions,
        "count": options.folds,
        "seed": options.seed,
        "resume": options.resume,
    }
    if "regression" in options.parts:
        datasets = datasets_of(options.data, "regression", "frank1998", options.datasets)
        methods = regressors(options.per_state)
        records = run(datasets, methods, ERRORS, options.results / "regression.csv", **repeated)
        if records:
            report_regression(records, comparable(published, datasets, "1"))
        if "model_tree" not in methods:
            print("\nno model tree: m5py is not installed, or not for this scikit-learn")
    if "classification" in options.parts:
        datasets = datasets_of(options.data, "classification", "frank1998", options.datasets)
        methods = {"regressions": class_regressions(options.per_state), "classification": classification_naive_bayes}
        records = run(datasets, methods, {"accuracy": accuracy}, options.results / "classification.csv", **repeated)
        if records:
            report_classification(records, comparable(published, datasets, "6"))
    if "spiral" in options.parts:
        progress = Progress(len(SIZES) * options.samples)
        records = spiral_records(samples=options.samples, seed=options.seed, progress=progress)
        progress.close()
        write_records(options.results / "spiral.csv", records)
        report_spiral(records)
        draw_spiral(records, options.results / "spiral.png")


if __name__ == "__main__":
    main()
