"""What any density can do without a formula of its own: be integrated, inverted and sampled from its values alone.

The conditional of a continuous child is integrated on cells, for every row of its parents. Cells are laid around the
peak of the density, which is searched in its logarithm, around the declared breaks, and within the declared support;
they are halved until Gauss-Legendre quadrature agrees with itself. Inverting solves for the mass inside one cell; where
little mass is left outside, on both sides, the support ends.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hybridbn.errors import NetworkError
from hybridbn.potentials.base import Axes, Interval, Potential, draw_codes, freeze, solve_increasing
from hybridbn.potentials.mode_search import (
    REACHES,
    describe_point,
    evaluate,
    find_decay_distance,
    find_modes,
    lay_edges,
)
from hybridbn.variables import Codes, Continuous, Discrete, Values, Variable, slice_blocks

NODES, WEIGHTS = (freeze(array) for array in np.polynomial.legendre.leggauss(10))
ENDS = freeze([2.0**-30 - 1, 1 - 2.0**-30])
EXTRAPOLATION = freeze(
    np.polynomial.legendre.legvander(ENDS, 9) @ np.linalg.inv(np.polynomial.legendre.legvander(NODES, 9))
)
TAIL = 1e-16
CELL_TOLERANCE = 1e-14
HIDDEN_TOLERANCE = 1e-10
CELLS = 1 << 16
MOST_CELLS = 1 << 21
_SHARING = 64
"""The number of rows that share the point where their search begins."""
_OUTSIDE = 1e-20
_SAME_MASS = 1e-11
"""The masses of neighboring rows differ by rounding only, if their cells cover all."""


class IntegrationCells(NamedTuple):
    """Cells of every row in increasing order, (rows, cells); those that fill up short rows are empty."""

    low: Values
    high: Values
    masses: Values
    reached: Values
    """The mass up to the end of the cell."""

    @property
    def totals(self) -> Values:
        """The mass of every row."""
        return np.asarray(self.reached[:, -1])


def integrate_cells(potential: Potential, given: Axes, rows: Codes, low: Values, high: Values) -> tuple[Values, Values]:
    """Integrate over cells; also tell what a jump near an end, between the nodes and the end, could have hidden."""
    result, hidden = np.empty(len(low)), np.empty(len(low))
    for block in slice_blocks(len(low), CELLS):
        half = 0.5 * (high[block] - low[block])
        points = low[block] + half * (1 + np.concatenate((NODES, ENDS))[:, None])
        density = evaluate(potential, given, rows[block], points)
        result[block] = half * (WEIGHTS @ density[: len(NODES)])
        surprise = np.abs(density[len(NODES) :] - EXTRAPOLATION @ density[: len(NODES)])
        hidden[block] = half * (1 + NODES[0]) * surprise.sum(axis=0)
    return result, hidden


def lay_shared_cells(potential: Potential, given: Axes, tail: float = TAIL) -> IntegrationCells:
    """Lay cells for every row of the parents, which stand in order; those with similar parents share a beginning.

    Looking for where a density lies costs most. So it is done for some rows, and the rows between two of them begin
    with the cells of these where these have mass, halving them where they need it. A row with another mass than its
    neighbors have is looked at alone, so what is not seen is less than `_SAME_MASS`.
    """
    rows = len(next(iter(given.values()))) if given else 1
    if rows < 2 * _SHARING:
        return lay_cells(potential, given, tail)
    chosen = np.unique([*range(0, rows, _SHARING), rows - 1])
    known = _drop_outside(lay_cells(potential, {name: values[chosen] for name, values in given.items()}, tail))
    others = np.setdiff1d(np.arange(rows), chosen)
    left = np.searchsorted(chosen, others) - 1
    shared = {name: values[others] for name, values in given.items()}
    try:
        between = halve_cells(potential, shared, _join_edges(known, left))
    except NetworkError:
        return lay_cells(potential, given, tail)
    like = np.abs(between.totals - known.totals[left]) <= _SAME_MASS
    like &= np.abs(between.totals - known.totals[left + 1]) <= _SAME_MASS
    parts = [(chosen, known), (others[like], IntegrationCells(*(table[like] for table in between)))]
    unlike = others[~like]
    for start in range(0, len(unlike), _SHARING):
        some = unlike[start : start + _SHARING]
        own = lay_cells(potential, {name: values[some] for name, values in given.items()}, tail)
        parts.append((some, _drop_outside(own)))
    width = max(cells.low.shape[1] for _, cells in parts)
    tables = np.zeros((3, rows, width))
    for numbers, cells in parts:
        for table, values in zip(tables, cells, strict=False):
            table[numbers, : values.shape[1]] = values
    return IntegrationCells(tables[0], tables[1], tables[2], np.cumsum(tables[2], axis=1))


def _drop_outside(cells: IntegrationCells) -> IntegrationCells:
    """Return cells without those beyond which there is next to no mass: uniforms are multiples of 2**-53, so nobody
    asks for these.
    """
    beyond = np.minimum(cells.reached, np.cumsum(cells.masses[:, ::-1], axis=1)[:, ::-1])
    rows, places = np.nonzero((cells.high > cells.low) & (beyond >= _OUTSIDE))
    return _arrange_cells(len(beyond), rows, *(table[rows, places] for table in cells[:3]))


def _join_edges(known: IntegrationCells, left: Codes) -> Values:
    """Return edges (edges, rows): the cells of the row on the left, and those of the next one beyond them."""
    empty = known.high <= known.low
    low = np.where(empty, np.nan, known.low)
    edges = np.concatenate((low, np.where(empty, np.nan, known.high)), axis=1)
    first, last = (function.reduce(edges, axis=1, keepdims=True) for function in (np.fmin, np.fmax))
    own, beyond = edges[left], edges[left + 1]
    beyond = np.where((beyond < first[left]) | (beyond > last[left]), beyond, np.nan)
    joined = np.sort(np.concatenate((own, beyond), axis=1), axis=1)
    # what is missing stands last and makes cells of no width
    end = np.fmax.reduce(joined, axis=1, keepdims=True)
    return np.where(np.isnan(joined), end, joined).T


def lay_cells(potential: Potential, given: Axes, tail: float = TAIL) -> IntegrationCells:
    """Lay cells, looking less far where a function fails far out, such as exp(x) / (1 + exp(x))**2 at 1000."""
    failure: NetworkError | None = None
    for reach in REACHES:
        try:
            return halve_cells(potential, given, lay_edges(potential, given, reach, tail))
        except NetworkError as error:
            failure = failure or error
    raise failure or NetworkError(f"{potential.child.name!r} can't be integrated")


def halve_cells(potential: Potential, given: Axes, edges: Values) -> IntegrationCells:
    """Halve the cells between edges (edges, rows) until quadrature agrees with itself."""
    rows = edges.shape[1]
    owner = np.tile(np.arange(rows), len(edges) - 1)
    low, high = edges[:-1].ravel(), edges[1:].ravel()
    wide = high > low
    owner, low, high = owner[wide], low[wide], high[wide]
    whole, _ = integrate_cells(potential, given, owner, low, high)
    done: list[tuple[Codes, Values, Values, Values]] = []
    for _ in range(64):  # after so many halvings any interval is down to neighboring doubles
        middle = low + 0.5 * (high - low)
        left, hidden_left = integrate_cells(potential, given, owner, low, middle)
        right, hidden_right = integrate_cells(potential, given, owner, middle, high)
        # a conditional density has no mass above 1; of what is none, a few digits are enough to refuse it
        least = np.maximum(whole, 1.0)
        fine = np.abs(left + right - whole) <= CELL_TOLERANCE * least
        fine &= hidden_left + hidden_right <= HIDDEN_TOLERANCE * least
        fine |= ~((middle > low) & (middle < high))
        both = np.concatenate((fine, fine))
        owner, low, high = np.tile(owner, 2), np.concatenate((low, middle)), np.concatenate((middle, high))
        whole = np.concatenate((left, right))
        done.append((owner[both], low[both], high[both], whole[both]))
        owner, low, high, whole = owner[~both], low[~both], high[~both], whole[~both]
        if not len(owner) or len(owner) > MOST_CELLS:
            break
    if len(owner):
        done.append((owner, low, high, whole))
    return _arrange_cells(rows, *(np.concatenate(part) for part in zip(*done, strict=True)))


def _arrange_cells(rows: int, owner: Codes, low: Values, high: Values, masses: Values) -> IntegrationCells:
    order = np.lexsort((low, owner))
    owner, low, high, masses = owner[order], low[order], high[order], masses[order]
    counts = np.bincount(owner, minlength=rows)
    width = max(int(counts.max(initial=0)), 1)
    place = np.arange(len(owner)) - (np.cumsum(counts) - counts)[owner]
    table = np.zeros((3, rows, width))
    table[:, owner, place] = low, high, masses
    return IntegrationCells(table[0], table[1], table[2], np.cumsum(table[2], axis=1))


MASS_TOLERANCE = 1e-6
FARTHEST = 2.0**44
"""A support ends at the latest so many times the distance of the quartiles away: some tails have no end."""
PARTS_OF_CELL = 16
ROWS = 256
EDGES = 4096
"""Ends of bins, of all rows, up to which is integrated at a time."""


def ppf(potential: Potential, uniforms: Values, given: Axes, tail: float = TAIL) -> NDArray[Any]:
    """Invert the conditional cdf of any potential, by its values alone; see `Potential.ppf`.

    At 0 and 1 a continuous child gives the ends of its domain. The `tail` is what the potential's support is asked for;
    0 asks for the bounds of the support, and is for potentials that have no other than the one found by
    `find_row_supports`.

    Examples
    --------
    >>> from hybridbn.potentials.gaussian import LinearGaussian
    >>> from hybridbn.variables import Continuous
    >>> x, y = Continuous("x"), Continuous("y")
    >>> potential = LinearGaussian(y, (x,), intercept=0, coefficients=[1], variance=4)
    >>> ppf(potential, np.array([0.5, 0.975]), {"x": np.array([3.0, 1000.0])}).round(8)
    array([ 3. , 1003.91992797])
    """
    uniforms = np.asarray(uniforms, dtype=np.float64)
    if isinstance(potential.child, Discrete):
        return _invert_states(potential, len(potential.child), uniforms, given)
    result = np.empty(len(uniforms))
    for chosen, owner, distinct in _distinct_cases(potential, len(uniforms), given, 4 * ROWS):
        cells = lay_shared_cells(potential, distinct, tail)
        _refuse_improper(potential, distinct, cells.totals)
        result[chosen] = _invert(potential, distinct, cells, owner, uniforms[chosen])
    low, high = potential.child.domain
    return np.where(uniforms <= 0, low, np.where(uniforms >= 1, high, result))


def cdf(potential: Potential, values: Values, given: Axes) -> Values:
    """Return the conditional cdf of a continuous child at a value in each row: from its masses, or by its values alone.

    The mass of a single value itself is left out, so that the cdf there is what is below it.

    Examples
    --------
    >>> from hybridbn.potentials.gaussian import LinearGaussian
    >>> from hybridbn.variables import Continuous
    >>> x, y = Continuous("x"), Continuous("y")
    >>> potential = LinearGaussian(y, (x,), intercept=0, coefficients=[1], variance=4)
    >>> cdf(potential, np.array([3.0, 3.92]), {"x": np.array([3.0, 0.0])}).round(4)
    array([0.5  , 0.975])
    """
    values, child = np.asarray(values, dtype=np.float64), potential.child
    assert isinstance(child, Continuous)
    values = potential.point_cells.move_below(values)
    if potential.exact_mass:
        low, high = child.domain
        edges = np.stack([np.full(len(values), low), np.clip(values, low, high), np.full(len(values), high)])
        axes = {name: np.asarray(column)[None] for name, column in given.items()}
        masses = np.broadcast_to(potential.mass(axes, edges)[0].reshape(2, -1), (2, len(values)))
        totals = masses.sum(axis=0)
        return np.asarray(np.divide(masses[0], totals, out=np.full(len(values), np.nan), where=totals > 0))
    result = np.empty(len(values))
    for chosen, owner, distinct in _distinct_cases(potential, len(values), given, 4 * ROWS):
        cells = lay_shared_cells(potential, distinct, 0.0 if potential.opaque else TAIL)
        below = _integrate_below(potential, distinct, cells, owner, values[chosen])
        result[chosen] = np.clip(below / cells.totals[owner], 0.0, 1.0)
    return result


def integrate(potential: Potential, given: Axes, rows: int = 1, tail: float = TAIL) -> Values:
    """Return the mass of a continuous child for every row of the parents: 1 if the potential is a conditional density.

    The `tail` is that of `ppf`.

    Examples
    --------
    >>> from hybridbn.potentials.gaussian import LinearGaussian
    >>> from hybridbn.variables import Continuous
    >>> bool(abs(integrate(LinearGaussian(Continuous("x"), intercept=-50, variance=1e-8), {})[0] - 1) < 1e-12)
    True
    """
    result = np.empty(len(next(iter(given.values()))) if given else rows)
    for chosen, owner, distinct in _distinct_cases(potential, len(result), given):
        result[chosen] = lay_cells(potential, distinct, tail).totals[owner]
    return result


def find_row_supports(potential: Potential, given: Axes, tail: float) -> tuple[Values, Values]:
    """Find where a continuous child lies for every row of the parents, by the values of the density alone.

    Less than `tail` of the mass found is outside; NaN where nothing was found. Very heavy tails are cut far out.

    Examples
    --------
    >>> from hybridbn.potentials.gaussian import LinearGaussian
    >>> from hybridbn.variables import Continuous
    >>> low, high = find_row_supports(LinearGaussian(Continuous("x"), intercept=-50, variance=1e-8), {}, 1e-12)
    >>> bool(-50.001 < low[0] < -50.0007 < -49.9993 < high[0] < -49.999)
    True
    """
    rows = len(next(iter(given.values()))) if given else 1
    low, high = np.empty(rows), np.empty(rows)
    for chosen, owner, distinct in _distinct_cases(potential, rows, given):
        ends = _find_ends(potential, distinct, lay_cells(potential, distinct, 0.0), tail)
        low[chosen], high[chosen] = (end[owner] for end in ends)
    return low, high


def _invert_states(potential: Potential, states: int, uniforms: Values, given: Axes) -> Codes:
    result = np.empty(len(uniforms), dtype=np.intp)
    step = max(1, (1 << 20) // states)
    for block in slice_blocks(len(uniforms), step):
        axes = {name: np.asarray(values)[None, block] for name, values in given.items()}
        values, _ = potential.on({**axes, potential.child.name: np.arange(states)})
        rows = len(uniforms[block])
        table = np.broadcast_to(values.reshape(states, -1), (states, rows))
        # the scale of a row cancels, because only shares of its total count
        result[block] = draw_codes(table.T, np.arange(rows), uniforms[block])
    return result


def _distinct_cases(
    potential: Potential, rows: int, given: Axes, most: int = ROWS
) -> Iterator[tuple[Codes, Codes, Axes]]:
    """Yield rows, the distinct case that each belongs to, and the distinct cases: equal cases are laid out once, at
    `most` so many together.
    """
    names = [parent.name for parent in potential.parents]
    if not names:
        yield np.arange(rows), np.zeros(rows, dtype=np.intp), {}
        return
    together = np.stack([np.asarray(given[name], dtype=np.float64) for name in names], axis=1)
    cases, owner = np.unique(together, axis=0, return_inverse=True)
    owner = owner.reshape(-1)
    order = np.argsort(owner, kind="stable")
    for start in range(0, len(cases), most):
        first, last = np.searchsorted(owner[order], (start, start + most))
        chosen = order[first:last]
        columns = {
            parent.name: column.astype(np.intp) if isinstance(parent, Discrete) else column
            for parent, column in zip(potential.parents, cases[start : start + most].T, strict=True)
        }
        yield chosen, owner[chosen] - start, columns


def _find_ends(potential: Potential, given: Axes, cells: IntegrationCells, tail: float) -> tuple[Values, Values]:
    """Return where less than half the tail is left below and above; NaN where the cells are empty."""
    rows = np.arange(len(cells.low))
    seen = cells.totals > 0
    most = 0.5 * tail * cells.totals[:, None]
    ends = []
    for backward in (False, True):
        order = slice(None, None, -1 if backward else 1)
        # summed from this side: differences from the total would be lost in its rounding
        outside = np.cumsum(cells.masses[:, order], axis=1)
        place = np.argmax(outside > most, axis=1)
        before = np.where(place > 0, outside[rows, np.maximum(place - 1, 0)], 0.0)
        start, stop = cells.low[:, order][rows, place], cells.high[:, order][rows, place]
        if backward:
            start, stop = stop, start
        edges = start + (stop - start) * np.linspace(0, 1, PARTS_OF_CELL + 1)[:, None]
        low, high = (edges[1:], edges[:-1]) if backward else (edges[:-1], edges[1:])
        parts, _ = integrate_cells(potential, given, np.tile(rows, PARTS_OF_CELL), low.ravel(), high.ravel())
        beyond = before + np.cumsum(parts.reshape(PARTS_OF_CELL, -1), axis=0)
        # never past the last part: the integrals over the whole and over the parts differ by rounding
        inside = np.where((beyond > most[:, 0]).any(axis=0), np.argmax(beyond > most[:, 0], axis=0), 0)
        quartile = cells.low if not backward else cells.high
        reached = np.argmax(outside >= 0.25 * cells.totals[:, None], axis=1)
        ends.append((edges[inside, rows], quartile[:, order][rows, reached]))
    (low, first), (high, third) = ends
    with np.errstate(over="ignore"):
        far = FARTHEST * (third - first)
    low, high = np.maximum(low, first - far), np.minimum(high, third + far)
    return np.where(seen, low, np.nan), np.where(seen, high, np.nan)


def _invert(potential: Potential, given: Axes, cells: IntegrationCells, owner: Codes, uniforms: Values) -> Values:
    result = np.empty(len(owner))
    step = max(1, (1 << 20) // cells.low.shape[1])
    for block in slice_blocks(len(owner), step):
        rows = owner[block]
        target = uniforms[block] * cells.totals[rows]
        place = np.minimum((cells.reached[rows] < target[:, None]).sum(axis=1), cells.low.shape[1] - 1)
        low, high = cells.low[rows, place], cells.high[rows, place]
        before = np.where(place > 0, cells.reached[rows, np.maximum(place - 1, 0)], 0.0)
        inside, mass = target - before, cells.reached[rows, place] - before

        def partly(x: Values, active: Codes, rows: Codes = rows, low: Values = low) -> tuple[Values, Values]:
            half = 0.5 * (x - low[active])
            points = np.concatenate((low[active] + half * (1 + NODES[:, None]), x[None, :]))
            density = evaluate(potential, given, rows[active], points)
            return half * (WEIGHTS @ density[:-1]), density[-1]

        share = np.divide(inside, mass, out=np.zeros_like(mass), where=mass > 0)
        result[block] = solve_increasing(partly, inside, low, high, low + share * (high - low))
    return result


def _refuse_improper(potential: Potential, given: Axes, totals: Values, tolerance: float = MASS_TOLERANCE) -> None:
    wrong = ~(np.abs(totals - 1) <= tolerance)
    if wrong.any():
        row = int(np.flatnonzero(wrong)[0])
        where = describe_point(potential, {name: values[row] for name, values in given.items()})
        raise NetworkError(
            f"{potential.child.name!r}: the mass of its {type(potential).__name__}{where and ' at '}{where} was found"
            f" to be {float(totals[row]):.9g}, not 1; correct the density, or let its breaks() and support() say where"
            " it lies"
        )


VALUES_PER_PARENT = {0: 1, 1: 9, 2: 5}
"""The number of values of each continuous parent at which the support is looked for, by the number of parents that
vary.
"""
FEWER_VALUES = 3
MOST_POINTS = 81
MARGIN = 0.1
"""The share of its movement by which a support may move farther between those values."""
INSIDE = 1e-6
UNKNOWN = 1e100
"""Ranges of parents that go beyond are not taken for known."""
NEAR_END = 1 / 16
MOST_KEPT = 32
LARGEST_KEPT = 1 << 14
"""The largest table of supports that is kept, in ranges of the parents."""


def find_support(potential: Potential, tail: float, within: Mapping[str, Interval]) -> Interval:
    """Find the support of a continuous child for every row of its parents' ranges; equal ranges are looked at once.

    It is looked for at all states of the discrete parents and some values of each continuous one within its range; of a
    range that is not known, a few are taken.

    Examples
    --------
    >>> from hybridbn.potentials.gaussian import LinearGaussian
    >>> x, y = Continuous("x"), Continuous("y")
    >>> potential = LinearGaussian(y, (x,), intercept=0, coefficients=[1], variance=4)
    >>> low, high = find_support(potential, 1e-12, {"x": (0.0, 100.0)})
    >>> bool(-25 < low < -14 and 114 < high < 125)
    True
    """
    ranges = [_fill_range(potential, parent, within) for parent in potential.parents if isinstance(parent, Continuous)]
    shape = np.broadcast_shapes(*(np.shape(end) for pair in ranges for end in pair))
    table = np.array([np.broadcast_to(end, shape).reshape(-1) for pair in ranges for end in pair], dtype=np.float64)
    table = table.reshape(2 * len(ranges), -1 if ranges else 1)
    cases, owner = np.unique(table, axis=1, return_inverse=True) if table.shape[1] > 1 else (table, np.zeros(1, int))
    kept = vars(potential).setdefault("_found_supports", {})
    key = tail, cases.tobytes()
    found = kept.get(key)
    if found is None:
        found = _search_support(potential, tail, cases[0::2], cases[1::2])
        if len(kept) >= MOST_KEPT:
            kept.clear()
        if cases.shape[1] <= LARGEST_KEPT:
            kept[key] = found
    low, high = (end[owner.reshape(-1)].reshape(shape) for end in found)
    return (low, high) if shape else (float(low), float(high))


def find_scale(potential: Potential, name: str) -> float:
    """Find how sharp a density is along a variable, at its peaks for some values of the parents; 0 if it can't be told.

    Examples
    --------
    >>> from hybridbn.potentials.gaussian import LinearGaussian
    >>> x, y = Continuous("x"), Continuous("y")
    >>> potential = LinearGaussian(y, (x,), intercept=0, coefficients=[10], variance=4)
    >>> 1 < find_scale(potential, "y") < 3 and 0.1 < find_scale(potential, "x") < 0.3
    True
    """
    kept = vars(potential).setdefault("_found_scales", {})
    place = potential.scope.index(name)
    if place not in kept:
        kept[place] = _measure_scale(potential, name) if isinstance(potential.variable(name), Continuous) else math.inf
    return float(kept[place])


def _measure_scale(potential: Potential, name: str) -> float:
    child = potential.child
    cases = list(itertools.product(*(typical_values(potential, parent) for parent in potential.parents)))
    cases = cases[:: max(1, len(cases) // MOST_POINTS)]
    given = {p.name: np.array(column) for p, column in zip(potential.parents, zip(*cases, strict=True), strict=True)}
    if isinstance(child, Discrete):
        rows = len(cases)
        given = {n: np.tile(values, len(child)) for n, values in given.items()}
        given[child.name] = np.repeat(np.arange(len(child)), rows)
    else:
        for reach in REACHES:
            try:
                found = find_modes(potential, given, reach, 0.0)
            except NetworkError:  # a function may be undefined so far out
                continue
            if name == child.name:
                # what was not found may be narrower
                missing = (lay_cells(potential, given, 0.0).totals < 1 - MASS_TOLERANCE).any()
                return 0.0 if missing else float(found.width.min()) / 2
            given[child.name] = found.peak
            break
        else:
            return 0.0
    start = given.pop(name)
    least, most = (np.full(len(start), end) for end in potential.support(name, 0.0))
    logs = partial(evaluate, potential, given, np.arange(len(start)), log=True, along=name)
    try:
        # a peak beside a jump is as wide as it is on its other side
        below, above = (find_decay_distance(logs, start, least, most, sign) for sign in (-1, 1))
        return float(np.maximum(below, above).min()) / 2
    except NetworkError:
        return 0.0


def zero_mass_error(potential: Potential, given: Mapping[str, Any]) -> NetworkError:
    """Return the error for a density that seems to be zero everywhere."""
    where = describe_point(potential, dict(given))
    return NetworkError(
        f"{potential.child.name!r}: its {type(potential).__name__} was zero everywhere it was looked"
        f" at{where and ' for '}{where}; give support=(low, high), or breaks= at its peaks, so that its mass is found"
    )


def typical_values(potential: Potential, parent: Variable) -> list[Any]:
    """Return the codes of a parent, or some values in ascending order: between breaks too, where there are any."""
    if isinstance(parent, Discrete):
        return list(range(len(parent)))
    low, high = (float(end) for end in potential.support(parent.name, 0.0))
    if math.isfinite(low) and math.isfinite(high):
        choices = [low + share * (high - low) for share in (0.1, 0.5, 0.9)]
    elif math.isfinite(low) or math.isfinite(high):
        choices = sorted(low + step if math.isfinite(low) else high - step for step in (0.3, 1.0, 3.0))
    else:
        choices = [-1.0, 0.3, 2.0]
    breaks = potential.breaks(parent.name)
    if len(breaks):
        ends = [max(breaks[0] - 1, low), *breaks.tolist(), min(breaks[-1] + 1, high)]
        choices += [0.5 * a + 0.5 * b for a, b in itertools.pairwise(ends) if a < b]
    return sorted(choices)


def _fill_range(potential: Potential, parent: Continuous, within: Mapping[str, Interval]) -> tuple[Values, Values]:
    """Return the range of a parent with what is not known of it filled in."""
    low, high = (np.asarray(end, dtype=np.float64) for end in within.get(parent.name, (-math.inf, math.inf)))
    choices = typical_values(potential, parent)
    low_known, high_known = np.abs(low) < UNKNOWN, np.abs(high) < UNKNOWN
    length = choices[-1] - choices[0]
    bottom, top = potential.support(parent.name, 0.0)
    return (
        np.where(low_known, low, np.where(high_known, np.maximum(high - length, bottom), choices[0])),
        np.where(high_known, high, np.where(low_known, np.minimum(low + length, top), choices[-1])),
    )


def _search_support(potential: Potential, tail: float, low: Values, high: Values) -> tuple[Values, Values]:
    """Find the support for ranges (continuous parents, rows)."""
    failure: NetworkError | None = None
    for inset in (0.0, INSIDE, 0.25):  # a function may be undefined at the ends of its parents' ranges
        shares = inset + (1 - 2 * inset) * _unit_cube_points(int((high > low).any(axis=1).sum()))
        places = np.full((len(low), len(shares)), 0.5)
        places[(high > low).any(axis=1)] = shares.T
        points = low[:, :, None] + (high - low)[:, :, None] * places[:, None, :]
        try:
            return _hull_of_supports(potential, tail, np.clip(points, low[:, :, None], high[:, :, None]))
        except NetworkError as error:
            failure = failure or error
    assert failure is not None
    raise failure


def _hull_of_supports(potential: Potential, tail: float, points: Values) -> tuple[Values, Values]:
    """Return the hull of the supports at points (continuous parents, rows, places) and all states."""
    states = [range(len(parent)) for parent in potential.parents if isinstance(parent, Discrete)]
    combos = math.prod(map(len, states))
    codes = np.array(list(itertools.product(*states)), dtype=np.intp).reshape(combos, len(states)).T
    shape = points.shape[1], points.shape[2], combos
    numbers = iter(np.broadcast_to(points[..., None], (len(points), *shape)).reshape(len(points), math.prod(shape)))
    chosen = iter(np.broadcast_to(codes[:, None, None, :], (len(codes), *shape)).reshape(len(codes), math.prod(shape)))
    given: dict[str, NDArray[Any]] = {
        parent.name: next(chosen) if isinstance(parent, Discrete) else next(numbers) for parent in potential.parents
    }
    low, high = (end.reshape(shape) for end in find_row_supports(potential, given, tail))
    unseen = np.isnan(low).all(axis=1)
    if unseen.any():
        row, combo = np.argwhere(unseen)[0]
        middle = np.ravel_multi_index((row, shape[1] // 2, combo), shape)
        raise zero_mass_error(potential, {name: values[middle] for name, values in given.items()})
    bottom, top = np.nanmin(low, axis=1), np.nanmax(high, axis=1)
    room = MARGIN * ((top - bottom) - np.nanmax(high - low, axis=1))
    bottom, top = (bottom - room).min(axis=1), (top + room).max(axis=1)
    least, most = potential.support(potential.child.name, 0.0)
    near = NEAR_END * (top - bottom)
    # an end of the domain so near is worth the few cells more
    return np.where(bottom - near < least, least, bottom), np.where(top + near > most, most, top)


def _unit_cube_points(parents: int) -> Values:
    """Return places in a unit cube (places, parents): a grid, or the corner, middle and centers of the sides."""
    each = VALUES_PER_PARENT.get(parents, FEWER_VALUES)
    if each**parents <= MOST_POINTS:
        return np.array(list(itertools.product(np.linspace(0, 1, each), repeat=parents))).reshape(
            each**parents, parents
        )
    sides = np.full((2 * parents, parents), 0.5)
    sides[np.arange(2 * parents), np.arange(2 * parents) % parents] = np.repeat([0.0, 1.0], parents)
    return np.concatenate(
        (np.zeros((1, parents)), sides[:parents], np.full((1, parents), 0.5), sides[parents:], np.ones((1, parents)))
    )


def integrate_bins(potential: Potential, given: Axes, edges: Values) -> Values:
    """Integrate over the bins for every row, by the cells that are laid for sampling; all beyond the inner edges is in
    the outer bins.
    """
    rows, inner = len(next(iter(given.values()))) if given else 1, np.asarray(edges, dtype=np.float64)[1:-1]
    result = np.zeros((rows, len(edges) - 1))
    step = max(1, EDGES // len(edges))
    for start in range(0, rows, step):
        some = {name: values[start : start + step] for name, values in given.items()}
        cells = lay_cells(potential, some)
        _refuse_improper(potential, some, cells.totals, 1e-3)
        owner = np.repeat(np.arange(len(cells.low)), len(inner))
        below = _integrate_below(potential, some, cells, owner, np.tile(inner, len(cells.low)))
        reached = np.concatenate((below.reshape(len(cells.low), -1), cells.totals[:, None]), axis=1)
        result[start : start + step] = np.diff(reached, axis=1, prepend=0.0)
    return result


def _integrate_below(
    potential: Potential, given: Axes, cells: IntegrationCells, owner: Codes, values: Values
) -> Values:
    """Return the mass of some rows' cells below values."""
    # cells that fill up short rows have no width, and are at zero
    high = np.where(cells.high > cells.low, cells.high, -np.inf)
    last = np.argmax(high, axis=1)
    points = np.clip(values, cells.low[owner, 0], high[owner, last[owner]])
    place = np.minimum(((high[owner] < points[:, None]) & np.isfinite(high[owner])).sum(axis=1), last[owner])
    before = np.where(place > 0, cells.reached[owner, np.maximum(place - 1, 0)], 0.0)
    parts, _ = integrate_cells(potential, given, owner, cells.low[owner, place], points)
    return np.asarray(before + parts)
