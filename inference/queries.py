"""Questions to a network: posteriors and the probability of evidence, for one case or a table of cases."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from hybridbn.errors import ImpossibleEvidence, TableError
from hybridbn.inference.axes import ORDER, CellAxis, NodeAxis
from hybridbn.inference.cells import cell_posterior
from hybridbn.inference.evidence import Evidence, EvidenceReader
from hybridbn.inference.mixtures import GaussianPosterior
from hybridbn.inference.piecewise import PiecewisePosterior, compact, gathered
from hybridbn.inference.posterior import DiscretePosterior, Posterior
from hybridbn.inference.problem import Problem, Question, Snapshot, problem_of, status_of
from hybridbn.inference.relevance import Status, ancestors, requisite
from hybridbn.inference.repeats import repeats
from hybridbn.inference.solving import Solution, solutions
from hybridbn.network import Network
from hybridbn.variables import Continuous, Discrete, Values, Variable, shorten

__all__ = [
    "MAX_BYTES",
    "TOLERANCE",
    "Answer",
    "Options",
    "Snapshot",
    "log_evidence",
    "posterior",
    "posterior_of",
    "posteriors",
    "relevant_evidence",
    "solved",
]

AnyNetwork: TypeAlias = Network | Snapshot

MAX_BYTES = 2.0 * 2**30
TOLERANCE = 1e-9


@dataclass(frozen=True)
class Options:
    """How exact, what to do with impossible rows, and how large a table may get.

    Attributes
    ----------
    tolerance : float
        Wanted error of probabilities where quadrature is needed.
    impossible : {"raise", "nan"}
        What becomes of rows whose evidence has probability zero.
    max_bytes : float
        Largest table that elimination may make.
    """

    tolerance: float = TOLERANCE
    impossible: str = "raise"
    max_bytes: float = MAX_BYTES

    def __post_init__(self) -> None:
        if self.impossible not in ("raise", "nan"):
            raise TableError(f"impossible must be 'raise' or 'nan', not {self.impossible!r}")
        if not 0 < self.tolerance < 1:
            raise TableError(f"tolerance must lie between 0 and 1; found {self.tolerance!r}")


def posterior(network: Network, target: str, evidence: Any = None, options: Options | None = None) -> Posterior:
    """Return the posterior of one variable."""
    return posteriors(network, evidence, [target], options)[target]


def posteriors(
    network: Network, evidence: Any = None, targets: Sequence[str] | None = None, options: Options | None = None
) -> dict[str, Posterior]:
    """Return the posteriors of several variables in one pass.

    Without `targets`, those of all variables that are not observed in every row.
    """
    options = options or Options()
    snapshot = Snapshot.of(network)
    if targets is None:
        reader = EvidenceReader(network, evidence)
        wanted = [name for name in network if status_of(reader.finding(name)) != "hard"]
    else:
        wanted = checked_targets(network, targets)
        reader = EvidenceReader(network, evidence, wanted)
    if not reader.rows:
        return {name: empty_posterior(network.variable(name)) for name in wanted}
    if not wanted:
        return {}
    read = relevant_evidence(snapshot, reader, wanted)
    answer = solved(snapshot, Question(tuple(wanted)), read, options)
    answer.refuse(contradicted(snapshot, answer.problem, reader), options)
    return {
        name: posterior_of(answer, number, snapshot.variable(name), _LogEvidence(snapshot, reader, options, name))
        for number, name in enumerate(wanted)
    }


def empty_posterior(variable: Variable) -> Posterior:
    """Return the posterior of a table without rows."""
    nothing = np.empty(0)
    if isinstance(variable, Discrete):
        return DiscretePosterior(variable, np.empty((len(variable), 0)), False, nothing, nothing)
    cell = np.empty((1, 0))
    return PiecewisePosterior(variable, cell, cell, np.empty((ORDER, 0)), False, nothing, nothing)


@dataclass
class Answer:
    """A problem with its solutions for all distinct rows of the evidence."""

    problem: Problem
    found: Sequence[Solution]
    evidence: Evidence
    single: bool
    places: NDArray[np.intp]
    """For each row as the user gave it, its place among the rows of all solutions one after the other."""
    marked: NDArray[np.bool_] | None = None
    """Impossible rows, where NaN was asked for."""

    def table(self, number: int) -> Values:
        """Return the table over one scope, rows last, as the user gave them."""
        return self.arranged([part.tables[number] for part in self.found])

    def arranged(self, arrays: Sequence[Values]) -> Values:
        """Join tables of all solutions in the order of the user's rows; impossible rows are NaN."""
        table = np.concatenate(arrays, axis=-1)[..., self.places]
        if self.marked is not None:
            table[..., self.marked] = np.nan
        return table

    @property
    def log_norm(self) -> Values:
        """The log probability of that part of the evidence which the problem contains, for each row."""
        return np.concatenate([part.log_norm for part in self.found])[self.places]

    def refuse(self, impossible: NDArray[np.bool_], options: Options) -> None:
        """Raise for impossible rows, or mark them."""
        if not impossible.any():
            return
        bad = np.flatnonzero(impossible)
        if options.impossible == "nan":
            self.marked = impossible
            return
        raise impossible_evidence(bad.tolist(), self.single)

    @property
    def error(self) -> Values:
        """The estimated error of each row."""
        return np.concatenate([part.error for part in self.found])[self.places]


def impossible_evidence(rows: Sequence[int], single: bool) -> ImpossibleEvidence:
    """Return the error that names the rows which are impossible."""
    where = "the evidence has" if single else f"rows {shorten(list(rows))} of the evidence have"
    return ImpossibleEvidence(
        f"{where} probability zero under the network, so there is no posterior; "
        "ask with impossible='nan' to get NaN there instead",
        tuple(rows),
    )


def solved(network: AnyNetwork, question: Question, read: Evidence, options: Options) -> Answer:
    """Solve a question, each distinct row once; refuse or mark impossible rows and warn of errors."""
    problem = problem_of(network, question, read)
    same = repeats(read, continuous=bool(problem.nodes))
    distinct = read if same is None else read.take(same.first, len(same.first))
    found = solutions(problem, distinct, options.tolerance, options.max_bytes)
    order = np.argsort(np.concatenate([part.rows for part in found]), kind="stable")
    answer = Answer(problem, found, read, read.single, order if same is None else order[same.inverse])
    if not question.all_of:
        answer.refuse(np.isneginf(answer.log_norm), options)
    worst = max((float(np.max(part.error, initial=0.0)) for part in found), default=0.0)
    if worst > options.tolerance:
        warnings.warn(
            f"the estimated error of the posterior is {worst:.2g}, above the tolerance {options.tolerance:.2g}; more nodes "
            "do not help or would exceed max_bytes. Ask with a larger tolerance= to accept it",
            stacklevel=5,
        )
    return answer


def relevant_evidence(network: AnyNetwork, reader: EvidenceReader | Evidence, targets: Sequence[str]) -> Evidence:
    """Read only what the posterior of the targets depends on."""
    if reader.single:
        return reader.evidence()
    seen: dict[str, Status] = {}

    def status(name: str) -> Status:
        if name not in seen:
            seen[name] = status_of(reader.finding(name))
        return seen[name]

    requisite(network.pred, network.succ, targets, status)
    return reader.evidence(name for name, known in seen.items() if known != "hidden")


def log_evidence(network: Network, evidence: Any = None, options: Options | None = None) -> Any:
    """Return the logarithm of the probability (density) of the evidence; -inf where it is impossible."""
    reader = EvidenceReader(network, evidence)
    values = log_evidence_of(network, reader.evidence(), options or Options())
    return float(values[0]) if reader.single else values


def log_evidence_of(network: AnyNetwork, read: Evidence, options: Options, target: str | None = None) -> Values:
    """Return the log probability of evidence that is read already.

    A target is named where potentials above it may not have mass one, so that they count.
    """
    if not read.rows:
        return np.empty(0)
    targets = () if target is None else (target,)
    return solved(network, Question(targets, joint=True, all_of=True), read, options).log_norm


@dataclass
class _LogEvidence:
    """Log probability of a posterior's evidence, computed when somebody asks."""

    network: Snapshot
    reader: EvidenceReader
    options: Options
    target: str

    def __call__(self) -> Values:
        above = ancestors(self.network.pred, [self.target])
        whole = all(self.network.potential(name).normalized for name in above)
        evidence = self.reader.evidence()
        return log_evidence_of(self.network, evidence, self.options, None if whole else self.target)


def contradicted(network: Snapshot, problem: Problem, reader: EvidenceReader | Evidence) -> NDArray[np.bool_]:
    """Tell the rows that are impossible for reasons which do not matter for the targets.

    Only potentials with zeros can make evidence impossible, so only those are looked at.
    """
    names = tuple(reader.names)
    risk = problem.risks.get(names)
    if risk is None:
        risk = problem.risks[names] = _risk(network, problem, names)
    result = np.zeros(reader.rows, dtype=bool)
    if risk.discrete:
        answer = solved(
            network, Question(joint=True, only=risk.discrete), reader.evidence(risk.evidence), Options(impossible="nan")
        )
        result |= np.isneginf(answer.log_norm)
    if risk.continuous:
        result |= np.isneginf(log_evidence_of(network, reader.evidence(), Options()))
    return result


class Risk(NamedTuple):
    """Potentials with zeros above some evidence that the targets do not depend on."""

    discrete: frozenset[str]
    evidence: tuple[str, ...]
    continuous: bool


def _risk(network: Snapshot, problem: Problem, names: tuple[str, ...]) -> Risk:
    above = ancestors(network.pred, names) - problem.potentials.keys()
    risky = {name for name in above if network.potential(name).has_zeros}
    discrete = {
        name for name in risky if all(isinstance(variable, Discrete) for variable in network.potential(name).variables)
    }
    mentioned = {name for risk in discrete for name in network.potential(risk).scope}
    return Risk(frozenset(discrete), tuple(name for name in names if name in mentioned), risky != discrete)


def checked_targets(network: Network, targets: Sequence[str]) -> list[str]:
    """Return the targets as a list, refusing unknown names and repetitions."""
    names = list(targets)
    for name in names:
        network.variable(name)
    twice = {name for name in names if names.count(name) > 1}
    if twice:
        raise TableError(f"{shorten(sorted(twice))} is asked for twice")
    return names


# -- from tables to posteriors ------------------------------------------------------------------------------------


def posterior_of(
    answer: Answer, number: int, variable: Variable, later: Callable[[], Values] | None = None
) -> Posterior:
    """Return the posterior of the target with that number."""
    name = variable.name
    if isinstance(variable, Discrete):
        return DiscretePosterior(variable, answer.table(number), answer.single, answer.error, later)
    if name in answer.problem.component_of:
        return _gaussian(answer, number, variable, later)
    axis = answer.problem.axes.get(name)
    if isinstance(axis, CellAxis):
        table = answer.table(number)
        return cell_posterior(answer.problem, name, axis, table, answer.evidence, answer.single, answer.error, later)
    parts = []
    for part in answer.found:
        grid = node_axis_of(part.axes, name)
        parts.append(compact(grid.low, grid.high, part.tables[number]))
    low, high, masses = gathered(parts, answer.places)
    if answer.marked is not None:
        masses[:, answer.marked] = np.nan
    return PiecewisePosterior(variable, low, high, masses, answer.single, answer.error, later)


def node_axis_of(axes: Mapping[str, Any], name: str) -> NodeAxis:
    """Return the Gauss-Legendre axis of a variable."""
    axis = axes[name]
    if not isinstance(axis, NodeAxis):
        raise TypeError(f"{name!r} has no nodes")
    return axis


def _gaussian(answer: Answer, number: int, variable: Continuous, later: Callable[[], Values] | None) -> Posterior:
    component = answer.problem.component_of[variable.name]
    parts: list[list[Values]] = [[], [], []]
    for part in answer.found:
        moments = component.moments([variable.name], part.axes, part.evidence)
        table = part.tables[number]
        for found, array in zip(parts, (table, moments.mean[0], moments.covariance[0, 0]), strict=True):
            found.append(np.broadcast_to(array, table.shape).reshape(-1, table.shape[-1]))
    most = max(len(array) for array in parts[0])

    def joined(arrays: list[Values], fill: float) -> Values:
        filled = [np.concatenate([a, np.full((most - len(a), a.shape[1]), fill)]) for a in arrays]
        return np.concatenate(filled, axis=1)[:, answer.places]

    weights, means, variances = joined(parts[0], 0.0), joined(parts[1], 0.0), joined(parts[2], 1.0)
    if answer.marked is not None:
        weights[:, answer.marked] = np.nan
    return GaussianPosterior(variable, weights, means, variances, answer.single, answer.error, later)
