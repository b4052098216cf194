"""`Network`: a directed graph of networkx whose nodes carry a variable and a potential."""

from __future__ import annotations

import os
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, TypeVar, Unpack, overload

import networkx as nx

from hybridbn.errors import NetworkError
from hybridbn.network_description import (
    as_line,
    as_text,
    check_graph_data,
    check_new_names,
    check_new_potential,
    collect_potentials,
    describe_cycles,
    describe_stale_names,
    describe_unknown_node,
    is_arc_text,
    list_graph_data,
    parse_arcs,
    raise_faults,
)
from hybridbn.options import OptionKeywords, Options, PrecisionKeywords, ViewKeywords, list_items, resolve_options
from hybridbn.potentials.base import Potential
from hybridbn.variables import Variable

if TYPE_CHECKING:
    import pandas

    from hybridbn.inference.explanations import Explanation, Sensitivity
    from hybridbn.inference.posteriors import ContinuousPosterior, DiscretePosterior, JointPosterior
    from hybridbn.structures.directed_graph import DirectedGraph  # a stub, as networkx tells no types
else:
    DirectedGraph = nx.DiGraph

Frame = TypeVar("Frame")
"""A table of evidence; methods return a frame of the same kind."""


class Network(DirectedGraph):
    """A Bayesian network: a `networkx.DiGraph` whose nodes carry `variable` and `potential`.

    A network has no state besides these two node attributes, so `copy`, `subgraph`, `networkx.compose`, pickling and
    every algorithm of networkx keep it whole. Nodes are the variables' names. Changes made with networkx's own methods
    are not checked at once; `check` raises an error where the graph is no Bayesian network any more.

    Evidence is a mapping (one case) or a table with one case per row (a DataFrame or a `Table`). A value is a state or
    a number, an `Interval`, a set of states, a likelihood (mapping of states to numbers, or a function of a continuous
    variable), or None or NaN for unknown. `options=` sets the accuracy of answers and the memory that they may use, see
    `Options`; its attributes are keywords as well.

    Parameters
    ----------
    incoming_graph_data : iterable of Potential, directed graph, iterable of arcs or text, optional
        Potentials may come in any order; the arcs follow from their parents. A directed graph of networkx keeps its
        attributes, so one that carries `variable` and `potential` becomes a network again. Arcs ``(from, to)``, or a
        text such as ``"age -> disease <- sex"``, make a structure without potentials, which `hybridbn.fit` gives it.
    **attr
        Attributes of the graph, as in networkx.

    Examples
    --------
    >>> import hybridbn as hb
    >>> rain = hb.Discrete("rain", states=("no", "yes"))
    >>> wet = hb.Discrete("wet", states=("no", "yes"))
    >>> net = Network([
    ...     hb.Multinomial(wet, parents=(rain,), table=[[0.9, 0.1], [0.2, 0.8]]),
    ...     hb.Multinomial(rain, table=[0.7, 0.3]),
    ... ])
    >>> list(net.edges), [potential.child.name for potential in net.potentials]
    ([('rain', 'wet')], ['rain', 'wet'])
    >>> print(net)
    Network: 2 nodes (2 discrete), 1 arc
      wet: discrete with states 'no', 'yes'; Multinomial; from 'rain'
      rain: discrete with states 'no', 'yes'; Multinomial
    """

    def __init__(self, incoming_graph_data: Any = None, **attr: Any) -> None:
        data = incoming_graph_data
        is_graph = check_graph_data(data)
        if data is None or is_graph:
            super().__init__(data, **attr)
            return
        super().__init__(**attr)
        if isinstance(data, str) and is_arc_text(data):
            nodes, data = parse_arcs(data)
            self.add_nodes_from(nodes)
        items = list_graph_data(data)
        if items and all(isinstance(item, tuple) for item in items):
            try:
                self.add_edges_from(items)
            except (TypeError, ValueError, nx.NetworkXError) as error:
                raise NetworkError(f"arcs must be pairs (from, to) of names: {error}") from None
        else:
            self._add_all(items)

    def to_directed_class(self) -> type[Network]:
        """Return the class that networkx makes directed copies with."""
        return Network

    # -- building -------------------------------------------------------------------------------------------------

    def add(self, potential: Potential) -> None:
        """Add a potential and its arcs; a node that exists gets this potential and these incoming arcs instead of its
        own.

        Parents that are not nodes yet become nodes without a potential. An arc that closes a cycle and variables that
        differ from those of the other potentials raise `NetworkError`, and the network stays as it was.

        Examples
        --------
        >>> import hybridbn as hb
        >>> x, y = hb.Continuous("x"), hb.Continuous("y")
        >>> net = Network()
        >>> net.add(hb.LinearGaussian(y, parents=(x,), intercept=0.0, coefficients=[2.0], variance=1.0))
        >>> net.add(hb.LinearGaussian(x, intercept=0.0, coefficients=[], variance=1.0))
        >>> list(net.edges), net.check()
        ([('x', 'y')], None)
        """
        child = check_new_potential(self, potential).child
        if child.name in self:
            self.remove_edges_from(list(self.in_edges(child.name)))
        for parent in potential.parents:
            if parent.name not in self or self.nodes[parent.name].get("variable") is None:
                self.add_node(parent.name, variable=parent)
        self.add_node(child.name, variable=child, potential=potential)
        self.add_edges_from((parent.name, child.name) for parent in potential.parents)

    def _add_all(self, potentials: list[Any]) -> None:
        by_name, variables = collect_potentials(potentials)
        self.add_nodes_from((name, {"variable": variable}) for name, variable in variables.items())
        for name, potential in by_name.items():
            self.nodes[name]["potential"] = potential
        self.add_edges_from((parent.name, name) for name, potential in by_name.items() for parent in potential.parents)
        for fault in describe_cycles(self):
            raise NetworkError(fault)

    def rename(self, names: Mapping[str, str]) -> Network:
        """Return a new network with nodes, variables and potentials renamed; names that are not mentioned stay.

        `networkx.relabel_nodes` renames the nodes only and leaves the names inside the potentials stale.

        Examples
        --------
        >>> import hybridbn as hb
        >>> net = Network([hb.Multinomial(hb.Discrete("c", states=("a", "b")), table=[0.5, 0.5])])
        >>> net.rename({"c": "class"}).potential("class").scope
        ('class',)
        """
        for old in check_new_names(names, self):
            self._attributes(old)
        renamed: Network = nx.relabel_nodes(self, dict(names), copy=True)
        for attributes in renamed.nodes.values():
            variable, potential = attributes.get("variable"), attributes.get("potential")
            if variable is not None:
                attributes["variable"] = replace(variable, name=names.get(variable.name, variable.name))
            if potential is not None and not names.keys().isdisjoint(potential.scope):
                attributes["potential"] = potential.renamed(names)
        if "factors" in renamed.graph:
            findings = renamed.graph.get("evidence", {})
            renamed.graph.update(
                factors=tuple(names.get(name, name) for name in renamed.graph["factors"]),
                evidence={names.get(name, name): state for name, state in findings.items()},
            )
        return renamed

    # -- reading --------------------------------------------------------------------------------------------------

    def variable(self, name: str) -> Variable:
        """Return the variable of a node.

        Examples
        --------
        >>> import hybridbn as hb
        >>> net = Network([hb.Multinomial(hb.Discrete("season", states=("wet", "dry")), table=[0.4, 0.6])])
        >>> net.variable("season").states
        ('wet', 'dry')
        >>> net.variable("seson")
        Traceback (most recent call last):
            ...
        hybridbn.errors.NetworkError: the network has no node 'seson'; did you mean 'season'?
        """
        variable: Variable | None = self._attributes(name).get("variable")
        if variable is None:
            raise NetworkError(f"node {name!r} has no variable; add a potential for it with net.add")
        if variable.name != name:
            raise NetworkError(describe_stale_names(self))
        return variable

    def potential(self, name: str) -> Potential:
        """Return the potential of a node: the conditional density of its variable given its parents.

        Examples
        --------
        >>> import hybridbn as hb
        >>> net = Network([hb.Multinomial(hb.Discrete("c", states=("a", "b")), table=[0.4, 0.6])])
        >>> net.potential("c")(c="b")
        0.6
        """
        potential: Potential | None = self._attributes(name).get("potential")
        if potential is None:
            raise NetworkError(f"node {name!r} has no potential; add one with net.add")
        if potential.child.name != name:
            raise NetworkError(describe_stale_names(self))
        return potential

    @property
    def variables(self) -> tuple[Variable, ...]:
        """The variables in the order of the nodes."""
        return tuple(self.variable(node) for node in self)

    @property
    def potentials(self) -> tuple[Potential, ...]:
        """The potentials in topological order: parents before children."""
        try:
            return tuple(self.potential(node) for node in nx.topological_sort(self))
        except nx.NetworkXUnfeasible:
            raise NetworkError("; ".join(describe_cycles(self))) from None

    def _attributes(self, name: Hashable) -> dict[str, Any]:
        if not isinstance(name, Hashable) or name not in self:
            raise NetworkError(describe_unknown_node(name, self))
        return self.nodes[name]  # type: ignore[no-any-return]

    def check(self) -> None:
        """Raise `NetworkError` where the graph is no Bayesian network, naming every fault at once.

        Faults are cycles, nodes without variable or potential, potentials whose variables are not the node and its
        parents, and variables that differ between a node and the potentials that mention it.

        Examples
        --------
        >>> import hybridbn as hb
        >>> net = Network([hb.Multinomial(hb.Discrete("c", states=("a", "b")), table=[0.4, 0.6])])
        >>> net.add_edge("c", "x")
        >>> net.check()
        Traceback (most recent call last):
            ...
        hybridbn.errors.NetworkError: node 'x' has no variable and no potential; add one with net.add
        """
        raise_faults(self)

    # -- structure ------------------------------------------------------------------------------------------------

    def markov_blanket(self, name: str) -> set[str]:
        """Return a node's parents, children and the other parents of its children.

        Given their values, the node is independent of all other nodes.

        Examples
        --------
        >>> sorted(Network([("a", "b"), ("b", "c"), ("d", "c"), ("c", "e")]).markov_blanket("b"))
        ['a', 'c', 'd']
        """
        self._attributes(name)
        children = set(self.successors(name))
        return children.union(self.predecessors(name), *map(self.predecessors, children)) - {name}

    def d_separated(self, x: str | Iterable[str], y: str | Iterable[str], given: str | Iterable[str] = ()) -> bool:
        """Return whether the structure alone makes `x` and `y` independent given the nodes of `given`.

        Examples
        --------
        >>> net = Network([("rain", "wet"), ("sprinkler", "wet")])
        >>> net.d_separated("rain", "sprinkler"), net.d_separated("rain", "sprinkler", given="wet")
        (True, False)
        """
        sets = [dict.fromkeys(list_items(names, "the nodes of d-separation")).keys() for names in (x, y, given)]
        for node in set().union(*sets):
            self._attributes(node)
        try:
            return bool(nx.is_d_separator(self, *sets))
        except nx.NetworkXError as error:
            raise NetworkError(f"d-separation of {x!r} and {y!r} given {given!r}: {error}") from None

    def moral_graph(self) -> nx.Graph[str]:
        """Return the undirected graph in which parents of a common child are joined; names only.

        Examples
        --------
        >>> sorted(map(sorted, Network([("rain", "wet"), ("sprinkler", "wet")]).moral_graph().edges))
        [['rain', 'sprinkler'], ['rain', 'wet'], ['sprinkler', 'wet']]
        """
        # networkx makes deep copies of all attributes, and would duplicate every table.
        return nx.moral_graph(nx.DiGraph(nx.to_dict_of_lists(self)))

    def do(self, settings: Mapping[str, Any] | None = None, /, **named: Any) -> Network:
        """Return the network after an intervention: variables are set, whatever their parents are.

        The network is taken as causal. The arcs into the variables are cut; what is known of their children tells
        nothing about their parents any more.

        Parameters
        ----------
        settings : mapping, optional
            For names that are no identifiers; others are keywords. A variable is set to a value, to a distribution (a
            potential without parents), or by a policy: a potential whose parents are what it looks at.

        Examples
        --------
        >>> import hybridbn as hb
        >>> ill, drug = hb.Discrete("ill", states=("no", "yes")), hb.Discrete("drug", states=("no", "yes"))
        >>> net = hb.Network([
        ...     hb.Multinomial(ill, table=[0.8, 0.2]),
        ...     hb.Multinomial(drug, parents=(ill,), table=[[0.9, 0.1], [0.2, 0.8]]),
        ... ])
        >>> net.posterior("ill", {"drug": "yes"})
        <posterior of 'ill': 'no': 0.3333, 'yes': 0.6667>
        >>> net.do(drug="yes").posterior("ill")
        <posterior of 'ill': 'no': 0.8, 'yes': 0.2>
        """
        from hybridbn.inference.interventions import intervene

        return intervene(self, settings, **named)

    # -- queries --------------------------------------------------------------------------------------------------

    @overload
    def posterior(  # type: ignore[overload-overlap]  # a name is a sequence of letters
        self, target: str, evidence: Any = None, *, options: Options | None = None, **keywords: Unpack[OptionKeywords]
    ) -> DiscretePosterior | ContinuousPosterior: ...
    @overload
    def posterior(
        self,
        target: Sequence[str],
        evidence: Any = None,
        *,
        options: Options | None = None,
        **keywords: Unpack[OptionKeywords],
    ) -> JointPosterior: ...
    def posterior(
        self,
        target: str | Sequence[str],
        evidence: Any = None,
        *,
        options: Options | None = None,
        **keywords: Unpack[OptionKeywords],
    ) -> Any:
        """Return the posterior of one variable, or the joint posterior of several.

        Parameters
        ----------
        target : name, or sequence of names for a joint posterior
        evidence : mapping or table, optional

        Examples
        --------
        >>> import hybridbn as hb
        >>> sick, fever = hb.Discrete("sick", states=("no", "yes")), hb.Continuous("fever")
        >>> net = hb.Network([
        ...     hb.Multinomial(sick, table=[0.9, 0.1]),
        ...     hb.LinearGaussian(fever, parents=(sick,), intercept=[36.8, 38.5], variance=[0.1, 0.5]),
        ... ])
        >>> net.posterior("sick", {"fever": 38.0})
        <posterior of 'sick': 'no': 0.01893, 'yes': 0.9811>
        >>> round(net.posterior("sick", {"fever": hb.Interval(37.5)})["yes"], 4)
        0.884
        >>> net.posterior("sick", hb.Table({"fever": [36.5, None, 39.0]}))["yes"].round(3)
        array([0.001, 0.1  , 1.   ])
        """
        from hybridbn.inference.queries import posterior

        return posterior(self, target, evidence, resolve_options("posterior", options, keywords))

    def posteriors(
        self,
        evidence: Any = None,
        targets: Sequence[str] | None = None,
        *,
        options: Options | None = None,
        **keywords: Unpack[OptionKeywords],
    ) -> dict[str, DiscretePosterior | ContinuousPosterior]:
        """Return the posteriors of several variables in one pass; by default of all that are hidden in some row."""
        from hybridbn.inference.queries import posteriors

        return posteriors(self, evidence, targets, resolve_options("posteriors", options, keywords))

    def log_evidence(
        self, evidence: Any = None, *, options: Options | None = None, **keywords: Unpack[PrecisionKeywords]
    ) -> Any:
        """Return the logarithm of the probability (density) of the evidence; -inf where it is impossible.

        Examples
        --------
        >>> import hybridbn as hb
        >>> net = hb.Network([hb.LinearGaussian(hb.Continuous("x"), intercept=0, variance=1)])
        >>> round(net.log_evidence({"x": hb.Interval(0, 1)}), 6), net.log_evidence({})
        (-1.074862, 0.0)
        """
        from hybridbn.inference.queries import log_evidence

        return log_evidence(self, evidence, resolve_options("log_evidence", options, keywords, impossible="nan"))

    def log_density(self, table: Any, *, options: Options | None = None, **keywords: Unpack[PrecisionKeywords]) -> Any:
        """Return the log density of every row, missing cells marginalized."""
        return self.log_evidence(table, options=resolve_options("log_density", options, keywords, impossible="nan"))

    @overload
    def most_probable(
        self,
        evidence: Mapping[str, Any] | None = None,
        names: Sequence[str] | None = None,
        *,
        options: Options | None = None,
        **keywords: Unpack[PrecisionKeywords],
    ) -> dict[str, Any]: ...
    @overload
    def most_probable(
        self,
        evidence: Frame,
        names: Sequence[str] | None = None,
        *,
        options: Options | None = None,
        **keywords: Unpack[PrecisionKeywords],
    ) -> Frame: ...
    @overload
    def most_probable(
        self,
        evidence: Any = None,
        names: Any = None,
        *,
        return_bounds: Literal[True],
        options: Options | None = None,
        **keywords: Unpack[PrecisionKeywords],
    ) -> tuple[Any, tuple[Any, Any]]: ...
    def most_probable(
        self,
        evidence: Any = None,
        names: Sequence[str] | None = None,
        *,
        return_bounds: bool = False,
        options: Options | None = None,
        **keywords: Unpack[PrecisionKeywords],
    ) -> Any:
        """Return the most probable values of all hidden variables together, or of some with the others summed out.

        A mapping of evidence gives a dict, a table a frame of the same kind (pandas, polars, arrow, `Table`). It is
        exact for discrete and linear Gaussian networks, the result of a mode search that begins at the posterior's mass
        where other continuous variables are hidden, and with ``beyond="bound"`` the best that is found in `seconds`. A
        row of probability zero raises `ImpossibleEvidence`.

        With `return_bounds` there are limits of the largest log probability beside the answer: the lower one is that of
        the answer, the upper one is the same where that is exact, and infinite after a mode search.

        Examples
        --------
        >>> import hybridbn as hb
        >>> a, b = hb.Discrete("a", states=(0, 1)), hb.Discrete("b", states=(0, 1))
        >>> p = hb.Multinomial(b, parents=(a,), table=[[0.5, 0.5], [0.1, 0.9]])
        >>> net = hb.Network([hb.Multinomial(a, table=[0.6, 0.4]), p])
        >>> net.most_probable(), net.most_probable(names=["a"]), net.most_probable({"a": 0, "b": 0}, return_bounds=True)
        ({'a': 1, 'b': 1}, {'a': 0}, ({}, (-1.2039728043259361, -1.2039728043259361)))
        """
        from hybridbn.inference.most_probable import most_probable

        chosen = resolve_options("most_probable", options, keywords, impossible="raise")
        return most_probable(self, evidence, names, chosen, return_bounds=return_bounds)

    @overload
    def sample(
        self,
        n: int = 1,
        random_state: Any = None,
        evidence: Mapping[str, Any] | None = None,
        *,
        options: Options | None = None,
        **keywords: Unpack[PrecisionKeywords],
    ) -> pandas.DataFrame: ...
    @overload
    def sample(
        self,
        n: int = 1,
        random_state: Any = None,
        *,
        evidence: Frame,
        options: Options | None = None,
        **keywords: Unpack[PrecisionKeywords],
    ) -> Frame: ...
    def sample(
        self,
        n: int = 1,
        random_state: Any = None,
        evidence: Any = None,
        *,
        options: Options | None = None,
        **keywords: Unpack[PrecisionKeywords],
    ) -> Any:
        """Draw rows from the network, exactly conditional on the evidence.

        A mapping of evidence gives a DataFrame of `n` rows, a table gives `n` rows for each of its own, in a frame of
        the same kind. Each row has random numbers of its own, so a larger sample begins with the rows of a smaller one.
        A row of evidence of probability zero raises `ImpossibleEvidence`.
        """
        from hybridbn.inference.sampling import sample

        return sample(self, n, random_state, evidence, resolve_options("sample", options, keywords, impossible="raise"))

    def explain(self, target: str, evidence: Mapping[str, Any], state: Any = None) -> Explanation:
        """Return the weight of evidence of each finding for a state, by default for the most probable one.

        Examples
        --------
        >>> import hybridbn as hb
        >>> sick = hb.Discrete("sick", states=("no", "yes"))
        >>> cough = hb.Discrete("cough", states=("no", "yes"))
        >>> net = hb.Network([
        ...     hb.Multinomial(sick, table=[0.9, 0.1]),
        ...     hb.Multinomial(cough, parents=(sick,), table=[[0.8, 0.2], [0.1, 0.9]]),
        ... ])
        >>> print(net.explain("sick", {"cough": "yes"}, state="yes"))
        log-odds of sick = 'yes' against the rest
          without evidence     -2.1972
          cough                +1.5041
          in all               -0.6931   probability 0.3333
        """
        from hybridbn.inference.explanations import explain

        return explain(self, target, evidence, state)

    def sensitivity(
        self,
        target: str,
        evidence: Mapping[str, Any] | None = None,
        *,
        options: Options | None = None,
        **keywords: Unpack[PrecisionKeywords],
    ) -> Sensitivity:
        """Return how a posterior depends on every parameter of every table: derivatives, ranges, a tornado picture."""
        from hybridbn.inference.explanations import analyze_sensitivity

        return analyze_sensitivity(
            self, target, evidence, resolve_options("sensitivity", options, keywords, impossible="raise")
        )

    def value_of_information(
        self,
        target: str,
        evidence: Mapping[str, Any] | None = None,
        costs: Mapping[str, float] | None = None,
        *,
        options: Options | None = None,
        **keywords: Unpack[PrecisionKeywords],
    ) -> pandas.DataFrame:
        """Return what observing each variable would tell about the target; see `rank_by_information`."""
        from hybridbn.inference.explanations import rank_by_information

        chosen = resolve_options("value_of_information", options, keywords, impossible="raise")
        return rank_by_information(self, target, evidence, costs, chosen)

    def plot(
        self,
        evidence: Mapping[str, Any] | None = None,
        ax: Any = None,
        *,
        size: float = 1.0,
        **view: Unpack[ViewKeywords],
    ) -> Any:
        """Draw the graph with belief bars and density curves in its nodes; see `hybridbn.pictures.plot_network`."""
        from hybridbn.pictures import plot_network

        return plot_network(self, evidence, ax, size, **view)

    def explore(self, evidence: Mapping[str, Any] | None = None, data: Any = None) -> Any:
        """Return a widget for notebooks in which beliefs follow findings; see `hybridbn.explorer.page`."""
        from hybridbn.explorer.page import make_widget

        return make_widget(self, evidence, data)

    # -- files and other libraries --------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the network to a file that `hybridbn.load` reads; results are bitwise the same afterwards.

        See `hybridbn.exchange.hbn.save` for what is saved and what is refused.

        Examples
        --------
        >>> import tempfile, hybridbn as hb
        >>> net = Network([hb.Multinomial(hb.Discrete("c", states=("a", "b")), table=[0.4, 0.6])])
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     net.save(f"{folder}/model.hbn")
        ...     hb.load(f"{folder}/model.hbn").potential("c")(c="a")
        0.4
        """
        from hybridbn.exchange.hbn import save

        save(self, path)

    def to_pgmpy(self, bins: Any = None) -> Any:
        """Return the network as a model of pgmpy; see `hybridbn.exchange.pgmpy.to_pgmpy`."""
        from hybridbn.exchange.pgmpy import to_pgmpy

        return to_pgmpy(self, bins=bins)

    def __repr__(self) -> str:
        return f"<{as_line(self)}>"

    def __str__(self) -> str:
        return as_text(self)

    def _repr_html_(self) -> str:
        from hybridbn.pictures.html import show_network

        return show_network(self)
