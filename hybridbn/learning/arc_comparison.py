"""Arcs of several networks: how sure those of a learned one are, from the networks of resampled tables (Friedman 1999),
and what two networks have in common: arcs, directions, distances, and how well they predict rows.
"""

from __future__ import annotations

from concurrent.futures import Executor
from dataclasses import dataclass, replace
from functools import cached_property, partial, reduce
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, Unpack

import networkx as nx
import numpy as np
from numpy.typing import NDArray

from hybridbn.errors import NetworkError, TableError
from hybridbn.estimation.available_cases import read_as_declared, structure_of
from hybridbn.fitting import fit
from hybridbn.fitting.base import Potentials
from hybridbn.fitting.cross_validation import collapse_rows, draw_bootstrap
from hybridbn.jobs import run_in_executor, track_items
from hybridbn.network import Network
from hybridbn.options import ColumnKeywords, check_count, make_generator
from hybridbn.structures.arcs import Arcs, Knowledge, find_essential_graph, matrix_of, structural_distance
from hybridbn.structures.building import Build, Structure
from hybridbn.tables import Table, declare_rows
from hybridbn.variables import Discrete, Values, find_observed, shorten

if TYPE_CHECKING:
    import pandas

_PARTS = 32
"""An executor gets the replicates in this many parts, so that the table is sent to few of them."""
_KNOWN = {"knowledge": None, "required": (), "forbidden": ()}
"""The options of builders that tell directions."""
_MOST_DRAWS = 100
"""How often rows are drawn, at most, until each column that varies does so among them."""


@dataclass(frozen=True, eq=False)
class Bootstrap:
    """The arcs of the networks that a builder learned from resampled tables.

    Attributes
    ----------
    names : tuple of str
        The nodes.
    replicates : int
    presence : ndarray (nodes, nodes), symmetric
        The share of the networks in which two nodes are joined.
    orientation : ndarray (parents, children)
        The share of the networks with this arc; where the network says nothing about the direction, half for each.
    """

    names: tuple[str, ...]
    replicates: int
    presence: Values
    orientation: Values
    table: Table
    potentials: Potentials

    def __repr__(self) -> str:
        arcs = self._average(None).number_of_edges()
        return (
            f"<Bootstrap: {self.replicates} replicates, {len(self.names)} nodes, {arcs} arc{'s' * (arcs != 1)} stronger"
            f" than {self.threshold:.3g}>"
        )

    @cached_property
    def strengths(self) -> pandas.DataFrame:
        """A frame of all arcs that occurred: `from`, `to`, `strength` and `direction`, strongest first.

        The strength is the share of the networks in which the two nodes are joined, and the direction the share of
        *those* in which the arc goes this way.
        """
        import pandas as pd

        parents, children = np.nonzero(self.orientation)
        strength = self.presence[parents, children]
        direction = self.orientation[parents, children] / strength
        order = np.lexsort((children, parents, -direction, -strength))
        names = np.array(self.names, dtype=object)
        return pd.DataFrame(
            {
                "from": names[parents[order]],
                "to": names[children[order]],
                "strength": strength[order],
                "direction": direction[order],
            }
        )

    @cached_property
    def threshold(self) -> float:
        """The threshold that the strengths themselves suggest, see `find_strength_threshold`."""
        return find_strength_threshold(self.presence[np.triu_indices(len(self.names), 1)])

    def network(self, threshold: float | None = None) -> Network:
        """Return the averaged network: the arcs that are stronger than a threshold, fitted to the table.

        Each arc takes its more frequent direction. Arcs enter in the order of their shares of the networks; one that
        would close a cycle is reversed where that direction occurred, else left out.

        Parameters
        ----------
        threshold : float, optional
            Between 0 and 1; by default `.threshold`.
        """
        return fit(self._average(threshold), self.table, self.potentials)

    def cpdag(self, threshold: float | None = None) -> nx.DiGraph[str]:
        """Return the essential graph of the averaged network: a pair is joined by two arcs if its direction is open."""
        graph = self._average(threshold)
        arcs = matrix_of(graph.edges, self.names)
        certain = self.orientation >= self.presence  # in every network
        return find_essential_graph(arcs, arcs & certain).to_graph(self.names)

    def plot(self, threshold: float | None = None, ax: Any = None) -> Any:
        """Draw the averaged graph, stronger arcs darker and wider, open directions without a head; returns the axes."""
        from hybridbn.pictures import plot_strengths

        strengths = {
            (self.names[a], self.names[b]): float(self.presence[a, b]) for a, b in np.argwhere(self.presence).tolist()
        }
        return plot_strengths(self._average(threshold), self.cpdag(threshold), strengths, ax)

    def _average(self, threshold: float | None) -> nx.DiGraph[str]:
        """Return the graph of the arcs that are stronger than a threshold."""
        least = self.threshold if threshold is None else _check_share(threshold)
        graph: nx.DiGraph[str] = nx.DiGraph()
        graph.add_nodes_from(self.names)
        parents, children = np.nonzero((self.presence > least) & (self.orientation > 0))
        order = np.lexsort((children, parents, -self.orientation[parents, children]))
        for a, b in zip(parents[order].tolist(), children[order].tolist(), strict=True):
            arc = self.names[a], self.names[b]
            if not graph.has_edge(*arc[::-1]) and not nx.has_path(graph, *arc[::-1]):
                graph.add_edge(*arc)
        return graph


def bootstrap(
    build: Structure,
    data: Any,
    replicates: int = 200,
    random_state: Any = 0,
    *,
    target: str | None = None,
    potentials: Potentials | None = None,
    weights: Any = None,
    executor: Executor | None = None,
    **columns: Unpack[ColumnKeywords],
) -> Bootstrap:
    r"""Learn networks from resampled tables, and tell how often each arc occurs.

    Each replicate draws as many rows as there are, with replacement (they are weighted by how often they are drawn, not
    copied), and calls the builder.

    Parameters
    ----------
    build : builder, partial of one, or its name
        Such as ``hill_climb``. Options that it declares for resampled tables (hill climbing does without restarts,
        which the average makes up for) are used unless a partial says otherwise.
    data, weights, discrete, continuous, ordered : as in `hybridbn.fit`
        Cells may be missing: the builder sees the holes.
    replicates : int
        The number of networks.
    random_state : int, Generator or None
    target : str, optional
        For builders with a target. Their arcs count as they are; those of others only in so far as equivalent graphs
        have them, too.
    potentials : as in `hybridbn.fit`, optional
        Families of the columns, by default those of the builder.
    executor : concurrent.futures.Executor, optional
        Where replicates are learned, or anything else with its method ``submit``; the result is the same.

    Returns
    -------
    Bootstrap
        With `.strengths`, `.threshold`, `.network()`, `.cpdag()` and `.plot()`.

    Notes
    -----
    Graphs that differ only by the directions of some arcs may fit all tables equally well. For arcs between two
    categories or two numbers the direction is therefore counted as in the essential graph, half each way where it is
    open. Arcs between a category and a number count as they are, because there the two directions are different
    families of densities; so do the arcs of builders with a target, and those that can't be reversed for what a
    builder's `knowledge` says.

    A draw in which a column of several values has only one is repeated.

    References
    ----------
    Friedman, Goldszmidt & Wyner (1999), "Data analysis with Bayesian networks: a bootstrap approach", UAI'99.
    Scutari & Nagarajan (2013), "Identifying significant edges in graphical models of molecular networks", Artificial
    Intelligence in Medicine 57.

    Examples
    --------
    >>> import hybridbn as hb
    >>> rng = np.random.default_rng(0)
    >>> x, z = rng.normal(size=(2, 100))
    >>> data = {"x": x, "y": x + z + rng.normal(size=100), "z": z}
    >>> result = hb.bootstrap("hill_climb", data, replicates=20, potentials="gaussian")
    >>> result.strengths.head(2)[["from", "to", "strength"]].values.tolist()
    [['x', 'y', 1.0], ['z', 'y', 1.0]]
    >>> sorted(result.network().edges)
    [('x', 'y'), ('z', 'y')]
    """
    count = check_count(replicates, "the number of replicates", 1)
    learning = Build.of(build).prepare_for_resampling()
    if target is None and learning.declaration.takes_target and learning.structure is None:
        raise NetworkError(f"the builder {learning} needs a target; name it: bootstrap(..., target=...)")
    table = learning.read(data, weights, target, **columns).sample(purpose="replicates of a bootstrap")
    table = table.take(table.weights > 0).require_rows(1).require_values()
    seeds = make_generator(random_state).integers(2**63, size=count).tolist()
    size = 1 if executor is None else -(-count // _PARTS)
    parts = [seeds[start : start + size] for start in range(0, count, size)]
    learn = partial(_count_arcs, learning, collapse_rows(table).take(table), target, potentials)
    counted = run_in_executor(executor, learn, parts, "the builder and the table")
    total = reduce(_Counted.merge, track_items(counted, "bootstrap", len(parts)))
    families = potentials if potentials is not None else learning.potentials
    return Bootstrap(
        total.names,
        count,
        total.presence / count,
        total.orientation / count,
        table.select(total.names),
        "auto" if families is None else families,
    )


class _Counted(NamedTuple):
    """How many networks join two nodes, and have an arc."""

    names: tuple[str, ...]
    presence: Values
    orientation: Values

    def merge(self, other: _Counted) -> _Counted:
        if self.names != other.names:
            raise NetworkError(
                f"the builder returned networks with different nodes, {shorten(self.names)} and {shorten(other.names)};"
                " arcs can be counted between the same columns only"
            )
        return _Counted(self.names, self.presence + other.presence, self.orientation + other.orientation)


def _count_arcs(build: Build, table: Table, target: str | None, potentials: Potentials | None, seeds: Any) -> _Counted:
    """Learn a network for each seed, and count the arcs."""
    options = build.keywords
    knowledge = Knowledge.of(*(options.get(name, default) for name, default in _KNOWN.items()))
    networks = (build.learn(_resample(table, seed, build), target, potentials) for seed in seeds)
    return reduce(_Counted.merge, (_count_network(network, table, target, knowledge) for network in networks))


def _count_network(network: Network, table: Table, target: str | None, knowledge: Knowledge) -> _Counted:
    hidden = [name for name in network if name not in table]
    if hidden:
        raise NetworkError(
            f"the builder's networks have hidden nodes ({shorten(hidden)}), and the arcs of different ones can't be"
            " compared; choose a builder without"
        )
    names = tuple(name for name in table.names if name in network)
    arcs = matrix_of(network.edges, names)
    discrete = np.array([isinstance(network.variable(name), Discrete) for name in names], dtype=bool)
    fixed = arcs.copy() if target is not None else arcs & (discrete[:, None] != discrete)
    if knowledge:
        limits = knowledge.limit(names)
        fixed |= arcs & (~limits.allowed | limits.required.T)  # those that can't be reversed
    graph = find_essential_graph(arcs, fixed)
    return _Counted(names, (arcs | arcs.T).astype(float), graph.directed + 0.5 * graph.undirected)


def _resample(table: Table, seed: int, build: Build) -> Table:
    """Return the table with new weights, or the rows that were drawn for a builder that doesn't take weights."""
    rng = np.random.default_rng(seed)
    varying = [name for name in table.names if _varies(table, name)]
    for _ in range(_MOST_DRAWS):
        drawn = draw_bootstrap(table.weights, rng)
        if all(_varies(table, name, drawn > 0) for name in varying):
            break
    if build.structure is None and not build.declaration.takes_weights:
        return table.take(np.repeat(np.arange(len(table)), drawn)).with_weights(None)
    return table.with_weights(drawn * (table.weights.sum() / drawn.sum()))


def _varies(table: Table, name: str, rows: NDArray[np.bool_] | slice = slice(None)) -> bool:
    column = table.column(name)[rows]
    values = column[find_observed(column)]
    return bool(values.size and (values != values[0]).any())


def find_strength_threshold(strengths: Values) -> float:
    r"""Return the threshold above which arcs are significant, of Scutari & Nagarajan (2013).

    With F the empirical distribution function of the strengths, it is :math:`F^{-1}(t)` for the t that minimizes

    .. math:: L_1(t) = \int_0^1 |F(x) - t| \, dx

    that is, F is compared with the one that strengths of 0 and 1 only would have.

    Parameters
    ----------
    strengths : ndarray (pairs of nodes,)

    Notes
    -----
    The integral is least for a median of F(x) over x, and F rises, so that t is F just below 1/2: the threshold is the
    greatest strength below one half (or 0), and the arcs that are stronger are those of at least half of the networks.

    Examples
    --------
    >>> find_strength_threshold(np.array([0.0, 0.1, 0.45, 0.7, 1.0]))
    0.45
    """
    return float(strengths[strengths < 0.5].max(initial=0.0))


def _check_share(threshold: Any) -> float:
    if isinstance(threshold, bool) or not isinstance(threshold, int | float | np.number) or not 0 <= threshold <= 1:
        raise TableError(f"the threshold must be a number between 0 and 1, not {threshold!r:.80}")
    return float(threshold)


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
        read_as_declared(declare_rows(data, weights), network, keep_numbers=True).sample(purpose="log densities")
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
