"""Questions to a network: posteriors and the probability of evidence, for one case or a table of cases."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hybridbn.errors import TableError
from hybridbn.inference.answers import (
    MAX_BYTES,
    TOLERANCE,
    AnyNetwork,
    Options,
    empty_posterior,
    impossible_evidence,
    nothing,
    posterior_of,
    solved,
)
from hybridbn.inference.evidence import Evidence, EvidenceReader
from hybridbn.inference.posterior import Posterior
from hybridbn.inference.problem import Problem, Question, Snapshot, status_of
from hybridbn.inference.relevance import Status, ancestors, requisite
from hybridbn.network import Network
from hybridbn.variables import Discrete, Values, shorten

__all__ = [
    "MAX_BYTES",
    "TOLERANCE",
    "Options",
    "Snapshot",
    "impossible_evidence",
    "log_evidence",
    "posterior",
    "posterior_of",
    "posteriors",
    "relevant_evidence",
    "solved",
]


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
    return solved(network, Question(targets, joint=True, all_of=True), read, options, nothing).log_norm


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
            network,
            Question(joint=True, only=risk.discrete),
            reader.evidence(risk.evidence),
            Options(impossible="nan"),
            nothing,
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
