"""Growing trees with a linear regression at each node, every one drawn towards the regression of the node above.

All that is asked of the rows is sums of products, by node or by node and code, which add up over batches of rows: one
pass sums up for a whole level of all trees.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from hybridbn.fitting.ridge import moments_of, regress_towards
from hybridbn.fitting.trees import (
    LocatedRows,
    Route,
    Sample,
    Split,
    TreeNode,
    TreeRows,
    describe_interval,
    find_interval,
    grow,
)
from hybridbn.tables import Table
from hybridbn.variables import Codes, Discrete, Values, Variable, slice_blocks

LEAST_VARIANCE = 1e-18
"""The least variance of the residuals, relative to the target's."""
_ROWS = 1024
"""Rows whose products are held at a time."""
_NUMBERS = 1 << 20
"""Numbers in the largest temporary arrays, about."""
_SUMS, _MOST_NUMBERS = 4, 1 << 23
"""Sums may have so many numbers for each row, and so many at most."""


class ColumnTest(NamedTuple):
    """What can be tested of a column: intervals of numbers, or states in the order of the target's means.

    The codes `left_out` are those that rows would have if the order had been found without them.
    """

    column: str
    variable: Variable
    cuts: tuple[float, ...]
    order: NDArray[np.intp]
    codes: NDArray[np.intp]
    left_out: NDArray[np.intp]
    holes: bool

    @property
    def size(self) -> int:
        """The number of codes."""
        return max(len(self.cuts) + 1, len(self.order))

    def find_codes(self, filled: Values) -> NDArray[np.intp]:
        """Return the codes of numbers (rows, 1) or shares of states (rows, states)."""
        if isinstance(self.variable, Discrete):
            return np.asarray(np.argsort(self.order)[np.argmax(filled, axis=1)])
        return np.searchsorted(np.array(self.cuts), filled[:, 0], side="right")

    def decode(self, codes: NDArray[np.intp]) -> NDArray[np.intp]:
        """Return the intervals or states that codes stand for."""
        return np.sort(self.order[codes]) if isinstance(self.variable, Discrete) else codes

    def describe(self, codes: NDArray[np.intp]) -> str:
        """Say what codes stand for."""
        if isinstance(self.variable, Discrete):
            return f"{self.column}: {', '.join(str(self.variable.states[i]) for i in self.decode(codes))}"
        low, high = find_interval(self.cuts, codes)
        is_between = math.isfinite(low) and math.isfinite(high)
        return f"{self.column}{':' if is_between else ''} {describe_interval(low, high, 6)}"


@dataclass(frozen=True)
class RegressionRows:
    """What trees are grown from, of a batch of rows.

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


class RegressionBatch(LocatedRows):
    """A batch of rows, and how much they count in each tree.

    Parameters
    ----------
    rows : RegressionRows
    weights : ndarray (trees, rows)
        Rows of weight zero have no say.
    """

    def __init__(self, rows: RegressionRows, weights: Values) -> None:
        used = [np.flatnonzero(of_tree > 0) for of_tree in weights]
        roots = [Sample(chosen, of_tree[chosen].astype(float)) for chosen, of_tree in zip(used, weights, strict=True)]
        super().__init__(roots, list(rows.codes.T))
        self.rows = rows

    def sum_products(self, samples: Sequence[Sample]) -> Values:
        """Return the moments of 1, the regressors and the target of some samples (samples, columns, columns)."""
        columns = self.rows.numbers.shape[1] + 2
        moments = np.zeros((len(samples), columns, columns))
        for own, sample in zip(moments, samples, strict=True):
            for part in slice_blocks(len(sample.rows), _ROWS):
                own += moments_of(self._take_full(sample.rows[part]), sample.weights[part])
        return moments

    def sum_products_by_code(self, samples: Sequence[Sample]) -> Values:
        """Return the sums of the products of pairs of columns by sample and code (samples, codes of all tests,
        pairs).
        """
        rows = np.concatenate([sample.rows for sample in samples])
        owners = np.repeat(np.arange(len(samples)), [len(sample.rows) for sample in samples])
        weights = np.concatenate([sample.weights for sample in samples])
        # a row may be in samples of several trees, whose products of columns are the same
        order = np.argsort(rows, kind="stable")
        rows, owners, weights = rows[order], owners[order], weights[order]
        # of 1, the regressors and the target
        first, second = np.triu_indices(self.rows.numbers.shape[1] + 2)
        sums = [np.zeros((len(samples) * size, len(first))) for size in self.rows.sizes]
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
        return np.concatenate([own.reshape(len(samples), -1, len(first)) for own in sums], axis=1)

    def _take_full(self, chosen: Codes | slice) -> Values:
        """Return ones, the regressors and the target of some rows."""
        numbers, target = self.rows.numbers[chosen], self.rows.target[chosen]
        return np.column_stack((np.ones(len(target)), numbers, target))


@dataclass(eq=False)
class RegressionView(TreeRows[RegressionBatch]):
    """Rows that regressions at the nodes of trees are learned from.

    Parameters
    ----------
    rows, read, variables : as of `TreeRows`
    sizes : tuple of int
        How many codes each test has.
    ridge : ndarray (regressors,)
        The penalties of the regression at the root.
    target_variance : float
        The variance of the target, about.
    """

    sizes: tuple[int, ...]
    ridge: Values
    target_variance: float

    @classmethod
    def of(cls, rows: RegressionRows, weights: Values, table: Table) -> RegressionView:
        """Return the rows of a table, of which all is at hand, with their weights in each tree (trees, rows)."""
        batch = RegressionBatch(rows, weights)
        return cls(table, lambda *_: batch, None, rows.sizes, rows.ridge, float(np.var(rows.target)))

    @property
    def most_numbers(self) -> int:
        """How many numbers the sums may have that are asked for at a time, about."""
        return min(max(_SUMS * len(self.rows), _NUMBERS), _MOST_NUMBERS)


@dataclass(frozen=True)
class Growth:
    """How trees grow.

    Attributes
    ----------
    ridge : float or ndarray (regressors,)
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

    ridge: Values | float
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
    view: RegressionView, trees: int, growth: Growth, rng: np.random.Generator
) -> list[TreeNode[NodeRegression]]:
    """Grow trees, by a pass for the roots and one for each level of all trees.

    Parameters
    ----------
    view : RegressionView
    trees : int
        As many as its batches have weights for.
    growth : Growth
    rng : Generator
        Draws the tests to be tried.

    Examples
    --------
    >>> from hybridbn.tables import Table
    >>> x = np.linspace(-1, 1, 80)
    >>> rows = RegressionRows(x[:, None], np.abs(x), (x > 0).astype(int)[:, None], (2,), np.zeros(1))
    >>> view = RegressionView.of(rows, np.ones((1, 80)), Table({"x": x}))
    >>> (tree,) = grow_regressions(view, 1, Growth(ridge=0.01, depth=1), np.random.default_rng(0))
    >>> [node.statistics.coefficients.round(1).tolist() for node in tree.children]
    [[0.0, -1.0], [0.0, 1.0]]
    """
    roots = [Route(branch=number) for number in range(trees)]
    nodes = grow(roots, PenalizedSquares(view, growth, rng))
    for node in nodes:
        # trees are kept, and their sums are not needed any more
        node.statistics.moments = np.empty(0)
    return nodes[:trees]


_Cut: TypeAlias = tuple[float, int, int, Values, Values, Values]
"""The loss, the test and the code of a cut; the coefficients, squared residuals and moments of both its sides."""


@dataclass(frozen=True, eq=False)
class PenalizedSquares:
    """The cut that leaves the least sum of squares, penalties included; see `Growth`.

    Attributes
    ----------
    rows : RegressionView
    growth : Growth
    rng : Generator
        Draws the tests to be tried.
    """

    rows: RegressionView
    growth: Growth
    rng: np.random.Generator

    def measure(self, routes: Sequence[Route]) -> list[NodeRegression]:
        """Return the regressions of roots; those of other nodes come with the splits."""
        return [self._measure_root(moments) for moments in self.rows.sum_over(RegressionBatch.sum_products, routes)]

    def _measure_root(self, moments: Values) -> NodeRegression:
        coefficients, residual, _ = regress_towards(moments, np.zeros(len(moments) - 1), self.rows.ridge, 0.0)
        mass = float(moments[0, 0])
        # a sample may be fitted exactly, but no density is a point
        least = LEAST_VARIANCE * self.rows.target_variance
        variance = max(float(residual) / max(mass - 1, 1e-9), least)
        return NodeRegression(coefficients, variance, mass, float(residual), moments)

    def best(self, nodes: Sequence[TreeNode[NodeRegression]]) -> list[Split[NodeRegression] | None]:
        """Return the best cut of each node; nodes are looked at together as far as memory allows."""
        growth, sizes = self.growth, np.array(self.rows.sizes)
        large = [node.level < growth.depth and node.statistics.mass >= 2 * growth.least for node in nodes]
        splits: dict[int, Split[NodeRegression] | None] = {}
        able = [i for i in range(len(nodes)) if large[i]]
        columns = len(self.rows.ridge) + 2
        together = max(1, self.rows.most_numbers // int(max(sizes.sum(), 1) * columns * (columns + 1) // 2))
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
        sums = self.rows.sum_over(RegressionBatch.sum_products_by_code, [node.route for node in nodes])
        best: list[_Cut | None] = [None] * len(nodes)
        ends = np.cumsum(self.rows.sizes)
        for test, (end, size) in enumerate(zip(ends.tolist(), self.rows.sizes, strict=True)):
            # all rows together are on no side of a cut
            upto = np.cumsum(sums[:, end - size : end - 1], axis=1)
            self._try_test(nodes, np.flatnonzero(tried[:, test]), test, upto, best)
        return [self._make_split(node, cut) for node, cut in zip(nodes, best, strict=True)]

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
        width = len(self.rows.ridge) + 2
        first, second = np.triu_indices(width)
        block = max(1, _NUMBERS // (4 * width * width))
        ridge = np.full(width - 2, growth.ridge)
        for part in slice_blocks(len(places), block):
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
                if before is None or loss < before[0]:
                    code = int(codes[part][place])
                    best[node] = (
                        loss,
                        test,
                        code,
                        coefficients[:, place].copy(),
                        residual[:, place],
                        sides[:, place].copy(),
                    )

    def _make_split(self, node: TreeNode[NodeRegression], cut: _Cut | None) -> Split[NodeRegression] | None:
        own, growth = node.statistics, self.growth
        own.moments = np.empty(0)
        if cut is None or cut[0] > own.residual * (1 - growth.gain):
            return None
        _, test, code, coefficients, residual, moments = cut
        branches = (np.arange(self.rows.sizes[test] + 1) > code).astype(np.intp)
        branches[-1] = -1
        masses = moments[:, 0, 0]
        regressions = []
        for side, mass in enumerate(masses.tolist()):
            left = float(residual[side])
            variance = (left + growth.level * own.variance) / (mass + growth.level)
            regressions.append(NodeRegression(coefficients[side], variance, mass, left, moments[side]))
        return Split(test, branches, masses, statistics=tuple(regressions))


def predict_by_depth(
    root: TreeNode[NodeRegression], rows: RegressionRows, depth: int, chosen: Codes | slice = slice(None)
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
    numbers, codes = rows.numbers[chosen], rows.codes[chosen]
    spread = None if rows.spread is None else rows.spread[chosen]
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
