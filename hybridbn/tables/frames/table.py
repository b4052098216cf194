"""`Table` as a frame, whose columns have been read already."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hybridbn.errors import TableError
from hybridbn.tables.columns import Column, read_column
from hybridbn.tables.frames.frame import Frame, FrameAdapter
from hybridbn.tables.rows import Rows
from hybridbn.tables.table import Table

__all__ = ["TableFrames"]


class TableFrames(FrameAdapter):
    """Tables."""

    kind = "table"

    def owns(self, data: Any) -> bool:
        return isinstance(data, Rows)

    def open(self, data: Any) -> Frame:
        if not isinstance(data, Table):
            raise TableError("the rows of a scan are read in passes; scan.sample(n) is a table of some of them")
        return Frame(self.kind, data._columns, len(data), data=data)

    def build(self, columns: Sequence[Column], like: Frame) -> Any:
        return Table._of(columns, Frame("dict", {}, like.rows), None)

    def replace(self, frame: Frame, columns: Mapping[str, Column], added: Mapping[str, NDArray[np.bool_]]) -> Any:
        table: Table = frame.data
        new = {name: read_column(name, values) for name, values in added.items()}
        return Table._of({**table._columns, **columns, **new}.values(), table._frame, table._weights)
