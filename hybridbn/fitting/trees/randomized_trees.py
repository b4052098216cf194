"""Forests of extremely randomized trees (Geurts, Ernst & Wehenkel 2006), all trees grown at once, level by level.

Each tree sees a bootstrap sample. A node is split by the best of some random questions "is this column at most that
number?", the number being halfway between two of the node's rows, so that neither outliers nor units matter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from hybridbn.variables import Codes, Values

__all__ = ["Forest", "Questions", "grow_class_forest", "grow_forest"]

_TREES = 40
_LEAST = 3
"""Rows of a leaf, at least,"""
_LEAVES = 200
"""and one row for so many of a tree."""
_QUESTIONS = (8, 16)
"""Tried for each node: one for every other column, but so many at least and at most."""
_ROWS = 1000
"""Of a tree, at most."""
_CHUNK = 2048
_STEPS = 4
"""Rows go down so many levels before those that are in leaves are sorted out."""


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
    value : ndarray (nodes,) or (nodes, classes)
        Mean of the target, or how many rows of each class reach the node.
    """

    roots: Codes
    column: Codes
    cut: Values
    left: Codes
    value: Values

    def predict_each(self, features: Values) -> Values:
        """Return what each tree says of each row of the features: (rows, trees) or (rows, trees, outputs)."""
        result = np.empty((len(features), len(self.roots), *self.value.shape[1:]))
        # of few rows at a time, whose nodes stay in the cache
        for start in range(0, len(features), _CHUNK):
            leaves = self.find_leaves(features[start : start + _CHUNK])
            result[start : start + _CHUNK] = self.value.take(leaves.T, axis=0)
        return result

    def find_leaves(self, features: NDArray[Any], trees: slice | Codes = slice(None)) -> Codes:
        """Return the leaf of each row in each tree, or in some: (trees, rows)."""
        roots = self.roots[trees]
        flat, first = features.ravel(), np.tile(np.arange(len(features)) * features.shape[1], len(roots))
        node = np.repeat(roots, len(features))
        leaf, pending = node.copy(), np.arange(len(node))
        while len(pending):
            # a row that is in its leaf stays there, so it need not be sorted out at each step
            for _ in range(_STEPS):
                node = self.left.take(node) + (flat.take(self.column.take(node) + first) > self.cut.take(node))
            leaf[pending] = node
            inner = np.isfinite(self.cut.take(node))
            pending, node, first = pending[inner], node[inner], first[inner]
        return np.asarray(leaf.reshape(len(roots), len(features)))

    def list_levels(self) -> Iterator[tuple[slice, Codes]]:
        """Yield the nodes of each level below the roots, and the nodes above them."""
        above, start = self.parents, len(self.roots)
        while start < len(above):
            stop = int(np.searchsorted(above, start))
            yield slice(start, stop), above[start:stop]
            start = stop

    @property
    def parents(self) -> Codes:
        """The node above each node, -1 above the roots; a node comes after its parent."""
        above = np.full(len(self.left), -1)
        inner = np.flatnonzero(np.isfinite(self.cut))
        above[self.left[inner]] = above[self.left[inner] + 1] = inner
        return above

    def predict(self, features: Values) -> Values:
        """Return the mean of the trees for each row: (rows,) or (rows, outputs).

        Examples
        --------
        >>> x = np.linspace(-1, 1, 400)
        >>> forest, _ = grow_forest(x[:, None], x**2, np.random.default_rng(0))
        >>> bool(abs(forest.predict(np.array([[0.5]]))[0] - 0.25) < 0.05)
        True
        """
        result = np.empty((len(features), *self.value.shape[1:]))
        for start in range(0, len(features), _CHUNK):
            leaves = self.find_leaves(features[start : start + _CHUNK])
            # along what is contiguous, so that rounding doesn't depend on how many rows there are
            result[start : start + _CHUNK] = self.value.take(leaves.T, axis=0).mean(axis=1)
        return result

    def predict_unseen(self, features: Values, counts: Codes) -> Values:
        """Return the mean of those trees that haven't seen the row; of all, where each has.

        Parameters
        ----------
        counts : ndarray (rows, trees)
            How often each tree has seen each row.
        """
        each, unseen = self.predict_each(features), counts == 0
        unseen[~unseen.any(axis=1)] = True
        weighted = np.einsum("rt...,rt->r...", each, unseen.astype(np.float64))
        return np.asarray(weighted / unseen.sum(axis=1).reshape(-1, *[1] * (each.ndim - 2)))

    def reweigh(self, features: Values, target: Values, counts: Values) -> Self:
        """Return the same trees with means of other rows, or of rows with other weights, in their leaves.

        Parameters
        ----------
        features : ndarray (rows, columns)
        target : ndarray (rows, outputs)
        counts : ndarray (rows, trees)
            How often each row counts in each tree; leaves without any row stay as they are.
        """
        leaf, counted = self.find_leaves(features).ravel(), counts.T.ravel()
        total = np.bincount(leaf, counted, len(self.left))
        told, value = total > 0, np.array(self.value)
        for output, own in enumerate(target.T):
            sums = np.bincount(leaf, counted * np.tile(own, len(self.roots)), len(self.left))
            value[told, output] = sums[told] / total[told]
        return replace(self, value=value)


def grow_forest(
    features: Values, target: Values, rng: np.random.Generator, weights: Values | None = None
) -> tuple[Forest, Codes]:
    """Return a forest, and how often each tree has seen each row (rows, trees).

    Parameters
    ----------
    features : ndarray (rows, columns)
    target : ndarray (rows,) or (rows, outputs)
        Several outputs, in comparable units, share the trees.
    weights : ndarray (rows,), optional
        How often each row counts.
    """
    size = min(len(target), _ROWS)
    if weights is None:
        picked = rng.integers(len(target), size=(_TREES, size))
    else:
        cumulated = np.cumsum(weights)
        picked = np.searchsorted(cumulated, cumulated[-1] * rng.random((_TREES, size)), side="right")
        picked = np.minimum(picked, len(target) - 1)
    outputs = _Numbers(np.ascontiguousarray(target.T.reshape(-1, len(target))))
    least = max(_LEAST, size // _LEAVES)
    forest = _grow_trees(features, outputs, picked, Questions.of(features.shape[1]), least, rng)
    key = (picked + len(target) * np.arange(_TREES)[:, None]).ravel()
    counts = np.bincount(key, minlength=_TREES * len(target)).reshape(_TREES, -1).T
    return replace(forest, value=forest.value.reshape(-1, *target.shape[1:])), counts


def grow_class_forest(
    features: NDArray[Any],
    classes: Codes,
    count: int,
    picked: Codes,
    questions: Questions,
    rng: np.random.Generator,
    least: int = 1,
) -> Forest:
    """Return a forest of trees for classes, each grown until its leaves can't be told apart any further.

    Parameters
    ----------
    features : ndarray (rows, features)
    classes : ndarray (rows,)
    count : int
        Number of classes.
    picked : ndarray (trees, sample)
        The rows that each tree grows from.
    questions : Questions
    least : int
        Rows of a leaf.

    Examples
    --------
    >>> x, rng = np.arange(8.0)[:, None], np.random.default_rng(0)
    >>> forest = grow_class_forest(x, np.arange(8) // 4, 2, np.tile(np.arange(8), (3, 1)), Questions.of(1), rng)
    >>> forest.value[forest.find_leaves(np.array([[1.0], [6.0]]))].sum(axis=0).tolist()
    [[12.0, 0.0], [0.0, 12.0]]
    """
    return _grow_trees(features, _Classes(classes, count), picked, questions, least, rng)


@dataclass(frozen=True)
class Questions:
    """Which features are asked about: one of a random group, such as the indicators of a category's states.

    Attributes
    ----------
    starts, sizes : ndarray (groups,)
        Of each group its first feature and how many there are.
    count : int
        Tried for each node.
    """

    starts: Codes
    sizes: Codes
    count: int

    @classmethod
    def of(cls, features: int) -> Self:
        """Return questions about features that are each a group."""
        count = int(np.clip(features // 2, *_QUESTIONS))
        return cls(np.arange(features), np.ones(features, dtype=np.intp), count)

    def draw(self, nodes: int, rng: np.random.Generator) -> Codes:
        """Return a feature for each node."""
        group = rng.integers(len(self.starts), size=nodes)
        if len(self.starts) == self.sizes.sum():
            return np.asarray(self.starts[group])
        return np.asarray(self.starts[group] + np.floor(rng.random(nodes) * self.sizes[group]).astype(np.intp))


_CountLeft: TypeAlias = Callable[[NDArray[np.bool_]], tuple[Codes, Values]]
"""Returns for each node how many rows go left, and their sums (nodes, outputs)."""


@dataclass(frozen=True)
class _Numbers:
    """Sums of numbers (outputs, rows) over nodes; their squares over the counts tell how much of the squared error is
    explained.
    """

    targets: Values

    def sum_nodes(self, rows: Codes, starts: Codes, node: Codes) -> Values:
        return np.add.reduceat(self.targets[:, rows], starts, axis=1).T

    def count_left(self, rows: Codes, starts: Codes, node: Codes) -> _CountLeft:
        own = self.targets[:, rows]

        def count(goes_left: NDArray[np.bool_]) -> tuple[Codes, Values]:
            left = np.add.reduceat(goes_left.astype(np.intp), starts)
            return left, np.add.reduceat(np.where(goes_left, own, 0.0), starts, axis=1).T

        return count

    def can_split(self, sums: Values, counts: Codes) -> NDArray[np.bool_]:
        return np.ones(len(counts), dtype=bool)

    def summarize(self, sums: Values, counts: Codes) -> Values:
        return np.asarray(sums / counts[:, None])


@dataclass(frozen=True)
class _Classes:
    """Counts of classes in nodes, whose squares over the counts of rows tell how pure the nodes are (Gini)."""

    classes: Codes
    count: int

    def sum_nodes(self, rows: Codes, starts: Codes, node: Codes) -> Values:
        key = node * self.count + self.classes[rows]
        return np.asarray(np.bincount(key, minlength=len(starts) * self.count).reshape(-1, self.count), np.float64)

    def count_left(self, rows: Codes, starts: Codes, node: Codes) -> _CountLeft:
        key, nodes = node * self.count + self.classes[rows], len(starts)

        def count(goes_left: NDArray[np.bool_]) -> tuple[Codes, Values]:
            told = np.bincount(key[goes_left], minlength=nodes * self.count).reshape(-1, self.count)
            return told.sum(axis=1), told.astype(np.float64)

        return count

    def can_split(self, sums: Values, counts: Codes) -> NDArray[np.bool_]:
        return np.asarray(sums.max(axis=1) < counts)

    def summarize(self, sums: Values, counts: Codes) -> Values:
        return sums


def _grow_trees(
    features: NDArray[Any],
    target: _Numbers | _Classes,
    picked: Codes,
    questions: Questions,
    least: int,
    rng: np.random.Generator,
) -> Forest:
    """Grow a tree from each row of `picked`, which has the numbers of its rows."""
    trees, size = picked.shape
    rows, starts = picked.ravel(), np.arange(trees) * size
    levels: list[tuple[Codes, Values, Codes, Values]] = []
    total = trees
    while True:
        # the rows of a node stand together
        counts = np.diff(starts, append=len(rows))
        node = np.repeat(np.arange(len(starts)), counts)
        sums = target.sum_nodes(rows, starts, node)
        column, cut = np.zeros(len(starts), dtype=np.intp), np.full(len(starts), np.inf)
        mixed = target.can_split(sums, counts)
        asked = np.flatnonzero(mixed)
        if len(asked):
            inside, own = mixed[node], counts[asked]
            column[asked], cut[asked] = _choose_cuts(
                features,
                target,
                rows[inside],
                np.cumsum(own) - own,
                own,
                sums[asked],
                np.repeat(np.arange(len(asked)), own),
                questions,
                least,
                rng,
            )
        splits = np.isfinite(cut)
        place = np.cumsum(splits) - 1
        own = np.arange(total - len(starts), total)
        levels.append((column, cut, np.where(splits, total + 2 * place, own), target.summarize(sums, counts)))
        if not splits.any():
            break
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
    features: NDArray[Any],
    target: _Numbers | _Classes,
    rows: Codes,
    starts: Codes,
    counts: Codes,
    sums: Values,
    node: Codes,
    questions: Questions,
    least: int,
    rng: np.random.Generator,
) -> tuple[Codes, Values]:
    """Return the column and the cut of each node; the cut is infinite where no question leaves enough rows on both
    sides.
    """
    nodes = len(starts)
    whole = (sums**2).sum(axis=1) / counts
    best = whole * (1 + 1e-9)
    column, cut = np.zeros(nodes, dtype=np.intp), np.full(nodes, np.inf)
    flat, first = features.ravel(), rows * features.shape[1]
    count_left = target.count_left(rows, starts, node)
    for _ in range(questions.count):
        asked = questions.draw(nodes, rng)
        one, other = (rows[starts + np.floor(rng.random(nodes) * counts).astype(np.intp)] for _ in range(2))
        halfway = 0.5 * features[one, asked] + 0.5 * features[other, asked]
        # whole numbers are compared as such, several times faster
        bound = halfway if features.dtype.kind == "f" else halfway.astype(features.dtype)
        goes_left = flat.take(first + np.repeat(asked, counts)) <= np.repeat(bound, counts)
        left, told = count_left(goes_left)
        right = counts - left
        enough = (left >= least) & (right >= least)
        score = (told**2).sum(axis=1) / np.maximum(left, 1) + ((sums - told) ** 2).sum(axis=1) / np.maximum(right, 1)
        better = enough & (score > best)
        best, column, cut = (
            np.where(better, new, old) for new, old in ((score, best), (asked, column), (halfway, cut))
        )
    return column, cut
