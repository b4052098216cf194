"""EM for naive Bayes mixtures of mixed, incomplete columns: every step is two matrix products.

Given its component, a row's cells are independent: numbers normal, categories multinomial. Both are exponential families, so
with a row's sufficient statistics in a matrix S (of a number: 1, x, x squared; of a category: an indicator for each state; zeros for a missing
cell) and the natural parameters of the components in a matrix T, the log-densities of all rows are S T, and the expected statistics that
the next parameters need are S' R, where R holds the responsibilities. A missing cell is thereby marginalized exactly.

The starts of EM and the parts of a cross-validation are so many fits to the same rows with other weights, so they take their steps together,
as more columns of T. Arrays over components and fits have rows as their last axis. Indicators of categories of many states are
sparse matrices.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from hybridbn.variables import Values

__all__ = [
    "MixtureFit",
    "MixtureStatistics",
    "compute_responsibilities",
    "compute_statistics",
    "fit_mixture",
    "score_held_out",
]

PRIOR_ROWS = 1.0
"""The prior of a component's parameters weighs so many rows."""
PRIOR_VARIANCE = 0.01
"""The variance that it speaks for, relative to the column's: no component shrinks to a point."""
CONVERGED = 1e-7
MOST_STEPS = 500
FIRST_STEPS = 15
"""Steps made from every start before the best one is followed."""
WIDE = 32
"""The indicators of a category of more states are a sparse matrix."""
TOGETHER = 1 << 19
"""Cells of an array over components, fits and rows (or statistics), about."""


@dataclass(frozen=True)
class MixtureStatistics:
    """Sufficient statistics of rows.

    Attributes
    ----------
    narrow : ndarray (rows, statistics)
    wide : sparse array (rows, statistics), of categories of many states; they come after the others
    weights : ndarray (rows,)
    places : tuple of slices, where the statistics of each column are
    numbers : ndarray (numbers,), the place of each number column's three statistics
    categories : tuple of slices, the places of each category's states
    centers, scales : ndarray (numbers,); numbers are standardized by them
    shares : ndarray (statistics,), of the states in all rows
    """

    narrow: Values
    wide: sparse.csr_array
    weights: Values
    places: tuple[slice, ...]
    numbers: NDArray[np.intp]
    categories: tuple[slice, ...]
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

    @cached_property
    def _transposed(self) -> sparse.csr_array:
        return self.wide.T.tocsr()

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self.weights)

    def take(self, rows: Any) -> MixtureStatistics:
        """Return the statistics of some rows."""
        return replace(self, narrow=self.narrow[rows], wide=self.wide[rows], weights=self.weights[rows])

    def products(self, natural: Values) -> Values:
        """Return each row's products with vectors (statistics, vectors): (vectors, rows)."""
        split = self.narrow.shape[1]
        result: Values = natural[:split].T @ self.narrow.T
        if self.wide.shape[1]:
            result += (self.wide @ np.ascontiguousarray(natural[split:])).T
        return result

    def sums(self, weights: Values) -> Values:
        """Return the sums of the rows' statistics with some weights (vectors, rows): (statistics, vectors)."""
        found: Values = self.narrow.T @ weights.T
        if not self.wide.shape[1]:
            return found
        return np.concatenate([found, self._transposed @ np.ascontiguousarray(weights.T)])


@dataclass(frozen=True)
class MixtureFit:
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


def compute_statistics(
    columns: Sequence[NDArray[Any]], states: Sequence[int | None], weights: Values
) -> MixtureStatistics:
    """Return the sufficient statistics of columns of codes (with numbers of states) or numbers (None).

    Examples
    --------
    >>> found = compute_statistics([np.array([0, -1]), np.array([1.0, 3.0])], [2, None], np.ones(2))
    >>> found.narrow
    array([[ 1.,  0.,  1., -1.,  1.],
           [ 0.,  0.,  1.,  1.,  1.]])
    """
    rows = len(weights)
    narrow, wide, centers, scales = [np.empty((rows, 0))], [sparse.csr_array((rows, 0))], [], []
    sizes = [3 if count is None else count for count in states]
    spread = [count is not None and count > WIDE for count in states]
    order = sorted(range(len(sizes)), key=lambda i: spread[i])
    begin = dict(zip(order, np.cumsum([0, *(sizes[i] for i in order)]).tolist(), strict=False))
    places = tuple(slice(begin[i], begin[i] + size) for i, size in enumerate(sizes))
    for column, count in zip(columns, states, strict=True):
        if count is None:
            block, center, scale = _standardize(column, weights)
            narrow.append(block)
            centers.append(center)
            scales.append(scale)
        elif count > WIDE:
            known = np.flatnonzero(column >= 0)
            wide.append(sparse.csr_array((np.ones(len(known)), (known, column[known])), shape=(rows, count)))
        else:
            narrow.append((column[:, None] == np.arange(count)).astype(float))
    made = MixtureStatistics(
        np.concatenate(narrow, axis=1),
        sparse.hstack(wide, format="csr"),
        weights,
        places,
        np.array([place.start for place, count in zip(places, states, strict=True) if count is None], dtype=np.intp),
        tuple(sorted((place for place, count in zip(places, states, strict=True) if count is not None), key=_start_of)),
        np.array(centers),
        np.array(scales),
        np.empty(0),
    )
    shares = made.sums(weights[None])[:, 0]
    for part in made.categories:
        shares[part] = (shares[part] + 1 / (part.stop - part.start)) / (shares[part].sum() + 1)
    return replace(made, shares=shares)


def _start_of(place: slice) -> int:
    return int(place.start)


def _standardize(column: Values, weights: Values) -> tuple[Values, float, float]:
    """Return the statistics of a number column (rows, 3), the center and the scale."""
    seen = ~np.isnan(column)
    mass = weights[seen].sum()
    # in units of the largest number, so that no square overflows
    unit = float(np.abs(column[seen]).max(initial=0.0)) or 1.0
    inner = column / unit
    center = float(weights[seen] @ inner[seen] / mass) if mass > 0 else 0.0
    spread = math.sqrt(float(weights[seen] @ (inner[seen] - center) ** 2 / mass)) if mass > 0 else 0.0
    scale = spread if spread > 1e-12 * max(abs(center), 1e-300) else 1.0 / unit
    standard = np.where(seen, (inner - center) / scale, 0.0)
    return np.stack([seen.astype(float), standard, standard**2], axis=1), center * unit, scale * unit


# -- fits -------------------------------------------------------------------------------------------------------------


def fit_mixture(data: MixtureStatistics, components: int, starts: int, rng: np.random.Generator) -> MixtureFit:
    """Fit a mixture by EM from several starts, the best of which is followed to the end.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> data = compute_statistics([np.r_[rng.normal(size=50), 20 + rng.normal(size=150)]], [None], np.ones(200))
    >>> np.exp(np.sort(fit_mixture(data, 2, 3, rng).log_shares)).round(2)
    array([0.25, 0.75])
    """
    return _fit_weightings(data, data.weights[None], components, starts, rng)[0]


def score_held_out(
    data: MixtureStatistics, components: int, parts: NDArray[np.intp], starts: int, rng: np.random.Generator
) -> Values:
    """Return the log-density of every row under the mixture fitted to the rows of the other parts (rows,)."""
    outside = parts != np.arange(parts.max() + 1)[:, None]
    fits = _fit_weightings(data, outside * data.weights, components, starts, rng)
    result = np.zeros(len(data))
    for part, fit in enumerate(fits):
        inside = np.flatnonzero(parts == part)
        result[inside] = compute_responsibilities(data.take(inside), fit)[1]
    return result


def compute_responsibilities(data: MixtureStatistics, fit: MixtureFit) -> tuple[Values, Values]:
    """Return the probabilities of the components (rows, components), and the log-density of each row."""
    given, logs = _expect(data, _MixtureParameters(fit.log_shares[:, None], fit.natural[:, :, None]))
    return np.ascontiguousarray(given[:, 0].T), logs[0]


def _fit_weightings(
    data: MixtureStatistics, weights: Values, components: int, starts: int, rng: np.random.Generator
) -> list[MixtureFit]:
    """Return a mixture for each of some weightings of the rows (fits, rows)."""
    count, rows = weights.shape
    if components == 1:
        return _iterate(data, weights, _maximize(data, weights, np.ones((1, count, rows))), 1)
    chances = rng.random((count * starts, components))
    step = max(1, TOGETHER // (components * max(rows, len(data.shares))))
    begun: list[MixtureFit] = []
    for first in range(0, len(chances), step):
        part = slice(first, first + step)
        mine = weights[np.arange(len(chances))[part] // starts]
        begun += _iterate(data, mine, _maximize(data, mine, _assign_starts(data, mine, chances[part])), FIRST_STEPS)
    best = [max(begun[i : i + starts], key=lambda fit: fit.history[-1]) for i in range(0, len(begun), starts)]
    found: list[MixtureFit] = []
    for first in range(0, count, step):
        chosen = best[first : first + step]
        joined = _MixtureParameters(
            np.stack([fit.log_shares for fit in chosen], axis=1), np.stack([fit.natural for fit in chosen], axis=2)
        )
        found += _iterate(data, weights[first : first + step], joined, MOST_STEPS)
    return [replace(rest, history=fit.history + rest.history[1:]) for fit, rest in zip(best, found, strict=True)]


class _MixtureParameters(NamedTuple):
    """Of several fits: log_shares (components, fits), natural (statistics, components, fits)."""

    log_shares: Values
    natural: Values

    def take(self, fits: NDArray[np.bool_]) -> _MixtureParameters:
        return _MixtureParameters(self.log_shares[:, fits], self.natural[:, :, fits])


def _iterate(data: MixtureStatistics, weights: Values, found: _MixtureParameters, steps: int) -> list[MixtureFit]:
    """Alternate expectation and maximization until each fit hardly changes or the steps are used up."""
    history: list[list[float]] = [[] for _ in weights]
    fits: dict[int, MixtureFit] = {}
    active = np.arange(len(weights))
    before = np.full(len(weights), -np.inf)
    for step in range(steps):
        given, logs = _expect(data, found)
        likelihood = np.einsum("fr,fr->f", weights, logs)
        now = likelihood + _log_prior(data, found)
        done = (now - before <= CONVERGED * np.maximum(np.abs(now), 1.0)) | (step == steps - 1)
        for place, fit in enumerate(active.tolist()):
            history[fit].append(float(now[place]))
            if done[place]:
                shares, natural = found.log_shares[:, place].copy(), found.natural[:, :, place].copy()
                fits[fit] = MixtureFit(shares, natural, tuple(history[fit]), float(likelihood[place]))
        if done.all():
            break
        if done.any():
            active, before, weights, given = active[~done], now[~done], weights[~done], given[:, ~done]
        else:
            before = now
        found = _maximize(data, weights, given)
    return [fits[fit] for fit in range(len(history))]


def _assign_starts(data: MixtureStatistics, weights: Values, chances: Values) -> Values:
    """Assign each row to the nearest of some rows that lie far apart (k-means++ over the cells that both have).

    The chances are uniform random numbers (fits, components).
    """
    nearest = np.full(weights.shape, np.inf)
    owner = np.zeros(weights.shape, dtype=np.intp)
    components = chances.shape[1]
    for number in range(components):
        reached = np.cumsum(weights * nearest if number else weights, axis=1)
        nowhere = ~(reached[:, -1] > 0)
        if nowhere.any():
            reached[nowhere] = np.cumsum(weights[nowhere], axis=1)
        chosen = (reached > chances[:, number, None] * reached[:, -1:]).argmax(axis=1)
        distance = _measure_distances(data, chosen)
        closer = distance < nearest
        np.copyto(nearest, distance, where=closer)
        owner[closer] = number
    # never quite sure, so that a component can still grow
    result: Values = 0.9 * (owner == np.arange(components)[:, None, None]) + 0.1 / components
    return result


def _measure_distances(data: MixtureStatistics, chosen: NDArray[np.intp]) -> Values:
    """Return the mean squared distances of all rows from chosen ones (chosen, rows).

    The mean is over the cells that both rows have; a different state counts 2.
    """
    narrow, wide = data.narrow[chosen].T, data.wide[chosen].toarray().T
    one = np.concatenate([narrow, wide])
    gap, both = np.zeros_like(one), np.zeros_like(one)
    seen, value, square = (one[data.numbers + shift] for shift in range(3))
    gap[data.numbers], gap[data.numbers + 1], gap[data.numbers + 2] = square, -2 * value, seen
    both[data.numbers] = seen
    places, starts, owner = data.states
    if len(places):
        both[places] = np.add.reduceat(one[places], starts, axis=0)[owner]
        gap[places] = 2 * (both[places] - one[places])
    shared = data.products(both)
    return np.where(shared > 0, np.maximum(data.products(gap), 0.0) / np.maximum(shared, 1), 1.0)


def _expect(data: MixtureStatistics, found: _MixtureParameters) -> tuple[Values, Values]:
    """Return the responsibilities (components, fits, rows) and the log-densities (fits, rows)."""
    components, fits = found.log_shares.shape
    given = data.products(found.natural.reshape(len(found.natural), -1)).reshape(components, fits, -1)
    given += found.log_shares[:, :, None]
    top = given.max(axis=0)
    given -= top
    np.exp(given, out=given)
    total = given.sum(axis=0)
    given /= total
    return given, top + np.log(total)


def _maximize(data: MixtureStatistics, weights: Values, given: Values) -> _MixtureParameters:
    """Return the parameters of highest posterior density for rows that belong to components in these shares."""
    weighted = given * weights
    components, fits, rows = given.shape
    totals = data.sums(weighted.reshape(-1, rows)).reshape(-1, components, fits)
    sizes = weighted.sum(axis=2) + PRIOR_ROWS
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
        table = totals[places] + PRIOR_ROWS * data.shares[places, None, None]
        natural[places] = np.log(table / np.add.reduceat(table, starts, axis=0)[owner])
    return _MixtureParameters(np.log(sizes / sizes.sum(axis=0)), natural)


def _log_prior(data: MixtureStatistics, found: _MixtureParameters) -> Values:
    """Return the log prior density of the parameters of each fit, but for a constant."""
    result: Values = PRIOR_ROWS * found.log_shares.sum(axis=0)
    if len(data.numbers):
        halves = -found.natural[data.numbers + 2]
        result += PRIOR_ROWS * (0.5 * np.log(2 * halves) - PRIOR_VARIANCE * halves).sum(axis=(0, 1))
    places = data.states[0]
    result += PRIOR_ROWS * np.tensordot(data.shares[places], found.natural[places], axes=1).sum(axis=0)
    return result
