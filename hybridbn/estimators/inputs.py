"""What the scikit-learn estimators are given, checked and read: features, targets, weights, values never seen
before.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from numbers import Number
from typing import Any, Literal, TypeAlias

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.utils import check_array, column_or_1d
from sklearn.utils.multiclass import check_classification_targets

from hybridbn.errors import TableError, warn_user
from hybridbn.structures.building import find_unused_name
from hybridbn.tables import Rows, Table, read_usable_frame
from hybridbn.tables.cells import state_kind
from hybridbn.tables.columns import Frame, check_column_names, frame_adapter, open_frame
from hybridbn.variables import Codes, Continuous, Discrete, Values, Variable, shorten

__all__ = [
    "HandleUnknown",
    "add_class_column",
    "add_number_column",
    "check_classes",
    "check_features",
    "check_number_targets",
    "choose_target",
    "find_constant_columns",
    "is_constant",
    "name_columns",
    "open_features",
    "read_against",
    "read_priors",
    "read_usable_features",
]

HandleUnknown: TypeAlias = Literal["missing", "error"]


_ROUNDING = 8 * float(np.finfo(float).eps)
"""Numbers that differ by less than this share of the largest are what rounding makes of a constant."""


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


def read_usable_features(
    X: Any, discrete: str | Iterable[str] = (), continuous: str | Iterable[str] = ()
) -> tuple[Table, dict[str, str]]:
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
        table, unusable = read_usable_frame(frame, discrete, continuous)
    except TableError as error:
        _refuse_strange_cells(frame.data, error)
        raise
    if unusable and isinstance(frame.data, np.ndarray):
        _refuse_strange_cells(frame.data)
    return table, unusable


def read_against(X: Any, variables: Sequence[Variable], handle_unknown: HandleUnknown) -> Table:
    """Read what `check_features` returned as a model's variables.

    A value that is no state is missing, with one warning for all columns, or refused. One of another type (text where
    the states are numbers) is always refused, as is text in a column of numbers.
    """
    table = Table(open_features(X), variables=variables, unknown="missing")
    messages = []
    for variable in variables:
        # reading is lazy: asking for the cells is what finds the faults
        cells = table.column(variable.name)
        if isinstance(variable, Discrete) and variable.cuts is None:
            message = _describe_unknown_states(variable, cells, table)
            if message:
                messages.append(message)
    if messages and handle_unknown == "error":
        raise TableError(f"{'; '.join(messages)}; handle_unknown='missing' would treat such cells as missing")
    if messages:
        warn_user(f"{'; '.join(messages)}; such cells are treated as missing")
    return table


def is_constant(low: float, high: float) -> bool:
    """Tell whether numbers between these two are the same up to rounding; of no numbers at all, give (inf, -inf).

    Examples
    --------
    >>> is_constant(0.3, 0.1 + 0.2), is_constant(0.0, 1e-300)
    (True, False)
    """
    # halves, so that the difference of the largest floats is finite
    return high / 2 - low / 2 <= _ROUNDING * max(abs(low / 2), abs(high / 2)) if low <= high else True


def find_constant_columns(table: Rows, names: Iterable[str]) -> list[str]:
    """Return the columns of numbers that have the same value in all rows.

    Examples
    --------
    >>> table = Table({"x": [2.0, None, 2.0], "y": [1.0, 2.0, 3.0], "c": ["a", "a", "a"]})
    >>> find_constant_columns(table, ["x", "y", "c"])
    ['x']
    """
    found = []
    for name in names:
        if table.is_discrete(name):
            continue
        low, high = table.value_range(name)
        if low <= high and is_constant(low, high):
            found.append(name)
    return found


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


def _describe_unknown_states(variable: Discrete, codes: Codes, table: Table) -> str | None:
    holes = np.flatnonzero(codes < 0) if codes.min(initial=0) < 0 else codes[:0]
    if not holes.size:
        return None
    raw = table.raw(variable.name)[holes]
    strange = np.flatnonzero(pd.notna(raw))
    if not strange.size:
        return None
    name, value, row = variable.name, raw[strange[0]], int(holes[strange[0]])
    known = {state_kind(state) for state in variable.states}
    if state_kind(value) not in known:
        raise TableError(
            f"column {name!r}, row {row}: {value!r} is of type {state_kind(value)}, but the states seen in fit are of"
            f" type {', '.join(sorted(known))}: {shorten(variable.states)}; give the column the type that it had in fit"
        )
    values = pd.unique(raw[strange])
    return (
        f"column {name!r}: {shorten(values.tolist(), 3)} (first in row {row}, {strange.size} cells in all)"
        f" {'is no state' if len(values) == 1 else 'are no states'} seen in fit; the known ones are"
        f" {shorten(variable.states)}"
    )


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


def check_number_targets(y: Any) -> Values:
    """Return the targets of a regressor as a one-dimensional array of finite numbers."""
    flat = column_or_1d(y, warn=True)
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


def add_number_column(table: Table, name: str, values: Values) -> Table:
    """Return the table with a column of numbers."""
    return table.with_column(name, values, Continuous(name))


def read_priors(priors: Any, classes: Sequence[Any]) -> Values:
    """Return the prior probabilities in the order of the classes.

    Examples
    --------
    >>> read_priors({"yes": 0.9, "no": 0.1}, ["no", "yes"])
    array([0.1, 0.9])
    """
    given = priors
    if isinstance(priors, Mapping):
        if set(priors) != set(classes):
            raise TableError(
                f"priors names {shorten(priors)}, but the classes are {shorten(classes)}; give one for each"
            )
        given = [priors[label] for label in classes]
    array = np.asarray(given, dtype=np.float64)
    if array.shape != (len(classes),) or not (array >= 0).all() or not abs(array.sum() - 1) <= 1e-6:
        raise TableError(
            f"priors must be {len(classes)} non-negative numbers that add up to 1, one for each of"
            f" {shorten(classes)}, not {priors!r}"
        )
    return array
