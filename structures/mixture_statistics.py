"""The sufficient statistics of a mixture's rows, and the covariances of its numbers.

What columns are standardized by adds up over batches. Covariances are full, tied, of a few factors, or along a tree. A
row without holes has the sufficient statistics 1, x and the products of the numbers, so that both steps of EM are
matrix products. Rows with the same holes share the conditional moments of what is missing, given what is not. Arrays
over components and fits begin with these two dimensions, as in `mixture_em`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from operator import attrgetter
from typing import Any, Literal, NamedTuple

import numpy as np
import scipy
from numpy.typing import NDArray

from hybridbn.fitting.counting import Counts, Moments
from hybridbn.variables import Values

Covariance = Literal["diagonal", "full", "tied", "factors", "tree"]

PRIOR_ROWS = 1.0
"""The prior of a component's parameters has the weight of this many rows."""
PRIOR_VARIANCE = 0.01
"""The variance of a covariance's prior relative to that of the column, unless another one is asked for; it keeps
components from shrinking to a point.
"""
ROWS = 4096
"""Products of numbers are made for this many rows at a time."""
CELLS = 1 << 18
"""Matrices of several patterns of missing cells have about so many cells together."""
FACTOR_STEPS = 3
"""Steps of the fixed point of factor loadings in one step of EM."""
LEAST_UNIQUE = 0.005
"""The least share of a variance that is no factor's."""


class NormalParameters(NamedTuple):
    """Means (components, fits, numbers) and covariances (components, fits, numbers, numbers)."""

    means: Values
    covariances: Values

    def take(self, fits: Any) -> NormalParameters:
        """Return the parameters of some fits."""
        return NormalParameters(self.means[:, fits], self.covariances[:, fits])

    @classmethod
    def join(cls, parts: Sequence[NormalParameters]) -> NormalParameters:
        """Return the parameters of the fits of all parts."""
        return cls(*(np.concatenate(arrays, axis=1) for arrays in zip(*parts, strict=True)))


class NormalSums(NamedTuple):
    """Weights (components, fits), expected sums (components, fits, numbers) and expected products (components, fits,
    numbers, numbers) of some rows.
    """

    total: Values
    sums: Values
    products: Values


class _Pattern(NamedTuple):
    """Rows with as many missing cells.

    Attributes
    ----------
    rows : ndarray (rows,)
    owner : ndarray (rows,), ascending
        The pattern of each row.
    missing : ndarray (patterns, columns)
        The columns that are missing in each pattern.
    """

    rows: NDArray[np.intp]
    owner: NDArray[np.intp]
    missing: NDArray[np.intp]

    def take_missing(self, values: Values) -> Values:
        """Return the numbers (..., rows or 1, numbers) in the missing columns (..., rows, columns)."""
        places = self.missing[self.owner]
        row = np.arange(len(places))[:, None] if values.shape[-2] > 1 else np.zeros((1, 1), dtype=np.intp)
        return np.asarray(values[..., row, places])

    def invert_missing(self, precision: Values) -> tuple[Values, Values]:
        """Return the precision matrices of the missing columns given the others, and their inverses, the covariances
        (..., patterns, columns, columns).
        """
        own = precision[..., self.missing[:, :, None], self.missing[:, None, :]]
        return own, np.asarray(1 / own if self.missing.shape[1] == 1 else np.linalg.inv(own))

    def apply(self, matrices: Values, vectors: Values) -> Values:
        """Return products with the matrices of the rows' patterns (..., rows, columns)."""
        return np.asarray((matrices[..., self.owner, :, :] @ vectors[..., None])[..., 0])

    def list_places(self, numbers: int) -> tuple[NDArray[np.intp], scipy.sparse.csr_array]:
        """Return the first row of each pattern, and where the cells of its matrix are in that of all numbers."""
        starts = np.searchsorted(self.owner, np.arange(len(self.missing)))
        cells = (self.missing[:, :, None] * numbers + self.missing[:, None, :]).ravel()
        indicators = np.ones(len(cells)), (np.arange(len(cells)), cells)
        return starts, scipy.sparse.csr_array(indicators, shape=(len(cells), numbers**2))


@dataclass(frozen=True)
class NumberBlock:
    """Columns of numbers with a common covariance, standardized; zero where a cell is missing.

    Attributes
    ----------
    values : ndarray (rows, numbers)
    seen : ndarray of bool (rows, numbers)
    factors : int
        How many factors there are, where the covariance is that of factors.
    prior_variance : float
        That of each number in the prior of a covariance.
    """

    values: Values
    seen: NDArray[np.bool_]
    factors: int = 1
    prior_variance: float = PRIOR_VARIANCE

    def take(self, rows: Any) -> NumberBlock:
        """Return the block of some rows."""
        return replace(self, values=self.values[rows], seen=self.seen[rows])

    @cached_property
    def _complete(self) -> NDArray[np.intp]:
        """The rows in which no cell is missing."""
        return np.flatnonzero(self.seen.all(axis=1))

    @cached_property
    def _incomplete(self) -> list[_Pattern]:
        """The other rows, those together that have as many missing cells; ordered by which these are."""
        rows = np.flatnonzero(~self.seen.all(axis=1))
        masks, owner = np.unique(self.seen[rows], axis=0, return_inverse=True)
        sizes = (~masks).sum(axis=1)
        result = []
        for size in np.unique(sizes).tolist():
            patterns = np.flatnonzero(sizes == size)
            own = np.flatnonzero(sizes[owner.ravel()] == size)
            own = own[np.argsort(owner.ravel()[own], kind="stable")]
            missing = np.nonzero(~masks[patterns])[1].reshape(-1, size)
            result.append(_Pattern(rows[own], np.searchsorted(patterns, owner.ravel()[own]), missing))
        return result

    def _list_parts(self, fits: int) -> Iterator[_Pattern]:
        """Yield incomplete rows in parts for which the arrays of so many fits are not too large."""
        together = max(1, CELLS // max(fits * self.values.shape[1], 1))
        for rows, owner, missing in self._incomplete:
            for start in range(0, len(rows), together):
                own = owner[start : start + together]
                yield _Pattern(rows[start : start + together], own - own[0], missing[own[0] : own[-1] + 1])

    def _features(self) -> Iterator[tuple[Any, Values]]:
        """Yield complete rows, some at a time, with 1, x and the products of their numbers."""
        rows, numbers = self._complete, self.values.shape[1]
        whole = len(rows) == len(self.values)
        for start in range(0, len(rows), ROWS):
            part = slice(start, start + ROWS) if whole else rows[start : start + ROWS]
            x = self.values[part]
            products = [x[:, number:] * x[:, number, None] for number in range(numbers)]
            yield part, np.concatenate([np.ones((len(x), 1)), x, *products], axis=1)

    def log_densities(self, parameters: NormalParameters) -> Values:
        """Return the log densities of what is observed (components, fits, rows)."""
        means, covariances = parameters
        shape, numbers = means.shape[:2], means.shape[-1]
        result = np.zeros((*shape, len(self.values)))
        precision = np.asarray(np.linalg.inv(covariances), dtype=np.float64)
        _, size = np.linalg.slogdet(covariances)
        linear = (precision @ means[..., None])[..., 0]
        constant = -0.5 * (size + numbers * math.log(2 * math.pi) + (linear * means).sum(axis=-1))
        first, second = _list_pairs(numbers)
        squares = -precision[..., first, second] * np.where(first == second, 0.5, 1.0)
        natural = np.concatenate([constant[..., None], linear, squares], axis=-1)
        for part, features in self._features():
            result[..., part] = (features @ natural.reshape(-1, natural.shape[-1]).T).T.reshape(*shape, -1)
        for part in self._list_parts(math.prod(shape)):
            apart = self._subtract(means, part)
            turned = apart @ precision
            hidden = part.take_missing(turned)
            inner, left = part.invert_missing(precision)
            squares = (apart * turned).sum(axis=-1) - (hidden * part.apply(left, hidden)).sum(axis=-1)
            seen = numbers - part.missing.shape[1]
            sizes = size[..., None] + np.linalg.slogdet(inner)[1]
            result[..., part.rows] = -0.5 * (squares + sizes[..., part.owner] + seen * math.log(2 * math.pi))
        return result

    def _subtract(self, means: Values, part: _Pattern) -> Values:
        """Return the deviations of some rows from the means (components, fits, rows, numbers), zero where a cell is
        missing.
        """
        return np.asarray(self.values[part.rows] - self.seen[part.rows] * means[..., None, :])

    def sum_moments(self, weights: Values, before: NormalParameters | None) -> NormalSums:
        """Return weights, expected sums and expected products, for weights (components, fits, rows).

        Where cells are missing, their expected products are those under the parameters before; without any, they are
        those of a standard normal density.
        """
        numbers = self.values.shape[1]
        shape = weights.shape[:2]
        if before is None:
            before = NormalParameters(
                np.zeros((*shape, numbers)), np.broadcast_to(np.eye(numbers), (*shape, numbers, numbers))
            )
        moments = np.zeros((*shape, 1 + numbers + numbers * (numbers + 1) // 2))
        for part, features in self._features():
            own = weights[..., part]
            moments += (own.reshape(-1, own.shape[-1]) @ features).reshape(*shape, -1)
        total, sums = moments[..., 0], moments[..., 1 : 1 + numbers]
        first, second = _list_pairs(numbers)
        products = np.empty((*shape, numbers, numbers))
        products[..., first, second] = products[..., second, first] = moments[..., 1 + numbers :]
        precision = np.asarray(np.linalg.inv(before.covariances), dtype=np.float64)
        for part in self._list_parts(math.prod(shape)):
            own = weights[..., part.rows]
            turned = self._subtract(before.means, part) @ precision
            _, left = part.invert_missing(precision)
            expected = part.take_missing(before.means[..., None, :]) - part.apply(left, part.take_missing(turned))
            values = np.broadcast_to(self.values[part.rows], turned.shape).copy()
            values[..., np.arange(len(part.rows))[:, None], part.missing[part.owner]] = expected
            weighted = own[..., None] * values
            total, sums = total + own.sum(axis=-1), sums + weighted.sum(axis=-2)
            products += np.swapaxes(weighted, -1, -2) @ values
            # what is missing varies about what is expected
            starts, places = part.list_places(numbers)
            spread = left * np.add.reduceat(own, starts, axis=-1)[..., None, None]
            products += (spread.reshape(-1, places.shape[0]) @ places).reshape(products.shape)
        return NormalSums(total, sums, products)

    def maximize_sums(self, moments: NormalSums, covariance: Covariance) -> NormalParameters:
        """Return means and covariances of highest posterior density."""
        total, sums, products = moments
        safe = np.maximum(total, 1e-300)
        means = np.where(total[..., None] > 1e-9, sums / safe[..., None], 0.0)
        scatter = products - total[..., None, None] * means[..., None] * means[..., None, :]
        prior = PRIOR_ROWS * self.prior_variance * np.eye(scatter.shape[-1])
        return NormalParameters(means, _estimate_covariances(scatter, total, prior, covariance, self.factors))

    def log_prior(self, parameters: NormalParameters, covariance: Covariance) -> Values:
        """Return the log prior density of the covariances of each fit, up to a constant (fits,)."""
        own = parameters.covariances[:1] if covariance == "tied" else parameters.covariances
        _, size = np.linalg.slogdet(own)
        traces = np.trace(np.linalg.inv(own), axis1=-2, axis2=-1)
        return np.asarray(-0.5 * PRIOR_ROWS * (size + self.prior_variance * traces).sum(axis=0))


@lru_cache(maxsize=64)
def _list_pairs(numbers: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return the pairs of numbers, those with themselves included; kept, because each pattern wants them often."""
    return np.triu_indices(numbers)


def _estimate_covariances(
    scatter: Values, total: Values, prior: Values, covariance: Covariance, factors: int
) -> Values:
    """Return the covariances of highest posterior density, of a form, given sums of squares and weights, and the sums
    of squares of the prior's rows.
    """
    if covariance == "tied":
        pooled = (scatter.sum(axis=0) + prior) / (total.sum(axis=0) + PRIOR_ROWS)[..., None, None]
        return np.broadcast_to(pooled, scatter.shape)
    own: Values = (scatter + prior) / (total + PRIOR_ROWS)[..., None, None]
    if covariance == "tree":
        return np.stack([_fit_tree(own[:, fit], total[:, fit]) for fit in range(own.shape[1])], axis=1)
    return _fit_factors(own, factors) if covariance == "factors" else own


def _fit_tree(covariances: Values, total: Values) -> Values:
    """Return covariances (components, numbers, numbers) in which each number depends on one other in the tree."""
    result = np.zeros_like(covariances)
    numbers = np.arange(covariances.shape[-1])
    result[:, numbers, numbers] = covariances[:, numbers, numbers]
    placed: list[int] = []
    for child, parent in _find_tree(covariances, total):
        if parent >= 0:
            slope = covariances[:, child, parent] / covariances[:, parent, parent]
            result[:, child, placed] = result[:, placed, child] = slope[:, None] * result[:, parent, placed]
        placed.append(child)
    return result


def _find_tree(covariances: Values, total: Values) -> list[tuple[int, int]]:
    """Return each number with its parent in the tree of greatest likelihood, parents first; the root has -1."""
    deviations = np.sqrt(np.diagonal(covariances, axis1=-2, axis2=-1))
    correlations = covariances / deviations[..., None] / deviations[..., None, :]
    information = -0.5 * np.log1p(-np.minimum(correlations**2, 1 - 1e-12))
    weights = np.einsum("k,kij->ij", total, information)
    np.fill_diagonal(weights, 0.0)
    # a missing edge is a zero there, so all edges are kept below it
    tree = scipy.sparse.csgraph.minimum_spanning_tree(-weights - 1e-9 * (1 + weights.max()))
    order, above = scipy.sparse.csgraph.breadth_first_order(tree, 0, directed=False)
    return [(int(node), int(above[node]) if above[node] >= 0 else -1) for node in order]


def _fit_factors(covariances: Values, factors: int) -> Values:
    """Return covariances of a few factors and unique variances, by maximum likelihood (Jöreskog's fixed point)."""
    variances = np.diagonal(covariances, axis1=-2, axis2=-1)
    unique = 1 / np.diagonal(np.linalg.inv(covariances), axis1=-2, axis2=-1)
    common = np.zeros_like(covariances)
    for _ in range(FACTOR_STEPS):
        root = np.sqrt(unique)
        values, vectors = np.linalg.eigh(covariances / root[..., None] / root[..., None, :])
        strength = np.sqrt(np.maximum(values[..., -factors:] - 1, 0.0))
        loadings = root[..., None] * vectors[..., -factors:] * strength[..., None, :]
        common = loadings @ np.swapaxes(loadings, -1, -2)
        unique = np.maximum(variances - np.diagonal(common, axis1=-2, axis2=-1), LEAST_UNIQUE * variances)
    return np.asarray(common + unique[..., None] * np.eye(covariances.shape[-1]))


def count_covariances(covariance: Covariance, components: int, numbers: int, factors: int) -> int:
    """Return how many parameters the covariances of a form have.

    Examples
    --------
    >>> [count_covariances(form, 2, 4, 1) for form in ("diagonal", "tree", "factors", "tied", "full")]
    [8, 14, 16, 10, 20]
    """
    full = numbers * (numbers + 1) // 2
    each = {
        "diagonal": numbers,
        "tree": 2 * numbers - 1,
        "factors": numbers + numbers * factors - factors * (factors - 1) // 2,
        "full": full,
    }
    return full if covariance == "tied" else components * each[covariance]


def select_parents(covariances: Values, shares: Values, covariance: Covariance) -> list[tuple[int, ...]]:
    """Return on which other numbers each one depends, given the component.

    Examples
    --------
    >>> chain = 0.5 ** np.abs(np.subtract.outer(np.arange(3), np.arange(3)))
    >>> select_parents(chain[None], np.ones(1), "tree"), select_parents(chain[None], np.ones(1), "full")
    ([(), (0,), (1,)], [(), (0,), (0, 1)])
    """
    numbers = covariances.shape[-1]
    if covariance == "tree":
        above = dict(_find_tree(covariances, shares))
        return [(above[number],) if above[number] >= 0 else () for number in range(numbers)]
    return [tuple(range(number)) for number in range(numbers)]


def regress_along(
    means: Values, covariances: Values, number: int, parents: tuple[int, ...]
) -> tuple[Values, Values, Values]:
    """Return intercepts, coefficients and variances of a number given others, for each component.

    Examples
    --------
    >>> regress_along(np.zeros((1, 2)), np.array([[[4.0, 2.0], [2.0, 2.0]]]), 1, (0,))
    (array([0.]), array([[0.5]]), array([1.]))
    """
    given = list(parents)
    across = covariances[:, number, given]
    slopes = np.linalg.solve(covariances[:, given][:, :, given], across[..., None])[..., 0]
    variances = covariances[:, number, number] - (slopes * across).sum(axis=1)
    intercepts = means[:, number] - (slopes * means[:, given]).sum(axis=1)
    return np.asarray(intercepts), np.asarray(slopes), np.asarray(variances)


WIDE = 32
"""The indicators of a category with more states are a sparse matrix."""


class Cells(NamedTuple):
    """Standardized numbers (rows, numbers) and codes of states (rows, categories)."""

    numbers: Values
    codes: NDArray[np.intp]

    def take(self, rows: Any) -> Cells:
        """Return some of the rows."""
        return Cells(self.numbers[rows], self.codes[rows])


@dataclass(frozen=True)
class MixtureStatistics:
    """Sufficient statistics of the rows of a table.

    Attributes
    ----------
    narrow : ndarray (rows, statistics)
    wide : sparse array (rows, statistics), of categories with many states; they come after the others
    weights : ndarray (rows,)
    slices : tuple of slices, the positions of the statistics of each column
    numbers : ndarray (numbers,), the position of the first of the three statistics of each number column that is none
        of the block's
    categories : tuple of slices, the positions of each category's states
    centers, scales : ndarray (numbers,); numbers are standardized by them
    shares : ndarray (statistics,), of the states in all rows
    block : NumberBlock or None, numbers with a common covariance
    covariance : of the block
    """

    narrow: Values
    wide: scipy.sparse.csr_array
    weights: Values
    slices: tuple[slice, ...]
    numbers: NDArray[np.intp]
    categories: tuple[slice, ...]
    centers: Values
    scales: Values
    shares: Values
    block: NumberBlock | None = None
    covariance: Covariance = "diagonal"

    @cached_property
    def states(self) -> tuple[NDArray[np.intp], NDArray[np.intp], NDArray[np.intp]]:
        """The positions of all states, the index of the first state of each category, and the category of each
        state.
        """
        sizes = np.array([columns.stop - columns.start for columns in self.categories], dtype=np.intp)
        positions = [np.arange(columns.start, columns.stop) for columns in self.categories]
        joined = np.concatenate([np.empty(0, dtype=np.intp), *positions])
        return joined, np.cumsum(sizes) - sizes, np.repeat(np.arange(len(sizes)), sizes)

    @cached_property
    def _transposed(self) -> scipy.sparse.csr_array:
        return self.wide.T.tocsr()

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self.weights)

    def take(self, rows: Any) -> MixtureStatistics:
        """Return the statistics of some rows."""
        block = None if self.block is None else self.block.take(rows)
        return replace(self, narrow=self.narrow[rows], wide=self.wide[rows], weights=self.weights[rows], block=block)

    def join_numbers(
        self,
        chosen: NDArray[np.intp],
        covariance: Covariance,
        factors: int | None = None,
        prior_variance: float = PRIOR_VARIANCE,
    ) -> MixtureStatistics:
        """Return the statistics with a common covariance of some of the numbers."""
        if covariance == "diagonal":
            return self
        positions = self.numbers[chosen]
        block = NumberBlock(self.narrow[:, positions + 1], self.narrow[:, positions] > 0, prior_variance=prior_variance)
        if covariance == "factors":
            block = replace(block, factors=_count_factors(block, self.weights) if factors is None else factors)
        return replace(self, numbers=np.delete(self.numbers, chosen), block=block, covariance=covariance)

    @property
    def is_complete(self) -> bool:
        """Whether no cell is missing, and no category has very many states."""
        seen = [self.narrow[:, self.numbers].all(axis=0), *(self.narrow[:, c].any(axis=1) for c in self.categories)]
        return not self.wide.shape[1] and bool(np.concatenate(seen).all())

    def list_cells(self) -> tuple[Cells, tuple[Values, ...]]:
        """Return the cells of complete rows, none of whose numbers are in the block, and the shares of the states."""
        codes = [self.narrow[:, columns].argmax(axis=1) for columns in self.categories]
        stacked = np.stack(codes, axis=1) if codes else np.zeros((len(self), 0), dtype=np.intp)
        shares = tuple(self.shares[columns] for columns in self.categories)
        return Cells(self.narrow[:, self.numbers + 1], stacked), shares

    def products(self, natural: Values) -> Values:
        """Return each row's products with vectors (statistics, vectors): (vectors, rows)."""
        width = self.narrow.shape[1]
        result: Values = natural[:width].T @ self.narrow.T
        if self.wide.shape[1]:
            result += (self.wide @ np.ascontiguousarray(natural[width:])).T
        return result

    def sums(self, weights: Values) -> Values:
        """Return weighted sums of the rows' statistics, for weights (vectors, rows): (statistics, vectors)."""
        result: Values = self.narrow.T @ weights.T
        if not self.wide.shape[1]:
            return result
        return np.concatenate([result, self._transposed @ np.ascontiguousarray(weights.T)])


@dataclass(frozen=True)
class Measures:
    """What columns are standardized by; ``a + b`` are those of the rows of both.

    Attributes
    ----------
    units : ndarray (numbers,), in which the moments are, so that no square overflows
    moments : Moments, each number being a configuration
    counts : Counts, the weights of the states of each category
    """

    units: Values
    moments: Moments
    counts: Counts

    def __add__(self, other: Measures) -> Measures:
        return Measures(self.units, self.moments + other.moments, self.counts + other.counts)

    @property
    def means(self) -> Values:
        """The means in their units."""
        return self.moments.means[:, 0]

    @property
    def scales(self) -> Values:
        """The standard deviations in their units; where there is none, one."""
        masses, squares = self.moments.weights, self.moments.products[:, 0, 0]
        spreads = np.sqrt(np.divide(squares, masses, out=np.zeros_like(masses), where=masses > 0))
        return np.where(spreads > 1e-12 * np.maximum(np.abs(self.means), 1e-300), spreads, 1.0 / self.units)


def measure_columns(
    columns: Sequence[NDArray[Any]], states: Sequence[int | None], weights: Values, units: Values | None = None
) -> Measures:
    """Return the measures of columns; `units` are those of the numbers, if these are some rows of many.

    Examples
    --------
    >>> columns = [np.array([1.0, 3.0, 8.0]), np.array([0, 1, 1])]
    >>> whole = measure_columns(columns, [None, 2], np.ones(3), np.ones(1))
    >>> parts = [measure_columns([c[p] for c in columns], [None, 2], np.ones(n), np.ones(1))
    ...          for p, n in ((slice(0, 1), 1), (slice(1, 3), 2))]
    >>> (parts[0] + parts[1]).scales == whole.scales, whole.counts[0]
    (array([ True]), array([1., 2.]))
    """
    numbers: list[tuple[float, float, float, float]] = []
    counts: list[Values] = []
    for column, size in zip(columns, states, strict=True):
        if size is not None:
            observed = column >= 0
            counts.append(np.asarray(np.bincount(column[observed], weights[observed], size), float))
            continue
        seen = ~np.isnan(column)
        unit = float(np.abs(column[seen]).max(initial=0.0)) or 1.0 if units is None else float(units[len(numbers)])
        inner, own = column[seen] / unit, weights[seen]
        mass = float(own.sum())
        mean = float(own @ inner / mass) if mass > 0 else 0.0
        numbers.append((unit, mass, mean, float(own @ (inner - mean) ** 2)))
    units, masses, means, squares = np.array(numbers).reshape(-1, 4).T
    moments = Moments(float(weights.sum()), masses, means[:, None], squares[:, None, None])
    return Measures(units, moments, Counts(enumerate(counts)))


def compute_statistics(
    columns: Sequence[NDArray[Any]], states: Sequence[int | None], weights: Values, measures: Measures | None = None
) -> MixtureStatistics:
    """Return the sufficient statistics of columns; `states` has the number of states of a category, None for numbers.

    The numbers are standardized by the measures, which are those of these rows where they are not given.

    Examples
    --------
    >>> statistics = compute_statistics([np.array([0, -1]), np.array([1.0, 3.0])], [2, None], np.ones(2))
    >>> statistics.narrow
    array([[ 1.,  0.,  1., -1.,  1.],
           [ 0.,  0.,  1.,  1.,  1.]])
    """
    rows = len(weights)
    if measures is None:
        measures = measure_columns(columns, states, weights)
    narrow, wide = [np.empty((rows, 0))], [scipy.sparse.csr_array((rows, 0))]
    standards = iter(zip(measures.units, measures.means, measures.scales, strict=True))
    sizes = [3 if count is None else count for count in states]
    is_wide = [count is not None and count > WIDE for count in states]
    order = sorted(range(len(sizes)), key=lambda i: is_wide[i])
    starts = dict(zip(order, np.cumsum([0, *(sizes[i] for i in order)]).tolist(), strict=False))
    slices = tuple(slice(starts[i], starts[i] + size) for i, size in enumerate(sizes))
    for column, count in zip(columns, states, strict=True):
        if count is None:
            narrow.append(_standardize(column, *next(standards)))
        elif count > WIDE:
            observed = np.flatnonzero(column >= 0)
            indicators = np.ones(len(observed)), (observed, column[observed])
            wide.append(scipy.sparse.csr_array(indicators, shape=(rows, count)))
        else:
            narrow.append((column[:, None] == np.arange(count)).astype(float))
    statistics = MixtureStatistics(
        np.concatenate(narrow, axis=1),
        scipy.sparse.hstack(wide, format="csr"),
        weights,
        slices,
        np.array(
            [columns.start for columns, count in zip(slices, states, strict=True) if count is None], dtype=np.intp
        ),
        tuple(
            sorted(
                (part for part, count in zip(slices, states, strict=True) if count is not None), key=attrgetter("start")
            )
        ),
        measures.means * measures.units,
        measures.scales * measures.units,
        np.zeros(sum(sizes)),
    )
    categories = [part for part, count in zip(slices, states, strict=True) if count is not None]
    for part, counts in zip(categories, measures.counts.values(), strict=True):
        statistics.shares[part] = (counts + 1 / len(counts)) / (counts.sum() + 1)
    return statistics


def _standardize(column: Values, unit: float, center: float, scale: float) -> Values:
    """Return the statistics of a standardized number column (rows, 3)."""
    seen = ~np.isnan(column)
    standard = np.where(seen, (column / unit - center) / scale, 0.0)
    return np.stack([seen.astype(float), standard, standard**2], axis=1)


def _count_factors(block: NumberBlock, weights: Values) -> int:
    """Return how many eigenvalues of the correlation matrix are larger than one (Kaiser's rule), up to half of them."""
    one = block.maximize_sums(block.sum_moments(weights[None, None], None), "full").covariances[0, 0]
    deviations = np.sqrt(one.diagonal())
    values = np.linalg.eigvalsh(one / deviations[:, None] / deviations)
    return int(np.clip((values > 1).sum(), 1, max(len(values) // 2, 1)))
