"""What users give as `build=`: a builder, a network, arcs or nothing, turned into a function from tables to networks."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, TypeAlias

import networkx as nx

from hybridbn.errors import NetworkError
from hybridbn.estimation.available_cases import fit_available
from hybridbn.fitting.choice import Potentials, roles
from hybridbn.network import Network
from hybridbn.tables import Table

__all__ = ["Learner", "learner_of"]

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
        return partial(fit_available, structure, potentials="auto" if potentials is None else potentials)
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
    return fit_available(arcs, read, {name: role.fitter for name, role in found.items()})
