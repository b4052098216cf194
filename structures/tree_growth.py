"""Growing a tree over coded columns: which test splits a node, by gain ratio, utility of naive Bayes, or variance.

A row whose tested cell is missing goes down all branches, with their shares of its weight (C4.5's rule).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from hybridbn.fitting.counts import single_counts
from hybridbn.variables import Codes, Values

__all__ = ["Criterion", "GainRatio", "Grown", "Utility", "Variance", "View", "grown", "leaves"]

FOLDS = 5
LEAST_GAIN = 0.05
"""Relative improvement that a split needs (Kohavi's rule)."""
LEAST_ROWS = 2.0
"""At least two branches have so much weight."""
LEAST_SHARE = 0.25
"""Both sides of a cut have at least so much of the weight that a node needs to be split."""


@dataclass(frozen=True)
class View:
    """What tests look at.

    Attributes
    ----------
    codes : sequence of ndarray (rows,), -1 where missing
    sizes : sequence of int
    ordered : sequence of bool
        Whether the codes are intervals of a number, which a binary test cuts in two.
    target : ndarray (rows,), codes or numbers, none missing
    classes : int, 0 of a number
    weights : ndarray (rows,)
    """

    codes: Sequence[Codes]
    sizes: Sequence[int]
    ordered: Sequence[bool]
    target: NDArray[Any]
    classes: int
    weights: Values


@dataclass
class Grown:
    """A node of a tree.

    Attributes
    ----------
    rows, weights : the rows that reach the node, and with which weight
    share : the part of its parent's weight that the branch has
    test : the column tested, None at a leaf
    children : one for each branch
    groups : for each branch the codes that go there
    boxes : for each column tested on the way, the codes that come here
    """

    rows: NDArray[np.intp]
    weights: Values
    share: float = 1.0
    test: int | None = None
    children: list[Grown] = field(default_factory=list)
    groups: list[NDArray[np.intp]] = field(default_factory=list)
    boxes: dict[int, NDArray[np.intp]] = field(default_factory=dict)
    above: Grown | None = None


Groups = list[NDArray[np.intp]]


class Criterion(Protocol):
    """How tests are judged."""

    def best(self, view: View, node: Grown, tests: Sequence[tuple[int, Groups]]) -> int | None:
        """Return the number of the best test, None where none is worth while."""


def grown(view: View, criterion: Criterion, depth: int | None, least: float, binary: bool) -> Grown:
    """Grow a tree from all rows.

    Parameters
    ----------
    depth : greatest number of tests on the way to a leaf, None for no bound
    least : nodes of less weight are not split
    binary : whether intervals of numbers are cut in two; else each interval, like each state, is a branch
    """
    root = Grown(np.arange(len(view.target)), view.weights.astype(float))
    frontier = [(root, 0)]
    while frontier:
        node, level = frontier.pop()
        if (depth is not None and level >= depth) or node.weights.sum() < least or _pure(view, node):
            continue
        tests = list(_tests(view, node, binary, max(LEAST_ROWS, LEAST_SHARE * least)))
        chosen = criterion.best(view, node, tests) if tests else None
        if chosen is None:
            continue
        column, groups = tests[chosen]
        _split(view, node, column, groups)
        frontier += [(child, level + 1) for child in node.children if len(child.rows)]
    return root


def leaves(root: Grown) -> list[Grown]:
    """Return the leaves from left to right."""
    return [root] if root.test is None else [leaf for child in root.children for leaf in leaves(child)]


def _pure(view: View, node: Grown) -> bool:
    seen = view.target[node.rows]
    return bool((seen == seen[0]).all())


def _tests(view: View, node: Grown, binary: bool, side: float) -> Iterator[tuple[int, Groups]]:
    """Yield the tests that put weight on at least two branches, and so much on both sides of a cut."""
    for column, size in enumerate(view.sizes):
        allowed = node.boxes.get(column, np.arange(size))
        if len(allowed) < 2:
            continue
        codes = view.codes[column][node.rows]
        mass = np.bincount(codes[codes >= 0], node.weights[codes >= 0], size)[allowed]
        if binary and view.ordered[column]:
            reached = np.cumsum(mass)[:-1]
            for cut in np.flatnonzero((reached >= side) & (mass.sum() - reached >= side)):
                yield column, [allowed[: cut + 1], allowed[cut + 1 :]]
        elif (mass >= LEAST_ROWS).sum() >= 2 and column not in node.boxes:
            yield column, [allowed[i : i + 1] for i in range(len(allowed))]


def _split(view: View, node: Grown, column: int, groups: Groups) -> None:
    codes = view.codes[column][node.rows]
    branch_of = _branches(groups, view.sizes[column])
    branches = np.where(codes >= 0, branch_of[np.maximum(codes, 0)], -1)
    known = branches >= 0
    mass = np.bincount(branches[known], node.weights[known], len(groups))
    shares = mass / mass.sum()
    # every branch can be reached: as if two more rows were spread as the branches are, halfway to evenly
    smooth = (mass + 2 * (0.5 * shares + 0.5 / len(groups))) / (mass.sum() + 2)
    node.test, node.groups = column, groups
    for number, group in enumerate(groups):
        inside = (branches == number) | (~known & (shares[number] > 0))
        weights = node.weights[inside] * np.where(known[inside], 1.0, shares[number])
        node.children.append(
            Grown(node.rows[inside], weights, float(smooth[number]), boxes={**node.boxes, column: group}, above=node)
        )


def _branches(groups: Groups, size: int) -> NDArray[np.intp]:
    owner = np.full(size, -1)
    for number, group in enumerate(groups):
        owner[group] = number
    return owner


# -- criteria -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class GainRatio:
    """C4.5's gain ratio, among the tests whose gain is not below the average (Ting & Zheng 2003, section 3.2)."""

    def best(self, view: View, node: Grown, tests: Sequence[tuple[int, Groups]]) -> int | None:
        """Return the test of the greatest ratio."""
        wanted = sorted({column for column, _ in tests})
        tables = dict(zip(wanted, _tables(view, node, wanted), strict=True))
        total = float(node.weights.sum())
        gains, ratios = [], []
        for column, groups in tests:
            table = np.stack([tables[column][:, group].sum(axis=1) for group in groups], axis=1)
            mass = table.sum()
            gain = (_entropy(table.sum(axis=1)) - _entropy_within(table)) * mass / total if mass > 0 else 0.0
            parts = np.append(table.sum(axis=0), max(total - mass, 0.0))
            information = _entropy(parts)
            gains.append(gain)
            ratios.append(gain / information if information > 0 else 0.0)
        found = np.array(gains)
        if found.max() <= 1e-12:
            return None
        worthy = found >= found.mean() - 1e-12
        return int(np.argmax(np.where(worthy & (found > 1e-12), ratios, -np.inf)))


@dataclass(frozen=True)
class Utility:
    """Kohavi's: the accuracy of naive Bayes in the branches, by cross-validation; a split must save 5 % of the errors."""

    prior: float = 2.0

    def best(self, view: View, node: Grown, tests: Sequence[tuple[int, Groups]]) -> int | None:
        """Return the test with the fewest errors."""
        rng = np.random.default_rng(0)
        folds = rng.permutation(len(node.rows)) % FOLDS
        whole = self._errors(view, node, np.zeros(len(node.rows), dtype=np.intp), 1, folds, None)
        least, best = whole * (1 - LEAST_GAIN), None
        for number, (column, groups) in enumerate(tests):
            codes = view.codes[column][node.rows]
            owner = _branches(groups, view.sizes[column])
            branches = np.where(codes >= 0, owner[np.maximum(codes, 0)], len(groups))
            multiway = column if len(groups) == view.sizes[column] else None
            errors = self._errors(view, node, branches, len(groups) + 1, folds, multiway)
            if errors < least:
                least, best = errors, number
        return best

    def _errors(self, view: View, node: Grown, branches: Codes, count: int, folds: Codes, without: int | None) -> float:
        """Return the weight of the rows that naive Bayes, learned in their branch from the other folds, gets wrong."""
        columns = [c for c in range(len(view.sizes)) if c != without and len(node.boxes.get(c, (0, 1))) > 1]
        target = view.target[node.rows]
        keys = (branches * FOLDS + folds) * view.classes + target
        shape = (count, FOLDS, view.classes)
        prior = np.bincount(keys, node.weights, math.prod(shape)).reshape(shape)
        prior = prior.sum(axis=1, keepdims=True) - prior
        place = branches * FOLDS + folds
        logs = np.log(prior + self.prior / view.classes).reshape(-1, view.classes)[place]
        sizes = [view.sizes[c] for c in columns]
        codes = [view.codes[c][node.rows] for c in columns]
        tables = single_counts(codes, sizes, keys, math.prod(shape), node.weights)
        for column, size, table in zip(codes, sizes, tables, strict=True):
            counts = table.reshape(*shape, size)
            counts = counts.sum(axis=1, keepdims=True) - counts
            share = counts.sum(axis=2, keepdims=True) + 1.0
            smooth = counts + self.prior * share / share.sum(axis=-1, keepdims=True)
            table = np.log(smooth / smooth.sum(axis=-1, keepdims=True)).reshape(-1, view.classes, size)
            seen = np.flatnonzero(column >= 0)
            logs[seen] += table[place[seen], :, column[seen]]
        return float(node.weights[logs.argmax(axis=1) != target].sum())


@dataclass(frozen=True)
class Variance:
    """For a target that is a number: the test that leaves the least variance, if it takes away 5 %."""

    def best(self, view: View, node: Grown, tests: Sequence[tuple[int, Groups]]) -> int | None:
        """Return the test of the least variance."""
        target = view.target[node.rows]
        weights = node.weights
        center = np.average(target, weights=weights)
        whole = float(weights @ (target - center) ** 2)
        least, best = whole * (1 - LEAST_GAIN), None
        for number, (column, groups) in enumerate(tests):
            codes = view.codes[column][node.rows]
            owner = _branches(groups, view.sizes[column])
            known = codes >= 0
            branches = owner[codes[known]]
            sums = [
                np.bincount(branches, weights[known] * (target[known] - center) ** power, len(groups))
                for power in range(3)
            ]
            mass = np.maximum(sums[0], 1e-300)
            inside = float((sums[2] - sums[1] ** 2 / mass).sum())
            rest = float(weights[~known] @ (target[~known] - center) ** 2)
            if inside + rest < least:
                least, best = inside + rest, number
        return best


def _tables(view: View, node: Grown, columns: Sequence[int]) -> list[Values]:
    """Return the weight of each class and code of some columns among the rows of a node."""
    codes = [view.codes[c][node.rows] for c in columns]
    return single_counts(codes, [view.sizes[c] for c in columns], view.target[node.rows], view.classes, node.weights)


def _entropy(masses: Values) -> float:
    total = masses.sum()
    shares = masses[masses > 0] / total if total > 0 else np.empty(0)
    return -float(shares @ np.log2(shares))


def _entropy_within(table: Values) -> float:
    """Return the mean entropy of the classes in the branches (classes, branches)."""
    total = table.sum()
    return float(sum(column.sum() / total * _entropy(column) for column in table.T if column.sum() > 0))
