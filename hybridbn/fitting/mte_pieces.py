"""From splines and cells to the terms of an MTE potential."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from hybridbn.fitting.mte_splines import Knots
from hybridbn.potentials.exponentials import decay_integral
from hybridbn.potentials.mte_terms import ANY, Terms
from hybridbn.variables import Codes, Continuous, Discrete, Values

__all__ = ["Box", "Line", "Scale", "assembled", "boxes", "exponentials", "scale_of"]


class Scale(NamedTuple):
    """A standardized axis z: the variable is ``(center + unit * z) * 2**exponent``.

    The power of two keeps differences of numbers near the ends of the floats' range from overflowing.
    """

    center: float
    unit: float
    exponent: int

    def standardized(self, values: Values) -> Values:
        """Return values of the variable on the axis."""
        return np.asarray((np.ldexp(values, -self.exponent) - self.center) / self.unit)

    def restored(self, values: Values) -> Values:
        """Return places of the axis as values of the variable."""
        return np.asarray(np.ldexp(self.center + self.unit * values, self.exponent))


class Line(NamedTuple):
    """The pieces of a density of one variable: on each one exponential, or two beyond an edge.

    Attributes
    ----------
    low, high : (pieces,)
    owner, coefficient, rate : (terms,)
        The coefficient is the term's value at the end of the piece where it is largest.
    """

    low: Values
    high: Values
    owner: Codes
    coefficient: Values
    rate: Values


class Box(NamedTuple):
    """A box of the parents: the code of each discrete one or `ANY`, and the range of each continuous one."""

    codes: tuple[int, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]


def scale_of(values: Values, weights: Values) -> Scale:
    """Return the axis of sorted values on which their median is 0 and the middle nine tenths have the length 1."""
    exponent = math.frexp(float(np.abs(values[[0, -1]]).max()))[1]
    small = np.ldexp(values, -exponent)
    upto = np.cumsum(weights) - 0.5 * weights
    low, center, high = small[np.searchsorted(upto, upto[-1] * np.array([0.05, 0.5, 0.95]))]
    return Scale(float(center), float(high - low if high > low else small[-1] - small[0]), exponent)


def exponentials(
    heights: Values, knots: Knots, edges: tuple[bool, bool], slack: float, domain: tuple[float, float], scale: Scale
) -> Line:
    """Write a spline, and the tails beyond its edges, as exponential pieces of mass one.

    Beyond an edge the density falls continuously, but within the distance that separates neighboring observations; a
    second, slow exponential of half the tail's mass makes sure that values further out are unlikely, not impossible.
    """
    places = knots.places
    steep = np.diff(heights) / np.diff(places)
    # beyond the outermost knots the same straight lines go on; cuts there would be no cuts
    cuts, tops = places.copy(), heights.copy()
    cuts[0], cuts[-1] = places[0] - knots.below, places[-1] + knots.above
    for end, slope, length in ((0, -steep[0], knots.below), (-1, steep[-1], knots.above)):
        if length > 0:
            tops[end] += slope * length
    restored = scale.restored(cuts)
    if not edges[0]:
        restored[0] = domain[0]
    if not edges[1]:
        restored[-1] = domain[1]
    low, high = restored[:-1], restored[1:]
    kept = low < high  # far from zero, floats are too coarse for narrow pieces
    with np.errstate(over="ignore"):
        size = 1.0 / scale.unit
    unit = lambda rate: np.ldexp(rate * size, -scale.exponent)  # noqa: E731
    parts = [(low[kept], high[kept], np.exp(np.maximum(tops[:-1], tops[1:])[kept]), steep[kept])]
    share = 1.0 - sum(edges) * slack
    pieces_low, pieces_high = list(parts[0][0]), list(parts[0][1])
    owner = list(range(len(pieces_low)))
    coefficient, rate = list(parts[0][2] * share), list(parts[0][3])
    for side, edge in enumerate(edges):
        if not edge:
            continue
        # a height may have vanished, and a rate must not: a term without decay has no mass on an endless piece
        top = max(math.exp(heights[-side]) * share, 1e-300)
        slow = min(0.5 * slack, 0.5 * top)
        fast = max(2.0 * (top - slow) / slack, 1.0)
        sign = -1.0 if side else 1.0
        ends = (float(restored[-1]), domain[1]) if side else (domain[0], float(restored[0]))
        if not ends[0] < ends[1]:
            continue
        owner += [len(pieces_low)] * 2
        pieces_low.append(ends[0])
        pieces_high.append(ends[1])
        coefficient += [top - slow, slow]
        rate += [sign * fast, sign]
    line = Line(
        np.array(pieces_low), np.array(pieces_high), np.array(owner, dtype=np.intp),
        unit(np.array(coefficient)), unit(np.array(rate)),  # type: ignore[no-untyped-call]
    )  # fmt: skip
    with np.errstate(over="ignore", under="ignore"):
        widths = decay_integral(np.abs(line.rate), line.high[line.owner] - line.low[line.owner])
        return line._replace(coefficient=line.coefficient / float(line.coefficient @ widths))


def boxes(
    allowed: Sequence[np.ndarray[tuple[int], np.dtype[np.bool_]]], cuts: Sequence[Values | None],
    domains: Sequence[tuple[float, float]],
) -> list[Box]:  # fmt: skip
    """Write the configurations of a cell as boxes: the cells of a continuous parent are neighbors, its outer ones reach the domain's ends.

    Parameters
    ----------
    allowed : for each parent, which of its states or cells belong to the cell
    cuts : for each parent, the ends of its inner cells; None for a discrete one
    domains : for each parent; ignored for a discrete one
    """
    low, high = [], []
    choices: list[list[int]] = []
    for mask, inner, domain in zip(allowed, cuts, domains, strict=True):
        held = np.flatnonzero(mask)
        if inner is None:
            choices.append([ANY] if mask.all() else held.tolist())
            continue
        ends = np.concatenate([[domain[0]], inner, [domain[1]]])
        low.append(float(ends[held[0]]))
        high.append(float(ends[held[-1] + 1]))
    return [Box(codes, tuple(low), tuple(high)) for codes in itertools.product(*choices)]


def assembled(
    parents: Sequence[Discrete | Continuous], child: Discrete | Continuous, parts: Sequence[tuple[Box, Line | Values]]
) -> Terms:
    """Put lines (or probabilities of a discrete child's states) on boxes together as terms.

    Columns are in the order of `Terms`: discrete parents, a discrete child, continuous parents, a continuous child.
    """
    variables = (*parents, child)
    sizes = tuple(len(v) for v in variables if isinstance(v, Discrete))
    limits = tuple(v.domain[1] for v in variables if isinstance(v, Continuous))
    codes: list[Any] = []
    low, high, owners, coefficients, rates = [], [], [], [], []
    for box, content in parts:
        first = sum(map(len, codes))
        if isinstance(content, Line):
            pieces = len(content.low)
            codes.append(np.tile(np.array(box.codes, dtype=np.intp).reshape(1, -1), (pieces, 1)))
            ends = [np.tile(np.array(side, dtype=float).reshape(1, -1), (pieces, 1)) for side in (box.low, box.high)]
            low.append(np.column_stack([ends[0], content.low]))
            high.append(np.column_stack([ends[1], content.high]))
            owners.append(first + content.owner)
            coefficients.append(content.coefficient)
            rates.append(content.rate)
        else:
            states = len(content)
            given = np.tile(np.array(box.codes, dtype=np.intp).reshape(1, -1), (states, 1))
            codes.append(np.column_stack([given, np.arange(states)]))
            low.append(np.tile(np.array(box.low, dtype=float).reshape(1, -1), (states, 1)))
            high.append(np.tile(np.array(box.high, dtype=float).reshape(1, -1), (states, 1)))
            owners.append(first + np.arange(states))
            coefficients.append(content)
            rates.append(np.zeros(states))
    coefficient = np.concatenate(coefficients)
    steepness = np.zeros((len(coefficient), len(limits)))
    if isinstance(child, Continuous):
        steepness[:, -1] = np.concatenate(rates)
    owner = np.concatenate(owners)
    order = np.argsort(owner, kind="stable")
    return Terms(
        sizes, limits, np.concatenate(codes).astype(np.intp), np.concatenate(low), np.concatenate(high), owner[order],
        coefficient[order], np.abs(coefficient[order]), steepness[order],
    )  # fmt: skip
