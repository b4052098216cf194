"""The engine of single cases in networks of tables, which compiles and computes in one pass.

The tables that a question needs are sliced at the observed states and eliminated at once; see
`hybridbn.inference.elimination.compilers`. What the first case leaves behind answers the same question about other
cases in less time. Questions that need anything but tables, or tables too large, are left to the engines.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from typing import Any

import numpy as np

from hybridbn.inference import relevance
from hybridbn.inference.elimination.compilers import CaseCompiler, TooManyCells
from hybridbn.inference.elimination.factors import normalize_logs
from hybridbn.inference.elimination.ordering import EliminationOrder, find_order
from hybridbn.inference.elimination.program import SUSPICIOUS, Factor, Program
from hybridbn.inference.engines import CaseTables, Engine, estimate_rounding
from hybridbn.inference.evidence import Evidence, Finding
from hybridbn.inference.relevance import Cached, Snapshot, Status, ancestors, find_requisite
from hybridbn.potentials.base import take_logs
from hybridbn.variables import Codes, Discrete, Values

MOST_KNOWN = 4096
"""Single cases of which it is remembered whether they contradict themselves."""
CASES_PER_MEASUREMENT = 256
"""After so many of them the cache measures them."""
_ALL: Any = slice(None)
_CELL_BYTES = 16
"""The inputs of the largest table may be of the same size as the table."""
MOST_CELLS_OF_ALL = 1e6
"""With larger tables, the engines share work between targets better."""
_SHARED_CELLS = 2e7
"""After more work for one target, a second question about the same case is answered for all targets."""
_FACTOR_BYTES = 500
"""The approximate memory of a factor, without its table."""
_CONTRADICTION_CELLS = 2e7
"""Tables that targets do not need are multiplied up to this size, to tell whether the evidence contradicts them."""


class SingleCase(Engine):
    """Elimination in tables of one case: discrete targets, and tables for all that they depend on."""

    rank = 5

    def answer(
        self, snapshot: Snapshot, evidence: Evidence, targets: Sequence[str], max_bytes: float
    ) -> CaseTables | None:
        """Return the posteriors of some variables in a single case; None where other engines have to answer."""
        findings = evidence.findings
        if not all(isinstance(finding.variable, Discrete) for finding in findings.values()):
            return None
        soft = tuple([name for name, finding in findings.items() if finding.likelihood is not None])
        codes = {name: int(finding.values[0]) for name, finding in findings.items() if finding.likelihood is None}
        asked = (tuple(targets), tuple(codes), soft)
        plan: CasePlan | None = relevance.CACHE.get(snapshot.key, asked)
        if plan is None:
            plan = relevance.CACHE.put(snapshot.key, asked, CasePlan(snapshot, findings, tuple(targets)))
        if not plan.fits:
            return None
        most_cells = max_bytes // _CELL_BYTES
        case = tuple(codes.items())
        program = plan.program  # which another thread may drop meanwhile
        costly = program is None or program.order.total > _SHARED_CELLS
        shared: SharedCase | None = relevance.CACHE.get(snapshot.key, case) if costly else None
        answer = None if shared is None else shared.answer(codes, evidence, targets, most_cells)
        if answer is not None:
            return answer
        try:
            answer = plan.solve(
                codes, findings, most_cells if len(targets) == 1 else min(most_cells, MOST_CELLS_OF_ALL)
            )
        except TooManyCells as error:
            return plan.solve_apart(codes, findings, most_cells, error.total)
        if plan.order is not None and plan.order.total > _SHARED_CELLS and not soft and len(targets) == 1:
            relevance.CACHE.put(snapshot.key, case, SharedCase(snapshot, plan.order.largest))
        return answer


class SharedCase(Cached):
    """A case that is so expensive that all posteriors are computed together as soon as a second one is wanted."""

    def __init__(self, snapshot: Snapshot, widest: float) -> None:
        self._snapshot, self._widest = snapshot, widest
        self._tables: dict[str, Values] | None = None
        self._log_norm = self._error = 0.0

    def estimate_bytes(self) -> int:
        """Return about how many bytes are held."""
        return sum(200 + table.nbytes for table in (self._tables or {}).values())

    def release(self) -> None:
        """Drop the posteriors."""
        self._tables = None

    def answer(
        self, codes: Mapping[str, int], evidence: Evidence, targets: Sequence[str], most_cells: float
    ) -> CaseTables | None:
        """Return the posteriors of the targets; None where that would take tables much larger than those of one."""
        tables = self._tables
        if tables is None:
            names = tuple([name for name in self._snapshot if name not in codes])
            plan = CasePlan(self._snapshot, evidence.findings, names)
            tables = {}
            with suppress(TooManyCells):
                if plan.fits:
                    answer = plan.solve(codes, evidence.findings, min(most_cells, 2 * self._widest))
                    own, self._log_norm, self._error = answer
                    tables = dict(zip(names, own, strict=True))
            self._tables = tables
            self.note_growth()
        if any(name not in tables for name in targets):
            return None
        return [tables[name] for name in targets], self._log_norm, self._error


class CasePlan(Cached):
    """What a question about a case with certain observed variables needs.

    Attributes
    ----------
    fits : whether all potentials that the question needs are tables
    refused : a number of cells that a table has to exceed
    risk : the variables, if any, above the evidence whose tables the targets do not need and may make it impossible,
        and the kinds of evidence

    Parameters
    ----------
    only : names of the tables to multiply, if not those that the targets depend on
    """

    def __init__(
        self,
        snapshot: Snapshot,
        findings: Mapping[str, Finding],
        targets: tuple[str, ...],
        only: Collection[str] | None = None,
    ) -> None:
        self._snapshot, self._targets, self._findings = snapshot, targets, len(findings)
        self.order: EliminationOrder | None = None
        self.program: Program | None = None
        self.refused: float = 0.0
        self.apart: tuple[CasePlan, ...] | None = None
        self.known: dict[tuple[int, ...], bool] = {}
        kinds: dict[str, Status] = {name: "hard" if finding.hard else "soft" for name, finding in findings.items()}
        needed, risky = only, list[str]()
        if needed is None:
            needed = find_requisite(snapshot.pred, snapshot.succ, targets, lambda name: kinds.get(name, "hidden"))
            risky = _find_risky(snapshot, kinds, needed)
        hard = {name for name, kind in kinds.items() if kind == "hard"}
        potentials = [snapshot.by_name[name] for name in sorted(needed, key=snapshot.depths.__getitem__)]
        self.fits: bool = all(p.as_table() is not None for p in (*potentials, *map(snapshot.potential, risky)))
        tables = [potential.as_table() for potential in potentials] if self.fits else []
        own = [(potential.table, potential.scope) for potential in tables if potential is not None]
        self.tables: list[tuple[Values, tuple[str, ...]]] = own
        mentioned = {name for _, scope in own for name in scope}
        self.soft: list[str] = [name for name, kind in kinds.items() if kind == "soft"]
        self.soft_needed: list[str] = [name for name in self.soft if name in mentioned]
        self.risk: tuple[Any, ...] = (tuple(risky), tuple(kinds.items())) if risky and self.fits else ()
        self.static: list[Values] = [table for table, scope in own if hard.isdisjoint(scope)]
        self.scalars: list[tuple[Values, tuple[str, ...]]] = [pair for pair in own if hard.issuperset(pair[1])]
        moving = [pair for pair in own if not hard.isdisjoint(pair[1])]
        self.sliced: list[tuple[Values, tuple[str, ...]]] = [p for p in moving if not hard.issuperset(p[1])]
        self.factors: list[Factor] = [Factor(scope, False, True) for _, scope in own if hard.isdisjoint(scope)]
        self.factors += [Factor(tuple([name for name in scope if name not in hard])) for _, scope in self.sliced]
        self.factors += [Factor((name,)) for name in self.soft_needed]

    def estimate_bytes(self) -> int:
        """Return about how many bytes are held, without the potentials' own tables."""
        count, program = len(self.factors) + len(self.scalars), self.program
        known = len(self.known) * (200 + 8 * self._findings)
        held = 0 if program is None else program.estimate_bytes()
        return _FACTOR_BYTES * (2 + count) + known + held + sum(plan.estimate_bytes() for plan in self.apart or ())

    def release(self) -> None:
        """Drop the program and its tables; the order of elimination stays."""
        self.program = None
        for plan in self.apart or ():
            plan.release()

    def solve(self, codes: Mapping[str, int], findings: Mapping[str, Finding], most_cells: float) -> CaseTables:
        """Return the normalized table of each target."""
        log_norm = 0.0
        for table, scope in self.scalars:
            value = table[tuple([codes[name] for name in scope])]
            log_norm += math.log(value) if value > 0 else -math.inf
        if not self.factors:
            return [], log_norm, 0.0
        tables = [table[tuple([codes.get(name, _ALL) for name in scope])] for table, scope in self.sliced]
        tables += [_weigh(findings[name]) for name in self.soft_needed]
        if most_cells <= self.refused:
            raise TooManyCells
        program = self.program
        if program is None:
            try:
                program, results = self._compile(tables, most_cells)
            except TooManyCells:
                self.refused = most_cells
                raise
        elif program.order.largest > most_cells:
            raise TooManyCells
        else:
            results = program.run(dict(enumerate(tables, start=len(self.static))))
        totals = [float(np.add.reduce(result, axis=None)) for result in results]
        if min(totals) < SUSPICIOUS:
            results, log_norm = self._solve_in_logs(program, tables, log_norm)
        else:
            log_norm += math.log(totals[0])
            results = [result * (1 / total) for result, total in zip(results, totals, strict=True)]
        error = estimate_rounding(log_norm, len(program.factors) + len(self.scalars))
        if log_norm > -math.inf and self.risk and self._plan_risk(findings).is_impossible(codes, findings, most_cells):
            log_norm = -math.inf
        return results, log_norm, error

    def _compile(self, tables: Sequence[Values], most_cells: float) -> tuple[Program, list[Values]]:
        """Multiply the tables of a case, and keep the program."""
        compiler = CaseCompiler(self.factors, [*self.static, *tables], self._snapshot.sizes, most_cells, self.order)
        program, results = compiler.compute([(name,) for name in self._targets] or [()])
        self.order, program.on_growth = program.order, self.on_growth
        self.program = program if compiler.lasting else None
        self.note_growth()
        return program, results

    def solve_apart(
        self, codes: Mapping[str, int], findings: Mapping[str, Finding], most_cells: float, together: float
    ) -> CaseTables | None:
        """Return the posteriors of all targets, each by itself; None where that takes more work than `together`."""
        if len(self._targets) == 1:
            return None
        if self.apart is None:
            self.apart = ()
            plans = []
            for name in self._targets:
                plans.append(CasePlan(self._snapshot, findings, (name,)))
                # one that is quickly found, for its cost
                scopes = [factor.names for factor in plans[-1].factors]
                order = find_order(scopes, self._snapshot.sizes, (name,), hopeless=0)
                together -= order.total
                if together < 0 or order.largest > most_cells:
                    return None
            self.apart = tuple(plans)
        if not self.apart:
            return None
        try:
            answers = [plan.solve(codes, findings, most_cells) for plan in self.apart]
        except TooManyCells:
            return None
        self.note_growth()
        tables, log_norms, errors = zip(*answers, strict=True)
        return [table for (table,) in tables], min(log_norms), max(errors)

    def _solve_in_logs(self, program: Program, tables: Sequence[Values], log_norm: float) -> tuple[list[Values], float]:
        """Return the normalized tables where products may underflow."""
        logs = {number: take_logs(table) for number, table in enumerate([*self.static, *tables])}
        results, log_sums = zip(*[normalize_logs(result[..., None]) for result in program.run_log(logs)], strict=True)
        return [table[..., 0] for table in results], log_norm + float(log_sums[0][0])

    def _plan_risk(self, findings: Mapping[str, Finding]) -> CasePlan:
        """Return the plan of the tables that may make the evidence impossible, which targets share."""
        key, asked = self._snapshot.key, self.risk
        plan: CasePlan | None = relevance.CACHE.get(key, asked)
        return plan or relevance.CACHE.put(key, asked, CasePlan(self._snapshot, findings, (), asked[0]))

    def is_impossible(self, codes: Mapping[str, int], findings: Mapping[str, Finding], most_cells: float) -> bool:
        """Tell whether the product of the tables is zero."""
        key = None if self.soft else tuple(codes.values())
        if key is not None and key in self.known:
            return self.known[key]
        try:
            result = self.solve(codes, findings, min(most_cells, _CONTRADICTION_CELLS))[1] == -math.inf
        except TooManyCells:
            # contradictions that only several tables show together are overlooked
            left = {name: np.flatnonzero(_weigh(findings[name])) for name in self.soft_needed}
            told = codes.keys() | left.keys()
            return not all(_allows(*own, codes, left) for own in self.tables if not told.isdisjoint(own[1]))
        if key is not None and len(self.known) < MOST_KNOWN:
            self.known[key] = result
            if len(self.known) % CASES_PER_MEASUREMENT == 0:
                self.note_growth()
        return result


def _find_risky(snapshot: Snapshot, kinds: Mapping[str, Status], needed: Collection[str]) -> list[str]:
    """Return the variables above the evidence that targets do not need, and whose potentials may contradict it."""
    above = [name for name in ancestors(snapshot.pred, kinds) - set(needed) if snapshot.by_name[name].has_zeros]
    # a child of which nothing else is known has some state given any of its parents'
    known, risky = set(kinds), list[str]()
    for name in sorted(above, key=snapshot.depths.__getitem__, reverse=True):
        if name in known:
            risky.append(name)
            known.update(snapshot.scopes[name])
    return risky


def _allows(table: Values, scope: Sequence[str], codes: Mapping[str, int], left: Mapping[str, Codes]) -> bool:
    """Tell whether a table has more than zeros for the observed states, and those that evidence leaves of others."""
    part = table[tuple([codes.get(name, _ALL) for name in scope])]
    for axis, name in enumerate([name for name in scope if name not in codes]):
        part = part.take(left[name], axis) if name in left else part
    return bool(part.any())


def _weigh(finding: Finding) -> Values:
    return finding.weights(np.arange(len(finding.variable)))[:, 0]  # type: ignore[arg-type]
