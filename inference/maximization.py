"""Most probable completions where tables are too wide: some variables are set, and the others maximized exactly.

In slices, the set variables take all combinations of their states, so that the best one is exact. With bounds, they are
drawn from mini-buckets that maximize, which also bound the maximum from above (Dechter & Rish 2003, "Mini-buckets: a
general scheme for bounded inference"). The best draw is improved by setting other variables to what they are in it, and
maximizing the rest again, as long as there is time.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from hybridbn.errors import TooWide, warn_user
from hybridbn.inference.answers import impossible_evidence
from hybridbn.inference.axes import StateAxis
from hybridbn.inference.elimination.cutting import Cut, choose_cut
from hybridbn.inference.elimination.executor import WeightSource
from hybridbn.inference.elimination.ordering import EliminationOrder, limit_effort
from hybridbn.inference.engines import EngineRequest, list_offers
from hybridbn.inference.engines.bounds import BoundPlan
from hybridbn.inference.engines.elimination import split_rows
from hybridbn.inference.engines.slices import (
    WORKING_TABLES,
    count_slices_at_once,
    make_slices,
    prepare_slices,
    weigh_slices,
)
from hybridbn.inference.evidence import Evidence, Finding
from hybridbn.inference.gaussian_component import GaussianComponent
from hybridbn.inference.problem import Problem, Question, problem_of
from hybridbn.network import Network
from hybridbn.options import Options
from hybridbn.variables import Values

__all__ = ["Maximize", "complete_beyond", "list_logs"]

Maximize: TypeAlias = Callable[[Evidence, EliminationOrder], tuple[dict[str, NDArray[Any]], Values]]
"""From evidence and an order for what is hidden to the most probable completion, and its log probability."""

KEPT = 0.5
"""So many of the variables may be set where the best draw is improved."""
LEAST_GAIN = 1e-9
"""A log probability that is larger by less is no improvement."""
MOST_FAILURES = 8
"""There are no more improvements after so many that were none."""
_SEED = 0


class _Completion(NamedTuple):
    """The best known completion of a row, and the largest log probability that one may have."""

    values: dict[str, NDArray[Any]]
    log_value: float
    log_bound: float


def list_logs(
    problem: Problem, axes: Mapping[str, Any], evidence: Evidence, settled: Mapping[str, Values] = MappingProxyType({})
) -> dict[int, Values]:
    """Return the logarithms of all factors by number; linear Gaussian variables are at their most probable values.

    Points of variables with nodes have the log weights in `settled`, else none.
    """
    arrays: dict[int, Values] = {}
    for number, source in enumerate(problem.sources):
        if isinstance(source, WeightSource):
            name = source.names[0]
            arrays[number] = settled[name] if name in settled else np.zeros((axes[name].size, evidence.rows))
        elif isinstance(source, GaussianComponent):
            arrays[number] = source.maximize_logs(axes, evidence)
        else:
            arrays[number] = source.logs(axes, evidence)
    return arrays


def complete_beyond(
    network: Network, read: Evidence, maximize: Maximize, options: Options, refused: TooWide
) -> tuple[dict[str, NDArray[Any]], Values]:
    """Return the best known completions of all rows, and bounds on the log probabilities of all completions; without
    `beyond`, raise `TooWide` with what would answer.

    Parameters
    ----------
    maximize : completes rows that are not too wide
    refused : raised where that doesn't help
    """
    if options.beyond is None:
        known = np.sum([np.zeros(read.rows), *(finding.observed for finding in read.findings.values())], axis=0)
        request = _make_request(network, _take_row(read, int(known.argmin())), options, time.process_time())
        raise TooWide(f"{refused}{'' if request.problem.nodes else list_offers(request)}") from None
    parts = []
    for row in range(read.rows):
        part = _Search(network, _take_row(read, row), maximize, options, refused).complete()
        if part.log_bound == -math.inf:
            raise impossible_evidence([row], read.single)
        parts.append(part)
    worst = max(parts, key=lambda part: part.log_bound - part.log_value)
    if worst.log_bound > worst.log_value:
        warn_user(
            f"a more probable completion may exist: the log probability of the one returned is {worst.log_value:.8g},"
            f" and none has more than {worst.log_bound:.8g}; return_bounds=True tells both for each row"
        )
    # what a row observes is no part of its completion
    values = {
        name: np.concatenate(
            [
                part.values[name] if name in part.values else read.findings[name].values[[row]]
                for row, part in enumerate(parts)
            ]
        )
        for name in dict.fromkeys(name for part in parts for name in part.values)
    }
    return values, np.array([part.log_bound for part in parts])


def _take_row(read: Evidence, row: int) -> Evidence:
    return Evidence(read.take(slice(row, row + 1), 1).findings, 1, single=False)


def _make_request(network: Network, case: Evidence, options: Options, started: float) -> EngineRequest:
    question = Question(all_of=True, pointwise=True, only=frozenset(network))
    return EngineRequest(network, problem_of(network, question, case), question, case, options, started)


class _Search:
    """The search for the most probable completion of one row."""

    def __init__(
        self, network: Network, case: Evidence, maximize: Maximize, options: Options, refused: TooWide
    ) -> None:
        self._network, self._case, self._maximize, self._options = network, case, maximize, options
        self._refused, self._started = refused, time.process_time()
        self._request = _make_request(network, case, options, self._started)
        self._problem = self._request.problem
        if self._problem.nodes:
            raise refused
        self._scopes = [factor.names for factor in self._problem.factors]
        self._states = {name for name, axis in self._problem.axes.items() if isinstance(axis, StateAxis)}
        self._most_cells = options.max_bytes / (8 * WORKING_TABLES)

    def complete(self) -> _Completion:
        """Return the best completion, exact in slices."""
        if self._options.beyond == "slice":
            return self._try_all()
        return self._try_drawn()

    def _try_all(self) -> _Completion:
        sizes, allowed = self._problem.sizes, self._options.cells_per_row
        cut = self._choose_cut(self._states, limit_effort(allowed))
        if cut is None or cut.total > allowed:
            raise self._refused
        shape = tuple(sizes[name] for name in cut.names)
        step = count_slices_at_once(self._problem, cut.names)
        best = _Completion({}, -math.inf, math.inf)
        for start in range(0, int(cut.slices), step):
            numbers = np.arange(start, min(start + step, int(cut.slices)))
            codes = np.unravel_index(numbers, shape)
            best = self._keep_best(best, dict(zip(cut.names, codes, strict=True)), cut.order)
        if best.log_value == -math.inf:
            return best._replace(log_bound=-math.inf)
        best = self._set(best.values, cut.order)
        return best._replace(log_bound=best.log_value)

    def _try_drawn(self) -> _Completion:
        plan = BoundPlan.of(self._request)
        if plan is None or plan.drawn.forward:
            raise self._refused
        drawn = plan.drawn
        proposal, log_bound = plan.make_proposal(self._case, maximize=True)
        best = _Completion({}, -math.inf, log_bound)
        if log_bound == -math.inf:
            return best
        rng = np.random.default_rng(_SEED)
        for count in plan.split_draws(self._started):
            values, _ = proposal.draw(count, rng)
            stacked = np.unique(np.array([values[name] for name in drawn.names]), axis=1)
            best = self._keep_best(best, dict(zip(drawn.names, stacked, strict=True)), drawn.order)
            if best.log_value >= log_bound:
                break
        if best.log_value == -math.inf:
            raise TooWide(
                f"no possible completion was found in {plan.draws} draws; more seconds= or max_bytes= may find one"
            ) from self._refused
        best = self._set(best.values, drawn.order)._replace(log_bound=log_bound)
        return self._improve(best, rng, plan.find_end(self._started))

    def _improve(self, best: _Completion, rng: np.random.Generator, latest: float) -> _Completion:
        """Return what is at least as good, by setting other variables to their values in the best completion."""
        failures, names = 0, sorted(self._states)
        while failures < MOST_FAILURES and time.process_time() < latest:
            allowed = [name for name in names if rng.random() < KEPT]
            cut = self._choose_cut(set(allowed), 0.0)
            failures += 1
            if cut is None:
                continue
            other = self._set({name: best.values[name] for name in cut.names}, cut.order)
            if other.log_value > best.log_value + LEAST_GAIN:
                best, failures = other._replace(log_bound=best.log_bound), 0
        return best

    def _choose_cut(self, allowed: set[str], effort: float) -> Cut | None:
        problem = self._problem
        return choose_cut(self._scopes, problem.sizes, allowed, self._most_cells, problem.order, effort=effort)

    def _keep_best(self, best: _Completion, values: Mapping[str, NDArray[Any]], order: EliminationOrder) -> _Completion:
        """Return the best of some values of the set variables and those known before."""
        evidence, log_weights = make_slices(self._request, self._case, values), weigh_slices(self._case, values)
        problem = prepare_slices(self._request, evidence, values, order)
        for rows, part in split_rows(problem, evidence):
            (table,) = problem.executor.program.run_log(list_logs(problem, problem.axes, part), "max")
            logs = np.broadcast_to(table, len(rows)) + log_weights[rows]
            top = int(logs.argmax())
            if logs[top] > best.log_value:
                chosen = {name: own[rows[top] : rows[top] + 1] for name, own in values.items()}
                best = best._replace(values=chosen, log_value=float(logs[top]))
        return best

    def _set(self, values: Mapping[str, NDArray[Any]], order: EliminationOrder) -> _Completion:
        """Return the best completion in which some variables have given values."""
        findings = {name: finding for name, finding in self._case.findings.items() if name not in values}
        findings |= {name: Finding(self._network.variable(name), own) for name, own in values.items()}
        completed, log_values = self._maximize(Evidence(findings, 1, single=False), order)
        log_value = float(log_values[0] + weigh_slices(self._case, values)[0])
        return _Completion({**completed, **values}, log_value, math.inf)
