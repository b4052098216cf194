"""What all builders do first: read the data, and refuse what nothing can be learned from."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hybridbn.errors import NetworkError, TableError
from hybridbn.fitting.base import Fitter
from hybridbn.fitting.choice import Potentials, Role, fitter_of, roles
from hybridbn.fitting.counters import counter_of
from hybridbn.fitting.counting import Counter
from hybridbn.potentials.base import Potential
from hybridbn.tables import Table
from hybridbn.variables import Discrete, Values, Variable

__all__ = ["Prepared", "checked_threshold", "prepared", "prepared_whole"]


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

    def counter(self, names: Sequence[str]) -> Counter:
        """Return what counts some of the columns."""
        return counter_of(self.table, map(self.variable, names))

    def states(self, name: str) -> int:
        """Return the number of states of a discrete variable."""
        variable = self.variable(name)
        if not isinstance(variable, Discrete):
            raise NetworkError(f"{name!r} is continuous and has no states")
        return len(variable)

    def fitter(self, child: str, parents: Sequence[str]) -> Fitter:
        """Return the fitter of a column given others."""
        return fitter_of(self.roles[child].fitter, self.variable(child), tuple(map(self.variable, parents)))

    def fit(self, child: str, parents: Sequence[str]) -> Potential:
        """Return the potential of a column given others."""
        variables = tuple(map(self.variable, parents))
        return self.fitter(child, parents).fit(self.table, self.variable(child), variables)

    def select(self, names: Sequence[str]) -> Prepared:
        """Return the same with some of the columns."""
        return Prepared(self.table.select(names), {name: self.roles[name] for name in names}, self.target)

    def take(self, rows: Any) -> Prepared:
        """Return the same with some of the rows; variables stay as they are, cut points included."""
        return Prepared(self.table.take(rows), self.roles, self.target)


def prepared(data: Any, target: str, potentials: Potentials, weights: Any) -> Prepared:
    """Read the data of a builder with a target, refusing what nothing can be learned from.

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
    table = _table(data, weights)
    if not isinstance(target, str):
        raise NetworkError(f"the target must be the name of a column, not {target!r}")
    made = Prepared(table, roles(table, target, potentials), target)
    _check_target(made, target)
    return made


def prepared_whole(data: Any, potentials: Potentials, weights: Any) -> Prepared:
    """Read the data of a builder without a target, refusing what nothing can be learned from.

    Examples
    --------
    >>> prepared_whole({"x": [1.0, 2.0, 4.0], "c": ["a", "b", "b"]}, "auto", None).attributes
    ('x', 'c')
    """
    table = _table(data, weights)
    return Prepared(table, roles(table, None, potentials), None)


def _table(data: Any, weights: Any) -> Table:
    return (data if isinstance(data, Table) and weights is None else Table(data, weights=weights)).require_rows()


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
        raise TableError(
            f"the target {name!r} has no observed value in the rows of positive weight; choose another target"
        )


def checked_threshold(threshold: Any) -> float:
    """Return a threshold for information, refusing what is no number of nats.

    Examples
    --------
    >>> checked_threshold(-1)
    Traceback (most recent call last):
        ...
    hybridbn.errors.NetworkError: threshold must be a number of nats that is not negative, not -1
    """
    if isinstance(threshold, bool) or not isinstance(threshold, int | float | np.number) or not threshold >= 0:
        raise NetworkError(f"threshold must be a number of nats that is not negative, not {threshold!r}")
    return float(threshold)
