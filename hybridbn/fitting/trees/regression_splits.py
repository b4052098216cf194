"""Growing trees with a linear regression at each node, every one drawn towards the regression of the node above."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import sparse

from hybridbn.fitting.ridge import moments_of, regress_towards
from hybridbn.fitting.trees.growth import DepthFirst, Sample, Split, TreeNode, grow
from hybridbn.variables import Codes, Values

__all__ = ["Growth", "NodeRegression", "RegressionRows", "grow_regressions", "predict_by_depth"]

_ROWS = 4096
"""Rows whose products are held at a time."""


@dataclass(frozen=True)
class RegressionRows:
    """What trees are grown from.

    Attributes
    ----------
    numbers : ndarray (rows, regressors), in comparable units
    target : ndarray (rows,)
    codes : ndarray (rows, tests)
        Intervals of numbers and ordered categories, which a test cuts in two.
    sizes : tuple of int
        How many of them there are.
    ridge : ndarray (regressors,)
        Of the regression at the root, which is drawn towards zero.
    """

    numbers: Values
    target: Values
    codes: Codes
    sizes: tuple[int, ...]
    ridge: Values

    def take(self, tests: Sequence[int]) -> RegressionRows:
        """Return the same with some of the tests."""
        sizes = tuple(self.sizes[test] for test in tests)
        return RegressionRows(self.numbers, self.target, self.codes[:, list(tests)], sizes, self.ridge)


@dataclass(frozen=True)
class Growth:
    """How trees grow.

    Attributes
    ----------
    ridge : float
        As if so many rows spoke for each slope of the node above.
    level : float
        As if so many rows spoke for the prediction of the node above in the middle of the node's rows.
    depth : int
        Greatest number of tests on the way to a leaf.
    least : float
        Least weight of a branch.
    gain : float
        Relative decrease of the penalized sum of squares that a test needs.
    share : float
        Of the tests, drawn anew at each node, which are tried.
    """

    ridge: float
    level: float = 3.0
    depth: int = 4
    least: float = 5.0
    gain: float = 0.02
    share: float = 1.0


@dataclass
class NodeRegression:
    """The regression at a node.

    Attributes
    ----------
    coefficients : ndarray (1 + regressors,)
    variance : float
        Mean square residual, drawn towards that of the node above.
    mass, residual : weight of the rows, and their sum of squares about the regression
    moments : ndarray (regressors + 2, regressors + 2)
        Of 1, the regressors and the target; empty as soon as the node's split is known, since trees are kept.
    """

    coefficients: Values
    variance: float
    mass: float
    residual: float
    moments: Values


def grow_regressions(
    rows: RegressionRows, weights: Values, growth: Growth, rng: np.random.Generator
) -> TreeNode[NodeRegression]:
    """Grow a tree from weighted rows; those of weight zero have no say.

    Examples
    --------
    >>> x = np.linspace(-1, 1, 80)
    >>> rows = RegressionRows(x[:, None], np.abs(x), (x > 0).astype(int)[:, None], (2,), np.zeros(1))
    >>> tree = grow_regressions(rows, np.ones(80), Growth(ridge=0.01, depth=1), np.random.default_rng(0))
    >>> [node.statistics.coefficients.round(1).tolist() for node in tree.children]
    [[0.0, -1.0], [0.0, 1.0]]
    """
    used = np.flatnonzero(weights > 0)
    full = np.column_stack((np.ones(len(used)), rows.numbers[used], rows.target[used]))
    codes = rows.codes[used]
    columns = list(codes.T)
    criterion = PenalizedSquares(full, codes, rows.sizes, rows.ridge, growth, rng)
    nodes = grow(columns, weights[used], criterion, DepthFirst())
    for node in nodes:
        # trees are kept, and their rows are not needed any more
        node.sample = Sample(np.empty(0, dtype=np.intp), np.empty(0))
    return nodes[0]


@dataclass(frozen=True, eq=False)
class PenalizedSquares:
    """The cut that leaves the least sum of squares, penalties included; see `Growth`.

    Attributes
    ----------
    full : ndarray (rows, regressors + 2)
        Ones, the regressors and the target.
    codes : ndarray (rows, tests)
    sizes : tuple of int
    ridge : ndarray (regressors,)
        Of the regression at the root.
    growth : Growth
    rng : Generator
        Draws the tests to be tried.
    """

    full: Values
    codes: Codes
    sizes: tuple[int, ...]
    ridge: Values
    growth: Growth
    rng: np.random.Generator

    def measure(self, samples: Sequence[Sample]) -> list[NodeRegression]:
        """Return the regression of the root; those of other nodes come with the splits."""
        return [self._root(sample) for sample in samples]

    def _root(self, sample: Sample) -> NodeRegression:
        start = np.zeros(self.full.shape[1] - 1)
        start[0] = sample.weights @ self.full[sample.rows, -1] / sample.weights.sum()
        moments = moments_of(self.full[sample.rows], sample.weights)
        coefficients, residual, _ = regress_towards(moments, start, self.ridge, 0.0)
        mass = float(sample.weights.sum())
        return NodeRegression(coefficients, float(residual) / max(mass - 1, 1e-9), mass, float(residual), moments)

    def best(self, nodes: Sequence[TreeNode[NodeRegression]]) -> list[Split[NodeRegression] | None]:
        """Return the best cut of each node."""
        return [self._best(node) for node in nodes]

    def _best(self, node: TreeNode[NodeRegression]) -> Split[NodeRegression] | None:
        growth, own = self.growth, node.statistics
        moments, own.moments = own.moments, np.empty(0)
        if node.level >= growth.depth or own.mass < 2 * growth.least:
            return None
        tests = np.arange(len(self.sizes))
        if growth.share < 1:
            tests = self.rng.permutation(tests)[: max(1, int(np.ceil(growth.share * len(tests))))]
        rows, weights = node.sample
        below, starts = _sum_below_cuts(
            self.full, self.codes, rows, weights, tests, [self.sizes[test] for test in tests]
        )
        mass = below[:, 0, 0]
        # a cut at a code that does not occur is that at the next one that does
        occurring = np.append(mass[1:] != mass[:-1], True)
        occurring[starts[1:] - 1] = True
        able = np.flatnonzero(occurring & (mass >= growth.least) & (mass <= weights.sum() - growth.least))
        if not len(able):
            return None
        below = below[able]
        sides = np.stack((below, moments - below))
        ridge = np.full(len(self.ridge), growth.ridge)
        coefficients, residual, objective = regress_towards(sides, own.coefficients, ridge, growth.level)
        best = int(np.argmin(objective.sum(axis=0)))
        if objective[:, best].sum() > own.residual * (1 - growth.gain):
            return None
        position = int(np.searchsorted(starts, able[best], side="right")) - 1
        test, cut = int(tests[position]), int(able[best] - starts[position]) + 1
        branches = (np.arange(self.sizes[test] + 1) >= cut).astype(np.intp)
        branches[-1] = -1
        masses = sides[:, best, 0, 0]
        regressions = []
        for side, mass in enumerate(masses.tolist()):
            left = float(residual[side, best])
            variance = (left + growth.level * own.variance) / (mass + growth.level)
            regressions.append(NodeRegression(coefficients[side, best], variance, mass, left, sides[side, best]))
        return Split(test, branches, masses, statistics=tuple(regressions))


def _sum_below_cuts(
    full: Values, codes: Codes, rows: Codes, weights: Values, tests: Codes, sizes: Sequence[int]
) -> tuple[Values, Codes]:
    """Return the moments of the rows below every cut of every test, and where the cuts of each test begin.

    Examples
    --------
    >>> full, codes = np.array([[1.0, 2.0], [1.0, 3.0], [1.0, 5.0]]), np.array([[0], [2], [1]])
    >>> below, starts = _sum_below_cuts(full, codes, np.arange(3), np.ones(3), np.array([0]), [3])
    >>> below[:, 0].tolist(), starts
    ([[1.0, 2.0], [2.0, 7.0]], array([0]))
    """
    columns, count = full.shape[1], len(tests)
    edges = np.cumsum([0, *sizes])
    first, second = np.triu_indices(columns)
    sums = np.zeros((int(edges[-1]), len(first)))
    for start in range(0, len(rows), _ROWS):
        part = rows[start : start + _ROWS]
        own = full[part]
        products = own[:, first]
        products *= own[:, second]
        # each row is added to the sums of its code in every test
        places = codes[part[:, None], tests] + edges[:-1]
        shares = np.repeat(weights[start : start + _ROWS], count)
        pointers = np.arange(0, places.size + 1, count)
        sums += sparse.csc_array((shares, places.ravel(), pointers), shape=(len(sums), len(part))) @ products
    upto = np.concatenate([np.cumsum(sums[low : high - 1], axis=0) for low, high in itertools.pairwise(edges)])
    below = np.empty((len(upto), columns, columns))
    below[:, first, second] = below[:, second, first] = upto
    return below, (edges - np.arange(count + 1))[:-1]


def predict_by_depth(
    root: TreeNode[NodeRegression], rows: RegressionRows, depth: int, chosen: Codes | None = None
) -> tuple[Values, Values]:
    """Return predictions and variances of the tree cut off at each depth, (depth + 1, rows) both.

    Parameters
    ----------
    root : TreeNode
    rows : RegressionRows
    depth : int
    chosen : ndarray, optional
        The rows that are predicted, by default all.
    """
    numbers, codes = rows.numbers, rows.codes
    if chosen is not None:
        numbers, codes = numbers[chosen], codes[chosen]
    means, variances = np.empty((2, depth + 1, len(numbers)))
    full = np.column_stack((np.ones(len(numbers)), numbers))
    pending = [(root, Sample(np.arange(len(full)), np.ones(len(full))))]
    while pending:
        node, sample = pending.pop()
        means[node.level :, sample.rows] = full[sample.rows] @ node.statistics.coefficients
        variances[node.level :, sample.rows] = node.statistics.variance
        if node.split is not None and node.level < depth:
            pending += zip(node.children, node.split.divide(codes[:, node.split.column], sample), strict=True)
    return means, variances
