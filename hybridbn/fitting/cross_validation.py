"""Cross-validation: rows are dealt to folds, held-out rows are scored, and their losses compared."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hybridbn.errors import HybridBNError
from hybridbn.tables.rows import hash_numbers
from hybridbn.variables import Codes, Values, Variable, find_observed

if TYPE_CHECKING:
    from hybridbn.fitting.base import Fitter
    from hybridbn.potentials.base import Potential
    from hybridbn.tables import Table

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
    shares = weights[known] / weights[known].sum()
    mean = float(shares @ gains[known])
    return mean > errors * float(np.sqrt(shares**2 @ (gains[known] - mean) ** 2))


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
