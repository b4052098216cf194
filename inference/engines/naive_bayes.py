"""Naive Bayes networks of discrete variables as tables, and mixtures of such: scored for many rows.

A row's log joint probability with a class is a sum with one term for each observed cell. So a table takes a tenth of
the time of elimination. In a mixture a leaf without parents is above the class, and both are above the attributes, as
in naive Bayes trees and class clusters. The probability of a row is a sum over its leaves; most leaves of a tree are
impossible for it.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hybridbn.inference.compilation import Problem, Question
from hybridbn.inference.elimination.factors import normalize_logs
from hybridbn.inference.engines import Engine, Plan, Solution
from hybridbn.inference.evidence import Evidence
from hybridbn.inference.solutions import AnyNetwork
from hybridbn.jobs import run_in_threads
from hybridbn.options import Options
from hybridbn.potentials.base import take_logs
from hybridbn.variables import Discrete, Values, slice_blocks

if TYPE_CHECKING:
    from hybridbn.inference.posteriors.continuous import Density

_SCORES = 2**15
"""Rows times classes that are scored at a time, so that they stay in the cache."""
_PAIRS = 2**20
"""Leaves and rows of a mixture of naive Bayes that are looked at together."""
_TERMS = 2**18
"""Terms of such a mixture that are looked up at a time, so that they stay in the cache."""
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
        for part in slice_blocks(rows, step):
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


@dataclass(frozen=True, eq=False)
class LeafIndex:
    """For each cell of attributes the leaves that it may be in, one bit each; the last cell is a missing one.

    Attributes
    ----------
    leaves : int
    cuts : mapping from attribute to the ends of its cells, None where a cell is a state
    bits : mapping from attribute to ndarray (cells + 1, words)
    """

    leaves: int
    cuts: Mapping[str, Values | None]
    bits: Mapping[str, NDArray[np.uint64]]

    @classmethod
    def of(cls, leaves: int, attributes: Mapping[str, tuple[Values | None, NDArray[np.bool_]]]) -> LeafIndex:
        """Make the index of the cuts of attributes and the leaves (cells, leaves) that their cells may be in."""
        bits = {}
        for name, (_, possible) in attributes.items():
            packed = np.zeros((len(possible) + 1, -(-leaves // 64) * 8), np.uint8)
            packed[:-1, : -(-leaves // 8)] = np.packbits(possible, axis=1)
            packed[-1] = 255
            bits[name] = packed.view(np.uint64)
        return cls(leaves, {name: cuts for name, (cuts, _) in attributes.items()}, bits)

    def find(
        self, cells: Mapping[str, NDArray[Any]], rows: int, *, anywhere: bool = False
    ) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Return the pairs of rows and leaves in which the row may be, in the order of the rows.

        Parameters
        ----------
        cells : mapping from attribute to codes or numbers (rows,)
        rows : int
        anywhere : bool
            Whether a row that can't be in any leaf may be in all of them, as `Boxes` has it.
        """
        known = [name for name in self.bits if name in cells]
        if not known:
            return np.repeat(np.arange(rows), self.leaves), np.tile(np.arange(self.leaves), rows)
        words = np.full((rows, -(-self.leaves // 64)), np.iinfo(np.uint64).max, np.uint64)
        for name in known:
            own, cuts = cells[name], self.cuts[name]
            if cuts is not None:
                own = np.where(np.isnan(own), -1, np.searchsorted(cuts, own, side="right"))
            words &= self.bits[name].take(own, axis=0, mode="wrap")
        inside = np.unpackbits(words.view(np.uint8), axis=1, count=self.leaves)
        if anywhere and (outside := ~words.any(axis=1)).any():
            inside[outside] = 1
        row, leaf = np.divmod(np.flatnonzero(inside.view(bool)), self.leaves)
        return row, leaf


@dataclass(frozen=True)
class NaiveBayesMixture(NaiveBayesTables):
    """A mixture of naive Bayes networks in logarithms.

    Attributes
    ----------
    target, variables : as of one naive Bayes network
    prior : ndarray (leaves, classes)
        Of leaf and class together.
    logs : mapping from attribute to ndarray (leaves, classes, states)
    """

    @property
    def leaves(self) -> int:
        """How many naive Bayes networks are mixed."""
        return len(self.prior)

    def scores(self, codes: Mapping[str, NDArray[Any]], rows: int) -> Values:
        """Return the log joint probabilities (classes, rows) of the classes with the observed cells.

        Parameters
        ----------
        codes : mapping from attribute to integer array (rows,)
            ``-1`` where a cell is missing.
        rows : int

        Examples
        --------
        >>> c, x = (Discrete(name, (0, 1)) for name in "cx")
        >>> with np.errstate(divide="ignore"):
        ...     logs = {"x": np.log([[[1.0, 0.0], [1.0, 0.0]], [[0.0, 1.0], [0.0, 1.0]]])}
        >>> mixture = NaiveBayesMixture(c, np.log([[0.3, 0.2], [0.1, 0.4]]), {"x": x}, logs)
        >>> np.exp(mixture.scores({"x": np.array([0, 1, -1])}, 3)).round(3)
        array([[0.3, 0.1, 0.4],
               [0.2, 0.4, 0.6]])
        """
        names = [name for name in self.logs if name in codes]
        scores = np.full((len(self.target), rows), -np.inf)
        terms = _LogTerms(self.prior, [self.logs[name] for name in names])
        own = [codes[name] for name in names]
        block = max(_PAIRS // self.leaves, 1)
        for start in range(0, rows, block):
            cells = {name: column[start : start + block] for name, column in zip(names, own, strict=True)}
            row, leaf = self._index.find(cells, min(block, rows - start))
            row += start
            logs = terms.sums(own, row, leaf)
            starts = np.flatnonzero(np.append(True, row[1:] != row[:-1])) if len(row) else row
            scores[:, row[starts]] = logs if len(starts) == len(row) else _log_sums(logs, starts, row)
        return scores

    @cached_property
    def _index(self) -> LeafIndex:
        """Of the attributes some of whose states are impossible in some leaves."""
        possible = {name: np.asarray((logs > -np.inf).any(axis=1)).T for name, logs in self.logs.items()}
        return LeafIndex.of(self.leaves, {name: (None, own) for name, own in possible.items() if not own.all()})


class _LogTerms:
    """Logarithms of all tables in one array for each class, so that a row's terms are looked up together."""

    def __init__(self, prior: Values, tables: list[Values]) -> None:
        leaves, classes = prior.shape
        # each table has one more state, for missing cells: it adds nothing
        self._sizes = np.array([table.shape[2] + 1 for table in tables], dtype=np.intp)
        self._starts = np.cumsum(self._sizes) - self._sizes
        self._width = int(self._sizes.sum())
        self._prior = prior.T.copy()
        self._logs = np.zeros((classes, leaves, self._width))
        for table, start in zip(tables, self._starts, strict=True):
            self._logs[:, :, start : start + table.shape[2]] = table.transpose(1, 0, 2)

    def sums(self, codes: list[NDArray[Any]], row: NDArray[np.intp], leaf: NDArray[np.intp]) -> Values:
        """Return the sums (classes, entries) of the terms of rows in leaves."""
        sums = self._prior[:, leaf]
        block = max(_TERMS // max(len(codes), 1), 1)
        logs = self._logs.reshape(len(sums), -1)
        for part in slice_blocks(len(row) if codes else 0, block):
            own, first = row[part], leaf[part] * self._width
            positions = np.empty((len(codes), len(own)), np.intp)
            for line, column, size, begin in zip(positions, codes, self._sizes, self._starts, strict=True):
                code = column.take(own)
                np.add(code, first + begin, out=line)
                if code.min(initial=0) < 0:
                    line[code < 0] += size
            for total, table in zip(sums, logs, strict=True):
                total[part] += table.take(positions).sum(axis=0)
        return sums


def _log_sums(logs: Values, starts: NDArray[np.intp], row: NDArray[np.intp]) -> Values:
    """Return the logarithms of sums of exponentials over runs of entries (classes, runs)."""
    top = np.maximum.reduceat(logs, starts, axis=1)
    top[top == -np.inf] = 0.0
    lengths = np.diff(np.append(starts, len(row)))
    return np.asarray(top + take_logs(np.add.reduceat(np.exp(logs - np.repeat(top, lengths, axis=1)), starts, axis=1)))


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
    logs = {name: take_logs(table.table.T) for name, table in attributes.items()}
    variables = {name: table.child for name, table in attributes.items()}
    return NaiveBayesTables(own.child, take_logs(own.table), variables, logs)


def mixture_of(network: AnyNetwork, target: str) -> NaiveBayesMixture | None:
    """Return a network as a mixture of stars, or None where it is none.

    Examples
    --------
    >>> from hybridbn.network import Network
    >>> from hybridbn.potentials import Multinomial
    >>> leaf, c, x = (Discrete(name, (0, 1)) for name in "lcx")
    >>> potentials = [Multinomial(leaf, table=[0.5, 0.5]), Multinomial(c, (leaf,), table=[[0.9, 0.1], [0.3, 0.7]])]
    >>> network = Network([*potentials, Multinomial(x, (leaf, c), table=np.full((2, 2, 2), 0.5))])
    >>> np.exp(mixture_of(network, "c").prior).round(2)
    array([[0.45, 0.05],
           [0.15, 0.35]])
    >>> mixture_of(network, "x")
    """
    own = network.potential(target).as_table()
    if own is None or len(own.parents) != 1:
        return None
    hidden = own.parents[0]
    root = network.potential(hidden.name).as_table()
    if root is None or root.parents:
        return None
    others = [network.potential(name) for name in network if name not in (target, hidden.name)]
    tables = {other.child.name: table for other in others if (table := other.as_table())}
    if len(tables) < len(others) or any(other.scope[:-1] != (hidden.name, target) for other in others):
        return None
    logs = {name: take_logs(table.table) for name, table in tables.items()}
    variables = {name: table.child for name, table in tables.items()}
    return NaiveBayesMixture(own.child, take_logs(root.table[:, None] * own.table), variables, logs)


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
    density: Density | None = None


class BlockPlan(Plan):
    """Answers blocks of rows, each by itself.

    Attributes
    ----------
    block : the number of rows that are answered at a time
    """

    distinct = False
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
        coded = all(finding.plain and isinstance(finding.variable, Discrete) for finding in findings.values())
        alone = problem.scopes == (question.targets,) and question == Question(question.targets)
        if evidence.single or not alone or not coded:
            return None
        snapshot, target = problem.snapshot, question.targets[0]
        tables = naive_bayes_of(snapshot, target) or mixture_of(snapshot, target)
        if tables is None or not findings.keys() <= tables.variables.keys():
            return None
        return NaiveBayesPlan(problem, evidence, options, tables)


class NaiveBayesPlan(BlockPlan):
    """Looking up the terms of all rows."""

    block = _SOLVED

    def __init__(self, problem: Problem, evidence: Evidence, options: Options, tables: NaiveBayesTables) -> None:
        self._tables = tables
        width = tables.prior.size
        cells = float(width * sum(len(variable) + 1 for variable in tables.variables.values()))
        held = 8 * (cells + 2 * len(tables.target) * evidence.rows)
        operations = float(width * len(tables.variables) * evidence.rows)
        super().__init__(problem, options, cells, (tables.target.name, *tables.variables), held, operations)

    def answer(self, evidence: Evidence) -> BlockAnswer:
        """Return the normalized scores."""
        codes = {name: finding.values for name, finding in evidence.findings.items()}
        table, log_norm = normalize_logs(self._tables.scores(codes, evidence.rows))
        return BlockAnswer(table, log_norm, np.zeros(evidence.rows))
