"""The matching of one column: a regression predicts it from all others, and observed rows lend it their numbers.

The regression is a mixture of a straight line, of smooth curves and of a forest. A ridge regression is best where lines
are straight. Where they bend, a ridge regression of squares and cubic splines of the numbers and of products of the
most important columns still knows how they go on where few numbers are observed, as squares go on where splines, fitted
to few rows, are straight; a forest knows everything else. The shares come from non-negative least squares on the
predictions of each row without it (stacking, Breiman 1996): exact leave-one-out predictions of the ridge regressions,
and out-of-bag predictions of the forest. A part that adds next to nothing gets no share.

Donors are the rows with the nearest predictions, or those that share leaves of a forest with the row, the more likely
the more trees they share (Meinshausen 2006). Predictions bring together rows of the same expectation. Leaves bring
together rows that are alike, which is better where more than the expectation depends on other columns, or where numbers
come in few combinations. Rows that a tree has not seen choose: what counts is the continuous ranked probability score
(Gneiting & Raftery 2007) of the numbers that each of them would get.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from hybridbn.fitting.ridge import MOST_LEVERAGE, Ridges, fit_ridges
from hybridbn.learning.imputation.rules import has_spikes
from hybridbn.potentials.base import draw_codes
from hybridbn.structures.random_forest import Forest, grow_forest
from hybridbn.variables import Codes, Values, slice_blocks

PART_PRICE = 5.0
"""The gain in log-likelihood that curves or a forest need: where lines are straight, these flatten their ends."""
_KNOTS = (0.05, 0.35, 0.65, 0.95)
"""The knots of a spline are these quantiles."""
_ROWS_PER_BEND = 10
"""There is at most one spline or product for so many rows, as more would follow single rows; the columns with the
greatest slopes come first."""
_MOST_CURVED = 20
"""The most columns that get splines and squares."""
_LIMIT = 6.0
"""Before they are multiplied, columns are limited to so many standard deviations, as outliers would decide else."""
_MOST_MULTIPLIED = 8
"""The most columns that are multiplied with each other."""


@dataclass(frozen=True, eq=False)
class Curves:
    """Cubic splines of some columns, straight beyond their outermost knots, and squares and products of columns.

    Attributes
    ----------
    center, scale : ndarray (columns,)
        Columns are standardized with these first.
    curved : ndarray (splines,)
        The columns that have splines.
    knots : ndarray (splines, knots)
        In standardized units.
    pairs : ndarray (pairs, 2)
        The columns that are multiplied, some with themselves.
    """

    center: Values
    scale: Values
    curved: Codes
    knots: Values
    pairs: Codes

    def expand(self, columns: Values) -> Values:
        """Return the splines and the products of rows (rows, splines * (knots - 2) + pairs).

        Examples
        --------
        >>> one = Curves(np.zeros(2), np.ones(2), np.array([0]), np.array([[0.0, 1.0, 2.0]]), np.array([[0, 1]]))
        >>> one.expand(np.array([[0.0, 2.0], [1.0, 2.0], [2.0, 2.0], [3.0, 2.0]]))
        array([[0.  , 0.  ],
               [0.25, 2.  ],
               [1.5 , 4.  ],
               [3.  , 6.  ]])
        """
        standard = (columns - self.center) / self.scale
        limited = np.clip(standard, -_LIMIT, _LIMIT)
        first, second = self.pairs.T
        products = limited[:, first] * limited[:, second]
        beyond = np.maximum(standard[:, self.curved, None] - self.knots, 0.0)
        beyond = beyond * beyond * beyond
        inner, before_last, last = self.knots[:, :-2], self.knots[:, -2:-1], self.knots[:, -1:]
        width = last - before_last
        # natural cubic splines: beyond the last knot the cubes cancel
        bent = (
            beyond[..., :-2]
            - beyond[..., -2:-1] * (last - inner) / width
            + beyond[..., -1:] * (before_last - inner) / width
        ) / (last - self.knots[:, :1]) ** 2
        return np.concatenate([bent.reshape(len(columns), inner.size), products], axis=1)


def choose_curves(columns: Values, line: Ridges, targets: Values) -> Curves:
    """Return the splines and the products of the columns that matter most."""
    most = len(columns) // _ROWS_PER_BEND
    scale = np.where(line.scale > 0, line.scale, 1.0)
    deviations = np.maximum(targets.std(axis=0), 1e-300)
    importance = np.argsort(-np.abs(line.slopes * scale[:, None] / deviations).max(axis=1), kind="stable")
    standard = (columns - line.center) / scale
    curved, knots = [], []
    # a square, and the knots less two
    for column in importance[: min(_MOST_CURVED, most // (len(_KNOTS) - 1))].tolist():
        own = np.quantile(standard[:, column], _KNOTS) if len(columns) else np.zeros(len(_KNOTS))
        if np.diff(own).min() > 1e-3:
            curved.append(column)
            knots.append(own)
    # squares go on where splines are straight; that of an indicator is the indicator
    pairs = [(column, column) for column in curved]
    room = most - len(curved) * (len(_KNOTS) - 1)
    multiplied = max((k for k in range(1, _MOST_MULTIPLIED + 1) if k * (k - 1) // 2 <= room), default=1)
    pairs += itertools.combinations(sorted(importance[:multiplied].tolist()), 2)
    return Curves(
        line.center,
        scale,
        np.array(curved, dtype=np.intp),
        np.array(knots).reshape(len(curved), len(_KNOTS)),
        np.array(pairs, dtype=np.intp).reshape(-1, 2),
    )


_WIDTHS = (0.2, 1.0)
"""Candidates for the standard deviation of a curve's slopes, relative to that of straight ones."""
_SPLINE = 0.3
"""The same for splines, relative to squares and products."""
_LEAST_GAIN = 0.002
"""In large tables, curves or a forest need this gain in the logarithm of the residuals' standard deviation."""
_MOST_SHARED = 4000
"""The forest and the shares are learned from so many rows at most."""
_MOST_FEATURES = 100
"""Only so many columns, those with the greatest correlations, predict another one."""
_NEAREST_ROWS, _NEAREST_SHARE = 5, 0.05
"""This many rows have the nearest predictions, or this share of all rows if that is more."""
_POWERS = (1.0, 2.0, 4.0)
"""Candidates for the power of the share of trees in which a row is in the same leaf."""
_MOST_DONORS = 2000
"""The most rows, evenly spread over the predictions, that are donors in leaves."""
_HELD_OUT = 300
"""The number of held-out rows by which donors are chosen."""
_LEAST_ERRORS = 3.0
"""Leaves need a gain of so many standard errors."""
BEYOND = 2.0
"""Numbers lie beyond the observed ones by at most this multiple of their range: curves that end earlier bend slopes."""
_DISTANT = 0.1
"""Differences of predictions below this many standard deviations of the residuals are neglected."""
_ATTEMPTS = 20
"""Numbers that are outside of their limits are drawn again this often."""
_GOLDEN_RATIO = 0.6180339887498949
_WEIGHTS = 2_000_000
"""About so many weights of donors are in memory at the same time."""


@dataclass(frozen=True, eq=False)
class StackedRegression:
    """Weighted sums of a ridge regression, of one with curves, and of a forest, for one number or several.

    Attributes
    ----------
    constant : ndarray (outputs,)
    others : ndarray
        The features that predict.
    slopes : ndarray (others, outputs)
        Of the straight parts.
    curves : Curves
    bends : ndarray (bends, outputs)
        The slopes of what the curves are made of; no rows, where they have no share.
    share : ndarray (outputs,)
        The weight of the forest.
    forest : Forest
        With values (nodes, outputs).
    """

    constant: Values
    others: Codes
    slopes: Values
    curves: Curves
    bends: Values
    share: Values
    forest: Forest

    @property
    def is_curved(self) -> bool:
        """Whether curves or the forest have a share."""
        return len(self.bends) > 0 or bool(self.share.any())

    def predict(self, features: Values) -> Values:
        """Return the predictions for each row of the features (rows, outputs)."""
        columns = features[:, self.others]
        prediction = np.tile(self.constant, (len(features), 1))
        # sums along a row, so that rounding doesn't depend on other rows
        for part, slopes in ((columns - self.curves.center, self.slopes), (columns, self.bends)):
            if len(slopes):
                part = self.curves.expand(part) if slopes is self.bends else part
                for output, own in enumerate(np.ascontiguousarray(slopes.T)):
                    prediction[:, output] += np.einsum("rj,j->r", part, own)
        return np.asarray(prediction + self.share * self.forest.predict(columns) if self.share.any() else prediction)

    def find_leaves(self, features: Values) -> Codes:
        """Return the leaf of each row of the features in each tree of the forest (trees, rows)."""
        return self.forest.find_leaves(_asked(features[:, self.others]))

    def to_dict(self) -> dict[str, Any]:
        """Return the content for a file: numbers and arrays."""
        return {**vars(self), "curves": dict(vars(self.curves)), "forest": dict(vars(self.forest))}

    @classmethod
    def from_dict(cls, content: dict[str, Any]) -> Self:
        """Return what `to_dict` was made of."""
        if "curves" not in content:
            # version 3 has a line, with slopes for all features, and a forest
            others = content["others"]
            center, slopes = content["center"][others], content["slopes"][others]
            none = np.zeros(0, dtype=np.intp)
            straight = Curves(center, np.ones(len(others)), none, np.zeros((0, len(_KNOTS))), none.reshape(0, 2))
            content = {
                **{name: content[name] for name in ("constant", "others", "share", "forest")},
                **{"slopes": slopes, "curves": dict(vars(straight)), "bends": np.zeros(0)},
            }
        forest = Forest(**content["forest"])
        if content["slopes"].ndim == 1:
            # up to version 4 there was one output
            content = {
                **content,
                **{name: np.array([content[name]]) for name in ("constant", "share")},
                **{name: content[name][:, None] for name in ("slopes", "bends")},
            }
            forest = replace(forest, value=forest.value[:, None])
        return cls(**{**content, "curves": Curves(**content["curves"]), "forest": forest})


def fit_stacked_regression(
    features: Values,
    targets: Sequence[int],
    weights: Values,
    rng: np.random.Generator,
    hidden: Sequence[int] = (),
) -> StackedFit:
    """Learn to predict some features from the others, except those that are hidden.

    Parameters
    ----------
    features : ndarray (rows, features)
    targets : sequence of int
        The indices of the predicted features.
    weights : ndarray (rows,)
        How often each row counts.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=500)
    >>> features = np.column_stack([x, 2 * x + 0.1 * rng.normal(size=500)])
    >>> fit = fit_stacked_regression(features, [1], np.ones(500), rng)
    >>> fit.regression.predict(np.array([[1.0, 0.0]])).round(1), bool(fit.training[1].std() < 0.12)
    (array([[2.]]), True)
    """
    others = _choose_others(features, targets, weights, hidden)
    columns, own = features[:, others], features[:, list(targets)]
    mean = np.average(own, axis=0, weights=weights)
    centered = own - mean
    line = fit_ridges(columns, centered, weights)
    curves = choose_curves(columns, line, centered)
    # squares and products before splines, which are straight where nothing is observed
    relative = np.repeat([1.0, _SPLINE, 1.0], [columns.shape[1], curves.knots[:, 2:].size, len(curves.pairs)])
    is_bent = np.arange(len(relative)) >= columns.shape[1]
    widths = [np.where(is_bent, width, 1.0) * relative for width in _WIDTHS]
    curve = fit_ridges(columns, centered, weights, curves.expand, widths)
    seen = np.flatnonzero(weights > 0)
    if len(seen) > _MOST_SHARED:
        seen = np.sort(rng.choice(seen, _MOST_SHARED, replace=False))
    forest, counts = grow_forest(_asked(columns[seen]), centered[seen], rng, weights[seen])
    out_of_bag = forest.predict_unseen(_asked(columns[seen]), counts)
    left_out = [part.leave_out(columns[seen], centered[seen], weights[seen]) for part in (line, curve)]
    parts = np.stack([*left_out, out_of_bag])
    parts -= np.average(parts, axis=1, weights=weights[seen])[:, None]
    rows = float(weights.sum())
    shares = [
        _find_shares(parts[:, :, output].T, centered[seen, output], weights[seen], rows)
        for output in range(len(targets))
    ]
    return StackedFit(
        np.array(targets),
        others,
        columns,
        own,
        mean,
        weights,
        line,
        curve,
        curves,
        np.array(shares).T,
        forest,
        seen,
        counts,
    )


def _asked(columns: Values) -> Values:
    """Return what trees ask about; a column alone is expected to be its mean."""
    return columns if columns.shape[1] else np.zeros((len(columns), 1))


@dataclass(frozen=True, eq=False)
class StackedFit:
    """A regression in its parts, and what it was learned from.

    Attributes
    ----------
    outputs, others : ndarray
        The features that are predicted, and those that predict.
    columns, targets : ndarray (rows, others), (rows, outputs)
    mean : ndarray (outputs,)
    weights : ndarray (rows,)
    line, curve : Ridges
    curves : Curves
    shares : ndarray (3, outputs)
        Of the line, of the curves and of the forest.
    forest : Forest
    seen : ndarray
        The rows that the forest was grown from.
    counts : ndarray (seen, trees)
        How often each tree has seen each of these.
    """

    outputs: Codes
    others: Codes
    columns: Values
    targets: Values
    mean: Values
    weights: Values
    line: Ridges
    curve: Ridges
    curves: Curves
    shares: Values
    forest: Forest
    seen: Codes
    counts: Codes

    def refit(self, features: Values, weights: Values) -> Self:
        """Return the regression of rows with other weights, or with other cells where some were missing.

        What was chosen stays: curves, penalties, shares and trees. Chosen anew for each bootstrap sample, these would
        be those of fewer rows, flatter where few are.
        """
        columns, own = features[:, self.others], features[:, self.outputs]
        mean = np.average(own, axis=0, weights=weights)
        line, curve = (part.refit(columns, own - mean, weights) for part in (self.line, self.curve))
        forest = self.forest
        if self.shares[2].any():
            counts = self.counts * weights[self.seen, None]
            forest = forest.reweigh(_asked(columns[self.seen]), (own - mean)[self.seen], counts)
        fitted = replace(self, line=line, curve=curve, forest=forest)
        return replace(fitted, columns=columns, targets=own, mean=mean, weights=weights)

    @cached_property
    def _out_of_bag(self) -> Values:
        """What the trees that have not seen a row say of it (seen, outputs)."""
        return self.forest.predict_unseen(_asked(self.columns[self.seen]), self.counts)

    @cached_property
    def _constant(self) -> Values:
        if not self.shares[2].any():
            return self.mean
        forest = np.average(self._out_of_bag, axis=0, weights=self.weights[self.seen])
        return np.asarray(self.mean - self.shares[2] * forest)

    @property
    def regression(self) -> StackedRegression:
        """What predicts rows."""
        size, shares, curves = len(self.others), self.shares, self.curves
        bends = self.curve.slopes[size:]
        straight = shares[0] * self.line.slopes + shares[1] * self.curve.slopes[:size]
        # the parts are centered at the means of their own columns, the regression at those of the curves
        shift = shares[0] * ((self.line.center - curves.center) @ self.line.slopes)
        shift = shift + shares[1] * ((self.curve.center[:size] - curves.center) @ self.curve.slopes[:size])
        return StackedRegression(
            self._constant - shift - shares[1] * (self.curve.center[size:] @ bends),
            self.others,
            straight,
            curves,
            shares[1] * bends if shares[1].any() else np.zeros((0, len(self.outputs))),
            shares[2],
            self.forest,
        )

    def find_leaves(self, rows: Codes) -> Codes:
        """Return the leaf of each of some rows in each tree of the forest (trees, rows)."""
        return self.forest.find_leaves(_asked(self.columns[rows]))

    def predict_left_out(self, rows: Codes) -> Values:
        """Return the predictions of the first target in some rows that the forest was grown from, each without it."""
        parts = [
            part.leave_out(self.columns[rows], self.targets[rows] - self.mean, self.weights[rows])[:, 0]
            for part in (self.line, self.curve)
        ]
        parts.append(self._out_of_bag[np.searchsorted(self.seen, rows), 0])
        return np.asarray(self._constant[0] + self.shares[:, 0] @ np.array(parts))

    @cached_property
    def training(self) -> tuple[Values, Values]:
        """What the regression says of the first target in the rows that it was learned from, and its residuals there,
        enlarged by what fitting has taken away.

        The predictions are those of lines and curves with the row, as predictions without it are highest where the row
        itself is low, which flattens slopes; of the forest without it, as its trees repeat what they have seen.
        """
        forest = np.zeros(len(self.columns))
        if self.shares[2, 0]:
            # trees have seen some of the rows only
            rest = np.setdiff1d(np.arange(len(self.columns)), self.seen)
            forest[self.seen] = self._out_of_bag[:, 0]
            forest[rest] = self.forest.predict(_asked(self.columns[rest]))[:, 0]
        parts = [part.explain(self.columns, self.weights, 0) for part in (self.line, self.curve)]
        fitted, leverage = zip(*parts, strict=True)
        shares = self.shares[:, 0]
        predictions = self._constant[0] + shares[0] * fitted[0] + shares[1] * fitted[1] + shares[2] * forest
        kept = 1 - np.minimum(shares[0] * leverage[0] + shares[1] * leverage[1], MOST_LEVERAGE)
        return predictions, (self.targets[:, 0] - predictions) / np.sqrt(kept)


def _choose_others(features: Values, targets: Sequence[int], weights: Values, hidden: Sequence[int] = ()) -> Codes:
    """Return the features that predict some: all others, or those with the greatest correlations."""
    others: Codes = np.delete(np.arange(features.shape[1], dtype=np.intp), [*targets, *hidden])
    if len(others) <= _MOST_FEATURES:
        return others
    centered = features - np.average(features, axis=0, weights=weights)
    across = (weights[:, None] * centered[:, list(targets)]).T @ centered
    deviations = np.sqrt(np.maximum(weights @ centered**2, 1e-300))
    correlations = (np.abs(across) / np.outer(deviations[list(targets)], deviations)).max(axis=0)
    return np.sort(others[np.argsort(-correlations[others], kind="stable")[:_MOST_FEATURES]])


def _find_shares(predictions: Values, target: Values, weights: Values, rows: float) -> Values:
    """Return the weights of the line, of the curves and of the forest.

    The line and the curves are shrunk already, so either of them alone gets weight one.

    Parameters
    ----------
    rows : float
        The weight of all rows, of which some are given.
    """
    roots = np.sqrt(weights)
    columns, goal = roots[:, None] * predictions, roots * target
    least = 1e-12 * float(np.linalg.norm(goal)) + 1e-300
    price = max(PART_PRICE / rows, _LEAST_GAIN)
    best, best_loss = np.array([1.0, 0.0, 0.0]), np.inf
    for chosen in ((0,), (1,), (0, 1), (2,), (0, 2), (1, 2), (0, 1, 2)):
        own = list(chosen)
        shares = np.zeros(3)
        shares[own] = 1.0 if chosen in ((0,), (1,)) else np.linalg.lstsq(columns[:, own], goal, rcond=None)[0]
        extra = sum(part > 0 for part in chosen)
        residual = max(float(np.linalg.norm(goal - columns @ shares)), least)
        loss = np.log(residual) + price * extra
        if shares.min() >= 0 and loss < best_loss - 1e-12:
            best, best_loss = shares, loss
    return best


# -- donors ----------------------------------------------------------------------------------------------------------


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

    def weigh(self, shares: Values) -> Values:
        """Return the weights of the donors of each row; without any common leaf all are equally likely."""
        weights = shares if self.power == 1 else shares**self.power
        weights[~weights.any(axis=1)] = 1.0
        return weights


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
        for part in slice_blocks(len(features), size):
            drawn[part] = self._draw_block(features[part], uniforms[part], low[part], high[part])
        return drawn

    def choose(self, features: Values) -> Values:
        """Return the number that most donors of a row have, NaN where more of them have numbers of their own."""
        numbers, codes, counts = np.unique(self.values, return_inverse=True, return_counts=True)
        chosen = np.full(len(features), np.nan)
        size = max(_WEIGHTS // len(self.values), 1)
        for start in range(0, len(features) if np.isinf(self.tolerance) else 0, size):
            part = features[start : start + size]
            if self.leaves is None:
                first, last = self._window(self.regression.predict(part)[:, 0])
                places = np.arange(len(self.values))
                weights = ((places >= first[:, None]) & (places < last[:, None])).astype(np.float64)
            else:
                places = self.leaves.donors
                weights = self.leaves.weigh(self.leaves.share(self.regression.find_leaves(part)))
            key = np.arange(len(part))[:, None] * len(numbers) + codes[places]
            shares = np.bincount(key.ravel(), weights.ravel(), len(part) * len(numbers)).reshape(len(part), -1)
            alone = shares[:, counts == 1].sum(axis=1)
            shares[:, counts == 1] = 0.0
            chosen[start : start + size] = np.where(shares.max(axis=1) > alone, numbers[shares.argmax(axis=1)], np.nan)
        return chosen

    def expect(self, features: Values) -> Values:
        """Return the number that is expected in each row."""
        return np.clip(self.regression.predict(features)[:, 0], self.low, self.high)

    def _draw_block(self, features: Values, uniforms: Values, low: Values, high: Values) -> Values:
        drawn, pending = np.full(len(features), np.nan), np.arange(len(features))
        if self.leaves is None:
            predicted = self.regression.predict(features)[:, 0]
        else:
            weights = self.leaves.weigh(self.leaves.share(self.regression.find_leaves(features)))
        for attempt in range(_ATTEMPTS):
            # multiples of the golden ratio fill the interval evenly
            levels = np.modf(uniforms[pending] + attempt * _GOLDEN_RATIO)[0]
            if self.leaves is None:
                numbers = self.take(predicted[pending], self.find_near(predicted[pending], levels))
            else:
                place = draw_codes(weights[pending], np.arange(len(pending)), levels)
                numbers = self.values[self.leaves.donors[place]]
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
        left = np.searchsorted(self.predictions, predicted, "left")
        right = np.searchsorted(self.predictions, predicted, "right")
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
            "leaves": None if self.leaves is None else dict(vars(self.leaves)),
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
    predictions, residuals = fit.training
    ranked = np.argsort(predictions, kind="stable")
    order: Codes = np.repeat(ranked, weights[ranked].astype(np.intp))
    residuals, leaves = residuals[order], None
    if rule.power is not None:
        spread = np.arange(0, len(order), -(-len(order) // _MOST_DONORS))
        donors: Codes = spread[np.argsort(values[order[spread]], kind="stable")]
        leaves = Leaves.of(fit.find_leaves(order[donors]), donors, len(fit.forest.left), rule.power)
    low, high = float(values.min()), float(values.max())
    room = BEYOND * (high - low)
    return ColumnMatcher(
        fit.regression,
        predictions[order],
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
    held_out = fit.seen[:: -(-len(fit.seen) // _HELD_OUT)]
    rule = DonorRule(has_spikes(values), _POWERS[0])
    matcher = match_numbers(fit, values, np.ones(len(values)), rule)
    leaves, leaf = matcher.leaves, fit.find_leaves(held_out)
    assert leaves is not None
    ranks = np.argsort(np.argsort(fit.training[0], kind="stable"), kind="stable")
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
    is_better = total > _LEAST_ERRORS * np.sqrt(noise @ noise) and told.any()
    return rule._replace(power=_POWERS[best] if is_better else None)


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
