"""Ridge regressions: in closed form from moments, many at once, the penalty given or chosen by a criterion.

`Spectrum` takes normal equations apart into eigenvectors, where all penalties cost as much as one; a `PenaltyCriterion`
says which penalty is best. Where rows are to be left out exactly (`fit_sparse_ridge`), the rows themselves are
decomposed, as squaring them first would lose digits. Thousands of regressions with a penalty for each column
(`regress_towards`) are solved directly.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from hybridbn.fitting.cross_validation import is_clearly_less
from hybridbn.variables import Values

__all__ = [
    "GeneralizedCrossValidation",
    "MarginalLikelihood",
    "PenaltyCriterion",
    "Ridge",
    "Spectrum",
    "fit_sparse_ridge",
    "moments_of",
    "refit_ridge",
    "regress_directions",
    "regress_towards",
]

PENALTIES = 10.0 ** np.arange(-3, 5.25, 0.5)
MOST_STEPS = 6
"""Of sparse regressions, each of which punishes small coefficients more than the one before."""
_ROWS = 2048
"""Rows that are decomposed together, which bounds the memory."""
LEAST_SHARE = 1e-3
LEAST_LEFT = 1e-3
"""A row that determines its own prediction counts as if so much of it were left to the others."""
RANK = 1e-12
"""A direction of the columns with less than this share of their variance is not told apart from a constant."""
LEAST_RESIDUAL = 1e-9
"""Least residual sum of squares relative to the target's."""


class Spectrum(NamedTuple):
    """The normal equations of a regression, or of many, in the directions in which they come apart.

    Attributes
    ----------
    values : ndarray (..., columns)
        Eigenvalues of the products of the columns, not negative.
    vectors : ndarray (..., columns, columns)
        Their eigenvectors, side by side.
    along : ndarray (..., columns)
        The products of target and columns along the eigenvectors.
    """

    values: Values
    vectors: Values
    along: Values

    @classmethod
    def of(cls, within: Values, across: Values) -> Spectrum:
        """Decompose the products of centered columns (..., columns, columns), and of these with the target (...,
        columns).

        Examples
        --------
        >>> spectrum = Spectrum.of(np.diag([4.0, 1.0]), np.array([4.0, 1.0]))
        >>> spectrum.slopes(0.0), spectrum.slopes(1.0)
        (array([1., 1.]), array([0.8, 0.5]))
        """
        values, vectors = np.linalg.eigh(within)
        # many small products cost least in one loop, a single one as a product of matrices
        along = vectors.T @ across if within.ndim == 2 else np.einsum("...ji,...j->...i", vectors, across)
        return cls(np.maximum(values, 0.0), vectors, along)

    def slopes(self, penalty: float) -> Values:
        """Return the slopes at a penalty of the sum of their squares."""
        return np.asarray(self.vectors @ (self.along / (self.values + penalty)))

    def coefficients(self, penalty: float) -> float:
        """Return how many free coefficients the regression amounts to at a penalty: the trace of its hat matrix."""
        return float((self.values / (self.values + penalty)).sum())

    def best_penalty(self, own: float, penalties: Values, criterion: PenaltyCriterion) -> float:
        """Return the penalty of the least loss; `own` is the target's sum of squares."""
        return float(penalties[np.argmin(criterion.losses(self, own, penalties))])


class PenaltyCriterion(Protocol):
    """Judges the penalties of a ridge regression."""

    def losses(self, spectrum: Spectrum, own: float, penalties: Values) -> Values:
        """Return the loss of each penalty, up to what all have in common."""


@dataclass(frozen=True)
class GeneralizedCrossValidation:
    """The squared error over the square of what rows are left beside the coefficients (Golub, Heath & Wahba 1979).

    Attributes
    ----------
    rows : float
        The sum of their weights.
    """

    rows: float

    def losses(self, spectrum: Spectrum, own: float, penalties: Values) -> Values:
        """Return the loss of each penalty."""
        values, along = spectrum.values, spectrum.along
        damped = values + penalties[:, None]
        squares = own - (along**2 * (values + 2 * penalties[:, None]) / damped**2).sum(axis=1)
        free = 1 + (values / damped).sum(axis=1)
        return np.asarray(squares / np.maximum(self.rows - free, 1.0) ** 2)


@dataclass(frozen=True)
class MarginalLikelihood:
    """Less the log-likelihood of the target where slopes are normal around zero (MacKay 1992).

    Their variance is the residual variance over the penalty.

    Attributes
    ----------
    rows : float
        The sum of their weights.
    """

    rows: float

    def losses(self, spectrum: Spectrum, own: float, penalties: Values) -> Values:
        """Return the loss of each penalty."""
        damped = spectrum.values + penalties[:, None]
        rest = np.maximum(own - (spectrum.along**2 / damped).sum(axis=1), LEAST_RESIDUAL * own)
        return np.asarray(0.5 * self.rows * np.log(rest) + 0.5 * np.log(damped / penalties[:, None]).sum(axis=1))


def regress_directions(
    products: Values, weights: Values | float, start: Values, penalty: float
) -> tuple[Values, Values]:
    """Return regressions drawn towards another one, which they keep in directions that the rows say nothing about.

    Parameters
    ----------
    products : ndarray (regressions, 1 + columns, 1 + columns)
        Of centered values in comparable units, the target's first.
    weights : float or ndarray (regressions,)
        Of the rows of each.
    start : ndarray (columns,)
        Slopes of the other regression.
    penalty : float
        Of the squares of what slopes differ from these.

    Returns
    -------
    slopes : ndarray (regressions, columns)
    residual : ndarray (regressions,)
        Sums of squares.

    Examples
    --------
    >>> products = np.array([[[4.0, 2.0, 0.0], [2.0, 2.0, 0.0], [0.0, 0.0, 0.0]]])
    >>> regress_directions(products, 3.0, np.array([0.0, 5.0]), 0.0)
    (array([[1., 5.]]), array([2.]))
    """
    within, across, own = products[:, 1:, 1:], products[:, 1:, 0], products[:, 0, 0]
    spectrum = Spectrum.of(within, across - np.einsum("dij,j->di", within, start))
    values = spectrum.values
    told = values > RANK * np.reshape(np.maximum(values.max(axis=1, initial=0.0), weights), (-1, 1))
    inverse = np.where(told, 1 / np.where(told, values + penalty, 1.0), 0.0)
    slopes = start + np.einsum("dij,dj->di", spectrum.vectors, inverse * spectrum.along)
    explained = 2 * (slopes * across).sum(axis=1) - np.einsum("di,dij,dj->d", slopes, within, slopes)
    return slopes, np.maximum(own - explained, 0.0)


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


def fit_sparse_ridge(columns: Values, target: Values, weights: Values, groups: NDArray[np.intp]) -> Ridge:
    r"""Return a ridge regression whose penalty leaves rows out best, sparser where that is clearly better.

    .. math:: \sum_i w_i (y_i - a - x_i b)^2 + \lambda \sum_j p_j b_j^2

    First all p are one. Then, as long as the loss falls by more than twice its standard error, p is the inverse of the
    groups' mean squares of what their columns contributed before (adaptive ridge: small coefficients are drawn towards
    zero, large ones are left alone).

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
    >>> ridge = fit_sparse_ridge(x, 3 * x[:, 0] + 0.1 * rng.normal(size=60), np.ones(60), np.arange(4))
    >>> np.abs(ridge.slopes).round(1)
    array([3., 0., 0., 0.])
    """
    total = weights.sum()
    spread = np.array([weights @ (column - weights @ column / total) ** 2 for column in columns.T]) / total
    members = np.bincount(groups)
    penalties = np.ones(columns.shape[1])
    best = _fit_leaving_one_out(columns, target, weights, penalties)
    for _ in range(MOST_STEPS if columns.shape[1] else 0):
        contributed = np.bincount(groups, best.slopes**2 * spread) / members
        if not contributed.max() > 0:
            break
        penalties = 1 / (contributed + LEAST_SHARE * contributed.max())[groups]
        penalties /= np.exp(np.log(penalties).mean())
        sparser = _fit_leaving_one_out(columns, target, weights, penalties)
        if not is_clearly_less(sparser.residuals**2, best.residuals**2, weights):
            break
        best = sparser
    return best


def refit_ridge(ridge: Ridge, columns: Values, target: Values, weights: Values) -> Ridge:
    """Return the regression of rows with other weights, whose penalties are those of another one but for a factor.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=(60, 2))
    >>> y = 3 * x[:, 0] + 0.1 * rng.normal(size=60)
    >>> y[0] = 100.0
    >>> ridge = fit_sparse_ridge(x, y, np.ones(60), np.arange(2))
    >>> refit_ridge(ridge, x, y, np.where(y == 100, 1e-6, 1.0)).slopes[0].round(1)
    np.float64(3.0)
    """
    return _fit_leaving_one_out(columns, target, weights, ridge.penalties / np.exp(np.log(ridge.penalties).mean()))


def _fit_leaving_one_out(columns: Values, target: Values, weights: Values, shape: Values) -> Ridge:
    """Return the regression with the multiple of these penalties that has the least loss on rows left out."""
    total = float(weights.sum())
    intercept = float(weights @ target / total)
    center, scale = weights @ columns / total, 1 / np.sqrt(shape)

    def scale_blocks() -> Iterator[tuple[slice, Values]]:
        for start in range(0, len(target), _ROWS):
            part = slice(start, start + _ROWS)
            yield part, (columns[part] - center) * scale * np.sqrt(weights[part, None])

    triangle = np.empty((0, len(shape)))
    for _, block in scale_blocks():
        triangle = np.asarray(np.linalg.qr(np.concatenate([triangle, block]), mode="r"))
    values, right = np.linalg.svd(triangle, full_matrices=False)[1:]
    told = values > RANK * values.max(initial=0.0)
    whiten = right.T * np.where(told, 1 / np.where(told, values, 1.0), 0.0)
    wanted = (target - intercept) * np.sqrt(weights)
    along = np.zeros(len(values))
    for part, block in scale_blocks():
        along += (block @ whiten).T @ wanted[part]
    penalties = PENALTIES * max(float(values[:1].sum()) ** 2, 1e-300) / max(len(target), 1)
    kept = values**2 / (values**2 + penalties[:, None])

    def leave_out(part: slice, block: Values, kept: Values) -> Values:
        """Return what is wrong about each row when it is left out (rows, penalties)."""
        left = block @ whiten
        own = left**2 @ kept.T + weights[part, None] / total
        return np.asarray((wanted[part, None] - left @ (kept * along).T) / np.maximum(1 - own, LEAST_LEFT))

    losses = sum((leave_out(part, block, kept) ** 2).sum(axis=0) for part, block in scale_blocks())
    best = int(np.argmin(losses))
    residuals = np.concatenate([leave_out(part, block, kept[best : best + 1])[:, 0] for part, block in scale_blocks()])
    residuals /= np.sqrt(weights)
    return Ridge(intercept, (whiten @ (kept[best] * along)) * scale, penalties[best] * shape, residuals)


def moments_of(columns: Values, weights: Values) -> Values:
    """Return the weighted sums of products of columns."""
    return np.asarray((columns * weights[:, None]).T @ columns)


def regress_towards(moments: Values, start: Values, ridge: Values, rows: float) -> tuple[Values, Values, Values]:
    r"""Return regressions that are drawn towards another one, from moments of (1, columns, target).

    .. math:: \sum_i w_i (y_i - a - x_i b)^2 + \sum_j r_j (b_j - b^0_j)^2 + k (\hat y(\bar x) - \hat y^0(\bar x))^2

    Parameters
    ----------
    moments : ndarray (..., columns + 2, columns + 2)
    start : ndarray (columns + 1,) or (..., columns + 1)
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
    >>> regress_towards(moments, np.zeros(2), np.array([0.0]), 0.0)[0]
    array([1., 2.])
    >>> regress_towards(moments, np.zeros(2), np.array([2.0]), 1.0)[0]
    array([1.25, 1.  ])
    """
    mass = moments[..., 0, 0]
    center, mean = moments[..., 0, 1:-1] / mass[..., None], moments[..., 0, -1] / mass
    within = moments[..., 1:-1, 1:-1] - mass[..., None, None] * center[..., :, None] * center[..., None, :]
    across = moments[..., 1:-1, -1] - mass[..., None] * center * mean[..., None]
    own = moments[..., -1, -1] - mass * mean**2
    gradient = across - (within @ start[..., 1:, None])[..., 0]
    # the smallest number of the diagonal keeps columns that are constant here solvable
    stiff = within + (ridge + 1e-9 * (1 + mass[..., None]))[..., :, None] * np.eye(within.shape[-1])
    change = np.linalg.solve(stiff, gradient[..., None])[..., 0] if within.shape[-1] else gradient
    slopes = start[..., 1:] + change
    residual = own - 2 * (slopes * across).sum(axis=-1) + (slopes * (within @ slopes[..., None])[..., 0]).sum(axis=-1)
    before = start[..., 0] + (center * start[..., 1:]).sum(axis=-1)
    level = (mass * mean + rows * before) / (mass + rows)
    residual = np.maximum(residual + mass * (mean - level) ** 2, 0.0)
    objective = residual + (ridge * change**2).sum(axis=-1) + rows * (level - before) ** 2
    coefficients = np.concatenate(((level - (center * slopes).sum(axis=-1))[..., None], slopes), axis=-1)
    return coefficients, residual, objective
