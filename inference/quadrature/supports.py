"""How far each continuous variable reaches, by its prior and by what is observed right below it.

Peaks of what is known by its values alone: where quadrature has to look closely, or farther out than the prior reaches.

A likelihood given as a function, an observed child of a family that says nothing of its scale and a density without
declared breaks may be much narrower than the range of the variable, or lie beyond it. They are looked through evenly
within the range and at growing distances outside; the highest places are climbed, and edges are laid around them at
multiples of the distance at which the function falls. Where nothing is seen, numbers of few digits are tried too. Of
several peaks, one that is narrower than the even steps and zero in double precision beside it can be missed.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from hybridbn.errors import NetworkError, TableError
from hybridbn.inference.evidence import Evidence, Finding
from hybridbn.inference.problem import Problem
from hybridbn.potentials.base import Interval, Potential
from hybridbn.potentials.mode_search import climb, evaluate, find_decay_distance, round_numbers
from hybridbn.variables import Continuous, Discrete, Values

__all__ = [
    "ModeEdges",
    "clip_to_support",
    "find_evidence_ranges",
    "find_modes",
    "find_modes_along",
    "find_prior_ranges",
    "ranges_of_others",
]


def find_prior_ranges(problem: Problem) -> dict[str, tuple[float, float, bool, bool]]:
    """Return for every continuous variable an interval that holds the prior, and whether the density may go on
    beyond.
    """
    ranges: dict[str, tuple[Values, Values]] = {}
    result = {}
    for name in _sort_topologically(problem.potentials):
        potential = problem.potentials[name]
        if isinstance(potential.child, Continuous):
            within = ranges_of_others(potential, name, ranges)
            low, high = _expand_interval(potential.support(name, 1e-17, within), 1)
            least, most = _expand_interval(potential.support(name, 0.0), 1)
            ranges[name] = low, high
            result[name] = (float(low[0]), float(high[0]), bool(low[0] > least[0]), bool(high[0] < most[0]))
    return result


def find_evidence_ranges(problem: Problem, evidence: Evidence) -> dict[str, tuple[Values, Values]]:
    """Return for every continuous variable an interval (rows each) that holds prior and likelihood."""
    rows = evidence.rows
    ranges: dict[str, tuple[Values, Values]] = {}
    for name, finding in evidence.findings.items():
        if isinstance(finding.variable, Continuous) and name in problem.hard:
            ranges[name] = finding.values, finding.values
    ordered = _sort_topologically(problem.potentials)
    for name in ordered:
        potential = problem.potentials[name]
        if not isinstance(potential.child, Continuous) or name in problem.hard:
            continue
        low, high = _expand_interval(potential.support(name, 1e-17, ranges_of_others(potential, name, ranges)), rows)
        ranges[name] = _clip_to_evidence(evidence.findings.get(name), low, high)
    for name in reversed(ordered):
        potential = problem.potentials[name]
        known = _find_confined_rows(problem, name, evidence)
        if not known.any():
            continue
        for parent in potential.parents:
            if not isinstance(parent, Continuous) or parent.name in problem.hard:
                continue
            low, high = ranges[parent.name]
            reach = _expand_interval(
                potential.support(parent.name, 1e-17, ranges_of_others(potential, parent.name, ranges)), rows
            )
            low = np.where(known & np.isfinite(reach[0]), np.minimum(low, reach[0]), low)
            high = np.where(known & np.isfinite(reach[1]), np.maximum(high, reach[1]), high)
            ranges[parent.name] = clip_to_support(problem, parent, low, high, evidence)
    return {name: _clip_range(low, high) for name, (low, high) in ranges.items()}


def _find_confined_rows(problem: Problem, name: str, evidence: Evidence) -> NDArray[np.bool_]:
    """Tell the rows in which a variable is observed, or confined to an interval: its parents may lie far out then.

    What is hidden pulls its parents as far as evidence below pulls it; the grids of these grow where it turns out so.
    """
    if name in problem.hard:
        return np.ones(evidence.rows, dtype=bool)
    finding = evidence.findings.get(name)
    if finding is None:
        return np.zeros(evidence.rows, dtype=bool)
    return finding.confined


def clip_to_support(
    problem: Problem, variable: Continuous, low: Values, high: Values, evidence: Evidence
) -> tuple[Values, Values]:
    """Clip to where the density can be positive at all and to interval evidence."""
    ends = variable.domain
    own = problem.potentials.get(variable.name)
    if own is not None:
        strict = _expand_interval(own.support(variable.name, 0.0), len(low))
        low, high = np.clip(low, *strict), np.clip(high, *strict)
    low, high = _clip_to_evidence(evidence.findings.get(variable.name), low, high)
    return np.clip(low, *ends), np.clip(high, *ends)


def _clip_to_evidence(finding: Finding | None, low: Values, high: Values) -> tuple[Values, Values]:
    """Clip a range to interval evidence, and shrink it to a value where there is one.

    Evidence may lie where the range does not reach, out in the tails: then it starts at the end of the evidence that
    is nearer, and is as long as it was.
    """
    if finding is None:
        return low, high
    reach = finding.reach()
    if reach is not None:
        least, most = reach
        with np.errstate(invalid="ignore"):  # of what is not chosen
            length = high - low
            above, below = least >= high, most <= low
            low, high = (
                np.where(above, least, np.where(below, np.maximum(least, most - length), np.maximum(low, least))),
                np.where(below, most, np.where(above, np.minimum(most, least + length), np.minimum(high, most))),
            )
    return np.where(finding.observed, finding.values, low), np.where(finding.observed, finding.values, high)


def ranges_of_others(
    potential: Potential, name: str, ranges: Mapping[str, tuple[Values, Values]]
) -> dict[str, Interval]:
    """Return the ranges of the other variables of a potential that are known."""
    return {other: ranges[other] for other in potential.scope if other != name and other in ranges}


def _expand_interval(interval: Interval, rows: int) -> tuple[Values, Values]:
    low, high = interval
    return np.broadcast_to(np.asarray(low, float), (rows,)), np.broadcast_to(np.asarray(high, float), (rows,))


def _clip_range(low: Values, high: Values) -> tuple[Values, Values]:
    """Replace infinite ends by large ones and widen empty ranges."""
    return np.clip(low, -1e150, 1e150), np.clip(high, -1e150, 1e150)


def _sort_topologically(potentials: Mapping[str, Potential]) -> list[str]:
    left = {name: {p.name for p in potential.parents} & potentials.keys() for name, potential in potentials.items()}
    below: dict[str, list[str]] = {name: [] for name in potentials}
    for name, above in left.items():
        for parent in above:
            below[parent].append(name)
    ready = [name for name, above in left.items() if not above]
    ordered = []
    while ready:
        name = ready.pop()
        ordered.append(name)
        for child in below[name]:
            left[child].discard(name)
            if not left[child]:
                ready.append(child)
    return ordered


EVEN_STEPS = (1_000, 20_000, 400_000)
"""So many even steps; more only where nothing was seen at all."""
EVEN_STEPS_OF_FUNCTIONS = EVEN_STEPS[1:]
MOST_POINTS = 1 << 22
MOST_MODES = 4
OUTWARD = np.exp2(np.arange(-6.0, 30.0))[:, None]
"""Distances from the range at which to look, in lengths of it."""
EDGES_AROUND_MODE = np.array([0.0, 1.0, 3.0, 9.0, 27.0])[:, None, None]
"""Edges around a peak, in distances at which it falls by a factor e: a normal density is zero in doubles past the last.
"""
NARROW_MODE = 1 / 24
"""Peaks that are wider, relative to the range, need no edges of their own."""
MOST_STATE_CASES = 8
BLOCK = 1024

LogFunctions: TypeAlias = Callable[[Values, NDArray[np.intp]], Values]
"""Logarithms at points (points, columns), where column ``j`` is the function of row ``rows[j]``."""


@dataclass(frozen=True)
class ModeEdges:
    """Edges (edges, rows) around peaks, and the range (rows,) widened to hold them."""

    edges: Values
    low: Values
    high: Values


def find_modes(
    logs: LogFunctions,
    low: Values,
    high: Values,
    least: Values,
    most: Values,
    marks: Values | None = None,
    even: Sequence[int] = EVEN_STEPS,
) -> ModeEdges:
    """Find the peaks of functions of one variable, a function a row.

    Parameters
    ----------
    low, high : ndarray (rows,), the ranges looked through
    least, most : ndarray (rows,), ends past which nothing is
    marks : ndarray (marks, rows), places to look at besides
    even : numbers of even steps, the next one for rows in which nothing was seen

    Examples
    --------
    >>> ends = (np.array([end]) for end in (-8.0, 8.0, -np.inf, np.inf))
    >>> found = find_modes(lambda x, _: -0.5 * ((x - 60) / 1e-4) ** 2, *ends)
    >>> bool(found.low[0] == -8 and 60 < found.high[0] < 60.01 and (abs(found.edges - 60) < 1e-3).any())
    True
    """
    rows = len(low)
    length = high - low
    grid = _make_search_grid(low, high, least, most, marks, even[0])
    values = _replace_poles(logs(grid, np.arange(rows)))
    for steps in even[1:]:
        step = max(1, MOST_POINTS // steps)
        rows_without_values = np.flatnonzero(~np.isfinite(values).any(axis=0))
        for start in range(0, len(rows_without_values), step):
            rows_here = rows_without_values[start : start + step]
            finer = _make_search_grid(
                low[rows_here],
                high[rows_here],
                least[rows_here],
                most[rows_here],
                _short_numbers() if steps == even[-1] else None,
                steps,
            )
            best = np.clip(np.argmax(_replace_poles(logs(finer, rows_here)), axis=0), 1, len(finer) - 2)
            # the best place and its neighbors take the place of any others
            grid[:3, rows_here] = np.take_along_axis(finer, best + np.array([[-1], [0], [1]]), axis=0)
            grid[:, rows_here] = np.sort(grid[:, rows_here], axis=0)
            values[:, rows_here] = _replace_poles(logs(grid[:, rows_here], rows_here))
    nothing = np.full((1, rows), -np.inf)
    before, after = np.concatenate([nothing, values[:-1]]), np.concatenate([values[1:], nothing])
    local_maximum = np.isfinite(values) & (values >= before) & (values > after)
    # what rises without an end is no peak
    local_maximum[0] &= np.isfinite(least)
    local_maximum[-1] &= np.isfinite(most)
    best = np.argsort(-np.where(local_maximum, values, -np.inf), axis=0)[:MOST_MODES]
    is_mode = np.take_along_axis(local_maximum, best, axis=0).ravel()
    columns = np.tile(np.arange(rows), len(best))
    bracket = np.stack(
        [np.take_along_axis(grid, np.clip(best + step, 0, len(grid) - 1), axis=0).ravel() for step in (-1, 0, 1)]
    )
    columns, bracket = columns[is_mode], bracket[:, is_mode]
    if not len(columns):
        return ModeEdges(np.empty((0, rows)), low, high)

    def evaluate_columns(points: Values) -> Values:
        return _replace_poles(logs(points, columns))

    modes = climb(evaluate_columns, bracket)
    below, above = (
        np.minimum(find_decay_distance(evaluate_columns, modes, least[columns], most[columns], sign), length[columns])
        for sign in (-1, 1)
    )
    edges_around = modes + np.stack([-below, above]) * EDGES_AROUND_MODE
    edges_around = np.clip(edges_around, least[columns], most[columns]).reshape(-1, len(columns))
    widened = low.copy(), high.copy()
    np.minimum.at(widened[0], columns, np.where(modes < low[columns], edges_around.min(axis=0), np.inf))
    np.maximum.at(widened[1], columns, np.where(modes > high[columns], edges_around.max(axis=0), -np.inf))
    narrow = np.minimum(below, above) < NARROW_MODE * length[columns]
    edges = np.broadcast_to(low, (len(best) * len(edges_around), rows)).copy()
    rank = np.tile(np.arange(len(best))[:, None], rows).ravel()[is_mode]
    for number in range(len(best)):
        mine = narrow & (rank == number)
        edges[number * len(edges_around) : (number + 1) * len(edges_around), columns[mine]] = edges_around[:, mine]
    return ModeEdges(edges, *widened)


@lru_cache(maxsize=1)
def _short_numbers() -> Values:
    away = round_numbers(3, 30)
    numbers: Values = np.concatenate([-away, [0.0], away])[:, None]
    return numbers


def _make_search_grid(
    low: Values, high: Values, least: Values, most: Values, marks: Values | None, even: int
) -> Values:
    """Return places to look at (places, rows), in ascending order."""
    length = high - low
    with np.errstate(over="ignore", invalid="ignore"):
        inside = low + (np.arange(even)[:, None] + 0.5) / even * length
        grid = np.concatenate([low - OUTWARD[::-1] * length, inside, high + OUTWARD * length])
    grid = np.asarray(np.clip(grid, np.maximum(least, -1e150), np.minimum(most, 1e150)))
    if marks is None or not len(marks):
        return grid
    return np.asarray(np.sort(np.concatenate([grid, np.clip(marks, grid[0], grid[-1])]), axis=0))


def find_modes_along(
    problem: Problem,
    name: str,
    evidence: Evidence,
    ranges: Mapping[str, tuple[Values, Values]],
    ends: tuple[Values, Values],
) -> Iterator[ModeEdges]:
    """Find the peaks along a variable of everything that touches it and is known by its values alone.

    Parameters
    ----------
    ranges : ranges of all continuous variables (rows each); known values have equal ends
    ends : past which the density of the variable is zero
    """
    finding = evidence.findings.get(name)
    if finding is not None and finding.weighted:
        yield _find_modes_of_evidence(finding, ranges[name], ends)
    for potential in problem.potentials.values():
        if name not in potential.scope or not potential.opaque:
            continue
        child = evidence.findings.get(potential.child.name)
        own = potential.child.name == name
        if not own and (child is None or not child.observed.any()):
            continue
        hidden = [
            parent.name
            for parent in potential.parents
            if isinstance(parent, Continuous) and parent.name != name and parent.name not in problem.hard
        ]
        if own and hidden:
            continue
        rows = np.arange(evidence.rows) if own else np.flatnonzero(child.observed if child is not None else ())
        same = own and not potential.parents and all((end == end[:1]).all() for end in (*ranges[name], *ends))
        for start in range(0, len(rows), BLOCK):
            block = rows[start : start + BLOCK]
            for modes in _find_modes_of_potential(
                potential, name, evidence, ranges, ends, block[:1] if same else block
            ):
                edges = np.repeat(ranges[name][0][None], len(modes.edges), axis=0)
                low, high = (end.copy() for end in ranges[name])
                into = rows if same else block
                if not hidden:
                    edges[:, into] = modes.edges
                low[into], high[into] = np.minimum(low[into], modes.low), np.maximum(high[into], modes.high)
                yield ModeEdges(edges, low, high)
            if same:
                break


def _find_modes_of_evidence(
    finding: Finding, interval: tuple[Values, Values], ends: tuple[Values, Values]
) -> ModeEdges:
    """Look along a variable for the peaks of what evidence gives for likelihoods of it."""
    edges_of_rows = []
    weighted = set(finding.list_weighted_rows())
    for row in range(len(finding.values)):
        low, high = (end[row : row + 1] for end in interval)
        if row not in weighted:
            edges_of_rows.append(ModeEdges(np.empty((0, 1)), low, high))
            continue
        own, marks = finding.take(slice(row, row + 1)), finding.breaks(row)[:, None]

        def logs(points: Values, _: NDArray[np.intp], own: Finding = own) -> Values:
            with np.errstate(divide="ignore"):
                return np.asarray(np.log(own.weights(points.reshape(-1, 1)).reshape(points.shape)))

        strict = [end[row : row + 1] for end in ends]
        with np.errstate(all="ignore"):  # overflow far out does not matter
            try:
                modes = find_modes(logs, low, high, strict[0], strict[1], marks, EVEN_STEPS_OF_FUNCTIONS)
            except TableError:  # it may be undefined outside the range
                modes = find_modes(logs, low, high, low, high, marks, EVEN_STEPS_OF_FUNCTIONS)
        edges_of_rows.append(ModeEdges(np.concatenate([modes.edges, marks]), modes.low, modes.high))
    most_edges = max(len(row_edges.edges) for row_edges in edges_of_rows)
    edges = np.concatenate(
        [
            np.concatenate([row_edges.edges, np.full((most_edges - len(row_edges.edges), 1), row_edges.low[0])])
            for row_edges in edges_of_rows
        ],
        1,
    )
    return ModeEdges(
        edges,
        np.concatenate([row_edges.low for row_edges in edges_of_rows]),
        np.concatenate([row_edges.high for row_edges in edges_of_rows]),
    )


def _find_modes_of_potential(
    potential: Potential,
    name: str,
    evidence: Evidence,
    ranges: Mapping[str, tuple[Values, Values]],
    ends: tuple[Values, Values],
    rows: NDArray[np.intp],
) -> Iterator[ModeEdges]:
    """Look along one variable of a potential; what is hidden of the others is in all its states, or in the middle of
    its range.
    """
    given: dict[str, NDArray[Any]] = {}
    free = []
    for variable in potential.variables:
        if variable.name == name:
            continue
        if isinstance(variable, Continuous):
            low, high = (end[rows] for end in ranges[variable.name])
            given[variable.name] = low + (high - low) / 2
        else:
            finding = evidence.findings.get(variable.name)
            given[variable.name] = np.full(len(rows), -1) if finding is None else finding.values[rows]
            if (given[variable.name] < 0).any():
                free.append(variable)
    within = {n: (values, values) for n, values in given.items() if not isinstance(potential.variable(n), Discrete)}
    breaks = np.asarray(potential.breaks(name, within), dtype=np.float64)
    breaks = np.broadcast_to(breaks if breaks.ndim == 2 else breaks[:, None], (len(breaks), len(rows)))
    # many have their center where another variable has its value
    marks = np.concatenate([breaks, *(values[None] for values, _ in within.values())])
    low, high = (end[rows] for end in ranges[name])
    for states in itertools.islice(itertools.product(*(range(len(variable)) for variable in free)), MOST_STATE_CASES):
        filled = dict(given)
        for variable, state in zip(free, states, strict=True):
            filled[variable.name] = np.where(filled[variable.name] < 0, state, filled[variable.name])

        def logs(points: Values, owner: NDArray[np.intp], filled: Mapping[str, Any] = filled) -> Values:
            return evaluate(potential, filled, owner, points, log=True, along=name)

        try:
            yield find_modes(logs, low, high, ends[0][rows], ends[1][rows], marks)
        except NetworkError:  # it may be undefined outside the range
            yield find_modes(logs, low, high, low, high, marks)


def _replace_poles(logs: Values) -> Values:
    """Return logarithms with neither NaN nor poles."""
    return np.where(logs < np.inf, logs, -np.inf)
