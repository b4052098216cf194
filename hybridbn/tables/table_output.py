"""The ways out of a `hybridbn.Table`: frames, arrays, and the text that shows it."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hybridbn.tables.checks import Unread
from hybridbn.tables.columns import Column
from hybridbn.tables.frames import Frame
from hybridbn.tables.output import arrow_column, numpy_column, pandas_column, polars_column
from hybridbn.variables import shorten

__all__ = ["TableOutput"]


class TableOutput:
    """What a table can turn into."""

    _frame: Frame
    _columns: dict[str, Column | Unread]
    _weights: NDArray[np.float64] | None

    def _column(self, name: str) -> Column:
        raise NotImplementedError  # a Table reads its columns when they are first asked for

    def __len__(self) -> int:
        return self._frame.rows

    def to_native(self) -> Any:
        """Return the table as the kind of frame that it was made of; files and SQL count as pandas."""
        if self._frame.kind == "dict":
            return self.to_dict()
        if self._frame.kind == "records":
            values = self.to_dict()
            return [
                dict(zip(values, row, strict=True)) for row in zip(*(v.tolist() for v in values.values()), strict=True)
            ]
        if self._frame.kind == "structured":
            return self._structured()
        return {"polars": self.to_polars, "arrow": self.to_arrow}.get(self._frame.kind, self.to_pandas)()

    def to_pandas(self) -> Any:
        """Return a pandas DataFrame; what came as pandas keeps its dtypes, categories and index."""
        import pandas

        index = self._frame.index if self._frame.kind == "pandas" else None
        index = pandas.RangeIndex(len(self)) if index is None else index
        series = {name: pandas_column(self._column(name), index) for name in self._columns}
        frame = pandas.DataFrame(series, index=index)
        if self._frame.kind == "pandas" and self._frame.labels is not None:
            frame.columns.name = self._frame.labels.name
        return frame

    def to_polars(self) -> Any:
        """Return a polars DataFrame."""
        import polars

        return polars.DataFrame([polars_column(self._column(name)) for name in self._columns])

    def to_arrow(self) -> Any:
        """Return a pyarrow Table."""
        import pyarrow

        arrays = [arrow_column(self._column(name)) for name in self._columns]
        made = pyarrow.table(arrays, names=list(self._columns))
        schema = self._frame.labels if self._frame.kind == "arrow" else None
        return made if schema is None else made.replace_schema_metadata(schema.metadata)

    def to_dict(self) -> dict[str, NDArray[Any]]:
        """Return the columns as arrays of values, in the user's terms.

        Examples
        --------
        >>> from hybridbn.tables import Table
        >>> Table({"c": ["a", None], "k": [2, 1]}).to_dict()
        {'c': array(['a', None], dtype=object), 'k': array([2, 1], dtype=object)}
        """
        return {name: numpy_column(self._column(name)) for name in self._columns}

    def _structured(self) -> NDArray[Any]:
        values = self.to_dict()
        kept = self._frame.labels
        fields = [
            (
                name,
                kept[name]
                if name in (kept.names or ()) and kept[name].kind in (array.dtype.kind, "U")
                else array.dtype,
            )
            for name, array in values.items()
        ]
        made = np.empty(len(self), dtype=fields)
        for name, array in values.items():
            made[name] = array
        return made

    def __repr__(self) -> str:
        rows = [
            f"Table: {len(self):,} rows, {len(self._columns)} columns"
            + (", weighted" if self._weights is not None else "")
        ]
        width = max((len(name) for name in self._columns), default=0)
        shown = list(self._columns.values())[:60]
        counts = [self._shown(column) for column in shown]
        states_width = max((len(states) for states, _, _ in counts), default=0)
        missing_width = max((len(missing) for _, missing, _ in counts), default=0)
        for column, (states, missing, examples) in zip(shown, counts, strict=True):
            kind = "discrete" if states else "continuous"
            line = (
                f"  {column.name:{width}}  {kind:10}  {states:>{states_width}}  {missing:>{missing_width}}  {examples}"
            )
            rows.append(line.rstrip())
        if len(shown) < len(self._columns):
            rows.append(f"  ... ({len(self._columns) - len(shown)} more columns)")
        return "\n".join(rows)

    def _shown(self, column: Column | Unread) -> tuple[str, str, str]:
        """Return a column's number of states and of holes and its first states, without reading what was not read."""
        if isinstance(column, Unread):
            states: tuple[Any, ...] | None = getattr(column.variable, "states", None)
            missing = "not read"
        else:
            states = column.cells.states
            missing = f"{int(np.count_nonzero(column.cells.missing)):,} missing"
        if states is None:
            return "", missing, ""
        return f"{len(states):,} states", missing, shorten(states, most=4)
