"""`impute`: a table with holes in, completed tables out."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Unpack

import numpy as np
from numpy.typing import NDArray

from hybridbn.errors import TableError
from hybridbn.estimation.row_uniforms import Keys, hash_identifiers, hash_rows
from hybridbn.fitting.fitter_choice import Potentials
from hybridbn.inference.posteriors.base import DiscretePosterior
from hybridbn.learning.imputation.columns import integer_ranges, leave_out
from hybridbn.learning.imputation.data_augmentation import DRAW_OPTIONS, Fitted, Settings, fit_imputation, use_network
from hybridbn.learning.imputation.model import Rows, rows_of
from hybridbn.network import Network
from hybridbn.options import Options, PrecisionKeywords, resolve_options
from hybridbn.tables import Table
from hybridbn.tables.frames import Frame, open_frame
from hybridbn.variables import shorten

__all__ = ["Imputation", "impute"]

_STRATEGIES = ("draw", "mean", "most_probable")


def impute(
    data: Any,
    draws: int | None = None,
    strategy: str = "draw",
    network: Network | None = None,
    structure: Any = "auto",
    target: str | None = None,
    *,
    potentials: Potentials = "auto",
    discrete: str | Iterable[str] = (),
    continuous: str | Iterable[str] = (),
    skip: str | Iterable[str] = (),
    include: str | Iterable[str] = (),
    bounds: Mapping[str, Any] | str | None = None,
    integers: str | Iterable[str] | None = None,
    full_precision: bool = False,
    donors: bool = True,
    indicators: bool = False,
    details: bool = False,
    keys: Any = None,
    unknown: str = "error",
    rounds: int | None = None,
    random_state: Any = None,
    options: Options | None = None,
    **keywords: Unpack[PrecisionKeywords],
) -> Any:
    """Fill the holes of a table.

    A network of all columns is learned from the incomplete table, unless one is given, and all missing cells of a row
    are filled together, given its observed cells. The frame that comes back is of the same kind, with the same
    dtypes, categories, index and column order; the one that was given stays as it is.

    Parameters
    ----------
    data : DataFrame, pyarrow table, mapping of arrays, list of records, structured array or Table
        Whatever `Table` takes. None, NaN and NA are missing; text such as "NA" is an ordinary state.
    draws : int, optional
        Return a list of so many completed tables, which differ as much as is unknown, the network's parameters
        included (proper multiple imputation): analyze each and `pool` the results. Without it, one table.
    strategy : {"draw", "mean", "most_probable"}
        "draw": a draw from the joint posterior of a row's missing cells, the only choice that keeps variances and correlations.
        "mean": the expected number, and the most probable state. That has the least error cell by cell, but
        variances shrink, correlations grow and every interval computed from the result is too short; it warns.
        "most_probable": the most probable combination of a row's cells, with the same disadvantage.
    network : Network, optional
        Use it as it is, instead of learning one. Columns that it does not have must be complete or skipped. One that imputation
        learned (`Imputation.network`, `Imputer.network_`, or ``hybridbn impute --save-model``) brings its bounds, decimals, donors and
        constants along.
    structure : "auto", name or builder of `hybridbn.structures`, list of arcs, or Network whose arcs are used
        "auto": discrete columns depend on each other, numbers on discrete columns and on other numbers, by linear
        regressions with normal errors (and see `donors`). "tan", "chow_liu", "naive_bayes", ... are mixed networks of mixtures of truncated
        exponentials, which follow shapes that are not normal but fewer dependences.
    target : str, optional
        For a structure that has one; by default the column that tells most about the others.
    potentials : as in `hybridbn.fit`
        Anything but "auto" makes "auto" structures trees ("chow_liu").
    discrete, continuous : str or iterable of str
        Columns whose type does not say what they are, as in `Table`.
    skip : str or iterable of str
        Columns to leave as they are; they are not even read.
    include : str or iterable of str
        Columns to complete although all their values differ, as those of identifiers do: from their own values.
    bounds : mapping from column to (low, high), or "observed"
        Draws lie between these (None: no bound), exactly as the posterior says given that. "observed", for one column or
        for all: between the least and the greatest observed value. Observed cells are not checked.
    integers : str or iterable of str, optional
        Columns of numbers to round. By default those that are whole in every observed cell; columns of an integer type always.
        With `network`, where a few rows must not decide that, only these last and those named.
    full_precision : bool
        Leave imputed numbers unrounded. By default they get as many decimals as the observed ones of their column have, where that
        are six at most and at least 20 are observed; whole numbers are a matter of `integers`.
    donors : bool
        With a learned network of linear regressions without hidden nodes, numbers that these describe badly (skewed, with spikes, along curves) are
        drawn again given all other cells of their rows: the observed number of a row in which a regression and a forest
        expect the same, instead of one from a normal distribution.
    indicators : bool
        Add a column of truth values ``<name>_imputed`` for each column that had holes.
    details : bool
        Return an `Imputation`, which has the tables, the network, and the posterior of each cell.
    keys : str or sequence, optional
        A column's name, or an identifier for each row. A row's random numbers depend on its key and `random_state` alone. By
        default the key is made of the row's observed cells (and a count, where several rows have the same), so a given
        network fills a row alike whichever other rows are there, and in whatever order. ``range(len(data))`` gives what
        the command gives.
    unknown : {"error", "missing"}
        With `network`: refuse states that it doesn't know; or leave them as they are, and let them tell nothing about other cells, with a
        warning.
    rounds : int, optional
        How often draws and learning alternate before the network is taken; by default as the share of missing cells asks.
    random_state : int, Generator or None
    options : Options, optional
        Of posteriors, ``Options(tolerance=1e-6)`` by default; or its attributes as keywords, `tolerance` and `max_bytes`.

    Returns
    -------
    frame like `data`, list of such frames where `draws` is given, or Imputation

    Notes
    -----
    The network is learned by data augmentation: from the available cases first, then from tables completed by its own
    draws, so that it is right where cells are missing depending on observed ones (MAR). Each of several `draws` has
    parameters of its own, from a chain of the same kind in which the rows get the weights of a Bayesian bootstrap.
    Cells that are missing depending on their own values (MNAR) can't be told from others by any method without assumptions.

    Columns in which all observed cells are equal are filled with that value. A row without any observed cell is
    drawn from the distribution of all. A discrete hole only gets states that were observed.

    References
    ----------
    Rubin (1987), "Multiple Imputation for Nonresponse in Surveys"; Tanner & Wong (1987), "The calculation of posterior
    distributions by data augmentation", JASA 82.

    Examples
    --------
    >>> import pandas as pd
    >>> frame = pd.DataFrame({"age": [20.0, 30, None, 50, 60, 70], "ill": ["no", "no", "no", None, "yes", "yes"]})
    >>> filled = impute(frame, random_state=0)
    >>> int(filled.isna().sum().sum()), list(filled.columns), frame["age"].isna().sum().item()
    (0, ['age', 'ill'], 1)
    >>> tables = impute(frame, draws=5, random_state=0)
    >>> means = [table["age"].mean() for table in tables]
    >>> from hybridbn.learning import pool
    >>> pooled = pool(means, [table["age"].var() / len(table) for table in tables], complete_df=len(frame) - 1)
    """
    _check_options(draws, strategy, unknown)
    chosen = resolve_options("impute", options, keywords, default=DRAW_OPTIONS, impossible="raise")
    settings = Settings(
        structure=structure,
        target=target,
        potentials=potentials,
        include=include,
        bounds=bounds,
        integers=integers,
        full_precision=full_precision,
        donors=donors,
        rounds=rounds,
        random_state=random_state,
        options=chosen,
    )
    key_column = keys if isinstance(keys, str) else None
    whole = open_frame(data)
    frame = leave_out(whole, skip)
    if network is not None:
        _refuse_learning(structure, target, rounds)
        fitted = use_network(network, frame, settings)
        rows = rows_of(frame, fitted.model, unknown)
    else:
        table = Table(frame, discrete, continuous)
        fitted = fit_imputation(table, settings, integer_ranges(frame))
        rows = rows_of(frame, fitted.model, "error", declared=table)
    row = _keys(rows, whole, keys, key_column)
    if strategy == "mean" and rows.holes:
        warnings.warn(
            "imputing expected values makes variances too small and correlations too large: fine to predict single cells, "
            "wrong for any estimate computed from the completed table; strategy='draw' with draws=20 and hb.pool are right",
            stacklevel=2,
        )
    added = _indicators(rows, whole) if indicators else {}
    tables = []
    for number, model in enumerate(fitted.models(draws)):
        fills = model.fill(rows, strategy, row, fitted.seed + number)
        tables.append(model.complete(rows, fills, added))
    found = Imputation(fitted, rows, tables)
    if details:
        return found
    return found.table if draws is None else found.tables


def _check_options(draws: Any, strategy: Any, unknown: Any) -> None:
    if strategy not in _STRATEGIES:
        raise TableError(f"strategy must be one of {shorten(_STRATEGIES)}, not {strategy!r}")
    if unknown not in ("error", "missing"):
        raise TableError(f"unknown must be 'error' or 'missing', not {unknown!r}")
    if draws is None:
        return
    if isinstance(draws, bool) or not isinstance(draws, int | np.integer) or draws < 1:
        raise TableError(f"draws must be a positive integer or None, not {draws!r}")
    if strategy != "draw":
        raise TableError(f"draws={draws} of strategy={strategy!r} would all be equal; leave one of the two out")


def _refuse_learning(structure: Any, target: Any, rounds: Any) -> None:
    if not (isinstance(structure, str) and structure == "auto") or target is not None or rounds is not None:
        raise TableError(
            "a network is used as it is, so structure=, target= and rounds= say nothing; leave them out, or give structure=network "
            "to keep its arcs only and learn the rest"
        )


def _keys(rows: Rows, whole: Frame, keys: Any, column: str | None) -> Keys:
    if keys is None:
        return hash_rows(rows.working) if rows.working.names else hash_identifiers(range(whole.rows), whole.rows)
    if column is not None:
        if column not in whole.columns:
            raise TableError(f"keys={column!r}: there is no such column; the columns are {shorten(whole.columns)}")
        keys = Table(whole.select([column])).raw(column)
    return hash_identifiers(keys, whole.rows)


def _indicators(rows: Rows, whole: Frame) -> dict[str, NDArray[np.bool_]]:
    named = {f"{name}_imputed": holes for name, holes in rows.holes.items()}
    taken = [name for name in named if name in whole.columns]
    if taken:
        raise TableError(f"indicators: the table already has columns {shorten(taken)}; rename them")
    return named


@dataclass(eq=False)
class Imputation:
    """Completed tables and how they came about: what `impute` returns with ``details=True``.

    Attributes
    ----------
    tables : list of frames
    """

    _fitted: Fitted = field(repr=False)
    _rows: Rows = field(repr=False)
    tables: list[Any] = field(repr=False)

    @property
    def history(self) -> list[dict[str, Any]]:
        """What was drawn in each round of learning.

        For each column with holes, mean and standard deviation of the drawn numbers, or the share of the state that was
        drawn most: what should look stable.
        """
        return self._fitted.history

    @property
    def table(self) -> Any:
        """The first completed table."""
        return self.tables[0]

    @property
    def network(self) -> Network | None:
        """The network that the cells were drawn from; None where nothing depends on anything.

        It has a note on constants, bounds and the like, so that ``impute(rows, network=...)`` completes rows as here.
        """
        model = self._fitted.model
        return None if model.completion is None else model.network

    @property
    def imputed(self) -> dict[str, NDArray[np.bool_]]:
        """Where each column had holes, of those that had any."""
        return {name: holes.copy() for name, holes in self._rows.holes.items()}

    def cells(self, level: float = 0.9) -> Any:
        """Return the posterior of each missing cell as a DataFrame, a row for each cell.

        Its columns are ``row`` (a position) and ``column``; of numbers ``mean``, ``sd`` and the ends ``low`` and ``high`` of
        the interval that holds the number with the probability `level`; of discrete cells the most probable ``state``
        and its ``probability``. All are given the network, whose own uncertainty several `draws` show.

        Examples
        --------
        >>> import pandas as pd
        >>> frame = pd.DataFrame({"x": [1.0, 2.0, 3.0, 4.2, 5.1, None], "y": [1.1, 2.1, 2.9, 4.0, 5.0, 3.5]})
        >>> cells = impute(frame, details=True, random_state=0).cells()
        >>> cells[["row", "column"]].values.tolist(), bool(3 < cells["mean"][0] < 4)
        ([[5, 'x']], True)
        """
        import pandas

        if not 0 < level < 1:
            raise TableError(f"the level of an interval lies between 0 and 1, not {level!r}")
        completion = self._fitted.model.completion
        found = {} if completion is None else completion.posteriors(self._rows.working)
        parts = []
        for name, holes in self._rows.holes.items():
            places = np.flatnonzero(holes)
            part: dict[str, Any] = {"row": places, "column": name}
            constants = self._fitted.model.columns.constants
            if name in found:
                part |= _described(found[name][places], level)
            elif name in constants:
                part |= (
                    {"probability": 1.0, "state": constants[name]}
                    if isinstance(constants[name], str)
                    else {"mean": constants[name]}
                )
            parts.append(pandas.DataFrame(part))
        columns = ["row", "column", "mean", "sd", "low", "high", "state", "probability"]
        empty = pandas.DataFrame({name: [] for name in columns})
        return pandas.concat(parts, ignore_index=True).reindex(columns=columns) if parts else empty

    def __repr__(self) -> str:
        cells = sum(int(holes.sum()) for holes in self._rows.holes.values())
        return f"<Imputation: {len(self.tables)} tables of {self._rows.frame.rows} rows, {cells} cells imputed>"


def _described(posterior: Any, level: float) -> dict[str, Any]:
    if isinstance(posterior, DiscretePosterior):
        return {"state": posterior.mode(), "probability": posterior.probabilities.max(axis=1)}
    low, high = posterior.interval(level).T
    return {"mean": posterior.mean(), "sd": posterior.std(), "low": low, "high": high}
