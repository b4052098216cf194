"""Compilation: from a question to a problem, once for a pattern of evidence.

A `Question` says what is asked of a network. From it, from the network's potentials, and from the pattern of the
evidence (which variables are observed in all rows, in some, or in none), a `Problem` is compiled and kept in a cache:
the relevant potentials, the kind of axis of every variable (see `hybridbn.inference.axes`), the sources of the factors,
the elimination order, and the `Program` that computes the tables which are wanted.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any
from weakref import ReferenceType, ref

import networkx as nx
import numpy as np

from hybridbn.inference import relevance
from hybridbn.inference.axes import CellAxis, PriorReach, StateAxis
from hybridbn.inference.elimination.compilers import choose_order, compile_program
from hybridbn.inference.elimination.factors import FactorSource, LikelihoodSource, PotentialSource, WeightSource
from hybridbn.inference.elimination.ordering import EliminationOrder, find_drawing_order
from hybridbn.inference.elimination.program import Factor, Program
from hybridbn.inference.evidence import Evidence, Finding
from hybridbn.inference.gaussian_component import GaussianComponent
from hybridbn.inference.relevance import ENTRY_BYTES, Cached, Snapshot, ancestors, find_requisite, status_of
from hybridbn.network import Network
from hybridbn.potentials.base import Components, Potential, sum_logs
from hybridbn.variables import Continuous, Discrete, Values

if TYPE_CHECKING:
    from hybridbn.inference.grids import SharedGrid
    from hybridbn.inference.modes import Trail

NODE_SIZE = 384
"""The size that a Gauss-Legendre axis is assumed to have when the elimination order is chosen."""

_MOST_GROUPS = 32
"""A problem keeps compiled at most this many groups of rows that are observed in the same variables."""


@dataclass(frozen=True)
class Question:
    """What is asked of a network, without the evidence.

    Attributes
    ----------
    targets : names of the variables whose posteriors are wanted
    joint : whether one table over all targets is wanted, instead of one for each
    all_of : whether every potential above the evidence and the targets is kept, as the probability of the evidence
    needs it
    pointwise : whether densities are wanted, not only masses, so that no continuous variable is represented by cells
    dense : continuous variables that must have nodes
    only : the potentials to use, if not those that the targets depend on
    drawn : discrete variables to draw one after the other: there is a table for each, over those before it on which it
    depends and itself
    constant : observed variables with the same value in all rows
    over : the names of the tables that are wanted, if not those that the posteriors of the targets are computed from
    whole : whether potentials that are mixtures are kept whole, with nodes for their children; None: what is less work
    """

    targets: tuple[str, ...] = ()
    joint: bool = False
    all_of: bool = False
    pointwise: bool = False
    dense: frozenset[str] = frozenset()
    only: frozenset[str] = frozenset()
    drawn: tuple[str, ...] = ()
    constant: frozenset[str] = frozenset()
    over: tuple[tuple[str, ...], ...] = ()
    whole: bool | None = None


@dataclass
class Problem(Cached):
    """A question compiled for a pattern of evidence; it holds no row of the evidence.

    Attributes
    ----------
    snapshot : all potentials of the network
    potentials : the requisite potentials by child, and those of hidden components
    hard : names of the variables that are observed in every row
    axes : axes that are the same for all rows (states and cells)
    nodes : continuous variables that get Gauss-Legendre nodes
    component_of : the Gaussian component of each variable that is integrated out in closed form
    sources : the sources of the factors, in the order of `factors`
    scopes : for each target, the names of the table that its posterior is computed from
    sizes : the number of points of each hidden variable's axis, as far as it is known without evidence
    shared : the sources for nodes that all rows share, those of variables that only some rows know being hidden; None
        if there is other evidence than values on such variables
    partly_observed : the variables with nodes that are observed in some rows and hidden in others
    conditioned : the number, hidden in the problem that was asked, on which this one is conditioned for a single row,
        with what was seen along others at places of it
    component_work : about how many cells of tables take as long as the Gaussian components of one row
    mixtures : the potentials that are taken apart, by child
    risks : by the observed names, the potentials outside the problem that can make evidence impossible
    """

    snapshot: Snapshot
    question: Question
    potentials: Mapping[str, Potential]
    hard: frozenset[str]
    axes: dict[str, StateAxis | CellAxis]
    nodes: tuple[str, ...]
    component_of: Mapping[str, GaussianComponent]
    sources: tuple[FactorSource, ...]
    scopes: tuple[tuple[str, ...], ...]
    sizes: Mapping[str, int]
    factors: tuple[Factor, ...]
    order: EliminationOrder
    shared: tuple[FactorSource, ...] | None
    partly_observed: tuple[str, ...]
    component_work: float
    mixtures: Mapping[str, Components]
    axis_choice: _AxisChoice = field(repr=False)
    conditioned: tuple[str, dict[Any, Trail]] | None = field(default=None, repr=False)
    risks: dict[tuple[str, ...], Any] = field(default_factory=dict, repr=False)
    _kept: _Tables | None = field(default=None, repr=False)
    _used: ReferenceType[_Tables] | None = field(default=None, repr=False)

    @property
    def tables(self) -> _Tables:
        """The stored results that do not depend on the evidence; a caller holds a reference to them while it uses the
        problem.
        """
        tables = self._kept
        if tables is None:
            tables = None if self._used is None else self._used()
            if tables is None:
                tables = self._kept = _Tables()
                self._used = ref(tables)
        return tables

    def release(self) -> None:
        """Drop the stored tables, except those that a running computation refers to."""
        self._kept = None

    def estimate_bytes(self) -> int:
        """Return about how many bytes are held, without the potentials' own tables."""
        held = ENTRY_BYTES * (1 + len(self.sources) + len(self.potentials))
        for names, risk in list(self.risks.items()):
            held += len(risk.known) * (200 + 40 * len(names))
        if self._kept is not None:
            # other threads may store more meanwhile
            grids, groups = list(self._kept.grids.values()), list(self._kept.groups.values())
            for stored in (self._kept.program, self._kept.placement, *grids, *groups):
                held += 0 if stored is None else stored.estimate_bytes()
        return held

    def continuous_variable(self, name: str) -> Continuous:
        """Return a variable that is continuous."""
        variable = self.potentials[name].child
        assert isinstance(variable, Continuous)
        return variable

    def keep_whole(self, evidence: Evidence) -> Problem:
        """Return the problem in which potentials that are mixtures are kept whole."""
        return problem_of(self.snapshot, replace(self.question, whole=True), evidence)

    @property
    def program(self) -> Program:
        """The program for the tables over the scopes; compiled at first use, when the problem is known not to be too
        wide.
        """
        tables = self.tables
        if tables.program is None:
            tables.program = compile_program(self.factors, self.scopes or ((),), self.sizes, self.order)
            tables.program.on_growth = self.on_growth
        return tables.program

    @property
    def placement(self) -> Program:
        """The program that computes the marginals of all variables with nodes, or one table over all of them where a
        factor is as large.
        """
        tables = self.tables
        if tables.placement is None:
            together = any(set(self.nodes) <= set(factor.names) for factor in self.factors)
            scopes = [self.nodes] if together else [(name,) for name in self.nodes]
            tables.placement = compile_program(self.factors, scopes, self.sizes)
        return tables.placement

    def compute_log_marginals(self, logs: Mapping[int, Values]) -> list[Values]:
        """Return the log marginal of each variable with nodes, from the logarithms of the factors."""
        tables, nodes = self.placement.run_log(logs), range(len(self.nodes))
        if len(tables) == len(nodes):
            return tables
        return [sum_logs(tables[0], tuple(other for other in nodes if other != node)) for node in nodes]

    def restrict_to_observed(self, known: frozenset[str]) -> Problem:
        """Return the problem of the rows in which just these of the partly observed variables are observed."""
        groups = self.tables.groups
        group = groups.get(known)
        if group is None:
            if len(groups) >= _MOST_GROUPS:
                groups.clear()
            group = self.axis_choice.restrict_to_observed(known, frozenset(self.partly_observed) - known).assemble()
            group.on_growth = self.on_growth
            groups[known] = group
        return group


@dataclass(eq=False)
class _Tables:
    """Results of a problem that do not depend on the evidence and are computed once.

    Attributes
    ----------
    grids : shared grids by tolerance; None where there is none
    reaches : of the priors of continuous variables
    groups : problems of rows that are observed in the same variables
    ridge : how rough families are along their hidden numbers, where that is too much for a product of grids, once that
        was asked
    searched : whether a better elimination order was searched for, because the first one was too wide
    """

    program: Program | None = None
    placement: Program | None = None
    grids: dict[float, SharedGrid | None] = field(default_factory=dict)
    reaches: Mapping[str, PriorReach] | None = None
    groups: dict[frozenset[str], Problem] = field(default_factory=dict)
    ridge: Mapping[str, float] | None = None
    searched: bool = False


def problem_of(network: Network | Snapshot, question: Question, evidence: Evidence) -> Problem:
    """Return the compiled problem, from the cache if the same potentials were asked the same question before."""
    snapshot = Snapshot.of(network)
    pattern = tuple([(name, finding.pattern) for name, finding in evidence.findings.items()])
    asked = (question, pattern, evidence.single)
    problem: Problem | None = relevance.CACHE.get(snapshot.key, asked)
    if problem is None:
        problem = _AxisChoice(snapshot, question, evidence).assemble()
        if problem.mixtures and question.whole is None:
            # configurations of many components may be more than the cells of grids
            whole = problem.keep_whole(evidence)
            work, other = (one.order.total + one.component_work for one in (problem, whole))
            problem = problem if work <= other else whole
        problem = relevance.CACHE.put(snapshot.key, asked, problem)
    return problem


def _find_needed(snapshot: Snapshot, question: Question, findings: Mapping[str, Finding]) -> Collection[str]:
    """Return the variables whose potentials a question needs."""
    if question.only:
        return question.only
    if question.all_of:
        return ancestors(snapshot.pred, [*findings, *question.targets])
    return find_requisite(snapshot.pred, snapshot.succ, question.targets, lambda name: status_of(findings.get(name)))


class _AxisChoice:
    """The decision how each variable is represented: by states, cells, nodes, in closed form, or masked."""

    def __init__(self, snapshot: Snapshot, question: Question, evidence: Evidence) -> None:
        findings = evidence.findings
        needed = _find_needed(snapshot, question, findings)
        used = {name: potential for name, potential in snapshot.by_name.items() if name in needed}
        hard = frozenset([name for name, finding in findings.items() if finding.hard])
        self._snapshot, self._question = snapshot, question
        self.used: dict[str, Potential] = used
        self.hard: frozenset[str] = hard
        # a problem must not refer to rows of the evidence
        self.findings: dict[str, Finding] = {name: finding.take(slice(0)) for name, finding in findings.items()}
        self.below: dict[str, list[Potential]] = {
            name: [used[child] for child in snapshot.succ[name] if child in used] for name in used
        }
        variables = {v.name: v for potential in used.values() for v in potential.variables}
        self.masked: set[str] = {
            name
            for name, finding in findings.items()
            if name in used
            and name not in hard
            and finding.plain
            and not self.below[name]
            and name not in question.targets
        }
        self.axes: dict[str, StateAxis | CellAxis] = {}
        self.closed: set[str] = set()
        self.mixtures: dict[str, Components] = {
            name: parts
            for name, potential in used.items()
            if not question.whole and type(potential).as_components is not Potential.as_components
            if (parts := potential.as_components()) and parts.component.name not in snapshot
        }
        """Those that are taken apart, by child."""
        self.nodes: list[str] = []
        for name, variable in variables.items():
            if name in hard:
                continue
            if isinstance(variable, Discrete):
                if name not in self.masked:
                    self.axes[name] = StateAxis(len(variable))
            elif name not in question.dense and self._is_linear_gaussian(name):
                self.closed.add(name)
        if self.closed:
            self._drop_masked_gaussians()
            self._take_mixtures_apart(evidence)
        else:
            self.mixtures.clear()
        for name, variable in variables.items():
            if isinstance(variable, Discrete) or name in hard or name in self.closed or name in self.masked:
                continue
            if not question.pointwise and name not in question.dense and self._has_cells(name, question):
                self.axes[name] = CellAxis(self._edges(variable))
            else:
                self.nodes.append(name)
        # arrays have a row dimension
        self.batched: bool = not evidence.single or bool(self.nodes)

    def assemble(self) -> Problem:
        """Return the problem in which every variable is represented as decided."""
        question, findings = self._question, self.findings
        sources = self.list_sources()
        partly_observed = tuple([name for name in self.nodes if name in findings])
        sharable = self.nodes and all(findings[name].plain for name in partly_observed)
        scopes = self.list_scopes(sources)
        sizes = {**{name: axis.size for name, axis in self.axes.items()}, **dict.fromkeys(self.nodes, NODE_SIZE)}
        factors = tuple([Factor(source.names, source.rows, source.static) for source in sources])
        if question.drawn:
            order, scopes = find_drawing_order([factor.names for factor in factors], sizes, question.drawn)
        else:
            order = choose_order(factors, scopes or [()], sizes)
        return Problem(
            self._snapshot,
            question,
            self.used,
            self.hard,
            self.axes,
            tuple(self.nodes),
            {name: s for s in sources if isinstance(s, GaussianComponent) for name in s.closed},
            tuple(sources),
            tuple(scopes),
            sizes,
            factors,
            order,
            tuple(self.list_sources(shared=True)) if sharable else None,
            tuple([name for name in partly_observed if findings[name].plain]),
            sum(source.count_work(sizes) for source in sources if isinstance(source, GaussianComponent)),
            self.mixtures,
            self,
        )

    def restrict_to_observed(self, known: frozenset[str], free: frozenset[str]) -> _AxisChoice:
        """Return the same decision for rows in which some variables with nodes are observed and others are hidden."""
        other = copy(self)
        other.hard = self.hard | known
        other.nodes = [name for name in self.nodes if name not in known]
        other.findings = {name: finding for name, finding in self.findings.items() if name not in free}
        return other

    def _is_linear_gaussian(self, name: str) -> bool:
        """Return whether all potentials and evidence of the variable are linear Gaussian."""
        finding = self.findings.get(name)
        return (finding is None or finding.plain) and all(
            potential.as_regression() is not None
            or (potential.child.name in self.mixtures and name not in self.mixtures[potential.child.name].chances.scope)
            for potential in (self.used[name], *self.below[name])
        )

    def tell_components(self, evidence: Evidence) -> Evidence:
        """Return evidence with what observed values tell of the components of their mixtures."""
        findings = dict(evidence.findings)
        for name, parts in self.mixtures.items():
            if name in findings and parts.marks is not None:
                codes = np.where(findings[name].observed, parts.marks.cells.mark(findings[name].values)[0], -1)
                findings[parts.component.name] = Finding(parts.component, codes)
        return replace(evidence, findings=findings) if len(findings) > len(evidence.findings) else evidence

    def _take_mixtures_apart(self, evidence: Evidence) -> None:
        """Replace mixtures that have to do with closed variables by what they consist of."""
        for name in [name for name in self.mixtures if self.closed.isdisjoint(self.used[name].scope)]:
            del self.mixtures[name]
        self.used |= {parts.component.name: parts.chances for parts in self.mixtures.values()}
        for name, finding in self.tell_components(evidence).findings.items():
            self.findings[name] = finding.take(slice(0))
            self.hard |= {name} if finding.hard else frozenset()
        for parts in self.mixtures.values():
            if parts.component.name not in self.hard:
                self.axes[parts.component.name] = StateAxis(len(parts.component))

    def _drop_masked_gaussians(self) -> None:
        """Assign partly observed leaves: to a Gaussian component if a parent belongs to one, else they are masked."""
        for name in self.masked & self.closed:
            if any(parent.name in self.closed for parent in self.used[name].parents):
                self.masked.discard(name)
            else:
                self.closed.discard(name)

    def _has_cells(self, name: str, question: Question) -> bool:
        finding = self.findings.get(name)
        return (
            self.used[name].exact_mass
            and not len(self.used[name].point_cells.points)
            and self.closed.isdisjoint(self.used[name].scope)
            and (finding is None or not finding.weighted)
            and all(child.cellwise(name) for child in self.below[name])
            and (name not in question.targets or self._has_shape_by_cells(name, question))
        )

    def _has_shape_by_cells(self, name: str, question: Question) -> bool:
        """Return whether a target has one of few shapes in each cell: its parents have states or cells, observed or
        not.
        """
        own, finding = self.used[name], self.findings.get(name)
        return (finding is None or finding.plain) and all(
            own.cellwise(parent.name)
            and (
                parent.name in self.hard
                or (parent.name not in question.dense and self._has_cells(parent.name, question))
            )
            for parent in own.parents
            if not isinstance(parent, Discrete)
        )

    def _edges(self, variable: Continuous) -> Any:
        points = [potential.breaks(variable.name) for potential in self.below[variable.name]]
        inner = np.unique(np.concatenate([np.empty(0), *points]))
        low, high = variable.domain
        return np.concatenate([[low], inner[(inner > low) & (inner < high)], [high]])

    def list_sources(self, *, shared: bool = False) -> list[FactorSource]:
        """Return the factor sources; with `shared` nodes, axes do not depend on the row."""
        nodes = () if shared else self.nodes
        batched = self.batched
        closed = self._list_components(nodes) if self.closed else []
        inside = {potential.child.name for component in closed for potential in component.potentials}
        cells = {name: self.used[name].point_cells for name in self.nodes}
        result: list[FactorSource] = [*closed, *(WeightSource((name,), not shared, shared) for name in self.nodes)]
        marks = [
            parts.marks
            for name, parts in self.mixtures.items()
            if parts.marks is not None and (name not in self.closed or name in self.findings)
        ]
        for potential in (*(potential for name, potential in self.used.items() if name not in inside), *marks):
            name = potential.child.name
            masked = name in self.masked or name in self.closed
            names = tuple(n for n in potential.scope if n not in self.hard and not (masked and n == name))
            observed = masked or any(n in self.hard for n in potential.scope)
            fixed = not masked and self._question.constant.issuperset(self.hard.intersection(potential.scope))
            partial = name in self.findings and isinstance(self.axes.get(name), CellAxis)
            moving = observed or partial or any(n in nodes for n in names)
            hard = self.hard & set(potential.scope)
            varying = moving and not (observed and fixed and not partial and not any(n in nodes for n in names))
            own = {n: cells[n] for n in names if n in cells and n != name}
            result.append(PotentialSource(names, batched and varying, not moving, potential, hard, masked, own))
        for name, finding in self.findings.items():
            if name not in self.axes and name not in self.nodes:
                continue
            if isinstance(finding.variable, Discrete) or finding.weighted:
                result.append(LikelihoodSource((name,), batched, False))
        return result

    def _list_components(self, nodes: Sequence[str]) -> list[GaussianComponent]:
        """Return the Gaussian components: groups of closed variables that are connected by potentials."""
        inside = {name: [n for n in potential.scope if n in self.closed] for name, potential in self.used.items()}
        graph = nx.Graph()
        for together in inside.values():
            nx.add_path(graph, together)
        group_of = {name: number for number, part in enumerate(nx.connected_components(graph)) for name in part}
        groups: dict[int, list[Potential]] = {}
        for name, potential in self.used.items():
            if inside[name]:
                groups.setdefault(group_of[inside[name][0]], []).append(potential)
        components = []
        for number, whole in groups.items():
            members = [self.mixtures[p.child.name].regression if p.child.name in self.mixtures else p for p in whole]
            names = dict.fromkeys(n for p in members for n in p.scope if n not in self.hard and n not in self.closed)
            closed = tuple(name for name in self.used if name in self.closed and group_of[name] == number)
            hard = self.hard & {n for p in members for n in p.scope}
            moving = bool(hard) or any(n in nodes for n in names) or any(n in self.findings for n in closed)
            cells = {n: self.used[n].point_cells for n in names if n in self.nodes}
            given = tuple(names), self.batched and moving, not moving, tuple(members), closed, hard, cells
            components.append(GaussianComponent(*given))
        return components

    def list_scopes(self, sources: Sequence[FactorSource]) -> list[tuple[str, ...]]:
        """Return the names of the tables that are wanted: for each target that from which its posterior is computed."""
        scopes: list[tuple[str, ...]] = []
        for name in self._question.targets:
            if name in self.closed:
                scopes.append(next(s.names for s in sources if isinstance(s, GaussianComponent) and name in s.closed))
            elif isinstance(self.axes.get(name), CellAxis):
                scopes.append(tuple(n for n in self.used[name].scope if n not in self.hard))
            else:
                scopes.append(() if name in self.hard else (name,))
        if self._question.over:
            scopes = [tuple(name for name in scope if name not in self.hard) for scope in self._question.over]
        if self._question.joint:
            scopes = [tuple(dict.fromkeys(name for scope in scopes for name in scope))]
        return scopes
