"""What any density can do without a formula of its own: be integrated, inverted and sampled from its values alone.

The conditional of a continuous child is integrated per row on cells laid around its peak, which is searched in the
logarithm of the density, around the declared breaks, and within the declared support; cells are halved until
Gauss-Legendre quadrature agrees with itself. Inverting solves for the mass inside one cell; where little mass is left
outside, on both sides, the support ends.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hybridbn.errors import NetworkError
from hybridbn.potentials.base import Axes, Potential, frozen
from hybridbn.variables import Codes, Continuous, Discrete, Values

__all__ = ["integrate", "ppf", "search", "solve", "supports"]

NODES, WEIGHTS = (frozen(array) for array in np.polynomial.legendre.leggauss(10))
ENDS = frozen([2.0**-30 - 1, 1 - 2.0**-30])
EXTRAPOLATION = frozen(
    np.polynomial.legendre.legvander(ENDS, 9) @ np.linalg.inv(np.polynomial.legendre.legvander(NODES, 9))
)
TAIL = 1e-16
CELL_TOLERANCE = 1e-14
HIDDEN_TOLERANCE = 1e-10
MASS_TOLERANCE = 1e-6
STEPS = frozen(np.exp2(np.concatenate((np.arange(40.0), np.arange(40.0, 200.0, 4)))))
"""Distances of edges from the peak, in widths of it: heavy tails, and tails of a pole, reach far."""
REACHES = (100, 20, 8)
"""How far peaks are searched from 0 and from the parents' values, as powers of two."""
DIGITS = (3, 4)
DECADES = (-6, 10)
"""A density that is zero wherever it was looked at is sought at numbers of so many digits, and these distances."""
FARTHEST = 2.0**44
"""A support ends at the latest so many times the distance of the quartiles away: some tails have no end."""
PARTS = 16
ROWS = 256
CELLS = 1 << 16


def ppf(potential: Potential, uniforms: Values, given: Axes, tail: float = TAIL) -> NDArray[Any]:
    """Invert the conditional cdf of any potential, by its values alone; see `Potential.ppf`.

    At 0 and 1 a continuous child gives the ends of its domain. The `tail` is what the potential's support is asked for;
    0 asks for the bounds of the support, and is for potentials that have no other than the one found by `supports`.

    Examples
    --------
    >>> from hybridbn.potentials.gaussian import LinearGaussian
    >>> x, y = Continuous("x"), Continuous("y")
    >>> potential = LinearGaussian(y, (x,), intercept=0, coefficients=[1], variance=4)
    >>> ppf(potential, np.array([0.5, 0.975]), {"x": np.array([3.0, 1000.0])}).round(8)
    array([ 3. , 1003.91992797])
    """
    uniforms = np.asarray(uniforms, dtype=np.float64)
    if isinstance(potential.child, Discrete):
        return _states(potential, len(potential.child), uniforms, given)
    result = np.empty(len(uniforms))
    for chosen, owner, distinct in _chunks(potential, len(uniforms), given):
        cells = _cells(potential, distinct, tail)
        _refuse_improper(potential, distinct, cells.totals)
        result[chosen] = _invert(potential, distinct, cells, owner, uniforms[chosen])
    low, high = potential.child.domain
    return np.where(uniforms <= 0, low, np.where(uniforms >= 1, high, result))


def integrate(potential: Potential, given: Axes, rows: int = 1, tail: float = TAIL) -> Values:
    """Return the mass of a continuous child for every row of the parents: 1 if the potential is a conditional density.

    The `tail` is that of `ppf`.

    Examples
    --------
    >>> from hybridbn.potentials.gaussian import LinearGaussian
    >>> bool(abs(integrate(LinearGaussian(Continuous("x"), intercept=-50, variance=1e-8), {})[0] - 1) < 1e-12)
    True
    """
    result = np.empty(len(next(iter(given.values()))) if given else rows)
    for chosen, owner, distinct in _chunks(potential, len(result), given):
        result[chosen] = _cells(potential, distinct, tail).totals[owner]
    return result


def supports(potential: Potential, given: Axes, tail: float) -> tuple[Values, Values]:
    """Find where a continuous child lies for every row of the parents, by the values of the density alone.

    Less than `tail` of the mass found is outside; NaN where nothing was found. Very heavy tails are cut far out.

    Examples
    --------
    >>> from hybridbn.potentials.gaussian import LinearGaussian
    >>> low, high = supports(LinearGaussian(Continuous("x"), intercept=-50, variance=1e-8), {}, 1e-12)
    >>> bool(-50.001 < low[0] < -50.0007 < -49.9993 < high[0] < -49.999)
    True
    """
    rows = len(next(iter(given.values()))) if given else 1
    low, high = np.empty(rows), np.empty(rows)
    for chosen, owner, distinct in _chunks(potential, rows, given):
        ends = _ends(potential, distinct, _cells(potential, distinct, 0.0), tail)
        low[chosen], high[chosen] = (end[owner] for end in ends)
    return low, high


def search(cumulative: Values, starts: Codes, states: int, uniforms: Values) -> Codes:
    """Find for every row the first state whose cumulative probability reaches ``uniforms * total``.

    Binary search in ``cumulative[start : start + states]``, all rows at once. States of probability zero are never
    found: at 0 the first possible state is, and a total that rounding leaves below 1 is reached by the last one.

    Examples
    --------
    >>> search(np.array([0.0, 0.25, 0.25, 1.0]), np.zeros(4, int), 4, np.array([0.0, 0.25, 0.26, 1.0]))
    array([1, 1, 3, 3])
    """
    wanted = np.maximum(uniforms * cumulative[starts + states - 1], np.nextafter(0.0, 1.0))
    low = np.zeros(len(uniforms), dtype=np.intp)
    high = np.full(len(uniforms), states - 1, dtype=np.intp)
    for _ in range(max(states - 1, 1).bit_length()):
        middle = (low + high) // 2
        below = cumulative[starts + middle] < wanted
        low = np.where(below, np.minimum(middle + 1, high), low)
        high = np.where(below, high, middle)
    return low


def solve(
    evaluate: Callable[[Values, Codes], tuple[Values, Values]],
    target: Values,
    low: Values,
    high: Values,
    start: Values,
    tolerance: float = 1e-14,
) -> Values:
    """Solve ``f(x) = target`` for increasing functions by Newton steps kept inside a shrinking bracket.

    Parameters
    ----------
    evaluate : callable
        Takes points and the numbers of the problems they belong to; returns values and slopes.
    target, low, high, start : ndarray (problems,)

    Examples
    --------
    >>> solve(lambda x, _: (x**3, 3 * x**2), np.array([8.0, 27.0]), np.zeros(2), np.full(2, 5.0), np.ones(2)).round(9)
    array([2., 3.])
    """
    x, low, high = np.clip(start, low, high), low.copy(), high.copy()
    with np.errstate(over="ignore"):
        step = high - low
    active = np.arange(len(x))
    for _ in range(200):
        at = x[active]
        value, slope = evaluate(at, active)
        gap = value - target[active]
        low[active] = bottom = np.where(gap <= 0, at, low[active])
        high[active] = top = np.where(gap >= 0, at, high[active])
        with np.errstate(all="ignore"):
            newton = at - gap / slope
            # a Newton step that leaves the bracket, or does not halve the step before last, gives way to bisection
            good = (newton > bottom) & (newton < top) & (np.abs(2 * gap) <= np.abs(step[active] * slope))
        ahead = np.where(good, newton, 0.5 * bottom + 0.5 * top)
        ahead = np.where(np.abs(gap) <= tolerance, at, ahead)
        step[active], x[active] = ahead - at, ahead
        going = (np.abs(gap) > tolerance) & (np.abs(ahead - at) > 1e-16 * np.abs(at)) & (top > bottom)
        active = active[going]
        if not len(active):
            break
    return x


# -- discrete children --------------------------------------------------------------------------------------------


def _states(potential: Potential, states: int, uniforms: Values, given: Axes) -> Codes:
    result = np.empty(len(uniforms), dtype=np.intp)
    step = max(1, (1 << 20) // states)
    for start in range(0, len(uniforms), step):
        block = slice(start, start + step)
        axes = {name: np.asarray(values)[None, block] for name, values in given.items()}
        values, _ = potential.on({**axes, potential.child.name: np.arange(states)})
        rows = len(uniforms[block])
        table = np.broadcast_to(values.reshape(states, -1), (states, rows))
        # the scale of a row cancels, because only shares of its total count
        cumulative = np.cumsum(table, axis=0).T.reshape(-1)
        result[block] = search(cumulative, np.arange(rows) * states, states, uniforms[block])
    return result


# -- continuous children ------------------------------------------------------------------------------------------


class _Cells(NamedTuple):
    """Cells of every row in increasing order, (rows, cells); those that fill up short rows are empty."""

    low: Values
    high: Values
    masses: Values
    reached: Values
    """The mass up to the end of the cell."""

    @property
    def totals(self) -> Values:
        return np.asarray(self.reached[:, -1])


def _chunks(potential: Potential, rows: int, given: Axes) -> Iterator[tuple[Codes, Codes, Axes]]:
    """Yield rows, the distinct case that each belongs to, and the distinct cases: equal cases are laid out once."""
    names = [parent.name for parent in potential.parents]
    if not names:
        yield np.arange(rows), np.zeros(rows, dtype=np.intp), {}
        return
    together = np.stack([np.asarray(given[name], dtype=np.float64) for name in names], axis=1)
    cases, owner = np.unique(together, axis=0, return_inverse=True)
    owner = owner.reshape(-1)
    order = np.argsort(owner, kind="stable")
    for start in range(0, len(cases), ROWS):
        first, last = np.searchsorted(owner[order], (start, start + ROWS))
        chosen = order[first:last]
        columns = {
            parent.name: column.astype(np.intp) if isinstance(parent, Discrete) else column
            for parent, column in zip(potential.parents, cases[start : start + ROWS].T, strict=True)
        }
        yield chosen, owner[chosen] - start, columns


def _evaluate(potential: Potential, given: Axes, rows: Codes, points: Values, log: bool = False) -> Values:
    """Evaluate at points (nodes, cells) of the child, cell ``j`` with the parents of ``rows[j]``."""
    axes = {name: values[rows][None, :] for name, values in given.items()} | {potential.child.name: points}
    with np.errstate(all="ignore"):  # points may be very far out; what matters is checked below
        if log:
            return np.asarray(potential.log_on(axes).reshape(points.shape))
        values, log_scale = potential.on(axes)
        density = (values * np.exp(log_scale)).reshape(points.shape)
    wrong = ~((density >= 0) & (density < np.inf))
    if wrong.any():
        node, cell = np.argwhere(wrong)[0]
        where = {potential.child.name: points[node, cell], **{n: v[rows][cell] for n, v in given.items()}}
        raise NetworkError(
            f"{potential.child.name!r}: its {type(potential).__name__} is {float(density[node, cell])!r} at "
            f"{_named(potential, where)}; a density can't be negative, infinite or NaN"
        )
    return np.asarray(density)


def _named(potential: Potential, point: dict[str, Any]) -> str:
    words = []
    for name, value in point.items():
        variable = potential.variable(name)
        words.append(f"{name}={variable.states[int(value)] if isinstance(variable, Discrete) else float(value)!r}")
    return ", ".join(words)


def _integrals(potential: Potential, given: Axes, rows: Codes, low: Values, high: Values) -> tuple[Values, Values]:
    """Integrate over cells; also tell what a jump near an end, between the nodes and the end, could have hidden."""
    result, hidden = np.empty(len(low)), np.empty(len(low))
    for start in range(0, len(low), CELLS):
        block = slice(start, start + CELLS)
        half = 0.5 * (high[block] - low[block])
        points = low[block] + half * (1 + np.concatenate((NODES, ENDS))[:, None])
        density = _evaluate(potential, given, rows[block], points)
        result[block] = half * (WEIGHTS @ density[: len(NODES)])
        surprise = np.abs(density[len(NODES) :] - EXTRAPOLATION @ density[: len(NODES)])
        hidden[block] = half * (1 + NODES[0]) * surprise.sum(axis=0)
    return result, hidden


def _cells(potential: Potential, given: Axes, tail: float = TAIL) -> _Cells:
    """Lay cells, looking less far where a function fails far out, such as exp(x) / (1 + exp(x))**2 at 1000."""
    failure: NetworkError | None = None
    for reach in REACHES:
        try:
            return _cells_within(potential, given, reach, tail)
        except NetworkError as error:
            failure = failure or error
    raise failure or NetworkError(f"{potential.child.name!r} can't be integrated")


def _cells_within(potential: Potential, given: Axes, reach: int, tail: float) -> _Cells:
    edges = _edges(potential, given, reach, tail)
    rows = edges.shape[1]
    owner = np.tile(np.arange(rows), len(edges) - 1)
    low, high = edges[:-1].ravel(), edges[1:].ravel()
    wide = high > low
    owner, low, high = owner[wide], low[wide], high[wide]
    whole, _ = _integrals(potential, given, owner, low, high)
    done: list[tuple[Codes, Values, Values, Values]] = []
    for _ in range(64):  # after so many halvings any interval is down to neighboring doubles
        middle = low + 0.5 * (high - low)
        left, hidden_left = _integrals(potential, given, owner, low, middle)
        right, hidden_right = _integrals(potential, given, owner, middle, high)
        fine = np.abs(left + right - whole) <= CELL_TOLERANCE + 4e-16 * whole
        fine &= hidden_left + hidden_right <= HIDDEN_TOLERANCE
        fine |= ~((middle > low) & (middle < high))
        both = np.concatenate((fine, fine))
        owner, low, high = np.tile(owner, 2), np.concatenate((low, middle)), np.concatenate((middle, high))
        whole = np.concatenate((left, right))
        done.append((owner[both], low[both], high[both], whole[both]))
        owner, low, high, whole = owner[~both], low[~both], high[~both], whole[~both]
        if not len(owner):
            break
    else:
        done.append((owner, low, high, whole))
    return _arranged(rows, *(np.concatenate(part) for part in zip(*done, strict=True)))


def _arranged(rows: int, owner: Codes, low: Values, high: Values, masses: Values) -> _Cells:
    order = np.lexsort((low, owner))
    owner, low, high, masses = owner[order], low[order], high[order], masses[order]
    counts = np.bincount(owner, minlength=rows)
    width = max(int(counts.max(initial=0)), 1)
    place = np.arange(len(owner)) - (np.cumsum(counts) - counts)[owner]
    table = np.zeros((3, rows, width))
    table[:, owner, place] = low, high, masses
    return _Cells(table[0], table[1], table[2], np.cumsum(table[2], axis=1))


def _ends(potential: Potential, given: Axes, cells: _Cells, tail: float) -> tuple[Values, Values]:
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
        edges = start + (stop - start) * np.linspace(0, 1, PARTS + 1)[:, None]
        low, high = (edges[1:], edges[:-1]) if backward else (edges[:-1], edges[1:])
        parts, _ = _integrals(potential, given, np.tile(rows, PARTS), low.ravel(), high.ravel())
        beyond = before + np.cumsum(parts.reshape(PARTS, -1), axis=0)
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


def _invert(potential: Potential, given: Axes, cells: _Cells, owner: Codes, uniforms: Values) -> Values:
    result = np.empty(len(owner))
    step = max(1, (1 << 20) // cells.low.shape[1])
    for start in range(0, len(owner), step):
        block = slice(start, start + step)
        rows = owner[block]
        target = uniforms[block] * cells.totals[rows]
        place = np.minimum((cells.reached[rows] < target[:, None]).sum(axis=1), cells.low.shape[1] - 1)
        low, high = cells.low[rows, place], cells.high[rows, place]
        before = np.where(place > 0, cells.reached[rows, np.maximum(place - 1, 0)], 0.0)
        inside, mass = target - before, cells.reached[rows, place] - before

        def partly(x: Values, active: Codes, rows: Codes = rows, low: Values = low) -> tuple[Values, Values]:
            half = 0.5 * (x - low[active])
            points = np.concatenate((low[active] + half * (1 + NODES[:, None]), x[None, :]))
            density = _evaluate(potential, given, rows[active], points)
            return half * (WEIGHTS @ density[:-1]), density[-1]

        share = np.divide(inside, mass, out=np.zeros_like(mass), where=mass > 0)
        result[block] = solve(partly, inside, low, high, low + share * (high - low))
    return result


def _refuse_improper(potential: Potential, given: Axes, totals: Values) -> None:
    wrong = ~(np.abs(totals - 1) <= MASS_TOLERANCE)
    if wrong.any():
        row = int(np.flatnonzero(wrong)[0])
        where = _named(potential, {name: values[row] for name, values in given.items()})
        raise NetworkError(
            f"{potential.child.name!r}: the mass of its {type(potential).__name__}{where and ' at '}{where} was found to "
            f"be {float(totals[row]):.9g}, not 1; correct the density, or let its breaks() and support() say where it lies"
        )


# -- where the mass of a row lies ---------------------------------------------------------------------------------


def _edges(potential: Potential, given: Axes, reach: int, tail: float) -> Values:
    """Return edges of cells (edges, rows), some of them equal: the breaks, and doubling steps away from the peak."""
    child = potential.child
    if not isinstance(child, Continuous):
        raise NetworkError(f"{child.name!r} is discrete; only continuous children are integrated")
    rows = len(next(iter(given.values()))) if given else 1
    within = {p.name: (given[p.name], given[p.name]) for p in potential.parents if isinstance(p, Continuous)}
    low, high = (np.broadcast_to(end, (rows,)).astype(float) for end in potential.support(child.name, tail, within))
    breaks = np.asarray(potential.breaks(child.name, within), dtype=np.float64)
    breaks = np.broadcast_to(breaks if breaks.ndim == 2 else breaks[:, None], (len(breaks), rows))
    breaks = np.clip(breaks, low, high)
    anchors = [given[p.name] for p in potential.parents if isinstance(p, Continuous)]
    anchors.insert(0, np.where(np.isfinite(low), low, np.where(np.isfinite(high), high, 0.0)))
    if reach < REACHES[0]:
        low = np.maximum(low, np.min(anchors, axis=0) - 2.0**reach)
        high = np.minimum(high, np.max(anchors, axis=0) + 2.0**reach)
    # from the outermost breaks outwards; the marks beside the breaks are dense between them
    anchors += list(breaks[[0, -1]] if len(breaks) else breaks)
    marks = np.concatenate((_beside(breaks, low, high), _around(anchors, low, high, reach)))
    marks = _sought(potential, given, low, high, marks, anchors, reach)
    peak = _peak(potential, given, low, high, marks)
    width = _width(potential, given, low, high, peak)
    away = STEPS[:, None] * width
    ends = np.stack([end for end in (low, high) if np.isfinite(end).all()] or [peak])
    with np.errstate(over="ignore"):
        edges = np.concatenate((peak - away, peak[None, :], peak + away, breaks, ends))
    edges = np.clip(edges, np.maximum(low, -1e300), np.minimum(high, 1e300))
    return np.sort(edges, axis=0)


def _peak(potential: Potential, given: Axes, low: Values, high: Values, marks: Values) -> Values:
    """Climb the logarithm of the density on ever finer grids; it shows the way from far off, where it is smooth."""
    rows = np.arange(len(low))
    bounded = np.isfinite(low) & np.isfinite(high)
    with np.errstate(invalid="ignore"):
        even = np.where(bounded, low, 0) + np.where(bounded, high - low, 0) * (np.arange(200.0)[:, None] + 0.5) / 200
    grid = np.concatenate((even, marks)) if bounded.any() else marks
    grid = np.sort(np.where((grid > low) & (grid < high), grid, _inner(low, high)), axis=0)
    for _ in range(18):
        logs = _evaluate(potential, given, rows, grid, log=True)
        # neither NaN nor a pole, which may be integrable, is a peak to lay cells around
        best = np.argmax(np.where(logs < np.inf, logs, -np.inf), axis=0)
        found = grid[best, rows]
        # neighbors that differ from it, for points may occur twice
        before = np.max(grid, axis=0, initial=-np.inf, where=grid < found)
        after = np.min(grid, axis=0, initial=np.inf, where=grid > found)
        before, after = np.where(np.isfinite(before), before, found), np.where(np.isfinite(after), after, found)
        # uneven shares, which do not lead back to an anchor between two points
        sides = np.array([0.0, 0.11, 0.23, 0.36, 0.48, 0.61, 0.74, 0.87, 1.0])[:, None]
        grid = np.concatenate((before + (found - before) * sides, (found + (after - found) * sides)[1:]))
    return np.asarray(found)


def _sought(
    potential: Potential, given: Axes, low: Values, high: Values, marks: Values, anchors: Sequence[Values], reach: int
) -> Values:
    """Add marks in rows where nothing is seen at any: a narrow density that underflows everywhere but near its peak.

    Its center may be a number somebody wrote down, away from 0 or from a parent's value: numbers of few digits are tried.
    """
    rows = np.arange(len(low))
    # a finite interval is looked through evenly
    lost = ~np.isfinite(high - low)
    if lost.any() and len(marks):
        lost[lost] = _blank(
            _evaluate(potential, _taken(given, rows[lost]), rows[: lost.sum()], marks[:, lost], log=True)
        )
    if not lost.any():
        return marks
    found = np.where(lost, _inner(low, high), np.nan) + np.zeros((3, 1))
    for digits in DIGITS:
        away = _numbers(digits, reach)
        steps = np.concatenate((-away[::-1], away))
        for row in np.flatnonzero(lost):
            points = np.unique(np.concatenate([anchor[row] + steps for anchor in anchors]))
            points = points[(points > low[row]) & (points < high[row])]
            logs = _evaluate(potential, _taken(given, rows[row : row + 1]), rows[:1], points[:, None], log=True)[:, 0]
            if len(points) > 2 and not _blank(logs):
                best = int(np.clip(np.argmax(np.where(logs < np.inf, logs, -np.inf)), 1, len(points) - 2))
                found[:, row] = points[best - 1 : best + 2]
                lost[row] = False
    return np.concatenate((marks, np.where(np.isnan(found), marks[:1], found)))


def _blank(logs: Values) -> NDArray[np.bool_]:
    return np.asarray(~((logs > -np.inf) & (logs < np.inf)).any(axis=0))


def _taken(given: Axes, rows: Codes) -> Axes:
    return {name: np.asarray(values)[rows] for name, values in given.items()}


def _numbers(digits: int, reach: int) -> Values:
    """Return the positive numbers of so many digits, within so many powers of two, ascending."""
    mantissas = np.arange(10.0 ** (digits - 1), 10.0**digits)
    numbers = [
        mantissas / 10.0 ** (digits - 1 - e) if e < digits else mantissas * 10.0 ** (e - digits + 1)
        for e in range(*DECADES)
    ]
    together = np.concatenate(numbers)
    return together[together <= 2.0**reach]


def _inner(low: Values, high: Values) -> Values:
    """Return some point inside each interval; ends are left alone, because a density may have a pole there."""
    with np.errstate(invalid="ignore"):
        one_end = np.where(np.isfinite(low), low + 1, np.where(np.isfinite(high), high - 1, 1.0))
        return np.where(np.isfinite(low) & np.isfinite(high), 0.5 * low + 0.5 * high, one_end)


def _beside(breaks: Values, low: Values, high: Values) -> Values:
    """Return points between neighboring breaks, also very near to them, but not the breaks."""
    if not len(breaks):
        return breaks
    breaks = np.sort(
        np.concatenate((np.maximum(breaks[:1] - 1, low), breaks, np.minimum(breaks[-1:] + 1, high))), axis=0
    )
    near = np.exp2([-40.0, -30, -20, -10, -5, -2])
    shares = np.concatenate((near, [0.5], 1 - near))[:, None, None]
    return np.asarray((breaks[:-1] + shares * np.diff(breaks, axis=0)).reshape(-1, breaks.shape[1]))


def _around(anchors: Sequence[Values], low: Values, high: Values, reach: int) -> Values:
    """Return points at distances of powers of two from the anchors, but not the anchors.

    A density that underflows to 0 far from its center shows no way; most have their center at 0 or a parent's value.
    """
    away = np.exp2(np.arange(-40.0, reach))
    steps = np.concatenate((-away[::-1], away))[:, None]
    inside = [anchor + steps for anchor in anchors]
    return np.concatenate([np.where((points > low) & (points < high), points, _inner(low, high)) for points in inside])


def _width(potential: Potential, given: Axes, low: Values, high: Values, peak: Values) -> Values:
    """Return how far from the peak the density has fallen by a factor e on both sides; an end of the domain counts."""
    rows = np.arange(len(low))
    # not exactly powers of two, which lead back to the anchors
    away = 1.00001 * np.exp2(np.arange(-70, 70.0))[:, None]
    top = _evaluate(potential, given, rows, peak[None, :], log=True)
    fallen = np.ones((len(away), len(rows)), dtype=bool)
    for sign in (-1, 1):
        points = peak + sign * away
        inside = (points > low) & (points < high)
        logs = _evaluate(potential, given, rows, np.where(inside, points, peak), log=True)
        with np.errstate(invalid="ignore"):
            fallen &= ~inside | ~(logs > top - 1)
    first = np.argmax(fallen, axis=0)
    with np.errstate(invalid="ignore"):
        whole = np.where(np.isfinite(high - low), (high - low) / 4, 1.0)
    return np.where(fallen.any(axis=0), away[first, 0], whole)
