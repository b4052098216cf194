"""EM for naive Bayes mixtures of mixed, incomplete columns: every step is one matrix product.

Given its component, a row's cells are independent: numbers normal, categories multinomial. Both are exponential families, so
with a row's sufficient statistics in a matrix S (of a number: 1, x, x squared; of a category: an indicator for each state; zeros for a missing
cell) and the natural parameters of the components in a matrix T, the log-densities of all rows are S T, and the expected statistics that
the next parameters need are S' R, where R holds the responsibilities. A missing cell is thereby marginalized exactly.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hybridbn.variables import Values

__all__ = ["Fit", "Statistics", "fit_mixture", "held_out", "responsibilities", "statistics_of"]

PRIOR_ROWS = 1.0
"""The prior of a component's parameters weighs so many rows."""
PRIOR_VARIANCE = 0.01
"""The variance that it speaks for, relative to the column's: no component shrinks to a point."""
CONVERGED = 1e-7
MOST_STEPS = 500
FIRST_STEPS = 15
"""Steps made from every start before the best one is followed."""


@dataclass(frozen=True)
class Statistics:
    """Sufficient statistics of rows.

    Attributes
    ----------
    matrix : ndarray (rows, statistics)
    weights : ndarray (rows,)
    numbers : ndarray (numbers,), the place of each number column's three statistics
    categories : list of slices, the places of each category's states
    centers, scales : ndarray (numbers,); numbers are standardized by them
    shares : ndarray (statistics,), of the states in all rows
    """

    matrix: Values
    weights: Values
    numbers: NDArray[np.intp]
    categories: Sequence[slice]
    centers: Values
    scales: Values
    shares: Values

    @cached_property
    def states(self) -> tuple[NDArray[np.intp], NDArray[np.intp], NDArray[np.intp]]:
        """The places of all states, at which of them each category begins, and the category that each belongs to."""
        sizes = np.array([part.stop - part.start for part in self.categories], dtype=np.intp)
        places = [np.arange(part.start, part.stop) for part in self.categories]
        joined = np.concatenate([np.empty(0, dtype=np.intp), *places])
        return joined, np.cumsum(sizes) - sizes, np.repeat(np.arange(len(sizes)), sizes)

    def take(self, rows: Any) -> Statistics:
        """Return the statistics of some rows."""
        return Statistics(
            self.matrix[rows],
            self.weights[rows],
            self.numbers,
            self.categories,
            self.centers,
            self.scales,
            self.shares,
        )


@dataclass(frozen=True)
class Fit:
    """A fitted mixture.

    Attributes
    ----------
    log_shares : ndarray (components,)
    natural : ndarray (statistics, components)
    history : tuple of float
        The log-likelihood plus the log prior after each step, which never falls.
    log_likelihood : float
    """

    log_shares: Values
    natural: Values
    history: tuple[float, ...]
    log_likelihood: float

    @property
    def components(self) -> int:
        """Their number."""
        return len(self.log_shares)


def statistics_of(columns: Sequence[NDArray[Any]], states: Sequence[int | None], weights: Values) -> Statistics:
    """Return the sufficient statistics of columns of codes (with numbers of states) or numbers (None).

    Examples
    --------
    >>> found = statistics_of([np.array([0, -1]), np.array([1.0, 3.0])], [2, None], np.ones(2))
    >>> found.matrix
    array([[ 1.,  0.,  1., -1.,  1.],
           [ 0.,  0.,  1.,  1.,  1.]])
    """
    blocks: list[Values] = []
    numbers, categories, centers, scales = [], [], [], []
    place = 0
    for column, count in zip(columns, states, strict=True):
        if count is None:
            seen = ~np.isnan(column)
            mass = weights[seen].sum()
            # in units of the largest number, so that no square overflows
            unit = float(np.abs(column[seen]).max(initial=0.0)) or 1.0
            inner = column / unit
            center = float(weights[seen] @ inner[seen] / mass) if mass > 0 else 0.0
            spread = math.sqrt(float(weights[seen] @ (inner[seen] - center) ** 2 / mass)) if mass > 0 else 0.0
            scale = spread if spread > 1e-12 * max(abs(center), 1e-300) else 1.0 / unit
            standard = np.where(seen, (inner - center) / scale, 0.0)
            blocks.append(np.stack([seen.astype(float), standard, standard**2], axis=1))
            numbers.append(place)
            centers.append(center * unit)
            scales.append(scale * unit)
        else:
            blocks.append((column[:, None] == np.arange(count)).astype(float))
            categories.append(slice(place, place + count))
        place += blocks[-1].shape[1]
    matrix = np.concatenate(blocks, axis=1) if blocks else np.zeros((len(weights), 0))
    shares = weights @ matrix
    for part in categories:
        shares[part] = (shares[part] + 1 / (part.stop - part.start)) / (shares[part].sum() + 1)
    return Statistics(
        matrix, weights, np.array(numbers, dtype=np.intp), categories, np.array(centers), np.array(scales), shares
    )


def fit_mixture(data: Statistics, components: int, starts: int, rng: np.random.Generator) -> Fit:
    """Fit a mixture by EM from several starts, the best of which is followed to the end."""
    if components == 1:
        return _steps(data, np.ones((len(data.matrix), 1)), 1)
    begun = [_steps(data, _start(data, components, rng), FIRST_STEPS) for _ in range(starts)]
    best = max(begun, key=lambda fit: fit.history[-1])
    return _continued(data, best)


def responsibilities(data: Statistics, fit: Fit) -> tuple[Values, Values]:
    """Return the probabilities of the components (rows, components), and the log-density of each row."""
    logs = data.matrix @ fit.natural + fit.log_shares
    top = logs.max(axis=1, keepdims=True)
    weights = np.exp(logs - top)
    total = weights.sum(axis=1, keepdims=True)
    return weights / total, (top + np.log(total))[:, 0]


def held_out(
    data: Statistics, components: int, parts: NDArray[np.intp], starts: int, rng: np.random.Generator
) -> Values:
    """Return the log-density of every row under the mixture fitted to the rows of the other parts (rows,)."""
    result = np.zeros(len(data.matrix))
    for part in range(parts.max() + 1):
        inside = parts == part
        fit = fit_mixture(data.take(~inside), components, starts, rng)
        result[inside] = responsibilities(data.take(inside), fit)[1]
    return result


def _start(data: Statistics, components: int, rng: np.random.Generator) -> Values:
    """Assign each row to the nearest of some rows that lie far apart (k-means++ over the cells that both have)."""
    rows = len(data.matrix)
    chances = data.weights / data.weights.sum()
    nearest = np.full(rows, np.inf)
    owner = np.zeros(rows, dtype=np.intp)
    for number in range(components):
        total = float((nearest * data.weights).sum()) if number else 0.0
        chosen = int(rng.choice(rows, p=nearest * data.weights / total if total > 0 else chances))
        distance = _distances(data, chosen)
        closer = distance < nearest
        nearest = np.where(closer, distance, nearest)
        owner[closer] = number
    result: Values = (owner[:, None] == np.arange(components)).astype(float)
    # never quite sure, so that a component can still grow
    return 0.9 * result + 0.1 / components


def _distances(data: Statistics, row: int) -> Values:
    """Return the mean squared distance of each row from one, over the cells that both have; a different state counts 2."""
    matrix, one = data.matrix, data.matrix[row]
    total, shared = np.zeros(len(matrix)), np.zeros(len(matrix))
    if len(data.numbers):
        both = matrix[:, data.numbers] * one[data.numbers]
        total += (both * (matrix[:, data.numbers + 1] - one[data.numbers + 1]) ** 2).sum(axis=1)
        shared += both.sum(axis=1)
    places, starts, owner = data.states
    if len(places):
        known = np.zeros(matrix.shape[1])
        known[places] = np.add.reduceat(one[places], starts)[owner]
        both = matrix @ known
        total += 2 * (both - matrix[:, places] @ one[places])
        shared += both
    return np.where(shared > 0, total / np.maximum(shared, 1), 1.0)


def _steps(data: Statistics, given: Values, steps: int) -> Fit:
    """Maximize, then alternate until it hardly changes or the steps are used up."""
    history: list[float] = []
    fit = _maximized(data, given)
    for _ in range(steps):
        given, logs = responsibilities(data, fit)
        likelihood = float(data.weights @ logs)
        history.append(likelihood + _log_prior(data, fit))
        fit = Fit(fit.log_shares, fit.natural, tuple(history), likelihood)
        if len(history) > 1 and history[-1] - history[-2] <= CONVERGED * max(abs(history[-1]), 1.0):
            break
        if len(history) < steps:
            fresh = _maximized(data, given)
            fit = Fit(fresh.log_shares, fresh.natural, fit.history, likelihood)
    return fit


def _continued(data: Statistics, fit: Fit) -> Fit:
    rest = _steps(data, responsibilities(data, fit)[0], MOST_STEPS)
    return Fit(rest.log_shares, rest.natural, fit.history + rest.history, rest.log_likelihood)


def _maximized(data: Statistics, given: Values) -> Fit:
    """Return the parameters of highest posterior density for rows that belong to components in these shares."""
    weighted = given * data.weights[:, None]
    totals = data.matrix.T @ weighted
    sizes = weighted.sum(axis=0) + PRIOR_ROWS
    natural = np.zeros_like(totals)
    if len(data.numbers):
        count, first, second = (totals[data.numbers + shift] for shift in range(3))
        mean = first / np.maximum(count, 1e-300)
        spread = np.maximum(second - count * mean**2, 0.0)
        variance = (spread + PRIOR_ROWS * PRIOR_VARIANCE) / (count + PRIOR_ROWS)
        empty = count < 1e-9
        mean, variance = np.where(empty, 0.0, mean), np.where(empty, 1.0, variance)
        natural[data.numbers] = -0.5 * np.log(2 * math.pi * variance) - mean**2 / (2 * variance)
        natural[data.numbers + 1] = mean / variance
        natural[data.numbers + 2] = -0.5 / variance
    places, starts, owner = data.states
    if len(places):
        table = totals[places] + PRIOR_ROWS * data.shares[places, None]
        natural[places] = np.log(table / np.add.reduceat(table, starts, axis=0)[owner])
    return Fit(np.log(sizes / sizes.sum()), natural, (), -math.inf)


def _log_prior(data: Statistics, fit: Fit) -> float:
    """Return the log prior density of the parameters, but for a constant."""
    result = PRIOR_ROWS * float(fit.log_shares.sum())
    if len(data.numbers):
        halves = -fit.natural[data.numbers + 2]
        result += 0.5 * PRIOR_ROWS * float(np.log(2 * halves).sum()) - PRIOR_ROWS * PRIOR_VARIANCE * float(halves.sum())
    places = data.states[0]
    result += PRIOR_ROWS * float((data.shares[places] @ fit.natural[places]).sum())
    return result
