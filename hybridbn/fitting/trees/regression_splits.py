"""Growing trees with a linear regression at each node, every one drawn towards the regression of the node above."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from scipy import sparse

from hybridbn.fitting.ridge import moments_of, regress_towards
from hybridbn.fitting.trees.growth import Levels, Sample, Split, TreeNode, grow_from
from hybridbn.variables import Codes, Values

__all__ = ["Growth", "NodeRegression", "RegressionRows", "grow_regressions", "predict_by_depth"]

LEAST_VARIANCE = 1e-18
"""Of the residuals, relative to the target's."""
_ROWS = 4096
"""Rows whose products are held at a time."""
_NUMBERS = 1 << 20
"""Numbers in the largest temporary arrays, about."""
_ENTRIES = 1 << 16
"""Trees grow together as long as their samples have at most so many rows."""


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
    spread : ndarray (rows, regressors), optional
        The variances of numbers that are not known but expected.
    """

    numbers: Values
    target: Values
    codes: Codes
    sizes: tuple[int, ...]
    ridge: Values
    spread: Values | None = None

    def take(self, tests: Sequence[int]) -> RegressionRows:
        """Return the same with some of the tests."""
        return replace(self, codes=self.codes[:, list(tests)], sizes=tuple(self.sizes[test] for test in tests))


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
) -> list[TreeNode[NodeRegression]]:
    """Grow a tree from each sample of the rows; rows of weight zero have no say.

    Parameters
    ----------
    rows : RegressionRows
    weights : ndarray (trees, rows)
    growth : Growth
    rng : Generator
        Draws the tests to be tried.

    Examples
    --------
    >>> x = np.linspace(-1, 1, 80)
    >>> rows = RegressionRows(x[:, None], np.abs(x), (x > 0).astype(int)[:, None], (2,), np.zeros(1))
    >>> (tree,) = grow_regressions(rows, np.ones((1, 80)), Growth(ridge=0.01, depth=1), np.random.default_rng(0))
    >>> [node.statistics.coefficients.round(1).tolist() for node in tree.children]
    [[0.0, -1.0], [0.0, 1.0]]
    """
    criterion = PenalizedSquares(rows, growth, rng)
    columns = list(rows.codes.T)
    together = max(1, _ENTRIES // max(len(rows.target), 1))
    trees: list[TreeNode[NodeRegression]] = []
    for first in range(0, len(weights), together):
        samples = []
        for own in weights[first : first + together]:
            used = np.flatnonzero(own > 0)
            samples.append(Sample(used, own[used].astype(np.float64)))
        nodes = grow_from(columns, samples, criterion, Levels())
        for node in nodes:
            # trees are kept, and their rows are not needed any more
            node.sample = Sample(np.empty(0, dtype=np.intp), np.empty(0))
            node.statistics.moments = np.empty(0)
        trees += nodes[: len(samples)]
    return trees


class _Cut(NamedTuple):
    """The best cut of a node so far, and the regressions of both sides."""

    loss: float
    test: int
    code: int
    coefficients: Values
    residual: Values
    moments: Values


@dataclass(frozen=True, eq=False)
class PenalizedSquares:
    """The cut that leaves the least sum of squares, penalties included; see `Growth`.

    Attributes
    ----------
    rows : RegressionRows
    growth : Growth
    rng : Generator
        Draws the tests to be tried.
    """

    rows: RegressionRows
    growth: Growth
    rng: np.random.Generator

    def measure(self, samples: Sequence[Sample]) -> list[NodeRegression]:
        """Return the regressions of roots; those of other nodes come with the splits."""
        return [self._measure_root(sample) for sample in samples]

    def _measure_root(self, sample: Sample) -> NodeRegression:
        start = np.zeros(self.rows.numbers.shape[1] + 1)
        start[0] = sample.weights @ self.rows.target[sample.rows] / sample.weights.sum()
        moments = np.zeros((len(start) + 1, len(start) + 1))
        for first in range(0, len(sample.rows), _ROWS):
            part = slice(first, first + _ROWS)
            moments += moments_of(self._take_full(sample.rows[part]), sample.weights[part])
        coefficients, residual, _ = regress_towards(moments, start, self.rows.ridge, 0.0)
        mass = float(sample.weights.sum())
        # a sample may be fitted exactly, but no density is a point
        least = LEAST_VARIANCE * float(np.var(self.rows.target))
        variance = max(float(residual) / max(mass - 1, 1e-9), least)
        return NodeRegression(coefficients, variance, mass, float(residual), moments)

    def _take_full(self, chosen: Codes | slice) -> Values:
        """Return ones, the regressors and the target of some rows."""
        numbers, target = self.rows.numbers[chosen], self.rows.target[chosen]
        return np.column_stack((np.ones(len(target)), numbers, target))

    def best(self, nodes: Sequence[TreeNode[NodeRegression]]) -> list[Split[NodeRegression] | None]:
        """Return the best cut of each node; nodes are looked at together as far as memory allows."""
        growth, sizes = self.growth, np.array(self.rows.sizes)
        large = [node.level < growth.depth and node.statistics.mass >= 2 * growth.least for node in nodes]
        splits: dict[int, Split[NodeRegression] | None] = {}
        able = [i for i in range(len(nodes)) if large[i]]
        columns = self.rows.numbers.shape[1] + 2
        together = max(1, _NUMBERS // int(max(sizes.sum(), 1) * columns * (columns + 1) // 2))
        for first in range(0, len(able), together):
            group = able[first : first + together]
            splits |= zip(group, self._cut([nodes[i] for i in group]), strict=True)
        return [splits.get(i) for i in range(len(nodes))]

    def _cut(self, nodes: list[TreeNode[NodeRegression]]) -> list[Split[NodeRegression] | None]:
        """Return the best cuts of some nodes."""
        growth, count = self.growth, len(self.rows.sizes)
        tried = np.ones((len(nodes), count), dtype=bool)
        if growth.share < 1:
            ranks = np.argsort(self.rng.random((len(nodes), count)), axis=1)
            tried = ranks < max(1, int(np.ceil(growth.share * count)))
        below = self._sum_up_to_codes(nodes)
        best: list[_Cut | None] = [None] * len(nodes)
        for test, sums in enumerate(below):
            self._try_test(nodes, np.flatnonzero(tried[:, test]), test, sums, best)
        return [self._make_split(node, cut) for node, cut in zip(nodes, best, strict=True)]

    def _sum_up_to_codes(self, nodes: list[TreeNode[NodeRegression]]) -> list[Values]:
        """Return the moments of each node's rows up to each code of each test but the last (nodes, codes, products)."""
        rows = np.concatenate([node.sample.rows for node in nodes])
        owners = np.repeat(np.arange(len(nodes)), [len(node.sample.rows) for node in nodes])
        weights = np.concatenate([node.sample.weights for node in nodes])
        # a row may be in nodes of several trees, whose products of columns are the same
        order = np.argsort(rows, kind="stable")
        rows, owners, weights = rows[order], owners[order], weights[order]
        first, second = self._pairs()
        sums = [np.zeros((len(nodes) * size, len(first))) for size in self.rows.sizes]
        for start in range(0, len(self.rows.target), _ROWS):
            low, high = np.searchsorted(rows, (start, start + _ROWS))
            if low == high:
                continue
            own = self._take_full(slice(start, start + _ROWS))
            products = own[:, first]
            products *= own[:, second]
            pointers = np.searchsorted(rows[low:high], np.arange(start, start + len(own) + 1))
            for test, size in enumerate(self.rows.sizes):
                places = owners[low:high] * size + self.rows.codes[rows[low:high], test]
                shares = sparse.csc_array((weights[low:high], places, pointers), shape=(len(sums[test]), len(own)))
                sums[test] += shares @ products
        shaped = (own.reshape(len(nodes), -1, len(first)) for own in sums)
        return [np.cumsum(own[:, :-1], axis=1, out=own[:, :-1]) for own in shaped]

    def _pairs(self) -> tuple[Codes, Codes]:
        """Return which columns are multiplied."""
        return np.triu_indices(self.rows.numbers.shape[1] + 2)

    def _try_test(
        self, nodes: list[TreeNode[NodeRegression]], chosen: Codes, test: int, sums: Values, best: list[_Cut | None]
    ) -> None:
        """Replace the best cuts of the chosen nodes by those of a test that are better."""
        growth = self.growth
        mass = sums[chosen, :, 0]
        total = np.array([nodes[i].statistics.mass for i in chosen])[:, None]
        # a cut at a code that does not occur is that at the next one that does
        occurring = np.append(mass[:, 1:] != mass[:, :-1], np.ones((len(chosen), 1), dtype=bool), axis=1)[
            :, : mass.shape[1]
        ]
        places, codes = np.nonzero(occurring & (mass >= growth.least) & (mass <= total - growth.least))
        first, second = self._pairs()
        width = self.rows.numbers.shape[1] + 2
        block = max(1, _NUMBERS // (4 * width * width))
        ridge = np.full(width - 2, growth.ridge)
        for start in range(0, len(places), block):
            part = slice(start, start + block)
            owners = chosen[places[part]]
            upto = sums[owners, codes[part]]
            low = np.empty((len(owners), width, width))
            low[:, first, second] = low[:, second, first] = upto
            sides = np.stack((low, np.stack([nodes[i].statistics.moments for i in owners.tolist()]) - low))
            starts = np.stack([nodes[i].statistics.coefficients for i in owners.tolist()])
            coefficients, residual, objective = regress_towards(sides, starts, ridge, growth.level)
            losses = objective.sum(axis=0)
            edges = np.flatnonzero(np.append(True, owners[1:] != owners[:-1]))
            for begin, end in itertools.pairwise([*edges.tolist(), len(owners)]):
                place = begin + int(np.argmin(losses[begin:end]))
                node, loss = int(owners[place]), float(losses[place])
                before = best[node]
                if before is None or loss < before.loss:
                    code = int(codes[part][place])
                    best[node] = _Cut(
                        loss, test, code, coefficients[:, place].copy(), residual[:, place], sides[:, place].copy()
                    )

    def _make_split(self, node: TreeNode[NodeRegression], cut: _Cut | None) -> Split[NodeRegression] | None:
        own, growth = node.statistics, self.growth
        own.moments = np.empty(0)
        if cut is None or cut.loss > own.residual * (1 - growth.gain):
            return None
        branches = (np.arange(self.rows.sizes[cut.test] + 1) > cut.code).astype(np.intp)
        branches[-1] = -1
        masses = cut.moments[:, 0, 0]
        regressions = []
        for side, mass in enumerate(masses.tolist()):
            left = float(cut.residual[side])
            variance = (left + growth.level * own.variance) / (mass + growth.level)
            regressions.append(NodeRegression(cut.coefficients[side], variance, mass, left, cut.moments[side]))
        return Split(cut.test, branches, masses, statistics=tuple(regressions))


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
    numbers, codes, spread = rows.numbers, rows.codes, rows.spread
    if chosen is not None:
        numbers, codes = numbers[chosen], codes[chosen]
        spread = None if spread is None else spread[chosen]
    means, variances = np.empty((2, depth + 1, len(numbers)))
    full = np.column_stack((np.ones(len(numbers)), numbers))
    pending = [(root, Sample(np.arange(len(full)), np.ones(len(full))))]
    while pending:
        node, sample = pending.pop()
        means[node.level :, sample.rows] = full[sample.rows] @ node.statistics.coefficients
        variances[node.level :, sample.rows] = node.statistics.variance
        if spread is not None:
            variances[node.level :, sample.rows] += spread[sample.rows] @ node.statistics.coefficients[1:] ** 2
        if node.split is not None and node.level < depth:
            pending += zip(node.children, node.split.divide(codes[:, node.split.column], sample), strict=True)
    return means, variances
