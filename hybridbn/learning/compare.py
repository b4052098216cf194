"""`compare`: what two networks have in common: arcs, directions, distances, and how well they predict rows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import networkx as nx
import numpy as np

from hybridbn.errors import NetworkError
from hybridbn.estimation.available_cases import read_as_declared, structure_of
from hybridbn.network import Network
from hybridbn.structures.equivalence import Arcs, find_essential_graph, matrix_of, structural_distance
from hybridbn.variables import shorten

__all__ = ["Comparison", "compare"]

Pairs: TypeAlias = tuple[tuple[str, str], ...]
"""Arcs (from, to)."""


@dataclass(frozen=True)
class Comparison:
    """The differences of two networks.

    Attributes
    ----------
    shared : tuple of (from, to)
        Arcs of both networks, in the same direction.
    reversed : tuple of (from, to)
        Arcs of the first network that have the other direction in the second, or none in one of the two.
    only_first, only_second : tuple of (from, to)
        Arcs between nodes that the other network does not join.
    distance : int
        The structural Hamming distance: how many arcs must be added, removed or reversed.
    essential_distance : int
        The same of the essential graphs (CPDAGs), so that equivalent networks have the distance 0.
    log_densities : (float, float), optional
        The mean log density of the rows of a table under each network, in nats.
    gain : float, optional
        The second of them less the first.
    standard_error : float, optional
        The standard error of the gain, from the rows' differences; nan for a single row.
    """

    shared: Pairs
    reversed: Pairs
    only_first: Pairs
    only_second: Pairs
    distance: int
    essential_distance: int
    log_densities: tuple[float, float] | None = None
    gain: float | None = None
    standard_error: float | None = None

    def __repr__(self) -> str:
        text = (
            f"<Comparison: {len(self.shared)} shared, {len(self.reversed)} reversed, {len(self.only_first)} only in the"
            f" first, {len(self.only_second)} only in the second; distance {self.distance}, of the essential graphs"
            f" {self.essential_distance}"
        )
        if self.log_densities is not None:
            first, second = self.log_densities
            text += (
                f"; mean log density {first:.6g} and {second:.6g}, gain {self.gain:.4g} +- {self.standard_error:.2g}"
            )
        return f"{text}>"


def compare(a: Any, b: Any, data: Any = None, weights: Any = None) -> Comparison:
    """Compare two networks: arcs, directions, distances, and the log density of held-out rows.

    Parameters
    ----------
    a, b : Network, directed graph of networkx, list of arcs, or text such as "x->y<-z"
        A graph may have undirected pairs, as arcs in both directions, such as that of `Bootstrap.cpdag`.
    data : DataFrame, Table, mapping of arrays, ..., optional
        Rows from which neither network was learned; missing cells are marginalized. The networks need potentials then.
    weights : sequence of float, optional
        One for each row.

    Returns
    -------
    Comparison

    References
    ----------
    Tsamardinos, Brown & Aliferis (2006), "The max-min hill-climbing Bayesian network structure learning algorithm",
    Machine Learning 65, for the distance.

    Examples
    --------
    >>> result = compare("a->b->c", "a<-b->c<-d")
    >>> result
    <Comparison: 1 shared, 1 reversed, 0 only in the first, 1 only in the second; distance 2, of the essential graphs 2>
    >>> result.reversed, result.only_second
    ((('a', 'b'),), (('d', 'c'),))
    """
    first, second = _read_graph(a), _read_graph(b)
    names = list(dict.fromkeys([*first, *second]))
    one, other = matrix_of(first.edges, names), matrix_of(second.edges, names)
    joined = (one | one.T, other | other.T)
    same = (one == other) & (one.T == other.T)

    def list_arcs(chosen: Arcs) -> Pairs:
        # an undirected pair is listed once
        chosen = chosen & ~np.tril(chosen & chosen.T)
        return tuple((names[i], names[j]) for i, j in np.argwhere(chosen).tolist())

    comparison = Comparison(
        list_arcs(one & same),
        list_arcs(one & ~same & joined[1]),
        list_arcs(one & ~joined[1]),
        list_arcs(other & ~joined[0]),
        structural_distance(one, other),
        structural_distance(_find_essential_arcs(one), _find_essential_arcs(other)),
    )
    return comparison if data is None else _add_log_densities(comparison, a, b, data, weights)


def _read_graph(graph: Any) -> nx.DiGraph[str]:
    if isinstance(graph, nx.DiGraph) and any(graph.has_edge(child, parent) for parent, child in graph.edges):
        return graph  # with undirected pairs
    return structure_of(graph)


def _find_essential_arcs(arcs: Arcs) -> Arcs:
    return arcs if (arcs & arcs.T).any() else find_essential_graph(arcs).arcs


def _add_log_densities(comparison: Comparison, a: Any, b: Any, data: Any, weights: Any) -> Comparison:
    for network, what in ((a, "first"), (b, "second")):
        if not isinstance(network, Network):
            raise NetworkError(f"the log density of rows needs networks, and the {what} is {network!r:.80}; fit it")
    tables = [
        read_as_declared(data, network, weights, keep_numbers=True).sample(purpose="log densities")
        for network in (a, b)
    ]
    known = [set(network) & set(table.names) for network, table in zip((a, b), tables, strict=True)]
    if known[0] != known[1]:
        raise NetworkError(
            "densities of different columns can't be compared: only one of the networks has"
            f" {shorten(sorted(known[0] ^ known[1]))}; leave these columns out of the table"
        )
    rows = tables[0].require_rows().sample().weights
    values = [np.asarray(net.log_density(table)) for net, table in zip((a, b), tables, strict=True)]
    kept = rows > 0
    means = [float(np.average(value[kept], weights=rows[kept])) for value in values]
    with np.errstate(invalid="ignore"):
        differences = values[1][kept] - values[0][kept]
        gain = means[1] - means[0]
        spread = float(np.average((differences - gain) ** 2, weights=rows[kept]))
    count = float(rows.sum())
    error = (spread / (count - 1)) ** 0.5 if count > 1 and np.isfinite(spread) else float("nan")
    return replace(comparison, log_densities=(means[0], means[1]), gain=gain, standard_error=error)
