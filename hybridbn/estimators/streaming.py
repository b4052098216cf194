"""Naive Bayes from a stream of rows: statistics that add up, and the network that they speak for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Self

import numpy as np

from hybridbn.fitting import Fitter, Statistics, fitter_of, roles
from hybridbn.fitting.fitter_choice import Potentials
from hybridbn.network import Network
from hybridbn.structures.training_data import CollectStatistics
from hybridbn.tables import Table
from hybridbn.variables import Variable

__all__ = ["Stream", "is_constant"]

_ROUNDING = 8 * float(np.finfo(float).eps)
"""Numbers that differ by less than this share of the largest are what rounding makes of a constant."""


@dataclass(frozen=True)
class Stream:
    """All that naive Bayes has to know of the rows so far.

    Attributes
    ----------
    target : str
    roles : mapping from column to Role
        Fixed by the first rows: states, cut points and heavy points of later ones are read against these variables.
    fitters : mapping from column to Fitter
    statistics : mapping from column to Statistics
        Of the target, then of each column given the target.
    ranges : mapping from column to (low, high)
        Of the columns of numbers but the target; (inf, -inf) where no cell was observed.

    Examples
    --------
    >>> tables = [Table({"x": [1.0, 2.0], "c": ["a", "b"]}), Table({"x": [4.0, 7.0], "c": ["b", "a"]})]
    >>> stream = Stream.of(tables[0], "c", "gaussian").plus(tables[1])
    >>> stream.network().potential("x").intercept
    array([4., 3.])
    >>> stream.ranges
    {'x': (1.0, 7.0)}
    """

    target: str
    roles: Mapping[str, Any]
    fitters: Mapping[str, Fitter]
    statistics: Mapping[str, Statistics]
    ranges: Mapping[str, tuple[float, float]]

    @classmethod
    def of(cls, table: Table, target: str, potentials: Potentials) -> Self:
        """Return the stream that begins with these rows."""
        found = roles(table, target, potentials)
        # the target first, as the builder has it
        ordered = {target: found[target], **found}
        given = (found[target].variable,)
        fitters = {
            name: fitter_of(role.fitter, role.variable, () if name == target else given)
            for name, role in ordered.items()
        }
        empty = cls(target, ordered, fitters, {}, {})
        return replace(empty, statistics=empty._read(table), ranges=empty._ranges(table))

    def plus(self, table: Table) -> Self:
        """Return the stream with more rows, which must have been read against `variables`."""
        more, ranges = self._read(table), self._ranges(table)
        return replace(
            self,
            statistics={name: statistics + more[name] for name, statistics in self.statistics.items()},
            ranges={
                name: (min(low, ranges[name][0]), max(high, ranges[name][1])) if name in ranges else (low, high)
                for name, (low, high) in self.ranges.items()
            },
        )

    @property
    def variables(self) -> dict[str, Variable]:
        """The variable of each column."""
        return {name: role.variable for name, role in self.roles.items()}

    @property
    def constant(self) -> list[str]:
        """The columns of numbers that have had a single value so far."""
        return [name for name, ends in self.ranges.items() if is_constant(*ends)]

    @property
    def nbytes(self) -> int:
        """The memory of all statistics: little for tables and moments, that of the rows for families that need
        these.
        """
        return sum(array.nbytes for statistics in self.statistics.values() for array in _arrays(statistics))

    def network(self) -> Network:
        """Return naive Bayes as the builder would make it of all rows together, without the constant columns."""
        constant = set(self.constant)
        kept = {name: statistics for name, statistics in self.statistics.items() if name not in constant}
        return Network([self.fitters[name].potential(statistics) for name, statistics in kept.items()])

    def _read(self, table: Table) -> dict[str, Statistics]:
        parents = {name: () if name == self.target else (self.target,) for name in self.fitters}
        statistics: Mapping[str, Statistics] = table.learn(CollectStatistics(self.roles, parents))
        return {name: statistics[name] for name in self.fitters}

    def _ranges(self, table: Table) -> dict[str, tuple[float, float]]:
        names = [name for name in self.roles if name != self.target and not table.is_discrete(name)]
        return {name: table.value_range(name) for name in names}


def is_constant(low: float, high: float) -> bool:
    """Tell whether numbers between these two are the same up to rounding; of no numbers at all, give (inf, -inf).

    Examples
    --------
    >>> is_constant(0.3, 0.1 + 0.2), is_constant(0.0, 1e-300)
    (True, False)
    """
    # halves, so that the difference of the largest floats is finite
    return high / 2 - low / 2 <= _ROUNDING * max(abs(low / 2), abs(high / 2)) if low <= high else True


def _arrays(statistics: Statistics) -> Iterator[np.ndarray[Any, Any]]:
    for field in fields(statistics):
        value = getattr(statistics, field.name)
        for item in value if isinstance(value, tuple) else (value,):
            if isinstance(item, np.ndarray):
                yield item
