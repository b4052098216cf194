"""The model of an imputation: how each column is treated, and the network that completes rows, known or new ones.

A column is modeled, constant, left alone or drawn by itself, with its bounds and its decimals. What a model knows
besides its network is metadata in the network's ``graph["imputation"]``. So a model is saved and loaded like any
network.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Collection, Container, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from hybridbn.errors import FormatError, HybridBNError, NetworkError, TableError, remark, warn_user
from hybridbn.estimation.completion import (
    Bounds,
    Cells,
    Completion,
    Keys,
    collect_observed_numbers,
    draw_uniforms,
    levels_of,
)
from hybridbn.learning.imputation.predictive_mean_matching import (
    MatchedCompletion,
    PredictiveMeanMatching,
    add_matching,
)
from hybridbn.learning.imputation.rules import Rules, times_of
from hybridbn.network import Network
from hybridbn.options import Options
from hybridbn.tables import Table
from hybridbn.tables.cells import integer_limits, state_kind
from hybridbn.tables.columns import Column, Frame, read_as_variable, read_column
from hybridbn.tables.scales import (
    LEAST_ROWS,
    decimals_of,
    describe_left_alone,
    describe_marks,
    usual_decimals,
)
from hybridbn.unit_texts import read_unit
from hybridbn.variables import Continuous, Discrete, Grid, Values, Variable, as_objects, shorten

Fills: TypeAlias = dict[str, NDArray[Any]]
"""The values that fill the holes of each column."""

_METADATA = "imputation"
"""The key of the metadata in the attributes of the network's graph."""
_VERSION = 7
"""The version of the metadata's format."""
_READ_VERSIONS = (3, 4, 5, 6, _VERSION)
"""Files of other versions are refused."""
_MOST_TOLD = 8
"""The most columns with numbers outside of the observed range that are named."""
_USUAL, _USUAL_SHARE = 3, 0.05
"""So many imputed numbers of a column, and such a share of them, may well lie outside of the observed range."""
_LARGEST_NUMBER = 1e150
"""The squares of larger numbers are close to the end of the range of floats."""


# -- the columns -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ModelColumns:
    """The columns that imputation completes, and what it does with each.

    Attributes
    ----------
    variables : mapping from column to Variable
        The columns that are completed; discrete ones have the states that occur, and no others.
    modeled : tuple of str
        The columns of the network, which depend on each other.
    constants : mapping from column to value
        Columns in which all observed cells are equal.
    alone : tuple of str
        Identifiers that are completed on request, from their own values.
    steps : mapping from column to float
        1 for whole numbers, or the last decimal that nearly all of a column's observed numbers have at most, and
        imputed ones get.
    bounds : mapping from column to (low, high)
    ranges : mapping from column to (low, high)
        The range of a column's integer type; imputed numbers are clipped to it.
    rules : Rules
        What imputed numbers keep. The bounds of clock times are in minutes.
    """

    variables: Mapping[str, Variable]
    modeled: tuple[str, ...]
    constants: Mapping[str, Any]
    alone: tuple[str, ...]
    steps: Mapping[str, float]
    bounds: Bounds
    ranges: Bounds
    rules: Rules = field(default_factory=Rules)

    def grid(self, name: str) -> Grid:
        """Return which numbers a column gets."""
        step = self.rules.steps.get(name, self.steps.get(name, 0.0))
        return Grid(step, *self.bounds.get(name, self.rules.supports.get(name, (-math.inf, math.inf))))

    def with_rules(self, rules: Rules) -> ModelColumns:
        """Return the columns with rules, which bounds of the user restrict."""
        bounds = rules.encode_bounds(self.bounds)
        return replace(self, bounds=bounds, rules=rules.within(bounds))

    def widen(self, bounds: Bounds) -> dict[str, tuple[float, float]]:
        """Return the bounds of unrounded draws: half a unit wider at both ends where the numbers are rounded later."""
        grids = {name: Grid(self.steps.get(name, 0.0), *ends) for name, ends in bounds.items()}
        return {name: (grid.ends[0] - grid.step / 2, grid.ends[1] + grid.step / 2) for name, grid in grids.items()}


def classify_columns(
    table: Table,
    include: str | Iterable[str] = (),
    integers: str | Iterable[str] | None = None,
    bounds: Any = None,
    ranges: Bounds | None = None,
    full_precision: bool = False,
    unusable: Mapping[str, str] | None = None,
) -> ModelColumns:
    """Decide how each column is treated, and name all that are left alone in one warning.

    `unusable` are columns that are not in this table, and why.

    Examples
    --------
    >>> columns = classify_columns(Table({"x": [1.0, None, 2.0], "c": ["a", "a", "a"], "y": [0.5, 1.0, 1.5]}))
    >>> columns.modeled, dict(columns.constants), columns.steps
    (('x', 'y'), {'c': 'a'}, {'x': 1.0})
    """
    table.require_rows(1).require_values()
    included = check_names("include", include, table.names)
    limits = check_bounds(bounds, table)
    modeled: list[str] = []
    alone: list[str] = []
    left_alone = dict(unusable or {})
    constants: dict[str, Any] = {}
    variables: dict[str, Variable] = {}
    for name in table.names:
        variable, column = table.variable(name), table.column(name)
        observed = column[~table.cells(name).missing]
        reason = table.reason_alone(name)
        if isinstance(variable, Discrete) and variable.cuts is None:
            # holes never get a state that was not observed
            variable = Discrete(name, states=tuple(variable.states[code] for code in np.unique(observed)))
            if reason is not None and name in included:
                alone.append(name)
                variables[name] = variable
                continue
        elif isinstance(variable, Continuous) and variable.time_unit is not None and not full_precision:
            variable = table.scaled(name)
        if reason is not None and name not in included:
            left_alone[name] = reason
            continue
        variables[name] = variable
        _refuse_extreme_numbers(name, observed)
        if (observed == observed[0]).all():
            constants[name] = variable.states[0] if isinstance(variable, Discrete) else float(observed[0])
        else:
            modeled.append(name)
    _warn_of_constants(table, constants)
    marks = {name: own for name in variables if (own := table.marks(name))}
    remark(marks=describe_marks(marks) if marks else "")
    if left_alone:
        holes = sum(
            int(table.cells(name).missing.sum()) if name in table else len(table) * (reason == "no value")
            for name, reason in left_alone.items()
        )
        remark(
            left_alone=f"{describe_left_alone(left_alone, holes)}; name them in skip to say so, or identifiers and"
            " texts in include to complete them from their own values"
        )
    steps = refuse_empty_bounds(limits, _find_steps(table, variables, integers, full_precision))
    return ModelColumns(variables, tuple(modeled), constants, tuple(alone), steps, limits, ranges or {})


def _refuse_extreme_numbers(name: str, observed: Values) -> None:
    with np.errstate(over="ignore"):
        size, spread = float(np.abs(observed).max()), float(np.ptp(observed))
    if observed.dtype.kind == "f" and spread > 0 and not (size < _LARGEST_NUMBER and spread > 1 / _LARGEST_NUMBER):
        what = (
            f"numbers as large as {size:g}" if size >= _LARGEST_NUMBER else f"numbers that differ by {spread:g} at most"
        )
        raise TableError(f"column {name!r} holds {what}, whose squares are no floating-point numbers; use another unit")


def _warn_of_constants(table: Table, constants: Mapping[str, Any]) -> None:
    holes = [name for name in constants if table.cells(name).missing.any()]
    if holes:
        remark(
            constants=f"columns {shorten(holes)} have the same value in every observed cell, and get it in the others,"
            " too; name them in skip to leave them as they are"
        )


def refuse_empty_bounds(bounds: Bounds, steps: Mapping[str, float]) -> dict[str, float]:
    """Return the steps of the columns that can be rounded within their bounds.

    Bounds without a whole number in between are refused for columns of whole numbers; other columns stay unrounded.
    """
    ends = {name: Grid(steps[name], *limits).ends for name, limits in bounds.items() if name in steps}
    empty = [name for name, (first, last) in ends.items() if first > last]
    for name in empty:
        if steps[name] == 1:
            low, high = bounds[name]
            raise TableError(
                f"bounds of {name!r}: there is no whole number between {low} and {high}, and the column holds whole "
                "numbers; "
                "widen them, or say integers=()"
            )
    return {name: step for name, step in steps.items() if name not in empty}


def check_bounds(bounds: Any, table: Table | None = None) -> dict[str, tuple[float, float]]:
    """Return bounds as pairs of floats; "observed" becomes the range of the observed values."""
    if bounds is None:
        return {}
    if isinstance(bounds, str) and bounds == "observed" and table is not None:
        bounds = {name: "observed" for name in table.names if not table.is_discrete(name)}
    if not isinstance(bounds, Mapping):
        raise TableError(f"bounds must be a mapping such as {{'age': (0, 120)}} or 'observed', not {bounds!r:.60}")
    checked = {}
    for name, ends in bounds.items():
        if table is not None and (name not in table or table.is_discrete(name)):
            reason = "is discrete" if name in table else "is no column"
            raise TableError(f"bounds: {name!r} {reason}; bounds are for columns of numbers")
        if isinstance(ends, str) and ends == "observed" and table is not None:
            ends = table.value_range(name)
            if not ends[0] < ends[1]:
                continue
        unit = getattr(table.variable(name), "unit", None) if table is not None else None
        as_number = float if unit is None else unit.number
        try:
            low, high = (
                -math.inf if end is None and i == 0 else math.inf if end is None else as_number(end)
                for i, end in enumerate(ends)
            )
        except (TypeError, ValueError, OverflowError):
            raise TableError(
                f"bounds of {name!r} must be a pair (low, high) of numbers or None, not {ends!r}"
            ) from None
        if not low < high:
            raise TableError(f"bounds of {name!r} need low < high, not ({low}, {high})")
        checked[name] = (low, high)
    return checked


def _find_steps(
    table: Table, variables: Mapping[str, Variable], integers: str | Iterable[str] | None, full_precision: bool
) -> dict[str, float]:
    units = {
        name: variable.time_unit
        for name, variable in variables.items()
        if isinstance(variable, Continuous) and variable.time_unit is not None
    }
    numbers = collect_observed_numbers(table)
    named = frozenset() if integers is None else check_names("integers", integers, table.names)
    for name in named:
        if table.is_discrete(name):
            raise TableError(f"integers={name!r}: the column is discrete, so its values are never rounded")
        if name in units or decimals_of(numbers[name]) != 0:
            raise TableError(f"integers={name!r}: the column holds numbers that are not whole")
    steps = {name: 1.0 for name, unit in units.items() if unit.whole}
    for name, observed in numbers.items():
        if name in units or name not in variables:
            continue
        few = len(observed) < LEAST_ROWS or full_precision
        decimals = decimals_of(observed) if few else usual_decimals(observed)
        # an integer type can't hold other numbers
        is_whole = decimals == 0 and (integers is None or name in named or has_integer_type(table, name))
        if decimals is not None and (is_whole or (decimals and not few)):
            steps[name] = 10.0**-decimals
    return steps


def has_integer_type(table: Table, name: str) -> bool:
    """Return whether a column of numbers has an integer type, which holds whole numbers only.

    Examples
    --------
    >>> table = Table({"x": [1, None], "y": [1.0, None]})
    >>> has_integer_type(table, "x"), has_integer_type(table, "y")
    (True, False)
    """
    first = next((value for value in table.raw(name) if value is not None), None)
    return isinstance(first, int) and not isinstance(first, bool)


def check_names(option: str, names: str | Iterable[str], columns: Collection[str]) -> frozenset[str]:
    """Return the names that an option gives; refuse those that are no columns.

    Examples
    --------
    >>> sorted(check_names("skip", ["x", "y"], ["x", "y", "z"])), sorted(check_names("keys", "x", ["x"]))
    (['x', 'y'], ['x'])
    """
    result = frozenset([names] if isinstance(names, str) else names)
    for name in result:
        if name not in columns:
            raise TableError(f"{option}={name!r}: there is no such column; the columns are {shorten(columns)}")
    return result


def leave_out(frame: Frame, skip: str | Iterable[str] = ()) -> Frame:
    """Return a frame without the skipped columns, which may hold anything."""
    skipped = check_names("skip", frame.find_names(skip), frame.columns)
    return frame.select(name for name in frame.columns if name not in skipped)


def integer_ranges(frame: Frame) -> dict[str, tuple[float, float]]:
    """Return the range of the type of each column that has an integer type."""
    ranges = {}
    for name, column in frame.columns.items():
        values = column.source.values if isinstance(column, Column) and column.source else column
        dtype = str(getattr(values, "dtype", getattr(values, "type", "")))
        match = re.fullmatch(r"(u?)int(8|16|32|64|128)(\[pyarrow\])?", dtype.lower())
        if match:
            ranges[name] = integer_limits(int(match[2]), signed=not match[1])
    return ranges


def read_by_own_types(frame: Frame, known: Mapping[str, Variable]) -> Table:
    """Return the model's columns, read by their own types; a column without any value is of the model's type.

    Numbers in a column that is discrete in the model are read as states.
    """
    columns = [_read_column(frame.columns[name], variable) for name, variable in known.items() if name in frame.columns]
    return Table.from_columns(columns, frame)


def _read_column(values: Any, variable: Variable) -> Column:
    column = read_column(variable.name, values, unit=getattr(variable, "unit", None))
    if column.cells.missing.all():
        return read_as_variable(values, variable)
    wants_states = isinstance(variable, Discrete) and variable.cuts is None
    return read_column(variable.name, column, "discrete") if wants_states else column


# -- rows and the network --------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class IncompleteRows:
    """Rows to complete, as they were given and as the model reads them.

    Attributes
    ----------
    frame : Frame
    readings : Table
        The model's columns, read by their own types.
    working : Table
        The columns of the network, coded by its variables.
    holes : mapping from column to ndarray of bool
        The missing cells of each column that the model completes and that has any.
    """

    frame: Frame
    readings: Table
    working: Table
    holes: Mapping[str, NDArray[np.bool_]]


@dataclass(frozen=True, eq=False)
class Model:
    """The columns, and the network that fills the cells of those that depend on each other.

    Attributes
    ----------
    columns : ModelColumns
    completion : Completion or None
        None where all columns are constants or identifiers.
    """

    columns: ModelColumns
    completion: Completion | None

    @classmethod
    def from_metadata(
        cls, network: Network, options: Options, ranges: Bounds | None = None, whole: Iterable[str] = ()
    ) -> Self:
        """Return the model whose network with metadata is given.

        Parameters
        ----------
        ranges : mapping from column to (low, high)
            The ranges of the table's integer types.
        whole : iterable of str
            Columns that hold whole numbers in the table, whatever they held where the network was learned.
        """
        with _open_metadata(network) as metadata:
            columns = _columns_from(metadata, network)
            numbers = [name for name in whole if isinstance(columns.variables.get(name), Continuous)]
            steps = {**columns.steps, **dict.fromkeys(numbers, 1.0)}
            columns = replace(columns, ranges=ranges or {}, steps=steps)
            if not len(network):
                return cls(columns, None)
            rules = replace(columns.rules, supports=columns.widen(columns.rules.supports))
            bounds, matching = columns.widen(columns.bounds), metadata["matching"]
            completion = Completion(network, options, dict(metadata["donors"]), bounds, rules.supports, rules.orders)
            matcher = PredictiveMeanMatching.from_dict(matching) if matching else None
            return cls(columns, add_matching(completion, matcher, rules))

    @cached_property
    def network(self) -> Network:
        """The network with metadata, so that it can be saved and used again; without nodes where there is none."""
        columns, completion = self.columns, self.completion
        network = Network() if completion is None else completion.network
        described = Network(network, **network.graph)
        units = [
            [name, v.unit.to_dict()]
            for name, v in columns.variables.items()
            if isinstance(v, Continuous) and v.unit is not None
        ]
        described.graph[_METADATA] = {
            "version": _VERSION,
            "columns": [
                [name, list(v.states) if isinstance(v, Discrete) and v.cuts is None else None]
                for name, v in columns.variables.items()
            ],
            "modeled": list(columns.modeled),
            "constants": [[name, value] for name, value in columns.constants.items()],
            "alone": list(columns.alone),
            **({"units": units} if units else {}),
            "decimals": [[name, round(-math.log10(step))] for name, step in columns.steps.items()],
            "bounds": [
                [name, *(float(e) if np.isfinite(e) else None for e in ends)] for name, ends in columns.bounds.items()
            ],
            "donors": {
                name: np.asarray(values)
                for name, values in (() if completion is None else completion.observed.items())
                if name in network and isinstance(network.variable(name), Discrete)
            },
            "matching": completion.matching.to_dict() if isinstance(completion, MatchedCompletion) else {},
            "rules": columns.rules.to_dict(),
        }
        return described

    def fill(self, rows: IncompleteRows, strategy: str, keys: Keys, seed: int) -> Fills:
        """Return the values that fill the holes of each column, in their order: numbers, or states of the model."""
        cells = self._settle(rows, self._fill_modeled(rows, strategy, keys, seed))
        fills = {}
        for name, holes in rows.holes.items():
            variable = self.columns.variables[name]
            states = getattr(variable, "states", ())
            if name in self.columns.constants:
                # the only state has the code 0
                numeric = isinstance(variable, Continuous)
                values: NDArray[Any] = np.full(holes.sum(), self.columns.constants[name] if numeric else 0)
            elif name in self.columns.alone:
                values = np.floor(draw_uniforms(keys[holes], [name], seed)[0] * len(states)).astype(np.intp)
            else:
                values = cells[name][holes]
            if (values < 0).any() if isinstance(variable, Discrete) else np.isnan(values).any():
                raise HybridBNError(f"column {name!r} still has missing cells after imputation; please report this")
            if isinstance(variable, Discrete):
                fills[name] = as_objects(states)[values]
            else:
                numbers = np.asarray(values, dtype=np.float64)
                numbers = times_of(numbers) if name in self.columns.rules.clocks else numbers
                fills[name] = np.clip(numbers, *self.columns.ranges.get(name, (-math.inf, math.inf)))
        return fills

    def _settle(self, rows: IncompleteRows, cells: Cells) -> Cells:
        """Return the columns with rounded numbers that keep the rules."""
        variables = self.columns.variables
        numbers = {name: values for name, values in cells.items() if isinstance(variables[name], Continuous)}
        # cells that the observed ones determine are right already
        holes = {name: np.isnan(rows.working.column(name)) for name in numbers if name in rows.holes}
        settled = self.columns.rules.settle(numbers, holes, self._round)
        # bounds of the user come before orders and sums
        bounded = {
            name: np.where(holes[name], np.clip(settled[name], *self.columns.grid(name).ends), settled[name])
            for name in self.columns.bounds.keys() & holes.keys()
        }
        return {**cells, **settled, **bounded}

    def complete(self, rows: IncompleteRows, fills: Fills, added: Mapping[str, NDArray[np.bool_]]) -> Any:
        """Return the frame with its holes filled and columns of truth values added."""
        for name in fills:
            variable = self.columns.variables[name]
            if isinstance(variable, Discrete) and not rows.readings.is_discrete(name):
                raise TableError(
                    f"column {name!r} holds numbers, but the model takes it for states: {shorten(variable.states)}"
                )
        filled = rows.readings.select(fills).fill({name: (rows.holes[name], values) for name, values in fills.items()})
        return rows.frame.replace(filled, added)

    def _fill_modeled(self, rows: IncompleteRows, strategy: str, keys: Keys, seed: int) -> Cells:
        """Return the completed columns of the network."""
        completion = self.completion
        if completion is None or not any(name in completion.network for name in rows.holes):
            return {}
        if strategy == "most_probable":
            return completion.find_most_probable(rows.working)
        levels = levels_of(keys, list(completion.network), seed)
        return completion.draw(rows.working, levels) if strategy == "draw" else completion.expect(rows.working, levels)

    def _round(self, name: str, values: Values) -> Values:
        grid, unit = self.columns.grid(name), getattr(self.columns.variables[name], "unit", None)
        rounded = grid.round(values)
        return rounded if unit is None else np.clip(unit.round(rounded), *grid.ends)


def count_outside(parts: Iterable[Mapping[str, Any]], ranges: Bounds, *, usual: bool = True) -> Counter[str]:
    """Return how many imputed numbers of each column lie outside of its observed range; not `usual`, only of columns
    of which more do than chance makes.

    Examples
    --------
    >>> count_outside([{"x": np.array([1.0, 9.0])}, {"x": np.array([7.0])}], {"x": (0.0, 5.0)})
    Counter({'x': 2})
    """
    counts = Counter[str]()
    for fills in parts:
        for name in [name for name in fills.keys() & ranges.keys() if ranges[name][0] <= ranges[name][1]]:
            values, (low, high) = np.asarray(fills[name], dtype=np.float64), ranges[name]
            outside = int(((values < low) | (values > high)).sum()) if low <= high else 0
            counts[name] += outside * (usual or outside > _USUAL + _USUAL_SHARE * len(values))
    return +counts


def remark_on_outside(counts: Mapping[str, int], ranges: Bounds, variables: Mapping[str, Variable]) -> None:
    """Remark on imputed numbers that lie outside of what was observed."""
    columns = []
    for name, count in counts.items():
        unit = getattr(variables[name], "unit", None)
        low, high = (f"{end:g}" if unit is None else unit.text(end) for end in ranges[name])
        columns.append(f"{name} ({count:,} outside of {low} to {high})")
    if columns:
        listed = f"{', '.join(columns[:_MOST_TOLD])}{', ...' if len(columns) > _MOST_TOLD else ''}"
        remark(
            outside=f"{sum(counts.values()):,} imputed numbers lie outside of the observed range: {listed};"
            " bounds='observed' keeps them within"
        )


def read_rows(frame: Frame, model: Model, unknown: str = "error", declared: Table | None = None) -> IncompleteRows:
    """Read rows for a model; refuse rows that don't fit it.

    Parameters
    ----------
    unknown : {"error", "missing"}
        Refuse states that the model doesn't know; or leave them as they are, and ignore them as evidence.
    declared : Table, optional
        The columns with declared types; otherwise each is read by its own type.
    """
    known = model.columns.variables
    absent = [name for name in known if name not in frame.columns]
    if absent:
        raise TableError(
            f"the model has the columns {shorten(absent)}, but the table hasn't; its columns are "
            f"{shorten(frame.columns)}"
        )
    readings = read_by_own_types(frame, known) if declared is None else declared.select(known)
    unseen: dict[str, int] = {}
    modeled = [variable for name, variable in known.items() if name in model.columns.modeled]
    working = (
        Table(frame, variables=modeled, unknown="missing") if declared is None else Table(declared, variables=modeled)
    )
    holes = {}
    for name in readings.names:
        mask = readings.cells(name).missing
        if mask.any():
            holes[name] = mask
        if name not in working:
            continue
        unreadable = working.cells(name).missing & ~mask
        if unreadable.any():
            if unknown == "error" or not _has_same_kinds(readings.variable(name), known[name]):
                readings.coded(known[name])  # raises an error that names column, row, value and states
            unseen[name] = int(unreadable.sum())
    if unseen:
        warn_user(
            f"columns {shorten(unseen)} hold {sum(unseen.values())} values that the model has never seen; they stay "
            "as they "
            "are, and count as unknown for the other cells of their rows",
        )
    _warn_of_blanks(holes, frame.rows, len(readings.names))
    return IncompleteRows(frame, readings, model.columns.rules.encode(working), holes)


def _warn_of_blanks(holes: Mapping[str, NDArray[np.bool_]], rows: int, columns: int) -> None:
    """Warn of rows without any observed cell, except in tables of one column, where each hole is one."""
    if 1 < len(holes) == columns:
        blank = np.flatnonzero(np.all([*holes.values()], axis=0))
        if len(blank):
            warn_user(
                f"{len(blank)} of {rows} rows have no observed cell (the first is row {blank[0]}); what they get is "
                "drawn from "
                "the distribution of all rows",
            )


def _has_same_kinds(variable: Variable, known: Variable) -> bool:
    """Return whether the types of a column's states occur among those of the known states."""
    if not isinstance(variable, Discrete) or not isinstance(known, Discrete):
        return False
    return {state_kind(state) for state in variable.states} <= {state_kind(state) for state in known.states}


def build_model(
    network: Network, frame: Frame, bounds: Any, integers: str | Iterable[str] | None, options: Options
) -> Model:
    """Return the model of a network without metadata; refuse networks that don't fit the table."""
    if not isinstance(network, Network):
        raise NetworkError(f"network must be a Network, such as hb.load(...) returns, not {network!r:.80}")
    network.check()
    shared = [name for name in frame.columns if name in network]
    if not shared:
        raise NetworkError(
            f"the network and the table have no name in common: {shorten(network)} against {shorten(frame.columns)}"
        )
    readings = read_by_own_types(frame, {name: network.variable(name) for name in shared})
    variables: dict[str, Variable] = {}
    whole = {integers} if isinstance(integers, str) else set(integers or ())
    donors = {}
    for name in shared:
        variable = network.variable(name)
        numeric = not readings.is_discrete(name)
        if isinstance(variable, Discrete) and variable.cuts is not None and numeric:
            variable = Continuous(name)
            donors[name] = np.sort(readings.column(name)[~readings.cells(name).missing])
        if isinstance(variable, Continuous) and numeric and has_integer_type(readings, name):
            whole.add(name)
        variables[name] = variable
    limits: Bounds = check_bounds(bounds)
    for name in {*whole, *limits}:
        if not isinstance(variables.get(name), Continuous):
            raise TableError(f"{name!r} is named in bounds or integers, but is no column of numbers of the network")
    steps = refuse_empty_bounds(limits, dict.fromkeys(sorted(whole), 1.0))
    columns = ModelColumns(variables, tuple(shared), {}, (), steps, limits, integer_ranges(frame))
    return Model(columns, Completion(network, options, donors, columns.widen(columns.bounds)))


def check_unmodeled_columns(frame: Frame, known: Container[str]) -> None:
    """Refuse columns with holes that the network lacks; ignore identifiers, dates and the like with a warning."""
    unmodeled: list[str] = []
    ignored: list[str] = []
    for name in frame.columns:
        if name in known:
            continue
        ignored.append(name)
        with suppress(TableError):
            table = Table(frame.select([name]))
            if not table.cells(name).missing.any():
                ignored.pop()
            elif table.reason_alone(name) is None:
                unmodeled.append(ignored.pop())
    if unmodeled:
        raise NetworkError(
            f"columns {shorten(unmodeled)} have missing cells, but the network has no such nodes; name them in skip "
            "to leave "
            "them as they are, or use a network that has them"
        )
    if ignored:
        warn_user(
            f"columns {shorten(ignored)} are left alone, with whatever is missing there: the network doesn't have "
            "them, and they "
            "look like identifiers or are of no type that can be imputed; name them in skip to say so",
        )


def has_metadata(network: Network) -> bool:
    """Return whether a network was learned by imputation."""
    return _METADATA in network.graph


def read_columns(network: Network) -> ModelColumns:
    """Return the columns that a network's metadata describe."""
    with _open_metadata(network) as metadata:
        return _columns_from(metadata, network)


@contextmanager
def _open_metadata(network: Network) -> Iterator[Mapping[str, Any]]:
    """Give what a network notes on imputation; errors while it is read say that it is damaged."""
    metadata = network.graph[_METADATA]
    try:
        if metadata["version"] not in _READ_VERSIONS:
            raise FormatError("the model's note on imputation is of another version of hybridbn; learn the model again")
        yield metadata
    except (FormatError, NetworkError, TableError):
        raise
    except (KeyError, TypeError, ValueError) as error:
        raise FormatError(f"the model's note on imputation is damaged: {error!r}") from None


def _columns_from(metadata: Mapping[str, Any], network: Network) -> ModelColumns:
    units = {name: read_unit(unit) for name, unit in metadata.get("units", ())}
    variables: dict[str, Variable] = {
        name: Continuous(name, unit=units.get(name)) if states is None else Discrete(name, states=tuple(states))
        for name, states in metadata["columns"]
    }
    unknown = [name for name in metadata["modeled"] if name not in network]
    if unknown:
        raise NetworkError(
            f"the network has a note on imputation that names {shorten(unknown)}, and no such nodes; where it was "
            "changed since, "
            "forget the note: del network.graph['imputation']"
        )
    bounds = {
        name: (-np.inf if low is None else low, np.inf if high is None else high)
        for name, low, high in metadata["bounds"]
    }
    return ModelColumns(
        variables,
        tuple(metadata["modeled"]),
        dict(metadata["constants"]),
        tuple(metadata["alone"]),
        {name: 10.0**-decimals for name, decimals in metadata["decimals"]},
        bounds,
        {},  # the ranges of integer types come from the table that is filled
        # models of earlier versions have no rules
        Rules.from_dict(metadata["rules"]) if "rules" in metadata else Rules(),
    )
