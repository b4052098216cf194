"""Joint draws from networks whose numbers are linear Gaussian given discrete columns, all rows in one pass.

Such a network is a distribution over the configurations of some discrete columns times one multivariate normal for
each. Given what a row holds, a configuration is drawn first, by its exact probability; then the other discrete columns;
then all missing numbers together from their conditional normal distribution. The answer has the same distribution as
drawing one variable after the other from its posterior, at a fraction of the cost.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import networkx as nx
import numpy as np
from numpy.typing import NDArray

from hybridbn.inference.compilation import Problem, Question
from hybridbn.inference.evidence import Evidence, Finding
from hybridbn.inference.gaussian_conditioning import Regressions, solve_conditionals
from hybridbn.inference.queries import read_relevant_evidence
from hybridbn.inference.sampling import draw
from hybridbn.inference.solutions import TableCollector, impossible_evidence, solve
from hybridbn.network import Network
from hybridbn.options import Options
from hybridbn.variables import Codes, Discrete, Values

__all__ = ["ConditionalGaussian", "conditional_gaussian"]

_MOST_CONFIGURATIONS = 512
_SWEEPS = 40
_NEGLIGIBLE = 1e-12
"""A configuration with less probability in a row adds nothing to what is expected there."""
_CHUNK = 2**22
"""Numbers in the largest temporary array."""


class _WeighedConfigurations(NamedTuple):
    """Rows in which the same columns are missing: the weights (rows, steps) of configurations, counted from the first.

    The weights are proportional to probabilities.
    """

    names: tuple[str, ...]
    rows: Codes
    steps: Codes
    weights: Values


class _Cases(NamedTuple):
    """Configurations of rows, and their probabilities; rows ascend."""

    row: Codes
    configuration: Codes
    weight: Values


@dataclass(frozen=True, eq=False)
class ConditionalGaussian:
    """A network of discrete columns and one normal distribution of the numbers for each configuration of some of them.

    Attributes
    ----------
    discrete : Network
        Without the numbers.
    numbers : tuple of str
        Parents before their children.
    given : tuple of Discrete
        The discrete parents of numbers.
    regressions : Regressions
        Of the numbers, for each configuration.
    """

    discrete: Network
    numbers: tuple[str, ...]
    given: tuple[Discrete, ...]
    regressions: Regressions

    @cached_property
    def means(self) -> Values:
        """The expectations of the numbers in each configuration (configurations, numbers)."""
        regressions = self.regressions
        means = np.linalg.solve(regressions.matrix[regressions.kind], -regressions.offset[..., None])
        return np.asarray(means[..., 0], dtype=np.float64)

    @property
    def names(self) -> list[str]:
        """The numbers, and the discrete columns that they depend on."""
        return [*self.numbers, *(variable.name for variable in self.given)]

    def draw(self, evidence: Evidence, levels: dict[str, Values], options: Options) -> dict[str, NDArray[np.generic]]:
        """Fill every row: codes or values of all variables, observed ones as they are.

        Parameters
        ----------
        evidence : Evidence
            Observed and missing values only.
        levels : dict from name to ndarray (rows,)
            Uniform numbers.
        """
        from scipy.special import ndtri

        rows, values = evidence.rows, self._values(evidence)
        known = {name: finding for name, finding in evidence.findings.items() if name in self.discrete}
        configuration = self._draw_configurations(known, values, levels, options)
        noise = ndtri(np.array([levels[name] for name in self.numbers]).reshape(len(self.numbers), rows).T)
        drawn = self._draw_numbers(values, configuration, noise)
        return self._fill(known, configuration, drawn, levels, options)

    def expect(self, evidence: Evidence, wanted: Sequence[str], options: Options) -> dict[str, Values]:
        """Return the expectations of numbers (rows,), and the probabilities of discrete columns (rows, states).

        Each row has a case for each configuration that is possible in it, and averages over these.

        Parameters
        ----------
        evidence : Evidence
            Observed and missing values only.
        wanted : sequence of str
            Columns; what is returned says nothing of rows in which one is observed.
        """
        rows, values = evidence.rows, self._values(evidence)
        known = {name: finding for name, finding in evidence.findings.items() if name in self.discrete}
        first = self._first_configurations(known, rows)
        parts = list(self._weigh_configurations(known, values, options))
        weighed = np.concatenate([np.zeros(0, dtype=np.intp), *(part.rows for part in parts)])
        whole = np.setdiff1d(np.arange(rows), weighed)
        row, configuration, weight = [whole], [first[whole]], [np.ones(len(whole))]
        for part in parts:
            weights = part.weights / part.weights.sum(axis=1, keepdims=True)
            own, step = np.nonzero(weights > _NEGLIGIBLE)
            row.append(part.rows[own])
            configuration.append(first[part.rows[own]] + part.steps[step])
            weight.append(weights[own, step])
        order = np.argsort(np.concatenate(row), kind="stable")
        cases = _Cases(*(np.concatenate(column)[order] for column in (row, configuration, weight)))
        return {**self._expect_numbers(values, cases), **self._expect_states(known, wanted, cases, rows, options)}

    def _expect_numbers(self, values: Values, cases: _Cases) -> dict[str, Values]:
        expected, hidden = np.zeros(values.shape), np.isnan(values)
        for part in solve_conditionals(self.regressions, cases.configuration, cases.row, values, hidden):
            places = cases.row[part.cases][:, None] * values.shape[1] + part.columns[part.system]
            weighted = cases.weight[part.cases][:, None] * part.mean[..., 0]
            expected += np.bincount(places.ravel(), weighted.ravel(), expected.size).reshape(expected.shape)
        expected = np.where(hidden, expected, values)
        return {name: expected[:, column] for column, name in enumerate(self.numbers)}

    def _expect_states(
        self, known: Mapping[str, Finding], wanted: Sequence[str], cases: _Cases, rows: int, options: Options
    ) -> dict[str, Values]:
        sizes = [len(variable) for variable in self.given]
        codes = np.unravel_index(cases.configuration, sizes) if sizes else ()
        findings = {name: finding.take(cases.row) for name, finding in known.items()}
        expected: dict[str, Values] = {}
        for variable, own in zip(self.given, codes, strict=True):
            findings[variable.name] = Finding(variable, np.asarray(own, dtype=np.intp))
            if variable.name in wanted:
                place = cases.row * len(variable) + own
                table = np.bincount(place, cases.weight, rows * len(variable)).astype(np.float64)
                expected[variable.name] = np.asarray(table.reshape(rows, len(variable)))
        others = [name for name in wanted if name in self.discrete and name not in expected]
        if others:
            evidence = Evidence(findings, len(cases.row), single=False)
            read = read_relevant_evidence(self.discrete, evidence, others)
            answer = solve(self.discrete, Question(tuple(others)), read, options)
            for name, collector in zip(others, answer.collected, strict=True):
                assert isinstance(collector, TableCollector)
                probabilities = answer.arrange_rows(collector.table) * cases.weight
                expected[name] = np.array([np.bincount(cases.row, own, rows) for own in probabilities]).T
        return expected

    def draw_within(
        self,
        evidence: Evidence,
        start: Mapping[str, NDArray[np.generic]],
        bounds: Mapping[str, tuple[float, float]],
        orders: Sequence[tuple[str, str]],
        levels: Callable[[int], dict[str, Values]],
        options: Options,
    ) -> dict[str, NDArray[np.generic]]:
        """Fill every row with missing numbers within bounds, by Gibbs sampling from a draw that breaks them.

        A truncated normal distribution of several variables has no closed form. A sweep draws the configuration given
        all numbers, then each missing number given all others.

        Parameters
        ----------
        orders : sequence of (str, str)
            Pairs of numbers, the first of which is not greater than the second.
        levels : callable
            From the number of a sweep to uniform numbers, as in `draw`.
        """
        hidden = np.isnan(self._values(evidence))
        low = np.array([bounds.get(name, (-np.inf, np.inf))[0] for name in self.numbers])
        high = np.array([bounds.get(name, (-np.inf, np.inf))[1] for name in self.numbers])
        values = np.array([start[name] for name in self.numbers], dtype=np.float64).T
        values = np.where(hidden, np.clip(values, low, high), values)
        known = {name: finding for name, finding in evidence.findings.items() if name in self.discrete}
        configuration: Codes = np.zeros(evidence.rows, dtype=np.intp)
        pairs = [(self.numbers.index(lesser), self.numbers.index(greater)) for lesser, greater in orders]
        for sweep in range(_SWEEPS):
            uniforms = levels(sweep)
            configuration = self._draw_configurations(known, values, uniforms, options)
            for column, name in enumerate(self.numbers):
                center = self.conditional_mean(column, values, configuration)
                spread = 1 / np.sqrt(self.regressions.gram[self.regressions.kind[configuration], column, column])
                least, most = np.full(len(values), low[column]), np.full(len(values), high[column])
                for lesser, greater in pairs:
                    if greater == column:
                        least = np.maximum(least, values[:, lesser])
                    elif lesser == column:
                        most = np.minimum(most, values[:, greater])
                # a start that breaks an order leaves no room for one of the two until the other has moved
                rows = np.flatnonzero(hidden[:, column] & (least < most))
                a, b = ((ends[rows] - center[rows]) / spread[rows] for ends in (least, most))
                fresh = center[rows] + spread[rows] * _truncated_normal(uniforms[name][rows], a, b)
                values[rows, column] = np.clip(fresh, least[rows], most[rows])
        return self._fill(known, configuration, values, levels(_SWEEPS), options)

    def conditional_mean(self, column: int, values: Values, configuration: Codes) -> Values:
        """Return the expectation of one number given all other cells of complete rows."""
        own = self.regressions.gram[self.regressions.kind[configuration], column]
        pull = np.einsum("rj,rj->r", own, values - self.means[configuration])
        return np.asarray(values[:, column] - pull / own[:, column])

    def _values(self, evidence: Evidence) -> Values:
        """Return the observed numbers (rows, numbers), NaN where one is hidden."""
        values = np.full((evidence.rows, len(self.numbers)), np.nan)
        for column, name in enumerate(self.numbers):
            finding = evidence.finding(name)
            if finding is not None:
                values[:, column] = finding.values
        return values

    def _fill(
        self,
        known: Mapping[str, Finding],
        configuration: Codes,
        values: Values,
        levels: dict[str, Values],
        options: Options,
    ) -> dict[str, NDArray[np.generic]]:
        """Draw the other discrete columns given the configuration, and put all together."""
        findings, rows = dict(known), len(values)
        sizes = [len(variable) for variable in self.given]
        for variable, codes in zip(self.given, np.unravel_index(configuration, sizes) if sizes else (), strict=True):
            findings[variable.name] = Finding(variable, np.asarray(codes, dtype=np.intp))
        order = list(self.discrete)
        filled: dict[str, NDArray[np.generic]] = {}
        if order:
            uniforms = np.array([levels[name] for name in order]).reshape(len(order), rows)
            filled.update(draw(self.discrete, Evidence(findings, rows, single=False), uniforms, options))
        return {**filled, **{name: values[:, column] for column, name in enumerate(self.numbers)}}

    def _draw_configurations(
        self, known: dict[str, Finding], values: Values, levels: dict[str, Values], options: Options
    ) -> Codes:
        """Draw the configuration of the given columns from its posterior; observed ones stay."""
        result = self._first_configurations(known, len(values))
        for part in self._weigh_configurations(known, values, options):
            cumulated = np.cumsum(part.weights, axis=1)
            level = levels[part.names[0]][part.rows] * cumulated[:, -1]
            chosen = (level[:, None] >= cumulated).sum(axis=1)
            result[part.rows] += part.steps[np.minimum(chosen, len(part.steps) - 1)]
        return result

    def _first_configurations(self, known: Mapping[str, Finding], rows: int) -> Codes:
        """Return the configuration of each row with the first state for what is missing."""
        result: Codes = np.zeros(rows, dtype=np.intp)
        for variable in self.given:
            codes = known[variable.name].values.astype(np.intp) if variable.name in known else np.zeros(1, np.intp)
            result = result * len(variable) + np.maximum(codes, 0)
        return result

    def _weigh_configurations(
        self, known: dict[str, Finding], values: Values, options: Options
    ) -> Iterator[_WeighedConfigurations]:
        """Yield the posterior probabilities of the configurations of rows in which given columns are missing."""
        rows, names = len(values), [variable.name for variable in self.given]
        sizes = [len(variable) for variable in self.given]
        strides = [math.prod(sizes[i + 1 :]) for i in range(len(sizes))]
        first = self._first_configurations(known, rows)
        pattern = np.zeros(rows, dtype=np.intp)
        for place, name in enumerate(names):
            is_missing = known[name].values.astype(np.intp) < 0 if name in known else np.ones(rows, dtype=bool)
            pattern |= is_missing.astype(np.intp) << place
        impossible: list[int] = []
        for missing in np.unique(pattern[pattern > 0]).tolist():
            places = [place for place in range(len(names)) if missing >> place & 1]
            steps = np.zeros(1, dtype=np.intp)
            for place in places:
                steps = (steps[:, None] + strides[place] * np.arange(sizes[place])).ravel()
            concerned = np.flatnonzero(pattern == missing)
            step = max(_CHUNK // (len(steps) * (len(self.numbers) + 1)), 1)
            for start in range(0, len(concerned), step):
                own = concerned[start : start + step]
                absent = tuple(names[place] for place in places)
                # impossible rows are marked, and named together with those of other parts
                logs = self._prior([*absent], known, own, replace(options, impossible="nan"))
                logs += self._densities(values[own], first[own], steps, np.isfinite(logs))
                best = logs.max(axis=1)
                impossible.extend(own[~np.isfinite(best)].tolist())
                with np.errstate(invalid="ignore"):
                    weights = np.exp(logs - best[:, None])
                yield _WeighedConfigurations(absent, own, steps, weights)
        if impossible:
            raise impossible_evidence(sorted(impossible), single=False)

    def _prior(self, names: list[str], known: dict[str, Finding], rows: Codes, options: Options) -> Values:
        """Return the log probabilities of all states of some columns given the other discrete ones: (rows, states)."""
        rest = {name: finding for name, finding in known.items() if name not in names}
        read = read_relevant_evidence(self.discrete, Evidence(rest, 0, single=False).take(rows, len(rows)), names)
        collectors: list[TableCollector] = []

        def collect(_: Problem, distinct: int) -> Sequence[TableCollector]:
            collectors.append(TableCollector(0, distinct))
            return collectors

        answer = solve(self.discrete, Question(tuple(names), joint=True, pointwise=True), read, options, collect)
        sizes = [len(self.discrete.variable(name)) for name in names]  # type: ignore[arg-type]  # all are discrete
        table = np.broadcast_to(answer.arrange_rows(collectors[0].table), (*sizes, len(rows)))
        with np.errstate(divide="ignore"):
            return np.ascontiguousarray(np.log(table.reshape(-1, len(rows)).T))

    def _densities(self, values: Values, first: Codes, steps: Codes, wanted: NDArray[np.bool_]) -> Values:
        """Return the log density of what is observed in each row for the configurations that are `steps` from the
        first.
        """
        densities = np.zeros((len(values), len(steps)))
        row, step = np.nonzero(wanted)
        for part in solve_conditionals(self.regressions, first[row] + steps[step], row, values, np.isnan(values)):
            squares = np.einsum("cij,cij->c", part.residual, part.residual)
            densities[row[part.cases], step[part.cases]] = part.log_constant - 0.5 * squares
        return densities

    def _draw_numbers(self, values: Values, configuration: Codes, noise: Values) -> Values:
        """Return rows with their hidden numbers drawn from standard normal noise (rows, numbers)."""
        hidden, drawn, row = np.isnan(values), np.array(values), np.arange(len(values))
        # not even the rounding of a draw depends on other rows
        for part in solve_conditionals(self.regressions, configuration, row, values, hidden, separately=True):
            rows, columns = part.cases[:, None], part.columns[part.system]
            drawn[rows, columns] = part.draw(noise[rows, columns])
        return drawn


def _truncated_normal(levels: Values, low: Values, high: Values) -> Values:
    """Return quantiles of the standard normal distribution between two ends."""
    from scipy.special import log_ndtr, ndtri_exp

    # the upper tail is the lower one of the negative number, which has more digits
    flipped = low > 0
    low, high = np.where(flipped, -high, low), np.where(flipped, -low, high)
    levels = np.where(flipped, 1 - levels, levels)
    quantiles = ndtri_exp(np.logaddexp(np.log(levels) + log_ndtr(high), np.log1p(-levels) + log_ndtr(low)))
    return np.asarray(np.where(flipped, -quantiles, quantiles))


def conditional_gaussian(network: Network) -> ConditionalGaussian | None:
    """Return a network in this form, or None where it doesn't have it.

    Examples
    --------
    >>> import hybridbn as hb
    >>> c, x, y = hb.Discrete("c", states=("a", "b")), hb.Continuous("x"), hb.Continuous("y")
    >>> net = hb.Network([
    ...     hb.Multinomial(c, table=[0.5, 0.5]),
    ...     hb.LinearGaussian(x, parents=(c,), intercept=[0, 4], variance=[1, 1]),
    ...     hb.LinearGaussian(y, parents=(x,), intercept=1, coefficients=[2], variance=0.25),
    ... ])
    >>> abs(conditional_gaussian(net).means)
    array([[0., 1.],
           [4., 9.]])
    """
    numbers, given = [], {}
    for name in nx.topological_sort(network):
        potential = network.potential(name)
        discrete = [parent for parent in potential.parents if isinstance(parent, Discrete)]
        if isinstance(network.variable(name), Discrete):
            if len(discrete) < len(potential.parents):
                return None
        elif potential.as_regression() is None:
            return None
        else:
            numbers.append(name)
            given.update({parent.name: parent for parent in discrete})
    sizes = [len(variable) for variable in given.values()]
    size = math.prod(sizes)
    if size > _MOST_CONFIGURATIONS:
        return None
    states = dict(zip(given, np.unravel_index(np.arange(size), sizes) if sizes else (), strict=True))
    potentials = [network.potential(name) for name in numbers]
    regressions = Regressions.of(potentials, numbers, len(numbers), states, (size,), kept=False)
    alone = Network([network.potential(name) for name in network if isinstance(network.variable(name), Discrete)])
    return ConditionalGaussian(alone, tuple(numbers), tuple(given.values()), regressions)
