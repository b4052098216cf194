"""All that is needed to complete rows, those that were learned from and new ones."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Container, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from hybridbn.errors import FormatError, HybridBNError, NetworkError, TableError
from hybridbn.estimation.completion import Cells, Completion
from hybridbn.estimation.row_uniforms import Keys, draw_uniforms, levels_of
from hybridbn.learning.imputation.columns import (
    Bounds,
    Columns,
    checked_bounds,
    draw_bounds,
    grid_ends,
    integer_ranges,
    integer_type,
    looks_like_identifier,
    read_in_own_terms,
    refuse_empty_bounds,
    rounded,
)
from hybridbn.learning.imputation.predictive_mean_matching import Matching
from hybridbn.network import Network
from hybridbn.options import Options
from hybridbn.tables import Table
from hybridbn.tables.cells import state_kind
from hybridbn.tables.frames import Frame
from hybridbn.variables import Continuous, Discrete, Values, Variable, shorten

__all__ = [
    "Fills",
    "Model",
    "Rows",
    "columns_noted",
    "has_note",
    "model_of_network",
    "noted",
    "read_note",
    "refuse_strays",
    "rows_of",
]

Fills: TypeAlias = dict[str, NDArray[Any]]
"""For each column with holes, what fills them."""


@dataclass(frozen=True, eq=False)
class Rows:
    """Rows to complete, as they came in and as the model reads them.

    Attributes
    ----------
    frame : Frame
    readings : Table
        Each column in its own terms.
    working : Table
        The model's columns in the model's terms.
    holes : mapping from column to ndarray of bool
        Of all columns that the model completes and that have any.
    """

    frame: Frame
    readings: Table
    working: Table
    holes: Mapping[str, NDArray[np.bool_]]


@dataclass(frozen=True, eq=False)
class Model:
    """What is known of the columns, and what fills the cells of those that depend on each other.

    Attributes
    ----------
    columns : Columns
    completion : Completion or None
        None where there is nothing but constants and identifiers.
    """

    columns: Columns
    completion: Completion | None

    @classmethod
    def of_note(
        cls, network: Network, options: Options, ranges: Bounds | None = None, whole: Iterable[str] = ()
    ) -> Self:
        """Return the model that a network with a note is of."""
        return cls(*read_note(network, options, ranges or {}, whole))

    @cached_property
    def network(self) -> Network:
        """The network with a note on all else, so that it can be saved and used again; empty where there is none."""
        return noted(self.columns, self.completion)

    def fill(self, rows: Rows, strategy: str, keys: Keys, seed: int) -> Fills:
        """Return what fills the holes of each column, in their order: numbers, or states of the model."""
        cells = self._complete(rows, strategy, keys, seed)
        found = {}
        for name, holes in rows.holes.items():
            variable = self.columns.variables[name]
            states = getattr(variable, "states", ())
            if name in self.columns.constants:
                # the only state there is has the code 0
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
                found[name] = listed[values]
            else:
                found[name] = self._rounded(name, np.asarray(values, dtype=np.float64))
        return found

    def complete(self, rows: Rows, fills: Fills, added: Mapping[str, NDArray[np.bool_]]) -> Any:
        """Return the frame with its holes filled, and columns of truth values added; all else stays as it came in."""
        for name in fills:
            variable = self.columns.variables[name]
            if isinstance(variable, Discrete) and not rows.readings.is_discrete(name):
                raise TableError(
                    f"column {name!r} holds numbers, but the model takes it for states: {shorten(variable.states)}"
                )
        filled = rows.readings.select(fills).fill({name: (rows.holes[name], values) for name, values in fills.items()})
        return rows.frame.replace(filled, added)

    def _complete(self, rows: Rows, strategy: str, keys: Keys, seed: int) -> Cells:
        """Return the columns that depend on each other, without holes."""
        completion = self.completion
        if completion is None or not any(name in completion.network for name in rows.holes):
            return {}
        if strategy == "draw":
            return completion.draw(rows.working, levels_of(keys, list(completion.network), seed))
        return (completion.expect if strategy == "mean" else completion.find_most_probable)(rows.working)

    def _rounded(self, name: str, values: Values) -> Values:
        low, high = self.columns.bounds.get(name, (-math.inf, math.inf))
        decimals = self.columns.decimals.get(name)
        if decimals is not None:
            low, high = grid_ends(low, high, decimals)
            values = rounded(values, decimals)
        least, most = self.columns.ranges.get(name, (low, high))
        return np.clip(values, max(low, least), min(high, most))


def rows_of(frame: Frame, model: Model, unknown: str = "error", declared: Table | None = None) -> Rows:
    """Read rows for a model, refusing what doesn't fit it.

    Parameters
    ----------
    unknown : {"error", "missing"}
        What to do with a state that the model doesn't know: refuse it, or leave it where it stands and take it for
        unknown otherwise.
    declared : Table, optional
        The columns as they are declared to be; otherwise each is read by its own type.
    """
    known = model.columns.variables
    absent = [name for name in known if name not in frame.columns]
    if absent:
        raise TableError(
            f"the model has the columns {shorten(absent)}, but the table hasn't; its columns are {shorten(frame.columns)}"
        )
    readings = read_in_own_terms(frame, known) if declared is None else declared.select(known)
    strange: dict[str, int] = {}
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
        lost = working.cells(name).missing & ~mask
        if lost.any():
            if unknown == "error" or not _same_kinds(readings.variable(name), known[name]):
                readings.coded(known[name])  # which names column, row, value and states
            strange[name] = int(lost.sum())
    if strange:
        warnings.warn(
            f"columns {shorten(strange)} hold {sum(strange.values())} values that the model has never seen; they stay as they "
            "are, and count as unknown for the other cells of their rows",
            stacklevel=3,
        )
    _warn_of_blanks(holes, frame.rows, len(readings.names))
    return Rows(frame, readings, working, holes)


def _warn_of_blanks(holes: Mapping[str, NDArray[np.bool_]], rows: int, columns: int) -> None:
    """Tell of rows without any observed cell; in a table of one column every hole is one."""
    if 1 < len(holes) == columns:
        blank = np.flatnonzero(np.all([*holes.values()], axis=0))
        if len(blank):
            warnings.warn(
                f"{len(blank)} of {rows} rows have no observed cell (the first is row {blank[0]}); what they get is drawn from "
                "the distribution of all rows",
                stacklevel=4,
            )


def _same_kinds(found: Variable, known: Variable) -> bool:
    """Tell whether states that were found are of a type that known ones are of."""
    if not isinstance(found, Discrete) or not isinstance(known, Discrete):
        return False
    return {state_kind(state) for state in found.states} <= {state_kind(state) for state in known.states}


def model_of_network(
    network: Network, frame: Frame, bounds: Any, integers: str | Iterable[str] | None, options: Options
) -> Model:
    """Return a model for a network that the user gives, refusing one that doesn't fit the table."""
    if not isinstance(network, Network):
        raise NetworkError(f"network must be a Network, such as hb.load(...) returns, not {network!r:.80}")
    network.check()
    shared = [name for name in frame.columns if name in network]
    if not shared:
        raise NetworkError(
            f"the network and the table have no name in common: {shorten(network)} against {shorten(frame.columns)}"
        )
    readings = read_in_own_terms(frame, {name: network.variable(name) for name in shared})
    variables: dict[str, Variable] = {}
    whole = {integers} if isinstance(integers, str) else set(integers or ())
    donors = {}
    for name in shared:
        variable = network.variable(name)
        numeric = not readings.is_discrete(name)
        if isinstance(variable, Discrete) and variable.cuts is not None and numeric:
            variable = Continuous(name)
            donors[name] = np.sort(readings.column(name)[~readings.cells(name).missing])
        if isinstance(variable, Continuous) and numeric and integer_type(readings, name):
            whole.add(name)
        variables[name] = variable
    limits: Bounds = checked_bounds(bounds)
    for name in {*whole, *limits}:
        if not isinstance(variables.get(name), Continuous):
            raise TableError(f"{name!r} is named in bounds or integers, but is no column of numbers of the network")
    decimals = refuse_empty_bounds(limits, dict.fromkeys(sorted(whole), 0))
    columns = Columns(variables, tuple(shared), {}, (), decimals, limits, integer_ranges(frame))
    return Model(columns, Completion(network, options, donors, draw_bounds(columns)))


def refuse_strays(frame: Frame, known: Container[str]) -> None:
    """Refuse columns with holes that the network doesn't know; identifiers, dates and the like are left alone."""
    strays: list[str] = []
    left: list[str] = []
    for name in frame.columns:
        if name in known:
            continue
        try:
            table = Table(frame.select([name]))
            holes = bool(table.cells(name).missing.any())
            identifier = looks_like_identifier(table, name)
        except TableError:
            left.append(name)
            continue
        if holes:
            (left if identifier else strays).append(name)
    if strays:
        raise NetworkError(
            f"columns {shorten(strays)} have missing cells, but the network has no such nodes; name them in skip to leave "
            "them as they are, or use a network that has them"
        )
    if left:
        warnings.warn(
            f"columns {shorten(left)} are left alone, with whatever is missing there: the network doesn't have them, and they "
            "look like identifiers or are of no type that can be imputed; name them in skip to say so",
            stacklevel=4,
        )


_Found = TypeVar("_Found")

_NOTE = "imputation"
_VERSION = 3


def has_note(network: Network) -> bool:
    """Tell whether a network was learned by imputation."""
    return _NOTE in network.graph


def noted(columns: Columns, completion: Completion | None) -> Network:
    """Return the network of a completion, with a note on the columns; an empty one where there is none."""
    network = Network() if completion is None else completion.network
    found = Network(network, **network.graph)
    found.graph[_NOTE] = {
        "version": _VERSION,
        "columns": [
            [name, list(v.states) if isinstance(v, Discrete) and v.cuts is None else None]
            for name, v in columns.variables.items()
        ],
        "modeled": list(columns.modeled),
        "constants": [[name, value] for name, value in columns.constants.items()],
        "alone": list(columns.alone),
        "decimals": [[name, decimals] for name, decimals in columns.decimals.items()],
        "bounds": [
            [name, *(float(e) if np.isfinite(e) else None for e in ends)] for name, ends in columns.bounds.items()
        ],
        "donors": {
            name: np.asarray(values)
            for name, values in (() if completion is None else completion.observed.items())
            if name in network and isinstance(network.variable(name), Discrete)
        },
        "matching": completion.matcher.to_dict()
        if completion is not None and isinstance(completion.matcher, Matching)
        else {},
    }
    return found


def columns_noted(network: Network) -> Columns:
    """Return what a note says of the columns."""
    return _read(network, lambda note: _columns(note, network))


def read_note(
    network: Network, options: Options, ranges: Bounds, integers: Iterable[str]
) -> tuple[Columns, Completion | None]:
    """Return what a network with a note was made of, and what a table's own types add to that.

    Parameters
    ----------
    ranges : mapping from column to (low, high)
        What integer types of the table can hold.
    integers : iterable of str
        Columns that hold whole numbers in the table, whatever they held where the network was learned.
    """

    def found(note: Mapping[str, Any]) -> tuple[Columns, Completion | None]:
        columns = _columns(note, network)
        whole = {name: 0 for name in integers if isinstance(columns.variables.get(name), Continuous)}
        columns = replace(columns, ranges=ranges, decimals={**columns.decimals, **whole})
        if not len(network):
            return columns, None
        completion = Completion(network, options, dict(note["donors"]), draw_bounds(columns))
        if note["matching"]:
            completion = replace(completion, matcher=Matching.from_dict(note["matching"]))
        return columns, completion

    return _read(network, found)


def _read(network: Network, read: Callable[[Mapping[str, Any]], _Found]) -> _Found:
    note = network.graph[_NOTE]
    try:
        if note["version"] != _VERSION:
            raise FormatError("the model's note on imputation is of another version of hybridbn; learn the model again")
        return read(note)
    except (FormatError, NetworkError, TableError):
        raise
    except (KeyError, TypeError, ValueError) as error:
        raise FormatError(f"the model's note on imputation is damaged: {error!r}") from None


def _columns(note: Mapping[str, Any], network: Network) -> Columns:
    variables: dict[str, Variable] = {
        name: Continuous(name) if states is None else Discrete(name, states=tuple(states))
        for name, states in note["columns"]
    }
    strange = [name for name in note["modeled"] if name not in network]
    if strange:
        raise NetworkError(
            f"the network has a note on imputation that names {shorten(strange)}, and no such nodes; where it was changed since, "
            "forget the note: del network.graph['imputation']"
        )
    bounds = {
        name: (-np.inf if low is None else low, np.inf if high is None else high) for name, low, high in note["bounds"]
    }
    return Columns(
        variables,
        tuple(note["modeled"]),
        dict(note["constants"]),
        tuple(note["alone"]),
        dict(note["decimals"]),
        bounds,
        {},  # what types hold is a matter of the table that is filled
    )
