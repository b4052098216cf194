"""Growing a tree: its nodes, the order in which they are split, and the rows that go down each branch.

Rows are known by coded columns: states, or intervals of numbers. What differs between trees is the `Criterion`: which
statistics a node has (sums over its rows, so that those of several batches of rows add up), and which split gains most
by them, if one is worth its price. Which node is split next is up to an `GrowthOrder`: whole levels, whose nodes are
counted in one pass, one after the other, or the best first.

What tests look at are coded columns of rows in memory, or of rows that are read in passes. Whatever is computed of the
rows at some nodes adds up over batches of rows. Rows in memory are one batch, and each node knows its own; of rows that
are read in passes a node knows the tests on the way to it, by which every batch is divided.
"""

from __future__ import annotations

import heapq
import itertools
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Generic, NamedTuple, Protocol, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from hybridbn.fitting.counters import NumpyCounter
from hybridbn.fitting.counting import Groups
from hybridbn.fitting.cross_validation import deal_numbered_rows
from hybridbn.variables import Codes, Values, Variable

if TYPE_CHECKING:
    from hybridbn.tables import Rows, Table

__all__ = [
    "FOLDS",
    "BestFirst",
    "CodedColumns",
    "ColumnView",
    "Criterion",
    "GrowthOrder",
    "Levels",
    "Located",
    "Route",
    "Sample",
    "ScannedColumns",
    "Split",
    "TreeNode",
    "choose_grain",
    "follow_routes",
    "grow",
    "grow_from",
    "leaves",
]

S = TypeVar("S")


class Sample(NamedTuple):
    """Some of the rows, in their order, and with which weights they count."""

    rows: Codes
    weights: Values

    def divide(self, split: Split[Any], columns: Sequence[Codes]) -> list[Sample]:
        """Send the rows down the branches of a split."""
        return split.divide(columns[split.column], self)


@dataclass(frozen=True, eq=False)
class Route:
    """The way to a node, where the rows are read in passes: they are sent down the branches anew in each pass.

    Attributes
    ----------
    above : Route, None of the root
    split : Split
        Of the node above.
    branch : int
        Of the root, the number of the tree.
    """

    above: Route | None = None
    split: Split[Any] | None = None
    branch: int = 0

    def divide(self, split: Split[Any], columns: Sequence[Codes]) -> list[Route]:
        """Return the ways on from here; the columns are not looked at."""
        # what the criterion knows of the branches does not belong on the way
        bare = replace(split, statistics=())
        return [Route(self, bare, branch) for branch in range(len(split.masses))]


@dataclass(frozen=True, eq=False)
class Split(Generic[S]):
    """A test of a column.

    Attributes
    ----------
    column : int
    branches : ndarray (codes + 1,)
        The branch that each code goes to. The last one is -1, for the code -1 of missing cells: they go down all
        branches.
    masses : ndarray (branches,)
        The weight of the rows that go to each; rows whose cell is missing are divided like these.
    gain : float
        What it is worth, where the best node is split first.
    parameters : float
        The price of which is taken off the gain.
    statistics : tuple
        Those of the branches, where the criterion knows them already.
    grain : float
        What the weights of divided rows are multiples of, so that sums of them are exact; 0: anything.
    """

    column: int
    branches: Codes
    masses: Values
    gain: float = 0.0
    parameters: float = 0.0
    statistics: tuple[S, ...] = ()
    grain: float = 0.0

    def divide(self, codes: Codes, sample: Sample) -> list[Sample]:
        """Send rows down the branches; those whose cell is missing down all, with their shares of the weight (C4.5's
        rule).

        Parameters
        ----------
        codes : ndarray (all rows,)
            The column that is tested.
        sample : Sample

        Examples
        --------
        >>> split = Split(0, np.array([0, 1, -1]), np.array([3.0, 1.0]))
        >>> for rows, weights in split.divide(np.array([0, 1, -1]), Sample(np.arange(3), np.ones(3))):
        ...     print(rows, weights)
        [0 2] [1.   0.75]
        [1 2] [1.   0.25]
        """
        branch = self.branches[codes[sample.rows]]
        missing = branch < 0
        if not missing.any():
            chosen = (np.flatnonzero(branch == number) for number in range(len(self.masses)))
            return [Sample(sample.rows[rows], sample.weights[rows]) for rows in chosen]
        samples = []
        for number, share in enumerate(self.shares()):
            rows = np.flatnonzero((branch == number) | missing if share > 0 else branch == number)
            weights = sample.weights[rows]
            parts = weights * share
            if self.grain:
                parts = np.round(parts / self.grain) * self.grain
            samples.append(Sample(sample.rows[rows], np.where(missing[rows], parts, weights)))
        return samples

    def shares(self) -> Values:
        """Return the part of the weight that each branch has."""
        return np.asarray(self.masses / np.cumsum(self.masses)[-1])


def follow_routes(routes: Sequence[Route], roots: Sequence[Sample], columns: Sequence[Codes]) -> list[Sample]:
    """Return the rows of a batch that are sent to each of some nodes.

    Parameters
    ----------
    routes : sequence of Route
    roots : sequence of Sample
        The rows at the root of each tree.
    columns : sequence of ndarray (rows,)

    Examples
    --------
    >>> split = Split(0, np.array([0, 1, -1]), np.array([1.0, 1.0]))
    >>> _, right = Route().divide(split, [])
    >>> [sample.rows for sample in follow_routes([right], [Sample(np.arange(3), np.ones(3))], [np.array([1, 0, 1])])]
    [array([0, 2])]
    """
    # by the split of the node above, which is in memory as long as its routes are
    divided: dict[int, list[Sample]] = {}

    def follow(route: Route) -> Sample:
        if route.above is None or route.split is None:
            return roots[route.branch]
        key = id(route.split)
        if key not in divided:
            divided[key] = route.split.divide(columns[route.split.column], follow(route.above))
        return divided[key][route.branch]

    return [follow(route) for route in routes]


@dataclass(eq=False)
class TreeNode(Generic[S]):
    """A node of a tree.

    Attributes
    ----------
    sample : Sample
        The rows that reach the node; a `Route` where rows are read in passes.
    statistics
        What its criterion knows about them.
    parent : Node, None of the root
    branch : int
        Which child of the parent it is.
    level : int
        The number of tests on the way to it.
    boxes : for each column tested on the way, the codes that come here
    split : Split, None at a leaf
    children : one for each branch
    """

    sample: Any
    statistics: S
    parent: TreeNode[S] | None = None
    branch: int = 0
    level: int = 0
    boxes: dict[int, Codes] = field(default_factory=dict)
    split: Split[S] | None = None
    children: list[TreeNode[S]] = field(default_factory=list)


class Criterion(Protocol[S]):
    """What a tree is grown for."""

    def measure(self, samples: Sequence[Any]) -> Sequence[S]:
        """Return the statistics of new nodes, of many in one pass over the rows."""

    def best(self, nodes: Sequence[TreeNode[S]]) -> Sequence[Split[S] | None]:
        """Return the best split of each node, None where a stopping rule holds or no split is worth its price."""


class GrowthOrder(ABC, Generic[S]):
    """Which nodes are split next."""

    def __init__(self) -> None:
        self.waiting: list[TreeNode[S]] = []

    def add(self, nodes: Sequence[TreeNode[S]], criterion: Criterion[S]) -> None:
        """Take in new leaves."""
        self.waiting += nodes

    @abstractmethod
    def take(self, criterion: Criterion[S]) -> list[tuple[TreeNode[S], Split[S]]]:
        """Return some nodes with their splits; none when the tree is finished."""


class Levels(GrowthOrder[S]):
    """All nodes of a level at once."""

    def take(self, criterion: Criterion[S]) -> list[tuple[TreeNode[S], Split[S]]]:
        """Return the nodes of the next level that are worth splitting."""
        nodes = self.waiting.copy()
        self.waiting.clear()
        splits = criterion.best(nodes)
        return [(node, split) for node, split in zip(nodes, splits, strict=True) if split is not None]


class BestFirst(GrowthOrder[S]):
    """The node first whose split gains most, until there are too many leaves.

    Parameters
    ----------
    most : int
        No node is split when there are so many leaves.
    permits : callable
        Whether a split may be made after those that were made before it; the node stays a leaf otherwise.
    """

    most: int
    permits: Callable[[Split[S]], bool]

    def __init__(self, most: int, permits: Callable[[Split[S]], bool]) -> None:
        super().__init__()
        self.most, self.permits = most, permits
        self.leaves: int = 1
        self.queue: list[tuple[float, int, TreeNode[S], Split[S]]] = []
        self.number: Iterator[int] = itertools.count()

    def add(self, nodes: Sequence[TreeNode[S]], criterion: Criterion[S]) -> None:
        """Take in new leaves."""
        self.leaves += len(nodes) - 1
        for node, split in zip(nodes, criterion.best(nodes), strict=True):
            if split is not None:
                heapq.heappush(self.queue, (-split.gain, next(self.number), node, split))

    def take(self, criterion: Criterion[S]) -> list[tuple[TreeNode[S], Split[S]]]:
        """Return the node with the best split that is permitted."""
        while self.queue and self.leaves < self.most:
            _, _, node, split = heapq.heappop(self.queue)
            if self.permits(split):
                return [(node, split)]
        return []


def grow(
    columns: Sequence[Codes], weights: Values, criterion: Criterion[S], order: GrowthOrder[S]
) -> list[TreeNode[S]]:
    """Grow a tree from all rows; return its nodes, every one after its parent.

    Parameters
    ----------
    columns : sequence of ndarray (rows,)
        The codes that splits test, -1 where missing.
    weights : ndarray (rows,)
    """
    return grow_from(columns, [Sample(np.arange(len(weights)), weights)], criterion, order)


def grow_from(
    columns: Sequence[Codes], roots: Sequence[Sample | Route], criterion: Criterion[S], order: GrowthOrder[S]
) -> list[TreeNode[S]]:
    """Grow a tree from each of some samples, all at the same time; return their nodes, the roots first.

    Parameters
    ----------
    columns : sequence of ndarray (rows,)
        The codes that splits test, -1 where missing; none where the rows are read in passes.
    roots : sequence of Sample or Route
    """
    nodes = [TreeNode(sample, statistics) for sample, statistics in zip(roots, criterion.measure(roots), strict=True)]
    order.add(nodes, criterion)
    while batch := order.take(criterion):
        samples = [sample for node, split in batch for sample in node.sample.divide(split, columns)]
        known = [statistics for _, split in batch for statistics in split.statistics]
        measured = iter(zip(samples, known or criterion.measure(samples), strict=True))
        children = [child for node, split in batch for child in _attach(node, split, measured)]
        nodes += children
        order.add(children, criterion)
    return nodes


def _attach(node: TreeNode[S], split: Split[S], measured: Iterator[tuple[Any, S]]) -> list[TreeNode[S]]:
    """Make the children of a node."""
    node.split = split
    column, size = split.column, len(split.branches) - 1
    allowed = node.boxes.get(column, np.arange(size))
    branches = split.branches[allowed]
    for number, (sample, statistics) in enumerate(itertools.islice(measured, len(split.masses))):
        boxes = {**node.boxes, column: allowed[branches == number]}
        node.children.append(TreeNode(sample, statistics, node, number, node.level + 1, boxes))
    return node.children


def leaves(root: TreeNode[S], depth: int | None = None) -> list[TreeNode[S]]:
    """Return the leaves from left to right, of the tree cut off at a depth."""
    if root.split is None or root.level == depth:
        return [root]
    return [leaf for child in root.children for leaf in leaves(child, depth)]


Result = TypeVar("Result")
FOLDS = 5
"""Of the cross-validation that judges tests."""
_BATCH_CELLS = 2**21
"""Columns with so many counts (16 MiB) are counted together."""
_GRAINS = 26
"""Weights of shares of rows are multiples of the mean weight over two to this power, so that sums of up to 2**27 of
them are exact, in whatever order they are added.
"""


def choose_grain(weight: float, rows: int) -> float:
    """Return what shares of rows are multiples of, from the weight and the number of all rows.

    Examples
    --------
    >>> choose_grain(100.0, 100) == 2.0**-26
    True
    """
    return 2.0 ** (math.floor(math.log2(weight / rows)) - _GRAINS) if weight > 0 else 0.0


class ColumnView(ABC):
    """Coded columns, some of whose rows are at each node of a tree.

    Attributes
    ----------
    sizes : sequence of int
    ordered : sequence of bool
        Whether the codes are intervals of a number, which a binary test cuts in two.
    classes : int
        Of the target, 0 of a number.
    starts : ndarray (columns + 1,)
        Where the states of each column begin among those of all, and their number.
    grain : float
        Weights of the shares of rows whose tested cell is missing are multiples of it; 0 leaves them as they are.
    """

    knows_rows: ClassVar[bool]
    """Whether the rows of each node are in memory."""
    most_cells: ClassVar[int]
    """Most cells of the tables that are counted at a time."""

    sizes: Sequence[int]
    ordered: Sequence[bool]
    classes: int
    starts: NDArray[np.intp]
    grain: float

    def __init__(self, sizes: Sequence[int], ordered: Sequence[bool], classes: int, grain: float) -> None:
        self.sizes, self.ordered, self.classes, self.grain = sizes, ordered, classes, grain
        self.starts = np.concatenate([[0], np.cumsum(np.asarray(sizes, dtype=np.intp))])

    @abstractmethod
    def root(self) -> Any:
        """Return all rows that count, as the sample of the root of a tree."""

    @abstractmethod
    def sum_over(self, function: Callable[[CodedColumns, Sequence[Sample]], Result], samples: Sequence[Any]) -> Result:
        """Return the sum over all batches of a function of the batch and of the nodes' samples of it.

        Parameters
        ----------
        function : callable
            One that can be pickled, where the rows are read by other processes.
        samples : sequence of Sample or Route
        """

    def counts(self, samples: Sequence[Any]) -> Values:
        """Return the weight by sample, class (one of a number) and state, the weight of all rows coming after the
        states (samples, classes, states + 1).
        """
        return self.sum_over(_count_samples, samples)


class CodedColumns(ColumnView):
    """Columns in memory.

    Parameters
    ----------
    codes : sequence of ndarray (rows,), -1 where missing
    sizes, ordered, grain : as in `ColumnView`
    target : ndarray (rows,)
        Codes or numbers, missing ones in rows that do not count only.
    classes : int, 0 of a number
    weights : ndarray (rows,)
    counted : ndarray (rows,) of bool, optional
        Which rows count; by default all.
    first : int
        The place of the first row among those of all batches.
    """

    knows_rows = True
    most_cells = 1 << 20

    codes: Sequence[Codes]
    target: NDArray[Any]
    weights: Values
    first: int

    def __init__(
        self,
        codes: Sequence[Codes],
        sizes: Sequence[int],
        ordered: Sequence[bool],
        target: NDArray[Any],
        classes: int,
        weights: Values,
        counted: NDArray[np.bool_] | None = None,
        *,
        grain: float = 0.0,
        first: int = 0,
    ) -> None:
        super().__init__(sizes, ordered, classes, grain)
        self.codes, self.target, self.weights, self.first = codes, target, weights, first
        self._counted = counted
        # the last column counts all rows
        columns: list[Codes] = [*codes, np.zeros(len(target), np.int8)]
        self._names = [(str(number),) for number in range(len(columns))]
        self._counter = NumpyCounter(
            {name: column for (name,), column in zip(self._names, columns, strict=True)},
            {name: size for (name,), size in zip(self._names, [*sizes, 1], strict=True)},
        ).persist()

    def root(self) -> Sample:
        """Return the rows that count."""
        if self._counted is None:
            return Sample(np.arange(len(self.target)), self.weights.astype(float))
        rows = np.flatnonzero(self._counted)
        return Sample(rows, self.weights[rows].astype(float))

    def sum_over(
        self, function: Callable[[CodedColumns, Sequence[Sample]], Result], samples: Sequence[Sample]
    ) -> Result:
        """Return the function of these rows, which are one batch."""
        return function(self, samples)

    def fold_rows(self, rows: Codes) -> Codes:
        """Return the folds of a cross-validation that rows are in, the same in batches of any size."""
        return self._folds[rows]

    @cached_property
    def _folds(self) -> Codes:
        return deal_numbered_rows(self.first, len(self.target), FOLDS)

    def locate(self, routes: Sequence[Route]) -> list[Sample]:
        """Return the rows that are sent to each of some nodes."""
        return follow_routes(routes, [self.root()], self.codes)

    def count_groups(self, groups: Groups, columns: Sequence[int]) -> list[Values]:
        """Return the weight by group and state (groups, states) of each column; the number after the last counts all
        rows.
        """
        tables = self._counter.by_group(groups, [self._names[number] for number in columns])
        # a missing cell comes after the states
        sizes = [*self.sizes, 1]
        return [table[:, : sizes[number]] for number, table in zip(columns, tables, strict=True)]

    def count_samples(self, samples: Sequence[Sample]) -> Values:
        """Return what `counts` returns, of these rows."""
        rows, weights = (np.concatenate(arrays) for arrays in zip(*samples, strict=True))
        classes = max(self.classes, 1)
        keys = np.repeat(np.arange(len(samples)), [len(sample.rows) for sample in samples])
        if self.classes:
            keys = keys * classes + self.target[rows]
        groups = Groups.of(keys, len(samples) * classes, weights, rows)
        ends = np.cumsum([*self.sizes, 1])
        result = np.empty((groups.size, ends[-1]))
        # few columns at a time, so that there are not two copies of large counts
        batch = ends * groups.size // _BATCH_CELLS
        for columns in np.split(np.arange(len(ends)), np.flatnonzero(np.diff(batch)) + 1):
            for column, own in zip(columns, self.count_groups(groups, columns.tolist()), strict=True):
                result[:, ends[column] - own.shape[1] : ends[column]] = own
        return result.reshape(len(samples), classes, -1)


def _count_samples(block: CodedColumns, samples: Sequence[Sample]) -> Values:
    return block.count_samples(samples)


ReadColumns: TypeAlias = "Callable[[Table, int], CodedColumns]"
"""From a batch of rows, and the place of its first row among all, to its columns."""


class ScannedColumns(ColumnView):
    """Columns of a table that is read in passes.

    Parameters
    ----------
    table : Table
    variables : sequence of Variable
        What the columns are read as.
    read : callable
        From a batch of rows, and the place of its first row among all, to its columns.
    sizes, ordered, classes, grain : as in `ColumnView`
    """

    knows_rows = False
    most_cells = 1 << 24

    def __init__(
        self,
        table: Rows,
        variables: Sequence[Variable],
        read: ReadColumns,
        sizes: Sequence[int],
        ordered: Sequence[bool],
        classes: int,
        grain: float,
    ) -> None:
        super().__init__(sizes, ordered, classes, grain)
        self._table, self._variables, self._read = table, variables, read

    def root(self) -> Route:
        """Return the way to the root, on which there is no test."""
        return Route()

    def sum_over(
        self, function: Callable[[CodedColumns, Sequence[Sample]], Result], samples: Sequence[Route]
    ) -> Result:
        """Make a pass over the rows."""
        summed: Result = self._table.learn(Located(self._read, function, tuple(samples)), self._variables)
        return summed


class LocatesRows(Protocol):
    """A batch of rows that are sent down the branches of trees."""

    def locate(self, routes: Sequence[Route]) -> list[Sample]:
        """Return the rows that are sent to each of some nodes."""


@dataclass(frozen=True)
class Located:
    """Applies a function to a batch and to its rows at some nodes.

    Attributes
    ----------
    read : callable
        From a batch of rows, and the place of its first row among all, to what locates its rows.
    function : callable
        From that and the rows at each node to what adds up over batches.
    routes : tuple of Route
    """

    read: Callable[[Table, int], LocatesRows]
    function: Callable[[Any, Sequence[Sample]], Any]
    routes: tuple[Route, ...]

    def __call__(self, table: Table, first: int) -> Any:
        """Return the function of the rows of a batch, the first of which has this place among all."""
        block = self.read(table, first)
        return self.function(block, block.locate(self.routes))
