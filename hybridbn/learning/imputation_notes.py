"""What imputation has to know besides the network, as a note in the network's ``graph["imputation"]``.

So a model is a network with a note, which goes into files and comes back as it was.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np

from hybridbn.errors import FormatError, NetworkError, TableError
from hybridbn.estimation.completion import Completion
from hybridbn.learning.imputation.columns import Bounds, Columns, draw_bounds
from hybridbn.learning.imputation.predictive_mean_matching import Matching
from hybridbn.network import Network
from hybridbn.options import Options
from hybridbn.variables import Continuous, Discrete, Variable, shorten

__all__ = ["columns_noted", "has_note", "noted", "read_note"]

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
