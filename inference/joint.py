"""The joint posterior of several variables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from hybridbn.errors import TableError
from hybridbn.inference.evidence import EvidenceReader
from hybridbn.inference.problem import Question
from hybridbn.inference.queries import (
    Answer,
    Options,
    checked_targets,
    log_evidence,
    node_axis_of,
    posterior,
    relevant_evidence,
    solved,
)
from hybridbn.inference.sampling import sample
from hybridbn.network import Network
from hybridbn.table import Table
from hybridbn.variables import Continuous, Discrete, Values, Variable

__all__ = ["JointPosterior", "joint_posterior"]


def joint_posterior(
    network: Network, targets: Sequence[str], evidence: Any = None, options: Options | None = None
) -> JointPosterior:
    """Return the joint posterior of several variables."""
    names = checked_targets(network, targets)
    reader = EvidenceReader(network, evidence, names)
    read = relevant_evidence(network, reader, names)
    options = options or Options()
    answer = solved(network, Question(tuple(names), joint=True, pointwise=True), read, options)
    return JointPosterior(network, names, evidence, reader, answer, options)


class JointPosterior:
    """The joint distribution of several variables given evidence, for one case or a batch.

    Attributes
    ----------
    variables : tuple of Variable
    """

    def __init__(
        self,
        network: Network,
        names: Sequence[str],
        evidence: Any,
        reader: EvidenceReader,
        answer: Answer,
        options: Options,
    ) -> None:
        self.variables: tuple[Variable, ...] = tuple(network.variable(name) for name in names)
        self._network, self._evidence, self._reader, self._options = network, evidence, reader, options
        self._names, self._single, self._error = tuple(names), answer.single, answer.error
        (self._scope,) = answer.problem.scopes
        self._table = answer.table(0) if all(isinstance(v, Discrete) for v in self.variables) else None
        self._mean, self._covariance = _moments(answer, [v.name for v in self.variables if isinstance(v, Continuous)])

    def __len__(self) -> int:
        if self._single:
            raise TypeError("the posterior of a single case has no length")
        return self._reader.rows

    @property
    def error(self) -> Any:
        """Estimated absolute error of the probabilities."""
        return float(self._error[0]) if self._single else self._error

    @property
    def log_evidence(self) -> Any:
        """Logarithm of the probability (density) of the evidence."""
        return log_evidence(self._network, self._known(), self._options)

    @property
    def probabilities(self) -> Values:
        """Probabilities of all combinations of states, one dimension a variable; rows first in a batch."""
        if self._table is None:
            numbers = [v.name for v in self.variables if isinstance(v, Continuous)]
            raise TableError(
                f"{numbers[0]!r} is continuous, so there is no table of probabilities; ask for pdf() or marginal()"
            )
        return np.asarray(self._table[..., 0] if self._single else np.moveaxis(self._table, -1, 0))

    def probability(self, **states: Any) -> Any:
        """Return the probability of states of all the (discrete) variables, given by name."""
        if set(states) != set(self._names):
            raise TableError(f"give a state for each of {self._names}")
        codes = tuple(
            variable.code(states[variable.name]) for variable in self.variables if isinstance(variable, Discrete)
        )
        table = self.probabilities
        return float(table[codes]) if self._single else np.moveaxis(table, 0, -1)[codes]

    def marginal(self, name: str) -> Any:
        """Return the posterior of one of the variables."""
        if name not in self._names:
            raise TableError(f"{name!r} is none of the variables {self._names}")
        return posterior(self._network, name, self._known(), self._options)

    def mean(self) -> Any:
        """Return the expectations of the continuous variables, in order: (variables,) or (rows, variables)."""
        return self._mean[:, 0] if self._single else self._mean.T

    def cov(self) -> Any:
        """Return the covariance matrix of the continuous variables, rows first in a batch."""
        return self._covariance[..., 0] if self._single else np.moveaxis(self._covariance, -1, 0)

    def log_pdf(self, **values: Any) -> Any:
        """Return the log of the joint density (probability) at values of all the variables, given by name.

        Arrays hold one point for each row of the batch; for a single case any number of points.
        """
        if set(values) != set(self._names):
            raise TableError(f"give a value for each of {self._names}")
        shape = np.broadcast_shapes(*(np.shape(value) for value in values.values() if not isinstance(value, str)))
        points = {
            name: np.broadcast_to(np.asarray(v, dtype=object), shape or (1,)).ravel() for name, v in values.items()
        }
        known = self._known()
        count = len(next(iter(points.values())))
        if self._single:
            rows = {name: _repeated(value, count) for name, value in (known or {}).items()}
        else:
            if count not in (1, self._reader.rows):
                raise TableError(f"give one point, or one for each of the {self._reader.rows} rows")
            rows = Table(known).to_dict()
            points = {name: np.broadcast_to(array, (self._reader.rows,)) for name, array in points.items()}
        merged = {**rows, **points}
        table = Table(merged, variables=[self._network.variable(name) for name in merged])
        both = log_evidence(self._network, table, self._options)
        result = both - log_evidence(self._network, known, self._options)
        return (
            float(result[0])
            if self._single and not shape
            else np.asarray(result).reshape(shape if self._single else -1)
        )

    def pdf(self, **values: Any) -> Any:
        """Return the joint density (probability) at values of all the variables, given by name."""
        return np.exp(self.log_pdf(**values))

    def sample(self, k: int = 1, random_state: Any = None) -> Any:
        """Draw all variables together; a DataFrame with `k` rows for each row of evidence."""
        return sample(self._network, k, random_state, self._known())[list(self._names)]

    def _known(self) -> Any:
        if self._evidence is None or isinstance(self._evidence, Mapping):
            return self._evidence
        table = self._evidence if isinstance(self._evidence, Table) else Table(self._evidence)
        return table.drop([name for name in table.names if name in self._names])

    def __repr__(self) -> str:
        return f"<joint posterior of {', '.join(map(repr, self._names))}>"


def _repeated(value: Any, count: int) -> Any:
    column = np.empty(count, dtype=object)
    for row in range(count):
        column[row] = value
    return column


def _moments(answer: Answer, names: Sequence[str]) -> tuple[Values, Values]:
    """Return the mean (variables, rows) and covariance of continuous targets, by the law of total covariance."""
    (scope,) = answer.problem.scopes
    means, covariances = [], []
    for part, table in ((part, part.tables[0]) for part in answer.found):
        values: list[Values] = []
        inner = np.zeros((len(names), len(names), table.shape[-1]))
        for i, name in enumerate(names):
            component = answer.problem.component_of.get(name)
            if component is None:
                axis = node_axis_of(part.axes, name)
                shape = [axis.size if other == name else 1 for other in scope]
                values.append(axis.points.reshape([*shape, -1]))
                continue
            together = [other for other in names if answer.problem.component_of.get(other) is component]
            moments = component.moments(together, part.axes, part.evidence)
            values.append(_aligned(moments.mean[together.index(name)], component.names, scope))
            for other in together:
                spread = _aligned(
                    moments.covariance[together.index(name), together.index(other)], component.names, scope
                )
                inner[i, names.index(other)] = np.sum(table * spread, axis=tuple(range(len(scope))))
        over = tuple(range(len(scope)))
        mean = np.array([np.sum(table * value, axis=over) for value in values]).reshape(len(names), table.shape[-1])
        for i, first in enumerate(values):
            for j, second in enumerate(values):
                inner[i, j] += np.sum(table * (first - mean[i]) * (second - mean[j]), axis=over)
        means.append(mean)
        covariances.append(inner)
    return np.concatenate(means, axis=-1)[..., answer.places], np.concatenate(covariances, axis=-1)[..., answer.places]


def _aligned(array: Values, names: Sequence[str], scope: Sequence[str]) -> Values:
    """Turn an array over some of the scope's names (rows last) so that it broadcasts against the scope."""
    order = sorted(range(len(names)), key=lambda i: scope.index(names[i]))
    turned = np.transpose(array, [*order, len(names)])
    sizes = iter(turned.shape[:-1])
    return turned.reshape([next(sizes) if name in names else 1 for name in scope] + [turned.shape[-1]])
