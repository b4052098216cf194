"""The joint posterior of several variables."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from hybridbn.errors import TableError
from hybridbn.inference.compilation import Problem, Question
from hybridbn.inference.engines import Solution
from hybridbn.inference.evidence import Evidence, EvidenceReader, Finding
from hybridbn.inference.posteriors.base import Batch, DiscretePosterior, compute_entropy
from hybridbn.inference.posteriors.continuous import ContinuousPosterior
from hybridbn.inference.queries import (
    check_targets,
    find_contradictions,
    log_evidence_of,
    log_joint,
    read_relevant_evidence,
    suppose,
)
from hybridbn.inference.relevance import Snapshot
from hybridbn.inference.sampling import draw_jointly
from hybridbn.inference.solutions import Answer, Collector, TableCollector, infer_posteriors, solve
from hybridbn.network import Network
from hybridbn.options import Options, check_count, make_generator
from hybridbn.tables import Table
from hybridbn.variables import Continuous, Discrete, Values, Variable


def joint_posterior(
    network: Network, targets: Sequence[str], evidence: Any = None, options: Options | None = None
) -> JointPosterior:
    """Return the joint posterior of several variables."""
    names = check_targets(network, targets)
    if not names:
        raise TableError("a joint posterior needs at least one variable")
    reader = EvidenceReader(network, evidence, names)
    options = options or Options()
    snapshot = Snapshot.of(network)
    joint = JointPosterior(tuple(map(network.variable, names)), snapshot, reader.evidence(), options)
    if reader.rows:
        read = read_relevant_evidence(network, reader, names)
        answer = solve(snapshot, Question(tuple(names), joint=True, pointwise=True), read, options, _collectors)
        answer.refuse(find_contradictions(snapshot, answer.problem, reader, options), options)
        joint._store_answer(answer)
    return joint


class JointPosterior(Batch):
    """The joint distribution of several variables given evidence; one case, or a batch of `len` cases that can be
    sliced.

    Attributes
    ----------
    variables : tuple of Variable
    """

    _by_row = ("_table", "_mean", "_covariance")

    def __init__(
        self, variables: tuple[Variable, ...], network: Snapshot, evidence: Evidence, options: Options
    ) -> None:
        self.variables = variables
        self._network, self._evidence, self._options = network, evidence, options
        self.single: bool = evidence.single
        self._names = tuple(variable.name for variable in variables)
        numbers = sum(isinstance(variable, Continuous) for variable in variables)
        sizes = [len(variable) for variable in variables if isinstance(variable, Discrete)]
        self._table: Values | None = None if numbers else np.empty([*sizes, 0])
        self._error = np.empty(0)
        self._mean: Values = np.empty((numbers, evidence.rows))
        self._covariance: Values = np.empty((numbers, numbers, evidence.rows))

    @classmethod
    def join(cls, parts: Sequence[JointPosterior]) -> JointPosterior:
        """Return the distributions in the rows of all parts."""
        first = parts[0]
        evidence = _join_evidence([part._evidence for part in parts])
        joined = cls(first.variables, first._network, evidence, first._options)
        for name in ("_error", *cls._by_row):
            arrays = [getattr(part, name) for part in parts]
            setattr(joined, name, None if arrays[0] is None else np.concatenate(arrays, axis=-1))
        return joined

    def _store_answer(self, answer: Answer) -> None:
        (collector,) = answer.collected
        self._error = answer.error_without_bounds
        if isinstance(collector, TableCollector):
            self._table = answer.arrange_rows(collector.table)
        elif isinstance(collector, _MomentCollector):
            self._mean, self._covariance = map(answer.arrange_rows, (collector.mean, collector.covariance))

    def select_rows(self, rows: NDArray[np.intp]) -> Self:
        """Return some rows as a batch."""
        clone: Self = super().select_rows(rows)
        clone._evidence = self._evidence.take(rows, len(rows))
        return clone

    @property
    def log_evidence(self) -> Any:
        """Logarithm of the probability (density) of the evidence."""
        return self._rows_first(log_evidence_of(self._network, self._evidence, self._options))

    @property
    def probabilities(self) -> Values:
        """Probabilities of all combinations of states, one dimension a variable; rows first in a batch."""
        return np.asarray(self._rows_first(self._known_table()))

    def _known_table(self) -> Values:
        """Return the probabilities, rows last; refused for numbers."""
        if self._table is None:
            numbers = [v.name for v in self.variables if isinstance(v, Continuous)]
            raise TableError(
                f"{numbers[0]!r} is continuous, so there is no table of probabilities; ask for pdf() or marginal()"
            )
        return self._table

    def probability(self, **states: Any) -> Any:
        """Return the probability of states of all the (discrete) variables, given by name."""
        self._refuse_others(states)
        codes = tuple(v.code(states[v.name]) for v in self.variables if isinstance(v, Discrete))
        return self._rows_first(self._known_table()[codes])

    def marginal(self, name: str) -> DiscretePosterior | ContinuousPosterior:
        """Return the posterior of one of the variables."""
        if not isinstance(name, str) or name not in self._names:
            raise TableError(f"{name!r} is none of the variables {self._names}")
        evidence = Evidence(self._evidence.findings, self._rows, self.single)
        posterior: DiscretePosterior | ContinuousPosterior
        (posterior,) = infer_posteriors(self._network, [name], evidence, self._options)
        return posterior

    def mean(self) -> Any:
        """Return the expectations of the continuous variables, in order: (variables,) or (rows, variables).

        They are objects where some are dates or times, and others are not.
        """
        return self._restore("restore", self._rows_first(self._mean))

    def cov(self) -> Any:
        """Return the covariance matrix of the continuous variables, rows first in a batch; that of dates in days."""
        return self._rows_first(self._covariance)

    def var(self) -> Any:
        """Return the variances of the continuous variables, in order; of dates and times in days, squared."""
        return np.diagonal(self.cov(), axis1=-2, axis2=-1)

    def std(self) -> Any:
        """Return the standard deviations of the continuous variables, in order; of dates and times as durations."""
        return self._restore("restore_difference", np.sqrt(self.var()))

    def _restore(self, method: str, numbers: Any) -> Any:
        """Return numbers (..., variables) as what they stand for, by a method of those that are dates or times."""
        restore = [getattr(variable, method) for variable in self.variables if isinstance(variable, Continuous)]
        parts = [np.asarray(one(numbers[..., i])) for i, one in enumerate(restore)]
        timed = [i for i, part in enumerate(parts) if part.dtype.kind in "mM"]
        if len({part.dtype for part in parts}) == 1 and timed:
            return np.stack(parts, axis=-1)
        mixed = numbers.astype(object) if timed else numbers
        for i in timed:
            # one by one, as an array of dates would become one of Python's dates or of integers
            for row in np.ndindex(parts[i].shape):
                mixed[(*row, i)] = parts[i][row]
        return mixed

    def mode(self) -> dict[str, Any]:
        """Return the most probable combination of states: a dict, of arrays for a batch."""
        table = self._known_table()
        codes = np.unravel_index(table.reshape(math.prod(table.shape[:-1]), -1).argmax(axis=0), table.shape[:-1])
        columns = Table.from_arrays(self.variables, dict(zip(self._names, codes, strict=True))).to_dict()
        return {name: values[0] if self.single else values for name, values in columns.items()}

    def entropy(self) -> Any:
        """Return the entropy of discrete variables together, in nats."""
        return self._rows_first(compute_entropy(self._known_table()))

    def log_pdf(self, **values: Any) -> Any:
        """Return the log of the joint density (probability) at values of all the variables, given by name.

        Arrays hold one point for each row of the batch; for a single case any number of points.
        """
        self._refuse_others(values)
        shape = np.broadcast_shapes(*(np.shape(v) for v in values.values() if not isinstance(v, str)))
        count = int(np.prod(shape))
        rows = np.zeros(count, dtype=np.intp) if self.single else np.arange(self._rows)
        if not self.single and shape not in ((), rows.shape):
            raise TableError(f"give one point, or one for each of the {len(rows)} rows")
        codes = {}
        for variable in self.variables:
            cells = np.broadcast_to(np.asarray(values[variable.name], dtype=object), shape).reshape(-1)
            cells = np.broadcast_to(cells, (len(rows),))
            codes[variable.name] = variable.codes(cells) if isinstance(variable, Discrete) else variable.values(cells)
        repeated = suppose(self._network, self._evidence, {}, rows)
        log_condition = log_evidence_of(self._network, self._evidence, self._options)
        result = log_joint(self._network, repeated, codes, self._options) - log_condition
        return float(result[0]) if self.single and not shape else result.reshape(shape if self.single else -1)

    def pdf(self, **values: Any) -> Any:
        """Return the joint density (probability) at values of all the variables, given by name."""
        return np.exp(self.log_pdf(**values))

    def sample(self, k: int = 1, random_state: Any = None) -> Any:
        """Draw all variables together; a DataFrame with `k` rows for each row of evidence."""
        k = check_count(k, "the number of draws")
        rows = np.repeat(np.arange(self._rows), k)
        uniforms = make_generator(random_state).random((len(rows), len(self._names))).T
        repeated = suppose(self._network, self._evidence, {}, rows)
        drawn = draw_jointly(self._network, self.variables, repeated, uniforms, self._options)
        rounded = {variable.name: variable.round(drawn[variable.name]) for variable in self.variables}
        return Table.from_arrays(self.variables, rounded).to_pandas()

    def plot(self, ax: Any = None) -> Any:
        """Draw the joint distribution of two variables of a single case with matplotlib; returns the axes."""
        from hybridbn.pictures import plot_joint

        return plot_joint(self, ax)

    def _refuse_others(self, values: dict[str, Any]) -> None:
        if set(values) != set(self._names):
            raise TableError(f"give a value for each of {self._names}, not for {tuple(values)}")

    def __repr__(self) -> str:
        batch = "" if self.single else f" in {len(self)} rows"
        return f"<joint posterior of {', '.join(map(repr, self._names))}{batch}>"


def _join_evidence(parts: Sequence[Evidence]) -> Evidence:
    """Return the evidence of the rows of all parts, which are nothing but values."""
    findings: dict[str, Finding] = {}
    for variable in {name: one.variable for part in parts for name, one in part.findings.items()}.values():
        unknown = -1 if isinstance(variable, Discrete) else np.nan
        known = [part.finding(variable.name) for part in parts]
        values = [
            np.full(part.rows, unknown) if one is None else one.values for part, one in zip(parts, known, strict=True)
        ]
        findings[variable.name] = Finding(variable, np.concatenate(values))
    return Evidence(findings, sum(part.rows for part in parts), single=False)


def _collectors(problem: Problem, rows: int) -> list[Collector]:
    """Collect the table of discrete targets, or the moments of the continuous ones."""
    numbers = {*problem.nodes, *problem.component_of, *problem.hard}
    names = [name for name in problem.question.targets if name in numbers]
    return [_MomentCollector(names, rows) if names else TableCollector(0, rows)]


class _MomentCollector:
    """The mean (variables, rows) and covariance of continuous targets, by the law of total covariance."""

    def __init__(self, names: Sequence[str], rows: int) -> None:
        self._names = names
        self.mean = np.empty((len(names), rows))
        self.covariance = np.empty((len(names), len(names), rows))

    def add(self, part: Solution) -> None:
        """Take the moments of some rows."""
        (scope,) = part.problem.scopes
        over = tuple(range(len(scope)))
        count, table = len(self._names), part.tables[0]
        values, spreads = part.expect_numbers(self._names, scope)
        mean = np.array([np.sum(table * value, axis=over) for value in values]).reshape(count, table.shape[-1])
        covariance = np.zeros((count, count, table.shape[-1]))
        for i, first in enumerate(values):
            for j in range(i + 1):
                product = np.sum(table * (first - mean[i]) * (values[j] - mean[j]), axis=over)
                if (i, j) in spreads:
                    product += np.sum(table * spreads[i, j], axis=over)
                covariance[i, j] = covariance[j, i] = product
        self.mean[:, part.rows], self.covariance[..., part.rows] = mean, covariance
