"""Cross-validation: rows are dealt to folds, held-out rows are scored, and their losses compared."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hybridbn.errors import HybridBNError
from hybridbn.potentials.base import Potential
from hybridbn.tables import Table
from hybridbn.tables.rows import hash_numbers
from hybridbn.variables import Codes, Values, Variable, find_observed

if TYPE_CHECKING:
    from hybridbn.fitting.base import Fitter

CLEAR = 2.0
"""A difference of losses is clear if it is more than this many standard errors."""
BATCH = 65536
"""Densities are evaluated at this many rows at a time, which bounds the memory."""
MOST_SPAN = 2**40
"""Digits of a hash that choose among the orders of many folds start at this one at most."""


def deal_folds(rows: int, folds: int, rng: np.random.Generator, strata: NDArray[np.generic] | None = None) -> Codes:
    """Deal rows to folds at random, no more folds than there are rows.

    Parameters
    ----------
    rows, folds : int
    rng : Generator
    strata : ndarray (rows,), optional
        Classes or numbers: rows of each class, or of each part of the range, are spread over all folds.

    Examples
    --------
    >>> classes = np.array([0, 0, 0, 1, 1, 1])
    >>> np.bincount(2 * deal_folds(6, 3, np.random.default_rng(0), classes) + classes)
    array([1, 1, 1, 1, 1, 1])
    """
    folds = min(folds, max(rows, 1))
    if strata is None:
        return np.asarray(rng.permutation(rows) % folds)
    shuffled = rng.permuted(np.tile(np.arange(folds), (-(-rows // folds), 1)), axis=1).ravel()[:rows]
    parts = np.empty(rows, dtype=np.intp)
    parts[np.argsort(strata, kind="stable")] = shuffled
    # with very few rows the last block may leave a fold empty
    return np.asarray(np.unique(parts, return_inverse=True)[1])


_ROUNDS = 2
"""The first hash of a row tells its weight only; in each round hashes come to tell what rows, columns and states are
like.
"""
_MOST_DRAWN = 1e15
"""Bootstrap samples of greater weight are drawn as of this."""
_WHOLE = 1e-9
"""Less than this of a row is a rounding error."""


@dataclass(frozen=True)
class DistinctRows:
    """The different rows of a table, with the weights of all that are equal.

    The hashes tell the cells and the weights, and nothing of the order of rows or columns, of the columns' names and
    units, or of what states are called.

    Attributes
    ----------
    rows : ndarray (distinct,)
        The number of the first of equal rows.
    weights : ndarray (distinct,)
    groups : ndarray (rows,)
        Which of the distinct rows each row of the table is; -1 of rows that don't count.
    hashes : ndarray (distinct,)
    columns : tuple of str
        In the order of hashes of what is in them.
    """

    rows: Codes
    weights: Values
    groups: Codes
    hashes: NDArray[np.uint64]
    columns: tuple[str, ...]

    def take(self, table: Table) -> Table:
        """Return them as rows of a table of their weights."""
        return table.take(self.rows).with_weights(self.weights)


def collapse_rows(table: Table) -> DistinctRows:
    """Return the different rows of a table, in the order of their hashes; rows of no weight are left out.

    Examples
    --------
    >>> import hybridbn as hb
    >>> distinct = collapse_rows(hb.Table({"a": ["x", "y", "x", "z"]}, weights=[1, 2, 1, 0]))
    >>> distinct.weights.tolist(), distinct.groups[3]
    ([2.0, 2.0], np.int64(-1))
    """
    counted, groups = np.flatnonzero(table.weights > 0), np.full(len(table), -1)
    columns = {name: np.unique(table.column(name)[counted], return_inverse=True)[1] for name in sorted(table.names)}
    keys = np.zeros(len(counted), dtype=np.uint64)
    for codes in columns.values():
        keys = hash_numbers(keys + codes.astype(np.uint64))
    _, first, groups[counted] = np.unique(keys, return_index=True, return_inverse=True)
    weights = np.bincount(groups[counted], table.weights[counted], len(first)).astype(np.float64)
    hashes = hash_numbers(weights.astype(np.float32).view(np.uint32).astype(np.uint64))
    salts: dict[str, int] = {}
    for _ in range(_ROUNDS):
        rows = np.zeros(len(first), dtype=np.uint64)
        for name, codes in columns.items():
            own = codes[first]
            if not own.any():
                # a constant tells nothing
                salts[name] = 0
                continue
            cells = _hash_states(own, hashes) if table.is_discrete(name) else hash_numbers(own.astype(np.uint64))
            salt = hash_numbers(hash_numbers(hashes + cells).sum(keepdims=True))
            salts[name] = int(salt[0])
            rows += hash_numbers(cells ^ salt)
        hashes = hash_numbers(hashes + rows)
    order = np.argsort(hashes, kind="stable")
    groups[counted] = np.argsort(order)[groups[counted]]
    columns_in_order = tuple(sorted(salts, key=salts.__getitem__))
    return DistinctRows(counted[first][order], weights[order], groups, hashes[order], columns_in_order)


def _hash_states(codes: Codes, hashes: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return for each row a hash of all rows that have its state, whatever that is called."""
    sums = np.zeros(int(codes.max(initial=-1)) + 1, dtype=np.uint64)
    np.add.at(sums, codes, hash_numbers(hashes))
    return hash_numbers(sums)[codes]


def draw_bootstrap(weights: Values, rng: np.random.Generator) -> Codes:
    """Return how often each of some rows is in a bootstrap sample, a row of weight w being w rows.

    As many are drawn as there are rows; where weights are less than one, at least as many as there are of these.

    Examples
    --------
    >>> draw_bootstrap(np.array([3.0, 1.0, 1.0]), np.random.default_rng(0)).sum()
    np.int64(5)
    """
    total = weights.sum()
    return rng.multinomial(int(np.clip(np.round(total), len(weights), _MOST_DRAWN)), weights / total)


@dataclass(frozen=True)
class DealtRows(DistinctRows):
    """The rows of a table, equal ones together, dealt to folds; parts of a row of some weight are in several folds.

    What is learned of them is the same for a row of weight two and for two equal rows, and in any order of the table.

    Attributes
    ----------
    rows, weights, hashes : ndarray (entries,)
        The number of a row of the table with the entry's cells, the entry's share of its weight, and its hash.
    groups, columns : as of `DistinctRows`
    parts : ndarray (entries,)
        The fold.
    distinct : ndarray (entries,)
        Which of the distinct rows it is.
    """

    parts: Codes
    distinct: Codes

    def average(self, told: Values) -> Values:
        """Return for each row of the table the mean of what is told of its entries; NaN for rows that don't count."""
        count = int(self.distinct.max(initial=-1)) + 1
        sums = np.zeros((count, *told.shape[1:]))
        np.add.at(sums, self.distinct, (told.T * self.weights).T)
        means = (sums.T / np.bincount(self.distinct, self.weights, count)).T
        # the last one is that of rows that don't count
        return np.append(means, np.full((1, *told.shape[1:]), np.nan), axis=0)[self.groups]


def deal_table(table: Table, folds: int, rng: np.random.Generator, strata: NDArray[Any] | None = None) -> DealtRows:
    """Deal the rows of a table to folds as if a row of weight w were w rows.

    Parameters
    ----------
    table : Table
    folds : int
    rng : Generator
        Salts the hashes in whose order rows are dealt.
    strata : ndarray (rows,), optional
        Classes or numbers: rows of each class, or of each part of the range, are spread over all folds.

    Notes
    -----
    Of a weight w each of k folds has the whole part of w / k. The rest is dealt in the order of a hash of the cells,
    within classes.

    Examples
    --------
    >>> import hybridbn as hb
    >>> dealt = deal_table(hb.Table({"a": ["x", "y", "x"]}, weights=[4, 1, 1]), 3, np.random.default_rng(0))
    >>> np.bincount(dealt.parts, dealt.weights), dealt.weights.sum()
    (array([2., 2., 2.]), np.float64(6.0))
    """
    collapsed = collapse_rows(table)
    order = np.argsort(hash_numbers(collapsed.hashes ^ np.uint64(rng.integers(2**63))), kind="stable")
    by_class = order
    if strata is not None:
        codes = np.unique(strata[collapsed.rows], return_inverse=True)[1]
        keys = codes if strata.dtype.kind == "f" else _hash_states(codes, collapsed.hashes)
        by_class = order[np.argsort(keys[order], kind="stable")]
    shares = np.empty((len(order), folds))
    shares[by_class] = _deal_weights(collapsed.weights[by_class], folds, rng)
    # in the order of the hashes, so that the first entries are a sample of all
    places, parts = np.nonzero(shares[order])
    distinct = order[places]
    weights = shares[distinct, parts]
    # of few rows some folds may have none
    parts = np.unique(parts, return_inverse=True)[1]
    return DealtRows(
        collapsed.rows[distinct],
        weights,
        collapsed.groups,
        collapsed.hashes[distinct],
        collapsed.columns,
        parts,
        distinct,
    )


def _deal_weights(weights: Values, folds: int, rng: np.random.Generator) -> Values:
    """Return how much of each row is in each fold (rows, folds)."""
    whole = np.floor((weights + _WHOLE) / folds)
    rest = np.maximum(weights - folds * whole, 0.0)
    units = np.maximum(np.ceil(rest - _WHOLE), whole == 0).astype(np.intp)
    rows = np.repeat(np.arange(len(weights)), units)
    before = np.arange(len(rows)) - np.repeat(np.cumsum(units) - units, units)
    amounts = np.minimum(rest[rows] - before, 1.0)
    dealt = rng.permuted(np.tile(np.arange(folds), (-(-len(rows) // folds), 1)), axis=1).ravel()[: len(rows)]
    shares = np.bincount(rows * folds + dealt, amounts, len(weights) * folds).reshape(-1, folds)
    return np.asarray(shares + whole[:, None])


def deal_numbered_rows(first: int, rows: int, folds: int, seed: int = 0) -> Codes:
    """Deal consecutive rows to folds by their numbers, the same in batches of any size.

    As many neighbors as there are folds are in one fold each. Their order is that of a hash's place among all orders.

    Examples
    --------
    >>> dealt = deal_numbered_rows(0, 9, 3)
    >>> np.bincount(dealt).tolist(), (deal_numbered_rows(4, 5, 3) == dealt[4:]).all()
    ([3, 3, 3], np.True_)
    """
    start = first // folds
    groups = np.arange(start, -(-(first + rows) // folds), dtype=np.uint64)
    left = np.arange(folds, 0, -1, dtype=np.uint64)
    spans = np.array([min(math.factorial(folds - 1 - place), MOST_SPAN) for place in range(folds)], dtype=np.uint64)
    # digits of a factorial number, each of which chooses one of the folds that are left
    order = (hash_numbers(groups ^ np.uint64(seed))[:, None] // spans % left).astype(np.int32)
    for place in reversed(range(folds - 1)):
        order[:, place + 1 :] += order[:, place + 1 :] >= order[:, place, None]
    return order.ravel()[first - folds * start :][:rows].astype(np.intp)


def split_folds(parts: Codes) -> Iterator[tuple[NDArray[np.intp], NDArray[np.intp]]]:
    """Yield for each fold the rows to learn from and those that are held out.

    Examples
    --------
    >>> [(training.tolist(), test.tolist()) for training, test in split_folds(np.array([0, 1, 0]))]
    [([1], [0, 2]), ([0, 2], [1])]
    """
    for part in range(int(parts.max(initial=-1)) + 1):
        yield np.flatnonzero(parts != part), np.flatnonzero(parts == part)


def is_clearly_less(first: ArrayLike, second: Values, weights: Values, errors: float = CLEAR) -> bool:
    """Return whether losses are less than others by more than some standard errors of the difference; NaN is left out.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> losses, weights = rng.normal(size=100), np.ones(100)
    >>> is_clearly_less(losses - rng.random(100), losses, weights), is_clearly_less(losses, losses, weights)
    (True, False)
    """
    gains = second - np.asarray(first)
    known = np.isfinite(gains)
    if not known.any() or not weights[known].sum() > 0:
        return False
    total = weights[known].sum()
    mean = float(weights[known] @ gains[known] / total)
    # a weight of two is two rows, each with an error of its own; less than one is a row that counts less
    squares = np.minimum(weights[known], weights[known] ** 2)
    return mean > errors * float(np.sqrt(squares @ (gains[known] - mean) ** 2) / total)


def evaluate_rows(
    potential: Potential, table: Table, rows: NDArray[np.intp] | slice = slice(None)
) -> tuple[Values, Values]:
    """Return the log density of those of some rows in which a family is observed, and their weights.

    Examples
    --------
    >>> import hybridbn as hb
    >>> table = hb.Table({"a": ["x", "y", None, "y"]})
    >>> values, weights = evaluate_rows(hb.fit([], table).potential("a"), table)
    >>> np.exp(values).round(2).tolist(), weights.tolist()
    ([0.4, 0.6, 0.6], [1.0, 1.0, 1.0])
    """
    columns = {variable.name: table.coded(variable)[rows] for variable in potential.variables}
    observed = np.all([find_observed(column) for column in columns.values()], axis=0)
    weights = table.weights[rows][observed]
    columns = {name: column[observed] for name, column in columns.items()}
    batches = [
        potential.log_on({name: column[None, start : start + BATCH] for name, column in columns.items()}).reshape(-1)
        for start in range(0, len(weights), BATCH)
    ]
    return np.concatenate([np.empty(0), *batches]), weights


def score_held_out(
    fitter: Fitter, folds: Sequence[tuple[Table, Table]], child: Variable, parents: tuple[Variable, ...]
) -> tuple[float, float]:
    """Return the log-likelihood of held-out rows, each under the potential of the other folds, and their weight.

    It is -inf where a fold lacks what the potential takes: a column may be constant in some of the rows.

    Parameters
    ----------
    fitter : Fitter
    folds : sequence of pairs of Table
        The rows to learn from, and those that are held out.
    child, parents : Variable, tuple of Variable
    """
    likelihood = weight = 0.0
    for training, test in folds:
        try:
            values, weights = evaluate_rows(fitter.fit(training, child, parents), test)
        except HybridBNError:
            return -math.inf, 1.0
        likelihood += float(weights @ values)
        weight += float(weights.sum())
    return likelihood, weight
