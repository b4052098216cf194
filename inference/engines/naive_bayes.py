"""Naive Bayes networks of discrete variables as tables: scored for many rows.

A row's log joint probability with a class is a sum with one term for each observed cell. So a table takes a tenth of
the time of elimination.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hybridbn.inference.compilation import Problem, Question
from hybridbn.inference.engines import Engine, Plan, Solution
from hybridbn.inference.evidence import Evidence
from hybridbn.inference.solutions import AnyNetwork
from hybridbn.jobs import run_in_threads
from hybridbn.options import Options
from hybridbn.variables import Discrete, Values

if TYPE_CHECKING:
    from hybridbn.inference.posteriors.base import ContinuousPosterior

__all__ = [
    "BlockAnswer",
    "BlockPlan",
    "NaiveBayes",
    "NaiveBayesPlan",
    "NaiveBayesTables",
    "naive_bayes_of",
    "why_not_naive_bayes",
]

_SCORES = 2**15
"""Rows times classes that are scored at a time, so that they stay in the cache."""
_SOLVED = 1 << 16
"""Rows of a solution."""


@dataclass(frozen=True)
class NaiveBayesTables:
    """Naive Bayes in logarithms, or a weighted sum of such.

    Attributes
    ----------
    target : Discrete
    prior : ndarray (classes,)
    variables : mapping from attribute to its variable
    logs : mapping from attribute to ndarray (states, classes)
    """

    target: Discrete
    prior: Values
    variables: Mapping[str, Discrete]
    logs: Mapping[str, Values]

    @property
    def leaves(self) -> int:
        """How many naive Bayes networks are mixed."""
        return 1

    def scores(self, codes: Mapping[str, NDArray[Any]], rows: int) -> Values:
        """Return the log joint probabilities (classes, rows) of the classes with the observed cells.

        Parameters
        ----------
        codes : mapping from attribute to integer array (rows,)
            ``-1`` where a cell is missing: its term is left out, which marginalizes it.
        rows : int

        Examples
        --------
        >>> c, x = Discrete("c", ("a", "b")), Discrete("x", ("p", "q"))
        >>> star = NaiveBayesTables(c, np.zeros(2), {"x": x}, {"x": np.array([[1.0, 2.0], [3.0, 4.0]])})
        >>> star.scores({"x": np.array([1, -1])}, 2)
        array([[3., 0.],
               [4., 0.]])
        """
        classes = len(self.target)
        scores = np.empty((classes, rows))
        tables = [(codes[name], table) for name, table in self._padded.items() if name in codes]
        step = max(_SCORES // classes, 1)
        for start in range(0, rows, step):
            part = slice(start, start + step)
            # the classes of a row stand together, so that they are looked up together
            block = np.repeat(self.prior[None], len(range(rows)[part]), axis=0)
            for column, table in tables:
                block += table.take(column[part], axis=0, mode="wrap")
            scores[:, part] = block.T
        return scores

    @cached_property
    def _padded(self) -> dict[str, Values]:
        """The logarithms with a last row, which is looked up by the code -1."""
        zeros = np.zeros(len(self.target))
        return {name: np.vstack([logs, zeros]) for name, logs in self.logs.items()}


def naive_bayes_of(network: AnyNetwork, target: str) -> NaiveBayesTables | None:
    """Return a network as a star, or None where it is none.

    Examples
    --------
    >>> from hybridbn.network import Network
    >>> from hybridbn.potentials import Multinomial
    >>> c, x = Discrete("c", ("a", "b")), Discrete("x", ("p", "q"))
    >>> prior = Multinomial(c, table=[0.5, 0.5])
    >>> naive_bayes_of(Network([prior, Multinomial(x, (c,), table=[[0.9, 0.1], [0.3, 0.7]])]), "c").logs["x"].round(2)
    array([[-0.11, -1.2 ],
           [-2.3 , -0.36]])
    """
    if why_not_naive_bayes(network, target):
        return None
    tables = {name: table for name in network if (table := network.potential(name).as_table())}
    own = tables[target]
    # variables without arcs do not matter
    attributes = {name: table for name, table in tables.items() if table.parents}
    with np.errstate(divide="ignore"):
        logs = {name: np.log(table.table.T) for name, table in attributes.items()}
        variables = {name: table.child for name, table in attributes.items()}
        return NaiveBayesTables(own.child, np.log(own.table), variables, logs)


def why_not_naive_bayes(network: AnyNetwork, target: str) -> str:
    """Say why a network is not naive Bayes over discrete variables; empty where it is.

    Examples
    --------
    >>> from hybridbn.network import Network
    >>> from hybridbn.potentials import Multinomial
    >>> a, b = Discrete("a", (0, 1)), Discrete("b", (0, 1))
    >>> net = Network([Multinomial(a, table=[0.5, 0.5]), Multinomial(b, (a,), table=[[0.5, 0.5], [0.1, 0.9]])])
    >>> why_not_naive_bayes(net, "a"), why_not_naive_bayes(net, "b")
    ('', "the target 'b' has the parent 'a'")
    """
    for potential in map(network.potential, network):
        name = potential.child.name
        parents = [parent.name for parent in potential.parents]
        if name == target and parents:
            return f"the target {name!r} has the parent {parents[0]!r}"
        others = [parent for parent in parents if parent != target]
        if others:
            return f"{name!r} has the parent {others[0]!r} beside the target"
        if potential.as_table() is None:
            return f"{name!r} has a {type(potential).__name__}, not a table of probabilities"
    return ""


class BlockAnswer(NamedTuple):
    """What blocks of rows have: a table (*scope, rows) of the target, or ones and its density; see `Solution`."""

    table: Values
    log_norm: Values
    error: Values
    density: ContinuousPosterior | None = None


class BlockPlan(Plan):
    """Answers blocks of rows, each by itself.

    Attributes
    ----------
    problem, options : the question, and how it is to be answered
    block : the number of rows that are answered at a time
    """

    distinct = False
    problem: Problem
    options: Options
    block: int

    @abstractmethod
    def answer(self, evidence: Evidence) -> BlockAnswer:
        """Return the answer for some rows."""

    def solve(self, evidence: Evidence) -> Iterator[Solution]:
        """Yield the solutions of blocks of rows."""
        problem = self.problem

        def solve_block(start: int) -> Solution:
            part = slice(start, min(start + self.block, evidence.rows))
            rows = np.arange(part.start, part.stop)
            own = evidence if len(rows) == evidence.rows else evidence.take(part, len(rows))
            table, log_norm, error, density = self.answer(own)
            densities = None if density is None else {0: density}
            return Solution(problem, rows, own, dict(problem.axes), [table], log_norm, error, densities=densities)

        return run_in_threads(solve_block, range(0, max(evidence.rows, 1), self.block), self.options.jobs)


class NaiveBayes(Engine):
    """Posteriors of the class for tables of values."""

    rank = 10

    def plan(self, problem: Problem, evidence: Evidence, options: Options) -> Plan | None:
        """Return a plan where the network is of this kind and the evidence holds nothing but values of its
        attributes.
        """
        question, findings = problem.question, evidence.findings
        if evidence.single or len(question.targets) != 1 or question != Question(question.targets):
            return None
        if problem.scopes != (question.targets,) or not all(finding.codes_only for finding in findings.values()):
            return None
        tables = naive_bayes_of(problem.snapshot, question.targets[0])
        if tables is None or not findings.keys() <= tables.variables.keys():
            return None
        return NaiveBayesPlan(problem, evidence, options, tables)


class NaiveBayesPlan(BlockPlan):
    """Looking up the terms of all rows."""

    block = _SOLVED

    def __init__(self, problem: Problem, evidence: Evidence, options: Options, tables: NaiveBayesTables) -> None:
        self.problem: Problem = problem
        self.options: Options = options
        self._tables = tables
        width = tables.leaves * len(tables.target)
        self.cells: float = float(width * sum(len(variable) + 1 for variable in tables.variables.values()))
        self.clique: Sequence[str] = (tables.target.name, *tables.variables)
        self.operations: float = float(width * len(tables.variables) * evidence.rows)
        self.held_bytes: float = 8 * (self.cells + 2 * len(tables.target) * evidence.rows)

    def answer(self, evidence: Evidence) -> BlockAnswer:
        """Return the normalized scores."""
        codes = {name: finding.values for name, finding in evidence.findings.items()}
        logs = self._tables.scores(codes, evidence.rows)
        top = logs.max(axis=0)
        with np.errstate(invalid="ignore"):
            table = np.exp(logs - top)
            total = table.sum(axis=0)
            table /= total
            log_norm = np.where(np.isneginf(top), -np.inf, top + np.log(total))
        return BlockAnswer(table, log_norm, np.zeros(evidence.rows))
