"""The weights of rows while they are boosted: as the history of each row's errors, one bit a round, or as numbers.

A row's weight is what it counts by itself times one factor for each round, of which there are but two a round. So the bits of a row's errors
tell its weight: sixteen rounds make a word, and a word is looked up in a table. Numbers take over where that no longer holds,
when a weight falls below its floor or all start anew, and for histories that are longer than a number.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from hybridbn.learning.boosting.rounds import FLOOR
from hybridbn.variables import Values

__all__ = ["Bits", "Floats", "Raised", "State"]

_WORD = 16
_ROWS = 32768

Raised: TypeAlias = Callable[[NDArray[np.intp], Values], None]
"""Is told some rows and what the floor adds to their weights."""


class State(Protocol):
    """What a pass over the data needs to know of the rows, and tells about them."""

    least: float
    """No row weighs less than this, in units of what it counts by itself."""
    floor: float
    """Weights below it are raised to it, in the same units."""

    def weights(self, part: slice) -> Values:
        """Return the weights of a block of rows; not to be written to."""

    def note(self, part: slice, wrong: NDArray[np.bool_]) -> None:
        """Keep in mind which rows of a block are wrong."""

    def advance(self, up: float, down: float, raised: Raised | None = None) -> None:
        """Multiply the weights of wrong rows by one number and the others by another; tell what the floor adds to which rows."""

    def scale(self, share: float) -> None:
        """Multiply all weights."""

    def as_floats(self) -> Floats:
        """Return the state with weights as numbers."""

    def all(self) -> Values:
        """Return all weights."""


class Floats:
    """Weights as numbers; the sign of a number tells whether its row is wrong.

    Examples
    --------
    >>> state = Floats(np.ones(3), None)
    >>> state.note(slice(0, 3), np.array([True, False, False]))
    >>> state.advance(1.5, 0.75)
    >>> state.all()
    array([1.5 , 0.75, 0.75])
    """

    floor = FLOOR

    def __init__(self, numbers: Values, base: Values | None) -> None:
        self._numbers, self._base = numbers, base
        own = numbers if base is None else numbers / base
        self.least = float(own.min())

    def weights(self, part: slice) -> Values:
        """Return the weights of a block of rows."""
        return np.abs(self._numbers[part])

    def note(self, part: slice, wrong: NDArray[np.bool_]) -> None:
        """Keep in mind which rows of a block are wrong."""
        np.copysign(self._numbers[part], np.where(wrong, -1.0, 1.0), out=self._numbers[part])

    def advance(self, up: float, down: float, raised: Raised | None = None) -> None:
        """Multiply the weights; tell what the floor adds to which rows, block by block."""
        least = np.inf
        floored = self.least * down < self.floor
        for start in range(0, len(self._numbers), _ROWS):
            block = self._numbers[start : start + _ROWS]
            block *= np.where(np.signbit(block), -up, down)
            base = 1.0 if self._base is None else self._base[start : start + _ROWS]
            if floored:
                lowest = np.broadcast_to(self.floor * base, block.shape)
                low = np.flatnonzero(block < lowest)
                if raised is not None and low.size:
                    raised(low + start, lowest[low] - block[low])
                block[low] = lowest[low]
            least = min(least, float((block / base).min()))
        self.least = least

    def scale(self, share: float) -> None:
        """Multiply all weights."""
        self._numbers *= share
        self.least *= share

    def as_floats(self) -> Floats:
        """Return the state itself."""
        return self

    def all(self) -> Values:
        """Return all weights."""
        return np.abs(self._numbers)


class Bits:
    """Weights as histories of errors.

    Parameters
    ----------
    rows : int
    base : ndarray (rows,), optional
        What the rows count by themselves.
    rounds : int
        Most rounds that there will be.

    Examples
    --------
    >>> state = Bits(3, None, 10)
    >>> state.note(slice(0, 3), np.array([True, False, False]))
    >>> state.advance(1.5, 0.75)
    >>> state.all(), state.nbytes
    (array([1.5 , 0.75, 0.75]), 6)
    """

    floor = FLOOR

    def __init__(self, rows: int, base: Values | None, rounds: int) -> None:
        self._rows, self._base = rows, base
        self.least = 1.0
        sizes = [min(_WORD, rounds - start) for start in range(0, rounds, _WORD)]
        self._words: list[NDArray[Any]] = [np.zeros(rows, np.uint16 if size > 8 else np.uint8) for size in sizes]
        self._factors: list[Values] = [np.ones(1)]
        self._bit = 0

    @property
    def nbytes(self) -> int:
        """Bytes of the histories."""
        return sum(word.nbytes for word in self._words)

    def weights(self, part: slice) -> Values:
        """Return the weights of a block of rows."""
        start, stop, _ = part.indices(self._rows)
        found = np.ones(stop - start) if self._base is None else self._base[part].copy()
        for word, factors in zip(self._words, self._factors, strict=False):
            # the bits of the round under way are not in the table yet
            found *= factors.take(word[part], mode="wrap")
        return found

    def note(self, part: slice, wrong: NDArray[np.bool_]) -> None:
        """Keep in mind which rows of a block are wrong."""
        word = self._words[len(self._factors) - 1]
        word[part] |= wrong.astype(word.dtype) << self._bit

    def advance(self, up: float, down: float, raised: Raised | None = None) -> None:
        """Multiply the weights; there is no floor here."""
        last = self._factors[-1]
        self._factors[-1] = np.concatenate([last * down, last * up])
        self.least *= down
        self._bit += 1
        if self._bit == _WORD and len(self._factors) < len(self._words):
            self._factors.append(np.ones(1))
            self._bit = 0

    def scale(self, share: float) -> None:
        """Multiply all weights."""
        self._factors[0] = self._factors[0] * share
        self.least *= share

    def as_floats(self) -> Floats:
        """Return the state with weights as numbers, the rows noted as wrong included."""
        numbers = np.empty(self._rows)
        word, bit = self._words[len(self._factors) - 1], self._bit
        for start in range(0, self._rows, _ROWS):
            part = slice(start, start + _ROWS)
            wrong = (word[part] >> bit) & 1
            numbers[part] = np.where(wrong, -self.weights(part), self.weights(part))
        state = Floats(np.abs(numbers), self._base)
        state.note(slice(None), np.signbit(numbers))
        return state

    def all(self) -> Values:
        """Return all weights."""
        return self.weights(slice(None))
