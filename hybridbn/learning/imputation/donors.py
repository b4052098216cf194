"""Donors: observed rows whose numbers, or whose residuals, fill the holes of a column.

Donors are the rows with the nearest predictions, or those that share leaves of a forest with the row, the more likely
the more trees they share (Meinshausen 2006). Predictions bring together rows of the same expectation. Leaves bring
together rows that are alike, which is better where more than the expectation depends on other columns, or where numbers
come in few combinations. Rows that a tree has not seen choose: what counts is the continuous ranked probability score
(Gneiting & Raftery 2007) of the numbers that each of them would get.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from hybridbn.learning.imputation.rule_search import is_heaped
from hybridbn.learning.imputation.stacked_regression import StackedFit, StackedRegression
from hybridbn.variables import Codes, Values

__all__ = [
    "SPIKE_SHARE",
    "ColumnMatcher",
    "DonorRule",
    "Leaves",
    "choose_donors",
    "match_numbers",
    "share_of_most_frequent",
]

SPIKE_SHARE = 0.1
"""A column in which one number has a larger share has a spike, so it isn't continuous."""
_NEAREST_ROWS, _NEAREST_SHARE = 5, 0.05
"""This many rows have the nearest predictions, or this share of all rows if that is more."""
_POWERS = (1.0, 2.0, 4.0)
"""Candidates for the power of the share of trees in which a row is in the same leaf."""
_MOST_DONORS = 2000
"""So many rows, evenly spread over the predictions, are donors in leaves."""
_HELD_OUT = 300
"""So many rows choose between donors."""
_LEAST_GAIN = 3.0
"""Leaves need a gain of so many standard errors."""
_SIDES: tuple[Literal["left"], Literal["right"]] = ("left", "right")
"""The two sides on which `numpy.searchsorted` inserts a number."""
_BEYOND = 2.0
"""Numbers lie beyond the observed ones by at most this multiple of their range: curves that end earlier bend slopes."""
_DISTANT = 0.1
"""Differences of predictions below this many standard deviations of the residuals are neglected."""
_ATTEMPTS = 20
"""Numbers that are outside of their limits are drawn again this often."""
_GOLDEN_RATIO = 0.6180339887498949
_WEIGHTS = 2_000_000
"""About so many weights of donors are in memory at the same time."""


class DonorRule(NamedTuple):
    """How donors of a column are chosen.

    Attributes
    ----------
    has_spikes : bool
        Whether some numbers are frequent, so that no residual is added to a prediction.
    power : float, optional
        Of the share of common leaves; None where the rows with the nearest predictions are donors.
    """

    has_spikes: bool
    power: float | None


@dataclass(frozen=True, eq=False)
class Leaves:
    """The donors in the leaves of a forest.

    Attributes
    ----------
    donors : ndarray (donors,)
        Their places among the rows that are sorted by prediction, in the order of their numbers, so that higher levels
        get higher numbers.
    starts, counts : ndarray (nodes,)
    members : ndarray
        The numbers of the donors in each leaf, one leaf after the other.
    power : float
    """

    donors: Codes
    starts: Codes
    counts: Codes
    members: Codes
    power: float

    @classmethod
    def of(cls, leaf: Codes, donors: Codes, nodes: int, power: float) -> Self:
        """Collect the donors in each leaf, given the leaves of each donor (trees, donors)."""
        flat = leaf.ravel()
        counts = np.bincount(flat, minlength=nodes)
        members = np.argsort(flat, kind="stable") % len(donors)
        return cls(donors, np.cumsum(counts) - counts, counts, members.astype(np.intp), power)

    def share(self, leaf: Codes, uses: NDArray[np.bool_] | None = None) -> Values:
        """Return how likely a random member of a random common leaf is each donor (rows, donors), but for a factor.

        Parameters
        ----------
        leaf : ndarray (trees, rows)
        uses : ndarray (rows, trees), optional
            Whether a tree counts for a row.
        """
        trees, rows = leaf.shape
        size, own = len(self.donors), leaf.T.ravel()
        counts = self.counts[own]
        first = np.cumsum(counts) - counts
        members = self.members[np.arange(int(counts.sum())) + np.repeat(self.starts[own] - first, counts)]
        weights = (np.ones(len(own)) if uses is None else uses.ravel()) / np.maximum(counts, 1)
        row = np.repeat(np.arange(rows), counts.reshape(rows, trees).sum(axis=1))
        total = np.bincount(row * size + members, np.repeat(weights, counts), rows * size)
        return np.asarray(total.reshape(rows, size), dtype=np.float64)

    def cumulate(self, shares: Values) -> Values:
        """Return the cumulated weights of the donors of each row; without any common leaf all are equally likely."""
        weights = shares if self.power == 1 else shares**self.power
        weights[~weights.any(axis=1)] = 1.0
        return np.asarray(np.cumsum(weights, axis=1))

    def to_dict(self) -> dict[str, Any]:
        """Return the content for a file."""
        return dict(vars(self))


@dataclass(frozen=True, eq=False)
class ColumnMatcher:
    """The matching of one column: the rows in which it is observed, sorted by their predictions.

    Attributes
    ----------
    regression : StackedRegression
    predictions, values, residuals : ndarray (rows,)
    tolerance : float
        Differences of predictions up to this are neglected; infinite for columns with spikes.
    low, high : float
        Somewhat beyond the range of all observed numbers; no drawn number lies outside.
    leaves : Leaves, optional
        The donors in leaves; without them the rows with the nearest predictions are donors.
    """

    regression: StackedRegression
    predictions: Values
    values: Values
    residuals: Values
    tolerance: float
    low: float
    high: float
    leaves: Leaves | None = None

    @property
    def is_curved(self) -> bool:
        """Whether anything but a straight line predicts."""
        return self.regression.is_curved

    def draw(self, features: Values, uniforms: Values, low: Values | float, high: Values | float) -> Values:
        """Draw a number within limits for each row of the features, given uniform numbers; NaN where there is none."""
        low, high = (np.broadcast_to(ends, len(features)) for ends in (low, high))
        drawn = np.full(len(features), np.nan)
        size = max(len(features) if self.leaves is None else _WEIGHTS // len(self.leaves.donors), 1)
        for start in range(0, len(features), size):
            part = slice(start, start + size)
            drawn[part] = self._draw_block(features[part], uniforms[part], low[part], high[part])
        return drawn

    def choose(self, features: Values) -> Values:
        """Return the number that most donors of a row have, NaN where more of them have numbers of their own."""
        numbers, codes, counts = np.unique(self.values, return_inverse=True, return_counts=True)
        chosen = np.full(len(features), np.nan)
        size = max(_WEIGHTS // len(self.values), 1)
        for start in range(0, len(features) if self.has_spikes else 0, size):
            part = features[start : start + size]
            if self.leaves is None:
                first, last = self._window(self.regression.predict(part)[:, 0])
                places = np.arange(len(self.values))
                weights = ((places >= first[:, None]) & (places < last[:, None])).astype(np.float64)
            else:
                places = self.leaves.donors
                cumulated = self.leaves.cumulate(self.leaves.share(self.regression.find_leaves(part)))
                weights = np.diff(cumulated, axis=1, prepend=0.0)
            key = np.arange(len(part))[:, None] * len(numbers) + codes[places]
            shares = np.bincount(key.ravel(), weights.ravel(), len(part) * len(numbers)).reshape(len(part), -1)
            alone = shares[:, counts == 1].sum(axis=1)
            shares[:, counts == 1] = 0.0
            chosen[start : start + size] = np.where(shares.max(axis=1) > alone, numbers[shares.argmax(axis=1)], np.nan)
        return chosen

    @property
    def has_spikes(self) -> bool:
        """Whether some numbers are frequent."""
        return bool(np.isinf(self.tolerance))

    def _draw_block(self, features: Values, uniforms: Values, low: Values, high: Values) -> Values:
        drawn, pending = np.full(len(features), np.nan), np.arange(len(features))
        if self.leaves is None:
            predicted = self.regression.predict(features)[:, 0]
        else:
            cumulated = self.leaves.cumulate(self.leaves.share(self.regression.find_leaves(features)))
        for attempt in range(_ATTEMPTS):
            # multiples of the golden ratio fill the interval evenly
            levels = np.modf(uniforms[pending] + attempt * _GOLDEN_RATIO)[0]
            if self.leaves is None:
                numbers = self.take(predicted[pending], self.find_near(predicted[pending], levels))
            else:
                own = cumulated[pending]
                place = (levels[:, None] * own[:, -1:] >= own).sum(axis=1)
                numbers = self.values[self.leaves.donors[np.minimum(place, own.shape[1] - 1)]]
            within = (numbers >= low[pending]) & (numbers <= high[pending])
            drawn[pending[within]] = numbers[within]
            pending = pending[~within]
            if not len(pending):
                break
        return drawn

    @property
    def near(self) -> int:
        """How many rows have the nearest predictions."""
        return min(max(_NEAREST_ROWS, int(_NEAREST_SHARE * len(self.values))), len(self.values))

    def find_near(self, predicted: Values, uniforms: Values) -> Codes:
        """Return the place of a donor with a near prediction for each row."""
        first, last = self._window(predicted)
        return np.asarray(first + np.floor(uniforms * (last - first)).astype(np.intp))

    def _window(self, predicted: Values) -> tuple[Codes, Codes]:
        """Return the first place of a near prediction and that behind the last one for each row."""
        left, right = (np.searchsorted(self.predictions, predicted, side) for side in _SIDES)
        first = np.clip((left + right - self.near) // 2, 0, len(self.values) - self.near)
        # all rows with the same prediction are equally near
        return np.minimum(first, left), np.maximum(first + self.near, right)

    def take(self, predicted: Values, chosen: Codes) -> Values:
        """Return the numbers of donors, or their residuals beside the predictions where these differ."""
        observed = self.values[chosen]
        # where no row has nearly the same prediction, a row's residual is taken instead of its number
        shifted = predicted + self.residuals[chosen]
        shift, inside = np.abs(predicted - self.predictions[chosen]), np.clip(shifted, self.low, self.high)
        # at the ends of the range a number of a row that is farther away than residuals are is worse than the end
        is_taken = (shift > self.tolerance) & ((shifted == inside) | (shift > self.tolerance / _DISTANT))
        return np.asarray(np.where(is_taken, inside, observed))

    def to_dict(self) -> dict[str, Any]:
        """Return the content for a file: lists, numbers and arrays."""
        return {
            "expectation": self.regression.to_dict(),
            "expected": self.predictions,
            "values": self.values,
            "residuals": self.residuals,
            "tolerance": self.tolerance if np.isfinite(self.tolerance) else None,
            "range": [self.low, self.high],
            "leaves": None if self.leaves is None else self.leaves.to_dict(),
        }

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Self:
        """Return what `to_dict` was made of."""
        values, predictions = np.asarray(content["values"]), np.asarray(content["expected"])
        leaves, (low, high) = content.get("leaves"), content["range"]
        return cls(
            StackedRegression.from_dict(content["expectation"]),
            predictions,
            values,
            # version 3 has the number itself, less the prediction, as its residual
            np.asarray(content.get("residuals", values - predictions)),
            np.inf if content["tolerance"] is None else content["tolerance"],
            low,
            high,
            None if leaves is None else Leaves(**leaves),
        )


def match_numbers(fit: StackedFit, values: Values, weights: Values, rule: DonorRule) -> ColumnMatcher:
    """Return the matching of a column from its regression and its observed numbers, whose weights are given."""
    training = fit.training
    ranked = np.argsort(training.predictions, kind="stable")
    order: Codes = np.repeat(ranked, weights[ranked].astype(np.intp))
    residuals, leaves = training.residuals[order], None
    if rule.power is not None:
        spread = np.arange(0, len(order), -(-len(order) // _MOST_DONORS))
        donors: Codes = spread[np.argsort(values[order[spread]], kind="stable")]
        leaves = Leaves.of(fit.find_leaves(order[donors]), donors, len(fit.forest.left), rule.power)
    low, high = float(values.min()), float(values.max())
    room = _BEYOND * (high - low)
    return ColumnMatcher(
        fit.regression,
        training.predictions[order],
        values[order],
        residuals,
        np.inf if rule.has_spikes else _DISTANT * float(np.std(residuals)),
        low - room,
        high + room,
        leaves,
    )


def choose_donors(fit: StackedFit, values: Values, missing: Values) -> DonorRule:
    """Choose the donors of a column.

    Parameters
    ----------
    values : ndarray (rows,)
        The observed numbers.
    missing : ndarray (holes, features)
        The features of rows to fill. Held-out rows count as often as there are such rows around them.
    """
    has_spikes = share_of_most_frequent(values) > SPIKE_SHARE or is_heaped(values)
    held_out = fit.seen[:: -(-len(fit.seen) // _HELD_OUT)]
    matcher = match_numbers(fit, values, np.ones(len(values)), DonorRule(has_spikes, _POWERS[0]))
    leaves, leaf = matcher.leaves, fit.find_leaves(held_out)
    assert leaves is not None
    ranks = np.argsort(np.argsort(fit.training.predictions, kind="stable"), kind="stable")
    own, true = ranks[held_out][:, None], values[held_out]
    counted = np.ones(len(held_out))
    if len(missing):
        around = fit.regression.find_leaves(missing[:: -(-len(missing) // _HELD_OUT)])
        counts = np.bincount(around.ravel(), minlength=len(leaves.counts))
        # few of many rows are donors, so that a leaf may be without any
        counted = (counts[leaf] / np.maximum(leaves.counts[leaf], 1)).mean(axis=0)
    predicted = np.repeat(fit.predict_left_out(held_out), matcher.near)
    levels = (np.arange(matcher.near) + 0.5) / matcher.near
    near = matcher.find_near(predicted, np.tile(levels, len(held_out)))
    numbers = matcher.take(predicted, near).reshape(len(held_out), -1)
    order = np.argsort(numbers, axis=1, kind="stable")
    weights = (near.reshape(numbers.shape) != own).astype(np.float64)
    usual = _score(np.take_along_axis(numbers, order, axis=1), np.take_along_axis(weights, order, axis=1), true)
    unseen = fit.counts[np.searchsorted(fit.seen, held_out)] == 0
    shares = np.where(leaves.donors == own, 0.0, leaves.share(leaf, unseen))
    scores = np.array([_score(matcher.values[leaves.donors][None], shares**power, true) for power in _POWERS])
    told = np.isfinite(usual + scores.sum(axis=0))
    gains, counted = counted[told] * (usual - scores)[:, told], counted[told]
    best = int(gains.sum(axis=1).argmax())
    total = gains[best].sum()
    noise = gains[best] - counted * total / counted.sum()
    is_better = total > _LEAST_GAIN * np.sqrt(noise @ noise) and told.any()
    return DonorRule(has_spikes, _POWERS[best] if is_better else None)


def _score(numbers: Values, weights: Values, true: Values) -> Values:
    """Return the continuous ranked probability score of each row, without bias by the number of numbers.

    It is NaN where fewer than two numbers have a weight.

    Parameters
    ----------
    numbers, weights : ndarray (rows, numbers)
        The numbers in ascending order.
    true : ndarray (rows,)

    Examples
    --------
    >>> _score(np.array([[0.0, 1.0]]), np.array([[1.0, 1.0], [0.0, 1.0]]), np.array([0.0, 0.0]))
    array([ 0., nan])
    """
    cumulated = np.cumsum(weights, axis=1, dtype=np.float64)
    total = np.where(cumulated[:, -1] > 0, cumulated[:, -1], np.nan)
    below = cumulated[:, :-1] / total[:, None]
    off = (weights * np.abs(numbers - true[:, None])).sum(axis=1) / total
    spread = (below * (1 - below) * np.diff(numbers, axis=1)).sum(axis=1)
    different = 1 - np.square(weights).sum(axis=1) / total**2
    return np.asarray(off - spread / np.where(different > 1e-9, different, np.nan))


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
