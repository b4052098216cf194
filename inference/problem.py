"""From a network, targets and the pattern of the evidence to sources of factors and a program; compiled once, cached.

The kind of axis of every variable is decided here, see `hybridbn.inference.axes`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import count
from threading import Lock
from typing import TYPE_CHECKING, Any
from weakref import ReferenceType, ref

import numpy as np

from hybridbn.errors import NetworkError
from hybridbn.inference.axes import CellAxis, StateAxis
from hybridbn.inference.elimination.executor import (
    Executor,
    FactorSource,
    LikelihoodSource,
    PotentialSource,
    WeightSource,
)
from hybridbn.inference.elimination.ordering import EliminationOrder
from hybridbn.inference.elimination.program import Factor, Program, choose_order, compile_program
from hybridbn.inference.evidence import Evidence, Finding
from hybridbn.inference.gaussian_component import GaussianComponent
from hybridbn.inference.relevance import Status, ancestors, find_requisite
from hybridbn.network import Network
from hybridbn.potentials.base import Potential
from hybridbn.variables import Continuous, Discrete, Variable

if TYPE_CHECKING:
    from hybridbn.inference.quadrature.shared_grids import SharedGrid

__all__ = ["CACHE", "Problem", "ProblemCache", "Question", "Snapshot", "problem_of", "status_of"]

NODE_SIZE = 384
"""What a Gauss-Legendre axis is taken to cost when the order is chosen."""

_FILL_AFTER_CLEANUP = 0.9
"""What is left of a full cache, so that room need not be made for each new problem."""
_SOURCE_BYTES = 1000
"""About what a source and what belongs to it take in memory, without tables."""
_MOST_GROUPS = 32
"""Of rows that are observed in the same variables, of one problem."""


@dataclass
class Problem:
    """A compiled question.

    Attributes
    ----------
    potentials : the requisite potentials by child
    axes : axes that are the same for all rows (states and cells)
    nodes : continuous variables that get Gauss-Legendre nodes
    component_of : the Gaussian component of each closed variable
    scopes : for each target, the names of the table that its posterior is made from
    batched : whether arrays have a row dimension
    shared : the sources for nodes that all rows share; None if rows differ in which of these variables are observed
    """

    potentials: Mapping[str, Potential]
    hard: frozenset[str]
    axes: dict[str, StateAxis | CellAxis]
    nodes: tuple[str, ...]
    component_of: Mapping[str, GaussianComponent]
    sources: tuple[FactorSource, ...]
    scopes: tuple[tuple[str, ...], ...]
    batched: bool
    factors: tuple[Factor, ...]
    order: EliminationOrder
    shared: tuple[FactorSource, ...] | None
    risks: dict[tuple[str, ...], Any] = field(default_factory=dict, repr=False)
    """Potentials outside the problem that can make evidence impossible, by the names observed."""
    partly_observed: tuple[str, ...] = ()
    """Variables with nodes of which some rows have an observed value and others nothing."""
    axis_choice: _AxisChoice | None = field(default=None, repr=False)
    on_growth: Callable[[], None] | None = field(default=None, repr=False)
    """Called when more tables are kept."""
    _kept: ProblemTables | None = field(default=None, repr=False)
    _used: ReferenceType[ProblemTables] | None = field(default=None, repr=False)

    @property
    def tables(self) -> ProblemTables:
        """What runs computed that does not depend on the evidence; whoever runs the problem keeps a reference meanwhile."""
        tables = self._kept
        if tables is None:
            tables = None if self._used is None else self._used()
            if tables is None:
                tables = self._kept = ProblemTables()
                self._used = ref(tables)
        return tables

    def release(self) -> None:
        """Keep no tables but those of runs that are under way."""
        self._kept = None

    def estimate_bytes(self) -> int:
        """Return about how much memory is held, tables without those of the potentials."""
        known = sum(len(risk.known) * (200 + 40 * len(names)) for names, risk in list(self.risks.items()))
        kept = 0 if self._kept is None else self._kept.estimate_bytes()
        return _SOURCE_BYTES * (1 + len(self.sources) + len(self.potentials)) + known + kept

    @property
    def executor(self) -> Executor:
        """The machine that gives the tables over the scopes; compiled when it is known not to be too wide."""
        tables = self.tables
        if tables.executor is None:
            sizes = _sizes(self.axes, self.nodes)
            program = compile_program(self.factors, self.scopes or ((),), sizes, self.order)
            program.on_growth = self.on_growth
            tables.executor = Executor(self.sources, program, frozenset(self.nodes))
        return tables.executor

    @property
    def placement(self) -> Program:
        """The program that gives the marginals of all variables with nodes."""
        tables = self.tables
        if tables.placement is None:
            scopes = [(name,) for name in self.nodes]
            tables.placement = compile_program(self.factors, scopes, _sizes(self.axes, self.nodes))
        return tables.placement

    @property
    def targets(self) -> tuple[str, ...]:
        """What is asked for, where rows differ in what is observed."""
        return () if self.axis_choice is None else self.axis_choice.question.targets

    def restrict_to_observed(self, known: frozenset[str]) -> Problem:
        """Return the problem for those rows in which these of the partly observed variables are observed and the others are not."""
        groups = self.tables.groups
        group = groups.get(known)
        if group is None:
            assert self.axis_choice is not None
            if len(groups) >= _MOST_GROUPS:
                groups.clear()
            group = _assemble(
                self.axis_choice.restrict_to_observed(known, frozenset(self.partly_observed) - known), self.batched
            )
            group.on_growth = self.on_growth
            groups[known] = group
        return group


@dataclass(eq=False)
class ProblemTables:
    """What the runs of a problem computed once and share.

    Attributes
    ----------
    grids : shared grids by tolerance; None where there can be none
    groups : problems of rows that are observed in the same variables
    """

    executor: Executor | None = None
    placement: Program | None = None
    grids: dict[float, SharedGrid | None] = field(default_factory=dict)
    groups: dict[frozenset[str], Problem] = field(default_factory=dict)

    def estimate_bytes(self) -> int:
        """Return about how much memory is held."""
        executors = [self.executor, *(grid.executor for grid in list(self.grids.values()) if grid is not None)]
        programs = [executor.program for executor in executors if executor is not None]
        if self.placement is not None:
            programs.append(self.placement)
        return sum(program.estimate_bytes() for program in programs) + sum(
            group.estimate_bytes() for group in list(self.groups.values())
        )


@dataclass(frozen=True)
class Question:
    """What is asked for.

    Attributes
    ----------
    targets : names
    joint : one table over all targets, instead of one for each
    all_of : keep every potential above the evidence and the targets (what the probability of the evidence needs)
    pointwise : no continuous variable is represented by cells (a density is wanted, not only masses)
    dense : continuous variables that must have nodes
    only : the potentials to look at, if not those that the targets depend on
    """

    targets: tuple[str, ...] = ()
    joint: bool = False
    all_of: bool = False
    pointwise: bool = False
    dense: frozenset[str] = frozenset()
    only: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Snapshot:
    """The potentials of a network at one time; what is asked later is answered by these, whatever becomes of the network."""

    by_name: Mapping[str, Potential]

    @classmethod
    def of(cls, network: Network | Snapshot) -> Snapshot:
        """Take the potentials of a network, which must have one for every node."""
        if isinstance(network, Snapshot):
            return network
        try:
            return cls({name: node["potential"] for name, node in network._node.items()})
        except KeyError:
            network.check()
            raise

    def __iter__(self) -> Iterator[str]:
        return iter(self.by_name)

    def __contains__(self, name: object) -> bool:
        return name in self.by_name

    def potential(self, name: str) -> Potential:
        """Return the potential of a node."""
        return self.by_name[name]

    def variable(self, name: str) -> Variable:
        """Return the variable of a node."""
        return self.by_name[name].child

    @cached_property
    def pred(self) -> Mapping[str, tuple[str, ...]]:
        """The parents of each node."""
        return {name: potential.scope[:-1] for name, potential in self.by_name.items()}

    @cached_property
    def succ(self) -> Mapping[str, list[str]]:
        """The children of each node."""
        children: dict[str, list[str]] = {name: [] for name in self.by_name}
        for name, above in self.pred.items():
            for parent in above:
                children[parent].append(name)
        return children


class ProblemCache:
    """Compiled problems, as many as fit in some bytes; those that were asked last.

    What grows too large loses its tables first, and stays in the cache as a plan without them: choosing the order is
    what takes longest, and the tables are computed again.

    Parameters
    ----------
    most_bytes : what all problems together may hold
    """

    def __init__(self, most_bytes: float = 256 * 2**20) -> None:
        self.most_bytes = most_bytes
        self.total = 0
        """Bytes held by all problems together, about."""
        self._entries: dict[Any, _CacheEntry] = {}
        self._clock = count()
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, key: Any) -> Problem | None:
        """Return the problem with a key."""
        entry = self._entries.get(key)
        if entry is None:
            return None
        entry.used = next(self._clock)
        return entry.problem

    def put(self, key: Any, problem: Problem, potentials: tuple[Potential, ...]) -> Problem:
        """Return the problem that is kept under a key: this one, unless another thread was faster."""
        problem.on_growth = partial(self.measure, key)
        with self._lock:
            # the potentials are kept with the entry, so that their identities stay theirs
            kept = self._entries.setdefault(key, _CacheEntry(key, problem, potentials, next(self._clock)))
        self.measure(key)
        return kept.problem

    def measure(self, key: Any) -> None:
        """Measure a problem that has grown, and make room for it."""
        with self._lock:
            entry = self._entries.get(key)
            if entry is None:
                return
            self._measure(entry)
            if entry.held > self.most_bytes:
                self._release(entry)
            if self.total > self.most_bytes:
                self._make_room()

    def _make_room(self) -> None:
        """Drop tables, and then plans, of what was not asked for the longest, and some more than needed."""
        oldest = sorted(self._entries.values(), key=lambda entry: entry.used)
        for drop in (self._release, self._remove):
            for entry in oldest:
                if self.total <= _FILL_AFTER_CLEANUP * self.most_bytes:
                    return
                drop(entry)

    def clear(self) -> None:
        """Forget all problems."""
        with self._lock:
            self._entries.clear()
            self.total = 0

    def _remove(self, entry: _CacheEntry) -> None:
        del self._entries[entry.key]
        self.total -= entry.held

    def _release(self, entry: _CacheEntry) -> None:
        entry.problem.release()
        self._measure(entry)

    def _measure(self, entry: _CacheEntry) -> None:
        held = entry.problem.estimate_bytes() + _SOURCE_BYTES + 8 * len(entry.potentials)
        self.total += held - entry.held
        entry.held = held


@dataclass
class _CacheEntry:
    key: Any
    problem: Problem
    potentials: tuple[Potential, ...]
    used: int
    held: int = 0


CACHE = ProblemCache()


def problem_of(network: Network | Snapshot, question: Question, evidence: Evidence) -> Problem:
    """Return the compiled problem, from the cache if the same potentials were asked the same question before."""
    potentials = Snapshot.of(network).by_name
    pattern = tuple([(name, finding.pattern) for name, finding in evidence.findings.items()])
    key = (tuple(map(id, potentials.values())), question, pattern, evidence.single)
    problem = CACHE.get(key)
    if problem is None:
        problem = CACHE.put(key, _compile(potentials, question, evidence), tuple(potentials.values()))
    return problem


def status_of(finding: Finding | None) -> Status:
    """Return how a variable with this finding counts for relevance."""
    return "hidden" if finding is None or finding.empty else "hard" if finding.hard else "soft"


def _sizes(axes: Mapping[str, StateAxis | CellAxis], nodes: Iterable[str]) -> dict[str, int]:
    return {**{name: axis.size for name, axis in axes.items()}, **dict.fromkeys(nodes, NODE_SIZE)}


def _compile(potentials: Mapping[str, Potential], question: Question, evidence: Evidence) -> Problem:
    targets = question.targets
    parents = {name: potential.scope[:-1] for name, potential in potentials.items()}
    children: dict[str, list[str]] = {name: [] for name in potentials}
    for name, above in parents.items():
        for parent in above:
            if parent not in children:
                raise NetworkError(f"{parent!r}, a parent of {name!r}, is no node of the network")
            children[parent].append(name)
    findings = evidence.findings
    hard = frozenset(name for name, finding in findings.items() if finding.hard)
    if question.only:
        needed = set(question.only)
    elif question.all_of:
        needed = ancestors(parents, [*findings, *targets])
    else:
        needed = find_requisite(parents, children, targets, lambda name: status_of(findings.get(name)))
    used = {name: potentials[name] for name in potentials if name in needed}
    axis_choice = _AxisChoice(used, children, question, findings, hard)
    return _assemble(axis_choice, not evidence.single or bool(axis_choice.nodes))


def _assemble(axis_choice: _AxisChoice, batched: bool) -> Problem:
    """Make the problem in which every variable is represented as decided."""
    question, findings = axis_choice.question, axis_choice.findings
    sources = axis_choice.sources(batched)
    partly_observed = tuple(name for name in axis_choice.nodes if name in findings)
    shared = None if partly_observed or not axis_choice.nodes else tuple(axis_choice.sources(batched, shared=True))
    scopes = axis_choice.scopes(question.targets, sources)
    if question.joint:
        scopes = [tuple(dict.fromkeys(name for scope in scopes for name in scope))]
    factors = tuple(Factor(source.names, source.rows, source.static) for source in sources)
    order = choose_order(factors, scopes or [()], _sizes(axis_choice.axes, axis_choice.nodes))
    component_of = {name: s for s in sources if isinstance(s, GaussianComponent) for name in s.closed}
    return Problem(
        axis_choice.used,
        axis_choice.hard,
        axis_choice.axes,
        tuple(axis_choice.nodes),
        component_of,
        tuple(sources),
        tuple(scopes),
        batched,
        factors,
        order,
        shared,
        partly_observed=tuple(name for name in partly_observed if findings[name].plain),
        axis_choice=axis_choice if partly_observed else None,
    )


class _AxisChoice:
    """Decides how every variable is represented."""

    def __init__(
        self,
        used: Mapping[str, Potential],
        children: Mapping[str, Sequence[str]],
        question: Question,
        findings: Mapping[str, Finding],
        hard: frozenset[str],
    ) -> None:
        self.used, self.question, self.hard = used, question, hard
        # what is kept with a problem knows of no row
        self.findings = {name: finding.take(slice(0)) for name, finding in findings.items()}
        self.below = {name: [used[child] for child in children[name] if child in used] for name in used}
        variables = {v.name: v for potential in used.values() for v in potential.variables}
        self.masked = {
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
        self.nodes: list[str] = []
        for name, variable in variables.items():
            if name in hard:
                continue
            if isinstance(variable, Discrete):
                if name not in self.masked:
                    self.axes[name] = StateAxis(len(variable))
            elif name not in question.dense and self._is_linear_gaussian(name):
                self.closed.add(name)
        self._drop_masked_gaussians()
        for name, variable in variables.items():
            if isinstance(variable, Discrete) or name in hard or name in self.closed or name in self.masked:
                continue
            if not question.pointwise and name not in question.dense and self._has_cells(name, question):
                self.axes[name] = CellAxis(self._edges(variable))
            else:
                self.nodes.append(name)

    def restrict_to_observed(self, known: frozenset[str], free: frozenset[str]) -> _AxisChoice:
        """Decide alike where some of the variables with nodes are observed and others are free in all rows."""
        other = copy(self)
        other.hard = self.hard | known
        other.nodes = [name for name in self.nodes if name not in known]
        other.findings = {name: finding for name, finding in self.findings.items() if name not in free}
        return other

    def _is_linear_gaussian(self, name: str) -> bool:
        """Tell whether everything about the variable is linear Gaussian."""
        finding = self.findings.get(name)
        return (finding is None or finding.plain) and all(
            potential.regression() is not None for potential in (self.used[name], *self.below[name])
        )

    def _drop_masked_gaussians(self) -> None:
        """A partly observed leaf belongs to a component if a parent does, and is just masked if none does."""
        for name in self.masked & self.closed:
            if any(parent.name in self.closed for parent in self.used[name].parents):
                self.masked.discard(name)
            else:
                self.closed.discard(name)

    def _has_cells(self, name: str, question: Question) -> bool:
        finding = self.findings.get(name)
        return (
            self.used[name].exact_mass
            and self.closed.isdisjoint(self.used[name].scope)
            and (finding is None or not finding.weighted)
            and all(child.cellwise(name) for child in self.below[name])
            and (name not in question.targets or self._has_shape_by_cells(name, question))
        )

    def _has_shape_by_cells(self, name: str, question: Question) -> bool:
        """Tell whether a target's shape in each cell is one of few: its parents have states or cells, observed or not."""
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

    def sources(self, batched: bool, shared: bool = False) -> list[FactorSource]:
        """Make the sources; where nodes are shared they do not depend on the row."""
        nodes = () if shared else self.nodes
        closed = self._components(batched, nodes)
        inside = {id(potential) for component in closed for potential in component.potentials}
        result: list[FactorSource] = [*closed, *(WeightSource(name, not shared, shared) for name in self.nodes)]
        for name, potential in self.used.items():
            if id(potential) in inside:
                continue
            masked = name in self.masked
            names = tuple(n for n in potential.scope if n not in self.hard and not (masked and n == name))
            observed = masked or any(n in self.hard for n in potential.scope)
            partial = name in self.findings and isinstance(self.axes.get(name), CellAxis)
            moving = observed or partial or any(n in nodes for n in names)
            hard = self.hard & set(potential.scope)
            result.append(PotentialSource(potential, names, hard, masked, batched and moving, not moving))
        for name, finding in self.findings.items():
            if name not in self.axes and name not in self.nodes:
                continue
            if isinstance(finding.variable, Discrete) or finding.weighted:
                result.append(LikelihoodSource(name, batched))
        return result

    def _components(self, batched: bool, nodes: Sequence[str]) -> list[GaussianComponent]:
        """Group closed variables that occur in one potential."""
        leader = {name: name for name in self.closed}

        def find(name: str) -> str:
            while leader[name] != name:
                leader[name] = leader[leader[name]]
                name = leader[name]
            return name

        touching = []
        for potential in self.used.values():
            inside = [name for name in potential.scope if name in self.closed]
            for other in inside[1:]:
                leader[find(other)] = find(inside[0])
            if inside:
                touching.append((inside[0], potential))
        groups: dict[str, list[Potential]] = {}
        for name, potential in touching:
            groups.setdefault(find(name), []).append(potential)
        components = []
        for top, members in groups.items():
            names = dict.fromkeys(n for p in members for n in p.scope if n not in self.hard and n not in self.closed)
            closed = tuple(name for name in self.used if name in self.closed and find(name) == top)
            hard = self.hard & {n for p in members for n in p.scope}
            moving = bool(hard) or any(n in nodes for n in names) or any(n in self.findings for n in closed)
            components.append(
                GaussianComponent(tuple(members), closed, tuple(names), hard, batched and moving, not moving)
            )
        return components

    def scopes(self, targets: Sequence[str], sources: Sequence[FactorSource]) -> list[tuple[str, ...]]:
        """Return the names of the table that each target's posterior is made from."""
        result: list[tuple[str, ...]] = []
        for name in targets:
            if name in self.closed:
                result.append(next(s.names for s in sources if isinstance(s, GaussianComponent) and name in s.closed))
            elif isinstance(self.axes.get(name), CellAxis):
                potential = self.used[name]
                result.append(tuple(n for n in potential.scope if n not in self.hard))
            else:
                result.append(() if name in self.hard else (name,))
        return result
