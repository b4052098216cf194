"""Densities of one variable in the cells of a tree: each shrunk toward that of the cell above, all fitted at once.

The statistics of a cell are the means of the hat functions on the knots of the whole, and those of the cell above count as a few
observations more (an m-estimate): a cell without rows has exactly the density above it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hybridbn.fitting.mte_splines import Knots, bounded, degrees_of_freedom, hat_means, maximized, penalty, smeared
from hybridbn.fitting.mte_trees import Cell
from hybridbn.fitting.mte_univariate import Smooth, ladder, roughly, scores, started
from hybridbn.variables import Codes, Values

__all__ = ["cell_heights", "cell_probabilities"]

_EVERY = 3  # of the smoothing strengths; leaves are small
_CHUNK = 64  # leaves fitted at once


def cell_heights(
    values: Values, weights: Values, whole: Smooth, cells: Sequence[Cell], leaves: Codes, prior: float
) -> tuple[Knots, Values, Values]:
    """Fit splines in the leaves of a tree.

    Parameters
    ----------
    values, weights : of all rows, on the standardized axis
    whole : the density without parents, from all rows
    prior : how many observations the cell above counts for

    Returns
    -------
    knots : those of the whole
    heights : (leaves, knots)
    totals : weight of each leaf, with what it borrowed
    """
    knots = whole.knots
    size = len(knots.places)
    places, share = smeared(values, knots.places)
    # values very far out are the same tail everywhere
    weights = np.where((values >= knots.places[0]) & (values <= knots.places[-1]), weights, 0.0)
    share = share * weights
    means, totals = np.empty((len(cells), size)), np.empty(len(cells))
    means[0] = hat_means(whole.heights[None], knots)[0]
    totals[0] = weights.sum()
    distinct = np.empty(len(cells), dtype=np.intp)
    for i, cell in enumerate(cells[1:], start=1):
        rows = cell.rows
        sums = np.bincount(places[:, rows].ravel(), share[:, rows].ravel(), size)
        total = float(weights[rows].sum())
        means[i] = (sums + prior * means[cell.above]) / (total + prior)
        totals[i] = total + prior
    for i in leaves:
        distinct[i] = len(np.unique(values[cells[i].rows]))
    heights = np.empty((len(leaves), size))
    matrix = penalty(knots.places)
    for begin in range(0, len(leaves), _CHUNK):
        part = leaves[begin : begin + _CHUNK]
        heights[begin : begin + _CHUNK] = _smoothed(means[part], totals[part], distinct[part], knots, matrix)
    empty = np.array([not len(cells[i].rows) and not cells[i].above for i in leaves])
    heights[empty] = whole.heights
    return knots, heights, totals[leaves]


def _smoothed(means: Values, totals: Values, distinct: Codes, knots: Knots, matrix: Values) -> Values:
    """Fit each row with several smoothing strengths and return the best."""
    strengths = ladder(1 << 30, np.inf)[::_EVERY]
    count = len(strengths)
    rows = np.repeat(means, count, axis=0)
    weight = np.repeat(totals, count)
    every = np.tile(strengths, len(means))
    start = started(rows, knots, weight)
    heights = maximized(rows, knots, matrix, every, start, **roughly(float(totals.max())))
    freedom = degrees_of_freedom(heights, knots, matrix, every)
    size = np.minimum(weight, np.repeat(distinct, count))
    score = scores(rows, heights, freedom, weight, size).reshape(-1, count)
    best = np.argmax(score, axis=1)
    chosen = np.arange(len(means)) * count + best
    return bounded(maximized(means, knots, matrix, strengths[best], heights[chosen]), knots)


def cell_probabilities(
    codes: Codes, weights: Values, states: int, cells: Sequence[Cell], leaves: Codes, prior: float
) -> Values:
    """Return the child's probabilities in the leaves of a tree (leaves, states).

    The frequencies of the whole are Laplace's, those of a cell ``(counts + prior * above) / (total + prior)``.
    """
    found = np.empty((len(cells), states))
    for i, cell in enumerate(cells):
        counts = np.bincount(codes[cell.rows], weights[cell.rows], states)
        above = found[cell.above] if i else np.full(states, 1.0 / states)
        pseudo = prior if i else float(states)
        found[i] = (counts + pseudo * above) / (counts.sum() + pseudo)
    return found[leaves]
