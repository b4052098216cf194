"""What is known of a table's columns after a scan: what the verbs that read tables say of them, and how they are
written.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hybridbn.tables import Rows, Table
from hybridbn.tables.cells import REST, Cells, recode_cells
from hybridbn.tables.columns import blank_cells, match_marks
from hybridbn.tables.formats.base import TableBlock
from hybridbn.tables.formats.typed_columns import WantedColumns
from hybridbn.tables.scales import decimals_of, find_bulk
from hybridbn.units import Unit
from hybridbn.variables import Continuous, Discrete, Variable

_SAMPLE_NUMBERS = 20_000_000
"""The largest array of learning has at most this many numbers; it has a column for each state."""
_LEAST_SAMPLE = 2_000


@dataclass
class ColumnProfile:
    """What is known of a column.

    Attributes
    ----------
    variable : Variable, optional
        What it is; None where no cell is observed, or nothing can be computed with it.
    observed, missing : int
        Counts of cells.
    low, high : float
        The least and the greatest number.
    integer : bool
        Whether all numbers are of an integer type, or are written as whole numbers.
    draw : callable, optional
        Returns some rows.
    unusable : str, optional
        Why nothing can be computed with the column.
    """

    name: str
    variable: Variable | None = None
    observed: int = 0
    missing: int = 0
    low: float = 0.0
    high: float = 0.0
    integer: bool = False
    draw: Callable[[], Table] | None = None
    unusable: str | None = None

    @property
    def kind(self) -> str | None:
        """What the cells are: "number" or "states", None where no variable is known."""
        return None if self.variable is None else "number" if isinstance(self.variable, Continuous) else "states"

    @property
    def states(self) -> tuple[Hashable, ...]:
        """The states in their order; those of a column with too many of them are the most frequent ones."""
        return self.variable.states if isinstance(self.variable, Discrete) else ()

    @property
    def overflowing(self) -> bool:
        """Whether the column has too many states."""
        return self.states[-1:] == (REST,)

    @cached_property
    def unit(self) -> Unit | None:
        """That of dates and times, which are numbers; its step is the coarsest that all of them are multiples of."""
        unit: Unit | None = getattr(self.variable, "unit", None)
        return unit if unit is None or self.draw is None else self.draw().scaled(self.name).unit

    @cached_property
    def numbers(self) -> NDArray[Any]:
        """The observed numbers of some rows."""
        sample = np.zeros(0) if self.draw is None else self.draw().column(self.name)
        return np.asarray(sample[~np.isnan(sample)])

    @cached_property
    def whole(self) -> bool:
        """Whether all numbers of some rows are whole, and there are any."""
        return self.kind == "number" and self.unit is None and len(self.numbers) > 0 and decimals_of(self.numbers) == 0

    @cached_property
    def bulk(self) -> tuple[float, float] | None:
        """The range of nearly all numbers if some lie far outside of it, else None."""
        return find_bulk(self.numbers, self.low, self.high) if self.kind == "number" else None

    @cached_property
    def reason_alone(self) -> str | None:
        """Why the column is left alone, in a few words; None where it is not."""
        if self.variable is None:
            return self.unusable
        if self.overflowing:
            return "too many different values"
        return None if self.draw is None else self.draw().reason_alone(self.name)

    def restore(self, values: Sequence[Any]) -> list[Any]:
        """Return imputed values as what the column holds: dates and times as those of Python, or as text."""
        if self.unit is None:
            return list(values)
        if self.unit.pattern is not None:
            return [self.unit.text(value) for value in values]
        return self.unit.list_values(np.array(values, dtype=np.float64))


@dataclass(frozen=True)
class TableProfile:
    """What is known of a table.

    Attributes
    ----------
    usable : Rows
        Its rows, of the columns that something can be computed with.
    columns : mapping from name to ColumnProfile
        All columns that are not left out.
    most : int
        The most rows of the sample.
    """

    usable: Rows
    columns: Mapping[str, ColumnProfile]
    most: int

    @cached_property
    def sample(self) -> Table:
        """Some rows of the usable columns."""
        width = sum(max(len(one.states), 1) for one in self.columns.values() if one.observed >= 2 * len(one.states))
        return self.usable.sample(min(self.most, max(_SAMPLE_NUMBERS // max(width, 1), _LEAST_SAMPLE)))

    @property
    def rows(self) -> int:
        """The number of rows."""
        return len(self.usable)

    @cached_property
    def patterns(self) -> Counter[bytes]:
        """The number of rows with each pattern of missing cells, which has a byte for each of the usable columns."""
        return (self.sample if len(self.sample) == self.rows else self.usable).learn(count_patterns)

    @cached_property
    def blank(self) -> int:
        """The number of rows in which all cells are missing."""
        may_be = all(column.missing for column in self.columns.values()) and len(self.usable.names) > 0
        return self.patterns[b"\1" * len(self.usable.names)] if may_be else 0


def count_patterns(table: Table, first: int) -> Counter[bytes]:
    """Return how many rows of a batch have which missing cells.

    Examples
    --------
    >>> count_patterns(Table({"x": [1.0, None, 2.0], "c": ["a", None, "b"]}), 0)[bytes([1, 1])]
    1
    """
    holes = np.column_stack([table.cells(name).missing for name in table.names])
    rows, counts = np.unique(holes, axis=0, return_counts=True)
    return Counter(dict(zip(map(bytes, rows), counts.tolist(), strict=True)))


def profile_columns(rows: Rows, names: Iterable[str], unusable: Mapping[str, str], most: int) -> TableProfile:
    """Return what rows tell of the columns of their source.

    Parameters
    ----------
    names : iterable of str
        All columns of the source that are not left out.
    unusable : mapping from column to reason
        Those that are not among the rows'.
    most : int
        The most rows of the sample.
    """
    columns: dict[str, ColumnProfile] = {}
    profile = TableProfile(rows.require_rows(), columns, most)
    for name in names:
        if name in unusable:
            missing = len(rows) if unusable[name] == "no value" else 0
            columns[name] = ColumnProfile(name, missing=missing, unusable=unusable[name])
            continue
        variable, missing = rows.variable(name), rows.count_missing(name)
        low, high = rows.value_range(name) if isinstance(variable, Continuous) else (0.0, 0.0)
        integer, observed = rows.is_integer(name), len(rows) - missing
        columns[name] = ColumnProfile(
            name, variable, observed, missing, low, high, integer, draw=lambda: profile.sample
        )
    return profile


def read_block(block: TableBlock, variables: Sequence[Variable], marks: Mapping[str, Sequence[str]]) -> Table:
    """Return a block as a table of variables; what is a mark or no state of theirs, or in no column of the block, is
    missing.
    """
    wanted, blank = WantedColumns.of((), (), None, None, variables), Cells(np.full(block.rows, np.nan))
    with warnings.catch_warnings(action="ignore"):
        cells = block.cells([variable.name for variable in variables], wanted.kinds)
        for name in marks.keys() & cells.keys():
            cells[name] = blank_cells(cells[name].widen(), match_marks(cells[name], marks[name]))
        read = {one.name: _recode(cells.get(one.name, blank), one) for one in variables}
        # the number of rows is all that there is of a table without columns
        return Table.from_cells(read or {"": blank})


def _recode(cells: Cells, variable: Variable) -> Cells:
    """Return cells as those of a variable, but numbers of one that is cut as they are."""
    if isinstance(variable, Discrete) and variable.cuts is not None:
        return cells
    return recode_cells(variable.name, cells, variable, unknown_missing=True)
