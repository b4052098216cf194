"""Profile a table in one pass: the kind, range and states of each column, missing cells, and a sample of rows to learn
from.
"""

from __future__ import annotations

import contextlib
import math
import warnings
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hybridbn.errors import TableError
from hybridbn.learning.imputation.columns import ROUNDED_ROWS, describe_identifier
from hybridbn.learning.imputation.rules import decimals_of
from hybridbn.tables import Table
from hybridbn.tables.cells import Cells, UnsupportedType, state_kind, warn_of_ambiguity
from hybridbn.tables.formats.base import Kinds, TableBlock, TableSource
from hybridbn.tables.formats.typed_columns import DeclaredKind, type_texts
from hybridbn.tables.rows import RowSample
from hybridbn.units import PatternFinder, Unit, coarsest_step, unit_of_pattern
from hybridbn.variables import shorten

__all__ = ["ColumnProfile", "TableProfile", "find_units", "profile_table"]

MOST_STATES = 10_000
"""A column with more states than this is left out: its table of probabilities would not fit into memory."""
_MOST_PATTERNS = 5_000
"""Only this many patterns of missing cells are counted one by one, which bounds the memory they take."""
_REMEDY = "if it marks a missing cell, name it with --missing; else mend the cell"
"""The advice at the end of errors about a cell."""


class MixedColumn(TableError):
    """A column has values of several types; `row` has the first one that differs."""

    def __init__(self, row: int, text: str) -> None:
        super().__init__(text)
        self.row = row


@dataclass
class ColumnProfile:
    """The kind, range and states of one column.

    Attributes
    ----------
    kind : "number", "states" or None
        None if no cell is observed.
    unit : Unit, optional
        Of dates and times, which are numbers; its step is the coarsest that all of them are multiples of.
    integer : bool
        Whether all numbers are of an integer type.
    whole : bool
        Whether all numbers are whole.
    low, high : float
        The least and the greatest number.
    bulk : (low, high), optional
        The range of nearly all numbers, if a few lie far outside of it.
    observed, missing : int
        Counts of cells.
    codes : mapping from state to int
        Codes in the order of the states' first rows; the keys are texts while a source that spells states is read.
    spelling : mapping from state to text
        How a source that spells states writes them.
    declared : tuple, optional
        The states that the column's type lists, in their order.
    overflowing : bool
        Whether the column has too many states.
    unusable : str, optional
        Why nothing can be done with the column, whose cells are not read then.
    states : tuple
        The states in their order, when the whole table has been read.
    """

    name: str
    kind: str | None = None
    unit: Unit | None = None
    integer: bool = True
    whole: bool = True
    low: float = math.inf
    high: float = -math.inf
    bulk: tuple[float, float] | None = None
    observed: int = 0
    missing: int = 0
    codes: dict[Hashable, int] = field(default_factory=dict)
    spelling: dict[Hashable, str] = field(default_factory=dict)
    declared: tuple[Hashable, ...] | None = None
    overflowing: bool = False
    unusable: str | None = None
    states: tuple[Hashable, ...] = ()

    @property
    def reason_alone(self) -> str | None:
        """Why the column is left alone, in a few words; None where it is not."""
        if self.unusable is not None:
            return self.unusable
        if self.kind is None:
            return "no value"
        if self.overflowing:
            return "too many different values"
        if self.kind != "states":
            return None
        return describe_identifier(self.states, self.observed, declared=self.declared is not None)

    @property
    def identifier(self) -> bool:
        """Whether the column looks like an identifier or free text, or has too many states."""
        return self.kind is not None and self.reason_alone is not None

    def restore(self, values: Sequence[Any]) -> list[Any]:
        """Return imputed values as what the column holds: dates and times as those of Python, or as text."""
        if self.unit is None:
            return list(values)
        if self.unit.pattern is not None:
            return [self.unit.text(value) for value in values]
        return self.unit.list_values(np.array(values, dtype=np.float64))

    def add_cells(self, cells: Cells, start: int) -> NDArray[Any]:
        """Add the cells of a block; return them as numbers or as codes of states, NaN where one is missing."""
        holes = cells.missing
        count = int(holes.sum())
        self.missing += count
        self.observed += len(holes) - count
        if count == len(holes):
            if cells.states and cells.declared:
                self._add_states(cells, start, holes)
            return np.full(len(holes), np.nan)
        kind = "number" if cells.states is None else "states"
        if self.kind is None:
            self.kind = kind
        elif self.kind != kind:
            raise self._mixture_error(cells, start + int(np.argmin(holes)), start)
        if kind == "states":
            return self._add_states(cells, start, holes)
        observed = cells.array[~holes]
        if cells.unit is not None:
            steps = [coarsest_step(observed, cells.unit), *([] if self.unit is None else [self.unit.step])]
            self.unit = replace(self.unit or cells.unit, step=min(steps))
        self.integer = self.integer and cells.integer
        self.whole = self.whole and self.unit is None and decimals_of(observed) == 0
        self.low, self.high = min(self.low, float(observed.min())), max(self.high, float(observed.max()))
        return np.asarray(cells.array, dtype=np.float64)

    def _add_states(self, cells: Cells, start: int, holes: NDArray[np.bool_]) -> NDArray[Any]:
        states = cells.states or ()
        if cells.declared and not all(isinstance(state, bool) for state in states):
            self.declared = tuple(dict.fromkeys((*(self.declared or ()), *states)))
        present, positions = np.unique(cells.array[~holes], return_index=True)
        rows = np.flatnonzero(~holes)[positions] + start
        lookup = np.full(len(states) + 1, np.nan)
        for code, row in sorted(zip(present.tolist(), rows.tolist(), strict=True), key=lambda pair: pair[1]):
            state = states[code]
            number = self.codes.get(state)
            if number is None:
                if self.codes and state_kind(state) != state_kind(next(iter(self.codes))):
                    raise self._mixture_error(cells, row, start)
                if len(self.codes) >= MOST_STATES:
                    self.overflowing = True
                    continue
                number = self.codes[state] = len(self.codes)
            lookup[code] = number
        return np.asarray(lookup[cells.array])

    def _mixture_error(self, cells: Cells, row: int, start: int) -> TableError:
        value = cells.array[row - start] if cells.states is None else cells.states[cells.array[row - start]]
        before = "numbers" if self.kind == "number" else f"{state_kind(next(iter(self.codes)))} values"
        return MixedColumn(
            row,
            f"column {self.name!r} mixes {before} with others ({value!r} in {{place}}); {_REMEDY}; if these are states,"
            f" say --discrete {self.name}",
        )

    def finish(self, spelled: bool, declared_kind: DeclaredKind | None) -> None:
        """Put the states in order, after converting those of a source that spells them from text."""
        keys = list(self.codes)
        states: list[Hashable] = keys
        if spelled:
            texts = [str(state) for state in keys]
            cells, _ = type_texts(self.name, np.arange(len(texts)), texts, declared_kind, _REMEDY)
            if cells.states is None:
                raise TableError(f"column {self.name!r} holds texts such as {shorten(texts)}; {_REMEDY}")
            states = [cells.states[code] for code in cells.array]
            for state, text in zip(states, texts, strict=True):
                self.spelling.setdefault(state, text)
        distinct = list(dict.fromkeys(states))
        if self.declared is not None:
            order = {state: code for code, state in enumerate(self.declared)}
            distinct.sort(key=lambda state: order.get(state, len(order)))
        else:
            with contextlib.suppress(TypeError):
                distinct = sorted(distinct)  # type: ignore[type-var]
        self.states = tuple(distinct)
        positions = {state: code for code, state in enumerate(self.states)}
        self.codes = {text: positions[state] for text, state in zip(keys, states, strict=True)}


@dataclass
class TableProfile:
    """The profiles of a table's columns, its patterns of missing cells, and a sample of its rows.

    Attributes
    ----------
    columns : mapping from name to ColumnProfile
        The columns that are used.
    rows : int
    patterns : mapping from int to int
        The number of rows with each pattern of missing cells; a pattern has a bit for each column.
    other_patterns : int
        The number of rows with patterns that are not counted one by one.
    blank : int
        The number of rows in which all of these columns are missing.
    """

    columns: dict[str, ColumnProfile] = field(default_factory=dict)
    rows: int = 0
    patterns: dict[int, int] = field(default_factory=dict)
    other_patterns: int = 0
    blank: int = 0
    sample_rows: NDArray[np.uint64] = field(default_factory=lambda: np.zeros(0, np.uint64))
    sample: dict[str, NDArray[Any]] = field(default_factory=dict)

    def kinds_to_read(self, names: Iterable[str], source: TableSource) -> dict[str, Any]:
        """Return as what the cells of columns must be read again, to be aligned."""
        kinds: dict[str, Any] = {}
        for name in names:
            column = self.columns[name]
            if column.kind == "states":
                kinds[name] = "text" if source.spelled else "discrete"
            elif column.unit is not None:
                kinds[name] = column.unit
        return kinds

    def align_cells(self, name: str, cells: Cells | None, rows: int) -> Cells:
        """Return the cells of a block, coded by the states of the whole table."""
        column = self.columns[name]
        if column.kind == "number":
            array = cells.array if cells is not None and cells.states is None else np.full(rows, np.nan)
            return Cells(array, integer=column.integer, unit=column.unit)
        lookup = np.array([*(column.codes.get(s, -1) for s in (cells.states if cells else None) or ()), -1], np.intp)
        array = np.full(rows, -1, np.intp) if cells is None or cells.states is None else lookup[cells.array]
        return Cells(array, column.states, declared=column.declared is not None)

    def limit_sample(self, numbers: float) -> None:
        """Thin out the sample until an array of its rows by all states and columns of numbers has at most `numbers`
        cells.
        """
        width = sum(max(len(column.states), 1) for column in self.columns.values() if not column.identifier)
        most = max(int(numbers / max(width, 1)), 2000)
        if len(self.sample_rows) > most:
            self.keep_sample(RowSample(self.sample_rows, self.sample).finish(most))

    def keep_sample(self, sample: RowSample) -> None:
        """Take rows as the sample."""
        self.sample_rows, self.sample = sample.rows, sample.columns

    def sample_table(self, names: Iterable[str]) -> Table:
        """Return some columns of the sample as a table."""
        cells = {}
        for name in names:
            column, values = self.columns[name], self.sample[name]
            if column.kind == "number":
                cells[name] = Cells(np.array(values), integer=column.integer, unit=column.unit)
            else:
                lookup = np.array([*column.codes.values(), -1], dtype=np.intp)
                codes = np.where(np.isnan(values), -1, values).astype(np.intp)
                cells[name] = Cells(lookup[codes], column.states)
        return Table.from_cells(cells)


def profile_table(
    source: TableSource,
    rows: int,
    kinds: Kinds,
    keep: frozenset[str],
    sample: int,
    report_rows: Callable[[int], None] = lambda _: None,
) -> TableProfile:
    """Profile a table, reading it once in blocks of `rows` rows.

    Parameters
    ----------
    kinds : mapping from column to its declared kind
    keep : frozenset of str
        Columns that are left out.
    sample : int
        The number of rows to sample for learning.
    report_rows : callable
        Called with the number of rows read so far.
    """
    profile, rows_kept = TableProfile(), RowSample(np.zeros(0, np.uint64), {})
    least_steps: dict[str, int] = {}
    kinds = {**kinds, **find_units(source, rows, kinds, keep)}
    declared_kinds: dict[str, Any] = dict(kinds)
    if source.spelled:
        declared_kinds |= {name: "text" for name, kind in kinds.items() if kind == "discrete"}
    for block in source.blocks(rows):
        names = [name for name in source.names if name not in keep]
        _add_columns(profile, names, profile.rows)
        used = [name for name in names if profile.columns[name].unusable is None]
        try:
            cells, unusable = _read_cells(block, source, used, declared_kinds)
        except TableError as error:
            for name in used:
                if f"column {name!r}" in str(error):
                    source.refuse_mixture(name, kinds.get(name))
            raise
        for name, reason in unusable.items():
            profile.columns[name].unusable, profile.columns[name].kind = reason, None
        values, holes = {}, np.ones((block.rows, len(names)), dtype=bool)
        for index, name in enumerate(names):
            column = profile.columns[name]
            if column.unusable is not None:
                holes[:, index] = False
                continue
            if name not in cells:
                column.missing += block.rows
                continue
            holes[:, index] = cells[name].missing
            if (unit := cells[name].unit) is not None:
                least_steps[name] = min(unit.step, least_steps.get(name, unit.step))
            try:
                values[name] = column.add_cells(cells[name], block.start)
            except MixedColumn as error:
                source.refuse_mixture(name, kinds.get(name))
                raise TableError(str(error).replace("{place}", source.line_of(error.row))) from None
        _count_patterns(profile, holes)
        rows_kept += RowSample(np.arange(block.start, block.start + block.rows, dtype=np.uint64), values).finish(sample)
        rows_kept = rows_kept.finish(sample) if len(rows_kept.rows) > 2 * sample else rows_kept
        profile.rows += block.rows
        report_rows(profile.rows)
    if not profile.rows:
        first = source.span.start
        raise TableError(f"the table has no row {first:,}, where --rows begins" if first else "the table has no rows")
    for name, column in profile.columns.items():
        if column.kind == "states":
            try:
                column.finish(source.spelled, "text" if column.overflowing else kinds.get(name))
            except TableError:
                source.refuse_mixture(name, kinds.get(name))
                raise
    profile.keep_sample(rows_kept.finish(sample))
    for name, column in profile.columns.items():
        if column.unit is not None and column.observed < ROUNDED_ROWS:
            column.unit = replace(column.unit, step=least_steps[name])
        if column.kind == "number":
            column.bulk = _find_bulk(profile.sample[name], column.low, column.high)
    for name in profile.columns:
        profile.sample.setdefault(name, np.full(len(profile.sample_rows), np.nan))
    return profile


def find_units(source: TableSource, rows: int, kinds: Kinds, keep: frozenset[str]) -> dict[str, DeclaredKind]:
    """Return how columns of text that begin as dates or times are to be read, after looking at all of their cells.

    By the pattern that all of them follow; as text where they follow none. Of other columns only the first cells are
    read.

    Parameters
    ----------
    kinds : mapping from column to its declared kind
    keep : frozenset of str
        Columns that are left out.
    """
    finders: dict[str, PatternFinder] = {}
    settled = {name for name, kind in kinds.items() if kind in ("discrete", "text")} | keep
    units: dict[str, DeclaredKind] = {}
    for block in source.blocks(rows):
        unsettled = [name for name in source.names if name not in settled and name not in finders]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            declared = {name: kind for name, kind in kinds.items() if name in unsettled}
            cells, unusable = _read_usable(block, unsettled, declared)
        settled.update(unusable)
        for name, column_cells in cells.items():
            if (
                column_cells.unit is not None
                and column_cells.unit.pattern is not None
                and source.field(name).unit is None
            ):
                kind = kinds.get(name)
                finders[name] = PatternFinder(kind.pattern if isinstance(kind, Unit) else None)
            elif not column_cells.missing.all():
                settled.add(name)
        texts_of_block = block.cells(list(finders), dict.fromkeys(finders, "text")) if finders else {}
        for name, column_cells in texts_of_block.items():
            used = np.unique(column_cells.array[~column_cells.missing]).tolist()
            texts = [str((column_cells.states or ())[code]) for code in used]
            if texts and not finders[name].add(texts if not source.spelled else filter(None, texts)):
                settled.add(name)
                del finders[name]
                if kinds.get(name) is None:
                    units[name] = "text"
        if settled >= set(source.names):
            break
    for name, finder in finders.items():
        if finder.pattern is not None:
            units[name] = unit_of_pattern(finder.pattern, finder.zone)
            if finder.ambiguous:
                warn_of_ambiguity(name, finder)
    return units


def _find_bulk(values: NDArray[Any], low: float, high: float) -> tuple[float, float] | None:
    """Return the range of nearly all numbers if some lie far outside of it, else None."""
    observed = values[~np.isnan(values)]
    first, last = np.quantile(observed, (0.05, 0.95)).tolist() if len(observed) else (0.0, 0.0)
    if not 0 < last - first < (high - low) / 6:
        return None
    return max(low, 2 * first - last), min(high, 2 * last - first)


def _read_usable(block: TableBlock, names: list[str], kinds: Kinds) -> tuple[dict[str, Cells], dict[str, str]]:
    """Return the cells of those columns that can be used, and why the others can't."""
    if not names:
        return {}, {}
    try:
        return block.cells(names, kinds), {}
    except UnsupportedType:
        cells: dict[str, Cells] = {}
        unusable: dict[str, str] = {}
        for name in names:
            try:
                cells |= block.cells([name], {name: kinds[name]} if name in kinds else {})
            except UnsupportedType as error:
                if name in kinds:
                    raise
                unusable[name] = error.reason
        return cells, unusable


def _read_cells(
    block: TableBlock, source: TableSource, names: list[str], declared_kinds: dict[str, Any]
) -> tuple[dict[str, Cells], dict[str, str]]:
    cells, unusable = _read_usable(block, names, declared_kinds)
    if source.spelled:
        retyped = []
        for name, column_cells in cells.items():
            if column_cells.states and name not in declared_kinds:
                declared_kinds[name] = "text"
                if not isinstance(column_cells.states[0], str):
                    retyped.append(name)
        cells |= block.cells(retyped, declared_kinds) if retyped else {}
    return cells, unusable


def _add_columns(profile: TableProfile, names: list[str], start: int) -> None:
    """Add columns that occur in JSON lines for the first time; their cells are missing in all earlier rows."""
    for name in names:
        if name not in profile.columns:
            bit = 1 << len(profile.columns)
            profile.columns[name] = ColumnProfile(name, missing=start)
            profile.patterns = {pattern | bit: count for pattern, count in profile.patterns.items()}


def _count_patterns(profile: TableProfile, holes: NDArray[np.bool_]) -> None:
    if not holes.size:
        return
    profile.blank += int(holes.all(axis=1).sum())
    packed = np.packbits(holes, axis=1, bitorder="little")
    distinct, counts = np.unique(packed.view([("", packed.dtype)] * packed.shape[1]).ravel(), return_counts=True)
    for pattern, count in zip(distinct, counts.tolist(), strict=True):
        key = int.from_bytes(pattern.tobytes(), "little")
        if key in profile.patterns or len(profile.patterns) < _MOST_PATTERNS:
            profile.patterns[key] = profile.patterns.get(key, 0) + count
        else:
            profile.other_patterns += count
