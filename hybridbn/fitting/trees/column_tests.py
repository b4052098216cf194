"""Growing a tree over coded columns, level by level: which test splits a node, by gain ratio, utility of naive Bayes, or variance.

A row whose tested cell is missing goes down all branches, with their shares of its weight (C4.5's rule). All nodes of a level are
counted in one pass, by node, class and state; tests are judged by these counts, and so are the densities of the leaves learned.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.special import xlogy

from hybridbn.fitting.counts import single_counts
from hybridbn.variables import Codes, Values

__all__ = ["Criterion", "GainRatio", "Grown", "Tests", "Utility", "Variance", "View", "grown", "leaves"]

FOLDS = 5
LEAST_GAIN = 0.05
"""Relative improvement that a split needs (Kohavi's rule)."""
LEAST_SHARE = 0.25
"""Both sides of a cut have at least so much of the weight that a node needs to be split."""
_CELLS = 2**18
"""Cells of a table that are counted at a time."""


class View:
    """What tests look at: columns of codes, laid out so that all are counted at once.

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
        self.starts = np.concatenate([[0], np.cumsum(np.asarray(sizes, dtype=np.intp))])
        # a last line counts all rows; missing cells come after the states of all columns
        self._places = np.zeros((len(codes) + 1, len(target)), np.int32)
        for line, own, start in zip(self._places, codes, self.starts[:-1], strict=False):
            np.add(own, start, out=line, casting="same_kind")
            line[own < 0] = self.starts[-1] + 1
        self._places[-1] = self.starts[-1]

    def counts(self, rows: NDArray[np.intp], nodes: NDArray[np.intp], weights: Values, count: int) -> Values:
        """Return the weight by node, class (one of a number) and state, the weight of all rows coming after the states.

        Returns
        -------
        ndarray (count, classes, states + 1)
        """
        classes, width = max(self.classes, 1), int(self.starts[-1]) + 2
        keys = nodes * (classes * width)
        if self.classes:
            keys += self.target[rows] * width
        total = np.zeros(count * classes * width)
        # a bincount starts from zeros, so a large table wants large blocks
        block = max(_CELLS // len(self._places), 4 * total.size // len(self._places), 1)
        for start in range(0, len(rows), block):
            part = slice(start, start + block)
            cells = self._places[:, rows[part]] + keys[part]
            spread = np.broadcast_to(weights[part], cells.shape)
            total += np.bincount(cells.ravel(), spread.ravel(), total.size)
        return total.reshape(count, classes, width)[:, :, :-1]

    def cells(self, columns: NDArray[np.intp], rows: NDArray[np.intp]) -> NDArray[np.intp]:
        """Return the code of one cell for each column and row given, -1 where missing."""
        found = self._places[columns, rows].astype(np.intp)
        return np.where(found > self.starts[-1], -1, found - self.starts[columns])


@dataclass(eq=False)
class Grown:
    """A node of a tree.

    Attributes
    ----------
    rows, weights : the rows that reach the node, and with which weight
    counts : the node's counts, (classes, states + 1), as in `View.counts`
    share : the part of its parent's weight that the branch has
    test : the column tested, None at a leaf
    children : one for each branch
    boxes : for each column tested on the way, the codes that come here
    """

    rows: NDArray[np.intp]
    weights: Values
    counts: Values
    share: float = 1.0
    test: int | None = None
    children: list[Grown] = field(default_factory=list)
    boxes: dict[int, NDArray[np.intp]] = field(default_factory=dict)
    above: Grown | None = None

    @property
    def mass(self) -> float:
        """The weight of the rows that reach the node."""
        return float(self.counts[:, -1].sum())


class Tests:
    """All tests that there are: the states of a column, each a branch, or an ordered column cut in two.

    Parameters
    ----------
    view : View
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

    def __init__(self, view: View, binary: bool, branch: float, side: float) -> None:
        self.view, self.branch, self.side = view, branch, side
        tests: list[tuple[int, int, int]] = []
        for column, size in enumerate(view.sizes):
            if binary and view.ordered[column]:
                tests += [(column, cut, 2) for cut in range(size - 1)]
            else:
                tests.append((column, -1, size))
        listed = np.array(tests, dtype=np.intp).reshape(-1, 3)
        self.columns, self.cuts = listed[:, 0], listed[:, 1]
        self.starts = np.concatenate([[0], np.cumsum(listed[:, 2])])
        self.by_state = len(tests) == len(view.sizes) and bool((self.cuts < 0).all())

    def branches(self, counts: Values) -> Values:
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

    def summed(self, values: Values) -> Values:
        """Return the sums over the branches of each test (..., tests)."""
        return np.add.reduceat(values, self.starts[:-1], axis=-1)

    def worthy(self, masses: Values, nodes: Sequence[Grown]) -> NDArray[np.bool_]:
        """Tell which tests put weight on at least two branches, and so much on both sides of a cut (nodes, tests).

        Parameters
        ----------
        masses : ndarray (nodes, branches)
        nodes : sequence of Grown
        """
        least = np.where(np.repeat(self.cuts, np.diff(self.starts)) < 0, self.branch, self.side)
        found = self.summed((masses >= least).astype(np.intp)) >= 2
        for number, node in enumerate(nodes):
            for column in node.boxes:
                # its cuts outside of the box have nothing on one side
                found[number, (self.columns == column) & (self.cuts < 0)] = False
        return np.asarray(found)

    def groups(self, test: int, node: Grown) -> list[NDArray[np.intp]]:
        """Return the codes that go to each branch of a test."""
        column, cut = int(self.columns[test]), int(self.cuts[test])
        if cut < 0:
            return list(np.arange(self.view.sizes[column])[:, None])
        allowed = node.boxes.get(column, np.arange(self.view.sizes[column]))
        return [allowed[allowed <= cut], allowed[allowed > cut]]

    def routed(self, tests: NDArray[np.intp], rows: NDArray[np.intp]) -> NDArray[np.intp]:
        """Return the branch that each row takes in a test of its own, -1 where the cell is missing."""
        codes, cuts = self.view.cells(self.columns[tests], rows), self.cuts[tests]
        return codes if self.by_state else np.where((cuts < 0) | (codes < 0), codes, codes > cuts)


class Criterion(Protocol):
    """How tests are judged."""

    def best(self, view: View, nodes: Sequence[Grown], tests: Tests) -> list[int | None]:
        """Return the number of the best test of each node, None where none is worth while."""


def grown(view: View, criterion: Criterion, depth: int | None, least: float, branch: float, binary: bool) -> Grown:
    """Grow a tree from all rows.

    Parameters
    ----------
    depth : greatest number of tests on the way to a leaf, None for no bound
    least : nodes of less weight are not split
    branch : at least two branches of a test have so much weight
    binary : whether intervals of numbers are cut in two; else each interval, like each state, is a branch
    """
    rows, weights = np.arange(len(view.target)), view.weights.astype(float)
    root = Grown(rows, weights, view.counts(rows, np.zeros(len(rows), np.intp), weights, 1)[0])
    tests = Tests(view, binary, branch, max(branch, LEAST_SHARE * least))
    nodes, level = [root], 0
    while nodes and len(tests.columns) and (depth is None or level < depth):
        able = [node for node in nodes if len(node.rows) and node.mass >= least and not _pure(view, node)]
        chosen = criterion.best(view, able, tests) if able else []
        split = [(node, test) for node, test in zip(able, chosen, strict=True) if test is not None]
        nodes = _split(view, split, tests) if split else []
        level += 1
    return root


def leaves(root: Grown) -> list[Grown]:
    """Return the leaves from left to right."""
    return [root] if root.test is None else [leaf for child in root.children for leaf in leaves(child)]


def _pure(view: View, node: Grown) -> bool:
    if view.classes:
        return bool(np.count_nonzero(node.counts[:, -1]) < 2)
    seen = view.target[node.rows]
    return bool((seen == seen[0]).all())


def _split(view: View, split: Sequence[tuple[Grown, int]], tests: Tests) -> list[Grown]:
    """Split nodes of a level by their tests, and return the children of all."""
    chosen = np.array([test for _, test in split])
    sizes = np.diff(tests.starts)[chosen]
    first = np.concatenate([[0], np.cumsum(sizes)])
    parent = np.repeat(np.arange(len(split)), sizes)
    masses = tests.branches(np.stack([node.counts for node, _ in split]).sum(axis=1))
    mass = masses[parent, np.arange(first[-1]) - first[parent] + tests.starts[chosen][parent]]
    known = np.bincount(parent, mass)[parent]
    shares = mass / known
    # every branch can be reached: as if two more rows were spread as the branches are, halfway to evenly
    smooth = (mass + 2 * (0.5 * shares + 0.5 / sizes[parent])) / (known + 2)
    rows = np.concatenate([node.rows for node, _ in split])
    weights = np.concatenate([node.weights for node, _ in split])
    owner = np.repeat(np.arange(len(split)), [len(node.rows) for node, _ in split])
    branch = tests.routed(chosen[owner], rows)
    missing = np.flatnonzero(branch < 0)
    if missing.size:
        rows, weights, owner, branch = _spread(missing, rows, weights, owner, branch, shares, first)
    child = first[owner] + branch
    # in each node the rows keep their order, also those that came down with missing cells
    order = np.lexsort((rows, child)) if missing.size else np.argsort(child, kind="stable")
    rows, weights = rows[order], weights[order]
    counts = view.counts(rows, child[order], weights, int(first[-1]))
    ends = np.concatenate([[0], np.cumsum(np.bincount(child, minlength=first[-1]))])
    found = []
    for number, (node, test) in enumerate(split):
        column = int(tests.columns[test])
        node.test = column
        for place, group in zip(range(first[number], first[number + 1]), tests.groups(test, node), strict=True):
            part = slice(ends[place], ends[place + 1])
            boxes = {**node.boxes, column: group}
            made = Grown(rows[part], weights[part], counts[place], float(smooth[place]), boxes=boxes, above=node)
            node.children.append(made)
        found += node.children
    return found


def _spread(
    missing: NDArray[np.intp],
    rows: NDArray[np.intp],
    weights: Values,
    owner: NDArray[np.intp],
    branch: NDArray[np.intp],
    shares: Values,
    first: NDArray[np.intp],
) -> tuple[NDArray[np.intp], Values, NDArray[np.intp], NDArray[np.intp]]:
    """Send the rows whose tested cell is missing down all branches that have a share."""
    sizes = np.diff(first)[owner[missing]]
    again = np.repeat(missing, sizes)
    places = np.arange(len(again)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    parts = shares[first[owner[again]] + places]
    again, places, parts = again[parts > 0], places[parts > 0], parts[parts > 0]
    stay = np.flatnonzero(branch >= 0)
    every = np.concatenate([stay, again])
    return (
        rows[every],
        np.concatenate([weights[stay], weights[again] * parts]),
        owner[every],
        np.concatenate([branch[stay], places]),
    )


# -- criteria -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class GainRatio:
    """C4.5's gain ratio, among the tests whose gain is not below the average (Ting & Zheng 2003, section 3.2)."""

    def best(self, view: View, nodes: Sequence[Grown], tests: Tests) -> list[int | None]:
        """Return the test of the greatest ratio of each node."""
        counts = np.stack([node.counts for node in nodes])
        branches = tests.branches(counts)
        masses = branches.sum(axis=1)
        total = counts[:, :, -1].sum(axis=1, keepdims=True)
        by_class = tests.summed(branches)
        known = by_class.sum(axis=1)
        # entropies times what they are of: total log total less the sum of part log part
        within = xlogy(masses, masses) - xlogy(branches, branches).sum(axis=1)
        gains = (xlogy(known, known) - xlogy(by_class, by_class).sum(axis=1) - tests.summed(within)) / total
        missing = np.maximum(total - known, 0.0)
        parts = tests.summed(xlogy(masses, masses)) + xlogy(missing, missing)
        information = (xlogy(total, total) - parts) / total
        worthy = tests.worthy(masses, nodes)
        with np.errstate(divide="ignore", invalid="ignore"):
            ratios = np.where(information > 0, gains / information, 0.0)
        mean = np.where(worthy, gains, 0.0).sum(axis=1) / np.maximum(worthy.sum(axis=1), 1)
        worthy &= (gains > 1e-12) & (gains >= mean[:, None] - 1e-12)
        best = np.where(worthy, ratios, -np.inf).argmax(axis=1)
        return [int(test) if worthy[node, test] else None for node, test in enumerate(best)]


@dataclass(frozen=True)
class Utility:
    """Kohavi's: the accuracy of naive Bayes in the branches, by cross-validation; a split must save 5 % of the errors."""

    prior: float = 2.0

    def best(self, view: View, nodes: Sequence[Grown], tests: Tests) -> list[int | None]:
        """Return the test of each node with the fewest errors."""
        return [self._best(view, node, tests) for node in nodes]

    def _best(self, view: View, node: Grown, tests: Tests) -> int | None:
        rng = np.random.default_rng(0)
        folds = rng.permutation(len(node.rows)) % FOLDS
        whole = self._errors(view, node, np.zeros(len(node.rows), dtype=np.intp), 1, folds, None)
        least, best = whole * (1 - LEAST_GAIN), None
        for test, count, branches in _branchings(node, tests):
            multiway = int(tests.columns[test]) if tests.cuts[test] < 0 else None
            errors = self._errors(view, node, np.where(branches < 0, count, branches), count + 1, folds, multiway)
            if errors < least:
                least, best = errors, test
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

    def best(self, view: View, nodes: Sequence[Grown], tests: Tests) -> list[int | None]:
        """Return the test of the least variance of each node."""
        return [self._best(view, node, tests) for node in nodes]

    def _best(self, view: View, node: Grown, tests: Tests) -> int | None:
        target = view.target[node.rows]
        weights = node.weights
        center = np.average(target, weights=weights)
        whole = float(weights @ (target - center) ** 2)
        least, best = whole * (1 - LEAST_GAIN), None
        for test, count, branches in _branchings(node, tests):
            known = branches >= 0
            sums = [
                np.bincount(branches[known], weights[known] * (target[known] - center) ** power, count)
                for power in range(3)
            ]
            mass = np.maximum(sums[0], 1e-300)
            inside = float((sums[2] - sums[1] ** 2 / mass).sum())
            rest = float(weights[~known] @ (target[~known] - center) ** 2)
            if inside + rest < least:
                least, best = inside + rest, test
        return best


def _branchings(node: Grown, tests: Tests) -> Iterator[tuple[int, int, NDArray[np.intp]]]:
    """Yield the worthy tests of a node with their number of branches, and the branch of each row, -1 where the cell is missing."""
    masses = tests.branches(node.counts.sum(axis=0))[None]
    for test in np.flatnonzero(tests.worthy(masses, [node])[0]).tolist():
        count = int(tests.starts[test + 1] - tests.starts[test])
        yield test, count, tests.routed(np.full(len(node.rows), test), node.rows)
