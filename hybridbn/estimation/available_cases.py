"""Learning the potentials of given arcs from available cases: each family from the rows in which it is observed.

Where too few rows are complete, a column's own density fills its holes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

import networkx as nx
import numpy as np

from hybridbn.errors import NetworkError
from hybridbn.estimation.completion import Cells, Completion, Levels, RowLevels, find_holes
from hybridbn.fitting import Fitter, fitter_of, roles
from hybridbn.fitting.base import Potentials, prepare_families, spec_of
from hybridbn.inference.evidence import EvidenceReader
from hybridbn.network import Network
from hybridbn.network_description import describe_cycles, describe_stale_names, is_arc_text
from hybridbn.options import Options
from hybridbn.potentials.base import Potential
from hybridbn.tables import Rows, Table, declare_rows
from hybridbn.variables import Discrete, Variable, hint_at_names, shorten

Filled = TypeVar("Filled", bound=Rows)


def fit_available(structure: Any, data: Any, potentials: Potentials = "auto", weights: Any = None) -> Network:
    """Learn each node's potential from the rows in which it and its parents are observed; the parameters are those of
    `fit`.

    Examples
    --------
    >>> fit_available([("c", "x")], {"x": [1.0, 2.0, None], "c": ["a", "a", "b"]}, "gaussian").potential("c").table
    array([0.6, 0.4])
    """
    graph = structure_of(structure)
    known = {name for name, attributes in graph.nodes.items() if attributes.get("variable")}
    named = {*graph, *(potentials if isinstance(potentials, Mapping) else ())}
    rows, _ = declare_rows(data, weights).leave_alone(named, constants=isinstance(potentials, str | Mapping))
    table = read_as_declared(rows, graph)
    _refuse_unknown(graph, table)
    role_of = roles(table, None, _keep_families(graph, table, potentials))
    nodes = [*(name for name in graph if known), *(name for name in table.names if not known or name not in graph)]
    families = []
    for name in nodes:
        variable, spec = role_of[name]
        parents = tuple(role_of[parent].variable for parent in _list_parents(graph, name))
        families.append((fitter_of(spec, variable, parents), variable, parents))
    return fit_families(table, families)


def fit_families(rows: Rows, families: Sequence[tuple[Fitter, Variable, tuple[Variable, ...]]]) -> Network:
    """Learn the network whose nodes are given with their fitters and their parents, each from its available cases.

    Examples
    --------
    >>> from hybridbn.fitting import MultinomialFitter
    >>> table = Table({"c": ["a", "b", None], "d": ["u", "u", "v"]})
    >>> c, d = table.variables
    >>> fit_families(table, [(MultinomialFitter(), c, ()), (MultinomialFitter(), d, (c,))])
    <Network: 2 nodes (2 discrete), 1 arc>
    """
    prepare_families(rows, families)
    return Network(list(rows.share(lambda family: family[0].fit(rows, *family[1:]), families)))


def structure_of(structure: Any) -> Network:
    """Return arcs, a graph or a network as a network of its own, with whatever its nodes carry.

    Examples
    --------
    >>> structure_of([("y", "x")])
    <Network: 2 nodes (2 without variable), 1 arc>
    >>> structure_of("y -> x <- z")
    <Network: 3 nodes (3 without variable), 2 arcs>
    >>> structure_of("tan")
    Traceback (most recent call last):
        ...
    hybridbn.errors.NetworkError: a structure is a list of arcs (from, to), a text such as 'a->b<-c', a directed graph
    of networkx or a Network, not 'tan'
    """
    if isinstance(structure, nx.Graph) or (isinstance(structure, str) and is_arc_text(structure)):
        graph = Network(structure)
    else:
        arcs = list_arcs(structure)
        if arcs is None:
            raise NetworkError(
                "a structure is a list of arcs (from, to), a text such as 'a->b<-c', a directed graph of networkx or a"
                f" Network, not {structure!r:.80}"
            )
        graph = Network(arcs)
    for fault in (*describe_cycles(graph), describe_stale_names(graph)):
        if fault:
            raise NetworkError(fault)
    return graph


def list_arcs(structure: Any) -> list[tuple[Any, Any]] | None:
    """Return arcs as a list of pairs, None if they aren't any.

    Examples
    --------
    >>> list_arcs([["y", "x"], ("y", "z")]), list_arcs("tan"), list_arcs([("x", "y", "z")])
    ([('y', 'x'), ('y', 'z')], None, None)
    """
    if not isinstance(structure, Iterable) or isinstance(structure, str | Mapping):
        return None
    listed = list(structure)
    arcs = [tuple(arc) for arc in listed if isinstance(arc, tuple | list) and len(arc) == 2]
    return arcs if len(arcs) == len(listed) else None


def read_as_declared(table: Rows, structure: Network | None, *, keep_numbers: bool = False) -> Rows:
    """Return rows with their columns read as the variables that a structure's nodes carry.

    Parameters
    ----------
    structure : graph, optional
        Without one, or where its nodes carry no variables, columns are what the data say.
    keep_numbers : bool
        Columns of numbers stay numbers where a node has intervals of them.

    Examples
    --------
    >>> import hybridbn as hb
    >>> net = hb.fit([], {"c": ["a", "b", "a"], "x": [1.0, 2.0, 4.0]}, {"x": "multinomial"})
    >>> table = Table({"c": ["a"], "x": [3.0]})
    >>> read_as_declared(table, net).variable("c").states
    ('a', 'b')
    >>> [read_as_declared(table, net, keep_numbers=kept).is_discrete("x") for kept in (False, True)]
    [True, False]
    """
    known: dict[str, Variable] = {}
    for name, attributes in () if structure is None else structure.nodes.items():
        variable = attributes.get("variable")
        if not variable or name not in table:
            continue
        if keep_numbers and isinstance(variable, Discrete) and variable.cuts and not table.is_discrete(name):
            continue
        known[name] = variable
    if known and structure is not None and structure.graph.get("factors"):
        EvidenceReader(structure, table)  # refuses data without the findings of a factor
    if not known:
        return table
    return table.with_variables([known.get(name) or table.variable(name) for name in table.names])


def _refuse_unknown(graph: Network, table: Rows) -> None:
    strange = [name for name in graph if name not in table]
    if strange:
        hint = hint_at_names(str(strange[0]), table.names)
        raise NetworkError(f"the structure mentions {shorten(strange)}, but the data has no such column; {hint}")


def _keep_families(graph: Network, table: Rows, potentials: Potentials) -> Potentials:
    """Let nodes keep their families where nothing else was asked for."""
    families = {name: node["potential"] for name, node in graph.nodes.items() if node.get("potential") is not None}
    if not families or not (isinstance(potentials, Mapping) or potentials == "auto"):
        return potentials
    asked: dict[str, Any] = dict(potentials) if isinstance(potentials, Mapping) else {}
    for name, potential in families.items():
        if not isinstance(potential, Potential) or asked.get(name, "auto") != "auto":
            continue
        spec = spec_of(potential)
        if spec is None:
            raise NetworkError(
                f"{name!r} has a {type(potential).__name__}, which can't be learned from data; say what to put in its "
                f"place: potentials={{{name!r}: 'mte'}}, for example"
            )
        asked[name] = spec
    return asked


def _list_parents(graph: Network, name: str) -> list[str]:
    """Return a node's parents, in the order of its potential where it has one that agrees with the arcs."""
    if name not in graph:
        return []
    arcs = list(graph.predecessors(name))
    potential = graph.nodes[name].get("potential")
    if isinstance(potential, Potential) and set(potential.scope[:-1]) == set(arcs):
        return list(potential.scope[:-1])
    return arcs


def fit_marginals(table: Rows, structure: nx.Graph[Any] | None = None, potentials: Potentials | None = None) -> Network:
    """Learn the density of each column of a table alone, from its observed cells: lines 1 to 3 of Algorithm 1 in
    Fernandez et al.

    The families are the potentials where they are given, else those of a structure's nodes.

    Examples
    --------
    >>> table = Table({"x": [1.0, None, 3.0], "c": ["a", "b", None]})
    >>> [fit_marginals(table, potentials="gaussian").potential(name) for name in ("x", "c")]
    [<LinearGaussian x: N(2, 1)>, <Multinomial c: 2>]
    """
    if potentials is None and structure is not None:
        bare = Network(structure)
        bare.remove_edges_from(list(bare.edges))
        bare.remove_nodes_from([name for name in structure if name not in table])
        return fit_available(bare, table)
    if isinstance(potentials, Mapping):
        potentials = {name: spec for name, spec in potentials.items() if name in table}
    return fit_available([], table, "auto" if potentials is None else potentials)


def draw_alone(table: Table, alone: Completion, levels: Levels, skip: Sequence[str] | Network = ()) -> Cells:
    """Draw each missing cell from the density of its column alone (line 4 of Algorithm 1 in Fernandez et al. 2008).

    Parameters
    ----------
    alone : Completion
        Of a network without arcs.
    skip : names of columns to leave as they are
    """
    cells = {}
    for name, missing in find_holes(table).items():
        if name in skip:
            continue
        rows = np.flatnonzero(missing)
        level = levels(0, rows)[name]
        column = np.array(table.column(name))
        column[rows] = alone.translate_to_table(table, name, alone.network.potential(name).ppf(level, {}), level)
        cells[name] = column
    return cells


def fill_at_random(rows: Filled, marginals: Network, rng: np.random.Generator) -> Filled:
    """Return rows with each hole filled from the density of its column alone.

    Examples
    --------
    >>> import hybridbn as hb
    >>> marginals = hb.Network([hb.LinearGaussian(hb.Continuous("x"), intercept=5, variance=1e-12)])
    >>> fill_at_random(Table({"x": [1.0, None]}), marginals, np.random.default_rng(0)).column("x").round(3)
    array([1., 5.])
    """
    alone = Completion.of(marginals, rows.sample(), Options())
    return rows.fill_holes(partial(_fill_alone, alone, RowLevels.draw(rng, rows)))


def _fill_alone(alone: Completion, levels: RowLevels, batch: Table, first: int) -> Cells:
    return draw_alone(batch, alone, levels.of(batch, first))
