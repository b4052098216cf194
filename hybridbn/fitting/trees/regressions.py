"""Growing trees with a linear regression at each node, every one drawn towards the regression of the node above."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from hybridbn.fitting.ridge import moments_of, regress_towards
from hybridbn.variables import Codes, Values

__all__ = ["Growth", "LinearNode", "Rows", "grown", "leaves_at", "predicted"]


@dataclass(frozen=True)
class Rows:
    """What trees are grown from.

    Attributes
    ----------
    numbers : ndarray (rows, regressors), in comparable units
    target : ndarray (rows,)
    codes : ndarray (rows, tests)
        Intervals of numbers and ordered categories, which a test cuts in two.
    ridge : ndarray (regressors,)
        Of the regression at the root, which is drawn towards zero.
    """

    numbers: Values
    target: Values
    codes: Codes
    ridge: Values

    def take(self, tests: Sequence[int]) -> Rows:
        """Return the same with some of the tests."""
        return Rows(self.numbers, self.target, self.codes[:, list(tests)], self.ridge)


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
class LinearNode:
    """A node: its regression, and the test that its rows are divided by, unless it is a leaf.

    Attributes
    ----------
    coefficients : ndarray (1 + regressors,)
    variance : float
        Mean square residual, drawn towards that of the node above.
    mass, residual : weight of the rows, and their sum of squares about the regression
    test : int, -1 at a leaf
    cut : int
        Codes below it go to the first child.
    """

    coefficients: Values
    variance: float
    mass: float
    residual: float
    level: int = 0
    test: int = -1
    cut: int = 0
    children: tuple[LinearNode, ...] = field(default=())


def grown(rows: Rows, weights: Values, growth: Growth, rng: np.random.Generator) -> LinearNode:
    """Grow a tree from weighted rows; those of weight zero have no say.

    Examples
    --------
    >>> x = np.linspace(-1, 1, 80)
    >>> rows = Rows(x[:, None], np.abs(x), (x > 0).astype(int)[:, None], np.zeros(1))
    >>> tree = grown(rows, np.ones(80), Growth(ridge=0.01, depth=1), np.random.default_rng(0))
    >>> [node.coefficients.round(1).tolist() for node in tree.children]
    [[0.0, -1.0], [0.0, 1.0]]
    """
    used = np.flatnonzero(weights > 0)
    full = np.column_stack((np.ones(len(used)), rows.numbers[used], rows.target[used]))
    weights, codes = weights[used], rows.codes[used]
    start = np.zeros(full.shape[1] - 1)
    start[0] = weights @ rows.target[used] / weights.sum()
    moments = moments_of(full, weights)
    coefficients, residual, _ = regress_towards(moments, start, rows.ridge, 0.0)
    mass = float(weights.sum())
    free = max(mass - 1, 1e-9)
    root = LinearNode(coefficients, float(residual) / free, mass, float(residual))
    pending = [(root, np.arange(len(used)), moments)]
    ridge = np.full(rows.numbers.shape[1], growth.ridge)
    while pending:
        node, inside, moments = pending.pop()
        if node.level >= growth.depth or node.mass < 2 * growth.least:
            continue
        tests = np.arange(codes.shape[1])
        if growth.share < 1:
            tests = rng.permutation(tests)[: max(1, int(np.ceil(growth.share * len(tests))))]
        cuts, below = _cuts(full[inside], weights[inside], codes[inside], tests, growth.least)
        if not cuts:
            continue
        sides = np.stack((below, moments - below))
        found, residual, objective = regress_towards(sides, node.coefficients, ridge, growth.level)
        best = int(np.argmin(objective.sum(axis=0)))
        if objective[:, best].sum() > node.residual * (1 - growth.gain):
            continue
        node.test, node.cut = cuts[best]
        first = codes[inside, node.test] < node.cut
        made = []
        for side, chosen in enumerate((first, ~first)):
            mass = float(sides[side, best, 0, 0])
            left = float(residual[side, best])
            variance = (left + growth.level * node.variance) / (mass + growth.level)
            made.append(LinearNode(found[side, best], variance, mass, left, node.level + 1))
            pending.append((made[-1], inside[chosen], sides[side, best]))
        node.children = tuple(made)
    return root


def _cuts(
    full: Values, weights: Values, codes: Codes, tests: NDArray[np.intp], least: float
) -> tuple[list[tuple[int, int]], Values]:
    """Return tests and cuts that leave enough weight on both sides, and the moments of the rows below."""
    cuts: list[tuple[int, int]] = []
    below: list[Values] = []
    total = weights.sum()
    for test in tests.tolist():
        own = codes[:, test]
        order = np.argsort(own, kind="stable")
        values, starts = np.unique(own[order], return_index=True)
        if len(values) < 2:
            continue
        ends = np.append(starts[1:], len(own))
        moments = np.zeros((full.shape[1], full.shape[1]))
        for value, start, end in zip(values[1:], starts, ends, strict=False):
            rows = order[start:end]
            moments = moments + moments_of(full[rows], weights[rows])
            if least <= moments[0, 0] <= total - least:
                cuts.append((test, int(value)))
                below.append(moments)
    return cuts, np.array(below)


def predicted(root: LinearNode, rows: Rows, depth: int) -> tuple[Values, Values]:
    """Return predictions and variances of the tree cut off at each depth, (depth + 1, rows) both."""
    means, variances = np.empty((2, depth + 1, len(rows.numbers)))
    full = np.column_stack((np.ones(len(rows.numbers)), rows.numbers))
    pending = [(root, np.arange(len(full)))]
    while pending:
        node, inside = pending.pop()
        means[node.level :, inside] = full[inside] @ node.coefficients
        variances[node.level :, inside] = node.variance
        if node.children:
            first = rows.codes[inside, node.test] < node.cut
            pending += [(node.children[0], inside[first]), (node.children[1], inside[~first])]
    return means, variances


def leaves_at(root: LinearNode, depth: int, sizes: Sequence[int]) -> Iterator[tuple[LinearNode, list[tuple[int, int]]]]:
    """Yield the leaves of the tree cut off at a depth, each with the codes [low, high) of every test that come there."""
    pending = [(root, [(0, size) for size in sizes])]
    while pending:
        node, box = pending.pop()
        if not node.children or node.level >= depth:
            yield node, box
            continue
        low, high = box[node.test]
        first, second = list(box), list(box)
        first[node.test], second[node.test] = (low, node.cut), (node.cut, high)
        pending += [(node.children[1], second), (node.children[0], first)]
