"""What a table is read from, a block of rows at a time, and twice: once to learn, once to fill the holes."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, TypeAlias

from hybridbn.errors import TableError
from hybridbn.tables.columns import Cells

__all__ = ["Block", "Kinds", "Source", "located", "shifted"]

Kinds: TypeAlias = Mapping[str, Literal["discrete", "continuous", "text"]]
"""What the cells of columns are to be read as, where their type does not say so."""


class Block(Protocol):
    """Some rows of a table, as they came in.

    Attributes
    ----------
    start : int
        The number of the first row.
    rows : int
    """

    start: int
    rows: int

    def cells(self, names: Sequence[str], kinds: Kinds) -> dict[str, Cells]:
        """Return columns as typed cells; one that the block doesn't have is left out."""

    def values(self, names: Sequence[str]) -> dict[str, list[Any]]:
        """Return columns as Python values, None where a cell is missing, without a look at their types."""


class Source(Protocol):
    """A table that can be read more than once.

    Attributes
    ----------
    family : str
        "delimited", "jsonlines", "arff", "arrow" or "rows".
    names : list of str
        All columns; of JSON lines, those seen so far.
    spelled : bool
        Whether states are read as the text that stands in the file, and typed when all of them are known.
    """

    family: str
    names: list[str]
    spelled: bool

    def blocks(self, rows: int, first: int = 0) -> Iterator[Any]:
        """Give blocks of so many rows, from the block of this number on; `first` must have been read before."""

    def digest(self) -> str:
        """Return a fingerprint of the content."""

    def unchanged(self) -> bool:
        """Tell whether the content is still that of the fingerprint."""

    def line_of(self, row: int) -> str:
        """Return where a row stands, in words."""

    def close(self) -> None:
        """Let go of files."""


@dataclass
class Marks:
    """Where blocks start, as far as they have been read."""

    places: list[tuple[int, int]] = field(default_factory=list)

    def noted(self, number: int, offset: int, line: int) -> None:
        """Remember the place of a block."""
        if number == len(self.places):
            self.places.append((offset, line))


def shifted(error: Exception, header: int, by: int, word: str = "line") -> TableError:
    """Return an error whose line or row numbers count from the beginning of the file.

    Examples
    --------
    >>> shifted(TableError("column 'x', line 3: no number"), 1, 100)
    TableError("column 'x', line 103: no number")
    """

    def moved(found: re.Match[str]) -> str:
        number = int(found.group(1))
        return f"{word} {number + by if number > header else number}"

    return TableError(re.sub(rf"\b{word} (\d+)\b", moved, str(error)))


@contextlib.contextmanager
def located(header: int, by: int, word: str = "line") -> Iterator[None]:
    """Shift the line or row numbers of errors that come from reading a block."""
    try:
        yield
    except TableError as error:
        raise shifted(error, header, by, word) from error.__cause__
