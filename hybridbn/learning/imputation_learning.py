"""What users say about the structure, and the network that is learned from it and an incomplete table."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from typing import Any

import networkx as nx
import numpy as np

from hybridbn.errors import NetworkError, TableError
from hybridbn.fitting.choice import Potentials, checked_spec
from hybridbn.fitting.network import fit
from hybridbn.inference.queries import Options
from hybridbn.learning.imputation_columns import Bounds, sorted_out
from hybridbn.learning.imputation_frames import holes_of
from hybridbn.learning.imputation_model import Model, draw_bounds
from hybridbn.learning.imputation_rounds import Built, Chain, Default, Recipe
from hybridbn.learning.imputation_structure import best_target
from hybridbn.network import Network
from hybridbn.table import Table
from hybridbn.variables import shorten

__all__ = ["learned"]


def learned(
    table: Table,
    structure: Any,
    target: str | None,
    potentials: Potentials,
    include: str | Iterable[str],
    bounds: Any,
    integers: str | Iterable[str] | None,
    donors: bool,
    rounds: int | None,
    rng: np.random.Generator,
    options: Options,
    ranges: Bounds,
) -> tuple[Model, Chain | None]:
    """Learn from an incomplete table what completes it, and the chain that further parameters can be drawn from."""
    columns = sorted_out(table, include, integers, bounds, ranges)
    if rounds is not None and (isinstance(rounds, bool) or not isinstance(rounds, int | np.integer) or rounds < 0):
        raise TableError(f"rounds must be a number that is not negative, or None, not {rounds!r}")
    if not columns.modeled:
        return Model(columns, None), None
    working = Table(table.select(columns.modeled), variables=[columns.variables[name] for name in columns.modeled])
    recipe = _recipe(structure, target, potentials, working)
    chain = Chain(working, recipe, draw_bounds(columns), options, rng, rounds, donors)
    return Model(columns, chain.filler(chain.network)), chain


def _recipe(structure: Any, target: str | None, potentials: Potentials, table: Table) -> Recipe:
    """Turn what the user says about the structure into a way of learning."""
    if isinstance(potentials, Mapping):
        potentials = {name: spec for name, spec in potentials.items() if name in table}
        for name, spec in potentials.items():
            checked_spec(spec, name)
    else:
        checked_spec(potentials, "all columns")
    automatic = isinstance(potentials, str) and potentials == "auto"
    if target is not None and target not in table:
        raise TableError(f"target={target!r} is no column that can be modeled; these are {shorten(table.names)}")
    if isinstance(structure, str) and structure == "auto":
        if automatic and target is None:
            return Default({name: float((~holes_of(table, name)).sum()) for name in table.names})
        structure = "chow_liu" if target is None else "tan"
    if isinstance(structure, nx.Graph) or not (callable(structure) or isinstance(structure, str)):
        return Built(lambda filled: fit(structure, filled, potentials), potentials)
    build = _builder(structure) if isinstance(structure, str) else structure
    options: dict[str, Any] = {} if automatic else {"potentials": potentials}
    wants_target = _wants_target(build)

    def built(filled: Table) -> Network:
        given = target
        if wants_target and given is None:
            given = best_target(_without_holes(filled))
        network = build(filled, given, **options) if wants_target else build(filled, **options)
        if not isinstance(network, Network):
            raise NetworkError(f"a builder must return a Network, not {network!r:.80}")
        return network

    return Built(built, potentials)


def _builder(name: str) -> Callable[..., Any]:
    # builders are of a higher layer, so they are looked up when they are asked for
    structures = import_module("hybridbn.structures")
    if name not in structures.__all__:
        raise NetworkError(
            f"structure={name!r} is not known; choose 'auto' or one of {shorten(structures.__all__, 20)}"
        )
    found: Callable[..., Any] = getattr(structures, name)
    return found


def _wants_target(build: Callable[..., Any]) -> bool:
    """Tell whether the second argument of a builder, after the data, is a target."""
    try:
        names = list(inspect.signature(build).parameters)
    except (TypeError, ValueError):
        return True
    return len(names) > 1 and names[1] not in ("potentials", "weights")


def _without_holes(table: Table) -> Table:
    """Return the complete rows, or the table with holes filled by the most frequent state and the mean."""
    for name in table.names:
        holes = holes_of(table, name)
        if holes.any():
            column = np.array(table.column(name))
            seen = column[~holes]
            column[holes] = np.bincount(seen).argmax() if table.is_discrete(name) else seen.mean()
            table = table.with_array(name, column)
    return table
