"""What users say about the structure, and the network that is learned from it and an incomplete table."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from hybridbn.errors import TableError
from hybridbn.estimation.row_uniforms import seed_of
from hybridbn.fitting.choice import Potentials, checked_spec
from hybridbn.learning.imputation.columns import Bounds, draw_bounds, sorted_out
from hybridbn.learning.imputation_frames import integer_ranges
from hybridbn.learning.imputation.model import Model, model_of_network, refuse_strays
from hybridbn.learning.imputation_notes import has_note
from hybridbn.learning.imputation.data_augmentation import Chain, Default, Recipe, Relearned
from hybridbn.learning.imputation.default_network import best_target
from hybridbn.network import Network
from hybridbn.options import Options
from hybridbn.structures.building import Build
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
            yield Model(self.model.columns, self.chain.completion(network))


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
    recipe = _choose_recipe(settings.structure, settings.target, settings.potentials, working)
    rng = np.random.default_rng(seed)
    chain = Chain(working, recipe, draw_bounds(columns), settings.options, rng, rounds, settings.donors)
    return Fitted(Model(columns, chain.completion(chain.network)), seed, chain)


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


def _choose_recipe(structure: Any, target: str | None, potentials: Potentials, table: Table) -> Recipe:
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
    build = Build.of(structure, "structure")
    return Relearned(partial(_learn, build, target, None if automatic else potentials), potentials)


def _learn(build: Build, target: str | None, potentials: Potentials | None, table: Table) -> Network:
    """Learn a network from a table; a builder with a target gets the column that tells most about the others."""
    kind = build.declaration.takes_target
    if build.structure is not None or not kind:
        return build.learn(table, None, potentials)
    if target is None:
        names = [name for name in table.names if kind is True or isinstance(table.variable(name), kind)]
        target = best_target(_without_holes(table), names)
    return build.learn(table, target, potentials)


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
