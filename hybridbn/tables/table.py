"""`Table`: typed columns with missing cells, row weights, and arrays that computations use directly."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Unpack

import numpy as np
from numpy.typing import NDArray

from hybridbn.errors import TableError
from hybridbn.jobs import get_jobs, run_in_threads
from hybridbn.options import ColumnKeywords, Marks, list_given
from hybridbn.tables.cells import Cells, Kind, Unknown, declare_kinds, freeze_array, recode_cells
from hybridbn.tables.columns import (
    Column,
    ColumnSource,
    Frame,
    FrameAdapter,
    check_states,
    check_weights,
    open_frame,
    read_as_variable,
    read_column,
)
from hybridbn.tables.rows import LEAST_SHARE, Item, Result, Rows, RowSample, find_rows, refuse_no_value
from hybridbn.variables import Continuous, Discrete, Values, Variable, shorten

_SHARED_ROWS = 2**15
"""With fewer rows, threads would wait for each other longer than they save."""


class Table(Rows):
    """An immutable table of discrete and continuous columns with missing cells.

    Text, categories and truth values are discrete, numbers are continuous, whatever the number of distinct values;
    `discrete` and `continuous` name the exceptions.

    Parameters
    ----------
    data : DataFrame, pyarrow table, mapping of arrays, list of records, structured array or Table
        Frames of pandas, polars and pyarrow (and anything else with an Arrow stream, where pyarrow is installed).
    discrete, continuous : str or iterable of str
        Columns whose type does not say what they are, such as integer codes for categories. One that is declared
        continuous is learned from whatever it looks like, and has a density, not a table of codes.
    ordered : str or iterable of str
        Columns of numbers that are codes in an order, such as ratings: they are learned as tables of probabilities
        however many there are. Columns of few different numbers are, by default.
    missing : mapping from column to values, or values
        What marks missing cells, such as ``{"sex": [9]}``, in some columns or in all.
    weights : sequence of float, optional
        One finite non-negative weight for each row, by position.
    variables : iterable of Discrete or Continuous, optional
        Read the columns as these variables, such as a model's. Other columns are left out, and absent ones are no
        error: see `names`. Columns are then read and checked when they are first used, not before.
    unknown : {"error", "missing"}
        What to do with a value that is no state of its variable.

    Notes
    -----
    Names that are no text become text inside: ``0`` is ``"0"``; frames made of the table have the given ones again.
    States found in a column are sorted; pandas categories, polars Enums, pyarrow dictionaries and ARFF's nominal
    attributes keep their levels and their order, unused ones included; truth values always have the states
    ``False, True``. Whole numbers declared discrete have integer states, float-coded ones too.
    None, NaN and pandas' NA are missing; text such as "NA" or "" is an ordinary state. Nullable numbers are read as the
    plain ones, decimals as floats, sparse columns are densified. Dates, points in time, times of day and durations are
    numbers of days with a unit, and so are texts that all follow one pattern of these; they go back out as they came.
    Infinite values, columns that mix text and numbers, and repeated names are refused. A column without any value, or
    of a type of which no variable is, such as lists, bytes and complex numbers, is kept, and goes back out as it came:
    asking for its variable or its cells raises `TableError`, and learners leave it alone with a warning.
    Continuous integers of 2**53 or more are rounded for computing; they go back out as they came in.

    Examples
    --------
    >>> table = Table({"x": [1.5, None, 3.0], "c": ["b", "a", None], "k": [1, 2, 1]}, discrete=["k"])
    >>> table
    Table: 3 rows, 3 columns
      x  continuous            1 missing
      c  discrete    2 states  1 missing  'a', 'b'
      k  discrete    2 states  0 missing  1, 2
    >>> table["x"], table["c"]
    (array([1.5, nan, 3. ]), array([ 1,  0, -1]))
    """

    def __init__(
        self,
        data: Any,
        discrete: str | Iterable[str] = (),
        continuous: str | Iterable[str] = (),
        weights: Any = None,
        *,
        ordered: str | Iterable[str] = (),
        missing: Marks | str = None,
        variables: Iterable[Variable] | None = None,
        unknown: Unknown = "error",
    ) -> None:
        if unknown not in ("error", "missing"):
            raise TableError(f"unknown must be 'error' or 'missing', not {unknown!r}")
        frame = data if isinstance(data, Frame) else open_frame(data)
        table = frame.data if isinstance(frame.data, Table) else None
        known = None if table is None else table._weights
        self._frame: Frame = frame.without_columns() if table is None else table._frame
        self._recoded: dict[int, Column] = {}
        self._remembered: dict[Any, Any] = {}
        self._columns: dict[str, Column] = {}
        frame = frame.blank(missing)
        kinds = _check_kinds(discrete, continuous, frame)
        if variables is None:
            self._columns |= {name: read_column(name, one, kinds.get(name)) for name, one in frame.columns.items()}
            codes = frame.find_names(ordered, "the names of columns of ordered codes")
            self._columns |= {name: self._find_column(name).declare_ordered() for name in codes}
            numbers = [name for name, kind in kinds.items() if kind == "continuous" and name not in codes]
            self._columns |= {name: self._columns[name].declare_ordered(codes=False) for name in numbers}
            self._frame = replace(self._frame, kept=self._frame.kept.union(codes, numbers))
            check_states(self._columns.values())
        else:
            self._columns = {
                one.name: read_as_variable(frame.columns[one.name], one, unknown_missing=unknown == "missing")
                for one in _check_variables(variables, kinds)
                if one.name in frame.columns
            }
        # those of another table were checked, perhaps with rows that have weight where these have none
        self._weights: Values | None = known if weights is None else check_weights(weights, frame.rows)

    @classmethod
    def _of(
        cls, columns: Iterable[Column], frame: Frame, weights: Values | None, remembered: dict[Any, Any] | None = None
    ) -> Table:
        table = cls.__new__(cls)
        table._frame = frame
        table._recoded = {}
        table._remembered = {} if remembered is None else remembered
        table._columns = {column.name: column for column in columns}
        table._weights = weights
        return table

    @classmethod
    def from_cells(
        cls,
        cells: Mapping[str, Cells],
        *,
        weights: Any = None,
        sources: Mapping[str, ColumnSource] | None = None,
        stateless: bool = True,
    ) -> Table:
        """Return a table of cells that are typed already; `to_native` makes a pandas frame of it.

        `sources` are columns as they were read from a file, where the cells have lost something of them. `stateless` is
        without effect: discrete columns without any value are taken anyway.

        Examples
        --------
        >>> Table.from_cells({"c": Cells(np.array([1, 0]), ("n", "y"))}).variables
        (Discrete(name='c', states=('n', 'y'), cuts=None),)
        """
        columns = [Column(name, one, None, (sources or {}).get(name)) for name, one in cells.items()]
        if not columns:
            raise TableError("the table has no columns")
        check_states(columns)
        return cls.from_columns(columns, weights=weights)

    @classmethod
    def from_columns(cls, columns: Sequence[Column], frame: Frame | None = None, weights: Any = None) -> Table:
        """Return a table of columns that were read from a frame or a file; `to_native` makes a frame of the same kind,
        or a pandas frame, of it.
        """
        rows = len(columns[0]) if columns else 0
        given = Frame("pandas", {}, rows) if frame is None else frame.without_columns()
        return cls._of(columns, given, check_weights(weights, rows))

    @classmethod
    def from_arrays(
        cls,
        variables: Iterable[Variable],
        arrays: Mapping[str, NDArray[Any]],
        frame: Frame | None = None,
        weights: Values | None = None,
    ) -> Table:
        """Return a table of the numbers or codes of variables, with weights that are known to be valid; `to_native`
        makes a frame like `frame` of it.

        Examples
        --------
        >>> c = Discrete("c", states=("a", "b"))
        >>> Table.from_arrays([c], {"c": np.array([1, 0])}).to_dict()
        {'c': array(['b', 'a'], dtype=object)}
        """
        columns = []
        for variable in variables:
            array = arrays[variable.name]
            states = variable.states if isinstance(variable, Discrete) else None
            unit = variable.unit if isinstance(variable, Continuous) else None
            cells = Cells(array.astype(np.float64 if states is None else np.intp), states, unit=unit)
            columns.append(Column(variable.name, cells, variable))
        rows = len(columns[0].cells.array) if columns else 0
        return cls._of(columns, frame or Frame("pandas", {}, rows), weights)

    # --- contents -----------------------------------------------------------------------------------------------------

    @property
    def names(self) -> tuple[str, ...]:
        """The columns' names, in order."""
        return tuple(self._columns)

    @property
    def kind(self) -> str:
        """The kind of frame that `to_native` returns: "pandas", "polars", "arrow",
        "dict", "records" or "structured".
        """
        return self._frame.kind

    def variable(self, name: str) -> Variable:
        """Return a column's variable.

        Examples
        --------
        >>> Table({"c": [True, None]}).variable("c").states
        (False, True)
        """
        column = self._find_column(name)
        if column.variable is not None:
            return column.variable
        if column.cells.states is None:
            return Continuous(name, unit=column.cells.unit)
        if not column.cells.states:
            raise refuse_no_value(name)
        column.variable = Discrete(name, states=column.cells.states)
        return column.variable

    def is_discrete(self, name: str) -> bool:
        """Return whether a column is discrete, without reading its cells."""
        column = self._find_column(name)
        return column.cells.states is not None if column.variable is None else isinstance(column.variable, Discrete)

    @property
    def weights(self) -> Values:
        """The rows' weights as a read-only array; ones where none were given."""
        return freeze_array(np.ones(len(self))) if self._weights is None else self._weights

    @property
    def weighted(self) -> bool:
        """Whether the table has weights."""
        return self._weights is not None

    def __len__(self) -> int:
        return self._frame.rows

    def cells(self, name: str) -> Cells:
        """Return a column's cells: their array and states, and the mask of missing ones.

        Examples
        --------
        >>> Table({"x": [1.0, None]}).cells("x").missing
        array([False,  True])
        """
        return self._find_column(name).cells.widen()

    def column(self, name: str) -> NDArray[Any]:
        """Return a column as a read-only array: floats with NaN, or state codes with -1, where a cell is missing."""
        return self.cells(name).array

    def __contains__(self, name: object) -> bool:
        return name in self._columns

    def __getitem__(self, key: Any) -> Any:
        """Return a column's array for a name; a table for a list of names, a slice, a
        mask or an array of row numbers.
        """
        if isinstance(key, str):
            return self.column(key)
        has_names = isinstance(key, list | tuple) and key and all(isinstance(name, str) for name in key)
        return self.select(key) if has_names else self.take(key)

    def raw(self, name: str) -> NDArray[Any]:
        """Return a column's values as Python objects, as they were given; None where a cell is missing.

        Unlike `column` this accepts any object, such as intervals in a table of evidence.

        Examples
        --------
        >>> Table({"c": ["a", None]}).raw("c").tolist()
        ['a', None]
        """
        return self._find_column(name).raw()

    def coded(self, variable: Variable, *, unknown: Unknown = "error", compact: bool = False) -> NDArray[Any]:
        """Return the column of a variable's name as that variable's codes or values; `compact` ones may be as short as
        they were read.

        Raises `TableError` naming column, row, value and the known states where a value is no state of the variable;
        with ``unknown="missing"`` such cells count as missing.

        Examples
        --------
        >>> Table({"c": ["b", None, "q"]}).coded(Discrete("c", states=("b", "a")), unknown="missing")
        array([ 0, -1, -1])
        """
        lenient = unknown == "missing"
        own = self._find_column(variable.name)
        column = read_as_variable(own, variable, unknown_missing=True) if lenient else self._recode(variable)
        return (column.cells if compact else column.cells.widen()).array

    def _recode(self, variable: Variable) -> Column:
        """Return a column read as a variable, which is done once for each variable."""
        column = self._find_column(variable.name)
        if column.variable is variable:
            return column
        if id(variable) not in self._recoded:
            # the column holds the variable, so that no other one gets its identity
            self._recoded[id(variable)] = read_as_variable(column, variable)
        return self._recoded[id(variable)]

    def holds_objects(self, name: str) -> bool:
        """Return whether a column may hold objects other than values, such as intervals; cells are not read.

        Examples
        --------
        >>> table = Table({"x": np.array([1.0]), "c": [{"a"}]}, variables=[Continuous("x"), Discrete("c", ("a", "b"))])
        >>> table.holds_objects("x"), table.holds_objects("c")
        (False, True)
        """
        return self._find_column(name).holds_objects()

    def _find_column(self, name: str) -> Column:
        if name not in self._columns:
            self._require_column(name)
        return self._columns[name]

    # --- all rows together --------------------------------------------------------------------------------------------

    @property
    def total_weight(self) -> float:
        """The weight of all rows: their number where they have no weights."""
        return float(self.weights.sum()) if self.weighted else float(len(self))

    def count_missing(self, name: str) -> int:
        """Return the number of missing cells of a column."""
        return self._find_column(name).holes

    def value_range(self, name: str) -> tuple[float, float]:
        """Return the least and the greatest number of a column in rows of positive weight; (inf, -inf) without any.

        Examples
        --------
        >>> Table({"x": [1.5, None, 0.5, -9.0]}, weights=[1, 1, 1, 0]).value_range("x")
        (0.5, 1.5)
        """
        cells = self._find_column(name).cells.array
        observed = cells[~np.isnan(cells) & (self.weights > 0) if self.weighted else ~np.isnan(cells)]
        return float(observed.min(initial=np.inf)), float(observed.max(initial=-np.inf))

    def is_integer(self, name: str) -> bool:
        """Return whether all numbers of a column are of an integer type, or are written as whole numbers."""
        return self.cells(name).integer

    def lists_states(self, name: str) -> bool:
        """Return whether the type of a column lists its states, perhaps some that no row has."""
        return self.cells(name).declared

    def is_ordered(self, name: str) -> bool | None:
        """Return whether a column was declared to be one of ordered codes, or of no codes; None where it was not."""
        return self._find_column(name).cells.ordered

    @property
    def kept(self) -> frozenset[str]:
        """The columns that are learned from whatever they are."""
        return self._frame.kept

    def keep_columns(self, names: Iterable[str]) -> Table:
        """Return the table with columns that are learned from whatever they are."""
        frame = replace(self._frame, kept=self.kept.union(names))
        return Table._of(self._columns.values(), frame, self._weights, self._remembered)

    def count_states(self, name: str) -> Values:
        """Return how many rows have which state of a discrete column."""
        cells = self._find_column(name).cells
        codes = cells.array[cells.array >= 0]
        return np.bincount(codes, minlength=len(cells.states or ())).astype(np.float64)

    @property
    def remembered(self) -> dict[Any, Any]:
        """What was computed of these rows before."""
        return self._remembered

    # --- passes, of which a single batch is all -----------------------------------------------------------------------

    def learn(self, task: Callable[[Table, int], Result], variables: Sequence[Variable] | None = None) -> Result:
        """Return what a task learns of the table.

        Examples
        --------
        >>> Table({"x": [1.0, 2.0]}).learn(lambda rows, first: float(rows["x"].sum()))
        3.0
        """
        return task(self if variables is None else self.with_variables(variables), 0)

    def answer(
        self, task: Callable[[Table, int], Result], variables: Sequence[Variable] | None = None
    ) -> Iterator[Result]:
        """Yield what a task makes of the table."""
        yield self.learn(task, variables)

    def answer_when_asked(self, answer: Callable[[Table], Result], postpone: Callable[[Table], Result]) -> Result:
        """Return an answer for the table."""
        return answer(self)

    def sample(self, rows: int | None = None, purpose: str | None = None) -> Table:
        """Return the table itself, or at most so many rows of it: those whose numbers have the smallest hashes.

        Examples
        --------
        >>> Table({"x": [1.0, 2.0, 3.0]}).sample(2)["x"]
        array([2., 3.])
        """
        if rows is None or rows >= len(self):
            return self
        return self.take(RowSample(np.arange(len(self), dtype=np.uint64), {}).finish(rows).rows)

    def share(self, function: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
        """Yield what a function learns of each item; threads share them where the table is large.

        Examples
        --------
        >>> list(Table({"a": [1.0]}).share(str.upper, "ab"))
        ['A', 'B']
        """
        return run_in_threads(function, items, get_jobs() if len(self) >= _SHARED_ROWS else 1)

    def keep_rows(self, variable: Variable, code: int | None = None) -> Table:
        """Return the rows of positive weight in which a column has a state, given by its code, or any value.

        Examples
        --------
        >>> table = Table({"c": ["a", "b", None, "b"]})
        >>> len(table.keep_rows(table.variable("c"), 1)), len(table.keep_rows(table.variable("c")))
        (2, 3)
        """
        return self.take(np.flatnonzero(find_rows(self, variable, code)))

    def fill_holes(self, function: Callable[[Table, int], Mapping[str, NDArray[Any]]]) -> Table:
        """Return the table with its missing cells filled by a function of the rows.

        Examples
        --------
        >>> Table({"x": [1.0, None]}).fill_holes(lambda table, first: {"x": np.array([1.0, 7.0])})["x"]
        array([1., 7.])
        """
        table = self
        for name, cells in function(self, 0).items():
            if self.count_missing(name):
                table = table.with_array(name, cells)
        return table

    def expand(self, variable: Discrete, assign: Callable[[Table], Values]) -> Table:
        """Return the table with each row repeated for the states of a further column, and weighted by their shares.

        Examples
        --------
        >>> table = Table({"x": [1.0, 2.0]})
        >>> expanded = table.expand(Discrete("c", ("a", "b")), lambda rows: np.array([[1.0, 0.0], [0.2, 0.8]]))
        >>> expanded["x"], expanded["c"], expanded.weights
        (array([1., 2., 2.]), array([0, 0, 1]), array([1. , 0.2, 0.8]))
        """
        shares = assign(self)
        rows, states = np.nonzero(shares > LEAST_SHARE)
        repeated = self.take(rows)
        weighted = repeated.with_weights(repeated.weights * shares[rows, states])
        labels = np.array(variable.states, dtype=object)[states]
        return weighted.with_column(variable.name, labels, variable)

    def weigh_rows(self, function: Callable[[Table, int], Values]) -> Table:
        """Return the table with weights that are a function of the rows.

        Examples
        --------
        >>> Table({"x": [1.0, 2.0]}).weigh_rows(lambda rows, first: 2 * rows["x"]).weights
        array([2., 4.])
        """
        return self.with_weights(function(self, 0))

    def declare(self, **columns: Unpack[ColumnKeywords]) -> Table:
        """Return the table with some columns read as they are declared; the others stay as they are."""
        return Table(self, **columns) if list_given(columns) else self

    def read_usable(self) -> tuple[Table, dict[str, str]]:
        """Return a table of those columns that something can be computed with, and why the others are left out."""
        columns = self._columns.values()
        reasons = {one.name: reason for one in columns if (reason := one.reason_unusable) is not None}
        return (self.drop(reasons) if reasons else self), reasons

    # --- other tables -------------------------------------------------------------------------------------------------

    def select(self, names: Iterable[str]) -> Table:
        """Return the table with some of its columns, in the order given."""
        selected = [names] if isinstance(names, str) else list(names)
        if len(set(selected)) < len(selected):
            raise TableError(f"a column is named twice in {shorten(selected)}")
        return Table._of([self._find_column(name) for name in selected], self._frame, self._weights, self._remembered)

    def take(self, rows: Any) -> Table:
        """Return the table with some of its rows: a slice, a mask or row numbers. Variables stay as they are.

        Examples
        --------
        >>> Table({"x": [1.5, 2.5, 3.5]}).take([2, 0])["x"]
        array([3.5, 1.5])
        """
        # An empty list is one of integers; numpy would make it one of floats.
        dtype = np.intp if isinstance(rows, list | tuple) and not rows else None
        try:
            numbers = np.arange(len(self))[rows if isinstance(rows, slice) else np.asarray(rows, dtype=dtype)]
        except IndexError as error:
            raise TableError(f"rows must be a slice, a mask of {len(self)} or row numbers below it: {error}") from None
        if numbers.ndim != 1:
            raise TableError("rows must be a slice, a mask or a one-dimensional array; for one row give [row]")
        numbers = numbers.astype(np.intp)
        columns = [column.take(numbers) for column in self._columns.values()]
        return Table._of(columns, self._frame.take(numbers), None if self._weights is None else self._weights[numbers])

    def with_column(self, name: str, values: Any, variable: Variable | None = None) -> Table:
        """Return the table with a column added or replaced.

        Values that replace a column must be values of its variable, unless another is given, and are written with its
        dtype where that can hold them.

        Examples
        --------
        >>> Table({"c": ["a", None]}).with_column("c", ["a", "a"]).to_dict()["c"].tolist()
        ['a', 'a']
        """
        old = self._columns.get(name)
        if variable is None and old is not None:
            variable = self.variable(name)
        elif variable is not None and variable.name != name:
            raise TableError(f"the variable is called {variable.name!r}, the column {name!r}")
        added = Table({name: values}, variables=None if variable is None else [variable])._find_column(name)
        if len(added.cells.array) != len(self):
            raise TableError(f"column {name!r} has {len(added.cells.array)} values, but the table has {len(self)} rows")
        if old is not None:
            old_cells, cells = self.cells(name), added.cells
            cells = replace(cells, declared=old_cells.declared, ordered=old_cells.ordered)
            added = old.replace(cells, added.variable)
        return Table._of({**self._columns, name: added}.values(), self._frame, self._weights)

    def with_array(self, name: str, array: NDArray[Any]) -> Table:
        """Return the table with the numbers or codes of one column replaced, its variable kept.

        Examples
        --------
        >>> Table({"c": ["a", None, "b"]}).with_array("c", np.array([0, 0, 1])).to_dict()["c"].tolist()
        ['a', 'a', 'b']
        """
        column, variable = self._find_column(name), self.variable(name)
        old = column.cells
        new = np.array(array, dtype=old.array.dtype)
        if new.shape != old.array.shape:
            raise TableError(f"column {name!r}: {new.shape} values, but the table has {len(self)} rows")
        if isinstance(variable, Discrete) and new.size and not (new.min() >= -1 and new.max() < len(variable)):
            raise TableError(f"column {name!r}: codes must lie between -1 and {len(variable) - 1}")
        cells = replace(old, array=new)
        if isinstance(variable, Continuous):
            cells = recode_cells(name, cells, variable)
            variable.values(new)
        return Table._of({**self._columns, name: column.replace(cells)}.values(), self._frame, self._weights)

    def fill(self, cells: Mapping[str, tuple[NDArray[np.bool_], NDArray[Any]]]) -> Table:
        """Return the table with numbers or states in some rows of some columns; all other cells are written as given.

        New states of a column follow those that it has.

        Examples
        --------
        >>> Table({"c": ["a", None]}).fill({"c": (np.array([False, True]), np.array(["b"]))}).to_dict()["c"].tolist()
        ['a', 'b']
        """
        filled = {name: self._find_column(name).fill(rows, values) for name, (rows, values) in cells.items()}
        return Table._of({**self._columns, **filled}.values(), self._frame, self._weights)

    def with_variables(self, variables: Iterable[Variable], *, unknown: Unknown = "error") -> Table:
        """Return the table with its columns read as these variables; others are left out."""
        if unknown == "missing":
            return Table(self, variables=variables, unknown=unknown)
        recoded = [self._recode(variable) for variable in variables if variable.name in self]
        return Table._of(recoded, self._frame, self._weights, self._remembered)

    def with_weights(self, weights: Any) -> Table:
        """Return the table with other row weights; None removes them."""
        return Table._of(self._columns.values(), self._frame, check_weights(weights, len(self)))

    def equals(self, other: Table) -> bool:
        """Return whether two tables have the same columns, types of states, cells and weights, of any kind of frame."""
        if self.names != other.names or len(self) != len(other):
            return False
        for name in self._columns:
            a, b = self.cells(name), other.cells(name)
            alike = a.states == b.states and [*map(type, a.states or ())] == [*map(type, b.states or ())]
            if not (alike and np.array_equal(a.array, b.array, equal_nan=a.states is None)):
                return False
        return np.array_equal(self.weights, other.weights)

    # --- export -------------------------------------------------------------------------------------------------------

    def to_native(self) -> Any:
        """Return the table as the kind of frame that it was made of; a table from a file or database becomes a pandas
        frame.
        """
        return self._frame.build(list(self._columns.values()))

    def to_pandas(self) -> Any:
        """Return a pandas DataFrame; a table of a pandas frame keeps its dtypes, categories and index."""
        return self._build("pandas")

    def to_polars(self) -> Any:
        """Return a polars DataFrame."""
        return self._build("polars")

    def to_arrow(self) -> Any:
        """Return a pyarrow Table."""
        return self._build("arrow")

    def to_dict(self) -> dict[str, NDArray[Any]]:
        """Return the columns as arrays of values, in the user's terms.

        Examples
        --------
        >>> Table({"c": ["a", None], "k": [2, 1]}).to_dict()
        {'c': array(['a', None], dtype=object), 'k': array([2, 1], dtype=object)}
        """
        return dict(self._build("dict"))

    def _build(self, kind: str) -> Any:
        frame = self._frame if self._frame.kind == kind else Frame(kind, {}, len(self))
        return frame.build(list(self._columns.values()))

    def write(self, path: str | os.PathLike[str], **options: Any) -> None:
        """Write the table to a file or database, by the path's suffix: see `hybridbn.tables.formats.write_table`."""
        from hybridbn.tables.formats import write_table

        write_table(self, path, **options)

    def _is_read(self, name: str) -> bool:
        return self._columns[name].is_read


def read_rows(data: Any, weights: Any = None, **columns: Unpack[ColumnKeywords]) -> tuple[Rows, dict[str, str]]:
    """Return the rows of a frame, a table or a scan with those columns that something can be computed with, and why the
    others are left out.

    Examples
    --------
    >>> rows, reasons = read_rows({"x": [1.5, 2.0], "e": [None, None], "l": [[1], [2]]})
    >>> rows.names, reasons
    (('x',), {'e': 'no value', 'l': 'of type list'})
    """
    return declare_rows(data, weights, **columns).read_usable()


def declare_rows(data: Any, weights: Any = None, **columns: Unpack[ColumnKeywords]) -> Rows:
    """Return the rows of a frame, a table or a scan, with the columns as they are declared.

    Examples
    --------
    >>> declare_rows({"sex": [1, 2, 9]}, discrete="sex", missing={"sex": [9]})
    Table: 3 rows, 1 columns
      sex  discrete    2 states  1 missing  1, 2
    """
    rows = data.declare(**columns) if isinstance(data, Rows) else Table(data, **columns)
    return rows if weights is None else rows.with_weights(weights)


def _check_kinds(discrete: str | Iterable[str], continuous: str | Iterable[str], frame: Frame) -> dict[str, Kind]:
    """Return the kind of each column that is declared to be discrete or continuous."""
    kinds = declare_kinds(
        frame.find_names(discrete, "the names of discrete columns"),
        frame.find_names(continuous, "the names of continuous columns"),
    )
    for name, kind in kinds.items():
        if name not in frame.columns:
            raise TableError(f"{kind}={name!r}: there is no such column; the columns are {shorten(frame.columns)}")
    return kinds


def _check_variables(variables: Iterable[Variable], kinds: Mapping[str, Kind]) -> list[Variable]:
    """Return variables as a list; raise `TableError` for other objects, and where kinds are declared as well."""
    listed = list(variables)
    for variable in listed:
        if not isinstance(variable, Discrete | Continuous):
            raise TableError(f"variables must be Discrete or Continuous, not {variable!r}")
    if kinds:
        raise TableError("give variables, or discrete and continuous, not both: the variables say which is which")
    return listed


# -- as a frame --------------------------------------------------------------------------------------------------------


class TableFrames(FrameAdapter):
    """Tables."""

    kind = "table"

    def owns(self, data: Any) -> bool:
        """Return whether an object is a table or a scan."""
        return isinstance(data, Rows)

    def open(self, data: Any) -> Frame:
        """Return a table's columns; refuse a scan."""
        if not isinstance(data, Table):
            raise TableError("the rows of a scan are read in passes; scan.sample(n) is a table of some of them")
        return Frame(self.kind, data._columns, len(data), data=data)

    def build(self, columns: Sequence[Column], like: Frame) -> Any:
        """Return a new table of columns."""
        return Table._of(columns, Frame("dict", {}, like.rows), None)

    def replace(self, frame: Frame, columns: Mapping[str, Column], added: Mapping[str, NDArray[np.bool_]]) -> Any:
        """Return a copy of a table with some columns replaced and others added."""
        table: Table = frame.data
        new = {name: read_column(name, values) for name, values in added.items()}
        return Table._of({**table._columns, **columns, **new}.values(), table._frame, table._weights)
