"""Samples of rows that are the same whoever reads the table, and in batches of whatever size."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from hybridbn.backends.base import FILE_BITS, Batch, Task
from hybridbn.backends.batches import BatchReader
from hybridbn.tables.row_numbers import RowSample, hash_numbers

__all__ = ["SampleTask"]


@dataclass(frozen=True)
class SampleTask(Task):
    """Takes the rows whose numbers have the smallest hashes (bottom-k sampling).

    Attributes
    ----------
    reader : BatchReader
    most : int
        The size of the sample.
    rows : int
        The number of all rows.
    offsets : mapping from int to int
        How many rows come before those of each file, so that the sample is the same however rows are put into files.
    """

    reader: BatchReader
    most: int
    rows: int
    offsets: Mapping[int, int] = field(default_factory=dict)

    @property
    def columns(self) -> Sequence[str]:  # type: ignore[override]
        """All columns."""
        return self.reader.columns

    def learn(self, batch: Batch) -> RowSample:
        """Return the rows of a batch that may be in the sample."""
        file, place = divmod(batch.first, 1 << FILE_BITS)
        first = self.offsets.get(file, file << FILE_BITS) + place
        numbers = np.arange(first, first + batch.data.num_rows, dtype=np.uint64)
        # a few more than wanted, so that there are enough
        share = (self.most + 8 * math.sqrt(self.most) + 8) / self.rows
        chosen = np.flatnonzero(hash_numbers(numbers) <= np.uint64(min(share, 1) * (2**64 - 2**11)))
        if share >= 1:
            chosen = np.arange(len(numbers))
        data = batch.data.take(chosen)
        columns, weights = self.reader.read(Batch(batch.first, data))
        return RowSample(numbers[chosen], columns, weights)
