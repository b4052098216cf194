"""Weighted sums of naive Bayes networks of discrete variables: their tables, their network, and their nomogram.

A nomogram shows how much each state of each attribute adds to the log-odds of a class, on scales to be read off and
added up.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hybridbn.errors import HybridBNError, NetworkError, TableError
from hybridbn.inference.engines.naive_bayes import NaiveBayesTables
from hybridbn.network import Network
from hybridbn.potentials.multinomial import Multinomial
from hybridbn.variables import Discrete, Values

__all__ = ["network_of_sum", "plot_nomogram", "sum_tables", "weights_of_evidence"]

_COLOR, _OBSERVED, _INK, _PALE = "#3b6ea5", "#c8553d", "#333333", "#bbbbbb"
_MOST_ATTRIBUTES = 40
"""More scales than this don't fit on a screen."""
_MOST_STATES = 12
"""Of attributes with more states, only the two ends and the observed state are named."""
_MOST_LETTERS = 14
"""Longer names of states are cut, so that they don't overlap."""


def sum_tables(weighted_tables: Iterable[tuple[float, NaiveBayesTables]]) -> NaiveBayesTables:
    r"""Return the weighted sum of log tables, exact where all attributes are observed (eq. 7 of Ting and Zheng, 2003).

    .. math:: \sum_t \alpha_t \log P_t(c) + \sum_i \sum_t \alpha_t \log P_t(v_i \mid c)

    Where the networks cut a number differently, the sum has the cuts of all.
    """
    listed = list(weighted_tables)
    target = listed[0][1].target
    variables: dict[str, Discrete] = {}
    for _, tables in listed:
        for name, variable in tables.variables.items():
            known = variables.setdefault(name, variable)
            if known is not variable and known != variable:
                variables[name] = _common_refinement(known, variable)
    logs = {name: np.zeros((len(variable), len(target))) for name, variable in variables.items()}
    prior = np.zeros(len(target))
    for weight, tables in listed:
        prior += weight * tables.prior
        for name, table in tables.logs.items():
            own, common = tables.variables[name], variables[name]
            same = own is common or own == common
            logs[name] += weight * (table if same else table[_intervals_within(common, own)])
    return NaiveBayesTables(target, prior, variables, logs)


def _common_refinement(first: Discrete, second: Discrete) -> Discrete:
    """Return the variable with the cuts of both, which discretize the same number."""
    if first.cuts is None or second.cuts is None:
        raise NetworkError(
            f"{first.name!r} has different states in the members of the ensemble, so no single network has room for all"
        )
    return Discrete(first.name, cuts=tuple(sorted({*first.cuts, *second.cuts})))


def _intervals_within(fine: Discrete, coarse: Discrete) -> NDArray[np.intp]:
    """Return the interval of a coarse discretization in which each interval of a fine one lies."""
    lows = np.array([-np.inf, *(fine.cuts or ())])
    return np.searchsorted(np.array(coarse.cuts or ()), lows, side="right")


def network_of_sum(tables: NaiveBayesTables, distributions: Mapping[str, Values]) -> Network:
    r"""Return the naive Bayes network with the log-odds of the tables in every row without missing cells.

    A factor of an attribute that is the same for all classes changes no odds, and a factor of a class that is the same
    for all states may go to the prior. So with s the term in the tables and any q(v) > 0

    .. math:: P(v \mid c) = q(v) e^{s(v, c) - \bar s(v)} / Z_c, \qquad P(c) \propto e^{s(c)} \prod_i Z_{ic}

    Parameters
    ----------
    tables : NaiveBayesTables
    distributions : mapping from attribute to ndarray (states,)
        The q of each attribute.

    Raises
    ------
    NetworkError
        Where a probability would be too small for a number.
    """
    prior = tables.prior.copy()
    potentials = []
    for name, table in tables.logs.items():
        with np.errstate(invalid="ignore"):
            terms = (table - table.mean(axis=1, keepdims=True)).T + np.log(distributions[name])
        top = terms.max(axis=1, keepdims=True)
        with np.errstate(invalid="ignore", under="ignore"):
            norm = top + np.log(np.exp(terms - top).sum(axis=1, keepdims=True))
            probabilities = np.exp(terms - norm)
        _refuse_underflow(probabilities, name)
        prior += norm[:, 0]
        potentials.append(Multinomial(tables.variables[name], (tables.target,), table=probabilities))
    prior_probabilities = np.exp(prior - prior.max())
    _refuse_underflow(prior_probabilities, tables.target.name)
    return Network([Multinomial(tables.target, table=prior_probabilities, normalize=True), *potentials])


def _refuse_underflow(probabilities: Values, name: str) -> None:
    # smaller numbers have fewer digits
    if not (probabilities >= np.finfo(float).tiny).all():
        raise NetworkError(
            f"{name!r}: the collapsed network would need a probability that is zero or too small for a number; let "
            "the members "
            "have an estimate without zeros, such as MEstimate(2), or take fewer rounds"
        )


def weights_of_evidence(tables: NaiveBayesTables, state: Hashable = None) -> tuple[float, dict[str, Values]]:
    r"""Return the prior log-odds of a class and the weights of evidence of all states (eq. 2 of Elkan, 1997).

    .. math:: w_{jv} = \log P(A_j = v \mid c_1) - \log P(A_j = v \mid c_0)

    Parameters
    ----------
    tables : NaiveBayesTables
        The tables of two classes.
    state : Hashable, optional
        The class c1; the second one by default.
    """
    if len(tables.target) != 2:
        raise NetworkError(
            f"{tables.target.name!r} has {len(tables.target)} classes, and weights of evidence add up to log-odds of "
            "two; explain() takes any number"
        )
    code = 1 if state is None else tables.target.code(state)
    if code < 0:
        raise TableError(f"{tables.target.name!r}: {state!r} is not a state")
    return float(tables.prior[code] - tables.prior[1 - code]), {
        name: np.asarray(table[:, code] - table[:, 1 - code]) for name, table in tables.logs.items()
    }


def plot_nomogram(
    tables: NaiveBayesTables,
    evidence: Mapping[str, Any] | None = None,
    state: Hashable = None,
    ax: Any = None,
    most_attributes: int = _MOST_ATTRIBUTES,
) -> Any:
    """Draw a scale for each attribute, the widest first, and below the sum with its probabilities; return the axes.

    Parameters
    ----------
    tables : NaiveBayesTables
    evidence : mapping, optional
        A case, whose states are marked and added up.
    state : Hashable, optional
        The class whose log-odds are shown; the second one by default.
    ax : matplotlib axes, optional
    most_attributes : int
        The number of attributes to show; the label says how many of the narrowest are left out.
    """
    prior, weights = weights_of_evidence(tables, state)
    codes = _code_evidence(tables, evidence or {})
    order = sorted(weights, key=lambda name: -float(np.ptp(weights[name])))
    shown = order[:most_attributes]
    left_out = len(order) - len(shown)
    rows = len(shown) + 2
    if ax is None:
        _, ax = _pyplot().subplots(figsize=(9, 0.55 * rows + 1.2), layout="constrained")
    ends = [value for name in shown for value in weights[name]] + [prior, 0.0]
    total = prior + sum(float(weights[name][code]) for name, code in codes.items())
    if codes:
        ends.append(total)
    low, high = min(ends), max(ends)
    margin = 0.06 * (high - low or 1.0)
    ax.axvline(0, color=_PALE, lw=0.8, zorder=0)
    ax.plot([prior], [rows - 1], "D", color=_INK, ms=5)
    ax.annotate(
        f"{prior:+.2f}", (prior, rows - 1), (0, 5), textcoords="offset points", ha="center", fontsize=7, color=_INK
    )
    for position, name in enumerate(shown):
        _draw_scale(
            ax,
            rows - 2 - position,
            [str(s) for s in tables.variables[name].states],
            weights[name],
            codes.get(name),
            high - low,
        )
    _draw_sum(ax, prior, total if codes else None, low - margin, high + margin)
    ax.set_xlim(low - margin, high + margin)
    ax.set_ylim(-0.9, rows - 0.4)
    more = f" ({left_out} narrower left out)" if left_out else ""
    ax.set_yticks([*range(rows - 1, -1, -1)], ["without evidence", *shown, "all together"], color=_INK)
    ax.tick_params(axis="y", length=0)
    ax.spines[["top", "right", "left"]].set_visible(False)
    state_name = tables.target.states[1 if state is None else tables.target.code(state)]
    ax.set_xlabel(f"weight of evidence for {tables.target.name} = {state_name}, in log-odds{more}", color=_INK)
    return ax


def _draw_scale(ax: Any, height: float, states: list[str], weights: Values, code: int | None, width: float) -> None:
    """Draw an attribute's states at their weights, with names above, or below where there is no room above."""
    ax.plot([weights.min(), weights.max()], [height, height], color=_COLOR, lw=1.2, zorder=1)
    ax.plot(weights, np.full(len(weights), height), "|", color=_COLOR, ms=7, zorder=2)
    order = [int(index) for index in np.argsort(weights)]
    inner = order[1:-1] if len(order) <= _MOST_STATES else []
    occupied: dict[bool, list[tuple[float, float]]] = {True: [], False: []}
    # the most important names come first, as names without room are left out
    for index in dict.fromkeys([*([] if code is None else [code]), order[0], order[-1], *inner]):
        text = states[index] if len(states[index]) <= _MOST_LETTERS else states[index][: _MOST_LETTERS - 1] + "…"
        half = 0.0055 * width * (len(text) + 1)
        span = float(weights[index]) - half, float(weights[index]) + half
        free = [side for side, spans in occupied.items() if all(span[1] < low or high < span[0] for low, high in spans)]
        if not free:
            continue
        above = free[0]
        occupied[above].append(span)
        offset, align = ((0, 5), "bottom") if above else ((0, -5), "top")
        is_observed = index == code
        ax.annotate(
            text,
            (weights[index], height),
            offset,
            textcoords="offset points",
            ha="center",
            va=align,
            fontsize=7,
            color=_OBSERVED if is_observed else _INK,
            fontweight="bold" if is_observed else "normal",
        )
    if code is not None:
        ax.plot([weights[code]], [height], "o", color=_OBSERVED, ms=6, zorder=3)


def _draw_sum(ax: Any, prior: float, total: float | None, low: float, high: float) -> None:
    """Draw the line of log-odds, labeled with probabilities."""
    ax.plot([low, high], [0, 0], color=_INK, lw=1.2)
    marks = np.array([0.001, 0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 0.999])
    last = -np.inf
    for mark in marks:
        log_odds = float(np.log(mark / (1 - mark)))
        if low <= log_odds <= high and log_odds - last > 0.045 * (high - low):
            ax.plot([log_odds], [0], "|", color=_INK, ms=7)
            ax.annotate(
                f"{mark:g}",
                (log_odds, 0),
                (0, -5),
                textcoords="offset points",
                ha="center",
                va="top",
                fontsize=7,
                color=_INK,
            )
            last = log_odds
    if total is not None:
        ax.plot([total], [0], "o", color=_OBSERVED, ms=7, zorder=3)
        text = f"{total:+.2f}: probability {1 / (1 + np.exp(-total)):.3g}"
        align = "left" if total < (low + high) / 2 else "right"
        ax.annotate(
            text,
            (total, 0),
            (0, 7),
            textcoords="offset points",
            ha=align,
            fontsize=8,
            color=_OBSERVED,
            fontweight="bold",
        )


def _code_evidence(tables: NaiveBayesTables, evidence: Mapping[str, Any]) -> dict[str, int]:
    if not isinstance(evidence, Mapping):
        raise TableError("a nomogram takes the evidence of one case as a mapping")
    unknown = [name for name in evidence if name not in tables.variables]
    if unknown:
        raise TableError(f"{unknown[0]!r} is no attribute of the ensemble")
    codes = {name: tables.variables[name].code(value) for name, value in evidence.items()}
    return {name: code for name, code in codes.items() if code >= 0}


def _pyplot() -> Any:
    try:
        from matplotlib import pyplot
    except ImportError as error:
        raise HybridBNError("pictures need matplotlib: pip install 'hybridbn[plot]'") from error
    return pyplot
