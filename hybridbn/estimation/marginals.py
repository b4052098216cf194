"""What is learned of a table with holes before any hole is filled: the density of each column alone."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import networkx as nx

from hybridbn.fitting.choice import Potentials
from hybridbn.fitting.network import fit
from hybridbn.network import Network
from hybridbn.tables import Table
from hybridbn.variables import Continuous, Discrete, Variable

__all__ = ["marginals", "read_for"]


def marginals(table: Table, build: Any = None, potentials: Potentials | None = None) -> Network:
    """Learn a density of each column of a table alone from its observed values: lines 1 to 3 of Algorithm 1 in Fernandez et al.

    The families are the potentials where they are given, else those of a network, else what a partial of a builder asks for.

    Examples
    --------
    >>> table = Table({"x": [1.0, None, 3.0], "c": ["a", "b", None]})
    >>> [marginals(table, potentials="gaussian").potential(name) for name in ("x", "c")]
    [<LinearGaussian x: N(2, 1)>, <Multinomial c: 2>]
    """
    if potentials is None and isinstance(build, nx.Graph):
        bare = Network(build)
        bare.remove_edges_from(list(bare.edges))
        bare.remove_nodes_from([name for name in build if name not in table])
        return fit(bare, table)
    while potentials is None and isinstance(build, partial):
        potentials = build.keywords.get("potentials")
        build = build.func
    if isinstance(potentials, Mapping):
        potentials = {name: spec for name, spec in potentials.items() if name in table}
    return fit([], table, "auto" if potentials is None else potentials)


def read_for(data: Any, weights: Any, build: Any) -> Table:
    """Return the data as a table, read against the variables of a network where one is given.

    Discretized variables are left out of that, so that the table keeps the numbers.
    """
    table = data if isinstance(data, Table) and weights is None else Table(data, weights=weights)
    known: dict[str, Variable] = {}
    if isinstance(build, nx.Graph):
        known = {
            name: variable
            for name, attributes in build.nodes.items()
            if isinstance(variable := attributes.get("variable"), Discrete | Continuous)
            and not (isinstance(variable, Discrete) and variable.cuts and name in table and not table.is_discrete(name))
        }
    if not any(name in known for name in table.names):
        return table
    return Table(data, weights=weights, variables=[known.get(name) or table.variable(name) for name in table.names])
