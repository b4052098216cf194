"""The library's errors: one family, so that ``except hb.HybridBNError`` catches whatever it refuses."""

from __future__ import annotations

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
    "PartsMissing",
    "TableError",
    "TooWide",
]


class HybridBNError(ValueError):
    """Base of every error that the library raises on purpose."""


class TableError(HybridBNError):
    """A table, column, weight or item of evidence that cannot be used as it is."""


class PartsMissing(TableError):
    """Other parts of a table that is learned from in parts are not read yet; the same call goes on when they are."""


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
