"""What users may say about variables, turned into arrays over rows.

Evidence is a mapping (one case) or a table (one case a row). The value of a variable may be a state or a number, an
`Interval`, a set of states, a likelihood (a mapping of states to numbers, or a function of a continuous variable),
or nothing (None, NaN): unknown. All that is no value is a `CellEvidence`: a new kind of evidence is one subclass of it,
whose objects may stand wherever a value may, in mappings and in columns of tables.

Equal rows of evidence are computed once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hybridbn.errors import HybridBNError, NetworkError, TableError
from hybridbn.network import Network
from hybridbn.network_description import find_factors
from hybridbn.potentials import PointMass
from hybridbn.potentials.base import freeze, take_logs
from hybridbn.unit_texts import PatternFinder
from hybridbn.units import count_one_day, is_time_like
from hybridbn.variables import (
    Continuous,
    Discrete,
    Values,
    Variable,
    code_state,
    encode_configurations,
    find_similar_names,
    is_missing,
    shorten,
)

if TYPE_CHECKING:
    from hybridbn.tables.columns import Column, Frame


class CellEvidence:
    """What one cell tells of its variable, other than a value.

    Attributes
    ----------
    only_reach : bool
        Whether `reach` says all there is to say of a continuous variable, so that `weights` need not be asked.
    """

    only_reach: ClassVar[bool] = False

    def check(self, variable: Variable) -> None:
        """Raise a `TableError` where this can't be said of the variable."""

    def weights(self, variable: Variable, points: NDArray[Any]) -> Values:
        """Return the likelihood (points,) of values of the variable: numbers, or codes of states."""
        return np.ones(len(points))

    def reach(self) -> tuple[float, float]:
        """Return an interval outside which the likelihood of a continuous variable is zero."""
        return -math.inf, math.inf

    def breaks(self) -> Sequence[float]:
        """Return the places where the likelihood of a continuous variable is not smooth."""
        return ()

    def key(self) -> Hashable:
        """Return what is equal where the evidence is the same; objects are the same as themselves alone by default."""
        return id(self)


@dataclass(frozen=True)
class Interval(CellEvidence):
    """A range of a continuous variable as evidence; the ends may be infinite, dates or times.

    Both ends belong to it. Of numbers on a grid, such as whole numbers, codes, cents and dates, it holds these with all
    that is rounded to them: 18 to 65 is what lies between 17.5 and 65.5, and an end of the grid holds what lies beyond.
    One in which no number of the grid lies is taken as it is.

    Examples
    --------
    >>> Interval(1, 3)
    Interval(low=1.0, high=3.0)
    >>> Interval(2)
    Interval(low=2.0, high=inf)
    """

    low: Any = -math.inf
    high: Any = math.inf

    only_reach: ClassVar[bool] = True

    def __post_init__(self) -> None:
        try:
            low, high = (_count_end(end) for end in (self.low, self.high))
        except (TypeError, ValueError, OverflowError):
            raise TableError(
                f"the ends of an interval must be numbers, dates or times, not {self.low!r} and {self.high!r}"
            ) from None
        if not low < high:
            raise TableError(f"an interval needs low < high, not {low} and {high}")
        object.__setattr__(self, "low", low)
        object.__setattr__(self, "high", high)

    def check(self, variable: Variable) -> None:
        """Raise a `TableError` where the variable is discrete, or the interval outside its domain."""
        if isinstance(variable, Discrete):
            raise TableError(f"{variable.name!r} is discrete; give a set of states instead of {self!r}")
        if self.high < variable.domain[0] or self.low > variable.domain[1]:
            raise TableError(f"{variable.name!r}: {self!r} lies outside the domain {variable.domain}")

    def weights(self, variable: Variable, points: NDArray[Any]) -> Values:
        """Return one inside and zero outside."""
        return np.asarray((points >= self.low) & (points <= self.high), dtype=np.float64)

    def reach(self) -> tuple[float, float]:
        """Return the interval itself."""
        return self.low, self.high

    def breaks(self) -> Sequence[float]:
        """Return the ends that are finite."""
        return [end for end in (self.low, self.high) if math.isfinite(end)]

    def key(self) -> Hashable:
        """Return the ends."""
        return self.low, self.high


def _count_end(end: Any) -> float:
    """Return an end of an interval as a number: dates and times, also those of text such as 2024-01-31, in days."""
    if is_time_like(end):
        return count_one_day(end)
    if isinstance(end, str):
        finder = PatternFinder()
        finder.add([end])
        if not finder.numbers or finder.ambiguous:
            raise ValueError(end)
        return finder.numbers[0]
    return float(end)


@dataclass(eq=False)
class StateWeights(CellEvidence):
    """Weights of a discrete variable's states: a likelihood, or a set of states with equal ones.

    Parameters
    ----------
    states : mapping from state to weight, or set of states
    """

    states: Mapping[Any, Any] | set[Any] | frozenset[Any]

    def check(self, variable: Variable) -> None:
        """Raise a `TableError` for other states, or weights that are no likelihood."""
        if isinstance(variable, Continuous):
            raise _unsuitable(variable, self.states)
        values = []
        for state, weight in self._items():
            code_state(variable, state)
            try:
                values.append(float(weight))
            except (TypeError, ValueError, OverflowError):
                raise TableError(f"{variable.name!r}: the likelihood {weight!r} of {state!r} is not a number") from None
        if not np.isfinite(values).all() or min(values, default=0.0) < 0 or not any(values):
            raise TableError(
                f"{variable.name!r}: a likelihood needs finite, non-negative numbers, one of them positive; "
                f"found {self.weights(variable, np.arange(len(variable))).tolist()}"
            )

    def weights(self, variable: Variable, points: NDArray[Any]) -> Values:
        """Return the weights of states, zero for those that are not named."""
        assert isinstance(variable, Discrete)
        weights = np.zeros(len(variable))
        for state, weight in self._items():
            weights[variable.code(state)] = float(weight)
        return np.asarray(weights[points])

    def _items(self) -> list[tuple[Any, Any]]:
        if isinstance(self.states, Mapping):
            return list(self.states.items())
        return [(state, 1.0) for state in self.states]


@dataclass(eq=False)
class LikelihoodFunction(CellEvidence):
    """A likelihood of a continuous variable that is known by its values alone.

    Parameters
    ----------
    function : from an array of points to their likelihoods
    """

    function: Callable[[Values], Any]

    def weights(self, variable: Variable, points: NDArray[Any]) -> Values:
        """Call the function."""
        try:
            return np.asarray(self.function(points), dtype=np.float64)
        except HybridBNError:
            raise
        except (TypeError, ValueError, ArithmeticError, LookupError) as error:
            raise TableError(
                f"the likelihood function of {variable.name!r} raised {type(error).__name__}: {error!s:.200}; it is"
                " called with an array of numbers and returns one of the same length"
            ) from error

    def key(self) -> Hashable:
        """Return the function's identity."""
        return id(self.function)


def as_evidence(cell: Any) -> CellEvidence | None:
    """Return what a cell holds as evidence, or None where it is a value.

    Examples
    --------
    >>> as_evidence(1.5), as_evidence({"a", "b"}).weights(Discrete("c", states=("a", "b", "d")), np.arange(3))
    (None, array([1., 1., 0.]))
    """
    if isinstance(cell, CellEvidence):
        return cell
    if isinstance(cell, set | frozenset | Mapping):
        return StateWeights(cell)
    return LikelihoodFunction(cell) if callable(cell) else None


def _unsuitable(variable: Continuous, cell: Any) -> TableError:
    return TableError(f"{variable.name!r} is continuous; give a number, an hb.Interval or a function, not {cell!r}")


@dataclass(frozen=True)
class Finding:
    """What is known of one variable, over all rows.

    Attributes
    ----------
    variable : Variable
    values : ndarray (rows,)
        State codes, ``-1`` where not observed; or numbers, NaN where not observed.
    likelihood : ndarray (states, rows), optional
        Of a discrete variable; ones where nothing is known. Ask `weights`.
    reach : pair of ndarray (rows,), optional
        The range to which evidence other than values confines a continuous variable, infinite where nothing is known.
    cells : ndarray (rows,) of CellEvidence or None, optional
        Likelihoods along a continuous variable. Ask `weights`.
    """

    variable: Variable
    values: NDArray[Any]
    likelihood: Values | None = None
    reach: tuple[Values, Values] | None = None
    cells: NDArray[Any] | None = None

    @cached_property
    def observed(self) -> NDArray[np.bool_]:
        """Where there is an observed value (rows,)."""
        return np.asarray(self.values >= 0 if isinstance(self.variable, Discrete) else ~np.isnan(self.values))

    @cached_property
    def hard(self) -> bool:
        """Whether every row has an observed value and there is nothing else."""
        if not self.plain:
            return False
        if isinstance(self.variable, Discrete):
            return bool(self.values.min(initial=0) >= 0)
        return not math.isnan(self.values.min(initial=math.inf))

    @property
    def plain(self) -> bool:
        """Whether there is nothing but observed and missing values."""
        return self.likelihood is None and self.reach is None and self.cells is None

    @property
    def weighted(self) -> bool:
        """Whether there are likelihoods along a continuous variable, which only nodes can resolve."""
        return self.cells is not None

    @cached_property
    def pattern(self) -> tuple[bool, bool, bool, bool]:
        """All that compiling a question needs to know of the finding."""
        return (self.hard, self.likelihood is not None, self.reach is not None, self.cells is not None)

    @cached_property
    def empty(self) -> bool:
        """Whether no row says anything."""
        return self.plain and not (len(self.values) and self.hard) and not self.observed.any()

    def take(self, rows: Any) -> Finding:
        """Return the finding of some rows, given by a slice or an index array."""
        return Finding(
            self.variable,
            self.values[rows],
            None if self.likelihood is None else self.likelihood[:, rows],
            None if self.reach is None else (self.reach[0][rows], self.reach[1][rows]),
            None if self.cells is None else self.cells[rows],
        )

    def repeat(self, count: int) -> Finding:
        """Return the finding of a single row in so many rows; values take no more memory then."""
        if self.plain:
            return Finding(self.variable, np.broadcast_to(self.values, count))
        return self.take(np.zeros(count, dtype=np.intp))

    @property
    def confined(self) -> NDArray[np.bool_]:
        """Where there is an observed value, or a range with an end (rows,)."""
        reach = self.reach
        return self.observed if reach is None else self.observed | np.isfinite(reach[0]) | np.isfinite(reach[1])

    @property
    def told(self) -> NDArray[np.bool_]:
        """Where there is an observed value; if there is other evidence, where there is that (rows,)."""
        weighted = np.isin(np.arange(len(self.values)), self.list_weighted_rows())
        return self.observed if self.plain else weighted | (self.confined & ~self.observed)

    def log_weight_of(self, values: NDArray[Any]) -> Values:
        """Return the log likelihood (rows,) of one value in each row, observed values left aside."""
        nothing = -1 if isinstance(self.variable, Discrete) else np.nan
        soft, rows = replace(self, values=np.full_like(self.values, nothing)), np.arange(len(values))
        if isinstance(self.variable, Discrete):
            return take_logs(soft.weights(np.arange(len(self.variable)))[values, rows])
        logs: Values = take_logs(soft.weights(values[None])[0])
        reach = self.reach
        return logs if reach is None else np.where((values >= reach[0]) & (values <= reach[1]), logs, -np.inf)

    def clip(self, points: Values) -> Values:
        """Return points (points, rows) moved into the range, and to the observed value where there is one."""
        inside = points if self.reach is None else np.clip(points, *self.reach)
        return np.where(self.observed, self.values, inside)

    def fill(self) -> NDArray[Any]:
        """Return the observed values, with any admissible value where there is none."""
        if self.observed.all():
            return self.values
        if isinstance(self.variable, Discrete):
            return np.where(self.observed, self.values, 0)
        some = self.values[self.observed][0] if self.observed.any() else 0.0
        return np.where(self.observed, self.values, some)

    def weights(self, points: NDArray[Any]) -> Values:
        """Return the likelihood (points, rows) of states or numbers (points,) or (points, rows).

        A continuous variable's observed value and range do not count here: they decide where its points are.
        """
        rows = len(self.values)
        if isinstance(self.variable, Discrete):
            weights = np.ones((len(points), rows)) if self.likelihood is None else self.likelihood[points]
            if self.observed.any():
                weights *= ~self.observed | (points[:, None] == self.values)
            return np.asarray(weights, dtype=np.float64)
        weights = np.ones((len(points), rows))
        for row in self.list_weighted_rows():
            assert self.cells is not None
            own = points if points.ndim == 1 else points[:, row]
            weights[:, row] = self._check_weights(own, self.cells[row].weights(self.variable, own))
        return weights

    def _check_weights(self, points: Values, weights: Any) -> Values:
        likelihood: Values = np.broadcast_to(weights, points.shape).astype(np.float64)
        if not np.isfinite(likelihood).all() or (likelihood < 0).any():
            raise TableError(
                f"the likelihood function of {self.variable.name!r} must give finite, non-negative numbers on "
                f"{points.min()} to {points.max()}"
            )
        return likelihood

    def list_weighted_rows(self) -> list[int]:
        """Return the rows with a likelihood along a continuous variable."""
        return [] if self.cells is None else [row for row, cell in enumerate(self.cells) if cell is not None]

    def breaks(self, row: int) -> Values:
        """Return the places where the likelihood of a row is not smooth."""
        cell = None if self.cells is None else self.cells[row]
        return np.array([] if cell is None else cell.breaks(), dtype=np.float64)

    def columns(self) -> list[NDArray[Any]]:
        """Return arrays (rows,) of numbers that are all equal where rows are told the same."""
        arrays = [self.values]
        if self.reach is not None:
            arrays += self.reach
        if self.likelihood is not None:
            arrays += list(self.likelihood)
        if self.cells is not None:
            numbers: dict[Hashable, int] = {None: 0}
            keys = [None if cell is None else (type(cell), cell.key()) for cell in self.cells]
            arrays.append(np.array([numbers.setdefault(key, len(numbers)) for key in keys]))
        return arrays


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

    def log_weights_of(self, values: Mapping[str, NDArray[Any]]) -> Values:
        """Return the log likelihood (rows,) of values of some variables, observed values left aside."""
        soft = {name: finding for name, finding in self.evidence(values).findings.items() if not finding.plain}
        return sum((finding.log_weight_of(values[name]) for name, finding in soft.items()), np.zeros(self.rows))

    def take(self, rows: Any, count: int) -> Evidence:
        """Return the evidence of some rows."""
        return Evidence({name: finding.take(rows) for name, finding in self.findings.items()}, count, self.single)

    def repeat(self, count: int) -> Evidence:
        """Return the evidence of a single row as a table of so many rows."""
        return Evidence({name: finding.repeat(count) for name, finding in self.findings.items()}, count, single=False)

    def observe_only(self, names: Iterable[str], known: Collection[str], rows: NDArray[np.intp]) -> Evidence:
        """Return the evidence of some rows, which know no more of other ones of the names than values."""
        hidden = set(names).difference(known)
        findings = {
            name: Finding(finding.variable, finding.values[rows]) if name in hidden else finding.take(rows)
            for name, finding in self.findings.items()
        }
        findings = {name: finding for name, finding in findings.items() if name not in hidden or not finding.empty}
        return Evidence(findings, len(rows), self.single)


_ONE_CELL: dict[bool, dict[str, Any]] = {
    known: {
        **dict.fromkeys(("likelihood", "reach", "cells")),
        "observed": freeze(np.array([known])),
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
    targets : names whose values are asked for: a mapping must not give them, and in a table they are ignored; other
        evidence on them counts in both

    Attributes
    ----------
    single : bool
        Whether it is one case.
    rows : int
    """

    def __init__(self, network: Network, evidence: Any, targets: Sequence[str] = ()) -> None:
        self._read: dict[str, Finding | None] = {}
        self._targets = frozenset(targets)
        self._columns: dict[str, Column] = {}
        self._frame: Frame | None = None
        self.single: bool = evidence is None or isinstance(evidence, Mapping)
        self.rows: int = 1
        self._case: Evidence | None = None
        if self.single:
            self._case = _read_case(network, evidence or {}, self._targets)
            self._read.update(self._case.findings)
        else:
            from hybridbn.tables.columns import open_frame, read_as_variable

            frame = open_frame(evidence)
            self._frame, self.rows = frame.without_columns(), frame.rows
            for name, node in network._node.items():
                if name in frame.columns:
                    variable = node["variable"] if "variable" in node else network.variable(name)  # tells what is wrong
                    self._columns[name] = read_as_variable(frame.columns[name], variable)
        self._fixed = find_point_masses(network)
        """The nodes that have one value, which counts as observed."""
        if self._fixed and self._case is not None:
            fixed = {name: self._fix(name, self._case.finding(name)) for name in self._fixed}
            self._case = Evidence({**self._case.findings, **fixed}, 1, single=True)
        if network.graph:
            self._require_factors(network)

    def _fix(self, name: str, finding: Finding | None) -> Finding:
        """Return the finding of a node with one value, with what else is known of it."""
        potential = self._fixed[name]
        value = np.full(self.rows, potential.value)
        if finding is None:
            return Finding(potential.child, value)
        # a value outside the range becomes another one, which is impossible
        inside = np.isfinite(replace(finding, cells=None).log_weight_of(value))
        values = np.where(finding.observed, finding.values, np.where(inside, value, np.nextafter(value, np.inf)))
        return Finding(potential.child, values, cells=finding.cells)

    def _require_factors(self, network: Network) -> None:
        """Raise `NetworkError` unless every factor of a Markov network is observed in every row."""
        for name, state in find_factors(network).items():
            finding, variable = self.finding(name), network.variable(name)
            assert isinstance(variable, Discrete)
            if finding is None or not finding.hard or (finding.values != variable.code(state)).any():
                raise NetworkError(
                    f"{name!r} is a factor of a Markov network, which is always observed as {state!r}; without it the"
                    " answer would be wrong. Add the findings of net.graph['evidence'] to the evidence (to every row of"
                    " a table), for example {**net.graph['evidence'], ...}"
                )

    def answer(
        self, variables: Iterable[Variable], arrays: Mapping[str, NDArray[Any]], *, each: int | None = None
    ) -> Any:
        """Return codes and numbers of variables as the kind of frame that the evidence came in, a DataFrame for a
        mapping.

        Parameters
        ----------
        each : int, optional
            How many rows there are for each row of the evidence; without it one, and the index is that of the evidence.
        """
        from hybridbn.tables import Table
        from hybridbn.tables.columns import Frame

        frame = self._frame or Frame("pandas", {}, 1)
        rows, index = (self.rows, frame.index) if each is None else (self.rows * each, None)
        return Table.from_arrays(variables, arrays, Frame(frame.kind, {}, rows, index)).to_native()

    @property
    def names(self) -> list[str]:
        """The names that the evidence mentions, without targets of which it has nothing but values."""
        if self.single:
            return list(self._read)
        return [name for name in self._columns if name not in self._targets or self._read_finding(name) is not None]

    def finding(self, name: str) -> Finding | None:
        """Return what is known of a variable, None if nothing is."""
        finding = self._read_finding(name)
        return self._fix(name, finding) if name in self._fixed else finding

    def _read_finding(self, name: str) -> Finding | None:
        """Return what the evidence says of a variable."""
        if name not in self._read and name in self._columns:
            read = _read_without_values if name in self._targets else _read_column
            finding = read(self._columns[name])
            self._read[name] = None if finding is None or finding.empty else finding
        return self._read.get(name)

    def evidence(self, names: Iterable[str] | None = None) -> Evidence:
        """Return the evidence on some variables, or on all."""
        if self._case is not None:
            return self._case.evidence(names)
        wanted = dict.fromkeys((*self.names, *self._fixed)) if names is None else names
        findings = {name: finding for name in wanted if (finding := self.finding(name)) is not None}
        return Evidence(findings, self.rows, self.single)


def _read_case(network: Network, evidence: Mapping[Any, Any], targets: Collection[str]) -> Evidence:
    findings = {}
    nodes = network._node
    for name, value in evidence.items():
        node = nodes.get(name)
        if node is None:
            near = find_similar_names(str(name), map(str, network))
            hint = f"; did you mean {shorten(near)}?" if near else ""
            raise NetworkError(f"the evidence names {name!r}, which is no node of the network{hint}")
        if name in targets and not is_missing(value) and as_evidence(value) is None:
            raise TableError(
                f"{name!r} is asked for, so its value {value!r} can't be part of the evidence; leave it out, or"
                " give what else is known of it: a likelihood, a set of states, an interval, a function"
            )
        if type(value) is not str and _is_column(value):
            raise TableError(
                f"{name!r}: a mapping is one case, but {len(value)} values are given; for many cases give a table: a"
                " DataFrame, or hb.Table(mapping)"
            )
        variable = node.get("variable")
        if variable is None or variable.name != name:
            variable = network.variable(name)  # tells what is wrong
        finding = _read_cells(variable, [value])
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


def _read_column(column: Column) -> Finding:
    variable = column.variable
    assert variable is not None
    try:
        return Finding(variable, column.cells.widen().array)
    except TableError:
        cells = column.raw().tolist()
        # numbers and states together are evidence on a discretized number
        mixed = isinstance(variable, Discrete) and variable.cuts is not None
        if mixed or _hold_evidence(cells):
            return _read_cells(variable, cells)
        raise


def _read_without_values(column: Column) -> Finding | None:
    """Read all of a column but its values."""
    variable = column.variable
    assert variable is not None
    if not column.holds_objects():
        return None
    cells = column.raw().tolist()
    if not _hold_evidence(cells):
        return None
    return _read_cells(variable, [None if as_evidence(cell) is None else cell for cell in cells])


def _hold_evidence(cells: Iterable[Any]) -> bool:
    """Tell whether any cell holds something else than a value, which its type alone decides."""
    return any(as_evidence(cell) is not None for cell in {type(cell): cell for cell in cells}.values())


def _read_cells(variable: Variable, cells: Sequence[Any]) -> Finding:
    """Read values given one by one, each of any kind."""
    if len(cells) == 1 and isinstance(cells[0], (str, int, float)):
        if isinstance(variable, Discrete):
            value: float = variable.code(cells[0])
            known = value >= 0
        else:
            value = variable.value(cells[0])
            known = value == value
        # what the constructor and the cached properties would find out, at ten times the cost
        finding = object.__new__(Finding)
        attributes = finding.__dict__
        attributes.update(_ONE_CELL[known])
        attributes["variable"], attributes["values"] = variable, np.array([value])
        return finding
    return (_read_states if isinstance(variable, Discrete) else _read_numbers)(variable, cells)  # type: ignore[arg-type]


def _check_cell(variable: Variable, cell: CellEvidence, row: int, many: bool) -> CellEvidence:
    try:
        cell.check(variable)
    except TableError as error:
        raise TableError(f"row {row}: {error}") if many else error from None
    return cell


def _read_states(variable: Discrete, cells: Sequence[Any]) -> Finding:
    codes = np.full(len(cells), -1, dtype=np.intp)
    likelihood = np.ones((len(variable), len(cells)))
    soft, every = False, np.arange(len(variable))
    for row, cell in enumerate(cells):
        evidence = None if callable(cell) else as_evidence(cell)
        if evidence is None:
            codes[row] = variable.code(cell)
        else:
            likelihood[:, row] = _check_cell(variable, evidence, row, len(cells) > 1).weights(variable, every)
            soft = True
    return Finding(variable, codes, likelihood if soft else None)


def _read_numbers(variable: Continuous, cells: Sequence[Any]) -> Finding:
    values = np.full(len(cells), np.nan)
    low, high = np.full(len(cells), -np.inf), np.full(len(cells), np.inf)
    likelihoods = np.full(len(cells), None)
    for row, cell in enumerate(cells):
        evidence = as_evidence(cell)
        if evidence is not None:
            ends = _check_cell(variable, evidence, row, len(cells) > 1).reach()
            low[row], high[row] = variable.widen(*ends) if evidence.only_reach else ends
            if not evidence.only_reach:
                likelihoods[row] = evidence
        elif isinstance(cell, tuple | list):
            raise TableError(
                f"{f'row {row}: ' if len(cells) > 1 else ''}{variable.name!r} is continuous; give a number, an "
                f"hb.Interval or a function, not {cell!r}"
            )
        elif not is_missing(cell):
            values[row] = variable.value(cell)
    reach = (low, high) if np.isfinite([low, high]).any() else None
    weighted = any(cell is not None for cell in likelihoods)
    return Finding(variable, values, reach=reach, cells=likelihoods if weighted else None)


_FEW_PAIRS = 10
FEWEST_ROWS = 64
"""Fewer rows are not worth looking at, where inference is cheap."""


class DistinctRows(NamedTuple):
    """The first row of each kind, and for each row its kind."""

    first: NDArray[np.intp]
    inverse: NDArray[np.intp]


def find_distinct_rows(evidence: Evidence, *, continuous: bool) -> DistinctRows | None:
    """Find equal rows; None where there are hardly any, or where looking for them would not pay.

    Parameters
    ----------
    continuous : whether rows with anything but states are worth comparing (where inference is expensive)
    """
    findings = list(evidence.findings.values())
    if evidence.rows < (2 if continuous else FEWEST_ROWS):
        return None
    if all(isinstance(finding.variable, Discrete) and finding.plain for finding in findings):
        states = [len(finding.variable) + 1 for finding in findings if isinstance(finding.variable, Discrete)]
        space = math.prod(states)
        if space >= 2**62:
            return None
        codes = encode_configurations([finding.values for finding in findings], states, evidence.rows)
        codes = codes - encode_configurations([np.full(1, -1)] * len(states), states, 1)  # missing cells are -1
        return _number_by_lookup(codes, space) if space <= 2 * evidence.rows else _number_by_sorting(codes)
    if not continuous:
        return None
    columns = [column for finding in findings for column in _column_bits(finding)]
    keys = np.zeros(evidence.rows, dtype=np.uint64)
    for bits in columns:
        keys = (keys ^ (bits ^ (bits >> np.uint64(31)))) * np.uint64(0x9E3779B97F4A7C15)
        keys ^= keys >> np.uint64(29)
    distinct = _number_by_sorting(keys)
    if distinct is not None and any((bits != bits[distinct.first][distinct.inverse]).any() for bits in columns):
        return None
    return distinct


def find_point_masses(network: Network) -> dict[str, PointMass]:
    """Return the nodes that an intervention has set to one value."""
    return {
        name: potential
        for name, node in network._node.items()
        if type(potential := node.get("potential")) is PointMass  # isinstance asks abstract classes, slowly
    }


def _column_bits(finding: Finding) -> Iterator[NDArray[np.uint64]]:
    """Yield the bits of all that a finding says of each row."""
    for array in finding.columns():
        # adding zero turns -0.0 into 0.0; NaN has one bit pattern here
        bits = np.ascontiguousarray(array + 0.0).view(np.uint64)
        yield np.where(np.isnan(array), np.uint64(0x7FF8000000000001), bits)


def _number_by_lookup(keys: NDArray[np.intp], space: int) -> DistinctRows:
    """Number the kinds through a table of all possible keys."""
    first = np.full(space, -1, dtype=np.intp)
    first[keys[::-1]] = np.arange(len(keys) - 1, -1, -1)
    present = np.flatnonzero(first >= 0)
    number = np.empty(space, dtype=np.intp)
    number[present] = np.arange(len(present))
    return DistinctRows(first[present], number[keys])


def _number_by_sorting(keys: NDArray[np.uint64] | NDArray[np.intp]) -> DistinctRows | None:
    size = 20 * math.isqrt(len(keys))
    if size < len(keys) // 4:
        # of rows a tenth of which are repetitions, such a sample holds some forty pairs
        some = keys[np.unique(np.random.default_rng(0).integers(len(keys), size=size))]
        if len(some) - len(np.unique(some)) < _FEW_PAIRS:
            return None
    _, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
    return DistinctRows(first, inverse.ravel()) if len(first) <= 0.9 * len(keys) else None
