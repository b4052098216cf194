"""Filling the missing cells of rows from one network: joint draws, expectations, or the most probable completion."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hybridbn.errors import ImpossibleEvidence, TableError
from hybridbn.estimation.completion import ObservedNumbers
from hybridbn.estimation.row_uniforms import Keys, Levels, levels_of
from hybridbn.inference.conditional_gaussian import ConditionalGaussian, conditional_gaussian
from hybridbn.inference.densities import ContinuousPosterior
from hybridbn.inference.evidence import Evidence, EvidenceReader, Finding, Interval
from hybridbn.inference.mode import most_probable
from hybridbn.inference.posterior import DiscretePosterior
from hybridbn.inference.queries import posteriors
from hybridbn.inference.sampling import draw
from hybridbn.learning.imputation_columns import Bounds
from hybridbn.learning.imputation_donors import Matching
from hybridbn.network import Network
from hybridbn.options import Options
from hybridbn.tables import Table
from hybridbn.variables import Discrete, Values

__all__ = ["Cells", "Filler"]

Cells = dict[str, NDArray[Any]]
"""Columns, as codes or numbers of the table's own variables."""

_NUMBERS = 2_000_000
"""In the largest array: a number for each row and state."""

_ATTEMPTS = 50
"""Draws of rows that break a bound, before the bound is made part of the evidence."""


@dataclass(frozen=True, eq=False)
class Filler:
    """A network and what its draws have to respect.

    Attributes
    ----------
    network : Network
    donors : mapping from column to ndarray
        Sorted observed numbers of the columns that the network sees in intervals.
    bounds : mapping from column to (low, high)
        As the draws have to respect them: half a unit wider than the user's where numbers are rounded later.
    options : Options
    matching : Matching, optional
        Of numbers that are far from normal.
    """

    network: Network
    donors: Mapping[str, Values]
    bounds: Bounds
    options: Options
    matching: Matching | None = None

    @cached_property
    def closed(self) -> ConditionalGaussian | None:
        """The network in a form with faster draws, where it has one."""
        return conditional_gaussian(self.network)

    def filled(self, table: Table, strategy: str, keys: Keys, seed: int) -> Cells:
        """Return the network's columns without holes.

        Each row is filled by itself, so the blocks of rows that bound the memory don't matter.
        """
        table = table.select([name for name in table.names if name in self.network])
        holes = {name: mask for name in table.names if (mask := table.cells(name).missing).any()}
        rows = np.flatnonzero(np.any([*holes.values(), np.zeros(len(table), dtype=bool)], axis=0))
        cells = {name: np.array(table.column(name)) if name in holes else table.column(name) for name in table.names}
        levels = levels_of(keys, list(self.network), seed)
        width = sum(len(getattr(self.network.variable(name), "states", ())) + 1 for name in self.network)
        step = max(_NUMBERS // width, 100)
        for start in range(0, len(rows), step):
            part = rows[start : start + step]
            block = table.take(part)
            if strategy == "draw":
                found = self._drawn(block, part, levels)
            else:
                found = (self._expected if strategy == "mean" else self._most_probable)(block, part)
            for name in holes.keys() & found.keys():
                cells[name][part] = np.where(holes[name][part], found[name], cells[name][part])
        return cells

    def _drawn(self, table: Table, rows: NDArray[np.intp], levels: Levels) -> Cells:
        """Draw all missing cells of each row together from their joint posterior given the observed ones."""
        cells: Cells = {name: table.column(name) for name in table.names}
        holes = {name: table.cells(name).missing for name in table.names}
        found = self._within(EvidenceReader(self.network, table).evidence(table.names), rows, levels)
        binned = any(isinstance(self.network.variable(name), Discrete) for name in self.donors if name in self.network)
        level = levels(-1, rows) if binned else {}
        for name in table.names:
            if holes[name].any():
                own = self._own(table, name, found[name], level.get(name, np.zeros(0)))
                cells[name] = np.where(holes[name], own, cells[name])
        if self.matching is not None:
            level_of = levels(-2, rows).__getitem__
            for name, values in self.matching.matched(cells, holes, level_of).items():
                low, high = self.bounds.get(name, (-np.inf, np.inf))
                within = holes[name] & (values >= low) & (values <= high)
                cells[name] = np.where(within, values, cells[name])
        return cells

    def _within(self, evidence: Evidence, rows: NDArray[np.intp], levels: Levels) -> Cells:
        """Draw again where a bound is broken, which is exact; where that takes too long, make the bounds part of the draw."""
        found: Cells = {}
        pending = np.arange(len(rows))
        bounds = {name: ends for name, ends in self.bounds.items() if name in self.network}
        for attempt in range(_ATTEMPTS if bounds else 1):
            part = evidence.take(pending, len(pending)) if attempt else evidence
            values = self._draw(part, levels(attempt, rows[pending]), rows[pending])
            if not attempt:
                found = {name: np.array(column) for name, column in values.items()}
            broken = np.zeros(len(pending), dtype=bool)
            for name, column in values.items():
                found[name][pending] = column
            for name, (low, high) in bounds.items():
                missing = _missing(part, name)
                broken |= missing & ~((values[name] >= low) & (values[name] <= high))
            pending = pending[broken]
            if not len(pending):
                return found
        told = evidence.take(pending, len(pending))
        if self.closed is not None:
            start = {name: column[pending] for name, column in found.items()}
            values = self.closed.draw_within(
                told, start, bounds, lambda sweep: dict(levels(_ATTEMPTS + sweep, rows[pending])), self.options
            )
            for name, column in values.items():
                found[name][pending] = column
            return found
        findings = dict(told.findings)
        for name, (low, high) in bounds.items():
            missing = _missing(told, name)
            seen = findings[name].values if name in findings else np.full(len(pending), np.nan)
            findings[name] = Finding(
                self.network.variable(name),
                seen,
                low=np.where(missing, low, -np.inf),
                high=np.where(missing, high, np.inf),
            )
        level = levels(_ATTEMPTS, rows[pending])
        uniforms = np.array([level[name] for name in self.network])
        try:
            values = draw(self.network, Evidence(findings, len(pending), single=False), uniforms, self.options)
        except ImpossibleEvidence as problem:
            places = [int(rows[pending[row]]) for row in problem.rows]
            raise ImpossibleEvidence(
                f"no value within the bounds {bounds} is possible in row {places[0]} given its observed cells "
                f"({len(places)} such rows); widen the bounds",
                tuple(places),
            ) from None
        for name, column in values.items():
            found[name][pending] = column
        return found

    def _draw(self, evidence: Evidence, levels: Mapping[str, Values], rows: NDArray[np.intp]) -> Cells:
        try:
            if self.closed is not None:
                return self.closed.draw(evidence, dict(levels), self.options)
            uniforms = np.array([levels[name] for name in self.network])
            return draw(self.network, evidence, uniforms, self.options)
        except ImpossibleEvidence as problem:
            raise _impossible([int(rows[row]) for row in problem.rows]) from None

    # -- one best value -------------------------------------------------------------------------------------------

    def _expected(self, table: Table, rows: NDArray[np.intp]) -> Cells:
        """Return the expectation of each missing number, and the most probable state of each missing discrete cell."""
        cells = {}
        for name, posterior in self.posteriors(table, rows).items():
            own = table.variable(name)
            if isinstance(posterior, DiscretePosterior):
                codes = posterior.probabilities.argmax(axis=1)
                if isinstance(own, Discrete):
                    cells[name] = self._own(table, name, codes, np.zeros(0))
                else:
                    cells[name] = posterior.probabilities @ self._numbers(posterior.variable).means()
            else:
                cells[name] = np.asarray(posterior.mean())
        return cells

    def posteriors(
        self, table: Table, rows: NDArray[np.intp] | None = None
    ) -> dict[str, DiscretePosterior | ContinuousPosterior]:
        """Return the posterior of each column of the network with holes, in every row; `rows` are their places for messages."""
        wanted = [name for name in table.names if name in self.network and table.cells(name).missing.any()]
        try:
            return posteriors(self.network, self._evidence(table), None, self.options) if wanted else {}
        except ImpossibleEvidence as problem:
            raise _impossible([row if rows is None else int(rows[row]) for row in problem.rows]) from None

    def _most_probable(self, table: Table, rows: NDArray[np.intp]) -> Cells:
        """Return the most probable completion of each row, all its missing cells taken together."""
        wanted = [name for name in table.names if table.cells(name).missing.any()]
        try:
            found = most_probable(self.network, self._evidence(table), None, self.options)
        except ImpossibleEvidence as problem:
            raise _impossible([int(rows[row]) for row in problem.rows]) from None
        completed = found if isinstance(found, Table) else Table(found)
        cells = {}
        for name in wanted:
            values = completed.coded(self.network.variable(name))
            cells[name] = self._own(table, name, values, np.full(len(table), 0.5))
        return cells

    def _evidence(self, table: Table) -> Any:
        """Return the table, with intervals in the missing cells of bounded columns."""
        names = [name for name in table.names if name in self.network]
        bounded = [name for name in self.bounds if name in names and table.cells(name).missing.any()]
        if not bounded:
            return table.select(names)
        import pandas

        columns: dict[str, Any] = {name: table.raw(name) for name in names}
        for name in bounded:
            values = np.array(table.column(name), dtype=object)
            interval = Interval(*self.bounds[name])
            for row in np.flatnonzero(table.cells(name).missing):
                values[row] = interval
            columns[name] = values
        return pandas.DataFrame(columns)

    # -- from the network's terms to the table's ------------------------------------------------------------------

    def _own(self, table: Table, name: str, values: NDArray[Any], level: Values) -> NDArray[Any]:
        """Turn codes or numbers of the network's variable into those of the table's."""
        variable, own = self.network.variable(name), table.variable(name)
        if not isinstance(variable, Discrete):
            return values
        codes = values.astype(np.intp)
        if not isinstance(own, Discrete):
            return self._numbers(variable).drawn(codes, level)
        if own.states == variable.states:
            return codes
        return np.array([own.code(state) for state in variable.states], dtype=np.intp)[codes]

    def _numbers(self, variable: Discrete) -> ObservedNumbers:
        seen = self.donors.get(variable.name, np.zeros(0))
        if not len(seen):
            raise TableError(
                f"column {variable.name!r} has no observed number, and the network knows it in intervals only; impute it "
                "together with rows in which it is observed"
            )
        return ObservedNumbers(seen, np.array(variable.cuts or ()))


def _missing(evidence: Evidence, name: str) -> NDArray[np.bool_]:
    finding = evidence.finding(name)
    return np.ones(evidence.rows, dtype=bool) if finding is None else ~finding.observed


def _impossible(rows: list[int]) -> ImpossibleEvidence:
    return ImpossibleEvidence(
        f"the observed cells of row {rows[0]} have probability zero under the network ({len(rows)} such rows), so it "
        "doesn't say what is missing there; learn it from data that has such rows, or leave them out",
        tuple(rows),
    )
