"""Filling the holes of a table from a network, one batched pass for each column."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hybridbn.errors import ImpossibleEvidence, NetworkError
from hybridbn.inference.answers import impossible_evidence, posterior_of, solved
from hybridbn.inference.evidence import Evidence, EvidenceReader
from hybridbn.inference.posterior import DiscretePosterior, Posterior
from hybridbn.inference.problem import Question
from hybridbn.inference.queries import relevant_evidence
from hybridbn.inference.sampling import draw
from hybridbn.network import Network
from hybridbn.options import Options
from hybridbn.potentials.base import Potential
from hybridbn.tables import Table
from hybridbn.variables import Codes, Discrete, Values, Variable, shorten

__all__ = ["Holes", "ObservedNumbers", "log_likelihood"]


@dataclass(frozen=True)
class Holes:
    """A table with holes, which stays as it is, and ways to fill them.

    Cells are handed over as the table's own codes or numbers, so a column that a network discretizes gets numbers: observed
    ones out of the interval.
    """

    table: Table

    @cached_property
    def rows(self) -> dict[str, NDArray[np.intp]]:
        """The rows where a column is missing, for each column that has any."""
        found = {}
        for name in self.table.names:
            column = self.table.column(name)
            missing = np.flatnonzero(column < 0 if self.table.is_discrete(name) else np.isnan(column))
            if len(missing):
                found[name] = missing
        return found

    def uniforms(self, rng: np.random.Generator, network: Network | None = None) -> dict[str, Values]:
        """Return a random number for each row of each column that has holes; a row's numbers are its own.

        Hidden nodes of a network, which are no columns at all, get theirs too.
        """
        names = [*self.rows, *(name for name in network or () if name not in self.table)]
        return dict(zip(names, rng.random((len(self.table), len(names))).T, strict=True))

    def marginal(self, marginals: Network, uniforms: Mapping[str, Values]) -> dict[str, NDArray[Any]]:
        """Draw each hole from the density of its column alone (line 4 of Algorithm 1)."""
        drawn = {}
        for name, rows in self.rows.items():
            level = uniforms[name][rows]
            values = marginals.potential(name).ppf(level, {})
            drawn[name] = self._named(marginals.variable(name), values, level)
        return drawn

    def conditional(
        self, network: Network, marginals: Network, uniforms: Mapping[str, Values], options: Options, leave: str = ""
    ) -> dict[str, NDArray[Any]]:
        """Draw each hole from its posterior given what is observed in its row, whatever other holes get (lines 13 to 18).

        Columns that the network leaves out are drawn from their marginals; `leave` is a column to pass over.
        """
        evidence = self._evidence(network)
        drawn = {}
        for name, rows in self.rows.items():
            if name == leave:
                continue
            level = uniforms[name][rows]
            if name not in network:
                values, variable = marginals.potential(name).ppf(level, {}), marginals.variable(name)
            else:
                variable = network.variable(name)
                values = np.empty(len(rows), np.intp if isinstance(variable, Discrete) else np.float64)
                for part in self._parted(network, name, rows):
                    chosen = rows[part]
                    read = evidence.take(chosen, len(chosen))
                    values[part] = _drawn(network, variable, read, level[part], chosen, options)
            drawn[name] = self._named(variable, values, level)
        return drawn

    def joint(
        self, network: Network, marginals: Network, uniforms: Mapping[str, Values], options: Options
    ) -> dict[str, NDArray[Any]]:
        """Draw all holes of a row together from their joint posterior given what is observed in the row."""
        rows = self.incomplete
        numbers = np.full((len(network), len(rows)), 0.5)
        for place, name in enumerate(network):
            if name in uniforms:
                numbers[place] = uniforms[name][rows]
        evidence = self._evidence(network)
        try:
            values = draw(network, evidence.take(rows, len(rows)), numbers, options)
        except ImpossibleEvidence as problem:
            raise impossible_evidence([int(rows[row]) for row in problem.rows], False) from None
        drawn = {}
        for name, missing in self.rows.items():
            level = uniforms[name][missing]
            if name in network:
                found, variable = values[name][np.searchsorted(rows, missing)], network.variable(name)
            else:
                found, variable = marginals.potential(name).ppf(level, {}), marginals.variable(name)
            drawn[name] = self._named(variable, found, level)
        return drawn

    @cached_property
    def incomplete(self) -> NDArray[np.intp]:
        """The rows with any hole, in order."""
        return np.unique(np.concatenate([np.empty(0, np.intp), *self.rows.values()]))

    def filled(self, drawn: Mapping[str, NDArray[Any]]) -> Table:
        """Return the table with the holes of these columns filled."""
        table = self.table
        for name, values in drawn.items():
            column = np.array(table.column(name))
            column[self.rows[name]] = values
            table = table.with_array(name, column)
        return table

    def expected(self, name: str, posterior: Posterior) -> Values:
        """Return what is expected of a column in every row: numbers (rows,), or probabilities (rows, states).

        The states are the table's own.
        """
        if not isinstance(posterior, DiscretePosterior):
            return np.asarray(posterior.mean())  # type: ignore[attr-defined]  # all others are continuous
        own, probabilities = self.table.variable(name), posterior.probabilities
        if not isinstance(own, Discrete):
            return np.asarray(probabilities @ self._numbers(posterior.variable).means())
        if own.states == posterior.states:
            return probabilities
        result = np.zeros((len(probabilities), len(own)))
        result[:, [own.code(state) for state in posterior.states]] = probabilities
        return result

    def _parted(self, network: Network, name: str, rows: NDArray[np.intp]) -> list[NDArray[np.intp]]:
        """Part rows by whether all that matters for a column is observed, where inference needs no quadrature at all."""
        blanket = network.markov_blanket(name)
        alone = np.ones(len(rows), dtype=bool)
        for other in blanket:
            if other not in self.table:
                alone[:] = False
            elif other in self.rows:
                alone &= ~np.isin(rows, self.rows[other])
        return [part for part in (np.flatnonzero(alone), np.flatnonzero(~alone)) if len(part)]

    def _evidence(self, network: Network) -> Evidence:
        return EvidenceReader(network, self.table).evidence(name for name in self.table.names if name in network)

    def _named(self, variable: Variable, values: NDArray[Any], level: Values) -> NDArray[Any]:
        """Turn codes or numbers of a network's variable into those of the table's column."""
        own = self.table.variable(variable.name)
        if not isinstance(variable, Discrete):
            return values
        if not isinstance(own, Discrete):
            return self._numbers(variable).drawn(values, level)
        if own.states == variable.states:
            return values
        return np.asarray(np.array([own.code(state) for state in variable.states])[values])

    def _numbers(self, variable: Discrete) -> ObservedNumbers:
        column = self.table.column(variable.name)
        return ObservedNumbers(np.sort(column[~np.isnan(column)]), np.array(variable.cuts or ()))


@dataclass(frozen=True)
class ObservedNumbers:
    """The observed numbers of a column that a network sees in intervals, sorted.

    Examples
    --------
    >>> numbers = ObservedNumbers(np.array([1.0, 2.0, 4.0]), np.array([3.0]))
    >>> numbers.means(), numbers.drawn(np.array([1]), np.array([0.5]))
    (array([1.5, 4. ]), array([4.]))
    """

    values: Values
    cuts: Values

    @property
    def _bounds(self) -> Codes:
        inner = np.searchsorted(self.values, self.cuts, side="left")
        return np.concatenate([[0], inner, [len(self.values)]]).astype(np.intp)

    def drawn(self, codes: Codes, level: Values) -> Values:
        """Return one of the numbers in each interval; the nearest one where an interval has none."""
        bounds = self._bounds
        low, count = bounds[codes], np.diff(bounds)[codes]
        # digits of the level that the choice of the interval has not used up
        inside = np.modf(level * 1048573.0)[0]
        places = low + np.floor(inside * count).astype(np.intp)
        return np.asarray(self.values[np.minimum(places, len(self.values) - 1)])

    def means(self) -> Values:
        """Return the mean of the numbers in each interval; the nearest one where an interval has none."""
        bounds = self._bounds
        sums = np.concatenate([[0.0], np.cumsum(self.values)])
        count = np.diff(bounds)
        nearest = self.values[np.minimum(bounds[:-1], len(self.values) - 1)]
        return np.where(count > 0, np.diff(sums[bounds]) / np.maximum(count, 1), nearest)


def log_likelihood(network: Network, table: Table, options: Options) -> float:
    """Return the weighted sum of the rows' log densities, missing cells marginalized.

    Examples
    --------
    >>> import hybridbn as hb
    >>> net = hb.Network([hb.Multinomial(hb.Discrete("c", states=("a", "b")), table=[0.5, 0.5])])
    >>> round(log_likelihood(net, Table({"c": ["a", None, "b"]}), Options()), 6)
    -1.386294
    """
    kept = table.select([name for name in table.names if name in network])
    logs = network.log_density(kept, options=options)
    counts = table.weights > 0
    if np.isnan(logs).any():
        faulty = [p.child.name for p in network.potentials if not _has_numbers(p)]
        raise NetworkError(
            f"the learned network gives rows {shorten(np.flatnonzero(np.isnan(logs)).tolist(), 3)} no density (NaN)"
            f"{f'; the potentials of {shorten(faulty)} are at fault' if faulty else ''}: learn them as another family, by "
            "potentials={...}"
        )
    return float(table.weights[counts] @ logs[counts])


def _has_numbers(potential: Potential) -> bool:
    """Tell whether all parameters of a potential are numbers, as far as they can be looked at."""
    try:
        return _numbers_in(potential.to_dict())
    except NetworkError:
        return True


def _numbers_in(state: Any) -> bool:
    if isinstance(state, dict | list | tuple):
        return all(map(_numbers_in, state.values() if isinstance(state, dict) else state))
    array = np.asarray(state) if isinstance(state, float | np.ndarray) else np.zeros(0)
    return array.dtype.kind != "f" or not np.isnan(array).any()


def _drawn(
    network: Network, variable: Variable, evidence: Evidence, level: Values, rows: NDArray[np.intp], options: Options
) -> NDArray[Any]:
    """Draw one variable from its posterior in every row of the evidence."""
    read = relevant_evidence(network, evidence, [variable.name])
    try:
        answer = solved(network, Question((variable.name,)), read, options)
    except ImpossibleEvidence as problem:
        raise impossible_evidence([int(rows[row]) for row in problem.rows], False) from None
    return np.asarray(posterior_of(answer, 0, variable).drawn(level[None])[0])
