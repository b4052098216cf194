"""The pieces that users write an MTE with, and terms as pieces, as printed formulas and as dictionaries for files.

Pieces form a conditional density if they cover, don't overlap, are not negative, decay, and have mass one; that is
checked here, too.
"""

from __future__ import annotations

import decimal
import itertools
import math
import numbers
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from hybridbn.errors import NetworkError, TableError, TooWide
from hybridbn.potentials.mte.terms import (
    ANY,
    EXACT,
    Terms,
    integrate_out,
    merge_terms,
    minimize_on_box,
    multiply,
    sum_out,
)
from hybridbn.variables import Codes, Continuous, Discrete, Values, Variable, plain_state, shorten

TOLERANCE = 1e-6
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


Factors = tuple[tuple[Variable, ...], tuple[Terms, ...]]
"""Variables (the child last), and the blocks over the columns of these variables whose product the function is."""


def widen(factors: Factors, variables: Sequence[Variable]) -> list[Terms]:
    """Return the blocks over the columns of more variables, or of the same variables in another order."""
    old, new = columns_of(factors[0]), columns_of(variables)
    names = [v.name for v in old]
    count = sum(isinstance(v, Discrete) for v in old)
    positions = [names.index(v.name) if v.name in names else None for v in new]
    discrete = [p for p, v in zip(positions, new, strict=True) if isinstance(v, Discrete)]
    continuous = [
        None if p is None else p - count for p, v in zip(positions, new, strict=True) if isinstance(v, Continuous)
    ]
    sizes = [len(v) for v in new if isinstance(v, Discrete)]
    limits = [v.domain[1] for v in new if isinstance(v, Continuous)]
    return [block.move_columns(discrete, continuous, sizes, limits) for block in factors[1]]


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
    with np.errstate(invalid="ignore"):
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
        with np.errstate(invalid="ignore"):
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
    wrong = np.flatnonzero(~(np.maximum(np.abs(masses.least - 1), np.abs(masses.most - 1)) <= TOLERANCE))
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
        mass = f"{least:.3g}" if abs(least - 1) > 0.01 else f"1{least - 1:+.3g}"
        value = mass if most - least <= _CONSTANT * abs(most) else f"{least:.4g} to {most:.4g}"
        marginal = masses.marginal
        where = describe_box(columns, list(marginal.codes[p]), list(marginal.low[p]), list(marginal.high[p]))
        parts.append(value if not columns else f"{value} for {where}" if where != "everywhere" else value)
    return "; ".join(parts) + (f"; ... ({len(cells)} cells in all)" if len(cells) > 6 else "")


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
    marginal = masses.marginal
    inverse = replace(
        marginal,
        owner=np.arange(len(marginal.codes)),
        coefficient=1.0 / masses.most,
        magnitude=1.0 / masses.most,
        rates=np.zeros((len(marginal.codes), marginal.low.shape[1])),
    )
    return multiply(terms, *widen((tuple(variables[:-1]), (inverse,)), variables))


Number: TypeAlias = float | Decimal | str
"""A number; text and `decimal.Decimal` are read exactly, beyond the range of floats too."""


@dataclass(frozen=True)
class Piece:
    """One piece of an MTE: on a box, a constant plus exponential terms.

    Parameters
    ----------
    box : mapping from continuous variables to (low, high), optional
        A variable that is absent ranges over its whole domain. Ends may be infinite where the terms decay.
    given : mapping from discrete variables to a state, optional
        A variable that is absent may have any state. The state of a discrete child stands here too.
    constant : number
    terms : sequence of (coefficient, {variable: rate}) or (coefficient, {variable: rate}, {variable: anchor})
        Stands for ``coefficient * exp(sum of rate * (variable - anchor))``; an anchor that is not given is zero.

    Every number may be an int or float, a `decimal.Decimal`, or text such as ``"8.81e+1302883"``: the two last are
    read exactly, so that coefficients may lie beyond the range of floats.

    Examples
    --------
    >>> Piece(box={"x": (0, 13)}, constant=1.26, terms=[(-1.15, {"x": 0.006})])
    Piece(box={'x': (0, 13)}, constant=1.26, terms=((-1.15, {'x': 0.006}),))
    """

    box: Mapping[str, tuple[Number, Number]] = field(default_factory=dict)
    given: Mapping[str, Any] = field(default_factory=dict)
    constant: Number = 0.0
    terms: Sequence[Any] = ()

    def __post_init__(self) -> None:
        for name in ("box", "given"):
            value = getattr(self, name)
            if not isinstance(value, Mapping):
                raise NetworkError(f"a piece's {name} must be a mapping from variables' names, not {value!r}")
            object.__setattr__(self, name, MappingProxyType(dict(value)))
        for name, ends in self.box.items():
            if not isinstance(ends, tuple | list) or len(ends) != 2:
                raise NetworkError(f"a piece's box must give (low, high) for {name!r}, not {ends!r}")
            read_exactly(ends[0], f"the low end of {name!r}", infinite=True)
            read_exactly(ends[1], f"the high end of {name!r}", infinite=True)
        read_exactly(self.constant, "a piece's constant")
        terms = []
        for term in self.terms:
            if not isinstance(term, tuple | list) or len(term) not in (2, 3):
                raise NetworkError(f"a term is (coefficient, {{variable: rate}}), not {term!r}")
            read_exactly(term[0], "a term's coefficient")
            for what, mapping in zip(("rate", "anchor"), term[1:], strict=False):
                if not isinstance(mapping, Mapping):
                    raise NetworkError(f"a term's {what}s must be a mapping from variables' names, not {mapping!r}")
                for name, value in mapping.items():
                    read_exactly(value, f"the {what} of {name!r}")
            terms.append((term[0], *(dict(mapping) for mapping in term[1:])))
        object.__setattr__(self, "terms", tuple(terms))

    def __reduce__(self) -> tuple[type, tuple[Any, ...]]:
        return Piece, (dict(self.box), dict(self.given), self.constant, self.terms)

    def __hash__(self) -> int:
        return hash((tuple(self.box.items()), tuple(self.given.items()), self.constant, len(self.terms)))

    def __repr__(self) -> str:
        parts = [f"box={dict(self.box)}"] if self.box else []
        parts += [f"given={dict(self.given)}"] if self.given else []
        parts += [f"constant={self.constant!r}"] if self.constant or not self.terms else []
        parts += [f"terms={self.terms!r}"] if self.terms else []
        return f"Piece({', '.join(parts)})"


def read_exactly(value: Any, what: str, infinite: bool = False) -> Decimal:
    """Return a number as an exact decimal; raise if it is no number, or if it is infinite unless `infinite`."""
    value = plain_state(value)
    try:
        if isinstance(value, bool) or not isinstance(value, numbers.Real | Decimal | str):
            raise TypeError
        number = EXACT.create_decimal(value if isinstance(value, int | float | Decimal | str) else float(value))
    except (TypeError, ValueError, decimal.InvalidOperation):
        raise NetworkError(f"{what} must be a number, not {value!r}") from None
    if number.is_nan() or (number.is_infinite() and not infinite):
        raise NetworkError(f"{what} must be finite, not {value!r}")
    return number


def compile_pieces(variables: Sequence[Variable], pieces: Sequence[Piece], owner: str) -> Terms:
    """Turn pieces into anchored terms, in decimal arithmetic where floats would lose digits.

    Parameters
    ----------
    variables : discrete and continuous ones, in the order of their columns
    owner : the child's name, for messages
    """
    discrete = [v for v in variables if isinstance(v, Discrete)]
    continuous = [v for v in variables if isinstance(v, Continuous)]
    codes = np.full((len(pieces), len(discrete)), ANY, dtype=np.intp)
    low, high = np.empty((2, len(pieces), len(continuous)))
    found: list[tuple[int, float, list[float]]] = []
    for number, piece in enumerate(pieces):
        where = f"{owner!r}, piece {number}"
        if not isinstance(piece, Piece):
            raise NetworkError(f"{where}: {piece!r} is not a Piece")
        _check_names(piece, discrete, continuous, where)
        for j, state_variable in enumerate(discrete):
            if state_variable.name in piece.given:
                codes[number, j] = _code_of(state_variable, piece.given[state_variable.name], where)
        for j, variable in enumerate(continuous):
            low[number, j], high[number, j] = _check_range(variable, piece, where)
        for exponents, coefficient, shifts in _decimal_terms(piece, [v.name for v in continuous], where):
            anchored = _anchor_coefficient(exponents, coefficient, shifts, low[number], high[number], continuous, where)
            found.append((number, anchored, list(map(float, exponents))))
    owners = np.array([owner for owner, _, _ in found], dtype=np.intp)
    values = np.array([value for _, value, _ in found], dtype=float)
    rates = np.array([rates for _, _, rates in found], dtype=float).reshape(len(found), len(continuous))
    sizes, limits = tuple(len(v) for v in discrete), tuple(v.domain[1] for v in continuous)
    return Terms(sizes, limits, codes, low, high, *merge_terms(owners, (values, np.abs(values), rates)))


def _check_names(piece: Piece, discrete: Sequence[Discrete], continuous: Sequence[Continuous], where: str) -> None:
    names = {v.name for v in continuous}
    states = {v.name for v in discrete}
    for what, used, known, hint in (
        ("box", piece.box, names, "the state of a discrete variable stands in `given`"),
        ("given", piece.given, states, "the range of a continuous variable stands in `box`"),
        (
            "terms",
            {name for term in piece.terms for part in term[1:] for name in part},
            names,
            "only continuous variables have rates",
        ),
    ):
        unknown = [name for name in used if name not in known]
        if unknown:
            raise NetworkError(
                f"{where}: {what} mentions {shorten(unknown)}; the {'discrete' if what == 'given' else 'continuous'}"
                f" variables here are {shorten(sorted(known)) or 'none'} ({hint})"
            )


def _code_of(variable: Discrete, state: Any, where: str) -> int:
    try:
        code = variable.code(state)
    except TableError as error:
        raise NetworkError(f"{where}: {error}") from None
    if code < 0:
        raise NetworkError(f"{where}: the state of {variable.name!r} is missing; leave it out to mean all states")
    return code


def _check_range(variable: Continuous, piece: Piece, where: str) -> tuple[float, float]:
    if variable.name not in piece.box:
        return variable.domain
    low, high = (float(read_exactly(end, "", infinite=True)) for end in piece.box[variable.name])
    if not low < high or low == math.inf or high == -math.inf:
        raise NetworkError(f"{where}: the box of {variable.name!r} is [{low}, {high}); low must be less than high")
    if low < variable.domain[0] or high > variable.domain[1]:
        raise NetworkError(
            f"{where}: the box of {variable.name!r} is [{low}, {high}), but its domain only {variable.domain}"
        )
    return low, high


def _decimal_terms(
    piece: Piece, names: Sequence[str], where: str
) -> list[tuple[list[Decimal], Decimal, list[Decimal]]]:
    """Return (rates, coefficient, anchors) of each term and the constant; equal exponents are added up, zeros
    dropped.
    """
    zero = Decimal(0)
    sums: dict[tuple[Decimal, ...], Decimal] = {}
    with decimal.localcontext(EXACT):
        for coefficient, exponents, *anchors in [(piece.constant, {}), *piece.terms]:
            given = anchors[0] if anchors else {}
            for name in given:
                if name not in exponents:
                    raise NetworkError(f"{where}: a term has an anchor for {name!r}, but no rate")
            rates = [read_exactly(exponents[name], "") if name in exponents else zero for name in names]
            shifts = [read_exactly(given[name], "") if name in given else zero for name in names]
            shifts = [shift if rate else zero for rate, shift in zip(rates, shifts, strict=True)]
            key = (*rates, *shifts)
            sums[key] = sums.get(key, zero) + read_exactly(coefficient, "")
    n = len(names)
    return [(list(key[:n]), coefficient, list(key[n:])) for key, coefficient in sums.items() if coefficient]


def _anchor_coefficient(
    rates: Sequence[Decimal],
    coefficient: Decimal,
    shifts: Sequence[Decimal],
    low: Any,
    high: Any,
    variables: Sequence[Continuous],
    where: str,
) -> float:
    """Return the value of a term at the corner of its piece where it is largest."""
    with decimal.localcontext(EXACT):
        exponent = Decimal(0)
        for rate, shift, a, b, variable in zip(rates, shifts, low, high, variables, strict=True):
            end = b if rate > 0 else a
            if rate and math.isinf(end):
                raise NetworkError(
                    f"{where}: the box of {variable.name!r} ends at {end}, where the term {_format_short(coefficient)} "
                    f"exp({_format_short(rate)} {variable.name}) does not decay"
                )
            if rate:
                exponent += rate * (Decimal(float(end)) - shift)
        value = float(coefficient * exponent.exp() if exponent else coefficient)
    if math.isinf(value):
        raise NetworkError(
            f"{where}: the term with coefficient {_format_short(coefficient)} is {_format_short(coefficient)} *"
            f" exp({float(exponent):.6g}) in a corner of its box, beyond the range of floats"
        )
    return value


def _format_short(number: Decimal) -> str:
    return f"{number:.6g}"


def pieces_of(terms: Terms, discrete: Sequence[Discrete], continuous: Sequence[Continuous]) -> tuple[Piece, ...]:
    """Return terms as pieces, every term with its anchor."""
    pieces = []
    for p in range(len(terms.codes)):
        given = {v.name: v.states[c] for v, c in zip(discrete, terms.codes[p], strict=True) if c != ANY}
        box = {
            v.name: (float(a), float(b))
            for v, a, b in zip(continuous, terms.low[p], terms.high[p], strict=True)
            if math.isfinite(a) or math.isfinite(b)
        }
        constant, exponentials = 0.0, []
        for t in range(terms.starts[p], terms.starts[p + 1]):
            nonzero = np.flatnonzero(terms.rates[t]).tolist()
            if not nonzero:
                constant += float(terms.coefficient[t])
                continue
            rates = {continuous[j].name: float(terms.rates[t, j]) for j in nonzero}
            anchors = {continuous[j].name: float(terms.anchors[t, j]) for j in nonzero}
            exponentials.append((float(terms.coefficient[t]), rates, anchors))
        pieces.append(Piece(box, given, constant, tuple(exponentials)))
    return tuple(pieces)


_MOST_PIECES, _MOST_TERMS = 8, 8
"""A formula shows at most this many pieces, and terms of each, so that it fits on a screen."""
_LARGEST, _SMALLEST = Decimal("1e9"), Decimal("1e-9")
"""Coefficients beyond these are written with an anchor, because six digits say little about them."""


def format_formula(terms: Terms, columns: Sequence[Variable], head: str) -> str:
    """Return the pieces as lines of text, each with its terms and its box.

    Coefficients have six digits, and are those of terms anchored at zero, as in papers; where that makes them very
    large or very small, a term is written with its anchor, as ``2.1 exp(50 (x - 20))``.
    """
    names = [v.name for v in columns if isinstance(v, Continuous)]
    shown = range(min(len(terms.codes), _MOST_PIECES))
    lines = [_format_sum(terms, p, names) for p in shown]
    boxes = [describe_box(columns, list(terms.codes[p]), list(terms.low[p]), list(terms.high[p])) for p in shown]
    width = min(max((len(line) for line in lines), default=0), 60)
    body = [f"  {line:<{width}}  if {box}" for line, box in zip(lines, boxes, strict=True)]
    if len(terms.codes) > len(shown):
        body.append(f"  ... ({len(terms.codes)} pieces in all)")
    return "\n".join([f"{head} =", *body]) if body else f"{head} = 0"


def _format_sum(terms: Terms, piece: int, names: Sequence[str]) -> str:
    positions = list(range(terms.starts[piece], terms.starts[piece + 1]))
    positions.sort(key=lambda i: bool(terms.rates[i].any()))  # the constant first
    text = ""
    for i in positions[:_MOST_TERMS]:
        number, exponential = _format_term(terms, i, names)
        magnitude = f"{abs(number):.6g}" + (f" {exponential}" if exponential else "")
        negative = number < 0
        text += (f" {'-' if negative else '+'} " if text else "-" if negative else "") + magnitude
    return (text or "0") + (f" + ... ({len(positions)} terms)" if len(positions) > _MOST_TERMS else "")


def _format_term(terms: Terms, term: int, names: Sequence[str]) -> tuple[float, str]:
    coefficient, rates, anchors = float(terms.coefficient[term]), terms.rates[term], terms.anchors[term]
    moving = np.flatnonzero(rates).tolist()
    if not moving:
        return coefficient, ""
    unanchored_coefficient = terms.coefficient_at_zero(term)
    unanchored = not unanchored_coefficient or _SMALLEST <= unanchored_coefficient.copy_abs() <= _LARGEST
    exponent = ""
    for j in moving:
        rate, anchor = float(rates[j]), 0.0 if unanchored else float(anchors[j])
        factor = names[j] if anchor == 0 else f"({names[j]} {'-' if anchor > 0 else '+'} {abs(anchor):.10g})"
        size = "" if math.isclose(abs(rate), 1.0, rel_tol=1e-6) else f"{abs(rate):.6g} "
        sign = (" - " if rate < 0 else " + ") if exponent else ("-" if rate < 0 else "")
        exponent += f"{sign}{size}{factor}"
    return (float(unanchored_coefficient) if unanchored else coefficient), f"exp({exponent})"


def format_head(child: Variable, parents: Sequence[Variable]) -> str:
    """Return ``f(y | c, x)``, with P for a discrete child."""
    given = f" | {', '.join(p.name for p in parents)}" if parents else ""
    return f"{'P' if isinstance(child, Discrete) else 'f'}({child.name}{given})"


_FIELDS = {
    "blocks",
    "codes",
    "counts",
    "limits",
    "low",
    "high",
    "coefficient",
    "magnitude",
    "rates",
    "mass_error",
    "max_error",
}


def blocks_to_dict(blocks: Sequence[Terms], mass_error: float | None, max_error: float | None) -> dict[str, Any]:
    """Return the concatenated arrays of all blocks as plain lists and float arrays."""

    def concatenate(name: str) -> Values:
        return np.concatenate([getattr(block, name) for block in blocks])

    return {
        "blocks": [len(block.codes) for block in blocks],
        "codes": concatenate("codes").tolist(),
        "counts": [int(n) for block in blocks for n in np.diff(block.starts)],
        "limits": np.array([block.limits for block in blocks], dtype=float).reshape(len(blocks), -1),
        **{name: concatenate(name) for name in ("low", "high", "coefficient", "magnitude", "rates")},
        "mass_error": mass_error,
        "max_error": max_error,
    }


def blocks_from_dict(
    state: Mapping[str, Any], variables: Sequence[Variable]
) -> tuple[list[Terms], float | None, float | None]:
    """Return the blocks and errors that `blocks_to_dict` was given; raise if the arrays don't belong together."""
    owner, sizes = variables[-1].name, tuple(len(v) for v in variables if isinstance(v, Discrete))
    continuous = len(variables) - len(sizes)
    if set(state) != _FIELDS:
        raise NetworkError(f"{owner!r}: an MTE is saved as {sorted(_FIELDS)}, not {sorted(state)}")
    try:
        piece_counts = [int(n) for n in state["blocks"]]
        term_counts = np.array([int(n) for n in state["counts"]], dtype=np.intp)
        pieces, terms = sum(piece_counts), int(term_counts.sum())
        codes = np.asarray(state["codes"], dtype=np.intp).reshape(pieces, len(sizes))
        limits = np.asarray(state["limits"], dtype=float).reshape(len(piece_counts), continuous)
        low, high = (np.asarray(state[name], dtype=float).reshape(pieces, continuous) for name in ("low", "high"))
        coefficient, magnitude = (
            np.asarray(state[n], dtype=float).reshape(terms) for n in ("coefficient", "magnitude")
        )
        rates = np.asarray(state["rates"], dtype=float).reshape(terms, continuous)
        errors = [None if state[name] is None else float(state[name]) for name in ("mass_error", "max_error")]
    except (TypeError, ValueError, OverflowError) as error:
        raise NetworkError(f"{owner!r}: the saved MTE is damaged: {error}") from None
    damaged = (
        len(term_counts) != pieces
        or not piece_counts
        or any(n < 0 for n in piece_counts)
        or bool((term_counts < 0).any() or (codes < ANY).any() or (codes >= np.array(sizes, dtype=np.intp)).any())
        or not (low < high).all()
        or np.isnan(limits).any()
        or not all(np.isfinite(array).all() for array in (coefficient, magnitude, rates))
    )
    blocks: list[Terms] = []
    if not damaged:
        piece_starts = np.concatenate([[0], np.cumsum(piece_counts)]).tolist()
        owners = np.repeat(np.arange(pieces), term_counts)
        whole = Terms(sizes, tuple(limits.max(axis=0)), codes, low, high, owners, coefficient, magnitude, rates)
        blocks = [
            replace(whole.select_pieces(np.arange(first, last)), limits=tuple(map(float, ends)))
            for (first, last), ends in zip(itertools.pairwise(piece_starts), limits, strict=True)
        ]
        damaged = not np.isfinite(whole.anchors).all()
    if damaged:
        raise NetworkError(f"{owner!r}: the saved MTE is damaged: its arrays don't belong together")
    return blocks, errors[0], errors[1]
