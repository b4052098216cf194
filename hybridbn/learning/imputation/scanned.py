"""Imputation of tables that are read in passes: a model from a sample, and rows completed while they are read."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hybridbn.errors import TableError
from hybridbn.estimation.row_uniforms import hash_identifiers
from hybridbn.learning.imputation.columns import integer_ranges
from hybridbn.learning.imputation.data_augmentation import FittedImputation, Settings, fit_imputation, use_network
from hybridbn.learning.imputation.model import Model, read_rows
from hybridbn.network import Network
from hybridbn.tables import Table
from hybridbn.tables.adapters.arrow import replace_cells
from hybridbn.tables.frames import open_frame
from hybridbn.variables import Discrete, shorten

__all__ = ["impute_scan"]


@dataclass(frozen=True)
class RowFiller:
    """Fills the holes of some rows of an Arrow table; a row's random numbers depend on its number and the seed alone.

    Attributes
    ----------
    model : Model
    strategy : str
    seed : int
    discrete : tuple of str
        Columns of numbers that are read as states.
    columns : tuple of str
        Those that the model completes.
    """

    model: Model
    strategy: str
    seed: int
    discrete: tuple[str, ...]
    columns: tuple[str, ...]

    def __call__(self, first: int, table: Any) -> Any:
        """Return the table without holes, its types as they were.

        Parameters
        ----------
        first : int
            The number of the first row.
        table : pyarrow.Table
        """
        whole = table.select(list(self.columns))
        masks = [_find_holes(column) for column in whole.columns]
        rows = np.flatnonzero(np.any(masks, axis=0))
        if not len(rows):
            return table
        import pyarrow

        opened = whole.take(pyarrow.array(rows))
        with warnings.catch_warnings():
            # what is to be said of the whole table was said of the sample
            warnings.simplefilter("ignore")
            frame = open_frame(opened)
            declared = Table(frame, discrete=self.discrete) if self.discrete else None
            read = read_rows(frame, self.model, "missing", declared)
            keys = hash_identifiers(rows + first, len(rows))
            completed = self.model.complete(read, self.model.fill(read, self.strategy, keys, self.seed), {})
        for name, mask in zip(whole.column_names, masks, strict=True):
            if mask.any():
                place = table.column_names.index(name)
                filled = replace_cells(table.column(place), rows, completed.column(name).cast(table.column(place).type))
                table = table.set_column(place, table.schema.field(place), filled)
        return table


def _find_holes(column: Any) -> Any:
    import pyarrow.compute as compute

    return compute.is_null(column, nan_is_null=True).to_numpy()


def impute_scan(
    data: Any, settings: Settings, network: Network | None, draws: int | None, strategy: str, refused: Sequence[str]
) -> Any:
    """Return a scan whose rows are completed while they are read; a list of scans where there are several draws.

    Parameters
    ----------
    data : Scan
    settings : Settings
    network : Network, optional
        By default it is learned from a sample.
    draws, strategy : as in `impute`
    refused : sequence of str
        Options of `impute` that were given, and that need the whole table in memory.

    Examples
    --------
    >>> import hybridbn as hb
    >>> scan = hb.scan({"x": [1.0, 2.0, None, 4.0] * 9, "c": ["a", None, "b", "b"] * 9})
    >>> completed = hb.impute(scan, random_state=0)
    >>> completed.missing
    {'x': 0, 'c': 0}
    """
    if refused:
        raise TableError(f"{shorten(refused)}: not for a scan, whose rows are read in passes; leave them out")
    sample = data.sample(purpose="imputation models")
    if network is not None:
        fitted: FittedImputation = use_network(network, open_frame(sample.to_arrow()), settings)
    else:
        fitted = fit_imputation(sample, settings, integer_ranges(open_frame(sample.to_arrow())))
    discrete = tuple(
        name
        for name in sample.names
        if isinstance(variable := sample.variable(name), Discrete)
        and variable.cuts is None
        and all(type(state) in (int, float) for state in variable.states)
    )
    made = []
    for number, model in enumerate(fitted.models(draws)):
        columns = tuple(model.columns.variables)
        own = tuple(name for name in discrete if name in columns)
        made.append(data.transform(RowFiller(model, strategy, fitted.seed + number, own, columns)))
    return made[0] if draws is None else made
