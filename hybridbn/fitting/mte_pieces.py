"""From splines and cells to the terms of an MTE potential."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from hybridbn.fitting.mte_univariate import Smooth
from hybridbn.potentials.mte.exponentials import decay_integral
from hybridbn.potentials.mte.terms import ANY, Terms
from hybridbn.variables import Codes, Continuous, Discrete, Values

__all__ = ["Box", "Line", "Scale", "assembled", "boxes", "exponentials", "scale_of", "two_sided"]


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

    def per_unit(self, values: Values) -> Values:
        """Return rates or densities along the axis as those of the variable."""
        unit, exponent = math.frexp(self.unit)  # which may be so small that a quotient overflows
        return np.asarray(np.ldexp(values / unit, -self.exponent - exponent))


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


def exponentials(heights: Values, places: Values, whole: Smooth, domain: tuple[float, float], scale: Scale) -> Line:
    """Write a spline, and what lies beyond its edges, as exponential pieces of mass one.

    Beyond an edge the density falls continuously, but within the distance that separates neighboring observations; a
    second, slow exponential of half the tail's mass makes sure that values further out are unlikely, not impossible. Values
    very far out have an exponential of their mass and mean distance.

    Parameters
    ----------
    heights, places : of the spline
    whole : gives how far the spline goes on, its edges and strays
    """
    below, above = whole.knots.below, whole.knots.above
    slopes = np.diff(heights) / np.diff(places)
    # beyond the outermost knots the same straight lines go on; cuts there would be no cuts
    cuts, tops = places.copy(), heights.copy()
    for end, slope, length in ((0, -slopes[0], below), (-1, slopes[-1], above)):
        if length > 0:
            cuts[end] += -length if end == 0 else length
            tops[end] += slope * length
    ends = scale.restored(cuts)
    ends[0], ends[-1] = (
        own if edge else limit for own, edge, limit in zip(ends[[0, -1]], whole.edges, domain, strict=True)
    )
    kept = ends[:-1] < ends[1:]  # far from zero, floats are too coarse for narrow pieces
    share = 1.0 - sum(whole.edges) * whole.slack - sum(mass for mass, _ in whole.strays)
    low, high = ends[:-1][kept].tolist(), ends[1:][kept].tolist()
    owner = list(range(len(low)))
    coefficient = (np.exp(np.maximum(tops[:-1], tops[1:])[kept]) * share).tolist()
    rate = slopes[kept].tolist()
    for side, (edge, (mass, distance), limit) in enumerate(zip(whole.edges, whole.strays, domain, strict=True)):
        outward = -1.0 if side else 1.0  # sign of the rate of an exponential that decays outward
        outermost = len(slopes[kept]) - 1 if side else 0
        if edge and (low[0] > limit if side == 0 else ends[-1] < limit):
            outermost = len(low)
            low.append(float(ends[-1]) if side else limit)
            high.append(limit if side else float(ends[0]))
            top = math.exp(heights[-side]) * share
            reach = max(1.0, float(places[-1] - places[0]) / 100.0)
            slow = min(0.5 * whole.slack / reach, 0.5 * top)
            fast = max(2.0 * (top - slow) / whole.slack, 1.0 / reach)
            owner += [outermost, outermost]
            coefficient += [top - slow, slow]
            rate += [outward * fast, outward / reach]
        if mass > 0:
            owner.append(outermost)
            coefficient.append(mass / distance)
            rate.append(outward / distance)
    order = np.argsort(low)
    line = Line(
        np.array(low)[order], np.array(high)[order], np.argsort(order)[owner], scale.per_unit(np.array(coefficient)),
        scale.per_unit(np.array(rate)),
    )  # fmt: skip
    widths = decay_integral(np.abs(line.rate), line.high[line.owner] - line.low[line.owner])
    return line._replace(coefficient=line.coefficient / float(line.coefficient @ widths))


def two_sided(value: float, deviation: float, domain: tuple[float, float]) -> Line:
    """Return a density about one value that decays on both sides, with this standard deviation if the domain doesn't end.

    Examples
    --------
    >>> line = two_sided(2.0, 1.0, (-math.inf, math.inf))
    >>> line.rate.round(3), line.coefficient.round(3)
    (array([ 1.414, -1.414]), array([0.707, 0.707]))
    """
    decay = math.sqrt(2.0) / deviation
    sides = [
        (low, high, rate) for low, high, rate in ((domain[0], value, decay), (value, domain[1], -decay)) if low < high
    ]
    low, high, rates = (np.array(column) for column in zip(*sides, strict=True))
    level = 1.0 / float(decay_integral(np.abs(rates), high - low).sum())
    return Line(low, high, np.arange(len(low)), np.full(len(low), level), rates)


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
