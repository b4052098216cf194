"""Growing a tree: its nodes, the order in which they are split, and the rows that go down each branch.

Rows are known by coded columns: states, or intervals of numbers. What differs between trees is the `Criterion`: which
statistics a node has (sums over its rows, so that those of several batches of rows add up), and which split gains most
by them, if one is worth its price. Whole levels are split, whose nodes are counted in one pass,
one after the other, or the best node first (`BestFirst`). A node knows the way to it, a `Route`, by which the rows of
each batch are divided; those of rows in memory once.
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from hybridbn.potentials import Boxes
from hybridbn.variables import Codes, Discrete, Values, Variable

if TYPE_CHECKING:
    from hybridbn.tables import Rows, Table

S = TypeVar("S")
B = TypeVar("B", bound="LocatedRows")
Result = TypeVar("Result")


class Sample(NamedTuple):
    """Some of the rows of a batch, in their order, and with which weights they count."""

    rows: Codes
    weights: Values


@dataclass(frozen=True, eq=False)
class Route:
    """The way to a node, by which the rows of every batch find it.

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

    def divide(self, split: Split[Any]) -> list[Route]:
        """Return the ways on from here."""
        # what the criterion knows of the branches does not belong on the way
        bare = replace(split, statistics=()) if split.statistics else split
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


class LocatedRows:
    """Rows of a batch that are sent down the branches of trees; each split divides them once.

    Parameters
    ----------
    roots : sequence of Sample
        The rows at the root of each tree.
    columns : sequence of ndarray (rows,)
        The codes that splits test, -1 where missing.

    Examples
    --------
    >>> split = Split(0, np.array([0, 1, -1]), np.array([1.0, 1.0]))
    >>> _, right = Route().divide(split)
    >>> LocatedRows([Sample(np.arange(3), np.ones(3))], [np.array([1, 0, 1])]).locate(right).rows
    array([0, 2])
    """

    def __init__(self, roots: Sequence[Sample], columns: Sequence[Codes]) -> None:
        self.roots, self.columns = roots, columns
        self._divided: dict[Split[Any], list[Sample]] = {}

    def locate(self, route: Route) -> Sample:
        """Return the rows that are sent to a node."""
        split = route.split
        if route.above is None or split is None:
            return self.roots[route.branch]
        if split not in self._divided:
            self._divided[split] = split.divide(self.columns[split.column], self.locate(route.above))
        return self._divided[split][route.branch]


class TreeRows(Generic[B]):
    """Rows that trees grow from.

    Parameters
    ----------
    rows : Rows
    read : callable
        From a batch of rows, and the place of its first row among all, to `LocatedRows`, which are kept with rows in
        memory as long as this function is; compared by identity, and one that can be pickled, where the rows are read
        by other processes.
    variables : sequence of Variable, optional
        What the columns are read as.
    """

    def __init__(
        self, rows: Rows, read: Callable[[Table, int], B], variables: Sequence[Variable] | None = None
    ) -> None:
        self.rows, self.read, self.variables = rows, read, variables

    def sum_over(self, function: Callable[[B, Sequence[Sample]], Result], routes: Sequence[Route]) -> Result:
        """Return the sum over all batches of a function of the batch and of its rows at some nodes.

        Parameters
        ----------
        function : callable
            One that can be pickled, where the rows are read by other processes.
        routes : sequence of Route
        """
        task = partial(_apply_at_nodes, read=self.read, function=function, routes=tuple(routes))
        return self.rows.learn(task, self.variables)


def _apply_at_nodes(
    table: Table,
    first: int,
    read: Callable[[Table, int], B],
    function: Callable[[B, Sequence[Sample]], Result],
    routes: Sequence[Route],
) -> Result:
    """Apply a function to a batch and to its rows at some nodes; see `TreeRows`."""
    return function(*locate_rows(read, table, first, routes))


def locate_rows(
    read: Callable[[Table, int], B], table: Table, first: int, routes: Sequence[Route]
) -> tuple[B, list[Sample]]:
    """Return what a function reads of a batch, as it was kept if the rows are in memory, and the rows at some nodes."""
    located = table.keep(read, lambda: read(table, first))
    return located, [located.locate(route) for route in routes]


@dataclass(eq=False)
class TreeNode(Generic[S]):
    """A node of a tree.

    Attributes
    ----------
    route : Route
        The way from the root.
    statistics
        What its criterion knows about them.
    parent : Node, None of the root
    level : int
        The number of tests on the way to it.
    boxes : for each column tested on the way, the codes that come here
    split : Split, None at a leaf
    children : one for each branch
    """

    route: Route
    statistics: S
    parent: TreeNode[S] | None = None
    level: int = 0
    boxes: dict[int, Codes] = field(default_factory=dict)
    split: Split[S] | None = None
    children: list[TreeNode[S]] = field(default_factory=list)

    def climb(self) -> Iterator[TreeNode[S]]:
        """Yield the node and those above it, up to the root."""
        node: TreeNode[S] | None = self
        while node is not None:
            yield node
            node = node.parent


class Criterion(Protocol[S]):
    """What a tree is grown for."""

    def measure(self, routes: Sequence[Route]) -> Sequence[S]:
        """Return the statistics of new nodes, of many in one pass over the rows."""

    def best(self, nodes: Sequence[TreeNode[S]]) -> Sequence[Split[S] | None]:
        """Return the best split of each node, None where a stopping rule holds or no split is worth its price."""


@dataclass(eq=False)
class BestFirst(Generic[S]):
    """Chooses the node whose split gains most, until there are too many leaves.

    Parameters
    ----------
    most : int
        No node is split when there are so many leaves.
    permits : callable
        Whether a split may be made after those that were made before it; the node stays a leaf otherwise.
    """

    most: int
    permits: Callable[[Split[S]], bool]
    leaves: int = field(default=1, init=False)
    queue: list[tuple[float, int, TreeNode[S], Split[S]]] = field(default_factory=list, init=False)
    number: Iterator[int] = field(default_factory=itertools.count, init=False)

    def __call__(self, candidates: Sequence[tuple[TreeNode[S], Split[S]]]) -> list[tuple[TreeNode[S], Split[S]]]:
        """Return the best node of these and of those before them, with its split; none when the tree is finished."""
        for node, split in candidates:
            heapq.heappush(self.queue, (-split.gain, next(self.number), node, split))
        while self.queue and self.leaves < self.most:
            _, _, node, split = heapq.heappop(self.queue)
            if self.permits(split):
                self.leaves += len(split.masses) - 1
                return [(node, split)]
        return []


def grow(
    roots: Sequence[Route],
    criterion: Criterion[S],
    choose: Callable[[Sequence[tuple[TreeNode[S], Split[S]]]], Sequence[tuple[TreeNode[S], Split[S]]]] = list,
) -> list[TreeNode[S]]:
    """Grow trees from some roots, all at the same time; return their nodes, the roots first, every one after its
    parent.

    Parameters
    ----------
    roots : sequence of Route
    criterion : Criterion
    choose : callable
        Which nodes are split next, from new leaves that are worth splitting, with their splits; by default all of them,
        a level at once.
    """
    nodes = [TreeNode(route, statistics) for route, statistics in zip(roots, criterion.measure(roots), strict=True)]
    new = nodes.copy()
    while True:
        splits = zip(new, criterion.best(new), strict=True)
        batch = choose([(node, split) for node, split in splits if split is not None])
        if not batch:
            return nodes
        routes = [route for node, split in batch for route in node.route.divide(split)]
        known = [statistics for _, split in batch for statistics in split.statistics]
        measured = iter(zip(routes, known or criterion.measure(routes), strict=True))
        new = [child for node, split in batch for child in _attach(node, split, measured)]
        nodes += new


def _attach(node: TreeNode[S], split: Split[S], measured: Iterator[tuple[Route, S]]) -> list[TreeNode[S]]:
    """Make the children of a node."""
    node.split = split
    column, size = split.column, len(split.branches) - 1
    allowed = node.boxes.get(column, np.arange(size))
    branches = split.branches[allowed]
    for number, (route, statistics) in enumerate(itertools.islice(measured, len(split.masses))):
        boxes = {**node.boxes, column: allowed[branches == number]}
        node.children.append(TreeNode(route, statistics, node, node.level + 1, boxes))
    return node.children


def leaves(root: TreeNode[S], depth: int | None = None) -> list[TreeNode[S]]:
    """Return the leaves from left to right, of the tree cut off at a depth."""
    if root.split is None or root.level == depth:
        return [root]
    return [leaf for child in root.children for leaf in leaves(child, depth)]


def make_boxes(
    leaf: Discrete,
    columns: Sequence[tuple[Variable, Sequence[float], NDArray[np.bool_]]],
    overlap: int | None = None,
) -> Boxes:
    """Return the leaves of trees as boxes.

    Parameters
    ----------
    leaf : Discrete
        Its states are the leaves.
    columns : sequence of (variable, cuts, inside)
        The columns that are tested, the cuts between the intervals of numbers, and which states or intervals are in
        each leaf (leaves, states).
    overlap : int, optional
        The number of trees, where that is known.

    Examples
    --------
    >>> from hybridbn.variables import Continuous
    >>> leaf, x = Discrete("leaf", ("low", "high")), Continuous("x")
    >>> boxes = make_boxes(leaf, [(x, (1.0, 2.0), np.array([[True, False, False], [False, True, True]]))])
    >>> boxes.sides[0].tolist()
    [[-inf, 1.0], [1.0, inf]]
    """
    sides: list[NDArray[Any]] = []
    for variable, cuts, inside in columns:
        edges = np.array((-math.inf, *cuts, math.inf))
        last = inside.shape[1] - inside[:, ::-1].argmax(axis=1)
        is_state = isinstance(variable, Discrete)
        sides.append(inside if is_state else np.stack([edges[inside.argmax(axis=1)], edges[last]], axis=1))
    return Boxes(leaf, [variable for variable, _, _ in columns], sides, overlap=overlap)


def find_interval(cuts: Sequence[float], codes: NDArray[np.intp]) -> tuple[float, float]:
    """Return the interval of numbers that some neighboring codes stand for."""
    edges = (-math.inf, *cuts, math.inf)
    return float(edges[codes[0]]), float(edges[codes[-1] + 1])


def describe_interval(low: float, high: float, digits: int) -> str:
    """Return an interval as text.

    Examples
    --------
    >>> describe_interval(-math.inf, 2.0, 4), describe_interval(1.0, math.inf, 4), describe_interval(1.0, 2.0, 4)
    ('< 2', '>= 1', '1 to 2')
    """
    if low == -math.inf:
        return f"< {high:.{digits}g}"
    return f">= {low:.{digits}g}" if high == math.inf else f"{low:.{digits}g} to {high:.{digits}g}"


def make_distinct(labels: Sequence[str]) -> tuple[str, ...]:
    """Return names of the leaves, all different.

    Examples
    --------
    >>> make_distinct(["x < 1", "x < 1", "x >= 1"])
    ('x < 1 (0)', 'x < 1 (1)', 'x >= 1')
    """
    counts = Counter(labels)
    return tuple(label if counts[label] == 1 else f"{label} ({number})" for number, label in enumerate(labels))
