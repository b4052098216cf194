"""Kernel conditionals at many places, in whichever of three ways takes least time; all give the same digits."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from hybridbn.potentials.gaussian import LOG_ROOT_TWO_PI
from hybridbn.potentials.kernel.mixtures import Mixture, log_conditional, parents_at, values_at
from hybridbn.potentials.kernel.nearest import log_sums
from hybridbn.potentials.kernel.repeats import Distinct, distinct, log_table
from hybridbn.variables import Values

__all__ = ["at_places", "log_factors_without_self", "log_values", "pays"]

BELL, TERM = 6e-9, 2e-10
"""Seconds for a kernel between a point and a value, and for a term of a product of matrices of kernels."""
START, POINT, PLACE = 3e-3, 3e-6, 1e-6
"""Seconds for sums place by place: to begin with, for a point, and for a place."""
SORTED = 1e-7
"""Seconds to sort a value among others and to look it up."""
PLACES = 1 << 20
"""Most places at once."""


def log_values(group: Mixture, parents: Sequence[Values], child: NDArray[Any]) -> Values:
    """Return the logarithm of the conditional at the child's nodes, (rows or 1, parents' grid, child's nodes)."""
    found = repeats(group, parents, child)
    if found is not None:
        return log_table(group, found)
    if pays(group, parents, child):
        return at_places(group, parents, child)
    return log_conditional(group, parents, child, values_at)


def repeats(group: Mixture, parents: Sequence[Values], child: NDArray[Any]) -> Distinct | None:
    """Return the different values, if a table of them takes less time than either way of doing all that is asked."""
    rows, _, _ = _shape(parents, child)
    asked = (parents[0].size if parents else 1) + child.size
    plain = min(_costs(group, parents, child))
    # looking for repeats must not cost much where there are none
    if rows == 1 or plain < 8 * asked * SORTED:
        return None
    found = distinct(parents, child)
    bells = found.blocks * found.combinations + len(found.child)
    # a share of the table's columns is needed in several blocks
    terms = found.combinations * min(len(found.child) * found.blocks, found.theirs.size)
    table = len(group.points) * (bells * BELL + terms * TERM) + asked * SORTED
    return found if table < plain else None


def pays(group: Mixture, parents: Sequence[Values], child: NDArray[Any]) -> bool:
    """Tell whether one sum of kernels for every place takes less time than matrix products over all points."""
    matrices, places = _costs(group, parents, child)
    return places < matrices


def _costs(group: Mixture, parents: Sequence[Values], child: NDArray[Any]) -> tuple[float, float]:
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
    matrices = points * (bells * BELL + places * TERM)
    # a lattice in three dimensions would be too large
    return matrices, START + points * POINT + sums * PLACE if numbers <= 2 else math.inf


def at_places(group: Mixture, parents: Sequence[Values], child: NDArray[Any]) -> Values:
    """Return the logarithm of the conditional, one sum of kernels for every place."""
    rows, grid, nodes = _shape(parents, child)
    given = [values.reshape(-1) for values in parents]
    combinations = np.stack(given, axis=1) if given else np.empty((1, 0))
    weights, tops = parents_at(group, given, len(combinations))
    # which combination of the parents and which of the child's values a place has
    mine = np.broadcast_to(np.arange(len(combinations)).reshape(-1, grid, 1), (rows, grid, nodes)).reshape(-1)
    theirs = np.broadcast_to(np.arange(child.size).reshape(-1, 1, nodes), (rows, grid, nodes)).reshape(-1)
    if not group.first:
        by_state = _by_state(group, combinations, weights, tops, int(child.max(initial=0)) + 1)
        total = logsumexp(by_state, axis=0)
        return np.asarray(by_state[child.reshape(-1).astype(np.intp)[theirs], mine] - total[mine]).reshape(
            rows, grid, nodes
        )
    if given:
        total = log_sums(group.points[:, 1:], group.widths[0, 1:], group.log_weights, combinations, weights, tops)
    else:
        total = logsumexp(group.log_weights, keepdims=True)
    values = child.reshape(-1)
    kernels, child_tops = values_at(group, values)
    constant = math.log(group.widths[0, 0]) + LOG_ROOT_TWO_PI
    result = np.full(len(mine), -np.inf)
    possible = np.flatnonzero(np.isfinite(child_tops[theirs]))
    for start in range(0, len(possible), PLACES):
        some = possible[start : start + PLACES]
        i, j = mine[some], theirs[some]

        def exponents(rows: Any, chosen: Any, i: Any = i, j: Any = j) -> Values:
            return np.asarray(weights(rows, i[chosen]) + kernels(rows, j[chosen]))

        places = np.column_stack([values[j], combinations[i]])
        joint = log_sums(
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


def _by_state(group: Mixture, combinations: Values, weights: Any, tops: Values, states: int) -> Values:
    """Return the logarithm of the sum of each state's kernels, (states, parents' combinations)."""
    result = np.full((max(states, int(group.labels.max()) + 1), len(combinations)), -np.inf)
    for state in range(len(result)):
        own = np.flatnonzero(group.labels == state)
        if not len(own):
            continue

        def exponents(rows: Any, chosen: Any, own: Any = own) -> Values:
            return np.asarray(weights(own[rows], chosen))

        result[state] = log_sums(
            group.points[own], group.widths[own[0]], group.log_weights[own], combinations, exponents, tops
        )
    return result


def log_factors_without_self(group: Mixture) -> Values:
    """Return the logarithm of the factor by which the conditional at each point changes when its own kernel is left out.

    Examples
    --------
    >>> one = Mixture(np.array([[0.0], [0.0]]), np.ones((2, 1)), np.zeros(2), np.zeros(2), np.zeros(2, int), (-9.0, 9.0), 1)
    >>> log_factors_without_self(one)
    array([0., 0.])
    """
    if group.first:
        own = group.log_weights - group.log_inside
        numerator = _sums_at(group.points, group.widths[0], own, group.points)
        denominator = _sums_at(group.points[:, 1:], group.widths[0, 1:], group.log_weights, group.points[:, 1:])
        return _log_rest(own - numerator) - _log_rest(group.log_weights - denominator)
    by_state = np.stack([
        _sums_at(group.points[mine], group.widths[mine][0], group.log_weights[mine], group.points)
        for mine in (group.labels == label for label in np.unique(group.labels))
    ])  # fmt: skip
    numerator = np.take_along_axis(by_state, np.unique(group.labels, return_inverse=True)[1].reshape(1, -1), axis=0)[0]
    denominator = np.asarray(logsumexp(by_state, axis=0))
    return _log_rest(group.log_weights - numerator) - _log_rest(group.log_weights - denominator)


def _sums_at(points: Values, widths: Values, log_weights: Values, places: Values) -> Values:
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

    return log_sums(points, widths, log_weights, places, exponents, np.zeros(len(places)))


def _log_rest(logs: Values) -> Values:
    """Return log(1 - share) of the logarithms of shares; a share of one leaves a rounding error."""
    return np.log1p(-np.minimum(np.exp(logs), 1 - np.finfo(float).eps))
