"""The algebra of MTEs: products of exponential sums, their integrals, marginals and restrictions.

A product is kept as a tuple of factors over the same columns ("blocks") until it must be multiplied out, because
multiplying signed terms loses digits: each Cobb-Shenoy normal costs three of them, so that after five factors nothing
is left of an integral over the expanded terms. Integrated numerically *before* they are multiplied out, the same
factors lose none: on every piece the terms of each factor are added up before the factors are multiplied, at
Gauss-Legendre nodes, whose error is below rounding for exponentials. Variables are eliminated as in any factor graph,
and an integral is done in closed form where it is well conditioned and by quadrature elsewhere.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import reduce
from typing import Any

import numpy as np

from hybridbn.errors import NetworkError
from hybridbn.potentials.base import Potential
from hybridbn.potentials.mte.evaluation import integrate_cells
from hybridbn.potentials.mte.pieces import Factors, columns_of
from hybridbn.potentials.mte.terms import (
    Terms,
    add_rates,
    clip_column,
    corner,
    find_overlaps,
    fix_column,
    integrate_decay,
    integrate_out,
    make_disjoint,
    merge_terms,
    multiply,
    shift_factor,
    sum_out,
)
from hybridbn.variables import Codes, Continuous, Discrete, Values, Variable

_WORST_CONDITION = 1e4
"""Closed forms with a larger condition number give way to quadrature."""
_MOST_TERMS = 200_000
"""A product with more terms is not multiplied out for an integral."""
_ABSCISSAS, _WEIGHTS = np.polynomial.legendre.leggauss(16)
"""Of Gauss-Legendre quadrature on each panel."""
_EXPONENT = 16.0
"""Largest total |rate| * width of a panel, on which 16 nodes are exact to rounding."""
_MOST_PANELS = 4096
"""A piece is divided into at most this many panels, so that extreme rates don't fill the memory."""


def cancellation(terms: Terms) -> float:
    """Return the condition number of the integral: the sum of the terms' magnitudes divided by the sum of the terms.

    Columns along which a term is constant and endless don't count.
    """
    weight = np.ones(len(terms.owner))
    for j in range(terms.low.shape[1]):
        widths = integrate_decay(np.abs(terms.rates[:, j]), (terms.high - terms.low)[terms.owner, j])
        weight *= np.where(np.isinf(widths), 1.0, widths)
    value, parts = abs(float(terms.coefficient @ weight)), float(terms.magnitude @ weight)
    return parts / value if value else (math.inf if parts else 1.0)


def _can_multiply_out(blocks: Sequence[Terms]) -> bool:
    """Tell whether a product has few terms, of which rounding leaves enough digits."""
    return (
        math.prod(cancellation(block) for block in blocks) <= _WORST_CONDITION
        and math.prod(len(block.owner) for block in blocks) <= _MOST_TERMS
    )


def multiply_out(blocks: Sequence[Terms]) -> Terms:
    """Return the product of the blocks as one sum of terms."""
    return reduce(multiply, blocks)


def eliminate(blocks: Sequence[Terms], column: int) -> list[Terms]:
    """Sum or integrate a column out (discrete columns come first); the blocks that mention it become one."""
    discrete = len(blocks[0].sizes)
    mention = [block for block in blocks if block.mentions(column)]
    others = [block.drop_column(column) for block in blocks if not block.mentions(column)]
    if column < discrete:
        if not mention:
            times = float(blocks[0].sizes[column])
            return [others[0].multiply_by(times), *others[1:]]
        return [*others, sum_out(multiply_out(mention), column)]
    j = column - discrete
    if not mention:
        mention, others = [blocks[0]], others[1:]
    if len(mention) == 1:
        return [*others, integrate_out(mention[0], j)]
    if _can_multiply_out(mention):
        result = integrate_out(multiply_out(mention), j)
        if cancellation(result) <= _WORST_CONDITION:
            return [*others, result]
    return [*others, _integrate_numerically(mention, j)]


def integrate_all(blocks: Sequence[Terms]) -> tuple[float, float]:
    """Return the integral over all columns, and the magnitude to which its rounding error is proportional."""
    blocks = list(blocks)
    if len(blocks) == 1:
        return blocks[0].total()
    while blocks[0].dims:
        # continuous columns first
        discrete, count = len(blocks[0].sizes), len(blocks[0].limits)
        columns = range(discrete, discrete + count) if count else range(discrete)
        blocks = eliminate(blocks, min(columns, key=lambda c: sum(b.mentions(c) for b in blocks)))
    return multiply_out(blocks).total()


# -- quadrature ---------------------------------------------------------------------------------------------------


def _lay_panels(low: float, high: float, fastest: float, slowest: float) -> Values:
    """Return the edges of panels on which exponentials up to these total rates are smooth."""
    if math.isfinite(low) and math.isfinite(high):
        count = min(max(math.ceil(fastest * (high - low) / _EXPONENT), 1), _MOST_PANELS)
        return np.linspace(low, high, count + 1)
    steps = [0.0, _EXPONENT / 2 / fastest]  # from the finite end on ever wider, until the density underflows
    while steps[-1] * slowest < 745.0:
        steps.append(steps[-1] * 1.3)
    return low + np.array(steps) if math.isfinite(low) else high - np.array(steps)[::-1]


def _panel_nodes(edges: Values) -> tuple[Values, Values]:
    widths = np.diff(edges)[:, None]
    return (edges[:-1, None] + widths * (0.5 * (_ABSCISSAS + 1.0))).ravel(), (widths * (0.5 * _WEIGHTS)).ravel()


def _intersect_pieces(blocks: Sequence[Terms]) -> tuple[Terms, list[Codes]]:
    """Return the boxes in which every block has a single piece, and the numbers of these pieces for each block."""

    def drop_terms(block: Terms) -> Terms:
        empty = np.zeros(0)
        rates = np.zeros((0, block.low.shape[1]))
        return replace(block, owner=empty.astype(np.intp), coefficient=empty, magnitude=empty, rates=rates)

    joint, index = drop_terms(blocks[0]), [np.arange(len(blocks[0].codes))]
    for block in blocks[1:]:
        i, k = find_overlaps(joint, block)
        index = [*(which[i] for which in index), k]
        joint = drop_terms(
            replace(
                block,
                codes=np.where(joint.codes[i] < 0, block.codes[k], joint.codes[i]),
                low=np.maximum(joint.low[i], block.low[k]),
                high=np.minimum(joint.high[i], block.high[k]),
                limits=tuple(map(min, joint.limits, block.limits)),
            )
        )
    return joint, index


def _piece_rates(blocks: Sequence[Terms], pieces: Sequence[int], column: int) -> tuple[float, float]:
    """Return the largest and the smallest rate that a product of blocks can have on a piece."""
    fastest = slowest = 0.0
    for block, p in zip(blocks, pieces, strict=True):
        rates = np.abs(block.rates[block.starts[p] : block.starts[p + 1], column])
        fastest, slowest = fastest + rates.max(initial=0.0), slowest + (rates.min() if rates.size else 0.0)
    return max(fastest, 1e-300), slowest


def _integrate_numerically(blocks: Sequence[Terms], column: int) -> Terms:
    """Integrate the product of blocks along a continuous column by quadrature; it stays exponential in the others."""
    joint, index = _intersect_pieces(blocks)
    others = [j for j in range(len(joint.limits)) if j != column]
    low, high = joint.low[:, others], joint.high[:, others]
    owners: list[int] = []
    term_numbers: list[tuple[float, float, Values]] = []
    for q in range(len(joint.codes)):
        pieces = [int(which[q]) for which in index]
        fastest, slowest = _piece_rates(blocks, pieces, column)
        z, w = _panel_nodes(_lay_panels(joint.low[q, column], joint.high[q, column], fastest, slowest))
        combined = [(np.ones(len(z)), np.zeros(len(z)), np.zeros((1, 0, len(others))), np.zeros((1, 0, len(others))))]
        for block, p in zip(blocks, pieces, strict=True):
            groups = _sum_equal_rates(block, p, column, others, z)
            combined = [
                (h * g, s * np.abs(g) + np.abs(h) * m, np.append(r, [[b]], axis=1), np.append(a, [[c]], axis=1))
                for h, s, r, a in combined
                for g, m, b, c in groups
            ]
        for value, magnitude, rates, anchors in combined:
            rate = reduce(lambda x, y: add_rates(x, y, high[q] - low[q]), rates[0], np.zeros(len(others)))
            finite = np.where(np.isfinite(low[q]), low[q], np.where(np.isfinite(high[q]), high[q], 0.0))
            point = np.where(rate == 0, finite, corner(rate, low[q], high[q]))
            factor = float(np.prod(shift_factor(rates[0], point, anchors[0])))
            term_numbers.append((float(w @ value) * factor, float(w @ magnitude) * factor, rate))
            owners.append(q)
    owner = np.array(owners, dtype=np.intp)
    coefficient, magnitudes = (np.array([term[i] for term in term_numbers], dtype=float) for i in (0, 1))
    columns = np.array([term[2] for term in term_numbers], dtype=float).reshape(len(owners), len(others))
    limits = tuple(joint.limits[j] for j in others)
    summary = merge_terms(owner, (coefficient, magnitudes, columns))
    return make_disjoint(Terms(joint.sizes, limits, joint.codes, low, high, *summary))


def _sum_equal_rates(
    block: Terms, piece: int, column: int, others: list[int], z: Values
) -> list[tuple[Values, Values, Values, Values]]:
    """Add up the terms of a piece with equal rates in the other columns, at nodes along one column."""
    t = slice(block.starts[piece], block.starts[piece + 1])
    rates, anchors = block.rates[t], block.anchors[t]
    waves = np.exp(rates[:, column, None] * (z - anchors[:, column, None]))
    _, first, group = np.unique(rates[:, others], axis=0, return_index=True, return_inverse=True)
    group = group.reshape(-1)
    return [
        (
            block.coefficient[t][group == g] @ waves[group == g],
            block.magnitude[t][group == g] @ waves[group == g],
            rates[f, others],
            anchors[f, others],
        )
        for g, f in enumerate(first)
    ]


def integrate_product_cells(blocks: Sequence[Terms], edges: Values, order: int, center: Values) -> Values:
    """Integrate ``(z - center)**k`` times a product of one continuous column over cells; (order + 1, cells)."""
    if len(blocks) > 1 and _can_multiply_out(blocks):
        product = multiply_out(blocks)
        blocks = [product] if cancellation(product) <= _WORST_CONDITION else blocks
    if len(blocks) == 1:
        return integrate_cells(blocks[0], [], edges, order, center)
    joint, index = _intersect_pieces(blocks)
    result = np.zeros((order + 1, len(edges) - 1))
    about = np.broadcast_to(center, (len(edges) - 1,))
    for q in range(len(joint.codes)):
        pieces = [int(which[q]) for which in index]
        rates = _piece_rates(blocks, pieces, 0)
        for cell in range(len(edges) - 1):
            low, high = max(joint.low[q, 0], edges[cell]), min(joint.high[q, 0], edges[cell + 1])
            if low < high:
                z, w = _panel_nodes(_lay_panels(low, high, *rates))
                for block, p in zip(blocks, pieces, strict=True):
                    w = (
                        w * _sum_equal_rates(block, p, 0, [], z)[0][0]
                        if block.starts[p] < block.starts[p + 1]
                        else w * 0.0
                    )
                for k in range(order + 1):
                    result[k, cell] += float(w @ (z - about[cell]) ** k)
    return result


def product_scope(left: Sequence[Variable], right: Sequence[Variable]) -> tuple[Variable, ...]:
    """Return the variables of a product, its child last; raise if two different variables share a name."""
    by_name = {v.name: v for v in left}
    for v in right:
        if by_name.setdefault(v.name, v) != v:
            raise NetworkError(f"{v.name!r} differs between the factors: {by_name[v.name]!r} and {v!r}")
    left_names, right_names = {v.name for v in left}, {v.name for v in right}
    child = right[-1] if left[-1].name in right_names and right[-1].name not in left_names else left[-1]
    return (*(v for v in by_name.values() if v.name != child.name), child)


def marginalize(factors: Factors, names: Iterable[str]) -> Factors:
    """Integrate and sum variables out, continuous ones first because separate factors integrate more accurately."""
    variables, blocks = list(factors[0]), list(factors[1])
    kinds = {v.name: isinstance(v, Discrete) for v in variables}
    for name in sorted(dict.fromkeys(names), key=lambda name: kinds[name]):
        column = [v.name for v in columns_of(variables)].index(name)
        blocks = eliminate(blocks, column)
        variables = [v for v in variables if v.name != name]
    return tuple(variables), tuple(blocks)


def restrict(factors: Factors, evidence: Mapping[str, Any]) -> Factors:
    """Restrict to evidence: values and states remove their variables, intervals and sets of states keep them."""
    variables, blocks = list(factors[0]), list(factors[1])
    for name, value in evidence.items():
        columns = columns_of(variables)
        column = [v.name for v in columns].index(name)
        variable = columns[column]
        continuous = column - sum(isinstance(v, Discrete) for v in variables)
        if isinstance(variable, Discrete):
            if isinstance(value, set | frozenset):
                blocks.append(_indicator(blocks[0], column, sorted(variable.code(state) for state in value)))
                continue
            number: float = variable.code(value)
            missing = number < 0
        else:
            ends = _interval_ends(value)
            if ends is not None:
                low, high = (float(end) for end in ends)
                if not low < high:
                    raise NetworkError(f"{name!r}: the interval ({low}, {high}) is empty; give a value for a point")
                blocks = [clip_column(b, continuous, low, high) if i == 0 else b for i, b in enumerate(blocks)]
                continue
            number = variable.value(value)
            missing = number != number
        if missing:
            raise NetworkError(f"{name!r}: the value is missing; leave the variable out")
        blocks = [fix_column(block, column, number) for block in blocks]
        variables = [v for v in variables if v.name != name]
    return tuple(variables), tuple(blocks)


def reciprocal(factors: Factors, owner: str) -> Terms:
    """Return the reciprocal of a function that is constant on its pieces and nowhere zero."""
    terms = multiply_out(factors[1])
    values = np.bincount(terms.owner, weights=terms.coefficient, minlength=len(terms.codes))
    if (terms.rates != 0).any():
        moving = np.flatnonzero((terms.rates != 0).any(axis=0))
        names = [v.name for v in factors[0] if isinstance(v, Continuous)]
        raise NetworkError(
            f"{owner!r} can't be normalized as an MTE: its mass varies with "
            f"{', '.join(repr(names[j]) for j in moving)} within a cell"
        )
    if not (values > 0).all():
        raise NetworkError(f"{owner!r} can't be normalized: its mass is zero for some configuration of what is given")
    return replace(
        terms,
        owner=np.arange(len(values)),
        coefficient=1.0 / values,
        magnitude=1.0 / values,
        rates=np.zeros_like(terms.low),
    )


def as_constants(potential: Potential) -> Factors:
    """Return a potential of discrete variables, of any family, as constant terms."""
    sizes = []
    for v in potential.variables:
        if isinstance(v, Continuous):
            raise NetworkError(
                f"an MTE can't be multiplied by a {type(potential).__name__} of the continuous {v.name!r}; "
                "convert it first, with MTE.from_potential"
            )
        sizes.append(len(v))
    axes = {v.name: np.arange(n) for v, n in zip(potential.variables, sizes, strict=True)}
    table, log_scale = potential.on(axes)
    numbers = (table * np.exp(log_scale)).ravel()
    codes = np.indices(sizes).reshape(len(sizes), -1).T
    no_columns = np.zeros((len(numbers), 0))
    terms = Terms(
        tuple(sizes), (), codes, no_columns, no_columns, np.arange(len(numbers)), numbers, numbers, no_columns
    )
    return potential.variables, (terms,)


def _indicator(like: Terms, column: int, codes: Sequence[int]) -> Terms:
    """Return the function that is one where a discrete column has one of the codes, and zero elsewhere."""
    shape = (len(codes), len(like.limits))
    grid = np.full((len(codes), len(like.sizes)), -1)
    grid[:, column] = codes
    ones = np.ones(len(codes))
    return Terms(
        like.sizes,
        like.limits,
        grid,
        np.full(shape, -np.inf),
        np.full(shape, np.inf),
        np.arange(len(codes)),
        ones,
        ones,
        np.zeros(shape),
    )


def _interval_ends(value: Any) -> tuple[Any, Any] | None:
    if isinstance(value, tuple | list) and len(value) == 2:
        return value[0], value[1]
    return (value.low, value.high) if hasattr(value, "low") and hasattr(value, "high") else None
