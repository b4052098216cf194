"""Pictures of learning, predictions and what models weigh: courses, calibration, transforms and nomograms."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import bdtrik
from scipy.stats import binomtest

from hybridbn.errors import NetworkError, TableError
from hybridbn.formatting import (
    choose_ticks,
    format_number,
    format_probability,
    format_share,
    format_value,
    shorten_text,
    step_of,
)
from hybridbn.inference.engines.naive_bayes import NaiveBayesTables
from hybridbn.inference.posteriors import ContinuousPosterior, DiscretePosterior
from hybridbn.inference.queries import posterior
from hybridbn.learning.augmentation import Augmented, History
from hybridbn.learning.ensemble import Ensemble
from hybridbn.network import Network
from hybridbn.options import check_count
from hybridbn.pictures.chart import LETTER, Area, Axis, Chart, Line, Mark, Points, Rectangles, Rule, Text, check_kind
from hybridbn.pictures.posteriors import PROBABILITY, write_weight
from hybridbn.potentials import Softmax
from hybridbn.potentials.base import Potential, take_logs
from hybridbn.tables import read_rows
from hybridbn.variables import Discrete, Values, Variable, code_state, is_missing


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
    >>> print(plot_augmentation(history, Figure().add_subplot()).get_label())
    Course of augmentation over 3 iterations: srmse from 2.5 to 2 in iteration 1, which is kept; log-likelihood from
    -40 to -37.
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
    >>> print(plot_boosting(ensemble, data, ax=Figure().add_subplot()).get_label())
    Errors of 3 networks for c by their number: training 16.7% of the first one, 16.7% of all, at least 16.7%.
    """
    check_kind(ensemble, Ensemble, "an ensemble is drawn, as hb.boost returns it")
    curves = [
        (label, _count_errors(ensemble, table))
        for label, table in (("training", data), ("test", test))
        if table is not None
    ]
    own = not curves
    if own and ensemble.errors is not None:
        curves = [("single networks, on weighted rows", np.asarray(ensemble.errors))]
    if not curves:
        raise TableError("the errors of this ensemble are not known; give a table with the target to count them in")
    count = len(ensemble)
    numbers = np.arange(1, count + 1)
    marks = [
        Line(numbers, errors, number, label=label, dashed=number > 0, marked=count <= 15)
        for number, (label, errors) in enumerate(curves)
    ]
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
    table = read_rows(data)[0].sample(purpose="errors of the networks")
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
    >>> print(plot_calibration(posterior, truth, ax=Figure().add_subplot()).get_label())
    Calibration of rain = yes in 8 rows: of those with about 0.250 0.250 came true; with about 0.750 0.750.
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
    true = np.bincount(bin_of[hits], minlength=bins)[used].tolist()
    intervals = [binomtest(k, m).proportion_ci(0.9, "wilson") for k, m in zip(true, n.tolist(), strict=True)]
    edges = np.arange(bins + 1) / bins
    marks: list[Mark] = [
        Rectangles(edges[:-1], edges[1:], 0.0, 0.18 * counts / counts.max(), "pale", label="number of predictions"),
        Line([0, 1], [0, 1], "dim", 1.0, "calibrated", dashed=True),
        *(Line([a, a], [*ends], width=1.2) for a, ends in zip(x, intervals, strict=True)),
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
    >>> print(plot_probability_integral_transform(posterior, [-2, -1, 1, 2], 2, Figure().add_subplot()).get_label())
    Histogram of the probability integral transform of x in 4 rows, 2 bins: shares 50.0%, 50.0%; flat would be 50.0%.
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


# -- nomograms --------------------------------------------------------------------------------------------------------


_MOST_ATTRIBUTES, _MOST_STATES, _MOST_LETTERS = 40, 12, 14
"""More scales don't fit on a screen; of attributes with more states, only the ends and the observed state are named;
longer names are cut, so that they don't overlap."""
_FONT = 7.0
_LEAST_HEIGHT = 0.42
"""The height of a scale with names above and below it, in inches; there is room above for less."""
_PROBABILITIES = (0.001, 0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 0.999)


@dataclass(frozen=True)
class _Scale:
    """What the values of an attribute add to the log-odds: the weights of some, their range, and that of any value."""

    variable: Variable
    marks: Sequence[tuple[float, str]]
    low: float
    high: float
    weigh: Callable[[Any], Any]


def plot_nomogram(
    model: Any,
    evidence: Mapping[str, Any] | None = None,
    state: Hashable = None,
    ax: Any = None,
    most_attributes: int = _MOST_ATTRIBUTES,
    *,
    target: str | None = None,
) -> Any:
    """Draw a scale for each attribute, the widest first, and below the sum with its probabilities.

    Parameters
    ----------
    model : Ensemble, Network or NaiveBayesTables
        Whose log-odds of two classes are sums over the attributes: an ensemble of naive Bayes networks of tables; a
        naive Bayes network, whose attributes may be numbers; or a network in which the class is a `Softmax` of numbers
        (logistic regression).
    evidence : mapping, optional
        A case, whose values are marked and added up.
    state : Hashable, optional
        The class whose log-odds are shown; the second one by default.
    ax : matplotlib axes, optional
    most_attributes : int
        The number of attributes to show; the label says how many of the narrowest are left out.
    target : str, optional
        The class, of a network in which it is not the only node with children or parents of all others.

    Examples
    --------
    >>> import hybridbn as hb
    >>> from matplotlib.figure import Figure
    >>> c, x = hb.Discrete("c", ("no", "yes")), hb.Discrete("x", ("low", "high"))
    >>> net = Network([hb.Multinomial(c, table=[0.5, 0.5]),
    ...                hb.Multinomial(x, (c,), table=[[0.75, 0.25], [0.25, 0.75]])])
    >>> print(plot_nomogram(net, {"x": "high"}, ax=Figure().add_subplot()).get_label())
    Nomogram of c = yes: without evidence +0.00; x from -1.10 to +1.10; for this case +1.10, probability 0.750.
    """
    variable, base, scales = _find_scales(model, target, state)
    code = 1 if state is None else variable.code(state)
    values = _read_evidence(scales, evidence, variable.name)
    order = sorted(scales, key=lambda name: scales[name].low - scales[name].high)
    shown, left_out = order[:most_attributes], max(0, len(order) - most_attributes)
    rows = len(shown) + 2
    weights = {name: float(scales[name].weigh(value)) for name, value in values.items()}
    total = base + sum(weights.values())
    ends = [end for name in shown for end in (scales[name].low, scales[name].high)]
    ends += [value for value in (base, 0.0, *weights.values(), *([total] if values else [])) if np.isfinite(value)]
    margin = 0.06 * (max(ends) - min(ends) or 1.0)
    low, high = min(ends) - margin, max(ends) + margin
    inches = 5.6 if ax is None else 0.7 * ax.bbox.width / ax.figure.dpi
    letter = LETTER * _FONT / 72 / inches * (high - low)
    tight = ax is not None and 0.8 * ax.bbox.height / ax.figure.dpi < _LEAST_HEIGHT * rows
    start = float(np.clip(base, low, high))
    marks: list[Mark] = [
        Rule(x=0.0, color="line"),
        Points([start], [rows - 1], "ink"),
        Text(start, rows - 1, write_weight(base), size=_FONT, level="bottom", shift=(0, 4)),
    ]
    for position, name in enumerate(shown):
        marks += _draw_scale(scales[name], rows - 2 - position, values.get(name), (low, high), letter, tight=tight)
    marks += _draw_sum(total if values else None, low, high, letter)
    label = f"{variable.name} = {variable.states[code]}"
    more = f" ({left_out} narrower left out)" if left_out else ""
    ranges = ((name, write_weight(scales[name].low), write_weight(scales[name].high)) for name in shown[:12])
    told = [f"{name} from {least} to {most}" for name, least, most in ranges]
    case = f"; for this case {write_weight(total)}, probability {_to_probability(total)}" if values else ""
    letters = 28 if ax is None else max(12, int(4.5 * ax.bbox.width / ax.figure.dpi))
    names = ["all together", *(shorten_text(name, letters) for name in reversed(shown)), "without evidence"]
    return Chart(
        marks,
        "",
        f"Nomogram of {label}: without evidence {write_weight(base)}; {'; '.join(told)}{case}.",
        Axis(f"log-odds of {label}{more}", low, high),
        Axis(low=-0.9, high=rows - 0.4, ticks=list(reversed(list(enumerate(names))))),
        (6.2, 0.5 * rows + 0.3),
    ).draw(ax)


def _to_probability(log_odds: float) -> str:
    return format_probability(float(1 / (1 + np.exp(-log_odds))))


# -- what adds up -----------------------------------------------------------------------------------------------------


def _find_scales(model: Any, target: str | None, state: Hashable) -> tuple[Discrete, float, dict[str, _Scale]]:
    """Return the class, its log-odds without evidence, and the scales of the attributes."""
    if isinstance(model, Ensemble):
        model = model.sum_tables()
    tables = model if isinstance(model, NaiveBayesTables) else None
    if tables is None:
        check_kind(model, Network, "a nomogram is drawn of an ensemble or of a network")
        target = _find_target(model) if target is None else target
    variable = model.variable(target) if tables is None else tables.target
    if not isinstance(variable, Discrete) or len(variable) != 2:
        what = f"has {len(variable)} classes" if isinstance(variable, Discrete) else "is continuous"
        raise NetworkError(
            f"{variable.name!r} {what}, and weights of evidence add up to log-odds of two; explain() takes any number"
        )
    code = 1 if state is None else code_state(variable, state)
    if tables is not None:
        # eq. 2 of Elkan (1997)
        weights = {name: table[:, code] - table[:, 1 - code] for name, table in tables.logs.items()}
        scales = {name: _scale_states(tables.variables[name], own) for name, own in weights.items()}
        return variable, float(tables.prior[code] - tables.prior[1 - code]), scales
    return variable, *_scale_network(model, variable, code)


def _scale_network(model: Network, variable: Discrete, code: int) -> tuple[float, dict[str, _Scale]]:
    """Return the log-odds of a class without evidence, and scales of its children or of a Softmax's parents."""
    name = variable.name
    own = model.potential(name)
    if (logistic := own.as_softmax()) and not model.out_degree(name):
        return _scale_parents(model, logistic, code)
    with np.errstate(divide="ignore", invalid="ignore"):
        scales = {}
        for other in map(model.potential, model):
            if other is own:
                if own.parents:
                    raise _make_error(name, f"the target {name!r} has the parent {own.parents[0].name!r}")
            elif [parent.name for parent in other.parents] != [name]:
                reason = "is no child of it" if not other.parents else "has other parents"
                raise _make_error(name, f"{other.child.name!r} {reason}")
            elif table := other.as_table():
                scales[table.child.name] = _scale_states(
                    table.child, np.log(table.table[code]) - np.log(table.table[1 - code])
                )
            else:
                scales[other.child.name] = _scale_density(model, other, variable, code)
        odds = np.log(np.array([float(own(**{name: each})) for each in variable.states]))
    return float(odds[code] - odds[1 - code]), scales


def _make_error(name: str, reason: str) -> NetworkError:
    return NetworkError(
        f"log-odds of {name!r} add up where it is the only parent of all others, or a Softmax of them: {reason};"
        " net.explain() takes any network"
    )


def _find_target(network: Network) -> str:
    """Return the class of a naive Bayes network, or of a logistic regression."""
    others = len(network) - 1
    for name in network:
        if not isinstance(network.variable(name), Discrete):
            continue
        logistic = network.in_degree(name) == others and network.potential(name).as_softmax()
        if others and (network.out_degree(name) == others or logistic):
            return str(name)
    raise TableError("the network is neither naive Bayes nor a logistic regression; name the class in target=")


def _scale_states(variable: Discrete, weights: Values) -> _Scale:
    named = [(float(w), str(s)) for w, s in zip(weights, variable.states, strict=True)]
    return _Scale(variable, named, *_find_ends(weights), lambda value: weights[variable.code(value)])


def _scale_numbers(marginal: ContinuousPosterior, weigh: Callable[[Values], Values]) -> _Scale:
    """Return the scale of a number between its quantiles of 1 and 99 %, from what its values add."""
    variable = marginal.variable
    low, high = marginal.numeric.quantile([0.01, 0.99])
    ticks = choose_ticks(float(low), float(high), 6, variable.unit, step_of(variable))
    values = weigh(np.concatenate([[at for at, _ in ticks], np.linspace(low, high, 201)]))
    marks = [(weight, text) for weight, (_, text) in zip(values.tolist(), ticks, strict=False)]
    return _Scale(variable, marks, *_find_ends(values), lambda value: weigh(np.array([variable.value(value)]))[0])


def _find_ends(weights: Values) -> tuple[float, float]:
    finite = weights[np.isfinite(weights)]
    return (float(finite.min()), float(finite.max())) if len(finite) else (0.0, 0.0)


def _scale_parents(network: Network, own: Softmax, code: int) -> tuple[float, dict[str, _Scale]]:
    """Return the log-odds at the means of the parents, and what deviations from these add."""
    if any(isinstance(parent, Discrete) for parent in own.parents):
        raise _make_error(own.child.name, "it has discrete parents")
    slopes = own.coefficients[code] - own.coefficients[1 - code]
    base = float(own.intercept[code] - own.intercept[1 - code])
    scales = {}
    for slope, parent in zip(slopes.tolist(), own.parents, strict=True):
        marginal = posterior(network, parent.name)
        mean = float(marginal.numeric.mean())
        base += slope * mean

        def weigh(x: Values, slope: float = slope, mean: float = mean) -> Values:
            return slope * (x - mean)

        scales[parent.name] = _scale_numbers(marginal, weigh)
    return base, scales


def _scale_density(network: Network, potential: Potential, target: Discrete, code: int) -> _Scale:
    """Return the log ratio of an attribute's densities, in parts in which it falls or rises."""
    name = potential.child.name

    def weigh(x: Values) -> Values:
        logs = [take_logs(potential(**{name: x, target.name: target.states[each]})) for each in (code, 1 - code)]
        return np.asarray(logs[0] - logs[1])

    return _scale_numbers(posterior(network, name), weigh)


def _read_evidence(scales: Mapping[str, _Scale], evidence: Any, target: str) -> dict[str, Any]:
    if evidence is not None and not isinstance(evidence, Mapping):
        raise TableError("a nomogram takes the evidence of one case as a mapping")
    values = {name: value for name, value in (evidence or {}).items() if not is_missing(value)}
    for name in evidence or {}:
        if name not in scales:
            raise TableError(f"{name!r} is no attribute of {target!r}; these are {', '.join(map(repr, scales))}")
    return values


# -- drawing ----------------------------------------------------------------------------------------------------------


def _draw_scale(
    scale: _Scale, height: float, value: Any, ends: tuple[float, float], letter: float, *, tight: bool
) -> list[Mark]:
    """Draw an attribute's values at their weights, with names above, or below where there is no room above."""
    low, high = ends
    marks: list[Mark] = [Line([scale.low, scale.high], [height, height], width=1.2)]
    named = [(float(np.clip(w, low, high)), w, text) for w, text in scale.marks if not np.isnan(w)]
    marks.append(Points([at for at, _, _ in named], [height] * len(named), size=7.0, strokes=True))
    observed: tuple[float, float, str] | None = None
    if value is not None:
        weight = float(scale.weigh(value))
        variable = scale.variable
        text = str(variable.states[variable.code(value)]) if isinstance(variable, Discrete) else format_value(
            variable.value(value), variable.unit)  # fmt: skip
        observed = (float(np.clip(weight, low, high)), weight, text)
        marks.append(Points([observed[0]], [height], 1, 6.0))
    order = sorted(named)
    inner = order[1:-1] if len(order) <= _MOST_STATES else []
    occupied: dict[bool, list[tuple[float, float]]] = {True: []} if tight else {True: [], False: []}
    # the most important names come first, as names without room are left out
    for each in dict.fromkeys([*([observed] if observed else []), *order[:1], *order[-1:], *inner]):
        at, weight, text = each
        if each != observed and observed is not None and text == observed[2]:
            continue
        shown = shorten_text(text, _MOST_LETTERS) + ("" if np.isfinite(weight) else f" {write_weight(weight)}")
        half = letter * (len(shown) + 1) / 2
        middle = float(np.clip(at, low + half, high - half)) if 2 * half < high - low else at
        span = middle - half, middle + half
        free = [side for side, spans in occupied.items() if all(span[1] < a or b < span[0] for a, b in spans)]
        if not free:
            continue
        above = free[0]
        occupied[above].append(span)
        color = 1 if each == observed else "ink"
        marks.append(Text(middle, height, shown, color, _FONT, level="bottom" if above else "top",
                          shift=(0, 5 if above else -5), bold=each == observed, tip=text))  # fmt: skip
    return marks


def _draw_sum(total: float | None, low: float, high: float, letter: float) -> list[Mark]:
    """Draw the line of log-odds, labeled with probabilities."""
    marks: list[Mark] = [Line([low, high], [0, 0], "ink", 1.2)]
    last = -np.inf
    for share in _PROBABILITIES:
        at = float(np.log(share / (1 - share)))
        if low <= at <= high and at - last > 6 * letter:
            marks.append(Points([at], [0], "ink", 7.0, strokes=True))
            marks.append(Text(at, 0, f"{share:g}", size=_FONT, level="top", shift=(0, -5)))
            last = at
    if total is not None:
        at = float(np.clip(total, low, high))
        marks.append(Points([at], [0], 1, 7.0))
        side = "left" if at < (low + high) / 2 else "right"
        text = f"{write_weight(total)}: probability {_to_probability(total)}"
        marks.append(Text(at, 0, text, 1, _FONT + 1, side, "bottom", (0, 6), bold=True))
    return marks
