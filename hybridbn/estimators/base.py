"""What the scikit-learn estimators share: features, targets and weights are checked and read, networks learned from
them, and posteriors of rows asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from functools import partial
from numbers import Number
from typing import Any, Literal, Self, TypeAlias, Unpack

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.utils import _safe_indexing, check_array, check_consistent_length, column_or_1d
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from hybridbn.errors import NetworkError, TableError, remark, warn_user
from hybridbn.estimation.available_cases import read_as_declared
from hybridbn.estimation.em import expectation_maximization
from hybridbn.estimators.sklearn_bases import BaseEstimator
from hybridbn.fitting import Statistics, fitter_of, roles
from hybridbn.fitting.base import Potentials
from hybridbn.inference.queries import allow_draws
from hybridbn.network import Network
from hybridbn.options import ColumnKeywords, Marks, Options, check_choice, split_missing
from hybridbn.structures.building import BUILDERS, Build, Structure
from hybridbn.structures.training_data import collect_statistics
from hybridbn.tables import Rows, Table, declare_rows
from hybridbn.tables.cells import state_kind
from hybridbn.tables.columns import Frame, check_column_names, frame_adapter, open_frame
from hybridbn.tables.scales import describe_constants, is_constant
from hybridbn.units import Unit
from hybridbn.variables import Codes, Continuous, Discrete, Values, Variable, find_unused_name, shorten


@dataclass(frozen=True)
class Stream:
    """All that naive Bayes has to know of the rows so far.

    Attributes
    ----------
    target : str
    roles : mapping from column to Role
        Fixed by the first rows: states, cut points and heavy points of later ones are read against these variables.
    statistics : mapping from column to Statistics
        Of the target, then of each column given the target.
    ranges : mapping from column to (low, high)
        Of the columns of numbers but the target; (inf, -inf) where no cell was observed.

    Examples
    --------
    >>> tables = [Table({"x": [1.0, 2.0], "c": ["a", "b"]}), Table({"x": [4.0, 7.0], "c": ["b", "a"]})]
    >>> stream = Stream.of(tables[0], "c", "gaussian").plus(tables[1])
    >>> stream.network().potential("x").intercept
    array([4., 3.])
    >>> stream.ranges
    {'x': (1.0, 7.0)}
    """

    target: str
    roles: Mapping[str, Any]
    statistics: Mapping[str, Statistics]
    ranges: Mapping[str, tuple[float, float]]

    @classmethod
    def of(cls, table: Table, target: str, potentials: Potentials) -> Self:
        """Return the stream that begins with these rows."""
        found = roles(table, target, potentials)
        # the target first, as the builder has it
        return cls(target, {target: found[target], **found}, {}, {}).plus(table)

    def plus(self, table: Table) -> Self:
        """Return the stream with more rows, which must have been read against `variables`."""
        parents = {name: () if name == self.target else (self.target,) for name in self.roles}
        more: Mapping[str, Statistics] = table.learn(partial(collect_statistics, roles=self.roles, parents=parents))
        known, ranges = self.statistics, dict(self.ranges)
        for name in self.roles:
            if name != self.target and not table.is_discrete(name):
                (low, high), (least, most) = table.value_range(name), ranges.get(name, (np.inf, -np.inf))
                ranges[name] = min(low, least), max(high, most)
        added = {name: known[name] + more[name] if name in known else more[name] for name in self.roles}
        return replace(self, statistics=added, ranges=ranges)

    @property
    def variables(self) -> dict[str, Variable]:
        """The variable of each column."""
        return {name: role.variable for name, role in self.roles.items()}

    @property
    def constant(self) -> list[str]:
        """The columns of numbers that have had a single value so far."""
        return [name for name, ends in self.ranges.items() if is_constant(*ends)]

    @property
    def nbytes(self) -> int:
        """The memory of all statistics: little for tables and moments, that of the rows for families that need
        these.
        """
        attributes = [value for statistics in self.statistics.values() for value in vars(statistics).values()]
        arrays = [array for value in attributes for array in (value if isinstance(value, tuple) else (value,))]
        return sum(array.nbytes for array in arrays if isinstance(array, np.ndarray))

    def network(self) -> Network:
        """Return naive Bayes as the builder would make it of all rows together, without the constant columns."""
        constant = set(self.constant)
        return Network(
            [
                fitter_of(self.roles[name].fitter, statistics.child, statistics.parents).potential(statistics)
                for name, statistics in self.statistics.items()
                if name not in constant
            ]
        )


_KEPT = 2**20
"""Bytes of statistics that `fit` keeps for `partial_fit`: any tables and moments, but not the rows of a large table."""


@dataclass(eq=False, repr=False, kw_only=True)
class TableEstimator(BaseEstimator):
    """What classifier, regressor and imputer share: how tables are read, whose cells may be missing.

    Parameters are fields, as scikit-learn wants each of them stored as it is; subclasses add their own.
    """

    potentials: Potentials = "auto"
    discrete: str | Iterable[str] = ()
    continuous: str | Iterable[str] = ()
    ordered: str | Iterable[str] = ()
    target: str | None = None
    handle_unknown: HandleUnknown = "missing"
    max_bytes: float = 2.0 * 2**30

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags

    def _check_features(self, X: Any, y: Any = "no_validation", *, reset: bool) -> Any:
        """Return features that can be read, and are those of `fit` unless they are to be remembered as such."""
        check_choice(self.handle_unknown, "handle_unknown", ("missing", "error"))
        features = check_features(X)
        validate_data(self, features, y, reset=reset, skip_check_array=True)
        return features


@dataclass(eq=False, repr=False)
class HybridEstimator(TableEstimator):
    """The common part of `HybridClassifier` and `HybridRegressor`."""

    builder: Structure = "auto"
    _: KW_ONLY
    missing: Literal["available", "em"] | Marks = "available"
    tolerance: float = 1e-9
    n_jobs: int | None = None

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:
        text = str(super().__repr__(N_CHAR_MAX))
        if "missing=" in text or not text.endswith(")"):
            return text
        # what becomes of holes is shown even where it is the default
        return f"{text[:-1]}{'' if text.endswith('()') else ', '}missing={self.missing!r})"

    @property
    def _columns(self) -> ColumnKeywords:
        """What is declared of the columns."""
        _, marks = split_missing(self.missing, ("available", "em"))
        return {
            "discrete": self.discrete,
            "continuous": self.continuous,
            "ordered": self.ordered,
            "missing": marks,
        }

    @property
    def _maximizes_expectations(self) -> bool:
        return isinstance(self.missing, str) and self.missing == "em"

    # --- learning ---------------------------------------------------------------------------------------------------

    def _opened(self, X: Any, y: Any, read_target: Callable[[Any], NDArray[Any]], weights: Any, *, reset: bool) -> Any:
        """Return features, targets and weights of the rows that count, all checked."""
        features = self._check_features(X, y, reset=reset)
        if reset:
            self.target_name_: str = choose_target(
                self.target, y, name_columns(features), self._build().structure or ()
            )
        targets = read_target(y)
        check_consistent_length(features, targets)
        if weights is None:
            return features, targets, None
        weights = _check_sample_weight(weights, features, dtype=np.float64, ensure_non_negative=True)
        kept = weights > 0
        if not kept.all():
            # as if the others had never been there: no states, cut points or ranges of theirs
            features = _safe_indexing(features, np.flatnonzero(kept))
            targets, weights = targets[kept], weights[kept]
        return features, targets, weights

    def _table(self, features: Any, weights: Values | None) -> Table:
        """Read the features of `fit`, or of the first call of `partial_fit`."""
        table, unusable = read_usable_features(features, **self._columns)
        table, self._left_alone = table.leave_alone(
            self._build().structure or (), unusable, texts=True, constants=False
        )
        return table if weights is None else table.with_weights(weights)

    def _learn(self, table: Any) -> tuple[Network, Stream | None]:
        """Return the network of a table that holds the target, and what `partial_fit` could go on from."""
        prepared, build, potentials = self._prepare(table)
        if self._learns_naive_bayes():
            stream = Stream.of(table, self.target_name_, self.potentials)
            return stream.network(), stream if stream.nbytes <= _KEPT else None
        network = build.learn(prepared, self.target_name_, potentials)
        if self._maximizes_expectations and any(prepared.missing.values()):
            network = expectation_maximization(network, prepared, options=self._options).network
        return network, None

    def _build(self) -> Build:
        # boosting has a default of its own
        boosts = self._is_automatic() and getattr(self, "boost", None) is not None
        return Build.of(None if boosts else self.builder, "builder")

    def _prepare(self, table: Rows) -> tuple[Rows, Build, Potentials | None]:
        """Read the table as a structure says, and take columns of a single number out of it, of the structure and of
        the potentials, warning of them; potentials that are left open become None.
        """
        target, build = self.target_name_, self._build()
        if build.structure is not None and target not in build.structure:
            raise NetworkError(
                f"the structure given as builder has no node {target!r}, as y is called; its nodes are "
                f"{shorten(build.structure)}: say which of them y is with target="
            )
        table = read_as_declared(table, build.structure)
        names = [name for name in table.names if name != target]
        if len(table) == 1 and not all(map(table.is_discrete, names)):
            raise TableError(
                "X has 1 sample that counts; columns of numbers need two different values at least, to tell how they"
                " vary"
            )
        left_out = table.require_values(names).find_constants(names)
        if left_out:
            remark(constants=describe_constants(left_out, len(table)))
        self.constant_features_: NDArray[np.object_] = np.array(left_out, dtype=object)
        # a partial of a builder may have its own choice, which "auto" leaves alone
        potentials = None if isinstance(self.potentials, str) and self.potentials == "auto" else self.potentials
        absent = {*left_out, *self._left_alone}
        if isinstance(potentials, Mapping):
            potentials = {name: spec for name, spec in potentials.items() if name not in absent}
        return table.drop(left_out), build.drop(sorted(absent)), potentials

    def _is_automatic(self) -> bool:
        return isinstance(self.builder, str) and self.builder == "auto"

    def _learns_naive_bayes(self) -> bool:
        """Tell whether `fit` learns naive Bayes from statistics that add up."""
        named = isinstance(self.builder, str) and self.builder == "naive_bayes"
        plain = getattr(self, "boost", None) is None and not self._maximizes_expectations
        return (named or self.builder is BUILDERS.find("naive_bayes")) and plain

    def _streams(self) -> bool:
        """Tell whether there is a `partial_fit`: the structure must be known, and naive Bayes is; "auto" chooses it."""
        if self._learns_naive_bayes():
            return True
        if hasattr(self, "network_") and not hasattr(self, "_stream"):
            # the error of the attribute that is not there names this one as its cause
            raise NetworkError(
                f"partial_fit can't go on from fit, where builder={self.builder!r:.80} needs all rows at once; start"
                " anew with partial_fit on a clone, which learns naive Bayes if builder is 'auto'"
            )
        return self._is_automatic() and getattr(self, "boost", None) is None and not self._maximizes_expectations

    def _add_batch(
        self, features: Any, weights: Values | None, add_target: Callable[[Table], Table], *, first: bool
    ) -> Stream:
        """Return the stream with the rows of a call of `partial_fit`; the first one says how columns are read."""
        if first:
            return Stream.of(add_target(self._table(features, weights)), self.target_name_, self.potentials)
        variables = self._stream.variables.items()
        read = [variable for name, variable in variables if name != self.target_name_]
        table = read_against(features, read, self.handle_unknown, self._columns["missing"])
        return self._stream.plus(add_target(table if weights is None else table.with_weights(weights)))

    def _is_first_batch(self) -> bool:
        if hasattr(self, "_stream"):
            return False
        if hasattr(self, "network_"):
            raise NetworkError(
                "partial_fit can't go on from this fit: the families chosen need the rows themselves, which were too"
                " many to keep; start anew with partial_fit on a clone of this estimator"
            )
        return True

    def _keep(self, network: Network, stream: Stream | None) -> Self:
        """Keep what was learned, and what `partial_fit` goes on from."""
        self.network_ = network
        vars(self).pop("_stream", None)
        if stream is not None:
            self.constant_features_ = np.array(stream.constant, dtype=object)
            self._stream = stream
        return self

    def _learn_rows(self, rows: Rows, y: str, weights: Any, kind: type[Variable]) -> tuple[Network, Stream | None]:
        """Return what `_learn` does of rows, of which y names a column."""
        if y not in rows or self.target not in (None, y):
            raise TableError(f"y={y!r} must be the name of a column of X, which is the target")
        self.target_name_ = y
        table, self._left_alone = declare_rows(rows, weights).leave_alone((y,), texts=True, constants=False)
        if not isinstance(table.variable(y), kind):
            raise TableError(f"y={y!r} is {'discrete' if table.is_discrete(y) else 'a column of numbers'}")
        names = [name for name in rows.names if name != y]
        self.n_features_in_: int = len(names)
        self.feature_names_in_: NDArray[np.object_] = np.array(names, dtype=object)
        return self._learn(table)

    # --- asking -----------------------------------------------------------------------------------------------------

    def _evidence(self, X: Any) -> Rows:
        check_is_fitted(self, "network_")
        if isinstance(X, Rows):
            return X.answer_when_asked(self._read_features, self._select_features)
        return self._read_features(X)

    def _read_features(self, X: Any) -> Table:
        features = self._check_features(X, reset=False)
        variables = self._known_variables()
        read = [variables[name] for name in name_columns(features) if name in variables]
        return read_against(features, read, self.handle_unknown, self._columns["missing"])

    def _select_features(self, rows: Rows) -> Rows:
        known = self._known_variables()
        return rows.select(name for name in rows.names if name in known and name != self.target_name_)

    def _known_variables(self) -> dict[str, Variable]:
        """Return the variables as which the features are read."""
        return {variable.name: variable for variable in self.network_.variables}

    def _posterior(self, X: Any) -> Any:
        check_is_fitted(self, "network_")
        if hasattr(self, "ensemble_"):
            return self.ensemble_.posterior(self._evidence(X), options=self._options)
        return self.network_.posterior(self.target_name_, self._evidence(X), options=self._options)

    @property
    def _options(self) -> Options:
        options = Options(tolerance=self.tolerance, max_bytes=self.max_bytes, n_jobs=self.n_jobs)
        network: Network = self.network_ if hasattr(self, "network_") else Network()
        return allow_draws(network, self.target_name_, options)


HandleUnknown: TypeAlias = Literal["missing", "error"]


class _StrangeCell(TableError, TypeError):
    """A cell of an array that is neither text nor a number; scikit-learn's own encoders raise a TypeError there."""


# --- features -------------------------------------------------------------------------------------------------------


def check_features(X: Any) -> Any:
    """Return features as a frame with columns or as a two-dimensional array; refuse what is neither.

    Numbers in a list of rows that holds text as well stay numbers.

    Examples
    --------
    >>> check_features([[1.5, "a"], [2.5, None]])
    array([[1.5, 'a'],
           [2.5, None]], dtype=object)
    """
    if isinstance(X, Rows):
        X = X.answer_when_asked(Table.to_pandas, _refuse_passes)
    if hasattr(type(X), "columns") and hasattr(X, "__len__"):
        if len(X) == 0:
            raise TableError("X has 0 rows (0 samples); at least 1 is needed")
        return X
    if isinstance(X, list | tuple) and np.asarray(X).dtype.kind in "US":
        X = np.asarray(X, dtype=object)
    # infinite cells are left to the table, which names column and row
    return check_array(X, dtype=None, ensure_all_finite=False)


def _refuse_passes(rows: Rows) -> Any:
    raise TableError("X is a scan, so that y is the name of one of its columns, which is the target")


def name_columns(X: Any) -> list[str]:
    """Return the names that the columns have in the network: those of the frame, or x0, x1, ...

    Examples
    --------
    >>> name_columns(np.zeros((1, 2))), name_columns(pd.DataFrame({"a": [1], "b": [2]}))
    (['x0', 'x1'], ['a', 'b'])
    """
    if isinstance(X, np.ndarray):
        return [f"x{place}" for place in range(X.shape[1])]
    names = list(getattr(X, "column_names", X.columns))  # the columns of an Arrow table are no names
    if all(isinstance(name, int | np.integer) for name in names):
        return [f"x{place}" for place in range(len(names))]
    return check_column_names(names)


def open_features(X: Any) -> Frame:
    """Return what `check_features` returned as a frame whose columns have the names of `name_columns`.

    Examples
    --------
    >>> list(open_features(pd.DataFrame({0: [1.5], 1: [2.5]})).columns)
    ['x0', 'x1']
    """
    if isinstance(X, np.ndarray):
        return frame_adapter("matrix").open(X)
    names = name_columns(X)
    if isinstance(X, pd.DataFrame) and list(X.columns) != names:
        return replace(open_frame(X.set_axis(names, axis=1)), data=X)
    return open_frame(X)


def read_usable_features(X: Any, **columns: Unpack[ColumnKeywords]) -> tuple[Table, dict[str, str]]:
    """Read what `check_features` returned, or a frame of it, by the columns' own types, or as they are declared.

    Columns that can't be used are left out, and returned with the reasons. Cells of arrays must be text or numbers, as
    those of scikit-learn's own estimators.

    Examples
    --------
    >>> read_usable_features(np.array([[1.5, 2], [2.5, 3]]), discrete=["x1"])[0]
    Table: 2 rows, 2 columns
      x0  continuous            0 missing
      x1  discrete    2 states  0 missing  2, 3
    >>> read_usable_features(pd.DataFrame({"a": [1.5, 2.5], "b": [None, None]}))[1]
    {'b': 'no value'}
    """
    frame = X if isinstance(X, Frame) else open_features(X)
    try:
        table, unusable = Table(frame, **columns).read_usable()
    except TableError as error:
        _refuse_strange_cells(frame.data, error)
        raise
    if unusable and isinstance(frame.data, np.ndarray):
        _refuse_strange_cells(frame.data)
    return table, unusable


def read_against(X: Any, variables: Sequence[Variable], handle_unknown: HandleUnknown, missing: Marks = None) -> Table:
    """Read what `check_features` returned as a model's variables, without the values that mark missing cells.

    A value that is no state is missing, with one warning for all columns, or refused. One of another type (text where
    the states are numbers) is always refused, as is text in a column of numbers.
    """
    table = Table(open_features(X), variables=variables, unknown="missing", missing=missing)
    messages: list[str] = []
    for variable in variables:
        # reading is lazy: asking for the cells is what finds the faults
        cells = table.column(variable.name)
        if isinstance(variable, Discrete) and variable.cuts is None:
            messages += _describe_unknown_states(variable, cells, table)
    if messages and handle_unknown == "error":
        raise TableError(f"{'; '.join(messages)}; handle_unknown='missing' would treat such cells as missing")
    if messages:
        warn_user(f"{'; '.join(messages)}; such cells are treated as missing")
    return table


def _refuse_strange_cells(X: Any, error: TableError | None = None) -> None:
    """Say so where an array of objects holds what can't be a cell."""
    if not isinstance(X, np.ndarray) or X.dtype != object:
        return
    for (row, column), cell in np.ndenumerate(X):
        if not isinstance(cell, str | Number | np.bool_) and not (pd.api.types.is_scalar(cell) and pd.isna(cell)):
            raise _StrangeCell(
                f"column 'x{column}', row {row}: {str(cell)[:60]!r} is a {type(cell).__name__}; each cell of the"
                " argument must be a string or a number"
            ) from error


def _describe_unknown_states(variable: Discrete, codes: Codes, table: Table) -> list[str]:
    """Return a sentence if there are any; refuse values of another type than the states."""
    holes = np.flatnonzero(codes < 0) if codes.min(initial=0) < 0 else codes[:0]
    if not holes.size:
        return []
    raw = table.raw(variable.name)[holes]
    strange = np.flatnonzero(pd.notna(raw))
    if not strange.size:
        return []
    name, value, row = variable.name, raw[strange[0]], int(holes[strange[0]])
    known = {state_kind(state) for state in variable.states}
    if state_kind(value) not in known:
        raise TableError(
            f"column {name!r}, row {row}: {value!r} is of type {state_kind(value)}, but the states seen in fit are of"
            f" type {', '.join(sorted(known))}: {shorten(variable.states)}; give the column the type that it had in fit"
        )
    values = pd.unique(raw[strange])
    return [
        f"column {name!r}: {shorten(values.tolist(), 3)} (first in row {row}, {strange.size} cells in all)"
        f" {'is no state' if len(values) == 1 else 'are no states'} seen in fit; the known ones are"
        f" {shorten(variable.states)}"
    ]


# --- targets --------------------------------------------------------------------------------------------------------


def choose_target(wanted: str | None, y: Any, names: Sequence[str], nodes: Iterable[str] = ()) -> str:
    """Return the name of the target in the network, one that no feature has.

    It is the one asked for; else the only node of a given structure that is no feature; else the name of y; else "y".

    Examples
    --------
    >>> choose_target(None, pd.Series([1, 2], name="price"), ["x0"]), choose_target(None, [1, 2], ["y"])
    ('price', 'y_')
    """
    if wanted is not None:
        if not isinstance(wanted, str) or not wanted:
            raise TableError(f"target must be the name that y gets in the network, or None, not {wanted!r}")
        if wanted in names:
            raise TableError(
                f"target={wanted!r} is the name of a column of X; leave that column out, or choose another name"
            )
        return wanted
    others = [node for node in nodes if node not in names]
    if len(others) == 1:
        return others[0]
    own = getattr(y, "name", None)
    if isinstance(own, str) and own and own not in names:
        return own
    return find_unused_name("y", names)


def check_classes(y: Any) -> NDArray[Any]:
    """Return the targets of a classifier as a one-dimensional array without holes.

    Examples
    --------
    >>> check_classes([1, 0, None])
    Traceback (most recent call last):
        ...
    hybridbn.errors.TableError: y, row 2: the class is missing (1 such rows); leave these rows out
    """
    labels = column_or_1d(y, warn=True)
    bad = np.asarray(pd.isna(labels))
    if labels.dtype.kind == "f":
        bad |= np.isinf(labels)
    if bad.any():
        row = int(np.argmax(bad))
        what = "missing" if pd.isna(labels[row]) else "infinite"
        raise TableError(f"y, row {row}: the class is {what} ({int(bad.sum())} such rows); leave these rows out")
    if labels.dtype == object:
        # numbers and truth values that came in as objects
        labels = np.asarray(pd.Series(labels, dtype=object).infer_objects())
        kinds = {state_kind(label) for label in pd.unique(labels)} if labels.dtype == object else set()
        if len(kinds) > 1:
            raise TableError(
                f"Unknown label type: y mixes classes of several types ({', '.join(sorted(kinds))}); convert them all"
                " to text, or all to numbers"
            )
    check_classification_targets(labels)
    return np.asarray(labels)


def find_target_unit(y: Any) -> Unit | None:
    """Return the unit of targets that are dates, times or amounts; None for other numbers."""
    flat = column_or_1d(y)
    return None if flat.dtype.kind in "biuf" else Table({"y": flat}).cells("y").unit


def check_number_targets(y: Any, unit: Unit | None = None) -> Values:
    """Return the targets of a regressor as a one-dimensional array of finite numbers."""
    flat = column_or_1d(y, warn=True)
    if unit is not None:
        flat = Continuous("y", unit=unit).values(flat)
    return np.asarray(check_array(flat, ensure_2d=False, dtype=np.float64, input_name="y"), dtype=np.float64)


def add_class_column(table: Table, name: str, codes: Codes, classes: NDArray[Any]) -> Table:
    """Return the table with a column of classes, whose states are all of them in their order.

    Examples
    --------
    >>> table = add_class_column(Table({"x": [1.5, 2.5]}), "y", np.array([1, 1]), np.array(["no", "yes"]))
    >>> table.variable("y").states, table["y"]
    (('no', 'yes'), array([1, 1]))
    """
    return table.with_column(name, pd.Categorical.from_codes(codes, categories=pd.Index(classes, dtype=object)))
