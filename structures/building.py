"""The registry of builders with their declarations, and the meaning of `build=`: a builder, its name, or a fixed
structure.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial, wraps
from inspect import signature
from typing import Any, Literal, NamedTuple, ParamSpec, Protocol, Self, TypeAlias, TypeVar, overload

import networkx as nx
import numpy as np
from numpy.typing import NDArray

from hybridbn.errors import NetworkError, TableError
from hybridbn.estimation.available_cases import (
    fit_available,
    fit_marginals,
    leave_unusable,
    list_arcs,
    read_as_declared,
    structure_of,
)
from hybridbn.fitting.fitter_choice import Potentials
from hybridbn.network import Network
from hybridbn.network_description import is_arc_text
from hybridbn.registry import Registry
from hybridbn.tables import Rows, Table
from hybridbn.variables import Continuous, Discrete, Variable, shorten

__all__ = [
    "BUILDERS",
    "Build",
    "Built",
    "Declaration",
    "HeldOut",
    "Learner",
    "builder",
    "declaration_of",
    "find_unused_name",
    "name_hidden_node",
]

Function = TypeVar("Function", bound=Callable[..., Any])
Parameters = ParamSpec("Parameters")

Learner: TypeAlias = Callable[[Table], Network]
"""A function that learns a network from a table."""

Arcs: TypeAlias = Callable[[str, Sequence[str]], Mapping[str, tuple[str, ...]]]
"""A function of the target and all columns that returns the parents of each column."""


class HeldOut(Protocol):
    """What networks that were learned without a row predict for its target."""

    def select_rows(self, rows: NDArray[np.intp]) -> Any:
        """Return the posterior of the target in some rows of the table, NaN in those without a prediction."""


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
    while isinstance(function, partial):
        function = function.func
    declaration = getattr(function, "declaration", None)
    return declaration if isinstance(declaration, Declaration) else Declaration()


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
        keywords: dict[str, Any] = {}
        function = self.function
        while isinstance(function, partial):
            keywords = function.keywords | keywords
            function = function.func
        return keywords

    @property
    def keeps_families(self) -> bool:
        """Whether it is a structure with potentials, whose families are kept."""
        return self.structure is not None and any(self.structure.nodes[n].get("potential") for n in self.structure)

    def read(self, data: Any, weights: Any = None, target: str | None = None) -> Rows:
        """Read the data with the variables of the structure; numbers that it cuts into intervals stay numbers.

        Columns that nothing can be learned from are left out, with a warning, unless they are the target or nodes of
        the structure.
        """
        kept = (target, *(() if self.structure is None else self.structure))
        return read_as_declared(leave_unusable(data, kept), self.structure, weights, keep_numbers=True)

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
        elif self.declaration.arcs is not None and self._has_only_families():
            parents = self.declaration.arcs(target, names)
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

    def make_learner(self, target: str | None = None, potentials: Potentials | None = None) -> Learner:
        """Return `learn` with the target and the potentials fixed."""
        return partial(self.learn, target=target, potentials=potentials)

    def __str__(self) -> str:
        if self.structure is not None:
            count = self.structure.number_of_edges()
            return f"structure of {count} arc{'s' * (count != 1)}"
        function, options = self.function, ""
        if isinstance(function, partial):
            options = "".join(f" {key}={value!r}" for key, value in function.keywords.items())
            function = function.func
        return f"{getattr(function, '__name__', type(function).__name__)}{options}"

    def _has_only_families(self) -> bool:
        """Return whether a partial of the builder fixes nothing but the families."""
        function = self.function
        return not isinstance(function, partial) or (not function.args and set(function.keywords) <= {"potentials"})

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
        near = difflib.get_close_matches(name, BUILDERS, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"choose 'auto' or one of {shorten(sorted(BUILDERS), 20)}"
        raise NetworkError(f"{what}={name!r} is not known; {hint}")
    return function


def find_unused_name(name: str, names: Iterable[str]) -> str:
    """Return a name that is not among some names, with underscores appended if necessary.

    Examples
    --------
    >>> find_unused_name("a", ["b"]), find_unused_name("a", ["a", "a_"])
    ('a', 'a__')
    """
    while name in names:
        name += "_"
    return name


def name_hidden_node(name: str | None, default: str, names: Iterable[str]) -> str:
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
