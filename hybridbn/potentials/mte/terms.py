"""Sums of exponentials on boxes as plain arrays, and their algebra: product, sum, integral, restriction.

A `Terms` is a function of some discrete and some continuous columns, which have positions instead of names. It consists
of pieces, each for one combination of codes and one box, and of terms that belong to pieces. A term is *anchored*: it
stands for ``coefficient * exp(sum_j rate_j (z_j - anchor_j))``, where the anchor is the corner of the piece where the
term is largest. So coefficients are of the size of the function, nothing overflows, and rates near zero lose no digits.
Integrals, moments and minima of exponential sums on an interval or a box come first.
"""

from __future__ import annotations

import decimal
import itertools
import math
from dataclasses import dataclass, fields, replace
from decimal import Decimal
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hybridbn.errors import NetworkError, TooWide
from hybridbn.potentials.base import freeze
from hybridbn.registry import LazyModule
from hybridbn.variables import Codes, Values, slice_blocks

scipy: LazyModule = LazyModule("scipy")  # networks are converted without it

_SERIES = 22
"""Terms of the power series for arguments below 1, where 1/22! = 1e-21 is below rounding."""
NEGLIGIBLE = 40.0
"""Exponents at which a decaying term is negligible: exp(-40) = 4e-18 is below the rounding of 1."""


def integrate_decay(rate: Values, width: Values) -> Values:
    """Integrate ``exp(-rate t)`` over ``0 <= t <= width`` for rates >= 0; no digits are lost as rate * width -> 0.

    ``width`` may be infinite; the integral is then ``1 / rate``, and infinite where the rate is zero.
    """
    rate, width = np.broadcast_arrays(rate, width)
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        product = np.asarray(rate * width)
        mean = np.where(product > 1e-300, -np.expm1(-product) / product, 1.0)
        return np.asarray(np.where(np.isinf(width), np.where(rate > 0, 1.0 / rate, np.inf), width * mean))


def integrate_powers(rate: Values, width: Values, order: int) -> Values:
    """Integrate ``t**k exp(-rate t)`` over ``0 <= t <= width`` for k = 0 .. order, rates >= 0.

    With x = rate * width it is ``gamma(k+1, x) / rate**(k+1)`` (incomplete gamma function); below x = 1 its power
    series ``width**(k+1) sum_n (-x)**n / (n! (n+k+1))``, because the closed form cancels there.

    Returns
    -------
    ndarray (order + 1, ...)
    """
    rate, width = np.broadcast_arrays(rate, width)
    result = np.empty((order + 1, *rate.shape))
    result[0] = integrate_decay(rate, width)
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        product = np.where(rate == 0, 0.0, rate * width)
        small = np.minimum(product, 1.0)
        for k in range(1, order + 1):
            series = np.zeros(rate.shape)
            for n in range(_SERIES, -1, -1):
                series = series * (-small / (n + 1)) + 1.0 / (n + k + 1)
            closed = scipy.special.gammainc(k + 1, product) * math.factorial(k) / rate ** (k + 1)
            result[k] = np.where(product < 1.0, width ** (k + 1) * series, closed)
    return result


def integrate_segments(rate: Values, anchor: Values, low: Values, high: Values, order: int, center: Values) -> Values:
    """Integrate ``(z - center)**k exp(rate (z - anchor))`` over [low, high] for k = 0 .. order; 0 where high <= low.

    Each segment is integrated from its end nearest to the anchor, where the exponential is largest.

    Returns
    -------
    ndarray (order + 1, ...)
    """
    rate, anchor, low, high, center = np.broadcast_arrays(rate, anchor, low, high, center)
    empty = ~(high > low)
    near = np.where(rate > 0, high, np.where(np.isfinite(low), low, high))
    direction = np.where((rate > 0) | ~np.isfinite(low), -1.0, 1.0)
    near = np.where(empty | ~np.isfinite(near), 0.0, near)
    with np.errstate(invalid="ignore"):
        width = np.where(empty, 0.0, high - low)
    weight = np.where(empty, 0.0, np.exp(np.where(empty | (rate == 0), 0.0, rate * (near - anchor))))
    local = integrate_powers(np.abs(rate), width, order) * weight
    if order == 0:
        return local
    offset = near - center
    result = np.zeros_like(local)
    for k in range(order + 1):
        for i in range(k + 1):
            result[k] += math.comb(k, i) * offset ** (k - i) * direction**i * local[i]
    return result


# -- minima -------------------------------------------------------------------------------------------------------


def minimize_on_box(coefficients: Values, rates: Values, low: Values, high: Values) -> tuple[float, Values, float]:
    """Find the minimum over a box of ``sum_t coefficients[t] exp(sum_j rates[t, j] (z_j - anchor_tj))``.

    Anchors are the corners where the terms are largest. In one dimension the stationary points are found exactly, one
    after the other (an exponential sum of n terms has at most n - 1 zeros, separated by those of a sum of n - 1 terms);
    in more dimensions by a grid with the corners and local searches from its lowest points.

    Returns
    -------
    minimum : float
    where : ndarray (dimensions,)
    maximum : float
        Largest value among the points that were evaluated.
    """
    active = np.flatnonzero((rates != 0).any(axis=0))
    point = np.where(np.isfinite(low), low, np.where(np.isfinite(high), high, 0.0))
    if not active.size:
        value = float(coefficients.sum())
        return value, point, value
    rates, low, high = rates[:, active], low[active], high[active]
    # beyond this length every decaying term is negligible
    reach = NEGLIGIBLE / np.where(rates == 0, np.inf, np.abs(rates)).min(axis=0)
    low = np.where(np.isinf(low), high - reach, low)
    high = np.where(np.isinf(high), low + reach, high)
    anchors = np.where(rates > 0, high, low)
    if active.size == 1 and len(coefficients) <= 8:
        candidates = _stationary_points(coefficients, rates[:, 0], low[0], high[0])[:, None]
    else:
        candidates = _search_grid(coefficients, rates, anchors, low, high)
    values = np.exp(((candidates[:, None, :] - anchors) * rates).sum(axis=2)) @ coefficients
    best = int(values.argmin())
    point[active] = candidates[best]
    return float(values[best]), point, float(values.max())


def _stationary_points(coefficients: Values, rates: Values, low: float, high: float) -> Values:
    """Return the ends of the interval and every stationary point in it, for anchored terms."""
    distinct, group = np.unique(rates, return_inverse=True)
    merged = np.bincount(group, weights=coefficients, minlength=len(distinct))
    width = high - low
    nonzero = (merged != 0) & (distinct != 0)
    slopes, distinct = merged[nonzero] * distinct[nonzero], distinct[nonzero]
    if not len(slopes):
        return np.array([low, high])
    # in t = z - low every term is sign * exp(log + rate t); logarithms can't overflow
    logs = np.log(np.abs(slopes)) - np.maximum(distinct, 0.0) * width
    zeros = _find_zeros(np.sign(slopes), logs, distinct, width)
    return np.array([low, *(low + t for t in zeros), high])


def _find_zeros(signs: Values, logs: Values, rates: Values, width: float) -> list[float]:
    """Return the zeros of ``sum signs exp(logs + rates t)`` in (0, width), rates increasing."""
    if len(signs) < 2:
        return []

    def evaluate_scaled(t: float) -> float:
        exponents = logs + rates * t
        return float(signs @ np.exp(exponents - exponents.max()))

    steps = rates[1:] - rates[0]
    turning = _find_zeros(signs[1:], logs[1:] - logs[0] + np.log(steps), steps, width)
    points = [0.0, *turning, width]
    zeros = []
    values = [evaluate_scaled(t) for t in points]
    for (a, va), (b, vb) in itertools.pairwise(zip(points, values, strict=True)):
        if va == 0.0 and a > 0:
            zeros.append(a)
        elif va * vb < 0 and b > a:
            zeros.append(float(scipy.optimize.brentq(evaluate_scaled, a, b, xtol=1e-15 * width, rtol=1e-14)))
    return zeros


def _search_grid(coefficients: Values, rates: Values, anchors: Values, low: Values, high: Values) -> Values:
    """Return points of a grid over the box, and the ends of local searches from the lowest of them."""
    dimensions = len(low)
    per_axis = {1: 513, 2: 65, 3: 17, 4: 9}.get(dimensions, 5 if dimensions < 8 else 2)
    # cosine spacing: exponential sums change fastest near the faces
    fractions = 0.5 - 0.5 * np.cos(np.linspace(0.0, math.pi, per_axis))
    axes = [np.minimum(a + (b - a) * fractions, b) for a, b in zip(low, high, strict=True)]
    grid = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, dimensions)

    def value_and_slope(fraction: Values) -> tuple[float, Values]:
        terms = coefficients * np.exp(((low + fraction * (high - low) - anchors) * rates).sum(axis=1))
        return float(terms.sum()), np.asarray(terms @ rates * (high - low))

    values = np.exp(np.einsum("gtj,tj->gt", grid[:, None, :] - anchors, rates)) @ coefficients
    ends = [grid]
    for start in np.argsort(values)[:6]:
        fraction = (grid[start] - low) / (high - low)
        search = scipy.optimize.minimize(
            value_and_slope, fraction, jac=True, method="L-BFGS-B", bounds=[(0, 1)] * dimensions
        )
        ends.append((low + np.clip(search.x, 0, 1) * (high - low))[None])
    return np.concatenate(ends)


EXACT = decimal.Context(prec=60, Emax=decimal.MAX_EMAX, Emin=decimal.MIN_EMIN)
"""Decimals with far more digits and larger exponents than floats, so that published coefficients lose nothing."""
ANY = -1
"""The code of a piece that holds for all states of a discrete column."""

_MOST = 20_000_000
"""A product has at most this many terms and a lookup table this many cells, so that they fit into memory."""
_FEW = 12
"""Up to this many cuts are compared with values one by one, which takes less time than a search."""
_ROUNDING = 4e-15
"""A sum of two rates that is smaller than this share of them is their rounding error."""


@dataclass(frozen=True, eq=False)
class Terms:
    """Pieces and their anchored exponential terms.

    Attributes
    ----------
    sizes : number of states of each discrete column
    limits : upper end of the domain of each continuous column; pieces that end there are closed
    codes : (pieces, discrete); `ANY` for all states
    low, high : (pieces, continuous)
    owner : (terms,) the piece of each term, in increasing order
    coefficient : (terms,)
    magnitude : (terms,)
        Sum of the absolute values that were added up to get the coefficient; times 1e-16, its rounding error.
    rates : (terms, continuous)
    """

    sizes: tuple[int, ...]
    limits: tuple[float, ...]
    codes: Codes
    low: Values
    high: Values
    owner: Codes
    coefficient: Values
    magnitude: Values
    rates: Values

    def __post_init__(self) -> None:
        for name in ("codes", "owner"):
            object.__setattr__(self, name, freeze(getattr(self, name), np.intp))
        for name in ("low", "high", "coefficient", "magnitude", "rates"):
            object.__setattr__(self, name, freeze(getattr(self, name), np.float64))

    def __reduce__(self) -> tuple[type, tuple[Any, ...]]:
        return Terms, tuple(getattr(self, field.name) for field in fields(self))

    @cached_property
    def anchors(self) -> Values:
        """Anchor of each term in each continuous column (terms, continuous); 0 where the rate is zero."""
        return freeze(corner(self.rates, self.low[self.owner], self.high[self.owner]))

    @cached_property
    def starts(self) -> Codes:
        """First term of each piece, then the number of terms (pieces + 1,)."""
        return freeze(np.searchsorted(self.owner, np.arange(len(self.codes) + 1)), np.intp)

    @cached_property
    def cuts(self) -> tuple[Values, ...]:
        """Sorted ends of the pieces along each continuous column, infinite ones included."""
        return tuple(
            freeze(np.unique(np.concatenate([self.low[:, j], self.high[:, j]]))) for j in range(self.low.shape[1])
        )

    @cached_property
    def spans(self) -> tuple[Codes, Codes]:
        """First cell of each piece in each column, and the cell after its last (pieces, columns); discrete columns
        first.
        """
        anything = self.codes == ANY
        first = [np.where(anything, 0, self.codes)]
        last = [np.where(anything, self.sizes, self.codes + 1)]
        for j, cuts in enumerate(self.cuts):
            first.append(np.searchsorted(cuts, self.low[:, j, None]))
            last.append(np.searchsorted(cuts, self.high[:, j, None]))
        return freeze(np.concatenate(first, axis=1), np.intp), freeze(np.concatenate(last, axis=1), np.intp)

    @cached_property
    def dims(self) -> tuple[int, ...]:
        """Number of cells along each column, discrete ones first."""
        return (*self.sizes, *(max(len(cuts) - 1, 0) for cuts in self.cuts))

    @cached_property
    def table(self) -> Codes:
        """The piece of each cell, -1 where there is none."""
        if np.prod(self.dims, dtype=float) > _MOST:
            raise TooWide(f"{len(self.codes)} pieces make a grid of {np.prod(self.dims, dtype=float):.3g} cells")
        table = np.full(self.dims, -1, dtype=np.intp)
        for piece, (first, last) in enumerate(zip(*self.spans, strict=True)):
            table[tuple(slice(a, b) for a, b in zip(first, last, strict=True))] = piece
        return freeze(table)

    def find_cells(self, column: int, values: NDArray[Any]) -> Codes:
        """Return the cell of each value along a column (discrete ones first), -1 outside all of them.

        Cells are [low, high). The last one is closed if it ends at the end of the domain, or if the domain is infinite.
        """
        j = column - len(self.sizes)
        if j < 0:
            return np.where((values >= 0) & (values < self.sizes[column]), values, -1).astype(np.intp)
        cuts = self.cuts[j]
        if len(cuts) < 2:
            return np.full(np.shape(values), -1, dtype=np.intp)
        inner = cuts[1:-1]
        if len(inner) > _FEW:
            cells: Codes = np.searchsorted(inner, values, side="right")
        else:
            cells = sum((values >= cut for cut in inner), np.zeros(np.shape(values), dtype=np.intp))
        closed = self.limits[j] in (np.inf, cuts[-1])
        outside = (values < cuts[0]) | ((values > cuts[-1]) if closed else (values >= cuts[-1]))
        cells[outside] = -1
        return cells

    def mentions(self, column: int) -> bool:
        """Tell whether the function depends on a column (discrete ones first)."""
        if column < len(self.sizes):
            return bool((self.codes[:, column] != ANY).any())
        j = column - len(self.sizes)
        bounded = np.isfinite(self.low[:, j]) | np.isfinite(self.high[:, j])
        return bool(bounded.any() or (self.rates[:, j] != 0).any()) or not len(self.codes)

    def multiply_by(self, factor: float | Values) -> Terms:
        """Return the function times a number >= 0, or its terms times one each."""
        return replace(self, coefficient=self.coefficient * factor, magnitude=self.magnitude * factor)

    def move_columns(self, discrete: list[int | None], continuous: list[int | None], sizes: Any, limits: Any) -> Terms:
        """Return the function over other columns, each a position here, or None if the function does not depend on
        it.
        """

        def take_columns(array: Any, positions: list[int | None], filler: float) -> Any:
            return (
                np.stack([np.full(len(array), filler) if p is None else array[:, p] for p in positions], axis=1)
                if positions
                else np.zeros((len(array), 0))
            )

        ends = (limits[i] if p is None else self.limits[p] for i, p in enumerate(continuous))
        return Terms(
            tuple(sizes),
            tuple(ends),
            take_columns(self.codes, discrete, ANY),
            take_columns(self.low, continuous, -np.inf),
            take_columns(self.high, continuous, np.inf),
            self.owner,
            self.coefficient,
            self.magnitude,
            take_columns(self.rates, continuous, 0.0),
        )

    def drop_column(self, column: int) -> Terms:
        """Return the terms without a column (discrete ones first), on which their values depend no more."""
        j = column - len(self.sizes)
        if j < 0:
            sizes = self.sizes[:column] + self.sizes[column + 1 :]
            return replace(self, sizes=sizes, codes=np.delete(self.codes, column, axis=1))
        low, high, rates = (np.delete(array, j, axis=1) for array in (self.low, self.high, self.rates))
        return replace(self, limits=self.limits[:j] + self.limits[j + 1 :], low=low, high=high, rates=rates)

    def select_pieces(self, pieces: Codes) -> Terms:
        """Return the function on some of its pieces."""
        owner, number = _repeat_items(np.diff(self.starts)[pieces])
        chosen = self.starts[pieces[owner]] + number
        return Terms(
            self.sizes,
            self.limits,
            self.codes[pieces],
            self.low[pieces],
            self.high[pieces],
            owner,
            self.coefficient[chosen],
            self.magnitude[chosen],
            self.rates[chosen],
        )

    def coefficient_at_zero(self, term: int) -> Decimal:
        """Return the coefficient that a term has with its anchor at zero, which may be beyond the range of floats."""
        with decimal.localcontext(EXACT):
            products = (
                Decimal(float(b)) * Decimal(float(a)) for b, a in zip(self.rates[term], self.anchors[term], strict=True)
            )
            exponent = -sum(products, Decimal(0))
            return Decimal(float(self.coefficient[term])) * (exponent.exp() if exponent else 1)

    def total(self) -> tuple[float, float]:
        """Return the integral over all columns, and the sum of the absolute values that were added up."""
        weight = np.ones(len(self.owner))
        for j in range(self.low.shape[1]):
            weight = weight * _integrate_terms(self, j)
        for j, size in enumerate(self.sizes):
            weight = weight * np.where(self.codes[self.owner, j] == ANY, size, 1)
        return float(self.coefficient @ weight), float(self.magnitude @ weight)


def corner(rates: Values, low: Values, high: Values) -> Values:
    """Return where in a box exponentials of these rates are largest; 0 where the rate is zero."""
    return np.where(rates > 0, high, np.where(rates < 0, low, 0.0))


def _integrate_terms(terms: Terms, column: int) -> Values:
    """Return the integral of each term's exponential along a column of its piece; raise where it is infinite."""
    low, high = terms.low[terms.owner, column], terms.high[terms.owner, column]
    widths = integrate_decay(np.abs(terms.rates[:, column]), high - low)
    if np.isinf(widths[terms.coefficient != 0]).any():
        raise NetworkError("the integral is infinite: a piece with an infinite end does not decay there")
    return np.where(terms.coefficient == 0, 0.0, widths)


def _repeat_items(counts: Codes) -> tuple[Codes, Codes]:
    """Return the item of each copy and the number of the copy, for items repeated `counts` times."""
    total = int(counts.sum())
    if total > _MOST:
        raise TooWide(f"the result would have {total:.3g} terms, more than {_MOST:.3g}")
    item = np.repeat(np.arange(len(counts)), counts)
    return item, np.arange(total) - np.repeat(np.cumsum(counts) - counts, counts)


def merge_terms(owner: Codes, numbers: tuple[Values, Values, Values]) -> tuple[Codes, Values, Values, Values]:
    """Add up the terms of each piece whose rates are exactly equal."""
    coefficient, magnitude, rates = numbers
    order = np.lexsort((*rates.T[::-1], owner))
    owner, rates = owner[order], rates[order]
    new = np.ones(len(owner), dtype=bool)
    new[1:] = (owner[1:] != owner[:-1]) | (rates[1:] != rates[:-1]).any(axis=1)
    first = np.flatnonzero(new)
    if not len(first):
        return owner, coefficient, magnitude, rates
    return (
        owner[first],
        np.add.reduceat(coefficient[order], first),
        np.add.reduceat(magnitude[order], first),
        rates[first],
    )


def find_overlaps(left: Terms, right: Terms) -> tuple[Codes, Codes]:
    """Return the pairs of pieces that overlap, as two arrays of piece numbers."""
    size = max(1, 4_000_000 // max(len(right.codes) * max(left.low.shape[1] + len(left.sizes), 1), 1))
    overlaps = []
    for block in slice_blocks(len(left.codes), size):
        overlap = np.ones((len(left.codes[block]), len(right.codes)), dtype=bool)
        for j in range(len(left.sizes)):
            a, b = left.codes[block, j, None], right.codes[None, :, j]
            overlap &= (a == ANY) | (b == ANY) | (a == b)
        for j in range(left.low.shape[1]):
            overlap &= np.maximum(left.low[block, j, None], right.low[None, :, j]) < np.minimum(
                left.high[block, j, None], right.high[None, :, j]
            )
        overlaps.append(np.add(np.nonzero(overlap), [[block.start], [0]]))
    left_pieces, right_pieces = np.concatenate([np.empty((2, 0), dtype=np.intp), *overlaps], axis=1)
    return left_pieces, right_pieces


def multiply(left: Terms, right: Terms) -> Terms:
    """Return the product of two functions of the same columns."""
    i, k = find_overlaps(left, right)
    codes = np.where(left.codes[i] == ANY, right.codes[k], left.codes[i])
    low, high = np.maximum(left.low[i], right.low[k]), np.minimum(left.high[i], right.high[k])
    left_counts, right_counts = np.diff(left.starts)[i], np.diff(right.starts)[k]
    owner, copy = _repeat_items(left_counts * right_counts)
    first = left.starts[i[owner]] + copy // np.maximum(right_counts[owner], 1)
    second = right.starts[k[owner]] + copy % np.maximum(right_counts[owner], 1)
    lower, upper = low[owner], high[owner]
    rates = add_rates(left.rates[first], right.rates[second], upper - lower)
    # any finite point of the box will do as reference where the rates cancel
    point = np.where(np.isfinite(lower), lower, np.where(np.isfinite(upper), upper, 0.0))
    point = np.where(rates == 0, point, corner(rates, lower, upper))
    factor = shift_factor(left.rates[first], point, left.anchors[first]) * shift_factor(
        right.rates[second], point, right.anchors[second]
    )
    (c, m), (d, n) = ((terms.coefficient[t], terms.magnitude[t]) for terms, t in ((left, first), (right, second)))
    # relative errors of factors add up
    magnitude = m * np.abs(d) + np.abs(c) * n - np.abs(c * d)
    numbers = (c * d * factor, magnitude * factor, rates)
    limits = tuple(map(min, left.limits, right.limits))
    return Terms(left.sizes, limits, codes, low, high, *merge_terms(owner, numbers))


def add_rates(left: Values, right: Values, width: Values) -> Values:
    """Add rates; a sum that is only the rounding error of rates that cancel becomes zero."""
    rates = left + right
    with np.errstate(invalid="ignore"):
        rounding = (np.abs(rates) <= _ROUNDING * (np.abs(left) + np.abs(right))) & (np.abs(rates) * width < 1e-12)
    return np.where(rounding, 0.0, rates)


def shift_factor(rates: Values, point: Values, anchors: Values) -> Values:
    """Return the factor that moves terms from their anchors to points; at most 1, as terms are largest at their
    anchors.
    """
    return np.asarray(np.exp((rates * np.where(rates == 0, 0.0, point - anchors)).sum(axis=1)))


def integrate_out(terms: Terms, column: int) -> Terms:
    """Integrate a continuous column out."""
    integrated = terms.multiply_by(_integrate_terms(terms, column))
    return make_disjoint(integrated.drop_column(len(terms.sizes) + column))


def sum_out(terms: Terms, column: int) -> Terms:
    """Sum a discrete column out."""
    times = np.where(terms.codes[terms.owner, column] == ANY, terms.sizes[column], 1)
    return make_disjoint(terms.multiply_by(times).drop_column(column))


def make_disjoint(terms: Terms) -> Terms:
    """Turn overlapping pieces, whose values add up, into disjoint pieces on the grid of all cuts."""
    first, last = terms.spans
    # columns that are not mentioned need no cells
    unmentioned = (terms.codes == ANY).all(axis=0)
    idle = np.append(unmentioned, np.zeros(len(terms.limits), dtype=bool))
    shape = tuple(np.where(idle, 1, np.maximum(terms.dims, 1)).tolist())
    counts = np.where(idle, 1, last) - first
    piece, rest = _repeat_items(counts.prod(axis=1))
    cells = np.empty((len(piece), len(shape)), dtype=np.intp)
    for j in range(len(shape) - 1, -1, -1):
        n = counts[piece, j]
        cells[:, j] = first[piece, j] + rest % n
        rest = rest // n
    if np.prod(shape, dtype=float) > 2.0**62:
        raise TooWide("the result would have too many pieces")
    key = np.ravel_multi_index(tuple(cells.T), shape) if shape else np.zeros(len(piece), dtype=np.intp)
    distinct, first_cells, target = np.unique(key, return_index=True, return_inverse=True)
    chosen = cells[first_cells]
    codes = np.where(unmentioned, ANY, chosen[:, : len(terms.sizes)])
    low, high = np.empty((2, len(distinct), len(terms.limits)))
    for j, cuts in enumerate(terms.cuts):
        cell = chosen[:, len(terms.sizes) + j]
        low[:, j], high[:, j] = cuts[cell], cuts[cell + 1]
    copied_piece, number = _repeat_items(np.diff(terms.starts)[piece])
    source = terms.starts[piece[copied_piece]] + number
    owner, rates = target[copied_piece], terms.rates[source]
    factor = shift_factor(rates, corner(rates, low[owner], high[owner]), terms.anchors[source])
    numbers = (terms.coefficient[source] * factor, terms.magnitude[source] * factor, rates)
    return Terms(terms.sizes, terms.limits, codes, low, high, *merge_terms(owner, numbers))


def fix_column(terms: Terms, column: int, value: float) -> Terms:
    """Fix a column at a value, or a discrete one (these come first) at a code; the column is dropped."""
    first, last = terms.spans
    j = column - len(terms.sizes)
    cell = int(terms.find_cells(column, np.array([value]))[0])
    pieces = np.flatnonzero((first[:, column] <= cell) & (cell < last[:, column])) if cell >= 0 else first[:0, 0]
    held = terms.select_pieces(pieces)
    if j < 0:
        return held.drop_column(column)
    along = slice(j, j + 1)
    factor = shift_factor(held.rates[:, along], np.full((len(held.owner), 1), value), held.anchors[:, along])
    fixed = held.multiply_by(factor).drop_column(column)
    summary = merge_terms(fixed.owner, (fixed.coefficient, fixed.magnitude, fixed.rates))
    return Terms(fixed.sizes, fixed.limits, fixed.codes, fixed.low, fixed.high, *summary)


def clip_column(terms: Terms, column: int, low: float, high: float) -> Terms:
    """Clip pieces to [low, high] along a continuous column; the column stays."""
    held = terms.select_pieces(
        np.flatnonzero(np.maximum(terms.low[:, column], low) < np.minimum(terms.high[:, column], high))
    )
    lower, upper = held.low.copy(), held.high.copy()
    lower[:, column], upper[:, column] = np.maximum(lower[:, column], low), np.minimum(upper[:, column], high)
    factor = shift_factor(held.rates, corner(held.rates, lower[held.owner], upper[held.owner]), held.anchors)
    limits = tuple(min(limit, high) if j == column else limit for j, limit in enumerate(terms.limits))
    return replace(held.multiply_by(factor), limits=limits, low=lower, high=upper)
