"""Sources that speak SQL: counts by GROUP BY, computed where the table lives."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from hybridbn.errors import TableError
from hybridbn.registry import LazyModule
from hybridbn.tables.backends.base import Source, Task
from hybridbn.tables.backends.batches import can_be_coded
from hybridbn.tables.backends.profiles import TRACKED, ColumnTally, Profile, ProfileTask
from hybridbn.tables.cells import REST
from hybridbn.tables.formats.database_base import quote_name
from hybridbn.tables.frames.arrow import kind_of_type
from hybridbn.variables import Discrete, Values, Variable

pyarrow: LazyModule = LazyModule("pyarrow")

Names: TypeAlias = tuple[str, ...]
Counts: TypeAlias = dict[tuple[Any, ...], float]

_MOST_COLUMNS = 31
"""The most columns by which one query groups, because GROUPING returns a number with a bit for each."""
_FEW_FAMILIES = 3
"""Counts are asked for in SQL where there are at most so many families for each column; more are counted faster from
the rows.
"""


class SQLSource(Source):
    """A table that is asked in SQL. An implementation runs queries about it, whose name in them is ``scanned``."""

    groups_sets: bool = True
    """Whether GROUPING SETS is known."""

    @abstractmethod
    def rows(self, query: str) -> Iterable[Sequence[Any]]:
        """Return the rows of a query."""

    def learn(self, task: Task) -> Any:
        """Return profiles from SQL."""
        return self._profile(task) if isinstance(task, ProfileTask) else None

    def count(
        self, families: Sequence[Names], variables: Mapping[str, Variable], weights: str | None
    ) -> dict[Names, Values]:
        """Return the counts of few families."""
        named = {name for names in families for name in names}
        codes: dict[str, dict[Hashable, int]] = {
            name: {state: code for code, state in enumerate(one.states)}
            for name in named
            if isinstance(one := variables[name], Discrete)
        }
        plain = len(codes) == len(named) and all(getattr(variables[name], "cuts", None) is None for name in named)
        if not (plain and self._suits(families) and self._are_plain(named)):
            return {}
        tables = {names: np.zeros([len(codes[name]) for name in names]) for names in families}
        for names, values, count in self._group(families, weights):
            if None in values:
                continue
            place = [codes[name].get(value, codes[name].get(REST)) for name, value in zip(names, values, strict=True)]
            if None in place:
                name, value = names[place.index(None)], values[place.index(None)]
                raise TableError(f"column {name!r}: {value!r} is no state; the table was changed while it was read")
            tables[names][tuple(place)] += count
        return tables

    def _suits(self, families: Sequence[Names]) -> bool:
        return len(families) <= _FEW_FAMILIES * len({name for names in families for name in names})

    def _are_plain(self, names: Iterable[str]) -> bool:
        """Tell whether the values of columns come out of a query as their states."""
        types = pyarrow.types
        kinds = [self.schema.field(name).type for name in names]
        return all((can_be_coded(kind) and not types.is_dictionary(kind)) or types.is_boolean(kind) for kind in kinds)

    def _group(self, families: Sequence[Names], weights: str | None) -> Iterator[tuple[Names, Sequence[Any], float]]:
        """Yield families with the values of each configuration that occurs, None for a missing cell, and its weight."""
        total = "count(*)" if weights is None else f"sum({quote_name(weights)})"
        if not self.groups_sets:
            for names in families:
                listed = ", ".join(map(self.key, names))
                for *values, count in self.rows(f"SELECT {listed}, {total} FROM scanned GROUP BY {listed}"):
                    yield names, values, float(count)
            return
        for part in _divide(families):
            columns = list(dict.fromkeys(name for names in part for name in names))
            listed = ", ".join(map(quote_name, columns))
            sets = ", ".join(f"({', '.join(map(quote_name, names))})" for names in part)
            query = f"SELECT GROUPING({listed}), {total}, {listed} FROM scanned GROUP BY GROUPING SETS ({sets})"
            last = len(columns) - 1
            # a bit is set where the column is not grouped by
            by_bits = {
                sum(1 << last - place for place, name in enumerate(columns) if name not in names): names
                for names in part
            }
            places = {names: [2 + columns.index(name) for name in names] for names in part}
            for row in self.rows(query):
                names = by_bits[int(row[0])]
                yield names, [row[place] for place in places[names]], float(row[1])

    def _profile(self, task: ProfileTask) -> Profile | None:
        types = pyarrow.types
        states, numbers = [], []
        for one in task.schema:
            held = kind_of_type(one.type)
            declared = task.kinds.get(one.name)
            if declared != "continuous" and (held == "text" or (declared == "discrete" and held == "integer")):
                states.append(one.name)
            elif held in ("integer", "float") and declared != "discrete":
                numbers.append(one.name)
            else:
                return None
        if not self._are_plain(states):
            return None
        families = [names for names in task.families if {*names} <= {*states}]
        joint = {names[-1] for names in families if len(names) > 1}
        given = {name for names in families if len(names) > 1 for name in names[:-1]}
        alone: list[Names] = [(name,) for name in states if name not in joint | given or task.weights is not None]
        counted = list(dict.fromkeys([*families, *alone]))
        if not self._suits(counted) and len(counted) > len(states):
            return None
        groups = self._collect(counted, None)
        weights = groups if groups is None or task.weights is None else self._collect(counted, task.weights)
        if groups is None or weights is None:
            return None
        rows, weight, ranges = self._ask_ranges(numbers, task.weights)
        columns = {name: self._tally(name, groups) for name in states} | ranges
        wanted = {name: int if types.is_integer(task.schema.field(name).type) else str for name in states}
        if not rows or any(type(one) is not wanted[name] for name in states for one in columns[name].counts or ()):
            # what the rows hold is told while they are read
            return None
        tables = {names: _tabulate(names, weights[names], columns) for names in families}
        ordered = {name: columns[name] for name in task.schema.names}
        return Profile(rows, weight, ordered, tables, task.weights is not None)

    def _collect(self, families: Sequence[Names], weights: str | None) -> dict[Names, Counts] | None:
        """Return the weight of each configuration of families; None where one of them has too many."""
        groups: dict[Names, Counts] = {names: {} for names in families}
        for names, values, count in self._group(families, weights):
            groups[names][tuple(values)] = count
            if len(groups[names]) > TRACKED:
                return None
        return groups

    def _tally(self, name: str, groups: Mapping[Names, Counts]) -> ColumnTally:
        """Return the counts of a column's states, which are margins of any family that it is in."""
        names = next(names for names in sorted(groups, key=len) if name in names)
        place, counts, missing = names.index(name), dict[Hashable, int](), 0
        for values, count in groups[names].items():
            if values[place] is None:
                missing += int(count)
            else:
                counts[values[place]] = counts.get(values[place], 0) + int(count)
        return ColumnTally(missing, counts)

    def _ask_ranges(self, numbers: Sequence[str], weights: str | None) -> tuple[int, float, dict[str, ColumnTally]]:
        """Return the number of rows, their weight, and the ranges of columns of numbers; no rows where one is none."""
        types = pyarrow.types
        parts = ["count(*)", "count(*)" if weights is None else f"sum({quote_name(weights)})"]
        for name in numbers:
            cell = own = quote_name(name)
            if types.is_floating(self.schema.field(name).type):
                own = f"CASE WHEN NOT {self.is_nan(cell)} THEN {cell} END"
            ranged = own if weights is None else f"CASE WHEN {quote_name(weights)} > 0 THEN {own} END"
            parts += [f"count({own})", f"min({ranged})", f"max({ranged})"]
        (row,) = list(self.rows(f"SELECT {', '.join(parts)} FROM scanned"))
        rows, tallies = int(row[0]), {}
        for name, (count, low, high) in zip(numbers, zip(row[2::3], row[3::3], row[4::3], strict=True), strict=True):
            if (
                isinstance(low, str)
                or isinstance(high, str)
                or not math.isfinite(low or 0)
                or not math.isfinite(high or 0)
            ):
                return 0, 0.0, {}
            integer = types.is_integer(self.schema.field(name).type)
            ends = (math.inf, -math.inf) if low is None else (float(low), float(high))
            tallies[name] = ColumnTally(rows - int(count), None, 0, *ends, integer=integer)
        return rows, float(row[1] or 0), tallies

    def key(self, name: str) -> str:
        """Return a column as it is grouped by."""
        return quote_name(name)

    @abstractmethod
    def is_nan(self, cell: str) -> str:
        """Return the condition that a float is no number."""


def _divide(families: Sequence[Names]) -> Iterator[list[Names]]:
    part: list[Names] = []
    columns: set[str] = set()
    for names in families:
        if part and len(columns | {*names}) > _MOST_COLUMNS:
            yield part
            part, columns = [], set()
        part.append(names)
        columns |= {*names}
    if part:
        yield part


def _tabulate(names: Names, counts: Mapping[tuple[Any, ...], float], columns: Mapping[str, ColumnTally]) -> Values:
    codes: list[Mapping[Hashable, int]] = [
        {state: code for code, state in enumerate(columns[name].counts or ())} for name in names
    ]
    table = np.zeros([len(own) for own in codes])
    for values, count in counts.items():
        if None not in values:
            table[tuple(own[value] for own, value in zip(codes, values, strict=True))] = count
    return table
