"""Drawing from a network, given evidence or not.

Variables are drawn one after the other, each from its exact posterior given the evidence and everything drawn before, so a
row is an exact draw from the joint posterior; no draw is weighted or rejected. A variable with no evidence below it is
drawn from its own potential. Every row uses uniforms of its own, so neither the size of the batch nor that of the
chunks changes what a row gets.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import networkx as nx
import numpy as np
from numpy.typing import NDArray

from hybridbn.errors import ImpossibleEvidence, TableError
from hybridbn.inference.answers import impossible_evidence, posterior_of, solved
from hybridbn.inference.evidence import Evidence, EvidenceReader, Finding
from hybridbn.inference.problem import Question, Snapshot
from hybridbn.inference.queries import relevant_evidence
from hybridbn.inference.relevance import ancestors
from hybridbn.network import Network
from hybridbn.options import Options
from hybridbn.variables import Discrete, Variable

__all__ = ["draw", "draw_jointly", "sample"]


def sample(
    network: Network, n: int = 1, random_state: Any = None, evidence: Any = None, options: Options | None = None
) -> Any:
    """Draw rows: `n` for a mapping of evidence, as a DataFrame, or `n` for each row of a table, as the same kind of frame."""
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
    number = {name: i for i, name in enumerate(network)}
    filled: dict[str, NDArray[Any]] = {}
    for name in nx.topological_sort(network):
        variable, finding = network.variable(name), known.get(name)
        potential = network.potential(name)
        if finding is not None and finding.hard:
            filled[name] = finding.values
            continue
        if name not in informed:
            above = {parent.name: filled[parent.name] for parent in potential.parents}
            values = potential.ppf(uniforms[number[name]], above)
        else:
            given = Evidence(known, evidence.rows, False)
            values = _conditional(network, variable, given, uniforms[number[name]], options)
        if finding is not None:
            values = np.where(finding.observed, finding.values, values)
        filled[name] = values
        known[name] = Finding(variable, values)
    return filled


def _conditional(
    network: Network | Snapshot, variable: Variable, evidence: Evidence, uniforms: NDArray[np.float64], options: Options
) -> NDArray[Any]:
    """Draw one variable from its posterior in every row."""
    name = variable.name
    if not evidence.rows:
        return np.empty(0, dtype=np.intp if isinstance(variable, Discrete) else np.float64)
    own = evidence.finding(name)
    read = relevant_evidence(network, evidence, [name])
    if own is not None:
        # rows in which it is observed keep their value anyway
        rest = {other: finding for other, finding in read.findings.items() if other != name}
        soft = own.soft_part
        read = Evidence(rest if soft.empty else {**rest, name: soft}, evidence.rows, False)
    answer = solved(network, Question((name,)), read, options)
    return np.asarray(posterior_of(answer, 0, variable).drawn(uniforms[None])[0])
