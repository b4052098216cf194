"""The library's errors: one family, so that ``except hb.HybridBNError`` catches whatever it refuses."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = [
    "Canceled",
    "FormatError",
    "HybridBNError",
    "ImpossibleEvidence",
    "NetworkError",
    "TableError",
    "TooWide",
    "warn_user",
]


class HybridBNError(ValueError):
    """Base of every error that the library raises on purpose."""


class TableError(HybridBNError):
    """A table, column, weight or item of evidence that cannot be used as it is."""


class NetworkError(HybridBNError):
    """A variable, potential or graph that does not make a Bayesian network."""


class ImpossibleEvidence(HybridBNError):
    """Evidence of probability zero.

    Attributes
    ----------
    rows : tuple of int
        The rows of the evidence table that are impossible; ``(0,)`` for a single case.
    """

    def __init__(self, message: str, rows: tuple[int, ...] = (0,)) -> None:
        super().__init__(message)
        self.rows = rows

    def renumber(self, numbers: NDArray[Any], describe: Callable[[Sequence[int]], str]) -> ImpossibleEvidence:
        """Return the error of some rows of a table as that of the whole table.

        Parameters
        ----------
        numbers : ndarray of int
            For each row of the part its number in the whole.
        describe : callable
            From the impossible rows' numbers to the message.
        """
        rows = sorted({int(numbers[row]) for row in self.rows})
        return type(self)(describe(rows), tuple(rows))

    def __reduce__(self) -> tuple[type, tuple[str, tuple[int, ...]]]:
        return type(self), (str(self), self.rows)


class TooWide(HybridBNError):
    """An exact computation that would need more memory than it was allowed."""


class FormatError(HybridBNError):
    """A file that is damaged, hostile, of a newer version, or cannot hold what it was asked to hold."""


class Canceled(HybridBNError):
    """A long call that was ended by `hybridbn.progress.cancel`."""


_NOT_THE_USER = {"hybridbn", "concurrent", "contextlib", "functools", "threading"}


def warn_user(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn as from the line outside of the library that called it, however deep in the library this is."""
    level, frame = 2, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] in _NOT_THE_USER:
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)
