"""`fit`: the potentials of a network whose arcs are given."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from typing import Any

import networkx as nx

from hybridbn.errors import NetworkError
from hybridbn.fitting.choice import Potentials, Role, fitter_of, roles
from hybridbn.network import Network
from hybridbn.network_check import cycles
from hybridbn.potentials.base import Potential
from hybridbn.tables import Table
from hybridbn.variables import Variable, shorten

__all__ = ["fit"]

_LEARNED = frozenset({"gaussian", "kernel", "mte", "multinomial", "softmax"})


def fit(
    structure: Any, data: Any, potentials: Potentials = "auto", weights: Any = None, *, missing: str = "available"
) -> Network:
    """Learn the potentials of a network with given arcs.

    Parameters
    ----------
    structure : iterable of (from, to), directed graph of networkx, or Network
        Its names are columns of the data; columns that it does not mention become nodes without arcs. The nodes of a
        `Network` keep their variables, and their families where `potentials` leaves that open.
    data : DataFrame, Table, mapping of arrays, ...
        Whatever `Table` takes.
    potentials : "auto", "mte", "kernel", "gaussian", "multinomial", a Fitter, or a mapping from columns to these
        "auto", which columns left out of a mapping get too: tables of probabilities where a node and its parents are
        all discrete, mixtures of truncated exponentials otherwise. "multinomial" asks to discretize number columns
        (by equal frequencies). See `hybridbn.fitting.fitter_of`.
    weights : sequence of float, optional
        One for each row; they replace those of a `Table`.
    missing : {"available", "em"}
        "available": each node is learned from the rows in which it and its parents are observed. That is right where
        cells are missing regardless of all values (completely at random).
        "em": expectation maximization, which is right where cells are missing depending on observed ones, too, and
        learns hidden variables; see `hybridbn.expectation_maximization`, which has more options.

    Returns
    -------
    Network
        A new one.

    Examples
    --------
    >>> import hybridbn as hb
    >>> data = {"rain": ["no", "no", "no", "yes"], "wet": ["no", "no", "yes", "yes"], "hour": [1.0, 2.0, 3.0, 6.0]}
    >>> net = fit([("rain", "wet")], data, potentials="gaussian")
    >>> net
    <Network: 3 nodes (2 discrete, 1 continuous), 1 arc>
    >>> net.potential("wet").table.round(3)
    array([[0.6  , 0.4  ],
           [0.333, 0.667]])
    >>> net.potential("hour")
    <LinearGaussian hour: N(3, 3.5)>
    >>> data["wet"][0] = None
    >>> fit([("rain", "wet")], data, potentials="gaussian", missing="em")
    <Network: 3 nodes (2 discrete, 1 continuous), 1 arc>
    """
    if missing not in ("available", "em"):
        raise NetworkError(f"missing must be 'available' or 'em', not {missing!r}")
    if missing == "em":
        from hybridbn.estimation.em import expectation_maximization

        return expectation_maximization(structure, data, potentials, weights).network
    graph = _graph(structure)
    known: dict[str, Variable] = {
        name: attributes["variable"] for name, attributes in graph.nodes.items() if attributes.get("variable")
    }
    table = _read(data, known, weights)
    _refuse_unknown(graph, table)
    found = _with_families(graph, roles(table, None, potentials))
    nodes = [*(name for name in graph if known), *(name for name in table.names if not known or name not in graph)]
    learned = []
    for name in nodes:
        variable, spec = found[name]
        parents = tuple(found[parent].variable for parent in _parents(graph, name))
        learned.append(fitter_of(spec, variable, parents).fit(table, variable, parents))
    return Network(learned)


def _graph(structure: Any) -> Network:
    """Return the structure as a network of its own, with whatever its nodes carry."""
    if isinstance(structure, nx.Graph):
        graph = Network(structure)
    else:
        listed = (
            list(structure) if isinstance(structure, Iterable) and not isinstance(structure, str | Mapping) else [None]
        )
        arcs = [tuple(arc) for arc in listed if isinstance(arc, tuple | list) and len(arc) == 2]
        if len(arcs) < len(listed):
            raise NetworkError(
                f"a structure is a list of arcs (from, to), a directed graph of networkx or a Network, not {structure!r:.80}"
            )
        graph = Network(arcs)
    for fault in cycles(graph):
        raise NetworkError(fault)
    return graph


def _read(data: Any, known: Mapping[str, Variable], weights: Any) -> Table:
    table = data if isinstance(data, Table) and weights is None else Table(data, weights=weights)
    if not any(name in known for name in table.names):
        return table
    variables = [known.get(name) or table.variable(name) for name in table.names]
    return Table(data, weights=weights, variables=variables)


def _refuse_unknown(graph: Network, table: Table) -> None:
    strange = [name for name in graph if name not in table]
    if strange:
        near = difflib.get_close_matches(str(strange[0]), table.names, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"the columns are {shorten(table.names)}"
        raise NetworkError(f"the structure mentions {shorten(strange)}, but the data has no such column; {hint}")


def _with_families(graph: Network, found: Mapping[str, Role]) -> dict[str, Role]:
    """Let nodes keep their families where nothing else was asked for."""
    kept = dict(found)
    for name, attributes in graph.nodes.items():
        potential = attributes.get("potential")
        if not isinstance(potential, Potential) or kept[name].fitter != "auto":
            continue
        if potential.family not in _LEARNED:
            raise NetworkError(
                f"{name!r} has a {type(potential).__name__}, which can't be learned from data; say what to put in its "
                f"place: potentials={{{name!r}: 'mte'}}, for example"
            )
        kept[name] = Role(kept[name].variable, potential.family)
    return kept


def _parents(graph: Network, name: str) -> list[str]:
    """Return a node's parents, in the order of its potential where it has one that agrees with the arcs."""
    if name not in graph:
        return []
    arcs = list(graph.predecessors(name))
    potential = graph.nodes[name].get("potential")
    if isinstance(potential, Potential) and set(potential.scope[:-1]) == set(arcs):
        return list(potential.scope[:-1])
    return arcs
