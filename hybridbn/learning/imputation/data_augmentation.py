"""Learning a network from an incomplete table by data augmentation: draw what is missing, learn again, and so on.

What is learned from available cases only is wrong where cells are missing depending on other cells (MAR); draws given all
observed cells of a row, and learning from the tables that they complete, lead away from it (Tanner & Wong 1987). With weights
of the Bayesian bootstrap (Rubin 1981) in each round the parameters are draws from their posterior, which makes multiple
imputations proper.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Protocol

import numpy as np

from hybridbn.errors import HybridBNError, TableError
from hybridbn.estimation.available_cases import fit_available
from hybridbn.estimation.completion import (
    Cells,
    Completion,
    alternate,
    collect_observed_numbers,
    fill_table,
    find_holes,
)
from hybridbn.estimation.row_uniforms import levels_of, seed_of
from hybridbn.fitting.base import Fitter
from hybridbn.fitting.fitter_choice import Potentials, check_spec
from hybridbn.fitting.multinomial import MEstimate, MultinomialFitter
from hybridbn.learning.imputation.columns import Bounds, draw_bounds, integer_ranges, sorted_out
from hybridbn.learning.imputation.default_network import Regression, best_target, conditional_gaussian_arcs
from hybridbn.learning.imputation.model import Model, has_note, model_of_network, refuse_strays
from hybridbn.learning.imputation.predictive_mean_matching import matching
from hybridbn.network import Network
from hybridbn.options import Options
from hybridbn.structures.building import Build
from hybridbn.tables import Table
from hybridbn.tables.frames import Frame
from hybridbn.variables import shorten

__all__ = [
    "DRAW_OPTIONS",
    "Chain",
    "Default",
    "Fitted",
    "Recipe",
    "Relearned",
    "Settings",
    "fit_imputation",
    "use_network",
]

_KEPT = 5
"""Completed tables that the final network is learned from, so that no single draw decides."""
_SETTLED = 0.02
"""Share of the first network's error that may be left."""
_APART = 0.15
"""Correlation of the parameters of two draws that may be left."""


class Recipe(Protocol):
    """How networks are learned: once from an incomplete table, and again from completed ones."""

    def first(self, table: Table, filled: Table) -> Network:
        """Return a network from the available cases, or from a table filled at random where these are too few."""

    def again(self, network: Network, completed: Table, settled: bool) -> Network:
        """Return a network from a completed table; the arcs stay where they are settled."""


@dataclass(frozen=True)
class Default:
    """Linear Gaussians given discrete columns.

    Attributes
    ----------
    observed : mapping from column to float
        How many observed cells each column has.
    """

    observed: Mapping[str, float]

    def first(self, table: Table, filled: Table) -> Network:
        """Return a tree of available cases."""
        arcs = conditional_gaussian_arcs(filled, self.observed, most_parents=1)
        try:
            return fit_available(_graph(table, arcs), table, _potentials(table))
        except HybridBNError:
            return fit_available(_graph(table, arcs), filled, _potentials(table))

    def again(self, network: Network, completed: Table, settled: bool) -> Network:
        """Return a network with the arcs that AIC chooses, or with those that it has."""
        if not settled:
            network = _graph(completed, conditional_gaussian_arcs(completed, self.observed))
        return fit_available(network, completed, _potentials(completed))


@dataclass(frozen=True)
class Relearned:
    """What the user's `build` learns.

    Attributes
    ----------
    build : callable from Table to Network
    potentials : as in `hybridbn.fit`, optional
        For learning again; without them the nodes keep their families.
    """

    build: Callable[[Table], Network]
    potentials: Potentials = "auto"

    def first(self, table: Table, filled: Table) -> Network:
        """Return what the builder makes of available cases."""
        try:
            return self.build(table)
        except HybridBNError:
            return self.build(filled)

    def again(self, network: Network, completed: Table, settled: bool) -> Network:
        """Learn the potentials again; the whole network where it has hidden nodes.

        A family that can't be learned from these very draws keeps the network as it is, until the next.
        """
        try:
            if any(name not in completed for name in network):
                return self.build(completed)
            return fit_available(network, completed, self.potentials)
        except TableError:
            return network


@dataclass
class Chain:
    """The rounds of drawing and learning.

    Attributes
    ----------
    table : Table
        Incomplete.
    recipe : Recipe
    bounds : mapping
    options : Options
    rng : Generator
    rounds : int, optional
    matched : bool
        Whether numbers that are far from normal are taken from rows with like expectations.
    network : Network
        Learned last.
    history : list of dict
        For each round and column with holes, mean and standard deviation of the drawn numbers, or the share of the state
        that is drawn most.
    """

    table: Table
    recipe: Recipe
    bounds: Bounds
    options: Options
    rng: np.random.Generator
    rounds: int | None = None
    matched: bool = True
    network: Network = field(init=False)
    history: list[dict[str, Any]] = field(init=False, default_factory=list)

    def __post_init__(self) -> None:
        self._holes = find_holes(self.table)
        counted = self.table.weights > 0
        self._missing = max((float(mask[counted].mean()) for mask in self._holes.values()), default=0.0)
        self.observed = collect_observed_numbers(self.table)
        self._completed = self.table
        if not self._holes:
            self.network = self.recipe.again(self.recipe.first(self.table, self.table), self.table, settled=False)
            return
        self._completed = fill_table(self.table, self._at_random())
        self.network = self.recipe.first(self.table, self._completed)
        rounds = self._needed(_SETTLED, 6, 20) if self.rounds is None else self.rounds
        kept: list[Table] = []

        def learn(completed: Table) -> Network:
            kept.append(completed)
            self._completed = completed
            return self.recipe.again(self.network, completed, settled=len(kept) + 1 >= rounds)

        def until(network: Network) -> bool:
            self.network = network
            return len(kept) >= rounds

        alternate(self.network, self._draw, learn, until)
        if rounds:
            last = kept[-min(_KEPT, max(rounds // 2, 1)) :]
            self.network = self.recipe.again(self.network, self._stacked(last), settled=True)

    def proper(self) -> Iterator[Network]:
        """Yield networks that are draws from the posterior of the parameters, as good as independent of each other."""
        rows = len(self.table)
        # so that the bootstrap's variance of a mean is that of its posterior, n - 3 in place of n + 1
        shape = min(max((rows - 4) / rows, 0.25), 1.0)
        apart = self._needed(_APART, 1, 8) if self._holes else 1
        completed = self._draw(self.network) if self._holes else self.table
        network = self.network
        while True:
            for _ in range(apart):
                weights = self.rng.gamma(shape, size=rows) * self.table.weights
                network = self.recipe.again(network, completed.with_weights(weights), settled=True)
                if self._holes:
                    completed = self._completed = self._draw(network)
            yield network

    def completion(self, network: Network) -> Completion:
        """Return what completes rows from a network, numbers that are far from normal by observed ones."""
        completion = self._plain_completion(network)
        # what is expected of a number given all other cells is known only where there are no others than these
        if completion.closed is None or not self.matched or any(name not in self.table for name in network):
            return completion
        cells = {name: self._completed.column(name) for name in self.table.names}
        proper = network is not self.network
        return replace(completion, matcher=matching(completion.closed, cells, self._holes, self.rng, proper))

    def _plain_completion(self, network: Network) -> Completion:
        return Completion(network, self.options, self.observed, self.bounds)

    def _needed(self, left: float, least: int, most: int) -> int:
        """Return after how many rounds this share of a deviation is left, at least: no column shrinks it more slowly."""
        if self._missing >= 1:
            return most
        return int(np.clip(math.ceil(math.log(left) / math.log(max(self._missing, 1e-9))), least, most))

    def _draw(self, network: Network) -> Table:
        keys = self.rng.integers(2**64, size=len(self.table), dtype=np.uint64)
        cells = self._plain_completion(network).draw(self.table, levels_of(keys, list(network), 0))
        self.history.append(self._summary(cells))
        return fill_table(self.table, cells)

    def _at_random(self) -> Cells:
        """Fill each column from its own observed cells."""
        cells = {}
        for name, mask in self._holes.items():
            column = np.array(self.table.column(name))
            column[mask] = self.rng.choice(column[~mask], size=int(mask.sum()))
            cells[name] = column
        return cells

    def _stacked(self, tables: list[Table]) -> Table:
        """Return one table with the rows of several; rows without holes stand in it once."""
        open_rows = np.any([*self._holes.values()], axis=0)
        rest, rows = np.flatnonzero(~open_rows), np.flatnonzero(open_rows)
        stacked = self.table.take(np.concatenate([rest, np.tile(rows, len(tables))]))
        for name in self._holes:
            column = np.concatenate([self.table.column(name)[rest], *(table.column(name)[rows] for table in tables)])
            stacked = stacked.with_array(name, column)
        weights = self.table.weights
        shared = np.tile(weights[rows] / len(tables), len(tables))
        return stacked.with_weights(np.concatenate([weights[rest], shared]))

    def _summary(self, cells: Cells) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for name, mask in self._holes.items():
            if name not in cells:
                continue
            values = cells[name][mask]
            if self.table.is_discrete(name):
                found[name] = float(np.bincount(values).max() / len(values))
            else:
                found[name] = (float(values.mean()), float(values.std()))
        return found


def _potentials(table: Table) -> dict[str, Fitter]:
    return {
        name: MultinomialFitter(estimate=MEstimate(m=1.0)) if table.is_discrete(name) else Regression()
        for name in table.names
    }


def _graph(table: Table, arcs: list[tuple[str, str]]) -> Network:
    """Return arcs as a network with the table's variables, in its order."""
    graph = Network()
    for name in table.names:
        graph.add_node(name, variable=table.variable(name))
    graph.add_edges_from(arcs)
    return graph


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
            check_spec(spec, name)
    else:
        check_spec(potentials, "all columns")
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
