"""Columns of states of a Parquet file, coded batch by batch in as few bytes as their states need.

A column that is read as a whole takes eight bytes or more a cell before its states are known; coded with the states
seen so far, it takes one byte for up to 127 of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hybridbn.tables.formats.pyarrow_checks import validate
from hybridbn.tables.formats.typed_columns import WantedColumns

__all__ = ["StateCoder", "is_coded", "read_coded_columns"]

_BATCH = 1 << 15
"""Rows of a batch."""
_SPAN = 1 << 16
"""Integers of a column are looked up in a table where they span at most so many numbers."""
_NEW = -2
_TYPES = (np.int8, np.int16, np.int32, np.int64)


def read_coded_columns(pyarrow: Any, file: Any, kinds: Mapping[str, Any]) -> dict[str, Any]:
    """Return columns of text or integers of an opened Parquet file as Arrow columns with one dictionary each.

    Parameters
    ----------
    file : ParquetFile, which gives the columns of text as dictionaries
    kinds : mapping from column to the Arrow type that it has in the file
    """
    columns = {name: _CodedColumn(file.metadata.num_rows) for name in kinds}
    start = 0
    for batch in file.iter_batches(_BATCH, columns=list(kinds), use_threads=False):
        validate(batch)
        for name, column in columns.items():
            column.add(pyarrow, start, batch.column(name))
        start += batch.num_rows
    return {name: columns[name].finish(pyarrow, kind) for name, kind in kinds.items()}


def is_coded(types: Any, kind: Any, name: str, wanted: WantedColumns, notes: Mapping[str, Mapping[str, Any]]) -> bool:
    """Tell whether a column of a file holds states, of text or of integers."""
    if types.is_dictionary(kind):
        kind = kind.value_type
    if types.is_integer(kind):
        declared = wanted.kind(name) or notes.get(name, {}).get("kind")
        return bool(declared == "discrete" and not types.is_uint64(kind))
    return bool(types.is_string(kind) or types.is_large_string(kind))


class _CodedColumn:
    """The codes of the rows so far, in the order in which their values came first."""

    def __init__(self, rows: int) -> None:
        self._codes: NDArray[Any] = np.empty(rows, np.int8)
        self._coder = StateCoder()

    def add(self, pyarrow: Any, start: int, column: Any) -> None:
        """Code a batch, whose first row has this number."""
        codes = self._coder.encode(pyarrow, column)
        if codes.dtype.itemsize > self._codes.itemsize:
            self._codes = self._codes.astype(codes.dtype)
        self._codes[start : start + len(codes)] = codes

    def finish(self, pyarrow: Any, kind: Any) -> Any:
        """Return the column as an Arrow column."""
        states, ordered = list(self._coder.states), False
        if pyarrow.types.is_dictionary(kind):
            ordered, kind = kind.ordered, kind.value_type
        else:
            states.sort()
            place = {state: code for code, state in enumerate(states)}
            self._recode([*map(place.__getitem__, self._coder.states), -1])
        missing = self._codes < 0
        codes = pyarrow.array(self._codes, mask=missing if missing.any() else None)
        states = pyarrow.array(states, kind)
        return pyarrow.chunked_array([pyarrow.DictionaryArray.from_arrays(codes, states, ordered=ordered)])

    def _recode(self, positions: Sequence[int]) -> None:
        """Replace the codes by others, a block at a time: a whole column of indices would take eight bytes a row."""
        table = np.array(positions, self._codes.dtype)
        for start in range(0, len(self._codes), _BATCH):
            block = self._codes[start : start + _BATCH]
            block[:] = table[block]


class StateCoder:
    """Codes of states in as few bytes as their number needs, in the order in which they came; batch after batch.

    Parameters
    ----------
    states : iterable
        Those that are known before.

    Examples
    --------
    >>> import pyarrow
    >>> coder = StateCoder(["b"])
    >>> [coder.encode(pyarrow, pyarrow.array(batch)).tolist() for batch in (["a", "b"], [None, "c"])]
    [[1, 0], [-1, 2]]
    >>> list(coder.states)
    ['b', 'a', 'c']
    """

    def __init__(self, states: Iterable[Any] = ()) -> None:
        self.states: dict[Any, int] = {}
        self._kind: type[np.signedinteger[Any]] = np.int8
        self._dictionary: Any = None
        self._known: NDArray[Any] = np.empty(0, np.int8)
        self._low = 0
        self._span: NDArray[Any] = np.empty(0, np.int8)
        self._is_identity = False
        self._number(states)

    def encode(self, pyarrow: Any, column: Any) -> NDArray[Any]:
        """Return the codes of an Arrow array of text, of integers or of a dictionary, -1 where a cell is missing."""
        if pyarrow.types.is_integer(column.type):
            looked_up = None if column.null_count else self._look_up_integers(column.to_numpy())
            if looked_up is not None:
                return looked_up
        if not pyarrow.types.is_dictionary(column.type):
            column = column.dictionary_encode()
        if self._dictionary is None or not column.dictionary.equals(self._dictionary):
            self._dictionary = column.dictionary
            # the last is looked up by the code -1 of a missing cell
            known = [*self._number(self._dictionary.to_pylist()), -1]
            self._known = np.array(known, self._kind)
        indices = column.indices.fill_null(-1) if column.indices.null_count else column.indices
        codes: NDArray[Any] = self._known.take(indices.to_numpy(), mode="wrap")
        return codes

    def _number(self, values: Iterable[Any]) -> list[int]:
        """Return the codes of values, new ones following those so far; the type of the codes has room for them."""
        numbers = [-1 if value is None else self.states.setdefault(value, len(self.states)) for value in values]
        self._kind = next(kind for kind in _TYPES if len(self.states) <= np.iinfo(kind).max)
        return numbers

    def _look_up_integers(self, values: NDArray[Any]) -> NDArray[Any] | None:
        """Return the codes of integers from a table of all between the least and the greatest; None where these are too
        many.
        """
        if not len(values):
            return self._span
        low, high = int(values.min()), int(values.max())
        if not len(self._span) or low < self._low or high >= self._low + len(self._span):
            if self.states:
                low, high = min(low, *self.states), max(high, *self.states)
            if high - low >= _SPAN:
                return None
            self._low, self._span = low, np.full(high - low + 1, _NEW, self._kind)
            for value, code in self.states.items():
                self._span[value - low] = code
            self._is_identity = bool((self._span == np.arange(len(self._span))).all())
        if not self._low and self._is_identity:
            # each integer is its own code
            return values.astype(self._kind, copy=False)
        places = values if not self._low and values.dtype.kind == "i" else values.astype(np.int64) - self._low
        codes = self._span.take(places)
        new = np.flatnonzero(np.bincount(places[codes == _NEW])) if codes.min() == _NEW else places[:0]
        if len(new):
            numbers = self._number((new + self._low).tolist())
            self._span = self._span.astype(self._kind, copy=False)
            self._span[new] = numbers
            self._is_identity = bool((self._span == np.arange(len(self._span))).all())
            codes = self._span.take(places)
        return codes
