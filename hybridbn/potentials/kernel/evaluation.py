"""Kernel conditionals at many places, in whichever of three ways takes least time; all give the same digits."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import cKDTree
from scipy.special import logsumexp

from hybridbn.potentials.gaussian import LOG_ROOT_TWO_PI
from hybridbn.potentials.kernel.lattice import sum_on_lattice
from hybridbn.potentials.kernel.mixtures import KernelMixture, evaluate_child, log_conditional, weigh_by_parents
from hybridbn.variables import Codes, Values

__all__ = [
    "DIGITS",
    "FARTHEST",
    "DistinctValues",
    "evaluate_conditional",
    "evaluate_distinct",
    "find_distinct",
    "log_factors_without_self",
    "log_kernel_sums",
    "sum_nearest",
    "sum_per_target",
    "sums_are_cheaper",
]

SECONDS_PER_KERNEL, SECONDS_PER_PRODUCT = 6e-9, 2e-10
"""Seconds for a kernel between a point and a value, and for a term of a product of matrices of kernels."""
SECONDS_TO_START, SECONDS_PER_POINT, SECONDS_PER_TARGET = 3e-3, 3e-6, 1e-6
"""Seconds for sums place by place: to begin with, for a point, and for a place."""
SECONDS_PER_SORTED = 1e-7
"""Seconds to sort a value among others and to look it up."""
MOST_TARGETS = 1 << 20
"""Most places at once."""


def evaluate_conditional(group: KernelMixture, parents: Sequence[Values], child: NDArray[Any]) -> Values:
    """Return the logarithm of the conditional at the child's nodes, (rows or 1, parents' grid, child's nodes)."""
    found = find_repeats(group, parents, child)
    if found is not None:
        return evaluate_distinct(group, found)
    if sums_are_cheaper(group, parents, child):
        return sum_per_target(group, parents, child)
    return log_conditional(group, parents, child, evaluate_child)


def find_repeats(group: KernelMixture, parents: Sequence[Values], child: NDArray[Any]) -> DistinctValues | None:
    """Return the different values, if a table of them takes less time than either way of doing all that is asked."""
    rows, _, _ = _shape(parents, child)
    asked = (parents[0].size if parents else 1) + child.size
    plain = min(_estimate_costs(group, parents, child))
    # looking for repeats must not cost much where there are none
    if rows == 1 or plain < 8 * asked * SECONDS_PER_SORTED:
        return None
    found = find_distinct(parents, child)
    bells = found.blocks * found.combinations + len(found.child)
    # a share of the table's columns is needed in several blocks
    terms = found.combinations * min(len(found.child) * found.blocks, found.theirs.size)
    table = len(group.points) * (bells * SECONDS_PER_KERNEL + terms * SECONDS_PER_PRODUCT) + asked * SECONDS_PER_SORTED
    return found if table < plain else None


def sums_are_cheaper(group: KernelMixture, parents: Sequence[Values], child: NDArray[Any]) -> bool:
    """Tell whether one sum of kernels for every place takes less time than matrix products over all points."""
    matrices, places = _estimate_costs(group, parents, child)
    return places < matrices


def _estimate_costs(group: KernelMixture, parents: Sequence[Values], child: NDArray[Any]) -> tuple[float, float]:
    """Estimate the seconds for matrix products over all points, and for one sum of kernels for every place."""
    points, numbers = group.points.shape
    combinations = parents[0].size if parents else 0
    places = math.prod(_shape(parents, child))
    if group.first:
        bells = combinations + child.size
        sums = combinations + places
    else:
        bells = combinations
        sums = combinations * (int(group.labels.max()) + 1)
    matrices = points * (bells * SECONDS_PER_KERNEL + places * SECONDS_PER_PRODUCT)
    # a lattice in three dimensions would be too large
    return (
        matrices,
        SECONDS_TO_START + points * SECONDS_PER_POINT + sums * SECONDS_PER_TARGET if numbers <= 2 else math.inf,
    )


def sum_per_target(group: KernelMixture, parents: Sequence[Values], child: NDArray[Any]) -> Values:
    """Return the logarithm of the conditional, one sum of kernels for every place."""
    rows, grid, nodes = _shape(parents, child)
    given = [values.reshape(-1) for values in parents]
    combinations = np.stack(given, axis=1) if given else np.empty((1, 0))
    weights, tops = weigh_by_parents(group, given, len(combinations))
    # which combination of the parents and which of the child's values a place has
    mine = np.broadcast_to(np.arange(len(combinations)).reshape(-1, grid, 1), (rows, grid, nodes)).reshape(-1)
    theirs = np.broadcast_to(np.arange(child.size).reshape(-1, 1, nodes), (rows, grid, nodes)).reshape(-1)
    if not group.first:
        by_state = _log_sums_by_state(group, combinations, weights, tops, int(child.max(initial=0)) + 1)
        total = logsumexp(by_state, axis=0)
        return np.asarray(by_state[child.reshape(-1).astype(np.intp)[theirs], mine] - total[mine]).reshape(
            rows, grid, nodes
        )
    if given:
        total = log_kernel_sums(
            group.points[:, 1:], group.widths[0, 1:], group.log_weights, combinations, weights, tops
        )
    else:
        total = logsumexp(group.log_weights, keepdims=True)
    values = child.reshape(-1)
    kernels, child_tops = evaluate_child(group, values)
    constant = math.log(group.widths[0, 0]) + LOG_ROOT_TWO_PI
    result = np.full(len(mine), -np.inf)
    possible = np.flatnonzero(np.isfinite(child_tops[theirs]))
    for start in range(0, len(possible), MOST_TARGETS):
        some = possible[start : start + MOST_TARGETS]
        i, j = mine[some], theirs[some]

        def exponents(rows: Any, chosen: Any, i: Any = i, j: Any = j) -> Values:
            return np.asarray(weights(rows, i[chosen]) + kernels(rows, j[chosen]))

        places = np.column_stack([values[j], combinations[i]])
        joint = log_kernel_sums(
            group.points,
            group.widths[0],
            group.log_weights - group.log_inside,
            places,
            exponents,
            tops[i] + child_tops[j] + constant,
        )
        result[some] = joint - total[i] + child_tops[j]
    return result.reshape(rows, grid, nodes)


def _shape(parents: Sequence[Values], child: NDArray[Any]) -> tuple[int, int, int]:
    """Return the numbers of rows, of the parents' combinations and of the child's nodes."""
    rows, grid = parents[0].shape if parents else (1, 1)
    # one row is shared by all, of which there may be none
    return (len(child) if rows == 1 else rows), grid, child.shape[1]


def _log_sums_by_state(group: KernelMixture, combinations: Values, weights: Any, tops: Values, states: int) -> Values:
    """Return the logarithm of the sum of each state's kernels, (states, parents' combinations)."""
    result = np.full((max(states, int(group.labels.max()) + 1), len(combinations)), -np.inf)
    for state in range(len(result)):
        own = np.flatnonzero(group.labels == state)
        if not len(own):
            continue

        def exponents(rows: Any, chosen: Any, own: Any = own) -> Values:
            return np.asarray(weights(own[rows], chosen))

        result[state] = log_kernel_sums(
            group.points[own], group.widths[own[0]], group.log_weights[own], combinations, exponents, tops
        )
    return result


def log_factors_without_self(group: KernelMixture) -> Values:
    """Return the logarithm of the factor by which the conditional at each point changes when its own kernel is left out.

    Examples
    --------
    >>> one = KernelMixture(np.array([[0.0], [0.0]]), np.ones((2, 1)), np.zeros(2), np.zeros(2), np.zeros(2, int), (-9.0, 9.0), 1)
    >>> log_factors_without_self(one)
    array([0., 0.])
    """
    if group.first:
        own = group.log_weights - group.log_inside
        numerator = _log_sums_at(group.points, group.widths[0], own, group.points)
        denominator = _log_sums_at(group.points[:, 1:], group.widths[0, 1:], group.log_weights, group.points[:, 1:])
        return _log_rest(own - numerator) - _log_rest(group.log_weights - denominator)
    by_state = np.stack([
        _log_sums_at(group.points[mine], group.widths[mine][0], group.log_weights[mine], group.points)
        for mine in (group.labels == label for label in np.unique(group.labels))
    ])  # fmt: skip
    numerator = np.take_along_axis(by_state, np.unique(group.labels, return_inverse=True)[1].reshape(1, -1), axis=0)[0]
    denominator = np.asarray(logsumexp(by_state, axis=0))
    return _log_rest(group.log_weights - numerator) - _log_rest(group.log_weights - denominator)


def _log_sums_at(points: Values, widths: Values, log_weights: Values, places: Values) -> Values:
    """Return the logarithm of the sum of all kernels at each place; without variables that of all weights."""
    if not points.shape[1]:
        return np.full(len(places), float(logsumexp(log_weights)))

    def exponents(some: Any, chosen: Any) -> Values:
        total = log_weights[some] if np.ndim(log_weights[some]) == 2 else log_weights[some][:, None]
        for column, width, along in zip(points.T, widths, places[chosen].T, strict=True):
            near = column[some] if np.ndim(column[some]) == 2 else column[some][:, None]
            with np.errstate(over="ignore"):
                total = total - 0.5 * ((near - along) / width) ** 2
        return np.asarray(total)

    return log_kernel_sums(points, widths, log_weights, places, exponents, np.zeros(len(places)))


def _log_rest(logs: Values) -> Values:
    """Return log(1 - share) of the logarithms of shares; a share of one leaves a rounding error."""
    return np.log1p(-np.minimum(np.exp(logs), 1 - np.finfo(float).eps))


LARGEST_TABLE = 1 << 21
"""Most numbers in a table of different values."""


class DistinctValues(NamedTuple):
    """The different values that rows ask for, and which of them each row has.

    Attributes
    ----------
    parents : list of ndarray (combinations,)
    mine : ndarray (rows or 1, parents' grid)
    child : ndarray (values,)
    theirs : ndarray (rows or 1, child's nodes)
    """

    parents: list[Values]
    mine: Codes
    child: NDArray[Any]
    theirs: Codes

    @property
    def combinations(self) -> int:
        """How many different combinations of the parents there are."""
        return len(self.parents[0]) if self.parents else 1

    @property
    def blocks(self) -> int:
        """In how many tables the work is done, so that none is too large."""
        if self.combinations * len(self.child) <= LARGEST_TABLE:
            return 1
        return math.ceil(self.combinations * self.theirs.size / LARGEST_TABLE)


def find_distinct(parents: Sequence[Values], child: NDArray[Any]) -> DistinctValues:
    """Tell the different values of the parents' grid (rows or 1, grid points) and of the child (rows or 1, nodes).

    Examples
    --------
    >>> found = find_distinct([np.array([[1.0, 2.0], [2.0, 3.0]])], np.array([[5.0], [5.0]]))
    >>> found.parents, found.mine.tolist(), found.child, found.theirs.tolist()
    ([array([1., 2., 3.])], [[0, 1], [1, 2]], array([5.]), [[0], [0]])
    """
    values, theirs = np.unique(child, return_inverse=True)
    if not parents:
        return DistinctValues([], np.zeros((1, 1), dtype=np.intp), values, theirs.reshape(child.shape))
    levels, code = np.unique(parents[0], return_inverse=True)
    code = code.reshape(-1)
    if len(parents) == 1:
        return DistinctValues([levels], code.reshape(parents[0].shape), values, theirs.reshape(child.shape))
    for grid in parents[1:]:
        levels, places = np.unique(grid, return_inverse=True)
        # numbered anew for every parent, so that the numbers stay below those of rows times grid points
        _, first, code = np.unique(code * len(levels) + places.reshape(-1), return_index=True, return_inverse=True)
        code = code.reshape(-1)
    combinations = [grid.reshape(-1)[first] for grid in parents]
    return DistinctValues(combinations, code.reshape(parents[0].shape), values, theirs.reshape(child.shape))


def evaluate_distinct(group: KernelMixture, found: DistinctValues) -> Values:
    """Return the logarithm of the conditional, (rows or 1, parents' grid, child's nodes)."""
    rows, grid = max(len(found.mine), len(found.theirs)), found.mine.shape[1]
    result = np.empty((rows, grid, found.theirs.shape[1]))
    step = max(1, math.ceil(rows / found.blocks)) if len(found.theirs) > 1 else rows
    for start in range(0, rows, step):
        some = slice(start, start + step)
        mine = found.mine[some] if len(found.mine) > 1 else found.mine
        theirs = found.theirs[some] if len(found.theirs) > 1 else found.theirs
        used, theirs = np.unique(theirs, return_inverse=True)
        child = found.child[used][None]
        table = log_conditional(group, [values[None] for values in found.parents], child, evaluate_child)[0]
        result[some] = table[mine[:, :, None], theirs.reshape(-1, 1, result.shape[2])]
    return result


NUMBERS = 1 << 20
"""Temporary arrays hold about this many numbers."""
REACH = 14.0
"""How far kernels are summed on the lattice, in bandwidths. Beyond, nearest points take over, and by then few of them count."""
DIGITS = 25.0
"""What is left out of a sum is less than exp(-DIGITS) of it."""
FARTHEST = 1e6
"""In bandwidths; squares of larger distances have no digits left for the difference of two of them."""
FIRST_NEIGHBORS = 16
"""How many nearest points are looked at first."""

Exponents = Callable[[Any, Any], Values]


def log_kernel_sums(
    points: Values,
    widths: Values,
    log_weights: Values,
    places: Values,
    exponents: Exponents,
    tops: Values,
) -> Values:
    """Return the logarithm of the sum of kernels at each place.

    Parameters
    ----------
    points : ndarray (points, variables)
    widths : ndarray (variables,)
    log_weights : ndarray (points,)
    places : ndarray (places, variables)
    exponents : callable
        Of rows of points, as a slice or (neighbors, places), and of the places: the logarithms of weighted kernels, relative to
        `tops`; computed in whatever way keeps their digits far from all points.
    tops : ndarray (places,)

    Examples
    --------
    >>> points, weights = np.array([[0.0], [1.0]]), np.zeros(2)
    >>> places = np.array([[0.0], [1e4]])
    >>> def exponents(some, chosen):
    ...     return -0.5 * (places[chosen, 0] - points[some, 0].reshape(-1, len(places[chosen]))) ** 2
    >>> log_kernel_sums(points, np.ones(1), weights, places, exponents, np.zeros(2)).round(4)
    array([ 4.74100000e-01, -4.99900005e+07])
    """
    result = np.full(len(places), np.nan)
    low, high = points.min(axis=0), points.max(axis=0)
    with np.errstate(over="ignore", invalid="ignore"):
        scaled, wanted = (points - low) / widths, (places - low) / widths
        ends = (high - low) / widths
        near = ((wanted > -FARTHEST) & (wanted < ends + FARTHEST)).all(axis=1)
    if not (ends < FARTHEST).all():
        near[:] = False
    open_places = np.flatnonzero(near)
    top = float(log_weights.max())
    if points.shape[1] <= 2:
        reached = (wanted > -REACH).all(axis=1) & (wanted < ends + REACH).all(axis=1) & near
        reachable = np.flatnonzero(reached)
        weights = np.exp(log_weights - top)
        least = float(weights.sum()) * math.exp(DIGITS - REACH**2 / 2)
        if len(reachable):
            # differences of points and an origin far away are exact, and so are units of powers of two; others lose digits
            with np.errstate(over="ignore"):
                origin = np.where(np.abs(low) > high - low, low, 0.0)
            unit = np.ldexp(1.0, np.frexp(widths)[1] - 1)
            ours, theirs = (points - origin) / unit, (places[reachable] - origin) / unit
            for rows, sums in sum_on_lattice(ours, weights, list((widths / unit)[:, None]), REACH, theirs):
                sums = sums.reshape(-1)
                fine = sums >= least
                chosen = reachable[rows[fine]]
                result[chosen] = np.log(sums[fine]) + (top - tops[chosen])
        open_places = open_places[np.isnan(result[open_places])]
    if len(open_places):
        sum_nearest(scaled, log_weights, wanted, exponents, open_places, result)
    far = np.flatnonzero(~near)
    at_once = max(1, NUMBERS // len(points))
    for start in range(0, len(far), at_once):
        some = far[start : start + at_once]
        result[some] = logsumexp(exponents(slice(None), some), axis=0)
    return result


def sum_nearest(
    scaled: Values, log_weights: Values, wanted: Values, exponents: Exponents, rows: Codes, result: Values
) -> None:
    """Write the logarithms of sums at some rows of `wanted` into `result`, over so many nearest points as it takes.

    `scaled` are the points and `wanted` the places in units of the bandwidths.
    """
    # sliding midpoints: many equal points would make the balanced kind slow
    tree = cKDTree(scaled, balanced_tree=False, compact_nodes=False)
    everything = float(logsumexp(log_weights))
    count = min(FIRST_NEIGHBORS, len(scaled))
    while len(rows):
        unsettled = []
        at_once = max(1, NUMBERS // count)
        for start in range(0, len(rows), at_once):
            some = rows[start : start + at_once]
            distances, neighbors = tree.query(wanted[some], k=count)
            squares = distances.reshape(len(some), -1) ** 2
            neighbors = neighbors.reshape(len(some), -1)
            best = (log_weights[neighbors] - 0.5 * squares).max(axis=1)
            # all others together are at most as much as all the weight at the distance of the last
            missing = everything - 0.5 * squares[:, -1] + DIGITS
            slack = 1e-14 * squares[:, -1]
            settled = (best > missing + slack) | (count == len(scaled))
            kept = some[settled]
            result[kept] = logsumexp(exponents(neighbors[settled].T, kept), axis=0)
            unsettled.append(some[~settled])
        rows = np.concatenate(unsettled)
        count = min(4 * count, len(scaled))
