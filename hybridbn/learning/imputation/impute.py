"""`impute`: fill the missing cells of a table by draws from a Bayesian network of its columns."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import partial
from typing import Any, Literal, TypeVar, Unpack, overload

import numpy as np
from numpy.typing import NDArray

from hybridbn.errors import TableError, gather_remarks, warn_user
from hybridbn.estimation.completion import (
    Keys,
    count_repeats,
    find_open_rows,
    hash_cells,
    hash_identifiers,
    hash_rows,
    tell_apart,
)
from hybridbn.fitting.base import Potentials
from hybridbn.inference.posteriors import DiscretePosterior
from hybridbn.learning.imputation.data_augmentation import (
    DRAW_OPTIONS,
    Filler,
    FittedImputation,
    Settings,
    fit_imputation,
    use_network,
)
from hybridbn.learning.imputation.model import (
    IncompleteRows,
    check_names,
    count_outside,
    integer_ranges,
    leave_out,
    read_rows,
    remark_on_outside,
)
from hybridbn.network import Network
from hybridbn.options import (
    ColumnKeywords,
    ImputationOptions,
    KindKeywords,
    Marks,
    Options,
    PrecisionKeywords,
    Strategy,
    check_choice,
    check_level,
    list_given,
    resolve_options,
)
from hybridbn.structures.building import Structure
from hybridbn.tables import Rows, Table
from hybridbn.tables.cells import Unknown
from hybridbn.tables.columns import Frame, column_adapter, open_frame
from hybridbn.variables import Discrete, shorten

_LEARNING = frozenset(one.name for one in fields(ImputationOptions))

_Frame = TypeVar("_Frame")


class LearningKeywords(PrecisionKeywords, total=False):
    """The keywords of `impute` that are fields of `ImputationOptions`, and those of inference."""

    potentials: Potentials
    include: str | Iterable[str]
    bounds: Mapping[str, Any] | str | None
    integers: str | Iterable[str] | None
    full_precision: bool
    donors: bool
    rules: bool
    rounds: int | None
    random_state: Any


class ImputeKeywords(LearningKeywords, ColumnKeywords, total=False):
    """The keywords of `impute` that don't change the type of its result."""

    skip: str | Iterable[str]
    indicators: bool
    keys: Any
    unknown: Unknown
    options: Options | None


@overload
def impute(
    data: _Frame,
    draws: None = None,
    strategy: Strategy = "draw",
    network: Network | None = None,
    structure: Structure = "auto",
    target: str | None = None,
    *,
    details: Literal[False] = False,
    **keywords: Unpack[ImputeKeywords],
) -> _Frame: ...


@overload
def impute(
    data: _Frame,
    draws: int,
    strategy: Strategy = "draw",
    network: Network | None = None,
    structure: Structure = "auto",
    target: str | None = None,
    *,
    details: Literal[False] = False,
    **keywords: Unpack[ImputeKeywords],
) -> list[_Frame]: ...


@overload
def impute(
    data: Any,
    draws: int | None = None,
    strategy: Strategy = "draw",
    network: Network | None = None,
    structure: Structure = "auto",
    target: str | None = None,
    *,
    details: Literal[True],
    **keywords: Unpack[ImputeKeywords],
) -> Imputation: ...


@gather_remarks()
def impute(
    data: Any,
    draws: int | None = None,
    strategy: Strategy = "draw",
    network: Network | None = None,
    structure: Structure = "auto",
    target: str | None = None,
    *,
    discrete: str | Iterable[str] = (),
    continuous: str | Iterable[str] = (),
    ordered: str | Iterable[str] = (),
    missing: Marks = None,
    skip: str | Iterable[str] = (),
    indicators: bool = False,
    details: bool = False,
    keys: Any = None,
    unknown: Unknown = "error",
    options: Options | None = None,
    **keywords: Unpack[LearningKeywords],
) -> Any:
    """Fill the holes of a table.

    A network of all columns is learned from the incomplete table, unless one is given, and all missing cells of a row
    are filled together, given its observed cells. The frame that comes back is of the same kind, with the same
    dtypes, categories, index and column order; the one that was given stays as it is.

    Parameters
    ----------
    data : DataFrame, pyarrow table, mapping of arrays, list of records, structured array or Table
        Whatever `Table` takes. None, NaN and NA are missing; text such as "NA" is an ordinary state. Columns that can't
        be imputed are left alone, and named in one warning: identifiers, free text, columns without any value, and
        those of unusable types, such as lists.
    draws : int, optional
        Return a list of this many completed tables. They differ by the uncertainty about the cells and about the
        network's parameters (proper multiple imputation): analyze each and `pool` the results. Without it, one table.
    strategy : {"draw", "mean", "most_probable"}
        "draw": a draw from the joint posterior of a row's missing cells, the only choice that keeps variances and
        correlations. "mean": the expected number, and the most probable state. That has the least error cell by cell,
        but variances shrink, correlations grow and every interval computed from the result is too short; it warns.
        "most_probable": the most probable combination of a row's cells, with the same disadvantage. A number is a heavy
        point, such as zero, where that is more probable than all other numbers together.
    network : Network, optional
        Use it as it is, instead of learning one. Columns that it does not have must be complete or skipped. A network
        that imputation learned (`Imputation.network`, `Imputer.network_`, or ``hybridbn impute --save-model``) brings
        its bounds, decimals, donors and constants along.
    structure : "auto", name or builder of `hybridbn.structures`, list of arcs, or Network whose arcs are used
        "auto": discrete columns depend on each other, numbers on discrete columns and on other numbers, by linear
        regressions with normal errors (and see `donors`). "tan", "chow_liu", "naive_bayes", ... are mixed networks of
        mixtures of truncated exponentials, which follow shapes that are not normal but fewer dependences.
    target : str, optional
        The target of a structure that has one; by default the column with the most information about the others.
    potentials : as in `hybridbn.fit`
        Anything but "auto" makes "auto" structures trees ("chow_liu").
    discrete, continuous, ordered : str or iterable of str
        Columns to read differently than by their types, as in `Table`.
    missing : mapping from column to values, or values
        What marks missing cells, such as ``{"sex": [9]}``, in some columns or in all; these cells are filled, too.
    skip : str or iterable of str
        Columns to leave as they are; they are not even read. Columns of types that no variable has, such as lists,
        are left as they are, too, with a warning.
    include : str or iterable of str
        Columns to complete from their own values, although all of these differ, as those of identifiers do.
    bounds : mapping from column to (low, high), or "observed"
        Draws come from the posterior given that the number lies between these (None: no bound). "observed", for one
        column or for all: between the least and the greatest observed value. Observed cells are not checked.
    integers : str or iterable of str, optional
        Columns of numbers to round. By default those that are whole in every observed cell; columns of an integer type
        always. With `network` only columns of an integer type and those named here, as a few rows must not decide it.
    full_precision : bool
        Leave imputed numbers unrounded. By default they get as many decimals as nearly all observed numbers of their
        column have, if these are six at most and there are at least 20 numbers; for whole numbers see `integers`.
    donors : bool
        Predictive mean matching: with a learned network of linear regressions without hidden nodes, numbers that these
        describe badly (skewed, with spikes, along curves) are drawn again given all other cells of their rows, in turn
        and several times where several are missing. They become the observed number of a row for which a regression and
        a forest predict the same, or of one that shares leaves of the forest, where held-out rows say that this is
        better.
    rules : bool
        Imputed numbers are what numbers of their column can be: not below zero where none is, not above one or a
        hundred where these end the scale. Where at least 50 rows show it, and chance would hardly make all of them do
        so, they also keep clock times (such as 1745), codes, multiples (of 5, of 100), sums of columns (totals, shares
        that add up to 100) and orders (one number never above another); a warning names these. With False they keep
        none of it.
    indicators : bool
        Add a column of truth values ``<name>_imputed`` for each column that had holes.
    details : bool
        Return an `Imputation`, which has the tables, the network, and the posterior of each cell.
    keys : str or sequence, optional
        A column's name, or an identifier for each row. A row's random numbers depend on its key and `random_state`
        alone. By default the key is made of the row's observed cells (and a count, where several rows are equal), so a
        given network fills a row alike whatever the other rows and their order are; of a scan that takes a pass.
        ``range(len(data))`` gives the same draws as the command.
    unknown : {"error", "missing"}
        With `network`: refuse states that it doesn't know; or leave them as they are and ignore them as evidence about
        other cells, with a warning.
    rounds : int, optional
        How often draws and learning alternate; by default until drawn cells no longer drift.
    random_state : int, Generator or None
    options : Options, optional
        The options of posteriors, by default ``Options(tolerance=1e-6)``; or its attributes as keywords, `tolerance`,
        `max_bytes`, `beyond`, `seconds` and `n_jobs`, the number of threads that share the rows of large tables, with
        the same result.

    Returns
    -------
    frame like `data`, list of such frames where `draws` is given, or Imputation
        Of a scan another scan, whose rows are completed while they are read: ``impute(scan).write("new.parquet")``.

    Notes
    -----
    The network is learned by data augmentation: from the available cases first, then from tables completed by its own
    draws, so that it is right where cells are missing depending on observed ones (MAR). Each of several `draws` has
    parameters of its own, learned in the same way with the weights of a Bayesian bootstrap. No method without further
    assumptions can detect cells that are missing depending on their own values (MNAR).

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
    learning: dict[str, Any] = {name: value for name, value in keywords.items() if name in _LEARNING}
    precision = {name: value for name, value in keywords.items() if name not in _LEARNING}
    settings = Settings(
        strategy=strategy,
        structure=structure,
        target=target,
        **learning,
        options=resolve_options("impute", options, precision, default=DRAW_OPTIONS, impossible="raise"),
    )
    if network is not None:
        _refuse_learning(settings)
    impute_frame = partial(
        _impute_frame,
        settings=settings,
        network=network,
        draws=draws,
        columns={"discrete": discrete, "continuous": continuous, "ordered": ordered},
        missing=missing,
        skip=skip,
        indicators=indicators,
        details=details,
        keys=keys,
        unknown=unknown,
    )
    if not isinstance(data, Rows):
        return impute_frame(data)
    refused = list_given({"discrete": discrete, "continuous": continuous, "ordered": ordered, "missing": missing})
    whole_only = {"skip": skip, "indicators": indicators, "details": details, "keys": isinstance(keys, str)}
    refused += [name for name, value in whole_only.items() if value not in ((), False)]
    return data.answer_when_asked(impute_frame, partial(_impute_passes, settings, network, draws, keys, refused))


def _impute_frame(
    data: Any,
    settings: Settings,
    network: Network | None,
    draws: int | None,
    columns: KindKeywords,
    missing: Marks,
    skip: str | Iterable[str],
    indicators: bool,
    details: bool,
    keys: Any,
    unknown: str,
) -> Any:
    """Return a frame without holes, several of them, or all that is known of them."""
    whole = open_frame(data)
    settings = _name_columns(settings, whole)
    frame = leave_out(whole, skip).blank(missing)
    if network is not None:
        fitted = use_network(network, frame, settings)
        rows = read_rows(frame, fitted.model, unknown)
    else:
        table, unusable = Table(frame, **columns).read_usable()
        frame = frame.select(table.names)
        fitted = fit_imputation(table, settings, integer_ranges(frame), unusable)
        rows = read_rows(frame, fitted.model, "error", declared=table)
        fitted.model.columns.rules.tell()
    keys_of_rows = _keys_of_rows(rows, whole, keys)
    if settings.strategy == "mean" and rows.holes:
        warn_user(
            "imputing expected values makes variances too small and correlations too large: fine to predict single "
            "cells, "
            "wrong for any estimate computed from the completed table; strategy='draw' with draws=20 and hb.pool are "
            "right",
        )
    indicator_columns = _indicator_columns(rows, whole) if indicators else {}
    tables, outside = [], Counter[str]()
    ranges = {name: rows.readings.value_range(name) for name in rows.holes if not rows.readings.is_discrete(name)}
    for number, model in enumerate(fitted.models(draws)):
        fills = model.fill(rows, settings.strategy, keys_of_rows, fitted.seed + number)
        outside += count_outside([fills], ranges, usual=False)
        tables.append(model.complete(rows, fills, indicator_columns))
    remark_on_outside(outside, ranges, fitted.model.columns.variables)
    return Imputation(fitted, rows, tables) if details else tables[0] if draws is None else tables


def _name_columns(settings: Settings, frame: Frame) -> Settings:
    """Return the settings with columns named as a table of the frame names them."""
    return replace(
        settings,
        target=None if settings.target is None else frame.find_names(settings.target)[0],
        potentials=frame.find_keys(settings.potentials),
        include=frame.find_names(settings.include),
        bounds=frame.find_keys(settings.bounds),
        integers=None if settings.integers is None else frame.find_names(settings.integers),
    )


def _impute_passes(
    settings: Settings, network: Network | None, draws: int | None, keys: Any, refused: Sequence[str], data: Rows
) -> Any:
    """Return rows that are completed while they are read, by a model of a sample of them."""
    if refused:
        raise TableError(f"{shorten(refused)}: not for a scan, whose rows are read in passes; leave them out")
    sample = data.read_usable()[0].sample(purpose="imputation models")
    frame = open_frame(sample.to_arrow())
    settings = _name_columns(settings, frame)
    fitted = (
        fit_imputation(sample, settings, integer_ranges(frame))
        if network is None
        else use_network(network, frame, settings)
    )
    completed = complete_batches(data, Filler.of(fitted, settings.strategy, draws), keys)
    return completed[0] if draws is None else completed


def _check_options(draws: Any, strategy: Any, unknown: Any) -> None:
    check_choice(strategy, "strategy", ("draw", "mean", "most_probable"))
    check_choice(unknown, "unknown", ("error", "missing"))
    if draws is None:
        return
    if isinstance(draws, bool) or not isinstance(draws, int | np.integer) or draws < 1:
        raise TableError(f"draws must be a positive integer or None, not {draws!r}")
    if strategy != "draw":
        raise TableError(f"draws={draws} of strategy={strategy!r} would all be equal; leave one of the two out")


def _refuse_learning(settings: Settings) -> None:
    is_automatic = isinstance(settings.structure, str) and settings.structure == "auto"
    if not is_automatic or settings.target is not None or settings.rounds is not None:
        raise TableError(
            "a network is used as it is, so structure=, target= and rounds= say nothing; leave them out, or give "
            "structure=network "
            "to keep its arcs only and learn the rest"
        )


def _keys_of_rows(rows: IncompleteRows, whole: Frame, keys: Any) -> Keys:
    if keys is None:
        return hash_rows(rows.working) if rows.working.names else hash_identifiers(range(whole.rows), whole.rows)
    if isinstance(keys, str):
        check_names("keys", keys, whole.columns)
        keys = Table(whole.select([keys])).raw(keys)
    return hash_identifiers(keys, whole.rows)


def _indicator_columns(rows: IncompleteRows, whole: Frame) -> dict[str, NDArray[np.bool_]]:
    indicators = {f"{name}_imputed": holes for name, holes in rows.holes.items()}
    clashes = [name for name in indicators if name in whole.columns]
    if clashes:
        raise TableError(f"indicators: the table already has columns {shorten(clashes)}; rename them")
    return indicators


@dataclass(eq=False)
class Imputation:
    """The result of `impute` with ``details=True``: completed tables, the network and the posteriors of missing cells.

    Attributes
    ----------
    tables : list of frames
    """

    _fitted: FittedImputation = field(repr=False)
    _rows: IncompleteRows = field(repr=False)
    tables: list[Any] = field(repr=False)

    @property
    def history(self) -> list[dict[str, Any]]:
        """A summary of the draws in each round of learning, which should look stable.

        For each column with holes: mean and standard deviation of the drawn numbers, or the share of the most drawn
        state.
        """
        return self._fitted.history

    @property
    def table(self) -> Any:
        """The first completed table."""
        return self.tables[0]

    @property
    def network(self) -> Network | None:
        """The network that the cells were drawn from; None where nothing depends on anything.

        Its metadata hold constants, bounds and the like, so that ``impute(rows, network=...)`` completes rows as here.
        """
        model = self._fitted.model
        return None if model.completion is None else model.network

    @property
    def imputed(self) -> dict[str, NDArray[np.bool_]]:
        """The mask of missing cells of each column that had any."""
        return {name: holes.copy() for name, holes in self._rows.holes.items()}

    def cells(self, level: float = 0.9) -> Any:
        """Return the posterior of each missing cell as a DataFrame, a row for each cell.

        Its columns are ``row`` (a position) and ``column``; of numbers ``mean``, ``sd`` and the ends ``low`` and
        ``high`` of the interval that holds the number with the probability `level`; of discrete cells the most probable
        ``state`` and its ``probability``. All are given the network, whose own uncertainty several `draws` show.

        Examples
        --------
        >>> import pandas as pd
        >>> frame = pd.DataFrame({"x": [1.0, 2.0, 3.0, 4.2, 5.1, None], "y": [1.1, 2.1, 2.9, 4.0, 5.0, 3.5]})
        >>> cells = impute(frame, details=True, random_state=0).cells()
        >>> cells[["row", "column"]].values.tolist(), bool(3 < cells["mean"][0] < 4)
        ([[5, 'x']], True)
        """
        import pandas

        check_level(level)
        completion = self._fitted.model.completion
        posteriors = {} if completion is None else completion.posteriors(self._rows.working)
        listings = []
        for name, holes in self._rows.holes.items():
            rows = np.flatnonzero(holes)
            listed: dict[str, Any] = {"row": rows, "column": name}
            constants = self._fitted.model.columns.constants
            if name in posteriors:
                listed |= _describe_posterior(posteriors[name][rows], level)
            elif name in constants:
                listed |= (
                    {"probability": 1.0, "state": constants[name]}
                    if isinstance(constants[name], str)
                    else {"mean": self._fitted.model.columns.variables[name].restore(constants[name])}
                )
            listings.append(pandas.DataFrame(listed))
        columns = ["row", "column", "mean", "sd", "low", "high", "state", "probability"]
        empty = pandas.DataFrame({name: [] for name in columns})
        return pandas.concat(listings, ignore_index=True).reindex(columns=columns) if listings else empty

    def __repr__(self) -> str:
        cells = sum(int(holes.sum()) for holes in self._rows.holes.values())
        return f"<Imputation: {len(self.tables)} tables of {self._rows.frame.rows} rows, {cells} cells imputed>"


def _describe_posterior(posterior: Any, level: float) -> dict[str, Any]:
    if isinstance(posterior, DiscretePosterior):
        return {"state": posterior.mode(), "probability": posterior.probabilities.max(axis=1)}
    low, high = posterior.interval(level).T
    return {"mean": posterior.mean(), "sd": posterior.std(), "low": low, "high": high}


def _count_equal_rows(data: Rows, filler: Filler) -> tuple[NDArray[np.intp], Keys]:
    """Return the places of the incomplete rows before which there were equal ones, and how many, in a pass."""
    parts = list(data.answer(partial(_hash_open_rows, filler), [data.variable(name) for name in filler.names]))
    places, hashes = (np.concatenate([part[number] for part in parts]) for number in (0, 1))
    counts = count_repeats(hashes)
    return places[counts > 0], counts[counts > 0]


def _hash_open_rows(filler: Filler, table: Table, first: int) -> tuple[NDArray[np.intp], Keys]:
    """Return the places of the incomplete rows of a batch, and hashes of their cells."""
    open_rows = find_open_rows(table)
    return open_rows + first, hash_cells(filler.read(open_frame(table.take(open_rows))).working)


def _key_by_cells(repeated: NDArray[np.intp], repeats: Keys, rows: IncompleteRows, places: NDArray[np.intp]) -> Keys:
    """Return keys made of the observed cells of some rows, given where rows are repeated, and how often before."""
    if not rows.working.names:
        return hash_identifiers(places, len(places))
    counts = np.zeros(len(places), dtype=np.uint64)
    position = np.searchsorted(repeated, places)
    equal = np.flatnonzero(position < len(repeated))
    equal = equal[repeated[position[equal]] == places[equal]]
    counts[equal] = repeats[position[equal]]
    return tell_apart(hash_cells(rows.working), counts)


def _take_keys(keys: Keys, rows: IncompleteRows, places: NDArray[np.intp]) -> Keys:
    """Return the keys of some rows among those of all rows."""
    return keys[places]


def _fill_batch(
    filler: Filler,
    draw: int,
    find_keys: Callable[[IncompleteRows, NDArray[np.intp]], Keys],
    discrete: Sequence[str],
    first: int,
    table: Any,
) -> Any:
    """Return an Arrow table without holes, its types as they were; `first` is the place of its first row.

    Parameters
    ----------
    find_keys : callable
        From rows and their places to their keys.
    discrete : sequence of str
        Columns of numbers that are read as states.
    """
    import pyarrow
    from pyarrow import compute

    whole = table.select(filler.names)
    masks = [compute.is_null(column, nan_is_null=True).to_numpy() for column in whole.columns]
    open_rows = np.flatnonzero(np.any(masks, axis=0))
    if not len(open_rows):
        return table
    frame = open_frame(whole.take(pyarrow.array(open_rows)))
    rows = filler.read(frame, Table(frame, discrete=discrete) if discrete else None)
    keys = find_keys(rows, open_rows + first)
    completed = filler.models[draw].complete(rows, filler.fill(rows, keys, draw), {})
    for name, mask in zip(whole.column_names, masks, strict=True):
        if mask.any():
            place = table.column_names.index(name)
            adapter, old = column_adapter("arrow"), table.column(place)
            filled = adapter.insert(old, open_rows, adapter.fit(completed.column(name), old.type))
            table = table.set_column(place, table.schema.field(place), filled)
    return table


def complete_batches(data: Any, filler: Filler, keys: Any) -> list[Any]:
    """Return a scan for each draw, whose rows are completed while they are read.

    Parameters
    ----------
    data : Scan
    keys : as in `impute`

    Examples
    --------
    >>> import hybridbn as hb
    >>> scan = hb.scan({"x": [1.0, 2.0, None, 4.0] * 9, "c": ["a", None, "b", "b"] * 9})
    >>> completed = hb.impute(scan, random_state=0)
    >>> completed.missing
    {'x': 0, 'c': 0}
    """
    discrete = tuple(
        variable.name
        for variable in map(data.variable, filler.names)
        if isinstance(variable, Discrete)
        and variable.cuts is None
        and all(type(state) in (int, float) for state in variable.states)
    )
    find_keys = (
        partial(_key_by_cells, *_count_equal_rows(data, filler))
        if keys is None
        else partial(_take_keys, hash_identifiers(keys, len(data)))
    )
    return [
        data.transform(partial(_fill_batch, filler, draw, find_keys, discrete), keep_observed=True)
        for draw in range(len(filler.models))
    ]
