"""Drawing from a network, given evidence or not.

Variables are drawn one after the other, each from its exact posterior given the evidence and everything drawn before,
so a row is an exact draw from the joint posterior; no draw is weighted or rejected. Linear Gaussian variables are drawn
last among those with evidence below them, together from their conditional normal distribution. A variable with no
evidence below it is drawn from its own potential. Every row uses uniforms of its own, so neither the size of the batch
nor that of the chunks changes what a row gets.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import networkx as nx
import numpy as np
from numpy.typing import NDArray

from hybridbn.errors import ImpossibleEvidence, TableError
from hybridbn.inference.answers import impossible_evidence, posterior_of, solve
from hybridbn.inference.evidence import Evidence, EvidenceReader, Finding
from hybridbn.inference.problem import Question, Snapshot, problem_of
from hybridbn.inference.queries import read_relevant_evidence
from hybridbn.inference.relevance import ancestors
from hybridbn.network import Network
from hybridbn.options import Options
from hybridbn.variables import Discrete, Variable

__all__ = ["draw", "draw_jointly", "sample"]


def sample(
    network: Network, n: int = 1, random_state: Any = None, evidence: Any = None, options: Options | None = None
) -> Any:
    """Draw rows: `n` for a mapping of evidence, as a DataFrame, or `n` for each row of a table, as the same kind of
    frame.
    """
    network.check()
    if n < 0:
        raise TableError(f"the number of rows to draw can't be negative: {n}")
    reader = EvidenceReader(network, evidence)
    read = reader.evidence()
    rows = np.repeat(np.arange(read.rows), n)
    repeated = Evidence(read.take(rows, len(rows)).findings, len(rows), single=False)
    rng = np.random.default_rng(random_state)
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
    closed = [name for name in order if name in informed and _is_closed(network, name, informed, known.get(name))]
    filled: dict[str, NDArray[Any]] = {}

    def fill(name: str, values: NDArray[Any]) -> None:
        variable, finding = network.variable(name), known.get(name)
        if finding is not None:
            values = np.where(finding.observed, finding.values, values)
        filled[name] = values
        known[name] = Finding(variable, values)

    for name in order:
        finding = known.get(name)
        if finding is not None and finding.hard:
            filled[name] = finding.values
        elif name in informed and name not in closed:
            given = Evidence(known, evidence.rows, False)
            fill(name, _conditional(network, network.variable(name), given, level[name], options))
    closed = [name for name in closed if name not in filled]
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
            fill(name, potential.ppf(level[name], above))
    return {name: filled[name] for name in order}


def _is_closed(network: Network, name: str, informed: set[str], finding: Finding | None) -> bool:
    """Tell whether all that the evidence says of a variable is linear Gaussian."""
    children = [child for child in network.succ[name] if child in informed]
    return (finding is None or finding.plain) and all(
        network.potential(other).regression() is not None for other in (name, *children)
    )


def _conditional(
    network: Network | Snapshot, variable: Variable, evidence: Evidence, uniforms: NDArray[np.float64], options: Options
) -> NDArray[Any]:
    """Draw one variable from its posterior in every row."""
    name = variable.name
    if not evidence.rows:
        return np.empty(0, dtype=np.intp if isinstance(variable, Discrete) else np.float64)
    own = evidence.finding(name)
    read = read_relevant_evidence(network, evidence, [name])
    if own is not None:
        # rows in which it is observed keep their value anyway
        rest = {other: finding for other, finding in read.findings.items() if other != name}
        soft = own.soft_part
        read = Evidence(rest if soft.empty else {**rest, name: soft}, evidence.rows, False)
    answer = solve(network, Question((name,)), read, options)
    return np.asarray(posterior_of(answer, 0, variable).draw(uniforms[None])[0])
