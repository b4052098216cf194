"""Few exponential pieces in the place of many: the splines on few of their knots that come nearest."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hybridbn.fitting.mte.univariate import (
    Knots,
    SmoothDensity,
    compute_hat_means,
    integrate_pieces,
    make_tails_decay,
    maximize_likelihood,
    normalize,
)
from hybridbn.potentials.mte.terms import ANY, Terms, integrate_decay
from hybridbn.variables import Codes, Continuous, Discrete, Values

_MOVES, _BEARABLE = (
    9,
    5.0,
)  # rounds at most (a third of it for many splines), where what is lost is worth several pieces
_STRAY = 5.0  # how far a logarithm may move when pieces are merged; more would be a spike's effect on its neighbors
_FARTHER = 0.2  # how far the slow exponential beyond an edge reaches on average, in ranges of the data


def select_knots(heights: Values, knots: Knots, most: int, price: Values | float) -> tuple[Knots, Values]:
    """Return the splines on few of their knots that are nearest to splines on many.

    Parameters
    ----------
    heights : (rows, knots)
    knots : shared by all rows
    most : largest number of pieces
    price : () or (rows,)
        Another piece has to lower the Kullback-Leibler divergence by this much, summed over the rows.

    Returns
    -------
    knots : with places (rows, fewer knots)
    heights : (rows, fewer knots)
    """
    cost = _measure_misfits(heights, knots)
    first, last = _find_tame_ends(heights, knots)
    cost[:, 0, 2:][~first[:, 2:]] = np.inf
    cost[:, :-2, -1][~last[:, :-2]] = np.inf
    reached, come_from = [np.where(np.arange(cost.shape[1]) == 0, 0.0, np.inf)[None].repeat(len(heights), axis=0)], []
    for _ in range(min(most, cost.shape[1] - 1)):
        through = reached[-1][:, :, None] + cost
        come_from.append(through.argmin(axis=1))
        reached.append(through.min(axis=1))
    divergences = np.array([row[:, -1] for row in reached[1:]])
    pieces = np.arange(1, len(divergences) + 1)
    charged = (divergences / np.asarray(price)).sum(axis=1) + pieces * len(heights)
    last = np.full(len(heights), cost.shape[1] - 1)
    chosen = [last]
    for step in range(int(np.argmin(charged)), -1, -1):
        last = come_from[step][np.arange(len(heights)), last]
        chosen.append(last)
    kept, nearest = _move_knots(np.stack(chosen[::-1], axis=1), heights, knots, np.broadcast_to(price, len(heights)))
    return knots._replace(places=knots.places[kept]), nearest


def _find_tame_ends(heights: Values, knots: Knots) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Return at which knots the first and the last piece may end (rows, knots).

    The straight line that goes on beyond must not grow far beyond the density, and decay if it has no end.
    """
    top = heights.max(axis=1, keepdims=True) + _STRAY
    tame = [np.ones(heights.shape, dtype=bool), np.ones(heights.shape, dtype=bool)]
    for side, length in enumerate((knots.below, knots.above)):
        if length > 0:
            with np.errstate(divide="ignore", invalid="ignore"):
                rise = (heights[:, [-side]] - heights) / np.abs(knots.places - knots.places[-side]) * length
                tame[side] = heights[:, [-side]] + rise <= top
    return tame[0], tame[1]


def _has_tame_ends(kept: Codes, heights: Values, knots: Knots) -> NDArray[np.bool_]:
    """Return for which of these rows' knots the straight lines that go on are tame."""
    first, last = _find_tame_ends(heights, knots)
    rows = np.arange(len(kept))
    return np.asarray(
        (first[rows, kept[:, 1]] | (kept[:, 1] == 1))
        & (last[rows, kept[:, -2]] | (kept[:, -2] == heights.shape[1] - 2))
    )


def _move_knots(kept: Codes, heights: Values, knots: Knots, price: Values) -> tuple[Codes, Values]:
    """Move single knots as long as that brings a spline nearer; return the knots and the heights of the nearest
    splines.

    The costs above see each piece alone, and are good where little is lost; steep flanks lose more, as neighbors share
    a height.
    """
    means = compute_hat_means(heights, knots)
    whole = (means * heights).sum(axis=1)
    kept = kept.copy()
    least = float(price.min())
    nearest, likelihood = _fit_nearest(kept, heights, means, knots, np.arange(len(heights)), 1e-4 * least)
    active = np.arange(len(heights))
    for _ in range(_MOVES if len(heights) == 1 else _MOVES // 3):
        active = active[whole[active] - likelihood[active] > _BEARABLE * price[active]]
        if not len(active):
            break
        left, share = _locate_on_kept(kept[active], knots)
        line = np.take_along_axis(nearest[active], left, axis=1) * (1.0 - share)
        line += np.take_along_axis(nearest[active], left + 1, axis=1) * share
        proposed, owner = _propose_moves(kept[active], means[active] * (line - heights[active]) ** 2)
        if not len(proposed):
            break
        owner = active[owner]
        found, value = _fit_nearest(proposed, heights, means, knots, owner, 0.1 * least)
        value = np.where(_has_tame_ends(proposed, heights[owner], knots), value, -np.inf)
        order = np.lexsort((-value, owner))
        best = order[np.append(True, owner[order][1:] != owner[order][:-1])]
        best = best[value[best] > likelihood[owner[best]] + price[owner[best]]]
        active = owner[best]
        kept[active], nearest[active], likelihood[active] = proposed[best], found[best], value[best]
    return kept, nearest


def _propose_moves(kept: Codes, misses: Values) -> tuple[Codes, Codes]:
    """Return knots with one of the inner ones moved to another place, and whose they were.

    A knot moves by one or two places, or to where a piece misses most (rows, all knots).
    """
    rows, count = kept.shape
    if count < 3:
        return np.empty((0, count), dtype=np.intp), np.empty(0, dtype=np.intp)
    size = misses.shape[1]
    fine = np.arange(size)
    inside = (fine > kept[:, :-1, None]) & (fine < kept[:, 1:, None])
    worst = np.where(inside, misses[:, None], -1.0).argmax(axis=2)
    inner = np.arange(1, count - 1)
    steps = [kept[:, inner] + step for step in (-2, -1, 1, 2)]
    targets = np.concatenate(
        [*(step[:, :, None] for step in steps), np.repeat(worst[:, None], count - 2, axis=1)], axis=2
    )
    proposed = np.repeat(np.repeat(kept[:, None, None], count - 2, axis=1), targets.shape[2], axis=2)
    proposed[:, np.arange(count - 2), :, inner] = np.moveaxis(targets, 1, 0)
    owner = np.repeat(np.arange(rows), (count - 2) * targets.shape[2])
    proposed = np.sort(proposed.reshape(-1, count), axis=1)
    able = (np.diff(proposed, axis=1) > 0).all(axis=1) & (proposed[:, 0] == 0) & (proposed[:, -1] == size - 1)
    return proposed[able], owner[able]


def _locate_on_kept(kept: Codes, knots: Knots) -> tuple[Codes, Values]:
    """Return for each of all knots which kept one is to its left, and the value there of the next one's hat."""
    left = np.clip((kept[:, :, None] <= np.arange(len(knots.places))).sum(axis=1) - 1, 0, kept.shape[1] - 2)
    low, high = (knots.places[np.take_along_axis(kept, left + step, axis=1)] for step in (0, 1))
    return left, (knots.places - low) / (high - low)


def _fit_nearest(
    kept: Codes, heights: Values, means: Values, knots: Knots, owner: Codes, within: float
) -> tuple[Values, Values]:
    """Return the splines on some knots that are nearest to their owners, and the mean of their logarithms there."""
    coarse = knots._replace(places=knots.places[kept])
    rows, count = kept.shape
    left, share = _locate_on_kept(kept, knots)
    place = (np.arange(rows)[:, None] * count + left).ravel()
    own = means[owner]
    sums = np.asarray(np.bincount(place, (own * (1.0 - share)).ravel(), rows * count), dtype=np.float64)
    sums += np.bincount(place + 1, (own * share).ravel(), rows * count)
    stats = sums.reshape(rows, count)
    # few pieces may leave none that decays
    start = make_tails_decay(np.take_along_axis(heights[owner], kept, axis=1), coarse)
    nearest = maximize_likelihood(stats, coarse, np.zeros((0, count)), np.zeros(rows), start, within=within)
    nearest = normalize(make_tails_decay(np.clip(nearest, start - _STRAY, start + _STRAY), coarse), coarse)
    return nearest, np.asarray((stats * nearest).sum(axis=1))


def _measure_misfits(heights: Values, knots: Knots) -> Values:
    """Return half the variance, times the mass, of a logarithm about its best straight line between any two knots.

    It is what that piece adds to the Kullback-Leibler divergence if the line takes the logarithm's place.

    Returns
    -------
    ndarray (rows, knots, knots) : from the first knot to the second; inf where that is not to its right
    """
    mass, first, second = (array[:, None, :] for array in integrate_pieces(heights, knots))
    places, size = knots.places, heights.shape[1]
    # seen from the knot where the piece begins, so that nothing cancels
    offset, width = (places[:-1] - places[:, None])[None], np.diff(places)
    rise, climb = (heights[:, None, :-1] - heights[:, :, None]), np.diff(heights, axis=1)[:, None]
    after = np.triu(np.ones((size, size - 1), dtype=bool))
    terms = (
        np.broadcast_to(mass, rise.shape),
        offset * mass + width * first,
        offset**2 * mass + 2.0 * offset * width * first + width**2 * second,
        rise * mass + climb * first,
        rise**2 * mass + 2.0 * rise * climb * first + climb**2 * second,
        offset * rise * mass + (offset * climb + width * rise) * first + width * climb * second,
    )
    sums = [np.cumsum(np.where(after, term, 0.0), axis=2) for term in terms]
    total, x, xx, g, gg, xg = sums
    with np.errstate(divide="ignore", invalid="ignore"):
        spread = xx - x * x / total
        shared = xg - x * g / total
        rest = gg - g * g / total - np.where(spread > 0, shared**2 / spread, 0.0)
    cost = np.full((len(heights), size, size), np.inf)
    cost[:, :, 1:] = np.where(after, 0.5 * np.nan_to_num(np.maximum(rest, 0.0)), np.inf)
    i = np.arange(size - 1)
    cost[:, i, i + 1] = 0.0
    return cost


class Scale(NamedTuple):
    """A standardized axis z: the variable is ``(center + unit * z) * 2**exponent``.

    The power of two keeps differences of numbers near the ends of the floats' range from overflowing.
    """

    center: float
    unit: float
    exponent: int

    def standardize(self, values: Values) -> Values:
        """Return values of the variable on the axis."""
        return np.asarray((np.ldexp(values, -self.exponent) - self.center) / self.unit)

    def restore(self, values: Values) -> Values:
        """Return places of the axis as values of the variable."""
        return np.asarray(np.ldexp(self.center + self.unit * values, self.exponent))

    def rescale_rates(self, values: Values) -> Values:
        """Return rates or densities along the axis as those of the variable."""
        unit, exponent = math.frexp(self.unit)  # which may be so small that a quotient overflows
        return np.asarray(np.ldexp(values / unit, -self.exponent - exponent))


class Box(NamedTuple):
    """A box of the parents: the code of each discrete one or `ANY`, and the range of each continuous one."""

    codes: tuple[int, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]


def choose_scale(values: Values, weights: Values) -> Scale:
    """Return the axis of sorted values on which their median is 0 and the middle nine tenths have the length 1."""
    exponent = math.frexp(float(np.abs(values[[0, -1]]).max()))[1]
    small = np.ldexp(values, -exponent)
    upto = np.cumsum(weights) - 0.5 * weights
    low, center, high = small[np.searchsorted(upto, upto[-1] * np.array([0.05, 0.5, 0.95]))]
    return Scale(float(center), float(high - low if high > low else small[-1] - small[0]), exponent)


def write_exponentials(
    heights: Values, places: Values, whole: SmoothDensity, domain: tuple[float, float], scale: Scale
) -> Terms:
    """Write a spline, and what lies beyond its edges, as exponential pieces of mass one.

    Beyond an edge the density falls continuously, but within the distance that separates neighboring observations; a
    second, slow exponential of half the tail's mass makes sure that values further out are unlikely, not impossible:
    its mean is a fifth of the range of the data away, so that held-out values of most columns are likelier than by
    longer and by shorter tails, and one in 150 of what it holds is farther out than that range is wide.
    Values very far out have an exponential of their mass and mean distance.

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
    ends = scale.restore(cuts)
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
            reach = _FARTHER * float(places[-1] - places[0])
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
    owners = np.argsort(order)[owner]
    return _write_terms(
        np.array(low)[order],
        np.array(high)[order],
        owners,
        scale.rescale_rates(np.array(coefficient)),
        scale.rescale_rates(np.array(rate)),
        domain,
    )


def make_two_sided(value: float, deviation: float, domain: tuple[float, float]) -> Terms:
    """Return a density about one value that decays on both sides, with this standard deviation if the domain doesn't
    end.

    Examples
    --------
    >>> line = make_two_sided(2.0, 1.0, (-math.inf, math.inf))
    >>> line.rates[:, 0].round(3), line.coefficient.round(3)
    (array([ 1.414, -1.414]), array([0.707, 0.707]))
    """
    decay = math.sqrt(2.0) / deviation
    sides = [
        (low, high, rate) for low, high, rate in ((domain[0], value, decay), (value, domain[1], -decay)) if low < high
    ]
    low, high, rates = (np.array(column) for column in zip(*sides, strict=True))
    return _write_terms(low, high, np.arange(len(low)), np.ones(len(low)), rates, domain)


def _write_terms(
    low: Values, high: Values, owner: Codes, coefficient: Values, rate: Values, domain: tuple[float, float]
) -> Terms:
    """Return exponentials on pieces of one variable, divided by their mass; the coefficient of each is its value at the
    end of the piece where it is largest.
    """
    coefficient = coefficient / float(coefficient @ integrate_decay(np.abs(rate), high[owner] - low[owner]))
    order = np.argsort(owner, kind="stable")
    return Terms(
        (),
        domain[1:],
        np.empty((len(low), 0), dtype=np.intp),
        low[:, None],
        high[:, None],
        owner[order],
        coefficient[order],
        np.abs(coefficient[order]),
        rate[order, None],
    )


def write_probabilities(probabilities: Values) -> Terms:
    """Return the probabilities of a discrete variable's states."""
    states, no_columns = np.arange(len(probabilities)), np.empty((len(probabilities), 0))
    size = (len(states),)
    return Terms(size, (), states[:, None], no_columns, no_columns, states, probabilities, probabilities, no_columns)


def list_boxes(
    allowed: Sequence[np.ndarray[tuple[int], np.dtype[np.bool_]]],
    cuts: Sequence[Values | None],
    domains: Sequence[tuple[float, float]],
) -> list[Box]:
    """Write the configurations of a cell as boxes: the cells of a continuous parent are neighbors, its outer ones reach
    the domain's ends.

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


def assemble_terms(
    parents: Sequence[Discrete | Continuous], child: Discrete | Continuous, parts: Sequence[tuple[Box, Terms]]
) -> Terms:
    """Put densities (or probabilities) of a child on boxes of the parents together.

    Columns are in the order of `Terms`: discrete parents, a discrete child, continuous parents, a continuous child.
    """
    variables, counts = (*parents, child), [len(terms.codes) for _, terms in parts]

    def widen(name: str) -> Values:
        boxes = np.array([getattr(box, name) for box, _ in parts], dtype=float).reshape(len(parts), -1)
        own = np.concatenate([getattr(terms, name) for _, terms in parts])
        return np.column_stack([np.repeat(boxes, counts, axis=0), own])

    limits = tuple(v.domain[1] for v in variables if isinstance(v, Continuous))
    starts = np.repeat(np.cumsum([0, *counts[:-1]]), [len(terms.owner) for _, terms in parts])
    coefficient = np.concatenate([terms.coefficient for _, terms in parts])
    rates = np.zeros((len(coefficient), len(limits)))
    if isinstance(child, Continuous):
        rates[:, -1:] = np.concatenate([terms.rates for _, terms in parts])
    return Terms(
        tuple(len(v) for v in variables if isinstance(v, Discrete)),
        limits,
        widen("codes").astype(np.intp),
        widen("low"),
        widen("high"),
        starts + np.concatenate([terms.owner for _, terms in parts]),
        coefficient,
        np.abs(coefficient),
        rates,
    )
