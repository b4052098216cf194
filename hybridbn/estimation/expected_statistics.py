"""Expected sufficient statistics of tables of probabilities and linear Gaussians: exact, all families in one pass.

A junction tree over the hidden discrete variables gives, for each row with holes, the joint posterior of what each
family needs; hidden numbers come in closed form given these. Rows are the last axis of every array, as in the engine.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from hybridbn.errors import ImpossibleEvidence
from hybridbn.fitting import GaussianStatistics, MultinomialStatistics, Statistics
from hybridbn.fitting.counting import encode_configurations, sum_by_group
from hybridbn.inference.compilation import Problem, Question, problem_of
from hybridbn.inference.engines import Solution, choose_plan
from hybridbn.inference.evidence import Evidence
from hybridbn.network import Network
from hybridbn.options import Options
from hybridbn.potentials.base import Potential
from hybridbn.variables import Continuous, Discrete, Values

__all__ = ["ExpectedStatistics", "expect_statistics"]

_NUMBERS = 1 << 22
"""Numbers in the posteriors of a block of rows, about."""


@dataclass(frozen=True)
class ExpectedStatistics:
    """What is expected of some rows.

    Attributes
    ----------
    statistics : mapping from each node to the statistics of its family
    log_likelihood : ndarray (rows,)
        Log density of what is observed in each row.
    """

    statistics: Mapping[str, Statistics]
    log_likelihood: Values


def expect_statistics(network: Network, evidence: Evidence, weights: Values, options: Options) -> ExpectedStatistics:
    r"""Return the expected statistics of all families of a conditional linear Gaussian network.

    Parameters
    ----------
    network : Network
        Of tables of probabilities and linear Gaussians.
    evidence : Evidence
        Rows with nothing but observed and missing values.
    weights : ndarray (rows,)
    options : Options

    Notes
    -----
    For a table of probabilities these are :math:`\sum_i w_i P(c, d \mid \text{row } i)`; for a linear Gaussian weight,
    mean and centered products of child and continuous parents in each configuration d of the discrete parents, where
    :math:`E[v v'] = E[v] E[v]' + \mathrm{Cov}[v]` given the row and the hidden configurations.

    Examples
    --------
    >>> import hybridbn as hb
    >>> from hybridbn.inference.evidence import EvidenceReader
    >>> a, b = hb.Discrete("a", ("n", "y")), hb.Discrete("b", ("n", "y"))
    >>> net = hb.Network([
    ...     hb.Multinomial(a, table=[0.8, 0.2]), hb.Multinomial(b, parents=(a,), table=[[0.9, 0.1], [0.4, 0.6]])
    ... ])
    >>> known = EvidenceReader(net, hb.Table({"a": [None, "y"], "b": ["y", None]}, variables=(a, b))).evidence()
    >>> found = expect_statistics(net, known, np.ones(2), Options())
    >>> found.statistics["b"].counts, found.log_likelihood.round(3)
    (array([[0. , 0.4],
           [0.4, 1.2]]), array([-1.609, -1.609]))
    """
    findings = evidence.findings
    hidden = [name for name in network if name not in findings or not findings[name].hard]
    question = Question(tuple(hidden), all_of=True)
    problem = problem_of(network, question, evidence)
    families = {name: _FamilyStatistics(network.potential(name), problem) for name in network}
    scopes = [scope for scope in dict.fromkeys(family.scope for family in families.values()) if scope] or [()]
    sizes = {name: axis.size for name, axis in problem.axes.items()}
    question = replace(question, over=tuple(scopes))
    problem = problem_of(network, question, evidence)
    cells = sum(math.prod(sizes[name] for name in scope) for scope in scopes)
    block = int(min(max(_NUMBERS / max(cells, 1), 256), evidence.rows))
    logs, impossible = np.empty(evidence.rows), []
    for start in range(0, evidence.rows, block):
        stop = min(start + block, evidence.rows)
        part = evidence.take(slice(start, stop), stop - start)
        for found in choose_plan(problem, part, options).solve(part):
            rows = start + found.rows
            logs[rows] = found.log_norm
            if np.isneginf(found.log_norm).any():
                impossible += rows[np.isneginf(found.log_norm)].tolist()
                continue
            tables = {(): np.ones(len(rows)), **dict(zip(scopes, found.tables, strict=True))}
            for family in families.values():
                family.add(tables[family.scope], found, weights[rows])
    if impossible:
        raise ImpossibleEvidence("some rows have probability zero under the network", tuple(impossible))
    return ExpectedStatistics({name: family.statistics for name, family in families.items()}, logs)


class _FamilyStatistics:
    """A child with its parents, and what has been added up of its rows."""

    def __init__(self, potential: Potential, problem: Problem) -> None:
        self.child, self.parents = potential.child, potential.parents
        self.problem = problem
        members = [v for v in potential.variables if isinstance(v, Discrete)]
        self.known = [v for v in members if v.name in problem.hard]
        self.open = [v for v in members if v.name not in problem.hard]
        self.numbers = [v.name for v in (self.child, *self.parents) if isinstance(v, Continuous)]
        needed = dict.fromkeys(v.name for v in self.open)
        for name in self.numbers:
            if name in problem.component_of:
                needed.update(dict.fromkeys(problem.component_of[name].names))
        self.scope = tuple(needed)
        # one dimension for each discrete member: the known ones, then the open ones
        self.order = [v.name for v in (*self.known, *self.open)]
        self.shape = [len(v) for v in (*self.known, *self.open)]
        self._total: Any = None

    @property
    def statistics(self) -> Statistics:
        """What has been added up."""
        total: Statistics = self._total
        return total

    def add(self, table: Values, found: Solution, weights: Values) -> None:
        """Add some rows; the table is their posterior over the scope."""
        groups = _ObservedConfigurations(self.known, found, weights)
        fresh = self._count(table, groups) if not self.numbers else self._compute_moments(table, found, groups)
        self._total = fresh if self._total is None else self._total + fresh

    def _count(self, table: Values, groups: _ObservedConfigurations) -> Statistics:
        counts = self._arrange(groups.sum(self._sum_out(table)), [v.name for v in (*self.parents, self.child)])
        return MultinomialStatistics(
            child=self.child, parents=self.parents, total=float(groups.weights.sum()), counts=counts
        )

    def _compute_moments(self, table: Values, found: Solution, groups: _ObservedConfigurations) -> Statistics:
        values, spreads = self._expect_numbers(found)
        weights = groups.sum(self._sum_out(table))
        safe = np.where(weights > 0, weights, 1.0)
        means, centered = [], []
        for value in values:
            mean = groups.sum(self._sum_out(table * value)) / safe
            gap = value - self._look_up(mean, groups)
            # the second pass removes what rounding of the first left in the mean
            shift = groups.sum(self._sum_out(table * gap)) / safe
            means.append(mean + shift)
            centered.append(gap - self._look_up(shift, groups))
        count = len(values)
        products = np.empty((count, count, *weights.shape))
        for i in range(count):
            for j in range(i + 1):
                inner = centered[i] * centered[j] + spreads[i, j] if (i, j) in spreads else centered[i] * centered[j]
                products[i, j] = products[j, i] = groups.sum(self._sum_out(table * inner))
        order = [v.name for v in self.parents if isinstance(v, Discrete)]
        return GaussianStatistics(
            child=self.child,
            parents=self.parents,
            total=float(groups.weights.sum()),
            weights=self._arrange(weights, order).ravel(),
            means=np.stack([self._arrange(mean, order).ravel() for mean in means], axis=-1),
            products=np.stack(
                [np.stack([self._arrange(cell, order).ravel() for cell in row], axis=-1) for row in products], axis=-2
            ),
        )

    def _expect_numbers(self, found: Solution) -> tuple[list[Values], dict[tuple[int, int], Values]]:
        """Return the expectation of each number over the scope and the rows, and the covariances of those hidden."""
        values: list[Values] = [np.empty(0)] * len(self.numbers)
        spreads: dict[tuple[int, int], Values] = {}
        for place, name in enumerate(self.numbers):
            component = self.problem.component_of.get(name)
            if component is None:
                values[place] = np.broadcast_to(
                    found.evidence.findings[name].values, [1] * len(self.scope) + [found.evidence.rows]
                )
                continue
            together = [other for other in self.numbers if self.problem.component_of.get(other) is component]
            if name != together[0]:
                continue
            moments = component.moments(together, found.axes, found.evidence)
            places = [self.numbers.index(other) for other in together]
            for i, first in enumerate(places):
                values[first] = _align(moments.mean[i], component.names, self.scope)
                for j, second in enumerate(places):
                    spreads[first, second] = _align(moments.covariance[i, j], component.names, self.scope)
        return values, spreads

    def _sum_out(self, table: Values) -> Values:
        """Sum out what is no discrete member of the family: (cells of the open members, rows)."""
        names = [v.name for v in self.open]
        over = tuple(i for i, name in enumerate(self.scope) if name not in names)
        kept = [name for name in self.scope if name in names]
        result = table.sum(axis=over) if over else table
        result = np.transpose(result, [*(kept.index(name) for name in names), len(names)])
        return result.reshape(-1, table.shape[-1])

    def _look_up(self, array: Values, groups: _ObservedConfigurations) -> Values:
        """Return a value of each configuration (known cells, open cells) for each row, over the scope."""
        rows = array[groups.cells]
        shaped = rows.T.reshape([*(len(v) for v in self.open), len(rows)])
        return _align(shaped, [v.name for v in self.open], self.scope)

    def _arrange(self, array: Values, names: Sequence[str]) -> Values:
        """Turn (known cells, open cells) into one dimension a name."""
        return array.reshape(self.shape).transpose([self.order.index(name) for name in names])


class _ObservedConfigurations:
    """The configuration of those of a family's members that are observed in all rows."""

    def __init__(self, known: Sequence[Discrete], found: Solution, weights: Values) -> None:
        self.weights = weights
        self.count = math.prod(len(v) for v in known)
        observed = [found.evidence.findings[variable.name].values for variable in known]
        self.cells = encode_configurations(observed, [len(variable) for variable in known], len(weights))

    def sum(self, table: Values) -> Values:
        """Return the weighted sums of an array (cells, rows) in each configuration (configurations, cells)."""
        return sum_by_group(self.cells, self.count, table, self.weights)


def _align(array: Values, names: Sequence[str], scope: Sequence[str]) -> Values:
    """Turn an array over some of the scope's names (rows last) so that it broadcasts against the scope."""
    order = sorted(range(len(names)), key=lambda i: scope.index(names[i]))
    turned = np.transpose(array, [*order, len(names)])
    sizes = iter(turned.shape[:-1])
    return turned.reshape([next(sizes) if name in names else 1 for name in scope] + [turned.shape[-1]])
