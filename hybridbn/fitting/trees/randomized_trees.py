"""Forests of extremely randomized trees (Geurts, Ernst & Wehenkel 2006), all trees grown at once, level by level.

Each tree sees a bootstrap sample. A node is split by the best of some random questions "is this column at most that
number?", the number being halfway between two of the node's rows, so that neither outliers nor units matter.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hybridbn.variables import Codes, Values

__all__ = ["Forest", "grow_forest"]

_TREES = 40
_LEAST = 3
"""Rows of a leaf."""
_QUESTIONS = (8, 16)
"""Tried for each node: one for every other column, but so many at least and at most."""
_ROWS = 2000
"""Of a tree, at most."""
_CHUNK = 2048


@dataclass(frozen=True, eq=False)
class Forest:
    """Trees in arrays of all their nodes.

    Attributes
    ----------
    roots : ndarray (trees,)
    column, cut : ndarray (nodes,)
        A row goes left if its cell of the column is at most the cut, which is infinite in leaves.
    left : ndarray (nodes,)
        The left child, the right one standing next to it; of a leaf itself.
    value : ndarray (nodes,)
        Mean of the target.
    """

    roots: Codes
    column: Codes
    cut: Values
    left: Codes
    value: Values

    def predict_each(self, features: Values) -> Values:
        """Return what each tree says of each row of the features: (rows, trees)."""
        found = np.empty((len(features), len(self.roots)))
        # of few rows at a time, whose nodes stay in the cache
        for start in range(0, len(features), _CHUNK):
            found[start : start + _CHUNK] = self._predict_rows(features[start : start + _CHUNK]).T
        return found

    def _predict_rows(self, features: Values) -> Values:
        rows = np.arange(len(features))
        node = np.repeat(self.roots[:, None], len(features), axis=1)
        while True:
            deeper = self.left[node] + (features[rows, self.column[node]] > self.cut[node])
            if (deeper == node).all():
                return np.asarray(self.value[node])
            node = deeper

    def predict(self, features: Values) -> Values:
        """Return the mean of the trees for each row.

        Examples
        --------
        >>> x = np.linspace(-1, 1, 400)
        >>> forest, _ = grow_forest(x[:, None], x**2, np.random.default_rng(0))
        >>> bool(abs(forest.predict(np.array([[0.5]]))[0] - 0.25) < 0.05)
        True
        """
        # along what is contiguous, so that rounding doesn't depend on how many rows there are
        return np.asarray(self.predict_each(features).mean(axis=1))


def grow_forest(features: Values, target: Values, rng: np.random.Generator) -> tuple[Forest, Values]:
    """Return a forest, and for each row the mean of those trees that haven't seen it.

    Parameters
    ----------
    features : ndarray (rows, columns)
    target : ndarray (rows,)
    """
    size = min(len(target), _ROWS)
    picked = rng.integers(len(target), size=(_TREES, size))
    forest = _grow_trees(features, target, picked, rng)
    each = forest.predict_each(features)
    unseen = np.ones(each.shape, dtype=bool)
    np.put_along_axis(unseen, picked.T, False, axis=0)
    counts = unseen.sum(axis=1)
    return forest, np.where(counts > 0, (each * unseen).sum(axis=1) / np.maximum(counts, 1), each.mean(axis=1))


def _grow_trees(features: Values, target: Values, picked: Codes, rng: np.random.Generator) -> Forest:
    """Grow a tree from each row of `picked`, which has the numbers of its rows."""
    trees, size = picked.shape
    rows, starts = picked.ravel(), np.arange(trees) * size
    levels: list[tuple[Codes, Values, Codes, Values]] = []
    total = trees
    while True:
        # the rows of a node stand together
        counts = np.diff(starts, append=len(rows))
        sums = np.add.reduceat(target[rows], starts)
        column, cut = _choose_cuts(features, target, rows, starts, counts, sums, rng)
        splits = np.isfinite(cut)
        place = np.cumsum(splits) - 1
        own = np.arange(total - len(starts), total)
        levels.append((column, cut, np.where(splits, total + 2 * place, own), sums / counts))
        if not splits.any():
            break
        node = np.repeat(np.arange(len(starts)), counts)
        kept = splits[node]
        rows, node = rows[kept], node[kept]
        side = 2 * place[node] + (features[rows, column[node]] > cut[node])
        order = np.argsort(side, kind="stable")
        rows, side = rows[order], side[order]
        starts = np.searchsorted(side, np.arange(2 * int(splits.sum())))
        total += len(starts)
    column, cut, left, value = (np.concatenate(part) for part in zip(*levels, strict=True))
    return Forest(np.arange(trees), column, cut, left, value)


def _choose_cuts(
    features: Values,
    target: Values,
    rows: Codes,
    starts: Codes,
    counts: Codes,
    sums: Values,
    rng: np.random.Generator,
) -> tuple[Codes, Values]:
    """Return the column and the cut of each node; the cut is infinite where no question leaves enough rows on both
    sides.
    """
    nodes, own = len(starts), target[rows]
    node = np.repeat(np.arange(nodes), counts)
    best = sums**2 / counts * (1 + 1e-9)
    column, cut = np.zeros(nodes, dtype=np.intp), np.full(nodes, np.inf)
    for _ in range(int(np.clip(features.shape[1] // 2, *_QUESTIONS))):
        asked = rng.integers(features.shape[1], size=nodes)
        one, other = (rows[starts + np.floor(rng.random(nodes) * counts).astype(np.intp)] for _ in range(2))
        halfway = 0.5 * features[one, asked] + 0.5 * features[other, asked]
        goes_left = features[rows, asked[node]] <= halfway[node]
        left = np.add.reduceat(goes_left.astype(np.intp), starts)
        told = np.add.reduceat(np.where(goes_left, own, 0.0), starts)
        right = counts - left
        enough = (left >= _LEAST) & (right >= _LEAST)
        score = told**2 / np.maximum(left, 1) + (sums - told) ** 2 / np.maximum(right, 1)
        better = enough & (score > best)
        best, column, cut = (
            np.where(better, new, old) for new, old in ((score, best), (asked, column), (halfway, cut))
        )
    return column, cut
