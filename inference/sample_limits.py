"""Limits of ratios of means over weighted draws: that hold for any number of draws, and those of a large sample.

No weight exceeds a known bound, so that limits hold which follow from bets (Waudby-Smith & Ramdas 2024, "Estimating
means of bounded random variables by betting"): whoever bets against a wrong ratio gets rich, and whoever bets against
the right one becomes 1 / risk times as rich with at most the probability `risk`, whenever the draws stop. Where the
bound is far above the weights, these limits are wide, and beside them stand normal ones, unless the tail of the weights
is too heavy for these (Vehtari, Simpson, Gelman, Yao & Gabry 2024, "Pareto smoothed importance sampling").
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from hybridbn.variables import Values

__all__ = ["AsymptoticLimits", "BettingLimits", "SampleMoments", "estimate_tail"]

DEVIATIONS = 2.5
"""Asymptotic intervals have so many standard errors on either side."""
BOLDEST, BETS = 0.9, 12
"""The boldest bet risks that part of what there is, and each of the others half of the one before."""
STAKES = np.array([0.5] + [0.5 / (BETS - 1)] * (BETS - 1))
"""The parts of the capital that are for each bet: half for the boldest, which is the best one where limits are wide."""
FEWEST_IN_TAIL = 5
"""A tail of fewer weights is not assessed."""
_BISECTIONS = 40


class SampleMoments(NamedTuple):
    """For a table over a scope, the sums over draws of weight times value, and of the products of their squares."""

    first: Values
    mixed: Values
    second: Values

    def rescale(self, factor: float) -> None:
        """Multiply all weights by a factor."""
        self.first.__imul__(factor)
        self.mixed.__imul__(factor**2)
        self.second.__imul__(factor**2)


@dataclass(frozen=True)
class AsymptoticLimits:
    """Normal limits of ratios of means, as if one draw more, as heavy as the heaviest, had the worst value.

    Attributes
    ----------
    total, squares : the sums of the draws' weights, the largest of which is one, and of the squares of these
    """

    total: float
    squares: float

    def bound_ratio(self, moments: SampleMoments) -> tuple[Values, Values]:
        """Return the limits of the ratios."""
        p = moments.first / self.total
        squares = np.maximum(moments.second - 2 * p * moments.mixed + p**2 * self.squares, 0.0)
        half = DEVIATIONS * np.sqrt(squares) / self.total
        low, high = moments.first / (self.total + 1) - half, (moments.first + 1) / (self.total + 1) + half
        return np.maximum(low, 0.0), np.minimum(high, 1.0)


@dataclass(frozen=True)
class BettingLimits:
    """Limits that hold for any number of draws, also for one that depends on them, if no weight exceeds `reach`.

    Attributes
    ----------
    count : the number of draws
    total, squares : as in `AsymptoticLimits`
    reach : in units of the largest weight drawn
    risk : that the limits of one ratio do not hold
    """

    count: int
    total: float
    squares: float
    reach: float
    risk: float

    @property
    def least_width(self) -> float:
        """Half the width of the limits of a ratio whose values don't differ between draws."""
        if self.total == 0:
            return 0.5
        excess = self.reach * math.log(4 / self.risk) / (BOLDEST * self.total)
        return 0.5 * excess / (1 + excess)

    def bound_log_mean(self, log_scale: float, log_bound: float) -> tuple[float, float]:
        """Return the limits of the logarithm of the expected weight."""
        if self.total == 0:
            return -math.inf, log_bound
        mean, count = self.total / self.count, self.count
        # two bets, and Markov's inequality below: a mean is k times its expectation with at most the probability 1 / k
        risk = self.risk / 3

        def is_possible(logs: Values) -> NDArray[np.bool_]:
            means = np.exp(logs)
            surplus = self.total - count * means
            squares = np.maximum(self.squares - 2 * means * self.total + count * means**2, 0.0)
            least = np.where(surplus > 0, means, np.maximum(self.reach - means, means * 1e-12))
            return _get_rich(np.abs(surplus), squares, least) < -math.log(risk)

        start = np.log([mean])
        low = _bisect(is_possible, start, np.log([risk * mean]))[0]
        high = _bisect(is_possible, start, np.log([max(self.reach, mean)]))[0]
        return log_scale + float(low), min(log_scale + float(high), log_bound)

    def bound_ratio(self, moments: SampleMoments) -> tuple[Values, Values]:
        """Return the limits of the ratios p: those against which a bet on w (t - p) does not make rich.

        Values t are between 0 and 1, so that w (t - p) is at least -p times the largest weight, and at most 1 - p times
        that.
        """
        if self.total == 0:
            return np.zeros_like(moments.first), np.ones_like(moments.first)
        level = math.log(2 / self.risk)

        def is_possible(p: Values) -> NDArray[np.bool_]:
            surplus = moments.first - p * self.total
            squares = np.maximum(moments.second - 2 * p * moments.mixed + p**2 * self.squares, 0.0)
            least = self.reach * np.where(surplus > 0, p, 1 - p)
            return _get_rich(np.abs(surplus), squares, least) < level

        estimate = np.clip(moments.first / self.total, 0.0, 1.0)
        return _bisect(is_possible, estimate, np.zeros_like(estimate)), _bisect(
            is_possible, estimate, np.ones_like(estimate)
        )


def _get_rich(surplus: Values, squares: Values, least: Values) -> Values:
    r"""Return a lower bound on the logarithm of the average capital of bets on numbers which are at least `-least`.

    A bet that risks the part m has the capital :math:`\prod_i (1 + m s_i / c)`, and :math:`\log(1 + x) \ge x - x^2
    \psi(m) / m^2` for :math:`x \ge -m` with :math:`\psi(m) = -\log(1 - m) - m` (Fan, Grama & Liu 2015, "Exponential
    inequalities for martingales with applications").

    Parameters
    ----------
    surplus, squares : the sums of the numbers, and of their squares
    """
    bets = BOLDEST * 0.5 ** np.arange(BETS)
    shape = (BETS, *(1,) * np.ndim(surplus))
    divisor = np.where(least > 0, least, 1.0)
    scaled, spread = surplus / divisor, squares / divisor / divisor
    gains = bets.reshape(shape) * scaled + (np.log1p(-bets) + bets).reshape(shape) * spread
    capital = logsumexp(gains + np.log(STAKES).reshape(shape), axis=0)
    # whoever can lose nothing may bet all
    return np.asarray(np.where(surplus > 0, np.where(least > 0, capital, np.inf), -np.inf))


def _bisect(is_possible: Callable[[Values], NDArray[np.bool_]], inside: Values, outside: Values) -> Values:
    """Return the end of what is possible between points that are and others, or these where they are possible, too."""
    end, reached = outside, is_possible(outside)
    for _ in range(_BISECTIONS):
        middle = (inside + outside) / 2
        fine = is_possible(middle)
        inside, outside = np.where(fine, middle, inside), np.where(fine, outside, middle)
    return np.asarray(np.where(reached, end, outside))


def estimate_tail(log_weights: Values) -> float:
    """Return the shape of a generalized Pareto distribution of the largest weights (Zhang & Stephens 2009).

    Weights have a variance below 1/2; above 0.7 their mean is not known from any practical number of draws.

    Examples
    --------
    >>> levels = (np.arange(4000) + 0.5) / 4000
    >>> [round(estimate_tail(-shape * np.log(levels)), 1) for shape in (0.3, 0.9)]
    [0.3, 0.9]
    """
    count = len(log_weights)
    size = math.ceil(min(0.2 * count, 3 * math.sqrt(count)))
    if size < FEWEST_IN_TAIL or not np.isfinite(log_weights).any():
        return math.inf
    largest = np.sort(np.partition(log_weights, count - size - 1)[count - size - 1 :])
    weights = np.exp(largest - largest[-1])
    excess = weights[1:] - weights[0]
    if excess[-1] <= 0:
        return -math.inf
    # the profile likelihood of the scale over a grid around its first quartile, averaged by its weights
    points = 30 + int(math.sqrt(size))
    quartile = max(float(excess[max(int(size / 4 + 0.5) - 1, 0)]), float(excess[-1]) * 1e-12)
    grid = 1 / excess[-1] + (1 - np.sqrt(points / (np.arange(points) + 0.5))) / (3 * quartile)
    shapes = np.log1p(-grid[:, None] * excess).mean(axis=1)
    profile = size * (np.log(-grid / shapes) - shapes - 1)
    scale = float(np.sum(grid * np.exp(profile - logsumexp(profile))))
    shape = float(np.log1p(-scale * excess).mean())
    # a weak prior at 1/2, because the tail is short
    return (size * shape + 10 * 0.5) / (size + 10)
