"""What users give as `build=`: a builder, a network, arcs or nothing, turned into a function from tables to networks.

Builders live in a higher layer (`hybridbn.structures`), so they are known here as callables only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, TypeAlias

import networkx as nx

from hybridbn.errors import NetworkError
from hybridbn.fitting.choice import Potentials, roles
from hybridbn.fitting.network import fit
from hybridbn.network import Network
from hybridbn.tables import Table
from hybridbn.variables import Continuous, Discrete, Variable

__all__ = ["Learner", "learner_of", "marginals", "read_for"]

Learner: TypeAlias = Callable[[Table], Network]


def learner_of(build: Any, target: str, potentials: Potentials | None = None) -> Learner:
    """Return the function that learns a network from a complete table.

    Parameters
    ----------
    build : builder, partial of one, Network, list of arcs, or None
        A builder is called with the table, the target and, where they are given, the potentials. A network keeps its
        arcs, and its families unless potentials are given. None is naive Bayes.
    target : str
    potentials : as in `hybridbn.fit`, optional

    Examples
    --------
    >>> table = Table({"x": [1.0, 2.0, 4.0], "y": [1.0, 3.0, 3.5], "z": [0.0, 1.0, 3.0]})
    >>> [list(learner_of(build, "y", "gaussian")(table).edges) for build in (None, [("x", "y")])]
    [[('y', 'x'), ('y', 'z')], [('x', 'y')]]
    """
    if build is None:
        return partial(_naive_bayes, target=target, potentials="auto" if potentials is None else potentials)
    if isinstance(build, nx.Graph) or not callable(build):
        structure = build if isinstance(build, nx.Graph) else _listed(build)
        return partial(fit, structure, potentials="auto" if potentials is None else potentials)
    options: dict[str, Any] = {} if potentials is None else {"potentials": potentials}

    def built(table: Table) -> Network:
        network = build(table, target, **options)
        if not isinstance(network, Network):
            raise NetworkError(f"build(data, {target!r}) must return a Network, not {network!r:.80}")
        if target not in network:
            raise NetworkError(
                f"build(data, {target!r}) returned a network without the target; it has {list(network)!r}"
            )
        return network

    return built


def _listed(build: Any) -> list[Any]:
    try:
        return list(build)
    except TypeError:
        raise NetworkError(
            f"build must be a builder such as hybridbn.structures.tan, a Network or a list of arcs, not {build!r:.80}"
        ) from None


def _naive_bayes(table: Table, target: str, potentials: Potentials) -> Network:
    """Fit an arc from the target to each other column, the target guiding the discretization if one is asked for."""
    found = roles(table, target, potentials)
    read = Table(table, variables=[role.variable for role in found.values()])
    arcs = [(target, name) for name in found if name != target]
    return fit(arcs, read, {name: role.fitter for name, role in found.items()})


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
