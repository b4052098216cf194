"""All that is needed to complete rows, those that were learned from and new ones."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hybridbn.columns import state_kind
from hybridbn.errors import HybridBNError, NetworkError, TableError
from hybridbn.inference.queries import Options
from hybridbn.learning.imputation_columns import (
    Bounds,
    Columns,
    checked_bounds,
    integer_type,
    looks_like_identifier,
    refuse_empty_bounds,
)
from hybridbn.learning.imputation_fill import Cells, Filler
from hybridbn.learning.imputation_frames import Original, holes_of
from hybridbn.learning.imputation_keys import Keys, uniforms
from hybridbn.network import Network
from hybridbn.table import Table
from hybridbn.variables import Continuous, Discrete, Values, Variable, shorten

__all__ = ["Model", "Rows", "draw_bounds", "model_of_network", "rows_of"]


def draw_bounds(columns: Columns) -> dict[str, tuple[float, float]]:
    """Return bounds as draws have to respect them: where they are rounded later, half a unit more at both ends."""
    return {
        name: (float(np.ceil(low)) - 0.5, float(np.floor(high)) + 0.5) if name in columns.whole else (low, high)
        for name, (low, high) in columns.bounds.items()
    }


@dataclass(frozen=True, eq=False)
class Rows:
    """Rows to complete, as they came in and as the model reads them.

    Attributes
    ----------
    original : Original
    readings : mapping from column to Table
        Each column in its own terms.
    working : Table
        The model's columns in the model's terms.
    holes : mapping from column to ndarray of bool
        Of all columns that the model completes and that have any.
    """

    original: Original
    readings: Mapping[str, Table]
    working: Table
    holes: Mapping[str, NDArray[np.bool_]]


@dataclass(frozen=True, eq=False)
class Model:
    """What is known of the columns, and what fills the cells of those that depend on each other.

    Attributes
    ----------
    columns : Columns
    filler : Filler or None
        None where there is nothing but constants and identifiers.
    """

    columns: Columns
    filler: Filler | None

    def with_filler(self, filler: Filler) -> Model:
        """Return the model with other parameters."""
        return replace(self, filler=filler)

    def completed(self, rows: Rows, strategy: str, keys: Keys, seed: int) -> dict[str, Table]:
        """Return the columns with holes, filled, each in a table of its own in its own terms."""
        cells = self._cells(rows, strategy, keys, seed)
        filled = {}
        for name, holes in rows.holes.items():
            reading = rows.readings[name]
            if name in self.columns.constants:
                # the only state there is has the code 0
                numeric = isinstance(self.columns.variables[name], Continuous)
                values: NDArray[Any] = np.full(len(keys), self.columns.constants[name] if numeric else 0)
            elif name in self.columns.alone:
                states = len(getattr(self.columns.variables[name], "states", ()))
                values = np.floor(uniforms(keys, [name], seed)[0] * states).astype(np.intp)
            else:
                values = cells[name]
            filled[name] = self._filled(name, values, reading, holes)
            if holes_of(filled[name], name).any():
                raise HybridBNError(f"column {name!r} still has missing cells after imputation; please report this")
        return filled

    def _cells(self, rows: Rows, strategy: str, keys: Keys, seed: int) -> Cells:
        if self.filler is None or not any(name in self.filler.network for name in rows.holes):
            return {}
        if strategy == "mean":
            return self.filler.expected(rows.working)
        if strategy == "most_probable":
            return self.filler.most_probable(rows.working)
        names = list(self.filler.network)

        def levels(attempt: int, places: NDArray[np.intp]) -> Mapping[str, Values]:
            return dict(zip(names, uniforms(keys[places], names, seed, attempt), strict=True))

        return self.filler.drawn(rows.working, levels)

    def _filled(self, name: str, values: NDArray[Any], reading: Table, holes: NDArray[np.bool_]) -> Table:
        """Put values, in the terms of the model's variable, into the holes of a column as it was read."""
        variable, own = self.columns.variables[name], reading.variable(name)
        if not isinstance(variable, Discrete):
            numbers = np.where(holes, self._rounded(name, np.asarray(values, dtype=np.float64)), reading.column(name))
            return reading.with_array(name, numbers)
        if not isinstance(own, Discrete):
            raise TableError(
                f"column {name!r} holds numbers, but the model takes it for states: {shorten(variable.states)}"
            )
        places = {state: code for code, state in enumerate(own.states)}
        needed = np.unique(values[holes]).tolist()
        for code in needed:
            places.setdefault(variable.states[code], len(places))
        lookup = np.array([places.get(state, -1) for state in variable.states], dtype=np.intp)
        codes = np.where(holes, lookup[values], reading.column(name))
        if len(places) == len(own):
            return reading.with_array(name, codes)
        states = np.empty(len(places), dtype=object)
        states[:] = list(places)
        return reading.with_column(name, states[codes], Discrete(name, states=tuple(places)))

    def _rounded(self, name: str, values: Values) -> Values:
        low, high = self.columns.bounds.get(name, (-math.inf, math.inf))
        if name in self.columns.whole:
            low, high = float(np.ceil(low)), float(np.floor(high))
            values = np.rint(values)
        least, most = self.columns.ranges.get(name, (low, high))
        return np.clip(values, max(low, least), min(high, most))


def rows_of(original: Original, model: Model, unknown: str = "error", declared: Table | None = None) -> Rows:
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
    absent = [name for name in known if name not in original.names]
    if absent:
        raise TableError(
            f"the model has the columns {shorten(absent)}, but the table hasn't; its columns are {shorten(original.all_names)}"
        )
    readings = original.readings(known) if declared is None else {name: declared.select([name]) for name in known}
    strange: dict[str, int] = {}
    modeled = [variable for name, variable in known.items() if name in model.columns.modeled]
    working = (
        original.read_as(modeled)
        if declared is None
        else Table(declared.select([v.name for v in modeled]), variables=modeled)
        if modeled
        else declared
    )
    holes = {}
    for name, reading in readings.items():
        mask = holes_of(reading, name)
        if mask.any():
            holes[name] = mask
        if name not in working:
            continue
        lost = holes_of(working, name) & ~mask
        if lost.any():
            if unknown == "error" or not _same_kinds(reading.variable(name), known[name]):
                reading.coded(known[name])  # which names column, row, value and states
            strange[name] = int(lost.sum())
    if strange:
        warnings.warn(
            f"columns {shorten(strange)} hold {sum(strange.values())} values that the model has never seen; they stay as they "
            "are, and count as unknown for the other cells of their rows",
            stacklevel=3,
        )
    _warn_of_blanks(holes, original.rows, len(readings))
    return Rows(original, readings, working, holes)


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
    network: Network, original: Original, bounds: Any, integers: str | Iterable[str] | None, options: Options
) -> Model:
    """Return a model for a network that the user gives, refusing one that doesn't fit the table."""
    if not isinstance(network, Network):
        raise NetworkError(f"network must be a Network, such as hb.load(...) returns, not {network!r:.80}")
    network.check()
    shared = [name for name in original.names if name in network]
    if not shared:
        raise NetworkError(
            f"the network and the table have no name in common: {shorten(network)} against {shorten(original.all_names)}"
        )
    readings = original.readings({name: network.variable(name) for name in shared})
    _refuse_strays(original, [name for name in original.names if name not in network])
    variables: dict[str, Variable] = {}
    whole = {integers} if isinstance(integers, str) else set(integers or ())
    donors = {}
    for name in shared:
        variable, reading = network.variable(name), readings[name]
        numeric = not reading.is_discrete(name)
        if isinstance(variable, Discrete) and variable.cuts is not None and numeric:
            variable = Continuous(name)
            donors[name] = np.sort(reading.column(name)[~holes_of(reading, name)])
        if isinstance(variable, Continuous) and numeric and integer_type(reading, name):
            whole.add(name)
        variables[name] = variable
    limits: Bounds = checked_bounds(bounds)
    for name in {*whole, *limits}:
        if not isinstance(variables.get(name), Continuous):
            raise TableError(f"{name!r} is named in bounds or integers, but is no column of numbers of the network")
    refuse_empty_bounds(limits, whole)
    columns = Columns(variables, tuple(shared), {}, (), frozenset(whole), limits, original.ranges())
    return Model(columns, Filler(network, donors, draw_bounds(columns), options))


def _refuse_strays(original: Original, names: Iterable[str]) -> None:
    """Refuse columns with holes that the network doesn't know; identifiers, dates and the like are left alone."""
    strays: list[str] = []
    left: list[str] = []
    for name in names:
        try:
            table = original.column(name)
            holes = bool(holes_of(table, name).any())
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
