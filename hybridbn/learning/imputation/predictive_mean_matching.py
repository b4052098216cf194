"""Numbers that a normal regression describes badly: filled with the observed number of a row that leads one to expect the same.

A normal distribution around the right expectation keeps means, variances and regressions, whatever the true shape; but it
puts values where none can be: below zero, between spikes; and a regression that is a straight line misses what is none.
So after the joint draw of a row's missing cells such numbers are drawn again, one column after the other, given all other cells:
each becomes the number of one of the observed rows of which a regression and a forest expect nearly the same (predictive mean
matching, Little 1988). One pass is enough, as it starts from joint draws; in many small tables a longer chain would talk itself into
dependences that few cells speak for. Where observed rows are sparse, the difference of the expectations is
added, within the observed range, as slopes would come out too small otherwise; and each of several draws learns from
and borrows of a bootstrap sample of the observed rows (Rubin's approximate Bayesian bootstrap), as intervals would be too short.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import nnls

from hybridbn.fitting.ridge import GeneralizedCrossValidation, Spectrum
from hybridbn.fitting.trees.randomized_trees import Forest, grow_forest
from hybridbn.inference.conditional_gaussian import ConditionalGaussian
from hybridbn.variables import Codes, Values

__all__ = ["Donors", "Expectation", "Matching", "expectation", "matching"]

_NEAREST, _SHARE = 5, 0.05
"""Rows that a number is taken from, by chance: so many, or this share of all."""
_SIDES: tuple[Literal["left"], Literal["right"]] = ("left", "right")
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
_STATES = 20
"""Of a discrete column that get an indicator: the most frequent ones."""

Cells = Mapping[str, NDArray[Any]]


@dataclass(frozen=True, eq=False)
class Donors:
    """Expectations and numbers of the rows in which a number is observed, sorted by the former.

    Attributes
    ----------
    expectation : Expectation
    expected, values : ndarray (rows,)
    tolerance : float
        The difference of expectations that is overlooked; infinite for columns with spikes.
    low, high : float
        Of all observed numbers; nothing lies outside.
    """

    expectation: Expectation
    expected: Values
    values: Values
    tolerance: float
    low: float
    high: float

    def drawn(self, features: Values, level: Values) -> Values:
        """Return a number for each row of the features, given uniform ones."""
        own = self.expectation.expected(features)
        near = max(_NEAREST, int(_SHARE * len(self.values)))
        low, high = (np.searchsorted(self.expected, own, side) for side in _SIDES)
        first = np.clip((low + high - near) // 2, 0, len(self.values) - near)
        # all rows of which the same is expected are as near
        first, last = np.minimum(first, low), np.maximum(first + near, high)
        chosen = first + np.floor(level * (last - first)).astype(np.intp)
        taken = self.values[chosen]
        # where no row leads one to expect the same, its residual is taken instead
        moved = taken + (own - self.expected[chosen])
        apart = np.abs(moved - taken) > self.tolerance
        return np.asarray(np.where(apart & (moved >= self.low) & (moved <= self.high), moved, taken))


@dataclass(frozen=True, eq=False)
class Matching:
    """What fills numbers anew, given all other cells of their rows.

    Attributes
    ----------
    columns : sequence of (str, int)
        What the features are: numbers as they are (with -1), and indicators of a discrete column's code.
    donors : mapping from column to Donors
        In the order of a sweep.
    """

    columns: Sequence[tuple[str, int]]
    donors: Mapping[str, Donors]

    def match(
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
        features = _features(self.columns, cells)
        found = {}
        for name, donors in self.donors.items():
            rows = np.flatnonzero(holes[name])
            if len(rows):
                # later numbers are matched given what this one has become
                place = self.columns.index((name, -1))
                features[rows, place] = donors.drawn(features[rows], level(name)[rows])
                found[name] = np.array(features[:, place])
        return found

    def to_dict(self) -> dict[str, Any]:
        """Return all of it as lists, numbers and arrays."""
        return {
            "columns": [[name, code] for name, code in self.columns],
            "donors": {
                name: {
                    "expectation": one.expectation.to_dict(),
                    "expected": one.expected,
                    "values": one.values,
                    "tolerance": one.tolerance if np.isfinite(one.tolerance) else None,
                    "range": [one.low, one.high],
                }
                for name, one in self.donors.items()
            },
        }

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Self:
        """Return what `to_dict` was made of."""
        donors = {
            name: Donors(
                Expectation.from_dict(one["expectation"]),
                np.asarray(one["expected"]),
                np.asarray(one["values"]),
                np.inf if one["tolerance"] is None else one["tolerance"],
                *one["range"],
            )
            for name, one in content["donors"].items()
        }
        return cls(tuple((name, code) for name, code in content["columns"]), donors)


def matching(
    closed: ConditionalGaussian,
    completed: Cells,
    holes: Mapping[str, NDArray[np.bool_]],
    rng: np.random.Generator,
    proper: bool,
) -> Matching | None:
    """Return what fills the numbers that the network describes badly, None if there are none.

    Parameters
    ----------
    completed : mapping from column to ndarray
        The table that was learned from, with its holes filled.
    holes : mapping from column to ndarray of bool
        Where they were, of the columns that had any.
    proper : bool
        Whether a bootstrap sample of the observed rows is learned from, and only what these very holes need.
    """
    names = _badly_described(closed, completed, holes)
    if proper:
        names = [name for name in names if name in holes]
    if not names:
        return None
    columns = _columns(completed)
    features = _features(columns, completed)
    found: dict[str, Donors] = {}
    for name in names:
        place = columns.index((name, -1))
        missing = holes.get(name, np.zeros(len(features), dtype=bool))
        rows = int((~missing).sum())
        weights = np.ones(rows)
        if proper:
            weights = np.bincount(rng.integers(rows, size=rows), minlength=rows).astype(np.float64)
        found[name] = _learned(features[~missing], place, weights, rng)
        features[missing, place] = found[name].drawn(features[missing], rng.random(int(missing.sum())))
    return Matching(columns, found)


def _learned(features: Values, place: int, weights: Values, rng: np.random.Generator) -> Donors:
    """Return the donors of one number from the rows in which it is observed."""
    values = features[:, place]
    rule, expected = expectation(features, place, weights, rng)
    order: Codes = np.argsort(expected, kind="stable").astype(np.intp)
    order = np.repeat(order, weights[order].astype(np.intp))
    residuals = (values - expected)[order]
    tolerance = np.inf if _most_frequent(values[order]) > _SPIKE else _APART * float(np.std(residuals))
    return Donors(rule, expected[order], values[order], tolerance, float(values.min()), float(values.max()))


def _columns(cells: Cells) -> tuple[tuple[str, int], ...]:
    """Return what is made of the columns: numbers as they are, indicators of the most frequent states, of all but one."""
    found: list[tuple[str, int]] = []
    for name, column in cells.items():
        if column.dtype.kind == "f":
            found.append((name, -1))
        else:
            counts = np.bincount(column)
            codes = np.argsort(-counts, kind="stable")[: np.count_nonzero(counts)]
            found += [(name, int(code)) for code in sorted(codes[1 : _STATES + 1].tolist())]
    return tuple(found)


def _features(columns: Sequence[tuple[str, int]], cells: Cells) -> Values:
    """Return the features of complete rows (rows, features)."""
    listed = [cells[name] if code < 0 else cells[name] == code for name, code in columns]
    return np.ascontiguousarray(np.array(listed, dtype=np.float64).T)


# -- which columns -----------------------------------------------------------------------------------------------------


def _badly_described(
    closed: ConditionalGaussian, completed: Cells, holes: Mapping[str, NDArray[np.bool_]]
) -> list[str]:
    """Return the numbers with spikes, with residuals far from normal, or with residuals that other numbers tell about."""
    values = np.array([completed[name] for name in closed.numbers], dtype=np.float64).T
    configuration: Codes = np.zeros(len(values), dtype=np.intp)
    for variable in closed.given:
        configuration = configuration * len(variable) + completed[variable.name].astype(np.intp)
    found = []
    for column, name in enumerate(closed.numbers):
        seen = np.flatnonzero(~holes[name]) if name in holes else np.arange(len(values))
        if len(seen) < _FEWEST:
            continue
        residuals = values[seen, column] - closed.conditional_mean(column, values[seen], configuration[seen])
        others = np.delete(values[seen], column, axis=1)
        if (
            _most_frequent(values[seen, column]) > _SPIKE
            or _far_from_normal(residuals)
            or _told_by_squares(residuals, others)
        ):
            found.append(name)
    return found


def _far_from_normal(residuals: Values) -> bool:
    n = len(residuals)
    scaled = _scaled(residuals)
    skewness, kurtosis = float((scaled**3).mean()), float((scaled**4).mean()) - 3
    return bool(scaled.any()) and bool(
        abs(skewness) > max(_SKEWNESS, _CHANCE * np.sqrt(6 / n))
        or abs(kurtosis) > max(_KURTOSIS, _CHANCE * np.sqrt(24 / n))
    )


def _told_by_squares(residuals: Values, others: Values) -> bool:
    """Tell whether other numbers' squares are correlated with residuals, or they themselves with their squares."""
    if not others.shape[1]:
        return False
    scaled, rest = _scaled(residuals), _scaled(others)
    bent = _scaled(rest**2).T @ scaled
    spread = rest.T @ _scaled(scaled**2)
    return bool(max(np.abs(bent).max(), np.abs(spread).max()) > _CHANCE * np.sqrt(len(residuals)))


def _scaled(values: Values) -> Values:
    centered = values - values.mean(axis=0)
    deviation = np.sqrt(np.square(centered).mean(axis=0))
    return np.asarray(centered / np.where(deviation > 0, deviation, np.inf))


def _most_frequent(values: Values) -> float:
    ordered = np.sort(values)
    starts = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]]))
    return float(np.diff([*starts, len(values)]).max()) / len(values)


_RIDGES = np.geomspace(0.1, 1e4, 16)
"""How many rows speak for slopes of zero: the one of the least generalized cross-validation error is taken."""
_PRICE = 5.0
"""Log-likelihood that a forest has to add to a line: where lines are straight, it flattens their ends."""
_LEVERAGE = 0.95
"""Of a row, at most: what would be expected without it would be anything."""


@dataclass(frozen=True, eq=False)
class Expectation:
    """A straight line and a forest.

    Attributes
    ----------
    constant : float
    center, slopes : ndarray (features,)
        Zero where the feature is the number itself.
    share : float
        How much the forest counts.
    others : ndarray
        The features that the forest asks for.
    forest : Forest
    """

    constant: float
    center: Values
    slopes: Values
    share: float
    others: Codes
    forest: Forest

    def expected(self, features: Values) -> Values:
        """Return what is expected in each row of the features."""
        straight = self.constant + np.einsum("rj,j->r", features - self.center, self.slopes)
        if not self.share:
            return np.asarray(straight)
        return np.asarray(straight + self.share * self.forest.predict(features[:, self.others]))

    def to_dict(self) -> dict[str, Any]:
        """Return all of it as numbers and arrays."""
        found = {part.name: getattr(self, part.name) for part in fields(self)}
        return {**found, "forest": {part.name: getattr(self.forest, part.name) for part in fields(Forest)}}

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Self:
        """Return what `to_dict` was made of."""
        return cls(**{**content, "forest": Forest(**content["forest"])})


def expectation(features: Values, place: int, weights: Values, rng: np.random.Generator) -> tuple[Expectation, Values]:
    """Learn what to expect of a feature given the others; return that, and what is expected of these rows.

    Parameters
    ----------
    features : ndarray (rows, features)
    place : int
        Which feature is expected.
    weights : ndarray (rows,)

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=500)
    >>> features = np.column_stack([x, 2 * x + 0.1 * rng.normal(size=500)])
    >>> rule, own = expectation(features, 1, np.ones(500), rng)
    >>> rule.expected(np.array([[1.0, 0.0]])).round(1), bool(np.corrcoef(own, features[:, 1])[0, 1] > 0.99)
    (array([2.]), True)
    """
    others: Codes = np.delete(np.arange(features.shape[1], dtype=np.intp), place)
    target, rest = features[:, place], features[:, others]
    mean = float(np.average(target, weights=weights))
    centered = target - mean
    center, slopes, fitted, straight = _ridge(rest, centered, weights)
    forest, bent = grow_forest(rest, centered, rng)
    said = np.column_stack([straight, bent])
    said_mean = np.average(said, axis=0, weights=weights)
    shares = _shares(said - said_mean, centered, weights)
    constant = mean - float(shares @ said_mean)
    all_slopes, all_centers = np.zeros(features.shape[1]), np.zeros(features.shape[1])
    all_slopes[others], all_centers[others] = shares[0] * slopes, center
    rule = Expectation(constant, all_centers, all_slopes, float(shares[1]), others, forest)
    return rule, np.asarray(constant + np.column_stack([fitted, bent]) @ shares)


def _shares(said: Values, target: Values, weights: Values) -> Values:
    """Return how much the line and the forest count.

    The line, which is shrunk already, counts as it is where the forest adds next to nothing.
    """
    roots = np.sqrt(weights)
    both, rest = nnls(roots[:, None] * said, roots * target)
    straight = float(np.linalg.norm(roots * (target - said[:, 0])))
    told = weights.sum() * np.log(max(straight, 1e-300) / max(rest, 1e-300))
    return np.asarray(both if told > _PRICE else [1.0, 0.0])


def _ridge(features: Values, target: Values, weights: Values) -> tuple[Values, Values, Values, Values]:
    """Return centers and slopes of a ridge regression of a centered target, what it says of each row, and that without the row."""
    total = float(weights.sum())
    center = np.average(features, axis=0, weights=weights)
    away = features - center
    weighted = away * weights[:, None]
    gram = weighted.T @ away
    scales = np.sqrt(np.diag(gram) / total)
    scales = np.where(scales > 0, scales, 1.0)
    spectrum = Spectrum.of(gram / np.outer(scales, scales), weighted.T @ target / scales)
    ridge = spectrum.best_penalty(float(weights @ target**2), _RIDGES, GeneralizedCrossValidation(total))
    slopes = spectrum.slopes(ridge) / scales
    fitted = away @ slopes
    turned = (away / scales) @ (spectrum.vectors / np.sqrt(spectrum.values + ridge))
    leverage = np.minimum(weights * ((turned**2).sum(axis=1) + 1 / total), _LEVERAGE)
    return center, slopes, fitted, target - (target - fitted) / (1 - leverage)
