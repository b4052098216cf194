"""Naive Bayes from a stream of rows: statistics that add up, and the network that they speak for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from hybridbn.estimator_input import is_constant
from hybridbn.fitting.base import Fitter, Statistics
from hybridbn.fitting.choice import Potentials, fitter_of, roles
from hybridbn.network import Network
from hybridbn.table import Table
from hybridbn.variables import Continuous, Variable

__all__ = ["Stream"]


@dataclass(frozen=True)
class Stream:
    """All that naive Bayes has to know of the rows so far.

    Attributes
    ----------
    target : str
    variables : mapping from column to Variable
        Fixed by the first rows: states and cut points of later ones are read against these.
    fitters : mapping from column to Fitter
    statistics : mapping from column to Statistics
        Of each column given the target, and of the target.
    ranges : mapping from column to (low, high)
        Of the columns of numbers.

    Examples
    --------
    >>> tables = [Table({"x": [1.0, 2.0], "c": ["a", "b"]}), Table({"x": [4.0, 7.0], "c": ["b", "a"]})]
    >>> stream = Stream.of(tables[0], "c", "gaussian").plus(tables[1])
    >>> stream.network().potential("x")
    <LinearGaussian x | c: 2 regressions>
    >>> stream.ranges
    {'x': (1.0, 7.0)}
    """

    target: str
    variables: Mapping[str, Variable]
    fitters: Mapping[str, Fitter]
    statistics: Mapping[str, Statistics]
    ranges: Mapping[str, tuple[float, float]]

    @classmethod
    def of(cls, table: Table, target: str, potentials: Potentials) -> Self:
        """Return the stream that begins with these rows."""
        found = roles(table, target, potentials)
        # the target first, as the builder has it
        names = [target, *(name for name in found if name != target)]
        variables = {name: found[name].variable for name in names}
        fitters = {
            name: fitter_of(found[name].fitter, variables[name], _given(variables, target, name)) for name in names
        }
        empty = cls(target, variables, fitters, {}, {})
        return replace(empty, statistics=empty._read(table), ranges=_ranges(table, variables))

    def plus(self, table: Table) -> Self:
        """Return the stream with more rows, which must have been read against `variables`."""
        more, ranges = self._read(table), _ranges(table, self.variables)
        return replace(
            self,
            statistics={name: statistics + more[name] for name, statistics in self.statistics.items()},
            ranges={
                name: (min(low, ranges[name][0]), max(high, ranges[name][1]))
                for name, (low, high) in self.ranges.items()
            },
        )

    @property
    def constant(self) -> list[str]:
        """The columns of numbers, the target aside, that have had a single value so far."""
        return [name for name, ends in self.ranges.items() if name != self.target and is_constant(*ends)]

    def network(self) -> Network:
        """Return naive Bayes as the builder would make it of all rows together, without the constant columns."""
        constant = set(self.constant)
        return Network(
            [
                self.fitters[name].potential(statistics)
                for name, statistics in self.statistics.items()
                if name not in constant
            ]
        )

    def _read(self, table: Table) -> dict[str, Statistics]:
        return {
            name: self.fitters[name].statistics(table, variable, _given(self.variables, self.target, name))
            for name, variable in self.variables.items()
        }


def _given(variables: Mapping[str, Variable], target: str, name: str) -> tuple[Variable, ...]:
    return () if name == target else (variables[target],)


def _ranges(table: Table, variables: Mapping[str, Variable]) -> dict[str, tuple[float, float]]:
    found = {}
    for name, variable in variables.items():
        if isinstance(variable, Continuous):
            cells = table.coded(variable)
            low, high = (
                np.min(cells, initial=np.inf, where=cells == cells),
                np.max(cells, initial=-np.inf, where=cells == cells),
            )
            found[name] = float(low), float(high)
    return found
