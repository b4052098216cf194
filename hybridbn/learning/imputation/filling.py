"""Filling the holes of rows that are read some at a time; each row gets the cells that it gets among all rows."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hybridbn.estimation.row_uniforms import Keys, count_repeats, hash_cells, hash_identifiers, tell_apart
from hybridbn.learning.imputation.data_augmentation import Filler, find_open_rows
from hybridbn.learning.imputation.model import IncompleteRows
from hybridbn.tables import Rows, Table
from hybridbn.tables.adapters.arrow import replace_cells
from hybridbn.tables.frames import open_frame
from hybridbn.variables import Discrete

__all__ = ["complete_batches"]


@dataclass(frozen=True)
class _RowKeys:
    """The keys of rows that are read in passes.

    Attributes
    ----------
    given : Keys, optional
        Those of all rows; otherwise keys are made of observed cells.
    places, counts : ndarray
        The rows before which there were equal ones, and how many.
    """

    given: Keys | None = None
    places: NDArray[np.intp] = field(default_factory=lambda: np.empty(0, dtype=np.intp))
    counts: Keys = field(default_factory=lambda: np.empty(0, dtype=np.uint64))

    @classmethod
    def of_cells(cls, data: Rows, filler: Filler) -> _RowKeys:
        """Return keys made of the observed cells of the incomplete rows, counting equal rows in a pass."""
        parts = list(data.answer(partial(_hash_open_rows, filler), [data.variable(name) for name in filler.names]))
        places, hashes = (np.concatenate([part[number] for part in parts]) for number in (0, 1))
        counts = count_repeats(hashes)
        return cls(None, places[counts > 0], counts[counts > 0])

    def of_rows(self, rows: IncompleteRows, places: NDArray[np.intp]) -> Keys:
        """Return the keys of some rows."""
        if self.given is not None:
            return self.given[places]
        if not rows.working.names:
            return hash_identifiers(places, len(places))
        counts = np.zeros(len(places), dtype=np.uint64)
        position = np.searchsorted(self.places, places)
        equal = np.flatnonzero(position < len(self.places))
        equal = equal[self.places[position[equal]] == places[equal]]
        counts[equal] = self.counts[position[equal]]
        return tell_apart(hash_cells(rows.working), counts)


def _hash_open_rows(filler: Filler, table: Table, first: int) -> tuple[NDArray[np.intp], Keys]:
    """Return the places of the incomplete rows of a batch, and hashes of their cells."""
    open_rows = find_open_rows(table)
    return open_rows + first, hash_cells(filler.read(open_frame(table.take(open_rows))).working)


@dataclass(frozen=True)
class _BatchFiller:
    """Fills the holes of the rows of an Arrow table.

    Attributes
    ----------
    discrete : tuple of str
        Columns of numbers that are read as states.
    """

    filler: Filler
    draw: int
    keys: _RowKeys
    discrete: tuple[str, ...]

    def __call__(self, first: int, table: Any) -> Any:
        """Return the table without holes, its types as they were; `first` is the place of the first row."""
        import pyarrow

        whole = table.select(self.filler.names)
        masks = [_find_holes(column) for column in whole.columns]
        open_rows = np.flatnonzero(np.any(masks, axis=0))
        if not len(open_rows):
            return table
        frame = open_frame(whole.take(pyarrow.array(open_rows)))
        rows = self.filler.read(frame, Table(frame, discrete=self.discrete) if self.discrete else None)
        keys = self.keys.of_rows(rows, open_rows + first)
        completed = self.filler.models[self.draw].complete(rows, self.filler.fill(rows, keys, self.draw), {})
        for name, mask in zip(whole.column_names, masks, strict=True):
            if mask.any():
                place = table.column_names.index(name)
                part = completed.column(name).cast(table.column(place).type)
                filled = replace_cells(table.column(place), open_rows, part)
                table = table.set_column(place, table.schema.field(place), filled)
        return table


def _find_holes(column: Any) -> Any:
    import pyarrow.compute as compute

    return compute.is_null(column, nan_is_null=True).to_numpy()


def complete_batches(data: Any, filler: Filler, keys: Any) -> list[Any]:
    """Return a scan for each draw, whose rows are completed while they are read.

    Parameters
    ----------
    data : Scan
    keys : as in `impute`

    Examples
    --------
    >>> import hybridbn as hb
    >>> scan = hb.scan({"x": [1.0, 2.0, None, 4.0] * 9, "c": ["a", None, "b", "b"] * 9})
    >>> completed = hb.impute(scan, random_state=0)
    >>> completed.missing
    {'x': 0, 'c': 0}
    """
    variables = map(data.variable, filler.names)
    discrete = tuple(
        variable.name
        for variable in variables
        if isinstance(variable, Discrete)
        and variable.cuts is None
        and all(type(state) in (int, float) for state in variable.states)
    )
    row_keys = _RowKeys.of_cells(data, filler) if keys is None else _RowKeys(hash_identifiers(keys, len(data)))
    return [data.transform(_BatchFiller(filler, draw, row_keys, discrete)) for draw in range(len(filler.models))]
