"""Curves of columns: splines and products of those that matter most, which bend where straight lines don't suffice."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from hybridbn.fitting.ridge import Ridges, fit_ridges
from hybridbn.variables import Codes, Values

__all__ = ["KNOTS", "PART_PRICE", "Curves", "choose_curves", "find_curvature"]

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
