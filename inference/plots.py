"""Pictures of posteriors and of networks with beliefs in their nodes (matplotlib, the extra ``plot``)."""

from __future__ import annotations

from typing import Any

import networkx as nx
import numpy as np

from hybridbn.errors import HybridBNError, TableError
from hybridbn.inference.posteriors.base import DiscretePosterior, Posterior
from hybridbn.inference.posteriors.continuous import ContinuousPosterior
from hybridbn.inference.posteriors.joint import JointPosterior
from hybridbn.inference.queries import posteriors
from hybridbn.network import Network
from hybridbn.variables import Discrete

__all__ = ["plot_joint", "plot_network", "plot_posterior"]

COLOR, OBSERVED, INK = "#3b6ea5", "#c8553d", "#333333"
MOST_STATES = 12
MOST_NODES = 60
MOST_ROWS = 100


def plot_posterior(posterior: Posterior, ax: Any = None) -> Any:
    """Draw the posterior: bars of probabilities, or a density curve; of a batch one for each row. Returns the axes."""
    if not posterior.single:
        return _batch(posterior, ax)
    ax = _pyplot().gca() if ax is None else ax
    if isinstance(posterior, DiscretePosterior):
        _bars(ax, posterior)
        ax.set_xlabel("probability")
    elif isinstance(posterior, ContinuousPosterior):
        _curve(ax, posterior)
        ax.set_ylabel("density")
        ax.axvline(posterior.mean(), color=OBSERVED, lw=1, label=f"mean {posterior.mean():.4g}")
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
    ax = _pyplot().gca() if ax is None else ax
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
    ax = _pyplot().gca() if ax is None else ax
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


def plot_network(network: Network, evidence: Any = None, ax: Any = None, size: float = 1.0) -> Any:
    """Draw the graph with a small picture of each variable's belief in its node; observed values are marked.

    Parameters
    ----------
    evidence : mapping, optional
    size : float
        Scale of the boxes.
    """
    if len(network) > MOST_NODES:
        raise TableError(
            f"a picture with {len(network)} beliefs can't be read; draw a part: network.subgraph(names), at most"
            f" {MOST_NODES} nodes"
        )
    if not len(network):
        raise TableError("the network has no nodes to draw")
    pyplot = _pyplot()
    layers = list(nx.topological_generations(network))
    widest = max(map(len, layers))
    if ax is None:
        _, ax = pyplot.subplots(figsize=(max(5.0, 2.6 * widest) * size, max(3.0, 2.0 * len(layers)) * size))
    places = _layout(layers)
    known = {name: value for name, value in (evidence or {}).items() if value is not None}
    beliefs = posteriors(network, evidence)
    ax.set_axis_off()
    ax.set_xlim(0, 1)
    ax.set_ylim(0, 1)
    width, height = min(0.8 / widest, 0.3), min(0.62 / len(layers), 0.35)
    for start, end in network.edges:
        (x0, y0), (x1, y1) = places[start], places[end]
        ax.annotate(
            "",
            xy=(x1, y1 + height / 2 + 0.1 * height + 0.03),
            xytext=(x0, y0 - height / 2 - 0.2 * height),
            arrowprops={"arrowstyle": "-|>", "color": "#888888", "lw": 1.2, "shrinkA": 0, "shrinkB": 0},
        )
    for name, (x, y) in places.items():
        box = ax.inset_axes((x - width / 2, y - height / 2, width, height))
        observed = name not in beliefs
        for spine in box.spines.values():
            spine.set_color(OBSERVED if name in known else "#bbbbbb")
        box.set_title(name, fontsize=9, color=OBSERVED if name in known else INK, pad=3)
        box.tick_params(labelsize=7, length=2, colors=INK)
        if observed:
            _value(box, known.get(name))
            continue
        posterior = beliefs[name]
        if isinstance(posterior, DiscretePosterior):
            _bars(box, posterior, small=True)
        elif isinstance(posterior, ContinuousPosterior):
            _curve(box, posterior)
            box.set_yticks([])
    return ax


def _pyplot() -> Any:
    try:
        from matplotlib import pyplot
    except ImportError as error:
        raise HybridBNError("plots need matplotlib: pip install 'hybridbn[plot]'") from error
    return pyplot


def _layout(layers: list[list[str]]) -> dict[str, tuple[float, float]]:
    places = {}
    for depth, layer in enumerate(layers):
        for number, name in enumerate(sorted(layer)):
            places[name] = ((number + 0.5) / len(layer), 1 - (depth + 0.5) / len(layers))
    return places


def _bars(ax: Any, posterior: DiscretePosterior, small: bool = False) -> None:
    probabilities, states = posterior.probabilities, [str(state) for state in posterior.states]
    if len(states) > MOST_STATES:
        chosen = np.sort(np.argsort(-probabilities, kind="stable")[: MOST_STATES - 1])
        rest = 1 - probabilities[chosen].sum()
        states = [states[i] for i in chosen] + [f"{len(states) - len(chosen)} others"]
        probabilities = np.append(probabilities[chosen], rest)
    ax.barh(range(len(states)), probabilities, color=COLOR, height=0.7)
    ax.set_yticks(range(len(states)), states, fontsize=7 if small else 9)
    ax.invert_yaxis()
    ax.set_xlim(0, 1)
    if small:
        ax.set_xticks([])
    for place, probability in enumerate(probabilities):
        inside = probability > 0.75
        ax.text(
            probability + (-0.02 if inside else 0.02),
            place,
            f"{probability:.3f}",
            va="center",
            ha="right" if inside else "left",
            color="white" if inside else INK,
            fontsize=7 if small else 9,
        )


def _curve(ax: Any, posterior: ContinuousPosterior) -> None:
    low, high = posterior.quantile([0.0005, 0.9995])
    margin = 0.08 * (high - low)
    knots, _ = posterior.knots()
    inner = knots[:, 0]
    x = np.unique(
        np.concatenate([np.linspace(low - margin, high + margin, 400), inner[(inner > low) & (inner < high)]])
    )
    x = np.unique(np.concatenate([x, np.nextafter(x, -np.inf)]))
    density = posterior.pdf(x)
    ax.plot(x, density, color=COLOR, lw=1.5)
    ax.fill_between(x, density, color=COLOR, alpha=0.2, lw=0)
    ax.set_ylim(bottom=0)


def _value(ax: Any, value: Any) -> None:
    text = f"{value:.6g}" if isinstance(value, float) else str(value)
    ax.text(0.5, 0.5, text, ha="center", va="center", color=OBSERVED, fontsize=10, transform=ax.transAxes)
    ax.set_xticks([])
    ax.set_yticks([])
