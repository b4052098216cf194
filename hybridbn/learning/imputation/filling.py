"""Filling the holes of rows that are read some at a time; each row gets the cells that it gets among all rows."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hybridbn.backends.transformed import find_place
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
    given : Keys or range, optional
        Those of all rows, or identifiers that are all different; otherwise keys are made of observed cells.
    places, counts : ndarray
        The rows before which there were equal ones, and how many.
    """

    given: Any = None
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
        if isinstance(self.given, range):
            return hash_identifiers(np.array(self.given)[places] if len(self.places) else places, len(places))
        if self.given is not None:
            return np.asarray(self.given[places])
        counts = np.zeros(len(places), dtype=np.uint64)
        position = np.searchsorted(self.places, places)
        equal = np.flatnonzero(position < len(self.places))
        equal = equal[self.places[position[equal]] == places[equal]]
        counts[equal] = self.counts[position[equal]]
        return tell_apart(hash_cells(rows.working), counts)
