"""Pictures of learning and of predictions: courses of augmentation and boosting, calibration, and transforms."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import bdtrik

from hybridbn.arguments import check_count
from hybridbn.errors import TableError
from hybridbn.inference.posteriors.base import DiscretePosterior
from hybridbn.inference.posteriors.continuous import ContinuousPosterior
from hybridbn.labels import format_number, format_probability, format_share
from hybridbn.learning.augmentation import Augmented, History
from hybridbn.learning.ensemble import Ensemble
from hybridbn.pictures.chart import Area, Axis, Chart, Line, Mark, Points, Rectangles, Rule, check_kind
from hybridbn.pictures.posteriors import PROBABILITY
from hybridbn.tables import Table
from hybridbn.variables import Values

__all__ = ["plot_augmentation", "plot_boosting", "plot_calibration", "plot_probability_integral_transform"]

_Z = 1.645
"""Of an interval that holds 90 % of a normal distribution."""


def plot_augmentation(history: History | Augmented, ax: Any = None) -> Any:
    """Draw srmse (left axis) and log-likelihood (right axis) by iteration, the model that is kept in a ring.

    Returns
    -------
    matplotlib axes
        The left ones.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> from hybridbn.learning.augmentation import Step
    >>> history = History((Step(0, 2.5, -40.0), Step(1, 2.0, -38.0), Step(2, 2.25, -37.0)))
    >>> plot_augmentation(history, Figure().add_subplot()).get_label()
    'Course of augmentation over 3 iterations: srmse from 2.5 to 2 in iteration 1, which is kept; log-likelihood from
    -40 to -37.'
    """
    history = history.history if isinstance(history, Augmented) else history
    check_kind(history, History, "the history of hb.augment is drawn")
    if not len(history):
        raise TableError("there is nothing to draw: the history has no steps")
    iterations, best = np.arange(len(history)), history.best
    errors, likelihoods = history.srmse, history.log_likelihood
    words = (
        f"Course of augmentation over {len(history)} iterations: srmse from {format_number(errors[0])} to "
        f"{format_number(errors[best])} in iteration {best}, which is kept; log-likelihood from "
        f"{format_number(likelihoods[0])} to {format_number(likelihoods[-1])}."
    )
    axis = Axis("iteration", -0.3, len(history) - 0.7)
    ring = Points([best], [errors[best]], 0, 11.0, hollow=True)
    ax = Chart([Line(iterations, errors, marked=True), ring], "", words, axis, Axis("srmse")).draw(ax)
    course = Line(iterations, likelihoods, 1, dashed=True, marked=True)
    right = Chart([course], x=Axis("", -0.3, len(history) - 0.7), y=Axis("log-likelihood of the observed cells"))
    other = right.draw(ax.twinx())
    for axes, line, side in ((ax, 0, "left"), (other, 0, "right")):
        axes.yaxis.label.set_color(axes.lines[line].get_color())
        axes.spines["right"].set_visible(side == "right")
    return ax


def plot_boosting(ensemble: Ensemble, data: Any = None, test: Any = None, ax: Any = None) -> Any:
    """Draw the share of rows that an ensemble's first networks classify wrongly, by their number.

    Parameters
    ----------
    ensemble : Ensemble
    data, test : tables with the target, optional
        Such as those that it was learned from and that it is tested on. Without both, the weighted errors of the
        single networks in their rounds are drawn.
    ax : matplotlib axes, optional

    Examples
    --------
    >>> import hybridbn as hb
    >>> from matplotlib.figure import Figure
    >>> data = hb.Table({"x": [0, 0, 1, 1, 1, 0], "z": [0, 1, 1, 0, 1, 1], "c": ["a", "a", "b", "b", "b", "b"]},
    ...                 discrete=["x", "z"])
    >>> ensemble = hb.boost(data, "c", rounds=3)
    >>> plot_boosting(ensemble, data, ax=Figure().add_subplot()).get_label()
    'Errors of 3 networks for c by their number: training 16.7% of the first one, 16.7% of all, at least 16.7%.'
    """
    check_kind(ensemble, Ensemble, "an ensemble is drawn, as hb.boost returns it")
    curves = [
        (label, _count_errors(ensemble, table))
        for label, table in (("training", data), ("test", test))
        if table is not None
    ]
    own = ensemble.errors is not None and not curves
    if own:
        assert ensemble.errors is not None
        curves = [("single networks, on weighted rows", np.asarray(ensemble.errors))]
    if not curves:
        raise TableError("the errors of this ensemble are not known; give a table with the target to count them in")
    count = len(ensemble)
    numbers = np.arange(1, count + 1)
    marks: list[Mark] = []
    for number, (label, errors) in enumerate(curves):
        marks.append(Line(numbers, errors, number, label=label, dashed=number > 0, marked=count <= 15))
    told = "; ".join(
        f"{label} {format_share(e[0])} of the first one, {format_share(e[-1])} of {'the last' if own else 'all'}, "
        f"at least {format_share(e.min())}"
        for label, e in curves
    )
    highest = max(float(errors.max()) for _, errors in curves)
    return Chart(
        marks,
        "",
        f"Errors of {count} networks for {ensemble.target} by their number: {told}.",
        Axis("round" if own else "networks", 0.5, count + 0.5, ticks=[(1.0, "1")] if count == 1 else None),
        Axis("share of rows classified wrongly", 0.0, 1.1 * highest or 0.1),
    ).draw(ax)


def _count_errors(ensemble: Ensemble, data: Any) -> Values:
    """Return the weighted share of wrong classes after one network, after two, and so on."""
    table = data if isinstance(data, Table) else Table(data)
    if ensemble.target not in table:
        raise TableError(f"the table has no column {ensemble.target!r}, the target, to compare with")
    truth = table.coded(ensemble.variable)
    weights = np.where(truth >= 0, table.weights, 0.0)
    if not weights.sum() > 0:
        raise TableError(f"no row of the table has a known {ensemble.target!r} to compare with")
    stages = ensemble.staged_posterior(table.drop(ensemble.target))
    wrong = [float(weights @ (stage.probabilities.argmax(axis=1) != truth)) for stage in stages]
    return np.asarray(np.array(wrong) / weights.sum())


def plot_calibration(
    posterior: DiscretePosterior, truth: Any, state: Any = None, bins: int = 10, ax: Any = None
) -> Any:
    """Draw how often what was predicted with some probability came true, against that probability.

    Points lie on the diagonal where predictions are calibrated; the lines through them hold 90 % (Wilson's intervals),
    and the bars at the bottom tell how many predictions there are.

    Parameters
    ----------
    posterior : DiscretePosterior
        Of a table of cases.
    truth : sequence
        The state that each case turned out to have; missing ones are left out.
    state : optional
        The state whose probability is looked at; by default the second of two, else the most probable one of each row.
    bins : int
        The number of intervals of probabilities.
    ax : matplotlib axes, optional

    Examples
    --------
    >>> import hybridbn as hb
    >>> from matplotlib.figure import Figure
    >>> rain, wet = hb.Discrete("rain", ("no", "yes")), hb.Discrete("wet", ("no", "yes"))
    >>> net = hb.Network([hb.Multinomial(rain, table=[0.5, 0.5]),
    ...                   hb.Multinomial(wet, (rain,), table=[[0.75, 0.25], [0.25, 0.75]])])
    >>> posterior = net.posterior("rain", hb.Table({"wet": ["no"] * 4 + ["yes"] * 4}))
    >>> truth = ["no", "no", "no", "yes", "no", "yes", "yes", "yes"]
    >>> plot_calibration(posterior, truth, ax=Figure().add_subplot()).get_label()
    'Calibration of rain = yes in 8 rows: of those with about 0.250 0.250 came true; with about 0.750 0.750.'
    """
    if not isinstance(posterior, DiscretePosterior) or posterior.single:
        raise TableError("calibration is that of the posteriors of a discrete variable in a table of cases")
    bins = check_count(bins, "the number of bins", 1)
    variable = posterior.variable
    codes = _read_truth(variable.codes(truth), len(posterior), variable.name)
    code = (1 if len(variable) == 2 else None) if state is None else variable.code(state)
    table = posterior.probabilities
    predicted = table.argmax(axis=1) if code is None else np.full(len(codes), code)
    shares = table[np.arange(len(codes)), predicted]
    known = (codes >= 0) & np.isfinite(shares)
    shares, hits = shares[known], (predicted == codes)[known]
    if not len(shares):
        raise TableError(f"no row has both a prediction and a known {variable.name!r}; there is nothing to draw")
    bin_of = np.minimum((shares * bins).astype(int), bins - 1)
    counts = np.bincount(bin_of, minlength=bins)
    used = np.flatnonzero(counts)
    n = counts[used]
    x, y = (np.bincount(bin_of, part, bins)[used] / n for part in (shares, hits.astype(float)))
    center, half = _find_wilson_interval(y, n)
    edges = np.arange(bins + 1) / bins
    marks: list[Mark] = [
        Rectangles(edges[:-1], edges[1:], 0.0, 0.18 * counts / counts.max(), "pale", label="number of predictions"),
        Line([0, 1], [0, 1], "dim", 1.0, "calibrated", dashed=True),
        *(Line([a, a], [m - h, m + h], width=1.2) for a, m, h in zip(x, center, half, strict=True)),
        Line(x, y, width=1.0, marked=True),
    ]
    told = "; ".join(
        f"{'of those ' if not i else ''}with about {format_probability(a)} {format_probability(b)}"
        f"{' came true' if not i else ''}"
        for i, (a, b) in enumerate(zip(x.tolist(), y.tolist(), strict=True))
    )
    what = f"{variable.name} = {variable.states[code]}" if code is not None else f"the most probable {variable.name}"
    return Chart(
        marks,
        what,
        f"Calibration of {what} in {len(shares)} rows: {told}.",
        Axis("predicted probability", 0.0, 1.0, ticks=PROBABILITY),
        Axis("share that came true", 0.0, 1.0, ticks=PROBABILITY),
        (3.2, 3.0),
    ).draw(ax)


def _find_wilson_interval(shares: Values, counts: Any) -> tuple[Values, Values]:
    """Return the centers and half the lengths of the intervals that hold 90 % (Wilson, 1927)."""
    whole = 1 + _Z**2 / counts
    center = (shares + _Z**2 / (2 * counts)) / whole
    half = _Z / whole * np.sqrt(shares * (1 - shares) / counts + _Z**2 / (4 * counts**2))
    return np.asarray(center), np.asarray(half)


def _read_truth(values: Any, rows: int, name: str) -> Any:
    if values.shape != (rows,):
        raise TableError(
            f"there are {rows} posteriors of {name!r}, but {values.size} true values; give one for each row"
        )
    return values


def plot_probability_integral_transform(
    posterior: ContinuousPosterior, truth: Any, bins: int = 10, ax: Any = None
) -> Any:
    """Draw a histogram of the probabilities that predicted densities have below the values that came true.

    It is flat where predictions are calibrated, high at both ends where they are too narrow, high in the middle where
    too wide; the band holds 90 % of the bars of calibrated ones.

    Parameters
    ----------
    posterior : ContinuousPosterior
        Of a table of cases.
    truth : sequence of float
        The value that each case turned out to have; missing ones are left out.
    bins : int
    ax : matplotlib axes, optional

    Examples
    --------
    >>> import hybridbn as hb
    >>> from matplotlib.figure import Figure
    >>> x = hb.LinearGaussian(hb.Continuous("x"), intercept=0.0, coefficients=[], variance=1.0)
    >>> c = hb.Multinomial(hb.Discrete("c", ("a", "b")), table=[0.5, 0.5])
    >>> posterior = hb.Network([x, c]).posterior("x", hb.Table({"c": ["a"] * 4}))
    >>> plot_probability_integral_transform(posterior, [-2, -1, 1, 2], 2, Figure().add_subplot()).get_label()
    'Histogram of the probability integral transform of x in 4 rows, 2 bins: shares 50.0%, 50.0%; flat would be 50.0%.'
    """
    if not isinstance(posterior, ContinuousPosterior) or posterior.single:
        raise TableError(
            "the probability integral transform is that of densities in a table of cases; of a discrete variable,"
            " plot_calibration tells what it would"
        )
    bins = check_count(bins, "the number of bins", 1)
    variable = posterior.variable
    values = _read_truth(variable.values(truth), len(posterior), variable.name)
    below = posterior.pit(values)
    below = below[np.isfinite(below)]
    if not len(below):
        raise TableError(f"no row has both a prediction and a known {variable.name!r}; there is nothing to draw")
    count = len(below)
    heights = np.histogram(below, bins, (0.0, 1.0))[0] * (bins / count)
    edges = np.arange(bins + 1) / bins
    low, high = (float(np.ceil(bdtrik(level, count, 1 / bins))) * bins / count for level in (0.05, 0.95))
    tips = [f"{format_share(height / bins)} of the rows" for height in heights.tolist()]
    marks: list[Mark] = [
        Rectangles(edges[:-1] + 0.004, edges[1:] - 0.004, 0.0, heights, 0, 0.8, tips=tips),
        Area([0.0, 1.0], [low, low], [high, high], 1, 0.25, "90 % if calibrated"),
        Rule(y=1.0, color=1, dashed=True),
    ]
    told = ", ".join(format_share(height / bins) for height in heights.tolist())
    return Chart(
        marks,
        variable.name,
        f"Histogram of the probability integral transform of {variable.name} in {count} rows, {bins} bins: "
        f"shares {told}; flat would be {format_share(1 / bins)}.",
        Axis("probability below the true value", 0.0, 1.0, ticks=PROBABILITY),
        Axis("density", 0.0, 1.1 * max(high, float(heights.max()))),
    ).draw(ax)
