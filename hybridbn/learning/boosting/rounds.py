"""The steps of AdaBoost on plain arrays, and the record of its rounds."""

from __future__ import annotations

import math
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hybridbn.learning.ensemble import Member, Members
from hybridbn.network import Network
from hybridbn.variables import Codes, Values

__all__ = [
    "FLOOR",
    "PERFECT",
    "Record",
    "Round",
    "Stopping",
    "bootstrapped",
    "line_search",
    "reweighted",
    "reweighted_by_margin",
    "show_bar",
    "vote_of",
]

FLOOR = 1e-8
"""Least weight of a row, in units of what it counts by itself (Ting and Zheng, section 2)."""
PERFECT = math.log(1e10)
"""The vote of a network without errors (ibid.)."""
HALF = 0.5 - 1e-12
"""An error of one half, but for rounding: what a network has on the weights that its own errors led to."""
NOTHING = 1e-9
"""Log-odds of this size are what rounding leaves when there is nothing left to learn."""
_DRAWS = 2**16
"""Of a bootstrap sample at a time."""


def vote_of(error: float) -> float:
    r"""Return the vote of a network: :math:`\log((1-\epsilon)/\epsilon)`.

    Examples
    --------
    >>> round(vote_of(0.25), 4), vote_of(0.0) == PERFECT
    (1.0986, True)
    """
    return PERFECT if error == 0 else math.log1p(-error) - math.log(error)


def reweighted(weights: Values, base: Values, wrong: NDArray[np.bool_], error: float) -> Values:
    r"""Return the weights for the next round: eqs. 2 and 3 of Ting and Zheng (2003), with their floor.

    .. math:: w_{t+1} = w_t / (2 \epsilon) \text{ where wrong, else } w_t / (2 (1 - \epsilon))

    Parameters
    ----------
    weights, base : ndarray (rows,)
        The present weights, and what the rows count by themselves. The result has the sum of the latter.
    wrong : ndarray of bool (rows,)
    error : float

    Examples
    --------
    >>> reweighted(np.ones(4), np.ones(4), np.array([True, False, False, False]), 0.25)
    array([2.        , 0.66666667, 0.66666667, 0.66666667])
    """
    return _normalized(weights * np.where(wrong, 1 / (2 * error), 1 / (2 * (1 - error))), base)


def reweighted_by_margin(weights: Values, base: Values, margins: Values, vote: float) -> Values:
    r"""Return the weights for the next round of Real AdaBoost: :math:`w_{t+1} \propto w_t e^{-\alpha_t y h_t / 2}`.

    Examples
    --------
    >>> reweighted_by_margin(np.ones(2), np.ones(2), np.array([-1.0, 1.0]), np.log(3)).round(3)
    array([1.5, 0.5])
    """
    exponents = -vote / 2 * margins
    grown = weights * np.exp(exponents - exponents.max())
    # the floor is one of weights that sum to what the rows count
    return _normalized(grown * (base.sum() / grown.sum()), base)


def _normalized(weights: Values, base: Values) -> Values:
    floored = np.maximum(weights, FLOOR * base)
    return np.asarray(floored * (base.sum() / floored.sum()))


def bootstrapped(rng: np.random.Generator, rows: int, base: Values | None) -> Values:
    """Return how often each row is drawn, in as many draws as there are rows, times what makes it sum to the base's.

    Examples
    --------
    >>> bootstrapped(np.random.default_rng(0), 5, None)
    array([0., 2., 1., 1., 1.])
    """
    counts = np.zeros(rows)
    if base is not None and (base == base[0]).all():
        counts = bootstrapped(rng, rows, None)
        counts *= base[0]
        return counts
    cumulative = None if base is None else np.cumsum(base)
    for start in range(0, rows, _DRAWS):
        many = min(_DRAWS, rows - start)
        if cumulative is None:
            drawn = rng.integers(0, rows, many)
        else:
            drawn = np.minimum(np.searchsorted(cumulative, rng.random(many) * cumulative[-1], side="right"), rows - 1)
        np.add.at(counts, drawn, 1.0)
    if cumulative is not None:
        counts *= cumulative[-1] / rows
    return counts


def line_search(weights: Values, margins: Values) -> float:
    r"""Return the vote that minimizes :math:`Z(\alpha) = \sum w e^{-\alpha m / 2}`, m being the margins :math:`y h`.

    Zero where no positive one is better than none, or where margins are hardly more than rounding errors, which a vote would only
    make large; the vote whose mean half margin is that of a perfect network's vote where
    no margin is negative, as Z then falls for ever.

    Examples
    --------
    >>> round(line_search(np.array([3.0, 1.0]), np.array([2.0, -2.0])), 6)  # log(3) / 2
    0.549306
    >>> line_search(np.ones(2), np.array([1.0, -3.0]))
    0.0
    """
    kept = weights > 0
    weights, margins = weights[kept] / weights.sum(), margins[kept]
    size = float(weights @ np.abs(margins))
    if not weights @ margins > 1e-12 * size or size < NOTHING:
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
    """What a progress callback is told after each round.

    Attributes
    ----------
    number, rounds : int
        Which round this was, from 1, and how many there are to be.
    network : Network
    error : float
        Weighted share of the rows that the network gets wrong.
    vote : float
    restarts : int
        Up to here.
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
        """The rows' weights that the next network is learned with; rows that don't count have none."""
        return self._weights()


@dataclass
class Stopping:
    """Early stopping: the ensemble's error on held-out rows, network by network."""

    score: Callable[[Network, float], Values]
    target: Codes
    weights: Values
    patience: int
    total: Values | None = None
    errors: list[float] = field(default_factory=list)

    def add(self, network: Network, vote: float) -> float:
        """Add a network's scores and return the error."""
        own = self.score(network, vote)
        self.total = own if self.total is None else self.total + own
        self.errors.append(float(np.average(self.total.argmax(axis=0) != self.target, weights=self.weights)))
        return self.errors[-1]

    @property
    def best(self) -> int:
        """How many networks make the least error."""
        return int(np.argmin(self.errors)) + 1

    @property
    def enough(self) -> bool:
        """Whether the error did not fall for too long."""
        return bool(self.errors) and len(self.errors) - self.best >= self.patience


@dataclass
class Record:
    """The networks of a run so far; `add`, `restart` and `reject` are what happens to a network."""

    rounds: int
    max_restarts: int
    progress: Callable[[Round], Any] | None = None
    stopping: Stopping | None = None
    networks: list[Member] = field(default_factory=list)
    votes: list[float] = field(default_factory=list)
    errors: list[float] = field(default_factory=list)
    restarts: int = 0
    spare: tuple[Member, float] | None = None
    capped: bool = False

    @property
    def more(self) -> bool:
        """Whether there is to be another round."""
        full = len(self.networks) >= self.rounds or (self.stopping is not None and self.stopping.enough)
        return not full and not self.capped

    def add(self, network: Member, error: float, vote: float, weights: Callable[[], Values]) -> None:
        """Keep a network, made or not."""
        if not isinstance(network, Network) and (self.stopping or self.progress):
            network = network()
        self.networks.append(network)
        self.votes.append(vote)
        self.errors.append(error)
        if isinstance(network, Network):
            held_out = None if self.stopping is None else self.stopping.add(network, vote)
            if self.progress is not None:
                number = len(self.networks)
                self.progress(Round(number, self.rounds, network, error, vote, self.restarts, held_out, weights))

    def reject(self, network: Member, error: float) -> None:
        """Note a network that is thrown away; the very first is kept in case that there is no other."""
        if self.spare is None:
            self.spare = (network, error)
        self.restart()

    def restart(self) -> None:
        """Note that the weights start anew from a bootstrap sample, or that there were too many such starts."""
        if self.restarts >= self.max_restarts:
            self.capped = True
        else:
            self.restarts += 1

    def finished(self) -> tuple[Members, list[float], list[float]]:
        """Return networks, votes and errors, warning where the restarts came to an end."""
        if self.capped:
            warnings.warn(
                f"boosting ended after {len(self.networks)} of {self.rounds} rounds, as max_restarts={self.max_restarts} restarts "
                "were not enough: networks err on half of the weight or more, or never"
                + ("" if self.networks else "; the ensemble is the first network alone, with a vote of 1"),
                UserWarning,
                stacklevel=5,
            )
        if not self.networks and self.spare is not None:
            network, error = self.spare
            return Members([network]), [1.0], [error]
        kept = len(self.networks) if self.stopping is None else self.stopping.best
        return Members(self.networks[:kept]), self.votes[:kept], self.errors[:kept]


def show_bar(done: Round) -> None:
    """Draw a bar on the standard error, as a progress callback."""
    filled = 30 * done.number // done.rounds
    end = "\n" if done.number == done.rounds else ""
    told = "" if done.held_out is None else f", held out {done.held_out:.4f}"
    bar = f"{'#' * filled:<30}"
    sys.stderr.write(f"\rboosting [{bar}] {done.number}/{done.rounds}, error {done.error:.4f}{told} {end}")
    sys.stderr.flush()
