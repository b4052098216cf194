"""Random choices among rows that depend on the rows' numbers alone: they are the same in batches of any size."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["hash_numbers", "mix_bits"]

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
