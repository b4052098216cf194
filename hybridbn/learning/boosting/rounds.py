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
    "Round",
    "draw_bootstrap_weights",
    "line_search",
    "reweight",
    "reweight_by_margin",
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


def reweight(weights: Values, base: Values, wrong: NDArray[np.bool_], error: float) -> Values:
    r"""Return the weights for the next round: eqs. 2 and 3 of Ting and Zheng (2003), with their floor.

    .. math:: w_{t+1} = w_t / (2 \epsilon) \text{ where wrong, else } w_t / (2 (1 - \epsilon))

    Parameters
    ----------
    weights, base : ndarray (rows,)
        The present and the initial weights. The result has the sum of the latter.
    wrong : ndarray of bool (rows,)
    error : float

    Examples
    --------
    >>> reweight(np.ones(4), np.ones(4), np.array([True, False, False, False]), 0.25)
    array([2.        , 0.66666667, 0.66666667, 0.66666667])
    """
    return _normalize(weights * np.where(wrong, 1 / (2 * error), 1 / (2 * (1 - error))), base)


def reweight_by_margin(weights: Values, base: Values, margins: Values, vote: float) -> Values:
    r"""Return the weights for the next round of Real AdaBoost: :math:`w_{t+1} \propto w_t e^{-\alpha_t y h_t / 2}`.

    Examples
    --------
    >>> reweight_by_margin(np.ones(2), np.ones(2), np.array([-1.0, 1.0]), np.log(3)).round(3)
    array([1.5, 0.5])
    """
    exponents = -vote / 2 * margins
    scaled = weights * np.exp(exponents - exponents.max())
    # the floor is defined for weights with the sum of the initial ones
    return _normalize(scaled * (base.sum() / scaled.sum()), base)


def _normalize(weights: Values, base: Values) -> Values:
    floored = np.maximum(weights, FLOOR * base)
    return np.asarray(floored * (base.sum() / floored.sum()))


def draw_bootstrap_weights(rng: np.random.Generator, rows: int, base: Values | None) -> Values:
    """Return the weights of a bootstrap sample: how often each row is drawn, scaled to the sum of the initial weights.

    Examples
    --------
    >>> draw_bootstrap_weights(np.random.default_rng(0), 5, None)
    array([0., 2., 1., 1., 1.])
    """
    counts = np.zeros(rows)
    if base is not None and (base == base[0]).all():
        counts = draw_bootstrap_weights(rng, rows, None)
        counts *= base[0]
        return counts
    cumulative = None if base is None else np.cumsum(base)
    for start in range(0, rows, _BLOCK):
        size = min(_BLOCK, rows - start)
        if cumulative is None:
            rows_drawn = rng.integers(0, rows, size)
        else:
            rows_drawn = np.minimum(
                np.searchsorted(cumulative, rng.random(size) * cumulative[-1], side="right"), rows - 1
            )
        np.add.at(counts, rows_drawn, 1.0)
    if cumulative is not None:
        counts *= cumulative[-1] / rows
    return counts


def line_search(weights: Values, margins: Values) -> float:
    r"""Return the vote that minimizes :math:`Z(\alpha) = \sum w e^{-\alpha m / 2}`, m being the margins :math:`y h`.

    Zero where no positive vote lowers Z, or where margins are mere rounding errors, which a vote would only enlarge.
    Where no margin is negative, Z has no minimum; then the mean weighted margin becomes the vote of a perfect network.

    Examples
    --------
    >>> round(line_search(np.array([3.0, 1.0]), np.array([2.0, -2.0])), 6)  # log(3) / 2
    0.549306
    >>> line_search(np.ones(2), np.array([1.0, -3.0]))
    0.0
    """
    is_positive = weights > 0
    weights, margins = weights[is_positive] / weights.sum(), margins[is_positive]
    size = float(weights @ np.abs(margins))
    if not weights @ margins > 1e-12 * size or size < NO_LOG_ODDS:
        return 0.0
    limit = PERFECT / size
    if margins.min() >= 0:
        return limit

    def slope(vote: float) -> float:
        exponents = -vote / 2 * margins
        return float(weights @ (margins * np.exp(exponents - exponents.max())))

    low, high = 0.0, min(1.0, limit)
    while slope(high) > 0 and high < limit:
        low, high = high, min(2 * high, limit)
    if slope(high) > 0:
        return high
    from scipy.optimize import brentq

    return float(brentq(slope, low, high, xtol=1e-13, rtol=1e-13))


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
