"""Trees whose nodes test coded columns, grown level by level by gain ratio, the utility of naive Bayes, or variance.

All nodes of a level are counted in one pass, by node, class and state; tests are judged by these counts, and naive
Bayes trees learn the densities of their leaves from them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from hybridbn.fitting.counting import Counts, Groups, Moments, NumpyCounter, Occurring
from hybridbn.fitting.cross_validation import deal_numbered_rows
from hybridbn.fitting.trees import LocatedRows, Route, Sample, Split, TreeNode, TreeRows, grow
from hybridbn.jobs import get_jobs, run_in_threads
from hybridbn.tables import Rows, Table
from hybridbn.variables import Codes, Discrete, Values, Variable

FOLDS = 5
"""The number of folds of the cross-validation that judges tests."""
_BATCH_CELLS = 2**21
"""Columns with so many counts (16 MiB) are counted together."""
_GRAINS = 26
"""Weights of shares of rows are multiples of the mean weight over two to this power, so that sums of up to 2**27 of
them are exact, in whatever order they are added.
"""
SPARSE, LEAST_SPARSE = 4, 2**14
"""Tables of branches and states with so many times more cells than rows, or than so many rows, are sparse."""
MOST_CELLS = 1 << 24
"""Most cells of a table that is not sparse, and of the tables of tests that are counted together (128 MiB),"""
LEAST_CELLS = 1 << 20
"""which are so many at least, and else as many as a few times the rows."""
LEAST_GAIN = 0.05
"""Relative improvement that a split needs (Kohavi's rule)."""
_CONSTANT = 8 * np.finfo(float).eps
"""A number that deviates less from its mean, relative to that, is constant but for rounding."""
TIE = 1e-12
"""Relative to the variance above, smaller differences are rounding."""
_LOOKED_UP = 2**14
"""Rows whose logs are summed up together: they stay in the cache."""
LEAST_SHARE = 0.25
"""Both sides of a cut have at least so much of the weight that a node needs to be split."""


class CodedColumns(LocatedRows):
    """Columns of a batch of rows.

    Parameters
    ----------
    read : ColumnReader
    codes : sequence of ndarray (rows,), -1 where missing
    target : ndarray (rows,)
        Codes or numbers, missing ones in rows that do not count only.
    weights : ndarray (rows,)
    first : int
        The place of the first row among those of all batches.
    """

    def __init__(
        self, read: ColumnReader, codes: Sequence[Codes], target: NDArray[Any], weights: Values, first: int
    ) -> None:
        counted = np.flatnonzero((target >= 0 if read.classes else ~np.isnan(target)) & (weights > 0))
        super().__init__([Sample(counted, weights[counted].astype(float))], codes)
        self.target = target
        self.sizes: list[int] = read.sizes
        self._first, self._classes, self._parts = first, read.classes, read.parts
        # the last column counts all rows
        columns: list[Codes] = [*codes, np.zeros(len(target), np.int8)]
        self._names = [(str(number),) for number in range(len(columns))]
        self._counter = NumpyCounter(
            {name: column for (name,), column in zip(self._names, columns, strict=True)},
            {name: size for (name,), size in zip(self._names, [*self.sizes, 1], strict=True)},
        ).persist()

    @cached_property
    def folds(self) -> Codes:
        """The folds of a cross-validation that the rows are in, the same in batches of any size."""
        if self._parts is not None:
            return self._parts[self._first : self._first + len(self.target)]
        return deal_numbered_rows(self._first, len(self.target), FOLDS)

    def count_groups(self, groups: Groups, columns: Sequence[int]) -> list[Values]:
        """Return the weight by group and state (groups, states) of each column; the number after the last counts all
        rows.
        """
        tables = self._counter.by_group(groups, [self._names[number] for number in columns])
        # a missing cell comes after the states
        sizes = [*self.sizes, 1]
        return [table[:, : sizes[number]] for number, table in zip(columns, tables, strict=True)]

    def count_samples(self, samples: Sequence[Sample]) -> Values:
        """Return the weight by sample, class (one of a number) and state, the weight of all rows coming after the
        states (samples, classes, states + 1).
        """
        rows, weights = (np.concatenate(arrays) for arrays in zip(*samples, strict=True))
        classes = max(self._classes, 1)
        keys = np.repeat(np.arange(len(samples)), [len(sample.rows) for sample in samples])
        if self._classes:
            keys = keys * classes + self.target[rows]
        groups = Groups.of(keys, len(samples) * classes, weights, rows)
        ends = np.cumsum([*self.sizes, 1])
        result = np.empty((groups.size, ends[-1]))
        # few columns at a time, so that there are not two copies of large counts
        batch = ends * groups.size // _BATCH_CELLS
        for columns in np.split(np.arange(len(ends)), np.flatnonzero(np.diff(batch)) + 1):
            for column, own in zip(columns, self.count_groups(groups, columns.tolist()), strict=True):
                result[:, ends[column] - own.shape[1] : ends[column]] = own
        return result.reshape(len(samples), classes, -1)


@dataclass(frozen=True, eq=False)
class ColumnReader:
    """Reads what tests look at.

    Attributes
    ----------
    variables : mapping from column to Variable
    tests : mapping from attribute to Discrete
        What is tested of it: its states, or intervals of a number, which a binary test cuts in two.
    target : str
    parts : ndarray (rows,), optional
        The folds of the rows; by default these are dealt by their numbers.
    """

    variables: Mapping[str, Variable]
    tests: Mapping[str, Discrete]
    target: str
    parts: Codes | None = None

    def __call__(self, table: Table, first: int) -> CodedColumns:
        """Return the columns of consecutive rows."""
        codes = [table.coded(test) for test in self.tests.values()]
        return CodedColumns(self, codes, table.coded(self.variables[self.target]), table.weights, first)

    @cached_property
    def sizes(self) -> list[int]:
        """The numbers of states or intervals."""
        return [len(variable) for variable in self.tests.values()]

    @cached_property
    def classes(self) -> int:
        """The number of classes of the target, 0 of a number."""
        target = self.variables[self.target]
        return len(target) if isinstance(target, Discrete) else 0


class ColumnView(TreeRows[CodedColumns]):
    """Columns, some of whose rows are at each node of a tree.

    Parameters
    ----------
    rows : Rows
    read : ColumnReader

    Attributes
    ----------
    sizes, classes : as of `ColumnReader`
    ordered : list of bool
        Whether the codes are intervals of a number.
    starts : ndarray (columns + 1,)
        Where the states of each column begin among those of all, and their number.
    weight : float
        The mean weight of a row, at most one: more than that are several rows.
    grain : float
        Weights of the shares of rows whose tested cell is missing are multiples of it.
    """

    def __init__(self, rows: Rows, read: ColumnReader) -> None:
        super().__init__(rows, read, list(read.variables.values()))
        self.sizes: list[int] = read.sizes
        self.classes: int = read.classes
        self.ordered: list[bool] = [variable.cuts is not None for variable in read.tests.values()]
        self.starts: NDArray[np.intp] = np.concatenate([[0], np.cumsum(np.asarray(read.sizes, dtype=np.intp))])
        self.weight: float = min(rows.total_weight / len(rows), 1.0)
        self.grain: float = 2.0 ** (math.floor(math.log2(self.weight)) - _GRAINS) if self.weight > 0 else 0.0


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
    """

    def __init__(self, view: ColumnView, binary: bool, branch: float, side: float) -> None:
        self.view: ColumnView = view
        self.branch: float = branch
        self.side: float = side
        tests: list[tuple[int, int, int]] = []
        for column, size in enumerate(view.sizes):
            if binary and view.ordered[column]:
                tests += [(column, cut, 2) for cut in range(size - 1)]
            else:
                tests.append((column, -1, size))
        listed = np.array(tests, dtype=np.intp).reshape(-1, 3)
        self.columns: NDArray[np.intp] = listed[:, 0]
        self.cuts: NDArray[np.intp] = listed[:, 1]
        self.starts: NDArray[np.intp] = np.concatenate([[0], np.cumsum(listed[:, 2])])

    def weigh_branches(self, counts: Values) -> Values:
        """Return the weight of each branch of all tests (..., branches) from that of each state (..., states + 1)."""
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


class ColumnCriterion(Protocol):
    """How tests are judged."""

    def best(self, view: ColumnView, nodes: Sequence[TreeNode[Values]], tests: CandidateTests) -> list[int | None]:
        """Return the number of the best test of each node, None where none is worth while."""


def grow_by_tests(
    view: ColumnView, criterion: ColumnCriterion, depth: int | None, least: float, branch: float, binary: bool
) -> TreeNode[Values]:
    """Grow a tree from all rows; its nodes' statistics are counts (classes, states + 1), see
    `CodedColumns.count_samples`.

    Parameters
    ----------
    depth : greatest number of tests on the way to a leaf, None for no bound
    least : nodes of less weight are not split
    branch : at least two branches of a test have so much weight
    binary : whether intervals of numbers are cut in two; else each interval, like each state, is a branch
    """
    tests = CandidateTests(view, binary, branch, max(branch, LEAST_SHARE * least))
    return grow([Route()], _ColumnSplits(tests, criterion, depth, least))[0]


@dataclass(frozen=True, eq=False)
class _ColumnSplits:
    """The best tests by a criterion, within the bounds of depth and weight; see `grow_by_tests`."""

    tests: CandidateTests
    criterion: ColumnCriterion
    depth: int | None
    least: float

    def measure(self, routes: Sequence[Route]) -> list[Values]:
        """Count the rows of all nodes in one pass."""
        return list(self.tests.view.sum_over(CodedColumns.count_samples, routes))

    def best(self, nodes: Sequence[TreeNode[Values]]) -> list[Split[Values] | None]:
        """Return the best test of each node."""
        splits: list[Split[Values] | None] = [None] * len(nodes)
        able = [number for number, node in enumerate(nodes) if self._may_be_split(node)]
        tests, view = self.tests, self.tests.view
        chosen = self.criterion.best(view, [nodes[number] for number in able], tests) if able else []
        for number, test in zip(able, chosen, strict=True):
            if test is not None:
                masses = tests.weigh_branches(nodes[number].statistics.sum(axis=0))
                own = masses[tests.starts[test] : tests.starts[test + 1]]
                splits[number] = Split(int(tests.columns[test]), tests.branches_of(test), own, grain=view.grain)
        return splits

    def _may_be_split(self, node: TreeNode[Values]) -> bool:
        if not len(self.tests.columns) or (self.depth is not None and node.level >= self.depth):
            return False
        # of a number the criterion sees whether it is constant
        pure = self.tests.view.classes and np.count_nonzero(node.statistics[:, -1]) < 2
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
        most = min(max(SPARSE * len(view.rows), LEAST_CELLS), MOST_CELLS)
        errors = np.concatenate([self._weigh_errors(view, nodes, group) for group in _divide_trials(trials, most)])
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
        routes = [node.route for node in nodes[first : last + 1]]
        moved = [replace(trial, node=trial.node - first) for trial in trials]
        dense, *sparse = view.sum_over(partial(_count_folds, trials=moved), routes).values()
        return view.sum_over(
            partial(_sum_errors, trials=moved, counts=dense, occurring=sparse, prior=self.prior), routes
        )


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
        branches = self.branches[block.columns[self.column][rows]] if self.test is not None else 0
        return np.asarray((branches * FOLDS + block.folds[rows]) * self.classes + block.target[rows])


def _list_trials(view: ColumnView, place: int, node: TreeNode[Values], tests: CandidateTests) -> Iterator[_Trial]:
    """Yield what is tried at a node: no test, and each that is worthy."""
    rows = mass_of(node) / view.weight
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
        most = min(SPARSE * max(rows, LEAST_SPARSE), MOST_CELLS / (FOLDS * max(view.classes, 1)))
        wide = [c for c in columns if count * view.sizes[c] > most]
        columns = [c for c in columns if c not in wide]
        sizes = tuple(view.sizes[c] for c in columns)
        yield _Trial(place, test, column, branches, tuple(columns), tuple(wide), sizes, view.classes)


def _divide_trials(trials: Sequence[_Trial], most: int) -> Iterator[Sequence[_Trial]]:
    """Yield trials whose counts are made together."""
    begin, cells = 0, 0
    for place, trial in enumerate(trials):
        if place > begin and cells + trial.cells > most:
            yield trials[begin:place]
            begin, cells = place, 0
        cells += trial.cells
    yield trials[begin:]


def _count_folds(block: CodedColumns, samples: Sequence[Sample], trials: Sequence[_Trial]) -> Counts:
    """Return the counts of all trials, one after the other: of branch, fold and class, and with each column; and after
    these what occurs of wide columns.
    """
    parts: list[NDArray[Any]] = []
    sparse: list[Occurring] = []
    for trial in trials:
        sample = samples[trial.node]
        keys, size = trial.encode(block, sample), math.prod(trial.shape)
        groups = Groups.of(keys, size, sample.weights, sample.rows)
        parts.append(np.bincount(keys, sample.weights, size))
        parts += [table.ravel() for table in block.count_groups(groups, trial.columns)]
        for number in trial.wide:
            codes = block.columns[number][sample.rows].astype(np.intp, copy=False)
            seen = codes >= 0
            sparse.append(Occurring.of((codes * size + keys)[seen], sample.weights[seen]))
    return Counts(enumerate([np.concatenate(parts), *sparse]))


def _sum_errors(
    block: CodedColumns,
    samples: Sequence[Sample],
    trials: Sequence[_Trial],
    counts: Values,
    occurring: Sequence[Occurring],
    prior: float,
) -> Values:
    """Return the weight of the rows that each trial gets wrong, from the counts of all rows."""
    sparse, dense = iter(occurring), np.split(counts, np.cumsum([trial.cells for trial in trials])[:-1])
    return np.array(
        [
            _sum_errors_of(block, samples[trial.node], trial, own, [next(sparse) for _ in trial.wide], prior)
            for trial, own in zip(trials, dense, strict=True)
        ]
    )


def _sum_errors_of(
    block: CodedColumns, sample: Sample, trial: _Trial, counts: Values, wide: Sequence[Occurring], prior: float
) -> float:
    shape = trial.shape
    keys, size = trial.encode(block, sample), math.prod(shape)
    place, target = keys // trial.classes, block.target[sample.rows]
    whole, *by_column = np.split(counts, size * np.cumsum([1, *trial.sizes])[:-1])
    whole = whole.reshape(shape)
    whole = whole.sum(axis=1, keepdims=True) - whole
    first = np.log(whole + prior / trial.classes).reshape(-1, trial.classes)
    tables: list[tuple[Codes, int, Values]] = []
    for number, states, flat in zip(trial.columns, trial.sizes, by_column, strict=True):
        own = flat.reshape(*shape, states)
        own = own.sum(axis=1, keepdims=True) - own
        share = own.sum(axis=2, keepdims=True) + 1.0
        smooth = own + prior * share / share.sum(axis=-1, keepdims=True)
        table = np.log(smooth / smooth.sum(axis=-1, keepdims=True)).reshape(-1, trial.classes, states)
        # the logs of all classes stand together; the last are those of a missing cell
        logs_of = np.concatenate([np.moveaxis(table, 1, 2).reshape(-1, trial.classes), np.zeros((1, trial.classes))])
        tables.append((block.columns[number], states, logs_of))
    logs = np.empty((len(place), trial.classes))

    def add_logs(start: int) -> None:
        part = slice(start, start + _LOOKED_UP)
        own = logs[part]
        own[:] = first.take(place[part], axis=0)
        for column, states, table in tables:
            codes = column[sample.rows[part]]
            index = np.where(codes < 0, len(table) - 1, place[part] * states + codes)
            own += table.take(index, axis=0)

    for _ in run_in_threads(add_logs, range(0, len(place), _LOOKED_UP), get_jobs()):
        pass
    for number, occurring in zip(trial.wide, wide, strict=True):
        _add_logs_of_occurring(
            logs, block.columns[number][sample.rows], block.sizes[number], keys, shape, occurring, prior
        )
    return float(sample.weights[logs.argmax(axis=1) != target].sum())


def _add_logs_of_occurring(
    logs: Values,
    column: Codes,
    size: int,
    keys: Codes,
    shape: tuple[int, int, int],
    occurring: Occurring,
    prior: float,
) -> None:
    """Add the log-probabilities of a column of many states, from counts of the states that occur in each branch.

    Parameters
    ----------
    keys : ndarray (rows,)
        Branch, fold and class of each row, as one number of this shape.
    occurring : Occurring
        State, branch, fold and class.
    """
    branches, folds, classes = shape
    seen = np.flatnonzero(column >= 0)
    column = column.astype(np.intp, copy=False)
    within = np.bincount(occurring.keys % math.prod(shape), occurring.weights, math.prod(shape)).reshape(shape)
    within = within.sum(axis=1, keepdims=True) - within
    cells, place = np.unique(occurring.keys // (folds * classes), return_inverse=True)
    counts = np.zeros((len(cells), folds, classes))
    counts.reshape(len(cells), -1)[place, occurring.keys % (folds * classes)] = occurring.weights
    counts = counts.sum(axis=1, keepdims=True) - counts
    within = within[cells % branches]
    share = (counts.sum(axis=2, keepdims=True) + 1.0) / (within.sum(axis=2, keepdims=True) + size)
    smooth = np.log((counts + prior * share) / (within + prior))
    of_rows = np.searchsorted(cells, column[seen] * branches + keys[seen] // (folds * classes))
    logs[seen] += smooth[of_rows, keys[seen] // classes % folds]


@dataclass(frozen=True)
class Variance:
    """For a target that is a number: the test that leaves the least variance, if it takes away 5 %."""

    def best(self, view: ColumnView, nodes: Sequence[TreeNode[Values]], tests: CandidateTests) -> list[int | None]:
        """Return the test of the least variance of each node, from sums of the target and its square in each state."""
        moments = view.sum_over(_measure_target, [node.route for node in nodes])
        weights, means, products = (
            part.reshape(len(nodes), -1) for part in (moments.weights, moments.means, moments.products)
        )
        squares, centers = products[:, -1], means[:, -1]
        masses, linear = (tests.weigh_branches(part) for part in (weights, weights * (means - centers[:, None])))
        # rows whose cell is missing keep their squares
        left = squares[:, None] - tests.sum_branches(linear**2 / np.maximum(masses, 1e-300))
        varies = squares > weights[:, -1] * (_CONSTANT * centers) ** 2
        left = np.where(tests.find_eligible(masses, nodes) & varies[:, None], left, np.inf)
        # of tests that are equally good but for rounding, the first
        best = (left <= left.min(axis=1, keepdims=True) + TIE * squares[:, None]).argmax(axis=1)
        return [
            int(test) if left[node, test] < squares[node] * (1 - LEAST_GAIN) else None for node, test in enumerate(best)
        ]


def _measure_target(block: CodedColumns, samples: Sequence[Sample]) -> Moments:
    """Return the moments of a number target by sample and state, those of all rows coming after the states; squares are
    summed up for all rows only.
    """
    centers, squares, deviations = np.zeros(len(samples)), np.zeros(len(samples)), list[Sample]()
    for number, (rows, weights) in enumerate(samples):
        target = block.target[rows]
        centers[number] = np.average(target, weights=weights) if weights.sum() > 0 else 0.0
        deviations.append(Sample(rows, weights * (target - centers[number])))
        squares[number] = weights @ (target - centers[number]) ** 2
    masses, linear = (block.count_samples(own).sum(axis=1) for own in (samples, deviations))
    means = centers[:, None] + np.divide(linear, masses, out=np.zeros_like(linear), where=masses > 0)
    products = np.zeros_like(masses)
    products[:, -1] = squares
    return Moments(float(masses[:, -1].sum()), masses.ravel(), means.reshape(-1, 1), products.reshape(-1, 1, 1))
