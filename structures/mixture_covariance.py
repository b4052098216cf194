"""Covariances of the numbers in the components of a mixture: full, tied, of a few factors, or along a tree.

A row without holes has the sufficient statistics 1, x and the products of the numbers, so that both steps of EM are
matrix products. Rows with the same holes share the conditional moments of what is missing, given what is not. Arrays
over components and fits begin with these two dimensions, as in `mixture_em`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hybridbn.variables import Values

__all__ = [
    "PRIOR_VARIANCE",
    "Covariance",
    "NormalParameters",
    "NormalSums",
    "NumberBlock",
    "count_covariances",
    "regress_along",
    "select_parents",
]

Covariance = Literal["diagonal", "full", "tied", "factors", "tree"]

PRIOR_ROWS = 1.0
"""The prior of a component's covariance has the weight of this many rows."""
PRIOR_VARIANCE = 0.01
"""Its variance relative to that of the column, unless another one is asked for; it keeps components from shrinking to
a point.
"""
ROWS = 4096
"""Products of numbers are made for this many rows at a time."""
KEPT_PRODUCTS = 1 << 19
"""So many products of numbers are kept."""
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
    def patterns(self) -> list[tuple[NDArray[np.intp], NDArray[np.intp]]]:
        """The columns that are observed, and the rows in which just these are."""
        if self.seen.all():
            return [(np.arange(self.seen.shape[1]), np.arange(len(self.seen)))]
        masks, owner = np.unique(self.seen, axis=0, return_inverse=True)
        order = np.argsort(owner.ravel(), kind="stable")
        groups = np.split(order, np.cumsum(np.bincount(owner.ravel()))[:-1])
        return [(np.flatnonzero(mask), rows) for mask, rows in zip(masks, groups, strict=True) if mask.any()]

    @cached_property
    def _groups(self) -> list[tuple[NDArray[np.intp], NDArray[np.intp]]]:
        """The patterns with as many observed columns, and these columns (patterns, columns)."""
        sizes = np.array([len(columns) for columns, _ in self.patterns])
        groups = [np.flatnonzero(sizes == size) for size in np.unique(sizes)]
        return [(group, np.stack([self.patterns[number][0] for number in group])) for group in groups]

    def _list_groups(self, fits: int) -> Iterator[tuple[NDArray[np.intp], NDArray[np.intp]]]:
        """Yield the groups in parts for which the matrices of so many fits are not too large."""
        together = max(1, CELLS // (fits * self.values.shape[1] ** 2))
        for numbers, columns in self._groups:
            for start in range(0, len(numbers), together):
                yield numbers[start : start + together], columns[start : start + together]

    def _features(self, number: int) -> Iterator[tuple[Any, Values]]:
        """Yield rows of a pattern with 1, x and the products of their numbers."""
        if len(self.values) * self.values.shape[1] ** 2 <= 2 * KEPT_PRODUCTS:
            yield from self._kept_features[number]
        else:
            yield from self._make_features(number)

    @cached_property
    def _kept_features(self) -> list[list[tuple[Any, Values]]]:
        return [list(self._make_features(number)) for number in range(len(self.patterns))]

    def _make_features(self, number: int) -> Iterator[tuple[Any, Values]]:
        columns, rows = self.patterns[number]
        first, second = _list_pairs(len(columns))
        whole = len(rows) == len(self.values)
        for start in range(0, len(rows), ROWS):
            part = slice(start, start + ROWS) if whole else rows[start : start + ROWS]
            x = self.values[part][:, columns]
            features = np.empty((len(x), 1 + len(columns) + len(first)))
            features[:, 0] = 1
            features[:, 1 : 1 + len(columns)] = x
            np.multiply(x[:, first], x[:, second], out=features[:, 1 + len(columns) :])
            yield part, features

    def log_densities(self, parameters: NormalParameters) -> Values:
        """Return the log densities of what is observed (components, fits, rows)."""
        means, covariances = parameters
        shape = means.shape[:2]
        result = np.zeros((*shape, len(self.values)))
        for numbers, columns in self._list_groups(shape[0] * shape[1]):
            own = covariances[..., columns[:, :, None], columns[:, None, :]]
            center = means[..., columns]
            precision = np.linalg.inv(own)
            linear = (precision @ center[..., None])[..., 0]
            _, size = np.linalg.slogdet(own)
            constant = -0.5 * (size + columns.shape[1] * math.log(2 * math.pi) + (linear * center).sum(axis=-1))
            first, second = _list_pairs(columns.shape[1])
            squares = -precision[..., first, second] * np.where(first == second, 0.5, 1.0)
            natural = np.concatenate([constant[..., None], linear, squares], axis=-1)
            for place, pattern in enumerate(numbers.tolist()):
                vectors = natural[:, :, place].reshape(-1, natural.shape[-1])
                for part, features in self._features(pattern):
                    result[..., part] = (features @ vectors.T).T.reshape(*shape, -1)
        return result

    def maximize(self, weights: Values, before: NormalParameters | None, covariance: Covariance) -> NormalParameters:
        """Return means and covariances of highest posterior density, for weights (components, fits, rows).

        Parameters
        ----------
        before : as in `sum_moments`
        """
        return self.maximize_sums(self.sum_moments(weights, before), covariance)

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
        total, sums = np.zeros(shape), np.zeros((*shape, numbers))
        products = np.zeros((*shape, numbers, numbers))
        for group, columns in self._list_groups(shape[0] * shape[1]):
            size = columns.shape[1]
            moments = np.zeros((*shape, len(group), 1 + size + size * (size + 1) // 2))
            for place, pattern in enumerate(group.tolist()):
                for part, features in self._features(pattern):
                    own = weights[..., part]
                    moments[..., place, :] += (own.reshape(-1, own.shape[-1]) @ features).reshape(*shape, -1)
            count, first, second = _complete_moments(moments, columns, before)
            total, sums, products = total + count, sums + first, products + second
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
    first, second = np.triu_indices(numbers)
    return first, second


def _complete_moments(
    moments: Values, columns: NDArray[np.intp], before: NormalParameters
) -> tuple[Values, Values, Values]:
    """Return weight, expected sums and expected products of all columns over all rows of some patterns, from those of
    the observed columns (components, fits, patterns, ...).
    """
    means, covariances = before
    numbers, (patterns, size) = means.shape[-1], columns.shape
    count, observed = moments[..., 0], moments[..., 1 : 1 + size]
    first, second = _list_pairs(size)
    squares = np.empty((*count.shape, size, size))
    squares[..., first, second] = squares[..., second, first] = moments[..., 1 + size :]
    if size == numbers:
        return count.sum(axis=-1), observed.sum(axis=-2), squares.sum(axis=-3)
    number = np.arange(patterns)[:, None]
    hidden = np.ones((patterns, numbers), dtype=bool)
    hidden[number, columns] = False
    missing = np.nonzero(hidden)[1].reshape(patterns, -1)
    across = covariances[..., missing[:, :, None], columns[:, None, :]]
    own = covariances[..., columns[:, :, None], columns[:, None, :]]
    slopes = np.swapaxes(np.linalg.solve(own, np.swapaxes(across, -1, -2)), -1, -2)
    constant = means[..., missing] - (slopes @ means[..., columns][..., None])[..., 0]
    left = covariances[..., missing[:, :, None], missing[:, None, :]] - slopes @ np.swapaxes(across, -1, -2)
    predicted = (slopes @ observed[..., None])[..., 0]
    sums = np.empty((*count.shape, numbers))
    sums[..., number, columns], sums[..., number, missing] = observed, count[..., None] * constant + predicted
    mixed = constant[..., None] * observed[..., None, :] + slopes @ squares
    outer = constant[..., None] * predicted[..., None, :]
    expected = count[..., None, None] * (constant[..., None] * constant[..., None, :] + left)
    expected = expected + outer + np.swapaxes(outer, -1, -2) + slopes @ squares @ np.swapaxes(slopes, -1, -2)
    products = np.empty((*count.shape, numbers, numbers))
    number = number[:, None]
    products[..., number, columns[:, :, None], columns[:, None, :]] = squares
    products[..., number, missing[:, :, None], columns[:, None, :]] = mixed
    products[..., number, columns[:, :, None], missing[:, None, :]] = np.swapaxes(mixed, -1, -2)
    products[..., number, missing[:, :, None], missing[:, None, :]] = expected
    return count.sum(axis=-1), sums.sum(axis=-2), products.sum(axis=-3)


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
    from scipy.sparse.csgraph import breadth_first_order, minimum_spanning_tree

    deviations = np.sqrt(np.diagonal(covariances, axis1=-2, axis2=-1))
    correlations = covariances / deviations[..., None] / deviations[..., None, :]
    information = -0.5 * np.log1p(-np.minimum(correlations**2, 1 - 1e-12))
    weights = np.einsum("k,kij->ij", total, information)
    np.fill_diagonal(weights, 0.0)
    # a missing edge is a zero there, so all edges are kept below it
    tree = minimum_spanning_tree(-weights - 1e-9 * (1 + weights.max()))
    order, above = breadth_first_order(tree, 0, directed=False)
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
