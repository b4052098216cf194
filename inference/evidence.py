"""What users may say about variables, turned into arrays over rows.

Evidence is a mapping (one case) or a table (one case a row). The value of a variable may be a state or a number, an
`Interval`, a set of states, a likelihood (a mapping of states to numbers, or a function of a continuous variable),
or nothing (None, NaN): unknown.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hybridbn.errors import NetworkError, TableError
from hybridbn.network import Network
from hybridbn.potentials.base import frozen
from hybridbn.tables import Table
from hybridbn.tables.frames import Frame, open_frame
from hybridbn.variables import Continuous, Discrete, Values, Variable, is_missing, shorten

__all__ = ["Evidence", "EvidenceReader", "Finding", "Interval"]


@dataclass(frozen=True)
class Interval:
    """A range of a continuous variable as evidence; the ends may be infinite.

    Examples
    --------
    >>> Interval(1, 3)
    Interval(low=1.0, high=3.0)
    >>> Interval(2)
    Interval(low=2.0, high=inf)
    """

    low: float = -math.inf
    high: float = math.inf

    def __post_init__(self) -> None:
        try:
            low, high = float(self.low), float(self.high)
        except (TypeError, ValueError):
            raise TableError(f"the ends of an interval must be numbers, not {self.low!r} and {self.high!r}") from None
        if not low < high:
            raise TableError(f"an interval needs low < high, not {low} and {high}")
        object.__setattr__(self, "low", low)
        object.__setattr__(self, "high", high)


@dataclass(frozen=True)
class Finding:
    """What is known of one variable, over all rows.

    Attributes
    ----------
    variable : Variable
    values : ndarray (rows,)
        State codes, ``-1`` where not observed; or numbers, NaN where not observed.
    likelihood : ndarray (states, rows), optional
        Of a discrete variable; ones where nothing is said.
    low, high : ndarray (rows,), optional
        Range of a continuous variable, infinite where nothing is said.
    functions : sequence, optional
        Likelihood functions of a continuous variable, one a row; None where there is none.
    """

    variable: Variable
    values: NDArray[Any]
    likelihood: Values | None = None
    low: Values | None = None
    high: Values | None = None
    functions: tuple[Callable[[Values], Any] | None, ...] | None = None

    @cached_property
    def observed(self) -> NDArray[np.bool_]:
        """Where there is an observed value (rows,)."""
        return np.asarray(self.values >= 0 if isinstance(self.variable, Discrete) else ~np.isnan(self.values))

    @cached_property
    def hard(self) -> bool:
        """Whether every row has an observed value and there is nothing else."""
        return self.plain and bool(self.observed.all())

    @property
    def plain(self) -> bool:
        """Whether there is nothing but observed and missing values."""
        return self.likelihood is None and self.low is None and self.functions is None

    @cached_property
    def pattern(self) -> tuple[bool, bool, bool, bool]:
        """All that compiling a question needs to know of the finding."""
        return (self.hard, self.likelihood is not None, self.low is not None, self.functions is not None)

    @cached_property
    def empty(self) -> bool:
        """Whether no row says anything."""
        return self.plain and not self.observed.any()

    @property
    def soft_part(self) -> Finding:
        """The finding without observed values: likelihoods, ranges and functions."""
        nothing = -1 if isinstance(self.variable, Discrete) else np.nan
        return replace(self, values=np.full_like(self.values, nothing))

    def take(self, rows: Any) -> Finding:
        """Return the finding of some rows, given by a slice or an index array."""
        functions = self.functions
        if functions is not None:
            functions = tuple(functions[rows]) if isinstance(rows, slice) else tuple(functions[int(r)] for r in rows)
        return Finding(
            self.variable,
            self.values[rows],
            None if self.likelihood is None else self.likelihood[:, rows],
            None if self.low is None else self.low[rows],
            None if self.high is None else self.high[rows],
            functions,
        )


@dataclass(frozen=True)
class Evidence:
    """Findings by name, the number of rows, and whether the user gave a single case."""

    findings: Mapping[str, Finding]
    rows: int
    single: bool

    @property
    def names(self) -> list[str]:
        """The names that the evidence mentions."""
        return list(self.findings)

    def finding(self, name: str) -> Finding | None:
        """Return what is known of a variable, None if nothing is."""
        return self.findings.get(name)

    def evidence(self, names: Iterable[str] | None = None) -> Evidence:
        """Return the evidence on some variables, or on all."""
        if names is None:
            return self
        return Evidence({n: self.findings[n] for n in names if n in self.findings}, self.rows, self.single)

    def take(self, rows: Any, count: int) -> Evidence:
        """Return the evidence of some rows."""
        return Evidence({name: finding.take(rows) for name, finding in self.findings.items()}, count, self.single)


_ONE_CELL: dict[bool, dict[str, Any]] = {
    known: {
        **dict.fromkeys(("likelihood", "low", "high", "functions")),
        "observed": frozen(np.array([known])),
        "hard": known,
        "empty": not known,
        "pattern": (known, False, False, False),
    }
    for known in (True, False)
}


class EvidenceReader:
    """What the user gave, read column by column as it is asked for: columns that do not matter are never coded.

    Parameters
    ----------
    network : Network
    evidence : mapping, table or None
    targets : names that a mapping must not mention; as columns of a table they are ignored

    Attributes
    ----------
    single : bool
        Whether it is one case.
    rows : int
    """

    def __init__(self, network: Network, evidence: Any, targets: Sequence[str] = ()) -> None:
        self._read: dict[str, Finding | None] = {}
        self._table: Table | None = None
        self._frame = Frame("pandas", {}, 1)
        self.single = evidence is None or isinstance(evidence, Mapping)
        self.rows = 1
        self._case: Evidence | None = None
        if self.single:
            self._case = _single_case(network, evidence or {}, targets)
            self._read.update(self._case.findings)
        else:
            skipped = set(targets)
            variables = [network.variable(name) for name in network if name not in skipped]
            frame = open_frame(evidence)
            self._frame = frame.without_columns()
            self._table = Table(frame, variables=variables)
            self.rows = len(self._table)

    def answer(
        self, variables: Iterable[Variable], arrays: Mapping[str, NDArray[Any]], *, each: int | None = None
    ) -> Any:
        """Return codes and numbers of variables as the kind of frame that the evidence came in, a DataFrame for a mapping.

        Parameters
        ----------
        each : int, optional
            How many rows there are for each row of the evidence; without it one, and the index is that of the evidence.
        """
        frame = self._frame
        rows, index = (self.rows, frame.index) if each is None else (self.rows * each, None)
        return Table.from_arrays(variables, arrays, Frame(frame.kind, {}, rows, index)).to_native()

    @property
    def names(self) -> list[str]:
        """The names that the evidence mentions."""
        return list(self._read if self._table is None else self._table.names)

    def finding(self, name: str) -> Finding | None:
        """Return what is known of a variable, None if nothing is."""
        if name not in self._read and self._table is not None and name in self._table:
            found = _column(self._table.variable(name), self._table)
            self._read[name] = None if found.empty else found
        return self._read.get(name)

    def evidence(self, names: Iterable[str] | None = None) -> Evidence:
        """Return the evidence on some variables, or on all."""
        if self._case is not None:
            return self._case.evidence(names)
        wanted = self.names if names is None else names
        found = {name: finding for name in wanted if (finding := self.finding(name)) is not None}
        return Evidence(found, self.rows, self.single)


def _single_case(network: Network, evidence: Mapping[Any, Any], targets: Sequence[str]) -> Evidence:
    findings = {}
    for name, value in evidence.items():
        if name not in network:
            near = difflib.get_close_matches(str(name), [str(node) for node in network], n=3)
            hint = f"; did you mean {shorten(near)}?" if near else ""
            raise NetworkError(f"the evidence names {name!r}, which is no node of the network{hint}")
        if name in targets and not is_missing(value):
            raise TableError(f"{name!r} is asked for and can't be part of the evidence; leave it out of the mapping")
        if _is_column(value):
            raise TableError(
                f"{name!r}: a mapping is one case, but {len(value)} values are given; for many cases give a table: a DataFrame, or "
                "hb.Table(mapping)"
            )
        finding = _cells(network.variable(name), [value])
        if not finding.empty:
            findings[name] = finding
    return Evidence(findings, 1, single=True)


def _is_column(value: Any) -> bool:
    """Tell whether a value is a list, an array or a series: what has a length and can't be a state."""
    if isinstance(value, str | set | frozenset | Mapping) or not hasattr(value, "__len__") or np.ndim(value) == 0:
        return False
    try:
        hash(value)
    except TypeError:
        return True
    return False


def _column(variable: Variable, table: Table) -> Finding:
    try:
        return Finding(variable, table.column(variable.name))
    except TableError:
        cells = table.raw(variable.name).tolist()
        # numbers and states together are evidence on a discretized number
        mixed = isinstance(variable, Discrete) and variable.cuts is not None
        if mixed or any(isinstance(cell, Interval | set | frozenset | Mapping) or callable(cell) for cell in cells):
            return _cells(variable, cells)
        raise


def _cells(variable: Variable, cells: Sequence[Any]) -> Finding:
    """Read values given one by one, each of any kind."""
    if len(cells) == 1 and isinstance(cells[0], str | int | float):
        value = variable.code(cells[0]) if isinstance(variable, Discrete) else variable.value(cells[0])
        known = value >= 0 if isinstance(variable, Discrete) else value == value
        # what the constructor and the cached properties would find out, at ten times the cost
        finding = object.__new__(Finding)
        finding.__dict__.update(_ONE_CELL[known], variable=variable, values=np.array([value]))
        return finding
    many = len(cells) > 1
    if isinstance(variable, Continuous):
        return _continuous_cells(variable, cells, many)
    codes = np.full(len(cells), -1, dtype=np.intp)
    likelihood = np.ones((len(variable), len(cells)))
    soft = False
    for row, cell in enumerate(cells):
        if isinstance(cell, set | frozenset | Mapping):
            likelihood[:, row] = _soft(variable, cell, f"row {row}: " if many else "")
            soft = True
        elif isinstance(cell, Interval):
            raise TableError(f"{variable.name!r} is discrete; give a set of states instead of {cell!r}")
        else:
            codes[row] = variable.code(cell)
    return Finding(variable, codes, likelihood if soft else None)


def _soft(variable: Discrete, cell: Any, where: str) -> Values:
    weights = np.zeros(len(variable))
    items = cell.items() if isinstance(cell, Mapping) else [(state, 1.0) for state in cell]
    for state, weight in items:
        code = variable.code(state)
        if code < 0:
            raise TableError(f"{where}{variable.name!r}: {state!r} is not a state")
        try:
            weights[code] = float(weight)
        except (TypeError, ValueError):
            raise TableError(
                f"{where}{variable.name!r}: the likelihood {weight!r} of {state!r} is not a number"
            ) from None
    if not np.isfinite(weights).all() or (weights < 0).any() or not weights.any():
        raise TableError(
            f"{where}{variable.name!r}: a likelihood needs finite, non-negative numbers, one of them positive; "
            f"found {weights.tolist()}"
        )
    return weights


def _continuous_cells(variable: Continuous, cells: Sequence[Any], many: bool) -> Finding:
    values = np.full(len(cells), np.nan)
    low, high = np.full(len(cells), -np.inf), np.full(len(cells), np.inf)
    functions: list[Callable[[Values], Any] | None] = [None] * len(cells)
    ranged = False
    for row, cell in enumerate(cells):
        where = f"row {row}: " if many else ""
        if isinstance(cell, Interval):
            if cell.high < variable.domain[0] or cell.low > variable.domain[1]:
                raise TableError(f"{where}{variable.name!r}: {cell!r} lies outside the domain {variable.domain}")
            low[row], high[row], ranged = cell.low, cell.high, True
        elif callable(cell):
            functions[row] = cell
        elif isinstance(cell, tuple | set | frozenset | Mapping | list):
            raise TableError(
                f"{where}{variable.name!r} is continuous; give a number, an hb.Interval or a function, not {cell!r}"
            )
        elif not is_missing(cell):
            values[row] = variable.value(cell)
    return Finding(
        variable,
        values,
        low=low if ranged else None,
        high=high if ranged else None,
        functions=tuple(functions) if any(f is not None for f in functions) else None,
    )
