"""The completed table: blocks with imputed cells become parts, and the parts become the output, whole or not at all."""

from __future__ import annotations

import decimal
import os
import sys
from collections.abc import Callable, Hashable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from hybridbn.commands.column_profiles import TableProfile
from hybridbn.commands.locations import Location, encoding_of_file, report_present_output
from hybridbn.commands.terminal import OutputTaken
from hybridbn.errors import TableError
from hybridbn.tables import Table
from hybridbn.tables.formats.base import (
    ROWS_OF_BATCH,
    Field,
    FileFormat,
    FileWriter,
    Fills,
    TableBlock,
    TableSource,
    cell_values,
    kind_of_states,
)
from hybridbn.tables.formats.database_base import Database, DatabaseWriter
from hybridbn.tables.formats.files import NameTaken, replace_file
from hybridbn.tables.formats.typed_columns import parse_states
from hybridbn.variables import Discrete, Variable


class Output:
    """The completed table that is written.

    Parameters
    ----------
    counter : str, optional
        The name of a first column that counts the draws.
    encoding : str, optional
        The encoding of a text file; by default that of the source.
    added : sequence of Field
        Columns that the source doesn't have.
    """

    def __init__(
        self,
        location: Location,
        source: TableSource,
        profile: TableProfile,
        counter: str | None,
        encoding: str | None,
        added: Sequence[Field] = (),
    ) -> None:
        self._location, self._source, self._profile, self._form = location, source, profile, location.form
        self.names: list[str] = [n for n in source.names if self._form.keeps_index or n not in source.frame_index]
        remedies = {counter: "name that of the draws with --draw-column"}
        remedies |= {field.name: "choose other names with --prefix" for field in added}
        for name in (name for name in self.names if name in remedies):
            raise TableError(f"there is a column {name!r} already; {remedies[name]}")
        fields = [self._make_field(name) for name in self.names]
        self.kinds: dict[str, str] = {field.name: field.kind for field in (*fields, *added)}
        self.writer: FileWriter | DatabaseWriter = self._make_writer(
            [*fields, *added], None if added else source, counter, encoding
        )
        # A text format that writes numbers digit by digit copies them from a text source as they are.
        self._keeps_text = isinstance(self._form, FileFormat) and self._form.text and self._form.exact
        self._spells_numbers = self._keeps_text and not source.dialect.is_plain
        self._spellings = (
            find_spellings(source, profile.usable.variables) if source.spelled and self._keeps_text else {}
        )

    def _make_writer(
        self,
        fields: list[Field],
        origin: TableSource | None,
        counter: str | None,
        encoding: str | None,
    ) -> FileWriter | DatabaseWriter:
        form = self._form
        if isinstance(form, Database):
            writer = DatabaseWriter(form, fields, self._location.url, counter)
            with report_present_output(self._location.shown):
                writer.try_to_create()  # so that it is refused now, before anything is learned
            return writer
        known = self._source.dialect.writing(self._location.suffix) if "delimiter" in form.options else {}
        told = encoding_of_file(form, encoding)
        known |= {} if told is None else {"encoding": told}
        return form.writer(fields, self._location.suffix, origin=origin, counter=counter, **known)

    def _is_typed(self, name: str) -> bool:
        column = self._profile.columns.get(name)
        return column is not None and column.variable is not None and not column.overflowing

    def _make_field(self, name: str) -> Field:
        """Return the field of a column: from the profile of its values if there is one, else from its type."""
        field = self._source.field(name)
        if not self._is_typed(name):
            return field._replace(states=None)
        column = self._profile.columns[name]
        if column.unit is not None:
            kind = field.kind if column.unit.pattern is None else "text"
            return field._replace(kind=kind, states=None, unit=column.unit)
        if column.kind == "number":
            exact = field.kind == "decimal" and self._form.exact
            return field._replace(kind="decimal" if exact else "integer" if column.integer else "float", states=None)
        return field._replace(kind=kind_of_states(column.states), states=column.states)

    # -- parts --------------------------------------------------------------------------------------------------------

    def extend_part(self, block: TableBlock, added: Table) -> bytes:
        """Return a block with the added columns as a part of the output."""
        columns = self._fill_columns(block, {})
        for name in added.names:
            columns[name] = cell_values(added, name)
            if self._spells_numbers and self.kinds[name] == "float":
                columns[name] = [v if v is None else self._source.dialect.spell(name, repr(v)) for v in columns[name]]
        return self.writer.make_part(columns)

    def make_part(self, block: TableBlock, fills: Fills, draw: int) -> bytes:
        """Return a block with its imputed cells as a part of the output."""
        fills = {name: (rows, self._profile.columns[name].restore(values)) for name, (rows, values) in fills.items()}
        if self.writer.origin is not None:
            return self.writer.splice(block, fills, self._spell, draw)
        return self.writer.make_part(self._fill_columns(block, fills), draw)

    def _spell(self, name: str, value: Any) -> str:
        """Return the text of an imputed value."""
        column = self._profile.columns[name]
        if column.unit is not None:
            return str(value)
        if column.kind == "states":
            spelled = self._spellings.get(name, {}).get(value)
            return spelled if spelled is not None else value if isinstance(value, str) else repr(value)
        return self._source.dialect.spell(name, str(int(value)) if column.integer else repr(float(value)))

    def _fill_columns(self, block: TableBlock, fills: Fills) -> dict[str, list[Any]]:
        """Return all columns as Python values, with imputed cells in place of missing ones."""
        columns = block.values(self.names)
        for name in filter(self._is_typed, self.names):
            if self._source.textual:
                columns[name] = self._convert_texts(name, columns[name])
            if self.kinds[name] == "float" and not self._keeps_text:
                columns[name] = [float(v) if isinstance(v, decimal.Decimal) else v for v in columns[name]]
        for name, (rows, values) in fills.items():
            convert, column = self._converter_of(name), columns[name]
            for row, value in zip(rows.tolist(), values, strict=True):
                column[row] = convert(value)
        return columns

    def _converter_of(self, name: str) -> Callable[[Any], Any]:
        """Return the function that converts imputed values to the type of their column."""
        if self._profile.columns[name].kind != "number" or self._profile.columns[name].unit is not None:
            return lambda value: value
        if self._spells_numbers:
            return lambda value: self._spell(name, value)
        if self.kinds[name] == "decimal":
            return lambda value: decimal.Decimal(repr(float(value)))
        return int if self.kinds[name] == "integer" else float

    def _convert_texts(self, name: str, texts: Sequence[str | None]) -> list[Any]:
        """Convert the texts of a column to the numbers or states they stand for."""
        column, source = self._profile.columns[name], self._source
        if column.kind == "number":
            stays = self._keeps_text or column.unit is not None
            convert: Callable[[str], Any] = str if stays else int if column.integer else float
            if not stays:
                texts = [text if text is None else source.dialect.plain(text) or text for text in texts]
            return [None if text is None or not text.strip() else convert(text) for text in texts]
        if self._keeps_text or kind_of_states(column.states) == "text":
            return list(texts)
        return [None if text is None else parse_states([text])[0] for text in texts]

    # -- the whole ----------------------------------------------------------------------------------------------------

    def assemble(self, parts: Sequence[Path], overwrite: bool, before: Callable[[os.stat_result | None], None]) -> None:
        """Join the parts; `before` is called when all bytes are on the disk and the file only lacks its name."""
        contents = (part.read_bytes() for part in parts)
        if isinstance(self.writer, DatabaseWriter):
            before(None)
            with report_present_output(self._location.shown):
                self.writer.insert(contents)
            return
        if self._location.path is None:
            before(None)
            self.writer.join(contents, sys.stdout.buffer)
            sys.stdout.buffer.flush()
            return
        try:
            with replace_file(
                self._location.path, overwrite=overwrite, packed=self._location.packed, before=before
            ) as file:
                self.writer.join(contents, file)
        except NameTaken:
            shown = self._location.shown
            raise OutputTaken(f"{shown} has appeared meanwhile, and --no-clobber says to leave it") from None


def find_spellings(source: TableSource, variables: Sequence[Variable]) -> dict[str, dict[Hashable, str]]:
    """Return how the first cell with each state is written in a file of text, of columns where Python may write it
    otherwise: truth values and fractions.
    """
    odd = (bool, float)
    names = [one.name for one in variables if isinstance(one, Discrete) and any(isinstance(s, odd) for s in one.states)]
    spellings: dict[str, dict[Hashable, str]] = {name: {} for name in names}
    for block in source.blocks(ROWS_OF_BATCH) if names else ():
        for name, cells in block.cells(names, dict.fromkeys(names, "text")).items():
            codes, rows = np.unique(cells.array, return_index=True)
            for code in codes[np.argsort(rows)].tolist():
                text = str((cells.states or ())[code]) if code >= 0 else ""
                if text:
                    spellings[name].setdefault(parse_states([text])[0], text)
    return spellings
