"""The columns of a table, and the base classes of adapters to the columns and frames of other libraries.

A module of `hybridbn.tables.frames` holds all that is specific to a library: a subclass of `ColumnAdapter` where it
has columns of its own, and a subclass of `FrameAdapter` for each kind of frame. A library is imported only when a frame
or a column of it is given or asked for.
"""

from __future__ import annotations

import itertools
import sys
import unicodedata
from abc import ABC, abstractmethod
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hybridbn.errors import TableError, warn_user
from hybridbn.options import list_items
from hybridbn.registry import LazyModule, Registered, Registry
from hybridbn.tables.cells import (
    EXACT_INTEGERS,
    Cells,
    Kind,
    TimeValues,
    UnsupportedType,
    convert_cells,
    count_texts,
    freeze_array,
    label_moments,
    recode_cells,
    state_kind,
)
from hybridbn.tables.scales import spell_mark
from hybridbn.units import Unit
from hybridbn.variables import Continuous, Discrete, Values, Variable, as_objects, find_unused_name, shorten

if TYPE_CHECKING:
    from hybridbn.tables.table import Table

pandas: LazyModule = LazyModule("pandas")


class ColumnSource(NamedTuple):
    """The column that the user gave, from which columns of the same dtype are made."""

    kind: str
    values: Any
    rows: NDArray[np.intp] | None = None
    current: bool = True
    """False where the cells were replaced since: then only the dtype of `values` and the rows `unchanged` are valid."""
    unchanged: NDArray[np.bool_] | None = None


class Column:
    """A column of a table: its cells, the variable whose codes or values these are (or None), and the user's column.

    Without `cells` it is lazy: the first access reads them from `base`, a column that was read before without the
    variable, or from `source`. Where nothing can be computed with the user's column, `fault` says why: it is kept, and
    asking for its cells raises that error.
    """

    __slots__ = ("_base", "_cells", "_holes", "_unknown_missing", "fault", "name", "source", "variable")

    def __init__(
        self,
        name: str,
        cells: Cells | None,
        variable: Variable | None = None,
        source: ColumnSource | None = None,
        *,
        base: Column | None = None,
        unknown_missing: bool = False,
        fault: UnsupportedType | None = None,
    ) -> None:
        self.name: str = name
        self.fault: UnsupportedType | None = fault
        self.variable: Variable | None = variable
        self.source: ColumnSource | None = source
        self._cells = cells
        self._holes: int | None = None
        self._base = base
        self._unknown_missing = unknown_missing

    @property
    def is_read(self) -> bool:
        """Whether the cells have been read."""
        return self._cells is not None

    def __len__(self) -> int:
        source = self.source
        if self._cells is None and source is not None:
            return len(source.values if source.rows is None else source.rows)
        return len(self.cells.array)

    @property
    def reason_unusable(self) -> str | None:
        """Why nothing can be computed with the column, in a few words; None where something can."""
        if self.fault is not None:
            return self.fault.reason
        return "no value" if 0 < self.holes == len(self.cells.array) else None

    @property
    def cells(self) -> Cells:
        """The cells, as numbers or codes of states; those of a file may have compact codes."""
        if self._cells is None:
            self._cells = self._read()
        return self._cells

    @property
    def holes(self) -> int:
        """The number of missing cells, which are counted once; those of a column of no usable type count as none."""
        if self.fault is not None:
            return 0
        if self._holes is None:
            cells = self.cells
            complete = cells.states is not None and cells.array.min(initial=0) >= 0
            self._holes = 0 if complete else int(np.count_nonzero(cells.missing))
        return self._holes

    def _read(self) -> Cells:
        variable, source = self.variable, self.source
        if self.fault is not None:
            raise self.fault
        assert variable is not None
        if self._base is not None:
            cells = self._base.cells
            if (
                isinstance(variable, Discrete)
                and variable.cuts is None
                and cells.unit is not None
                and cells.unit.pattern
            ):
                cells = read_cells(self.name, self._base.raw(), "discrete")  # states are spelled as they were given
        elif source is None:
            raise TypeError("a column without cells needs a source or a base")
        elif (
            isinstance(variable, Discrete)
            and len(set(map(type, variable.states))) > 1
            and len(set(map(state_kind, variable.states))) > 1
        ):
            # A variable may mix types of states on purpose; its states are then looked up one by one.
            return Cells(variable.codes(self.raw()), variable.states, declared=True)
        else:
            wants_labels = isinstance(variable, Discrete) and variable.cuts is None
            if isinstance(variable, Discrete) and wants_labels:
                codes = column_adapter(source.kind).encode(source.values, variable.states)
                if codes is not None:
                    return Cells(codes, variable.states)
            unit = variable.unit if isinstance(variable, Continuous) else None
            cells = read_cells(self.name, source.values, "discrete" if wants_labels else None, unit)
        return recode_cells(self.name, cells, variable, unknown_missing=self._unknown_missing)

    def take(self, rows: NDArray[np.intp]) -> Column:
        """Return the column with some of its rows."""
        source = self.source
        if source is not None and (source.current or source.unchanged is not None):
            source_rows = rows if source.rows is None else source.rows[rows]
            source = source._replace(
                rows=source_rows, unchanged=None if source.unchanged is None else source.unchanged[rows]
            )
        cells = None if self.fault is not None else self.cells.take(rows)
        return Column(self.name, cells, self.variable, source, fault=self.fault)

    def replace(
        self, cells: Cells, variable: Variable | None = None, unchanged: NDArray[np.bool_] | None = None
    ) -> Column:
        """Return the column with other cells, which are written with its dtype where that can hold them.

        Parameters
        ----------
        variable : by default as before
        unchanged : ndarray of bool
            The rows whose cells are the same as before, and are written as they were given.
        """
        source = self.source
        if source is not None:
            current = source.current or source.unchanged is not None
            if unchanged is not None and source.unchanged is not None:
                unchanged = unchanged & source.unchanged
            source = (
                ColumnSource(source.kind, source.values, source.rows, False, unchanged)
                if current and unchanged is not None
                else ColumnSource(source.kind, source.values, current=False)
            )
        return Column(self.name, cells, self.variable if variable is None else variable, source)

    def fill(self, rows: NDArray[np.bool_], values: NDArray[Any]) -> Column:
        """Return the column with numbers or states in some rows; the others stay as they were given.

        New states follow those of the column.
        """
        cells = self.cells.widen()
        array = np.array(cells.array)
        if cells.states is None:
            array[rows] = values
            numbers = replace(cells, array=array)
            if isinstance(self.variable, Continuous):
                numbers = recode_cells(self.name, numbers, self.variable)
            return self.replace(numbers, unchanged=~rows)
        states = values.tolist()
        codes = {state: code for code, state in enumerate(dict.fromkeys([*cells.states, *states]))}
        array[rows] = [codes[state] for state in states]
        has_new_states = len(codes) > len(cells.states)
        variable = Discrete(self.name, states=tuple(codes)) if has_new_states else None
        return self.replace(replace(cells, array=array, states=tuple(codes)), variable, ~rows)

    def blank(self, marks: Iterable[Any]) -> Column:
        """Return the column with cells missing that hold one of some values."""
        own = match_marks(self.cells, marks)
        return self.replace(blank_cells(self.cells.widen(), own), unchanged=~own) if own.any() else self

    def declare_ordered(self, *, codes: bool = True) -> Column:
        """Return the column with its numbers as ordered codes, or as numbers that are none."""
        if self.fault is not None:
            return self
        if self.cells.states is not None:
            raise TableError(
                f"ordered={self.name!r}: the column holds text or truth values; give it an ordered type of categories,"
                " or numbers"
            )
        return Column(self.name, replace(self.cells, ordered=codes), self.variable, self.source)

    def raw(self) -> NDArray[Any]:
        """Return the values as Python objects, as they were given; None where a cell is missing."""
        try:
            return self._list_values()
        except OverflowError as error:
            message = f"column {self.name!r} holds dates or times that Python has no objects for: {error}"
            raise TableError(message) from None

    def _list_values(self) -> NDArray[Any]:
        source = self.source
        if self._base is not None and (source is None or not source.current):
            return self._base._list_values()
        if source is None or not source.current:
            if self.cells.unit is not None and self.cells.unit.pattern is None:
                return as_objects(self.cells.unit.list_values(self.cells.array))
            array: NDArray[Any] = column_adapter("numpy").write(self).astype(object)
            array[self.cells.missing] = None
            return array

        array = as_objects(column_adapter(source.kind).list_values(source.values))
        array = array if source.rows is None else array[source.rows]
        array[pandas.isna(array)] = None
        return array

    def holds_objects(self) -> bool:
        """Return whether the user's column may hold objects other than values."""
        source = self.source
        if source is None and self._base is not None:
            return self._base.holds_objects()
        return source is not None and source.current and column_adapter(source.kind).holds_objects(source.values)

    def read_large_integers(self) -> NDArray[Any] | None:
        """Return the cells as Python integers where floats would round them, and None otherwise."""
        source = self.source
        if source is None or not source.current or self.cells.states is not None or not self.cells.integer:
            return None
        with np.errstate(invalid="ignore"):
            large = np.abs(self.cells.array) >= EXACT_INTEGERS
        return self.raw() if large.any() else None


def match_marks(cells: Cells, marks: Iterable[Any]) -> NDArray[np.bool_]:
    """Tell which cells hold one of some values, numbers or texts of these.

    Examples
    --------
    >>> match_marks(Cells(np.array([1.0, 9.0])), ["9"]), match_marks(Cells(np.array([0, 1, -1]), ("9", "x")), [9])
    (array([False,  True]), array([ True, False, False]))
    """
    if cells.states is not None:
        texts = {str(spell_mark(mark)) for mark in marks}
        own = np.array([*(str(spell_mark(state)) in texts for state in cells.states), False])
        return np.asarray(own[cells.array])
    numbers = []
    for mark in marks:
        with suppress(ValueError, TypeError, OverflowError):
            numbers.append(float(mark) if cells.unit is None else cells.unit.number(mark))
    return np.isin(cells.array, numbers)


def blank_cells(cells: Cells, holes: NDArray[np.bool_]) -> Cells:
    """Return cells of which some become missing, with the states that are left."""
    if cells.states is None:
        return replace(cells, array=np.where(holes, np.nan, cells.array))
    codes = np.where(holes, -1, cells.array)
    gone = np.setdiff1d(cells.array[holes], codes).tolist()
    kept = np.array([code not in gone for code in range(len(cells.states))])
    states = tuple(itertools.compress(cells.states, kept))
    return replace(cells, array=np.append(np.where(kept, np.cumsum(kept) - 1, -1), -1)[codes], states=states)


def read_cells(name: str, values: Any, kind: Kind | None = None, unit: Unit | None = None) -> Cells:
    """Return the cells of a column of any library.

    For `kind` None the column's type decides: numbers, dates and times (also those that are text) are continuous, other
    text, categories and truth values discrete. Where texts allow several patterns of dates, that of `unit` is taken.

    Examples
    --------
    >>> cells = read_cells("c", np.array(["b", None, "a"], dtype=object))
    >>> cells.states, cells.array
    (('a', 'b'), array([ 1, -1,  0]))
    """
    try:
        cells = column_adapter(column_kind(values)).read(name, values, kind)
        if kind != "discrete" and cells.states and not cells.declared:
            cells = count_texts(name, cells.array, cells.states, unit) or cells
        return cells if kind is None else convert_cells(name, cells, kind)
    except UnsupportedType:
        raise
    except TableError as error:
        if kind == "discrete" or f"column {name!r}" in error.text:
            raise
        raise TableError(f"column {name!r}: {error}") from None


def read_column(name: str, values: Any, kind: Kind | None = None, unit: Unit | None = None) -> Column:
    """Return a column of any library, or one that was read before, as a column of a kind; by default of its type's.

    One of a type with which nothing can be computed is kept as it is.
    """
    if not isinstance(values, Column):
        given = ColumnSource(column_kind(values), values)
        try:
            return Column(name, read_cells(name, values, kind, unit), None, given)
        except UnsupportedType as error:
            return Column(name, None, None, given, fault=error)
    if kind is None or values.fault is not None or (kind == "discrete") == (values.cells.states is not None):
        return values
    source = values.source
    if source is not None and source.current and source.rows is None:
        return Column(name, read_cells(name, source.values, kind), None, source)
    return Column(name, convert_cells(name, values.cells, kind), None, source)


def read_as_variable(values: Any, variable: Variable, *, unknown_missing: bool = False) -> Column:
    """Return a column of any library, or one that was read before, as a lazy column of a variable's codes or values.

    When it is read, values that are no state of the variable raise `TableError`, or count as missing.
    """
    if isinstance(values, Column):
        if values.variable is variable:
            return values
        return Column(variable.name, None, variable, values.source, base=values, unknown_missing=unknown_missing)
    source = ColumnSource(column_kind(values), values)
    return Column(variable.name, None, variable, source, unknown_missing=unknown_missing)


def check_states(columns: Iterable[Column]) -> None:
    """Warn of states that look alike, in columns whose cells have been read."""
    warn_of_look_alikes((one.name, one.cells.states) for one in columns if one.is_read and one.cells.states)


def warn_of_look_alikes(columns: Iterable[tuple[str, Iterable[Hashable]]]) -> None:
    """Warn once for all columns of states, given with their names, that look the same to a reader."""
    descriptions = [text for name, states in columns if (text := describe_look_alikes(name, states)) is not None]
    if descriptions:
        warn_user(
            f"states that look alike are kept apart; clean them if they mean the same: {'; '.join(descriptions)}",
        )


def describe_look_alikes(name: str, states: Iterable[Hashable]) -> str | None:
    """Describe the first two states that differ only in spaces or in the Unicode form of an accent."""
    seen: dict[str, str] = {}
    for state in states:
        if isinstance(state, str):
            text = " ".join(state.split())
            first = seen.setdefault(text if text.isascii() else unicodedata.normalize("NFC", text), state)
            if first is not state:
                return f"column {name!r}: the states {first!r} and {state!r} ({first!a}, {state!a})"
    return None


# --- adapters ---------------------------------------------------------------------------------------------------------


class ColumnAdapter(Registered, ABC):
    """Reads and writes the columns of one library. Defining a subclass with a `kind` registers it."""

    kind: ClassVar[str]
    registry: ClassVar[Registry[ColumnAdapter]] = Registry(
        "kind of columns", "hybridbn.tables.frames", "kind", instances=True
    )

    @abstractmethod
    def owns(self, values: Any) -> bool:
        """Return whether a column is one of this library."""

    @abstractmethod
    def copy(self, name: str, values: Any) -> Any:
        """Return a copy of a column, which later changes of the original do not change."""

    @abstractmethod
    def read(self, name: str, values: Any, kind: Kind | None) -> Cells:
        """Return the cells of a column; of the kind "discrete" where the library can do that faster than
        `convert_cells`.
        """

    def encode(self, values: Any, states: Sequence[Any]) -> NDArray[np.intp] | None:
        """Return text or integers as codes of known states, -1 where a cell is missing; None where a cell is none of
        them, or where the library has nothing faster than `read`.
        """
        return None

    @abstractmethod
    def take(self, values: Any, rows: NDArray[np.intp]) -> Any:
        """Return some rows of a column."""

    def list_values(self, values: Any) -> Sequence[Any]:
        """Return the values of a column as Python objects."""
        listed: list[Any] = values.tolist()
        return listed

    def holds_objects(self, values: Any) -> bool:
        """Return whether the type of a column has room for objects other than values."""
        return True

    def write(self, column: Column) -> Any:
        """Return a column as one of this library: the user's own, or a new one, of its type where that can hold the
        cells.
        """
        source = column.source
        old = None
        if source is not None and source.kind == self.kind:
            old = source.values if source.rows is None else self.take(source.values, source.rows)
            if source.current:
                return old
        integers = column.read_large_integers()
        if integers is not None:
            return self.make_integers(column.name, integers)
        cells = column.cells
        if source is not None and source.current and cells.unit is not None and cells.unit.pattern is None:
            # numbers of days are not exact to the nanosecond, but a column of another library may be
            given = (
                source.values if source.rows is None else column_adapter(source.kind).take(source.values, source.rows)
            )
            moments = column_adapter(source.kind).read_moments(given)
            if moments is not None:
                return self.make_moments(column.name, moments.values, cells.unit, None)
        if source is None or old is None:
            return self._make(column.name, cells, None)
        if source.unchanged is not None:
            rows = np.flatnonzero(~source.unchanged)
            if not len(rows):
                return old
            written = self.insert(old, rows, self._make(column.name, cells.take(rows), old))
            if written is not None:
                return written
        return self._make(column.name, cells, old)

    def _make(self, name: str, cells: Cells, old: Any) -> Any:
        """Return a new column of cells, of the type of an old one where that can hold them."""
        unit = cells.unit
        if unit is not None and unit.pattern is None:
            return self.make_moments(name, unit.arrays(cells.array), unit, old)
        if unit is not None:
            cells = label_moments(name, cells)
        made = self.make(name, cells)
        return made if old is None else self.restore_type(made, old, cells)

    def read_moments(self, values: Any) -> TimeValues | None:
        """Return a column of a type of dates or times as one of numpy; None for any other."""
        return None

    @abstractmethod
    def make_moments(self, name: str, moments: NDArray[Any], unit: Unit, old: Any) -> Any:
        """Return a new column of dates or times, of the type of an old one if there is one."""

    @abstractmethod
    def make(self, name: str, cells: Cells) -> Any:
        """Return a new column of cells, of the type that suits them best."""

    @abstractmethod
    def make_integers(self, name: str, values: NDArray[Any]) -> Any:
        """Return a new column of Python integers and None."""

    @abstractmethod
    def restore_type(self, made: Any, old: Any, cells: Cells) -> Any:
        """Return a new column with the type of an old one, or as it is where that type can't hold its values."""

    def fit(self, values: Any, kind: Any) -> Any:
        """Return what fills holes as a column of a type of the library, numbers beyond its ends as these."""
        return values

    def insert(self, old: Any, rows: NDArray[np.intp], part: Any) -> Any:
        """Return a column with the values of `part` in some of its rows, or None where its type can't hold them."""
        return None


def is_of_library(thing: Any, name: str, *kinds: str) -> bool:
    """Return whether a thing is of one of some classes of a library, which is not imported for that.

    Examples
    --------
    >>> is_of_library(np.zeros(2), "numpy", "ndarray"), is_of_library(1, "numpy", "ndarray", "generic")
    (True, False)
    """
    library = sys.modules.get(name)
    return library is not None and isinstance(thing, tuple(getattr(library, kind) for kind in kinds))


def column_kind(values: Any) -> str:
    """Return the name of the library of a column, and "numpy" for any other sequence."""
    owner = ColumnAdapter.registry.find_owner(values)
    return "numpy" if owner is None else owner.kind


def column_adapter(kind: str) -> ColumnAdapter:
    """Return the adapter of a library's columns by its name, such as "pandas"."""
    return ColumnAdapter.registry.load()[kind]


# -- frames ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Frame:
    """The columns of a user's frame by name, and all that is needed to build a frame like it.

    Attributes
    ----------
    kind : str
        The name of its adapter.
    columns : mapping from name to column
        As the user gave them; those of a `Table` are `Column`.
    rows : int
    index, labels : object
        What the library stores of a frame besides its columns.
    data : object
        The frame itself.
    given : mapping from str to object
        What the frame calls columns whose names are no text; a frame like it gets those names again.
    kept : frozenset of str
        Columns that are learned from whatever they are: see `Rows.kept`.
    """

    kind: str
    columns: Mapping[str, Any]
    rows: int
    index: Any = None
    labels: Any = None
    data: Any = None
    given: Mapping[str, Any] = field(default_factory=dict)
    kept: frozenset[str] = frozenset()

    def select(self, names: Iterable[str]) -> Frame:
        """Return the frame with some of its columns; `replace` still returns a frame with all of them."""
        return replace(self, columns={name: self.columns[name] for name in names})

    def blank(self, missing: Any) -> Frame:
        """Return the frame with those cells missing that hold values which mark them, in some columns or in all.

        Examples
        --------
        >>> open_frame({"sex": [1, 9], "age": [9, 80]}).blank({"sex": 9}).columns["sex"].cells.missing
        array([False,  True])
        """
        if missing is None:
            return self
        columns = dict(self.columns)
        for name, marks in list_marks(self.find_keys(missing), columns).items():
            column = read_column(name, columns[name])
            columns[name] = column if column.fault is not None else column.blank(marks)
        return replace(self, columns=columns)

    def without_columns(self) -> Frame:
        """Return the frame without columns and data, from which frames like it are built."""
        return Frame(self.kind, {}, self.rows, self.index, self.labels, given=self.given, kept=self.kept)

    def find_names(self, names: Any, what: str = "names of columns") -> list[str]:
        """Return what columns are called here, given one name or several in the frame's own terms.

        What is neither raises `TableError`, which calls it `what`.

        Examples
        --------
        >>> frame = open_frame({0: [1.5], "c": ["a"]})
        >>> frame.find_names([0, "c"]), frame.find_names(0), frame.find_names("d")
        (['0', 'c'], ['0'], ['d'])
        """
        texts: dict[Any, str] = {given: text for text, given in self.given.items()}
        is_one = isinstance(names, tuple) or not isinstance(names, Iterable)
        listed = [names] if is_one and names in texts else list_items(names, what)
        return [texts[name] if isinstance(name, Hashable) and name in texts else name for name in listed]

    def find_keys(self, mapping: Any) -> Any:
        """Return a mapping with its keys as columns are called here; anything else as it is."""
        if not self.given or not isinstance(mapping, Mapping):
            return mapping
        return {self.find_names([key])[0]: value for key, value in mapping.items()}

    def rename(self, names: Iterable[str]) -> list[Any]:
        """Return the frame's own names of columns."""
        return [self.given.get(name, name) for name in names]

    def take(self, rows: NDArray[np.intp]) -> Frame:
        """Return some rows of the frame, without columns and data."""
        index = None if self.index is None else self.index.take(rows)
        return Frame(self.kind, {}, len(rows), index, self.labels, given=self.given, kept=self.kept)

    def build(self, columns: Sequence[Column]) -> Any:
        """Return a new frame of the same kind, and with the same index if it has one."""
        return frame_adapter(self.kind).build(columns, self)

    def replace(self, table: Table, added: Mapping[str, NDArray[np.bool_]]) -> Any:
        """Return a copy of the frame with a table's columns instead of its own, and
        additional columns of truth values.
        """
        return frame_adapter(self.kind).replace(self, table._columns, added)


def list_marks(missing: Any, names: Collection[str]) -> dict[str, list[Any]]:
    """Return the values that mark missing cells of each column that has some.

    Examples
    --------
    >>> list_marks({"sex": 9}, ["sex", "age"]), list_marks([-99, "n/a"], ["age"])
    ({'sex': [9]}, {'age': [-99, 'n/a']})
    """
    if isinstance(missing, str) and missing in ("available", "em"):
        raise TableError(
            f"missing={missing!r} is for what learns from rows with holes by different methods, such as hybridbn.fit;"
            f" where {missing!r} marks missing cells, give it in a list: missing=[{missing!r}]"
        )
    marks = missing if isinstance(missing, Mapping) else dict.fromkeys(names, missing)
    for name in marks:
        if name not in names:
            raise TableError(f"missing={name!r}: there is no such column; the columns are {shorten(names)}")
    return {
        name: [own] if isinstance(own, str) or not isinstance(own, Iterable) else list(own)
        for name, own in marks.items()
    }


def split_marks(missing: Any) -> tuple[dict[str, list[str]], Any]:
    """Return as an option of files of text the texts that mark missing cells of all columns, and what else marks some.

    Examples
    --------
    >>> split_marks(["n/a", -99]), split_marks({"sex": 9})
    (({'missing': ['n/a']}, [-99]), ({}, {'sex': 9}))
    """
    if missing is None or isinstance(missing, Mapping):
        return {}, missing
    marks = list_marks(missing, [""])[""]
    texts = [mark for mark in marks if isinstance(mark, str)]
    return {"missing": texts} if texts else {}, [mark for mark in marks if not isinstance(mark, str)] or None


class FrameAdapter(Registered, ABC):
    """Opens and builds one kind of frame. Defining a subclass with a `kind` registers it."""

    kind: ClassVar[str]
    """The `Table.kind` of tables of such frames."""
    registry: ClassVar[Registry[FrameAdapter]] = Registry(
        "kind of frames", "hybridbn.tables.frames", "kind", instances=True
    )

    def owns(self, data: Any) -> bool:
        """Return whether an object is a frame of this kind, as its type alone decides; by default none is."""
        return False

    @abstractmethod
    def open(self, data: Any) -> Frame:
        """Return a frame as columns, without reading their cells; later changes of it must not change the columns."""

    @abstractmethod
    def build(self, columns: Sequence[Column], like: Frame) -> Any:
        """Return a new frame of columns, with the index and the labels of another frame of its kind."""

    @abstractmethod
    def replace(self, frame: Frame, columns: Mapping[str, Column], added: Mapping[str, NDArray[np.bool_]]) -> Any:
        """Return a copy of a frame with some columns replaced and others added."""


def frame_adapter(kind: str) -> FrameAdapter:
    """Return the adapter of a kind of frames by its name, such as "records"."""
    return FrameAdapter.registry.load()[kind]


def open_frame(data: Any) -> Frame:
    """Return a frame of any supported kind as columns, without reading their cells.

    Examples
    --------
    >>> open_frame({"x": [1, 2]}).rows, open_frame([{"x": 1}, {"y": "a"}]).columns["y"].tolist()
    (2, [None, 'a'])
    """
    return (FrameAdapter.registry.find_owner(data) or _choose_adapter(data)).open(data)


def _choose_adapter(data: Any) -> FrameAdapter:
    """Return the adapter for a frame of no known type, by what it offers; raise `TableError` where there is none."""
    for collect in ("collect", "compute"):
        if hasattr(data, collect):
            raise TableError(f"a {type(data).__name__} is lazy: {collect}() it first")
    exports = hasattr(data, "__arrow_c_stream__")
    if exports and hasattr(data, "columns"):
        return frame_adapter("arrow")
    if isinstance(data, Iterable) and not (exports or hasattr(data, "dtype") or isinstance(data, str | bytes)):
        return frame_adapter("records")
    raise TableError(
        f"a table can't be made of a {type(data).__name__}; give a DataFrame (pandas, polars), a pyarrow table, "
        "a mapping of columns, a list of records or a structured array"
    )


def check_column_names(names: Iterable[Any]) -> list[str]:
    """Return the names of columns as different texts; raise `TableError` where one is repeated.

    Examples
    --------
    >>> check_column_names(["x", 0, ("a", 1), "0"])
    ['x', '0_', 'a_1', '0']
    """
    listed = list(names)
    if not listed:
        raise TableError("the table has no columns")
    repeated = (
        sorted({str(name) for name in listed if listed.count(name) > 1}) if len(set(listed)) < len(listed) else []
    )
    if repeated:
        raise TableError(
            f"several columns are called {shorten(repeated)}; column names must differ: rename or drop them"
        )
    taken = {name for name in listed if isinstance(name, str)}
    texts = []
    for number, name in enumerate(listed):
        text = name if isinstance(name, str) else "_".join(map(str, name)) if isinstance(name, tuple) else str(name)
        if not text or not isinstance(name, str):
            text = find_unused_name(text or f"unnamed_{number}", taken)
            taken.add(text)
        texts.append(str(text))
    return texts


def own_names(names: Iterable[Any], texts: Sequence[str]) -> dict[str, Any]:
    """Return the names of those columns that are called differently inside.

    Examples
    --------
    >>> own_names(["x", 0], ["x", "0"])
    {'0': 0}
    """
    return {text: name for text, name in zip(texts, names, strict=True) if type(name) is not str or name != text}


def check_weights(weights: Any, rows: int) -> Values | None:
    """Return weights as a read-only copy; raise `TableError` naming the first row with an invalid one.

    Examples
    --------
    >>> check_weights([1, 2.5], 2)
    array([1. , 2.5])
    """
    if weights is None:
        return None
    try:
        array = np.array(weights.to_list() if hasattr(weights, "to_list") else weights, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise TableError(f"weights must be numbers, one a row, not {weights!r:.80}") from None
    if array.shape != (rows,):
        raise TableError(
            f"there are {array.size} weights of shape {array.shape} for {rows} rows; give one weight a row"
        )
    bad = ~(np.isfinite(array) & (array >= 0))
    if bad.any():
        row = int(np.argmax(bad))
        raise TableError(
            f"weights, row {row}: {array[row]} is not a finite non-negative number ({int(bad.sum())} such weights)"
        )
    with np.errstate(over="ignore"):
        total = float(array.sum())
    if rows and not 0 < total < np.inf:
        raise TableError(f"the weights sum to {total}; at least one must be positive, and the sum finite")
    return freeze_array(array)
