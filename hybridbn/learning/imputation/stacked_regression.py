"""Regressions for predictive mean matching: mixtures of a straight line, of smooth curves and of a forest.

All three predict a number from all other columns. A ridge regression is best where lines are straight. Where they bend,
a ridge regression of squares and cubic splines of the numbers and of products of the most important columns still knows
how they go on where few numbers are observed, as squares go on where splines, fitted to few rows, are straight; a
forest knows everything else. The shares come from non-negative least squares on the predictions of each row without it
(stacking, Breiman 1996): exact leave-one-out predictions of the ridge regressions, and out-of-bag predictions of the
forest. A part that adds next to nothing gets no share.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, NamedTuple, Self

import numpy as np

from hybridbn.fitting.ridge import MOST_LEVERAGE, Ridges, fit_ridges
from hybridbn.fitting.trees.randomized_trees import Forest, grow_forest
from hybridbn.variables import Codes, Values

__all__ = [
    "KNOTS",
    "PART_PRICE",
    "Curves",
    "StackedFit",
    "StackedRegression",
    "TrainingPredictions",
    "choose_curves",
    "find_curvature",
    "fit_stacked_regression",
]

PART_PRICE = 5.0
"""The gain in log-likelihood that curves or a forest need: where lines are straight, these flatten their ends."""
KNOTS = (0.05, 0.35, 0.65, 0.95)
"""The knots of a spline are these quantiles."""
_ROWS_PER_BEND = 10
"""There is at most one spline or product for so many rows, as more would follow single rows; the columns with the
greatest slopes come first."""
_MOST_CURVED = 20
"""So many columns get splines and squares."""
_LIMIT = 6.0
"""Before they are multiplied, columns are limited to so many standard deviations, as outliers would decide else."""
_MOST_MULTIPLIED = 8
"""So many columns are multiplied with each other."""


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

    def to_dict(self) -> dict[str, Any]:
        """Return the content for a file: arrays."""
        return {attribute.name: getattr(self, attribute.name) for attribute in fields(self)}


def choose_curves(columns: Values, line: Ridges, targets: Values) -> Curves:
    """Return the splines and the products of the columns that matter most."""
    most = len(columns) // _ROWS_PER_BEND
    scale = np.where(line.scale > 0, line.scale, 1.0)
    deviations = np.maximum(targets.std(axis=0), 1e-300)
    importance = np.argsort(-np.abs(line.slopes * scale[:, None] / deviations).max(axis=1), kind="stable")
    standard = (columns - line.center) / scale
    curved, knots = [], []
    # a square, and the knots less two
    for column in importance[: min(_MOST_CURVED, most // (len(KNOTS) - 1))].tolist():
        own = np.quantile(standard[:, column], KNOTS) if len(columns) else np.zeros(len(KNOTS))
        if np.diff(own).min() > 1e-3:
            curved.append(column)
            knots.append(own)
    # squares go on where splines are straight; that of an indicator is the indicator
    pairs = [(column, column) for column in curved]
    room = most - len(curved) * (len(KNOTS) - 1)
    multiplied = max((k for k in range(1, _MOST_MULTIPLIED + 1) if k * (k - 1) // 2 <= room), default=1)
    pairs += itertools.combinations(sorted(importance[:multiplied].tolist()), 2)
    return Curves(
        line.center,
        scale,
        np.array(curved, dtype=np.intp),
        np.array(knots).reshape(len(curved), len(KNOTS)),
        np.array(pairs, dtype=np.intp).reshape(-1, 2),
    )


def find_curvature(columns: Values, target: Values, residuals: Values) -> bool:
    """Return whether splines and products of columns tell what lines leave of a target.

    Parameters
    ----------
    columns : ndarray (rows, columns)
    target, residuals : ndarray (rows,)

    Examples
    --------
    >>> x, noise = np.random.default_rng(0).normal(size=(2, 300))
    >>> [find_curvature(x[:, None], y, y - x) for y in (x + noise, x + np.sin(3 * x) + noise)]
    [False, True]
    """
    weights = np.ones(len(target))
    centered = (target - target.mean())[:, None]
    line = fit_ridges(columns, centered, weights)
    curves = choose_curves(columns, line, centered)
    # what lines say of these rows, and what the network's lines leave, which may depend on categories, too
    told = line.explain(columns, weights, 0)[0] + residuals
    told = (told - told.mean())[:, None]
    line, bent = fit_ridges(columns, told, weights), fit_ridges(columns, told, weights, curves)
    squares = [np.square(told - one.leave_out(columns, told, weights)).sum() + 1e-300 for one in (line, bent)]
    return bool(0.5 * len(told) * np.log(squares[0] / squares[1]) > PART_PRICE)


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
            straight = Curves(center, np.ones(len(others)), none, np.zeros((0, len(KNOTS))), none.reshape(0, 2))
            content = {
                **{name: content[name] for name in ("constant", "others", "share", "forest")},
                **{"slopes": slopes, "curves": straight.to_dict(), "bends": np.zeros(0)},
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
    excluded: Sequence[int] = (),
) -> StackedFit:
    """Learn to predict some features from the others.

    Parameters
    ----------
    features : ndarray (rows, features)
    targets : sequence of int
        The indices of the predicted features.
    weights : ndarray (rows,)
        How often each row counts.
    excluded : sequence of int
        Features that do not predict, besides the predicted ones.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=500)
    >>> features = np.column_stack([x, 2 * x + 0.1 * rng.normal(size=500)])
    >>> fit = fit_stacked_regression(features, [1], np.ones(500), rng)
    >>> fit.regression.predict(np.array([[1.0, 0.0]])).round(1), bool(fit.training.residuals.std() < 0.12)
    (array([[2.]]), True)
    """
    others = _choose_others(features, targets, weights, excluded)
    columns, own = features[:, others], features[:, list(targets)]
    mean = np.average(own, axis=0, weights=weights)
    centered = own - mean
    line = fit_ridges(columns, centered, weights)
    curves = choose_curves(columns, line, centered)
    # squares and products before splines, which are straight where nothing is observed
    relative = np.repeat([1.0, _SPLINE, 1.0], [columns.shape[1], curves.knots[:, 2:].size, len(curves.pairs)])
    is_bent = np.arange(len(relative)) >= columns.shape[1]
    widths = [np.where(is_bent, width, 1.0) * relative for width in _WIDTHS]
    curve = fit_ridges(columns, centered, weights, curves, widths)
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
        return replace(
            self,
            columns=columns,
            targets=own,
            mean=mean,
            weights=weights,
            line=line,
            curve=curve,
            forest=forest,
        )

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
    def training(self) -> TrainingPredictions:
        """What the regression says of the first target in the rows that it was learned from."""
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
        return TrainingPredictions(predictions, (self.targets[:, 0] - predictions) / np.sqrt(kept))


def _choose_others(features: Values, targets: Sequence[int], weights: Values, excluded: Sequence[int]) -> Codes:
    """Return the features that predict some: all others, or those with the greatest correlations."""
    others: Codes = np.delete(np.arange(features.shape[1], dtype=np.intp), [*targets, *excluded])
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
