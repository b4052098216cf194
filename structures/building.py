"""What a builder declares, the registry of all builders, and what `build=` means: a builder, its name, or a structure that is kept."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Self, TypeAlias, TypeVar, overload

import networkx as nx

from hybridbn.errors import NetworkError, TableError
from hybridbn.estimation.available_cases import (
    fit_available,
    fit_marginals,
    list_arcs,
    read_as_declared,
    structure_of,
)
from hybridbn.fitting.fitter_choice import Potentials
from hybridbn.network import Network
from hybridbn.tables import Table
from hybridbn.variables import Continuous, Discrete, Variable, shorten

__all__ = ["BUILDERS", "Build", "Declaration", "Learner", "builder", "declaration_of"]

Function = TypeVar("Function", bound=Callable[..., Any])

Learner: TypeAlias = Callable[[Table], Network]
"""From a table to the network that is learned from it."""

Arcs: TypeAlias = Callable[[str, Sequence[str]], Mapping[str, tuple[str, ...]]]
"""From the target and all columns to the parents of each column."""


@dataclass(frozen=True)
class Declaration:
    """What a builder says about itself.

    Attributes
    ----------
    takes_target : bool or kind of variable
        Whether it is called as ``build(data, target, potentials=...)``, else as ``build(data, potentials=...)``. `Discrete`
        or `Continuous`: it is, and the target must be of this kind.
    hidden : tuple of kinds of variables
        The kinds of nodes that its networks may have beside the columns.
    arcs : callable, optional
        The parents of each column, as a function of the target and the columns, where they don't depend on the cells. Then
        nothing but potentials is learned, and whoever learns again and again may count once.
    takes_weights, takes_holes : bool
        Whether it takes weighted rows and missing cells. One that doesn't is not called with them.
    """

    takes_target: bool | type[Discrete] | type[Continuous] = True
    hidden: tuple[type[Variable], ...] = ()
    arcs: Arcs | None = None
    takes_weights: bool = True
    takes_holes: bool = True


BUILDERS: dict[str, Callable[..., Network]] = {}
"""Every builder by its name: those of this package, and those that users have decorated."""


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
) -> Callable[[Function], Function]: ...


def builder(function: Any = None, /, **declared: Any) -> Any:
    """Declare what a function that builds networks takes, and make its name known wherever `build=` is taken.

    The function stays as it is. Without this decorator a function can be given as `build=`, too; it is then taken for one that
    takes a target, weights and missing cells.

    Parameters
    ----------
    takes_target, hidden, arcs, takes_weights, takes_holes : as in `Declaration`

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
    if function is None:
        return partial(_declare, declaration=Declaration(**declared))
    return _declare(function, Declaration())


def _declare(function: Any, declaration: Declaration) -> Any:
    name = function.__name__
    other = BUILDERS.get(name, function)
    # the same function again is one whose module, or whose cell of a notebook, is run again
    if (other.__module__, other.__qualname__) != (function.__module__, function.__qualname__):
        raise NetworkError(
            f"there is a builder called {name!r} already, that of {other.__module__}; choose another name"
        )
    function.declaration = declaration
    BUILDERS[name] = function
    return function


def declaration_of(function: Any) -> Declaration:
    """Return what a builder, or a partial of one, declares.

    Examples
    --------
    >>> from hybridbn.structures import chow_liu, tan
    >>> [declaration_of(function).takes_target for function in (tan, partial(chow_liu, root="a"), len)]
    [True, False, True]
    """
    while isinstance(function, partial):
        function = function.func
    declared = getattr(function, "declaration", None)
    return declared if isinstance(declared, Declaration) else Declaration()


@dataclass(frozen=True)
class Build:
    """What `build=` asks for: a builder, or a structure that is kept.

    Attributes
    ----------
    function : callable, optional
        The builder, or a partial of one.
    structure : Network, optional
        Arcs that are kept, with the variables and families that its nodes have.
    """

    function: Callable[..., Network] | None = None
    structure: Network | None = None

    @classmethod
    def of(cls, build: Any, what: str = "build") -> Self:
        """Read what a user gave.

        Parameters
        ----------
        build : builder, partial of one, name of one, Network, other directed graph, list of arcs, or None
            "auto" is `automatic`, None is `naive_bayes`.
        what : str
            What the parameter is called, for errors.

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
            return cls(_find_builder(build, what))
        if callable(build) and not isinstance(build, nx.Graph):
            return cls(build)
        arcs = build if isinstance(build, nx.Graph) else list_arcs(build)
        if arcs is None:
            raise NetworkError(
                f"{what} must be a builder such as hybridbn.structures.tan (the function, a partial of it or its name), a "
                f"Network or a list of arcs (from, to), not {build!r:.80}"
            )
        return cls(structure=structure_of(arcs))

    @property
    def declaration(self) -> Declaration:
        """What the builder declares."""
        return declaration_of(self.function)

    @property
    def potentials(self) -> Potentials | None:
        """Which potentials a partial of a builder asks for itself."""
        function = self.function
        while isinstance(function, partial):
            if "potentials" in function.keywords:
                asked: Potentials = function.keywords["potentials"]
                return asked
            function = function.func
        return None

    @property
    def keeps_families(self) -> bool:
        """Whether it is a structure whose nodes say what family they are of."""
        return self.structure is not None and any(self.structure.nodes[n].get("potential") for n in self.structure)

    def read(self, data: Any, weights: Any = None) -> Table:
        """Return the data, read as the structure declares; numbers that it cuts into intervals stay numbers."""
        return read_as_declared(data, self.structure, weights, keep_numbers=True)

    def fit_marginals(self, table: Table, potentials: Potentials | None = None) -> Network:
        """Return the density of each column alone: of the potentials given, of the structure's families, or of the partial's own."""
        return fit_marginals(table, self.structure, self.potentials if potentials is None else potentials)

    def without(self, names: Sequence[str]) -> Build:
        """Return the same without some columns."""
        if self.structure is None:
            return self
        left = Network(self.structure)
        left.remove_nodes_from(names)
        return replace(self, structure=left)

    def is_naive_bayes(self, target: str, names: Sequence[str]) -> bool:
        """Tell whether, whatever the cells are, each other column has the target as its only parent."""
        parents: Mapping[str, tuple[str, ...]] | None = None
        if self.structure is not None:
            if not any(self.structure.nodes[name] for name in self.structure):
                parents = {name: tuple(self.structure.predecessors(name)) for name in self.structure}
        elif self.declaration.arcs is not None and self._has_only_families():
            parents = self.declaration.arcs(target, names)
        return parents == {target: (), **{name: (target,) for name in names if name != target}}

    def learn(self, table: Table, target: str | None = None, potentials: Potentials | None = None) -> Network:
        """Return the network that is learned from a table.

        Parameters
        ----------
        table : Table
        target : str, optional
            A node that the network must have. Builders without a target don't hear of it.
        potentials : as in `hybridbn.fit`, optional
            By default a structure's families and a builder's own choice.
        """
        if self.structure is not None:
            return fit_available(self.structure, table, "auto" if potentials is None else potentials)
        assert self.function is not None
        self._refuse_table(table)
        asked = (target,) if self.declaration.takes_target else ()
        options: dict[str, Any] = {} if potentials is None else {"potentials": potentials}
        network = self.function(table, *asked, **options)
        if not isinstance(network, Network):
            raise NetworkError(f"the builder {self} must return a Network, not {network!r:.80}")
        if target is not None and target not in network:
            raise NetworkError(
                f"the builder {self} returned a network without the target {target!r}; it has {shorten(network)}"
            )
        return network

    def make_learner(self, target: str | None = None, potentials: Potentials | None = None) -> Learner:
        """Return `learn` for a target and potentials."""
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
        """Tell whether a builder is called without options but the families."""
        function = self.function
        return not isinstance(function, partial) or (not function.args and set(function.keywords) <= {"potentials"})

    def _refuse_table(self, table: Table) -> None:
        """Refuse a table that the builder does not take."""
        if table.weighted and not self.declaration.takes_weights:
            raise NetworkError(f"the builder {self} takes no weighted rows")
        holes = [] if self.declaration.takes_holes else [name for name, count in table.missing.items() if count]
        if holes:
            raise TableError(f"the builder {self} takes no missing cells, and there are some in {shorten(holes)}")


def _find_builder(name: str, what: str) -> Callable[..., Network]:
    known = BUILDERS.get("automatic" if name == "auto" else name)
    if known is None:
        near = difflib.get_close_matches(name, BUILDERS, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"choose 'auto' or one of {shorten(sorted(BUILDERS), 20)}"
        raise NetworkError(f"{what}={name!r} is not known; {hint}")
    return known
