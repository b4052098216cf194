"""The table and the figures of Fernandez, Nielsen & Salmeron (2008): what was measured beside what was published."""

import math

import numpy as np
from scipy import stats
from studies import layout, summaries

__all__ = ["draw_curves", "friedman", "mean_interval", "report_curves", "report_table", "verdict"]

METHODS = {
    "naive_bayes": "naive Bayes",
    "available": "available",
    "gaussian": "gaussian",
    "tan": "TAN",
    "selective": "selective",
    "linear": "linear",
}
SHARE = 0.1
"""How near the level of a published error at other rates than zero is expected; at zero, at or below."""
CONFIDENCE = 0.95


def friedman(errors):
    """Return mean ranks and the p-value of Friedman's test without a correction for ties, of errors (blocks, methods).

    Examples
    --------
    >>> ranks, p = friedman(np.array([[1.0, 2.0]] * 11 + [[2.0, 1.0]] * 13))
    >>> ranks.round(3), round(p, 4)
    (array([1.542, 1.458]), 0.6831)
    """
    errors = np.asarray(errors)
    blocks, count = errors.shape
    ranks = stats.rankdata(errors, axis=1).mean(axis=0)
    statistic = 12 * blocks / (count * (count + 1)) * float((ranks**2).sum() - count * (count + 1) ** 2 / 4)
    return ranks, float(stats.chi2.sf(statistic, count - 1))


def mean_interval(values):
    """Return mean and half the length of its confidence interval (NaN of one value)."""
    values = np.asarray(values)
    if len(values) < 2:
        return float(values.mean()), math.nan
    half = stats.t.ppf((1 + CONFIDENCE) / 2, len(values) - 1) * values.std(ddof=1) / math.sqrt(len(values))
    return float(values.mean()), float(half)


def verdict(measured, published, rate):
    """Tell how an error compares with a published one.

    Examples
    --------
    >>> [verdict(value, 1.0, 10) for value in (0.8, 1.05, 1.2)], verdict(1.05, 1.0, 0)
    (['below', 'within', 'ABOVE'], 'ABOVE')
    """
    if math.isnan(measured) or math.isnan(published):
        return ""
    if rate == 0:
        return "below" if measured <= published else "ABOVE"
    if abs(measured - published) <= SHARE * published:
        return "within"
    return "below" if measured < published else "ABOVE"


def _shown(value):
    """Return a number with four significant digits, the empty text for NaN."""
    return "" if math.isnan(value) else f"{value:.4g}"


def _value(published, name, method):
    figure = published.get(("2", name.lower(), method))
    return math.nan if figure is None else figure.value


def report_table(records, published, names, rates):
    """Print Table 2, how errors rise, and Friedman's test."""
    found = summaries(records)
    rows, verdicts = [], []
    for dataset in names:
        for rate in rates:
            name = f"{dataset} {rate}"
            values = found.get((name, "naive_bayes", "srmse"))
            if values is None:
                continue
            level = _value(published, name, "naive_bayes")
            judged = verdict(float(values.mean()), level, rate)
            verdicts.append((name, judged))
            mask_sd = float(values.std(ddof=1)) if len(values) > 1 else math.nan
            row = [name, len(values), _shown(float(values.mean())), _shown(mask_sd), _shown(level), judged]
            others = [found.get((name, method, "srmse"), math.nan) for method in list(METHODS)[1:]]
            rows.append(
                [*row, *(_shown(float(np.mean(errors))) for errors in others), _shown(_value(published, name, "m5"))]
            )
    header = ["dataset, % missing", "masks", "naive Bayes", "sd", "publ.", "verdict", *list(METHODS.values())[1:]]
    print("\nTable 2: root mean squared errors, means over masks; sd is that of one mask\n")
    print(layout([*header, "M5' publ."], rows))
    for dataset in names:
        means = [float(np.mean(found.get((f"{dataset} {rate}", "naive_bayes", "srmse"), math.nan))) for rate in rates]
        steps = np.diff(means)
        if np.isfinite(steps).all():
            print(f"{dataset}: naive Bayes rises in {int((steps > 0).sum())} of {len(steps)} steps")
    compared = [name for name, judged in verdicts if judged]
    if compared:
        above = [name for name, judged in verdicts if judged == "ABOVE"]
        print(
            f"not above the published level: {len(compared) - len(above)} of {len(compared)}; above: {', '.join(above)}"
        )
    _report_friedman(found, published, names, rates)


def _report_friedman(found, published, names, rates):
    blocks = [f"{dataset} {rate}" for dataset in names for rate in rates]
    blocks = [name for name in blocks if (name, "naive_bayes", "srmse") in found]
    methods = [m for m in METHODS if blocks and all((name, m, "srmse") in found for name in blocks)]
    if len(methods) > 1 and len(blocks) > 1:
        errors = [[float(found[name, method, "srmse"].mean()) for method in methods] for name in blocks]
        ranks, p = friedman(errors)
        text = ", ".join(f"{METHODS[m]} {rank:.2f}" for m, rank in zip(methods, ranks, strict=True))
        print(f"Friedman's test over {len(blocks)} rows: p = {p:.4g}; mean ranks: {text}")
        print("(rows of a dataset are not independent, so p is a description, as it was in the paper)")
    pairs = [key[1] for key in published if key[0] == "2" and key[2] == "m5"]
    errors = np.array([[_value(published, name, "naive_bayes"), _value(published, name, "m5")] for name in pairs])
    stated = published.get(("2", "friedman", "p"))
    if len(errors) and stated is not None:
        p = friedman(errors)[1]
        print(f"published figures, naive Bayes against M5', {len(errors)} rows: p = {p:.4f} (stated: {stated.value})")


def report_curves(records, names, rates):
    """Print the points of Figures 1 and 2."""
    found = summaries(records)
    rows = []
    for dataset in names:
        for rate in rates:
            name = f"{dataset} {rate}"
            if (name, "naive_bayes", "srmse") not in found:
                continue
            row = [name, len(found[name, "naive_bayes", "srmse"])]
            for measure in ("srmse", "log_likelihood"):
                mean, half = mean_interval(found[name, "naive_bayes", measure])
                row += [_shown(mean), _shown(half)]
            rows.append(row)
    print("\nFigures 1 and 2: means on the test rows and half the lengths of 95 % intervals\n")
    print(layout(["dataset, % missing", "models", "srmse", "+-", "log-likelihood", "+-"], rows))


def draw_curves(records, names, rates, path):
    """Draw Figures 1 (upper row) and 2 (lower row); needs matplotlib."""
    from matplotlib.figure import Figure

    found = summaries(records)
    figure = Figure(figsize=(3.6 * len(names), 6.2), layout="constrained")
    axes = figure.subplots(2, len(names), squeeze=False)
    for column, dataset in enumerate(names):
        for row, (measure, label) in enumerate(
            (("srmse", "root mean squared error"), ("log_likelihood", "log-likelihood"))
        ):
            points = [
                (rate, *mean_interval(found[f"{dataset} {rate}", "naive_bayes", measure]))
                for rate in rates
                if (f"{dataset} {rate}", "naive_bayes", measure) in found
            ]
            if points:
                places, means, halves = np.array(points).T
                axes[row, column].errorbar(places, means, np.nan_to_num(halves), marker="o", markersize=3, capsize=3)
            if column == 0:
                axes[row, column].set_ylabel(f"{label}, test rows")
        axes[0, column].set_title(dataset)
        axes[1, column].set_xlabel("missing cells in the training rows, %")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)
