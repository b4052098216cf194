"""Sources that speak SQL: counts by GROUP BY, computed where the table lives."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections import Counter
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
Group: TypeAlias = tuple[Names, Sequence[Any], int, float]
"""A family, the values of a configuration, the number of its rows, and their weight."""

_STATES = {("text", None), ("text", "discrete"), ("integer", "discrete")}
_NUMBERS = {(held, declared) for held in ("integer", "float") for declared in (None, "continuous")}
"""What columns hold, and are declared to be, of which SQL tells the states or the range."""
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
        known = [one for name in named if isinstance(one := variables[name], Discrete) and one.cuts is None]
        if len(known) < len(named) or not (self._suits(families) and self._are_plain(named)):
            return {}
        return _tabulate(self._group(families, weights), families, {one.name: one.states for one in known})

    def _suits(self, families: Sequence[Names]) -> bool:
        return len(families) <= _FEW_FAMILIES * len({name for names in families for name in names})

    def _are_plain(self, names: Iterable[str]) -> bool:
        """Tell whether the values of columns come out of a query as their states."""
        types = pyarrow.types
        kinds = [self.schema.field(name).type for name in names]
        return all((can_be_coded(kind) and not types.is_dictionary(kind)) or types.is_boolean(kind) for kind in kinds)

    def _group(self, families: Sequence[Names], weights: str | None) -> Iterator[Group]:
        """Yield families with the values of each configuration that occurs, None for a missing cell, the number of its
        rows and their weight.
        """
        total = "count(*), count(*)" if weights is None else f"count(*), sum({quote_name(weights)})"
        if not self.groups_sets:
            for names in families:
                listed = ", ".join(map(self.key, names))
                for *values, rows, weight in self.rows(f"SELECT {listed}, {total} FROM scanned GROUP BY {listed}"):
                    yield names, values, int(rows), float(weight)
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
            places = {names: [columns.index(name) for name in names] for names in part}
            for bits, rows, weight, *values in self.rows(query):
                names = by_bits[int(bits)]
                yield names, [values[place] for place in places[names]], int(rows), float(weight)

    def _profile(self, task: ProfileTask) -> Profile | None:
        kinds = {one.name: (kind_of_type(one.type), task.kinds.get(one.name)) for one in task.schema}
        states, numbers = ([name for name, kind in kinds.items() if kind in known] for known in (_STATES, _NUMBERS))
        if len(states) + len(numbers) < len(kinds) or not self._are_plain(states):
            return None
        families = [names for names in task.families if {*names} <= {*states}]
        joint = {name for names in families if len(names) > 1 for name in names}
        alone: list[Names] = [(name,) for name in states if name not in joint or task.weights is not None]
        counted = list(dict.fromkeys([*families, *alone]))
        if not self._suits(counted) and len(counted) > len(states):
            return None
        groups = self._collect(counted, task.weights)
        if groups is None:
            return None
        rows, weight, ranges = self._ask_ranges(numbers, task.weights)
        columns = {name: self._tally(name, groups) for name in states} | ranges
        wanted = {name: int if kinds[name][0] == "integer" else str for name in states}
        if not rows or any(type(one) is not wanted[name] for name in states for one in columns[name].counts or ()):
            # what the rows hold is told while they are read
            return None
        known = {name: list(columns[name].counts or ()) for name in states}
        tables = _tabulate((group for names in families for group in groups[names]), families, known)
        ordered = {name: columns[name] for name in task.schema.names}
        return Profile(rows, weight, ordered, tables, task.weights is not None)

    def _collect(self, families: Sequence[Names], weights: str | None) -> dict[Names, list[Group]] | None:
        """Return the configurations of families that occur; None where one of them has too many."""
        groups: dict[Names, list[Group]] = {names: [] for names in families}
        for group in self._group(families, weights):
            groups[group[0]].append(group)
            if len(groups[group[0]]) > TRACKED:
                return None
        return groups

    def _tally(self, name: str, groups: Mapping[Names, Sequence[Group]]) -> ColumnTally:
        """Return the counts of a column's states, which are margins of any family that it is in."""
        names = next(names for names in sorted(groups, key=len) if name in names)
        counts: Counter[Hashable] = Counter()
        for _, values, rows, _ in groups[names]:
            counts[values[names.index(name)]] += rows
        return ColumnTally(counts.pop(None, 0), dict(counts))

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


def _tabulate(
    groups: Iterable[Group], families: Sequence[Names], states: Mapping[str, Sequence[Hashable]]
) -> dict[Names, Values]:
    """Return the weights of configurations as tables; of states with a rest, it takes every other value."""
    codes = {name: {state: code for code, state in enumerate(own)} for name, own in states.items()}
    tables = {names: np.zeros([len(codes[name]) for name in names]) for names in families}
    for names, values, _, weight in groups:
        if None in values:
            continue
        place = [codes[name].get(value, codes[name].get(REST)) for name, value in zip(names, values, strict=True)]
        if None in place:
            name, value = names[place.index(None)], values[place.index(None)]
            raise TableError(f"column {name!r}: {value!r} is no state; the table was changed while it was read")
        tables[names][tuple(place)] += weight
    return tables
