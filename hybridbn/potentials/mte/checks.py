"""Checks that pieces form a conditional density: they cover, don't overlap, are not negative, decay, and have mass
one.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from hybridbn.errors import NetworkError, TooWide
from hybridbn.potentials.mte.terms import ANY, Terms, integrate_out, minimize_on_box, multiply, sum_out
from hybridbn.variables import Codes, Continuous, Discrete, Values, Variable

__all__ = [
    "Masses",
    "check_cover",
    "check_masses",
    "check_sign",
    "check_tails",
    "child_column",
    "compute_masses",
    "describe_box",
    "divide_by_masses",
]

_TOLERANCE = 1e-6
"""A conditional mass may differ from one by this much, as published coefficients are rounded."""
_CONSTANT = 1e-9
"""A mass that varies less over a cell of the parents, relative to itself, counts as constant there."""
_NEGATIVE = 1e-12
"""Negative values down to this share of the largest value of a piece count as zero."""
_MOST_CELLS = 50_000_000
"""A grid of more cells is refused, because an array over it would not fit into memory."""


class Masses(NamedTuple):
    """Conditional masses on each cell of the parents, and the range of each mass within its cell."""

    marginal: Terms
    least: Values
    most: Values

    @property
    def error(self) -> float:
        """Largest difference of a mass from one."""
        return float(max(np.abs(self.least - 1).max(initial=0.0), np.abs(self.most - 1).max(initial=0.0)))


def child_column(variables: Sequence[Variable]) -> int:
    """Return the column of the last variable, discrete columns coming first."""
    discrete = sum(isinstance(v, Discrete) for v in variables)
    return discrete - 1 if isinstance(variables[-1], Discrete) else len(variables) - 1


def columns_of(variables: Sequence[Variable]) -> list[Variable]:
    """Return the variables in the order of columns."""
    return [v for v in variables if isinstance(v, Discrete)] + [v for v in variables if isinstance(v, Continuous)]


def describe_box(columns: Sequence[Variable], codes: Sequence[int], low: Sequence[float], high: Sequence[float]) -> str:
    """Describe a combination of states and a box: ``c = 'a', 0.4 <= x < 5``."""
    discrete = [v for v in columns if isinstance(v, Discrete)]
    continuous = [v for v in columns if isinstance(v, Continuous)]
    parts = [f"{v.name} = {v.states[c]!r}" for v, c in zip(discrete, codes, strict=True) if c != ANY]
    for v, a, b in zip(continuous, low, high, strict=True):
        if (a, b) == v.domain or (math.isinf(a) and math.isinf(b)):
            continue
        lower, upper = f"{a:.10g} <= " if math.isfinite(a) else "", f" < {b:.10g}" if math.isfinite(b) else ""
        parts.append(f"{lower}{v.name}{upper}")
    return ", ".join(parts) or "everywhere"


def check_cover(terms: Terms, variables: Sequence[Variable]) -> None:
    """Raise if pieces overlap or there are gaps between them."""
    owner, columns = variables[-1].name, columns_of(variables)
    if np.prod(terms.dims, dtype=float) > _MOST_CELLS:
        raise TooWide(f"{owner!r}: the pieces make a grid of {np.prod(terms.dims, dtype=float):.3g} cells")
    counts = np.zeros(terms.dims, dtype=np.int32)
    for first, last in zip(*terms.spans, strict=True):
        counts[tuple(slice(a, b) for a, b in zip(first, last, strict=True))] += 1

    def describe(cell: Codes) -> str:
        n = len(terms.sizes)
        low = [cuts[c] for cuts, c in zip(terms.cuts, cell[n:], strict=True)]
        high = [cuts[c + 1] for cuts, c in zip(terms.cuts, cell[n:], strict=True)]
        return describe_box(columns, list(cell[:n]), low, high)

    overlaps = np.argwhere(counts > 1)
    if len(overlaps):
        first, last = terms.spans
        inside = ((first <= overlaps[0]) & (overlaps[0] < last)).all(axis=1)
        which = " and ".join(map(str, np.flatnonzero(inside)[:2]))
        raise NetworkError(f"{owner!r}: pieces {which} overlap at {describe(overlaps[0])}; they must not")
    child = child_column(variables)
    gaps = _find_gaps(np.moveaxis(counts > 0, child, -1), len(terms.sizes), isinstance(variables[-1], Discrete))
    if len(gaps):
        cell = np.insert(gaps[0][:-1], child, gaps[0][-1]) if child < len(columns) - 1 else gaps[0]
        raise NetworkError(
            f"{owner!r}: there is a gap between the pieces: none holds at {describe(cell)}; "
            "where the density is zero, add a piece with constant=0"
        )


def _find_gaps(covered: np.ndarray[tuple[int, ...], np.dtype[np.bool_]], discrete: int, discrete_child: bool) -> Codes:
    """Return the cells (child last) that lack a piece.

    Every combination of discrete parents must have pieces. Its continuous parents' cells must fill a box, and in each
    of them the child's pieces must fill an interval; a discrete child must have all of its states.
    """
    configurations = discrete - discrete_child
    wanted = np.zeros_like(covered)
    for configuration in np.ndindex(covered.shape[:configurations]):
        has_piece = covered[configuration]
        if not has_piece.any():
            wanted[configuration] = True
            continue
        anywhere = np.asarray(has_piece.any(axis=-1))
        box = np.ones(anywhere.shape, dtype=bool)
        for axis in range(anywhere.ndim):
            others = tuple(a for a in range(anywhere.ndim) if a != axis)
            used = np.flatnonzero(anywhere.any(axis=others))
            line = np.zeros(anywhere.shape[axis], dtype=bool)
            line[used[0] : used[-1] + 1] = True
            box &= line.reshape([-1 if a == axis else 1 for a in range(anywhere.ndim)])
        if discrete_child:
            wanted[configuration] = box[..., None]
        else:
            before = np.logical_or.accumulate(has_piece, axis=-1)
            after = np.logical_or.accumulate(has_piece[..., ::-1], axis=-1)[..., ::-1]
            wanted[configuration] = (before & after) | (box & ~anywhere)[..., None]
    return np.argwhere(wanted & ~covered)


def check_tails(terms: Terms, variables: Sequence[Variable]) -> None:
    """Raise if a term does not decay where its piece is infinite along the child."""
    child = variables[-1]
    if isinstance(child, Discrete):
        return
    endless = np.isinf(terms.high[:, -1] - terms.low[:, -1])[terms.owner]
    bad = np.flatnonzero(endless & (terms.rates[:, -1] == 0) & (terms.coefficient != 0))
    if len(bad):
        p = terms.owner[bad[0]]
        raise NetworkError(
            f"{child.name!r}, piece {p}: the box [{terms.low[p, -1]:g}, {terms.high[p, -1]:g}) has an infinite end, but"
            f" a term of value {terms.coefficient[bad[0]]:.6g} does not decay along {child.name}; the mass would be"
            " infinite"
        )


def check_sign(terms: Terms, variables: Sequence[Variable]) -> None:
    """Raise if a piece is negative somewhere, beyond rounding and 1e-12 of its largest value."""
    width = (terms.high - terms.low)[terms.owner]
    with np.errstate(invalid="ignore", under="ignore"):
        smallest = np.exp(-np.where(terms.rates == 0, 0.0, np.abs(terms.rates) * width).sum(axis=1))
    bound = np.where(terms.coefficient > 0, terms.coefficient * smallest, terms.coefficient)
    lowest = np.bincount(terms.owner, weights=bound, minlength=len(terms.codes))
    for p in np.flatnonzero(lowest < 0):
        t = slice(terms.starts[p], terms.starts[p + 1])
        least, where, most = minimize_on_box(terms.coefficient[t], terms.rates[t], terms.low[p], terms.high[p])
        if least < -max(_NEGATIVE * abs(most), 1e-15 * float(np.abs(terms.coefficient[t]).sum())):
            columns = columns_of(variables)
            at = ", ".join(f"{v.name} = {x:.6g}" for v, x in zip(columns[len(terms.sizes) :], where, strict=True))
            box = describe_box(columns, list(terms.codes[p]), list(terms.low[p]), list(terms.high[p]))
            raise NetworkError(
                f"{variables[-1].name!r}, piece {p} ({box}) is negative: its minimum is {least:.6g} at "
                f"{at or 'every point'}; a density must not be"
            )


def compute_masses(terms: Terms, variables: Sequence[Variable]) -> Masses:
    """Integrate or sum the child out, and find the range of the result on every cell of the parents."""
    child = child_column(variables)
    discrete = isinstance(variables[-1], Discrete)
    marginal = sum_out(terms, child) if discrete else integrate_out(terms, child - len(terms.sizes))
    least = np.bincount(marginal.owner, marginal.coefficient, len(marginal.codes)).astype(float)
    most = least.copy()
    for p in np.unique(marginal.owner[(marginal.rates != 0).any(axis=1)]):
        t = slice(marginal.starts[p], marginal.starts[p + 1])
        values = _sample_box(marginal.coefficient[t], marginal.rates[t], marginal.low[p], marginal.high[p])
        least[p], most[p] = values.min(), values.max()
    return Masses(marginal, least, most)


def _sample_box(coefficients: Values, rates: Values, low: Values, high: Values) -> Values:
    """Evaluate an anchored sum at the corners and on a grid of its box."""
    moving = np.flatnonzero((rates != 0).any(axis=0))
    points = {1: 33, 2: 9, 3: 5}.get(len(moving), 3 if len(moving) < 7 else 2)
    decays = []
    for j in moving:
        with np.errstate(invalid="ignore", under="ignore"):
            distance = np.where(rates[:, j] > 0, np.linspace(1, 0, points)[:, None], np.linspace(0, 1, points)[:, None])
            exponent = np.abs(rates[:, j]) * (high[j] - low[j]) * distance
            decays.append(np.exp(-np.where((rates[:, j] == 0) | (distance == 0), 0.0, exponent)))
    values = [
        float(np.prod([decay[i] for decay, i in zip(decays, index, strict=True)], axis=0) @ coefficients)
        for index in itertools.product(range(points), repeat=len(moving))
    ]
    return np.array(values)


def check_masses(masses: Masses, variables: Sequence[Variable]) -> None:
    """Raise if a conditional mass differs from one by more than 1e-6."""
    wrong = np.flatnonzero(~(np.maximum(np.abs(masses.least - 1), np.abs(masses.most - 1)) <= _TOLERANCE))
    if len(wrong):
        raise NetworkError(
            f"{variables[-1].name!r}: the mass must be 1 for every configuration of the parents, but it is"
            f" {_list_masses(masses, wrong, variables)}; normalize=True makes it 1, normalize=None keeps the pieces as"
            " given"
        )


def _list_masses(masses: Masses, cells: Codes, variables: Sequence[Variable]) -> str:
    columns = [v for v in columns_of(variables) if v.name != variables[-1].name]
    parts = []
    for p in cells[:6]:
        least, most = masses.least[p], masses.most[p]
        value = _format_mass(least) if most - least <= _CONSTANT * abs(most) else f"{least:.4g} to {most:.4g}"
        marginal = masses.marginal
        where = describe_box(columns, list(marginal.codes[p]), list(marginal.low[p]), list(marginal.high[p]))
        parts.append(value if not columns else f"{value} for {where}" if where != "everywhere" else value)
    return "; ".join(parts) + (f"; ... ({len(cells)} cells in all)" if len(cells) > 6 else "")


def _format_mass(mass: float) -> str:
    return f"{mass:.3g}" if abs(mass - 1) > 0.01 else f"1{mass - 1:+.3g}"


def divide_by_masses(terms: Terms, variables: Sequence[Variable], masses: Masses) -> Terms:
    """Divide by the mass of each cell of the parents; raise where it is zero or varies within a cell."""
    owner = variables[-1].name
    wrong = np.flatnonzero(~(masses.least > 0))
    if len(wrong) or not len(masses.least):
        raise NetworkError(f"{owner!r} can't be normalized: its mass is {_list_masses(masses, wrong, variables) or 0}")
    wrong = np.flatnonzero(masses.most - masses.least > _CONSTANT * masses.most)
    if len(wrong):
        raise NetworkError(
            f"{owner!r} can't be normalized as an MTE: the mass varies with the parents within a cell: "
            f"{_list_masses(masses, wrong, variables)}"
        )
    if np.ptp(masses.most) <= 4e-16:
        return terms if abs(masses.most[0] - 1) <= 4e-16 else terms.multiply_by(1.0 / float(masses.most[0]))
    marginal, child = masses.marginal, child_column(variables)
    inverse = marginal.replace_arrays(
        owner=np.arange(len(marginal.codes)),
        coefficient=1.0 / masses.most,
        magnitude=1.0 / masses.most,
        rates=np.zeros((len(marginal.codes), marginal.low.shape[1])),
    )
    n = len(terms.sizes)
    discrete: list[int | None] = list(range(len(marginal.sizes)))
    continuous: list[int | None] = list(range(len(marginal.limits)))
    if child < n:
        discrete.insert(child, None)
    else:
        continuous.insert(child - n, None)
    return multiply(terms, inverse.move_columns(discrete, continuous, terms.sizes, terms.limits))
