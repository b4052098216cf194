"""Frames of any library as columns, and the base class of adapters to the frames of other libraries."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from hybridbn.errors import TableError
from hybridbn.options import list_items
from hybridbn.registry import Registered, Registry
from hybridbn.tables.cells import freeze_array
from hybridbn.tables.columns import Column
from hybridbn.variables import Values, shorten

if TYPE_CHECKING:
    from hybridbn.tables.table import Table

__all__ = [
    "Frame",
    "FrameAdapter",
    "check_column_names",
    "check_weights",
    "describe_left_alone",
    "frame_adapter",
    "open_frame",
    "own_names",
]


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
    given : mapping from str to object
        What the frame calls columns whose names are no text; a frame like it gets those names again.
    """

    kind: str
    columns: Mapping[str, Any]
    rows: int
    index: Any = None
    labels: Any = None
    data: Any = None
    names: Sequence[str] = ()
    given: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "names", tuple(self.names or self.columns))

    def select(self, names: Iterable[str]) -> Frame:
        """Return the frame with some of its columns; `replace` still returns a frame with all of them."""
        return replace(self, columns={name: self.columns[name] for name in names}, names=self.names)

    def without_columns(self) -> Frame:
        """Return the frame without columns and data, from which frames like it are built."""
        return Frame(self.kind, {}, self.rows, self.index, self.labels, given=self.given)

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
        return Frame(self.kind, {}, len(rows), index, self.labels, given=self.given)

    def build(self, columns: Sequence[Column]) -> Any:
        """Return a new frame of the same kind, and with the same index if it has one."""
        return frame_adapter(self.kind).build(columns, self)

    def replace(self, table: Table, added: Mapping[str, NDArray[np.bool_]]) -> Any:
        """Return a copy of the frame with a table's columns instead of its own, and
        additional columns of truth values.
        """
        return frame_adapter(self.kind).replace(self, table._columns, added)


class FrameAdapter(Registered, ABC):
    """Opens and builds one kind of frame. Defining a subclass with a `kind` registers it."""

    kind: ClassVar[str]
    """The `Table.kind` of tables of such frames."""
    registry: ClassVar[Registry[FrameAdapter]] = Registry(
        "kind of frames", "hybridbn.tables.frames", "kind", instances=True
    )
    by_type: ClassVar[bool] = True
    """Whether the type of an object alone decides whether it is a frame of this kind."""
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
    adapters = FrameAdapter.registry.load()
    key = type(data), len(adapters)
    owner = _OWNERS.get(key)
    if owner is None:
        owner = _find_owner(data, adapters.values())
        if owner.by_type:
            _OWNERS[key] = owner
    return owner.open(data)


_OWNERS: dict[tuple[type, int], FrameAdapter] = {}
"""The adapters of frames by their type and the number of adapters, where the type decides."""


def _find_owner(data: Any, adapters: Iterable[FrameAdapter]) -> FrameAdapter:
    """Return the adapter of a frame; raise `TableError` where there is none."""
    for adapter in sorted(adapters, key=lambda adapter: adapter.is_fallback):
        if adapter.owns(data):
            return adapter
    for collect in ("collect", "compute"):
        if hasattr(data, collect):
            raise TableError(f"a {type(data).__name__} is lazy: {collect}() it first")
    if hasattr(data, "__arrow_c_stream__") and hasattr(data, "columns"):
        return frame_adapter("arrow")
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
            text = text or f"unnamed_{number}"
            while text in taken:
                text += "_"
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


def describe_left_alone(reasons: Mapping[str, str], holes: int = 0) -> str:
    """Return in one line which columns are left alone, and why.

    Examples
    --------
    >>> describe_left_alone({"id": "no value", "note": "free text", "e": "no value"}, 3)
    "columns left alone: 'id', 'e' (no value), 'note' (free text), whose 3 missing cells stay missing"
    """
    names: dict[str, list[str]] = {}
    for name, reason in reasons.items():
        names.setdefault(reason, []).append(name)
    listed = ", ".join(f"{shorten(group, 20)} ({reason})" for reason, group in names.items())
    return f"columns left alone: {listed}" + (f", whose {holes:,} missing cells stay missing" if holes else "")


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
