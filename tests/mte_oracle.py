"""Slow, exact (50 digits) integrals of products of MTEs, straight from their pieces; and a way to make random ones."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import mpmath as mp
import numpy as np

from hybridbn.potentials.mte import MTE, Piece
from hybridbn.variables import Continuous, Discrete, Variable

mp.mp.dps = 50


def power_integral(rate: Any, low: Any, high: Any, order: int) -> Any:
    """Integrate z**order exp(rate z)."""
    if rate == 0:
        return (high ** (order + 1) - low ** (order + 1)) / (order + 1)
    if mp.isinf(high) or mp.isinf(low):
        with mp.workdps(60):
            return mp.quad(lambda z: z**order * mp.exp(rate * z), [low, high])
    with mp.workdps(mp.mp.dps + 40):  # the recursion cancels where rate * width is small
        result = mp.exp(rate * low) * mp.expm1(rate * (high - low)) / rate
        for k in range(1, order + 1):
            result = (high**k * mp.exp(rate * high) - low**k * mp.exp(rate * low) - k * result) / rate
        return result


def expanded(piece: Piece) -> list[tuple[Any, dict[str, Any]]]:
    terms: list[tuple[Any, dict[str, Any]]] = [(mp.mpf(piece.constant), {})] if piece.constant else []
    for coefficient, rates, *anchors in piece.terms:
        shift = sum(mp.mpf(rates[name]) * mp.mpf(a) for name, a in anchors[0].items()) if anchors else 0
        terms.append((mp.mpf(coefficient) * mp.exp(-shift), {n: mp.mpf(b) for n, b in rates.items()}))
    return terms


def exact(
    factors: Sequence[Sequence[Piece]],
    variables: Sequence[Variable],
    evidence: Mapping[str, Any] = {},
    moment: str = "",
    order: int = 0,
) -> Any:
    """Integrate the product of sums of pieces over all variables that are not in the evidence.

    Evidence is a state, a number strictly inside pieces, or a pair (low, high).
    """
    total = mp.mpf(0)
    states = [[evidence[v.name]] if v.name in evidence else v.states for v in variables if isinstance(v, Discrete)]
    names = [v.name for v in variables if isinstance(v, Discrete)]
    numbers = [v for v in variables if isinstance(v, Continuous)]
    for combination in itertools.product(*states):
        known = dict(zip(names, combination, strict=True))
        chosen = [[p for p in pieces if all(known[n] == s for n, s in p.given.items())] for pieces in factors]
        for together in itertools.product(*chosen):
            boxes, empty = {}, False
            for v in numbers:
                ends = [p.box.get(v.name, v.domain) for p in together]
                low, high = max(mp.mpf(a) for a, _ in ends), min(mp.mpf(b) for _, b in ends)
                value = evidence.get(v.name)
                if isinstance(value, tuple):
                    low, high = max(low, mp.mpf(value[0])), min(high, mp.mpf(value[1]))
                    value = None
                empty = empty or (low >= high if value is None else not low <= value < high)
                boxes[v.name] = low, high
            if empty:
                continue
            for product in itertools.product(*(expanded(p) for p in together)):
                rates: dict[str, Any] = {}
                result = mp.mpf(1)
                for coefficient, exponents in product:
                    result *= coefficient
                    for name, rate in exponents.items():
                        rates[name] = rates.get(name, 0) + rate
                for v in numbers:
                    value, k = evidence.get(v.name), order if v.name == moment else 0
                    if value is None or isinstance(value, tuple):
                        result *= power_integral(rates.get(v.name, 0), *boxes[v.name], k)
                    else:
                        result *= mp.exp(rates.get(v.name, 0) * mp.mpf(value)) * mp.mpf(value) ** k
                total += result
    return total


def random_mte(
    rng: np.random.Generator,
    child: Variable,
    parents: Sequence[Variable],
    cuts: int = 2,
    terms: int = 2,
    steep: float = 3.0,
) -> MTE:
    """Make a positive function with joint exponents in all continuous variables; not a density."""
    variables = (*parents, child)
    discrete = [v for v in variables if isinstance(v, Discrete)]
    continuous = [v for v in variables if isinstance(v, Continuous)]
    pieces = []
    edges = {}
    for v in continuous:
        low, high = v.domain
        inner = np.sort(rng.uniform(low, high, cuts - 1))
        edges[v.name] = list(itertools.pairwise([low, *inner.tolist(), high]))
    for states in itertools.product(*(v.states for v in discrete)):
        for boxes in itertools.product(*(edges[v.name] for v in continuous)):
            listed = []
            for _ in range(terms):
                rates = {v.name: float(rng.normal() * steep / (v.domain[1] - v.domain[0])) for v in continuous}
                anchors = {v.name: float(rng.uniform(*v.domain)) for v in continuous}
                if rates:
                    listed.append((float(rng.uniform(0.1, 1)), rates, anchors))
            box = {v.name: ends for v, ends in zip(continuous, boxes, strict=True)}
            given = {v.name: state for v, state in zip(discrete, states, strict=True)}
            pieces.append(Piece(box, given, float(rng.uniform(0.1, 1)), listed))
    return MTE(child, parents, pieces, normalize=None)
