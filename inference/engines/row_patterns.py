"""Rows that differ in what is observed, solved apart where they would be too wide together.

A variable that some rows know is hidden in the problem of all rows. In that of the rows which know it, it is observed,
and takes no dimension; so only the rows whose own problem is too wide are sliced, sampled or refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hybridbn.errors import TooWide
from hybridbn.inference.axes import NodeAxis, StateAxis
from hybridbn.inference.engines import Engine, EngineRequest, Plan, Solution, choose_plan
from hybridbn.inference.evidence import Evidence
from hybridbn.inference.posteriors.continuous import ContinuousPosterior
from hybridbn.inference.posteriors.gaussian_mixture import GaussianPosterior
from hybridbn.inference.posteriors.grid import PiecewisePosterior
from hybridbn.inference.problem import Problem, problem_of
from hybridbn.variables import Continuous, Values

__all__ = ["RowPatterns"]

MOST_PATTERNS = 1 << 12
"""Tables in which more patterns are observed are solved by one problem or not at all."""


class RowPatterns(Engine):
    """Elimination, slices or sampling for each pattern of what is observed."""

    rank = 57

    def plan(self, request: EngineRequest) -> Plan | None:
        """Return the plan, None where rows don't differ, or where some of them are too wide by themselves."""
        return PatternPlan.of(request)


@dataclass
class PatternPlan(Plan):
    """A plan for each pattern, by the observed variables."""

    request: EngineRequest
    names: Sequence[str]
    plans: dict[bytes, Plan]
    cells: float
    clique: Sequence[str]
    held_bytes: float
    operations: float

    @classmethod
    def of(cls, request: EngineRequest) -> PatternPlan | None:
        """Plan the rows of each pattern, those first that know least."""
        problem, evidence = request.problem, request.evidence
        names = [
            name
            for name, finding in evidence.findings.items()
            if finding.plain and not finding.hard and isinstance(problem.axes.get(name), StateAxis)
        ]
        if request.question.drawn or not names or evidence.rows < 2:
            return None
        groups = list(_split_by_pattern(names, evidence))
        if not 1 < len(groups) <= MOST_PATTERNS:
            return None
        plans = {}
        for pattern, rows in groups:
            own = _take_group(names, pattern, evidence, rows)
            question = replace(request.question, only=frozenset(problem.potentials))
            part = replace(request, question=question, problem=problem_of(request.network, question, own), evidence=own)
            try:
                plans[pattern.tobytes()] = choose_plan(part)
            except TooWide:
                return None
        widest = max(plans.values(), key=lambda plan: plan.held_bytes)
        operations = sum(plan.operations for plan in plans.values())
        return cls(request, names, plans, widest.cells, widest.clique, widest.held_bytes, operations)

    def solve(self, evidence: Evidence) -> Iterator[Solution]:
        """Yield the solutions of each group of rows, with tables over the scopes of all rows."""
        problem = self.request.problem
        sampled = any(plan.sampled for plan in self.plans.values())
        for pattern, rows in _split_by_pattern(self.names, evidence):
            own = _take_group(self.names, pattern, evidence, rows)
            for part in self.plans[pattern.tobytes()].solve(own):
                there = rows[part.rows]
                chosen = evidence.take(there, len(there))
                densities = self._list_densities(part)
                tables, bounds = [], []
                for number, scope in enumerate(problem.scopes):
                    if number in densities:
                        tables.append(np.ones(len(there)))
                        bounds.append(np.full((2, len(there)), np.nan))
                        continue
                    tables.append(_expand(problem, scope, part, part.tables[number], chosen))
                    limits = [part.tables[number]] * 2 if part.bounds is None else part.bounds[number]
                    bounds.append(np.stack([_expand(problem, scope, part, limit, chosen) for limit in limits], axis=0))
                bounds.append(np.stack([part.log_norm] * 2) if part.bounds is None else part.bounds[-1])
                yield replace(
                    part,
                    problem=problem,
                    rows=there,
                    evidence=chosen,
                    tables=tables,
                    bounds=bounds if sampled else None,
                    densities=densities,
                )

    def _list_densities(self, part: Solution) -> dict[int, ContinuousPosterior]:
        """Return the densities of the continuous targets that have no cells, by number."""
        problem, question = self.request.problem, self.request.question
        densities: dict[int, ContinuousPosterior] = dict(part.densities or {})
        if question.joint or question.over:
            return densities
        for number, name in enumerate(question.targets):
            component, table = part.problem.component_of.get(name), part.tables[number]
            variable = problem.potentials[name].child
            if number in densities or not isinstance(variable, Continuous):
                continue
            if component is not None:
                means, variances = component.marginals((name,), part.axes, part.evidence)
                weights, mean, variance = (
                    np.broadcast_to(array, table.shape).reshape(-1, table.shape[-1])
                    for array in (table, means[0], variances[0])
                )
                densities[number] = GaussianPosterior.of(variable, weights, mean, variance)
            elif isinstance(axis := part.axes.get(name), NodeAxis):
                cells = problem.potentials[name].point_cells
                densities[number] = PiecewisePosterior.of(variable, axis.low, axis.high, table, cells)
        return densities


def _split_by_pattern(names: Sequence[str], evidence: Evidence) -> Iterator[tuple[NDArray[np.bool_], NDArray[np.intp]]]:
    """Yield which of the variables are observed, with the rows in which just these are; few observed ones first."""
    observed = np.array([evidence.findings[name].observed for name in names])
    patterns, group = np.unique(observed, axis=1, return_inverse=True)
    order = np.argsort(group.ravel(), kind="stable")
    rows = np.split(order, np.cumsum(np.bincount(group.ravel()))[:-1])
    for number in np.argsort(patterns.sum(axis=0), kind="stable"):
        yield np.ascontiguousarray(patterns[:, number]), rows[number]


def _take_group(
    names: Sequence[str], pattern: NDArray[np.bool_], evidence: Evidence, rows: NDArray[np.intp]
) -> Evidence:
    """Return the evidence of some rows without the variables that they don't know."""
    hidden = {name for name, known in zip(names, pattern, strict=True) if not known}
    findings = {name: finding for name, finding in evidence.findings.items() if name not in hidden}
    return Evidence(findings, evidence.rows, single=False).take(rows, len(rows))


def _expand(problem: Problem, scope: tuple[str, ...], part: Solution, table: Values, evidence: Evidence) -> Values:
    """Return a table with a dimension for each name of a scope, those that are observed in these rows too."""
    own = [name for name in scope if name not in part.problem.hard]
    known = [name for name in scope if name in part.problem.hard]
    if not known:
        return table
    sizes = [part.axes[name].size if name in part.axes else problem.sizes[name] for name in scope]
    full = np.zeros([*sizes, evidence.rows])
    turned = np.moveaxis(full, [scope.index(name) for name in known], range(len(known)))
    places: list[Any] = [evidence.findings[name].values for name in known]
    turned[(*places, *[slice(None)] * len(own), np.arange(evidence.rows))] = np.moveaxis(table, -1, 0)
    return full
