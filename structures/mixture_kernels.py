"""Kernels about the rows of a mixture, in the place of one normal density for each component."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hybridbn.fitting.kernel_bandwidths import effective_size
from hybridbn.variables import Values

__all__ = ["RowKernels", "fit_kernels", "score_kernels"]

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
PAIRS = 1 << 21
"""The densities of so many pairs of rows are computed at a time."""


@dataclass(frozen=True)
class RowKernels:
    r"""Normal kernels about standardized rows, all with the same covariance, which share a density with the components.

    .. math:: f(x) = s \sum_i w_i N(x;\; x_i, H) / \sum_i w_i + (1 - s) \sum_k P(k) f(x \mid k)

    A row that is far from all others has a density of the components then.

    Attributes
    ----------
    centers : ndarray (kernels, numbers)
    weights : ndarray (kernels,), positive
    covariance : ndarray (numbers, numbers)
    share : float
    """

    centers: Values
    weights: Values
    covariance: Values
    share: float

    def log_densities(self, values: Values, components: Values) -> Values:
        """Return the log density of each row (rows,), given that under the components.

        Examples
        --------
        >>> kernels = RowKernels(np.zeros((1, 2)), np.ones(1), 4 * np.eye(2), 0.75)
        >>> kernels.log_densities(np.array([[0.0, 2.0]]), np.array([-np.inf])).round(3) - np.log(0.75).round(3)
        array([-3.724])
        """
        size = max(1, PAIRS // len(self.centers))
        parts = [_add_logs(self._weigh(values[start : start + size])) for start in range(0, len(values), size)]
        logs = np.concatenate([np.empty(0), *parts]) - math.log(self.weights.sum())
        return np.logaddexp(math.log(self.share) + logs, math.log1p(-self.share) + components)

    def leave_out(self, rows: NDArray[np.intp], components: Values) -> tuple[Values, Values]:
        """Return the log density of each of some centers, its kernel left out, and the probabilities of the others."""
        logs = self._weigh(self.centers[rows])
        logs[np.arange(len(rows)), rows] = -np.inf
        logs += (math.log(self.share) - np.log(self.weights.sum() - self.weights[rows]))[:, None]
        totals = np.logaddexp(_add_logs(logs), math.log1p(-self.share) + components)
        logs -= totals[:, None]
        return totals, np.exp(logs, out=logs)

    def _weigh(self, values: Values) -> Values:
        """Return the logs of the weighted kernels at each row (rows, kernels)."""
        variances, directions = np.linalg.eigh(self.covariance)
        whitened, centers = (numbers @ (directions / np.sqrt(variances)) for numbers in (values, self.centers))
        logs: Values = whitened @ centers.T
        logs -= 0.5 * (whitened**2).sum(axis=1)[:, None]
        logs += np.log(self.weights) - 0.5 * (centers**2).sum(axis=1)
        logs -= 0.5 * (np.log(variances).sum() + len(variances) * math.log(2 * math.pi))
        return logs


def fit_kernels(centers: Values, weights: Values, components: Values) -> RowKernels:
    r"""Return kernels with the covariance and the share under which rows are most likely that are left out.

    Steps of EM, in which a row comes from the kernel about another one, with the probability r, or from the components:

    .. math:: H \leftarrow \sum_i \sum_{j \ne i} r_{ij} (x_i - x_j)(x_i - x_j)' / \sum_i \sum_{j \ne i} r_{ij}

    A prior draws it towards its diagonal, with the weight of as many rows as there are numbers.

    Parameters
    ----------
    centers : ndarray (rows, numbers)
    weights : ndarray (rows,)
    components : ndarray (rows,)
        The log densities under the components.

    References
    ----------
    Leiva-Murillo & Artés-Rodríguez (2012), "Algorithms for maximum-likelihood bandwidth selection in kernel density
    estimators", Pattern Recognition Letters 33.

    Examples
    --------
    >>> x = np.random.default_rng(0).normal(size=(400, 1))
    >>> fit_kernels(x, np.ones(400), np.full(400, -np.inf)).covariance.round(1)
    array([[0.1]])
    """
    rows, numbers = centers.shape
    size = effective_size(weights)
    covariance = np.cov(centers.T, aweights=weights, ddof=0).reshape(numbers, numbers)
    covariance = size ** (-2 / (numbers + 4)) * covariance + PRIOR_VARIANCE / size * np.eye(numbers)
    kernels = RowKernels(centers, weights, covariance, FIRST_SHARE)
    left_out = np.linspace(0, rows - 1, min(rows, MOST_LEFT_OUT)).astype(np.intp)
    own, mass = centers[left_out], weights[left_out] * (size / weights[left_out].sum())
    best, before = kernels, -math.inf
    for _ in range(STEPS):
        logs, shares = kernels.leave_out(left_out, components[left_out])
        mean = float(mass @ logs) / size
        if not mean - before > STEADY:
            break
        best, before = kernels, mean
        shares *= mass[:, None]
        near, about = shares.sum(axis=1), shares.sum(axis=0)
        across = own.T @ (shares @ centers)
        squares = (own.T * near) @ own + (centers.T * about) @ centers - across - across.T
        squares += np.diag(numbers * squares.diagonal() / max(near.sum(), 1.0) + PRIOR_VARIANCE)
        covariance = squares / (near.sum() + numbers + 1)
        # one row from the kernels, and one from the components, keep both possible
        kernels = RowKernels(centers, weights, covariance, float((near.sum() + 1) / (size + 2)))
    return best


def score_kernels(
    values: Values, weights: Values, parts: NDArray[np.intp], components: Sequence[Values], others: Values
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
    result = np.zeros(len(values))
    for part, logs in enumerate(components):
        test, about = parts == part, (parts != part) & (weights > 0)
        kernels = fit_kernels(values[about], weights[about], logs[about])
        result[test] = kernels.log_densities(values[test], logs[test])
        if part == 0 and not weights[test] @ (result[test] - others[test]) > 0:
            return None
    return result


def _add_logs(logs: Values) -> Values:
    """Return the log of the sum of each row."""
    top = logs.max(axis=1)
    return np.asarray(top + np.log(np.exp(logs - top[:, None]).sum(axis=1)))
