"""Trees whose nodes test coded columns, grown level by level by gain ratio, the utility of naive Bayes, or variance.

All nodes of a level are counted in one pass, by node, class and state; tests are judged by these counts, and naive
Bayes trees learn the densities of their leaves from them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from hybridbn.errors import TooWide
from hybridbn.fitting.counting import Groups
from hybridbn.fitting.trees.growth import (
    FOLDS,
    CodedColumns,
    ColumnView,
    Levels,
    Sample,
    ScannedColumns,
    Split,
    TreeNode,
    choose_grain,
    grow_from,
)
from hybridbn.jobs import get_jobs, run_in_threads
from hybridbn.variables import Codes, Values

__all__ = [
    "CandidateTests",
    "CodedColumns",
    "ColumnCriterion",
    "ColumnView",
    "GainRatio",
    "ScannedColumns",
    "TargetSums",
    "Utility",
    "Variance",
    "choose_grain",
    "grow_by_tests",
    "mass_of",
]

SPARSE, LEAST_SPARSE = 4, 2**14
"""Tables of branches and states with so many times more cells than rows, or than so many rows, are sparse."""
MOST_CELLS = 1 << 27
"""Most cells of the tables of one test (1 GiB)."""
LEAST_GAIN = 0.05
"""Relative improvement that a split needs (Kohavi's rule)."""
TIE = 1e-12
"""Relative to the variance above, smaller differences are rounding."""
_LOOKED_UP = 2**14
"""Rows whose logs are summed up together: they stay in the cache."""
LEAST_SHARE = 0.25
"""Both sides of a cut have at least so much of the weight that a node needs to be split."""


class CandidateTests:
    """All tests that there are: the states of a column, each a branch, or an ordered column cut in two.

    Parameters
    ----------
    view : ColumnView
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

    view: ColumnView
    branch: float
    side: float
    columns: NDArray[np.intp]
    cuts: NDArray[np.intp]

    def __init__(self, view: ColumnView, binary: bool, branch: float, side: float) -> None:
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
        return Split(int(self.columns[test]), self.branches_of(test), own, grain=self.view.grain)


class ColumnCriterion(Protocol):
    """How tests are judged."""

    def best(self, view: ColumnView, nodes: Sequence[TreeNode[Values]], tests: CandidateTests) -> list[int | None]:
        """Return the number of the best test of each node, None where none is worth while."""


def grow_by_tests(
    view: ColumnView, criterion: ColumnCriterion, depth: int | None, least: float, branch: float, binary: bool
) -> TreeNode[Values]:
    """Grow a tree from all rows; its nodes' statistics are counts (classes, states + 1), as of `ColumnView.counts`.

    Parameters
    ----------
    depth : greatest number of tests on the way to a leaf, None for no bound
    least : nodes of less weight are not split
    branch : at least two branches of a test have so much weight
    binary : whether intervals of numbers are cut in two; else each interval, like each state, is a branch
    """
    tests = CandidateTests(view, binary, branch, max(branch, LEAST_SHARE * least))
    columns = view.codes if isinstance(view, CodedColumns) else ()
    return grow_from(columns, [view.root()], _ColumnSplits(view, tests, criterion, depth, least), Levels())[0]


@dataclass(frozen=True, eq=False)
class _ColumnSplits:
    """The best tests by a criterion, within the bounds of depth and weight; see `grow_by_tests`."""

    view: ColumnView
    tests: CandidateTests
    criterion: ColumnCriterion
    depth: int | None
    least: float

    def measure(self, samples: Sequence[Any]) -> list[Values]:
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
        # of a number the criterion sees whether it is constant
        pure = self.view.classes and np.count_nonzero(node.statistics[:, -1]) < 2
        return 0 < mass_of(node) >= self.least and not pure


def mass_of(node: TreeNode[Values]) -> float:
    """Return the weight of the rows that reach a node."""
    return float(node.statistics[:, -1].sum())


# -- criteria -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class GainRatio:
    """C4.5's gain ratio, among the tests whose gain is not below the average (Ting & Zheng 2003, section 3.2)."""

    def best(self, view: ColumnView, nodes: Sequence[TreeNode[Values]], tests: CandidateTests) -> list[int | None]:
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

    def best(self, view: ColumnView, nodes: Sequence[TreeNode[Values]], tests: CandidateTests) -> list[int | None]:
        """Return the test of each node with the fewest errors."""
        trials = [trial for place, node in enumerate(nodes) for trial in _list_trials(view, place, node, tests)]
        if not view.knows_rows:
            _refuse_wide_trials(trials)
        errors = np.concatenate(
            [self._weigh_errors(view, nodes, group) for group in _divide_trials(trials, view.most_cells)]
        )
        best: list[int | None] = [None] * len(nodes)
        least = np.zeros(len(nodes))
        for trial, error in zip(trials, errors.tolist(), strict=True):
            if trial.test is None:
                least[trial.node] = error * (1 - LEAST_GAIN)
            elif error < least[trial.node]:
                least[trial.node], best[trial.node] = error, trial.test
        return best

    def _weigh_errors(self, view: ColumnView, nodes: Sequence[TreeNode[Values]], trials: Sequence[_Trial]) -> Values:
        """Return the weight of the rows that naive Bayes, learned in their branch from the other folds, gets wrong, of
        each trial.
        """
        first, last = trials[0].node, trials[-1].node
        samples = [node.sample for node in nodes[first : last + 1]]
        moved = [replace(trial, node=trial.node - first) for trial in trials]
        counts = view.sum_over(partial(_count_folds, trials=moved), samples)
        return view.sum_over(partial(_sum_errors, trials=moved, counts=counts, prior=self.prior), samples)


@dataclass(frozen=True)
class _Trial:
    """A test of a node, or none, and the columns of naive Bayes in its branches.

    Attributes
    ----------
    node : int
    test : int or None
    column : int, that is tested
    branches : ndarray (codes + 1,), of the codes of the column; missing cells make one more branch
    columns, wide : tuple of int, those whose tables are counted, and those of so many cells that only what occurs is
    sizes : tuple of int, of `columns`
    classes : int
    """

    node: int
    test: int | None
    column: int
    branches: Codes
    columns: tuple[int, ...]
    wide: tuple[int, ...]
    sizes: tuple[int, ...]
    classes: int

    @property
    def shape(self) -> tuple[int, int, int]:
        """The numbers of branches, folds and classes."""
        return int(self.branches.max()) + 1, FOLDS, self.classes

    @property
    def cells(self) -> int:
        """The number of counts."""
        return math.prod(self.shape) * (1 + sum(self.sizes))

    def encode(self, block: CodedColumns, sample: Sample) -> Codes:
        """Return branch, fold and class of each row, as one number."""
        rows = sample.rows
        branches = self.branches[block.codes[self.column][rows]] if self.test is not None else 0
        return np.asarray((branches * FOLDS + block.fold_rows(rows)) * self.classes + block.target[rows])


def _list_trials(view: ColumnView, place: int, node: TreeNode[Values], tests: CandidateTests) -> Iterator[_Trial]:
    """Yield what is tried at a node: no test, and each that is worthy."""
    rows = len(node.sample.rows) if view.knows_rows else math.inf
    masses = tests.weigh_branches(node.statistics.sum(axis=0))[None]
    worthy = np.flatnonzero(tests.find_eligible(masses, [node])[0]).tolist()
    for test in (None, *worthy):
        column, without, branches = 0, None, np.zeros(1, np.intp)
        if test is not None:
            column, branches = int(tests.columns[test]), tests.branches_of(test)
            without = column if tests.cuts[test] < 0 else None
            branches[-1] = branches.max() + 1
        count = int(branches.max()) + 1
        columns = [c for c in range(len(view.sizes)) if c != without and len(node.boxes.get(c, (0, 1))) > 1]
        # of tables with many more cells than rows only what occurs is counted
        wide = [c for c in columns if count * view.sizes[c] > SPARSE * max(rows, LEAST_SPARSE)]
        columns = [c for c in columns if c not in wide]
        sizes = tuple(view.sizes[c] for c in columns)
        yield _Trial(place, test, column, branches, tuple(columns), tuple(wide), sizes, view.classes)


def _refuse_wide_trials(trials: Sequence[_Trial]) -> None:
    cells = max(trial.cells for trial in trials)
    if cells > MOST_CELLS:
        raise TooWide(
            f"a test of a naive Bayes tree would count {cells:,} cells; leave out columns of very many states, or let a"
            " gain ratio choose the tests: max_depth=4"
        )


def _divide_trials(trials: Sequence[_Trial], most: int) -> Iterator[Sequence[_Trial]]:
    """Yield trials whose counts are made together."""
    begin, cells = 0, 0
    for place, trial in enumerate(trials):
        if place > begin and cells + trial.cells > most:
            yield trials[begin:place]
            begin, cells = place, 0
        cells += trial.cells
    yield trials[begin:]


def _count_folds(block: CodedColumns, samples: Sequence[Sample], trials: Sequence[_Trial]) -> Values:
    """Return the counts of all trials, one after the other: of branch, fold and class, and with each column."""
    parts: list[NDArray[Any]] = []
    for trial in trials:
        sample = samples[trial.node]
        keys, size = trial.encode(block, sample), math.prod(trial.shape)
        groups = Groups.of(keys, size, sample.weights, sample.rows)
        parts.append(np.bincount(keys, sample.weights, size))
        parts += [table.ravel() for table in block.count_groups(groups, trial.columns)]
    return np.concatenate(parts)


def _sum_errors(
    block: CodedColumns, samples: Sequence[Sample], trials: Sequence[_Trial], counts: Values, prior: float
) -> Values:
    """Return the weight of the rows that each trial gets wrong, from the counts of all rows."""
    errors, end = np.empty(len(trials)), 0
    for number, trial in enumerate(trials):
        begin, end = end, end + trial.cells
        errors[number] = _sum_errors_of(block, samples[trial.node], trial, counts[begin:end], prior)
    return errors


def _sum_errors_of(block: CodedColumns, sample: Sample, trial: _Trial, counts: Values, prior: float) -> float:
    shape = trial.shape
    keys, size = trial.encode(block, sample), math.prod(shape)
    place, target = keys // trial.classes, block.target[sample.rows]
    whole = counts[:size].reshape(shape)
    whole = whole.sum(axis=1, keepdims=True) - whole
    first = np.log(whole + prior / trial.classes).reshape(-1, trial.classes)
    tables: list[tuple[Codes, int, Values]] = []
    begin = size
    for number, states in zip(trial.columns, trial.sizes, strict=True):
        own = counts[begin : begin + size * states].reshape(*shape, states)
        begin += size * states
        own = own.sum(axis=1, keepdims=True) - own
        share = own.sum(axis=2, keepdims=True) + 1.0
        smooth = own + prior * share / share.sum(axis=-1, keepdims=True)
        table = np.log(smooth / smooth.sum(axis=-1, keepdims=True)).reshape(-1, trial.classes, states)
        # the logs of all classes stand together; the last are those of a missing cell
        logs_of = np.concatenate([np.moveaxis(table, 1, 2).reshape(-1, trial.classes), np.zeros((1, trial.classes))])
        tables.append((block.codes[number], states, logs_of))
    logs, wrong = np.empty((len(place), trial.classes)), np.zeros(len(place), dtype=bool)

    def add_logs(start: int) -> None:
        part = slice(start, start + _LOOKED_UP)
        own = logs[part]
        own[:] = first.take(place[part], axis=0)
        for column, states, table in tables:
            codes = column[sample.rows[part]]
            index = np.where(codes < 0, len(table) - 1, place[part] * states + codes)
            own += table.take(index, axis=0)
        if not trial.wide:
            wrong[part] = own.argmax(axis=1) != target[part]

    for _ in run_in_threads(add_logs, range(0, len(place), _LOOKED_UP), get_jobs()):
        pass
    for number in trial.wide:
        _add_logs_of_occurring(logs, block.codes[number][sample.rows], block.sizes[number], keys, shape, sample, prior)
    if trial.wide:
        wrong = logs.argmax(axis=1) != target
    return float(sample.weights[wrong].sum())


def _add_logs_of_occurring(
    logs: Values, column: Codes, size: int, keys: Codes, shape: tuple[int, int, int], sample: Sample, prior: float
) -> None:
    """Add the log-probabilities of a column of many states, from counts of the states that occur in each branch.

    Parameters
    ----------
    keys : ndarray (rows,)
        Branch, fold and class of each row, as one number of this shape.
    """
    _, folds, classes = shape
    seen = np.flatnonzero(column >= 0)
    weights, keys, column = sample.weights[seen], keys[seen], column[seen]
    cells, place = np.unique(keys // (folds * classes) * size + column, return_inverse=True)
    table = np.bincount(place * (folds * classes) + keys % (folds * classes), weights, len(cells) * folds * classes)
    counts = table.reshape(-1, folds, classes)
    counts = counts.sum(axis=1, keepdims=True) - counts
    within = np.bincount(keys, weights, math.prod(shape)).reshape(shape)
    within = (within.sum(axis=1, keepdims=True) - within)[cells // size]
    share = (counts.sum(axis=2, keepdims=True) + 1.0) / (within.sum(axis=2, keepdims=True) + size)
    smooth = np.log((counts + prior * share) / (within + prior))
    logs[seen] += smooth[place, keys // classes % folds]


@dataclass(frozen=True)
class Variance:
    """For a target that is a number: the test that leaves the least variance, if it takes away 5 %."""

    def best(self, view: ColumnView, nodes: Sequence[TreeNode[Values]], tests: CandidateTests) -> list[int | None]:
        """Return the test of the least variance of each node, from sums of the target and its square in each state."""
        sums = view.sum_over(_sum_target, [node.sample for node in nodes])
        masses, linear = tests.weigh_branches(sums.masses), tests.weigh_branches(sums.linear)
        whole = sums.squares[:, None]
        # rows whose cell is missing keep their squares
        left = whole - tests.sum_branches(linear**2 / np.maximum(masses, 1e-300))
        left = np.where(tests.find_eligible(masses, nodes) & (sums.low < sums.high)[:, None], left, np.inf)
        # of tests that are equally good but for rounding, the first
        best = (left <= left.min(axis=1, keepdims=True) + TIE * whole).argmax(axis=1)
        return [
            int(test) if left[node, test] < sums.squares[node] * (1 - LEAST_GAIN) else None
            for node, test in enumerate(best)
        ]


@dataclass(frozen=True)
class TargetSums:
    """Sums of a number target over the rows of some samples.

    Attributes
    ----------
    centers : ndarray (samples,)
        The means.
    masses, linear : ndarray (samples, states + 1)
        The weight in each state, and the sum of the deviations from the center; those of all rows are the last.
    squares : ndarray (samples,)
        Of the deviations.
    low, high : ndarray (samples,)
    """

    centers: Values
    masses: Values
    linear: Values
    squares: Values
    low: Values
    high: Values

    def __add__(self, other: TargetSums) -> TargetSums:
        mine, yours = self.masses[:, -1], other.masses[:, -1]
        share = np.divide(yours, mine + yours, out=np.zeros_like(mine), where=mine + yours > 0)
        centers = self.centers + share * (other.centers - self.centers)
        parts = []
        for one in (self, other):
            shift = one.centers - centers
            linear = one.linear + one.masses * shift[:, None]
            parts.append((linear, one.squares + shift * (2 * one.linear[:, -1] + one.masses[:, -1] * shift)))
        (linear, squares), (added, added_squares) = parts
        return TargetSums(
            centers,
            self.masses + other.masses,
            linear + added,
            squares + added_squares,
            np.minimum(self.low, other.low),
            np.maximum(self.high, other.high),
        )


def _sum_target(block: CodedColumns, samples: Sequence[Sample]) -> TargetSums:
    centers, squares, low, high, weighted = list[float](), list[float](), list[float](), list[float](), list[Sample]()
    for rows, weights in samples:
        target = block.target[rows]
        centers.append(float(np.average(target, weights=weights)) if weights.sum() > 0 else 0.0)
        deviations = target - centers[-1]
        weighted.append(Sample(rows, weights * deviations))
        squares.append(float(weights @ deviations**2))
        low.append(target.min(initial=math.inf))
        high.append(target.max(initial=-math.inf))
    masses, linear = (block.count_samples(own).sum(axis=1) for own in (samples, weighted))
    return TargetSums(np.array(centers), masses, linear, *map(np.array, (squares, low, high)))
