"""Pictures of answers: posteriors of one variable with its prior, of many cases, of two variables, conditional
densities, weights of evidence, effects of interventions, and what a change of a parameter does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hybridbn.errors import TableError
from hybridbn.formatting import format_number, format_of, format_probability, format_value, shorten_text, step_of
from hybridbn.inference.explanations import Explanation, Sensitivity
from hybridbn.inference.interventions import Effect
from hybridbn.inference.posteriors import ContinuousPosterior, DiscretePosterior, JointPosterior, Posterior, Trace
from hybridbn.inference.queries import posterior
from hybridbn.network import Network
from hybridbn.options import list_items
from hybridbn.pictures.chart import (
    SERIES,
    Area,
    Axis,
    Chart,
    Color,
    Heat,
    Line,
    Mark,
    Place,
    Points,
    Rectangles,
    Rule,
    Text,
    check_kind,
    place_along,
)
from hybridbn.variables import Continuous, Discrete, Values, Variable

PROBABILITY = ((0.0, "0"), (0.25, ""), (0.5, "0.5"), (0.75, ""), (1.0, "1"))
"""The ticks of probabilities."""
_MOST_STATES, _MOST_ROWS, _MOST_RIDGES = 12, 100, 16
"""The most states that a picture shows, rows of a batch, and densities one above the other."""
_MOST_CELLS = 30
"""The most states along an axis of a table of probabilities."""
_COLUMNS = 60
"""The number of values at which a conditional density is drawn."""
_FEW_STEMS, _FINE = 20, 100
"""So many stems have heads; grids of more steps don't matter to a curve."""


def plot_posterior(posterior: Posterior, ax: Any = None, *, prior: Posterior | None = None) -> Any:
    """Draw a posterior: bars of probabilities, or a density curve; of a batch, one for each row.

    Parameters
    ----------
    posterior : Posterior
        Of a single case, or of at most 100 rows.
    ax : matplotlib axes, optional
        Those of a new figure by default.
    prior : Posterior, optional
        The same variable without the evidence, which is drawn in outlines.

    Returns
    -------
    matplotlib axes
        Their label, ``ax.get_label()``, is an alternative text.

    Examples
    --------
    >>> import hybridbn as hb
    >>> from matplotlib.figure import Figure
    >>> rain, wet = hb.Discrete("rain", ("no", "yes")), hb.Discrete("wet", ("no", "yes"))
    >>> net = hb.Network([hb.Multinomial(rain, table=[0.75, 0.25]),
    ...                   hb.Multinomial(wet, (rain,), table=[[0.75, 0.25], [0.0, 1.0]])])
    >>> ax = plot_posterior(net.posterior("rain", {"wet": "no"}), Figure().add_subplot(), prior=net.posterior("rain"))
    >>> print(ax.get_label())
    Posterior of rain: no 1, yes 0. Without evidence: no 0.750, yes 0.250.
    """
    return chart_posterior(posterior, prior).draw(ax)


def chart_posterior(posterior: Posterior, prior: Posterior | None = None) -> Chart:
    """Return the picture of a posterior, see `plot_posterior`."""
    _check_prior(posterior, prior)
    if not posterior.single:
        return _chart_batch(posterior)
    if isinstance(posterior, DiscretePosterior):
        return _chart_bars(posterior, prior if isinstance(prior, DiscretePosterior) else None)
    assert isinstance(posterior, ContinuousPosterior)
    return _chart_density(posterior, prior if isinstance(prior, ContinuousPosterior) else None)


def _check_prior(posterior: Posterior, prior: Posterior | None) -> None:
    check_kind(posterior, Posterior, "a posterior is drawn, as net.posterior returns it")
    if prior is None:
        return
    if not isinstance(prior, Posterior) or not prior.single or not posterior.single:
        raise TableError("posterior and prior are those of a single case: choose a row, posterior[0]")
    if prior.variable != posterior.variable:
        raise TableError(f"the posterior is of {posterior.variable.name!r}, the prior of {prior.variable.name!r}")


def _refuse_nan(possible: bool, name: str) -> None:
    if not possible:
        raise TableError(f"the posterior of {name!r} is NaN, as the evidence is impossible; there is nothing to draw")


def describe_posterior(posterior: Posterior, prior: Posterior | None = None) -> str:
    """Return a posterior of a single case in words.

    Examples
    --------
    >>> import hybridbn as hb
    >>> net = hb.Network([hb.LinearGaussian(hb.Continuous("x"), intercept=3.0, coefficients=[], variance=4.0)])
    >>> describe_posterior(net.posterior("x"))
    'Density of x: mean 3, standard deviation 2, 90 % between -0.2897 and 6.29.'
    """
    is_density = isinstance(posterior, ContinuousPosterior) and len(posterior.trace().x) > 0
    title = f"{'Density' if is_density else 'Posterior'} of {posterior.variable.name}"
    without = "" if prior is None else f" Without evidence: {_list_facts(prior)}."
    return f"{title}: {_list_facts(posterior)}.{without}"


def _list_facts(posterior: Posterior) -> str:
    if isinstance(posterior, DiscretePosterior):
        groups = group_states(posterior, _MOST_STATES)
        shares = sum_groups(posterior.probabilities, groups).tolist()
        return ", ".join(f"{state} {format_probability(p)}" for (state, _), p in zip(groups, shares, strict=True))
    assert isinstance(posterior, ContinuousPosterior)
    variable, numeric, trace = posterior.variable, posterior.numeric, posterior.trace()
    stems = [f"{format_of(variable, v)} {format_probability(p)}" for v, p in zip(*trace[:2], strict=True)]
    if len(trace.x) == 0 and len(stems) <= _MOST_STATES:
        return ", ".join(stems) if len(stems) > 1 else f"certainly {format_of(variable, trace.values[0])}"
    std = numeric.std()
    mean, low, high = (format_of(variable, float(x), std) for x in (numeric.mean(), *numeric.interval(0.9)))
    spread = format_number(std) + ("" if variable.unit is None else f" {variable.unit.name.split()[0]}")
    moments = f"mean {mean}, standard deviation {spread}, 90 % between {low} and {high}"
    return ", ".join([*(stems if len(trace.x) else ()), moments])


def group_states(posterior: DiscretePosterior, most: int) -> list[tuple[str, NDArray[np.intp]]]:
    """Return the most probable states in the order of the states, and all others together, with their codes."""
    states = [str(state) for state in posterior.states]
    if len(states) <= most:
        return [(state, np.array([code])) for code, state in enumerate(states)]
    probabilities = np.atleast_2d(posterior.probabilities).mean(axis=0)
    order = np.argsort(-probabilities, kind="stable")
    chosen = np.sort(order[: most - 1])
    others = (f"{len(states) - len(chosen)} others", np.sort(order[most - 1 :]))
    return [*((states[code], np.array([code])) for code in chosen.tolist()), others]


def sum_groups(probabilities: Values, groups: Sequence[tuple[str, NDArray[np.intp]]]) -> Values:
    """Return the probabilities of groups of states from those of the states."""
    return np.array([probabilities[codes].sum() for _, codes in groups])


def _chart_bars(posterior: DiscretePosterior, prior: DiscretePosterior | None) -> Chart:
    _refuse_nan(bool(np.isfinite(posterior.probabilities).all()), posterior.variable.name)
    groups = group_states(posterior, _MOST_STATES)
    names = [text for text, _ in groups]
    at = np.arange(len(groups))
    probabilities = sum_groups(posterior.probabilities, groups)
    label = "" if prior is None else "posterior"
    tips = [f"{name}: {format_probability(p)}" for name, p in zip(names, probabilities.tolist(), strict=True)]
    marks: list[Mark] = [
        Rectangles(np.zeros(len(at)), 1.0, at - 0.36, at + 0.36, "pale"),
        Rectangles(0.0, probabilities, at - 0.36, at + 0.36, 0, 1.0, label, tips=tips),
    ]
    if prior is not None:
        ghost = sum_groups(prior.probabilities, groups)
        marks.append(Rectangles(0.0, ghost, at - 0.36, at + 0.36, "ink", 1.0, "prior", hollow=True))
    if posterior.confidence < 1:
        low, high = (sum_groups(end, groups) for end in posterior.bounds)
        label = f"within {posterior.confidence:.0%}"
        marks += [Line([low[row], min(high[row], 1.0)], [row, row], "ink", 1.2, label) for row in at.tolist()]
    marks += [
        Text(1.0, row, format_probability(p), shift=(4, 0), side="left")
        for row, p in zip(at.tolist(), probabilities.tolist(), strict=True)
    ]
    return Chart(
        marks,
        posterior.variable.name,
        describe_posterior(posterior, prior),
        Axis("probability", 0.0, 1.16, ticks=PROBABILITY),
        Axis(names=names, reverse=True),
        (4.2, 0.5 + 0.27 * len(names)),
    )


def _chart_density(posterior: ContinuousPosterior, prior: ContinuousPosterior | None) -> Chart:
    variable, mean = posterior.variable, posterior.numeric.mean()
    _refuse_nan(bool(np.isfinite(mean)), variable.name)
    traces, std = [each.trace(400) for each in (posterior, prior) if each is not None], posterior.numeric.std()
    width, label = choose_width(variable, traces), "" if prior is None else "posterior"
    marks = draw_trace(traces[0], width, 0, label if std > 0 else f"value {format_of(variable, mean)}")
    marks += [mark for trace in traces[1:] for mark in draw_trace(trace, width, "dim", "prior")]
    marks += [Rule(mean, color=1, label=f"mean {format_of(variable, mean, std)}")] if std > 0 else []
    has_stems, has_curve = (any(len(trace[part]) for trace in traces) for part in (0, 2))
    of = "" if variable.unit is None else f" {variable.unit.name.split()[0]}"
    curve = f" (curve: per {format_number(width)}{of})" if has_curve else ""
    return Chart(
        marks,
        variable.name,
        describe_posterior(posterior, prior),
        make_axis(variable, traces),
        Axis(f"probability{curve}" if has_stems else f"density per{of.removesuffix('s')}" if of else "density", 0.0),
    )


def choose_width(variable: Continuous, traces: Sequence[Trace]) -> float:
    """Return the length of the intervals whose probabilities curves show beside stems.

    It is the step of a grid where all its numbers have stems or are few, else a round number below a fifth of the
    picture for which no curve is above 1; without stems it is 1, which leaves densities as they are.
    """
    step = step_of(variable)
    span = float(np.ptp(np.concatenate([part for trace in traces for part in (trace.values, trace.x)])))
    if not span or not any(len(trace.values) for trace in traces):
        return 1.0
    most = 1 / max(5 / span, *(float(np.max(trace.density, initial=0.0)) for trace in traces))
    rounds = 10.0 ** np.floor(np.log10(most)) * np.array([1, 2, 5])
    is_dense = any(0 < np.ptp(trace.values) < step * len(trace.values) for trace in traces if len(trace.values))
    return step if is_dense or span < _FINE * step else float(rounds[rounds <= most].max())


def make_axis(variable: Continuous, traces: Sequence[Trace]) -> Axis:
    """Return the axis below curves and stems; beside stems alone there is room for half a step."""
    values = np.concatenate([trace.values for trace in traces])
    if any(len(trace.x) for trace in traces):
        return Axis.of(variable)
    step = step_of(variable) or float(variable.unit is None and not (values % 1).any())
    room = 0.6 * (step or np.ptp(values) / 10 or 1.0)
    return replace(Axis.of(variable, "", float(values.min() - room), float(values.max() + room)), step=step)


def find_height(trace: Trace, width: float) -> float:
    """Return the height of a curve and its stems."""
    return max(np.max(width * trace.density, initial=0.0), np.max(trace.probabilities, initial=0.0))


def draw_trace(
    trace: Trace,
    width: float,
    color: Color,
    label: str = "",
    across: Place = np.asarray,
    up: Place = np.asarray,
) -> list[Mark]:
    """Return the marks of a curve, which shows the probabilities of intervals of a width, and of stems.

    The prior is dim and without an area. Both are placed by `across` and `up`.
    """
    ghost, few = color == "dim", len(trace.values) <= _FEW_STEMS
    x, y, at, tops = across(trace.x), up(width * trace.density), across(trace.values), up(trace.probabilities)
    lines = np.column_stack([np.full(len(at), up(0.0)), tops, np.full(len(at), np.nan)]).ravel()
    path = (at, tops) if ghost and not few else (np.repeat(at, 3), lines)
    marks: list[tuple[int, Mark]] = [
        (len(x) * (not ghost), Area(x, np.full(len(x), up(0.0)), y, color)),
        (len(x), Line(x, y, color, 1.2, label, ghost)),
        (len(at), Line(path[0], path[1], color, 2.4 if few and not ghost else 1.2, label, ghost)),
        (len(at) * few, Points(at, tops, color, 5.0, hollow=ghost)),
    ]
    return [mark for shown, mark in marks if shown]


def _chart_batch(posterior: Posterior) -> Chart:
    """Return the posteriors of some rows side by side."""
    rows = len(posterior)
    if not 0 < rows <= _MOST_ROWS:
        raise TableError(
            f"a picture of {rows} posteriors can't be read; choose a row, posterior[0].plot(), or up to {_MOST_ROWS}"
            " rows"
        )
    name, at = posterior.variable.name, np.arange(rows)
    marks: list[Mark] = []
    if isinstance(posterior, DiscretePosterior):
        bottom = np.zeros(rows)
        for number, (state, codes) in enumerate(group_states(posterior, len(SERIES))):
            top = bottom + posterior.probabilities[:, codes].sum(axis=1)
            marks.append(Rectangles(at - 0.45, at + 0.45, bottom, top, number, label=state))
            bottom = top
        y = Axis("probability", 0.0, 1.0, ticks=PROBABILITY)
        words = "stacked probabilities of the states"
    else:
        assert isinstance(posterior, ContinuousPosterior)
        levels = posterior.numeric.quantile([0.05, 0.25, 0.5, 0.75, 0.95])
        marks += [
            Rectangles(at - 0.06, at + 0.06, levels[:, 0], levels[:, 4], label="90 %"),
            Rectangles(at - 0.22, at + 0.22, levels[:, 1], levels[:, 3], opacity=0.45, label="50 %"),
            Points(at, levels[:, 2], 1, label="median"),
        ]
        y = Axis.of(posterior.variable, name)
        words = "medians with the intervals that hold 50 and 90 %"
    ticks = Axis("row", -0.6, rows - 0.4)
    return Chart(marks, name, f"Posteriors of {name} in {rows} rows: {words}.", ticks, y, (4.8, 2.8))


# -- two variables ----------------------------------------------------------------------------------------------------


def plot_joint(joint: JointPosterior, ax: Any = None) -> Any:
    """Draw the joint posterior of two variables of a single case; returns the axes.

    Two discrete variables are a table of probabilities, two continuous ones a map of their density, and one of each a
    curve for each of the most probable states.

    Examples
    --------
    >>> import hybridbn as hb
    >>> from matplotlib.figure import Figure
    >>> a, b = hb.Discrete("a", ("p", "q")), hb.Discrete("b", ("r", "s"))
    >>> net = hb.Network([hb.Multinomial(a, table=[0.5, 0.5]), hb.Multinomial(b, (a,), table=[[0.5, 0.5], [0, 1]])])
    >>> ax = plot_joint(net.posterior(["a", "b"]), Figure().add_subplot())
    >>> sorted(text.get_text() for text in ax.texts)
    ['0', '0.250', '0.250', '0.500']
    """
    check_kind(joint, JointPosterior, "a joint posterior is drawn, as net.posterior([a, b]) returns it")
    if not joint.single:
        raise TableError("this is a batch of posteriors; choose a row to plot: joint[0].plot()")
    if len(joint.variables) != 2:
        raise TableError(f"a picture shows two variables, not {len(joint.variables)}; plot marginals instead")
    first, second = sorted(joint.variables, key=lambda variable: isinstance(variable, Discrete))
    title = f"{first.name} and {second.name}"
    if isinstance(first, Discrete) and isinstance(second, Discrete):
        table = joint.probabilities if joint.variables[0] is first else joint.probabilities.T
        chart = _chart_table(table.T, first, second, title)
    elif isinstance(second, Discrete):
        assert isinstance(first, Continuous)
        own = joint.marginal(first.name).as_continuous()
        trace = own.trace(200)
        points = np.intersect1d(trace.values, own.point_cells.points)
        x = np.setdiff1d(np.concatenate([trace.values, trace.x]), points)
        marks: list[Mark] = []
        marginal = joint.marginal(second.name).as_discrete()
        for number, (state, codes) in enumerate(group_states(marginal, len(SERIES))):
            states = [second.states[code] for code in codes.tolist()]
            heights = [
                sum(joint.pdf(**{first.name: at, second.name: np.full(len(at), each, dtype=object)}) for each in states)
                for at in (points, x)
            ]
            label = f"{second.name} = {state}" if len(states) == 1 else state
            marks += draw_trace(Trace(points, heights[0], x, heights[1]), choose_width(first, [trace]), number, label)
        y = Axis("probability" if len(points) else "density", 0.0)
        words = f"Joint density of {first.name} and {second.name}, a curve for each state of {second.name}."
        chart = Chart(marks, title, words, Axis.of(first, first.name), y)
    else:
        assert isinstance(first, Continuous)
        heat = _draw_heat(joint, first.name, second.name)
        across, up = Axis.of(first, first.name), Axis.of(second, second.name)
        chart = Chart([heat], title, f"Joint density of {first.name} and {second.name}.", across, up, (3.6, 3.2))
    return chart.draw(ax)


def _draw_heat(joint: JointPosterior, across: str, up: str) -> Heat:
    """Return the mean density of two numbers in each pixel; the mass of a single value is spread over its pixel."""
    centers, values, shares = [], [], []
    for name in (across, up):
        own = joint.marginal(name).as_continuous()
        middle, points = _span(own, 61), own.point_cells.points
        edges = _edges(middle)
        points = points[(points >= edges[0]) & (points < edges[-1])]
        pixels = np.searchsorted(edges, points, side="right") - 1
        rows = np.zeros((len(middle), len(points)))
        rows[pixels, np.arange(len(points))] = 1 / np.diff(edges)[pixels]
        centers.append(middle)
        values.append(np.append(own.point_cells.move_above(middle), points))
        shares.append(np.hstack([np.eye(len(middle)), rows]))
    density = joint.pdf(**{across: np.repeat(values[0], len(values[1])), up: np.tile(values[1], len(values[0]))})
    height = shares[0] @ density.reshape(len(values[0]), len(values[1])) @ shares[1].T
    return Heat(_edges(centers[0]), _edges(centers[1]), height.T)


def _chart_table(table: Values, across: Discrete, up: Discrete, title: str) -> Chart:
    """Return a table of probabilities (up, across) as cells, with numbers where they have room."""
    if max(table.shape) > _MOST_CELLS:
        wide = max((across, up), key=len)
        raise TableError(f"{wide.name!r} has {len(wide)} states, and a picture has room for {_MOST_CELLS}")
    marks: list[Mark] = [Heat(np.arange(table.shape[1] + 1) - 0.5, np.arange(table.shape[0] + 1) - 0.5, table)]
    if table.shape[1] <= 6:
        marks += [Text(column, row, format_probability(p)) for (row, column), p in np.ndenumerate(table)]
    best = np.unravel_index(int(table.argmax()), table.shape)
    words = (
        f"Probabilities of {title}: the largest is {format_probability(float(table.max()))}, for "
        f"{across.name} = {across.states[int(best[1])]} and {up.name} = {up.states[int(best[0])]}."
    )
    return Chart(
        marks,
        title,
        words,
        Axis(across.name, names=[str(state) for state in across.states]),
        Axis(up.name, names=[str(state) for state in up.states], reverse=True),
        (min(5.0, 1.4 + 0.55 * table.shape[1]), min(5.0, 0.8 + 0.3 * table.shape[0])),
    )


def _span(posterior: ContinuousPosterior, count: int) -> Values:
    low, high = posterior.numeric.quantile([0.001, 0.999])
    if not high > low:
        raise TableError(f"{posterior.variable.name!r} has a single value, {format_value(low)}; there is no density")
    return np.linspace(low, high, count)


def _edges(centers: Values) -> Values:
    middle = (centers[1:] + centers[:-1]) / 2
    return np.concatenate([[2 * centers[0] - middle[0]], middle, [2 * centers[-1] - middle[-1]]])


def plot_conditional(
    network: Network,
    name: str,
    given: str,
    evidence: Mapping[str, Any] | None = None,
    values: Sequence[Any] | None = None,
    ax: Any = None,
) -> Any:
    """Draw the distribution of one variable given each value of another one.

    A density given the states of a discrete variable, or given chosen `values`, is drawn as ridges, one above the
    other; given a continuous variable as a heat map with its median. The states of a discrete variable are curves over
    a continuous one, and a table of probabilities given a discrete one.

    Parameters
    ----------
    network : Network
    name, given : str
        The variable whose distribution is drawn, and the one that it is given.
    evidence : mapping, optional
        What else is known.
    values : sequence, optional
        The values or states of `given`; by default all states, or 60 values between the quantiles of 1 and 99 % of a
        continuous variable.
    ax : matplotlib axes, optional

    Examples
    --------
    >>> import hybridbn as hb
    >>> from matplotlib.figure import Figure
    >>> c, x = hb.Discrete("c", ("a", "b")), hb.Continuous("x")
    >>> net = hb.Network([hb.Multinomial(c, table=[0.5, 0.5]),
    ...                   hb.LinearGaussian(x, (c,), intercept=[0, 3], coefficients=[[], []], variance=[1, 4])])
    >>> print(plot_conditional(net, "x", "c", ax=Figure().add_subplot()).get_label())
    Density of x given c, as ridges: c = a: mean 0; c = b: mean 3.
    """
    import pandas

    check_kind(network, Network, "the distribution of a network's variable is drawn")
    target, other = network.variable(name), network.variable(given)
    if name == given:
        raise TableError(f"{name!r} can't be given itself; name another variable")
    if evidence is not None and not isinstance(evidence, Mapping):
        raise TableError(f"what else is known is a mapping from names to values, not {evidence!r:.80}")
    if evidence and ({name, given} & set(evidence)):
        raise TableError(f"the evidence must not hold {name!r} or {given!r}, which the picture shows")
    shown: list[Any]
    chosen = None if values is None else list_items(values, "the values of the given variable")
    if isinstance(other, Discrete):
        shown = list(other.states) if chosen is None else [other.states[other.code(value)] for value in chosen]
    elif chosen is None:
        own = posterior(network, given, dict(evidence or {}))
        low, high = own.numeric.quantile([0.01, 0.99])
        _span(own, 2)
        shown = np.linspace(low, high, _COLUMNS).tolist()
    else:
        shown = [other.value(value) for value in chosen]
    if not shown:
        raise TableError(f"there is nothing to draw: no values of {given!r}; leave `values` out for a choice")
    kind = object if isinstance(other, Discrete) else float
    columns = {given: pandas.Series(shown, dtype=kind)}
    columns |= {key: pandas.Series([value] * len(shown), dtype=object) for key, value in (evidence or {}).items()}
    batch = posterior(network, name, pandas.DataFrame(columns))
    ridges = isinstance(other, Discrete) or chosen is not None
    title = f"{name} given {given}"
    if isinstance(target, Discrete):
        if isinstance(other, Discrete):
            states = Discrete(other.name, tuple(shown))
            return _chart_table(batch.probabilities, target, states, title).draw(ax)
        return _chart_curves(batch, np.array(shown), other, title).draw(ax)
    if ridges:
        if len(shown) > _MOST_RIDGES:
            raise TableError(f"{len(shown)} densities one above the other can't be read; name at most {_MOST_RIDGES}"
                             " in values=")  # fmt: skip
        names = [format_of(other, value) if isinstance(other, Continuous) else str(value) for value in shown]
        return _chart_ridges(batch, names, other, title).draw(ax)
    assert isinstance(other, Continuous)
    return _chart_heat(batch, np.array(shown), other, title).draw(ax)


def _chart_curves(batch: DiscretePosterior, x: Values, other: Continuous, title: str) -> Chart:
    groups = group_states(batch, len(SERIES))
    name = batch.variable.name
    marks: list[Mark] = [
        Line(x, batch.probabilities[:, codes].sum(axis=1), number, label=state)
        for number, (state, codes) in enumerate(groups)
    ]
    ends = ", ".join(
        f"{state} from {format_probability(float(mark.y[0]))} to {format_probability(float(mark.y[-1]))}"
        for (state, _), mark in zip(groups, marks, strict=True)
        if isinstance(mark, Line)
    )
    low, high = (format_of(other, end) for end in (x[0], x[-1]))
    words = f"Probabilities of {name} for {other.name} from {low} to {high}: {ends}."
    return Chart(marks, title, words, Axis.of(other, other.name), Axis("probability", 0.0, 1.0, ticks=PROBABILITY))


def _chart_ridges(batch: ContinuousPosterior, names: Sequence[str], other: Variable, title: str) -> Chart:
    """Return densities one above the other, which may overlap a little."""
    variable = batch.variable
    means = np.atleast_1d(batch.numeric.mean())
    _refuse_nan(bool(np.isfinite(means).all()), variable.name)
    traces = [batch[number].trace(200) for number in range(len(names))]
    width = choose_width(variable, traces)
    tops, has_stems = [find_height(trace, width) for trace in traces], any(len(trace.values) for trace in traces)
    marks: list[Mark] = []
    for number, (trace, top) in enumerate(zip(traces, tops, strict=True)):
        base = float(len(names) - 1 - number)
        # what is far narrower than the others would leave no height for them
        scale = (0.85 if has_stems else 1.3) / max(top, max(tops) / 3)
        marks += draw_trace(trace, width, 0, up=place_along(0.0, 1.0, base, base + scale))
        marks.append(Points([means[number]], [base], 1, label="mean"))
    told = "; ".join(f"{other.name} = {text}: mean {format_of(variable, float(mean))}"
                     for text, mean in zip(names, means, strict=True))  # fmt: skip
    ticks = [(float(len(names) - 1 - number), shorten_text(text, 24)) for number, text in enumerate(names)]
    return Chart(
        marks,
        title,
        f"Density of {variable.name} given {other.name}, as ridges: {told}.",
        Axis.of(variable, variable.name),
        Axis(other.name, -0.15, len(names) + 0.4, ticks=ticks),
        (4.2, 0.6 + 0.42 * len(names)),
    )


def _chart_heat(batch: ContinuousPosterior, x: Values, other: Continuous, title: str) -> Chart:
    variable = batch.variable
    levels = np.asarray(batch.numeric.quantile([0.02, 0.5, 0.98]))
    _refuse_nan(bool(np.isfinite(levels).all()), variable.name)
    low, high = float(levels[:, 0].min()), float(levels[:, 2].max())
    margin = 0.1 * (high - low) or 1.0
    y = np.linspace(low - margin, high + margin, 121)
    # each column to its own height, or the narrowest density would leave no color for the others; nor should points
    density = np.diff(np.asarray(batch.cdf(_edges(y))), axis=1).T
    is_free = np.histogram(batch.point_cells.points, _edges(y))[0] == 0
    top = np.where(density[is_free].max(axis=0) > 0.001, density[is_free].max(axis=0), density.max(axis=0))
    density = np.minimum(np.divide(density, top, out=np.zeros_like(density), where=top > 0), 1.0)
    median = [format_of(variable, float(end)) for end in (levels[0, 1], levels[-1, 1])]
    ends = [format_of(other, float(end)) for end in (x[0], x[-1])]
    words = (
        f"Density of {variable.name} given {other.name}, as a heat map: the median goes from {median[0]} at "
        f"{other.name} = {ends[0]} to {median[1]} at {ends[1]}."
    )
    marks: list[Mark] = [
        Heat(_edges(x), _edges(y), density),
        Line(x, levels[:, 1], 1, label="median"),
    ]
    return Chart(
        marks,
        title,
        words,
        Axis.of(other, other.name, float(x[0]), float(x[-1])),
        Axis.of(variable, variable.name, float(y[0]), float(y[-1])),
        (4.2, 3.0),
    )


# -- reasons and effects ----------------------------------------------------------------------------------------------

_MOST_OUTCOMES = 10
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
    >>> print(plot_explanation(reasons, Figure().add_subplot()).get_label())
    Log-odds of ill = yes: without evidence -2.00, cough +1.50, fever +2.00, in all +1.50, probability 0.818.
    """
    return chart_explanation(explanation).draw(ax)


def chart_explanation(explanation: Explanation) -> Chart:
    """Return the picture of weights of evidence, see `plot_explanation`."""
    check_kind(explanation, Explanation, "an explanation is drawn, as net.explain returns it")
    names = ["without evidence", *map(str, explanation.weights), "in all"]
    weights = [explanation.prior, *explanation.weights.values(), explanation.log_odds]
    sums = np.cumsum(weights[:-1]).tolist()
    starts, ends = [0.0, *sums[:-1], 0.0], [*sums, explanation.log_odds]
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
    right = np.maximum(np.maximum(first, last), np.where(inner, -np.inf, 0.0))
    marks += [
        Text(right[row], row, write_weight(weight), shift=(3, 0), side="left") for row, weight in enumerate(weights)
    ]
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
    at = effect.of.values(effect.values) if isinstance(effect.of, Continuous) else np.arange(len(effect.values))
    marks: list[Mark] = []
    told = []
    unit = effect.on.unit if isinstance(effect.on, Continuous) else None
    for number, (name, draws) in enumerate(effect.curves()[:_MOST_OUTCOMES]):
        middle = draws.mean(axis=0)
        low, high = np.quantile(draws, [0.05, 0.95], axis=0)
        if numbers:
            if len(draws) > 1:
                marks.append(Area(at, low, high, number))
            marks.append(Line(at, middle, number, label=name, marked=len(at) <= 12))
        else:
            shifted = at + 0.12 * (number - (min(len(effect.curves()), _MOST_OUTCOMES) - 1) / 2)
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
