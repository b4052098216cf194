"""How far predictions miss: a mixture of normal errors learned from rows that had no part in the predictions."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hybridbn.variables import Values

__all__ = ["Noise", "noise_of"]

STEPS = 60
SHARES = np.array([0.9, 0.1])
SPREADS = np.array([0.7, 5.0])
"""Where the search for two kinds of errors starts: most of them smaller, some of them wider."""
PRIOR_ROWS = 1.0
"""As if so many rows spoke for the start, so that no kind shrinks to nothing."""


class Noise(NamedTuple):
    """A mixture of normal errors.

    Attributes
    ----------
    shares : ndarray (kinds,)
    factors : ndarray (kinds,), ascending
        What each prediction's own variance is multiplied by.
    """

    shares: Values
    factors: Values


def noise_of(residuals: Values, variances: Values, known: NDArray[np.bool_], weights: Values) -> Noise:
    r"""Return the errors' mixture under which held-out rows are likeliest, of one kind or, if BIC says so, of two.

    .. math:: f(y_i) = \frac{1}{|T_i|} \sum_{t \in T_i} \sum_k \pi_k\, N(y_i; m_{ti}, c_k s^2_{ti})

    Parameters
    ----------
    residuals, variances : ndarray (models, rows)
    known : ndarray (models, rows)
        Which models did not learn from the row.
    weights : ndarray (rows,)

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> errors = rng.normal(size=2000) * np.where(rng.random(2000) < 0.2, 6.0, 1.0)
    >>> found = noise_of(errors[None], np.ones((1, 2000)), np.ones((1, 2000), dtype=bool), np.ones(2000))
    >>> found.shares.round(1), np.sqrt(found.factors).round(0)
    (array([0.8, 0.2]), array([1., 6.]))
    """
    rows = known.any(axis=0) & (weights > 0)
    residuals, variances, known, weights = residuals[:, rows], variances[:, rows], known[:, rows], weights[rows]
    one, first = _fitted(residuals, variances, known, weights, np.ones(1), np.ones(1))
    two, second = _fitted(residuals, variances, known, weights, SHARES, SPREADS * one.factors[0])
    return two if second - first > math.log(max(float(weights.sum()), 2.0)) else one


def _fitted(
    residuals: Values, variances: Values, known: NDArray[np.bool_], weights: Values, shares: Values, factors: Values
) -> tuple[Noise, float]:
    """Return the mixture that expectation maximization finds, and its log-likelihood."""
    squares = residuals**2 / variances
    with np.errstate(divide="ignore"):
        base = np.where(known, -0.5 * np.log(2 * math.pi * variances), -np.inf) - np.log(known.sum(axis=0))
    start_shares, start_factors, likelihood = shares, factors, -math.inf
    for _ in range(STEPS):
        terms = (
            base[None]
            + (np.log(shares) - 0.5 * np.log(factors))[:, None, None]
            - 0.5 * squares[None] / factors[:, None, None]
        )
        top = terms.max(axis=(0, 1))
        parts = np.exp(terms - top)
        total = parts.sum(axis=(0, 1))
        likelihood = float(weights @ (top + np.log(total)))
        belongs = parts * (weights / total)
        mass = belongs.sum(axis=(1, 2))
        shares = (mass + PRIOR_ROWS * start_shares) / (mass.sum() + PRIOR_ROWS)
        factors = ((belongs * squares).sum(axis=(1, 2)) + PRIOR_ROWS * start_factors) / (mass + PRIOR_ROWS)
    order = np.argsort(factors)
    return Noise(shares[order], factors[order]), likelihood
