"""Weighted sums of naive Bayes networks of discrete variables, and the network that such a sum is."""

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

__all__ = ["collapsed", "network_of", "plot_nomogram", "weights_of_evidence"]


def collapsed(stars: Iterable[tuple[float, NaiveBayesTables]]) -> NaiveBayesTables:
    r"""Return the weighted sum of stars, exact where all attributes are observed (eq. 7 of Ting and Zheng, 2003).

    .. math:: \sum_t \alpha_t \log P_t(c) + \sum_i \sum_t \alpha_t \log P_t(v_i \mid c)

    Where stars cut a number differently, the sum has the cuts of all of them.
    """
    listed = list(stars)
    target = listed[0][1].target
    variables: dict[str, Discrete] = {}
    for _, star in listed:
        for name, variable in star.variables.items():
            known = variables.setdefault(name, variable)
            if known is not variable and known != variable:
                variables[name] = _common(known, variable)
    logs = {name: np.zeros((len(variable), len(target))) for name, variable in variables.items()}
    prior = np.zeros(len(target))
    for weight, star in listed:
        prior += weight * star.prior
        for name, table in star.logs.items():
            own, wanted = star.variables[name], variables[name]
            same = own is wanted or own == wanted
            logs[name] += weight * (table if same else table[_places(wanted, own)])
    return NaiveBayesTables(target, prior, variables, logs)


def _common(first: Discrete, second: Discrete) -> Discrete:
    """Return the variable with the cuts of two that discretize the same number."""
    if first.cuts is None or second.cuts is None:
        raise NetworkError(
            f"{first.name!r} has different states in the members of the ensemble, so no single network has room for all"
        )
    return Discrete(first.name, cuts=tuple(sorted({*first.cuts, *second.cuts})))


def _places(fine: Discrete, coarse: Discrete) -> NDArray[np.intp]:
    """Return the interval of a coarse discretization in which each interval of a fine one lies."""
    lows = np.array([-np.inf, *(fine.cuts or ())])
    return np.searchsorted(np.array(coarse.cuts or ()), lows, side="right")


def network_of(star: NaiveBayesTables, spread: Mapping[str, Values]) -> Network:
    r"""Return the naive Bayes network whose log-odds are a star's in every row without missing cells.

    A factor of an attribute that is the same for all classes changes no odds, and a factor of a class that is the same for all
    states may go to the prior. So with s the star's term and any q(v) > 0

    .. math:: P(v \mid c) = q(v) e^{s(v, c) - \bar s(v)} / Z_c, \qquad P(c) \propto e^{s(c)} \prod_i Z_{ic}

    Parameters
    ----------
    star : NaiveBayesTables
    spread : mapping from attribute to ndarray (states,)
        The q of each attribute.

    Raises
    ------
    NetworkError
        Where a probability would be too small for a number.
    """
    prior = star.prior.copy()
    potentials = []
    for name, table in star.logs.items():
        with np.errstate(invalid="ignore"):
            terms = (table - table.mean(axis=1, keepdims=True)).T + np.log(spread[name])
        top = terms.max(axis=1, keepdims=True)
        with np.errstate(invalid="ignore", under="ignore"):
            norm = top + np.log(np.exp(terms - top).sum(axis=1, keepdims=True))
            probabilities = np.exp(terms - norm)
        _refuse_underflow(probabilities, name)
        prior += norm[:, 0]
        potentials.append(Multinomial(star.variables[name], (star.target,), table=probabilities))
    own = np.exp(prior - prior.max())
    _refuse_underflow(own, star.target.name)
    return Network([Multinomial(star.target, table=own, normalize=True), *potentials])


def _refuse_underflow(probabilities: Values, name: str) -> None:
    # smaller numbers have fewer digits
    if not (probabilities >= np.finfo(float).tiny).all():
        raise NetworkError(
            f"{name!r}: the collapsed network would need a probability that is zero or too small for a number; let the members "
            "have an estimate without zeros, such as MEstimate(2), or take fewer rounds"
        )


COLOR, OBSERVED, INK, PALE = "#3b6ea5", "#c8553d", "#333333", "#bbbbbb"
MOST_ATTRIBUTES = 40
MOST_STATES = 12
SHORTEST = 14


def weights_of_evidence(star: NaiveBayesTables, state: Hashable = None) -> tuple[float, dict[str, Values]]:
    r"""Return the log-odds of a class without evidence and what each state of each attribute adds (eq. 2 of Elkan, 1997).

    .. math:: w_{jv} = \log P(A_j = v \mid c_1) - \log P(A_j = v \mid c_0)

    Parameters
    ----------
    star : NaiveBayesTables
        Of two classes.
    state : Hashable, optional
        The class c1; the second one by default.
    """
    if len(star.target) != 2:
        raise NetworkError(
            f"{star.target.name!r} has {len(star.target)} classes, and weights of evidence add up to log-odds of two; explain() takes any number"
        )
    code = 1 if state is None else star.target.code(state)
    if code < 0:
        raise TableError(f"{star.target.name!r}: {state!r} is not a state")
    return float(star.prior[code] - star.prior[1 - code]), {
        name: np.asarray(table[:, code] - table[:, 1 - code]) for name, table in star.logs.items()
    }


def plot_nomogram(
    star: NaiveBayesTables,
    evidence: Mapping[str, Any] | None = None,
    state: Hashable = None,
    ax: Any = None,
    most: int = MOST_ATTRIBUTES,
) -> Any:
    """Draw a scale for each attribute, the widest first, and below the sum with its probabilities. Returns the axes.

    Parameters
    ----------
    star : NaiveBayesTables
    evidence : mapping, optional
        A case, whose states are marked and added up.
    state : Hashable, optional
        The class that the scales speak for; the second one by default.
    ax : matplotlib axes, optional
    most : int
        Attributes to show; the narrowest are left out, with a line that says how many.
    """
    prior, weights = weights_of_evidence(star, state)
    codes = _codes(star, evidence or {})
    order = sorted(weights, key=lambda name: -float(np.ptp(weights[name])))
    shown = order[:most]
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
    ax.axvline(0, color=PALE, lw=0.8, zorder=0)
    ax.plot([prior], [rows - 1], "D", color=INK, ms=5)
    ax.annotate(
        f"{prior:+.2f}", (prior, rows - 1), (0, 5), textcoords="offset points", ha="center", fontsize=7, color=INK
    )
    for place, name in enumerate(shown):
        _scale(
            ax,
            rows - 2 - place,
            [str(s) for s in star.variables[name].states],
            weights[name],
            codes.get(name),
            high - low,
        )
    _sum(ax, prior, total if codes else None, low - margin, high + margin)
    ax.set_xlim(low - margin, high + margin)
    ax.set_ylim(-0.9, rows - 0.4)
    more = f" ({left_out} narrower left out)" if left_out else ""
    ax.set_yticks([*range(rows - 1, -1, -1)], ["without evidence", *shown, "all together"], color=INK)
    ax.tick_params(axis="y", length=0)
    ax.spines[["top", "right", "left"]].set_visible(False)
    named = star.target.states[1 if state is None else star.target.code(state)]
    ax.set_xlabel(f"weight of evidence for {star.target.name} = {named}, in log-odds{more}", color=INK)
    return ax


def _scale(ax: Any, height: float, states: list[str], weights: Values, code: int | None, width: float) -> None:
    """Draw an attribute's states where their weights are, names above and below by turns where they come close."""
    ax.plot([weights.min(), weights.max()], [height, height], color=COLOR, lw=1.2, zorder=1)
    ax.plot(weights, np.full(len(weights), height), "|", color=COLOR, ms=7, zorder=2)
    order = [int(place) for place in np.argsort(weights)]
    inner = order[1:-1] if len(order) <= MOST_STATES else []
    taken: dict[bool, list[tuple[float, float]]] = {True: [], False: []}
    # what matters most comes first, as names without room are left out
    for place in dict.fromkeys([*([] if code is None else [code]), order[0], order[-1], *inner]):
        text = states[place] if len(states[place]) <= SHORTEST else states[place][: SHORTEST - 1] + "…"
        half = 0.0055 * width * (len(text) + 1)
        span = float(weights[place]) - half, float(weights[place]) + half
        free = [side for side, spans in taken.items() if all(span[1] < low or high < span[0] for low, high in spans)]
        if not free:
            continue
        above = free[0]
        taken[above].append(span)
        offset, align = ((0, 5), "bottom") if above else ((0, -5), "top")
        chosen = place == code
        ax.annotate(
            text,
            (weights[place], height),
            offset,
            textcoords="offset points",
            ha="center",
            va=align,
            fontsize=7,
            color=OBSERVED if chosen else INK,
            fontweight="bold" if chosen else "normal",
        )
    if code is not None:
        ax.plot([weights[code]], [height], "o", color=OBSERVED, ms=6, zorder=3)


def _sum(ax: Any, prior: float, total: float | None, low: float, high: float) -> None:
    """Draw the line of log-odds with the probabilities that they mean."""
    ax.plot([low, high], [0, 0], color=INK, lw=1.2)
    marks = np.array([0.001, 0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 0.999])
    last = -np.inf
    for mark in marks:
        place = float(np.log(mark / (1 - mark)))
        if low <= place <= high and place - last > 0.045 * (high - low):
            ax.plot([place], [0], "|", color=INK, ms=7)
            ax.annotate(
                f"{mark:g}",
                (place, 0),
                (0, -5),
                textcoords="offset points",
                ha="center",
                va="top",
                fontsize=7,
                color=INK,
            )
            last = place
    if total is not None:
        ax.plot([total], [0], "o", color=OBSERVED, ms=7, zorder=3)
        text = f"{total:+.2f}: probability {1 / (1 + np.exp(-total)):.3g}"
        align = "left" if total < (low + high) / 2 else "right"
        ax.annotate(
            text,
            (total, 0),
            (0, 7),
            textcoords="offset points",
            ha=align,
            fontsize=8,
            color=OBSERVED,
            fontweight="bold",
        )


def _codes(star: NaiveBayesTables, evidence: Mapping[str, Any]) -> dict[str, int]:
    if not isinstance(evidence, Mapping):
        raise TableError("a nomogram takes the evidence of one case as a mapping")
    strange = [name for name in evidence if name not in star.variables]
    if strange:
        raise TableError(f"{strange[0]!r} is no attribute of the ensemble")
    codes = {name: star.variables[name].code(value) for name, value in evidence.items()}
    return {name: code for name, code in codes.items() if code >= 0}


def _pyplot() -> Any:
    try:
        from matplotlib import pyplot
    except ImportError as error:
        raise HybridBNError("pictures need matplotlib: pip install 'hybridbn[plot]'") from error
    return pyplot
