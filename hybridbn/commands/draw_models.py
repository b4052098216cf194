"""The models of ``hybridbn impute``, one for each draw: learn them, load them, and impute the missing cells of a block.

A row's random numbers are keyed by its number in the table, so blocks of any size, in any order, give the same cells.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from hybridbn.errors import NetworkError
from hybridbn.estimation.row_uniforms import hash_identifiers, seed_of
from hybridbn.formats.tables.base import Fills
from hybridbn.formats.tables.typed_columns import DeclaredKind
from hybridbn.learning.imputation.columns import Bounds
from hybridbn.learning.imputation.data_augmentation import FittedImputation, Settings, fit_imputation, use_network
from hybridbn.learning.imputation.model import Model, has_metadata, read_columns, read_rows
from hybridbn.network import Network
from hybridbn.tables import Table
from hybridbn.tables.frames import open_frame
from hybridbn.variables import Continuous, shorten

__all__ = ["DrawModels", "apply_network", "kinds_of", "learn_models", "load_models"]


@dataclass(frozen=True)
class DrawModels:
    """Imputation models, one for each draw; `history` has what each round of learning drew."""

    models: list[Model]
    strategy: str
    seed: int
    history: list[dict[str, Any]] = field(default_factory=list)

    @property
    def names(self) -> list[str]:
        """The columns whose missing cells are imputed."""
        return list(self.models[0].columns.variables)

    def fill(self, table: Table, start: int, draw: int) -> Fills:
        """Return the imputed cells of consecutive rows of the table, the first of which has the number `start`."""
        open_rows = np.flatnonzero(np.any([table.cells(name).missing for name in table.names], axis=0))
        model = self.models[draw]
        with warnings.catch_warnings():
            # The warnings about the whole table have been shown already.
            warnings.simplefilter("ignore")
            rows = read_rows(open_frame(table.take(open_rows)), model, "missing")
            imputed = model.fill(
                rows, self.strategy, hash_identifiers(open_rows + start, len(open_rows)), self.seed + draw
            )
        return {name: (open_rows[rows.holes[name]], values.tolist()) for name, values in imputed.items()}


def _of(fitted: FittedImputation, strategy: str, draws: int | None) -> DrawModels:
    return DrawModels(list(fitted.models(draws)), strategy, fitted.seed, list(fitted.history))


def learn_models(table: Table, settings: Settings, ranges: Bounds, *, draws: int | None) -> DrawModels:
    """Learn models from a sample of rows, as `hybridbn.impute` does; `ranges` are the limits of integer types."""
    return _of(fit_imputation(table, settings, ranges), settings.strategy, draws)


def load_models(networks: Sequence[Network], settings: Settings, *, history: list[dict[str, Any]]) -> DrawModels:
    """Return the models that an earlier run learned and saved as networks."""
    models = [Model.from_metadata(network, settings.options) for network in networks]
    return DrawModels(models, settings.strategy, seed_of(settings.random_state), history)


def kinds_of(network: Network) -> dict[str, DeclaredKind]:
    """Return how the columns of a network's variables must be read."""
    variables = [network.variable(name) for name in network]
    if has_metadata(network):
        variables += [v for n, v in read_columns(network).variables.items() if n not in network]
    kinds: dict[str, DeclaredKind] = {}
    for variable in variables:
        if isinstance(variable, Continuous):
            kinds[variable.name] = variable.unit or "continuous"
        elif variable.cuts is None:
            textual = all(isinstance(state, str) for state in variable.states)
            kinds[variable.name] = "text" if textual else "discrete"
    return kinds


def apply_network(network: Network, table: Table, settings: Settings, *, draws: int | None) -> DrawModels:
    """Return the models that impute a table with a network of the user."""
    if has_metadata(network):
        absent = [name for name in read_columns(network).variables if name not in table.names]
        if absent:
            raise NetworkError(
                f"the model completes the columns {shorten(absent)}, but the table hasn't; its columns are"
                f" {shorten(table.names)}"
            )
    return _of(use_network(network, open_frame(table), settings), settings.strategy, draws)
