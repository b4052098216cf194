"""Cells of the parents of a conditional density: a binary tree, grown from the best split on, stopped by BIC.

A split divides the range of one parent: a continuous one at a cut, a discrete one by its states, in the order of the
child's mean there. How much it gains is judged by two cheap models of the child, a normal one (of its normal scores)
and a histogram; or by the exact class frequencies if the child is discrete. The cuts of a continuous parent are those
of a grid with equal frequencies that all branches share, so that the pieces of the potential make a small grid, however
many parents there are.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hybridbn.fitting.trees.growth import BestFirst, Sample, Split, TreeNode, grow
from hybridbn.variables import Codes, Values

__all__ = ["Cell", "SplitModel", "choose_cuts", "grow_cells", "make_class_models", "make_value_models"]

_MOST_CELLS = 256
_MOST_GRID = 200_000
_BINS = 6
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
    features : codes of a histogram (rows,), or numbers (rows, k)
    bins : number of codes, 0 for numbers
    freedom : parameters of the model
    gain : log-likelihood of sums of (weight, features), given those of the whole
    """

    features: NDArray[Any]
    bins: int
    freedom: float
    gain: Callable[[Values, Values], Values]

    def sums(self, cells: Codes, count: int, rows: Codes, weights: Values) -> Values:
        """Return the weights and features added up in each of the parent's cells (count, 1 + k)."""
        features = self.features[rows]
        if self.bins:
            table = np.bincount(cells * self.bins + features, weights, count * self.bins).reshape(count, self.bins)
            return np.column_stack([table.sum(axis=1), table])
        columns = [np.bincount(cells, weights, count)]
        columns += [np.bincount(cells, weights * feature, count) for feature in features.T]
        return np.stack(columns, axis=1)


def make_value_models(scores: Values) -> list[SplitModel]:
    """Return the judges of a continuous child with these normal scores."""
    bins = np.clip(((scores + 1.5) * (_BINS / 3.0)).astype(np.intp), 0, _BINS - 1)
    return [
        SplitModel(np.column_stack([scores, scores**2]), 0, 2.0, _score_normal),
        SplitModel(bins, _BINS, _BINS - 1.0, _score_histogram),
    ]


def make_class_models(codes: Codes, states: int) -> list[SplitModel]:
    """Return the judge of a discrete child."""
    return [SplitModel(codes, states, states - 1.0, _score_histogram)]


def _score_normal(part: Values, whole: Values) -> Values:
    """Return the log-likelihood of normal models whose variances are drawn a little to that of the whole."""
    weight = np.maximum(part[..., 0], 1e-300)
    deviations = np.maximum(part[..., 2] - part[..., 1] ** 2 / weight, 0.0)
    variance = max(float(whole[2] / whole[0] - (whole[1] / whole[0]) ** 2), 1e-6)
    pooled = (deviations + _PRIOR * variance) / (weight + _PRIOR)
    return np.asarray(-0.5 * (weight * np.log(pooled) + deviations / pooled))


def _score_histogram(part: Values, whole: Values) -> Values:
    counts = part[..., 1:]
    total = np.maximum(part[..., :1], 1e-300)
    return np.asarray((counts * np.log(np.maximum(counts, 1e-300) / total)).sum(axis=-1))


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
    models: Sequence[SplitModel],
    weights: Values,
    least: float,
) -> tuple[list[Cell], Codes]:
    """Grow the tree of cells.

    Parameters
    ----------
    columns : for each parent, its state or cell in each row
    sizes : number of states or cells of each parent
    ordered : whether the parent's cells have an order (a continuous parent)
    least : smallest weight of a part

    Returns
    -------
    cells : every cell of the tree, the whole first and every cell after the one that it is a part of
    leaves : positions of those that were not divided
    """
    criterion = LikelihoodGain(columns, sizes, ordered, models, weights, least)
    nodes = grow(columns, weights, criterion, BestFirst(_MOST_CELLS, _Grid(sizes, ordered).permits))
    position = {id(node): number for number, node in enumerate(nodes)}
    cells = [
        Cell(_mask_cells(node, sizes), node.sample.rows, -1 if node.parent is None else position[id(node.parent)])
        for node in nodes
    ]
    return cells, np.array([number for number, node in enumerate(nodes) if node.split is None])


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
    """The split whose parts are most likely, if it gains more than its parameters cost by BIC; see `grow_cells`."""

    columns: Sequence[Codes]
    sizes: Sequence[int]
    ordered: Sequence[bool]
    models: Sequence[SplitModel]
    weights: Values
    least: float

    def measure(self, samples: Sequence[Sample]) -> list[None]:
        """Return nothing: the sums are taken for one node and parent at a time."""
        return [None] * len(samples)

    def best(self, nodes: Sequence[TreeNode[None]]) -> list[Split[None] | None]:
        """Return the best split of each node."""
        price = 0.5 * math.log(max(float(self.weights.sum()), math.e))
        return [self._best(node, price) for node in nodes]

    def _best(self, node: TreeNode[None], price: float) -> Split[None] | None:
        rows, here = node.sample
        if here.sum() < 2.0 * self.least:
            return None
        best: tuple[float, int, Codes, Values] | None = None
        for parent, (column, size) in enumerate(zip(self.columns, self.sizes, strict=True)):
            codes = column[rows]
            order: Codes | None = None
            for model in self.models:
                sums = model.sums(codes, size, rows, here)
                if order is None:
                    order = np.arange(size) if self.ordered[parent] else _order_by_response(sums)
                upto = np.cumsum(sums[order], axis=0)
                whole, left = upto[-1], upto[:-1]
                right = whole - left
                able = (left[:, 0] >= self.least) & (right[:, 0] >= self.least)
                if not able.any():
                    break
                gains = model.gain(left, whole) + model.gain(np.maximum(right, 0.0), whole) - model.gain(whole, whole)
                # one parameter more for the position of the cut
                gains = np.where(able, gains, -np.inf) - price * (model.freedom + 1.0)
                cut = int(np.argmax(gains))
                if gains[cut] > (best[0] if best else 0.0):
                    best = float(gains[cut]), parent, order[: cut + 1], np.array([left[cut, 0], right[cut, 0]])
        return None if best is None else self._split(node, *best)

    def _split(self, node: TreeNode[None], gain: float, parent: int, left: Codes, masses: Values) -> Split[None]:
        size = self.sizes[parent]
        branches = np.ones(size + 1, dtype=np.intp)
        branches[left] = 0
        branches[-1] = -1
        if not self.ordered[parent]:
            # states that were never seen here stay with the density of the whole cell
            unseen = np.bincount(self.columns[parent][node.sample.rows], minlength=size) == 0
            branches[:-1][unseen] = 2
            if unseen[node.boxes.get(parent, slice(None))].any():
                masses = np.append(masses, 0.0)
        return Split(parent, branches, masses, gain)


def _order_by_response(sums: Values) -> Codes:
    """Order states by the child's mean (of the first feature, or of the most frequent class's indicator)."""
    column = 1 if sums.shape[1] == 3 else 1 + int(np.argmax(sums[:, 1:].sum(axis=0)))
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = np.where(sums[:, 0] > 0, sums[:, column] / sums[:, 0], np.inf)
    return np.asarray(np.argsort(mean, kind="stable"))
