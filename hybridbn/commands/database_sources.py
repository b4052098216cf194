"""Tables of databases as sources: read once, in one statement, into a file that is then read as often as needed."""

from __future__ import annotations

import datetime
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from hybridbn.commands.records import Piece, lines
from hybridbn.commands.row_files import decoded, encoded, kind_of
from hybridbn.commands.sources import Kinds, located
from hybridbn.commands.text_sources import TextBlock, TextSource
from hybridbn.formats.tables.jsonlines import typed_objects
from hybridbn.formats.tables.reading import Wanted
from hybridbn.formats.tables.relations import Declared, as_truths, database_of, refuse_binary
from hybridbn.tables.columns import Cells

__all__ = ["DatabaseBlock", "DatabaseSource"]


class DatabaseSource(TextSource):
    """A table of a database, or the result of a query.

    What one statement gives is consistent, whatever others write meanwhile, and no connection stays open while the model is learned.

    Parameters
    ----------
    url : str
    path : Path
        Where the rows are put.
    shown : str

    Attributes
    ----------
    kinds : dict from str to str
        What the values of each column are.
    declared : mapping from str to Declared
        The types that the database has for them.
    index : frozenset of str
        The column that is the primary key, if it is one: it says nothing about the others.
    """

    family = "rows"
    split = staticmethod(lines())

    def __init__(self, url: str, path: Path, shown: str) -> None:
        self.kinds: dict[str, str] = {}
        with database_of(url).opened(url, Wanted()) as relation, open(path, "wb") as file:
            names = Wanted().names(relation.names)
            types: list[set[type]] = [set() for _ in names]
            file.write(json.dumps(names).encode() + b"\n")
            for batch in relation.batches:
                for place, column in enumerate(zip(*batch, strict=True)):
                    types[place].update(map(type, column))
                    if datetime.datetime in types[place] and names[place] not in self.kinds:
                        zones = {value.tzinfo is not None for value in column if value is not None}
                        self.kinds[names[place]] = "instant" if True in zones else "datetime"
                file.write(encoded(map(tuple, batch), names))
        self.kinds = {name: kind_of(held) for name, held in zip(names, types, strict=True)} | {
            name: kind for name, kind in self.kinds.items() if kind == "instant"
        }
        super().__init__(path, shown)
        self.names, self.header_lines = names, 1
        with self._open() as stream:
            self.header = stream.readline()
        self.declared: Mapping[str, Declared] = relation.declared
        self.truths, self.ranges = relation.truths, dict(relation.ranges)
        self.kinds |= dict.fromkeys(self.truths, "bool")
        self.index = frozenset(relation.key if len(relation.key) == 1 else ())

    def _block(self, start: int, piece: Piece) -> TextBlock:
        return DatabaseBlock(self, start, piece)

    def line_of(self, row: int) -> str:
        """Return the row."""
        return f"row {row}"


class DatabaseBlock(TextBlock):
    """Some rows of a table of a database."""

    source: DatabaseSource

    def __init__(self, source: DatabaseSource, start: int, piece: Piece) -> None:
        super().__init__(source, start, piece)
        columns = zip(*decoded(piece.data), strict=True)
        self._columns = dict(zip(source.names, map(list, columns), strict=True))

    def cells(self, names: Sequence[str], kinds: Kinds) -> dict[str, Cells]:
        """Return columns as typed cells."""
        chosen = {}
        for name in names:
            column = self._columns[name]
            refuse_binary(name, column, self.start)
            chosen[name] = as_truths(column) if name in self.source.truths else column
        with located(-1, self.start, "row"):
            return typed_objects(chosen, Wanted({n: kind for n, kind in kinds.items() if n in chosen})).cells

    def values(self, names: Sequence[str]) -> dict[str, list[Any]]:
        """Return columns as they are in the database."""
        return {name: list(self._columns[name]) for name in names}
