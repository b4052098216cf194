"""Closed-form elimination of hidden linear Gaussian variables.

The potentials that mention a connected set of hidden linear Gaussian variables are regressions. Divided by their standard
deviations they are the rows of a matrix: the log density is ``-|H h + Z z|^2 / 2`` plus a constant, with ``h`` the hidden
variables and ``z`` everything else (observed values, nodes of other hidden variables, and 1 for the intercepts). A QR
decomposition of ``H`` integrates ``h`` out without ever squaring a condition number: what remains of ``Z`` below the
triangle is the log density of ``z``, and the triangle gives the conditional mean and covariance of ``h``.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hybridbn.inference.evidence import Evidence
from hybridbn.inference.sources import Axis, exponentiated
from hybridbn.potentials.base import Potential
from hybridbn.variables import Discrete, Values

__all__ = ["GaussianComponent", "Moments"]


@dataclass(frozen=True)
class Moments:
    """Conditional mean and variance of some closed variables, over the component's names and the rows.

    Attributes
    ----------
    mean : ndarray (targets, *names, rows)
    covariance : ndarray (targets, targets, *names, rows)
    """

    mean: Values
    covariance: Values


@dataclass(frozen=True)
class _Group:
    """Rows with the same variables observed and the same states of observed discrete parents."""

    rows: NDArray[np.intp]
    hidden: tuple[str, ...]
    known: tuple[str, ...]
    codes: Mapping[str, int]


@dataclass(frozen=True)
class GaussianComponent:
    """A connected set of hidden linear Gaussian variables with all the potentials that mention them.

    Attributes
    ----------
    closed : names of the variables eliminated here (in rows where one is observed, its value is used)
    names : hidden discrete parents and hidden continuous variables with nodes: the dimensions of the factor
    hard : names observed in every row
    """

    potentials: tuple[Potential, ...]
    closed: tuple[str, ...]
    names: tuple[str, ...]
    hard: frozenset[str]
    rows: bool
    static: bool

    def values(self, axes: Mapping[str, Axis], evidence: Evidence) -> tuple[Values, Values | float]:
        """Return the values and their log scale."""
        return exponentiated(self.logs(axes, evidence), self.rows)

    def logs(self, axes: Mapping[str, Axis], evidence: Evidence) -> Values:
        """Return the log density of the rest with the closed variables integrated out."""
        result = np.empty([*(axes[name].size for name in self.names), evidence.rows])
        for group in self._groups(evidence):
            _, _, below, constant = self._solved(group, axes)
            residual = self._applied(below, group, axes, evidence)
            result[..., group.rows] = constant - 0.5 * np.einsum("i...,i...->...", residual, residual)
        return result if self.rows else result[..., 0]

    def peaks(self, axes: Mapping[str, Axis], evidence: Evidence) -> Values:
        """Return the log density of the rest with the closed variables at their most probable values."""
        result = np.empty([*(axes[name].size for name in self.names), evidence.rows])
        for group in self._groups(evidence):
            triangle, _, below, constant = self._solved(group, axes)
            residual = self._applied(below, group, axes, evidence)
            size = np.log(np.abs(np.diagonal(triangle, axis1=-2, axis2=-1))).sum(axis=-1)
            undone = self._expanded(size, axes)[..., None] - len(group.hidden) * 0.5 * math.log(2 * math.pi)
            result[..., group.rows] = constant + undone - 0.5 * np.einsum("i...,i...->...", residual, residual)
        return result if self.rows else result[..., 0]

    def moments(self, targets: Sequence[str], axes: Mapping[str, Axis], evidence: Evidence) -> Moments:
        """Return the mean and covariance of closed variables given the axes' points and the evidence."""
        sizes = [axes[name].size for name in self.names]
        mean = np.empty([len(targets), *sizes, evidence.rows])
        covariance = np.zeros([len(targets), len(targets), *sizes, evidence.rows])
        for group in self._groups(evidence):
            means, inverse = self._conditional(group, axes, evidence)
            full = inverse @ np.swapaxes(inverse, -1, -2)
            place = {name: i for i, name in enumerate(group.hidden)}
            for i, target in enumerate(targets):
                if target not in place:
                    mean[i][..., group.rows] = evidence.findings[target].values[group.rows]
                    continue
                mean[i][..., group.rows] = means[place[target]]
                for j, other in enumerate(targets):
                    if other in place:
                        spread = self._expanded(full[..., place[target], place[other]], axes)
                        covariance[i, j][..., group.rows] = spread[..., None]
        return Moments(mean, covariance)

    def marginals(self, targets: Sequence[str], axes: Mapping[str, Axis], evidence: Evidence) -> tuple[Values, Values]:
        """Return mean and variance of closed variables, each (targets, *names, rows), as `moments` does."""
        sizes = [axes[name].size for name in self.names]
        mean = np.empty([len(targets), *sizes, evidence.rows])
        variance = np.zeros([len(targets), *sizes, evidence.rows])
        for group in self._groups(evidence):
            means, inverse = self._conditional(group, axes, evidence)
            full = np.einsum("...ij,...ij->...i", inverse, inverse)
            place = {name: i for i, name in enumerate(group.hidden)}
            for i, target in enumerate(targets):
                if target in place:
                    mean[i][..., group.rows] = means[place[target]]
                    variance[i][..., group.rows] = self._expanded(full[..., place[target]], axes)[..., None]
                else:
                    mean[i][..., group.rows] = evidence.findings[target].values[group.rows]
        return mean, variance

    # -- numerics -------------------------------------------------------------------------------------------------

    def _groups(self, evidence: Evidence) -> Iterator[_Group]:
        discrete = sorted(
            {p.name for potential in self.potentials for p in potential.parents if isinstance(p, Discrete)} & self.hard
        )
        partly = [name for name in self.closed if name in evidence.findings]
        columns = [evidence.findings[name].values.astype(np.intp) for name in discrete]
        columns += [evidence.findings[name].observed.astype(np.intp) for name in partly]
        if not columns:
            yield _Group(np.arange(evidence.rows), self.closed, tuple(self._outside()), {})
            return
        keys, inverse = np.unique(np.stack(columns), axis=1, return_inverse=True)
        order = np.argsort(inverse.ravel(), kind="stable")
        bounds = np.searchsorted(inverse.ravel()[order], np.arange(keys.shape[1] + 1))
        for i in range(keys.shape[1]):
            seen = {name for name, flag in zip(partly, keys[len(discrete) :, i], strict=True) if flag}
            yield _Group(
                order[bounds[i] : bounds[i + 1]],
                tuple(name for name in self.closed if name not in seen),
                (*self._outside(), *sorted(seen)),
                dict(zip(discrete, keys[: len(discrete), i].tolist(), strict=True)),
            )

    def _outside(self) -> list[str]:
        """Return the continuous variables that the potentials mention beside the closed ones."""
        mentioned = dict.fromkeys(v.name for p in self.potentials for v in p.variables if not isinstance(v, Discrete))
        return [name for name in mentioned if name not in self.closed]

    def _solved(self, group: _Group, axes: Mapping[str, Axis]) -> tuple[Values, Values, Values, Values]:
        """Return the triangle, what stands right of it, what is left below, and the log constant.

        All have the dimensions of the component's discrete names first; the constant has those of all names and one row.
        """
        free = [name for name in self.names if not self._continuous(name)]
        sizes = [axes[name].size for name in free]
        columns = {name: i for i, name in enumerate((*group.hidden, *group.known))}
        matrix = np.zeros([*sizes, len(self.potentials), len(columns) + 1])
        constant = np.zeros(sizes)
        for row, potential in enumerate(self.potentials):
            regression = potential.regression()
            assert regression is not None
            discrete = [p.name for p in potential.parents if isinstance(p, Discrete)]
            pick = tuple(group.codes[name] if name in self.hard else slice(None) for name in discrete)
            left = [name for name in discrete if name not in self.hard]
            shape = [size if name in left else 1 for name, size in zip(free, sizes, strict=True)]
            turn = sorted(range(len(left)), key=lambda i: free.index(left[i]))

            def fit(array: Values, extra: int, pick: Any = pick, turn: Any = turn, shape: Any = shape) -> Values:
                picked = array[pick]
                turned = picked.transpose([*turn, *range(len(turn), len(turn) + extra)])
                return np.asarray(turned.reshape([*shape, *picked.shape[len(turn) :]]))

            spread = np.sqrt(fit(regression.variance, 0))
            matrix[..., row, columns[potential.child.name]] = 1 / spread
            matrix[..., row, -1] = -fit(regression.intercept, 0) / spread
            slopes = fit(regression.coefficients, 1)
            for i, name in enumerate(p.name for p in potential.parents if not isinstance(p, Discrete)):
                matrix[..., row, columns[name]] = -slopes[..., i] / spread
            constant = constant - np.log(spread)
        count = len(group.hidden)
        if count:
            rotation, upper = np.linalg.qr(matrix[..., :count], mode="complete")
            rest = np.swapaxes(rotation, -1, -2) @ matrix[..., count:]
            triangle, right, below = upper[..., :count, :], rest[..., :count, :], rest[..., count:, :]
            constant = constant - np.log(np.abs(np.diagonal(triangle, axis1=-2, axis2=-1))).sum(axis=-1)
        else:
            triangle, right, below = matrix[..., :0, :0], matrix[..., :0, :], matrix
        constant = constant - (len(self.potentials) - count) * 0.5 * math.log(2 * math.pi)
        return triangle, right, below, self._expanded(constant, axes)[..., None]

    def _conditional(self, group: _Group, axes: Mapping[str, Axis], evidence: Evidence) -> tuple[Values, Values]:
        """Return the means of the hidden variables (hidden, *names, rows), and the inverse of the triangle."""
        triangle, right, _, _ = self._solved(group, axes)
        solution = np.asarray(np.linalg.solve(triangle, right)) if group.hidden else right
        inverse = np.asarray(np.linalg.inv(triangle)) if group.hidden else triangle
        return -self._applied(solution, group, axes, evidence), inverse

    def _continuous(self, name: str) -> bool:
        return not any(v.name == name and isinstance(v, Discrete) for p in self.potentials for v in p.variables)

    def _expanded(self, array: Values, axes: Mapping[str, Axis]) -> Values:
        """Give an array over the discrete names a dimension of one for every other name."""
        shape = [1 if self._continuous(name) else axes[name].size for name in self.names]
        return array.reshape(shape)

    def _applied(self, matrix: Values, group: _Group, axes: Mapping[str, Axis], evidence: Evidence) -> Values:
        """Return ``matrix @ (known, 1)`` as an array (equations, *names, rows of the group)."""
        shape = [1 if self._continuous(name) else axes[name].size for name in self.names]
        count = matrix.shape[-2]
        moved = np.moveaxis(matrix, (-2, -1), (0, 1)) if matrix.ndim > 2 else matrix
        moved = moved.reshape([count, matrix.shape[-1], *shape, 1])
        total = moved[:, -1]
        for i, name in enumerate(group.known):
            if name in self.names:
                points = axes[name].points
                points = points[:, group.rows] if points.ndim == 2 else points[:, None]
                place = [len(points) if other == name else 1 for other in self.names]
                known = points.reshape([1, *place, points.shape[1]])
            else:
                known = evidence.findings[name].values[group.rows]
            total = total + moved[:, i] * known
        return np.broadcast_to(total, [count, *(axes[name].size for name in self.names), len(group.rows)])
