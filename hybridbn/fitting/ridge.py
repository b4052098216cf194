"""Ridge regressions: the penalty by leaving rows out, and many small ones at once from their moments."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hybridbn.variables import Values

__all__ = ["Ridge", "moments_of", "shrunk", "sparse_ridge"]

PENALTIES = 10.0 ** np.arange(-3, 5.25, 0.5)
MOST_STEPS = 6
"""Of sparse regressions, each of which punishes small coefficients more than the one before."""
CLEAR = 2.0
"""By so many standard errors a sparser regression must lower the loss: with few rows smaller differences are luck."""
LEAST_SHARE = 1e-3
LEAST_LEFT = 1e-3
"""A row that determines its own prediction counts as if so much of it were left to the others."""


class Ridge(NamedTuple):
    """A ridge regression on centered columns.

    Attributes
    ----------
    intercept : float
        The weighted mean of the target, that is the prediction where all columns are at their means.
    slopes : ndarray (columns,)
    penalties : ndarray (columns,)
        What each slope's square was multiplied by.
    residuals : ndarray (rows,)
        Of each row when it was left out.
    """

    intercept: float
    slopes: Values
    penalties: Values
    residuals: Values


def sparse_ridge(columns: Values, target: Values, weights: Values, groups: NDArray[np.intp]) -> Ridge:
    r"""Return a ridge regression whose penalty leaves rows out best, sparser where that is clearly better.

    .. math:: \sum_i w_i (y_i - a - x_i b)^2 + \lambda \sum_j p_j b_j^2

    First all p are one. Then, as long as the loss falls by more than twice its standard error, p is the inverse of the groups' mean squares of what
    their columns contributed before (adaptive ridge: small coefficients are drawn towards zero, large ones are left alone).

    Parameters
    ----------
    columns : ndarray (rows, columns), in comparable units
    target, weights : ndarray (rows,)
    groups : ndarray (columns,)
        Which columns belong together: the states of a category.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=(60, 4))
    >>> found = sparse_ridge(x, 3 * x[:, 0] + 0.1 * rng.normal(size=60), np.ones(60), np.arange(4))
    >>> np.abs(found.slopes).round(1)
    array([3., 0., 0., 0.])
    """
    total = weights.sum()
    spread = weights @ (columns - weights @ columns / total) ** 2 / total
    members = np.bincount(groups)
    penalties = np.ones(columns.shape[1])
    best = _penalized(columns, target, weights, penalties)
    for _ in range(MOST_STEPS if columns.shape[1] else 0):
        contributed = np.bincount(groups, best.slopes**2 * spread) / members
        if not contributed.max() > 0:
            break
        penalties = 1 / (contributed + LEAST_SHARE * contributed.max())[groups]
        penalties /= np.exp(np.log(penalties).mean())
        found = _penalized(columns, target, weights, penalties)
        if not _clearly_better(best.residuals**2 - found.residuals**2, weights / total):
            break
        best = found
    return best


def _clearly_better(differences: Values, shares: Values) -> bool:
    mean = float(shares @ differences)
    return mean > CLEAR * float(np.sqrt(shares**2 @ (differences - mean) ** 2))


def _penalized(columns: Values, target: Values, weights: Values, shape: Values) -> Ridge:
    """Return the regression with the multiple of these penalties that has the least loss on rows left out."""
    total = float(weights.sum())
    intercept = float(weights @ target / total)
    roots = np.sqrt(weights)
    scaled = (columns - weights @ columns / total) / np.sqrt(shape) * roots[:, None]
    left, values, right = np.linalg.svd(scaled, full_matrices=False)
    wanted = (target - intercept) * roots
    along = left.T @ wanted
    best: Ridge | None = None
    least = np.inf
    for penalty in PENALTIES * max(float(values[:1].sum()) ** 2, 1e-300) / max(len(target), 1):
        kept = values**2 / (values**2 + penalty)
        own = left**2 @ kept + weights / total
        residuals = (wanted - left @ (kept * along)) / np.maximum(1 - own, LEAST_LEFT)
        loss = float(residuals @ residuals)
        if loss < least or best is None:
            slopes = right.T @ (kept / np.where(values > 0, values, 1.0) * along) / np.sqrt(shape)
            least, best = loss, Ridge(intercept, slopes, penalty * shape, residuals / roots)
    assert best is not None
    return best


def moments_of(columns: Values, weights: Values) -> Values:
    """Return the weighted sums of products of columns."""
    return np.asarray((columns * weights[:, None]).T @ columns)


def shrunk(moments: Values, start: Values, ridge: Values, rows: float) -> tuple[Values, Values, Values]:
    r"""Return regressions that are drawn towards another one, from moments of (1, columns, target).

    .. math:: \sum_i w_i (y_i - a - x_i b)^2 + \sum_j r_j (b_j - b^0_j)^2 + k (\hat y(\bar x) - \hat y^0(\bar x))^2

    Parameters
    ----------
    moments : ndarray (..., columns + 2, columns + 2)
    start : ndarray (columns + 1,)
        Intercept and slopes of the other regression.
    ridge : ndarray (columns,)
    rows : float
        As if so many rows in the middle of the others spoke for the other regression (k).

    Returns
    -------
    coefficients : ndarray (..., columns + 1)
    residual : ndarray (...)
        Sums of squares.
    objective : ndarray (...)
        The residual sum of squares and the penalties.

    Examples
    --------
    >>> x, y = np.array([0.0, 1.0, 2.0]), np.array([1.0, 3.0, 5.0])
    >>> moments = moments_of(np.column_stack((np.ones(3), x, y)), np.ones(3))
    >>> shrunk(moments, np.zeros(2), np.array([0.0]), 0.0)[0]
    array([1., 2.])
    >>> shrunk(moments, np.zeros(2), np.array([2.0]), 1.0)[0]
    array([1.25, 1.  ])
    """
    mass = moments[..., 0, 0]
    center, mean = moments[..., 0, 1:-1] / mass[..., None], moments[..., 0, -1] / mass
    within = moments[..., 1:-1, 1:-1] - mass[..., None, None] * center[..., :, None] * center[..., None, :]
    across = moments[..., 1:-1, -1] - mass[..., None] * center * mean[..., None]
    own = moments[..., -1, -1] - mass * mean**2
    gradient = across - within @ start[1:]
    # the smallest number of the diagonal keeps columns that are constant here solvable
    stiff = within + (ridge + 1e-9 * (1 + mass[..., None]))[..., :, None] * np.eye(within.shape[-1])
    change = np.linalg.solve(stiff, gradient[..., None])[..., 0] if within.shape[-1] else gradient
    slopes = start[1:] + change
    residual = own - 2 * (slopes * across).sum(axis=-1) + np.einsum("...i,...ij,...j", slopes, within, slopes)
    before = start[0] + center @ start[1:]
    level = (mass * mean + rows * before) / (mass + rows)
    residual = np.maximum(residual + mass * (mean - level) ** 2, 0.0)
    objective = residual + (ridge * change**2).sum(axis=-1) + rows * (level - before) ** 2
    coefficients = np.concatenate(((level - (center * slopes).sum(axis=-1))[..., None], slopes), axis=-1)
    return coefficients, residual, objective
