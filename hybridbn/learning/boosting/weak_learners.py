"""The rounds of AdaBoost over any builder, by passes over the rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import numpy as np

from hybridbn.learning.boosting.rounds import (
    FLOOR,
    HALF,
    BoostingRun,
    Exponent,
    Factors,
    MarginSums,
    line_search,
    measure_margins,
    vote_of,
)
from hybridbn.learning.boosting.sample_weights import Margins, SampleWeights, Step, initial_weights
from hybridbn.learning.ensemble import ClassScorer, LazyNetwork
from hybridbn.network import Network
from hybridbn.options import Options
from hybridbn.tables import Rows, Table
from hybridbn.variables import Codes, Values

__all__ = ["BuiltLearner", "Outcome", "WeakLearner", "run_rounds"]

_SCORER = "scorer of boosted rows"
_MOST_LOG_ODDS = 690.0
"""Log-odds are clipped to this, which is that of a probability of 1e-300."""


@dataclass(frozen=True)
class Outcome:
    """What becomes of a round.

    Attributes
    ----------
    network : Network or function that makes it
    error : float
        The share of the weight that the network gets wrong.
    vote : float
        Not positive where the network does not count.
    weights : SampleWeights or None
        Those of the next round; None where boosting starts anew.
    """

    network: LazyNetwork
    error: float
    vote: float
    weights: SampleWeights | None


class WeakLearner(Protocol):
    """Learns a network in each round, and how the weights change after it."""

    def learn(self, weights: SampleWeights) -> Outcome:
        """Return what becomes of a round with these weights of the rows."""


def run_rounds(
    rows: Rows, learner: WeakLearner, weights: SampleWeights, run: BoostingRun, rng: np.random.Generator
) -> None:
    """Run AdaBoost; `run` gets the networks."""
    while run.has_more:
        outcome = learner.learn(weights)
        network, error, vote = outcome.network, outcome.error, outcome.vote
        if vote <= 0:
            run.reject(network, error)
            weights = weights.restart(rows, rng)
            continue
        if outcome.weights is None:
            run.restart()
        weights = weights.restart(rows, rng) if outcome.weights is None else outcome.weights
        run.add(network, error, vote, partial(weights.list_all, rows))


@dataclass
class BuiltLearner:
    """Any builder. A round is what the builder needs, and a pass for the margins; Real AdaBoost searches for its vote
    in a few passes over what was noted, and both take one more where a weight falls below the floor.

    Attributes
    ----------
    rows : Rows
    target : str
    build : callable
        From weighted rows to a network.
    options : Options
    real : bool
        Whether margins are log-odds, and not signs.
    """

    rows: Rows
    target: str
    build: Callable[[Any], Network]
    options: Options
    real: bool
    number: int = 0

    def learn(self, weights: SampleWeights) -> Outcome:
        """Build a network from the weighted rows."""
        network = self.build(self.rows.weigh_rows(weights))
        self.number += 1
        margins = NetworkMargins(network, self.target, self.options, self.real)
        advance = self._advance_real if self.real else self._advance_m1
        return Outcome(network, *advance(weights, margins))

    def _advance_m1(self, weights: SampleWeights, margins: Margins) -> tuple[float, float, SampleWeights | None]:
        split = self.rows.learn(partial(_split, weights, self.number, margins))
        right, wrong = map(float, split.sums)
        total = self.rows.total_weight
        error = wrong / total
        if error >= HALF:
            return error, 0.0, None
        if error == 0:
            return error, vote_of(error), None
        change = Factors.of(error)
        following = weights.add(Step(self.number, margins, change))
        low = split.bound_next(change) < FLOOR
        share = following.find_share(self.rows) if low else total / (wrong * change.up + right * change.down)
        return error, vote_of(error), following.scale(share)

    def _advance_real(self, weights: SampleWeights, margins: Margins) -> tuple[float, float, SampleWeights | None]:
        total = self.rows.total_weight
        vote, sums = line_search(lambda vote: self.rows.learn(partial(_measure, weights, self.number, margins, vote)))
        error = float(sums.sums[3]) / total
        if vote <= 0 or sums.margins[0] >= 0:
            return error, vote, None
        constant = sums.log_sum(vote) - float(np.log(total))
        following = weights.add(Step(self.number, margins, Exponent(vote, constant)))
        if sums.bound_weights(vote) - constant < np.log(FLOOR):
            following = following.scale(following.find_share(self.rows))
        return error, vote, following


@dataclass(frozen=True)
class NetworkMargins:
    """Computes the margins of a network, or their signs, with a sign bit where the network is wrong.

    Attributes
    ----------
    network : Network
    target : str
    options : Options
    real : bool
        Return margins, and not signs.
    """

    network: Network
    target: str
    options: Options
    real: bool

    def __call__(self, batch: Table) -> Values:
        """Return margins or signs."""
        scorer = batch.remembered.get(_SCORER)
        if scorer is None:
            # one reads the rows for all networks
            scorer = batch.remembered[_SCORER] = ClassScorer(self.target, batch.with_weights(None), self.options)
        log_joint, truth = scorer.log_joint(self.network), batch.column(self.target)
        wrong = _classify(log_joint) != truth
        if not self.real:
            return np.where(wrong, -1.0, 1.0)
        odds = np.clip(np.nan_to_num(log_joint[1] - log_joint[0], nan=0.0), -_MOST_LOG_ODDS, _MOST_LOG_ODDS)
        return np.asarray(np.copysign(odds, np.where(wrong, -1.0, 1.0)))


def _classify(log_joint: Values) -> Codes:
    """Return the most probable class of each row, -1 where the row is impossible."""
    impossible = np.isnan(log_joint[0])
    return np.where(impossible, -1, np.where(impossible, 0.0, log_joint).argmax(axis=0))


@dataclass(frozen=True)
class Split:
    """The weight of the rows that a network gets right and wrong, and their least relative weights."""

    sums: Values
    least: Values

    def __add__(self, other: Split) -> Split:
        return Split(self.sums + other.sums, np.minimum(self.least, other.least))

    def bound_next(self, change: Factors) -> float:
        """Return the least relative weight after a change."""
        return float(min(self.least[0] * change.down, self.least[1] * change.up))


def split_weights(weights: Values, initial: Values, margins: Values) -> Split:
    """Return the weights by whether a network is right.

    Examples
    --------
    >>> split_weights(np.array([1.0, 2.0, 4.0]), np.ones(3), np.array([1.0, -1.0, 1.0]))
    Split(sums=array([5., 2.]), least=array([1., 2.]))
    """
    wrong = np.signbit(margins)
    halves = [(weights[rows], initial[rows]) for rows in (~wrong, wrong)]
    least = [(own / before).min(initial=np.inf) for own, before in halves]
    return Split(np.array([own.sum() for own, _ in halves]), np.array(least))


def _split(weights: SampleWeights, number: int, margins: Margins, batch: Table, first: int) -> Split:
    own, outcome = weights.judge(batch, first, number, margins)
    return split_weights(own, initial_weights(batch), outcome)


def _measure(
    weights: SampleWeights, number: int, margins: Margins, vote: float, batch: Table, first: int
) -> MarginSums:
    own, outcome = weights.judge(batch, first, number, margins)
    return measure_margins(own, initial_weights(batch), outcome, vote)
