"""Kernels about the rows of a mixture, in the place of one density for each component."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hybridbn.fitting.kernel_bandwidths import effective_size
from hybridbn.variables import Values

__all__ = ["Cells", "RowKernels", "fit_kernels", "score_kernels"]

STEPS = 30
"""The covariance is found in at most so many steps."""
STEADY = 1e-3
"""They end when the mean log density of a row that is left out grows by less."""
MOST_LEFT_OUT = 500
"""So many rows are left out at most."""
PRIOR_VARIANCE = 0.01
"""That of each number, relative to the column's, in the prior of the covariance, which has the weight of one row."""
FIRST_SHARE = 0.9
"""The share of the kernels in the first step."""
FIRST_SMOOTHING = 0.3
"""The smoothing of categories in the first step."""
PAIRS = 1 << 21
"""The densities of so many pairs of rows are computed at a time."""


class Cells(NamedTuple):
    """Standardized numbers (rows, numbers) and codes of states (rows, categories)."""

    numbers: Values
    codes: NDArray[np.intp]

    def take(self, rows: Any) -> Cells:
        """Return some of the rows."""
        return Cells(self.numbers[rows], self.codes[rows])


@dataclass(frozen=True)
class RowKernels:
    r"""Kernels about rows, all with the same parameters, which share a density with the components.

    .. math:: f(x) = \frac{s}{\sum_i w_i} \sum_i w_i N(x;\; x_i, H) \prod_c ((1 - \lambda_c) [x_c = x_{ic}] +
        \lambda_c P(x_c)) + (1 - s) \sum_k P(k) f(x \mid k)

    A row that is far from all others has a density of the components then.

    Attributes
    ----------
    centers : Cells
    weights : ndarray (kernels,), positive
    shares : tuple of ndarray (states,)
        Those of the states of each category, P.
    covariance : ndarray (numbers, numbers)
    smoothing : ndarray (categories,)
    share : float
    """

    centers: Cells
    weights: Values
    shares: tuple[Values, ...]
    covariance: Values
    smoothing: Values
    share: float

    @property
    def tables(self) -> list[Values]:
        """The probabilities of the states of each category, given that of the row (states, states)."""
        pairs = zip(self.smoothing.tolist(), self.shares, strict=True)
        return [(1 - smoothing) * np.eye(len(shares)) + smoothing * shares for smoothing, shares in pairs]

    def log_densities(self, cells: Cells, components: Values) -> Values:
        """Return the log density of each row (rows,), given that under the components.

        Examples
        --------
        >>> center = Cells(np.zeros((1, 2)), np.zeros((1, 0), dtype=int))
        >>> kernels = RowKernels(center, np.ones(1), (), 4 * np.eye(2), np.empty(0), 0.75)
        >>> row = Cells(np.array([[0.0, 2.0]]), np.zeros((1, 0), dtype=int))
        >>> kernels.log_densities(row, np.array([-np.inf])).round(3) - np.log(0.75).round(3)
        array([-3.724])
        """
        rows, size = len(cells.numbers), max(1, PAIRS // len(self.weights))
        parts = [_add_logs(self._weigh(cells.take(slice(start, start + size)))) for start in range(0, rows, size)]
        logs = np.concatenate([np.empty(0), *parts]) - math.log(self.weights.sum())
        return np.logaddexp(math.log(self.share) + logs, math.log1p(-self.share) + components)

    def leave_out(self, rows: NDArray[np.intp], components: Values) -> tuple[Values, Values]:
        """Return the log density of each of some centers, its kernel left out, and the probabilities of the others."""
        logs = self._weigh(self.centers.take(rows))
        logs[np.arange(len(rows)), rows] = -np.inf
        logs += (math.log(self.share) - np.log(self.weights.sum() - self.weights[rows]))[:, None]
        totals = np.logaddexp(_add_logs(logs), math.log1p(-self.share) + components)
        logs -= totals[:, None]
        return totals, np.exp(logs, out=logs)

    def _weigh(self, cells: Cells) -> Values:
        """Return the logs of the weighted kernels at each row (rows, kernels)."""
        variances, directions = np.linalg.eigh(self.covariance)
        turned = directions / np.sqrt(variances)
        whitened, centers = cells.numbers @ turned, self.centers.numbers @ turned
        logs: Values = whitened @ centers.T
        logs -= 0.5 * (whitened**2).sum(axis=1)[:, None]
        logs += np.log(self.weights) - 0.5 * (centers**2).sum(axis=1)
        logs -= 0.5 * (np.log(variances).sum() + len(variances) * math.log(2 * math.pi))
        for table, own, others in zip(self.tables, cells.codes.T, self.centers.codes.T, strict=True):
            logs += np.log(table)[:, own].T[:, others]
        return logs


def fit_kernels(centers: Cells, weights: Values, shares: tuple[Values, ...], components: Values) -> RowKernels:
    r"""Return kernels with the parameters under which rows are most likely that are left out.

    Steps of EM, in which a row comes from the kernel about another one, with the probability r, or from the components:

    .. math:: H \leftarrow \sum_i \sum_{j \ne i} r_{ij} (x_i - x_j)(x_i - x_j)' / \sum_i \sum_{j \ne i} r_{ij}

    A prior draws it towards its diagonal, with the weight of as many rows as there are numbers.

    Parameters
    ----------
    centers : Cells
    weights : ndarray (rows,)
    shares : tuple of ndarray (states,)
        Those of the states of each category.
    components : ndarray (rows,)
        The log densities under the components.

    References
    ----------
    Leiva-Murillo & Artés-Rodríguez (2012), "Algorithms for maximum-likelihood bandwidth selection in kernel density
    estimators", Pattern Recognition Letters 33.

    Examples
    --------
    >>> rows = Cells(np.random.default_rng(0).normal(size=(400, 1)), np.zeros((400, 0), dtype=int))
    >>> fit_kernels(rows, np.ones(400), (), np.full(400, -np.inf)).covariance.round(1)
    array([[0.1]])
    """
    rows, numbers = centers.numbers.shape
    size = effective_size(weights)
    covariance = np.cov(centers.numbers.T, aweights=weights, ddof=0).reshape(numbers, numbers)
    covariance = size ** (-2 / (numbers + 4)) * covariance + PRIOR_VARIANCE / size * np.eye(numbers)
    smoothing = np.full(len(shares), FIRST_SMOOTHING)
    kernels = RowKernels(centers, weights, shares, covariance, smoothing, FIRST_SHARE)
    left_out = np.linspace(0, rows - 1, min(rows, MOST_LEFT_OUT)).astype(np.intp)
    mass = weights[left_out] * (size / weights[left_out].sum())
    best, before = kernels, -math.inf
    for _ in range(STEPS):
        logs, near = kernels.leave_out(left_out, components[left_out])
        mean = float(mass @ logs) / size
        if not mean - before > STEADY:
            break
        best, before = kernels, mean
        near *= mass[:, None]
        total = float(near.sum())
        squares = _sum_squares(centers.numbers[left_out], centers.numbers, near)
        squares += np.diag(numbers * squares.diagonal() / max(total, 1.0) + PRIOR_VARIANCE)
        # one row from the kernels, and one from the components, keep both possible; so do two for categories
        kernels = replace(
            kernels,
            covariance=squares / (total + numbers + 1),
            smoothing=np.array([(total - same + 1) / (total + 2) for same in _sum_same(kernels, left_out, near)]),
            share=(total + 1) / (size + 2),
        )
    return best


def _sum_squares(rows: Values, centers: Values, shares: Values) -> Values:
    """Return the sum of the products of what rows are away from centers, weighted (numbers, numbers)."""
    across = rows.T @ (shares @ centers)
    squares = (rows.T * shares.sum(axis=1)) @ rows + (centers.T * shares.sum(axis=0)) @ centers
    return np.asarray(squares - across - across.T)


def _sum_same(kernels: RowKernels, rows: NDArray[np.intp], shares: Values) -> Iterator[float]:
    """Yield for each category the expected weight of rows that have the state of a kernel's row because of it."""
    for codes, smoothing, states in zip(kernels.centers.codes.T, kernels.smoothing, kernels.shares, strict=True):
        indicators = np.eye(len(states))[codes]
        same = (shares @ indicators)[np.arange(len(rows)), codes[rows]]
        yield float(same @ ((1 - smoothing) / (1 - smoothing + smoothing * states[codes[rows]])))


def score_kernels(
    cells: Cells,
    weights: Values,
    shares: tuple[Values, ...],
    parts: NDArray[np.intp],
    components: Sequence[Values],
    others: Values,
) -> Values | None:
    """Return the log density of each row under kernels about the rows of the other parts (rows,); None if the first
    part has greater ones without kernels.

    Parameters
    ----------
    components : sequence of ndarray (rows,)
        The log densities under the components that were fitted to the rows of the other parts, for each part.
    others : ndarray (rows,)
        Those without kernels.
    """
    result = np.zeros(len(weights))
    for part, logs in enumerate(components):
        test, about = parts == part, (parts != part) & (weights > 0)
        kernels = fit_kernels(cells.take(about), weights[about], shares, logs[about])
        result[test] = kernels.log_densities(cells.take(test), logs[test])
        if part == 0 and not weights[test] @ (result[test] - others[test]) > 0:
            return None
    return result


def _add_logs(logs: Values) -> Values:
    """Return the log of the sum of each row."""
    top = logs.max(axis=1)
    return np.asarray(top + np.log(np.exp(logs - top[:, None]).sum(axis=1)))
