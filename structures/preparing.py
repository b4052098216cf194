"""What all builders do first and last: read the data, and learn the potentials of the structure that they found."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from hybridbn.errors import NetworkError, TableError
from hybridbn.fitting.base import Fitter
from hybridbn.fitting.choice import Potentials, Role, fitter_of, roles
from hybridbn.fitting.counts import single_counts
from hybridbn.fitting.multinomial import MultinomialFitter, MultinomialStatistics
from hybridbn.network import Network
from hybridbn.potentials.base import Potential
from hybridbn.table import Table
from hybridbn.variables import Continuous, Discrete, Values, Variable

__all__ = ["Counts", "Prepared", "fitted", "prepared"]

Counts: TypeAlias = Mapping[tuple[str, ...], Values]
"""Tables of counts by the names of their dimensions, over the rows where all of these are observed."""


@dataclass(frozen=True)
class Prepared:
    """Data as a builder reads it.

    Attributes
    ----------
    table : Table
        With the weights.
    roles : mapping from column to Role
        In the table's order.
    target : str or None
    """

    table: Table
    roles: Mapping[str, Role]
    target: str | None

    @property
    def attributes(self) -> tuple[str, ...]:
        """The columns but the target, in the table's order."""
        return tuple(name for name in self.roles if name != self.target)

    @property
    def weights(self) -> Values | None:
        """The rows' weights where there are any."""
        return self.table.weights if self.table.weighted else None

    def variable(self, name: str) -> Variable:
        """Return a column's variable in the model: discrete where the column is discretized."""
        return self.roles[name].variable

    def codes(self, name: str) -> Any:
        """Return a column as codes or values of its variable."""
        return self.table.coded(self.variable(name))

    def fitter(self, child: str, parents: Sequence[str]) -> Fitter:
        """Return the fitter of a column given others."""
        return fitter_of(self.roles[child].fitter, self.variable(child), tuple(map(self.variable, parents)))

    def fit(self, child: str, parents: Sequence[str]) -> Potential:
        """Return the potential of a column given others."""
        variables = tuple(map(self.variable, parents))
        return self.fitter(child, parents).fit(self.table, self.variable(child), variables)

    def drop(self, names: Sequence[str]) -> Prepared:
        """Return the same without some attributes."""
        kept = {name: role for name, role in self.roles.items() if name not in names}
        return Prepared(self.table.select(kept), kept, self.target)

    def take(self, rows: Any) -> Prepared:
        """Return the same with some of the rows; variables stay as they are, cut points included."""
        return Prepared(self.table.take(rows), self.roles, self.target)


def prepared(data: Any, target: str | None, potentials: Potentials, weights: Any) -> Prepared:
    """Read the data of a builder, refusing what nothing can be learned from.

    Examples
    --------
    >>> data = prepared({"x": [1.0, 2.0, 4.0], "c": ["a", "b", "b"]}, "c", "auto", None)
    >>> data.target, data.attributes
    ('c', ('x',))
    >>> prepared({"x": [1.0, 2.0]}, "y", "auto", None)
    Traceback (most recent call last):
        ...
    hybridbn.errors.TableError: there is no column 'y'; the columns are 'x'
    """
    table = data if isinstance(data, Table) and weights is None else Table(data, weights=weights)
    if target is not None and not isinstance(target, str):
        raise NetworkError(f"the target must be the name of a column, not {target!r}")
    made = Prepared(table, roles(table, target, potentials), target)
    if table.weighted and not table.weights.any():
        raise TableError(f"all {len(table)} rows have weight zero, so nothing can be learned; give some a positive one")
    if target is not None:
        _check_target(made, target)
    return made


def _check_target(data: Prepared, name: str) -> None:
    """Refuse a constant number as target; warn of a single class, with which a classifier works but never errs."""
    variable, cells = data.variable(name), data.codes(name)
    kept = np.ones(len(cells), dtype=bool) if data.weights is None else data.weights > 0
    if isinstance(variable, Discrete):
        occurring = np.flatnonzero(np.bincount(cells[kept] + 1, minlength=len(variable) + 1)[1:])
        if len(occurring) == 1:
            warnings.warn(
                f"the target {name!r} has one value in the rows that count, {variable.states[occurring[0]]!r}; the attributes "
                "can't tell anything about it",
                stacklevel=4,
            )
    else:
        seen = cells[kept & ~np.isnan(cells)]
        occurring = seen[:1]
        if seen.size and (seen == seen[0]).all():
            raise TableError(
                f"the target {name!r} is {seen[0]:g} in all {len(seen)} rows that have a value and count, so there is nothing to "
                "predict; choose another target"
            )
    if not len(occurring):
        raise TableError(f"the target {name!r} has no observed value in the rows of positive weight; choose another target")


def fitted(data: Prepared, parents: Mapping[str, Sequence[str]], counts: Counts | None = None) -> Network:
    """Return the network with these parents, its potentials learned from the data.

    Parameters
    ----------
    data : Prepared
    parents : mapping from column to its parents
        A family that lacks a column is left out of the network.
    counts : mapping, optional
        Tables that are known already. A table of probabilities is made of one with the same names, in whatever order;
        the tables of columns with nothing but the discrete target are counted together in one pass.

    Notes
    -----
    Each potential is learned from the rows in which its child and parents are all observed (available cases).
    """
    known: dict[tuple[str, ...], Values] = dict(counts or {})
    known.update(_counted_with_target(data, parents, known))
    by_names = {tuple(sorted(names)): names for names in known}
    learned: list[Potential] = []
    for child, given in parents.items():
        fitter = data.fitter(child, given)
        names = by_names.get(tuple(sorted((*given, child))))
        if names is not None and _counts_are_enough(fitter):
            order = [names.index(name) for name in (*given, child)]
            table = np.ascontiguousarray(known[names].transpose(order))
            variables = tuple(map(data.variable, given))
            statistics = MultinomialStatistics(
                child=data.variable(child), parents=variables, total=float(table.sum()), counts=table
            )
            learned.append(fitter.potential(statistics))
        else:
            learned.append(data.fit(child, given))
    return Network(learned)


def _counts_are_enough(fitter: Fitter) -> bool:
    """Tell whether a fitter is the one whose statistics are plain counts; a subclass may look at more."""
    return type(fitter) is MultinomialFitter


def _counted_with_target(data: Prepared, parents: Mapping[str, Sequence[str]], known: Counts) -> dict[tuple[str, ...], Values]:
    """Return the tables of columns whose only parent is the discrete target."""
    target = data.target
    if target is None or isinstance(data.variable(target), Continuous):
        return {}
    columns = [
        child
        for child, given in parents.items()
        if list(given) == [target] and (target, child) not in known and _countable(data, child)
    ]
    sizes = [len(variable) for variable in map(data.variable, columns) if isinstance(variable, Discrete)]
    states = data.variable(target)
    assert isinstance(states, Discrete)
    tables = single_counts([data.codes(name) for name in columns], sizes, data.codes(target), len(states), data.weights)
    return {(target, name): table for name, table in zip(columns, tables, strict=True)}
