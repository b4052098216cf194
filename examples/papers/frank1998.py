"""Naive Bayes for regression: the tables and the learning curves of Frank, Trigg, Holmes & Witten (1998), measured and published.

python frank1998.py --data FOLDER [--parts regression classification spiral] [--datasets iris ...] [--repetitions 10]

FOLDER has a manifest.csv (see `studies`); datasets for which nothing was published get blanks. Printed are

* Tables 2 and 4: relative root mean squared and mean absolute error of kernel naive Bayes, predicting the mean (equation 12, 50
  grid points), beside linear regression, nearest neighbors and, if the package m5py is there, a model tree. A verdict says whether
  naive Bayes is within two published standard deviations or 5 % of what was published. In the paper Table 4 holds predictions of the mean as
  well, since they were better than those of the median; the median (equation 15, 100 grid points) stands beside it here.
* Tables 3 and 5: on how many datasets one method is significantly better than another.
* Table 6: classification by a regression for each class.
* Figure 2: learning curves on a spiral whose attributes are independent given the target.

*Errors* are means over the folds of each fold's error relative to that of predicting the fold's own mean (footnote 9), in percent; the published
columns of naive Bayes and the neighbors follow this, those of linear regression and M5' in Table 2 don't seem to. A fold in which all
targets are equal does not count. Rows without a target are left out. Weka's figures, where there are any, are by the convention above.

*Kernels*: the constants of the bandwidths are searched on the paper's grid. The n of a nominal attribute's c / sqrt(n) is the number of all
rows; with --per-state it is that of the rows with the value, as printed below equation 8, which comes out farther from the tables.
Attributes that are constant in the training rows are skipped, and for a row those whose likelihood is negligible at all grid points (footnote 6).
The grid goes on for six bandwidths beyond the least and the greatest target.

The results of each cross-validation are written to a folder of CSV files, dataset by dataset; with --resume datasets that are there already
are not run again.
"""

import argparse
import math
from pathlib import Path

import numpy as np
from baselines import linear_regression, model_tree, nearest_neighbors
from scipy import stats
from studies import (
    Progress,
    Record,
    cross_validated,
    datasets_of,
    layout,
    read_published,
    read_records,
    significant,
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
SHARE, DEVIATIONS = 0.05, 2.0
"""A measured figure is near a published one within this share of it, or within so many of its standard deviations."""
NOT_REPRODUCIBLE = ("servo", "meta")
"""No reading of the paper leads to the published figures of these."""
SPARE = {"rmse": 2, "mae": 5}
"""How many more datasets may be farther off than that."""
POINTS, MEAN_OF_POINTS = 3.0, 0.7
"""How near accuracies of Table 6 are expected, each, and the mean over datasets, in percent."""
SIZES = (50, 100, 200, 400, 600, 800, 1000)
SAMPLES, TESTED, CONFIDENCE = 20, 1000, 0.99


# -- kernel naive Bayes on a grid ---------------------------------------------------------------------------------------


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
        self.attributes = [name for name in training.names if name != target and _varies(training, name)]
        self.network = naive_bayes(training.select([target, *self.attributes]), target, potentials=fitter)
        self.target = target
        y = training.column(target)
        self.low, self.high = float(y.min()), float(y.max())
        self.ranges = {name: _range(training, name) for name in self.attributes}

    def grid(self, points):
        """Return the points of footnote 6: so many between the least and the greatest training target, and more beyond."""
        step = (self.high - self.low) / (points - 1)
        beyond = math.ceil(BEYOND * float(self.network.potential(self.target).bandwidths[0]) / step)
        return self.low + step * np.arange(-beyond, points + beyond)

    def densities(self, table, points):
        """Return the grid (nodes,) and the density of the target at it for each row, adding up to one, (nodes, rows)."""
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


def _varies(table, name):
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


# -- errors -------------------------------------------------------------------------------------------------------------


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


# -- classification -----------------------------------------------------------------------------------------------------


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
    """Predict by tables of probabilities with Laplace's estimate, numbers being discretized by Fayyad and Irani's criterion."""
    names = [name for name in training.names if name != target and _varies(training, name)]
    fitter = MultinomialFitter(estimate=Dirichlet(), discretizer=mdl)
    network = naive_bayes(training.select([target, *names]), target, potentials=fitter)
    return np.argmax(network.posterior(target, test.select(names)).probabilities, axis=1)


# -- the spiral of Figure 2 ---------------------------------------------------------------------------------------------


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


def interval(values):
    """Return mean and half the length of its confidence interval."""
    values = np.asarray(values)
    if len(values) < 2:
        return float(values.mean()), math.nan
    half = stats.t.ppf((1 + CONFIDENCE) / 2, len(values) - 1) * values.std(ddof=1) / math.sqrt(len(values))
    return float(values.mean()), float(half)


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


# -- tables -------------------------------------------------------------------------------------------------------------


def verdict(measured, published):
    """Tell how a measured figure compares: near, outside, or nothing where none is published.

    Examples
    --------
    >>> from studies import Figure
    >>> verdict(104.0, Figure(100.0, 1.0, "", "")), verdict(106.0, Figure(100.0, 4.0, "", "")), verdict(90, Figure(100.0, 2.0, "", ""))
    ('within', 'within', 'OUTSIDE')
    """
    if published is None or math.isnan(measured):
        return ""
    allowed = max(SHARE * published.value, 0.0 if math.isnan(published.sd) else DEVIATIONS * published.sd)
    return "within" if abs(measured - published.value) <= allowed else "OUTSIDE"


def errors_table(records, published, measure):
    """Return Table 2 or 4 as text, with what is within bounds, and the names of the datasets that are not."""
    number = {"rmse": "2", "mae": "4"}[measure]
    found = summaries(records)
    names = list(dict.fromkeys(record.dataset for record in records))
    others = ["linear_regression", f"knn_{measure}", "model_tree"]
    header = ["dataset", "runs", "naive Bayes", "sd", "published", "sd", "verdict", "median"]
    for label in ("LR", "kNN", "M5'"):
        header += [label, "publ.", *(["Weka"] if measure == "rmse" else [])]
    rows, judged = [], {}
    for name in names:
        values = found[name, "naive_bayes", measure]
        figure = published.get((number, name.lower(), "naive_bayes"))
        judged[name] = verdict(float(values.mean()), figure)
        sd = float(values.std(ddof=1)) if len(values) > 1 else math.nan
        row = [name, len(values), float(values.mean()), sd, *(figure[:2] if figure else (math.nan, math.nan))]
        row += [judged[name], float(found[name, "naive_bayes_median", measure].mean())]
        for method in others:
            row.append(float(np.mean(found.get((name, method, measure), math.nan))))
            for key in (method, *([f"{method}_weka"] if measure == "rmse" else [])):
                other = published.get((number, name.lower(), key))
                row.append(other.value if other else math.nan)
        rows.append(row)
    outside = [name for name in names if judged[name] == "OUTSIDE"]
    return layout(header, rows), outside, sum(bool(text) for text in judged.values())


def wins(records, methods, measure):
    """Count on how many datasets the method of a column is significantly better than that of a row."""
    found = summaries(records)
    names = dict.fromkeys(record.dataset for record in records)
    counts = np.zeros((len(methods), len(methods)), dtype=int)
    for name in names:
        for i, row in enumerate(methods):
            for j, column in enumerate(methods):
                if i != j and (name, row, measure) in found and (name, column, measure) in found:
                    counts[i, j] += significant(found[name, column, measure], found[name, row, measure]) < 0
    return counts


def wins_table(records, published, measure):
    """Return Table 3 or 5 as text."""
    number, marked = {"rmse": ("3", "2"), "mae": ("5", "4")}[measure]
    present = {record.method for record in records}
    names = {record.dataset.lower() for record in records}
    labels = {"naive_bayes": "naive Bayes", "linear_regression": "LR", f"knn_{measure}": "kNN", "model_tree": "M5'"}
    methods = [method for method in labels if method in present]
    counts = wins(records, methods, measure)
    published_names = {method: method.removesuffix(f"_{measure}") for method in labels}
    rows = []
    for i, row in enumerate(methods):
        cells = []
        for j, column in enumerate(methods):
            figure = published.get((number, f"over {published_names[row]}", published_names[column]))
            cells += ["-", "-"] if i == j else [counts[i, j], round(figure.value)]
        rows.append([labels[row], *cells])
    header = ["better than", *(text for method in methods for text in (labels[method], "publ."))]
    lines = [layout(header, rows)]
    for method in methods[1:]:
        marks = [published[marked, name, method].mark for name in names if (marked, name, method) in published]
        lines.append(
            f"published on the datasets at hand: {labels[method]} better than naive Bayes on {marks.count('better')}, "
            f"worse on {marks.count('worse')} of {len(marks)}"
        )
    return "\n".join(lines)


def report_regression(records, published):
    """Print Tables 2 to 5."""
    repetitions = {record.repetition for record in records}
    for measure, title in (
        ("rmse", "Table 2: relative root mean squared error"),
        ("mae", "Table 4: relative mean absolute error"),
    ):
        text, outside, compared = errors_table(records, published, measure)
        print(f"\n{title}, %\n\n{text}\n")
        more = [name for name in outside if name.lower() not in NOT_REPRODUCIBLE]
        holds = "holds" if len(more) <= SPARE[measure] else "DOES NOT HOLD"
        print(
            f"naive Bayes within max(2 published sd, 5 %) on {compared - len(outside)} of {compared}; outside: {outside or 'none'}"
        )
        print(f"expected: all but {' and '.join(NOT_REPRODUCIBLE)} and {SPARE[measure]} more: {holds}")
        if len(repetitions) < 2:
            print("significance needs at least two repetitions")
            continue
        print(
            f"\nTable {'3' if measure == 'rmse' else '5'}: on how many datasets the column is significantly better than the row\n"
        )
        print(wins_table(records, published, measure))
    if len(repetitions) > 1:
        both = wins(records, ["naive_bayes_median", "naive_bayes"], "mae")
        figures = [
            published["3.3", "mean absolute error", key].value for key in ("mean_over_median", "median_over_mean")
        ]
        print(
            f"\nmean absolute error: predicting the mean is better than the median on {both[0, 1]}, worse on {both[1, 0]} datasets "
            f"(published {figures[0]:.0f} and {figures[1]:.0f} of 32)"
        )


def report_classification(records, published):
    """Print Table 6."""
    found = summaries(records)
    names = list(dict.fromkeys(record.dataset for record in records))
    rows, differences = [], {"regressions": {}, "classification": {}}
    for name in names:
        row = [name, len(found[name, "regressions", "accuracy"])]
        for method in ("regressions", "classification"):
            value = float(found[name, method, "accuracy"].mean())
            figure = published.get(("6", name.lower(), method))
            row += [value, figure.value if figure else math.nan]
            if figure:
                differences[method][name] = value - figure.value
            if method == "regressions":
                row.append("" if not figure else "within" if abs(value - figure.value) <= POINTS else "OUTSIDE")
        tree = published.get(("6", name.lower(), "c45"))
        rows.append([*row, tree.value if tree else math.nan])
    header = ["dataset", "runs", "regressions", "publ.", "verdict", "naive Bayes", "publ.", "C4.5 publ."]
    print(f"\nTable 6: right classes, %\n\n{layout(header, rows)}\n")
    for method, found_differences in differences.items():
        if found_differences:
            mean = float(np.mean(list(found_differences.values())))
            far = [name for name, value in found_differences.items() if abs(value) > POINTS]
            holds = "holds" if not far and abs(mean) <= MEAN_OF_POINTS else "DOES NOT HOLD"
            print(
                f"{method}: mean difference {mean:+.2f} points over {len(found_differences)} datasets, farther than {POINTS:g}: "
                f"{far or 'none'}; expected: within {POINTS:g} each and {MEAN_OF_POINTS:g} on the mean: {holds}"
            )


def report_spiral(records):
    """Print the points of Figure 2."""
    found = summaries(records)
    names = list(dict.fromkeys(record.dataset for record in records))
    methods = list(dict.fromkeys(record.method for record in records))
    rows = []
    for name in names:
        cells = [interval(found[name, method, "rmse"]) for method in methods]
        rows.append([name, *(f"{mean:.1f} +- {half:.1f}" for mean, half in cells)])
    print("\nFigure 2: relative root mean squared error on the spiral, %, and 99 % intervals\n")
    print(layout(["training rows", *methods], rows))


# -- running ------------------------------------------------------------------------------------------------------------


def run(datasets, methods, measures, path, *, repetitions, count, seed, resume=False):
    """Cross-validate all datasets, writing the results after each of them."""
    records = read_records(path) if resume else []
    done = {record.dataset for record in records}
    left = [dataset for dataset in datasets if dataset.name not in done]
    progress = Progress(repetitions * sum(min(count, len(dataset)) for dataset in left))
    for dataset in left:
        records += cross_validated(
            dataset, methods, measures, repetitions=repetitions, count=count, seed=seed, progress=progress
        )
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
    parser.add_argument("--parts", nargs="+", default=["regression", "classification", "spiral"])
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
            report_regression(records, published)
        if "model_tree" not in methods:
            print("\nno model tree: m5py is not installed, or not for this scikit-learn")
    if "classification" in options.parts:
        datasets = datasets_of(options.data, "classification", "frank1998", options.datasets)
        methods = {"regressions": class_regressions(options.per_state), "classification": classification_naive_bayes}
        records = run(datasets, methods, {"accuracy": accuracy}, options.results / "classification.csv", **repeated)
        if records:
            report_classification(records, published)
    if "spiral" in options.parts:
        progress = Progress(len(SIZES) * options.samples)
        records = spiral_records(samples=options.samples, seed=options.seed, progress=progress)
        progress.close()
        write_records(options.results / "spiral.csv", records)
        report_spiral(records)
        draw_spiral(records, options.results / "spiral.png")


if __name__ == "__main__":
    main()
