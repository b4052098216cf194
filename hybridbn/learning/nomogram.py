"""A nomogram: what each state of each attribute adds to the log-odds of a class, on scales to be read off and added up."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any

import numpy as np

from hybridbn.errors import HybridBNError, NetworkError, TableError
from hybridbn.inference.engines.naive_bayes import NaiveBayesTables
from hybridbn.variables import Values

__all__ = ["plot_nomogram", "weights_of_evidence"]

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
