"""Pictures of posteriors and of networks with beliefs in their nodes (matplotlib, the extra ``plot``)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import networkx as nx
import numpy as np

from hybridbn.errors import HybridBNError, TableError
from hybridbn.inference.interventions import Effect
from hybridbn.inference.posteriors.base import DiscretePosterior, Posterior
from hybridbn.inference.posteriors.continuous import ContinuousPosterior
from hybridbn.inference.posteriors.joint import JointPosterior
from hybridbn.inference.queries import posteriors
from hybridbn.inference.sensitivity import Sensitivity
from hybridbn.network import Network
from hybridbn.pictures.layout import Layout, lay_out
from hybridbn.potentials.point_mass import PointMass
from hybridbn.variables import Continuous, Discrete, Values

__all__ = [
    "choose_states",
    "load_pyplot",
    "plot_effect",
    "plot_joint",
    "plot_network",
    "plot_posterior",
    "plot_sensitivity",
    "plot_strengths",
    "shorten_text",
    "trace_density",
]

COLOR, OBSERVED, INK = "#3b6ea5", "#c8553d", "#333333"
ARC, LINE = "#8a8f98", "#b9bec6"
BOX, GAP, TITLE = (2.1, 1.1), (0.35, 0.55), 0.26
"""The size of a node's box, the distance between boxes, and the height of its title, in inches."""
MOST_STATES, MOST_BARS = 12, 5
"""The most states that a picture of one posterior shows, and a node of a network."""
MOST_NODES, MOST_NAMES = 60, 400
MOST_ROWS = 100


def plot_posterior(posterior: Posterior, ax: Any = None) -> Any:
    """Draw the posterior: bars of probabilities, or a density curve; of a batch one for each row. Returns the axes."""
    if not posterior.single:
        return _batch(posterior, ax)
    ax = load_pyplot().gca() if ax is None else ax
    if isinstance(posterior, DiscretePosterior):
        _bars(ax, posterior)
        ax.set_xlabel("probability")
    elif isinstance(posterior, ContinuousPosterior):
        _curve(ax, posterior)
        ax.set_ylabel("density")
        mean, unit = posterior.mean(), posterior.variable.unit
        label = f"{mean:.4g}"
        if unit is not None and unit.kind in ("date", "datetime"):
            ax.xaxis_date()  # the numbers of matplotlib are days since 1970, too
            label = str(unit.restore(mean))[:16]
        ax.axvline(mean, color=OBSERVED, lw=1, label=f"mean {label}")
        ax.legend(frameon=False)
    ax.set_title(posterior.variable.name, color=INK)
    return ax


def _batch(posterior: Posterior, ax: Any) -> Any:
    """Draw the posteriors of some rows side by side."""
    rows = len(posterior)
    if not 0 < rows <= MOST_ROWS:
        raise TableError(
            f"a picture of {rows} posteriors can't be read; choose a row, posterior[0].plot(), or up to {MOST_ROWS}"
            " rows"
        )
    ax = load_pyplot().gca() if ax is None else ax
    places = np.arange(rows)
    if isinstance(posterior, DiscretePosterior):
        bottom = np.zeros(rows)
        for state, share in zip(posterior.states, posterior.probabilities.T, strict=True):
            ax.bar(places, share, bottom=bottom, width=0.9, label=str(state))
            bottom = bottom + share
        ax.set_ylabel("probability")
        if len(posterior.states) <= MOST_STATES:
            ax.legend(frameon=False)
    elif isinstance(posterior, ContinuousPosterior):
        levels = posterior.quantile([0.05, 0.25, 0.5, 0.75, 0.95])
        ax.vlines(places, levels[:, 0], levels[:, 4], color=COLOR, lw=1, label="90 %")
        ax.vlines(places, levels[:, 1], levels[:, 3], color=COLOR, lw=4, alpha=0.5, label="50 %")
        ax.plot(places, levels[:, 2], "o", color=OBSERVED, ms=4, label="median")
        ax.set_ylabel(posterior.variable.name)
        ax.legend(frameon=False)
    ax.set_xlabel("row")
    ax.set_title(posterior.variable.name, color=INK)
    return ax


def plot_joint(joint: JointPosterior, ax: Any = None) -> Any:
    """Draw the joint posterior of two variables of a single case; returns the axes."""
    if not joint.single:
        raise TableError("this is a batch of posteriors; choose a row to plot: joint[0].plot()")
    if len(joint.variables) != 2:
        raise TableError(f"a picture shows two variables, not {len(joint.variables)}; plot marginals instead")
    ax = load_pyplot().gca() if ax is None else ax
    first, second = sorted(joint.variables, key=lambda variable: isinstance(variable, Discrete))
    if isinstance(first, Discrete) and isinstance(second, Discrete):
        table = joint.probabilities.T
        image = ax.imshow(table, cmap="Blues", vmin=0, aspect="auto")
        ax.set_xticks(range(len(first)), [str(state) for state in first.states])
        ax.set_yticks(range(len(second)), [str(state) for state in second.states])
        ax.figure.colorbar(image, ax=ax, label="probability")
        ax.set_xlabel(first.name)
        ax.set_ylabel(second.name)
        return ax
    x = _reach(joint.marginal(first.name), 201 if isinstance(second, Discrete) else 61)
    if isinstance(second, Discrete):
        for state in second.states:
            ax.plot(
                x, joint.pdf(**{first.name: x, second.name: np.full(len(x), state, dtype=object)}), label=str(state)
            )
        ax.legend(title=second.name, frameon=False)
        ax.set_ylabel("density")
    else:
        y = _reach(joint.marginal(second.name), 61)
        height = joint.pdf(**{first.name: np.repeat(x, len(y)), second.name: np.tile(y, len(x))})
        ax.contourf(x, y, height.reshape(len(x), len(y)).T, levels=12, cmap="Blues")
        ax.set_ylabel(second.name)
    ax.set_xlabel(first.name)
    return ax


def _reach(posterior: ContinuousPosterior, count: int) -> Any:
    low, high = posterior.quantile([0.001, 0.999])
    return np.linspace(low, high, count)


def plot_effect(effect: Effect, ax: Any = None) -> Any:
    """Draw the outcome over the values to which a variable is set, a line for each state of a discrete outcome.

    Where there are several networks, the band holds 90 % of them. Returns the axes.
    """
    ax = load_pyplot().gca() if ax is None else ax
    numbers = isinstance(effect.of, Continuous)
    places = np.array(effect.values) if numbers else np.arange(len(effect.values))
    curves = effect.curves()
    for number, (name, draws) in enumerate(curves[:MOST_STATES]):
        color = COLOR if len(curves) == 1 else f"C{number}"
        middle = draws.mean(axis=0)
        low, high = np.quantile(draws, [0.05, 0.95], axis=0)
        if numbers:
            ax.plot(places, middle, color=color, lw=1.5, label=name)
            if len(draws) > 1:
                ax.fill_between(places, low, high, color=color, alpha=0.2, lw=0)
        else:
            away = [middle - low, high - middle] if len(draws) > 1 else None
            ax.errorbar(places, middle, yerr=away, fmt="o", color=color, label=name)
    if not numbers:
        ax.set_xticks(places, [str(value) for value in effect.values])
    ax.set_xlabel(f"{effect.of.name}, set")
    ax.set_ylabel("mean" if isinstance(effect.on, Continuous) else "probability")
    ax.set_title(f"{effect.on.name} given do({effect.of.name})", color=INK)
    ax.legend(frameon=False)
    return ax


def plot_sensitivity(
    sensitivity: Sensitivity, state: Any = None, change: float = 0.1, ax: Any = None, most: int = 12
) -> Any:
    """Draw a tornado: bars from the probability of a state where a parameter is smaller to that where it is larger.

    Returns the axes.
    """
    swings = sensitivity.find_swings(state, change, most)
    ax = load_pyplot().gca() if ax is None else ax
    state = sensitivity.state if state is None else state
    posterior = float(sensitivity.probabilities[sensitivity.target.code(state)])
    for number, way in enumerate(("smaller", "larger")):
        ends = np.array([swing[1 + number] for swing in swings])
        color = (OBSERVED, COLOR)[number]
        ax.barh(
            range(len(swings)),
            ends - posterior,
            left=posterior,
            color=color,
            height=0.7,
            label=f"{way} by {change:.0%}",
        )
    ax.axvline(posterior, color=INK, lw=1)
    ax.set_yticks(range(len(swings)), [shorten_text(name, 60) for name, _, _ in swings], fontsize=9)
    ax.invert_yaxis()
    ax.set_xlabel(f"P({sensitivity.target.name} = {state})")
    ax.legend(frameon=False)
    return ax


def plot_network(network: Network, evidence: Any = None, ax: Any = None, size: float = 1.0) -> Any:
    """Draw the graph with a small picture of each variable's belief in its node; observed values are marked.

    Parameters
    ----------
    evidence : mapping, optional
    size : float
        Scale of the boxes.
    """
    if evidence is not None and not isinstance(evidence, Mapping):
        raise TableError(f"a picture shows one case: its evidence is a mapping, not {evidence!r:.80}")
    if len(network) > MOST_NODES:
        raise TableError(
            f"a picture with {len(network)} beliefs can't be read; draw a part: network.subgraph(names), at most"
            f" {MOST_NODES} nodes"
        )
    if not len(network):
        raise TableError("the network has no nodes to draw")
    known = {name: value for name, value in (evidence or {}).items() if value is not None}
    known |= {p.child.name: p.value for p in network.potentials if isinstance(p, PointMass)}
    beliefs = posteriors(network, evidence)
    layout = lay_out(network, BOX, GAP)
    ax = _open_axes(layout, ax, size)
    for route in layout.routes.values():
        _draw_arrow(ax, route)
    for name, (x, y) in layout.centers.items():
        _draw_node(ax, name, (x, y), beliefs.get(name), known.get(name))
    return ax


def plot_strengths(
    graph: nx.DiGraph[str], essential: nx.DiGraph[str], strengths: Mapping[tuple[str, str], float], ax: Any = None
) -> Any:
    """Draw a graph whose arcs are wider and darker the stronger they are; returns the axes.

    Parameters
    ----------
    graph : directed acyclic graph
    essential : directed graph
        Arcs that it has in both directions are drawn without a head.
    strengths : mapping from arc to a number between 0 and 1
    """
    if len(graph) > MOST_NAMES:
        raise TableError(f"a picture of {len(graph)} nodes can't be read; draw at most {MOST_NAMES}")
    width = 0.2 + 0.085 * max((min(len(str(name)), 26) for name in graph), default=1)
    layout = lay_out(graph, (width, 0.3), (0.25, 0.45))
    ax = _open_axes(layout, ax, 1.0)
    for (a, b), route in layout.routes.items():
        strength = strengths[a, b]
        _draw_arrow(ax, route, 0.5 + 1.5 * strength, 0.25 + 0.75 * strength, head=not essential.has_edge(b, a))
    for name, (x, y) in layout.centers.items():
        _draw_box(ax, (x - width / 2, y - 0.15), (width, 0.3), LINE)
        ax.text(x, y, shorten_text(str(name), 26), ha="center", va="center", fontsize=9, color=INK)
    return ax


def _open_axes(layout: Layout, ax: Any, size: float) -> Any:
    """Return axes in the units of a layout, those of a new figure if none are given."""
    if ax is None:
        figure = load_pyplot().figure(figsize=(layout.width * size, layout.height * size))
        ax = figure.add_axes((0, 0, 1, 1))
    ax.set_axis_off()
    ax.set_xlim(0, layout.width)
    ax.set_ylim(layout.height, 0)
    return ax


def _draw_box(ax: Any, corner: tuple[float, float], size: tuple[float, float], color: str) -> None:
    from matplotlib.patches import FancyBboxPatch

    ax.add_patch(FancyBboxPatch(corner, *size, boxstyle="round,pad=0,rounding_size=0.06", fc="white", ec=color))


def _draw_arrow(
    ax: Any, route: Sequence[tuple[float, float]], width: float = 1.1, alpha: float = 1.0, *, head: bool = True
) -> None:
    """Draw a smooth line from a parent's lower edge to a child's upper edge, with a head at the child or without."""
    from matplotlib.patches import FancyArrowPatch
    from matplotlib.path import Path

    points, codes = [route[0]], [Path.MOVETO]
    for (x0, y0), (x1, y1) in pairwise(route):
        middle = (y0 + y1) / 2
        points += [(x0, middle), (x1, middle), (x1, y1)]
        codes += [Path.CURVE4] * 3
    arrow = FancyArrowPatch(
        path=Path(points, codes),
        arrowstyle="-|>" if head else "-",
        mutation_scale=10,
        color=ARC,
        alpha=alpha,
        lw=width,
        shrinkA=0,
        shrinkB=0,
    )
    arrow.set_in_layout(False)
    ax.add_patch(arrow)


def _draw_node(ax: Any, name: str, center: tuple[float, float], posterior: Posterior | None, value: Any) -> None:
    """Draw the box of a node: its name, and below it the belief or the observed value."""
    (x, y), (width, height) = center, BOX
    color = INK if value is None else OBSERVED
    left, top = x - width / 2, y - height / 2
    _draw_box(ax, (left, top), BOX, color if value else LINE)
    ax.text(x, top + TITLE / 2, shorten_text(str(name), 26), ha="center", va="center", fontsize=9, color=color)
    inside = (left + 0.06 * width, top + TITLE, 0.88 * width, height - TITLE - 0.06)
    above_ticks = (left + 0.06 * width, top + TITLE, 0.88 * width, height - TITLE - 0.2)
    if isinstance(posterior, DiscretePosterior):
        _draw_bars_in(ax, posterior, *inside)
    elif isinstance(posterior, ContinuousPosterior):
        box = ax.inset_axes(above_ticks, transform=ax.transData)
        box.patch.set_alpha(0)
        box.tick_params(labelsize=6.5, length=2, colors=INK, pad=1)
        _curve(box, posterior)
        box.set_yticks([])
        box.locator_params(axis="x", nbins=4)
        for side in ("left", "right", "top"):
            box.spines[side].set_visible(False)
        box.spines["bottom"].set_color(LINE)
    if posterior is None and value is not None:
        text = f"{value:.6g}" if isinstance(value, float) else shorten_text(str(value), 24)
        ax.text(x, top + (TITLE + height) / 2, text, ha="center", va="center", color=OBSERVED, fontsize=11)


def _draw_bars_in(ax: Any, posterior: DiscretePosterior, left: float, top: float, width: float, height: float) -> None:
    """Draw states with bars of their probabilities in a part of a picture whose y axis points down."""
    states, probabilities = choose_states(posterior, MOST_BARS)
    step = height / max(len(states), 3)
    top += (height - step * len(states)) / 2
    start, room = left + 0.46 * width, 0.36 * width
    for i, (state, probability) in enumerate(zip(states, probabilities, strict=True)):
        y = top + (i + 0.5) * step
        ax.text(start - 0.03 * width, y, shorten_text(state, 13), ha="right", va="center", fontsize=7, color=INK)
        ax.barh(y, room, height=0.7 * step, left=start, color="#eef1f4", zorder=2)
        ax.barh(y, room * probability, height=0.7 * step, left=start, color=COLOR, zorder=3)
        ax.text(left + width, y, f"{probability:.3f}", ha="right", va="center", fontsize=7, color=INK)


def load_pyplot() -> Any:
    """Return matplotlib's pyplot; raise an error that names the extra where it is not installed."""
    try:
        from matplotlib import pyplot
    except ImportError as error:
        raise HybridBNError("plots need matplotlib: pip install 'hybridbn[plot]'") from error
    return pyplot


def choose_states(posterior: DiscretePosterior, most: int) -> tuple[list[str], Values]:
    """Return the most probable states and their probabilities in the order of the states, and the others together."""
    probabilities, states = posterior.probabilities, [str(state) for state in posterior.states]
    if len(states) <= most:
        return states, probabilities
    chosen = np.sort(np.argsort(-probabilities, kind="stable")[: most - 1])
    others = f"{len(states) - len(chosen)} others"
    return [*(states[i] for i in chosen), others], np.append(probabilities[chosen], 1 - probabilities[chosen].sum())


def shorten_text(text: str, most: int) -> str:
    """Return a text with its end cut off where it is longer than `most` characters."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _bars(ax: Any, posterior: DiscretePosterior) -> None:
    states, probabilities = choose_states(posterior, MOST_STATES)
    ax.barh(range(len(states)), probabilities, color=COLOR, height=0.7)
    ax.set_yticks(range(len(states)), states, fontsize=9)
    ax.invert_yaxis()
    ax.set_xlim(0, 1)
    for row, probability in enumerate(probabilities):
        inside = probability > 0.75
        ax.text(
            probability + (-0.02 if inside else 0.02),
            row,
            f"{probability:.3f}",
            va="center",
            ha="right" if inside else "left",
            color="white" if inside else INK,
            fontsize=9,
        )


def trace_density(posterior: ContinuousPosterior, count: int) -> tuple[Values, Values]:
    """Return points over nearly all of the mass, with both sides of every jump among them, and the densities there."""
    low, high = posterior.quantile([0.0005, 0.9995])
    margin = 0.08 * (high - low)
    knots, _ = posterior.knots()
    inner = knots[:, 0]
    x = np.concatenate([np.linspace(low - margin, high + margin, count), inner[(inner > low) & (inner < high)]])
    x = np.unique(np.concatenate([x, np.nextafter(x, -np.inf)]))
    return x, posterior.pdf(x)


def _curve(ax: Any, posterior: ContinuousPosterior) -> None:
    if not posterior.std() > 0:
        ax.axvline(posterior.mean(), color=COLOR, lw=1.5)
        return
    x, density = trace_density(posterior, 400)
    ax.plot(x, density, color=COLOR, lw=1.5)
    ax.fill_between(x, density, color=COLOR, alpha=0.2, lw=0)
    ax.set_ylim(bottom=0)
