"""Filling the holes of rows that are read some at a time; each row gets the cells that it gets among all rows."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hybridbn.estimation.row_uniforms import Keys, count_repeats, hash_cells, hash_identifiers, tell_apart
from hybridbn.learning.imputation.data_augmentation import FittedImputation
from hybridbn.learning.imputation.model import Fills, IncompleteRows, Model, read_rows
from hybridbn.tables import Rows, Table
from hybridbn.tables.adapters.arrow import replace_cells
from hybridbn.tables.frames import Frame, open_frame
from hybridbn.variables import Discrete

__all__ = ["Filler", "complete_batches"]


@dataclass(frozen=True)
class Filler:
    """Fills holes by models, one for each draw; `history` has what each round of learning drew."""

    models: Sequence[Model]
    strategy: str
    seed: int
    history: list[dict[str, Any]] = field(default_factory=list)

    @classmethod
    def of(cls, fitted: FittedImputation, strategy: str, draws: int | None) -> Filler:
        """Return the filler of what was learned."""
        return cls(list(fitted.models(draws)), strategy, fitted.seed, list(fitted.history))

    @property
    def names(self) -> list[str]:
        """The columns whose missing cells are imputed."""
        return list(self.models[0].columns.variables)

    def read(self, frame: Frame, declared: Table | None = None) -> IncompleteRows:
        """Return some rows as the models read them; what is to be said of all rows was said of the sample."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return read_rows(frame, self.models[0], "missing", declared)

    def fill(self, rows: IncompleteRows, keys: Keys, draw: int = 0) -> Fills:
        """Return the values that fill the holes of each column."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return self.models[draw].fill(rows, self.strategy, keys, self.seed + draw)

    def fill_table(self, draw: int, table: Table, first: int) -> dict[str, tuple[NDArray[np.intp], list[Any]]]:
        """Return the rows with a hole in each column, and what fills it, of rows that are known by their numbers."""
        open_rows = find_open_rows(table)
        rows = self.read(open_frame(table.take(open_rows)))
        fills = self.fill(rows, hash_identifiers(open_rows + first, len(open_rows)), draw)
        return {name: (open_rows[rows.holes[name]], values.tolist()) for name, values in fills.items()}


def find_open_rows(table: Table) -> NDArray[np.intp]:
    """Return the rows with a missing cell."""
    return np.flatnonzero(np.any([table.cells(name).missing for name in table.names], axis=0))


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
