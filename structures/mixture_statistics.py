"""The sufficient statistics of a mixture's rows, and what columns are standardized by, which adds up over batches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from hybridbn.structures.mixture_covariance import PRIOR_VARIANCE, Covariance, NumberBlock
from hybridbn.structures.mixture_kernels import Cells
from hybridbn.variables import Values

if TYPE_CHECKING:
    from scipy import sparse

__all__ = ["Measures", "MixtureStatistics", "compute_statistics", "measure_columns"]

WIDE = 32
"""The indicators of a category with more states are a sparse matrix."""


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
    wide: sparse.csr_array
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
    def _transposed(self) -> sparse.csr_array:
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
    units : ndarray (numbers,), in which the others are, so that no square overflows
    masses, means, squares : ndarray (numbers,)
        Weights, means, and sums of squares about the means.
    counts : tuple of ndarray (states,), the weights of the states of each category
    """

    units: Values
    masses: Values
    means: Values
    squares: Values
    counts: tuple[Values, ...]

    def __add__(self, other: Measures) -> Measures:
        masses = self.masses + other.masses
        share = np.divide(other.masses, masses, out=np.zeros_like(masses), where=masses > 0)
        shift = other.means - self.means
        squares = self.squares + other.squares + self.masses * share * shift**2
        counts = tuple(mine + yours for mine, yours in zip(self.counts, other.counts, strict=True))
        return Measures(self.units, masses, self.means + share * shift, squares, counts)

    @property
    def scales(self) -> Values:
        """The standard deviations in their units; where there is none, one."""
        spreads = np.sqrt(np.divide(self.squares, self.masses, out=np.zeros_like(self.masses), where=self.masses > 0))
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
    >>> (parts[0] + parts[1]).squares == whole.squares, whole.counts
    (array([ True]), (array([1., 2.]),))
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
    return Measures(units, masses, means, squares, tuple(counts))


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
    from scipy import sparse

    rows = len(weights)
    if measures is None:
        measures = measure_columns(columns, states, weights)
    narrow, wide = [np.empty((rows, 0))], [sparse.csr_array((rows, 0))]
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
            wide.append(sparse.csr_array(indicators, shape=(rows, count)))
        else:
            narrow.append((column[:, None] == np.arange(count)).astype(float))
    statistics = MixtureStatistics(
        np.concatenate(narrow, axis=1),
        sparse.hstack(wide, format="csr"),
        weights,
        slices,
        np.array(
            [columns.start for columns, count in zip(slices, states, strict=True) if count is None], dtype=np.intp
        ),
        tuple(sorted((part for part, count in zip(slices, states, strict=True) if count is not None), key=_start_of)),
        measures.means * measures.units,
        measures.scales * measures.units,
        np.zeros(sum(sizes)),
    )
    categories = [part for part, count in zip(slices, states, strict=True) if count is not None]
    for part, counts in zip(categories, measures.counts, strict=True):
        statistics.shares[part] = (counts + 1 / len(counts)) / (counts.sum() + 1)
    return statistics


def _start_of(columns: slice) -> int:
    return int(columns.start)


def _standardize(column: Values, unit: float, center: float, scale: float) -> Values:
    """Return the statistics of a standardized number column (rows, 3)."""
    seen = ~np.isnan(column)
    standard = np.where(seen, (column / unit - center) / scale, 0.0)
    return np.stack([seen.astype(float), standard, standard**2], axis=1)


def _count_factors(block: NumberBlock, weights: Values) -> int:
    """Return how many eigenvalues of the correlation matrix are larger than one (Kaiser's rule), up to half of them."""
    one = block.maximize(weights[None, None], None, "full").covariances[0, 0]
    deviations = np.sqrt(one.diagonal())
    values = np.linalg.eigvalsh(one / deviations[:, None] / deviations)
    return int(np.clip((values > 1).sum(), 1, max(len(values) // 2, 1)))
