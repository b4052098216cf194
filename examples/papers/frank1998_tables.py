"""The tables of Frank, Trigg, Holmes & Witten (1998), what was measured beside what was published, with verdicts."""

import math

import numpy as np
from scipy import stats
from studies import judge, layout, significant, summaries

__all__ = [
    "errors_table",
    "interval",
    "report_classification",
    "report_regression",
    "report_spiral",
    "verdict",
    "wins",
    "wins_table",
]

SHARE, DEVIATIONS = 0.05, 2.0
"""A measured figure is near a published one within this share of it, or within so many of its standard deviations."""
NOT_REPRODUCIBLE = ("servo", "meta")
"""No reading of the paper leads to the published figures of these."""
SPARE = {"rmse": 2, "mae": 5}
"""How many more datasets may be farther off than that."""
POINTS, MEAN_OF_POINTS = 3.0, 0.7
"""How near accuracies of Table 6 are expected, each, and the mean over datasets, in percent."""
CONFIDENCE = 0.99


def interval(values):
    """Return mean and half the length of its confidence interval."""
    values = np.asarray(values)
    if len(values) < 2:
        return float(values.mean()), math.nan
    half = stats.t.ppf((1 + CONFIDENCE) / 2, len(values) - 1) * values.std(ddof=1) / math.sqrt(len(values))
    return float(values.mean()), float(half)


def verdict(measured, published):
    """Tell how a measured figure compares: near, outside, or nothing where none is published.

    Examples
    --------
    >>> from studies import Figure
    >>> verdict(104.0, Figure(100.0, 1.0, "", "")), verdict(90, Figure(100.0, 2.0, "", ""))
    ('within', 'OUTSIDE')
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
        if compared:
            more = [name for name in outside if name.lower() not in NOT_REPRODUCIBLE]
            holds = judge(len(more) <= SPARE[measure], compared)
            near = f"{compared - len(outside)} of {compared}; outside: {', '.join(outside) or 'none'}"
            print(f"naive Bayes within max(2 published sd, 5 %) on {near}")
            print(f"expected: all but {', '.join(NOT_REPRODUCIBLE)} and {SPARE[measure]} more: {holds}")
        if len(repetitions) < 2:
            print("significance needs at least two repetitions")
            continue
        table = {"rmse": "Table 3", "mae": "Table 5"}[measure]
        print(f"\n{table}: on how many datasets the column is significantly better than the row (published: of 32)\n")
        print(wins_table(records, published, measure))
    if len(repetitions) > 1:
        both = wins(records, ["naive_bayes_median", "naive_bayes"], "mae")
        figures = [
            published["3.3", "mean absolute error", key].value for key in ("mean_over_median", "median_over_mean")
        ]
        print(
            f"\nmean absolute error: predicting the mean is better than the median on {both[0, 1]}, worse on "
            f"{both[1, 0]} datasets "
            f""
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
            holds = judge(not far and abs(mean) <= MEAN_OF_POINTS, len(found_differences))
            print(
                f"{method}: mean difference {mean:+.2f} points over {len(found_differences)} datasets, farther than "
                f"{POINTS:g}: "
                f""
                f"{', '.join(far) or 'none'}; expected: within {POINTS:g} each and {MEAN_OF_POINTS:g} on the mean: "
                f"{holds}"
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
