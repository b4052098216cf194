"""The steps of AdaBoost on plain arrays, and the state of a run."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hybridbn.errors import warn_user
from hybridbn.learning.ensemble import LazyNetwork, LazyNetworks
from hybridbn.network import Network
from hybridbn.variables import Codes, Values

__all__ = [
    "FLOOR",
    "PERFECT",
    "BoostingRun",
    "EarlyStopping",
    "Exponent",
    "Factors",
    "MarginSums",
    "Round",
    "count_draws",
    "draw_bootstrap_weights",
    "line_search",
    "measure_margins",
    "vote_of",
]

FLOOR = 1e-8
"""The least weight of a row, as a multiple of its initial weight (Ting and Zheng, section 2)."""
PERFECT = math.log(1e10)
"""The vote of a network without errors (Ting and Zheng, section 2)."""
HALF = 0.5 - 1e-12
"""Errors from here on count as one half, which a network has on the weights that its own errors led to."""
NO_LOG_ODDS = 1e-9
"""Mean log-odds below this are rounding errors, as they remain when there is nothing left to learn."""
_ORDERS = 9
"""The slope of a sum of exponentials is continued by a Taylor series of so many terms."""
_FACTORIALS = np.array([math.factorial(order) for order in range(_ORDERS)], dtype=float)
_NEAR, _FAR = 0.02, 2.0
"""The series is exact up to rounding errors within the former, and is of use within the latter, divided by what the
exponentials multiply.
"""
_BLOCK = 2**16
"""A bootstrap sample is drawn in blocks of this many rows, to save memory."""


def vote_of(error: float) -> float:
    r"""Return the vote of a network: :math:`\log((1-\epsilon)/\epsilon)`.

    Examples
    --------
    >>> round(vote_of(0.25), 4), vote_of(0.0) == PERFECT
    (1.0986, True)
    """
    return PERFECT if error == 0 else math.log1p(-error) - math.log(error)


@dataclass(frozen=True)
class Factors:
    r"""How weights change in AdaBoost.M1: eqs. 2 and 3 of Ting and Zheng (2003).

    .. math:: w_{t+1} = w_t / (2 \epsilon) \text{ where wrong, else } w_t / (2 (1 - \epsilon))

    Examples
    --------
    >>> Factors.of(0.25)(np.ones(4), np.array([-1.0, 1.0, 1.0, 1.0]))
    array([2.        , 0.66666667, 0.66666667, 0.66666667])
    """

    up: float
    down: float

    @classmethod
    def of(cls, error: float) -> Factors:
        """Return the factors that the share of the weight that a network gets wrong leads to."""
        return cls(1 / (2 * error), 1 / (2 * (1 - error)))

    def __call__(self, weights: Values, outcome: Values) -> Values:
        """Return the next weights, given numbers with a sign bit where the network is wrong."""
        return np.asarray(weights * np.where(np.signbit(outcome), self.up, self.down))


@dataclass(frozen=True)
class Exponent:
    r"""How weights change in Real AdaBoost: :math:`w_{t+1} = w_t e^{-\alpha_t y h_t / 2 - c}`.

    Examples
    --------
    >>> Exponent(np.log(3), np.log(3) / 2)(np.ones(2), np.array([-1.0, 1.0])).round(3)
    array([1.   , 0.333])
    """

    vote: float
    constant: float

    def __call__(self, weights: Values, outcome: Values) -> Values:
        """Return the next weights, given the margins."""
        # more than this have rows without weight only
        return np.asarray(weights * np.exp(np.minimum(-self.vote / 2 * outcome - self.constant, 700.0)))


def draw_bootstrap_weights(rng: np.random.Generator, rows: int, base: Values | None) -> Values:
    """Return the weights of a bootstrap sample: how often each row is drawn, scaled to the sum of the initial weights.

    Examples
    --------
    >>> draw_bootstrap_weights(np.random.default_rng(0), 5, None)
    array([0., 2., 1., 1., 1.])
    """
    if base is None:
        return count_draws(rng, rows).astype(float)
    if (base == base[0]).all():
        return np.asarray(count_draws(rng, rows) * base[0])
    counts, cumulative = np.zeros(rows), np.cumsum(base)
    for start in range(0, rows, _BLOCK):
        drawn = rng.random(min(_BLOCK, rows - start)) * cumulative[-1]
        rows_drawn = np.minimum(np.searchsorted(cumulative, drawn, side="right"), rows - 1)
        np.add.at(counts, rows_drawn, 1.0)
    counts *= cumulative[-1] / rows
    return counts


def count_draws(rng: np.random.Generator, rows: int) -> NDArray[np.uint8]:
    """Return how often each row is drawn in a bootstrap sample of rows of equal weight, in a byte a row."""
    counts = np.zeros(rows, np.uint8)
    for start in range(0, rows, _BLOCK):
        np.add.at(counts, rng.integers(0, rows, min(_BLOCK, rows - start)), np.uint8(1))
    return counts


@dataclass(frozen=True)
class MarginSums:
    r"""What the search for a vote asks of rows: sums that add up.

    Attributes
    ----------
    vote : float
        The :math:`\alpha` at which the moments are taken.
    shift : float
        The greatest exponent :math:`-\alpha m / 2`.
    moments : ndarray (orders,)
        The sums of :math:`w (-m/2)^k e^{-\alpha m / 2}`, divided by the exponential of the shift.
    sums : ndarray (4,)
        Of the weights, of weighted margins, of their sizes, and of the weights of wrong rows.
    margins : tuple of float
        The least and the greatest margin of rows with weight.
    least : float
        The logarithm of the least of :math:`e^{-\alpha m / 2} w`, in units of the initial weights.
    """

    vote: float
    shift: float
    moments: Values
    sums: Values
    margins: tuple[float, float]
    least: float

    def __add__(self, other: MarginSums) -> MarginSums:
        shift = max(self.shift, other.shift)
        moments = np.zeros(_ORDERS)
        for one in (self, other):
            if one.shift > -np.inf:
                moments = moments + one.moments * math.exp(one.shift - shift)
        margins = min(self.margins[0], other.margins[0]), max(self.margins[1], other.margins[1])
        return MarginSums(self.vote, shift, moments, self.sums + other.sums, margins, min(self.least, other.least))

    @property
    def radius(self) -> float:
        """How large -m/2 is in the rows that matter."""
        return math.pow(self.moments[-1] / self.moments[0], 1 / (_ORDERS - 1))

    def _slope(self, step: float) -> float:
        return float(np.polynomial.polynomial.polyval(step, self.moments[1:] / _FACTORIALS[:-1]))

    def find_step(self) -> float:
        """Return how far the minimum is from the vote, in units of the radius, by a Taylor series; or the limit of what
        the series can tell.
        """
        from scipy.optimize import brentq

        most = _FAR / self.radius
        if self._slope(-most) >= 0:
            return -_FAR
        if self._slope(most) <= 0:
            return _FAR
        return float(brentq(self._slope, -most, most, xtol=1e-15, rtol=1e-14)) * self.radius

    def log_sum(self, vote: float) -> float:
        """Return log Z at a vote near by."""
        powers = self.moments / _FACTORIALS
        return self.shift + math.log(float(np.polynomial.polynomial.polyval(vote - self.vote, powers)))

    def bound_weights(self, vote: float) -> float:
        """Return a lower bound of the logarithms of the next weights before they are scaled."""
        return self.least - abs(vote - self.vote) * max(map(abs, self.margins)) / 2


def measure_margins(weights: Values, base: Values, margins: Values, vote: float) -> MarginSums:
    """Return the sums that the search for a vote needs; a sign bit tells that a row is wrong."""
    kept = weights > 0
    own, halves = weights[kept], margins[kept] / -2
    wrong = float(own[np.signbit(margins[kept])].sum())
    sums = np.array([own.sum(), -2 * (own @ halves), 2 * (own @ np.abs(halves)), wrong])
    exponents = vote * halves
    shift = float(exponents.max(initial=-np.inf))
    tilted = own * np.exp(exponents - shift)
    moments = np.empty(_ORDERS)
    for order in range(_ORDERS):
        moments[order] = tilted.sum()
        tilted *= halves
    extremes = -2 * float(halves.max(initial=-np.inf)), -2 * float(halves.min(initial=np.inf))
    least = float((np.log(own / base[kept]) + exponents).min(initial=np.inf)) if kept.all() else -np.inf
    return MarginSums(vote, shift, moments, sums, extremes, least)


def line_search(measure: Callable[[float], MarginSums]) -> tuple[float, MarginSums]:
    r"""Return the vote that minimizes :math:`Z(\alpha) = \sum w e^{-\alpha m / 2}`, m being the margins :math:`y h`.

    Zero where no positive vote lowers Z, or where margins are mere rounding errors, which a vote would only enlarge.
    Where no margin is negative, Z has no minimum; then the mean weighted margin becomes the vote of a perfect network.

    Parameters
    ----------
    measure : callable
        From a vote to its `MarginSums`: a pass over the rows, of which few are needed, because the slope is continued
        by a Taylor series.

    Returns
    -------
    vote : float
    sums : MarginSums
        The last that were measured, at a vote near by where the vote is a minimum.

    Examples
    --------
    >>> def measure(vote, weights=np.array([3.0, 1.0]), margins=np.array([2.0, -2.0])):
    ...     return measure_margins(weights, np.ones(2), margins, vote)
    >>> round(line_search(measure)[0], 6)  # log(3) / 2
    0.549306
    """
    sums = measure(1.0)
    total, mean, size, _ = sums.sums
    if not mean > 1e-12 * size or size < NO_LOG_ODDS * total:
        return 0.0, sums
    limit = PERFECT / float(size / total)
    if sums.margins[0] >= 0:
        return limit, sums
    low, high, reach = 0.0, limit, 1.0
    while True:
        if sums.moments[1] < 0:
            low = max(low, sums.vote)
        else:
            high = min(high, sums.vote)
        if low >= limit or high - low <= 1e-13 * high:
            return min(low, limit), sums
        step = sums.find_step()
        # where the minimum is farther than the series tells, steps grow
        reach = 4 * reach if abs(step) == _FAR else 1.0
        vote = sums.vote + reach * step / sums.radius
        if low <= vote <= high and abs(step) <= _NEAR:
            return vote, sums
        if not low < vote < high:
            # beyond the limit nothing is sought, but perhaps there
            vote = limit if vote >= high == limit else (low + high) / 2
        sums = measure(vote)


@dataclass(frozen=True)
class Round:
    """The state of boosting after a round, for progress callbacks.

    Attributes
    ----------
    number, rounds : int
        The number of the round, from 1, and the number of rounds in all.
    network : Network
    error : float
        The weighted share of rows that the network classifies wrongly.
    vote : float
    restarts : int
        The number of restarts so far.
    held_out : float or None
        The ensemble's error on the held-out rows, where there are any.
    """

    number: int
    rounds: int
    network: Network
    error: float
    vote: float
    restarts: int
    held_out: float | None
    _weights: Callable[[], Values] = field(repr=False)

    @property
    def weights(self) -> Values:
        """The weights with which the next network is learned; rows that don't count have none."""
        return self._weights()


@dataclass
class EarlyStopping:
    """The ensemble's error on held-out rows after each network, for early stopping."""

    score: Callable[[Network, float], Values]
    target: Codes
    weights: Values
    patience: int
    total: Values | None = None
    errors: list[float] = field(default_factory=list)

    def add(self, network: Network, vote: float) -> float:
        """Add a network's scores and return the error."""
        scores = self.score(network, vote)
        self.total = scores if self.total is None else self.total + scores
        self.errors.append(float(np.average(self.total.argmax(axis=0) != self.target, weights=self.weights)))
        return self.errors[-1]

    @property
    def best(self) -> int:
        """The number of networks with the least error."""
        return int(np.argmin(self.errors)) + 1

    @property
    def is_over(self) -> bool:
        """Whether the error has not fallen for as many rounds as `patience` allows."""
        return bool(self.errors) and len(self.errors) - self.best >= self.patience


@dataclass
class BoostingRun:
    """The networks, votes and errors of a run so far."""

    rounds: int
    max_restarts: int
    progress: Callable[[Round], Any] | None = None
    stopping: EarlyStopping | None = None
    networks: list[LazyNetwork] = field(default_factory=list)
    votes: list[float] = field(default_factory=list)
    errors: list[float] = field(default_factory=list)
    restarts: int = 0
    first_rejected: tuple[LazyNetwork, float] | None = None
    ran_out_of_restarts: bool = False
    report: Callable[[int, str], None] | None = None

    @property
    def has_more(self) -> bool:
        """Whether another round follows."""
        full = len(self.networks) >= self.rounds or (self.stopping is not None and self.stopping.is_over)
        return not full and not self.ran_out_of_restarts

    def add(self, network: LazyNetwork, error: float, vote: float, weights: Callable[[], Values]) -> None:
        """Add a network, or a function that makes it."""
        if not isinstance(network, Network) and (self.stopping or self.progress):
            network = network()
        self.networks.append(network)
        self.votes.append(vote)
        self.errors.append(error)
        if self.report is not None:
            self.report(len(self.networks), f"error {error:.4f}")
        if isinstance(network, Network):
            held_out = None if self.stopping is None else self.stopping.add(network, vote)
            if self.progress is not None:
                number = len(self.networks)
                self.progress(Round(number, self.rounds, network, error, vote, self.restarts, held_out, weights))

    def reject(self, network: LazyNetwork, error: float) -> None:
        """Discard a network and restart; the very first one is kept in case that no other follows."""
        if self.first_rejected is None:
            self.first_rejected = (network, error)
        self.restart()

    def restart(self) -> None:
        """Count a restart from a bootstrap sample; too many of them end the run."""
        if self.restarts >= self.max_restarts:
            self.ran_out_of_restarts = True
        else:
            self.restarts += 1

    def finish(self) -> tuple[LazyNetworks, list[float], list[float]]:
        """Return networks, votes and errors; warn if the restarts were not enough."""
        if self.ran_out_of_restarts:
            warn_user(
                f"boosting ended after {len(self.networks)} of {self.rounds} rounds, as "
                f"max_restarts={self.max_restarts} restarts "
                "were not enough: networks err on half of the weight or more, or never"
                + ("" if self.networks else "; the ensemble is the first network alone, with a vote of 1"),
            )
        if not self.networks and self.first_rejected is not None:
            network, error = self.first_rejected
            return LazyNetworks([network]), [1.0], [error]
        count = len(self.networks) if self.stopping is None else self.stopping.best
        return LazyNetworks(self.networks[:count]), self.votes[:count], self.errors[:count]
