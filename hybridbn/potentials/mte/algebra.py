"""The MTE algebra on named variables: factors over columns are widened, multiplied, eliminated and restricted."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from hybridbn.errors import NetworkError
from hybridbn.potentials.base import Potential
from hybridbn.potentials.mte import products as products
from hybridbn.potentials.mte.checks import columns_of
from hybridbn.potentials.mte.terms import Terms, clipped, fixed
from hybridbn.variables import Continuous, Discrete, Variable

__all__ = ["Factors", "constants", "marginal", "product_scope", "reciprocal", "restricted", "widened"]

Factors = tuple[tuple[Variable, ...], tuple[Terms, ...]]
"""Variables (the child last) and the blocks whose product it is, over the columns of these variables."""


def product_scope(one: Sequence[Variable], two: Sequence[Variable]) -> tuple[Variable, ...]:
    """Return the variables of a product, its child last; refuse variables that differ under one name."""
    by_name = {v.name: v for v in one}
    for v in two:
        if by_name.setdefault(v.name, v) != v:
            raise NetworkError(f"{v.name!r} differs between the factors: {by_name[v.name]!r} and {v!r}")
    ones, twos = {v.name for v in one}, {v.name for v in two}
    child = two[-1] if one[-1].name in twos and two[-1].name not in ones else one[-1]
    return (*(v for v in by_name.values() if v.name != child.name), child)


def widened(factors: Factors, variables: Sequence[Variable]) -> list[Terms]:
    """Return blocks over the columns of more variables, or of the same in another order."""
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
    return [block.columns(discrete, continuous, sizes, limits) for block in factors[1]]


def marginal(factors: Factors, names: Iterable[str]) -> Factors:
    """Integrate and sum variables out: continuous ones first, because factors that are still apart integrate better."""
    variables, blocks = list(factors[0]), list(factors[1])
    kinds = {v.name: isinstance(v, Discrete) for v in variables}
    for name in sorted(dict.fromkeys(names), key=lambda name: kinds[name]):
        column = [v.name for v in columns_of(variables)].index(name)
        blocks = products.eliminated(blocks, column)
        variables = [v for v in variables if v.name != name]
    return tuple(variables), tuple(blocks)


def restricted(factors: Factors, evidence: Mapping[str, Any]) -> Factors:
    """Put in values and states, which removes their variables, and intervals and sets of states, which doesn't."""
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
            ends = _ends(value)
            if ends is not None:
                low, high = (float(end) for end in ends)
                if not low < high:
                    raise NetworkError(f"{name!r}: the interval ({low}, {high}) is empty; give a value for a point")
                blocks = [clipped(b, continuous, low, high) if i == 0 else b for i, b in enumerate(blocks)]
                continue
            number = variable.value(value)
            missing = number != number
        if missing:
            raise NetworkError(f"{name!r}: the value is missing; leave the variable out")
        blocks = [fixed(block, column, number) for block in blocks]
        variables = [v for v in variables if v.name != name]
    return tuple(variables), tuple(blocks)


def reciprocal(factors: Factors, owner: str) -> Terms:
    """Return one over a function that is constant on its pieces and nowhere zero."""
    terms = products.multiplied_out(factors[1])
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
    return terms.replaced(
        owner=np.arange(len(values)), coefficient=1.0 / values, magnitude=1.0 / values, rates=np.zeros_like(terms.low)
    )


def constants(potential: Potential) -> Factors:
    """Return a potential of discrete variables, of whatever family, as constants."""
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
    none = np.zeros((len(numbers), 0))
    terms = Terms(tuple(sizes), (), codes, none, none, np.arange(len(numbers)), numbers, numbers, none)
    return potential.variables, (terms,)


def _indicator(like: Terms, column: int, codes: Sequence[int]) -> Terms:
    """Return the function that is one where a discrete column has one of the codes, and zero elsewhere."""
    shape = (len(codes), len(like.limits))
    grid = np.full((len(codes), len(like.sizes)), -1)
    grid[:, column] = codes
    ones = np.ones(len(codes))
    return Terms(
        like.sizes, like.limits, grid, np.full(shape, -np.inf), np.full(shape, np.inf), np.arange(len(codes)),
        ones, ones, np.zeros(shape),
    )  # fmt: skip


def _ends(value: Any) -> tuple[Any, Any] | None:
    if isinstance(value, tuple | list) and len(value) == 2:
        return value[0], value[1]
    if hasattr(value, "low") and hasattr(value, "high"):
        return value.low, value.high
    return None
