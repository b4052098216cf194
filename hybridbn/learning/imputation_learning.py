"""What users say about the structure, and the network that is learned from it and an incomplete table."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import networkx as nx
import numpy as np

from hybridbn.errors import NetworkError, TableError
from hybridbn.estimation.available_cases import fit_available
from hybridbn.estimation.row_uniforms import seed_of
from hybridbn.fitting.choice import Potentials, checked_spec
from hybridbn.learning.imputation_columns import Bounds, draw_bounds, sorted_out
from hybridbn.learning.imputation_frames import integer_ranges
from hybridbn.learning.imputation_model import Model, model_of_network, refuse_strays
from hybridbn.learning.imputation_notes import has_note
from hybridbn.learning.imputation_rounds import Built, Chain, Default, Recipe
from hybridbn.learning.imputation_structure import best_target
from hybridbn.network import Network
from hybridbn.options import Options
from hybridbn.tables import Table
from hybridbn.tables.frames import Frame
from hybridbn.variables import shorten

__all__ = ["DRAW_OPTIONS", "Fitted", "Settings", "fit_imputation", "use_network"]

DRAW_OPTIONS = Options(tolerance=1e-6)
"""The default options of imputation: draws need no more digits."""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What learning can be told; all but `decimals` as in `impute`.

    Attributes
    ----------
    decimals : mapping from column to int, optional
        How many decimals the numbers of the whole table have, where the network is learned from a sample.
    """

    structure: Any = "auto"
    target: str | None = None
    potentials: Potentials = "auto"
    include: str | Iterable[str] = ()
    bounds: Any = None
    integers: str | Iterable[str] | None = None
    full_precision: bool = False
    decimals: Mapping[str, int] | None = None
    donors: bool = True
    rounds: int | None = None
    random_state: Any = None
    options: Options = DRAW_OPTIONS


@dataclass(frozen=True, eq=False)
class Fitted:
    """What completes rows.

    Attributes
    ----------
    model : Model
    seed : int
        Of the random numbers that the rows' keys are mixed with.
    chain : Chain, optional
        Where further parameters can be drawn from.
    """

    model: Model
    seed: int
    chain: Chain | None = None

    @property
    def history(self) -> list[dict[str, Any]]:
        """What was drawn in each round of learning."""
        return [] if self.chain is None else self.chain.history

    def models(self, draws: int | None) -> Iterator[Model]:
        """Yield a model for each draw: with parameters drawn from their posterior, where they were learned."""
        if draws is None or self.chain is None:
            yield from [self.model] * (draws or 1)
            return
        for network, _ in zip(self.chain.proper(), range(draws), strict=False):
            yield Model(self.model.columns, self.chain.filler(network))


def fit_imputation(table: Table, settings: Settings, ranges: Bounds) -> Fitted:
    """Learn from an incomplete table what completes it.

    Parameters
    ----------
    ranges : mapping from column to (low, high)
        What integer types can hold.
    """
    rounds, seed = settings.rounds, seed_of(settings.random_state)
    columns = sorted_out(
        table,
        settings.include,
        settings.integers,
        settings.bounds,
        ranges,
        settings.full_precision,
        settings.decimals,
    )
    if rounds is not None and (isinstance(rounds, bool) or not isinstance(rounds, int | np.integer) or rounds < 0):
        raise TableError(f"rounds must be a number that is not negative, or None, not {rounds!r}")
    if not columns.modeled:
        return Fitted(Model(columns, None), seed)
    working = Table(table.select(columns.modeled), variables=[columns.variables[name] for name in columns.modeled])
    recipe = _recipe(settings.structure, settings.target, settings.potentials, working)
    rng = np.random.default_rng(seed)
    chain = Chain(working, recipe, draw_bounds(columns), settings.options, rng, rounds, settings.donors)
    return Fitted(Model(columns, chain.filler(chain.network)), seed, chain)


def use_network(network: Network, frame: Frame, settings: Settings) -> Fitted:
    """Take a network as it is: one with a note as what it was learned for, any other one as what its nodes say."""
    options, integers = settings.options, settings.integers
    if isinstance(network, Network) and has_note(network):
        if settings.bounds is not None:
            raise TableError(
                "the model has bounds of its own, as it was learned by imputation; bounds are for learning"
            )
        named = {integers} if isinstance(integers, str) else set(integers or ())
        ranges = integer_ranges(frame)
        model = Model.of_note(network, options, ranges, {*named, *ranges})
    else:
        model = model_of_network(network, frame, settings.bounds, integers, options)
    refuse_strays(frame, model.columns.variables)
    return Fitted(model, seed_of(settings.random_state))


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
            return Default({name: float((~table.cells(name).missing).sum()) for name in table.names})
        structure = "chow_liu" if target is None else "tan"
    if isinstance(structure, nx.Graph) or not (callable(structure) or isinstance(structure, str)):
        return Built(lambda filled: fit_available(structure, filled, potentials), potentials)
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
        holes = table.cells(name).missing
        if holes.any():
            column = np.array(table.column(name))
            seen = column[~holes]
            column[holes] = np.bincount(seen).argmax() if table.is_discrete(name) else seen.mean()
            table = table.with_array(name, column)
    return table
