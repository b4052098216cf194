"""Sums of exponentials on boxes as plain arrays, and their algebra: product, sum, integral, restriction.

A `Terms` is a function of some discrete and some continuous columns (columns have positions, not names). It consists of
pieces, each for one combination of codes and one box, and of terms that belong to pieces. A term is *anchored*: it stands for
``coefficient * exp(sum_j rate_j (z_j - anchor_j))``, the anchor being the corner of the piece where the term is largest. So
coefficients are of the size of the function, nothing overflows, and rates near zero lose no digits.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from hybridbn.errors import NetworkError, TooWide
from hybridbn.potentials.base import freeze
from hybridbn.potentials.mte.exponentials import decay_integral
from hybridbn.variables import Codes, Values

__all__ = [
    "ANY",
    "Terms",
    "add_rates",
    "clip_column",
    "corner",
    "find_overlaps",
    "fix_column",
    "integrate_out",
    "make_disjoint",
    "merge_terms",
    "multiply",
    "shift_factor",
    "sum_out",
]

ANY = -1
"""The code of a piece that holds for all states of a discrete column."""

_MOST = 20_000_000  # terms in a product, cells in a lookup table
_ROUNDING = 4e-15  # a rate that is this small beside the two rates it is the sum of is their rounding error


@dataclass(frozen=True, eq=False)
class Terms:
    """Pieces and their anchored exponential terms.

    Attributes
    ----------
    sizes : number of states of each discrete column
    limits : upper end of the domain of each continuous column; pieces that end there are closed
    codes : (pieces, discrete); `ANY` for all states
    low, high : (pieces, continuous)
    owner : (terms,) the piece of each term, never decreasing
    coefficient : (terms,)
    magnitude : (terms,)
        Sum of the absolute values of everything that was added up to get the coefficient: times 1e-16, its rounding error.
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
        return Terms, (self.sizes, self.limits, self.codes, self.low, self.high, self.owner, *self._numbers())

    def _numbers(self) -> tuple[Values, Values, Values]:
        return self.coefficient, self.magnitude, self.rates

    @cached_property
    def anchors(self) -> Values:
        """Anchor of each term in each continuous column (terms, continuous); 0 where the rate is zero."""
        return freeze(corner(self.rates, self.low[self.owner], self.high[self.owner]))

    @cached_property
    def starts(self) -> Codes:
        """First term of each piece, and the number of terms (pieces + 1,)."""
        return freeze(np.searchsorted(self.owner, np.arange(len(self.codes) + 1)), np.intp)

    @cached_property
    def cuts(self) -> tuple[Values, ...]:
        """Where pieces begin or end, for each continuous column; sorted, infinite ends included."""
        return tuple(
            freeze(np.unique(np.concatenate([self.low[:, j], self.high[:, j]]))) for j in range(self.low.shape[1])
        )

    @cached_property
    def spans(self) -> tuple[Codes, Codes]:
        """First cell of each piece, and the one after its last, in each column, discrete ones first (pieces, columns)."""
        first, last = [], []
        for j, size in enumerate(self.sizes):
            anything = self.codes[:, j] == ANY
            first.append(np.where(anything, 0, self.codes[:, j]))
            last.append(np.where(anything, size, self.codes[:, j] + 1))
        for j, cuts in enumerate(self.cuts):
            first.append(np.searchsorted(cuts, self.low[:, j]))
            last.append(np.searchsorted(cuts, self.high[:, j]))
        shape = (len(self.codes), len(self.sizes) + len(self.cuts))
        return (
            freeze(np.stack(first, axis=1) if first else np.zeros(shape), np.intp),
            freeze(np.stack(last, axis=1) if last else np.zeros(shape), np.intp),
        )

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

    def cell(self, column: int, values: Values) -> Codes:
        """Return the cell of each value along a continuous column, -1 outside all of them.

        Cells are [low, high). The last is closed where it ends the domain, or where the domain doesn't end.
        """
        cuts = self.cuts[column]
        if len(cuts) < 2:
            return np.full(np.shape(values), -1, dtype=np.intp)
        inner = cuts[1:-1]
        cells = np.searchsorted(inner, values, side="right") if len(inner) > 12 else _count_cuts_below(inner, values)
        closed = self.limits[column] in (np.inf, cuts[-1])
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

    def scaled(self, factor: float) -> Terms:
        """Return the function times a number >= 0."""
        return self.replaced(coefficient=self.coefficient * factor, magnitude=self.magnitude * factor)

    def replaced(self, **arrays: Any) -> Terms:
        """Return the same with other arrays."""
        names = ("sizes", "limits", "codes", "low", "high", "owner", "coefficient", "magnitude", "rates")
        return Terms(**{name: arrays.get(name, getattr(self, name)) for name in names})

    def columns(self, discrete: list[int | None], continuous: list[int | None], sizes: Any, limits: Any) -> Terms:
        """Return the same function of other columns; None stands for a column that it does not depend on."""

        def chosen(array: Any, positions: list[int | None], filler: float) -> Any:
            return (
                np.stack([np.full(len(array), filler) if p is None else array[:, p] for p in positions], axis=1)
                if positions
                else np.zeros((len(array), 0))
            )

        ends = (limits[i] if p is None else self.limits[p] for i, p in enumerate(continuous))
        return Terms(
            tuple(sizes), tuple(ends), chosen(self.codes, discrete, ANY), chosen(self.low, continuous, -np.inf),
            chosen(self.high, continuous, np.inf), self.owner, self.coefficient, self.magnitude,
            chosen(self.rates, continuous, 0.0),
        )  # fmt: skip

    def total(self) -> tuple[float, float]:
        """Return the integral over all columns, and the sum of absolute values that it was added up from."""
        weight = np.ones(len(self.owner))
        for j in range(self.low.shape[1]):
            weight = weight * _integrate_terms(self, j)
        for j, size in enumerate(self.sizes):
            weight = weight * np.where(self.codes[self.owner, j] == ANY, size, 1)
        return float(self.coefficient @ weight), float(self.magnitude @ weight)


def corner(rates: Values, low: Values, high: Values) -> Values:
    """Return where in a box exponentials of these rates are largest; 0 where the rate is zero."""
    return np.where(rates > 0, high, np.where(rates < 0, low, 0.0))


def _count_cuts_below(inner: Values, values: Values) -> Codes:
    cells = np.zeros(np.shape(values), dtype=np.intp)
    for cut in inner:
        cells += values >= cut
    return cells


def _integrate_terms(terms: Terms, column: int) -> Values:
    """Integral of each term's exponential along a column of its piece, refusing what is infinite."""
    low, high = terms.low[terms.owner, column], terms.high[terms.owner, column]
    widths = decay_integral(np.abs(terms.rates[:, column]), high - low)
    if np.isinf(widths[terms.coefficient != 0]).any():
        raise NetworkError("the integral is infinite: a piece with an infinite end does not decay there")
    return np.where(terms.coefficient == 0, 0.0, widths)


def _repeat_items(counts: Codes) -> tuple[Codes, Codes]:
    """Return, for items repeated `counts` times, the item of each copy and the copy's number."""
    total = int(counts.sum())
    if total > _MOST:
        raise TooWide(f"the result would have {total:.3g} terms, more than {_MOST:.3g}")
    item = np.repeat(np.arange(len(counts)), counts)
    return item, np.arange(total) - np.repeat(np.cumsum(counts) - counts, counts)


def merge_terms(owner: Codes, numbers: tuple[Values, Values, Values]) -> tuple[Codes, Values, Values, Values]:
    """Add up the terms with equal exponents of each piece; equal means equal, near is left alone."""
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


def find_overlaps(one: Terms, two: Terms) -> tuple[Codes, Codes]:
    """Return which pieces overlap, as two arrays of piece numbers."""
    size = max(1, 4_000_000 // max(len(two.codes) * max(one.low.shape[1] + len(one.sizes), 1), 1))
    found = []
    for start in range(0, len(one.codes), size):
        part = slice(start, start + size)
        meet = np.ones((len(one.codes[part]), len(two.codes)), dtype=bool)
        for j in range(len(one.sizes)):
            a, b = one.codes[part, j, None], two.codes[None, :, j]
            meet &= (a == ANY) | (b == ANY) | (a == b)
        for j in range(one.low.shape[1]):
            meet &= np.maximum(one.low[part, j, None], two.low[None, :, j]) < np.minimum(
                one.high[part, j, None], two.high[None, :, j]
            )
        i, k = np.nonzero(meet)
        found.append((i + start, k))
    empty = np.zeros(0, dtype=np.intp)
    return (np.concatenate([i for i, _ in found] or [empty]), np.concatenate([k for _, k in found] or [empty]))


def multiply(one: Terms, two: Terms) -> Terms:
    """Return the product of two functions of the same columns."""
    i, k = find_overlaps(one, two)
    codes = np.where(one.codes[i] == ANY, two.codes[k], one.codes[i])
    low, high = np.maximum(one.low[i], two.low[k]), np.minimum(one.high[i], two.high[k])
    ones, twos = np.diff(one.starts)[i], np.diff(two.starts)[k]
    owner, copy = _repeat_items(ones * twos)
    first = one.starts[i[owner]] + copy // np.maximum(twos[owner], 1)
    second = two.starts[k[owner]] + copy % np.maximum(twos[owner], 1)
    lower, upper = low[owner], high[owner]
    rates = add_rates(one.rates[first], two.rates[second], upper - lower)
    # any finite point of the box will do as reference where the rates cancel
    point = np.where(np.isfinite(lower), lower, np.where(np.isfinite(upper), upper, 0.0))
    point = np.where(rates == 0, point, corner(rates, lower, upper))
    factor = shift_factor(one.rates[first], point, one.anchors[first]) * shift_factor(
        two.rates[second], point, two.anchors[second]
    )
    (c, m), (d, n) = ((terms.coefficient[t], terms.magnitude[t]) for terms, t in ((one, first), (two, second)))
    # relative errors of factors add up
    magnitude = m * np.abs(d) + np.abs(c) * n - np.abs(c * d)
    numbers = (c * d * factor, magnitude * factor, rates)
    limits = tuple(map(min, one.limits, two.limits))
    return Terms(one.sizes, limits, codes, low, high, *merge_terms(owner, numbers))


def add_rates(one: Values, two: Values, width: Values) -> Values:
    """Add rates; a sum that is nothing but the rounding error of rates that cancel is zero."""
    rates = one + two
    with np.errstate(invalid="ignore"):
        rounding = (np.abs(rates) <= _ROUNDING * (np.abs(one) + np.abs(two))) & (np.abs(rates) * width < 1e-12)
    return np.where(rounding, 0.0, rates)


def shift_factor(rates: Values, point: Values, anchors: Values) -> Values:
    """Return the factor that moves terms from one anchor to another; at most 1, since anchors are where terms peak."""
    with np.errstate(under="ignore"):
        return np.asarray(np.exp((rates * np.where(rates == 0, 0.0, point - anchors)).sum(axis=1)))


def integrate_out(terms: Terms, column: int) -> Terms:
    """Integrate a continuous column out."""
    widths = _integrate_terms(terms, column)
    result = Terms(
        terms.sizes, _drop_item(terms.limits, column), terms.codes, np.delete(terms.low, column, axis=1),
        np.delete(terms.high, column, axis=1), terms.owner, terms.coefficient * widths, terms.magnitude * widths,
        np.delete(terms.rates, column, axis=1),
    )  # fmt: skip
    return make_disjoint(result)


def sum_out(terms: Terms, column: int) -> Terms:
    """Sum a discrete column out."""
    times = np.where(terms.codes[terms.owner, column] == ANY, terms.sizes[column], 1)
    result = terms.replaced(
        sizes=_drop_item(terms.sizes, column), codes=np.delete(terms.codes, column, axis=1),
        coefficient=terms.coefficient * times, magnitude=terms.magnitude * times,
    )  # fmt: skip
    return make_disjoint(result)


def _drop_item(items: tuple[Any, ...], position: int) -> tuple[Any, ...]:
    return items[:position] + items[position + 1 :]


def make_disjoint(terms: Terms) -> Terms:
    """Turn pieces that may overlap, and then add up, into disjoint ones on the grid of all cuts."""
    first, last = terms.spans
    dims = list(terms.dims)
    for j in range(len(terms.sizes)):
        if (terms.codes[:, j] == ANY).all():  # the column is not mentioned: it needs no cells
            last = last.copy()
            last[:, j] = 1
            dims[j] = 0
    counts = last - first
    piece, rest = _repeat_items(counts.prod(axis=1))
    cells = np.empty((len(piece), len(dims)), dtype=np.intp)
    for j in range(len(dims) - 1, -1, -1):
        n = counts[piece, j]
        cells[:, j] = first[piece, j] + rest % n
        rest = rest // n
    if np.prod([max(d, 1) for d in dims], dtype=float) > 2.0**62:
        raise TooWide("the result would have too many pieces")
    shape = tuple(max(d, 1) for d in dims)
    key = np.ravel_multi_index(tuple(cells.T), shape) if dims else np.zeros(len(piece), dtype=np.intp)
    distinct, at, target = np.unique(key, return_index=True, return_inverse=True)
    chosen = cells[at]
    codes = chosen[:, : len(terms.sizes)].copy()
    for j in range(len(terms.sizes)):
        if dims[j] == 0:
            codes[:, j] = ANY
    low, high = np.empty((2, len(distinct), len(terms.limits)))
    for j, cuts in enumerate(terms.cuts):
        place = chosen[:, len(terms.sizes) + j]
        low[:, j], high[:, j] = cuts[place], cuts[place + 1]
    copied, number = _repeat_items(np.diff(terms.starts)[piece])
    source = terms.starts[piece[copied]] + number
    owner, rates = target[copied], terms.rates[source]
    factor = shift_factor(rates, corner(rates, low[owner], high[owner]), terms.anchors[source])
    numbers = (terms.coefficient[source] * factor, terms.magnitude[source] * factor, rates)
    return Terms(terms.sizes, terms.limits, codes, low, high, *merge_terms(owner, numbers))


def _select_terms(terms: Terms, pieces: Codes) -> tuple[Codes, Codes]:
    """Return the terms of some pieces, and their new owners."""
    owner, number = _repeat_items(np.diff(terms.starts)[pieces])
    return terms.starts[pieces[owner]] + number, owner


def fix_column(terms: Terms, column: int, value: float) -> Terms:
    """Put in a value for a column (discrete ones first, by code), which is a column no more."""
    first, last = terms.spans
    j = column - len(terms.sizes)
    cell = int(value) if j < 0 else int(terms.cell(j, np.array([value]))[0])
    pieces = np.flatnonzero((first[:, column] <= cell) & (cell < last[:, column])) if cell >= 0 else first[:0, 0]
    chosen, owner = _select_terms(terms, pieces)
    if j < 0:
        return Terms(
            _drop_item(terms.sizes, column), terms.limits, np.delete(terms.codes[pieces], column, axis=1),
            terms.low[pieces], terms.high[pieces], owner, *(array[chosen] for array in terms._numbers()),
        )  # fmt: skip
    factor = shift_factor(
        terms.rates[chosen, j : j + 1], np.full((len(chosen), 1), value), terms.anchors[chosen, j : j + 1]
    )
    numbers = (
        terms.coefficient[chosen] * factor, terms.magnitude[chosen] * factor, np.delete(terms.rates[chosen], j, axis=1)
    )  # fmt: skip
    return Terms(
        terms.sizes, _drop_item(terms.limits, j), terms.codes[pieces], np.delete(terms.low[pieces], j, axis=1),
        np.delete(terms.high[pieces], j, axis=1), *merge_terms(owner, numbers),
    )  # fmt: skip


def clip_column(terms: Terms, column: int, low: float, high: float) -> Terms:
    """Keep what lies within [low, high] of a continuous column; the column stays."""
    lower, upper = terms.low.copy(), terms.high.copy()
    lower[:, column], upper[:, column] = np.maximum(lower[:, column], low), np.minimum(upper[:, column], high)
    pieces = np.flatnonzero(lower[:, column] < upper[:, column])
    chosen, owner = _select_terms(terms, pieces)
    lower, upper, rates = lower[pieces], upper[pieces], terms.rates[chosen]
    factor = shift_factor(rates, corner(rates, lower[owner], upper[owner]), terms.anchors[chosen])
    limits = tuple(min(limit, high) if j == column else limit for j, limit in enumerate(terms.limits))
    return Terms(
        terms.sizes, limits, terms.codes[pieces], lower, upper, owner,
        terms.coefficient[chosen] * factor, terms.magnitude[chosen] * factor, rates,
    )  # fmt: skip
