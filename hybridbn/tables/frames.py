"""Frames of any library taken apart into columns, and what an adapter has to know of the frames of its library."""

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
    """A frame taken apart: its columns by name as they came in, and what is needed to put it together again.

    Attributes
    ----------
    kind : str
        Of the library's frames.
    columns : mapping from name to column
        As they came in; those of a `Table` are `Column`.
    rows : int
    index, labels : object
        What the library keeps of a frame besides its columns.
    data : object
        The frame itself.
    names : tuple of str
        Of all its columns, those that are left out of `columns` included.
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
        """Return the frame with some of its columns; what `replace` returns has all of them all the same."""
        return replace(self, columns={name: self.columns[name] for name in names}, names=self.names)

    def without_columns(self) -> Frame:
        """Return what has to be known to build a frame like this one of other columns."""
        return Frame(self.kind, {}, self.rows, self.index, self.labels)

    def take(self, rows: NDArray[np.intp]) -> Frame:
        """Return the same as `without_columns`, for some of the rows."""
        return Frame(self.kind, {}, len(rows), None if self.index is None else self.index.take(rows), self.labels)

    def build(self, columns: Sequence[Column]) -> Any:
        """Return a new frame of the same kind, with the same index where it has one."""
        return frame_adapter(self.kind).build(columns, self)

    def replace(self, table: Table, added: Mapping[str, NDArray[np.bool_]]) -> Any:
        """Return a copy of the frame with the columns of a table in place of its own, and columns of truth values added."""
        return frame_adapter(self.kind).replace(self, table._columns, added)


class FrameAdapter(ABC):
    """How one kind of frame is taken apart and put together. A subclass with a `kind` is known from then on."""

    kind: ClassVar[str]
    """What `Table.kind` says of a table that was made of such a frame."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if "kind" in cls.__dict__:
            _FRAMES[cls.kind] = cls()

    is_fallback: ClassVar[bool] = False
    """Whether it is asked after all others, because it takes much that may be a frame of another kind."""

    @abstractmethod
    def owns(self, data: Any) -> bool:
        """Tell whether something is a frame of this kind."""

    @abstractmethod
    def open(self, data: Any) -> Frame:
        """Take a frame apart without looking at the cells; later changes of it must not reach the columns."""

    @abstractmethod
    def build(self, columns: Sequence[Column], like: Frame) -> Any:
        """Return a new frame of some columns, with the index and the labels of another of its kind."""

    @abstractmethod
    def replace(self, frame: Frame, columns: Mapping[str, Column], added: Mapping[str, NDArray[np.bool_]]) -> Any:
        """Return a copy of a frame with some columns replaced and others added; all else stays as it is there."""


_FRAMES: dict[str, FrameAdapter] = {}


def frame_adapter(kind: str) -> FrameAdapter:
    """Return the adapter of a kind of frames by its name, such as "records"."""
    load_adapters()
    return _FRAMES[kind]


def open_frame(data: Any) -> Frame:
    """Take a frame of any supported kind apart, without looking at the cells.

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
    """Return the names of columns as a list; refuse what is no text, and repeated names."""
    listed = list(names)
    if not listed:
        raise TableError("the table has no columns")
    strange = [name for name in listed if not isinstance(name, str) or not name]
    if strange:
        raise TableError(
            f"column names must be non-empty text, not {shorten(strange)}; "
            "rename them, with pandas for example frame.columns = frame.columns.map(str)"
        )
    twice = sorted({name for name in listed if listed.count(name) > 1}) if len(set(listed)) < len(listed) else []
    if twice:
        raise TableError(f"several columns are called {shorten(twice)}; column names must differ: rename or drop them")
    return [str(name) for name in listed]
