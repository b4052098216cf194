"""The way from a user's frame to columns and back: what came in goes out, with nothing changed but the holes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hybridbn.errors import TableError
from hybridbn.tables import Table
from hybridbn.tables.frames import Frame, opened
from hybridbn.variables import Discrete, Values, Variable, shorten

__all__ = ["Original", "holes_of"]


class Original:
    """A frame of any kind that `Table` takes; some columns are left alone, and then may hold anything.

    Parameters
    ----------
    data : DataFrame, pyarrow table, mapping of arrays, list of records, structured array or Table
    skip : iterable of str
        Columns that are not even read.
    """

    def __init__(self, data: Any, skip: str | Iterable[str] = ()) -> None:
        data = list(data) if isinstance(data, Iterator) else data
        self.source: Any = data
        self._frame: Frame | None = None if isinstance(data, Table) else opened(data)
        names = data.names if self._frame is None else tuple(self._frame.columns)
        self.skipped = frozenset([skip] if isinstance(skip, str) else skip)
        for name in self.skipped:
            if name not in names:
                raise TableError(f"skip={name!r}: there is no such column; the columns are {shorten(names)}")
        self.names: tuple[str, ...] = tuple(name for name in names if name not in self.skipped)
        self.all_names: tuple[str, ...] = tuple(names)
        self.rows: int = len(data) if self._frame is None else self._frame.rows

    def table(self, discrete: str | Iterable[str] = (), continuous: str | Iterable[str] = ()) -> Table:
        """Return the columns that are not left alone, each read by its own type or as it is declared."""
        if self._frame is None:
            return Table(self.source.select(self.names), discrete, continuous)
        return Table({name: self._frame.columns[name] for name in self.names}, discrete, continuous)

    def read_as(self, variables: Iterable[Variable]) -> Table:
        """Return the columns of some variables, read against these; values that are no states count as missing."""
        wanted = list(variables)
        names = [variable.name for variable in wanted]
        if self._frame is None:
            return Table(self.source.select(names), variables=wanted, unknown="missing")
        return Table({name: self._frame.columns[name] for name in names}, variables=wanted, unknown="missing")

    def ranges(self) -> dict[str, tuple[float, float]]:
        """Return the least and the greatest number that a column's integer type can hold, of columns of such a type."""
        found = {}
        columns = {} if self._frame is None else self._frame.columns
        for name in self.names if columns else ():
            dtype = str(getattr(columns[name], "dtype", getattr(columns[name], "type", "")))
            match = re.fullmatch(r"(u?)int(8|16|32|64)", dtype.lower())
            if match:
                bits = int(match[2]) - (not match[1])
                # floats are too coarse for the greatest numbers of 64 bits, and nobody gets there
                high = float(2**bits - 1) if bits < 63 else np.inf
                found[name] = (0.0 if match[1] else -high - 1, high)
        return found

    def column(self, name: str) -> Table:
        """Return one column as a table of its own."""
        return Table(self._column(name))

    def _column(self, name: str) -> Any:
        return self.source.select([name]) if self._frame is None else {name: self._frame.columns[name]}

    def readings(self, known: Mapping[str, Variable]) -> dict[str, Table]:
        """Return each column that a model knows as a table of its own, read by its own type where it has any value.

        A column of numbers that the model takes for states is read as these.
        """
        found = {}
        for name in self.names:
            if name not in known:
                continue
            data = self._column(name)
            try:
                reading = Table(data)
                reading.variable(name)
            except TableError:
                # nothing but holes: only the model says what they are
                reading = Table(data, variables=[known[name]])
                if not holes_of(reading, name).all():
                    raise
            variable = known[name]
            if isinstance(variable, Discrete) and variable.cuts is None and not reading.is_discrete(name):
                reading = Table(data, discrete=[name]) if not holes_of(reading, name).all() else reading
            found[name] = reading
        return found

    def completed(self, columns: Mapping[str, Table], added: Mapping[str, NDArray[np.bool_]]) -> Any:
        """Return a frame of the same kind with some columns replaced (each in a table of its own) and others added."""
        kind = "table" if self._frame is None else self._frame.kind
        writers = {"table": self._table, "polars": self._polars, "arrow": self._arrow, "records": self._records}
        writers |= {"dict": self._dict, "structured": self._structured}
        return writers.get(kind, self._pandas)(columns, added)

    def _table(self, columns: Mapping[str, Table], added: Mapping[str, NDArray[np.bool_]]) -> Table:
        table: Table = self.source
        for name, column in columns.items():
            variable = column.variable(name)
            if variable == table.variable(name):
                table = table.with_array(name, column.column(name))
            else:
                table = table.with_column(name, column.raw(name), variable)
        for name, values in added.items():
            table = table.with_column(name, values)
        return table

    def _pandas(self, columns: Mapping[str, Table], added: Mapping[str, NDArray[np.bool_]]) -> Any:
        import pandas

        frame = self.source.copy()
        for name, column in columns.items():
            old = frame[name]
            if isinstance(old.dtype, pandas.CategoricalDtype):
                codes, states = column.column(name), _states(column, name)
                used = [states[code] for code in np.unique(codes[codes >= 0])]
                levels = [*old.dtype.categories, *(s for s in used if s not in old.dtype.categories)]
                index = pandas.Index(levels) if len(levels) > len(old.dtype.categories) else old.dtype.categories
                places = np.append(index.get_indexer(list(states)), -1)
                new = pandas.Categorical.from_codes(places[codes], categories=index, ordered=bool(old.dtype.ordered))
            else:
                new = column.to_pandas()[name].array
            frame[name] = new
        for name, values in added.items():
            frame[name] = values
        return frame

    def _polars(self, columns: Mapping[str, Table], added: Mapping[str, NDArray[np.bool_]]) -> Any:
        import polars

        made = []
        for name, column in columns.items():
            dtype = self.source.schema[name]
            if isinstance(dtype, polars.Enum):
                states, codes = _states(column, name), column.column(name)
                values = [states[code] for code in codes.tolist()]
                levels = dtype.categories.to_list()
                levels += [s for s in dict.fromkeys(values) if s not in levels]
                made.append(polars.Series(name, values, dtype=polars.Enum(levels)))
            else:
                made.append(column.to_polars()[name].alias(name))
        return self.source.with_columns(*made, *(polars.Series(name, values) for name, values in added.items()))

    def _arrow(self, columns: Mapping[str, Table], added: Mapping[str, NDArray[np.bool_]]) -> Any:
        import pyarrow

        frame = self.source
        if not isinstance(frame, pyarrow.Table):
            frame = pyarrow.table(dict(self._frame.columns) if self._frame is not None else {})
        for name, column in columns.items():
            place = frame.column_names.index(name)
            frame = frame.set_column(place, name, column.to_arrow().column(name))
        for name, values in added.items():
            frame = frame.append_column(name, pyarrow.array(values))
        return frame

    def _dict(self, columns: Mapping[str, Table], added: Mapping[str, NDArray[np.bool_]]) -> dict[str, Any]:
        plain = {name: column.to_dict()[name] for name, column in columns.items()}
        return {**self.source, **plain, **added}

    def _records(self, columns: Mapping[str, Table], added: Mapping[str, NDArray[np.bool_]]) -> list[dict[str, Any]]:
        plain = {name: column.to_dict()[name].tolist() for name, column in columns.items()}
        plain |= {name: values.tolist() for name, values in added.items()}
        return [
            {**record, **{name: values[row] for name, values in plain.items()}}
            for row, record in enumerate(self.source)
        ]

    def _structured(self, columns: Mapping[str, Table], added: Mapping[str, NDArray[np.bool_]]) -> NDArray[Any]:
        fields: Sequence[Any] = [(name, self.source.dtype[name]) for name in self.source.dtype.names]
        made = np.empty(self.source.shape, dtype=[*fields, *((name, np.bool_) for name in added)])
        for name in self.source.dtype.names:
            made[name] = columns[name].to_dict()[name] if name in columns else self.source[name]
        for name, values in added.items():
            made[name] = values
        return made


def _states(table: Table, name: str) -> tuple[Any, ...]:
    variable = table.variable(name)
    return variable.states if isinstance(variable, Discrete) else ()


def holes_of(table: Table, name: str) -> NDArray[np.bool_]:
    """Return where a column is missing, as an array of its own.

    Examples
    --------
    >>> holes_of(Table({"x": [1.0, None]}), "x")
    array([False,  True])
    """
    column: Values = table.column(name)
    return np.asarray(column < 0 if table.is_discrete(name) else np.isnan(column))
