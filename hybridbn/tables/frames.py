"""Frames of any library as columns, and the base class of adapters to the frames of other libraries."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from hybridbn.errors import TableError
from hybridbn.tables.adapters import load_adapters
from hybridbn.tables.columns import Column
from hybridbn.variables import shorten

if TYPE_CHECKING:
    from hybridbn.tables.table import Table

__all__ = ["Frame", "FrameAdapter", "check_column_names", "frame_adapter", "open_frame"]


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
    names : tuple of str
        The names of all its columns, including those that are not in `columns`.
    """

    kind: str
    columns: Mapping[str, Any]
    rows: int
    index: Any = None
    labels: Any = None
    data: Any = None
    names: Sequence[str] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "names", tuple(self.names or self.columns))

    def select(self, names: Iterable[str]) -> Frame:
        """Return the frame with some of its columns; `replace` still returns a frame with all of them."""
        return replace(self, columns={name: self.columns[name] for name in names}, names=self.names)

    def without_columns(self) -> Frame:
        """Return the frame without columns and data, from which frames like it are built."""
        return Frame(self.kind, {}, self.rows, self.index, self.labels)

    def take(self, rows: NDArray[np.intp]) -> Frame:
        """Return some rows of the frame, without columns and data."""
        return Frame(self.kind, {}, len(rows), None if self.index is None else self.index.take(rows), self.labels)

    def build(self, columns: Sequence[Column]) -> Any:
        """Return a new frame of the same kind, and with the same index if it has one."""
        return frame_adapter(self.kind).build(columns, self)

    def replace(self, table: Table, added: Mapping[str, NDArray[np.bool_]]) -> Any:
        """Return a copy of the frame with a table's columns instead of its own, and
        additional columns of truth values.
        """
        return frame_adapter(self.kind).replace(self, table._columns, added)


class FrameAdapter(ABC):
    """Opens and builds one kind of frame. Defining a subclass with a `kind` registers it."""

    kind: ClassVar[str]
    """The `Table.kind` of tables of such frames."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if "kind" in cls.__dict__:
            _FRAMES[cls.kind] = cls()

    is_fallback: ClassVar[bool] = False
    """Whether it is tried after all others, because it also accepts what may be a frame of another kind."""

    @abstractmethod
    def owns(self, data: Any) -> bool:
        """Return whether an object is a frame of this kind."""

    @abstractmethod
    def open(self, data: Any) -> Frame:
        """Return a frame as columns, without reading their cells; later changes of it must not change the columns."""

    @abstractmethod
    def build(self, columns: Sequence[Column], like: Frame) -> Any:
        """Return a new frame of columns, with the index and the labels of another frame of its kind."""

    @abstractmethod
    def replace(self, frame: Frame, columns: Mapping[str, Column], added: Mapping[str, NDArray[np.bool_]]) -> Any:
        """Return a copy of a frame with some columns replaced and others added."""


_FRAMES: dict[str, FrameAdapter] = {}


def frame_adapter(kind: str) -> FrameAdapter:
    """Return the adapter of a kind of frames by its name, such as "records"."""
    load_adapters()
    return _FRAMES[kind]


def open_frame(data: Any) -> Frame:
    """Return a frame of any supported kind as columns, without reading their cells.

    Examples
    --------
    >>> open_frame({"x": [1, 2]}).rows, open_frame([{"x": 1}, {"y": "a"}]).columns["y"].tolist()
    (2, [None, 'a'])
    """
    load_adapters()
    for adapter in sorted(_FRAMES.values(), key=lambda adapter: adapter.is_fallback):
        if adapter.owns(data):
            return adapter.open(data)
    for collect in ("collect", "compute"):
        if hasattr(data, collect):
            raise TableError(f"a {type(data).__name__} is lazy: {collect}() it first")
    if hasattr(data, "__arrow_c_stream__") and hasattr(data, "columns"):
        return frame_adapter("arrow").open(data)
    raise TableError(
        f"a table can't be made of a {type(data).__name__}; give a DataFrame (pandas, polars), a pyarrow table, "
        "a mapping of columns, a list of records or a structured array"
    )


def check_column_names(names: Iterable[Any]) -> list[str]:
    """Return the names of columns as a list; raise `TableError` where one is no text or repeated."""
    listed = list(names)
    if not listed:
        raise TableError("the table has no columns")
    invalid = [name for name in listed if not isinstance(name, str) or not name]
    if invalid:
        raise TableError(
            f"column names must be non-empty text, not {shorten(invalid)}; "
            "rename them, with pandas for example frame.columns = frame.columns.map(str)"
        )
    repeated = sorted({name for name in listed if listed.count(name) > 1}) if len(set(listed)) < len(listed) else []
    if repeated:
        raise TableError(
            f"several columns are called {shorten(repeated)}; column names must differ: rename or drop them"
        )
    return [str(name) for name in listed]
