"""What one pass tells of a table's columns: their kinds, states and ranges, missing cells, and joint counts.

The states of a column are counted while they are found, so that tables of counts need no pass of their own. Of a column
with very many states the most frequent ones are kept, by the algorithm of Misra & Gries (1982).
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from hybridbn.registry import LazyModule
from hybridbn.tables.backends.base import FILE_BITS, Batch, Fragment, Task
from hybridbn.tables.backends.batches import can_be_coded, read_moments, read_numbers
from hybridbn.tables.cells import REST, Cells, UnsupportedType, count_texts, label_codes
from hybridbn.tables.columns import read_cells
from hybridbn.tables.formats.base import name_file_in_errors
from hybridbn.tables.formats.text_blocks import shift_lines_in_errors
from hybridbn.tables.frames.arrow import NUMBERS, StateCoder, decode_column, kind_of_type
from hybridbn.tables.rows import CountColumns
from hybridbn.units import Unit
from hybridbn.variables import Continuous, Discrete, Values, Variable

pyarrow: LazyModule = LazyModule("pyarrow")

Names: TypeAlias = tuple[str, ...]

TRACKED = 1 << 17
"""The most states of a column that are counted at a time."""
_OPEN_CELLS = 1 << 20
"""Most cells of a table that is counted while its states are found."""


@dataclass(frozen=True)
class ColumnTally:
    """What some rows tell of a column.

    Attributes
    ----------
    missing : int
    counts : mapping from state to int, or None
        How often each state occurs, in the order in which they came; those of dictionary types occur perhaps never.
    lost : int
        By how much a count may be too low, and how often a state that is not listed may occur.
    low, high : float
        The range of numbers, of rows with positive weight.
    integer : bool
        Whether the type is one of whole numbers, or all are written as whole numbers.
    unit : Unit, optional
    fault : UnsupportedType, optional
        Why nothing can be computed with the column, whose missing cells are not counted then.
    """

    missing: int = 0
    counts: Mapping[Hashable, int] | None = None
    lost: int = 0
    low: float = math.inf
    high: float = -math.inf
    integer: bool = True
    unit: Unit | None = None
    fault: UnsupportedType | None = None

    def __add__(self, other: ColumnTally) -> ColumnTally:
        counts, lost = self.counts, self.lost + other.lost
        if counts is not None and other.counts is not None:
            merged = dict(counts)
            for state, count in other.counts.items():
                merged[state] = merged.get(state, 0) + count
            counts, more = keep_frequent(merged)
            lost += more
        unit = self.unit or other.unit
        if unit is not None and other.unit is not None:
            unit = replace(unit, step=min(unit.step, other.unit.step))
        return ColumnTally(
            self.missing + other.missing,
            counts,
            lost,
            min(self.low, other.low),
            max(self.high, other.high),
            self.integer and other.integer,
            unit,
            self.fault,
        )


def keep_frequent(counts: dict[Hashable, int], most: int | None = None) -> tuple[dict[Hashable, int], int]:
    """Return at most so many counts, and how much was taken from each: the step of Misra and Gries.

    Examples
    --------
    >>> keep_frequent({"a": 5, "b": 1, "c": 2}, 2)
    ({'a': 4, 'c': 1}, 1)
    """
    most = TRACKED if most is None else most
    if len(counts) <= most:
        return counts, 0
    taken = sorted(counts.values(), reverse=True)[most]
    return {state: count - taken for state, count in counts.items() if count > taken}, taken


@dataclass(frozen=True)
class Profile:
    """What some rows tell of all columns; ``a + b`` is what the rows of both tell.

    Attributes
    ----------
    rows : int
    weight : float
        Of all rows.
    columns : mapping from name to ColumnTally
    tables : mapping from columns to ndarray
        Joint counts, each dimension in the order of the column's counts.
    weighted : bool
        Whether the rows have weights, so that joint counts are weights.
    ends : mapping from int to int
        How many rows each file has, by its number.
    """

    rows: int
    weight: float
    columns: Mapping[str, ColumnTally]
    tables: Mapping[Names, Values] = field(default_factory=dict)
    weighted: bool = False
    ends: Mapping[int, int] = field(default_factory=dict)

    def __add__(self, other: Profile) -> Profile:
        columns = {name: tally + other.columns[name] for name, tally in self.columns.items()}
        tables = {}
        for names in self.tables.keys() & other.tables.keys():
            states = [list(columns[name].counts or ()) for name in names]
            if math.prod(map(len, states)) <= _OPEN_CELLS and not any(columns[name].lost for name in names):
                mine, yours = (_arrange(one.tables[names], names, one.columns, states) for one in (self, other))
                tables[names] = mine + yours
        ends = {file: max(self.ends.get(file, 0), other.ends.get(file, 0)) for file in {**self.ends, **other.ends}}
        return Profile(self.rows + other.rows, self.weight + other.weight, columns, tables, self.weighted, ends)

    def table(self, names: Names, variables: Mapping[str, Variable]) -> Values | None:
        """Return joint counts in the order of the variables' states; None if they were not counted."""
        table = self.tables.get(names)
        if table is None and len(names) == 1 and not self.weighted:
            table = np.array([*(self.columns[names[0]].counts or {}).values()], float)
        listed = [variables[name] for name in names]
        states = [list(one.states) for one in listed if isinstance(one, Discrete) and one.cuts is None]
        if table is None or len(states) < len(names) or any(REST in own for own in states):
            return None
        return _arrange(table, names, self.columns, states)


def _arrange(
    table: Values, names: Names, columns: Mapping[str, ColumnTally], states: Sequence[Sequence[Hashable]]
) -> Values:
    """Return a table with its dimensions in another order of the states, which has all that occur."""
    result = np.zeros([len(own) for own in states])
    places = []
    for name, own in zip(names, states, strict=True):
        code_of = {state: code for code, state in enumerate(own)}
        places.append([code_of[state] for state in columns[name].counts or ()])
    result[np.ix_(*places)] = table
    return result


@dataclass(frozen=True)
class ProfileTask(Task):
    """Finds out what the columns are.

    Attributes
    ----------
    schema : pyarrow.Schema
    kinds : mapping from column to "discrete" or "continuous"
    weights : str, optional
    families : tuple
        Columns that are to be counted jointly.
    units : mapping from column to Unit
        Columns of text that are dates or times.
    count : CountColumns, optional
        Counts them.
    """

    schema: Any
    kinds: Mapping[str, str]
    weights: str | None = None
    families: tuple[Names, ...] = ()
    units: Mapping[str, Unit] = field(default_factory=dict)
    count: CountColumns | None = None

    @property
    def columns(self) -> Sequence[str]:  # type: ignore[override]
        """All columns."""
        return list(self.schema.names)

    def learn(self, batch: Batch) -> Profile | None:
        """Return the profile of a batch."""
        return self.learn_rows([batch]) if batch.data.num_rows else None

    def learn_fragment(self, fragment: Fragment) -> Profile | None:
        """Return the profile of a fragment, with codes that are the same in all of its batches."""
        with name_file_in_errors(fragment.shown):
            profile = self.learn_rows(fragment.batches(self.columns))
        return profile if profile.rows else None

    def learn_rows(self, batches: Iterable[Batch]) -> Profile:
        """Return the profile of all rows of some batches."""
        columns: dict[str, Any] = {
            one.name: _open_column(one.name, one.type, self.kinds.get(one.name), self.units.get(one.name))
            for one in self.schema
        }
        tables: dict[Names, Values] = {}
        rows, weight, weights = 0, 0.0, None
        ends: dict[int, int] = {}
        for batch in batches:
            file, place = divmod(batch.first, 1 << FILE_BITS)
            ends[file] = place + batch.data.num_rows
            if self.weights is not None:
                weights = np.nan_to_num(read_numbers(self.weights, batch.data.column(self.weights)))
            with shift_lines_in_errors(-1, place, "row"):
                codes = {name: column.add(batch, weights) for name, column in columns.items()}
            rows += batch.data.num_rows
            weight += float(batch.data.num_rows if weights is None else weights.sum())
            counted = self._count(tables, columns, codes, weights)
            whole = weights is None and not any(batch.data.column(name).null_count for name in self._given)
            for name, own in codes.items():
                if own is not None:
                    # the counts of states are margins of tables that count every row
                    table = counted.get(name) if whole else None
                    columns[name].count(own, None if table is None else table.sum(axis=0))
        tallies = {name: column.tally() for name, column in columns.items()}
        return Profile(rows, weight, tallies, tables, weights is not None, ends)

    @property
    def _given(self) -> Names:
        """The columns with which others are counted."""
        return tuple(dict.fromkeys(name for family in self.families for name in family[:-1]))

    def _count(
        self,
        tables: dict[Names, Values],
        columns: Mapping[str, Any],
        codes: Mapping[str, NDArray[Any] | None],
        weights: Values | None,
    ) -> dict[str, Values]:
        """Add the counts of a batch; return those of each column with one other."""
        open_names = {name for family in self.families for name in family}
        known = {name: own for name in open_names if (own := codes.get(name)) is not None}
        sizes = {name: max(len(columns[name].coder.states), 1) for name in known}
        families = [
            family
            for family in self.families
            if all(name in known and not columns[name].lost for name in family)
            and math.prod(sizes[name] for name in family) <= _OPEN_CELLS
        ]
        counted = {} if self.count is None or not families else self.count(known, sizes, weights, families)
        for family in tables.keys() - counted.keys():
            del tables[family]
        for family, table in counted.items():
            if family in tables and tables[family].shape != table.shape:
                before, tables[family] = tables[family], np.zeros(table.shape)
                tables[family][tuple(map(slice, before.shape))] = before
            tables[family] = tables[family] + table if family in tables else table
        return {family[1]: table for family, table in counted.items() if len(family) == 2}


class _OpenColumn:
    """What the batches so far tell of a column."""

    def __init__(self, name: str, fault: UnsupportedType | None = None) -> None:
        self.name, self.fault = name, fault
        self.missing = self.lost = 0

    def add(self, batch: Batch, weights: Values | None) -> NDArray[Any] | None:
        """Add a batch; return its codes if the column has states."""
        column = batch.data.column(self.name)
        self.missing += column.null_count
        return None

    def tally(self) -> ColumnTally:
        """Return what is known."""
        return ColumnTally(self.missing if self.fault is None else 0, fault=self.fault)


class _States(_OpenColumn):
    """States: text, integers and dictionaries of these, which are coded as they are, and any other type."""

    def __init__(self, name: str, declared: Any) -> None:
        super().__init__(name)
        self.declared = declared
        self.coder = StateCoder()
        self.counts: NDArray[np.int64] = np.zeros(0, np.int64)

    def add(self, batch: Batch, weights: Values | None) -> NDArray[Any] | None:
        column = batch.data.column(self.name)
        if can_be_coded(column.type):
            return self.coder.encode(column)
        cells = read_cells(self.name, pyarrow.chunked_array([column]), self.declared)
        return np.asarray(np.array([*self.coder.number(cells.states or ()), -1])[cells.array])

    def count(self, codes: NDArray[Any], margin: Values | None) -> None:
        """Add the codes of a batch, whose observed ones may have been counted already, and drop rare states where there
        are too many.
        """
        size = len(self.coder.states)
        if margin is None:
            counts = np.bincount(codes.astype(np.intp) + 1, minlength=size + 1)[1:]
        else:
            # a table has room for a state at least
            counts = margin.astype(np.int64)[:size]
        self.missing += len(codes) - int(counts.sum())
        counts[: len(self.counts)] += self.counts
        self.counts = counts
        if size > 2 * TRACKED:
            kept, taken = keep_frequent(self._list())
            self.lost += taken
            self.coder, self.counts = StateCoder(kept), np.array([*kept.values()], np.int64)

    def _list(self) -> dict[Hashable, int]:
        return dict(zip(self.coder.states, self.counts.tolist(), strict=True))

    def tally(self) -> ColumnTally:
        counts, taken = keep_frequent(self._list())
        return ColumnTally(self.missing, counts, self.lost + taken)


class _Numbers(_OpenColumn):
    """Numbers, dates and times, also those in text, whose unit is known."""

    def __init__(self, name: str, kind: Any, declared: Any, unit: Unit | None = None) -> None:
        super().__init__(name)
        self.kind, self.declared, self.unit = kind, declared, unit
        self.low, self.high = math.inf, -math.inf
        self.integer = True

    def add(self, batch: Batch, weights: Values | None) -> NDArray[Any] | None:
        values = self._read(batch.data.column(self.name))
        holes = int(np.count_nonzero(np.isnan(values)))
        self.missing += holes
        if holes < len(values):
            self.integer = self.integer and (self.kind == "integer" or self.name in batch.whole)
        counted = values if weights is None else values[weights > 0]
        # these leave holes out
        self.low = float(np.fmin.reduce(counted, initial=self.low))
        self.high = float(np.fmax.reduce(counted, initial=self.high))
        return None

    def _read(self, column: Any) -> Values:
        if self.kind in NUMBERS:
            return read_numbers(self.name, column)
        moments = read_moments(column, Continuous(self.name, unit=self.unit))
        if moments is not None:
            return moments
        if self.kind == "text":
            # files may give texts as a dictionary
            column = decode_column(column)
        cells = read_cells(self.name, pyarrow.chunked_array([column]), self.declared, self.unit)
        if cells.unit is not None:
            self.unit = replace(cells.unit, step=min(cells.unit.step, (self.unit or cells.unit).step))
        return cells.array

    def tally(self) -> ColumnTally:
        return ColumnTally(self.missing, None, 0, self.low, self.high, integer=self.integer, unit=self.unit)


def _open_column(name: str, kind: Any, declared: Any, unit: Unit | None) -> _OpenColumn:
    if unit is not None:
        return _Numbers(name, "text", None, unit)
    types, held = pyarrow.types, kind_of_type(kind)
    if types.is_null(kind):
        return _OpenColumn(name)
    try:
        read_cells(name, pyarrow.chunked_array([], kind), declared)
    except UnsupportedType as error:
        return _OpenColumn(name, error)
    if declared != "continuous" and (types.is_dictionary(kind) or held in ("text", "bool") or declared == "discrete"):
        return _States(name, declared)
    return _Numbers(name, "other" if types.is_dictionary(kind) else held, declared)


def make_variable(
    name: str, tally: ColumnTally, kind: Any, declared: Any, note: Mapping[str, Any], most_states: int
) -> Variable | None:
    """Return the variable of a column of which all rows are known; None where nothing tells its states.

    Parameters
    ----------
    kind : Arrow type
    declared : "discrete", "continuous" or None
    note : mapping
        What hybridbn noted about the column when it wrote the table.
    most_states : int
        The most states that a column has without a rest.
    """
    if tally.counts is None:
        return Continuous(name, unit=tally.unit)
    if declared is None and note.get("states"):
        return Discrete(name, states=tuple(note["states"]))
    types = pyarrow.types
    listed = list(tally.counts)
    if len(listed) > most_states or tally.lost:
        if listed and declared is None and not types.is_dictionary(kind) and is_all_different(tally):
            return Discrete(name, states=tuple(listed))
        listed = sorted(listed, key=lambda state: (-(tally.counts or {})[state], str(state)))[: most_states - 1]
        return Discrete(name, states=(*(_sort_states(name, listed, False).states or ()), REST))
    is_dictionary = bool(types.is_dictionary(kind))
    if not is_dictionary and declared != "discrete" and isinstance(next(iter(listed), None), str):
        moments = count_texts(name, np.arange(len(listed)), tuple(map(str, listed)), None)
        if moments is not None and moments.unit is not None:
            return Continuous(name, unit=moments.unit)
    if types.is_boolean(kind):
        return Discrete(name, states=(False, True))
    states = _sort_states(name, listed, is_dictionary).states
    return Discrete(name, states=states) if states else None


def is_all_different(tally: ColumnTally) -> bool:
    """Tell whether every observed value occurs once, as in a column of identifiers."""
    return max((tally.counts or {}).values(), default=0) + tally.lost <= 1 or (
        tally.lost > 0 and sum((tally.counts or {}).values()) == 0
    )


def _sort_states(name: str, states: Sequence[Hashable], declared: bool) -> Cells:
    return label_codes(name, np.arange(len(states)), states, declared=declared)
