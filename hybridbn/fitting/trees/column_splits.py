"""Trees whose nodes test coded columns, grown level by level by gain ratio, the utility of naive Bayes, or variance.

All nodes of a level are counted in one pass, by node, class and state; tests are judged by these counts, and naive
Bayes trees learn the densities of their leaves from them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from hybridbn.fitting.counters import NumpyCounter
from hybridbn.fitting.counting import Groups
from hybridbn.fitting.trees.growth import Levels, Sample, Split, TreeNode, grow
from hybridbn.variables import Codes, Values

__all__ = [
    "CandidateTests",
    "CodedColumns",
    "ColumnCriterion",
    "GainRatio",
    "Utility",
    "Variance",
    "grow_by_tests",
    "mass_of",
]

FOLDS = 5
SPARSE, LEAST_SPARSE = 4, 2**14
"""Tables of branches and states with so many times more cells than rows, or than so many rows, are sparse."""
LEAST_GAIN = 0.05
"""Relative improvement that a split needs (Kohavi's rule)."""
TIE = 1e-12
"""Relative to the variance above, smaller differences are rounding."""
LEAST_SHARE = 0.25
"""Both sides of a cut have at least so much of the weight that a node needs to be split."""


class CodedColumns:
    """What tests look at: columns of codes, and a counter of them.

    Parameters
    ----------
    codes : sequence of ndarray (rows,), -1 where missing
    sizes : sequence of int
    ordered : sequence of bool
        Whether the codes are intervals of a number, which a binary test cuts in two.
    target : ndarray (rows,), codes or numbers, none missing
    classes : int, 0 of a number
    weights : ndarray (rows,)

    Attributes
    ----------
    starts : ndarray (columns + 1,)
        Where the states of each column begin among those of all, and their number.
    """

    codes: Sequence[Codes]
    sizes: Sequence[int]
    ordered: Sequence[bool]
    target: NDArray[Any]
    classes: int
    weights: Values

    def __init__(
        self,
        codes: Sequence[Codes],
        sizes: Sequence[int],
        ordered: Sequence[bool],
        target: NDArray[Any],
        classes: int,
        weights: Values,
    ) -> None:
        self.codes, self.sizes, self.ordered = codes, sizes, ordered
        self.target, self.classes, self.weights = target, classes, weights
        self.starts: NDArray[np.intp] = np.concatenate([[0], np.cumsum(np.asarray(sizes, dtype=np.intp))])
        # the last column counts all rows
        columns: list[Codes] = [*codes, np.zeros(len(target), np.int8)]
        self._names = [(str(number),) for number in range(len(columns))]
        self._counter = NumpyCounter(
            {name: column for (name,), column in zip(self._names, columns, strict=True)},
            {name: size for (name,), size in zip(self._names, [*sizes, 1], strict=True)},
        ).persist()

    def counts(self, samples: Sequence[Sample]) -> Values:
        """Return the weight by sample, class (one of a number) and state, the weight of all rows coming after the
        states.

        Returns
        -------
        ndarray (samples, classes, states + 1)
        """
        rows, weights = (np.concatenate(arrays) for arrays in zip(*samples, strict=True))
        classes = max(self.classes, 1)
        keys = np.repeat(np.arange(len(samples)), [len(sample.rows) for sample in samples])
        if self.classes:
            keys = keys * classes + self.target[rows]
        groups = Groups.of(keys, len(samples) * classes, weights, rows)
        counts = self.count_groups(groups, range(len(self._names)))
        return np.concatenate(counts, axis=1).reshape(len(samples), classes, -1)

    def count_groups(self, groups: Groups, columns: Sequence[int]) -> list[Values]:
        """Return the weight by group and state (groups, states) of each column; the number after the last counts all
        rows.
        """
        tables = self._counter.by_group(groups, [self._names[number] for number in columns])
        # a missing cell comes after the states
        sizes = [*self.sizes, 1]
        return [table[:, : sizes[number]] for number, table in zip(columns, tables, strict=True)]


class CandidateTests:
    """All tests that there are: the states of a column, each a branch, or an ordered column cut in two.

    Parameters
    ----------
    view : CodedColumns
    binary : bool
        Whether intervals of numbers are cut in two; else each interval, like each state, is a branch.
    branch, side : float
        At least two branches have so much weight, and either side of a cut so much.

    Attributes
    ----------
    columns : ndarray (tests,)
    cuts : ndarray (tests,)
        Codes up to which a column goes to the first of two branches; -1 where each state is a branch.
    starts : ndarray (tests + 1,)
        Where the branches of each test begin among those of all.
    by_state : bool
        Whether each state of each column is a branch, in their order.
    """

    view: CodedColumns
    branch: float
    side: float
    columns: NDArray[np.intp]
    cuts: NDArray[np.intp]

    def __init__(self, view: CodedColumns, binary: bool, branch: float, side: float) -> None:
        self.view, self.branch, self.side = view, branch, side
        tests: list[tuple[int, int, int]] = []
        for column, size in enumerate(view.sizes):
            if binary and view.ordered[column]:
                tests += [(column, cut, 2) for cut in range(size - 1)]
            else:
                tests.append((column, -1, size))
        listed = np.array(tests, dtype=np.intp).reshape(-1, 3)
        self.columns, self.cuts = listed[:, 0], listed[:, 1]
        self.starts: NDArray[np.intp] = np.concatenate([[0], np.cumsum(listed[:, 2])])
        self.by_state: bool = len(tests) == len(view.sizes) and bool((self.cuts < 0).all())

    def weigh_branches(self, counts: Values) -> Values:
        """Return the weight of each branch of all tests (..., branches) from that of each state (..., states + 1)."""
        if self.by_state:
            return counts[..., :-1]
        found = np.empty((*counts.shape[:-1], int(self.starts[-1])))
        for column in np.unique(self.columns):
            own = counts[..., self.view.starts[column] : self.view.starts[column + 1]]
            mine = np.flatnonzero(self.columns == column)
            places = self.starts[mine]
            if self.cuts[mine[0]] < 0:
                found[..., places[0] : places[0] + own.shape[-1]] = own
            else:
                found[..., places] = np.cumsum(own, axis=-1)[..., :-1]
                found[..., places + 1] = np.cumsum(own[..., ::-1], axis=-1)[..., -2::-1]
        return found

    def sum_branches(self, values: Values) -> Values:
        """Return the sums over the branches of each test (..., tests)."""
        return np.add.reduceat(values, self.starts[:-1], axis=-1)

    def find_eligible(self, masses: Values, nodes: Sequence[TreeNode[Values]]) -> NDArray[np.bool_]:
        """Tell which tests put weight on at least two branches, and so much on both sides of a cut (nodes, tests).

        Parameters
        ----------
        masses : ndarray (nodes, branches)
        nodes : sequence of Node
        """
        least = np.where(np.repeat(self.cuts, np.diff(self.starts)) < 0, self.branch, self.side)
        found = self.sum_branches((masses >= least).astype(np.intp)) >= 2
        for number, node in enumerate(nodes):
            for column in node.boxes:
                # its cuts outside of the box have nothing on one side
                found[number, (self.columns == column) & (self.cuts < 0)] = False
        return np.asarray(found)

    def branches_of(self, test: int) -> Codes:
        """Return the branch that each code takes in a test, and -1 for missing cells, as in `Split`."""
        codes = np.arange(self.view.sizes[self.columns[test]] + 1)
        branches = codes if self.cuts[test] < 0 else (codes > self.cuts[test]).astype(np.intp)
        branches[-1] = -1
        return branches

    def make_split(self, test: int, masses: Values) -> Split[Values]:
        """Return a test as a split of a node whose branches have these weights (branches of all tests,)."""
        own = masses[self.starts[test] : self.starts[test + 1]]
        return Split(int(self.columns[test]), self.branches_of(test), own)


class ColumnCriterion(Protocol):
    """How tests are judged."""

    def best(self, view: CodedColumns, nodes: Sequence[TreeNode[Values]], tests: CandidateTests) -> list[int | None]:
        """Return the number of the best test of each node, None where none is worth while."""


def grow_by_tests(
    view: CodedColumns, criterion: ColumnCriterion, depth: int | None, least: float, branch: float, binary: bool
) -> TreeNode[Values]:
    """Grow a tree from all rows; its nodes' statistics are counts (classes, states + 1), as of `CodedColumns.counts`.

    Parameters
    ----------
    depth : greatest number of tests on the way to a leaf, None for no bound
    least : nodes of less weight are not split
    branch : at least two branches of a test have so much weight
    binary : whether intervals of numbers are cut in two; else each interval, like each state, is a branch
    """
    tests = CandidateTests(view, binary, branch, max(branch, LEAST_SHARE * least))
    return grow(view.codes, view.weights.astype(float), _ColumnSplits(view, tests, criterion, depth, least), Levels())[
        0
    ]


@dataclass(frozen=True, eq=False)
class _ColumnSplits:
    """The best tests by a criterion, within the bounds of depth and weight; see `grow_by_tests`."""

    view: CodedColumns
    tests: CandidateTests
    criterion: ColumnCriterion
    depth: int | None
    least: float

    def measure(self, samples: Sequence[Sample]) -> list[Values]:
        """Count the rows of all samples in one pass."""
        return list(self.view.counts(samples))

    def best(self, nodes: Sequence[TreeNode[Values]]) -> list[Split[Values] | None]:
        """Return the best test of each node."""
        splits: list[Split[Values] | None] = [None] * len(nodes)
        able = [number for number, node in enumerate(nodes) if self._may_be_split(node)]
        if able:
            chosen = self.criterion.best(self.view, [nodes[number] for number in able], self.tests)
            for number, test in zip(able, chosen, strict=True):
                if test is not None:
                    masses = self.tests.weigh_branches(nodes[number].statistics.sum(axis=0))
                    splits[number] = self.tests.make_split(test, masses)
        return splits

    def _may_be_split(self, node: TreeNode[Values]) -> bool:
        if not len(self.tests.columns) or (self.depth is not None and node.level >= self.depth):
            return False
        return bool(len(node.sample.rows)) and mass_of(node) >= self.least and not _is_pure(self.view, node)


def mass_of(node: TreeNode[Values]) -> float:
    """Return the weight of the rows that reach a node."""
    return float(node.statistics[:, -1].sum())


def _is_pure(view: CodedColumns, node: TreeNode[Values]) -> bool:
    if view.classes:
        return bool(np.count_nonzero(node.statistics[:, -1]) < 2)
    seen = view.target[node.sample.rows]
    return bool((seen == seen[0]).all())


# -- criteria -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class GainRatio:
    """C4.5's gain ratio, among the tests whose gain is not below the average (Ting & Zheng 2003, section 3.2)."""

    def best(self, view: CodedColumns, nodes: Sequence[TreeNode[Values]], tests: CandidateTests) -> list[int | None]:
        """Return the test of the greatest ratio of each node."""
        from scipy.special import xlogy

        counts = np.stack([node.statistics for node in nodes])
        branches = tests.weigh_branches(counts)
        masses = branches.sum(axis=1)
        total = counts[:, :, -1].sum(axis=1, keepdims=True)
        by_class = tests.sum_branches(branches)
        known = by_class.sum(axis=1)
        # entropies times what they are of: total log total less the sum of part log part
        within = xlogy(masses, masses) - xlogy(branches, branches).sum(axis=1)
        gains = (xlogy(known, known) - xlogy(by_class, by_class).sum(axis=1) - tests.sum_branches(within)) / total
        missing = np.maximum(total - known, 0.0)
        parts = tests.sum_branches(xlogy(masses, masses)) + xlogy(missing, missing)
        information = (xlogy(total, total) - parts) / total
        worthy = tests.find_eligible(masses, nodes)
        with np.errstate(divide="ignore", invalid="ignore"):
            ratios = np.where(information > 0, gains / information, 0.0)
        mean = np.where(worthy, gains, 0.0).sum(axis=1) / np.maximum(worthy.sum(axis=1), 1)
        worthy &= (gains > 1e-12) & (gains >= mean[:, None] - 1e-12)
        best = np.where(worthy, ratios, -np.inf).argmax(axis=1)
        return [int(test) if worthy[node, test] else None for node, test in enumerate(best)]


@dataclass(frozen=True)
class Utility:
    """Kohavi's: the accuracy of naive Bayes in the branches, by cross-validation; a split must save 5 % of the
    errors.
    """

    prior: float = 2.0

    def best(self, view: CodedColumns, nodes: Sequence[TreeNode[Values]], tests: CandidateTests) -> list[int | None]:
        """Return the test of each node with the fewest errors."""
        return [self._best(view, node, tests) for node in nodes]

    def _best(self, view: CodedColumns, node: TreeNode[Values], tests: CandidateTests) -> int | None:
        rng = np.random.default_rng(0)
        folds = rng.permutation(len(node.sample.rows)) % FOLDS
        whole = self._weigh_errors(view, node, np.zeros(len(node.sample.rows), dtype=np.intp), 1, folds, None)
        least, best = whole * (1 - LEAST_GAIN), None
        for test, count, branches in _list_branchings(node, tests):
            multiway = int(tests.columns[test]) if tests.cuts[test] < 0 else None
            errors = self._weigh_errors(view, node, np.where(branches < 0, count, branches), count + 1, folds, multiway)
            if errors < least:
                least, best = errors, test
        return best

    def _weigh_errors(
        self, view: CodedColumns, node: TreeNode[Values], branches: Codes, count: int, folds: Codes, without: int | None
    ) -> float:
        """Return the weight of the rows that naive Bayes, learned in their branch from the other folds, gets wrong."""
        columns = [c for c in range(len(view.sizes)) if c != without and len(node.boxes.get(c, (0, 1))) > 1]
        # of tables with many more cells than rows only what occurs is counted
        wide = [c for c in columns if count * view.sizes[c] > SPARSE * max(len(folds), LEAST_SPARSE)]
        columns = [c for c in columns if c not in wide]
        target = view.target[node.sample.rows]
        keys = (branches * FOLDS + folds) * view.classes + target
        shape = (count, FOLDS, view.classes)
        prior = np.bincount(keys, node.sample.weights, math.prod(shape)).reshape(shape)
        prior = prior.sum(axis=1, keepdims=True) - prior
        place = branches * FOLDS + folds
        logs = np.log(prior + self.prior / view.classes).reshape(-1, view.classes)[place]
        sizes = [view.sizes[c] for c in columns]
        codes = [view.codes[c][node.sample.rows] for c in columns]
        groups = Groups.of(keys, math.prod(shape), node.sample.weights, node.sample.rows)
        tables = view.count_groups(groups, columns)
        for column, size, table in zip(codes, sizes, tables, strict=True):
            counts = table.reshape(*shape, size)
            counts = counts.sum(axis=1, keepdims=True) - counts
            share = counts.sum(axis=2, keepdims=True) + 1.0
            smooth = counts + self.prior * share / share.sum(axis=-1, keepdims=True)
            table = np.log(smooth / smooth.sum(axis=-1, keepdims=True)).reshape(-1, view.classes, size)
            seen = np.flatnonzero(column >= 0)
            if len(seen) == len(column):
                # no copies of what is indexed
                logs += table[place, :, column]
            else:
                logs[seen] += table[place[seen], :, column[seen]]
        for number in wide:
            self._add_logs_of_occurring(
                logs, view.codes[number][node.sample.rows], view.sizes[number], keys, shape, node
            )
        return float(node.sample.weights[logs.argmax(axis=1) != target].sum())

    def _add_logs_of_occurring(
        self, logs: Values, column: Codes, size: int, keys: Codes, shape: tuple[int, int, int], node: TreeNode[Values]
    ) -> None:
        """Add the log-probabilities of a column of many states, from counts of the states that occur in each branch.

        Parameters
        ----------
        keys : ndarray (rows,)
            Branch, fold and class of each row, as one number of this shape.
        """
        _, folds, classes = shape
        seen = np.flatnonzero(column >= 0)
        weights, keys, column = node.sample.weights[seen], keys[seen], column[seen]
        cells, place = np.unique(keys // (folds * classes) * size + column, return_inverse=True)
        table = np.bincount(place * (folds * classes) + keys % (folds * classes), weights, len(cells) * folds * classes)
        counts = table.reshape(-1, folds, classes)
        counts = counts.sum(axis=1, keepdims=True) - counts
        within = np.bincount(keys, weights, math.prod(shape)).reshape(shape)
        within = (within.sum(axis=1, keepdims=True) - within)[cells // size]
        share = (counts.sum(axis=2, keepdims=True) + 1.0) / (within.sum(axis=2, keepdims=True) + size)
        smooth = np.log((counts + self.prior * share) / (within + self.prior))
        logs[seen] += smooth[place, keys // classes % folds]


@dataclass(frozen=True)
class Variance:
    """For a target that is a number: the test that leaves the least variance, if it takes away 5 %."""

    def best(self, view: CodedColumns, nodes: Sequence[TreeNode[Values]], tests: CandidateTests) -> list[int | None]:
        """Return the test of the least variance of each node, from sums of the target and its square in each state."""
        linear, squares = [], []
        for node in nodes:
            rows, weights = node.sample
            deviations = view.target[rows] - np.average(view.target[rows], weights=weights)
            linear.append(Sample(rows, weights * deviations))
            squares.append(float(weights @ deviations**2))
        masses = tests.weigh_branches(np.stack([node.statistics for node in nodes]).sum(axis=1))
        sums = tests.weigh_branches(view.counts(linear).sum(axis=1))
        whole = np.array(squares)[:, None]
        # rows whose cell is missing keep their squares
        left = whole - tests.sum_branches(sums**2 / np.maximum(masses, 1e-300))
        left = np.where(tests.find_eligible(masses, nodes), left, np.inf)
        # of tests that are equally good but for rounding, the first
        best = (left <= left.min(axis=1, keepdims=True) + TIE * whole).argmax(axis=1)
        return [
            int(test) if left[node, test] < squares[node] * (1 - LEAST_GAIN) else None for node, test in enumerate(best)
        ]


def _list_branchings(node: TreeNode[Values], tests: CandidateTests) -> Iterator[tuple[int, int, Codes]]:
    """Yield the worthy tests of a node with their number of branches, and the branch of each row, -1 where the cell is
    missing.
    """
    masses = tests.weigh_branches(node.statistics.sum(axis=0))[None]
    for test in np.flatnonzero(tests.find_eligible(masses, [node])[0]).tolist():
        count = int(tests.starts[test + 1] - tests.starts[test])
        yield test, count, tests.branches_of(test)[tests.view.codes[tests.columns[test]][node.sample.rows]]
