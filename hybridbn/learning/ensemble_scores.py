"""What the members of an ensemble say of the classes, the evidence being read once where they share their variables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from threading import Lock
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from hybridbn.inference.engines.naive_bayes import tables_of
from hybridbn.inference.evidence import EvidenceReader
from hybridbn.inference.posterior import DiscretePosterior
from hybridbn.inference.queries import posterior
from hybridbn.network import Network
from hybridbn.options import Options
from hybridbn.tables import Table
from hybridbn.variables import Values, Variable

__all__ = ["Asked", "scores", "softmax"]

_Codes: TypeAlias = dict[str, NDArray[Any]]

_LEAST = 1e-300
"""What a probability of zero counts as where logarithms are added up."""


class Asked:
    """Evidence about a target, for several networks.

    Parameters
    ----------
    target : str
    evidence : mapping, table or None
        As in `Network.posterior`.
    options : Options, optional
        Rows that are impossible for a network are no error here.
    """

    def __init__(self, target: str, evidence: Any, options: Options | None = None) -> None:
        self.target, self.evidence = target, evidence
        self.options = replace(options or Options(), impossible="nan")
        self.single = evidence is None or isinstance(evidence, Mapping)
        self._variables: dict[str, Variable] = {}
        self._table: Table | None = None
        self._absent: set[str] = set()
        self._lock = Lock()
        self._read: tuple[Mapping[str, Variable], tuple[_Codes, int] | None] | None = None

    def log_joint(self, network: Network) -> Values:
        """Return logarithms of the classes' probabilities (classes, rows) but for a term that is the same for all classes.

        NaN in a row that is impossible for the network.
        """
        tables = tables_of(network, self.target)
        with self._lock:
            read = None if tables is None else self._evidence(network, tables.variables)
        if tables is not None and read is not None:
            found = tables.scores(*read)
            found[:, (found == -np.inf).all(axis=0)] = np.nan
            return found
        with self._lock:
            asked = self.evidence if self.single else self._shared(network)
        answer = posterior(network, self.target, asked, self.options)
        assert isinstance(answer, DiscretePosterior)
        table = answer.probabilities
        with np.errstate(divide="ignore"):
            return np.atleast_2d(np.log(table)).T

    def _shared(self, network: Network) -> Table:
        """Return the evidence as a table of the network's variables, the same one as long as these are the same."""
        wanted = {variable.name: variable for variable in network.variables if variable.name != self.target}
        # nodes without a column, such as the leaf of a tree, may differ from network to network
        asked = {name: variable for name, variable in wanted.items() if name not in self._absent}
        if self._table is None or any(self._variables.get(name) != variable for name, variable in asked.items()):
            self._variables = {**self._variables, **asked}
            self._table = Table(self.evidence, variables=self._variables.values())
            self._absent |= set(self._variables) - set(self._table.names)
            self._variables = {name: self._variables[name] for name in self._table.names}
        return self._table

    def _evidence(self, network: Network, attributes: Mapping[str, Variable]) -> tuple[_Codes, int] | None:
        """Read the evidence for a star as codes, and the number of rows; None where it says more than values of the attributes."""
        if self._read is None or self._read[0] != attributes:
            asked = self.evidence if self.single else self._shared(network)
            findings = EvidenceReader(network, asked, [self.target]).evidence()
            plain = all(finding.plain and name in attributes for name, finding in findings.findings.items())
            codes = {name: finding.values for name, finding in findings.findings.items()}
            self._read = attributes, (codes, findings.rows) if plain else None
        return self._read[1]


def scores(log_joint: Values, vote: float, real: bool) -> Values:
    r"""Return what a member adds to the scores of the classes (classes, rows).

    Its vote for the most probable class (M1), or its vote times the log joint probabilities (Real AdaBoost, eq. 6 of Ting and
    Zheng). A member for which a row is impossible abstains.

    Examples
    --------
    >>> scores(np.log([[0.2, 0.7], [0.8, 0.3]]), 1.5, real=False)
    array([[0. , 1.5],
           [1.5, 0. ]])
    """
    abstains = np.isnan(log_joint[0])
    if real:
        relative = log_joint - log_joint.max(axis=0)
        relative[relative == -np.inf] = np.log(_LEAST)
        return np.where(abstains, 0.0, vote * relative)
    found: Values = np.zeros_like(log_joint)
    # NaN would win argmax
    best = np.where(abstains, 0.0, log_joint).argmax(axis=0)
    found[best, np.arange(log_joint.shape[-1])] = np.where(abstains, 0.0, vote)
    return found


def softmax(total: Values) -> Values:
    """Return probabilities (classes, rows) whose log-odds are differences of scores.

    Examples
    --------
    >>> softmax(np.array([[0.0], [np.log(3)]])).round(4)
    array([[0.25],
           [0.75]])
    """
    grown = np.exp(total - total.max(axis=0))
    return np.asarray(grown / grown.sum(axis=0))
