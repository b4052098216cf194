"""Drawing from a network, given evidence or not.

Variables are drawn one after the other, each from its exact posterior given the evidence and everything drawn before,
so a row is an exact draw from the joint posterior; no draw is weighted or rejected (where exact inference is too wide
and bounds are asked for, some variables are drawn by importance first). Linear Gaussian variables are drawn
last among those with evidence below them, together from their conditional normal distribution. A variable with no
evidence below it is drawn from its own potential. Every row uses uniforms of its own, so neither the size of the batch
nor that of the chunks changes what a row gets.

A `ConditionalGaussian` is a network whose numbers are linear Gaussian given discrete columns: a distribution over the
configurations of some discrete columns times one multivariate normal for each. There all rows are drawn in one pass.
Given what a row holds, a configuration is drawn first, by its exact probability; then the other discrete columns; then
all missing numbers together from their conditional normal distribution. The answer has the same distribution as drawing
one variable after the other from its posterior, at a fraction of the cost.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import Any

import networkx as nx
import numpy as np
from numpy.typing import NDArray

from hybridbn.errors import ImpossibleEvidence, TooWide
from hybridbn.inference.compilation import Question, problem_of
from hybridbn.inference.elimination.compilers import choose_order
from hybridbn.inference.elimination.factors import group_rows, normalize_logs
from hybridbn.inference.engines import Solution, choose_plan
from hybridbn.inference.evidence import Evidence, EvidenceReader, Finding, find_distinct_rows
from hybridbn.inference.gaussian_conditioning import Regressions, solve_conditionals
from hybridbn.inference.queries import impossible_evidence, name_impossible_rows, read_relevant_evidence, suppose
from hybridbn.inference.relevance import Snapshot, ancestors
from hybridbn.inference.solutions import TableCollector, infer_posteriors, solve
from hybridbn.jobs import run_in_threads
from hybridbn.network import Network
from hybridbn.options import Options, check_count, make_generator
from hybridbn.potentials.base import Axes, Potential, draw_codes, take_logs
from hybridbn.variables import Codes, Discrete, Values, Variable, encode_configurations

FEW = 8
"""Up to this number of variables are drawn in the order of the network, parents before children."""
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
    repeated = suppose(network, read, {}, rows)
    uniforms = make_generator(random_state).random((len(rows), len(network))).T
    with name_impossible_rows(rows, read.single):
        codes = draw(network, repeated, uniforms, options or Options())
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
    for variable, levels in zip(variables, uniforms, strict=True):
        values = _conditional(network, variable, Evidence(known, evidence.rows, False), levels, options)
        known[variable.name] = Finding(variable, values)
    return {variable.name: known[variable.name].values for variable in variables}


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

    def fill(drawn: Mapping[str, NDArray[Any]]) -> None:
        for name, values in drawn.items():
            finding, variable = known.get(name), network.variable(name)
            drawn_values = variable.round(values)
            filled[name] = drawn_values if finding is None else np.where(finding.observed, finding.values, drawn_values)
            known[name] = Finding(variable, filled[name])

    if waiting and evidence.rows:
        snapshot = Snapshot.of(network)
        if cut := _draw_cut(snapshot, frozenset(informed), evidence, level, options):
            fill(cut)
            return draw(network, Evidence(known, evidence.rows, False), uniforms, options)
        states = list(takewhile(lambda name: isinstance(network.variable(name), Discrete), waiting))
        fill(_draw_states(snapshot, states, frozenset(informed), evidence, level, options))
        names = _halve_repeatedly([name for name in waiting if name not in filled])
        nodes = problem_of(snapshot, Question(only=frozenset(informed)), Evidence(known, evidence.rows, False)).nodes
        # given those with nodes, others may have a closed form
        for name in sorted(names, key=lambda name: name not in nodes):
            given = Evidence(known, evidence.rows, False)
            fill({name: _conditional(snapshot, network.variable(name), given, level[name], options)})
    if closed and evidence.rows:
        given = Evidence(known, evidence.rows, False)
        problem = problem_of(network, Question(tuple(closed), only=frozenset(informed)), given)
        for component in {id(part): part for part in problem.component_of.values()}.values():
            fill(component.draw(closed, level, given))
    for name in order:
        if name not in filled:
            potential = network.potential(name)
            above = {parent.name: filled[parent.name] for parent in potential.parents}
            fill({name: _draw_given_parents(potential, level[name], above, options.jobs)})
    return {name: filled[name] for name in order}


def _draw_given_parents(potential: Potential, uniforms: Values, given: Axes, jobs: int) -> NDArray[Any]:
    """Draw a variable with no evidence below it, in blocks of rows."""
    blocks = [slice(start, start + BLOCK) for start in range(0, max(len(uniforms), 1), BLOCK)]
    parts = run_in_threads(
        lambda own: potential.ppf(uniforms[own], {name: values[own] for name, values in given.items()}), blocks, jobs
    )
    return np.concatenate(list(parts))


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
    distinct, inverse = _take_distinct(evidence)
    question = Question(only=informed, drawn=tuple(names))
    problem = problem_of(network, question, distinct)
    if problem.order.total > CHEAP:
        best = choose_order(problem.factors, [()], problem.sizes)
        if problem.order.total > WIDER * best.total:
            by_cost = [name for name in reversed(best.names) if name in set(names)]
            question = Question(only=informed, drawn=tuple(by_cost))
            if problem_of(network, question, distinct).order.total > WIDER * best.total:
                return {}
    sampler = _TableSampler(inverse, distinct.rows, level)
    try:
        solve(network, question, distinct, options, lambda *_: [sampler], compare=False)
    except ImpossibleEvidence as problem:
        rows = np.flatnonzero(np.isin(inverse, problem.rows)).tolist()
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
    if options.beyond is None:
        return {}
    distinct, inverse = _take_distinct(evidence)
    plan = choose_plan(problem_of(network, Question(only=informed), distinct), distinct, options)
    chosen: dict[str, NDArray[Any]] = {}
    impossible: list[int] = []
    for number in range(distinct.rows):
        weighed = plan.weigh(distinct.take(slice(number, number + 1), 1))
        if weighed is None:
            return {}
        parts = list(weighed)
        logs = np.concatenate([part for _, part in parts])
        rows = np.flatnonzero(inverse == number)
        if not np.isfinite(logs.max()):
            impossible += rows.tolist()
            continue
        uniforms = level[next(iter(parts[0][0]))][rows]
        place = draw_codes(np.exp(logs - logs.max())[None], np.zeros_like(rows), uniforms)
        for name in parts[0][0]:
            values = np.concatenate([part[name] for part, _ in parts])
            chosen.setdefault(name, np.empty(evidence.rows, dtype=values.dtype))[rows] = values[place]
    if impossible:
        raise impossible_evidence(sorted(impossible), evidence.single)
    return chosen


def _take_distinct(evidence: Evidence) -> tuple[Evidence, NDArray[np.intp]]:
    """Return the evidence of distinct rows, and for each row the number of its distinct one."""
    same = find_distinct_rows(evidence, continuous=True)
    if same is None:
        return evidence, np.arange(evidence.rows)
    return evidence.take(same.first, len(same.first)), same.inverse


class _TableSampler:
    """Draws from the tables of each solution for all rows that have its evidence.

    Parameters
    ----------
    inverse : ndarray (rows,)
        For each row the number of its distinct row.
    """

    def __init__(self, inverse: NDArray[np.intp], distinct: int, level: Mapping[str, Values]) -> None:
        self._inverse, self._distinct, self._level = inverse, distinct, level
        self.codes: dict[str, NDArray[np.intp]] = {}

    def add(self, part: Solution) -> None:
        """Draw for the rows of a solution."""
        number_of = np.full(self._distinct, -1)
        number_of[part.rows] = np.arange(len(part.rows))
        rows = np.flatnonzero(number_of[self._inverse] >= 0)
        number = number_of[self._inverse[rows]]
        drawn: dict[str, NDArray[np.intp]] = {}
        for scope, table in zip(part.problem.scopes, part.tables, strict=True):
            *above, name = scope
            index = encode_configurations([drawn[other] for other in above], table.shape[: len(above)], len(rows))
            # rows of the solution stand last but one, states last
            flat = np.moveaxis(table, -2, -1).reshape(-1, table.shape[-2])
            codes = drawn[name] = draw_codes(flat, index * table.shape[-1] + number, self._level[name][rows])
            self.codes.setdefault(name, np.empty(len(self._inverse), dtype=np.intp))[rows] = codes


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
    if own is not None and own.observed.any():
        rows, values = np.flatnonzero(~own.observed), np.array(own.values)
        with name_impossible_rows(rows, evidence.single):
            values[rows] = _conditional(network, variable, evidence.take(rows, len(rows)), uniforms[rows], options)
        return values
    (posterior,) = infer_posteriors(network, [name], evidence, options)
    return np.asarray(posterior.draw(uniforms[None])[0])


_MOST_CONFIGURATIONS = 512
_SWEEPS = 40
_NEGLIGIBLE = 1e-12
"""A configuration with less probability in a row adds nothing to what is expected there."""
_CHUNK = 2**22
"""Numbers in the largest temporary array."""


@dataclass(frozen=True, eq=False)
class ConditionalGaussian:
    """A network of discrete columns and one normal distribution of the numbers for each configuration of some of them.

    Attributes
    ----------
    discrete : Network
        Without the numbers.
    numbers : tuple of str
        Parents before their children.
    given : tuple of Discrete
        The discrete parents of numbers.
    regressions : Regressions
        Of the numbers, for each configuration.
    """

    discrete: Network
    numbers: tuple[str, ...]
    given: tuple[Discrete, ...]
    regressions: Regressions

    def draw(self, evidence: Evidence, levels: dict[str, Values], options: Options) -> dict[str, NDArray[np.generic]]:
        """Fill every row: codes or values of all variables, observed ones as they are.

        Parameters
        ----------
        evidence : Evidence
            Observed and missing values only.
        levels : dict from name to ndarray (rows,)
            Uniform numbers.
        """
        from scipy.special import ndtri

        rows, values, known = evidence.rows, self._values(evidence), evidence.evidence(self.discrete).findings
        configuration = self._draw_configurations(known, values, levels, options)
        noise = ndtri(np.array([levels[name] for name in self.numbers]).reshape(len(self.numbers), rows).T)
        return self._fill(known, configuration, self._draw_numbers(values, configuration, noise), levels, options)

    def expect(self, evidence: Evidence, wanted: Sequence[str], options: Options) -> dict[str, Values]:
        """Return the expectations of numbers (rows,), and the probabilities of discrete columns (rows, states).

        Each row has a case for each configuration that is possible in it, and averages over these.

        Parameters
        ----------
        evidence : Evidence
            Observed and missing values only.
        wanted : sequence of str
            Columns; what is returned says nothing of rows in which one is observed.
        """
        rows, values, known = evidence.rows, self._values(evidence), evidence.evidence(self.discrete).findings
        first = self._first_configurations(known, rows)
        parts = list(self._weigh_configurations(known, values, options))
        whole = np.setdiff1d(np.arange(rows), np.concatenate([np.zeros(0, np.intp), *(own for _, own, _, _ in parts)]))
        cases = [(whole, first[whole], np.ones(len(whole)))]
        for _, own, steps, shares in parts:
            place, step = np.nonzero(shares > _NEGLIGIBLE)
            cases.append((own[place], first[own[place]] + steps[step], shares[place, step]))
        columns = [np.concatenate(column) for column in zip(*cases, strict=True)]
        order = np.argsort(columns[0], kind="stable")
        row, configuration, weight = (column[order] for column in columns)
        expected = self._expect_numbers(values, row, configuration, weight)
        return expected | self._expect_states(known, wanted, row, configuration, weight, rows, options)

    def _expect_numbers(self, values: Values, row: Codes, configuration: Codes, weight: Values) -> dict[str, Values]:
        """Return the expectations of numbers from the configurations of rows, which ascend, and their weights."""
        expected, hidden = np.zeros(values.shape), np.isnan(values)
        for part in solve_conditionals(self.regressions, configuration, row, values, hidden):
            places = row[part.cases][:, None] * values.shape[1] + part.columns[part.system]
            weighted = weight[part.cases][:, None] * part.mean[..., 0]
            expected += np.bincount(places.ravel(), weighted.ravel(), expected.size).reshape(expected.shape)
        expected = np.where(hidden, expected, values)
        return {name: expected[:, column] for column, name in enumerate(self.numbers)}

    def _expect_states(
        self,
        known: Mapping[str, Finding],
        wanted: Sequence[str],
        row: Codes,
        configuration: Codes,
        weight: Values,
        rows: int,
        options: Options,
    ) -> dict[str, Values]:
        given = self._read_configurations(configuration)
        findings = {name: finding.take(row) for name, finding in known.items()} | given
        expected: dict[str, Values] = {}
        for variable in self.given:
            if variable.name in wanted:
                place = row * len(variable) + given[variable.name].values
                table = np.bincount(place, weight, rows * len(variable)).astype(np.float64)
                expected[variable.name] = np.asarray(table.reshape(rows, len(variable)))
        others = [name for name in wanted if name in self.discrete and name not in expected]
        if others:
            evidence = Evidence(findings, len(row), single=False)
            for name, answer in zip(others, infer_posteriors(self.discrete, others, evidence, options), strict=True):
                probabilities = answer.probabilities.T * weight
                expected[name] = np.array([np.bincount(row, own, rows) for own in probabilities]).T
        return expected

    def draw_within(
        self,
        evidence: Evidence,
        start: Mapping[str, NDArray[np.generic]],
        bounds: Mapping[str, tuple[float, float]],
        orders: Sequence[tuple[str, str]],
        levels: Callable[[int], dict[str, Values]],
        options: Options,
    ) -> dict[str, NDArray[np.generic]]:
        """Fill every row with missing numbers within bounds, by Gibbs sampling from a draw that breaks them.

        A truncated normal distribution of several variables has no closed form. A sweep draws the configuration given
        all numbers, then each missing number given all others.

        Parameters
        ----------
        orders : sequence of (str, str)
            Pairs of numbers, the first of which is not greater than the second.
        levels : callable
            From the number of a sweep to uniform numbers, as in `draw`.
        """
        hidden = np.isnan(self._values(evidence))
        low, high = np.array([bounds.get(name, (-np.inf, np.inf)) for name in self.numbers]).T
        values = np.array([start[name] for name in self.numbers], dtype=np.float64).T
        values = np.where(hidden, np.clip(values, low, high), values)
        known = evidence.evidence(self.discrete).findings
        configuration: Codes = np.zeros(evidence.rows, dtype=np.intp)
        pairs = [(self.numbers.index(lesser), self.numbers.index(greater)) for lesser, greater in orders]
        for sweep in range(_SWEEPS):
            uniforms = levels(sweep)
            configuration = self._draw_configurations(known, values, uniforms, options)
            for column, name in enumerate(self.numbers):
                center = self.conditional_mean(column, values, configuration)
                spread = 1 / np.sqrt(self.regressions.gram[self.regressions.kind[configuration], column, column])
                below = [values[:, lesser] for lesser, greater in pairs if greater == column]
                above = [values[:, greater] for lesser, greater in pairs if lesser == column]
                least = np.max([np.full(len(values), low[column]), *below], axis=0)
                most = np.min([np.full(len(values), high[column]), *above], axis=0)
                # a start that breaks an order leaves no room for one of the two until the other has moved
                rows = np.flatnonzero(hidden[:, column] & (least < most))
                a, b = ((ends[rows] - center[rows]) / spread[rows] for ends in (least, most))
                fresh = center[rows] + spread[rows] * _truncated_normal(uniforms[name][rows], a, b)
                values[rows, column] = np.clip(fresh, least[rows], most[rows])
        return self._fill(known, configuration, values, levels(_SWEEPS), options)

    def conditional_mean(self, column: int, values: Values, configuration: Codes) -> Values:
        """Return the expectation of one number given all other cells of complete rows."""
        own = self.regressions.gram[self.regressions.kind[configuration], column]
        pull = np.einsum("rj,rj->r", own, values - self.regressions.means[configuration])
        return np.asarray(values[:, column] - pull / own[:, column])

    def _read_configurations(self, configuration: Codes) -> dict[str, Finding]:
        """Return the states of the given columns in each row's configuration."""
        sizes = [len(variable) for variable in self.given]
        codes = np.unravel_index(configuration, sizes) if sizes else ()
        return {v.name: Finding(v, np.asarray(own, np.intp)) for v, own in zip(self.given, codes, strict=True)}

    def _values(self, evidence: Evidence) -> Values:
        """Return the observed numbers (rows, numbers), NaN where one is hidden."""
        values = np.full((evidence.rows, len(self.numbers)), np.nan)
        for column, name in enumerate(self.numbers):
            finding = evidence.finding(name)
            if finding is not None:
                values[:, column] = finding.values
        return values

    def _fill(
        self,
        known: Mapping[str, Finding],
        configuration: Codes,
        values: Values,
        levels: dict[str, Values],
        options: Options,
    ) -> dict[str, NDArray[np.generic]]:
        """Draw the other discrete columns given the configuration, and put all together."""
        findings, rows = {**known, **self._read_configurations(configuration)}, len(values)
        order = list(self.discrete)
        filled: dict[str, NDArray[np.generic]] = {}
        if order:
            uniforms = np.array([levels[name] for name in order]).reshape(len(order), rows)
            filled.update(draw(self.discrete, Evidence(findings, rows, single=False), uniforms, options))
        return {**filled, **{name: values[:, column] for column, name in enumerate(self.numbers)}}

    def _draw_configurations(
        self, known: Mapping[str, Finding], values: Values, levels: dict[str, Values], options: Options
    ) -> Codes:
        """Draw the configuration of the given columns from its posterior; observed ones stay."""
        result = self._first_configurations(known, len(values))
        for names, own, steps, shares in self._weigh_configurations(known, values, options):
            result[own] += steps[draw_codes(shares, np.arange(len(own)), levels[names[0]][own])]
        return result

    def _first_configurations(self, known: Mapping[str, Finding], rows: int) -> Codes:
        """Return the configuration of each row with the first state for what is missing."""
        none = np.zeros(rows, np.intp)
        codes = [np.maximum(known[v.name].values, 0) if v.name in known else none for v in self.given]
        return encode_configurations(codes, [len(variable) for variable in self.given], rows)

    def _weigh_configurations(
        self, known: Mapping[str, Finding], values: Values, options: Options
    ) -> Iterator[tuple[tuple[str, ...], Codes, Codes, Values]]:
        """Yield given columns, the rows in which these are missing, the steps from the first configuration to those
        that are possible, and their posterior probabilities (rows, steps).
        """
        sizes = {variable.name: len(variable) for variable in self.given}
        numbers = np.arange(math.prod(sizes.values())).reshape(tuple(sizes.values()))
        first, none = self._first_configurations(known, len(values)), np.zeros(len(values), dtype=bool)
        observed = {name: known[name].observed if name in known else none for name in sizes}
        impossible: list[int] = []
        for present, concerned in group_rows(observed, len(values)):
            absent = tuple(name for name in sizes if name not in present)
            if not absent:
                continue
            steps: Codes = numbers[tuple(0 if name in present else slice(None) for name in sizes)].ravel()
            step = max(_CHUNK // (len(steps) * (len(self.numbers) + 1)), 1)
            for own in np.split(concerned, range(step, len(concerned), step)):
                # impossible rows are marked, and named together with those of other parts
                logs = self._prior([*absent], known, own, replace(options, impossible="nan"))
                logs += self._densities(values[own], first[own], steps, np.isfinite(logs))
                shares, log_sums = normalize_logs(logs.T)
                impossible.extend(own[~np.isfinite(log_sums)].tolist())
                yield absent, own, steps, shares.T
        if impossible:
            raise impossible_evidence(sorted(impossible), single=False)

    def _prior(self, names: list[str], known: Mapping[str, Finding], rows: Codes, options: Options) -> Values:
        """Return the log probabilities of all states of some columns given the other discrete ones: (rows, states)."""
        rest = {name: finding for name, finding in known.items() if name not in names}
        read = read_relevant_evidence(self.discrete, Evidence(rest, 0, single=False).take(rows, len(rows)), names)
        question = Question(tuple(names), joint=True, pointwise=True)
        answer = solve(self.discrete, question, read, options, lambda _, distinct: [TableCollector(0, distinct)])
        (collector,) = answer.collected
        assert isinstance(collector, TableCollector)
        sizes = [len(self.discrete.variable(name)) for name in names]  # type: ignore[arg-type]  # all are discrete
        table = np.broadcast_to(answer.arrange_rows(collector.table), (*sizes, len(rows)))
        return np.ascontiguousarray(take_logs(table.reshape(-1, len(rows)).T))

    def _densities(self, values: Values, first: Codes, steps: Codes, wanted: NDArray[np.bool_]) -> Values:
        """Return the log density of what is observed in each row for the configurations that are `steps` from the
        first.
        """
        densities = np.zeros((len(values), len(steps)))
        row, step = np.nonzero(wanted)
        for part in solve_conditionals(self.regressions, first[row] + steps[step], row, values, np.isnan(values)):
            squares = np.einsum("cij,cij->c", part.residual, part.residual)
            densities[row[part.cases], step[part.cases]] = part.log_constant - 0.5 * squares
        return densities

    def _draw_numbers(self, values: Values, configuration: Codes, noise: Values) -> Values:
        """Return rows with their hidden numbers drawn from standard normal noise (rows, numbers)."""
        hidden, drawn, row = np.isnan(values), np.array(values), np.arange(len(values))
        # not even the rounding of a draw depends on other rows
        for part in solve_conditionals(self.regressions, configuration, row, values, hidden, separately=True):
            rows, columns = part.cases[:, None], part.columns[part.system]
            drawn[rows, columns] = part.draw(noise[rows, columns])
        return drawn


def _truncated_normal(levels: Values, low: Values, high: Values) -> Values:
    """Return quantiles of the standard normal distribution between two ends."""
    from scipy.special import log_ndtr, ndtri_exp

    # the upper tail is the lower one of the negative number, which has more digits
    flipped = low > 0
    low, high = np.where(flipped, -high, low), np.where(flipped, -low, high)
    levels = np.where(flipped, 1 - levels, levels)
    quantiles = ndtri_exp(np.logaddexp(np.log(levels) + log_ndtr(high), np.log1p(-levels) + log_ndtr(low)))
    return np.asarray(np.where(flipped, -quantiles, quantiles))


def conditional_gaussian(network: Network) -> ConditionalGaussian | None:
    """Return a network in this form, or None where it doesn't have it.

    Examples
    --------
    >>> import hybridbn as hb
    >>> c, x, y = hb.Discrete("c", states=("a", "b")), hb.Continuous("x"), hb.Continuous("y")
    >>> net = hb.Network([
    ...     hb.Multinomial(c, table=[0.5, 0.5]),
    ...     hb.LinearGaussian(x, parents=(c,), intercept=[0, 4], variance=[1, 1]),
    ...     hb.LinearGaussian(y, parents=(x,), intercept=1, coefficients=[2], variance=0.25),
    ... ])
    >>> abs(conditional_gaussian(net).regressions.means)
    array([[0., 1.],
           [4., 9.]])
    """
    numbers, given = [], {}
    for name in nx.topological_sort(network):
        potential = network.potential(name)
        discrete = [parent for parent in potential.parents if isinstance(parent, Discrete)]
        if isinstance(network.variable(name), Discrete):
            if len(discrete) < len(potential.parents):
                return None
        elif potential.as_regression() is None:
            return None
        else:
            numbers.append(name)
            given.update({parent.name: parent for parent in discrete})
    sizes = [len(variable) for variable in given.values()]
    size = math.prod(sizes)
    if not numbers or size > _MOST_CONFIGURATIONS:
        return None
    states = dict(zip(given, np.unravel_index(np.arange(size), sizes) if sizes else (), strict=True))
    potentials = [network.potential(name) for name in numbers]
    regressions = Regressions.of(potentials, numbers, len(numbers), states, (size,), kept=False)
    alone = Network([network.potential(name) for name in network if isinstance(network.variable(name), Discrete)])
    return ConditionalGaussian(alone, tuple(numbers), tuple(given.values()), regressions)
