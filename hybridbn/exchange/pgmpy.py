"""Convert networks to models of pgmpy, and back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import networkx as nx
import numpy as np

from hybridbn.errors import HybridBNError, NetworkError
from hybridbn.exchange.bif import bif_properties_of
from hybridbn.exchange.discrete_networks import Bins, discretize, refuse_factors
from hybridbn.network import Network
from hybridbn.potentials import LinearGaussian, Multinomial
from hybridbn.potentials.base import Potential
from hybridbn.variables import Continuous, Discrete, shorten


def to_pgmpy(network: Network, bins: Bins | None = None) -> Any:
    """Return a network as a model of pgmpy.

    Parameters
    ----------
    network : Network
    bins : int, or mapping from each continuous variable to an int or to cut points, optional
        pgmpy has no networks of discrete and continuous variables, so such a network becomes a discrete one, and its
        bins must be declared. A number asks for that many bins of about equal probability; cut points are the
        boundaries between bins ``[low, high)``, the first and the last of which reach to the ends of the domain. A
        linear Gaussian network is binned too if this is given.

    Returns
    -------
    pgmpy.models.DiscreteBayesianNetwork
        If all variables are discrete (states keep their names and types), or `bins` is given. The states of a binned
        variable are named after the bins, and the model has an attribute ``binning``
        (`hybridbn.exchange.discrete_networks.Binning`: the cut points, and how far the binned model may be from the
        network).
    pgmpy.models.LinearGaussianBayesianNetwork
        If all variables are continuous and all potentials linear Gaussian. pgmpy takes standard deviations, the square
        roots of our variances.

    Raises
    ------
    NetworkError
        For a network of any other kind without `bins`; the message names the nodes.

    Examples
    --------
    >>> import hybridbn as hb
    >>> c, x = hb.Discrete("c", states=(0, 1)), hb.Continuous("x")
    >>> coin = hb.Multinomial(c, table=[0.25, 0.75])
    >>> to_pgmpy(hb.Network([coin])).get_cpds("c").state_names
    {'c': [0, 1]}
    >>> height = hb.LinearGaussian(x, parents=(c,), intercept=[0, 1], variance=[1, 1])
    >>> model = to_pgmpy(hb.Network([coin, height]), bins={"x": [0, 2]})
    >>> print(model.get_cpds("x").values.round(3))
    [[0.5   0.159]
     [0.477 0.683]
     [0.023 0.159]]
    """
    models, factors = _import_pgmpy()
    network.check()
    refuse_factors(network, "pgmpy")
    potentials: list[Potential] = [network.potential(name) for name in network]
    continuous = [p.child.name for p in potentials if isinstance(p.child, Continuous)]
    if not continuous:
        return _make_discrete(network, models, factors)
    if bins is not None:
        binned, binning = discretize(network, bins)
        model = _make_discrete(binned, models, factors)
        model.binning = binning
        return model
    regressions = [potential for potential in potentials if isinstance(potential, LinearGaussian)]
    if len(regressions) == len(potentials):
        return _make_gaussian(network, regressions, models, factors)
    if len(continuous) == len(potentials):
        other = [f"{p.child.name} ({type(p).__name__})" for p in potentials if p.as_regression() is None]
        obstacle = f"{', '.join(other[:8])} {'is' if len(other) == 1 else 'are'} not linear Gaussian"
    else:
        obstacle = (
            f"{shorten(continuous)} {'is' if len(continuous) == 1 else 'are'} continuous, other variables discrete"
        )
    raise NetworkError(
        f"pgmpy's networks are all discrete or all linear Gaussian, but {obstacle}; "
        "declare bins to make a discrete model, for example net.to_pgmpy(bins=10)"
    )


def from_pgmpy(model: Any, *, normalize: bool = False) -> Network:
    """Return a model of pgmpy as a network.

    Parameters
    ----------
    model : pgmpy.models.DiscreteBayesianNetwork or pgmpy.models.LinearGaussianBayesianNetwork
        With a CPD for every node. Names of nodes must be text; states may be anything, and keep their types.
    normalize : bool, optional
        pgmpy accepts probabilities that sum to 1 within 0.01, `Multinomial` within 1e-6. With True each
        distribution is divided by its sum.

    Returns
    -------
    Network

    Raises
    ------
    NetworkError
        If the model is of another class, or not complete and consistent; the message names the node.

    Examples
    --------
    >>> from pgmpy.factors.continuous import LinearGaussianCPD
    >>> from pgmpy.models import LinearGaussianBayesianNetwork
    >>> model = LinearGaussianBayesianNetwork([("x", "y")])
    >>> model.add_cpds(LinearGaussianCPD("x", [1], 2), LinearGaussianCPD("y", [0.5, 3], 1, ["x"]))
    >>> from_pgmpy(model).potential("y")
    <LinearGaussian y | x: N(0.5 + 3 x, 1)>
    """
    models, _ = _import_pgmpy()
    if not isinstance(model, models.DiscreteBayesianNetwork | models.LinearGaussianBayesianNetwork):
        raise NetworkError(
            "expected a DiscreteBayesianNetwork or LinearGaussianBayesianNetwork of pgmpy, not a"
            f" {type(model).__name__}"
        )
    cpds = _collect_cpds(model)
    if isinstance(model, models.LinearGaussianBayesianNetwork):
        variables = {name: Continuous(name) for name in cpds}
        return Network([_make_regression(cpd, variables) for cpd in cpds.values()])
    states = {name: _make_variable(model, cpd) for name, cpd in cpds.items()}
    return Network([_make_multinomial(cpd, states, normalize) for cpd in cpds.values()])


def _import_pgmpy() -> tuple[Any, Any]:
    """Return the modules of pgmpy, imported only here because that takes seconds."""
    try:
        import pgmpy.factors.continuous
        import pgmpy.factors.discrete
        import pgmpy.models
    except ImportError as error:
        raise HybridBNError(f"this needs pgmpy ({error}); install it with: pip install 'hybridbn[pgmpy]'") from error
    return pgmpy.models, pgmpy.factors


# -- to pgmpy ---------------------------------------------------------------------------------------------------------


def _add_structure(model: Any, network: Network) -> Any:
    """Add nodes and arcs; arcs in topological order, as pgmpy searches all descendants of a child for each new arc."""
    model.add_nodes_from(list(network))
    for name in nx.topological_sort(network):
        model.add_edges_from([(parent, name) for parent in network.potential(name).scope[:-1]])
    return model


def _make_discrete(network: Network, models: Any, factors: Any) -> Any:
    model = _add_structure(models.DiscreteBayesianNetwork(), network)
    for potential in map(network.potential, network):
        *parents, child = (v for v in potential.variables if isinstance(v, Discrete))
        model.add_cpds(
            factors.discrete.TabularCPD(
                child.name,
                len(child),
                np.moveaxis(np.asarray(potential.probabilities()), -1, 0).reshape(len(child), -1),
                evidence=[parent.name for parent in parents] or None,
                evidence_card=[len(parent) for parent in parents] or None,
                state_names={variable.name: list(variable.states) for variable in (child, *parents)},
            )
        )
        # pgmpy writes the attributes of nodes into BIF files, from where read_network takes types and cuts again.
        model.nodes[child.name].update(bif_properties_of(child))
    return model


def _make_gaussian(network: Network, regressions: Sequence[LinearGaussian], models: Any, factors: Any) -> Any:
    model = _add_structure(models.LinearGaussianBayesianNetwork(), network)
    for regression in regressions:
        model.add_cpds(
            factors.continuous.LinearGaussianCPD(
                regression.child.name,
                beta=[float(regression.intercept), *map(float, regression.coefficients)],
                std=float(np.sqrt(regression.variance)),
                evidence=list(regression.scope[:-1]),
            )
        )
    return model


# -- from pgmpy -------------------------------------------------------------------------------------------------------


def _collect_cpds(model: Any) -> dict[str, Any]:
    """Return the CPD of every node, refusing those that don't belong to the graph."""
    names = [node for node in model.nodes if not isinstance(node, str)]
    if names:
        raise NetworkError(
            f"names of variables must be text, but the model has the nodes {shorten(names)}; rename them"
        )
    cpds: dict[str, Any] = {}
    for cpd in model.cpds:
        if cpd.variable not in model.nodes:
            raise NetworkError(f"the model has a CPD for {cpd.variable!r}, which is not a node of its graph")
        if cpd.variable in cpds:
            raise NetworkError(f"{cpd.variable!r} has two CPDs; remove one with model.remove_cpds")
        cpds[cpd.variable] = cpd
    missing = [node for node in model.nodes if node not in cpds]
    if missing:
        raise NetworkError(f"no CPD for {shorten(missing)}; pgmpy's subgraph() and networkx's functions lose them")
    for name, cpd in cpds.items():
        evidence, parents = list(cpd.variables[1:]), list(model.predecessors(name))
        if len(evidence) != len(parents) or set(evidence) != set(parents):
            raise NetworkError(
                f"the CPD of {name!r} is given {shorten(evidence) or 'nothing'}, "
                f"but its parents in the graph are {shorten(parents) or 'none'}"
            )
    return {node: cpds[node] for node in model.nodes}


def _make_variable(model: Any, cpd: Any) -> Discrete:
    """Return the variable of a node; cut points travel as the node's attribute."""
    if not hasattr(cpd, "state_names"):
        raise NetworkError(f"{cpd.variable!r} has a {type(cpd).__name__}; expected a table (TabularCPD)")
    states = tuple(cpd.state_names[cpd.variable])
    text = model.nodes[cpd.variable].get("hybridbn_cuts")
    try:
        cuts = None if text is None else tuple(map(float, text.strip('"').split()))
        return Discrete(cpd.variable, states, cuts)
    except (ValueError, AttributeError) as error:
        raise NetworkError(
            f"{cpd.variable!r}: its states or its cuts ({text!r}) don't make a variable: {error}"
        ) from None


def _make_multinomial(cpd: Any, variables: Mapping[str, Discrete], normalize: bool) -> Multinomial:
    child, *parents = (variables[name] for name in cpd.variables)
    for variable in parents:
        if tuple(cpd.state_names[variable.name]) != variable.states:
            raise NetworkError(
                f"the CPD of {child.name!r} has the states {shorten(cpd.state_names[variable.name])} for its parent "
                f"{variable.name!r}, whose own are {shorten(variable.states)}; give both the same, in the same order"
            )
    # pgmpy keeps one dimension a variable, the child first.
    table = np.moveaxis(np.asarray(cpd.values, dtype=np.float64), 0, -1)
    return Multinomial(child, parents=parents, table=table, normalize=normalize)


def _make_regression(cpd: Any, variables: Mapping[str, Continuous]) -> LinearGaussian:
    name, evidence = cpd.variable, list(cpd.evidence)
    try:
        beta, std = np.asarray(cpd.beta, dtype=np.float64), float(cpd.std)
    except (TypeError, ValueError):
        raise NetworkError(f"{name!r}: beta and std must be numbers, not {cpd.beta!r} and {cpd.std!r}") from None
    if beta.shape != (len(evidence) + 1,):
        raise NetworkError(
            f"{name!r}: beta must hold the intercept and a coefficient for each of {len(evidence)} parents, "
            f"but has the shape {beta.shape}"
        )
    if not (std > 0 and std**2 > 0 and np.isfinite(std**2)):
        raise NetworkError(f"{name!r}: the standard deviation must be positive and finite, not {std!r}")
    return LinearGaussian(
        variables[name],
        parents=[variables[parent] for parent in evidence],
        intercept=beta[0],
        coefficients=beta[1:],
        variance=std**2,
    )
