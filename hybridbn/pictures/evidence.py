"""Pictures of reasoning: weights of evidence, effects of interventions, and what a change of a parameter does."""

from __future__ import annotations

from typing import Any

import numpy as np

from hybridbn.errors import TableError
from hybridbn.formatting import format_number, format_probability, format_value
from hybridbn.inference.information import Explanation
from hybridbn.inference.interventions import Effect
from hybridbn.inference.sensitivity import Sensitivity
from hybridbn.pictures.chart import Area, Axis, Chart, Line, Mark, Points, Rectangles, Rule, Text, check_kind
from hybridbn.variables import Continuous

__all__ = ["chart_explanation", "plot_effect", "plot_explanation", "plot_sensitivity", "write_weight"]

_MOST_STATES = 10
"""The most states of an outcome that are drawn."""


def write_weight(value: float) -> str:
    """Return a weight of evidence or a log-odds with its sign.

    Examples
    --------
    >>> write_weight(1.234567), write_weight(-np.inf)
    ('+1.23', '-∞')
    """
    return f"{value:+.2f}" if np.isfinite(value) else ("+∞" if value > 0 else "-∞" if value < 0 else "?")


def plot_explanation(explanation: Explanation, ax: Any = None) -> Any:
    """Draw weights of evidence as steps from the log-odds without evidence to those with all of it.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> reasons = Explanation("ill", "yes", -2.0, {"cough": 1.5, "fever": 2.0}, 1.5)
    >>> plot_explanation(reasons, Figure().add_subplot()).get_label()
    'Log-odds of ill = yes: without evidence -2.00, cough +1.50, fever +2.00, in all +1.50, probability 0.818.'
    """
    return chart_explanation(explanation).draw(ax)


def chart_explanation(explanation: Explanation) -> Chart:
    """Return the picture of weights of evidence, see `plot_explanation`."""
    check_kind(explanation, Explanation, "an explanation is drawn, as net.explain returns it")
    names = ["without evidence", *map(str, explanation.weights), "in all"]
    weights = [explanation.prior, *explanation.weights.values(), explanation.log_odds]
    starts, ends = [0.0], [explanation.prior]
    for weight in explanation.weights.values():
        starts.append(ends[-1])
        ends.append(ends[-1] + weight)
    starts.append(0.0)
    ends.append(explanation.log_odds)
    finite = [abs(value) for value in (*starts, *ends) if np.isfinite(value)]
    # certainty lies at the edge
    edge = 1.4 * (max(finite) or 1.0)
    first, last = (np.nan_to_num(np.clip(side, -edge, edge)) for side in (starts, ends))
    rows = np.arange(len(names))
    inner = (rows > 0) & (rows < len(names) - 1)
    marks: list[Mark] = [Rule(x=0.0, color="line")]
    signs = np.array(weights) >= 0
    for color, label, chosen in (
        ("dim", "", ~inner),
        (0, "speaks for it", inner & signs),
        (1, "speaks against it", inner & ~signs),
    ):
        if chosen.any():
            at = rows[chosen]
            marks.append(Rectangles(first[chosen], last[chosen], at - 0.34, at + 0.34, color, label=label))
    marks += [Line([last[row]] * 2, [row + 0.34, row + 0.66], "line", 1.0) for row in rows[:-1].tolist()]
    top, low = max(first.max(), last.max(), 0.0), min(first.min(), last.min(), 0.0)
    for row, weight in enumerate(weights):
        marks.append(Text(max(first[row], last[row], 0.0 if not inner[row] else -np.inf), row, write_weight(weight),
                          shift=(3, 0), side="left"))  # fmt: skip
    told = ", ".join(f"{name} {write_weight(weight)}" for name, weight in zip(names, weights, strict=True))
    target = f"{explanation.target} = {explanation.state}"
    probability = f"probability {format_probability(explanation.probability)}"
    return Chart(
        marks,
        f"{target}: {probability}",
        f"Log-odds of {target}: {told}, {probability}.",
        Axis("log-odds", low - 0.04 * (top - low), top + 0.2 * (top - low)),
        Axis(names=names, reverse=True),
        (4.2, 0.5 + 0.27 * len(names)),
    )


def plot_effect(effect: Effect, ax: Any = None) -> Any:
    """Draw the outcome over the values to which a variable is set, a line for each state of a discrete outcome.

    Where there are several networks, the band holds 90 % of them. Returns the axes.
    """
    check_kind(effect, Effect, "an effect is drawn, as hb.effect returns it")
    numbers = isinstance(effect.of, Continuous)
    at = np.array(effect.values, dtype=float) if numbers else np.arange(len(effect.values))
    marks: list[Mark] = []
    told = []
    unit = effect.on.unit if isinstance(effect.on, Continuous) else None
    for number, (name, draws) in enumerate(effect.curves()[:_MOST_STATES]):
        middle = draws.mean(axis=0)
        low, high = np.quantile(draws, [0.05, 0.95], axis=0)
        if numbers:
            if len(draws) > 1:
                marks.append(Area(at, low, high, number))
            marks.append(Line(at, middle, number, label=name, marked=len(at) <= 12))
        else:
            shifted = at + 0.12 * (number - (min(len(effect.curves()), _MOST_STATES) - 1) / 2)
            if len(draws) > 1:
                marks += [Line([x, x], [a, b], number) for x, a, b in zip(shifted, low, high, strict=True)]
            marks.append(Points(shifted, middle, number, label=name))
        ends = [format_value(float(value), unit) for value in (middle[0], middle[-1])]
        told.append(f"{name} from {ends[0]} to {ends[1]}")
    names = None if numbers else [str(value) for value in effect.values]
    outcome = Axis("mean", unit=unit) if isinstance(effect.on, Continuous) else Axis("probability")
    return Chart(
        marks,
        f"{effect.on.name} given do({effect.of.name})",
        f"Effect of setting {effect.of.name} on {effect.on.name}: {'; '.join(told)}.",
        Axis(f"{effect.of.name}, set", names=names, unit=effect.of.unit if isinstance(effect.of, Continuous) else None),
        outcome,
    ).draw(ax)


def plot_sensitivity(
    sensitivity: Sensitivity, state: Any = None, change: float = 0.1, ax: Any = None, most: int = 12
) -> Any:
    """Draw a tornado: bars from the probability of a state where a parameter is smaller to that where it is larger.

    Parameters
    ----------
    sensitivity : Sensitivity
        As `net.sensitivity` returns it.
    state : optional
        A state of the target; by default the most probable one.
    change : float
        The share of its value by which each parameter changes.
    ax : matplotlib axes, optional
    most : int
        The number of parameters, those that matter most on top.
    """
    check_kind(sensitivity, Sensitivity, "a sensitivity is drawn, as net.sensitivity returns it")
    swings = sensitivity.find_swings(state, change, most)
    if not swings:
        raise TableError(
            f"there is nothing to draw: no table has parameters that matter for {sensitivity.target.name!r}"
        )
    state = sensitivity.state if state is None else state
    posterior = float(sensitivity.probabilities[sensitivity.target.code(state)])
    rows = np.arange(len(swings))
    marks: list[Mark] = []
    for number, way in enumerate(("smaller", "larger")):
        ends = np.array([swing[1 + number] for swing in swings])
        tips = [f"{name}: {format_probability(end)}" for (name, _, _), end in zip(swings, ends.tolist(), strict=True)]
        label = f"{way} by {change:.0%}"
        marks.append(Rectangles(posterior, ends, rows - 0.35, rows + 0.35, 1 - number, label=label, tips=tips))
    marks.append(Rule(x=posterior, color="ink"))
    name, low, high = swings[0]
    target = f"{sensitivity.target.name} = {state}"
    words = (
        f"Probability of {target}, {format_probability(posterior)}, where each of {len(swings)} parameters changes by "
        f"{change:.0%}: {name} matters most, with {format_number(low)} to {format_number(high)}."
    )
    return Chart(
        marks,
        "",
        words,
        Axis(f"P({target})"),
        Axis(names=[name for name, _, _ in swings], reverse=True),
        (4.6, 0.5 + 0.26 * len(swings)),
    ).draw(ax)
