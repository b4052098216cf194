"""A program with its sources: from the evidence of some rows to the tables over some scopes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from threading import Lock
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hybridbn.inference.elimination.program import Program
from hybridbn.inference.evidence import Evidence
from hybridbn.inference.elimination.executor import Axis, PotentialSource, Source
from hybridbn.variables import Values

__all__ = ["Machine", "Run"]

LINEAR_SPAN = 600.0
"""Factors that span more than e^600 are not multiplied in linear arithmetic."""
SUSPICIOUS = 1e-250
"""A smaller total may have lost terms to underflow on the way."""


class Run(NamedTuple):
    """What a machine found for some rows.

    Attributes
    ----------
    tables : for each scope an array (*scope, rows) that sums to one; NaN where nothing is possible
    log_norm : (rows,) log of what they summed to
    doubtful : (rows,) whether linear arithmetic may have lost something
    """

    tables: list[Values]
    log_norm: Values
    doubtful: NDArray[np.bool_]


@dataclass
class Machine:
    """Sources of factors, and the program that multiplies and sums them.

    Attributes
    ----------
    nodes : variables with Gauss-Legendre nodes, along which potentials may span more than a double holds
    """

    sources: Sequence[Source]
    program: Program
    nodes: frozenset[str]
    _static_scale: float = 0.0
    _lock: Lock = field(default_factory=Lock, repr=False)

    def run(self, axes: Mapping[str, Axis], evidence: Evidence) -> Run:
        """Run in linear arithmetic."""
        if self.program.warm:
            return self._run(axes, evidence)
        # what needs no evidence is computed in the first run, and only once
        with self._lock:
            return self._run(axes, evidence)

    def _run(self, axes: Mapping[str, Axis], evidence: Evidence) -> Run:
        arrays: dict[int, Values] = {}
        scale: Values | float = 0.0
        static_scale = 0.0
        wide: NDArray[np.bool_] | bool = False
        warm = self.program.warm
        for number, source in enumerate(self.sources):
            if source.static:
                if not warm:
                    arrays[number], fixed = source.values(axes, evidence)
                    static_scale += float(np.max(fixed))
                continue
            if source.rows and isinstance(source, PotentialSource) and not self.nodes.isdisjoint(source.names):
                arrays[number], added, lost = _guarded(source.logs(axes, evidence))
                wide = wide | lost
                scale = scale + added
            else:
                arrays[number], log_scale = source.values(axes, evidence)
                scale = scale + log_scale
        if not warm:
            self._static_scale = static_scale
        tables = [
            self._with_rows(t, s, evidence.rows) for t, s in zip(self.program.run(arrays), self.scopes, strict=True)
        ]
        total = _total(tables[0])
        sound = total > SUSPICIOUS
        if sound.all():
            log_norm = np.log(total)
            tables[0] = tables[0] / total
        else:
            with np.errstate(divide="ignore"):
                log_norm = np.log(total)
            tables[0] = _normalized(tables[0])
        tables[1:] = [_normalized(table) for table in tables[1:]]
        return Run(tables, log_norm + (scale + self._static_scale), ~sound | wide)

    def run_in_logs(self, axes: Mapping[str, Axis], evidence: Evidence) -> Run:
        """Run in logarithms, which hold any span."""
        arrays = {number: source.logs(axes, evidence) for number, source in enumerate(self.sources)}
        tables: list[Values] = []
        log_norm = np.full(evidence.rows, -np.inf)
        for logs, scope in zip(self.program.run_log(arrays), self.scopes, strict=True):
            logs = self._with_rows(logs, scope, evidence.rows)
            over = tuple(range(logs.ndim - 1))
            top = logs.max(axis=over, initial=-np.inf)
            shift = np.where(np.isfinite(top), top, 0.0)
            table = np.exp(logs - shift)
            if not tables:
                with np.errstate(divide="ignore"):
                    log_norm = np.log(table.sum(axis=over)) + shift
            tables.append(_normalized(table))
        return Run(tables, log_norm, np.zeros(evidence.rows, dtype=bool))

    @property
    def scopes(self) -> Sequence[tuple[str, ...]]:
        """The names of each table."""
        return self.program.scopes

    @staticmethod
    def _with_rows(table: Values, scope: Sequence[str], count: int) -> Values:
        if table.ndim == len(scope):
            table = table[..., None]
        return table if table.shape[-1] == count else np.array(np.broadcast_to(table, (*table.shape[:-1], count)))


def _guarded(logs: Values) -> tuple[Values, Values, NDArray[np.bool_]]:
    """Exponentiate logarithms (rows last); tell the rows in which they span too much for that."""
    over = tuple(range(logs.ndim - 1))
    top = logs.max(axis=over, initial=-np.inf)
    top = np.where(np.isfinite(top), top, 0.0)
    low = np.where(np.isneginf(logs), np.inf, logs).min(axis=over, initial=np.inf)
    return np.exp(logs - top), top, low < top - LINEAR_SPAN


def _total(table: Values) -> Values:
    return np.asarray(np.add.reduce(table, axis=0 if table.ndim == 2 else tuple(range(table.ndim - 1))))


def _normalized(table: Values) -> Values:
    total = _total(table)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(table / total)
