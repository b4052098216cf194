"""Ridge regressions of numbers on columns, and on squares, splines and products of these.

Squares go on where splines, fitted to few rows, are straight. The penalties come from generalized cross-validation;
predictions without a row and its leverage are exact.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, NamedTuple

import numpy as np

from hybridbn.fitting.ridge import GeneralizedCrossValidation, Spectrum
from hybridbn.variables import Codes, Values

__all__ = ["KNOTS", "MOST_LEVERAGE", "PART_PRICE", "Curves", "Ridges", "choose_curves", "find_curvature", "fit_ridges"]

PART_PRICE = 5.0
"""The gain in log-likelihood that curves or a forest need: where lines are straight, these flatten their ends."""
MOST_LEVERAGE = 0.95
"""The leverage of a row is limited to this, as its leave-one-out prediction would be arbitrary otherwise."""
_RIDGES = np.geomspace(0.1, 1e4, 16)
"""Candidates for the ridge penalty, in rows; the one with the least generalized cross-validation error is taken."""
_BLOCK = 16384
"""Rows whose curves are in memory at the same time."""
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


@dataclass(frozen=True, eq=False)
class Ridges:
    """Ridge regressions of centered targets on the same columns, and on curves of these.

    Attributes
    ----------
    center, scale : ndarray (columns,)
        Of the columns, and of the curves.
    slopes : ndarray (columns, targets)
    roots : sequence of ndarray (columns, columns)
        For each target: the products of a row's deviations with these are the roots of its leverage.
    total : float
        The sum of the weights.
    penalties : sequence of (ndarray (columns,), float)
        For each target: what columns are divided by, and the penalty of the squares of their slopes then.
    curves : Curves, optional
    """

    center: Values
    scale: Values
    slopes: Values
    roots: Sequence[Values]
    total: float
    penalties: Sequence[tuple[Values, float]]
    curves: Curves | None

    def refit(self, columns: Values, targets: Values, weights: Values) -> Ridges:
        """Return the regressions of other rows with the same penalties."""
        return _solve_ridges(_Moments.of(columns, targets, weights, self.curves), self.penalties, self.curves)

    def explain(self, columns: Values, weights: Values, target: int) -> tuple[Values, Values]:
        """Return the prediction of each row for a target, and the row's leverage."""
        fitted, leverage = np.empty(len(columns)), np.empty(len(columns))
        for start in range(0, len(columns), _BLOCK):
            part = slice(start, start + _BLOCK)
            deviations = _expand(columns[part], self.curves) - self.center
            fitted[part] = deviations @ self.slopes[:, target]
            rotated = deviations @ self.roots[target]
            leverage[part] = weights[part] * (np.einsum("rj,rj->r", rotated, rotated) + 1 / self.total)
        return fitted, np.minimum(leverage, MOST_LEVERAGE)

    def leave_out(self, columns: Values, targets: Values, weights: Values) -> Values:
        """Return the predictions of the targets in each row without that row (rows, targets)."""
        left_out = np.empty(targets.shape)
        for target in range(targets.shape[1]):
            fitted, leverage = self.explain(columns, weights, target)
            left_out[:, target] = targets[:, target] - (targets[:, target] - fitted) / (1 - leverage)
        return left_out


def _expand(columns: Values, curves: Curves | None) -> Values:
    return columns if curves is None else np.concatenate([columns, curves.expand(columns)], axis=1)


class _Moments(NamedTuple):
    """Weighted means of columns and products of what columns and targets differ from theirs."""

    total: float
    center: Values
    gram: Values
    across: Values
    squares: Values

    @classmethod
    def of(cls, columns: Values, targets: Values, weights: Values, curves: Curves | None) -> _Moments:
        """Collect the moments of rows whose targets are centered."""
        total = float(weights.sum())
        size = columns.shape[1] if curves is None else _expand(columns[:1], curves).shape[1]
        # near the means, so that centering loses no digits
        near = np.concatenate([np.average(columns, axis=0, weights=weights), np.zeros(size - columns.shape[1])])
        gram, sums, across = np.zeros((size, size)), np.zeros(size), np.zeros((size, targets.shape[1]))
        for start in range(0, len(columns), _BLOCK):
            part = slice(start, start + _BLOCK)
            block = _expand(columns[part], curves) - near
            weighted = block * weights[part, None]
            gram += weighted.T @ block
            sums += weighted.sum(axis=0)
            across += weighted.T @ targets[part]
        gram -= np.outer(sums, sums) / total
        across -= np.outer(sums, weights @ targets) / total
        return cls(total, near + sums / total, gram, across, weights @ targets**2)

    @property
    def deviation(self) -> Values:
        return np.sqrt(np.maximum(np.diag(self.gram), 0.0) / self.total)

    def spectrum(self, scales: Values, target: int | slice) -> Spectrum:
        """Decompose the products of columns in units of their own."""
        across = self.across[:, target]
        return Spectrum.of(self.gram / np.outer(scales, scales), (across.T / scales).T)


def fit_ridges(
    columns: Values,
    targets: Values,
    weights: Values,
    curves: Curves | None = None,
    widths: Sequence[Values | float] = (1.0,),
) -> Ridges:
    """Fit ridge regressions to centered targets.

    Parameters
    ----------
    curves : Curves, optional
        Of the columns, which predict, too.
    widths : sequence
        Expected sizes of standardized slopes; the best ones are taken for each target.
    """
    moments = _Moments.of(columns, targets, weights, curves)
    scales = [np.where(moments.deviation > 0, moments.deviation, 1.0) / width for width in widths]
    spectra = [moments.spectrum(own, slice(None)) for own in scales]
    criterion = GeneralizedCrossValidation(moments.total)
    penalties = []
    for target, square in enumerate(moments.squares.tolist()):
        own = [spectrum._replace(along=spectrum.along[:, target]) for spectrum in spectra]
        losses = np.array([criterion.losses(spectrum, square, _RIDGES) for spectrum in own])
        best, place = np.unravel_index(np.argmin(losses), losses.shape)
        penalties.append((scales[best], float(_RIDGES[place])))
    return _solve_ridges(moments, penalties, curves)


def _solve_ridges(moments: _Moments, penalties: Sequence[tuple[Values, float]], curves: Curves | None) -> Ridges:
    """Return the ridge regressions with a penalty for each target."""
    slopes, roots = np.empty(moments.across.shape), []
    for target, (scales, ridge) in enumerate(penalties):
        spectrum = moments.spectrum(scales, target)
        slopes[:, target] = spectrum.slopes(ridge) / scales
        roots.append(spectrum.vectors / np.sqrt(spectrum.values + ridge) / scales[:, None])
    return Ridges(moments.center, moments.deviation, slopes, roots, moments.total, penalties, curves)
