"""What the command knows of learning and drawing: a model for each draw, files of it, and the holes of some rows filled.

A row's random numbers are keyed by its number in the table, so blocks of any size, in any order, give the same cells.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hybridbn.errors import FormatError, NetworkError, TableError
from hybridbn.fitting.choice import Potentials
from hybridbn.formats.reading import Wish
from hybridbn.inference.queries import Options
from hybridbn.learning.imputation_columns import Bounds, Columns
from hybridbn.learning.imputation_donors import Matching
from hybridbn.learning.imputation_fill import Filler
from hybridbn.learning.imputation_frames import Original
from hybridbn.learning.imputation_keys import seed_of
from hybridbn.learning.imputation_learning import learned
from hybridbn.learning.imputation_model import Model, draw_bounds, model_of_network, rows_of
from hybridbn.network import Network
from hybridbn.table import Table
from hybridbn.variables import Continuous, Discrete, Variable, shorten

__all__ = ["Filling", "Fills", "given", "learn", "network_of", "of_networks", "wishes_of"]

Fills = dict[str, tuple[NDArray[np.intp], list[Any]]]
"""For each column with holes, their rows and what fills them."""

_NOTE = "imputation"
_NUMBERS = 2_000_000
"""In the largest array: a number for each row and state."""
_OPTIONS = Options(1e-6, "raise", 2.0 * 2**30)


@dataclass(frozen=True)
class Filling:
    """Models that fill holes.

    Attributes
    ----------
    models : list of Model
        One for each draw.
    strategy : str
    seed : int
    history : list of dict
        What each round of learning drew.
    """

    models: list[Model]
    strategy: str
    seed: int
    history: list[dict[str, Any]] = field(default_factory=list)

    @property
    def names(self) -> list[str]:
        """The columns that are completed."""
        return list(self.models[0].columns.variables)

    def fills(self, table: Table, start: int, draw: int) -> Fills:
        """Return what fills the holes of consecutive rows, the first of which has the number `start`."""
        open_rows = np.flatnonzero(np.any([table._column(name).cells.missing for name in table.names], axis=0))
        width = sum(
            len(getattr(variable, "states", ())) + 1 for variable in self.models[draw].columns.variables.values()
        )
        step = max(_NUMBERS // width, 100)
        found: Fills = {}
        for begin in range(0, len(open_rows), step):
            for name, (rows, values) in self._filled(table, open_rows[begin : begin + step], start, draw).items():
                held = found.get(name)
                found[name] = (rows, values) if held is None else (np.append(held[0], rows), held[1] + values)
        return found

    def _filled(self, table: Table, open_rows: NDArray[np.intp], start: int, draw: int) -> Fills:
        """Fill some rows at once; each is filled by itself, so it does not matter which."""
        model = self.models[draw]
        keys = _row_keys(open_rows + start)
        with warnings.catch_warnings():
            # what there is to say was said of the whole table
            warnings.simplefilter("ignore")
            rows = rows_of(Original(table.take(open_rows)), model, "missing")
            filled = model.completed(rows, self.strategy, keys, self.seed + draw)
        found: Fills = {}
        for name, column in filled.items():
            holes = np.flatnonzero(rows.holes[name])
            variable, values = column.variable(name), column.column(name)[holes]
            if isinstance(variable, Discrete):
                states = np.empty(len(variable), dtype=object)
                states[:] = variable.states
                values = states[values]
            found[name] = (open_rows[holes], values.tolist())
        return found


def _row_keys(rows: NDArray[np.intp]) -> NDArray[np.uint64]:
    """Return keys made of row numbers."""
    bits = rows.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(0x5851F42D4C957F2D)
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    return np.asarray(bits ^ (bits >> np.uint64(31)))


def learn(
    table: Table,
    *,
    draws: int | None,
    strategy: str,
    structure: str,
    target: str | None,
    potentials: Potentials,
    include: Sequence[str],
    bounds: Any,
    whole: Sequence[str],
    donors: bool,
    rounds: int | None,
    seed: int,
    ranges: Bounds,
) -> Filling:
    """Learn from a sample, as `hybridbn.impute` does from a table; `ranges` are what the types of integers hold."""
    number = seed_of(seed)
    model, chain = learned(
        table,
        structure,
        target,
        potentials,
        include,
        bounds,
        whole,
        donors,
        rounds,
        np.random.default_rng(number),
        _OPTIONS,
        ranges,
    )
    models = [model] * (draws or 1)
    if draws is not None and chain is not None and model.filler is not None:
        proper = chain.proper()
        models = [model.with_filler(chain.filler(next(proper))) for _ in range(draws)]
    return Filling(models, strategy, number, [] if chain is None else list(chain.history))


# -- files ----------------------------------------------------------------------------------------------------------


def network_of(model: Model) -> Network:
    """Return the network of a model, with a note of what imputation has to know besides."""
    columns = model.columns
    network = Network() if model.filler is None else model.filler.network
    noted = Network()
    noted.add_nodes_from(network.nodes(data=True))
    noted.add_edges_from(network.edges(data=True))
    noted.graph.update(network.graph)
    donors = {} if model.filler is None else model.filler.donors
    noted.graph[_NOTE] = {
        "version": 1,
        "columns": [
            [name, list(v.states) if isinstance(v, Discrete) and v.cuts is None else None]
            for name, v in columns.variables.items()
        ],
        "modeled": list(columns.modeled),
        "constants": [[name, value] for name, value in columns.constants.items()],
        "alone": list(columns.alone),
        "whole": sorted(columns.whole),
        "bounds": [[name, *map(_finite, ends)] for name, ends in columns.bounds.items()],
        "donors": {
            name: np.asarray(values)
            for name, values in donors.items()
            if name in network and isinstance(network.variable(name), Discrete)
        },
        "matching": {} if model.filler is None else _matching_noted(model.filler.matching),
    }
    return noted


def _matching_noted(found: Matching | None) -> dict[str, Any]:
    """Return the mappings from columns that matching consists of."""
    if found is None:
        return {}
    return {part.name: dict(getattr(found, part.name)) for part in fields(found) if part.name != "closed"}


def _with_matching(filler: Filler, noted: Mapping[str, Any]) -> Filler:
    closed = filler.closed
    if not noted or closed is None:
        return filler
    return replace(filler, matching=Matching(closed, **noted))


def _finite(end: float) -> float | None:
    return float(end) if np.isfinite(end) else None


def of_networks(networks: Sequence[Network], strategy: str, seed: int, history: list[dict[str, Any]]) -> Filling:
    """Return the filling that networks with notes are of."""
    return Filling([_noted_model(network) for network in networks], strategy, seed_of(seed), history)


def _noted_model(network: Network) -> Model:
    note = network.graph[_NOTE]
    try:
        if note["version"] != 1:
            raise FormatError("the model's note on imputation is of a newer version of hybridbn")
        variables: dict[str, Variable] = {
            name: Continuous(name) if states is None else Discrete(name, states=tuple(states))
            for name, states in note["columns"]
        }
        bounds = {
            name: (-np.inf if low is None else low, np.inf if high is None else high)
            for name, low, high in note["bounds"]
        }
        columns = Columns(
            variables,
            tuple(note["modeled"]),
            dict(note["constants"]),
            tuple(note["alone"]),
            frozenset(note["whole"]),
            bounds,
            {},  # what types hold is a matter of the table that is filled
        )
        filler = None
        if len(network):
            filler = Filler(network, dict(note["donors"]), draw_bounds(columns), _OPTIONS)
            filler = _with_matching(filler, note["matching"])
    except (KeyError, TypeError, ValueError) as error:
        raise FormatError(f"the model's note on imputation is damaged: {error!r}") from None
    return Model(columns, filler)


def wishes_of(network: Network) -> dict[str, Wish]:
    """Return what the columns that a network knows must be read as."""
    known = [network.variable(name) for name in network]
    if _NOTE in network.graph:
        known += [v for n, v in _noted_model(network).columns.variables.items() if n not in network]
    wishes: dict[str, Wish] = {}
    for variable in known:
        if isinstance(variable, Continuous):
            wishes[variable.name] = "continuous"
        elif variable.cuts is None:
            textual = all(isinstance(state, str) for state in variable.states)
            wishes[variable.name] = "text" if textual else "discrete"
    return wishes


def given(
    network: Network, table: Table, *, strategy: str, bounds: Any, whole: Iterable[str], draws: int | None, seed: int
) -> Filling:
    """Return the filling that a user's network makes of a table with these columns."""
    if _NOTE in network.graph:
        if bounds is not None:
            raise TableError("the model has bounds of its own; --bounds is for learning")
        model = _noted_model(network)
        absent = [name for name in model.columns.variables if name not in table.names]
        if absent:
            raise NetworkError(
                f"the model completes the columns {shorten(absent)}, but the table hasn't; its columns are {shorten(table.names)}"
            )
    else:
        model = model_of_network(network, Original(table), bounds, list(whole), _OPTIONS)
    return Filling([model] * (draws or 1), strategy, seed_of(seed))
