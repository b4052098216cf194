"""Densities of one variable in the cells of a tree: each shrunk toward that of the cell above, all fitted at once.

The statistics of a cell are the means of the hat functions on the knots of the whole, and those of the cell above count as a few
observations more (an m-estimate): a cell without rows has exactly the density above it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hybridbn.fitting.mte_smoothing import FEW, Tried, better, ladder, mixtures, tried
from hybridbn.fitting.mte_splines import Knots, bounded, hat_means, maximized, penalty, smeared
from hybridbn.fitting.mte_univariate import Smooth, refined
from hybridbn.fitting.trees.likelihood import Cell
from hybridbn.variables import Codes, Values

__all__ = ["cell_heights", "cell_probabilities"]

_LARGE = 100  # values: enough to see several modes
_CHUNK = 64  # leaves fitted at once
_WITHIN = 1e-6  # of an observation's log-likelihood


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
    knots : those of the whole, and more where leaves are narrow
    heights : (leaves, knots)
    totals : weight of each leaf, with what it borrowed; an empty one has that of the cell above
    """
    knots, base = _fine_enough(values, weights, whole, cells, leaves)
    size = len(knots.places)
    places, share = smeared(values, knots.places)
    # values very far out are the same tail everywhere
    weights = np.where((values >= knots.places[0]) & (values <= knots.places[-1]), weights, 0.0)
    share = share * weights
    means, totals = np.empty((len(cells), size)), np.empty(len(cells))
    means[0] = hat_means(base[None], knots)[0]
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
    for begin in range(0, len(leaves), _CHUNK):
        part = leaves[begin : begin + _CHUNK]
        heights[begin : begin + _CHUNK] = _smoothed(means[part], totals[part], distinct[part], knots)
    empty = np.array([not len(cells[i].rows) and not cells[i].above for i in leaves])
    heights[empty] = base
    # a cell without rows stands for those above it
    alone = [i if len(cells[i].rows) or not i else cells[i].above for i in leaves]
    return knots, heights, totals[alone]


def _fine_enough(
    values: Values, weights: Values, whole: Smooth, cells: Sequence[Cell], leaves: Codes
) -> tuple[Knots, Values]:
    """Return the whole's spline on knots that are fine enough for the leaves, too."""
    quantiles = []
    for i in leaves:
        rows = cells[i].rows
        if len(rows) >= FEW:
            order = rows[np.argsort(values[rows])]
            upto = np.cumsum(weights[order])
            quantiles.append(values[order][np.searchsorted(upto, upto[-1] * np.array([0.05, 0.25, 0.75, 0.95]))])
    low, lower, higher, high = np.array(quantiles).reshape(-1, 4).T
    # the standard deviation of a normal density
    steps = np.minimum((high - low) / 3.3, (higher - lower) / 1.35)
    wide = steps > 0
    if not wide.any():
        return whole.knots, whole.heights
    return refined(whole.knots, whole.heights, low[wide], high[wide], steps[wide])


def _smoothed(means: Values, totals: Values, distinct: Codes, knots: Knots) -> Values:
    """Return the heights of the best fit of each row; the larger ones may be mixtures of several normal densities."""
    sizes = np.minimum(totals, distinct)
    strengths = ladder(FEW, np.inf)
    best = tried(means, knots, strengths[::2], totals, sizes)
    large = np.flatnonzero(sizes >= _LARGE)
    if len(large):
        rows = means[large]
        targets = np.stack([mixtures(rows, knots.places, count) for count in (2, 3)])
        part = Tried(*(array[large] for array in best))
        part = better(part, tried(rows, knots, strengths[1:4:2], totals[large], sizes[large], targets, (2, 3)))
        for array, values in zip(best, part, strict=True):
            array[large] = values
    matrix = penalty(knots.places)
    return bounded(maximized(means, knots, matrix, best.strength, best.heights, best.bends, within=_WITHIN), knots)


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
