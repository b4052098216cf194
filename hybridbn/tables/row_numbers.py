"""Random choices among rows that depend on the rows' numbers alone: they are the same in batches of any size."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["RowSample", "hash_numbers", "mix_bits"]

STEP = np.uint64(0x9E3779B97F4A7C15)


def mix_bits(bits: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return the finalizer of SplitMix64 (Steele, Lea & Flood 2014).

    Examples
    --------
    >>> mix_bits(np.array([1], np.uint64))
    array([6238072747940578789], dtype=uint64)
    """
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(bits ^ (bits >> np.uint64(31)))


def hash_numbers(numbers: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return a hash of each number (SplitMix64).

    Examples
    --------
    >>> hash_numbers(np.array([0, 1], np.uint64))
    array([16294208416658607535, 10451216379200822465], dtype=uint64)
    """
    return mix_bits(numbers + STEP)


@dataclass(frozen=True)
class RowSample:
    """Some rows: their numbers, columns and weights; ``a + b`` has the rows of both."""

    rows: NDArray[np.uint64]
    columns: dict[str, NDArray[Any]]
    weights: NDArray[np.float64] | None = None

    def __add__(self, other: RowSample) -> RowSample:
        names = {**self.columns, **other.columns}
        return RowSample(
            np.concatenate([self.rows, other.rows]),
            {name: np.concatenate([self._column(name), other._column(name)]) for name in names},
            None if self.weights is None or other.weights is None else np.concatenate([self.weights, other.weights]),
        )

    def _column(self, name: str) -> NDArray[Any]:
        """Return a column, whose cells are all missing where it is not among those of these rows."""
        return self.columns[name] if name in self.columns else np.full(len(self.rows), np.nan)

    def finish(self, most: int) -> RowSample:
        """Return those whose numbers have the smallest hashes (bottom-k sampling), in the order of the rows."""
        kept = np.argsort(hash_numbers(self.rows), kind="stable")[:most]
        kept = kept[np.argsort(self.rows[kept], kind="stable")]
        weights = None if self.weights is None else self.weights[kept]
        return RowSample(self.rows[kept], {name: column[kept] for name, column in self.columns.items()}, weights)
