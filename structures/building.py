"""The registry of builders with their declarations, and the meaning of `build=`: a builder, its name, or a fixed
structure. Structural EM lets any of them learn from a table with holes.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial, wraps
from inspect import signature
from typing import Any, Literal, NamedTuple, ParamSpec, Protocol, Self, TypeAlias, TypeVar, Unpack, overload

import networkx as nx
import numpy as np
from numpy.typing import NDArray

from hybridbn.errors import NetworkError, TableError
from hybridbn.estimation.available_cases import (
    draw_alone,
    fill_at_random,
    fit_available,
    fit_marginals,
    list_arcs,
    read_as_declared,
    structure_of,
)
from hybridbn.estimation.completion import Completion, RowLevels, fill_table, find_holes
from hybridbn.estimation.em import expectation_maximization, is_exact, log_likelihood
from hybridbn.fitting.base import Potentials
from hybridbn.fitting.cross_validation import collapse_rows
from hybridbn.jobs import track_items
from hybridbn.network import Network
from hybridbn.network_description import is_arc_text
from hybridbn.options import ColumnKeywords, Options, check_count, make_generator
from hybridbn.registry import Registry
from hybridbn.tables import Rows, Table, declare_rows
from hybridbn.variables import Continuous, Discrete, Values, Variable, find_unused_name, hint_at_names, shorten

Function = TypeVar("Function", bound=Callable[..., Any])
Parameters = ParamSpec("Parameters")

BuilderName: TypeAlias = Literal[
    "auto",
    "automatic",
    "chow_liu",
    "class_clusters",
    "discriminant",
    "hill_climb",
    "kdb",
    "logistic",
    "max_min_hill_climb",
    "mixture",
    "model_tree",
    "naive_bayes",
    "nb_tree",
    "pc_stable",
    "random_forest",
    "regression",
    "selective_naive_bayes",
    "tan",
]
"""The names of the library's own builders."""


class Digraph(Protocol):
    """A directed graph of networkx, such as a Network."""

    def predecessors(self, n: Any, /) -> Iterable[Any]:
        """Return the parents of a node."""


Structure: TypeAlias = "BuilderName | Callable[..., Any] | Digraph | Iterable[tuple[str, str]]"
"""A builder, a partial of one or its name; or a structure that is kept: a Network, any directed graph, a list of arcs.

Where types are checked, a builder of one's own is given itself, not by its name, and arcs in a text as a Network.
"""

Learner: TypeAlias = Callable[[Table], Network]
"""A function that learns a network from a table."""

Arcs: TypeAlias = Callable[[str, Sequence[str]], Mapping[str, tuple[str, ...]]]
"""A function of the target and all columns that returns the parents of each column."""


HeldOut: TypeAlias = Callable[[NDArray[np.intp]], Any]
"""A function of some rows of a table that returns the posterior of the target in them, NaN in those without a
prediction, by networks that were learned without them.
"""


class Built(NamedTuple):
    """What a builder learns from a table.

    Attributes
    ----------
    network : Network
        Learned from all rows.
    held_out : HeldOut, optional
        What networks learned without a row predict for it, of builders that get that at little cost. Comparisons need
        no folds then.
    """

    network: Network
    held_out: HeldOut | None = None


@dataclass(frozen=True)
class Declaration:
    """The arguments that a builder takes, and the networks that it returns.

    Attributes
    ----------
    takes_target : bool or kind of variable
        Whether it is called as ``build(data, target, potentials=...)`` or as ``build(data, potentials=...)``.
        `Discrete` or `Continuous` means the former, with a target of this kind only.
    hidden : tuple of kinds of variables
        The kinds of nodes that its networks may have in addition to the columns.
    arcs : callable, optional
        The parents of each column, as a function of the target and the columns, if they don't depend on the cells. Then
        only potentials are learned, and repeated learning (as in boosting) needs to count only once.
    takes_weights, takes_holes : bool
        Whether it takes weighted rows and missing cells. A builder that doesn't is not called with them.
    resampling : mapping
        Options for resampled tables, many of whose networks are averaged, so that each may be found with less effort.
    held_out : callable, optional
        The body of a builder that returns `Built`, with held-out predictions. The builder itself returns the network.
    """

    takes_target: bool | type[Discrete] | type[Continuous] = True
    hidden: tuple[type[Variable], ...] = ()
    arcs: Arcs | None = None
    takes_weights: bool = True
    takes_holes: bool = True
    resampling: Mapping[str, Any] = field(default_factory=dict)
    held_out: Callable[..., Built] | None = None


BUILDERS: Registry[Callable[..., Network]] = Registry(
    "builder", "hybridbn.structures", reserved=("auto",), error=NetworkError
)
"""Every builder by its name: those of this package and those that users have decorated."""


@overload
def builder(function: Function, /) -> Function: ...


@overload
def builder(
    *,
    takes_target: bool | type[Discrete] | type[Continuous] = True,
    hidden: tuple[type[Variable], ...] = (),
    arcs: Arcs | None = None,
    takes_weights: bool = True,
    takes_holes: bool = True,
    resampling: Mapping[str, Any] = ...,
) -> Callable[[Function], Function]: ...


@overload
def builder(
    *,
    held_out: Literal[True],
    takes_target: bool | type[Discrete] | type[Continuous] = True,
    hidden: tuple[type[Variable], ...] = (),
    takes_weights: bool = True,
    takes_holes: bool = True,
    resampling: Mapping[str, Any] = ...,
) -> Callable[[Callable[Parameters, Built]], Callable[Parameters, Network]]: ...


def builder(function: Any = None, /, *, held_out: bool = False, **declared: Any) -> Any:
    """Declare what a function that builds networks takes, and make its name known wherever `build=` is taken.

    The function itself is returned, or with `held_out` one that returns its network. A function without this decorator
    can be passed as `build=`, too; it is assumed to take a target, weights and missing cells.

    Parameters
    ----------
    takes_target, hidden, arcs, takes_weights, takes_holes, resampling : as in `Declaration`
    held_out : bool
        Whether the function returns `Built`: a network, with predictions of rows by networks learned without them.

    Examples
    --------
    >>> import hybridbn as hb
    >>> @builder(takes_target=False)
    ... def independent(data, potentials="auto", weights=None):
    ...     return hb.fit([], data, potentials, weights)
    >>> completed = hb.impute({"x": [1.0, None, 3.0]}, structure="independent", random_state=0)
    >>> del BUILDERS["independent"]
    >>> len(completed["x"])
    3
    """
    declaration = Declaration(**declared)
    if function is not None:
        return _declare(function, declaration)
    return partial(_declare_body if held_out else _declare, declaration=declaration)


def _declare_body(body: Callable[Parameters, Built], declaration: Declaration) -> Callable[Parameters, Network]:
    """Declare the builder that returns the network of what a function returns."""

    @wraps(body)
    def build(*args: Parameters.args, **options: Parameters.kwargs) -> Network:
        return body(*args, **options).network

    build.__signature__ = signature(body).replace(return_annotation="Network")  # type: ignore[attr-defined]
    return _declare(build, replace(declaration, held_out=body))


def _declare(function: Function, declaration: Declaration) -> Function:
    BUILDERS.register(function, function.__name__)
    function.declaration = declaration  # type: ignore[attr-defined]
    return function


def declaration_of(function: Any) -> Declaration:
    """Return the declaration of a builder or of a partial of one.

    Examples
    --------
    >>> from hybridbn.structures import chow_liu, tan
    >>> [declaration_of(function).takes_target for function in (tan, partial(chow_liu, root="a"), len)]
    [True, False, True]
    """
    declaration = getattr(_unwrap_partials(function)[0], "declaration", None)
    return declaration if isinstance(declaration, Declaration) else Declaration()


def _unwrap_partials(function: Any) -> tuple[Any, dict[str, Any]]:
    """Return the function of partials of partials, and the options that they fix."""
    keywords: dict[str, Any] = {}
    while isinstance(function, partial):
        keywords = function.keywords | keywords
        function = function.func
    return function, keywords


@dataclass(frozen=True)
class Build:
    """The meaning of an argument `build=`: a builder, or a structure that is kept.

    Attributes
    ----------
    function : callable, optional
        The builder, or a partial of one.
    structure : Network, optional
        Arcs that are kept, with the variables and families of their nodes.
    """

    function: Callable[..., Network] | None = None
    structure: Network | None = None

    @classmethod
    def of(cls, build: Any, what: str = "build") -> Self:
        """Interpret the argument that a user passed.

        Parameters
        ----------
        build : builder, partial of one, name of one, Network, other directed graph, arcs as list or text, or None
            "auto" is `automatic`, None is `naive_bayes`.
        what : str
            The name of the parameter in error messages.

        Examples
        --------
        >>> print(*map(Build.of, (None, "tan", "auto", [("y", "x")])), sep=", ")
        naive_bayes, tan, automatic, structure of 1 arc
        >>> Build.of("tann")
        Traceback (most recent call last):
            ...
        hybridbn.errors.NetworkError: build='tann' is not known; did you mean 'tan'?
        """
        if isinstance(build, cls):
            return build
        if build is None:
            build = "naive_bayes"
        if isinstance(build, str):
            if is_arc_text(build):
                return cls(structure=structure_of(build))
            return cls(_find_builder(build, what))
        if callable(build) and not isinstance(build, nx.Graph):
            return cls(build)
        arcs = build if isinstance(build, nx.Graph) else list_arcs(build)
        if arcs is None:
            raise NetworkError(
                f"{what} must be a builder such as hybridbn.structures.tan (the function, a partial of it or its name),"
                f" a Network or a list of arcs (from, to), not {build!r:.80}"
            )
        return cls(structure=structure_of(arcs))

    @property
    def declaration(self) -> Declaration:
        """The declaration of the builder."""
        return declaration_of(self.function)

    @property
    def potentials(self) -> Potentials | None:
        """The potentials that a partial of a builder fixes, if any."""
        return self.keywords.get("potentials")

    @property
    def keywords(self) -> dict[str, Any]:
        """The options that partials of a builder fix."""
        return _unwrap_partials(self.function)[1]

    @property
    def keeps_families(self) -> bool:
        """Whether it is a structure with potentials, whose families are kept."""
        return self.structure is not None and any(self.structure.nodes[n].get("potential") for n in self.structure)

    def read(
        self, data: Any, weights: Any = None, target: str | None = None, **columns: Unpack[ColumnKeywords]
    ) -> Rows:
        """Read the data with the variables of the structure; numbers that it cuts into intervals stay numbers.

        Columns that nothing can be learned from are left out, with a warning, unless they are the target or nodes of
        the structure.
        """
        kept = (target, *(() if self.structure is None else self.structure))
        rows, _ = declare_rows(data, weights, **columns).leave_alone(kept)
        return read_as_declared(rows, self.structure, keep_numbers=True)

    def fit_marginals(self, table: Rows, potentials: Potentials | None = None) -> Network:
        """Fit a density to each column alone, of these families or else of those of the structure or the partial."""
        return fit_marginals(table, self.structure, self.potentials if potentials is None else potentials)

    def drop(self, names: Sequence[str]) -> Build:
        """Return the same argument with a structure that lacks some columns."""
        if self.structure is None:
            return self
        remaining = Network(self.structure)
        remaining.remove_nodes_from(names)
        return replace(self, structure=remaining)

    def is_naive_bayes(self, target: str, names: Sequence[str]) -> bool:
        """Return whether, for any cells, each column but the target has the target as its only parent."""
        parents: Mapping[str, tuple[str, ...]] | None = None
        if self.structure is not None:
            if not any(self.structure.nodes[name] for name in self.structure):
                parents = {name: tuple(self.structure.predecessors(name)) for name in self.structure}
        elif self.declaration.arcs is not None:
            fixes_only_families = not getattr(self.function, "args", ()) and self.keywords.keys() <= {"potentials"}
            parents = self.declaration.arcs(target, names) if fixes_only_families else None
        return parents == {target: (), **{name: (target,) for name in names if name != target}}

    def learn(self, table: Rows, target: str | None = None, potentials: Potentials | None = None) -> Network:
        """Learn a network from a table.

        Parameters
        ----------
        table : Rows
        target : str, optional
            A node that the network must have. It is not passed to builders without a target.
        potentials : as in `hybridbn.fit`, optional
            By default the families of the structure, or the default of the builder.
        """
        return self.learn_held_out(table, target, potentials).network

    def learn_held_out(self, table: Rows, target: str | None = None, potentials: Potentials | None = None) -> Built:
        """Learn a network as `learn` does; return it with held-out predictions, if the builder has any."""
        if self.structure is not None:
            return Built(fit_available(self.structure, table, "auto" if potentials is None else potentials))
        assert self.function is not None
        self._refuse_table(table)
        declaration = self.declaration
        arguments = (target,) if declaration.takes_target else ()
        options: dict[str, Any] = {} if potentials is None else {"potentials": potentials}
        if declaration.held_out is None:
            network, held_out = self.function(table, *arguments, **options), None
        else:
            network, held_out = declaration.held_out(table, *arguments, **(self.keywords | options))
        if not isinstance(network, Network):
            raise NetworkError(f"the builder {self} must return a Network, not {network!r:.80}")
        if target is not None and target not in network:
            raise NetworkError(
                f"the builder {self} returned a network without the target {target!r}; it has {shorten(network)}"
            )
        return Built(network, held_out)

    def prepare_for_resampling(self) -> Build:
        """Return the same argument with the builder's options for resampled tables, where no partial sets them.

        Examples
        --------
        >>> print(Build.of("hill_climb").prepare_for_resampling())
        hill_climb restarts=0
        """
        options = {name: value for name, value in self.declaration.resampling.items() if name not in self.keywords}
        return replace(self, function=partial(self.function, **options)) if self.function and options else self

    def __str__(self) -> str:
        if self.structure is not None:
            count = self.structure.number_of_edges()
            return f"structure of {count} arc{'s' * (count != 1)}"
        function, keywords = _unwrap_partials(self.function)
        options = "".join(f" {key}={value!r}" for key, value in keywords.items())
        return f"{getattr(function, '__name__', type(function).__name__)}{options}"

    def _refuse_table(self, table: Rows) -> None:
        """Raise an error if the builder doesn't take weights or missing cells and the table has some."""
        if table.weighted and not self.declaration.takes_weights:
            raise NetworkError(f"the builder {self} takes no weighted rows")
        holes = [] if self.declaration.takes_holes else [name for name, count in table.missing.items() if count]
        if holes:
            raise TableError(f"the builder {self} takes no missing cells, and there are some in {shorten(holes)}")


def _find_builder(name: str, what: str) -> Callable[..., Network]:
    function = BUILDERS.find("automatic" if name == "auto" else name)
    if function is None:
        known = f"choose 'auto' or one of {shorten(sorted(BUILDERS), 20)}"
        raise NetworkError(f"{what}={name!r} is not known; {hint_at_names(name, BUILDERS, known)}")
    return function


def name_hidden_node(name: str | None, default: str, names: Container[str]) -> str:
    """Return the name of a hidden node: that which the user gave, or one that no column has.

    Examples
    --------
    >>> name_hidden_node(None, "y leaf", ["y", "y leaf"])
    'y leaf_'
    >>> name_hidden_node("y", "y leaf", ["y"])
    Traceback (most recent call last):
        ...
    hybridbn.errors.NetworkError: the table has a column 'y'; call the hidden node something else: name=...
    """
    if name is None:
        return find_unused_name(default, names)
    if name in names:
        raise NetworkError(f"the table has a column {name!r}; call the hidden node something else: name=...")
    return name


_MOST_COPIES = 20
"""Equal rows with holes are filled in no more ways than so many of them."""


@dataclass(frozen=True)
class Structured:
    """The result of structural EM.

    Attributes
    ----------
    network : Network
        The network with the best score.
    history : ndarray (rounds + 1,)
        The score of the network from available cases, then of the network of each round.
    converged : bool
        Whether it stopped because a round changed no arcs or didn't improve the score.
    """

    network: Network
    history: Values
    converged: bool

    def __repr__(self) -> str:
        return f"<Structured: {self.network!r}, score {self.history.max():.6g}, {len(self.history) - 1} rounds>"


def structural_em(
    data: Any,
    target: str,
    build: Structure,
    potentials: Potentials | None = None,
    weights: Any = None,
    *,
    rounds: int = 10,
    draws: int = 5,
    random_state: Any = 0,
    options: Options | None = None,
    **columns: Unpack[ColumnKeywords],
) -> Structured:
    r"""Learn a structure and its parameters from a table with holes, by a builder for complete tables.

    A first network is built from available cases. Then, in each round, the holes are filled `draws` times by exact
    joint draws given the row's observed cells, and a network is built from all completions together, each with its
    share of the row's weight. The network with the best score of the *observed* cells is kept:

    .. math:: \log L - \tfrac12 k \log n

    with k free parameters and rows of total weight n (BIC). It stops when the arcs stay the same or the score does not
    rise.

    Parameters
    ----------
    data, potentials, weights : as in `hybridbn.fit`
    target : str
    build : builder, partial of one, its name, Network, or list of arcs
        Such as `hybridbn.structures.tan`: a function of (data, target).
    rounds : int
        Maximal number of rounds.
    draws : int
        Completions in a round.
    random_state : int, Generator, ...
    options : Options, optional
        Options of inference.
    discrete, continuous, ordered, missing : as in `hybridbn.Table`

    Returns
    -------
    Structured
        With `.network`, `.history` and `.converged`.

    Notes
    -----
    This is Friedman's algorithm with simulated expectations, so that any builder can do the search. Parameters of
    tables of probabilities and linear Gaussians are learned by `expectation_maximization` in each round; those of other
    families are learned by the builder from the completions. Each family defines its own k
    (`Potential.free_parameters`); that of MTEs is an approximation, two for each piece. Kernel densities are scored by
    leaving out each point.

    References
    ----------
    Friedman (1997), "Learning belief networks in the presence of missing values and hidden variables", ICML'97.

    Examples
    --------
    >>> import hybridbn as hb
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=100)
    >>> data = {"x": x, "y": np.where(rng.random(100) < 0.3, np.nan, x + rng.normal(size=100))}
    >>> def chain(table, target):
    ...     return hb.fit([(target, "x")], table, "gaussian")
    >>> result = structural_em(data, "y", chain)
    >>> list(result.network.edges), len(result.history), result.converged
    ([('y', 'x')], 2, True)
    """
    rounds, draws = check_count(rounds, "rounds", 1, NetworkError), check_count(draws, "draws", 1, NetworkError)
    options = options or Options()
    rng = make_generator(random_state)
    learning = Build.of(build)
    table = learning.read(data, weights, target, **columns).sample(purpose="networks by structural EM")
    table = table.take(table.weights > 0).require_rows(1).require_values()
    names = table.names

    def learn(rows: Table) -> Network:
        return learning.learn(rows.select(names), target, potentials)

    holes = find_holes(table)
    if not holes:
        network = learn(table)
        return Structured(network, np.array([_score(network, table, options)]), True)
    distinct = collapse_rows(table)
    # random numbers go to rows and columns, whose order must not matter
    table = distinct.take(table).select(distinct.columns)
    marginals = learning.fit_marginals(table.select(holes), potentials)
    alone = Completion.of(marginals, table, Options())
    copies = _repeat_rows_with_holes(table, draws)
    best: Network | None = None
    history: list[float] = []
    converged = False

    network = _relearn_parameters(_build_first(learn, table, marginals, rng), table, options, rng)
    for _ in track_items(itertools.count(), "structural EM"):
        score = _score(network, table, options)
        better = best is None or score > max(history)
        converged = best is not None and (not better or set(network.edges) == set(best.edges))
        history.append(score)
        best = network if better else best
        if converged or len(history) > rounds:
            break
        levels = RowLevels.draw(rng, copies, network).of(copies, 0)
        cells = Completion.of(network, copies, options).draw(copies, levels)
        completed = fill_table(copies, {**draw_alone(copies, alone, levels, network), **cells})
        network = _relearn_parameters(learn(completed), table, options, rng)
    return Structured(best or network, np.array(history), converged)


def _repeat_rows_with_holes(table: Table, draws: int) -> Table:
    """Return a table in which each incomplete row is repeated, one of weight two twice as often, and its weight divided
    among the copies.
    """
    rows = np.clip(np.ceil(table.weights), 1, _MOST_COPIES).astype(np.intp)
    times = np.where(np.any([*find_holes(table).values()], axis=0), draws * rows, 1)
    rows = np.repeat(np.arange(len(table)), times)
    return table.take(rows).with_weights((table.weights / times)[rows])


def _build_first(learn: Learner, table: Table, marginals: Network, rng: np.random.Generator) -> Network:
    """Learn a network from available cases, or from marginal draws if these don't suffice."""
    try:
        return learn(table)
    except TableError:
        return learn(fill_at_random(table, marginals, rng))


def _relearn_parameters(network: Network, table: Table, options: Options, rng: np.random.Generator) -> Network:
    """Learn the parameters again from the observed cells, if that is exact."""
    if not is_exact(network):
        return network
    return expectation_maximization(network, table, start=network, random_state=rng, options=options).network


def _score(network: Network, table: Table, options: Options) -> float:
    """Return the BIC of the observed cells."""
    half_log = 0.5 * math.log(max(float(table.weights.sum()), 1.0))
    penalty = sum(half_log * potential.free_parameters() + potential.optimism() for potential in network.potentials)
    return log_likelihood(network, table, options) - penalty
