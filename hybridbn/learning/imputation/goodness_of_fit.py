"""Which columns a network of linear regressions describes badly, so that predictive mean matching draws them again.

A number is described badly where it has spikes or heaps, where its residuals given all other cells are far from normal
or depend on other numbers, and where draws would be what the number can't be. A discrete column is described badly
where the network's probabilities given all other cells disagree with what is observed: score tests ask whether they are
too sure of themselves, and whether the difference depends on other columns or on their squares.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from hybridbn.inference.conditional_gaussian import ConditionalGaussian
from hybridbn.learning.imputation.rule_search import is_heaped
from hybridbn.learning.imputation.rules import Rules
from hybridbn.learning.imputation.stacked_regression import find_curvature
from hybridbn.variables import Codes, Values

__all__ = ["FEWEST_OBSERVED", "SPIKE_SHARE", "disagree", "find_badly_described", "share_of_most_frequent"]

FEWEST_OBSERVED = 25
"""With fewer observed cells the nearest predictions are too far away, so a column is not matched."""
_SKEWNESS, _KURTOSIS = 0.5, 1.0
"""Residuals with more skewness or excess kurtosis than this are far from normal, unless chance explains it."""
_STANDARD_ERRORS = 4.0
"""Deviations of fewer standard errors are put down to chance."""
_OUTSIDE_SHARE = 0.002
"""A column of whose draws more are outside of what the column can be is far from normal."""
SPIKE_SHARE = 0.1
"""A column in which one number has a larger share has a spike, so it isn't continuous."""
_CURVED_ROWS = 2000
"""From so many rows of a table it is told whether a number follows curves."""
_LEAST_EFFECT = 0.2
"""Differences of fewer standard deviations of a state's indicator are not worth a model of their own."""
_LEAST_VARIANCE = 1e-6
"""Of a state's indicator: a surer probability counts as if it weren't."""

Cells = Mapping[str, NDArray[np.generic]]


def find_badly_described(
    closed: ConditionalGaussian, completed: Cells, holes: Mapping[str, NDArray[np.bool_]], rules: Rules
) -> list[str]:
    """Return the columns with spikes or heaps, with residuals that are far from normal or depend on other numbers, and
    with draws that can't be.
    """
    values = np.array([completed[name] for name in closed.numbers], dtype=np.float64).T
    configuration: Codes = np.zeros(len(values), dtype=np.intp)
    for variable in closed.given:
        configuration = configuration * len(variable) + completed[variable.name].astype(np.intp)
    names = []
    for column, name in enumerate(closed.numbers):
        observed = np.flatnonzero(~holes[name]) if name in holes else np.arange(len(values))
        if len(observed) < FEWEST_OBSERVED:
            continue
        residuals = values[observed, column] - closed.conditional_mean(
            column, values[observed], configuration[observed]
        )
        others = np.delete(values[observed], column, axis=1)
        if (
            name in rules.codes
            or share_of_most_frequent(values[observed, column]) > SPIKE_SHARE
            or is_heaped(values[observed, column])
            or _draws_outside(closed, column, values, configuration, rules.supports.get(name))
            or _far_from_normal(residuals)
            or _has_structure(residuals, others)
            or _has_curves(others, values[observed, column], residuals)
        ):
            names.append(name)
    return names


def _draws_outside(
    closed: ConditionalGaussian,
    column: int,
    values: Values,
    configuration: Codes,
    support: tuple[float, float] | None,
) -> bool:
    """Return whether a normal distribution has too large a share where no number of the column can be."""
    from scipy.special import ndtr

    if support is None:
        return False
    low, high = support
    center = closed.conditional_mean(column, values, configuration)
    spread = 1 / np.sqrt(closed.regressions.gram[closed.regressions.kind[configuration], column, column])
    # of the distribution given all other cells, and of what was drawn, given fewer of them
    expected = float((ndtr((low - center) / spread) + ndtr((center - high) / spread)).mean())
    drawn = float(((values[:, column] < low) | (values[:, column] > high)).mean())
    return max(expected, drawn) > _OUTSIDE_SHARE


def _far_from_normal(residuals: Values) -> bool:
    n = len(residuals)
    scaled = _standardize(residuals)
    skewness, kurtosis = float((scaled**3).mean()), float((scaled**4).mean()) - 3
    return bool(scaled.any()) and bool(
        abs(skewness) > max(_SKEWNESS, _STANDARD_ERRORS * np.sqrt(6 / n))
        or abs(kurtosis) > max(_KURTOSIS, _STANDARD_ERRORS * np.sqrt(24 / n))
    )


def _has_structure(residuals: Values, others: Values) -> bool:
    """Return whether residuals correlate with squares of other numbers, or squared residuals with other numbers."""
    if not others.shape[1]:
        return False
    scaled, regressors = _standardize(residuals), _standardize(others)
    curvature = _standardize(regressors**2).T @ scaled
    heteroscedasticity = regressors.T @ _standardize(scaled**2)
    return bool(
        max(np.abs(curvature).max(), np.abs(heteroscedasticity).max()) > _STANDARD_ERRORS * np.sqrt(len(residuals))
    )


def _has_curves(others: Values, target: Values, residuals: Values) -> bool:
    # evenly spread rows say as much as all
    part = slice(None, None, -(-len(target) // _CURVED_ROWS))
    return others.shape[1] > 0 and find_curvature(others[part], target[part], residuals[part])


def _standardize(values: Values) -> Values:
    centered = values - values.mean(axis=0)
    deviation = np.sqrt(np.square(centered).mean(axis=0))
    return np.asarray(centered / np.where(deviation > 0, deviation, np.inf))


def share_of_most_frequent(values: Values) -> float:
    """Return the share of the most frequent number.

    Examples
    --------
    >>> share_of_most_frequent(np.array([0.0, 1.0, 0.0, 2.0]))
    0.5
    """
    ordered = np.sort(values)
    starts = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]]))
    return float(np.diff([*starts, len(values)]).max()) / len(values)


def disagree(probabilities: Values, codes: Codes, features: Values) -> bool:
    """Return whether observed states contradict their probabilities given other columns.

    Parameters
    ----------
    probabilities : ndarray (rows, states)
    codes : ndarray (rows,)
        What is observed.
    features : ndarray (rows, features)
        The other columns.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=(1000, 1))
    >>> right, wrong = 1 / (1 + np.exp(-x**2)), np.full((1000, 1), 0.63)
    >>> codes = (rng.random(1000) < right[:, 0]).astype(np.intp)
    >>> [disagree(np.concatenate([1 - p, p], axis=1), codes, x) for p in (right, wrong)]
    [False, True]
    """
    standard = _standardize(features)
    asked = np.concatenate([np.ones((len(codes), 1)), standard, _standardize(standard**2)], axis=1)
    for state in range(probabilities.shape[1] if probabilities.shape[1] > 2 else 1):
        expected = probabilities[:, state]
        variance = np.maximum(expected * (1 - expected), _LEAST_VARIANCE)
        difference = (codes == state) - expected
        # the second part of Brier's score tells a probability that is too near to zero or one
        regressors = np.concatenate([asked, 1 - 2 * expected[:, None]], axis=1)
        scores = difference @ regressors / np.sqrt(np.maximum(variance @ regressors**2, 1e-300))
        if np.abs(scores).max() > max(_STANDARD_ERRORS, _LEAST_EFFECT * np.sqrt(len(codes))):
            return True
    return False
