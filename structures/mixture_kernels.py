"""Kernels about the rows of a mixture, in the place of one normal density for each component."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hybridbn.fitting.kernel_bandwidths import effective_size
from hybridbn.structures.mixture_covariance import NormalParameters
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
PAIRS = 1 << 21
"""The densities of so many pairs of rows are computed at a time."""


@dataclass(frozen=True)
class RowKernels:
    r"""Normal kernels about standardized rows, all with the same covariance.

    .. math:: f(x) = \sum_i w_i N(x;\; x_i, H) / \sum_i w_i

    Attributes
    ----------
    centers : ndarray (kernels, numbers)
    weights : ndarray (kernels,), positive
    covariance : ndarray (numbers, numbers)
    """

    centers: Values
    weights: Values
    covariance: Values

    def log_densities(self, values: Values) -> Values:
        """Return the log density of each row (rows,).

        Examples
        --------
        >>> kernels = RowKernels(np.zeros((1, 2)), np.ones(1), 4 * np.eye(2))
        >>> kernels.log_densities(np.array([[0.0, 2.0]])).round(3)
        array([-3.724])
        """
        size = max(1, PAIRS // len(self.centers))
        parts = [_add_logs(self._weigh(values[start : start + size])) for start in range(0, len(values), size)]
        return np.concatenate([np.empty(0), *parts]) - math.log(self.weights.sum())

    def leave_out(self, rows: NDArray[np.intp]) -> tuple[Values, Values]:
        """Return the log densities of some centers, each in turn left out, and the shares of the kernels in them."""
        logs = self._weigh(self.centers[rows])
        logs[np.arange(len(rows)), rows] = -np.inf
        totals = _add_logs(logs)
        logs -= totals[:, None]
        return totals - np.log(self.weights.sum() - self.weights[rows]), np.exp(logs, out=logs)

    def _weigh(self, values: Values) -> Values:
        """Return the logs of the weighted kernels at each row (rows, kernels)."""
        variances, directions = np.linalg.eigh(self.covariance)
        whitened, centers = (numbers @ (directions / np.sqrt(variances)) for numbers in (values, self.centers))
        logs: Values = whitened @ centers.T
        logs -= 0.5 * (whitened**2).sum(axis=1)[:, None]
        logs += np.log(self.weights) - 0.5 * (centers**2).sum(axis=1)
        logs -= 0.5 * (np.log(variances).sum() + len(variances) * math.log(2 * math.pi))
        return logs

    @property
    def normal(self) -> NormalParameters:
        """The kernels as the components of one fit."""
        size = len(self.centers), 1, *self.covariance.shape
        return NormalParameters(self.centers[:, None], np.broadcast_to(self.covariance, size))


def fit_kernels(centers: Values, weights: Values) -> RowKernels:
    r"""Return kernels with the covariance under which rows are most likely that are left out.

    Steps of EM, in which a row comes from the kernel about another one:

    .. math:: H \leftarrow \sum_i \sum_{j \ne i} r_{ij} (x_i - x_j)(x_i - x_j)' / n

    A prior draws it towards its diagonal, with the weight of as many rows as there are numbers.

    References
    ----------
    Leiva-Murillo & Artés-Rodríguez (2012), "Algorithms for maximum-likelihood bandwidth selection in kernel density
    estimators", Pattern Recognition Letters 33.

    Examples
    --------
    >>> x = np.random.default_rng(0).normal(size=(400, 1))
    >>> fit_kernels(x, np.ones(400)).covariance.round(1)
    array([[0.1]])
    """
    rows, numbers = centers.shape
    size = effective_size(weights)
    covariance = np.cov(centers.T, aweights=weights, ddof=0).reshape(numbers, numbers)
    covariance = size ** (-2 / (numbers + 4)) * covariance + PRIOR_VARIANCE / size * np.eye(numbers)
    kernels = RowKernels(centers, weights, covariance)
    left_out = np.linspace(0, rows - 1, min(rows, MOST_LEFT_OUT)).astype(np.intp)
    own, mass = centers[left_out], weights[left_out]
    best, before = kernels, -math.inf
    for _ in range(STEPS):
        logs, shares = kernels.leave_out(left_out)
        mean = float(mass @ logs) / mass.sum()
        if not mean - before > STEADY:
            break
        best, before = kernels, mean
        shares *= mass[:, None]
        across = own.T @ (shares @ centers)
        squares = (own.T * mass) @ own + (centers.T * shares.sum(axis=0)) @ centers - across - across.T
        squares *= size / mass.sum()
        variances = squares.diagonal() / size
        squares += np.diag(numbers * variances + PRIOR_VARIANCE)
        kernels = RowKernels(centers, weights, squares / (size + numbers + 1))
    return best


def score_kernels(values: Values, weights: Values, parts: NDArray[np.intp], others: Values) -> Values | None:
    """Return the log density of each row under kernels about the rows of the other parts (rows,); None if the first
    part has greater ones without kernels.
    """
    result = np.zeros(len(values))
    for part in range(int(parts.max()) + 1):
        test, about = parts == part, (parts != part) & (weights > 0)
        result[test] = fit_kernels(values[about], weights[about]).log_densities(values[test])
        if part == 0 and not weights[test] @ (result[test] - others[test]) > 0:
            return None
    return result


def _add_logs(logs: Values) -> Values:
    """Return the log of the sum of each row."""
    top = logs.max(axis=1)
    return np.asarray(top + np.log(np.exp(logs - top[:, None]).sum(axis=1)))
