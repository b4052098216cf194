"""Held-out predictions: what networks say of rows that they were not learned from, and what that loses.

The residuals of numbers are normal, or have heavy tails, in which rows are trusted less.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from hybridbn.inference.posteriors import ContinuousPosterior, DiscretePosterior, GaussianPosterior
from hybridbn.variables import Codes, Continuous, Discrete, Values

_ROWS = 16384
"""Rows that a step of EM looks at together."""
STEPS = 60
"""EM makes at most this many steps, after which the parameters of so simple a mixture hardly change."""
_STEADY = 1e-3
"""EM ends when the log-likelihood changes by less."""
SHARES = np.array([0.9, 0.1])
SCALES = np.array([0.7, 5.0])
"""EM starts from these components: most residuals are a bit smaller than one variance suggests, some are much larger.
"""
PRIOR_ROWS = 1.0
"""The prior counts as this many rows at the start values, so that no component vanishes."""


class ResidualMixture(NamedTuple):
    """The distribution of residuals: a mixture of normal densities.

    Attributes
    ----------
    shares : ndarray (components,)
    factors : ndarray (components,), ascending
        Factors of the variance of each prediction.
    log_likelihood : float
        Of the held-out rows.
    """

    shares: Values
    factors: Values
    log_likelihood: float

    def weigh_rows(self, residuals: Values, variances: Values) -> Values:
        r"""Return what each row counts in a least squares fit that maximizes the likelihood of this mixture.

        .. math:: w_i = c_1 \sum_k P(k \mid r_i) / c_k

        where :math:`P(k \mid r_i)` is the posterior of a residual's component (iteratively reweighted least squares,
        a form of EM). A row in the tails counts less.

        Examples
        --------
        >>> mixture = ResidualMixture(np.array([0.9, 0.1]), np.array([1.0, 100.0]), 0.0)
        >>> mixture.weigh_rows(np.array([0.0, 30.0]), np.ones(2)).round(2)
        array([0.99, 0.01])
        """
        squares = residuals**2 / variances
        logs = np.log(self.shares) - 0.5 * np.log(self.factors) - 0.5 * squares[:, None] / self.factors
        shares = np.exp(logs - logs.max(axis=1, keepdims=True))
        return np.asarray(shares @ (self.factors[0] / self.factors) / shares.sum(axis=1))


def score_residuals(
    mixture: ResidualMixture, residuals: Values, variances: Values, rows: NDArray[np.intp], count: int
) -> Values:
    """Return the continuous ranked probability score of held-out rows, NaN where there is no prediction (rows,).

    Parameters
    ----------
    mixture : ResidualMixture
    residuals, variances, rows : as in `fit_residual_mixture`
    count : int
        The number of all rows.

    Examples
    --------
    >>> normal = ResidualMixture(np.ones(1), np.ones(1), 0.0)
    >>> score_residuals(normal, np.zeros(1), np.ones(1), np.array([1]), 2).round(3)
    array([  nan, 0.234])
    """
    scores = np.full(count, np.nan)
    seen, *parts = mix_predictions(mixture, -residuals, variances, rows, SCORED_ROWS)
    scores[seen] = GaussianPosterior.of(Continuous("residual"), *parts).crps(np.zeros(len(seen)))
    return scores


def mix_predictions(
    mixture: ResidualMixture, means: Values, variances: Values, rows: NDArray[np.intp], most: int | None = None
) -> tuple[NDArray[np.intp], Values, Values, Values]:
    """Return the rows that have predictions, and the weights, means and variances (parts, rows) of their mixtures.

    Parameters
    ----------
    mixture : ResidualMixture
    means, variances, rows : ndarray (predictions,)
        As in `fit_residual_mixture`.
    most : int, optional
        Of the rows.

    Examples
    --------
    >>> normal = ResidualMixture(np.ones(1), np.full(1, 0.5), 0.0)
    >>> seen, weights, means, variances = mix_predictions(normal, np.arange(3.0), np.ones(3), np.array([4, 2, 4]))
    >>> seen.tolist(), weights.tolist(), means.tolist()
    ([2, 4], [[1.0, 0.5], [0.0, 0.5]], [[1.0, 0.0], [0.0, 2.0]])
    """
    order = np.argsort(rows, kind="stable")
    numbers = np.bincount(rows)
    seen = np.flatnonzero(numbers)[:most]
    order = order[: int(numbers[seen].sum())]
    places = np.repeat(np.arange(len(seen)), numbers[seen])
    ranks = np.arange(len(order)) - np.repeat(np.cumsum(numbers[seen]) - numbers[seen], numbers[seen])
    shape = (int(numbers[seen].max(initial=1)), len(mixture.shares), len(seen))
    weights, middles, spreads = np.zeros(shape), np.zeros(shape), np.ones(shape)
    weights[ranks, :, places] = mixture.shares / numbers[seen][places, None]
    middles[ranks, :, places] = means[order, None]
    spreads[ranks, :, places] = variances[order, None] * mixture.factors
    flat = (-1, len(seen))
    return seen, weights.reshape(flat), middles.reshape(flat), spreads.reshape(flat)


def predict_held_out_numbers(
    rows: NDArray[np.intp],
    variable: Continuous,
    noise: ResidualMixture,
    means: Values,
    variances: Values,
    predicted: NDArray[np.intp],
    groups: NDArray[np.intp],
    wide: tuple[float, float, float],
) -> GaussianPosterior:
    """Return the densities of the target in some rows of a table, NaN in those without a prediction.

    Parameters
    ----------
    rows : ndarray of int
    variable : Continuous
        The target.
    noise, means, variances, predicted : as in `mix_predictions`
        What models predict for the rows of the table that they were not learned from.
    groups : ndarray of int
        Which of the predicted rows each row of the table is, -1 if it had no target, or no weight.
    wide : (float, float, float)
        Share, mean and standard deviation of a density that is mixed with each prediction.
    """
    # equal rows have the same predictions
    distinct, inverse = np.unique(groups[rows], return_inverse=True)
    places = np.full(int(groups.max(initial=-1)) + 2, -1)
    places[distinct] = np.where(distinct >= 0, np.arange(len(distinct)), -1)
    kept = np.flatnonzero(places[predicted] >= 0)
    seen, weights, means, variances = mix_predictions(noise, means[kept], variances[kept], places[predicted[kept]])
    share, center, deviation = wide
    parts = np.full((3, len(weights) + 1, len(distinct)), np.nan)
    parts[0, :-1, seen], parts[0, -1, seen] = (1 - share) * weights.T, share
    parts[1, :-1, seen], parts[1, -1, seen] = means.T, center
    parts[2, :-1, seen], parts[2, -1, seen] = variances.T, deviation**2
    shares, means, variances = parts[:, :, inverse]
    return GaussianPosterior(variable, shares, means, variances, False, np.zeros(len(rows)), None)


def predict_held_out_classes(rows: NDArray[np.intp], variable: Discrete, probabilities: Values) -> DiscretePosterior:
    """Return the posterior of the class in some rows of a table.

    Parameters
    ----------
    rows : ndarray of int
    variable : Discrete
        The target.
    probabilities : ndarray (rows, classes)
        Those of all rows of the table, by networks that were learned without them; NaN in rows without a prediction.
    """
    return DiscretePosterior(variable, probabilities[rows].T, False, np.zeros(len(rows)), None)


SCORED_ROWS = 4000
"""Scores of so many rows are enough to compare two models."""


def fit_residual_mixture(
    residuals: Values, variances: Values, rows: NDArray[np.intp], weights: Values
) -> ResidualMixture:
    r"""Fit a mixture of one or, if BIC prefers it, two components to the residuals of held-out rows.

    .. math:: f(y_i) = \frac{1}{|T_i|} \sum_{t \in T_i} \sum_k \pi_k\, N(y_i; m_{ti}, c_k s^2_{ti})

    Parameters
    ----------
    residuals, variances : ndarray (predictions,)
        Of models that were not learned from the row; a row may have several predictions.
    rows : ndarray (predictions,)
        The row of each.
    weights : ndarray (rows,)

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> errors = rng.normal(size=2000) * np.where(rng.random(2000) < 0.2, 6.0, 1.0)
    >>> mixture = fit_residual_mixture(errors, np.ones(2000), np.arange(2000), np.ones(2000))
    >>> mixture.shares.round(1), np.sqrt(mixture.factors).round(0)
    (array([0.8, 0.2]), array([1., 6.]))
    """
    order = np.argsort(rows, kind="stable")
    order = order[weights[rows[order]] > 0]
    residuals, variances, rows = residuals[order], variances[order], rows[order]
    starts = np.flatnonzero(np.append(True, rows[1:] != rows[:-1]))
    predictions = _HeldOut(residuals**2 / variances, np.log(variances), starts, weights[rows[starts]])
    single = _fit_scales(predictions, np.ones(1), np.ones(1))
    double = _fit_scales(predictions, SHARES, SCALES * single.factors[0])
    # BIC of two more parameters
    price = math.log(max(float(predictions.weights.sum()), 2.0))
    return double if double.log_likelihood - single.log_likelihood > price else single


class _HeldOut(NamedTuple):
    """Squared residuals in units of their variances, the logarithms of these, where each row begins, and its weight."""

    squares: Values
    log_variances: Values
    starts: NDArray[np.intp]
    weights: Values

    def blocks(self) -> Iterator[_HeldOut]:
        """Yield the same for some rows at a time, which bounds the memory of a step."""
        for first in range(0, len(self.starts), _ROWS):
            starts = self.starts[first : first + _ROWS]
            end = self.starts[first + _ROWS] if first + _ROWS < len(self.starts) else len(self.squares)
            part = slice(int(starts[0]), int(end))
            yield _HeldOut(
                self.squares[part], self.log_variances[part], starts - starts[0], self.weights[first : first + _ROWS]
            )


def _fit_scales(predictions: _HeldOut, shares: Values, factors: Values) -> ResidualMixture:
    """Fit a mixture by EM from start values."""
    start_shares, start_factors, likelihood = shares, factors, -math.inf
    for step in range(STEPS):
        before = likelihood
        likelihood, mass, squares = 0.0, np.zeros(len(shares)), np.zeros(len(shares))
        for block in predictions.blocks():
            counts = np.diff(np.append(block.starts, len(block.squares)))
            terms = (np.log(shares) - 0.5 * np.log(factors))[:, None] - 0.5 * block.squares / factors[:, None]
            terms -= 0.5 * (block.log_variances + math.log(2 * math.pi)) + np.repeat(np.log(counts), counts)
            top = np.maximum.reduceat(terms.max(axis=0), block.starts)
            densities = np.exp(terms - np.repeat(top, counts))
            total = np.add.reduceat(densities.sum(axis=0), block.starts)
            likelihood += float(block.weights @ (top + np.log(total)))
            densities *= np.repeat(block.weights / total, counts)
            mass += densities.sum(axis=1)
            squares += densities @ block.squares
        shares = (mass + PRIOR_ROWS * start_shares) / (mass.sum() + PRIOR_ROWS)
        factors = (squares + PRIOR_ROWS * start_factors) / (mass + PRIOR_ROWS)
        if step and abs(likelihood - before) < _STEADY:
            break
    order = np.argsort(factors)
    return ResidualMixture(shares[order], factors[order], likelihood)


Loss: TypeAlias = Callable[[Any, NDArray[Any]], Values]
"""A function of the posterior of the target and its true codes or values that returns the loss of each row (rows,)."""


def log_loss(posterior: DiscretePosterior, truth: Codes) -> Values:
    """Return minus the logarithm of the probability of each row's state.

    Examples
    --------
    >>> import hybridbn as hb
    >>> net = hb.Network([hb.Multinomial(hb.Discrete("c", ("a", "b")), table=[0.5, 0.5])])
    >>> log_loss(net.posterior("c", hb.Table({"c": ["a", "b"]})), np.array([0, 1])).round(3)
    array([0.693, 0.693])
    """
    probabilities = np.take_along_axis(posterior.probabilities, truth[:, None], axis=1)[:, 0]
    return np.asarray(-np.log(np.maximum(probabilities, np.finfo(float).tiny)))


def misclassification(posterior: DiscretePosterior, truth: Codes) -> Values:
    """Return 1 for each row whose most probable state is not the true one, else 0."""
    return np.asarray(posterior.probabilities.argmax(axis=1) != truth, dtype=np.float64)


def squared_error(posterior: ContinuousPosterior, truth: Values) -> Values:
    """Return the squared difference of each row's mean from the truth."""
    return np.asarray((posterior.mean() - truth) ** 2)


def crps(posterior: ContinuousPosterior, truth: Values) -> Values:
    """Return the continuous ranked probability score of each row, see `ContinuousPosterior.crps`."""
    return np.asarray(posterior.crps(truth))
