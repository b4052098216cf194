"""The regressions that imputation uses by default: of several forms, the one that Akaike's criterion prefers.

With discrete parents a regression may be one for each of their configurations, or have common slopes and an effect for each
state of each parent, with a variance for each configuration or for all. All come from the same moments. Common slopes and
effects are shrunk by the ridge of the greatest marginal likelihood (MacKay 1992), as many weak ones would otherwise add noise.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from hybridbn.fitting.gaussian import GaussianFitter, GaussianStatistics
from hybridbn.fitting.ridge import LEAST_RESIDUAL, MarginalLikelihood, Spectrum
from hybridbn.potentials.gaussian import LinearGaussian
from hybridbn.variables import Values

__all__ = ["Regression"]

_RIDGE = 0.01
"""Rows that speak for the regression of all rows where each configuration has its own."""
_RIDGES = np.geomspace(0.01, 1e4, 25)
"""How many rows speak for effects and slopes of zero: the one that makes the data most likely is taken."""
_ROWS = 8
"""A configuration of fewer rows has the variance of all."""


@dataclass(frozen=True, kw_only=True)
class Regression(GaussianFitter):
    """Learns a linear Gaussian conditional of the form that Akaike's criterion prefers.

    Variances are residuals over rows less coefficients, so that they are not too small on average.

    Examples
    --------
    >>> import hybridbn as hb
    >>> rng = np.random.default_rng(0)
    >>> c, x, noise = rng.integers(2, size=200), *rng.normal(size=(2, 200))
    >>> table = hb.Table({"c": c, "x": x, "y": c + 2 * x + noise}, discrete="c")
    >>> Regression().fit(table, table.variable("y"), (table.variable("c"), table.variable("x"))).coefficients.round(2)
    array([[1.96],
           [1.96]])
    """

    ridge: float = _RIDGE

    def potential(self, statistics: Any) -> LinearGaussian:
        """Return the regression."""
        found = super().potential(statistics)
        shape, size = found.intercept.shape, statistics.weights.size
        forms = _additive(statistics, found)
        if size > 1:
            coefficients = 1 + found.coefficients.shape[-1]
            enough = statistics.weights >= 1 + coefficients
            rows = np.where(enough, statistics.weights, statistics.total)
            variance = found.variance.reshape(size) * _inflation(rows, coefficients)
            # configurations of few rows share a regression
            numbers = (1 + coefficients) * float(enough.sum() + bool((statistics.weights[~enough] > 0).any()))
            forms.append(_Form(found.intercept.reshape(size), found.coefficients.reshape(size, -1), variance, numbers))
        best = min(forms, key=lambda form: form.parameters - _log_likelihood(statistics, form))
        return LinearGaussian(
            found.child,
            found.parents,
            intercept=best.intercept.reshape(shape),
            coefficients=best.slopes.reshape(*shape, -1),
            variance=best.variance.reshape(shape),
        )


class _Form(NamedTuple):
    """A regression for each configuration, and how many numbers it took to say so."""

    intercept: Values
    slopes: Values
    variance: Values
    parameters: float


def _additive(statistics: GaussianStatistics, found: LinearGaussian) -> list[_Form]:
    """Return the regressions with common slopes, and effects of each state that add up."""
    sizes, n, total = found.intercept.shape, statistics.weights, statistics.total
    codes = np.unravel_index(np.arange(n.size), sizes) if sizes else ()
    effects = np.concatenate([np.zeros((n.size, 0)), *(np.eye(k)[c] for k, c in zip(sizes, codes, strict=True))], 1)
    shares = n @ effects / total
    effects -= shares
    center, products = statistics.pooled()
    scales = np.sqrt(np.diag(products) / total)
    scales = np.where(scales > 0, scales, 1.0)
    products = products / np.outer(scales, scales)
    weighted = effects * n[:, None]
    across = weighted.T @ ((statistics.means - center) / scales)
    gram = np.block([[effects.T @ weighted, across[:, 1:]], [across[:, 1:].T, products[1:, 1:]]])
    target = np.concatenate([across[:, 0], products[1:, 0]])
    spectrum, own = Spectrum.of(gram, target), float(products[0, 0])
    ridge = spectrum.best_penalty(own, _RIDGES, MarginalLikelihood(total))
    solution = spectrum.slopes(ridge)
    # effects of the states of each parent add up to nothing
    free = min(spectrum.coefficients(ridge), len(target) - len(sizes))
    many = effects.shape[1]
    slopes = solution[many:] * scales[0] / scales[1:]
    intercept = center[0] + effects @ solution[:many] * scales[0] - center[1:] @ slopes
    slopes = np.broadcast_to(slopes, (n.size, len(slopes)))
    squares = _squares(statistics, intercept, slopes) * _inflation(np.array(total), 1 + free)
    pooled = max(squares.sum() / total, LEAST_RESIDUAL * scales[0] ** 2)
    forms = [_Form(intercept, slopes, np.full(n.size, pooled), free + 2.0)]
    if sizes:
        enough = n >= _ROWS
        # as if one more row of each configuration had the variance of all
        apart = np.where(enough, (squares + pooled) / (n + 1), pooled)
        forms.append(_Form(intercept, slopes, apart, free + 1.0 + float(enough.sum() + (~enough).any())))
    return forms


def _inflation(rows: Values, coefficients: float) -> Values:
    return np.asarray(rows / np.maximum(rows - coefficients, 1.0))


def _squares(statistics: GaussianStatistics, intercept: Values, slopes: Values) -> Values:
    """Return the sum of squared residuals in each configuration."""
    contrast = np.concatenate([np.ones((len(slopes), 1)), -slopes], axis=1)
    mean = np.einsum("dj,dj->d", contrast, statistics.means) - intercept
    within = np.einsum("di,dij,dj->d", contrast, statistics.products, contrast)
    return np.asarray(np.maximum(within, 0.0) + statistics.weights * mean**2)


def _log_likelihood(statistics: GaussianStatistics, form: _Form) -> float:
    squares = _squares(statistics, form.intercept, form.slopes)
    return float(-0.5 * (statistics.weights * np.log(form.variance) + squares / form.variance).sum())
