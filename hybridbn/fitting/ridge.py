"""Ridge regressions: in closed form from moments, many at once, the penalty given or chosen by a criterion.

`Spectrum` takes normal equations apart into eigenvectors, where all penalties cost as much as one, and judges them.
Where rows are to be left out exactly (`fit_sparse_ridge`), the rows themselves are decomposed, as squaring them first
would lose digits. Thousands of regressions with a penalty for each column (`regress_towards`) are solved directly.
Several targets of the same columns, and of functions of these, share their moments (`fit_ridges`). Logistic regressions
of classes (`regress_classes`) take Newton steps.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, TypeAlias

import numpy as np
import scipy
from numpy.typing import NDArray

from hybridbn.errors import warn_user
from hybridbn.fitting.cross_validation import is_clearly_less
from hybridbn.variables import Values, slice_blocks

PENALTIES = 10.0 ** np.arange(-3, 5.25, 0.5)
MOST_STEPS = 6
"""The most steps of a sparse regression, each of which punishes small coefficients more than the one before."""
_ROWS = 2048
"""Rows that are decomposed together, which bounds the memory."""
LEAST_SHARE = 1e-3
LEAST_LEFT = 1e-3
"""A row that determines its own prediction counts as if so much of it were left to the others."""
RANK = 1e-12
"""A direction of the columns with less than this share of their variance is not told apart from a constant."""
LEAST_RESIDUAL = 1e-9
"""Least residual sum of squares relative to the target's."""
MOST_LEVERAGE = 0.95
"""The leverage of a row is limited to this, as its leave-one-out prediction would be arbitrary otherwise."""
RIDGES = np.geomspace(0.1, 1e4, 16)
"""Candidates for the penalty of several targets, in rows; the one of the least generalized cross-validation error is
taken.
"""
_EXPANDED_ROWS = 16384
"""Rows whose functions are in memory at the same time."""
_NEWTON = 200
"""Most parameters for Newton's method, whose matrix has their square; more are left to a quasi-Newton method."""
_MOST_NEWTON_STEPS = 200
ROUNDING, _ROUGHLY = 1e-16, 1e-6
"""Shares of the weight that the last Newton step gains: the error that it leaves is of the order of its square."""
_THIN, _FEWEST_ROWS = 8, 512
"""Every eighth row is fitted before all of them, if so many are left."""
_BLOCK = 4096
"""Rows whose products are held at a time, so that they stay in the cache."""
_MOST_QUASI_STEPS = 10_000


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

    def cross_validation_losses(self, own: float, penalties: Values, rows: float) -> Values:
        """Return the loss of each penalty by generalized cross-validation (Golub, Heath & Wahba 1979): the squared
        error over the square of what rows are left beside the coefficients.

        Parameters
        ----------
        own : float
            The target's sum of squares.
        penalties : ndarray (penalties,)
        rows : float
            The sum of their weights.
        """
        damped = self.values + penalties[:, None]
        squares = own - (self.along**2 * (self.values + 2 * penalties[:, None]) / damped**2).sum(axis=1)
        free = 1 + (self.values / damped).sum(axis=1)
        return np.asarray(squares / np.maximum(rows - free, 1.0) ** 2)

    def negative_log_evidence(self, own: float, penalties: Values, rows: float) -> Values:
        """Return less the log marginal likelihood of the target at each penalty, up to what all have in common.

        Slopes are normal around zero then, with the residual variance over the penalty as theirs (MacKay 1992).

        Parameters
        ----------
        own, penalties, rows : as in `cross_validation_losses`
        """
        damped = self.values + penalties[:, None]
        rest = np.maximum(own - (self.along**2 / damped).sum(axis=1), LEAST_RESIDUAL * own)
        return np.asarray(0.5 * rows * np.log(rest) + 0.5 * np.log(damped / penalties[:, None]).sum(axis=1))


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
        Of each row when it was left out; of a weight of more than one, when one of so many equal rows was.
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
    copies = np.maximum(weights, 1.0)
    best = _fit_leaving_one_out(columns, target, weights, copies, penalties)
    for _ in range(MOST_STEPS if columns.shape[1] else 0):
        contributed = np.bincount(groups, best.slopes**2 * spread) / members
        if not contributed.max() > 0:
            break
        penalties = 1 / (contributed + LEAST_SHARE * contributed.max())[groups]
        penalties /= np.exp(np.log(penalties).mean())
        sparser = _fit_leaving_one_out(columns, target, weights, copies, penalties)
        if not is_clearly_less(sparser.residuals**2, best.residuals**2, weights):
            break
        best = sparser
    return best


def refit_ridge(ridge: Ridge, columns: Values, target: Values, weights: Values, trust: Values) -> Ridge:
    """Return the regression of rows that count less than by their weights, whose penalties are those of another one but
    for a factor.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=(60, 2))
    >>> y = 3 * x[:, 0] + 0.1 * rng.normal(size=60)
    >>> y[0] = 100.0
    >>> ridge = fit_sparse_ridge(x, y, np.ones(60), np.arange(2))
    >>> refit_ridge(ridge, x, y, np.ones(60), np.where(y == 100, 1e-6, 1.0)).slopes[0].round(1)
    np.float64(3.0)
    """
    shape = ridge.penalties / np.exp(np.log(ridge.penalties).mean())
    return _fit_leaving_one_out(columns, target, weights * trust, np.maximum(weights, 1.0), shape)


def _fit_leaving_one_out(columns: Values, target: Values, weights: Values, copies: Values, shape: Values) -> Ridge:
    """Return the regression with the multiple of these penalties that has the least loss on rows left out, each of
    which is one of so many copies.
    """
    total = float(weights.sum())
    intercept = float(weights @ target / total)
    center, scale = weights @ columns / total, 1 / np.sqrt(shape)

    def scale_blocks() -> Iterator[tuple[slice, Values]]:
        for part in slice_blocks(len(target), _ROWS):
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
    penalties = PENALTIES * max(float(values[:1].sum()) ** 2, 1e-300) / max(float(copies.sum()), 1.0)
    kept = values**2 / (values**2 + penalties[:, None])

    def leave_out(part: slice, block: Values, kept: Values) -> Values:
        """Return what is wrong about each row when it is left out (rows, penalties)."""
        left = block @ whiten
        own = (left**2 @ kept.T + weights[part, None] / total) / copies[part, None]
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


Basis: TypeAlias = Callable[[Values], Values]
"""From columns to functions of them, such as splines and products, in each row (rows, functions)."""


@dataclass(frozen=True, eq=False)
class Ridges:
    """Ridge regressions of centered targets on the same columns, and on functions of these.

    Attributes
    ----------
    center, scale : ndarray (columns,)
        Of the columns, and of their functions.
    slopes : ndarray (columns, targets)
    roots : sequence of ndarray (columns, columns)
        For each target: the products of a row's deviations with these are the roots of its leverage.
    total : float
        The sum of the weights.
    penalties : sequence of (ndarray (columns,), float)
        For each target: what columns are divided by, and the penalty of the squares of their slopes then.
    basis : Basis, optional
    """

    center: Values
    scale: Values
    slopes: Values
    roots: Sequence[Values]
    total: float
    penalties: Sequence[tuple[Values, float]]
    basis: Basis | None

    def refit(self, columns: Values, targets: Values, weights: Values) -> Ridges:
        """Return the regressions of other rows with the same penalties."""
        return _solve_ridges(_Moments.of(columns, targets, weights, self.basis), self.penalties, self.basis)

    def explain(self, columns: Values, weights: Values, target: int) -> tuple[Values, Values]:
        """Return the prediction of each row for a target, and the row's leverage."""
        fitted, leverage = np.empty(len(columns)), np.empty(len(columns))
        for part in slice_blocks(len(columns), _EXPANDED_ROWS):
            deviations = _expand(columns[part], self.basis) - self.center
            fitted[part] = deviations @ self.slopes[:, target]
            rotated = deviations @ self.roots[target]
            leverage[part] = weights[part] * (np.einsum("rj,rj->r", rotated, rotated) + 1 / self.total)
        return fitted, np.minimum(leverage, MOST_LEVERAGE)

    def leave_out(self, columns: Values, targets: Values, weights: Values) -> Values:
        """Return the predictions of the targets in each row without that row (rows, targets)."""
        left_out = np.empty(targets.shape)
        for target in range(targets.shape[1]):
            fitted, leverage = self.explain(columns, weights, target)
            left_out[:, target] = targets[:, target] - (targets[:, target] - fitted) / (1 - leverage)
        return left_out


def _expand(columns: Values, basis: Basis | None) -> Values:
    return columns if basis is None else np.concatenate([columns, basis(columns)], axis=1)


class _Moments(NamedTuple):
    """Weighted means of columns and products of what columns and targets differ from theirs."""

    total: float
    center: Values
    gram: Values
    across: Values
    squares: Values

    @classmethod
    def of(cls, columns: Values, targets: Values, weights: Values, basis: Basis | None) -> _Moments:
        """Collect the moments of rows whose targets are centered."""
        total = float(weights.sum())
        size = columns.shape[1] if basis is None else _expand(columns[:1], basis).shape[1]
        # near the means, so that centering loses no digits
        near = np.concatenate([np.average(columns, axis=0, weights=weights), np.zeros(size - columns.shape[1])])
        gram, sums, across = np.zeros((size, size)), np.zeros(size), np.zeros((size, targets.shape[1]))
        for part in slice_blocks(len(columns), _EXPANDED_ROWS):
            block = _expand(columns[part], basis) - near
            weighted = block * weights[part, None]
            gram += weighted.T @ block
            sums += weighted.sum(axis=0)
            across += weighted.T @ targets[part]
        gram -= np.outer(sums, sums) / total
        across -= np.outer(sums, weights @ targets) / total
        return cls(total, near + sums / total, gram, across, weights @ targets**2)

    @property
    def deviation(self) -> Values:
        return np.sqrt(np.maximum(np.diag(self.gram), 0.0) / self.total)

    def spectrum(self, scales: Values, target: int | slice) -> Spectrum:
        """Decompose the products of columns in units of their own."""
        across = self.across[:, target]
        return Spectrum.of(self.gram / np.outer(scales, scales), (across.T / scales).T)


def fit_ridges(
    columns: Values,
    targets: Values,
    weights: Values,
    basis: Basis | None = None,
    widths: Sequence[Values | float] = (1.0,),
) -> Ridges:
    """Fit ridge regressions to centered targets.

    Parameters
    ----------
    basis : Basis, optional
        Functions of the columns, which predict, too.
    widths : sequence
        Expected sizes of standardized slopes; the best ones are taken for each target.
    """
    moments = _Moments.of(columns, targets, weights, basis)
    scales = [np.where(moments.deviation > 0, moments.deviation, 1.0) / width for width in widths]
    spectra = [moments.spectrum(own, slice(None)) for own in scales]
    penalties = []
    for target, square in enumerate(moments.squares.tolist()):
        own = [spectrum._replace(along=spectrum.along[:, target]) for spectrum in spectra]
        losses = np.array([spectrum.cross_validation_losses(square, RIDGES, moments.total) for spectrum in own])
        best, place = np.unravel_index(np.argmin(losses), losses.shape)
        penalties.append((scales[best], float(RIDGES[place])))
    return _solve_ridges(moments, penalties, basis)


def _solve_ridges(moments: _Moments, penalties: Sequence[tuple[Values, float]], basis: Basis | None) -> Ridges:
    """Return the ridge regressions with a penalty for each target."""
    slopes, roots = np.empty(moments.across.shape), []
    for target, (scales, ridge) in enumerate(penalties):
        spectrum = moments.spectrum(scales, target)
        slopes[:, target] = spectrum.slopes(ridge) / scales
        roots.append(spectrum.vectors / np.sqrt(spectrum.values + ridge) / scales[:, None])
    return Ridges(moments.center, moments.deviation, slopes, roots, moments.total, penalties, basis)


def regress_classes(
    design: Values,
    targets: Values,
    start: Values,
    ridge: float,
    tolerance: float | None = None,
    first: Values | None = None,
    enough: float = ROUNDING,
) -> Values:
    """Return the parameters (states, columns) of a logistic regression that are pulled toward those at the start.

    Parameters
    ----------
    design : ndarray (columns, rows)
        The first column is ones; its parameters are not pulled.
    targets : ndarray (states, rows)
        The weight of each state in each row.
    start : ndarray (states, columns)
    ridge : float
    tolerance : float, optional
        Of the gradient, for approximate parameters in little time.
    first : ndarray (states, columns), optional
        Where the search begins, by default at the start.
    enough : float
        Newton's method ends with a step that gains less than this times the weight, and leaves an error of the order
        of its square.

    Examples
    --------
    >>> design = np.array([[1.0, 1.0, 1.0], [-1.0, 1.0, 1.0]])
    >>> regress_classes(design, np.array([[1.0, 0.0, 1.0], [0.0, 1.0, 0.0]]), np.zeros((2, 2)), 1.0).round(2)
    array([[ 0.49, -0.33],
           [-0.49,  0.33]])
    """
    problem = _ClassRegression(design, targets, start, ridge)
    if tolerance is None and start.size <= _NEWTON:
        return _minimize_by_newton(problem, first, enough)
    minimum = scipy.optimize.minimize(
        lambda flat: problem.evaluate(flat)[:2],
        (start if first is None else first).ravel(),
        jac=True,
        method="L-BFGS-B",
        options={
            "maxiter": _MOST_QUASI_STEPS,
            "maxfun": 2 * _MOST_QUASI_STEPS,
            "maxcor": 30,
            "ftol": 0.0,
            "gtol": 1e-8 if tolerance is None else tolerance,
        },
    )
    if minimum.nit >= _MOST_QUASI_STEPS:
        _warn_unconverged()
    return np.asarray(minimum.x.reshape(start.shape))


@dataclass(frozen=True)
class _ClassRegression:
    """A penalized logistic regression: the columns of a design, and the weights of each state."""

    design: Values
    targets: Values
    start: Values
    ridge: float

    def probabilities(self, parameters: Values) -> tuple[Values, Values, Values]:
        """Return each row's logits relative to the largest and probabilities (states, rows), and the logarithm of what
        the exponentials of the logits add up to.
        """
        # reductions over the first axis are several times faster
        logits = parameters @ self.design
        logits -= logits.max(axis=0)
        shares = np.exp(logits)
        total = shares.sum(axis=0)
        shares /= total
        return logits, shares, np.log(total)

    def evaluate(self, flat: Values) -> tuple[float, Values, Values]:
        """Return value, gradient and probabilities.

        The penalty of the sum of the intercepts picks one of the many equal solutions: adding a constant to all of
        them changes no probability.
        """
        parameters = flat.reshape(self.start.shape)
        logits, shares, log_total = self.probabilities(parameters)
        away = parameters[:, 1:] - self.start[:, 1:]
        drift = parameters[:, 0].sum()
        value = float(self.weights @ log_total) - float(np.vdot(self.targets, logits))
        value += 0.5 * self.ridge * (away**2).sum() + 0.5 * self.pin * drift**2
        gradient = (self.weights * shares - self.targets) @ self.design.T
        gradient[:, 1:] += self.ridge * away
        gradient[:, 0] += self.pin * drift
        return float(value), gradient.ravel(), shares

    @cached_property
    def weights(self) -> Values:
        """The weight of each row."""
        return np.asarray(self.targets.sum(axis=0))

    @cached_property
    def pin(self) -> float:
        """Weight of the penalty of the intercepts' sum, of the order of the other curvatures."""
        return float(self.weights.sum() / len(self.start) ** 2)

    def thin(self, step: int) -> _ClassRegression:
        """Return the problem of every so many-th row, each of which stands for so many."""
        return _ClassRegression(self.design[:, ::step].copy(), step * self.targets[:, ::step], self.start, self.ridge)

    def curvature(self, shares: Values) -> Values:
        """Return the matrix of second derivatives where states have these probabilities (states, rows)."""
        k, p = self.start.shape
        pairs = list(itertools.combinations(range(k), 2))
        states, others = [c for c, _ in pairs], [d for _, d in pairs]
        products = np.zeros((len(pairs) * p, p))
        for part in slice_blocks(shares.shape[1], _BLOCK):
            own, rows = shares[:, part], self.design[:, part]
            factors = (own * self.weights[part])[states] * own[others]
            products += (factors[:, None] * rows).reshape(len(products), rows.shape[1]) @ rows.T
        matrix = np.zeros((k, p, k, p))
        for (c, d), block in zip(pairs, products.reshape(-1, p, p), strict=True):
            # the derivatives of probabilities that add up to one add up to zero
            matrix[c, :, d] = matrix[d, :, c] = -block
            matrix[c, :, c] += block
            matrix[d, :, d] += block
        diagonal = np.arange(k)
        for j in range(1, p):
            matrix[diagonal, j, diagonal, j] += self.ridge
        matrix[:, 0, :, 0] += self.pin
        return matrix.reshape(k * p, k * p)


def _minimize_by_newton(problem: _ClassRegression, first: Values | None, enough: float) -> Values:
    """Minimize by damped Newton steps; the objective is strictly convex."""
    if first is None:
        first = problem.start
        if problem.design.shape[1] > _THIN * _FEWEST_ROWS:
            # few steps are left from the minimum of some of the rows to that of all
            first = _minimize_by_newton(problem.thin(_THIN), None, _ROUGHLY)
    flat = first.ravel()
    value, gradient, shares = problem.evaluate(flat)
    before = math.inf
    for _ in range(_MOST_NEWTON_STEPS):
        step = -np.linalg.solve(problem.curvature(shares), gradient)
        promised = -float(gradient @ step)
        # the sums have as many terms as there is weight, and so much rounding even where they are small
        size = abs(value) + float(problem.weights.sum())
        if promised <= enough * size:
            return (flat + step).reshape(problem.start.shape)
        if promised <= 1e-13 * size and promised > 0.5 * before:
            return flat.reshape(problem.start.shape)
        length = 1.0
        while True:
            tried = flat + length * step
            new_value, new_gradient, new_shares = problem.evaluate(tried)
            if new_value <= value - 1e-4 * length * promised + 1e-15 * size or length < 1e-8:
                break
            length /= 2
        flat, value, gradient, shares, before = tried, new_value, new_gradient, new_shares, promised
    _warn_unconverged()
    return flat.reshape(problem.start.shape)


def _warn_unconverged() -> None:
    warn_user("a logistic regression did not converge; a larger ridge would help", RuntimeWarning)
