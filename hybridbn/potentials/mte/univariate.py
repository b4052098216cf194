"""MTE densities of one continuous variable: mean, variance, distribution function and quantiles; and supports."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from hybridbn.errors import NetworkError
from hybridbn.potentials.mte.algebra import integrate_all, integrate_product_cells, multiply_out
from hybridbn.potentials.mte.evaluation import evaluate, inverse_cdf
from hybridbn.potentials.mte.terms import Terms
from hybridbn.variables import Continuous, Discrete, Values, Variable, shorten

if TYPE_CHECKING:
    from hybridbn.potentials.mte.potential import MTE

__all__ = ["Univariate", "cdf", "find_column_support", "mean_and_variance"]


def _common_ends(blocks: Sequence[Terms]) -> Values:
    """Return the ends of the interval in which all blocks have pieces."""
    low = max(float(block.low.min(initial=np.inf)) for block in blocks)
    high = min(float(block.high.max(initial=-np.inf)) for block in blocks)
    return np.array([low, high]) if low < high else np.array([0.0, 0.0])


def _moments(blocks: Sequence[Terms], order: int, center: float) -> Values:
    """Return the moments of the normalized density about a center."""
    integrals = integrate_product_cells(blocks, _common_ends(blocks), order, np.asarray(center))[:, 0]
    if not 0 < integrals[0] < math.inf:
        raise NetworkError(f"the density has the mass {integrals[0]}; it has no moments")
    return np.asarray(integrals / integrals[0])


def mean_and_variance(blocks: Sequence[Terms]) -> tuple[float, float]:
    """Return mean and variance, computed about the mean so that a distant origin costs no digits."""
    ends = np.concatenate([block.cuts[0] for block in blocks])
    center = float(np.median(ends[np.isfinite(ends)])) if np.isfinite(ends).any() else 0.0
    for _ in range(2):
        center += float(_moments(blocks, 1, center)[1])
    first, second = _moments(blocks, 2, center)[1:]
    return center + float(first), max(float(second - first**2), 0.0)


def cdf(blocks: Sequence[Terms], x: Values) -> Values:
    """Return the distribution function of the normalized density."""
    low, high = _common_ends(blocks)
    points, position = np.unique(np.clip(x, low, high), return_inverse=True)
    masses = integrate_product_cells(blocks, np.concatenate([[low], points, [high]]), 0, np.zeros(()))[0]
    cumulative = np.cumsum(masses)
    if not cumulative[-1] > 0:
        raise NetworkError("the density has no mass")
    return np.asarray(np.clip(cumulative[:-1] / cumulative[-1], 0.0, 1.0)[position].reshape(x.shape))


class Univariate:
    """Methods of an MTE of one continuous variable, the others being restricted or marginalized.

    They describe the normalized density, whatever its mass is.
    """

    child: Variable
    parents: tuple[Variable, ...]
    _blocks: tuple[Terms, ...]

    def _single(self) -> tuple[Terms, ...]:
        if self.parents or not isinstance(self.child, Continuous):
            names = shorten(v.name for v in (*self.parents, self.child))
            raise NetworkError(
                f"this needs a density of one continuous variable, not of {names}; restrict or marginalize the others"
            )
        return self._blocks

    @cached_property
    def has_zeros(self) -> bool:
        """Whether the density may be zero: outside all pieces, or in an empty piece."""
        from hybridbn.potentials.mte.potential import MTE

        if not isinstance(self, MTE):
            return True
        if isinstance(self.child, Continuous):
            low, high = self.support(self.child.name, 0.0)
            if np.any(low > self.child.domain[0]) or np.any(high < self.child.domain[1]):
                return True
        return any(not piece.constant and not piece.terms for piece in self.pieces)

    def reweighted(self, edges: Values, factors: Values) -> MTE | None:
        """Return the child's density after multiplying by a constant in each cell and summing discrete parents out.

        None where a parent is continuous; see `Potential.reweighted`.
        """
        from hybridbn.potentials.mte.pieces import Piece
        from hybridbn.potentials.mte.potential import MTE

        parents = [parent for parent in self.parents if isinstance(parent, Discrete)]
        if not isinstance(self, MTE) or len(parents) < len(self.parents):
            return None
        # a constant piece can't be infinite, so infinite tails are cut where they are negligible
        low, high = self.support(self.child.name, 1e-300)
        ends = np.clip(edges, low, high)
        pieces = [
            Piece(
                box={self.child.name: (float(ends[index[-1]]), float(ends[index[-1] + 1]))},
                given={parent.name: parent.states[code] for parent, code in zip(parents, index, strict=False)},
                constant=float(value),
            )
            for index, value in np.ndenumerate(factors)
            if ends[index[-1]] < ends[index[-1] + 1]
        ]
        product = self * MTE(self.child, parents=parents, pieces=pieces, normalize=None)
        marginal = product.marginalize([parent.name for parent in parents]) if parents else product
        return marginal if isinstance(marginal, MTE) else None

    def mean(self) -> float:
        """Return the mean."""
        return mean_and_variance(self._single())[0]

    def var(self) -> float:
        """Return the variance."""
        return mean_and_variance(self._single())[1]

    def std(self) -> float:
        """Return the standard deviation."""
        return math.sqrt(self.var())

    def moment(self, order: int, center: float = 0.0) -> float:
        """Return the mean of ``(x - center)**order``."""
        return float(_moments(self._single(), order, center)[order])

    def pdf(self, x: ArrayLike) -> Values | float:
        """Return the normalized density; `f(x=...)` gives it as it is."""
        points = _check_values(x)
        result: Values = np.ones(points.size)
        for block in self._single():
            result = result * evaluate(block, [points.reshape(-1)])
        result = np.asarray(result / integrate_all(self._blocks)[0]).reshape(points.shape)
        return result if result.ndim else float(result)

    def cdf(self, x: ArrayLike) -> Values | float:
        """Return the distribution function."""
        result = cdf(self._single(), _check_values(x))
        return result if result.ndim else float(result)

    def quantile(self, probability: ArrayLike) -> Values | float:
        """Return the inverse of `cdf`."""
        wanted = np.asarray(probability, dtype=float)
        if not ((wanted >= 0) & (wanted <= 1)).all():
            raise NetworkError(f"probabilities lie between 0 and 1, unlike {probability!r}")
        result = inverse_cdf(multiply_out(self._single()), wanted.ravel(), []).reshape(wanted.shape)
        return result if result.ndim else float(result)


def _check_values(x: ArrayLike) -> Values:
    points = np.asarray(x, dtype=float)
    if np.isnan(points).any():
        raise NetworkError("a value is missing (NaN)")
    return points


def find_column_support(
    terms: Terms, column: int, tail: float, ranges: Sequence[tuple[int, float, float]], bounded: bool
) -> tuple[float, float]:
    """Return the interval of a column that has all but `tail` of the mass, if other columns lie in known ranges.

    If `bounded`, an infinite end of a piece is moved inwards until the integral of the terms' absolute values beyond it
    reaches the tail.
    """
    in_ranges = np.ones(len(terms.codes), dtype=bool)
    for other_column, low, high in ranges:
        in_ranges &= (terms.low[:, other_column] <= high) & (terms.high[:, other_column] >= low)
    pieces = np.flatnonzero(in_ranges)
    low, high = terms.low[pieces, column].min(initial=np.inf), terms.high[pieces, column].max(initial=-np.inf)
    if bounded and len(pieces):
        ends = [_cut_tails(terms, int(p), column, tail / 2) for p in pieces]
        low, high = min(end[0] for end in ends), max(end[1] for end in ends)
    return float(low), float(high)


def _cut_tails(terms: Terms, piece: int, column: int, tail: float) -> tuple[float, float]:
    low, high = float(terms.low[piece, column]), float(terms.high[piece, column])
    if math.isfinite(low) and math.isfinite(high):
        return low, high
    t = slice(terms.starts[piece], terms.starts[piece + 1])
    sizes, rates = np.abs(terms.coefficient[t]), np.abs(terms.rates[t, column])
    sizes, rates = sizes[rates > 0], rates[rates > 0]
    with np.errstate(divide="ignore"):
        lengths = np.log(sizes * max(len(sizes), 1) / (rates * tail)) / rates
    reach = float(max(lengths.max(initial=0.0), 0.0)) or 1.0
    return (low, low + reach) if math.isfinite(low) else (high - reach, high)
