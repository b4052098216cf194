"""EM for naive Bayes mixtures of mixed, incomplete columns, and for kernels about the rows in their place.

Given its component, the cells of a row are independent: numbers normal, categories multinomial. Both are exponential
families. The matrix S holds the sufficient statistics of each row (of a number: 1, x, x squared; of a category: an
indicator for each state; zeros for a missing cell), and the matrix T the natural parameters of the components. Then the
log-densities of all rows are S T, and the expected statistics that determine the next parameters are S' R with the
responsibilities R: every step is two matrix products. This marginalizes missing cells exactly.

The starts of EM and the folds of a cross-validation are fits to the same rows with other weights, so they take their
steps together, as more columns of T. Arrays over components and fits have rows as their last axis. Indicators of
categories with many states are sparse matrices. Numbers whose covariance is not diagonal make a block of their own.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from hybridbn.fitting.base import effective_size
from hybridbn.potentials.base import draw_codes, sum_logs
from hybridbn.structures.mixture_statistics import (
    PRIOR_ROWS,
    Cells,
    MixtureStatistics,
    NormalParameters,
    NormalSums,
)
from hybridbn.variables import Values, slice_blocks

PRIOR_VARIANCE = 1e-4
"""The prior variance relative to that of the column; it keeps components from shrinking to a point."""
CONSTANT = 1e-20
"""A standardized column is constant if its mean square is not larger than what rounding leaves."""
CONVERGED = 1e-7
"""EM stops when the objective grows by less than this share of its value."""
ROUGHLY_CONVERGED = 1e-5
"""This share is enough where fits are compared."""
MOST_STEPS = 500
"""EM stops after this many steps in any case."""
MOST_PASSES = 50
"""This many, where each is a pass over rows that are not in memory; it begins with the best fit to a sample."""
FIRST_STEPS = 15
"""This many steps are made from every start; only the best one is then continued."""
COMPARED_STEPS = 25
"""This many steps are enough where covariances are compared."""
TOGETHER = 1 << 19
"""An array over components, fits and rows (or statistics) has about this many cells at most, which bounds the memory.
"""


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
    normal : NormalParameters or None
        Of the block, as those of one fit.
    """

    log_shares: Values
    natural: Values
    history: tuple[float, ...]
    log_likelihood: float
    normal: NormalParameters | None = None

    @property
    def components(self) -> int:
        """The number of components."""
        return len(self.log_shares)

    def reorder(self, order: NDArray[np.intp]) -> MixtureFit:
        """Return the fit with its components in another order."""
        normal = None if self.normal is None else NormalParameters(*(array[order] for array in self.normal))
        return replace(self, log_shares=self.log_shares[order], natural=self.natural[:, order], normal=normal)


# -- fits -------------------------------------------------------------------------------------------------------------


def fit_mixture(
    data: MixtureStatistics,
    components: int,
    starts: int,
    rng: np.random.Generator,
    sample: NDArray[np.intp] | None = None,
    joined: MixtureStatistics | None = None,
    whole: Expect | None = None,
) -> MixtureFit:
    """Fit a mixture by EM from several starts, the best of which is continued to the end.

    The starts are compared on a sample of the rows, if one is given, and with diagonal covariances; `joined` are the
    same rows with the covariance that is wanted, if it is another one; `whole` makes a pass over all rows, if these are
    a part.

    Examples
    --------
    >>> from hybridbn.structures.mixture_statistics import compute_statistics
    >>> rng = np.random.default_rng(0)
    >>> data = compute_statistics([np.r_[rng.normal(size=50), 20 + rng.normal(size=150)]], [None], np.ones(200))
    >>> np.exp(np.sort(fit_mixture(data, 2, 3, rng).log_shares)).round(2)
    array([0.25, 0.75])
    """
    wanted = data if joined is None else joined
    part, part_wanted = (data, wanted) if sample is None else (data.take(sample), wanted.take(sample))
    converged = CONVERGED if sample is None else ROUGHLY_CONVERGED
    weights = part.weights[None]
    first = start_fits(part, weights, components, starts, rng, converged)
    fits = continue_fits(part, weights, first, part_wanted, converged)
    if sample is not None:
        start = MixtureParameters.join(fits)
        fits = _iterate_held(wanted, data.weights[None], start, MOST_STEPS, CONVERGED)
    if whole is not None:
        fits = _iterate(whole, wanted, MixtureParameters.join(fits), MOST_PASSES, CONVERGED)
    return fits[0]


def score_held_out(data: MixtureStatistics, fits: Sequence[MixtureFit], parts: NDArray[np.intp]) -> Values:
    """Return the log-density of each row under the fit to the rows of the other parts (rows,)."""
    result = np.zeros(len(data))
    for part, fit in enumerate(fits):
        test = np.flatnonzero(parts == part)
        result[test] = compute_responsibilities(data.take(test), fit)[1]
    return result


def compute_responsibilities(data: MixtureStatistics, fit: MixtureFit) -> tuple[Values, Values]:
    """Return the posterior probabilities of the components (rows, components) and the log-density of each row."""
    probabilities, logs = _expect(data, MixtureParameters.join([fit]))
    return np.ascontiguousarray(probabilities[:, 0].T), logs[0]


def measure_correlations(data: MixtureStatistics, chosen: NDArray[np.intp], fit: MixtureFit) -> float:
    """Return how far some of the numbers are from being independent given the component of a diagonal fit.

    It is the greatest chi-squared statistic of all their correlations, within a component or pooled over them, in
    standard deviations from what it is for independent numbers.

    Examples
    --------
    >>> from hybridbn.structures.mixture_statistics import compute_statistics
    >>> rng = np.random.default_rng(0)
    >>> x, noise = rng.normal(size=(2, 500))
    >>> measures = []
    >>> for other in (noise, x + noise):
    ...     data = compute_statistics([x, other], [None, None], np.ones(500))
    ...     measures.append(measure_correlations(data, np.arange(2), fit_mixture(data, 1, 1, rng)))
    >>> measures[0] < 2, measures[1] > 20
    (True, True)
    """
    positions = data.numbers[chosen]
    seen, values = data.narrow[:, positions], data.narrow[:, positions + 1]
    shares = compute_responsibilities(data, fit)[0] * data.weights[:, None]
    moments = []
    for component, share in enumerate(shares.T):
        variances = -0.5 / fit.natural[positions + 2, component]
        means = fit.natural[positions + 1, component] * variances
        residuals = seen * (values - means) / np.sqrt(variances)
        weighted = residuals * share[:, None]
        moments.append(
            np.stack([(seen * share[:, None]).T @ seen, weighted.T @ residuals, (weighted * residuals).T @ seen])
        )
    counts, products, squares = np.stack([*moments, np.sum(moments, axis=0)], axis=1)
    first, second = np.triu_indices(len(positions), 1)
    scales = (squares * np.swapaxes(squares, -1, -2))[:, first, second]
    correlations = products[:, first, second] ** 2 / np.where(scales > 0, scales, np.inf)
    statistics = (counts[:, first, second] * correlations).sum(axis=1)
    return float((statistics.max() - len(first)) / math.sqrt(2 * len(first)))


def start_fits(
    data: MixtureStatistics,
    weights: Values,
    components: int,
    starts: int,
    rng: np.random.Generator,
    converged: float = ROUGHLY_CONVERGED,
) -> list[MixtureFit]:
    """Return the best of several starts, after a few steps with diagonal covariances, for each vector of weights of the
    rows (fits, rows).
    """
    count, rows = weights.shape
    if components == 1:
        return _iterate_held(data, weights, _maximize(data, weights, np.ones((1, count, rows))), 1, converged)
    chances = rng.random((count * starts, components))
    fits: list[MixtureFit] = []
    for part in _split_fits(data, components, len(chances)):
        own = weights[np.arange(len(chances))[part] // starts]
        parameters = _maximize(data, own, _assign_starts(data, own, chances[part]))
        fits += _iterate_held(data, own, parameters, FIRST_STEPS, converged)
    return [max(fits[i : i + starts], key=lambda fit: fit.history[-1]) for i in range(0, len(fits), starts)]


def continue_fits(
    data: MixtureStatistics,
    weights: Values,
    fits: Sequence[MixtureFit],
    wanted: MixtureStatistics,
    converged: float = ROUGHLY_CONVERGED,
) -> list[MixtureFit]:
    """Continue diagonal fits to the end, with the covariance of the wanted statistics of the same rows."""
    if wanted.block is None and fits[0].components == 1:
        return list(fits)
    result: list[MixtureFit] = []
    for part in _split_fits(data, fits[0].components, len(fits)):
        own, start = weights[part], MixtureParameters.join(fits[part])
        parameters = start if wanted.block is None else _maximize(wanted, own, _expect(data, start)[0])
        steps = MOST_STEPS if wanted.block is None or converged < ROUGHLY_CONVERGED else COMPARED_STEPS
        result += _iterate_held(wanted, own, parameters, steps, converged)
    if wanted.block is not None:
        return result
    return [replace(last, history=fit.history + last.history[1:]) for fit, last in zip(fits, result, strict=True)]


def _split_fits(data: MixtureStatistics, components: int, fits: int) -> Iterator[slice]:
    """Yield those of the fits that are made together."""
    step = max(1, TOGETHER // (components * max(len(data), len(data.shares))))
    return slice_blocks(fits, step)


class MixtureParameters(NamedTuple):
    """Parameters of several fits: log_shares (components, fits), natural (statistics, components, fits), and those of
    the block, if there is one.
    """

    log_shares: Values
    natural: Values
    normal: NormalParameters | None

    @classmethod
    def join(cls, fits: Sequence[MixtureFit]) -> MixtureParameters:
        """Return the parameters of some fits."""
        blocks = [fit.normal for fit in fits if fit.normal is not None]
        return cls(
            np.stack([fit.log_shares for fit in fits], axis=1),
            np.stack([fit.natural for fit in fits], axis=2),
            NormalParameters.join(blocks) if blocks else None,
        )

    def take(self, fits: Any) -> MixtureParameters:
        """Return the parameters of some of the fits."""
        normal = None if self.normal is None else self.normal.take(fits)
        return MixtureParameters(self.log_shares[:, fits], self.natural[:, :, fits], normal)


def _iterate(
    expect: Expect, layout: MixtureStatistics, parameters: MixtureParameters, steps: int, converged: float
) -> list[MixtureFit]:
    """Alternate expectation and maximization until each fit has converged or the steps are used up."""
    active = np.arange(parameters.log_shares.shape[1])
    history: list[list[float]] = [[] for _ in active]
    fits: dict[int, MixtureFit] = {}
    before = np.full(len(active), -np.inf)
    for step in range(steps):
        sums = expect(parameters, active)
        objective = sums.likelihood + _log_prior(layout, parameters)
        done = (objective - before <= converged * np.maximum(np.abs(objective), 1.0)) | (step == steps - 1)
        for position, fit in enumerate(active.tolist()):
            history[fit].append(float(objective[position]))
            if done[position]:
                own = parameters.take([position])
                fits[fit] = MixtureFit(
                    own.log_shares[:, 0],
                    own.natural[:, :, 0],
                    tuple(history[fit]),
                    float(sums.likelihood[position]),
                    own.normal,
                )
        if done.all():
            break
        active, before = active[~done], objective[~done]
        parameters = _maximize_sums(layout, sums.take(~done))
    return [fits[fit] for fit in range(len(history))]


def _iterate_held(
    data: MixtureStatistics, weights: Values, parameters: MixtureParameters, steps: int, converged: float
) -> list[MixtureFit]:
    """Do the same with rows in memory, each fit with weights of its own (fits, rows)."""

    def expect(parameters: MixtureParameters, active: NDArray[np.intp]) -> MixtureSums:
        return sum_expected(data, parameters, weights[active])

    return _iterate(expect, data, parameters, steps, converged)


def _assign_starts(data: MixtureStatistics, weights: Values, chances: Values) -> Values:
    """Assign each row to the nearest of some rows that are far apart (k-means++), and return responsibilities.

    The chances are uniform random numbers (fits, components).
    """
    nearest = np.full(weights.shape, np.inf)
    owner = np.zeros(weights.shape, dtype=np.intp)
    components = chances.shape[1]
    for number in range(components):
        shares = weights * nearest if number else weights
        shares = np.where(shares.any(axis=1, keepdims=True), shares, weights)
        chosen = draw_codes(shares, np.arange(len(shares)), chances[:, number])
        distance = _measure_distances(data, chosen)
        closer = distance < nearest
        np.copyto(nearest, distance, where=closer)
        owner[closer] = number
    # no responsibility is zero, so that each component can still take any row
    result: Values = 0.9 * (owner == np.arange(components)[:, None, None]) + 0.1 / components
    return result


def _measure_distances(data: MixtureStatistics, chosen: NDArray[np.intp]) -> Values:
    """Return the mean squared distances of all rows from the chosen rows (chosen, rows).

    The mean is over the cells that are observed in both rows; a different state counts as 2.
    """
    narrow, wide = data.narrow[chosen].T, data.wide[chosen].toarray().T
    selected = np.concatenate([narrow, wide])
    gap, both = np.zeros_like(selected), np.zeros_like(selected)
    observed, value, square = (selected[data.numbers + shift] for shift in range(3))
    gap[data.numbers], gap[data.numbers + 1], gap[data.numbers + 2] = square, -2 * value, observed
    both[data.numbers] = observed
    positions, starts, owner = data.states
    both[positions] = np.add.reduceat(selected[positions], starts, axis=0)[owner]
    gap[positions] = 2 * (both[positions] - selected[positions])
    shared = data.products(both)
    return np.where(shared > 0, np.maximum(data.products(gap), 0.0) / np.maximum(shared, 1), 1.0)


def _expect(data: MixtureStatistics, parameters: MixtureParameters) -> tuple[Values, Values]:
    """Return the responsibilities (components, fits, rows) and the log-densities (fits, rows) (the E-step)."""
    components, fits = parameters.log_shares.shape
    joint = data.products(parameters.natural.reshape(len(parameters.natural), -1)).reshape(components, fits, -1)
    joint += parameters.log_shares[:, :, None]
    if data.block is not None and parameters.normal is not None:
        joint += data.block.log_densities(parameters.normal)
    top = joint.max(axis=0)
    joint -= top
    np.exp(joint, out=joint)
    total = joint.sum(axis=0)
    joint /= total
    return joint, top + np.log(total)


@dataclass(frozen=True)
class MixtureSums:
    """Expected statistics of some rows under the parameters of several fits; ``a + b`` are those of the rows of both.

    Attributes
    ----------
    likelihood : ndarray (fits,)
    totals : ndarray (statistics, components, fits)
    sizes : ndarray (components, fits)
    normal : NormalSums or None
        Of the block.
    """

    likelihood: Values
    totals: Values
    sizes: Values
    normal: NormalSums | None

    def __add__(self, other: MixtureSums) -> MixtureSums:
        both = self.normal is not None and other.normal is not None
        normal = NormalSums(*map(np.add, self.normal, other.normal)) if both else None  # type: ignore[arg-type]
        return MixtureSums(
            self.likelihood + other.likelihood, self.totals + other.totals, self.sizes + other.sizes, normal
        )

    def take(self, fits: NDArray[np.bool_]) -> MixtureSums:
        """Return the sums of some of the fits."""
        normal = None if self.normal is None else NormalSums(*(array[:, fits] for array in self.normal))
        return MixtureSums(self.likelihood[fits], self.totals[:, :, fits], self.sizes[:, fits], normal)


Expect: TypeAlias = Callable[[MixtureParameters, NDArray[np.intp]], MixtureSums]
"""A pass over the rows: the expected statistics under the parameters of some fits, whose numbers come with them."""


def sum_expected(data: MixtureStatistics, parameters: MixtureParameters, weights: Values) -> MixtureSums:
    """Return the expected statistics of rows under the parameters of some fits, each with weights of the rows (fits,
    rows).

    Examples
    --------
    >>> from hybridbn.structures.mixture_statistics import compute_statistics
    >>> data = compute_statistics([np.array([0, 1, 1])], [2], np.ones(3))
    >>> fit = fit_mixture(data, 1, 1, np.random.default_rng(0))
    >>> sum_expected(data, MixtureParameters.join([fit]), np.ones((1, 3))).totals.ravel()
    array([1., 2.])
    """
    responsibilities, logs = _expect(data, parameters)
    sums = _sum_up(data, weights, responsibilities, parameters.normal)
    return replace(sums, likelihood=np.einsum("fr,fr->f", weights, logs))


def _sum_up(
    data: MixtureStatistics, weights: Values, responsibilities: Values, before: NormalParameters | None
) -> MixtureSums:
    """Return the expected statistics given the responsibilities, and given the block's parameters before, if its cells
    are missing.
    """
    weighted = responsibilities * weights
    components, fits, rows = responsibilities.shape
    totals = data.sums(weighted.reshape(-1, rows)).reshape(-1, components, fits)
    normal = None if data.block is None else data.block.sum_moments(weighted, before)
    return MixtureSums(np.zeros(fits), totals, weighted.sum(axis=2), normal)


def _maximize(data: MixtureStatistics, weights: Values, responsibilities: Values) -> MixtureParameters:
    """Return the parameters of highest posterior density given the responsibilities."""
    return _maximize_sums(data, _sum_up(data, weights, responsibilities, None))


def _maximize_sums(data: MixtureStatistics, sums: MixtureSums) -> MixtureParameters:
    """Return the parameters of highest posterior density given expected statistics (the M-step)."""
    totals, sizes = sums.totals, sums.sizes + PRIOR_ROWS
    natural = np.zeros_like(totals)
    if len(data.numbers):
        count, first, second = (totals[data.numbers + shift] for shift in range(3))
        # a constant has the same density in all components, and tells nothing of how many there are
        everywhere = count.sum(axis=1, keepdims=True)
        constant = second.sum(axis=1, keepdims=True) <= CONSTANT * everywhere
        count = np.where(constant, everywhere, count)
        mean = first / np.maximum(count, 1e-300)
        spread = np.maximum(second - count * mean**2, 0.0)
        variance = (spread + PRIOR_ROWS * PRIOR_VARIANCE) / (count + PRIOR_ROWS)
        empty = count < 1e-9
        mean, variance = np.where(empty, 0.0, mean), np.where(empty, 1.0, variance)
        natural[data.numbers] = -0.5 * np.log(2 * math.pi * variance) - mean**2 / (2 * variance)
        natural[data.numbers + 1] = mean / variance
        natural[data.numbers + 2] = -0.5 / variance
    positions, starts, owner = data.states
    if len(positions):
        table = totals[positions] + PRIOR_ROWS * data.shares[positions, None, None]
        natural[positions] = np.log(table / np.add.reduceat(table, starts, axis=0)[owner])
    normal = (
        data.block.maximize_sums(sums.normal, data.covariance)
        if data.block is not None and sums.normal is not None
        else None
    )
    return MixtureParameters(np.log(sizes / sizes.sum(axis=0)), natural, normal)


def _log_prior(data: MixtureStatistics, parameters: MixtureParameters) -> Values:
    """Return the log prior density of the parameters of each fit, up to a constant."""
    result: Values = PRIOR_ROWS * parameters.log_shares.sum(axis=0)
    if len(data.numbers):
        halves = -parameters.natural[data.numbers + 2]
        result += PRIOR_ROWS * (0.5 * np.log(2 * halves) - PRIOR_VARIANCE * halves).sum(axis=(0, 1))
    if data.block is not None and parameters.normal is not None:
        result += data.block.log_prior(parameters.normal, data.covariance)
    positions = data.states[0]
    result += PRIOR_ROWS * np.tensordot(data.shares[positions], parameters.natural[positions], axes=1).sum(axis=0)
    return result


STEPS = 30
"""The covariance is found in at most so many steps."""
STEADY = 1e-3
"""They end when the mean log density of a row that is left out grows by less."""
MOST_LEFT_OUT = 500
"""The most rows that are left out."""
KERNEL_PRIOR_VARIANCE = 0.01
"""The variance of each number, relative to the column's, in the prior of the covariance, which has the weight of one
row.
"""
FIRST_SHARE = 0.9
"""The share of the kernels in the first step."""
FIRST_SMOOTHING = 0.3
"""The smoothing of categories in the first step."""
PAIRS = 1 << 21
"""The densities of so many pairs of rows are computed at a time."""


@dataclass(frozen=True)
class RowKernels:
    r"""Kernels about rows, all with the same parameters, which share a density with the components.

    .. math:: f(x) = \frac{s}{\sum_i w_i} \sum_i w_i N(x;\; x_i, H) \prod_c ((1 - \lambda_c) [x_c = x_{ic}] +
        \lambda_c P(x_c)) + (1 - s) \sum_k P(k) f(x \mid k)

    A row that is far from all others has a density of the components then.

    Attributes
    ----------
    centers : Cells
    weights : ndarray (kernels,), positive
    shares : tuple of ndarray (states,)
        Those of the states of each category, P.
    covariance : ndarray (numbers, numbers)
    smoothing : ndarray (categories,)
    share : float
    """

    centers: Cells
    weights: Values
    shares: tuple[Values, ...]
    covariance: Values
    smoothing: Values
    share: float

    @property
    def tables(self) -> list[Values]:
        """The probabilities of the states of each category, given that of the row (states, states)."""
        pairs = zip(self.smoothing.tolist(), self.shares, strict=True)
        return [(1 - smoothing) * np.eye(len(shares)) + smoothing * shares for smoothing, shares in pairs]

    def log_densities(self, cells: Cells, components: Values) -> Values:
        """Return the log density of each row (rows,), given that under the components.

        Examples
        --------
        >>> center = Cells(np.zeros((1, 2)), np.zeros((1, 0), dtype=int))
        >>> kernels = RowKernels(center, np.ones(1), (), 4 * np.eye(2), np.empty(0), 0.75)
        >>> row = Cells(np.array([[0.0, 2.0]]), np.zeros((1, 0), dtype=int))
        >>> kernels.log_densities(row, np.array([-np.inf])).round(3) - np.log(0.75).round(3)
        array([-3.724])
        """
        rows, size = len(cells.numbers), max(1, PAIRS // len(self.weights))
        parts = [sum_logs(self._weigh(cells.take(part)), (1,)) for part in slice_blocks(rows, size)]
        logs = np.concatenate([np.empty(0), *parts]) - math.log(self.weights.sum())
        return np.logaddexp(math.log(self.share) + logs, math.log1p(-self.share) + components)

    def leave_out(self, rows: NDArray[np.intp], components: Values) -> tuple[Values, Values]:
        """Return the log density of each of some centers, its kernel left out, and the probabilities of the others."""
        logs = self._weigh(self.centers.take(rows))
        logs[np.arange(len(rows)), rows] = -np.inf
        logs += (math.log(self.share) - np.log(self.weights.sum() - self.weights[rows]))[:, None]
        totals = np.logaddexp(sum_logs(logs, (1,)), math.log1p(-self.share) + components)
        logs -= totals[:, None]
        return totals, np.exp(logs, out=logs)

    def _weigh(self, cells: Cells) -> Values:
        """Return the logs of the weighted kernels at each row (rows, kernels)."""
        variances, directions = np.linalg.eigh(self.covariance)
        turned = directions / np.sqrt(variances)
        whitened, centers = cells.numbers @ turned, self.centers.numbers @ turned
        logs: Values = whitened @ centers.T
        logs -= 0.5 * (whitened**2).sum(axis=1)[:, None]
        logs += np.log(self.weights) - 0.5 * (centers**2).sum(axis=1)
        logs -= 0.5 * (np.log(variances).sum() + len(variances) * math.log(2 * math.pi))
        for table, own, others in zip(self.tables, cells.codes.T, self.centers.codes.T, strict=True):
            logs += np.log(table)[:, own].T[:, others]
        return logs


def fit_kernels(centers: Cells, weights: Values, shares: tuple[Values, ...], components: Values) -> RowKernels:
    r"""Return kernels with the parameters under which rows are most likely that are left out.

    Steps of EM, in which a row comes from the kernel about another one, with the probability r, or from the components:

    .. math:: H \leftarrow \sum_i \sum_{j \ne i} r_{ij} (x_i - x_j)(x_i - x_j)' / \sum_i \sum_{j \ne i} r_{ij}

    A prior draws it towards its diagonal, with the weight of as many rows as there are numbers.

    Parameters
    ----------
    centers : Cells
    weights : ndarray (rows,)
    shares : tuple of ndarray (states,)
        Those of the states of each category.
    components : ndarray (rows,)
        The log densities under the components.

    References
    ----------
    Leiva-Murillo & Artés-Rodríguez (2012), "Algorithms for maximum-likelihood bandwidth selection in kernel density
    estimators", Pattern Recognition Letters 33.

    Examples
    --------
    >>> rows = Cells(np.random.default_rng(0).normal(size=(400, 1)), np.zeros((400, 0), dtype=int))
    >>> fit_kernels(rows, np.ones(400), (), np.full(400, -np.inf)).covariance.round(1)
    array([[0.1]])
    """
    rows, numbers = centers.numbers.shape
    size = effective_size(weights)
    covariance = np.cov(centers.numbers.T, aweights=weights, ddof=0).reshape(numbers, numbers)
    covariance = size ** (-2 / (numbers + 4)) * covariance + KERNEL_PRIOR_VARIANCE / size * np.eye(numbers)
    smoothing = np.full(len(shares), FIRST_SMOOTHING)
    kernels = RowKernels(centers, weights, shares, covariance, smoothing, FIRST_SHARE)
    left_out = np.linspace(0, rows - 1, min(rows, MOST_LEFT_OUT)).astype(np.intp)
    mass = weights[left_out] * (size / weights[left_out].sum())
    best, before = kernels, -math.inf
    for _ in range(STEPS):
        logs, near = kernels.leave_out(left_out, components[left_out])
        mean = float(mass @ logs) / size
        if not mean - before > STEADY:
            break
        best, before = kernels, mean
        near *= mass[:, None]
        total = float(near.sum())
        squares = _sum_squares(centers.numbers[left_out], centers.numbers, near)
        squares += np.diag(numbers * squares.diagonal() / max(total, 1.0) + KERNEL_PRIOR_VARIANCE)
        # one row from the kernels, and one from the components, keep both possible; so do two for categories
        kernels = replace(
            kernels,
            covariance=squares / (total + numbers + 1),
            smoothing=np.array([(total - same + 1) / (total + 2) for same in _sum_same(kernels, left_out, near)]),
            share=(total + 1) / (size + 2),
        )
    return best


def _sum_squares(rows: Values, centers: Values, shares: Values) -> Values:
    """Return the sum of the products of what rows are away from centers, weighted (numbers, numbers)."""
    across = rows.T @ (shares @ centers)
    squares = (rows.T * shares.sum(axis=1)) @ rows + (centers.T * shares.sum(axis=0)) @ centers
    return np.asarray(squares - across - across.T)


def _sum_same(kernels: RowKernels, rows: NDArray[np.intp], shares: Values) -> Iterator[float]:
    """Yield for each category the expected weight of rows that have the state of a kernel's row because of it."""
    for codes, smoothing, states in zip(kernels.centers.codes.T, kernels.smoothing, kernels.shares, strict=True):
        indicators = np.eye(len(states))[codes]
        same = (shares @ indicators)[np.arange(len(rows)), codes[rows]]
        yield float(same @ ((1 - smoothing) / (1 - smoothing + smoothing * states[codes[rows]])))


def score_kernels(
    cells: Cells,
    weights: Values,
    shares: tuple[Values, ...],
    parts: NDArray[np.intp],
    components: Sequence[Values],
    others: Values,
) -> Values | None:
    """Return the log density of each row under kernels about the rows of the other parts (rows,); None if the first
    part has greater ones without kernels.

    Parameters
    ----------
    components : sequence of ndarray (rows,)
        The log densities under the components that were fitted to the rows of the other parts, for each part.
    others : ndarray (rows,)
        Those without kernels.
    """
    result = np.zeros(len(weights))
    for part, logs in enumerate(components):
        test, about = parts == part, (parts != part) & (weights > 0)
        kernels = fit_kernels(cells.take(about), weights[about], shares, logs[about])
        result[test] = kernels.log_densities(cells.take(test), logs[test])
        if part == 0 and not weights[test] @ (result[test] - others[test]) > 0:
            return None
    return result
