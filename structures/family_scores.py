"""BIC of single families, cached: what a search over structures adds up.

Families of discrete columns are scored from counts, those of normal columns with normal parents from one matrix of moments; any other
family is fitted, and its density evaluated at the rows.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from hybridbn.errors import HybridBNError
from hybridbn.fitting.multinomial import MultinomialFitter
from hybridbn.learning.em_structure import free_parameters
from hybridbn.potentials.base import Potential
from hybridbn.structures.preparing import Prepared
from hybridbn.variables import Codes, Discrete, Values

__all__ = ["FamilyScores"]

SPARSE = 4
"""A table with so many times more cells than rows is counted by sorting the rows."""
_ROWS = 65536
_NOTHING: frozenset[str] = frozenset()


class FamilyScores:
    r"""The BIC of a column given others, in nats: :math:`\log L - \frac{k}{2} \log n`; greater is better.

    A family is scored on the rows in which all its columns are observed, and its likelihood is scaled up to all rows.

    Parameters
    ----------
    data : Prepared
    penalty : callable, optional
        From (number of rows, number of free parameters) to what is taken off; by default that of BIC.

    Examples
    --------
    >>> from hybridbn.structures.preparing import prepared_whole
    >>> data = {"a": ["x", "x", "y", "y"] * 5, "b": ["u", "u", "v", "v"] * 5}
    >>> scores = FamilyScores(prepared_whole(data, "auto", None))
    >>> round(scores("a", ()), 3), round(scores("a", ("b",)), 3)
    (-15.361, -2.996)
    """

    def __init__(self, data: Prepared, penalty: Callable[[float, int], float] | None = None) -> None:
        self.data = data
        self.penalty = penalty or (lambda rows, count: 0.5 * count * math.log(max(rows, 2.0)))
        names = list(data.roles)
        self.place = {name: i for i, name in enumerate(names)}
        self.weights = data.table.weights
        self.total = float(self.weights.sum())
        self._scores: dict[tuple[str, frozenset[str]], float] = {}
        self._joint: dict[frozenset[str], tuple[Codes, int]] = {}
        self._sums: dict[tuple[frozenset[str], frozenset[str]], tuple[float, float]] = {}
        self._columns: dict[str, Codes] = {}
        self._tables: dict[str, bool] = {}
        self._holes = {name: bool(count) for name, count in data.table.missing.items()}
        self._whole = not any(self._holes.values())
        self._discrete = {name: isinstance(data.variable(name), Discrete) for name in names}
        self._plain = all(w == 1 for w in (self.weights.min(initial=1), self.weights.max(initial=1)))
        self._moments: tuple[dict[str, int], Values, dict[str, float]] | None = None

    def __call__(self, child: str, parents: tuple[str, ...] | frozenset[str]) -> float:
        """Return the score of a column given others, -inf where it can't be fitted."""
        key = child, frozenset(parents)
        if key not in self._scores:
            self._scores[key] = self._score(child, key[1])
        return self._scores[key]

    def _score(self, child: str, parents: frozenset[str]) -> float:
        if all(self._discrete[name] for name in (child, *parents)):
            return self._counted(child, parents)
        if not any(self._discrete[name] for name in (child, *parents)):
            found = self._by_moments(child, parents)
            if found is not None:
                return found
        return self._by_fitting(child, parents)

    # -- tables -------------------------------------------------------------------------------------------------------

    def _counted(self, child: str, parents: frozenset[str]) -> float:
        if child not in self._tables:
            self._tables[child] = type(self.data.fitter(child, ())) is MultinomialFitter
        if not self._tables[child]:
            return self._by_fitting(child, parents)
        size = math.prod(self.data.states(name) for name in parents)
        both, rows = self._sum_of_logs(parents | {child}, parents | {child})
        if rows <= 0:
            return -math.inf
        likelihood = both - self._sum_of_logs(parents, parents | {child})[0]
        return likelihood * self.total / rows - self.penalty(self.total, size * (self.data.states(child) - 1))

    def _sum_of_logs(self, names: frozenset[str], seen: frozenset[str]) -> tuple[float, float]:
        """Return the sum of n log n over the counts of some columns, and their number, where others are seen too."""
        key = names, _NOTHING if self._whole else frozenset(name for name in seen - names if self._holes[name])
        if key not in self._sums:
            codes, size = self._configurations(names)
            known = None
            if not self._whole and any(self._holes[name] for name in seen):
                known = self._configurations(seen)[0] >= 0
                codes = codes[known]
            weights = None if self._plain else self.weights if known is None else self.weights[known]
            rows = float(len(codes)) if weights is None else float(weights.sum())
            self._sums[key] = _sum_of_logs(codes, weights, size), rows
        return self._sums[key]

    def _configurations(self, names: frozenset[str]) -> tuple[Codes, int]:
        """Return the joint configuration of some columns in each row (-1 where one is missing), and how many there may be."""
        if names not in self._joint:
            if not names:
                return np.zeros(len(self.weights), dtype=np.intp), 1
            last = max(names, key=self.place.__getitem__)
            codes, size = self._configurations(names - {last})
            column, states = self._codes(last), self.data.states(last)
            joint = codes * states + column
            if not self._whole and any(self._holes[name] for name in names):
                joint = np.where((codes < 0) | (column < 0), -1, joint)
            self._joint[names] = joint, size * states
        return self._joint[names]

    def _codes(self, name: str) -> Codes:
        if name not in self._columns:
            self._columns[name] = self.data.codes(name).astype(np.intp)
        return self._columns[name]

    # -- normal densities ---------------------------------------------------------------------------------------------

    def _by_moments(self, child: str, parents: frozenset[str]) -> float | None:
        """Return the score of a linear regression from second moments; None where it is another family or there are holes."""
        if self.data.fitter(child, ()).name != "gaussian" or any(self._holes[name] for name in (child, *parents)):
            return None
        if self._moments is None:
            names = [name for name, discrete in self._discrete.items() if not discrete and not self._holes[name]]
            columns = np.stack([self.data.codes(name) for name in names])
            centers = np.average(columns, axis=1, weights=self.weights)
            standard = columns - centers[:, None]
            scales = np.sqrt(np.average(standard**2, axis=1, weights=self.weights))
            standard /= np.where(scales > 0, scales, 1.0)[:, None]
            moments = (standard * self.weights) @ standard.T / self.total
            places = {name: i for i, name in enumerate(names)}
            self._moments = places, moments, dict(zip(names, scales.tolist(), strict=True))
        places, moments, spread = self._moments
        mine, given = places[child], [places[name] for name in parents]
        if spread[child] <= 0:
            return -math.inf
        rest = moments[mine, mine]
        if given:
            inside = moments[np.ix_(given, given)]
            try:
                factor = np.linalg.cholesky(inside)
            except np.linalg.LinAlgError:
                return -math.inf
            if np.diag(factor).min() < 1e-6:
                return -math.inf
            rest = rest - float(np.sum(np.linalg.solve(factor, moments[given, mine]) ** 2))
        if not rest > 1e-12:
            return -math.inf
        variance = rest * spread[child] ** 2
        likelihood = -0.5 * self.total * (math.log(2 * math.pi * variance) + 1)
        return likelihood - self.penalty(self.total, 2 + len(given))

    # -- anything else ------------------------------------------------------------------------------------------------

    def _by_fitting(self, child: str, parents: frozenset[str]) -> float:
        given = tuple(sorted(parents, key=self.place.__getitem__))
        try:
            potential = self.data.fit(child, given)
        except HybridBNError:
            return -math.inf
        columns = {name: self.data.codes(name) for name in (*given, child)}
        known = np.all(
            [column >= 0 if self._discrete[name] else ~np.isnan(column) for name, column in columns.items()], axis=0
        )
        rows = np.flatnonzero(known & (self.weights > 0))
        if not len(rows):
            return -math.inf
        likelihood = float(self.weights[rows] @ _logs(potential, {n: c[rows] for n, c in columns.items()}))
        scaled = likelihood * self.total / float(self.weights[rows].sum())
        return scaled - self.penalty(self.total, free_parameters(potential))


def _sum_of_logs(codes: Codes, weights: Values | None, size: int) -> float:
    """Return the sum of n log n over the counts of codes."""
    if size > SPARSE * max(len(codes), 256):
        codes = np.unique(codes, return_inverse=True)[1].reshape(-1)
        size = int(codes.max(initial=0)) + 1
    counts = np.bincount(codes, weights, size)
    counts = counts[counts > 0]
    return float(counts @ np.log(counts))


def _logs(potential: Potential, columns: dict[str, NDArray[np.float64]]) -> Values:
    rows = len(next(iter(columns.values())))
    found = [
        potential.log_on({name: column[None, start : start + _ROWS] for name, column in columns.items()}).reshape(-1)
        for start in range(0, rows, _ROWS)
    ]
    return np.concatenate(found)
