"""What is counted, asked in one way: joint counts, counts with a target, pairs, counts by group, and moments.

Whoever learns from counts asks a `Counter` and never the rows. One request carries many tables, so that a pass over the rows
answers it: all pairs of columns, all families that a search compares, a level of a tree, a round of boosting. What comes back adds up:
the counts of two sets of rows are those of both. So a counter of another kind of table (in a database, in parts, on several machines) implements
`count`, `moments`, `by_group` and `incomplete`, and is registered with `hybridbn.fitting.counters.counter_of`.

A missing cell either leaves its row out of a table (available cases), or is one more state of its column, the last.
"""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from hybridbn.variables import Codes, Values

__all__ = ["Counter", "Counts", "Groups", "Moments", "Names", "Part"]

Names: TypeAlias = tuple[str, ...]
"""Columns in the order of a table's dimensions."""
Part: TypeAlias = "slice | NDArray[np.intp]"
"""Which rows of a pass: a block of them, or some."""


class Counts(Mapping[Names, Values]):
    """Tables of counts by the names of their dimensions; ``a + b`` are those of the rows of both.

    Examples
    --------
    >>> one = Counts({("a",): np.array([1.0, 2.0])})
    >>> (one + one)["a",]
    array([2., 4.])
    """

    def __init__(self, tables: Mapping[Names, Values]) -> None:
        self._tables = dict(tables)

    def __getitem__(self, names: Names) -> Values:
        return self._tables[names]

    def __iter__(self) -> Iterator[Names]:
        return iter(self._tables)

    def __len__(self) -> int:
        return len(self._tables)

    def __add__(self, other: Counts) -> Counts:
        return Counts({names: table + other[names] for names, table in self.items()})


@dataclass(frozen=True, eq=False)
class Moments:
    """Weights, means and centered products of some numbers in each configuration of some discrete columns.

    Attributes
    ----------
    total : float
        The weight of all rows.
    weights : ndarray (configurations,)
    means : ndarray (configurations, numbers)
    products : ndarray (configurations, numbers, numbers)
        Weighted sums of products of deviations from the means.

    Examples
    --------
    >>> from hybridbn.fitting.counters import NumpyCounter
    >>> counter = NumpyCounter({"x": np.array([1.0, 3.0, 8.0])}, {})
    >>> counter.moments(("x",)).products
    array([[[26.]]])
    """

    total: float
    weights: Values
    means: Values
    products: Values

    def __add__(self, other: Moments) -> Moments:
        """Merge by the formula of Chan, Golub & LeVeque (1983), which subtracts no large sums of squares."""
        weights = self.weights + other.weights
        shift = other.means - self.means
        share = np.divide(other.weights, weights, out=np.zeros_like(weights), where=weights > 0)
        between = (self.weights * share)[:, None, None] * shift[:, :, None] * shift[:, None, :]
        return Moments(
            self.total + other.total,
            weights,
            self.means + share[:, None] * shift,
            self.products + other.products + between,
        )


@dataclass(frozen=True)
class Groups:
    """Which group each row belongs to in a pass, and with which weight it counts there.

    Attributes
    ----------
    size : int
        The number of groups.
    assign : callable
        Returns groups and weights (None: the rows' own) of some rows, from which rows these are, the configurations of
        the families that are counted, and the codes of the columns in `reads` (a missing cell being the last). Called once for each block of a pass: a
        slice of the table's rows, or of `rows`, of which a block may also be given as an array of positions.
    reads : tuple of str
        Columns that the groups depend on.
    rows : ndarray, optional
        The rows that take part, in this order; a row may take part several times.

    Examples
    --------
    >>> from hybridbn.fitting.counters import NumpyCounter
    >>> counter = NumpyCounter({"a": np.array([0, 1, -1, 1])}, {"a": 2})
    >>> counter.by_group(Groups.of(np.array([0, 0, 1, 1]), 2), [("a",)])[0]
    array([[1., 1., 0.],
           [0., 1., 1.]])
    """

    size: int
    assign: Callable[[Part, Sequence[Codes], Sequence[Codes]], tuple[Codes, Values | None]]
    reads: Names = ()
    rows: NDArray[np.intp] | None = None

    @classmethod
    def of(
        cls, groups: Codes, size: int, weights: Values | None = None, rows: NDArray[np.intp] | None = None
    ) -> Groups:
        """Return the groups that arrays tell."""
        return cls(size, lambda part, *_: (groups[part], None if weights is None else weights[part]), (), rows)


class Counter(ABC):
    """Counts the rows of a table, each with its weight.

    Attributes
    ----------
    sizes : mapping from each discrete column to the number of its states
    """

    sizes: Mapping[str, int]

    # -- what an implementation provides ------------------------------------------------------------------------------

    @property
    @abstractmethod
    def incomplete(self) -> frozenset[str]:
        """The columns with missing cells."""

    @abstractmethod
    def count(self, families: Iterable[Names], *, holes: bool = False) -> Counts:
        """Return the weight of each joint configuration of each of some sets of discrete columns.

        Parameters
        ----------
        families : iterable of tuple of str
        holes : bool
            Count a missing cell as one more state, the last, of a column that has any; else a row is left out of the
            tables of which it lacks a cell.
        """

    @abstractmethod
    def moments(self, numbers: Names, given: Names = ()) -> Moments:
        """Return the moments of numbers in each configuration of discrete columns, from the rows that have them all."""

    @abstractmethod
    def by_group(self, groups: Groups, families: Sequence[Names]) -> list[Values]:
        """Return the weight by group and joint configuration, in one pass.

        Returns
        -------
        list of ndarray (groups, configurations)
            One for each family; the configurations are those of `shape` with holes, the last column running fastest.
        """

    # -- what follows from it -----------------------------------------------------------------------------------------

    def joint(self, names: Names, *, holes: bool = False) -> Values:
        """Return the weight of each joint configuration of some discrete columns."""
        return self.count([names], holes=holes)[names]

    def with_target(self, names: Iterable[str], target: Names) -> Counts:
        """Return the table of each column with the same others, which come first."""
        return self.count([(*target, name) for name in names])

    def pairs(self, names: Sequence[str], given: Names = ()) -> Counts:
        """Return the table of every two columns with the same others, which come first."""
        return self.count([(*given, *pair) for pair in itertools.combinations(names, 2)])

    def occurring(self, names: Names) -> tuple[Codes, Values]:
        """Return which joint configurations occur, as ascending numbers in mixed radix, and the weight of each."""
        table = self.joint(names).ravel()
        keys = np.flatnonzero(table)
        return keys, table[keys]

    def persist(self) -> Counter:
        """Return a counter for many requests, which may keep what they share."""
        return self

    def shape(self, names: Names, *, holes: bool = False) -> tuple[int, ...]:
        """Return the shape of a table."""
        return tuple(self.sizes[name] + (holes and name in self.incomplete) for name in names)
