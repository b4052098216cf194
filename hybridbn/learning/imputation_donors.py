"""Numbers that are far from normal: filled with the observed number of a row that leads one to expect the same.

A normal distribution around the right expectation keeps means, variances and regressions, whatever the true shape; but it
puts values where none can be: below zero, between spikes. Predictive mean matching (Little 1988) keeps the expectation and
borrows the shape: after the joint draw of a row's missing cells, such a number is replaced by that of one of the observed rows
whose expectation, given all their other cells, is nearest. Where observed rows are sparse, the difference of the expectations
is added, within the observed range, as slopes would come out too small otherwise; and each of several draws has a bootstrap sample of the observed rows
(Rubin's approximate Bayesian bootstrap), as intervals would be too short.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hybridbn.learning.imputation_gaussian import ConditionalGaussian
from hybridbn.variables import Codes, Values

__all__ = ["Matching", "matching"]

_NEAREST, _SHARE = 5, 0.05
"""Rows that a number is taken from, by chance: so many, or this share of all."""
_APART = 0.1
"""Difference of expectations, in standard deviations of the residuals, that is overlooked."""
_FEWEST = 25
"""With fewer observed numbers the nearest are too far away."""
_SKEWNESS, _KURTOSIS = 0.5, 1.0
"""Of the residuals, beyond which they are far from normal, if chance doesn't explain it."""
_CHANCE = 4.0
"""Standard errors that chance explains."""
_SPIKE = 0.1
"""Share of the most frequent number beyond which a column isn't continuous."""

Cells = Mapping[str, NDArray[Any]]


@dataclass(frozen=True, eq=False)
class Matching:
    """Expectations and numbers of the rows in which a number is observed, sorted by the former.

    Attributes
    ----------
    closed : ConditionalGaussian
    expected, values : mapping from column to ndarray
    tolerance : mapping from column to float
        The difference of expectations that is overlooked.
    ranges : mapping from column to (low, high)
        Of the observed numbers; nothing lies outside.
    """

    closed: ConditionalGaussian
    expected: Mapping[str, Values]
    values: Mapping[str, Values]
    tolerance: Mapping[str, float]
    ranges: Mapping[str, tuple[float, float]]

    def matched(
        self, cells: Cells, holes: Mapping[str, NDArray[np.bool_]], level: Callable[[str], Values]
    ) -> dict[str, Values]:
        """Return the columns of these numbers with the holes of complete rows filled anew.

        Parameters
        ----------
        cells : mapping from column to ndarray
            Complete rows: codes and numbers.
        holes : mapping from column to ndarray of bool
        level : callable
            From a name to a uniform number for each row.
        """
        configuration, values = _arranged(self.closed, cells)
        found = {}
        for name, sorted_values in self.values.items():
            rows = np.flatnonzero(holes[name])
            if not len(rows):
                continue
            column = self.closed.numbers.index(name)
            own = self.closed.expected(column, values[rows], configuration[rows])
            place = np.searchsorted(self.expected[name], own)
            near = max(_NEAREST, int(_SHARE * len(sorted_values)))
            first = np.clip(place - near // 2, 0, len(sorted_values) - near)
            chosen = first + np.floor(level(name)[rows] * near).astype(np.intp)
            taken = sorted_values[chosen]
            # where no row leads one to expect the same, its residual is taken instead
            low, high = self.ranges[name]
            apart = own - self.expected[name][chosen]
            # later numbers are matched given what this one has become
            moved = (np.abs(apart) > self.tolerance[name]) & (taken + apart >= low) & (taken + apart <= high)
            values[rows, column] = np.where(moved, taken + apart, taken)
            found[name] = np.array(values[:, column])
        return found


def matching(
    closed: ConditionalGaussian,
    completed: Cells,
    holes: Mapping[str, NDArray[np.bool_]],
    rng: np.random.Generator | None = None,
) -> Matching | None:
    """Return what fills the numbers that are far from normal, None if there are none.

    Parameters
    ----------
    completed : mapping from column to ndarray
        The table that was learned from, with its holes filled.
    holes : mapping from column to ndarray of bool
        Where they were, of the columns that had any.
    rng : Generator, optional
        For a bootstrap sample of the observed rows.
    """
    configuration, values = _arranged(closed, completed)
    expected, found, tolerance, ranges = {}, {}, {}, {}
    for column, name in enumerate(closed.numbers):
        seen = np.flatnonzero(~holes[name]) if name in holes else np.arange(len(values))
        own = values[seen, column]
        if len(own) < _FEWEST:
            continue
        expectation = closed.expected(column, values[seen], configuration[seen])
        if _far_from_normal(own - expectation) or _most_frequent(own) > _SPIKE:
            ranges[name] = (float(own.min()), float(own.max()))
            if rng is not None:
                pick = rng.integers(len(own), size=len(own))
                own, expectation = own[pick], expectation[pick]
            tolerance[name] = _APART * float(np.std(own - expectation))
            order = np.argsort(expectation, kind="stable")
            expected[name], found[name] = expectation[order], own[order]
    return Matching(closed, expected, found, tolerance, ranges) if found else None


def _arranged(closed: ConditionalGaussian, cells: Cells) -> tuple[Codes, Values]:
    """Return the configuration of each complete row, and its numbers (rows, numbers)."""
    values = np.array([cells[name] for name in closed.numbers], dtype=np.float64).T
    configuration: Codes = np.zeros(len(values), dtype=np.intp)
    for variable in closed.given:
        configuration = configuration * len(variable) + cells[variable.name].astype(np.intp)
    return configuration, values


def _far_from_normal(residuals: Values) -> bool:
    n = len(residuals)
    centered = residuals - residuals.mean()
    deviation = float(np.sqrt(np.square(centered).mean()))
    if not deviation > 0:
        return False
    scaled = centered / deviation
    skewness, kurtosis = float((scaled**3).mean()), float((scaled**4).mean()) - 3
    return bool(
        abs(skewness) > max(_SKEWNESS, _CHANCE * np.sqrt(6 / n))
        or abs(kurtosis) > max(_KURTOSIS, _CHANCE * np.sqrt(24 / n))
    )


def _most_frequent(values: Values) -> float:
    ordered = np.sort(values)
    starts = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]]))
    return float(np.diff([*starts, len(values)]).max()) / len(values)
