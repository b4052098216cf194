"""Cells of the parents of a conditional density: a binary tree, grown from the best split on, stopped by BIC.

A split divides the range of one parent: a continuous one at a cut, a discrete one by its states, in the order of the
child's mean there. How much it gains is judged by two cheap models of the child, a normal one (of its normal scores)
and a histogram; or by the exact class frequencies if the child is discrete. The cuts of a continuous parent are those
of a grid with equal frequencies that all branches share, so that the pieces of the potential make a small grid, however
many parents there are.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hybridbn.fitting.trees.growth import BestFirst, LocatedRows, Route, Sample, Split, TreeNode, grow
from hybridbn.variables import Codes, Values

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


def choose_cuts(values: Values, weights: Values, most: int) -> Values:
    """Return cuts half-way between values that make at most so many cells of about the same weight."""
    distinct, place = np.unique(values, return_inverse=True)
    if len(distinct) < 2:
        return np.empty(0)
    upto = np.cumsum(np.bincount(place, weights))
    wanted = upto[-1] * np.arange(1, most) / most
    # the step of the distribution function that ends nearest to the wanted share
    right = np.clip(np.searchsorted(upto, wanted), 0, len(distinct) - 2)
    left = np.maximum(right - 1, 0)
    nearer = np.where(wanted - upto[left] < upto[right] - wanted, left, right)
    step = np.unique(nearer)
    cuts = distinct[step] + 0.5 * (distinct[step + 1] - distinct[step])
    # of two neighboring floats the half-way point is one; values below a cut stay below it
    return np.unique(np.where(cuts > distinct[step], cuts, distinct[step + 1]))


def grow_cells(
    columns: Sequence[Codes],
    sizes: Sequence[int],
    ordered: Sequence[bool],
    models: SplitModels,
    weights: Values,
    least: float,
    price: float | None = None,
) -> tuple[list[Cell], Codes]:
    """Grow the tree of cells.

    Parameters
    ----------
    columns : for each parent, its state or cell in each row
    sizes : number of states or cells of each parent
    ordered : whether the parent's cells have an order (a continuous parent)
    least : smallest weight of a part
    price : what a parameter has to gain in log-likelihood, by default what BIC asks

    Returns
    -------
    cells : every cell of the tree, the whole first and every cell after the one that it is a part of
    leaves : positions of those that were not divided
    """
    criterion = LikelihoodGain.of(columns, sizes, ordered, models, weights, least, price)
    nodes = criterion.grow()
    position = {id(node): number for number, node in enumerate(nodes)}
    cells = [
        Cell(
            _mask_cells(node, sizes),
            criterion.located.locate(node.route).rows,
            -1 if node.parent is None else position[id(node.parent)],
        )
        for node in nodes
    ]
    return cells, np.array([number for number, node in enumerate(nodes) if node.split is None])


def measure_cell_gains(
    columns: Sequence[Codes],
    sizes: Sequence[int],
    ordered: Sequence[bool],
    models: SplitModels,
    weights: Values,
    least: float,
) -> tuple[float, float]:
    """Return by how much the splits of the tree of cells raise the log-likelihood, and the parameters that they cost.

    Parameters
    ----------
    columns, sizes, ordered, models, weights, least : as in `grow_cells`
    """
    criterion = LikelihoodGain.of(columns, sizes, ordered, models, weights, least)
    splits = [node.split for node in criterion.grow() if node.split is not None]
    likelihood = sum(split.gain + criterion.price * split.parameters for split in splits)
    # the density of a cell has as many parameters as the richer model of it
    parameters = len(splits) * (1.0 + max(model.freedom for model in models.models))
    return float(likelihood), parameters


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

    def __init__(self, sizes: Sequence[int], ordered: Sequence[bool]) -> None:
        self.ordered = ordered
        self.used = [np.zeros(max(size - 1, 0), dtype=bool) for size in sizes]

    def permits(self, split: Split[None]) -> bool:
        """Tell whether the grid stays small enough with the cuts of a split, and add them if so."""
        parent = split.column
        cuts = np.diff(split.branches[:-1]) != 0 if self.ordered[parent] else np.True_
        used = [*self.used[:parent], self.used[parent] | cuts, *self.used[parent + 1 :]]
        small = math.prod(1 + int(own.sum()) for own in used) <= _MOST_GRID
        self.used = used if small else self.used
        return small


@dataclass(frozen=True, eq=False)
class LikelihoodGain:
    """The split whose parts are most likely, if it gains more than its parameters cost; see `grow_cells`."""

    columns: Sequence[Codes]
    sizes: Sequence[int]
    ordered: Sequence[bool]
    models: SplitModels
    located: LocatedRows
    least: float
    price: float

    @classmethod
    def of(
        cls,
        columns: Sequence[Codes],
        sizes: Sequence[int],
        ordered: Sequence[bool],
        models: SplitModels,
        weights: Values,
        least: float,
        price: float | None = None,
    ) -> LikelihoodGain:
        """Judge splits of rows with these weights, where a parameter costs what BIC asks if no price is given."""
        if price is None:
            price = 0.5 * math.log(max(float(weights.sum()), math.e))
        located = LocatedRows([Sample(np.arange(len(weights)), weights)], columns)
        return cls(columns, sizes, ordered, models, located, least, price)

    def grow(self) -> list[TreeNode[None]]:
        """Return the nodes of the tree."""
        return grow([Route()], self, BestFirst(_MOST_CELLS, _Grid(self.sizes, self.ordered).permits))

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
        sums = [
            self.models.sums(column[rows], size, rows, here)
            for column, size in zip(self.columns, self.sizes, strict=True)
        ]
        orders = [
            np.arange(len(own)) if ordered else _order_by_response(own[:, self.models.models[0].part])
            for own, ordered in zip(sums, self.ordered, strict=True)
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
        size = self.sizes[parent]
        branches = np.ones(size + 1, dtype=np.intp)
        branches[left] = 0
        branches[-1] = -1
        if not self.ordered[parent]:
            # states that were never seen here stay with the density of the whole cell
            unseen = np.bincount(self.columns[parent][self.located.locate(node.route).rows], minlength=size) == 0
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
