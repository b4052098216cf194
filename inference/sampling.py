"""Drawing from a network, given evidence or not.

Variables are drawn one after the other, each from its exact posterior given the evidence and everything drawn before,
so a row is an exact draw from the joint posterior; no draw is weighted or rejected (where exact inference is too wide
and bounds are asked for, some variables are drawn by importance first). Linear Gaussian variables are drawn
last among those with evidence below them, together from their conditional normal distribution. A variable with no
evidence below it is drawn from its own potential. Every row uses uniforms of its own, so neither the size of the batch
nor that of the chunks changes what a row gets.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from itertools import takewhile
from typing import Any

import networkx as nx
import numpy as np
from numpy.typing import NDArray

from hybridbn.errors import ImpossibleEvidence, TooWide
from hybridbn.inference.compilation import Question, Snapshot, problem_of
from hybridbn.inference.elimination.compilers import choose_order
from hybridbn.inference.engines import Solution, choose_plan
from hybridbn.inference.evidence import DistinctRows, Evidence, EvidenceReader, Finding, find_distinct_rows
from hybridbn.inference.queries import read_relevant_evidence
from hybridbn.inference.relevance import ancestors
from hybridbn.inference.solutions import impossible_evidence, posterior_of, solve
from hybridbn.jobs import run_in_threads
from hybridbn.network import Network
from hybridbn.options import Options, check_count, make_generator
from hybridbn.potentials.base import Axes, Potential
from hybridbn.variables import Discrete, Values, Variable

__all__ = ["draw", "draw_jointly", "sample"]

FEW = 8
"""So many variables are drawn in the order of the network, parents before children."""
BLOCK = 1 << 17
"""Rows that are drawn at a time."""
CHEAP = 1e6
"""Tables of fewer cells in all are made without looking for a better order."""
WIDER = 20.0
"""Tables to draw from may have so many times the cells that one table of the network takes."""


def sample(
    network: Network, n: int = 1, random_state: Any = None, evidence: Any = None, options: Options | None = None
) -> Any:
    """Draw rows: `n` for a mapping of evidence, as a DataFrame, or `n` for each row of a table, as the same kind of
    frame.
    """
    network.check()
    n = check_count(n, "the number of rows to draw")
    reader = EvidenceReader(network, evidence)
    read = reader.evidence()
    rows = np.repeat(np.arange(read.rows), n)
    repeated = Evidence(read.take(rows, len(rows)).findings, len(rows), single=False)
    rng = make_generator(random_state)
    uniforms = rng.random((len(rows), len(network))).T
    try:
        codes = draw(network, repeated, uniforms, options or Options())
    except ImpossibleEvidence as problem:
        raise impossible_evidence(sorted({row // n for row in problem.rows}), read.single) from None
    return reader.answer(network.variables, codes, each=n)


def draw_jointly(
    network: Network | Snapshot,
    variables: Sequence[Variable],
    evidence: Evidence,
    uniforms: NDArray[np.float64],
    options: Options,
) -> dict[str, NDArray[Any]]:
    """Draw some variables together, each given the evidence and those drawn before it.

    Parameters
    ----------
    uniforms : ndarray (variables, rows)
    """
    known = dict(evidence.findings)
    drawn = {}
    for variable, levels in zip(variables, uniforms, strict=True):
        values = _conditional(network, variable, Evidence(known, evidence.rows, False), levels, options)
        drawn[variable.name] = values
        known[variable.name] = Finding(variable, values)
    return drawn


def draw(
    network: Network, evidence: Evidence, uniforms: NDArray[np.float64], options: Options
) -> dict[str, NDArray[Any]]:
    """Fill every row: codes or values of all variables, observed ones as they are.

    Parameters
    ----------
    uniforms : ndarray (variables, rows)
        One for each variable, in the order of the network's nodes.
    """
    informed = ancestors(network.pred, evidence.findings)
    known = dict(evidence.findings)
    level = dict(zip(network, uniforms, strict=True))
    order = list(nx.topological_sort(network))
    filled: dict[str, NDArray[Any]] = {}
    closed: list[str] = []
    waiting: list[str] = []
    for name in order:
        finding = known.get(name)
        if finding is not None and finding.hard:
            filled[name] = finding.values
        elif name in informed:
            if _is_closed(network, name, informed, finding):
                closed.append(name)
            elif not _is_discrete_leaf(network, name, informed, finding):
                waiting.append(name)

    def fill(name: str, values: NDArray[Any]) -> None:
        variable, finding = network.variable(name), known.get(name)
        if finding is not None:
            values = np.where(finding.observed, finding.values, values)
        filled[name] = values
        known[name] = Finding(variable, values)

    if waiting and evidence.rows and options.beyond is not None:
        cut = _draw_cut(Snapshot.of(network), frozenset(informed), evidence, level, options)
        if cut:
            for name, values in cut.items():
                fill(name, values)
            return draw(network, Evidence(known, evidence.rows, False), uniforms, options)
    if evidence.rows:
        snapshot = Snapshot.of(network)
        states = list(takewhile(lambda name: isinstance(network.variable(name), Discrete), waiting))
        for name, codes in _draw_states(snapshot, states, frozenset(informed), evidence, level, options).items():
            fill(name, codes)
        for name in _halve_repeatedly([name for name in waiting if name not in filled]):
            given = Evidence(known, evidence.rows, False)
            fill(name, _conditional(snapshot, network.variable(name), given, level[name], options))
    if closed and evidence.rows:
        given = Evidence(known, evidence.rows, False)
        problem = problem_of(network, Question(tuple(closed), only=frozenset(informed)), given)
        for component in {id(part): part for part in problem.component_of.values()}.values():
            for name, values in component.draw(closed, level, given).items():
                fill(name, values)
    for name in order:
        if name not in filled:
            potential = network.potential(name)
            above = {parent.name: filled[parent.name] for parent in potential.parents}
            fill(name, _draw_given_parents(potential, level[name], above, options.jobs))
    return {name: filled[name] for name in order}


def _draw_given_parents(potential: Potential, uniforms: Values, given: Axes, jobs: int) -> NDArray[Any]:
    """Draw a variable with no evidence below it, in blocks of rows."""

    def draw_block(start: int) -> NDArray[Any]:
        block = slice(start, start + BLOCK)
        return potential.ppf(uniforms[block], {name: values[block] for name, values in given.items()})

    if len(uniforms) <= BLOCK:
        return potential.ppf(uniforms, given)
    return np.concatenate(list(run_in_threads(draw_block, range(0, len(uniforms), BLOCK), jobs)))


def _is_discrete_leaf(network: Network, name: str, informed: set[str], finding: Finding | None) -> bool:
    """Tell whether the evidence has nothing but states of a discrete variable and nothing below it: where it is not
    observed, its potential says all.
    """
    return (
        isinstance(network.variable(name), Discrete)
        and (finding is None or finding.plain)
        and informed.isdisjoint(network.succ[name])
    )


def _halve_repeatedly(names: Sequence[str]) -> list[str]:
    """Return names in the order in which they are drawn: many of them from the middle of the rest.

    Each draw has to sum over what is hidden as far as the nearest variables drawn before it. In the order of a long
    chain these sums have the length of the rest of the chain, here that of the interval.
    """
    if len(names) <= FEW:
        return list(names)
    drawn, intervals = [], deque([names])
    while intervals:
        part = intervals.popleft()
        if part:
            middle = len(part) // 2
            drawn.append(part[middle])
            intervals += [part[:middle], part[middle + 1 :]]
    return drawn


def _draw_states(
    network: Snapshot,
    names: Sequence[str],
    informed: frozenset[str],
    evidence: Evidence,
    level: Mapping[str, Values],
    options: Options,
) -> dict[str, NDArray[np.intp]]:
    """Draw hidden discrete variables together, each from a table over those before it on which it depends.

    All tables are computed at once, for each distinct row of the evidence. There are no draws where this would take
    much more work than one table does.
    """
    if not names:
        return {}
    same = find_distinct_rows(evidence, continuous=True)
    if same is None:
        same = DistinctRows(np.arange(evidence.rows), np.arange(evidence.rows))
    distinct = evidence.take(same.first, len(same.first))
    question = Question(only=informed, drawn=tuple(names))
    problem = problem_of(network, question, distinct)
    if problem.order.total > CHEAP:
        best = choose_order(problem.factors, [()], problem.sizes)
        if problem.order.total > WIDER * best.total:
            by_cost = [name for name in reversed(best.names) if name in set(names)]
            question = Question(only=informed, drawn=tuple(by_cost))
            if problem_of(network, question, distinct).order.total > WIDER * best.total:
                return {}
    sampler = _TableSampler(same.inverse, len(same.first), level)
    try:
        solve(network, question, distinct, options, lambda *_: [sampler], compare=False)
    except ImpossibleEvidence as problem:
        rows = np.flatnonzero(np.isin(same.inverse, problem.rows)).tolist()
        raise impossible_evidence(rows, evidence.single) from None
    except TooWide:
        if options.beyond is None:
            raise
        return {}  # one variable after the other
    return sampler.codes


def _draw_cut(
    network: Snapshot,
    informed: frozenset[str],
    evidence: Evidence,
    level: Mapping[str, Values],
    options: Options,
) -> dict[str, NDArray[Any]]:
    """Draw together what is cut or drawn where the network is too wide: one slice or draw for each row, by weight."""
    same = find_distinct_rows(evidence, continuous=True)
    if same is None:
        same = DistinctRows(np.arange(evidence.rows), np.arange(evidence.rows))
    distinct = evidence.take(same.first, len(same.first))
    question = Question(only=informed)
    problem = problem_of(network, question, distinct)
    plan = choose_plan(problem, distinct, options)
    chosen: dict[str, NDArray[Any]] = {}
    impossible: list[int] = []
    for number in range(distinct.rows):
        weighed = plan.weigh(distinct.take(slice(number, number + 1), 1))
        if weighed is None:
            return {}
        parts = list(weighed)
        logs = np.concatenate([part for _, part in parts])
        rows = np.flatnonzero(same.inverse == number)
        if not np.isfinite(logs.max()):
            impossible += rows.tolist()
            continue
        cumulated = np.cumsum(np.exp(logs - logs.max()))
        uniforms = level[next(iter(parts[0][0]))][rows]
        place = np.searchsorted(cumulated, uniforms * cumulated[-1], side="right")
        for name in parts[0][0]:
            values = np.concatenate([part[name] for part, _ in parts])
            chosen.setdefault(name, np.empty(evidence.rows, dtype=values.dtype))[rows] = values[place]
    if impossible:
        raise impossible_evidence(sorted(impossible), evidence.single)
    return chosen


class _TableSampler:
    """Draws from the tables of each solution for all rows that have its evidence.

    Parameters
    ----------
    inverse : ndarray (rows,)
        For each row the number of its distinct row.
    """

    def __init__(self, inverse: NDArray[np.intp], distinct: int, level: Mapping[str, Values]) -> None:
        self._order = np.argsort(inverse, kind="stable")
        self._ends = np.cumsum(np.bincount(inverse, minlength=distinct))
        self._level = level
        self.codes: dict[str, NDArray[np.intp]] = {}

    def add(self, part: Solution) -> None:
        """Draw for the rows of a solution."""
        ends = self._ends[part.rows]
        counts = np.diff(self._ends, prepend=0)[part.rows]
        # the rows with the evidence of each row of the solution, one group after the other
        first = np.cumsum(counts) - counts
        rows = self._order[np.repeat(ends - counts - first, counts) + np.arange(counts.sum())]
        number = np.repeat(np.arange(len(counts)), counts)
        drawn: dict[str, NDArray[np.intp]] = {}
        for scope, table in zip(part.problem.scopes, part.tables, strict=True):
            *above, name = scope
            index: NDArray[np.intp] = np.zeros(len(rows), dtype=np.intp)
            for other, size in zip(above, table.shape, strict=False):
                index = index * size + drawn[other]
            # rows of the solution stand last but one, states last
            flat = np.moveaxis(table, -2, -1).reshape(-1, table.shape[-2])
            codes = drawn[name] = _draw_codes(flat, index * table.shape[-1] + number, self._level[name][rows])
            self.codes.setdefault(name, np.empty(len(self._order), dtype=np.intp))[rows] = codes


def _draw_codes(weights: Values, index: NDArray[np.intp], uniforms: Values) -> NDArray[np.intp]:
    """Draw a state for each row from one of some weightings (weightings, states) of the states.

    Examples
    --------
    >>> _draw_codes(np.array([[1.0, 3.0], [0.0, 1.0]]), np.array([0, 0, 1]), np.array([0.2, 0.3, 0.0])).tolist()
    [0, 1, 1]
    """
    cumulated = np.cumsum(weights, axis=1)
    last = weights.shape[1] - 1 - np.argmax(weights[:, ::-1] > 0, axis=1)
    goal = uniforms * cumulated[index, -1]
    low, high = np.zeros(len(index), dtype=np.intp), last[index]
    for _ in range(int(weights.shape[1] - 1).bit_length()):
        middle = (low + high) // 2
        above = cumulated[index, middle] > goal
        high = np.where(above, middle, high)
        low = np.minimum(np.where(above, low, middle + 1), high)
    return low


def _is_closed(network: Network, name: str, informed: set[str], finding: Finding | None) -> bool:
    """Tell whether all that the evidence says of a variable is linear Gaussian."""
    children = [child for child in network.succ[name] if child in informed]
    return (finding is None or finding.plain) and all(
        network.potential(other).as_regression() is not None for other in (name, *children)
    )


def _conditional(
    network: Network | Snapshot, variable: Variable, evidence: Evidence, uniforms: NDArray[np.float64], options: Options
) -> NDArray[Any]:
    """Draw one variable from its posterior in every row."""
    name = variable.name
    if not evidence.rows:
        return np.empty(0, dtype=np.intp if isinstance(variable, Discrete) else np.float64)
    own = evidence.finding(name)
    if own is not None and own.hard:
        return own.values
    read = read_relevant_evidence(network, evidence, [name])
    if own is not None:
        # rows in which it is observed keep their value anyway
        rest = {other: finding for other, finding in read.findings.items() if other != name}
        soft = own.soft_part
        read = Evidence(rest if soft.empty else {**rest, name: soft}, evidence.rows, False)
    answer = solve(network, Question((name,)), read, options)
    return np.asarray(posterior_of(answer, 0, variable).draw(uniforms[None])[0])
