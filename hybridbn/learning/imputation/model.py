"""The model of an imputation: the columns, and the network that completes rows, known or new ones.

What a model knows besides its network is metadata in the network's ``graph["imputation"]``. So a model is saved and
loaded like any network.
"""

from __future__ import annotations

import math
from collections.abc import Container, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from hybridbn.errors import FormatError, HybridBNError, NetworkError, TableError, warn_user
from hybridbn.estimation.completion import Cells, Completion, Keys, draw_uniforms, levels_of
from hybridbn.learning.imputation.columns import (
    Bounds,
    ModelColumns,
    check_bounds,
    has_integer_type,
    integer_ranges,
    read_by_own_types,
    reason_alone,
    refuse_empty_bounds,
)
from hybridbn.learning.imputation.predictive_mean_matching import (
    MatchedCompletion,
    PredictiveMeanMatching,
    add_matching,
)
from hybridbn.learning.imputation.rules import Rules, grid_ends, round_to_decimals, times_of
from hybridbn.network import Network
from hybridbn.options import Options
from hybridbn.tables import Table
from hybridbn.tables.cells import state_kind
from hybridbn.tables.columns import Frame
from hybridbn.units import Unit
from hybridbn.variables import Continuous, Discrete, Values, Variable, shorten

Fills: TypeAlias = dict[str, NDArray[Any]]
"""The values that fill the holes of each column."""

_METADATA = "imputation"
"""The key of the metadata in the attributes of the network's graph."""
_VERSION = 6
"""The version of the metadata's format."""
_READ_VERSIONS = (3, 4, 5, _VERSION)
"""Files of other versions are refused."""


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
            decimals = {**columns.decimals, **dict.fromkeys(numbers, 0)}
            columns = replace(columns, ranges=ranges or {}, decimals=decimals)
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
            "decimals": [[name, decimals] for name, decimals in columns.decimals.items()],
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
                listed = np.empty(len(states), dtype=object)
                listed[:] = states
                fills[name] = listed[values]
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
            name: np.where(holes[name], np.clip(settled[name], *self._ends(name)), settled[name])
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

    def _ends(self, name: str) -> tuple[float, float]:
        """Return the least and the greatest number within the bounds that has the decimals of the column."""
        low, high = self.columns.bounds.get(name, (-math.inf, math.inf))
        decimals = self.columns.decimals.get(name)
        return (low, high) if decimals is None else grid_ends(low, high, decimals)

    def _round(self, name: str, values: Values) -> Values:
        low, high = self._ends(name)
        decimals = self.columns.decimals.get(name)
        if decimals is not None:
            values = round_to_decimals(values, decimals)
        unit = getattr(self.columns.variables[name], "unit", None)
        if unit is not None:
            values = unit.round(np.clip(values, low, high))
        return np.clip(values, low, high)


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
    if declared is None:
        working = Table(frame, variables=modeled, unknown="missing")
    else:
        working = Table(declared, variables=modeled)
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
    decimals = refuse_empty_bounds(limits, dict.fromkeys(sorted(whole), 0))
    columns = ModelColumns(variables, tuple(shared), {}, (), decimals, limits, integer_ranges(frame))
    return Model(columns, Completion(network, options, donors, columns.widen(columns.bounds)))


def check_unmodeled_columns(frame: Frame, known: Container[str]) -> None:
    """Refuse columns with holes that the network lacks; ignore identifiers, dates and the like with a warning."""
    unmodeled: list[str] = []
    ignored: list[str] = []
    for name in frame.columns:
        if name in known:
            continue
        try:
            table = Table(frame.select([name]))
            holes = bool(table.cells(name).missing.any())
            identifier = reason_alone(table, name) is not None
        except TableError:
            ignored.append(name)
            continue
        if holes:
            (ignored if identifier else unmodeled).append(name)
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
    units = {name: Unit.from_dict(unit) for name, unit in metadata.get("units", ())}
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
        dict(metadata["decimals"]),
        bounds,
        {},  # the ranges of integer types come from the table that is filled
        # models of earlier versions have no rules
        Rules.from_dict(metadata["rules"]) if "rules" in metadata else Rules(),
    )
