"""Cells of the parents of a conditional density: a binary tree, grown from the best split on, stopped by BIC.

A split divides the range of one parent: a continuous one at a cut, a discrete one by its states, in the order of the child's mean
there. How much it gains is judged by two cheap models of the child, a normal one (of its normal scores) and a histogram; or by
the exact class frequencies if the child is discrete. The cuts of a continuous parent are those of a grid with equal frequencies that
all branches share, so that the pieces of the potential make a small grid, however many parents there are.
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hybridbn.variables import Codes, Values

__all__ = ["Cell", "Judge", "class_judges", "cuts_of", "grown", "value_judges"]

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


class Judge(NamedTuple):
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


def value_judges(scores: Values) -> list[Judge]:
    """Return the judges of a continuous child with these normal scores."""
    bins = np.clip(((scores + 1.5) * (_BINS / 3.0)).astype(np.intp), 0, _BINS - 1)
    return [
        Judge(np.column_stack([scores, scores**2]), 0, 2.0, _normal_gain),
        Judge(bins, _BINS, _BINS - 1.0, _histogram_gain),
    ]


def class_judges(codes: Codes, states: int) -> list[Judge]:
    """Return the judge of a discrete child."""
    return [Judge(codes, states, states - 1.0, _histogram_gain)]


def _normal_gain(part: Values, whole: Values) -> Values:
    """Return the log-likelihood of normal models whose variances are drawn a little to that of the whole."""
    weight = np.maximum(part[..., 0], 1e-300)
    deviations = np.maximum(part[..., 2] - part[..., 1] ** 2 / weight, 0.0)
    variance = max(float(whole[2] / whole[0] - (whole[1] / whole[0]) ** 2), 1e-6)
    pooled = (deviations + _PRIOR * variance) / (weight + _PRIOR)
    return np.asarray(-0.5 * (weight * np.log(pooled) + deviations / pooled))


def _histogram_gain(part: Values, whole: Values) -> Values:
    counts = part[..., 1:]
    total = np.maximum(part[..., :1], 1e-300)
    return np.asarray((counts * np.log(np.maximum(counts, 1e-300) / total)).sum(axis=-1))


def cuts_of(values: Values, weights: Values, most: int) -> Values:
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


def grown(
    columns: Sequence[Codes], sizes: Sequence[int], ordered: Sequence[bool], judges: Sequence[Judge], weights: Values,
    least: float,
) -> tuple[list[Cell], Codes]:  # fmt: skip
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
    price = 0.5 * math.log(max(float(weights.sum()), math.e))
    cells = [Cell(tuple(np.ones(size, dtype=bool) for size in sizes), np.arange(len(weights)), -1)]
    number = itertools.count()
    waiting: list[tuple[float, int, int, int, NDArray[np.bool_]]] = []
    divided: set[int] = set()
    used = [np.zeros(max(size - 1, 0), dtype=bool) for size in sizes]

    def consider(position: int) -> None:
        found = _best_split(cells[position], columns, sizes, ordered, judges, weights, least, price)
        if found is not None:
            heapq.heappush(waiting, (-found[0], next(number), position, found[1], found[2]))

    consider(0)
    leaves = 1
    while waiting and leaves < _MOST_CELLS:
        _, _, position, parent, left = heapq.heappop(waiting)
        new = used[parent] | (np.diff(left.astype(int)) != 0) if ordered[parent] else used[parent] | True
        grid = math.prod(1 + int((new if j == parent else cuts).sum()) for j, cuts in enumerate(used))
        if grid > _MOST_GRID:
            continue
        used[parent] = new
        divided.add(position)
        cell = cells[position]
        codes = columns[parent][cell.rows]
        present = np.bincount(codes, minlength=sizes[parent]) > 0
        inside = cell.allowed[parent]
        parts = [inside & left, inside & ~left]
        if not ordered[parent]:  # states that were never seen here stay with the density of the whole cell
            parts = [part & present for part in parts] + [inside & ~present]
        for part in parts:
            if part.any():
                allowed = (*cell.allowed[:parent], part, *cell.allowed[parent + 1 :])
                cells.append(Cell(allowed, cell.rows[part[codes]], position))
                leaves += 1
                if len(cells[-1].rows):
                    consider(len(cells) - 1)
        leaves -= 1
    return cells, np.array([i for i in range(len(cells)) if i not in divided])


def _best_split(
    cell: Cell, columns: Sequence[Codes], sizes: Sequence[int], ordered: Sequence[bool], judges: Sequence[Judge],
    weights: Values, least: float, price: float,
) -> tuple[float, int, NDArray[np.bool_]] | None:  # fmt: skip
    """Return the gain, the parent and the states or cells of one side of the best split, None if none is worth it."""
    best: tuple[float, int, NDArray[np.bool_]] | None = None
    here = weights[cell.rows]
    if here.sum() < 2.0 * least:
        return None
    for parent, (column, size) in enumerate(zip(columns, sizes, strict=True)):
        codes = column[cell.rows]
        order: Codes | None = None
        for judge in judges:
            sums = judge.sums(codes, size, cell.rows, here)
            if order is None:
                order = np.arange(size) if ordered[parent] else _by_response(sums)
            upto = np.cumsum(sums[order], axis=0)
            whole, left = upto[-1], upto[:-1]
            right = whole - left
            able = (left[:, 0] >= least) & (right[:, 0] >= least)
            if not able.any():
                break
            gains = judge.gain(left, whole) + judge.gain(np.maximum(right, 0.0), whole) - judge.gain(whole, whole)
            gains = np.where(able, gains, -np.inf) - price * (judge.freedom + 1.0)  # one for the place of the cut
            place = int(np.argmax(gains))
            if gains[place] > (best[0] if best else 0.0):
                mask = np.zeros(size, dtype=bool)
                mask[order[: place + 1]] = True
                best = float(gains[place]), parent, mask
    return best


def _by_response(sums: Values) -> Codes:
    """Order states by the child's mean (of the first feature, or of the most frequent class's indicator)."""
    column = 1 if sums.shape[1] == 3 else 1 + int(np.argmax(sums[:, 1:].sum(axis=0)))
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = np.where(sums[:, 0] > 0, sums[:, column] / sums[:, 0], np.inf)
    return np.asarray(np.argsort(mean, kind="stable"))
