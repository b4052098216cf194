"""Growing trees: nodes, the order in which they are split, and the rows that go down each branch.

Rows are known by coded columns: states, or intervals of numbers. What differs between trees is the `Criterion`: which
statistics a node has (sums over its rows, so that those of several batches of rows add up), and which split gains most
by them, if one is worth its price. Whole levels are split, whose nodes are counted in one pass,
one after the other, or the best node first (`BestFirst`). A node knows the way to it, a `Route`, by which the rows of
each batch are divided; those of rows in memory once. The splits of naive Bayes trees and of model trees, and random
forests, stand beside their builders.

The criterion here, `LikelihoodGain`, divides the parents of a density into cells: a binary tree, grown from the
best split on, stopped by BIC. A split divides the range of one parent: a continuous one at a cut, a discrete one by its
states, in the order of the child's mean there. How much it gains is judged by two cheap models of the child, a normal
one (of its normal scores) and a histogram; or by the exact class frequencies if the child is discrete. The cuts of a
continuous parent are those of a grid with equal frequencies that all branches share, so that the pieces of the
potential make a small grid, however many parents there are.
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from hybridbn.fitting.discretize import cut_evenly
from hybridbn.potentials import Boxes
from hybridbn.tables import Rows, Table
from hybridbn.variables import Codes, Discrete, Values, Variable

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


@dataclass(eq=False)
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

    roots: Sequence[Sample]
    columns: Sequence[Codes]
    _divided: dict[Split[Any], list[Sample]] = field(default_factory=dict, init=False)

    def locate(self, route: Route) -> Sample:
        """Return the rows that are sent to a node."""
        split = route.split
        if route.above is None or split is None:
            return self.roots[route.branch]
        if split not in self._divided:
            self._divided[split] = split.divide(self.columns[split.column], self.locate(route.above))
        return self._divided[split][route.branch]


@dataclass(eq=False)
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

    rows: Rows
    read: Callable[[Table, int], B]
    variables: Sequence[Variable] | None

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


# -- cells of the parents of a density -----------------------------------------------------------------------------


_MOST_CELLS = 256
_MOST_GRID = 200_000
_BINS = 6
_STEPS, _REACH = 2, 3.0  # fine bins for each bin of a histogram, and how far out they go
_FINE_BINS = round(2 * _REACH * _STEPS * _BINS / 3)
_PRIOR = 2.0  # observations of the spread above, in the variance of a part


@dataclass(frozen=True)
class Cell:
    """A set of configurations of the parents.

    Attributes
    ----------
    allowed : for each parent, which of its states or cells belong to the set
    rows : the rows of the data that lie there
    above : position of the cell that it is a part of, -1 for the whole
    """

    allowed: tuple[NDArray[np.bool_], ...]
    rows: Codes
    above: int


class SplitModel(NamedTuple):
    """A model of the child that judges splits.

    Attributes
    ----------
    part : slice
        Its columns of the sums: the weight, and what else it needs.
    freedom : float
        Parameters of the model.
    gain : callable
        Log-likelihood of sums, given those of the whole.
    """

    part: slice
    freedom: float
    gain: Callable[[Values, Values], Values]


class SplitModels(NamedTuple):
    """The models of a child.

    Attributes
    ----------
    models : tuple of SplitModel
    sums : callable
        Returns what the models need, added up in each cell of a parent (cells, columns), from the cells of some rows,
        the number of cells, which rows these are, and their weights.
    """

    models: tuple[SplitModel, ...]
    sums: Callable[[Codes, int, Codes, Values], Values]


def make_value_models(scores: Values) -> SplitModels:
    """Return the judges of a continuous child with these normal scores."""
    features, bins = (scores, scores**2), _cut_scores(scores)

    def add(cells: Codes, count: int, rows: Codes, weights: Values) -> Values:
        columns = [np.bincount(cells, weights, count)]
        columns += [np.bincount(cells, weights * feature[rows], count) for feature in features]
        table = np.bincount(cells * _BINS + bins[rows], weights, count * _BINS).reshape(count, _BINS)
        return np.column_stack([*columns, table.sum(axis=1), table])

    return SplitModels(_VALUE_MODELS, add)


def make_binned_models(codes: Codes, means: Values) -> SplitModels:
    """Return the judges of a continuous child whose normal scores are cut into bins.

    Parameters
    ----------
    codes : ndarray (rows,)
    means : ndarray (bins, columns)
        What a row of each bin adds to the sums; see `bin_scores`.
    """
    bins = len(means)

    def add(cells: Codes, count: int, rows: Codes, weights: Values) -> Values:
        table = np.bincount(cells * bins + codes[rows], weights, count * bins).reshape(count, bins)
        return np.asarray(table @ means)

    return SplitModels(_VALUE_MODELS, add)


def bin_scores(scores: Values, weights: Values) -> tuple[Codes, Values]:
    """Cut normal scores into bins; return the bin of each row, and what its rows add to the sums in the mean.

    Examples
    --------
    >>> codes, means = bin_scores(np.array([-0.6, -0.7, 0.1]), np.ones(3))
    >>> codes, means[codes[:1], :3].round(3)
    (array([ 9,  9, 12]), array([[ 1.   , -0.65 ,  0.425]]))
    """
    codes = np.clip(((scores + _REACH) * (_STEPS * _BINS / 3.0)).astype(np.intp), 0, _FINE_BINS - 1)
    held = np.maximum(np.bincount(codes, weights, _FINE_BINS), 1e-300)
    moments = [np.bincount(codes, weights * power, _FINE_BINS) / held for power in (scores, scores**2)]
    # the bins of the histogram consist of these
    coarse = _cut_scores(np.asarray((np.arange(_FINE_BINS) + 0.5) * (3.0 / _BINS / _STEPS) - _REACH, dtype=np.float64))
    ones = np.ones(_FINE_BINS)
    return codes, np.column_stack([ones, *moments, ones, coarse[:, None] == np.arange(_BINS)])


def _cut_scores(scores: Values) -> Codes:
    """Return the bins of the histogram."""
    return np.clip(((scores + 1.5) * (_BINS / 3.0)).astype(np.intp), 0, _BINS - 1)


def make_class_models(codes: Codes, states: int) -> SplitModels:
    """Return the judge of a discrete child."""

    def add(cells: Codes, count: int, rows: Codes, weights: Values) -> Values:
        table = np.bincount(cells * states + codes[rows], weights, count * states).reshape(count, states)
        return np.column_stack([table.sum(axis=1), table])

    return SplitModels((SplitModel(slice(0, 1 + states), states - 1.0, _score_histogram),), add)


def _score_normal(part: Values, whole: Values) -> Values:
    """Return the log-likelihood of normal models whose variances are drawn a little to that of the whole."""
    weight = np.maximum(part[..., 0], 1e-300)
    deviations = np.maximum(part[..., 2] - part[..., 1] ** 2 / weight, 0.0)
    variance = np.maximum(whole[..., 2] / whole[..., 0] - (whole[..., 1] / whole[..., 0]) ** 2, 1e-6)
    pooled = (deviations + _PRIOR * variance) / (weight + _PRIOR)
    return np.asarray(-0.5 * (weight * np.log(pooled) + deviations / pooled))


def _score_histogram(part: Values, whole: Values) -> Values:
    counts = part[..., 1:]
    total = np.maximum(part[..., :1], 1e-300)
    return np.asarray((counts * np.log(np.maximum(counts, 1e-300) / total)).sum(axis=-1))


_VALUE_MODELS = (
    SplitModel(slice(0, 3), 2.0, _score_normal),
    SplitModel(slice(3, 4 + _BINS), _BINS - 1.0, _score_histogram),
)


class CodedColumn(NamedTuple):
    """The state, cell or bin of a column in each row, -1 where missing, and how many there are; of a number that is a
    parent also the cuts between its cells, and of one that is a child what the rows of a bin add to sums.
    """

    codes: Codes
    size: int
    cuts: Values | None = None
    means: Values | None = None


def divide_parent(
    parent: Variable, cells: NDArray[Any], rows: Codes | slice, weights: Values, most: int
) -> CodedColumn:
    """Return the states of a parent, or at most so many cells of a number that have about equal weight in some rows."""
    if isinstance(parent, Discrete):
        return CodedColumn(cells, len(parent))
    cuts = cut_evenly(cells[rows], weights[rows], most)
    return CodedColumn(np.searchsorted(cuts, cells, side="right"), len(cuts) + 1, cuts)


def _mask_cells(node: TreeNode[None], sizes: Sequence[int]) -> tuple[NDArray[np.bool_], ...]:
    masks = []
    for parent, size in enumerate(sizes):
        mask = np.full(size, parent not in node.boxes)
        mask[node.boxes.get(parent, slice(0))] = True
        masks.append(mask)
    return tuple(masks)


class _Grid:
    """The cuts of all branches together; the pieces of a potential lie on their grid, which must not become too
    large.
    """

    def __init__(self, columns: Sequence[CodedColumn]) -> None:
        self.columns = columns
        self.used = [np.zeros(max(column.size - 1, 0), dtype=bool) for column in columns]

    def permits(self, split: Split[None]) -> bool:
        """Tell whether the grid stays small enough with the cuts of a split, and add them if so."""
        parent = split.column
        cuts = np.True_ if self.columns[parent].cuts is None else np.diff(split.branches[:-1]) != 0
        used = [*self.used[:parent], self.used[parent] | cuts, *self.used[parent + 1 :]]
        small = math.prod(1 + int(own.sum()) for own in used) <= _MOST_GRID
        self.used = used if small else self.used
        return small


@dataclass(frozen=True, eq=False)
class LikelihoodGain:
    """The split whose parts are most likely, if it gains more than its parameters cost.

    Attributes
    ----------
    columns : the parents
    models : SplitModels
    located : LocatedRows
    least : smallest weight of a part
    price : what a parameter has to gain in log-likelihood
    """

    columns: Sequence[CodedColumn]
    models: SplitModels
    located: LocatedRows
    least: float
    price: float

    @classmethod
    def of(
        cls,
        columns: Sequence[CodedColumn],
        models: SplitModels,
        weights: Values,
        least: float,
        price: float | None = None,
    ) -> LikelihoodGain:
        """Judge splits of rows with these weights, where a parameter costs what BIC asks if no price is given."""
        if price is None:
            price = 0.5 * math.log(max(float(weights.sum()), math.e))
        located = LocatedRows([Sample(np.arange(len(weights)), weights)], [column.codes for column in columns])
        return cls(columns, models, located, least, price)

    def grow_nodes(self) -> list[TreeNode[None]]:
        """Return the nodes of the tree."""
        return grow([Route()], self, BestFirst(_MOST_CELLS, _Grid(self.columns).permits))

    def grow_cells(self) -> tuple[list[Cell], Codes]:
        """Grow the tree of cells.

        Returns
        -------
        cells : every cell of the tree, the whole first and every cell after the one that it is a part of
        leaves : positions of those that were not divided
        """
        nodes = self.grow_nodes()
        position = {id(node): number for number, node in enumerate(nodes)}
        cells = [
            Cell(
                _mask_cells(node, [column.size for column in self.columns]),
                self.located.locate(node.route).rows,
                -1 if node.parent is None else position[id(node.parent)],
            )
            for node in nodes
        ]
        return cells, np.array([number for number, node in enumerate(nodes) if node.split is None])

    def measure_gains(self) -> tuple[float, float]:
        """Return by how much the splits of the tree raise the log-likelihood, and the parameters that they cost."""
        splits = [node.split for node in self.grow_nodes() if node.split is not None]
        likelihood = sum(split.gain + self.price * split.parameters for split in splits)
        # the density of a cell has as many parameters as the richer model of it
        return float(likelihood), len(splits) * (1.0 + max(model.freedom for model in self.models.models))

    def measure(self, routes: Sequence[Route]) -> list[None]:
        """Return nothing: the sums are taken for one node and parent at a time."""
        return [None] * len(routes)

    def best(self, nodes: Sequence[TreeNode[None]]) -> list[Split[None] | None]:
        """Return the best split of each node."""
        return [self._best(node) for node in nodes]

    def _best(self, node: TreeNode[None]) -> Split[None] | None:
        rows, here = self.located.locate(node.route)
        if not self.columns or here.sum() < 2.0 * self.least:
            return None
        sums = [self.models.sums(column.codes[rows], column.size, rows, here) for column in self.columns]
        orders = [
            _order_by_response(own[:, self.models.models[0].part]) if column.cuts is None else np.arange(column.size)
            for own, column in zip(sums, self.columns, strict=True)
        ]
        upto = [np.cumsum(own[order], axis=0) for own, order in zip(sums, orders, strict=True)]
        left = np.concatenate([own[:-1] for own in upto])
        right = np.concatenate([own[-1] - own[:-1] for own in upto])
        able = (left[:, 0] >= self.least) & (right[:, 0] >= self.least)
        if not able.any():
            return None
        # one parameter more for the position of the cut
        parameters = [model.freedom + 1.0 for model in self.models.models]
        gains = [
            np.where(able, own, -np.inf) - self.price * count
            for own, count in zip(self._gains(left, right, upto), parameters, strict=True)
        ]
        best: tuple[float, float, int, Codes, Values] | None = None
        stop = 0
        for parent, order in enumerate(orders):
            start, stop = stop, stop + len(order) - 1
            if start == stop:
                continue
            for own, count in zip(gains, parameters, strict=True):
                cut = start + int(np.argmax(own[start:stop]))
                if own[cut] > (best[0] if best else 0.0):
                    masses = np.array([left[cut, 0], right[cut, 0]])
                    best = float(own[cut]), count, parent, order[: cut - start + 1], masses
        return None if best is None else self._split(node, *best)

    def _gains(self, left: Values, right: Values, upto: Sequence[Values]) -> Iterator[Values]:
        """Yield the log-likelihood that cuts gain by each model."""
        right = np.maximum(right, 0.0)
        wholes = np.repeat(np.array([own[-1] for own in upto]), [len(own) - 1 for own in upto], axis=0)
        for part, _, gain in self.models.models:
            whole = wholes[:, part]
            yield gain(left[:, part], whole) + gain(right[:, part], whole) - gain(whole, whole)

    def _split(
        self, node: TreeNode[None], gain: float, parameters: float, parent: int, left: Codes, masses: Values
    ) -> Split[None]:
        column = self.columns[parent]
        branches = np.ones(column.size + 1, dtype=np.intp)
        branches[left] = 0
        branches[-1] = -1
        if column.cuts is None:
            # states that were never seen here stay with the density of the whole cell
            unseen = np.bincount(column.codes[self.located.locate(node.route).rows], minlength=column.size) == 0
            branches[:-1][unseen] = 2
            if unseen[node.boxes.get(parent, slice(None))].any():
                masses = np.append(masses, 0.0)
        return Split(parent, branches, masses, gain, parameters)


def _order_by_response(sums: Values) -> Codes:
    """Order states by the child's mean (of the first feature, or of the most frequent class's indicator)."""
    column = 1 if sums.shape[1] == 3 else 1 + int(np.argmax(sums[:, 1:].sum(axis=0)))
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = np.where(sums[:, 0] > 0, sums[:, column] / sums[:, 0], np.inf)
    return np.asarray(np.argsort(mean, kind="stable"))
