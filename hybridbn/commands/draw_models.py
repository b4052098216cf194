"""What the command knows of learning and drawing: a model for each draw, files of it, and the holes of some rows filled.

A row's random numbers are keyed by its number in the table, so blocks of any size, in any order, give the same cells.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hybridbn.errors import NetworkError
from hybridbn.estimation.row_uniforms import hash_identifiers, seed_of
from hybridbn.formats.tables.typed_columns import DeclaredKind
from hybridbn.learning.imputation.columns import Bounds
from hybridbn.learning.imputation.data_augmentation import FittedImputation, Settings, fit_imputation, use_network
from hybridbn.learning.imputation.model import Model, has_metadata, read_columns, read_rows
from hybridbn.network import Network
from hybridbn.tables import Table
from hybridbn.tables.frames import open_frame
from hybridbn.variables import Continuous, shorten

__all__ = ["DrawModels", "Fills", "apply_network", "kinds_of", "learn_models", "load_models"]

Fills = dict[str, tuple[NDArray[np.intp], list[Any]]]
"""For each column with holes, their rows and what fills them."""


@dataclass(frozen=True)
class DrawModels:
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

    def fill(self, table: Table, start: int, draw: int) -> Fills:
        """Return what fills the holes of consecutive rows, the first of which has the number `start`."""
        open_rows = np.flatnonzero(np.any([table.cells(name).missing for name in table.names], axis=0))
        model = self.models[draw]
        with warnings.catch_warnings():
            # what there is to say was said of the whole table
            warnings.simplefilter("ignore")
            rows = read_rows(open_frame(table.take(open_rows)), model, "missing")
            found = model.fill(
                rows, self.strategy, hash_identifiers(open_rows + start, len(open_rows)), self.seed + draw
            )
        return {name: (open_rows[rows.holes[name]], values.tolist()) for name, values in found.items()}


def _of(fitted: FittedImputation, strategy: str, draws: int | None) -> DrawModels:
    return DrawModels(list(fitted.models(draws)), strategy, fitted.seed, list(fitted.history))


def learn_models(table: Table, settings: Settings, ranges: Bounds, *, strategy: str, draws: int | None) -> DrawModels:
    """Learn from a sample, as `hybridbn.impute` does from a table; `ranges` are what the types of integers hold."""
    return _of(fit_imputation(table, settings, ranges), strategy, draws)


def load_models(
    networks: Sequence[Network], settings: Settings, *, strategy: str, history: list[dict[str, Any]]
) -> DrawModels:
    """Return the filling that an earlier run learned and saved."""
    models = [Model.from_metadata(network, settings.options) for network in networks]
    return DrawModels(models, strategy, seed_of(settings.random_state), history)


def kinds_of(network: Network) -> dict[str, DeclaredKind]:
    """Return what the columns that a network knows must be read as."""
    known = [network.variable(name) for name in network]
    if has_metadata(network):
        known += [v for n, v in read_columns(network).variables.items() if n not in network]
    wishes: dict[str, DeclaredKind] = {}
    for variable in known:
        if isinstance(variable, Continuous):
            wishes[variable.name] = "continuous"
        elif variable.cuts is None:
            textual = all(isinstance(state, str) for state in variable.states)
            wishes[variable.name] = "text" if textual else "discrete"
    return wishes


def apply_network(
    network: Network, table: Table, settings: Settings, *, strategy: str, draws: int | None
) -> DrawModels:
    """Return the filling that a user's network makes of a table with these columns."""
    if has_metadata(network):
        absent = [name for name in read_columns(network).variables if name not in table.names]
        if absent:
            raise NetworkError(
                f"the model completes the columns {shorten(absent)}, but the table hasn't; its columns are {shorten(table.names)}"
            )
    return _of(use_network(network, open_frame(table), settings), strategy, draws)
