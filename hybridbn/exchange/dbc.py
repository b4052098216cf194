"""Tables in Elvira's data bases (``.dbc``): declared variables, then one bracket of values for each case."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import IO, ClassVar, NoReturn

import numpy as np
from numpy.typing import NDArray

from hybridbn.errors import FormatError
from hybridbn.exchange.elvira_syntax import ElviraNode, parse_head, remove_quotes
from hybridbn.exchange.parsing import NUMBER, SourceText, decode_source
from hybridbn.tables.cells import Cells, check_numbers, label_codes
from hybridbn.tables.columns import ColumnSource
from hybridbn.tables.formats.base import FileFormat
from hybridbn.tables.formats.typed_columns import ReadColumns, WantedColumns
from hybridbn.variables import shorten

__all__ = ["ElviraCases"]

_ROW = re.compile(r"\s*\[([^\[\]]*)\]\s*,?")
_CELL = re.compile(r'"[^"]*"|[^,\s]+')


class ElviraCases(FileFormat):
    """Elvira's data bases, which are only read: Elvira reads comma-separated files, too."""

    title = "Elvira's data bases"
    position = 6
    suffixes: ClassVar[tuple[str, ...]] = (".dbc",)
    packable = True
    text = True
    unwritable = "tables are not written as .dbc; write .csv, which Elvira imports, or .arff"

    def read(
        self, file: Path | IO[bytes], wanted: WantedColumns, suffix: str, *, encoding: str | None = None
    ) -> ReadColumns:
        """Read a data base; ``?`` is a missing value, and the values of discrete variables are states or their
        indices.
        """
        return _read(file, wanted, encoding)


def _read(file: Path | IO[bytes], wanted: WantedColumns, encoding: str | None) -> ReadColumns:
    raw = file.read_bytes() if isinstance(file, Path) else file.read()
    text = decode_source(raw, str(file) if isinstance(file, Path) else "<dbc>", encoding)
    syntax, start = parse_head(text)
    nodes = list(syntax.nodes.values())
    if not nodes:
        raise FormatError(f"{text.name}: no node is declared")
    rows, starts = _parse_cases(text, start, len(nodes))
    if syntax.cases is not None and syntax.cases != str(len(rows)):
        raise FormatError(
            f"{text.name}: {syntax.cases[:20]} cases are announced (number-of-cases), but there are {len(rows)}; is the"
            " file complete?"
        )
    names = wanted.names([node.name for node in nodes])
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(nodes)
    cells: dict[str, Cells] = {}
    sources: dict[str, ColumnSource] = {}
    for node, column in zip(nodes, columns, strict=True):
        if node.name not in names:
            continue

        def fail(row: int, reason: str) -> NoReturn:
            text.fail(starts[row], reason)

        if node.continuous:
            if wanted.kind(node.name) == "discrete":
                raise FormatError(f"{text.name}: {node.name!r} is declared continuous; it can't be read as discrete")
            values = np.empty(len(column))
            for row, cell in enumerate(column):
                if cell != "?" and not NUMBER.fullmatch(cell):
                    fail(row, f"{node.name!r}: {cell[:40]!r} is not a number; write ? for a missing value")
                values[row] = np.nan if cell == "?" else float(cell)
                if np.isinf(values[row]):
                    fail(row, f"{node.name!r}: {cell[:40]!r} is beyond the range of numbers")
            cells[node.name] = check_numbers(node.name, values)
        else:
            if wanted.kind(node.name) == "continuous":
                raise FormatError(
                    f"{text.name}: {node.name!r} is declared finite-states; it can't be read as continuous"
                )
            cells[node.name] = _type_states(node, column, text, syntax.states, fail)
    return ReadColumns({name: cells[name] for name in names}, sources)


def _type_states(
    node: ElviraNode,
    column: tuple[str, ...],
    text: SourceText,
    default: list[str] | None,
    fail: Callable[[int, str], NoReturn],
) -> Cells:
    from hybridbn.exchange.elvira import discrete_of  # which imports all potentials

    variable = discrete_of(node, text, default)
    codes_of = {str(code): code for code in range(len(variable))}
    codes_of |= {remove_quotes(label): code for code, label in enumerate(node.states or default or ())}
    codes_of["?"] = -1
    codes: NDArray[np.intp] = np.empty(len(column), dtype=np.intp)
    for row, cell in enumerate(column):
        code = codes_of.get(cell)
        if code is None:
            fail(row, f"{node.name!r} has no state {cell[:40]!r}; its states are {shorten(node.states or ())}")
        codes[row] = code
    return label_codes(node.name, codes, list(variable.states), declared=True)


def _parse_cases(text: SourceText, start: int, width: int) -> tuple[list[list[str]], list[int]]:
    """Return the cells of each case, and where it starts."""
    rows: list[list[str]] = []
    starts: list[int] = []
    position = start
    while match := _ROW.match(text.text, position):
        inner = match[1]
        row = (
            [remove_quotes(cell) for cell in _CELL.findall(inner)] if '"' in inner else inner.replace(",", " ").split()
        )
        if len(row) != width:
            text.fail(match.start(1), f"{len(row)} values in a case, but {width} nodes are declared")
        rows.append(row)
        starts.append(match.start(1))
        position = match.end()
    rest = re.compile(r"\s*\)\s*;?").match(text.text, position)
    if rest is None:
        excerpt = text.text[position : position + 40].strip().split("\n")[0]
        text.fail(
            min(position, len(text.text.rstrip())),
            f"expected a case [ ... ] or `)`, found {excerpt!r}; is the file truncated?",
        )
    return rows, starts
