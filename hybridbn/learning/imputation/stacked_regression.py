"""Regressions for predictive mean matching: mixtures of a straight line, of smooth curves and of a forest.

All three predict a number from all other columns. A ridge regression is best where lines are straight. Where they bend,
a ridge regression of squares and cubic splines of the numbers and of products of the most important columns still knows
how they go on where few numbers are observed; a forest knows everything else. The shares come from non-negative least
squares on the predictions of each row without it (stacking, Breiman 1996): exact leave-one-out predictions of the ridge
regressions, and out-of-bag predictions of the forest. A part that adds next to nothing gets no share.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, NamedTuple, Self

import numpy as np

from hybridbn.fitting.ridge import GeneralizedCrossValidation, Spectrum
from hybridbn.fitting.trees.randomized_trees import Forest, grow_forest
from hybridbn.variables import Codes, Values

__all__ = ["Curves", "StackedRegression", "TrainingPredictions", "fit_stacked_regression"]

_RIDGES = np.geomspace(0.1, 1e4, 16)
"""Candidates for the ridge penalty, in rows; the one with the least generalized cross-validation error is taken."""
_WIDTHS = (0.2, 1.0)
"""Candidates for the standard deviation of a curve's slopes, relative to that of straight ones."""
_SPLINE = 0.3
"""The same for splines, relative to squares and products."""
_PART_PRICE = 5.0
"""The gain in log-likelihood that curves or a forest need: where lines are straight, these flatten their ends."""
_MOST_LEVERAGE = 0.95
"""The leverage of a row is limited to this, as its leave-one-out prediction would be arbitrary otherwise."""
_MOST_FEATURES = 100
"""Only so many columns, those with the greatest correlations, predict another one."""
_KNOTS = (0.05, 0.35, 0.65, 0.95)
"""The knots of a spline are these quantiles."""
_ROWS_PER_BEND = 10
"""There is at most one spline or product for so many rows, as more would follow single rows; the columns with the
greatest slopes come first."""
_MOST_CURVED = 20
"""So many columns get splines and squares."""
_LIMIT = 4.0
"""Before they are multiplied, columns are limited to so many standard deviations, as outliers would decide else."""
_MOST_MULTIPLIED = 8
"""So many columns are multiplied with each other."""


class TrainingPredictions(NamedTuple):
    """What a regression says of the rows that it was learned from.

    Attributes
    ----------
    predictions : ndarray (rows,)
        Of lines and curves with the row, as predictions without it are highest where the row itself is low, which
        flattens slopes; of the forest without it, as its trees repeat what they have seen.
    residuals : ndarray (rows,)
        Enlarged by what fitting has taken away.
    """

    predictions: Values
    residuals: Values


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
        beyond = np.maximum(standard[:, self.curved, None] - self.knots, 0.0) ** 3
        inner, before_last, last = self.knots[:, :-2], self.knots[:, -2:-1], self.knots[:, -1:]
        width = last - before_last
        # natural cubic splines: beyond the last knot the cubes cancel
        bent = (
            beyond[..., :-2]
            - beyond[..., -2:-1] * (last - inner) / width
            + beyond[..., -1:] * (before_last - inner) / width
        ) / (last - self.knots[:, :1]) ** 2
        return np.concatenate([bent.reshape(len(columns), inner.size), products], axis=1)

    def to_dict(self) -> dict[str, Any]:
        """Return the content for a file: arrays."""
        return {attribute.name: getattr(self, attribute.name) for attribute in fields(self)}


@dataclass(frozen=True, eq=False)
class StackedRegression:
    """A weighted sum of a ridge regression, of one with curves, and of a forest.

    Attributes
    ----------
    constant : float
    others : ndarray
        The features that predict.
    slopes : ndarray (others,)
        Of the straight parts.
    curves : Curves
    bends : ndarray
        The slopes of what the curves are made of; none, where they have no share.
    share : float
        The weight of the forest.
    forest : Forest
    """

    constant: float
    others: Codes
    slopes: Values
    curves: Curves
    bends: Values
    share: float
    forest: Forest

    @property
    def is_curved(self) -> bool:
        """Whether curves or the forest have a share."""
        return len(self.bends) > 0 or self.share > 0

    def predict(self, features: Values) -> Values:
        """Return the prediction for each row of the features."""
        columns = features[:, self.others]
        # sums along a row, so that rounding doesn't depend on other rows
        prediction = self.constant + np.einsum("rj,j->r", columns - self.curves.center, self.slopes)
        if len(self.bends):
            prediction = prediction + np.einsum("rj,j->r", self.curves.expand(columns), self.bends)
        return np.asarray(prediction + self.share * self.forest.predict(columns) if self.share else prediction)

    def to_dict(self) -> dict[str, Any]:
        """Return the content for a file: numbers and arrays."""
        content = {attribute.name: getattr(self, attribute.name) for attribute in fields(self)}
        forest = {attribute.name: getattr(self.forest, attribute.name) for attribute in fields(Forest)}
        return {**content, "curves": self.curves.to_dict(), "forest": forest}

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
                **{"slopes": slopes, "curves": straight.to_dict(), "bends": np.zeros(0)},
            }
        return cls(**{**content, "curves": Curves(**content["curves"]), "forest": Forest(**content["forest"])})


def fit_stacked_regression(
    features: Values,
    feature: int,
    weights: Values,
    rng: np.random.Generator,
    excluded: Sequence[int] = (),
) -> tuple[StackedRegression, TrainingPredictions]:
    """Learn to predict a feature from the others; return the regression and what it says of the training rows.

    Parameters
    ----------
    features : ndarray (rows, features)
    feature : int
        The index of the predicted feature.
    weights : ndarray (rows,)
    excluded : sequence of int
        Features that do not predict, besides the predicted one.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=500)
    >>> features = np.column_stack([x, 2 * x + 0.1 * rng.normal(size=500)])
    >>> regression, own = fit_stacked_regression(features, 1, np.ones(500), rng)
    >>> regression.predict(np.array([[1.0, 0.0]])).round(1), bool(own.residuals.std() < 0.12)
    (array([2.]), True)
    """
    target = features[:, feature]
    others = _choose_others(features, feature, weights, excluded)
    columns = features[:, others]
    mean = float(np.average(target, weights=weights))
    centered = target - mean
    line = _fit_ridge(columns, centered, weights)
    curves = _choose_curves(columns, line, len(columns) // _ROWS_PER_BEND)
    # squares and products before splines, which are straight where nothing is observed
    relative = np.repeat([1.0, _SPLINE, 1.0], [columns.shape[1], curves.knots[:, 2:].size, len(curves.pairs)])
    both = np.concatenate([columns, curves.expand(columns)], axis=1)
    is_bent = np.arange(both.shape[1]) >= columns.shape[1]
    curve = min(
        (_fit_ridge(both, centered, weights, np.where(is_bent, width, 1.0) * relative) for width in _WIDTHS),
        key=lambda one: one.loss,
    )
    # a column alone is expected to be its mean
    forest, out_of_bag = grow_forest(columns if len(others) else np.zeros((len(target), 1)), centered, rng)
    left_out = np.column_stack([line.left_out, curve.left_out, out_of_bag])
    means = np.average(left_out, axis=0, weights=weights)
    shares = _find_shares(left_out - means, centered, weights)
    constant = mean - float(shares @ means)
    straight, bends = curve.slopes[: len(others)], curve.slopes[len(others) :]
    bent_center = curve.center[len(others) :]
    regression = StackedRegression(
        # predictions of curves are centered at the mean of what they are made of
        constant - float(shares[1] * (bends @ bent_center)),
        others,
        shares[0] * line.slopes + shares[1] * straight,
        Curves(line.center, curves.scale, curves.curved, curves.knots, curves.pairs),
        shares[1] * bends if shares[1] else np.zeros(0),
        float(shares[2]),
        forest,
    )
    predictions = constant + np.column_stack([line.fitted, curve.fitted, out_of_bag]) @ shares
    leverage = np.minimum(shares[0] * line.leverage + shares[1] * curve.leverage, _MOST_LEVERAGE)
    return regression, TrainingPredictions(predictions, (target - predictions) / np.sqrt(1 - leverage))


def _choose_others(features: Values, feature: int, weights: Values, excluded: Sequence[int]) -> Codes:
    """Return the features that predict one: all others, or those with the greatest correlations."""
    others: Codes = np.delete(np.arange(features.shape[1], dtype=np.intp), [feature, *excluded])
    if len(others) <= _MOST_FEATURES:
        return others
    centered = features - np.average(features, axis=0, weights=weights)
    across = (weights * centered[:, feature]) @ centered
    correlations = np.abs(across) / np.sqrt(np.maximum(weights @ centered**2, 1e-300))
    return np.sort(others[np.argsort(-correlations[others], kind="stable")[:_MOST_FEATURES]])


def _choose_curves(columns: Values, line: _Ridge, most: int) -> Curves:
    """Return the splines and the products of the columns that matter most."""
    scale = np.where(line.scale > 0, line.scale, 1.0)
    importance = np.argsort(-np.abs(line.slopes * scale), kind="stable")
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


def _find_shares(predictions: Values, target: Values, weights: Values) -> Values:
    """Return the weights of the line, of the curves and of the forest.

    The line and the curves are shrunk already, so either of them alone gets weight one.
    """
    roots = np.sqrt(weights)
    columns, goal = roots[:, None] * predictions, roots * target
    least = 1e-12 * float(np.linalg.norm(goal)) + 1e-300
    best, best_loss = np.array([1.0, 0.0, 0.0]), np.inf
    for chosen in ((0,), (1,), (0, 1), (2,), (0, 2), (1, 2), (0, 1, 2)):
        own = list(chosen)
        shares = np.zeros(3)
        shares[own] = 1.0 if chosen in ((0,), (1,)) else np.linalg.lstsq(columns[:, own], goal, rcond=None)[0]
        extra = sum(part > 0 for part in chosen)
        residual = max(float(np.linalg.norm(goal - columns @ shares)), least)
        loss = weights.sum() * np.log(residual) + _PART_PRICE * extra
        if shares.min() >= 0 and loss < best_loss - 1e-9:
            best, best_loss = shares, loss
    return best


class _Ridge(NamedTuple):
    """A ridge regression of a centered target.

    Attributes
    ----------
    center, scale, slopes : ndarray (columns,)
    fitted, left_out, leverage : ndarray (rows,)
        Predictions of the training rows with and without them.
    loss : float
        The generalized cross-validation error.
    """

    center: Values
    scale: Values
    slopes: Values
    fitted: Values
    left_out: Values
    leverage: Values
    loss: float


def _fit_ridge(columns: Values, target: Values, weights: Values, widths: Values | float = 1.0) -> _Ridge:
    """Fit a ridge regression to a centered target; `widths` are the expected sizes of standardized slopes."""
    total = float(weights.sum())
    center = np.average(columns, axis=0, weights=weights)
    deviations = columns - center
    weighted = deviations * weights[:, None]
    gram = weighted.T @ deviations
    deviation = np.sqrt(np.diag(gram) / total)
    scales = np.where(deviation > 0, deviation, 1.0) / widths
    spectrum = Spectrum.of(gram / np.outer(scales, scales), weighted.T @ target / scales)
    losses = GeneralizedCrossValidation(total).losses(spectrum, float(weights @ target**2), _RIDGES)
    ridge = float(_RIDGES[np.argmin(losses)])
    slopes = spectrum.slopes(ridge) / scales
    fitted = deviations @ slopes
    rotated = (deviations / scales) @ (spectrum.vectors / np.sqrt(spectrum.values + ridge))
    leverage = np.minimum(weights * ((rotated**2).sum(axis=1) + 1 / total), _MOST_LEVERAGE)
    left_out = target - (target - fitted) / (1 - leverage)
    return _Ridge(center, deviation, slopes, fitted, left_out, leverage, float(losses.min()))
