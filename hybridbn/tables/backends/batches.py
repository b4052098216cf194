"""Batches as codes and numbers of known variables."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hybridbn.errors import TableError
from hybridbn.registry import LazyModule
from hybridbn.tables import Table
from hybridbn.tables.backends.base import FILE_BITS, Batch
from hybridbn.tables.cells import REST, check_numbers, count_texts
from hybridbn.tables.columns import check_weights, read_as_variable
from hybridbn.tables.formats.base import decode_column
from hybridbn.tables.formats.columnar import is_text
from hybridbn.tables.formats.text_blocks import shift_lines_in_errors
from hybridbn.tables.frames.arrow import StateCoder, decode_dictionary, kind_of_type
from hybridbn.variables import Codes, Continuous, Discrete, Values, Variable, shorten

pyarrow = LazyModule("pyarrow")


class BatchReader:
    """Reads the columns of batches as codes or values of variables, in as few bytes as they need.

    Parameters
    ----------
    variables : sequence of Variable
        A discrete one whose last state is `REST` takes every value that is no other of its states for that one.
    weights : str, optional
        The column of the rows' weights.
    """

    variables: tuple[Variable, ...]

    def __init__(self, variables: Sequence[Variable], weights: str | None = None) -> None:
        self.variables, self.weights = tuple(variables), weights
        names = [variable.name for variable in self.variables]
        self.columns: tuple[str, ...] = tuple(names if weights is None else dict.fromkeys([*names, weights]))
        # workers may be threads that share this reader
        self._of_thread = threading.local()

    @property
    def _coders(self) -> dict[str, StateCoder]:
        coders: dict[str, StateCoder] = vars(self._of_thread)
        return coders

    def __reduce__(self) -> tuple[Any, ...]:
        return BatchReader, (self.variables, self.weights)

    def read(self, batch: Batch) -> tuple[dict[str, NDArray[Any]], Values | None]:
        """Return the columns of a batch and the weights of its rows."""
        columns = {variable.name: self._read(batch, variable) for variable in self.variables}
        if self.weights is None:
            return columns, None
        try:
            weights = read_numbers(self.weights, batch.data.column(self.weights))
            if np.isnan(weights).any() or (weights < 0).any():
                check_weights(weights, batch.data.num_rows)
        except TableError as error:
            raise TableError(f"the column of weights, {self.weights!r}: {error}") from None
        return columns, weights

    def table(self, batch: Batch) -> Table:
        """Return a batch as a table of these variables."""
        columns, weights = self.read(batch)
        if not columns:
            empty = Table({"": np.zeros(batch.data.num_rows)})
            return empty.select([])
        return Table.from_arrays(self.variables, columns, weights=weights)

    def _read(self, batch: Batch, variable: Variable) -> NDArray[Any]:
        name = variable.name
        column = batch.data.column(name)
        if isinstance(variable, Discrete):
            if variable.cuts is None and can_be_coded(column.type) and _suits(variable.states, column.type):
                return self._encode(batch, variable, column)
        elif variable.unit is None and variable.domain == (-np.inf, np.inf) and _is_number(column.type):
            return read_numbers(name, column)
        if isinstance(variable, Discrete) and variable.states[-1:] == (REST,):
            return _read_rest(variable, column)
        with shift_lines_in_errors(-1, batch.first % (1 << FILE_BITS), "row"):
            moments = read_moments(column, variable) if isinstance(variable, Continuous) else None
            if moments is not None:
                return moments
            return read_as_variable(pyarrow.chunked_array([decode_column(column)]), variable).cells.array

    def _encode(self, batch: Batch, variable: Discrete, column: Any) -> Codes:
        has_rest = variable.states[-1] == REST
        known = len(variable) - has_rest
        coder = self._coders.get(variable.name)
        if coder is None or len(coder.states) > 2 * known + 2**16:
            # so that rare states don't pile up
            coder = self._coders[variable.name] = StateCoder(variable.states[:known])
        codes = coder.encode(column)
        if len(coder.states) == known:
            return codes
        strange = np.asarray(codes >= known)
        if not strange.any():
            return codes
        if has_rest:
            return np.where(strange, np.array(known, np.int64), codes)
        row = int(np.argmax(strange))
        value = column[row].as_py()
        del self._coders[variable.name]
        raise TableError(
            f"column {variable.name!r}, row {batch.first + row} of the scan: {value!r} is no state; the states are"
            f" {shorten(variable.states)}"
        )


def _read_rest(variable: Discrete, column: Any) -> Codes:
    codes = {state: code for code, state in enumerate(variable.states)}
    rest = len(variable) - 1
    return np.array([-1 if value is None else codes.get(value, rest) for value in column.to_pylist()], np.intp)


def can_be_coded(kind: Any) -> bool:
    """Tell whether a column of an Arrow type has states that are coded batch by batch: text and integers."""
    return kind_of_type(kind) in ("text", "integer") and not pyarrow.types.is_uint64(kind)


def _suits(states: Sequence[Any], kind: Any) -> bool:
    """Tell whether states are values of a type."""
    wanted = int if kind_of_type(kind) == "integer" else str
    return all(type(state) is wanted or state == REST for state in states)


def read_moments(column: Any, variable: Continuous) -> Values | None:
    """Return an Arrow array of text as the dates or times of a variable; None where it is anything else."""
    is_coded, unit = pyarrow.types.is_dictionary(column.type), variable.unit
    is_written = unit is not None and unit.pattern is not None and variable.domain == (-np.inf, np.inf)
    if not is_written or not (is_coded or is_text(column.type)):
        return None
    encoded = column if is_coded else column.dictionary_encode()
    codes, states = decode_dictionary(pyarrow.chunked_array([encoded]))
    cells = count_texts(variable.name, codes, states, unit, strict=True)
    return np.full(len(codes), np.nan) if cells is None else cells.array


def _is_number(kind: Any) -> bool:
    return kind_of_type(kind) in ("integer", "float", "decimal")


def read_numbers(name: str, column: Any) -> Values:
    """Return an Arrow array of numbers as floats, NaN where one is missing.

    Examples
    --------
    >>> import pyarrow
    >>> read_numbers("x", pyarrow.array([1, None, 3]))
    array([ 1., nan,  3.])
    """
    if not _is_number(column.type):
        raise TableError(f"column {name!r} is of type {column.type}, not of numbers")
    if pyarrow.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if not pyarrow.types.is_float64(column.type):
        column = column.cast(pyarrow.float64(), safe=False)
    if column.null_count:
        column = column.fill_null(np.nan)
    return check_numbers(name, column.to_numpy(zero_copy_only=False)).array
