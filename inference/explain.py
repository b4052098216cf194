"""Weights of evidence: how much each finding speaks for a state, adding up to the posterior log-odds."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from hybridbn.errors import ImpossibleEvidence, TableError
from hybridbn.inference.answers import impossible_evidence, posterior_of, solve
from hybridbn.inference.evidence import Evidence, EvidenceReader
from hybridbn.inference.posteriors.base import DiscretePosterior
from hybridbn.inference.problem import Question, Snapshot
from hybridbn.inference.queries import find_contradictions
from hybridbn.network import Network
from hybridbn.options import Options
from hybridbn.variables import Discrete, Values

__all__ = ["Explanation", "explain"]


@dataclass(frozen=True)
class Explanation:
    """Why a state is as probable as it is.

    Attributes
    ----------
    target, state : what is explained
    prior : float
        Log-odds of the state against the rest without evidence.
    weights : dict of str to float
        What each finding adds, in the order of the evidence: the log likelihood ratio of the finding given those before
        it.
    log_odds : float
        The posterior log-odds: prior plus all weights.
    """

    target: str
    state: Hashable
    prior: float
    weights: Mapping[str, float]
    log_odds: float

    @property
    def probability(self) -> float:
        """The posterior probability of the state."""
        return float(1 / (1 + np.exp(-self.log_odds)))

    def plot(self, ax: Any = None) -> Any:
        """Draw the weights with matplotlib, as steps to the log-odds; returns the axes."""
        from hybridbn.pictures.evidence import plot_explanation

        return plot_explanation(self, ax)

    def _repr_html_(self) -> str:
        from hybridbn.pictures.html import show_explanation

        return show_explanation(self)

    def __str__(self) -> str:
        width = max([len("without evidence"), *map(len, self.weights)])
        lines = [f"log-odds of {self.target} = {self.state!r} against the rest"]
        lines += [
            f"  {name:<{width}}  {value:+10.4f}"
            for name, value in [("without evidence", self.prior), *self.weights.items()]
        ]
        lines.append(f"  {'in all':<{width}}  {self.log_odds:+10.4f}   probability {self.probability:.4g}")
        return "\n".join(lines)


def explain(
    network: Network, target: str, evidence: Any, state: Any = None, options: Options | None = None
) -> Explanation:
    """Explain the posterior probability of a state (the most probable one, if none is named) for one case."""
    variable = network.variable(target)
    if not isinstance(variable, Discrete):
        raise TableError(f"{target!r} is continuous; weights of evidence are for the states of a discrete variable")
    if not isinstance(evidence, Mapping):
        raise TableError(
            "explain() takes the evidence of one case as a mapping, in the order in which it is to be weighed"
        )
    options, snapshot = options or Options(), Snapshot.of(network)
    reader = EvidenceReader(network, evidence, [target])
    read = reader.evidence()
    names = [name for name in evidence if name in read.findings]
    always = {name: finding for name, finding in read.findings.items() if name not in names}
    odds = []
    for count in range(len(names) + 1):
        part = Evidence({**always, **{name: read.findings[name] for name in names[:count]}}, 1, single=True)
        try:
            answer = solve(snapshot, Question((target,)), part, options)
            answer.refuse(find_contradictions(snapshot, answer.problem, part, options), options)
        except ImpossibleEvidence:
            raise impossible_evidence([0], single=True) from None
        posterior = posterior_of(answer, 0, variable)
        assert isinstance(posterior, DiscretePosterior)
        odds.append(posterior.probabilities)
    code = int(np.argmax(odds[-1])) if state is None else variable.code(state)
    if code < 0:
        raise TableError(f"{target!r}: {state!r} is not a state")
    steps = [_log_odds(table, code) for table in odds]
    weights = {name: after - before for name, before, after in zip(names, steps[:-1], steps[1:], strict=True)}
    return Explanation(target, variable.states[code], steps[0], weights, steps[-1])


def _log_odds(table: Values, code: int) -> float:
    rest = float(np.delete(table, code).sum())
    with np.errstate(divide="ignore"):
        return float(np.log(table[code]) - np.log(rest))
