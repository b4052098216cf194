"""From a block of rows and what fills its holes to the bytes of a part of the output."""

from __future__ import annotations

import datetime
import decimal
import io
import json
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from hybridbn.commands.arrow_sources import ArrowBlock, ArrowSource
from hybridbn.commands.database_sources import DatabaseSource
from hybridbn.commands.filling import Fills
from hybridbn.commands.profile import Profile
from hybridbn.commands.row_files import encoded
from hybridbn.commands.sources import Block, Source
from hybridbn.commands.splicing import spliced_arff, spliced_delimited, spliced_json
from hybridbn.commands.text_sources import ArffSource, DelimitedSource
from hybridbn.errors import TableError
from hybridbn.formats.tables import arff, delimited
from hybridbn.formats.tables.relations import NewColumn, as_truths

__all__ = ["Writer"]


@dataclass
class Writer:
    """Writes the parts of one output.

    Attributes
    ----------
    source : Source
    profile : Profile
    family : str
        Of the output.
    suffix : str
        Of a text file, which says its delimiter.
    delimiter : str, optional
    draws : bool
        Whether there is a first column that counts the draws.
    draw_column : str
    """

    source: Source
    profile: Profile
    family: str
    suffix: str
    delimiter: str | None = None
    draws: bool = False
    draw_column: str = "draw"

    def __post_init__(self) -> None:
        index = self.source.index if isinstance(self.source, ArrowSource) and self.family != "arrow" else set()
        self.names = [name for name in self.source.names if name not in index]
        if self.draws and self.draw_column in self.names:
            raise TableError(
                f"there is a column {self.draw_column!r} already; name that of the draws with --draw-column"
            )
        if self.family == "delimited":
            self.delimiter = delimited.checked_delimiter(self.delimiter, self.suffix)
        self.splices = self._splices()
        self.kinds = {name: self._kind(name) for name in self.names}
        if self.family == "arrow":
            self.schema = self._schema()

    def _splices(self) -> bool:
        source = self.source
        if isinstance(source, DelimitedSource):
            return self.family == "delimited" and source.delimiter == self.delimiter
        if source.family == "arff":
            return self.family == "arff" and not self.draws
        return source.family == "jsonlines" and self.family == "jsonlines"

    def _kind(self, name: str) -> str:
        """Return what a column holds, as `hybridbn.formats.tables.relations.NewColumn` says it."""
        column = self.profile.columns.get(name)
        origin = self.source.kinds[name] if isinstance(self.source, ArrowSource | DatabaseSource) else "other"
        if column is None or column.kind is None or column.overflowing:
            return "text" if self.source.family in ("delimited", "arff") else origin
        if column.kind == "number":
            if origin == "decimal" and self.family == "rows":
                return origin
            return "integer" if column.integer else "float"
        types = {type(state) for state in column.states}
        named: dict[type, str] = {str: "text", bool: "bool", int: "integer", float: "float"}
        if types <= {int, float} and len(types) > 1:
            return "float"
        return named.get(types.pop(), "other") if len(types) == 1 else "other"

    # -- texts ----------------------------------------------------------------------------------------------------

    def text(self, name: str, value: Any) -> str:
        """Return how a value that fills a hole is written."""
        column = self.profile.columns[name]
        if column.kind == "states":
            found = column.spelling.get(value)
            return found if found is not None else value if isinstance(value, str) else repr(value)
        text = str(int(value)) if column.integer else repr(float(value))
        return text.replace(".", ",") if self._commas else text

    @property
    def _commas(self) -> bool:
        """Whether numbers are written with a decimal comma, as they stand in the source."""
        return self.family == "delimited" and isinstance(self.source, DelimitedSource) and self.source.decimal == ","

    def header(self) -> bytes:
        """Return what stands before the rows of a text file."""
        source = self.source
        if self.family == "delimited":
            if self.splices and isinstance(source, DelimitedSource):
                header = source.lined(source.header)
                if not self.draws:
                    return header
                mark = b"\xef\xbb\xbf" if header.startswith(b"\xef\xbb\xbf") else b""
                rest = header.removeprefix(mark).lstrip(b"\r\n")
                return mark + f"{self._cell(self.draw_column)}{self.delimiter}".encode() + rest
            names = [self.draw_column, *self.names] if self.draws else self.names
            return (str(self.delimiter).join(map(self._cell, names)) + "\n").encode()
        if self.family == "arff":
            if self.splices and isinstance(source, ArffSource):
                return source.header if source.header.endswith(b"\n") else source.header + b"\n"
            return self._arff_header()
        return b""

    def _arff_header(self) -> bytes:
        lines, notes = ["@relation table", ""], dict[str, str]()
        if self.draws:
            lines.append(f"@attribute {arff.quoted_word(self.draw_column)} integer")
        names = {"integer": "integer", "float": "numeric"}
        for name in self.names:
            column, kind = self.profile.columns.get(name), self.kinds[name]
            if column is not None and column.kind == "states" and not column.overflowing:
                states = ",".join(arff.quoted_word(self.text(name, state)) for state in column.states)
                if kind in ("integer", "float", "bool"):
                    notes[name] = kind
                lines.append(f"@attribute {arff.quoted_word(name)} {{{states}}}")
            else:
                lines.append(f"@attribute {arff.quoted_word(name)} {names.get(kind, 'string')}")
        if notes:
            lines.insert(1, arff.NOTE + json.dumps(notes))
        return "\n".join([*lines, "", "@data", ""]).encode()

    def _cell(self, text: str) -> str:
        return delimited.quoted_cell(text, str(self.delimiter), set(delimited.MISSING))

    # -- parts ----------------------------------------------------------------------------------------------------

    def part(self, block: Any, fills: Fills, draw: int) -> bytes:
        """Return the block as a part of the output."""
        if isinstance(block, ArrowBlock) and self.family == "arrow":
            return self._packed(self._filled(block, fills), draw)
        if self.splices:
            first = str(draw + 1) if self.draws else ""
            if self.family == "delimited":
                return self._lined(spliced_delimited(block, fills, self, f"{first}{self.delimiter}" if first else ""))
            if self.family == "jsonlines":
                prefix = f"{json.dumps(self.draw_column)}: {first}, " if first else ""
                return self._lined(spliced_json(block, fills, self, prefix))
            return spliced_arff(block, fills, self)
        columns = self._columns(block, fills)
        if self.draws:
            columns = {self.draw_column: [draw + 1] * block.rows, **columns}
        writers: dict[str, Callable[[dict[str, list[Any]]], bytes]] = {
            "delimited": self._delimited,
            "jsonlines": _json_lines,
            "arff": self._arff,
            "arrow": lambda found: self._packed(self._arrow(found), None),
            "rows": lambda found: encoded(zip(*found.values(), strict=True), list(found)),
        }
        return writers[self.family](columns)

    def _lined(self, data: bytes) -> bytes:
        # the last line of a file may lack its end, which it needs where another draw follows
        return data if not self.draws or data[-1:] in (b"\n", b"\r", b"") else data + b"\n"

    def _columns(self, block: Block, fills: Fills) -> dict[str, list[Any]]:
        """Return all columns as Python values, the holes filled."""
        typed = [name for name in self.names if self._is_typed(name)]
        texts = self.source.spelled or self.source.family == "arff"
        found = block.values(self.names)
        if texts:
            keep_texts = self.family == "delimited"
            for name in typed:
                found[name] = self._read(name, found[name], keep_texts)
        if isinstance(self.source, DatabaseSource) and self.family != "rows":
            for name in self.source.truths & set(found):
                found[name] = as_truths(found[name])
        makers: dict[str, Callable[[Any], Any]] = {"float": float, "integer": int, "decimal": _decimal}
        for name in typed:
            if self.kinds[name] == "float" and self.family != "delimited":
                # exact decimals of a database go where only floats are
                found[name] = [float(v) if isinstance(v, decimal.Decimal) else v for v in found[name]]
        for name, (rows, values) in fills.items():
            column = found[name]
            made = makers[self.kinds[name]] if self.profile.columns[name].kind == "number" else _same
            if self._commas and made is float:
                made = partial(self.text, name)
            for row, value in zip(rows.tolist(), values, strict=True):
                column[row] = made(value)
        return found

    def new_columns(self) -> list[NewColumn]:
        """Return the columns of a new table of a database."""
        declared = self.source.declared if isinstance(self.source, DatabaseSource) else {}
        made = [NewColumn(name, self.kinds[name], declared.get(name)) for name in self.names]
        return [NewColumn(self.draw_column, "integer"), *made] if self.draws else made

    def _is_typed(self, name: str) -> bool:
        column = self.profile.columns.get(name)
        return column is not None and column.kind is not None and not column.overflowing

    def _read(self, name: str, texts: Sequence[str | None], keep: bool) -> list[Any]:
        column = self.profile.columns[name]
        if column.kind == "number":
            made = _Spelled if keep else int if column.integer else float
            if not keep and isinstance(self.source, DelimitedSource) and self.source.decimal == ",":
                texts = [text if text is None else delimited.point_for_comma(text) for text in texts]
            return [None if text is None or not text.strip() else made(text) for text in texts]
        if keep:
            return list(texts)
        if self.source.spelled:
            states: dict[Hashable, Hashable] = {text: column.states[code] for text, code in column.codes.items()}
        else:
            states = {state if isinstance(state, str) else repr(state): state for state in column.states}
        return [None if text is None else states[text] for text in texts]

    # -- families -------------------------------------------------------------------------------------------------

    def _delimited(self, columns: dict[str, list[Any]]) -> bytes:
        sign, quoted = str(self.delimiter), set(delimited.MISSING)
        hole = "NA" if len(columns) == 1 else ""
        texts = [
            [hole if v is None else delimited.quoted_cell(_plain(v), sign, quoted) for v in values]
            for values in columns.values()
        ]
        return "".join(f"{line}\n" for line in map(sign.join, zip(*texts, strict=True))).encode()

    def _arff(self, columns: dict[str, list[Any]]) -> bytes:
        texts = [
            ["?" if value is None else arff.quoted_word(_plain(value)) for value in values]
            for values in columns.values()
        ]
        return "".join(f"{line}\n" for line in map(",".join, zip(*texts, strict=True))).encode()

    def _schema(self) -> Any:
        import pyarrow

        types = {
            "integer": pyarrow.int64(),
            "float": pyarrow.float64(),
            "bool": pyarrow.bool_(),
            "date": pyarrow.date32(),
            "datetime": pyarrow.timestamp("us"),
            "instant": pyarrow.timestamp("us", "UTC"),
            "time": pyarrow.time64("us"),
            "interval": pyarrow.duration("us"),
            "bytes": pyarrow.binary(),
        }
        if isinstance(self.source, ArrowSource):
            schema = self.source.schema
            for place, field in enumerate(schema):
                if pyarrow.types.is_dictionary(field.type):
                    # one dictionary for all parts, whose codes may need more bits; columns that are left alone as plain ones
                    text = pyarrow.dictionary(pyarrow.int32(), field.type.value_type, ordered=field.type.ordered)
                    schema = schema.set(
                        place, field.with_type(text if self._is_typed(field.name) else field.type.value_type)
                    )
        else:
            schema = pyarrow.schema([(n, types.get(self.kinds[n], pyarrow.string())) for n in self.names])
        if self.draws:
            schema = schema.insert(0, pyarrow.field(self.draw_column, pyarrow.int32()))
        return schema

    def _arrow(self, columns: dict[str, list[Any]]) -> Any:
        import pyarrow

        arrays = []
        for field in self.schema:
            values = columns[field.name]
            if pyarrow.types.is_string(field.type):
                values = [v if v is None or isinstance(v, str) else _plain(v) for v in values]
            elif pyarrow.types.is_floating(field.type):
                values = [v if v is None else float(v) for v in values]
            arrays.append(pyarrow.array(values, field.type))
        return pyarrow.table(arrays, schema=self.schema)

    def _filled(self, block: ArrowBlock, fills: Fills) -> Any:
        """Return the block's own table, holes filled in its own types."""
        import pyarrow
        from pyarrow import compute

        table = block.table
        for name, (rows, values) in fills.items():
            place = table.column_names.index(name)
            column = table.column(place).combine_chunks()
            kind = column.type.value_type if pyarrow.types.is_dictionary(column.type) else column.type
            if pyarrow.types.is_integer(kind):
                low, high = block.source.ranges[name]
                values = [int(min(max(value, low), high)) for value in values]
            elif pyarrow.types.is_decimal(kind):
                values = [
                    decimal.Decimal(repr(value)).quantize(decimal.Decimal(1).scaleb(-kind.scale)) for value in values
                ]
            mask = np.zeros(block.rows, dtype=bool)
            mask[rows] = True
            dense = column.cast(kind) if kind is not column.type else column
            order = np.argsort(rows, kind="stable")
            fill = pyarrow.array([values[i] for i in order.tolist()], kind)
            done = compute.replace_with_mask(dense, pyarrow.array(mask), fill)
            table = table.set_column(place, table.schema.field(place).with_type(done.type), done)
        return table

    def _coded(self, table: Any) -> Any:
        """Give columns of states, where the file has them so, the dictionary of the whole table."""
        import pyarrow
        from pyarrow import compute

        for place, field in enumerate(self.schema):
            if pyarrow.types.is_dictionary(field.type):
                profile = self.profile.columns[field.name]
                levels = list(dict.fromkeys([*(profile.declared or ()), *profile.states]))
                dictionary = pyarrow.array(levels, field.type.value_type)
                dense = table.column(place).cast(field.type.value_type).combine_chunks()
                codes = compute.index_in(dense, value_set=dictionary).cast(pyarrow.int32())
                coded = pyarrow.DictionaryArray.from_arrays(codes, dictionary, ordered=field.type.ordered)
                table = table.set_column(place, field, coded)
        return table

    def _packed(self, table: Any, draw: int | None) -> bytes:
        import pyarrow

        if self.draws and draw is not None:
            count = pyarrow.array(np.full(table.num_rows, draw + 1, dtype=np.int32))
            table = table.add_column(0, self.draw_column, count)
        table = self._coded(table).cast(self.schema)
        sink = io.BytesIO()
        options = pyarrow.ipc.IpcWriteOptions(compression="lz4" if pyarrow.Codec.is_available("lz4") else None)
        with pyarrow.ipc.new_file(sink, table.schema, options=options) as file:
            file.write_table(table)
        return sink.getvalue()


def _decimal(value: float) -> decimal.Decimal:
    return decimal.Decimal(repr(float(value)))


def _same(value: Any) -> Any:
    return value


class _Spelled(str):
    """A number as it is written in the file."""

    __slots__ = ()


def _plain(value: Any) -> str:
    if isinstance(value, str):
        return str(value)
    if isinstance(value, datetime.date | datetime.time):
        return value.isoformat()
    if isinstance(value, float) and not isinstance(value, bool):
        return repr(float(value))
    if isinstance(value, dict | list):
        return json.dumps(value, ensure_ascii=False)
    return value.hex() if isinstance(value, bytes) else str(value)


def _json_lines(columns: dict[str, list[Any]]) -> bytes:
    keys = [json.dumps(name, ensure_ascii=False) for name in columns]
    lines = []
    for row in zip(*columns.values(), strict=True):
        cells = (
            f"{key}: {json.dumps(value, ensure_ascii=False, default=_plain)}"
            for key, value in zip(keys, row, strict=True)
        )
        lines.append(f"{{{', '.join(cells)}}}\n")
    return "".join(lines).encode()
